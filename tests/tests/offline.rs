//! No environment, no network but loopback, no keys.

use folklore_tests::{
    Node,
    command::finish,
    folklore,
    inputs::{hotel_file, lesson},
    inside::{inside, is_inside},
    node::join,
};
use serde_json::json;

#[test]
fn everything_works_with_loopback_as_the_only_network_and_no_environment() {
    if is_inside() {
        return whole_life();
    }
    let name = "everything_works_with_loopback_as_the_only_network_and_no_environment";
    inside(&["-n"], "ip link set lo up", name);
}

/// Two nodes from nothing to a recall of what the other learned. All of it without an environment, see `command::bare`.
fn whole_life() {
    let interfaces = std::fs::read_to_string("/proc/net/dev").expect("the interfaces");
    let names: Vec<&str> = interfaces.lines().filter_map(|line| Some(line.split_once(':')?.0.trim())).collect();
    assert!(names.contains(&"lo"), "{interfaces}");
    let reached = std::net::TcpStream::connect_timeout(
        &"192.0.2.1:80".parse().expect("an address"),
        std::time::Duration::from_secs(1),
    );
    assert!(reached.is_err(), "there is a way out");

    let (a, b) = (Node::started("a"), Node::started("b"));
    let bank = join(&a, &b);
    let taught = a.teach(&lesson("north"));
    let file = hotel_file(a.scratch(), "desk.json", 0..8);
    let imported = a.json(["import".into(), file.into_os_string()]);
    assert_eq!(imported["runs"], 8, "{imported}");
    b.json(["sync", "--wait"]);
    folklore_tests::node::same_root(&a, &b, &bank);
    for scope in ["local", "network"] {
        let answer = b.json(["recall", "what to mind before the valve of the north wing is opened", "--scope", scope]);
        assert_eq!(answer["hits"][0]["lesson"]["id"], json!(taught), "{scope}: {answer}");
    }
    let answer = b.json(["recall", "a guest with two dogs wants to change the room of a hotel booking"]);
    assert!(answer["hits"].as_array().is_some_and(|hits| !hits.is_empty()), "{answer}");
    b.json(["rate", &taught, "helped"]);
    assert_eq!(b.json(["doctor", "--verify"])["ok"], true);
}

#[test]
fn without_an_environment_a_home_must_be_named() {
    let ran = finish(folklore(["status"]), None).code(2);
    assert!(ran.one_line().contains("--data"), "{}", ran.stderr);
}

#[test]
fn an_environment_full_of_proxies_is_not_used() {
    let mut node = Node::new("a");
    for name in ["http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy", "ALL_PROXY"] {
        node.env.push((name.into(), "http://192.0.2.1:9".into()));
    }
    node.up();
    let mut command = folklore(["status", "--json", "--data"]);
    command.arg(node.data()).envs(node.env.iter().cloned());
    finish(command, None).ok();
}
