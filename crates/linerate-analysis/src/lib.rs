//! Statistics, upper limits from theory, judgement of campaigns, and diagnosis of bottlenecks.
//!
//! Pure functions from observations to conclusions: no I/O, no clock, and no randomness without a
//! seed. Last year's ledger is judged by the same rules as today's.
//!
//! # Examples
//! How close is a measured goodput of TCP to what the link allows?
//! ```
//! use linerate_analysis::limits::{ethernet, headers, tcp};
//! use linerate_analysis::statistics::estimate;
//! use linerate_model::{BitRate, Bytes};
//!
//! let headers = headers::tcp(headers::IpVersion::V4, headers::Timestamps::On);
//! let limit = tcp::goodput(BitRate(10e9), Bytes(1500), ethernet::packet_overhead(0), headers);
//! // 1448 payload bytes in every 1538 bytes on the wire: 9.4148 Gbit/s.
//! assert!((limit.0 / 1e9 - 9.4148).abs() < 1e-4);
//!
//! let measured = estimate(&[9.41e9, 9.38e9, 9.40e9, 9.44e9, 9.39e9, 9.42e9]).expect("six runs");
//! assert!(measured.value / limit.0 > 0.99);
//! ```
//!
//! This crate does *not* measure (`linerate-load`, `linerate-observe`) or print
//! (`linerate-report`).

#![forbid(unsafe_code)]

pub mod compare;
mod course;
pub mod diagnosis;
pub mod fire_hose;
pub mod flow_hash;
pub mod limits;
pub mod live;
pub mod mesh;
pub mod path;
pub mod search;
pub mod statistics;
mod study;
pub mod tune;

pub use course::{FigurePlace, PlacedFigure, figures};
pub use study::{
    Agreement, Attribution, BurstStudy, Cause, Compared, ComparedFigure, Comparison,
    CorrectedStudy, CpuUse, DirectionMatrix, DropCause, Given, GoalResult, GoalStudy, Headline,
    Imbalance, IntervalSeries, JobStudy, Joint, Kind, LatencyAtLoad, Limit, Look, LookedAt, Looks,
    LooksEnded, LossPlace, LossStudy, MatrixCell, MatrixVerdict, MemoryDirection, MetricStudy, Mix,
    MixEvidence, MixedJob, Moved, NoRate, Obtained, Overhead, PathEnd, PointStudy, PortNote,
    PortStudy, RateLevel, Rateless, Reached, Reading, ReadingKind, Reason, ReceivedByCpu, Refusal,
    SearchLatency, SearchRun, SearchStudy, SearchTrial, Settled, Stage, StageCeiling, StageKind,
    Stall, Steady, SteadyOf, Stopped, Study, Surety, Tested, TransferCounts, TrialSettling,
    TrialStudy, Unbounded, Withheld, clock_course, conclude, headline, headlined, interface_speed,
    is_read_again, judge_point, look, looked_at, planned_ceiling, points, reached, reasons,
    searched, study, thresholds,
};
