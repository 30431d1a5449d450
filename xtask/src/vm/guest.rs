//! A virtual machine: its initramfs, the command line of QEMU, and the wait for its results.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use super::bmc;
use super::checks::Checks;
use super::kernels::{boot_image, release};
use super::stages::{Clock, Machine, Stage};
use crate::bench::scratch::Killed;
use crate::tools::printed;

/// Size of each virtual disk, bytes.
const DISK_BYTES: u64 = 1 << 30;
/// Modules that reach the root; the kernel may have them built in.
const ROOT_MODULES: [&str; 4] = ["virtio_pci", "9pnet_virtio", "9p", "overlay"];
/// Programs of busybox that `init.sh` calls.
const APPLETS: [&str; 8] =
    ["cat", "echo", "insmod", "mkdir", "mount", "poweroff", "sh", "switch_root"];
/// Folders that the initramfs has at its start.
const FOLDERS: [&str; 9] =
    ["bin", "dev", "host", "memory", "modules", "out", "proc", "root", "sys"];
/// Parameters of the kernel. Without `tsc=reliable` it leaves an emulated clock source under load.
const KERNEL_PARAMETERS: &str = "console=ttyS0 quiet loglevel=5 panic=-1 mitigations=off \
    tsc=reliable random.trust_cpu=on";
/// How often new results are looked for.
const POLL: Duration = Duration::from_millis(200);
/// Time in which a machine that ends at its limit is expected to be gone.
const GRACE: Duration = Duration::from_secs(30);

/// Files and folders that every stage uses.
pub(crate) struct Place {
    /// Folder of the workspace.
    pub(crate) root: PathBuf,
    /// Folder of kernels and results.
    pub(crate) folder: PathBuf,
    /// The linerate that is checked.
    pub(crate) linerate: PathBuf,
    /// The same for the processor of a BMC, if it is already built.
    pub(crate) linerate_armv7: Option<PathBuf>,
}

impl Place {
    /// Returns the folder of the scripts.
    pub(super) fn scripts(&self) -> PathBuf {
        self.root.join("xtask/src/vm/guest")
    }
}

/// Runs `stage` on the unpacked `kernel`, which finds the texts `files` by name in its folder of
/// results. Results and the console stay below the folder of `place`.
///
/// # Errors
/// If the machine cannot be started, or does not power off within the limit of the stage.
pub(crate) fn run(
    stage: &Stage,
    kernel: &Path,
    place: &Place,
    files: &[(&str, &str)],
) -> anyhow::Result<Checks> {
    let folder = stage.folder(place);
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    let out = stage.out(place);
    fs::create_dir_all(&out)?;
    for (name, text) in files {
        fs::write(out.join(name), text)?;
    }
    let results = out.join("checks");
    fs::write(&results, "")?;
    let mut command = match stage.machine {
        Machine::Guest => {
            for disk in stage.disks {
                let file = File::create_new(folder.join(format!("{disk}.img")))?;
                file.set_len(DISK_BYTES)?;
            }
            initramfs(stage, kernel, place, &folder)?;
            qemu(stage, kernel, &folder)?
        }
        Machine::Bmc { lab } => bmc::command(stage, lab, kernel, place, &folder)?,
    };
    let console = folder.join("console.log");
    let mut machine = Killed(
        command
            .stdin(Stdio::null())
            .stdout(File::create(&console)?)
            .stderr(File::create(folder.join("qemu.log"))?)
            .spawn()
            .with_context(|| format!("start {command:?}"))?,
    );
    let begun = Instant::now();
    let mut n_shown = 0;
    loop {
        let ended = machine.0.try_wait()?;
        let text = fs::read_to_string(&results)?;
        // A line may be half written.
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole.lines().skip(n_shown).for_each(|line| println!("   {line}"));
        n_shown = whole.lines().count();
        if let Some(status) = ended {
            ensure!(status.success(), "the machine ended with {status}: {}", folder.display());
            return Ok(Checks::parse(&text));
        }
        // A BMC's own limit ends it, so that its lab goes, too.
        if begun.elapsed() > stage.limit + GRACE {
            bail!("not done after {} s: see {}", stage.limit.as_secs(), console.display());
        }
        thread::sleep(POLL);
    }
}

/// Writes the initramfs of a stage: busybox, the modules that reach the root, and settings.
fn initramfs(stage: &Stage, kernel: &Path, place: &Place, folder: &Path) -> anyhow::Result<()> {
    let tree = folder.join("initramfs");
    for name in FOLDERS {
        fs::create_dir_all(tree.join(name))?;
    }
    let own = printed(Command::new("sh").args(["-c", "command -v busybox"]))?;
    busybox(Path::new(own.trim()), &APPLETS, &tree)?;
    modules(kernel, &ROOT_MODULES, &tree)?;
    let scripts = place.scripts();
    let settings = format!(
        "GUEST='{}'\nKERNEL='{}'\nLINERATE='{}'\nMODULES='{}'\nSCRIPT='{}'\n",
        scripts.display(),
        kernel.display(),
        place.linerate.display(),
        stage.modules.join(" "),
        stage.script
    );
    fs::write(tree.join("settings"), settings)?;
    fs::copy(scripts.join("init.sh"), tree.join("init"))?;
    packed(&tree)
}

/// Copies the program `busybox` into the tree of an initramfs, with the names of its `applets`.
pub(super) fn busybox(busybox: &Path, applets: &[&str], tree: &Path) -> anyhow::Result<()> {
    fs::copy(busybox, tree.join("bin/busybox")).context("copy busybox")?;
    for applet in applets {
        std::os::unix::fs::symlink("busybox", tree.join("bin").join(applet))?;
    }
    Ok(())
}

/// Copies the modules `names` and what they need into the tree of an initramfs, with their order.
pub(super) fn modules(kernel: &Path, names: &[&str], tree: &Path) -> anyhow::Result<()> {
    let mut order = String::new();
    for module in files(kernel, names)? {
        order += &format!("{}\n", unpacked_module(&module, &tree.join("modules"))?);
    }
    Ok(fs::write(tree.join("modules/order"), order)?)
}

/// Packs the tree of an initramfs into the file `initrd` beside it.
pub(super) fn packed(tree: &Path) -> anyhow::Result<()> {
    let pack = "chmod 755 init && find . | cpio -o -H newc --quiet > ../initrd";
    printed(Command::new("sh").args(["-c", pack]).current_dir(tree))?;
    Ok(())
}

/// Returns the files of modules and of what they need, in load order.
fn files(kernel: &Path, names: &[&str]) -> anyhow::Result<Vec<PathBuf>> {
    let version = release(kernel)?;
    let mut files: Vec<PathBuf> = Vec::new();
    for module in names {
        let mut modprobe = Command::new("modprobe");
        modprobe.arg("-d").arg(kernel).args(["-S", &version, "--show-depends", *module]);
        for line in printed(&mut modprobe)?.lines() {
            // Modules that are built in have no file.
            let file = line.strip_prefix("insmod ").map(|file| PathBuf::from(file.trim()));
            files.extend(file.filter(|file| !files.contains(file)));
        }
    }
    Ok(files)
}

/// Copies a module to `folder`, unpacked: busybox loads no packed ones. Returns its name.
fn unpacked_module(module: &Path, folder: &Path) -> anyhow::Result<String> {
    let name = module.file_name().context("a module's name")?.to_string_lossy().into_owned();
    fs::copy(module, folder.join(&name)).with_context(|| format!("copy {}", module.display()))?;
    let Some(bare) = name.strip_suffix(".xz") else { return Ok(name) };
    printed(Command::new("xz").args(["-d", &name]).current_dir(folder))?;
    Ok(bare.to_owned())
}

/// Returns the command line of the machine of `stage`.
fn qemu(stage: &Stage, kernel: &Path, folder: &Path) -> anyhow::Result<Command> {
    let image = boot_image(kernel)?;
    let share = |tag: &str, path: &Path, options: &str| {
        format!("local,path={},mount_tag={tag},security_model=none{options}", path.display())
    };
    let mut qemu = Command::new("qemu-system-x86_64");
    let accelerator = format!("tcg,thread={}", stage.threads);
    qemu.args(["-M", "q35", "-accel", &accelerator, "-cpu", "max", "-nodefaults"])
        .args(["-no-user-config", "-no-reboot", "-display", "none"])
        .args(["-smp", &stage.cpus.to_string(), "-m", &stage.memory_mib.to_string()])
        .args(["-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console"])
        .arg("-kernel")
        .arg(image)
        .arg("-initrd")
        .arg(folder.join("initrd"))
        .arg("-append")
        .arg(match stage.clock {
            Clock::Host => KERNEL_PARAMETERS.to_owned(),
            // The same addresses in each run.
            Clock::Instructions => format!("{KERNEL_PARAMETERS} nokaslr"),
        })
        .args(["-virtfs", &share("host", Path::new("/"), ",readonly=on,multidevs=remap")])
        .args(["-virtfs", &share("out", &folder.join("out"), "")])
        .args(["-device", "virtio-rng-pci,bus=pcie.0"]);
    if stage.clock == Clock::Instructions {
        qemu.args(["-icount", "shift=0,sleep=off,align=off"]);
    }
    for disk in stage.disks {
        let file = folder.join(format!("{disk}.img"));
        qemu.arg("-drive").arg(format!("file={},if=none,id={disk},format=raw", file.display()));
    }
    qemu.args(stage.devices.iter().flat_map(|line| line.split_whitespace()));
    Ok(qemu)
}
