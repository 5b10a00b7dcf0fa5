//! Planted credentials and identity data appear nowhere: not in the homes, not on the wire, not in what a model is sent, not in the
//! logs, not in answers.

use std::{fs, path::Path};

use aho_corasick::AhoCorasick;
use folklore_tests::{
    Link, Node, PATIENCE,
    files::{base64_cores, files, find},
    inputs::{Dice, hotel_file, hotel_run, lesson, write},
    model::Model,
    node::{join, same_root, text},
    until,
};
use serde_json::{Value, json};

const ALNUM: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const BASE32: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const LETTERS: &str = "abcdefghijklmnopqrstuvwxyz";
const HEX: &str = "0123456789abcdef";
const URL64: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const BASE64: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// A credential made up at run time, so that nothing in the repository looks like one.
struct Secret {
    what: &'static str,
    /// As it stands in a text.
    text: String,
    /// The parts that may be found nowhere.
    needles: Vec<String>,
}

/// Kinds of credentials, and of identity data, that [`secrets`] makes.
const CREDENTIAL_KINDS: usize = 20;
const IDENTITY_KINDS: usize = 3;
/// How many of each.
const OF_EACH: usize = 3;

/// Several of each kind.
fn secrets(dice: &mut Dice) -> Vec<Secret> {
    (0..OF_EACH).flat_map(|_| one_of_each(dice)).collect()
}

/// One of each kind. The parts are at least 16 characters, so that none is found by chance.
fn one_of_each(dice: &mut Dice) -> Vec<Secret> {
    let mut made = Vec::new();
    let mut plain = |what, before: &str, secret: String, after: &str| {
        made.push(Secret { what, text: format!("{before}{secret}{after}"), needles: vec![secret] });
    };
    plain("AWS key id", "", format!("AKIA{}", dice.text(BASE32, 16)), "");
    plain("AWS secret key", "aws_secret_access_key = ", dice.text(BASE64, 40), "");
    plain("GitHub token", "", format!("ghp_{}", dice.text(ALNUM, 36)), "");
    plain(
        "Slack token",
        "",
        format!("xoxb-{}-{}-{}", dice.text("123456789", 12), dice.text("123456789", 12), dice.text(ALNUM, 24)),
        "",
    );
    plain("Google API key", "https://maps.example/api?key=", format!("AIza{}", dice.text(URL64, 35)), "&q=1");
    plain("OpenAI key", "OPENAI_API_KEY=", format!("sk-proj-{}", dice.text(ALNUM, 48)), "");
    plain("Stripe key", "", format!("sk_live_{}", dice.text(ALNUM, 24)), "");
    plain("GitLab token", "", format!("glpat-{}", dice.text(URL64, 20)), "");
    plain("npm token", "//registry.example/:_authToken=", format!("npm_{}", dice.text(ALNUM, 36)), "");
    plain("SendGrid key", "", format!("SG.{}.{}", dice.text(URL64, 22), dice.text(URL64, 43)), "");
    plain("Hugging Face token", "", format!("hf_{}", dice.text(ALNUM, 34)), "");
    plain("DigitalOcean token", "", format!("dop_v1_{}", dice.text(HEX, 64)), "");
    plain("Shopify token", "", format!("shpat_{}", dice.text(HEX, 32)), "");
    plain("e-mail address", "", format!("{}@quayhotels.fr", dice.text(LETTERS, 18)), "");
    plain("home directory", "/home/", dice.text(LETTERS, 18), "/notes.txt");
    plain("internal host", "http://", format!("{}.corp.quayhotels.internal", dice.text(LETTERS, 18)), "/");
    plain("password assignment", "DB_PASSWORD=\"", dice.text(ALNUM, 20), "\"");
    plain("password in JSON", "{\"user\": \"deploy\", \"password\": \"", dice.text(ALNUM, 22), "\"}");
    plain("password in a URL", "postgres://deploy:", dice.text(ALNUM, 20), "@db.example:5432/app");
    // 27 bytes, so that the base64 of it needs no padding.
    let login = base64_cores(format!("deploy:{}", dice.text(ALNUM, 20)).as_bytes()).swap_remove(0);
    plain("basic authorization", "Authorization: Basic ", login, "");
    let claims = |dice: &mut Dice| format!("eyJ{}", dice.text(URL64, 57));
    let jwt = format!("{}.{}.{}", "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9", claims(dice), dice.text(URL64, 43));
    let parts = jwt.split('.').skip(1).map(str::to_owned).collect();
    made.push(Secret { what: "bearer token", text: format!("Authorization: Bearer {jwt}"), needles: parts });
    let lines: Vec<String> = (0..6).map(|_| dice.text(BASE64, 64)).collect();
    let pem = |dashes: &str| {
        format!("{dashes}BEGIN RSA PRIVATE KEY{dashes}\n{}\n{dashes}END RSA PRIVATE KEY{dashes}", lines.join("\n"))
    };
    made.push(Secret { what: "private key", text: pem("-----"), needles: lines.clone() });
    let hex = dice.text(HEX, 64);
    made.push(Secret { what: "secret in YAML", text: format!("client_secret: {hex}"), needles: vec![hex] });
    made
}

/// A lesson with the secret in every text field, but in no field whose bound it would break.
fn lesson_with(secret: &Secret, n: usize) -> Value {
    let mut lesson = lesson(&format!("word{n}"));
    let fields: &[&str] = if secret.text.len() < 120 {
        &["title", "applies_when", "not_when", "content", "task"]
    } else {
        &["applies_when", "not_when", "content", "task"]
    };
    for field in fields {
        lesson[*field] = json!(format!("{} It used {} for it.", text(&lesson[*field]), secret.text));
    }
    if secret.text.len() < 60 {
        lesson["tags"] = json!(["heating", secret.text]);
        lesson["domain"] = json!(secret.text);
    }
    lesson["evidence"] = json!({"outcome": "failure", "agent": "boiler agent", "judged_by": "foreman"});
    if secret.text.len() < 60 {
        lesson["evidence"]["agent"] = json!(secret.text);
        lesson["evidence"]["judged_by"] = json!(secret.text);
    }
    lesson
}

/// A run with the secret in the task and in every part of its steps, also in what a lesson quotes.
fn run_with(secret: &Secret, n: u64) -> Value {
    let mut run = hotel_run(n);
    let more = |value: &mut Value| *value = json!(format!("{} {}", value.as_str().unwrap_or_default(), secret.text));
    more(&mut run["info"]["task"]["instruction"]);
    for message in run["traj"].as_array_mut().expect("messages") {
        more(&mut message["content"]);
        for call in message["tool_calls"].as_array_mut().into_iter().flatten() {
            let arguments: Value =
                serde_json::from_str(call["function"]["arguments"].as_str().expect("JSON")).expect("JSON");
            let mut arguments = arguments;
            arguments["note"] = json!(secret.text);
            call["function"]["arguments"] = json!(arguments.to_string());
        }
    }
    run["info"]["task"]["actions"][0]["kwargs"]["note"] = json!(secret.text);
    run
}

/// A coding trajectory with the secret in thoughts, commands and output.
fn trajectory_with(secret: &Secret, n: usize) -> Value {
    let mut messages = vec![
        json!({"role": "system", "content": "You fix bugs with a shell."}),
        json!({"role": "user", "content": format!("<pr_description>\nThe boiler tool number {n} crashes when it logs in with {}\n</pr_description>", secret.text)}),
    ];
    for step in 0..4 {
        let command = format!(
            "THOUGHT: Try it with {}.\n\n```bash\nboiler login --step {step} '{}' && pytest tests/test_login_{n}.py\n```",
            secret.text, secret.text
        );
        messages.push(json!({"role": "assistant", "content": command}));
        let output = format!(
            "<returncode>1</returncode>\n<output>\nE   LoginError: {} was refused at step {step}\n1 failed\n</output>",
            secret.text
        );
        messages.push(json!({"role": "user", "content": output}));
    }
    json!({
        "instance_id": format!("boiler__login-{n}"),
        "trajectory_format": "mini-swe-agent-1",
        "info": {"exit_status": "Submitted", "submission": format!("+ token = '{}'", secret.text)},
        "messages": messages,
    })
}

/// Requires that no part of a secret is in any file below `path`. Returns how many files and bytes were searched.
#[track_caller]
fn nowhere_in(path: &Path, secrets: &[Secret]) -> (usize, u64) {
    let (mut searched, mut bytes) = (0, 0);
    for file in files(path).expect("the directory can be read") {
        let Ok(content) = fs::read(&file) else { continue };
        assert_eq!(found_in(&content, secrets), None, "in {}", file.display());
        searched += 1;
        bytes += content.len() as u64;
    }
    (searched, bytes)
}

/// Which secret stands in `content` and where: a part of it as it is, as base64 at any alignment, or as hex.
fn found_in(content: &[u8], secrets: &[Secret]) -> Option<String> {
    let (mut forms, mut of) = (Vec::new(), Vec::new());
    for secret in secrets {
        for needle in &secret.needles {
            forms.extend([vec![needle.clone(), hex(needle.as_bytes())], base64_cores(needle.as_bytes())].concat());
            of.resize(forms.len(), secret.what);
        }
    }
    // All in one pass: there are hundreds of them, and hundreds of megabytes of logs.
    let hit = AhoCorasick::new(&forms).expect("a search for plain words").find(content)?;
    let (what, at) = (of[hit.pattern().as_usize()], hit.start());
    let near = &content[at.saturating_sub(160)..(at + 40).min(content.len())];
    Some(format!("{what} at byte {at}: …{:?}…", String::from_utf8_lossy(near)))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn planted_secrets_are_neither_on_disk_nor_on_the_wire_nor_at_a_model_nor_in_logs_nor_in_answers() {
    let secrets = secrets(&mut Dice(2026));
    assert_eq!(secrets.len(), OF_EACH * (CREDENTIAL_KINDS + IDENTITY_KINDS));
    let model = Model::new(false);
    let (mut a, mut b) = (Node::new("a"), Node::new("b"));
    for node in [&mut a, &mut b] {
        node.env.push(("FOLKLORE_LOG".into(), "trace".into()));
        node.up_args.extend(["-v", "-v", "-v"].map(Into::into));
    }
    let link = Link::between(&mut a, &mut b);
    let bank = join(&a, &b);

    // Taught, with a secret in every field.
    let mut ids = Vec::new();
    for (n, secret) in secrets.iter().enumerate() {
        let ran = a.run_with(["teach"], &lesson_with(secret, n).to_string()).ok();
        let answer = ran.json();
        assert!(
            answer["redacted"].as_array().is_some_and(|rules| !rules.is_empty()),
            "the {} was not noticed: {answer}",
            secret.what
        );
        ids.push(text(&answer["id"]));
    }
    // Taught badly: what is refused is not to be found either.
    for secret in &secrets {
        let (code, answer) =
            a.door().post("teach", &json!({"kind": "pitfall", "title": "t", "content": "c", secret.text.as_str(): 1}));
        assert_eq!(code, 400, "{answer}");
        a.door()
            .raw(
                format!(
                    "POST /v1/teach HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n{}",
                    a.door().address,
                    secret.text
                )
                .as_bytes(),
            )
            .ok();
    }

    // Under way, with a secret in every field, ended and left open.
    for (n, secret) in secrets.iter().enumerate() {
        let text_of = |what: &str| format!("{what} {n}: {}", secret.text);
        let post = |verb: &str, request: Value| {
            let (code, answer) = a.door().post(verb, &request);
            assert_eq!(code, 200, "{}: {answer}", secret.what);
            answer
        };
        let begun = post(
            "begin",
            json!({"task": text_of("log the boiler in"), "task_key": text_of("key"), "domain": text_of("plant"),
                "agent": text_of("clerk"), "tags": [text_of("tag")]}),
        );
        let step = json!({"run": begun["run"], "n": 1, "think": text_of("think"), "action": text_of("do"),
            "observation": text_of("see")});
        let mut mark = step.clone();
        mark["started"] = json!(true);
        assert_ne!(post("step", mark)["redacted"], json!([]), "{}", secret.what);
        post("step", step.clone());
        let mut next = step;
        (next["n"], next["started"]) = (json!(2), json!(true));
        post("step", next);
        let held = post("resume", json!({"run": begun["name"]}));
        assert_eq!(found_in(held.to_string().as_bytes(), std::slice::from_ref(secret)), None);
        if n % 2 == 0 {
            post(
                "end",
                json!({"run": held["run"], "outcome": "failure", "reason": text_of("because"),
                "judged_by": text_of("judge")}),
            );
        }
    }

    // Imported, in three formats, whole and broken.
    let dir = a.scratch().join("in");
    let mut paths = Vec::new();
    let runs: Vec<Value> = secrets.iter().zip(200..).map(|(secret, n)| run_with(secret, n)).collect();
    let tau = Value::from(runs).to_string();
    paths.push(write(&dir, "desk.json", tau.as_bytes()));
    paths.push(write(&dir, "cut.json", &tau.as_bytes()[..tau.len() / 2]));
    let outcomes: Vec<Value> =
        (0..secrets.len()).map(|n| json!({"instance_id": format!("boiler__login-{n}"), "resolved": false})).collect();
    let outcomes = write(a.scratch(), "outcomes.json", Value::from(outcomes).to_string().as_bytes());
    for (n, secret) in secrets.iter().enumerate() {
        paths.push(write(&dir, &format!("login-{n}.traj.json"), trajectory_with(secret, n).to_string().as_bytes()));
    }
    let bank_lines: Vec<String> = secrets.iter().enumerate().map(|(n, secret)| json!({
        "task_id": format!("bank-{n}"), "query": format!("log the boiler in with {}", secret.text), "think_list": [format!("I use {}", secret.text)],
        "action_list": [format!("login({:?})", secret.text)], "status": "fail", "memory_items": [secret.text], "template_id": n,
    }).to_string()).collect();
    paths.push(write(&dir, "bank.jsonl", bank_lines.join("\n").as_bytes()));
    let unknown: Vec<String> =
        secrets.iter().map(|secret| json!({secret.text.as_str(): secret.text}).to_string()).collect();
    paths.push(write(&dir, "unknown.jsonl", unknown.join("\n").as_bytes()));
    let odd: Vec<String> = secrets
        .iter()
        .map(|secret| json!({"task_id": secret.text, "reward": secret.text, "traj": secret.text}).to_string())
        .collect();
    paths.push(write(&dir, "odd.json", format!("[{}]", odd.join(",")).as_bytes()));
    paths.push(hotel_file(&dir, &format!("{}.json", secrets[0].text), 300..301));
    let args = ["import".into(), "--outcomes".into(), outcomes.into_os_string()]
        .into_iter()
        .chain(paths.into_iter().map(Into::into));
    let imported = a.run::<std::ffi::OsString>(args).code(6).json();
    assert!(imported["lessons"].as_u64() > Some(secrets.len() as u64), "{imported}");

    // Drawn by a model, which is sent the runs, and asked about by an agent's own.
    let drawn: Vec<Value> = secrets.iter().zip(400..).map(|(secret, n)| run_with(secret, n)).collect();
    let drawn = write(&dir, "drawn.json", Value::from(drawn).to_string().as_bytes());
    let args = ["import", "--induce", "openai", "--model", "m", "--base-url", &format!("http://{}", model.address)];
    let args = args.map(Into::into).into_iter().chain([drawn.into_os_string()]);
    let queued = a.run::<std::ffi::OsString>(args).ok().json();
    assert_eq!(queued["queued"], secrets.len(), "{queued}");
    until("the model has seen all runs", PATIENCE * 4, || {
        (a.json(["jobs"])["jobs"].as_array()?.is_empty()).then_some(())
    });
    assert!(model.asked() >= secrets.len(), "{}", model.asked());
    let heard = model.heard();
    assert!(heard.contains("update_booking_room"), "what stood around the secrets was sent");
    assert_eq!(found_in(heard.as_bytes(), &secrets), None, "in what the model was sent");

    // Said about lessons, and asked, also over the network.
    let digest = "ab".repeat(32);
    a.json(["rate", &ids[0], "helped", "--run", &digest]);
    let mut answers = String::new();
    for (n, (secret, id)) in secrets.iter().zip(&ids).enumerate() {
        let task = format!("log the boiler in with {}", secret.text);
        let post = |node: &Node, verb: &str, request: Value| {
            let (code, answer) = node.door().post(verb, &request);
            assert_eq!(code, 200, "{}: {verb}: {answer}", secret.what);
            answer.to_string()
        };
        answers += &post(&a, "show", json!({"id": id}));
        answers += &post(&a, "withdraw", json!({"id": id, "reason": format!("it leaked {}", secret.text)}));
        for node in [&a, &b] {
            for scope in ["local", "network"] {
                answers += &post(node, "recall", json!({"task": task, "k": 8, "scope": scope, "explain": true}));
            }
            // No run has these words, and what is said then repeats nothing either.
            answers += &node.door().post("attempts", &json!({"task": task})).1.to_string();
        }
        // The command itself for one of each kind: its own texts and errors go to the same places.
        if n >= CREDENTIAL_KINDS + IDENTITY_KINDS {
            continue;
        }
        for node in [&a, &b] {
            answers += &node.run(["recall", &task, "--scope", "network", "--format", "prompt"]).ok().stdout;
        }
        a.run(["rate", &secret.text, "hurt"]);
        a.run(["show", &secret.text]);
        a.run(["bank", "join", &secret.text]);
    }
    for node in [&a, &b] {
        for verb in ["status", "jobs", "peers"] {
            answers += &node.door().get(verb).1.to_string();
        }
        answers += &node.door().post("runs", &json!({"all": true})).1.to_string();
        answers += &serde_json::Value::from(node.lessons()).to_string();
    }
    assert!(answers.len() > 100_000, "{} bytes of answers say little", answers.len());
    assert_eq!(found_in(answers.as_bytes(), &secrets), None, "in what the nodes answered");
    same_root(&a, &b, &bank);
    let lessons = b.lessons().len();
    assert!(lessons > secrets.len(), "{lessons}");
    // What stood around the secrets is there, or searching for them would show nothing.
    for (node, around) in [(&a, "boiler login --step 2"), (&b, "used")] {
        let mut stored = files(node.data()).expect("a home").into_iter().filter_map(|file| fs::read(file).ok());
        assert!(stored.any(|content| find(&content, around.as_bytes()).is_some()), "{around}");
    }

    assert_eq!(found_in(&link.overheard(), &secrets), None, "in what went over the link");
    let mut all = (0, 0);
    for node in [&mut a, &mut b] {
        // While it runs, after a crash, and after a clean end.
        let mut look = |node: &Node| {
            let (files, bytes) = nowhere_in(node.data(), &secrets);
            all = (all.0 + files, all.1 + bytes);
            let log = fs::read(node.log()).expect("a log");
            assert!(log.len() > 10_000, "the log says little, so searching it shows nothing");
            assert_eq!(found_in(&log, &secrets), None, "in the log");
        };
        let token = node.door().token().to_owned();
        look(node);
        node.kill();
        look(node);
        node.up();
        let later = node.door().token().to_owned();
        node.stop();
        look(node);
        let log = fs::read(node.log()).expect("a log");
        for token in [token, later] {
            assert!(token.len() >= 16, "a short token");
            assert_eq!(find(&log, token.as_bytes()), None, "the door's token is in the log");
        }
        let key = fs::read(node.data().join("identity.key")).expect("the key");
        assert_eq!(find(&log, key.trim_ascii()), None, "the node's key is in the log");
    }
    println!(
        "{} secrets of {} kinds, {lessons} lessons at B; searched {} files, {} MiB",
        secrets.len(),
        secrets.len() / OF_EACH,
        all.0,
        all.1 >> 20
    );
}

#[test]
fn the_search_for_secrets_finds_each_that_is_there() {
    let secrets = secrets(&mut Dice(7));
    for secret in &secrets {
        for needle in &secret.needles {
            let forms = base64_cores(needle.as_bytes());
            for hidden in [needle, &forms[0], &forms[1], &forms[2], &hex(needle.as_bytes())] {
                let found = found_in(format!("..{hidden}..").as_bytes(), &secrets);
                assert!(found.is_some_and(|found| found.starts_with(secret.what)), "{}", secret.what);
            }
        }
    }
    assert_eq!(found_in(b"nothing of the kind", &secrets), None);
}
