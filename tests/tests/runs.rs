//! Runs under way: what a real daemon acknowledged survives `kill -9`, once, and whoever was fenced off is told.

use std::{
    collections::BTreeSet,
    env,
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use folklore_tests::{
    Node,
    door::Door,
    inputs::{Dice, lesson},
    node::text,
};
use serde_json::{Value, json};

/// Moments at which the daemon is killed, ordinarily and with `FOLKLORE_ALL_CRASHES`.
const MOMENTS: (u64, u64) = (12, 200);
/// Runs that are written side by side.
const RUNS: usize = 3;
/// A run is ended, and another begun in its place, when it has about so many steps.
const LONG: usize = 60;

const TASK: &str = "Refund a broken vase that was paid half by gift card";

fn moments() -> u64 {
    if env::var_os("FOLKLORE_ALL_CRASHES").is_some() { MOMENTS.1 } else { MOMENTS.0 }
}

/// Step `n` of a run, with texts that no other step of it has; some are long.
fn step(name: &str, n: usize) -> Value {
    let observation = format!("seen {name} {n} {}", "x".repeat((n * 7919) % 40_000));
    json!({"n": n, "think": format!("think {n}"), "action": format!("act {name} {n}"), "observation": observation})
}

fn with_run(mut step: Value, run: &str) -> Value {
    step["run"] = json!(run);
    step
}

/// A run as its agent knows it.
#[derive(Debug)]
struct Agent {
    /// What its steps are called after; runs that are to be compared share it.
    name: String,
    run: String,
    /// Steps that were acknowledged.
    acknowledged: usize,
    /// The state that the last acknowledgement told.
    state: String,
}

impl Agent {
    fn begin(door: &Door, name: &str) -> Self {
        let (code, begun) = door.post("begin", &json!({"task": TASK, "name": name}));
        assert_eq!(code, 200, "{begun}");
        Self { name: name.into(), run: text(&begun["run"]), acknowledged: 0, state: text(&begun["state"]) }
    }

    /// Records steps until the daemon is gone.
    fn work(&mut self, door: &Door) {
        while self.acknowledged < LONG + 20 {
            let n = self.acknowledged + 1;
            let asked = if n.is_multiple_of(3) {
                let mut mark = with_run(json!({"n": n, "action": format!("act {} {n}", self.name)}), &self.run);
                mark["started"] = json!(true);
                door.try_post("step", &mark).map(|_| ())
            } else {
                Ok(())
            };
            let Ok((code, done)) =
                asked.and_then(|()| door.try_post("step", &with_run(step(&self.name, n), &self.run)))
            else {
                return;
            };
            assert_eq!(code, 200, "{done}");
            self.acknowledged = n;
            self.state = text(&done["state"]);
        }
    }

    /// Resumes after a kill: everything acknowledged is there, nothing twice, and at most what was under way besides.
    fn resume(&mut self, door: &Door) {
        let (code, held) = door.post("resume", &json!({"run": self.name, "k": 0}));
        assert_eq!(code, 200, "{held}");
        let steps = held["steps"].as_array().expect("steps");
        assert!(
            (self.acknowledged..=self.acknowledged + 1).contains(&steps.len()),
            "{}: {} steps acknowledged, {} held",
            self.name,
            self.acknowledged,
            steps.len()
        );
        let actions: BTreeSet<String> = steps.iter().map(|step| text(&step["action"])).collect();
        assert_eq!(actions.len(), steps.len(), "{}: a step is doubled", self.name);
        for (n, held) in (1..).zip(steps) {
            let wanted = step(&self.name, n);
            for part in ["n", "think", "action", "observation"] {
                assert_eq!(held[part], wanted[part], "{} step {n}", self.name);
            }
        }
        if steps.len() == self.acknowledged {
            assert_eq!(held["state"], self.state, "{}", self.name);
        }
        let next = steps.len() + 1;
        assert_eq!(held["next"], next);
        for mark in held["uncertain"].as_array().expect("a list") {
            assert_eq!(mark["n"], next, "{}: uncertain of what is done: {mark}", self.name);
        }
        // The agent that was killed with the daemon and comes back to life.
        let (code, fenced) = door.post("step", &with_run(step(&self.name, next), &self.run));
        assert_eq!(code, 403, "{fenced}");
        self.run = text(&held["run"]);
        // What was under way is repeated, and is one step.
        for n in self.acknowledged.max(1)..=next {
            let (code, done) = door.post("step", &with_run(step(&self.name, n), &self.run));
            assert_eq!((code, &done["known"]), (200, &json!(n < next)), "{done}");
            self.state = text(&done["state"]);
        }
        self.acknowledged = next;
    }
}

/// The state after the same steps without any interruption.
fn uninterrupted(door: &Door, agent: &Agent, as_name: &str) -> String {
    let (code, begun) = door.post("begin", &json!({"task": TASK, "name": as_name}));
    assert_eq!(code, 200, "{begun}");
    let mut state = text(&begun["state"]);
    for n in 1..=agent.acknowledged {
        let (code, done) = door.post("step", &with_run(step(&agent.name, n), &text(&begun["run"])));
        assert_eq!(code, 200, "{done}");
        state = text(&done["state"]);
    }
    let (code, ended) = door.post("end", &json!({"run": begun["run"], "outcome": "unknown"}));
    assert_eq!((code, &ended["state"]), (200, &json!(state)), "{ended}");
    state
}

#[test]
fn steps_survive_kills_at_any_moment_and_none_is_doubled() {
    let mut dice = Dice(20);
    let mut node = Node::started("killed");
    let mut agents: Vec<Agent> = (0..RUNS).map(|n| Agent::begin(node.door(), &format!("run-0-{n}"))).collect();
    let (mut checked, mut ended) = (0, 0);
    for moment in 1..=moments() {
        let working = Arc::new(Mutex::new(Vec::new()));
        let threads: Vec<_> = agents
            .drain(..)
            .map(|mut agent| {
                let (door, done) = (node.door().clone(), Arc::clone(&working));
                thread::spawn(move || {
                    agent.work(&door);
                    done.lock().unwrap().push(agent);
                })
            })
            .collect();
        thread::sleep(Duration::from_micros(dice.below(120_000)));
        node.kill();
        threads.into_iter().for_each(|thread| thread.join().expect("an agent ends well"));
        agents = std::mem::take(&mut working.lock().unwrap());
        assert_eq!(agents.len(), RUNS);
        node.up();
        let recovery = &node.status()["recovery"];
        assert!(recovery.is_null(), "moment {moment}: {recovery}");
        for (at, agent) in agents.iter_mut().enumerate() {
            agent.resume(node.door());
            checked += agent.acknowledged;
            if agent.acknowledged >= LONG {
                assert_eq!(uninterrupted(node.door(), agent, &format!("whole-{moment}-{at}")), agent.state);
                let (code, done) = node.door().post("end", &json!({"run": agent.run, "outcome": "unknown"}));
                assert_eq!(
                    (code, &done["state"], &done["steps"]),
                    (200, &json!(agent.state), &json!(agent.acknowledged))
                );
                ended += 1;
                *agent = Agent::begin(node.door(), &format!("run-{moment}-{at}"));
            }
        }
    }
    for (at, agent) in agents.iter().enumerate() {
        assert_eq!(uninterrupted(node.door(), agent, &format!("whole-end-{at}")), agent.state);
    }
    assert_eq!(node.json(["doctor", "--verify"])["ok"], true);
    println!("{} kills: {checked} steps looked at, {ended} runs ended on the way, none lost, none doubled", moments());
}

#[test]
fn a_run_goes_on_by_its_task_and_teaches_when_it_ends() {
    let mut node = Node::started("shop");
    let known = node.teach(&lesson("zirconium"));
    let task = "Recall what is known of zirconium and order more of it";
    let begun = node.json(["begin", task, "--name", "desk-7", "--agent", "clerk"]);
    assert_eq!((&begun["run"], &begun["shared"]), (&json!("desk-7@1"), &json!(false)));
    let record = |node: &Node, run: &str, step: Value| node.run_with(["step", run], &step.to_string());
    let secret = format!("ghp_{}", "a1B2c3D4e5F6".repeat(3));
    let paid = json!({"n": 1, "action": "order {\"what\":\"zirconium\"}", "observation": format!("token {secret}")});
    let done = record(&node, "desk-7@1", paid.clone()).ok().json();
    assert_eq!((&done["next"], &done["redacted"][0]["count"]), (&json!(2), &json!(1)), "{done}");
    let again = record(&node, "desk-7@1", paid).ok().json();
    assert_eq!((&again["known"], &again["state"]), (&json!(true), &done["state"]));

    let conflict = record(&node, "desk-7@1", json!({"n": 1, "action": "something else"})).code(1);
    assert!(conflict.one_line().contains(&text(&done["state"])), "{}", conflict.one_line());
    assert_eq!(conflict.json()["error"]["code"], "conflict");
    assert!(record(&node, "desk-7@1", json!({"n": 4, "action": "x"})).code(1).one_line().contains("next number is 2"));
    assert!(record(&node, "desk-7", json!({"n": 2, "action": "x"})).code(2).one_line().contains("RUN@LEASE"));
    let taken = node.run(["begin", "Another task", "--name", "desk-7"]).code(1);
    assert!(taken.one_line().contains("zirconium"), "{}", taken.one_line());
    record(&node, "desk-7@1", json!({"n": 2, "action": "pay", "started": true})).ok();

    node.kill();
    node.up();
    let held = node.json(["resume", "--task", task]);
    assert_eq!((&held["run"], held["steps"].as_array().map(Vec::len)), (&json!("desk-7@2"), Some(1)));
    assert_eq!((&held["uncertain"][0]["n"], &held["uncertain"][0]["action"]), (&json!(2), &json!("pay")));
    assert_eq!((&held["state"], &held["lessons"][0]["lesson"]["id"]), (&done["state"], &json!(known)), "{held}");
    assert!(!held.to_string().contains(&secret));
    let fenced = record(&node, "desk-7@1", json!({"n": 2, "action": "pay"})).code(5);
    assert!(fenced.one_line().contains("desk-7@2"), "{}", fenced.one_line());
    record(&node, "desk-7@2", json!({"n": 2, "action": "pay", "observation": "paid"})).ok();

    // What the run was given is not given again, and stands in what is learned from it.
    let request = json!({"task": "order more zirconium", "run": "desk-7@2"});
    assert_eq!(node.recall(&request)["hits"], json!([]));
    let listed = node.json(["runs"]);
    assert_eq!((&listed["runs"][0]["name"], &listed["runs"][0]["uncertain"]), (&json!("desk-7"), &json!(0)));

    let end =
        ["end", "desk-7@2", "--outcome", "failure", "--reason", "the order was sent twice", "--judged-by", "desk"];
    let ended = node.json(end);
    assert_eq!((&ended["steps"], &ended["known"]), (&json!(2), &json!(false)), "{ended}");
    assert_eq!(node.json(end)["known"], true);
    assert!(node.run(["end", "desk-7@2", "--outcome", "success"]).code(1).one_line().contains("has ended (failure"));
    assert_eq!(node.json(["runs"])["runs"], json!([]));
    assert_eq!(node.json(["runs", "--all"])["runs"][0]["outcome"], "failure");
    assert!(node.run(["resume", "desk-7"]).code(1).one_line().contains("ended"));
    assert!(node.run(["resume", "--task", task]).code(4).one_line().contains("no run of the task"));
    assert_eq!(ended["no_lesson"].as_array().map(Vec::len), Some(1), "nothing in it proves anything: {ended}");

    // One that shows what it died of.
    let task = "The length of shelf_plan() is wrong\nIt is one too short.";
    node.json(["begin", task, "--name", "shelf", "--domain", "work"]);
    let returned = |code: i32, output: &str| format!("<returncode>{code}</returncode>\n<output>\n{output}\n</output>");
    for (n, action, seen) in [
        (1, "cat lib/shelf.py", returned(0, "x")),
        (2, "python lib/shelf.py", returned(1, "ValueError: shelf_plan is empty")),
    ] {
        record(&node, "shelf@1", json!({"n": n, "action": action, "observation": seen})).ok();
    }
    let ended = node.json(["end", "shelf@1", "--outcome", "failure"]);
    let lessons = ended["lessons"].as_array().expect("a list");
    assert!(!lessons.is_empty(), "a failed run that shows its error teaches: {ended}");
    let shown = node.show(&text(&lessons[0]));
    assert_eq!(shown["claims"][0]["evidence"]["outcome"], "failure", "{shown}");
    assert!(shown["lesson"]["content"].as_str().is_some_and(|text| text.contains("ValueError")), "{shown}");
}

#[test]
fn in_the_middle_of_a_run_procedures_come_first_and_each_lesson_once() {
    let node = Node::started("steps");
    let of_kind = |kind: &str, title: &str, content: &str| {
        node.teach(&json!({"kind": kind, "title": title, "content": content, "task": "convert a temperature from \
            Fahrenheit to Celsius"}))
    };
    let procedure = of_kind("procedure", "Fahrenheit to Celsius", "Subtract 32, then multiply by five ninths.");
    let pitfall = of_kind("pitfall", "Units of a temperature", "Look at the unit before the number is compared.");
    let begun = node.json(["begin", "Compare two weather reports", "--name", "weather"]);
    let run = text(&begun["run"]);
    let ask = |extra: &[&str]| {
        let args = [&["recall", "--step", "how to convert a Fahrenheit temperature to Celsius"], extra].concat();
        let hits = node.json(args)["hits"].as_array().expect("a list").clone();
        hits.iter().map(|hit| text(&hit["lesson"]["id"])).collect::<Vec<_>>()
    };
    assert_eq!(ask(&[]), [procedure.clone(), pitfall.clone()]);
    assert_eq!(ask(&["--kind", "pitfall"]), std::slice::from_ref(&pitfall));
    assert_eq!(ask(&["--run", &run]), [procedure.clone(), pitfall.clone()]);
    assert_eq!(ask(&["--run", &run]), Vec::<String>::new(), "given before");
    assert_eq!(ask(&[]), [procedure, pitfall], "another agent gets them");
    let stale = node.run(["recall", "--step", "anything", "--run", "weather@9"]).code(2);
    assert!(stale.one_line().contains("never given out"), "{}", stale.one_line());
}
