//! The plans of `tune window`: they are recorded, and can be run again by hand.

use linerate_model::Nanos;
use linerate_model::plan::{Draft, DraftJob, DraftSweep};

/// Length of an interval of a run that is longer.
const INTERVAL: Nanos = Nanos::from_millis(100);
/// How long a run waits for what is still under way, and the pause after it.
const DRAIN: Nanos = Nanos::from_millis(200);
const REST: Nanos = Nanos::from_millis(100);

/// One sweep of one point: its name, how long it is, and what runs.
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

/// The path that is tuned, and the sender's congestion control.
#[derive(Clone, Debug)]
pub(super) struct Path {
    pub(super) from: String,
    pub(super) to: String,
    /// An endpoint of a third host.
    pub(super) other: Option<String>,
    pub(super) congestion: Option<String>,
    /// How long every stream and every exchange lasts, instead of what suits each.
    pub(super) milliseconds: Option<u32>,
    /// Warm-up of every run.
    pub(super) omit_ms: u32,
}

impl Path {
    /// The plan of `stints`, each run `repeats` times, in blocks of one run of each in random
    /// order.
    pub(super) fn draft(&self, name: &str, repeats: u32, stints: &[Stint]) -> Draft {
        let sweep = |Stint { name, milliseconds, jobs }: &Stint| {
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
        };
        Draft::new(name, repeats, stints.iter().map(sweep).collect())
    }

    /// How long a run lasts for which `usual` suits.
    pub(super) fn length(&self, usual: u32) -> u32 {
        self.milliseconds.unwrap_or(usual)
    }

    /// A stream from the sender, with its own window or one that is clamped.
    pub(super) fn stream(&self, window: Option<u64>) -> DraftJob {
        let congestion = self.congestion.as_deref().map(|name| ("congestion", name.into()));
        let clamp = window.map(|bytes| ("window_clamp", format!("{bytes} B").into()));
        self.job("tcp_stream").with(congestion.into_iter().chain(clamp))
    }

    fn job(&self, workload: &str) -> DraftJob {
        DraftJob::new(workload, &self.from, &self.to)
    }

    /// First look: the round trip with nothing waiting, what goes in and what comes out of the
    /// hose, a stream as it is.
    pub(super) fn look(&self) -> Vec<Stint> {
        vec![
            Stint::one("round trip", self.length(800), self.job("tcp_rr")),
            Stint::one("flood", self.length(800), self.job("udp_stream").with([("gso", 1.into())])),
            Stint::one("as it is", self.length(1_500), self.stream(None)),
        ]
    }

    /// Trains of these lengths, `gap_ms` apart, some twenty of each.
    pub(super) fn trains(&self, lengths: &[u32], gap_ms: u32) -> Vec<Stint> {
        const TRAINS: u32 = 20;
        let train = |&length: &u32| {
            let rate = f64::from(length) * 1e3 / f64::from(gap_ms);
            let job = self
                .job("udp_stream")
                .with([("gso", 1.into()), ("rate", format!("{rate} pps").into())]);
            let burst = (length > 1).then(|| ("burst", length.into()));
            Stint::one(format!("train {length}"), (TRAINS * gap_ms).max(300), job.with(burst))
        };
        lengths.iter().map(train).collect()
    }

    /// A stream with its own window, and with each of these.
    pub(super) fn windows(&self, windows: &[u64]) -> Vec<Stint> {
        let own = Stint::one("own window", self.length(1_000), self.stream(None));
        let clamped = windows.iter().map(|&bytes| {
            Stint::one(format!("window {bytes}"), self.length(1_000), self.stream(Some(bytes)))
        });
        [own].into_iter().chain(clamped).collect()
    }

    /// What a setting is judged by, and what may get worse: figure, jobs. The first is the one it
    /// is made for.
    pub(super) fn figures(&self) -> Vec<(&'static str, Vec<DraftJob>)> {
        let with =
            |direction: &str| vec![self.stream(None).with([("direction", direction.into())])];
        let mut figures = vec![
            ("to the host", vec![self.stream(None)]),
            ("from the host", with("rx")),
            ("both ways", with("both")),
            ("request and response", vec![self.job("tcp_rr")]),
        ];
        if let Some(other) = &self.other {
            figures.push((
                "from another host",
                vec![DraftJob { from: other.clone(), ..self.stream(None) }],
            ));
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
        let figures = path.figures().into_iter().map(|(name, jobs)| Stint {
            name: name.into(),
            milliseconds: 1_000,
            jobs,
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
