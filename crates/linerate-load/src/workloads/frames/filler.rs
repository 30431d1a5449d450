//! Frames made in place: next number, template, stamp and ports.

use linerate_model::{Counter, Counters, Nanos};
use linerate_packet::frame::{FCS_BYTES, Ports, Stamp, Template, TemplateError};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use super::PortChoice;
use super::backend::{Opening, Order};
use super::numbering::Numbering;
use crate::{LoadError, Result};

/// Lowest random port (RFC 4814 clause 4.3: 1024 to 65535).
const FIRST_RANDOM_PORT: u16 = 1024;
/// Marks a slot without a template.
const UNFILLED: usize = usize::MAX;

/// Filler of slots. Each slot keeps its last content; before the first time it has
/// [`super::backend::FILLING`].
#[derive(Debug)]
pub(super) struct Filler {
    pub(super) numbering: Numbering,
    /// For each flow, one template per distinct size.
    templates: Vec<Template>,
    sizes: Vec<usize>,
    /// Last template of each slot.
    filled: Vec<usize>,
    /// Bytes of a frame that are not transport payload, check sequence included.
    pub(super) overhead: u64,
    random: Option<Xoshiro256PlusPlus>,
}

impl Filler {
    pub(super) fn new(opening: &Opening<'_>, n_slots: usize) -> Result<Self> {
        let templates = opening.templates().map_err(unfit)?;
        let overhead = templates.first().map_or(0, Template::signature_at) + FCS_BYTES;
        let random = opening.params.ports == PortChoice::Random;
        Ok(Self {
            numbering: Numbering::new(opening.flows.len(), opening.sizes().clone()),
            templates,
            sizes: opening.sizes().distinct(),
            filled: vec![UNFILLED; n_slots],
            overhead: overhead as u64,
            random: random.then(|| Xoshiro256PlusPlus::seed_from_u64(opening.seed)),
        })
    }

    /// Turns `bytes`, the slot numbered `slot`, into the `ahead`-th frame of `order`; returns its
    /// length.
    #[inline]
    pub(super) fn fill(
        &mut self,
        slot: usize,
        bytes: &mut [u8],
        ahead: u64,
        order: Order,
    ) -> usize {
        let frame = self.numbering.ahead(ahead);
        let size_idx = self
            .sizes
            .iter()
            .position(|size| *size == frame.size)
            .expect("every size has a template");
        let idx = frame.flow_idx * self.sizes.len() + size_idx;
        let template = &self.templates[idx];
        // Within a slot only the head differs between flows; it is copied only if the flow or size
        // changed.
        if std::mem::replace(&mut self.filled[slot], idx) != idx {
            let head = template.head();
            bytes[..head.len()].copy_from_slice(head);
        }
        let scheduled = Nanos(order.intended.0 + ahead * order.gap.0);
        let stamp = Stamp {
            sequence: frame.sequence,
            scheduled_ns: scheduled.0,
            lateness_ns: order.now.since(scheduled).0,
        };
        // Ports are part of the checksum, so they are patched together with it.
        match &mut self.random {
            None => template.patch(bytes, &stamp),
            Some(random) => {
                template.patch_with_ports(bytes, &stamp, random_ports(random.next_u64()))
            }
        }
        template.bytes().len()
    }

    /// Counts the next `n` frames as taken, each a message of its own.
    #[inline]
    pub(super) fn taken(&mut self, n: u64, change: &mut Counters) {
        let bytes = self.numbering.advance(n);
        change[Counter::MessagesSent] += n;
        change[Counter::DatagramsSent] += n;
        change[Counter::PayloadSent] += bytes - self.overhead * n;
    }

    /// Returns the frames taken of the `flow_idx`-th flow, and their transport payload.
    pub(super) fn sent(&self, flow_idx: usize) -> (u64, u64) {
        let (frames, bytes) = self.numbering.sent(flow_idx);
        // The overhead is per frame and constant: all frames of a job have the same headers.
        (frames, bytes - self.overhead * frames)
    }
}

/// Returns two ports of RFC 4814's range from 64 random bits, uniform to one part in 2^16.
#[inline]
fn random_ports(bits: u64) -> Ports {
    const N_PORTS: u64 = (u16::MAX - FIRST_RANDOM_PORT) as u64 + 1;
    // A multiplication and a shift instead of a division; the bias is below one part in 2^16.
    let port = |bits: u32| FIRST_RANDOM_PORT + ((u64::from(bits) * N_PORTS) >> u32::BITS) as u16;
    Ports { source: port((bits >> u32::BITS) as u32), destination: port(bits as u32) }
}

/// Describes a frame size without room as a parameter that does not go with the others.
pub(super) fn unfit(error: TemplateError) -> LoadError {
    LoadError::Unsupported { what: "frame_size of `frames`".into(), why: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_ports_cover_the_range_of_rfc_4814() {
        assert_eq!(random_ports(0), Ports { source: 1024, destination: 1024 });
        assert_eq!(random_ports(u64::MAX), Ports { source: 65_535, destination: 65_535 });
    }
}
