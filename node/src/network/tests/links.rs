//! Sessions that come and go: dials, restarts, blocks, cuts.

use super::{
    super::{DialError, DisconnectReason, peer_id_text},
    *,
};

fn at(address: &str) -> DialTarget {
    DialTarget { peer: None, addresses: vec![address.to_owned()] }
}

#[tokio::test]
async fn a_peer_is_found_by_its_bare_address_or_name() {
    let mut two = Node::start(2).await;
    let socket = two.socket();
    for (seed, address) in [
        (10, socket.to_string()),
        (11, two.address.clone()),
        (12, format!("localhost:{}", socket.port())),
        (13, format!("/dns4/localhost/tcp/{}", socket.port())),
        (14, format!("{}/p2p/{}", two.address, peer_id_text(&two.key()))),
    ] {
        let mut one = Node::start(seed).await;
        one.handle().dial(at(&address)).expect("a sound target");
        let (one_key, two_key) = (one.key(), two.key());
        let (dialer, listener) = tokio::join!(one.connected(two_key), two.connected(one_key));
        assert!(dialer && !listener);
        one.stop().await;
        two.disconnected(one_key).await;
    }
    two.stop().await;
}

#[tokio::test]
async fn a_dial_that_meets_another_peer_fails_and_a_second_address_saves_it() {
    let (mut one, two, mut three) = (Node::start(1).await, Node::start(2).await, Node::start(3).await);
    let wrong = DialTarget { peer: Some(three.key()), addresses: vec![two.address.clone()] };
    one.handle().dial(wrong.clone()).expect("a sound target");
    match one.next().await {
        NetworkEvent::DialFailed { target, error } => {
            assert_eq!(target, wrong);
            assert_eq!(error, DialError::WrongPeer { found: Some(two.key()) });
        }
        other => panic!("{other:?}"),
    }
    assert!(one.handle().connected().is_empty());

    let stale_and_right =
        DialTarget { peer: Some(three.key()), addresses: vec![two.address.clone(), three.address.clone()] };
    one.handle().dial(stale_and_right).expect("a sound target");
    let (one_key, three_key) = (one.key(), three.key());
    tokio::join!(one.connected(three_key), three.connected(one_key));
    for node in [one, two, three] {
        node.stop().await;
    }
}

#[tokio::test]
async fn dials_that_cannot_succeed_say_why() {
    let (mut one, mut two) = (Node::start(1).await, Node::start(2).await);
    let handle = one.handle().clone();
    assert_eq!(handle.dial(DialTarget { peer: None, addresses: vec![] }), Err(DialError::NoAddress));
    assert!(matches!(handle.dial(at("nonsense")), Err(DialError::Address(_))));
    assert!(matches!(handle.dial(at("/ip4/127.0.0.1/udp/1/quic-v1")), Err(DialError::Address(_))));
    let two_names = DialTarget {
        peer: Some([3; 32]),
        addresses: vec![format!("{}/p2p/{}", two.address, peer_id_text(&two.key()))],
    };
    assert_eq!(handle.dial(two_names), Err(DialError::ConflictingPeers));

    handle.dial(at("name.invalid:1")).expect("looked up later");
    assert!(matches!(one.dial_failed().await, DialError::Address(_)));

    let closed = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let nobody = closed.local_addr().expect("it is bound").to_string();
    drop(closed);
    handle.dial(at(&nobody)).expect("a sound target");
    assert!(matches!(one.dial_failed().await, DialError::Unreachable(_)));

    let own = one.target();
    handle.dial(own).expect("a sound target");
    assert!(matches!(one.dial_failed().await, DialError::NoAddress | DialError::OwnIdentity));

    one.join(&mut two).await;
    handle.dial(two.target()).expect("a sound target");
    assert_eq!(one.dial_failed().await, DialError::AlreadyConnected(two.key()));
    handle.dial(at(&two.address)).expect("a sound target");
    assert_eq!(one.dial_failed().await, DialError::AlreadyConnected(two.key()));
    handle.send(two.key(), vec![1]).expect("the session is unharmed");
    assert_eq!(two.frame(one.key()).await, [1]);
    one.stop().await;
    two.stop().await;
}

#[tokio::test]
async fn dials_under_way_are_bounded() {
    // Accepts and says nothing, so that the handshake hangs.
    let mute = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = mute.local_addr().expect("it is bound").to_string();
    let one = Node::start_with(1, |config| config.limits.pending_dials = 3).await;
    for _ in 0..3 {
        one.handle().dial(at(&address)).expect("there is a place");
    }
    assert_eq!(one.handle().dial(at(&address)), Err(DialError::TooManyDials));
    one.stop().await;
}

#[tokio::test]
async fn a_restarted_peer_is_met_again() {
    let (mut one, mut two) = (Node::start(1).await, Node::start(2).await);
    let (one_key, two_key) = (one.key(), two.key());
    one.join(&mut two).await;
    let listen = two.socket().to_string();
    for n in 0..3u8 {
        two.stop().await;
        one.disconnected(two_key).await;
        assert_eq!(one.handle().send(two_key, vec![1]), Err(SendError::NotConnected));
        two = Node::start_with(2, |config| config.listen = vec![listen.clone()]).await;
        one.join(&mut two).await;
        one.handle().send(two_key, vec![n]).expect("connected");
        two.handle().send(one_key, vec![n]).expect("connected");
        assert_eq!(two.frame(one_key).await, [n]);
        assert_eq!(one.frame(two_key).await, [n]);
    }
    one.stop().await;
    two.stop().await;
}

#[tokio::test]
async fn a_peer_that_comes_back_replaces_its_dead_session_at_once() {
    // With these the silence of the dead connection would be noticed after two minutes only.
    let patient = |config: &mut NetworkConfig| {
        config.ping_interval = Duration::from_secs(60);
        config.ping_timeout = Duration::from_secs(60);
    };
    let mut one = Node::start_with(1, patient).await;
    let one_key = one.key();
    let mut two = Node::start_with(2, patient).await;
    let two_key = two.key();
    for round in 0..5u8 {
        let relay = Relay::to(one.socket()).await;
        two.handle().dial(at(&relay.address)).expect("a sound target");
        two.connected(one_key).await;
        if round > 0 {
            assert_eq!(one.disconnected(two_key).await, DisconnectReason::Replaced);
        }
        one.connected(two_key).await;
        two.handle().send(one_key, vec![round]).expect("connected");
        assert_eq!(one.frame(two_key).await, [round]);
        one.handle().send(two_key, vec![round]).expect("connected");
        assert_eq!(two.frame(one_key).await, [round]);
        // The host of `two` dies: `one` hears neither a farewell nor a reset. The relay is leaked on purpose.
        relay.freeze();
        std::mem::forget(relay);
        two.stop().await;
        two = Node::start_with(2, patient).await;
    }
    one.stop().await;
    two.stop().await;
}

#[tokio::test]
async fn a_cut_link_is_noticed_by_both_sides() {
    let quick = |config: &mut NetworkConfig| {
        config.ping_interval = Duration::from_millis(500);
        config.ping_timeout = Duration::from_millis(1500);
    };
    let (mut one, mut two) = (Node::start_with(1, quick).await, Node::start_with(2, quick).await);
    let (one_key, two_key) = (one.key(), two.key());
    let relay = Relay::to(two.socket()).await;
    one.handle().dial(at(&relay.address)).expect("a sound target");
    tokio::join!(one.connected(two_key), two.connected(one_key));
    // Quiet for far longer than the limit, but alive.
    let quiet = timeout(Duration::from_secs(4), one.next()).await;
    assert!(quiet.is_err(), "{quiet:?}");

    relay.freeze();
    let cut = Instant::now();
    // Much under way, so that the sockets are stuffed when they are to be closed.
    while one.handle().send(two_key, vec![5; 100_000]).is_ok() {}
    let (a, b) = tokio::join!(one.disconnected(two_key), two.disconnected(one_key));
    println!("a cut link was noticed after {:?} (limit 2 s)", cut.elapsed());
    // The silence is noticed, or the socket that takes nothing, whichever comes first.
    for reason in [a, b] {
        let told = matches!(
            reason,
            DisconnectReason::Silent | DisconnectReason::ConnectionClosed | DisconnectReason::StreamEnded(_)
        );
        assert!(told, "{reason:?}");
    }

    // And another way to the peer can be taken at once.
    one.join(&mut two).await;
    one.handle().send(two_key, vec![6]).expect("connected");
    assert_eq!(two.frame(one_key).await, [6]);
    one.stop().await;
    two.stop().await;
}

#[tokio::test]
async fn a_blocked_peer_stays_out_until_it_is_let_in() {
    let (mut one, mut two) = (Node::start(1).await, Node::start(2).await);
    let (one_key, two_key) = (one.key(), two.key());
    one.join(&mut two).await;

    one.handle().block(two_key, true);
    assert_eq!(one.disconnected(two_key).await, DisconnectReason::ClosedHere);
    two.disconnected(one_key).await;

    one.handle().dial(two.target()).expect("a sound target");
    assert_eq!(one.dial_failed().await, DialError::Blocked);
    one.handle().dial(at(&two.address)).expect("a sound target");
    assert_eq!(one.dial_failed().await, DialError::Blocked);
    two.handle().dial(one.target()).expect("a sound target");
    assert_eq!(two.dial_failed().await, DialError::NoSession);
    assert!(one.handle().connected().is_empty() && two.handle().connected().is_empty());

    one.handle().block(two_key, false);
    two.join(&mut one).await;
    two.handle().send(one_key, vec![3]).expect("connected");
    assert_eq!(one.frame(two_key).await, [3]);
    one.stop().await;
    two.stop().await;
}

#[tokio::test]
async fn a_closed_peer_may_come_back() {
    let (mut one, mut two) = (Node::start(1).await, Node::start(2).await);
    let (one_key, two_key) = (one.key(), two.key());
    for _ in 0..3 {
        one.join(&mut two).await;
        one.handle().close(two_key);
        let (here, there) = tokio::join!(one.disconnected(two_key), two.disconnected(one_key));
        assert_eq!(here, DisconnectReason::ClosedHere);
        assert_ne!(there, DisconnectReason::ClosedHere);
    }
    one.stop().await;
    two.stop().await;
}

#[tokio::test]
async fn a_full_node_refuses_strangers_and_still_dials() {
    let mut one = Node::start_with(1, |config| {
        config.limits.max_inbound_peers = 1;
        config.limits.max_peers = 2;
    })
    .await;
    let (mut two, mut three, mut four) = (Node::start(2).await, Node::start(3).await, Node::start(4).await);
    two.join(&mut one).await;
    three.handle().dial(one.target()).expect("a sound target");
    assert_eq!(three.dial_failed().await, DialError::NoSession);
    one.join(&mut three).await;
    one.handle().dial(four.target()).expect("a sound target");
    assert_eq!(one.dial_failed().await, DialError::Full);

    // A place that was given up can be taken.
    let two_key = two.key();
    two.stop().await;
    one.disconnected(two_key).await;
    one.join(&mut four).await;
    for node in [one, three, four] {
        node.stop().await;
    }
}

#[tokio::test]
async fn a_port_that_is_taken_is_reported() {
    let taken = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let wanted = taken.local_addr().expect("it is bound").to_string();
    let mut config = NetworkConfig::new([1; 32]);
    config.listen = vec!["127.0.0.1:0".to_owned(), wanted.clone()];
    let mut one = Node { network: Network::start(config).expect("the configuration is sound"), address: String::new() };
    let (mut failed, mut listening) = (None, None);
    while failed.is_none() || listening.is_none() {
        match one.next().await {
            NetworkEvent::ListenFailed { address, error } => failed = Some((address, error)),
            NetworkEvent::Listening { address } => listening = Some(address),
            other => panic!("{other:?}"),
        }
    }
    let (address, error) = failed.expect("it was reported");
    assert_eq!(address, wanted);
    assert!(error.contains("in use"), "{error}");
    assert_eq!(Some(one.handle().listening()), listening.map(|one| vec![one]));
    one.stop().await;
}

/// Run alone in a network namespace: `unshare -rn sh -c 'ip link set lo up; ip link add veth0 type veth peer name
/// veth1; ip addr add 10.9.9.1/24 dev veth0; ip link set veth0 up; ip link set veth1 up; …'`.
#[tokio::test]
#[ignore = "needs a network namespace with the address 10.9.9.1 on a multicast interface"]
async fn neighbours_find_each_other_by_mdns() {
    let lan = |config: &mut NetworkConfig| {
        config.mdns = true;
        config.listen = vec!["10.9.9.1:0".to_owned()];
    };
    let (mut one, two) = (Node::start_with(1, lan).await, Node::start_with(2, lan).await);
    let two_key = two.key();
    let addresses = one
        .wait("the neighbour", |event| match event {
            NetworkEvent::Discovered { peer, addresses } => {
                assert_eq!(peer, two_key);
                Some(addresses)
            }
            _ => None,
        })
        .await;
    assert_eq!(addresses, std::slice::from_ref(&two.address));
    one.handle().dial(DialTarget { peer: Some(two_key), addresses }).expect("a sound target");
    one.wait("a session", |event| {
        matches!(event, NetworkEvent::Connected { peer, .. } if peer == two_key).then_some(())
    })
    .await;
    one.stop().await;
    two.stop().await;
}
