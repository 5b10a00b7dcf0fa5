//! `[[fault]]`: what goes wrong, as data. Nodes are numbers here; the file names them by site.

/// One fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// When it begins, milliseconds.
    pub at_ms: u64,
    /// How long it lasts, milliseconds; `None` for the rest of the run.
    pub for_ms: Option<u64>,
    /// What it is.
    pub kind: FaultKind,
}

impl Fault {
    /// When it ends, milliseconds; `None` if it does not.
    pub fn end_ms(&self) -> Option<u64> {
        self.for_ms.map(|ms| self.at_ms + ms)
    }
}

/// What goes wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FaultKind {
    /// Nothing passes between nodes of different groups. Nodes in no group keep all their links.
    DropPartition {
        /// The groups.
        groups: Vec<Vec<usize>>,
    },
    /// As [`FaultKind::DropPartition`], but what was sent is held and arrives when it ends.
    HoldPartition {
        /// The groups.
        groups: Vec<Vec<usize>>,
    },
    /// Nothing passes from these nodes to those; the other way is open.
    OneWay {
        /// From here.
        from: Vec<usize>,
        /// To there.
        to: Vec<usize>,
    },
    /// Groups that are cut from each other, with nodes between them that reach all.
    Bridge {
        /// The groups, without the bridge.
        groups: Vec<Vec<usize>>,
        /// Who reaches all.
        bridge: Vec<usize>,
    },
    /// Each of these nodes is cut from everyone.
    Isolate {
        /// Which.
        nodes: Vec<usize>,
    },
    /// Groups that are cut from each other for `down_ms`, open for `up_ms`, cut again, and so on.
    Flapping {
        /// The groups.
        groups: Vec<Vec<usize>>,
        /// How long they are cut, milliseconds.
        down_ms: u64,
        /// How long they are open in between, milliseconds.
        up_ms: u64,
    },
    /// The process dies and comes back at the end of the fault. All that it handed to its disk is there.
    Crash {
        /// Which.
        nodes: Vec<usize>,
    },
    /// The process stands still, and goes on at the end of the fault as if no time had passed.
    Pause {
        /// Which.
        nodes: Vec<usize>,
    },
    /// The power fails: what was not synced is lost, and the node comes back at the end of the fault.
    RestartLostWrites {
        /// Which.
        nodes: Vec<usize>,
    },
    /// The node dies and comes back at the end of the fault with its disk as it was `age_ms` before the fault.
    RestoreOldCopy {
        /// Which.
        nodes: Vec<usize>,
        /// How old the copy is, milliseconds.
        age_ms: u64,
    },
    /// No room: every write fails.
    DiskFull {
        /// Which.
        nodes: Vec<usize>,
    },
    /// The clocks of these nodes are wrong by so much.
    ClockSkew {
        /// Which.
        nodes: Vec<usize>,
        /// Ahead, or with a minus behind, milliseconds.
        by_ms: i64,
    },
    /// The clocks of these nodes run fast or, with a minus, slow.
    ClockDrift {
        /// Which.
        nodes: Vec<usize>,
        /// Microseconds a second.
        ppm: i64,
    },
    /// These nodes are not there before the fault begins. It has no length.
    Join {
        /// Which.
        nodes: Vec<usize>,
    },
    /// These nodes go for good. It has no length.
    Leave {
        /// Which.
        nodes: Vec<usize>,
    },
    /// Hostile: sends records whose signature or body is wrong.
    Forge {
        /// Who.
        nodes: Vec<usize>,
        /// How often, milliseconds.
        every_ms: u64,
    },
    /// Hostile: signs two records of one seq and tells each to another peer.
    Equivocate {
        /// Who.
        nodes: Vec<usize>,
        /// How often, milliseconds.
        every_ms: u64,
    },
    /// Hostile: teaches valid nonsense as fast as it is let.
    Flood {
        /// Who.
        nodes: Vec<usize>,
        /// How often, milliseconds.
        every_ms: u64,
    },
    /// Hostile: says that it has records and never gives them.
    Withhold {
        /// Who.
        nodes: Vec<usize>,
    },
    /// Hostile: sends old records again, those that were withdrawn among them.
    StaleReplay {
        /// Who.
        nodes: Vec<usize>,
        /// How often, milliseconds.
        every_ms: u64,
    },
    /// Hostile: teaches well-formed lessons that match real tasks and advise the wrong thing.
    Poison {
        /// Who.
        nodes: Vec<usize>,
        /// How often, milliseconds.
        every_ms: u64,
    },
    /// Hostile: these nodes appear under many names, each of which teaches and vouches for the poison of the others.
    Sybil {
        /// Who.
        nodes: Vec<usize>,
        /// How many names each has.
        identities: usize,
        /// How often each name teaches, milliseconds.
        every_ms: u64,
    },
}

impl FaultKind {
    /// Every name that a file may give.
    pub const NAMES: [&'static str; 22] = [
        "drop-partition",
        "hold-partition",
        "one-way",
        "bridge",
        "isolate",
        "flapping",
        "crash",
        "pause",
        "restart-lost-writes",
        "restore-old-copy",
        "disk-full",
        "clock-skew",
        "clock-drift",
        "join",
        "leave",
        "forge",
        "equivocate",
        "flood",
        "withhold",
        "stale-replay",
        "poison",
        "sybil",
    ];

    /// Its name in files and reports.
    pub fn name(&self) -> &'static str {
        match self {
            Self::DropPartition { .. } => "drop-partition",
            Self::HoldPartition { .. } => "hold-partition",
            Self::OneWay { .. } => "one-way",
            Self::Bridge { .. } => "bridge",
            Self::Isolate { .. } => "isolate",
            Self::Flapping { .. } => "flapping",
            Self::Crash { .. } => "crash",
            Self::Pause { .. } => "pause",
            Self::RestartLostWrites { .. } => "restart-lost-writes",
            Self::RestoreOldCopy { .. } => "restore-old-copy",
            Self::DiskFull { .. } => "disk-full",
            Self::ClockSkew { .. } => "clock-skew",
            Self::ClockDrift { .. } => "clock-drift",
            Self::Join { .. } => "join",
            Self::Leave { .. } => "leave",
            Self::Forge { .. } => "forge",
            Self::Equivocate { .. } => "equivocate",
            Self::Flood { .. } => "flood",
            Self::Withhold { .. } => "withhold",
            Self::StaleReplay { .. } => "stale-replay",
            Self::Poison { .. } => "poison",
            Self::Sybil { .. } => "sybil",
        }
    }

    /// Whether it keeps messages from passing, which a run must then have shown.
    pub fn is_cut(&self) -> bool {
        matches!(
            self,
            Self::DropPartition { .. }
                | Self::HoldPartition { .. }
                | Self::OneWay { .. }
                | Self::Bridge { .. }
                | Self::Isolate { .. }
                | Self::Flapping { .. }
        )
    }

    /// Whether it makes its nodes hostile. They are not measured, and nothing is expected of them.
    pub fn is_hostile(&self) -> bool {
        matches!(
            self,
            Self::Forge { .. }
                | Self::Equivocate { .. }
                | Self::Flood { .. }
                | Self::Withhold { .. }
                | Self::StaleReplay { .. }
                | Self::Poison { .. }
                | Self::Sybil { .. }
        )
    }

    /// The nodes that it is about, in no order; of a cut, all that are in a group.
    pub fn nodes(&self) -> Vec<&usize> {
        self.sets().into_iter().flatten().collect()
    }

    /// The sets of nodes that it names.
    pub fn sets(&self) -> Vec<&Vec<usize>> {
        match self {
            Self::DropPartition { groups } | Self::HoldPartition { groups } | Self::Flapping { groups, .. } => {
                groups.iter().collect()
            }
            Self::OneWay { from, to } => vec![from, to],
            Self::Bridge { groups, bridge } => groups.iter().chain([bridge]).collect(),
            Self::Isolate { nodes }
            | Self::Crash { nodes }
            | Self::Pause { nodes }
            | Self::RestartLostWrites { nodes }
            | Self::RestoreOldCopy { nodes, .. }
            | Self::DiskFull { nodes }
            | Self::ClockSkew { nodes, .. }
            | Self::ClockDrift { nodes, .. }
            | Self::Join { nodes }
            | Self::Leave { nodes }
            | Self::Forge { nodes, .. }
            | Self::Equivocate { nodes, .. }
            | Self::Flood { nodes, .. }
            | Self::Withhold { nodes }
            | Self::StaleReplay { nodes, .. }
            | Self::Poison { nodes, .. }
            | Self::Sybil { nodes, .. } => vec![nodes],
        }
    }

    /// The sets of nodes that it names, to change.
    pub fn sets_mut(&mut self) -> Vec<&mut Vec<usize>> {
        match self {
            Self::DropPartition { groups } | Self::HoldPartition { groups } | Self::Flapping { groups, .. } => {
                groups.iter_mut().collect()
            }
            Self::OneWay { from, to } => vec![from, to],
            Self::Bridge { groups, bridge } => groups.iter_mut().chain([bridge]).collect(),
            Self::Isolate { nodes }
            | Self::Crash { nodes }
            | Self::Pause { nodes }
            | Self::RestartLostWrites { nodes }
            | Self::RestoreOldCopy { nodes, .. }
            | Self::DiskFull { nodes }
            | Self::ClockSkew { nodes, .. }
            | Self::ClockDrift { nodes, .. }
            | Self::Join { nodes }
            | Self::Leave { nodes }
            | Self::Forge { nodes, .. }
            | Self::Equivocate { nodes, .. }
            | Self::Flood { nodes, .. }
            | Self::Withhold { nodes }
            | Self::StaleReplay { nodes, .. }
            | Self::Poison { nodes, .. }
            | Self::Sybil { nodes, .. } => vec![nodes],
        }
    }
}
