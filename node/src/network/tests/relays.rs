//! Nodes behind NATs: relays, circuits that end, hole punching, AutoNAT; and private networks and limits.

use std::os::unix::fs::OpenOptionsExt;

use super::{
    super::{DialError, DisconnectReason, Nat, RelayLimits, Route, StartError, peer_id_text, read_psk},
    *,
};

/// A relay on loopback whose circuits carry so many bytes.
async fn relay(seed: u8, circuit_bytes: u64) -> Node {
    Node::start_with(seed, |config| config.relay = Some(RelayLimits { circuit_bytes, ..RelayLimits::default() })).await
}

/// Waits until a node can be reached through a relay, and returns that address.
async fn circuit_of(node: &Node) -> String {
    let find = || node.handle().announced().into_iter().find(|a| a.contains("/p2p-circuit"));
    until("a place at the relay", || find().is_some() && !node.handle().reach().relays.is_empty()).await;
    find().expect("just seen")
}

/// Two nodes that listen nowhere, each connected to the relay; `one` has a place there.
async fn hidden_pair(relay: &mut Node) -> (Node, Node, String) {
    let mut one = Node::hidden(1, |_| {}).await;
    let mut two = Node::hidden(2, |config| config.use_relays = false).await;
    one.join(relay).await;
    two.join(relay).await;
    let address = circuit_of(&one).await;
    (one, two, address)
}

/// The route of the session that `node` has with `peer` next, whatever it has with others meanwhile.
async fn route_to(node: &mut Node, peer: PeerKey) -> Route {
    node.wait("a session", |event| match event {
        NetworkEvent::Connected { peer: who, route, .. } if who == peer => Some(route),
        _ => None,
    })
    .await
}

async fn end_of(node: &mut Node, peer: PeerKey) -> DisconnectReason {
    node.wait("the end of a session", |event| match event {
        NetworkEvent::Disconnected { peer: who, reason } if who == peer => Some(reason),
        _ => None,
    })
    .await
}

async fn frame_of(node: &mut Node, peer: PeerKey) -> Vec<u8> {
    node.wait("a frame", |event| match event {
        NetworkEvent::Frame { peer: who, bytes } if who == peer => Some(bytes),
        _ => None,
    })
    .await
}

#[tokio::test]
async fn two_that_cannot_dial_each_other_meet_through_a_relay() {
    let mut relay = relay(9, 1 << 20).await;
    let (mut one, mut two, address) = hidden_pair(&mut relay).await;
    assert!(address.starts_with(&format!("{}/p2p/{}", relay.address, peer_id_text(&relay.key()))), "{address}");
    let (one_key, two_key) = (one.key(), two.key());

    two.handle().dial(DialTarget { peer: Some(one_key), addresses: vec![address] }).expect("a sound target");
    let (at_one, at_two) = tokio::join!(route_to(&mut one, two_key), route_to(&mut two, one_key));
    for route in [at_one, at_two] {
        // Both ends were told what the circuit carries.
        let limit_time = Some(RelayLimits::default().circuit_time);
        assert_eq!(route, Route::Relayed { limit_bytes: Some(1 << 20), limit_time });
    }
    assert!(one.handle().routes().get(&two_key).is_some_and(Route::is_relayed));
    one.handle().send(two_key, vec![1; 3000]).expect("connected");
    assert_eq!(frame_of(&mut two, one_key).await, vec![1; 3000]);
    two.handle().send(one_key, vec![2; 3000]).expect("connected");
    assert_eq!(frame_of(&mut one, two_key).await, vec![2; 3000]);
    let serving = relay.handle().reach().serving.expect("it is a relay");
    assert_eq!((serving.reservations, serving.circuits), (1, 1));
    for node in [one, two, relay] {
        node.stop().await;
    }
}

#[tokio::test]
async fn a_circuit_that_has_carried_its_bytes_ends_as_such_and_the_next_one_goes_on() {
    let mut relay = relay(9, 64 * 1024).await;
    let (mut one, mut two, address) = hidden_pair(&mut relay).await;
    let (one_key, two_key) = (one.key(), two.key());
    for round in 0..3u8 {
        let target = DialTarget { peer: Some(one_key), addresses: vec![address.clone()] };
        two.handle().dial(target).expect("a sound target");
        tokio::join!(route_to(&mut one, two_key), route_to(&mut two, one_key));
        two.handle().send(one_key, vec![round; 100]).expect("connected");
        assert_eq!(frame_of(&mut one, two_key).await, vec![round; 100]);
        for _ in 0..8 {
            two.handle().send(one_key, vec![round; 16 * 1024]).expect("there is room");
        }
        let (a, b) = tokio::join!(end_of(&mut one, two_key), end_of(&mut two, one_key));
        assert_eq!((a, b), (DisconnectReason::CircuitEnded, DisconnectReason::CircuitEnded));
    }
    assert!(relay.handle().connected().contains(&one_key), "the relay itself is still there");
    for node in [one, two, relay] {
        node.stop().await;
    }
}

#[tokio::test]
async fn a_relayed_session_moves_to_a_direct_connection_when_a_hole_can_be_punched() {
    let mut relay = relay(9, 1 << 20).await;
    let mut one = Node::start(1).await;
    let mut two = Node::start_with(2, |config| config.use_relays = false).await;
    one.join(&mut relay).await;
    two.join(&mut relay).await;
    let address = circuit_of(&one).await;
    let (one_key, two_key) = (one.key(), two.key());
    two.handle().dial(DialTarget { peer: Some(one_key), addresses: vec![address] }).expect("a sound target");

    // Each side may see the relayed session first, or be moved before it came about.
    for (node, peer) in [(&mut one, two_key), (&mut two, one_key)] {
        let mut direct = false;
        while !direct {
            match node.next().await {
                NetworkEvent::Connected { peer: who, route, .. } if who == peer => {
                    direct = route == Route::HolePunched;
                    assert!(direct || route.is_relayed(), "{route:?}");
                }
                NetworkEvent::Disconnected { peer: who, reason } if who == peer => {
                    let moved = matches!(
                        reason,
                        DisconnectReason::Upgraded | DisconnectReason::CircuitEnded | DisconnectReason::Replaced
                    );
                    assert!(moved, "{reason:?}");
                }
                NetworkEvent::DialFailed { .. } => {}
                other => panic!("{other:?}"),
            }
        }
    }
    until("no circuit is left", || relay.handle().reach().serving.is_some_and(|s| s.circuits == 0)).await;
    one.handle().send(two_key, vec![7]).expect("connected");
    assert_eq!(frame_of(&mut two, one_key).await, [7]);
    two.handle().send(one_key, vec![8]).expect("connected");
    assert_eq!(frame_of(&mut one, two_key).await, [8]);
    for node in [one, two, relay] {
        node.stop().await;
    }
}

#[tokio::test]
async fn a_node_learns_whether_it_can_be_reached() {
    let soon = |config: &mut NetworkConfig| config.nat_interval = Duration::from_millis(200);
    let mut relay = relay(9, 1 << 20).await;
    let mut open = Node::start_with(1, soon).await;
    let mut closed = Node::hidden(2, soon).await;
    assert_eq!(open.handle().reach().nat, Nat::Unknown);
    open.join(&mut relay).await;
    closed.join(&mut relay).await;
    until("the open one is found to be public", || open.handle().reach().nat == Nat::Public).await;
    until("the closed one is found to be private", || closed.handle().reach().nat == Nat::Private).await;
    assert!(open.handle().reach().external.contains(&open.address));
    // The dial-back leaves the session alone.
    open.handle().send(relay.key(), vec![1]).expect("still connected");
    let open_key = open.key();
    assert_eq!(frame_of(&mut relay, open_key).await, [1]);
    for node in [open, closed, relay] {
        node.stop().await;
    }
}

#[tokio::test]
async fn without_the_pre_shared_key_nobody_gets_in_and_it_is_said() {
    let key =
        |byte: u8| move |config: &mut NetworkConfig| config.psk = Some(libp2p::pnet::PreSharedKey::new([byte; 32]));
    let mut one = Node::start_with(1, key(7)).await;
    let mut two = Node::start_with(2, key(7)).await;
    one.join(&mut two).await;
    one.handle().send(two.key(), vec![1]).expect("connected");
    assert_eq!(two.frame(one.key()).await, [1]);

    let mut wrong = Node::start_with(3, key(8)).await;
    wrong.handle().dial(one.target()).expect("a sound target");
    let error = wrong.dial_failed().await;
    assert!(matches!(error, DialError::PreSharedKey(_)), "{error}");
    let mut without = Node::start(4).await;
    without.handle().dial(one.target()).expect("a sound target");
    assert!(matches!(without.dial_failed().await, DialError::Unreachable(_)));
    until("both were noticed", || one.handle().limit_hits()["failed_handshakes"] >= 2).await;

    // Nobody there is another matter than somebody with another key.
    let closed = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let nobody = closed.local_addr().expect("it is bound").to_string();
    drop(closed);
    wrong.handle().dial(DialTarget { peer: None, addresses: vec![nobody] }).expect("a sound target");
    let error = wrong.dial_failed().await;
    assert!(matches!(error, DialError::Unreachable(_)), "{error}");

    // The key does not cover QUIC, so that is off, whatever else was said.
    let mut config = NetworkConfig::new([5; 32]);
    key(7)(&mut config);
    config.quic = true;
    config.listen = vec!["/ip4/127.0.0.1/udp/0/quic-v1".to_owned()];
    assert!(matches!(Network::start(config.clone()), Err(StartError::QuicWithKey(_))));
    config.listen.clear();
    let quiet = Network::start(config).expect("it only dials");
    let udp = DialTarget { peer: None, addresses: vec!["/ip4/127.0.0.1/udp/1/quic-v1".to_owned()] };
    assert!(matches!(quiet.handle.dial(udp), Err(DialError::Address(_))));
    quiet.handle.shutdown().await;
    for node in [one, two, wrong, without] {
        node.stop().await;
    }
}

#[tokio::test]
async fn the_key_file_is_the_usual_one_and_private() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("swarm.key");
    let write = |mode: u32, text: &str| {
        let _ = std::fs::remove_file(&path);
        let mut file = std::fs::OpenOptions::new().create_new(true).write(true).mode(mode).open(&path).expect("a file");
        std::io::Write::write_all(&mut file, text.as_bytes()).expect("it is written");
    };
    let good = format!("/key/swarm/psk/1.0.0/\n/base16/\n{}\n", "ab".repeat(32));
    write(0o600, &good);
    assert_eq!(read_psk(&path).expect("a key"), libp2p::pnet::PreSharedKey::new([0xab; 32]));
    write(0o644, &good);
    assert!(read_psk(&path).expect_err("others can read it").to_string().contains("chmod 600"));
    for wrong in ["", "secret", &good.replace("base16", "base64"), &good.replace("ab", "zz"), &"x".repeat(100_000)] {
        write(0o600, wrong);
        assert!(read_psk(&path).expect_err("no key").to_string().contains("64 hex digits"));
    }
    assert!(read_psk(&dir.path().join("nowhere")).is_err());
}

#[tokio::test]
async fn over_its_limit_of_memory_a_node_makes_no_new_connection_and_says_so() {
    let mut full = Node::start_with(1, |config| config.limits.memory_bytes = Some(1)).await;
    let mut other = Node::start(2).await;
    full.handle().dial(other.target()).expect("a sound target");
    assert_eq!(full.dial_failed().await, DialError::OutOfMemory);
    other.handle().dial(full.target()).expect("a sound target");
    assert!(matches!(other.dial_failed().await, DialError::Unreachable(_) | DialError::NoSession));
    until("both were counted", || full.handle().limit_hits()["memory"] >= 2).await;
    full.stop().await;
    other.stop().await;
}

#[tokio::test]
async fn bounds_that_were_hit_are_counted_by_name() {
    let mut one = Node::start_with(1, |config| {
        config.limits.max_inbound_peers = 1;
        config.limits.max_peers = 1;
        config.limits.pending_dials = 1;
    })
    .await;
    let (mut two, mut three) = (Node::start(2).await, Node::start(3).await);
    two.join(&mut one).await;
    three.handle().dial(one.target()).expect("a sound target");
    assert_eq!(three.dial_failed().await, DialError::NoSession);
    until("the refusal is counted", || one.handle().limit_hits()["peers"] == 1).await;

    let mute = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = mute.local_addr().expect("it is bound").to_string();
    let at = |address: &str| DialTarget { peer: None, addresses: vec![address.to_owned()] };
    one.handle().dial(at(&address)).expect("there is a place");
    assert_eq!(one.handle().dial(at(&address)), Err(DialError::TooManyDials));
    while one.handle().send(two.key(), vec![0; 60_000]).is_ok() {}
    let hits = one.handle().limit_hits();
    assert_eq!((hits["dials"], hits["send_queue"]), (1, 1));
    one.stop().await;
    two.stop().await;
    three.stop().await;
}
