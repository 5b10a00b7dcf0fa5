//! Who may come in: checked before anything of the body is read.
//!
//! A web page in the user's browser can reach loopback too. It cannot know the token; and should a page ever have its
//! host name resolve to 127.0.0.1 (DNS rebinding), the `Host` and `Origin` it sends give it away.

use std::net::IpAddr;

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    middleware::Next,
    response::Response,
};

use super::{Door, body::reply_error};
use crate::api::{ApiError, MemoryApi};

/// The one path that needs no token.
const OPEN_PATH: &str = "/healthz";

pub(super) async fn guard<M: MemoryApi>(State(door): State<Door<M>>, request: Request, next: Next) -> Response {
    let headers = request.headers();
    if !host_is_ours(headers, door.port) {
        let message = format!("the Host header must name this door: 127.0.0.1:{} or localhost:{0}", door.port);
        return reply_error(StatusCode::FORBIDDEN, &ApiError::refused(message));
    }
    if !origin_is_ours(headers) {
        return reply_error(StatusCode::FORBIDDEN, &ApiError::refused("pages of other origins may not use this door"));
    }
    let given = only(headers, &header::AUTHORIZATION).and_then(|v| bearer(v.as_bytes()));
    if request.uri().path() != OPEN_PATH && !given.is_some_and(|token| door.token.matches(token)) {
        let message = match given {
            Some(_) => "the token is not this daemon's: it is made anew at every start, read it from daemon.json",
            None => "no token: send 'Authorization: Bearer TOKEN' with the token from daemon.json",
        };
        let mut response = reply_error(StatusCode::UNAUTHORIZED, &ApiError::refused(message));
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        return response;
    }
    next.run(request).await
}

/// The value of a header that is there exactly once.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a HeaderValue> {
    let mut values = headers.get_all(name).iter();
    values.next().filter(|_| values.next().is_none())
}

fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then_some(token.trim_ascii())
}

fn host_is_ours(headers: &HeaderMap, port: u16) -> bool {
    only(headers, &header::HOST).and_then(|v| v.to_str().ok()).is_some_and(|host| is_loopback(host, port))
}

/// Whether `authority` is a loopback host with this port.
fn is_loopback(authority: &str, port: u16) -> bool {
    let Ok(authority) = authority.parse::<axum::http::uri::Authority>() else { return false };
    // An address in brackets is an IPv6 one; user names and the like have no place in a Host header.
    let host = authority.host();
    let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
    let loopback =
        host.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    loopback && !authority.as_str().contains('@') && authority.port_u16().unwrap_or(80) == port
}

/// No Origin (not a browser), or the one that a page of this very door would send.
fn origin_is_ours(headers: &HeaderMap) -> bool {
    if !headers.contains_key(header::ORIGIN) {
        return true;
    }
    let text = |name| only(headers, name).and_then(|v: &HeaderValue| v.to_str().ok());
    match (text(&header::ORIGIN), text(&header::HOST)) {
        (Some(origin), Some(host)) => origin.strip_prefix("http://").is_some_and(|o| o.eq_ignore_ascii_case(host)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_hosts_with_our_port_are_ours() {
        for ours in ["127.0.0.1:4242", "localhost:4242", "LOCALHOST:4242", "[::1]:4242", "127.8.9.1:4242"] {
            assert!(is_loopback(ours, 4242), "{ours}");
        }
        for other in [
            "",
            "127.0.0.1",
            "127.0.0.1:4243",
            "evil.example:4242",
            "127.0.0.1.evil.example:4242",
            "localhost.evil.example:4242",
            "evil@127.0.0.1:4242",
            "0.0.0.0:4242",
            "192.0.2.1:4242",
            "127.0.0.1:4242/",
            "127.0.0.1:4242 ",
        ] {
            assert!(!is_loopback(other, 4242), "{other}");
        }
        assert!(is_loopback("localhost", 80));
    }
}
