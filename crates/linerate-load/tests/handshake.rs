//! Passive end of a data connection, written a second time from its specification, for peers that a
//! test plays by hand.

use std::io::{Read, Write};
use std::net::TcpStream;

use hmac::{Hmac, KeyInit as _, Mac};
use linerate_load::Secret;
use sha2::Sha256;

/// Hello and proof: bytes that the active end sends before its load.
pub(crate) const FROM_ACTIVE: u64 = 44 + 32;
/// Answer and go-ahead: bytes that the passive end sends before its load.
pub(crate) const FROM_PASSIVE: u64 = 16 + 32 + 32;

/// Receives the hello, proves `secret`, checks the other end's proof and sends the go-ahead.
pub(crate) fn admit(stream: &mut TcpStream, secret: Secret) {
    const NONCE: [u8; 16] = [0x5a; 16];
    let mut hello = [0; 44];
    stream.read_exact(&mut hello).expect("a hello");
    let mut cookie = Hmac::<Sha256>::new_from_slice(&secret.0).expect("any length");
    cookie.update(b"linerate word 1connection");
    assert_eq!(hello[4..20], cookie.finalize().into_bytes()[..16], "the hello names the job");
    let proof = |role: u8| {
        let mut mac = Hmac::<Sha256>::new_from_slice(&secret.0).expect("any length");
        mac.update(&[&b"linerate connection 2"[..], &[role], &hello, &NONCE].concat());
        <[u8; 32]>::from(mac.finalize().into_bytes())
    };
    stream.write_all(&[&NONCE[..], &proof(2)].concat()).expect("the answer");
    let mut theirs = [0; 32];
    stream.read_exact(&mut theirs).expect("a proof");
    assert_eq!(theirs, proof(1), "the active end knows the secret");
    stream.write_all(&proof(3)).expect("the go-ahead");
}
