//! One step of a world: what comes next happens, the state machine it happens to is asked what it does about it, and that is
//! carried out.

use std::cmp::Reverse;

use folklore_protocol::{Admission, AuthorId, BankId, Effect, Event, Item, Message, RecordId, Ticket, Time};

use crate::{
    disk::item_of,
    fact::Fact,
    heap::{Admitting, Entry, Happening, Reading},
    link::Passage,
    observe::LossCause,
    plant,
    world::World,
};

impl World {
    pub(crate) fn step(&mut self) {
        let Some(Reverse(Entry { at_ms, sequence, happening })) = self.heap.pop() else { return };
        self.now_ms = at_ms;
        if let Some(until) = happening.node().and_then(|node| self.nodes[node].paused_until)
            && at_ms < until
        {
            // Its clock rings when it goes on, and no earlier wake-up stands in the way of the next.
            if let Happening::Wake { node, .. } = happening
                && let wake_at = &mut self.nodes[node as usize].wake_at
                && *wake_at == Some(at_ms)
            {
                *wake_at = Some(until);
            }
            // It keeps its place among what waits: sequence numbers only grow.
            self.schedule_at(until, happening);
            return;
        }
        self.log.note(&[at_ms, sequence, happening.mark()]);
        match happening {
            Happening::Deliver { from, to, slot, connection, message } => {
                self.deliver(from as usize, to as usize, (slot, connection), message);
            }
            happening @ (Happening::Knock { .. }
            | Happening::DialEnds { .. }
            | Happening::DialFails { .. }
            | Happening::Accepted { .. }
            | Happening::Hangup { .. }
            | Happening::Silence { .. }
            | Happening::GoesOn { .. }) => self.carry_on(happening),
            Happening::Admit { node, life, admitting } => {
                let n = node as usize;
                if self.lives(node, life) {
                    self.admit(n, *admitting);
                } else if self.nodes[n].settles == Some(life) {
                    self.nodes[n].disk.admit(&mut self.library, admitting.bank, admitting.items);
                }
            }
            Happening::Read { node, life, ticket, reading } => {
                if self.lives(node, life) {
                    let (bank, reading) = *reading;
                    self.read(node as usize, ticket, bank, reading);
                }
            }
            Happening::Write { node, life, write } => {
                let (bank, items) = *write;
                if self.lives(node, life) {
                    self.commit(node as usize, bank, items);
                } else {
                    let n = node as usize;
                    // A process that dies leaves to its disk what it had handed over; nobody was told.
                    if self.nodes[n].settles == Some(life) && self.nodes[n].disk.write(&mut self.library, bank, &items)
                    {
                        return;
                    }
                    for (record, _) in items {
                        self.tell(Fact::Refused { at_ms, node: n, id: record.id() });
                    }
                }
            }
            Happening::Wake { node, life } => {
                let n = node as usize;
                if self.lives(node, life) && self.nodes[n].wake_at == Some(at_ms) {
                    self.nodes[n].wake_at = None;
                    let local = self.nodes[n].clock.local(at_ms);
                    if self.nodes[n].node.next_deadline().is_some_and(|due| due.0 <= local) {
                        self.counters.handled_timers += 1;
                        self.handle(n, Event::Tick);
                    } else {
                        // What it was to be woken for is done with.
                        self.arm(n);
                    }
                }
            }
            Happening::Attack { node, life } => {
                if self.lives(node, life) {
                    self.attack(node as usize);
                }
            }
            Happening::Call(number) => self.called = Some(number),
        }
    }

    fn deliver(&mut self, from: usize, to: usize, (slot, connection): (u32, u64), message: Box<Message>) {
        let at_ms = self.now_ms;
        if !self.connections.get(slot, connection).is_some_and(|c| c.is_up(to)) {
            self.counters.lost += 1;
            self.tell(Fact::Lost { at_ms, from, to, cause: LossCause::Down });
            return;
        }
        let passage = self.links.passage(from, to);
        if passage != Passage::Open {
            self.stopped(passage, Happening::Deliver { from: from as u32, to: to as u32, slot, connection, message });
            return;
        }
        if let Some((left, (a, b))) = self.cut_after {
            self.cut_after = left.checked_sub(1).map(|left| (left, (a, b)));
            if left == 0 {
                self.cut_link(a, b);
                let (from, to) = (from as u32, to as u32);
                self.stopped(Passage::Cut, Happening::Deliver { from, to, slot, connection, message });
                return;
            }
        }
        if let Some(connection) = self.connections.get_mut(slot, connection) {
            connection.hears(to, at_ms);
        }
        self.counters.record_copies += copies(&message) as u64;
        if self.config.keeps_account {
            self.note_request(from, to, connection, &message);
        }
        if self.config.tells_facts {
            self.tell(Fact::Arrived { at_ms, from, to, kind: message.name(), bytes: message.encoded_len() });
            self.tell_duplicates(to, &message);
        }
        if self.nodes[to].hostile.is_some() {
            self.overhear(to, &message);
        }
        self.counters.handled_messages += 1;
        let peer = self.author(from);
        self.handle(to, Event::Received { peer, message: *message });
    }

    fn tell_duplicates(&mut self, to: usize, message: &Message) {
        let (items, bank): (&[Item], _) = match message {
            Message::Push { bank, item, .. } => (std::slice::from_ref(item), bank),
            Message::Records { bank, items, .. } => (items, bank),
            _ => return,
        };
        let at_ms = self.now_ms;
        for item in items {
            let number = self.library.by_signature(&item.record);
            if number.is_some_and(|n| self.nodes[to].disk.numbers(bank).is_some_and(|held| held.contains(n))) {
                self.tell(Fact::Duplicate { at_ms, node: to, bytes: item.len() });
            }
        }
    }

    fn admit(&mut self, n: usize, admitting: Admitting) {
        let Admitting { ticket, bank, items } = admitting;
        let ids: Vec<RecordId> = items.iter().map(|item| item.record.id()).collect();
        let results = self.nodes[n].disk.admit(&mut self.library, bank, items);
        let at_ms = self.now_ms;
        if self.config.keeps_account {
            for (id, _) in ids.iter().zip(&results).filter(|(_, result)| **result == Admission::Stored) {
                self.nodes[n].since.entry((bank, *id)).or_insert(at_ms);
            }
        }
        if self.config.tells_facts {
            let came = self.nodes[n].node.admitting(ticket);
            for (at, (id, result)) in ids.iter().zip(&results).enumerate() {
                let (from, hops) = came
                    .as_ref()
                    .map_or((None, None), |(from, hops)| (self.number_of(from), hops.get(at).copied().flatten()));
                let Some(from) = from else { continue };
                match result {
                    Admission::Stored => self.tell(Fact::Stored { at_ms, node: n, from, id: *id, hops }),
                    Admission::Invalid => self.tell(Fact::Invalid { at_ms, node: n, from }),
                    _ => {}
                }
            }
        }
        self.handle(n, Event::Admitted { ticket, results });
    }

    fn read(&mut self, n: usize, ticket: Ticket, bank: BankId, reading: Reading) {
        let (disk, library) = (&self.nodes[n].disk, &self.library);
        let event = match reading {
            Reading::Load { ids, budget_bytes } => {
                let (items, absent) = disk.load(library, &bank, &ids, budget_bytes);
                Event::Loaded { ticket, items, absent }
            }
            Reading::Search { query, hits } => {
                let found = disk.search(library, &bank, &query, hits as usize);
                Event::Found { ticket, items: found.iter().map(item_of).collect() }
            }
            Reading::Suggest { near, from, count } => {
                Event::Suggested { ticket, ids: disk.suggest(library, &bank, &near, from, count) }
            }
        };
        self.handle(n, event);
    }

    /// Keeps account of requests: what came to `to`, or that what it is owed came.
    fn note_request(&mut self, from: usize, to: usize, connection: u64, message: &Message) {
        let asked = |what, number| (from, to, what, number);
        let answered = |what, number| (to, from, what, number);
        let (now_ms, open) = (self.now_ms, &mut self.open);
        match message {
            Message::Fetch { request, .. } => drop(open.insert(asked("fetch", *request), (now_ms, connection))),
            Message::Ask { request, .. } => drop(open.insert(asked("ask", *request), (now_ms, connection))),
            Message::Probe { session, .. } => drop(open.insert(asked("probe", *session), (now_ms, connection))),
            Message::Compare { session, .. } | Message::Sketch { session, last: true, .. } => {
                open.insert(asked("sketch", *session), (now_ms, connection));
            }
            Message::Suggest { request, .. } => drop(open.insert(asked("suggest", *request), (now_ms, connection))),
            Message::Suggested { request, .. } => drop(open.remove(&answered("suggest", *request))),
            Message::Busy { request, .. } => {
                for what in ["fetch", "ask", "suggest"] {
                    open.remove(&answered(what, *request));
                }
            }
            Message::Records { request, .. } => drop(open.remove(&answered("fetch", *request))),
            Message::Answer { request, .. } => drop(open.remove(&answered("ask", *request))),
            Message::Probed { session, .. } => drop(open.remove(&answered("probe", *session))),
            Message::Sketched { session, .. } => drop(open.remove(&answered("sketch", *session))),
            // It may be about any of them.
            Message::Refusal { .. } => open.retain(|(asker, other, ..), _| (*asker, *other) != (to, from)),
            _ => {}
        }
    }

    pub(crate) fn forget_requests(&mut self, a: usize, b: usize) {
        if !self.open.is_empty() {
            self.open.retain(|(asker, asked, ..), _| (*asker, *asked) != (a, b) && (*asker, *asked) != (b, a));
        }
    }

    pub(crate) fn lives(&self, node: u32, life: u32) -> bool {
        let node = &self.nodes[node as usize];
        node.up && node.life == life
    }

    pub(crate) fn schedule(&mut self, in_ms: u64, happening: Happening) {
        self.schedule_at(self.now_ms + in_ms, happening);
    }

    pub(crate) fn schedule_at(&mut self, at_ms: u64, happening: Happening) {
        self.sequence += 1;
        self.heap.push(Reverse(Entry { at_ms, sequence: self.sequence, happening }));
    }

    pub(crate) fn handle(&mut self, n: usize, event: Event) {
        if !self.nodes[n].up {
            return;
        }
        let now = Time(self.nodes[n].clock.local(self.now_ms));
        self.nodes[n].node.handle(event, now);
        while let Some(effect) = self.nodes[n].node.next_effect() {
            self.carry_out(n, effect);
        }
        self.arm(n);
    }

    /// Sees to it that node `n` is woken at its next deadline.
    fn arm(&mut self, n: usize) {
        let node = &mut self.nodes[n];
        let Some(deadline) = node.node.next_deadline() else { return };
        let at = node.clock.true_at(deadline.0, self.now_ms);
        if node.wake_at.is_none_or(|wake| at < wake) {
            node.wake_at = Some(at);
            let life = node.life;
            self.schedule_at(at, Happening::Wake { node: n as u32, life });
        }
    }

    fn carry_out(&mut self, n: usize, effect: Effect) {
        let (node, life) = (n as u32, self.nodes[n].life);
        let read = |ticket, bank, reading| Happening::Read { node, life, ticket, reading: Box::new((bank, reading)) };
        match effect {
            Effect::Send { peer, message } => self.send(n, peer, message),
            Effect::Dial { addresses, .. } => {
                let to = addresses.iter().find_map(|a| a.strip_prefix("sim/")?.parse::<usize>().ok());
                if let Some(to) = to.filter(|to| *to < self.nodes.len()) {
                    self.knock((n, to), life, 0, self.now_ms);
                }
            }
            Effect::Disconnect { peer, .. } => {
                if let Some(slot) = self.number_of(&peer).and_then(|other| self.connections.between(n, other))
                    && let Some(connection) = self.connections.number(slot)
                {
                    self.let_go(n, slot, connection);
                }
            }
            Effect::Admit { ticket, bank, items } => {
                let sync_ms = self.nodes[n].disk.faults.sync_ms;
                let admitting = Box::new(Admitting { ticket, bank, items });
                self.schedule(sync_ms, Happening::Admit { node, life, admitting });
            }
            Effect::Load { ticket, bank, ids, budget_bytes } => {
                self.schedule(0, read(ticket, bank, Reading::Load { ids, budget_bytes }));
            }
            Effect::Search { ticket, bank, query, hits } => {
                self.schedule(0, read(ticket, bank, Reading::Search { query, hits }));
            }
            Effect::Suggest { ticket, bank, near, from, count } => {
                self.schedule(0, read(ticket, bank, Reading::Suggest { near, from, count }));
            }
            // Nobody here begins a run, so none is told of.
            Effect::RunHeard { .. } | Effect::StoreSteps { .. } | Effect::LoadSteps { .. } => {}
            Effect::Answered { ask, answers, silent } => {
                self.nodes[n].answered.insert(ask, (answers, silent));
            }
        }
    }

    fn send(&mut self, from: usize, peer: AuthorId, message: Message) {
        let Some(to) = self.number_of(&peer) else { return };
        let Some(message) = plant::said(self.config.plant, &mut self.replies, message) else { return };
        if let Some(message) = self.tampered(from, message) {
            self.transmit(from, to, message);
        }
    }

    /// Puts a message onto the link to `to`, if a connection stands.
    pub(crate) fn transmit(&mut self, from: usize, to: usize, message: Message) {
        let Some(slot) = self.connections.between(from, to) else { return };
        let Some(connection) = self.connections.number(slot) else { return };
        if !self.connections.get(slot, connection).is_some_and(|open| open.is_up(from)) {
            return;
        }
        let kind = message.name();
        let (message, bytes) = if self.config.through_bytes {
            let frame = message.encode();
            debug_assert_eq!(frame.len(), message.encoded_len());
            (Message::decode(&frame).expect("a node sends only what a node reads"), frame.len())
        } else {
            let bytes = message.encoded_len();
            (message, bytes)
        };
        *self.counters.messages.entry(kind).or_default() += 1;
        *self.counters.bytes.entry(kind).or_default() += bytes as u64;
        let at_ms = self.now_ms;
        if self.config.tells_facts {
            self.tell(Fact::Sent { at_ms, from, to, kind, bytes, records: copies(&message) });
        }
        let delivery =
            Happening::Deliver { from: from as u32, to: to as u32, slot, connection, message: Box::new(message) };
        let passage = self.links.passage(from, to);
        if passage != Passage::Open {
            self.stopped(passage, delivery);
            return;
        }
        let Some(open) = self.connections.get_mut(slot, connection) else { return };
        match self.links.arrival(open.lane(from), (from, to), at_ms, bytes, &mut self.nodes[from].rng) {
            Ok(at) => self.schedule_at(at, delivery),
            Err(cause) => {
                self.counters.lost += 1;
                self.tell(Fact::Lost { at_ms, from, to, cause });
            }
        }
    }
}

/// Records a message carries.
pub(crate) fn copies(message: &Message) -> usize {
    match message {
        Message::Push { .. } => 1,
        Message::Records { items, .. } => items.len(),
        _ => 0,
    }
}
