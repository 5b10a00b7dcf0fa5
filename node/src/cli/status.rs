//! `folklore status`.

use super::{
    Context, peers,
    words::{bytes, count, fields, short_hash, short_node, table},
};
use crate::api::{Answer, BankInfo, EmbeddingInfo, InductionInfo, NatKind, NetworkInfo, Status, StorageInfo};

pub(super) async fn run(context: &mut Context) -> Answer<u8> {
    let answer = context.client()?.get("status").await?;
    context.show(&answer, text)?;
    Ok(0)
}

fn text(s: &Status) -> String {
    let listening = if s.listening.is_empty() { "nowhere".to_owned() } else { s.listening.join("\n") };
    let about = fields(&[
        ("node", &s.node),
        ("version", &format!("{} (pid {})", s.version, s.pid)),
        ("home", &s.data),
        ("http", &s.http),
        ("listening", &listening),
        ("reachable", &reachable(&s.network)),
        ("relay", &s.network.relay.map(|r| relaying(r.reservations, r.circuits)).unwrap_or_default()),
        ("dht", &dht(&s.network)),
        ("private", if s.network.private { "a pre-shared key is in use; QUIC is off" } else { "" }),
        ("limits", &limits(&s.network)),
        ("embedder", &format!("{} {} ({} dimensions)", s.embedder.name, s.embedder.revision, s.embedder.dim)),
        ("service", &s.embedding.as_ref().map(embedding).unwrap_or_default()),
        ("jobs", &format!("{} waiting, {} failed", s.jobs.waiting, s.jobs.failed)),
        ("model", &s.induction.as_ref().map(induction).unwrap_or_default()),
        ("traffic", &format!("{} in, {} out", bytes(s.traffic.bytes_in), bytes(s.traffic.bytes_out))),
        ("secrets", &format!("rule set {}", s.redaction.rules_version)),
        ("database", &storage(&s.storage)),
        ("recovery", &s.recovery.as_ref().map(|lines| lines.join("\n")).unwrap_or_default()),
    ]);
    let bank = |bank: &BankInfo| {
        vec![
            format!("  {}", bank.name),
            count(bank.records, "record"),
            count(bank.lessons, "lesson"),
            format!("held {}", short_hash(&bank.held_root)),
            if bank.owner == s.node { "own".to_owned() } else { format!("of {}", short_node(&bank.owner)) },
            if bank.default { "default" } else { "" }.to_owned(),
            if bank.public { "public" } else { "" }.to_owned(),
            bank.id.clone(),
        ]
    };
    let banks = section("banks", &s.banks.iter().map(bank).collect::<Vec<_>>());
    let peers = peers::listing(&s.peers, &s.network.dialing, "  ");
    let peers = if peers.is_empty() { section("peers", &[]) } else { format!("peers\n{peers}") };
    format!("{about}\n{banks}\n{peers}")
}

/// How the second embedder fares.
fn embedding(e: &EmbeddingInfo) -> String {
    let doing = match (e.answers, e.waiting) {
        (true, Some(0)) => "answers".to_owned(),
        (true, Some(n)) => format!("answers; {n} new lessons wait for their vectors"),
        (false, Some(n)) => format!("is being filled, {} to go; the built-in embedder answers", count(n, "lesson")),
        (_, None) => "has not answered yet; the built-in embedder answers".to_owned(),
    };
    let failed =
        if e.failed > 0 { format!("; {} got no usable vectors", count(e.failed, "lesson")) } else { String::new() };
    let error = e.error.as_ref().map(|error| format!("\n{error}")).unwrap_or_default();
    format!("{} {doing}{failed}{error}", e.service)
}

/// How induction by a model fares.
fn induction(i: &InductionInfo) -> String {
    let mut lines = vec![match (&i.service, i.ended) {
        (Some(service), true) => format!("{service}, also for runs that end here"),
        (Some(service), false) => service.clone(),
        (None, _) => "none configured; jobs of earlier requests".to_owned(),
    }];
    if i.waiting + i.failed > 0 {
        lines.push(format!("{} waiting, {} failed: 'folklore jobs' shows them", count(i.waiting, "job"), i.failed));
    }
    let again = i.retry_in_s.map_or_else(String::new, |seconds| format!(" (again in {seconds} s)"));
    lines.extend(i.error.as_ref().map(|error| format!("{error}{again}")));
    lines.join("\n")
}

fn reachable(network: &NetworkInfo) -> String {
    let nat = match network.nat {
        NatKind::Unknown => "not tested",
        NatKind::Public => "yes, others dialled it",
        NatKind::Private => "no, behind a NAT",
    };
    let through = match network.relays.is_empty() {
        true => String::new(),
        false => format!("; through {}", network.relays.iter().map(|r| short_node(r)).collect::<Vec<_>>().join(" ")),
    };
    let mut lines = vec![format!("{nat}{through}")];
    lines.extend(network.external.iter().cloned());
    lines.join("\n")
}

fn relaying(reservations: u64, circuits: u64) -> String {
    format!("for {}, {}", count(reservations, "node"), count(circuits, "circuit"))
}

fn dht(network: &NetworkInfo) -> String {
    let dht = network.dht;
    if !dht.serving && dht.published == 0 {
        return String::new();
    }
    let banks = count(dht.published, "public bank");
    format!("{} known, {banks} announced, {} of others kept", count(dht.nodes, "node"), dht.kept)
}

/// Bounds that were hit; nothing where none was.
fn limits(network: &NetworkInfo) -> String {
    let hit = network.limit_hits.iter().filter(|(_, count)| **count > 0);
    let hit: Vec<String> = hit.map(|(name, times)| format!("{name} {}", count(*times, "time"))).collect();
    if hit.is_empty() { String::new() } else { format!("hit: {}", hit.join(", ")) }
}

/// The bank's files in a line, and what is wrong with them in further ones.
fn storage(s: &StorageInfo) -> String {
    let mut lines = vec![format!("{} for {} of values", bytes(s.file_bytes), bytes(s.live_bytes))];
    lines.extend(s.rewriting.then(|| "being rewritten into a fresh one".to_owned()));
    lines.extend(s.rewrite_failed.as_ref().map(|reason| format!("the last rewrite came to nothing: {reason}")));
    lines.extend(s.stopped.clone());
    lines.extend(s.unreadable.iter().map(|value| format!("cannot be read: {value}")));
    lines.extend(s.verifying.map(|v| format!("being checked: {} of {}", v.done, v.total)));
    lines.join("\n")
}

fn section(name: &str, rows: &[Vec<String>]) -> String {
    if rows.is_empty() { format!("{name}\n  none") } else { format!("{name}\n{}", table(rows)) }
}
