//! Links between real processes: a relay in front of each node, which lets through what [`crate::link`] says, when it says so.
//!
//! Every node tells others its relay's address as its own, so each connection passes here. Who dials is not said by the address
//! that is dialled (others tell it on), so the socket's owner is looked up in `/proc`, as `ss -p` does.
//!
//! What the link model loses a TCP stream does not: the bytes come one retransmission timeout later, then after twice that, and
//! so on, and hold up what is behind them. A full queue stops the sender. In a cut nothing passes, ends of connections
//! included; what was under way comes after it, when TCP would send it again, if both ends are still there then. A dial into a
//! cut gets through when its first packet, sent again after 1, 3 and 7 s, finds the link whole; the daemon gives it up by itself.

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use folklore_protocol::DIAL_TIMEOUT_MS;
use rand_chacha::ChaCha8Rng;

use crate::{
    link::{DIAL_AT_MS, LONGEST_RTO_MS, Lane, Links, Passage, Split, sent_again},
    observe::LossCause,
    seeds::{self, Purpose},
};

/// Bytes that are carried as one message of the link model, at most.
const CHUNK_BYTES: usize = 16 * 1024;
/// Chunks of one direction that are under way, at most; more stay with the sender.
const UNDER_WAY: usize = 256;
/// How long until a full queue is tried again, milliseconds.
const QUEUE_AGAIN_MS: u64 = 5;

/// Where a node is.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Place {
    /// Its process, from when it is started.
    pub(super) pid: Option<u32>,
    /// Where it listens, once it does.
    pub(super) listens: Option<SocketAddr>,
}

#[derive(Debug)]
struct State {
    links: Links,
    nodes: Vec<Place>,
    over: bool,
}

/// Relays in front of a number of nodes.
#[derive(Debug)]
pub(super) struct Emulator {
    began: Instant,
    seed: u64,
    state: Mutex<State>,
    changed: Condvar,
    addresses: Vec<SocketAddr>,
    bytes: AtomicU64,
    stopped: AtomicU64,
    connections: AtomicU64,
}

enum Carried {
    Bytes(Vec<u8>),
    End,
}

impl Emulator {
    /// Opens a relay for each node; nothing passes to a node before [`Emulator::leads_to`].
    ///
    /// # Errors
    /// When no port on loopback can be had.
    pub(super) fn open(links: Links, nodes: usize, seed: u64) -> std::io::Result<Arc<Self>> {
        let listeners: Vec<TcpListener> =
            (0..nodes).map(|_| TcpListener::bind(("127.0.0.1", 0))).collect::<Result<_, _>>()?;
        let addresses = listeners.iter().map(TcpListener::local_addr).collect::<Result<_, _>>()?;
        let emulator = Arc::new(Self {
            began: Instant::now(),
            seed,
            state: Mutex::new(State { links, nodes: vec![Place::default(); nodes], over: false }),
            changed: Condvar::new(),
            addresses,
            bytes: AtomicU64::new(0),
            stopped: AtomicU64::new(0),
            connections: AtomicU64::new(0),
        });
        for (to, listener) in listeners.into_iter().enumerate() {
            let emulator = emulator.clone();
            thread::spawn(move || emulator.accept(to, &listener));
        }
        Ok(emulator)
    }

    /// Milliseconds since the relays were opened.
    pub(super) fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// What others are told as a node's address, a multiaddress.
    pub(super) fn multiaddr(&self, node: usize) -> String {
        format!("/ip4/127.0.0.1/tcp/{}", self.addresses.get(node).map_or(0, SocketAddr::port))
    }

    /// Where a node is from now on.
    pub(super) fn leads_to(&self, node: usize, place: Place) {
        if let Some(entry) = self.state().nodes.get_mut(node) {
            *entry = place;
        }
        self.changed.notify_all();
    }

    /// Begins a partition; gives its number.
    pub(super) fn split(&self, split: Split) -> u64 {
        let number = self.state().links.split(split);
        self.changed.notify_all();
        number
    }

    /// Ends one.
    pub(super) fn mend(&self, number: u64) {
        self.state().links.mend(number);
        self.changed.notify_all();
    }

    /// Bytes that came through, both ways, those of handshakes and encryption included.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Dials and chunks that a partition kept from passing.
    pub(super) fn stopped(&self) -> u64 {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Ends all relays. Connections end with the processes at their ends.
    pub(super) fn close(&self) {
        self.state().over = true;
        self.changed.notify_all();
        for address in &self.addresses {
            // Wakes the thread that accepts.
            let _ = TcpStream::connect(address);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn accept(self: Arc<Self>, to: usize, listener: &TcpListener) {
        for incoming in listener.incoming() {
            if self.state().over {
                return;
            }
            let Ok(near) = incoming else { continue };
            let emulator = self.clone();
            thread::spawn(move || emulator.serve(to, near));
        }
    }

    /// One dial to a node.
    fn serve(self: Arc<Self>, to: usize, near: TcpStream) {
        let Some(from) = near.peer_addr().ok().and_then(|peer| self.dialler(peer.port(), to)) else { return };
        let began_ms = self.now_ms();
        let is_open = || self.state().links.is_open(from, to);
        let comes_through = |after_ms: &u64| self.pause(began_ms + after_ms) && is_open();
        if !is_open() {
            self.stopped.fetch_add(1, Ordering::Relaxed);
        }
        if !DIAL_AT_MS.iter().any(comes_through) {
            self.pause(began_ms + DIAL_TIMEOUT_MS);
            return;
        }
        let (target, round_ms) = {
            let state = self.state();
            let both_ways = state.links.get(from, to).mean_trip_ms() + state.links.get(to, from).mean_trip_ms();
            (state.nodes.get(to).and_then(|node| node.listens), both_ways)
        };
        // TCP's own handshake takes the way there and back.
        if !self.pause(self.now_ms() + round_ms) {
            return;
        }
        let Some(far) = target.and_then(|address| TcpStream::connect(address).ok()) else { return };
        let number = 2 * self.connections.fetch_add(1, Ordering::Relaxed);
        let _ = near.set_nodelay(true).and_then(|()| far.set_nodelay(true));
        let (Ok(near_out), Ok(far_out)) = (near.try_clone(), far.try_clone()) else { return };
        let back = self.clone();
        thread::spawn(move || back.carry((to, from), far, near_out, number + 1));
        self.carry((from, to), near, far_out, number);
    }

    /// Carries one direction of a connection to its end.
    fn carry(self: Arc<Self>, way: (usize, usize), mut input: TcpStream, output: TcpStream, number: u64) {
        let (sender, receiver) = mpsc::sync_channel(UNDER_WAY);
        let Ok(back) = input.try_clone() else { return };
        let writer = self.clone();
        thread::spawn(move || writer.write(way, &receiver, output, &back));
        let mut rng = seeds::stream(self.seed, number, Purpose::Link);
        let (mut lane, mut bytes) = (Lane::default(), vec![0; CHUNK_BYTES]);
        loop {
            let read = input.read(&mut bytes).unwrap_or(0);
            let at_ms = self.arrival(way, &mut lane, read, &mut rng);
            let carried = bytes.get(..read).filter(|chunk| !chunk.is_empty());
            let carried = carried.map_or(Carried::End, |chunk| Carried::Bytes(chunk.to_vec()));
            if sender.send((at_ms, carried)).is_err() || read == 0 {
                return;
            }
        }
    }

    /// When a chunk arrives that is sent now, with all that TCP does until it does.
    fn arrival(&self, (from, to): (usize, usize), lane: &mut Lane, bytes: usize, rng: &mut ChaCha8Rng) -> u64 {
        let state = self.state();
        let link = state.links.get(from, to);
        let mut sent_ms = self.now_ms();
        let mut rto_ms = link.rto_ms();
        loop {
            match state.links.arrival(lane, (from, to), sent_ms, bytes, rng) {
                Ok(at_ms) => return at_ms,
                Err(LossCause::Queue) => sent_ms += QUEUE_AGAIN_MS,
                Err(_) if rto_ms >= LONGEST_RTO_MS => return lane.after(sent_ms + LONGEST_RTO_MS),
                Err(_) => {
                    sent_ms += rto_ms;
                    rto_ms *= 2;
                }
            }
        }
    }

    fn write(
        &self,
        (from, to): (usize, usize),
        receiver: &mpsc::Receiver<(u64, Carried)>,
        mut output: TcpStream,
        back: &TcpStream,
    ) {
        while let Ok((at_ms, carried)) = receiver.recv() {
            if !self.pause(at_ms) || !self.passes(from, to) {
                break;
            }
            match carried {
                Carried::Bytes(bytes) => {
                    if output.write_all(&bytes).is_err() {
                        break;
                    }
                    self.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                }
                Carried::End => {
                    let _ = output.shutdown(Shutdown::Write);
                    return;
                }
            }
        }
        // The far end is gone; the near one hears of it when anything can come back.
        self.passes(to, from);
        let _ = back.shutdown(Shutdown::Both);
        let _ = output.shutdown(Shutdown::Both);
    }

    /// Waits until then; false when all is over.
    fn pause(&self, until_ms: u64) -> bool {
        let mut state = self.state();
        loop {
            let left = until_ms.saturating_sub(self.now_ms());
            if left == 0 || state.over {
                return !state.over;
            }
            let waited = self.changed.wait_timeout(state, Duration::from_millis(left));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits until something passes from one node to another: at once, or when TCP sends it again after the cut. False when all
    /// is over.
    fn passes(&self, from: usize, to: usize) -> bool {
        let began_ms = self.now_ms();
        let mut state = self.state();
        if state.links.passage(from, to) == Passage::Open {
            return !state.over;
        }
        self.stopped.fetch_add(1, Ordering::Relaxed);
        let link = state.links.get(from, to);
        loop {
            while state.links.passage(from, to) != Passage::Open && !state.over {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            drop(state);
            let again_ms = sent_again(began_ms, link.rto_ms(), self.now_ms());
            if !self.pause(again_ms) {
                return false;
            }
            state = self.state();
            if state.links.passage(from, to) == Passage::Open {
                drop(state);
                return self.pause(again_ms + link.latency_ms);
            }
        }
    }

    /// The node whose process dials from a port to the relay of node `to`.
    fn dialler(&self, port: u16, to: usize) -> Option<usize> {
        let relay = self.addresses.get(to)?.port();
        let table = std::fs::read_to_string("/proc/net/tcp").ok()?;
        let inode = table.lines().find_map(|line| inode_of(line, port, relay))?;
        let wanted = format!("socket:[{inode}]");
        let pids: Vec<Option<u32>> = self.state().nodes.iter().map(|node| node.pid).collect();
        pids.into_iter().position(|pid| pid.is_some_and(|pid| holds(pid, &wanted)))
    }
}

/// The inode of a line of `/proc/net/tcp` whose socket leads from one port to another.
fn inode_of(line: &str, from: u16, to: u16) -> Option<&str> {
    let mut fields = line.split_whitespace().skip(1);
    let port = |field: &str| u16::from_str_radix(field.split_once(':')?.1, 16).ok();
    let (local, remote) = (port(fields.next()?)?, port(fields.next()?)?);
    ((local, remote) == (from, to)).then(|| fields.nth(6)).flatten()
}

/// Whether a process has a file of this name open.
fn holds(pid: u32, name: &str) -> bool {
    let Ok(files) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    files.flatten().any(|file| std::fs::read_link(file.path()).is_ok_and(|link| link.as_os_str() == name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::Link;

    /// A relay in front of a listener of this process, which is both nodes.
    fn relayed(link: Link) -> (Arc<Emulator>, TcpListener) {
        let emulator = Emulator::open(Links::new(link), 2, 1).unwrap();
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        emulator.leads_to(1, Place { pid: None, listens: listener.local_addr().ok() });
        emulator.leads_to(0, Place { pid: Some(std::process::id()), listens: None });
        (emulator, listener)
    }

    #[test]
    fn the_line_of_a_socket_is_found_by_its_two_ports() {
        let line =
            "   1: 0100007F:A0B1 0100007F:1F90 01 00000000:00000000 00:00000000 00000000     0        0 4242 1 0 20";
        assert_eq!(inode_of(line, 0xa0b1, 0x1f90), Some("4242"));
        assert_eq!(inode_of(line, 0x1f90, 0xa0b1), None);
        assert_eq!(inode_of("sl local_address rem_address st", 1, 2), None);
    }

    #[test]
    fn bytes_come_in_order_and_not_before_their_time_and_wait_for_a_cut_to_heal() {
        let link = Link { latency_ms: 30, jitter_ms: 20, loss_ppm: 100_000, ..Link::default() };
        let (emulator, listener) = relayed(link);
        let mut near = TcpStream::connect(emulator.addresses[1]).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        let began = emulator.now_ms();
        near.write_all(b"first").unwrap();
        let mut five = [0; 5];
        far.read_exact(&mut five).unwrap();
        assert_eq!(&five, b"first");
        assert!(emulator.now_ms() - began >= 30);
        let cut = emulator.split(Split::new(vec![0, 1]).between(0, 1, Passage::Cut));
        near.write_all(b"later").unwrap();
        far.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        assert!(far.read(&mut five).is_err(), "nothing passes a cut");
        emulator.mend(cut);
        far.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        far.read_exact(&mut five).unwrap();
        assert_eq!(&five, b"later");
        drop(near);
        assert_eq!(far.read(&mut five).unwrap(), 0, "the end arrives too");
        assert!(emulator.stopped() > 0);
        assert_eq!(emulator.bytes(), 10);
        emulator.close();
    }
}
