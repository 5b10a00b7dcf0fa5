//! `folklore import`: files in, lessons out.

use std::{
    cmp::Reverse,
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};

use super::{
    Context, EXIT_SKIPPED,
    induce::ModelArgs,
    output::clean,
    words::{count, len, replaced},
};
use crate::api::{
    Answer, ApiError, DEFAULT_INDUCE, ImportEvent, ImportRequest, ImportResponse, ImportedFile, NoLesson, Skipped,
};

/// Reasons for runs without a lesson that the summary names; the rest is counted.
const SHOWN_REASONS: usize = 5;

#[derive(Debug, Args)]
pub(super) struct ImportArgs {
    /// Files or directories
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Read every file as this format, see 'folklore formats' [default: told from the content]
    #[arg(long, value_name = "FORMAT")]
    format: Option<String>,
    /// A table that says which task succeeded, for formats whose files do not
    #[arg(long, value_name = "FILE")]
    outcomes: Option<PathBuf>,
    /// What draws lessons from runs: 'extractive' (rules), a model through the queue ('openai', 'gemini', 'anthropic'), 'agent'
    /// (your own model, by 'folklore induce') or 'none'
    #[arg(long, value_name = "BACKEND", default_value = DEFAULT_INDUCE)]
    induce: String,
    #[command(flatten)]
    model: ModelArgs,
    /// Name or id of the bank that gets the lessons
    #[arg(long, value_name = "BANK")]
    bank: Option<String>,
    /// Print each event as a line of JSON as it happens; a file is named only when it is safe on disk
    #[arg(long)]
    events: bool,
}

pub(super) async fn run(args: ImportArgs, context: &mut Context) -> Answer<u8> {
    let client = context.client()?;
    let events_wanted = args.events;
    let (request, unnameable) = request(args)?;
    if request.paths.is_empty() {
        return Err(ApiError::bad_request("none of the paths is UTF-8 text: rename the files"));
    }
    let mut events = client.import(&request).await?;
    let mut shown = Shown::new(context, events_wanted);
    unnameable.iter().for_each(|item| shown.skipped(item));
    let mut done = loop {
        let Some((event, json)) = events.next().await? else {
            return Err(ApiError::failed(
                "the daemon went away during the import: the files reported are kept, import the others again",
            ));
        };
        shown.event(&event, &json);
        match event {
            ImportEvent::Done(done) => break done,
            ImportEvent::Error(error) => return Err(error),
            ImportEvent::File(_) | ImportEvent::Progress { .. } => {}
        }
    };
    drop(shown);
    done.skipped.splice(0..0, unnameable);
    let code = if done.skipped.is_empty() { 0 } else { EXIT_SKIPPED };
    if !events_wanted {
        context.show_own(&done, summary)?;
    }
    Ok(code)
}

/// The request, and the paths that cannot be put into JSON.
fn request(args: ImportArgs) -> Answer<(ImportRequest, Vec<Skipped>)> {
    let absolute = |path: &Path| {
        std::path::absolute(path)
            .map_err(|error| ApiError::bad_request(format!("'{}' is not a usable path: {error}", path.display())))
    };
    let (mut paths, mut skipped) = (Vec::new(), Vec::new());
    for path in &args.paths {
        let path = absolute(path)?;
        if path.to_str().is_some() {
            paths.push(path);
        } else {
            let reason = "its name is not UTF-8 text: rename it".to_owned();
            skipped.push(Skipped { path: path.display().to_string(), item: None, reason });
        }
    }
    let outcomes = args.outcomes.as_deref().map(absolute).transpose()?;
    if let Some(path) = outcomes.iter().find(|path| path.to_str().is_none()) {
        return Err(ApiError::bad_request(format!("the name of '{}' is not UTF-8 text: rename it", path.display())));
    }
    Ok((
        ImportRequest {
            paths,
            format: args.format,
            outcomes,
            induce: args.induce,
            model: args.model.into(),
            bank: args.bank,
        },
        skipped,
    ))
}

/// How an import under way is shown: a bar where somebody watches, else a line a file; with `--json` only what was
/// skipped, on stderr.
struct Shown<'a> {
    context: &'a mut Context,
    bar: Option<ProgressBar>,
    events: bool,
}

impl<'a> Shown<'a> {
    fn new(context: &'a mut Context, events: bool) -> Self {
        let bar = (context.progress && !context.out.is_json() && !events).then(|| {
            let style = ProgressStyle::with_template("{bar:30} {bytes}/{total_bytes} {wide_msg}");
            ProgressBar::no_length().with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        Self { context, bar, events }
    }

    fn event(&mut self, event: &ImportEvent, json: &str) {
        if self.events {
            self.context.out.json_text(json);
            return;
        }
        match event {
            ImportEvent::File(file) => {
                // What could not be read at all was not imported; the line below says so.
                let nothing = file.runs == 0 && file.duplicates == 0 && file.lessons.is_empty();
                let unread = nothing && file.skipped.iter().any(|item| item.item.is_none());
                if !self.context.out.is_json() && self.bar.is_none() && !unread {
                    self.context.out.text(&file_line(file));
                }
                file.skipped.iter().for_each(|item| self.skipped(item));
            }
            ImportEvent::Progress { path, done_bytes, total_bytes } => {
                if let Some(bar) = &self.bar {
                    bar.set_length(*total_bytes);
                    bar.set_position(*done_bytes);
                    bar.set_message(clean(name_of(path)));
                }
            }
            ImportEvent::Done(_) | ImportEvent::Error(_) => {}
        }
    }

    fn skipped(&mut self, item: &Skipped) {
        let out = &mut self.context.out;
        let line = format!("folklore: {}", skipped_line(item));
        match &self.bar {
            Some(bar) => bar.suspend(|| out.note(&line)),
            None => out.note(&line),
        }
    }
}

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn name_of(path: &str) -> &str {
    Path::new(path).file_name().and_then(|name| name.to_str()).unwrap_or(path)
}

fn file_line(file: &ImportedFile) -> String {
    format!(
        "imported {}: {}, {}, {}",
        name_of(&file.path),
        count(file.runs, "run"),
        count(len(&file.lessons), "lesson"),
        count(file.duplicates, "duplicate")
    )
}

fn skipped_line(skipped: &Skipped) -> String {
    let name = name_of(&skipped.path);
    match &skipped.item {
        Some(item) => format!("skipped {name}, {item}: {}", skipped.reason),
        // Readers name the file themselves where the whole of it is at fault.
        None if skipped.reason.contains(name) => format!("skipped: {}", skipped.reason),
        None => format!("skipped {name}: {}", skipped.reason),
    }
}

fn summary(done: &ImportResponse) -> String {
    let counts = format!(
        "{}: {}, {}, {}, {} skipped",
        count(done.files, "file"),
        count(done.runs, "run"),
        count(done.lessons, "lesson"),
        count(done.duplicates, "duplicate"),
        done.skipped.len()
    );
    let merged =
        (done.merged > 0).then(|| format!("  {} said what others say: claims on those", count(done.merged, "lesson")));
    let queued = (done.queued > 0)
        .then(|| format!("  {} for the model: 'folklore jobs' shows how far it is", count(done.queued, "job")));
    let merged = merged.into_iter().chain(replaced(&done.replaced, done.merged));
    let more = merged.chain(queued).collect();
    [vec![counts], more, reasons(&done.no_lesson)].concat().join("\n")
}

/// Why runs taught nothing, most frequent first.
fn reasons(no_lesson: &[NoLesson]) -> Vec<String> {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for run in no_lesson {
        *counts.entry(run.reason.as_str()).or_default() += 1;
    }
    let mut counts: Vec<(&str, u64)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, n)| Reverse(*n));
    let more: u64 = counts.iter().skip(SHOWN_REASONS).map(|(_, n)| n).sum();
    let line = |(reason, n): &(&str, u64)| format!("  no lesson from {}: {reason}", count(*n, "run"));
    let mut lines: Vec<String> = counts.iter().take(SHOWN_REASONS).map(line).collect();
    if more > 0 {
        lines.push(format!("  no lesson from {} for other reasons: --json tells all", count(more, "run")));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Replaced;

    #[test]
    fn a_file_reads_as_one_line() {
        let lessons = (0..7).map(|n| n.to_string()).collect();
        let file = ImportedFile { path: "/x/a b.json".into(), runs: 12, lessons, ..Default::default() };
        assert_eq!(file_line(&file), "imported a b.json: 12 runs, 7 lessons, 0 duplicates");
    }

    #[test]
    fn what_was_skipped_is_named_once() {
        let line = |item: Option<&str>, reason: &str| {
            let (path, item) = ("/x/a.json".into(), item.map(str::to_owned));
            skipped_line(&Skipped { path, item, reason: reason.into() })
        };
        assert_eq!(line(None, "a.json is empty"), "skipped: a.json is empty");
        assert_eq!(line(None, "permission denied"), "skipped a.json: permission denied");
        assert_eq!(line(Some("item 3"), "no steps"), "skipped a.json, item 3: no steps");
    }

    #[test]
    fn the_summary_counts_and_groups_reasons() {
        let no_lesson = |n: usize, reason: &str| vec![NoLesson { run: "r".into(), reason: reason.to_owned() }; n];
        let done = ImportResponse {
            files: 1,
            runs: 9,
            lessons: 2,
            duplicates: 0,
            merged: 4,
            replaced: vec![Replaced {
                title: "Weigh it".into(),
                content: "Weigh it.".into(),
                by: "bafk1".into(),
                by_title: "Weigh".into(),
            }],
            queued: 0,
            skipped: vec![],
            no_lesson: [no_lesson(1, "too short"), no_lesson(3, "nobody labelled it")].concat(),
        };
        assert_eq!(
            summary(&done),
            "1 file: 9 runs, 2 lessons, 0 duplicates, 0 skipped\n  4 lessons said what others say: claims on those\n  \
             not kept: 'Weigh it', for bafk1 says it ('Weigh')\n  not kept: 3 more, which --json names\n  no lesson from 3 runs: nobody labelled it\n  \
             no lesson from 1 run: too short"
        );
        let many: Vec<NoLesson> = (0..8).flat_map(|n| no_lesson(1, &format!("reason {n}"))).collect();
        assert_eq!(reasons(&many).last().unwrap(), "  no lesson from 3 runs for other reasons: --json tells all");
    }
}
