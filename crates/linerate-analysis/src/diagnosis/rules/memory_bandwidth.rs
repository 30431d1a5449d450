//! Memory is too slow for the copies (docs/methodology/diagnosis.md#rules, D16): cycles per
//! instruction of both hosts.
//!
//! Evidence: an end uses all of its CPU on large messages, and its CPUs wait for memory: more than
//! [`STALLED`] cycles per instruction. Not observed: virtual machines without performance counters,
//! where this rule makes no claim, and other users of the memory.

use linerate_model::{Direction, metric};

use super::{
    FlowEnd, Rule, TCP_STREAM, changed, first_out_of_cpu, flows, score, sends_large, suspected,
    value,
};
use crate::PointStudy;
use crate::diagnosis::experiment::{Experiment, set};
use crate::diagnosis::{Claim, Evidence, Finding, Step};

/// Cycles per instruction from which a CPU mostly waits: kernel network paths take about one.
const STALLED: f64 = 2.5;
/// Ends that copy the data.
const ENDS: [FlowEnd; 2] = [FlowEnd::Sending, FlowEnd::Receiving];

/// Least predicted ratio: copies that share memory cost each other a fifth
/// (docs/methodology/diagnosis.md#rules).
const LEAST_GAINED: f64 = 1.2;
/// Largest predicted ratio: copies are only a part of the cost of a byte.
const MOST_GAINED: f64 = 10.0;

/// Rule: busy CPUs wait for memory.
pub(super) const RULE: Rule = Rule {
    number: 16,
    name: "memory_bandwidth",
    summary: "an end uses all of its CPU on large messages, at more than 2.5 cycles per \
        instruction: its CPUs wait for memory",
    judge,
    score,
    experiments,
    ..Rule::PLAIN
};

fn judge(point: &PointStudy) -> Option<Finding> {
    // Small calls spend their cycles in the kernel's entry path, which rarely waits for memory.
    let (job, direction, mut evidence) = first_out_of_cpu(point, &ENDS, sends_large)?;
    // Without performance counters the figure is absent, and a virtual machine gets no claim.
    let cycles = value(job, metric::CYCLES_PER_INSTRUCTION, Direction::Sum)
        .filter(|cycles| *cycles > STALLED)?;
    evidence.push(Evidence::figure(metric::CYCLES_PER_INSTRUCTION, cycles));
    let claim = Claim::MemoryBandwidth;
    let finding = suspected(RULE.name, (point, job, direction), claim, evidence);
    let command = changed(point, &[set("send", "sendfile"), set("receive", "discard")]);
    Some(finding.advise(Step::WithoutCopies { both: true }.by(command)))
}

fn experiments(point: &PointStudy) -> Vec<Experiment> {
    let streams = flows(point).any(|(job, _)| job.workload == TCP_STREAM);
    // Both ends stop copying at once: while either still copies, it can keep the memory busy.
    let change = || vec![set("send", "sendfile"), set("receive", "discard")];
    let ratio = [LEAST_GAINED, MOST_GAINED];
    streams.then(|| Experiment::lift("neither end copies", change(), ratio)).into_iter().collect()
}

fn score(point: &PointStudy) -> Option<f64> {
    score::best(point, |job, direction| {
        let busy = ENDS.map(|end| score::out_of_cpu(job, end, direction));
        let busy = busy.into_iter().flatten().reduce(f64::max)?;
        let cycles = value(job, metric::CYCLES_PER_INSTRUCTION, Direction::Sum)?;
        let stalled = score::reached(cycles, STALLED, 2.0 * STALLED);
        sends_large(job, direction).then(|| score::all([busy, stalled]))
    })
}

#[cfg(test)]
mod tests {
    use linerate_model::Verdict;

    use super::*;
    use crate::diagnosis::rules::cases::point;

    fn busy(cycles: f64, cpu: f64) -> PointStudy {
        point(&[
            ("goodput", 5e8),
            ("payload_per_send", 65_536.0),
            ("sender_cpu", cpu),
            ("cycles_per_instruction", cycles),
        ])
    }

    #[test]
    fn it_fires_where_a_full_core_waits() {
        let finding = RULE.judge(&busy(4.0, 0.97)).expect("it waits");
        assert_eq!((finding.verdict, finding.evidence.len()), (Verdict::Suspected, 2));
    }

    #[test]
    fn it_is_silent_where_the_core_works_or_idles() {
        assert_eq!(RULE.judge(&busy(1.1, 0.97)), None);
        assert_eq!(RULE.judge(&busy(4.0, 0.5)), None);
    }
}
