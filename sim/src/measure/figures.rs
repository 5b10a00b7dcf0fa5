//! The names of all figures, with units and what they mean. Files, reports and bounds use these.

/// What a figure is counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// A share from 0 to 1.
    Share,
    /// A number of things.
    Count,
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// Something for each of something else.
    Ratio,
}

/// Which way a figure is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// Less of it.
    Lower,
    /// More of it.
    Higher,
    /// Neither: it says what the run was like.
    Neither,
}

/// A figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Figure {
    /// Its name. With `@SITE` after it, where [`Figure::by_site`], it is that of one site.
    pub name: &'static str,
    /// What it is counted in.
    pub unit: Unit,
    /// Which way it is better.
    pub better: Better,
    /// Whether it is there for each site too.
    pub by_site: bool,
    /// What it means.
    pub about: &'static str,
}

const fn figure(name: &'static str, unit: Unit, better: Better, about: &'static str) -> Figure {
    Figure { name, unit, better, by_site: false, about }
}

const fn by_site(name: &'static str, unit: Unit, about: &'static str) -> Figure {
    Figure { name, unit, better: Better::Lower, by_site: true, about }
}

/// Every figure there is, in the order in which reports show them.
pub const ALL: &[Figure] = &[
    figure("attempts", Unit::Count, Better::Neither, "tasks that agents attempted"),
    figure("failure_rate", Unit::Share, Better::Lower, "of all attempts, those that failed"),
    by_site(
        "repeat_failure_rate",
        Unit::Share,
        "of the attempts at a family that somebody anywhere had learnt, those that failed",
    ),
    by_site("repeat_failure_rate.before", Unit::Share, "the same before the first cut"),
    by_site("repeat_failure_rate.during", Unit::Share, "the same from the first cut until the last has healed"),
    by_site("repeat_failure_rate.after", Unit::Share, "the same after that, for as long as [measure] after says"),
    by_site("repeat_failures", Unit::Count, "failures at a family that somebody anywhere had learnt"),
    by_site("repeat_failures.before", Unit::Count, "the same before the first cut"),
    by_site("repeat_failures.during", Unit::Count, "the same from the first cut until the last has healed"),
    by_site("repeat_failures.after", Unit::Count, "the same after that, for as long as [measure] after says"),
    figure(
        "only_elsewhere.failure_rate.during",
        Unit::Share,
        Better::Lower,
        "of the attempts at a family first learnt since the cuts began, and not at this site, those that failed",
    ),
    figure("only_elsewhere.failure_rate.after", Unit::Share, Better::Lower, "the same after the heal"),
    figure("only_elsewhere.attempts.during", Unit::Count, Better::Neither, "how many such attempts there were"),
    figure("only_elsewhere.attempts.after", Unit::Count, Better::Neither, "the same after the heal"),
    figure(
        "recall_at_1",
        Unit::Share,
        Better::Higher,
        "of the attempts at a family that somebody anywhere had learnt, those for which a lesson of it came first",
    ),
    figure("recall_at_k", Unit::Share, Better::Higher, "the same for a lesson of it among all that recall showed"),
    figure(
        "unavailability",
        Unit::Share,
        Better::Lower,
        "of all attempts, those at which the memory could not be asked",
    ),
    figure("lessons_not_kept", Unit::Count, Better::Lower, "failures whose lesson could not be kept"),
    figure("served_withdrawn", Unit::Count, Better::Lower, "lessons shown where their withdrawal had arrived"),
    figure(
        "staleness.mean_s",
        Unit::Seconds,
        Better::Lower,
        "from a lesson's teaching, or a later node's coming, until that node holds it",
    ),
    figure("staleness.p50_s", Unit::Seconds, Better::Lower, "the same, median"),
    figure("staleness.p95_s", Unit::Seconds, Better::Lower, "the same, 95 %"),
    figure("staleness.max_s", Unit::Seconds, Better::Lower, "the same, the longest"),
    figure(
        "converge.missing",
        Unit::Count,
        Better::Neither,
        "when the cuts had healed: records that nodes lacked, over all nodes",
    ),
    figure(
        "converge.first_s",
        Unit::Seconds,
        Better::Lower,
        "from the heal until some node held an older record of another site",
    ),
    figure(
        "converge.first_useful_s",
        Unit::Seconds,
        Better::Lower,
        "from the heal until an older lesson of another site kept an agent from failing",
    ),
    figure(
        "converge.all_s",
        Unit::Seconds,
        Better::Lower,
        "from the heal until all nodes held all that was older than it",
    ),
    figure(
        "converge.equal_s",
        Unit::Seconds,
        Better::Lower,
        "from the heal until all nodes were seen with equal roots",
    ),
    figure("converge.left", Unit::Count, Better::Lower, "of what was lacking at the heal, what still is at the end"),
    figure("bytes", Unit::Bytes, Better::Lower, "all that nodes sent"),
    figure("messages", Unit::Count, Better::Lower, "how many messages that was"),
    figure("bytes_per_lesson", Unit::Bytes, Better::Lower, "all bytes, over the lessons that were taught"),
    figure("bytes_per_lesson.data", Unit::Bytes, Better::Lower, "of these, records and bodies"),
    figure("bytes_per_lesson.reconcile", Unit::Bytes, Better::Lower, "of these, finding out what differs"),
    figure("bytes_per_lesson.control", Unit::Bytes, Better::Lower, "of these, everything else"),
    figure(
        "bytes_per_delivery",
        Unit::Bytes,
        Better::Lower,
        "all bytes, over the copies that came to nodes that lacked them",
    ),
    figure("bytes_per_delivery.data", Unit::Bytes, Better::Lower, "of these, records and bodies"),
    figure("bytes_per_delivery.reconcile", Unit::Bytes, Better::Lower, "of these, finding out what differs"),
    figure("bytes_per_delivery.control", Unit::Bytes, Better::Lower, "of these, everything else"),
    figure(
        "duplicates_per_delivery",
        Unit::Ratio,
        Better::Lower,
        "copies that came to nodes that had them, for each that did not",
    ),
    figure("duplicate_bytes", Unit::Bytes, Better::Lower, "bytes of these"),
    figure("hops.mean", Unit::Count, Better::Lower, "links between a lesson's author and a node that holds it"),
    figure("hops.max", Unit::Count, Better::Lower, "the same, the most"),
    figure("lost_messages.cut", Unit::Count, Better::Neither, "messages that a cut kept from arriving"),
    figure("lost_messages.loss", Unit::Count, Better::Neither, "messages that a link lost"),
    figure("lost_messages.queue", Unit::Count, Better::Neither, "messages that a full queue lost"),
    figure(
        "lost_messages.down",
        Unit::Count,
        Better::Neither,
        "messages to a node that was down or no longer connected",
    ),
    figure("set.acknowledged", Unit::Count, Better::Neither, "records acknowledged at honest nodes"),
    figure("set.lost", Unit::Count, Better::Lower, "of these, those that no honest node holds at the end"),
    figure(
        "set.stale",
        Unit::Count,
        Better::Lower,
        "of these, those that some honest nodes hold at the end and some do not",
    ),
    figure(
        "set.never_read",
        Unit::Count,
        Better::Lower,
        "of these, those that no honest node but the author's ever held",
    ),
    figure("refused", Unit::Count, Better::Neither, "hostile records that honest nodes refused"),
    figure(
        "poison.accept_rate",
        Unit::Share,
        Better::Lower,
        "of the answers of recall, those with a poisoned lesson among them",
    ),
    figure("poison.blast_radius", Unit::Share, Better::Lower, "of the honest nodes, those that were ever shown one"),
    figure("poison.held_by", Unit::Share, Better::Lower, "of the honest nodes, those that ever held one"),
];

/// The figure of a name as files and reports write it, with or without a site.
pub fn find(name: &str) -> Option<&'static Figure> {
    let (base, site) = name.split_once('@').map_or((name, None), |(base, site)| (base, Some(site)));
    ALL.iter().find(|figure| figure.name == base && (site.is_none() || figure.by_site))
}
