//! Hosts that this one has been paired with: their rights, the addresses that they are bound to,
//! and the judgement of a key that is shown at an address.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::files::{check_own, keys};
use super::fingerprint::Fingerprint;
use crate::Result;

/// Right of a paired host. Pairing grants one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Right {
    /// Conduct measurements on this host.
    Conduct,
    /// Be measured from this host.
    BeMeasured,
}

impl Right {
    /// Returns the right as a person reads it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Conduct => "may conduct",
            Self::BeMeasured => "may be measured",
        }
    }
}

/// Returns both rights, which pairing granted before they were separate.
pub(super) fn both_rights() -> Vec<Right> {
    vec![Right::Conduct, Right::BeMeasured]
}

/// Host that has been paired with this one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownPeer {
    /// Name that it gave itself.
    pub name: String,
    /// Its key.
    pub key: Fingerprint,
    /// When it was paired, seconds since the Unix epoch.
    pub added: u64,
    /// Names and addresses that it is bound to. Absent for a host that was paired before addresses
    /// were kept: the first address at which it is reached becomes its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub addresses: Option<Vec<String>>,
    /// Its rights.
    #[serde(default = "both_rights")]
    pub may: Vec<Right>,
}

impl KnownPeer {
    /// Returns whether the host has this right.
    #[must_use]
    pub fn may(&self, right: Right) -> bool {
        self.may.contains(&right)
    }

    /// Returns whether `which` names this host: by its name, an address that it is bound to, or its
    /// key.
    pub(super) fn is_called(&self, which: &str) -> bool {
        self.name == which
            || self.key.to_string() == which
            || self.is_at(&which.to_ascii_lowercase())
    }

    pub(super) fn is_at(&self, address: &str) -> bool {
        self.addresses.iter().flatten().any(|known| known == address)
    }
}

/// Names of a host on a connection: as a person wrote it, and as it was resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReachedAt {
    /// The name or address as written, without a port.
    pub written: String,
    /// The address of the connection.
    pub ip: IpAddr,
}

impl ReachedAt {
    /// Parses `host`, `host:port` or `[address]:port` as written; `ip` is the resolved address.
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

    pub(super) fn addresses(&self) -> Vec<String> {
        let ip = self.ip.to_string();
        if self.written == ip { vec![ip] } else { vec![self.written.clone(), ip] }
    }
}

/// Verdict on a key shown at an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Recognised {
    /// The key of the host that was paired there.
    Yes,
    /// The key of a host whose addresses were not kept: this address becomes its own.
    Unbound,
    /// Another key; the reason to refuse it, and the remedy.
    No(String),
}

/// Judges whether `key` is the one expected `at` an address, among `peers` that may be measured.
pub(super) fn recognise(peers: &[KnownPeer], at: &ReachedAt, key: Fingerprint) -> Recognised {
    let measured = || peers.iter().filter(|peer| peer.may(Right::BeMeasured));
    let Some(shown) = measured().find(|peer| peer.key == key) else {
        return Recognised::No(
            "its key is not among the hosts that may be measured from here".into(),
        );
    };
    let bound = |address: &str| measured().filter(|peer| peer.is_at(address)).collect::<Vec<_>>();
    // As with ssh, the name as written counts before the resolved address: whoever controls the
    // resolver must not choose which of two paired hosts is expected.
    let mut expected = bound(&at.written);
    if expected.is_empty() {
        expected = bound(&at.ip.to_string());
    }
    // Several hosts may be bound to one name, for example behind a round-robin DNS entry.
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

pub(super) fn peers_path(directory: &Path) -> PathBuf {
    directory.join("peers.json")
}

/// Returns the hosts that the owner of the keys in `directory` has been paired with.
///
/// # Errors
/// If the list cannot be read or parsed, or if others may write to it.
pub(crate) fn peers_in(directory: &Path) -> Result<Vec<KnownPeer>> {
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

/// Binds the host of `key`, whose addresses were not kept, to the first one at which it is reached.
/// The caller holds the lock. Judges the key again, because another process may have bound it in
/// the meantime.
pub(super) fn bind_first(
    peers: &mut [KnownPeer],
    at: &ReachedAt,
    key: Fingerprint,
) -> Result<(), String> {
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
pub(super) fn bind(peer: &mut KnownPeer, addresses: Vec<String>) {
    let known = peer.addresses.get_or_insert_default();
    for address in addresses {
        if !known.contains(&address) {
            known.push(address);
        }
    }
}

/// Removes `addresses` from all hosts but that of `key`. A host without any address left loses the
/// right to be measured, and a host without any right is forgotten.
pub(super) fn unbind(peers: &mut Vec<KnownPeer>, key: Fingerprint, addresses: &[String]) {
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
