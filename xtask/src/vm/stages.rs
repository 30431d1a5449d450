//! Every stage, as one table.

use std::path::PathBuf;
use std::time::Duration;

use super::guest::Place;
use super::kernels::{Architecture, Kernel};

/// Kind of a virtual machine.
#[derive(Clone, Copy, Debug)]
pub(super) enum Machine {
    /// A PC with the root of this host; the script runs there.
    Guest,
    /// A management controller; the script runs on this host.
    Bmc {
        /// File of the lab in the folder `guest` whose host `bmc` it replaces. Without one it is
        /// behind QEMU's own responder.
        lab: Option<&'static str>,
    },
}

/// Clock of a virtual machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Clock {
    /// That of this host.
    Host,
    /// A nanosecond for each instruction of its one CPU; time in which this is idle is left out.
    Instructions,
}

/// One virtual machine and its script.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(super) name: &'static str,
    pub(super) summary: &'static str,
    pub(crate) kernel: &'static Kernel,
    pub(super) machine: Machine,
    /// Script in the folder `guest`.
    pub(super) script: &'static str,
    /// Number of checks that the script has.
    pub(crate) checks: usize,
    /// Modules that are loaded before the script.
    pub(super) modules: &'static [&'static str],
    /// Names of empty disks, each a drive of QEMU for `devices`.
    pub(super) disks: &'static [&'static str],
    /// Further arguments of QEMU.
    pub(super) devices: &'static [&'static str],
    pub(super) cpus: u32,
    pub(super) memory_mib: u32,
    /// How QEMU emulates the processors: `multi` for a thread each, `single` for one thread of all.
    pub(super) threads: &'static str,
    pub(super) clock: Clock,
    /// Longest time from start to power-off.
    pub(super) limit: Duration,
}

impl Stage {
    /// Returns the folder of its files.
    pub(super) fn folder(&self, place: &Place) -> PathBuf {
        place.folder.join("stages").join(self.name)
    }

    /// Returns the folder of its results, which the guest writes.
    pub(crate) fn out(&self, place: &Place) -> PathBuf {
        self.folder(place).join("out")
    }
}

const fn kernel(version: &'static str, suite: &'static str, architecture: Architecture) -> Kernel {
    Kernel { version, suite, architecture }
}

static LINUX_5_10: Kernel = kernel("5.10", "bullseye", Architecture::Amd64);
static LINUX_6_1: Kernel = kernel("6.1", "bookworm", Architecture::Amd64);
static LINUX_6_12: Kernel = kernel("6.12", "trixie", Architecture::Amd64);
static LINUX_7_2: Kernel = kernel("7.2", "sid", Architecture::Amd64);
static BMC_5_10: Kernel = kernel("5.10", "bullseye", Architecture::Armhf);
static BMC_6_1: Kernel = kernel("6.1", "bookworm", Architecture::Armhf);
static BMC_6_12: Kernel = kernel("6.12", "trixie", Architecture::Armhf);

/// Values of most stages.
const PLAIN: Stage = Stage {
    name: "",
    summary: "",
    kernel: &LINUX_6_1,
    machine: Machine::Guest,
    script: "",
    checks: 0,
    modules: &[],
    disks: &[],
    devices: &[],
    cpus: 2,
    memory_mib: 2048,
    threads: "multi",
    clock: Clock::Host,
    limit: Duration::from_secs(300),
};

/// The machine of [`crate::instructions`].
pub(crate) static INSTRUCTIONS: Stage = Stage {
    name: "instructions",
    summary: "instructions of an operation",
    script: "instructions.sh",
    checks: 1,
    cpus: 1,
    threads: "single",
    clock: Clock::Instructions,
    limit: Duration::from_secs(1800),
    ..PLAIN
};

const fn kernel_stage(name: &'static str, summary: &'static str, kernel: &'static Kernel) -> Stage {
    Stage {
        name,
        summary,
        kernel,
        script: "kernel.sh",
        checks: 23,
        modules: &["tcp_bbr", "sch_fq", "sch_netem", "sch_tbf", "veth", "nvme"],
        disks: &["disk"],
        devices: &["-device nvme,serial=first,drive=disk,max_ioqpairs=4"],
        memory_mib: 3072,
        limit: Duration::from_secs(420),
        ..PLAIN
    }
}

const fn bmc_stage(
    name: &'static str,
    summary: &'static str,
    kernel: &'static Kernel,
    lab: Option<&'static str>,
    checks: usize,
) -> Stage {
    let machine = Machine::Bmc { lab };
    Stage { name, summary, kernel, machine, script: "bmc.sh", checks, ..PLAIN }
}

const fn paper_stage(name: &'static str, summary: &'static str, kernel: &'static Kernel) -> Stage {
    let limit = Duration::from_secs(600);
    Stage { limit, ..bmc_stage(name, summary, kernel, Some("bmc-paper.toml"), 4) }
}

/// Every stage, in the order in which they run.
pub(super) static STAGES: &[Stage] = &[
    kernel_stage("kernel-5.10", "what a user does first, on Debian 11's kernel", &LINUX_5_10),
    kernel_stage("kernel-6.1", "what a user does first, on Debian 12's kernel", &LINUX_6_1),
    kernel_stage("kernel-6.12", "what a user does first, on Debian 13's kernel", &LINUX_6_12),
    Stage {
        name: "bonding",
        summary: "members of a bond by port, under each hash policy",
        script: "bonding.sh",
        checks: 10,
        modules: &["bonding", "veth"],
        limit: Duration::from_secs(420),
        ..PLAIN
    },
    Stage {
        name: "pcie",
        summary: "root ports and a switch of PCIe, beside lspci",
        script: "pcie.sh",
        checks: 3,
        modules: &["e1000e", "nvme"],
        disks: &["disk"],
        devices: &[
            "-device pcie-root-port,id=root1,bus=pcie.0,chassis=1,x-speed=8,x-width=8",
            "-device x3130-upstream,id=up,bus=root1",
            "-device xio3130-downstream,id=down1,bus=up,chassis=2",
            "-device xio3130-downstream,id=down2,bus=up,chassis=3",
            "-device xio3130-downstream,id=down3,bus=up,chassis=4",
            "-device e1000e,bus=down1,romfile= -device e1000e,bus=down2,romfile=",
            "-device nvme,serial=first,drive=disk,bus=down3",
            "-device pcie-root-port,id=root2,bus=pcie.0,chassis=5,x-speed=16,x-width=16",
            "-device e1000e,bus=root2,romfile=",
        ],
        ..PLAIN
    },
    Stage {
        name: "numa",
        summary: "two NUMA nodes: workers beside their network card and far from it",
        script: "numa.sh",
        checks: 4,
        modules: &["e1000e"],
        devices: &[
            "-object memory-backend-ram,id=m0,size=1024M",
            "-object memory-backend-ram,id=m1,size=1024M",
            "-numa node,nodeid=0,cpus=0-1,memdev=m0 -numa node,nodeid=1,cpus=2-3,memdev=m1",
            "-numa dist,src=0,dst=1,val=21",
            "-device pxb-pcie,id=pxb0,bus_nr=64,bus=pcie.0,numa_node=0",
            "-device pxb-pcie,id=pxb1,bus_nr=128,bus=pcie.0,numa_node=1",
            "-device pcie-root-port,id=port0,bus=pxb0,chassis=11",
            "-device pcie-root-port,id=port1,bus=pxb1,chassis=12",
            "-netdev hubport,id=wire0,hubid=1 -device e1000e,netdev=wire0,bus=port0,romfile=",
            "-netdev hubport,id=wire1,hubid=1 -device e1000e,netdev=wire1,bus=port1,romfile=",
        ],
        cpus: 4,
        // With a thread each, a virtual CPU of many stood still once (n = 5).
        threads: "single",
        limit: Duration::from_secs(420),
        ..PLAIN
    },
    Stage {
        name: "xdp",
        summary: "AF_XDP without copying, on virtio_net",
        kernel: &LINUX_7_2,
        script: "xdp.sh",
        checks: 2,
        modules: &["virtio_net"],
        devices: &[
            // The driver refuses sockets without copying unless the device uses the DMA interface.
            "-global virtio-net-pci.iommu_platform=on -global virtio-net-pci.disable-legacy=on",
            "-netdev hubport,id=a0,hubid=1",
            "-device virtio-net-pci,netdev=a0,bus=pcie.0,romfile=",
            "-netdev hubport,id=b0,hubid=1",
            "-device virtio-net-pci,netdev=b0,bus=pcie.0,romfile=",
            "-netdev hubport,id=a1,hubid=2",
            "-device virtio-net-pci,netdev=a1,bus=pcie.0,romfile=",
            "-netdev hubport,id=b1,hubid=2",
            "-device virtio-net-pci,netdev=b1,bus=pcie.0,romfile=",
        ],
        // Rings that the guest shares with QEMU need the order of one thread.
        threads: "single",
        ..PLAIN
    },
    bmc_stage(
        "bmc-6.1",
        "a BMC with Debian 12's kernel behind our emulated controller",
        &BMC_6_1,
        Some("bmc.toml"),
        7,
    ),
    paper_stage(
        "bmc-paper-6.1",
        "the Intel paper's tables with a BMC that runs Debian 12's kernel",
        &BMC_6_1,
    ),
    paper_stage("bmc-paper-5.10", "the same with Debian 11's kernel", &BMC_5_10),
    paper_stage("bmc-paper-6.12", "the same with Debian 13's kernel", &BMC_6_12),
    bmc_stage(
        "bmc-legacy",
        "the same, with statistics as long as in old firmware",
        &BMC_6_1,
        Some("bmc-legacy.toml"),
        4,
    ),
    bmc_stage("bmc-slirp", "the same behind QEMU's own responder", &BMC_6_1, None, 2),
    bmc_stage(
        "bmc-5.10",
        "a BMC with Debian 11's kernel behind our emulated controller",
        &BMC_5_10,
        Some("bmc.toml"),
        7,
    ),
    bmc_stage(
        "bmc-6.12",
        "a BMC with Debian 13's kernel behind our emulated controller",
        &BMC_6_12,
        Some("bmc.toml"),
        7,
    ),
];
