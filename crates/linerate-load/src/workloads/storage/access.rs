//! Access specifications: weighted lines of size, direction, order, burst, pause and alignment, as
//! in Iometer, and of I/O priority.
//!
//! A line's weight is its share of transfers. With `weight_of = "bursts"` it is the share of
//! bursts, which is what Iometer did, contrary to its manual: of 50 % bursts of 1 and 50 % bursts
//! of 10, 91 % of the transfers are the second line's.

use linerate_model::{Bytes, Nanos, ParamError, Ratio};
use linerate_sys::storage::Priority;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::Rng;

use crate::parameter::{Words, wrong};

/// One line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Line {
    /// Bytes of a transfer.
    pub(super) size: u64,
    /// Share of the whole, in any unit.
    pub(super) weight: f64,
    /// Share of reads.
    pub(super) read: f64,
    /// Share of transfers that go to a random place; the others continue where the last one ended.
    pub(super) random: f64,
    /// Transfers from one choice of a line to the next.
    pub(super) burst: u32,
    /// Pause before each burst, counted from the last start.
    pub(super) delay: Nanos,
    /// Places are multiples of this from the start of the range.
    pub(super) align: u64,
    /// Bytes of the transfer in the other direction that follows each of these and ends the
    /// transaction; 0 for none.
    pub(super) reply: u64,
    /// I/O priority of its transfers; `None`: the job's.
    pub(super) priority: Option<Priority>,
}

/// Unit of the weights of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WeightOf {
    /// Shares of transfers.
    Transfers,
    /// Shares of bursts.
    Bursts,
}

impl WeightOf {
    /// Words of plans.
    pub(super) const WORDS: Words<Self> =
        &[("transfers", Self::Transfers), ("bursts", Self::Bursts)];
}

/// Reads `4 KiB, weight 60 %, read 70 %, random 100 %, burst 8, delay 1 ms, align 4 KiB, reply 512
/// B; 64 KiB, ...`.
///
/// # Errors
/// The first part that is none of these.
pub(super) fn parse(text: &str) -> Result<Vec<Line>, ParamError> {
    text.split(';').map(str::trim).filter(|line| !line.is_empty()).map(line).collect()
}

fn line(text: &str) -> Result<Line, ParamError> {
    let refuse = |part: &str, expected: &str| {
        wrong("access", format!("`{part}` in line `{text}` is not {expected}"))
    };
    let mut parts = text.split(',').map(str::trim);
    let first = parts.next().unwrap_or_default();
    let size: Bytes =
        first.parse().map_err(|_| refuse(first, "a size with its unit, which comes first"))?;
    let size = size.0;
    let mut line = Line {
        size,
        weight: 1.0,
        read: 1.0,
        random: 1.0,
        burst: 1,
        delay: Nanos(0),
        align: size,
        reply: 0,
        priority: None,
    };
    for part in parts {
        let (name, value) = part.split_once(' ').unwrap_or((part, ""));
        let value = value.trim();
        match name {
            "weight" => {
                line.weight =
                    share(value).ok_or_else(|| refuse(part, "a weight, such as `weight 60 %`"))?
            }
            "read" => {
                line.read = share(value)
                    .ok_or_else(|| refuse(part, "a share of reads, such as `read 70 %`"))?
            }
            "random" => {
                line.random =
                    share(value).ok_or_else(|| refuse(part, "a share, such as `random 100 %`"))?
            }
            "burst" => {
                let burst = value.parse().ok().filter(|burst| *burst > 0);
                line.burst = burst.ok_or_else(|| refuse(part, "a count, such as `burst 8`"))?;
            }
            "delay" => {
                line.delay =
                    value.parse().map_err(|_| refuse(part, "a time, such as `delay 1 ms`"))?
            }
            "align" => {
                let align = value.parse::<Bytes>().ok().filter(|align| align.0 > 0);
                line.align = align.ok_or_else(|| refuse(part, "a size, such as `align 4 KiB`"))?.0;
            }
            "reply" => {
                line.reply = value
                    .parse::<Bytes>()
                    .map_err(|_| refuse(part, "a size, such as `reply 512 B`"))?
                    .0;
            }
            "priority" => {
                line.priority = Some(
                    value
                        .parse()
                        .map_err(|_| refuse(part, "a priority, such as `priority realtime 0`"))?,
                );
            }
            _ => {
                return Err(refuse(
                    part,
                    "one of weight, read, random, burst, delay, align, reply, priority",
                ));
            }
        }
    }
    Ok(line)
}

/// Reads a ratio from 0 to 1.
fn share(text: &str) -> Option<f64> {
    text.parse::<Ratio>().ok().map(|ratio| ratio.0).filter(|share| (0.0..=1.0).contains(share))
}

/// Returns the mean bytes that a transaction of `lines` moves, its reply included.
pub(super) fn mean_bytes(lines: &[Line], weight_of: WeightOf) -> f64 {
    let share = |line: &Line| line.transfers(weight_of);
    let all: f64 = lines.iter().map(share).sum();
    lines.iter().map(|line| share(line) * (line.size + line.reply) as f64).sum::<f64>() / all
}

impl Line {
    /// Returns the share of transfers, which is not yet divided by that of all lines.
    fn transfers(&self, weight_of: WeightOf) -> f64 {
        match weight_of {
            // The choice is made by bursts, so a line with long bursts moves more transfers than
            // its weight.
            WeightOf::Transfers => self.weight,
            WeightOf::Bursts => self.weight * f64::from(self.burst),
        }
    }

    /// Returns the share of bursts, which is not yet divided by that of all lines.
    fn bursts(&self, weight_of: WeightOf) -> f64 {
        match weight_of {
            WeightOf::Bursts => self.weight,
            WeightOf::Transfers => self.weight / f64::from(self.burst),
        }
    }
}

/// Random choice of lines, burst by burst.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    lines: Vec<Line>,
    /// Upper ends of the lines' shares of a 64-bit number.
    ends: Vec<u64>,
    current: usize,
    left: u32,
}

impl Choice {
    /// Creates a choice among `lines`, of which at least one has a weight.
    pub(super) fn new(lines: Vec<Line>, weight_of: WeightOf) -> Self {
        let total: f64 = lines.iter().map(|line| line.bursts(weight_of)).sum();
        let mut reached = 0.0;
        let mut ends: Vec<u64> = lines
            .iter()
            .map(|line| {
                reached += line.bursts(weight_of) / total;
                (reached * u64::MAX as f64) as u64
            })
            .collect();
        // Rounding must leave no number without a line.
        let last = lines.iter().rposition(|line| line.weight > 0.0).unwrap_or(0);
        ends[last..].fill(u64::MAX);
        Self { lines, ends, current: 0, left: 0 }
    }

    /// Returns the line of the next transfer, and true if it is the first of a burst.
    #[inline]
    pub(super) fn next(&mut self, random: &mut Xoshiro256PlusPlus) -> (Line, bool) {
        let is_first = self.left == 0;
        if is_first {
            if self.lines.len() > 1 {
                let drawn = random.next_u64();
                self.current = self.ends.partition_point(|end| *end < drawn);
            }
            self.left = self.lines[self.current].burst;
        }
        self.left -= 1;
        (self.lines[self.current], is_first)
    }

    /// Returns true if a line with a weight has a reply.
    pub(super) fn has_replies(&self) -> bool {
        self.lines.iter().any(|line| line.weight > 0.0 && line.reply > 0)
    }

    /// Returns the pause before the next transfer.
    #[inline]
    pub(super) fn pause(&self) -> Nanos {
        // As in Iometer: the pause of the line just drawn; with one line, the usual case, it is the
        // same.
        if self.left == 0 { self.lines[self.current].delay } else { Nanos(0) }
    }
}

#[cfg(test)]
mod tests {
    use rand_xoshiro::rand_core::SeedableRng;

    use super::*;

    const TEXT: &str = "4 KiB, weight 50 %, read 75 %, delay 1 ms; 64 KiB, weight 50 %, random 0 \
        %, burst 10, align 512 B, reply 512 B";

    #[test]
    fn lines_are_read_with_their_defaults() {
        let lines = parse(TEXT).expect("it is one");
        let first = Line {
            size: 4096,
            weight: 0.5,
            read: 0.75,
            random: 1.0,
            burst: 1,
            delay: Nanos::from_millis(1),
            align: 4096,
            reply: 0,
            priority: None,
        };
        assert_eq!(lines[0], first);
        assert_eq!(
            (lines[1].size, lines[1].random, lines[1].burst, lines[1].align),
            (65_536, 0.0, 10, 512)
        );
        assert_eq!(lines[1].reply, 512);
    }

    #[test]
    fn a_malformed_line_is_named() {
        for (text, part) in [
            ("read 70 %", "`read 70 %`"),
            ("4 KiB, reed 70 %", "`reed 70 %`"),
            ("4 KiB, read 170 %", "`read 170 %`"),
            ("4 KiB, burst 0", "`burst 0`"),
            ("4 KiB, delay 5", "`delay 5`"),
        ] {
            assert!(parse(text).expect_err(text).cause.contains(part), "{text}");
        }
    }

    /// Returns the transfers of each line among 100 000.
    fn shares(weight_of: WeightOf) -> Vec<f64> {
        let mut choice = Choice::new(parse(TEXT).expect("it is one"), weight_of);
        let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
        let mut counts = [0_u32; 2];
        for _ in 0..100_000 {
            counts[usize::from(choice.next(&mut random).0.size == 65_536)] += 1;
        }
        counts.iter().map(|count| f64::from(*count) / 100_000.0).collect()
    }

    #[test]
    fn weights_are_shares_of_transfers_or_of_bursts() {
        assert!(
            (shares(WeightOf::Transfers)[1] - 0.5).abs() < 0.02,
            "{:?}",
            shares(WeightOf::Transfers)
        );
        // 10 of 11 transfers, as Iometer does with these lines.
        assert!(
            (shares(WeightOf::Bursts)[1] - 10.0 / 11.0).abs() < 0.01,
            "{:?}",
            shares(WeightOf::Bursts)
        );
    }

    #[test]
    fn a_mean_transfer_counts_each_line_as_often_as_it_comes() {
        let lines =
            parse("4 KiB, weight 50 %; 64 KiB, weight 50 %, burst 10, reply 1 KiB").expect("lines");
        assert_eq!(mean_bytes(&lines, WeightOf::Transfers), (4096.0 + 66_560.0) / 2.0);
        assert_eq!(mean_bytes(&lines, WeightOf::Bursts), (4096.0 + 665_600.0) / 11.0);
    }

    #[test]
    fn a_line_has_a_priority_of_its_own() {
        let lines = parse("4 KiB, weight 20 %, priority realtime 1 hint 2; 4 KiB, weight 80 %")
            .expect("lines");
        assert_eq!((lines[0].priority, lines[1].priority), (Priority::new(1, 1, 2), None));
        assert!(
            parse("4 KiB, priority urgent").expect_err("no class").cause.contains("realtime 0")
        );
    }

    #[test]
    fn a_line_without_weight_is_never_drawn() {
        let lines = parse("4 KiB, weight 100 %; 8 KiB, weight 0 %").expect("lines");
        let mut choice = Choice::new(lines, WeightOf::Transfers);
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        assert!((0..10_000).all(|_| choice.next(&mut random).0.size == 4096));
    }
}
