//! After the cuts have healed: how long until the first lesson from the other side, the first useful one, and all.

use super::{
    Curve, RunFigures,
    holding::{Change, Holding},
};
use crate::observe::Observed;

/// Times after the heal at which the share that was made up is looked at: so many for each tenfold.
const PER_DECADE: u32 = 12;
/// The first of them, milliseconds.
const FIRST_MS: f64 = 100.0;
/// Decades: to ten days.
const DECADES: u32 = 7;

/// Watches what is made up after the heal.
#[derive(Debug)]
pub struct Healing {
    heal_ms: Option<u64>,
    healed: bool,
    /// Records of honest authors taught before the heal.
    records: u64,
    /// Of these, how many each node lacks.
    missing: Vec<u64>,
    /// Of the honest nodes that are up.
    missing_of_up: u64,
    missing_at_heal: u64,
    first_ms: Option<u64>,
    first_useful_ms: Option<u64>,
    all_ms: Option<u64>,
    curve: Curve,
}

impl Healing {
    pub(super) fn new(heal_ms: Option<u64>) -> Self {
        Self {
            heal_ms,
            healed: false,
            records: 0,
            missing: Vec::new(),
            missing_of_up: 0,
            missing_at_heal: 0,
            first_ms: None,
            first_useful_ms: None,
            all_ms: None,
            curve: Curve::default(),
        }
    }

    /// Notes what is missing when the cuts heal, and the share made up at each time after that.
    pub(super) fn advance(&mut self, at_ms: u64, holding: &Holding) {
        let Some(heal_ms) = self.heal_ms.filter(|heal| at_ms >= *heal) else { return };
        if !self.healed {
            self.healed = true;
            self.records = holding.records();
            self.missing = (0..holding.nodes()).map(|node| self.records - holding.count(node)).collect();
            let up = (0..holding.nodes()).filter(|node| holding.is_up(*node) && holding.is_honest(*node));
            self.missing_at_heal = up.map(|node| self.missing[node]).sum();
            self.missing_of_up = self.missing_at_heal;
            self.all_ms = (self.missing_of_up == 0).then_some(heal_ms);
        }
        while let Some(next) = sample_ms(self.curve.at_ms.len() as u32).filter(|next| heal_ms + next < at_ms) {
            let made_up = self.missing_at_heal.saturating_sub(self.missing_of_up) as f64;
            self.curve.at_ms.push(next);
            self.curve.values.push((self.missing_at_heal > 0).then(|| made_up / self.missing_at_heal as f64));
        }
    }

    pub(super) fn see(&mut self, at_ms: u64, what: &Observed, change: Option<Change>, holding: &Holding) {
        let Some(heal_ms) = self.heal_ms.filter(|_| self.healed) else { return };
        let old = |record: usize| holding.entry(record).filter(|entry| entry.taught_ms < heal_ms);
        match change {
            Some(Change::Gained { node, record }) => {
                let Some(entry) = old(record) else { return };
                self.missing[node] = self.missing[node].saturating_sub(1);
                if holding.is_up(node) {
                    self.missing_of_up = self.missing_of_up.saturating_sub(1);
                }
                if holding.site_of(node) != holding.site_of(entry.node) {
                    self.first_ms.get_or_insert(at_ms);
                }
            }
            Some(Change::Lost { node, record }) if old(record).is_some() => {
                self.missing[node] += 1;
                self.missing_of_up += u64::from(holding.is_up(node));
            }
            Some(Change::Up { node }) => self.missing_of_up += self.missing[node],
            Some(Change::Down { node }) => self.missing_of_up -= self.missing[node],
            _ => {}
        }
        if self.missing_of_up == 0 {
            self.all_ms.get_or_insert(at_ms);
        }
        if let Observed::Attempted { node, failed: false, record: Some(record), .. } = *what {
            let entry = usize::try_from(record).ok().and_then(old);
            if entry.is_some_and(|entry| !entry.poison && holding.site_of(entry.node) != holding.site_of(node)) {
                self.first_useful_ms.get_or_insert(at_ms);
            }
        }
    }

    pub(super) fn report(&self, run: &mut RunFigures) {
        let Some(heal_ms) = self.heal_ms.filter(|_| self.healed) else { return };
        let after = |at: Option<u64>| at.map(|at| (at - heal_ms) as f64 / 1000.0);
        let mut put = |name: &str, value: Option<f64>| run.figures.extend(value.map(|value| (name.to_string(), value)));
        put("converge.missing", Some(self.missing_at_heal as f64));
        put("converge.first_s", after(self.first_ms));
        put("converge.first_useful_s", after(self.first_useful_ms));
        put("converge.all_s", after(self.all_ms));
        put("converge.left", Some(self.missing_of_up as f64));
        if self.missing_at_heal > 0 {
            run.curves.insert("made_up".into(), self.curve.clone());
        }
    }
}

/// The n-th time after the heal that is looked at, milliseconds.
fn sample_ms(n: u32) -> Option<u64> {
    let power = f64::from(n) / f64::from(PER_DECADE);
    (n <= DECADES * PER_DECADE).then(|| (FIRST_MS * 10f64.powf(power)).round() as u64)
}
