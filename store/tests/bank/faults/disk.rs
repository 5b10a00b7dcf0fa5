//! A disk that keeps apart what is durable and what is only written, and shows what may be left after a crash.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use super::trace::Event;

/// What a crash does to what was not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crash {
    /// It is all gone, names of files included.
    Lost,
    /// It is all there, but of the last write only the first half.
    Torn,
    /// Some of it is there and some is not, whatever came first.
    Reordered(u64),
}

/// A change of a file's bytes.
#[derive(Debug, Clone)]
enum Change {
    Write(u64, Vec<u8>),
    Truncate(u64),
}

#[derive(Debug, Default)]
struct File {
    durable: Vec<u8>,
    /// Not synced yet, each with the number of its event.
    pending: Vec<(usize, Change)>,
    /// Where the next write without a place goes.
    position: u64,
    len: u64,
}

/// A change of names.
#[derive(Debug, Clone)]
enum Name {
    File(PathBuf, usize),
    Dir(PathBuf),
    Moved(PathBuf, PathBuf),
    Gone(PathBuf),
}

/// Names of files, by path; `None` is a directory.
type Names = BTreeMap<PathBuf, Option<usize>>;

#[derive(Debug)]
pub struct Disk {
    dir: PathBuf,
    files: Vec<File>,
    /// As the running process sees it.
    now: Names,
    /// All changes of names in order, and whether each is durable.
    names: Vec<(usize, Name, bool)>,
}

impl Disk {
    pub fn new(dir: &Path) -> Self {
        let now = Names::from([(dir.to_owned(), None)]);
        Self { dir: dir.to_owned(), files: Vec::new(), now, names: Vec::new() }
    }

    fn file(&mut self, path: &Path) -> Option<&mut File> {
        let file = self.now.get(path).copied().flatten()?;
        self.files.get_mut(file)
    }

    fn name(&mut self, number: usize, name: Name) {
        rename(&mut self.now, &name);
        self.names.push((number, name, false));
    }

    /// Takes in what was done as event `number`.
    pub fn apply(&mut self, number: usize, event: &Event) {
        match event.clone() {
            Event::Open { path, create, truncate, append } => {
                if create && !self.now.contains_key(&path) {
                    self.files.push(File::default());
                    self.name(number, Name::File(path.clone(), self.files.len() - 1));
                }
                if let Some(file) = self.file(&path) {
                    if truncate && file.len > 0 {
                        file.pending.push((number, Change::Truncate(0)));
                        file.len = 0;
                    }
                    file.position = if append { file.len } else { 0 };
                }
            }
            Event::Write { path, at, bytes } => {
                let Some(file) = self.file(&path) else { return };
                let place = at.unwrap_or(file.position);
                if at.is_none() {
                    file.position += bytes.len() as u64;
                }
                file.len = file.len.max(place + bytes.len() as u64);
                file.pending.push((number, Change::Write(place, bytes)));
            }
            Event::Seek { path, to } => {
                if let Some(file) = self.file(&path) {
                    file.position = to;
                }
            }
            Event::Truncate { path, len } => {
                if let Some(file) = self.file(&path) {
                    file.len = len;
                    file.pending.push((number, Change::Truncate(len)));
                }
            }
            Event::Sync { path, began } => {
                if let Some(file) = self.file(&path) {
                    let later = file.pending.partition_point(|(number, _)| *number < began);
                    for (_, change) in file.pending.drain(..later) {
                        write(&mut file.durable, &change, usize::MAX);
                    }
                } else {
                    let in_it = |name: &Name| match name {
                        Name::File(at, _) | Name::Dir(at) | Name::Gone(at) => at.parent() == Some(&path),
                        Name::Moved(from, to) => from.parent() == Some(&path) || to.parent() == Some(&path),
                    };
                    self.names.iter_mut().filter(|n| n.0 < began && in_it(&n.1)).for_each(|n| n.2 = true);
                }
            }
            Event::Rename { from, to } => self.name(number, Name::Moved(from, to)),
            Event::Unlink { path } | Event::Rmdir { path } => self.name(number, Name::Gone(path)),
            Event::Mkdir { path } => self.name(number, Name::Dir(path)),
            Event::Said(_) => {}
        }
    }

    /// Writes what a crash now would leave to `target`.
    pub fn after(&self, crash: Crash, target: &Path) {
        let mut dice = if let Crash::Reordered(seed) = crash { Dice(seed) } else { Dice(0) };
        // Names change in order: a prefix of what is not durable may be.
        let open = self.names.iter().filter(|name| !name.2).count();
        let mut left = match crash {
            Crash::Lost => 0,
            Crash::Torn => open,
            Crash::Reordered(_) => dice.below(open + 1),
        };
        let mut names = Names::from([(self.dir.clone(), None)]);
        for (_, name, durable) in &self.names {
            if !durable {
                if left == 0 {
                    continue;
                }
                left -= 1;
            }
            rename(&mut names, name);
        }
        let last = self.files.iter().flat_map(|f| f.pending.last()).map(|(number, _)| *number).max();
        for (path, file) in names {
            let target = target.join(path.strip_prefix(&self.dir).expect("inside"));
            let Some(file) = file else {
                fs::create_dir_all(target).expect("a directory");
                continue;
            };
            let file = &self.files[file];
            let mut bytes = file.durable.clone();
            for (number, change) in &file.pending {
                match crash {
                    Crash::Lost => {}
                    Crash::Torn if Some(*number) == last => write(&mut bytes, change, half(change)),
                    Crash::Torn => write(&mut bytes, change, usize::MAX),
                    Crash::Reordered(_) => match dice.below(4) {
                        0 | 1 => {}
                        2 => write(&mut bytes, change, usize::MAX),
                        _ => write(&mut bytes, change, half(change)),
                    },
                }
            }
            fs::write(target, bytes).expect("a file");
        }
    }
}

fn half(change: &Change) -> usize {
    match change {
        Change::Write(_, bytes) => bytes.len() / 2,
        Change::Truncate(_) => 0,
    }
}

/// Applies a change, of a write only the first `most` bytes.
fn write(bytes: &mut Vec<u8>, change: &Change, most: usize) {
    match change {
        Change::Write(at, new) => {
            let new = &new[..new.len().min(most)];
            let at = *at as usize;
            if bytes.len() < at + new.len() {
                bytes.resize(at + new.len(), 0);
            }
            bytes[at..at + new.len()].copy_from_slice(new);
        }
        Change::Truncate(len) if most > 0 => bytes.resize(*len as usize, 0),
        Change::Truncate(_) => {}
    }
}

/// Changes names; what makes no sense without a change that was lost does not happen.
fn rename(names: &mut Names, change: &Name) {
    let parent_is_there = |names: &Names, path: &Path| path.parent().is_some_and(|p| names.get(p) == Some(&None));
    match change {
        Name::File(path, file) if parent_is_there(names, path) => drop(names.insert(path.clone(), Some(*file))),
        Name::Dir(path) if parent_is_there(names, path) => drop(names.insert(path.clone(), None)),
        Name::Gone(path) => names.retain(|at, _| !at.starts_with(path)),
        Name::Moved(from, to) if names.contains_key(from) && parent_is_there(names, to) => {
            let moved: Vec<_> = names.keys().filter(|at| at.starts_with(from)).cloned().collect();
            names.retain(|at, _| !at.starts_with(to));
            for at in moved {
                if let Some(file) = names.remove(&at) {
                    let rest = at.strip_prefix(from).expect("starts with it");
                    // Joining nothing would add a slash.
                    let new = if rest.as_os_str().is_empty() { to.clone() } else { to.join(rest) };
                    names.insert(new, file);
                }
            }
        }
        Name::File(..) | Name::Dir(_) | Name::Moved(..) => {}
    }
}

/// Splitmix64: the same for the same seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n as u64) as usize
    }
}
