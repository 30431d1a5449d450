//! `cargo xtask bench diagnosis --fleet`: faults of a fleet, and whom `linerate mesh` names.
//!
//! Eight hosts in network namespaces, in two racks, with ports of 100 Mbit/s. Faults are made by
//! `tc`, `nft`, the relay of this bench and busy loops. `linerate mesh --hosts` runs unmodified;
//! `ip netns exec` starts the agents. Beside it stands the rule of many operators: a host is bad
//! whose figures are below 90 % of the median. Not covered: network cards, cables and switches.

mod faults;
mod ground;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use serde_json::Value;

use super::super::markdown;
use super::Options;
use super::answers::{Answer, Diagnosed, Goals, diagnosed, limited, matrix};
use super::draw::Draw;
use faults::{CAUSES, Culprit, Fault};
use ground::Ground;

/// Rule of an answer that names every fault.
const CULPRIT: &str = "culprit";
/// Longest mesh, s. A longer one counts as failed.
const LONGEST: &str = "180";
/// Length of a run and of its warm-up, s.
const SECONDS: &str = "0.5";
const OMITTED: &str = "0.2";
/// Goals of the matrix.
const GOALS: Goals = Goals { named: 0.95, misled: 0.05 };

/// Returns true if `part` is in the name of a fault.
pub(super) fn is_cause(part: &str) -> bool {
    CAUSES.iter().any(|cause| cause.name.contains(part))
}

/// Answers of the rule of 90 %, by fault.
#[derive(Clone, Copy, Debug, Default)]
struct OfRule {
    n: usize,
    /// It named the hosts at fault and no others.
    right: usize,
    /// It named another host.
    wrong: usize,
}

/// Makes a fleet with every fault and seed, prints whom the mesh names, and returns whether that
/// meets the goals.
pub(super) fn run(program: &Path, options: &Options) -> anyhow::Result<bool> {
    let rule: Mutex<BTreeMap<&str, OfRule>> = Mutex::default();
    let is_good = matrix(CAUSES, options, GOALS, &|cause, seed| {
        let faults = (cause.setup)(&mut Draw::of(cause.name, u64::from(seed)));
        let (answer, found) = search(program, &faults, seed)?;
        let mut rule = rule.lock().unwrap_or_else(PoisonError::into_inner);
        rule.entry(cause.name).or_default().count(&faults, &found);
        Ok((answer, found))
    })?;
    let rows: Vec<Vec<String>> = rule
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner)
        .iter()
        .map(|(name, rule)| {
            let words = [rule.n, rule.right, rule.wrong].map(|count| count.to_string());
            [(*name).to_owned()].into_iter().chain(words).collect()
        })
        .collect();
    let mut text = String::from("\nHosts below 90 % of the median, in the same meshes:\n\n");
    text += &markdown::table(&["fault", "n", "the right hosts", "another host"], &rows);
    print!("{text}");
    if let Some(file) = &options.out {
        let mut whole = std::fs::read_to_string(file)?;
        let _infallible = write!(whole, "{text}");
        std::fs::write(file, whole)?;
    }
    Ok(is_good)
}

impl OfRule {
    /// Counts what the rule says about a mesh. Pairs and uplinks are no hosts, so the right answer
    /// names none.
    fn count(&mut self, faults: &[Fault], found: &Value) {
        let below = found["below_90_percent"]["hosts"].as_array();
        let named: Vec<&str> = below.into_iter().flatten().filter_map(Value::as_str).collect();
        let hosts: Vec<String> = faults.iter().filter_map(|fault| fault.host()).collect();
        let is_right = |name: &&str| hosts.iter().any(|host| host == name);
        self.n += 1;
        self.wrong += usize::from(!named.iter().all(is_right));
        self.right += usize::from(named.iter().all(is_right) && named.len() == hosts.len());
    }
}

/// Runs `linerate mesh` on a fleet with `faults`.
fn search(program: &Path, faults: &[Fault], seed: u32) -> Diagnosed {
    let ground = Ground::make(program, faults, seed)?;
    let begun = Instant::now();
    let mut command = ground.linerate(&limited(LONGEST));
    command.args(["mesh", "--hosts", "hosts.ini", "--reach", "sh reach.sh {host}", "--json"]);
    command.args(["--quiet", "--seconds", SECONDS, "--omit", OMITTED]);
    command.args(["--seed", &seed.to_string()]);
    let found = diagnosed(command)?;
    let expected: Vec<Vec<Culprit>> = faults.iter().map(Fault::culprits).collect();
    let (rule, verdict) = judged(&found, &expected);
    let answer = Answer { seed, rule, verdict, seconds: begun.elapsed().as_secs_f64() };
    Ok((answer, without_pairs(found)))
}

/// Returns `found` without the figures of single pairs, which nobody reads.
fn without_pairs(mut found: Value) -> Value {
    if let Some(fields) = found.as_object_mut() {
        fields.remove("pairs");
    }
    found
}

/// Returns what a mesh says about faults, each of which has `expected` culprits: [`CULPRIT`] if the
/// first suspects are the faults, else the first suspect that is none.
fn judged(found: &Value, expected: &[Vec<Culprit>]) -> (String, String) {
    let all = found["suspects"].as_array();
    let suspects: Vec<(Culprit, &str)> = all
        .into_iter()
        .flatten()
        .filter(|suspect| suspect["status"] != "not seen again")
        .map(|suspect| (Culprit::of(suspect), suspect["status"].as_str().unwrap_or_default()))
        .collect();
    let word = |is_confirmed: bool| if is_confirmed { "proven" } else { "suspected" }.to_owned();
    let first = &suspects[..expected.len().min(suspects.len())];
    let is_named = |fault: &Vec<Culprit>| first.iter().any(|(one, _)| fault.contains(one));
    if !expected.is_empty() && expected.iter().all(is_named) {
        let is_confirmed = first.iter().all(|(_, status)| *status == "confirmed");
        return (CULPRIT.to_owned(), word(is_confirmed));
    }
    let other = suspects.iter().find(|(one, _)| !expected.iter().any(|fault| fault.contains(one)));
    match other {
        Some((one, status)) => (one.to_string(), word(*status == "confirmed")),
        None => ("unknown".to_owned(), "inconclusive".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn suspect(kind: &str, of: &[&str], status: &str) -> Value {
        json!({ "kind": kind, "of": of, "status": status })
    }

    fn says(suspects: &[Value], expected: &[Vec<Culprit>]) -> (String, String) {
        judged(&json!({ "suspects": suspects }), expected)
    }

    #[test]
    fn the_first_suspects_must_be_the_faults() {
        let slow = vec![Culprit::new("host", &["h3"])];
        let right = suspect("host", &["h3"], "confirmed");
        let wrong = suspect("send side", &["h1"], "suspected");
        let is = |rule: &str, verdict: &str| (rule.to_owned(), verdict.to_owned());
        let one = [slow.clone()];
        assert_eq!(says(&[right.clone(), wrong.clone()], &one), is("culprit", "proven"));
        assert_eq!(says(&[wrong.clone(), right.clone()], &one), is("send side h1", "suspected"));
        assert_eq!(says(&[], &one), is("unknown", "inconclusive"));
        let cleared = suspect("host", &["h3"], "not seen again");
        assert_eq!(says(&[cleared], &one), is("unknown", "inconclusive"));
        assert_eq!(
            says(std::slice::from_ref(&right), &[]),
            is("host h3", "proven"),
            "a false alarm"
        );
        let two = [slow, vec![Culprit::new("send side", &["h1"])]];
        assert_eq!(says(&[wrong, right.clone()], &two), is("culprit", "suspected"));
        assert_eq!(says(&[right], &two), is("unknown", "inconclusive"), "half is not all");
    }

    #[test]
    fn the_rule_of_90_percent_is_right_only_with_all_hosts_and_no_others() {
        let below = |hosts: &[&str]| json!({ "below_90_percent": { "hosts": hosts } });
        let counted = |faults: &[Fault], hosts: &[&str]| {
            let mut rule = OfRule::default();
            rule.count(faults, &below(hosts));
            (rule.right, rule.wrong)
        };
        let slow = [Fault::Slow(3)];
        assert_eq!(counted(&slow, &["h3"]), (1, 0));
        assert_eq!(counted(&slow, &[]), (0, 0));
        assert_eq!(counted(&slow, &["h3", "h4"]), (0, 1));
        assert_eq!(counted(&[], &[]), (1, 0));
    }
}
