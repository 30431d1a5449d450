//! The seal of a ledger at rest: a digest of the whole file behind its last page, where SQLite does
//! not look. It finds a changed bit even where no record is. Whoever writes takes it off first; a
//! ledger that is being recorded, or whose recorder was killed, has none.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

use sha2::{Digest as _, Sha256};

const MAGIC: &[u8; 8] = b"LNRTSEAL";
/// SHA-256.
const DIGEST_BYTES: usize = 32;
const SEAL_BYTES: u64 = (MAGIC.len() + DIGEST_BYTES) as u64;
/// Every page size of SQLite is a multiple of it.
const SMALLEST_PAGE: u64 = 512;
/// Read at once.
const BUFFER_BYTES: usize = 1 << 16;

/// State of a file's seal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seal {
    /// There is none.
    Absent,
    /// The file is as it was when it was sealed.
    Intact,
    /// The file or its seal was changed since.
    Broken,
}

/// Compares the file with its seal.
pub(crate) fn check(file: &File) -> io::Result<Seal> {
    let length = file.metadata()?.len();
    let Some((pages, written)) = split(file, length)? else {
        // SQLite writes whole pages. Any other length has something behind the last page.
        return Ok(if length % SMALLEST_PAGE == 0 { Seal::Absent } else { Seal::Broken });
    };
    Ok(if digest(file, pages)? == written { Seal::Intact } else { Seal::Broken })
}

/// Puts the seal on.
pub(crate) fn put(mut file: &File) -> io::Result<()> {
    let length = file.metadata()?.len();
    let digest = digest(file, length)?;
    file.seek(SeekFrom::Start(length))?;
    file.write_all(&[&MAGIC[..], &digest].concat())?;
    // A seal that is not on the medium when power fails would be half written, and look broken.
    file.sync_all()
}

/// Takes the seal off, if there is one.
pub(crate) fn remove(file: &File) -> io::Result<()> {
    let length = file.metadata()?.len();
    match split(file, length)? {
        Some((pages, _)) => file.set_len(pages),
        // A seal that was changed, or cut short. SQLite refuses a file whose length is no multiple
        // of its page size, so the rest is cut off.
        None if length % SMALLEST_PAGE != 0 => file.set_len(length / SMALLEST_PAGE * SMALLEST_PAGE),
        None => Ok(()),
    }
}

/// Length without the seal, and the digest in it.
fn split(mut file: &File, length: u64) -> io::Result<Option<(u64, [u8; DIGEST_BYTES])>> {
    let Some(pages) = length.checked_sub(SEAL_BYTES) else { return Ok(None) };
    let mut seal = [0; SEAL_BYTES as usize];
    file.seek(SeekFrom::Start(pages))?;
    file.read_exact(&mut seal)?;
    let (magic, digest) = seal.split_at(MAGIC.len());
    Ok((magic == MAGIC).then(|| (pages, digest.try_into().expect("the rest of the seal"))))
}

fn digest(mut file: &File, length: u64) -> io::Result<[u8; DIGEST_BYTES]> {
    // The seal is read first, so the position is behind it.
    file.seek(SeekFrom::Start(0))?;
    let mut hash = Sha256::new();
    let mut rest = file.take(length);
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        match rest.read(&mut buffer)? {
            0 => return Ok(hash.finalize().into()),
            n_bytes => hash.update(&buffer[..n_bytes]),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn every_flipped_bit_breaks_the_seal() {
        let file = tempfile::tempfile().expect("a file");
        file.set_len(2 * SMALLEST_PAGE).expect("room");
        assert_eq!(check(&file).expect("readable"), Seal::Absent);
        put(&file).expect("room");
        assert_eq!(check(&file).expect("readable"), Seal::Intact);
        let length = file.metadata().expect("a file").len();
        for bit in 0..length * 8 {
            let mut byte = [0];
            file.read_exact_at(&mut byte, bit / 8).expect("inside");
            file.write_all_at(&[byte[0] ^ 1 << (bit % 8)], bit / 8).expect("inside");
            assert_eq!(check(&file).expect("readable"), Seal::Broken, "bit {bit}");
            file.write_all_at(&byte, bit / 8).expect("inside");
        }
        remove(&file).expect("room");
        assert_eq!(
            (check(&file).expect("readable"), file.metadata().expect("a file").len()),
            (Seal::Absent, 1024)
        );
    }
}
