//! Every kind of content on a real loop device, made by its own tools, is found, named as libblkid
//! names it, and refused, and no byte of the device changes.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::process::Command;

use linerate_disk::{Disks, Permission, Refusal, Writable, claim, inspect, release};

use crate::common::{Loop, MIB, reasons, skip, tool};

/// Marks of md, because mdadm needs the kernel's driver to create them: `mdp_superblock_1` and
/// `mdp_super_t` (include/uapi/linux/raid/md_p.h), as far as libblkid reads them.
const MD_MAGIC: [u8; 4] = 0xA92B_4EFC_u32.to_le_bytes();

/// Asks libblkid; `None` if it is not installed.
fn blkid(device: &std::path::Path) -> Option<String> {
    let output = Command::new("blkid").args(["-p", "-o", "export"]).arg(device).output().ok()?;
    let output_text = String::from_utf8_lossy(&output.stdout).into_owned();
    let field = |name: &str| {
        output_text.lines().find_map(|line| line.strip_prefix(name).map(str::to_owned))
    };
    field("TYPE=").or_else(|| field("PTTYPE="))
}

/// Tries everything that could write to `device`, and expects `name` as the reason each time.
fn refused_and_untouched(device: &Loop, name: &str) {
    let before = device.digest();
    let inspection = inspect(&device.device).expect("a block device");
    let found = |refusals: &[Refusal]| {
        refusals
            .iter()
            .any(|one| matches!(one, Refusal::Contains { finding } if finding.name == name))
    };
    assert!(found(&inspection.refusals), "{name}: {:?}", inspection.refusals);
    let serial = device.serial();
    assert!(found(&reasons(claim(&device.device, &serial))), "{name}: claim");
    let disks = Disks::new(Writable::Claimed);
    let opened = disks.open(&device.device, Permission::Write { consent: Some(&serial) });
    assert!(found(&reasons(opened)), "{name}: open");
    assert_eq!(reasons(release(&device.device)), [Refusal::Unclaimed], "{name}: release");
    assert!(
        disks.open(&device.device, Permission::Read).is_ok(),
        "{name}: reading is always allowed"
    );
    drop(disks);
    assert!(device.digest() == before, "{name}: the device was changed");
}

/// Tests one kind: `command` with the device at the end, or in place of `@`.
fn made_by(name: &str, size: u64, command: &str, arguments: &[&str]) -> Option<()> {
    let device = Loop::blank(size)?;
    let path = device.device.to_str().expect("plain text");
    let mut arguments: Vec<&str> =
        arguments.iter().map(|argument| if *argument == "@" { path } else { argument }).collect();
    if !arguments.contains(&path) {
        arguments.push(path);
    }
    tool(command, &arguments)?;
    if let Some(output_text) = blkid(&device.device) {
        assert_eq!(output_text, name, "libblkid agrees");
    }
    refused_and_untouched(&device, name);
    println!("refused: {name} by {command}");
    Some(())
}

#[test]
fn filesystems_are_refused() {
    for (name, size, command, arguments) in [
        ("ext2", 16, "mkfs.ext2", &["-q", "-F"][..]),
        ("ext3", 16, "mkfs.ext3", &["-q", "-F"]),
        ("ext4", 16, "mkfs.ext4", &["-q", "-F"]),
        ("xfs", 320, "mkfs.xfs", &["-q", "-f"]),
        ("btrfs", 128, "mkfs.btrfs", &["-q", "-f"]),
        ("vfat", 16, "mkfs.vfat", &["-F", "12"]),
        ("vfat", 32, "mkfs.vfat", &["-F", "16"]),
        ("vfat", 64, "mkfs.vfat", &["-F", "32"]),
        ("exfat", 16, "mkfs.exfat", &[]),
        ("ntfs", 16, "mkfs.ntfs", &["-Q", "-F"]),
        ("f2fs", 128, "mkfs.f2fs", &["-q", "-f"]),
        (
            "squashfs",
            16,
            "mksquashfs",
            &["/etc/hostname", "@", "-noappend", "-quiet", "-no-progress"],
        ),
        ("erofs", 16, "mkfs.erofs", &["@", "src"]),
    ] {
        made_by(name, size * MIB, command, arguments);
    }
}

#[test]
fn swap_volumes_and_encryption_are_refused() {
    for (name, size, command, arguments) in [
        ("swap", 16, "mkswap", &["-q"][..]),
        ("swap", 16, "mkswap", &["-q", "-p", "65536"]),
        ("LVM2_member", 16, "pvcreate", &["-q", "-ff", "-y"]),
        ("bcache", 16, "make-bcache", &["-B"]),
    ] {
        made_by(name, size * MIB, command, arguments);
    }
    let quick = "--pbkdf-force-iterations 1000";
    for luks in ["luks1", "luks2"] {
        let device = "\"$1\"";
        let script = format!(
            "echo secret | cryptsetup luksFormat -q --type {luks} --pbkdf pbkdf2 {quick} {device} -"
        );
        if Command::new("cryptsetup").arg("--version").output().is_ok() {
            made_by("crypto_LUKS", 32 * MIB, "sh", &["-c", &script, "sh"]);
        } else {
            skip::<()>("there is no cryptsetup");
        }
    }
}

#[test]
fn partition_tables_are_refused_even_when_empty() {
    made_by("gpt", 16 * MIB, "sgdisk", &["-o"]);
    made_by("gpt", 16 * MIB, "sgdisk", &["-n", "1:2048:4095"]);
    made_by("dos", 16 * MIB, "sh", &["-c", "echo 2048,2048,83 | sfdisk -q \"$1\"", "sh"]);
    made_by("dos", 16 * MIB, "sh", &["-c", "echo label:dos | sfdisk -q \"$1\"", "sh"]);
}

#[test]
fn a_second_copy_is_enough() {
    let Some(device) = Loop::blank(16 * MIB) else { return };
    let path = device.device.to_str().expect("plain text");
    let wipe = |bytes: usize| {
        let file = OpenOptions::new().write(true).open(&device.image).expect("the image");
        file.write_all_at(&vec![0; bytes], 0).expect("wiped");
    };
    if tool("sgdisk", &["-o", path]).is_some() {
        // The primary table is erased; the copy at the end is still found.
        wipe(34 * 512);
        let _ = Command::new("blockdev").args(["--flushbufs", path]).status();
        refused_and_untouched(&device, "gpt");
    }
}

/// Members of md arrays, which libblkid recognizes as well.
#[test]
fn md_members_are_refused() {
    let size = 16 * MIB;
    // Version, place of the superblock.
    for (version, at) in [("0.90", size - 65_536), ("1.0", size - 8192), ("1.1", 0), ("1.2", 4096)]
    {
        let Some(device) = Loop::blank(size) else { return };
        let mut superblock = [0_u8; 256];
        superblock[..4].copy_from_slice(&MD_MAGIC);
        let (major, place) = if version == "0.90" { (0_u32, 0_u64) } else { (1, at / 512) };
        superblock[4..8].copy_from_slice(&major.to_le_bytes());
        if major == 1 {
            superblock[144..152].copy_from_slice(&place.to_le_bytes());
        } else {
            superblock[8..12].copy_from_slice(&90_u32.to_le_bytes());
        }
        let file = OpenOptions::new().write(true).open(&device.device).expect("the device");
        file.write_all_at(&superblock, at).and_then(|()| file.sync_all()).expect("written");
        drop(file);
        if let Some(output_text) = blkid(&device.device) {
            assert_eq!(output_text, "linux_raid_member", "libblkid agrees on version {version}");
        }
        refused_and_untouched(&device, "linux_raid_member");
        println!("refused: md version {version}");
    }
}

#[test]
fn unknown_data_is_refused() {
    let size = 16 * MIB;
    for at in [5, 700_000, size - 3] {
        let Some(device) = Loop::blank(size) else { return };
        let file = OpenOptions::new().write(true).open(&device.device).expect("the device");
        file.write_all_at(b"x", at).and_then(|()| file.sync_all()).expect("written");
        drop(file);
        let before = device.digest();
        assert_eq!(
            reasons(claim(&device.device, &device.serial())),
            [Refusal::NotBlank { offset: at }]
        );
        assert!(device.digest() == before);
    }
}
