//! Answer of `linerate probe`: the facts of a path, one row each, with interval and method.

use linerate_analysis::path::{ClockOffset, Fact, Limiter, Method, PathFacts};
use linerate_campaign::probe::ProbeBudget;
use linerate_load::workloads::FLOOD_LOSS;
use linerate_model::{BitRate, Bytes, Nanos, Ratio, TestbedKind, Unit};
use linerate_report::Document;
use linerate_report::document::{Block, Origin, Section, Table};
use linerate_report::number::Scale;
use serde_json::json;

/// Columns of the table.
const HEADS: [&str; 5] = ["fact", "value", "interval at 95 %", "n", "method"];
/// Rate of a further probe in rates that the path carried.
const FURTHER: f64 = 10.0;
/// Time at its highest rate that a probe needs for its ramp (0.2 s) and for a flood that fills a
/// queue of 0.1 s.
const AT_HIGHEST_RATE_S: f64 = 0.32;

/// Share of the pings above which the path clears the ECN field as a rule.
const MOSTLY: f64 = 0.5;

/// Returns the answer for the directions in `facts`.
pub fn document(facts: &[PathFacts], testbed: TestbedKind) -> Document {
    let json = json!({ "path": facts });
    Document::answer(
        "Facts of a path",
        "one probe",
        Origin::Measured(testbed),
        vec![section(facts)],
        json,
    )
}

/// Adds the facts of a path to `answer`, if there are any.
pub fn add(facts: &[PathFacts], answer: &mut Document) {
    if !facts.is_empty() {
        answer.sections.push(section(facts));
        answer.study["path"] = json!(facts);
    }
}

/// Returns the section with the facts of each direction.
fn section(facts: &[PathFacts]) -> Section {
    let mut blocks: Vec<Block> = facts.iter().flat_map(direction_blocks).collect();
    blocks.push(Block::Paragraph(
        "Rates and sizes count IP packets (layer 3). A fact that is not listed is not known. \
            docs/methodology/path-probe.md describes each method and its limits."
            .to_owned(),
    ));
    let notes: Vec<String> = facts.iter().flat_map(notes).collect();
    if !notes.is_empty() {
        blocks.push(Block::List(notes));
    }
    Section { id: "path", title: "Path", blocks }
}

/// Returns the sentence and the table of one direction.
fn direction_blocks(facts: &PathFacts) -> [Block; 2] {
    let id = format!("facts-{}-{}", facts.from, facts.to);
    let caption = format!("Facts of the path from {} to {}", facts.from, facts.to);
    let table = Table::of_words(id, caption, &HEADS, &rows(facts));
    [Block::Paragraph(summary(facts)), Block::Table(table)]
}

/// Returns the direction of `facts`.
fn direction(facts: &PathFacts) -> String {
    format!("{} to {}", facts.from, facts.to)
}

/// Returns one sentence on the limit of a direction.
fn summary(facts: &PathFacts) -> String {
    let way = direction(facts);
    let rate = facts.capacity.map(|capacity| bit_rate(capacity.value));
    match (facts.limiter, rate) {
        (Some(Limiter::Link), Some(rate)) => format!("{way}: a link or queue carries {rate}."),
        (Some(Limiter::Shaper), Some(rate)) => {
            format!("{way}: a shaper with a token bucket carries {rate}.")
        }
        (Some(Limiter::Policer), Some(rate)) => {
            format!("{way}: a policer passes {rate} and drops the rest.")
        }
        (_, Some(rate)) => {
            format!("{way}: trains of datagrams arrive at {rate}; no sustained rate exceeded it.")
        }
        (_, None) => match facts.carried {
            Some(carried) => {
                format!("{way}: no limit was found up to {}.", bit_rate(carried))
            }
            None => format!("{way}: no rate was measured."),
        },
    }
}

fn rows(facts: &PathFacts) -> Vec<Vec<String>> {
    let mut rows = Rows(Vec::new());
    rows.add("capacity", facts.capacity, bit_rate);
    // Without a capacity the highest rate that passed is all that is known.
    if facts.capacity.is_none() {
        let bound = match facts.sender_limit {
            Some(_) => "lower bound: the sender was the limit",
            None => "lower bound: no higher rate was sent",
        };
        rows.bound("capacity, at least", facts.carried.map(bit_rate), bound);
    }
    rows.add("rate of trains", facts.burst_rate, bit_rate);
    rows.add("token bucket", facts.token_bucket.map(|tokens| tokens.bucket), bytes);
    rows.add("base round-trip time", facts.base_rtt, time);
    rows.add("loaded round-trip time", facts.loaded_rtt, time);
    let bound = if facts.is_queue_full { "" } else { ", at least" };
    rows.add(&format!("queue delay{bound}"), facts.queue_time, time);
    rows.add(&format!("queue depth{bound}"), facts.queue_bytes, bytes);
    rows.add("loss below capacity", facts.idle_loss, ratio);
    rows.add("loss in the flood", facts.flood_loss, ratio);
    rows.add("path MTU", facts.mtu, bytes);
    rows.plain("MTU of the interface", facts.routed_mtu.map(bytes));
    rows.add("jitter", facts.jitter, time);
    rows.add("reordering", facts.reordered, ratio);
    rows.add("duplication", facts.duplicated, ratio);
    rows.add("pings with ECN marked by a queue", facts.ecn_marked, ratio);
    rows.add("pings with ECN cleared", facts.ecn_cleared, ratio);
    if let Some(ClockOffset { ahead_ns, within, n }) = facts.clock {
        let within = format!("within {}", time(within));
        let name = "monotonic clock of the receiver ahead by";
        let cells = [name, &ahead(ahead_ns), &within, &n.to_string()];
        let cells = cells.into_iter().chain([method(Method::Pings)]);
        rows.0.push(cells.map(str::to_owned).collect());
    }
    for queue in &facts.local {
        let name = format!("{} on {}, bits of frames", queue.discipline, queue.device);
        rows.add(&name, Some(Fact::exact(queue.rate, Method::Kernel)), bit_rate);
    }
    rows.0
}

/// Rows of one direction.
struct Rows(Vec<Vec<String>>);

impl Rows {
    fn add<T: Copy + PartialEq>(
        &mut self,
        name: &str,
        fact: Option<Fact<T>>,
        shown: fn(T) -> String,
    ) {
        let Some(fact) = fact else { return };
        let interval = match fact.low == fact.high {
            true => String::new(),
            false => range(&shown(fact.low), &shown(fact.high)),
        };
        let n = fact.n.to_string();
        let cells = [name, &shown(fact.value), &interval, &n, method(fact.method)];
        self.0.push(cells.map(str::to_owned).to_vec());
    }

    fn plain(&mut self, name: &str, value: Option<String>) {
        self.bound(name, value, "");
    }

    /// Adds a value that has `bound` in place of an interval.
    fn bound(&mut self, name: &str, value: Option<String>, bound: &str) {
        if let Some(value) = value {
            let cells = [name, &value, bound, "", ""];
            self.0.push(cells.map(str::to_owned).to_vec());
        }
    }
}

/// Returns what the reader must know beside the figures.
fn notes(facts: &PathFacts) -> Vec<String> {
    let way = direction(facts);
    let mut notes = Vec::new();
    if facts.has_smaller_mtu() {
        notes.push(format!(
            "{way}: packets larger than the path MTU vanish although the interface sends them."
        ));
    }
    if facts.ecn_cleared.is_some_and(|share| share.low.0 > MOSTLY) {
        notes.push(format!(
            "{way}: the path clears the ECN field, so no queue on it can mark packets instead of \
                dropping them."
        ));
    }
    if let Some(reached) = facts.sender_limit {
        notes.push(format!(
            "{way}: the sender reached only {}: linerate, and not the path, was the limit.",
            bit_rate(reached)
        ));
    } else if let Some(limits) = further(facts) {
        notes.push(format!(
            "{way}: the probe did not exceed the path. If more load is acceptable, run \
                `linerate probe` with `{limits}`."
        ));
    }
    if facts.receiver_drops > 0 {
        notes.push(format!(
            "{way}: the receiver's socket dropped {} datagrams, which count as lost.",
            facts.receiver_drops
        ));
    }
    notes
}

/// Returns the options of a probe that may find the limit of a path that carried all rates that
/// were sent.
fn further(facts: &PathFacts) -> Option<String> {
    // On a path with this loss at every rate, a higher rate ends as early.
    let is_lossy = facts.idle_loss.is_some_and(|loss| loss.value.0 > FLOOD_LOSS);
    let carried = facts.carried.filter(|_| facts.capacity.is_none() && !is_lossy)?;
    // One significant digit: the rate that was reached is a little below a round one.
    let digit = 10_f64.powf(carried.0.max(1.0).log10().floor());
    let rate = FURTHER * (carried.0 / digit).round() * digit;
    let least = ProbeBudget::default().max_bytes.0 as f64;
    let bytes = (rate / 8.0 * AT_HIGHEST_RATE_S).max(least);
    Some(format!("--max-rate '{}' --max-bytes '{:.0} MB'", BitRate(rate), bytes / 1e6))
}

/// Returns an interval, with the unit once if both ends have the same.
fn range(low: &str, high: &str) -> String {
    match (low.split_once(' '), high.split_once(' ')) {
        (Some((number, unit)), Some((_, same))) if unit == same => format!("{number} to {high}"),
        _ => format!("{low} to {high}"),
    }
}

fn bit_rate(rate: BitRate) -> String {
    scaled(Unit::BitPerSecond, rate.0)
}

fn time(time: Nanos) -> String {
    scaled(Unit::Second, time.as_secs_f64())
}

/// Returns the distance of two clocks in seconds, to the microsecond. A unit chosen by its size
/// would hide the digits that are measured.
fn ahead(ns: i64) -> String {
    // Rounded first: less than half a microsecond behind is no "-0.000000".
    let micros = (ns as f64 / 1e3).round() + 0.0;
    format!("{:.6} s", micros / 1e6)
}

fn ratio(ratio: Ratio) -> String {
    scaled(Unit::Ratio, ratio.0)
}

fn bytes(bytes: Bytes) -> String {
    format!("{} B", bytes.0)
}

fn scaled(unit: Unit, value: f64) -> String {
    let scale = Scale::fit(unit, [value]);
    format!("{} {}", scale.plain(value), scale.symbol)
}

const fn method(method: Method) -> &'static str {
    match method {
        Method::Flood => "flood",
        Method::Trains => "trains",
        Method::Envelope => "envelope",
        Method::Pings => "pings",
        Method::Ramp => "ramp",
        Method::Sizes => "sizes",
        Method::Kernel => "kernel",
    }
}

#[cfg(test)]
mod tests {
    use linerate_report::text;

    use super::*;

    #[test]
    fn the_distance_of_two_clocks_has_microseconds_and_no_negative_zero() {
        let expected = ["0.000000 s", "-0.000001 s", "90061.000002 s"];
        assert_eq!([-340, -1400, 90_061_000_002_300].map(ahead), expected);
    }

    #[test]
    fn known_facts_have_rows_and_unknown_ones_have_none() {
        let capacity = Fact {
            value: BitRate(19.81e6),
            low: BitRate(19.7e6),
            high: BitRate(19.9e6),
            n: 10,
            method: Method::Flood,
        };
        let facts = PathFacts {
            from: "a".into(),
            to: "b".into(),
            limiter: Some(Limiter::Policer),
            capacity: Some(capacity),
            mtu: Some(Fact::exact(Bytes(1400), Method::Sizes)),
            routed_mtu: Some(Bytes(1500)),
            ..PathFacts::default()
        };
        let answer = document(&[facts], TestbedKind::Lab);
        let text = text::whole(&answer);
        for part in ["a policer passes 19.81 Mbit/s", "19.70 to 19.90 Mbit/s", "1400 B", "vanish"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("token bucket") && !text.contains("queue"), "{text}");
        assert!(!text.contains("ECN") && !text.contains("clock"), "{text}");
        assert_eq!(answer.study["path"][0]["capacity"]["value"], "19.81 Mbit/s");
    }

    #[test]
    fn cleared_ecn_and_the_clock_of_the_receiver_are_reported() {
        let text_of = |cleared: f64| {
            let clock = ClockOffset { ahead_ns: -86_399_999_988_000, within: Nanos(20_000), n: 57 };
            let (clock, ecn_cleared) =
                (Some(clock), Some(Fact::exact(Ratio(cleared), Method::Pings)));
            let facts = PathFacts { clock, ecn_cleared, ..PathFacts::default() };
            text::whole(&document(&[facts], TestbedKind::Hosts))
        };
        let text = text_of(1.0);
        for part in ["-86399.999988 s", "within 20", "57", "clears the ECN field", "100 %"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text_of(0.0).contains("clears"));
    }

    #[test]
    fn a_lower_bound_names_its_kind_and_the_options_of_a_further_probe() {
        let text_of = |facts: PathFacts| {
            let lines = text::whole(&document(&[facts], TestbedKind::Hosts));
            lines.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        let carried = PathFacts { carried: Some(BitRate(199.2e6)), ..PathFacts::default() };
        let text = text_of(carried.clone());
        for part in ["no higher rate was sent", "--max-rate '2 Gbit/s' --max-bytes '80 MB'"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let text = text_of(PathFacts { sender_limit: Some(BitRate(171e6)), ..carried.clone() });
        assert!(
            text.contains("the sender was the limit") && !text.contains("--max-rate"),
            "{text}"
        );
        // More of the same load would find no limit.
        let lossy = Some(Fact::exact(Ratio(0.1), Method::Ramp));
        assert!(!text_of(PathFacts { idle_loss: lossy, ..carried }).contains("--max-rate"));
    }
}
