//! Answers of `linerate to stamp://HOST` and `linerate serve stamp`: lines, the result and JSON.
//!
//! Round trips are without the time that the reflector took. The two clocks have an unknown offset,
//! so the delay of one direction is known as a variation only: the time above its own minimum.

use std::net::SocketAddr;

use linerate_analysis::statistics::{Offset, exchange};
use linerate_campaign::path::PathQuestion;
use linerate_model::{Distribution, Nanos, PacketRate, metric};
use linerate_stamp::reflector::Reflected;
use linerate_stamp::send::{Outcome, SendOptions};
use linerate_stamp::session::{Exchange, LossMethod, Losses, Session};
use linerate_stamp::wire::PORT;
use serde_json::{Value, json};

use crate::figures::quantity;

const NANOS_PER_SECOND: f64 = 1e9;
/// Quantiles of the answer. One above the median is left out where fewer than ten packets are beyond
/// it.
const QUANTILES: [(&str, f64); 4] =
    [("median", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];
/// Change of the wall clock during a session that spoils its times, ns.
const STEPPED_NS: i128 = 1_000_000;

fn time(nanos: f64) -> String {
    quantity(metric::RTT, nanos / NANOS_PER_SECOND)
}

/// Returns a time as text; an infinite one is that of a lost packet.
fn time_or_lost(nanos: f64) -> String {
    if nanos.is_finite() { time(nanos) } else { metric::LOST.name.to_owned() }
}

/// Returns the distribution of `values`; `n_lost` packets have none.
fn distribution(mut values: Vec<u64>, n_lost: u32) -> Distribution {
    values.sort_unstable();
    let runs = values.chunk_by(|a, b| a == b).map(|run| (run[0], run.len() as u64));
    Distribution { lost: u64::from(n_lost), ..Distribution::of(runs.collect()) }
}

/// Complete lines of a session that runs.
#[derive(Debug)]
pub struct StampLines {
    /// Packets of a line.
    per_line: usize,
    /// Time between two packets, s.
    gap: f64,
    /// Packets in lines so far.
    n_done: usize,
    lines: Vec<StampLine>,
}

impl StampLines {
    /// Returns the lines of a session with these `options`, as `question` wants them.
    #[must_use]
    pub fn new(options: &SendOptions, question: &PathQuestion) -> Self {
        let gap = options.gap.as_secs_f64();
        let span = question.span(Nanos::from_secs_f64(gap * f64::from(options.n_packets)));
        let per_line = ((span.as_secs_f64() / gap).round() as usize).max(1);
        Self { per_line, gap, n_done: 0, lines: Vec::new() }
    }

    /// Returns the lines that are complete since the last call; with `is_over` all that are left.
    /// Replies to the last packets of a line may be on their way, so it waits for half of the next
    /// one.
    pub fn advance(&mut self, session: &Session, is_over: bool) -> &[StampLine] {
        let n_sent = session.n_sent() as usize;
        let n_lines = self.lines.len();
        while self.n_done < n_sent {
            let end = self.n_done + self.per_line;
            if !is_over && n_sent < end + self.per_line.div_ceil(2) {
                break;
            }
            let last = end.min(n_sent);
            let times = [self.n_done, last].map(|number| number as f64 * self.gap);
            self.lines.push(StampLine::of(session, [self.n_done, last], times));
            self.n_done = last;
        }
        &self.lines[n_lines..]
    }

    /// Returns all complete lines.
    #[must_use]
    pub fn all(&self) -> &[StampLine] {
        &self.lines
    }
}

/// Returns what a session sends, in one line.
#[must_use]
pub fn subject(options: &SendOptions) -> String {
    format!(
        "STAMP to {}: {} packets of {} B, {}",
        options.to,
        options.n_packets,
        options.bytes,
        PacketRate(1.0 / options.gap.as_secs_f64())
    )
}

/// Packets of one line: from one time since the start until another, s.
#[derive(Clone, Debug)]
pub struct StampLine {
    from_s: f64,
    until_s: f64,
    n_sent: u32,
    times: Distribution,
}

impl StampLine {
    /// Returns the line of the packets `first..last` of `session`, sent between these times.
    #[must_use]
    pub fn of(session: &Session, [first, last]: [usize; 2], [from_s, until_s]: [f64; 2]) -> Self {
        let exchanges = session.exchanges(first).take(last.saturating_sub(first));
        let (times, n_lost) = round_trips(exchanges);
        Self {
            from_s,
            until_s,
            n_sent: last.saturating_sub(first) as u32,
            times: distribution(times, n_lost),
        }
    }

    fn n_replied(&self) -> u64 {
        self.times.count() - self.times.lost
    }

    /// Returns the line as text.
    #[must_use]
    pub fn text(&self) -> String {
        let seconds = format!("{:>5.1} - {:<5.1}", self.from_s, self.until_s);
        let least = self.times.buckets.first().map(|(ns, _)| *ns as f64);
        let most = self.times.buckets.last().map(|(ns, _)| *ns as f64);
        let median = quantile(&self.times, 0.5);
        let shown = |ns: Option<f64>| ns.map_or_else(|| "-".to_owned(), time_or_lost);
        format!(
            "{seconds:>13}{:>10}{:>10}{:>14}{:>14}{:>14}\n",
            self.n_sent,
            self.n_replied(),
            shown(least),
            shown(median),
            shown(most),
        )
    }

    /// Returns the line as JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        json!({
            "from_s": self.from_s,
            "until_s": self.until_s,
            "sent": self.n_sent,
            "replied": self.n_replied(),
            "rtt_s": times_json(&self.times),
        })
    }
}

/// Returns the header of the lines.
#[must_use]
pub fn heading() -> String {
    format!(
        "{:>13}{:>10}{:>10}{:>14}{:>14}{:>14}\n",
        "seconds", "sent", "replied", "rtt min", "rtt median", "rtt max"
    )
}

/// Returns the round-trip times, ns, and the number of packets without one.
fn round_trips(exchanges: impl Iterator<Item = Option<Exchange>>) -> (Vec<u64>, u32) {
    let (mut times, mut n_lost) = (Vec::new(), 0);
    for exchange in exchanges {
        match exchange.and_then(|exchange| exchange.round_trip()) {
            Some(nanos) => times.push(nanos),
            None => n_lost += 1,
        }
    }
    (times, n_lost)
}

/// Returns the quantile of `times`, ns; `None` where it is not known, and infinite where it is a
/// lost packet.
fn quantile(times: &Distribution, quantile: f64) -> Option<f64> {
    Some(times.percentile(quantile)?.map_or(f64::INFINITY, |ns| ns as f64))
}

fn times_json(times: &Distribution) -> Value {
    let seconds = |ns: f64| if ns.is_finite() { json!(ns / NANOS_PER_SECOND) } else { Value::Null };
    let ends = |bucket: Option<&(u64, u64)>| bucket.map(|(ns, _)| *ns as f64 / NANOS_PER_SECOND);
    let [min, max] = [ends(times.buckets.first()), ends(times.buckets.last())];
    let mut all = json!({ "n": times.count(), "min": min, "max": max });
    for (name, of) in QUANTILES {
        all[name] = quantile(times, of).map_or(Value::Null, seconds);
    }
    all
}

/// Figures of a session.
#[derive(Clone, Debug)]
struct StampResult {
    n_sent: u32,
    n_replied: u32,
    losses: Losses,
    method: LossMethod,
    times: Distribution,
    /// Delay above the least one: there, and back.
    variations: [Distribution; 2],
    /// The reflector's clock is ahead by this.
    offset: Option<Offset>,
}

impl StampResult {
    /// Computes the figures of `session`.
    fn of(session: &Session) -> Self {
        let (times, n_lost) = round_trips(session.exchanges(0));
        let came: Vec<Exchange> = session.exchanges(0).flatten().collect();
        let variations = [0, 1].map(|way| {
            let delays = || came.iter().map(|exchange| exchange.ways()[way]);
            let least = delays().min().unwrap_or(0);
            let above = delays().map(|delay| u64::try_from(delay - least).unwrap_or(u64::MAX));
            distribution(above.collect(), 0)
        });
        // The shortest exchange bounds the offset best.
        let offsets = came.iter().filter_map(|one| {
            exchange(one.sent_ns, one.arrived_ns, one.reflected_ns, one.received_ns)
        });
        Self {
            n_sent: session.n_sent(),
            n_replied: session.n_replied(),
            losses: session.losses(),
            method: session.method(),
            times: distribution(times, n_lost),
            variations,
            offset: offsets.min_by(|a, b| a.uncertainty.total_cmp(&b.uncertainty)),
        }
    }

    fn lost(&self) -> String {
        let lost = self.n_sent - self.n_replied;
        let share = 100.0 * f64::from(lost) / f64::from(self.n_sent.max(1));
        let all = format!("lost {lost} of {} packets ({share:.2} %)", self.n_sent);
        let Losses { there, back, unplaced } = self.losses;
        let by = match self.method {
            LossMethod::Counts => "by the counts of the reflector",
            LossMethod::Numbers => "by the numbers of the reflector",
            LossMethod::None if lost == 0 => return all,
            LossMethod::None => {
                return format!("{all}; the reflector does not show in which direction");
            }
        };
        let tail = match unplaced {
            0 => String::new(),
            n => format!(", {n} in a direction that no later reply shows"),
        };
        format!("{all}: {there} there, {back} back{tail} ({by})")
    }

    fn variation(&self) -> Option<String> {
        let [there, back] = [spread(&self.variations[0])?, spread(&self.variations[1])?];
        Some(format!("delay above its minimum: {there} there, {back} back"))
    }
}

/// Returns the largest quantile of `delays` that is known, with its name.
fn spread(delays: &Distribution) -> Option<String> {
    let (name, nanos) =
        QUANTILES.iter().rev().find_map(|(name, of)| Some((*name, quantile(delays, *of)?)))?;
    Some(format!("{} ({name})", time(nanos)))
}

/// Returns the result of a session.
#[must_use]
pub fn result(outcome: &Outcome) -> String {
    let found = StampResult::of(&outcome.session);
    let mut parts: Vec<String> = QUANTILES
        .iter()
        .filter_map(|(name, of)| {
            Some(format!("{name} {}", time_or_lost(quantile(&found.times, *of)?)))
        })
        .collect();
    let ends = [found.times.buckets.first(), found.times.buckets.last()];
    if let [Some((least, _)), Some((most, _))] = ends {
        parts.insert(0, format!("min {}", time(*least as f64)));
        parts.push(format!("max {}", time(*most as f64)));
    }
    let mut text = format!("STAMP rtt: {} (n = {})\n", parts.join(" · "), found.n_replied);
    text += &format!("{}\n", found.lost());
    text.extend(found.variation().map(|variation| variation + "\n"));
    if let Some(offset) = found.offset {
        let way = if offset.offset < 0.0 { "behind" } else { "ahead" };
        text += &format!(
            "clock of the reflector: {} {way} of this host's, right to {}\n",
            time(offset.offset.abs()),
            time(offset.uncertainty)
        );
    }
    let session = &outcome.session;
    let others = [
        ("replies out of order", session.n_reordered),
        ("replies that came twice", session.n_duplicates),
        ("packets that were no reply of this session", session.n_foreign),
        ("packets that left late, because this host had no CPU time for them", outcome.n_late),
    ];
    for (what, n) in others.into_iter().filter(|(_, n)| *n > 0) {
        text += &format!("{what}: {n}\n");
    }
    if outcome.stepped_ns.abs() > STEPPED_NS {
        text += "this host's clock was adjusted during the session, so its times are wrong\n";
    }
    text
}

/// Returns a session as JSON.
#[must_use]
pub fn document(reflector: &str, outcome: &Outcome, lines: &[StampLine]) -> Value {
    let found = StampResult::of(&outcome.session);
    let is_placed = found.method != LossMethod::None;
    let last = outcome.session.last();
    json!({
        "schema": 1,
        "command": "to",
        "protocol": "stamp",
        "reflector": reflector,
        "local": outcome.local.to_string(),
        "packet_bytes": outcome.bytes,
        "sent": found.n_sent,
        "replied": found.n_replied,
        metric::LOST.name: {
            "all": found.n_sent - found.n_replied,
            "there": is_placed.then_some(found.losses.there),
            "back": is_placed.then_some(found.losses.back),
            "unplaced": found.losses.unplaced,
        },
        "loss_method": match found.method {
            LossMethod::Counts => "counts",
            LossMethod::Numbers => "numbers",
            LossMethod::None => "none",
        },
        metric::REORDERED.name: outcome.session.n_reordered,
        metric::DUPLICATES.name: outcome.session.n_duplicates,
        "foreign": outcome.session.n_foreign,
        "left_late": outcome.n_late,
        "rtt_s": times_json(&found.times),
        "delay_above_minimum_s": {
            "there": times_json(&found.variations[0]),
            "back": times_json(&found.variations[1]),
        },
        "clock": {
            "reflector_ahead_s": found.offset.map(|offset| offset.offset / NANOS_PER_SECOND),
            "right_to_s": found.offset.map(|offset| offset.uncertainty / NANOS_PER_SECOND),
            "stepped_s": outcome.stepped_ns as f64 / NANOS_PER_SECOND,
            "here": clock_json(outcome.error),
            "there": last.map(|reply| clock_json(reply.error)),
        },
        "hops_left_there": last.map(|reply| reply.hops),
        "interrupted": outcome.is_cut,
        "lines": lines.iter().map(StampLine::json).collect::<Vec<_>>(),
    })
}

fn clock_json(error: linerate_stamp::wire::ErrorEstimate) -> Value {
    json!({ "synchronized": error.is_synchronized, "error_s": error.seconds() })
}

/// Returns the line of a reflector that listens at `at`, of authenticated packets if it has a key,
/// with the command of a sender.
#[must_use]
pub fn listening(at: SocketAddr, has_key: bool) -> String {
    let port = if at.port() == PORT { String::new() } else { format!(":{}", at.port()) };
    let (packets, key) = match has_key {
        true => ("authenticated STAMP", " --auth-key FILE"),
        false => ("STAMP and TWAMP Light", ""),
    };
    format!(
        "reflecting {packets} packets at {at}; for example: linerate to \
            stamp://THIS-HOST{port}{key}"
    )
}

/// Returns the line of a session that a reflector has seen.
#[must_use]
pub fn reflected(session: &Reflected) -> String {
    let Reflected { sender, session, n_packets, highest, .. } = session;
    let missing = (u64::from(*highest) + 1).saturating_sub(u64::from(*n_packets));
    format!(
        "{sender}: session {session} ended: {n_packets} packets, {missing} missing up to number \
            {highest}"
    )
}

/// Returns the same as JSON.
#[must_use]
pub fn reflected_json(session: &Reflected) -> Value {
    json!({
        "sender": session.sender.to_string(),
        "session": session.session,
        "packets": session.n_packets,
        "highest": session.highest,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use linerate_campaign::drafts::MODES;
    use linerate_stamp::wire::{Counts, ErrorEstimate, Reply};

    use super::*;

    /// A session of `n` packets whose round trips take 1, 2, 3, ... ms, of which every fifth is
    /// lost, with a reflector whose clock is an hour ahead.
    fn session(n: u32) -> Session {
        const HOUR: u64 = 3_600_000_000_000;
        let (mut session, mut arrived) = (Session::default(), 0);
        for number in 0..n {
            let sent = 1_000_000_000 * u64::from(number + 1);
            session.sent(sent);
            if number % 5 == 3 {
                continue;
            }
            arrived += 1;
            let delay = 1_000_000 * u64::from(number + 1);
            let reply = Reply {
                number: arrived - 1,
                reflected_ns: sent + HOUR + delay / 2 + 5_000,
                error: ErrorEstimate::at_least(1, true),
                session: 1,
                arrived_ns: sent + HOUR + delay / 2,
                answers: number,
                hops: 60,
                counts: Some(Counts { sent: number + 1, arrived, reflected: arrived }),
            };
            let test = linerate_stamp::wire::TestPacket {
                number,
                sent_ns: sent,
                error: reply.error,
                session: 1,
                n_sent: Some(number + 1),
            };
            session.take(&reply.to_bytes(&test.to_bytes(0)), 1, sent + delay + 5_000);
        }
        session
    }

    fn outcome(n: u32) -> Outcome {
        Outcome {
            session: session(n),
            local: "127.0.0.1:5000".parse().expect("an address"),
            bytes: 60,
            error: ErrorEstimate::at_least(1_000, true),
            stepped_ns: 0,
            n_late: 0,
            is_cut: false,
        }
    }

    #[test]
    fn a_line_waits_for_half_of_the_next_one_and_the_end_brings_the_rest() {
        let options = |n_packets| SendOptions {
            to: "192.0.2.7:862".parse().expect("an address"),
            local: None,
            gap: Duration::from_secs(1),
            n_packets,
            bytes: 60,
            dscp: None,
            patience: Duration::from_secs(2),
            session: 1,
        };
        let question = PathQuestion {
            mode: MODES[1],
            is_reverse: false,
            is_both: false,
            seconds: None,
            omit: Nanos(0),
            interval: Nanos::from_secs(4),
            is_bound: false,
            given: Vec::new(),
        };
        let mut lines = StampLines::new(&options(10), &question);
        let n_lines = [5, 6, 10].map(|n_sent| lines.advance(&session(n_sent), false).len());
        assert_eq!(n_lines, [0, 1, 1], "four packets, then two more of the next line");
        let [rest] = lines.advance(&session(10), true) else { panic!("two packets are left") };
        assert_eq!((rest.from_s, rest.until_s, rest.n_sent), (8.0, 10.0, 2));
        assert_eq!(lines.all().len(), 3);
        let once = PathQuestion { interval: Nanos(0), ..question };
        let mut whole = StampLines::new(&options(10), &once);
        assert_eq!(whole.advance(&session(10), false).len(), 0);
        assert_eq!(whole.advance(&session(10), true).len(), 1);
        assert!(subject(&options(10)).ends_with("10 packets of 60 B, 1 packet/s"));
    }

    #[test]
    fn a_result_has_the_round_trips_the_direction_of_losses_and_the_clock() {
        let text = result(&outcome(100));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[0], "STAMP rtt: min 1 ms · median 62 ms · p90 lost · max 100 ms (n = 80)",
            "a lost packet is slower than any other"
        );
        assert_eq!(
            lines[1],
            "lost 20 of 100 packets (20.00 %): 20 there, 0 back (by the counts of the reflector)"
        );
        assert_eq!(
            lines[2],
            "delay above its minimum: 24.50 ms (median) there, 24.50 ms (median) back"
        );
        assert_eq!(
            lines[3],
            "clock of the reflector: 3600 s ahead of this host's, right to 500.0 µs"
        );
        assert_eq!(lines.len(), 4);
    }

    #[test]
    fn few_packets_have_no_percentile_above_the_median_and_no_reply_is_said() {
        assert!(
            result(&outcome(5)).starts_with("STAMP rtt: min 1 ms · median 3 ms · max 5 ms (n = 4)")
        );
        let text = result(&Outcome { session: Session::default(), ..outcome(0) });
        assert!(text.contains("lost 0 of 0 packets"), "{text}");
        let stepped = result(&Outcome { stepped_ns: -2_000_000, n_late: 3, ..outcome(5) });
        assert!(
            stepped.contains("had no CPU time for them: 3") && stepped.contains("was adjusted")
        );
    }

    #[test]
    fn lines_and_documents_have_the_same_figures() {
        let outcome = outcome(20);
        let line = StampLine::of(&outcome.session, [0, 10], [0.0, 1.0]);
        assert_eq!(
            line.text().split_whitespace().collect::<Vec<_>>().join(" "),
            "0.0 - 1.0 10 8 1 ms 6 ms 10 ms"
        );
        let document = document("router", &outcome, &[line]);
        assert_eq!(document["lost"], json!({ "all": 4, "there": 4, "back": 0, "unplaced": 0 }));
        assert_eq!(document["rtt_s"]["min"], 0.001);
        assert_eq!(document["rtt_s"]["p99"], Value::Null);
        assert_eq!(document["clock"]["reflector_ahead_s"], 3_600.0);
        assert_eq!(document["lines"][0]["replied"], 8);
    }
}
