//! Figures: what was measured, against what, and whether that is good enough.

use std::{io, path::Path};

use serde::Serialize;

/// One figure. `ratio` is value over peer.
#[derive(Debug, Serialize)]
pub struct Figure {
    pub figure: String,
    pub value: f64,
    pub unit: String,
    pub peer: String,
    pub peer_value: f64,
    pub ratio: f64,
    pub setting: String,
    pub target: String,
    pub ok: bool,
}

#[derive(Debug, Default)]
pub struct Figures(Vec<Figure>);

impl Figures {
    pub fn add(&mut self, figure: Figure) {
        self.0.push(figure);
    }

    pub fn print(&self) {
        println!();
        println!("| figure | value | peer | ratio | target | | setting |");
        println!("| --- | --- | --- | --- | --- | --- | --- |");
        for f in &self.0 {
            println!(
                "| {} | {:.2} {} | {}: {:.2} | {:.2} | {} | {} | {} |",
                f.figure,
                f.value,
                f.unit,
                f.peer,
                f.peer_value,
                f.ratio,
                f.target,
                if f.ok { "ok" } else { "miss" },
                f.setting
            );
        }
    }

    pub fn write(&self, path: &Path) -> io::Result<()> {
        if let Some(dir) = path.parent() {
            std::fs::create_dir_all(dir)?;
        }
        std::fs::write(path, serde_json::to_vec_pretty(&self.0)?)
    }
}
