//! One frame of the live view. Pure: a snapshot in, cells out.
//!
//! 80 columns and 24 rows hold everything. A smaller terminal shows the figures as lines; a larger
//! one has a higher chart and more warnings.

use linerate_answers::plan::{loads, span};
use linerate_campaign::live::{LiveEnd, LivePoint, LiveStage, LiveTrial, Snapshot};
use linerate_model::{Lines, Nanos, Unit, metric, printable};
use linerate_report::grid::coordinate;
use linerate_report::live::{in_unit, loss};
use linerate_report::number::percent;
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Paragraph, Sparkline};

use crate::chart::{Track, columns};

/// Size from which figures are in tiles, beside a picture of the path.
const LARGE: (u16, u16) = (80, 24);
/// Columns of a box at an end of the path.
const BOX: u16 = 27;
/// Columns before the chart.
const LABEL: u16 = 18;
/// Style of what matters less.
const DIM: Style = Style::new().add_modifier(Modifier::DIM);
/// Between two parts of a line.
const BETWEEN: &str = " \u{b7} ";
/// Most columns of the name of a tile.
const NAME: usize = 16;
/// No figure.
const NONE: &str = "-";

/// What is drawn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shown<'a> {
    pub(super) snapshot: &'a Snapshot,
    /// Time since the snapshot was made.
    pub(super) age: Nanos,
    /// Command that measures.
    pub(super) command: &'a str,
    /// True if no further trial will begin until the person wants it.
    pub(super) is_paused: bool,
    /// True once the person wanted the end.
    pub(super) is_ending: bool,
    pub(super) has_color: bool,
}

/// Figure in large type, with its name and a detail.
struct Tile {
    name: String,
    value: String,
    detail: String,
}

impl Shown<'_> {
    fn style(&self, color: Color) -> Style {
        if self.has_color { Style::new().fg(color) } else { Style::new() }
    }

    fn emphasis(&self, color: Color) -> Style {
        self.style(color).add_modifier(Modifier::BOLD)
    }

    /// Returns the mean over the trial so far.
    fn whole(&self) -> Option<LivePoint> {
        self.snapshot.points.iter().copied().reduce(|sum, point| sum.joined(&point))
    }

    fn names(&self) -> [String; 2] {
        let ends = self.snapshot.trial.as_ref().map(|trial| &trial.ends);
        [0, 1].map(|at| ends.map_or_else(|| NONE.to_owned(), |ends| shortened(&ends[at].name, 8)))
    }

    fn tiles(&self) -> [Tile; 4] {
        let (recent, whole) = (self.snapshot.recent, self.whole());
        let goodput = |of: LivePoint| rates(of.goodput);
        let is_both = recent.is_some_and(|recent| recent.goodput.iter().all(|way| *way > 0.0));
        let is_requests = recent.is_some_and(|recent| recent.requests > 0.0);
        let (name, value, detail) = match recent {
            Some(recent) if is_requests => {
                ("requests", per_second(recent.requests), goodput(recent)[0].clone())
            }
            Some(recent) if is_both => {
                let [there, back] = goodput(recent);
                (metric::GOODPUT.name, format!("{there} \u{25b6}"), format!("{back} \u{25c0}"))
            }
            recent => {
                let sum = |of: LivePoint| rate(of.goodput[0] + of.goodput[1]);
                let mean = whole.map_or(String::new(), |whole| format!("mean {}", sum(whole)));
                (metric::GOODPUT.name, recent.map_or(NONE.to_owned(), sum), mean)
            }
        };
        let first = Tile { name: name.to_owned(), value, detail };
        let share = self.snapshot.share();
        let ceiling = Tile {
            name: "of ceiling".to_owned(),
            value: share.map_or(NONE.to_owned(), |(share, _)| format!("{} %", percent(share))),
            detail: share.map_or("none known".to_owned(), |(_, most)| format!("of {}", rate(most))),
        };
        let [a, b] = self.names();
        let cpu = format!("cpu {a} | {b}");
        let cpu = Tile {
            name: if cpu.chars().count() > NAME { "cpu, both ends".to_owned() } else { cpu },
            value: recent.map_or(NONE.to_owned(), |recent| {
                let [a, b] = recent.cpu.map(|share| share * 100.0);
                format!("{a:.0} | {b:.0} %")
            }),
            detail: "of one CPU".to_owned(),
        };
        let last = match recent.and_then(|recent| recent.loss()) {
            Some(ratio) => Tile {
                name: metric::LOST.name.to_owned(),
                value: loss(ratio),
                detail: whole
                    .and_then(|whole| whole.loss())
                    .map_or(String::new(), |ratio| format!("trial {}", loss(ratio))),
            },
            None => Tile {
                name: metric::RETRANSMITS.name.to_owned(),
                value: recent
                    .and_then(|recent| recent.retransmits)
                    .map_or(NONE.to_owned(), |n| format!("{n}/s")),
                detail: whole
                    .and_then(|whole| whole.retransmits)
                    .map_or(String::new(), |n| format!("trial {n}")),
            },
        };
        [first, ceiling, cpu, last]
    }

    /// Returns the round-trip time, or the response time of requests.
    fn ping(&self) -> Option<(&'static str, f64)> {
        let recent = self.snapshot.recent?;
        let rtt = recent.rtt.map(|rtt| (metric::RTT.name, rtt));
        recent.response.map(|time| ("p99", time)).or(rtt)
    }

    /// Returns how far the campaign and its trial are.
    fn place(&self) -> String {
        let Snapshot { trial, points, n_trials, n_failed, stage, .. } = self.snapshot;
        let mut parts = Vec::new();
        if let Some(trial) = trial {
            parts.push(format!("trial {} of {n_trials}", trial.number));
            if *stage == LiveStage::Trial {
                let at = points.last().map_or(Nanos(0), |point| point.until);
                let [at, of] = [at, trial.loaded].map(|time| span(time.as_secs_f64().round()));
                parts.push(format!("{at} of {of}"));
            }
        }
        if *n_failed > 0 {
            parts.push(format!("{n_failed} failed"));
        }
        parts.join(BETWEEN)
    }

    /// Returns what happens next, and when.
    fn outlook(&self) -> String {
        let left = self.snapshot.left.since(self.age).as_secs_f64();
        match (self.snapshot.stage, self.is_ending, self.is_paused) {
            (_, true, _) => "ending".to_owned(),
            (LiveStage::Ended, ..) => "next step".to_owned(),
            (LiveStage::Joining, ..) => "connecting".to_owned(),
            (LiveStage::Resting, _, true) => "paused".to_owned(),
            (LiveStage::Trial, _, true) => "pauses after this trial".to_owned(),
            _ => format!("{} left", span(left)),
        }
    }

    fn keys(&self) -> &'static str {
        if self.is_paused { "q end   p go on" } else { "q end   p pause" }
    }

    /// Returns the name of what is measured.
    fn title(&self) -> String {
        let name = &self.snapshot.name;
        // Plans of single commands are named after them.
        if name.is_empty() || name == self.command {
            format!("linerate {}", self.command)
        } else {
            format!("linerate {} \u{b7} {name}", self.command)
        }
    }

    /// Returns the place of the trial in its plan.
    fn subject(&self) -> String {
        let Some(trial) = &self.snapshot.trial else { return String::new() };
        let LiveTrial { sweep, repeat, workloads, point, .. } = trial;
        let words = loads(workloads.iter().map(String::as_str));
        let place = coordinate(point);
        let place = if place.is_empty() { words } else { format!("{words}, {place}") };
        format!("{sweep}: {place} #{}", repeat + 1)
    }

    /// Returns the newest warnings, each in at most `n_rows` rows of `width`.
    fn warnings(&self, width: usize, n_rows: usize) -> Vec<String> {
        let Snapshot { incidents, n_incidents, .. } = self.snapshot;
        let mut rows = Vec::new();
        for (at, shown) in incidents.iter().rev().enumerate() {
            let incident = &shown.incident;
            let host = if incident.host.is_empty() { "" } else { ": " };
            let text = format!("! {}{host}{}", incident.host, incident.message);
            let left = n_rows - rows.len();
            let more = n_incidents.saturating_sub(at + 1);
            // The last row has the number of the others; all are printed at the end.
            let suffix = if more > 0 { format!(" (+{more} more)") } else { String::new() };
            rows.extend(wrapped(&text, width, left, &suffix));
            if rows.len() >= n_rows {
                break;
            }
            // There is room for the next one, which says so itself.
            if let Some(last) = rows.last_mut().filter(|last| last.ends_with(&suffix)) {
                last.truncate(last.len() - suffix.len());
            }
        }
        rows
    }
}

/// Returns two rates of a point.
fn rates(goodput: [f64; 2]) -> [String; 2] {
    goodput.map(rate)
}

fn rate(bits: f64) -> String {
    in_unit(Unit::BitPerSecond, bits)
}

fn per_second(rate: f64) -> String {
    format!("{rate:.0}/s")
}

/// Returns `text`, or its start with an ellipsis if it is wider than `width`.
fn shortened(text: &str, width: usize) -> String {
    let text = printable(text, Lines::One);
    if text.chars().count() <= width {
        return text.into_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['\u{2026}']).collect()
}

/// Returns `text` in rows of `width`, at most `n_rows`, the last of which ends with `suffix`.
fn wrapped(text: &str, width: usize, n_rows: usize, suffix: &str) -> Vec<String> {
    let text = printable(text, Lines::One);
    let mut rows = vec![String::new()];
    for word in text.split(' ') {
        let row = rows.last_mut().expect("there is a first row");
        let gap = usize::from(!row.is_empty());
        if row.chars().count() + gap + word.chars().count() <= width {
            row.push_str(&" "[..gap]);
            row.push_str(word);
        } else if row.is_empty() {
            row.push_str(word);
        } else {
            rows.push(word.to_owned());
        }
    }
    let is_cut = rows.len() > n_rows;
    rows.truncate(n_rows);
    if let Some(last) = rows.last_mut() {
        let room = width.saturating_sub(suffix.chars().count());
        if is_cut {
            last.push('\u{2026}');
        }
        *last = shortened(last, room) + suffix;
    }
    rows.iter().map(|row| shortened(row, width)).collect()
}

/// Draws the view.
pub(super) fn draw(frame: &mut Frame<'_>, shown: &Shown<'_>) {
    let area = frame.area();
    if area.width < LARGE.0 || area.height < LARGE.1 {
        return small(frame, shown, area);
    }
    let width = usize::from(area.width);
    let warnings = shown.warnings(width, usize::from(area.height / 10));
    let subjects = wrapped(&shown.subject(), width, 2, "");
    let [title, tiles, path, subject, chart, warned, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(4),
        Constraint::Length(5),
        Constraint::Length(subjects.len() as u16),
        Constraint::Min(6),
        Constraint::Length(warnings.len() as u16),
        Constraint::Length(2),
    ])
    .areas(area);
    line(frame, title, &shown.title(), shown.emphasis(Color::Reset));
    let places = Layout::horizontal([Constraint::Fill(1); 4]).areas::<4>(tiles);
    for (tile, place) in shown.tiles().iter().zip(places) {
        let block = Block::bordered().title(format!(" {} ", tile.name));
        let value = Line::styled(tile.value.clone(), shown.emphasis(Color::Cyan));
        let lines = vec![value, Line::from(tile.detail.clone())];
        frame.render_widget(Paragraph::new(lines).centered().block(block), place);
    }
    path_picture(frame, shown, path);
    draw_rows(frame, subject, &subjects, Style::new());
    draw_chart(frame, shown, chart);
    draw_rows(frame, warned, &warnings, shown.style(Color::Yellow));
    draw_foot(frame, shown, foot);
}

/// Draws the progress of the campaign and the keys, in two rows.
fn draw_foot(frame: &mut Frame<'_>, shown: &Shown<'_>, area: Rect) {
    let [first, second] = Layout::vertical([Constraint::Length(1); 2]).areas(area);
    line(frame, first, &shown.place(), shown.emphasis(Color::Reset));
    line(frame, second, &shown.outlook(), shown.emphasis(Color::Reset));
    frame.render_widget(Paragraph::new(shown.keys()).alignment(Alignment::Right), second);
}

/// Draws the figures as lines, with as much of the rest as there is room for.
fn small(frame: &mut Frame<'_>, shown: &Shown<'_>, area: Rect) {
    let width = usize::from(area.width);
    let tiles = shown.tiles();
    let figures = tiles.iter().map(|tile| {
        let Tile { name, value, detail } = tile;
        let full = format!("{name:<14}{value}  {detail}");
        let fits = full.trim_end().chars().count() <= width;
        if fits { full } else { format!("{name:<14}{value}") }
    });
    let mut lines: Vec<String> = figures.collect();
    let [a, b] = shown.names();
    if let Some(recent) = shown.snapshot.recent {
        let [there, back] = rates(recent.goodput);
        let ways = if recent.goodput[1] > recent.goodput[0] {
            format!("{a} \u{25c0}\u{2500} {back} \u{2500} {b}")
        } else {
            format!("{a} \u{2500} {there} \u{2500}\u{25b6} {b}")
        };
        lines.push(ways);
    }
    let warnings = shown.warnings(width, 1);
    let [title, list, chart, warned, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(lines.len() as u16),
        Constraint::Fill(1),
        Constraint::Length(warnings.len() as u16),
        Constraint::Length(2),
    ])
    .areas(area);
    line(frame, title, &shown.title(), shown.emphasis(Color::Reset));
    let lines: Vec<String> = lines.iter().map(|text| shortened(text, width)).collect();
    draw_rows(frame, list, &lines, Style::new());
    draw_chart(frame, shown, chart);
    draw_rows(frame, warned, &warnings, shown.style(Color::Yellow));
    draw_foot(frame, shown, foot);
}

fn line(frame: &mut Frame<'_>, area: Rect, text: &str, style: Style) {
    let text = shortened(text, usize::from(area.width));
    frame.render_widget(Paragraph::new(Line::styled(text, style)), area);
}

fn draw_rows(frame: &mut Frame<'_>, area: Rect, rows: &[String], style: Style) {
    let lines: Vec<Line> = rows.iter().map(|row| Line::styled(row.clone(), style)).collect();
    frame.render_widget(Paragraph::new(lines), area);
}

/// Draws both ends, and between them the rate of each direction.
fn path_picture(frame: &mut Frame<'_>, shown: &Shown<'_>, area: Rect) {
    let [left, middle, right] =
        Layout::horizontal([Constraint::Length(BOX), Constraint::Fill(1), Constraint::Length(BOX)])
            .areas(area);
    let nobody = Default::default();
    let ends = shown.snapshot.trial.as_ref().map_or(&nobody, |trial| &trial.ends);
    for (end, place) in ends.iter().zip([left, right]) {
        let name = shortened(&end.name, usize::from(BOX) - 4);
        let block = Block::bordered().title(format!(" {name} "));
        let lines: Vec<Line> = end_lines(end).into_iter().map(Line::from).collect();
        frame.render_widget(Paragraph::new(lines).block(block), place);
    }
    let Some(recent) = shown.snapshot.recent else { return };
    let ping = shown.ping().map(|(name, time)| format!("{name} {}", in_unit(Unit::Second, time)));
    let row = |way: usize| arrow(shown, way, recent.goodput[way], middle.width);
    let lines =
        vec![Line::from(""), row(0), Line::from(ping.unwrap_or_default()).centered(), row(1)];
    frame.render_widget(Paragraph::new(lines), middle);
}

/// Returns the arrow of a direction, `width` columns wide. The figure stands at the sender's end.
fn arrow(shown: &Shown<'_>, way: usize, bits: f64, width: u16) -> Line<'static> {
    let text = rate(bits);
    let rest = usize::from(width).saturating_sub(text.chars().count() + 6);
    let shaft = "\u{2500}".repeat(rest);
    let row = if way == 0 {
        format!(" \u{2500} {text} {shaft}\u{25b6} ")
    } else {
        format!(" \u{25c0}{shaft} {text} \u{2500} ")
    };
    Line::styled(row, if bits > 0.0 { shown.style(Color::Cyan) } else { DIM })
}

/// Returns at most three rows about an end.
fn end_lines(end: &LiveEnd) -> Vec<String> {
    let width = usize::from(BOX) - 2;
    // The longest IPv6 address takes two rows.
    let address = end.address.map(|address| address.to_string()).unwrap_or_default();
    let letters: Vec<char> = address.chars().collect();
    let mut lines: Vec<String> = letters.chunks(width).map(|row| row.iter().collect()).collect();
    let device = end.device.as_deref().map(|name| shortened(name, 16));
    let parts: Vec<String> = device.into_iter().chain(end.speed.map(rate)).collect();
    lines.push(shortened(&parts.join(BETWEEN), width));
    if end.host != end.name {
        lines.push(shortened(&format!("host {}", end.host), width));
    }
    lines.retain(|line| !line.is_empty());
    lines.truncate(3);
    lines
}

/// Draws the course of the trial: tracks below each other over one axis of time.
fn draw_chart(frame: &mut Frame<'_>, shown: &Shown<'_>, area: Rect) {
    let Some(trial) = shown.snapshot.trial.as_ref().filter(|_| area.height >= 2) else { return };
    let is_small = area.width < LARGE.0;
    let label = if is_small { 0 } else { LABEL };
    let [body, axis] = Layout::vertical([Constraint::Fill(1), Constraint::Length(1)]).areas(area);
    let rows = columns(&shown.snapshot.points, trial, usize::from(body.width - label));
    let tracks: Vec<Track> = rows.into_iter().filter(|track| track.has_figures()).collect();
    // A small terminal has room for the first.
    let n_tracks = if body.height < 6 { 1 } else { tracks.len() };
    let heights = tracks.iter().take(n_tracks).map(|track| Constraint::Fill(track.height));
    let places = Layout::vertical(heights).split(body);
    for (track, place) in tracks.iter().zip(places.iter()) {
        let [head, bars] =
            Layout::horizontal([Constraint::Length(label), Constraint::Fill(1)]).areas(*place);
        let top = format!("0 to {}", track.top());
        let heads = vec![Line::from(track.name), Line::from(top)];
        frame.render_widget(Paragraph::new(heads), head);
        let color = match track.name {
            name if name == metric::GOODPUT.name => Color::Cyan,
            name if name == metric::RTT.name => Color::Magenta,
            _ => Color::Red,
        };
        let data = track.bars(bars.height);
        let sparkline = Sparkline::default()
            .data(data)
            .max(Track::FULL)
            .absent_value_symbol(" ")
            .style(shown.style(color));
        frame.render_widget(sparkline, bars);
    }
    let [_, axis] =
        Layout::horizontal([Constraint::Length(label), Constraint::Fill(1)]).areas(axis);
    let (from, until) = ("0 s", span(trial.loaded.as_secs_f64()));
    let gap = usize::from(axis.width).saturating_sub(from.len() + until.len());
    let text = format!("{from}{}{until}", " ".repeat(gap));
    line(frame, axis, &text, DIM);
}

#[cfg(test)]
mod tests;
