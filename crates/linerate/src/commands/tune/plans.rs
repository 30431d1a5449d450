//! The plans of `tune window`, as text: they are recorded, and can be run again by hand.

use std::fmt::Write as _;

/// One sweep of one point.
#[derive(Clone, Debug)]
pub(super) struct Sweep {
    pub(super) name: String,
    pub(super) milliseconds: u32,
    pub(super) jobs: Vec<Job>,
}

/// One job of it.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) workload: &'static str,
    pub(super) from: String,
    pub(super) to: String,
    /// The inside of its table of parameters.
    pub(super) params: String,
}

impl Sweep {
    pub(super) fn one(name: impl Into<String>, milliseconds: u32, job: Job) -> Self {
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
    /// The text of a plan of `sweeps`, each run `repeats` times, in blocks of one run of each in random order.
    pub(super) fn text(&self, name: &str, repeats: u32, sweeps: &[Sweep]) -> String {
        let mut text = format!("[campaign]\nname = \"{name}\"\nrepeats = {repeats}\norder = \"interleaved\"\n");
        for sweep in sweeps {
            let Sweep { name, milliseconds, jobs } = sweep;
            let _infallible = write!(
                text,
                "\n[[sweep]]\nname = \"{name}\"\nduration = \"{milliseconds} ms\"\nwarmup = \"{} ms\"\ndrain = \"200 ms\"\n\
                 rest = \"100 ms\"\ninterval = \"{} ms\"\n",
                self.omit_ms,
                100.min(*milliseconds),
            );
            for Job { workload, from, to, params } in jobs {
                let _infallible = write!(
                    text,
                    "[[sweep.job]]\nworkload = \"{workload}\"\nfrom = \"{from}\"\nto = \"{to}\"\nparams = {{ {params} }}\n"
                );
            }
        }
        text
    }

    /// How long a run lasts for which `usual` suits.
    pub(super) fn length(&self, usual: u32) -> u32 {
        self.milliseconds.unwrap_or(usual)
    }

    /// A stream from the sender, with its own window or one that is clamped.
    pub(super) fn stream(&self, window: Option<u64>) -> Job {
        let mut params = Vec::new();
        params.extend(self.congestion.as_ref().map(|name| format!("congestion = \"{name}\"")));
        params.extend(window.map(|bytes| format!("window_clamp = \"{bytes} B\"")));
        Job { workload: "tcp_stream", from: self.from.clone(), to: self.to.clone(), params: params.join(", ") }
    }

    fn simple(&self, workload: &'static str, params: &str) -> Job {
        Job { workload, from: self.from.clone(), to: self.to.clone(), params: params.into() }
    }

    /// First look: the round trip with nothing waiting, what goes in and what comes out of the hose, a stream as it is.
    pub(super) fn look(&self) -> Vec<Sweep> {
        vec![
            Sweep::one("round trip", self.length(800), self.simple("tcp_rr", "")),
            Sweep::one("flood", self.length(800), self.simple("udp_stream", "gso = 1")),
            Sweep::one("as it is", self.length(1_500), self.stream(None)),
        ]
    }

    /// Trains of these lengths, `gap_ms` apart, some twenty of each.
    pub(super) fn trains(&self, lengths: &[u32], gap_ms: u32) -> Vec<Sweep> {
        const TRAINS: u32 = 20;
        let train = |&length: &u32| {
            let rate = f64::from(length) * 1e3 / f64::from(gap_ms);
            let burst = if length > 1 { format!(", burst = {length}") } else { String::new() };
            let job = self.simple("udp_stream", &format!("gso = 1, rate = \"{rate} pps\"{burst}"));
            Sweep::one(format!("train {length}"), (TRAINS * gap_ms).max(300), job)
        };
        lengths.iter().map(train).collect()
    }

    /// A stream with its own window, and with each of these.
    pub(super) fn windows(&self, windows: &[u64]) -> Vec<Sweep> {
        let own = Sweep::one("own window", self.length(1_000), self.stream(None));
        let clamped = windows
            .iter()
            .map(|&bytes| Sweep::one(format!("window {bytes}"), self.length(1_000), self.stream(Some(bytes))));
        [own].into_iter().chain(clamped).collect()
    }

    /// What a setting is judged by, and what may get worse: figure, jobs. The first is the one it is made for.
    pub(super) fn figures(&self) -> Vec<(&'static str, Vec<Job>)> {
        let mut figures = vec![("to the host", vec![self.stream(None)])];
        let with = |direction: &str| {
            let mut job = self.stream(None);
            let separator = if job.params.is_empty() { "" } else { ", " };
            job.params = format!("{}{separator}direction = \"{direction}\"", job.params);
            job
        };
        figures.push(("from the host", vec![with("rx")]));
        figures.push(("both ways", vec![with("both")]));
        figures.push(("request and response", vec![self.simple("tcp_rr", "")]));
        if let Some(other) = &self.other {
            let mut job = self.stream(None);
            job.from.clone_from(other);
            figures.push(("from another host", vec![job]));
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
        let figures =
            path.figures().into_iter().map(|(name, jobs)| Sweep { name: name.into(), milliseconds: 1_000, jobs });
        for sweeps in [path.look(), path.trains(&[1, 6], 20), path.windows(&[2920, 7300]), figures.collect()] {
            let text = path.text("tune", 2, &sweeps);
            let (plan, problems) = linerate_model::plan::parse(&text);
            assert_eq!(problems, [], "{text}");
            let plan = plan.expect("no problem");
            assert_eq!(plan.sweeps.len(), sweeps.len());
            for job in plan.sweeps.iter().flat_map(|sweep| &sweep.jobs) {
                let workload = linerate_load::workload(&job.workload).expect("known");
                assert_eq!(workload.check(&job.params), [], "{text}");
            }
        }
    }
}
