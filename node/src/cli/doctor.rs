//! `folklore doctor`: look for trouble, as far as it goes without a daemon too.

use std::{path::Path, time::Duration};

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};

use super::{
    Context,
    client::{self, Client},
    words::table,
};
use crate::{
    api::{Answer, ApiError, Check, DoctorRequest, DoctorResponse, ErrorCode, Status, StorageInfo},
    home::{Home, HomeError},
};

/// What `--verify` may take: every hash and signature of a million records, on a slow disk.
const VERIFY_TIMEOUT: Duration = Duration::from_secs(3600);

/// How often the bar of a check is moved.
const LOOK_EVERY: Duration = Duration::from_millis(500);

#[derive(Debug, Args)]
pub(super) struct DoctorArgs {
    /// Read everything and check every hash and signature
    #[arg(long)]
    verify: bool,
    /// Look through every text held for secrets, by the rules of this version
    #[arg(long)]
    secrets: bool,
}

pub(super) async fn run(args: DoctorArgs, context: &mut Context) -> Answer<u8> {
    let mut checks = Vec::new();
    if let Some(home) = look_at_home(&context.data()?, &mut checks) {
        let bar = (args.verify && context.progress && !context.out.is_json()).then(|| {
            let style = ProgressStyle::with_template("checking {bar:30} {pos}/{len} values, {eta} left");
            ProgressBar::no_length().with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        let request = DoctorRequest { verify: args.verify, secrets: args.secrets };
        look_at_daemon(&home, request, bar.as_ref(), &mut checks).await;
        if let Some(bar) = bar {
            bar.finish_and_clear();
        }
    }
    let response = DoctorResponse { ok: checks.iter().all(|check| check.ok), checks };
    context.show_own(&response, text)?;
    Ok(if response.ok { 0 } else { ErrorCode::Failed.exit_code() })
}

fn look_at_home(dir: &Path, checks: &mut Vec<Check>) -> Option<Home> {
    let home = match Home::open(dir) {
        Ok(home) => home,
        Err(error) => {
            checks.push(Check::new("home", false, error.to_string()));
            return None;
        }
    };
    checks.push(match home.bank() {
        Ok(own) => Check::new("home", true, format!("{}, owns bank {} ({})", dir.display(), own.name, own.id)),
        Err(error) => Check::new("home", false, error.to_string()),
    });
    let key = home.node().and_then(|node| Ok((node, home.identity_exposure()?)));
    checks.push(match key {
        Ok((node, 0)) => Check::new("identity", true, format!("{node}, private to this user")),
        Ok(_) => {
            let detail = format!("others can read or change the key: chmod 600 {}/identity.key", dir.display());
            Check::new("identity", false, detail)
        }
        Err(error) => Check::new("identity", false, error.to_string()),
    });
    Some(home)
}

/// Shows how far the daemon's check has come, until it is dropped.
async fn watch(client: &Client, bar: &ProgressBar) {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let status = client.get("status").await.and_then(|answer| client::typed::<Status>(&answer));
        // What went wrong is told by the check itself.
        if let Ok(Status { storage: StorageInfo { verifying: Some(at), .. }, .. }) = status {
            bar.set_length(at.total);
            bar.set_position(at.done);
        }
    }
}

async fn look_at_daemon(home: &Home, request: DoctorRequest, bar: Option<&ProgressBar>, checks: &mut Vec<Check>) {
    // Free when nobody serves the home; the probe lets go of it at once.
    let free = match home.lock() {
        Ok(_lock) => true,
        Err(HomeError::Served { .. }) => false,
        Err(error) => {
            checks.push(Check::new("lock", false, error.to_string()));
            return;
        }
    };
    if free {
        let mut detail = client::no_daemon(home.dir()).message;
        if matches!(home.daemon(), Ok(Some(_))) {
            detail.push_str(" (the last one left daemon.json behind: it did not end cleanly, which does no harm)");
        }
        checks.push(Check::new("daemon", false, detail));
        return;
    }
    let asked = match Client::find(home.dir()) {
        Ok(client) => {
            let asked = client.post_long("doctor", &request, VERIFY_TIMEOUT);
            match bar {
                Some(bar) => tokio::select! {
                    answer = asked => answer,
                    () = watch(&client, bar) => Err(ApiError::failed("the check was not waited for")),
                },
                None => asked.await,
            }
        }
        Err(error) => Err(error),
    };
    match asked.and_then(|answer| client::typed::<DoctorResponse>(&answer)) {
        Ok(response) => {
            // Where both looked at the same, what the daemon found is enough.
            let again = |check: &Check| check.ok && response.checks.iter().any(|other| other.name == check.name);
            checks.retain(|check| !again(check));
            checks.push(Check::new("daemon", true, "it answers"));
            checks.extend(response.checks);
        }
        Err(error) => {
            let detail = format!("a process has the home and gave no answer (is it starting or stopping?): {error}");
            checks.push(Check::new("daemon", false, detail));
        }
    }
}

fn text(response: &DoctorResponse) -> String {
    let row = |check: &Check| {
        let state = if check.ok { "ok" } else { "TROUBLE" };
        vec![state.to_owned(), check.name.clone(), check.detail.clone()]
    };
    table(&response.checks.iter().map(row).collect::<Vec<_>>())
}
