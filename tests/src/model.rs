//! A chat model on loopback, a few lines of HTTP/1.1: it can be away, and it counts what it was asked.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use serde_json::{Value, json};

/// How long it takes for an answer: long enough for a kill to meet it in the middle.
const THINKS: Duration = Duration::from_millis(200);

/// A model that answers every prompt for lessons with one that quotes the first long line of each run's steps.
pub struct Model {
    /// Where it is.
    pub address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    is_away: AtomicBool,
    asked: AtomicUsize,
    ends: AtomicBool,
    bodies: Mutex<Vec<String>>,
}

impl Model {
    /// A model that is there, or away.
    #[track_caller]
    pub fn new(is_away: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared {
            is_away: is_away.into(),
            asked: AtomicUsize::new(0),
            ends: AtomicBool::new(false),
            bodies: Mutex::default(),
        });
        let held = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming() {
                if held.ends.load(Ordering::SeqCst) {
                    break;
                }
                let held = Arc::clone(&held);
                thread::spawn(move || stream.ok().and_then(|stream| serve(stream, &held)));
            }
        });
        Self { address, shared }
    }

    /// Whether it is away from now on: it then closes each connection without a word.
    pub fn away(&self, is_away: bool) {
        self.shared.is_away.store(is_away, Ordering::SeqCst);
    }

    /// Prompts that it answered.
    pub fn asked(&self) -> usize {
        self.shared.asked.load(Ordering::SeqCst)
    }

    /// All that it was ever sent.
    pub fn heard(&self) -> String {
        self.shared.bodies.lock().map(|bodies| bodies.join("\n")).unwrap_or_default()
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::SeqCst);
        // Wakes the thread that listens.
        let _ = TcpStream::connect(self.address);
    }
}

/// Requests on one connection, until it ends.
fn serve(stream: TcpStream, shared: &Shared) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut writer = stream;
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
            if line.trim().is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        if shared.is_away.load(Ordering::SeqCst) {
            return None;
        }
        let text = String::from_utf8(body).ok()?;
        let request: Value = serde_json::from_str(&text).ok()?;
        shared.bodies.lock().ok()?.push(text);
        thread::sleep(THINKS);
        let answer =
            json!({"choices": [{"message": {"content": lesson(&request)}, "finish_reason": "stop"}]}).to_string();
        let head =
            format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n", answer.len());
        writer.write_all(head.as_bytes()).ok()?;
        writer.write_all(answer.as_bytes()).ok()?;
        shared.asked.fetch_add(1, Ordering::SeqCst);
    }
}

/// The same lesson for the same prompt.
fn lesson(request: &Value) -> String {
    let user = request["messages"][1]["content"].as_str().unwrap_or_default();
    let (mut run, mut step, mut quoted_of) = (0, 0, 0);
    let mut evidence = Vec::new();
    for line in user.lines() {
        if let Some(number) = line.strip_prefix("RUN ") {
            (run, step) = (number.parse().unwrap_or(0), 0);
        } else if let Some(number) = line.strip_prefix("step ") {
            step = number.parse().unwrap_or(0);
        } else if let Some(text) = line.strip_prefix("> ")
            && step > 0
            && quoted_of < run
            && text.len() > 12
        {
            quoted_of = run;
            let quote: String = text.chars().take(60).collect();
            evidence.push(json!({"run": run, "step": step, "quote": quote.trim()}));
        }
    }
    let task = user.lines().skip_while(|line| *line != "task:").nth(1).unwrap_or_default();
    let task: String = task.trim_start_matches("> ").chars().take(130).collect();
    json!({"lessons": [{
        "title": format!("Mind the record: {task}"),
        "applies_when": "A record of this kind is about to be changed.",
        "content": format!("Look at the record before the change is made. The task was: {task}"),
        "evidence": evidence,
    }]})
    .to_string()
}
