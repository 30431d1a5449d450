//! Packets that the kernel's receive path processed on each CPU (sampler `softnet`), over whole
//! trials with their warm-up. Several hosts on one machine count once.
//!
//! Not observed: packets that XDP took before the receive path.

use std::collections::BTreeMap;

use linerate_model::series::softnet;
use linerate_model::{Campaign, SampleBlock, TrialRecord};
use serde::{Deserialize, Serialize};

/// Packets per second that each CPU of a machine received: the mean over the trials of a point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReceivedByCpu {
    /// The first host on the machine.
    pub host: String,
    /// By the number of the CPU.
    pub rates: BTreeMap<u32, f64>,
}

/// Returns the packets that each machine's CPUs received in `trials`.
pub(super) fn by_cpu(campaign: &Campaign, trials: &[&TrialRecord]) -> Vec<ReceivedByCpu> {
    let mut machines: Vec<(Option<&str>, &str)> = Vec::new();
    for host in &campaign.hosts {
        let boot = host.facts["kernel"]["boot_id"].as_str();
        let took_part =
            trials.iter().any(|trial| trial.samples.iter().any(|(name, _)| *name == host.host));
        let known = boot.is_some() && machines.iter().any(|(other, _)| *other == boot);
        if took_part && !known {
            machines.push((boot, &host.host));
        }
    }
    let mut found = Vec::new();
    for (_, host) in machines {
        let blocks =
            || trials.iter().flat_map(|trial| &trial.samples).filter(|(name, _)| name == host);
        let runs: Vec<BTreeMap<u32, f64>> =
            blocks().map(|(_, block)| rates(block)).filter(|rates| !rates.is_empty()).collect();
        let mut mean = BTreeMap::<u32, f64>::new();
        for (cpu, rate) in runs.iter().flatten() {
            *mean.entry(*cpu).or_default() += rate / runs.len() as f64;
        }
        if !mean.is_empty() {
            found.push(ReceivedByCpu { host: host.to_owned(), rates: mean });
        }
    }
    found
}

fn rates(block: &SampleBlock) -> BTreeMap<u32, f64> {
    let seconds = block
        .times
        .first()
        .zip(block.times.last())
        .map_or(0.0, |(first, last)| last.since(*first).as_secs_f64());
    if seconds > 0.0 {
        block
            .series
            .iter()
            .enumerate()
            .filter_map(|(place, spec)| {
                let cpu = spec.instance.strip_prefix("cpu")?.parse().ok()?;
                let mut known = block.columns.get(place)?.iter().flatten();
                let first = known.next()?;
                let last = known.next_back()?;
                softnet::PROCESSED.is(spec).then_some((cpu, (last - first) / seconds))
            })
            .collect()
    } else {
        BTreeMap::<u32, f64>::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_model::Nanos;

    #[test]
    fn packets_per_cpu_are_the_counts_of_the_receive_path_over_the_time_read() {
        let block = SampleBlock {
            series: [
                softnet::PROCESSED.of("cpu0"),
                softnet::DROPPED.of("cpu0"),
                softnet::PROCESSED.of("cpu1"),
            ]
            .into(),
            times: vec![Nanos(0), Nanos::from_secs(1), Nanos::from_secs(2)],
            columns: vec![
                vec![Some(10.0), Some(20.0), Some(210.0)].into(),
                vec![Some(0.0), Some(0.0), Some(5.0)].into(),
                vec![None, Some(7.0), Some(7.0)].into(),
            ],
            ..SampleBlock::default()
        };
        assert_eq!(rates(&block), BTreeMap::from([(0, 100.0), (1, 0.0)]));
    }
}
