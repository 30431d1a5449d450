//! The table of a run, as text on the way and as Markdown at the end.

use std::fmt::Write as _;

use super::super::markdown;
use super::claim::{Claim, Relation, Unit, Verdict};

/// Outcome of one case.
#[derive(Clone, Debug)]
pub(super) enum Outcome {
    Judged(Vec<Claim>),
    /// linerate printed nothing that could be judged.
    Failed(String),
    /// The ground lacks something.
    Skipped(String),
}

/// One case and what came of it.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) case: &'static str,
    pub(super) outcome: Outcome,
}

/// How many claims agree and differ, and how many cases were skipped.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Tally {
    pub(super) agree: usize,
    pub(super) differ: usize,
    pub(super) skipped: usize,
}

impl Tally {
    pub(super) fn of(rows: &[Row]) -> Self {
        let mut tally = Self::default();
        for row in rows {
            match &row.outcome {
                Outcome::Judged(claims) => {
                    let n_agree =
                        claims.iter().filter(|claim| claim.verdict() == Verdict::Agrees).count();
                    tally.agree += n_agree;
                    tally.differ += claims.len() - n_agree;
                }
                Outcome::Failed(_) => tally.differ += 1,
                Outcome::Skipped(_) => tally.skipped += 1,
            }
        }
        tally
    }
}

/// `number` in `unit` for a reader.
fn shown(number: f64, unit: Unit) -> String {
    match unit {
        Unit::Count => format!("{number:.0}"),
        Unit::Bytes => format!("{number:.0} B"),
        Unit::PerSecond => format!("{number:.1} /s"),
        Unit::Ratio => format!("{:.3} %", number * 100.0),
        Unit::BitRate => format!("{:.4} Mbit/s", number / 1e6),
        Unit::Seconds => format!("{:.3} ms", number * 1e3),
    }
}

/// The words of one claim: quantity, expectation, printed, instrument, tolerance, verdict.
fn cells(claim: &Claim) -> [String; 6] {
    let tolerance = match claim.relation {
        Relation::Equal(tolerance) => allowed(&tolerance, "", claim.unit),
        Relation::AtMost(tolerance) => allowed(&tolerance, "at most; ", claim.unit),
        Relation::AtLeast(tolerance) => allowed(&tolerance, "at least; ", claim.unit),
        Relation::Withheld(why) => format!("must be withheld: {why}"),
    };
    let verdict = match claim.verdict() {
        Verdict::Agrees => "agrees".to_owned(),
        Verdict::Differs(why) => format!("DIFFERS: {why}"),
    };
    [
        claim.quantity.clone(),
        reference_cell(claim.expected.as_ref(), claim.unit),
        claim.printed.map_or("not printed".to_owned(), |printed| shown(printed, claim.unit)),
        reference_cell(claim.instrument.as_ref(), claim.unit),
        tolerance,
        verdict,
    ]
}

fn reference_cell(reference: Option<&super::claim::Reference>, unit: Unit) -> String {
    reference.map_or("-".to_owned(), |one| format!("{} ({})", shown(one.value, unit), one.source))
}

fn allowed(tolerance: &super::claim::Tolerance, before: &str, unit: Unit) -> String {
    let relative =
        (tolerance.relative > 0.0).then(|| format!("{:.1} %", tolerance.relative * 100.0));
    let absolute = (tolerance.absolute > 0.0).then(|| shown(tolerance.absolute, unit));
    let amount = [relative, absolute].into_iter().flatten().collect::<Vec<_>>().join(" or ");
    let amount = if amount.is_empty() { "0".to_owned() } else { amount };
    format!("{before}{amount}: {}", tolerance.why)
}

/// One case as lines of text.
pub(super) fn lines(row: &Row) -> String {
    match &row.outcome {
        Outcome::Failed(why) => format!("{}\n  differs: {why}\n", row.case),
        Outcome::Skipped(why) => format!("{}\n  skipped: {why}\n", row.case),
        Outcome::Judged(claims) => {
            let mut text = format!("{}\n", row.case);
            for claim in claims {
                let [quantity, expected, printed, instrument, _, verdict] = cells(claim);
                let _infallible = writeln!(
                    text,
                    "  {quantity}: expected {expected}, printed {printed}, other instrument \
                        {instrument}: {verdict}"
                );
            }
            text
        }
    }
}

/// The Markdown table, with the tally before it.
pub(super) fn document(machine: &str, rows: &[Row]) -> String {
    let tally = Tally::of(rows);
    const HEADS: [&str; 7] = [
        "case",
        "number",
        "expectation",
        "linerate prints",
        "other instrument",
        "tolerance and its reason",
        "verdict",
    ];
    let mut shown = Vec::new();
    for row in rows {
        // A case without claims has a name and a verdict only.
        let dashes = || std::iter::repeat_n("-".to_owned(), HEADS.len() - 2);
        let case = || std::iter::once(row.case.to_string());
        let one = |verdict: String| case().chain(dashes()).chain([verdict]).collect();
        match &row.outcome {
            Outcome::Failed(why) => shown.push(one(format!("DIFFERS: {why}"))),
            Outcome::Skipped(why) => shown.push(one(format!("skipped: {why}"))),
            Outcome::Judged(claims) => {
                shown.extend(claims.iter().map(|claim| {
                    std::iter::once(row.case.to_string()).chain(cells(claim)).collect()
                }))
            }
        }
    }
    format!(
        "{machine}\n\n{} numbers agree, {} differ, {} cases were skipped.\n\n{}",
        tally.agree,
        tally.differ,
        tally.skipped,
        markdown::table(&HEADS, &shown)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_failures_and_skips_are_counted_and_shown() {
        let agreeing =
            Claim::count("lost", Some(43.0)).expect(43.0, "1600 / 37").beside(43.0, "nft");
        let differing = Claim::count("lost", Some(4.0)).expect(43.0, "1600 / 37");
        let rows = [
            Row { case: "drop", outcome: Outcome::Judged(vec![agreeing, differing]) },
            Row { case: "broken", outcome: Outcome::Failed("a | b\nc".into()) },
            Row { case: "absent", outcome: Outcome::Skipped("no netem".into()) },
        ];
        assert_eq!(Tally::of(&rows), Tally { agree: 1, differ: 2, skipped: 1 });
        let text = document("here", &rows);
        assert!(text.contains("1 numbers agree, 2 differ, 1 cases were skipped"), "{text}");
        assert!(
            text.contains(
                "| drop | lost | 43 (1600 / 37) | 43 | 43 (nft) | 0: counts are exact | agrees |"
            ),
            "{text}"
        );
        assert!(
            text.contains(
                "| drop | lost | 43 (1600 / 37) | 4 | - | 0: counts are exact | DIFFERS: from \
                    1600 / 37 |"
            ),
            "{text}"
        );
        assert!(text.contains("| broken | - | - | - | - | - | DIFFERS: a \\| b c |"), "{text}");
        assert!(lines(&rows[2]).contains("skipped: no netem"));
    }
}
