//! The headline and the picture: every stage shows its readings, and the limit is marked at its
//! stage.

use linerate_analysis::diagnosis::Claim;
use linerate_analysis::{
    Headline, PathEnd, ReadingKind, Stage, StageKind, Surety, headline, study,
};
use linerate_model::{
    ARM_AXIS, Arm, BitRate, BoundClass, Campaign, Capacity, Counter, Ratio, Role, TrialRecord,
    metric,
};

use crate::fixture::{datagrams, gigabit, job, near, samples, steady, stream, trial, two_hosts};

fn told(campaign: &Campaign) -> Headline {
    headline(campaign, &study(campaign)).expect("something was measured")
}

fn stage(headline: &Headline, end: PathEnd, place: StageKind) -> &Stage {
    let found = headline.stages.iter().find(|stage| (stage.end, stage.place) == (end, place));
    found.unwrap_or_else(|| panic!("no {place:?} of {end:?}: {:?}", headline.stages))
}

fn reading(stage: &Stage, kind: ReadingKind) -> Option<f64> {
    stage.readings.iter().find(|reading| reading.kind == kind).map(|reading| reading.value)
}

#[test]
fn a_full_link_is_marked_and_what_nobody_looked_at_says_nothing() {
    let mut campaign =
        two_hosts(vec![stream(0, 117_000_000), stream(1, 117_400_000), stream(2, 117_200_000)]);
    campaign.header.capacities = vec![gigabit(&[("a", "b")])];
    campaign.trials[0]
        .samples
        .push(("left".into(), samples(&[("interface", "tx_bytes", "eth0", 120e6)])));
    let told = told(&campaign);
    near(told.moved.as_ref().map(|moved| moved.estimate.value), 117_200_000.0 * 8.0);
    assert_eq!(
        (told.limit.surety, told.limit.rule.as_deref()),
        (Surety::Suspected, Some("link_ceiling"))
    );
    let order: Vec<(PathEnd, StageKind)> =
        told.stages.iter().map(|stage| (stage.end, stage.place)).collect();
    assert_eq!(
        order,
        [
            (PathEnd::Sender, StageKind::Application),
            (PathEnd::Sender, StageKind::Socket),
            (PathEnd::Sender, StageKind::Queue),
            (PathEnd::Sender, StageKind::Interface),
            (PathEnd::Between, StageKind::Wire),
            (PathEnd::Receiver, StageKind::Interface),
            (PathEnd::Receiver, StageKind::Socket),
            (PathEnd::Receiver, StageKind::Application),
        ]
    );
    let limits: Vec<&str> =
        told.stages.iter().filter(|stage| stage.limits).map(|stage| stage.name.as_str()).collect();
    assert_eq!(limits, ["link"]);
    assert!(
        stage(&told, PathEnd::Between, StageKind::Wire)
            .ceiling
            .as_ref()
            .is_some_and(|ceiling| ceiling.hard)
    );
    near(reading(stage(&told, PathEnd::Sender, StageKind::Interface), ReadingKind::Sent), 960e6);
    near(
        reading(stage(&told, PathEnd::Receiver, StageKind::Application), ReadingKind::Received),
        117_200_000.0 * 8.0,
    );
    for unseen in [(PathEnd::Sender, StageKind::Queue), (PathEnd::Receiver, StageKind::Interface)] {
        assert!(!stage(&told, unseen.0, unseen.1).is_observed(), "{unseen:?}");
    }
}

#[test]
fn of_other_programs_clients_it_is_what_they_got_while_files_were_under_way() {
    let served = |more: &[(Counter, u64)]| {
        let mut run = trial(0, vec![job("http", "a", "b")]);
        run.jobs[0].1 = steady(
            &[&[(Counter::PayloadSent, 1_000_000), (Counter::Transactions, 1)], more].concat(),
        );
        told(&two_hosts(vec![run])).moved.map(|moved| (moved.metric, moved.estimate.value))
    };
    // No file was whole, so that none has times.
    let shown =
        served(&[(Counter::PayloadAcknowledged, 1_000_000), (Counter::Serving, 100_000_000)]);
    assert_eq!(shown, Some((Some(metric::GOODPUT_SERVED), 80e6)));
    assert_eq!(served(&[]).map(|(metric, _)| metric), Some(Some(metric::TRANSACTION_RATE)));
}

#[test]
fn losses_stand_where_counters_found_them() {
    let mut lossy = datagrams(1000, 990, 4970);
    lossy.samples.push(("left".into(), samples(&[("qdisc", "drops", "eth0 tbf 1:", 4.0)])));
    let told = told(&two_hosts(vec![lossy]));
    assert_eq!(stage(&told, PathEnd::Sender, StageKind::Queue).lost, Some(20));
    assert_eq!(stage(&told, PathEnd::Sender, StageKind::Queue).name, "tbf");
    assert_eq!(stage(&told, PathEnd::Receiver, StageKind::Interface).lost, None, "nobody looked");
}

#[test]
fn without_evidence_nothing_is_marked_and_the_next_experiment_is_named() {
    let mut campaign = two_hosts(vec![stream(0, 10_000_000)]);
    campaign.header.capacities = vec![gigabit(&[("a", "b")])];
    let told = told(&campaign);
    assert_eq!((told.limit.surety, told.limit.claim.as_ref()), (Surety::NotDiagnosed, None));
    assert!(!told.limit.next.is_empty() && told.stages.iter().all(|stage| !stage.limits));
}

/// Two streams side by side: one fills a thin link, the other carries five times as much over a
/// wide one that is half empty.
fn thin_and_wide(number: u32) -> TrialRecord {
    let mut run = trial(number, vec![job("tcp_stream", "a", "b"), job("tcp_stream", "c", "d")]);
    let carries = |bytes| {
        (steady(&[(Counter::PayloadSent, bytes)]), steady(&[(Counter::PayloadReceived, bytes)]))
    };
    run.jobs = vec![carries(11_700_000), carries(60_000_000)];
    run
}

#[test]
fn the_picture_marks_the_stage_that_the_sentence_names() {
    let alone = vec![thin_and_wide(0)];
    let arm = |number: u32| {
        let mut run = thin_and_wide(number);
        run.spec.repeat = number / 2;
        let (name, role) = [("base", Role::Base), ("changed", Role::Changed)][number as usize % 2];
        run.spec.point.insert(ARM_AXIS.to_owned(), name.into());
        run.spec.arm = Some(Arm::new(name, role, Ratio(0.02)));
        run
    };
    for trials in [alone, (0..12).map(arm).collect()] {
        let mut campaign = two_hosts(trials);
        let thin = Capacity { name: "thin".into(), rate: BitRate(1e8), ..gigabit(&[("a", "b")]) };
        let wide = Capacity { name: "wide".into(), ..gigabit(&[("c", "d")]) };
        campaign.header.capacities = vec![thin, wide];
        let told = told(&campaign);
        let Some(Claim::Saturated(link)) = &told.limit.claim else { panic!("{:?}", told.limit) };
        assert!(link.parts()[0].name.starts_with("thin"), "{link}");
        let marked = told.stages.iter().filter(|stage| stage.limits).map(|stage| &stage.name);
        assert_eq!(marked.collect::<Vec<_>>(), ["thin"], "{:?}", told.stages);
        assert_eq!((told.from.as_str(), told.to.as_str()), ("a", "b"));
    }
}

/// Three streams in slots of one host bridge, which is full. The third has 93 % of its own slot.
#[test]
fn a_part_that_all_jobs_fill_is_named_and_marked_and_no_slot_that_is_almost_full() {
    let pairs = [("a", "b"), ("c", "d"), ("e", "f")];
    let mut run = trial(0, pairs.map(|(from, to)| job("tcp_stream", from, to)).to_vec());
    let carries = |bytes| {
        (steady(&[(Counter::PayloadSent, bytes)]), steady(&[(Counter::PayloadReceived, bytes)]))
    };
    run.jobs = vec![carries(4_700_000), carries(4_700_000), carries(10_900_000)];
    let mut campaign = two_hosts(vec![run]);
    let of_bus = |name: &str, rate, pairs: &[(&str, &str)]| Capacity {
        name: name.into(),
        edge: name.into(),
        class: BoundClass::Bus,
        rate: BitRate(rate),
        ..gigabit(pairs)
    };
    campaign.header.capacities = vec![
        of_bus("host bridge", 173e6, &pairs),
        of_bus("slot 0", 54.4e6, &pairs[..1]),
        of_bus("slot 1", 54.4e6, &pairs[1..2]),
        of_bus("slot 2", 99e6, &pairs[2..]),
    ];
    let told = told(&campaign);
    let Some(Claim::Saturated(part)) = &told.limit.claim else { panic!("{:?}", told.limit) };
    let marked = told.stages.iter().filter(|stage| stage.limits).map(|stage| &stage.name);
    assert_eq!(marked.collect::<Vec<_>>(), ["host bridge"], "{:?}", told.stages);
    assert_eq!(part.parts().iter().map(|one| &one.name).collect::<Vec<_>>(), ["host bridge"]);
}
