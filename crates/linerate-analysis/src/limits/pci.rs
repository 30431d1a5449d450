//! Conventional PCI: throughput of a parallel bus, all slots and both directions together.
//!
//! Units: bit/s of payload, data phases in clocks. Standard: PCI Local Bus Specification 3.0, 3.3
//! (transactions), 3.5 (latency), 3.9 (dual address cycle), 3.8 (64-bit bus).
//!
//! Not covered: arbitration and retries, bridges, and the latency of the host's memory beyond the
//! given clocks. Half duplex: the bound holds for the sum of all traffic on the bus. PCI-X has
//! other rules and is not here.

use linerate_model::derivation::{Expression, Line, Measure, Quantity, Remark, Statement};
use linerate_model::{
    BitRate, BoundClass, BusAccess, Bytes, Ceiling, Direction, ModelName, ParamError, Params,
    metric,
};
use serde::Deserialize;

use super::options::{BITS, checked, options, read, refusal};
use super::{Limit, defaults, required};

/// Width of the data path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// 32 bits.
    Bits32,
    /// 64 bits.
    Bits64,
}

/// Clock of the bus; both are thirds of a megahertz, and named without them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Clock {
    /// 33 1/3 MHz.
    #[serde(rename = "33 MHz")]
    Mhz33,
    /// 66 2/3 MHz.
    #[serde(rename = "66 MHz")]
    Mhz66,
}

impl Width {
    /// Returns the bytes moved in one data phase.
    pub const fn bytes(self) -> Bytes {
        match self {
            Self::Bits32 => Bytes(4),
            Self::Bits64 => Bytes(8),
        }
    }
}

impl Clock {
    /// Returns the clocks per second.
    #[must_use]
    pub(crate) const fn hertz(self) -> f64 {
        match self {
            Self::Mhz33 => 100e6 / 3.0,
            Self::Mhz66 => 200e6 / 3.0,
        }
    }
}

/// Clocks of a write that move no data: address, turnaround, and the target's answer to being
/// selected.
pub(crate) const WRITE_OVERHEAD_CLOCKS: u64 = 3;
/// Clocks more that a 64-bit address takes (dual address cycle).
pub(crate) const DUAL_ADDRESS_CLOCKS: u64 = 1;

/// Returns a data phase every clock: what the bus never exceeds.
///
/// # Examples
/// ```
/// use linerate_analysis::limits::pci::{Clock, Width, peak};
///
/// // 8 bytes at 66.7 MHz: 533 MB/s.
/// assert!((peak(Width::Bits64, Clock::Mhz66).0 / 8e6 - 533.3).abs() < 0.05);
/// ```
pub fn peak(width: Width, clock: Clock) -> BitRate {
    BitRate(width.bytes().bits() * clock.hertz())
}

/// Returns the throughput of the bus in bursts of `burst` bytes, each after `overhead` clocks
/// without data.
pub fn bandwidth(width: Width, clock: Clock, burst: Bytes, overhead: u64) -> BitRate {
    let phases = data_phases(width, burst);
    // Overhead clocks pass before each burst, so longer bursts share them among more data.
    BitRate(burst.bits() * clock.hertz() / (phases + overhead) as f64)
}

/// Returns the data phases a burst takes; a part of the width takes a whole one.
fn data_phases(width: Width, burst: Bytes) -> u64 {
    // A part of the width still occupies a whole data phase: byte enables mask the rest.
    burst.0.div_ceil(width.bytes().0)
}

/// The largest burst used in a calculation; longer ones end at the latency timer.
const LARGEST_BURST: Bytes = Bytes(4096);
/// PCI 3.0 3.5.1.1: a target answers its first data phase within 16 clocks, a host bridge within
/// 32.
const LONGEST_LATENCY: u64 = 32;

options! {
    width: u32 = required("data path in bits: 32 or 64");
    clock: Clock = required("\"33 MHz\" or \"66 MHz\" (33 1/3 and 66 2/3)");
    // A burst of a few cache lines, as network cards of the time asked for.
    burst: Bytes = defaults("256 B", "bytes moved in one transaction");
    // The least a host's memory takes to answer a read: the upper end of what is common is 16.
    latency: u64 = defaults("8", "clocks the target takes to answer a read");
    // Single address cycles are shorter: the higher bound.
    address: u32 = defaults("32", "address bits: 64 takes a dual address cycle");
}

/// The calculator `pci`.
pub(super) const LIMIT: Limit = Limit {
    name: "pci",
    summary: "payload bandwidth of a conventional PCI bus, all devices and directions added (PCI \
        3.0)",
    options: OPTIONS,
    ceilings,
};

fn ceilings(params: &Params) -> Result<Vec<Ceiling>, Vec<ParamError>> {
    let Parameters { width, clock, burst, latency, address } = read(params, OPTIONS)?;
    let mut errors = Vec::new();
    if ![32, 64].contains(&width) {
        errors.push(refusal("width", format!("{width} bits: conventional PCI has 32 or 64")));
    }
    if ![32, 64].contains(&address) {
        errors.push(refusal("address", format!("{address} bits: addresses have 32 or 64")));
    }
    if burst.0 == 0 || burst > LARGEST_BURST {
        errors.push(refusal("burst", format!("{burst}: expected 1 B to {LARGEST_BURST}")));
    }
    if latency > LONGEST_LATENCY {
        errors.push(refusal(
            "latency",
            format!("{latency} clocks: a target answers within {LONGEST_LATENCY}"),
        ));
    }
    checked(errors)?;
    let width = if width == 64 { Width::Bits64 } else { Width::Bits32 };
    // A 64-bit address is sent in two halves over the address lines, whatever the width of the
    // bus.
    let dual = if address == 64 { DUAL_ADDRESS_CLOCKS } else { 0 };
    let write = WRITE_OVERHEAD_CLOCKS + dual;
    let ceilings = [
        peak_ceiling(width, clock),
        burst_ceiling(BusAccess::Writes, width, clock, burst, write),
        // A write is posted; only a read waits for the memory of the host.
        burst_ceiling(BusAccess::Reads, width, clock, burst, write + latency),
    ];
    Ok(ceilings.map(|ceiling| ceiling.of(BoundClass::Bus)).to_vec())
}

const SOURCE: &str = "PCI Local Bus Specification 3.0, 3.3, 3.5 and 3.9";

fn bus_name(width: Width, clock: Clock, bursts: Option<(BusAccess, Bytes)>) -> ModelName {
    let megahertz = if clock == Clock::Mhz33 { 33 } else { 66 };
    ModelName::Pci { bits: width.bytes().0 * 8, megahertz, bursts }
}

fn peak_line(width: Width, clock: Clock) -> Line {
    let peak = peak(width, clock);
    let clocks = Measure::ClocksPerSecond.of(clock.hertz());
    let megabytes = Measure::MegabytesPerSecond.figure(peak.0 / 8e6);
    Line::of(Quantity::Peak, Expression::from(width.bytes()) * clocks, megabytes).and(peak)
}

fn peak_ceiling(width: Width, clock: Clock) -> Ceiling {
    let name = bus_name(width, clock, None);
    let derivation = vec![peak_line(width, clock), Statement::HalfDuplex.into()];
    Ceiling::new(name, metric::BANDWIDTH, peak(width, clock).0, Direction::Sum, derivation, SOURCE)
}

fn burst_ceiling(
    access: BusAccess,
    width: Width,
    clock: Clock,
    burst: Bytes,
    overhead: u64,
) -> Ceiling {
    let phases = data_phases(width, burst);
    let value = bandwidth(width, clock, burst, overhead);
    let bytes = || Expression::from(burst);
    let clocks = Measure::Clocks.of((phases + overhead) as f64);
    let together = Expression::from(phases) + overhead;
    let derivation = vec![
        peak_line(width, clock),
        Line::equation(bytes() / width.bytes(), Measure::DataPhases.figure(phases as f64)),
        Line::of(
            Quantity::ShareOfPeak,
            bytes() / (Expression::from(width.bytes()) * together),
            value.0 / peak(width, clock).0,
        ),
        Line::equation(bytes() * BITS * Measure::ClocksPerSecond.of(clock.hertz()) / clocks, value)
            .remark(Remark::AllDevices),
    ];
    let name = bus_name(width, clock, Some((access, burst)));
    Ceiling::new(name, metric::BANDWIDTH, value.0, Direction::Sum, derivation, SOURCE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::options::given;

    #[test]
    fn peaks_are_those_of_the_four_kinds_of_slot() {
        // docs/methodology/ceilings.md#conventional-pci, MB/s; 64-bit peaks are 2.133 and 4.267
        // Gbit/s in paper S2's arithmetic.
        let golden = [
            (Width::Bits32, Clock::Mhz33, 133.3),
            (Width::Bits32, Clock::Mhz66, 266.7),
            (Width::Bits64, Clock::Mhz33, 266.7),
            (Width::Bits64, Clock::Mhz66, 533.3),
        ];
        for (width, clock, megabytes) in golden {
            assert!((peak(width, clock).0 / 8e6 - megabytes).abs() < 0.05, "{width:?} {clock:?}");
        }
        assert!((peak(Width::Bits64, Clock::Mhz33).0 / 1e9 - 2.133).abs() < 5e-4);
        assert!((peak(Width::Bits64, Clock::Mhz66).0 / 1e9 - 4.267).abs() < 5e-4);
    }

    #[test]
    fn short_bursts_waste_the_known_share_of_the_bus() {
        // docs/methodology/ceilings.md#conventional-pci, 64 bit at 33 MHz: overhead 3 for writes,
        // 11 for reads.
        let golden = [
            (64, 3, 0.727),
            (256, 3, 0.914),
            (1024, 3, 0.977),
            (64, 11, 0.421),
            (256, 11, 0.744),
            (1024, 11, 0.921),
        ];
        for (burst, overhead, efficiency) in golden {
            let value = bandwidth(Width::Bits64, Clock::Mhz33, Bytes(burst), overhead);
            let share = value.0 / peak(Width::Bits64, Clock::Mhz33).0;
            assert!((share - efficiency).abs() < 5e-4, "{burst} {overhead}: {share}");
        }
    }

    #[test]
    fn the_calculator_prints_peak_writes_and_reads() {
        let mut params = given([("width", "64"), ("clock", "33 MHz"), ("burst", "64 B")]);
        let ceilings = super::ceilings(&params).expect("good options");
        let shares: Vec<f64> =
            ceilings.iter().map(|c| (c.value / ceilings[0].value * 1e3).round()).collect();
        assert_eq!(shares, [1000.0, 727.0, 421.0]);
        assert!(ceilings.iter().all(|ceiling| ceiling.direction == Direction::Sum));
        params.set("address", 64);
        let dual = super::ceilings(&params).expect("good options");
        assert!((dual[1].value / dual[0].value - 8.0 / 12.0).abs() < 1e-12);
    }

    #[test]
    fn what_is_not_conventional_pci_is_refused() {
        let mut params = given([("width", "16"), ("clock", "133 MHz")]);
        let errors = super::ceilings(&params).expect_err("PCI-X");
        assert_eq!(errors[0].key, "clock");
        params.set("clock", "66 MHz");
        assert_eq!(super::ceilings(&params).expect_err("16 bits")[0].key, "width");
    }
}
