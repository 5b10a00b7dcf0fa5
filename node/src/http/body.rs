//! Bodies in and out: bounded JSON.

use std::time::Duration;

use axum::{
    body::{Body, Bytes},
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use futures::StreamExt;
use serde::{Serialize, de::DeserializeOwned};
use tokio::time;

use crate::api::{Answer, ApiError, ErrorBody};

/// Bytes of an oversize body that are read and thrown away, so that an honest client that sent too much gets to read
/// the answer and not a reset connection.
const MAX_DRAINED_BYTES: usize = 4 * 1024 * 1024;
/// How long a body may take to come in, over loopback.
const BODY_DEADLINE: Duration = Duration::from_secs(30);

/// A request that was turned away before any verb saw it.
pub(super) struct Refusal(StatusCode, ApiError);

impl From<Refusal> for Response {
    fn from(Refusal(status, error): Refusal) -> Self {
        reply_error(status, &error)
    }
}

/// Reads a body of at most `limit` bytes as JSON; an empty one is `{}`.
pub(super) async fn read_json<Q: DeserializeOwned>(body: Body, limit: usize) -> Result<Q, Refusal> {
    let bytes = time::timeout(BODY_DEADLINE, read(body, limit)).await.unwrap_or_else(|_| {
        Err(Refusal(StatusCode::REQUEST_TIMEOUT, ApiError::bad_request("the body took too long to come in")))
    })?;
    let json: &[u8] = if bytes.trim_ascii().is_empty() { b"{}" } else { &bytes };
    let unreadable = |why: String| {
        Refusal(StatusCode::BAD_REQUEST, ApiError::bad_request(format!("the request cannot be read: {why}")))
    };
    // serde would also take a list of the fields' values, in the order in which this build happens to have them.
    if !json.trim_ascii_start().starts_with(b"{") {
        return Err(unreadable("it is not a JSON object".into()));
    }
    serde_json::from_slice(json).map_err(|error| unreadable(error.to_string()))
}

async fn read(body: Body, limit: usize) -> Result<Vec<u8>, Refusal> {
    let (mut kept, mut total) = (Vec::new(), 0usize);
    let mut chunks = body.into_data_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk: Bytes = chunk.map_err(|error| {
            Refusal(StatusCode::BAD_REQUEST, ApiError::bad_request(format!("the body broke off: {error}")))
        })?;
        total = total.saturating_add(chunk.len());
        if total <= limit {
            kept.extend_from_slice(&chunk);
        } else if total > MAX_DRAINED_BYTES {
            break;
        }
    }
    if total > limit {
        let message = format!("the request is longer than {limit} bytes, the limit: make it shorter");
        return Err(Refusal(StatusCode::PAYLOAD_TOO_LARGE, ApiError::bad_request(message)));
    }
    Ok(kept)
}

/// The answer of a verb.
pub(super) fn reply<R: Serialize>(answer: Answer<R>) -> Response {
    match answer {
        Ok(response) => json(StatusCode::OK, &response),
        Err(error) => {
            let status = StatusCode::from_u16(error.code.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            reply_error(status, &error)
        }
    }
}

/// An error under a status of its own.
pub(super) fn reply_error(status: StatusCode, error: &ApiError) -> Response {
    json(status, &ErrorBody { error: error.clone() })
}

fn json<T: Serialize>(status: StatusCode, value: &T) -> Response {
    match serde_json::to_vec(value) {
        Ok(bytes) => with_type(status, "application/json", Body::from(bytes)),
        Err(error) => {
            tracing::error!(%error, "an answer cannot be written as JSON");
            with_type(StatusCode::INTERNAL_SERVER_ERROR, "text/plain", Body::from("the answer cannot be written"))
        }
    }
}

/// A response that no cache keeps and no browser takes for a page.
pub(super) fn with_type(status: StatusCode, content_type: &'static str, body: Body) -> Response {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(content_type)),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    ];
    (status, headers, body).into_response()
}
