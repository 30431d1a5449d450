//! Frame sizes: one, or the genome of a mixture, in turn.

use linerate_model::Bytes;
use linerate_packet::frame::{WIRE_OVERHEAD_BYTES, imix};
use serde::{Deserialize, Deserializer, de};

use crate::workloads::arrivals::Rate;

/// The mixtures there are, as plans name them.
pub(super) const MIXTURES: &[&str] = &["imix", "imix_csit", "rfc2544"];

/// `frame_size` as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FrameSize {
    name: String,
    sizes: Sizes,
}

/// Frame sizes in the order in which each flow sends them, check sequence included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sizes(Vec<u16>);

impl Default for FrameSize {
    /// The size at which a packet rate is the hardest to reach.
    fn default() -> Self {
        Self { name: "64 B".into(), sizes: Sizes(vec![64]) }
    }
}

impl FrameSize {
    /// As plans and reports name it.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn sizes(&self) -> &Sizes {
        &self.sizes
    }
}

impl<'de> Deserialize<'de> for FrameSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if let Some(mixture) = imix(&text) {
            return Ok(Self { name: text, sizes: Sizes(mixture.genome.to_vec()) });
        }
        let size = text.parse::<Bytes>().ok().and_then(|size| u16::try_from(size.0).ok());
        let size = size.ok_or_else(|| {
            de::Error::custom(format!("`{text}` is neither a mixture nor a frame size"))
        })?;
        Ok(Self { name: format!("{size} B"), sizes: Sizes(vec![size]) })
    }
}

impl Sizes {
    /// Whether every frame has the same size.
    pub(super) fn is_single(&self) -> bool {
        self.0.iter().all(|size| *size == self.0[0])
    }

    /// The size of the frame with number `sequence` of its flow.
    #[inline]
    pub(super) fn of(&self, sequence: u64) -> usize {
        usize::from(self.0[(sequence % self.0.len() as u64) as usize])
    }

    /// The genome: sizes in the order in which each flow sends them.
    pub(super) fn all(&self) -> &[u16] {
        &self.0
    }

    /// Every size there is, each once, smallest first.
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

    /// Bytes of the first `n` frames of a flow, check sequences included.
    pub(super) fn bytes_of(&self, n: u64) -> u64 {
        let sum = |sizes: &[u16]| sizes.iter().map(|size| u64::from(*size)).sum::<u64>();
        let (periods, rest) = (n / self.0.len() as u64, (n % self.0.len() as u64) as usize);
        periods * sum(&self.0) + sum(&self.0[..rest])
    }

    /// Frames a second at `rate`, bits counted on the wire.
    pub(super) fn frames_per_second(&self, rate: Rate) -> f64 {
        let period = self.0.len();
        let on_wire = self.bytes_of(period as u64) as usize + period * WIRE_OVERHEAD_BYTES;
        match rate {
            Rate::Packets(_) => rate.per_second(on_wire),
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
        serde_json::from_value::<FrameSize>(serde_json::json!(text))
            .expect("a size")
            .sizes()
            .clone()
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
