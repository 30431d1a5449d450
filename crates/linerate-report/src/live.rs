//! Lines of `linerate to`: two of header (three for long addresses), one a second while it
//! measures, at most four of result. No line of them is wider than [`WIDTH`] columns.

use core::net::IpAddr;

use linerate_analysis::Refusal;
use linerate_analysis::live::LiveLine;
use linerate_model::{BitRate, Bytes, Nanos, Unit, Validity, metric};

use crate::commands::continued;
use crate::number::{Scale, percent};
use crate::sentences::refusal;

/// Columns of the narrowest terminal that lines are laid out for.
const WIDTH: usize = 80;
/// Space between two columns.
const GAP: &str = "  ";
/// Characters of a full bar.
const BAR_WIDTH: usize = 8;
/// A character of a bar by its eighths.
const EIGHTHS: [char; 9] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];
/// Most lines of a result.
const RESULT_LINES: usize = 4;
/// Between two figures of a result.
const BETWEEN: &str = " · ";

/// Kind of load, which decides about the columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadKind {
    /// Bytes over TCP.
    Stream,
    /// Datagrams.
    Datagrams,
    /// Requests and responses.
    Requests,
}

/// Subject and form of the lines.
#[derive(Clone, Copy, Debug)]
pub struct LiveForm<'a> {
    /// Kind of load.
    pub kind: LoadKind,
    /// True if data goes both ways.
    pub is_both: bool,
    /// Length of the warm-up.
    pub omit: Nanos,
    /// Text before each line.
    pub title: Option<&'a str>,
    /// Letter of iperf3 for the unit of all rates.
    pub unit: Option<&'a str>,
}

/// Table of complete lines, with a heading before the first.
#[derive(Debug)]
pub struct LiveTable {
    kind: LoadKind,
    is_both: bool,
    omit: Nanos,
    /// Text before each line.
    title: String,
    unit: Option<RateUnit>,
    /// Highest goodput that the path allows, bit/s.
    ceiling: Option<f64>,
    headed: bool,
}

/// Unit of all rates.
#[derive(Clone, Copy, Debug)]
struct RateUnit {
    name: &'static str,
    bits: f64,
}

/// Letters of units, as iperf3 has them: bits with small letters, bytes with capital ones.
const UNITS: [(&str, RateUnit); 8] = [
    ("k", RateUnit { name: "kbit/s", bits: 1e3 }),
    ("m", RateUnit { name: "Mbit/s", bits: 1e6 }),
    ("g", RateUnit { name: "Gbit/s", bits: 1e9 }),
    ("t", RateUnit { name: "Tbit/s", bits: 1e12 }),
    ("K", RateUnit { name: "kB/s", bits: 8e3 }),
    ("M", RateUnit { name: "MB/s", bits: 8e6 }),
    ("G", RateUnit { name: "GB/s", bits: 8e9 }),
    ("T", RateUnit { name: "TB/s", bits: 8e12 }),
];

/// Column of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LiveColumn {
    /// Payload from the active end, or of the only direction.
    Forward,
    /// Payload from the passive end.
    Backward,
    /// Bar and share of the ceiling.
    Share,
    Requests,
    /// Response time at one of the quantiles of a line.
    Time(usize),
    Lost,
    Jitter,
    Retransmits,
    RoundTrip,
    Cpu,
}

use LiveColumn::{
    Backward, Cpu, Forward, Jitter, Lost, Requests, Retransmits, RoundTrip, Share, Time,
};

impl LiveColumn {
    /// Returns heading and width.
    const fn head(self) -> (&'static str, usize) {
        match self {
            Forward => ("tx", 13),
            Backward => ("rx", 13),
            Share => ("of ceiling", BAR_WIDTH + 8),
            Requests => ("requests", 9),
            Time(0) => ("p50", 9),
            Time(1) => ("p99", 9),
            Time(_) => ("p99.9", 9),
            Lost => ("lost", 8),
            Jitter => ("jitter", 9),
            Retransmits => ("retrans", 7),
            RoundTrip => (metric::RTT.name, 9),
            Cpu => ("cpu a | b", 11),
        }
    }
}

impl LiveTable {
    /// Returns an empty table.
    #[must_use]
    pub fn new(form: &LiveForm<'_>) -> Self {
        let LiveForm { kind, is_both, omit, title, unit } = *form;
        let unit = UNITS.iter().find(|(letter, _)| Some(*letter) == unit).map(|(_, unit)| *unit);
        let title = title.map(|title| format!("{title}:  ")).unwrap_or_default();
        Self { kind, is_both, omit, title, unit, ceiling: None, headed: false }
    }

    /// Shows goodput as a share of `ceiling`, bit/s, from now on.
    pub fn set_ceiling(&mut self, ceiling: Option<f64>) {
        // The share of a sum would need the ceiling of the sum.
        self.ceiling = ceiling.filter(|bits| !self.is_both && *bits > 0.0);
    }

    fn columns(&self) -> Vec<LiveColumn> {
        let mut columns = match (self.kind, self.is_both) {
            (LoadKind::Requests, _) => vec![Requests, Time(0), Time(1), Time(2), Lost],
            (LoadKind::Stream | LoadKind::Datagrams, true) => vec![Forward, Backward],
            (LoadKind::Stream | LoadKind::Datagrams, false) => vec![Forward],
        };
        if self.ceiling.is_some() && self.kind != LoadKind::Requests {
            columns.push(Share);
        }
        columns.extend(match self.kind {
            LoadKind::Stream => &[Retransmits, RoundTrip, Cpu][..],
            LoadKind::Datagrams => &[Lost, Jitter, Cpu],
            LoadKind::Requests => &[Cpu],
        });
        columns
    }

    /// Returns `line`, below the heading if it is the first.
    pub fn line(&mut self, line: &LiveLine) -> String {
        let columns = self.columns();
        let mut text = String::new();
        if !std::mem::replace(&mut self.headed, true) {
            let heads = columns.iter().map(|column| self.heading(*column));
            text = self.joined(&format!("{:>13}", "seconds"), heads);
        }
        let remark = match line {
            _ if line.is_drain => Some("(drain: not in the result)"),
            // A line across the end of the warm-up counts in part, so it is not marked.
            _ if line.until <= self.omit => Some("(omitted)"),
            _ => None,
        };
        let cells = columns.iter().map(|column| {
            let (_, width) = column.head();
            format!("{:>width$}", self.cell(*column, line))
        });
        let [from, until] = [line.from, line.until].map(|at| format!("{:.1}", at.as_secs_f64()));
        let span = match from == until {
            // An end that looks like the beginning is read as a mistake.
            true => format!("{:>13}", format!("after {from}")),
            false => format!("{from:>5} - {until:<5}"),
        };
        text + &match remark {
            // What a remark is about does not fit beside all columns.
            Some(remark) => {
                let n_rates = if self.is_both { 2 } else { 1 };
                self.joined(&span, cells.take(n_rates).chain([remark.to_owned()]))
            }
            None => self.joined(&span, cells),
        }
    }

    fn heading(&self, column: LiveColumn) -> String {
        let (head, width) = column.head();
        let text = match (column, self.ceiling) {
            (Share, Some(ceiling)) => format!("of {}", self.rate(ceiling)),
            (Forward, _) if !self.is_both => metric::GOODPUT.name.to_owned(),
            _ => head.to_owned(),
        };
        format!("{text:>width$}")
    }

    fn joined(&self, first: &str, cells: impl Iterator<Item = String>) -> String {
        let cells: Vec<String> = [first.to_owned()].into_iter().chain(cells).collect();
        format!("{}{}\n", self.title, cells.join(GAP).trim_end())
    }

    fn cell(&self, column: LiveColumn, line: &LiveLine) -> String {
        let seconds = line.seconds();
        // A dash shows an idle direction better than a zero.
        let rate = |bytes: f64| (bytes != 0.0).then(|| self.rate(bytes * 8.0 / seconds));
        let time = |seconds: Option<f64>| seconds.map(|one| in_unit(Unit::Second, one));
        let text = match column {
            Forward if self.is_both => rate(line.forward_bytes),
            Forward => rate(line.forward_bytes + line.backward_bytes),
            Backward => rate(line.backward_bytes),
            Share => self.ceiling.map(|ceiling| {
                let bits = (line.forward_bytes + line.backward_bytes) * 8.0 / seconds;
                share_bar(bits / ceiling)
            }),
            Requests => Some(format!("{:.0}/s", line.requests() / seconds)),
            Time(at) => time(line.times[at]),
            Lost => match self.kind {
                LoadKind::Requests => line.operations.map(|of| format!("{:.0}", of.lost)),
                _ => line.datagrams.map(|of| loss(of.lost / of.expected)),
            },
            Jitter => time(line.jitter),
            Retransmits => line.retransmits.map(|n| n.to_string()),
            RoundTrip => time(line.rtt),
            Cpu => {
                let [a, b] = line.cpu.map(|share| share * 100.0);
                Some(format!("{a:.0} | {b:.0} %"))
            }
        };
        text.unwrap_or_else(|| "-".to_owned())
    }

    /// Returns a rate of `bits` per second.
    fn rate(&self, bits: f64) -> String {
        match self.unit {
            Some(unit) => format!("{:.2} {}", bits / unit.bits, unit.name),
            None => in_unit(Unit::BitPerSecond, bits),
        }
    }
}

/// Returns `value` in the unit that reads best.
pub fn in_unit(unit: Unit, value: f64) -> String {
    // A request that was never answered has no time in any unit.
    if value.is_infinite() {
        return "∞".to_owned();
    }
    Scale::fit(unit, [value]).shown(value)
}

/// Returns the share of datagrams that were lost. Those of an earlier line are no negative loss.
pub fn loss(ratio: f64) -> String {
    let ratio = ratio.clamp(0.0, 1.0);
    // A few of a million are not none.
    if ratio > 0.0 && ratio < 1e-4 {
        "<0.01 %".to_owned()
    } else {
        format!("{:.2} %", ratio * 100.0)
    }
}

/// Returns a bar of the share, and the share.
fn share_bar(share: f64) -> String {
    format!("{} {:>5} %", bar(share, BAR_WIDTH), percent(share))
}

/// Returns a bar of `width` characters, of which `share` is filled.
pub(crate) fn bar(share: f64, width: usize) -> String {
    let n_eighths = (share.clamp(0.0, 1.0) * (width * 8) as f64).floor() as usize;
    (0..width).map(|at| EIGHTHS[n_eighths.saturating_sub(at * 8).min(8)]).collect()
}

/// Header of a measurement.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PathHeader {
    /// This end, and the other.
    pub ends: [HeaderEnd; 2],
    /// Word of the mode: `tcp`, `udp`, `rr`.
    pub mode: &'static str,
    /// Congestion control, and whether it was chosen; `None` without TCP, or if nobody knows it.
    pub congestion: Option<(String, bool)>,
    /// Offered load of datagrams, all streams together; `Some(None)` for no limit.
    pub offered: Option<Option<String>>,
    /// Socket buffers.
    pub buffers: Option<HeaderBuffers>,
}

/// One end in the header.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeaderEnd {
    /// Its address.
    pub address: Option<IpAddr>,
    /// Its device.
    pub device: Option<String>,
    /// Speed that the device reports.
    pub speed: Option<BitRate>,
}

/// Socket buffers in the header.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum HeaderBuffers {
    /// Of this size.
    Chosen(Bytes),
    /// Sized by the kernel, at most to send and to receive.
    Automatic(Option<Bytes>, Option<Bytes>),
}

impl PathHeader {
    /// Returns the two lines.
    #[must_use]
    pub fn text(&self) -> String {
        let [here, there] = &self.ends;
        let mut of_load = vec![self.mode.to_owned()];
        of_load.extend(self.congestion.iter().map(|(name, is_chosen)| {
            format!("{name} ({})", if *is_chosen { "chosen" } else { "the host's default" })
        }));
        of_load.extend(self.offered.iter().map(|rate| match rate {
            Some(rate) => format!("{rate} offered"),
            None => "as fast as possible".to_owned(),
        }));
        of_load.extend(self.buffers.map(|buffers| match buffers {
            HeaderBuffers::Chosen(size) => format!("buffers {size}"),
            HeaderBuffers::Automatic(send, receive) => {
                let most =
                    |size: Option<Bytes>| size.map_or("?".to_owned(), |size| size.to_string());
                format!("buffers automatic, to {} out, {} in", most(send), most(receive))
            }
        }));
        let of_path = [format!("{} to", here.text()), there.text()];
        format!("{}\n{}\n", packed(&of_path, " ").join("\n"), packed(&of_load, BETWEEN).join("\n"))
    }
}

impl HeaderEnd {
    fn text(&self) -> String {
        let address = self.address.map_or("?".to_owned(), |address| address.to_string());
        let speed = self.speed.map(|speed| in_unit(Unit::BitPerSecond, speed.0));
        let device = match (&self.device, speed) {
            (Some(device), Some(speed)) => format!(" ({device}, {speed})"),
            (Some(device), None) if device == "lo" => format!(" ({device})"),
            (Some(device), None) => format!(" ({device}, speed unknown)"),
            (None, _) => String::new(),
        };
        address + &device
    }
}

/// Result of a measurement in a few lines.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PathSummary {
    /// Protocol or kind of load: `TCP`, `rr`.
    pub subject: String,
    /// Goodput, bit/s: of one direction, or from and to this end.
    pub goodput: Vec<f64>,
    /// Reason why there is no goodput, if it was withheld.
    pub withheld: Option<Refusal>,
    /// Course of a rate without a level, whose figure is the mean over the run.
    pub unsettled: Option<String>,
    /// Requests per second, and response times at the quantiles of lines, seconds.
    pub requests: Option<(f64, [Option<f64>; 3])>,
    /// Goodput as a share of its ceiling, and the ceiling, bit/s.
    pub ceiling: Option<(f64, f64)>,
    /// Round-trip time of the idle path and under load, seconds.
    pub rtt: (Option<f64>, Option<f64>),
    /// Segments sent again.
    pub retransmits: Option<u64>,
    /// Share of the datagrams that were lost.
    pub loss: Option<f64>,
    /// Jitter, seconds.
    pub jitter: Option<f64>,
    /// CPU seconds of both ends per gigabyte.
    pub cost: Option<f64>,
    /// Validity.
    pub validity: Validity,
    /// Status of the bottleneck, claim, and command of the next step.
    pub bottleneck: Option<(&'static str, Option<String>, Option<String>)>,
    /// Measured and wanted time of a measurement that ended early, and why.
    pub cut: Option<(Nanos, Option<Nanos>, PathCut)>,
}

/// Reason for which a measurement ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathCut {
    /// A person stopped it.
    Interrupted,
    /// The other end was lost.
    AgentLost,
    /// It could no longer be recorded.
    NotRecorded,
    /// The trial failed.
    Failed,
}

impl PathSummary {
    /// Returns at most four lines.
    #[must_use]
    pub fn text(&self) -> String {
        let mut rest: Vec<String> = Vec::new();
        if let Some((status, claim, command)) = &self.bottleneck {
            let line = |claim: &str| format!("bottleneck: {status}{claim}");
            let claim = claim.as_ref().map(|claim| line(&format!(": {claim}")));
            // A claim that needs more lines is in the long form.
            let claim = claim.filter(|line| width(line) <= WIDTH).unwrap_or_else(|| line(""));
            rest.push(claim);
            if let Some(command) = command {
                rest.extend(next(command));
            }
        }
        let mut lines = packed(&self.figures(), BETWEEN);
        lines.truncate(RESULT_LINES.saturating_sub(rest.len()).max(1));
        lines.extend(rest);
        lines.join("\n") + "\n"
    }

    /// Returns the figures, the most important first.
    fn figures(&self) -> Vec<String> {
        let time = |seconds| in_unit(Unit::Second, seconds);
        let mut figures = vec![self.headline()];
        figures.extend(self.unsettled.iter().map(|course| format!("mean: the rate {course}")));
        // What does not fit is left out from the end, and a doubtful figure must say so.
        if self.validity != Validity::Valid {
            figures.push(format!("{} (reasons: -v)", self.validity.word()));
        }
        figures.extend(self.cut.map(|(measured, wanted, why)| cut(measured, wanted, why)));
        figures.extend(self.requests.iter().flat_map(|(_, times)| {
            let named = ["p50", "p99", "p99.9"].into_iter().zip(times);
            named.filter_map(|(name, one)| Some(format!("{name} {}", time((*one)?))))
        }));
        figures.extend(match self.rtt {
            (Some(idle), Some(loaded)) => {
                Some(format!("rtt {} idle, {} under load", time(idle), time(loaded)))
            }
            (None, loaded) => loaded.map(|loaded| format!("rtt {} under load", time(loaded))),
            (Some(_), None) => None,
        });
        figures.extend(self.loss.map(|ratio| format!("lost {}", loss(ratio))));
        figures.extend(self.jitter.map(|jitter| format!("jitter {}", time(jitter))));
        figures.extend(self.retransmits.map(|n| format!("retrans {n}")));
        figures.extend(self.cost.map(|cost| format!("{cost:.2} CPU s/GB")));
        figures
    }

    fn headline(&self) -> String {
        let Self { subject, .. } = self;
        if let Some((rate, _)) = self.requests {
            return format!("{subject} {rate:.0} requests/s");
        }
        let rate = |bits: &f64| in_unit(Unit::BitPerSecond, *bits);
        match (&self.goodput[..], self.ceiling) {
            ([], _) => {
                let none = format!("{subject}: no figure");
                let why = self.withheld.as_ref().map(|why| format!("{none}: {}", refusal(why)));
                why.filter(|line| width(line) <= WIDTH).unwrap_or(none)
            }
            ([one], Some((share, ceiling))) => {
                format!("{subject} {} = {} % of {}", rate(one), percent(share), rate(&ceiling))
            }
            ([one], None) => format!("{subject} {}", rate(one)),
            ([tx, rx, ..], _) => format!("{subject} {} tx, {} rx", rate(tx), rate(rx)),
        }
    }
}

fn cut(measured: Nanos, wanted: Option<Nanos>, why: PathCut) -> String {
    let why = match why {
        PathCut::Interrupted => "interrupted",
        PathCut::AgentLost => "the other end was lost",
        PathCut::NotRecorded => "not recorded",
        PathCut::Failed => "failed",
    };
    // Lines are no shorter than a tenth of a second.
    let seconds = |time: Nanos| (time.as_secs_f64() * 10.0).round() / 10.0;
    let wanted = wanted.map(|wanted| format!(" of {}", seconds(wanted))).unwrap_or_default();
    format!("{why} after {}{wanted} s", seconds(measured))
}

/// Returns the next step as a shell accepts it.
fn next(command: &str) -> Vec<String> {
    const LABEL: &str = "next: ";
    /// Most lines of a command beside figures and the bottleneck.
    const MOST: usize = 2;
    let mut lines = continued(command, LABEL.len());
    if lines.len() > MOST {
        // Half a command is worse than none.
        return vec![format!("{LABEL}-v prints the command of the next step")];
    }
    lines[0].insert_str(0, LABEL);
    lines
}

/// Returns `parts` in lines, with `between` two of a line. A line breaks between parts.
fn packed(parts: &[String], between: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for part in parts {
        match lines.last_mut() {
            Some(last) if width(last) + width(between) + width(part) <= WIDTH => {
                *last += between;
                *last += part;
            }
            _ => lines.push(part.clone()),
        }
    }
    lines
}

fn width(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use linerate_analysis::live::{LiveDatagrams, LiveOperations};

    use super::*;

    fn line() -> LiveLine {
        LiveLine {
            until: Nanos::from_secs(1),
            forward_bytes: 1.1725e8,
            retransmits: Some(3),
            rtt: Some(0.0004),
            cpu: [0.121, 1.31],
            ..LiveLine::default()
        }
    }

    fn form(kind: LoadKind) -> LiveForm<'static> {
        LiveForm { kind, is_both: false, omit: Nanos(0), title: None, unit: None }
    }

    fn narrow(text: &str) {
        for line in text.lines() {
            assert!(width(line) <= WIDTH, "{} columns: {line}", width(line));
        }
    }

    #[test]
    fn a_letter_of_iperf3_fixes_the_unit_and_a_title_begins_each_line() {
        for (unit, rate) in [
            (None, "938 Mbit/s"),
            (Some("k"), "938000.00 kbit/s"),
            (Some("m"), "938.00 Mbit/s"),
            (Some("M"), "117.25 MB/s"),
        ] {
            let form = LiveForm { title: Some("lab"), unit, ..form(LoadKind::Stream) };
            let mut table = LiveTable::new(&form);
            let first = table.line(&line());
            assert!(first.contains(rate), "{unit:?}: {first}");
            assert_eq!(first.lines().filter(|line| line.starts_with("lab:  ")).count(), 2);
            assert_eq!(table.line(&line()).lines().count(), 1, "one heading");
        }
    }

    #[test]
    fn each_load_has_its_columns_and_a_bar_where_a_ceiling_is_known() {
        let mut stream = LiveTable::new(&form(LoadKind::Stream));
        stream.set_ceiling(Some(941e6));
        let text = stream.line(&line());
        narrow(&text);
        assert_eq!(
            text,
            "      seconds        goodput     of 941 Mbit/s  retrans        rtt    cpu a | b\n  0.0 - \
             1.0       938 Mbit/s  ███████▉  99.7 %        3   400.0 µs   12 | 131 %\n"
        );
        let of_datagrams = LiveLine {
            datagrams: Some(LiveDatagrams { expected: 1000.0, lost: 52.0 }),
            jitter: Some(2.5e-5),
            ..line()
        };
        let mut datagrams = LiveTable::new(&form(LoadKind::Datagrams));
        datagrams.set_ceiling(Some(957.1e6));
        let text = datagrams.line(&of_datagrams);
        narrow(&text);
        assert!(text.contains("98.0 %    5.20 %   25.00 µs"), "{text}");
        let of_requests = LiveLine {
            transactions: 2844.0,
            times: [Some(1.5e-5), Some(0.003953), None],
            operations: Some(LiveOperations { lost: 2.0, ..LiveOperations::default() }),
            ..line()
        };
        let text = LiveTable::new(&form(LoadKind::Requests)).line(&of_requests);
        narrow(&text);
        assert!(text.contains("2844/s   15.00 µs   3.953 ms          -         2"), "{text}");
        let both = LiveForm { is_both: true, ..form(LoadKind::Stream) };
        let mut both = LiveTable::new(&both);
        both.set_ceiling(Some(941e6));
        let text = both.line(&LiveLine { backward_bytes: 5e7, ..line() });
        narrow(&text);
        assert!(text.contains("938 Mbit/s     400 Mbit/s        3"), "{text}");
    }

    #[test]
    fn lines_outside_of_the_measurement_say_so() {
        let omit = LiveForm { omit: Nanos::from_secs(1), ..form(LoadKind::Stream) };
        let mut table = LiveTable::new(&omit);
        assert!(table.line(&line()).ends_with("938 Mbit/s  (omitted)\n"));
        let drain = LiveLine { is_drain: true, until: Nanos::from_secs(2), ..line() };
        let text = table.line(&drain);
        assert!(text.contains("(drain: not in the result)"), "{text}");
        narrow(&text);
        let short = LiveLine { from: Nanos::from_millis(999), until: Nanos::from_secs(1), ..drain };
        assert!(table.line(&short).starts_with("    after 1.0"), "{}", table.line(&short));
        let tenth = LiveLine { from: Nanos::from_millis(901), ..short };
        assert!(table.line(&tenth).starts_with("  0.9 - 1.0"), "{}", table.line(&tenth));
        let measured = LiveLine { until: Nanos::from_millis(1500), ..line() };
        assert!(!table.line(&measured).contains('('));
    }

    #[test]
    fn a_bar_is_as_long_as_the_share_and_a_small_loss_is_not_none() {
        assert_eq!(share_bar(0.0), "           0.0 %");
        assert_eq!(share_bar(0.5), "████      50.0 %");
        assert_eq!(share_bar(2.0), "████████ 200.0 %");
        let lost = |lost: f64| loss(lost / 1e6);
        assert_eq!([lost(0.0), lost(-3.0), lost(1.0)], ["0.00 %", "0.00 %", "<0.01 %"]);
        assert_eq!(lost(2e6), "100.00 %");
    }

    #[test]
    fn a_header_names_both_ends_and_the_settings_in_two_lines() {
        let end = |address: &str, speed| HeaderEnd {
            address: address.parse().ok(),
            device: Some("eth0".to_owned()),
            speed,
        };
        let header = PathHeader {
            ends: [end("192.0.2.1", Some(BitRate(1e9))), end("192.0.2.7", None)],
            mode: "tcp",
            congestion: Some(("bbr".to_owned(), false)),
            offered: None,
            buffers: Some(HeaderBuffers::Automatic(Some(Bytes(4 << 20)), Some(Bytes(32 << 20)))),
        };
        narrow(&header.text());
        assert_eq!(
            header.text(),
            "192.0.2.1 (eth0, 1 Gbit/s) to 192.0.2.7 (eth0, speed unknown)\n\
             tcp · bbr (the host's default) · buffers automatic, to 4 MiB out, 32 MiB in\n"
        );
        let udp = PathHeader {
            mode: "udp",
            offered: Some(Some("50 Mbit/s".to_owned())),
            buffers: Some(HeaderBuffers::Chosen(Bytes(1 << 16))),
            ..PathHeader::default()
        };
        assert_eq!(udp.text(), "? to ?\nudp · 50 Mbit/s offered · buffers 64 KiB\n");
    }

    fn summary() -> PathSummary {
        PathSummary {
            subject: "TCP".to_owned(),
            goodput: vec![938e6],
            ceiling: Some((0.997, 941e6)),
            rtt: (Some(4e-5), Some(4e-4)),
            retransmits: Some(0),
            cost: Some(1.4),
            bottleneck: Some((
                "suspected",
                Some("the link is saturated".to_owned()),
                Some("linerate diagnose --to 192.0.2.7".to_owned()),
            )),
            ..PathSummary::default()
        }
    }

    #[test]
    fn a_result_has_at_most_four_lines_of_eighty_columns() {
        assert_eq!(
            summary().text(),
            "TCP 938 Mbit/s = 99.7 % of 941 Mbit/s · rtt 40.00 µs idle, 400.0 µs under load\n\
             retrans 0 · 1.40 CPU s/GB\n\
             bottleneck: suspected: the link is saturated\n\
             next: linerate diagnose --to 192.0.2.7\n"
        );
        let long = "linerate diagnose --to loopback --param congestion=host --param direction=tx \
                    --param 'pacing_rate=500 Mbit/s'";
        let wordy = "the receiver's window ".repeat(5);
        let bottleneck = Some(("suspected", Some(wordy), Some(long.to_owned())));
        let crowded = PathSummary {
            validity: Validity::Suspect,
            cut: Some((Nanos::from_secs(3), Some(Nanos::from_secs(10)), PathCut::Interrupted)),
            bottleneck,
            ..summary()
        };
        let text = crowded.text();
        narrow(&text);
        assert_eq!(text.lines().count(), 4, "{text}");
        assert!(text.contains("bottleneck: suspected\nnext: linerate diagnose"), "{text}");
        assert!(text.contains("suspect (reasons: -v)"), "{text}");
        // A shell reads both lines as the command.
        let shell = text.split("next: ").nth(1).expect("a step").replace("\\\n", "");
        let words: Vec<&str> = shell.split_whitespace().collect();
        assert_eq!(words.join(" "), long);
        let longer = format!("{long} {}", "--param 'message_size=64 KiB' ".repeat(3).trim_end());
        let without =
            PathSummary { bottleneck: Some(("inconclusive", None, Some(longer))), ..summary() };
        assert!(without.text().ends_with("next: -v prints the command of the next step\n"));
    }

    #[test]
    fn a_result_that_was_cut_off_says_when_and_why() {
        let planned = Some(Nanos::from_secs(10));
        for (why, wanted, text) in [
            (PathCut::Interrupted, planned, "interrupted after 3.2 of 10 s"),
            (PathCut::Interrupted, None, "interrupted after 3.2 s"),
            (PathCut::AgentLost, planned, "the other end was lost after 3.2 of 10 s"),
            (PathCut::NotRecorded, planned, "not recorded after 3.2 of 10 s"),
        ] {
            let cut = Some((Nanos::from_millis(3200), wanted, why));
            let cut = PathSummary { cut, ..summary() };
            assert!(cut.text().contains(text), "{}", cut.text());
        }
        assert_eq!(
            PathSummary { subject: "TCP".into(), ..PathSummary::default() }.text(),
            "TCP: no figure\n"
        );
    }

    #[test]
    fn requests_have_a_rate_and_times() {
        let of_requests = PathSummary {
            subject: "rr".to_owned(),
            goodput: vec![1e6, 1e6],
            requests: Some((2844.4, [Some(1.5e-5), Some(4e-3), Some(f64::INFINITY)])),
            ..PathSummary::default()
        };
        assert_eq!(of_requests.text(), "rr 2844 requests/s · p50 15.00 µs · p99 4 ms · p99.9 ∞\n");
    }
}
