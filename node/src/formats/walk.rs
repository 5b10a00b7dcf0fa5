//! Turns the paths a user names into files to read: files as they are, directories walked in sorted order.

use super::{FileError, file_name};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Directories deep that a walk goes.
pub const MAX_WALK_DEPTH: usize = 32;
/// Files one call may find. Ten times the largest public collection of trajectories.
pub const MAX_WALK_FILES: usize = 200_000;

/// One file to read, or why there is none at a path.
#[derive(Debug)]
pub struct Found {
    /// Where.
    pub path: PathBuf,
    /// Found by walking a directory, not named by the user: a side file there is passed over, not a fault.
    pub walked: bool,
    /// Found by walking, and of a kind that is more often a readme than a run: passed over if no format knows it.
    pub aside: bool,
    /// Why it is not to be read.
    pub problem: Option<FileError>,
}

impl Found {
    /// Whether an error is no fault, because nobody named the file and it only lies beside runs.
    #[must_use]
    pub fn passes_over(&self, error: &FileError) -> bool {
        (self.walked && error.is_side_file()) || (self.aside && error.is_unknown())
    }
}

/// The files behind `paths`: a file stands for itself, a directory for every `*.json`, `*.jsonl`, `*.ndjson`, `*.traj`,
/// `*.md` and `*.txt` in it, in sorted order. Directories reached twice (links that go round) are entered once. A manifest that lies beside runs is
/// in the list as [`FileError::NotARunFile`].
#[must_use]
pub fn expand(paths: &[PathBuf]) -> Vec<Found> {
    let mut walk = Walk { found: Vec::new(), seen: BTreeSet::new() };
    for path in paths {
        match fs::metadata(path) {
            Ok(meta) if meta.is_dir() => {
                let before = walk.found.len();
                // One that was reached before gave its files then.
                if walk.directory(path, 0) && walk.found.len() == before {
                    let problem = Some(FileError::NoFiles { file: file_name(path) });
                    walk.found.push(Found { path: path.clone(), walked: false, aside: false, problem });
                }
            }
            Ok(_) => walk.found.push(Found { path: path.clone(), walked: false, aside: false, problem: None }),
            Err(error) => walk.problem(path, false, &error),
        }
    }
    walk.found
}

struct Walk {
    found: Vec<Found>,
    /// Directories entered, by their real path.
    seen: BTreeSet<PathBuf>,
}

impl Walk {
    fn problem(&mut self, path: &Path, walked: bool, error: &io::Error) {
        let problem = FileError::Unreadable { file: file_name(path), reason: error.to_string() };
        self.found.push(Found { path: path.to_owned(), walked, aside: false, problem: Some(problem) });
    }

    /// Walks a directory. False when it was entered before.
    fn directory(&mut self, path: &Path, depth: usize) -> bool {
        let real = match fs::canonicalize(path) {
            Ok(real) => real,
            Err(error) => {
                self.problem(path, depth > 0, &error);
                return true;
            }
        };
        if !self.seen.insert(real) {
            return false;
        }
        if depth >= MAX_WALK_DEPTH {
            let error = io::Error::other(format!("more than {MAX_WALK_DEPTH} directories deep"));
            self.problem(path, true, &error);
            return true;
        }
        let entries = fs::read_dir(path).and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect());
        let mut entries: Vec<PathBuf> = match entries {
            Ok(entries) => entries,
            Err(error) => {
                self.problem(path, depth > 0, &error);
                return true;
            }
        };
        entries.sort();
        for entry in entries {
            if self.found.len() >= MAX_WALK_FILES {
                let error = io::Error::other(format!("more than {MAX_WALK_FILES} files; import it in parts"));
                self.problem(path, true, &error);
                return true;
            }
            match fs::metadata(&entry) {
                Ok(meta) if meta.is_dir() => {
                    self.directory(&entry, depth + 1);
                }
                Ok(_) if is_candidate(&entry) => {
                    let file = file_name(&entry);
                    let aside = has_extension(&entry, &["md", "txt"]);
                    let problem =
                        is_manifest(&file).then(|| FileError::NotARunFile { file, what: "a manifest".to_owned() });
                    self.found.push(Found { path: entry, walked: true, aside, problem });
                }
                Ok(_) => {}
                Err(error) if is_candidate(&entry) => self.problem(&entry, true, &error),
                Err(_) => {}
            }
        }
        true
    }
}

fn is_candidate(path: &Path) -> bool {
    has_extension(path, &["json", "jsonl", "ndjson", "traj", "md", "txt"])
}

fn has_extension(path: &Path, known: &[&str]) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    known.iter().any(|known| extension.eq_ignore_ascii_case(known))
}

/// Names of files that list other files.
fn is_manifest(file: &str) -> bool {
    ["manifest.json", "provenance.json", "package.json", "package-lock.json", "queries.json"]
        .iter()
        .any(|name| file.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_without_files_to_read_is_named_once() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("notes.pdf"), "{}").unwrap();
        let found = expand(&[dir.path().to_owned(), dir.path().to_owned()]);
        assert_eq!(found.len(), 1);
        let text = found[0].problem.as_ref().unwrap().to_string();
        assert!(text.contains("no run file is in"), "{text}");
    }

    #[test]
    fn a_walk_is_sorted_and_ends_where_links_go_round() {
        let dir = tempfile::tempdir().unwrap();
        let sub = dir.path().join("b");
        fs::create_dir(&sub).unwrap();
        for name in ["z.json", "a.traj", "notes.pdf", "readme.md", "manifest.json", "b/c.JSONL"] {
            fs::write(dir.path().join(name), "{}").unwrap();
        }
        std::os::unix::fs::symlink(dir.path(), sub.join("round")).unwrap();
        std::os::unix::fs::symlink(dir.path().join("gone"), sub.join("dangling.json")).unwrap();
        let found = expand(&[dir.path().to_owned(), dir.path().join("missing")]);
        let shown: Vec<_> = found.iter().map(|f| (file_name(&f.path), f.walked, f.problem.is_some())).collect();
        let want = [
            ("a.traj", true, false),
            ("c.JSONL", true, false),
            ("dangling.json", true, true),
            ("manifest.json", true, true),
            ("readme.md", true, false),
            ("z.json", true, false),
            ("missing", false, true),
        ];
        assert_eq!(shown, want.map(|(name, walked, bad)| (name.to_owned(), walked, bad)));
        assert!(found[3].problem.as_ref().is_some_and(FileError::is_side_file));
    }
}
