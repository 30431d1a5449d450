//! Gate: all reasons for which a device must not be written to, claiming, and releasing.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::OFlags;
use serde::Serialize;

use crate::claim::{CLAIM_BYTES, Claim, RESERVED_BYTES};
use crate::content::Content;
use crate::signature::Finding;
use crate::topology::{System, Topology, Use, split};
use crate::{DiskError, Result};
use Refusal::{
    Busy, Contains, ForeignClaim, InUse, NoConsent, NoSerial, NotBlank, OtherSerial, ReadOnly,
    TooSmall, Unclaimed, Unreadable,
};

/// Pause before a busy device is opened again, and how often.
const MOMENT: Duration = Duration::from_millis(50);
const MOMENTS: u32 = 20;

/// Smallest size of a device. Between the reserved edges there must be room for a load.
const LEAST_BYTES: u64 = 3 * RESERVED_BYTES;

/// Reason for which a device must not be written to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "refusal", rename_all = "snake_case")]
pub enum Refusal {
    /// The kernel knows a user of the device.
    InUse {
        /// The use.
        #[serde(flatten)]
        by: Use,
    },
    /// An exclusive open failed: somebody has the device.
    Busy,
    /// A recognized format is on it.
    Contains {
        /// The format.
        #[serde(flatten)]
        finding: Finding,
    },
    /// Unknown data is on it.
    NotBlank {
        /// Position of the data, bytes from the start.
        offset: u64,
    },
    /// The kernel refuses writes to it.
    ReadOnly,
    /// It has no serial number, so it cannot be distinguished from other disks.
    NoSerial,
    /// It is too small.
    TooSmall,
    /// It could not be inspected.
    Unreadable {
        /// The kernel's error.
        cause: String,
    },
    /// Nobody has claimed it.
    Unclaimed,
    /// Its claim belongs to another device.
    ForeignClaim {
        /// The serial number in the claim.
        serial: String,
    },
    /// Its serial number is another one than the consent names.
    OtherSerial {
        /// The serial number in the consent.
        named: String,
    },
    /// The plan contains no consent.
    NoConsent,
    /// This agent's allow-list does not contain it.
    NotAllowed,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse { by } => by.fmt(f),
            Self::Busy => f.write_str("another program or the kernel has opened it exclusively"),
            Self::Contains { finding } => {
                write!(f, "it contains {finding} (to erase it: wipefs -a, then blkdiscard -z)")
            }
            Self::NotBlank { offset } => {
                write!(
                    f,
                    "it is not blank: unknown data at byte {offset} (to erase it: blkdiscard -z)"
                )
            }
            Self::ReadOnly => f.write_str("it is read-only"),
            Self::NoSerial => {
                f.write_str("it has no serial number that distinguishes it from other disks")
            }
            Self::TooSmall => write!(f, "it has less than {LEAST_BYTES} bytes"),
            Self::Unreadable { cause } => write!(f, "it cannot be read: {cause}"),
            Self::Unclaimed => {
                f.write_str("nobody has claimed it (linerate disk claim DEVICE --serial SERIAL)")
            }
            Self::ForeignClaim { serial } => {
                write!(
                    f,
                    "its claim is for serial number {serial} and another size: was the claim \
                    copied here?"
                )
            }
            Self::OtherSerial { named } => write!(f, "its serial number is not {named}"),
            Self::NoConsent => f.write_str(
                "the job names no consent (parameter `consent`, the serial number it \
                    was claimed with)",
            ),
            Self::NotAllowed => f.write_str(
                "it is not among the disks this agent may write to (linerate agent \
                    --allow-write SERIAL)",
            ),
        }
    }
}

/// All facts about a device, and all reasons not to write to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Inspection {
    /// Facts from the kernel.
    #[serde(flatten)]
    pub topology: Topology,
    /// Contents; absent if they could not be read.
    pub content: Option<Content>,
    /// All reasons except a missing consent.
    pub refusals: Vec<Refusal>,
}

impl Inspection {
    /// Returns true if the device has a valid claim of its own.
    #[must_use]
    pub fn is_claimed(&self) -> bool {
        self.claim().is_some()
    }

    fn claim(&self) -> Option<&Claim> {
        let claim = self.content.as_ref()?.claim.as_ref()?;
        (Some(&claim.serial) == self.topology.serial.as_ref()
            && claim.size_bytes == self.topology.size_bytes)
            .then_some(claim)
    }

    /// Returns all reasons against a writer that names `consent`.
    pub(crate) fn refusals_of_writing(&self, consent: Option<&str>) -> Vec<Refusal> {
        let mut refusals = self.refusals.clone();
        if self.content.as_ref().is_some_and(|content| content.claim.is_none()) {
            refusals.push(Unclaimed);
        }
        refusals.extend(self.refusal_of_name(consent));
        refusals
    }

    /// Returns all reasons against a claim by a person who names `serial`.
    fn refusals_of_claiming(&self, serial: &str) -> Vec<Refusal> {
        let mut refusals = self.refusals.clone();
        if let Some(content) = &self.content {
            // Behind an existing claim, loads wrote the data between the edges.
            let offset = content.inner_data.filter(|_| !self.is_claimed());
            refusals.extend(offset.map(|offset| NotBlank { offset }));
        }
        refusals.extend(self.refusal_of_name(Some(serial)));
        refusals
    }

    fn refusal_of_name(&self, named: Option<&str>) -> Option<Refusal> {
        match named {
            None => Some(NoConsent),
            Some(named) if Some(named) != self.topology.serial.as_deref() => {
                Some(OtherSerial { named: named.to_owned() })
            }
            Some(_) => None,
        }
    }
}

/// Inspects every disk of this host.
#[must_use]
pub fn list() -> Vec<Inspection> {
    let system = System::read(Path::new("/"));
    let disks: Vec<Topology> =
        system.disks().filter_map(|number| system.describe(number)).collect();
    // Unbound loop devices and the like have no bytes.
    let present = disks.into_iter().filter(|disk| disk.size_bytes > 0);
    present.map(|disk| glance(&device_path(&disk.name), disk)).collect()
}

/// Inspects the device at `path`.
///
/// # Errors
/// If it is not a block device, or the kernel does not list it.
pub fn inspect(path: &Path) -> Result<Inspection> {
    Ok(glance(path, describe(path)?))
}

/// Returns the disks that hold the bytes of the file, folder or device `path`, or would hold them
/// if it does not exist yet, all nodes of each. Empty if they are in memory, `None` if that is
/// unknown.
#[must_use]
pub fn disks_of(path: &Path) -> Option<BTreeSet<String>> {
    System::read(Path::new("/")).disks_of(path)
}

/// Inspects without disturbing other programs. An exclusive open makes a concurrent mount fail. It
/// is therefore tried only if there is no other reason against writing, since such a device has
/// nothing to mount.
fn glance(path: &Path, disk: Topology) -> Inspection {
    let device = match File::open(path) {
        Ok(device) => device,
        Err(error) => return unreadable(disk, &error),
    };
    let mut inspection = judged(disk, Some(&device));
    if inspection.refusals.is_empty() && exclusive(path, false).is_err_and(|error| is_busy(&error))
    {
        inspection.refusals.push(Busy);
    }
    inspection
}

/// Writes the consent of a person who named `serial` on the blank device `path`: [`CLAIM_BYTES`] at
/// its start, nothing else.
///
/// # Errors
/// With all reasons, if the device must not be written to.
pub fn claim(path: &Path, serial: &str) -> Result<Claim> {
    let (device, inspection) = held(path)?;
    pass(path, inspection.refusals_of_claiming(serial))?;
    // From the kernel: a random number is not worth a dependency here.
    let uuid = std::fs::read_to_string("/proc/sys/kernel/random/uuid");
    let uuid = uuid
        .map_err(|cause| DiskError::io("read", "/proc/sys/kernel/random/uuid", cause))?
        .trim()
        .to_owned();
    let claimed_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let claim = Claim {
        serial: serial.to_owned(),
        size_bytes: inspection.topology.size_bytes,
        uuid,
        claimed_s,
    };
    let block = claim.encode().ok_or_else(|| {
        DiskError::unsuitable(
            format!("claim {}", path.display()),
            format!("the serial number {serial} is too long"),
        )
    })?;
    write_start(&device, path, &block)?;
    Ok(claim)
}

/// Ends the consent: overwrites the claim with zeros and nothing else. Data of loads remains.
///
/// # Errors
/// If the device has no claim of its own, or is in use.
pub fn release(path: &Path) -> Result<Claim> {
    let (device, inspection) = held(path)?;
    let Some(claim) = inspection.claim().cloned() else {
        return Err(refused(path, vec![Unclaimed]));
    };
    // Contents do not matter for a release: it only removes our own claim.
    pass(path, refusals_of_use(&inspection.topology))?;
    write_start(&device, path, &[0; CLAIM_BYTES])?;
    Ok(claim)
}

/// Opens `path` for writing and keeps it open. All checks apply except the agent's allow-list.
///
/// # Errors
/// With all reasons.
pub(crate) fn open_claimed(path: &Path, consent: Option<&str>) -> Result<(File, Inspection)> {
    let (device, inspection) = held(path)?;
    pass(path, inspection.refusals_of_writing(consent))?;
    Ok((device, inspection))
}

/// Returns what has changed since [`open_claimed`] accepted the device `number`: somebody else uses
/// its bytes, or the number belongs to another disk. Reads nothing from the device.
pub(crate) fn changes(number: (u32, u32), serial: Option<&str>) -> Vec<Refusal> {
    // By number, not by path: a disk that was unplugged and replaced may have the old path.
    let Some(topology) = System::read(Path::new("/")).describe(number) else {
        return vec![Unreadable { cause: "the kernel no longer shows it".to_owned() }];
    };
    refusals_of_change(&topology, serial)
}

fn refusals_of_change(topology: &Topology, serial: Option<&str>) -> Vec<Refusal> {
    let mut refusals = refusals_of_use(topology);
    if topology.serial.as_deref() != serial {
        refusals.push(OtherSerial { named: serial.unwrap_or_default().to_owned() });
    }
    refusals
}

fn pass(path: &Path, refusals: Vec<Refusal>) -> Result<()> {
    if refusals.is_empty() { Ok(()) } else { Err(refused(path, refusals)) }
}

fn refused(path: &Path, refusals: Vec<Refusal>) -> DiskError {
    DiskError::Refused { device: path.display().to_string(), refusals }
}

fn write_start(device: &File, path: &Path, block: &[u8; CLAIM_BYTES]) -> Result<()> {
    // Durable before anything relies on it: a claim that a power failure undoes would leave a
    // disk that loads have overwritten without a trace of consent.
    let written = device.write_all_at(block, 0).and_then(|()| device.sync_all());
    written.map_err(|cause| DiskError::io("write the claim on", path.display(), cause))
}

/// Opens `path` exclusively for writing, and inspects it afterwards.
fn held(path: &Path) -> Result<(File, Inspection)> {
    let before = describe(path)?;
    let device = match exclusive(path, true) {
        // A busy device is still inspected for reading, so that the refusal names its user.
        Ok(device) => device,
        Err(error) if is_busy(&error) => {
            let mut refusals = judged(before, File::open(path).ok().as_ref()).refusals;
            refusals.push(Busy);
            return Err(refused(path, refusals));
        }
        Err(error) => return Err(refused(path, unreadable(before, &error).refusals)),
    };
    // From here on nobody can mount the device. It may differ from the one that the name meant
    // before, so it is inspected again.
    let opened =
        device.metadata().map_err(|cause| DiskError::io("look at", path.display(), cause))?;
    let inspection = judged(topology(path, opened.rdev())?, Some(&device));
    Ok((device, inspection))
}

fn describe(path: &Path) -> Result<Topology> {
    let file =
        std::fs::metadata(path).map_err(|cause| DiskError::io("look at", path.display(), cause))?;
    if !file.file_type().is_block_device() {
        return Err(DiskError::unsuitable(path.display().to_string(), "it is not a block device"));
    }
    topology(path, file.rdev())
}

fn topology(path: &Path, device: u64) -> Result<Topology> {
    System::read(Path::new("/")).describe(split(device)).ok_or_else(|| {
        DiskError::unsuitable(
            path.display().to_string(),
            "the kernel does not list it under /sys/block",
        )
    })
}

fn unreadable(topology: Topology, error: &io::Error) -> Inspection {
    let n_users = topology.uses.len();
    let mut inspection = judged(topology, None);
    // After the users of the device: they forbid writing also to a person who may read it.
    inspection.refusals.insert(n_users, Unreadable { cause: error.to_string() });
    inspection
}

/// Returns all users of the device, or why they are unknown.
fn refusals_of_use(topology: &Topology) -> Vec<Refusal> {
    let uses = topology.uses.iter().map(|by| InUse { by: by.clone() });
    uses.chain(System::blindness(Path::new("/")).map(|cause| Unreadable { cause })).collect()
}

/// Returns all reasons against writing that do not depend on the requester.
fn judged(topology: Topology, device: Option<&File>) -> Inspection {
    let mut refusals = refusals_of_use(&topology);
    if topology.read_only {
        refusals.push(ReadOnly);
    }
    if topology.serial.is_none() {
        refusals.push(NoSerial);
    }
    if topology.size_bytes < LEAST_BYTES {
        refusals.push(TooSmall);
    }
    let content = device.and_then(|device| {
        match Content::read(device, topology.size_bytes, !topology.uses.is_empty()) {
            Ok(content) => Some(content),
            Err(error) => {
                refusals.push(Unreadable { cause: error.to_string() });
                None
            }
        }
    });
    let mut inspection = Inspection { topology, content, refusals };
    let found = inspection.content.iter().flat_map(|content| {
        let foreign = content.claim.as_ref().filter(|_| !inspection.is_claimed());
        let foreign = foreign.map(|claim| ForeignClaim { serial: claim.serial.clone() });
        let named = content.findings.iter().map(|&finding| Contains { finding });
        // A recognized format is more specific than "not blank", so it replaces that reason.
        let blank = content.edge_data.filter(|_| content.findings.is_empty());
        named.chain(foreign).chain(blank.map(|offset| NotBlank { offset })).collect::<Vec<_>>()
    });
    let found: Vec<Refusal> = found.collect();
    inspection.refusals.extend(found);
    inspection
}

/// Opens a block device exclusively: nobody else can mount, claim or exclusively open it. Fails if
/// somebody already has, for longer than the moment for which another list of disks holds it
/// ([`inspect`]).
fn exclusive(path: &Path, write: bool) -> io::Result<File> {
    for _ in 0..MOMENTS {
        match exclusive_now(path, write) {
            Err(error) if is_busy(&error) => std::thread::sleep(MOMENT),
            opened => return opened,
        }
    }
    exclusive_now(path, write)
}

fn exclusive_now(path: &Path, write: bool) -> io::Result<File> {
    // Without O_CREAT, O_EXCL claims a block device in the kernel, as a mount does (open(2)).
    let flags = (OFlags::EXCL | OFlags::CLOEXEC).bits();
    let flags = i32::try_from(flags).expect("open flags are small numbers");
    OpenOptions::new().read(true).write(write).custom_flags(flags).open(path)
}

fn is_busy(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::BUSY.raw_os_error())
}

/// Returns the device file of the kernel's `name`. sysfs writes `!` for `/`.
fn device_path(name: &str) -> std::path::PathBuf {
    Path::new("/dev").join(name.replace('!', "/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u64 = 8 << 20;

    fn disk() -> Topology {
        Topology {
            name: "sdx".into(),
            number: (8, 240),
            size_bytes: SIZE,
            serial: Some("OWN".into()),
            logical_block_bytes: 512,
            ..Topology::default()
        }
    }

    /// Returns the inspection of a disk with a claim for `claimed`, if any, and `data` in its
    /// middle.
    fn found(claimed: Option<(&str, u64)>, data: &[u8]) -> Inspection {
        let device = tempfile::tempfile().expect("a file");
        device.set_len(SIZE).expect("room");
        if let Some((serial, size_bytes)) = claimed {
            let claim = Claim { serial: serial.into(), size_bytes, uuid: "u".into(), claimed_s: 1 };
            device.write_all_at(&claim.encode().expect("it fits"), 0).expect("room");
        }
        device.write_all_at(data, SIZE / 2).expect("room");
        judged(disk(), Some(&device))
    }

    #[test]
    fn a_claim_is_for_one_disk_of_one_size_and_one_person_who_names_it() {
        let own = found(Some(("OWN", SIZE)), b"");
        assert_eq!(own.refusals_of_writing(Some("OWN")), []);
        assert_eq!(own.refusals_of_writing(None), [NoConsent]);
        assert_eq!(own.refusals_of_writing(Some("X")), [OtherSerial { named: "X".into() }]);
        for foreign in [("OTHER", SIZE), ("OWN", 2 * SIZE)] {
            let serial = foreign.0.to_owned();
            assert_eq!(
                found(Some(foreign), b"").refusals_of_writing(Some("OWN")),
                [ForeignClaim { serial }]
            );
        }
        assert_eq!(found(None, b"").refusals_of_writing(Some("OWN")), [Unclaimed]);
    }

    #[test]
    fn data_in_the_middle_bars_a_claim_unless_loads_wrote_it() {
        assert_eq!(found(None, b"").refusals_of_claiming("OWN"), []);
        assert_eq!(found(None, b"").refusals_of_claiming("X"), [OtherSerial { named: "X".into() }]);
        assert_eq!(found(None, b"x").refusals_of_claiming("OWN"), [NotBlank { offset: SIZE / 2 }]);
        assert_eq!(
            found(Some(("OWN", SIZE)), b"x").refusals_of_claiming("OWN"),
            [],
            "it is claimed anew"
        );
        let foreign = found(Some(("OTHER", SIZE)), b"x").refusals_of_claiming("OWN");
        assert!(foreign.contains(&NotBlank { offset: SIZE / 2 }), "{foreign:?}");
    }

    #[test]
    fn a_use_or_another_disk_of_the_same_number_ends_the_permission() {
        assert_eq!(refusals_of_change(&disk(), Some("OWN")), []);
        assert_eq!(refusals_of_change(&disk(), Some("X")), [OtherSerial { named: "X".into() }]);
        let by = Use::Swap { device: "sdx".into() };
        let used = Topology { uses: vec![by.clone()], ..disk() };
        assert_eq!(refusals_of_change(&used, Some("OWN")), [InUse { by }]);
    }

    #[test]
    fn every_reason_against_a_disk_is_reported() {
        let judged = |topology: Topology| judged(topology, None).refusals;
        assert_eq!(judged(disk()), []);
        assert_eq!(judged(Topology { read_only: true, ..disk() }), [ReadOnly]);
        assert_eq!(judged(Topology { serial: None, ..disk() }), [NoSerial]);
        assert_eq!(judged(Topology { size_bytes: LEAST_BYTES - 1, ..disk() }), [TooSmall]);
        assert_eq!(judged(Topology { size_bytes: LEAST_BYTES, ..disk() }), []);
    }

    #[test]
    fn reasons_are_in_the_order_of_their_weight() {
        let by = Use::Swap { device: "sdx".into() };
        let worst = Topology {
            uses: vec![by.clone()],
            read_only: true,
            serial: None,
            size_bytes: LEAST_BYTES - 1,
            ..disk()
        };
        let in_order = [InUse { by }, ReadOnly, NoSerial, TooSmall];
        assert_eq!(judged(worst.clone(), None).refusals, in_order);
        let error = io::Error::from(io::ErrorKind::PermissionDenied);
        let refusals = unreadable(worst, &error).refusals;
        assert_eq!(refusals[..1], in_order[..1]);
        assert_eq!(refusals[1], Unreadable { cause: error.to_string() });
        assert_eq!(refusals[2..], in_order[1..]);
        let foreign = found(Some(("OTHER", SIZE)), b"x").refusals_of_claiming("X");
        assert!(
            matches!(foreign[..], [ForeignClaim { .. }, NotBlank { .. }, OtherSerial { .. }]),
            "{foreign:?}"
        );
    }
}
