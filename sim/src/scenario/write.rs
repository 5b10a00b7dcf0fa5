//! From a [`Scenario`] to TOML: what [`super::read`] reads as the same, without the keys that say only what is the default.

use std::fmt::Write;

use super::{
    Arm, Fault, FaultKind, LinkSpec, Scenario, nodes,
    read::{default, sites_as_groups},
    units::{duration_text, rate_text, size_text},
};
use crate::plant::Plant;

/// Keys of one table, in the order they are put.
#[derive(Default)]
struct Keys(Vec<(&'static str, String)>);

impl Keys {
    fn put(&mut self, key: &'static str, value: String) {
        self.0.push((key, value));
    }

    fn differs<T: PartialEq>(&mut self, key: &'static str, value: &T, default: &T, write: impl Fn(&T) -> String) {
        if value != default {
            self.put(key, write(value));
        }
    }

    fn table(&self, text: &mut String, name: &str) {
        if !self.0.is_empty() || name.starts_with("[[") || name == "[run]" {
            let _ = write!(text, "\n{name}\n");
            text.extend(self.0.iter().map(|(key, value)| format!("{key} = {value}\n")));
        }
    }

    fn braces(&self) -> String {
        let pairs: Vec<String> = self.0.iter().map(|(key, value)| format!("{key} = {value}")).collect();
        format!("{{ {} }}", pairs.join(", "))
    }
}

/// A basic string of TOML.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04X}", c as u32)),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}

fn list(items: impl IntoIterator<Item = String>) -> String {
    format!("[{}]", items.into_iter().collect::<Vec<_>>().join(", "))
}

fn duration(ms: &u64) -> String {
    quoted(&duration_text(*ms))
}

fn share(ppm: &u32) -> String {
    format!("{}", f64::from(*ppm) / 1_000_000.0)
}

/// A number that reads back as the same.
fn number(value: &f64) -> String {
    format!("{value:?}")
}

pub(super) fn scenario(scenario: &Scenario) -> String {
    let mut text = String::new();
    if !scenario.about.is_empty() {
        let _ = writeln!(text, "about = {}", quoted(&scenario.about));
    }
    run(scenario, &mut text);
    for site in &scenario.sites {
        let mut keys = Keys::default();
        keys.put("name", quoted(&site.name));
        keys.put("nodes", site.nodes.to_string());
        let numbers = [
            ("agents", site.agents, default::AGENTS),
            ("known", site.known, default::KNOWN),
            ("gateways", site.gateways, default::GATEWAYS),
            ("uplinks", site.uplinks, default::UPLINKS),
        ];
        numbers.iter().for_each(|(key, value, default)| keys.differs(key, value, default, usize::to_string));
        keys.table(&mut text, "[[site]]");
    }
    links(scenario, &mut text);
    scenario.faults.iter().for_each(|one| fault(one, scenario, &mut text));
    workload(scenario, &mut text);
    measure(scenario, &mut text);
    expect(scenario, &mut text);
    text
}

fn run(scenario: &Scenario, text: &mut String) {
    let run = &scenario.run;
    let mut keys = Keys::default();
    keys.put("duration", duration(&run.duration_ms));
    keys.differs("seeds", &run.seeds, &default::SEEDS, usize::to_string);
    keys.differs("first_seed", &run.first_seed, &1, u64::to_string);
    keys.differs("settle", &run.settle_ms, &default::SETTLE_MS, duration);
    keys.differs("arms", &run.arms, &default::ARMS.to_vec(), |arms| list(arms.iter().map(|arm| quoted(arm.name()))));
    let site = |n: &usize| quoted(scenario.sites.get(*n).map_or("", |site| &site.name));
    keys.differs("central", &run.central, &0, site);
    if let Some(plant) = run.plant {
        keys.put("plant", planted(plant, scenario));
    }
    keys.table(text, "[run]");
}

fn planted(plant: Plant, scenario: &Scenario) -> String {
    let node = |n| Some(("node", set(&[n], scenario)));
    let (bug, more) = match plant {
        Plant::DropReplies(one_in) => ("drop-replies", Some(("one_in", one_in.to_string()))),
        Plant::BringBackWithdrawn => ("bring-back-withdrawn", None),
        Plant::AcceptWrongHash(n) => ("accept-wrong-hash", node(n)),
        Plant::CountTwice(n) => ("count-twice", node(n)),
        Plant::LoseTail(n) => ("lose-tail", node(n)),
        Plant::SayComplete => ("say-complete", None),
    };
    let mut keys = Keys::default();
    keys.put("bug", quoted(bug));
    more.into_iter().for_each(|(key, value)| keys.put(key, value));
    keys.braces()
}

/// Nodes as one text or a list of texts.
fn set(nodes: &[usize], scenario: &Scenario) -> String {
    match nodes::write(nodes, &scenario.sites).as_slice() {
        [only] => quoted(only),
        many => list(many.iter().map(|text| quoted(text))),
    }
}

fn link_keys(link: &LinkSpec, base: &LinkSpec) -> Keys {
    let mut keys = Keys::default();
    keys.differs("latency", &link.latency_ms, &base.latency_ms, duration);
    keys.differs("jitter", &link.jitter_ms, &base.jitter_ms, duration);
    keys.differs("loss", &link.loss_ppm, &base.loss_ppm, share);
    if let Some(burst) = link.burst.filter(|_| link.burst != base.burst) {
        let mut part = Keys::default();
        part.put("start", share(&burst.start_ppm));
        part.put("length", burst.length.to_string());
        part.differs("loss", &burst.loss_ppm, &1_000_000, share);
        keys.put("burst", part.braces());
    }
    if let Some(rate) = link.rate.filter(|_| link.rate != base.rate) {
        keys.put("rate", quoted(&rate_text(rate)));
    }
    keys.differs("queue", &link.queue_bytes, &base.queue_bytes, |bytes| quoted(&size_text(*bytes)));
    keys
}

fn links(scenario: &Scenario, text: &mut String) {
    let rules = &scenario.links;
    let mut keys = Keys::default();
    for (key, link, base) in [("within", &rules.within, default::WITHIN), ("between", &rules.between, default::BETWEEN)]
    {
        if *link != base {
            keys.put(key, link_keys(link, &base).braces());
        }
    }
    keys.table(text, "[links]");
    for (a, b, link) in &rules.pairs {
        let mut keys = Keys::default();
        let name = |n: &usize| quoted(scenario.sites.get(*n).map_or("", |site| &site.name));
        keys.put("sites", list([name(a), name(b)]));
        keys.0.extend(link_keys(link, if a == b { &rules.within } else { &rules.between }).0);
        keys.table(text, "[[links.pair]]");
    }
}

fn fault(fault: &Fault, scenario: &Scenario, text: &mut String) {
    let mut keys = Keys::default();
    keys.put("kind", quoted(fault.kind.name()));
    keys.put("at", duration(&fault.at_ms));
    if let Some(ms) = fault.for_ms {
        keys.put("for", duration(&ms));
    }
    let nodes = |nodes: &Vec<usize>| set(nodes, scenario);
    let by_site = sites_as_groups(&scenario.sites);
    let groups_of = |keys: &mut Keys, groups: &Vec<Vec<usize>>| {
        if *groups != by_site || by_site.len() < 2 {
            keys.put("groups", list(groups.iter().map(nodes)));
        }
    };
    match &fault.kind {
        FaultKind::DropPartition { groups } | FaultKind::HoldPartition { groups } => groups_of(&mut keys, groups),
        FaultKind::OneWay { from, to } => {
            keys.put("from", nodes(from));
            keys.put("to", nodes(to));
        }
        FaultKind::Bridge { groups, bridge } => {
            keys.put("groups", list(groups.iter().map(nodes)));
            keys.put("bridge", nodes(bridge));
        }
        FaultKind::Flapping { groups, down_ms, up_ms } => {
            groups_of(&mut keys, groups);
            keys.put("down", duration(down_ms));
            keys.put("up", duration(up_ms));
        }
        other => other.sets().into_iter().for_each(|set| keys.put("nodes", nodes(set))),
    }
    match &fault.kind {
        FaultKind::RestoreOldCopy { age_ms, .. } => keys.put("age", duration(age_ms)),
        FaultKind::ClockSkew { by_ms, .. } => {
            let sign = if *by_ms < 0 { "-" } else { "" };
            keys.put("by", quoted(&format!("{sign}{}", duration_text(by_ms.unsigned_abs()))));
        }
        FaultKind::ClockDrift { ppm, .. } => keys.put("ppm", ppm.to_string()),
        FaultKind::Sybil { identities, .. } => {
            keys.differs("identities", identities, &default::IDENTITIES, usize::to_string);
        }
        _ => {}
    }
    match &fault.kind {
        FaultKind::Forge { every_ms, .. }
        | FaultKind::Equivocate { every_ms, .. }
        | FaultKind::Flood { every_ms, .. }
        | FaultKind::StaleReplay { every_ms, .. }
        | FaultKind::Poison { every_ms, .. }
        | FaultKind::Sybil { every_ms, .. } => {
            keys.differs("every", every_ms, &default::HOSTILE_EVERY_MS, duration);
        }
        _ => {}
    }
    keys.table(text, "[[fault]]");
}

fn workload(scenario: &Scenario, text: &mut String) {
    let (workload, base) = (&scenario.workload, default::workload());
    let mut keys = Keys::default();
    if let Some(path) = &workload.tasks {
        keys.put("tasks", quoted(&path.to_string_lossy()));
    }
    if let Some(families) = workload.families {
        keys.put("families", families.to_string());
    }
    keys.differs("zipf", &workload.zipf, &base.zipf, number);
    keys.differs("task_every", &workload.task_every_ms, &base.task_every_ms, duration);
    keys.differs("start", &workload.start_ms, &base.start_ms, duration);
    keys.differs("k", &workload.k, &base.k, usize::to_string);
    keys.differs("withdraw", &workload.withdraw_ppm, &base.withdraw_ppm, share);
    keys.differs("withdraw_after", &workload.withdraw_after_ms, &base.withdraw_after_ms, duration);
    keys.differs("preload", &workload.preload, &base.preload, usize::to_string);
    keys.table(text, "[workload]");
}

fn measure(scenario: &Scenario, text: &mut String) {
    let (measure, base) = (&scenario.measure, default::measure());
    let mut keys = Keys::default();
    keys.differs("step", &measure.step_ms, &base.step_ms, duration);
    if let Some((begin, end)) = measure.during {
        keys.put("during", list([duration(&begin), duration(&end)]));
    }
    keys.differs("after", &measure.after_ms, &base.after_ms, duration);
    keys.differs("look_every", &measure.look_every_ms, &base.look_every_ms, duration);
    keys.table(text, "[measure]");
}

fn expect(scenario: &Scenario, text: &mut String) {
    let expect = &scenario.expect;
    let mut keys = Keys::default();
    keys.differs("convergence", &expect.convergence, &true, bool::to_string);
    if let Some(ms) = expect.converge_within_ms {
        keys.put("converge_within", duration(&ms));
    }
    keys.table(text, "[expect]");
    for bound in &expect.bounds {
        let mut keys = Keys::default();
        keys.put("figure", quoted(&bound.figure));
        keys.differs("arm", &bound.arm, &Arm::Folklore, |arm| quoted(arm.name()));
        if let Some(of) = bound.of {
            keys.put("of", quoted(of.name()));
        }
        for (key, limit) in [("at_least", bound.at_least), ("at_most", bound.at_most)] {
            limit.iter().for_each(|value| keys.put(key, number(value)));
        }
        keys.differs("interval", &bound.interval, &false, bool::to_string);
        keys.table(text, "[[expect.bound]]");
    }
}
