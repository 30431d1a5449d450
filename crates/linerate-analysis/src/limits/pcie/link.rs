//! A PCI Express link: its rate, and the bytes that a write or read takes on it, packet by packet.

use linerate_model::{BitRate, Bytes};
use serde::Deserialize;

/// Start (1), sequence number (2), LCRC (4) and end (1) in generations 1 and 2; start token with
/// sequence number (4) and LCRC (4) in generations 3 to 5. None in generation 6, whose flits carry
/// their own check bytes.
pub(crate) const FRAMING: Bytes = Bytes(8);
/// Header of three double words: memory requests with 32-bit addresses, and every completion with
/// data.
pub(crate) const HEADER_3DW: Bytes = Bytes(12);
/// Header of four double words: memory requests with 64-bit addresses.
pub(crate) const HEADER_4DW: Bytes = Bytes(16);
/// End-to-end check, if the device asks for it.
pub(crate) const ECRC: Bytes = Bytes(4);
/// A link-layer packet with its framing: start (2), content (4), check (2).
pub(crate) const LINK_LAYER_PACKET: Bytes = Bytes(8);
/// Two link-layer packets of 8 bytes for every four packets: IDT's measured mix (paper S5.3).
pub(crate) const IDT_DLLP_SHARE: Bytes = Bytes(4);
/// From this generation on packets travel in flits.
pub(crate) const FLIT_GENERATION: u32 = 6;
/// Widths a link may have.
pub const LANES: [u32; 7] = [1, 2, 4, 8, 12, 16, 32];
/// No request crosses a boundary of this size, PCI Express 2.2.7.
pub(crate) const PAGE: Bytes = Bytes(4096);
/// Completions end at multiples of this, or of twice it, unless they are the last; the smaller lets
/// them be longer, 2.3.1.1.
pub(crate) const READ_COMPLETION_BOUNDARY: Bytes = Bytes(64);

/// Bits of address in a memory request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addressing {
    /// 32 bits.
    Bits32,
    /// 64 bits: what a host with more than 4 GiB uses for most of its memory.
    Bits64,
}

/// End-to-end check of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndToEndCheck {
    /// No end-to-end check.
    Absent,
    /// A check of four bytes (ECRC) on each packet.
    Present,
}

/// Link-layer overhead: acknowledgements, credit updates and clock compensation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LinkLayerPackets {
    /// Nothing: a hard upper bound.
    #[default]
    None,
    /// Four bytes for each packet, as IDT counts them. Expected, no bound.
    Idt,
    /// An acknowledgement and a credit update as often as the standard's limits ask for, and skip
    /// sets. Expected, no bound.
    Realistic,
    /// As pcie-bench's model counts them: the same limits, which are in symbol times, taken for
    /// bytes of the whole link, so that their share comes out as many times too large as there are
    /// lanes. To compare with its published figures.
    PcieModel,
}

/// A link and how it is set up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// Generation, from 1.
    pub generation: u32,
    /// Lanes.
    pub lanes: u32,
    /// Bits each way after the line code, from `line_rate` or what was measured.
    pub rate: BitRate,
    /// Framing of each packet: `FRAMING`, or zero where flits carry packets.
    pub framing: Bytes,
    /// Largest payload of a packet (MPS).
    pub max_payload: Bytes,
    /// Largest read request (MRRS).
    pub max_read_request: Bytes,
    /// Payload of one completion: the maximum payload, or the read completion boundary (64 or 128
    /// B) of a host that chops there.
    pub completion: Bytes,
    /// Addresses of requests.
    pub addressing: Addressing,
    /// End-to-end check.
    pub check: EndToEndCheck,
    /// Link-layer packets.
    pub dllp: LinkLayerPackets,
    /// Distance of the start of transactions from a page boundary.
    pub offset: Bytes,
}

/// Bytes of one transaction on the link, by direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkBytes {
    /// From the device to the host.
    pub up: Bytes,
    /// From the host to the device.
    pub down: Bytes,
}

/// Line rate of one lane in 10^9 transfers per second, and the share of it that is packets:
/// numerator, denominator.
pub(super) fn lane(generation: u32) -> Option<(f64, (u32, u32))> {
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

/// Returns the generation whose lanes make `transfers` 10^9 transfers a second, the unit of a
/// link's speed in sysfs.
#[must_use]
pub fn generation(transfers: f64) -> Option<u32> {
    (1..=FLIT_GENERATION)
        // Line speeds have exact binary values, so they can be compared for equality.
        .find(|generation| lane(*generation).is_some_and(|(known, _)| known == transfers))
}

/// Bits each way that a link of `generation` (1 to 6) and `lanes` carries after its line code;
/// `None` if there is no such link.
#[must_use]
pub(crate) fn line_rate(generation: u32, lanes: u32) -> Option<BitRate> {
    let (transfers, (data, of)) = lane(generation)?;
    LANES
        .contains(&lanes)
        .then(|| BitRate(transfers * 1e9 * f64::from(lanes) * f64::from(data) / f64::from(of)))
}

/// Returns the longest a receiver waits with an acknowledgement, and the guideline for credit
/// updates, which is the same: symbol times. `(mps + 28) x factor / lanes + delay`, PCI Express 5.0
/// tables 2-46 to 2-48 and 3-7 to 3-9 (faster generations take those of 8 GT/s).
#[must_use]
pub(crate) fn latency_limit(generation: u32, lanes: u32, max_payload: Bytes) -> u64 {
    /// Framing, sequence number, header and checks of the longest packet, symbols.
    const OVERHEAD: u64 = 28;
    /// The device's own latency in symbol times, by generation; see the module text.
    const DELAY: [f64; 3] = [19.0, 70.0, 115.0];
    const SMALL: Bytes = Bytes(256);
    let factor = match (lanes, max_payload <= SMALL) {
        (..=4, true) => 1.4,
        (..=4, false) => 1.0,
        (8, true) => 2.5,
        (8, false) => 1.0,
        (_, true) => 3.0,
        (_, false) => 2.0,
    };
    let delay = DELAY[(generation.max(1) as usize - 1).min(DELAY.len() - 1)];
    // The tables of the standard are truncated to whole symbol times.
    ((max_payload.0 + OVERHEAD) as f64 * factor / f64::from(lanes) + delay) as u64
}

impl Link {
    /// Returns the link of `generation` and `lanes` as a device finds it after reset of its limits:
    /// 32-bit addresses, no end-to-end check, nothing for the link layer, transactions that begin
    /// at a page, so that the result is a hard upper bound. `None` if there is no such link.
    #[must_use]
    pub fn new(
        generation: u32,
        lanes: u32,
        max_payload: Bytes,
        max_read_request: Bytes,
    ) -> Option<Self> {
        Some(Self {
            generation,
            lanes,
            rate: line_rate(generation, lanes)?,
            framing: if generation < FLIT_GENERATION { FRAMING } else { Bytes(0) },
            max_payload,
            max_read_request,
            completion: max_payload,
            addressing: Addressing::Bits32,
            check: EndToEndCheck::Absent,
            dllp: LinkLayerPackets::None,
            offset: Bytes(0),
        })
    }

    /// Returns whether the result is a bound; with the link layer's share it is an expectation.
    #[must_use]
    pub fn is_bound(&self) -> bool {
        self.dllp == LinkLayerPackets::None
    }

    /// Bits each way that are left to packets.
    pub fn packet_rate(&self) -> BitRate {
        BitRate(self.rate.0 * (1.0 - self.link_layer_share()))
    }

    /// Returns the share of the line that acknowledgements, credit updates and skip sets use where
    /// they are not counted per packet.
    #[must_use]
    pub(crate) fn link_layer_share(&self) -> f64 {
        /// A skip set of four symbols on every lane at least so often, PCI Express 4.2.7.
        const SKIP: f64 = 4.0 / 1538.0;
        /// One acknowledgement and one credit update.
        const PACKETS: u64 = 2;
        // The standard's limits decide how often both are sent at the least.
        let limit = latency_limit(self.generation, self.lanes, self.max_payload) as f64;
        let symbols = (PACKETS * LINK_LAYER_PACKET.0) as f64;
        match self.dllp {
            LinkLayerPackets::None | LinkLayerPackets::Idt => 0.0,
            // In one symbol time every lane carries a symbol.
            LinkLayerPackets::Realistic => symbols / (limit * f64::from(self.lanes)) + SKIP,
            // The missing division by the lanes is the model's own. It stays, because the point of
            // this variant is to repeat the published figures.
            LinkLayerPackets::PcieModel => symbols / limit + SKIP,
        }
    }

    /// Returns the overhead of a memory request: 20 or 24 bytes, and what was asked for beyond.
    pub fn request_overhead(&self) -> Bytes {
        self.extras() + self.request_header()
    }

    /// Returns the header of a memory request.
    pub(crate) fn request_header(&self) -> Bytes {
        if self.addressing == Addressing::Bits32 { HEADER_3DW } else { HEADER_4DW }
    }

    /// Returns the overhead of a completion with data: 20 bytes, and what was asked for beyond.
    pub(crate) fn completion_overhead(&self) -> Bytes {
        self.extras() + HEADER_3DW
    }

    /// Returns the end-to-end check of each packet.
    pub(crate) fn check_bytes(&self) -> Bytes {
        if self.check == EndToEndCheck::Present { ECRC } else { Bytes(0) }
    }

    /// Returns the bytes counted for the link layer on each packet.
    pub(crate) fn link_layer_bytes(&self) -> Bytes {
        if self.dllp == LinkLayerPackets::Idt { IDT_DLLP_SHARE } else { Bytes(0) }
    }

    fn extras(&self) -> Bytes {
        self.framing + self.check_bytes() + self.link_layer_bytes()
    }

    /// Returns the packets of a write of `size` bytes.
    #[must_use]
    pub(crate) fn write_packets(&self, size: Bytes) -> u64 {
        self.pieces(size).map(|(_, piece)| piece.0.div_ceil(self.max_payload.0)).sum()
    }

    /// Returns the requests of a read of `size` bytes.
    #[must_use]
    pub(crate) fn read_requests(&self, size: Bytes) -> u64 {
        self.pieces(size).map(|(_, piece)| piece.0.div_ceil(self.max_read_request.0)).sum()
    }

    /// Returns the fewest completions of a read of `size` bytes: all but the last of a request end
    /// at the read completion boundary.
    #[must_use]
    pub fn completions(&self, size: Bytes) -> u64 {
        self.pieces(size)
            .map(|(start, piece)| {
                let whole = piece.0 / self.max_read_request.0;
                let rest = Bytes(piece.0 % self.max_read_request.0);
                // Requests of one page differ in length only at its end: their size is a multiple
                // of the boundary.
                let last = if rest.0 > 0 { self.request_completions(start, rest) } else { 0 };
                whole * self.request_completions(start, self.max_read_request) + last
            })
            .sum()
    }

    /// Returns the fewest completions of one request of `length` bytes at `start`.
    fn request_completions(&self, start: Bytes, length: Bytes) -> u64 {
        // A request that does not begin at the boundary needs a shorter first completion.
        let behind = start.0 % READ_COMPLETION_BOUNDARY.0;
        (behind + length.0).div_ceil(self.completion.0)
    }

    /// Returns the parts of a transaction that boundaries of pages cut it into: start and length.
    /// All whole pages are one part: page boundaries are packet boundaries there.
    fn pieces(&self, size: Bytes) -> impl Iterator<Item = (Bytes, Bytes)> {
        let start = Bytes(self.offset.0 % PAGE.0);
        // Only the first part can begin inside a page.
        let head = if start.0 == 0 { Bytes(0) } else { Bytes(size.0.min(PAGE.0 - start.0)) };
        [(start, head), (Bytes(0), Bytes(size.0 - head.0))]
            .into_iter()
            .filter(|(_, length)| length.0 > 0)
    }

    /// Returns the bytes of a write of `size` bytes: `size + packets * overhead`, upwards.
    #[must_use]
    pub fn write_bytes(&self, size: Bytes) -> LinkBytes {
        LinkBytes {
            up: Bytes(size.0 + self.write_packets(size) * self.request_overhead().0),
            down: Bytes(0),
        }
    }

    /// Returns the bytes of a read of `size` bytes: requests upwards, completions downwards.
    #[must_use]
    pub fn read_bytes(&self, size: Bytes) -> LinkBytes {
        LinkBytes {
            up: Bytes(self.read_requests(size) * self.request_overhead().0),
            down: Bytes(size.0 + self.completions(size) * self.completion_overhead().0),
        }
    }

    /// Returns the most the device writes to memory in transactions of `size` bytes.
    pub fn write(&self, size: Bytes) -> BitRate {
        self.bandwidth(size, self.write_bytes(size))
    }

    /// Returns the most the device reads from memory in transactions of `size` bytes.
    pub fn read(&self, size: Bytes) -> BitRate {
        self.bandwidth(size, self.read_bytes(size))
    }

    /// Returns the most it moves when it reads and writes equally often: both directions added.
    pub fn both(&self, size: Bytes) -> BitRate {
        let (write, read) = (self.write_bytes(size), self.read_bytes(size));
        // Reads and writes compete for the upward direction: requests share it with written data.
        let bytes = LinkBytes { up: write.up + read.up, down: write.down + read.down };
        BitRate(2.0 * self.bandwidth(size, bytes).0)
    }

    /// Returns the busier direction decides.
    // The busier direction decides.
    fn bandwidth(&self, size: Bytes, bytes: LinkBytes) -> BitRate {
        BitRate(self.packet_rate().0 * size.bits() / bytes.up.max(bytes.down).bits())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(value: BitRate, gigabits: f64, tolerance: f64) -> bool {
        (value.0 / 1e9 - gigabits).abs() <= tolerance
    }

    #[test]
    fn line_rates_of_eight_lanes_are_the_known_ones() {
        // docs/methodology/ceilings.md#pci-express; generation 6 x16 leaves 944 Gbit/s of packets.
        for (generation, gigabits) in [(1, 16.0), (2, 32.0), (3, 63.02), (4, 126.03), (5, 252.06)] {
            let rate = line_rate(generation, 8).expect("known");
            assert!(near(rate, gigabits, 0.005), "gen {generation}: {rate}");
        }
        assert!(near(line_rate(6, 16).expect("known"), 944.0, 1e-6));
        assert_eq!((line_rate(7, 8), line_rate(3, 3)), (None, None));
        assert_eq!((generation(16.0), generation(64.0), generation(3.0)), (Some(4), Some(6), None));
    }

    #[test]
    fn latency_limits_are_those_of_the_standards_tables() {
        // PCI Express 5.0 tables 3-7 (2.5 GT/s), 3-8 (5 GT/s) and 3-9 (8 GT/s).
        let golden = [
            (1, 1, 128, 237),
            (1, 4, 256, 118),
            (1, 8, 512, 86),
            (1, 16, 128, 48),
            (1, 32, 2048, 148),
            (2, 8, 128, 118),
            (2, 16, 4096, 585),
            (2, 32, 4096, 327),
            (3, 2, 256, 313),
            (3, 8, 256, 203),
            (3, 16, 512, 182),
            (5, 1, 4096, 4239),
        ];
        for (generation, lanes, payload, symbols) in golden {
            let found = latency_limit(generation, lanes, Bytes(payload));
            assert_eq!(found, symbols, "{generation} x{lanes} {payload}");
        }
    }

    #[test]
    fn the_link_layers_share_is_pcie_benchs_and_in_truth_smaller_by_the_number_of_lanes() {
        // docs/methodology/ceilings.md#pci-express: generation 3 x8 MPS 256 leaves 57.88 Gbit/s,
        // generation 2 x8 MPS 128 27.58 of 32.
        for (generation, payload, gigabits) in [(3, 256, 57.88), (2, 128, 27.58)] {
            let mut link = Link::new(generation, 8, Bytes(payload), Bytes(512)).expect("known");
            link.dllp = LinkLayerPackets::PcieModel;
            assert!(near(link.packet_rate(), gigabits, 0.006), "{}", link.packet_rate());
        }
        let mut link = Link::new(2, 8, Bytes(128), Bytes(512)).expect("known");
        link.dllp = LinkLayerPackets::Realistic;
        // 8 B per 118 symbol times x 8 lanes is 0.85 % for each kind of link-layer packet.
        let skip = 4.0 / 1538.0;
        let share = link.link_layer_share();
        assert!((share - 2.0 * 0.0085 - skip).abs() < 1e-4, "{share}");
        assert!(!link.is_bound());
    }

    #[test]
    fn idts_efficiencies_are_reproduced_with_and_without_its_link_layer() {
        // docs/methodology/papers.md#printed-figures, S5: per cent of the line, 20 and 24 bytes of
        // overhead.
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
        // docs/methodology/ceilings.md#pci-express: x16 generation 2, completions of 20 bytes of
        // overhead.
        for (mps, gigabits) in [(128, 55.35), (256, 59.36), (512, 61.59)] {
            let link = Link::new(2, 16, Bytes(mps), Bytes(4096)).expect("known");
            let read = link.read(Bytes(4096));
            assert!(near(read, gigabits, 0.0051), "{mps}: {read}");
        }
    }

    #[test]
    fn pcie_bench_writes_and_reads_are_reproduced() {
        // docs/methodology/ceilings.md#pci-express: generation 3 x8, MPS 256, MRRS 512, 64-bit
        // addresses.
        let mut link = Link::new(3, 8, Bytes(256), Bytes(512)).expect("known");
        link.dllp = LinkLayerPackets::PcieModel;
        link.addressing = Addressing::Bits64;
        let golden =
            [(64, 42.10, 44.10), (256, 52.92, 53.69), (512, 52.92, 53.69), (1500, 52.82, 53.60)];
        for (size, write, read) in golden {
            let rates = [link.write(Bytes(size)), link.read(Bytes(size))];
            assert!(
                near(rates[0], write, 0.011) && near(rates[1], read, 0.011),
                "{size}: {rates:?}"
            );
        }
    }

    #[test]
    fn reads_and_writes_together_share_the_way_up() {
        let link = Link::new(3, 8, Bytes(256), Bytes(512)).expect("known");
        // Up: 256 + 20 for the write, 20 for the read's request; down: 256 + 20.
        let expected = 2.0 * link.rate.0 * 256.0 / 296.0;
        assert!((link.both(Bytes(256)).0 - expected).abs() < 1.0);
    }

    #[test]
    fn a_transaction_that_starts_askew_is_cut_at_pages_and_completion_boundaries() {
        let mut link = Link::new(3, 8, Bytes(256), Bytes(512)).expect("known");
        let counts = |link: &Link, size| {
            let size = Bytes(size);
            (link.write_packets(size), link.read_requests(size), link.completions(size))
        };
        assert_eq!(counts(&link, 4096), (16, 8, 16));
        // 96 B before a page's end, and 160 B after it.
        link.offset = Bytes(4000);
        assert_eq!(counts(&link, 256), (2, 2, 2));
        // The first completion ends at a multiple of 64, so that 512 B that start 32 B askew take
        // three of 256.
        link.offset = Bytes(32);
        assert_eq!(counts(&link, 512), (2, 1, 3));
        // A host that chops at 64 B needs nine.
        link.completion = Bytes(64);
        assert_eq!(counts(&link, 512), (2, 1, 9));
    }

    #[test]
    fn askew_counts_agree_with_a_walk_over_the_bytes() {
        for (offset, size) in [(0, 1), (4095, 2), (100, 9000), (4032, 4200), (64, 8192), (1, 64)] {
            let mut link = Link::new(3, 8, Bytes(128), Bytes(256)).expect("known");
            link.offset = Bytes(offset);
            let mut packets = 0;
            let (mut at, end) = (offset, offset + size);
            while at < end {
                let page_end = (at / 4096 + 1) * 4096;
                at += (end - at).min(page_end - at).min(128);
                packets += 1;
            }
            assert_eq!(link.write_packets(Bytes(size)), packets, "{offset} {size}");
            let (mut requests, mut completions, mut at) = (0, 0, offset);
            while at < end {
                let page_end = (at / 4096 + 1) * 4096;
                let request_end = end.min(page_end).min(at + 256);
                requests += 1;
                while at < request_end {
                    // The longest completion within 128 B that ends at a multiple of 64, or at the
                    // request's end.
                    let boundary = (at + 128) / 64 * 64;
                    at = request_end.min(boundary);
                    completions += 1;
                }
            }
            assert_eq!(link.read_requests(Bytes(size)), requests, "{offset} {size}");
            assert_eq!(link.completions(Bytes(size)), completions, "{offset} {size}");
        }
    }
}
