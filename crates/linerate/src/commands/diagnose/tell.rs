//! What diagnosis tells: the verdict first, then each limit with what was seen, why it is believed,
//! and what to try.

use linerate_analysis::diagnosis::{IOPS, amount as amount_of, scores};
use linerate_analysis::{PointStudy, Study};
use linerate_campaign::diagnose::Rung;
use linerate_model::{Campaign, Finding, Unit, Verdict, metric};
use serde_json::{Value, json};

use super::DiagnoseArgs;
use crate::args::Global;
use crate::show::quantity;

/// Less than this is near nothing.
const WORTH_TELLING: f64 = 0.05;

/// The rules' findings on a recorded campaign.
pub(super) fn recorded(campaign: &Campaign, study: &Study, global: Global) {
    let sentence = linerate_report::verdict(campaign, study).map(|lead| lead.text);
    if global.json {
        let scored = |point: &PointStudy| json!({ "sweep": point.sweep, "point": point.parameters, "scores": by_rule(&scores(point)) });
        let points: Vec<Value> = study.points.iter().map(scored).collect();
        let findings: Vec<Value> = study.findings.iter().map(finding).collect();
        println!("{}", json!({ "verdict": sentence, "findings": findings, "points": points }));
        return;
    }
    sentence.iter().for_each(|sentence| println!("{sentence}\n"));
    if study.findings.is_empty() {
        println!(
            "no rule says anything of what is recorded: no flow carries a figure, no ceiling is \
                known, or nothing of a disk's load speaks for a limit"
        );
    }
    for (number, found) in study.findings.iter().enumerate() {
        println!("{}. {}: {}", number + 1, word(found.verdict), found.claim);
        println!("   {}", found.subject);
        told(found);
    }
    if study.findings.iter().any(|found| found.verdict == Verdict::Suspected) {
        println!(
            "\nto prove or refute what is suspected: linerate diagnose --to HOST (or --lab NAME), \
                which runs the experiments"
        );
    }
}

/// The limits found, from the one that shows on.
pub(super) fn ladder(rungs: &[Rung], args: &DiagnoseArgs, global: Global) {
    if global.json {
        println!(
            "{}",
            json!({ "verdict": verdict(rungs), "ladder": rungs.iter().map(rung).collect::<Vec<_>>() })
        );
        return;
    }
    println!("{}", verdict(rungs));
    for (number, rung) in rungs.iter().enumerate() {
        println!("\nlimit {}: {} {}", number + 1, rung.metric, amount(rung.metric, rung.goodput));
        println!(
            "   evidence of each hypothesis, 0.5 and more is suspected: {}",
            scored(&rung.scores)
        );
        for found in &rung.findings {
            println!(" {}: {} [{}]", word(found.verdict), found.claim, found.rule);
            told(found);
        }
        rung.notes.iter().for_each(|note| println!("   note: {note}"));
        if let Some((name, after)) = &rung.lifted {
            println!("   lifted by {name}: {} {}", rung.metric, amount(rung.metric, *after));
        }
    }
    println!("\nledgers in {}", args.out.display());
}

/// One sentence: what limits, and how sure that is.
fn verdict(rungs: &[Rung]) -> String {
    let leading = |rung: &Rung| {
        rung.findings.first().map(|found| format!("{} ({})", found.claim, word(found.verdict)))
    };
    let mut limits: Vec<String> = rungs.iter().filter_map(leading).collect();
    // What was lifted by half and limits again is one limit.
    limits.dedup();
    let first = rungs.first().map_or_else(String::new, |rung| amount(rung.metric, rung.goodput));
    format!("{first}: {}", limits.join("; behind it: "))
}

/// `receive_window 0.83, link_ceiling 0.31`: those that anything speaks for.
fn scored(scores: &[(&str, f64)]) -> String {
    let told = scores.iter().filter(|(_, score)| *score >= WORTH_TELLING);
    let told: Vec<String> = told.map(|(rule, score)| format!("{rule} {score:.2}")).collect();
    if told.is_empty() { "none".to_owned() } else { told.join(", ") }
}

fn told(found: &Finding) {
    for seen in &found.evidence {
        println!("   seen: {} ({})", seen.observed, seen.source);
    }
    found.counterfactual.iter().for_each(|text| println!("   changed: {text}"));
    found.placebo.iter().for_each(|text| println!("   placebo: {text}"));
    found.advice.iter().for_each(|text| println!("   try: {text}"));
}

const fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Proven => "proven",
        Verdict::Suspected => "suspected",
        Verdict::Inconclusive => "inconclusive",
    }
}

fn amount(metric: &str, value: f64) -> String {
    if metric == IOPS {
        amount_of(metric, value)
    } else {
        quantity(metric::GOODPUT, value, Unit::BitPerSecond)
    }
}

fn rung(rung: &Rung) -> Value {
    json!({
        rung.metric: rung.goodput,
        "scores": by_rule(&rung.scores),
        "findings": rung.findings.iter().map(finding).collect::<Vec<_>>(),
        "lifted": rung.lifted.as_ref().map(|(name, after)| json!({ "by": name, rung.metric: after })),
        "notes": rung.notes,
    })
}

fn by_rule(scores: &[(&str, f64)]) -> Value {
    Value::Object(scores.iter().map(|(rule, score)| ((*rule).to_owned(), json!(score))).collect())
}

fn finding(found: &Finding) -> Value {
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
