//! Who we are and whom we know: this host's key pair, and the keys of hosts it has been paired
//! with.
//!
//! ```text
//! DIR (0700) / key.pem (0600)          our private key, ECDSA P-256, PKCS #8
//!              certificate.pem         self-signed around it; only its public key matters
//!              peers.json (0600)       [{ "name", "key": SHA-256 of the SubjectPublicKeyInfo, "added": Unix seconds,
//!                                         "addresses": where it was paired, "may": ["conduct", "be_measured"] }]
//!              lock                    held while any of them is written
//! ```
//!
//! A host is its public key: names prove nothing, certificates never expire, and nobody is trusted
//! for having been signed by somebody else (RFC 7250 argues the same for raw public keys). A host
//! that is measured is bound to the addresses it was paired at, as ssh does: another host's key is
//! refused there, also if that host is paired too.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use linerate_load::pinned;
use rustix::fs::FlockOperation;
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::ControlError;
use crate::broker::Broker;

/// Permission bits of others than the owner.
const OTHERS: u32 = 0o077;
/// Those of them that allow to write.
const WRITABLE_BY_OTHERS: u32 = 0o022;
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

/// What a paired host may do. Pairing grants one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Right {
    /// Conduct measurements on this host.
    Conduct,
    /// Be measured from this host.
    BeMeasured,
}

impl Right {
    /// As a person reads it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Conduct => "may conduct",
            Self::BeMeasured => "may be measured",
        }
    }
}

/// Both, which pairing granted before rights were apart.
fn both_rights() -> Vec<Right> {
    vec![Right::Conduct, Right::BeMeasured]
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
    /// Names and addresses it is bound to; absent of a host paired before they were kept: the first
    /// one it is reached at is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub addresses: Option<Vec<String>>,
    /// What it may do.
    #[serde(default = "both_rights")]
    pub may: Vec<Right>,
}

impl KnownPeer {
    /// Whether it may do this.
    #[must_use]
    pub fn may(&self, right: Right) -> bool {
        self.may.contains(&right)
    }

    /// Whether a person means this host: its name, an address it is bound to, or its key.
    fn is_called(&self, which: &str) -> bool {
        self.name == which
            || self.key.to_string() == which
            || self.is_at(&which.to_ascii_lowercase())
    }

    fn is_at(&self, address: &str) -> bool {
        self.addresses.iter().flatten().any(|known| known == address)
    }
}

/// Names and addresses by which a host is reached: as a person wrote it, and what that led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReachedAt {
    /// The name or address as written, without a port.
    pub written: String,
    /// The address of the connection.
    pub ip: IpAddr,
}

impl ReachedAt {
    /// `host`, `host:port` or `[address]:port` as written, and the address that it led to.
    #[must_use]
    pub fn new(written: &str, ip: IpAddr) -> Self {
        let host = match written.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, _)) => host,
            None => match written.split_once(':') {
                // A second colon makes it an IPv6 address.
                Some((host, port)) if !port.contains(':') => host,
                _ => written,
            },
        };
        Self { written: host.to_ascii_lowercase(), ip: ip.to_canonical() }
    }

    fn addresses(&self) -> Vec<String> {
        let ip = self.ip.to_string();
        if self.written == ip { vec![ip] } else { vec![self.written.clone(), ip] }
    }
}

/// What a key shown at an address means.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Recognised {
    /// It is the host that was paired there.
    Yes,
    /// It is a host whose addresses were not kept: it is bound to this one now.
    Unbound,
    /// It is not; why, and what to do.
    No(String),
}

/// Whether `key` is the one expected `at` an address, of those `peers` that may be measured.
fn recognise(peers: &[KnownPeer], at: &ReachedAt, key: Fingerprint) -> Recognised {
    let measured = || peers.iter().filter(|peer| peer.may(Right::BeMeasured));
    let Some(shown) = measured().find(|peer| peer.key == key) else {
        return Recognised::No(
            "its key is not among the hosts that may be measured from here".into(),
        );
    };
    let bound = |address: &str| measured().filter(|peer| peer.is_at(address)).collect::<Vec<_>>();
    // As with ssh, what a person wrote counts before what it led to.
    let mut expected = bound(&at.written);
    if expected.is_empty() {
        expected = bound(&at.ip.to_string());
    }
    if expected.iter().any(|peer| peer.key == key) {
        return Recognised::Yes;
    }
    if let Some(expected) = expected.first() {
        return Recognised::No(format!(
            "{} answers with the key of {} ({}), but {} ({}) was paired there; if that is right, \
                pair again",
            at.written, shown.name, shown.key, expected.name, expected.key
        ));
    }
    match &shown.addresses {
        None => Recognised::Unbound,
        Some(addresses) => Recognised::No(format!(
            "{} answers with the key of {}, which was paired at {}; if that is right: linerate \
                pair bind {} {}",
            at.written,
            shown.name,
            addresses.join(", "),
            shown.key,
            at.written
        )),
    }
}

/// This host's key pair and the keys it knows.
#[derive(Debug)]
pub struct KeyStore {
    directory: PathBuf,
    certificate: CertificateDer<'static>,
    private_key: PrivateKeyDer<'static>,
    fingerprint: Fingerprint,
    /// Who reads the list of peers for a process that may not.
    broker: Option<Arc<Broker>>,
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
        check_own(directory)?;
        let (key, certificate) = (directory.join("key.pem"), directory.join("certificate.pem"));
        if !key.exists() {
            let _lock = Lock::take(directory)?;
            // Another process may have made it while this one waited for the lock.
            if !key.exists() {
                let fresh = rcgen::generate_simple_self_signed(["linerate".to_owned()])
                    .map_err(|cause| keys("generate key pair for", directory, &cause))?;
                write_private(&certificate, fresh.cert.pem().as_bytes())?;
                // Last: where there is a private key, there is its certificate.
                write_private(&key, fresh.signing_key.serialize_pem().as_bytes())?;
            }
        }
        check_private(&key)?;
        let certificate = CertificateDer::from_pem_slice(&read("read certificate", &certificate)?)
            .map_err(|cause| keys("read certificate", &certificate, &cause))?;
        let private_key = PrivateKeyDer::from_pem_slice(&read("read private key", &key)?)
            .map_err(|cause| keys("read private key", &key, &cause))?;
        let fingerprint = Fingerprint::of_certificate(&certificate)
            .map_err(|cause| keys("read public key from certificate in", directory, &cause))?;
        CertifiedKey::from_der(
            vec![certificate.clone()],
            private_key.clone_key(),
            &pinned::provider(),
        )
        .map_err(|cause| {
            let remedy =
                "key.pem and certificate.pem do not belong together: remove both, and pair again";
            keys("use the keys in", directory, &format!("{cause} ({remedy})"))
        })?;
        Ok(Self {
            directory: directory.to_owned(),
            certificate,
            private_key,
            fingerprint,
            broker: None,
        })
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
        match &self.broker {
            Some(broker) => broker
                .peers()
                .map_err(|cause| keys("read known peers", &peers_path(&self.directory), &cause)),
            None => peers_in(&self.directory),
        }
    }

    /// The same, with the list of peers read by `broker`: for a process that gives up the right to.
    #[must_use]
    pub fn read_by(self, broker: Arc<Broker>) -> Self {
        Self { broker: Some(broker), ..self }
    }

    /// Remembers that the host called `name`, which was met `at` this address, has `key` and the
    /// `right`. A key known before keeps what else it may do, and where else it is. A host that was
    /// measured at this address before has been replaced by this one.
    ///
    /// # Errors
    /// If the list cannot be read or written.
    pub fn trust(
        &self,
        name: &str,
        key: Fingerprint,
        right: Right,
        at: &ReachedAt,
    ) -> Result<KnownPeer, ControlError> {
        let added = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        self.change(|peers| {
            let addresses = at.addresses();
            if right == Right::BeMeasured {
                unbind(peers, key, &addresses);
            }
            let known =
                peers.iter().position(|peer| peer.key == key).map(|place| peers.remove(place));
            let fresh =
                KnownPeer { name: String::new(), key, added, addresses: None, may: Vec::new() };
            let mut peer = KnownPeer { name: name.to_owned(), added, ..known.unwrap_or(fresh) };
            if right == Right::BeMeasured {
                bind(&mut peer, addresses);
            }
            peer.may.push(right);
            peer.may.sort_unstable();
            peer.may.dedup();
            peers.push(peer.clone());
            peer
        })
    }

    /// Accepts the `key` that the agent reached `at` an address has proved to own, if it is that of
    /// the host that was paired there.
    ///
    /// # Errors
    /// Why it is not, as a cause; or if the list cannot be read or written.
    pub(crate) fn recognise(
        &self,
        at: &ReachedAt,
        key: Fingerprint,
    ) -> Result<Result<(), String>, ControlError> {
        match recognise(&self.peers()?, at, key) {
            Recognised::Yes => Ok(Ok(())),
            Recognised::No(why) => Ok(Err(why)),
            Recognised::Unbound => self.change(|peers| bind_first(peers, at, key)),
        }
    }

    /// The host that was paired `at` an address, and so must prove its key there.
    ///
    /// # Errors
    /// If the list cannot be read.
    pub(crate) fn expected(&self, at: &ReachedAt) -> Result<Option<KnownPeer>, ControlError> {
        let peers = self.peers()?;
        let is_expected = |peer: &&KnownPeer| {
            peer.may(Right::BeMeasured) && at.addresses().iter().any(|address| peer.is_at(address))
        };
        Ok(peers.iter().find(is_expected).cloned())
    }

    /// Lets the paired host `which` (a name, an address, or the key where several have the name) be
    /// reached at `address`, too.
    ///
    /// # Errors
    /// If there is none or several, or the list cannot be read or written.
    pub fn bind(&self, which: &str, address: &str) -> Result<KnownPeer, ControlError> {
        let named = |peer: &KnownPeer| peer.is_called(which);
        self.change(|peers| {
            let found: Vec<usize> =
                (0..peers.len()).filter(|&place| named(&peers[place])).collect();
            let [place] = found[..] else {
                let cause = match found.len() {
                    0 => "no paired host has this name, address or key (see `linerate pair list`)"
                        .to_owned(),
                    n => format!(
                        "{n} paired hosts are called so: give its key (see `linerate pair list`)"
                    ),
                };
                return Err(ControlError::Keys {
                    operation: "bind",
                    object: which.to_owned(),
                    cause,
                });
            };
            let address = address.to_ascii_lowercase();
            unbind(peers, peers[place].key, std::slice::from_ref(&address));
            let peer = peers.iter_mut().find(|peer| named(peer)).expect("only others were removed");
            bind(peer, vec![address]);
            Ok(peer.clone())
        })?
    }

    /// Forgets every peer that `which` names, by its name, address or key; how many.
    ///
    /// # Errors
    /// If the list cannot be read or written.
    pub fn forget(&self, which: &str) -> Result<usize, ControlError> {
        self.change(|peers| {
            let before = peers.len();
            peers.retain(|known| !known.is_called(which));
            before - peers.len()
        })
    }

    /// Whether the owner of `key` may do this; read afresh.
    ///
    /// # Errors
    /// If the list cannot be read.
    pub(crate) fn may(&self, key: Fingerprint, right: Right) -> Result<bool, ControlError> {
        Ok(self.peers()?.iter().any(|peer| peer.key == key && peer.may(right)))
    }

    /// Reads the list, changes it and writes it while nobody else does.
    fn change<T>(&self, change: impl FnOnce(&mut Vec<KnownPeer>) -> T) -> Result<T, ControlError> {
        let _lock = Lock::take(&self.directory)?;
        let before = self.peers()?;
        let mut peers = before.clone();
        let result = change(&mut peers);
        if peers != before {
            self.write_peers(&peers)?;
        }
        Ok(result)
    }

    pub(crate) fn certificate(&self) -> CertificateDer<'static> {
        self.certificate.clone()
    }

    pub(crate) fn private_key(&self) -> PrivateKeyDer<'static> {
        self.private_key.clone_key()
    }

    fn write_peers(&self, peers: &[KnownPeer]) -> Result<(), ControlError> {
        let text = serde_json::to_vec_pretty(peers)
            .map_err(|cause| keys("write known peers", &self.directory, &cause))?;
        write_private(&peers_path(&self.directory), &text)
    }
}

fn peers_path(directory: &Path) -> PathBuf {
    directory.join("peers.json")
}

/// The hosts that the one with its keys in `directory` has been paired with.
///
/// # Errors
/// If the list cannot be read, or is none.
pub(crate) fn peers_in(directory: &Path) -> Result<Vec<KnownPeer>, ControlError> {
    let path = peers_path(directory);
    match fs::read(&path) {
        Ok(text) => {
            check_own(&path)?;
            serde_json::from_slice(&text).map_err(|cause| keys("read known peers", &path, &cause))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(cause) => Err(keys("read known peers", &path, &cause)),
    }
}

/// Binds the host of `key`, whose addresses were not kept, to the first one it is reached `at`.
/// Another process may have done so since this one looked: it is decided anew, while nobody else
/// writes.
fn bind_first(peers: &mut [KnownPeer], at: &ReachedAt, key: Fingerprint) -> Result<(), String> {
    match recognise(peers, at, key) {
        Recognised::Yes => Ok(()),
        Recognised::No(why) => Err(why),
        Recognised::Unbound => {
            let peer = peers.iter_mut().find(|peer| peer.key == key && peer.addresses.is_none());
            peer.into_iter().for_each(|peer| bind(peer, at.addresses()));
            Ok(())
        }
    }
}

/// Adds `addresses` to those of `peer`.
fn bind(peer: &mut KnownPeer, addresses: Vec<String>) {
    let known = peer.addresses.get_or_insert_default();
    for address in addresses {
        if !known.contains(&address) {
            known.push(address);
        }
    }
}

/// Takes `addresses` from all hosts but that of `key`; one that is then nowhere, and does not
/// conduct, is no longer known.
fn unbind(peers: &mut Vec<KnownPeer>, key: Fingerprint, addresses: &[String]) {
    peers.retain_mut(|peer| {
        let Some(known) = peer.addresses.as_mut().filter(|_| peer.key != key) else { return true };
        known.retain(|address| !addresses.contains(address));
        if !known.is_empty() {
            return true;
        }
        peer.may.retain(|right| *right != Right::BeMeasured);
        !peer.may.is_empty()
    });
}

/// The right to write the files of a key store; given up when dropped, also by a process that is
/// killed.
struct Lock {
    _file: fs::File,
}

impl Lock {
    /// Waits for it: whoever has it writes a few kilobytes.
    fn take(directory: &Path) -> Result<Self, ControlError> {
        let path = directory.join("lock");
        let opened =
            OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
        let file = opened.map_err(|cause| keys("open", &path, &cause))?;
        loop {
            match rustix::fs::flock(&file, FlockOperation::LockExclusive) {
                Ok(()) => return Ok(Self { _file: file }),
                Err(rustix::io::Errno::INTR) => {}
                Err(cause) => return Err(keys("lock", &path, &cause)),
            }
        }
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

/// Refuses a folder or list that others than its owner may write: they could add a key of theirs.
fn check_own(path: &Path) -> Result<(), ControlError> {
    let metadata = fs::metadata(path).map_err(|cause| keys("look at", path, &cause))?;
    let mode = metadata.permissions().mode();
    if mode & WRITABLE_BY_OTHERS == 0 {
        return Ok(());
    }
    let cause = format!(
        "others may write it (mode {:o}, owner {}; run `chmod go-w`)",
        mode & 0o777,
        metadata.uid()
    );
    Err(keys("use", path, &cause))
}

fn check_private(path: &Path) -> Result<(), ControlError> {
    let metadata = fs::metadata(path).map_err(|cause| keys("read private key", path, &cause))?;
    let mode = metadata.permissions().mode();
    if mode & OTHERS == 0 {
        return Ok(());
    }
    let cause = format!(
        "others may read it (mode {:o}, owner {}; run `chmod 600`)",
        mode & 0o777,
        metadata.uid()
    );
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
        let mode =
            |name| fs::metadata(first.directory().join(name)).unwrap().permissions().mode() & 0o777;
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
    fn a_list_of_hosts_that_others_may_write_is_refused() {
        let (directory, store) = a_store();
        store.trust("b", OLD, Right::Conduct, &at("198.18.0.1")).unwrap();
        let set = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap()
        };
        set(&peers_path(store.directory()), 0o620);
        let error = store.may(OLD, Right::Conduct).unwrap_err().to_string();
        assert!(error.contains("peers.json") && error.contains("chmod go-w"), "{error}");
        set(&peers_path(store.directory()), 0o644);
        assert!(store.may(OLD, Right::Conduct).unwrap(), "others may read it");
        set(directory.path(), 0o702);
        let error = KeyStore::open(directory.path()).unwrap_err().to_string();
        assert!(error.contains("chmod go-w"), "{error}");
    }

    fn at(written: &str) -> ReachedAt {
        ReachedAt::new(written, written.parse().unwrap_or(IpAddr::from([192, 0, 2, 2])))
    }

    fn a_store() -> (tempfile::TempDir, KeyStore) {
        let directory = tempfile::tempdir().unwrap();
        let store = KeyStore::open(directory.path()).unwrap();
        (directory, store)
    }

    const OLD: Fingerprint = Fingerprint([1; DIGEST_BYTES]);
    const NEW: Fingerprint = Fingerprint([2; DIGEST_BYTES]);

    #[test]
    fn a_host_paired_again_at_its_address_replaces_itself_and_can_be_forgotten() {
        let (_directory, store) = a_store();
        store.trust("hostb", OLD, Right::BeMeasured, &at("hostb")).unwrap();
        store.trust("hostb", NEW, Right::BeMeasured, &at("hostb")).unwrap();
        let keys: Vec<_> = store.peers().unwrap().iter().map(|peer| peer.key).collect();
        assert_eq!(keys, [NEW]);
        assert_eq!((store.forget("hostb").unwrap(), store.forget("hostb").unwrap()), (1, 0));
        assert!(store.peers().unwrap().is_empty());
    }

    #[test]
    fn two_hosts_of_one_name_are_both_paired_and_each_is_expected_at_its_own_address() {
        let (_directory, store) = a_store();
        store.trust("debian", OLD, Right::BeMeasured, &at("198.18.0.1")).unwrap();
        store.trust("debian", NEW, Right::BeMeasured, &at("198.18.0.2")).unwrap();
        assert_eq!(store.peers().unwrap().len(), 2);
        assert_eq!(store.recognise(&at("198.18.0.1:4777"), OLD).unwrap(), Ok(()));
        let why = store.recognise(&at("198.18.0.1"), NEW).unwrap().unwrap_err();
        assert!(why.contains("was paired there"), "{why}");
        let why = store.recognise(&at("198.18.0.3"), NEW).unwrap().unwrap_err();
        assert!(why.contains("linerate pair bind") && why.contains("198.18.0.2"), "{why}");
        let why = store.bind("debian", "198.18.0.3").unwrap_err().to_string();
        assert!(why.contains("give its key"), "{why}");
        store.bind(&OLD.to_string(), "198.18.0.3").unwrap();
        store.bind(&NEW.to_string(), "198.18.0.3").unwrap();
        let addresses = |key| {
            store.peers().unwrap().into_iter().find(|peer| peer.key == key).unwrap().addresses
        };
        assert_eq!(
            addresses(OLD),
            Some(vec!["198.18.0.1".into()]),
            "an address is one host's; the other keeps its own"
        );
        assert_eq!(store.expected(&at("198.18.0.3")).unwrap().map(|peer| peer.key), Some(NEW));
        assert_eq!(store.expected(&at("198.18.0.4")).unwrap(), None);
        assert_eq!(
            store.bind("198.18.0.3", "fd00::3").unwrap().key,
            NEW,
            "an address names its host"
        );
        assert_eq!(store.recognise(&at("198.18.0.3"), NEW).unwrap(), Ok(()));
    }

    #[test]
    fn what_a_person_wrote_counts_before_what_it_led_to() {
        let (_directory, store) = a_store();
        store
            .trust(
                "a",
                OLD,
                Right::BeMeasured,
                &ReachedAt::new("a.example", IpAddr::from([192, 0, 2, 1])),
            )
            .unwrap();
        store
            .trust(
                "b",
                NEW,
                Right::BeMeasured,
                &ReachedAt::new("b.example", IpAddr::from([192, 0, 2, 2])),
            )
            .unwrap();
        // Somebody made the name of a lead to b, which is paired, too.
        let poisoned = ReachedAt::new("a.example:4777", IpAddr::from([192, 0, 2, 2]));
        let why = store.recognise(&poisoned, NEW).unwrap().unwrap_err();
        assert!(why.contains("a.example answers with the key of b"), "{why}");
        let unknown = ReachedAt::new("c.example", IpAddr::from([192, 0, 2, 1]));
        let why = store.recognise(&unknown, NEW).unwrap().unwrap_err();
        assert!(
            why.contains("but a (") && why.contains("was paired there"),
            "an unknown name leads to a: {why}"
        );
        assert_eq!(store.recognise(&unknown, OLD).unwrap(), Ok(()), "and a answers");
        let moved = ReachedAt::new("a.example", IpAddr::from([192, 0, 2, 9]));
        assert_eq!(store.recognise(&moved, OLD).unwrap(), Ok(()), "its name leads elsewhere now");
    }

    #[test]
    fn a_host_paired_before_addresses_were_kept_is_bound_to_the_first_it_is_reached_at() {
        let (_directory, store) = a_store();
        let old = format!(r#"[{{ "name": "b", "key": "{OLD}", "added": 5 }}]"#);
        fs::write(peers_path(store.directory()), old).unwrap();
        assert!(
            store.may(OLD, Right::Conduct).unwrap() && store.may(OLD, Right::BeMeasured).unwrap()
        );
        assert_eq!(store.recognise(&at("198.18.0.1"), OLD).unwrap(), Ok(()));
        assert_eq!(store.recognise(&at("198.18.0.1"), OLD).unwrap(), Ok(()));
        store.recognise(&at("198.18.0.2"), OLD).unwrap().unwrap_err();
    }

    #[test]
    fn a_host_without_addresses_that_another_process_has_just_bound_is_bound_no_more() {
        let (_directory, store) = a_store();
        store.trust("b", OLD, Right::BeMeasured, &at("198.18.0.1")).unwrap();
        store.trust("c", NEW, Right::BeMeasured, &at("198.18.0.3")).unwrap();
        let mut peers = store.peers().unwrap();
        peers.iter_mut().for_each(|peer| peer.addresses = None);
        // Both saw it without an address; the lock lets one after the other decide.
        assert_eq!(bind_first(&mut peers, &at("198.18.0.3"), NEW), Ok(()));
        assert_eq!(peers[0].addresses, None, "it is another host's turn");
        assert_eq!(bind_first(&mut peers, &at("198.18.0.1"), OLD), Ok(()));
        let why = bind_first(&mut peers, &at("198.18.0.2"), OLD).unwrap_err();
        assert!(why.contains("was paired at 198.18.0.1"), "{why}");
        assert_eq!(peers[0].addresses.as_deref(), Some(&["198.18.0.1".to_owned()][..]));
    }

    #[test]
    fn pairing_grants_one_right_and_pairing_the_other_way_the_other() {
        let (_directory, store) = a_store();
        store.trust("b", OLD, Right::Conduct, &at("198.18.0.1")).unwrap();
        store.trust("b", OLD, Right::Conduct, &at("198.18.0.1")).unwrap();
        assert_eq!(store.peers().unwrap()[0].may, [Right::Conduct], "once");
        assert!(
            store.may(OLD, Right::Conduct).unwrap() && !store.may(OLD, Right::BeMeasured).unwrap()
        );
        assert!(
            !store.may(NEW, Right::Conduct).unwrap(),
            "another host's right is none of this one"
        );
        assert_eq!(
            store.expected(&at("198.18.0.1")).unwrap(),
            None,
            "it is not measured from here"
        );
        store.recognise(&at("198.18.0.1"), OLD).unwrap().unwrap_err();
        store.trust("b", OLD, Right::BeMeasured, &at("198.18.0.1")).unwrap();
        assert_eq!(store.peers().unwrap()[0].may, both_rights());
        store.trust("c", NEW, Right::BeMeasured, &at("198.18.0.1")).unwrap();
        assert!(
            store.may(OLD, Right::Conduct).unwrap() && !store.may(OLD, Right::BeMeasured).unwrap(),
            "replaced"
        );
        store.trust("b", OLD, Right::BeMeasured, &at("198.18.0.1")).unwrap();
        assert_eq!(store.recognise(&at("198.18.0.1"), OLD).unwrap(), Ok(()));
    }

    #[test]
    fn first_uses_at_once_come_to_one_key_pair_and_no_pairing_is_lost() {
        let directory = tempfile::tempdir().unwrap();
        for round in 0..12_u8 {
            let keys = directory.path().join(round.to_string());
            let prints: Vec<Fingerprint> = std::thread::scope(|scope| {
                let pair = |n: u8| {
                    let store = KeyStore::open(&keys).unwrap();
                    let address = IpAddr::from([198, 18, 0, n]);
                    let at = ReachedAt::new(&address.to_string(), address);
                    store
                        .trust("b", Fingerprint([n; DIGEST_BYTES]), Right::BeMeasured, &at)
                        .unwrap();
                    store.fingerprint()
                };
                let threads: Vec<_> = (0..6).map(|n| scope.spawn(move || pair(n))).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            assert!(prints.iter().all(|print| *print == prints[0]), "{prints:?}");
            assert_eq!(KeyStore::open(&keys).unwrap().peers().unwrap().len(), 6, "round {round}");
        }
    }

    #[test]
    fn a_key_and_a_certificate_of_two_pairs_are_refused_with_what_to_do() {
        let (first, _) = a_store();
        let (second, _) = a_store();
        fs::copy(first.path().join("certificate.pem"), second.path().join("certificate.pem"))
            .unwrap();
        let why = KeyStore::open(second.path()).unwrap_err().to_string();
        assert!(why.contains("do not belong together"), "{why}");
    }

    #[test]
    fn a_host_is_read_without_its_port() {
        let ip = IpAddr::from([192, 0, 2, 2]);
        for (written, host) in [
            ("Host.example:4777", "host.example"),
            ("host", "host"),
            ("[::1]:4777", "::1"),
            ("2001:db8::1", "2001:db8::1"),
        ] {
            assert_eq!(ReachedAt::new(written, ip).written, host);
        }
    }

    #[test]
    fn a_fingerprint_reads_as_it_prints() {
        let print = Fingerprint::of(b"key");
        assert_eq!(print.to_string().parse(), Ok(print));
        for wrong in ["zz", "ab", &"0".repeat(63), &"0".repeat(66)] {
            assert!(wrong.parse::<Fingerprint>().is_err(), "{wrong}");
        }
        assert!("é".repeat(32).parse::<Fingerprint>().is_err());
    }
}
