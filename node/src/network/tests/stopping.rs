//! The end: nothing is left behind.

use super::{
    super::{DialError, DisconnectReason, StartError},
    *,
};

fn tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

#[tokio::test]
async fn a_shutdown_ends_every_task() {
    let before = tasks();
    let (mut one, mut two) = (Node::start(1).await, Node::start(2).await);
    one.join(&mut two).await;
    one.handle().dial(DialTarget { peer: None, addresses: vec!["192.0.2.1:1".to_owned()] }).expect("a sound target");
    assert!(tasks() > before);
    let (handle, two_key) = (one.handle().clone(), two.key());
    let begun = Instant::now();
    one.stop().await;
    assert!(begun.elapsed() < Duration::from_secs(5));
    two.stop().await;
    until("all tasks have ended", || tasks() == before).await;

    assert_eq!(handle.send(two_key, vec![1]), Err(SendError::NotConnected));
    let target = DialTarget { peer: None, addresses: vec!["127.0.0.1:1".to_owned()] };
    assert_eq!(handle.dial(target), Err(DialError::Stopped));
    assert!(handle.connected().is_empty() && handle.listening().is_empty());
    handle.block(two_key, true);
    handle.close(two_key);
    handle.shutdown().await;
}

#[tokio::test]
async fn a_shutdown_ends_the_sessions_and_then_the_events() {
    let (mut one, mut two) = (Node::start(1).await, Node::start(2).await);
    one.join(&mut two).await;
    one.handle().clone().shutdown().await;
    assert_eq!(one.disconnected(two.key()).await, DisconnectReason::Stopping);
    let rest = timeout(PATIENCE, async { while one.network.events.recv().await.is_some() {} });
    rest.await.expect("the events end");
    two.disconnected(one.key()).await;
    two.stop().await;
}

#[tokio::test]
async fn a_shutdown_does_not_wait_for_a_reader_of_events() {
    let before = tasks();
    let mut one = Node::start(1).await;
    let mut two = Node::start_with(2, |config| config.limits.event_queue = 1).await;
    one.join(&mut two).await;
    // Nobody reads the events of `two`, and much is on its way to it.
    while one.handle().send(two.key(), vec![1; 100_000]).is_ok() {}
    let (handle, events) = (two.network.handle, two.network.events);
    timeout(PATIENCE, handle.shutdown()).await.expect("it ends");
    drop(events);
    one.stop().await;
    until("all tasks have ended", || tasks() == before).await;
}

#[tokio::test]
async fn a_network_without_handles_or_without_reader_stops() {
    let before = tasks();
    let one = Node::start(1).await;
    let Network { handle, mut events } = one.network;
    drop(handle);
    timeout(PATIENCE, async { while events.recv().await.is_some() {} }).await.expect("the events end");
    let two = Node::start(2).await;
    let Network { handle, events } = two.network;
    drop(events);
    until("all tasks have ended", || tasks() == before).await;
    drop(handle);
}

#[test]
fn a_network_needs_a_runtime_and_sound_addresses() {
    assert!(matches!(Network::start(NetworkConfig::new([1; 32])), Err(StartError::NoRuntime)));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        for address in ["nonsense", "/ip4/127.0.0.1/udp/0/quic-v1"] {
            let mut config = NetworkConfig::new([1; 32]);
            config.listen = vec![address.to_owned()];
            assert!(matches!(Network::start(config), Err(StartError::Listen(_))), "{address}");
        }
    });
    let shown = format!("{:?}", NetworkConfig::new([77; 32]));
    assert!(!shown.contains("77"), "{shown}");
}
