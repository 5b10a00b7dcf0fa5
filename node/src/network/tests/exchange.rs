//! Two nodes that mean well.

use super::*;

async fn exchange(one: &mut Node, two: &mut Node, count: u32) {
    let (one_key, two_key) = (one.key(), two.key());
    let forth = tokio::spawn(send_all(one.handle().clone(), two_key, (0..count).map(numbered)));
    let back = tokio::spawn(send_all(two.handle().clone(), one_key, (0..count).map(numbered)));
    let receive_one = async {
        for n in 0..count {
            assert_eq!(one.frame(two_key).await, numbered(n));
        }
    };
    let receive_two = async {
        for n in 0..count {
            assert_eq!(two.frame(one_key).await, numbered(n));
        }
    };
    tokio::join!(receive_one, receive_two);
    forth.await.expect("all was sent");
    back.await.expect("all was sent");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_frames_each_way_arrive_in_order() {
    let (mut one, mut two) = (Node::start(1).await, Node::start(2).await);
    one.join(&mut two).await;
    exchange(&mut one, &mut two, 1000).await;

    let bytes: u64 = (0..1000).map(|n| numbered(n).len() as u64 + 4).sum();
    let (at_one, at_two) = (one.handle().counters(), two.handle().counters());
    let seen = at_one.peers.get(&two.key()).expect("the peer is counted");
    assert_eq!((seen.frames_in, seen.frames_out), (1000, 1000));
    assert_eq!((seen.bytes_in, seen.bytes_out), (bytes, bytes));
    assert_eq!(at_one.total, *seen);
    assert_eq!(at_two.total, *seen);
    one.stop().await;
    two.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn quic_carries_frames_too() {
    let quic = |config: &mut NetworkConfig| {
        config.quic = true;
        config.listen = vec!["/ip4/127.0.0.1/udp/0/quic-v1".to_owned()];
    };
    let (mut one, mut two) = (Node::start_with(1, quic).await, Node::start_with(2, quic).await);
    assert!(two.address.ends_with("/quic-v1"), "{}", two.address);
    one.join(&mut two).await;
    exchange(&mut one, &mut two, 200).await;
    one.stop().await;
    two.stop().await;
}

#[tokio::test]
async fn frames_of_the_greatest_length_pass() {
    let (mut one, mut two) = (Node::start(1).await, Node::start(2).await);
    one.join(&mut two).await;
    let frame: Vec<u8> = (0..super::super::MAX_FRAME_BYTES).map(|n| (n % 251) as u8).collect();
    for _ in 0..3 {
        one.handle().send(two.key(), frame.clone()).expect("there is room");
        assert!(two.frame(one.key()).await == frame, "the frame arrives unchanged");
    }
    one.stop().await;
    two.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_dialling_at_once_gives_one_session_that_stays() {
    for round in 0..12u32 {
        let (mut one, mut two) = (Node::start(1).await, Node::start(2).await);
        one.handle().dial(two.target()).expect("a sound target");
        two.handle().dial(one.target()).expect("a sound target");
        // The slower dial may find the session up already, which is told, and is no fault.
        let (one_key, two_key) = (one.key(), two.key());
        let session = |peer: PeerKey| {
            move |event| match event {
                NetworkEvent::Connected { peer: who, .. } if who == peer => Some(()),
                NetworkEvent::DialFailed { error: super::super::DialError::AlreadyConnected(_), .. }
                | NetworkEvent::Identified { .. } => None,
                other => panic!("round {round}: {other:?}"),
            }
        };
        tokio::join!(one.wait("a session", session(two_key)), two.wait("a session", session(one_key)));
        let send_back = send_all(two.handle().clone(), one_key, (0..50).map(numbered));
        let send_forth = send_all(one.handle().clone(), two_key, (0..50).map(numbered));
        tokio::join!(send_forth, send_back);
        for (node, peer) in [(&mut one, two_key), (&mut two, one_key)] {
            let mut next = 0;
            node.wait("fifty frames of one unbroken session", |event| match event {
                NetworkEvent::Frame { peer: who, bytes } if who == peer => {
                    assert_eq!(bytes, numbered(next));
                    next += 1;
                    (next == 50).then_some(())
                }
                NetworkEvent::Disconnected { reason, .. } => panic!("round {round}: {reason}"),
                _ => None,
            })
            .await;
        }
        one.stop().await;
        two.stop().await;
    }
}

#[tokio::test]
async fn a_slow_reader_slows_the_sender_down_and_loses_nothing() {
    let mut one = Node::start_with(1, |config| {
        config.limits.outbound_frames = 40;
        config.limits.outbound_bytes = 400_000;
    })
    .await;
    let mut two = Node::start_with(2, |config| config.limits.event_queue = 4).await;
    one.join(&mut two).await;

    // `two` reads no events: its queue fills, then the windows between them, then the queue of `one`.
    let frame = |n: u32| {
        let mut frame = n.to_le_bytes().to_vec();
        frame.resize(10_000, 7);
        frame
    };
    let mut sent = 0u32;
    let mut full_since: Option<Instant> = None;
    while full_since.is_none_or(|since| since.elapsed() < Duration::from_millis(500)) {
        match one.handle().send(two.key(), frame(sent)) {
            Ok(()) => {
                sent += 1;
                full_since = None;
            }
            Err(SendError::Full) => {
                full_since.get_or_insert_with(Instant::now);
                sleep(Duration::from_millis(5)).await;
            }
            Err(error) => panic!("{error}"),
        }
        assert!(sent < 100_000, "nothing slows the sender down");
    }
    assert_eq!(one.handle().send(two.key(), frame(0)), Err(SendError::Full));
    for n in 0..sent {
        assert_eq!(two.frame(one.key()).await, frame(n));
    }
    one.handle().send(two.key(), frame(sent)).expect("there is room again");
    assert_eq!(two.frame(one.key()).await, frame(sent));
    one.stop().await;
    two.stop().await;
}

#[tokio::test]
async fn frames_that_cannot_be_sent_are_refused_at_once() {
    let (mut one, mut two) = (Node::start(1).await, Node::start(2).await);
    assert_eq!(one.handle().send(two.key(), vec![1]), Err(SendError::NotConnected));
    one.join(&mut two).await;
    let too_long = super::super::MAX_FRAME_BYTES + 1;
    assert_eq!(one.handle().send(two.key(), vec![0; too_long]), Err(SendError::TooLarge(too_long)));
    assert_eq!(one.handle().send(two.key(), Vec::new()), Err(SendError::Empty));
    one.handle().send(two.key(), vec![9]).expect("the session is unharmed");
    assert_eq!(two.frame(one.key()).await, [9]);
    one.stop().await;
    two.stop().await;
}

#[tokio::test]
async fn a_connected_peer_tells_where_it_listens() {
    let (mut one, two) = (Node::start(1).await, Node::start(2).await);
    // Not joined: that would pass over the hint.
    one.handle().dial(two.target()).expect("a sound target");
    let (two_key, wanted) = (two.key(), two.address.clone());
    one.wait("the addresses of the peer", |event| match event {
        NetworkEvent::Identified { peer, listen_addresses, .. } => {
            (peer == two_key && listen_addresses.contains(&wanted)).then_some(())
        }
        _ => None,
    })
    .await;
    one.stop().await;
    two.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement; run it with --nocapture"]
async fn how_fast_frames_go_over_loopback() {
    let (mut one, mut two) = (Node::start(1).await, Node::start(2).await);
    one.join(&mut two).await;
    for (size, count) in [(200, 200_000u32), (16 * 1024, 20_000), (64 * 1024, 5_000)] {
        let begun = Instant::now();
        let sending = tokio::spawn(send_all(one.handle().clone(), two.key(), (0..count).map(move |_| vec![3; size])));
        for _ in 0..count {
            assert_eq!(two.frame(one.key()).await.len(), size);
        }
        sending.await.expect("all was sent");
        let seconds = begun.elapsed().as_secs_f64();
        println!(
            "{count} frames of {size} bytes: {:.0} frames/s, {:.1} MB/s",
            f64::from(count) / seconds,
            f64::from(count) * size as f64 / seconds / 1e6
        );
    }
    let mut trips = Vec::new();
    for _ in 0..2000 {
        let begun = Instant::now();
        one.handle().send(two.key(), vec![1]).expect("connected");
        two.frame(one.key()).await;
        two.handle().send(one.key(), vec![1]).expect("connected");
        one.frame(two.key()).await;
        trips.push(begun.elapsed());
    }
    trips.sort_unstable();
    println!("round trip: median {:?}, 99th percentile {:?}", trips[1000], trips[1980]);
    one.stop().await;
    two.stop().await;
}
