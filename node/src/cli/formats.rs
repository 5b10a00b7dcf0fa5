//! `folklore formats`: what `import` reads. Needs no daemon.

use serde::Serialize;

use super::{Context, words::table};
use crate::{api::Answer, formats};

#[derive(Serialize)]
struct Known {
    formats: Vec<Shown>,
}

#[derive(Serialize)]
struct Shown {
    name: &'static str,
    shape: &'static str,
    /// Runs, lessons, or both.
    gives: formats::Gives,
    /// Written from a description, without having seen the producer's own files.
    from_description: bool,
}

pub(super) fn run(context: &mut Context) -> Answer<u8> {
    let shown = |f: &formats::Format| {
        let formats::Format { name, shape, gives, from_description, .. } = *f;
        Shown { name, shape, gives, from_description }
    };
    let known = Known { formats: formats::formats().iter().map(shown).collect() };
    context.show_own(&known, text)?;
    Ok(0)
}

fn text(known: &Known) -> String {
    let row = |format: &Shown| {
        let note = if format.from_description { " (written from a description)" } else { "" };
        let gives = match format.gives {
            formats::Gives::Runs => "runs",
            formats::Gives::Lessons => "lessons",
            formats::Gives::Both => "both",
        };
        vec![format.name.to_owned(), gives.to_owned(), format!("{}{note}", format.shape)]
    };
    table(&known.formats.iter().map(row).collect::<Vec<_>>())
}
