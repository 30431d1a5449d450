//! Lines of `linerate to` while it measures.

use linerate_analysis::live::LiveLine;
use linerate_model::{Nanos, metric};

use crate::figures::quantity;

/// Table of complete lines, with a heading before the first.
#[derive(Debug)]
pub struct LiveTable {
    /// Text before each line.
    title: String,
    omit: Nanos,
    headed: bool,
    unit: Option<RateUnit>,
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

impl LiveTable {
    /// Returns the table of a measurement that begins after `omit`, with `title` before each line
    /// and rates in the `unit` of this letter of iperf3.
    #[must_use]
    pub fn new(omit: Nanos, title: Option<&str>, unit: Option<&str>) -> Self {
        let unit = UNITS.iter().find(|(letter, _)| Some(*letter) == unit).map(|(_, unit)| *unit);
        let title = title.map(|title| format!("{title}:  ")).unwrap_or_default();
        Self { title, omit, headed: false, unit }
    }

    /// Returns `line`, below the heading if it is the first.
    pub fn line(&mut self, line: &LiveLine) -> String {
        let mut text = String::new();
        let seconds = line.until.since(line.from).as_secs_f64();
        // Each connection of `crr` carries one request.
        let operations = if line.connections > 0.0 { line.connections } else { line.transactions };
        let of_requests = operations > 0.0 || line.operations.is_some();
        if !self.headed {
            let heads = if of_requests { ["operations", ""] } else { ["tx", "rx"] };
            text = format!(
                "{}{:>13}  {:>14}  {:>14}  {:>8}  {:>9}\n",
                self.title,
                "seconds",
                heads[0],
                heads[1],
                "retrans",
                metric::RTT.name
            );
            self.headed = true;
        }
        let none = || "-".to_owned();
        // A dash shows an idle direction better than a zero.
        let shown = |bytes: f64| (bytes != 0.0).then(|| self.rate(bytes * 8.0 / seconds));
        let rate = |bytes| shown(bytes).unwrap_or_else(none);
        // Open operations are those of all lines so far, so that lines and result add up.
        let unanswered =
            line.operations.map(|of| format!("{:.0} lost, {:.0} open", of.lost, of.open));
        let [forward, backward] = match of_requests {
            false => [rate(line.forward_bytes), rate(line.backward_bytes)],
            true => [format!("{:.0}/s", operations / seconds), unanswered.unwrap_or_default()],
        };
        let retransmits = line.retransmits.map_or_else(none, |n| n.to_string());
        let rtt = line.rtt.map_or_else(none, |rtt| format!("{:.0} us", rtt * 1e6));
        let remark = match line {
            _ if line.is_drain => "  (drain: not in the result)",
            // A line across the end of the warm-up counts in part, so it is not marked.
            _ if line.until <= self.omit => "  (omitted)",
            _ => "",
        };
        let (from, until) = (line.from.as_secs_f64(), line.until.as_secs_f64());
        text + &format!(
            "{}{from:>5.1} - {until:<5.1}  {forward:>14}  {backward:>14}  {retransmits:>8}  \
                {rtt:>9}{remark}\n",
            self.title
        )
    }

    /// Returns a rate of `bits` per second.
    fn rate(&self, bits: f64) -> String {
        match self.unit {
            Some(unit) => format!("{:.2} {}", bits / unit.bits, unit.name),
            None => quantity(metric::GOODPUT, bits),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_letter_of_iperf3_fixes_the_unit_and_a_title_begins_each_line() {
        let line = LiveLine {
            from: Nanos(0),
            until: Nanos::from_secs(1),
            is_drain: false,
            forward_bytes: 1.25e8,
            backward_bytes: 0.0,
            transactions: 0.0,
            connections: 0.0,
            operations: None,
            retransmits: Some(3),
            rtt: None,
        };
        for (unit, rate) in [
            (None, "1 Gbit/s"),
            (Some("k"), "1000000.00 kbit/s"),
            (Some("m"), "1000.00 Mbit/s"),
            (Some("M"), "125.00 MB/s"),
        ] {
            let mut table = LiveTable::new(Nanos(0), Some("lab"), unit);
            let first = table.line(&line);
            assert!(first.contains(rate), "{unit:?}: {first}");
            assert_eq!(first.lines().filter(|line| line.starts_with("lab:  ")).count(), 2);
            assert_eq!(table.line(&line).lines().count(), 1, "one heading");
        }
    }
}
