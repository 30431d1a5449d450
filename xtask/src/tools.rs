//! Programs that tests and benchmarks call: which are missing, what they are for, and how to get
//! them.
//!
//! As root on Debian or a descendant the missing packages are installed; elsewhere they are named
//! with the command that installs them, and the tests that need them skip aloud.

use std::path::Path;
use std::process::Command;

use anyhow::Context;

/// A program that is called by name.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Tool {
    /// Its name in `PATH`.
    command: &'static str,
    /// Debian's package.
    package: &'static str,
    /// Tasks that need it.
    purpose: &'static str,
}

/// Programs that the tests call.
pub(crate) static FOR_TESTS: &[Tool] = &[
    Tool { command: "blkid", package: "util-linux", purpose: "says beside us what is on a disk" },
    Tool { command: "cc", package: "gcc", purpose: "compiles SQLite and the cryptography library" },
    Tool {
        command: "cryptsetup",
        package: "cryptsetup-bin",
        purpose: "makes encrypted volumes that must not be written to",
    },
    Tool {
        command: "curl",
        package: "curl",
        purpose: "fetches files from our servers and sends them there",
    },
    Tool { command: "ethtool", package: "ethtool", purpose: "the lab sets offloads" },
    Tool {
        command: "fio_jsonplus_clat2csv",
        package: "fio",
        purpose: "fio's own script for its figures reads ours",
    },
    Tool {
        command: "fsfreeze",
        package: "util-linux",
        purpose: "holds writes up in the middle of a load",
    },
    Tool { command: "ip", package: "iproute2", purpose: "the lab builds namespaces and links" },
    Tool {
        command: "lftp",
        package: "lftp",
        purpose: "fetches files from our servers and sends them there",
    },
    Tool { command: "losetup", package: "mount", purpose: "shows files as disks" },
    Tool {
        command: "make-bcache",
        package: "bcache-tools",
        purpose: "makes a cache that must not be written to",
    },
    Tool {
        command: "mkfs.btrfs",
        package: "btrfs-progs",
        purpose: "makes a filesystem that must not be written to",
    },
    Tool {
        command: "mkfs.erofs",
        package: "erofs-utils",
        purpose: "makes a filesystem that must not be written to",
    },
    Tool {
        command: "mkfs.exfat",
        package: "exfatprogs",
        purpose: "makes a filesystem that must not be written to",
    },
    Tool {
        command: "mkfs.ext4",
        package: "e2fsprogs",
        purpose: "makes a filesystem that must not be written to",
    },
    Tool {
        command: "mkfs.f2fs",
        package: "f2fs-tools",
        purpose: "makes a filesystem that must not be written to",
    },
    Tool {
        command: "mkfs.ntfs",
        package: "ntfs-3g",
        purpose: "makes a filesystem that must not be written to",
    },
    Tool {
        command: "mkfs.vfat",
        package: "dosfstools",
        purpose: "makes a filesystem that must not be written to",
    },
    Tool {
        command: "mkfs.xfs",
        package: "xfsprogs",
        purpose: "makes a filesystem that must not be written to",
    },
    Tool {
        command: "mksquashfs",
        package: "squashfs-tools",
        purpose: "makes a filesystem that must not be written to",
    },
    Tool { command: "nginx", package: "nginx-light", purpose: "serves files to our clients" },
    Tool {
        command: "pvcreate",
        package: "lvm2",
        purpose: "makes a volume that must not be written to",
    },
    Tool {
        command: "sfdisk",
        package: "fdisk",
        purpose: "makes partitions that must not be written to",
    },
    Tool {
        command: "sgdisk",
        package: "gdisk",
        purpose: "makes partitions that must not be written to",
    },
    Tool { command: "snmpd", package: "snmpd", purpose: "a switch's agent, to be observed by" },
    Tool {
        command: "snmpset",
        package: "snmp",
        purpose: "sets how often that agent reads its counters",
    },
    Tool {
        command: "systemd-analyze",
        package: "systemd",
        purpose: "judges how confined the agent's unit is",
    },
    Tool { command: "tc", package: "iproute2", purpose: "the lab shapes links" },
    Tool { command: "tshark", package: "tshark", purpose: "reads our NC-SI packets beside us" },
    Tool { command: "unshare", package: "util-linux", purpose: "the lab runs without root" },
    Tool { command: "vsftpd", package: "vsftpd", purpose: "serves files to our clients" },
];

/// Programs that the benchmark against peers calls.
pub(crate) static FOR_BENCH: &[Tool] = &[
    Tool { command: "cc", package: "gcc", purpose: "compiles SQLite and the cryptography library" },
    Tool { command: "curl", package: "curl", purpose: "a peer: fetches files" },
    Tool { command: "fio", package: "fio", purpose: "a peer" },
    Tool { command: "ip", package: "iproute2", purpose: "builds namespaces and links" },
    Tool { command: "iperf", package: "iperf", purpose: "a peer" },
    Tool { command: "iperf3", package: "iperf3", purpose: "a peer" },
    Tool { command: "nginx", package: "nginx-light", purpose: "a peer: serves files" },
    Tool { command: "nuttcp", package: "nuttcp", purpose: "a peer" },
    Tool {
        command: "openssl",
        package: "openssl",
        purpose: "makes a certificate for foreign servers",
    },
    Tool { command: "sockperf", package: "sockperf", purpose: "a peer" },
    Tool { command: "taskset", package: "util-linux", purpose: "pins both ends to one core" },
    Tool { command: "trafgen", package: "netsniff-ng", purpose: "a peer" },
    Tool { command: "vsftpd", package: "vsftpd", purpose: "a peer: serves files" },
];

/// Programs that the referee calls: instruments that are not linerate's.
pub(crate) static FOR_TRUTH: &[Tool] = &[
    Tool { command: "cc", package: "gcc", purpose: "compiles SQLite and the cryptography library" },
    Tool { command: "curl", package: "curl", purpose: "fetches the same files" },
    Tool {
        command: "ethtool",
        package: "ethtool",
        purpose: "turns segmentation off, so that packets are counted one by one",
    },
    Tool { command: "fio", package: "fio", purpose: "loads the same disk" },
    Tool { command: "ip", package: "iproute2", purpose: "builds namespaces and links" },
    Tool { command: "iperf3", package: "iperf3", purpose: "measures the same path" },
    Tool {
        command: "losetup",
        package: "mount",
        purpose: "shows a file as a disk that nobody else uses",
    },
    Tool {
        command: "nft",
        package: "nftables",
        purpose: "drops, duplicates and corrupts packets, and counts them",
    },
    Tool { command: "nginx", package: "nginx-light", purpose: "serves files and logs them" },
    Tool { command: "ss", package: "iproute2", purpose: "reads the kernel's state of connections" },
    Tool {
        command: "tc",
        package: "iproute2",
        purpose: "shapes the path and counts what it drops",
    },
    Tool {
        command: "tcpdump",
        package: "tcpdump",
        purpose: "sees every segment, and which bytes of a connection it carries",
    },
    Tool { command: "unshare", package: "util-linux", purpose: "gives a process another clock" },
    Tool { command: "vsftpd", package: "vsftpd", purpose: "serves files and logs them" },
];

/// Makes `tools` available where that is possible; returns what is still missing, with the remedy.
///
/// # Errors
/// If a package manager that should work could not be started.
pub(crate) fn provide(tools: &'static [Tool]) -> anyhow::Result<Vec<String>> {
    let missing = absent(tools);
    if missing.is_empty() {
        return Ok(Vec::new());
    }
    for tool in &missing {
        println!("missing: {} (package {}): {}", tool.command, tool.package, tool.purpose);
    }
    let packages = packages(&missing);
    if find("apt-get").is_some() && is_root() {
        // Only root may install, and only Debian has these packages.
        println!("installing: {}", packages.join(" "));
        install(&packages)?;
    } else {
        println!("install them with: sudo apt-get install {}", packages.join(" "));
    }
    // What could not be installed is named; its tests will skip.
    Ok(absent(tools).iter().map(|tool| format!("{}: {}", tool.command, tool.purpose)).collect())
}

fn absent(tools: &'static [Tool]) -> Vec<&'static Tool> {
    tools.iter().filter(|tool| find(tool.command).is_none()).collect()
}

/// The packages of `tools`, each once.
fn packages(tools: &[&Tool]) -> Vec<&'static str> {
    let mut packages: Vec<&str> = tools.iter().map(|tool| tool.package).collect();
    packages.sort_unstable();
    // Several tools may come in one package.
    packages.dedup();
    packages
}

/// Where `command` is; system folders count even if `PATH` lacks them, as a plain user's does on
/// Debian.
fn find(command: &str) -> Option<std::path::PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // A plain user's `PATH` lacks them on Debian.
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    folders.map(|folder| folder.join(command)).find(|file| file.is_file())
}

/// Returns true if this process is root: its own folder in /proc belongs to root then.
fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    Path::new("/proc/self").metadata().is_ok_and(|own| own.uid() == 0)
}

/// Installs `packages`; the lists are fetched first, because a fresh image has none.
fn install(packages: &[&str]) -> anyhow::Result<()> {
    let mut fixed = vec!["install", "--yes", "--no-install-recommends"];
    fixed.extend(packages);
    for arguments in [vec!["update"], fixed] {
        let command = format!("apt-get {}", arguments.join(" "));
        let status = Command::new("apt-get")
            // A package must not ask questions in a terminal that nobody watches.
            .env("DEBIAN_FRONTEND", "noninteractive")
            .args(&arguments)
            .status()
            .with_context(|| format!("start `{command}`"))?;
        // No failure here: each test says itself what it lacks.
        if !status.success() {
            println!("`{command}` failed: the tests that need these packages will skip");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_found_missing_and_its_package_named_once() {
        static TOOLS: &[Tool] = &[
            Tool { command: "sh", package: "dash", purpose: "present everywhere" },
            Tool { command: "no-such-program-1", package: "iproute2", purpose: "a test" },
            Tool { command: "no-such-program-2", package: "iproute2", purpose: "a test" },
        ];
        let missing = absent(TOOLS);
        assert_eq!(
            missing.iter().map(|tool| tool.command).collect::<Vec<_>>(),
            ["no-such-program-1", "no-such-program-2"]
        );
        assert_eq!(packages(&missing), ["iproute2"]);
    }
}
