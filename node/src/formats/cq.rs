//! cq knowledge units: `{domains[], insight{summary, detail, action}, context{languages, frameworks, pattern}, created_by}`.
//! Each is a lesson that somebody wrote or an agent proposed; how often it was confirmed elsewhere is left out.

use super::parts::{Parts, Told};
use super::words::join;
use super::{Detect, Format, Gives, Read, decode};
use serde_json::Value;

pub(super) const FORMAT: Format = Format {
    name: "cq",
    shape: "{domains, insight{summary, detail, action}, context}, an array or one a line; lessons",
    gives: Gives::Lessons,
    from_description: false,
    detect: Detect::Fields(|names| {
        names.contains("insight") && (names.contains("domains") || names.contains("domain"))
    }),
    read: Read::Several(parse),
};

fn parse(bytes: &[u8], _file: &str, parts: &mut Parts) -> Result<(), String> {
    let unit: Value = decode(bytes)?;
    let insight =
        |name: &str| unit.pointer(&format!("/insight/{name}")).and_then(Value::as_str).unwrap_or_default().trim();
    let list = |pointer: &str| -> Vec<String> {
        match unit.pointer(pointer) {
            Some(Value::String(one)) if !one.trim().is_empty() => vec![one.clone()],
            Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            _ => Vec::new(),
        }
    };
    let mut content = insight("detail").to_owned();
    join(&mut content, insight("action"));
    if content.is_empty() {
        return Err("its insight has neither a detail nor an action".into());
    }
    let mut domains = list("/domains");
    domains.extend(list("/domain"));
    let mut when = Vec::new();
    for (label, pointer) in
        [("languages", "/context/languages"), ("frameworks", "/context/frameworks"), ("pattern", "/context/pattern")]
    {
        let words = list(pointer);
        if !words.is_empty() {
            when.push(format!("{label}: {}", words.join(", ")));
        }
    }
    let tags = [domains.clone(), list("/context/languages"), list("/context/frameworks")].concat();
    let told = Told {
        title: insight("summary"),
        applies_when: &when.join("; "),
        content,
        domain: domains.first().map_or("", String::as_str),
        tags,
        ..Told::default()
    };
    parts.lesson("", told);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::parts::Part;
    use super::*;

    #[test]
    fn a_unit_becomes_a_lesson() {
        let mut parts = Parts::default();
        parse(br#"{"domains":["api","pay"],"insight":{"summary":"S","detail":"D","action":"A"},"context":{"languages":["python"],"frameworks":[],"pattern":"p"}}"#, "", &mut parts).unwrap();
        let (_, Part::Lesson(fields, evidence)) = &parts.0[0] else { panic!() };
        assert_eq!((fields.title.as_str(), fields.content.as_str(), fields.domain.as_str()), ("S", "D\nA", "api"));
        assert_eq!(
            (fields.applies_when.as_str(), evidence.induced_by.as_str()),
            ("languages: python; pattern: p", "imported")
        );
        assert!(parse(br#"{"domains":[],"insight":{}}"#, "", &mut parts).unwrap_err().contains("neither"));
    }
}
