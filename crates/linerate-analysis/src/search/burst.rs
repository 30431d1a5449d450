//! Back-to-back frames (RFC 9004): from the longest bursts without loss to the time a buffer holds.
//!
//! Frames and frames per second. Valid only where the throughput is below the rate of the bursts:
//! otherwise nothing fills the buffer.

use serde::{Deserialize, Serialize};

/// The longest bursts of several searches, and the buffer they imply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BackToBack {
    /// Longest burst without loss of each search, frames.
    pub bursts: Vec<f64>,
    /// Their mean.
    pub mean: f64,
    /// Shortest.
    pub min: f64,
    /// Longest.
    pub max: f64,
    /// Sample standard deviation; `None` of a single burst.
    pub standard_deviation: Option<f64>,
    /// Frames per second within a burst.
    #[serde(default)]
    pub rate: f64,
    /// Mean over the burst's rate, seconds.
    pub implied_s: f64,
    /// The same less the frames the device forwarded meanwhile, seconds.
    pub corrected_s: f64,
}

/// Returns the buffer implied by `bursts` (frames) sent at `burst_rate` through a device with this
/// `throughput`, both in frames/s. `None` without bursts, or if the throughput reaches the burst's
/// rate.
#[must_use]
pub fn back_to_back(bursts: &[f64], burst_rate: f64, throughput: f64) -> Option<BackToBack> {
    // At that rate the buffer never fills, and the correction below would be zero or negative.
    if bursts.is_empty() || throughput >= burst_rate {
        return None;
    }
    let mean = crate::statistics::mean(bursts)?;
    Some(BackToBack {
        bursts: bursts.to_vec(),
        mean,
        min: bursts.iter().copied().fold(f64::INFINITY, f64::min),
        max: bursts.iter().copied().fold(0.0, f64::max),
        standard_deviation: crate::statistics::standard_deviation(bursts),
        rate: burst_rate,
        implied_s: mean / burst_rate,
        // The mean burst is used: the RFC averages bursts before it corrects them.
        corrected_s: corrected_buffer_time(mean, burst_rate, throughput),
    })
}

/// Returns the buffer's time in seconds (RFC 9004 6.4): a burst of `frames` at `burst_rate`, less
/// what left it at `throughput`.
#[must_use]
pub(crate) fn corrected_buffer_time(frames: f64, burst_rate: f64, throughput: f64) -> f64 {
    frames / burst_rate * (1.0 - throughput / burst_rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// docs/methodology/searches.md#bursts: a queue of 1000 frames, served at 1 Mpps, filled at 1
    /// Gbit/s of 64 B frames.
    #[test]
    fn an_ideal_queue_is_found_again_exactly() {
        let (queue, service, rate) = (1000.0_f64, 1e6, 1_488_095.238);
        let burst = queue / (1.0 - service / rate);
        assert!((burst - 3048.8).abs() < 0.05, "{burst}");
        let found = back_to_back(&[burst], rate, service).expect("the queue fills");
        assert!((found.implied_s * 1e3 - 2.049).abs() < 5e-4, "{found:?}");
        assert!((found.corrected_s * 1e3 - 0.672).abs() < 5e-4, "{found:?}");
        assert!((found.corrected_s - queue / rate).abs() < 1e-12, "{found:?}");
        assert_eq!(found.standard_deviation, None);
    }

    #[test]
    fn a_device_as_fast_as_the_burst_has_no_answer() {
        assert_eq!(back_to_back(&[1e6], 1e6, 1e6), None);
        assert_eq!(back_to_back(&[], 1e6, 1e5), None);
    }

    /// The averages of RFC 9004's own example, whose standard deviation no few repetitions can
    /// have.
    #[test]
    fn several_bursts_are_averaged_with_their_spread() {
        let found = back_to_back(&[25_500.0, 26_000.0, 26_500.0], 2e6, 1e6).expect("three bursts");
        assert_eq!((found.mean, found.min, found.max), (26_000.0, 25_500.0, 26_500.0));
        assert_eq!(found.standard_deviation, Some(500.0));
    }
}
