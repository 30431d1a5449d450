//! TCP window and loss: the rate a window allows per round trip, and the reduction by loss.
//!
//! Units: bit/s of payload, bytes. Layer: L4. Standards: RFC 9293 3.8 (window), RFC 6349 3.3
//! (bandwidth-delay product), Mathis et al. 1997 (square-root law), Padhye et al. 1998 (timeouts as
//! well; also in RFC 5348 3.1).
//!
//! Not covered: the two loss models describe Reno-like congestion control under random loss; for
//! CUBIC and BBR they are *not applicable*. The round-trip time is assumed to be constant.
//! `SO_RCVBUF` is not the window: measure `tcpi_snd_wnd` at the sender.

use linerate_model::derivation::{Expression, Line, Measure, Quantity, Statement};
use linerate_model::{
    BitRate, BoundClass, Bytes, Ceiling, Direction, ModelName, Nanos, ParamError, Params, Ratio,
    metric,
};
use serde::Deserialize;

use super::options::{BITS, checked, options, positive, read, refusal};
use super::{Limit, defaults, optional, required};

/// Segments one acknowledgement covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acknowledgement {
    /// Every segment is acknowledged (b = 1).
    Every,
    /// Every second one is: delayed acknowledgements, RFC 9293 3.8.6.3 (b = 2).
    Second,
}

impl Acknowledgement {
    /// `b` of the formulas.
    #[must_use]
    pub const fn segments(self) -> f64 {
        match self {
            Self::Every => 1.0,
            Self::Second => 2.0,
        }
    }
}

/// Returns the rate of a window of `window` bytes per `rtt`; `None` if the round trip takes no
/// time.
///
/// # Examples
/// ```
/// use linerate_analysis::limits::window::window_rate;
/// use linerate_model::{Bytes, Nanos};
///
/// // 64 KiB every 100 ms: 65,536 * 8 / 0.1.
/// let rate = window_rate(Bytes(65_536), Nanos::from_millis(100)).expect("time passes");
/// assert!((rate.0 - 5_242_880.0).abs() < 1e-3);
/// ```
#[must_use]
pub fn window_rate(window: Bytes, rtt: Nanos) -> Option<BitRate> {
    BitRate::over(window, rtt)
}

/// Returns the bytes that fill a path of `rate` for one `rtt`, rounded to a whole byte.
pub(crate) fn bandwidth_delay_product(rate: BitRate, rtt: Nanos) -> Bytes {
    const BITS_PER_BYTE: f64 = 8.0;
    Bytes((rate.0 * rtt.as_secs_f64() / BITS_PER_BYTE).round() as u64)
}

/// Returns the square-root law: `(mss / rtt) * sqrt(3 / (2 b)) / sqrt(loss)`.
///
/// `None` without loss or without delay, where the law does not apply.
#[must_use]
pub(crate) fn mathis(
    mss: Bytes,
    rtt: Nanos,
    loss: Ratio,
    acknowledgement: Acknowledgement,
) -> Option<BitRate> {
    let constant = (3.0 / (2.0 * acknowledgement.segments())).sqrt();
    (rtt.0 > 0 && loss.0 > 0.0)
        // Both laws divide by loss and by round-trip time.
        .then(|| BitRate(mss.bits() / rtt.as_secs_f64() * constant / loss.0.sqrt()))
}

/// Returns the law with timeouts, Padhye et al. equation 30 without its window term: `mss / (rtt
/// sqrt(2 b p / 3) + rto min(1, 3 sqrt(3 b p / 8)) p (1 + 32 p^2))`.
///
/// `None` without loss or without delay, where the law does not apply.
#[must_use]
pub(crate) fn pftk(
    mss: Bytes,
    rtt: Nanos,
    rto: Nanos,
    loss: Ratio,
    acknowledgement: Acknowledgement,
) -> Option<BitRate> {
    if rtt.0 == 0 || loss.0 <= 0.0 {
        return None;
    }
    let terms = PftkTerms::of(rtt, rto, loss, acknowledgement);
    Some(BitRate(mss.bits() / (terms.recovery + terms.timeout)))
}

/// The two terms below the fraction line, in seconds.
struct PftkTerms {
    recovery: f64,
    timeout: f64,
}

impl PftkTerms {
    fn of(rtt: Nanos, rto: Nanos, loss: Ratio, acknowledgement: Acknowledgement) -> Self {
        let (p, b) = (loss.0, acknowledgement.segments());
        // At high loss the series of the paper exceeds one, which a probability cannot.
        let timeout_chance = (3.0 * (3.0 * b * p / 8.0).sqrt()).min(1.0);
        Self {
            recovery: rtt.as_secs_f64() * (2.0 * b * p / 3.0).sqrt(),
            timeout: rto.as_secs_f64() * timeout_chance * p * (1.0 + 32.0 * p * p),
        }
    }
}

/// A loss ratio as people write it: `0.01` or `"1 %"`.
#[derive(Clone, Copy, Deserialize)]
#[serde(untagged, expecting = "a loss ratio such as 0.01 or \"1 %\"")]
enum Loss {
    Number(f64),
    Text(Ratio),
}

impl Loss {
    const fn ratio(self) -> Ratio {
        match self {
            Self::Number(value) => Ratio(value),
            Self::Text(ratio) => ratio,
        }
    }
}

const MATHIS_SOURCE: &str = "Mathis et al., CCR 27(3) 1997, equation 3";
const PADHYE_SOURCE: &str = "Padhye et al., SIGCOMM 1998, equation 30; RFC 5348 3.1";

options! {
    window: Bytes = required("smallest of the windows and buffers, such as \"64 KiB\"");
    rtt: Nanos = required("round-trip time, such as \"5 ms\"");
    rate: Option<BitRate> = optional("rate of the bottleneck, for the window that fills it");
    loss: Option<Loss> = optional("segments lost, such as 0.01 or \"1 %\"");
    // A full segment of IPv4 without options on an MTU of 1500.
    mss: Bytes = defaults("1460 B", "payload of a full segment");
    // The smallest of Linux (TCP_RTO_MIN, include/net/tcp.h).
    rto: Nanos = defaults("200 ms", "retransmission timeout");
}

/// The calculator `window`.
pub(super) const LIMIT: Limit = Limit {
    name: "window",
    summary: "TCP goodput from window and round trip, and under loss (RFC 6349, Mathis 1997, \
        Padhye 1998)",
    options: OPTIONS,
    ceilings,
};

fn ceilings(params: &Params) -> Result<Vec<Ceiling>, Vec<ParamError>> {
    let parameters: Parameters = read(params, OPTIONS)?;
    checked(problems(&parameters))?;
    let Parameters { window, rtt, rate, loss, mss, rto } = parameters;
    let by_window = window_rate(window, rtt).expect("a round trip of zero was refused above");
    let mut ceilings = vec![window_ceiling(window, rtt, by_window)];
    if let Some(rate) = rate {
        ceilings.push(product_ceiling(window, rtt, rate));
    }
    if let Some(loss) = loss.map(Loss::ratio) {
        // Whether the receiver delays acknowledgements is rarely known, so both bounds are
        // shown.
        for acknowledgement in [Acknowledgement::Every, Acknowledgement::Second] {
            ceilings.extend(mathis_ceiling(mss, rtt, loss, acknowledgement));
        }
        ceilings.extend(pftk_ceiling(mss, rtt, rto, loss, by_window));
    }
    Ok(ceilings.into_iter().map(|ceiling| ceiling.of(BoundClass::Window)).collect())
}

fn problems(parameters: &Parameters) -> Vec<ParamError> {
    let mut errors = Vec::new();
    if parameters.rtt.0 == 0 {
        errors.push(refusal("rtt", "a round trip takes time: expected more than 0 s"));
    }
    if parameters.window.0 == 0 {
        errors.push(refusal("window", "a window of zero bytes carries nothing"));
    }
    errors.extend(positive("rate", parameters.rate));
    if parameters.loss.is_some_and(|loss| !(loss.ratio().0 > 0.0 && loss.ratio().0 < 1.0)) {
        errors
            .push(refusal("loss", "expected a ratio above 0 and below 1, such as 0.01 or \"1 %\""));
    }
    if parameters.mss.0 == 0 {
        errors.push(refusal("mss", "a segment of zero bytes carries nothing"));
    }
    errors
}

/// Returns a segment at most every round trip.
fn window_ceiling(window: Bytes, rtt: Nanos, by_window: BitRate) -> Ceiling {
    let derivation = vec![Line::of(
        Quantity::WindowPerRoundTrip,
        Expression::from(window) * BITS / rtt,
        by_window,
    )];
    let name = ModelName::Window { window, rtt };
    Ceiling::new(
        name,
        metric::GOODPUT,
        by_window.0,
        Direction::Tx,
        derivation,
        "RFC 9293 3.8; RFC 6349 3.3.1",
    )
}

/// Returns the line of a derivation with a bandwidth-delay product.
pub(super) fn product_line(rate: BitRate, rtt: Nanos, product: Bytes) -> Line {
    Line::of(Quantity::BandwidthDelayProduct, Expression::from(rate) * rtt / BITS, product)
}

fn product_ceiling(window: Bytes, rtt: Nanos, rate: BitRate) -> Ceiling {
    let product = bandwidth_delay_product(rate, rtt);
    let derivation = vec![
        product_line(rate, rtt, product),
        Statement::WindowFills { window, fills: window >= product }.into(),
    ];
    let name = ModelName::InFlight { rate, rtt };
    Ceiling::new(
        name,
        metric::IN_FLIGHT,
        product.0 as f64,
        Direction::Tx,
        derivation,
        "RFC 6349 3.3.1",
    )
}

fn mathis_ceiling(
    mss: Bytes,
    rtt: Nanos,
    loss: Ratio,
    acknowledgement: Acknowledgement,
) -> Option<Ceiling> {
    let rate = mathis(mss, rtt, loss, acknowledgement)?;
    let b = acknowledgement.segments();
    let constant = (3.0 / (2.0 * b)).sqrt();
    let root = loss.0.sqrt();
    let derivation = vec![
        Statement::RenoOnly.into(),
        Line::of(
            Quantity::MathisConstant,
            (Expression::from(3.0) / (Expression::from(2.0) * b)).root(),
            constant,
        ),
        Line::of(Quantity::LossRoot, Expression::from(loss.0).root(), root),
        Line::equation(Expression::from(mss) * BITS / rtt * constant / root, rate),
    ];
    let name = ModelName::Mathis { loss, segments: b };
    Some(Ceiling::new(name, metric::GOODPUT, rate.0, Direction::Tx, derivation, MATHIS_SOURCE))
}

fn pftk_ceiling(
    mss: Bytes,
    rtt: Nanos,
    rto: Nanos,
    loss: Ratio,
    by_window: BitRate,
) -> Option<Ceiling> {
    // The published curves assume delayed acknowledgements.
    let acknowledgement = Acknowledgement::Second;
    let uncapped = pftk(mss, rtt, rto, loss, acknowledgement)?;
    let terms = PftkTerms::of(rtt, rto, loss, acknowledgement);
    let p = || Expression::from(loss.0);
    let number = |value: f64| Expression::from(value);
    let seconds = |value: f64| Measure::Seconds.figure(value);
    let chance = number(3.0) * (number(3.0) * 2.0 * p() / BITS).root();
    let rate = BitRate(uncapped.0.min(by_window.0));
    let derivation = vec![
        Statement::RenoOnly.into(),
        Line::of(
            Quantity::Recovery,
            Expression::from(rtt) * (number(2.0) * 2.0 * p() / 3.0).root(),
            seconds(terms.recovery),
        ),
        Line::of(
            Quantity::Timeouts,
            Expression::from(rto)
                * number(1.0).smaller(chance)
                * p()
                * (number(1.0) + number(32.0) * p().power(2.0)),
            seconds(terms.timeout),
        ),
        Line::equation(
            Expression::from(mss) * BITS
                / (Expression::from(seconds(terms.recovery)) + seconds(terms.timeout)),
            uncapped,
        ),
        Line::equation(Expression::from(uncapped).smaller(Quantity::Window.is(by_window)), rate),
    ];
    let name = ModelName::Pftk { loss, timeout: rto };
    Some(Ceiling::new(
        name,
        metric::GOODPUT,
        // The model leaves out the window term of the paper, so the window is applied afterwards.
        rate.0,
        Direction::Tx,
        derivation,
        PADHYE_SOURCE,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::options::given;

    const TEN_MS: Nanos = Nanos::from_millis(10);
    const MSS: Bytes = Bytes(1460);
    const RTO: Nanos = Nanos::from_millis(200);

    #[test]
    fn windows_and_products_are_those_of_rfc_6349() {
        // RFC 6349 3.3.1, where 16 KB means 16 000 bytes.
        assert_eq!(window_rate(Bytes(16_000), Nanos::from_millis(5)), Some(BitRate(25.6e6)));
        assert_eq!(window_rate(Bytes(16_000), TEN_MS), Some(BitRate(12.8e6)));
        let golden = [
            (1.536e6, 20_000_000, 3_840),
            (44.21e6, 10_000_000, 55_263),
            (44.21e6, 15_000_000, 82_894),
            (44.21e6, 25_000_000, 138_156),
            (100e6, 1_000_000, 12_500),
            (100e6, 5_000_000, 62_500),
            (1e9, 100_000, 12_500),
            (1e9, 1_000_000, 125_000),
            (10e9, 50_000, 62_500),
            (10e9, 300_000, 375_000),
        ];
        for (rate, rtt, bytes) in golden {
            assert_eq!(
                bandwidth_delay_product(BitRate(rate), Nanos(rtt)),
                Bytes(bytes),
                "{rate} {rtt}"
            );
        }
    }

    #[test]
    fn loss_leaves_what_mathis_and_padhye_say() {
        // docs/methodology/ceilings.md#windows-and-loss: 1460 B, 10 ms, timeout 200 ms; Mathis b =
        // 1, b = 2, PFTK b = 2, in Mbit/s.
        let golden = [
            (1e-4, 143.05, 101.15, 100.70),
            (1e-2, 14.305, 10.115, 6.969),
            (5e-2, 6.397, 4.524, 1.319),
        ];
        for (loss, every, second, padhye) in golden {
            let loss = Ratio(loss);
            let megabits = |rate: Option<BitRate>| rate.expect("there is loss").0 / 1e6;
            let near = |value: f64, expected: f64| (value / expected - 1.0).abs() < 1e-4;
            assert!(
                near(megabits(mathis(MSS, TEN_MS, loss, Acknowledgement::Every)), every),
                "{loss}"
            );
            assert!(
                near(megabits(mathis(MSS, TEN_MS, loss, Acknowledgement::Second)), second),
                "{loss}"
            );
            let value = megabits(pftk(MSS, TEN_MS, RTO, loss, Acknowledgement::Second));
            assert!((value - padhye).abs() < 0.006, "{loss}: {value}");
        }
        assert_eq!(mathis(MSS, TEN_MS, Ratio(0.0), Acknowledgement::Every), None);
    }

    #[test]
    fn the_calculator_shows_every_model_it_was_given_figures_for() {
        let mut params = given([("window", "64 KiB"), ("rtt", "5 ms")]);
        let alone = super::ceilings(&params).expect("good options");
        assert_eq!((alone.len(), alone[0].value), (1, 104_857_600.0));
        params.set("rate", "1 Gbit/s");
        params.set("loss", 0.01);
        let all = super::ceilings(&params).expect("good options");
        assert_eq!(all.len(), 5);
        assert_eq!(all[1].value, 625_000.0);
        let smaller = Statement::WindowFills { window: Bytes(65_536), fills: false };
        assert_eq!(all[1].derivation[1], smaller.into());
        params.set("loss", "1 %");
        assert_eq!(super::ceilings(&params).expect("good options"), all);
    }

    #[test]
    fn the_window_caps_padhyes_rate() {
        let mut params = Params::default();
        params.set("window", "1460 B");
        params.set("rtt", "10 ms");
        params.set("loss", 0.0001);
        let ceilings = super::ceilings(&params).expect("good options");
        assert_eq!(ceilings.last().map(|c| c.value), Some(1_168_000.0));
    }

    #[test]
    fn zero_times_and_certain_loss_are_refused() {
        let mut params = Params::default();
        params.set("window", "64 KiB");
        params.set("rtt", "0 s");
        params.set("loss", 1.0);
        let keys: Vec<String> =
            super::ceilings(&params).expect_err("bad").into_iter().map(|e| e.key).collect();
        assert_eq!(keys, ["rtt", "loss"]);
    }
}
