//! Proof, both ways, that a data connection belongs to the trial, without showing the trial's
//! secret.
//!
//! ```text
//! active                                                          passive
//!   -- hello: workload (4), cookie (16), index, count (4 each), nonce (16) ->
//!   <-------------------------- answer: nonce (16), proof (32) -----
//!   -- proof (32) ------------------------------------------------->
//!   <----------------- go-ahead (32), once every connection is there
//! ```
//!
//! The cookie names the job at a port that several share ([`super::first_bytes`]). It proves
//! nothing.
//! A proof is HMAC-SHA256 (RFC 2104) of the secret over a label, its role, the hello and the
//! passive end's nonce. Each role has its own proof, so that a listener which sends back what it
//! receives proves nothing, and fresh nonces on both sides make old proofs worthless. The active
//! end sends nothing but the hello before the passive end's proof holds: no host is loaded that is
//! not part of the trial.
//!
//! Not covered: a relay that carries both directions between two ends that know the secret.

use hmac::{Hmac, KeyInit as _, Mac};
use sha2::Sha256;

use super::first_bytes::{self, Cookie};
use crate::Secret;
use crate::pinned;

/// Bytes of a hello: three numbers, a cookie and a nonce.
pub(crate) const HELLO_BYTES: usize = 12 + size_of::<Cookie>() + NONCE_BYTES;
/// Bytes of a proof: those of SHA-256.
pub(crate) const PROOF_BYTES: usize = 32;
/// Bytes of the passive end's answer to a hello.
pub(crate) const ANSWER_BYTES: usize = NONCE_BYTES + PROOF_BYTES;
const NONCE_BYTES: usize = 16;
/// Separates this use of HMAC, and its version, from any other.
const LABEL: &[u8] = b"linerate connection 2";

type Nonce = [u8; NONCE_BYTES];

/// First message of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    /// The trial's secret, which is proved and never sent.
    pub(crate) secret: Secret,
    /// Number of the workload, so that two jobs' connections are not mistaken.
    pub(crate) workload: u32,
    /// Index of this connection.
    pub(crate) index: u32,
    /// Number of connections.
    pub(crate) count: u32,
}

impl Hello {
    /// Returns the hello of the first of `count` connections.
    pub(crate) fn first(secret: Secret, workload: u32, count: u32) -> Self {
        Self { secret, workload, index: 0, count }
    }
}

/// Subject of a proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Role {
    /// That the connecting end knows the secret.
    Active = 1,
    /// That the listening end knows it.
    Passive = 2,
    /// That the listening end has every connection it expects.
    GoAhead = 3,
}

/// One connection's hello and both nonces, which its proofs cover.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exchange {
    hello: Hello,
    nonces: [Nonce; 2],
}

/// Returns an unpredictable nonce.
fn fresh() -> Nonce {
    let mut nonce = [0; NONCE_BYTES];
    // The provider draws from the operating system's generator, which on Linux cannot fail once it
    // is seeded.
    pinned::provider()
        .secure_random
        .fill(&mut nonce)
        .expect("the system's random generator is seeded");
    nonce
}

impl Exchange {
    /// Creates the exchange that the active end opens with `hello`; the passive end's nonce is not
    /// known yet.
    pub(crate) fn open(hello: Hello) -> Self {
        Self { hello, nonces: [fresh(), [0; NONCE_BYTES]] }
    }

    /// Returns the first bytes of the active end.
    pub(crate) fn hello_bytes(&self) -> [u8; HELLO_BYTES] {
        let Hello { secret, workload, index, count } = self.hello;
        let parts: [&[u8]; 5] = [
            &workload.to_be_bytes(),
            &first_bytes::cookie_of(secret),
            &index.to_be_bytes(),
            &count.to_be_bytes(),
            &self.nonces[0],
        ];
        let (mut bytes, mut at) = ([0; HELLO_BYTES], 0);
        for part in parts {
            bytes[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        bytes
    }

    /// Creates the exchange that a hello begins at the passive end, if it is an expected one,
    /// whatever its index.
    pub(crate) fn expected(expected: Hello, bytes: &[u8; HELLO_BYTES]) -> Option<Self> {
        let (words, nonce) = bytes.split_last_chunk::<NONCE_BYTES>().expect("a hello is longer");
        let number = |at: usize| {
            u32::from_be_bytes(*words[at..].first_chunk().expect("numbers come before the nonce"))
        };
        let behind = first_bytes::COOKIE_AT + size_of::<Cookie>();
        let hello = Hello {
            secret: expected.secret,
            workload: number(0),
            index: number(behind),
            count: number(behind + size_of::<u32>()),
        };
        // The number of connections is part of the hello, so ends with different plans do not pair.
        let is_expected = (hello.workload, hello.count) == (expected.workload, expected.count);
        (is_expected && hello.index < hello.count)
            // The passive end draws its nonce only for an expected hello, so strangers cost no
            // randomness.
            .then(|| Self { hello, nonces: [*nonce, fresh()] })
    }

    /// Returns the passive end's answer to a hello.
    pub(crate) fn answer_bytes(&self) -> [u8; ANSWER_BYTES] {
        let mut bytes = [0; ANSWER_BYTES];
        bytes[..NONCE_BYTES].copy_from_slice(&self.nonces[1]);
        bytes[NONCE_BYTES..].copy_from_slice(&self.prove(Role::Passive));
        bytes
    }

    /// Takes the passive end's answer; `false` if it does not prove the secret.
    #[must_use]
    pub(crate) fn take_answer(&mut self, bytes: &[u8; ANSWER_BYTES]) -> bool {
        let (nonce, proof) = bytes.split_first_chunk::<NONCE_BYTES>().expect("an answer is longer");
        self.nonces[1] = *nonce;
        self.verify(Role::Passive, proof)
    }

    /// Returns the index of this connection.
    pub(crate) fn index(&self) -> usize {
        self.hello.index as usize
    }

    /// Returns the proof of `role`.
    pub(crate) fn prove(&self, role: Role) -> [u8; PROOF_BYTES] {
        self.mac(role).finalize().into_bytes().into()
    }

    /// Returns true if `proof` is that of `role`; compares in constant time.
    #[must_use]
    pub(crate) fn verify(&self, role: Role, proof: &[u8]) -> bool {
        // In constant time: a comparison that stops early would reveal how much of a proof is
        // right.
        self.mac(role).verify_slice(proof).is_ok()
    }

    fn mac(&self, role: Role) -> Hmac<Sha256> {
        let mut mac = keyed(self.hello.secret);
        mac.update(LABEL);
        mac.update(&[role as u8]);
        // Both nonces are covered, so a proof is worthless in any other exchange.
        mac.update(&self.hello_bytes());
        mac.update(&self.nonces[1]);
        mac
    }
}

/// Returns the word for `purpose`, for protocols that have to send one in the clear: it does not
/// reveal the secret.
pub(crate) fn word(secret: Secret, purpose: &[u8]) -> Secret {
    let mut mac = keyed(secret);
    mac.update(b"linerate word 1");
    mac.update(purpose);
    Secret(*mac.finalize().into_bytes().first_chunk().expect("a SHA-256 digest is longer"))
}

fn keyed(secret: Secret) -> Hmac<Sha256> {
    Hmac::new_from_slice(&secret.0).expect("HMAC takes keys of any length")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELLO: Hello =
        Hello { secret: Secret(*b"0123456789abcdef"), workload: 7, index: 1, count: 2 };

    /// First bytes of the proofs of [`Role`] in order, as `openssl dgst -sha256 -mac HMAC` computes
    /// them.
    const GOLDEN: [u32; 3] = [0xbb6b_9e6a, 0x00e2_8599, 0xbbf9_fabb];

    fn opened() -> Exchange {
        Exchange { hello: HELLO, nonces: [[0x11; NONCE_BYTES], [0; NONCE_BYTES]] }
    }

    #[test]
    fn the_exchange_is_these_bytes() {
        let cookie = word(HELLO.secret, b"connection").0;
        let numbers = [&[0, 0, 0, 7][..], &cookie, &[0, 0, 0, 1, 0, 0, 0, 2]].concat();
        let hello = [&numbers[..], &[0x11; 16]].concat();
        assert_eq!(opened().hello_bytes()[..], hello);
        let both = Exchange { nonces: [[0x11; NONCE_BYTES], [0x22; NONCE_BYTES]], ..opened() };
        let beginning =
            |role| u32::from_be_bytes(*both.prove(role).first_chunk().expect("32 bytes"));
        assert_eq!([Role::Active, Role::Passive, Role::GoAhead].map(beginning), GOLDEN);
        let answer = both.answer_bytes();
        assert_eq!(
            (&answer[..16], &answer[16..]),
            (&[0x22; 16][..], &both.prove(Role::Passive)[..])
        );
    }

    #[test]
    fn both_ends_agree_and_only_with_the_same_secret() {
        let mut active = Exchange::open(HELLO);
        let passive = Exchange::expected(Hello { index: 0, ..HELLO }, &active.hello_bytes())
            .expect("expected");
        assert!(active.take_answer(&passive.answer_bytes()));
        assert!(passive.verify(Role::Active, &active.prove(Role::Active)));
        assert!(active.verify(Role::GoAhead, &passive.prove(Role::GoAhead)));
        assert_eq!(passive.index(), 1);

        let stranger = Hello { secret: Secret([1; 16]), ..HELLO };
        let stranger = Exchange::expected(stranger, &active.hello_bytes())
            .expect("a hello does not reveal the secret");
        assert!(!Exchange::open(HELLO).take_answer(&stranger.answer_bytes()));
        assert!(!passive.verify(Role::Active, &stranger.prove(Role::Active)));
    }

    #[test]
    fn neither_an_echo_nor_an_old_proof_nor_another_role_proves_anything() {
        let mut active = Exchange::open(HELLO);
        let passive = Exchange::expected(HELLO, &active.hello_bytes()).expect("expected");
        let mut echo = [0; ANSWER_BYTES];
        echo[..HELLO_BYTES].copy_from_slice(&active.hello_bytes());
        assert!(!active.take_answer(&echo));
        let old = passive.answer_bytes();
        assert!(!Exchange::open(HELLO).take_answer(&old), "another hello has another nonce");
        assert!(!passive.verify(Role::Active, &passive.prove(Role::Passive)));
        assert!(!passive.verify(Role::GoAhead, &[0x06]), "what earlier versions sent");
    }

    #[test]
    fn a_hello_of_another_job_is_none() {
        let bytes = Exchange::open(HELLO).hello_bytes();
        for other in [Hello { workload: 8, ..HELLO }, Hello { count: 3, ..HELLO }] {
            assert!(Exchange::expected(other, &bytes).is_none());
        }
        let beyond = Exchange::open(Hello { index: 2, ..HELLO }).hello_bytes();
        assert!(Exchange::expected(HELLO, &beyond).is_none());
    }

    #[test]
    fn each_purpose_has_its_own_word() {
        let secret = HELLO.secret;
        assert_ne!(word(secret, b"a"), word(secret, b"b"));
        assert_ne!(word(secret, b"a"), word(Secret([1; 16]), b"a"));
        assert_ne!(word(secret, b"a"), secret);
        // As `printf 'linerate word 1a' | openssl dgst -sha256 -mac HMAC -macopt
        // key:0123456789abcdef` begins.
        assert_eq!(
            u64::from_be_bytes(*word(secret, b"a").0.first_chunk().expect("16 bytes")),
            0xabfb_6388_65f2_47f2
        );
    }
}
