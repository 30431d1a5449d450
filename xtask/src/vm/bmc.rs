//! A management controller (BMC): an emulated AST2600 that runs a Debian kernel with its own NC-SI
//! stack. Behind its sideband is linerate's emulated network controller in a lab of this host, or
//! the responder that QEMU has built in.
//!
//! The BMC's root is an initramfs: busybox, and a static linerate for its processor. It runs the
//! commands that the script of the stage sends it over HTTP. Times mean nothing there either.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use super::guest::{self, Place};
use super::kernels;
use super::stages::Stage;
use crate::dist::build::{Build, built};
use crate::dist::target::BMC;
use crate::tools::printed;

/// Modules of the BMC: its network interface, and the bus of its sideband.
const MODULES: [&str; 3] = ["fixed_phy", "mdio-aspeed", "ftgmac100"];
/// Folders that its root has at the start.
const FOLDERS: [&str; 8] = ["bin", "dev", "modules", "proc", "root", "sys", "tmp", "www/cgi-bin"];
/// Programs of busybox that it uses.
const APPLETS: [&str; 15] = [
    "cat", "chmod", "cut", "dmesg", "echo", "grep", "httpd", "ifconfig", "insmod", "kill", "mount",
    "sh", "sleep", "timeout", "uname",
];
/// Board whose device tree it is, in the package of the kernel.
const BOARD: &str = "aspeed-bmc-opp-tacoma.dtb";
/// Rate of the processor's timer that QEMU emulates, Hz; the device tree says 1.125 GHz.
const TIMER_HZ: &str = "1000000000";

/// Returns the command that runs `stage` with the lab file `lab`, or with QEMU's own responder.
pub(super) fn command(
    stage: &Stage,
    lab: Option<&str>,
    kernel: &Path,
    place: &Place,
    folder: &Path,
) -> anyhow::Result<Command> {
    let linerate = match &place.linerate_armv7 {
        Some(given) => given.clone(),
        None => built(&place.root, &place.folder, BMC, Build::Tested)?,
    };
    root(stage, kernel, place, &linerate, folder)?;
    let tree = folder.join("board.dtb");
    fs::copy(device_tree(kernel)?, &tree).context("copy the device tree")?;
    let (node, property) = ("/timer", "clock-frequency");
    printed(Command::new("fdtput").args(["-t", "i"]).arg(&tree).args([node, property, TIMER_HZ]))?;
    let scripts = place.scripts();
    let seconds = stage.limit.as_secs().to_string();
    // A signal ends the script, which then removes the lab.
    let mut command = Command::new("timeout");
    command
        .args(["--kill-after=20", &seconds, "bash"])
        .arg(scripts.join(stage.script))
        .env("GUEST", &scripts)
        .env("OUT", folder.join("out"))
        .env("FOLDER", folder)
        .env("IMAGE", kernels::boot_image(kernel)?)
        .env("LINERATE", &place.linerate)
        .env("LAB", lab.map_or_else(PathBuf::new, |lab| scripts.join(lab)));
    Ok(command)
}

/// Writes the root of the BMC.
fn root(
    stage: &Stage,
    kernel: &Path,
    place: &Place,
    linerate: &Path,
    folder: &Path,
) -> anyhow::Result<()> {
    let tree = folder.join("initramfs");
    for name in FOLDERS {
        fs::create_dir_all(tree.join(name))?;
    }
    let package = kernels::package("busybox-static", stage.kernel, &place.folder)?;
    // Newer suites have programs below usr.
    let files = ["bin/busybox", "usr/bin/busybox"].map(|file| package.join(file));
    let busybox = files.iter().find(|file| file.is_file()).context("a package without busybox")?;
    guest::busybox(busybox, &APPLETS, &tree)?;
    guest::modules(kernel, &MODULES, &tree)?;
    fs::copy(linerate, tree.join("bin/linerate")).context("copy linerate")?;
    let scripts = place.scripts();
    fs::copy(scripts.join("bmc-init.sh"), tree.join("init"))?;
    fs::copy(scripts.join("bmc-run.sh"), tree.join("www/cgi-bin/run"))?;
    guest::packed(&tree)
}

/// Returns the device tree of the board: its folder has the kernel's name.
fn device_tree(kernel: &Path) -> anyhow::Result<PathBuf> {
    let found =
        printed(Command::new("find").arg(kernel).args(["-name", BOARD, "-print", "-quit"]))?;
    let path = PathBuf::from(found.trim());
    anyhow::ensure!(path.is_file(), "{} has no {BOARD}", kernel.display());
    Ok(path)
}
