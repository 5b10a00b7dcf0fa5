//! `folklore-sim replay`.

use std::io::{BufWriter, Write};

use folklore_sim::{Arm, Observed, Observer, runner, swarm};

use crate::{Failure, args::ReplayArgs, find, say};

/// Writes every event as a line.
struct Lines(Option<BufWriter<std::fs::File>>, Result<(), std::io::Error>);

impl Observer for Lines {
    fn see(&mut self, at_ms: u64, what: Observed) {
        if let (Some(file), Ok(())) = (&mut self.0, &self.1) {
            self.1 = writeln!(file, "{:>10.3} {what:?}", at_ms as f64 / 1000.0);
        }
    }
}

pub(crate) fn replay(args: &ReplayArgs) -> Result<(), Failure> {
    let scenario = find::failing(&args.scenario, args.seed, args.plant)?;
    let (arm, seed) = (Arm::from(args.arm), scenario.run.first_seed);
    if let Some(path) = &args.events {
        let broken = |error: std::io::Error| Failure::Broken(format!("{}: {error}", path.display()));
        let file = std::fs::File::create(path).map_err(broken)?;
        let mut lines = Lines(Some(BufWriter::new(file)), Ok(()));
        runner::shipped(&scenario, arm, seed, &mut lines).map_err(Failure::Broken)?;
        lines.1.and_then(|()| lines.0.map_or(Ok(()), |mut file| file.flush())).map_err(broken)?;
    }
    let ended = runner::run_one(runner::shipped, &scenario, arm, seed).map_err(Failure::Broken)?;
    let mut violations = ended.row.violations.clone();
    if scenario.expect.convergence && arm == Arm::Folklore && !ended.converged && violations.is_empty() {
        violations.push(format!("{}: honest nodes do not hold the same at the end", swarm::NOT_CONVERGED));
    }
    if args.json {
        let (row, file) = (&ended.row, scenario.to_toml());
        say(&format!("{}\n", serde_json::json!({"run": row, "converged": ended.converged, "scenario": file})));
    } else {
        let row = &ended.row;
        say(&format!(
            "{}, seed {seed}, {}\ndigest  {}\nhandled {}\n",
            scenario.name,
            arm.name(),
            row.digest,
            row.handled
        ));
        violations.iter().for_each(|what| say(&format!("FAILED  {what}\n")));
        if violations.is_empty() {
            say("all checks hold\n");
        }
    }
    if violations.is_empty() { Ok(()) } else { Err(Failure::Failed) }
}
