//! CPU time charged to processes that have ended, from proc(5). Seconds, in ticks of 10 ms.
//!
//! A child's time counts once it has been waited for, with that of the children it has waited for
//! itself. Work the kernel does in a soft interrupt while a process runs is charged to that process
//! unless the kernel accounts interrupts apart (CONFIG_IRQ_TIME_ACCOUNTING); the soft interrupts of
//! the whole machine are therefore read beside it.

use anyhow::Context;

/// USER_HZ of Linux on every architecture this runs on: the unit of times in proc(5).
const TICKS_PER_SECOND: f64 = 100.0;
/// Fields of /proc/PID/stat after the command's name (which may contain anything): state is the
/// first.
const USER: usize = 11;
const SYSTEM: usize = 12;
const CHILDREN_USER: usize = 13;
const CHILDREN_SYSTEM: usize = 14;
/// Fields of the first line of /proc/stat after its label.
const SOFT_INTERRUPTS: usize = 6;

/// CPU time used so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Usage {
    /// User and system time of all children waited for, s.
    pub(super) children: f64,
    /// Soft interrupts of the whole machine, s.
    pub(super) soft_interrupts: f64,
}

impl Usage {
    pub(super) fn now() -> anyhow::Result<Self> {
        let own = std::fs::read_to_string("/proc/self/stat").context("read /proc/self/stat")?;
        let machine = std::fs::read_to_string("/proc/stat").context("read /proc/stat")?;
        // Both files are read as close together as possible: the machine goes on meanwhile.
        Ok(Self {
            children: children(&own).context("parse /proc/self/stat")?,
            soft_interrupts: soft_interrupts(&machine).context("parse /proc/stat")?,
        })
    }

    pub(super) fn since(self, before: Self) -> Self {
        Self {
            children: self.children - before.children,
            soft_interrupts: self.soft_interrupts - before.soft_interrupts,
        }
    }
}

/// User and system time of process `id`, of its children that it has waited for, and of those that
/// live, s.
pub(super) fn of_tree(id: u32) -> anyhow::Result<f64> {
    let file = format!("/proc/{id}/stat");
    let stat = std::fs::read_to_string(&file).with_context(|| format!("read {file}"))?;
    let own = own(&stat).zip(children(&stat)).with_context(|| format!("parse {file}"))?;
    let living =
        std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
    // One that ends in between is counted at its parent the next time.
    let living = living.split_whitespace().filter_map(|child| of_tree(child.parse().ok()?).ok());
    Ok(own.0 + own.1 + living.sum::<f64>())
}

fn own(stat: &str) -> Option<f64> {
    seconds(stat, [USER, SYSTEM])
}

fn children(stat: &str) -> Option<f64> {
    seconds(stat, [CHILDREN_USER, CHILDREN_SYSTEM])
}

fn seconds(stat: &str, [user, system]: [usize; 2]) -> Option<f64> {
    // The name of the program may contain blanks and brackets, so fields count from the last
    // bracket.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |index: usize| fields.get(index)?.parse::<f64>().ok();
    Some((ticks(user)? + ticks(system)?) / TICKS_PER_SECOND)
}

fn soft_interrupts(stat: &str) -> Option<f64> {
    let first = stat.lines().next()?.strip_prefix("cpu ")?;
    Some(first.split_whitespace().nth(SOFT_INTERRUPTS)?.parse::<f64>().ok()? / TICKS_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_where_proc_has_them() {
        let own = "1234 (a) b) R 1 1 1 0 -1 4194304 100 200 0 0 11 12 250 125 20 0 1 0 5 6 7 8";
        assert_eq!((super::own(own), children(own)), (Some(0.23), Some(3.75)));
        assert!(
            of_tree(std::process::id()).is_ok_and(|seconds| seconds >= 0.0)
                && of_tree(u32::MAX).is_err()
        );
        let machine =
            "cpu  508049 1189 74129 345219 3389 0 5680 16076 0 0\ncpu0 1 2 3 4 5 6 7 8 9 10\n";
        assert_eq!(soft_interrupts(machine), Some(56.8));
        assert_eq!((children("1 (x"), soft_interrupts("intr 1")), (None, None));
    }
}
