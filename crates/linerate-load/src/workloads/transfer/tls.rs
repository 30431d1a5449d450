//! TLS (RFC 8446, RFC 5246) over a transfer's connection: rustls in user space. The worker copies
//! and encrypts every byte, so sendfile, splice and zero-copy are not used. The kernel's own TLS is
//! not used either.
//!
//! Between our own ends, both derive the server's key from the session's secret, and the client
//! accepts only that key (a pinned key). A foreign server's certificate is verified against roots,
//! or not at all, and the report says which. Every connection makes a full handshake, so that
//! connections cost the same, except where a protocol ties one to another ([`Security::resuming`]).
//! rustls allocates a record at a time: the one exception to the rule that a step allocates
//! nothing.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;

use hmac::{Hmac, KeyInit as _, Mac};
use linerate_sys::SysError;
use linerate_sys::readiness::Interest;
use rcgen::{CertificateParams, KeyPair, PublicKeyData};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{
    ClientConfig, ClientConnection, Resumption, WebPkiServerVerifier, verify_server_name,
};
use rustls::server::ParsedCertificate;
use rustls::server::{NoServerSessionStorage, ServerConfig, ServerConnection};
use rustls::{
    CertificateError, Connection, DigitallySignedStruct, HandshakeKind, RootCertStore,
    SignatureScheme,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use sha2::Sha256;
use socket2::Socket;

use super::failure::{Failure, TlsFault};
use crate::pinned::{PinnedKeys, provider};
use crate::workloads::rendezvous::would_wait;
use crate::{LoadError, Result, Secret};

/// Plaintext that can be peeked at: a head of HTTP.
const AHEAD_BYTES: usize = 8192;
/// Plaintext per encrypting call, four records.
const CHUNK_BYTES: usize = 64 << 10;
/// Name of our own servers, without meaning: the key identifies them.
const OWN_NAME: &str = "linerate";
/// Domain separation of the key derivation from the secret.
const PURPOSE: &[u8] = b"linerate: key of a file server over TLS";
/// PKCS #8 of an Ed25519 key up to its 32 bytes (RFC 8410 clause 7).
const ED25519: [u8; 16] = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];

/// TLS configuration of an end.
#[derive(Clone, Debug)]
pub(crate) struct Security {
    side: Side,
    /// FileDirection of authenticating the server, for the report.
    known_by: &'static str,
}

#[derive(Clone, Debug)]
enum Side {
    Client(Arc<ClientConfig>, ServerName<'static>),
    Server(Arc<ServerConfig>),
}

impl Security {
    /// Configures our server of the session with this secret.
    pub(crate) fn own_server(secret: Secret) -> Result<Self> {
        let key = own_key(secret)?;
        let certificate = CertificateParams::new([OWN_NAME.to_owned()])
            .and_then(|params| params.self_signed(&key));
        let certificate = certificate.map_err(|error| refused("make a certificate", &error))?;
        let private = PrivatePkcs8KeyDer::from(key.serialize_der());
        let config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .and_then(|config| {
                config
                    .with_no_client_auth()
                    .with_single_cert(vec![certificate.der().clone()], private.into())
            });
        let mut config = config.map_err(|error| refused("serve TLS", &error))?;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Self {
            side: Side::Server(Arc::new(config)),
            known_by: "a self-signed certificate of this run",
        })
    }

    /// Configures a client of our server of the session with this secret.
    pub(crate) fn own_client(secret: Secret) -> Result<Self> {
        let key = own_key(secret)?.subject_public_key_info();
        let pinned = PinnedKeys::new(move |shown| shown == key.as_slice());
        let name = ServerName::try_from(OWN_NAME).expect("a name").to_owned();
        Self::client(Arc::new(pinned), name, "its key, which the run made")
    }

    /// Configures a client of the server `host`, whose certificate leads to one in the file
    /// `roots`; without roots it accepts any certificate.
    pub(crate) fn foreign_client(host: &str, roots: Option<&Path>) -> Result<Self> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|error| refused("ask for the server's name", &error))?;
        let Some(path) = roots else {
            return Self::client(
                Arc::new(PinnedKeys::new(|_| true)),
                name,
                "nothing: not verified",
            );
        };
        let object = path.display().to_string();
        let failed = |cause| SysError::new("read certificates from", object.clone(), cause);
        let unreadable = |cause: String| LoadError::from(failed(io::Error::other(cause)));
        let (mut store, mut named) = (RootCertStore::empty(), Vec::new());
        let file =
            CertificateDer::pem_file_iter(path).map_err(|error| unreadable(error.to_string()))?;
        for certificate in file {
            let certificate = certificate.map_err(|error| unreadable(error.to_string()))?;
            named.push(certificate.clone());
            // Lists of roots contain some that rustls cannot parse. If one of those is needed, the
            // handshake fails with a message.
            let _ = store.add(certificate);
        }
        let verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::new(store), provider()).build();
        let verifier = verifier
            .map_err(|error| unreadable(format!("{error} (has it any certificate in PEM?)")))?;
        Self::client(Arc::new(OwnRoot { roots: verifier, named }), name, "roots")
    }

    fn client(
        verifier: Arc<dyn ServerCertVerifier>,
        name: ServerName<'static>,
        known_by: &'static str,
    ) -> Result<Self> {
        let config = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|error| refused("speak TLS", &error))?;
        let mut config =
            config.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
        config.resumption = Resumption::disabled();
        Ok(Self { side: Side::Client(Arc::new(config), name), known_by })
    }

    /// Makes later connections of a client resume the session of its first. A server may require it
    /// as the proof that both are the same client's (RFC 4217 clause 10.2).
    pub(crate) fn resuming(&self) -> Self {
        let Side::Client(config, name) = &self.side else { return self.clone() };
        let mut config = ClientConfig::clone(config);
        config.resumption = Resumption::in_memory_sessions(1);
        Self { side: Side::Client(Arc::new(config), name.clone()), known_by: self.known_by }
    }

    /// Adds the modes of connections with this version and cipher to reports.
    pub(crate) fn modes(&self, cipher: String, modes: &mut BTreeMap<String, String>) {
        modes.insert("tls".into(), cipher);
        modes.insert("server_known_by".into(), self.known_by.into());
    }

    /// Creates TLS for one connection.
    pub(crate) fn open(&self) -> Result<Secured, Failure> {
        let connection = match &self.side {
            Side::Client(config, name) => {
                ClientConnection::new(Arc::clone(config), name.clone()).map(Connection::Client)
            }
            Side::Server(config) => {
                ServerConnection::new(Arc::clone(config)).map(Connection::Server)
            }
        };
        let connection = connection.map_err(|_| Failure::Tls(TlsFault::Protocol))?;
        Ok(Secured { connection, ahead: Vec::with_capacity(AHEAD_BYTES), taken: 0 })
    }
}

/// Verifier of certificates that lead to a root, or are listed among the roots themselves. A
/// certificate made with `openssl req -x509` permits itself to sign others (RFC 5280 clause
/// 4.2.1.9). webpki refuses it as a server's for that reason alone, although it is listed.
#[derive(Debug)]
struct OwnRoot {
    roots: Arc<WebPkiServerVerifier>,
    named: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for OwnRoot {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        status: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match self.roots.verify_server_cert(shown, between, name, status, now) {
            // Its validity period is checked before.
            Err(error) if is_authority(&error) && self.named.iter().any(|named| named == shown) => {
                verify_server_name(&ParsedCertificate::try_from(shown)?, name)?;
                Ok(ServerCertVerified::assertion())
            }
            verdict => verdict,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.roots.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.roots.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.roots.supported_verify_schemes()
    }
}

/// Returns true if a certificate was refused only because it may sign others.
fn is_authority(error: &rustls::Error) -> bool {
    let rustls::Error::InvalidCertificate(CertificateError::Other(cause)) = error else {
        return false;
    };
    cause.0.downcast_ref::<webpki::Error>() == Some(&webpki::Error::CaUsedAsEndEntity)
}

fn refused(what: &str, why: &dyn std::fmt::Display) -> LoadError {
    LoadError::Unsupported { what: what.to_owned(), why: why.to_string() }
}

/// Returns the key that both ends of a session derive without exchanging it.
fn own_key(secret: Secret) -> Result<KeyPair> {
    let mut mac = Hmac::<Sha256>::new_from_slice(&secret.0).expect("any length will do");
    mac.update(PURPOSE);
    let der: Vec<u8> = ED25519.into_iter().chain(mac.finalize().into_bytes()).collect();
    KeyPair::try_from(der)
        .map_err(|error| refused("derive a key from the session's secret", &error))
}

/// TransferStage of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shaken {
    /// The handshake is complete.
    Done,
    /// It continues when the socket is ready in this way.
    Waits(Interest),
}

/// TLS of one connection.
#[derive(Debug)]
pub(crate) struct Secured {
    connection: Connection,
    /// Plaintext that was peeked at, and its bytes taken since.
    ahead: Vec<u8>,
    taken: usize,
}

impl Secured {
    pub(super) fn shake(&mut self, socket: &Socket) -> Result<Shaken, Failure> {
        let io = |error: io::Error| Failure::io(&error);
        while self.connection.is_handshaking() {
            let flushed = self.flush(socket).map_err(io)?;
            if !self.connection.is_handshaking() {
                break;
            }
            match self.read_record(socket) {
                Ok(_) => {}
                Err(error) if would_wait(&error) => {
                    return Ok(Shaken::Waits(if flushed {
                        Interest::Readable
                    } else {
                        Interest::ReadableOrWritable
                    }));
                }
                Err(error) => {
                    // Send the alert, as far as the other end still listens.
                    let _ = self.flush(socket);
                    return Err(io(error));
                }
            }
        }
        // The client's last message of the handshake.
        Ok(if self.flush(socket).map_err(io)? {
            Shaken::Done
        } else {
            Shaken::Waits(Interest::ReadableOrWritable)
        })
    }

    pub(super) fn cipher(&self) -> String {
        let version = self
            .connection
            .protocol_version()
            .map_or("TLS", |version| version.as_str().unwrap_or("TLS"));
        let cipher = self.connection.negotiated_cipher_suite().map_or(String::new(), |suite| {
            let name = format!("{:?}", suite.suite());
            format!(", {}", name.trim_start_matches("TLS13_").trim_start_matches("TLS_"))
        });
        format!("{}{cipher}, in user space (rustls)", version.replace("TLSv1_", "TLS 1."))
    }

    /// Returns true if the completed handshake resumed an earlier session.
    pub(super) fn is_resumed(&self) -> bool {
        self.connection.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    pub(super) fn send(&mut self, socket: &Socket, bytes: &[u8]) -> io::Result<usize> {
        if !self.flush(socket)? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let n = self.connection.writer().write(&bytes[..bytes.len().min(CHUNK_BYTES)])?;
        self.flush(socket)?;
        Ok(n)
    }

    pub(super) fn flush(&mut self, mut socket: &Socket) -> io::Result<bool> {
        while self.connection.wants_write() {
            match self.connection.write_tls(&mut socket) {
                Ok(_) => {}
                Err(error) if would_wait(&error) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Reads a part of the next record; returns true if any bytes arrived.
    fn read_record(&mut self, mut socket: &Socket) -> io::Result<bool> {
        let n = self.connection.read_tls(&mut socket)?;
        self.connection
            .process_new_packets()
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        if n == 0 && self.connection.is_handshaking() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(n > 0)
    }

    pub(super) fn receive(&mut self, socket: &Socket, bytes: &mut [u8]) -> io::Result<usize> {
        let ahead = &self.ahead[self.taken..];
        if !ahead.is_empty() {
            let n = ahead.len().min(bytes.len());
            bytes[..n].copy_from_slice(&ahead[..n]);
            self.taken += n;
            return Ok(n);
        }
        self.decrypt(socket, bytes)
    }

    fn decrypt(&mut self, socket: &Socket, bytes: &mut [u8]) -> io::Result<usize> {
        // The other end may wait for bytes that could not be sent before.
        self.flush(socket)?;
        loop {
            match self.connection.reader().read(bytes) {
                Err(error) if would_wait(&error) => self.read_record(socket)?,
                answer => return answer,
            };
        }
    }

    pub(super) fn peek(&mut self, socket: &Socket, bytes: &mut [u8]) -> io::Result<usize> {
        self.ahead.drain(..std::mem::take(&mut self.taken));
        let filled = self.ahead.len();
        self.ahead.resize(AHEAD_BYTES, 0);
        let mut ahead = std::mem::take(&mut self.ahead);
        let more =
            if filled < AHEAD_BYTES { self.decrypt(socket, &mut ahead[filled..]) } else { Ok(0) };
        ahead.truncate(filled + *more.as_ref().unwrap_or(&0));
        self.ahead = ahead;
        // Received bytes can be peeked at, whatever follows them.
        if self.ahead.is_empty() {
            more?;
        }
        let n = self.ahead.len().min(bytes.len());
        bytes[..n].copy_from_slice(&self.ahead[..n]);
        Ok(n)
    }

    /// Sends the close alert, as far as the socket takes it.
    pub(super) fn take_leave(&mut self, socket: &Socket) {
        self.connection.send_close_notify();
        let _ = self.flush(socket);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rcgen::{BasicConstraints, IsCa};

    use super::*;

    /// A certificate as `openssl req -x509` makes it: signed by itself, and allowed to sign others.
    fn authority(host: &str) -> CertificateDer<'static> {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new([host.to_owned()]).expect("a name");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.self_signed(&key).expect("a certificate").der().clone()
    }

    #[test]
    fn a_certificate_that_is_its_own_root_is_accepted_and_no_other() {
        let (own, other) = (authority("files.test"), authority("files.test"));
        let mut store = RootCertStore::empty();
        store.add(own.clone()).expect("a root");
        let roots = WebPkiServerVerifier::builder_with_provider(Arc::new(store), provider())
            .build()
            .expect("roots");
        let verifier = OwnRoot { roots, named: vec![own.clone()] };
        let verdict = |shown: &CertificateDer<'_>, host: &'static str, now: UnixTime| {
            let name = ServerName::try_from(host).expect("a name");
            verifier.verify_server_cert(shown, &[], &name, &[], now).map(drop)
        };
        let now = UnixTime::now();
        assert_eq!(verdict(&own, "files.test", now), Ok(()));
        assert!(
            verdict(&other, "files.test", now).is_err(),
            "another certificate of the same name"
        );
        assert!(verdict(&own, "elsewhere.test", now).is_err(), "another host");
        let expired = UnixTime::since_unix_epoch(Duration::from_secs(1 << 37));
        assert!(verdict(&own, "files.test", expired).is_err(), "after its time");
    }
}
