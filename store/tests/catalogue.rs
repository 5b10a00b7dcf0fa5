//! The catalogue over a real bank on disk: what is shown, what is kept back, and why an answer is empty.

use folklore_protocol::{
    BankId, Claim, Evidence, Keypair, Lesson, LessonDraft, LessonId, LessonKind, Policy, Principal, Record, State,
    Verdict,
};
use folklore_store::{
    bank::{BankInfo, Batch, Incoming, OpenOptions, Store},
    catalogue::{Catalogue, FindError, Offered, Wish},
    recall::EmptyReason,
};

struct Bench {
    _dir: tempfile::TempDir,
    store: Store,
    catalogue: Catalogue,
    bank: BankInfo,
    seq: u64,
}

fn key(n: u8) -> Keypair {
    Keypair::from_seed(&[n; 32])
}

fn lesson(title: &str, task: &str, content: &str) -> Lesson {
    Lesson::new(LessonDraft {
        kind: LessonKind::Pitfall,
        title: title.into(),
        applies_when: String::new(),
        not_when: String::new(),
        content: content.into(),
        task: task.into(),
        domain: "shop".into(),
        tags: Vec::new(),
    })
    .unwrap()
}

fn refund() -> Lesson {
    lesson(
        "Refund each part to where it came from",
        "refund a broken lamp that was paid with a gift card and a credit card",
        "Calling refund_payment once with the whole price failed; split it by payment.",
    )
}

const ASK_REFUND: &str = "give the money back for a broken vase paid half by gift card and half by credit card";

impl Bench {
    /// A bank of key 1 at a node of key 1.
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path(), OpenOptions { entropy: 7, ..OpenOptions::default() }).unwrap().store;
        let bank = BankInfo::new(key(1).author(), [0; 16], "home");
        store.add_bank(bank.clone()).unwrap();
        let catalogue = Catalogue::load(store.clone(), key(1).author()).unwrap();
        Self { _dir: dir, store, catalogue, bank, seq: 0 }
    }

    fn teach(&self, lesson: &Lesson) {
        let claim = Claim::Taught { lesson_id: lesson.id(), evidence: Evidence::told("person") };
        self.say(claim, Some(lesson.clone()));
    }

    fn say(&self, claim: Claim, body: Option<Lesson>) {
        let batch = Batch { claims: vec![(claim, body.clone())], runs: Vec::new(), skip_if_taught: true };
        let written = self.store.write(self.bank.id, &key(1), 0, batch).unwrap();
        let records: Vec<Record> = written.records().cloned().collect();
        self.catalogue.learn(&self.bank.id, &records, body.as_slice());
    }

    /// Another node says something, and it is admitted here.
    fn hear(&mut self, n: u8, claim: Claim, body: Option<Lesson>) {
        self.seq += 1;
        let record = Record::sign(&key(n), self.bank.id, self.seq, 0, claim).unwrap();
        let incoming = Incoming { record: record.clone(), body: body.clone() };
        self.store.admit(self.bank.id, vec![incoming]).unwrap();
        self.catalogue.learn(&self.bank.id, &[record], body.as_slice());
    }

    fn ask(&self, query: &str) -> (Vec<LessonId>, Option<EmptyReason>) {
        let recalled = self.catalogue.recall(query, &Wish { k: 3, ..Wish::default() }, &[]).unwrap();
        (recalled.hits.iter().map(|h| h.lesson.id()).collect(), recalled.reason)
    }

    fn state(&self, id: &LessonId) -> State {
        self.catalogue.standing(id, None).unwrap().1
    }
}

#[test]
fn a_lesson_is_found_in_other_words_and_a_reopened_bank_answers_the_same() {
    let bench = Bench::new();
    assert_eq!(bench.ask(ASK_REFUND), (vec![], Some(EmptyReason::BankEmpty)));
    bench.teach(&refund());
    let answer = bench.ask(ASK_REFUND);
    assert_eq!(answer, (vec![refund().id()], None));
    assert_eq!(bench.ask("which wine goes with grilled fish"), (vec![], Some(EmptyReason::BelowThreshold)));
    let again = Catalogue::load(bench.store.clone(), key(1).author()).unwrap();
    let recalled = again.recall(ASK_REFUND, &Wish { k: 3, ..Wish::default() }, &[]).unwrap();
    assert_eq!(recalled.hits.iter().map(|h| h.lesson.id()).collect::<Vec<_>>(), answer.0);
    assert_eq!(again.lesson_count(&bench.bank.id), 1);
    // With vectors on disk, at the first opening and at the second, and where they cannot be kept.
    let vectors = tempfile::tempdir().unwrap();
    let file = vectors.path().join("a-file");
    std::fs::write(&file, "").unwrap();
    for dir in [vectors.path(), vectors.path(), &file] {
        let kept = Catalogue::open(bench.store.clone(), key(1).author(), dir).unwrap();
        let recalled_again = kept.recall(ASK_REFUND, &Wish { k: 3, ..Wish::default() }, &[]).unwrap();
        assert_eq!(recalled_again.hits[0].score, recalled.hits[0].score);
    }
}

#[test]
fn a_withdrawn_lesson_is_shown_nowhere_and_an_old_teaching_does_not_bring_it_back() {
    let mut bench = Bench::new();
    bench.teach(&refund());
    bench.say(Claim::Withdrawn { lesson_id: refund().id(), reason: "it is done by itself now".into() }, None);
    assert_eq!(bench.ask(ASK_REFUND).0, []);
    assert_eq!(bench.catalogue.list(&Wish::default(), 0, 10).unwrap().1, 0);
    let old = Claim::Taught { lesson_id: refund().id(), evidence: Evidence::told("person") };
    bench.hear(2, old, Some(refund()));
    assert_eq!(bench.state(&refund().id()), State::Withdrawn, "the owner withdrew the lesson, whoever teaches it");
    let offered = Offered { lesson: refund(), author: key(2).author(), peer: key(2).author() };
    let recalled = bench.catalogue.recall(ASK_REFUND, &Wish::default(), &[offered]).unwrap();
    assert!(recalled.hits.is_empty(), "nor does a peer's answer");
}

#[test]
fn a_received_lesson_with_a_credential_is_kept_but_not_shown() {
    let mut bench = Bench::new();
    let token = format!("ghp_{}", "aB3dE5gH7jK9".repeat(3));
    let leaky = lesson(
        "Refund with the back-office token",
        "refund a broken lamp paid by gift card",
        &format!("export GITHUB_TOKEN={token}"),
    );
    bench.hear(2, Claim::Taught { lesson_id: leaky.id(), evidence: Evidence::told("person") }, Some(leaky.clone()));
    assert_eq!(bench.state(&leaky.id()), State::Quarantined);
    assert!(bench.catalogue.kept_back_by(&leaky.id()).is_some());
    assert_eq!(bench.ask("refund a broken lamp paid by gift card"), (vec![], Some(EmptyReason::Filtered)));
    assert_eq!(bench.store.record_count(&bench.bank.id), 1, "the set is the same as everybody's");
}

#[test]
fn filters_say_that_they_filtered() {
    let bench = Bench::new();
    bench.teach(&refund());
    let ask = |wish: Wish| {
        let recalled = bench.catalogue.recall(ASK_REFUND, &wish, &[]).unwrap();
        (recalled.hits.len(), recalled.reason)
    };
    let wish = Wish { k: 1, ..Wish::default() };
    assert_eq!(ask(Wish { kinds: vec![LessonKind::Strategy], ..wish.clone() }), (0, Some(EmptyReason::Filtered)));
    assert_eq!(ask(Wish { domain: Some("coding".into()), ..wish.clone() }), (0, Some(EmptyReason::Filtered)));
    assert_eq!(ask(Wish { domain: Some("shop".into()), ..wish.clone() }), (1, None));
    assert_eq!(ask(Wish { bank: Some(BankId([9; 32])), ..wish }), (0, Some(EmptyReason::BankEmpty)));
}

#[test]
fn what_helped_comes_before_what_hurt() {
    let mut bench = Bench::new();
    let (good, bad) = (
        refund(),
        lesson("Refund all to the gift card", &refund().task, "refund_payment once, to the gift card, by credit"),
    );
    for l in [&good, &bad] {
        bench.hear(2, Claim::Taught { lesson_id: l.id(), evidence: Evidence::told("person") }, Some((*l).clone()));
    }
    bench.hear(3, Claim::Rated { lesson_id: bad.id(), verdict: Verdict::Hurt, run: None }, None);
    bench.say(Claim::Rated { lesson_id: good.id(), verdict: Verdict::Helped, run: None }, None);
    assert_eq!((bench.state(&good.id()), bench.state(&bad.id())), (State::Trusted, State::Disputed));
    assert_eq!(bench.ask(ASK_REFUND).0.first(), Some(&good.id()));
}

#[test]
fn a_policy_that_wants_endorsements_holds_lessons_back_until_a_curator_endorses_them() {
    let mut bench = Bench::new();
    bench.hear(2, Claim::Taught { lesson_id: refund().id(), evidence: Evidence::told("person") }, Some(refund()));
    bench.say(Claim::Policy(Policy { endorsed_only: true, ..Policy::default() }), None);
    assert_eq!(bench.ask(ASK_REFUND), (vec![], Some(EmptyReason::Filtered)));
    bench.hear(3, Claim::Endorsed { lesson_id: refund().id() }, None);
    assert_eq!(bench.ask(ASK_REFUND).0, [], "anybody can sign an endorsement");
    bench.say(Claim::Endorsed { lesson_id: refund().id() }, None);
    assert_eq!(bench.ask(ASK_REFUND).0, [refund().id()]);
}

#[test]
fn an_answer_of_a_peer_competes_by_the_same_measure_and_is_named() {
    let bench = Bench::new();
    bench.teach(&lesson("Check the stock first", "exchange a jacket for another size", "get_item showed none left"));
    let offered = Offered { lesson: refund(), author: key(3).author(), peer: key(2).author() };
    let twice = [offered.clone(), offered];
    let recalled = bench.catalogue.recall(ASK_REFUND, &Wish { k: 3, ..Wish::default() }, &twice).unwrap();
    assert_eq!(recalled.hits.len(), 1);
    let hit = &recalled.hits[0];
    assert_eq!((hit.lesson.id(), hit.peer), (refund().id(), Some(key(2).author())));
    assert_eq!((hit.state, hit.standing.authors.as_slice()), (State::Unproven, &[key(3).author()][..]));
}

#[test]
fn a_prefix_names_a_lesson_if_it_names_one_only() {
    let bench = Bench::new();
    bench.teach(&refund());
    bench.teach(&lesson("Check the stock first", "exchange a jacket", "get_item showed none left"));
    let id = refund().id().to_string();
    assert_eq!(bench.catalogue.find(&id), Ok(refund().id()));
    assert_eq!(bench.catalogue.find(&id[..20]), Ok(refund().id()));
    assert_eq!(bench.catalogue.find("bafkr4i"), Err(FindError::Several("bafkr4i".into(), 2)));
    assert!(matches!(bench.catalogue.find("bafkr4izzzzzz"), Err(FindError::None(_))));
}

#[test]
fn what_a_peer_is_answered_with_is_a_record_that_teaches_the_lesson() {
    let mut bench = Bench::new();
    bench.teach(&refund());
    bench.hear(2, Claim::Rated { lesson_id: refund().id(), verdict: Verdict::Helped, run: None }, None);
    let found = bench.catalogue.search(&bench.bank.id, ASK_REFUND, 4).unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].0.claim().body(), found[0].1.id()), (Some(refund().id()), refund().id()));
    assert!(bench.catalogue.search(&bench.bank.id, "which wine goes with fish", 4).unwrap().is_empty());
}

#[test]
fn a_full_bank_beside_it_does_not_hide_what_a_small_bank_knows() {
    let bench = Bench::new();
    for n in 0..300 {
        bench.teach(&lesson(
            &format!("Refund lamp {n} by gift card and credit card"),
            &refund().task,
            &format!("case {n}"),
        ));
    }
    let small = BankInfo::new(key(1).author(), [1; 16], "team");
    bench.store.add_bank(small.clone()).unwrap();
    bench.catalogue.open_bank(small.clone());
    let claim = Claim::Taught { lesson_id: refund().id(), evidence: Evidence::told("person") };
    let batch = Batch { claims: vec![(claim, Some(refund()))], runs: Vec::new(), skip_if_taught: true };
    let written = bench.store.write(small.id, &key(1), 0, batch).unwrap();
    let records: Vec<Record> = written.records().cloned().collect();
    bench.catalogue.learn(&small.id, &records, &[refund()]);
    let wish = Wish { k: 1, bank: Some(small.id), ..Wish::default() };
    let recalled = bench.catalogue.recall(ASK_REFUND, &wish, &[]).unwrap();
    assert_eq!(recalled.hits.first().map(|h| h.lesson.id()), Some(refund().id()), "{:?}", recalled.reason);
}

#[test]
fn what_was_learned_from_a_task_is_left_out_when_that_task_is_excluded() {
    let bench = Bench::new();
    bench.teach(&refund());
    let ask = |excluded: &[&str]| {
        let exclude_tasks = excluded.iter().map(|task| (*task).to_owned()).collect();
        let wish = Wish { k: 3, exclude_tasks, ..Wish::default() };
        let recalled = bench.catalogue.recall(ASK_REFUND, &wish, &[]).unwrap();
        (recalled.hits.len(), recalled.reason)
    };
    assert_eq!(ask(&["cancel a hotel"]), (1, None));
    let same = "Refund a broken lamp  that was paid with a gift card and a credit card";
    assert_eq!(ask(&["cancel a hotel", same]), (0, Some(EmptyReason::Filtered)));
}

#[test]
fn a_whole_task_of_an_agent_excludes_what_was_learned_under_its_general_terms() {
    let bench = Bench::new();
    let task = "You are Mei Davis. You want to return the water bottle and exchange the desk lamp for a brighter one.";
    let run = folklore_store::run::Run { task: task.into(), ..Default::default() };
    let general = folklore_store::learn::task::general(&run);
    assert_ne!(general, task);
    bench.teach(&lesson("Exchange all items at once", &general, "exchange_delivered_order_items works once an order."));
    let ask = |excluded: &[&str]| {
        let exclude_tasks = excluded.iter().map(|task| (*task).to_owned()).collect();
        bench.catalogue.recall(&general, &Wish { k: 1, exclude_tasks, ..Wish::default() }, &[]).unwrap().hits.len()
    };
    assert_eq!((ask(&[]), ask(&[task])), (1, 0));
}

#[test]
fn two_wordings_of_one_lesson_are_one_hit_and_a_pitfall_never_hides_a_strategy() {
    let bench = Bench::new();
    let other = lesson(&refund().title, &refund().task, &refund().content.replace("failed;", "failed:"));
    bench.teach(&refund());
    bench.teach(&other);
    let mut draft = refund().fields().clone();
    draft.kind = LessonKind::Strategy;
    let strategy = Lesson::new(draft).unwrap();
    bench.teach(&strategy);
    let wish = Wish { k: 3, explain: true, ..Wish::default() };
    let hits = bench.catalogue.recall(ASK_REFUND, &wish, &[]).unwrap().hits;
    assert_eq!(hits.len(), 2);
    let pitfall = hits.iter().find(|hit| hit.lesson.kind == LessonKind::Pitfall).unwrap();
    let mut shown = vec![pitfall.lesson.id()];
    shown.extend(&pitfall.also);
    shown.sort();
    let mut taught = vec![refund().id(), other.id()];
    taught.sort();
    assert_eq!(shown, taught);
    let explained = pitfall.explained.unwrap();
    assert!(explained.keys.task_cosine.is_some() && explained.scored.gate.passes());
}

#[test]
fn a_peers_copy_of_a_lesson_held_here_folds_into_it_and_is_explained() {
    let bench = Bench::new();
    bench.teach(&refund());
    let copy = lesson(&refund().title, &refund().task, &refund().content.replace("failed;", "failed:"));
    let offered = Offered { lesson: copy.clone(), author: key(3).author(), peer: key(4).author() };
    let wish = Wish { k: 3, explain: true, ..Wish::default() };
    let hits = bench.catalogue.recall(ASK_REFUND, &wish, std::slice::from_ref(&offered)).unwrap().hits;
    assert_eq!((hits.len(), hits[0].lesson.id(), &hits[0].also), (1, refund().id(), &vec![copy.id()]));
    let alone = Bench::new().catalogue.recall(ASK_REFUND, &wish, &[offered]).unwrap().hits;
    assert!(alone[0].peer.is_some() && alone[0].explained.unwrap().keys.text_bm25 > 0.0);
}

#[test]
fn claims_come_by_page() {
    let mut bench = Bench::new();
    bench.teach(&refund());
    for n in 2..9 {
        bench.hear(n, Claim::Rated { lesson_id: refund().id(), verdict: Verdict::Helped, run: None }, None);
    }
    let all = bench.catalogue.claims(&bench.bank.id, &refund().id()).unwrap();
    assert_eq!(all.len(), 8);
    let mut paged = Vec::new();
    for offset in [0, 3, 6, 9] {
        let (page, total) = bench.catalogue.claims_page(&bench.bank.id, &refund().id(), offset, 3).unwrap();
        assert!(page.len() <= 3 && total == 8);
        paged.extend(page);
    }
    assert_eq!(paged.iter().map(Record::id).collect::<Vec<_>>(), all.iter().map(Record::id).collect::<Vec<_>>());
}

#[test]
fn only_what_adds_nothing_or_is_vouched_for_stands_for_a_lesson_in_nearly_the_same_words() {
    let text = "Calling refund_payment once with the whole price failed because two payments had been made; split the price \
        by payment and call it once for each of them, the gift card first.";
    let task = "refund a broken lamp that was paid with a gift card and a credit card";
    let ours = lesson("Refund each part", task, &format!("{text} Then write down both numbers."));
    let taught = |l: &Lesson| Claim::Taught { lesson_id: l.id(), evidence: Evidence::told("person") };
    let longer = lesson("Refund each part", task, &format!("{text} Then write down both numbers. First ask nobody."));
    let shorter = lesson("Refund each part", task, text);
    let titled = lesson("Refund nothing at all", task, text);
    let stands = |bench: &Bench| bench.catalogue.same_as(&bench.bank.id, &ours).map(|held| held.id());

    // A stranger's: only the one that says no more, under no other title; what another key says of it helps nothing.
    let mut bench = Bench::new();
    for held in [&longer, &titled] {
        bench.hear(7, taught(held), Some(held.clone()));
        let helped = Claim::Rated { lesson_id: held.id(), verdict: Verdict::Helped, run: None };
        bench.hear(8, helped, None);
        assert_eq!(bench.state(&held.id()), State::Trusted, "recall takes it so");
        assert_eq!(stands(&bench), None);
    }
    bench.hear(7, taught(&shorter), Some(shorter.clone()));
    assert_eq!(stands(&bench), Some(shorter.id()));

    // One that this node has signed, and one that two principals have.
    let bench = Bench::new();
    bench.teach(&longer);
    assert_eq!(stands(&bench), Some(longer.id()));
    let mut bench = Bench::new();
    let fleet = Principal { name: "fleet".into(), authors: vec![key(2).author()] };
    bench.say(Claim::Policy(Policy { principals: vec![fleet], ..Policy::default() }), None);
    for n in [2, 7] {
        assert_eq!(stands(&bench), None);
        bench.hear(n, taught(&longer), Some(longer.clone()));
    }
    assert_eq!(stands(&bench), Some(longer.id()));
    bench.hear(9, Claim::Disputed { lesson_id: longer.id(), reason: String::new() }, None);
    assert_eq!(stands(&bench), None, "it is trusted no longer");
}
