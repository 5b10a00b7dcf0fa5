//! `folklore peers`.

use super::{
    Context,
    words::{bytes, count, table, when},
};
use crate::api::{Answer, DialInfo, PeerInfo, PeersResponse, RouteKind, TimeMs};

pub(super) async fn run(context: &mut Context) -> Answer<u8> {
    let answer = context.client()?.get("peers").await?;
    context.show(&answer, text)?;
    Ok(0)
}

fn text(response: &PeersResponse) -> String {
    if response.peers.is_empty() && response.dialing.is_empty() {
        return "no peers: 'folklore bank invite' at another node prints a ticket to join".to_owned();
    }
    listing(&response.peers, &response.dialing, "")
}

/// A row a peer; then what is being tried, a line each. `status` shows the same, behind a margin.
pub(super) fn listing(peers: &[PeerInfo], dialing: &[DialInfo], margin: &str) -> String {
    let row = |peer: &PeerInfo| {
        vec![
            format!("{margin}{}", peer.id),
            state(peer),
            format!("last sync {}", when(peer.last_sync)),
            complete(peer),
            format!("{} in, {} out", bytes(peer.bytes_in), bytes(peer.bytes_out)),
            peer.addresses.join(" "),
        ]
    };
    let mut lines = Vec::new();
    if !peers.is_empty() {
        lines.push(table(&peers.iter().map(row).collect::<Vec<_>>()));
    }
    for peer in peers.iter().filter(|p| !p.connected && (p.failed_attempts > 0 || p.last_error.is_some())) {
        lines.push(format!(
            "{margin}{}: {}",
            peer.id,
            attempts(peer.failed_attempts, peer.next_attempt, &peer.last_error)
        ));
    }
    for dial in dialing {
        let tried = attempts(dial.failed_attempts, dial.next_attempt, &dial.last_error);
        lines.push(format!("{margin}nobody yet at {}: {tried}", dial.address));
    }
    lines.join("\n")
}

fn state(peer: &PeerInfo) -> String {
    if let Some(until) = peer.barred_until {
        return format!("shut out until {until}: it broke the protocol");
    }
    if !peer.connected {
        return "away".to_owned();
    }
    match peer.route {
        None => "connected".to_owned(),
        Some(RouteKind::Direct) => "connected directly".to_owned(),
        Some(RouteKind::HolePunched) => "connected by hole punching".to_owned(),
        Some(RouteKind::Relayed) => {
            let limits = peer.circuit.iter().flat_map(|circuit| {
                let size = circuit.limit_bytes.map(bytes);
                [size, circuit.limit_seconds.map(|s| format!("{s} s"))].into_iter().flatten()
            });
            let limits: Vec<String> = limits.collect();
            match limits.is_empty() {
                true => "connected by relay".to_owned(),
                false => format!("connected by relay ({} a circuit)", limits.join(" or ")),
            }
        }
    }
}

/// `tried 3 times, again at TIME: why`.
fn attempts(failed: u32, next: Option<TimeMs>, error: &Option<String>) -> String {
    let mut parts = Vec::new();
    if failed > 0 {
        parts.push(format!("tried {}", count(u64::from(failed), "time")));
    }
    parts.extend(next.map(|next| format!("{} at {next}", if failed > 0 { "again" } else { "to be tried" })));
    let parts = parts.join(", ");
    match error {
        Some(error) => format!("{parts}: {error}"),
        None => parts,
    }
}

/// Since when everything of the peer's is here, over all banks shared with it.
fn complete(peer: &PeerInfo) -> String {
    match peer.complete_as_of.values().min() {
        Some(at) => format!("complete as of {at}"),
        None => "not complete yet".to_owned(),
    }
}
