//! `folklore demo`, as a newcomer runs it.

use std::time::{Duration, Instant};

use folklore_tests::{command::finish, folklore};

#[test]
fn the_demo_tells_its_story_with_numbers_within_a_minute() {
    let began = Instant::now();
    let ran = finish(folklore(["demo"]), None).ok();
    let took = began.elapsed();
    assert!(took < Duration::from_secs(60), "{took:?}");
    let story = ran.stdout;
    println!("{story}");
    for word in ["lessons", "bytes"] {
        assert!(story.contains(word), "the story does not tell of {word}");
    }
    assert!(story.bytes().any(|byte| byte.is_ascii_digit()));
}

#[test]
fn the_demo_as_json_holds_the_numbers_and_they_fit_together() {
    let ran = finish(folklore(["demo", "--json"]), None).ok();
    let told = ran.json();
    let number = |name: &str| told[name].as_u64().unwrap_or_else(|| panic!("no {name}: {told}"));
    assert!(number("runs") >= 20 && number("lessons") >= 10, "{told}");
    assert!(number("lessons_missed") > 0 && number("catch_up_bytes") > 0, "{told}");
    assert!(number("questions") > 0 && number("right_while_cut") < number("right_after"), "{told}");
    assert_eq!(number("right_after"), number("questions"), "{told}");
}
