//! Statistics: order-statistic intervals, warm-up detection, change points, fairness, quantum
//! detection (docs/methodology/repeats.md).
//!
//! Pure functions over slices of `f64`; the caller knows the unit. The unit of replication is the
//! run: samples inside a run share its conditions and are never used as if they were independent.
//! Latency is read from a `linerate_model::Distribution`; its percentiles are that type's own.

mod change_points;
mod clock;
mod compare;
mod correlation;
mod latency;
mod mean;
#[cfg(test)]
pub(crate) mod oracle;
mod order;
mod percentile;
mod quantum;
mod rounding;
mod sequential;
mod settling;
mod spread;
mod trend;
mod warmup;

pub use change_points::levels;
pub use clock::{Course, Offset, course, exchange};
pub(crate) use compare::{
    ALPHA, log_ratio_shift, paired_shift, paired_shift_within, unpaired_shift_within,
};
pub use compare::{Shift, unpaired_shift};
pub use correlation::drifts;
pub(crate) use latency::filled_in;
pub use latency::{Corrected, InterPacket, Latency, inter_packet, latency};
pub use mean::{MeanInterval, mean_interval};
pub use order::{estimate, median, quantile};
pub use percentile::{Basis, Percentile, percentile};
pub(crate) use quantum::quantum_of_counts;
pub use quantum::{Quantum, quantum_among};
pub use rounding::measured_rate;
pub use rounding::{half_up, mean_half_up};
pub use sequential::Share;
pub(crate) use sequential::{estimate_at, half_width_at, part_of_error};
pub use settling::{Class, Level, Settling, settling};
pub(crate) use spread::standard_deviation;
pub use spread::{coefficient_of_variation, jain, mean};
pub use trend::{Trend, trend};
pub use warmup::Truncation;
pub(crate) use warmup::{mser, mser5};

#[cfg(test)]
pub(crate) mod intel {
    //! The 32 series of Intel's NC-SI paper (2013), as fixtures: published values of 1-second
    //! goodput, Mbit/s.

    use std::collections::BTreeMap;

    #[derive(serde::Deserialize)]
    pub(crate) struct Series {
        pub(crate) printed: f64,
        pub(crate) values: Vec<f64>,
    }

    pub(crate) fn all() -> BTreeMap<String, Series> {
        serde_json::from_str(include_str!("../../../linerate-papers/data/intel-ncsi-series.json"))
            .expect("the fixture is JSON")
    }

    pub(crate) fn values(name: &str) -> Vec<f64> {
        all().remove(name).expect(name).values
    }
}
