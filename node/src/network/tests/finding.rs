//! The DHT: public banks are found, private ones leave no trace.

use super::{super::DhtKey, *};

const PUBLIC: DhtKey = [0xaa; 32];

fn soon(config: &mut NetworkConfig) {
    config.dht_interval = Duration::from_millis(500);
}

/// Waits until `node` has a session with `peer`, dialling it wherever the DHT says it is.
async fn found(node: &mut Node, peer: PeerKey) {
    let handle = node.handle().clone();
    node.wait("the holder", |event| match event {
        // Its own dial may come to nothing where the DHT's has come first.
        NetworkEvent::Found { peer: who, addresses } if who == peer => {
            let _ = handle.dial(DialTarget { peer: Some(who), addresses });
            None
        }
        NetworkEvent::Connected { peer: who, .. } if who == peer => Some(()),
        _ => None,
    })
    .await;
}

#[tokio::test]
async fn a_holder_of_a_public_bank_is_found_through_somebody_who_holds_nothing() {
    let mut bootstrap = Node::start_with(9, |config| {
        soon(config);
        config.dht = true;
    })
    .await;
    let mut holder = Node::start_with(1, soon).await;
    let mut seeker = Node::start_with(2, soon).await;
    holder.join(&mut bootstrap).await;
    holder.handle().publish(vec![PUBLIC]);
    until("the claim is kept", || bootstrap.handle().reach().dht.kept == [PUBLIC]).await;

    seeker.handle().publish(vec![PUBLIC]);
    seeker.join(&mut bootstrap).await;
    let holder_key = holder.key();
    found(&mut seeker, holder_key).await;
    for node in [bootstrap, holder, seeker] {
        node.stop().await;
    }
}

#[tokio::test]
async fn a_node_without_a_public_bank_leaves_no_trace() {
    let mut bootstrap = Node::start_with(9, |config| {
        soon(config);
        config.dht = true;
    })
    .await;
    let mut private = Node::start_with(1, soon).await;
    let mut public = Node::start_with(2, soon).await;
    private.join(&mut bootstrap).await;
    private.handle().publish(Vec::new());
    public.join(&mut bootstrap).await;
    public.handle().publish(vec![PUBLIC]);
    until("the public one is known", || bootstrap.handle().reach().dht.kept == [PUBLIC]).await;
    let view = private.handle().reach().dht;
    assert_eq!((view.serving, view.nodes, view.published, view.kept.len()), (false, 0, 0, 0), "it takes no part");
    until("the other is in the table", || bootstrap.handle().reach().dht.nodes == 1).await;

    // Neither does a bank that is public no longer, beyond what others keep for a day.
    public.handle().publish(Vec::new());
    until("it takes no part any more", || !public.handle().reach().dht.serving).await;
    for node in [bootstrap, private, public] {
        node.stop().await;
    }
}
