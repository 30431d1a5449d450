//! The thread that asks an observer, only while a trial runs, so that it disturbs nothing else. Its
//! CPU time is recorded with what it read.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use linerate_model::series::observer;
use linerate_model::{Nanos, ObservedPort, SampleBlock, SampleColumn, SeriesSpec};
use linerate_sys::clock::{self, monotonic};
use linerate_sys::netns;

use super::port::{N_COUNTERS, Progress};
use super::{Counting, ObserverSource, ObserverSpec, open};
use crate::Unavailable;

/// How long an observer may take to open: names of interfaces are looked up in large tables.
const OPENING: Duration = Duration::from_secs(30);
/// How long it may take to come to an end, its last requests included. An agent of the conductor's
/// that hears nothing for longer believes that it is gone.
const ENDING: Duration = Duration::from_secs(7);
/// How long an agent is given to read its counters again after a trial, at most: its last answers
/// must come within [`ENDING`].
const LONGEST_KEPT: Duration = Duration::from_millis(4_500);
/// How much longer is waited than it kept a value before: it reads anew when it is asked, and we
/// ask now and then only.
const SLACK: Duration = Duration::from_millis(200);
/// Asking more often measures the observer, ns.
const SHORTEST_PERIOD_NS: u64 = 20_000_000;

/// Readings of a trial.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// The readings; a poll without an answer is a gap.
    pub block: SampleBlock,
    /// Events of the environment in words: counters that restarted.
    pub disturbances: Vec<String>,
}

/// An observer that was reached, asked from now on whenever a trial runs.
#[derive(Debug)]
pub struct Observer {
    port: ObservedPort,
    /// `None` only while it is dropped.
    orders: Option<Sender<Order>>,
    thread: Option<JoinHandle<()>>,
}

enum Order {
    Begin,
    End(Sender<Readings>),
}

impl Observer {
    /// Reaches the observer and finds the port.
    ///
    /// # Errors
    /// If it does not answer, does not let us in, or has no such port.
    pub fn open(spec: &ObserverSpec) -> Result<Self, Unavailable> {
        let (orders, ordered) = channel();
        let (opened, answer) = channel();
        let own = spec.clone();
        // The thread stays in the namespace: a socket belongs to the one it was made in.
        let run = move || watch_within(own, opened, ordered);
        let thread = std::thread::Builder::new().name("lr-observer".to_owned()).spawn(run);
        let thread = thread.map_err(|cause| {
            Unavailable(format!("start the thread of observer {}: {cause}", spec.name))
        })?;
        let silent =
            |_| Unavailable(format!("reach observer {}: no answer within {OPENING:?}", spec.name));
        let port = answer.recv_timeout(OPENING).map_err(silent)??;
        Ok(Self { port, orders: Some(orders), thread: Some(thread) })
    }

    /// The port it counts.
    #[must_use]
    pub fn port(&self) -> &ObservedPort {
        &self.port
    }

    /// A trial begins: it is asked at once, and then once a period. Does not wait for the answer.
    pub fn begin(&self) {
        // The end of the trial reports a thread that is gone.
        let _gone = self.orders.as_ref().map(|orders| orders.send(Order::Begin));
    }

    /// The trial ended: it is asked once more, over SNMP for as long as the agent answers with what
    /// it read before the end. Does not wait.
    #[must_use]
    pub fn end(&self) -> Ending<'_> {
        let (reply, readings) = channel();
        let _gone = self.orders.as_ref().map(|orders| orders.send(Order::End(reply)));
        Ending { port: &self.port, readings, deadline: Instant::now() + ENDING }
    }
}

/// Watches the port in the observer's namespace, or in that of this process.
fn watch_within(
    spec: ObserverSpec,
    opened: Sender<Result<ObservedPort, Unavailable>>,
    ordered: Receiver<Order>,
) {
    match spec.namespace.clone() {
        None => watch(&spec, &opened, &ordered),
        Some(name) => {
            // The socket must be made, and made anew, in there.
            let answer = opened.clone();
            if let Err(error) = netns::within(&name, move || watch(&spec, &opened, &ordered)) {
                let _gone = answer.send(Err(Unavailable(error.to_string())));
            }
        }
    }
}

/// An observer on its way to its last words on a trial.
#[derive(Debug)]
pub struct Ending<'a> {
    port: &'a ObservedPort,
    readings: Receiver<Readings>,
    deadline: Instant,
}

impl Ending<'_> {
    /// Waits for them. Times are counted from `origin` on this host's monotonic clock.
    #[must_use]
    pub fn observed(self, origin: Nanos) -> Observed {
        let left = self.deadline.saturating_duration_since(Instant::now());
        match self.readings.recv_timeout(left) {
            Ok(readings) => readings.into_observed(self.port, origin),
            Err(_) => {
                let observer = &self.port.observer;
                let why = format!(
                    "ask observer {observer} at the end of the trial: no answer within {ENDING:?}"
                );
                let unavailable = vec![(observer::SAMPLER.text().to_owned(), why)];
                Observed {
                    block: SampleBlock { unavailable, ..SampleBlock::default() },
                    disturbances: Vec::new(),
                }
            }
        }
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
    }
}

/// Readings since a trial began.
#[derive(Debug, Default)]
struct Readings {
    times: Vec<u64>,
    rows: Vec<[Option<u64>; N_COUNTERS]>,
    resets: Vec<u64>,
    progress: Progress,
    /// The last reason for a gap, and how many there were.
    gaps: (usize, Option<Unavailable>),
    /// The thread's CPU time when the trial began; what it took since then once the readings are
    /// handed over.
    cpu: u64,
}

impl Readings {
    fn begin() -> Self {
        Self { cpu: clock::thread_cpu(), ..Self::default() }
    }

    /// Asks once; returns whether there was an answer.
    fn poll(&mut self, source: &mut dyn Counting) -> bool {
        // Counters are as of some time between question and answer.
        // Half of the round trip is the best guess for the moment of reading.
        let asked = monotonic();
        let answer = source.read();
        let answered = monotonic();
        let is_told = answer.is_ok();
        let row = match answer {
            Ok(counts) => {
                let (row, resets) = self.progress.advance(&counts);
                self.resets.push(resets);
                row
            }
            Err(why) => {
                self.gaps = (self.gaps.0 + 1, Some(why));
                // The number of restarts so far stays known through a gap.
                self.resets.push(self.resets.last().copied().unwrap_or(0));
                [None; N_COUNTERS]
            }
        };
        self.times.push(asked + (answered - asked) / 2);
        self.rows.push(row);
        is_told
    }

    /// The longest time from one change of the counters to the next one while they moved: for so
    /// long at most the agent answers with what it has read. Nothing if they did not change twice.
    fn kept(&self) -> Option<Duration> {
        let octets = |row: &[Option<u64>; N_COUNTERS]| row.iter().flatten().sum::<u64>();
        let told =
            self.times.iter().zip(&self.rows).filter(|(_, row)| row.iter().any(Option::is_some));
        let told: Vec<(u64, u64)> = told.map(|(at, row)| (*at, octets(row))).collect();
        let changes: Vec<u64> =
            // Only changes count: many agents repeat a value that they have read seconds ago.
            told.windows(2).filter(|pair| pair[0].1 != pair[1].1).map(|pair| pair[1].0).collect();
        changes.windows(2).map(|pair| Duration::from_nanos(pair[1] - pair[0])).max()
    }

    fn into_observed(self, port: &ObservedPort, origin: Nanos) -> Observed {
        let column = |index: usize| {
            self.rows.iter().map(|row| row[index].map(|value| value as f64)).collect()
        };
        let mut columns: Vec<SampleColumn> = (0..N_COUNTERS).map(column).collect();
        columns.push(self.resets.iter().map(|resets| Some(*resets as f64)).collect());
        let (n_gaps, why) = self.gaps;
        let (n_polls, observer) = (self.times.len(), &port.observer);
        let text =
            |why| format!("{n_gaps} of {n_polls} polls of observer {observer} failed: {why}");
        let failed = |why: Unavailable| (observer::SAMPLER.text().to_owned(), text(why));
        let mut disturbances = Vec::new();
        if self.resets.last().is_some_and(|resets| *resets > 0) {
            disturbances.push(format!(
                "observer {}: the counters of {} began anew during the trial (it was restarted or \
                    reset): they say nothing of it",
                port.observer, port.port
            ));
        }
        let block = SampleBlock {
            series: series(&port.port).into(),
            times: self.times.iter().map(|&at| Nanos(at.saturating_sub(origin.0))).collect(),
            columns,
            unavailable: why.map(failed).into_iter().collect(),
            cost_ns: self.cpu,
        };
        Observed { block, disturbances }
    }
}

fn series(port: &str) -> Vec<SeriesSpec> {
    observer::ALL.iter().map(|column| column.of(port)).collect()
}

/// Asks until what the agent answers was read after the trial's end, as far as its ways are known
/// from the trial.
fn settle(readings: &mut Readings, source: &mut dyn Counting, period: Duration) {
    let kept = readings.kept().unwrap_or_default().min(LONGEST_KEPT);
    let until = Instant::now() + (kept + SLACK).max(period);
    loop {
        // The last poll is at the very end of the time, so that it sees what the agent reads late.
        let left = until.saturating_duration_since(Instant::now());
        std::thread::sleep(left.min(period));
        let is_last = left <= period;
        if !readings.poll(source) || is_last {
            return;
        }
    }
}

/// The thread's life: opens the source, says so, and serves until nobody orders any more.
fn watch(
    spec: &ObserverSpec,
    opened: &Sender<Result<ObservedPort, Unavailable>>,
    ordered: &Receiver<Order>,
) {
    let (mut source, port) = match open(spec) {
        Ok(found) => found,
        Err(why) => {
            let _gone = opened.send(Err(why));
            return;
        }
    };
    if opened.send(Ok(port)).is_err() {
        return;
    }
    let period = Duration::from_nanos(spec.period.0.max(SHORTEST_PERIOD_NS));
    let mut running: Option<Readings> = None;
    loop {
        // Without a trial the thread sleeps and asks nothing.
        let order = if running.is_some() {
            ordered.recv_timeout(period)
        } else {
            ordered.recv().map_err(|_| RecvTimeoutError::Disconnected)
        };
        match order {
            Ok(Order::Begin) => {
                let mut readings = Readings::begin();
                readings.poll(&mut *source);
                running = Some(readings);
            }
            Ok(Order::End(reply)) => {
                let mut readings = running.take().unwrap_or_else(Readings::begin);
                // The kernel's counters are current; only an agent answers with what it has read
                // before.
                if readings.poll(&mut *source) && matches!(spec.source, ObserverSource::Snmp(_)) {
                    settle(&mut readings, &mut *source, period);
                }
                readings.cpu = clock::thread_cpu().saturating_sub(readings.cpu);
                let _gone = reply.send(readings);
            }
            Err(RecvTimeoutError::Timeout) => {
                if let Some(readings) = &mut running {
                    readings.poll(&mut *source);
                }
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Readings once a second of a counter that an agent reads every `cache` seconds.
    fn cached(n: u64, cache: u64) -> Readings {
        let mut readings = Readings::default();
        for second in 0..n {
            readings.times.push(second * 1_000_000_000);
            let mut row = [None; N_COUNTERS];
            row[0] = Some(second / cache * 1_000);
            readings.rows.push(row);
        }
        readings
    }

    #[test]
    fn an_agent_keeps_its_values_for_as_long_as_they_stood_still_under_load() {
        assert_eq!(cached(12, 1).kept(), Some(Duration::from_secs(1)));
        assert_eq!(cached(12, 2).kept(), Some(Duration::from_secs(2)));
        assert_eq!(cached(12, 4).kept(), Some(Duration::from_secs(4)));
        assert_eq!(cached(3, 2).kept(), None, "one change says nothing");
        let mut gap = cached(12, 1);
        gap.rows[5] = [None; N_COUNTERS];
        assert_eq!(gap.kept(), Some(Duration::from_secs(2)), "what was not answered is no change");
    }
}
