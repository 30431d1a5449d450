//! Policy of an agent, the rights of conductors: `/etc/linerate/agent.toml`, or the file of
//! `--policy`.
//!
//! The default policy is for conductors on other hosts, which have a paired key. A person who
//! starts an agent through ssh, or measures in this process, has the rights of the account anyway:
//! there only a policy of `--policy` applies.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use linerate_control::Keeping;
use linerate_disk::FileLimits;
use linerate_load::{Limits, Network, Permits};
use linerate_model::{BitRate, Bytes, Problem};
use serde::Deserialize;

use linerate_model::failure::{Failure, Result};

/// Default path of the policy.
pub const USUAL: &str = "/etc/linerate/agent.toml";
/// Permission bits that let others than the owner write.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// Rights of conductors on this host.
#[derive(Debug)]
pub struct Policy {
    /// Rights of loads.
    pub permits: Permits,
    /// Files that they may read, and space that they may fill.
    pub files: Option<FileLimits>,
    /// Memory of a trial, bytes; `None` for half of the available memory.
    pub memory: Option<u64>,
    /// Devices that may be tuned, as for `--allow-tune`.
    pub tune: Vec<String>,
    /// True if tuned settings may stay.
    pub keeping: Keeping,
    /// Serial numbers of disks that may be written to.
    pub write: Vec<String>,
    /// Folders whose files may be served to foreign clients.
    pub serve: Vec<PathBuf>,
    /// Users of this host who may use an agent that has no keys.
    pub local_users: Vec<u32>,
    /// Privilege separation of the process that serves conductors.
    pub separation: Separation,
}

/// Privilege separation of the process that serves conductors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Separation {
    /// It gives up its rights, and becomes this user if root starts it: the one named, or the first
    /// of [`USERS`] that exists.
    Separated(Option<String>),
    /// It keeps its rights: by the policy, or because the other end has the rights of the account
    /// anyway.
    None,
}

/// Users that an agent becomes when root starts it; the first one that exists.
pub const USERS: [&str; 2] = ["linerate", "nobody"];

/// Content of the file. A missing line refuses, or has the default of [`Limits`] and
/// [`FileLimits`].
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct PolicyText {
    destinations: Option<Vec<Network>>,
    lowest_port: Option<u16>,
    foreign_servers: Vec<Network>,
    foreign_clients: bool,
    raw_frames: bool,
    realtime: bool,
    read: Vec<PathBuf>,
    folders: Option<Vec<PathBuf>>,
    disk_space: Option<Bytes>,
    memory: Option<Bytes>,
    rate: Option<BitRate>,
    ncsi: Vec<String>,
    tune: Vec<String>,
    keep: bool,
    write: Vec<String>,
    serve: Vec<PathBuf>,
    local_users: Vec<u32>,
    separate: Option<bool>,
    user: Option<String>,
}

impl Policy {
    /// Returns the policy in `file`, or without one the default of an agent that listens or of one
    /// that serves `one_conductor` on its standard streams.
    ///
    /// # Errors
    /// If the file is missing, cannot be read or parsed, or others may write it.
    pub fn chosen(file: Option<&Path>, one_conductor: bool) -> Result<Self> {
        match file {
            Some(path) => Self::read(path)?.ok_or_else(|| {
                Failure::wrong(format!("read policy {}: there is no such file", path.display()))
            }),
            // The person who starts an agent through ssh has the rights of the account anyway.
            None if one_conductor => Ok(Self::everything()),
            None => Self::usual(),
        }
    }

    /// Returns the default policy of a listening agent.
    ///
    /// # Errors
    /// If the file cannot be read, or others may write it.
    pub fn usual() -> Result<Self> {
        Ok(Self::read(Path::new(USUAL))?
            .unwrap_or_else(|| Self::from_text(PolicyText::default(), USUAL)))
    }

    /// Returns a policy without limits, for users with the rights of this account. Disks and
    /// settings still need consent.
    fn everything() -> Self {
        Self {
            permits: Permits::EVERYTHING,
            files: None,
            memory: None,
            tune: Vec::new(),
            keeping: Keeping::Allowed,
            write: Vec::new(),
            serve: Vec::new(),
            local_users: Vec::new(),
            separation: Separation::None,
        }
    }

    /// Reads the file at `path`. Returns `None` if there is none.
    fn read(path: &Path) -> Result<Option<Self>> {
        let origin = path.display().to_string();
        let unread = |error: io::Error| Failure::wrong(format!("read policy {origin}: {error}"));
        let mut file = match fs::File::open(path) {
            Ok(file) => file,
            // A host without a policy has the defaults; an unreadable one must not silently have
            // them.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unread(error)),
        };
        // The open file is examined and not its path, which could be exchanged in between.
        let found = file.metadata().map_err(unread)?;
        if !is_trusted(found.uid(), rustix::process::geteuid().as_raw(), found.mode()) {
            return Err(Failure::wrong(format!(
                "use policy {origin}: others may write it (mode {:o}, owner {}; run `chown root \
                    {origin}` and `chmod go-w {origin}`)",
                found.mode() & 0o777,
                found.uid()
            )));
        }
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(unread)?;
        let parsed: PolicyText = toml::from_str(&text).map_err(|error| {
            Failure::in_text(&origin, &text, &[Problem::from_serde(error.span(), error.message())])
        })?;
        Ok(Some(Self::from_text(parsed, &origin)))
    }

    fn from_text(text: PolicyText, file: &str) -> Self {
        let usual = Limits::new(file);
        let limits = Limits {
            destinations: text.destinations.unwrap_or_else(|| usual.destinations.clone()),
            lowest_port: text.lowest_port.unwrap_or(usual.lowest_port),
            foreign_servers: text.foreign_servers,
            foreign_clients: text.foreign_clients,
            raw_frames: text.raw_frames,
            realtime: text.realtime,
            rate: text.rate,
            ncsi: text.ncsi,
            ..usual
        };
        let usual = FileLimits::new(file);
        let files = FileLimits {
            read: text.read,
            folders: text.folders.unwrap_or_else(|| usual.folders.clone()),
            disk_space: text.disk_space.map_or(usual.disk_space, |bytes| bytes.0),
            ..usual
        };
        Self {
            permits: Permits::only(limits),
            files: Some(files),
            memory: text.memory.map(|bytes| bytes.0),
            tune: text.tune,
            keeping: if text.keep {
                Keeping::Allowed
            } else {
                Keeping::Refused { policy: file.to_owned() }
            },
            write: text.write,
            serve: text.serve,
            local_users: text.local_users,
            separation: match text.separate {
                // Separation is the default and must be refused by name.
                Some(false) => Separation::None,
                _ => Separation::Separated(text.user),
            },
        }
    }
}

/// Returns whether only root, or the agent's `own` user, can have written a policy of this `owner`
/// and `mode`.
fn is_trusted(owner: u32, own: u32, mode: u32) -> bool {
    // Root and the agent's own user can change its rights anyway.
    (owner == 0 || owner == own) && mode & WRITABLE_BY_OTHERS == 0
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn written(text: &str, mode: u32) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("agent.toml");
        fs::write(&path, text).expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("its owner");
        (folder, path)
    }

    #[test]
    fn a_policy_that_says_nothing_is_the_secure_one() {
        let (_folder, path) = written("", 0o644);
        let policy = Policy::read(&path).expect("it reads").expect("it is there");
        assert!(policy.permits.raw_frames("eth0").is_err() && policy.permits.realtime().is_err());
        assert!(policy.permits.foreign_clients().is_err() && policy.permits.port(80).is_err());
        assert!(policy.permits.ncsi("eth0").is_err() && policy.permits.rate().is_none());
        assert!(
            policy.permits.foreign_server("127.0.0.1:8080".parse().expect("an address")).is_err()
        );
        assert_eq!(policy.separation, Separation::Separated(None));
        assert!(
            matches!(policy.keeping, Keeping::Refused { .. })
                && policy.tune.is_empty()
                && policy.write.is_empty()
        );
        assert_eq!(policy.files.expect("limited").read, Vec::<PathBuf>::new());
    }

    #[test]
    fn each_line_permits_what_a_refusal_names() {
        let text = r#"
            destinations = ["198.18.0.0/15"]
            lowest_port = 80
            foreign_servers = ["127.0.0.1", "198.18.0.0/15"]
            foreign_clients = true
            raw_frames = true
            realtime = true
            read = ["/srv/data"]
            folders = ["/scratch"]
            disk_space = "1 TiB"
            memory = "3 GiB"
            rate = "1 Gbit/s"
            ncsi = ["eth1"]
            tune = ["eth0", "host"]
            keep = true
            write = ["S123"]
            serve = ["/srv/files"]
            local_users = [1000]
            separate = false
        "#;
        let (_folder, path) = written(text, 0o600);
        let policy = Policy::read(&path).expect("it reads").expect("it is there");
        let at = |text: &str| text.parse().expect("an address");
        policy.permits.connection(at("198.18.0.1:80")).expect("permitted");
        policy.permits.connection(at("192.0.2.1:80")).expect_err("not among the destinations");
        policy.permits.foreign_server(at("127.0.0.1:1")).expect("permitted");
        policy
            .permits
            .foreign_clients()
            .and_then(|()| policy.permits.realtime())
            .expect("permitted");
        policy
            .permits
            .offered_rate(BitRate(1e9))
            .and_then(|()| policy.permits.ncsi("eth1"))
            .expect("permitted");
        policy.permits.offered_rate(BitRate(1.1e9)).expect_err("more than the policy says");
        assert_eq!((policy.keeping, policy.separation), (Keeping::Allowed, Separation::None));
        let files = policy.files.expect("limited");
        assert_eq!((policy.local_users, policy.memory), (vec![1000], Some(3 << 30)));
        assert_eq!((files.disk_space, files.folders), (1 << 40, vec!["/scratch".into()]));
        assert_eq!(
            (policy.tune.len(), policy.write, policy.serve),
            (2, vec!["S123".into()], vec!["/srv/files".into()])
        );
    }

    #[test]
    fn a_policy_that_others_may_write_or_with_a_mistake_is_refused() {
        let (_folder, path) = written("", 0o666);
        let why = Policy::read(&path).expect_err("anybody may write it");
        assert!(why.message().contains("chmod go-w"), "{why:?}");
        assert!(is_trusted(0, 7, 0o644) && is_trusted(7, 7, 0o600));
        assert!(!is_trusted(7, 0, 0o600) && !is_trusted(0, 0, 0o620) && !is_trusted(0, 0, 0o602));
        let (_folder, path) = written("raw_frame = true", 0o644);
        assert!(Policy::read(&path).expect_err("a mistake").message().contains("raw_frame"));
        assert!(
            Policy::read(Path::new("/nonexistent/agent.toml")).expect("it is not there").is_none()
        );
    }
}
