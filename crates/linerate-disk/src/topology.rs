//! Disks and partitions of a host and their users, read from sysfs and proc.
//!
//! A device is in use if anything with the same bytes is mounted in any mount namespace, used for
//! swap, part of device mapper, md or bcache, or shown by a loop device ([`relations`]). The
//! kernel's exclusive open protects one device node only. This module knows the devices above and
//! below it, and can name the users.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use serde::Serialize;

use backing::Backing;
use relations::Walk;

mod backing;
mod below;
mod relations;

/// Unit of sizes in sysfs, whatever the block size of the device is.
const SYSFS_SECTOR: u64 = 512;
/// Largest depth of stacked devices.
const MOST_STACKED: usize = 16;

/// Use of a device.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "use", rename_all = "snake_case")]
pub enum Use {
    /// A filesystem on it is mounted.
    Mounted {
        /// This device, or one that is built on it.
        device: String,
        /// Mount point.
        at: String,
    },
    /// The system uses it for swap.
    Swap {
        /// This device, or one that is built on it.
        device: String,
    },
    /// Another device is built from it.
    Held {
        /// This device, or one that is built on it.
        device: String,
        /// The device that is built from it.
        by: String,
    },
    /// It has a partition.
    Partition {
        /// Name of the partition.
        name: String,
    },
    /// A loop device shows it, or shows the same object.
    BehindLoop {
        /// The loop device.
        by: String,
    },
    /// A loop device shows a file that may be the same as this device's file; the numbers do not
    /// decide.
    Unclear {
        /// The loop device.
        by: String,
    },
}

impl fmt::Display for Use {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mounted { device, at } => write!(f, "{device} is mounted at {at}"),
            Self::Swap { device } => write!(f, "the system swaps to {device}"),
            Self::Held { device, by } => write!(f, "{by} is built from {device}"),
            Self::Partition { name } => write!(f, "{name} is a partition of it"),
            Self::BehindLoop { by } => write!(f, "{by} shows the same contents"),
            Self::Unclear { by } => write!(
                f,
                "{by} may show the same contents: its file, or this device's file, is on a \
                    filesystem that shows files of other filesystems"
            ),
        }
    }
}

/// Disk or partition as the kernel describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Topology {
    /// The kernel's name, such as `nvme0n1p2`.
    pub name: String,
    /// Major and minor number.
    pub number: (u32, u32),
    /// Disk that contains it, if it is a partition.
    pub partition_of: Option<String>,
    /// Size, bytes.
    pub size_bytes: u64,
    /// Unique identity: the manufacturer's serial number, or a replacement. A partition has its
    /// disk's serial number with its own number appended.
    pub serial: Option<String>,
    /// Model name of the manufacturer.
    pub model: Option<String>,
    /// True if the kernel refuses writes.
    pub read_only: bool,
    /// True if it is a rotating disk.
    pub rotational: Option<bool>,
    /// Smallest transfer, bytes.
    pub logical_block_bytes: u64,
    /// Its users.
    pub uses: Vec<Use>,
}

/// Snapshot of what the kernel lists about its devices.
#[derive(Debug)]
pub(crate) struct System {
    nodes: Vec<Node>,
    mounts: Vec<Mount>,
    /// Files and devices that are used for swap.
    swaps: Vec<(String, Backing)>,
    /// Loop devices and the objects behind them.
    loops: Vec<(String, Backing)>,
    /// Devices of mounted filesystems that may span several devices, with these filesystems.
    pools: Vec<(String, String)>,
}

#[derive(Clone, Debug)]
struct Node {
    name: String,
    number: (u32, u32),
    partition_of: Option<String>,
    /// First sector and number of sectors of a partition.
    span: Option<(u64, u64)>,
    /// Devices from which a volume is built.
    slaves: Vec<String>,
    folder: PathBuf,
}

#[derive(Debug)]
struct Mount {
    number: (u32, u32),
    /// Number of the block device that is its source.
    source: Option<(u32, u32)>,
    at: String,
    /// Type of the filesystem.
    kind: String,
}

impl System {
    /// Reads the system whose files are under `root`.
    pub(crate) fn read(root: &Path) -> Self {
        let (nodes, mounts) = (nodes(root), mounts(root));
        let shown = |node: &Node| Backing::of_loop(root, &node.name, &node.folder, &mounts);
        let loops =
            nodes.iter().filter_map(|node| Some((node.name.clone(), shown(node)?))).collect();
        let swaps = text(&root.join("proc/swaps")).unwrap_or_default();
        let swaps =
            swaps.lines().skip(1).filter_map(|line| line.split_whitespace().next().map(unescaped));
        let swaps = swaps.map(|path| (path.clone(), Backing::at(root, &path, &mounts))).collect();
        Self { pools: pools(root), mounts, swaps, loops, nodes }
    }

    /// Returns why users may be unknown under `root`: the lists of mounts or swap cannot be read.
    pub(crate) fn blindness(root: &Path) -> Option<String> {
        let unread = |file: &str| {
            fs::File::open(root.join(file)).err().map(|cause| (file.to_owned(), cause))
        };
        // A kernel without swap has no such list.
        let swaps =
            unread("proc/swaps").filter(|(_, cause)| cause.kind() != std::io::ErrorKind::NotFound);
        let unread = unread("proc/self/mountinfo").or(swaps)?;
        Some(format!("/{}: {}, so its users are unknown", unread.0, unread.1))
    }

    /// Returns every whole disk, by name.
    pub(crate) fn disks(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.nodes.iter().filter(|node| node.partition_of.is_none()).map(|node| node.number)
    }

    /// Returns the device with this number.
    pub(crate) fn describe(&self, number: (u32, u32)) -> Option<Topology> {
        let node = self.nodes.iter().find(|node| node.number == number)?;
        let disk = self
            .nodes
            .iter()
            .find(|other| Some(&other.name) == node.partition_of.as_ref())
            .unwrap_or(node);
        let queue = |file: &str| text(&disk.folder.join("queue").join(file));
        let model = text(&disk.folder.join("device/model")).filter(|model| !model.is_empty());
        let sectors =
            text(&node.folder.join("size")).and_then(|size| size.parse::<u64>().ok()).unwrap_or(0);
        Some(Topology {
            name: node.name.clone(),
            number,
            partition_of: node.partition_of.clone(),
            size_bytes: sectors.saturating_mul(SYSFS_SECTOR),
            serial: self.serial(node, MOST_STACKED),
            model,
            // Not every kernel reports it for a partition of a read-only disk.
            read_only: [node, disk]
                .iter()
                .any(|node| text(&node.folder.join("ro")).as_deref() == Some("1")),
            rotational: queue("rotational").map(|rotational| rotational == "1"),
            logical_block_bytes: queue("logical_block_size")
                .and_then(|size| size.parse().ok())
                .unwrap_or(SYSFS_SECTOR),
            uses: Walk::uses(self, node),
        })
    }

    /// Returns the device `name`.
    fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| node.name == name)
    }

    /// Returns its partitions.
    fn partitions(&self, node: &Node) -> Vec<&Node> {
        self.nodes.iter().filter(|other| other.partition_of.as_ref() == Some(&node.name)).collect()
    }

    /// Returns the devices that are built from it, according to either end.
    fn holders(&self, node: &Node) -> Vec<&Node> {
        // Both ends are read: some drivers register only the holder, others only the slave.
        let listed = names(&node.folder.join("holders"));
        let is_one =
            |other: &&Node| listed.contains(&other.name) || other.slaves.contains(&node.name);
        self.nodes.iter().filter(is_one).collect()
    }

    /// Returns the devices below it: the disk of a partition, the parts of a volume, the device
    /// behind a loop device.
    fn below(&self, node: &Node) -> Vec<&Node> {
        let shown = self.backing(node);
        let others = self.nodes.iter().filter(|other| {
            node.partition_of.as_ref() == Some(&other.name)
                || node.slaves.contains(&other.name)
                || shown == Some(&Backing::Device(other.number))
        });
        others.collect()
    }

    /// Returns the object behind a loop device.
    fn backing(&self, node: &Node) -> Option<&Backing> {
        self.loops.iter().find(|(name, _)| *name == node.name).map(|(_, backing)| backing)
    }

    /// Returns the path with which a loop device was set up.
    fn loop_path(&self, node: &Node) -> Option<String> {
        text(&node.folder.join("loop/backing_file"))
    }

    /// Returns other nodes of the disk `disk`. Paths to one storage unit have the same world-wide
    /// name, or the same serial number if they have no such name.
    fn twins(&self, disk: &Node) -> Vec<&Node> {
        let (name, serial) = (world_wide_name(disk), maker_serial(disk));
        // Two disks without any identity are not the same disk.
        if name.is_none() && serial.is_none() {
            return Vec::new();
        }
        let others = self
            .nodes
            .iter()
            .filter(|other| other.partition_of.is_none() && other.number != disk.number);
        let twins = others.filter(|other| match (&name, world_wide_name(other)) {
            (Some(name), Some(other)) => *name == other,
            _ => serial.is_some() && serial == maker_serial(other),
        });
        twins.collect()
    }

    /// Returns the unique identity of `node`. A partition has its disk's with its number appended.
    fn serial(&self, node: &Node, depth: usize) -> Option<String> {
        const VOLUMES: [&str; 2] = ["dm/uuid", "md/uuid"];
        let disk = node.partition_of.as_ref().and_then(|name| self.node(name)).unwrap_or(node);
        // The most specific source first: a volume's UUID only if the maker gave no number.
        let serial = first_of(disk, &SERIAL)
            .or_else(|| world_wide_name(disk))
            .or_else(|| first_of(disk, &VOLUMES));
        let serial = serial.or_else(|| unit_serial(disk)).or_else(|| match self.backing(disk)? {
            // The file behind a loop device replaces a serial number.
            Backing::File { number: (device, inode), .. } => {
                Some(format!("file-{device:x}-{inode}"))
            }
            Backing::Device(number) if depth > 0 => {
                self.serial(self.nodes.iter().find(|node| node.number == *number)?, depth - 1)
            }
            _ => None,
        });
        serial.map(|serial| match text(&node.folder.join("partition")) {
            Some(part) => format!("{serial}-part{part}"),
            None => serial,
        })
    }
}

/// Files with the serial number. For NVMe it belongs to the controller, and all its namespaces
/// share it.
const SERIAL: [&str; 2] = ["serial", "device/serial"];

/// Returns the serial number from the manufacturer.
fn maker_serial(disk: &Node) -> Option<String> {
    first_of(disk, &SERIAL).or_else(|| unit_serial(disk))
}

/// Returns the name that is unique to this storage unit, whatever path leads to it.
fn world_wide_name(disk: &Node) -> Option<String> {
    first_of(disk, &["wwid", "device/wwid", "nvme/wwid"])
}

/// Returns the contents of the first of these files that is not empty.
fn first_of(disk: &Node, files: &[&str]) -> Option<String> {
    files.iter().filter_map(|file| text(&disk.folder.join(file))).find(|text| !text.is_empty())
}

/// Returns the serial number from SCSI's unit serial number page (SPC-5 clause 7.7.10): four bytes
/// of header, then text.
fn unit_serial(disk: &Node) -> Option<String> {
    const HEADER: usize = 4;
    let page = fs::read(disk.folder.join("device/vpd_pg80")).ok()?;
    let serial = String::from_utf8_lossy(page.get(HEADER..)?).trim_matches([' ', '\0']).to_owned();
    (!serial.is_empty()).then_some(serial)
}

/// Returns every disk and partition, by name.
fn nodes(root: &Path) -> Vec<Node> {
    let block = root.join("sys/block");
    let mut found = Vec::new();
    for name in names(&block) {
        let folder = block.join(&name);
        let parts =
            names(&folder).into_iter().filter(|part| folder.join(part).join("partition").exists());
        let parts: Vec<Node> =
            parts.filter_map(|part| node(folder.join(&part), part, Some(name.clone()))).collect();
        found.extend(node(folder, name, None));
        found.extend(parts);
    }
    found
}

/// Reads the device with the sysfs folder `folder`.
fn node(folder: PathBuf, name: String, partition_of: Option<String>) -> Option<Node> {
    let number = number(&text(&folder.join("dev"))?)?;
    let sectors = |file: &str| text(&folder.join(file)).and_then(|sectors| sectors.parse().ok());
    let span = partition_of.is_some().then(|| sectors("start").zip(sectors("size"))).flatten();
    let slaves = names(&folder.join("slaves"));
    Some(Node { name, number, partition_of, span, slaves, folder })
}

/// Returns the mounts of every mount namespace, this process's own first.
fn mounts(root: &Path) -> Vec<Mount> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    let processes = names(&root.join("proc"))
        .into_iter()
        .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
    for process in std::iter::once("self".to_owned()).chain(processes) {
        let folder = root.join("proc").join(&process);
        let namespace = fs::read_link(folder.join("ns/mnt")).ok();
        // One process per namespace is enough: a host has hundreds of processes, but few
        // namespaces. A process that may not be inspected is skipped; without root its mounts stay
        // unknown.
        if process != "self" && namespace.as_ref().is_none_or(|namespace| seen.contains(namespace))
        {
            continue;
        }
        let lines = text(&folder.join("mountinfo")).unwrap_or_default();
        found.extend(lines.lines().filter_map(|line| mount(root, line)));
        seen.extend(namespace);
    }
    found
}

/// Parses a line of mountinfo (proc(5)): `36 35 98:0 / /mnt rw - ext3 /dev/root rw`.
fn mount(root: &Path, line: &str) -> Option<Mount> {
    let (place, device) = line.split_once(" - ")?;
    let mut place = place.split(' ').skip(2);
    let number = number(place.next()?)?;
    let at = unescaped(place.nth(1)?);
    let mut device = device.split(' ');
    let kind = device.next()?.to_owned();
    let source = unescaped(device.next()?);
    // The source matters beside the device number: btrfs and others mount under an anonymous
    // number that belongs to no block device.
    let source = source.strip_prefix('/').and_then(|source| fs::metadata(root.join(source)).ok());
    let source =
        source.filter(|file| file.file_type().is_block_device()).map(|file| split(file.rdev()));
    Some(Mount { number, source, at, kind })
}

/// Returns the devices of mounted btrfs filesystems: a mount names only one of several.
fn pools(root: &Path) -> Vec<(String, String)> {
    let folder = root.join("sys/fs/btrfs");
    let members = names(&folder).into_iter().flat_map(|pool| {
        let devices = names(&folder.join(&pool).join("devices"));
        devices.into_iter().map(move |device| (device, format!("btrfs {pool}")))
    });
    members.collect()
}

fn number(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Splits a device number of `stat` into major and minor number.
pub(crate) fn split(device: u64) -> (u32, u32) {
    (rustix::fs::major(device), rustix::fs::minor(device))
}

/// Decodes the escapes of proc, which writes blanks, tabs, newlines and backslashes as `\` and
/// three octal digits.
fn unescaped(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        plain.push_str(before);
        match after.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                plain.push(char::from(byte));
                rest = &after[3..];
            }
            // Not an escape, so the backslash is kept: a wrong path is only a message.
            None => {
                plain.push('\\');
                rest = after;
            }
        }
    }
    plain + rest
}

fn text(path: &Path) -> Option<String> {
    fs::read(path).ok().map(|bytes| String::from_utf8_lossy(&bytes).trim().to_owned())
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    // Sorted, so that refusals do not depend on the order of a directory.
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a system of files: path and contents.
    pub(super) fn system(files: &[(&str, &str)]) -> (tempfile::TempDir, System) {
        let root = tempfile::tempdir().expect("a folder");
        for (path, contents) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("it has one")).expect("a folder");
            fs::write(path, contents).expect("a file");
        }
        let system = System::read(root.path());
        (root, system)
    }

    pub(super) const STACK: &[(&str, &str)] = &[
        ("sys/block/sda/dev", "8:0\n"),
        ("sys/block/sda/size", "2048\n"),
        ("sys/block/sda/device/model", "SOME DISK  \n"),
        ("sys/block/sda/device/vpd_pg80", "\0\0\0\u{8}  S3R1AL\0"),
        ("sys/block/sda/sda1/dev", "8:1\n"),
        ("sys/block/sda/sda1/partition", "1\n"),
        ("sys/block/sda/sda1/start", "34\n"),
        ("sys/block/sda/sda1/size", "1024\n"),
        ("sys/block/sda/sda1/holders/md0", ""),
        ("sys/block/sda/sda2/dev", "8:2\n"),
        ("sys/block/sda/sda2/partition", "2\n"),
        ("sys/block/sda/sda2/start", "1058\n"),
        ("sys/block/sda/sda2/size", "512\n"),
        ("sys/block/md0/dev", "9:0\n"),
        ("sys/block/md0/holders/dm-0", ""),
        ("sys/block/dm-0/dev", "252:0\n"),
        ("sys/block/sdb/dev", "8:16\n"),
        ("sys/block/sdb/serial", "B\n"),
        ("sys/block/sdb/ro", "1\n"),
        (
            "proc/self/mountinfo",
            "36 35 252:0 / /data\\040here rw,noatime master:1 - ext4 /dev/mapper/x rw\n",
        ),
        ("proc/swaps", "Filename Type Size Used Priority\n"),
    ];

    #[test]
    fn uses_are_found_through_partitions_and_stacks() {
        let (_root, system) = system(STACK);
        let disk = system.describe((8, 0)).expect("sda");
        let uses: Vec<String> = disk.uses.iter().map(ToString::to_string).collect();
        assert_eq!(
            uses,
            [
                "dm-0 is mounted at /data here",
                "dm-0 is built from md0",
                "md0 is built from sda1",
                "sda1 is a partition of it",
                "sda2 is a partition of it",
            ]
        );
        assert_eq!(disk.size_bytes, 1 << 20);
        assert_eq!(
            (disk.serial.as_deref(), disk.model.as_deref()),
            (Some("S3R1AL"), Some("SOME DISK"))
        );
    }

    #[test]
    fn a_partition_that_nobody_uses_is_free_and_has_its_own_serial() {
        let (_root, system) = system(STACK);
        let part = system.describe((8, 2)).expect("sda2");
        assert_eq!(
            (part.uses.as_slice(), part.serial.as_deref()),
            ([].as_slice(), Some("S3R1AL-part2"))
        );
        assert_eq!(part.partition_of.as_deref(), Some("sda"));
        assert!(system.describe((8, 16)).expect("sdb").read_only);
        assert!(system.describe((8, 99)).is_none());
        assert_eq!(system.disks().count(), 4);
    }

    #[test]
    fn a_mounted_whole_disk_is_a_use_of_its_partitions_too() {
        let mounted = ("proc/7/mountinfo", "1 0 8:0 / / rw - xfs /dev/sda rw\n");
        let (root, _) = system(&[STACK, &[mounted]].concat());
        std::fs::create_dir_all(root.path().join("proc/7/ns")).expect("a folder");
        std::os::unix::fs::symlink("mnt:[4]", root.path().join("proc/7/ns/mnt"))
            .expect("another namespace");
        let system = System::read(root.path());
        let uses = system.describe((8, 2)).expect("sda2").uses;
        assert_eq!(uses, [Use::Mounted { device: "sda".into(), at: "/".into() }]);
    }

    /// Two paths to one storage unit, one of which is mounted. A namespace of the same NVMe
    /// controller is another unit.
    #[test]
    fn a_disk_seen_twice_is_one_disk() {
        let (_root, system) = system(&[
            ("sys/block/sda/dev", "8:0\n"),
            ("sys/block/sda/device/wwid", "naa.5000c500a1b2c3d4\n"),
            ("sys/block/sdb/dev", "8:16\n"),
            ("sys/block/sdb/device/wwid", "naa.5000c500a1b2c3d4\n"),
            ("sys/block/sdb/sdb1/dev", "8:17\n"),
            ("sys/block/sdb/sdb1/partition", "1\n"),
            ("sys/block/nvme0n1/dev", "259:0\n"),
            ("sys/block/nvme0n1/device/serial", "ONE CONTROLLER\n"),
            ("sys/block/nvme0n1/wwid", "eui.1\n"),
            ("sys/block/nvme0n2/dev", "259:1\n"),
            ("sys/block/nvme0n2/device/serial", "ONE CONTROLLER\n"),
            ("sys/block/nvme0n2/wwid", "eui.2\n"),
            (
                "proc/self/mountinfo",
                "1 0 8:17 / /a rw - xfs /x rw\n2 0 259:0 / /b rw - xfs /x rw\n",
            ),
        ]);
        let uses = |number| system.describe(number).expect("there").uses;
        assert_eq!(uses((8, 0)), [Use::Mounted { device: "sdb1".into(), at: "/a".into() }]);
        assert_eq!(uses((259, 1)), []);
    }

    /// Another user of a volume's slave counts unless it is a sibling volume.
    #[test]
    fn a_member_of_a_volume_must_have_no_other_user() {
        let volume = [
            ("sys/block/sda/dev", "8:0\n"),
            ("sys/block/sda/holders/dm-0", ""),
            ("sys/block/sda/holders/dm-1", ""),
            ("sys/block/dm-0/dev", "252:0\n"),
            ("sys/block/dm-0/slaves/sda", ""),
            ("sys/block/dm-1/dev", "252:1\n"),
            ("sys/block/dm-1/slaves/sda", ""),
            ("sys/block/sdb/dev", "8:16\n"),
        ];
        let (_root, free) = system(
            &[&volume[..], &[("proc/self/mountinfo", "1 0 252:1 / /a rw - xfs /x rw\n")]].concat(),
        );
        assert_eq!(
            free.describe((252, 0)).expect("there").uses,
            [],
            "dm-1 has an extent of its own"
        );
        let (_root, past) = system(
            &[&volume[..], &[("proc/self/mountinfo", "1 0 8:0 / /a rw - xfs /x rw\n")]].concat(),
        );
        assert_eq!(
            past.describe((252, 0)).expect("there").uses,
            [Use::Mounted { device: "sda".into(), at: "/a".into() }]
        );
    }

    #[test]
    fn unreadable_mounts_mean_unknown_users() {
        let (root, _) = system(STACK);
        assert_eq!(System::blindness(root.path()), None);
        fs::remove_file(root.path().join("proc/swaps")).expect("it is there");
        assert_eq!(System::blindness(root.path()), None, "a kernel without swap");
        std::os::unix::fs::symlink("swaps", root.path().join("proc/swaps"))
            .expect("a link that cannot be opened");
        assert!(System::blindness(root.path()).is_some_and(|why| why.starts_with("/proc/swaps: ")));
        fs::remove_file(root.path().join("proc/self/mountinfo")).expect("it is there");
        assert!(
            System::blindness(root.path())
                .is_some_and(|why| why.starts_with("/proc/self/mountinfo: "))
        );
    }

    #[test]
    fn overlapping_partitions_are_uses_of_each_other() {
        let disk = |start: &'static str| {
            system(&[
                ("sys/block/sda/dev", "8:0\n"),
                ("sys/block/sda/sda1/dev", "8:1\n"),
                ("sys/block/sda/sda1/partition", "1\n"),
                ("sys/block/sda/sda1/start", "0\n"),
                ("sys/block/sda/sda1/size", "100\n"),
                ("sys/block/sda/sda2/dev", "8:2\n"),
                ("sys/block/sda/sda2/partition", "2\n"),
                ("sys/block/sda/sda2/start", start),
                ("sys/block/sda/sda2/size", "100\n"),
                ("proc/self/mountinfo", "1 0 8:1 / /a rw - xfs /x rw\n"),
            ])
        };
        assert_eq!(disk("100\n").1.describe((8, 2)).expect("there").uses, []);
        assert_eq!(disk("99\n").1.describe((8, 2)).expect("there").uses.len(), 1);
    }
}
