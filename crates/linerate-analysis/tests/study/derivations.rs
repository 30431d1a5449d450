//! Derivations of the ceilings of a point.

use linerate_analysis::study;
use linerate_model::Direction::{Rx, Tx};
use linerate_model::derivation::{Expression, Line, Measure, Quantity, Statement};
use linerate_model::{Bytes, Ceiling, Counter, TrialRecord, metric};

use crate::fixture::{gigabit, job, near, only, steady, stream, trial, two_hosts};
use Counter::{PayloadReceived, PayloadSent};

#[test]
fn acknowledgements_of_the_other_direction_are_named_and_not_subtracted() {
    let ceilings = |trial: TrialRecord| {
        let mut campaign = two_hosts(vec![trial]);
        campaign.header.capacities = vec![gigabit(&[("a", "b"), ("b", "a")])];
        let study = study(&campaign);
        let of = |direction| {
            let metric = only(&study).jobs[0].metric(metric::GOODPUT, direction)?;
            Some(only(&study).ceilings[metric.ceiling?].clone())
        };
        [of(Tx), of(Rx)]
    };
    let mut both = trial(0, vec![job("tcp_stream", "a", "b")]);
    let counts = || steady(&[(PayloadSent, 1_000_000), (PayloadReceived, 1_000_000)]);
    both.jobs[0] = (counts(), counts());
    let left_out = |ceiling: &Ceiling| {
        let mut lines = ceiling.derivation.iter();
        lines.find_map(|line| match line {
            Line::Statement(Statement::AcknowledgementsLeftOut {
                each, segments, share, ..
            }) => Some((*each, *segments, (share * 1e3).round() / 1e3)),
            _ => None,
        })
    };
    let [one_way, _] = ceilings(stream(0, 1_000_000));
    let one_way = one_way.expect("a link is one");
    assert_eq!(left_out(&one_way), None);
    // 1500 bytes less 40 of headers, of 1538 on the wire: a pocket calculator gives the value.
    let rate = Measure::ScaledBitsPerSecond;
    let (ip, tcp) = (Quantity::Ipv4.is(Bytes(20)), Quantity::Tcp.is(Bytes(20)));
    let headers = ip + tcp + Quantity::Timestamps.is(Bytes(0));
    let packet = || Expression::from(Bytes(1500));
    let part = rate.of(1e9) * (packet() - Bytes(40)) / (packet() + Bytes(38));
    let equation = Line::equation(part, rate.figure(one_way.value));
    assert_eq!(one_way.derivation, [Line::of(Quantity::Headers, headers, Bytes(40)), equation]);
    near(Some(one_way.value), 1e9 * 1460.0 / 1538.0);
    for two_ways in ceilings(both) {
        let two_ways = two_ways.expect("a link is one");
        // 84 of 2 x 1538 bytes without timestamps: 40 bytes are padded to a frame of 64.
        assert_eq!(left_out(&two_ways), Some((Bytes(84), 2, 0.027)));
        assert_eq!(two_ways.value, one_way.value);
    }
}
