//! Figures of directed pairs, and how far each is from the usual one.

use linerate_model::Metric;
use linerate_model::metric::{GOODPUT, RETRANSMIT_RATIO, RTT_MIN};

use crate::statistics::median;

/// Figure of a directed pair that a mesh compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Measure {
    /// TCP goodput, bit/s, layer 4.
    Goodput,
    /// Smallest round-trip time of the connection, s.
    RoundTrip,
    /// Payload bytes retransmitted over payload bytes sent.
    Retransmitted,
}

impl Measure {
    /// Every measure.
    pub const ALL: [Self; 3] = [Self::Goodput, Self::RoundTrip, Self::Retransmitted];

    /// Returns the metric.
    #[must_use]
    pub const fn metric(self) -> &'static Metric {
        match self {
            Self::Goodput => GOODPUT,
            Self::RoundTrip => RTT_MIN,
            Self::Retransmitted => RETRANSMIT_RATIO,
        }
    }

    /// Returns how far `value` is from the `usual` one: the logarithm of their ratio, negative if
    /// it is worse. Times and shares count from an offset on, below which no difference matters.
    pub(super) fn deviation(self, value: f64, usual: f64) -> f64 {
        /// s: a longer cable, another switch.
        const SHORT: f64 = 1e-4;
        /// Share of the payload.
        const RARE: f64 = 1e-3;
        match self {
            Self::Goodput => (value / usual).ln(),
            Self::RoundTrip => -((value + SHORT) / (usual + SHORT)).ln(),
            Self::Retransmitted => -((value + RARE) / (usual + RARE)).ln(),
        }
    }

    /// Returns whether `value` is worse than the `usual` one.
    #[must_use]
    pub fn is_worse(self, value: f64, usual: f64) -> bool {
        self.deviation(value, usual) < 0.0
    }

    /// Returns the smallest deviation that matters: 3 % of goodput; half as long again a round-trip
    /// time; twice the retransmissions.
    pub(super) fn relevant(self) -> f64 {
        match self {
            Self::Goodput => 0.03,
            Self::RoundTrip => 0.4,
            Self::Retransmitted => 0.7,
        }
    }

    /// Returns the smallest scatter that is assumed: a median of few runs may have none by chance.
    pub(super) fn least_scatter(self) -> f64 {
        match self {
            Self::Goodput => 0.005,
            Self::RoundTrip => 0.05,
            Self::Retransmitted => 0.1,
        }
    }
}

/// One figure of every directed pair of `n` hosts.
#[derive(Clone, Debug, PartialEq)]
pub struct Cells {
    n: usize,
    /// By sender, then by receiver.
    values: Vec<Option<f64>>,
}

impl Cells {
    /// Returns the cells of `n` hosts, without figures.
    #[must_use]
    pub fn new(n: usize) -> Self {
        Self { n, values: vec![None; n * n] }
    }

    /// Returns the number of hosts.
    #[must_use]
    pub fn n(&self) -> usize {
        self.n
    }

    /// Returns the figure from one host to another; `None` if there is none.
    ///
    /// # Panics
    /// If there is no such host.
    #[must_use]
    pub fn get(&self, from: usize, to: usize) -> Option<f64> {
        self.values[from * self.n + to]
    }

    /// Sets the figure from one host to another.
    ///
    /// # Panics
    /// If there is no such host.
    pub fn set(&mut self, from: usize, to: usize, value: f64) {
        self.values[from * self.n + to] = Some(value);
    }

    /// Returns every figure with its hosts.
    pub fn known(&self) -> impl Iterator<Item = (usize, usize, f64)> {
        let places = self.values.iter().enumerate();
        places.filter_map(|(place, value)| Some((place / self.n, place % self.n, (*value)?)))
    }

    /// Returns the median of all figures.
    #[must_use]
    pub fn usual(&self) -> Option<f64> {
        median(&self.known().map(|(.., value)| value).collect::<Vec<_>>())
    }
}
