//! Stable JSON of a study (`schema: 1`) for other programs.
//!
//! `report` holds the sections that every other format is rendered from, so no format shows more
//! than the JSON.
//!
//! Keys are only ever added. A number that is not finite (a percentile of lost requests) becomes
//! `null`, because JSON has no infinity. A known lower bound is beside it as `at_least`.

use linerate_analysis::diagnosis::{Evidence, Finding};
use linerate_analysis::{
    Headline, JobStudy, LossStudy, MetricStudy, Mix, PointStudy, PortStudy, Reason, SearchRun,
    SearchStudy, Study, TrialStudy, Withheld, headline,
};
use linerate_model::{Campaign, Ceiling, Direction, Distribution, Unit};
use serde_json::{Map, Value, json};

use crate::commands::CommandPlace;
use crate::sentences;
use crate::words::{obtained_text, rfc3339};

/// Version of the schema.
pub const SCHEMA: u32 = 1;

/// Returns `campaign` and `study` as JSON, with the sections of the report.
#[must_use]
pub fn study_json(campaign: &Campaign, study: &Study) -> Value {
    crate::compose(campaign, study).study
}

/// Returns the same without the report.
pub(crate) fn of_study(campaign: &Campaign, study: &Study) -> Value {
    let header = &campaign.header;
    let facts: Map<String, Value> =
        campaign.hosts.iter().map(|host| (host.host.clone(), host.facts.clone())).collect();
    let place = CommandPlace::of(campaign);
    let headline = headline(campaign, study);
    let lead = crate::sections::lead(campaign, study, headline.as_ref());
    let headline = headline.as_ref().map(|headline| headline_json(headline, &place));
    let findings = study.findings.iter().map(|finding| finding_json(finding, &place));
    unsigned_zeros(json!({
        "linerate": header.version,
        "schema": SCHEMA,
        "campaign": {
            "id": header.id,
            "name": header.name,
            "started": rfc3339(header.started),
            "ended": campaign.ended.map(rfc3339),
            "plan_sha256": header.plan_sha256,
            "seed": header.seed,
            "testbed": header.testbed,
            "emulated": header.emulated(),
            "argv": header.argv,
            "observed": header.observed,
        },
        "facts": facts,
        "verdict": lead.map(|lead| lead.text()),
        "headline": headline,
        "points": study.points.iter().map(point).collect::<Vec<_>>(),
        "comparisons": study.comparisons,
        "mixes": study.mixes.iter().map(mix).collect::<Vec<_>>(),
        "matrices": study.matrices,
        "searches": study.searches.iter().map(search).collect::<Vec<_>>(),
        "findings": findings.collect::<Vec<_>>(),
        "overhead": {
            "samplers": study.overhead.samplers,
            "null_step_ns": study.overhead.null_step_ns,
            "worst_start_skew_ns": study.overhead.worst_start_skew_ns,
        },
    }))
}

/// Returns reasons as text.
pub(crate) fn texts(reasons: &[Reason]) -> Vec<String> {
    reasons.iter().map(sentences::reason).collect()
}

/// Returns a ceiling as JSON: its subject and scope in fields, and its name for people.
#[must_use]
pub fn ceiling_json(c: &Ceiling) -> Value {
    json!({
        "name": c.name(), "metric": c.metric, "value": c.value, "unit": c.unit, "layer": c.layer,
        "direction": c.direction,
        "derivation": sentences::derivation(c), "derived": c.derivation,
        "source": c.source, "class": c.class(), "hard": c.is_hard(),
        "parts": c.subject.parts(),
        "kind": c.kind, "scope": c.scope,
    })
}

fn point(point: &PointStudy) -> Value {
    let mut told = json!({
        "sweep": point.sweep,
        "parameters": point.parameters,
        "jobs": point.jobs.iter().map(job).collect::<Vec<_>>(),
        "ceilings": point.ceilings.iter().map(ceiling_json).collect::<Vec<_>>(),
        "unbounded": point.unbounded.iter().map(sentences::unbounded).collect::<Vec<_>>(),
        "without_bound": point.unbounded,
        "validity": point.validity,
        "why": texts(&point.why),
        "reasons": point.why,
        "trials": point.trials.iter().map(trial).collect::<Vec<_>>(),
        "observed": point.observed.iter().map(port_json).collect::<Vec<_>>(),
    });
    if let Some(looks) = &point.looks {
        told["looks"] = json!(looks);
    }
    if let Some(bursts) = &point.bursts {
        told["bursts"] = json!(bursts);
    }
    told
}

/// Returns a search as JSON; loads are per direction, in the unit of `search.unit`.
fn search(search: &SearchStudy) -> Value {
    json!({
        "sweep": search.sweep,
        "parameters": search.parameters,
        "workload": search.workload,
        "from": search.from,
        "to": search.to,
        "search": search.search,
        "line": search.line.as_ref().map(|line| line.value),
        "goals": search.goals,
        "runs": search.runs.iter().map(run).collect::<Vec<_>>(),
    })
}

/// A mix; the evidence of its cause as text, and in `observed` as data.
fn mix(mix: &Mix) -> Value {
    let mut told = json!(mix);
    let evidence = &mix.attribution.evidence;
    told["attribution"]["evidence"] = evidence.iter().map(sentences::mix_evidence).collect();
    told["attribution"]["observed"] = json!(evidence);
    told
}

/// A run of a search; the reasons of its trials as text, and beside it in fields.
fn run(run: &SearchRun) -> Value {
    let mut told = json!(run);
    if let Some(trials) = told.get_mut("trials").and_then(Value::as_array_mut) {
        for (told, trial) in trials.iter_mut().zip(&run.trials) {
            told["reasons"] = told["why"].take();
            told["why"] = json!(texts(&trial.why));
        }
    }
    if let Some(found) = told.get_mut("found").and_then(Value::as_array_mut) {
        for (told, goal) in found.iter_mut().zip(&run.found) {
            told["left_out"] = told["withheld"].take();
            told["withheld"] = json!(goal.withheld.as_ref().map(sentences::reason));
        }
    }
    told
}

fn job(job: &JobStudy) -> Value {
    let obtained: Map<String, Value> = job
        .obtained
        .iter()
        .map(|(name, given)| (name.clone(), obtained_text(given).into()))
        .collect();
    let options: Map<String, Value> = job
        .obtained
        .iter()
        .filter(|(_, given)| given.has_options())
        .map(|(name, given)| (name.clone(), json!(given)))
        .collect();
    let mut told = json!({
        "workload": job.workload,
        "from": job.from,
        "to": job.to,
        "background": job.background,
        "params": job.params,
        "metrics": metrics(&job.metrics),
        "obtained": obtained,
        "options": options,
        "loss": job.loss.iter().map(loss).collect::<Vec<_>>(),
        "percentiles": job.percentiles,
        "distributions": {
            "response": distribution(&job.response),
            "service": distribution(&job.service),
            "reads": distribution(&job.reads),
            "writes": distribution(&job.writes),
            "flushes": distribution(&job.flushes),
            "trims": distribution(&job.trims),
            "gap": distribution(&job.gap),
        },
    });
    if !job.transfers.is_empty() {
        told["transfers"] = json!(job.transfers);
    }
    if let Some(corrected) = &job.corrected {
        told["corrected"] = json!(corrected);
    }
    if !job.withheld.is_empty() {
        told["withheld"] = job.withheld.iter().map(withheld_json).collect();
    }
    told
}

/// Where a job's datagrams went one way, all trials added; counts of datagrams. `lost` is what
/// never came in time: with `unique` and `late` it adds up to `sent`.
fn loss(loss: &LossStudy) -> Value {
    let ledger = &loss.ledger;
    let located = loss.located.iter().map(|(place, n)| json!({ "place": place, "lost": n }));
    json!({
        "unit": "datagram",
        "direction": loss.direction,
        "sent": ledger.sent,
        "unique": ledger.unique,
        "late": ledger.late,
        "lost": ledger.lost(),
        "lost_gap": ledger.lost_gap,
        "lost_tail": ledger.lost_tail,
        "lost_all": ledger.lost_all,
        "duplicates": ledger.duplicates,
        "reordered": ledger.reordered,
        "located": located.collect::<Vec<_>>(),
        "unobserved": loss.unobserved,
        "unexplained": loss.unexplained,
        "imbalance": loss.imbalance.iter().map(sentences::imbalance).collect::<Vec<_>>(),
        "balances": loss.balances(),
    })
}

/// By name. The plain name is the direction a reader expects (the only one, or the sum); a metric
/// known in several directions stands under `name_tx`, `name_rx` and `name_sum` as well.
fn metrics(studies: &[MetricStudy]) -> Map<String, Value> {
    let mut named = Map::new();
    for study in studies {
        let alike: Vec<&MetricStudy> =
            studies.iter().filter(|other| other.metric == study.metric).collect();
        let chief =
            alike.iter().find(|other| other.direction == Direction::Sum).unwrap_or(&alike[0]);
        if chief.direction == study.direction {
            named.insert(study.metric.to_string(), metric(study));
        }
        if alike.len() > 1 {
            named.insert(format!("{}_{}", study.metric, study.direction), metric(study));
        }
    }
    named
}

fn metric(study: &MetricStudy) -> Value {
    let estimate = study.estimate;
    json!({
        "unit": study.unit,
        "layer": study.layer,
        "direction": study.direction,
        "n": estimate.map_or(0, |e| e.n),
        "estimate": finite(estimate.map(|e| e.value)),
        "at_least": study.at_least,
        "low": finite(estimate.and_then(|e| e.low)),
        "high": finite(estimate.and_then(|e| e.high)),
        "confidence": finite(estimate.and_then(|e| e.confidence)),
        "values": study.values.iter().map(|value| finite(*value)).collect::<Vec<_>>(),
        "ceiling": study.ceiling,
        "share": finite(study.share),
        "mean": study.mean,
        "settled": study.settled,
    })
}

/// `value` without negative zeros: a sum of nothing is one.
fn unsigned_zeros(value: Value) -> Value {
    match value {
        Value::Number(number) if number.as_f64() == Some(0.0) && number.is_f64() => json!(0.0),
        Value::Array(items) => items.into_iter().map(unsigned_zeros).collect(),
        Value::Object(items) => Value::Object(
            items.into_iter().map(|(key, item)| (key, unsigned_zeros(item))).collect(),
        ),
        other => other,
    }
}

fn finite(value: Option<f64>) -> Option<f64> {
    value.filter(|value| value.is_finite())
}

fn distribution(times: &Distribution) -> Option<Value> {
    if times.is_empty() {
        return None;
    }
    Some(json!({
        "unit": "ns",
        "buckets": times.buckets,
        "lost": times.lost,
        "at_least": times.at_least,
    }))
}

fn trial(trial: &TrialStudy) -> Value {
    let mut intervals = Map::new();
    intervals.insert("seconds".into(), json!(trial.seconds));
    let mut units = Map::new();
    units.insert("seconds".into(), json!({ "unit": Unit::Second }));
    for (name, values) in &trial.series {
        let (unit, layer) = name.unit();
        units.insert(name.to_string(), json!({ "unit": unit, "layer": layer }));
        intervals.insert(
            name.to_string(),
            json!(values.iter().map(|value| finite(*value)).collect::<Vec<_>>()),
        );
    }
    json!({
        "id": trial.id,
        "validity": trial.validity,
        "why": texts(&trial.why),
        "reasons": trial.why,
        "taken": trial.most_taken(),
        "measured_from": trial.measured_from,
        "intervals": intervals,
        "interval_units": units,
    })
}

/// Returns a withheld figure as JSON: the reason as text, and in `refusal` as data.
fn withheld_json(withheld: &Withheld) -> Value {
    let why = sentences::refusal(&withheld.why);
    json!({
        "name": withheld.name, "direction": withheld.direction, "why": why,
        "refusal": withheld.why,
    })
}

/// Returns the count of an observer as JSON: its notes as text in `why`, and in `notes` as data.
fn port_json(port: &PortStudy) -> Value {
    let mut told = json!(port);
    told["why"] = port.why.iter().map(sentences::port_note).collect();
    told["notes"] = json!(port.why);
    told
}

/// Returns the headline as JSON; `limit.next` is the first step as text, and `limit.kind` the claim
/// as data.
fn headline_json(headline: &Headline, place: &CommandPlace) -> Value {
    let mut value = json!(headline);
    let next = headline.limit.next.first().map(|advice| place.step(advice).text());
    value["limit"]["next"] = json!(next);
    value["limit"]["kind"] = json!(headline.limit.claim);
    value["limit"]["claim"] = json!(headline.limit.claim.as_ref().map(sentences::claim));
    value["limit"]["evidence"] = evidence_json(&headline.limit.evidence);
    if let Some(against) = &headline.against {
        value["against"] = headline_json(against, place);
    }
    value
}

/// Returns observations as JSON: text, source, and `seen` as data.
fn evidence_json(evidence: &[Evidence]) -> Value {
    let told = evidence.iter().map(|one| {
        json!({
            "observed": sentences::observation(one),
            "source": sentences::source(one),
            "seen": one,
        })
    });
    told.collect()
}

/// Returns a finding as JSON: its texts, and the same as data in `seen`, `data` and `steps`;
/// `place` completes the commands of its advice.
#[must_use]
pub fn finding_json(finding: &Finding, place: &CommandPlace) -> Value {
    let advice = finding.advice.iter().map(|advice| place.step(advice).text());
    json!({
        "rule": finding.rule,
        "verdict": finding.verdict,
        "subject": sentences::subject(&finding.subject),
        "claim": sentences::claim(&finding.claim),
        "evidence": evidence_json(&finding.evidence),
        "counterfactual": sentences::outcomes(&finding.experiments),
        "placebo": sentences::outcomes(&finding.controls),
        "advice": advice.collect::<Vec<_>>(),
        "flow": finding.subject.flow,
        "data": {
            "subject": finding.subject,
            "claim": finding.claim,
            "experiments": finding.experiments,
            "controls": finding.controls,
        },
        "steps": finding.advice,
    })
}
