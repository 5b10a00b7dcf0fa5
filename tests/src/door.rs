//! The HTTP door without the client: a few lines of HTTP/1.1, so that a test sees what is on the socket.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
};

use serde_json::Value;

use crate::PATIENCE;

/// A daemon's HTTP door and the token that opens it.
#[derive(Debug, Clone)]
pub struct Door {
    /// Where it is.
    pub address: SocketAddr,
    token: String,
}

impl Door {
    /// The door at an address.
    pub fn new(address: SocketAddr, token: &str) -> Self {
        Self { address, token: token.to_owned() }
    }

    /// The token.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Asks a verb that takes no request.
    #[track_caller]
    pub fn get(&self, verb: &str) -> (u16, Value) {
        let reply = self.send("GET", verb, "").unwrap_or_else(|error| panic!("GET {verb}: {error}"));
        reply.whole().unwrap_or_else(|error| panic!("GET {verb}: {error}"))
    }

    /// Asks a verb.
    #[track_caller]
    pub fn post(&self, verb: &str, request: &Value) -> (u16, Value) {
        self.try_post(verb, request).unwrap_or_else(|error| panic!("POST {verb}: {error}"))
    }

    /// Asks a verb of a daemon that may not be there.
    pub fn try_post(&self, verb: &str, request: &Value) -> io::Result<(u16, Value)> {
        self.send("POST", verb, &request.to_string())?.whole()
    }

    /// Starts an import; its events come one by one.
    #[track_caller]
    pub fn import(&self, request: &Value) -> Events {
        let reply = self.send("POST", "import", &request.to_string()).unwrap_or_else(|error| panic!("import: {error}"));
        if reply.status != 200 {
            panic!("the import did not start: {:?}", reply.whole());
        }
        Events { lines: BufReader::new(reply.body) }
    }

    /// Sends raw bytes and returns all that comes back; for requests that are no requests.
    pub fn raw(&self, bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut stream = self.connect()?;
        stream.write_all(bytes)?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        Ok(answer)
    }

    fn connect(&self) -> io::Result<TcpStream> {
        let stream = TcpStream::connect_timeout(&self.address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(stream)
    }

    fn send(&self, method: &str, verb: &str, body: &str) -> io::Result<Reply> {
        let mut stream = self.connect()?;
        let head = format!(
            "{method} /v1/{verb} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n",
            self.address,
            self.token,
            body.len()
        );
        // In one write, so that a trace shows the request as one read.
        stream.write_all([head.as_bytes(), body.as_bytes()].concat().as_slice())?;
        Reply::read(BufReader::new(stream))
    }
}

struct Reply {
    status: u16,
    body: Body,
}

impl Reply {
    fn read(mut input: BufReader<TcpStream>) -> io::Result<Self> {
        let first = line(&mut input)?;
        let status = first.split(' ').nth(1).and_then(|code| code.parse().ok());
        let status = status.ok_or_else(|| io::Error::other(format!("not an HTTP reply: {first:?}")))?;
        let mut left = Left::Unknown;
        loop {
            let header = line(&mut input)?.to_ascii_lowercase();
            if header.is_empty() {
                return Ok(Self { status, body: Body { input, left } });
            }
            if let Some(length) = header.strip_prefix("content-length:") {
                left = Left::Bytes(length.trim().parse().map_err(io::Error::other)?);
            } else if header.starts_with("transfer-encoding:") && header.ends_with("chunked") {
                left = Left::Chunk(0);
            }
        }
    }

    fn whole(mut self) -> io::Result<(u16, Value)> {
        let mut text = String::new();
        self.body.read_to_string(&mut text)?;
        Ok((self.status, serde_json::from_str(&text).unwrap_or(Value::String(text))))
    }
}

fn line(input: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    match input.read_line(&mut line)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(line.trim_end().to_owned()),
    }
}

enum Left {
    /// Until the connection closes.
    Unknown,
    Bytes(u64),
    /// Bytes left of this chunk; 0 before the next.
    Chunk(u64),
    Nothing,
}

struct Body {
    input: BufReader<TcpStream>,
    left: Left,
}

impl Read for Body {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if let Left::Chunk(0) = self.left {
            let mut size = line(&mut self.input)?;
            if size.is_empty() {
                size = line(&mut self.input)?; // The line break behind the chunk before.
            }
            let size = u64::from_str_radix(&size, 16).map_err(io::Error::other)?;
            self.left = if size == 0 { Left::Nothing } else { Left::Chunk(size) };
        }
        let most = match self.left {
            Left::Nothing | Left::Bytes(0) => return Ok(0),
            Left::Bytes(left) | Left::Chunk(left) => left.min(out.len() as u64) as usize,
            Left::Unknown => out.len(),
        };
        let read = self.input.read(&mut out[..most])?;
        match &mut self.left {
            Left::Bytes(left) | Left::Chunk(left) => {
                if read == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                *left -= read as u64;
            }
            Left::Unknown | Left::Nothing => {}
        }
        Ok(read)
    }
}

/// The events of an import. Ends with the last one, or where the daemon went away.
pub struct Events {
    lines: BufReader<Body>,
}

impl Iterator for Events {
    type Item = Value;

    fn next(&mut self) -> Option<Value> {
        let mut line = String::new();
        // A daemon that was killed ends the stream in an error or in half a line: neither reports anything.
        self.lines.read_line(&mut line).ok().filter(|read| *read > 0)?;
        serde_json::from_str(line.strip_suffix('\n')?).ok()
    }
}
