//! The cost of a system call limits the sender, not its bytes (docs/methodology/diagnosis.md#rules,
//! D9): cores of the busiest worker.
//!
//! Evidence: the busiest worker of the sending end used more than [`super::BUSY`] of a core in
//! calls of less than [`super::LARGE`]. Beside other programs it gets less of the core, but never
//! sleeps: it runs or waits for the CPU. Not observed: requests, whose size the application sets;
//! spinning ends, which are always busy; and whether calls per second stay constant as messages
//! grow, which the experiment shows.

use linerate_model::{Direction, metric};

use super::{
    FlowEnd, LARGE, Rule, TCP_STREAM, changed, cpu_taken::sender_never_sleeps, flows, grown,
    may_be_judged, out_of_cpu, room, score, seen, suspected, value,
};
use crate::diagnosis::experiment::{Experiment, bytes, set};
use crate::diagnosis::{Claim, Finding, Step};
use crate::{JobStudy, PointStudy};

/// Rule: the busiest sending worker uses a whole core on small messages.
pub(super) const RULE: Rule = Rule {
    number: 9,
    name: "small_message",
    summary: "the sender uses all of its CPU on calls of less than 4 KiB: a thread above 90 % of a \
        core, or all that other programs leave to it, or an exhausted CPU quota",
    judge,
    score,
    experiments,
    ..Rule::PLAIN
};

fn judge(point: &PointStudy) -> Option<Finding> {
    let (job, direction, mut evidence) = flows(point)
        // The application protocol sets the size of a request, so larger messages are no
        // remedy.
        .filter(|(job, _)| value(job, metric::TRANSACTION_RATE, Direction::Sum).is_none())
        .filter(|(job, direction)| {
            value(job, metric::PAYLOAD_PER_SEND, *direction).is_some_and(|bytes| bytes < LARGE)
        })
        .find_map(|(job, direction)| {
            let starved = || Some(vec![sender_never_sleeps(point, job, direction)?]);
            let evidence = out_of_cpu(job, FlowEnd::Sending, direction).or_else(starved)?;
            Some((job, direction, evidence))
        })
        .filter(|_| may_be_judged(point))?;
    evidence.extend(seen(job, metric::PAYLOAD_PER_SEND, direction));
    evidence.extend(seen(job, metric::CALLS_PER_SECOND, Direction::Sum));
    let claim = Claim::SmallMessages;
    let finding = suspected(RULE.name, (point, job, direction), claim, evidence);
    let size = value(job, metric::PAYLOAD_PER_SEND, direction)?;
    // Both keys count payload bytes per call, but the workloads name them after their unit.
    let key = if job.workload == TCP_STREAM { "message_size" } else { "datagram_size" };
    let command = changed(point, &[set(key, bytes(LARGER * size))]);
    Some(finding.advise(Step::LargerMessages.by(command)))
}

fn score(point: &PointStudy) -> Option<f64> {
    score::best(point, |job, direction| {
        let small = value(job, metric::PAYLOAD_PER_SEND, direction)? < LARGE;
        let asked = value(job, metric::TRANSACTION_RATE, Direction::Sum).is_some();
        score::out_of_cpu(job, FlowEnd::Sending, direction).filter(|_| small && !asked)
    })
}

fn experiments(point: &PointStudy) -> Vec<Experiment> {
    flows(point).find_map(|(job, direction)| larger_messages(job, direction)).into_iter().collect()
}

fn larger_messages(job: &JobStudy, direction: Direction) -> Option<Experiment> {
    let size = value(job, metric::PAYLOAD_PER_SEND, direction)
        // Larger datagrams change what the path sees, so the experiment would not isolate the cost
        // of calls.
        .filter(|_| job.workload == TCP_STREAM)?;
    let change = vec![set("message_size", bytes(LARGER * size))];
    // Calls are the limit if they take half of the sender's time or more, and bytes the rest.
    let [least, most] = grown(LARGER, room(job, direction));
    let prediction = [least.min(2.0 * LARGER / (LARGER + 1.0)), most];
    let lift = Experiment::lift("messages of four times the size", change, prediction);
    // Beside other programs, goodput follows what they leave of the CPU more than it follows the
    // messages.
    let is_shared = out_of_cpu(job, FlowEnd::Sending, direction).is_none();
    Some(if is_shared { lift.refuting_nothing() } else { lift })
}

/// Factor by which the experiment enlarges messages.
const LARGER: f64 = 4.0;

#[cfg(test)]
mod tests {
    use linerate_model::{Failing, Verdict};

    use super::*;
    use crate::diagnosis::Evidence;
    use crate::diagnosis::rules::cases::point;
    use crate::{Obtained, TrialStudy};

    #[test]
    fn it_fires_on_a_full_core_with_small_messages() {
        let full = point(&[("goodput", 5e8), ("payload_per_send", 64.0), ("sender_cpu", 0.97)]);
        let experiment = &RULE.experiments(&full)[0];
        assert_eq!((experiment.failing, experiment.ratio), (Failing::Refutes, [1.6, 5.0]));
        let finding = RULE.judge(&full).expect("a full core");
        assert_eq!((finding.verdict, finding.evidence.len()), (Verdict::Suspected, 2));
        let command = finding.advice[0].command.as_ref().expect("a command");
        assert_eq!(command.arguments, ["--param", "message_size=256 B"]);
    }

    #[test]
    fn beside_other_programs_it_fires_where_the_sender_never_sleeps() {
        let judge = |bytes, occupied, wait: &str| {
            let figures = [
                ("goodput", 5e8),
                ("payload_per_send", bytes),
                ("sender_cpu", 0.35),
                ("receiver_cpu", 0.1),
            ];
            let mut point = point(&figures);
            point.jobs[0].obtained.insert("wait".into(), Obtained::mode(wait));
            let trial = TrialStudy {
                taken: [Some(0.6); 2],
                occupied: Some([occupied, 0.2]),
                ..TrialStudy::default()
            };
            let point = PointStudy { trials: vec![trial], ..point };
            let experiment = RULE.experiments(&point).pop().expect("one");
            assert_eq!(experiment.failing, Failing::SaysNothing, "others leave more or less CPU");
            RULE.judge(&point)
        };
        let finding = judge(64.0, 0.99, "block").expect("it runs or waits for a CPU");
        let evidence =
            |seen: &Evidence| matches!(seen, Evidence::CpuWait { end: FlowEnd::Sending, .. });
        assert!(finding.evidence.iter().any(evidence));
        let silent = [judge(64.0, 0.8, "block"), judge(65_536.0, 0.99, "block")];
        assert_eq!(silent, [None, None], "it sleeps, or its messages are large");
        assert_eq!(judge(64.0, 0.99, "spin"), None, "a spinning worker never sleeps");
    }

    #[test]
    fn it_is_silent_on_large_messages_idle_cores_and_requests() {
        let judge = |bytes, cores| {
            RULE.judge(&point(&[
                ("goodput", 5e8),
                ("payload_per_send", bytes),
                ("sender_cpu", cores),
            ]))
        };
        assert_eq!((judge(65_536.0, 0.99), judge(64.0, 0.85)), (None, None));
        let mut requests =
            point(&[("goodput", 5e8), ("payload_per_send", 1.0), ("sender_cpu", 0.99)]);
        let mut rate = requests.jobs[0].metrics[0].clone();
        (rate.metric, rate.direction) = (metric::TRANSACTION_RATE, Direction::Sum);
        requests.jobs[0].metrics.push(rate);
        assert_eq!(RULE.judge(&requests), None);
    }
}
