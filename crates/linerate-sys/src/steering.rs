//! Packet steering and offloads of an interface, each with its interface to the kernel:
//!
//! - CPUs that receive queues distribute packets to (RPS), CPUs that use a transmit queue (XPS),
//!   and polling in separate threads (threaded NAPI): `/sys/class/net`.
//! - Offloads (GRO, GSO, TSO), interrupt coalescing and ring sizes: [`crate::ethtool`].
//! - CPUs that queues interrupt: `/proc/irq`.
//!
//! A CPU mask is the kernel's hexadecimal text without commas and leading zeros: `3` is CPUs 0 and
//! 1, `0` is none. sysfs shows the interfaces of the network namespace in which it was mounted,
//! which may not be the calling thread's; [`index`] returns the number of the interface that it
//! shows. Steering inside the card (RSS, flow rules) is not covered.

use std::io::{Error, ErrorKind};
use std::path::PathBuf;

use crate::ethtool::{Ethtool, Offload, Tunable};
use crate::{Result, SysError};

/// Settings in sysfs and the prefix of the queues that have them; threaded NAPI belongs to the
/// interface.
const SETTINGS: [(&str, &str); 3] = [("rps_cpus", "rx-"), ("threaded", ""), ("xps_cpus", "tx-")];

/// Offloads that can be switched: `1` is on, `0` is off.
const OFFLOADS: [(&str, Offload); 3] =
    [("gro", Offload::Gro), ("gso", Offload::Gso), ("tso", Offload::Tso)];

/// Decimal driver settings.
const TUNABLES: [(&str, Tunable); 5] = [
    ("adaptive_rx", Tunable::AdaptiveRx),
    ("rx_frames", Tunable::RxFrames),
    ("rx_ring", Tunable::RxRing),
    ("rx_usecs", Tunable::RxUsecs),
    ("tx_ring", Tunable::TxRing),
];

/// CPUs that a queue's interrupt may go to; the places are `irq/NUMBER`.
const INTERRUPTS: &str = "irq_cpus";

/// Returns the names of all settings.
#[must_use]
pub fn settings() -> Vec<&'static str> {
    let of_driver =
        OFFLOADS.iter().map(|(name, _)| *name).chain(TUNABLES.iter().map(|(name, _)| *name));
    SETTINGS.iter().map(|(name, _)| *name).chain(of_driver).chain([INTERRUPTS]).collect()
}

fn tunable(place: &str) -> Option<Tunable> {
    TUNABLES.iter().find(|(name, _)| *name == place).map(|(_, tunable)| *tunable)
}

fn offload(place: &str) -> Option<Offload> {
    OFFLOADS.iter().find(|(name, _)| *name == place).map(|(_, offload)| *offload)
}

/// Returns the index of the interface that sysfs shows as `device`.
///
/// # Errors
/// If sysfs shows no such interface.
pub fn index(device: &str) -> Result<u32> {
    let wrap = |cause| SysError::new("find in sysfs interface", device, cause);
    let text = folder(device)
        .and_then(|folder| std::fs::read_to_string(folder.join("ifindex")))
        .map_err(wrap)?;
    text.trim().parse().map_err(|_| wrap(Error::from(ErrorKind::InvalidData)))
}

/// Returns the places of `setting` at `device`: one per queue, or one for the interface.
///
/// # Errors
/// If there is no such setting or interface.
pub fn places(device: &str, setting: &str) -> Result<Vec<String>> {
    let wrap = |cause| SysError::new("find places of", format!("{setting} at {device}"), cause);
    if offload(setting).is_some() || tunable(setting).is_some() {
        return Ok(vec![setting.to_owned()]);
    }
    if setting == INTERRUPTS {
        return interrupts(device).map_err(wrap);
    }
    let known = SETTINGS.iter().find(|(name, _)| *name == setting);
    let (name, queues) =
        known.ok_or_else(|| wrap(Error::new(ErrorKind::InvalidInput, "unknown setting")))?;
    if queues.is_empty() {
        return Ok(vec![(*name).to_owned()]);
    }
    let entries =
        folder(device).and_then(|folder| std::fs::read_dir(folder.join("queues"))).map_err(wrap)?;
    let mut found: Vec<String> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|queue| queue.starts_with(queues))
        .map(|queue| format!("queues/{queue}/{name}"))
        .collect();
    found.sort();
    Ok(found)
}

/// Returns the value at one of the [`places`].
///
/// # Errors
/// If there is no such place, or the interface does not have the setting (XPS needs several
/// queues).
pub fn read(device: &str, place: &str) -> Result<String> {
    if let Some(offload) = offload(place) {
        return Ethtool::open()?.offload(device, offload).map(|on| u8::from(on).to_string());
    }
    if let Some(tunable) = tunable(place) {
        return Ethtool::open()?
            .tunable(device, tunable)
            .map(|value| value.to_string())
            .map_err(|error| offered(error, device, place, tunable));
    }
    let text = path(device, place).and_then(std::fs::read_to_string);
    text.map(|text| plain(&text))
        .map_err(|cause| SysError::new("read", format!("{place} of {device}"), cause))
}

/// Sets the value at one of the [`places`].
///
/// # Errors
/// If there is no such place, it cannot be written (needs root), or the kernel sets another value.
pub fn write(device: &str, place: &str, value: &str) -> Result<()> {
    let wrap = |cause| SysError::new("set", format!("{place} of {device} to {value}"), cause);
    if !is_mask(value) {
        return Err(wrap(Error::new(
            ErrorKind::InvalidInput,
            "the value is not a hexadecimal mask",
        )));
    }
    if let Some(offload) = offload(place) {
        Ethtool::open()?.set_offload(device, offload, plain(value) != "0")?;
        return granted(device, place, value);
    }
    if let Some(tunable) = tunable(place) {
        let number = value
            .parse()
            .map_err(|_| wrap(Error::new(ErrorKind::InvalidInput, "the value is not a number")))?;
        let set = Ethtool::open()?.set_tunable(device, tunable, number);
        set.map_err(|error| offered(error, device, place, tunable))?;
        return granted(device, place, value);
    }
    let set = path(device, place).and_then(|path| std::fs::write(path, grouped(value)));
    set.map_err(|cause| match cause.kind() {
        ErrorKind::Unsupported => Error::other(format!(
            "{cause}: the interface does not poll by itself (a veth does so only with GRO on: \
                `ethtool -K {device} gro on`)"
        )),
        // EIO: `irq_can_set_affinity_usr`, Linux kernel/irq/proc.c.
        _ if place.starts_with(IRQ) && cause.raw_os_error() == Some(libc::EIO) => Error::other(
            format!("{cause}: the kernel manages the CPUs of this interrupt by itself"),
        ),
        _ => cause,
    })
    .map_err(wrap)?;
    granted(device, place, value)
}

const IRQ: &str = "irq/";

/// Explains that a driver does not support a setting.
fn offered(error: SysError, device: &str, place: &str, tunable: Tunable) -> SysError {
    if error.errno() != Some(libc::EOPNOTSUPP) {
        return error;
    }
    let driver = Ethtool::open()
        .and_then(|ethtool| ethtool.driver(device))
        .map_or_else(|_| "none".into(), |d| d.name);
    let words = format!(
        "not offered by this device (driver {driver}, {}: {})",
        tunable.command(),
        error.cause
    );
    SysError::new("find", format!("{place} of {device}"), Error::new(ErrorKind::Unsupported, words))
}

/// Returns the interrupts of the queues of `device`: those of its bus device or of the child device
/// (virtio), without the configuration interrupt.
fn interrupts(device: &str) -> std::io::Result<Vec<String>> {
    let folder = folder(device)?;
    let folders = ["device/msi_irqs", "device/../msi_irqs"];
    let entries = folders.iter().find_map(|below| std::fs::read_dir(folder.join(below)).ok());
    let entries = entries.ok_or_else(|| {
        Error::new(ErrorKind::Unsupported, "not offered by this device: it has no interrupts")
    })?;
    let names = std::fs::read_to_string("/proc/interrupts")?;
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut numbers: Vec<u32> = numbers.filter(|number| is_of_queue(&names, *number)).collect();
    numbers.sort_unstable();
    if numbers.is_empty() {
        return Err(Error::new(
            ErrorKind::Unsupported,
            "not offered by this device: none of its interrupts is in use",
        ));
    }
    Ok(numbers.iter().map(|number| format!("{IRQ}{number}")).collect())
}

/// Returns true if interrupt `number` is in use and is not a configuration interrupt. `interrupts`
/// is the text of `/proc/interrupts`.
fn is_of_queue(interrupts: &str, number: u32) -> bool {
    let line = interrupts.lines().find(|line| line.trim_start().starts_with(&format!("{number}:")));
    line.is_some_and(|line| !line.ends_with("-config"))
}

/// Checks that the kernel has set `value`.
fn granted(device: &str, place: &str, value: &str) -> Result<()> {
    let granted = read(device, place)?;
    if granted == plain(value) {
        return Ok(());
    }
    let cause = Error::other(format!("the kernel set {granted} instead"));
    Err(SysError::new("set", format!("{place} of {device} to {value}"), cause))
}

/// Returns true if `value` consists of hexadecimal digits and commas.
#[must_use]
pub fn is_mask(value: &str) -> bool {
    !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b',')
}

/// Returns the mask of these CPUs.
#[must_use]
pub fn mask(cpus: &[usize]) -> String {
    let digits = cpus.iter().max().map_or(1, |highest| highest / 4 + 1);
    let digit = |at: usize| {
        cpus.iter().filter(|cpu| **cpu / 4 == at).fold(0, |digit, cpu| digit | 1 << (cpu % 4))
    };
    (0..digits).rev().filter_map(|at| char::from_digit(digit(at), 16)).collect()
}

/// Returns true if the setting `setting` is a mask of CPUs.
#[must_use]
pub fn is_of_cpus(setting: &str) -> bool {
    setting.ends_with("_cpus")
}

/// Returns `mask` in the form that the kernel reads: at most eight digits between commas
/// (`bitmap_parse`).
#[must_use]
pub fn grouped(mask: &str) -> String {
    let mask = plain(mask);
    let group = |group: &[u8]| String::from_utf8_lossy(group).into_owned();
    mask.as_bytes().rchunks(8).rev().map(group).collect::<Vec<_>>().join(",")
}

/// Returns the canonical form of a mask: no commas, no leading zeros.
#[must_use]
pub fn plain(mask: &str) -> String {
    let digits: String = mask.trim().chars().filter(|c| *c != ',').collect();
    let significant = digits.trim_start_matches('0');
    if significant.is_empty() { "0".to_owned() } else { significant.to_lowercase() }
}

fn folder(device: &str) -> std::io::Result<PathBuf> {
    if device.is_empty() || device == "." || device == ".." || device.contains('/') {
        return Err(Error::new(ErrorKind::InvalidInput, "this is not the name of an interface"));
    }
    Ok(PathBuf::from("/sys/class/net").join(device))
}

/// Returns the path of a place. Accepts only results of [`places`].
fn path(device: &str, place: &str) -> std::io::Result<PathBuf> {
    if let Some(number) = place.strip_prefix(IRQ) {
        if !interrupts(device)?.iter().any(|known| known == place) {
            return Err(Error::new(
                ErrorKind::InvalidInput,
                "the interface does not have this interrupt",
            ));
        }
        return Ok(PathBuf::from("/proc/irq").join(number).join("smp_affinity"));
    }
    let parts: Vec<&str> = place.split('/').collect();
    let fits = match parts[..] {
        [name] => SETTINGS.iter().any(|(known, queues)| *known == name && queues.is_empty()),
        ["queues", queue, name] => SETTINGS.iter().any(|(known, queues)| {
            let number = queue.strip_prefix(queues);
            *known == name && !queues.is_empty() && number.is_some_and(|n| n.parse::<u32>().is_ok())
        }),
        _ => false,
    };
    if !fits {
        return Err(Error::new(ErrorKind::InvalidInput, "this is not the place of a setting"));
    }
    Ok(folder(device)?.join(place))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn masks_of_many_cpus_are_written_as_the_kernel_reads_them() {
        assert_eq!(
            (mask(&[0, 1]).as_str(), mask(&[]).as_str(), mask(&[5, 32]).as_str()),
            ("3", "0", "100000020")
        );
        assert_eq!((grouped("1").as_str(), grouped("100000020").as_str()), ("1", "1,00000020"));
        assert_eq!(grouped(&mask(&(0..70).collect::<Vec<_>>())), "3f,ffffffff,ffffffff");
    }

    #[test]
    fn masks_are_compared_by_what_they_mean() {
        for (text, means) in [
            ("00000000,00000003\n", "3"),
            ("0", "0"),
            ("00", "0"),
            ("0000000A", "a"),
            ("1,00000000", "100000000"),
        ] {
            assert_eq!(plain(text), means);
        }
        assert!(is_mask("3f,0000") && !is_mask("") && !is_mask("0x3") && !is_mask("1 2"));
    }

    #[test]
    fn interrupts_of_queues_are_those_in_use_that_are_not_for_configuration() {
        let text = "           CPU0\n 40:  0 PCI-MSIX 0-edge      virtio3-config\n 41: 5 PCI-MSIX \
            1-edge      virtio3-input.0\nNMI: 0\n";
        assert_eq!(
            [40, 41, 4, 42].map(|number| is_of_queue(text, number)),
            [false, true, false, false]
        );
        assert!(read("lo", "irq/1").is_err() && write("lo", "irq/1", "1").is_err());
        let refusal = |setting: &str| {
            places("lo", setting).and_then(|places| read("lo", &places[0])).unwrap_err().to_string()
        };
        for setting in ["irq_cpus", "rx_usecs", "rx_ring"] {
            assert!(
                refusal(setting).contains("not offered by this device"),
                "{}",
                refusal(setting)
            );
        }
    }

    #[test]
    fn the_loopback_has_a_receive_queue_with_a_mask_and_no_name_leads_elsewhere() {
        assert_eq!(index("lo").unwrap(), 1);
        let places = places("lo", "rps_cpus").unwrap();
        assert_eq!(places, ["queues/rx-0/rps_cpus"]);
        assert!(is_mask(&read("lo", &places[0]).unwrap()));
        for (device, place) in [
            ("..", "threaded"),
            ("lo", "mtu"),
            ("lo", "queues/../mtu"),
            ("lo", "queues/rx-0/../x"),
            ("lo/..", "threaded"),
        ] {
            assert!(
                read(device, place).is_err() && write(device, place, "0").is_err(),
                "{device} {place}"
            );
        }
        assert!(super::places("lo", "mtu").is_err());
    }
}
