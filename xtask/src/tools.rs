//! Programs that tests and benchmarks call: which are missing, what they are for, and how to get
//! them.
//!
//! As root on Debian or a descendant the missing packages are installed; elsewhere they are named
//! with the command that installs them, and the tests that need them skip aloud.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};

/// Runs `command` to its end and returns what it printed.
///
/// # Errors
/// If it cannot be started, or fails: with what it printed as errors.
pub(crate) fn printed(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().with_context(|| format!("start {command:?}"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {}", errors.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

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

const fn tool(command: &'static str, package: &'static str, purpose: &'static str) -> Tool {
    Tool { command, package, purpose }
}

/// Programs that the tests call.
pub(crate) static FOR_TESTS: &[Tool] = &[
    tool("blkid", "util-linux", "says beside us what is on a disk"),
    tool("cc", "gcc", "compiles SQLite and the cryptography library"),
    tool("cryptsetup", "cryptsetup-bin", "makes encrypted volumes that must not be written to"),
    tool("curl", "curl", "fetches files from our servers and sends them there"),
    tool("ethtool", "ethtool", "the lab sets offloads"),
    tool("fio_jsonplus_clat2csv", "fio", "fio's own script for its figures reads ours"),
    tool("fsfreeze", "util-linux", "holds writes up in the middle of a load"),
    tool("ip", "iproute2", "the lab builds namespaces and links"),
    tool("lftp", "lftp", "fetches files from our servers and sends them there"),
    tool("losetup", "mount", "shows files as disks"),
    tool("make-bcache", "bcache-tools", "makes a cache that must not be written to"),
    tool("mkfs.btrfs", "btrfs-progs", "makes a filesystem that must not be written to"),
    tool("mkfs.erofs", "erofs-utils", "makes a filesystem that must not be written to"),
    tool("mkfs.exfat", "exfatprogs", "makes a filesystem that must not be written to"),
    tool("mkfs.ext4", "e2fsprogs", "makes a filesystem that must not be written to"),
    tool("mkfs.f2fs", "f2fs-tools", "makes a filesystem that must not be written to"),
    tool("mkfs.ntfs", "ntfs-3g", "makes a filesystem that must not be written to"),
    tool("mkfs.vfat", "dosfstools", "makes a filesystem that must not be written to"),
    tool("mkfs.xfs", "xfsprogs", "makes a filesystem that must not be written to"),
    tool("mksquashfs", "squashfs-tools", "makes a filesystem that must not be written to"),
    tool("nginx", "nginx-light", "serves files to our clients"),
    tool("pvcreate", "lvm2", "makes a volume that must not be written to"),
    tool("sfdisk", "fdisk", "makes partitions that must not be written to"),
    tool("sgdisk", "gdisk", "makes partitions that must not be written to"),
    tool("snmpd", "snmpd", "a switch's agent, to be observed by"),
    tool("snmpset", "snmp", "sets how often that agent reads its counters"),
    tool("systemd-analyze", "systemd", "judges how confined the agent's unit is"),
    tool("tc", "iproute2", "the lab shapes links"),
    tool("tmux", "tmux", "is the terminal of the live view"),
    tool("tshark", "tshark", "reads our NC-SI packets beside us"),
    tool("unshare", "util-linux", "the lab runs without root"),
    tool("vsftpd", "vsftpd", "serves files to our clients"),
];

/// Programs that the benchmark against peers calls.
pub(crate) static FOR_BENCH: &[Tool] = &[
    tool("cc", "gcc", "compiles SQLite and the cryptography library"),
    tool("curl", "curl", "a peer: fetches files"),
    tool("fio", "fio", "a peer"),
    tool("ip", "iproute2", "builds namespaces and links"),
    tool("iperf", "iperf", "a peer"),
    tool("iperf3", "iperf3", "a peer"),
    tool("nginx", "nginx-light", "a peer: serves files"),
    tool("nuttcp", "nuttcp", "a peer"),
    tool("openssl", "openssl", "makes a certificate for foreign servers"),
    tool("sockperf", "sockperf", "a peer"),
    tool("taskset", "util-linux", "pins both ends to one core"),
    tool("trafgen", "netsniff-ng", "a peer"),
    tool("vsftpd", "vsftpd", "a peer: serves files"),
];

/// Programs that the matrix of diagnoses on disks calls.
pub(crate) static FOR_DISKS: &[Tool] = &[
    tool("dd", "coreutils", "fills a disk in memory"),
    tool("fio", "fio", "loads the same disk"),
    tool("losetup", "mount", "shows files as disks"),
    tool("mkfs.ext4", "e2fsprogs", "makes a filesystem with a journal"),
];

/// Programs that the referee calls: instruments that are not linerate's.
pub(crate) static FOR_TRUTH: &[Tool] = &[
    tool("cc", "gcc", "compiles SQLite and the cryptography library"),
    tool("curl", "curl", "fetches the same files"),
    tool("ethtool", "ethtool", "turns segmentation off, so that packets are counted one by one"),
    tool("fio", "fio", "loads the same disk"),
    tool("ip", "iproute2", "builds namespaces and links"),
    tool("iperf3", "iperf3", "measures the same path"),
    tool("losetup", "mount", "shows a file as a disk that nobody else uses"),
    tool("nft", "nftables", "drops, duplicates and corrupts packets, and counts them"),
    tool("nginx", "nginx-light", "serves files and logs them"),
    tool("ss", "iproute2", "reads the kernel's state of connections"),
    tool("tc", "iproute2", "shapes the path and counts what it drops"),
    tool("tcpdump", "tcpdump", "sees every segment, and which bytes of a connection it carries"),
    tool("unshare", "util-linux", "gives a process another clock"),
    tool("vsftpd", "vsftpd", "serves files and logs them"),
];

/// Programs that link and pack linerate for other hosts.
pub(crate) static FOR_DIST: &[Tool] = &[
    tool("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu", "links for 64-bit ARM"),
    tool("/usr/aarch64-linux-gnu/lib/libc.a", "libc6-dev-arm64-cross", "is linked there"),
    tool("arm-linux-gnueabihf-gcc", "gcc-arm-linux-gnueabihf", "links for a BMC"),
    tool("/usr/arm-linux-gnueabihf/lib/libc.a", "libc6-dev-armhf-cross", "is linked there"),
    tool("dpkg-deb", "dpkg", "packs for Debian"),
    tool("git", "git", "prints the time of the commit"),
    tool("ld.lld", "lld", "links for other processors"),
    tool("readelf", "binutils", "shows what a program needs"),
    tool("rpmbuild", "rpm", "packs for Fedora, SUSE and their like"),
    tool("sha256sum", "coreutils", "writes checksums"),
    tool("x86_64-linux-gnu-gcc", "gcc", "links for this processor"),
];

/// Programs that try a package in a clean system.
pub(crate) static FOR_TRIED_PACKAGES: &[Tool] = &[
    tool("chroot", "coreutils", "enters the clean system"),
    tool("debootstrap", "debootstrap", "makes a clean Debian system"),
    tool("ip", "iproute2", "brings its loopback interface up"),
    tool("unshare", "util-linux", "keeps it from the network"),
];

/// Programs that counting instructions calls.
pub(crate) static FOR_INSTRUCTIONS: &[Tool] = &[
    tool(
        "/usr/share/keyrings/debian-archive-keyring.gpg",
        "debian-archive-keyring",
        "checks kernels",
    ),
    tool("busybox", "busybox-static", "mounts the root of a guest"),
    tool("cc", "gcc", "compiles SQLite and the cryptography library"),
    tool("cpio", "cpio", "packs the first file system of a guest"),
    tool("depmod", "kmod", "lists the modules of a kernel"),
    tool("qemu-system-x86_64", "qemu-system-x86", "emulates machines"),
    tool("ss", "iproute2", "waits until a peer listens"),
    tool("sysctl", "procps", "lets peers have large buffers"),
    tool("xz", "xz-utils", "unpacks the modules of a kernel"),
];

/// Programs that the virtual machines need: on this host, and in the guests, which see its root.
pub(crate) static FOR_VM: &[Tool] = &[
    tool(
        "/usr/share/keyrings/debian-archive-keyring.gpg",
        "debian-archive-keyring",
        "checks kernels",
    ),
    tool("arm-linux-gnueabihf-gcc", "gcc-arm-linux-gnueabihf", "links linerate for a BMC"),
    tool("/usr/arm-linux-gnueabihf/lib/libc.a", "libc6-dev-armhf-cross", "is linked there"),
    tool("busybox", "busybox-static", "mounts the root of a guest"),
    tool("cc", "gcc", "compiles SQLite and the cryptography library"),
    tool("cpio", "cpio", "packs the first file system of a guest"),
    tool("depmod", "kmod", "lists the modules of a kernel"),
    tool("curl", "curl", "sends commands to a BMC"),
    tool("ethtool", "ethtool", "the lab sets offloads"),
    tool("fdtput", "device-tree-compiler", "repairs the clock of a BMC"),
    tool("ip", "iproute2", "the lab builds namespaces and links"),
    tool("jq", "jq", "reads facts and counts in documents of linerate"),
    tool("ld.lld", "lld", "links linerate for a BMC"),
    tool("lspci", "pciutils", "shows the tree of PCIe beside us"),
    tool("ping", "iputils-ping", "waits until a wire carries packets"),
    tool("python3", "python3", "sends datagrams from chosen ports"),
    tool("qemu-system-arm", "qemu-system-arm", "emulates BMCs"),
    tool("qemu-system-x86_64", "qemu-system-x86", "emulates machines"),
    tool("xz", "xz-utils", "unpacks modules of kernels"),
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
pub(crate) fn is_root() -> bool {
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
            tool("sh", "dash", "present everywhere"),
            tool("no-such-program-1", "iproute2", "a test"),
            tool("no-such-program-2", "iproute2", "a test"),
        ];
        let missing = absent(TOOLS);
        assert_eq!(
            missing.iter().map(|tool| tool.command).collect::<Vec<_>>(),
            ["no-such-program-1", "no-such-program-2"]
        );
        assert_eq!(packages(&missing), ["iproute2"]);
    }
}
