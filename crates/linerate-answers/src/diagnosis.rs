//! Answer of `linerate diagnose`: the first screen, then each limit with its evidence, experiments
//! and recommendation.

use std::path::Path;

use linerate_analysis::diagnosis::{Finding, IOPS, scores};
use linerate_analysis::{PointStudy, Study};
use linerate_campaign::diagnose::{Load, Rung};
use linerate_model::{Campaign, Metric, Nanos, TestbedKind, metric};
use linerate_report::document::{Block, Cell, Column, Lead, Origin, Row, Section, Table};
use linerate_report::number::Scale;
use linerate_report::{CommandPlace, Document, claim, finding_json, sentences};
use serde_json::{Value, json};

use crate::figures::quantity;
use crate::plan::span;

/// Scores below this are left out of the text: no evidence supports the hypothesis.
const LEAST_SCORE: f64 = 0.05;

/// Returns the plan of a diagnosis and its expected time.
#[must_use]
pub fn agenda(load: &Load, limits: u32, budget: Nanos) -> String {
    let [baseline, proof] = load.expected().map(|time| span(time.as_secs_f64()));
    let s = if limits == 1 { "" } else { "s" };
    format!(
        "Plan: measure the unchanged load, suspect a limit, then prove it or rule it out with {} \
            pairs of runs. At most {limits} limit{s}, one behind the other.\n\
         Expected time: {baseline} if nothing is suspected, {proof} for each proven limit. \
         Budget: {}; an experiment that does not fit is not begun.",
        load.n_pairs(),
        span(budget.as_secs_f64())
    )
}

/// Returns the answer on a recorded campaign.
pub fn recorded(campaign: &Campaign, study: &Study) -> Document {
    let place = CommandPlace::of(campaign);
    let lead = linerate_report::verdict(campaign, study);
    let points: Vec<Value> = study.points.iter().map(point_json).collect();
    let findings: Vec<Value> =
        study.findings.iter().map(|found| finding_json(found, &place)).collect();
    let verdict = lead.as_ref().map(Lead::text);
    let json = json!({ "verdict": verdict, "findings": findings, "points": points });
    let mut blocks: Vec<Block> = lead.map(Block::Lead).into_iter().collect();
    if study.findings.is_empty() {
        blocks.push(Block::Paragraph(
            "No rule applies: the ledger has no flow with a figure and a known ceiling, and no \
                disk load with evidence of a limit."
                .to_owned(),
        ));
    }
    blocks.extend(study.findings.iter().map(|found| Block::Claim(claim(found, &place))));
    let origin = Origin::Measured(campaign.header.testbed);
    answer(format!("Diagnosis of {}", campaign.header.name), origin, blocks, json)
}

/// Returns the answer on a path of this `kind`: its limits in the order in which they appeared. The
/// ledgers of the stages are in `folder`; `place` completes the commands.
pub fn ladder(rungs: &[Rung], kind: TestbedKind, folder: &Path, place: &CommandPlace) -> Document {
    let limits: Vec<Value> = rungs.iter().map(|rung| rung_json(rung, place)).collect();
    let json = json!({ "verdict": verdict(rungs), "ladder": limits });
    let mut blocks: Vec<Block> = first_screen(rungs, place).map(Block::Lead).into_iter().collect();
    let limits = rungs.iter().enumerate();
    blocks.extend(limits.flat_map(|(index, rung)| limit(index + 1, rung, place)));
    blocks.push(Block::Paragraph(format!("Ledgers of the stages: {}", folder.display())));
    answer("Diagnosis".to_owned(), Origin::Measured(kind), blocks, json)
}

fn answer(title: String, origin: Origin, blocks: Vec<Block>, json: Value) -> Document {
    let section = Section { id: "answer", title: "Limits", blocks };
    Document::answer(title, "limits of the load, with their evidence", origin, vec![section], json)
}

/// Returns the first screen: the first limit with its evidence, and the next step. Further limits
/// are listed behind the evidence.
fn first_screen(rungs: &[Rung], place: &CommandPlace) -> Option<Lead> {
    /// Most observations of the first limit.
    const MOST_EVIDENCE: usize = 2;
    let (first, behind) = rungs.split_first()?;
    let found = first.findings.first();
    let mut evidence: Vec<String> =
        found.and_then(|found| sentences::outcomes(&found.experiments)).into_iter().collect();
    let observed = found.into_iter().flat_map(|found| &found.evidence);
    evidence.extend(observed.take(MOST_EVIDENCE).map(sentences::observation));
    for rung in behind {
        // A limit that was lifted in part appears again under the same rule and is no further
        // limit.
        if let Some(next) =
            rung.findings.first().filter(|next| Some(&next.rule) != found.map(|found| &found.rule))
        {
            let reached = amount(rung.metric, rung.goodput);
            evidence.push(format!("next limit, at {reached}: {}", with_status(next)));
        }
    }
    let lifted = first
        .lifted
        .as_ref()
        .map(|(name, after)| format!("{} with {name}", amount(first.metric, *after)));
    // The first advice is the most important one; the others follow in the detailed part. The
    // command of another may take it.
    let advice = found.map_or(&[][..], |found| &found.advice);
    let with_command = advice.iter().skip(1).find(|advice| advice.command.is_some());
    let with_command = with_command.filter(|_| advice[0].command.is_none());
    let next = advice.first().into_iter().chain(with_command);
    let screen = first.headline.as_ref().map(|of| linerate_report::first_screen(of, place));
    let unchanged = screen.unwrap_or_else(|| Lead {
        context: format!("{} of the unchanged load", first.metric),
        ..Lead::default()
    });
    Some(Lead {
        surety: found.map_or(NOT_DIAGNOSED, |found| found.verdict.word()),
        figure: amount(first.metric, first.goodput),
        basis: unchanged.basis.into_iter().chain(lifted).collect(),
        label: "Bottleneck",
        status: found.map_or("not tested", |found| found.verdict.word()),
        claim: found.map(|found| sentences::claim(&found.claim)),
        evidence,
        next: next.map(|advice| place.step(advice)).collect(),
        ..unchanged
    })
}

/// Stable word of the JSON where no rule applies.
const NOT_DIAGNOSED: &str = "not diagnosed";

/// Returns the limits in one sentence, each with its status.
fn verdict(rungs: &[Rung]) -> String {
    let leading = rungs.iter().filter_map(|rung| rung.findings.first());
    let mut limits: Vec<String> = leading.map(with_status).collect();
    // A limit that was lifted by half and shows again is one limit.
    limits.dedup();
    let first = rungs.first().map_or_else(String::new, |rung| amount(rung.metric, rung.goodput));
    format!("{first}: {}", limits.join("; behind it: "))
}

/// Returns a claim with its status word.
fn with_status(found: &Finding) -> String {
    format!("{} ({})", sentences::claim(&found.claim), found.verdict.word())
}

/// Returns the blocks of one limit.
fn limit(number: usize, rung: &Rung, place: &CommandPlace) -> Vec<Block> {
    let reached = amount(rung.metric, rung.goodput);
    let lifted = rung.lifted.as_ref().map_or(String::new(), |(name, after)| {
        format!("; {} after {name}", amount(rung.metric, *after))
    });
    let mut blocks =
        vec![Block::Paragraph(format!("Limit {number}: {} {reached}{lifted}", rung.metric))];
    blocks.extend(rung.findings.iter().map(|found| Block::Claim(claim(found, place))));
    blocks.extend(score_table(number, rung).map(Block::Table));
    if !rung.notes.is_empty() {
        blocks.push(Block::Paragraph("Disturbances of the stages:".to_owned()));
        blocks.push(Block::List(rung.notes.clone()));
    }
    blocks
}

/// Returns the scores of the hypotheses, the best first; `None` if no evidence supports any.
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

fn amount(metric: &Metric, value: f64) -> String {
    // Disks are rated in transfers, which have no prefix of a bit rate.
    if metric == IOPS { sentences::amount(metric, value) } else { quantity(metric::GOODPUT, value) }
}

fn point_json(point: &PointStudy) -> Value {
    json!({ "sweep": point.sweep, "point": point.parameters, "scores": by_rule(&scores(point)) })
}

fn rung_json(rung: &Rung, place: &CommandPlace) -> Value {
    let findings = rung.findings.iter().map(|found| finding_json(found, place));
    let lifted = |(name, after): &(String, f64)| json!({ "by": name, rung.metric.name: after });
    json!({
        rung.metric.name: rung.goodput,
        "scores": by_rule(&rung.scores),
        "findings": findings.collect::<Vec<_>>(),
        "lifted": rung.lifted.as_ref().map(lifted),
        "notes": rung.notes,
    })
}

fn by_rule(scores: &[(&str, f64)]) -> Value {
    Value::Object(scores.iter().map(|(rule, score)| ((*rule).to_owned(), json!(score))).collect())
}

#[cfg(test)]
pub(crate) mod tests {
    use linerate_analysis::diagnosis::{Claim, Evidence, FlowEnd, Outcome, Step, Subject};
    use linerate_campaign::diagnose::Question;
    use linerate_model::{CeilingSubject, Command, Verdict};
    use linerate_report::text;

    use super::*;

    pub(crate) fn rung(claim: Claim, verdict: Verdict) -> Rung {
        let evidence = vec![Evidence::figure(metric::SNDBUF_LIMITED, 0.8)];
        let again = Command::local("diagnose", &["--param", "streams=2"]).between("a", "b");
        let subject = Subject::of_sweep("a to b");
        let finding = Finding::new("send_buffer", verdict, subject, claim, evidence)
            .experimented(Outcome::NoPair { arm: "twice the buffer".to_owned() })
            .advise(Step::LargeBuffer(FlowEnd::Sending).by(again));
        Rung {
            metric: metric::GOODPUT,
            goodput: 5e7,
            scores: vec![("send_buffer", 0.83), ("path_loss", 0.01)],
            findings: vec![finding],
            headline: None,
            lifted: Some(("twice the send buffer".into(), 1e8)),
            notes: vec!["baseline: disturbed".into()],
        }
    }

    fn load() -> Load {
        let question = Question {
            workload: "tcp_stream".into(),
            params: Vec::new(),
            pairs: 6,
            seconds: 4.0,
            omit: 1.0,
            seed: 1,
        };
        Load::new(&question, "a".into(), "b".into()).expect("it has no parameters")
    }

    #[test]
    fn the_agenda_has_the_time_of_its_runs_and_the_budget_in_the_units_of_a_person() {
        let load = load();
        let [baseline, proof] = load.expected().map(|time| span(time.as_secs_f64()));
        assert_ne!(baseline, proof);
        let many = agenda(&load, 4, Nanos::from_secs(600));
        for part in [
            "with 6 pairs of runs".to_owned(),
            "At most 4 limits, one behind the other".to_owned(),
            format!("Expected time: {baseline} if nothing is suspected, {proof} for each"),
            format!("Budget: {};", span(600.0)),
        ] {
            assert!(many.contains(&part), "{part}: {many}");
        }
        let one = agenda(&load, 1, Nanos::from_secs(600));
        assert!(one.contains("At most 1 limit, one"), "{one}");
    }

    fn saturated() -> Claim {
        Claim::Saturated(CeilingSubject::from("the link"))
    }

    #[test]
    fn every_part_of_a_limit_is_in_the_text_and_in_the_json() {
        let rungs = [rung(Claim::SendBuffer, Verdict::Proven)];
        let argv = ["linerate", "diagnose", "--lab", "pair"].map(str::to_owned);
        let place = CommandPlace::of_arguments(&argv).expect("a lab");
        let answer = ladder(&rungs, TestbedKind::Lab, Path::new("folder"), &place);
        let text = text::whole(&answer);
        for part in [
            "50 Mbit/s  goodput of the unchanged load",
            "Bottleneck: proven\n  The send buffer is smaller than the bandwidth-delay product.",
            "100 Mbit/s after twice the send buffer",
            "Next: use a larger send buffer (expected: goodput rises by half or more)\n    \
                linerate diagnose --lab pair --from a --to b",
            "send buffer 80 % of the time",
            "twice the buffer: no pair of runs",
            "0.83",
            "baseline: disturbed",
            "folder",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("path_loss"), "no evidence supports it: {text}");
        let limit = &answer.study["ladder"][0];
        assert_eq!((&limit["goodput"], &limit["scores"]["path_loss"]), (&5e7.into(), &0.01.into()));
        assert_eq!(limit["lifted"]["by"], "twice the send buffer");
        assert_eq!(limit["findings"][0]["verdict"], "proven");
    }

    #[test]
    fn the_first_screen_lists_further_limits_once() {
        let mut behind = rung(saturated(), Verdict::Suspected);
        behind.findings[0].rule = "link_ceiling".into();
        let again = rung(Claim::SendBuffer, Verdict::Proven);
        let lead = first_screen(
            &[rung(Claim::SendBuffer, Verdict::Proven), again, behind],
            &CommandPlace::default(),
        )
        .expect("there are limits");
        let further: Vec<&String> =
            lead.evidence.iter().filter(|line| line.starts_with("next limit")).collect();
        assert_eq!(further, ["next limit, at 50 Mbit/s: the link is saturated (suspected)"]);
        assert_eq!(first_screen(&[], &CommandPlace::default()), None);
    }

    #[test]
    fn a_limit_that_was_lifted_in_part_is_named_once() {
        let one = || rung(Claim::SendBuffer, Verdict::Proven);
        let rungs = [one(), one(), rung(saturated(), Verdict::Suspected)];
        assert_eq!(
            verdict(&rungs),
            "50 Mbit/s: the send buffer is smaller than the bandwidth-delay product (proven); \
             behind it: the link is saturated (suspected)"
        );
    }
}
