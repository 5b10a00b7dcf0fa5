//! Prints what the built-in induction learns from trajectory files: `cargo run -p folklore-node --example lessons -- PATH...`.
//! A path that ends in `outcomes.json` is read as the label table for the others.

use folklore_node::formats::{self, Item, Outcomes, ReadOptions};
use folklore_store::learn;
use std::ops::ControlFlow;
use std::path::PathBuf;

fn main() {
    let (tables, paths): (Vec<PathBuf>, Vec<PathBuf>) =
        std::env::args_os().skip(1).map(PathBuf::from).partition(|path| path.ends_with("outcomes.json"));
    let table = tables.first().and_then(|path| Outcomes::read(path).map_err(|error| println!("{error}")).ok());
    let options = ReadOptions { outcomes: table.as_ref(), ..ReadOptions::default() };
    let mut runs = Vec::new();
    for found in formats::expand(&paths) {
        let read = formats::read_path(&found.path, &options, &mut |item| {
            match item {
                Item::Run(run) => runs.push(*run),
                Item::Lesson(lesson) => println!("imported {}: {}", lesson.source, lesson.fields.title),
                Item::Skipped { item, reason } => println!("skipped {item}: {reason}"),
            }
            ControlFlow::Continue(())
        });
        if let Err(error) = read {
            println!("{error}");
        }
    }
    let induced = learn::induce(&runs, learn::NONE_GIVEN);
    for draft in &induced.lessons {
        let (lesson, evidence) = (&draft.fields, &draft.evidence);
        println!("\n=== {} | {} | {} attempts, {}", lesson.kind, lesson.title, evidence.attempts, evidence.outcome);
        println!("when: {}\nnot:  {}\ntags: {}", lesson.applies_when, lesson.not_when, lesson.tags.join(", "));
        println!("{}", lesson.content);
    }
    println!("\n{} runs, {} lessons", runs.len(), induced.lessons.len());
    for none in &induced.no_lesson {
        println!("no lesson: {}: {}", none.run, none.reason);
    }
}
