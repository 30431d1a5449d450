//! PCI Express: what a link carries once packets are framed, for writes, reads and both.
//!
//! Units: bit/s of payload. Direction, seen from the device: `rx` is what it writes to host memory (a NIC that
//! receives), `tx` what it reads from there (a NIC that transmits), `sum` both at once. Standard: PCI Express Base
//! Specification 6.0, chapters 2 (packets), 3 (data link), 4 (line code); pcie-bench (Neugebauer et al., SIGCOMM 2018)
//! for the way to count.
//!
//! What it does not see: credits, tags and latency (`tags x mrrs / latency` may be far lower), descriptors, doorbells and
//! interrupts of a device, completions chopped smaller than asked for unless `completion` says so. From generation 6 on
//! headers have optional extensions: that figure is approximate, and it says so.

use linerate_model::{BitRate, Bytes, Ceiling, Direction, ParamError, Params};
use serde::Deserialize;

use super::options::{plain, read, refusal};
use super::{Limit, OptionDoc};

/// Start (1), sequence number (2), LCRC (4) and end (1) in generations 1 and 2; start token with sequence number (4) and
/// LCRC (4) in generations 3 to 5. None in generation 6, whose flits carry their own check bytes.
pub const FRAMING: Bytes = Bytes(8);
/// Header of three double words: memory requests with 32-bit addresses, and every completion with data.
pub const HEADER_3DW: Bytes = Bytes(12);
/// Header of four double words: memory requests with 64-bit addresses.
pub const HEADER_4DW: Bytes = Bytes(16);
/// End-to-end check, if the device asks for it.
pub const ECRC: Bytes = Bytes(4);
/// Two link-layer packets of 8 bytes for every four packets: IDT's measured mix (paper S5.3).
pub const IDT_DLLP_SHARE: Bytes = Bytes(4);

/// Bits of address in a memory request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addressing {
    /// 32 bits.
    Bits32,
    /// 64 bits: what a host with more than 4 GiB uses for most of its memory.
    Bits64,
}

/// Whether packets carry an end-to-end check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndToEndCheck {
    /// They do not.
    Absent,
    /// They do.
    Present,
}

/// What acknowledgements and credit updates take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LinkLayerPackets {
    /// Nothing: a hard upper bound.
    #[default]
    None,
    /// Four bytes for each packet, as IDT counts them.
    Idt,
}

/// A link and how it is set up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// Bits each way after the line code, from [`line_rate`] or what was measured.
    pub rate: BitRate,
    /// Framing of each packet: [`FRAMING`], or zero where flits carry packets.
    pub framing: Bytes,
    /// Largest payload of a packet (MPS).
    pub max_payload: Bytes,
    /// Largest read request (MRRS).
    pub max_read_request: Bytes,
    /// Payload of one completion: the maximum payload, or the read completion boundary (64 or 128 B) of a host that
    /// chops there.
    pub completion: Bytes,
    /// Addresses of requests.
    pub addressing: Addressing,
    /// End-to-end check.
    pub check: EndToEndCheck,
    /// Link-layer packets.
    pub dllp: LinkLayerPackets,
}

/// Bytes of one transaction on the link, by direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkBytes {
    /// From the device to the host.
    pub up: Bytes,
    /// From the host to the device.
    pub down: Bytes,
}

/// Line rate of one lane in 10^9 transfers per second, and the share of it that is packets: numerator, denominator.
fn lane(generation: u32) -> Option<(f64, (u32, u32))> {
    /// 256 bytes of a flit: 236 of packets, 6 of link layer, 8 of check, 6 of error correction.
    const FLIT: (u32, u32) = (236, 256);
    match generation {
        1 => Some((2.5, (8, 10))),
        2 => Some((5.0, (8, 10))),
        3 => Some((8.0, (128, 130))),
        4 => Some((16.0, (128, 130))),
        5 => Some((32.0, (128, 130))),
        6 => Some((64.0, FLIT)),
        _ => None,
    }
}

/// Bits each way that a link of `generation` (1 to 6) and `lanes` carries after its line code; `None` if there is no
/// such link.
#[must_use]
pub fn line_rate(generation: u32, lanes: u32) -> Option<BitRate> {
    let (transfers, (data, of)) = lane(generation)?;
    LANES.contains(&lanes).then(|| BitRate(transfers * 1e9 * f64::from(lanes) * f64::from(data) / f64::from(of)))
}

/// Widths a link may have.
pub const LANES: [u32; 7] = [1, 2, 4, 8, 12, 16, 32];

impl Link {
    /// The link of `generation` and `lanes` as a device finds it after reset of its limits: 32-bit addresses, no
    /// end-to-end check, nothing for the link layer, so that the result is a hard upper bound. `None` if there is no
    /// such link.
    #[must_use]
    pub fn new(generation: u32, lanes: u32, max_payload: Bytes, max_read_request: Bytes) -> Option<Self> {
        Some(Self {
            rate: line_rate(generation, lanes)?,
            framing: if generation < FLIT_GENERATION { FRAMING } else { Bytes(0) },
            max_payload,
            max_read_request,
            completion: max_payload,
            addressing: Addressing::Bits32,
            check: EndToEndCheck::Absent,
            dllp: LinkLayerPackets::None,
        })
    }

    /// Overhead of a memory request: 20 or 24 bytes, and what was asked for beyond.
    #[must_use]
    pub fn request_overhead(&self) -> Bytes {
        let header = match self.addressing {
            Addressing::Bits32 => HEADER_3DW,
            Addressing::Bits64 => HEADER_4DW,
        };
        self.extras() + header
    }

    /// Overhead of a completion with data: 20 bytes, and what was asked for beyond.
    #[must_use]
    pub fn completion_overhead(&self) -> Bytes {
        self.extras() + HEADER_3DW
    }

    fn extras(&self) -> Bytes {
        let check = if self.check == EndToEndCheck::Present { ECRC } else { Bytes(0) };
        let dllp = if self.dllp == LinkLayerPackets::Idt { IDT_DLLP_SHARE } else { Bytes(0) };
        self.framing + check + dllp
    }

    /// What a write of `size` bytes takes: `size + ceil(size / mps) * overhead`, upwards.
    #[must_use]
    pub fn write_bytes(&self, size: Bytes) -> LinkBytes {
        let packets = size.0.div_ceil(self.max_payload.0);
        LinkBytes { up: Bytes(size.0 + packets * self.request_overhead().0), down: Bytes(0) }
    }

    /// What a read of `size` bytes takes: requests upwards, completions downwards.
    #[must_use]
    pub fn read_bytes(&self, size: Bytes) -> LinkBytes {
        let requests = size.0.div_ceil(self.max_read_request.0);
        let completions = size.0.div_ceil(self.completion.0);
        LinkBytes {
            up: Bytes(requests * self.request_overhead().0),
            down: Bytes(size.0 + completions * self.completion_overhead().0),
        }
    }

    /// The most the device writes to memory in transactions of `size` bytes.
    #[must_use]
    pub fn write(&self, size: Bytes) -> BitRate {
        self.bandwidth(size, self.write_bytes(size))
    }

    /// The most the device reads from memory in transactions of `size` bytes.
    #[must_use]
    pub fn read(&self, size: Bytes) -> BitRate {
        self.bandwidth(size, self.read_bytes(size))
    }

    /// The most it moves when it reads and writes equally often: both directions added.
    #[must_use]
    pub fn both(&self, size: Bytes) -> BitRate {
        let (write, read) = (self.write_bytes(size), self.read_bytes(size));
        let bytes = LinkBytes { up: write.up + read.up, down: write.down + read.down };
        BitRate(2.0 * self.bandwidth(size, bytes).0)
    }

    /// The busier direction decides.
    fn bandwidth(&self, size: Bytes, bytes: LinkBytes) -> BitRate {
        BitRate(self.rate.0 * size.bits() / bytes.up.max(bytes.down).bits())
    }
}

/// From this generation on packets travel in flits.
const FLIT_GENERATION: u32 = 6;
/// Every device must support it, and hosts often grant no more.
const SMALLEST_PAYLOAD: Bytes = Bytes(128);
/// Largest of MPS, MRRS and transaction that is calculated with: a page.
const LARGEST_PAYLOAD: Bytes = Bytes(4096);
/// What hosts grant; printed side by side when the maximum payload was not said.
const USUAL_MAX_PAYLOADS: [Bytes; 3] = [Bytes(128), Bytes(256), Bytes(512)];

const fn default_read_request() -> Bytes {
    Bytes(512)
}

const fn default_address() -> u32 {
    32
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Parameters {
    r#gen: u32,
    lanes: u32,
    /// Left out, transactions are as large as the maximum payload: the most efficient single packet.
    payload: Option<Bytes>,
    /// Left out, each of the usual ones is shown.
    mps: Option<Bytes>,
    /// The value after reset, PCI Express 7.5.3.4.
    #[serde(default = "default_read_request")]
    mrrs: Bytes,
    /// Left out, completions are as large as the maximum payload.
    completion: Option<Bytes>,
    /// Shorter headers: the higher bound.
    #[serde(default = "default_address")]
    address: u32,
    /// Off on nearly all hosts.
    #[serde(default)]
    ecrc: bool,
    /// None: a hard upper bound.
    #[serde(default)]
    dllp: LinkLayerPackets,
}

/// The calculator `pcie`.
#[derive(Debug)]
pub struct Pcie;

const SOURCE: &str = "PCI Express Base Specification 6.0, 2.2, 3.4 and 4.2; Neugebauer et al., SIGCOMM 2018";

impl Limit for Pcie {
    fn name(&self) -> &'static str {
        "pcie"
    }

    fn summary(&self) -> &'static str {
        "payload a PCI Express link carries in memory writes and reads (PCI Express 6.0)"
    }

    fn options(&self) -> &'static [OptionDoc] {
        &[
            OptionDoc { name: "gen", default: "", meaning: "generation, 1 to 6" },
            OptionDoc { name: "lanes", default: "", meaning: "lanes: 1, 2, 4, 8, 12, 16 or 32" },
            OptionDoc {
                name: "payload",
                default: "-",
                meaning: "size of a transaction; left out, the maximum payload",
            },
            OptionDoc { name: "mps", default: "-", meaning: "maximum payload of a packet; left out, the usual ones" },
            OptionDoc { name: "mrrs", default: "512 B", meaning: "maximum read request" },
            OptionDoc { name: "completion", default: "-", meaning: "payload of a completion; left out, the maximum" },
            OptionDoc { name: "address", default: "32", meaning: "address bits of requests: 32 or 64" },
            OptionDoc { name: "ecrc", default: "false", meaning: "packets carry an end-to-end check (4 B)" },
            OptionDoc {
                name: "dllp",
                default: "none",
                meaning: "link-layer packets: none, or idt (4 B for each packet)",
            },
        ]
    }

    fn ceilings(&self, params: &Params) -> Result<Vec<Ceiling>, Vec<ParamError>> {
        let parameters: Parameters = read(params, self.options())?;
        let errors = problems(&parameters);
        if !errors.is_empty() {
            return Err(errors);
        }
        let max_payloads = parameters.mps.map_or(USUAL_MAX_PAYLOADS.to_vec(), |mps| vec![mps]);
        Ok(max_payloads.into_iter().flat_map(|mps| link_ceilings(&parameters, mps)).collect())
    }
}

fn problems(parameters: &Parameters) -> Vec<ParamError> {
    let mut errors = Vec::new();
    if lane(parameters.r#gen).is_none() {
        errors.push(refusal("gen", format!("generation {} is not known: 1 to 6", parameters.r#gen)));
    }
    if !LANES.contains(&parameters.lanes) {
        errors.push(refusal("lanes", format!("{} lanes: a link has one of {LANES:?}", parameters.lanes)));
    }
    if parameters.payload.is_some_and(|size| size.0 == 0 || size.0 > u64::from(u32::MAX)) {
        errors.push(refusal("payload", "a transaction has 1 B to 4 GiB"));
    }
    let sizes = [("mps", parameters.mps), ("mrrs", Some(parameters.mrrs))];
    for (key, size) in sizes {
        let granted = |size: Bytes| size.0.is_power_of_two() && size >= SMALLEST_PAYLOAD && size <= LARGEST_PAYLOAD;
        if size.is_some_and(|size| !granted(size)) {
            errors.push(refusal(key, "expected a power of two from 128 B to 4096 B"));
        }
    }
    if parameters.completion.is_some_and(|size| !size.0.is_power_of_two() || size.0 < 64 || size > LARGEST_PAYLOAD) {
        errors.push(refusal("completion", "expected a power of two from 64 B to 4096 B"));
    }
    if ![32, 64].contains(&parameters.address) {
        errors.push(refusal("address", format!("{} bits: addresses have 32 or 64", parameters.address)));
    }
    if parameters.r#gen == FLIT_GENERATION && parameters.dllp == LinkLayerPackets::Idt {
        errors
            .push(refusal("dllp", "from generation 6 on the flit has its own room for the link layer: expected none"));
    }
    errors
}

fn link_ceilings(parameters: &Parameters, mps: Bytes) -> Vec<Ceiling> {
    let mut link = Link::new(parameters.r#gen, parameters.lanes, mps, parameters.mrrs)
        .expect("generation and lanes were checked above");
    link.completion = parameters.completion.map_or(mps, |size| size.min(mps));
    link.addressing = if parameters.address == 64 { Addressing::Bits64 } else { Addressing::Bits32 };
    link.check = if parameters.ecrc { EndToEndCheck::Present } else { EndToEndCheck::Absent };
    link.dllp = parameters.dllp;
    let size = parameters.payload.unwrap_or(mps);
    let approximate = if parameters.r#gen == FLIT_GENERATION { ", approximate" } else { "" };
    let name = |what: &str| {
        format!(
            "pcie gen {} x{}, {what} of {} B, mps {}{approximate}",
            parameters.r#gen, parameters.lanes, size.0, mps.0
        )
    };
    let (write, read) = (link.write_bytes(size), link.read_bytes(size));
    let base = [rate_line(parameters, &link), overhead_line(&link)];
    let lines = |more: Vec<String>| base.iter().cloned().chain(more).collect::<Vec<_>>();
    let write_lines = lines(vec![write_line(&link, size), result_line(&link, size, write.up, link.write(size))]);
    let busier = read.up.max(read.down);
    let read_lines = lines(
        split_read_lines(&link, size).into_iter().chain([result_line(&link, size, busier, link.read(size))]).collect(),
    );
    let posted = 2.0 * link.write(size).0;
    let posted_lines =
        write_lines.iter().cloned().chain([format!("the same the other way: {} bit/s", plain(posted))]).collect();
    let up = write.up + read.up;
    let both_lines = lines(
        [write_line(&link, size)]
            .into_iter()
            .chain(split_read_lines(&link, size))
            .chain([
                format!("one of each: {} B up, {} B down", up.0, read.down.0),
                result_line(&link, size, up.max(read.down), BitRate(link.both(size).0 / 2.0)),
                format!("reads and writes added: {} bit/s", plain(link.both(size).0)),
            ])
            .collect(),
    );
    let rate = link.write(size).0 / size.bits();
    let rate_lines = write_lines
        .iter()
        .cloned()
        .chain([format!("{} bit/s / ({} B x 8) = {} writes/s", plain(link.write(size).0), size.0, plain(rate))])
        .collect();
    let ceiling = |what: &str, metric: &str, value: f64, direction: Direction, derivation: Vec<String>| {
        Ceiling::new(name(what), metric, value, direction, derivation, SOURCE)
    };
    vec![
        ceiling("memory writes", "bandwidth", link.write(size).0, Direction::Rx, write_lines.clone()),
        ceiling("memory reads", "bandwidth", link.read(size).0, Direction::Tx, read_lines),
        ceiling("reads and writes together", "bandwidth", link.both(size).0, Direction::Sum, both_lines),
        ceiling("writes both ways", "bandwidth", posted, Direction::Sum, posted_lines),
        ceiling("memory writes", "bus_transaction_rate", rate, Direction::Rx, rate_lines),
    ]
}

fn rate_line(parameters: &Parameters, link: &Link) -> String {
    let (transfers, (data, of)) = lane(parameters.r#gen).expect("the generation was checked");
    format!(
        "{} GT/s x {} lanes x {data}/{of} = {} bit/s each way",
        plain(transfers),
        parameters.lanes,
        plain(link.rate.0)
    )
}

fn overhead_line(link: &Link) -> String {
    let header = match link.addressing {
        Addressing::Bits32 => HEADER_3DW,
        Addressing::Bits64 => HEADER_4DW,
    };
    let check = if link.check == EndToEndCheck::Present { ECRC.0 } else { 0 };
    let dllp = if link.dllp == LinkLayerPackets::Idt { IDT_DLLP_SHARE.0 } else { 0 };
    format!(
        "a packet: framing {} B + header {} B (completion {} B) + check {check} B + link layer {dllp} B = {} B (completion {} B)",
        link.framing.0,
        header.0,
        HEADER_3DW.0,
        link.request_overhead().0,
        link.completion_overhead().0
    )
}

fn write_line(link: &Link, size: Bytes) -> String {
    let packets = size.0.div_ceil(link.max_payload.0);
    format!(
        "a write up: {} B + {packets} packets x {} B = {} B",
        size.0,
        link.request_overhead().0,
        link.write_bytes(size).up.0
    )
}

fn split_read_lines(link: &Link, size: Bytes) -> Vec<String> {
    let bytes = link.read_bytes(size);
    let requests = size.0.div_ceil(link.max_read_request.0);
    let completions = size.0.div_ceil(link.completion.0);
    vec![
        format!("a read up: {requests} requests x {} B = {} B", link.request_overhead().0, bytes.up.0),
        format!(
            "a read down: {} B + {completions} completions x {} B = {} B",
            size.0,
            link.completion_overhead().0,
            bytes.down.0
        ),
    ]
}

fn result_line(link: &Link, size: Bytes, bytes: Bytes, value: BitRate) -> String {
    format!("{} bit/s x {} / {} = {} bit/s", plain(link.rate.0), size.0, bytes.0, plain(value.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(value: BitRate, gigabits: f64, tolerance: f64) -> bool {
        (value.0 / 1e9 - gigabits).abs() <= tolerance
    }

    #[test]
    fn line_rates_of_eight_lanes_are_the_known_ones() {
        // Methodology 3.4; generation 6 x16 leaves 944 Gbit/s of packets.
        for (generation, gigabits) in [(1, 16.0), (2, 32.0), (3, 63.02), (4, 126.03), (5, 252.06)] {
            let rate = line_rate(generation, 8).expect("known");
            assert!(near(rate, gigabits, 0.005), "gen {generation}: {rate}");
        }
        assert!(near(line_rate(6, 16).expect("known"), 944.0, 1e-6));
        assert_eq!((line_rate(7, 8), line_rate(3, 3)), (None, None));
    }

    #[test]
    fn idts_efficiencies_are_reproduced_with_and_without_its_link_layer() {
        // Methodology 1, S5: per cent of the line, 20 and 24 bytes of overhead.
        let golden = [
            (64, 76.2, 72.7),
            (128, 86.49, 84.21),
            (256, 92.75, 91.43),
            (512, 96.24, 95.52),
            (1024, 98.08, 97.71),
            (2048, 99.03, 98.84),
            (4096, 99.51, 99.42),
        ];
        for (size, bare, with_dllp) in golden {
            let mut link = Link::new(2, 8, Bytes(4096), Bytes(4096)).expect("known");
            let share = |link: &Link| link.write(Bytes(size)).0 / link.rate.0 * 100.0;
            assert!((share(&link) - bare).abs() < 0.051, "{size}: {}", share(&link));
            link.dllp = LinkLayerPackets::Idt;
            assert!((share(&link) - with_dllp).abs() < 0.051, "{size}: {}", share(&link));
        }
    }

    #[test]
    fn ciscos_slot_carries_what_its_maximum_payload_allows() {
        // Methodology 0.6 and 3.4: x16 generation 2, completions of 20 bytes of overhead.
        for (mps, gigabits) in [(128, 55.35), (256, 59.36), (512, 61.59)] {
            let link = Link::new(2, 16, Bytes(mps), Bytes(4096)).expect("known");
            assert!(near(link.read(Bytes(4096)), gigabits, 0.0051), "{mps}: {}", link.read(Bytes(4096)));
        }
    }

    #[test]
    fn pcie_bench_writes_and_reads_are_reproduced_from_its_effective_rate() {
        // Methodology 3.4: generation 3 x8, MPS 256, MRRS 512, 64-bit, 57.88 Gbit/s after its link-layer model.
        let mut link = Link::new(3, 8, Bytes(256), Bytes(512)).expect("known");
        link.rate = BitRate(57.88e9);
        link.addressing = Addressing::Bits64;
        let golden = [(64, 42.10, 44.10), (256, 52.92, 53.69), (512, 52.92, 53.69), (1500, 52.82, 53.60)];
        for (size, write, read) in golden {
            assert!(near(link.write(Bytes(size)), write, 0.011), "{size}: {}", link.write(Bytes(size)));
            assert!(near(link.read(Bytes(size)), read, 0.011), "{size}: {}", link.read(Bytes(size)));
        }
    }

    #[test]
    fn the_calculator_prints_idts_64_byte_figure() {
        let mut params = Params::default();
        params.set("gen", 2);
        params.set("lanes", 8);
        params.set("payload", "64 B");
        params.set("mps", "128 B");
        let ceilings = Pcie.ceilings(&params).expect("good options");
        let of = |metric: &str, what: &str| {
            let found = ceilings.iter().find(|c| c.metric == metric && c.name.contains(what));
            found.expect(what).value
        };
        assert!((of("bandwidth", "memory writes") / 1e9 - 24.38).abs() < 0.005);
        assert!((of("bandwidth", "writes both ways") / 1e9 - 48.76).abs() < 0.005);
        assert!((of("bus_transaction_rate", "memory writes") / 1e6 * 2.0 - 95.238).abs() < 0.001);
        assert!(ceilings[0].derivation.contains(&"32000000000 bit/s x 64 / 84 = 24380952381 bit/s".to_owned()));
        params.set("dllp", "idt");
        let with_dllp = Pcie.ceilings(&params).expect("good options");
        assert!((with_dllp[3].value / 1e9 - 46.55).abs() < 0.005);
    }

    #[test]
    fn reads_and_writes_together_share_the_way_up() {
        let link = Link::new(3, 8, Bytes(256), Bytes(512)).expect("known");
        // Up: 256 + 20 for the write, 20 for the read's request; down: 256 + 20.
        let expected = 2.0 * link.rate.0 * 256.0 / 296.0;
        assert!((link.both(Bytes(256)).0 - expected).abs() < 1.0);
    }

    #[test]
    fn an_unknown_maximum_payload_shows_the_usual_three() {
        let mut params = Params::default();
        params.set("gen", 3);
        params.set("lanes", 8);
        let ceilings = Pcie.ceilings(&params).expect("good options");
        let writes = ceilings.iter().filter(|c| c.direction == Direction::Rx && c.metric == "bandwidth").count();
        assert_eq!(writes, 3);
    }

    #[test]
    fn links_that_do_not_exist_are_refused_all_at_once() {
        let mut params = Params::default();
        params.set("gen", 9);
        params.set("lanes", 3);
        params.set("mps", "100 B");
        params.set("address", 48);
        let keys: Vec<String> = Pcie.ceilings(&params).expect_err("bad").into_iter().map(|e| e.key).collect();
        assert_eq!(keys, ["gen", "lanes", "mps", "address"]);
    }
}
