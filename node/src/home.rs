//! A node's home: the directory that holds its key, its settings, its store and the notice of the running daemon.
//!
//! ```text
//! identity.key   the secret seed, 64 hex digits, mode 0600; a directory with this file is a home
//! home.json      the bank that the home owns, and the tickets of those it joined
//! lock           locked by whoever may write here: the daemon, or `init` for a moment
//! network.json   how the node connects, written by a person; may be absent
//! embedder.json  the service that makes vectors, written by a person; may be absent
//! induction.json the model that draws lessons, written by a person; may be absent
//! swarm.key      the pre-shared key of a private network, written by a person, mode 0600; may be absent
//! daemon.json    where the running daemon answers, and the token, mode 0600
//! door.token     the token alone, for programs that read it from a file (Prometheus), mode 0600
//! store/         the bank on disk
//! ```

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    net::SocketAddr,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard},
    time::Duration,
};

use folklore_protocol::{
    bank::MAX_BANK_NAME_BYTES,
    canonical::{Lines, normalise},
    identity::{AuthorId, Keypair},
};
use folklore_store::{bank::BankInfo, redact::Allow};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    api::{ApiError, ErrorCode},
    embedding::EmbedderOptions,
    induction::InductionOptions,
    settings::NetworkSettings,
    ticket::Ticket,
};

/// Name of the bank that a fresh home owns.
pub const DEFAULT_BANK: &str = "home";
/// Most banks that a home joins. Each ticket may be a few kilobytes, and `home.json` is read whole.
pub const MAX_TICKETS: usize = 64;
/// Longest file of the home that is read whole, bytes: all pending tickets at their limit fit.
const MAX_FILE_BYTES: u64 = 1024 * 1024;
/// `init` holds the lock for a few milliseconds; a daemon holds it until it ends.
const LOCK_TRIES: u32 = 10;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

const IDENTITY: &str = "identity.key";
const SETTINGS: &str = "home.json";
const LOCK: &str = "lock";
const DAEMON: &str = "daemon.json";
const TOKEN: &str = "door.token";
const NETWORK: &str = "network.json";
const EMBEDDER: &str = "embedder.json";
/// Values that redaction leaves alone, one a line.
const ALLOW: &str = "redact.allow";
const INDUCTION: &str = "induction.json";
const STORE: &str = "store";

/// Why something about a home did not work. Nothing in it was changed.
#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    /// No home was ever made there.
    #[error("there is no folklore home in {}: make one with 'folklore init --data {}'", .0.display(), .0.display())]
    NotMade(PathBuf),
    /// Neither `--data` nor the environment says where.
    #[error("no place for a home is known: name one with --data DIR")]
    NoPlace,
    /// The file system said no.
    #[error("{}: {source}", .path.display())]
    Io {
        /// What was touched.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file of the home does not say what it should.
    #[error("{} is damaged ({reason}): {remedy}", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
        /// What to do.
        remedy: &'static str,
    },
    /// Records without the key that signed them. A new key would number its records as if they were not there.
    #[error("{} holds records but {IDENTITY} is gone: put the key back from a copy, or move the directory away", .0.display())]
    KeyLost(PathBuf),
    /// Another process serves the home.
    #[error("{} is served already{}: use it, or stop it first", .dir.display(), served_by(.daemon))]
    Served {
        /// The home.
        dir: PathBuf,
        /// The daemon, when it has said where it is.
        daemon: Option<DaemonNotice>,
    },
    /// A bank's name breaks the limits.
    #[error("a bank's name has 1 to {MAX_BANK_NAME_BYTES} bytes of visible text")]
    BankName,
    /// Too many banks are joined.
    #[error("{MAX_TICKETS} banks are joined already, and a home keeps no more")]
    TooManyTickets,
}

impl HomeError {
    fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }
}

impl From<HomeError> for ApiError {
    fn from(error: HomeError) -> Self {
        let code = match error {
            HomeError::NotMade(_) => ErrorCode::Unavailable,
            HomeError::NoPlace | HomeError::BankName => ErrorCode::BadRequest,
            _ => ErrorCode::Failed,
        };
        Self::new(code, error.to_string())
    }
}

fn served_by(daemon: &Option<DaemonNotice>) -> String {
    daemon.as_ref().map_or_else(String::new, |d| format!(" by pid {} at http://{}", d.pid, d.http))
}

/// Where the running daemon answers. Holds the token: never log it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DaemonNotice {
    /// Process id.
    pub pid: u32,
    /// Address of the HTTP door.
    pub http: SocketAddr,
    /// What opens it.
    pub token: String,
}

impl std::fmt::Debug for DaemonNotice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DaemonNotice").field("pid", &self.pid).field("http", &self.http).finish_non_exhaustive()
    }
}

/// What `home.json` says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Settings {
    /// Layout of the home; this build makes and reads 1.
    version: u32,
    /// Name of the bank that the home owns.
    bank: String,
    /// What keeps that bank's id from being guessed, 32 hex digits.
    salt: String,
    /// Whether a daemon ever had the store open.
    #[serde(default)]
    served: bool,
    /// Tickets of the banks that are joined, or are to be when the daemon runs.
    #[serde(default)]
    tickets: Vec<String>,
}

/// The part of [`Settings`] that every layout has.
#[derive(Deserialize)]
struct Layout {
    version: u32,
}

/// A home that was made. Cheap to clone; holds no lock and no secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    dir: PathBuf,
}

/// Held by the one process that may write to the home. The system lets go of it when the process dies.
#[derive(Debug)]
pub struct HomeLock {
    _file: File,
    /// Threads of the holder change the home one at a time.
    changing: Mutex<()>,
}

impl HomeLock {
    fn change(&self) -> MutexGuard<'_, ()> {
        // What a panicking writer leaves is the old file or the new one.
        self.changing.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Home {
    /// Where a home is when nobody says: `$XDG_DATA_HOME/folklore`, else `~/.local/share/folklore`.
    pub fn default_dir() -> Result<PathBuf, HomeError> {
        let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
        absolute("XDG_DATA_HOME")
            .or_else(|| absolute("HOME").map(|home| home.join(".local/share")))
            .map(|share| share.join("folklore"))
            .ok_or(HomeError::NoPlace)
    }

    /// Makes a home in `dir` with a fresh key, or opens the one that is there. The second value says whether it is new;
    /// `bank` names the bank that a new home owns.
    pub fn create(dir: &Path, bank: &str) -> Result<(Self, bool), HomeError> {
        let bank = normalise(bank, Lines::One);
        if bank.is_empty() || bank.len() > MAX_BANK_NAME_BYTES {
            return Err(HomeError::BankName);
        }
        let home = Self { dir: dir.to_owned() };
        if home.is_made() {
            return Ok((home, false));
        }
        fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(HomeError::io(dir))?;
        let _lock = home.lock()?;
        if home.is_made() {
            return Ok((home, false));
        }
        if home.store_dir().exists() {
            return Err(HomeError::KeyLost(dir.to_owned()));
        }
        let (mut seed, mut salt) = ([0u8; 32], [0u8; 16]);
        getrandom::fill(&mut seed)
            .and_then(|()| getrandom::fill(&mut salt))
            .map_err(|error| HomeError::Io { path: dir.join(IDENTITY), source: io::Error::other(error) })?;
        let salt = data_encoding::HEXLOWER.encode(&salt);
        home.write_settings(&Settings { version: 1, bank, salt, served: false, tickets: Vec::new() })?;
        // Last, since this file is what makes the directory a home.
        home.write(IDENTITY, format!("{}\n", data_encoding::HEXLOWER.encode(&seed)).as_bytes())?;
        Ok((home, true))
    }

    /// Opens the home in `dir`.
    pub fn open(dir: &Path) -> Result<Self, HomeError> {
        let home = Self { dir: dir.to_owned() };
        if home.is_made() { Ok(home) } else { Err(HomeError::NotMade(dir.to_owned())) }
    }

    /// The directory, as it was named.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Where the store is; it exists once a daemon has run.
    pub fn store_dir(&self) -> PathBuf {
        self.dir.join(STORE)
    }

    /// The node's key.
    pub fn keypair(&self) -> Result<Keypair, HomeError> {
        let damaged = |reason: &str| HomeError::Damaged {
            path: self.dir.join(IDENTITY),
            reason: reason.to_owned(),
            remedy: "put the key back from a copy",
        };
        let bytes = self.read(IDENTITY)?.ok_or_else(|| HomeError::NotMade(self.dir.clone()))?;
        let hex = bytes.trim_ascii();
        let seed: [u8; 32] = data_encoding::HEXLOWER_PERMISSIVE
            .decode(hex)
            .ok()
            .and_then(|seed| seed.try_into().ok())
            .ok_or_else(|| damaged("not 64 hex digits"))?;
        Ok(Keypair::from_seed(&seed))
    }

    /// The node's id.
    pub fn node(&self) -> Result<AuthorId, HomeError> {
        Ok(self.keypair()?.author())
    }

    /// The bank that the home owns.
    pub fn bank(&self) -> Result<BankInfo, HomeError> {
        let settings = self.settings()?;
        let salt = data_encoding::HEXLOWER.decode(settings.salt.as_bytes()).ok().and_then(|salt| salt.try_into().ok());
        let salt = salt.ok_or_else(|| HomeError::Damaged {
            path: self.dir.join(SETTINGS),
            reason: "its salt is not 32 hex digits".to_owned(),
            remedy: "put it back from a copy",
        })?;
        Ok(BankInfo::new(self.node()?, salt, &settings.bank))
    }

    /// Tickets of the banks that the home joined or is to join, in order. They are kept, so that a bank that is lost with
    /// the whole store is joined again.
    pub fn tickets(&self) -> Result<Vec<Ticket>, HomeError> {
        let parse = |text: &String| {
            text.parse().map_err(|error: crate::ticket::TicketError| HomeError::Damaged {
                path: self.dir.join(SETTINGS),
                reason: error.to_string(),
                remedy: "remove the ticket from it and join again",
            })
        };
        self.settings()?.tickets.iter().map(parse).collect()
    }

    /// Leaves a ticket for the daemon, which joins its bank when it starts. Not for a home that is being served: its daemon
    /// would not look.
    pub fn add_ticket(&self, ticket: &Ticket) -> Result<(), HomeError> {
        self.keep_ticket(&self.lock()?, ticket)
    }

    /// Keeps the ticket of a bank that is joined. A newer ticket for the same bank takes the place of the older one.
    pub fn keep_ticket(&self, lock: &HomeLock, ticket: &Ticket) -> Result<(), HomeError> {
        let _one_at_a_time = lock.change();
        let mut settings = self.settings()?;
        let text = ticket.to_string();
        if settings.tickets.contains(&text) {
            return Ok(());
        }
        // One that does not read is left for `tickets` to complain of.
        settings.tickets.retain(|old| old.parse::<Ticket>().map_or(true, |old| old.bank() != ticket.bank()));
        if settings.tickets.len() >= MAX_TICKETS {
            return Err(HomeError::TooManyTickets);
        }
        settings.tickets.push(text);
        self.write_settings(&settings)
    }

    /// Whether a daemon ever had the home's store open: if so and the store is empty, it was lost.
    pub fn was_served(&self) -> Result<bool, HomeError> {
        Ok(self.settings()?.served)
    }

    /// Notes that a daemon has the home's store open.
    pub fn mark_served(&self, lock: &HomeLock) -> Result<(), HomeError> {
        let _one_at_a_time = lock.change();
        let mut settings = self.settings()?;
        if settings.served {
            return Ok(());
        }
        settings.served = true;
        self.write_settings(&settings)
    }

    /// Takes the home for this process; fails with [`HomeError::Served`] while another has it.
    pub fn lock(&self) -> Result<HomeLock, HomeError> {
        let path = self.dir.join(LOCK);
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(&path)
            .map_err(HomeError::io(&path))?;
        for attempt in 1.. {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => break,
                Err(rustix::io::Errno::WOULDBLOCK) if attempt < LOCK_TRIES => std::thread::sleep(LOCK_PAUSE),
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    return Err(HomeError::Served { dir: self.dir.clone(), daemon: self.daemon().ok().flatten() });
                }
                Err(error) => return Err(HomeError::Io { path, source: error.into() }),
            }
        }
        Ok(HomeLock { _file: file, changing: Mutex::new(()) })
    }

    /// What the last daemon said about itself, if it did not take it back. It may be dead: only asking it tells.
    pub fn daemon(&self) -> Result<Option<DaemonNotice>, HomeError> {
        let Some(bytes) = self.read(DAEMON)? else { return Ok(None) };
        let notice: DaemonNotice = self.parse(DAEMON, &bytes, "remove it and start the daemon again")?;
        if !notice.http.ip().is_loopback() {
            // The token must not be sent to another machine, whoever wrote this.
            return Err(HomeError::Damaged {
                path: self.dir.join(DAEMON),
                reason: format!("{} is not a loopback address", notice.http),
                remedy: "remove it and start the daemon again",
            });
        }
        Ok(Some(notice))
    }

    /// Says where this process, which holds the lock, answers. To be called when it does.
    pub fn write_daemon(&self, _lock: &HomeLock, notice: &DaemonNotice) -> Result<(), HomeError> {
        self.write(TOKEN, notice.token.as_bytes())?;
        self.write_json(DAEMON, notice)
    }

    /// How the node is to connect, where a person wrote it down.
    pub fn network_settings(&self) -> Result<NetworkSettings, HomeError> {
        let Some(bytes) = self.read(NETWORK)? else { return Ok(NetworkSettings::default()) };
        NetworkSettings::parse(&bytes).map_err(|reason| HomeError::Damaged {
            path: self.dir.join(NETWORK),
            reason,
            remedy: "put that right in it, or remove it",
        })
    }

    /// What `embedder.json` says; without that file, nothing.
    pub fn embedder_options(&self) -> Result<EmbedderOptions, HomeError> {
        let Some(bytes) = self.read(EMBEDDER)? else { return Ok(EmbedderOptions::default()) };
        EmbedderOptions::parse(&bytes).map_err(|reason| HomeError::Damaged {
            path: self.dir.join(EMBEDDER),
            reason,
            remedy: "put that right in it, or remove it",
        })
    }

    /// What `redact.allow` says; without that file, `None`.
    pub fn allow_list(&self) -> Result<Option<Allow>, HomeError> {
        let Some(bytes) = self.read(ALLOW)? else { return Ok(None) };
        let damaged = |reason: String| HomeError::Damaged {
            path: self.dir.join(ALLOW),
            reason,
            remedy: "put that right in it, or remove it",
        };
        let text = String::from_utf8(bytes).map_err(|_| damaged("it is not UTF-8 text".into()))?;
        Allow::parse(&text).map(Some).map_err(|error| damaged(error.to_string()))
    }

    /// What `induction.json` says; without that file, nothing.
    pub fn induction_options(&self) -> Result<InductionOptions, HomeError> {
        let Some(bytes) = self.read(INDUCTION)? else { return Ok(InductionOptions::default()) };
        InductionOptions::parse(&bytes).map_err(|reason| HomeError::Damaged {
            path: self.dir.join(INDUCTION),
            reason,
            remedy: "put that right in it, or remove it",
        })
    }

    /// Takes the notice back, at a clean stop.
    pub fn remove_daemon(&self, _lock: &HomeLock) -> Result<(), HomeError> {
        for name in [DAEMON, TOKEN] {
            let path = self.dir.join(name);
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(HomeError::Io { path, source: error });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Permission bits of the key file that let others read or change it; 0 when it is private.
    pub fn identity_exposure(&self) -> Result<u32, HomeError> {
        let path = self.dir.join(IDENTITY);
        Ok(fs::metadata(&path).map_err(HomeError::io(&path))?.permissions().mode() & 0o077)
    }

    fn is_made(&self) -> bool {
        self.dir.join(IDENTITY).exists()
    }

    fn settings(&self) -> Result<Settings, HomeError> {
        let damaged = |reason: String| HomeError::Damaged {
            path: self.dir.join(SETTINGS),
            reason,
            remedy: "put it back from a copy",
        };
        let bytes = self.read(SETTINGS)?.ok_or_else(|| damaged("it is gone".into()))?;
        // The layout first: another one may have other fields.
        let Layout { version } = self.parse(SETTINGS, &bytes, "put it back from a copy")?;
        if version != 1 {
            return Err(damaged(format!("layout {version}, this build reads layout 1")));
        }
        self.parse(SETTINGS, &bytes, "put it back from a copy")
    }

    fn write_settings(&self, settings: &Settings) -> Result<(), HomeError> {
        self.write_json(SETTINGS, settings)
    }

    fn parse<T: DeserializeOwned>(&self, name: &str, bytes: &[u8], remedy: &'static str) -> Result<T, HomeError> {
        serde_json::from_slice(bytes).map_err(|error| HomeError::Damaged {
            path: self.dir.join(name),
            reason: error.to_string(),
            remedy,
        })
    }

    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, HomeError> {
        let path = self.dir.join(name);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(HomeError::Io { path, source }),
        };
        let mut bytes = Vec::new();
        file.take(MAX_FILE_BYTES).read_to_end(&mut bytes).map_err(HomeError::io(&path))?;
        Ok(Some(bytes))
    }

    fn write_json<T: Serialize>(&self, name: &str, value: &T) -> Result<(), HomeError> {
        let text = serde_json::to_string_pretty(value)
            .map_err(|error| HomeError::Io { path: self.dir.join(name), source: io::Error::other(error) })?;
        self.write(name, format!("{text}\n").as_bytes())
    }

    /// Writes a private file so that after a power cut the old or the new one is there, never half of one.
    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), HomeError> {
        let path = self.dir.join(name);
        let new = self.dir.join(format!("{name}.new"));
        // Only the holder of the lock writes, so a leftover is from a process that died.
        let _ = fs::remove_file(&new);
        let write = || -> io::Result<()> {
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
            file.write_all(bytes)?;
            file.sync_all()?;
            fs::rename(&new, &path)?;
            File::open(&self.dir)?.sync_all()
        };
        write().map_err(HomeError::io(&path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fresh() -> (tempfile::TempDir, Home) {
        let dir = tempfile::tempdir().unwrap();
        let (home, new) = Home::create(&dir.path().join("a/home"), DEFAULT_BANK).unwrap();
        assert!(new);
        (dir, home)
    }

    fn ticket() -> Ticket {
        let owner = Keypair::from_seed(&[9; 32]).author();
        Ticket::new(owner, [3; 16], "team", vec!["/ip4/127.0.0.1/tcp/4001".parse().unwrap()]).unwrap()
    }

    #[test]
    fn making_a_home_twice_keeps_its_key_and_bank() {
        let (_dir, home) = fresh();
        let node = home.node().unwrap();
        let (again, new) = Home::create(home.dir(), "other").unwrap();
        assert!(!new);
        assert_eq!(again.node().unwrap(), node);
        let bank = again.bank().unwrap();
        assert_eq!((bank.owner, bank.name.as_str()), (node, "home"));
        assert_eq!(bank, home.bank().unwrap());
        assert_ne!(bank.id, folklore_protocol::BankId::new(&node, &[0; 16], "home"), "nobody can guess it");
    }

    #[test]
    fn secrets_are_private_to_the_user() {
        let (_dir, home) = fresh();
        let lock = home.lock().unwrap();
        let notice = DaemonNotice { pid: 1, http: "127.0.0.1:9".parse().unwrap(), token: "secret-token".into() };
        home.write_daemon(&lock, &notice).unwrap();
        for name in [IDENTITY, DAEMON, SETTINGS] {
            assert_eq!(fs::metadata(home.dir().join(name)).unwrap().permissions().mode() & 0o777, 0o600, "{name}");
        }
        assert_eq!(fs::metadata(home.dir()).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(home.identity_exposure().unwrap(), 0);
        assert!(!format!("{notice:?}").contains("secret-token"));
    }

    #[test]
    fn a_home_that_was_never_made_says_how_to_make_it() {
        let dir = tempfile::tempdir().unwrap();
        let error = Home::open(dir.path()).unwrap_err().to_string();
        assert!(error.contains(&format!("folklore init --data {}", dir.path().display())), "{error}");
    }

    #[test]
    fn a_second_process_is_told_who_serves_the_home() {
        let (_dir, home) = fresh();
        let lock = home.lock().unwrap();
        assert!(matches!(home.lock(), Err(HomeError::Served { daemon: None, .. })));
        let notice = DaemonNotice { pid: 77, http: "127.0.0.1:4242".parse().unwrap(), token: "t".into() };
        home.write_daemon(&lock, &notice).unwrap();
        let error = home.lock().unwrap_err().to_string();
        assert!(error.contains("pid 77") && error.contains("http://127.0.0.1:4242"), "{error}");
        drop(lock);
        home.remove_daemon(&home.lock().unwrap()).unwrap();
        assert_eq!(home.daemon().unwrap(), None);
    }

    #[test]
    fn tickets_wait_for_the_daemon_and_are_kept_one_a_bank() {
        let (_dir, home) = fresh();
        home.add_ticket(&ticket()).unwrap();
        home.add_ticket(&ticket()).unwrap();
        assert_eq!(home.tickets().unwrap(), [ticket()]);
        let lock = home.lock().unwrap();
        assert!(matches!(home.add_ticket(&ticket()), Err(HomeError::Served { .. })));
        let moved = vec!["/ip4/127.0.0.1/tcp/4002".parse().unwrap()];
        let newer = Ticket::new(ticket().owner(), [3; 16], "team", moved).unwrap();
        home.keep_ticket(&lock, &newer).unwrap();
        assert_eq!(home.tickets().unwrap(), [newer], "the same bank at a newer address");
    }

    #[test]
    fn a_home_remembers_that_it_was_served() {
        let (_dir, home) = fresh();
        assert!(!home.was_served().unwrap());
        let lock = home.lock().unwrap();
        home.mark_served(&lock).unwrap();
        home.mark_served(&lock).unwrap();
        assert!(Home::open(home.dir()).unwrap().was_served().unwrap());
    }

    #[test]
    fn records_without_their_key_are_not_given_a_new_one() {
        let (_dir, home) = fresh();
        fs::create_dir(home.store_dir()).unwrap();
        fs::remove_file(home.dir().join(IDENTITY)).unwrap();
        assert!(matches!(Home::create(home.dir(), "home"), Err(HomeError::KeyLost(_))));
    }

    #[test]
    fn damaged_files_are_named_with_what_to_do() {
        let (_dir, home) = fresh();
        fs::write(home.dir().join(DAEMON), "{").unwrap();
        assert!(home.daemon().unwrap_err().to_string().contains("daemon.json is damaged"));
        fs::write(home.dir().join(DAEMON), r#"{"pid":1,"http":"192.0.2.1:80","token":"t"}"#).unwrap();
        assert!(home.daemon().unwrap_err().to_string().contains("not a loopback address"));
        fs::write(home.dir().join(SETTINGS), r#"{"version":2,"bank":"x"}"#).unwrap();
        assert!(home.bank().unwrap_err().to_string().contains("layout 2"));
        fs::write(home.dir().join(IDENTITY), "zz").unwrap();
        assert!(home.keypair().unwrap_err().to_string().contains("identity.key is damaged"));
    }

    #[test]
    fn a_bank_name_keeps_its_limits() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["", " ", "\u{200b}", &"x".repeat(65)] {
            assert!(matches!(Home::create(dir.path(), name), Err(HomeError::BankName)));
        }
    }
}
