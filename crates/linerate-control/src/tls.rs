//! TLS 1.3 (RFC 8446) between ends that know each other's public keys: rustls on blocking sockets,
//! with aws-lc-rs.
//!
//! Both ends show a self-signed certificate. Only its public key matters, whose SHA-256 must be
//! known. The signature of the handshake, which is verified as usual, proves that the other end
//! owns the private key. No session is resumed, because a peer that was forgotten a moment ago must
//! not come back. Versions below 1.3 are refused.

use std::collections::HashSet;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use linerate_load::pinned::{self, PinnedKeys};
use rustls::Connection;
use rustls::client::{ClientConfig, ClientConnection, Resumption};
use rustls::server::{ServerConfig, ServerConnection};
use rustls_pki_types::ServerName;

use crate::keys::{Fingerprint, KeyStore};
use crate::strangers::Opening;
use crate::timed::{Deadline, Socket, Timed};
use crate::{ControlError, Result};

/// Name sent in the handshake. It is not checked; the key is.
const SERVER_NAME: &str = "linerate";
/// First byte of a TLS record that carries a handshake (RFC 8446 clause 5.1).
pub(crate) const TLS_HANDSHAKE: u8 = 22;
/// First byte of a ClientHello (clause 4).
const CLIENT_HELLO: u8 = 1;
/// Bytes in front of a record's content: type, version, length.
const RECORD_HEAD: usize = 5;
/// Longest content of a record (clause 5.1).
const RECORD_LIMIT: usize = 1 << 14;
/// Bytes of the exported key that both ends share (RFC 8446 clause 7.5): as long as the hash.
pub(crate) const EXPORTER_BYTES: usize = 32;
/// Bytes of ciphertext read at once: one record (RFC 8446 clause 5.2: 2^14 + 256) and its header.
const RECORD_BYTES: usize = (1 << 14) + 256 + 5;
/// Bytes of plaintext encrypted at once.
const WRITE_BYTES: usize = 32 << 10;

/// Keys that are accepted.
#[derive(Clone, Debug)]
pub(crate) enum Trust {
    /// These keys.
    Known(HashSet<Fingerprint>),
    /// Every key: for pairing, where the token decides afterwards.
    Anyone,
}

/// Returns random bytes of cryptographic quality.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    // The provider uses the operating system's generator, which on Linux cannot fail once it is
    // seeded.
    pinned::provider()
        .secure_random
        .fill(&mut bytes)
        .expect("the system's random generator is seeded");
    bytes
}

impl Trust {
    /// Returns whether this public key (SubjectPublicKeyInfo, DER) is accepted.
    fn accepts(&self, key: &[u8]) -> bool {
        match self {
            Self::Anyone => true,
            Self::Known(keys) => keys.contains(&Fingerprint::of(key)),
        }
    }

    fn verifier(self) -> Arc<PinnedKeys<impl Fn(&[u8]) -> bool + Send + Sync>> {
        Arc::new(PinnedKeys::new(move |key: &[u8]| self.accepts(key)))
    }
}

/// TLS connection after its handshake.
pub(crate) struct Secured {
    connection: Connection,
    socket: TcpStream,
    /// Key of the other end.
    pub(crate) peer: Fingerprint,
    /// Secret that only the two ends of this connection know.
    pub(crate) exporter: [u8; EXPORTER_BYTES],
}

/// Opens TLS as the client, until `deadline`.
pub(crate) fn connect(
    socket: TcpStream,
    keys: &KeyStore,
    trust: Trust,
    deadline: Instant,
) -> io::Result<Secured> {
    let mut config = ClientConfig::builder_with_provider(pinned::provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(trust.verifier())
        .with_client_auth_cert(vec![keys.certificate()], keys.private_key())
        .map_err(io::Error::other)?;
    // A resumed session would skip the check of the key.
    config.resumption = Resumption::disabled();
    let name = ServerName::try_from(SERVER_NAME).map_err(io::Error::other)?;
    let connection = ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
    Secured::shake_hands(connection.into(), socket, deadline)
}

/// Returns the settings of a server of web pages: the certificate of `keys`, TLS 1.3, and no key of
/// the client, because a browser has none.
///
/// # Errors
/// If the certificate does not fit the key.
pub fn web_server_config(keys: &KeyStore) -> Result<Arc<ServerConfig>> {
    let config = ServerConfig::builder_with_provider(pinned::provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map(|builder| builder.with_no_client_auth())
        .and_then(|builder| builder.with_single_cert(vec![keys.certificate()], keys.private_key()));
    config.map(Arc::new).map_err(|cause| ControlError::Keys {
        operation: "use",
        object: keys.directory().display().to_string(),
        cause: cause.to_string(),
    })
}

/// Opens TLS as the server, until `deadline`.
pub(crate) fn accept(
    socket: TcpStream,
    keys: &KeyStore,
    trust: Trust,
    deadline: Instant,
) -> io::Result<Secured> {
    let mut config = ServerConfig::builder_with_provider(pinned::provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(io::Error::other)?
        .with_client_cert_verifier(trust.verifier())
        .with_single_cert(vec![keys.certificate()], keys.private_key())
        .map_err(io::Error::other)?;
    // Without tickets no client can resume.
    config.send_tls13_tickets = 0;
    let connection = ServerConnection::new(Arc::new(config)).map_err(io::Error::other)?;
    Secured::shake_hands(connection.into(), socket, deadline)
}

impl Secured {
    fn shake_hands(
        mut connection: Connection,
        socket: TcpStream,
        deadline: Instant,
    ) -> io::Result<Self> {
        let mut stream =
            Timed { socket: Socket::Tcp(socket.try_clone()?), deadline: Deadline::at(deadline) };
        while connection.is_handshaking() {
            connection.complete_io(&mut stream)?;
        }
        let certificate = connection
            .peer_certificates()
            .and_then(|chain| chain.first())
            .ok_or_else(|| io::Error::other("the other end showed no certificate"))?;
        let peer = Fingerprint::of_certificate(certificate).map_err(io::Error::other)?;
        let exporter = connection
            // Binds a pairing proof to this very connection.
            .export_keying_material([0; EXPORTER_BYTES], b"EXPORTER-linerate", None)
            .map_err(io::Error::other)?;
        Ok(Self { connection, socket, peer, exporter })
    }

    /// Splits the connection into its two directions, for two threads. Reading obeys `deadline`.
    pub(crate) fn split(self, deadline: Deadline) -> io::Result<(TlsReader, TlsWriter)> {
        let connection = Arc::new(Mutex::new(self.connection));
        let reader = TlsReader {
            connection: Arc::clone(&connection),
            socket: Timed { socket: Socket::Tcp(self.socket.try_clone()?), deadline },
            ciphertext: vec![0; RECORD_BYTES],
            pending: 0..0,
        };
        Ok((reader, TlsWriter { connection, socket: self.socket }))
    }
}

fn lock(connection: &Mutex<Connection>) -> MutexGuard<'_, Connection> {
    connection.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reading half. It reads the socket without the lock, so that a silent peer does not block the
/// writing half.
pub(crate) struct TlsReader {
    connection: Arc<Mutex<Connection>>,
    socket: Timed,
    ciphertext: Vec<u8>,
    pending: std::ops::Range<usize>,
}

impl Read for TlsReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.pending.is_empty() {
                match lock(&self.connection).reader().read(buffer) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    result => return result,
                }
                let read = self.socket.read(&mut self.ciphertext)?;
                if read == 0 {
                    return Ok(0);
                }
                self.pending = 0..read;
            }
            let mut connection = lock(&self.connection);
            let taken = connection.read_tls(&mut &self.ciphertext[self.pending.clone()])?;
            self.pending.start += taken;
            connection
                .process_new_packets()
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            match connection.reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return result,
            }
        }
    }
}

/// Writing half: the only one that writes to the socket.
pub(crate) struct TlsWriter {
    connection: Arc<Mutex<Connection>>,
    socket: TcpStream,
}

impl Write for TlsWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut ciphertext = Vec::new();
        let taken = {
            let mut connection = lock(&self.connection);
            // Limited, so that the lock is not kept while megabytes are encrypted.
            let taken = connection.writer().write(&bytes[..bytes.len().min(WRITE_BYTES)])?;
            while connection.wants_write() {
                connection.write_tls(&mut ciphertext)?;
            }
            taken
        };
        self.socket.write_all(&ciphertext)?;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for TlsWriter {
    fn drop(&mut self) {
        // All data has been written; now the other end sees the end of the stream.
        let _ = self.socket.shutdown(Shutdown::Write);
    }
}

/// Judges the first bytes of a connection to a TLS server, which needs the whole record with the
/// ClientHello.
pub(crate) fn opening(bytes: &[u8]) -> Opening {
    let foreign = || Opening::Foreign("it does not use TLS".into());
    let Some((head, content)) = bytes.split_first_chunk::<RECORD_HEAD>() else {
        return if bytes.first() == Some(&TLS_HANDSHAKE) {
            Opening::Needs(RECORD_HEAD)
        } else {
            foreign()
        };
    };
    let [kind, major, _, high, low] = *head;
    let length = usize::from(u16::from_be_bytes([high, low]));
    let is_greeting = content.first().is_none_or(|first| *first == CLIENT_HELLO);
    match (kind, major) {
        (TLS_HANDSHAKE, 3) if (1..=RECORD_LIMIT).contains(&length) && is_greeting => {
            if content.len() < length {
                Opening::Needs(RECORD_HEAD + length)
            } else {
                Opening::Whole
            }
        }
        _ => foreign(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clients_greeting_is_awaited_whole_and_nothing_else_is() {
        // A record of five bytes that begins as a ClientHello does.
        let record = [22, 3, 1, 0, 5, 1, 0, 0, 1, 9];
        for length in 1..RECORD_HEAD {
            assert_eq!(opening(&record[..length]), Opening::Needs(RECORD_HEAD), "{length}");
        }
        for length in RECORD_HEAD..record.len() {
            assert_eq!(opening(&record[..length]), Opening::Needs(record.len()), "{length}");
        }
        assert_eq!(opening(&record), Opening::Whole);
        assert_eq!(opening(&[&record[..], &[0; 9]].concat()), Opening::Whole);
        let foreign = Opening::Foreign("it does not use TLS".into());
        let longer_than_allowed = [22, 3, 1, 0x40, 1, 1];
        let server_hello = [22, 3, 1, 0, 5, 2];
        for bytes in [
            &b"GET / HTTP/1.1"[..],
            b"G",
            &[22, 2, 0, 0, 5, 1],
            &[22, 3, 1, 0, 0],
            &longer_than_allowed,
            &server_hello,
        ] {
            assert_eq!(opening(bytes), foreign, "{bytes:?}");
        }
    }
}
