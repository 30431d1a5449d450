//! Frame sizes: one, or a mixture's genome, which each flow repeats.

use std::str::FromStr;

use linerate_model::Bytes;
use linerate_packet::frame::{LARGEST_FRAME, SMALLEST_FRAME, WIRE_OVERHEAD_BYTES, imix};

use crate::parameter::{Parameter, Reader, Takes};
use crate::workloads::arrivals::Rate;

/// Names of mixtures in plans.
const MIXTURES: &[&str] = &["imix", "imix_csit", "rfc2544"];

/// `frame_size` as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FrameSize {
    name: String,
    sizes: Sizes,
}

/// Frame sizes in the order in which each flow sends them, check sequence included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sizes(Vec<u16>);

impl FrameSize {
    /// Frames of `size` bytes.
    fn of(size: u16) -> Self {
        Self { name: format!("{size} B"), sizes: Sizes(vec![size]) }
    }

    /// Declares `frame_size`.
    pub(super) fn declare(reader: &mut Reader<'_>) -> Self {
        // The size at which a packet rate is the hardest to reach.
        let smallest = Self::of(SMALLEST_FRAME as u16);
        let one =
            Takes::Size { least: Bytes(SMALLEST_FRAME as u64), most: Bytes(LARGEST_FRAME as u64) };
        let parameter = Parameter {
            name: "frame_size",
            takes: Takes::WordOr(MIXTURES, Box::new(one)),
            default: format!("\"{}\"", smallest.name),
            meaning: "Ethernet frame with VLAN tags and frame check sequence (4 B), as in RFC \
                2544; imix: 7:4:1 of 64, 570 and 1518 B; imix_csit: the same in runs; rfc2544: \
                its seven sizes in turn",
        };
        reader.value(parameter, |value| value.as_str()?.parse().ok()).unwrap_or(smallest)
    }

    /// Returns the name in plans and reports.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn sizes(&self) -> &Sizes {
        &self.sizes
    }
}

impl FromStr for FrameSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // Mixtures first: their names are no sizes.
        if let Some(mixture) = imix(text) {
            return Ok(Self { name: text.to_owned(), sizes: Sizes(mixture.genome.to_vec()) });
        }
        let size = text.parse::<Bytes>().ok().and_then(|size| u16::try_from(size.0).ok());
        size.map(Self::of).ok_or_else(|| format!("`{text}` is neither a mixture nor a frame size"))
    }
}

impl Sizes {
    /// Returns true if every frame has the same size.
    pub(super) fn is_single(&self) -> bool {
        self.0.iter().all(|size| *size == self.0[0])
    }

    /// Returns the size of the frame with number `sequence` of its flow.
    #[inline]
    pub(super) fn of(&self, sequence: u64) -> usize {
        usize::from(self.0[(sequence % self.0.len() as u64) as usize])
    }

    /// Returns the genome: sizes in the order in which each flow sends them.
    pub(super) fn all(&self) -> &[u16] {
        &self.0
    }

    /// Returns each size once, smallest first.
    pub(super) fn distinct(&self) -> Vec<usize> {
        let mut sizes: Vec<usize> = self.0.iter().map(|size| usize::from(*size)).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    pub(super) fn smallest(&self) -> usize {
        usize::from(*self.0.iter().min().expect("a genome has a size"))
    }

    pub(super) fn largest(&self) -> usize {
        usize::from(*self.0.iter().max().expect("a genome has a size"))
    }

    /// Returns the bytes of the first `n` frames of a flow, check sequences included.
    pub(super) fn bytes_of(&self, n: u64) -> u64 {
        let sum = |sizes: &[u16]| sizes.iter().map(|size| u64::from(*size)).sum::<u64>();
        let (periods, rest) = (n / self.0.len() as u64, (n % self.0.len() as u64) as usize);
        periods * sum(&self.0) + sum(&self.0[..rest])
    }

    /// Returns frames per second at `rate`, bits counted on the wire.
    pub(super) fn frames_per_second(&self, rate: Rate) -> f64 {
        let period = self.0.len();
        let on_wire = self.bytes_of(period as u64) as usize + period * WIRE_OVERHEAD_BYTES;
        match rate {
            // Packets have no size in this rate, so the argument does not matter.
            Rate::Packets(_) => rate.per_second(on_wire),
            // A period of frames takes one share of the bits, so the rate counts periods.
            Rate::Bits(_) => rate.per_second(on_wire) * period as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use linerate_model::{BitRate, PacketRate};
    use linerate_packet::frame::IMIX_GENOMES;

    use super::*;

    fn sizes(text: &str) -> Sizes {
        text.parse::<FrameSize>().expect("a size").sizes().clone()
    }

    #[test]
    fn every_mixture_has_its_name_in_plans() {
        assert_eq!(IMIX_GENOMES.iter().map(|mixture| mixture.name).collect::<Vec<_>>(), MIXTURES);
        assert_eq!(
            MIXTURES.iter().map(|name| sizes(name).distinct()[0]).collect::<Vec<_>>(),
            [64, 64, 64]
        );
    }

    #[test]
    fn line_rate_is_that_of_rfc_2544_appendix_b() {
        for (size, frames) in
            [("64 B", 1_488_095), ("128 B", 844_594), ("512 B", 234_962), ("1518 B", 81_274)]
        {
            assert_eq!(sizes(size).frames_per_second(Rate::Bits(BitRate(1e9))) as u64, frames);
        }
        // (353.83 + 20) x 8 bits a frame on the average.
        let mixed = sizes("imix").frames_per_second(Rate::Bits(BitRate(1e9)));
        assert!((mixed - 1e9 / ((353.833_333 + 20.0) * 8.0)).abs() < 0.01, "{mixed}");
        assert_eq!(sizes("imix").frames_per_second(Rate::Packets(PacketRate(7.0))), 7.0);
    }

    #[test]
    fn a_genome_is_sent_in_turn_and_its_bytes_add_up() {
        let genome = sizes("rfc2544");
        let sent: u64 = (0..10).map(|sequence| genome.of(sequence) as u64).sum();
        assert_eq!(genome.bytes_of(10), sent);
        assert_eq!((genome.of(6), genome.of(7), genome.largest()), (1518, 64, 1518));
        assert_eq!(genome.distinct().len(), 7);
    }
}
