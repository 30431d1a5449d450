//! The thread that runs the samplers.
//!
//! It wakes on absolute ticks of the monotonic clock, so that readings do not drift, and skips
//! ticks it could not keep. A row of readings is one flat stretch of preallocated storage; storage
//! grows after a reading, never within one. The thread's own CPU time, opening included, is part of
//! what it returns.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use linerate_model::{Nanos, SampleBlock, SeriesSpec};
use linerate_sys::clock::{self, monotonic};

use crate::{Probe, SAMPLERS, Scope};

/// Rows allocated at a time.
const ROWS_PER_CHUNK: usize = 1024;

/// Every sampler, running on a thread of its own from now until it is stopped.
#[derive(Debug)]
pub struct Sampling {
    /// `None` if the thread could not be started; its reason is then in `failure`.
    thread: Option<(Sender<()>, JoinHandle<Readings>)>,
    failure: Option<String>,
}

impl Sampling {
    /// Opens every sampler within `scope`, in the caller's network namespace, and reads every
    /// `period` from now on (at least every millisecond). Returns after the first reading, so that
    /// a trial started next has one before it.
    #[must_use]
    pub fn start(scope: &Scope, period: Nanos) -> Self {
        let (stop, stopped) = channel();
        let (ready, first_reading) = channel();
        let scope = scope.clone();
        // A thread is born in its creator's namespaces, so it must be spawned by the caller.
        let run = move || run(&scope, period, &stopped, &ready);
        match std::thread::Builder::new().name("lr-sampling".to_owned()).spawn(run) {
            Ok(thread) => {
                // An error here means the thread is gone; `stop` reports that.
                let _ = first_reading.recv();
                Self { thread: Some((stop, thread)), failure: None }
            }
            Err(cause) => {
                Self { thread: None, failure: Some(format!("start the sampling thread: {cause}")) }
            }
        }
    }

    /// Takes one last reading, stops, and returns everything read, with times counted from `origin`
    /// on this host's monotonic clock.
    #[must_use]
    pub fn stop(mut self, origin: Nanos) -> SampleBlock {
        fn failed(why: String) -> SampleBlock {
            SampleBlock {
                unavailable: SAMPLERS
                    .iter()
                    .map(|sampler| (sampler.name.to_owned(), why.clone()))
                    .collect(),
                ..SampleBlock::default()
            }
        }
        match self.thread.take() {
            None => failed(self.failure.take().unwrap_or_default()),
            Some((stop, thread)) => {
                let _ = stop.send(());
                match thread.join() {
                    Ok(readings) => readings.into_block(origin),
                    Err(_) => failed("the sampling thread panicked".to_owned()),
                }
            }
        }
    }
}

impl Drop for Sampling {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.thread.take() {
            let _ = stop.send(());
            let _ = thread.join();
        }
    }
}

/// Everything read so far, row by row.
#[derive(Default)]
struct Readings {
    series: Vec<SeriesSpec>,
    times: Vec<u64>,
    values: Vec<Option<f64>>,
    unavailable: Vec<(String, String)>,
    cost_ns: u64,
}

impl Readings {
    fn reserve(&mut self) {
        if self.times.len() == self.times.capacity() {
            self.times.reserve(ROWS_PER_CHUNK);
            self.values.reserve(ROWS_PER_CHUNK * self.series.len());
        }
    }

    fn take(&mut self, probes: &mut [(Box<dyn Probe>, usize)]) {
        self.times.push(monotonic());
        let start = self.values.len();
        self.values.resize(start + self.series.len(), None);
        let mut row = &mut self.values[start..];
        for (probe, n_columns) in probes {
            let (own, rest) = row.split_at_mut(*n_columns);
            probe.read(own);
            row = rest;
        }
        // Room for the next row is made after this reading, so that allocation is never inside one.
        self.reserve();
    }

    fn into_block(self, origin: Nanos) -> SampleBlock {
        let n_series = self.series.len();
        let column = |s: usize| self.values.iter().skip(s).step_by(n_series).copied().collect();
        SampleBlock {
            columns: (0..n_series).map(column).collect(),
            times: self.times.iter().map(|&at| Nanos(at.saturating_sub(origin.0))).collect(),
            series: self.series.into(),
            unavailable: self.unavailable,
            cost_ns: self.cost_ns,
        }
    }
}

fn run(scope: &Scope, period: Nanos, stopped: &Receiver<()>, ready: &Sender<()>) -> Readings {
    /// Reading faster than this measures the samplers, not the host.
    const SHORTEST_PERIOD_NS: u64 = 1_000_000;
    let period_ns = period.0.max(SHORTEST_PERIOD_NS);
    let mut readings = Readings::default();
    let mut probes = Vec::with_capacity(SAMPLERS.len());
    for sampler in SAMPLERS {
        match (sampler.open)(scope) {
            Ok(probe) => {
                let series = probe.series();
                probes.push((probe, series.len()));
                readings.series.extend(series);
            }
            Err(why) => readings.unavailable.push((sampler.name.to_owned(), why.0)),
        }
    }
    // The first chunk is allocated before the clock starts.
    readings.reserve();
    let start = monotonic();
    readings.take(&mut probes);
    let _ = ready.send(());
    let mut tick = 1;
    loop {
        let now = monotonic();
        // Ticks that were missed are skipped. Catching up would read the same counters twice in a
        // row.
        tick = tick.max((now - start) / period_ns + 1);
        let wait = Duration::from_nanos((start + tick * period_ns).saturating_sub(now));
        match stopped.recv_timeout(wait) {
            Err(RecvTimeoutError::Timeout) => readings.take(&mut probes),
            Ok(()) | Err(RecvTimeoutError::Disconnected) => break,
        }
        tick += 1;
    }
    // A last row at the end, so that the last period of the trial is complete.
    readings.take(&mut probes);
    readings.cost_ns = clock::thread_cpu();
    readings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_reading_before_and_after_and_every_column_is_full_length() {
        let before = monotonic();
        let sampling = Sampling::start(&Scope::default(), Nanos(3_600_000_000_000));
        let after_start = monotonic();
        let block = sampling.stop(Nanos(before));
        assert_eq!(block.times.len(), 2, "one when started, one when stopped");
        assert!(block.times[0].0 <= after_start - before && block.times[0] < block.times[1]);
        assert_eq!(block.columns.len(), block.series.len());
        assert!(block.columns.iter().all(|column| column.len() == 2));
        assert!(block.cost_ns > 0);
        let opened = |name| block.series.iter().any(|series| series.sampler() == name);
        let refused = |name| {
            block.unavailable.iter().any(|(sampler, why)| sampler == name && !why.is_empty())
        };
        for sampler in SAMPLERS {
            assert!(
                opened(sampler.name) != refused(sampler.name),
                "{} is neither or both",
                sampler.name
            );
        }
    }

    #[test]
    fn counters_never_decrease() {
        let sampling = Sampling::start(&Scope::default(), Nanos(5_000_000));
        let started = monotonic();
        linerate_sys::clock::sleep_until(started + 60_000_000, 0);
        let block = sampling.stop(Nanos(started));
        // A busy machine may take no reading between the first and the last.
        assert!(block.times.len() >= 2, "{:?}", block.times);
        for (series, column) in block.series.iter().zip(&block.columns) {
            // The kernel says so itself of iowait: proc_stat(5).
            if series.kind() == linerate_model::SeriesKind::Counter
                && !linerate_model::series::cpu::IOWAIT.is(series)
            {
                let values: Vec<f64> = column.iter().flatten().collect();
                assert!(values.is_sorted(), "{series:?} {values:?}");
            }
        }
    }
}
