//! What is on a device: its edges read and told apart, and whether the rest looks blank.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::{Advice, fadvise};
use serde::Serialize;

use crate::claim::{CLAIM_BYTES, Claim, RESERVED_BYTES};
use crate::signature::{Edges, Finding, HEAD_BYTES, TAIL_BYTES, findings};

/// Places between the edges that are looked at: data that fills a thousandth of a disk may be missed, a filesystem's edges are not.
const N_SAMPLES: u64 = 64;
/// How much of each.
const SAMPLE_BYTES: usize = 4096;

/// What is on a device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Content {
    /// Things with a name.
    pub findings: Vec<Finding>,
    /// The claim at its start.
    pub claim: Option<Claim>,
    /// Where the first byte stands that is neither zero nor part of a claim, in its first or last MiB.
    pub edge_data: Option<u64>,
    /// Where such a byte was met between them, in 64 places.
    pub inner_data: Option<u64>,
}

impl Content {
    /// Looks at `device`, which has `size` bytes.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(crate) fn read(device: &File, size: u64) -> io::Result<Self> {
        // What was written past the page cache, or by another host, is not in it.
        let _: Result<(), _> = fadvise(device, 0, None, Advice::DontNeed);
        let part = |at: u64, len: usize| {
            let mut bytes = vec![0; len];
            device.read_exact_at(&mut bytes, at).map(|()| bytes)
        };
        let head = part(0, size.min(HEAD_BYTES as u64) as usize)?;
        let tail_at = size - size.min(TAIL_BYTES as u64);
        let tail = part(tail_at, (size - tail_at) as usize)?;
        let mut content = Self::of_edges(&Edges { head: &head, tail: &tail, size });
        let inner = RESERVED_BYTES..tail_at.saturating_sub(SAMPLE_BYTES as u64);
        if !inner.is_empty() {
            content.inner_data = sample(device, inner)?;
        }
        Ok(content)
    }

    /// The part that needs no further reading.
    fn of_edges(edges: &Edges<'_>) -> Self {
        let claim = Claim::decode(edges.head);
        let own = if claim.is_some() { CLAIM_BYTES } else { 0 };
        let reserved = edges.head.len().min(RESERVED_BYTES as usize);
        let in_head = edges.head[..reserved].iter().skip(own).position(|byte| *byte != 0).map(|at| (at + own) as u64);
        let tail_at = edges.size - edges.tail.len() as u64;
        // On a small device the tail contains the claim.
        let skipped = (own as u64).saturating_sub(tail_at) as usize;
        let in_tail = edges.tail.iter().skip(skipped).position(|byte| *byte != 0);
        let edge_data = in_head.or(in_tail.map(|at| tail_at + (at + skipped) as u64));
        // Between the reserved edges of a claimed device lies what loads wrote: numbers that look like marks mean nothing there.
        let is_reserved = |finding: &Finding| finding.offset < RESERVED_BYTES || finding.offset >= tail_at;
        let mut findings = findings(edges);
        findings.retain(|finding| claim.is_none() || is_reserved(finding));
        Self { findings, claim, edge_data, inner_data: None }
    }
}

/// The first of [`N_SAMPLES`] evenly spread places in `range` that is not zero.
fn sample(device: &File, range: std::ops::Range<u64>) -> io::Result<Option<u64>> {
    let mut bytes = [0; SAMPLE_BYTES];
    let step = (range.end - range.start) / N_SAMPLES;
    for place in 0..N_SAMPLES {
        let at = range.start + place * step;
        device.read_exact_at(&mut bytes, at)?;
        if let Some(within) = bytes.iter().position(|byte| *byte != 0) {
            return Ok(Some(at + within as u64));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(size: usize, marks: &[(usize, &[u8])]) -> Content {
        let mut bytes = vec![0; size];
        for (at, mark) in marks {
            bytes[*at..at + mark.len()].copy_from_slice(mark);
        }
        let file = tempfile::tempfile().expect("a file");
        file.write_all_at(&bytes, 0).expect("written");
        Content::read(&file, size as u64).expect("read")
    }

    fn claim(size: usize) -> [u8; CLAIM_BYTES] {
        Claim { serial: "S".into(), size_bytes: size as u64, uuid: "u".into(), claimed_s: 1 }.encode().expect("it fits")
    }

    #[test]
    fn a_blank_device_has_nothing_on_it() {
        assert_eq!(image(8 << 20, &[]), Content::default());
        assert_eq!(image(4096, &[]), Content::default());
    }

    #[test]
    fn data_without_a_name_is_found_at_the_edges_and_between() {
        assert_eq!(image(8 << 20, &[(1_000_000, b"x")]).edge_data, Some(1_000_000));
        assert_eq!(image(8 << 20, &[((8 << 20) - 1, b"x")]).edge_data, Some((8 << 20) - 1));
        let middle = vec![b'x'; 4 << 20];
        assert!(image(8 << 20, &[(2 << 20, &middle)]).inner_data.is_some());
    }

    #[test]
    fn a_claim_is_no_data_and_what_loads_wrote_behind_it_is_no_finding() {
        let size = 8 << 20;
        let claimed = image(size, &[(0, &claim(size)), (0x20_0000, &[0x5E, 0xF1, 0xAB, 0x2F])]);
        assert!(claimed.claim.is_some());
        assert_eq!((claimed.findings.as_slice(), claimed.edge_data), ([].as_slice(), None));
        let other = image(size, &[(0, &claim(size)), (65_536 + 64, b"_BHRfS_M")]);
        assert_eq!((other.findings[0].name, other.edge_data), ("btrfs", Some(65_600)));
    }
}
