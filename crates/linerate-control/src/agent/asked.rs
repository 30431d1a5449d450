//! Check of a whole trial against this host's policy, before anything is opened: its total rate and
//! its network controllers. Workloads check all else themselves.

use linerate_load::{LoadError, Permits};
use linerate_model::{BitRate, Side};

use crate::wire::{Prepare, PreparedJob};

/// Parameters that set a sender's rate in bits per second. The engine limits loads without a rate,
/// and those with a rate in packets per second.
const RATES: [&str; 3] = ["pacing_rate", "rate", "source_rate"];
/// Workload whose rate is that of a disk.
const OF_DISKS: &str = "storage";

/// Refuses a trial that would send faster than the policy permits, or use a network controller that
/// the policy does not name.
///
/// # Errors
/// The first violation, with the line of the policy that would permit it.
pub(super) fn permitted(prepare: &Prepare, permits: &Permits) -> Result<(), LoadError> {
    prepare
        .jobs
        .iter()
        .filter_map(|job| job.local.ncsi.as_deref())
        .try_for_each(|interface| permits.ncsi(interface))?;
    let rates: Vec<BitRate> =
        prepare.jobs.iter().filter(|job| sends(job)).filter_map(offered).collect();
    if rates.is_empty() {
        Ok(())
    } else {
        permits.offered_rate(BitRate(rates.iter().map(|rate| rate.0).sum()))
    }
}

/// Returns whether this end of `job` sends. By default the active end does.
fn sends(job: &PreparedJob) -> bool {
    match job.params.get("direction").and_then(|direction| direction.as_str()) {
        Some("both") => true,
        Some("rx") => job.side == Side::Passive,
        _ => job.side == Side::Active,
    }
}

/// Returns the lowest rate among the parameters of `job`, which is the one in effect.
fn offered(job: &PreparedJob) -> Option<BitRate> {
    let rate = |name: &&str| job.params.get(name)?.as_str()?.parse().ok();
    RATES
        .iter()
        .filter(|_| job.workload != OF_DISKS)
        .filter_map(rate)
        .min_by(|a: &BitRate, b: &BitRate| a.0.total_cmp(&b.0))
}

#[cfg(test)]
mod tests {
    use linerate_load::{Limits, Secret};
    use linerate_model::{Nanos, Params, Phases, TrialId, Warmup};
    use serde_json::{Value, json};

    use super::*;

    fn prepare(jobs: &[(&str, Side, Value)]) -> Prepare {
        let of = |(workload, side, params): &(&str, Side, Value)| {
            let ncsi = &params["ncsi"];
            let local = json!({
                "name": "a", "host": "h", "address": null, "device": null, "ncsi": ncsi
            });
            PreparedJob {
                job: 0,
                side: *side,
                workload: (*workload).to_owned(),
                params: Params(params.as_object().expect("a table").clone()),
                local: serde_json::from_value(local).expect("an endpoint"),
                background: None,
                seed: 0,
                secret: Secret([0; 16]),
                peer_clock: None,
            }
        };
        let (none, second) = (Nanos(0), Nanos::from_secs(1));
        let phases = Phases {
            warmup: Warmup::Fixed(none),
            measure: second,
            drain: none,
            rest: none,
            interval: second,
        };
        let jobs = jobs.iter().map(of).collect();
        Prepare {
            trial: TrialId(1),
            phases,
            jobs,
            patience_ms: 0,
            sample_period_ms: 0,
            legs: Vec::new(),
            counts_often: false,
        }
    }

    #[test]
    fn a_trial_is_held_against_the_rate_of_all_that_this_end_sends() {
        let permits =
            Permits::only(Limits { rate: Some(BitRate(1e9)), ..Limits::new("agent.toml") });
        let (active, passive) = (Side::Active, Side::Passive);
        let of = |jobs: &[(&str, Side, Value)]| {
            permitted(&prepare(jobs), &permits).map_err(|error| error.to_string())
        };
        let half = || ("tcp_stream", active, json!({ "pacing_rate": "600 Mbit/s" }));
        assert_eq!(of(&[half()]), Ok(()));
        let why = of(&[half(), half()]).expect_err("together they are faster");
        assert!(why.contains("`rate = \"1.2 Gbit/s\"` in agent.toml"), "{why}");
        assert!(of(&[("udp_stream", active, json!({ "rate": "2 Gbit/s" }))]).is_err());
        assert_eq!(
            of(&[("udp_stream", passive, json!({ "rate": "2 Gbit/s" }))]),
            Ok(()),
            "it receives"
        );
        assert!(
            of(&[("udp_stream", passive, json!({ "rate": "2 Gbit/s", "direction": "rx" }))])
                .is_err()
        );
        assert!(
            of(&[("udp_stream", passive, json!({ "rate": "2 Gbit/s", "direction": "both" }))])
                .is_err()
        );
        assert_eq!(of(&[("storage", active, json!({ "rate": "2 Gbit/s" }))]), Ok(()), "a disk's");
        assert_eq!(
            of(&[("tcp_rr", active, json!({ "rate": "10 kpps" }))]),
            Ok(()),
            "the engine limits it"
        );
        assert_eq!(
            permitted(&prepare(&[half(), half()]), &Permits::EVERYTHING)
                .map_err(|error| error.to_string()),
            Ok(())
        );
    }

    #[test]
    fn a_network_controller_is_used_only_if_the_policy_names_it() {
        let asks = prepare(&[("null", Side::Active, json!({ "ncsi": "eth1" }))]);
        let limits = |ncsi: &[&str]| Limits {
            ncsi: ncsi.iter().map(ToString::to_string).collect(),
            ..Limits::new("a")
        };
        let why =
            permitted(&asks, &Permits::only(limits(&["eth0"]))).expect_err("not named").to_string();
        assert!(why.contains("`ncsi = [\"eth1\"]`"), "{why}");
        permitted(&asks, &Permits::only(limits(&["eth1"]))).expect("named");
    }
}
