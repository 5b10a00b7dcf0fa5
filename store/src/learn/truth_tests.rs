//! Statements of lessons that a reader could take for more than the run shows: each kind once, by what has to hold.

use super::*;
use crate::run::{RunOutcome, Step};

fn step(action: &str, observation: &str) -> Step {
    Step { think: String::new(), action: action.into(), observation: observation.into() }
}

fn returned(code: i32, output: &str) -> String {
    format!("<returncode>{code}</returncode>\n<output>\n{output}\n</output>")
}

fn run(status: RunStatus, steps: &[(&str, String)]) -> Run {
    Run {
        task_key: "t".into(),
        task: "The length of shelf_plan() is wrong\nIt is one too short.".into(),
        domain: "work".into(),
        source: "test".into(),
        tags: vec!["shelves".into()],
        steps: steps.iter().map(|(action, observation)| step(action, observation)).collect(),
        outcome: RunOutcome { status, ..RunOutcome::default() },
        ..Run::default()
    }
}

fn content(run: &Run) -> String {
    let induced = from_run(run, NONE_GIVEN);
    assert!(!induced.lessons.is_empty(), "{:?}", induced.no_lesson);
    induced.lessons[0].fields.content.clone()
}

const DIFF: &str =
    "diff --git a/lib/shelf.py b/lib/shelf.py\n@@ -1 +1 @@\n-    return row_length\n+    return row_length + 1\n";

fn coding(status: RunStatus, between: &[(&str, String)]) -> Run {
    let mut steps = between.to_vec();
    steps.push(("echo COMPLETE_TASK_AND_SUBMIT && git diff", returned(0, DIFF)));
    run(status, &steps)
}

const EDIT: &str = "sed -i 's/row_length$/row_length + 1/' lib/shelf.py";

#[test]
fn only_a_look_up_before_the_change_that_shows_it_has_found_it() {
    let hit = returned(0, "lib/shelf.py:    return row_length");
    let edit = (EDIT, returned(0, ""));
    let search = "grep -rn row_length lib";
    let own = "grep -n row_length lib/shelf.py";
    for (between, found) in [
        (vec![(search, hit.clone()), edit.clone()], true),
        (vec![(own, returned(0, "7:    return row_length")), edit.clone()], true),
        // Too late, without a hit, with a hit elsewhere, a list of everything.
        (vec![edit.clone(), (search, hit.clone())], false),
        (vec![(search, returned(1, "")), edit.clone()], false),
        (vec![(own, returned(0, "9: row_length = 3")), edit.clone()], false),
        (vec![(search, returned(0, "lib/other.py: row_length")), edit.clone()], false),
        (vec![(search, returned(2, "lib/shelf.py: is a directory")), edit.clone()], false),
        (vec![("ls -R lib", returned(0, "lib/shelf.py")), edit.clone()], false),
    ] {
        let content = content(&coding(RunStatus::Success, &between));
        assert_eq!(content.contains("Found by"), found, "{between:?}: {content}");
    }
}

#[test]
fn a_change_is_cited_where_it_was_made_and_its_proof_follows() {
    let check = ("pytest tests/test_shelf.py", returned(0, "3 passed"));
    let content_of = |between: &[(&str, String)]| content(&coding(RunStatus::Success, between));
    // The command does not hold the changed line itself: the diff shows it, the command made it.
    let said = content_of(&[check.clone(), (EDIT, returned(0, "")), check.clone()]);
    assert!(said.contains(&format!("shown by the final diff [step 4]; edited by `{EDIT}` [step 2]")), "{said}");
    assert!(said.contains("Proof: `pytest tests/test_shelf.py` printed `3 passed` [step 3]"), "{said}");
    // It holds both lines: it is the only step cited.
    let whole = "sed -i 's/    return row_length/    return row_length + 1/' lib/shelf.py";
    let said = content_of(&[(whole, returned(0, "")), check.clone()]);
    assert!(said.contains("`return row_length + 1` [step 1].") && !said.contains("diff"), "{said}");
    // A script that writes the file makes the change where it is run.
    let script = "cat > fix.py <<'EOF'\nopen('lib/shelf.py', 'w').write(text)\nEOF";
    let said =
        content_of(&[(script, returned(0, "")), check.clone(), ("python fix.py", returned(0, "")), check.clone()]);
    assert!(said.contains("edited by `python fix.py` [step 3]") && said.contains("`3 passed` [step 4]"), "{said}");
    // Checks before the change prove nothing, and one that says nothing of passing is no proof.
    assert!(!content_of(&[check.clone(), (EDIT, returned(0, ""))]).contains("Proof"));
    let said = content_of(&[(EDIT, returned(0, "")), ("python lib/shelf.py", returned(0, "41"))]);
    assert!(said.contains("After it, `python lib/shelf.py` printed `41`") && !said.contains("Proof"), "{said}");
    assert!(!content_of(&[(EDIT, returned(0, "")), ("pytest tests", returned(1, "3 passed"))]).contains("Proof"));
}

#[test]
fn where_only_the_diff_shows_a_change_nothing_is_said_of_before_and_after() {
    let check = ("pytest tests/test_shelf.py", returned(0, "3 passed"));
    for between in [
        vec![check.clone()],
        // An edit that failed, and one that was taken back.
        vec![(EDIT, returned(1, "sed: cannot read")), check.clone()],
        vec![(EDIT, returned(0, "")), ("git checkout lib/shelf.py", returned(0, "")), check.clone()],
    ] {
        let said = content(&coding(RunStatus::Success, &between));
        assert!(said.contains("shown by the final diff [step ") && !said.contains("edited by"), "{said}");
        assert!(!said.contains("Proof"), "{said}");
    }
    let said = content(&coding(RunStatus::Failure, &[check]));
    assert!(!said.contains("passed all the same") && !said.contains("Nothing was run"), "{said}");
}

#[test]
fn a_diff_of_the_past_is_no_patch() {
    let past = run(RunStatus::Success, &[("ls lib", returned(0, "shelf.py")), ("git show HEAD~3", returned(0, DIFF))]);
    assert!(from_run(&past, NONE_GIVEN).lessons.iter().all(|draft| !draft.fields.content.contains("became")));
}

#[test]
fn an_error_that_later_steps_may_have_passed_is_not_called_the_end() {
    let trouble = ("python lib/shelf.py", returned(1, "ValueError: shelf_plan is empty"));
    let last = run(RunStatus::Failure, &[("cat lib/shelf.py", returned(0, "x")), trouble.clone()]);
    assert!(content(&last).contains("never got past it"));
    let passed = run(RunStatus::Failure, &[trouble, ("python lib/shelf.py", returned(0, "41"))]);
    assert!(!content(&passed).contains("never got past it"));
}

#[test]
fn runs_that_show_which_tool_works_here_make_one_lesson() {
    let attempt = |key: &str, status, missing: &str, file: &str| {
        let (bad, good) = (format!("pytest {file}"), format!("bin/test {file}"));
        let steps =
            [(bad.as_str(), returned(127, missing)), (EDIT, returned(0, "")), (good.as_str(), returned(0, "3 passed"))];
        Run { task_key: key.into(), source: key.into(), ..coding(status, &steps) }
    };
    let runs = [
        attempt("a", RunStatus::Success, "bash: line 1: pytest: command not found", "tests/test_a.py"),
        attempt("b", RunStatus::Failure, "/usr/bin/python3: No module named pytest", "tests/test_b.py"),
        attempt("c", RunStatus::Success, "bash: line 1: pytest: command not found", "tests/test_c.py"),
    ];
    for induced in [separately(&runs, NONE_GIVEN), induce(&runs, NONE_GIVEN)] {
        let tool: Vec<_> = induced.lessons.iter().filter(|draft| draft.fields.title.contains("bin/test")).collect();
        assert_eq!(tool.len(), 1);
        let (fields, evidence) = (&tool[0].fields, &tool[0].evidence);
        assert_eq!((fields.kind, evidence.attempts), (LessonKind::Strategy, 3));
        assert!(fields.applies_when.ends_with("Where pytest is not installed."), "{}", fields.applies_when);
        assert!(fields.content.contains("tests/test_a.py"));
    }
}

fn judged(steps: &[(&str, &str)], expected: &[&str]) -> Run {
    let steps: Vec<(&str, String)> = steps.iter().map(|(action, seen)| (*action, (*seen).to_owned())).collect();
    let mut run = run(RunStatus::Failure, &steps);
    run.outcome.expected = Some(expected.iter().map(|text| (*text).to_owned()).collect());
    explain_verdict(&mut run);
    run
}

fn pitfall_of(run: &Run, title: &str) -> String {
    let induced = from_run(run, NONE_GIVEN);
    let found = induced.lessons.iter().find(|draft| draft.fields.title.contains(title));
    found.unwrap_or_else(|| panic!("{:?}", induced)).fields.content.clone()
}

const NO_MONEY: &str = "Error: gift card balance is not enough";

#[test]
fn what_a_failed_run_ended_with_is_never_the_remedy() {
    let pay = "update_trip {\"cabin\":\"business\",\"payment_id\":\"gift_card_1\"}";
    let other = "update_trip {\"cabin\":\"business\",\"payment_id\":\"credit_card_2\"}";
    let steps = [(pay, NO_MONEY), (pay, NO_MONEY), (pay, NO_MONEY), (other, "{}")];
    // Something else was expected.
    let said = pitfall_of(
        &judged(&steps, &["update_trip {\"cabin\":\"economy\",\"payment_id\":\"gift_card_1\"}"]),
        "repeating",
    );
    assert!(said.starts_with("Do: `update_trip` with `\"cabin\":\"economy\"` [judge]."), "{said}");
    assert!(said.contains("`\"payment_id\":\"credit_card_2\"` went through and was wrong too [step 4]"), "{said}");
    // Nothing was expected at all.
    let said = pitfall_of(&judged(&steps, &["get_trip {\"id\":\"T1\"}"]), "repeating");
    assert!(said.starts_with("Do: change nothing here") && said.contains("was not to be made [step 4]"), "{said}");
    // Another tool was.
    let said = pitfall_of(&judged(&steps, &["cancel_trip {\"trip_id\":\"T100\"}"]), "repeating");
    assert!(said.starts_with("Do: `cancel_trip` with `\"trip_id\":\"T100\"` [judge], not `update_trip`"), "{said}");
    // The judge agrees with it, and something else was missing.
    let said = pitfall_of(&judged(&steps, &[other, "cancel_trip {\"trip_id\":\"T100\"}"]), "repeating");
    assert!(said.starts_with("Do: `update_trip` with `\"payment_id\":\"credit_card_2\"` [judge]."), "{said}");
    assert!(said.contains("went through, as the judge expected [step 4]"), "{said}");
    // The judge gave no reference.
    let mut unknown = judged(&steps, &[]);
    unknown.outcome.expected = None;
    let said = pitfall_of(&unknown, "repeating");
    assert!(said.starts_with("Do not repeat") && said.contains("and the run failed all the same [step 4]"), "{said}");
}

#[test]
fn what_to_do_comes_before_what_not_to_do() {
    let steps = [("cancel_trip {\"trip_id\":\"T100\"}", "{}"), ("respond: Your trip T100 has been cancelled.", "")];
    for (expected, first) in [
        (vec!["add_bag {\"trip_id\":\"T100\"}"], "Do: `add_bag` with `\"trip_id\":\"T100\"` [judge]"),
        (vec![], "Do: change nothing here, so do not call `cancel_trip`"),
        (vec!["cancel_trip {\"trip_id\":\"T200\"}"], "Do: `cancel_trip` with `\"trip_id\":\"T200\"` [judge]"),
    ] {
        let said = content(&judged(&steps, &expected));
        assert!(said.starts_with(first), "{said}");
    }
    // All that was expected was done, and more.
    let both = [steps[0], ("add_bag {\"trip_id\":\"T100\"}", "{}"), steps[1]];
    let said = content(&judged(&both, &["add_bag {\"trip_id\":\"T100\"}"]));
    assert!(
        said.starts_with("Do only: `add_bag` with `\"trip_id\":\"T100\"` [judge].\nDo not call `cancel_trip`"),
        "{said}"
    );
}

#[test]
fn a_tool_that_was_called_is_not_said_to_have_never_been() {
    let due = ["add_bag {\"trip_id\":\"T100\"}", "add_bag {\"trip_id\":\"T200\"}"];
    let title = |steps: &[(&str, &str)]| from_run(&judged(steps, &due), NONE_GIVEN).lessons[0].fields.title.clone();
    assert!(title(&[("get_trip {\"trip_id\":\"T100\"}", "{}")]).starts_with("add_bag was due and never called"));
    assert!(title(&[(due[0], NO_MONEY)]).starts_with("add_bag was due and never went through"));
    assert!(title(&[(due[0], "{}")]).starts_with("add_bag was due again and not called"));
}

#[test]
fn words_that_calls_followed_are_not_how_a_run_ended() {
    let words = ("respond: The total has been charged to your card.", "Fine.");
    let pay = ("add_bag {\"trip_id\":\"T100\"}", NO_MONEY);
    let due = ["cancel_trip {\"trip_id\":\"T100\"}"];
    let look = ("get_trip {\"trip_id\":\"T100\"}", "{}");
    assert!(
        content(&judged(&[look, words], &due))
            .contains("ended with `The total has been charged to your card.` [step 2]")
    );
    assert!(content(&judged(&[words, look], &due)).contains("said near its end `The total"));
    let said = content(&judged(&[look, words, pay], &due));
    assert!(said.contains(&format!("ended at `add_bag` with `{NO_MONEY}` [step 3]")), "{said}");
}

#[test]
fn a_value_that_is_chosen_is_not_said_to_be_looked_up_or_to_come_from_a_record() {
    let look = ("get_order {\"order_id\":\"#W100\"}", "{\"order_id\": \"#W100\", \"note\": \"ordered by mistake\"}");
    let wrong = ("cancel_order {\"order_id\":\"#W100\",\"reason\":\"no longer needed\"}", "{}");
    for reason in ["ordered by mistake", "too expensive"] {
        let expected = format!("cancel_order {{\"order_id\":\"#W100\",\"reason\":\"{reason}\"}}");
        let said = content(&judged(&[look, wrong], &[&expected]));
        assert!(!said.contains("at hand") && !said.contains("looked up"), "{said}");
    }
    let said =
        content(&judged(&[look, wrong], &["cancel_order {\"order_id\":\"#W200\",\"reason\":\"no longer needed\"}"]));
    assert!(said.contains("the order_id has to be looked up first"), "{said}");
}

#[test]
fn a_missing_answer_is_not_tied_to_a_question_it_may_not_belong_to() {
    let mut run = judged(
        &[
            ("", "Hello, what is the length of my shelf_plan() orders? And how much is the fee?"),
            ("respond: 3. The length of the delay of your orders.", "And?"),
            ("get_shelf {\"id\":\"S100\"}", "{}"),
        ],
        &[],
    );
    run.outcome.missing_answers = vec!["161.50".into(), "177".into()];
    let said = content(&run);
    assert!(said.starts_with("Do: say `161.50` in the answer [judge]"), "{said}");
    assert!(!said.contains("the answer had to") && !said.contains("It said"), "{said}");
    run.steps[1].action = "respond: The length of your orders is 50.".into();
    assert!(content(&run).contains("It said `The length of your orders is 50.` [step 2]."));
}

#[test]
fn a_change_that_the_judge_agrees_with_is_no_difference() {
    let due = "move_trip {\"flights\":[\"F1\"],\"trip_id\":\"T100\"}";
    let bag = "add_bag {\"trip_id\":\"T100\"}";
    let failed = judged(&[(due, "{}")], &[due, bag]);
    let mut ok =
        judged(&[("move_trip {\"flights\":[\"F1 from A\"],\"trip_id\":\"T100\"}", "{}"), (bag, "{}")], &[due, bag]);
    ok.outcome.status = RunStatus::Success;
    let drafts = contrast(&[&ok, &failed], NONE_GIVEN).lessons;
    assert_eq!(drafts.len(), 1);
    let said = &drafts[0].fields.content;
    assert!(said.contains("`add_bag`") && !said.contains("move_trip"), "{said}");
}
