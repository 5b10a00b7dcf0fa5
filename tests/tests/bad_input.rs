//! Bad input: one clear error an item, everything else in the same call still comes, and the daemon lives on.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{BufWriter, Write},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

use folklore_tests::{
    Node,
    inputs::{hotel_file, hotel_run, lesson, write},
    node::text,
};
use serde_json::{Value, json};

/// The daemon may not need more for any file. One item of a file is read whole, up to 64 MiB, and then decoded.
const MOST_RESIDENT_BYTES: u64 = 600 * 1024 * 1024;
const HUGE_BYTES: u64 = 200 * 1024 * 1024;

/// Writes `before`, filling up to [`HUGE_BYTES`], and `after`.
fn huge(path: &Path, before: &[u8], filling: &[u8], after: &[u8]) {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path).expect("a file in the scratch directory"));
    let mut done = before.len() as u64;
    out.write_all(before).expect("room on the disk");
    let block = filling.repeat((1 << 20) / filling.len());
    while done < HUGE_BYTES {
        out.write_all(&block).expect("room on the disk");
        done += block.len() as u64;
    }
    out.write_all(after).and_then(|()| out.flush()).expect("room on the disk");
}

fn array(items: &[String]) -> Vec<u8> {
    format!("[{}]", items.join(",")).into_bytes()
}

fn item(n: u64) -> String {
    hotel_run(n).to_string()
}

/// What was skipped, by file name: item and reason.
fn skipped(answer: &Value) -> BTreeMap<String, Vec<(Option<String>, String)>> {
    let mut by_file: BTreeMap<String, Vec<_>> = BTreeMap::new();
    for skipped in answer["skipped"].as_array().expect("a list") {
        let path = text(&skipped["path"]);
        let name = path.rsplit('/').next().unwrap_or_default().to_owned();
        let reason = text(&skipped["reason"]);
        assert!(
            !reason.trim().is_empty() && !reason.contains('\n') && reason.len() < 500,
            "not a clear line: {reason:?}"
        );
        by_file.entry(name).or_default().push((skipped["item"].as_str().map(str::to_owned), reason));
    }
    by_file
}

#[test]
fn each_bad_item_gets_one_clear_error_and_all_others_are_imported() {
    let node = Node::started("a");
    let dir = node.scratch().join("in");
    let mut paths: Vec<PathBuf> = Vec::new();
    let mut good = 0;
    let mut add_good = |paths: &mut Vec<PathBuf>, name: &str| {
        paths.push(hotel_file(&dir, name, good..good + 2));
        good += 2;
    };

    // Whole files that are bad.
    add_good(&mut paths, "good-1.json");
    symlink(dir.join("nowhere"), dir.join("dangling.json")).expect("a link");
    paths.push(dir.join("dangling.json"));
    paths.push(dir.join("missing.json"));
    let fifo = dir.join("fifo.json");
    assert!(Command::new("mkfifo").arg(&fifo).status().expect("mkfifo(1)").success());
    paths.push(fifo);
    paths.push("/dev/null".into());
    paths.push(write(&dir, "empty.json", b""));
    paths.push(write(&dir, "blank.json", b" \n\t\n"));
    let binary: Vec<u8> = (0..4096_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    paths.push(write(&dir, "binary.json", &binary));
    paths.push(write(&dir, "latin1.txt", b"caf\xe9 au lait"));
    add_good(&mut paths, "good-2.json");
    paths.push(write(&dir, "wrong.json", br#"{"task_id": 1, "reward": }"#));
    paths.push(write(&dir, "prose.json", b"Once upon a time there was an agent."));
    paths.push(write(&dir, "number.json", b"42"));
    paths.push(write(&dir, "unknown.json", br#"{"colour": "red", "size": 3}"#));
    paths.push(write(&dir, "unknown.jsonl", b"{\"colour\": \"red\"}\n{\"colour\": \"blue\"}\n"));
    paths.push(write(&dir, "deep.json", "[".repeat(200_000).as_bytes()));
    paths.push(write(&dir, "deeper.json", "{\"traj\":".repeat(100_000).as_bytes()));
    add_good(&mut paths, "good-3.json");
    huge(&dir.join("garbage.json"), b"", b"#@!? ", b"");
    paths.push(dir.join("garbage.json"));
    huge(
        &dir.join("one-document.json"),
        br#"{"task_id": 1, "reward": 0.0, "traj": [{"role": "user", "content": ""#,
        b"very long ",
        br#""}]}"#,
    );
    paths.push(dir.join("one-document.json"));
    huge(&dir.join("one-line.jsonl"), br#"{"query": ""#, b"very long ", br#"", "action_list": []}"#);
    paths.push(dir.join("one-line.jsonl"));
    add_good(&mut paths, "good-4.json");

    // Files with a bad item among good ones.
    let surrogate = item(5001).replacen("Hello, ", r"Hello \ud800, ", 1);
    paths.push(write(&dir, "surrogate.json", &array(&[item(5000), surrogate, item(5002)])));
    let whole = array(&[item(5010), item(5011), item(5012)]);
    paths.push(write(&dir, "truncated.json", &whole[..whole.len() - 700]));
    paths.push(write(
        &dir,
        "types.json",
        &array(&[item(5020), "7".into(), r#"{"task_id": [], "reward": 0, "traj": 1}"#.into(), item(5021)]),
    ));
    let nested = format!(r#"{{"task_id": 1, "reward": 0.0, "traj": {}1{}}}"#, "[".repeat(5000), "]".repeat(5000));
    paths.push(write(&dir, "nested.json", &array(&[item(5030), nested, item(5031)])));
    huge(
        &dir.join("huge-item.json"),
        format!("[{}, {{\"task_id\": \"", item(5040)).as_bytes(),
        b"very long ",
        format!("\"}}, {}]", item(5041)).as_bytes(),
    );
    paths.push(dir.join("huge-item.json"));
    let not_utf8 =
        [b"[", item(5050).as_bytes(), b",", item(5051).replacen("Hello", "H?llo", 1).as_bytes(), b"]"].concat();
    let at = folklore_tests::files::find(&not_utf8, b"H?llo").expect("it is there") + 1;
    let not_utf8: Vec<u8> = not_utf8.iter().enumerate().map(|(n, byte)| if n == at { 0xff } else { *byte }).collect();
    paths.push(write(&dir, "not-utf8.json", &not_utf8));
    let lines = [item(5060), "{\"task_id\": oops".into(), item(5061)].join("\n");
    paths.push(write(&dir, "lines.jsonl", lines.as_bytes()));
    // A directory whose name looks like a file's is walked as what it is.
    hotel_file(&dir.join("dir.json"), "inside.json", 5070..5072);
    paths.push(dir.join("dir.json"));

    let args = [std::ffi::OsString::from("import")].into_iter().chain(paths.iter().map(|path| path.clone().into()));
    let ran = node.run(args).code(6);
    let answer = ran.json();
    let found = skipped(&answer);

    let whole_files = [
        "dangling.json",
        "missing.json",
        "fifo.json",
        "null",
        "empty.json",
        "blank.json",
        "binary.json",
        "latin1.txt",
        "wrong.json",
        "prose.json",
        "number.json",
        "unknown.json",
        "unknown.jsonl",
        "deep.json",
        "deeper.json",
        "garbage.json",
        "one-document.json",
        "one-line.jsonl",
    ];
    for name in whole_files {
        let errors = found.get(name).unwrap_or_else(|| panic!("nothing is said about {name}: {found:#?}"));
        assert_eq!(errors.len(), 1, "{name}: {errors:?}");
    }
    let items = [
        ("surrogate.json", vec!["item 2"]),
        ("truncated.json", vec!["item 3"]),
        ("types.json", vec!["item 2", "item 3"]),
        ("nested.json", vec!["item 2"]),
        ("huge-item.json", vec!["item 2"]),
        ("not-utf8.json", vec!["item 2"]),
        ("lines.jsonl", vec!["line 2"]),
    ];
    for (name, wanted) in &items {
        let errors = found.get(*name).unwrap_or_else(|| panic!("nothing is said about {name}: {found:#?}"));
        let named: Vec<&str> = errors.iter().filter_map(|(item, _)| item.as_deref()).collect();
        assert_eq!(&named, wanted, "{name}: {errors:?}");
    }
    let expected = whole_files.len() + items.iter().map(|(_, items)| items.len()).sum::<usize>();
    assert_eq!(answer["skipped"].as_array().map(Vec::len), Some(expected), "{found:#?}");
    // 4 files of 2, then what is good beside the bad items.
    assert_eq!(answer["runs"], 8 + 2 + 2 + 2 + 2 + 2 + 1 + 2 + 2, "{answer}");
    assert_eq!(answer["duplicates"], 0);
    // One line an item on stderr, for people.
    assert_eq!(ran.stderr.lines().filter(|line| line.contains("skipped")).count(), expected, "{}", ran.stderr);
    assert!(!ran.stderr.contains("panicked") && !node.logged().contains("panicked"), "{}", node.logged());

    let peak = node.peak_memory();
    println!("{expected} errors, {} runs, peak memory {} MiB", answer["runs"], peak >> 20);
    assert!(peak < MOST_RESIDENT_BYTES, "the daemon needed {} MiB", peak >> 20);
    // It lives on.
    node.teach(&lesson("north"));
    assert_eq!(node.json(["doctor", "--verify"])["ok"], true);
}

#[test]
fn a_directory_that_holds_no_runs_is_not_passed_over_in_silence() {
    let node = Node::started("a");
    let empty = node.scratch().join("empty");
    std::fs::create_dir(&empty).expect("a directory");
    let answer = node.run(["import".into(), empty.into_os_string()]).code(6).json();
    assert_eq!(skipped(&answer).len(), 1, "{answer}");
}

#[test]
fn a_name_that_is_not_utf8_is_said_and_the_other_files_come() {
    use std::os::unix::ffi::OsStringExt;
    let node = Node::started("a");
    let good = hotel_file(node.scratch(), "desk.json", 0..2);
    let odd = node.scratch().join(std::ffi::OsString::from_vec(b"desk-\xff.json".to_vec()));
    std::fs::copy(&good, &odd).expect("a copy");
    let ran = node.run(["import".into(), odd.into_os_string(), good.into_os_string()]).code(6);
    let answer = ran.json();
    assert_eq!((&answer["runs"], answer["skipped"].as_array().map(Vec::len)), (&json!(2), Some(1)), "{answer}");
    assert!(answer["skipped"][0]["reason"].as_str().is_some_and(|reason| reason.contains("UTF-8")), "{answer}");
}

#[test]
fn a_request_that_cannot_be_meant_is_a_usage_error_and_changes_nothing() {
    let node = Node::started("a");
    let file = hotel_file(node.scratch(), "desk.json", 0..2);
    let file = file.to_str().expect("a path in UTF-8");
    for args in [
        vec!["import", file, "--format", "papyrus"],
        vec!["import", file, "--induce", "oracle"],
        vec!["import", file, "--outcomes", "/nowhere/outcomes.json"],
        vec!["import"],
        vec!["recall"],
        vec!["recall", "x", "-k", "0"],
        vec!["rate", "bafkr4ibbbbbbbbbbbbbbbbbbbbbbbb", "liked"],
        vec!["unheard-of"],
    ] {
        let ran = node.run(args.iter().copied()).code(2);
        assert!(!ran.stderr.trim().is_empty(), "{args:?}");
    }
    for args in [
        vec!["show", "bafkr4ibbbbbbbbbbbbbbbbbbbbbbbb"],
        vec!["import", file, "--bank", "attic"],
        vec!["import", "/nowhere/at-all.json"],
    ] {
        let ran = node.run(args.iter().copied()).code(4);
        ran.one_line();
    }
    for body in [
        "",
        "[]",
        "{",
        "{\"kind\": \"pitfall\"}",
        r#"{"kind": "pitfall", "title": "\ud800", "content": "c"}"#,
        "{\"kind\": \"rumour\", \"title\": \"t\", \"content\": \"c\"}",
        "\u{0}",
    ] {
        let ran = node.run_with(["teach"], body).code(2);
        ran.one_line();
    }
    let mut long = lesson("north");
    long["title"] = json!("x".repeat(201));
    let ran = node.run_with(["teach"], &long.to_string()).code(2);
    assert!(ran.one_line().contains("title") && ran.one_line().contains("200"), "{}", ran.stderr);
    assert_eq!(node.lessons().len(), 0);
}

#[test]
fn a_door_that_is_talked_nonsense_to_answers_and_lives_on() {
    let node = Node::started("a");
    let address = node.door().address;
    let bearer = format!("Host: {address}\r\nAuthorization: Bearer {}\r\n", node.door().token());
    let body = |body: &[u8]| {
        let head =
            format!("POST /v1/teach HTTP/1.1\r\n{bearer}Content-Length: {}\r\nConnection: close\r\n\r\n", body.len());
        [head.as_bytes(), body].concat()
    };
    let too_long = body(&vec![b' '; 128 * 1024]);
    for (what, bytes, wanted) in [
        ("not HTTP", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n".to_vec(), "400"),
        ("not UTF-8", body(b"{\"title\": \"\xff\"}"), "400"),
        ("nesting", body("[".repeat(30_000).as_bytes()), "400"),
        ("a body beyond the limit", too_long, "413"),
    ] {
        let answer = node.door().raw(&bytes).unwrap_or_default();
        let answer = String::from_utf8_lossy(&answer);
        // A body beyond the limit may be answered by closing the connection before all of it was sent.
        let code = answer.split(' ').nth(1).unwrap_or_default();
        assert!(code == wanted || (wanted == "413" && (code == "400" || code.is_empty())), "{what}: {answer}");
    }
    node.teach(&lesson("north"));
    assert!(!node.logged().contains("panicked"), "{}", node.logged());
}
