//! What reads tickets, files, settings and what models answer in `folklore-node`.

use std::ops::ControlFlow;

use folklore_node::{
    api::UpOptions,
    embedding::EmbedderOptions,
    formats::{self, Item, Outcomes, ReadOptions},
    induction::{answer, config::InductionOptions},
    network::Address,
    settings::NetworkSettings,
    ticket::Ticket,
};

/// A function that takes any bytes, and its name.
pub type Target = (&'static str, fn(&[u8]));

/// Every target here.
pub const TARGETS: &[Target] =
    &[("ticket", ticket), ("runs", runs), ("outcomes", outcomes), ("settings", settings), ("answer", answer)];

/// A ticket, as somebody typed it.
pub fn ticket(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(ticket) = text.parse::<Ticket>() {
        let written = ticket.to_string();
        assert_eq!(written.parse(), Ok(ticket), "what reads can be written and read");
        assert!(written.eq_ignore_ascii_case(text.trim()), "a ticket has one text");
    }
}

/// A file of finished runs: found out by itself, and read as each format in turn.
pub fn runs(bytes: &[u8]) {
    let Ok(file) = tempfile(bytes) else { return };
    let read = |format| {
        let mut runs = 0;
        let mut sink = |item| {
            if let Item::Run(run) = item {
                runs += 1;
                // The digest goes over every field.
                assert_eq!(run.digest(), run.clone().digest());
            }
            ControlFlow::Continue(())
        };
        let summary = formats::read_path(&file, &ReadOptions { format, outcomes: None, position: None }, &mut sink);
        if let Ok(summary) = summary {
            assert_eq!(summary.runs, runs);
        }
        runs
    };
    read(None);
    formats::formats().iter().for_each(|format| {
        read(Some(format));
    });
}

/// Where the bytes lie while they are read: one file a process, since importers read files.
fn tempfile(bytes: &[u8]) -> std::io::Result<std::path::PathBuf> {
    let thread = std::thread::current().id();
    let path = std::env::temp_dir().join(format!("folklore-fuzz-{}-{thread:?}.json", std::process::id()));
    std::fs::write(&path, bytes)?;
    Ok(path)
}

/// A table of labels.
pub fn outcomes(bytes: &[u8]) {
    if let Ok(table) = Outcomes::parse(bytes, "labels.json") {
        assert_eq!(table.task_keys().count(), table.len());
        assert!(table.task_keys().is_sorted());
    }
}

/// The settings that a person writes down: `network.json`, `embedder.json` and `induction.json`; and what follows from them.
pub fn settings(bytes: &[u8]) {
    if let Ok(settings) = NetworkSettings::parse(bytes) {
        let options = settings.under(UpOptions::default(), std::path::Path::new("/home"));
        let addresses = [options.listen, options.announce, options.peers, options.bootstrap, options.via];
        for text in addresses.iter().flatten() {
            let address = Address::parse(text).expect("the file's addresses were looked at");
            assert_eq!(Address::parse(&address.to_text()).ok(), Some(address), "an address reads as it is written");
        }
        let limits = options.limits;
        assert!(limits.max_peers > 0 && limits.memory_bytes != Some(0), "a limit that lets nobody in is an error");
    }
    if let Ok(options) = EmbedderOptions::parse(bytes) {
        assert!(options.provider.is_some());
        assert_eq!(options.clone().over(EmbedderOptions::default()), options);
        assert_eq!(EmbedderOptions::default().over(options.clone()), options);
    }
    if let Ok(options) = InductionOptions::parse(bytes) {
        let written = serde_json::to_vec(&options).expect("plain fields");
        assert_eq!(InductionOptions::parse(&written), Ok(options.clone()), "what reads can be written and read");
        assert_eq!(InductionOptions::default().over(options.clone()), options);
    }
}

/// What a model answers when it is asked for lessons, or for a verdict.
pub fn answer(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(told) = answer::lessons(&text) {
        let written = serde_json::to_string(&told).expect("plain fields");
        // Marks that thinking is over count wherever they stand: behind them is the answer.
        if !written.contains("</") {
            assert_eq!(answer::lessons(&written), Ok(told), "what was read reads again");
        }
    }
    if let Ok(told) = answer::verdict(&text) {
        let written = serde_json::to_string(&told).expect("plain fields");
        if !written.contains("</") {
            assert_eq!(answer::verdict(&written), Ok(told));
        }
    }
}
