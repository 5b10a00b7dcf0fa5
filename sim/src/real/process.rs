//! Daemons as processes: found, started, signalled and ended by their ids.

use std::{
    fs::File,
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Mutex, MutexGuard, PoisonError, mpsc},
    thread,
    time::Duration,
};

use serde_json::Value;

use super::{RealError, door::Door};

/// The environment's name for the program.
const PROGRAM_VARIABLE: &str = "FOLKLORE_PROGRAM";
/// How long a daemon may take until it answers. A debug build on a busy machine takes seconds.
const UP_WITHIN: Duration = Duration::from_secs(60);
/// Lines of a daemon's log that an error shows.
const SHOWN_LINES: usize = 5;

/// The `folklore` program: the one that is named, else that of the environment, else the one beside this program, else the first
/// on the `PATH`.
///
/// # Errors
/// [`RealError::NoProgram`] where it is not.
pub fn find_program(named: Option<&Path>) -> Result<PathBuf, RealError> {
    let told = named.map(Path::to_path_buf).or_else(|| std::env::var_os(PROGRAM_VARIABLE).map(PathBuf::from));
    if let Some(told) = told {
        return if told.is_file() {
            Ok(told)
        } else {
            Err(RealError::NoProgram(format!("{} is no file", told.display())))
        };
    }
    let name = format!("folklore{}", std::env::consts::EXE_SUFFIX);
    let beside = std::env::current_exe().ok().and_then(|own| Some(own.parent()?.join(&name)));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|directory| directory.join(&name));
    let found = beside.into_iter().chain(on_path).find(|program| program.is_file());
    found.ok_or_else(|| RealError::NoProgram("it is neither beside this program nor on the PATH".into()))
}

/// One node: its home, and its daemon while it is up.
#[derive(Debug)]
pub(super) struct Process {
    program: PathBuf,
    home: PathBuf,
    log: PathBuf,
    /// The node's id.
    pub(super) id: String,
    running: Mutex<Running>,
}

#[derive(Debug, Default)]
struct Running {
    child: Option<Child>,
    door: Option<Door>,
    /// No process is started any more.
    over: bool,
}

/// A command that inherits nothing that could change what a node does.
fn bare(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().stdin(Stdio::null());
    if let Some(path) = std::env::var_os("LD_LIBRARY_PATH") {
        command.env("LD_LIBRARY_PATH", path);
    }
    command
}

impl Process {
    /// Makes a home in a directory that is there.
    ///
    /// # Errors
    /// When the program cannot be run or refuses.
    pub(super) fn init(program: &Path, directory: &Path, node: usize) -> Result<Self, RealError> {
        let home = directory.join(format!("node-{node}"));
        let said = bare(program).args(["init", "--json", "--data"]).arg(&home).output();
        let said = said.map_err(|error| RealError::NoProgram(format!("{}: {error}", program.display())))?;
        let answer: Value = serde_json::from_slice(&said.stdout).unwrap_or_default();
        let Some(id) = answer.get("node").and_then(Value::as_str) else {
            return Err(RealError::Daemon { node, why: String::from_utf8_lossy(&said.stderr).trim().into() });
        };
        let log = directory.join(format!("node-{node}.log"));
        Ok(Self { program: program.into(), home, log, id: id.into(), running: Mutex::default() })
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its door while it is up.
    pub(super) fn door(&self) -> Option<Door> {
        self.running().door.clone()
    }

    /// Starts the daemon and waits until it answers. `started` is told its process id before that. Returns where it listens.
    ///
    /// # Errors
    /// When it does not come up; why, in its own last words.
    pub(super) fn up(&self, args: &[String], started: impl FnOnce(u32)) -> Result<SocketAddr, String> {
        let log = File::options().create(true).append(true).open(&self.log).map_err(|error| error.to_string())?;
        let mut command = bare(&self.program);
        command.args(["up", "--json", "--no-quic", "--data"]).arg(&self.home).args(args);
        let mut stdout = {
            let mut running = self.running();
            if running.over || running.child.is_some() {
                return Err("it is to be ended, or is up already".into());
            }
            let mut child =
                command.stdout(Stdio::piped()).stderr(log).spawn().map_err(|error| format!("cannot start: {error}"))?;
            started(child.id());
            let stdout = child.stdout.take();
            running.child = Some(child);
            BufReader::new(stdout.ok_or("it has no stdout")?)
        };
        let (sender, line) = mpsc::channel();
        thread::spawn(move || {
            let mut first = String::new();
            let _ = stdout.read_line(&mut first);
            let _ = sender.send(first);
            // Read on, so that the daemon never writes into a pipe that nobody holds.
            let _ = std::io::copy(&mut stdout, &mut std::io::sink());
        });
        let line = line.recv_timeout(UP_WITHIN).unwrap_or_default();
        let ready: Value =
            serde_json::from_str(&line).map_err(|_| format!("it did not come up; {}", self.last_words()))?;
        let notice = std::fs::read(self.home.join("daemon.json")).map_err(|error| error.to_string())?;
        let notice: Value = serde_json::from_slice(&notice).map_err(|error| error.to_string())?;
        let door = Door::of_notice(&notice).ok_or("its notice names no door")?;
        let listens = ready.get("listening").and_then(Value::as_array).into_iter().flatten();
        let port =
            listens.filter_map(Value::as_str).find_map(|at| at.split("/tcp/").nth(1)?.split('/').next()?.parse().ok());
        let port: u16 = port.ok_or("it listens on no TCP port")?;
        let mut running = self.running();
        if running.child.is_none() {
            return Err("it was ended while it came up".into());
        }
        running.door = Some(door);
        Ok(SocketAddr::from(([127, 0, 0, 1], port)))
    }

    fn last_words(&self) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().rev().take(SHOWN_LINES).collect();
        let said = lines.into_iter().rev().collect::<Vec<_>>().join(" / ");
        format!("it said: {said}")
    }

    /// Ends the process at once, as a crash would, and waits for its end.
    pub(super) fn kill(&self) {
        let mut running = self.running();
        running.door = None;
        if let Some(mut child) = running.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// As [`Process::kill`], and none is started here any more.
    pub(super) fn end(&self) {
        self.running().over = true;
        self.kill();
    }

    /// How the process ended, if it did so of itself.
    pub(super) fn ended(&self) -> Option<String> {
        let status = self.running().child.as_mut().and_then(|child| child.try_wait().ok().flatten())?;
        Some(format!("it ended of itself ({status}); {}", self.last_words()))
    }

    /// Stops the process where it stands, or lets it go on.
    pub(super) fn pause(&self, stand: bool) -> Result<(), String> {
        let Some(pid) = self.running().child.as_ref().map(Child::id) else { return Ok(()) };
        let name = if stand { "-STOP" } else { "-CONT" };
        let sent = Command::new("kill").args([name, &pid.to_string()]).status().map_err(|error| error.to_string())?;
        if sent.success() { Ok(()) } else { Err(format!("kill {name} {pid}: {sent}")) }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}
