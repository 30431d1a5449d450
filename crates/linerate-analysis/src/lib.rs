//! Analysis of measurements: statistics, limits, study and diagnosis.
//!
//! Pure functions from observations to conclusions: no I/O, no clock, nothing random that is not
//! seeded. Old ledgers are judged by the same rules as new ones.

#![forbid(unsafe_code)]

pub mod compare;
pub mod diagnosis;
pub mod fire_hose;
pub mod flow_hash;
pub mod limits;
pub mod live;
pub mod search;
pub mod statistics;
mod study;
pub mod tune;

pub use study::{
    Agreement, Attribution, BurstStudy, Cause, Compared, Comparison, CorrectedStudy,
    DirectionMatrix, DropCause, Given, GoalResult, GoalStudy, Headline, JobStudy, Joint, Kind,
    LatencyAtLoad, Limit, Look, LookedAt, Looks, LooksEnded, LossPlace, LossStudy, MatrixCell,
    MatrixVerdict, MemoryDirection, MetricStudy, Mix, MixedJob, Moved, Obtained, Overhead, PathEnd,
    PointStudy, PortStudy, RateLevel, Reached, Reading, Reason, SearchLatency, SearchRun,
    SearchStudy, SearchTrial, Settled, Stage, StageCeiling, StageKind, Stall, Stopped, Study,
    Surety, Tested, TransferCounts, TrialSettling, TrialStudy, Withheld, clock_course, headline,
    look, looked_at, reached, reasons, searched, study,
};
