//! What Folklore nodes say to each other: lessons, claims, records, and the state machine of a node.
//!
//! # The contract
//!
//! [`Node`] does no I/O, reads no clock and draws no randomness but from the seed it was given. Whoever runs it, the daemon
//! on sockets or the simulator on virtual time, holds to this:
//!
//! 1. After **every** [`Node::handle`], drain [`Node::next_effect`] until it gives `None`.
//! 2. Come back with [`Event::Tick`] when [`Node::next_deadline`] has come. Time never goes back.
//! 3. Answer every [`Effect::Admit`], [`Effect::Load`], [`Effect::Search`] and [`Effect::Suggest`] once, by the event with its ticket, in any
//!    order and whenever it is ready. `Stored` means durable.
//! 4. [`Effect::Send`] may be lost; everything that matters has a timeout or is found again by reconcile.
//!
//! ```
//! use folklore_protocol::{Claim, Config, Effect, Event, Evidence, Keypair, Lesson, LessonDraft, LessonKind, Node, Record, Time, BankId};
//!
//! let key = Keypair::from_seed(&[1; 32]);
//! let bank = BankId::new(&key.author(), &[9; 16], "home");
//! let mut node = Node::new(key.author(), Config::default(), [7; 32]);
//! node.handle(Event::BankOpened { bank, held: vec![] }, Time(0));
//!
//! let lesson = Lesson::new(LessonDraft {
//!     kind: LessonKind::Pitfall,
//!     title: "Do not cancel before the refund is booked".into(),
//!     applies_when: "an order is paid".into(),
//!     not_when: String::new(),
//!     content: "Cancelling first loses the payment reference [step 4].".into(),
//!     task: "refund a paid order".into(),
//!     domain: "retail".into(),
//!     tags: vec![],
//! })?;
//! let claim = Claim::Taught { lesson_id: lesson.id(), evidence: Evidence::told("person") };
//! let record = Record::sign(&key, bank, 1, 0, claim)?;
//! // ... stored and synced here, then:
//! node.handle(Event::Published { bank, items: vec![(record, Some(lesson.bytes().clone()))] }, Time(5));
//!
//! while let Some(effect) = node.next_effect() {
//!     match effect {
//!         Effect::Send { .. } | Effect::Dial { .. } => { /* the network's part */ }
//!         Effect::Admit { .. } | Effect::Load { .. } | Effect::Search { .. } | Effect::Suggest { .. } => {
//!             /* the store's part */
//!         }
//!         Effect::Disconnect { .. } | Effect::Answered { .. } => {}
//!         // Nobody begins a run.
//!         Effect::RunHeard { .. } | Effect::StoreSteps { .. } | Effect::LoadSteps { .. } => {}
//!     }
//! }
//! assert_eq!(node.held_len(&bank), 1);
//! assert_eq!(node.next_deadline(), None); // nobody to talk to yet
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod admission;
mod ask;
pub mod bank;
pub mod canonical;
pub mod claim;
pub mod config;
pub mod event;
mod fetch;
mod gossip;
mod greeting;
pub mod identity;
pub mod known;
pub mod lesson;
pub mod message;
pub mod node;
pub mod peers;
mod reconcile;
pub mod record;
pub mod run_log;
mod suggest;
pub mod tally;
pub mod time;

pub use bank::{Access, BankId, Policy, Principal};
pub use claim::{Claim, Evidence, Outcome, RunDigest, Verdict};
pub use config::{Config, DIAL_TIMEOUT_MS, PING_INTERVAL_MS, PING_TIMEOUT_MS, SILENCE_CHECK_MS};
pub use event::{Admission, Answer, Effect, Event, Incoming, Ticket};
pub use identity::{AuthorId, Keypair, Keys};
pub use known::{Known, Root};
pub use lesson::{Lesson, LessonDraft, LessonError, LessonId, LessonKind};
pub use message::{Item, Message};
pub use node::{Backlog, Node};
pub use peers::{DialTarget, Peer, Peers};
pub use record::{Record, RecordError, RecordId, UnverifiedRecord};
pub use tally::{LocalPolicy, Standing, State, Tally};
pub use time::Time;
