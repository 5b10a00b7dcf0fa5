//! A link between two nodes that a test holds in its hand: a TCP relay that can be cut, frozen and overheard.

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex, MutexGuard},
    thread,
    time::Duration,
};

use crate::{Node, PATIENCE, node::same_root, until};

/// Most bytes kept of what went through.
const KEPT_BYTES: usize = 64 * 1024 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// Connections are closed, new ones too.
    Cut,
    /// Connections stand and nothing moves.
    Frozen,
    /// For good.
    Gone,
}

struct Wire {
    state: State,
    target: Option<SocketAddr>,
    streams: Vec<TcpStream>,
    overheard: Vec<u8>,
    passed: u64,
    /// Bytes until it cuts itself.
    budget: Option<u64>,
    /// Bytes a second each way.
    rate: Option<u64>,
}

struct Shared {
    link: Mutex<Wire>,
    changed: Condvar,
}

impl Shared {
    fn link(&self) -> MutexGuard<'_, Wire> {
        self.link.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn set(&self, state: State, budget: Option<u64>) {
        let mut link = self.link();
        link.budget = budget;
        self.enter(&mut link, state);
    }

    fn enter(&self, link: &mut Wire, state: State) {
        link.state = state;
        if matches!(state, State::Cut | State::Gone) {
            for stream in link.streams.drain(..) {
                let _ = stream.shutdown(Shutdown::Both);
            }
        }
        self.changed.notify_all();
    }
}

/// A port on loopback that leads to another one. It ends with this value.
pub struct Relay {
    shared: Arc<Shared>,
    address: SocketAddr,
}

impl Relay {
    /// A relay that leads nowhere yet: until [`Relay::leads_to`] it is cut.
    pub fn new() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port on loopback");
        let address = listener.local_addr().expect("a bound socket has an address");
        let link = Wire {
            state: State::Cut,
            target: None,
            streams: Vec::new(),
            overheard: Vec::new(),
            passed: 0,
            budget: None,
            rate: None,
        };
        let shared = Arc::new(Shared { link: Mutex::new(link), changed: Condvar::new() });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || accept(&listener, &accepting));
        Self { shared, address }
    }

    /// Opens it, towards a port on loopback.
    pub fn leads_to(&self, port: u16) {
        self.shared.link().target = Some(SocketAddr::from(([127, 0, 0, 1], port)));
        self.heal();
    }

    /// Its own address, as a multiaddress.
    pub fn multiaddr(&self) -> String {
        format!("/ip4/127.0.0.1/tcp/{}", self.address.port())
    }

    /// Closes every connection, and each new one at once.
    pub fn cut(&self) {
        self.shared.set(State::Cut, None);
    }

    /// Lets connections stand and nothing through: a cable that was pulled.
    pub fn freeze(&self) {
        self.shared.set(State::Frozen, None);
    }

    /// Lets everything through again.
    pub fn heal(&self) {
        self.shared.set(State::Open, None);
    }

    /// Opens it for so many bytes, both ways together; then it is cut. A short contact.
    pub fn open_for(&self, bytes: u64) {
        self.shared.set(State::Open, Some(bytes));
    }

    /// Lets through at most so many bytes a second each way; none: as fast as it goes.
    pub fn limit(&self, bytes_a_second: Option<u64>) {
        self.shared.link().rate = bytes_a_second;
    }

    /// Whether it is cut.
    pub fn is_cut(&self) -> bool {
        self.shared.link().state == State::Cut
    }

    /// What went through so far, both ways mixed, as it came.
    pub fn overheard(&self) -> Vec<u8> {
        self.shared.link().overheard.clone()
    }

    /// Bytes that went through so far, both ways.
    pub fn passed(&self) -> u64 {
        self.shared.link().passed
    }
}

impl Default for Relay {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.shared.set(State::Gone, None);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(self.address);
    }
}

/// Two nodes that are up and reach each other through relays only: each tells others its relay's address as its own.
pub struct Link {
    to_a: Relay,
    to_b: Relay,
}

impl Link {
    /// Starts both nodes behind relays. They do not know each other yet.
    #[track_caller]
    pub fn between(a: &mut Node, b: &mut Node) -> Self {
        let behind = |node: &mut Node| {
            let relay = Relay::new();
            node.up_args.extend(["--announce".into(), relay.multiaddr().into()]);
            node.up();
            relay.leads_to(node.peer_port());
            relay
        };
        Self { to_a: behind(a), to_b: behind(b) }
    }

    /// Cuts the link: connections end, and none can be made.
    pub fn cut(&self) {
        self.both(Relay::cut);
    }

    /// Lets connections stand and nothing through.
    pub fn freeze(&self) {
        self.both(Relay::freeze);
    }

    /// Lets everything through again.
    pub fn heal(&self) {
        self.both(Relay::heal);
    }

    /// Lets at most so many bytes a second through each way.
    pub fn limit(&self, bytes_a_second: Option<u64>) {
        self.both(|relay| relay.limit(bytes_a_second));
    }

    /// Opens the way to `a` alone for so many bytes, and cuts the one to `b`.
    pub fn open_for(&self, bytes: u64) {
        self.to_b.cut();
        self.to_a.open_for(bytes);
    }

    /// Where `a` and `b` are reached, as multiaddresses.
    pub fn addresses(&self) -> [String; 2] {
        [self.to_a.multiaddr(), self.to_b.multiaddr()]
    }

    /// Whether it is cut both ways.
    pub fn is_cut(&self) -> bool {
        self.to_a.is_cut() && self.to_b.is_cut()
    }

    /// What went through so far.
    pub fn overheard(&self) -> Vec<u8> {
        [self.to_a.overheard(), self.to_b.overheard()].concat()
    }

    /// Leads to where the nodes listen now, after a restart.
    pub fn follow(&self, a: &Node, b: &Node) {
        self.to_a.leads_to(a.peer_port());
        self.to_b.leads_to(b.peer_port());
    }

    /// Waits until both see that they are not connected.
    #[track_caller]
    pub fn seen_as_cut(&self, a: &Node, b: &Node) {
        until("both nodes see that the link is cut", PATIENCE, || {
            (!a.is_connected(&b.id()) && !b.is_connected(&a.id())).then_some(())
        });
    }

    /// Heals the link and waits until both hold the same of a bank. Returns the root.
    #[track_caller]
    pub fn heal_to_equal(&self, a: &Node, b: &Node, bank: &str) -> String {
        self.heal();
        same_root(a, b, bank)
    }

    fn both(&self, change: impl Fn(&Relay)) {
        change(&self.to_a);
        change(&self.to_b);
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for incoming in listener.incoming() {
        let target = {
            let link = shared.link();
            match link.state {
                State::Gone => return,
                State::Cut => None,
                State::Open | State::Frozen => link.target,
            }
        };
        // Both closed at once when cut, or when nobody is at the other end.
        if let (Ok(near), Some(target)) = (incoming, target)
            && let Ok(far) = TcpStream::connect(target)
        {
            connect(&near, &far, shared);
        }
    }
}

fn connect(near: &TcpStream, far: &TcpStream, shared: &Arc<Shared>) {
    let _ = near.set_nodelay(true).and_then(|()| far.set_nodelay(true));
    let copies =
        [near.try_clone(), far.try_clone(), near.try_clone(), far.try_clone(), near.try_clone(), far.try_clone()];
    let [Ok(a), Ok(b), Ok(a_out), Ok(b_out), Ok(kept_a), Ok(kept_b)] = copies else { return };
    {
        let mut link = shared.link();
        if matches!(link.state, State::Cut | State::Gone) {
            return; // Cut in the meantime.
        }
        link.streams.extend([kept_a, kept_b]);
    }
    for (from, to) in [(a, b_out), (b, a_out)] {
        let shared = Arc::clone(shared);
        thread::spawn(move || pump(from, to, &shared));
    }
}

fn pump(mut from: TcpStream, mut to: TcpStream, shared: &Shared) {
    let mut bytes = vec![0; 16 * 1024];
    while let Ok(read) = from.read(&mut bytes) {
        let mut link = shared.link();
        while link.state == State::Frozen {
            link = shared.changed.wait(link).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
        if read == 0 || link.state != State::Open {
            break;
        }
        let room = KEPT_BYTES.saturating_sub(link.overheard.len());
        link.overheard.extend_from_slice(&bytes[..read.min(room)]);
        link.passed += read as u64;
        if let Some(left) = link.budget {
            let left = left.saturating_sub(read as u64);
            link.budget = Some(left);
            if left == 0 {
                shared.enter(&mut link, State::Cut);
                break;
            }
        }
        let pause = link.rate.map(|rate| Duration::from_secs_f64(read as f64 / rate.max(1) as f64));
        drop(link);
        if let Some(pause) = pause {
            thread::sleep(pause);
        }
        if to.write_all(&bytes[..read]).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
