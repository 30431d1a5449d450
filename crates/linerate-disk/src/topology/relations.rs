//! Other users of a device's bytes: a walk over all devices built on it, and all devices below it.
//!
//! Upwards (partitions, holders, loop devices, and so on) everything that shows these bytes is a
//! use. Downwards (the disk of a partition, slaves, the object behind a loop device) the device
//! itself is a rightful user, so only other uses of the same bytes count. A disk with several nodes
//! is one disk, identified by its world-wide name or serial number. Overlapping volumes of device
//! mapper are not detected; device mapper gives each volume its own extent unless a hand-written
//! table says otherwise.

use std::collections::BTreeSet;

use super::backing::{Backing, Sameness};
use super::{Node, System, Use};

/// First sector and number of sectors of a partition on its disk.
type Span = (u64, u64);

/// Walk for one device.
pub(super) struct Walk<'a> {
    system: &'a System,
    /// The device and everything below it: their existence is not a use.
    path: BTreeSet<(u32, u32)>,
    seen: BTreeSet<(u32, u32)>,
    uses: BTreeSet<Use>,
}

impl<'a> Walk<'a> {
    /// Returns every use of the bytes of `node`.
    pub(super) fn uses(system: &'a System, node: &'a Node) -> Vec<Use> {
        let mut walk =
            Self { system, path: BTreeSet::new(), seen: BTreeSet::new(), uses: BTreeSet::new() };
        let chain = walk.chain(node);
        walk.divided(node);
        walk.above(node, None);
        for (below, by) in chain {
            walk.below(below, by);
        }
        walk.shown_again(node);
        walk.uses.into_iter().collect()
    }

    /// Returns everything below `node`, each with the device built on it.
    fn chain(&mut self, node: &'a Node) -> Vec<(&'a Node, &'a Node)> {
        let mut chain: Vec<(&Node, &Node)> = Vec::new();
        let mut next = vec![node];
        while let Some(node) = next.pop() {
            if self.path.insert(node.number) {
                let below = self.system.below(node);
                chain.extend(below.iter().map(|below| (*below, node)));
                next.extend(below);
            }
        }
        chain
    }

    /// Adds uses of `node` and of everything built on it; of its partitions, only those that
    /// overlap `span`.
    fn above(&mut self, node: &Node, span: Option<Span>) {
        // A cycle of loop devices and volumes must end the walk.
        if !self.seen.insert(node.number) {
            return;
        }
        self.direct(node);
        for holder in self.system.holders(node) {
            if self.path.contains(&holder.number) {
                continue;
            }
            self.uses.insert(Use::Held { device: node.name.clone(), by: holder.name.clone() });
            self.above(holder, None);
        }
        self.loops_over(node);
        for part in self.system.partitions(node) {
            // Partitions that do not overlap are neighbours on the same disk, and not a conflict.
            if !self.path.contains(&part.number) && overlaps(span, part.span) {
                self.above(part, None);
            }
        }
    }

    /// Adds uses of `node` by others than `by`, which is built on it.
    fn below(&mut self, node: &Node, by: &Node) {
        if by.partition_of.as_ref() == Some(&node.name) {
            self.above(node, by.span);
        } else if self.system.backing(by) == Some(&Backing::Device(node.number)) {
            // A loop device shows the whole device, so every partition is a conflict.
            self.divided(node);
            self.above(node, None);
        } else {
            self.direct(node);
            self.loops_over(node);
        }
        self.shown_again(node);
    }

    /// Adds uses of the same disk, or the same file, through another node.
    fn shown_again(&mut self, node: &Node) {
        let system = self.system;
        let span = node.partition_of.as_ref().and(node.span);
        let disk = system.node(node.partition_of.as_ref().unwrap_or(&node.name)).unwrap_or(node);
        for twin in system.twins(disk) {
            self.above(twin, span);
        }
        let Some(own) = system.backing(node).filter(|own| !matches!(own, Backing::Device(_)))
        else {
            return;
        };
        let others = system.loops.iter().filter(|(name, _)| *name != node.name);
        let others: Vec<_> = others.map(|(name, other)| (name, own.sameness(other))).collect();
        for (name, sameness) in others {
            self.shown_by(name, sameness);
        }
        for (path, swap) in &system.swaps {
            if own.sameness(swap) == Sameness::Same || system.loop_path(node).as_ref() == Some(path)
            {
                self.uses.insert(Use::Swap { device: node.name.clone() });
            }
        }
    }

    fn shown_by(&mut self, name: &str, sameness: Sameness) {
        let by = || name.to_owned();
        let found = match sameness {
            Sameness::Same => Use::BehindLoop { by: by() },
            Sameness::Unclear => Use::Unclear { by: by() },
            Sameness::Different => return,
        };
        let Some(node) = self.system.node(name) else { return };
        if !self.path.contains(&node.number) {
            self.uses.insert(found);
            self.above(node, None);
        }
    }

    fn loops_over(&mut self, node: &Node) {
        let system = self.system;
        for (name, _) in
            system.loops.iter().filter(|(_, shown)| *shown == Backing::Device(node.number))
        {
            self.shown_by(name, Sameness::Same);
        }
    }

    /// Adds the partitions of `node`, used or not: each is somebody's division of the disk.
    fn divided(&mut self, node: &Node) {
        let parts = self
            .system
            .partitions(node)
            .into_iter()
            .filter(|part| !self.path.contains(&part.number));
        let parts: Vec<Use> =
            parts.map(|part| Use::Partition { name: part.name.clone() }).collect();
        self.uses.extend(parts);
    }

    /// Adds mounts of `node` itself, swap on it, and filesystems that span it.
    fn direct(&mut self, node: &Node) {
        let device = || node.name.clone();
        let system = self.system;
        let mounts = system
            .mounts
            .iter()
            .filter(|mount| mount.number == node.number || mount.source == Some(node.number));
        self.uses
            .extend(mounts.map(|mount| Use::Mounted { device: device(), at: mount.at.clone() }));
        if system.swaps.iter().any(|(_, swap)| *swap == Backing::Device(node.number)) {
            self.uses.insert(Use::Swap { device: device() });
        }
        let pools = system.pools.iter().filter(|(member, _)| *member == node.name);
        self.uses.extend(pools.map(|(_, pool)| Use::Held { device: device(), by: pool.clone() }));
    }
}

/// Returns true if two spans of one disk share a sector; unknown spans always do.
fn overlaps(one: Option<Span>, other: Option<Span>) -> bool {
    match (one, other) {
        (Some((start, n)), Some((other, n_other))) => {
            start < other.saturating_add(n_other) && other < start.saturating_add(n)
        }
        _ => true,
    }
}
