//! `folklore status`.

use super::{
    Context, peers,
    words::{bytes, count, fields, short_hash, short_node, table},
};
use crate::api::{Answer, BankInfo, Status};

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
        ("embedder", &format!("{} {} ({} dimensions)", s.embedder.name, s.embedder.revision, s.embedder.dim)),
        ("jobs", &format!("{} waiting, {} failed", s.jobs.waiting, s.jobs.failed)),
        ("traffic", &format!("{} in, {} out", bytes(s.traffic.bytes_in), bytes(s.traffic.bytes_out))),
        ("secrets", &format!("rule set {}", s.redaction.rules_version)),
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
            bank.id.clone(),
        ]
    };
    let banks = section("banks", &s.banks.iter().map(bank).collect::<Vec<_>>());
    let peers = section("peers", &peers::rows(&s.peers, "  "));
    format!("{about}\n{banks}\n{peers}")
}

fn section(name: &str, rows: &[Vec<String>]) -> String {
    if rows.is_empty() { format!("{name}\n  none") } else { format!("{name}\n{}", table(rows)) }
}
