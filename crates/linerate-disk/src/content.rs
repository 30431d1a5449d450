//! Contents of a device: signatures at its edges, and a check if the rest looks blank.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::{Advice, fadvise};
use serde::Serialize;

use crate::claim::{CLAIM_BYTES, Claim, RESERVED_BYTES};
use crate::signature::{
    Edges, Finding, HEAD_BYTES, SHORT_HEAD_BYTES, TAIL_BYTES, embedded, findings,
};

/// Number of samples between the edges. They may miss data that fills a thousandth of a disk, but
/// not the edges of a filesystem.
const N_SAMPLES: u64 = 64;
/// Size of a sample.
const SAMPLE_BYTES: usize = 4096;

/// Contents of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Content {
    /// Recognized formats.
    pub findings: Vec<Finding>,
    /// Claim at the start of the device.
    pub claim: Option<Claim>,
    /// Position of the first byte in the first or last MiB that is neither zero nor part of a
    /// claim.
    pub edge_data: Option<u64>,
    /// Position of such a byte between the edges: searched in all of the first 64 MiB and in 64
    /// samples after them.
    pub inner_data: Option<u64>,
}

impl Content {
    /// Inspects `device`, which has `size` bytes. A device in use is inspected less closely.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(crate) fn read(device: &File, size: u64, is_in_use: bool) -> io::Result<Self> {
        // The page cache may lack data that was written past it or by another host.
        let _: Result<(), _> = fadvise(device, 0, None, Advice::DontNeed);
        let most = if is_in_use { SHORT_HEAD_BYTES } else { HEAD_BYTES };
        let head = part(device, 0, size.min(most as u64) as usize)?;
        let tail_at = size - size.min(TAIL_BYTES as u64);
        let tail = part(device, tail_at, (size - tail_at) as usize)?;
        let mut content = Self::of_edges(&Edges { head: &head, tail: &tail, size });
        let in_head = RESERVED_BYTES.min(tail_at) as usize..head.len().min(tail_at as usize);
        content.inner_data =
            not_blank(&head[in_head.clone()]).map(|at| (in_head.start + at) as u64);
        let behind = head.len() as u64..tail_at.saturating_sub(SAMPLE_BYTES as u64);
        // Samples only: reading a disk of 10 TB takes hours, and one byte is enough to refuse.
        if !behind.is_empty() && content.inner_data.is_none() {
            content.inner_data = sample(device, behind)?;
        }
        // Leaves no data of ours in the page cache, so that it does not influence the load.
        let _: Result<(), _> = fadvise(device, 0, None, Advice::DontNeed);
        Ok(content)
    }

    /// Returns what the edges alone show.
    fn of_edges(edges: &Edges<'_>) -> Self {
        let claim = Claim::decode(edges.head);
        // The claim itself is not data.
        let own = if claim.is_some() { CLAIM_BYTES } else { 0 };
        let reserved = edges.head.len().min(RESERVED_BYTES as usize);
        let in_head =
            not_blank(&edges.head[own.min(reserved)..reserved]).map(|at| (at + own) as u64);
        let tail_at = edges.size - edges.tail.len() as u64;
        // On a small device the tail contains the claim.
        let skipped = (own as u64).saturating_sub(tail_at) as usize;
        let in_tail = not_blank(edges.tail.get(skipped..).unwrap_or_default());
        let edge_data = in_head.or(in_tail.map(|at| tail_at + (at + skipped) as u64));
        // The area between the reserved edges of a claimed device contains what loads wrote. Short
        // marks mean nothing there, but whole superblocks do.
        let is_reserved =
            |finding: &Finding| finding.offset < RESERVED_BYTES || finding.offset >= tail_at;
        let mut findings = findings(edges);
        findings.retain(|finding| claim.is_none() || is_reserved(finding));
        if findings.is_empty() {
            findings.extend(embedded(edges));
        }
        Self { findings, claim, edge_data, inner_data: None }
    }
}

/// Reads `len` bytes at `at`.
fn part(device: &File, at: u64, len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    device.read_exact_at(&mut bytes, at).map(|()| bytes)
}

/// Returns the position of the first byte that is not zero.
fn not_blank(bytes: &[u8]) -> Option<usize> {
    const BLANK: [u8; SAMPLE_BYTES] = [0; SAMPLE_BYTES];
    // Comparing whole blocks is many times faster than testing each byte.
    let chunk = bytes.chunks(SAMPLE_BYTES).position(|chunk| *chunk != BLANK[..chunk.len()])?;
    let start = chunk * SAMPLE_BYTES;
    bytes[start..].iter().position(|byte| *byte != 0).map(|at| start + at)
}

/// Returns the position of the first non-zero byte in [`N_SAMPLES`] evenly spread samples of
/// `range`.
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
        Content::read(&file, size as u64, false).expect("read")
    }

    fn claim(size: usize) -> [u8; CLAIM_BYTES] {
        Claim { serial: "S".into(), size_bytes: size as u64, uuid: "u".into(), claimed_s: 1 }
            .encode()
            .expect("it fits")
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
        assert_eq!(image(8 << 20, &[(5_000_001, b"x")]).inner_data, Some(5_000_001));
    }

    #[test]
    fn a_filesystem_inside_a_claimed_device_is_found_and_random_bytes_are_none() {
        let size = 16 << 20;
        let mut inside = vec![0; 2048];
        inside[1024..1028].copy_from_slice(&128_u32.to_le_bytes());
        inside[1028..1032].copy_from_slice(&512_u32.to_le_bytes());
        inside[1024 + 56..1024 + 62].copy_from_slice(&[0x53, 0xEF, 1, 0, 1, 0]);
        let found = image(size, &[(0, &claim(size)), (8 << 20, &inside)]);
        assert_eq!(
            found.findings.iter().map(|one| (one.name, one.offset)).collect::<Vec<_>>(),
            [("ext", (8 << 20) + 1080)]
        );
        // Simulates the data of a load: random bytes (xorshift, Marsaglia) from a fixed seed.
        let mut state = 7_u64;
        let words = std::iter::repeat_with(|| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()
        });
        let random: Vec<u8> = words.take(size / 8 - (1 << 18)).flatten().collect();
        assert_eq!(image(size, &[(0, &claim(size)), (1 << 20, &random)]).findings, []);
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
