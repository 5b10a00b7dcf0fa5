//! A daemon with an embedding service as its second embedder: the built-in one answers until the service has made all
//! vectors, and whenever it is away, and says so.

mod common;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{Router, body::Bytes, extract::State, http::StatusCode, response::IntoResponse};
use common::Running;
use folklore_node::{api::UpOptions, embedding::EmbedderOptions, service::Provider};
use folklore_store::embed::{BuiltinEmbedder, Embedder};
use serde_json::{Value, json};

/// Components of the service's vectors: another space than the built-in one's 256.
const DIM: usize = 257;
const BUILTIN: &str = "folklore-static";
const REMOTE: &str = "openai:meaning-1";

#[derive(Default)]
struct Service {
    is_down: AtomicBool,
    texts: AtomicUsize,
    /// A text for which the answer is unusable.
    poison: Mutex<Option<String>>,
}

/// An embedding service that knows what texts mean: the built-in vectors with one component more.
struct Fake {
    url: String,
    service: Arc<Service>,
    task: tokio::task::JoinHandle<()>,
}

impl Fake {
    async fn new() -> Self {
        let service = Arc::new(Service::default());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let router = Router::new().fallback(answer).with_state(Arc::clone(&service));
        let task = tokio::spawn(async move { axum::serve(listener, router).await.expect("served") });
        Self { url, service, task }
    }

    fn options(&self, model: &str) -> UpOptions {
        let embedder = EmbedderOptions {
            provider: Some(Provider::OpenAi),
            url: Some(self.url.clone()),
            model: Some(model.into()),
            batch: Some(8),
            ..EmbedderOptions::default()
        };
        UpOptions { embedder, ..UpOptions::default() }
    }

    fn down(&self, is_down: bool) {
        self.service.is_down.store(is_down, Ordering::SeqCst);
    }

    fn texts(&self) -> usize {
        self.service.texts.load(Ordering::SeqCst)
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn answer(State(service): State<Arc<Service>>, body: Bytes) -> axum::response::Response {
    if service.is_down.load(Ordering::SeqCst) {
        return (StatusCode::SERVICE_UNAVAILABLE, "under repair").into_response();
    }
    let body: Value = serde_json::from_slice(&body).expect("JSON");
    let texts: Vec<&str> = body["input"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
    let poison = service.poison.lock().expect("not poisoned").clone();
    if poison.is_some_and(|poison| texts.iter().any(|text| text.contains(&poison))) {
        return "{\"data\": []}".into_response();
    }
    service.texts.fetch_add(texts.len(), Ordering::SeqCst);
    let vectors = BuiltinEmbedder::new().embed(&texts).expect("the built-in embedder cannot fail");
    let wide = |vector: Option<Vec<f32>>| {
        let mut vector = vector.unwrap_or_else(|| vec![0.0; DIM - 1]);
        vector.push(0.1);
        vector
    };
    let data: Vec<Value> = vectors.into_iter().map(|vector| json!({"embedding": wide(vector)})).collect();
    json!({"data": data}).to_string().into_response()
}

fn lesson(n: usize) -> Value {
    const ROOMS: [&str; 5] = ["kitchen", "attic", "cellar", "garage", "workshop"];
    const THINGS: [&str; 4] = ["boiler", "freezer", "lathe", "window"];
    let (room, thing) = (ROOMS[n % 5], THINGS[n / 5 % 4]);
    json!({
        "kind": "pitfall",
        "title": format!("The {thing} in the {room} must be off before its cover is opened"),
        "applies_when": format!("Somebody repairs the {thing} that stands in the {room}."),
        "content": format!("Opening the cover of the {thing} while it runs breaks the {room} fuse."),
        "task": format!("Repair the {thing} in the {room}"),
        "domain": "house",
    })
}

const LESSONS: usize = 20;

async fn teach_all(node: &Running) {
    for n in 0..LESSONS {
        node.post("teach", &lesson(n)).await;
    }
}

/// A query in other words, and what the answer to it says.
async fn ask(node: &Running) -> Value {
    let answer = node.post("recall", &json!({"task": "mend the lathe down in the cellar", "k": 1})).await;
    let hit = &answer["hits"][0]["lesson"]["task"];
    assert_eq!(hit, "Repair the lathe in the cellar", "{answer}");
    answer
}

/// Waits for a state of the second embedder.
async fn embedding(node: &Running, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    for _ in 0..1200 {
        let status = node.get("status").await;
        if is_so(&status["embedding"]) {
            return status;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("waited in vain until {what}: {}", node.get("status").await["embedding"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_builtin_embedder_answers_until_the_service_is_there_and_whenever_it_is_not() {
    let fake = Fake::new().await;
    fake.down(true);
    let home = tempfile::tempdir().expect("a directory");
    let node = Running::start(home.path(), fake.options("meaning-1")).await;
    teach_all(&node).await;
    embedding(&node, "the failure is told", |e| e["error"].as_str().is_some_and(|e| e.contains("503"))).await;
    let answer = ask(&node).await;
    assert_eq!(answer["embedder"]["name"], BUILTIN);
    assert!(answer["note"].as_str().is_some_and(|note| note.contains("built-in") && note.contains("503")), "{answer}");

    fake.down(false);
    let status = embedding(&node, "it answers", |e| e["answers"] == true && e["waiting"] == 0).await;
    assert_eq!((&status["embedder"]["name"], &status["embedder"]["dim"]), (&json!(REMOTE), &json!(DIM)));
    assert_eq!(status["jobs"], json!({"waiting": 0, "failed": 0}));
    let answer = ask(&node).await;
    assert_eq!((&answer["embedder"]["name"], &answer["note"]), (&json!(REMOTE), &Value::Null));
    // A lesson that comes now gets its vectors without a restart.
    let before = fake.texts();
    node.post(
        "teach",
        &json!({"kind": "pitfall", "title": "The shed's door opens outwards", "content": "Pull it.",
        "applies_when": "Somebody is in front of the shed.", "task": "Open the shed"}),
    )
    .await;
    for _ in 0..600 {
        if fake.texts() >= before + 2 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    embedding(&node, "the new one has its vectors", |e| e["waiting"] == 0).await;

    fake.down(true);
    let answer = ask(&node).await;
    assert_eq!(answer["embedder"]["name"], BUILTIN);
    assert!(answer["note"].as_str().is_some_and(|note| note.contains("built-in")), "{answer}");
    node.stop().await;

    // The vectors are kept: after a restart only what begins the work is asked for.
    fake.down(false);
    let before = fake.texts();
    let node = Running::start(home.path(), fake.options("meaning-1")).await;
    embedding(&node, "it answers again", |e| e["answers"] == true && e["waiting"] == 0).await;
    assert!(fake.texts() - before < 2 * LESSONS, "{} texts were embedded again", fake.texts() - before);
    assert_eq!(ask(&node).await["embedder"]["name"], REMOTE);
    node.stop().await;

    // Another model is another space: all is embedded again, and nothing is mixed.
    let before = fake.texts();
    let node = Running::start(home.path(), fake.options("meaning-2")).await;
    embedding(&node, "the other model answers", |e| e["answers"] == true && e["waiting"] == 0).await;
    assert!(fake.texts() - before >= 2 * (LESSONS + 1), "only {} texts were embedded", fake.texts() - before);
    assert_eq!(ask(&node).await["embedder"]["name"], "openai:meaning-2");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lesson_that_the_service_cannot_embed_holds_up_no_other_and_is_found_by_its_words() {
    let fake = Fake::new().await;
    *fake.service.poison.lock().expect("not poisoned") = Some("lathe in the cellar".into());
    let home = tempfile::tempdir().expect("a directory");
    let node = Running::start(home.path(), fake.options("meaning-1")).await;
    teach_all(&node).await;
    let status = embedding(&node, "all others have theirs", |e| e["waiting"] == 1 && e["failed"] == 1).await;
    assert!(status["embedding"]["error"].as_str().is_some_and(|e| e.contains("0 vectors")), "{status}");
    // One in twenty may wait: the service answers, and what waits is among the hits by its words.
    assert_eq!(status["embedding"]["answers"], true);
    let answer = node.post("recall", &json!({"task": "mend the lathe down in the cellar", "k": 5})).await;
    assert_eq!(answer["embedder"]["name"], REMOTE);
    let hits: Vec<&str> =
        answer["hits"].as_array().expect("hits").iter().filter_map(|h| h["lesson"]["task"].as_str()).collect();
    assert!(hits.contains(&"Repair the lathe in the cellar"), "{hits:?}");
    // Once the service has learnt better there is nothing left to do, after its hour; a restart does not wait for it.
    *fake.service.poison.lock().expect("not poisoned") = None;
    node.stop().await;
    let node = Running::start(home.path(), fake.options("meaning-1")).await;
    embedding(&node, "all have theirs", |e| e["answers"] == true && e["waiting"] == 0 && e["failed"] == 0).await;
    assert_eq!(ask(&node).await["embedder"]["name"], REMOTE);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_texts_are_sent_in_an_hour_than_allowed() {
    let fake = Fake::new().await;
    let home = tempfile::tempdir().expect("a directory");
    let mut options = fake.options("meaning-1");
    options.embedder.texts_an_hour = Some(16);
    let node = Running::start(home.path(), options).await;
    teach_all(&node).await;
    let told = |e: &Value| e["error"].as_str().is_some_and(|error| error.contains("16 texts"));
    let status = embedding(&node, "the bound is told", told).await;
    let waiting = status["embedding"]["waiting"].as_u64().expect("a number");
    assert!((LESSONS as u64 - 8..LESSONS as u64).contains(&waiting), "{status}");
    assert_eq!(ask(&node).await["embedder"]["name"], BUILTIN);
    node.stop().await;
}
