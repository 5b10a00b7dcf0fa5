//! What can go wrong with a bank on disk, one enum a verb. Every message says what to do next.

use std::{io, path::PathBuf};

use folklore_protocol::{bank::BankId, record::RecordError};

/// Why a data directory could not be opened. Nothing in it was lost by the attempt.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has it open.
    #[error(
        "another process has the bank in {dir} open: use that one (`folklore status`), or stop it before starting again"
    )]
    Locked {
        /// The data directory.
        dir: PathBuf,
    },
    /// The file system or a mode forbids writing there.
    #[error(
        "no permission to write {path}: give this user read and write access, or choose another data directory ({source})"
    )]
    Denied {
        /// What could not be written.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file system is mounted read-only.
    #[error("{path} is on a read-only file system: mount it writable, or choose another data directory")]
    ReadOnly {
        /// What could not be written.
        path: PathBuf,
    },
    /// No space left.
    #[error("the disk that holds {path} is full: free some space and start again; nothing is lost")]
    DiskFull {
        /// What could not be written.
        path: PathBuf,
    },
    /// Another error of the file system.
    #[error("could not {doing} {path}: {source}; check the disk and start again")]
    Io {
        /// What was tried, a verb.
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The bank opens neither as it is nor rebuilt.
    #[error(
        "the bank in {path} cannot be opened or rebuilt ({detail}): all its files are still there; copy the directory \
         away, then start with an empty one and let peers refill it"
    )]
    Unrecoverable {
        /// The bank's directory.
        path: PathBuf,
        /// What failed.
        detail: String,
    },
}

/// Why nothing was written. Unless the variant says otherwise the bank is as it was and can go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// The bank has not been added here.
    #[error("bank {0} is not known here: create it, or join it with a ticket")]
    UnknownBank(BankId),
    /// A bank's id is not the one that its owner and name give.
    #[error("bank {0} is not the id of its owner and name: the ticket is damaged, ask for a new one")]
    BankId(BankId),
    /// One of the claims cannot be signed.
    #[error("claim {index} of the group: {source}")]
    Claim {
        /// Which claim, from 0.
        index: usize,
        /// What is wrong with it.
        source: RecordError,
    },
    /// A body stands beside a claim that does not name it.
    #[error("claim {index} of the group comes with the body of another lesson: send each body beside its own claim")]
    Body {
        /// Which claim, from 0.
        index: usize,
    },
    /// A value is over its limit.
    #[error("{what} has {len} bytes, the limit is {limit}: split it or leave it out")]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// Its bytes.
        len: usize,
        /// Bytes allowed.
        limit: usize,
    },
    /// A setting under a name that the bank keeps for itself.
    #[error("settings that start with '{0}' belong to the bank itself: choose another name")]
    Reserved(&'static str),
    /// All sequence numbers of an author are used up.
    #[error("author numbers are used up in bank {0}: go on under a new key")]
    SeqExhausted(BankId),
    /// No more lessons are remembered as forgotten.
    #[error("{0} lessons are forgotten here, the most that are remembered: withdraw it, which needs no room")]
    ForgottenFull(usize),
    /// The bank could not be read while planning the write.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A write or sync failed before, so what is on disk is not certain. Nothing after it is acknowledged; reads go on, and
    /// so does writing once the disk does.
    #[error(
        "the bank takes no writes since one failed ({0}): see to the disk, and it goes on within a minute without a restart; \
         nothing acknowledged is lost"
    )]
    Stopped(String),
}

/// Why something could not be read. The bank is as it was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The bytes on disk are not what was written.
    #[error("{what} is damaged on disk ({detail}): restart to recover it, or `sync` with a peer that has it")]
    Damaged {
        /// What.
        what: String,
        /// How.
        detail: String,
    },
    /// The database refused.
    #[error("the bank could not be read ({0}): check the disk, then restart; opening repairs what it can")]
    Database(String),
}

/// Sorts an error of the file system into what a user can do about it.
pub(crate) fn open_io(doing: &'static str, path: impl Into<PathBuf>, source: io::Error) -> OpenError {
    let path = path.into();
    match source.kind() {
        io::ErrorKind::PermissionDenied => OpenError::Denied { path, source },
        io::ErrorKind::ReadOnlyFilesystem => OpenError::ReadOnly { path },
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => OpenError::DiskFull { path },
        _ => OpenError::Io { doing, path, source },
    }
}
