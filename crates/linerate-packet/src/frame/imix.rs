//! Mixtures of frame sizes, by the names their users know (RFC 6985: a genome names every size of
//! one period, in order).

/// A repeating sequence of frame sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Imix {
    /// Name in plans.
    pub name: &'static str,
    /// Frame sizes of one period, check sequence included, in the order they are sent.
    pub genome: &'static [u16],
    /// Where the mixture comes from.
    pub source: &'static str,
}

impl Imix {
    /// Mean frame size, bytes.
    #[must_use]
    #[cfg(test)]
    pub(crate) fn mean_size(&self) -> f64 {
        self.genome.iter().map(|size| f64::from(*size)).sum::<f64>() / self.genome.len() as f64
    }
}

/// 7 x 64, 4 x 570, 1 x 1518, spread over the period.
const SIMPLE: [u16; 12] = [64, 570, 64, 64, 570, 64, 1518, 64, 570, 64, 570, 64];
/// 28 x 64, 16 x 570, 4 x 1518: the same proportions, as CSIT sends them, in runs.
const CSIT: [u16; 48] = {
    let mut sizes = [64; 48];
    let mut idx = 28;
    while idx < 48 {
        sizes[idx] = if idx < 44 { 570 } else { 1518 };
        idx += 1;
    }
    sizes
};
/// Seven sizes of RFC 2544 clause 9.1, one each.
const RFC2544: [u16; 7] = [64, 128, 256, 512, 1024, 1280, 1518];

/// Every mixture, alphabetically.
pub static IMIX_GENOMES: &[Imix] = &[
    Imix {
        name: "imix",
        genome: &SIMPLE,
        source: "simple IMIX 7:4:1 of 64, 570 and 1518 B, interleaved",
    },
    Imix {
        name: "imix_csit",
        genome: &CSIT,
        source: "FD.io CSIT IMIX v4: 28 x 64, 16 x 570, 4 x 1518 B, in runs",
    },
    Imix {
        name: "rfc2544",
        genome: &RFC2544,
        source: "RFC 2544 clause 9.1: each of its seven sizes in turn",
    },
];

/// The mixture called `name`.
///
/// # Examples
/// ```
/// use linerate_packet::frame::imix;
///
/// let sizes = imix("imix").expect("a known mixture").genome;
/// let total: u32 = sizes.iter().map(|size| u32::from(*size)).sum();
/// // 7 x 64 + 4 x 570 + 1 x 1518 = 4246 bytes in 12 frames.
/// assert_eq!((total, sizes.len()), (4246, 12));
/// ```
#[must_use]
pub fn imix(name: &str) -> Option<&'static Imix> {
    IMIX_GENOMES.iter().find(|imix| imix.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_seven_to_four_to_one_mixtures_have_the_mean_of_their_proportions() {
        for name in ["imix", "imix_csit"] {
            let mixture = imix(name).expect("listed");
            // (7 x 64 + 4 x 570 + 1518) / 12, the 353.83 B that CSIT prints.
            assert!(
                (mixture.mean_size() - 353.833_333).abs() < 1e-5,
                "{name}: {}",
                mixture.mean_size()
            );
            let of = |size: u16| mixture.genome.iter().filter(|one| **one == size).count();
            assert_eq!((of(64) * 4, of(570)), (of(570) * 7, of(1518) * 4), "{name}");
        }
        assert_eq!(imix("none"), None);
    }
}
