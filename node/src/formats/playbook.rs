//! ACE playbooks: text with `## SECTION` lines and bullets `[abc-00012] words`, in newer ones
//! `[abc-00012] helpful=3 harmful=1 :: words`. A bullet goes on until the next bullet or section.
//!
//! Each bullet is a lesson; those of a section about mistakes are pitfalls. The counts are another system's votes on runs
//! that are not at hand, and are left out.

use super::parts::{Gather, Parts, Told};
use super::words::Bounded;
use super::{Detect, Format, Gives, Read};
use folklore_protocol::lesson::LessonKind;

pub(super) const FORMAT: Format = Format {
    name: "ace-playbook",
    shape: "text with '## SECTION' lines and bullets '[abc-00012] words'; lessons",
    gives: Gives::Lessons,
    from_description: false,
    detect: Detect::Lines(|head| head.lines().take(64).any(|line| bullet(line).is_some())),
    read: Read::Text(|_| Box::new(Playbook::default())),
};

#[derive(Default)]
struct Playbook {
    section: String,
    /// The bullet under way: its id and its words.
    open: Option<(String, Bounded)>,
}

/// The id and the words of a line that begins a bullet.
fn bullet(line: &str) -> Option<(&str, &str)> {
    let (id, words) = line.strip_prefix('[')?.split_once(']')?;
    let (letters, digits) = id.rsplit_once('-')?;
    let is_id = !letters.is_empty()
        && letters.bytes().all(|b| b.is_ascii_lowercase() || matches!(b, b'-' | b'_'))
        && digits.len() >= 3
        && digits.bytes().all(|b| b.is_ascii_digit());
    let words = match words.split_once(" :: ") {
        Some((counts, words)) if counts.contains("helpful=") => words,
        _ => words,
    };
    is_id.then_some((id, words.trim_start()))
}

impl Gather for Playbook {
    fn take(&mut self, bytes: &[u8], parts: &mut Parts) -> Result<(), String> {
        let line = std::str::from_utf8(bytes).map_err(|error| format!("not UTF-8 at byte {}", error.valid_up_to()))?;
        if let Some(section) = line.strip_prefix("## ") {
            self.close(parts);
            self.section = section.trim().trim_end_matches(':').to_owned();
        } else if let Some((id, words)) = bullet(line) {
            self.close(parts);
            let mut text = Bounded::default();
            text.line(words);
            self.open = Some((id.to_owned(), text));
        } else if let Some((_, text)) = &mut self.open {
            text.line(line);
        }
        Ok(())
    }

    fn end(&mut self, parts: &mut Parts) {
        self.close(parts);
    }
}

impl Playbook {
    fn close(&mut self, parts: &mut Parts) {
        let Some((id, text)) = self.open.take() else { return };
        let content = text.finish().trim().to_owned();
        if content.is_empty() {
            parts.refuse(id, "the bullet is empty");
            return;
        }
        let lower = self.section.to_ascii_lowercase();
        let pitfall = ["mistake", "pitfall", "avoid"].iter().any(|word| lower.contains(word));
        // "For refunds: look first" says itself when it applies.
        let when = content.split_once(": ").map(|(when, _)| when).filter(|when| {
            ["For ", "When ", "If ", "Before ", "After "].iter().any(|start| when.starts_with(start))
                && !when.contains(". ")
        });
        let tags: Vec<String> = Some(lower.split_whitespace().collect::<Vec<_>>().join("-"))
            .filter(|tag| !tag.is_empty())
            .into_iter()
            .collect();
        parts.lesson(
            id,
            Told {
                kind: if pitfall { LessonKind::Pitfall } else { LessonKind::Strategy },
                applies_when: when.unwrap_or_default(),
                content: content.clone(),
                tags,
                ..Told::default()
            },
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::parts::Part;
    use super::*;

    #[test]
    fn bullets_of_both_ages_become_lessons_of_their_sections() {
        let text = "## STRATEGIES AND HARD RULES\n[shr-00001] For refunds: look first.\nThen pay.\n\n[shr-00002] helpful=3 harmful=0 :: Use pages.\n## COMMON MISTAKES:\n[err-00003] Guessing ids. It fails.\n[err-00004]\n";
        let (mut playbook, mut parts) = (Playbook::default(), Parts::default());
        for line in text.lines() {
            playbook.take(line.as_bytes(), &mut parts).unwrap();
        }
        playbook.end(&mut parts);
        let lessons: Vec<_> = parts
            .0
            .iter()
            .filter_map(|(name, part)| match part {
                Part::Lesson(fields, _) => {
                    Some((name.as_str(), fields.kind, fields.content.as_str(), fields.applies_when.as_str()))
                }
                _ => None,
            })
            .collect();
        assert_eq!(
            lessons,
            [
                ("shr-00001", LessonKind::Strategy, "For refunds: look first.\nThen pay.", "For refunds"),
                ("shr-00002", LessonKind::Strategy, "Use pages.", ""),
                ("err-00003", LessonKind::Pitfall, "Guessing ids. It fails.", "")
            ]
        );
        assert!(matches!(&parts.0[3], (name, Part::Refused(_)) if name == "err-00004"));
        for no in ["[1, 2]", "[\"a-001\"]", "[x](http://y-001)", "[a-1] x"] {
            assert!(bullet(no).is_none(), "{no}");
        }
    }
}
