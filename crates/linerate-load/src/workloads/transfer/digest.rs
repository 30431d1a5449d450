//! SHA-256 of received files, to compare with the file at the other end (`sha256sum`). It costs
//! CPU, and allocates nothing.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

/// Digests of the current file, of the last complete one, and of all complete ones in order.
#[derive(Debug, Default)]
pub(super) struct Checksum {
    current: Sha256,
    last: Option<[u8; 32]>,
    /// Of all complete files in order: the result of `cat FILES | sha256sum`.
    all: Sha256,
    /// The same, with the received part of the current file.
    tentative: Sha256,
    files: u64,
    is_under_way: bool,
}

impl Checksum {
    /// Begins the next file. The one before counts only if [`Self::end`] was called.
    pub(super) fn begin(&mut self) {
        self.current = Sha256::default();
        self.tentative = self.all.clone();
        self.is_under_way = true;
    }

    /// Adds received bytes.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.current.update(bytes);
        self.tentative.update(bytes);
    }

    /// Completes the file; a second call has no effect.
    pub(super) fn end(&mut self) {
        if !std::mem::take(&mut self.is_under_way) {
            return;
        }
        self.last = Some(self.current.clone().finalize().into());
        self.all = self.tentative.clone();
        self.files += 1;
    }

    /// Returns the text for reports.
    pub(super) fn modes(&self, modes: &mut BTreeMap<String, String>) {
        let Some(last) = self.last else { return };
        modes.insert("sha256_last".into(), hexadecimal(&last));
        let all = hexadecimal(&self.all.clone().finalize());
        modes.insert(
            "sha256_all".into(),
            format!("{all}, {} files one after the other", self.files),
        );
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_files_count_and_what_was_cut_off_does_not() {
        let mut checksum = Checksum::default();
        for (file, is_whole) in [(&b"a"[..], true), (b"cut off", false), (b"bc", true)] {
            checksum.begin();
            file.chunks(2).for_each(|piece| checksum.add(piece));
            if is_whole {
                checksum.end();
                checksum.end();
            }
        }
        let mut modes = BTreeMap::new();
        checksum.modes(&mut modes);
        // printf bc | sha256sum; printf abc | sha256sum
        assert_eq!(
            modes["sha256_last"],
            "1e0bbd6c686ba050b8eb03ffeedc64fdc9d80947fce821abbe5d6dc8d252c5ac"
        );
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(modes["sha256_all"], format!("{abc}, 2 files one after the other"));
    }
}
