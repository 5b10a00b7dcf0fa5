//! What the tests feed in: lessons and run files made up here, and the shared data where it is there.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::program::workspace;

/// The shared data: `FOLKLORE_SHARED_DATA`, else `../shared/data` beside the workspace. None, said on stdout, where it is
/// absent.
pub fn shared_data() -> Option<PathBuf> {
    let named = std::env::var_os("FOLKLORE_SHARED_DATA").map(PathBuf::from);
    let path = named.unwrap_or_else(|| workspace().join("../shared/data"));
    if path.join("tau-bench").is_dir() && path.join("mini-swe-agent").is_dir() {
        return Some(path.canonicalize().expect("a directory that is there has a path"));
    }
    println!("skipped: no shared data at {}", path.display());
    None
}

/// The request that imports all runs of the shared data that the formats of this build read, with their labels.
pub fn import_shared(data: &Path) -> Value {
    let mini = data.join("mini-swe-agent");
    json!({"paths": [mini, data.join("tau-bench")], "outcomes": mini.join("outcomes.json")})
}

/// A lesson about the word `about`, different for each word.
pub fn lesson(about: &str) -> Value {
    json!({
        "kind": "pitfall",
        "title": format!("The {about} valve sticks when the boiler is cold"),
        "applies_when": format!("A heating agent opens the {about} valve through the plant's controller."),
        "not_when": "The boiler has been warm for an hour.",
        "content": format!("Opening the {about} valve below 40 degrees tripped the breaker. Warm the boiler first, then open it in steps of ten per cent."),
        "task": format!("Start the heating circuit of the {about} wing"),
        "domain": "plant",
        "tags": ["heating", about],
    })
}

/// Numbers that look random and are the same for the same seed (SplitMix64).
#[derive(Debug, Clone)]
pub struct Dice(pub u64);

impl Dice {
    /// The next number.
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// The next number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.roll() % end
    }

    /// Characters of `alphabet`, which is ASCII.
    pub fn text(&mut self, alphabet: &str, length: usize) -> String {
        (0..length).map(|_| alphabet.as_bytes()[self.below(alphabet.len() as u64) as usize] as char).collect()
    }
}

/// One failed run of a made-up hotel desk in the shape of a tau-bench result: the agent moves guest `n` to another room
/// than the one asked for. Each `n` is a task of its own and teaches a lesson of its own.
pub fn hotel_run(n: u64) -> Value {
    const SIDES: [&str; 6] = ["harbour", "garden", "courtyard", "street", "tower", "orchard"];
    const REASONS: [&str; 7] = [
        "noise from the lift",
        "a broken shower",
        "a smell of paint",
        "a cot",
        "the sun",
        "two dogs",
        "an early train",
    ];
    let side = SIDES[(n % 6) as usize];
    let reason = REASONS[(n % 7) as usize];
    let booking = format!("BK-{n:05}");
    let call = |name: &str, arguments: &Value| {
        json!({"role": "assistant", "content": null, "tool_calls": [
            {"id": format!("call_{n}_{name}"), "type": "function", "function": {"name": name, "arguments": arguments.to_string()}}
        ]})
    };
    let tool = |name: &str, content: String| json!({"role": "tool", "name": name, "content": content});
    let wrong = json!({"booking_id": booking, "room": format!("{side}-{}", n + 100)});
    let right = json!({"booking_id": booking, "room": format!("{side}-{}", n + 101)});
    json!({
        "task_id": format!("hotel-{n}"),
        "reward": 0.0,
        "info": {
            "task": {
                "instruction": format!("You booked a stay under {booking} and want to move to the {side} side because of {reason}; you only take room {}.", n + 101),
                "actions": [{"name": "update_booking_room", "kwargs": right}],
            },
            "reward_info": {"reward": 0.0, "info": {"outputs": {}}},
        },
        "traj": [
            {"role": "system", "content": "You run the desk of a hotel."},
            {"role": "user", "content": format!("Hello, I want to move to the {side} side, {reason} keeps me awake. My booking is {booking}.")},
            call("get_booking", &json!({"booking_id": booking})),
            tool("get_booking", json!({"booking_id": booking, "status": "confirmed", "room": format!("cellar-{n}"), "free": [format!("{side}-{}", n + 100), format!("{side}-{}", n + 101)]}).to_string()),
            call("update_booking_room", &wrong),
            tool("update_booking_room", json!({"booking_id": booking, "status": "confirmed", "room": format!("{side}-{}", n + 100)}).to_string()),
            {"role": "assistant", "content": format!("You are in {side}-{} now.", n + 100)},
            {"role": "user", "content": "###STOP###"},
        ],
        "trial": 0,
    })
}

/// Writes runs `from..to` as one file of an array, and returns its path.
#[track_caller]
pub fn hotel_file(dir: &Path, name: &str, runs: std::ops::Range<u64>) -> PathBuf {
    let items: Vec<Value> = runs.map(hotel_run).collect();
    write(dir, name, Value::from(items).to_string().as_bytes())
}

/// Writes a file and returns its path.
#[track_caller]
pub fn write(dir: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = dir.join(name);
    std::fs::create_dir_all(dir).and_then(|()| std::fs::write(&path, bytes)).expect("a file in the scratch directory");
    path
}
