//! Messages of SNMPv3 under the user-based security model: RFC 3412 6 (message), RFC 3414 (digests,
//! keys, engine's time), RFC 7860 (SHA-2), RFC 3826 (AES-128 in CFB mode).
//!
//! An engine's time is an argument, and so is the salt of encryption. [`Incoming::is_proven`]
//! separates authenticated messages from others.

use aes::Aes128;
use cfb_mode::cipher::KeyIvInit as _;
use hmac::{Hmac, KeyInit as _, Mac};
use serde::Deserialize;
use sha1::Sha1;
use sha2::{Sha224, Sha256, Sha384, Sha512};

use super::ber::{self, BerError, Reader, SEQUENCE};
use super::message::Pdu;

/// `msgVersion` of SNMPv3, and `msgSecurityModel` of USM (RFC 3412 6.1, RFC 3411 5).
const VERSION_3: i32 = 3;
const USM: i32 = 3;
/// The largest message we take: what fits a UDP datagram over IPv4.
const LARGEST: i64 = 65_507;
/// `msgFlags` (RFC 3412 6.4).
const AUTHENTICATED: u8 = 1;
const ENCRYPTED: u8 = 2;
const REPORTABLE: u8 = 4;
/// AES-128's key and the salt that is sent along, octets (RFC 3826 1.2, 3.1.2.1).
const AES_KEY: usize = 16;
const SALT: usize = 8;

/// Digests by which messages are authenticated: RFC 3414 7 (SHA-1), RFC 7860 4 (SHA-2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Digest {
    /// HMAC-SHA-96.
    Sha1,
    /// HMAC-128-SHA-224.
    Sha224,
    /// HMAC-192-SHA-256.
    Sha256,
    /// HMAC-256-SHA-384.
    Sha384,
    /// HMAC-384-SHA-512.
    Sha512,
}

impl Digest {
    /// Octets of the authentication code that are sent.
    const fn sent(self) -> usize {
        match self {
            Self::Sha1 => 12,
            Self::Sha224 => 16,
            Self::Sha256 => 24,
            Self::Sha384 => 32,
            Self::Sha512 => 48,
        }
    }

    fn hash(self, parts: &[&[u8]]) -> Vec<u8> {
        match self {
            Self::Sha1 => hash::<Sha1>(parts),
            Self::Sha224 => hash::<Sha224>(parts),
            Self::Sha256 => hash::<Sha256>(parts),
            Self::Sha384 => hash::<Sha384>(parts),
            Self::Sha512 => hash::<Sha512>(parts),
        }
    }

    /// The code of `message`, as long as it is sent.
    fn code(self, key: &[u8], message: &[u8]) -> Vec<u8> {
        let mut code = match self {
            Self::Sha1 => code(Hmac::<Sha1>::new_from_slice(key), message),
            Self::Sha224 => code(Hmac::<Sha224>::new_from_slice(key), message),
            Self::Sha256 => code(Hmac::<Sha256>::new_from_slice(key), message),
            Self::Sha384 => code(Hmac::<Sha384>::new_from_slice(key), message),
            Self::Sha512 => code(Hmac::<Sha512>::new_from_slice(key), message),
        };
        // RFC 7860 sends only a part of the code; the rest never leaves this process.
        code.truncate(self.sent());
        code
    }
}

fn hash<D: sha2::Digest>(parts: &[&[u8]]) -> Vec<u8> {
    let mut digest = D::new();
    for part in parts {
        digest.update(part);
    }
    digest.finalize().to_vec()
}

fn code<M: Mac>(keyed: Result<M, hmac::digest::InvalidLength>, message: &[u8]) -> Vec<u8> {
    let mut keyed = keyed.expect("HMAC takes keys of any length");
    keyed.update(message);
    keyed.finalize().into_bytes().to_vec()
}

/// A user and its passwords.
#[derive(Clone, Default)]
pub struct User {
    /// Its name.
    pub name: Vec<u8>,
    /// How it proves who it is, and by which password.
    pub authentication: Option<(Digest, Vec<u8>)>,
    /// The password by which it hides what it says; only with authentication.
    pub privacy: Option<Vec<u8>>,
}

/// A user's keys at one engine. Made from passwords by a million octets of digest (RFC 3414 A.2.2):
/// milliseconds.
#[derive(Clone, Default)]
pub struct Keys {
    authentication: Option<(Digest, Vec<u8>)>,
    privacy: Option<Vec<u8>>,
}

impl Keys {
    /// The keys of `user` at the engine with identifier `engine`.
    #[must_use]
    pub fn of(user: &User, engine: &[u8]) -> Self {
        let Some((digest, password)) = &user.authentication else { return Self::default() };
        let privacy = user.privacy.as_ref().map(|password| {
            let mut key = localized(*digest, password, engine);
            // AES-128 uses the first 16 octets of a longer localized key (RFC 3826 section 1.2.1).
            key.truncate(AES_KEY);
            key
        });
        Self { authentication: Some((*digest, localized(*digest, password, engine))), privacy }
    }

    /// Bits of `msgFlags`.
    fn flags(&self) -> u8 {
        let proven = if self.authentication.is_some() { AUTHENTICATED } else { 0 };
        let hidden = if self.privacy.is_some() { ENCRYPTED } else { 0 };
        proven | hidden
    }
}

/// A password's key at one engine, RFC 3414 2.6 and A.2.2.
fn localized(digest: Digest, password: &[u8], engine: &[u8]) -> Vec<u8> {
    /// As many octets of the password, over and over, are digested.
    const EXPANDED: usize = 1 << 20;
    // The megabyte makes each guess of a password expensive (RFC 3414 section 11.2).
    let expanded: Vec<u8> = password.iter().copied().cycle().take(EXPANDED).collect();
    let key = digest.hash(&[&expanded]);
    // The identifier between the two keys ties the result to this engine, so a key stolen from one
    // switch opens no other.
    digest.hash(&[&key, engine, &key])
}

/// An authoritative engine as it is known: all zero and empty before it was asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Engine {
    /// Its identifier.
    pub id: Vec<u8>,
    /// How often it was started.
    pub boots: i32,
    /// Seconds since it was last started.
    pub time: i32,
}

/// Security parameters of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Matches an answer to its request.
    pub id: i32,
    /// Makes the encryption of this message unlike that of any other; never the same twice.
    pub salt: u64,
}

/// Why a message was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It cannot be read.
    #[error("it cannot be read: {0}")]
    Unreadable(#[from] BerError),
    /// Another security model.
    #[error("its security model is not the user-based one")]
    Model,
    /// From another engine, or for another user.
    #[error("it is of another engine or user")]
    Stranger,
    /// It is not proven by the user's key.
    #[error("its authentication code is wrong")]
    Forged,
    /// It does not have the security asked for.
    #[error("it is not as secure as was asked for")]
    Insecure,
}

/// A message that came in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incoming {
    /// Its number.
    pub id: i32,
    /// The engine as it says it is.
    pub engine: Engine,
    /// True if its authentication code was correct.
    pub is_proven: bool,
    /// The data unit.
    pub pdu: Pdu,
}

impl User {
    /// The bytes of a message of this user to `engine`; with default `keys` nothing is proven or
    /// hidden.
    #[must_use]
    pub fn emit(&self, keys: &Keys, engine: &Engine, header: Header, pdu: &Pdu) -> Vec<u8> {
        // Encryption covers the scoped data unit as a whole, so it is built first.
        let scoped =
            ber::made_of(SEQUENCE, &[ber::octets(&engine.id), ber::octets(&[]), pdu.emit()]);
        let salt = header.salt.to_be_bytes();
        let (data, salt) = match &keys.privacy {
            None => (scoped, &[][..]),
            Some(key) => {
                let mut hidden = scoped;
                cfb_mode::Encryptor::<Aes128>::new_from_slices(key, &vector(engine, salt))
                    .expect("key and vector have their lengths")
                    .encrypt(&mut hidden);
                (ber::octets(&hidden), &salt[..])
            }
        };
        // The code is computed over the message with zeros in its place (RFC 3414 section 6.3.1),
        // and must have its final length.
        let empty_code =
            vec![0; keys.authentication.as_ref().map_or(0, |(digest, _)| digest.sent())];
        let salt = ber::octets(salt);
        let security = ber::made_of(
            SEQUENCE,
            &[
                ber::octets(&engine.id),
                ber::integer(engine.boots.into()),
                ber::integer(engine.time.into()),
                ber::octets(&self.name),
                ber::octets(&empty_code),
                salt.clone(),
            ],
        );
        let global = ber::made_of(
            SEQUENCE,
            &[
                ber::integer(header.id.into()),
                ber::integer(LARGEST),
                // Every request is reportable: discovery of the engine depends on the report (RFC
                // 3414 section 4).
                ber::octets(&[keys.flags() | REPORTABLE]),
                ber::integer(USM.into()),
            ],
        );
        // The position is counted from the end, because lengths in front of it vary with their
        // values.
        let behind = salt.len() + data.len();
        let mut message = ber::made_of(
            SEQUENCE,
            &[ber::integer(VERSION_3.into()), global, ber::octets(&security), data],
        );
        if let Some((digest, key)) = &keys.authentication {
            let code = digest.code(key, &message);
            // Everything that holds the code ends with it, the salt and the data.
            let end = message.len() - behind;
            message[end - code.len()..end].copy_from_slice(&code);
        }
        message
    }

    /// Reads a message to this user from `engine`, whose identifier may be unknown yet. A report
    /// may be less secure than asked for: it is then not proven.
    ///
    /// # Errors
    /// If it is not whole, not from there, or not proven where it says so.
    pub fn parse(&self, keys: &Keys, engine: &Engine, bytes: &[u8]) -> Result<Incoming, Refusal> {
        let mut whole = Reader::new(bytes);
        let mut message = whole.inside(SEQUENCE)?;
        whole.end()?;
        if message.word()? != VERSION_3 {
            return Err(BerError::Version.into());
        }
        let mut global = message.inside(SEQUENCE)?;
        let (id, _largest) = (global.word()?, global.integer()?);
        let flags = *global.octets()?.first().ok_or(BerError::CutOff)?;
        if global.word()? != USM {
            return Err(Refusal::Model);
        }
        let security = message.element(ber::OCTET_STRING)?;
        let mut outer = Reader::within(security.1, security.0);
        let mut security = outer.inside(SEQUENCE)?;
        outer.end()?;
        let from = Engine {
            id: security.octets()?.to_vec(),
            boots: security.word()?,
            time: security.word()?,
        };
        let name = security.octets()?;
        let code = security.element(ber::OCTET_STRING)?;
        let salt = security.octets()?;
        // Before discovery our identifier is empty, and any engine may answer.
        if !engine.id.is_empty() && from.id != engine.id {
            return Err(Refusal::Stranger);
        }
        let is_proven = flags & AUTHENTICATED != 0;
        if is_proven {
            let (digest, key) = keys.authentication.as_ref().ok_or(Refusal::Insecure)?;
            // The name is checked only with a proof: reports before discovery carry no user.
            if name != self.name {
                return Err(Refusal::Stranger);
            }
            prove(*digest, key, bytes, code)?;
        }
        let pdu = if flags & ENCRYPTED == 0 {
            scoped(&mut message)?
        } else {
            // Privacy without authentication is not allowed (RFC 3411 section 3.4.3), so such data
            // is refused unread.
            let key = keys.privacy.as_ref().filter(|_| is_proven).ok_or(Refusal::Insecure)?;
            let salt: [u8; SALT] = salt.try_into().map_err(|_| BerError::CutOff)?;
            let mut plain = message.octets()?.to_vec();
            cfb_mode::Decryptor::<Aes128>::new_from_slices(key, &vector(&from, salt))
                .expect("key and vector have their lengths")
                .decrypt(&mut plain);
            scoped(&mut Reader::new(&plain))?
        };
        message.end()?;
        // A report may be less secure than the request: it is how an engine says that our clock or
        // keys are wrong.
        let is_report = pdu.kind == super::PduKind::Report;
        if !is_report && flags & keys.flags() != keys.flags() {
            return Err(Refusal::Insecure);
        }
        Ok(Incoming { id, engine: from, is_proven, pdu })
    }
}

/// The vector of a message's encryption, RFC 3826 3.1.2.1.
fn vector(engine: &Engine, salt: [u8; SALT]) -> [u8; AES_KEY] {
    let mut vector = [0; AES_KEY];
    vector[..4].copy_from_slice(&engine.boots.to_be_bytes());
    vector[4..8].copy_from_slice(&engine.time.to_be_bytes());
    vector[8..].copy_from_slice(&salt);
    vector
}

/// A scoped data unit (RFC 3412 6.8). What stands behind it in an encrypted one is padding.
fn scoped(reader: &mut Reader<'_>) -> Result<Pdu, BerError> {
    let mut scoped = reader.inside(SEQUENCE)?;
    let (_engine, _context) = (scoped.octets()?, scoped.octets()?);
    let pdu = Pdu::read(&mut scoped)?;
    scoped.end()?;
    Ok(pdu)
}

/// Checks the code at its place in `message`: that of the message with zeros there.
fn prove(
    digest: Digest,
    key: &[u8],
    message: &[u8],
    (at, code): (usize, &[u8]),
) -> Result<(), Refusal> {
    if code.len() != digest.sent() {
        return Err(Refusal::Forged);
    }
    // The caller's bytes stay as they are: the decrypted part is read from them afterwards.
    let mut zeroed = message.to_vec();
    zeroed[at..at + code.len()].fill(0);
    let right = digest.code(key, &zeroed);
    // All octets are compared: the time taken must not depend on where they differ.
    let difference = right.iter().zip(code).fold(0, |difference, (a, b)| difference | (a ^ b));
    if difference == 0 { Ok(()) } else { Err(Refusal::Forged) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snmp::{Oid, PduKind, Value};

    /// RFC 3414 A.3.2: password `maplesyrup`, engine 2.
    #[test]
    fn a_key_of_sha_1_is_that_of_the_standard() {
        let engine = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];
        let key = [
            0x66, 0x95, 0xfe, 0xbc, 0x92, 0x88, 0xe3, 0x62, 0x82, 0x23, 0x5f, 0xc7, 0x15, 0x1f,
            0x12, 0x84, 0x97, 0xb3, 0x8f, 0x3f,
        ];
        assert_eq!(localized(Digest::Sha1, b"maplesyrup", &engine), key);
    }

    fn user(digest: Digest) -> User {
        let authentication = Some((digest, b"a password".to_vec()));
        User { name: b"linerate".to_vec(), authentication, privacy: Some(b"another one".to_vec()) }
    }

    #[test]
    fn what_is_emitted_reads_back_and_nothing_that_was_changed() {
        let engine = Engine { id: vec![0x80, 0, 0x1f, 0x88, 4], boots: 7, time: 12_345 };
        let pdu = Pdu {
            kind: PduKind::Response,
            request: -5,
            error_status: 0,
            error_index: 0,
            bindings: vec![
                (Oid::new(&[1, 3, 6, 1, 2, 1, 1, 3, 0]), Value::TimeTicks(u32::MAX)),
                (Oid::new(&[1, 3, 6, 1, 2, 1, 31, 1, 1, 1, 6, 2]), Value::Counter64(u64::MAX)),
            ],
        };
        for digest in [Digest::Sha1, Digest::Sha224, Digest::Sha256, Digest::Sha384, Digest::Sha512]
        {
            let user = user(digest);
            let keys = Keys::of(&user, &engine.id);
            let bytes =
                user.emit(&keys, &engine, Header { id: 99, salt: 0x0102_0304_0506_0708 }, &pdu);
            assert!(
                !bytes.windows(9).any(|part| part == [0x2b, 6, 1, 2, 1, 1, 3, 0, 0x43]),
                "it is hidden"
            );
            let read = user.parse(&keys, &engine, &bytes).expect("ours");
            assert_eq!(
                (read.id, read.is_proven, &read.engine, &read.pdu),
                (99, true, &engine, &pdu)
            );
            for place in 0..bytes.len() {
                let mut changed = bytes.clone();
                changed[place] ^= 1;
                assert!(
                    user.parse(&keys, &engine, &changed).is_err(),
                    "{digest:?}: octet {place} was changed"
                );
            }
            assert!(user.parse(&keys, &engine, &bytes[..bytes.len() - 1]).is_err());
        }
    }

    #[test]
    fn an_answer_must_be_as_secure_as_the_question() {
        let engine = Engine { id: vec![1, 2, 3, 4, 5], boots: 1, time: 1 };
        let secure = user(Digest::Sha256);
        let keys = Keys::of(&secure, &engine.id);
        let mut pdu = Pdu::get(1, &[Oid::new(&[1, 3, 6])]);
        pdu.kind = PduKind::Response;
        let open = User { name: secure.name.clone(), ..User::default() };
        let header = Header { id: 1, salt: 0 };
        let bytes = open.emit(&Keys::default(), &engine, header, &pdu);
        assert_eq!(secure.parse(&keys, &engine, &bytes), Err(Refusal::Insecure));
        pdu.kind = PduKind::Report;
        let report = open.emit(&Keys::default(), &engine, header, &pdu);
        assert!(!secure.parse(&keys, &engine, &report).expect("reports may be open").is_proven);
        let elsewhere = Engine { id: vec![9; 5], ..engine.clone() };
        assert_eq!(open.parse(&Keys::default(), &elsewhere, &bytes), Err(Refusal::Stranger));
    }
}
