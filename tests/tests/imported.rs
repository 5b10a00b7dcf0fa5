//! What comes from other systems: lessons that are not induced here, and imports that are cut short.

use std::{fmt::Write, path::PathBuf};

use folklore_tests::{
    Node,
    inputs::{Dice, hotel_run, write},
};
use serde_json::{Value, json};

#[test]
fn a_bank_of_another_system_is_taught_once_and_says_where_it_comes_from() {
    let node = Node::started("a");
    let token = format!("ghp_{}", Dice(7).text("abcdefghijklmnopqrstuvwxyz0123456789", 36));
    let playbook = format!(
        "## STRATEGIES\n[shr-00001] For paginated payment requests: read every page before you add up.\n\
         [shr-00002] Log in to the mail door with {token} before you list the alarm clocks.\n\n\
         ## COMMON MISTAKES\n[err-00003] Guessing the id of a playlist.\n"
    );
    let dir = node.scratch().join("bank");
    write(&dir, "playbook.txt", playbook.as_bytes());
    write(&dir, "README.md", b"# Just words\n");
    let import = || node.json(["import".into(), dir.clone().into_os_string()]);

    let first = import();
    assert_eq!((&first["lessons"], &first["runs"], &first["skipped"]), (&json!(3), &json!(0), &json!([])), "{first}");
    let lessons = node.lessons();
    for lesson in &lessons {
        let shown = node.show(lesson["id"].as_str().expect("an id")).to_string();
        assert!(shown.contains("\"induced_by\":\"imported\"") && !shown.contains(&token), "{shown}");
    }
    let pitfalls: Vec<&Value> = lessons.iter().filter(|lesson| lesson["kind"] == "pitfall").collect();
    assert_eq!(pitfalls.len(), 1, "{lessons:?}");
    let found = node.recall(&json!({"task": "read every page of the paginated payment requests"}));
    assert!(
        found["hits"][0]["lesson"]["content"].as_str().is_some_and(|words| words.contains("every page")),
        "{found}"
    );

    let again = import();
    assert_eq!((&again["lessons"], &again["duplicates"]), (&json!(0), &json!(3)), "{again}");
}

/// A file of this many runs, each a few kilobytes.
fn many(node: &Node, runs: u64) -> PathBuf {
    let mut lines = String::new();
    for n in 0..runs {
        let mut run = hotel_run(n);
        run["trial"] = n.into();
        let padding = format!("room {n} is free. ").repeat(200);
        if let Some(messages) = run["traj"].as_array_mut() {
            messages.push(json!({"role": "user", "content": padding}));
        }
        writeln!(lines, "{run}").expect("memory");
    }
    write(node.scratch(), "many.jsonl", lines.as_bytes())
}

#[test]
fn an_import_that_is_cut_short_in_the_middle_of_a_file_is_repeated_to_the_end() {
    const RUNS: u64 = 2000;
    let node = Node::started("a");
    let path = many(&node, RUNS);
    let mut events = node.door().import(&json!({"paths": [path]}));
    let mut seen: Vec<Value> = Vec::new();
    for event in &mut events {
        let inside = event["event"] == "progress" && event["done_bytes"] != 0;
        seen.push(event);
        if inside {
            break;
        }
    }
    drop(events);
    let last = seen.last().expect("an event");
    assert!(last["event"] == "progress" && last["done_bytes"].as_u64() < last["total_bytes"].as_u64(), "{seen:?}");

    let answer = node.json(["import".into(), path.into_os_string()]);
    let (new, old) = (answer["runs"].as_u64(), answer["duplicates"].as_u64());
    assert_eq!(new.zip(old).map(|(new, old)| new + old), Some(RUNS), "{answer}");
    assert!(old > Some(0), "nothing of the first try was kept: {answer}");
    assert_eq!(answer["skipped"], json!([]));
}
