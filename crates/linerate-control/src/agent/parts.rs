//! Parts of a host that conductors use, so that those which share none measure at the same time.
//!
//! A conductor says beforehand what its campaign uses, and each of its trials is held against it.
//! Kernel threads, memory bandwidth and caches are shared in any case: each trial records who was
//! there.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::net::IpAddr;

use linerate_disk::disks_of;
use linerate_observe::{carriers, cores};

use crate::wire::Share;

/// Part of this host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Part {
    /// All of it.
    #[default]
    Whole,
    /// These things of it, and nothing else.
    Some(Things),
}

/// CPUs with their cores, interfaces with what carries their packets, and whole disks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Things {
    cpus: BTreeSet<usize>,
    interfaces: BTreeSet<String>,
    disks: BTreeSet<String>,
}

impl Part {
    /// Returns the part that `share` describes, of a conductor whose control connection uses the
    /// address `own`. It is the whole host if something in it is not known here.
    pub(super) fn of(share: Option<&Share>, own: Option<IpAddr>) -> Self {
        share.and_then(|share| Things::of(share, own)).map_or(Self::Whole, Self::Some)
    }

    /// Returns whether two conductors must take turns.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        let (Self::Some(one), Self::Some(other)) = (self, other) else { return true };
        one.common(other) != Things::default()
    }

    /// Returns whether `other` is inside.
    pub(super) fn contains(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Whole, _) => true,
            (Self::Some(_), Self::Whole) => false,
            (Self::Some(all), Self::Some(some)) => all.common(some) == *some,
        }
    }

    /// Returns how the part of a conductor that is busy overlaps that of a newcomer, as the end of
    /// a sentence; empty if both have the whole host.
    pub(super) fn clash(&self, newcomer: &Self) -> String {
        match (self, newcomer) {
            (Self::Whole, Self::Whole) => String::new(),
            (Self::Whole, Self::Some(_)) => ", which uses the whole host".to_owned(),
            (Self::Some(_), Self::Whole) => ", and this campaign needs the whole host".to_owned(),
            (Self::Some(one), Self::Some(other)) => match one.common(other) {
                none if none == Things::default() => {
                    ", one of as many campaigns as an agent serves at a time".to_owned()
                }
                common => format!(", which also uses {common}"),
            },
        }
    }
}

impl Things {
    fn of(share: &Share, own: Option<IpAddr>) -> Option<Self> {
        let mut addresses = share.addresses.clone();
        if share.control {
            addresses.insert(own?);
        }
        let disks: Option<Vec<_>> = share.paths.iter().map(|path| disks_of(path)).collect();
        Some(Self {
            cpus: cores(&share.cpus),
            interfaces: carriers(&share.devices, &addresses)?,
            disks: disks?.into_iter().flatten().collect(),
        })
    }

    fn common(&self, other: &Self) -> Self {
        Self {
            cpus: &self.cpus & &other.cpus,
            interfaces: &self.interfaces & &other.interfaces,
            disks: &self.disks & &other.disks,
        }
    }
}

impl Display for Things {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        fn named<T: Display>(what: &str, all: &BTreeSet<T>) -> Option<String> {
            let names: Vec<String> = all.iter().map(T::to_string).collect();
            let plural = if all.len() > 1 { "s" } else { "" };
            (!all.is_empty()).then(|| format!("{what}{plural} {}", names.join(", ")))
        }
        let things = [
            named("CPU", &self.cpus),
            named("interface", &self.interfaces),
            named("disk", &self.disks),
        ];
        f.write_str(&things.into_iter().flatten().collect::<Vec<_>>().join(" and "))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn part(cpus: &[usize], interfaces: &[&str], disks: &[&str]) -> Part {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Part::Some(Things {
            cpus: cpus.iter().copied().collect(),
            interfaces: names(interfaces),
            disks: names(disks),
        })
    }

    #[test]
    fn parts_overlap_in_any_common_thing_and_the_whole_host_overlaps_every_part() {
        let one = part(&[0, 1], &["eth0"], &["sda"]);
        let others = [
            (part(&[2], &["eth1"], &["sdb"]), ""),
            (part(&[1, 2], &[], &[]), ", which also uses CPU 1"),
            (part(&[2], &["eth0"], &["sda"]), ", which also uses interface eth0 and disk sda"),
            (part(&[0, 1], &[], &[]), ", which also uses CPUs 0, 1"),
            (Part::Whole, ", and this campaign needs the whole host"),
        ];
        for (other, clash) in others {
            assert_eq!(one.overlaps(&other), !clash.is_empty(), "{other:?}");
            assert_eq!(other.overlaps(&one), !clash.is_empty(), "{other:?}");
            if one.overlaps(&other) {
                assert_eq!(one.clash(&other), clash);
            }
        }
        assert_eq!(Part::Whole.clash(&one), ", which uses the whole host");
    }

    #[test]
    fn a_trial_may_use_less_than_was_announced_and_nothing_else() {
        let announced = part(&[0, 1], &["eth0"], &[]);
        assert!(announced.contains(&part(&[1], &["eth0"], &[])));
        assert!(Part::Whole.contains(&announced));
        let beyond = [part(&[2], &[], &[]), part(&[0], &["eth1"], &[]), part(&[0], &[], &["sda"])];
        for beyond in beyond.into_iter().chain([Part::Whole]) {
            assert!(!announced.contains(&beyond), "{beyond:?}");
        }
    }

    #[test]
    fn what_is_not_known_here_takes_the_whole_host() {
        let lo = Share { cpus: [0].into(), devices: ["lo".to_owned()].into(), ..Share::default() };
        assert!(matches!(Part::of(Some(&lo), None), Part::Some(_)));
        let unknown = [
            Share { devices: ["no-such-link".to_owned()].into(), ..lo.clone() },
            Share { addresses: ["192.0.2.7".parse().expect("one")].into(), ..lo.clone() },
            Share { control: true, ..lo.clone() },
        ];
        for share in unknown {
            assert_eq!(Part::of(Some(&share), None), Part::Whole, "{share:?}");
        }
        let own = "127.0.0.1".parse().ok();
        assert_eq!(
            Part::of(Some(&Share { control: true, ..Share::default() }), own),
            part(&[], &["lo"], &[])
        );
        assert_eq!(Part::of(None, own), Part::Whole);
    }
}
