//! The scenario file as somebody meets it who writes one: what is read, and what an error says.

use folklore_sim::{
    Arm, Scenario,
    scenario::{Burst, FaultKind},
};

const TWO_SITES: &str = r#"
about = "Two sites."

[run]
duration = "12h"

[[site]]
name = "a"
nodes = 3

[[site]]
name = "b"
nodes = 2
"#;

fn parsed(more: &str) -> Scenario {
    Scenario::parse("test", &format!("{TWO_SITES}{more}")).unwrap_or_else(|error| panic!("{error}\n{more}"))
}

fn refused(more: &str) -> String {
    match Scenario::parse("test", &format!("{TWO_SITES}{more}")) {
        Ok(_) => panic!("should be refused: {more}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_short_file_is_a_whole_experiment() {
    let scenario = parsed("");
    assert_eq!(scenario.run.arms, Arm::ALL);
    assert_eq!((scenario.nodes(), scenario.nodes_of(1)), (5, 3..5));
    assert_eq!(scenario.site_of_nodes(), [0, 0, 0, 1, 1]);
    assert!(scenario.expect.convergence, "convergence is required unless a file says otherwise");
    assert_eq!(scenario.during(), None);
}

#[test]
fn nodes_are_named_by_site() {
    let scenario = parsed(
        "[[fault]]\nkind = \"isolate\"\nat = \"1h\"\nnodes = [\"a/1-2\", \"b/0\"]\n\
         [[fault]]\nkind = \"drop-partition\"\nat = \"2h\"\nfor = \"8h\"\n\
         [[fault]]\nkind = \"bridge\"\nat = \"1h\"\nfor = \"1h\"\nbridge = \"a/0\"\n",
    );
    assert_eq!(scenario.faults[0].kind, FaultKind::Isolate { nodes: vec![1, 2, 3] });
    assert_eq!(scenario.faults[1].kind, FaultKind::DropPartition { groups: vec![vec![0, 1, 2], vec![3, 4]] });
    assert_eq!(scenario.faults[2].kind, FaultKind::Bridge { groups: vec![vec![1, 2], vec![3, 4]], bridge: vec![0] });
    // The isolation has no end: it is taken to last as long as the agents work.
    assert_eq!(scenario.cut_span(), Some((3_600_000, 12 * 3_600_000)));
    assert_eq!(scenario.quiet_from_ms(), 10 * 3_600_000);
}

#[test]
fn a_link_between_two_sites_starts_from_what_holds_between_all() {
    let scenario = parsed(
        "[links]\nbetween = { latency = \"100ms\", burst = { start = \"1%\", length = 20 } }\n\
         [[links.pair]]\nsites = [\"b\", \"a\"]\nrate = \"10Mbit/s\"\nloss = 0.02\n",
    );
    let link = scenario.links.of(1, 0);
    assert_eq!((link.latency_ms, link.rate, link.loss_ppm), (100, Some(1_250_000), 20_000));
    assert_eq!(link.burst, Some(Burst { start_ppm: 10_000, length: 20, loss_ppm: 1_000_000 }));
    assert_eq!(scenario.links.of(0, 0).latency_ms, 1);
}

#[test]
fn an_error_names_the_line_the_key_and_what_may_stand_there() {
    for (file, said) in [
        ("[workload]\nfamillies = 3\n", "line 15: [workload] has no key `famillies`; it may have tasks, families"),
        ("[wokload]\n", "line 14: the file has no key `wokload`; it may have about, run"),
        (
            "[[fault]]\nkind = \"crash\"\nat = \"1h\"\nfor = \"5m\"\nnodes = \"a/0\"\ngroups = []\n",
            "line 19: [[fault]] has no key `groups`; it may have kind, at, for, nodes",
        ),
        (
            "[[fault]]\nkind = \"crush\"\nat = \"1h\"\n",
            "line 15: [[fault]] kind must be one of drop-partition, hold-partition",
        ),
        ("[[fault]]\nkind = \"crash\"\nat = \"1h\"\nnodes = \"a/0\"\n", "line 14: [[fault]] needs the key `for`"),
        ("[[fault]]\nkind = \"pause\"\nat = 3600\n", "line 16: [[fault]] at must be a duration such as \"8h\""),
        ("[[fault]]\nkind = \"leave\"\nat = \"1d\"\n", "must be a time before the end of the run, not \"1d\""),
        (
            "[[fault]]\nkind = \"leave\"\nat = \"1h\"\nnodes = \"c\"\n",
            "line 17: there is no site \"c\"; the sites are a, b",
        ),
        ("[[fault]]\nkind = \"leave\"\nat = \"1h\"\nnodes = \"b/2\"\n", "names no nodes: site b has nodes b/0 to b/1"),
        (
            "[[fault]]\nkind = \"drop-partition\"\nat = \"1h\"\ngroups = [\"a\", [\"b\", \"a/1\"]]\n",
            "line 17: node a/1 is in two groups",
        ),
        ("[links]\nwithin = { loss = 2 }\n", "must be a share from 0 to 1, or a text such as \"2%\", not 2"),
        ("[expect]\nconvergence = \"yes\"\n", "line 15: [expect] convergence must be true or false, not \"yes\""),
        (
            "[[expect.bound]]\nfigure = \"repeat_failure_rate@c\"\nat_most = 1\n",
            "line 15: [[expect.bound]] figure must be the name of a figure",
        ),
        ("[[expect.bound]]\nfigure = \"x\"\n", "line 14: [[expect.bound]] needs `at_least` or `at_most`"),
        ("[[site]]\nname = \"a\"\nnodes = 1\n", "another name than that of a site before"),
        ("[[site]]\nname = \"c\"\nnodes = 1000000\n", "must be a whole number from 1 to 100000, not 1000000"),
        ("[links\n", "line 14: "),
    ] {
        let error = refused(file);
        assert!(error.contains(said), "{file}\n  said: {error}\n  not:  {said}");
    }
}

#[test]
fn a_scenario_that_is_written_reads_as_the_same() {
    let more = r#"
[links]
between = { latency = "80ms", jitter = "0s", loss = 0.001, rate = "256KiB/s", queue = "64KiB" }
within = { burst = { start = 0.01, length = 5, loss = 0.5 } }

[[links.pair]]
sites = ["a", "b"]
latency = "300ms"

[[fault]]
kind = "drop-partition"
at = "2h"
for = "1h30m"

[[fault]]
kind = "hold-partition"
at = "2h"
for = "1h"
groups = ["a/0", ["a/1", "b"]]

[[fault]]
kind = "one-way"
at = "2h"
from = "a/0"
to = "*"

[[fault]]
kind = "bridge"
at = "2h"
bridge = "b/1"

[[fault]]
kind = "flapping"
at = "0s"
for = "1h"
down = "50s"
up = "10s"

[[fault]]
kind = "restore-old-copy"
at = "3h"
for = "1m"
nodes = ["a/0", "a/2"]
age = "1h"

[[fault]]
kind = "clock-skew"
at = "1h"
nodes = "b/0"
by = "-2h"

[[fault]]
kind = "clock-drift"
at = "1h"
for = "10m"
nodes = "b/0"
ppm = -200

[[fault]]
kind = "sybil"
at = "1h"
nodes = "b/1"
identities = 30
every = "10s"

[[fault]]
kind = "leave"
at = "11h"
nodes = "a/2"

[workload]
tasks = "some \"file\".jsonl"
families = 12
zipf = 1.25
task_every = "90s"
withdraw = "1%"
k = 3
preload = 10

[measure]
during = ["2h", "4h"]
step = "1m"

[expect]
convergence = false
converge_within = "10m"

[[expect.bound]]
figure = "repeat_failures.after"
of = "oracle"
at_most = 1.1
interval = true
"#;
    let scenario = parsed(more);
    let written = scenario.to_toml();
    let again = Scenario::parse("test", &written).unwrap_or_else(|error| panic!("{error}\n{written}"));
    assert_eq!(again, scenario, "{written}");
    let planted =
        TWO_SITES.replace("[run]", "[run]\nplant = { bug = \"lose-tail\", node = \"b/1\" }\narms = [\"folklore\"]");
    let planted = Scenario::parse("test", &planted).expect("a scenario");
    assert_eq!(Scenario::parse("test", &planted.to_toml()).expect("a scenario"), planted);
}
