//! Answer of `linerate diagnose`: the verdict first, then each limit with its evidence, experiments
//! and recommendation.

use std::path::Path;

use linerate_analysis::diagnosis::{IOPS, amount as amount_of, scores};
use linerate_analysis::{PointStudy, Study};
use linerate_campaign::diagnose::Rung;
use linerate_model::{Campaign, Finding, TestbedKind, Unit, Verdict, metric};
use linerate_report::document::{Block, Cell, Column, Origin, Row, Section, Table};
use linerate_report::number::Scale;
use linerate_report::{Document, claim};
use serde_json::{Value, json};

use crate::figures::{quantity, verdict_word};

/// Scores below this are left out of the text: nothing speaks for the hypothesis.
const LEAST_SCORE: f64 = 0.05;

/// Returns the answer on a recorded campaign.
#[must_use]
pub fn recorded(campaign: &Campaign, study: &Study) -> Document {
    let lead = linerate_report::verdict(campaign, study);
    let points: Vec<Value> = study.points.iter().map(point_json).collect();
    let findings: Vec<Value> = study.findings.iter().map(finding_json).collect();
    let verdict = lead.as_ref().map(|lead| lead.text.clone());
    let json = json!({ "verdict": verdict, "findings": findings, "points": points });
    let mut blocks: Vec<Block> = lead.map(Block::Lead).into_iter().collect();
    if study.findings.is_empty() {
        blocks.push(Block::Paragraph(
            "No rule applies: the ledger has no flow with a figure and a known ceiling, and no disk \
                load with evidence of a limit."
                .to_owned(),
        ));
    }
    blocks.extend(study.findings.iter().map(|found| Block::Claim(claim(found))));
    if study.findings.iter().any(|found| found.verdict == Verdict::Suspected) {
        blocks.push(Block::Paragraph(
            "Next: prove or rule out what is suspected with `linerate diagnose --to HOST` or \
                `--lab NAME`. It runs the experiments."
                .to_owned(),
        ));
    }
    let origin = Origin::Measured(campaign.header.testbed);
    answer(format!("Diagnosis of {}", campaign.header.name), origin, blocks, json)
}

/// Returns the answer on a path of this `kind`: its limits, from the one that shows on. The ledgers
/// of the stages are in `folder`.
#[must_use]
pub fn ladder(rungs: &[Rung], kind: TestbedKind, folder: &Path) -> Document {
    let verdict = verdict(rungs);
    let limits: Vec<Value> = rungs.iter().map(rung_json).collect();
    let json = json!({ "verdict": verdict, "ladder": limits });
    let mut blocks = vec![Block::Paragraph(verdict)];
    blocks.extend(rungs.iter().enumerate().flat_map(|(index, rung)| limit(index + 1, rung)));
    blocks.push(Block::Paragraph(format!("Ledgers of the stages: {}", folder.display())));
    answer("Diagnosis".to_owned(), Origin::Measured(kind), blocks, json)
}

fn answer(title: String, origin: Origin, blocks: Vec<Block>, json: Value) -> Document {
    let section = Section { id: "answer", title: "Limits", blocks };
    Document::answer(title, "limits of the load, with their evidence", origin, vec![section], json)
}

/// Returns the limits in one sentence, each with its status.
fn verdict(rungs: &[Rung]) -> String {
    let leading = |rung: &Rung| {
        rung.findings
            .first()
            .map(|found| format!("{} ({})", found.claim, verdict_word(found.verdict)))
    };
    let mut limits: Vec<String> = rungs.iter().filter_map(leading).collect();
    // A limit that was lifted by half and shows again is one limit.
    limits.dedup();
    let first = rungs.first().map_or_else(String::new, |rung| amount(rung.metric, rung.goodput));
    format!("{first}: {}", limits.join("; behind it: "))
}

/// Returns the blocks of one limit.
fn limit(number: usize, rung: &Rung) -> Vec<Block> {
    let reached = amount(rung.metric, rung.goodput);
    let lifted = rung.lifted.as_ref().map_or(String::new(), |(name, after)| {
        format!("; {} after {name}", amount(rung.metric, *after))
    });
    let mut blocks =
        vec![Block::Paragraph(format!("Limit {number}: {} {reached}{lifted}", rung.metric))];
    blocks.extend(rung.findings.iter().map(|found| Block::Claim(claim(found))));
    blocks.extend(score_table(number, rung).map(Block::Table));
    if !rung.notes.is_empty() {
        blocks.push(Block::List(rung.notes.clone()));
    }
    blocks
}

/// Returns the scores of the hypotheses, the best first; `None` if nothing speaks for any.
fn score_table(number: usize, rung: &Rung) -> Option<Table> {
    let columns = vec![
        Column::text("hypothesis"),
        Column::number("score", Scale { base: "", symbol: "", factor: 1.0 }),
    ];
    let mut table =
        Table::new(format!("scores-{number}"), format!("Evidence, limit {number}"), columns);
    table.note = Some("A score of 0.5 or more is suspected.".to_owned());
    let scored = rung.scores.iter().filter(|(_, score)| *score >= LEAST_SCORE);
    table.rows = scored
        .map(|(rule, score)| Row::plain(vec![Cell::text(*rule), Cell::Number(*score)]))
        .collect();
    (!table.rows.is_empty()).then_some(table)
}

fn amount(metric: &str, value: f64) -> String {
    if metric == IOPS {
        amount_of(metric, value)
    } else {
        quantity(metric::GOODPUT, value, Unit::BitPerSecond)
    }
}

fn point_json(point: &PointStudy) -> Value {
    json!({ "sweep": point.sweep, "point": point.parameters, "scores": by_rule(&scores(point)) })
}

fn rung_json(rung: &Rung) -> Value {
    json!({
        rung.metric: rung.goodput,
        "scores": by_rule(&rung.scores),
        "findings": rung.findings.iter().map(finding_json).collect::<Vec<_>>(),
        "lifted": rung.lifted.as_ref().map(|(name, after)| json!({ "by": name, rung.metric: after })),
        "notes": rung.notes,
    })
}

fn by_rule(scores: &[(&str, f64)]) -> Value {
    Value::Object(scores.iter().map(|(rule, score)| ((*rule).to_owned(), json!(score))).collect())
}

fn finding_json(found: &Finding) -> Value {
    json!({
        "rule": found.rule,
        "verdict": found.verdict,
        "subject": found.subject,
        "claim": found.claim,
        "evidence": found.evidence,
        "counterfactual": found.counterfactual,
        "placebo": found.placebo,
        "advice": found.advice,
    })
}

#[cfg(test)]
mod tests {
    use linerate_model::{About, Evidence};
    use linerate_report::text;

    use super::*;

    fn rung(claim: &str, verdict: Verdict) -> Rung {
        let evidence = vec![Evidence { observed: "waited 80 %".into(), source: "TCP_INFO".into() }];
        let about = About { text: "a to b".into(), flow: None };
        let finding = Finding::new("send_buffer", verdict, about, claim, evidence)
            .experimented("x2.0 with twice the buffer")
            .advise("linerate to HOST -w 1M");
        Rung {
            metric: metric::GOODPUT,
            goodput: 5e7,
            scores: vec![("send_buffer", 0.83), ("path_loss", 0.01)],
            findings: vec![finding],
            lifted: Some(("twice the send buffer".into(), 1e8)),
            notes: vec!["baseline: disturbed".into()],
        }
    }

    #[test]
    fn every_part_of_a_limit_is_in_the_text_and_in_the_json() {
        let rungs = [rung("the send buffer limits", Verdict::Proven)];
        let answer = ladder(&rungs, TestbedKind::Lab, Path::new("folder"));
        let text = text::whole(&answer);
        for part in [
            "50 Mbit/s: the send buffer limits (proven)",
            "100 Mbit/s after twice the send buffer",
            "waited 80 %",
            "x2.0 with twice the buffer",
            "linerate to HOST -w 1M",
            "0.83",
            "baseline: disturbed",
            "folder",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("path_loss"), "nothing speaks for it: {text}");
        let limit = &answer.study["ladder"][0];
        assert_eq!((&limit["goodput"], &limit["scores"]["path_loss"]), (&5e7.into(), &0.01.into()));
        assert_eq!(limit["lifted"]["by"], "twice the send buffer");
        assert_eq!(limit["findings"][0]["verdict"], "proven");
    }

    #[test]
    fn a_limit_that_was_lifted_in_part_is_named_once() {
        let one = || rung("the send buffer limits", Verdict::Proven);
        let rungs = [one(), one(), rung("the link is full", Verdict::Suspected)];
        assert_eq!(
            verdict(&rungs),
            "50 Mbit/s: the send buffer limits (proven); behind it: the link is full (suspected)"
        );
    }
}
