//! The meaning of a bank: a pure fold of its set of records.
//!
//! For each author and each thing an author can say about a lesson only the claim with the highest seq counts, ties by
//! record id. Keeping that maximum is commutative, associative and idempotent, so equal sets have equal tallies whatever the
//! order of arrival. Whose word counts (policy, curators, revocations) is worked out when asked, because the records that
//! say so may arrive last.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    bank::Policy,
    claim::{Claim, Evidence, Verdict},
    identity::AuthorId,
    lesson::LessonId,
    record::{Record, RecordId},
};

/// What decides between two claims of one author: seq, then record id.
type Rank = (u64, RecordId);

/// Keeps the claim of the higher rank.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Latest<T> {
    rank: Rank,
    value: T,
}

fn keep_latest<K: Ord, T>(map: &mut BTreeMap<K, Latest<T>>, key: K, rank: Rank, value: T) {
    match map.get_mut(&key) {
        Some(latest) if latest.rank >= rank => {}
        Some(latest) => *latest = Latest { rank, value },
        None => {
            map.insert(key, Latest { rank, value });
        }
    }
}

/// An author's word on whether a lesson stands.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Teaching {
    Taught(Evidence),
    Withdrawn(String),
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct LessonClaims {
    teachings: BTreeMap<AuthorId, Latest<Teaching>>,
    ratings: BTreeMap<AuthorId, Latest<Verdict>>,
    disputes: BTreeMap<AuthorId, Latest<String>>,
    endorsements: BTreeMap<AuthorId, Latest<()>>,
}

/// What all records of a bank say together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tally {
    owner: AuthorId,
    policy: Option<Latest<Policy>>,
    revoked: BTreeMap<AuthorId, Latest<u64>>,
    rotated: BTreeMap<AuthorId, Latest<AuthorId>>,
    succeeds: BTreeMap<AuthorId, Latest<AuthorId>>,
    lessons: BTreeMap<LessonId, LessonClaims>,
}

/// Who stands behind an author key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum PrincipalKey {
    Owner,
    /// Index in the policy.
    Listed(usize),
    /// All unlisted authors together: keys cost nothing.
    Strangers,
}

/// What the records say of one lesson.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// Authors whose teaching is live, ascending.
    pub authors: Vec<AuthorId>,
    /// Distinct principals among them.
    pub taught_by: u32,
    /// Principals whose live verdict is that it helped.
    pub helped: u32,
    /// Principals whose live verdict is that it hurt.
    pub hurt: u32,
    /// Principals that dispute it.
    pub disputed: u32,
    /// Authors that endorse it.
    pub endorsed: u32,
    /// Whether a curator or the owner endorses it.
    pub endorsed_by_curator: bool,
    /// Nobody's teaching is live, or the owner or a curator withdrew the lesson.
    pub withdrawn: bool,
    /// Evidence of the live teachings, in order of author.
    pub evidence: Vec<Evidence>,
}

/// How a lesson is to be taken, here and now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Taught by this node, by several principals, or found to help.
    Trusted,
    /// Nobody has said whether it is any good.
    Unproven,
    /// Somebody says it is wrong, or more found it to hurt than to help.
    Disputed,
    /// Not to be shown.
    Withdrawn,
    /// Kept back here: it holds what would be redacted, or waits for a curator.
    Quarantined,
}

impl State {
    /// The word used in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Trusted => "trusted",
            Self::Unproven => "unproven",
            Self::Disputed => "disputed",
            Self::Withdrawn => "withdrawn",
            Self::Quarantined => "quarantined",
        }
    }
}

/// What this node adds to the tally to judge a lesson.
#[derive(Debug, Clone, Copy)]
pub struct LocalPolicy {
    /// This node: what it taught itself it trusts.
    pub me: AuthorId,
}

/// Each principal more that found a lesson to help raises its weight by this, up to four of them.
const HELPED_STEP: f32 = 0.05;
/// Each principal more that found it to hurt multiplies its weight by this.
const HURT_FACTOR: f32 = 0.8;
/// A disputed lesson counts half: marked, not deleted.
const DISPUTED_FACTOR: f32 = 0.5;
/// A lesson that nobody vouched for yet counts a little less.
const UNPROVEN_FACTOR: f32 = 0.95;

impl Tally {
    /// The meaning of no records, in a bank of `owner`.
    pub fn new(owner: AuthorId) -> Self {
        Self {
            owner,
            policy: None,
            revoked: BTreeMap::new(),
            rotated: BTreeMap::new(),
            succeeds: BTreeMap::new(),
            lessons: BTreeMap::new(),
        }
    }

    /// Folds one record in. Order and repeats do not matter.
    pub fn apply(&mut self, record: &Record) {
        let (author, rank) = (record.author(), (record.seq(), record.id()));
        match record.claim() {
            Claim::Taught { lesson_id, evidence } => {
                let teachings = &mut self.lessons.entry(*lesson_id).or_default().teachings;
                keep_latest(teachings, author, rank, Teaching::Taught(evidence.clone()));
            }
            Claim::Withdrawn { lesson_id, reason } => {
                let teachings = &mut self.lessons.entry(*lesson_id).or_default().teachings;
                keep_latest(teachings, author, rank, Teaching::Withdrawn(reason.clone()));
            }
            Claim::Rated { lesson_id, verdict, .. } => {
                keep_latest(&mut self.lessons.entry(*lesson_id).or_default().ratings, author, rank, *verdict);
            }
            Claim::Disputed { lesson_id, reason } => {
                keep_latest(&mut self.lessons.entry(*lesson_id).or_default().disputes, author, rank, reason.clone());
            }
            Claim::Endorsed { lesson_id } => {
                keep_latest(&mut self.lessons.entry(*lesson_id).or_default().endorsements, author, rank, ());
            }
            Claim::Policy(policy) if author == self.owner => {
                if self.policy.as_ref().is_none_or(|p| p.rank < rank) {
                    self.policy = Some(Latest { rank, value: policy.clone() });
                }
            }
            Claim::Revoked { author: shut_out, keep_through_seq, .. } if author == self.owner => {
                keep_latest(&mut self.revoked, *shut_out, rank, *keep_through_seq);
            }
            // The format lets anyone write these; only the owner's count.
            Claim::Policy(_) | Claim::Revoked { .. } => {}
            Claim::Rotated { new_author } => keep_latest(&mut self.rotated, author, rank, *new_author),
            Claim::Succeeds { old_author } => keep_latest(&mut self.succeeds, author, rank, *old_author),
        }
    }

    /// The policy in force; the default while the owner has set none.
    pub fn policy(&self) -> Policy {
        self.policy.as_ref().map(|p| p.value.clone()).unwrap_or_default()
    }

    /// The last seq of `author` that counts, if the owner shut it out.
    pub fn revoked_after(&self, author: &AuthorId) -> Option<u64> {
        self.revoked.get(author).map(|r| r.value)
    }

    /// The key `author` goes on under, if it rotated and that key agrees.
    pub fn rotated_to(&self, author: &AuthorId) -> Option<AuthorId> {
        let new = self.rotated.get(author)?.value;
        (self.succeeds.get(&new)?.value == *author).then_some(new)
    }

    /// Whether `author` ever taught or withdrew a lesson here.
    pub fn has_taught(&self, id: &LessonId, author: &AuthorId) -> bool {
        self.lessons.get(id).is_some_and(|claims| claims.teachings.contains_key(author))
    }

    /// Lessons that any record speaks of, ascending.
    pub fn lessons(&self) -> impl Iterator<Item = LessonId> + '_ {
        self.lessons.keys().copied()
    }

    /// Whether any record that was folded in speaks of a lesson.
    pub fn speaks_of(&self, id: &LessonId) -> bool {
        self.lessons.contains_key(id)
    }

    /// What the records say of a lesson; `None` if none speaks of it.
    pub fn standing(&self, id: &LessonId) -> Option<Standing> {
        self.lessons.get(id).map(|claims| self.standing_by(claims))
    }

    /// As [`Tally::standing`], by what `about` has of the lesson: for who does not fold every record in. Policy and revocations
    /// are this tally's.
    pub fn standing_in(&self, about: &Self, id: &LessonId) -> Option<Standing> {
        about.lessons.get(id).map(|claims| self.standing_by(claims))
    }

    /// A record that teaches the lesson and counts, if there is one: that of the last author whose teaching is live.
    pub fn teaching(&self, id: &LessonId) -> Option<RecordId> {
        self.teaching_in(self, id)
    }

    /// As [`Tally::teaching`], by what `about` has of the lesson.
    pub fn teaching_in(&self, about: &Self, id: &LessonId) -> Option<RecordId> {
        let live = |(author, latest): &(&AuthorId, &Latest<Teaching>)| {
            matches!(latest.value, Teaching::Taught(_)) && self.counts(author, &latest.rank)
        };
        about.lessons.get(id)?.teachings.iter().rev().find(live).map(|(_, latest)| latest.rank.1)
    }

    /// Whether the owner lets a claim of this rank count.
    fn counts(&self, author: &AuthorId, rank: &Rank) -> bool {
        self.revoked_after(author).is_none_or(|keep| rank.0 <= keep)
    }

    /// Takes in another tally of the same bank: the meaning of the records of both.
    pub fn merge(&mut self, other: Self) {
        fn keep_all<K: Ord, T>(ours: &mut BTreeMap<K, Latest<T>>, theirs: BTreeMap<K, Latest<T>>) {
            theirs.into_iter().for_each(|(key, latest)| keep_latest(ours, key, latest.rank, latest.value));
        }
        if let Some(theirs) = other.policy
            && self.policy.as_ref().is_none_or(|ours| ours.rank < theirs.rank)
        {
            self.policy = Some(theirs);
        }
        keep_all(&mut self.revoked, other.revoked);
        keep_all(&mut self.rotated, other.rotated);
        keep_all(&mut self.succeeds, other.succeeds);
        for (lesson, claims) in other.lessons {
            let ours = self.lessons.entry(lesson).or_default();
            keep_all(&mut ours.teachings, claims.teachings);
            keep_all(&mut ours.ratings, claims.ratings);
            keep_all(&mut ours.disputes, claims.disputes);
            keep_all(&mut ours.endorsements, claims.endorsements);
        }
    }

    fn standing_by(&self, claims: &LessonClaims) -> Standing {
        let default = Policy::default();
        let policy = self.policy.as_ref().map_or(&default, |p| &p.value);
        let counts = |author: &AuthorId, rank: &Rank| self.counts(author, rank);
        let is_curator = |a: &AuthorId| *a == self.owner || policy.curators.binary_search(a).is_ok();

        let mut authors = Vec::new();
        let mut evidence = Vec::new();
        let mut overruled = false;
        for (author, latest) in claims.teachings.iter().filter(|(a, l)| counts(a, &l.rank)) {
            match &latest.value {
                Teaching::Taught(e) => {
                    authors.push(*author);
                    evidence.push(e.clone());
                }
                Teaching::Withdrawn(_) => overruled |= is_curator(author),
            }
        }
        let principals = |set: &mut dyn Iterator<Item = &AuthorId>| -> BTreeSet<PrincipalKey> {
            set.map(|a| self.principal(policy, a)).collect()
        };
        let taught_by = principals(&mut authors.iter()).len() as u32;
        let disputed =
            principals(&mut claims.disputes.iter().filter(|(a, l)| counts(a, &l.rank)).map(|(a, _)| a)).len();

        // One live verdict a principal: that of most of its keys, and caution on a tie.
        let mut verdicts: BTreeMap<PrincipalKey, i64> = BTreeMap::new();
        for (author, latest) in claims.ratings.iter().filter(|(a, l)| counts(a, &l.rank)) {
            *verdicts.entry(self.principal(policy, author)).or_default() +=
                if latest.value == Verdict::Helped { 1 } else { -1 };
        }
        let helped = verdicts.values().filter(|v| **v > 0).count() as u32;
        let endorsers: Vec<&AuthorId> =
            claims.endorsements.iter().filter(|(a, l)| counts(a, &l.rank)).map(|(a, _)| a).collect();
        Standing {
            withdrawn: overruled || authors.is_empty(),
            authors,
            taught_by,
            helped,
            hurt: verdicts.len() as u32 - helped,
            disputed: disputed as u32,
            endorsed: endorsers.len() as u32,
            endorsed_by_curator: endorsers.into_iter().any(is_curator),
            evidence,
        }
    }

    /// How this node takes a lesson, and the factor for its score (0 where it is not to be shown).
    pub fn view(&self, standing: &Standing, local: &LocalPolicy, quarantined: bool) -> (State, f32) {
        if standing.withdrawn {
            return (State::Withdrawn, 0.0);
        }
        let waits = self.policy.as_ref().is_some_and(|p| p.value.endorsed_only) && !standing.endorsed_by_curator;
        if quarantined || waits {
            return (State::Quarantined, 0.0);
        }
        let net_helped = standing.helped.saturating_sub(standing.hurt).min(4) as f32;
        let net_hurt = standing.hurt.saturating_sub(standing.helped).min(8) as i32;
        let weight = (1.0 + HELPED_STEP * net_helped) * HURT_FACTOR.powi(net_hurt);
        if standing.disputed > 0 || net_hurt > 0 {
            return (State::Disputed, weight * if standing.disputed > 0 { DISPUTED_FACTOR } else { 1.0 });
        }
        let own = standing.authors.binary_search(&local.me).is_ok();
        if own || standing.taught_by > 1 || net_helped > 0.0 || standing.endorsed_by_curator {
            (State::Trusted, weight)
        } else {
            (State::Unproven, weight * UNPROVEN_FACTOR)
        }
    }

    fn principal(&self, policy: &Policy, author: &AuthorId) -> PrincipalKey {
        if *author == self.owner {
            return PrincipalKey::Owner;
        }
        policy
            .principals
            .iter()
            .position(|p| p.authors.binary_search(author).is_ok())
            .map_or(PrincipalKey::Strangers, PrincipalKey::Listed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        bank::{BankId, Principal},
        identity::Keypair,
    };
    use proptest::prelude::*;

    const LESSON: LessonId = LessonId([5; 32]);

    fn key(n: u8) -> Keypair {
        Keypair::from_seed(&[n; 32])
    }

    fn say(n: u8, seq: u64, claim: Claim) -> Record {
        Record::sign(&key(n), BankId([0; 32]), seq, 0, claim).unwrap()
    }

    fn taught(n: u8, seq: u64) -> Record {
        say(n, seq, Claim::Taught { lesson_id: LESSON, evidence: Evidence::told("person") })
    }

    fn withdrawn(n: u8, seq: u64) -> Record {
        say(n, seq, Claim::Withdrawn { lesson_id: LESSON, reason: String::new() })
    }

    fn rated(n: u8, seq: u64, verdict: Verdict) -> Record {
        say(n, seq, Claim::Rated { lesson_id: LESSON, verdict, run: None })
    }

    fn tally(records: &[Record]) -> Tally {
        let mut tally = Tally::new(key(1).author());
        records.iter().for_each(|r| tally.apply(r));
        tally
    }

    fn standing(records: &[Record]) -> Standing {
        tally(records).standing(&LESSON).unwrap()
    }

    #[test]
    fn the_same_lesson_taught_by_two_is_one_with_two_teachers() {
        let s = standing(&[taught(1, 1), taught(2, 1)]);
        assert_eq!((s.authors.len(), s.taught_by, s.withdrawn), (2, 2, false));
    }

    #[test]
    fn fifty_unlisted_keys_count_once() {
        let records: Vec<Record> = (2..52).flat_map(|n| [taught(n, 1), rated(n, 2, Verdict::Helped)]).collect();
        let s = standing(&records);
        assert_eq!((s.authors.len(), s.taught_by, s.helped), (50, 1, 1));
    }

    #[test]
    fn keys_of_one_listed_principal_count_once_and_two_principals_twice() {
        let mut authors = vec![key(2).author(), key(3).author()];
        authors.sort();
        let policy = Policy {
            principals: vec![
                Principal { name: "a".into(), authors },
                Principal { name: "b".into(), authors: vec![key(4).author()] },
            ],
            ..Policy::default()
        };
        let records = [say(1, 1, Claim::Policy(policy)), taught(2, 1), taught(3, 1), taught(4, 1)];
        assert_eq!(standing(&records).taught_by, 2);
    }

    #[test]
    fn withdrawing_voids_the_own_teaching_and_the_owner_voids_the_lesson() {
        assert!(!standing(&[taught(2, 1), taught(3, 1), withdrawn(2, 2)]).withdrawn);
        assert!(standing(&[taught(2, 1), withdrawn(2, 2)]).withdrawn);
        assert!(standing(&[taught(2, 1), taught(3, 1), withdrawn(1, 1)]).withdrawn);
        assert!(!standing(&[taught(2, 1), withdrawn(3, 9)]).withdrawn, "a stranger cannot withdraw another's lesson");
    }

    #[test]
    fn an_old_teaching_that_arrives_late_does_not_undo_a_withdrawal() {
        assert!(standing(&[withdrawn(2, 2), taught(2, 1)]).withdrawn);
    }

    #[test]
    fn what_a_revoked_author_said_later_counts_for_nothing() {
        let revoke = |keep| {
            let claim = Claim::Revoked { author: key(2).author(), keep_through_seq: keep, reason: String::new() };
            say(1, 1, claim)
        };
        assert!(standing(&[taught(2, 5), revoke(4)]).withdrawn);
        assert!(!standing(&[taught(2, 5), revoke(5)]).withdrawn);
        let by_stranger =
            say(3, 1, Claim::Revoked { author: key(2).author(), keep_through_seq: 0, reason: String::new() });
        assert!(!standing(&[taught(2, 5), by_stranger]).withdrawn);
    }

    #[test]
    fn a_rotation_counts_once_both_keys_say_so() {
        let (old, new) = (key(2).author(), key(3).author());
        let away = say(2, 1, Claim::Rotated { new_author: new });
        let taken = say(3, 1, Claim::Succeeds { old_author: old });
        assert_eq!(tally(std::slice::from_ref(&away)).rotated_to(&old), None);
        assert_eq!(tally(std::slice::from_ref(&taken)).rotated_to(&old), None);
        assert_eq!(tally(&[taken, away]).rotated_to(&old), Some(new));
    }

    #[test]
    fn a_view_marks_disputes_and_lowers_what_hurt() {
        let local = LocalPolicy { me: key(9).author() };
        let view = |records: &[Record]| {
            let t = tally(records);
            t.view(&t.standing(&LESSON).unwrap(), &local, false)
        };
        let (plain, plain_weight) = view(&[taught(2, 1)]);
        assert_eq!(plain, State::Unproven);
        assert_eq!(view(&[taught(1, 1), taught(2, 1)]).0, State::Trusted);
        let (helped, helped_weight) = view(&[taught(2, 1), rated(3, 1, Verdict::Helped)]);
        assert_eq!(helped, State::Trusted);
        assert!(helped_weight > plain_weight);
        let (hurt, hurt_weight) = view(&[taught(2, 1), rated(3, 1, Verdict::Hurt)]);
        assert_eq!(hurt, State::Disputed);
        assert!(hurt_weight < plain_weight);
        let dispute = say(3, 1, Claim::Disputed { lesson_id: LESSON, reason: "wrong".into() });
        let (state, weight) = view(&[taught(2, 1), dispute]);
        assert_eq!(state, State::Disputed);
        assert!(weight > 0.0 && weight < plain_weight);
    }

    fn any_record() -> impl Strategy<Value = Record> {
        (1u8..5, 1u64..6, 0u8..7).prop_map(|(n, seq, what)| match what {
            0 => taught(n, seq),
            1 => withdrawn(n, seq),
            2 => rated(n, seq, Verdict::Helped),
            3 => rated(n, seq, Verdict::Hurt),
            4 => say(n, seq, Claim::Disputed { lesson_id: LESSON, reason: "x".into() }),
            5 => say(n, seq, Claim::Revoked { author: key(3).author(), keep_through_seq: seq, reason: String::new() }),
            _ => say(n, seq, Claim::Policy(Policy { endorsed_only: seq % 2 == 0, ..Policy::default() })),
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn equal_sets_have_equal_tallies(records in proptest::collection::vec(any_record(), 0..20), cut in 0usize..20) {
            let mut other = records.clone();
            let len = other.len().max(1);
            other.rotate_left(cut % len);
            other.reverse();
            other.extend(records.iter().take(cut).cloned());
            prop_assert_eq!(tally(&records), tally(&other));
        }

        #[test]
        fn a_standing_is_the_same_worked_out_of_the_records_of_the_lesson(
            records in proptest::collection::vec(any_record(), 0..20),
        ) {
            let (about, ruling): (Vec<Record>, Vec<Record>) =
                records.iter().cloned().partition(|record| record.claim().lesson_id().is_some());
            let all = tally(&records);
            prop_assert_eq!(all.speaks_of(&LESSON), !about.is_empty());
            let (ruling, about) = (tally(&ruling), tally(&about));
            prop_assert_eq!(all.standing(&LESSON), ruling.standing_in(&about, &LESSON));
            prop_assert_eq!(all.teaching(&LESSON), ruling.teaching_in(&about, &LESSON));
            // And it names a record that teaches the lesson, by an author whose teaching is live.
            let named = all.teaching(&LESSON).map(|id| records.iter().find(|record| record.id() == id).unwrap());
            let authors = all.standing(&LESSON).map(|standing| standing.authors).unwrap_or_default();
            prop_assert_eq!(named.map(Record::author), authors.last().copied());
            let teaches = named.is_none_or(|record| matches!(record.claim(), Claim::Taught { .. }));
            prop_assert!(teaches);
        }

        #[test]
        fn two_tallies_together_are_the_tally_of_both_sets(
            records in proptest::collection::vec(any_record(), 0..20), cut in 0usize..20, back in 0usize..5,
        ) {
            let cut = cut.min(records.len());
            let (mut one, other) = (tally(&records[..cut]), tally(&records[cut.saturating_sub(back)..]));
            one.merge(other);
            prop_assert_eq!(one, tally(&records));
        }
    }
}
