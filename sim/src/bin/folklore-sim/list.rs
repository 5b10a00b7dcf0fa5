//! `folklore-sim scenarios` and `folklore-sim figures`.

use folklore_sim::{Scenario, measure::figures, scenario::shipped};

use crate::{Failure, args::ScenariosArgs, say};

pub(crate) fn scenarios(args: &ScenariosArgs) -> Result<(), Failure> {
    if let Some(name) = &args.name {
        let text = shipped::text(name);
        say(text.ok_or_else(|| Failure::NotFound(format!("no scenario {name} comes along; `scenarios` lists them")))?);
        return Ok(());
    }
    let mut rows = Vec::new();
    for (name, text) in shipped::ALL {
        let scenario = Scenario::parse(name, text).map_err(|error| Failure::Broken(format!("{name}: {error}")))?;
        rows.push((*name, scenario));
    }
    if args.json {
        let list = rows.iter().map(|(name, scenario)| {
            serde_json::json!({"name": name, "about": scenario.about, "nodes": scenario.nodes(), "seeds": scenario.run.seeds})
        });
        say(&format!("{}\n", serde_json::Value::from_iter(list)));
    } else {
        rows.iter().for_each(|(name, scenario)| {
            say(&format!("{name:<22} {:>5} nodes  {}\n", scenario.nodes(), scenario.about));
        });
    }
    Ok(())
}

pub(crate) fn figures() -> Result<(), Failure> {
    for figure in figures::ALL {
        let site = if figure.by_site { "[@SITE]" } else { "" };
        let unit = format!("{:?}", figure.unit).to_lowercase();
        say(&format!("{:<42} {unit:<8} {}\n", format!("{}{site}", figure.name), figure.about));
    }
    Ok(())
}
