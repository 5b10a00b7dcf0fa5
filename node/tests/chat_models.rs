//! Chat models over real sockets, among them one that misbehaves in every way that services do.

mod fake_model;
mod fake_service;

use std::time::{Duration, Instant};

use fake_model::{Act, Fake, asked, good_answer};
use fake_service::patience;
use folklore_node::service::{
    CallError, ChatConfig, ChatModel, ChatProvider, Patience, Secret,
    chat::{Prompt, Reply},
};

fn model(fake: &Fake, provider: ChatProvider) -> ChatModel {
    let key = Some(Secret::new("sesame"));
    ChatModel::new(ChatConfig { provider, url: fake.url.clone(), model: "small-1".into(), key }).expect("sound")
}

fn prompt() -> Prompt {
    Prompt { system: "the rules".into(), user: "RUN 1\nstep 1\naction:\n> get_order with its id".into() }
}

#[tokio::test]
async fn each_interface_is_spoken_as_its_author_published_it() {
    for provider in ChatProvider::ALL {
        let fake = Fake::new([]).await;
        let then = [Reply { answered: "{", objection: "that is cut off" }];
        let model = model(&fake, provider);
        let answer = model.ask(&prompt(), &then, patience(1)).await.expect("an answer");
        let (path, headers, body) = &fake.requests()[0];
        assert_eq!(answer, good_answer(body), "{provider:?}");
        assert_eq!(asked(body), "that is cut off");
        match provider {
            ChatProvider::OpenAi => {
                assert_eq!(
                    (path.as_str(), &headers["authorization"]),
                    ("/v1/chat/completions", &"Bearer sesame".parse().unwrap())
                );
                let roles: Vec<_> = body["messages"].as_array().unwrap().iter().map(|m| m["role"].clone()).collect();
                assert_eq!(roles, ["system", "user", "assistant", "user"]);
            }
            ChatProvider::Gemini => {
                assert_eq!(path, "/v1beta/models/small-1:generateContent");
                assert_eq!(headers["x-goog-api-key"], "sesame");
                assert_eq!(body["contents"][1]["role"], "model");
            }
            ChatProvider::Anthropic => {
                assert_eq!((path.as_str(), &headers["x-api-key"]), ("/v1/messages", &"sesame".parse().unwrap()));
                assert_eq!(
                    (&headers["anthropic-version"], &body["system"]),
                    (&"2023-06-01".parse().unwrap(), &"the rules".into())
                );
            }
        }
        assert!(!model.describe().contains("sesame") && !format!("{model:?}").contains("sesame"));
    }
}

#[tokio::test]
async fn what_passes_is_tried_again_as_long_as_the_service_asks() {
    let fake = Fake::new([Act::Status(500, None), Act::CutOff, Act::Status(429, Some(1))]).await;
    let began = Instant::now();
    model(&fake, ChatProvider::OpenAi).ask(&prompt(), &[], patience(4)).await.expect("an answer in the end");
    assert_eq!(fake.requests().len(), 4);
    assert!(began.elapsed() >= Duration::from_secs(1), "the second that Retry-After names is waited");
    let fake = Fake::new([Act::Status(401, None)]).await;
    let failed = model(&fake, ChatProvider::OpenAi).ask(&prompt(), &[], patience(4)).await.unwrap_err();
    assert!(
        matches!(failed, CallError::Refused { status: 401, .. }) && !failed.to_string().contains("sesame"),
        "{failed}"
    );
    assert_eq!(fake.requests().len(), 1, "a refusal is not argued with");
    let fake = Fake::new([Act::Slow]).await;
    let short = Patience { timeout: Duration::from_millis(300), ..patience(1) };
    let failed = model(&fake, ChatProvider::OpenAi).ask(&prompt(), &[], short).await.unwrap_err();
    assert!(failed.is_passing() && failed.to_string().contains("in time"), "{failed}");
}

#[tokio::test]
async fn an_answer_that_is_none_is_never_passed_on() {
    for (act, says) in [
        (Act::Raw(String::new()), "not the JSON"),
        (Act::Raw("<html>Welcome to the hotel's network</html>".into()), "not the JSON"),
        (Act::Raw("{\"data\": []}".into()), "no choices"),
        (Act::Raw("{\"choices\": [{\"message\": {\"content\": null}}]}".into()), "no words"),
        (Act::Says("  \n ".into()), "no words"),
        (Act::AtLimit, "cut off"),
        (Act::Huge(10 * 1024 * 1024), "longer than"),
    ] {
        let fake = Fake::new([act.clone()]).await;
        let failed = model(&fake, ChatProvider::OpenAi).ask(&prompt(), &[], patience(3)).await.unwrap_err();
        assert!(matches!(&failed, CallError::BadAnswer { reason, .. } if reason.contains(says)), "{says}: {failed}");
        assert_eq!(fake.requests().len(), 1);
    }
}

#[tokio::test]
async fn who_and_where_and_credentials_do_not_leave_the_node() {
    for provider in ChatProvider::ALL {
        let fake = Fake::new([]).await;
        let told = "mail jane.roe@quayhotels.fr the token ghp_0123456789abcdefghijABCDEFGHIJ012345 for the report";
        let prompt = Prompt { system: told.into(), user: format!("RUN 1\nstep 1\n> {told}") };
        let then = [Reply { answered: told, objection: told }];
        model(&fake, provider).ask(&prompt, &then, patience(1)).await.expect("an answer");
        let sent = fake.requests()[0].2.to_string();
        assert!(!sent.contains("jane.roe") && !sent.contains("ghp_0123") && sent.contains("for the report"), "{sent}");
        assert_eq!(sent.matches("for the report").count(), 4);
    }
}

#[test]
fn a_configuration_that_cannot_be_meant_is_refused_in_words() {
    let refused = |url: &str, name: &str| {
        let (url, model) = (url.to_owned(), name.to_owned());
        ChatModel::new(ChatConfig { provider: ChatProvider::Gemini, url, model, key: None })
            .map(drop)
            .expect_err("refused")
    };
    assert!(refused("http://127.0.0.1:1", "").contains("name"));
    assert!(refused("http://127.0.0.1:1", "../../other").contains("name"));
    assert!(refused("http://127.0.0.1:1", "m?key=x").contains("name"));
    assert!(refused("localhost:1", "m").contains("http://"));
    assert!(refused("http://me:secret@127.0.0.1", "m").contains("key"));
}
