//! No other rule explains the point (methodology 5.3, D18): said aloud, with what was looked at.
//!
//! It speaks only where a ceiling is known and goodput is below it, for without a ceiling there is nothing to explain. What it
//! does not see: everything no rule looks at yet, softirq and the application above all.

use linerate_model::{Direction, Evidence, Finding, Verdict};

use super::{NO_OTHER, RULES, Rule, flows, may_be_judged, subject, value};
use crate::PointStudy;

/// Metrics whose values are told where they explained nothing, with their unit's factor and symbol.
const LOOKED_AT: [(&str, f64, &str); 7] = [
    ("receiver_cpu", 100.0, "%"),
    ("retransmit_ratio", 100.0, "%"),
    ("rtt", 1e6, "us"),
    ("rwnd_limited", 100.0, "%"),
    ("sender_busy", 100.0, "%"),
    ("sender_cpu", 100.0, "%"),
    ("sndbuf_limited", 100.0, "%"),
];

/// Fires where no other rule does.
#[derive(Debug)]
pub(super) struct Unknown;

impl Rule for Unknown {
    fn name(&self) -> &'static str {
        NO_OTHER
    }

    fn summary(&self) -> &'static str {
        "goodput is below every ceiling known and no other rule says why"
    }

    fn judge(&self, point: &PointStudy) -> Option<Finding> {
        let others = RULES.iter().filter(|rule| rule.name() != self.name());
        let explained =
            others.filter_map(|rule| rule.judge(point)).any(|finding| finding.verdict != Verdict::Inconclusive);
        let below = |(job, direction): &(&crate::JobStudy, Direction)| {
            job.metric("goodput", *direction).is_some_and(|metric| metric.share.is_some())
        };
        let (job, direction) = flows(point).find(below).filter(|_| may_be_judged(point) && !explained)?;
        let share = job.metric("goodput", direction)?.share?;
        let mut evidence = vec![Evidence {
            observed: format!("goodput is {:.1} % of the lowest ceiling", share * 100.0),
            source: "the study's ceilings".into(),
        }];
        evidence.extend(LOOKED_AT.iter().filter_map(|(metric, factor, unit)| {
            let seen = value(job, metric, direction)?;
            Some(Evidence {
                observed: format!("{metric} {:.2} {unit}", seen * factor),
                source: if metric.ends_with("_cpu") {
                    "CPU time of the busiest worker"
                } else {
                    "TCP_INFO of the sender"
                }
                .into(),
            })
        }));
        let claim = "what limits it is not known from what was recorded";
        let finding =
            Finding::new(self.name(), Verdict::Inconclusive, &subject(point, job, direction), claim, evidence);
        Some(
            finding
                .advise("repeat it with twice the streams, then with twice the message size, and see which moves it"),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::rules::cases::point;

    #[test]
    fn it_fires_where_nothing_else_does_and_is_silent_elsewhere() {
        let finding = Unknown.judge(&point(&[("goodput", 0.5e9), ("rtt", 0.001)])).expect("nothing else speaks");
        assert_eq!((finding.verdict, finding.evidence.len()), (Verdict::Inconclusive, 2));
        assert_eq!(Unknown.judge(&point(&[("goodput", 0.99e9)])), None);
        assert_eq!(Unknown.judge(&point(&[("goodput", 0.5e9), ("sndbuf_limited", 0.9)])), None);
    }
}
