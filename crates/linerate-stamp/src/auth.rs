//! Packets with authentication (RFC 8762 clauses 4.2.2, 4.3.2 and 4.4) and the extension that
//! protects others (RFC 8972 clause 4.8).
//!
//! Both directions have other places for the same fields, so that packets are sealed from those of
//! [`crate::wire`] and opened to them. Replays are not recognized.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::wire::BASE_BYTES;

/// Bytes of a packet without extensions, in either direction.
pub const SEALED_BYTES: usize = 112;
/// Bytes that sealing adds to a packet with extensions.
pub const SEAL_BYTES: usize = SEALED_BYTES - BASE_BYTES + PROTECTION_BYTES;
/// Fewest bytes of a key.
pub const LEAST_KEY_BYTES: usize = 16;

/// Bytes of a digest: the first half of that of SHA-256.
const DIGEST_BYTES: usize = 16;
/// Place of the digest, which covers all before it.
const DIGEST_AT: usize = SEALED_BYTES - DIGEST_BYTES;
/// Extension with the digest of those before it: flags, type, length, digest.
const PROTECTION: u8 = 8;
const PROTECTION_BYTES: usize = 4 + DIGEST_BYTES;
/// Flag of an extension whose digest is wrong (RFC 8972 clause 4).
const BROKEN: u8 = 0x20;

/// Places of the fields of a sender's packet: in a sealed one, in a plain one, and their bytes.
const OF_SENDER: [(usize, usize, usize); 3] = [(0, 0, 4), (16, 4, 8), (24, 12, 4)];
/// Places of the fields of a reflector's packet.
const OF_REFLECTOR: [(usize, usize, usize); 8] = [
    (0, 0, 4),
    (16, 4, 8),
    (24, 12, 4),
    (32, 16, 8),
    (48, 24, 4),
    (64, 28, 8),
    (72, 36, 2),
    (80, 40, 1),
];

/// Key that both ends know.
#[derive(Clone)]
pub struct Key(Hmac<Sha256>);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}

/// Packet of a sender whose digest is right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The packet without authentication, and without extensions if they are broken.
    pub plain: Vec<u8>,
    /// Extensions whose digest is missing or wrong.
    broken: Vec<u8>,
}

impl Key {
    /// Returns the key with these bytes; `None` if they are fewer than [`LEAST_KEY_BYTES`].
    #[must_use]
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let is_long = bytes.len() >= LEAST_KEY_BYTES;
        is_long.then(|| Self(Hmac::new_from_slice(bytes).expect("a key of any length is one")))
    }

    /// Reads a key in hexadecimal digits; `None` if it is none, or too short.
    #[must_use]
    pub fn of_text(text: &str) -> Option<Self> {
        let digits: Option<Vec<u8>> =
            text.trim().chars().map(|digit| Some(digit.to_digit(16)? as u8)).collect();
        let pairs = digits.filter(|digits| digits.len().is_multiple_of(2))?;
        Self::new(&pairs.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect::<Vec<_>>())
    }

    /// Seals a packet of a sender.
    #[must_use]
    pub fn seal_test(&self, plain: &[u8]) -> Vec<u8> {
        self.seal(plain, &OF_SENDER)
    }

    /// Opens a packet of a sender; `None` if its digest is wrong.
    #[must_use]
    pub fn open_test(&self, sealed: &[u8]) -> Option<Opened> {
        let mut plain = self.open(sealed, &OF_SENDER)?;
        let extensions = &sealed[SEALED_BYTES..];
        let whole = self.protected(&sealed[..4], extensions);
        plain.extend(whole.unwrap_or_default());
        let broken = if whole.is_some() { Vec::new() } else { extensions.to_vec() };
        Some(Opened { plain, broken })
    }

    /// Seals a reflector's reply to `opened`. Broken extensions come back with a flag.
    #[must_use]
    pub fn seal_reply(&self, reply: &[u8], opened: &Opened) -> Vec<u8> {
        let mut sealed = self.seal(reply, &OF_REFLECTOR);
        let mut broken = opened.broken.clone();
        let mut at = 0;
        while let Some([flags, _, high, low]) =
            broken.get_mut(at..).and_then(|rest| rest.first_chunk_mut())
        {
            *flags = BROKEN;
            at += 4 + usize::from(u16::from_be_bytes([*high, *low]));
        }
        sealed.extend(broken);
        sealed
    }

    /// Opens a packet of a reflector; `None` if a digest is wrong.
    #[must_use]
    pub fn open_reply(&self, sealed: &[u8]) -> Option<Vec<u8>> {
        let mut plain = self.open(sealed, &OF_REFLECTOR)?;
        plain.extend(self.protected(&sealed[..4], &sealed[SEALED_BYTES..])?);
        Some(plain)
    }

    fn seal(&self, plain: &[u8], fields: &[(usize, usize, usize)]) -> Vec<u8> {
        let mut sealed = vec![0; DIGEST_AT];
        for &(to, from, n) in fields {
            sealed[to..to + n].copy_from_slice(&plain[from..from + n]);
        }
        sealed.extend(self.digest(&[&sealed]));
        let extensions = &plain[BASE_BYTES..];
        if !extensions.is_empty() {
            sealed.extend(extensions);
            sealed.extend([0, PROTECTION, 0, DIGEST_BYTES as u8]);
            sealed.extend(self.digest(&[&plain[..4], extensions]));
        }
        sealed
    }

    fn open(&self, sealed: &[u8], fields: &[(usize, usize, usize)]) -> Option<Vec<u8>> {
        let digest = sealed.get(DIGEST_AT..SEALED_BYTES)?;
        self.is_right(&[&sealed[..DIGEST_AT]], digest).then_some(())?;
        let mut plain = vec![0; BASE_BYTES];
        for &(from, to, n) in fields {
            plain[to..to + n].copy_from_slice(&sealed[from..from + n]);
        }
        Some(plain)
    }

    /// Returns the extensions before the digest that ends them; `None` if that is missing or wrong.
    fn protected<'a>(&self, number: &[u8], extensions: &'a [u8]) -> Option<&'a [u8]> {
        if extensions.is_empty() {
            return Some(extensions);
        }
        let (whole, protection) =
            extensions.split_at_checked(extensions.len().checked_sub(PROTECTION_BYTES)?)?;
        let is_one = protection[1..4] == [PROTECTION, 0, DIGEST_BYTES as u8];
        (is_one && self.is_right(&[number, whole], &protection[4..])).then_some(whole)
    }

    fn mac(&self, parts: &[&[u8]]) -> Hmac<Sha256> {
        let mut mac = self.0.clone();
        parts.iter().for_each(|part| mac.update(part));
        mac
    }

    fn digest(&self, parts: &[&[u8]]) -> [u8; DIGEST_BYTES] {
        let whole = self.mac(parts).finalize().into_bytes();
        whole[..DIGEST_BYTES].try_into().expect("half of it")
    }

    /// Returns whether `digest` is that of `parts`, in the same time whatever differs.
    fn is_right(&self, parts: &[&[u8]], digest: &[u8]) -> bool {
        self.mac(parts).verify_truncated_left(digest).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::{Counts, ErrorEstimate, Reply, TestPacket};

    const AT: u64 = 1_795_816_800_250_000_000;

    fn key() -> Key {
        Key::of_text("000102030405060708090a0b0c0d0e0f").expect("sixteen bytes")
    }

    fn packet(n_sent: Option<u32>) -> TestPacket {
        let error = ErrorEstimate::at_least(1_000_000, true);
        TestPacket { number: 7, sent_ns: AT, error, session: 0x1234, n_sent }
    }

    fn reply() -> Reply {
        Reply {
            number: 5,
            reflected_ns: AT + 3_000_000,
            error: ErrorEstimate::at_least(1, false),
            session: 0x1234,
            arrived_ns: AT + 2_000_000,
            answers: 7,
            hops: 63,
            counts: Some(Counts { sent: 8, arrived: 6, reflected: 5 }),
        }
    }

    #[test]
    fn a_sealed_packet_has_the_fields_of_rfc_8762_at_their_places() {
        let sealed = key().seal_test(&packet(None).to_bytes(0));
        let mut expected = vec![0, 0, 0, 7];
        expected.extend([0; 12]);
        expected.extend([0xee, 0xb4, 0x7b, 0xe0, 0x40, 0, 0, 0]);
        expected.extend([0x80 | 15, 132, 0x12, 0x34]);
        expected.extend([0; 68]);
        assert_eq!(sealed[..96], expected);
        // By Python's hmac over these 96 bytes.
        let digest = 0xde1a_4850_c5ff_5a19_04cb_6a8d_fe43_0639_u128.to_be_bytes();
        assert_eq!(sealed[96..], digest);
    }

    #[test]
    fn a_sealed_reply_has_the_fields_of_rfc_8762_at_their_places() {
        let (key, sent) = (key(), packet(Some(8)).to_bytes(100));
        let opened = key.open_test(&key.seal_test(&sent)).expect("its own digest");
        assert_eq!(opened.plain, sent);
        let sealed = key.seal_reply(&reply().to_bytes(&opened.plain), &opened);
        assert_eq!(sealed.len(), key.seal_test(&sent).len(), "a reflector amplifies nothing");
        assert_eq!(sealed[..4], [0, 0, 0, 5]);
        assert_eq!(sealed[48..52], [0, 0, 0, 7], "number of the sender");
        assert_eq!(sealed[64..72], sent[4..12], "time of the sender");
        assert_eq!(sealed[72..80], [0x80 | 15, 132, 0, 0, 0, 0, 0, 0], "error of the sender");
        assert_eq!(sealed[80], 63, "time to live");
        let read = Reply::from_bytes(&key.open_reply(&sealed).expect("its own digest"));
        assert_eq!(read, Some(reply()));
    }

    #[test]
    fn extensions_without_a_right_digest_come_back_with_a_flag() {
        let key = key();
        let mut sealed = key.seal_test(&packet(Some(8)).to_bytes(0));
        sealed[SEALED_BYTES + 7] ^= 1;
        let opened = key.open_test(&sealed).expect("the base is right");
        assert_eq!(opened.plain.len(), BASE_BYTES, "they are not processed");
        let answer = key.seal_reply(&reply().to_bytes(&opened.plain), &opened);
        assert_eq!(answer.len(), sealed.len());
        assert_eq!(answer[SEALED_BYTES..SEALED_BYTES + 2], [BROKEN, 5]);
        assert_eq!(answer[SEALED_BYTES + 16..SEALED_BYTES + 18], [BROKEN, PROTECTION]);
        assert_eq!(
            answer[SEALED_BYTES + 4..SEALED_BYTES + 16],
            sealed[SEALED_BYTES + 4..SEALED_BYTES + 16]
        );
    }

    #[test]
    fn a_key_is_long_and_hexadecimal() {
        for wrong in
            ["", "00", "000102030405060708090a0b0c0d0e0", "zz0102030405060708090a0b0c0d0e0f"]
        {
            assert!(Key::of_text(wrong).is_none(), "{wrong}");
        }
        assert!(Key::of_text(" 000102030405060708090A0B0C0D0E0F\n").is_some());
    }

    proptest! {
        #[test]
        fn no_changed_or_foreign_packet_is_opened(
            (at, bit) in (0..SEALED_BYTES, 0..8_u8),
            noise in proptest::collection::vec(any::<u8>(), 0..300),
        ) {
            let key = key();
            let mut sealed = key.seal_test(&packet(Some(8)).to_bytes(0));
            sealed[at] ^= 1 << bit;
            prop_assert_eq!(key.open_test(&sealed), None);
            prop_assert_eq!(key.open_test(&noise), None);
            prop_assert_eq!(key.open_reply(&noise), None);
        }
    }
}
