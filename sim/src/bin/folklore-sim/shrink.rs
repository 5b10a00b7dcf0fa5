//! `folklore-sim shrink`.

use folklore_sim::{runner, shrink as shrinking};
use indicatif::ProgressBar;

use crate::{Failure, args::ShrinkArgs, find, say};

pub(crate) fn shrink(args: &ShrinkArgs) -> Result<(), Failure> {
    let scenario = find::failing(&args.scenario, args.seed, args.plant)?;
    let spinner = ProgressBar::new_spinner();
    let shrunk = shrinking::shrink(runner::shipped, &scenario, &mut |runs, best| {
        spinner.set_message(format!("run {runs}: {} nodes, {} faults", best.nodes(), best.faults.len()));
        spinner.tick();
    });
    spinner.finish_and_clear();
    let seed = scenario.run.first_seed;
    let shrunk =
        shrunk.ok_or_else(|| Failure::Broken(format!("nothing fails in {} with seed {seed}", scenario.name)))?;
    let mut small = shrunk.scenario;
    let what = format!("Shrunk from {} with seed {seed}: {}", scenario.name, shrunk.found.violations.join("; "));
    small.about = what.chars().take(400).collect();
    let text = small.to_toml();
    match &args.out {
        Some(path) => {
            std::fs::write(path, text).map_err(|error| Failure::Broken(format!("{}: {error}", path.display())))?;
        }
        None => say(&text),
    }
    eprintln!(
        "{} runs: from {} nodes and {} faults to {} nodes and {} faults; fails: {}",
        shrunk.runs,
        scenario.nodes(),
        scenario.faults.len(),
        small.nodes(),
        small.faults.len(),
        shrunk.found.names().join(", ")
    );
    Ok(())
}
