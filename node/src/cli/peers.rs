//! `folklore peers`.

use super::{
    Context,
    words::{bytes, table, when},
};
use crate::api::{Answer, PeerInfo, PeersResponse};

pub(super) async fn run(context: &mut Context) -> Answer<u8> {
    let answer = context.client()?.get("peers").await?;
    context.show(&answer, text)?;
    Ok(0)
}

fn text(response: &PeersResponse) -> String {
    if response.peers.is_empty() {
        return "no peers: 'folklore bank invite' at another node prints a ticket to join".to_owned();
    }
    table(&rows(&response.peers, ""))
}

/// A row a peer, each behind `margin`; `status` shows the same.
pub(super) fn rows(peers: &[PeerInfo], margin: &str) -> Vec<Vec<String>> {
    let row = |peer: &PeerInfo| {
        vec![
            format!("{margin}{}", peer.id),
            if peer.connected { "connected" } else { "away" }.to_owned(),
            format!("last sync {}", when(peer.last_sync)),
            format!("{} in, {} out", bytes(peer.bytes_in), bytes(peer.bytes_out)),
            peer.addresses.join(" "),
        ]
    };
    peers.iter().map(row).collect()
}
