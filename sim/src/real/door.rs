//! A daemon's HTTP door: one request, one answer, one connection, with nothing but a socket.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use serde_json::Value;

/// How long a connection to loopback may take.
const CONNECT: Duration = Duration::from_secs(5);
/// Longest answer that is read, bytes.
const MAX_ANSWER_BYTES: u64 = 64 << 20;

/// Where a daemon answers, and the token that it wants to see.
#[derive(Debug, Clone)]
pub(super) struct Door {
    address: SocketAddr,
    token: String,
}

impl Door {
    /// The door that the notice in a home tells of.
    pub(super) fn of_notice(notice: &Value) -> Option<Self> {
        let address: SocketAddr = notice.get("http")?.as_str()?.parse().ok()?;
        let token = notice.get("token")?.as_str()?.to_owned();
        address.ip().is_loopback().then_some(Self { address, token })
    }

    /// Asks a verb that takes no request.
    ///
    /// # Errors
    /// When nobody answers in time, or answers with anything but 200.
    pub(super) fn get(&self, verb: &str, patience: Duration) -> io::Result<Value> {
        self.ask("GET", verb, "", patience)
    }

    /// Asks a verb.
    ///
    /// # Errors
    /// As [`Door::get`].
    pub(super) fn post(&self, verb: &str, request: &Value, patience: Duration) -> io::Result<Value> {
        self.ask("POST", verb, &request.to_string(), patience)
    }

    fn ask(&self, method: &str, verb: &str, body: &str, patience: Duration) -> io::Result<Value> {
        let mut stream = TcpStream::connect_timeout(&self.address, CONNECT.min(patience))?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        let head = format!(
            "{method} /v1/{verb} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n",
            self.address,
            self.token,
            body.len()
        );
        stream.write_all(&[head.as_bytes(), body.as_bytes()].concat())?;
        let (status, text) = answer(BufReader::new(stream.take(MAX_ANSWER_BYTES)))?;
        let value: Value = serde_json::from_slice(&text).map_err(io::Error::other)?;
        if status == 200 {
            return Ok(value);
        }
        let said = value.pointer("/error/message").and_then(Value::as_str).unwrap_or("no message");
        Err(io::Error::other(format!("{verb}: {said} ({status})")))
    }
}

/// Status and body of an answer.
fn answer(mut input: impl BufRead) -> io::Result<(u16, Vec<u8>)> {
    let first = line(&mut input)?;
    let status = first.split(' ').nth(1).and_then(|code| code.parse().ok());
    let status = status.ok_or_else(|| io::Error::other(format!("not an HTTP answer: {first:?}")))?;
    let (mut length, mut chunked) = (None, false);
    loop {
        let header = line(&mut input)?.to_ascii_lowercase();
        if header.is_empty() {
            break;
        }
        if let Some(value) = header.strip_prefix("content-length:") {
            length = Some(value.trim().parse::<u64>().map_err(io::Error::other)?);
        }
        chunked |= header.starts_with("transfer-encoding:") && header.ends_with("chunked");
    }
    let mut body = Vec::new();
    if chunked {
        loop {
            let size = line(&mut input)?;
            let size = u64::from_str_radix(size.trim(), 16).map_err(io::Error::other)?;
            if size == 0 {
                return Ok((status, body));
            }
            input.by_ref().take(size).read_to_end(&mut body)?;
            line(&mut input)?;
        }
    }
    input.take(length.unwrap_or(MAX_ANSWER_BYTES)).read_to_end(&mut body)?;
    if length.is_some_and(|length| body.len() as u64 != length) {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok((status, body))
}

fn line(input: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    match input.read_line(&mut line)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(line.trim_end().to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_by_length_and_in_chunks_and_half_a_body_is_an_error() {
        let whole = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}rest";
        assert_eq!(answer(&whole[..]).unwrap(), (200, b"{}".to_vec()));
        let chunks = b"HTTP/1.1 404 No\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
        assert_eq!(answer(&chunks[..]).unwrap(), (404, b"abcde".to_vec()));
        assert!(answer(&b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}"[..]).is_err());
        assert!(answer(&b"nonsense\r\n\r\n"[..]).is_err());
    }
}
