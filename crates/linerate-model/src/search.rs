//! Searches: points chosen by a controller until the bounds of a goal meet (RFC 2544, RFC 9004,
//! MLRsearch).
//!
//! A [`Search`] says what is searched and how; every trial of it carries it, so that a ledger can
//! be judged without its plan. Loads are plain numbers in the search's own [`LoadUnit`], of each
//! direction.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{BitRate, Endpoint, Nanos, PacketRate};

/// Unit of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoadUnit {
    /// L4 payload bits per second.
    Bits,
    /// Frames (datagrams) per second.
    Frames,
}

impl LoadUnit {
    /// `load` for a person.
    #[must_use]
    pub fn told(self, load: f64) -> String {
        match self {
            Self::Bits => BitRate(load).to_string(),
            Self::Frames => PacketRate(load).to_string(),
        }
    }

    /// `load` as a parameter takes it, to the last bit.
    #[must_use]
    pub fn written(self, load: f64) -> String {
        match self {
            // The shortest text that reads back as the same number: a rounded load would be another
            // load.
            Self::Bits => format!("{load} bit/s"),
            Self::Frames => format!("{load} packet/s"),
        }
    }
}

/// When a load is low enough, and how surely that must be known (RFC 9971, search goal).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Goal {
    /// Name, such as `NDR`.
    pub name: String,
    /// Most lost frames of a trial that is *low-loss*, share of those expected.
    pub loss_ratio: f64,
    /// Most of the time measured at a load that may be high-loss.
    pub exceed_ratio: f64,
    /// Widest relative distance of the bounds, of the upper one.
    pub width: f64,
    /// Shortest trial.
    pub initial_trial: Nanos,
    /// Length of a trial that counts in full.
    pub final_trial: Nanos,
    /// Time measured at a load that decides about it.
    pub duration_sum: Nanos,
}

impl Goal {
    /// Returns the goal of RFC 2544: no loss in a trial of `final_trial`. It is found to `width`,
    /// and narrowed by trials of one second.
    #[must_use]
    pub fn strict(name: impl Into<String>, width: f64, final_trial: Nanos) -> Self {
        Self {
            name: name.into(),
            loss_ratio: 0.0,
            exceed_ratio: 0.0,
            width,
            initial_trial: Nanos::from_secs(1),
            final_trial,
            duration_sum: final_trial,
        }
    }
}

/// How the next load is chosen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Method {
    /// RFC 2544 26.1: the highest load without loss, halving; verified by a final trial. `repeats`
    /// trials at a lossy load may follow, of which one without loss acquits it (ETSI GS NFV-TST 009
    /// 12.3.3, loss verification).
    Halving {
        /// Length of the search's trials is `initial_trial`, of the final one `final_trial`.
        goal: Goal,
        /// Trials at a load that lost something, the first excluded.
        repeats: u32,
    },
    /// MLRsearch (RFC 9971): all goals at once.
    Mlr {
        /// Goals of the search.
        goals: Vec<Goal>,
    },
    /// RFC 2544 26.3: the loss ratio from the highest load down, and a finer grid around the first
    /// loss.
    LossCurve {
        /// Length of a trial.
        trial: Nanos,
        /// Step, share of the highest load.
        step: f64,
        /// Step of the finer grid.
        fine_step: f64,
    },
    /// RFC 9004: the longest burst at the highest load without loss, after the throughput.
    BackToBack {
        /// Finds the throughput first.
        goal: Goal,
        /// Searches for the longest burst.
        repeats: u32,
        /// Longest burst tried.
        longest: Nanos,
    },
    /// RFC 2544 26.5: how long losses go on after the load fell from 110 % to 50 % of the
    /// throughput.
    Recovery {
        /// Finds the throughput first.
        goal: Goal,
        /// Length of the overload.
        overload: Nanos,
        /// Length of the low load after it.
        after: Nanos,
        /// Overloads.
        repeats: u32,
    },
    /// RFC 2544 26.2 and RFC 8219 7.2: latency at the throughput, and at shares of it.
    Latency {
        /// Finds the throughput first.
        goal: Goal,
        /// Length of a trial.
        trial: Nanos,
        /// Shares of the throughput, in the order measured.
        shares: Vec<f64>,
        /// Trials at each.
        repeats: u32,
    },
    /// RFC 2285 3.6.2: forwarding rate at maximum offered load.
    Frmol {
        /// Length of a trial.
        trial: Nanos,
    },
    /// Y.1564 clause 8: the committed rate, which is the search's highest load, in steps, then for
    /// longer.
    Steps {
        /// Length of a step.
        trial: Nanos,
        /// Shares of the committed rate.
        steps: Vec<f64>,
        /// Most lost frames.
        loss_ratio: f64,
        /// Length of the trial at the committed rate after the steps.
        performance: Nanos,
    },
}

/// A search over the load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Search {
    /// The parameter that is the load.
    pub parameter: String,
    /// Unit of the load.
    pub unit: LoadUnit,
    /// Lowest load.
    pub min: f64,
    /// Highest load: what was asked for, the path's ceiling, or what the tester could do.
    pub max: f64,
    /// Where `max` comes from.
    pub max_source: String,
    /// How.
    pub method: Method,
    /// Length of the trial at the highest load before the search, whose figures are not used; zero:
    /// none.
    pub warmup: Nanos,
    /// Length of the trial with the device replaced by a wire, or, where there is none, of the
    /// tester by itself; zero: none.
    pub self_test: Nanos,
    /// Endpoints, active and passive, that a wire joins in place of the device, for the self-test;
    /// where there are none the tester's loopback stands for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wire: Option<Box<(Endpoint, Endpoint)>>,
    /// Most trials.
    pub max_trials: u32,
    /// Most time in trials.
    pub max_duration: Nanos,
}

impl Search {
    /// Returns a search over the frame rates from `min` to `max` without warm-up and self-test, for
    /// an hour at most.
    #[must_use]
    pub fn of_rates([min, max]: [f64; 2], max_source: &str, method: Method) -> Self {
        Self {
            parameter: "rate".into(),
            unit: LoadUnit::Frames,
            min,
            max,
            max_source: max_source.into(),
            method,
            warmup: Nanos(0),
            self_test: Nanos(0),
            wire: None,
            max_trials: 300,
            max_duration: Nanos::from_secs(3_600),
        }
    }

    /// The goals a ledger of this search is judged by.
    #[must_use]
    pub fn goals(&self) -> Vec<&Goal> {
        match &self.method {
            Method::Halving { goal, .. }
            | Method::BackToBack { goal, .. }
            | Method::Recovery { goal, .. }
            | Method::Latency { goal, .. } => vec![goal],
            Method::Mlr { goals } => goals.iter().collect(),
            // These methods measure curves or steps, for which no goal decides.
            Method::LossCurve { .. } | Method::Frmol { .. } | Method::Steps { .. } => Vec::new(),
        }
    }
}

/// Purpose of a trial of a search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// The rate that the tester reaches without the device.
    SelfTest,
    /// A first trial that warms up the path; its figures are not used.
    WarmUp,
    /// To narrow the bounds.
    #[default]
    Load,
    /// A burst at the highest load.
    Burst,
    /// An overload, and what follows it.
    Overload,
    /// To time frames.
    Latency,
}

impl fmt::Display for Purpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SelfTest => "self-test",
            Self::WarmUp => "warm-up",
            Self::Load => "trial",
            Self::Burst => "burst",
            Self::Overload => "overload",
            Self::Latency => "latency",
        })
    }
}

/// One step of a search: all that a controller may choose (RFC 9971: a trial has a load and a
/// duration, and nothing else).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Purpose.
    pub purpose: Purpose,
    /// Load of each direction, in the search's unit.
    pub load: f64,
    /// Length.
    pub duration: Nanos,
    /// Load and length of what follows without a pause, for an overload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub then: Option<(f64, Nanos)>,
}

/// Membership of a trial in a search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Searched {
    /// The search.
    pub search: Search,
    /// Which step of it; `None` for the search as planned, of which no trial has been chosen.
    pub step: Option<Step>,
    /// The how-manieth trial of the search, from 0.
    pub number: u32,
}
