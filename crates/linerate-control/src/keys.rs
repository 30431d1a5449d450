//! Who we are and whom we know: this host's key pair, and the keys of hosts it has been paired with.
//!
//! ```text
//! DIR (0700) / key.pem (0600)          our private key, ECDSA P-256, PKCS #8
//!              certificate.pem         self-signed around it; only its public key matters
//!              peers.json (0600)       [{ "name", "key": SHA-256 of the SubjectPublicKeyInfo, "added": Unix seconds }]
//! ```
//!
//! A host is its public key: names and addresses prove nothing, certificates never expire, and nobody is trusted for
//! having been signed by somebody else (RFC 7250 argues the same for raw public keys).

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

use linerate_load::pinned;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::ControlError;

/// Permission bits of others than the owner.
const OTHERS: u32 = 0o077;
/// Bytes of a SHA-256 digest.
const DIGEST_BYTES: usize = 32;

/// SHA-256 of a public key (its SubjectPublicKeyInfo, DER): what a host is known by.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(pub [u8; DIGEST_BYTES]);

impl Fingerprint {
    /// The fingerprint of a SubjectPublicKeyInfo in DER.
    #[must_use]
    pub fn of(spki: &[u8]) -> Self {
        Self(Sha256::digest(spki).into())
    }

    /// That of a certificate's public key.
    pub(crate) fn of_certificate(certificate: &CertificateDer<'_>) -> Result<Self, rustls::Error> {
        Ok(Self::of(&pinned::key_of(certificate)?))
    }
}

impl std::fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl std::fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

impl FromStr for Fingerprint {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a SHA-256 in 64 hexadecimal digits");
        if text.len() != 2 * DIGEST_BYTES || !text.is_ascii() {
            return Err(wrong());
        }
        let mut digest = [0; DIGEST_BYTES];
        for (byte, digits) in digest.iter_mut().zip(text.as_bytes().chunks(2)) {
            let digits = std::str::from_utf8(digits).map_err(|_| wrong())?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| wrong())?;
        }
        Ok(Self(digest))
    }
}

impl Serialize for Fingerprint {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Fingerprint {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// A host we have been paired with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownPeer {
    /// What it called itself.
    pub name: String,
    /// Its key.
    pub key: Fingerprint,
    /// When it was paired, seconds since the Unix epoch.
    pub added: u64,
}

/// This host's key pair and the keys it knows.
#[derive(Debug)]
pub struct KeyStore {
    directory: PathBuf,
    certificate: CertificateDer<'static>,
    private_key: PrivateKeyDer<'static>,
    fingerprint: Fingerprint,
}

impl KeyStore {
    /// Opens the store in `directory`; makes the directory and a new key pair if there is none.
    ///
    /// # Errors
    /// If it cannot be read or written, or if others than its owner may read the private key.
    pub fn open(directory: &Path) -> Result<Self, ControlError> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .map_err(|cause| keys("create key directory", directory, &cause))?;
        let (key, certificate) = (directory.join("key.pem"), directory.join("certificate.pem"));
        if !key.exists() {
            let fresh = rcgen::generate_simple_self_signed(["linerate".to_owned()])
                .map_err(|cause| keys("generate key pair for", directory, &cause))?;
            write_private(&certificate, fresh.cert.pem().as_bytes())?;
            write_private(&key, fresh.signing_key.serialize_pem().as_bytes())?;
        }
        check_private(&key)?;
        let certificate = CertificateDer::from_pem_slice(&read("read certificate", &certificate)?)
            .map_err(|cause| keys("read certificate", &certificate, &cause))?;
        let private_key = PrivateKeyDer::from_pem_slice(&read("read private key", &key)?)
            .map_err(|cause| keys("read private key", &key, &cause))?;
        let fingerprint = Fingerprint::of_certificate(&certificate)
            .map_err(|cause| keys("read public key from certificate in", directory, &cause))?;
        Ok(Self { directory: directory.to_owned(), certificate, private_key, fingerprint })
    }

    /// What this host is known by.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Where it is kept.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The hosts we have been paired with, read afresh: a pairing made a moment ago counts.
    ///
    /// # Errors
    /// If the list cannot be read, or is none.
    pub fn peers(&self) -> Result<Vec<KnownPeer>, ControlError> {
        let path = self.peers_path();
        match fs::read(&path) {
            Ok(text) => serde_json::from_slice(&text).map_err(|cause| keys("read known peers", &path, &cause)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(cause) => Err(keys("read known peers", &path, &cause)),
        }
    }

    /// Remembers that `name` has `key`; a name or key known before is replaced.
    ///
    /// # Errors
    /// If the list cannot be written.
    pub fn trust(&self, name: &str, key: Fingerprint) -> Result<KnownPeer, ControlError> {
        let added = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let peer = KnownPeer { name: name.to_owned(), key, added };
        let mut peers = self.peers()?;
        peers.retain(|known| known.name != name && known.key != key);
        peers.push(peer.clone());
        self.write_peers(&peers)?;
        Ok(peer)
    }

    /// Forgets the peer called `name`; `false` if there is none.
    ///
    /// # Errors
    /// If the list cannot be written.
    pub fn forget(&self, name: &str) -> Result<bool, ControlError> {
        let mut peers = self.peers()?;
        let before = peers.len();
        peers.retain(|known| known.name != name);
        let found = peers.len() < before;
        if found {
            self.write_peers(&peers)?;
        }
        Ok(found)
    }

    pub(crate) fn certificate(&self) -> CertificateDer<'static> {
        self.certificate.clone()
    }

    pub(crate) fn private_key(&self) -> PrivateKeyDer<'static> {
        self.private_key.clone_key()
    }

    fn peers_path(&self) -> PathBuf {
        self.directory.join("peers.json")
    }

    fn write_peers(&self, peers: &[KnownPeer]) -> Result<(), ControlError> {
        let text =
            serde_json::to_vec_pretty(peers).map_err(|cause| keys("write known peers", &self.directory, &cause))?;
        write_private(&self.peers_path(), &text)
    }
}

fn keys(operation: &'static str, path: &Path, cause: &dyn std::fmt::Display) -> ControlError {
    ControlError::Keys { operation, object: path.display().to_string(), cause: cause.to_string() }
}

fn read(operation: &'static str, path: &Path) -> Result<Vec<u8>, ControlError> {
    fs::read(path).map_err(|cause| keys(operation, path, &cause))
}

/// Writes a file only its owner may read, whole or not at all.
fn write_private(path: &Path, content: &[u8]) -> Result<(), ControlError> {
    let fresh = path.with_extension(format!("new-{}", std::process::id()));
    let written = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&fresh)
        .and_then(|mut file| file.write_all(content).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&fresh, path));
    written.map_err(|cause| keys("write", path, &cause))
}

fn check_private(path: &Path) -> Result<(), ControlError> {
    let metadata = fs::metadata(path).map_err(|cause| keys("read private key", path, &cause))?;
    let mode = metadata.permissions().mode();
    if mode & OTHERS == 0 {
        return Ok(());
    }
    let cause = format!("others may read it (mode {:o}, owner {}; run `chmod 600`)", mode & 0o777, metadata.uid());
    Err(keys("use private key", path, &cause))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn a_store_opened_twice_is_the_same_host() {
        let directory = tempfile::tempdir().unwrap();
        let first = KeyStore::open(&directory.path().join("keys")).unwrap();
        let second = KeyStore::open(&directory.path().join("keys")).unwrap();
        assert_eq!(first.fingerprint(), second.fingerprint());
        let mode = |name| fs::metadata(first.directory().join(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode("key.pem"), 0o600);
        assert_eq!(mode(""), 0o700);
    }

    #[test]
    fn a_private_key_others_may_read_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        KeyStore::open(directory.path()).unwrap();
        let key = directory.path().join("key.pem");
        fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
        let error = KeyStore::open(directory.path()).unwrap_err().to_string();
        assert!(error.contains("chmod 600"), "{error}");
    }

    #[test]
    fn a_peer_paired_again_replaces_itself_and_can_be_forgotten() {
        let directory = tempfile::tempdir().unwrap();
        let store = KeyStore::open(directory.path()).unwrap();
        store.trust("hostb", Fingerprint([1; 32])).unwrap();
        store.trust("hostb", Fingerprint([2; 32])).unwrap();
        let keys: Vec<_> = store.peers().unwrap().iter().map(|peer| peer.key).collect();
        assert_eq!(keys, [Fingerprint([2; 32])]);
        assert!(store.forget("hostb").unwrap());
        assert!(!store.forget("hostb").unwrap());
        assert!(store.peers().unwrap().is_empty());
    }

    #[test]
    fn a_fingerprint_reads_as_it_prints() {
        let print = Fingerprint::of(b"key");
        assert_eq!(print.to_string().parse(), Ok(print));
        assert!("zz".parse::<Fingerprint>().is_err());
        assert!("é".repeat(32).parse::<Fingerprint>().is_err());
    }
}
