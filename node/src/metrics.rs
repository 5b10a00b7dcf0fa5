//! What `/metrics` shows: libp2p's series and ours, in the Prometheus text format.
//!
//! Series that count events are counted where these happen; series that show a state (peers, records of each bank, bounds hit)
//! are read when somebody asks. No label comes from a stranger, and each has a bounded number of values: a bank is labelled by
//! its name here and a short hash of its id, of at most [`MAX_BANK_LABELS`] banks, since its id is what lets others read it.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use folklore_protocol::{Admission, BankId, Message};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric, text},
    metrics::{
        MetricType,
        counter::{ConstCounter, Counter},
        family::Family,
        gauge::ConstGauge,
        histogram::Histogram,
    },
    registry::Registry,
};

use crate::induction::Meter;

/// Banks with a label of their own; the records of all others are shown together.
pub const MAX_BANK_LABELS: usize = 32;

/// Bounds of the buckets of a recall, seconds. A local one takes a few milliseconds, one that asks peers up to its deadline.
const RECALL_SECONDS: [f64; 14] =
    [0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.125, 0.25, 0.5, 1.0, 2.0, 5.0];

/// Which way something went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From a peer.
    In,
    /// To a peer.
    Out,
}

impl Direction {
    fn label(self) -> &'static str {
        match self {
            Self::In => "in",
            Self::Out => "out",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
struct MessageLabels {
    direction: &'static str,
    kind: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DirectionLabel {
    direction: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Kind {
    kind: &'static str,
}

/// Ours, to be counted, and libp2p's.
pub struct Metrics {
    registry: Registry,
    libp2p: Arc<libp2p::metrics::Metrics>,
    state: Arc<Mutex<State>>,
    messages: Family<MessageLabels, Counter>,
    message_bytes: Family<MessageLabels, Counter>,
    reconcile_bytes: Family<DirectionLabel, Counter>,
    reconcile_round_trips: Counter,
    sessions: Counter,
    sessions_ended: Family<Kind, Counter>,
    dials_failed: Counter,
    announced: Family<DirectionLabel, Counter>,
    bodies: Family<Kind, Counter>,
    admissions: Family<Kind, Counter>,
    commits: Family<Kind, Counter>,
    recalls: Family<Kind, Histogram>,
    dropped: Counter,
}

/// What is read when somebody asks.
#[derive(Debug, Clone, Default)]
pub struct State {
    /// Peers by state.
    pub peers: BTreeMap<&'static str, u64>,
    /// Sessions by route.
    pub routes: BTreeMap<&'static str, u64>,
    /// Of each bank: its label, records held, records known to be missing.
    pub banks: Vec<(String, u64, u64)>,
    /// How often each bound was hit.
    pub limits: BTreeMap<&'static str, u64>,
    /// Bytes of frames received and sent.
    pub traffic: (u64, u64),
    /// What waits for a model, and what models cost.
    pub induction: Meter,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// All series, at nothing.
    pub fn new() -> Self {
        let mut registry = Registry::default();
        let libp2p = Arc::new(libp2p::metrics::Metrics::new(&mut registry));
        let state: Arc<Mutex<State>> = Arc::default();
        registry.register_collector(Box::new(Collected(state.clone())));
        let ours = registry.sub_registry_with_prefix("folklore");
        let recalls = Family::<Kind, Histogram>::new_with_constructor(|| Histogram::new(RECALL_SECONDS));
        let metrics = Self {
            libp2p,
            state,
            messages: Family::default(),
            message_bytes: Family::default(),
            reconcile_bytes: Family::default(),
            reconcile_round_trips: Counter::default(),
            sessions: Counter::default(),
            sessions_ended: Family::default(),
            dials_failed: Counter::default(),
            announced: Family::default(),
            bodies: Family::default(),
            admissions: Family::default(),
            commits: Family::default(),
            recalls,
            dropped: Counter::default(),
            registry: Registry::default(),
        };
        let m = &metrics;
        ours.register("messages", "Messages exchanged with peers, by kind", m.messages.clone());
        ours.register("message_bytes", "Bytes of those messages", m.message_bytes.clone());
        ours.register("reconcile_bytes", "Bytes spent on finding what differs", m.reconcile_bytes.clone());
        let text = "Answers to what this node asked while finding what differs";
        ours.register("reconcile_round_trips", text, m.reconcile_round_trips.clone());
        ours.register("sessions", "Sessions with peers that came about", m.sessions.clone());
        ours.register("sessions_ended", "Sessions with peers that ended, by why", m.sessions_ended.clone());
        ours.register("dials_failed", "Dials that came to nothing", m.dials_failed.clone());
        let text = "Records announced, whole or by id: out to peers, in from them";
        ours.register("announced_records", text, m.announced.clone());
        let text = "Lesson bodies received from peers: pushed, fetched, or duplicate (of a record that was here)";
        ours.register("bodies_received", text, m.bodies.clone());
        ours.register("admissions", "Records of peers judged by this node, by result", m.admissions.clone());
        ours.register(
            "store_commits",
            "Groups of records made durable: of peers, or this node's own",
            m.commits.clone(),
        );
        ours.register("recall_seconds", "How long a recall took, by scope", m.recalls.clone());
        ours.register(
            "queue_drops",
            "Messages dropped since the queue to the peer was full or gone",
            m.dropped.clone(),
        );
        Self { registry, ..metrics }
    }

    /// Where libp2p's events are counted.
    pub fn libp2p(&self) -> Arc<libp2p::metrics::Metrics> {
        self.libp2p.clone()
    }

    /// Everything, as text; `state` is how things stand now.
    pub fn encode(&self, state: State) -> Result<String, fmt::Error> {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = state;
        let mut out = String::new();
        text::encode(&mut out, &self.registry)?;
        Ok(out)
    }

    /// A message went to a peer, or came from one.
    pub fn message(&self, direction: Direction, message: &Message, bytes: usize) {
        let way = direction.label();
        let labels = MessageLabels { direction: way, kind: message.name() };
        self.messages.get_or_create(&labels).inc();
        self.message_bytes.get_or_create(&labels).inc_by(bytes as u64);
        let announced = match message {
            Message::Push { .. } => 1,
            Message::Have { ids, .. } => ids.len() as u64,
            _ => 0,
        };
        if announced > 0 {
            self.announced.get_or_create(&DirectionLabel { direction: way }).inc_by(announced);
        }
        if is_reconcile(message) {
            self.reconcile_bytes.get_or_create(&DirectionLabel { direction: way }).inc_by(bytes as u64);
        }
        let answer = matches!(message, Message::Sketched { .. } | Message::Probed { .. });
        if answer && direction == Direction::In {
            self.reconcile_round_trips.inc();
        }
        if let (Message::Records { items, .. }, Direction::In) = (message, direction) {
            let bodies = items.iter().filter(|item| item.body.is_some()).count() as u64;
            self.bodies.get_or_create(&Kind { kind: "fetched" }).inc_by(bodies);
        }
    }

    /// A body was pushed here; `duplicate`: of a record that was here already.
    pub fn pushed_body(&self, duplicate: bool) {
        let kind = if duplicate { "duplicate" } else { "pushed" };
        self.bodies.get_or_create(&Kind { kind }).inc();
    }

    /// A session came about.
    pub fn session(&self) {
        self.sessions.inc();
    }

    /// A session ended; `why` is one of a fixed set of words.
    pub fn session_ended(&self, why: &'static str) {
        self.sessions_ended.get_or_create(&Kind { kind: why }).inc();
    }

    /// A dial came to nothing.
    pub fn dial_failed(&self) {
        self.dials_failed.inc();
    }

    /// A message was not queued.
    pub fn dropped(&self) {
        self.dropped.inc();
    }

    /// Records of a peer were judged, and those stored are durable.
    pub fn admitted(&self, results: &[Admission]) {
        for result in results {
            let kind = match result {
                Admission::Stored => "stored",
                Admission::Known => "known",
                Admission::Declined => "declined",
                Admission::Invalid => "invalid",
                Admission::Failed => "failed",
            };
            self.admissions.get_or_create(&Kind { kind }).inc();
        }
        if results.contains(&Admission::Stored) {
            self.commits.get_or_create(&Kind { kind: "peers" }).inc();
        }
    }

    /// Records of this node's own are durable.
    pub fn committed(&self) {
        self.commits.get_or_create(&Kind { kind: "own" }).inc();
    }

    /// A recall was answered.
    pub fn recalled(&self, network: bool, took: Duration) {
        let kind = if network { "network" } else { "local" };
        self.recalls.get_or_create(&Kind { kind }).observe(took.as_secs_f64());
    }
}

/// The label of a bank: its name here, and what tells it from another of that name without giving its id away.
pub fn bank_label(name: &str, id: &BankId) -> String {
    let hash = blake3::derive_key("folklore 2026 metrics label of a bank v1", &id.0);
    format!("{name}-{}", data_encoding::HEXLOWER.encode(&hash[..4]))
}

fn is_reconcile(message: &Message) -> bool {
    matches!(
        message,
        Message::Compare { .. }
            | Message::Sketch { .. }
            | Message::Sketched { .. }
            | Message::Probe { .. }
            | Message::Probed { .. }
            | Message::Offer { .. }
    )
}

/// Encodes the state read last.
#[derive(Debug)]
struct Collected(Arc<Mutex<State>>);

impl Collector for Collected {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut gauges =
            |name: &str, help: &str, label: &'static str, rows: &mut dyn Iterator<Item = (String, u64)>| {
                let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
                for (value, count) in rows {
                    let labels = [(label, value)];
                    let gauge = ConstGauge::new(i64::try_from(count).unwrap_or(i64::MAX));
                    gauge.encode(family.encode_family(&labels)?)?;
                }
                Ok::<(), fmt::Error>(())
            };
        let owned = |map: &BTreeMap<&'static str, u64>| {
            map.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect::<Vec<_>>().into_iter()
        };
        gauges("folklore_peers", "Peers known, by state", "state", &mut owned(&state.peers))?;
        gauges("folklore_routes", "Sessions that stand, by what they go over", "route", &mut owned(&state.routes))?;
        let records = |pick: fn(&(String, u64, u64)) -> u64| {
            state.banks.iter().map(|row| (row.0.clone(), pick(row))).collect::<Vec<_>>().into_iter()
        };
        gauges("folklore_records", "Records held, by bank", "bank", &mut records(|row| row.1))?;
        let help = "Records known to be missing, by bank: to be fetched, or on their way to the store";
        gauges("folklore_records_wanted", help, "bank", &mut records(|row| row.2))?;

        let Meter { waiting, running, failed, resting, calls, tokens, used } = state.induction;
        let named = |rows: &[(&str, u64)]| {
            rows.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect::<Vec<_>>().into_iter()
        };
        let help = "Jobs for a model: waiting, running, or failed and left to a person";
        let states = [("waiting", waiting), ("running", running), ("failed", failed)];
        gauges("folklore_induction_jobs", help, "state", &mut named(&states))?;
        let help = "Calls to models within this hour, and how many are allowed";
        gauges("folklore_induction_hour_calls", help, "kind", &mut named(&[("used", calls.0), ("allowed", calls.1)]))?;
        let help = "Tokens to and from models within this hour, estimated, and how many are allowed";
        gauges(
            "folklore_induction_hour_tokens",
            help,
            "kind",
            &mut named(&[("used", tokens.0), ("allowed", tokens.1)]),
        )?;
        let help = "Model services that are left alone for a while, since they failed";
        let gauge = encoder.encode_descriptor("folklore_induction_resting", help, None, MetricType::Gauge)?;
        ConstGauge::new(i64::try_from(resting).unwrap_or(i64::MAX)).encode(gauge)?;
        for (name, help, count) in [
            ("folklore_induction_calls", "Calls to models since the start", used.calls),
            ("folklore_induction_tokens", "Tokens to and from models since the start, estimated", used.tokens),
        ] {
            let counter = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            ConstCounter::new(count).encode(counter)?;
        }
        let help = "Jobs for a model that ended since the start: done, or failed";
        let mut family = encoder.encode_descriptor("folklore_induction_jobs_ended", help, None, MetricType::Counter)?;
        for (kind, count) in [("done", used.done), ("failed", used.given_up)] {
            ConstCounter::new(count).encode(family.encode_family(&[("kind", kind)])?)?;
        }

        let help = "How often each bound on connections, dials, queues and memory was hit";
        let mut family = encoder.encode_descriptor("folklore_limit_hits", help, None, MetricType::Counter)?;
        for (name, count) in &state.limits {
            ConstCounter::new(*count).encode(family.encode_family(&[("limit", *name)])?)?;
        }
        let help = "Bytes of frames exchanged with all peers";
        let mut family = encoder.encode_descriptor("folklore_frame_bytes", help, None, MetricType::Counter)?;
        for (direction, count) in [("in", state.traffic.0), ("out", state.traffic.1)] {
            ConstCounter::new(count).encode(family.encode_family(&[("direction", direction)])?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use folklore_protocol::{
        Root,
        message::{Item, SketchAnswer},
    };

    use super::*;
    use crate::induction::Used;

    /// Each sample's value by its name and labels.
    fn samples(text: &str) -> BTreeMap<String, f64> {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines
            .map(|line| line.rsplit_once(' ').expect("a sample"))
            .map(|(k, v)| (k.to_owned(), v.parse().unwrap()))
            .collect()
    }

    #[test]
    fn every_series_of_ours_moves_with_what_it_counts() {
        let metrics = Metrics::new();
        let (bank, body) = (BankId([1; 32]), Some(vec![1]));
        let item = || Item { record: vec![1], body: body.clone() };
        let m = &metrics;
        type Act<'a> = Box<dyn Fn() + 'a>;
        let acts: Vec<(&str, Act<'_>)> = vec![
            ("folklore_messages_total{direction=\"out\",kind=\"push\"}", {
                let push = Message::Push { bank, hops: 0, item: item() };
                Box::new(move || m.message(Direction::Out, &push, 100))
            }),
            ("folklore_message_bytes_total{direction=\"in\",kind=\"have\"}", {
                let have = Message::Have { bank, ids: vec![folklore_protocol::RecordId([2; 32])] };
                Box::new(move || m.message(Direction::In, &have, 50))
            }),
            ("folklore_announced_records_total{direction=\"in\"}", {
                let have = Message::Have { bank, ids: vec![folklore_protocol::RecordId([2; 32])] };
                Box::new(move || m.message(Direction::In, &have, 50))
            }),
            ("folklore_reconcile_bytes_total{direction=\"out\"}", {
                let compare = Message::Compare { bank, session: 1, root: Root([0; 32]) };
                Box::new(move || m.message(Direction::Out, &compare, 70))
            }),
            ("folklore_reconcile_round_trips_total", {
                let same = Message::Sketched { bank, session: 1, answer: SketchAnswer::Same };
                Box::new(move || m.message(Direction::In, &same, 40))
            }),
            ("folklore_bodies_received_total{kind=\"fetched\"}", {
                let records =
                    Message::Records { bank, request: 1, items: vec![item()], absent: vec![], unknown: vec![] };
                Box::new(move || m.message(Direction::In, &records, 300))
            }),
            ("folklore_bodies_received_total{kind=\"pushed\"}", Box::new(|| m.pushed_body(false))),
            ("folklore_bodies_received_total{kind=\"duplicate\"}", Box::new(|| m.pushed_body(true))),
            ("folklore_sessions_total", Box::new(|| m.session())),
            ("folklore_sessions_ended_total{kind=\"circuit-ended\"}", Box::new(|| m.session_ended("circuit-ended"))),
            ("folklore_dials_failed_total", Box::new(|| m.dial_failed())),
            ("folklore_queue_drops_total", Box::new(|| m.dropped())),
            ("folklore_admissions_total{kind=\"declined\"}", Box::new(|| m.admitted(&[Admission::Declined]))),
            ("folklore_admissions_total{kind=\"stored\"}", Box::new(|| m.admitted(&[Admission::Stored]))),
            ("folklore_store_commits_total{kind=\"peers\"}", Box::new(|| m.admitted(&[Admission::Stored]))),
            ("folklore_store_commits_total{kind=\"own\"}", Box::new(|| m.committed())),
            ("folklore_recall_seconds_count{kind=\"local\"}", {
                Box::new(|| m.recalled(false, Duration::from_millis(3)))
            }),
        ];
        for (series, act) in &acts {
            let before = samples(&metrics.encode(State::default()).unwrap()).get(*series).copied().unwrap_or(0.0);
            act();
            let after = samples(&metrics.encode(State::default()).unwrap()).get(*series).copied();
            assert!(after.is_some_and(|after| after > before), "{series}: {before} then {after:?}");
        }
        // Every family that is registered is among them.
        let text = metrics.encode(State::default()).unwrap();
        let families =
            text.lines().filter_map(|l| l.strip_prefix("# TYPE folklore_")).filter_map(|l| l.split(' ').next());
        let of_state = ["peers", "routes", "records", "records_wanted", "limit_hits", "frame_bytes"];
        for family in families.filter(|f| !of_state.contains(f) && !f.starts_with("induction_")) {
            assert!(acts.iter().any(|(series, _)| series.starts_with(&format!("folklore_{family}"))), "{family}");
        }
    }

    #[test]
    fn the_state_is_shown_as_it_was_given() {
        let state = State {
            peers: [("connected", 2), ("away", 1)].into(),
            routes: [("relayed", 1)].into(),
            banks: vec![("home-01020304".into(), 12, 3)],
            limits: [("memory", 4)].into(),
            traffic: (1000, 2000),
            induction: Meter {
                waiting: 3,
                running: 2,
                failed: 1,
                resting: 1,
                calls: (7, 100),
                tokens: (800, 9000),
                used: Used { calls: 17, tokens: 1800, done: 5, given_up: 6 },
            },
        };
        let samples = samples(&Metrics::new().encode(state).unwrap());
        for (series, value) in [
            ("folklore_peers{state=\"connected\"}", 2.0),
            ("folklore_peers{state=\"away\"}", 1.0),
            ("folklore_routes{route=\"relayed\"}", 1.0),
            ("folklore_records{bank=\"home-01020304\"}", 12.0),
            ("folklore_records_wanted{bank=\"home-01020304\"}", 3.0),
            ("folklore_limit_hits_total{limit=\"memory\"}", 4.0),
            ("folklore_frame_bytes_total{direction=\"out\"}", 2000.0),
            ("folklore_induction_jobs{state=\"waiting\"}", 3.0),
            ("folklore_induction_jobs{state=\"running\"}", 2.0),
            ("folklore_induction_jobs{state=\"failed\"}", 1.0),
            ("folklore_induction_resting", 1.0),
            ("folklore_induction_hour_calls{kind=\"used\"}", 7.0),
            ("folklore_induction_hour_calls{kind=\"allowed\"}", 100.0),
            ("folklore_induction_hour_tokens{kind=\"used\"}", 800.0),
            ("folklore_induction_hour_tokens{kind=\"allowed\"}", 9000.0),
            ("folklore_induction_calls_total", 17.0),
            ("folklore_induction_tokens_total", 1800.0),
            ("folklore_induction_jobs_ended_total{kind=\"done\"}", 5.0),
            ("folklore_induction_jobs_ended_total{kind=\"failed\"}", 6.0),
        ] {
            assert_eq!(samples.get(series), Some(&value), "{series}: {samples:?}");
        }
    }

    #[test]
    fn a_bank_is_labelled_without_its_id() {
        let (one, two) = (BankId([1; 32]), BankId([2; 32]));
        let label = bank_label("home", &one);
        assert_ne!(label, bank_label("home", &two));
        assert!(label.starts_with("home-") && label.len() == "home-".len() + 8);
        assert!(!label.contains(&one.to_string()[..8]));
    }
}
