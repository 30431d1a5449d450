//! Card of 80 bytes that each end sends to the other before the first frame, over the first
//! companion.
//!
//! ```text
//! offset  0       8       24       48    54        55  56    60
//!         | magic | nonce | clock  | mac | packets | 0 | mtu | 0 ... 80
//! ```
//! All big-endian. The active end's `nonce` makes the tags of this trial: a frame that a device
//! held back from an earlier trial bears another's, and is not counted. `clock` names the kernel
//! whose monotonic clock stamps what this end sends: two ends with the same have one clock, and
//! times between them need no correction. All zero: unknown. `packets` is 1 if it may open packet
//! sockets.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use hmac::{Hmac, KeyInit as _, Mac};
use linerate_packet::frame::MacAddress;
use linerate_sys::{SysError, clock};
use sha2::Sha256;

use super::ledger::Tags;
use crate::{LoadError, Result, Secret};

const CARD_BYTES: usize = 80;
const MAGIC: [u8; 8] = *b"lrframe1";
const NONCE_BYTES: usize = 16;
const CLOCK_BYTES: usize = 24;

/// Facts of one end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Card {
    pub(super) nonce: [u8; NONCE_BYTES],
    pub(super) clock: [u8; CLOCK_BYTES],
    pub(super) mac: MacAddress,
    /// True if this end may open packet sockets.
    pub(super) packets: bool,
    /// IP MTU of its interface.
    pub(super) mtu: u32,
}

impl Card {
    /// Creates this end's card, with a nonce that no other trial of `seed` has.
    pub(super) fn new(seed: u64, mac: MacAddress, mtu: u32, packets: bool) -> Self {
        let mut nonce = [0; NONCE_BYTES];
        // A monotonic clock never repeats on one host, so two trials never have one nonce, also
        // with equal seeds.
        nonce[..8].copy_from_slice(&clock::monotonic().to_be_bytes());
        nonce[8..].copy_from_slice(&seed.to_be_bytes());
        Self { nonce, clock: clock::identity().unwrap_or_default(), mac, packets, mtu }
    }

    fn to_bytes(self) -> [u8; CARD_BYTES] {
        let mut bytes = [0; CARD_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..24].copy_from_slice(&self.nonce);
        bytes[24..48].copy_from_slice(&self.clock);
        bytes[48..54].copy_from_slice(&self.mac.0);
        bytes[54] = u8::from(self.packets);
        bytes[56..60].copy_from_slice(&self.mtu.to_be_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8; CARD_BYTES]) -> Option<Self> {
        let at = |start: usize, length: usize| &bytes[start..start + length];
        (at(0, 8) == MAGIC).then(|| Self {
            nonce: at(8, NONCE_BYTES).try_into().expect("sixteen bytes"),
            clock: at(24, CLOCK_BYTES).try_into().expect("twenty-four bytes"),
            mac: MacAddress(at(48, 6).try_into().expect("six bytes")),
            packets: bytes[54] == 1,
            mtu: u32::from_be_bytes(at(56, 4).try_into().expect("four bytes")),
        })
    }

    /// Returns true if the other end's monotonic clock is this one's.
    pub(super) fn has_clock_of(&self, other: &Self) -> bool {
        // All zero means unknown, which equals nothing.
        self.clock == other.clock && self.clock != [0; CLOCK_BYTES]
    }

    /// Sends this card to the other end and receives its card.
    pub(super) fn exchange(self, mut stream: &TcpStream, patience: Duration) -> Result<Self> {
        let failed = |cause| SysError::new("exchange cards with", peer_of(stream), cause);
        // A timeout of zero would mean to wait for ever.
        stream.set_read_timeout(Some(patience.max(Duration::from_millis(1)))).map_err(failed)?;
        let mut bytes = [0; CARD_BYTES];
        stream
            .write_all(&self.to_bytes())
            .and_then(|()| stream.read_exact(&mut bytes))
            .map_err(failed)?;
        Self::from_bytes(&bytes).ok_or_else(|| LoadError::Unsupported {
            what: format!("the card of {}", peer_of(stream)),
            why: "it is not a card of this version: run the same version at both ends".into(),
        })
    }
}

fn peer_of(stream: &TcpStream) -> String {
    stream.peer_addr().map_or_else(|_| "a closed connection".to_owned(), |peer| peer.to_string())
}

/// Announces that this end is ready to receive, and waits until the other one is.
pub(super) fn ready(mut stream: &TcpStream, patience: Duration) -> Result<()> {
    const READY: [u8; 1] = *b"r";
    let action = "await the readiness (did its end fail?) of";
    let failed = |cause| SysError::new(action, peer_of(stream), cause);
    stream.set_read_timeout(Some(patience.max(Duration::from_millis(1)))).map_err(failed)?;
    stream.write_all(&READY).and_then(|()| stream.read_exact(&mut [0; 1])).map_err(failed)?;
    Ok(())
}

/// Returns the tags of a trial whose active end gave `nonce`: of sent frames, and of received ones.
pub(super) fn tags(secret: Secret, nonce: [u8; NONCE_BYTES]) -> Tags {
    // The nonce is of the active end only, so both ends compute the same tags.
    Tags { outward: tag(secret, nonce, 0), inward: tag(secret, nonce, 1) }
}

fn tag(secret: Secret, nonce: [u8; NONCE_BYTES], direction: u8) -> u32 {
    let mut mac = Hmac::<Sha256>::new_from_slice(&secret.0).expect("HMAC takes keys of any length");
    mac.update(b"linerate frame");
    mac.update(&nonce);
    mac.update(&[direction]);
    let digest = mac.finalize().into_bytes();
    u32::from_be_bytes(*digest.first_chunk().expect("a SHA-256 digest is longer"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card() -> Card {
        Card {
            nonce: [1; NONCE_BYTES],
            clock: [2; CLOCK_BYTES],
            mac: MacAddress([3; 6]),
            packets: true,
            mtu: 0x0405_0607,
        }
    }

    #[test]
    fn a_card_is_these_bytes() {
        let bytes = card().to_bytes();
        let expected =
            [&b"lrframe1"[..], &[1; 16], &[2; 24], &[3; 6], &[1, 0], &[4, 5, 6, 7], &[0; 20]]
                .concat();
        assert_eq!(bytes[..], expected);
        assert_eq!(Card::from_bytes(&bytes), Some(card()));
        assert_eq!(Card::from_bytes(&[0; CARD_BYTES]), None);
    }

    #[test]
    fn clocks_are_one_only_if_both_are_known_and_equal() {
        let unknown = Card { clock: [0; CLOCK_BYTES], ..card() };
        assert!(card().has_clock_of(&card()));
        assert!(!unknown.has_clock_of(&unknown) && !card().has_clock_of(&unknown));
    }

    #[test]
    fn each_trial_session_and_direction_has_a_tag_of_its_own() {
        let (a, b) = (Secret([7; 16]), Secret([8; 16]));
        let all = [tags(a, [0; 16]), tags(a, [1; 16]), tags(b, [0; 16])];
        let mut seen: Vec<u32> = all.iter().flat_map(|tags| [tags.outward, tags.inward]).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 6);
    }
}
