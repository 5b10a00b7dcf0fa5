//! What a process did to the files under a directory, read from strace's words.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

/// The calls that change files or make them durable. `sync_file_range` is none of them: it empties no disk cache.
pub const CALLS: &str = "openat,creat,write,writev,pwrite64,pwritev,pwritev2,ftruncate,truncate,fallocate,lseek,fsync,\
    fdatasync,sync,syncfs,rename,renameat,renameat2,link,linkat,symlink,symlinkat,unlink,unlinkat,mkdir,mkdirat,rmdir,\
    copy_file_range,sendfile,mmap";

/// One thing done, paths as they were then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A file was opened, and made or emptied if it says so.
    Open {
        path: PathBuf,
        create: bool,
        truncate: bool,
        append: bool,
    },
    /// Bytes at a place; without one they go where the last ones ended.
    Write {
        path: PathBuf,
        at: Option<u64>,
        bytes: Vec<u8>,
    },
    Seek {
        path: PathBuf,
        to: u64,
    },
    Truncate {
        path: PathBuf,
        len: u64,
    },
    /// A file or directory was synced: what was done before the call began, which is event `began` of all.
    Sync {
        path: PathBuf,
        began: usize,
    },
    Rename {
        from: PathBuf,
        to: PathBuf,
    },
    Unlink {
        path: PathBuf,
    },
    Mkdir {
        path: PathBuf,
    },
    Rmdir {
        path: PathBuf,
    },
    /// A line on the standard output.
    Said(String),
}

/// The events under `dir` in the order in which they were done.
pub fn read(trace: &str, dir: &Path) -> Vec<Event> {
    let mut events = Vec::new();
    let mut begun: HashMap<&str, (String, usize)> = HashMap::new();
    for line in trace.lines() {
        let (pid, rest) = line.split_once(' ').unwrap_or_default();
        let rest = rest.trim_start();
        if let Some(first) = rest.strip_suffix("<unfinished ...>") {
            begun.insert(pid, (first.trim_end().to_owned(), events.len()));
            continue;
        }
        let (text, began) = match rest.strip_prefix("<... ") {
            Some(resumed) => {
                let (first, began) = begun.remove(pid).expect("what is resumed was begun");
                (first + resumed.split_once("resumed>").map_or("", |(_, end)| end), began)
            }
            None => (rest.to_owned(), events.len()),
        };
        if let Some(event) = event(&text, dir, began) {
            events.push(event);
        }
    }
    events
}

fn event(text: &str, dir: &Path, began: usize) -> Option<Event> {
    let (name, rest) = text.split_once('(')?;
    let (args, result) = rest.rsplit_once(" = ")?;
    let result = result.trim();
    if result.starts_with('-') || result == "?" {
        return None;
    }
    let args = args.trim_end().strip_suffix(')')?;
    let args: Vec<&str> = args.split(", ").collect();
    let inside = |path: PathBuf| path.starts_with(dir).then_some(path);
    // A file that has no name any more cannot be found after a crash.
    let of_fd = |arg: &str| if arg.contains("(deleted)") { None } else { in_angles(arg).and_then(inside) };
    let at = |fd: &str, name: &str| inside(in_angles(fd).unwrap_or_default().join(quoted(name)?));
    match name {
        "openat" => {
            let flags = args.get(2)?;
            let path = in_angles(result).and_then(inside)?;
            let has = |flag: &str| flags.split('|').any(|f| f == flag);
            let (create, truncate, append) = (has("O_CREAT"), has("O_TRUNC"), has("O_APPEND"));
            let written = has("O_WRONLY") || has("O_RDWR");
            written.then_some(Event::Open { path, create, truncate, append })
        }
        "write" if args[0].starts_with("1<") => {
            Some(Event::Said(String::from_utf8_lossy(&bytes_of(args[1])?).into_owned()))
        }
        "write" | "pwrite64" => {
            let path = of_fd(args[0])?;
            let mut bytes = bytes_of(args[1])?;
            bytes.truncate(result.parse().expect("bytes written"));
            let at = (name == "pwrite64").then(|| args[3].parse().expect("an offset"));
            Some(Event::Write { path, at, bytes })
        }
        "lseek" => Some(Event::Seek { path: of_fd(args[0])?, to: result.parse().expect("an offset") }),
        "ftruncate" => Some(Event::Truncate { path: of_fd(args[0])?, len: args[1].parse().expect("a length") }),
        "fsync" | "fdatasync" => Some(Event::Sync { path: of_fd(args[0])?, began }),
        "rename" => Some(Event::Rename { from: inside(quoted(args[0])?.into())?, to: quoted(args[1])?.into() }),
        "unlink" => Some(Event::Unlink { path: inside(quoted(args[0])?.into())? }),
        "rmdir" => Some(Event::Rmdir { path: inside(quoted(args[0])?.into())? }),
        "mkdir" => Some(Event::Mkdir { path: inside(quoted(args[0])?.into())? }),
        "unlinkat" if args[2].contains("AT_REMOVEDIR") => Some(Event::Rmdir { path: at(args[0], args[1])? }),
        "unlinkat" => Some(Event::Unlink { path: at(args[0], args[1])? }),
        "mkdirat" => Some(Event::Mkdir { path: at(args[0], args[1])? }),
        // Whatever else writes would be missed, and then the test would prove nothing.
        "mmap" => {
            let shared = args.get(3)?.contains("MAP_SHARED") && args.get(2)?.contains("PROT_WRITE");
            assert!(
                !shared || args.get(4).and_then(|fd| of_fd(fd)).is_none(),
                "a file is written through memory: {text}"
            );
            None
        }
        _ => {
            let touches = args
                .iter()
                .any(|arg| of_fd(arg).is_some() || quoted(arg).is_some_and(|p| p.starts_with(&*dir.to_string_lossy())));
            assert!(!touches, "a call that this does not know: {}", &text[..text.len().min(300)]);
            None
        }
    }
}

/// `3<\x2f\x61>` names the path `/a`.
fn in_angles(arg: &str) -> Option<PathBuf> {
    let (_, rest) = arg.split_once('<')?;
    let (path, _) = rest.split_once('>')?;
    Some(PathBuf::from(String::from_utf8(unhex(path)?).ok()?))
}

fn quoted(arg: &str) -> Option<String> {
    String::from_utf8(bytes_of(arg)?).ok()
}

fn bytes_of(arg: &str) -> Option<Vec<u8>> {
    assert!(!arg.ends_with("..."), "strace cut what was written");
    unhex(arg.strip_prefix('"')?.strip_suffix('"')?)
}

/// `\x61\x62` is `ab`.
fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |b: u8| (b as char).to_digit(16);
    text.as_bytes().chunks(4).map(|c| Some((digit(*c.get(2)?)? * 16 + digit(*c.get(3)?)?) as u8)).collect()
}
