//! Interface with two cables, of which the second takes over when the first fails, as a person
//! writes it.

use std::ops::Range;

use linerate_model::{Bytes, Nanos, Problem};
use serde::Deserialize;

use super::{LinkEnd, Node, NodeKind, check_ends, usual_mtu};

/// One interface at each of two hosts, and two cables between them.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failover {
    /// The two hosts.
    pub ends: [LinkEnd; 2],
    /// Time from one failure to the next; the cables fail in turn.
    pub every: Nanos,
    /// Duration of each.
    pub length: Nanos,
    /// Time for which a failed cable loses frames before its carrier goes, as a switch does that
    /// has lost its own way on. The second cable takes over afterwards.
    #[serde(default)]
    pub unnoticed: Nanos,
    /// True if the other cable takes over; otherwise a failure is an outage of its own length, and
    /// is never noticed.
    #[serde(default = "usual_backup")]
    pub backup: bool,
    /// IP MTU.
    #[serde(default = "usual_mtu")]
    pub mtu: Bytes,
}

const fn usual_backup() -> bool {
    true
}

/// Returns two cables, and adds a problem for everything impossible.
pub(super) fn read(
    failover: toml::Spanned<Failover>,
    nodes: &[Node],
    problems: &mut Vec<Problem>,
) -> Failover {
    let (span, failover) = (failover.span(), failover.into_inner());
    check_ends(&failover.ends, "a failover", nodes, &span, problems);
    for end in &failover.ends {
        let other = nodes.iter().find(|node| node.name == end.node && node.kind != NodeKind::Host);
        problems.extend(other.map(|node| {
            let message = format!("a failover joins two hosts; `{}` is none", node.name);
            Problem::new(Some(span.clone()), message)
        }));
    }
    check_times(&failover, &span, problems);
    failover
}

fn check_times(failover: &Failover, span: &Range<usize>, problems: &mut Vec<Problem>) {
    /// Least time between two changes: a command that changes a cable takes milliseconds.
    const LEAST: Nanos = Nanos::from_millis(100);
    let Failover { every, length, unnoticed, backup, .. } = failover;
    if !backup && *unnoticed > Nanos(0) {
        let message = "a failure is never noticed where no cable takes over";
        let problem = Problem::new(Some(span.clone()), message);
        problems.push(problem.expected("no `unnoticed` beside `backup = false`"));
    }
    if *unnoticed + LEAST > *length || *length + LEAST > *every {
        let message = "the times of a failover do not follow each other";
        let problem = Problem::new(Some(span.clone()), message);
        problems.push(problem.expected(format!(
            "`unnoticed` is {LEAST} shorter than `length`, and that {LEAST} shorter than `every`"
        )));
    }
}

#[cfg(test)]
mod tests {
    use crate::description::Description;

    #[test]
    fn times_follow_each_other_and_ends_are_hosts() {
        let problems = |text: &str| {
            let head = "[lab]\nname='x'\n[[host]]\nname='a'\n[[host]]\nname='b'\n[[switch]]\n\
                name='s'\n[[failover]]\n";
            Description::parse(&format!("{head}{text}\n")).1.len()
        };
        let times = "every='2 s'\nlength='1 s'\n";
        assert_eq!(problems(&format!("ends=['a','b']\n{times}unnoticed='50 ms'")), 0);
        assert_eq!(problems(&format!("ends=['a','s']\n{times}")), 1);
        assert_eq!(problems(&format!("ends=['a','b']\n{times}unnoticed='1 s'")), 1);
        assert_eq!(problems(&format!("ends=['a','b']\n{times}backup=false\nunnoticed='50 ms'")), 1);
        assert_eq!(problems("ends=['a','b']\nevery='1 s'\nlength='1 s'"), 1);
    }
}
