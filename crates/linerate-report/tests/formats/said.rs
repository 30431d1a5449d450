//! Content of a report, for every format.

use linerate_analysis::{JobStudy, Reason, Study};
use linerate_model::{
    BitRate, BoundClass, BoundPart, Bytes, CeilingScope, CeilingSubject, Direction, PartDetail,
    Validity, metric,
};
use linerate_report::document::{Block, Cell, Document, Table};
use linerate_report::{Format, compose, text};

use crate::{document, fixture, one};

/// The table called `id`.
fn table<'a>(document: &'a Document, id: &str) -> &'a Table {
    document.tables().find(|table| table.id == id).unwrap_or_else(|| panic!("no table {id}"))
}

/// The place of the column called `head`.
fn column(table: &Table, head: &str) -> usize {
    table.columns.iter().position(|column| column.head == head).expect("the column")
}

#[test]
fn an_impossible_point_has_no_figure_anywhere() {
    let document = document();
    let at = Cell::Coordinate { value: 262_144.0, label: "256 KiB".into() };
    let mut rows = table(&document, "throughput-1-goodput").rows.iter();
    let row = rows.find(|row| row.cells[0] == at).expect("the row");
    assert_eq!(row.cells[1], Cell::Missing("impossible".into()));
}

#[test]
fn one_direction_and_the_sum_of_both_are_told_apart() {
    let document = document();
    let figures = document.sections[0].blocks.iter().find_map(|block| match block {
        Block::KeyFigures(figures) => Some(figures),
        _ => None,
    });
    let figures = &figures.expect("key figures")[..2];
    let [one, both] = [0, 1].map(|place: usize| (&*figures[place].label, figures[place].direction));
    assert_eq!(one, ("Highest TCP goodput", Direction::Tx));
    assert_eq!(both, ("Highest TCP goodput, both directions", Direction::Sum));
}

#[test]
fn requests_are_told_by_rate_and_latency_never_by_what_they_carry() {
    let (campaign, mut study) = fixture::fixture();
    let point =
        study.points.iter_mut().find(|point| point.jobs[0].workload == "tcp_rr").expect("requests");
    let rate = point.jobs[0].metrics[0].clone();
    // Far above any stream's, as if payload counted.
    for known in [metric::GOODPUT, metric::PACKET_RATE] {
        let mut incidental = rate.clone();
        incidental.metric = known;
        incidental.estimate.as_mut().expect("an estimate").value = 1e15;
        point.jobs[0].metrics.push(incidental);
    }
    let summary = text::summary(&compose(&campaign, &study));
    let figures: Vec<&str> = summary.lines().filter(|line| line.starts_with("  ")).collect();
    assert!(figures.iter().any(|line| line.starts_with("  Highest tcp_rr rate ")), "{summary}");
    assert!(!summary.contains("tcp_rr goodput") && !summary.contains("tcp_rr packet"), "{summary}");
    assert!(figures.iter().any(|line| line.starts_with("  Highest UDP goodput ")), "{summary}");
}

#[test]
fn every_stream_is_told_its_own_cost() {
    let (campaign, mut study) = fixture::fixture();
    let cost = |study: &Study| {
        study.points[0].jobs[0].metric(metric::CPU_SECONDS_PER_GIGABYTE, Direction::Sum).cloned()
    };
    let mut cheap = cost(&study).expect("the cost of a TCP stream");
    cheap.estimate.as_mut().expect("an estimate").value = 0.5;
    let datagrams = study.points.iter_mut().find(|point| point.jobs[0].workload == "udp_stream");
    datagrams.expect("datagrams").jobs[0].metrics.push(cheap);
    let summary = text::summary(&compose(&campaign, &study));
    let told = |label: &str| summary.lines().any(|line| line.trim_start().starts_with(label));
    assert!(told("Lowest TCP CPU cost") && told("Lowest UDP CPU cost"), "{summary}");
}

#[test]
fn an_expected_value_is_not_drawn_as_a_ceiling() {
    let document = document();
    let expected = table(&document, "limits-expected");
    assert_eq!(expected.rows[0].cells[0], Cell::text("peer window over round-trip time"));
    let mut ceilings = table(&document, "limits-ceilings").rows.iter();
    assert!(ceilings.all(|row| row.cells[0] == Cell::text("ethernet 1 Gbit/s, MTU 1500")));
    let page = one(Format::Html);
    let charts = page
        .split("<script type=\"application/json\"")
        .skip(1)
        .filter_map(|part| part.split("</script>").next());
    assert!(charts.into_iter().all(|chart| !chart.contains("expected")));
}

#[test]
fn transfers_that_never_ended_are_counted_and_their_mean_time_is_a_bound() {
    let document = document();
    let is_of_disk = |head: &'static str| {
        move |table: &&Table| table.columns.iter().any(|column| column.head == head)
    };
    let cell =
        |table: &Table, row: usize, head: &str| table.rows[row].cells[column(table, head)].clone();
    // Of depth 64: all, reads, writes.
    let mut accounts = document.tables().filter(|table| table.id.starts_with("account-"));
    let account = accounts.find(is_of_disk("operations")).expect("the account of the disk");
    let count = |row: usize, head: &str| cell(account, row, head).value().expect("a count");
    let last = account.rows.len() - 3;
    for row in last..account.rows.len() {
        let ended = ["answered", "lost", "open"].map(|head| count(row, head));
        assert_eq!(count(row, "due"), ended.iter().sum::<f64>());
    }
    // Four in each of six runs.
    assert_eq!([last, last + 1, last + 2].map(|row| count(row, "open")), [24.0, 24.0, 0.0]);
    let times = document.tables().find(is_of_disk("Average Read Response Time")).expect("times");
    let time = |head: &str| cell(times, times.rows.len() - 1, head);
    assert!(matches!(time("Average Read Response Time"), Cell::AtLeast(bound) if bound > 0.0));
    assert!(matches!(time("Average Write Response Time"), Cell::Estimate(_)));
}

#[test]
fn losses_stand_where_they_were_found() {
    let document = document();
    let ledger = table(&document, "loss-3");
    let row = ledger.rows.last().expect("a row");
    let count = |head: &str| row.cells[column(ledger, head)].value().expect("a number");
    assert!(count("lost") > 0.0);
    assert_eq!(count("at receiver socket") + count("unexplained"), count("lost"));
    // Nothing was received twice.
    assert!(ledger.columns.iter().all(|column| column.head != "duplicates"));
}

#[test]
fn what_a_controller_dropped_stands_where_loss_is_told_if_one_was_read() {
    let (campaign, mut study) = fixture::fixture();
    let told = |study: &Study| {
        compose(&campaign, study).tables().find(|table| table.id == "loss-controllers").cloned()
    };
    assert_eq!(told(&study), None, "no controller was read");
    let sample = study.points[0].jobs[0].metrics[0].clone();
    for (at, dropped) in [(0, 0.0), (1, 50.0)] {
        for (known, frames) in
            [(metric::CONTROLLER_RECEIVED, 1000.0), (metric::CONTROLLER_DROPPED, dropped)]
        {
            let mut read = sample.clone();
            (read.metric, read.direction, read.ceiling) = (known, Direction::Sum, None);
            read.estimate.as_mut().expect("an estimate").value = frames;
            study.points[at].jobs[0].metrics.push(read);
        }
    }
    let table = told(&study).expect("two points have readings");
    let share = column(&table, "of received frames");
    let shares: Vec<Option<f64>> = table.rows.iter().map(|row| row.cells[share].value()).collect();
    assert_eq!(shares, [Some(0.0), Some(0.05)], "points without a reading are absent");
    // Beside what TCP noticed.
    assert!(table.columns.iter().any(|column| column.head == "retransmits"));
}

#[test]
fn the_highest_is_the_highest_even_if_it_is_suspect_and_the_highest_valid_stands_beside_it() {
    let (campaign, mut study) = fixture::fixture();
    let best = study
        .points
        .iter_mut()
        .find(|p| p.parameters.values().filter(|v| **v == "1 MiB").count() == 2);
    let best = best.expect("1 MiB by 1 MiB");
    best.validity = Validity::Suspect;
    let metrics = best.jobs.iter_mut().flat_map(|job| &mut job.metrics);
    for metric in metrics.filter(|metric| metric.metric == metric::GOODPUT) {
        metric.estimate.as_mut().expect("an estimate").value *= 1.001;
    }
    let summary = text::summary(&compose(&campaign, &study));
    // Lines break at 80 columns.
    let text = summary.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("highest of valid points: "), "{summary}");
    let highest = text.split("Highest ").find(|part| part.starts_with("TCP goodput "));
    let best = "message size 1 MiB, socket buffer 1 MiB";
    assert!(highest.is_some_and(|part| part.contains(best)), "{summary}");
}

/// A campaign that was ended: nothing is known against trials that never began.
#[test]
fn trials_that_were_not_run_are_not_among_those_that_are_not_valid() {
    let (mut campaign, mut study) = fixture::fixture();
    let unreached = study.points[0].trials.iter().chain(&study.points[1].trials[..1]);
    let ids: Vec<_> = unreached.map(|trial| trial.id).collect();
    for trial in campaign.trials.iter_mut().filter(|trial| ids.contains(&trial.spec.id)) {
        (trial.started, trial.outcome) = (None, None);
    }
    let trials = study.points.iter_mut().flat_map(|point| &mut point.trials);
    for trial in trials.filter(|trial| ids.contains(&trial.id)) {
        (trial.validity, trial.why) = (Validity::Invalid, vec![Reason::NotRun]);
    }
    (study.points[0].validity, study.points[0].why) = (Validity::Invalid, vec![Reason::NoFigure]);
    let document = compose(&campaign, &study);
    let rows = table(&document, "validity-trials").rows.iter();
    let told: Vec<String> = rows.map(|row| format!("{:?}", row.cells)).collect();
    let wrong =
        |row: &&String| row.contains("not run") || row.contains("no trial has a valid figure");
    assert_eq!(told.iter().filter(wrong).count(), 0, "{told:?}");
    let unrun = format!("{} trials were planned and not run", ids.len());
    assert!(text::summary(&document).contains(&unrun));
}

#[test]
fn the_port_and_the_bus_behind_it_are_both_drawn() {
    let (campaign, mut study) = fixture::fixture();
    for point in &mut study.points {
        let bounds: Vec<_> =
            point.ceilings.iter().filter(|c| c.class() == BoundClass::Link).cloned().collect();
        for mut bound in bounds {
            let part = BoundPart::new(BoundClass::Bus, "b", "pcie 0000:01:00.0")
                .with(PartDetail::Function { writes: true });
            bound.subject = CeilingSubject::Part { part, rate: BitRate(12e9), mtu: Bytes(1500) };
            bound.value *= 1.2;
            point.ceilings.push(bound);
        }
    }
    let document = compose(&campaign, &study);
    let both = document.tables().find(|table| {
        let named = |what: &str| table.columns.iter().any(|column| column.head.starts_with(what));
        named("ceiling, ethernet") && named("ceiling, pcie 0000:01:00.0 of b (writing)")
    });
    let note = &both.expect("a chart with two ceilings").note;
    assert!(note.as_ref().is_some_and(|note| note.contains("pcie 0000:01:00.0")), "{note:?}");
}

#[test]
fn of_several_jobs_the_ports_together_and_the_bus_behind_them_are_both_drawn() {
    let (campaign, mut study) = fixture::fixture();
    for point in &mut study.points {
        let Some(job) = point.jobs.first().cloned() else { continue };
        point.jobs = vec![job.clone(), job.clone(), JobStudy { workload: "all".into(), ..job }];
        let bounds: Vec<_> =
            point.ceilings.iter().filter(|c| c.class() == BoundClass::Link).cloned().collect();
        for mut bound in bounds {
            // Of one job, which is no bound of the figure they have together.
            bound.subject = "port 1, 1 Gbit/s, a to b".into();
            bound.scope = CeilingScope::Job { job: 0, pair: None };
            point.ceilings.push(bound.clone());
            let edge = |name: &str| {
                BoundPart::new(BoundClass::Link, "", format!("{name}, a to b"))
                    .with(PartDetail::Edge(name.to_owned()))
            };
            bound.subject = CeilingSubject::Parts(vec![edge("port 1"), edge("port 2")]);
            bound.scope = CeilingScope::AllJobs;
            point.ceilings.push(bound.clone());
            bound.subject = CeilingSubject::Parts(vec![edge("slot")]);
            bound.value *= 1.2;
            point.ceilings.push(bound);
        }
    }
    let document = compose(&campaign, &study);
    let heads = |table: &Table| -> Vec<String> {
        let heads = table.columns.iter().map(|column| column.head.clone());
        heads.filter(|head| head.starts_with("ceiling")).collect()
    };
    let drawn: Vec<Vec<String>> =
        document.tables().map(heads).filter(|heads| heads.len() > 1).collect();
    assert!(!drawn.is_empty(), "no chart has two ceilings");
    for heads in drawn {
        assert_eq!(heads, ["ceiling, port 1 + port 2", "ceiling, slot"]);
    }
}

#[test]
fn points_that_lost_nothing_are_told_in_one_sentence_and_losses_one_by_one() {
    let (campaign, mut study) = fixture::fixture();
    let answer = |study: &Study| {
        let mut sections = compose(&campaign, study).sections.into_iter();
        let answer = sections.find(|section| section.id == "answer").expect("a section");
        let lists = answer
            .blocks
            .into_iter()
            .filter_map(|block| if let Block::List(told) = block { Some(told) } else { None });
        lists.flatten().filter(|told| told.starts_with("disk and network")).collect::<Vec<String>>()
    };
    assert_eq!(answer(&study).len(), 4, "two losses and two without are read one by one");
    let kept =
        study.mixes.iter().find(|mix| !mix.jobs[0].lost()).expect("one that kept all").clone();
    study.mixes.extend([kept.clone(), kept]);
    // The order of the plan: lost, kept, kept, lost, kept, kept.
    study.mixes.swap(3, 5);
    let told = answer(&study);
    assert_eq!(told.len(), 3, "{told:#?}");
    let together = told[1].starts_with(
        "disk and network, 4 points: storage 99.8 % of alone (equivalent), tcp_stream",
    );
    assert!(together && told[1].contains("Combined efficiency 1.998 of 2"), "{}", told[1]);
}

#[test]
fn a_remedy_is_named_once_and_not_for_each_trial() {
    let (campaign, mut study) = fixture::fixture();
    let waited =
        |worker| Reason::Waited { job: "tcp_rr".into(), host: "a".into(), worker, share: 0.02 };
    for (worker, trial) in (0..).zip(&mut study.points[0].trials) {
        (trial.validity, trial.why) = (Validity::Suspect, vec![waited(worker)]);
    }
    let document = compose(&campaign, &study);
    let remedies = |id: &str| {
        let rows = table(&document, id).rows.iter().map(|row| format!("{:?}", row.cells));
        rows.filter(|row| row.contains("Stop them")).count()
    };
    assert_eq!([remedies("validity-reasons"), remedies("validity-trials")], [1, 0]);
}
