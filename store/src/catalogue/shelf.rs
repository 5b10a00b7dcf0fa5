//! What the catalogue keeps in memory of each lesson and each bank, and how records change it.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet, HashMap},
};

use folklore_protocol::{AuthorId, BankId, Lesson, LessonId, LessonKind, Record, RecordId, State, Tally};

use super::{Wish, said::Kept, secret_in, stored::StoredClaims, task_key};
use crate::{
    bank::{BankInfo, Store},
    index::SlotSet,
    recall::Ranker,
};

pub(super) struct Inner {
    pub ranker: Ranker,
    /// By slot of the ranker. A slot is never given out again.
    pub entries: Vec<Entry>,
    pub by_id: Ids,
    pub shelves: Vec<Shelf>,
    shelf_of: BTreeMap<BankId, u16>,
    /// Slots that some bank shows.
    pub shown: SlotSet,
    /// Slots of each kind, by its place in [`LessonKind::ALL`].
    kinds: [SlotSet; LessonKind::ALL.len()],
    domains: Domains,
    rules: Vec<&'static str>,
    /// Records about lessons that were read from the file, by slot.
    pub stored: StoredClaims,
    /// Slots that wait for their vectors in the second space, if there is one.
    pub waiting: Option<BTreeSet<u32>>,
    /// What was read from disk of how lessons stand.
    pub said: Kept,
}

/// A lesson, its text aside.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub id: LessonId,
    /// Which task it was learned from; see [`task_key`].
    pub task: u64,
    /// By number.
    pub domain: u32,
    /// The number of the redaction rule that its text breaks, plus 1; 0 if none.
    pub secret: u16,
    pub kind: LessonKind,
    /// Forgotten: the slot is empty.
    pub gone: bool,
    /// How each bank that speaks of it takes it. Most lessons are in one bank.
    pub view: Option<View>,
    pub more_views: Vec<View>,
}

impl Entry {
    pub fn views(&self) -> impl Iterator<Item = &View> {
        self.view.iter().chain(&self.more_views)
    }

    pub(super) fn set_view(&mut self, shelf: u16, view: Option<View>) {
        let mut views: Vec<View> = self.views().copied().filter(|v| v.shelf != shelf).chain(view).collect();
        self.view = if views.is_empty() { None } else { Some(views.remove(0)) };
        self.more_views = views;
    }
}

/// How a bank takes a lesson.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct View {
    pub shelf: u16,
    pub state: State,
    /// Multiplies its score; 0 where it is not to be shown.
    pub weight: f32,
}

/// What is known of a bank.
pub(super) struct Shelf {
    pub info: BankInfo,
    /// Of all records about the bank, and of those about lessons that [it speaks of](Tally::speaks_of): all of them or none.
    pub tally: Tally,
    /// Records about each lesson that are not in the file, by author and number.
    pub claims: BTreeMap<LessonId, BTreeSet<ClaimKey>>,
    /// Records about the bank itself.
    pub ruling: BTreeSet<RecordId>,
    /// Goes up whenever the policy in force or a revocation may have changed.
    pub edition: u64,
    /// Slots that it shows.
    shown: SlotSet,
    /// Records known, those in the file included.
    pub records: usize,
}

/// Where a record stands among those about its lesson: the first 8 bytes of its author, its number, its id.
pub(super) type ClaimKey = (u64, u64, RecordId);

pub(super) fn author_prefix(author: &AuthorId) -> u64 {
    u64::from_be_bytes(author.0.first_chunk().copied().unwrap_or_default())
}

fn claim_key(record: &Record) -> ClaimKey {
    (author_prefix(&record.author()), record.seq(), record.id())
}

/// Slots by id: those that were read from the file in order, and the others in a map.
#[derive(Debug, Default)]
pub(super) struct Ids {
    sorted: Vec<u32>,
    recent: BTreeMap<LessonId, u32>,
}

impl Ids {
    /// The slots of the file, ascending by id.
    pub fn new(sorted: Vec<u32>) -> Self {
        Ids { sorted, recent: BTreeMap::new() }
    }

    pub fn get(&self, id: &LessonId, entries: &[Entry]) -> Option<u32> {
        if let Some(slot) = self.recent.get(id) {
            return Some(*slot);
        }
        let of = |slot: &u32| entries.get(*slot as usize).map(|entry| entry.id);
        let at = self.sorted.binary_search_by(|slot| of(slot).as_ref().cmp(&Some(id))).ok()?;
        self.sorted.get(at).copied().filter(|slot| entries.get(*slot as usize).is_some_and(|entry| !entry.gone))
    }

    /// Slots that were read from the file.
    pub fn stored(&self) -> usize {
        self.sorted.len()
    }

    pub fn insert(&mut self, id: LessonId, slot: u32) {
        self.recent.insert(id, slot);
    }

    /// Takes an id out; an entry of the file must be marked as gone beside.
    pub fn remove(&mut self, id: &LessonId) {
        self.recent.remove(id);
    }

    /// All slots, ascending by id.
    pub fn ascending<'a>(&'a self, entries: &'a [Entry]) -> impl Iterator<Item = u32> + 'a {
        let id = |slot: u32| entries.get(slot as usize).map(|entry| entry.id);
        let live = |slot: &u32| entries.get(*slot as usize).is_some_and(|entry| !entry.gone);
        let mut sorted = self.sorted.iter().copied().filter(live).peekable();
        let mut recent = self.recent.values().copied().peekable();
        std::iter::from_fn(move || match (sorted.peek(), recent.peek()) {
            (Some(a), Some(b)) if id(*b) < id(*a) => recent.next(),
            (None, _) => recent.next(),
            (Some(_), _) => sorted.next(),
        })
    }
}

/// Domains by number, and the slots of each. Lists and no sets of bits, since strangers may name any number of domains.
#[derive(Debug, Default)]
struct Domains {
    names: Vec<Box<str>>,
    numbers: HashMap<Box<str>, u32>,
    slots: Vec<Vec<u32>>,
}

impl Domains {
    fn number(&mut self, name: &str) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = self.names.len() as u32;
        self.names.push(name.into());
        self.numbers.insert(name.into(), number);
        self.slots.push(Vec::new());
        number
    }
}

impl Inner {
    pub fn new(ranker: Ranker) -> Self {
        Self {
            ranker,
            entries: Vec::new(),
            by_id: Ids::default(),
            shelves: Vec::new(),
            shelf_of: BTreeMap::new(),
            shown: SlotSet::default(),
            kinds: Default::default(),
            domains: Domains::default(),
            rules: Vec::new(),
            stored: StoredClaims::default(),
            waiting: None,
            said: Kept::default(),
        }
    }

    pub fn open_bank(&mut self, info: BankInfo) {
        let Ok(number) = u16::try_from(self.shelves.len()) else { return };
        if let std::collections::btree_map::Entry::Vacant(vacant) = self.shelf_of.entry(info.id) {
            vacant.insert(number);
            self.shelves.push(Shelf {
                tally: Tally::new(info.owner),
                info,
                claims: BTreeMap::new(),
                ruling: BTreeSet::new(),
                edition: 0,
                shown: SlotSet::default(),
                records: 0,
            });
        }
    }

    /// The banks, ascending by id.
    pub fn banks(&self) -> impl Iterator<Item = (u16, &Shelf)> {
        self.shelf_of.values().filter_map(|number| Some((*number, self.shelves.get(usize::from(*number))?)))
    }

    pub fn number(&self, bank: &BankId) -> Option<u16> {
        self.shelf_of.get(bank).copied()
    }

    pub fn shelf(&self, bank: &BankId) -> Option<&Shelf> {
        self.shelves.get(usize::from(self.number(bank)?))
    }

    /// The slot of a lesson whose text is here.
    pub fn slot(&self, id: &LessonId) -> Option<u32> {
        self.by_id.get(id, &self.entries)
    }

    pub fn entry(&self, id: &LessonId) -> Option<&Entry> {
        self.entries.get(self.slot(id)? as usize)
    }

    /// The redaction rule that keeps a lesson back.
    pub fn secret(&self, entry: &Entry) -> Option<&'static str> {
        self.rules.get(usize::from(entry.secret).checked_sub(1)?).copied()
    }

    /// The rules that some lesson breaks, in the order of their numbers.
    pub fn rules_broken(&self) -> &[&'static str] {
        &self.rules
    }

    /// The domains, in the order of their numbers.
    pub fn domains(&self) -> &[Box<str>] {
        &self.domains.names
    }

    pub fn domain(&self, entry: &Entry) -> &str {
        self.domains.names.get(entry.domain as usize).map_or("", |name| name)
    }

    /// The number of a domain, given out at first sight.
    pub fn domain_number(&mut self, name: &str) -> u32 {
        self.domains.number(name)
    }

    /// The number of a rule plus 1, given out at first sight.
    pub fn rule_number(&mut self, rule: &'static str) -> u16 {
        let known = self.rules.iter().position(|known| *known == rule);
        let at = known.unwrap_or_else(|| {
            self.rules.push(rule);
            self.rules.len() - 1
        });
        // There are some hundred rules.
        u16::try_from(at + 1).unwrap_or(u16::MAX)
    }

    /// Puts an entry, whose words the ranker has or gets, under the next slot.
    pub fn push(&mut self, entry: Entry) {
        let Ok(slot) = u32::try_from(self.entries.len()) else { return };
        if let Some(kind) = self.kinds.get_mut(place(entry.kind)) {
            kind.insert(slot);
        }
        if let Some(slots) = self.domains.slots.get_mut(entry.domain as usize) {
            slots.push(slot);
        }
        self.entries.push(entry);
        self.show(slot);
    }

    /// Brings the sets of shown slots up to what an entry says.
    pub(super) fn show(&mut self, slot: u32) {
        let Some(entry) = self.entries.get(slot as usize) else { return };
        let mut anywhere = false;
        for (number, shelf) in (0u16..).zip(&mut self.shelves) {
            let shown = entry.views().any(|view| view.shelf == number && view.weight > 0.0);
            anywhere |= shown;
            if shown {
                shelf.shown.insert(slot);
            } else {
                shelf.shown.remove(slot);
            }
        }
        if anywhere {
            self.shown.insert(slot);
        } else {
            self.shown.remove(slot);
        }
    }

    /// Whether any lesson is of this kind.
    pub fn has(&self, kind: LessonKind) -> bool {
        self.kinds.get(place(kind)).is_some_and(|slots| !slots.is_empty())
    }

    /// The slots of some kinds, shown or not.
    pub fn of_kinds(&self, kinds: &[LessonKind]) -> SlotSet {
        let mut all = SlotSet::default();
        kinds.iter().filter_map(|kind| self.kinds.get(place(*kind))).for_each(|slots| all.add(slots));
        all
    }

    /// The slots that may be answered to a wish.
    pub fn open(&self, wish: &Wish, excluded: &BTreeSet<u64>) -> Cow<'_, SlotSet> {
        let of_bank = match &wish.bank {
            None => Some(&self.shown),
            Some(bank) => self.shelf(bank).map(|shelf| &shelf.shown),
        };
        let Some(of_bank) = of_bank else { return Cow::Owned(SlotSet::default()) };
        if wish.kinds.is_empty() && wish.domain.is_none() && excluded.is_empty() && wish.exclude.is_empty() {
            return Cow::Borrowed(of_bank);
        }
        let mut open = match &wish.domain {
            None => of_bank.clone(),
            Some(domain) => {
                let number = self.domains.numbers.get(domain.as_str());
                let slots = number.and_then(|number| self.domains.slots.get(*number as usize));
                slots.into_iter().flatten().copied().filter(|slot| of_bank.contains(*slot)).collect()
            }
        };
        if !wish.kinds.is_empty() {
            open.keep(&self.of_kinds(&wish.kinds));
        }
        if !excluded.is_empty() {
            let is_excluded =
                |slot: &u32| self.entries.get(*slot as usize).is_some_and(|entry| excluded.contains(&entry.task));
            let out: Vec<u32> = open.iter().filter(is_excluded).collect();
            out.into_iter().for_each(|slot| {
                open.remove(slot);
            });
        }
        for slot in wish.exclude.iter().filter_map(|id| self.slot(id)) {
            open.remove(slot);
        }
        Cow::Owned(open)
    }

    pub fn is_spoken_of(&self, id: &LessonId) -> bool {
        self.slot(id).is_some() || self.shelves.iter().any(|s| s.claims.contains_key(id))
    }

    /// Takes in the text of a lesson; false if it is here already. Every bank that speaks of it is to be
    /// [refreshed](Inner::refresh) then.
    pub fn add_lesson(&mut self, lesson: &Lesson) -> bool {
        if self.slot(&lesson.id()).is_some() {
            return false;
        }
        let Ok(slot) = u32::try_from(self.entries.len()) else { return false };
        // The built-in embedder cannot fail; one that does leaves the lesson to be found by its words.
        if let Err(error) = self.ranker.add_lesson(slot, &lesson.id().0, &lesson.task, &lesson.text()) {
            tracing::warn!(%error, lesson = %lesson.id(), "a lesson is indexed by its words only");
        }
        self.by_id.insert(lesson.id(), slot);
        let secret = secret_in(lesson).map_or(0, |rule| self.rule_number(rule));
        if let Some(waiting) = self.waiting.as_mut().filter(|_| secret == 0) {
            waiting.insert(slot);
        }
        let domain = self.domain_number(&lesson.domain);
        self.push(Entry {
            id: lesson.id(),
            task: task_key(&lesson.task),
            domain,
            secret,
            kind: lesson.kind,
            gone: false,
            view: None,
            more_views: Vec::new(),
        });
        true
    }

    /// Makes the vectors of a lesson that came out of the file and has none on disk.
    pub fn embed(&mut self, store: &Store, slot: u32) {
        let lesson = self.entries.get(slot as usize).and_then(|entry| store.lesson(&entry.id).ok().flatten());
        let Some(lesson) = lesson else { return };
        if let Err(error) = self.ranker.embed(slot, &lesson.id().0, &lesson.task, &lesson.text()) {
            tracing::warn!(%error, lesson = %lesson.id(), "a lesson is indexed by its words only");
        }
    }

    /// Folds a record in; the lesson it is about, or `None` for one about the bank.
    pub fn apply(&mut self, store: &Store, record: &Record) -> Option<LessonId> {
        let number = self.number(&record.bank())?;
        let about = record.claim().lesson_id();
        let (mut known, mut whole) = (false, true);
        if let Some(id) = &about {
            // All of them or none: where one cannot be read the others are no meaning.
            whole = self.read_claims(store, number, id);
            known = self.slot(id).is_some_and(|slot| self.stored.has(slot, number, &claim_key(record)));
            self.said.drop_one(number, id);
        }
        let shelf = self.shelves.get_mut(usize::from(number))?;
        if whole {
            shelf.tally.apply(record);
        }
        let new = match about {
            None => shelf.ruling.insert(record.id()),
            Some(id) => !known && shelf.claims.entry(id).or_default().insert(claim_key(record)),
        };
        shelf.records += usize::from(new);
        about
    }

    /// Takes a lesson's text out of everything but its vectors' bytes; what records say of it stays. False if it is not here.
    pub fn forget(&mut self, id: &LessonId) -> bool {
        let Some(slot) = self.slot(id) else { return false };
        let claims: Vec<(u16, Vec<ClaimKey>)> =
            (0..self.shelves.len() as u16).map(|number| (number, self.claims_of(number, id))).collect();
        self.ranker.remove(slot);
        if let Some(entry) = self.entries.get_mut(slot as usize) {
            (entry.gone, entry.view, entry.more_views) = (true, None, Vec::new());
            if let Some(kind) = self.kinds.get_mut(place(entry.kind)) {
                kind.remove(slot);
            }
            if let Some(slots) = self.domains.slots.get_mut(entry.domain as usize) {
                slots.retain(|other| *other != slot);
            }
        }
        self.by_id.remove(id);
        self.show(slot);
        if let Some(waiting) = &mut self.waiting {
            waiting.remove(&slot);
        }
        // They are no longer found by the slot.
        for (number, keys) in claims {
            if let Some(shelf) = self.shelves.get_mut(usize::from(number))
                && !keys.is_empty()
            {
                shelf.claims.entry(*id).or_default().extend(keys);
            }
        }
        true
    }
}

/// The place of a kind in [`LessonKind::ALL`].
pub(super) fn place(kind: LessonKind) -> usize {
    LessonKind::ALL.iter().position(|other| *other == kind).unwrap_or_default()
}
