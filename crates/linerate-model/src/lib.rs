//! The data types of linerate: units, metrics, plans, trials, events and facts.
//!
//! All data that travels between crates, processes and files has one of these types. They are plain
//! data: no I/O, no clock, no thread. A number never leaves this crate without its unit; a bit rate
//! also has a layer and a direction.
//!
//! # Examples
//! ```
//! use linerate_model::{BitRate, Layer, metric};
//!
//! let rate: BitRate = "9.41 Gbit/s".parse().expect("a rate with its unit");
//! assert_eq!(rate.0, 9.41e9);
//! // Goodput counts payload: layer 4.
//! assert_eq!(metric::GOODPUT.layer, Some(Layer::L4));
//! ```
//!
//! This crate does *not* measure, judge or print. See `linerate-load`, `linerate-analysis` and
//! `linerate-report`.

#![forbid(unsafe_code)]

mod arm;
mod campaign;
mod capacity;
mod ceiling;
mod clock;
mod command;
mod cpu_list;
pub mod derivation;
mod distribution;
mod event;
pub mod failure;
mod fold;
mod ledger;
pub mod metric;
mod model_name;
mod observed;
mod operation;
mod params;
pub mod path;
mod plain_text;
pub mod plan;
mod printable;
mod probe;
mod problem;
mod rare;
mod sample;
mod search;
mod secret;
pub mod series;
mod tally;
mod tcp;
mod testbed;
mod trial;
mod units;
mod validity;
mod verdict;

pub use arm::{
    ARM_AXIS, Arm, Failing, HOST_SETTINGS, HostSetting, Hypothesis, OFFERED_AXIS, Role, SATURATION,
};
pub use campaign::{Campaign, CampaignHeader, HostRecord, JobRecord, TestbedKind, TrialRecord};
pub use capacity::Capacity;
pub use ceiling::{
    BoundClass, BoundPart, Ceiling, CeilingKind, CeilingScope, CeilingSubject, Estimate, PartDetail,
};
pub use clock::{ClockExchange, FrameClocks, HostClock, PeerClock, ToldClock, TrialClocks};
pub use command::{Command, CommandPath};
pub use cpu_list::cpu_list;
pub use distribution::{Carried, Distribution, Stages, Variation, added};
pub use event::{Event, Recorder, RecorderError};
pub use fold::CampaignFold;
pub use ledger::LossLedger;
pub use metric::{
    Direction, Layer, METRICS, Metric, MetricGroup, MetricRange, Shown, Source, Statistic, Times,
    Unit, Use,
};
pub use model_name::{BusAccess, ModelName, PcieLoad, SpreadFigure};
pub use observed::{ObservedPort, ObserverKind};
pub use operation::{CarriedApart, OperationKind};
pub use params::{ParamError, Params};
pub use plain_text::control_characters;
pub use printable::{Lines, is_obeyed, printable, printable_json};
pub use probe::{EcnCounts, ProbeEnd, ProbeKind, ProbePhase, ProbeRecord, ProbeSeries};
pub use problem::{Problem, nearest};
pub use rare::{Emptiable, Rare};
pub use sample::{SampleBlock, SampleColumn, SeriesKind};
pub use search::{Goal, LoadUnit, Method, Purpose, Search, Searched, Step};
pub use secret::{ServerAddress, masked, redact, redacted};
pub use series::{SamplerName, Series, SeriesSpec, WrittenSeries};
pub use tally::{
    Counter, CounterChanges, Counters, FlowReport, FlowTcp, ForeignEnd, Gap, Interval, LastGap,
    SocketValue, StepGap,
};
pub use tcp::{TcpState, counter_growth};
pub use testbed::{
    AGENT_PORT, Endpoint, HostAddress, IPERF3_SCHEME, IPERF3_WORKLOAD, SERVER_PARAMETER, Testbed,
    is_server,
};
pub use trial::{
    Arrival, Background, Incident, IncidentKind, JobSpec, Load, Phases, Point, Side, TrialId,
    TrialOutcome, TrialSpec, Until, Warmup,
};
pub use units::{BitRate, Bytes, Nanos, PacketRate, QuantityError, Ratio};
pub use validity::Validity;
pub use verdict::Verdict;
