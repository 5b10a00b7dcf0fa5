//! Embedding services over real sockets, among them one that misbehaves in every way that services do.

mod fake_service;

use std::time::Duration;

use axum::{body::Body, http::Response};
use fake_service::{breaks_off, is_slow, patience, refuses, says};
use folklore_node::service::{
    CallError, EmbedConfig, Patience, Provider, Purpose, RemoteEmbedder, Secret, embed::DEFAULT_BATCH,
};
use serde_json::{Value, json};

const DIM: usize = 8;

/// One way to answer a request.
#[derive(Clone)]
enum Act {
    /// As a good service of the interface does.
    Well,
    /// A good answer in another order.
    Shuffled,
    /// A status, and how many seconds to wait where one is named.
    Status(u16, Option<u32>),
    /// Not within the patience of anybody here.
    Slow,
    /// A good answer that breaks off in the middle.
    CutOff,
    /// This instead of an answer.
    Says(String),
    /// As a service that takes no more than so many texts at once.
    AtMost(usize),
}

/// An embedding service on loopback. What is not planned is answered well.
type Fake = fake_service::Fake<Act>;

impl Fake {
    async fn new(acts: impl IntoIterator<Item = Act>) -> Self {
        Self::serve(acts, Act::Well, answer).await
    }

    fn embedder(&self, provider: Provider) -> RemoteEmbedder {
        RemoteEmbedder::new(EmbedConfig { url: self.url.clone(), ..config(provider) }).expect("a sound configuration")
    }
}

fn config(provider: Provider) -> EmbedConfig {
    EmbedConfig {
        provider,
        url: "http://127.0.0.1:1".into(),
        model: "small-1".into(),
        revision: "1".into(),
        dim: None,
        key: Some(Secret::new("sesame")),
        batch: DEFAULT_BATCH,
    }
}

/// What the fake makes of a text: depends on every byte, so that a mix-up is seen. Not of length 1.
fn vector(text: &str) -> Vec<f32> {
    let hash = blake3::hash(text.as_bytes());
    hash.as_bytes()[..DIM].iter().map(|byte| f32::from(*byte) - 100.5).collect()
}

fn unit(text: &str) -> Vec<f32> {
    let raw = vector(text);
    let norm = raw.iter().map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>().sqrt();
    raw.iter().map(|x| (f64::from(*x) / norm) as f32).collect()
}

fn texts_of(body: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    match body.get("input") {
        Some(input) => input.as_array().expect("a list").iter().map(text).collect(),
        None => {
            let requests = body["requests"].as_array().expect("a list").iter();
            requests.map(|one| text(&one["content"]["parts"][0]["text"])).collect()
        }
    }
}

async fn answer(act: Act, _path: String, body: Value) -> Response<Body> {
    let texts = texts_of(&body);
    let good = |shuffled: bool| {
        let mut data: Vec<Value> = texts
            .iter()
            .enumerate()
            .map(|(index, text)| json!({"object": "embedding", "index": index, "embedding": vector(text)}))
            .collect();
        if shuffled {
            data.reverse();
        }
        let answer = if body.get("input").is_some() {
            json!({"object": "list", "data": data, "model": body["model"]})
        } else {
            json!({"embeddings": texts.iter().map(|text| json!({"values": vector(text)})).collect::<Vec<_>>()})
        };
        answer.to_string()
    };
    match act {
        Act::Well => says(good(false)),
        Act::Shuffled => says(good(true)),
        Act::Says(text) => says(text),
        Act::AtMost(most) if texts.len() > most => refuses(413, None, "too many inputs"),
        Act::AtMost(_) => says(good(false)),
        Act::Status(status, wait) => {
            let words = "no, by key sk-proj-0a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0u1V2w3X\n\tsee the manual";
            refuses(status, wait, words)
        }
        Act::Slow => is_slow().await,
        Act::CutOff => breaks_off(&good(false)),
    }
}

#[tokio::test]
async fn each_text_gets_its_own_unit_vector_from_both_kinds_of_service() {
    for provider in [Provider::OpenAi, Provider::Gemini] {
        let fake = Fake::new([]).await;
        let embedder = fake.embedder(provider);
        assert_eq!(embedder.identity(), None, "nothing is known before the first answer");
        let texts: Vec<String> = (0..2 * DEFAULT_BATCH + 3).map(|n| format!("lesson {n}")).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let vectors = embedder.embed(&texts, Purpose::Document, patience(1)).await.expect("vectors");
        assert_eq!(vectors, texts.iter().map(|text| unit(text)).collect::<Vec<_>>());
        let identity = embedder.identity().expect("known now");
        assert_eq!((identity.name.as_str(), identity.dim), (format!("{}:small-1", provider.as_str()).as_str(), DIM));
        let requests = fake.requests();
        let sizes: Vec<usize> = requests.iter().map(|(_, _, body)| texts_of(body).len()).collect();
        assert_eq!(sizes, [DEFAULT_BATCH, DEFAULT_BATCH, 3]);
        let (path, headers, body) = &requests[0];
        match provider {
            Provider::OpenAi => {
                assert_eq!(path, "/v1/embeddings");
                assert_eq!(headers["authorization"], "Bearer sesame");
                assert_eq!(body["model"], "small-1");
            }
            Provider::Gemini => {
                assert_eq!(path, "/v1beta/models/small-1:batchEmbedContents");
                assert_eq!(headers["x-goog-api-key"], "sesame");
                assert_eq!(body["requests"][0]["taskType"], "RETRIEVAL_DOCUMENT");
            }
        }
        assert_eq!(embedder.embed(&[], Purpose::Query, patience(1)).await, Ok(vec![]));
    }
}

#[tokio::test]
async fn an_answer_in_another_order_is_put_in_order() {
    let fake = Fake::new([Act::Shuffled]).await;
    let vectors = fake.embedder(Provider::OpenAi).embed(&["a", "b", "c"], Purpose::Document, patience(1)).await;
    assert_eq!(vectors, Ok(vec![unit("a"), unit("b"), unit("c")]));
}

#[tokio::test]
async fn what_passes_is_tried_again_and_what_does_not_is_said() {
    let passing = [Act::Status(429, None), Act::Status(500, None), Act::Status(503, Some(0)), Act::CutOff];
    let fake = Fake::new(passing.clone()).await;
    let vectors = fake.embedder(Provider::OpenAi).embed(&["a"], Purpose::Document, patience(5)).await;
    assert_eq!(vectors, Ok(vec![unit("a")]));
    assert_eq!(fake.requests().len(), 5);
    // With fewer tries the last failure is the answer.
    let fake = Fake::new(passing).await;
    let failed = fake.embedder(Provider::OpenAi).embed(&["a"], Purpose::Document, patience(4)).await;
    assert!(matches!(failed, Err(CallError::Unreachable { .. })), "{failed:?}");

    let fake = Fake::new([Act::Status(401, None)]).await;
    let failed = fake.embedder(Provider::OpenAi).embed(&["a"], Purpose::Document, patience(5)).await.unwrap_err();
    assert!(matches!(failed, CallError::Refused { status: 401, .. }), "{failed:?}");
    assert_eq!(fake.requests().len(), 1, "a refusal is not argued with");
    let words = failed.to_string();
    assert!(words.contains("see the manual") && !words.contains("0a1B2c3D4e5F"), "{words}");
}

#[tokio::test]
async fn a_service_that_does_not_answer_costs_no_more_than_its_time() {
    let fake = Fake::new([Act::Slow]).await;
    let short = Patience { timeout: Duration::from_millis(300), ..patience(1) };
    let failed = fake.embedder(Provider::OpenAi).embed(&["a"], Purpose::Query, short).await.unwrap_err();
    assert!(failed.to_string().contains("did not answer in time"), "{failed}");
    assert!(failed.is_passing());

    let nobody = RemoteEmbedder::new(config(Provider::OpenAi)).expect("a sound configuration");
    let failed = nobody.embed(&["a"], Purpose::Query, patience(2)).await.unwrap_err();
    assert!(matches!(failed, CallError::Unreachable { .. }) && failed.is_passing(), "{failed:?}");
}

#[tokio::test]
async fn an_answer_that_is_none_is_never_believed() {
    let data = |vectors: &[&str]| {
        let data: Vec<String> = vectors.iter().map(|one| format!("{{\"embedding\":{one}}}")).collect();
        format!("{{\"data\":[{}]}}", data.join(","))
    };
    let bad = [
        ("a short list", data(&["[1,2]"])),
        ("a long list", data(&["[1,2]", "[1,2]", "[1,2]"])),
        ("two dimensions", data(&["[1,2]", "[1,2,3]"])),
        ("no components", data(&["[]", "[]"])),
        ("NaN, which is no JSON", data(&["[NaN,1]", "[1,2]"])),
        ("null", data(&["[null,1]", "[1,2]"])),
        ("more than an f32 holds", data(&["[1e39,1]", "[1,2]"])),
        ("zeros", data(&["[0,0]", "[1,2]"])),
        ("texts", data(&["[\"1\",1]", "[1,2]"])),
        ("one number twice", "{\"data\":[{\"index\":0,\"embedding\":[1]},{\"index\":0,\"embedding\":[1]}]}".into()),
        ("a number of no text", "{\"data\":[{\"index\":0,\"embedding\":[1]},{\"index\":7,\"embedding\":[1]}]}".into()),
        ("another shape", "{\"embeddings\":[[1,2],[1,2]]}".into()),
        ("a page", "<html>welcome to the hotel's network</html>".into()),
        ("nothing", String::new()),
    ];
    for (what, text) in bad {
        let fake = Fake::new([Act::Says(text)]).await;
        let embedder = fake.embedder(Provider::OpenAi);
        let failed = embedder.embed(&["a", "b"], Purpose::Document, patience(3)).await;
        assert!(matches!(failed, Err(CallError::BadAnswer { .. })), "{what}: {failed:?}");
        assert_eq!(fake.requests().len(), 1, "{what}");
        assert_eq!(embedder.identity(), None, "{what}: a bad answer settles nothing");
        // And a good one afterwards is taken.
        assert_eq!(embedder.embed(&["a"], Purpose::Document, patience(1)).await, Ok(vec![unit("a")]), "{what}");
    }
}

#[tokio::test]
async fn another_dimension_than_before_or_than_asked_for_is_refused() {
    let wrong = "{\"data\":[{\"embedding\":[1,2,3]}]}".to_owned();
    let fake = Fake::new([Act::Well, Act::Says(wrong.clone())]).await;
    let embedder = fake.embedder(Provider::OpenAi);
    embedder.embed(&["a"], Purpose::Document, patience(1)).await.expect("a vector");
    let failed = embedder.embed(&["a"], Purpose::Document, patience(1)).await.unwrap_err();
    assert!(failed.to_string().contains("3 components where 8 were expected"), "{failed}");

    let fake = Fake::new([Act::Says(wrong)]).await;
    let asked = EmbedConfig { url: fake.url.clone(), dim: Some(4), ..config(Provider::OpenAi) };
    let embedder = RemoteEmbedder::new(asked).expect("a sound configuration");
    assert!(embedder.embed(&["a"], Purpose::Document, patience(1)).await.is_err());
    assert_eq!(fake.requests()[0].2["dimensions"], 4);
}

#[tokio::test]
async fn a_batch_that_is_too_large_is_sent_in_parts_and_stays_in_order() {
    let fake = Fake::new(vec![Act::AtMost(3); 40]).await;
    let texts: Vec<String> = (0..20).map(|n| format!("text {n}")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let vectors = fake.embedder(Provider::OpenAi).embed(&texts, Purpose::Document, patience(1)).await;
    assert_eq!(vectors, Ok(texts.iter().map(|text| unit(text)).collect()));
    // One text alone that is too large is a refusal.
    let fake = Fake::new([Act::AtMost(0)]).await;
    let failed = fake.embedder(Provider::OpenAi).embed(&["a"], Purpose::Document, patience(1)).await;
    assert!(matches!(failed, Err(CallError::Refused { status: 413, .. })), "{failed:?}");
}

#[tokio::test]
async fn who_and_where_and_credentials_do_not_leave_the_node() {
    let fake = Fake::new([]).await;
    let text = "mail jane.roe@quayhotels.fr the token ghp_0123456789abcdefghijABCDEFGHIJ012345 for the report";
    fake.embedder(Provider::OpenAi).embed(&[text, "", "   "], Purpose::Query, patience(1)).await.expect("vectors");
    let sent = texts_of(&fake.requests()[0].2);
    assert!(!sent[0].contains("jane.roe") && !sent[0].contains("ghp_0123"), "{sent:?}");
    assert!(sent[0].contains("for the report"), "{sent:?}");
    assert_eq!(&sent[1..], [".", "."], "an empty text would make the whole batch be refused");
}

#[test]
fn a_configuration_that_cannot_be_meant_is_refused_in_words() {
    let refused = |change: fn(&mut EmbedConfig)| {
        let mut config = config(Provider::OpenAi);
        change(&mut config);
        RemoteEmbedder::new(config).map(|embedder| embedder.describe()).expect_err("must be refused")
    };
    assert!(refused(|c| c.url = "localhost:11434".into()).contains("http://"));
    assert!(refused(|c| c.url = "ftp://127.0.0.1".into()).contains("http://"));
    assert!(refused(|c| c.url = "http://me:secret@127.0.0.1".into()).contains("key"));
    assert!(refused(|c| c.model = String::new()).contains("name"));
    assert!(refused(|c| c.model = "a b".into()).contains("name"));
    assert!(refused(|c| c.batch = 0).contains("batch"));
    assert!(refused(|c| c.dim = Some(0)).contains("dimensions"));
    assert!(!format!("{:?}", config(Provider::Gemini)).contains("sesame"));
}
