//! The door over a real loopback socket.

use reqwest::{Client, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    task::JoinHandle,
};

use super::{double::*, *};
use crate::api::ImportEvent;

struct Opened {
    address: SocketAddr,
    memory: Double,
    stop: CancellationToken,
    served: JoinHandle<io::Result<()>>,
    client: Client,
}

async fn open() -> Opened {
    let listener = bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let (address, memory, stop) = (listener.local_addr().unwrap(), Double::default(), CancellationToken::new());
    let served = tokio::spawn(serve(listener, memory.clone(), Token::from("right".to_owned()), stop.clone()));
    Opened { address, memory, stop, served, client: Client::builder().no_proxy().build().unwrap() }
}

impl Opened {
    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    fn post(&self, path: &str, body: impl Into<reqwest::Body>) -> RequestBuilder {
        self.client.post(self.url(path)).bearer_auth("right").body(body)
    }

    fn get(&self, path: &str) -> RequestBuilder {
        self.client.get(self.url(path)).bearer_auth("right")
    }
}

/// Status, code and message of an error.
async fn error_of(response: Response) -> (u16, String, String) {
    let status = response.status().as_u16();
    let body: Value = response.json().await.unwrap();
    let text = |name: &str| body["error"][name].as_str().unwrap_or_default().to_owned();
    (status, text("code"), text("message"))
}

#[tokio::test]
async fn without_the_right_token_nothing_answers_but_healthz() {
    let door = open().await;
    let get = |path: &str| door.client.get(door.url(path));
    assert_eq!(get("/healthz").send().await.unwrap().json::<Value>().await.unwrap(), json!({"ok": true}));
    for (request, says) in [
        (get("/v1/status"), "no token"),
        (get("/v1/status").bearer_auth("wrong"), "not this daemon's"),
        (get("/v1/status").bearer_auth(""), "no token"),
        (get("/v1/status").header("authorization", "Basic right"), "no token"),
        (get("/v1/status").bearer_auth("right").header("authorization", "Bearer right"), "no token"),
        (get("/v1/nothing"), "no token"),
        (door.client.post(door.url("/v1/teach")).body("{"), "no token"),
    ] {
        let (status, code, message) = error_of(request.send().await.unwrap()).await;
        assert_eq!((status, code.as_str()), (401, "refused"));
        assert!(message.contains(says), "{message}");
    }
    assert_eq!(door.memory.was_asked(), "");
    assert_eq!(door.get("/v1/status").send().await.unwrap().status(), StatusCode::OK);
}

#[tokio::test]
async fn a_foreign_host_or_origin_is_refused_even_with_the_token() {
    let door = open().await;
    let port = door.address.port();
    let evil = format!("evil.example:{port}");
    for (name, value) in [
        ("host", evil.clone()),
        ("host", "127.0.0.1:1".to_owned()),
        ("origin", format!("http://{evil}")),
        ("origin", "null".to_owned()),
        ("origin", format!("https://127.0.0.1:{port}")),
        ("origin", format!("http://localhost:{port}")),
    ] {
        let response = door.get("/v1/status").header(name, &value).send().await.unwrap();
        let (status, code, _) = error_of(response).await;
        assert_eq!((status, code.as_str()), (403, "refused"), "{name}: {value}");
    }
    assert_eq!(door.memory.was_asked(), "");
    let ours = door.get("/v1/status").header("origin", format!("http://{}", door.address));
    assert_eq!(ours.send().await.unwrap().status(), StatusCode::OK);
    let local = door.get("/v1/status").header("host", format!("localhost:{port}"));
    assert_eq!(local.send().await.unwrap().status(), StatusCode::OK);
}

#[tokio::test]
async fn a_request_with_two_hosts_or_none_is_refused() {
    let door = open().await;
    for hosts in ["".to_owned(), format!("Host: {0}\r\nHost: {0}\r\n", door.address)] {
        let mut socket = tokio::net::TcpStream::connect(door.address).await.unwrap();
        let request =
            format!("GET /v1/status HTTP/1.1\r\n{hosts}Authorization: Bearer right\r\nConnection: close\r\n\r\n");
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).await.unwrap();
        let status = answer.split(' ').nth(1).unwrap_or_default();
        assert!(["400", "403"].contains(&status), "{answer}");
    }
    assert_eq!(door.memory.was_asked(), "");
}

#[tokio::test]
async fn bodies_have_limits_and_the_answer_says_so() {
    let door = open().await;
    for (path, size, status) in [
        ("/v1/teach", MAX_TEACH_BYTES + 1, 413),
        ("/v1/recall", MAX_BODY_BYTES + 1, 413),
        ("/v1/import", MAX_BODY_BYTES + 1, 413),
        ("/v1/import", 3 * 1024 * 1024, 413),
        ("/v1/recall", MAX_BODY_BYTES, 400),
    ] {
        let (got, code, message) = error_of(door.post(path, "x".repeat(size)).send().await.unwrap()).await;
        assert_eq!((got, code.as_str()), (status, "bad-request"), "{path} {size}");
        assert_eq!(message.contains("the limit"), status == 413, "{message}");
    }
    assert_eq!(door.memory.was_asked(), "");
    let long = json!({"kind": "strategy", "title": "t", "content": "c".repeat(60_000)}).to_string();
    assert_eq!(door.post("/v1/teach", long).send().await.unwrap().status(), StatusCode::OK);
}

#[tokio::test]
async fn malformed_requests_say_what_is_wrong_with_them() {
    let door = open().await;
    for (path, body, says) in [
        ("/v1/teach", "{", "EOF"),
        ("/v1/teach", "", "missing field `kind`"),
        ("/v1/teach", r#"{"kind":"strategy","title":"t","contents":"c"}"#, "unknown field `contents`"),
        ("/v1/teach", r#"{"kind":"advice","title":"t","content":"c"}"#, "unknown variant `advice`"),
        ("/v1/teach", "{\"kind\":\"strategy\",\"title\":\"\\ud800\",\"content\":\"c\"}", "hex escape"),
        ("/v1/recall", r#"["x"]"#, "not a JSON object"),
        ("/v1/rate", r#"{"id":"x","verdict":"good"}"#, "unknown variant `good`"),
        ("/v1/import", r#"{"paths":[]}"#, "no paths"),
        ("/v1/import", r#"{"paths":["a.json"]}"#, "absolute"),
        ("/v1/import", r#"{"paths":["/a.json"],"format":"unknown"}"#, "no format"),
    ] {
        let (status, code, message) = error_of(door.post(path, body).send().await.unwrap()).await;
        assert_eq!((status, code.as_str()), (400, "bad-request"), "{path} {body}: {message}");
        assert!(message.contains(says), "{message}");
    }
    let (status, ..) = error_of(door.post("/v1/teach", vec![0xff, 0xfe]).send().await.unwrap()).await;
    assert_eq!(status, 400);
}

#[tokio::test]
async fn unknown_routes_and_wrong_methods_are_json_errors() {
    let door = open().await;
    for (request, status, code, says) in [
        (door.get("/"), 404, "not-found", "nothing at /"),
        (door.get("/v1/nothing"), 404, "not-found", "nothing at /v1/nothing"),
        (door.get("/v1/teach"), 405, "bad-request", "does not take GET"),
        (door.post("/v1/status", "{}"), 405, "bad-request", "does not take POST"),
    ] {
        let (got, word, message) = error_of(request.send().await.unwrap()).await;
        assert_eq!((got, word.as_str()), (status, code));
        assert!(message.contains(says), "{message}");
    }
}

#[tokio::test]
async fn every_verb_reaches_the_memory_and_answers() {
    let door = open().await;
    let id = json!({"id": LESSON}).to_string();
    for (path, body, field) in [
        ("/v1/teach", r#"{"kind":"pitfall","title":"t","content":"c"}"#, "merged_into"),
        ("/v1/recall", r#"{"task":"x"}"#, "hits"),
        ("/v1/show", &id, "claims"),
        ("/v1/list", "", "total"),
        ("/v1/rate", &json!({"id": LESSON, "verdict": "helped"}).to_string(), "standing"),
        ("/v1/withdraw", &id, "standing"),
        ("/v1/forget", &id, "erased"),
        ("/v1/bank/create", r#"{"name":"n"}"#, "held_root"),
        ("/v1/bank/invite", "", "ticket"),
        ("/v1/bank/join", r#"{"ticket":"t"}"#, "dialing"),
        ("/v1/sync", "{}", "missing"),
        ("/v1/doctor", "{}", "checks"),
        ("/v1/block", r#"{"peer":"p","blocked":true}"#, "blocked"),
    ] {
        let response = door.post(path, body.to_owned()).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK, "{path}");
        assert_eq!(response.headers()["content-type"], "application/json");
        let body: Value = response.json().await.unwrap();
        assert!(body.as_object().unwrap().contains_key(field), "{path}: {body}");
    }
    for (path, field) in [("/v1/status", "node"), ("/v1/peers", "peers"), ("/v1/banks", "banks")] {
        let body: Value = door.get(path).send().await.unwrap().json().await.unwrap();
        assert!(body.as_object().unwrap().contains_key(field), "{path}: {body}");
    }
}

#[tokio::test]
async fn errors_and_panics_of_the_memory_become_their_status() {
    let door = open().await;
    let teach = |title: &str| json!({"kind": "pitfall", "title": title, "content": "c"}).to_string();
    let (status, code, _) = error_of(door.post("/v1/teach", teach("refused")).send().await.unwrap()).await;
    assert_eq!((status, code.as_str()), (403, "refused"));
    let (status, code, _) = error_of(door.post("/v1/show", r#"{"id":"zzzzzzzz"}"#).send().await.unwrap()).await;
    assert_eq!((status, code.as_str()), (404, "not-found"));
    let (status, code, message) = error_of(door.post("/v1/teach", teach("panic")).send().await.unwrap()).await;
    assert_eq!((status, code.as_str()), (500, "failed"));
    assert!(!message.contains("a test asked for it"), "{message}");
    assert_eq!(door.get("/v1/status").send().await.unwrap().status(), StatusCode::OK);
}

#[tokio::test]
async fn an_import_tells_each_file_and_ends_with_the_sum() {
    let door = open().await;
    let response = door.post("/v1/import", r#"{"paths":["/a","/bad"]}"#).send().await.unwrap();
    assert_eq!(response.headers()["content-type"], "application/x-ndjson");
    let text = response.text().await.unwrap();
    let events: Vec<ImportEvent> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (last, before) = events.split_last().unwrap();
    assert!(matches!(last, ImportEvent::Done(done) if done.files == 2 && done.runs == 1 && done.skipped.len() == 1));
    let files = before.iter().filter(|e| matches!(e, ImportEvent::File(_))).count();
    assert_eq!(files, 2);
}

#[tokio::test]
async fn an_import_whose_client_left_ends_with_the_file_it_was_at() {
    let door = open().await;
    let mut response = door.post("/v1/import", r#"{"paths":["/wait","/after"]}"#).send().await.unwrap();
    assert!(response.chunk().await.unwrap().is_some());
    drop(response);
    // Until the door has noticed, the channel is open; the double would go on to the next file.
    tokio::time::sleep(Duration::from_millis(300)).await;
    door.memory.next_file.notify_one();
    door.memory.until_noted("import stopped").await;
    let asked = door.memory.was_asked();
    assert!(asked.contains(r#"("file done", "wait")"#) && !asked.contains(r#""after")"#), "{asked}");
}

#[tokio::test]
async fn a_stop_lets_calls_end_and_ends_imports_with_a_word() {
    let door = open().await;
    let mut response = door.post("/v1/import", r#"{"paths":["/wait","/after"]}"#).send().await.unwrap();
    let mut text = response.chunk().await.unwrap().unwrap().to_vec();
    door.stop.cancel();
    while let Some(chunk) = response.chunk().await.unwrap() {
        text.extend_from_slice(&chunk);
    }
    let text = String::from_utf8(text).unwrap();
    let last: ImportEvent = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert!(matches!(&last, ImportEvent::Error(e) if e.message.contains("stopping")), "{text}");
    assert!(!door.served.is_finished());
    door.memory.next_file.notify_one();
    door.served.await.unwrap().unwrap();
    assert!(door.memory.was_asked().contains("import stopped"));
    assert!(tokio::net::TcpStream::connect(door.address).await.is_err());
}

#[tokio::test]
async fn the_door_opens_on_loopback_only() {
    let error = bind("0.0.0.0:0".parse().unwrap()).await.unwrap_err();
    assert!(error.to_string().contains("127.0.0.1:PORT"), "{error}");
}
