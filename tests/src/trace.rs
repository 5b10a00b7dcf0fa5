//! What `strace` saw of a daemon: its calls on files and sockets, in order.

use std::{
    collections::HashMap,
    ffi::OsString,
    fs,
    path::Path,
    process::{Command, Stdio},
};

/// The calls that are traced: everything that reads, writes or syncs a file or a socket.
const CALLS: &str = "trace=fsync,fdatasync,msync,sync_file_range,sync,syncfs,write,writev,pwrite64,pwritev,pwritev2,\
                     sendto,sendmsg,read,readv,recvfrom,recvmsg";
/// Bytes shown of what is written: a whole buffer of the bank.
const SHOWN_BYTES: &str = "1100000";

/// What to put before a command so that its calls are written to `out`; none, said on stdout, where `strace` cannot run.
pub fn wrapper(out: &Path) -> Option<Vec<OsString>> {
    let probe = Command::new("strace").args(["-f", "-o", "/dev/null", "true"]).stderr(Stdio::null()).status();
    if !probe.is_ok_and(|status| status.success()) {
        println!("skipped: strace is missing or may not trace here");
        return None;
    }
    let args = ["strace", "-f", "-yy", "-s", SHOWN_BYTES, "-e", CALLS, "-e", "signal=none", "-o"];
    Some(args.iter().map(OsString::from).chain([out.into()]).collect())
}

/// One system call.
#[derive(Debug, Clone)]
pub struct Call {
    /// Its name.
    pub name: String,
    /// The file or socket it is on, as `strace -yy` shows it.
    pub on: String,
    /// Its arguments, as shown.
    pub shown: String,
    /// Where it began, among all lines of the trace.
    pub began: usize,
    /// Where it ended.
    pub ended: usize,
    /// What it returned, as shown.
    pub returned: String,
}

impl Call {
    /// Whether it makes what was written to a file before it last through a power cut.
    pub fn is_durable_sync(&self) -> bool {
        matches!(self.name.as_str(), "fsync" | "fdatasync") && self.returned.starts_with('0')
    }

    /// Whether it writes.
    pub fn writes(&self) -> bool {
        matches!(self.name.as_str(), "write" | "writev" | "pwrite64" | "pwritev" | "pwritev2" | "sendto" | "sendmsg")
    }

    /// Whether it reads.
    pub fn reads(&self) -> bool {
        matches!(self.name.as_str(), "read" | "readv" | "recvfrom" | "recvmsg")
    }
}

/// The finished calls of a trace, in the order in which they ended.
#[track_caller]
pub fn calls(trace: &Path) -> Vec<Call> {
    let text = fs::read(trace).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).expect("a trace");
    let mut open: HashMap<&str, (usize, &str)> = HashMap::new();
    let mut calls = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let Some((pid, rest)) = line.split_once(' ') else { continue };
        let rest = rest.trim_start();
        if let Some(begun) = rest.strip_suffix(" <unfinished ...>") {
            open.insert(pid, (at, begun));
        } else if rest.starts_with("<... ") {
            let Some((began, begun)) = open.remove(pid) else { continue };
            let Some((_, end)) = rest.split_once(" resumed>") else { continue };
            calls.extend(call(&format!("{begun}{end}"), began, at));
        } else {
            calls.extend(call(rest, at, at));
        }
    }
    calls
}

fn call(text: &str, began: usize, ended: usize) -> Option<Call> {
    let (name, rest) = text.split_once('(')?;
    let (shown, returned) = rest.rsplit_once(" = ")?;
    // 12</home/store/db>, "..." or 14<TCP:[127.0.0.1:1->127.0.0.1:2]>, ...
    let on = shown.split_once('<').and_then(|(fd, rest)| {
        let end = rest.find(">,").or_else(|| rest.find(">)"))?;
        fd.bytes().all(|byte| byte.is_ascii_digit()).then(|| rest[..end].to_owned())
    });
    Some(Call {
        name: name.to_owned(),
        on: on.unwrap_or_default(),
        shown: shown.to_owned(),
        began,
        ended,
        returned: returned.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_others_interrupted_is_put_together() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let trace = dir.path().join("trace");
        let text = "10 fsync(9</h/store/db> <unfinished ...>\n\
                    11 sendto(12<TCP:[127.0.0.1:1->127.0.0.1:2]>, \"HTTP/1.1 200 OK\", 15, 0, NULL, 0) = 15\n\
                    10 <... fsync resumed>) = 0\n";
        fs::write(&trace, text).expect("a trace");
        let calls = calls(&trace);
        let seen: Vec<_> = calls.iter().map(|c| (c.name.as_str(), c.on.as_str(), c.began, c.ended)).collect();
        assert_eq!(seen, [("sendto", "TCP:[127.0.0.1:1->127.0.0.1:2]", 1, 1), ("fsync", "/h/store/db", 0, 2)]);
        assert!(calls[1].is_durable_sync() && calls[0].writes());
    }
}
