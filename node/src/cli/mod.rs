//! The `folklore` command. Every verb but `init`, `up` and `formats` is a client of the daemon's HTTP door.
//!
//! One file a verb: its arguments, what it asks, how the answer reads. Answers go to stdout, as text or with `--json` as
//! one JSON object; everything else goes to stderr. An error is one line and one of the exit codes of [`ErrorCode`].

mod attempts;
mod bank;
mod begin;
mod client;
mod demo;
mod doctor;
mod end;
mod eval;
mod forget;
mod formats;
mod import;
mod induce;
mod init;
mod jobs;
mod list;
mod output;
mod peers;
mod rate;
mod recall;
mod resume;
mod runs;
mod show;
mod status;
mod step;
mod sync;
mod teach;
#[cfg(test)]
mod tests;
mod up;
mod withdraw;
mod words;

use std::{
    ffi::OsString,
    future::Future,
    io::{self, IsTerminal, Read},
    path::PathBuf,
    process::ExitCode,
};

use clap::{ArgAction, Args, Parser, Subcommand};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::value::RawValue;
use tracing_subscriber::EnvFilter;

use crate::{
    api::{Answer, ApiError, ErrorBody, ErrorCode},
    home::Home,
};
use client::Client;
use output::Output;

pub use up::Launch;

/// Exit code of a command line that cannot be meant.
const EXIT_USAGE: u8 = 2;
/// Exit code of an import that left something out.
const EXIT_SKIPPED: u8 = 6;

/// A memory that agents share: what one learned, the others are told.
#[derive(Debug, Parser)]
#[command(
    name = "folklore",
    version,
    arg_required_else_help = true,
    after_help = "Exit codes: 0 done, 1 failed, 2 usage, 3 no daemon, 4 not found, 5 refused by policy, 6 some items skipped."
)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Args)]
struct Global {
    /// The node's home [default: $XDG_DATA_HOME/folklore or ~/.local/share/folklore]
    #[arg(long, global = true, env = "FOLKLORE_DATA", value_name = "DIR")]
    data: Option<PathBuf>,
    /// Answer with one JSON object on stdout
    #[arg(long, global = true)]
    json: bool,
    /// Log more to stderr; twice for everything
    #[arg(short, long, global = true, action = ArgAction::Count)]
    verbose: u8,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a home for a node
    Init(init::InitArgs),
    /// Run the daemon, until SIGINT or SIGTERM
    Up(up::UpArgs),
    /// Show what the node is, holds and is connected to
    Status,
    /// Begin a run: what an agent does is kept from step to step
    Begin(begin::BeginArgs),
    /// Record a step of a run, given as JSON on stdin
    Step(step::StepArgs),
    /// End a run and learn from it
    End(end::EndArgs),
    /// Go on with a run after a crash, or take it over
    Resume(resume::ResumeArgs),
    /// List the runs under way
    Runs(runs::RunsArgs),
    /// Read finished runs from files and learn from them
    Import(import::ImportArgs),
    /// Draw lessons from runs that are here, or show the prompt for your own model and take its answer
    Induce(induce::InduceArgs),
    /// Show, retry or drop what waits for a model
    Jobs(jobs::JobsArgs),
    /// Show the runs of one task, here and as far as other nodes tell
    Attempts(attempts::AttemptsArgs),
    /// Print the prompt by which an agent looks over its own run
    Refine(attempts::RefineArgs),
    /// Store one lesson, given as JSON on stdin
    Teach(teach::TeachArgs),
    /// Ask what is known about a task
    Recall(recall::RecallArgs),
    /// Show one lesson and everything claimed about it
    Show(show::ShowArgs),
    /// List lessons
    List(list::ListArgs),
    /// Say that a lesson helped or hurt
    Rate(rate::RateArgs),
    /// Take back what this node taught
    Withdraw(withdraw::WithdrawArgs),
    /// Erase the text of a lesson from this node
    Forget(forget::ForgetArgs),
    /// Make, share and join banks
    #[command(subcommand)]
    Bank(bank::BankCommand),
    /// List the nodes this one knows
    Peers,
    /// Exchange records with peers now
    Sync(sync::SyncArgs),
    /// Look for trouble
    Doctor(doctor::DoctorArgs),
    /// Measure how good recall is on labelled sets, without a daemon
    Eval(eval::EvalArgs),
    /// Watch three nodes on this machine live through a cut link
    Demo,
    /// List the trajectory formats that import reads
    Formats,
}

/// Runs the command with this process's arguments and streams. `launch` runs a daemon.
pub fn main(launch: impl Launch) -> ExitCode {
    let mut context = Context {
        out: Output::new(Box::new(io::stdout()), Box::new(io::stderr())),
        input: Box::new(io::stdin()),
        progress: io::stderr().is_terminal(),
        data: None,
    };
    ExitCode::from(run(std::env::args_os(), launch, &mut context))
}

/// What a verb works with.
struct Context {
    out: Output,
    input: Box<dyn Read>,
    /// Whether somebody watches stderr.
    progress: bool,
    data: Option<PathBuf>,
}

impl Context {
    fn data(&self) -> Answer<PathBuf> {
        match &self.data {
            Some(dir) => Ok(dir.clone()),
            None => Ok(Home::default_dir()?),
        }
    }

    fn client(&self) -> Answer<Client> {
        Client::find(&self.data()?)
    }

    /// Shows an answer as it came, or as text.
    fn show<T: DeserializeOwned>(&mut self, answer: &RawValue, text: impl FnOnce(&T) -> String) -> Answer<()> {
        if self.out.is_json() {
            self.out.json_text(answer.get());
        } else {
            let shown = text(&client::typed(answer)?);
            self.out.text(&shown);
        }
        Ok(())
    }

    /// Shows what this process itself has to say.
    fn show_own<T: Serialize>(&mut self, value: &T, text: impl FnOnce(&T) -> String) -> Answer<()> {
        if self.out.is_json() {
            self.out.json(value)
        } else {
            let shown = text(value);
            self.out.text(&shown);
            Ok(())
        }
    }
}

fn run(args: impl IntoIterator<Item = OsString>, launch: impl Launch, context: &mut Context) -> u8 {
    let args: Vec<OsString> = args.into_iter().collect();
    let cli = match Cli::try_parse_from(&args) {
        Ok(cli) => cli,
        Err(error) => return usage(&error, &args, context),
    };
    context.out.set_json(cli.global.json);
    context.data = cli.global.data;
    log_to_stderr(cli.global.verbose);
    let code = dispatch(cli.command, launch, context).unwrap_or_else(|error| report(&error, context));
    match context.out.finish() {
        Ok(()) => code,
        Err(error) => {
            context.out.note(&format!("folklore: the answer could not be written: {error}"));
            ErrorCode::Failed.exit_code()
        }
    }
}

fn dispatch(command: Command, launch: impl Launch, context: &mut Context) -> Answer<u8> {
    match command {
        Command::Up(args) => up::run(args, launch, context),
        Command::Formats => formats::run(context),
        Command::Eval(args) => eval::run(args, context),
        Command::Demo => wait(demo::run(context)),
        Command::Init(args) => wait(init::run(args, context)),
        Command::Status => wait(status::run(context)),
        Command::Begin(args) => wait(begin::run(args, context)),
        Command::Step(args) => wait(step::run(args, context)),
        Command::End(args) => wait(end::run(args, context)),
        Command::Resume(args) => wait(resume::run(args, context)),
        Command::Runs(args) => wait(runs::run(args, context)),
        Command::Import(args) => wait(import::run(args, context)),
        Command::Induce(args) => wait(induce::run(args, context)),
        Command::Jobs(args) => wait(jobs::run(args, context)),
        Command::Attempts(args) => wait(attempts::run(args, context)),
        Command::Refine(args) => wait(attempts::refine(args, context)),
        Command::Teach(args) => wait(teach::run(args, context)),
        Command::Recall(args) => wait(recall::run(args, context)),
        Command::Show(args) => wait(show::run(args, context)),
        Command::List(args) => wait(list::run(args, context)),
        Command::Rate(args) => wait(rate::run(args, context)),
        Command::Withdraw(args) => wait(withdraw::run(args, context)),
        Command::Forget(args) => wait(forget::run(args, context)),
        Command::Bank(command) => wait(bank::run(command, context)),
        Command::Peers => wait(peers::run(context)),
        Command::Sync(args) => wait(sync::run(args, context)),
        Command::Doctor(args) => wait(doctor::run(args, context)),
    }
}

/// Runs a client verb on this thread.
fn wait(verb: impl Future<Output = Answer<u8>>) -> Answer<u8> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| ApiError::failed(format!("cannot start: {error}")))?
        .block_on(verb)
}

/// Reads all of `input`, at most `limit` bytes of text; `what` names it in errors.
fn read_input(input: &mut dyn Read, limit: usize, what: &str) -> Answer<String> {
    let mut bytes = Vec::new();
    let bound = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    input
        .take(bound)
        .read_to_end(&mut bytes)
        .map_err(|error| ApiError::failed(format!("cannot read {what} from stdin: {error}")))?;
    if bytes.len() > limit {
        return Err(ApiError::bad_request(format!("{what} is longer than {limit} bytes, the limit: make it shorter")));
    }
    String::from_utf8(bytes).map_err(|_| ApiError::bad_request(format!("{what} on stdin is not UTF-8 text")))
}

/// One line on stderr, and with `--json` the error as JSON on stdout.
fn report(error: &ApiError, context: &mut Context) -> u8 {
    if context.out.is_json() {
        // Errors always serialise; a stdout that is gone is dealt with at the end.
        let _ = context.out.json(&ErrorBody { error: error.clone() });
    }
    let line = error.message.split_whitespace().collect::<Vec<_>>().join(" ");
    context.out.note(&format!("folklore: {line}"));
    error.code.exit_code()
}

/// Help and version go to stdout; a usage error to stderr, as clap words it.
fn usage(error: &clap::Error, args: &[OsString], context: &mut Context) -> u8 {
    let text = error.render().to_string();
    if !error.use_stderr() {
        context.out.text(&text);
        return 0;
    }
    if args.iter().any(|arg| arg == "--json") {
        let message = text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
        let _ = context.out.json(&ErrorBody { error: ApiError::bad_request(message) });
    }
    context.out.note(text.trim_end());
    EXIT_USAGE
}

fn log_to_stderr(verbose: u8) {
    let own = |level: &str| {
        ["folklore_node", "folklore_store", "folklore_protocol"].map(|name| format!("{name}={level}")).join(",")
    };
    // libp2p's DHT warns that it knows nobody, which for a node without a public bank is how it should be.
    let filter = match verbose {
        0 => "warn,libp2p_kad=error".to_owned(),
        1 => format!("warn,libp2p_kad=error,{}", own("info")),
        2 => format!("info,libp2p_kad=error,{}", own("debug")),
        _ => "debug".to_owned(),
    };
    let filter = EnvFilter::try_from_env("FOLKLORE_LOG").unwrap_or_else(|_| EnvFilter::new(filter));
    // Fails when there is one already, as in tests; that one stays.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        // Or a line that cannot be written, on a full disk or to a reader that left, would end the thread that logs it.
        .log_internal_errors(false)
        .try_init();
}
