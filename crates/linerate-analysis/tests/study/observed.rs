//! Observers' octets beside those of loads whose frames are known.

use linerate_analysis::{Agreement, PortNote, PortStudy, study};
use linerate_model::{Direction, ObservedPort, SampleBlock, Validity};

use crate::fixture::{SECONDS, datagrams, only, samples, two_hosts};
use Agreement::{Agrees, Background, Missing, Unknown};

/// 1000 datagrams of 1000 bytes a second, and a port before `a` that counted `per_second` of each
/// of these.
fn at_the_port(
    per_second: &[(&str, f64)],
    change: impl Fn(&mut SampleBlock),
) -> (PortStudy, Validity) {
    let mut trial = datagrams(1_000, 1_000, 1_000 * SECONDS);
    let series: Vec<_> =
        per_second.iter().map(|(name, n)| ("observer", *name, "port7", *n)).collect();
    let mut block = samples(&series);
    change(&mut block);
    trial.samples.push(("switch".into(), block));
    let mut campaign = two_hosts(vec![trial]);
    campaign.header.observed = vec![ObservedPort {
        observer: "switch".into(),
        port: "port7".into(),
        faces: "a".into(),
        counts_fcs: true,
        source: "a test".into(),
        kind: None,
    }];
    let study = study(&campaign);
    let point = only(&study);
    let port = point.observed.iter().find(|port| port.direction == Direction::Tx).expect("a sends");
    (port.clone(), point.trials[0].validity)
}

/// Ethernet 14 and 4, IPv4 20, UDP 8.
const OCTETS: f64 = 1_046e3;

#[test]
fn a_load_and_its_headers_are_what_a_clean_port_counts() {
    let (port, validity) =
        at_the_port(&[("in_octets", OCTETS), ("in_packets", 1e3), ("in_discards", 2.0)], |_| {});
    assert_eq!((port.agreement, validity), (Agrees, Validity::Valid), "{port:?}");
    assert_eq!((port.expected, port.octets), (OCTETS * SECONDS as f64, OCTETS * SECONDS as f64));
    assert_eq!(
        (port.payload, port.frames, port.dropped),
        (1e6 * SECONDS as f64, Some(5e3), Some(10.0))
    );
}

#[test]
fn what_others_sent_has_a_share_and_makes_the_trial_suspect() {
    let (port, validity) =
        at_the_port(&[("in_octets", OCTETS / 0.8), ("in_packets", 1.3e3)], |_| {});
    assert_eq!((port.agreement, validity), (Background, Validity::Suspect), "{port:?}");
    assert!((port.background().expect("octets") - 0.2).abs() < 1e-9);
}

#[test]
fn a_port_that_misses_some_of_the_load_is_told_of() {
    let (port, validity) = at_the_port(&[("in_octets", OCTETS * 0.9)], |_| {});
    assert_eq!((port.agreement, validity), (Missing, Validity::Suspect), "{port:?}");
    let (stuck, _) = at_the_port(&[("in_octets", 0.0)], |_| {});
    assert_eq!((stuck.agreement, stuck.octets), (Missing, 0.0), "a counter that never moved");
}

#[test]
fn nothing_is_said_of_what_was_not_read_or_began_anew() {
    let (silent, validity) = at_the_port(&[("in_octets", OCTETS)], |block| {
        block.columns[0] = vec![None; block.times.len()].into();
        block.unavailable.push(("observer".into(), "no answer".into()));
    });
    let unavailable = [PortNote::Unavailable { error: "no answer".to_owned() }];
    assert_eq!((silent.agreement, &silent.why[..]), (Unknown, &unavailable[..]));
    assert_eq!(validity, Validity::Valid, "the load is as good as before");
    let (reset, _) = at_the_port(&[("in_octets", OCTETS), ("resets", 1.0)], |_| {});
    assert_eq!(reset.agreement, Unknown);
    assert_eq!(reset.why, [PortNote::Reset]);
}

#[test]
fn super_packets_have_one_set_of_headers_each() {
    let merged = 1e6 + 100.0 * 46.0;
    let (port, _) = at_the_port(&[("in_octets", merged), ("in_packets", 100.0)], |_| {});
    assert_eq!((port.agreement, port.expected), (Agrees, merged * SECONDS as f64), "{port:?}");
    assert_eq!(port.why[0], PortNote::SuperPackets);
}

#[test]
fn counters_that_an_agent_keeps_for_a_while_are_compared_from_change_to_change() {
    // Readings twice a second; the agent reads its port every second, and the last time a second
    // before the end.
    let (port, _) = at_the_port(&[("in_octets", 0.0)], |block| {
        let half = |n: u64| linerate_model::Nanos::from_millis(500 * n);
        block.times = (0..10).map(half).collect();
        block.columns = vec![(0..10).map(|n: u64| Some((n / 2) as f64 * OCTETS)).collect()];
    });
    let PortNote::Part { seconds, .. } = port.why[0] else { panic!("{port:?}") };
    assert!((seconds - 3.0).abs() < 0.05, "{port:?}");
    assert!(
        (port.expected - 3.0 * OCTETS).abs() < 1.0 && port.bound > 0.3 * port.expected,
        "{port:?}"
    );
    // Whatever lies within a third of the load is no agreement.
    assert_eq!((port.agreement, port.octets), (Unknown, 3.0 * OCTETS), "{port:?}");
    assert!(port.why.iter().any(|why| matches!(why, PortNote::TooWide { .. })), "{port:?}");
}

/// An agent that reads its port every other second, asked each half second until `ended`, counts
/// `share` of the load.
fn kept_for_two_seconds(ended: u64, share: f64) -> PortStudy {
    let (port, _) = at_the_port(&[("in_octets", 0.0)], |block| {
        block.times =
            (0..=2 * ended).map(|n| linerate_model::Nanos::from_millis(500 * n)).collect();
        let counted = |n: u64| Some(((n / 4 * 2) as f64).min(SECONDS as f64) * OCTETS * share);
        block.columns = vec![(0..=2 * ended).map(counted).collect()];
    });
    port
}

#[test]
fn an_agent_that_was_asked_until_it_had_read_anew_is_compared_over_the_whole_trial() {
    let port = kept_for_two_seconds(SECONDS + 3, 1.0);
    assert_eq!((port.agreement, port.octets), (Agrees, SECONDS as f64 * OCTETS), "{port:?}");
    // Half a percent of the load, and what is always there.
    assert!((port.bound - 0.005 * port.expected - 65_536.0).abs() < 1.0, "{port:?}");
    assert_eq!(kept_for_two_seconds(SECONDS + 3, 0.95).agreement, Missing);
    assert_eq!(
        kept_for_two_seconds(SECONDS, 1.0).agreement,
        Unknown,
        "its last word is of before the end"
    );
}
