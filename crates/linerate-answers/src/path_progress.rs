//! Progress of `linerate to`: the header, then each complete line.

use linerate_analysis::live::{LiveLine, LiveLines};
use linerate_analysis::planned_ceiling;
use linerate_campaign::testbeds::Ground;
use linerate_control::Progress;
use linerate_model::{CampaignHeader, Direction, HostRecord, TrialOutcome, TrialSpec};
use linerate_report::live::{LiveForm, LiveTable};
use serde_json::Value;

use crate::path;
use crate::path_lines::{PathAsked, header};

/// Lines of a measurement that runs.
pub struct PathProgress<'a> {
    ground: &'a Ground,
    asked: PathAsked<'a>,
    table: LiveTable,
    lines: LiveLines,
    hosts: Vec<HostRecord>,
    complete: Vec<LiveLine>,
}

/// Kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathEventKind {
    /// The header.
    Start,
    /// A line.
    Interval,
}

impl PathEventKind {
    /// Returns the name of the event in a stream of them.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Interval => "interval",
        }
    }
}

/// Something to print: an event, its data, and its text for a person.
#[derive(Clone, Debug, PartialEq)]
pub struct PathEvent {
    /// Its kind.
    pub kind: PathEventKind,
    /// Data of the event.
    pub data: Value,
    /// Text with its line breaks.
    pub text: String,
}

impl<'a> PathProgress<'a> {
    /// Returns the progress of a measurement on `ground` whose lines have the form `form`.
    #[must_use]
    pub fn new(
        ground: &'a Ground,
        asked: PathAsked<'a>,
        form: &LiveForm<'_>,
        lines: LiveLines,
    ) -> Self {
        let (table, hosts, complete) = (LiveTable::new(form), Vec::new(), Vec::new());
        Self { ground, asked, table, lines, hosts, complete }
    }

    /// Returns the lines that are complete so far.
    #[must_use]
    pub fn complete(&self) -> &[LiveLine] {
        &self.complete
    }

    /// Returns what is to be printed after `progress`; `None` if it is no part of the measurement.
    pub fn events(&mut self, progress: &Progress<'_>) -> Option<Vec<PathEvent>> {
        Some(match progress {
            Progress::HostJoined { record } => {
                self.hosts.push((*record).clone());
                Vec::new()
            }
            Progress::TrialStarted { trial, .. } => self.begin(trial),
            Progress::Intervals { side, intervals, .. } => {
                let lines = self.lines.take(*side, intervals);
                self.lines(lines)
            }
            Progress::TrialEnded { outcome, .. } => self.rest(*outcome),
            _ => return None,
        })
    }

    /// Returns the lines that a trial with this outcome leaves.
    pub fn rest(&mut self, outcome: TrialOutcome) -> Vec<PathEvent> {
        let lines = self.lines.rest(outcome);
        self.lines(lines)
    }

    /// Returns the header, once all hosts have joined.
    fn begin(&mut self, trial: &TrialSpec) -> Vec<PathEvent> {
        let (capacities, testbed) = (self.ground.capacities.clone(), self.ground.kind);
        let campaign = CampaignHeader { capacities, testbed, ..CampaignHeader::default() };
        let direction = if self.asked.is_reverse { Direction::Rx } else { Direction::Tx };
        let ceiling = planned_ceiling(&campaign, &self.hosts, trial, direction);
        let ceiling = ceiling.map(|ceiling| ceiling.value);
        self.table.set_ceiling(ceiling);
        let [from, to, ..] = &self.ground.testbed.endpoints[..] else { return Vec::new() };
        vec![PathEvent {
            kind: PathEventKind::Start,
            data: path::start([from, to], trial, ceiling),
            text: header([from, to], &self.hosts, &self.asked).text(),
        }]
    }

    fn lines(&mut self, lines: Vec<LiveLine>) -> Vec<PathEvent> {
        let events = lines.iter().map(|line| PathEvent {
            kind: PathEventKind::Interval,
            data: path::line(line),
            text: self.table.line(line),
        });
        let events = events.collect();
        self.complete.extend(lines);
        events
    }
}
