//! Places where the datagrams of a job were lost, as far as counters locate them.
//!
//! The kernel counts drops in socket buffers, each of which may hold many datagrams (GSO, GRO).
//! Drops at a socket are counted in datagrams by the gaps in the sequence numbers that they leave.
//! Drops of a packet filter follow from what IP received and what it passed on. Drops of devices
//! and before IP follow from the datagrams that did not reach IP. Checksum errors are counted one
//! by one, because the kernel coalesces nothing that it has not verified. Counters of queues and
//! devices also count other traffic, so they explain at most what was lost. The devices under test
//! of a lab count datagrams by cause, so their drops are located to the frame. Not visible: drops
//! inside other networks, and which of two flows a shared counter belongs to (shared counters are
//! used only where one job ran).

use linerate_model::series::{device, interface, qdisc, udp};
use linerate_model::{Counter, Endpoint, JobRecord, Series, SeriesSpec, series};

use super::{LossStudy, device_on_the_way};
use crate::study::loss_place::{DropCause, LossPlace};
use crate::study::samples::{LOOPBACK, Samples};
use crate::study::span;

/// Counter for each cause for which a device drops a datagram.
const CAUSES: [(Series, DropCause); 3] = [
    (device::DATAGRAMS_DROPPED_FULL, DropCause::BufferFull),
    (device::DATAGRAMS_DROPPED_BY_ORDER, DropCause::ByOrder),
    (device::DATAGRAMS_DROPPED_AT_RANDOM, DropCause::AtRandom),
];

/// Readings in which losses are searched.
pub(super) struct Places<'a> {
    /// The sending host's readings and end.
    pub(super) sender: (&'a Samples<'a>, &'a Endpoint),
    /// The devices that packets pass on each way out of the sending host, uppermost first.
    pub(super) out: &'a [Vec<&'a str>],
    /// The devices that they pass in the receiving host.
    pub(super) into: &'a [&'a str],
    /// The receiving host's readings and end.
    pub(super) receiver: (&'a Samples<'a>, &'a Endpoint),
    /// Counts of the lab's devices.
    pub(super) devices: &'a Samples<'a>,
    /// Counts of the sending end.
    pub(super) sent: &'a JobRecord,
    /// Counts of the receiving end.
    pub(super) received: &'a JobRecord,
    /// True if this job alone used the hosts, so that their counters describe it.
    pub(super) alone: bool,
    /// True if UDP sockets received it: frames may bypass them.
    pub(super) over_udp: bool,
    /// True if both hosts are namespaces of one kernel.
    pub(super) share_kernel: bool,
}

/// Looks for the losses of `loss` along the path.
pub(super) fn locate(loss: &mut LossStudy, places: &Places<'_>) {
    // Counters of the datagrams themselves come before counters that others share.
    for (place, drops) in at_receiver(places, loss.ledger.lost()).into_iter().chain(shared(places))
    {
        match drops {
            None => loss.unobserved.push(place),
            Some(drops) => {
                // Shared counters include the losses of other traffic, so no place explains more
                // than was lost.
                let found = (drops.round().max(0.0) as u64).min(loss.unexplained);
                loss.unexplained -= found;
                if found > 0 {
                    loss.located.push((place, found));
                }
            }
        }
    }
    // In the order of the path.
    loss.located.sort_by(|(a, _), (b, _)| a.cmp(b));
    loss.unobserved.sort();
}

/// A place and the datagrams it dropped at the most; `None` if its counters were not read.
type Drops = (LossPlace, Option<f64>);

/// Returns the drops of queues, devices and networks.
fn shared(places: &Places<'_>) -> Vec<Drops> {
    let Places {
        sender: (sending, from),
        receiver: (receiving, to),
        devices,
        sent,
        alone,
        share_kernel,
        ..
    } = places;
    let Places { out, into, .. } = places;
    let within = in_devices(devices, &from.name, &to.name);
    let sideband = to.ncsi.as_deref();
    let of_chain = |chain: &Vec<&str>, column: Series| -> Vec<f64> {
        chain.iter().filter_map(|device| queued(sending, column, Some(*device))).collect()
    };
    // The lowest queue of a chain passes the packets that none above it dropped.
    let passed = out
        .iter()
        .filter_map(|chain| of_chain(chain, qdisc::PACKETS).into_iter().reduce(f64::min))
        .reduce(|a, b| a + b);
    let at_queue = match out {
        [] => queued(sending, qdisc::DROPS, None),
        out => out.iter().flat_map(|chain| of_chain(chain, qdisc::DROPS)).reduce(|a, b| a + b),
    };
    let at_device = match out {
        [] => change(sending, interface::TX_DROPPED, None),
        out => out
            .iter()
            .filter_map(|chain| dropped_by(chain, sending, &of_chain(chain, qdisc::DROPS)))
            .reduce(|a, b| a + b),
    };
    let (at_queue, at_device) =
        without_refused(at_queue, at_device, span::total(sent, Counter::SendDrops) as f64);
    let dropped_at_queue = at_queue.map(|drops| dropped_datagrams(drops, passed, sent));
    let before: f64 = within.iter().filter_map(|(_, drops)| *drops).sum::<f64>()
        + dropped_at_queue.unwrap_or(0.0);
    // Facts without devices leave only the sum over all of them.
    let received = |column| growth_at(receiving, column, into);
    let rx_dropped = received(interface::RX_DROPPED);
    let backlog = change(receiving, series::softnet::DROPPED, None);
    let [at_device, far_device, backlog] =
        counted_once(at_device, rx_dropped, backlog, *share_kernel);
    let far_device = sum(far_device, received(interface::RX_MISSED));
    let in_messages = [at_device, far_device, backlog, at_ingress(places, backlog)];
    let missing = never_arrived(places).map(|missing| missing - before);
    let [at_device, far_device, backlog, ingress] = in_datagrams(in_messages, missing, places);
    let counted: f64 = [at_device, far_device, backlog, ingress].iter().flatten().sum();
    let ingress = ingress
        .map(|drops| with_those_between_readings(drops, missing.map_or(0.0, |all| all - counted)));
    let mut near =
        vec![(LossPlace::SenderQueue, dropped_at_queue), (LossPlace::SenderDevice, at_device)];
    near.extend(
        at_output(places, dropped_at_queue.unwrap_or(0.0) + at_device.unwrap_or(0.0))
            .map(|drops| (LossPlace::SenderOutput, Some(drops))),
    );
    let mut far =
        vec![(LossPlace::ReceiverDevice, far_device), (LossPlace::ReceiverBacklog, backlog)];
    // Only the datagrams of UDP sockets pass through IP.
    far.extend(ingress.map(|drops| (LossPlace::ReceiverIngress, Some(drops))));
    let controller = sideband.map(|device| {
        (LossPlace::Controller, change(receiving, series::ncsi::PASS_THROUGH_DROPPED, Some(device)))
    });
    // On the path before the receiver, and counted, while drops at ingress are a difference.
    let shared = near.into_iter().chain(within).chain(controller).chain(far);
    // With several jobs, a shared counter belongs to none of them.
    shared.map(|(place, drops)| (place, drops.filter(|_| *alone))).collect()
}

/// Returns the growth of `column` at `devices`, or at all devices if none is known.
fn growth_at(samples: &Samples<'_>, column: Series, devices: &[&str]) -> Option<f64> {
    if devices.is_empty() {
        return change(samples, column, None);
    }
    let changes = devices.iter().filter_map(|device| change(samples, column, Some(device)));
    changes.reduce(|a, b| a + b)
}

/// Returns the growth of `column` at the queues of `device`, or at all queues.
fn queued(samples: &Samples<'_>, column: Series, device: Option<&str>) -> Option<f64> {
    let wanted =
        |s: &SeriesSpec| column.is(s) && device.is_none_or(|device| is_of(&s.instance, device));
    // A queueing discipline includes the drops of its children, so the largest count of a device is
    // the total.
    samples.extent().and_then(|span| samples.largest_change(span, wanted))
}

/// Returns the datagrams that left the socket and not the device, without those that queue and
/// device dropped themselves. The device counts other packets too. Something is missing for certain
/// only if the load alone had more than all of them; then the packets of other programs are
/// subtracted.
fn at_output(places: &Places<'_>, dropped: f64) -> Option<f64> {
    /// Address resolution in a trial, at the most.
    const NOT_IP: f64 = 10.0;
    let Places { sender: (sending, _), out, sent, alone, over_udp, .. } = places;
    let ip = |column: Series| change(sending, column, None).filter(|_| *alone && *over_udp);
    let lowest = out.iter().filter_map(|chain| chain.last());
    let left = lowest
        .filter_map(|device| change(sending, interface::TX_PACKETS, Some(device)))
        .reduce(|a, b| a + b)?;
    let others = (ip(udp::IP_OUT_REQUESTS)? - ip(udp::OUT_DATAGRAMS)?).max(0.0);
    let total = |counter| span::total(sent, counter) as f64;
    let each = total(Counter::DatagramsSent) / total(Counter::MessagesSent).max(1.0);
    // Among messages of many sizes, the size of the dropped ones is unknown.
    if each > 1.0 && dropped > 0.0 {
        return None;
    }
    let missing = total(Counter::DatagramsSent) - dropped - left * each;
    Some(if missing > 0.0 { missing + (others + NOT_IP) * each } else { 0.0 })
}

/// Returns the drops of the devices of `chain` themselves. A device that hands its packets to
/// another one also counts the drops of the queue (`queued`) or of the device below it
/// (`vlan_dev_hard_start_xmit`, `iptunnel_xmit`).
fn dropped_by(chain: &[&str], sending: &Samples<'_>, queued: &[f64]) -> Option<f64> {
    let of = |device: &&str| change(sending, interface::TX_DROPPED, Some(device));
    let (last, above) = chain.split_last()?;
    let lowest = of(last);
    let below = lowest.unwrap_or(0.0) + queued.iter().sum::<f64>();
    let own: f64 = above.iter().filter_map(of).map(|drops| (drops - below).max(0.0)).sum();
    sum(lowest, (!above.is_empty()).then_some(own))
}

/// Drops of the sending device, of the receiving one, and at the per-CPU backlog, each counted
/// once. A drop at the backlog is in `rx_dropped` too (`enqueue_to_backlog`), and between two
/// virtual devices of one kernel also in the sender's `tx_dropped`: measured on a veth pair with
/// RPS, Linux 6.18, 129,400 in each of the three. The backlog's counter is of the whole machine,
/// other namespaces' packets included.
fn counted_once(
    tx_dropped: Option<f64>,
    rx_dropped: Option<f64>,
    backlog: Option<f64>,
    share_kernel: bool,
) -> [Option<f64>; 3] {
    let backlog = backlog.map(|drops| rx_dropped.map_or(drops, |device| drops.min(device)));
    let rest = |drops: Option<f64>| drops.map(|drops| (drops - backlog.unwrap_or(0.0)).max(0.0));
    [if share_kernel { rest(tx_dropped) } else { tx_dropped }, rest(rx_dropped), backlog]
}

/// Socket buffers that the receiving device passed up and IP did not receive, without those dropped
/// at the `backlog`.
fn at_ingress(places: &Places<'_>, backlog: Option<f64>) -> Option<f64> {
    /// Frames of other protocols (ARP, LLDP, STP) in a trial: this few packets are not counted as
    /// drops.
    const NOT_IP: f64 = 10.0;
    let Places { receiver: (receiving, to), over_udp, .. } = places;
    // A sideband's device counts the control packets of NC-SI too: answers to our own sampler and
    // to the kernel, dozens in a trial.
    let is_sideband = to.ncsi.is_some() && to.ncsi == to.device;
    let device = to.device.as_deref().filter(|_| *over_udp && !is_sideband)?;
    let packets = |device: &str| change(receiving, interface::RX_PACKETS, Some(device));
    let ip = |column: Series| change(receiving, column, None);
    // Packets over the loopback reached IP too.
    let passed = packets(device)? + packets(LOOPBACK).filter(|_| device != LOOPBACK).unwrap_or(0.0);
    // A device that takes coalesced messages counts each as one packet; one that coalesces
    // afterwards counts datagrams.
    let (messages, datagrams) = (ip(udp::IP_IN_RECEIVES)?, arrived(&ip)?);
    let received = if passed >= datagrams { datagrams } else { messages };
    Some(passed - received - backlog.unwrap_or(0.0))
        .map(|found| if found > NOT_IP { found } else { 0.0 })
}

/// Returns drops at ingress corrected for the time between two readings. Drops are a difference of
/// two counters, and packets that arrive after the device's counter was read and before IP's hide
/// some of them: the control connection ends the readings, so its segments arrive just then. The
/// correction is at most the `missing` datagrams, which did not arrive and were located nowhere.
fn with_those_between_readings(drops: f64, missing: f64) -> f64 {
    /// Packets of the control connection between both readings, at the most; up to 3 were seen.
    const BETWEEN_READINGS: f64 = 10.0;
    if drops > 0.0 { drops + missing.clamp(0.0, BETWEEN_READINGS) } else { 0.0 }
}

/// Returns the datagrams of the load that did not reach the IP of the receiving host, at the most;
/// `None` if that was not counted.
fn never_arrived(places: &Places<'_>) -> Option<f64> {
    /// Largest number of datagrams with which the two ends of a flow find each other.
    const OPENING: f64 = 4.0;
    let Places { receiver: (receiving, _), sent, alone, over_udp, .. } = places;
    let ip = |column: Series| change(receiving, column, None).filter(|_| *alone && *over_udp);
    let to_udp = ip(udp::IN_DATAGRAMS)? + ip(udp::IN_ERRORS)? + ip(udp::NO_PORTS).unwrap_or(0.0);
    // The control connection, for one.
    let others = (ip(udp::IP_IN_DELIVERS)? - to_udp).max(0.0);
    let missing = span::total(sent, Counter::DatagramsSent) as f64 - (arrived(&ip)? - others);
    Some((missing + OPENING * sent.flows.len() as f64).max(0.0))
}

/// Drops at places before the receiving IP, each a message of many datagrams or one datagram, as
/// datagrams: together they are the `missing` ones that did not arrive, without those that were
/// lost at places that count datagrams.
fn in_datagrams<const N: usize>(
    drops: [Option<f64>; N],
    missing: Option<f64>,
    places: &Places<'_>,
) -> [Option<f64>; N] {
    let dropped: f64 = drops.iter().flatten().sum();
    let each = missing.map_or(1.0, |missing| {
        // A drop is one datagram at least and one whole message at most.
        (missing / dropped.max(1.0)).clamp(1.0, widest_message(places.sent, places.received))
    });
    drops.map(|drops| drops.map(|drops| drops * each))
}

/// Returns the drops of the receiving host after its device among the `lost` datagrams: at the
/// packet filter, for checksums, and at the socket.
fn at_receiver(places: &Places<'_>, lost: u64) -> Vec<Drops> {
    let Places { receiver: (receiving, _), sent, received, alone, over_udp, .. } = places;
    let total = |counter| span::total(received, counter) as f64;
    let (messages, datagrams) =
        (total(Counter::SocketDrops), total(Counter::SocketDroppedDatagrams));
    // A receiver without a count of datagrams receives none that are coalesced.
    let at_socket = if datagrams > 0.0 { datagrams } else { messages };
    let family = family(received);
    let udp = |column: Series| change(receiving, column, family).filter(|_| *alone && *over_udp);
    let Some((overflows, checksums)) = udp(udp::RCVBUF_ERRORS).zip(udp(udp::IN_CSUM_ERRORS)) else {
        return vec![(LossPlace::ReceiverSocket, Some(at_socket))];
    };
    // The rest of the errors were refused by a filter attached to the socket.
    let refused = udp(udp::IN_ERRORS).map_or(0.0, |errors| {
        (errors - overflows - checksums - udp(udp::MEM_ERRORS).unwrap_or(0.0)).max(0.0)
    });
    let at_socket = if messages + datagrams > 0.0 {
        (at_socket - checksums - refused).max(0.0)
    } else {
        overflows
    };
    // A socket buffer that found no room held one datagram at the least.
    let overflowed = if overflows > 0.0 { at_socket.max(overflows) } else { 0.0 };
    let reassembly = udp(udp::IP_REASSEMBLY_FAILURES)
        .map(|failures| (LossPlace::ReceiverReassembly, Some(failures)));
    let filtered = filtered(&udp).map(|dropped| {
        // Datagrams that did not even arrive were not dropped here.
        let sent_all = span::total(sent, Counter::DatagramsSent) as f64;
        let before = arrived(&udp).map_or(0.0, |arrived| (sent_all - arrived).max(0.0));
        let rest = lost as f64 - before - overflowed - checksums - refused;
        (dropped * widest_message(sent, received)).min(rest.max(0.0))
    });
    let mut places = vec![
        (LossPlace::ReceiverChecksum, Some(checksums)),
        (LossPlace::ReceiverSocket, Some(overflowed)),
        (LossPlace::ReceiverFilter, filtered.map(|filtered| filtered + refused)),
    ];
    places.extend(reassembly);
    places
}

/// Returns the datagrams of a message, rounded up: as they were handed to the sending socket, or as
/// they came together.
fn widest_message(sent: &JobRecord, received: &JobRecord) -> f64 {
    let total = |end, counter| span::total(end, counter) as f64;
    let ratio =
        |end, datagrams, messages| (total(end, datagrams) / total(end, messages).max(1.0)).ceil();
    ratio(sent, Counter::DatagramsSent, Counter::MessagesSent)
        .max(ratio(received, Counter::DatagramsReceived, Counter::MessagesReceived))
        .max(1.0)
}

/// Returns the instance of sampler `udp` that counts the datagrams of `received`; both if that is
/// not known.
fn family(received: &JobRecord) -> Option<&'static str> {
    let local: core::net::SocketAddr = received.flows.first()?.local.parse().ok()?;
    Some(if local.ip().to_canonical().is_ipv4() { "ipv4" } else { "ipv6" })
}

/// Socket buffers that IP received and neither delivered, forwarded nor rejected, by its counters
/// `ip`; `None` if not read, or among fragments, which are received many and delivered once.
fn filtered(ip: &impl Fn(Series) -> Option<f64>) -> Option<f64> {
    /// Packets to groups are delivered or not: the host may not belong to the group.
    const ACCOUNTED: [Series; 9] = [
        udp::IP_IN_DELIVERS,
        udp::IP_IN_HEADER_ERRORS,
        udp::IP_IN_ADDRESS_ERRORS,
        udp::IP_IN_UNKNOWN_PROTOCOLS,
        udp::IP_IN_DISCARDS,
        udp::IP_IN_NO_ROUTES,
        udp::IP_IN_TRUNCATED,
        udp::IP_IN_MULTICAST,
        udp::IP_FORWARDED,
    ];
    let accounted: f64 = ACCOUNTED.into_iter().filter_map(ip).sum();
    (ip(udp::IP_FRAGMENTS)? == 0.0).then_some((ip(udp::IP_IN_RECEIVES)? - accounted).max(0.0))
}

/// IP packets that arrived, those of other programs included: the only counters of the receiving IP
/// in which a coalesced message counts its datagrams.
fn arrived(ip: &impl Fn(Series) -> Option<f64>) -> Option<f64> {
    Some(ip(udp::IP_IN_NOT_ECT)? + ip(udp::IP_IN_ECT0)? + ip(udp::IP_IN_ECT1)? + ip(udp::IP_IN_CE)?)
}

/// Returns the change of `column` over the whole trial, of `device` if one is named.
fn change(samples: &Samples<'_>, column: Series, device: Option<&str>) -> Option<f64> {
    let wanted =
        |s: &SeriesSpec| column.is(s) && device.is_none_or(|device| is_of(&s.instance, device));
    samples.extent().and_then(|span| samples.change(span, wanted))
}

/// Returns the drops at the sender's queue and device without the `refused` ones. The sender was
/// notified of those at once, so they are not among the datagrams it counts as sent. A queue
/// refuses before a device can.
fn without_refused(
    queue: Option<f64>,
    device: Option<f64>,
    refused: f64,
) -> (Option<f64>, Option<f64>) {
    let at_queue = queue.unwrap_or(0.0).min(refused);
    let rest = refused - at_queue;
    (queue.map(|drops| drops - at_queue), device.map(|drops| (drops - rest).max(0.0)))
}

/// Returns the drops of the devices on the way from endpoint `from` to `to`, by device and cause. A
/// device connected to neither of them is not known to be on the way.
fn in_devices(devices: &Samples<'_>, from: &str, to: &str) -> Vec<Drops> {
    let Some(span) = devices.extent() else { return Vec::new() };
    let mut found = Vec::new();
    for instance in devices.instances(device::SAMPLER) {
        let Some(name) = device_on_the_way(instance, from, to) else { continue };
        for (counter, cause) in CAUSES {
            let dropped = devices.change(span, |s| s.instance == instance && counter.is(s));
            if dropped.is_some_and(|dropped| dropped > 0.0) {
                found.push((LossPlace::Device { name: name.to_owned(), cause }, dropped));
            }
        }
    }
    found
}

/// Returns a lower bound of the datagrams of `sent` that a queueing discipline dropped, if it
/// counted `drops` and let `passed` packets through.
///
/// A drop is one skb: a single datagram, or a whole message of many (UDP_SEGMENT) where the
/// discipline did not split it. Packets that pass are counted in segments (`bstats_update` adds
/// `gso_segs`), so datagrams that were sent and did not pass were dropped. Measured with tbf on
/// Linux 6: messages of 64 datagrams smaller than its burst make one drop each (1386 for 88704 lost
/// datagrams, all of which the passed packets account for). Larger messages are split and make a
/// drop per datagram. Other traffic that passed only makes the result smaller, never larger.
fn dropped_datagrams(drops: f64, passed: Option<f64>, sent: &JobRecord) -> f64 {
    /// UDP_MAX_SEGMENTS, Linux `include/linux/udp.h`: 64 until Linux 6.9, 128 since.
    const MOST_SEGMENTS: f64 = 128.0;
    let (datagrams, messages) =
        (span::total(sent, Counter::DatagramsSent), span::total(sent, Counter::MessagesSent));
    match passed {
        Some(passed) if (1..datagrams).contains(&messages) => {
            (datagrams as f64 - passed).clamp(drops, drops * MOST_SEGMENTS)
        }
        _ => drops,
    }
}

/// Returns whether a series' instance belongs to `device`: its name, or its name and a suffix
/// (`eth0 fq 8001:`).
fn is_of(instance: &str, device: &str) -> bool {
    instance.split_whitespace().next() == Some(device)
}

fn sum(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a + b),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_queue_or_device_refused_at_once_is_no_place_of_losses() {
        assert_eq!(without_refused(Some(10.0), Some(3.0), 0.0), (Some(10.0), Some(3.0)));
        assert_eq!(without_refused(Some(10.0), Some(3.0), 10.0), (Some(0.0), Some(3.0)));
        assert_eq!(
            without_refused(Some(0.0), Some(3.0), 2.0),
            (Some(0.0), Some(1.0)),
            "past the queue the device refuses"
        );
        assert_eq!(without_refused(None, Some(3.0), 5.0), (None, Some(0.0)));
    }

    #[test]
    fn a_drop_at_the_backlog_that_three_counters_show_is_one() {
        let drops = |tx, rx, backlog, share| {
            counted_once(Some(tx), Some(rx), Some(backlog), share).map(Option::unwrap)
        };
        assert_eq!(
            drops(129_400.0, 129_400.0, 129_402.0, true),
            [0.0, 0.0, 129_400.0],
            "two are of other programs"
        );
        assert_eq!(drops(7.0, 5.0, 3.0, true), [4.0, 2.0, 3.0]);
        assert_eq!(
            drops(7.0, 5.0, 3.0, false),
            [7.0, 2.0, 3.0],
            "the sending device is on another machine"
        );
        assert_eq!(counted_once(None, None, Some(3.0), true), [None, None, Some(3.0)]);
    }
}
