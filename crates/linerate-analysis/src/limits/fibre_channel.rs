//! Fibre Channel: the payload a link of each speed carries in each direction.
//!
//! Units: bit/s of payload; MB/s (decimal) in the derivation. Standards: FC-FS-4 (frame: SOF,
//! header, payload, CRC, EOF; idle words between frames), FC-PI-2 to FC-PI-7 (line rates and
//! codes).
//!
//! Not covered: buffer-to-buffer credits over distance, SCSI or NVMe command overhead, and optional
//! headers. From 16GFC on the delimiters travel inside the line code's blocks; the frame overhead
//! is assumed to be the same.

use linerate_model::derivation::{Expression, Line, Measure, Quantity, Remark};
use linerate_model::{BitRate, Bytes, Ceiling, Direction, ModelName, ParamError, Params, metric};

use super::options::{options, read, refusal};
use super::{Limit, defaults, required};

/// The largest payload of a frame, FC-FS-4 clause 9.
pub const LARGEST_PAYLOAD: Bytes = Bytes(2112);
/// Start delimiter (4), header (24), CRC (4), end delimiter (4) and six idle words (24), FC-FS-4
/// clauses 9 and 6.
pub const FRAME_OVERHEAD: Bytes = Bytes(60);

/// Line parameters of a speed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speed {
    /// The number in its name: 8 for 8GFC.
    pub name: u32,
    /// Bits per second on the line, error correction and line code included.
    pub line: BitRate,
    /// The line code, as the share of the line's bits that is data: numerator, denominator.
    pub code: (u32, u32),
    /// Defining standard.
    pub source: &'static str,
}

/// 8 data bits in 10.
const CODE_8B10B: (u32, u32) = (8, 10);
/// 64 data bits in 66. 32GFC sends 256B/257B blocks with Reed-Solomon parity in exactly the same
/// room.
const CODE_64B66B: (u32, u32) = (64, 66);

/// Every speed, slowest first.
pub static SPEEDS: &[Speed] = &[
    Speed { name: 1, line: BitRate(1.0625e9), code: CODE_8B10B, source: "FC-PI-2" },
    Speed { name: 2, line: BitRate(2.125e9), code: CODE_8B10B, source: "FC-PI-2" },
    Speed { name: 4, line: BitRate(4.25e9), code: CODE_8B10B, source: "FC-PI-2" },
    Speed { name: 8, line: BitRate(8.5e9), code: CODE_8B10B, source: "FC-PI-4" },
    Speed { name: 16, line: BitRate(14.025e9), code: CODE_64B66B, source: "FC-PI-5" },
    Speed { name: 32, line: BitRate(28.05e9), code: CODE_64B66B, source: "FC-PI-6" },
];

impl Speed {
    /// Returns the data bits per second after the line code, each way.
    pub(crate) fn data_rate(&self) -> BitRate {
        // The code is a fraction and not a decimal, so that no rounding enters the derivation.
        BitRate(self.line.0 * f64::from(self.code.0) / f64::from(self.code.1))
    }

    /// Returns the payload bits per second in frames of `payload` bytes, each way.
    pub fn bandwidth(&self, payload: Bytes) -> BitRate {
        BitRate(self.data_rate().0 * payload.bits() / (payload + FRAME_OVERHEAD).bits())
    }
}

/// Returns the speed called `name`, e.g. 8 for 8GFC.
///
/// # Examples
/// ```
/// use linerate_analysis::limits::fibre_channel::speed;
/// use linerate_model::Bytes;
///
/// let fc8 = speed(8).expect("8GFC exists");
/// // 8.5 Gbaud in 8b/10b code are 850 MB/s; full frames leave 826.5 MB/s of payload.
/// assert!((fc8.bandwidth(Bytes(2112)).0 / 8e6 - 826.5).abs() < 0.05);
/// ```
#[must_use]
pub fn speed(name: u32) -> Option<&'static Speed> {
    SPEEDS.iter().find(|speed| speed.name == name)
}

const FRAME_SOURCE: &str = "FC-FS-4 clauses 6 and 9 (frame)";

options! {
    speed: u32 = required("1, 2, 4, 8, 16 or 32, as in 8GFC");
    // Default: full frames, which give the highest bound.
    payload: Bytes = defaults("2112 B", "payload of a frame");
}

/// The calculator `fibre-channel`.
pub(super) const LIMIT: Limit = Limit {
    name: "fibre-channel",
    summary: "payload bandwidth of a Fibre Channel link, each way (FC-FS-4, FC-PI)",
    options: OPTIONS,
    ceilings,
};

fn ceilings(params: &Params) -> Result<Vec<Ceiling>, Vec<ParamError>> {
    /// Bits per second in a decimal megabyte per second.
    const MEGABYTE: f64 = 8e6;
    let Parameters { speed: name, payload } = read(params, OPTIONS)?;
    let mut errors = Vec::new();
    let found = speed(name);
    if found.is_none() {
        errors.push(refusal("speed", format!("{name}GFC is not known: 1, 2, 4, 8, 16 or 32")));
    }
    if payload.0 == 0 || payload > LARGEST_PAYLOAD {
        errors.push(refusal(
            "payload",
            format!("{payload} in one frame: 1 to {} B", LARGEST_PAYLOAD.0),
        ));
    }
    // Both errors are collected before the return, so the user corrects them at once.
    let Some(speed) = found.filter(|_| errors.is_empty()) else {
        return Err(errors);
    };
    let frame = payload + FRAME_OVERHEAD;
    let data = speed.data_rate();
    let value = speed.bandwidth(payload);
    let megabytes = |rate: BitRate| Measure::MegabytesPerSecond.figure(rate.0 / MEGABYTE);
    let raw = Line::of(
        Quantity::LineCode,
        Expression::from(speed.line) * speed.code.0 / speed.code.1,
        data,
    )
    .and(megabytes(data))
    .remark(Remark::EachWay);
    let parts = Expression::from(payload)
        + Quantity::StartDelimiter.is(Bytes(4))
        + Quantity::Header.is(Bytes(24))
        + Quantity::Crc.is(Bytes(4))
        + Quantity::EndDelimiter.is(Bytes(4))
        + Quantity::IdleWords.is(Bytes(24));
    let derivation = vec![
        raw.clone(),
        Line::of(Quantity::Frame, parts, frame),
        Line::equation(Expression::from(megabytes(data)) * payload.0 / frame.0, megabytes(value))
            .and(value)
            .remark(Remark::EachWay),
    ];
    let source = format!("{} (line rate), {FRAME_SOURCE}", speed.source);
    let name = |payload| ModelName::FibreChannel { speed: name, payload };
    let ceiling = |payload, value, lines| {
        Ceiling::new(name(payload), metric::BANDWIDTH, value, Direction::Tx, lines, source.as_str())
    };
    Ok(vec![ceiling(Some(payload), value.0, derivation), ceiling(None, data.0, vec![raw])])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::options::given;

    #[test]
    fn speeds_carry_their_known_megabytes() {
        // docs/methodology/ceilings.md#fibre-channel for 8GFC (850 and 826.5 MB/s); the others are
        // FC-PI's nominal data rates.
        for (name, megabytes) in
            [(1, 106.25), (2, 212.5), (4, 425.0), (8, 850.0), (16, 1700.0), (32, 3400.0)]
        {
            let rate = speed(name).expect("known").data_rate();
            assert!((rate.0 / 8e6 - megabytes).abs() < 1e-9, "{name}GFC: {rate}");
        }
        let eight = speed(8).expect("known").bandwidth(LARGEST_PAYLOAD);
        assert!((eight.0 / 8e6 - 826.5).abs() < 0.05, "{eight}");
    }

    #[test]
    fn the_calculator_derives_8gfc() {
        let mut params = given([("speed", "8")]);
        let ceilings = super::ceilings(&params).expect("good options");
        assert!((ceilings[0].value / 8e6 - 826.5).abs() < 0.05);
        assert_eq!(ceilings[1].value, 6.8e9);
        params.set("speed", 5);
        assert_eq!(super::ceilings(&params).expect_err("no 5GFC")[0].key, "speed");
    }
}
