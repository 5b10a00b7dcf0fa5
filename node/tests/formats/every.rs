//! What holds for every format, shown on a small example of each.

use super::samples::SAMPLES;
use super::*;
use serde_json::{Value, json};

fn out_of(text: &str, options: &ReadOptions<'_>) -> Out {
    let dir = tempfile::tempdir().unwrap();
    // The name says nothing.
    let path = dir.path().join("file");
    fs::write(&path, text).unwrap();
    out(&path, options)
}

#[test]
fn every_format_is_told_from_its_content_and_gives_what_is_in_it() {
    for (format, text, runs, lessons) in SAMPLES {
        let out = out_of(text, &ReadOptions::default());
        let summary = out.summary.unwrap_or_else(|error| panic!("{format}: {error}"));
        assert_eq!((summary.format, summary.runs, summary.lessons), (*format, *runs, *lessons), "{text}");
        assert_eq!(out.skips, [], "{format}");
        for lesson in &out.lessons {
            assert_eq!(lesson.evidence.induced_by, formats::IMPORTED, "{format}");
        }
        // Insisting on the right format changes nothing; on any other ends in words.
        for known in formats::formats() {
            let options = ReadOptions { format: Some(known), ..ReadOptions::default() };
            let out = out_of(text, &options);
            if known.name == *format {
                assert_eq!((out.runs.len(), out.lessons.len()), (*runs, *lessons), "{format}");
            } else if let Err(error) = out.summary {
                assert!(error.to_string().starts_with("file"), "{format} as {}: {error}", known.name);
            }
        }
    }
    for format in formats::formats() {
        assert!(SAMPLES.iter().any(|(name, ..)| *name == format.name), "{} has no example", format.name);
    }
}

/// Every place in a value, as a JSON pointer.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match value {
        Value::Array(list) => list.iter().enumerate().for_each(|(n, one)| places(one, &format!("{at}/{n}"), found)),
        Value::Object(map) => {
            for (key, one) in map {
                places(one, &format!("{at}/{}", key.replace('~', "~0").replace('/', "~1")), found);
            }
        }
        _ => {}
    }
}

fn check(format: &'static formats::Format, text: &str) {
    let options = ReadOptions { format: Some(format), ..ReadOptions::default() };
    let out = out_of(text, &options);
    let reasons = out.skips.iter().map(|(_, reason)| reason.clone()).chain(out.summary.err().map(|e| e.to_string()));
    for reason in reasons {
        assert!(!reason.is_empty() && !reason.contains('\n') && reason.len() < 2000, "{}: {reason}", format.name);
    }
    // What comes out is within bounds and comes out the same again.
    for run in out.runs {
        let mut again = run.clone();
        again.tidy();
        assert_eq!(again, run, "{}", format.name);
    }
}

#[test]
fn no_value_of_a_wrong_type_brings_a_reader_down() {
    let wrong =
        [json!(null), json!(true), json!(-7.5), json!("x"), json!([]), json!({}), json!([[1], {"a": {"b": null}}])];
    for (name, text, ..) in SAMPLES {
        let format = formats::by_name(name).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let whole: Result<Value, _> = serde_json::from_str(text);
        // A document is changed as one, lines each by itself, and a text has no places.
        let pieces = match &whole {
            Ok(_) => vec![*text],
            Err(_) if text.starts_with('{') => lines.clone(),
            Err(_) => continue,
        };
        for (at, piece) in pieces.iter().enumerate() {
            let value: Value = serde_json::from_str(piece).unwrap();
            let mut found = Vec::new();
            places(&value, "", &mut found);
            for place in found {
                for put in &wrong {
                    let mut changed = value.clone();
                    *changed.pointer_mut(&place).unwrap() = put.clone();
                    let mut lines: Vec<String> = pieces.iter().map(|line| (*line).to_owned()).collect();
                    lines[at] = changed.to_string();
                    check(format, &lines.join("\n"));
                }
            }
        }
    }
}

#[test]
fn no_cut_brings_a_reader_down() {
    for (name, text, ..) in SAMPLES {
        let format = formats::by_name(name).unwrap();
        for end in (0..text.len()).step_by(7).filter(|end| text.is_char_boundary(*end)) {
            check(format, &text[..end]);
        }
    }
}

#[test]
fn a_huge_output_leaves_its_length_and_hash() {
    let text = format!(
        r#"{{"instance_id":"a__b-1","info":{{}},"messages":[{{"role":"user","content":"look"}},{{"role":"assistant","content":"```bash\ncat x\n```"}},{{"role":"user","content":"{} end"}}]}}"#,
        "line of output\\n".repeat(10_000)
    );
    let run = out_of(&text, &ReadOptions::default()).runs.remove(0);
    let seen = &run.steps[0].observation;
    assert!(seen.contains(" bytes elided, blake3 ") && seen.ends_with("end") && seen.len() <= 16 * 1024);
}

#[test]
fn a_binary_archive_says_how_to_unpack_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log.eval");
    fs::write(&path, b"PK\x03\x04\0\0\0\0").unwrap();
    let error = read(&path).0.unwrap_err().to_string();
    assert!(error.starts_with("log.eval is a zip archive") && error.contains("inspect log convert"), "{error}");
}

#[test]
fn several_documents_in_one_file_are_several_items() {
    let (_, sample, ..) = SAMPLES.iter().find(|(name, ..)| *name == "langfuse").unwrap();
    let pretty = serde_json::to_string_pretty(&serde_json::from_str::<Value>(sample).unwrap()).unwrap();
    let out = out_of(&format!("{pretty}\n{pretty}\nand words"), &ReadOptions::default());
    assert_eq!(out.runs.len(), 2);
    assert!(out.runs[1].source.ends_with("document 2"), "{}", out.runs[1].source);
    assert!(out.skips[0].1.contains("more text"), "{:?}", out.skips);
}

#[test]
fn a_document_with_whole_objects_on_its_inner_lines_is_one_document() {
    let text = "{\n  \"instance_id\": \"a__b-1\",\n  \"info\": {},\n  \"messages\": [\n    {\"role\": \"user\", \"content\": \"fix\", \"id\": 1}\n  ]\n}\n";
    let out = out_of(text, &ReadOptions::default());
    assert_eq!((out.summary.unwrap().format, out.runs.len()), ("mini-swe-agent", 1));
}

#[test]
fn an_item_of_millions_of_values_is_refused_before_it_is_decoded() {
    let (name, sample, ..) = SAMPLES.iter().find(|(name, ..)| *name == "atif").unwrap();
    let many = format!("[{}0]", "0,".repeat(2_100_000));
    let text = format!("{}\n{}", sample, sample.replacen("\"steps\":[", &format!("\"x\":{many},\"steps\":["), 1));
    let out = out_of(&text, &ReadOptions::default());
    assert_eq!((out.summary.unwrap().format, out.runs.len()), (*name, 1));
    assert!(out.skips[0].0 == "line 2" && out.skips[0].1.contains("2000000 values"), "{:?}", out.skips);
}

#[test]
fn words_of_the_file_in_a_reason_cannot_write_to_the_terminal() {
    let text = "{\"case\":\"x\",\"plan\":\"y\",\"case_label\":\"\\u001b[31mred\\nline\"}\n{\"a\\u001b[2J\\nb\":1}";
    let out = out_of(text, &ReadOptions::default());
    assert_eq!(out.skips.len(), 2);
    assert!(out.skips.iter().all(|(_, reason)| !reason.chars().any(char::is_control)), "{:?}", out.skips);
    let error = out_of("{\"a\\u001b[2J\\nb\":1}", &ReadOptions::default()).summary.unwrap_err().to_string();
    assert!(!error.chars().any(char::is_control), "{error:?}");
}
