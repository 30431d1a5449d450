//! Plans of `tune window`. They are recorded with the results, so that a stage can be repeated by
//! hand.

use linerate_model::plan::{Draft, DraftJob, DraftSweep};
use linerate_model::{Metric, Nanos, metric};

/// Length of an interval of a run that is longer.
const INTERVAL: Nanos = Nanos::from_millis(100);
/// Time that a run waits for data in flight, and the pause after it.
const DRAIN: Nanos = Nanos::from_millis(200);
const REST: Nanos = Nanos::from_millis(100);

/// A sweep of one point: its name, its length and its jobs.
#[derive(Clone, Debug)]
pub(super) struct Stint {
    pub(super) name: String,
    pub(super) milliseconds: u32,
    pub(super) jobs: Vec<DraftJob>,
}

impl Stint {
    pub(super) fn one(name: impl Into<String>, milliseconds: u32, job: DraftJob) -> Self {
        Self { name: name.into(), milliseconds, jobs: vec![job] }
    }
}

/// A figure that a setting is judged by.
#[derive(Clone, Debug)]
pub(super) struct Figure {
    pub(super) name: &'static str,
    pub(super) jobs: Vec<DraftJob>,
    pub(super) metric: &'static Metric,
    /// True if it is measured in each direction.
    pub(super) both_ways: bool,
}

impl Figure {
    fn one_way(name: &'static str, job: DraftJob, metric: &'static Metric) -> Self {
        Self { name, jobs: vec![job], metric, both_ways: false }
    }
}

/// The path that is tuned, and the sender's congestion control.
#[derive(Clone, Debug)]
pub(super) struct Path {
    pub(super) from: String,
    pub(super) to: String,
    /// An endpoint of a third host.
    pub(super) other: Option<String>,
    pub(super) congestion: Option<String>,
    /// Length of every stream and every exchange; `None` for the usual length of each.
    pub(super) milliseconds: Option<u32>,
    /// Warm-up of every run.
    pub(super) omit_ms: u32,
}

impl Path {
    /// Returns the plan of `stints`, each run `repeats` times, in blocks of one run of each in
    /// random order.
    pub(super) fn draft(&self, name: &str, repeats: u32, stints: &[Stint]) -> Draft {
        let sweeps = stints.iter().map(|Stint { name, milliseconds, jobs }| {
            let duration = Nanos::from_millis((*milliseconds).into());
            DraftSweep {
                name: name.clone(),
                duration,
                warmup: Nanos::from_millis(self.omit_ms.into()),
                drain: Some(DRAIN),
                rest: Some(REST),
                interval: Some(INTERVAL.min(duration)),
                jobs: jobs.clone(),
                ..DraftSweep::default()
            }
        });
        Draft::new(name, repeats, sweeps.collect())
    }

    /// Returns the length of a run whose usual length is `usual`, ms.
    pub(super) fn length(&self, usual: u32) -> u32 {
        self.milliseconds.unwrap_or(usual)
    }

    /// Returns a stream from the sender, with the host's own window or one clamped to `window`
    /// bytes.
    pub(super) fn stream(&self, window: Option<u64>) -> DraftJob {
        let congestion = self.congestion.as_deref().map(|name| ("congestion", name.into()));
        let clamp = window.map(|bytes| ("window_clamp", format!("{bytes} B").into()));
        self.job("tcp_stream").with(congestion.into_iter().chain(clamp))
    }

    fn job(&self, workload: &str) -> DraftJob {
        DraftJob::new(workload, &self.from, &self.to)
    }

    /// Returns the first stage: the round trip on an idle path, a flood that shows the rates into
    /// and out of the buffer, and a stream with the host's own window.
    pub(super) fn look(&self) -> Vec<Stint> {
        vec![
            Stint::one("round trip", self.length(800), self.job("tcp_rr")),
            Stint::one("flood", self.length(800), self.job("udp_stream").with([("gso", 1.into())])),
            Stint::one("as it is", self.length(1_500), self.stream(None)),
        ]
    }

    /// Returns trains of these lengths, `gap_ms` apart, about twenty of each.
    pub(super) fn trains(&self, lengths: &[u32], gap_ms: u32) -> Vec<Stint> {
        const TRAINS: u32 = 20;
        lengths
            .iter()
            .map(|&length| {
                let rate = f64::from(length) * 1e3 / f64::from(gap_ms);
                let job = self
                    .job("udp_stream")
                    .with([("gso", 1.into()), ("rate", format!("{rate} pps").into())]);
                let burst = (length > 1).then(|| ("burst", length.into()));
                Stint::one(format!("train {length}"), (TRAINS * gap_ms).max(300), job.with(burst))
            })
            .collect()
    }

    /// Returns a stream with the host's own window, and one with each of `windows`, bytes.
    pub(super) fn windows(&self, windows: &[u64]) -> Vec<Stint> {
        let own = Stint::one("own window", self.length(1_000), self.stream(None));
        let clamped = windows.iter().map(|&bytes| {
            Stint::one(format!("window {bytes}"), self.length(1_000), self.stream(Some(bytes)))
        });
        [own].into_iter().chain(clamped).collect()
    }

    /// Returns the figures that a setting is judged by. The first is the one it is made for; the
    /// others may get worse.
    pub(super) fn figures(&self) -> Vec<Figure> {
        let towards = |way: &str| self.stream(None).with([("direction", way.into())]);
        let both_ways = Figure {
            both_ways: true,
            ..Figure::one_way("both ways", towards("both"), metric::GOODPUT)
        };
        let mut figures = vec![
            Figure::one_way("to the host", self.stream(None), metric::GOODPUT),
            Figure::one_way("from the host", towards("rx"), metric::GOODPUT),
            both_ways,
            Figure::one_way("request and response", self.job("tcp_rr"), metric::RESPONSE_TIME_P50),
        ];
        if let Some(other) = &self.other {
            let job = DraftJob { from: other.clone(), ..self.stream(None) };
            figures.push(Figure::one_way("from another host", job, metric::GOODPUT));
        }
        figures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_plan_is_one_that_can_be_read_back() {
        let path = Path {
            from: "a".into(),
            to: "bmc".into(),
            other: Some("b".into()),
            congestion: Some("cubic".into()),
            milliseconds: None,
            omit_ms: 300,
        };
        let figures = path.figures().into_iter().map(|figure| Stint {
            name: figure.name.into(),
            milliseconds: 1_000,
            jobs: figure.jobs,
        });
        for stints in
            [path.look(), path.trains(&[1, 6], 20), path.windows(&[2920, 7300]), figures.collect()]
        {
            let text = path.draft("tune", 2, &stints).text();
            let plan = linerate_model::plan::read(&text)
                .unwrap_or_else(|problems| panic!("{problems:?}\n{text}"));
            assert_eq!(plan.sweeps.len(), stints.len());
            for job in plan.sweeps.iter().flat_map(|sweep| &sweep.jobs) {
                let workload = linerate_load::workload(&job.workload).expect("known");
                assert_eq!(workload.check(&job.params), [], "{text}");
            }
        }
    }
}
