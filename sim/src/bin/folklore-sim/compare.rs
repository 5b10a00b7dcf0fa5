//! `folklore-sim compare`.

use folklore_sim::{Arm, Results, report::compare as comparing, results::ResultsError};

use crate::{Failure, args::CompareArgs, say};

pub(crate) fn compare(args: &CompareArgs) -> Result<(), Failure> {
    let load = |path| {
        Results::load(path).map_err(|error| match error {
            ResultsError::Unread { .. } => Failure::NotFound(error.to_string()),
            ResultsError::Unknown { .. } => Failure::Usage(error.to_string()),
        })
    };
    let (a, b) = (load(&args.a)?, load(&args.b)?);
    let only = args.arm.map(Arm::from);
    let mut compared = comparing::compare(&a, &b);
    compared.retain(|row| only.is_none_or(|arm| row.arm == arm));
    if args.json {
        let json = serde_json::to_string(&compared).map_err(|error| Failure::Broken(error.to_string()))?;
        say(&(json + "\n"));
        return Ok(());
    }
    if a.scenario != b.scenario {
        eprintln!("folklore-sim: these are two scenarios, {} and {}", a.scenario, b.scenario);
    }
    say(&format!(
        "A {} ({} seeds)\nB {} ({} seeds)\n\n",
        args.a.display(),
        a.seeds.len(),
        args.b.display(),
        b.seeds.len()
    ));
    say(&comparing::table(&compared, None));
    Ok(())
}
