//! `folklore up`: run the daemon in the foreground.

use std::{net::SocketAddr, path::PathBuf};

use clap::{Args, ValueEnum};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::oneshot,
};
use tokio_util::sync::CancellationToken;

use super::Context;
use crate::{
    api::{Answer, ApiError, UpOptions, UpReady},
    embedding::EmbedderOptions,
    home::{Home, HomeLock},
    induction::InductionOptions,
    network::Address,
    service::{ChatProvider, Provider},
};

#[derive(Debug, Args)]
pub(super) struct UpArgs {
    /// Where to listen for peers, as host:port or a multiaddress; repeatable [default: a free port on loopback]
    #[arg(long, value_name = "ADDR", value_parser = address)]
    listen: Vec<String>,
    /// Listen nowhere: others reach this node through relays, or not at all
    #[arg(long, conflicts_with = "listen")]
    no_listen: bool,
    /// What others are told instead, for a node behind a forwarded port; repeatable [default: where it listens]
    #[arg(long, value_name = "ADDR", value_parser = address)]
    announce: Vec<String>,
    /// A peer to dial, as host:port or a multiaddress; repeatable
    #[arg(long, value_name = "ADDR", value_parser = address)]
    peer: Vec<String>,
    /// A node by which others are found, dialled like a peer; repeatable
    #[arg(long, value_name = "ADDR", value_parser = address)]
    bootstrap: Vec<String>,
    /// A relay through which this node wants to be reached, dialled like a peer; repeatable
    #[arg(long, value_name = "ADDR", value_parser = address)]
    via: Vec<String>,
    /// Be a relay for others, and tell them whether they can be reached
    #[arg(long)]
    relay: bool,
    /// Serve the DHT of public banks, also without one
    #[arg(long)]
    dht: bool,
    /// File with the pre-shared key of a private network (no QUIC then) [default: swarm.key in the home, if it is there]
    #[arg(long, value_name = "FILE")]
    psk: Option<PathBuf>,
    /// Use TCP only
    #[arg(long)]
    no_quic: bool,
    /// Where the HTTP door opens; loopback only
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0", value_parser = loopback)]
    http: SocketAddr,
    /// Find and be found by nodes on the local network
    #[arg(long)]
    mdns: bool,
    /// Fetch first what is near to the latest tasks given to recall here: peers that share a bank see these tasks, redacted
    #[arg(long)]
    fetch_near: bool,
    /// Have a service make the vectors: 'openai' (any compatible /v1/embeddings) or 'gemini'; 'builtin' for none, whatever
    /// embedder.json in the home says. Its key is read from FOLKLORE_EMBEDDER_KEY, OPENAI_API_KEY or GEMINI_API_KEY
    #[arg(long, value_name = "NAME")]
    embedder: Option<EmbedderChoice>,
    /// Base address of that service, without /v1 [default: that of the interface's author]
    #[arg(long, value_name = "URL")]
    embedder_url: Option<String>,
    /// Name of its model
    #[arg(long, value_name = "MODEL")]
    embedder_model: Option<String>,
    /// Dimensions asked for [default: what the model gives]
    #[arg(long, value_name = "N")]
    embedder_dim: Option<usize>,
    /// Have a model draw lessons from runs that end here: 'openai' (any compatible /v1/chat/completions), 'gemini' or
    /// 'anthropic'. Its key is read from --induce-key-file, else from FOLKLORE_LLM_KEY, OPENAI_API_KEY, GEMINI_API_KEY or
    /// ANTHROPIC_API_KEY
    #[arg(long, value_name = "NAME")]
    induce: Option<ChatProvider>,
    /// Base address of that model's service [default: that of the interface's author]
    #[arg(long, value_name = "URL")]
    induce_url: Option<String>,
    /// Name of that model
    #[arg(long, value_name = "MODEL")]
    induce_model: Option<String>,
    /// File with its key and nothing else
    #[arg(long, value_name = "FILE")]
    induce_key_file: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum EmbedderChoice {
    Builtin,
    #[value(name = "openai")]
    OpenAi,
    Gemini,
}

impl From<UpArgs> for UpOptions {
    fn from(args: UpArgs) -> Self {
        let UpArgs {
            listen,
            no_listen,
            announce,
            peer: peers,
            bootstrap,
            via,
            relay,
            dht,
            psk,
            no_quic,
            http,
            mdns,
            fetch_near,
            ..
        } = args;
        let quic = !no_quic;
        let embedder = EmbedderOptions {
            provider: args.embedder.and_then(|choice| match choice {
                EmbedderChoice::Builtin => None,
                EmbedderChoice::OpenAi => Some(Provider::OpenAi),
                EmbedderChoice::Gemini => Some(Provider::Gemini),
            }),
            url: args.embedder_url,
            model: args.embedder_model,
            dim: args.embedder_dim,
            ..EmbedderOptions::default()
        };
        let induction = InductionOptions {
            provider: args.induce,
            url: args.induce_url,
            model: args.induce_model,
            key_file: args.induce_key_file,
            ..InductionOptions::default()
        };
        Self {
            listen,
            no_listen,
            announce,
            peers,
            bootstrap,
            via,
            relay,
            dht,
            psk,
            quic,
            http,
            mdns,
            fetch_near,
            embedder,
            induction,
            builtin_only: args.embedder == Some(EmbedderChoice::Builtin),
            ..Self::default()
        }
    }
}

/// Runs a daemon on a home whose lock it is given: says when it is ready, stops when told, and returns when everything
/// is on disk and closed.
pub trait Launch:
    AsyncFnOnce(Home, HomeLock, UpOptions, CancellationToken, oneshot::Sender<UpReady>) -> Answer<()>
{
}

impl<F> Launch for F where
    F: AsyncFnOnce(Home, HomeLock, UpOptions, CancellationToken, oneshot::Sender<UpReady>) -> Answer<()>
{
}

pub(super) fn run(args: UpArgs, launch: impl Launch, context: &mut Context) -> Answer<u8> {
    let home = Home::open(&context.data()?)?;
    let lock = home.lock()?;
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| ApiError::failed(format!("cannot start: {error}")))?
        .block_on(serve(home, lock, args.into(), launch, context))?;
    Ok(0)
}

async fn serve(
    home: Home,
    lock: HomeLock,
    options: UpOptions,
    launch: impl Launch,
    context: &mut Context,
) -> Answer<()> {
    let stop = CancellationToken::new();
    // From here on a signal is a request and not the end, also while the store is being opened.
    stop_on_signals(stop.clone())?;
    let (ready, is_ready) = oneshot::channel();
    let daemon = launch(home, lock, options, stop, ready);
    let mut daemon = std::pin::pin!(daemon);
    tokio::select! {
        // A daemon that is told to stop at once has still been ready.
        biased;
        said = is_ready => {
            if let Ok(ready) = said {
                context.show_own(&ready, text)?;
            }
        }
        ended = &mut daemon => return ended,
    }
    daemon.await
}

/// The first SIGINT or SIGTERM asks for a clean stop, the second does not wait for it.
fn stop_on_signals(stop: CancellationToken) -> Answer<()> {
    let listen = |kind| signal(kind).map_err(|error| ApiError::failed(format!("cannot listen for signals: {error}")));
    let (mut interrupt, mut terminate) = (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
    tokio::spawn(async move {
        for earlier in 0.. {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            if earlier > 0 {
                tracing::warn!("told to stop a second time: not waiting for a clean end");
                std::process::exit(1);
            }
            tracing::info!("stopping");
            stop.cancel();
        }
    });
    Ok(())
}

fn address(text: &str) -> Result<String, String> {
    Address::parse(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

fn loopback(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr = text.parse().map_err(|_| "an address like 127.0.0.1:4242 is wanted".to_owned())?;
    if address.ip().is_loopback() { Ok(address) } else { Err(crate::http::BindError::NotLoopback(address).to_string()) }
}

fn text(ready: &UpReady) -> String {
    let listening = if ready.listening.is_empty() { "nowhere".to_owned() } else { ready.listening.join(" ") };
    format!("folklore is up: node {}, listening on {listening}, http {}", ready.node, ready.http)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ready_line_is_one_line() {
        let ready = UpReady {
            node: "12D3".into(),
            listening: vec!["/ip4/127.0.0.1/tcp/1".into(), "/ip4/127.0.0.1/tcp/2".into()],
            http: "127.0.0.1:3".parse().unwrap(),
            data: "/d".into(),
            pid: 4,
        };
        assert_eq!(
            text(&ready),
            "folklore is up: node 12D3, listening on /ip4/127.0.0.1/tcp/1 /ip4/127.0.0.1/tcp/2, http 127.0.0.1:3"
        );
    }
}
