//! Who writes, where, and lessons from fixed numbers. The benchmark of the bank has them too.

use folklore_protocol::{
    identity::Keypair,
    lesson::{Lesson, LessonDraft, LessonKind},
};
use folklore_store::bank::BankInfo;

pub fn key(n: u8) -> Keypair {
    Keypair::from_seed(&[n; 32])
}

/// The bank that the tests write to, owned by key 1.
pub fn home() -> BankInfo {
    BankInfo::new(key(1).author(), [0; 16], "home")
}

pub fn sized_lesson(n: u32, content_bytes: usize) -> Lesson {
    // Text that does not repeat from lesson to lesson.
    let seed = blake3::hash(&n.to_le_bytes()).to_hex();
    let content: String = seed.as_str().chars().cycle().take(content_bytes.max(1)).collect();
    Lesson::new(LessonDraft {
        kind: LessonKind::Pitfall,
        title: format!("Lesson number {n}"),
        applies_when: String::new(),
        not_when: String::new(),
        content,
        task: format!("Task number {n}"),
        domain: "test".into(),
        tags: Vec::new(),
    })
    .expect("within limits")
}
