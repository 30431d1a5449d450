//! Queueing disciplines, their counters and limits, and HTB classes (linux/pkt_sched.h,
//! gen_stats.h).

use super::RouteSocket;
use super::attribute::{attributes, long, text, word};
use crate::Result;

const GET_QDISC: u16 = 38;
const GET_CLASS: u16 = 42;
const GET_FILTER: u16 = 46;

/// `struct tcmsg`.
const TCMSG: usize = 20;

/// Queueing discipline and its counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Qdisc<'a> {
    /// Interface index.
    pub index: u32,
    /// Handle, `major << 16 | minor`; 0 for the default discipline.
    pub handle: u32,
    /// Handle of the parent; `0xffff_ffff` is the root.
    pub parent: u32,
    /// Kind: `fq`, `tbf`, `noqueue` ...
    pub kind: &'a str,
    /// Bytes sent.
    pub bytes: u64,
    /// Packets sent; every GSO segment counts.
    pub packets: u64,
    /// Bytes waiting.
    pub backlog_bytes: u32,
    /// Packets waiting.
    pub queue_length: u32,
    /// Packets dropped; wraps at 2^32.
    pub drops: u32,
    /// Packets that the driver returned; wraps at 2^32.
    pub requeues: u32,
    /// Times the rate was exceeded; wraps at 2^32.
    pub overlimits: u32,
    /// Parameters as the kernel sent them; the layout depends on the kind. See [`Qdisc::limits`].
    pub options: &'a [u8],
}

/// Configured limits of a queueing discipline, as far as its kind has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QdiscLimits {
    /// Bytes per second, counted at L2 without FCS.
    pub rate_bytes_per_s: Option<u64>,
    /// Bytes that may pass at once.
    pub burst_bytes: Option<u64>,
    /// Bytes that may wait.
    pub limit_bytes: Option<u64>,
    /// Packets that may wait.
    pub limit_packets: Option<u64>,
}

/// Class of a hierarchical token bucket (tc-htb(8)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HtbClass {
    /// Handle.
    pub handle: u32,
    /// Handle of the class from which it borrows; `0xffff_ffff` is the root.
    pub parent: u32,
    /// Guaranteed rate, byte/s.
    pub rate_bytes_per_s: u64,
    /// Highest rate with borrowing, byte/s.
    pub ceil_bytes_per_s: u64,
    /// Bytes that may pass at once at `rate`.
    pub burst_bytes: u64,
    /// Bytes that may pass at once at `ceil`.
    pub ceil_burst_bytes: u64,
}

impl Qdisc<'_> {
    /// Returns the class for traffic that no filter of a hierarchical token bucket selects; `None`
    /// if that traffic is not shaped, and for other kinds.
    #[must_use]
    pub fn htb_default(&self) -> Option<u32> {
        /// `TCA_HTB_INIT`, a `struct tc_htb_glob`.
        const GLOBAL: u16 = 2;
        const DEFAULT_CLASS: usize = 8;
        const MAJOR: u32 = 0xffff_0000;
        let global =
            attributes(self.options).find(|(kind, _)| self.kind == "htb" && *kind == GLOBAL)?.1;
        let minor = word(global, DEFAULT_CLASS).filter(|minor| *minor != 0)?;
        Some(self.handle & MAJOR | minor & !MAJOR)
    }

    /// Returns the configured limits; an unknown kind has no known limits.
    #[must_use]
    pub fn limits(&self) -> QdiscLimits {
        let option = |wanted| {
            attributes(self.options).find(|(kind, _)| *kind == wanted).map(|(_, value)| value)
        };
        let count = |at| word(self.options, at).map(u64::from);
        let attribute = |kind| option(kind).and_then(|value| word(value, 0)).map(u64::from);
        let mut limits = QdiscLimits::default();
        match self.kind {
            "tbf" => {
                const PARAMETERS: u16 = 1;
                const RATE_64: u16 = 4;
                let parameters = option(PARAMETERS).unwrap_or_default();
                let rate = rate(parameters, 0, option(RATE_64));
                limits.rate_bytes_per_s = rate;
                limits.limit_bytes = word(parameters, 24).map(u64::from);
                limits.burst_bytes =
                    rate.zip(word(parameters, 28)).map(|(rate, ticks)| burst(rate, ticks));
            }
            "bfifo" => limits.limit_bytes = count(0),
            "pfifo" | "pfifo_head_drop" | "sfq" if self.options.len() == 4 => {
                limits.limit_packets = count(0)
            }
            "fq" => limits.limit_packets = attribute(1),
            "fq_codel" | "codel" => limits.limit_packets = attribute(2),
            "netem" => {
                const RATE: u16 = 6;
                const RATE_64: u16 = 8;
                /// Size of `struct tc_netem_qopt`, which precedes the attributes.
                const HEAD: usize = 24;
                limits.limit_packets = count(4);
                let nested = || attributes(self.options.get(HEAD..).unwrap_or_default());
                let find =
                    |wanted| nested().find(|(kind, _)| *kind == wanted).map(|(_, value)| value);
                let rate = find(RATE_64).and_then(|value| long(value, 0));
                let rate =
                    rate.or_else(|| find(RATE).and_then(|value| word(value, 0)).map(u64::from));
                limits.rate_bytes_per_s = rate.filter(|&rate| rate != 0);
            }
            _ => {}
        }
        limits
    }
}

impl RouteSocket {
    /// Visits every queueing discipline. Does not allocate.
    ///
    /// # Errors
    /// If the kernel refuses or does not answer.
    pub fn qdiscs(&mut self, mut visit: impl FnMut(&Qdisc<'_>)) -> Result<()> {
        self.dump(GET_QDISC, &[0; 20], "queueing disciplines", |payload| {
            if let Some(qdisc) = parse_qdisc(payload) {
                visit(&qdisc);
            }
        })
    }

    /// Returns true if filters select classes of the discipline `handle` of the device with index
    /// `index`.
    ///
    /// # Errors
    /// If the kernel refuses or does not answer.
    pub fn is_filtered(&mut self, index: u32, handle: u32) -> Result<bool> {
        let mut body = [0; TCMSG];
        body[4..8].copy_from_slice(&index.to_ne_bytes());
        body[12..16].copy_from_slice(&handle.to_ne_bytes());
        let mut is_filtered = false;
        self.dump(GET_FILTER, &body, "filters of traffic", |_| is_filtered = true)?;
        Ok(is_filtered)
    }

    /// Visits every HTB class of the device with index `index`.
    ///
    /// # Errors
    /// If the kernel refuses or does not answer.
    pub fn htb_classes(&mut self, index: u32, mut visit: impl FnMut(&HtbClass)) -> Result<()> {
        let mut body = [0; TCMSG];
        body[4..8].copy_from_slice(&index.to_ne_bytes());
        self.dump(GET_CLASS, &body, "traffic classes", |payload| {
            if let Some(class) = parse_htb_class(payload) {
                visit(&class);
            }
        })
    }
}

/// Parses `payload` as a queueing discipline and as a class; returns the limits of the first and
/// true if the second succeeds.
#[cfg(test)]
pub(super) fn read_any(payload: &[u8]) -> (Option<QdiscLimits>, bool) {
    (parse_qdisc(payload).map(|qdisc| qdisc.limits()), parse_htb_class(payload).is_some())
}

fn parse_qdisc(payload: &[u8]) -> Option<Qdisc<'_>> {
    const KIND: u16 = 1;
    const OPTIONS: u16 = 2;
    const STATS2: u16 = 7;
    let mut qdisc = Qdisc {
        index: word(payload, 4)?,
        handle: word(payload, 8)?,
        parent: word(payload, 12)?,
        ..Qdisc::default()
    };
    for (kind, value) in attributes(payload.get(TCMSG..)?) {
        match kind {
            KIND => qdisc.kind = text(value),
            OPTIONS => qdisc.options = value,
            STATS2 => parse_qdisc_stats(value, &mut qdisc)?,
            _ => {}
        }
    }
    Some(qdisc)
}

fn parse_qdisc_stats(stats: &[u8], qdisc: &mut Qdisc<'_>) -> Option<()> {
    const BASIC: u16 = 1;
    const QUEUE: u16 = 3;
    const PACKETS_64: u16 = 8;
    for (kind, value) in attributes(stats) {
        match kind {
            BASIC => {
                qdisc.bytes = long(value, 0)?;
                qdisc.packets = qdisc.packets.max(u64::from(word(value, 8)?));
            }
            QUEUE => {
                qdisc.queue_length = word(value, 0)?;
                qdisc.backlog_bytes = word(value, 4)?;
                qdisc.drops = word(value, 8)?;
                qdisc.requeues = word(value, 12)?;
                qdisc.overlimits = word(value, 16)?;
            }
            PACKETS_64 => qdisc.packets = long(value, 0)?,
            _ => {}
        }
    }
    Some(())
}

fn parse_htb_class(payload: &[u8]) -> Option<HtbClass> {
    const KIND: u16 = 1;
    const OPTIONS: u16 = 2;
    const PARAMETERS: u16 = 1;
    const RATE_64: u16 = 6;
    const CEIL_64: u16 = 7;
    let find =
        |bytes, wanted| attributes(bytes).find(|(kind, _)| *kind == wanted).map(|(_, value)| value);
    let body = payload.get(TCMSG..)?;
    if find(body, KIND).map(text) != Some("htb") {
        return None;
    }
    let options = find(body, OPTIONS)?;
    let parameters = find(options, PARAMETERS)?;
    let rate_bytes_per_s = rate(parameters, 0, find(options, RATE_64))?;
    let ceil_bytes_per_s = rate(parameters, 12, find(options, CEIL_64))?;
    Some(HtbClass {
        handle: word(payload, 8)?,
        parent: word(payload, 12)?,
        rate_bytes_per_s,
        ceil_bytes_per_s,
        burst_bytes: burst(rate_bytes_per_s, word(parameters, 24)?),
        ceil_burst_bytes: burst(ceil_bytes_per_s, word(parameters, 28)?),
    })
}

/// Returns the rate of a `struct tc_ratespec` at `at`, or of the 64-bit attribute that accompanies
/// it above 32 Gbit/s.
fn rate(parameters: &[u8], at: usize, rate_64: Option<&[u8]>) -> Option<u64> {
    const RATE: usize = 8;
    rate_64.and_then(|value| long(value, 0)).or_else(|| word(parameters, at + RATE).map(u64::from))
}

/// Returns the bytes of a burst, which the kernel sends as its duration at the rate, in scheduler
/// ticks of 64 ns (`PSCHED_SHIFT` 6).
fn burst(rate_bytes_per_s: u64, ticks: u32) -> u64 {
    const TICK_NS: u128 = 64;
    const NANOS_PER_SECOND: u128 = 1_000_000_000;
    let bytes = u128::from(rate_bytes_per_s) * u128::from(ticks) * TICK_NS;
    ((bytes + NANOS_PER_SECOND / 2) / NANOS_PER_SECOND) as u64
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::netlink::attribute::push;

    fn attribute(kind: u16, payload: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        push(&mut bytes, kind, payload);
        bytes
    }

    #[test]
    fn a_qdisc_is_read_with_its_queue() {
        let mut queue = Vec::new();
        for value in [3_u32, 4542, 7, 1, 9] {
            queue.extend(value.to_ne_bytes());
        }
        let mut payload = vec![0; 4];
        for value in [5_u32, 0x8001_0000, 0xffff_ffff, 2] {
            payload.extend(value.to_ne_bytes());
        }
        payload.extend(attribute(1, b"tbf\0"));
        payload.extend(attribute(7, &attribute(3, &queue)));
        let qdisc = parse_qdisc(&payload).unwrap();
        assert_eq!((qdisc.index, qdisc.handle, qdisc.kind), (5, 0x8001_0000, "tbf"));
        assert_eq!((qdisc.queue_length, qdisc.backlog_bytes, qdisc.drops), (3, 4542, 7));
        assert_eq!((qdisc.requeues, qdisc.overlimits), (1, 9));
    }

    #[test]
    fn a_token_bucket_is_read_as_rate_burst_and_limit() {
        // 50 Mbit/s, burst 2000 B (320 us, 5000 ticks), limit 30000 B.
        let mut parameters = vec![0; 36];
        parameters[8..12].copy_from_slice(&6_250_000_u32.to_ne_bytes());
        parameters[24..28].copy_from_slice(&30_000_u32.to_ne_bytes());
        parameters[28..32].copy_from_slice(&5000_u32.to_ne_bytes());
        let options = attribute(1, &parameters);
        let limits = Qdisc { kind: "tbf", options: &options, ..Qdisc::default() }.limits();
        let expected = QdiscLimits {
            rate_bytes_per_s: Some(6_250_000),
            burst_bytes: Some(2000),
            limit_bytes: Some(30_000),
            limit_packets: None,
        };
        assert_eq!(limits, expected);
    }

    #[test]
    fn a_hierarchy_is_read_with_the_class_of_the_rest() {
        // version 3, rate2quantum 10, default 0x20, debug 0, direct packets 0.
        let global = |default: u32| [3, 10, default, 0, 0].map(u32::to_ne_bytes).concat();
        let default = |default: u32, kind| {
            let options = attribute(2, &global(default));
            Qdisc { kind, handle: 0x1_0000, options: &options, ..Qdisc::default() }.htb_default()
        };
        assert_eq!(
            (default(0x20, "htb"), default(0, "htb"), default(0x20, "tbf")),
            (Some(0x1_0020), None, None)
        );
    }

    #[test]
    fn truncated_qdiscs_and_classes_are_passed_over_without_panic() {
        let mut whole = vec![0; TCMSG];
        push(&mut whole, 1, b"htb\0");
        push(&mut whole, 2, &attribute(1, &[0; 48]));
        for end in 0..whole.len() {
            let _ = (parse_htb_class(&whole[..end]), parse_qdisc(&whole[..end]));
        }
        assert_eq!(parse_qdisc(&whole).unwrap().kind, "htb");
        assert!(parse_htb_class(&whole).is_some());
    }
}
