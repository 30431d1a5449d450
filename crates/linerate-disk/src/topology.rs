//! Which disks and partitions there are, and who uses them: read from sysfs and proc.
//!
//! A device is in use if it, one of its partitions, the disk it is a partition of, or anything stacked upon them is mounted in any mount
//! namespace, swapped to, held by device mapper, md or bcache, or lies behind a loop device. The kernel's exclusive open is the
//! last word on most of this; here is who to name. Sizes in sysfs are in units of 512 bytes.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use serde::Serialize;

/// Sizes in sysfs are in units of 512 bytes whatever the device's block is.
const SYSFS_SECTOR: u64 = 512;
/// How deep devices are stacked at most.
const MOST_STACKED: usize = 16;

/// One use of a device.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "use", rename_all = "snake_case")]
pub enum Use {
    /// A filesystem on it is mounted.
    Mounted {
        /// The device: this one, or one that lies on it.
        device: String,
        /// Where.
        at: String,
    },
    /// The system swaps to it.
    Swap {
        /// The device.
        device: String,
    },
    /// Another device is made of it.
    Held {
        /// The device.
        device: String,
        /// What is made of it.
        by: String,
    },
    /// It is divided.
    Partition {
        /// A part.
        name: String,
    },
    /// A loop device shows it, or shows what it shows.
    BehindLoop {
        /// The loop device.
        by: String,
    },
}

impl fmt::Display for Use {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mounted { device, at } => write!(f, "{device} is mounted at {at}"),
            Self::Swap { device } => write!(f, "the system swaps to {device}"),
            Self::Held { device, by } => write!(f, "{by} is made of {device}"),
            Self::Partition { name } => write!(f, "{name} is a partition of it"),
            Self::BehindLoop { by } => write!(f, "{by} shows the same contents"),
        }
    }
}

/// A disk or partition as the kernel describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Topology {
    /// The kernel's name, such as `nvme0n1p2`.
    pub name: String,
    /// Major and minor number.
    pub number: (u32, u32),
    /// The disk it is a partition of, if it is one.
    pub partition_of: Option<String>,
    /// Bytes.
    pub size_bytes: u64,
    /// What tells it from every other: the maker's serial number, or what stands for it. A partition's is its disk's with its number.
    pub serial: Option<String>,
    /// The maker's name for it.
    pub model: Option<String>,
    /// Whether the kernel refuses writes.
    pub read_only: bool,
    /// Whether it turns.
    pub rotational: Option<bool>,
    /// The least that can be transferred, bytes.
    pub logical_block_bytes: u64,
    /// Who uses it.
    pub uses: Vec<Use>,
}

/// What the kernel shows of its devices, read once.
#[derive(Debug)]
pub(crate) struct System {
    root: PathBuf,
    nodes: Vec<Node>,
    mounts: Vec<Mount>,
    swaps: Vec<String>,
    /// Loop devices and what they show.
    loops: Vec<(String, String)>,
}

#[derive(Clone, Debug)]
struct Node {
    name: String,
    number: (u32, u32),
    partition_of: Option<String>,
    folder: PathBuf,
}

#[derive(Debug)]
struct Mount {
    number: (u32, u32),
    source: String,
    at: String,
}

impl System {
    /// The system whose files lie under `root`.
    pub(crate) fn read(root: &Path) -> Self {
        let nodes = nodes(root);
        let loops =
            nodes.iter().filter_map(|node| Some((node.name.clone(), text(&node.folder.join("loop/backing_file"))?)));
        let loops = loops.collect();
        let swaps = text(&root.join("proc/swaps")).unwrap_or_default();
        let swaps = swaps.lines().skip(1).filter_map(|line| line.split_whitespace().next().map(unescaped)).collect();
        Self { root: root.to_owned(), mounts: mounts(root), swaps, loops, nodes }
    }

    /// Every whole disk, by name.
    pub(crate) fn disks(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.nodes.iter().filter(|node| node.partition_of.is_none()).map(|node| node.number)
    }

    /// The device of this number.
    pub(crate) fn describe(&self, number: (u32, u32)) -> Option<Topology> {
        let node = self.nodes.iter().find(|node| node.number == number)?;
        let disk = self.nodes.iter().find(|other| Some(&other.name) == node.partition_of.as_ref()).unwrap_or(node);
        let queue = |file: &str| text(&disk.folder.join("queue").join(file));
        let serial = self.serial(disk).map(|serial| match text(&node.folder.join("partition")) {
            Some(part) => format!("{serial}-part{part}"),
            None => serial,
        });
        let model = text(&disk.folder.join("device/model")).filter(|model| !model.is_empty());
        let sectors = text(&node.folder.join("size")).and_then(|size| size.parse::<u64>().ok()).unwrap_or(0);
        Some(Topology {
            name: node.name.clone(),
            number,
            partition_of: node.partition_of.clone(),
            size_bytes: sectors.saturating_mul(SYSFS_SECTOR),
            serial,
            model,
            read_only: [node, disk].iter().any(|node| text(&node.folder.join("ro")).as_deref() == Some("1")),
            rotational: queue("rotational").map(|rotational| rotational == "1"),
            logical_block_bytes: queue("logical_block_size").and_then(|size| size.parse().ok()).unwrap_or(SYSFS_SECTOR),
            uses: self.uses(node),
        })
    }

    fn uses(&self, node: &Node) -> Vec<Use> {
        let parts = || self.nodes.iter().filter(|other| other.partition_of.as_ref() == Some(&node.name));
        let disk = self.nodes.iter().filter(|other| node.partition_of.as_ref() == Some(&other.name));
        let mut uses: BTreeSet<Use> = parts().map(|part| Use::Partition { name: part.name.clone() }).collect();
        let related: Vec<&Node> = std::iter::once(node).chain(parts()).chain(disk).collect();
        for device in &related {
            self.stacked(device, MOST_STACKED, &mut uses);
        }
        uses.extend(self.loops_over(node, &related));
        uses.into_iter().collect()
    }

    /// Uses of `node` and of everything made of it.
    fn stacked(&self, node: &Node, depth: usize, uses: &mut BTreeSet<Use>) {
        let device = || node.name.clone();
        let mounts = self.mounts.iter().filter(|mount| mount.number == node.number || self.is(&mount.source, node));
        uses.extend(mounts.map(|mount| Use::Mounted { device: device(), at: mount.at.clone() }));
        let backing = self.loops.iter().find(|(name, _)| *name == node.name).map(|(_, file)| file);
        if self.swaps.iter().any(|swap| self.is(swap, node) || Some(swap) == backing) {
            uses.insert(Use::Swap { device: device() });
        }
        for by in names(&node.folder.join("holders")) {
            if let Some(holder) = self.nodes.iter().find(|other| other.name == by).filter(|_| depth > 0) {
                self.stacked(holder, depth - 1, uses);
            }
            uses.insert(Use::Held { device: device(), by });
        }
    }

    /// Loop devices that show one of `related`, or what `node` shows if it is a loop device itself.
    fn loops_over(&self, node: &Node, related: &[&Node]) -> Vec<Use> {
        let own = self.loops.iter().find(|(name, _)| *name == node.name).map(|(_, file)| file);
        let others = self.loops.iter().filter(|(name, file)| {
            let same = *name != node.name && Some(file) == own;
            same || related.iter().any(|device| self.is(file, device))
        });
        others.map(|(name, _)| Use::BehindLoop { by: name.clone() }).collect()
    }

    /// Whether `path` is a name of `node`.
    fn is(&self, path: &str, node: &Node) -> bool {
        path.starts_with('/')
            && fs::metadata(self.root.join(&path[1..]))
                .is_ok_and(|file| file.file_type().is_block_device() && split(file.rdev()) == node.number)
    }

    /// What tells `disk` from every other.
    fn serial(&self, disk: &Node) -> Option<String> {
        const FILES: [&str; 7] = ["serial", "device/serial", "wwid", "device/wwid", "nvme/wwid", "dm/uuid", "md/uuid"];
        let named = FILES.iter().filter_map(|file| text(&disk.folder.join(file))).find(|serial| !serial.is_empty());
        named.or_else(|| unit_serial(&disk.folder.join("device/vpd_pg80"))).or_else(|| {
            // The file behind a loop device stands for its serial number.
            let (_, file) = self.loops.iter().find(|(name, _)| *name == disk.name)?;
            let file = fs::metadata(self.root.join(file.strip_prefix('/')?)).ok()?;
            Some(format!("file-{:x}-{}", file.dev(), file.ino()))
        })
    }
}

/// The unit serial number page of SCSI (SPC-5 clause 7.7.10): four bytes of header, then text.
fn unit_serial(path: &Path) -> Option<String> {
    const HEADER: usize = 4;
    let page = fs::read(path).ok()?;
    let serial = String::from_utf8_lossy(page.get(HEADER..)?).trim_matches([' ', '\0']).to_owned();
    (!serial.is_empty()).then_some(serial)
}

/// Every disk and partition, by name.
fn nodes(root: &Path) -> Vec<Node> {
    let block = root.join("sys/block");
    let node = |folder: PathBuf, name: String, partition_of: Option<String>| {
        let number = number(&text(&folder.join("dev"))?)?;
        Some(Node { name, number, partition_of, folder })
    };
    let mut found = Vec::new();
    for name in names(&block) {
        let folder = block.join(&name);
        let parts = names(&folder).into_iter().filter(|part| folder.join(part).join("partition").exists());
        let parts: Vec<Node> = parts.filter_map(|part| node(folder.join(&part), part, Some(name.clone()))).collect();
        found.extend(node(folder, name, None));
        found.extend(parts);
    }
    found
}

/// Mounts of every mount namespace there is; this process's own first.
fn mounts(root: &Path) -> Vec<Mount> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    let processes = names(&root.join("proc")).into_iter().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
    for process in std::iter::once("self".to_owned()).chain(processes) {
        let folder = root.join("proc").join(&process);
        let namespace = fs::read_link(folder.join("ns/mnt")).ok();
        if process != "self" && namespace.as_ref().is_none_or(|namespace| seen.contains(namespace)) {
            continue;
        }
        found.extend(text(&folder.join("mountinfo")).unwrap_or_default().lines().filter_map(mount));
        seen.extend(namespace);
    }
    found
}

/// A line of mountinfo (proc(5)): `36 35 98:0 / /mnt rw - ext3 /dev/root rw`.
fn mount(line: &str) -> Option<Mount> {
    let (place, device) = line.split_once(" - ")?;
    let mut place = place.split(' ').skip(2);
    let number = number(place.next()?)?;
    let at = unescaped(place.nth(1)?);
    Some(Mount { number, source: unescaped(device.split(' ').nth(1)?), at })
}

fn number(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Major and minor number of a device number as `stat` has it.
pub(crate) fn split(device: u64) -> (u32, u32) {
    (rustix::fs::major(device), rustix::fs::minor(device))
}

/// Proc writes blanks, tabs, newlines and backslashes as `\` and three octal digits.
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
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A system of files: `path`, contents.
    fn system(files: &[(&str, &str)]) -> (tempfile::TempDir, System) {
        let root = tempfile::tempdir().expect("a folder");
        for (path, contents) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("it has one")).expect("a folder");
            fs::write(path, contents).expect("a file");
        }
        let system = System::read(root.path());
        (root, system)
    }

    const STACK: &[(&str, &str)] = &[
        ("sys/block/sda/dev", "8:0\n"),
        ("sys/block/sda/size", "2048\n"),
        ("sys/block/sda/device/model", "SOME DISK  \n"),
        ("sys/block/sda/device/vpd_pg80", "\0\0\0\u{8}  S3R1AL\0"),
        ("sys/block/sda/sda1/dev", "8:1\n"),
        ("sys/block/sda/sda1/partition", "1\n"),
        ("sys/block/sda/sda1/size", "1024\n"),
        ("sys/block/sda/sda1/holders/md0", ""),
        ("sys/block/sda/sda2/dev", "8:2\n"),
        ("sys/block/sda/sda2/partition", "2\n"),
        ("sys/block/md0/dev", "9:0\n"),
        ("sys/block/md0/holders/dm-0", ""),
        ("sys/block/dm-0/dev", "252:0\n"),
        ("sys/block/sdb/dev", "8:16\n"),
        ("sys/block/sdb/serial", "B\n"),
        ("sys/block/sdb/ro", "1\n"),
        ("proc/self/mountinfo", "36 35 252:0 / /data\\040here rw,noatime master:1 - ext4 /dev/mapper/x rw\n"),
        ("proc/swaps", "Filename Type Size Used Priority\n"),
    ];

    #[test]
    fn uses_are_found_through_partitions_and_stacks() {
        let (_root, system) = system(STACK);
        let disk = system.describe((8, 0)).expect("sda");
        let told: Vec<String> = disk.uses.iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                "dm-0 is mounted at /data here",
                "dm-0 is made of md0",
                "md0 is made of sda1",
                "sda1 is a partition of it",
                "sda2 is a partition of it",
            ]
        );
        assert_eq!(disk.size_bytes, 1 << 20);
        assert_eq!((disk.serial.as_deref(), disk.model.as_deref()), (Some("S3R1AL"), Some("SOME DISK")));
    }

    #[test]
    fn a_partition_that_nobody_uses_is_free_and_has_its_own_serial() {
        let (_root, system) = system(STACK);
        let part = system.describe((8, 2)).expect("sda2");
        assert_eq!((part.uses.as_slice(), part.serial.as_deref()), ([].as_slice(), Some("S3R1AL-part2")));
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
        std::os::unix::fs::symlink("mnt:[4]", root.path().join("proc/7/ns/mnt")).expect("another namespace");
        let system = System::read(root.path());
        let told = system.describe((8, 2)).expect("sda2").uses;
        assert_eq!(told, [Use::Mounted { device: "sda".into(), at: "/".into() }]);
    }
}
