//! Peers that do not keep to the rules.

use futures::{AsyncReadExt as _, AsyncWriteExt as _, StreamExt as _};
use libp2p::{Multiaddr, PeerId, Stream, Swarm, SwarmBuilder, noise, swarm::SwarmEvent, tcp, yamux};

use super::{
    super::{DisconnectReason, PROTOCOL, identity},
    *,
};

/// A libp2p peer that speaks our protocol by hand: it has a session with `node` whose stream from itself is given.
struct Rogue {
    key: PeerKey,
    to_node: Stream,
    from_node: Stream,
    control: libp2p_stream::Control,
    arriving: libp2p_stream::IncomingStreams,
    /// Ends when the connection does.
    task: JoinHandle<()>,
}

impl Rogue {
    async fn meet(node: &mut Node, seed: u8) -> Self {
        let keypair = identity::keypair(&[seed; 32]).expect("any seed is a key");
        let key = identity::peer_of_secret(&[seed; 32]).expect("any seed is a key");
        let mut swarm: Swarm<libp2p_stream::Behaviour> = SwarmBuilder::with_existing_identity(keypair)
            .with_tokio()
            .with_tcp(tcp::Config::default(), noise::Config::new, yamux::Config::default)
            .expect("noise takes an ed25519 key")
            .with_behaviour(|_| libp2p_stream::Behaviour::new())
            .expect("it cannot fail")
            .with_swarm_config(|c| c.with_idle_connection_timeout(PATIENCE))
            .build();
        let mut control = swarm.behaviour().new_control();
        let mut arriving = control.accept(PROTOCOL).expect("registered once");
        let address: Multiaddr = node.address.parse().expect("a multiaddr");
        swarm.dial(address).expect("it can be dialled");
        let task = tokio::spawn(async move {
            loop {
                if let SwarmEvent::ConnectionClosed { .. } = swarm.select_next_some().await {
                    return;
                }
            }
        });
        let from_node = accept(&mut arriving).await;
        let peer: PeerId = identity::to_peer_id(&node.key());
        let mut to_node = control.open_stream(peer, PROTOCOL).await.expect("it accepts streams");
        let mut answer = [0; 1];
        to_node.read_exact(&mut answer).await.expect("it acknowledges");
        assert_eq!(answer, [0x06]);
        node.connected(key).await;
        Self { key, to_node, from_node, control, arriving, task }
    }

    /// Opens one more stream to the node, whose answer is not awaited.
    async fn open(&mut self, node: &Node) -> Stream {
        let peer = identity::to_peer_id(&node.key());
        self.control.open_stream(peer, PROTOCOL).await.expect("it accepts streams")
    }

    /// Takes the next stream that the node opens.
    async fn take_stream(&mut self) {
        self.from_node = accept(&mut self.arriving).await;
    }

    async fn write(&mut self, bytes: &[u8]) {
        self.to_node.write_all(bytes).await.expect("the stream is open");
        self.to_node.flush().await.expect("the stream is open");
    }
}

async fn accept(arriving: &mut libp2p_stream::IncomingStreams) -> Stream {
    let (_, mut stream) =
        timeout(PATIENCE, arriving.next()).await.expect("the node opens a stream in time").expect("the swarm runs");
    stream.write_all(&[0x06]).await.expect("the stream is open");
    stream.flush().await.expect("the stream is open");
    stream
}

#[tokio::test]
async fn a_rogue_that_keeps_the_rules_is_served() {
    let mut node = Node::start(1).await;
    let mut rogue = Rogue::meet(&mut node, 66).await;
    rogue.write(&[3, 0, 0, 0, b'a', b'b', b'c', 1, 0]).await;
    assert_eq!(node.frame(rogue.key).await, b"abc");
    rogue.write(&[0, 0, b'd']).await;
    assert_eq!(node.frame(rogue.key).await, b"d");
    node.handle().send(rogue.key, b"ef".to_vec()).expect("connected");
    let mut got = [0; 6];
    rogue.from_node.read_exact(&mut got).await.expect("the stream is open");
    assert_eq!(got, [2, 0, 0, 0, b'e', b'f']);
    node.stop().await;
}

#[tokio::test]
async fn a_frame_over_the_limit_ends_the_connection() {
    for header in [[1, 0, 1, 0], [255, 255, 255, 255], [0, 0, 0, 0]] {
        let mut node = Node::start(1).await;
        let mut rogue = Rogue::meet(&mut node, 66).await;
        rogue.write(&header).await;
        let reason = node.disconnected(rogue.key).await;
        assert!(matches!(reason, DisconnectReason::Misbehaved(_)), "{reason:?}");
        timeout(PATIENCE, &mut rogue.task).await.expect("the connection is closed in time").expect("the swarm saw it");
        assert!(node.handle().connected().is_empty());
        node.stop().await;
    }
}

#[tokio::test]
async fn a_stream_cut_inside_a_frame_delivers_nothing_of_it() {
    let mut node = Node::start(1).await;
    let mut rogue = Rogue::meet(&mut node, 66).await;
    rogue.write(&[1, 0, 0, 0, 7, 200, 0, 0, 0, 1, 2, 3]).await;
    assert_eq!(node.frame(rogue.key).await, [7]);
    rogue.to_node.close().await.expect("the stream is open");
    let reason = node.disconnected(rogue.key).await;
    assert!(matches!(reason, DisconnectReason::StreamEnded(_)), "{reason:?}");
    node.stop().await;
}

#[tokio::test]
async fn a_peer_that_takes_nothing_fills_only_its_own_queue() {
    let mut node = Node::start_with(1, |config| config.limits.outbound_frames = 16).await;
    let mut good = Node::start(2).await;
    let rogue = Rogue::meet(&mut node, 66).await;
    good.join(&mut node).await;
    // The rogue's stream is never read: its window fills, then the queue.
    let deadline = Instant::now() + PATIENCE;
    let mut full_since: Option<Instant> = None;
    while full_since.is_none_or(|since| since.elapsed() < Duration::from_millis(300)) {
        match node.handle().send(rogue.key, vec![1; 50_000]) {
            Ok(()) => full_since = None,
            Err(SendError::Full) => {
                full_since.get_or_insert_with(Instant::now);
                sleep(Duration::from_millis(2)).await;
            }
            Err(error) => panic!("{error}"),
        }
        assert!(Instant::now() < deadline, "the queue never fills");
    }
    for n in 0..100u8 {
        send_all(node.handle().clone(), good.key(), std::iter::once(vec![n])).await;
        assert_eq!(good.frame(node.key()).await, [n]);
    }
    node.stop().await;
    good.stop().await;
}

#[tokio::test]
async fn a_second_stream_begins_a_new_session_on_the_same_connection() {
    let mut node = Node::start(1).await;
    let mut rogue = Rogue::meet(&mut node, 66).await;
    rogue.write(&[1, 0, 0, 0, 7]).await;
    assert_eq!(node.frame(rogue.key).await, [7]);

    let mut second = rogue.open(&node).await;
    assert_eq!(node.disconnected(rogue.key).await, DisconnectReason::Replaced);
    rogue.take_stream().await;
    let mut answer = [0; 1];
    second.read_exact(&mut answer).await.expect("it acknowledges");
    node.connected(rogue.key).await;
    second.write_all(&[1, 0, 0, 0, 8]).await.expect("the stream is open");
    second.flush().await.expect("the stream is open");
    assert_eq!(node.frame(rogue.key).await, [8]);
    assert!(!rogue.task.is_finished(), "the connection was kept");
    node.stop().await;
}

#[tokio::test]
async fn a_peer_that_floods_streams_harms_nobody_else() {
    let mut node = Node::start(1).await;
    let mut good = Node::start(2).await;
    good.join(&mut node).await;
    let rogue = Rogue::meet(&mut node, 66).await;
    let mut control = rogue.control.clone();
    let peer = identity::to_peer_id(&node.key());
    let flood = tokio::spawn(async move {
        let mut held = Vec::new();
        for _ in 0..400 {
            match timeout(Duration::from_millis(200), control.open_stream(peer, PROTOCOL)).await {
                Ok(Ok(stream)) => held.push(stream),
                // Its window of streams is full, or it was thrown out.
                _ => break,
            }
        }
        held.len()
    });
    let (good_key, node_key) = (good.key(), node.key());
    for n in 0..50u8 {
        good.handle().send(node_key, vec![n]).expect("connected");
        let got = node
            .wait("the frame of the good peer", |event| match event {
                NetworkEvent::Frame { peer, bytes } if peer == good_key => Some(bytes),
                NetworkEvent::Disconnected { peer, reason } if peer == good_key => {
                    panic!("the good peer was thrown out: {reason}")
                }
                _ => None,
            })
            .await;
        assert_eq!(got, [n]);
    }
    let opened = flood.await.expect("no panic");
    println!("the flood opened {opened} streams");
    rogue.task.abort();
    node.stop().await;
    good.stop().await;
}

#[tokio::test]
async fn garbage_from_raw_clients_does_no_harm() {
    let mut node = Node::start_with(1, |config| config.limits.pending_inbound = 8).await;
    let mut noise = 1u64;
    for n in 0..40usize {
        let mut client = TcpStream::connect(node.socket()).await.expect("it listens");
        let mut bytes = Vec::new();
        for _ in 0..n * 50 {
            // xorshift: any bytes will do, the same in each run.
            noise ^= noise << 13;
            noise ^= noise >> 7;
            noise ^= noise << 17;
            bytes.extend(noise.to_le_bytes());
        }
        // It may hang up while we write.
        let _ = client.write_all(&bytes).await;
        let _ = client.shutdown().await;
        let mut rest = Vec::new();
        let _ = timeout(PATIENCE, client.read_to_end(&mut rest)).await.expect("it hangs up in time");
    }
    let mut good = Node::start(2).await;
    good.join(&mut node).await;
    good.handle().send(node.key(), vec![1]).expect("connected");
    assert_eq!(node.frame(good.key()).await, [1]);
    node.stop().await;
    good.stop().await;
}

#[tokio::test]
async fn clients_that_say_nothing_give_their_places_back() {
    let mut node = Node::start_with(1, |config| config.limits.pending_inbound = 4).await;
    let mut mute = Vec::new();
    for _ in 0..4 {
        mute.push(TcpStream::connect(node.socket()).await.expect("it listens"));
    }
    // All places are taken, so this one is refused, and hung up on.
    let mut refused = TcpStream::connect(node.socket()).await.expect("the kernel accepts");
    let mut rest = Vec::new();
    let _ = timeout(PATIENCE, refused.read_to_end(&mut rest)).await.expect("it hangs up in time");
    // The handshakes run out of time; then there is room.
    for mut client in mute {
        let _ = timeout(PATIENCE, client.read_to_end(&mut rest)).await.expect("it hangs up in time");
    }
    let mut good = Node::start(2).await;
    good.join(&mut node).await;
    node.stop().await;
    good.stop().await;
}
