//! Use of the CPUs of this host, from /proc/stat.

use crate::wire::CpuUse;

/// Time since the start of the host by use, in ticks: of all CPUs, then of each.
#[derive(Clone, Debug, Default)]
pub(crate) struct CpuTimes(Vec<[u64; KINDS]>);

/// Columns of proc_stat(5): user, nice, system, idle, iowait, irq, softirq, steal.
const KINDS: usize = 8;
const IDLE: usize = 3;
const WAITING: usize = 4;

impl CpuTimes {
    /// Reads them now; none without /proc.
    pub(crate) fn now() -> Self {
        Self::parse(&std::fs::read_to_string("/proc/stat").unwrap_or_default())
    }

    fn parse(text: &str) -> Self {
        Self(text.lines().filter(|line| line.starts_with("cpu")).map(times).collect())
    }

    /// Returns the number of CPUs.
    pub(crate) fn n_cpus(&self) -> u32 {
        u32::try_from(self.0.len().saturating_sub(1)).unwrap_or(u32::MAX)
    }

    /// Returns the use since `before`.
    pub(crate) fn since(&self, before: &Self) -> CpuUse {
        let pairs = self.0.iter().zip(&before.0);
        let spans: Vec<Span> = pairs.map(|(now, then)| Span::between(now, then)).collect();
        let Some(whole) = spans.first() else { return CpuUse::default() };
        let each = spans.iter().skip(1).map(Span::busy).enumerate();
        let busiest = each.max_by(|a, b| a.1.total_cmp(&b.1));
        let id = |cpu: usize| i32::try_from(cpu).unwrap_or(-1);
        CpuUse {
            total: whole.busy(),
            user: whole.percent(&[0, 1]),
            system: whole.percent(&[2]),
            waiting: whole.percent(&[WAITING]),
            interrupts: whole.percent(&[5]),
            soft: whole.percent(&[6]),
            n_cpus: self.n_cpus(),
            busiest: busiest.map_or((-1, 0.0), |(cpu, share)| (id(cpu), share)),
        }
    }
}

/// Returns the times of a line.
fn times(line: &str) -> [u64; KINDS] {
    let mut times = [0; KINDS];
    let words = line.split_ascii_whitespace().skip(1);
    times.iter_mut().zip(words).for_each(|(time, word)| *time = word.parse().unwrap_or(0));
    times
}

/// Times between two looks.
struct Span([f64; KINDS]);

impl Span {
    fn between(now: &[u64; KINDS], then: &[u64; KINDS]) -> Self {
        Self(std::array::from_fn(|idx| now[idx].saturating_sub(then[idx]) as f64))
    }

    /// Returns the share of some kinds, percent.
    fn percent(&self, kinds: &[usize]) -> f32 {
        let all: f64 = self.0.iter().sum();
        let part: f64 = kinds.iter().map(|idx| self.0[*idx]).sum();
        if all > 0.0 { (100.0 * part / all) as f32 } else { 0.0 }
    }

    fn busy(&self) -> f32 {
        let is_idle = |idx: &usize| [IDLE, WAITING].contains(idx);
        let kinds: Vec<usize> = (0..KINDS).filter(|idx| !is_idle(idx)).collect();
        self.percent(&kinds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_use_of_the_cpus_is_their_time_that_is_not_idle() {
        let before =
            CpuTimes::parse("cpu  0 0 0 0 0 0 0 0 0 0\ncpu0 0 0 0 0\ncpu1 0 0 0 0\nintr 9");
        let after = CpuTimes::parse(
            "cpu  20 10 30 100 20 10 10 0 5 0\ncpu0 10 0 0 90\ncpu1 30 0 20 50\nintr 10",
        );
        let used = after.since(&before);
        let shares = [used.total, used.user, used.system, used.waiting, used.interrupts, used.soft];
        assert_eq!(shares, [40.0, 15.0, 15.0, 10.0, 5.0, 5.0]);
        assert_eq!((used.n_cpus, used.busiest), (2, (1, 50.0)));
        assert_eq!(before.since(&before).total, 0.0);
        assert_eq!(CpuTimes::default().since(&before), CpuUse::default());
    }
}
