//! PCI Express: throughput of a link after packet framing, for writes, reads and both, and the
//! share of it that a network card gets.
//!
//! Units: bit/s of payload, frames/s. Directions are seen from the device: `rx` are writes to host
//! memory (a NIC that receives), `tx` are reads from it (a NIC that transmits), `sum` both at once.
//! Standard: PCI Express Base Specification 6.0, chapters 2 (packets), 3 (data link), 4 (line
//! code); pcie-bench (Neugebauer et al., SIGCOMM 2018) for the counting method.
//!
//! Not covered: credits; tags and latency unless both are given; a device's own traffic unless a
//! card's model is chosen; completions shorter than requested unless `completion` is given. Where
//! link-layer packets or a card's model are counted, the figure is an expectation, not a bound, and
//! its name states that. From generation 6 on headers have optional extensions: that figure is
//! approximate and marked so.

pub mod link;
pub mod nic;
pub mod slots;

use linerate_model::derivation::{Expression, Line, Measure, Quantity, Remark, Statement};
use linerate_model::{
    BitRate, BoundClass, BusAccess, Bytes, Ceiling, Direction, ModelName, Nanos, PacketRate,
    ParamError, Params, PcieLoad, metric,
};

use super::options::{BITS, checked, options, positive, read, refusal};
use super::{Limit, defaults, ethernet, optional, required};
use Direction::{Rx, Sum, Tx};
pub(crate) use link::HEADER_3DW;
pub use link::{Addressing, EndToEndCheck, LANES, Link, LinkBytes, LinkLayerPackets};
use link::{FLIT_GENERATION, PAGE};
use nic::{FrameBytes, Nic, Step, frame_bytes, frame_rate};

/// Smallest maximum payload: every device must support it, and hosts often grant no more.
const SMALLEST_PAYLOAD: Bytes = Bytes(128);
/// Largest of MPS, MRRS and transaction that is calculated with: a page.
const LARGEST_PAYLOAD: Bytes = Bytes(4096);
/// Maximum payloads that hosts usually grant; printed side by side when none was given.
const USUAL_MAX_PAYLOADS: [Bytes; 3] = [Bytes(128), Bytes(256), Bytes(512)];

/// Maximum read request after reset, PCI Express 7.5.3.4.
const READ_REQUEST: Bytes = Bytes(512);

const NIC_SOURCE: &str = "Neugebauer et al., SIGCOMM 2018, and its model, corrected; Intel 82599 \
    data sheet 1.9 and 7.1 to 7.2";
const TAGS_SOURCE: &str = "Little's law; PCI Express 2.2.6.2";
const SOURCE: &str =
    "PCI Express Base Specification 6.0, 2.2, 3.4 and 4.2; Neugebauer et al., SIGCOMM 2018";

options! {
    r#gen: u32 = required("generation, 1 to 6");
    lanes: u32 = required("lanes: 1, 2, 4, 8, 12, 16 or 32");
    // If omitted, transactions are as large as the maximum payload: the most efficient single
    // packet.
    payload: Option<Bytes> = optional("size of a transaction; left out, the maximum payload");
    // If omitted, each of the usual ones is shown.
    mps: Option<Bytes> = optional("maximum payload of a packet; left out, the usual ones");
    // The value after reset, PCI Express 7.5.3.4.
    mrrs: Bytes = defaults("512 B", "maximum read request");
    // If omitted, completions are as large as the maximum payload.
    completion: Option<Bytes> = optional("payload of a completion; left out, the maximum");
    // Shorter headers: the higher bound.
    address: u32 = defaults("32", "address bits of requests: 32 or 64");
    // Off by default, as on nearly all hosts.
    ecrc: bool = defaults("false", "packets carry an end-to-end check (4 B)");
    // None: a hard upper bound.
    dllp: LinkLayerPackets =
        defaults("none", "link-layer packets: none (a bound), idt (4 B for each packet), \
            realistic (by the standard's limits) or pcie-model (as pcie-bench counts)");
    // At a page's begin, where the fewest packets are needed.
    offset: Bytes = defaults("0 B", "how far behind a page's begin transactions start");
    // If omitted, as many as it takes.
    tags: Option<u32> = optional("reads under way at once, with latency");
    // If omitted, no time at all.
    latency: Option<Nanos> = optional("from a read's request to its data, such as \"600 ns\"");
    // If omitted, transactions are bare.
    nic: Option<Nic> =
        optional("frames of a network card: simple, kernel (82599 and Linux) or poll-mode (82599 \
            and DPDK)");
    // Ethernet's smallest, where descriptors weigh most.
    frame_size: Bytes = defaults("64 B", "with nic: frame with its check sequence");
    // If omitted, there is no port in the way.
    port: Option<BitRate> =
        optional("with nic or figures: rate of the card's port, such as \"40 Gbit/s\"");
}

/// The calculator `pcie`.
pub(super) const LIMIT: Limit = Limit {
    name: "pcie",
    summary: "payload a PCI Express link carries in memory writes and reads (PCI Express 6.0)",
    options: OPTIONS,
    ceilings,
};

fn ceilings(params: &Params) -> Result<Vec<Ceiling>, Vec<ParamError>> {
    let parameters: Parameters = read(params, OPTIONS)?;
    checked(problems(&parameters))?;
    // Hosts grant different payloads, and the option is easy to miss. The usual ones are shown
    // beside each other.
    let max_payloads = parameters.mps.map_or(USUAL_MAX_PAYLOADS.to_vec(), |mps| vec![mps]);
    let of_payload = |max_payload| payload_ceilings(&parameters, max_payload);
    // The port's rate is no property of the slot, so it appears once and not for each maximum
    // payload.
    let port =
        parameters.nic.and(parameters.port).map(|port| port_ceiling(port, parameters.frame_size));
    Ok(max_payloads.into_iter().flat_map(of_payload).chain(port).collect())
}

/// Returns the ceilings of a link whose hosts grant `max_payload`.
fn payload_ceilings(parameters: &Parameters, max_payload: Bytes) -> Vec<Ceiling> {
    let link = link_of(parameters, max_payload);
    let mut ceilings = link_ceilings(parameters, &link);
    ceilings.extend(tag_ceiling(parameters, &link));
    if let Some(nic) = parameters.nic {
        ceilings.extend(nic_ceilings(parameters, &link, nic));
    }
    ceilings
}

fn problems(parameters: &Parameters) -> Vec<ParamError> {
    let mut errors = Vec::new();
    if link::lane(parameters.r#gen).is_none() {
        errors
            .push(refusal("gen", format!("generation {} is not known: 1 to 6", parameters.r#gen)));
    }
    if !LANES.contains(&parameters.lanes) {
        errors.push(refusal(
            "lanes",
            format!("{} lanes: a link has one of {LANES:?}", parameters.lanes),
        ));
    }
    if parameters.payload.is_some_and(|size| size.0 == 0 || size.0 > u64::from(u32::MAX)) {
        errors.push(refusal("payload", "a transaction has 1 B to 4 GiB"));
    }
    let sizes = [("mps", parameters.mps), ("mrrs", Some(parameters.mrrs))];
    for (key, size) in sizes {
        let granted = |size: Bytes| {
            size.0.is_power_of_two() && size >= SMALLEST_PAYLOAD && size <= LARGEST_PAYLOAD
        };
        if size.is_some_and(|size| !granted(size)) {
            errors.push(refusal(key, "expected a power of two from 128 B to 4096 B"));
        }
    }
    if parameters
        // Completions are cut at the read completion boundary, 64 B at the least.
        .completion
        .is_some_and(|size| !size.0.is_power_of_two() || size.0 < 64 || size > LARGEST_PAYLOAD)
    {
        errors.push(refusal("completion", "expected a power of two from 64 B to 4096 B"));
    }
    if ![32, 64].contains(&parameters.address) {
        errors.push(refusal(
            "address",
            format!("{} bits: addresses have 32 or 64", parameters.address),
        ));
    }
    // The other ways of counting would subtract the link layer a second time.
    if parameters.r#gen == FLIT_GENERATION && parameters.dllp != LinkLayerPackets::None {
        errors.push(refusal(
            "dllp",
            "from generation 6 on the flit has its own room for the link layer: expected none",
        ));
    }
    if parameters.offset >= PAGE {
        errors.push(refusal(
            "offset",
            format!("{}: expected less than a page of {PAGE}", parameters.offset),
        ));
    }
    errors.extend(nic_problems(parameters));
    errors
}

fn nic_problems(parameters: &Parameters) -> Vec<ParamError> {
    /// Largest jumbo frame used in a calculation.
    const LARGEST_FRAME: Bytes = Bytes(65_535);
    let mut errors = Vec::new();
    for (key, given, other, with) in [
        ("tags", parameters.tags.is_some(), parameters.latency.is_some(), "latency"),
        ("latency", parameters.latency.is_some(), parameters.tags.is_some(), "tags"),
    ] {
        if given && !other {
            errors.push(refusal(key, format!("has no meaning without {with}: give both")));
        }
    }
    if parameters.tags == Some(0) {
        errors.push(refusal("tags", "a device has at least one read under way"));
    }
    if parameters.latency == Some(Nanos(0)) {
        errors.push(refusal("latency", "an answer takes longer than nothing"));
    }
    if parameters.frame_size < ethernet::SMALLEST_FRAME || parameters.frame_size > LARGEST_FRAME {
        let cause = format!(
            "{}: expected {} to {LARGEST_FRAME}",
            parameters.frame_size,
            ethernet::SMALLEST_FRAME
        );
        errors.push(refusal("frame_size", cause));
    }
    errors.extend(positive("port", parameters.port));
    errors
}

fn link_of(parameters: &Parameters, mps: Bytes) -> Link {
    let mut link = Link::new(parameters.r#gen, parameters.lanes, mps, parameters.mrrs)
        .expect("generation and lanes were checked above");
    // No completion is longer than the maximum payload, whatever was asked for.
    link.completion = parameters.completion.map_or(mps, |size| size.min(mps));
    link.addressing =
        if parameters.address == 64 { Addressing::Bits64 } else { Addressing::Bits32 };
    link.check = if parameters.ecrc { EndToEndCheck::Present } else { EndToEndCheck::Absent };
    link.dllp = parameters.dllp;
    link.offset = parameters.offset;
    link
}

/// Returns the name of the figures of `load` on this link.
fn named(link: &Link, load: PcieLoad) -> ModelName {
    ModelName::Pcie {
        generation: link.generation,
        lanes: link.lanes,
        load,
        max_payload: link.max_payload,
        is_approximate: link.generation == FLIT_GENERATION,
    }
}

fn link_ceilings(parameters: &Parameters, link: &Link) -> Vec<Ceiling> {
    let size = parameters.payload.unwrap_or(link.max_payload);
    let (write, read) = (link.write_bytes(size), link.read_bytes(size));
    let base = base_lines(link);
    let lines = |more: &[Line]| [&base[..], more].concat();
    let [write_line, read_up, read_down] = transaction_lines(link, size);
    let result = result_line(link, size, write.up, link.write(size));
    let write_lines = lines(&[write_line.clone(), result]);
    // Requests and completions use different directions of a full-duplex link, so the busier one
    // decides.
    let result = result_line(link, size, read.up.max(read.down), link.read(size));
    let read_lines = lines(&[read_up.clone(), read_down.clone(), result]);
    let two = |rate: BitRate| Expression::from(2.0) * rate;
    let posted = 2.0 * link.write(size).0;
    let both_ways = Line::of(Quantity::BothWays, two(link.write(size)), BitRate(posted));
    let posted_lines = [&write_lines[..], &[both_ways]].concat();
    let up = write.up + read.up;
    // `both` counts reads and writes; the line shows one of each.
    let one = BitRate(link.both(size).0 / 2.0);
    let both_lines = lines(&[
        write_line,
        read_up,
        read_down,
        Statement::OneOfEach { up, down: read.down }.into(),
        result_line(link, size, up.max(read.down), one),
        Line::of(Quantity::ReadsAndWrites, two(one), link.both(size)),
    ]);
    let rate = link.write(size).0 / size.bits();
    let writes = Line::equation(
        Expression::from(link.write(size)) / (Expression::from(size) * BITS),
        Measure::WritesPerSecond.figure(rate),
    );
    let rate_lines = [&write_lines[..], &[writes]].concat();
    let ceiling = |load, metric, value, direction, lines| {
        on_link(link, Ceiling::new(named(link, load), metric, value, direction, lines, SOURCE))
    };
    let writes = || PcieLoad::Memory(BusAccess::Writes, size);
    let reads = PcieLoad::Memory(BusAccess::Reads, size);
    let both = PcieLoad::ReadsAndWrites(size);
    let two_ways = PcieLoad::WritesBothWays(size);
    vec![
        ceiling(writes(), metric::BANDWIDTH, link.write(size).0, Rx, write_lines.clone()),
        ceiling(reads, metric::BANDWIDTH, link.read(size).0, Tx, read_lines),
        ceiling(both, metric::BANDWIDTH, link.both(size).0, Sum, both_lines),
        ceiling(two_ways, metric::BANDWIDTH, posted, Sum, posted_lines),
        ceiling(writes(), metric::BUS_TRANSACTION_RATE, rate, Rx, rate_lines),
    ]
}

/// Returns `ceiling` as one of the bus `link`.
fn on_link(link: &Link, ceiling: Ceiling) -> Ceiling {
    let ceiling = ceiling.of(BoundClass::Bus);
    // A share for the link layer is a model of usual traffic. The real link may spend less, so the
    // figure is no bound.
    if link.is_bound() { ceiling } else { ceiling.expected() }
}

/// Returns the bound of reads by the number in flight at once, by Little's law.
fn tag_ceiling(parameters: &Parameters, link: &Link) -> Option<Ceiling> {
    let (tags, latency) = (parameters.tags?, parameters.latency?);
    const PER_SECOND: f64 = 1e9;
    // A longer transaction is split into requests of the maximum size, each with its own tag.
    let request = parameters.payload.unwrap_or(link.max_read_request).min(link.max_read_request);
    let value = f64::from(tags) * request.bits() * PER_SECOND / latency.0 as f64;
    let reads = Measure::Reads.of(tags.into()) * request * BITS;
    let time = Measure::Nanoseconds.of(latency.0 as f64);
    let derivation = vec![Line::equation(reads / time, BitRate(value)).remark(Remark::HoweverFast)];
    let name = ModelName::Tags { tags, request };
    let ceiling = Ceiling::new(name, metric::BANDWIDTH, value, Tx, derivation, TAGS_SOURCE);
    Some(ceiling.of(BoundClass::Bus))
}

/// Returns the frames of a card: sent, received, and both at once. Expected: descriptors are a
/// model of the card.
fn nic_ceilings(parameters: &Parameters, link: &Link, nic: Nic) -> Vec<Ceiling> {
    let frame = parameters.frame_size;
    let (transmit, receive) = (nic.transmit(), nic.receive());
    let sides =
        [(Tx, transmit.to_vec()), (Rx, receive.to_vec()), (Sum, [transmit, receive].concat())];
    let mut ceilings = Vec::new();
    for (direction, steps) in sides {
        let card = nic.name().to_owned();
        let name = named(link, PcieLoad::Frames { card, frame, direction });
        ceilings.extend(side_ceilings(name, direction, &steps, link, frame));
    }
    ceilings
}

/// Returns the packet rate and the throughput of frames of `frame` bytes that take the
/// transactions `steps` each.
fn side_ceilings(
    name: ModelName,
    direction: Direction,
    steps: &[Step],
    link: &Link,
    frame: Bytes,
) -> [Ceiling; 2] {
    let bytes = frame_bytes(steps, link, frame);
    let each = frame_rate(link, bytes);
    // Sent and received frames are counted at once, so the pair appears twice in each frame time.
    let ways = if direction == Sum { 2.0 } else { 1.0 };
    let rate = ways * each.0;
    let ways_rate = Measure::FramesPerSecond.figure(rate);
    let mut derivation = base_lines(link);
    derivation.extend(steps.iter().map(|step| step_line(step, link, frame)));
    derivation.push(nic_line(link, bytes, each));
    if direction == Sum {
        let both = Expression::from(ways) * Measure::FramesPerSecond.figure(each.0);
        derivation.push(Line::of(Quantity::BothWays, both, ways_rate));
    }
    let throughput = BitRate(rate * frame.bits());
    let mut bits = derivation.clone();
    bits.push(Line::equation(Expression::from(ways_rate) * frame * BITS, throughput));
    [
        Ceiling::new(name.clone(), metric::PACKET_RATE, rate, direction, derivation, NIC_SOURCE),
        Ceiling::new(name, metric::THROUGHPUT_L2, throughput.0, direction, bits, NIC_SOURCE),
    ]
    .map(|ceiling| ceiling.of(BoundClass::Bus).expected())
}

fn step_line(step: &Step, link: &Link, frame: Bytes) -> Line {
    let FrameBytes { up, down } = step.bytes(link, frame);
    // The card appends and removes the check sequence, so it never crosses the slot.
    let size = step.size.unwrap_or(Bytes(frame.0 - ethernet::CHECK_SEQUENCE.0));
    Statement::Transaction { what: step.what, size, frames: step.frames, up, down }.into()
}

fn nic_line(link: &Link, bytes: FrameBytes, rate: PacketRate) -> Line {
    let (way, busier) = if bytes.up >= bytes.down {
        (Quantity::Up, bytes.up)
    } else {
        (Quantity::Down, bytes.down)
    };
    frames_line(link.packet_rate(), way.is(Measure::Bytes.figure(busier)), rate)
}

/// Returns the line of a derivation with the frames a second for which `rate` has room.
fn frames_line(rate: BitRate, bytes: Expression, frames: PacketRate) -> Line {
    let frames = Measure::FramesPerSecond.figure(frames.0);
    Line::equation(Expression::from(rate) / (bytes * BITS), frames).remark(Remark::EachWay)
}

/// Returns the card's other end, beside its slot.
fn port_ceiling(port: BitRate, frame: Bytes) -> Ceiling {
    let rate = ethernet::packet_rate(port, frame);
    let on_wire = frame + ethernet::WIRE_OVERHEAD;
    let line = frames_line(port, on_wire.into(), rate);
    let name = ModelName::Port { rate: port, frame };
    Ceiling::new(name, metric::PACKET_RATE, rate.0, Tx, vec![line], ethernet::WIRE_SOURCE)
        .of(BoundClass::Interface)
}

fn base_lines(link: &Link) -> Vec<Line> {
    let (transfers, (data, of)) = link::lane(link.generation).expect("the generation was checked");
    let lanes = Measure::Lanes.of(link.lanes.into());
    let line = Measure::GigatransfersPerSecond.of(transfers) * lanes * data / of;
    let mut lines = vec![Line::equation(line, link.rate).remark(Remark::EachWay)];
    // The line is shown only where the share reduces the result.
    if link.link_layer_share() > 0.0 {
        let symbol_times = link::latency_limit(link.generation, link.lanes, link.max_payload);
        let (share, left) = (link.link_layer_share(), link.packet_rate().into());
        lines.push(Statement::LinkLayer { symbol_times, share, left }.into());
    }
    lines.push(packet_line(
        link,
        Quantity::Request,
        link.request_header(),
        link.request_overhead(),
    ));
    lines.push(packet_line(link, Quantity::Completion, HEADER_3DW, link.completion_overhead()));
    lines
}

/// Returns the line of the `overhead` of a packet with this `header`.
fn packet_line(link: &Link, quantity: Quantity, header: Bytes, overhead: Bytes) -> Line {
    let parts = Quantity::Framing.is(link.framing)
        + Quantity::Header.is(header)
        + Quantity::Check.is(link.check_bytes())
        + Quantity::LinkLayer.is(link.link_layer_bytes());
    Line::of(quantity, parts, overhead)
}

/// Returns the bytes of a write up, of a read up and of a read down.
fn transaction_lines(link: &Link, size: Bytes) -> [Line; 3] {
    let (write, read) = (link.write_bytes(size), link.read_bytes(size));
    let times = |measure: Measure, n: u64, each: Bytes| measure.of(n as f64) * each;
    let request = link.request_overhead();
    let packets = times(Measure::Packets, link.write_packets(size), request);
    let requests = times(Measure::Requests, link.read_requests(size), request);
    let completions =
        times(Measure::Completions, link.completions(size), link.completion_overhead());
    [
        Line::of(Quantity::WriteUp, Expression::from(size) + packets, write.up),
        Line::of(Quantity::ReadUp, requests, read.up),
        Line::of(Quantity::ReadDown, Expression::from(size) + completions, read.down),
    ]
}

fn result_line(link: &Link, size: Bytes, bytes: Bytes, value: BitRate) -> Line {
    Line::equation(Expression::from(link.packet_rate()) * size.0 / bytes.0, value)
}

#[cfg(test)]
mod tests {
    use linerate_model::Metric;

    use super::*;
    use crate::limits::options::given;

    #[test]
    fn the_calculator_prints_idts_64_byte_figure() {
        let mut params =
            given([("gen", "2"), ("lanes", "8"), ("payload", "64 B"), ("mps", "128 B")]);
        let ceilings = super::ceilings(&params).expect("good options");
        let of = |metric: &'static Metric, what: &str| {
            let found = ceilings.iter().find(|c| c.metric == metric && c.name().contains(what));
            found.expect(what).value
        };
        assert!((of(metric::BANDWIDTH, "memory writes") / 1e9 - 24.38).abs() < 0.005);
        assert!((of(metric::BANDWIDTH, "writes both ways") / 1e9 - 48.76).abs() < 0.005);
        assert!(
            (of(metric::BUS_TRANSACTION_RATE, "memory writes") / 1e6 * 2.0 - 95.238).abs() < 0.001
        );
        let whole = Expression::from(BitRate(32e9)) * 64_u64 / 84_u64;
        assert!(
            ceilings[0].derivation.contains(&Line::equation(whole, BitRate(ceilings[0].value)))
        );
        params.set("dllp", "idt");
        let with_dllp = super::ceilings(&params).expect("good options");
        assert!((with_dllp[3].value / 1e9 - 46.55).abs() < 0.005);
    }

    #[test]
    fn the_calculator_prints_what_ciscos_slot_carries() {
        // docs/methodology/ceilings.md#pci-express: x16 generation 2 reads by completions of 20 B
        // of overhead, Gbit/s.
        for (mps, gigabits) in [("128 B", 55.35), ("256 B", 59.36), ("512 B", 61.59)] {
            let mut params = Params::default();
            params.set("gen", 2);
            params.set("lanes", 16);
            params.set("mrrs", "4096 B");
            params.set("mps", mps);
            let ceilings = super::ceilings(&params).expect("good options");
            assert!(
                (ceilings[1].value / 1e9 - gigabits).abs() < 0.0051,
                "{mps}: {}",
                ceilings[1].value
            );
        }
    }

    #[test]
    fn an_unknown_maximum_payload_shows_the_usual_three() {
        let params = given([("gen", "3"), ("lanes", "8")]);
        let ceilings = super::ceilings(&params).expect("good options");
        let writes =
            ceilings.iter().filter(|c| c.direction == Rx && c.metric == metric::BANDWIDTH).count();
        assert_eq!(writes, 3);
    }

    #[test]
    fn links_that_do_not_exist_are_refused_all_at_once() {
        let params = given([("gen", "9"), ("lanes", "3"), ("mps", "100 B"), ("address", "48")]);
        let keys: Vec<String> =
            super::ceilings(&params).expect_err("bad").into_iter().map(|e| e.key).collect();
        assert_eq!(keys, ["gen", "lanes", "mps", "address"]);
    }

    #[test]
    fn a_card_beside_its_port_shows_both_ceilings() {
        let mut params = Params::default();
        for (key, value) in [("gen", 3), ("lanes", 8), ("address", 64)] {
            params.set(key, value);
        }
        for (key, value) in
            [("mps", "256 B"), ("nic", "kernel"), ("frame_size", "64 B"), ("port", "40 Gbit/s")]
        {
            params.set(key, value);
        }
        let ceilings = super::ceilings(&params).expect("good options");
        let rates: Vec<&Ceiling> =
            ceilings.iter().filter(|c| c.metric == metric::PACKET_RATE).collect();
        assert_eq!(rates.len(), 4);
        assert!(rates[..3].iter().all(|c| !c.is_hard()), "{}", rates[0].name());
        assert_eq!(rates[3].name(), "port of 40 Gbit/s, frames of 64 B");
        assert!((rates[3].value / 1e6 - 59.524).abs() < 0.001);
        // Up, a frame sent: a read's request 24, descriptors 48 / 40, written back (128 + 24) / 8,
        // interrupt 28 / 32, pointer 24.
        let said = |what, size, frames, up, down| {
            let size = Bytes(size);
            let line = Line::from(Statement::Transaction { what, size, frames, up, down });
            rates[0].derivation.contains(&line)
        };
        assert!(said(Quantity::Descriptors, 640, 40, 1.2, 17.5), "{:?}", rates[0].derivation);
        assert!(
            said(Quantity::DescriptorsWrittenBack, 128, 8, 19.0, 0.0),
            "{:?}",
            rates[0].derivation
        );
        params.set("nic", "fast");
        assert_eq!(super::ceilings(&params).expect_err("no such card")[0].key, "nic");
    }

    #[test]
    fn what_is_counted_for_the_link_layer_makes_an_expectation_of_a_bound() {
        let mut params =
            given([("gen", "3"), ("lanes", "8"), ("mps", "256 B"), ("dllp", "realistic")]);
        let ceilings = super::ceilings(&params).expect("good options");
        assert!(ceilings.iter().all(|c| !c.is_hard()));
        let Line::Statement(Statement::LinkLayer { symbol_times, .. }) = ceilings[0].derivation[1]
        else {
            panic!("{:?}", ceilings[0].derivation);
        };
        assert_eq!(symbol_times, 203);
        params.set("gen", 6);
        assert_eq!(super::ceilings(&params).expect_err("flits have their own room")[0].key, "dllp");
    }

    #[test]
    fn tags_and_latency_bound_reads_together_or_not_at_all() {
        let mut params = given([("gen", "3"), ("lanes", "8"), ("mps", "256 B"), ("tags", "32")]);
        assert_eq!(super::ceilings(&params).expect_err("no latency")[0].key, "tags");
        params.set("latency", "1 us");
        let ceilings = super::ceilings(&params).expect("good options");
        let found = ceilings.iter().find(|c| c.name().contains("tags")).expect("a bound by tags");
        // 32 x 512 B x 8 in a microsecond.
        assert!((found.value - 131.072e9).abs() < 1.0);
    }
}
