//! `import` over HTTP: events as they happen, one JSON object a line.

use axum::{
    body::{Body, Bytes},
    extract::State,
    http::StatusCode,
    response::Response,
};
use futures::{Stream, stream};
use std::convert::Infallible;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{
    Door, MAX_BODY_BYTES,
    body::{read_json, reply, with_type},
};
use crate::api::{ApiError, ImportEvent, ImportRequest, MemoryApi};

/// Events that wait for a slow reader; then the import waits too.
const MAX_WAITING_EVENTS: usize = 16;

/// Starts the import and streams its events. An import that fails before its first event is a plain error with its own
/// status; after that, the last line says how it ended. When the client goes away, or the daemon stops, the import's
/// end of the channel closes, and it ends with the file it is at.
pub(super) async fn import<M: MemoryApi>(State(door): State<Door<M>>, body: Body) -> Response {
    let request: ImportRequest = match read_json(body, MAX_BODY_BYTES).await {
        Ok(request) => request,
        Err(refusal) => return refusal.into(),
    };
    if let Err(error) = check(&request) {
        return reply::<()>(Err(error));
    }
    let (events, mut received) = mpsc::channel(MAX_WAITING_EVENTS);
    let calls = door.calls.clone();
    let stop = door.stop.clone();
    calls.spawn(async move {
        let (memory, reports) = (door.memory.clone(), events.clone());
        let ended = door.run(async move { memory.import(request, reports).await }).await;
        let last = ended.map_or_else(ImportEvent::Error, ImportEvent::Done);
        // The reader may be gone; then nobody is to be told.
        let _ = events.send(last).await;
    });
    match received.recv().await {
        Some(ImportEvent::Error(error)) => reply::<()>(Err(error)),
        Some(first) => {
            with_type(StatusCode::OK, "application/x-ndjson", Body::from_stream(lines(first, received, stop)))
        }
        None => reply::<()>(Err(ApiError::failed("the import ended without a word, the log says more"))),
    }
}

fn check(request: &ImportRequest) -> Result<(), ApiError> {
    if request.paths.is_empty() {
        return Err(ApiError::bad_request("no paths: name at least one file or directory"));
    }
    match request.paths.iter().chain(&request.outcomes).find(|path| !path.is_absolute()) {
        Some(path) => Err(ApiError::bad_request(format!(
            "{} is a relative path, and the daemon's directory is not yours: send an absolute one",
            path.display()
        ))),
        None => Ok(()),
    }
}

/// `first` and what follows as lines, to the last event or until the daemon stops.
fn lines(
    first: ImportEvent,
    received: mpsc::Receiver<ImportEvent>,
    stop: CancellationToken,
) -> impl Stream<Item = Result<Bytes, Infallible>> {
    stream::unfold((Some(first), Some(received), stop), |(waiting, received, stop)| async move {
        let mut received = received?;
        let event = match waiting {
            Some(event) => event,
            None => tokio::select! {
                biased;
                event = received.recv() => event?,
                () = stop.cancelled() => ImportEvent::Error(ApiError::unavailable(
                    "the daemon is stopping: the files reported are kept, import the others again",
                )),
            },
        };
        let last = matches!(event, ImportEvent::Done(_) | ImportEvent::Error(_));
        let mut line = serde_json::to_vec(&event).unwrap_or_else(|error| {
            tracing::error!(%error, "an import event cannot be written as JSON");
            Vec::new()
        });
        line.push(b'\n');
        // Dropping the receiver is what tells the import that nobody listens.
        Some((Ok(Bytes::from(line)), (None, (!last).then_some(received), stop)))
    })
}
