//! Frames at three sizes of a terminal, as text.

use linerate_campaign::live::LiveIncident;
use linerate_model::{Incident, IncidentKind, TrialId};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::*;

const SIZES: [(u16, u16); 3] = [(80, 24), (40, 12), (200, 60)];

fn end(name: &str, address: &str) -> LiveEnd {
    LiveEnd {
        name: name.into(),
        host: if name == "a" { "here".into() } else { name.into() },
        address: address.parse().ok(),
        device: Some("enp0s31f6".into()),
        speed: Some(1e9),
    }
}

fn snapshot() -> Snapshot {
    let point = |n: u64| LivePoint {
        from: Nanos::from_millis(200 * n),
        until: Nanos::from_millis(200 * (n + 1)),
        goodput: [938.2e6, 0.0],
        rtt: Some(0.0004),
        retransmits: Some(u64::from(n == 3)),
        cpu: [0.12, 0.31],
        ..LivePoint::default()
    };
    let points: Vec<LivePoint> = (0..20).map(point).collect();
    Snapshot {
        campaign: "c".into(),
        name: "to".into(),
        at: Nanos(0),
        stage: LiveStage::Trial,
        trial: Some(LiveTrial {
            id: TrialId(0),
            number: 3,
            sweep: "path".into(),
            point: Default::default(),
            repeat: 0,
            workloads: vec!["tcp_stream".into()],
            ends: [end("a", "2001:db8:aaaa:bbbb:cccc:dddd:eeee:ffff"), end("b", "192.0.2.7")],
            warmup: Nanos(0),
            loaded: Nanos::from_secs(10),
            ceilings: [Some(941.5e6), None],
        }),
        n_ended: 2,
        n_failed: 0,
        n_trials: 24,
        left: Nanos::from_secs(125),
        recent: points[15..].iter().copied().reduce(|sum, point| sum.joined(&point)),
        points,
        incidents: Vec::new(),
        n_incidents: 0,
    }
}

fn drawn(size: (u16, u16), change: impl Fn(&mut Shown<'_>), snapshot: &Snapshot) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(size.0, size.1)).expect("memory");
    let mut shown = Shown {
        snapshot,
        age: Nanos(0),
        command: "to",
        is_paused: false,
        is_ending: false,
        has_color: false,
    };
    change(&mut shown);
    terminal.draw(|frame| draw(frame, &shown)).expect("memory");
    let buffer = terminal.backend().buffer();
    let row = |y| (0..size.0).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..size.1).map(|y| row(y).trim_end().to_owned()).collect()
}

fn has(rows: &[String], parts: &[&str]) {
    for part in parts {
        assert!(rows.iter().any(|row| row.contains(part)), "no {part:?} in\n{}", rows.join("\n"));
    }
}

#[test]
fn every_size_has_all_figures_and_cuts_nothing() {
    for size in SIZES {
        let rows = drawn(size, |_| {}, &snapshot());
        has(
            &rows,
            &[
                "linerate to",
                "938.2 Mbit/s",
                "99.6 %",
                "12 | 31 %",
                "0/s",
                "trial 3 of 24",
                "4 s of 10 s",
                "2 min 5 s left",
                "q end",
                "p pause",
                "10 s",
            ],
        );
        assert!(!rows.concat().contains('\u{2026}'), "cut at {size:?}:\n{}", rows.join("\n"));
    }
}

#[test]
fn eighty_by_twenty_four_has_four_tiles_the_path_and_three_tracks() {
    let rows = drawn(SIZES[0], |_| {}, &snapshot());
    let expected = include_str!("80x24.txt");
    let text = rows.join("\n") + "\n";
    assert_eq!(text, expected, "\n{text}");
}

#[test]
fn both_directions_loss_and_requests_have_their_figures() {
    let mut shown = snapshot();
    let recent = shown.recent.as_mut().expect("it has figures");
    recent.goodput[1] = 12e6;
    recent.datagrams = Some([1000.0, 2.0]);
    has(
        &drawn(SIZES[0], |_| {}, &shown),
        &["938.2 Mbit/s \u{25b6}", "12 Mbit/s \u{25c0}", "0.20 %"],
    );
    let recent = shown.recent.as_mut().expect("it has figures");
    (recent.requests, recent.response) = (12_345.0, Some(0.002));
    has(&drawn(SIZES[0], |_| {}, &shown), &["12345/s", "p99 2 ms"]);
}

#[test]
fn a_long_warning_is_shortened_and_the_others_are_counted() {
    let mut shown = snapshot();
    let message = "word ".repeat(100);
    for n in 0..3 {
        let (host, kind) = ("b".to_owned(), IncidentKind::Clock);
        let incident = Incident { host, kind, message: format!("number {n} {message}") };
        shown.incidents.push(LiveIncident { trial: None, incident });
    }
    shown.n_incidents = 7;
    for size in SIZES {
        let rows = drawn(size, |_| {}, &shown);
        has(&rows, &["! b: number 2", "2 min 5 s left", "q end"]);
        assert!(rows.iter().all(|row| row.chars().count() <= usize::from(size.0)));
    }
    has(&drawn(SIZES[0], |_| {}, &shown), &["\u{2026} (+6 more)"]);
    has(&drawn(SIZES[2], |_| {}, &shown), &["! b: number 1"]);
}

#[test]
fn the_outlook_is_in_the_last_row() {
    let resting = |shown: &mut Snapshot| shown.stage = LiveStage::Resting;
    let mut between = snapshot();
    resting(&mut between);
    let last = |change: fn(&mut Shown<'_>), snapshot: &Snapshot| {
        drawn(SIZES[0], change, snapshot).pop().expect("24 rows")
    };
    for (row, part) in [
        (last(|shown| shown.is_paused = true, &snapshot()), "pauses after this trial"),
        (last(|shown| shown.is_paused = true, &between), "paused"),
        (last(|_| {}, &between), "2 min 5 s left"),
        (last(|shown| shown.is_paused = true, &between), "p go on"),
        (last(|shown| shown.is_ending = true, &snapshot()), "ending"),
        (last(|shown| shown.age = Nanos::from_secs(65), &snapshot()), "1 min 0 s left"),
    ] {
        assert!(row.contains(part), "{part}: {row}");
    }
}

#[test]
fn a_terminal_of_any_size_and_a_campaign_without_figures_are_drawn() {
    let nothing = Snapshot::default();
    for width in (1..120).step_by(7) {
        for height in 1..40 {
            drawn((width, height), |_| {}, &snapshot());
            drawn((width, height), |_| {}, &nothing);
        }
    }
}

#[test]
fn colour_is_used_only_where_it_is_wanted() {
    for (has_color, is_expected) in [(false, false), (true, true)] {
        let shown = snapshot();
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).expect("memory");
        let shown = Shown {
            snapshot: &shown,
            age: Nanos(0),
            command: "to",
            is_paused: false,
            is_ending: false,
            has_color,
        };
        terminal.draw(|frame| draw(frame, &shown)).expect("memory");
        let cells = &terminal.backend().buffer().content;
        assert_eq!(cells.iter().any(|cell| cell.fg != Color::Reset), is_expected);
    }
}
