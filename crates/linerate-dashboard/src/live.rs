//! The campaign that runs at this moment, as its page shows it.
//!
//! The process that measures sends snapshots through a socket beside its ledger, and never waits
//! for a reader. One thread reads the socket of a ledger for all pages that show it. A page that
//! does not keep up gets the newest state and misses those before it.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use linerate_campaign::live::{LivePoint, LiveStage, Snapshot, connect};
use linerate_model::{Nanos, Unit, metric};
use linerate_report::document::{AxisScale, Cell, Chart, Column, Mark, Plot, Role, Row, Table};
use linerate_report::number::{Scale, percent};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::watch;

use crate::address::Key;

/// Time without a snapshot after which the socket is opened anew: the first answer to a new reader
/// is the newest state.
const PATIENCE: Duration = Duration::from_secs(5);

/// Pause before a socket that could not be opened, or was closed, is opened again.
const PAUSE: Duration = Duration::from_millis(500);

/// Stage of a campaign whose state cannot be read at the moment.
const UNREACHABLE: &str = "unreachable";

/// Newest state of a campaign as JSON.
pub(crate) type News = watch::Receiver<Arc<str>>;

/// Running campaigns that pages show.
#[derive(Debug, Default)]
pub(crate) struct Hub {
    watched: Mutex<HashMap<Key, Weak<watch::Sender<Arc<str>>>>>,
}

impl Hub {
    /// Returns the states of campaign `key`, which is recorded into `path`. The queue ends with the
    /// campaign, which `is_running` says until its first state is known.
    pub(crate) fn watch(
        &self,
        key: &Key,
        path: &Path,
        is_running: impl Fn() -> bool + Send + 'static,
    ) -> std::io::Result<News> {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        watched.retain(|_, sender| sender.strong_count() > 0);
        if let Some(sender) = watched.get(key).and_then(Weak::upgrade) {
            return Ok(sender.subscribe());
        }
        let sender = Arc::new(watch::Sender::new(Arc::from("")));
        let news = sender.subscribe();
        watched.insert(key.clone(), Arc::downgrade(&sender));
        let (path, id) = (path.to_owned(), key.id.clone());
        let named = thread::Builder::new().name("live".to_owned());
        named.spawn(move || follow(&path, &id, &sender, is_running))?;
        Ok(news)
    }
}

/// Passes snapshots of campaign `id` on, until it ends or nobody looks.
fn follow(path: &Path, id: &str, sender: &watch::Sender<Arc<str>>, is_running: impl Fn() -> bool) {
    let (mut shown, mut n_refused): (Option<View>, u32) = (None, 0);
    let show = |view: &View| {
        sender.send_replace(serde_json::to_string(view).unwrap_or_default().into());
    };
    while !sender.is_closed() {
        match connect(path, Some(PATIENCE)) {
            Ok(snapshots) => {
                n_refused = 0;
                for snapshot in snapshots {
                    // The ledger is that of a later campaign, too.
                    if snapshot.campaign != id {
                        return;
                    }
                    show(shown.insert(view(&snapshot)));
                    if snapshot.stage == LiveStage::Ended || sender.is_closed() {
                        return;
                    }
                }
            }
            // The campaign removed its socket, because it is over.
            Err(error) if error.kind() == ErrorKind::NotFound && shown.is_some() => return,
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                n_refused += 1;
                // Nobody listens: the campaign was killed. Once, it may just be about to listen.
                if n_refused > 1 {
                    show(&View { stage: "interrupted", ..shown.unwrap_or_default() });
                    return;
                }
            }
            Err(_) if !is_running() => return,
            Err(_) => show(&View { stage: UNREACHABLE, ..shown.clone().unwrap_or_default() }),
        }
        thread::sleep(PAUSE);
    }
}

/// State as a page shows it: texts of figures, and charts as data.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
struct View {
    stage: &'static str,
    trial: Option<usize>,
    n_ended: usize,
    n_trials: usize,
    n_failed: usize,
    left: String,
    workloads: String,
    ends: Option<[String; 2]>,
    point: String,
    figures: Figures,
    /// Length of the bar of the ceiling, per cent.
    bar: Option<f64>,
    rates: Option<Value>,
    times: Option<Value>,
    incidents: Vec<String>,
    n_incidents: usize,
}

/// Figures of the latest second.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
struct Figures {
    goodput: Option<String>,
    ceiling: Option<String>,
    cpu: Option<String>,
    rtt: Option<String>,
    response: Option<String>,
    requests: Option<String>,
    retransmits: Option<String>,
    loss: Option<String>,
}

fn view(snapshot: &Snapshot) -> View {
    let trial = snapshot.trial.as_ref();
    let share = snapshot.share();
    View {
        stage: match snapshot.stage {
            LiveStage::Joining => "joining",
            LiveStage::Trial => "measuring",
            LiveStage::Resting => "resting",
            LiveStage::Ended => "ended",
        },
        trial: trial.map(|trial| trial.number),
        n_ended: snapshot.n_ended,
        n_trials: snapshot.n_trials,
        n_failed: snapshot.n_failed,
        left: clock(snapshot.left),
        workloads: trial.map_or_else(String::new, |trial| trial.workloads.join(", ")),
        ends: trial.map(|trial| [0, 1].map(|end| trial.ends[end].host.clone())),
        point: trial
            .map_or_else(String::new, |trial| linerate_report::grid::coordinate(&trial.point)),
        figures: snapshot.recent.as_ref().map(|recent| figures(recent, share)).unwrap_or_default(),
        bar: share.map(|(share, _)| (share * 100.0).clamp(0.0, 100.0)),
        rates: rates(snapshot),
        times: times(snapshot),
        incidents: snapshot
            .incidents
            .iter()
            .rev()
            .map(|one| one.incident.message.clone())
            .collect(),
        n_incidents: snapshot.n_incidents,
    }
}

fn figures(recent: &LivePoint, share: Option<(f64, f64)>) -> Figures {
    let in_unit = |unit, value: f64| Scale::fit(unit, [value]).shown(value);
    let ways: Vec<String> = match recent.goodput {
        [there, 0.0] => vec![in_unit(Unit::BitPerSecond, there)],
        [0.0, back] => vec![in_unit(Unit::BitPerSecond, back)],
        both => both.map(|rate| in_unit(Unit::BitPerSecond, rate)).to_vec(),
    };
    Figures {
        goodput: Some(ways.join(" | ")),
        ceiling: share.map(|(share, ceiling)| {
            format!("{} % of {}", percent(share), in_unit(Unit::BitPerSecond, ceiling))
        }),
        cpu: Some(recent.cpu.map(|share| format!("{:.0} %", share * 100.0)).join(" | ")),
        rtt: recent.rtt.map(|seconds| in_unit(Unit::Second, seconds)),
        response: recent.response.map(|seconds| in_unit(Unit::Second, seconds)),
        requests: (recent.requests > 0.0).then(|| in_unit(Unit::PerSecond, recent.requests)),
        retransmits: recent.retransmits.map(|n| n.to_string()),
        loss: recent.loss().map(|share| format!("{:.2} %", share * 100.0)),
    }
}

/// Minutes and seconds, as a clock shows them.
fn clock(left: Nanos) -> String {
    let seconds = left.0.div_ceil(Nanos::from_secs(1).0);
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    match hours {
        0 => format!("{minutes}:{:02}", seconds % 60),
        _ => format!("{hours}:{minutes:02}:{:02}", seconds % 60),
    }
}

/// A column of the course, drawn as a line or as bars.
type Drawn<'a> = (&'a str, Unit, Role, Vec<Option<f64>>);

/// Returns the course of goodput beside its ceilings, with segments sent again as bars.
fn rates(snapshot: &Snapshot) -> Option<Value> {
    let (points, trial) = (&snapshot.points, snapshot.trial.as_ref()?);
    let mut drawn: Vec<Drawn<'_>> = Vec::new();
    let names = [[metric::GOODPUT.title; 2], ["goodput there", "goodput back"]];
    let way = |way: usize| points.iter().map(move |point| Some(point.goodput[way]));
    let is_used = |at: usize| points.iter().any(|point| point.goodput[at] > 0.0);
    let used: Vec<usize> = (0..2).filter(|at| is_used(*at)).collect();
    for at in &used {
        let name = names[usize::from(used.len() > 1)][*at];
        drawn.push((name, Unit::BitPerSecond, Role::Line, way(*at).collect()));
    }
    for (nth, at) in used.iter().enumerate() {
        if let Some(ceiling) = trial.ceilings[*at] {
            let role = Role::Ceiling(Some(nth));
            drawn.push(("ceiling", Unit::BitPerSecond, role, vec![Some(ceiling); points.len()]));
        }
    }
    let again: Vec<_> = points.iter().map(|one| one.retransmits.map(|n| n as f64)).collect();
    if again.iter().flatten().any(|n| *n > 0.0) {
        drawn.push((metric::RETRANSMITS.title, Unit::Count, Role::Second, again));
    }
    chart("live-rates", metric::GOODPUT.name, snapshot, &drawn)
}

/// Returns the course of the round-trip times, or of the response times of requests.
fn times(snapshot: &Snapshot) -> Option<Value> {
    let points = &snapshot.points;
    let of = |time: fn(&LivePoint) -> Option<f64>| points.iter().map(time).collect::<Vec<_>>();
    let both = [
        ("round-trip time under load", of(|point| point.rtt)),
        ("response time, p99", of(|point| point.response)),
    ];
    let known = both.into_iter().filter(|(_, times)| times.iter().flatten().next().is_some());
    let drawn: Vec<Drawn<'_>> =
        known.map(|(name, times)| (name, Unit::Second, Role::Line, times)).collect();
    chart("live-times", "time", snapshot, &drawn)
}

/// Returns a chart over the time of the trial as data; `None` without anything to draw.
fn chart(
    id: &str,
    y_name: &str,
    Snapshot { points, trial, .. }: &Snapshot,
    drawn: &[Drawn<'_>],
) -> Option<Value> {
    let trial = trial.as_ref()?;
    let warmup = trial.warmup.as_secs_f64();
    if drawn.is_empty() || points.len() < 2 {
        return None;
    }
    let mut columns = vec![Column::number("time", Scale::SECONDS)];
    let mut marks = Vec::new();
    for (name, unit, role, _) in drawn {
        let alike = drawn.iter().filter(|(_, other, ..)| other == unit);
        let values = alike.flat_map(|(.., values)| values.iter().flatten().copied());
        marks.push(Mark { column: columns.len(), name: (*name).to_owned(), role: *role });
        columns.push(Column::number(*name, Scale::fit(*unit, values)));
    }
    let mut table = Table::new(id, y_name, columns);
    for (at, point) in points.iter().enumerate() {
        let mut cells = vec![Cell::Number(point.until.as_secs_f64())];
        cells.extend(drawn.iter().map(|(.., values)| match values[at] {
            Some(value) if value.is_finite() => Cell::Number(value),
            _ => Cell::Missing("–".to_owned()),
        }));
        table.rows.push(Row::plain(cells));
    }
    let mut spec = linerate_report::chart_spec(&Chart {
        x_scale: AxisScale::Linear,
        measured_from: (warmup > 0.0).then_some(warmup),
        ..Chart::of(Plot::Series, y_name, marks, table)
    });
    // An axis that grows with every reading would never be still.
    spec["until"] = trial.loaded.as_secs_f64().into();
    Some(spec)
}

#[cfg(test)]
mod tests {
    use linerate_campaign::live::{Live, LiveSocket, LiveTrial, socket_path};

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    /// Stages of campaign `id` that a page shows, until their end. Calls `on` for each.
    fn stages(path: &Path, id: &str, is_running: bool, mut on: impl FnMut(&str)) -> Vec<String> {
        let key = Key { ledger: "x".to_owned(), id: id.to_owned() };
        let mut news = Hub::default().watch(&key, path, move || is_running).expect("a thread");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let mut seen: Vec<String> = Vec::new();
        runtime.expect("a runtime").block_on(async {
            while tokio::time::timeout(LONG, news.changed()).await.expect("it ends").is_ok() {
                let shown: Value = serde_json::from_str(&news.borrow_and_update()).expect("JSON");
                let stage = shown["stage"].as_str().expect("a stage");
                if seen.last().is_none_or(|last| last != stage) {
                    seen.push(stage.to_owned());
                    on(stage);
                }
            }
        });
        seen
    }

    fn of(campaign: &str, stage: LiveStage) -> Arc<Snapshot> {
        Arc::new(Snapshot { campaign: campaign.to_owned(), stage, ..Snapshot::default() })
    }

    #[test]
    fn a_page_shows_its_own_campaign_and_not_a_later_one_in_the_same_ledger() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, live) = (folder.path().join("x.ledger"), Live::default());
        let _socket = LiveSocket::open(&live, &path).expect("the folder is ours");
        live.offer(&of("later", LiveStage::Trial));
        assert_eq!(stages(&path, "earlier", true, |_| ()), Vec::<String>::new());
        // Both are watched by one hub, each by its own identity.
        let hub = Hub::default();
        let watch = |id: &str| {
            let key = Key { ledger: "x".to_owned(), id: id.to_owned() };
            hub.watch(&key, &path, || true).expect("a thread")
        };
        assert!(!watch("earlier").same_channel(&watch("later")));
        assert!(watch("later").same_channel(&watch("later")));
    }

    #[test]
    fn a_campaign_ends_was_killed_or_cannot_be_reached_and_these_differ() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x.ledger");
        let (live, mut socket) = (Live::default(), None);
        // The campaign runs, and its socket comes later.
        let mut n_unreachable = 0;
        let seen = stages(&path, "c", true, |stage| match stage {
            "unreachable" => {
                // Two more attempts find nothing.
                thread::sleep(PAUSE * 3);
                n_unreachable += 1;
                socket = LiveSocket::open(&live, &path);
                live.offer(&of("c", LiveStage::Trial));
            }
            _ => {
                live.offer(&of("c", LiveStage::Ended));
                drop(socket.take());
            }
        });
        assert_eq!(
            (seen, n_unreachable),
            (["unreachable", "measuring", "ended"].map(str::to_owned).to_vec(), 1)
        );
        assert_eq!(stages(&path, "c", false, |_| ()), Vec::<String>::new(), "it does not run");
        // A listener that is closed leaves its file, as a kill does.
        let left = std::os::unix::net::UnixListener::bind(socket_path(&path));
        drop(left.expect("the name is free"));
        assert_eq!(stages(&path, "c", true, |_| ()), ["interrupted"]);
    }

    fn point(at: u64, rate: f64) -> LivePoint {
        LivePoint {
            from: Nanos::from_secs(at),
            until: Nanos::from_secs(at + 1),
            goodput: [rate, 0.0],
            rtt: Some(0.0123),
            retransmits: Some(at),
            cpu: [0.12, 0.31],
            ..LivePoint::default()
        }
    }

    fn snapshot() -> Snapshot {
        Snapshot {
            stage: LiveStage::Trial,
            trial: Some(LiveTrial {
                id: linerate_model::TrialId(4),
                number: 3,
                sweep: "s".to_owned(),
                point: Default::default(),
                repeat: 0,
                workloads: vec!["tcp_stream".to_owned()],
                ends: Default::default(),
                warmup: Nanos::from_secs(1),
                loaded: Nanos::from_secs(10),
                ceilings: [Some(100e6), None],
            }),
            n_ended: 2,
            n_trials: 9,
            left: Nanos::from_millis(3_661_001),
            recent: Some(point(2, 93.7e6)),
            points: vec![point(0, 80e6), point(1, 94e6), point(2, 93.7e6)],
            ..Snapshot::default()
        }
    }

    #[test]
    fn a_page_gets_the_figures_of_the_latest_second_with_their_units() {
        let View { stage, figures, left, bar, n_ended, trial, .. } = view(&snapshot());
        assert_eq!((stage, trial, n_ended, left.as_str()), ("measuring", Some(3), 2, "1:01:02"));
        assert_eq!(figures.goodput.as_deref(), Some("93.70 Mbit/s"));
        assert_eq!(figures.ceiling.as_deref(), Some("93.7 % of 100 Mbit/s"));
        assert_eq!(figures.cpu.as_deref(), Some("12 % | 31 %"));
        assert_eq!(figures.rtt.as_deref(), Some("12.30 ms"));
        assert_eq!((figures.retransmits.as_deref(), figures.loss), (Some("2"), None));
        assert_eq!(bar.map(f64::round), Some(94.0));
    }

    #[test]
    fn the_chart_has_every_point_its_ceiling_and_retransmits() {
        let drawn = view(&snapshot()).rates.expect("there are three points");
        let marks = drawn["marks"].as_array().expect("marks");
        let roles: Vec<&str> = marks.iter().filter_map(|mark| mark["role"].as_str()).collect();
        assert_eq!(roles, ["line", "ceiling", "second"]);
        let ys: Vec<f64> = marks[0]["points"]
            .as_array()
            .expect("points")
            .iter()
            .filter_map(|point| point["y"].as_f64())
            .collect();
        assert_eq!((ys, &drawn["y"]["unit"]), (vec![80.0, 94.0, 93.7], &"Mbit/s".into()));
        assert_eq!((&drawn["measured_from"], &drawn["until"]), (&1.0.into(), &10.0.into()));
        let few = Snapshot { points: vec![point(0, 1.0)], ..snapshot() };
        assert_eq!(view(&few).rates, None, "one point is no line");
    }
}
