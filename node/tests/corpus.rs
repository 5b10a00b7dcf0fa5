//! The corpus of the fuzz targets for tickets and files, replayed; see `protocol/tests/corpus.rs`.

use folklore_node::ticket::Ticket;
use folklore_protocol::Keypair;

#[path = "../../fuzz/src/replay.rs"]
mod replay;
#[path = "../../fuzz/src/node.rs"]
mod targets;

use replay::{Allowance, mutated, replay};
use targets::TARGETS;

fn tickets() -> Vec<Vec<u8>> {
    let owner = Keypair::from_seed(&[1; 32]).author();
    let address = |text: &str| text.parse().unwrap();
    let near = vec![address("/ip4/192.0.2.7/tcp/4001"), address("/dns/node.example/udp/4001/quic-v1")];
    let tickets =
        [Ticket::new(owner, [7; 16], "home", near).unwrap(), Ticket::new(owner, [0; 16], "返金", vec![]).unwrap()];
    tickets.iter().map(|t| t.to_string().into_bytes()).collect()
}

/// A small file of each format and container, written from the description in each format's module.
fn runs() -> Vec<Vec<u8>> {
    let swe = r#"{"info": {"exit_status": "Submitted", "submission": "diff --git a/x b/x"}, "messages": [
        {"role": "system", "content": "You fix code."}, {"role": "user", "content": "Fix the parser."},
        {"role": "assistant", "content": "Look.\n```bash\ngrep -n parse src/a.py\n```"}, {"role": "user", "content": "3: def parse"}],
        "trajectory_format": "mini-swe-agent-1", "instance_id": "a__b-1"}"#;
    let tau = r#"[{"task_id": 13, "reward": 0.0, "trial": 0, "info": {"task": {"instruction": "Refund it.", "actions": []}},
        "traj": [{"role": "user", "content": "Refund it."}, {"role": "assistant", "content": null,
        "tool_calls": [{"id": "1", "type": "function", "function": {"name": "get_order", "arguments": "{\"id\": \"W1\"}"}}]},
        {"role": "tool", "tool_call_id": "1", "name": "get_order", "content": "{\"status\": \"delivered\"}"}]}]"#;
    let bank = "{\"task_id\": \"1\", \"query\": \"Find it.\", \"think_list\": [\"a\"], \"action_list\": [\"click [1]\"], \
                \"status\": \"success\", \"memory_items\": [\"# Memory Item 1\\n## Title x\"]}\n{\"task_id\": \"2\"}\n";
    [swe, tau, bank, "[{\"a\": 1}, ", "{\"deep\": [[[[[[{}]]]]]]}"].into_iter().map(|t| t.as_bytes().to_vec()).collect()
}

fn outcomes() -> Vec<Vec<u8>> {
    let tables = [
        r#"[{"instance_id": "a__b-1", "resolved": true}, {"instance_id": "a__b-2", "resolved": false}]"#,
        r#"{"resolved_ids": ["a__b-1"], "unresolved_ids": ["a__b-2"]}"#,
        "{\"task_id\": 1, \"reward\": 1.0}\n{\"task_id\": 2, \"reward\": 0.25}\n",
    ];
    tables.into_iter().map(|t| t.as_bytes().to_vec()).collect()
}

fn settings() -> Vec<Vec<u8>> {
    let texts = [
        r#"{"listen": ["0.0.0.0:4001"], "announce": ["/dns/node.example/tcp/4001"], "peers": ["192.0.2.7:4001"],
            "bootstrap": ["node.example:4001"], "via": [], "mdns": true, "quic": false, "relay": true, "use_relays": false,
            "dht": true, "psk": "swarm.key", "limits": {"max_peers": 8, "memory_mib": 2048},
            "relay_limits": {"circuits": 4, "circuit_seconds": 900, "circuit_kib": 8192}}"#,
        r#"{"limits": {"memory_mib": 18446744073709551615}, "relay_limits": {"circuit_kib": 18446744073709551615}}"#,
        r#"{"provider": "openai", "url": "http://127.0.0.1:11434", "model": "embed", "dim": 512, "revision": "1",
            "batch": 32, "texts_an_hour": 50000}"#,
        r#"{"provider": "anthropic", "model": "chat", "key_file": "key", "ended": true, "judge": false,
            "procedures": true, "prompt_bytes": 49152, "timeout_s": 120, "calls_an_hour": 10, "tokens_an_hour": 4000000}"#,
    ];
    texts.into_iter().map(|t| t.as_bytes().to_vec()).collect()
}

fn answers() -> Vec<Vec<u8>> {
    let lesson = r#"{"lessons":[{"title":"t {1}","content":"c","evidence":[{"run":1,"step":2,"quote":"q",}],},]}"#;
    let verdict = r#"{"verdict": "success", "reason": "it was paid", "evidence": [{"step": 3, "quote": "paid"}]}"#;
    let none = r#"{"lessons": [], "none": "nothing to learn"}"#;
    let texts = [
        format!("<think>Perhaps {{\"lessons\": []}}?</think>\n```json\n{lesson}\n```\nI hope this helps {{:"),
        format!("Let {{a, b}} be empty. {verdict}"),
        format!("{none} {lesson}"),
        "{\"a\":[".repeat(40),
    ];
    texts.into_iter().map(String::into_bytes).collect()
}

#[test]
fn nothing_in_the_corpus_panics_or_allocates_beyond_its_size() {
    for target in TARGETS {
        let mut seeds = match target.0 {
            "ticket" => tickets(),
            "runs" => runs(),
            "outcomes" => outcomes(),
            "settings" => settings(),
            "answer" => answers(),
            other => panic!("no seeds for {other}"),
        };
        let whole = seeds.clone();
        seeds.extend(whole.iter().enumerate().map(|(n, seed)| mutated(seed, &whole, 1_000 + n as u64)));
        // A file is read through a buffer, once to tell its format and once by each of them.
        let readings = 1 + folklore_node::formats::formats().len();
        let allowance = match target.0 {
            "runs" => Allowance { fixed: readings << 19, each: readings * 128, pinned: true },
            // An object that is cut off is read again from each brace in it, down to the depth that JSON is read to.
            "answer" => Allowance { fixed: 64 << 10, each: 16 << 10, pinned: true },
            _ => Allowance { fixed: 64 << 10, each: 256, pinned: true },
        };
        replay(*target, &seeds, 150, &allowance);
    }
}
