//! Writes a ledger of many trials, each with the data of one that was recorded.
//!
//! The base is a campaign of one sweep over `params.message_size` and `params.streams`; the plan of
//! what is written has as many sizes as it needs.

use std::path::Path;

use linerate_model::plan::{apply_set, expand, read};
use linerate_model::{Campaign, Nanos, Recorder, Testbed, TrialRecord, TrialSpec};
use linerate_store::{Ledger, Which};

/// Repeats of each point.
const REPEATS: usize = 10;
/// Numbers of streams in the plan.
const N_STREAMS: usize = 2;
/// Beginning of the line of the plan with the sizes.
const SIZES: &str = "\"params.message_size\"";
/// Time from the start of a trial to that of the next.
const TURN: Nanos = Nanos::from_millis(1_300);
/// Events between two commits.
const COMMIT: usize = 200;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [base, out, n_trials] = arguments.as_slice() else {
        return Err("usage: many_trials BASE OUT TRIALS".into());
    };
    let base = Ledger::open_read_only(Path::new(base))?.load(Which::Latest)?;
    let whole = multiplied(base, n_trials.parse::<usize>()? / REPEATS / N_STREAMS)?;
    let mut ledger = Ledger::create(Path::new(out))?;
    for (number, event) in whole.into_events().iter().enumerate() {
        ledger.record(event)?;
        if number % COMMIT == 0 {
            ledger.flush()?;
        }
    }
    Ok(ledger.flush()?)
}

/// Returns `base` with `n_sizes` sizes of messages.
fn multiplied(base: Campaign, n_sizes: usize) -> Result<Campaign, Box<dyn std::error::Error>> {
    let sizes: Vec<String> = (1..=n_sizes).map(|size| format!("\"{} B\"", size * 64)).collect();
    let lines = base.header.plan.lines().map(|line| match line.starts_with(SIZES) {
        true => format!("{SIZES} = [{}]", sizes.join(", ")),
        false => line.to_owned(),
    });
    let plan =
        apply_set(&lines.collect::<Vec<_>>().join("\n"), &format!("campaign.repeats={REPEATS}"));
    let plan = plan.map_err(|problem| format!("{problem:?}"))?;
    let parsed = read(&plan).map_err(|problems| format!("{problems:?}"))?;
    let job = &base.trials.first().ok_or("the base has no trial")?.spec.jobs[0];
    let endpoints = vec![job.from.clone(), job.to.clone()];
    let planned = expand(&parsed, &Testbed { endpoints, ..Testbed::default() });
    let planned = planned.map_err(|errors| format!("{errors:?}"))?;
    let mut started = base.header.started;
    let mut trials = Vec::with_capacity(planned.len());
    for (number, spec) in planned.into_iter().enumerate() {
        started = started + TURN;
        let like: Vec<&TrialRecord> =
            base.trials.iter().filter(|trial| streams(&trial.spec) == streams(&spec)).collect();
        // A step without a common divisor with their number takes each in turn, in mixed order.
        let data = like.get(number * 7 % like.len().max(1)).ok_or("the base has other streams")?;
        trials.push(TrialRecord { spec, started: Some(started), ..(*data).clone() });
    }
    let mut header = base.header.clone();
    header.plan = plan;
    Ok(Campaign { header, trials, ..base })
}

fn streams(spec: &TrialSpec) -> Option<&serde_json::Value> {
    spec.point.get("params.streams")
}
