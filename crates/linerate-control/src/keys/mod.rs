//! Keys: this host's own pair, and the public keys of the hosts that it has been paired with.
//!
//! ```text
//! DIR (0700) / key.pem (0600)          our private key, ECDSA P-256, PKCS #8
//!              certificate.pem         self-signed around it; only its public key matters
//!              peers.json (0600)       [{ "name", "key": SHA-256 of the SubjectPublicKeyInfo,
//!                                         "added": Unix seconds, "addresses": where it was paired,
//!                                         "may": ["conduct", "be_measured"] }]
//!              lock                    held while any of them is written
//! ```
//!
//! A host is its public key: names prove nothing, certificates never expire, and no signature of a
//! third party creates trust (RFC 7250 argues the same for raw public keys). A host that is
//! measured is bound to the addresses at which it was paired, as with ssh: another host's key is
//! refused there, even if that host is paired too.

mod files;
mod fingerprint;
mod peers;

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use linerate_load::pinned;
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use crate::broker::Broker;
use crate::{ControlError, Result};
use Right::BeMeasured;
use files::{Lock, check_own, check_private, keys, read, write_private};
use peers::{Recognised, bind, bind_first, peers_path, recognise, unbind};

pub use fingerprint::Fingerprint;
pub(crate) use peers::peers_in;
pub use peers::{KnownPeer, ReachedAt, Right};

/// This host's key pair, and the list of hosts that it has been paired with.
#[derive(Debug)]
pub struct KeyStore {
    directory: PathBuf,
    certificate: CertificateDer<'static>,
    private_key: PrivateKeyDer<'static>,
    fingerprint: Fingerprint,
    /// Reads the list of peers for a process that has no right to.
    broker: Option<Arc<Broker>>,
}

impl KeyStore {
    /// Opens the store in `directory`. Makes the directory and a new key pair if there is none.
    ///
    /// # Errors
    /// If it cannot be read or written, or if others than its owner may read the private key.
    pub fn open(directory: &Path) -> Result<Self> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .map_err(|cause| keys("create key directory", directory, &cause))?;
        // A folder that others may write to could be given another key.
        check_own(directory)?;
        let (key, certificate) = (directory.join("key.pem"), directory.join("certificate.pem"));
        if !key.exists() {
            let _lock = Lock::take(directory)?;
            // Another process may have made it while this one waited for the lock.
            if !key.exists() {
                let fresh = rcgen::generate_simple_self_signed(["linerate".to_owned()])
                    .map_err(|cause| keys("generate key pair for", directory, &cause))?;
                write_private(&certificate, fresh.cert.pem().as_bytes())?;
                // The key is written last: where there is one, its certificate is there too.
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
        // Checked at start: a mismatch would otherwise fail in every handshake, without a reason.
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

    /// Returns the identity of this host.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Returns the folder of the store.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Reads the list of paired hosts. It is never cached, so that a pairing or `pair forget` in
    /// another process counts at once.
    ///
    /// # Errors
    /// If the list cannot be read or parsed.
    pub fn peers(&self) -> Result<Vec<KnownPeer>> {
        match &self.broker {
            Some(broker) => broker
                .peers()
                .map_err(|cause| keys("read known peers", &peers_path(&self.directory), &cause)),
            None => peers_in(&self.directory),
        }
    }

    /// Lets `broker` read the list of peers, for a process without the right to.
    #[must_use]
    pub fn read_by(self, broker: Arc<Broker>) -> Self {
        Self { broker: Some(broker), ..self }
    }

    /// Adds the host called `name`, with `key` and `right`, bound to the address `at` which it was
    /// met. A key that is in the list keeps its other rights and addresses. A host that was
    /// measured at this address before loses the address.
    ///
    /// # Errors
    /// If the list cannot be read or written.
    pub fn trust(
        &self,
        name: &str,
        key: Fingerprint,
        right: Right,
        at: &ReachedAt,
    ) -> Result<KnownPeer> {
        let added = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        self.change(|peers| {
            let addresses = at.addresses();
            if right == BeMeasured {
                // An address belongs to one host; the last pairing wins.
                unbind(peers, key, &addresses);
            }
            let known =
                peers.iter().position(|peer| peer.key == key).map(|place| peers.remove(place));
            let fresh =
                KnownPeer { name: String::new(), key, added, addresses: None, may: Vec::new() };
            let mut peer = KnownPeer { name: name.to_owned(), added, ..known.unwrap_or(fresh) };
            if right == BeMeasured {
                bind(&mut peer, addresses);
            }
            peer.may.push(right);
            peer.may.sort_unstable();
            peer.may.dedup();
            peers.push(peer.clone());
            peer
        })
    }

    /// Accepts the `key` that the agent reached `at` an address has proved to own, if it belongs to
    /// the host that was paired there.
    ///
    /// # Errors
    /// The inner error is the reason to refuse the key, as a cause. The outer one means that the
    /// list cannot be read or written.
    pub(crate) fn recognise(&self, at: &ReachedAt, key: Fingerprint) -> Result<Result<(), String>> {
        match recognise(&self.peers()?, at, key) {
            Recognised::Yes => Ok(Ok(())),
            Recognised::No(why) => Ok(Err(why)),
            Recognised::Unbound => self.change(|peers| bind_first(peers, at, key)),
        }
    }

    /// Returns the host that was paired `at` an address, and so must prove its key there.
    ///
    /// # Errors
    /// If the list cannot be read.
    pub(crate) fn expected(&self, at: &ReachedAt) -> Result<Option<KnownPeer>> {
        let peers = self.peers()?;
        let is_expected = |peer: &&KnownPeer| {
            peer.may(BeMeasured) && at.addresses().iter().any(|address| peer.is_at(address))
        };
        Ok(peers.iter().find(is_expected).cloned())
    }

    /// Binds the paired host `which` to a further `address`. `which` is a name, an address, or a
    /// key if several hosts have the name.
    ///
    /// # Errors
    /// If no host or several hosts match, or the list cannot be read or written.
    pub fn bind(&self, which: &str, address: &str) -> Result<KnownPeer> {
        let named = |peer: &KnownPeer| peer.is_called(which);
        self.change(|peers| {
            let found: Vec<usize> =
                (0..peers.len()).filter(|&place| named(&peers[place])).collect();
            let [place] = found[..] else {
                let cause = match found.len() {
                    0 => "no paired host has this name, address or key (see `linerate pair list`)"
                        .to_owned(),
                    n => format!("{n} paired hosts match: give its key (see `linerate pair list`)"),
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

    /// Removes every peer that `which` names, by its name, address or key. Returns their number.
    ///
    /// # Errors
    /// If the list cannot be read or written.
    pub fn forget(&self, which: &str) -> Result<usize> {
        self.change(|peers| {
            let before = peers.len();
            peers.retain(|known| !known.is_called(which));
            before - peers.len()
        })
    }

    /// Reads the list and returns whether the owner of `key` has this right.
    ///
    /// # Errors
    /// If the list cannot be read.
    pub(crate) fn may(&self, key: Fingerprint, right: Right) -> Result<bool> {
        Ok(self.peers()?.iter().any(|peer| peer.key == key && peer.may(right)))
    }

    /// Reads the list, changes it and writes it, under the lock.
    fn change<T>(&self, change: impl FnOnce(&mut Vec<KnownPeer>) -> T) -> Result<T> {
        let _lock = Lock::take(&self.directory)?;
        let before = self.peers()?;
        let mut peers = before.clone();
        let result = change(&mut peers);
        // Most calls change nothing, and an unneeded write could fail on a full disk.
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

    fn write_peers(&self, peers: &[KnownPeer]) -> Result<()> {
        let text = serde_json::to_vec_pretty(peers)
            .map_err(|cause| keys("write known peers", &self.directory, &cause))?;
        write_private(&peers_path(&self.directory), &text)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::net::IpAddr;
    use std::os::unix::fs::PermissionsExt;

    use super::fingerprint::DIGEST_BYTES;
    use super::peers::both_rights;
    use super::*;
    use Right::Conduct;

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
        store.trust("b", OLD, Conduct, &at("198.18.0.1")).unwrap();
        let set = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap()
        };
        set(&peers_path(store.directory()), 0o620);
        let error = store.may(OLD, Conduct).unwrap_err().to_string();
        assert!(error.contains("peers.json") && error.contains("chmod go-w"), "{error}");
        set(&peers_path(store.directory()), 0o644);
        assert!(store.may(OLD, Conduct).unwrap(), "others may read it");
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
        store.trust("hostb", OLD, BeMeasured, &at("hostb")).unwrap();
        store.trust("hostb", NEW, BeMeasured, &at("hostb")).unwrap();
        let keys: Vec<_> = store.peers().unwrap().iter().map(|peer| peer.key).collect();
        assert_eq!(keys, [NEW]);
        assert_eq!((store.forget("hostb").unwrap(), store.forget("hostb").unwrap()), (1, 0));
        assert!(store.peers().unwrap().is_empty());
    }

    #[test]
    fn two_hosts_of_one_name_are_both_paired_and_each_is_expected_at_its_own_address() {
        let (_directory, store) = a_store();
        store.trust("debian", OLD, BeMeasured, &at("198.18.0.1")).unwrap();
        store.trust("debian", NEW, BeMeasured, &at("198.18.0.2")).unwrap();
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
            .trust("a", OLD, BeMeasured, &ReachedAt::new("a.example", IpAddr::from([192, 0, 2, 1])))
            .unwrap();
        store
            .trust("b", NEW, BeMeasured, &ReachedAt::new("b.example", IpAddr::from([192, 0, 2, 2])))
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
        assert!(store.may(OLD, Conduct).unwrap() && store.may(OLD, BeMeasured).unwrap());
        assert_eq!(store.recognise(&at("198.18.0.1"), OLD).unwrap(), Ok(()));
        assert_eq!(store.recognise(&at("198.18.0.1"), OLD).unwrap(), Ok(()));
        store.recognise(&at("198.18.0.2"), OLD).unwrap().unwrap_err();
    }

    #[test]
    fn a_host_without_addresses_that_another_process_has_just_bound_is_bound_no_more() {
        let (_directory, store) = a_store();
        store.trust("b", OLD, BeMeasured, &at("198.18.0.1")).unwrap();
        store.trust("c", NEW, BeMeasured, &at("198.18.0.3")).unwrap();
        let mut peers = store.peers().unwrap();
        peers.iter_mut().for_each(|peer| peer.addresses = None);
        // Both saw it without an address; the lock lets one after the other decide.
        assert_eq!(bind_first(&mut peers, &at("198.18.0.3"), NEW), Ok(()));
        assert_eq!(peers[0].addresses, None, "another host was bound");
        assert_eq!(bind_first(&mut peers, &at("198.18.0.1"), OLD), Ok(()));
        let why = bind_first(&mut peers, &at("198.18.0.2"), OLD).unwrap_err();
        assert!(why.contains("was paired at 198.18.0.1"), "{why}");
        assert_eq!(peers[0].addresses.as_deref(), Some(&["198.18.0.1".to_owned()][..]));
    }

    #[test]
    fn pairing_grants_one_right_and_pairing_the_other_way_the_other() {
        let (_directory, store) = a_store();
        store.trust("b", OLD, Conduct, &at("198.18.0.1")).unwrap();
        store.trust("b", OLD, Conduct, &at("198.18.0.1")).unwrap();
        assert_eq!(store.peers().unwrap()[0].may, [Conduct], "once");
        assert!(store.may(OLD, Conduct).unwrap() && !store.may(OLD, BeMeasured).unwrap());
        assert!(!store.may(NEW, Conduct).unwrap(), "a right belongs to one host");
        assert_eq!(
            store.expected(&at("198.18.0.1")).unwrap(),
            None,
            "it is not measured from here"
        );
        store.recognise(&at("198.18.0.1"), OLD).unwrap().unwrap_err();
        store.trust("b", OLD, BeMeasured, &at("198.18.0.1")).unwrap();
        assert_eq!(store.peers().unwrap()[0].may, both_rights());
        store.trust("c", NEW, BeMeasured, &at("198.18.0.1")).unwrap();
        assert!(
            store.may(OLD, Conduct).unwrap() && !store.may(OLD, BeMeasured).unwrap(),
            "replaced"
        );
        store.trust("b", OLD, BeMeasured, &at("198.18.0.1")).unwrap();
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
                    store.trust("b", Fingerprint([n; DIGEST_BYTES]), BeMeasured, &at).unwrap();
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
}
