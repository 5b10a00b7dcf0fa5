//! `folklore eval`: how good recall is, on labelled sets. Needs no daemon and no home.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::{Args, ValueEnum};
use folklore_store::{
    embed::{BuiltinEmbedder, Embedder},
    eval::{self, EvalOptions, Half, Interval, OWN, SYSTEMS, Set, SetError, SetReport},
};
use serde::Serialize;

use super::{
    Context,
    words::{count, table},
};
use crate::api::{Answer, ApiError, EmbedderInfo};

/// Most resamples: more narrows no interval and takes minutes.
const MAX_RESAMPLES: usize = 100_000;

#[derive(Debug, Args)]
pub(super) struct EvalArgs {
    /// Sets: own, web-tasks, task-types, steps [default: all that are there]
    #[arg(value_name = "SET")]
    sets: Vec<String>,
    /// A set of your own: JSON Lines of {"doc", "task", "text"} and {"query", "relevant": [DOC, ...]}; repeatable
    #[arg(long, value_name = "FILE")]
    file: Vec<PathBuf>,
    /// The folder that the sets web-tasks, task-types and steps are made of
    #[arg(long, value_name = "DIR", env = "FOLKLORE_SHARED_DATA", default_value = "../shared/data")]
    labelled: PathBuf,
    /// Which queries count: a hash splits them, and constants were fitted on one half of some
    #[arg(long, value_enum, default_value_t = HalfArg::All)]
    half: HalfArg,
    /// Seed of the bootstrap
    #[arg(long, value_name = "N", default_value_t = EvalOptions::default().seed)]
    seed: u64,
    /// Times the queries are drawn anew for an interval
    #[arg(long, value_name = "N", default_value_t = EvalOptions::default().resamples, value_parser = resamples)]
    resamples: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum HalfArg {
    All,
    Fitted,
    HeldOut,
}

fn resamples(text: &str) -> Result<usize, String> {
    let resamples = text.parse().ok().filter(|n| *n <= MAX_RESAMPLES);
    resamples.ok_or_else(|| format!("a number up to {MAX_RESAMPLES} is wanted"))
}

/// A set that was left out.
#[derive(Debug, Serialize)]
struct LeftOut {
    set: String,
    reason: String,
}

/// nDCG@10 over the sets.
#[derive(Debug, Serialize)]
struct Mean {
    system: &'static str,
    ndcg_10: f64,
}

/// What `eval` answers.
#[derive(Debug, Serialize)]
struct EvalResponse {
    embedder: EmbedderInfo,
    half: Half,
    seed: u64,
    resamples: usize,
    sets: Vec<SetReport>,
    mean: Vec<Mean>,
    skipped: Vec<LeftOut>,
}

pub(super) fn run(args: EvalArgs, context: &mut Context) -> Answer<u8> {
    let half = match args.half {
        HalfArg::All => Half::All,
        HalfArg::Fitted => Half::Fitted,
        HalfArg::HeldOut => Half::HeldOut,
    };
    let options = EvalOptions { seed: args.seed, resamples: args.resamples, half };
    let (sets, skipped) = sets(&args)?;
    let embedder: Arc<dyn Embedder> = Arc::new(BuiltinEmbedder::new());
    let mut reports = Vec::new();
    for set in &sets {
        if context.progress && !context.out.is_json() {
            context.out.note(&format!("evaluating {}: {}", set.name, queries(set.queries.len())));
        }
        let report = eval::evaluate(set, &embedder, &options);
        reports.push(report.map_err(|error| ApiError::failed(error.to_string()))?);
    }
    let identity = embedder.identity();
    let ndcg = |at: usize| reports.iter().filter_map(|report| Some(report.systems.get(at)?.ndcg_10.value)).sum::<f64>();
    let mean = |(at, system)| Mean { system, ndcg_10: ndcg(at) / reports.len().max(1) as f64 };
    let response = EvalResponse {
        embedder: EmbedderInfo { name: identity.name.clone(), revision: identity.revision.clone(), dim: identity.dim },
        half,
        seed: options.seed,
        resamples: options.resamples,
        mean: SYSTEMS.into_iter().enumerate().map(mean).collect(),
        sets: reports,
        skipped,
    };
    context.show_own(&response, text)?;
    Ok(0)
}

/// The sets asked for, and those that cannot be had. One that was named must be there.
fn sets(args: &EvalArgs) -> Answer<(Vec<Set>, Vec<LeftOut>)> {
    let (mut sets, mut skipped) = (Vec::new(), Vec::new());
    let all = args.sets.is_empty() && args.file.is_empty();
    let known: Vec<&str> = std::iter::once(OWN).chain(eval::all_shared()).collect();
    let wanted: Vec<&str> = if all { known.clone() } else { args.sets.iter().map(String::as_str).collect() };
    for name in wanted {
        if name == OWN {
            sets.push(eval::own());
            continue;
        }
        match eval::shared(name, &args.labelled) {
            None => {
                return Err(ApiError::not_found(format!(
                    "no set is called '{name}': there are {}; --file FILE reads one of your own",
                    known.join(", ")
                )));
            }
            Some(Ok(set)) => sets.push(set),
            Some(Err(error)) if all => skipped.push(LeftOut { set: name.to_owned(), reason: error.to_string() }),
            Some(Err(error)) => {
                return Err(ApiError::not_found(format!("{error}: --labelled DIR names the folder of labelled data")));
            }
        }
    }
    for file in &args.file {
        sets.push(own_set(file)?);
    }
    Ok((sets, skipped))
}

fn own_set(file: &Path) -> Answer<Set> {
    let text = fs::read_to_string(file)
        .map_err(|error| ApiError::not_found(format!("cannot read {}: {error}", file.display())))?;
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or("file");
    eval::read_jsonl(name, &text).map_err(|error: SetError| ApiError::bad_request(error.to_string()))
}

fn text(response: &EvalResponse) -> String {
    let mut parts = Vec::new();
    for report in &response.sets {
        let mut rows = vec![["", "recall@1", "recall@5", "recall@10", "MRR", "nDCG@10"].map(str::to_owned).to_vec()];
        for system in &report.systems {
            let figures = [system.recall_1, system.recall_5, system.recall_10, system.mrr, system.ndcg_10];
            rows.push(std::iter::once(system.system.to_owned()).chain(figures.map(interval)).collect());
        }
        let gate = &report.gate;
        let of = |some: usize, all: usize| format!("{some} of {all}");
        let mut lines = vec![
            format!("{}: {}", report.set, report.about),
            format!("{}, {}", count(report.docs as u64, "lesson"), queries(report.queries)),
            table(&rows),
            format!("hybrid less the better of the two, nDCG@10: {}", signed(report.hybrid_gain)),
            format!(
                "gate: answered {}, {} by a right one; off-topic answered {}",
                of(gate.on_topic_answered, gate.on_topic),
                gate.on_topic_right,
                of(gate.off_topic_answered, gate.off_topic)
            ),
        ];
        lines.retain(|line| !line.is_empty());
        parts.push(lines.join("\n"));
    }
    if response.sets.len() > 1 {
        let means = response.mean.iter().map(|mean| format!("{} {:.3}", mean.system, mean.ndcg_10));
        parts.push(format!("mean nDCG@10: {}", means.collect::<Vec<_>>().join(", ")));
    }
    parts.extend(response.skipped.iter().map(|left| format!("left out {}: {}", left.set, left.reason)));
    parts.push(format!(
        "in brackets 95 % intervals by bootstrap ({} resamples, seed {}); embedder {} {}",
        response.resamples, response.seed, response.embedder.name, response.embedder.revision
    ));
    parts.join("\n\n")
}

fn queries(n: usize) -> String {
    if n == 1 { "1 query".to_owned() } else { format!("{n} queries") }
}

fn interval(x: Interval) -> String {
    format!("{:.3} [{:.3}, {:.3}]", x.value, x.low, x.high)
}

fn signed(x: Interval) -> String {
    format!("{:+.3} [{:+.3}, {:+.3}]", x.value, x.low, x.high)
}
