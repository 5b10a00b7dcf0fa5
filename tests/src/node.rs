//! A node: a home in a temporary directory, and the daemon on it.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File},
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    sync::mpsc,
    thread,
};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    PATIENCE, Ran,
    command::{KilledOnDrop, bare, call},
    door::Door,
    program::program,
    until,
    wait::within,
};

/// A home and, while it is up, its daemon. Both end with this value.
pub struct Node {
    name: String,
    dir: TempDir,
    data: PathBuf,
    /// Arguments for `up` besides `--data` and `--json`.
    pub up_args: Vec<OsString>,
    /// Environment of the daemon; empty by default.
    pub env: Vec<(OsString, OsString)>,
    /// What is put before the daemon's command line, such as `strace`.
    pub wrapper: Vec<OsString>,
    daemon: Option<Daemon>,
}

struct Daemon {
    process: KilledOnDrop,
    door: Door,
    pid: u32,
    ready: Value,
}

impl Node {
    /// A node whose home is made and whose daemon is not started.
    #[track_caller]
    pub fn new(name: &str) -> Self {
        let node = Self::unmade(name);
        node.run(["init"]).ok();
        node
    }

    /// As [`Node::new`], with everything below the directory `place`.
    #[track_caller]
    pub fn new_on(place: &Path, name: &str) -> Self {
        let node = Self::unmade_on(place, name);
        node.run(["init"]).ok();
        node
    }

    /// A node whose home was never made.
    pub fn unmade(name: &str) -> Self {
        Self::unmade_on(&std::env::temp_dir(), name)
    }

    fn unmade_on(place: &Path, name: &str) -> Self {
        let dir = tempfile::Builder::new().prefix("folklore-").tempdir_in(place).expect("a temporary directory");
        let data = dir.path().join(name);
        Self { name: name.into(), dir, data, up_args: Vec::new(), env: Vec::new(), wrapper: Vec::new(), daemon: None }
    }

    /// A node that is up.
    #[track_caller]
    pub fn started(name: &str) -> Self {
        let mut node = Self::new(name);
        node.up();
        node
    }

    /// The home.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// A directory beside the home, gone with the node.
    pub fn scratch(&self) -> &Path {
        self.dir.path()
    }

    /// What the daemons of this home wrote to stderr.
    pub fn log(&self) -> PathBuf {
        self.dir.path().join(format!("{}.log", self.name))
    }

    /// Calls a verb on this home with `--json`.
    pub fn run<S: Into<OsString>>(&self, args: impl IntoIterator<Item = S>) -> Ran {
        call(&self.data, args, None)
    }

    /// The same with something on stdin.
    pub fn run_with<S: Into<OsString>>(&self, args: impl IntoIterator<Item = S>, stdin: &str) -> Ran {
        call(&self.data, args, Some(stdin))
    }

    /// The answer of a verb that must succeed.
    #[track_caller]
    pub fn json<S: Into<OsString>>(&self, args: impl IntoIterator<Item = S>) -> Value {
        self.run(args).ok().json()
    }

    /// The command line of this home's daemon.
    pub fn up_command(&self) -> Command {
        let mut line: Vec<OsString> = self.wrapper.clone();
        line.push(program().into());
        line.extend(["up", "--json", "--data"].map(OsString::from));
        line.push(self.data.clone().into());
        line.extend(self.up_args.iter().cloned());
        let (first, rest) = line.split_first().expect("there is a program");
        let mut command = Command::new(first);
        bare(&mut command);
        command.args(rest).envs(self.env.iter().cloned()).stdin(Stdio::null());
        command
    }

    /// Starts the daemon and waits until it says that it answers.
    #[track_caller]
    pub fn up(&mut self) {
        assert!(self.daemon.is_none(), "{} is up already", self.name);
        let log = File::options().create(true).append(true).open(self.log()).expect("a log file");
        let spawned = self.up_command().stdout(Stdio::piped()).stderr(log).spawn();
        let mut process = KilledOnDrop(spawned.unwrap_or_else(|error| panic!("cannot start {}: {error}", self.name)));
        let stdout = process.0.stdout.take().expect("stdout is a pipe");
        let (sender, line) = mpsc::channel();
        thread::spawn(move || {
            let mut first = String::new();
            let mut stdout = BufReader::new(stdout);
            let _ = stdout.read_line(&mut first);
            let _ = sender.send(first);
            // Read on, so that the daemon never writes into a pipe that nobody holds.
            let _ = std::io::copy(&mut stdout, &mut std::io::sink());
        });
        let line = line.recv_timeout(PATIENCE).unwrap_or_default();
        let ready: Value = serde_json::from_str(&line).unwrap_or_else(|_| {
            panic!("{} did not come up; it said {line:?} and\n{}", self.name, self.logged());
        });
        let notice = self.notice().expect("a daemon that is ready has left its notice");
        let door = Door::new(notice.0, &notice.1);
        let pid = u32::try_from(ready["pid"].as_u64().expect("the ready line has the pid")).expect("a pid fits");
        self.daemon = Some(Daemon { process, door, pid, ready });
    }

    /// What the log says so far.
    pub fn logged(&self) -> String {
        fs::read_to_string(self.log()).unwrap_or_default()
    }

    /// Address and token in `daemon.json`, if there is one.
    pub fn notice(&self) -> Option<(SocketAddr, String)> {
        let text = fs::read_to_string(self.data.join("daemon.json")).ok()?;
        let notice: Value = serde_json::from_str(&text).ok()?;
        Some((notice["http"].as_str()?.parse().ok()?, notice["token"].as_str()?.to_owned()))
    }

    #[track_caller]
    fn daemon(&self) -> &Daemon {
        self.daemon.as_ref().unwrap_or_else(|| panic!("{} is not up", self.name))
    }

    /// The HTTP door of the running daemon.
    #[track_caller]
    pub fn door(&self) -> &Door {
        &self.daemon().door
    }

    /// Process id of the running daemon.
    #[track_caller]
    pub fn pid(&self) -> u32 {
        self.daemon().pid
    }

    /// What the daemon said when it was ready.
    #[track_caller]
    pub fn ready(&self) -> &Value {
        &self.daemon().ready
    }

    /// The node's id.
    #[track_caller]
    pub fn id(&self) -> String {
        text(&self.daemon().ready["node"])
    }

    /// The TCP port where peers reach the running daemon.
    #[track_caller]
    pub fn peer_port(&self) -> u16 {
        let addresses = self.daemon().ready["listening"].as_array().expect("a list of addresses");
        let port = |address: &Value| address.as_str()?.split("/tcp/").nth(1)?.split('/').next()?.parse().ok();
        addresses.iter().find_map(port).expect("a daemon listens on TCP")
    }

    /// Sends a signal by name, such as `TERM`, to the running daemon.
    #[track_caller]
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").arg(format!("-{name}")).arg(self.pid().to_string()).status();
        assert!(sent.expect("kill(1) can be started").success(), "no signal could be sent to {}", self.name);
    }

    /// Waits for the daemon's process to end.
    #[track_caller]
    pub fn ended(&mut self) -> ExitStatus {
        let mut daemon = self.daemon.take().expect("a daemon that was up");
        until(&format!("the end of {}", self.name), PATIENCE, || daemon.process.0.try_wait().expect("it is our child"))
    }

    /// Stops the daemon as a user would. It must end well.
    #[track_caller]
    pub fn stop(&mut self) {
        self.signal("TERM");
        let status = self.ended();
        assert!(status.success(), "{} ended with {status}\n{}", self.name, self.logged());
    }

    /// Ends the daemon at once, as a crash would (SIGKILL).
    #[track_caller]
    pub fn kill(&mut self) {
        self.signal("KILL");
        self.ended();
    }

    /// Whether the daemon is up.
    pub fn is_up(&self) -> bool {
        self.daemon.is_some()
    }

    /// `status`.
    #[track_caller]
    pub fn status(&self) -> Value {
        let (code, status) = self.door().get("status");
        assert_eq!(code, 200, "{status}");
        status
    }

    /// One bank of `status`, by id.
    #[track_caller]
    pub fn bank(&self, id: &str) -> Value {
        let status = self.status();
        let found = status["banks"].as_array().and_then(|banks| banks.iter().find(|bank| bank["id"] == id).cloned());
        found.unwrap_or_else(|| panic!("{} holds no bank {id}: {status}", self.name))
    }

    /// Id of the bank that lessons go to when no bank is named.
    #[track_caller]
    pub fn default_bank(&self) -> String {
        let status = self.status();
        let bank =
            status["banks"].as_array().and_then(|banks| banks.iter().find(|bank| bank["default"] == true).cloned());
        text(&bank.unwrap_or_else(|| panic!("{} has no default bank: {status}", self.name))["id"])
    }

    /// Root of what is held of a bank.
    #[track_caller]
    pub fn held_root(&self, bank: &str) -> String {
        text(&self.bank(bank)["held_root"])
    }

    /// What `status` says of a peer.
    #[track_caller]
    pub fn peer(&self, id: &str) -> Option<Value> {
        self.status()["peers"].as_array()?.iter().find(|peer| peer["id"] == id).cloned()
    }

    /// Whether a connection to the peer stands.
    #[track_caller]
    pub fn is_connected(&self, id: &str) -> bool {
        self.peer(id).is_some_and(|peer| peer["connected"] == true)
    }

    /// A ticket for a bank, the home's own when none is named.
    #[track_caller]
    pub fn ticket(&self) -> String {
        text(&self.json(["bank", "invite"])["ticket"])
    }

    /// Teaches a lesson and returns its id.
    #[track_caller]
    pub fn teach(&self, lesson: &Value) -> String {
        text(&self.run_with(["teach"], &lesson.to_string()).ok().json()["id"])
    }

    /// Every lesson that `list` shows.
    #[track_caller]
    pub fn lessons(&self) -> Vec<Value> {
        let mut lessons = Vec::new();
        loop {
            let (code, page) = self.door().post("list", &json!({"limit": 1000, "offset": lessons.len()}));
            assert_eq!(code, 200, "{page}");
            let found = page["lessons"].as_array().expect("a list has lessons");
            lessons.extend(found.iter().cloned());
            if page["next"].is_null() || found.is_empty() {
                return lessons;
            }
        }
    }

    /// The ids of every lesson that `list` shows.
    #[track_caller]
    pub fn lesson_ids(&self) -> Vec<String> {
        self.lessons().iter().map(|lesson| text(&lesson["id"])).collect()
    }

    /// `show` of a lesson.
    #[track_caller]
    pub fn show(&self, id: &str) -> Value {
        let (code, shown) = self.door().post("show", &json!({"id": id}));
        assert_eq!(code, 200, "{shown}");
        shown
    }

    /// `recall` with this request.
    #[track_caller]
    pub fn recall(&self, request: &Value) -> Value {
        let (code, answer) = self.door().post("recall", request);
        assert_eq!(code, 200, "{answer}");
        answer
    }

    /// Most memory the daemon ever had resident, bytes.
    #[track_caller]
    pub fn peak_memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("the daemon's process is there");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("VmHWM");
        let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().expect("a number");
        kib * 1024
    }
}

/// Makes `guest` a member of `host`'s own bank and waits until it holds the same. Both must be up.
#[track_caller]
pub fn join(host: &Node, guest: &Node) -> String {
    let joined = guest.json([OsStr::new("bank"), OsStr::new("join"), OsStr::new(&host.ticket())]);
    let bank = text(&joined["bank"]);
    same_root(host, guest, &bank);
    bank
}

/// Waits until two nodes hold the same of a bank, and returns the root.
#[track_caller]
pub fn same_root(a: &Node, b: &Node, bank: &str) -> String {
    let same = within(PATIENCE, || {
        let (at_a, at_b) = (a.held_root(bank), b.held_root(bank));
        (at_a == at_b && a.is_connected(&b.id())).then_some(at_a)
    });
    same.unwrap_or_else(|| {
        let (at_a, at_b) = (a.status(), b.status());
        panic!(
            "{} and {} do not come to hold the same and be connected:\n{at_a:#}\n{at_b:#}\n{}\n{}",
            a.name,
            b.name,
            a.logged(),
            b.logged()
        )
    })
}

/// A JSON text as a string.
#[track_caller]
pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("not a text: {value}")).to_owned()
}
