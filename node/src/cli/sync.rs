//! `folklore sync`: exchange records with peers now.

use std::time::Duration;

use clap::Args;

use super::{
    Context, client,
    words::{count, table},
};
use crate::api::{Answer, ErrorCode, SyncRequest, SyncResponse, SyncedPeer};

#[derive(Debug, Args)]
pub(super) struct SyncArgs {
    /// Node id [default: every peer]
    #[arg(value_name = "PEER")]
    peer: Option<String>,
    /// Come back when everything is here, or fail when the time is over
    #[arg(long)]
    wait: bool,
    /// Seconds that --wait waits
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    timeout: u32,
}

pub(super) async fn run(args: SyncArgs, context: &mut Context) -> Answer<u8> {
    let timeout_ms = args.wait.then(|| u64::from(args.timeout) * 1000);
    let request = SyncRequest { peer: args.peer, wait: args.wait, timeout_ms };
    let allowed = Duration::from_millis(timeout_ms.unwrap_or_default());
    let answer = context.client()?.post_long("sync", &request, allowed).await?;
    context.show(&answer, text)?;
    let response: SyncResponse = client::typed(&answer)?;
    Ok(if args.wait && !response.complete { ErrorCode::Failed.exit_code() } else { 0 })
}

fn text(response: &SyncResponse) -> String {
    if response.peers.is_empty() {
        return "no peers to sync with".to_owned();
    }
    let row = |peer: &SyncedPeer| {
        let state = match (peer.reached, peer.complete) {
            (false, _) => "not reached",
            (true, false) => "not complete",
            (true, true) => "complete",
        };
        let moved = format!("{} received, {} sent", count(peer.received, "record"), count(peer.sent, "record"));
        vec![peer.id.clone(), state.to_owned(), moved]
    };
    let rows = table(&response.peers.iter().map(row).collect::<Vec<_>>());
    if response.missing.is_empty() {
        rows
    } else {
        format!("{rows}\nstill missing something of {}", response.missing.join(" "))
    }
}
