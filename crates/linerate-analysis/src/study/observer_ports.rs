//! Octets counted by an independent observer, compared with the tool's bytes
//! (docs/methodology/papers.md#sources, V4.4): counters of a switch port beside the load expected
//! there by the layer algebra.
//!
//! The load of a direction is the tool's L4 count, converted to frames. For TCP these are
//! `bytes_sent` (with retransmissions) and `segments_out` (with acknowledgements) of the end that
//! sends into the port, and `bytes_received` and `segments_in` of the end behind it for the other
//! direction. For UDP these are payload and datagrams. Each frame adds its headers: Ethernet 14, IP
//! 20 or 40, TCP 20 and 12 of timestamps, UDP 8, and 4 of frame check sequence where the observer
//! counts it. Where a port counts super-packets of GSO or GRO, as a kernel's port does, each of
//! those has one set of headers, and their number is the port's packet count.
//!
//! The whole trial is compared, its idle ends included, so that no clock decides. Some agents
//! answer with values they read a while ago; they are polled for as long after the load. Where that
//! was not possible, the comparison is from one change of the counters to another, and the
//! uncertainty of the reading times is added to the bound. A bound wider than [`WIDEST`] of the
//! load decides nothing.
//!
//! Not covered: padding of small frames, selective acknowledgements, and the handshakes' few
//! frames; the bound is wide enough for them.

use linerate_model::series::observer;
use linerate_model::{
    Campaign, Counter, Direction, Endpoint, JobRecord, Nanos, ObservedPort, ObserverKind,
    SampleBlock, SampleColumn, Series, TrialRecord, Validity,
};
use serde::{Deserialize, Serialize};

use super::judge::Standing;
use super::reason::Reason;
use super::samples::{Hosts, NANOS};
use super::span::{Span, counted, total};
use super::traffic::Job;
use crate::limits::headers::{self, IpVersion, Timestamps};

/// Ethernet's addresses and type; the frame check sequence (IEEE 802.3 3.1.1).
const ETHERNET: f64 = 14.0;
const FCS: f64 = 4.0;
/// The smallest frame without frame check sequence (IEEE 802.3 4.4.2).
const SMALLEST: f64 = 60.0;
/// Share of the port's load by which both may differ (V4.4).
const BOUND: f64 = 0.005;
/// Largest bound, as a share of the load in one direction, at which an agreement is meaningful.
const WIDEST: f64 = 0.03;
/// Octets in a trial that belong to no load: address resolution, neighbour announcements, our own
/// control connection.
const ALWAYS_THERE: f64 = 65_536.0;
/// A port with fewer frames than this share of the load's counts super-packets.
const SUPER_PACKETS: f64 = 0.9;
/// Readings that repeat for longer than this many periods are kept by the agent, not read.
const STALE: f64 = 1.6;

/// Result of comparing an observer's count with the tool's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Agreement {
    /// They could not be compared.
    #[default]
    Unknown,
    /// They agree within the bound.
    Agrees,
    /// The observer counted more than the load: other traffic crossed the port.
    Background,
    /// The observer saw less than the load.
    Missing,
}

/// One direction of one port that an observer counts, all trials of a point that could be compared
/// added.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PortStudy {
    /// The observer.
    pub observer: String,
    /// Its port.
    pub port: String,
    /// The endpoint behind it.
    pub faces: String,
    /// How the observer is asked, if that was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<ObserverKind>,
    /// `Tx`: data that the endpoint sends and the port receives; `Rx`: data the port sends to it.
    pub direction: Direction,
    /// Trials compared.
    pub n: usize,
    /// L4 payload of the load, bytes, retransmissions included.
    pub payload: f64,
    /// Octets at L2 expected from the load.
    pub expected: f64,
    /// Octets at L2 that the port counted.
    pub octets: f64,
    /// Frames that the port counted, if it does.
    pub frames: Option<f64>,
    /// Frames that the port dropped or found damaged, if it counts them.
    pub dropped: Option<f64>,
    /// Octets by which the two counts may differ.
    pub bound: f64,
    /// The worst of the trials.
    pub agreement: Agreement,
    /// Why trials could not be compared, and further notes.
    pub why: Vec<PortNote>,
}

/// Reason why an observer's count could not be compared, or a note on the comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "fields that are not explained are what they are called")]
pub enum PortNote {
    /// The frames that the load of this workload sent are not counted.
    FramesNotCounted { workload: String },
    /// The observer has no readings of the trial.
    NoReadings,
    /// Its counters were reset during the trial.
    Reset,
    /// It was read fewer than two times.
    TooFewReadings,
    /// Its counters could not be read, for the reason that it gave.
    Unavailable { error: String },
    /// Its octets were not read at both ends of the load.
    EndsNotRead,
    /// The port counts super-packets.
    SuperPackets,
    /// Both counts may differ by this share of the load, more than `limit`.
    TooWide { share: f64, limit: f64 },
    /// Its counters change at this interval: it was asked until it had read them after the load.
    AskedAgain { interval: f64 },
    /// Its counters did not change while there was load.
    Unchanged,
    /// Its counters change at this interval, which is too long for the trial.
    TooSlow { interval: f64 },
    /// Compared over a part of the trial, because its counters change at this interval.
    Part { seconds: f64, interval: f64 },
}

impl PortStudy {
    fn of(port: &ObservedPort, direction: Direction) -> Self {
        Self {
            observer: port.observer.clone(),
            port: port.port.clone(),
            faces: port.faces.clone(),
            kind: port.kind,
            direction,
            n: 0,
            payload: 0.0,
            expected: 0.0,
            octets: 0.0,
            frames: None,
            dropped: None,
            bound: 0.0,
            agreement: Agreement::Unknown,
            why: Vec::new(),
        }
    }

    /// Returns the share of what the port counted that was not the load's; negative if the load is
    /// more.
    #[must_use]
    pub fn background(&self) -> Option<f64> {
        (self.octets > 0.0).then(|| (self.octets - self.expected) / self.octets)
    }

    /// Adds another trial's.
    pub(super) fn add(&mut self, other: &Self) {
        if other.n > 0 {
            let is_first = self.n == 0;
            let both = |a: Option<f64>, b: Option<f64>| {
                if is_first { b } else { a.zip(b).map(|(a, b)| a + b) }
            };
            (self.frames, self.dropped) =
                (both(self.frames, other.frames), both(self.dropped, other.dropped));
        }
        self.n += other.n;
        self.payload += other.payload;
        self.expected += other.expected;
        self.octets += other.octets;
        self.bound += other.bound;
        self.agreement = self.agreement.max(other.agreement);
        for why in &other.why {
            if !self.why.contains(why) {
                self.why.push(why.clone());
            }
        }
    }
}

/// A load in one direction at one port, as the tool counted it.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    payload: f64,
    frames: f64,
    headers: f64,
    /// Octets that may have come in addition.
    doubt: f64,
}

/// Each direction of each port that `campaign` had observed, in one trial.
pub(super) fn ports(
    campaign: &Campaign,
    hosts: &Hosts<'_>,
    trial: &TrialRecord,
    jobs: &[Job<'_>],
) -> Vec<PortStudy> {
    let mut studies = Vec::new();
    for port in &campaign.header.observed {
        let crosses =
            jobs.iter().any(|job| is_behind(port, &job.spec.from) != is_behind(port, &job.spec.to));
        if !crosses {
            continue;
        }
        let loads =
            [Direction::Tx, Direction::Rx].map(|direction| load(port, hosts, jobs, direction));
        let largest =
            loads.iter().flatten().map(|load| load.payload + load.headers).fold(0.0, f64::max);
        for (direction, load) in [Direction::Tx, Direction::Rx].into_iter().zip(loads) {
            let mut study = PortStudy::of(port, direction);
            let compared =
                load.and_then(|load| compare(&mut study, port, trial, jobs, (load, largest)));
            if let Err(why) = compared {
                study.why.push(why);
            }
            studies.push(study);
        }
    }
    studies
}

/// Lowers the standing of a trial whose observers disagree with the tool.
pub(super) fn doubt(standing: &mut Standing, studies: &[PortStudy]) {
    for study in studies {
        let (observer, port, faces) =
            (study.observer.clone(), study.port.clone(), study.faces.clone());
        let direction = study.direction;
        match study.agreement {
            Agreement::Background => {
                let share = study.background().unwrap_or(0.0);
                standing.lower(
                    Validity::Suspect,
                    Reason::OthersSent { observer, port, faces, direction, share },
                );
            }
            Agreement::Missing => {
                let share = (study.expected - study.octets) / study.expected;
                standing.lower(
                    Validity::Suspect,
                    Reason::NotCounted { observer, port, faces, direction, share },
                );
            }
            Agreement::Agrees | Agreement::Unknown => {}
        }
    }
}

fn is_behind(port: &ObservedPort, end: &Endpoint) -> bool {
    port.faces == end.name
}

/// Returns the tool's counts in `direction` of `port`.
fn load(
    port: &ObservedPort,
    hosts: &Hosts<'_>,
    jobs: &[Job<'_>],
    direction: Direction,
) -> Result<Load, PortNote> {
    let mut sum = Load::default();
    for job in jobs {
        let (own, other) = match (is_behind(port, &job.spec.from), is_behind(port, &job.spec.to)) {
            (true, false) => (job.active, job.passive),
            (false, true) => (job.passive, job.active),
            _ => continue,
        };
        let stamped = [&job.spec.from, &job.spec.to].into_iter().all(|end| {
            hosts
                .fact(&end.host, "net.tcp_timestamps")
                .is_some_and(|fact| fact.as_u64().is_some_and(|on| on > 0))
        });
        let ip = super::ceilings::ip_version(job);
        let link = ETHERNET + if port.counts_fcs { FCS } else { 0.0 };
        let tcp = link
            + headers::tcp(ip, if stamped { Timestamps::On } else { Timestamps::Off }).0 as f64;
        let one = match direction {
            Direction::Rx => received(own, other, tcp),
            _ => sent(own, tcp),
        };
        let datagrams =
            || datagrams(if direction == Direction::Rx { other } else { own }, link, ip);
        let one = one
            .or_else(datagrams)
            .ok_or_else(|| PortNote::FramesNotCounted { workload: job.spec.workload.clone() })?;
        sum.payload += one.payload;
        sum.frames += one.frames;
        sum.headers += one.headers;
        sum.doubt += one.doubt;
    }
    Ok(sum)
}

/// Returns the last state of each TCP connection of `end`; `None` if there is none, or the kernel
/// counts no segments.
fn connections(end: &JobRecord) -> Option<Vec<&linerate_model::TcpState>> {
    let states: Vec<_> = end.flows.iter().filter_map(|flow| flow.tcp.as_ref()).collect();
    (!states.is_empty() && states.iter().any(|state| state.segments_out > 0)).then_some(states)
}

fn sent(own: &JobRecord, per_frame: f64) -> Option<Load> {
    let states = connections(own)?;
    let payload = states.iter().map(|state| state.bytes_sent as f64).sum();
    let frames: f64 = states.iter().map(|state| f64::from(state.segments_out)).sum();
    Some(Load { payload, frames, headers: frames * per_frame, doubt: 0.0 })
}

fn received(own: &JobRecord, other: &JobRecord, per_frame: f64) -> Option<Load> {
    let states = connections(own)?;
    let payload: f64 = states.iter().map(|state| state.bytes_received as f64).sum();
    let frames: f64 = states.iter().map(|state| f64::from(state.segments_in)).sum();
    // Retransmitted data may have crossed twice, or the first copy may have been lost before the
    // port. Data in flight when the load ended crossed the port, and no end received it.
    let others = connections(other)?;
    let again: f64 = others.iter().map(|state| state.bytes_retransmitted as f64).sum();
    let on_its_way =
        others.iter().map(|state| state.bytes_sent as f64).sum::<f64>() - again - payload;
    Some(Load { payload, frames, headers: frames * per_frame, doubt: again + on_its_way.max(0.0) })
}

/// Returns the datagrams that `sender` sent; `None` if it counted none, or some that no frame of
/// Ethernet holds.
fn datagrams(sender: &JobRecord, link: f64, ip: IpVersion) -> Option<Load> {
    /// Payload of the usual Ethernet: larger packets are fragments, or jumbo frames, and we do not
    /// know which.
    const MTU: f64 = 1500.0;
    let frames = total(sender, Counter::DatagramsSent) as f64;
    let payload = total(sender, Counter::PayloadSent) as f64;
    if frames == 0.0 {
        // An end that only receives sends nothing.
        return (payload == 0.0 && total(sender, Counter::Transactions) == 0).then(Load::default);
    }
    let packet = payload / frames + headers::udp(ip).0 as f64;
    let padding = (SMALLEST - ETHERNET - packet).max(0.0);
    (packet <= MTU).then(|| Load {
        payload,
        frames,
        headers: frames * (link + headers::udp(ip).0 as f64),
        doubt: frames * padding,
    })
}

/// One counter's readings that were answered.
fn readings(block: &SampleBlock, port: &str, wanted: Series) -> Vec<(Nanos, f64)> {
    let found = block.series.iter().position(|series| wanted.is(series) && series.instance == port);
    let column = found.and_then(|index| block.columns.get(index));
    let values = column.into_iter().flat_map(SampleColumn::iter).zip(&block.times);
    values.filter_map(|(value, at)| value.map(|value| (*at, value))).collect()
}

/// Compares the count of `port` during `trial` with `load`.
///
/// # Errors If they cannot be compared, with the reason.
fn compare(
    study: &mut PortStudy,
    port: &ObservedPort,
    trial: &TrialRecord,
    jobs: &[Job<'_>],
    (load, largest): (Load, f64),
) -> Result<(), PortNote> {
    let blocks = trial.samples.iter().filter(|(host, _)| *host == port.observer);
    let block = blocks.map(|(_, block)| block).next().ok_or(PortNote::NoReadings)?;
    let (octets, packets, drops) = if study.direction == Direction::Tx {
        (observer::IN_OCTETS, observer::IN_PACKETS, [observer::IN_DISCARDS, observer::IN_ERRORS])
    } else {
        (
            observer::OUT_OCTETS,
            observer::OUT_PACKETS,
            [observer::OUT_DISCARDS, observer::OUT_ERRORS],
        )
    };
    if readings(block, &port.port, observer::RESETS).last().is_some_and(|(_, resets)| *resets > 0.0)
    {
        return Err(PortNote::Reset);
    }
    let read = readings(block, &port.port, octets);
    if read.len() < 2 {
        let error = block.unavailable.first().map(|(_, error)| error.clone());
        return Err(error.map_or(PortNote::TooFewReadings, |error| PortNote::Unavailable { error }));
    }
    let seen = seen(&read, jobs)?;
    let grown = |column| growth(block, &port.port, column, seen.span);
    study.octets = grown(octets).ok_or(PortNote::EndsNotRead)?;
    study.frames = grown(packets);
    let dropped: Vec<f64> = drops.into_iter().filter_map(grown).collect();
    study.dropped = (!dropped.is_empty()).then(|| dropped.iter().sum());
    let frames = load.frames * seen.share;
    let per_frame = if load.frames > 0.0 { load.headers / load.frames } else { 0.0 };
    let counted = match study.frames {
        Some(counted) if counted < SUPER_PACKETS * frames => {
            study.why.push(PortNote::SuperPackets);
            counted
        }
        _ => frames,
    };
    study.n = 1;
    study.payload = load.payload * seen.share;
    study.expected = study.payload + counted * per_frame;
    study.bound =
        BOUND * largest * seen.share + ALWAYS_THERE + load.doubt + seen.doubt * study.expected;
    study.why.extend(seen.why);
    let more = study.octets - study.expected;
    study.agreement = if more > study.bound {
        Agreement::Background
    } else if more < -study.bound {
        Agreement::Missing
    } else if study.bound > WIDEST * study.expected {
        let share = study.bound / study.expected.max(1.0);
        study.why.push(PortNote::TooWide { share, limit: WIDEST });
        Agreement::Unknown
    } else {
        Agreement::Agrees
    };
    Ok(())
}

/// Returns the growth of `column` of `port` between two readings.
fn growth(
    block: &SampleBlock,
    port: &str,
    column: Series,
    (from, to): (Nanos, Nanos),
) -> Option<f64> {
    let read = readings(block, port, column);
    let at = |wanted: Nanos| read.iter().find(|(at, _)| *at == wanted).map(|(_, value)| *value);
    Some(at(to)? - at(from)?)
}

/// The part of a trial that an observer's readings cover.
struct Seen {
    /// From which reading to which.
    span: (Nanos, Nanos),
    /// Share of the load in between.
    share: f64,
    /// Share of that in doubt, as it is not known when the counters were read.
    doubt: f64,
    why: Option<PortNote>,
}

fn seen(read: &[(Nanos, f64)], jobs: &[Job<'_>]) -> Result<Seen, PortNote> {
    let (first, last) = (read[0].0, read[read.len() - 1].0);
    let moving =
        jobs.iter().flat_map(|job| job.ends()).flat_map(|end| &end.intervals).filter(|interval| {
            interval.counters[Counter::PayloadSent] + interval.counters[Counter::PayloadReceived]
                > 0
        });
    let loaded_until = moving.map(|interval| interval.end).max().unwrap_or_default();
    let mut gaps: Vec<u64> = read.windows(2).map(|pair| pair[1].0.since(pair[0].0).0).collect();
    gaps.sort_unstable();
    let period = gaps[gaps.len() / 2] as f64;
    // The longest time without a new value while there was load.
    let mut kept: f64 = 0.0;
    let mut since = read[0];
    for &(at, value) in read.iter().filter(|(at, _)| *at <= loaded_until) {
        if value != since.1 {
            since = (at, value);
        }
        kept = kept.max(at.since(since.0.max(Nanos(1))).0 as f64);
    }
    let whole = first <= Nanos(0) && last >= loaded_until;
    let is_read_anew = last.since(loaded_until).0 as f64 >= kept;
    let is_kept = kept > STALE * period && read[0].1 != read[read.len() - 1].1;
    if whole && (!is_kept || is_read_anew) {
        let why = is_kept.then_some(PortNote::AskedAgain { interval: kept / NANOS });
        return Ok(Seen { span: (first, last), share: 1.0, doubt: 0.0, why });
    }
    let changes: Vec<Nanos> =
        read.windows(2).filter(|pair| pair[0].1 != pair[1].1).map(|pair| pair[1].0).collect();
    let within: Vec<Nanos> = changes.into_iter().filter(|at| *at <= loaded_until).collect();
    let (Some(from), Some(to)) = (within.first(), within.last()) else {
        return Err(PortNote::Unchanged);
    };
    let seconds = to.since(*from).as_secs_f64();
    let period = period / NANOS;
    if seconds < 2.0 * period.max(kept / NANOS) {
        return Err(PortNote::TooSlow { interval: kept / NANOS });
    }
    let span = Span { from: *from, to: *to };
    let ends: Vec<&JobRecord> = jobs.iter().flat_map(|job| job.ends()).collect();
    let both = [Counter::PayloadSent, Counter::PayloadReceived];
    let all: f64 = ends.iter().flat_map(|end| both.map(|counter| total(end, counter) as f64)).sum();
    let inside: f64 =
        ends.iter().flat_map(|end| both.map(|counter| counted(end, counter, span))).sum();
    let why = PortNote::Part { seconds, interval: kept / NANOS };
    Ok(Seen {
        span: (*from, *to),
        share: inside / all.max(1.0),
        doubt: 2.0 * period / seconds,
        why: Some(why),
    })
}
