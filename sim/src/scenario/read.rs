//! From TOML to a [`Scenario`].

use std::path::PathBuf;

use toml::de::DeTable;

use super::{
    Arm, Bound, Burst, Expect, Fault, FaultKind, LinkRules, LinkSpec, MAX_NODES, MAX_SEEDS, Measure, Run, Scenario,
    ScenarioError, Site, Workload, nodes,
    table::{Table, Value, not_toml},
};
use crate::{measure::figures, plant::Plant};

/// Most agents at one node: more than any host runs.
const MAX_AGENTS: usize = 1_000;
/// Most names of one hostile node.
const MAX_IDENTITIES: usize = 10_000;
/// Longest name of a site, bytes: it stands in every plot.
const MAX_NAME_BYTES: usize = 40;

pub(super) fn scenario(name: &str, text: &str) -> Result<Scenario, ScenarioError> {
    let parsed = DeTable::parse(text).map_err(|error| not_toml(text, &error))?;
    let root = Table::root(text, parsed.get_ref());
    let about = root.or("about", String::new(), |value| value.text().map(str::to_string))?;
    let run_table = root.table("run")?.ok_or_else(|| root.wrong("needs a table [run] with a `duration`"))?;
    let sites = sites(&root)?;
    let run = run(run_table, &sites)?;
    let links = links(&root, &sites)?;
    let faults = root.tables("fault", "[[fault]]")?;
    let faults = faults.into_iter().map(|table| fault(table, &sites, &run)).collect::<Result<Vec<_>, _>>()?;
    let workload = workload(&root, &run)?;
    let measure = measure(&root, &run)?;
    let expect = expect(&root, &run, &sites)?;
    root.done()?;
    Ok(Scenario { name: name.into(), about, run, sites, links, faults, workload, measure, expect })
}

fn sites(root: &Table<'_>) -> Result<Vec<Site>, ScenarioError> {
    let mut sites: Vec<Site> = Vec::new();
    for table in root.tables("site", "[[site]]")? {
        let name = table.need("name")?;
        let text = name.text()?;
        let plain = |c: char| c.is_alphanumeric() || c == '-' || c == '_' || c == '.';
        if text.is_empty() || text.len() > MAX_NAME_BYTES || !text.chars().all(plain) {
            return Err(name.wrong(format!("letters, digits, '-', '_' and '.', at most {MAX_NAME_BYTES} bytes")));
        }
        if sites.iter().any(|site| site.name == text) {
            return Err(name.wrong("another name than that of a site before"));
        }
        let nodes = table.need("nodes")?.count(1, MAX_NODES)?;
        let agents = table.or("agents", default::AGENTS, |value| value.count(0, MAX_AGENTS))?;
        let known = table.or("known", default::KNOWN, |value| value.count(0, MAX_NODES))?;
        let gateways = table.or("gateways", default::GATEWAYS, |value| value.count(0, MAX_NODES))?;
        let uplinks = table.or("uplinks", default::UPLINKS, |value| value.count(0, MAX_NODES))?;
        sites.push(Site { name: text.into(), nodes, agents, known, gateways, uplinks });
        if sites.iter().map(|site| site.nodes).sum::<usize>() > MAX_NODES {
            return Err(table.wrong(format!("makes more than {MAX_NODES} nodes in all")));
        }
        table.done()?;
    }
    if sites.is_empty() { Err(root.wrong("needs at least one [[site]]")) } else { Ok(sites) }
}

/// What holds where a file says nothing.
pub(super) mod default {
    use super::super::{Arm, LinkSpec, Measure, Workload};

    pub const SEEDS: usize = 5;
    pub const SETTLE_MS: u64 = 1_800_000;
    pub const ARMS: [Arm; 4] = Arm::ALL;
    pub const AGENTS: usize = 1;
    pub const KNOWN: usize = 4;
    pub const GATEWAYS: usize = 2;
    pub const UPLINKS: usize = 4;
    /// Poisoners, forgers and the like act this often, milliseconds.
    pub const HOSTILE_EVERY_MS: u64 = 60_000;
    pub const IDENTITIES: usize = 10;
    /// A LAN.
    pub const WITHIN: LinkSpec =
        LinkSpec { latency_ms: 1, jitter_ms: 1, loss_ppm: 0, burst: None, rate: None, queue_bytes: 256 * 1024 };
    /// A good line between two cities.
    pub const BETWEEN: LinkSpec = LinkSpec { latency_ms: 40, jitter_ms: 10, ..WITHIN };

    pub fn workload() -> Workload {
        Workload {
            tasks: None,
            families: None,
            zipf: 1.0,
            task_every_ms: 300_000,
            start_ms: 0,
            k: 1,
            withdraw_ppm: 0,
            withdraw_after_ms: 3_600_000,
            preload: 0,
        }
    }

    pub fn measure() -> Measure {
        Measure { step_ms: 300_000, during: None, after_ms: 3_600_000, look_every_ms: 10_000 }
    }
}

fn run(table: Table<'_>, sites: &[Site]) -> Result<Run, ScenarioError> {
    let duration_ms = table.need("duration")?.some_duration()?;
    let seeds = table.or("seeds", default::SEEDS, |value| value.count(1, MAX_SEEDS))?;
    let first_seed = table.or("first_seed", 1, |value| value.whole(0, i64::MAX / 2).map(|n| n as u64))?;
    let settle_ms = table.or("settle", default::SETTLE_MS, Value::duration)?;
    let words: Vec<(&str, Arm)> = Arm::ALL.iter().map(|arm| (arm.name(), *arm)).collect();
    let mut arms = table.or("arms", default::ARMS.to_vec(), |value| {
        let arms = value.list()?.iter().map(|item| item.word(&words)).collect::<Result<Vec<_>, _>>()?;
        if arms.is_empty() { Err(value.wrong("at least one arm")) } else { Ok(arms) }
    })?;
    arms.sort_unstable();
    arms.dedup();
    let central = table.or("central", 0, |value| site_named(value, sites))?;
    let plant = match table.get("plant") {
        Some(value) => Some(plant(value.braces()?, sites)?),
        None => None,
    };
    table.done()?;
    Ok(Run { seeds, first_seed, duration_ms, settle_ms, arms, central, plant })
}

fn site_named(value: &Value<'_>, sites: &[Site]) -> Result<usize, ScenarioError> {
    let words: Vec<(&str, usize)> = sites.iter().enumerate().map(|(n, site)| (site.name.as_str(), n)).collect();
    value.word(&words)
}

/// A bug, as `{ bug = "lose-tail", node = "a/1" }`.
fn plant(table: Table<'_>, sites: &[Site]) -> Result<Plant, ScenarioError> {
    let node = || {
        let value = table.need("node")?;
        match nodes::read(&value, sites)?.as_slice() {
            [only] => Ok(*only),
            _ => Err(value.wrong("one node, such as \"a/0\"")),
        }
    };
    let bug = table.need("bug")?;
    let names =
        ["drop-replies", "bring-back-withdrawn", "accept-wrong-hash", "count-twice", "lose-tail", "say-complete"];
    let plant = match bug.word(&names.map(|name| (name, name)))? {
        "drop-replies" => Plant::DropReplies(table.need("one_in")?.whole(1, 1_000_000)? as u64),
        "bring-back-withdrawn" => Plant::BringBackWithdrawn,
        "accept-wrong-hash" => Plant::AcceptWrongHash(node()?),
        "count-twice" => Plant::CountTwice(node()?),
        "lose-tail" => Plant::LoseTail(node()?),
        _ => Plant::SayComplete,
    };
    table.done()?;
    Ok(plant)
}

fn links(root: &Table<'_>, sites: &[Site]) -> Result<LinkRules, ScenarioError> {
    let mut rules = LinkRules { within: default::WITHIN, between: default::BETWEEN, pairs: Vec::new() };
    let Some(table) = root.table("links")? else { return Ok(rules) };
    for (key, link) in [("within", &mut rules.within), ("between", &mut rules.between)] {
        if let Some(value) = table.get(key) {
            let table = value.braces()?;
            *link = link_spec(&table, *link)?;
            table.done()?;
        }
    }
    for pair in table.tables("pair", "[[links.pair]]")? {
        let value = pair.need("sites")?;
        let [a, b] = value.list()?.iter().map(|item| site_named(item, sites)).collect::<Result<Vec<_>, _>>()?[..]
        else {
            return Err(value.wrong("two sites, such as [\"a\", \"b\"]"));
        };
        let (a, b) = (a.min(b), a.max(b));
        if rules.pairs.iter().any(|(x, y, _)| (*x, *y) == (a, b)) {
            return Err(value.wrong("two sites that no [[links.pair]] before names"));
        }
        let link = link_spec(&pair, if a == b { rules.within } else { rules.between })?;
        pair.done()?;
        rules.pairs.push((a, b, link));
    }
    table.done()?;
    Ok(rules)
}

fn link_spec(table: &Table<'_>, base: LinkSpec) -> Result<LinkSpec, ScenarioError> {
    let burst = match table.get("burst") {
        None => base.burst,
        Some(value) => {
            let burst = value.braces()?;
            let start_ppm = burst.need("start")?.share()?;
            let length = burst.need("length")?.whole(1, 1_000_000)? as u32;
            let loss_ppm = burst.or("loss", 1_000_000, Value::share)?;
            burst.done()?;
            Some(Burst { start_ppm, length, loss_ppm })
        }
    };
    Ok(LinkSpec {
        latency_ms: table.or("latency", base.latency_ms, Value::duration)?,
        jitter_ms: table.or("jitter", base.jitter_ms, Value::duration)?,
        loss_ppm: table.or("loss", base.loss_ppm, Value::share)?,
        burst,
        rate: table.get("rate").map(|value| value.rate()).transpose()?.or(base.rate),
        queue_bytes: table.or("queue", base.queue_bytes, Value::size)?,
    })
}

fn fault(table: Table<'_>, sites: &[Site], run: &Run) -> Result<Fault, ScenarioError> {
    let kind = table.need("kind")?;
    let kind = kind.word(&FaultKind::NAMES.map(|name| (name, name)))?;
    let at = table.need("at")?;
    let at_ms = at.duration()?;
    if at_ms >= run.duration_ms + run.settle_ms {
        return Err(at.wrong("a time before the end of the run"));
    }
    let momentary = matches!(kind, "join" | "leave");
    // Without `for` it lasts to the end, which a dead node cannot: it has to come back for the run to say anything.
    let must_end = matches!(kind, "crash" | "pause" | "restart-lost-writes" | "restore-old-copy" | "hold-partition");
    let for_ms = match () {
        () if momentary => None,
        () if must_end => Some(table.need("for")?.some_duration()?),
        () => table.get("for").map(|value| value.some_duration()).transpose()?,
    };
    let set = |key| table.need(key).and_then(|value| nodes::read(&value, sites));
    let groups = || match table.get("groups") {
        Some(value) => nodes::read_groups(&value, sites),
        None if sites.len() > 1 => Ok(sites_as_groups(sites)),
        None => Err(table.wrong("needs the key `groups`, since there is one site only")),
    };
    let every_ms = || table.or("every", default::HOSTILE_EVERY_MS, Value::some_duration);
    let kind = match kind {
        "drop-partition" => FaultKind::DropPartition { groups: groups()? },
        "hold-partition" => FaultKind::HoldPartition { groups: groups()? },
        "one-way" => FaultKind::OneWay { from: set("from")?, to: set("to")? },
        "bridge" => {
            let bridge = set("bridge")?;
            let mut groups = groups()?;
            groups.iter_mut().for_each(|group| group.retain(|node| !bridge.contains(node)));
            groups.retain(|group| !group.is_empty());
            FaultKind::Bridge { groups, bridge }
        }
        "isolate" => FaultKind::Isolate { nodes: set("nodes")? },
        "flapping" => FaultKind::Flapping {
            groups: groups()?,
            down_ms: table.need("down")?.some_duration()?,
            up_ms: table.need("up")?.some_duration()?,
        },
        "crash" => FaultKind::Crash { nodes: set("nodes")? },
        "pause" => FaultKind::Pause { nodes: set("nodes")? },
        "restart-lost-writes" => FaultKind::RestartLostWrites { nodes: set("nodes")? },
        "restore-old-copy" => {
            FaultKind::RestoreOldCopy { nodes: set("nodes")?, age_ms: table.need("age")?.duration()? }
        }
        "disk-full" => FaultKind::DiskFull { nodes: set("nodes")? },
        "clock-skew" => FaultKind::ClockSkew { nodes: set("nodes")?, by_ms: table.need("by")?.signed_duration()? },
        "clock-drift" => {
            FaultKind::ClockDrift { nodes: set("nodes")?, ppm: table.need("ppm")?.whole(-900_000, 1_000_000)? }
        }
        "join" => FaultKind::Join { nodes: set("nodes")? },
        "leave" => FaultKind::Leave { nodes: set("nodes")? },
        "forge" => FaultKind::Forge { nodes: set("nodes")?, every_ms: every_ms()? },
        "equivocate" => FaultKind::Equivocate { nodes: set("nodes")?, every_ms: every_ms()? },
        "flood" => FaultKind::Flood { nodes: set("nodes")?, every_ms: every_ms()? },
        "withhold" => FaultKind::Withhold { nodes: set("nodes")? },
        "stale-replay" => FaultKind::StaleReplay { nodes: set("nodes")?, every_ms: every_ms()? },
        "poison" => FaultKind::Poison { nodes: set("nodes")?, every_ms: every_ms()? },
        _ => FaultKind::Sybil {
            nodes: set("nodes")?,
            identities: table.or("identities", default::IDENTITIES, |value| value.count(1, MAX_IDENTITIES))?,
            every_ms: every_ms()?,
        },
    };
    table.done()?;
    Ok(Fault { at_ms, for_ms, kind })
}

/// Each site a group of its own.
pub(super) fn sites_as_groups(sites: &[Site]) -> Vec<Vec<usize>> {
    let mut first = 0;
    let group = |site: &Site| {
        let group = (first..first + site.nodes).collect();
        first += site.nodes;
        group
    };
    sites.iter().map(group).collect()
}

fn workload(root: &Table<'_>, run: &Run) -> Result<Workload, ScenarioError> {
    let base = default::workload();
    let Some(table) = root.table("workload")? else { return Ok(base) };
    let workload = Workload {
        tasks: table.get("tasks").map(|value| value.text().map(PathBuf::from)).transpose()?,
        families: table.get("families").map(|value| value.count(1, 1_000_000)).transpose()?,
        zipf: table.or("zipf", base.zipf, |value| value.number(0.0, 10.0))?,
        task_every_ms: table.or("task_every", base.task_every_ms, Value::some_duration)?,
        start_ms: table.or("start", base.start_ms, |value| match value.duration()? {
            ms if ms < run.duration_ms => Ok(ms),
            _ => Err(value.wrong("a time before the end of the run")),
        })?,
        k: table.or("k", base.k, |value| value.count(1, 20))?,
        withdraw_ppm: table.or("withdraw", base.withdraw_ppm, Value::share)?,
        withdraw_after_ms: table.or("withdraw_after", base.withdraw_after_ms, Value::some_duration)?,
        preload: table.or("preload", base.preload, |value| value.count(0, 1_000_000))?,
    };
    table.done()?;
    Ok(workload)
}

fn measure(root: &Table<'_>, run: &Run) -> Result<Measure, ScenarioError> {
    let base = default::measure();
    let Some(table) = root.table("measure")? else { return Ok(base) };
    let during = match table.get("during") {
        None => None,
        Some(value) => {
            let ends = value.list()?.iter().map(Value::duration).collect::<Result<Vec<_>, _>>()?;
            match ends[..] {
                [begin, end] if begin < end && end <= run.duration_ms => Some((begin, end)),
                _ => return Err(value.wrong("its begin and its end within the run, such as [\"2h\", \"10h\"]")),
            }
        }
    };
    let measure = Measure {
        step_ms: table.or("step", base.step_ms, Value::some_duration)?,
        during,
        after_ms: table.or("after", base.after_ms, Value::some_duration)?,
        look_every_ms: table.or("look_every", base.look_every_ms, Value::some_duration)?,
    };
    table.done()?;
    Ok(measure)
}

fn expect(root: &Table<'_>, run: &Run, sites: &[Site]) -> Result<Expect, ScenarioError> {
    let mut expect = Expect::default();
    let Some(table) = root.table("expect")? else { return Ok(expect) };
    expect.convergence = table.or("convergence", true, Value::truth)?;
    expect.converge_within_ms = table.get("converge_within").map(|value| value.some_duration()).transpose()?;
    let words: Vec<(&str, Arm)> = run.arms.iter().map(|arm| (arm.name(), *arm)).collect();
    for bound in table.tables("bound", "[[expect.bound]]")? {
        let limit = |key| bound.get(key).map(|value| value.number(-1e18, 1e18)).transpose();
        let (at_least, at_most) = (limit("at_least")?, limit("at_most")?);
        if at_least.is_none() && at_most.is_none() {
            return Err(bound.wrong("needs `at_least` or `at_most`"));
        }
        let figure = bound.need("figure")?;
        let name = figure.text()?;
        let site = name.split_once('@').map(|(_, site)| site);
        if figures::find(name).is_none() || site.is_some_and(|site| sites.iter().all(|known| known.name != site)) {
            let expected =
                "the name of a figure, as `folklore-sim figures` lists them, with @SITE after it where it has one";
            return Err(figure.wrong(expected));
        }
        expect.bounds.push(Bound {
            figure: name.into(),
            arm: bound.or("arm", Arm::Folklore, |value| value.word(&words))?,
            of: bound.get("of").map(|value| value.word(&words)).transpose()?,
            at_least,
            at_most,
            interval: bound.or("interval", false, Value::truth)?,
        });
        bound.done()?;
    }
    table.done()?;
    Ok(expect)
}
