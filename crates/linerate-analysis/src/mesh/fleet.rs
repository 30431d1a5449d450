//! A simulated fleet with faults of known size, and how often each is found.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::cells::{Cells, Measure};
use super::changes::changes;
use super::suspects::{Culprit, Mesh, suspects};

/// Meshes of each kind.
const SEEDS: u64 = 40;

/// Fault of a simulated fleet.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// A host at this share of the rate, in both directions.
    Slow(usize, f64),
    /// The same in one direction.
    SlowToSend(usize, f64),
    SlowToReceive(usize, f64),
    /// Loss on a pair, as a share.
    Lossy(usize, usize, f64),
    /// An uplink of a group that two pairs at once share.
    Shared(usize),
    /// A host with a longer delay, s.
    Late(usize, f64),
    /// A host whose CPU is busy: each of its pairs loses another part of its rate, up to this one.
    Busy(usize, f64),
}

impl Fault {
    fn culprit(self, n_groups: usize) -> Culprit {
        match self {
            Self::Slow(host, _) | Self::Late(host, _) | Self::Busy(host, _) => Culprit::Host(host),
            Self::SlowToSend(host, _) => Culprit::Sending(host),
            Self::SlowToReceive(host, _) => Culprit::Receiving(host),
            Self::Lossy(a, b, _) => Culprit::OneWay(a, b),
            Self::Shared(_) if n_groups == 2 => Culprit::Groups(0, 1),
            Self::Shared(group) => Culprit::Uplink(group),
        }
    }
}

/// Returns the mesh of `n` hosts in groups of `per_group`, with `faults`. The figures scatter as
/// those of shaped links between network namespaces did: goodput by 0.5 %, one in a hundred by up
/// to a fifth; round-trip times of 50 us by a third; few retransmissions.
fn mesh(n: usize, per_group: Option<usize>, faults: &[Fault], seed: u64) -> Mesh {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let groups: Vec<_> = (0..n).map(|host| per_group.map(|per| host / per)).collect();
    let [mut goodput, mut round_trip, mut retransmitted] = [(); 3].map(|()| Cells::new(n));
    for (from, to) in (0..n).flat_map(|from| (0..n).map(move |to| (from, to))) {
        if from == to {
            continue;
        }
        // The sum of twelve is nearly normal.
        let mut normal = || (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0;
        let [mut rate, mut time, mut lost] = [
            94e6 * (0.005 * normal()).exp(),
            50e-6 * (0.3 * normal()).exp(),
            1e-4 * normal().abs(),
        ];
        if random.random::<f64>() < 0.01 {
            rate *= 0.8 + 0.2 * random.random::<f64>();
        }
        for fault in faults {
            let is_hit = fault.culprit(n / per_group.unwrap_or(n)).has(&groups, from, to);
            match *fault {
                _ if !is_hit => {}
                Fault::Slow(_, share)
                | Fault::SlowToSend(_, share)
                | Fault::SlowToReceive(_, share) => rate *= share,
                Fault::Lossy(.., share) => lost += share,
                Fault::Shared(_) => rate *= 0.5,
                Fault::Late(_, delay) => time += delay,
                Fault::Busy(_, most) => rate *= 1.0 - most * random.random::<f64>(),
            }
        }
        goodput.set(from, to, rate);
        round_trip.set(from, to, time);
        retransmitted.set(from, to, lost);
    }
    let figures = vec![
        (Measure::Goodput, goodput),
        (Measure::RoundTrip, round_trip),
        (Measure::Retransmitted, retransmitted),
    ];
    Mesh { groups, figures }
}

/// Returns in how many of [`SEEDS`] meshes the first suspects are the culprits of `faults`, in any
/// order.
fn named(n: usize, per_group: Option<usize>, faults: impl Fn(usize) -> Vec<Fault>) -> u64 {
    let is_named = |seed: &u64| {
        let faults = faults(*seed as usize % n);
        let found = suspects(&mesh(n, per_group, &faults, *seed));
        let first: Vec<Culprit> = found.iter().take(faults.len()).map(|one| one.culprit).collect();
        let n_groups = per_group.map_or(0, |per| n / per);
        faults.iter().all(|fault| first.contains(&fault.culprit(n_groups)))
    };
    (1..=SEEDS).filter(is_named).count() as u64
}

#[test]
fn one_fault_is_named_first() {
    type Kind = (&'static str, fn(usize) -> Fault);
    let kinds: [Kind; 7] = [
        ("90 % of the rate", |host| Fault::Slow(host, 0.9)),
        ("90 % of the rate to send", |host| Fault::SlowToSend(host, 0.9)),
        ("90 % of the rate to receive", |host| Fault::SlowToReceive(host, 0.9)),
        ("0.5 % loss of a pair", |host| Fault::Lossy(host, (host + 3) % 8, 0.005)),
        ("2 ms of delay", |host| Fault::Late(host, 2e-3)),
        ("up to 90 % less by a busy CPU", |host| Fault::Busy(host, 0.9)),
        ("up to 30 % less by a busy CPU", |host| Fault::Busy(host, 0.3)),
    ];
    for (name, fault) in kinds {
        let n = named(8, None, |host| vec![fault(host)]);
        println!("{name}: {n} of {SEEDS}");
        assert!(n >= SEEDS * 95 / 100, "{name}: {n} of {SEEDS}");
    }
    for n_groups in [2, 4] {
        let n = named(16, Some(16 / n_groups), |host| vec![Fault::Shared(host % n_groups)]);
        assert!(n >= SEEDS * 95 / 100, "an uplink of {n_groups}: {n} of {SEEDS}");
    }
}

#[test]
fn a_pair_that_loses_is_named_where_no_other_ever_does() {
    let mut mesh = mesh(8, None, &[], 1);
    for (from, to) in (0..8).flat_map(|from| (0..8).map(move |to| (from, to))) {
        if from != to {
            mesh.figures[2].1.set(from, to, if (from, to) == (2, 5) { 0.005 } else { 0.0 });
        }
    }
    assert_eq!(suspects(&mesh)[0].culprit, Culprit::OneWay(2, 5));
}

#[test]
fn two_faults_are_the_first_two() {
    for second in [Fault::SlowToSend(5, 0.9), Fault::Late(5, 2e-3), Fault::Lossy(5, 6, 0.005)] {
        let n = named(8, None, |host| vec![Fault::Slow(host % 5, 0.9), second]);
        println!("{second:?}: {n} of {SEEDS}");
        assert!(n >= SEEDS * 85 / 100, "{second:?}: {n} of {SEEDS}");
    }
}

#[test]
fn a_clean_fleet_has_no_suspect_but_outliers_that_a_second_look_clears() {
    let found: Vec<_> =
        (1..=SEEDS).flat_map(|seed| suspects(&mesh(8, Some(4), &[], seed))).collect();
    // One pair in a hundred is far out by chance.
    let is_pair = |culprit| matches!(culprit, Culprit::OneWay(..) | Culprit::Between(..));
    assert!(found.iter().all(|one| is_pair(one.culprit)), "{found:?}");
}

#[test]
fn few_hosts_are_not_told_apart() {
    assert!(suspects(&mesh(3, None, &[Fault::Slow(0, 0.5)], 1)).is_empty());
    let found = suspects(&mesh(4, None, &[Fault::Slow(0, 0.5)], 1));
    assert_eq!(found[0].culprit, Culprit::Host(0));
}

#[test]
fn a_change_is_named_among_unequal_hosts() {
    // Host 2 has always been slow.
    let old = |seed| mesh(8, Some(4), &[Fault::Slow(2, 0.5)], seed);
    let new = |fault, seed| mesh(8, Some(4), &[Fault::Slow(2, 0.5), fault], seed + SEEDS);
    let kinds: [fn(usize) -> Fault; 4] = [
        |host| Fault::Slow(host, 0.9),
        |host| Fault::SlowToSend(host, 0.9),
        |host| Fault::Late(host, 2e-3),
        |host| Fault::Lossy(host, (host + 3) % 8, 0.005),
    ];
    for kind in kinds {
        let fault = |seed: u64| kind(if seed.is_multiple_of(2) { 5 } else { 1 });
        let is_named = |seed: &u64| {
            let (before, after) = (old(*seed), new(fault(*seed), *seed));
            let worse = changes(&before, &after);
            let better = changes(&after, &before);
            let first = [worse.worse.first(), better.better.first()];
            let culprit = fault(*seed).culprit(2);
            // Both name it, and what is usual for the one is seen by the other.
            let [Some(one), Some(other)] = first else { return false };
            let (sign, reverse) = (one.signs[0], other.signs[0]);
            [one.culprit, other.culprit] == [culprit; 2]
                && sign.measure.is_worse(sign.seen, sign.usual)
                && (sign.seen, sign.usual) == (reverse.usual, reverse.seen)
        };
        // Each seed is four searches.
        let n = (1..=SEEDS / 4).filter(is_named).count() as u64;
        assert_eq!(n, SEEDS / 4, "{:?}", kind(1));
    }
}

#[test]
fn a_change_of_the_whole_fleet_is_no_hosts_and_equal_meshes_have_none() {
    let mut later = mesh(8, Some(4), &[], 2);
    let found = changes(&mesh(8, Some(4), &[], 1), &later);
    let is_pair = |culprit| matches!(culprit, Culprit::OneWay(..) | Culprit::Between(..));
    assert!(found.of_all.is_empty(), "{found:?}");
    assert!(found.worse.iter().chain(&found.better).all(|one| is_pair(one.culprit)), "{found:?}");
    let halved: Vec<_> = later.figures[0].1.known().collect();
    halved.into_iter().for_each(|(from, to, rate)| later.figures[0].1.set(from, to, rate / 2.0));
    let found = changes(&mesh(8, Some(4), &[], 1), &later);
    let [all] = &found.of_all[..] else { panic!("{found:?}") };
    assert_eq!((all.measure, all.n), (Measure::Goodput, 56));
    assert!((all.seen / all.usual - 0.5).abs() < 0.01, "{all:?}");
    assert!(found.worse.iter().all(|one| is_pair(one.culprit)), "{found:?}");
}
