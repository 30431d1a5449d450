//! Transfers through a token bucket at each sender: what a shaped path carries is possible, whoever
//! sends and however.

use crate::bench::truth::ground::{AGENT_PORT, Between, End, Family, Ground, PLAIN};
use crate::bench::truth::serving::{Server, Serving};

use super::plans::Draw;
use super::{Bench, Tally};

/// Bit/s of Ethernet frames without FCS.
const RATES: [u64; 6] =
    [3_000_000, 10_000_000, 34_000_000, 100_000_000, 333_000_000, 1_000_000_000];
const CONGESTION: [&str; 3] = ["cubic", "bbr", "reno"];
/// Bursts beside the smallest that keeps the rate at 250 ticks a second, B: the largest packet must
/// fit too.
const BURST_FACTORS: [u64; 3] = [1, 4, 20];
const TICKS_PER_SECOND: u64 = 250;
const LEAST_BURST: u64 = 1680;
const MOST_BURST: u64 = 4 << 20;
/// Of this many trials at most one may be called impossible though it is not.
const PER_FALSE: usize = 500;

/// Every server and congestion control through one bucket.
pub(super) fn round(bench: &mut Bench, draw: &mut Draw, enough: usize) -> anyhow::Result<()> {
    let rate = *draw.one_of(&RATES);
    // Below this burst the timer of the kernel could not keep the rate.
    let burst = (rate / 8 / TICKS_PER_SECOND).max(LEAST_BURST) * draw.one_of(&BURST_FACTORS);
    let (burst, latency_ms) = (burst.min(MOST_BURST), *draw.one_of(&[10, 30, 80]));
    // Most often with offloads, as on real hosts.
    bench.ground.lay(&Between { offloads: *draw.one_of(&[true, true, false]), ..PLAIN }, false)?;
    for end in [End::A, End::B] {
        let shaper = format!(
            "tc qdisc replace dev lr0 root tbf rate {rate}bit burst {burst} latency {latency_ms}ms"
        );
        bench.ground.at(end, &shaper)?;
    }
    for congestion in CONGESTION {
        for (from, to) in [(End::A, End::B), (End::B, End::A)] {
            let address = |end| Ground::address(Family::V4, end);
            // The route sets the congestion control also for servers that cannot choose it.
            let route = format!(
                "ip route replace {}/32 dev lr0 src {} congctl {congestion}",
                address(to),
                address(from)
            );
            bench.ground.at(from, &route)?;
        }
        for server in [None, Some(Server::Nginx), Some(Server::Vsftpd)] {
            // Checked between campaigns, so that the last one is complete.
            if bench.referee.n_trials() >= enough {
                return Ok(());
            }
            let serving = server.map(|server| Serving::start(&bench.ground, server)).transpose()?;
            let (workload, params) = match &serving {
                None => (
                    "tcp_stream",
                    format!(
                        "direction = \"{}\", congestion = \"{congestion}\"",
                        draw.one_of(&["tx", "rx"])
                    ),
                ),
                Some(serving) => {
                    let workload = if server == Some(Server::Nginx) { "http" } else { "ftp" };
                    (
                        workload,
                        format!(
                            "server = \"{}\"",
                            serving.url(draw.one_of::<&str>(&["file", "large"]))
                        ),
                    )
                }
            };
            let plan = format!(
                "[campaign]\nname = \"shaped\"\nrepeats = 1\n[[sweep]]\nname \
                    = \"shaped\"\nduration = \"1 s\"\nwarmup = \"200 ms\"\ndrain = \"200 ms\"\n\
                 rest = \"0 s\"\n[[sweep.job]]\nworkload = \"{workload}\"\nfrom = \"a\"\nto \
                 = \"b\"\nparams = {{ {params} }}\n\
                 [sweep.axis]\n\"params.streams\" = [1, 2, 4]\n"
            );
            let to = [
                "--to".to_owned(),
                format!("{}:{AGENT_PORT}", Ground::address(Family::V4, End::B)),
            ];
            bench.measure(&format!("tbf, {congestion}"), &plan, &to)?;
        }
    }
    eprintln!("{rate} bit/s, burst {burst} B: {} trials", bench.referee.n_trials());
    Ok(())
}

/// Trials that passed the gate, and of these the ones called impossible. A suspect trial carries
/// figures, so that the gate judges it like a valid one; an invalid trial never comes there.
fn judged(tally: &Tally) -> (usize, usize) {
    let having = |validity: &str| {
        tally.values().filter_map(|by_validity| by_validity.get(validity)).sum::<usize>()
    };
    let n_false = having("impossible");
    // Invalid trials never reach the gate, so they are no evidence either way.
    (having("valid") + having("suspect") + n_false, n_false)
}

/// Returns true if few enough trials were called impossible. In truth none is.
pub(super) fn holds(tally: &Tally) -> bool {
    let (n_judged, n_false) = judged(tally);
    // Rounded up: with few trials one may be false.
    n_false <= n_judged.div_ceil(PER_FALSE)
}

/// The same in a sentence.
pub(super) fn told(tally: &Tally) -> String {
    let (n_judged, n_false) = judged(tally);
    format!(
        "Called impossible: {n_false} of {n_judged} trials that the gate judged (valid, suspect or \
            impossible ones), at most 1 in {PER_FALSE} asked for.\n"
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn one_in_five_hundred_may_be_called_impossible() {
        let of = |n_valid, n_impossible| {
            let by_validity = BTreeMap::from([
                ("valid".to_owned(), n_valid),
                ("impossible".to_owned(), n_impossible),
            ]);
            Tally::from([(("tbf, bbr".to_owned(), "http".to_owned()), by_validity)])
        };
        assert!(holds(&of(500, 0)) && holds(&of(499, 1)));
        assert!(!holds(&of(498, 2)) && holds(&of(998, 2)));
        let mut with_invalid = of(300, 1);
        with_invalid.values_mut().next().expect("one kind").insert("invalid".to_owned(), 400);
        assert!(
            holds(&with_invalid)
                && told(&with_invalid).starts_with("Called impossible: 1 of 301 trials")
        );
        with_invalid.values_mut().next().expect("one kind").insert("impossible".to_owned(), 2);
        assert!(!holds(&with_invalid), "trials that never came to the gate prove nothing of it");
    }
}
