//! What an experiment lets be seen while it runs: plain data, one value for each thing that happened, in the order of virtual
//! time. Measures are made of these and of nothing else, so that they can be tried on streams written by hand.

/// Something that happened in a run. Nodes and sites are numbers in the order of the scenario; records are numbered through the run
/// as they are taught, over all authors, hostile ones included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Observed {
    /// An agent drew a task, recalled, and failed its family's trap or did not. One that failed teaches right after
    /// ([`Observed::Taught`]).
    Attempted {
        /// At which node.
        node: usize,
        /// The task's number among all that are drawn in this run; the same in every arm.
        task: u64,
        /// Its family.
        family: u32,
        /// Where among the lessons that recall showed, from 1, the first of this family stood; `None` if there was none.
        rank: Option<u32>,
        /// The record that taught that lesson.
        record: Option<u64>,
        /// How many lessons recall showed.
        shown: u32,
        /// Whether the trap was fallen into.
        failed: bool,
        /// Whether a poisoned lesson was among those shown.
        poisoned: bool,
        /// Whether the memory could be asked at all. False only in the central arm.
        reached: bool,
    },
    /// A lesson was taught and acknowledged.
    Taught {
        /// By which node. Its own copy counts as stored there without an [`Observed::Stored`].
        node: usize,
        /// The record.
        record: u64,
        /// What it warns of; `None` for lessons about none of the families.
        family: Option<u32>,
        /// Whether a hostile node taught it to mislead.
        poison: bool,
        /// Bytes of record and body.
        bytes: u32,
    },
    /// What a failure taught could not be kept, since the memory or the disk could not be reached.
    TeachFailed {
        /// At which node.
        node: usize,
        /// About which family.
        family: u32,
    },
    /// The author of a lesson withdrew it.
    Withdrawn {
        /// At which node.
        node: usize,
        /// The record that taught it.
        record: u64,
    },
    /// A lesson whose withdrawal a node had was shown there all the same.
    ServedWithdrawn {
        /// At which node.
        node: usize,
        /// The record that taught it.
        record: u64,
    },
    /// A node holds a taught record, durably, that it did not hold before.
    Stored {
        /// At which node.
        node: usize,
        /// The record.
        record: u64,
        /// Who it came from; `None` if from its own disk (a copy that was put back).
        from: Option<usize>,
        /// Over how many links it has come from its author.
        hops: u32,
    },
    /// A node no longer holds a record it held: lost with unsynced writes, or with an old copy that was put back.
    Gone {
        /// At which node.
        node: usize,
        /// The record.
        record: u64,
    },
    /// A record arrived at a node that had it.
    Duplicate {
        /// At which node.
        node: usize,
        /// Bytes of record and body.
        bytes: u32,
    },
    /// A node sent a message.
    Sent {
        /// From.
        from: usize,
        /// To.
        to: usize,
        /// The message's name.
        kind: &'static str,
        /// What the bytes are for.
        class: Class,
        /// Bytes of the frame.
        bytes: u32,
    },
    /// A message did not arrive.
    Lost {
        /// From.
        from: usize,
        /// To.
        to: usize,
        /// Why.
        cause: LossCause,
    },
    /// A node came up, at the start or again, or joined.
    Up {
        /// Which.
        node: usize,
    },
    /// A node went down, or left.
    Down {
        /// Which.
        node: usize,
    },
    /// A fault begins.
    FaultBegan {
        /// Its place in the scenario.
        fault: usize,
    },
    /// A fault ends.
    FaultEnded {
        /// Its place in the scenario.
        fault: usize,
    },
    /// All honest nodes that are up hold the same, and did not when it was last looked for.
    Converged,
    /// They no longer do.
    Diverged,
    /// A hostile record was refused.
    Refused {
        /// At which node.
        node: usize,
    },
}

/// What bytes on a link are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Records and bodies.
    Data,
    /// Finding out what differs.
    Reconcile,
    /// Everything else: greetings, ids announced, the tree's upkeep, queries.
    Control,
}

impl Class {
    /// All of them, in the order in which reports show them.
    pub const ALL: [Self; 3] = [Self::Data, Self::Reconcile, Self::Control];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Reconcile => "reconcile",
            Self::Control => "control",
        }
    }
}

/// Why a message did not arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LossCause {
    /// A cut lay between.
    Cut,
    /// The link loses.
    Loss,
    /// The link's queue was full.
    Queue,
    /// The receiver was down, or the connection gone.
    Down,
}

/// Who looks on.
pub trait Observer {
    /// Something happened at this virtual time, milliseconds.
    fn see(&mut self, at_ms: u64, what: Observed);
}

/// Keeps everything: for tests and for looking at a short run.
impl Observer for Vec<(u64, Observed)> {
    fn see(&mut self, at_ms: u64, what: Observed) {
        self.push((at_ms, what));
    }
}

/// Looks at nothing.
impl Observer for () {
    fn see(&mut self, _: u64, _: Observed) {}
}
