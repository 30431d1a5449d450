//! Users and passwords of iperf3: a client encrypts them for the key of the server.
//!
//! The token is base64 of RSA of `user: U\npwd:  P\nts:   T`, T in seconds since 1970. Releases
//! since 3.17 pad by OAEP (RFC 8017 clause 7.1, SHA-1 and MGF1), those before by PKCS #1 v1.5. The
//! token belongs to no connection: whoever reads one from the network can use it too, until it is
//! older than the server permits. Nothing else of a test is encrypted or signed.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rsa::{
    OAEP_SHA1_MGF1SHA1, OaepPrivateDecryptingKey, OaepPublicEncryptingKey,
    Pkcs1PrivateDecryptingKey, Pkcs1PublicEncryptingKey, PrivateDecryptingKey, PublicEncryptingKey,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{PrivatePkcs8KeyDer, SubjectPublicKeyInfoDer};

/// Padding of a token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Padding {
    /// OAEP, of releases since 3.17.
    #[default]
    Oaep,
    /// PKCS #1 v1.5, of releases before and of `--use-pkcs1-padding`.
    Pkcs1,
}

/// Why a key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// No such key in the text.
    #[error("no {0}")]
    NotPem(&'static str),
    /// Not an RSA key, or of a size that is not supported.
    #[error("no RSA key of 2048 to 8192 bits")]
    NotRsa,
}

/// Why a client is turned away. Only the server's owner may learn it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denial {
    /// It sent no token.
    #[error("it sent no user and password")]
    NoToken,
    /// The token is not encrypted for this key, or with another padding.
    #[error("its token is not encrypted for this key and padding")]
    Undecryptable,
    /// The text in the token is not that of iperf3.
    #[error("its token has no user, password and time")]
    Malformed,
    /// The token is too old, or of the future.
    #[error("its token is {0} s old")]
    Skewed(i64),
    /// No such user, or another password.
    #[error("no user `{0}` with this password")]
    Unknown(String),
}

enum Decrypting {
    Oaep(OaepPrivateDecryptingKey),
    Pkcs1(Pkcs1PrivateDecryptingKey),
}

/// Key of a server, and how it reads tokens.
pub struct ServerKey {
    key: Decrypting,
    skew: Duration,
}

impl fmt::Debug for ServerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServerKey({:?})", self.skew)
    }
}

impl ServerKey {
    /// Reads a private key in PEM (PKCS #8, as `openssl genpkey` writes). A token may be older or
    /// newer than the server's clock by `skew`.
    ///
    /// # Errors
    /// If the text has no such key.
    pub fn read(pem: &[u8], padding: Padding, skew: Duration) -> Result<Self, KeyError> {
        let der = PrivatePkcs8KeyDer::from_pem_slice(pem)
            .map_err(|_| KeyError::NotPem("`BEGIN PRIVATE KEY` (PKCS #8, without a password)"))?;
        let key = PrivateDecryptingKey::from_pkcs8(der.secret_pkcs8_der());
        let key = key.map_err(|_| KeyError::NotRsa)?;
        let key = match padding {
            Padding::Oaep => OaepPrivateDecryptingKey::new(key).map(Decrypting::Oaep),
            Padding::Pkcs1 => Pkcs1PrivateDecryptingKey::new(key).map(Decrypting::Pkcs1),
        };
        Ok(Self { key: key.map_err(|_| KeyError::NotRsa)?, skew })
    }

    /// Returns the user that `token` names at `now`, seconds since 1970, if `users` has that user
    /// with that password: lines of `user,digest`, the digest that of [`digest_of`].
    ///
    /// # Errors
    /// Why the client is turned away.
    pub fn user(&self, token: Option<&str>, users: &str, now: i64) -> Result<String, Denial> {
        let token = BASE64.decode(token.ok_or(Denial::NoToken)?.trim());
        let text = token.ok().and_then(|token| self.decrypt(&token));
        let text = text.ok_or(Denial::Undecryptable)?;
        let (user, password, at) = fields(&text).ok_or(Denial::Malformed)?;
        let age = now.saturating_sub(at);
        if age.unsigned_abs() > self.skew.as_secs() {
            return Err(Denial::Skewed(age));
        }
        let digest = digest_of(user, password);
        let mut known = users.lines().map(str::trim).filter(|line| !line.starts_with('#'));
        let is_known = known.any(|line| {
            line.split_once(',').is_some_and(|(name, of)| name == user && of.trim() == digest)
        });
        if is_known { Ok(user.to_owned()) } else { Err(Denial::Unknown(user.to_owned())) }
    }

    fn decrypt(&self, token: &[u8]) -> Option<String> {
        let mut room = match &self.key {
            Decrypting::Oaep(key) => vec![0; key.min_output_size()],
            Decrypting::Pkcs1(key) => vec![0; key.min_output_size()],
        };
        let plain = match &self.key {
            Decrypting::Oaep(key) => key.decrypt(&OAEP_SHA1_MGF1SHA1, token, &mut room, None),
            Decrypting::Pkcs1(key) => key.decrypt(token, &mut room),
        };
        String::from_utf8(plain.ok()?.to_vec()).ok()
    }
}

/// Returns the time of a clock as tokens have it, seconds since 1970.
#[must_use]
pub fn unix_seconds(clock: SystemTime) -> i64 {
    let since = clock.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// Returns user, password and time of a token's text. As in iperf3, none of them has a blank.
fn fields(text: &str) -> Option<(&str, &str, i64)> {
    let mut words = text.trim_end_matches('\0').split_ascii_whitespace();
    let mut after = |label| (words.next() == Some(label)).then(|| words.next()).flatten();
    let (user, password, at) = (after("user:")?, after("pwd:")?, after("ts:")?);
    Some((user, password, at.parse().ok()?))
}

/// Returns what a file of users has for a user with this password: SHA-256 of `{user}password`,
/// hexadecimal.
#[must_use]
pub fn digest_of(user: &str, password: &str) -> String {
    let digest = digest(&SHA256, format!("{{{user}}}{password}").as_bytes());
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// User and password of a client, and the key of the server for which they are encrypted.
#[derive(Clone)]
pub struct Credentials {
    user: String,
    password: String,
    key: PublicEncryptingKey,
    padding: Padding,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credentials({})", self.user)
    }
}

/// Why a client cannot send credentials.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// The key cannot be used.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// iperf3 reads both up to the first blank.
    #[error("user and password must not be empty or have blanks")]
    Blank,
    /// The key is too short for them.
    #[error("user and password are too long for this key")]
    TooLong,
}

impl Credentials {
    /// Reads the server's public key in PEM (SubjectPublicKeyInfo, as `openssl rsa -pubout`
    /// writes).
    ///
    /// # Errors
    /// If the text has no such key, or a user or password cannot be sent.
    pub fn read(
        pem: &[u8],
        padding: Padding,
        [user, password]: [&str; 2],
    ) -> Result<Self, CredentialsError> {
        let has_blank = |text: &str| text.is_empty() || text.contains(char::is_whitespace);
        if has_blank(user) || has_blank(password) {
            return Err(CredentialsError::Blank);
        }
        let der = SubjectPublicKeyInfoDer::from_pem_slice(pem)
            .map_err(|_| KeyError::NotPem("`BEGIN PUBLIC KEY`"))?;
        let key = PublicEncryptingKey::from_der(&der).map_err(|_| KeyError::NotRsa)?;
        let read = Self { user: user.into(), password: password.into(), key, padding };
        read.token(i64::MAX).map(|_| read)
    }

    /// Returns a token of `now`, seconds since 1970.
    ///
    /// # Errors
    /// If the key is too short.
    pub fn token(&self, now: i64) -> Result<String, CredentialsError> {
        let Self { user, password, .. } = self;
        let text = format!("user: {user}\npwd:  {password}\nts:   {now}");
        let mut room = vec![0; self.key.key_size_bytes()];
        let key = self.key.clone();
        let sealed = match self.padding {
            Padding::Oaep => OaepPublicEncryptingKey::new(key).and_then(|key| {
                let sealed = key.encrypt(&OAEP_SHA1_MGF1SHA1, text.as_bytes(), &mut room, None);
                sealed.map(|bytes| BASE64.encode(bytes))
            }),
            Padding::Pkcs1 => Pkcs1PublicEncryptingKey::new(key).and_then(|key| {
                let sealed = key.encrypt(text.as_bytes(), &mut room);
                sealed.map(|bytes| BASE64.encode(bytes))
            }),
        };
        sealed.map_err(|_| CredentialsError::TooLong)
    }
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der, PublicKeyX509Der};
    use aws_lc_rs::rsa::KeySize;

    use super::*;

    const NOW: i64 = 1_795_000_000;

    fn pem(label: &str, der: &[u8]) -> Vec<u8> {
        let text = BASE64.encode(der);
        format!("-----BEGIN {label}-----\n{text}\n-----END {label}-----\n").into_bytes()
    }

    /// A key in PEM: its private and its public part.
    fn key() -> [Vec<u8>; 2] {
        let key = PrivateDecryptingKey::generate(KeySize::Rsa2048).expect("a key");
        let private: Pkcs8V1Der<'_> = key.as_der().expect("PKCS #8");
        let public: PublicKeyX509Der<'_> = key.public_key().as_der().expect("its public part");
        [pem("PRIVATE KEY", private.as_ref()), pem("PUBLIC KEY", public.as_ref())]
    }

    fn users() -> String {
        format!("# ann,0\n#ann,{0}\nbob,{1}\n ann,{0} \n", digest_of("ann", "s3cret"), "00")
    }

    #[test]
    fn a_password_is_admitted_within_its_time_and_with_the_padding_of_the_server() {
        let [private, public] = key();
        let skew = Duration::from_secs(10);
        let token = |padding, password| {
            let read = Credentials::read(&public, padding, ["ann", password]).expect("short");
            read.token(NOW).expect("short")
        };
        for (padding, other) in [(Padding::Oaep, Padding::Pkcs1), (Padding::Pkcs1, Padding::Oaep)] {
            let server = ServerKey::read(&private, padding, skew).expect("a key");
            let judge = |token: &str, now| server.user(Some(token), &users(), now);
            let right = token(padding, "s3cret");
            for now in [NOW - 10, NOW, NOW + 10] {
                assert_eq!(judge(&right, now), Ok("ann".into()), "{padding:?}");
            }
            assert_eq!(judge(&right, NOW + 11), Err(Denial::Skewed(11)));
            assert_eq!(judge(&right, NOW - 11), Err(Denial::Skewed(-11)));
            let unknown = Err(Denial::Unknown("ann".into()));
            assert_eq!(judge(&token(padding, "wrong"), NOW), unknown);
            let only_a_comment = format!("#ann,{}", digest_of("ann", "s3cret"));
            assert_eq!(server.user(Some(&right), &only_a_comment, NOW), unknown);
            let foreign = [&token(other, "s3cret")[..], "", "no base64!", "AAAA"];
            for token in foreign {
                assert_eq!(judge(token, NOW), Err(Denial::Undecryptable), "{padding:?} {token}");
            }
            assert_eq!(server.user(None, &users(), NOW), Err(Denial::NoToken));
        }
    }

    #[test]
    fn the_digest_of_a_password_is_that_of_the_manual_of_iperf3() {
        // The example of iperf3(1): user mario, password rossi.
        let digest = "bf7a49a846d44b454a5d11e7acfaf13d138bbe0b7483aa3e050879700572709b";
        assert_eq!(digest_of("mario", "rossi"), digest);
    }

    #[test]
    fn only_the_text_of_a_token_is_read() {
        assert_eq!(fields("user: a\npwd:  b\nts:   7"), Some(("a", "b", 7)));
        assert_eq!(fields("user: a\npwd:  b\nts:   7\0"), Some(("a", "b", 7)));
        for text in ["", "user: a", "pwd: a\nuser: b\nts: 7", "user: a\npwd:  b\nts:   soon"] {
            assert_eq!(fields(text), None, "{text}");
        }
    }

    #[test]
    fn what_cannot_be_sent_or_read_is_refused_at_once() {
        let [private, public] = key();
        let read = |pem: &[u8], password: &str| {
            let read = Credentials::read(pem, Padding::Oaep, ["ann", password]);
            read.map(drop).map_err(|error| error.to_string())
        };
        assert_eq!(read(&public, "s3cret"), Ok(()));
        for (pem, password, why) in [
            (&public, "two words", "blanks"),
            (&public, "", "empty"),
            (&public, &"x".repeat(250), "too long"),
            (&private, "s3cret", "BEGIN PUBLIC KEY"),
            (&pem("PUBLIC KEY", b"rubbish"), "s3cret", "no RSA key"),
        ] {
            let error = read(pem, password).expect_err(why);
            assert!(error.contains(why), "{error}");
        }
        let error = ServerKey::read(&public, Padding::Oaep, Duration::ZERO).expect_err("public");
        assert!(error.to_string().contains("BEGIN PRIVATE KEY"), "{error}");
    }
}
