//! Disks that hold the bytes of a path: what two loads at a time must not share.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use super::backing::Backing;
use super::{Mount, System, split};

/// Filesystems whose bytes are in memory.
const IN_MEMORY: [&str; 2] = ["ramfs", "tmpfs"];

impl System {
    /// Returns the disks that hold the bytes of the file, folder or device `path`, or would hold
    /// them if it does not exist yet. Empty if they are in memory, `None` if that is unknown.
    pub(crate) fn disks_of(&self, path: &Path) -> Option<BTreeSet<String>> {
        let present = path.ancestors().find_map(|path| fs::metadata(path).ok())?;
        if present.file_type().is_block_device() {
            return self.disks_below(split(present.rdev()));
        }
        self.disks_of_filesystem(split(present.dev()))
    }

    fn disks_of_filesystem(&self, number: (u32, u32)) -> Option<BTreeSet<String>> {
        if self.nodes.iter().any(|node| node.number == number) {
            return self.disks_below(number);
        }
        let of_it = |mount: &&Mount| mount.number == number;
        let mount = self.mounts.iter().find(of_it)?;
        if IN_MEMORY.contains(&mount.kind.as_str()) {
            return Some(BTreeSet::new());
        }
        // Its number is of no device, so its source is one of its devices.
        let source = self.nodes.iter().find(|node| Some(node.number) == mount.source)?;
        let pool = self.pools.iter().find(|(device, _)| *device == source.name);
        let members =
            self.pools.iter().filter(|(_, other)| pool.is_some_and(|(_, of)| of == other));
        let mut disks = self.disks_below(source.number)?;
        for (member, _) in members {
            disks.extend(self.disks_below(self.node(member)?.number)?);
        }
        Some(disks)
    }

    /// Returns the names of the whole disks below the device `number`, all nodes of each.
    fn disks_below(&self, number: (u32, u32)) -> Option<BTreeSet<String>> {
        let mut next = vec![self.nodes.iter().find(|node| node.number == number)?];
        let (mut seen, mut disks) = (BTreeSet::new(), BTreeSet::new());
        while let Some(node) = next.pop() {
            // A cycle of loop devices and volumes must end.
            if !seen.insert(node.number) {
                continue;
            }
            match self.backing(node) {
                Some(Backing::File { number: (device, _), is_second_hand: false }) => {
                    let device = split(*device);
                    if !seen.contains(&device) {
                        disks.extend(self.disks_of_filesystem(device)?);
                    }
                    continue;
                }
                Some(Backing::File { .. } | Backing::Unknown) => return None,
                Some(Backing::Device(_)) | None => {}
            }
            let mut below = self.below(node);
            // Some drivers register only the holder.
            below.extend(self.nodes.iter().filter(|other| {
                self.holders(other).iter().any(|holder| holder.number == node.number)
            }));
            if below.is_empty() {
                disks.insert(node.name.clone());
                disks.extend(self.twins(node).into_iter().map(|twin| twin.name.clone()));
            }
            next.extend(below);
        }
        Some(disks)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{STACK, system};

    #[test]
    fn a_filesystem_is_on_every_disk_below_it_and_memory_on_none() {
        let mounts = [
            "1 0 252:0 / /stack rw - ext4 /x rw",
            "2 0 0:30 / /run rw - tmpfs tmpfs rw",
            "3 0 0:31 / /far rw - nfs host:/x rw",
        ];
        let mounts = mounts.join("\n");
        let (_root, system) =
            system(&[&STACK[..STACK.len() - 2], &[("proc/self/mountinfo", &mounts)]].concat());
        let disks = |number| {
            system.disks_of_filesystem(number).map(|disks| disks.into_iter().collect::<Vec<_>>())
        };
        assert_eq!(disks((252, 0)), Some(vec!["sda".into()]), "through md0 and sda1");
        assert_eq!(disks((8, 2)), Some(vec!["sda".into()]));
        assert_eq!(disks((8, 16)), Some(vec!["sdb".into()]));
        assert_eq!(disks((0, 30)), Some(Vec::new()));
        assert_eq!(disks((0, 31)), None, "another host has it");
        assert_eq!(disks((0, 99)), None);
    }

    #[test]
    fn two_paths_to_a_disk_are_one_disk_and_all_disks_of_a_pool_count() {
        let (_root, mut system) = system(&[
            ("sys/block/sda/dev", "8:0\n"),
            ("sys/block/sda/device/wwid", "naa.5000c500a1b2c3d4\n"),
            ("sys/block/sdb/dev", "8:16\n"),
            ("sys/block/sdb/device/wwid", "naa.5000c500a1b2c3d4\n"),
            ("sys/block/sdc/dev", "8:32\n"),
            ("sys/fs/btrfs/9f/devices/sda", ""),
            ("sys/fs/btrfs/9f/devices/sdc", ""),
            ("proc/self/mountinfo", "1 0 0:40 / /pool rw - btrfs /x rw\n"),
        ]);
        assert_eq!(system.disks_below((8, 16)), Some(["sda", "sdb"].map(String::from).into()));
        system.mounts[0].source = Some((8, 32));
        let all = ["sda", "sdb", "sdc"].map(String::from).into();
        assert_eq!(system.disks_of_filesystem((0, 40)), Some(all));
    }
}
