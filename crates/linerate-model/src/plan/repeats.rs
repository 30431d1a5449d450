//! Number of runs of each point: a fixed number, or as many as its figures need to reach a
//! precision (docs/methodology/repeats.md#number-of-runs).
//!
//! ```toml
//! [campaign]
//! repeats = 6
//! # or
//! repeats = { within = "2 %", most = 30, of = "goodput" }
//! ```
//!
//! The second form stops when half the confidence interval of the figure `of` is at most `within`
//! of the figure, in every direction. It examines the interval only after 6, 10, 15, 20 and 30
//! runs. The error probability is divided among these looks, so that the interval holds whenever it
//! stops. Comparisons, mixes and searches set their own number of runs.

use toml::Spanned;
use toml::de::DeValue;

use super::fields::{Fields, Problems};
use super::{Plan, Sweep};
use crate::{METRICS, Problem, Ratio, Until, nearest};

/// Runs per point: six give a 95 % order-statistic interval of the median
/// (docs/methodology/repeats.md#number-of-runs).
pub(crate) const DEFAULT_REPEATS: u32 = 6;
const KEYS: &[&str] = &["within", "most", "of"];
/// Numbers of runs after which the interval is examined
/// (docs/methodology/repeats.md#number-of-runs): six runs are the fewest that have one.
const LOOKS: [u32; 5] = [6, 10, 15, 20, 30];
/// Half width where none is given.
const DEFAULT_WITHIN: Ratio = Ratio(0.02);
/// Most runs of a point.
const MOST_REPEATS: u32 = 1000;

impl Sweep {
    /// Returns the precision until which `plan` repeats the points of this sweep; `None` for a
    /// fixed number of runs.
    #[must_use]
    pub fn repeats_until(&self, plan: &Plan) -> Option<Until> {
        let is_plain = self.compare.is_none() && self.together.is_none() && self.search.is_none();
        // Comparisons, mixes and searches compare runs of equal number, so their number is fixed.
        plan.until.clone().filter(|_| is_plain)
    }
}

/// Reads `repeats` of the campaign: how many there are at most, and until when.
pub(super) fn read(fields: &Fields<'_, '_>) -> (u32, Option<Until>) {
    let Some(value) = fields.get("repeats").filter(|value| value.get_ref().as_table().is_some())
    else {
        return (fields.count_32("repeats", 1..=MOST_REPEATS, DEFAULT_REPEATS), None);
    };
    let until = until(value, fields.problems);
    (until.as_ref().map_or(DEFAULT_REPEATS, Until::most), until)
}

fn until(value: &Spanned<DeValue<'_>>, problems: &Problems) -> Option<Until> {
    let fields = Fields::of(value, "`repeats`", KEYS, problems)?;
    let expected = "half the width of the interval, such as \"2 %\" of the figure";
    let within = fields.read("within", expected, |value| {
        value.as_str()?.parse().ok().filter(|ratio: &Ratio| ratio.0 > 0.0 && ratio.0 < 1.0)
    });
    let within = within.unwrap_or(DEFAULT_WITHIN);
    let most = fields.count_32("most", LOOKS[0]..=MOST_REPEATS, LOOKS[LOOKS.len() - 1]);
    let of = fields.text("of", "the metric to be known so well, such as \"goodput\"");
    if let Some(name) = of.filter(|name| METRICS.iter().all(|metric| metric.name != *name)) {
        let problem =
            Problem::new(Some(fields.span_of("of")), format!("there is no metric `{name}`"));
        let near = nearest(name, METRICS.iter().map(|metric| metric.name));
        problems.push(problem.expected("one that `linerate list metrics` names").nearest(near));
    }
    // Looks beyond the last run never happen, and must not use up a part of the error.
    let mut looks: Vec<u32> = LOOKS.into_iter().filter(|look| *look < most).collect();
    looks.push(most);
    Some(Until { within, of: of.map(str::to_owned), looks })
}

/// Returns true if `plan` repeats points until a figure is known, and none of its points can be
/// repeated so.
pub(super) fn are_unused(plan: &Plan) -> bool {
    let is_fixed = |sweep: &Sweep| sweep.repeats_until(plan).is_none();
    plan.until.is_some() && plan.sweeps.iter().all(is_fixed)
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    const SWEEP: &str =
        "[[sweep]]\nname='s'\n[[sweep.job]]\nworkload='tcp_stream'\nfrom='a'\nto='b'\n";

    fn plan(repeats: &str, more: &str) -> (Plan, Vec<Problem>) {
        let (plan, problems) =
            parse(&format!("[campaign]\nname='n'\nrepeats={repeats}\n{SWEEP}{more}"));
        (plan.expect("it is TOML"), problems)
    }

    #[test]
    fn repeats_are_a_number_or_go_on_until_a_figure_is_known() {
        assert_eq!((plan("7", "").0.repeats, plan("7", "").0.until), (7, None));
        let (found, problems) = plan("{ within = '3 %', of = 'response_time_p99' }", "");
        let until = found.until.clone().expect("a table");
        assert_eq!((problems, found.repeats), (vec![], 30));
        assert_eq!((until.within, until.of.as_deref()), (Ratio(0.03), Some("response_time_p99")));
        assert_eq!(
            (until.looks.as_slice(), until.first(), until.most()),
            (&[6, 10, 15, 20, 30][..], 6, 30)
        );
        assert_eq!(found.sweeps[0].repeats_until(&found), Some(until));
        let looks =
            |most: u32| plan(&format!("{{ most = {most} }}"), "").0.until.expect("a table").looks;
        assert_eq!(
            (looks(6), looks(12), looks(50)),
            (vec![6], vec![6, 10, 12], vec![6, 10, 15, 20, 30, 50])
        );
    }

    #[test]
    fn what_cannot_be_repeated_so_is_said() {
        let told = |repeats: &str, more: &str| {
            plan(repeats, more).1.iter().map(|p| p.message.clone()).collect::<Vec<_>>()
        };
        assert_eq!(told("{ within = '200 %', most = 3, of = 'goodputt' }", "").len(), 3);
        let compare = "[sweep.compare]\na={name='A'}\nb={name='B',to='c'}\n";
        assert_eq!(
            told("{ within = '2 %' }", compare),
            ["`repeats` looks at points, and every sweep has a number of its own"]
        );
    }
}
