//! Devices in use, claims and their end, on real loop devices: what linerate refuses, and what the
//! kernel then refuses to others.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use linerate_disk::{
    CLAIM_BYTES, DiskError, Disks, Permission, Refusal, Synchrony, Use, Writable, claim, inspect,
    list, release,
};

use crate::common::{Loop, MIB, Undo, attach, digest_from, reasons, skip, tool};
use Refusal::{
    Busy, Contains, ForeignClaim, InUse, NoConsent, NotAllowed, OtherSerial, ReadOnly, Unclaimed,
};

/// Mounts `device` for the time of the test, read-only: the filesystem's own journal would change
/// it.
fn mounted(device: &Path, at: &Path) -> Option<Undo> {
    tool("mount", &["-o", "ro", device.to_str()?, at.to_str()?])?;
    Some(Undo::by([&"umount", &at]))
}

fn text(path: &Path) -> &str {
    path.to_str().expect("plain text")
}

fn is_mount(by: &Use) -> bool {
    matches!(by, Use::Mounted { .. })
}

/// Checks that one of `refusals` is a use that `is_it`.
fn assert_used(refusals: &[Refusal], is_it: fn(&Use) -> bool) {
    let is_found = |one: &Refusal| matches!(one, InUse { by } if is_it(by));
    assert!(refusals.iter().any(is_found), "{refusals:?}");
}

/// Returns why a device may not be written to with the consent `serial`, by what is claimed.
fn refused(path: &Path, serial: &str) -> Vec<Refusal> {
    reasons(Disks::new(Writable::Claimed).open(path, write_permission(serial)))
}

fn write_permission(serial: &str) -> Permission<'_> {
    Permission::Write { consent: Some(serial) }
}

#[test]
fn a_mounted_filesystem_is_refused_and_its_place_named() {
    let Some(device) = Loop::blank(16 * MIB) else { return };
    if tool("mkfs.ext4", &["-q", "-F", text(&device.device)]).is_none() {
        return;
    }
    let at = tempfile::tempdir().expect("a folder");
    let Some(_mounted) = mounted(&device.device, at.path()) else { return };
    let refusals = reasons(claim(&device.device, &device.serial()));
    assert!(refusals.contains(&Busy), "{refusals:?}");
    let texts: Vec<String> = refusals.iter().map(ToString::to_string).collect();
    let wanted = format!("is mounted at {}", at.path().display());
    assert!(texts.iter().any(|one| one.ends_with(&wanted)), "{texts:?}");
    let listed = list().into_iter().find(|disk| device.device.ends_with(&disk.topology.name));
    assert_used(&listed.expect("listed").refusals, is_mount);
}

#[test]
fn a_mounted_partition_bars_the_whole_disk_and_a_free_one_may_be_claimed() {
    let Some(device) = Loop::blank(32 * MIB) else { return };
    let disk = text(&device.device);
    let made = tool("sgdisk", &["-n", "1:2048:+8M", "-n", "2:0:+8M", disk]);
    if !device.part(2).exists() {
        // A kernel that does not read partition tables still shows the partitions that partx
        // announces.
        let _ = Command::new("partx").args(["-a", disk]).output();
    }
    if made.is_none() || !device.part(2).exists() {
        let why = "sgdisk is missing, or the kernel shows no partitions on loop devices";
        return skip(why).unwrap_or_default();
    }
    tool("mkfs.ext4", &["-q", "-F", text(&device.part(1))]).expect("mkfs.ext4 as above");
    let at = tempfile::tempdir().expect("a folder");
    let Some(mounted) = mounted(&device.part(1), at.path()) else { return };
    let before = digest_from(&device.device, 0);
    let refusals = reasons(claim(&device.device, &device.serial()));
    assert_used(&refusals, is_mount);
    assert!(refusals.contains(&Busy), "{refusals:?}");
    assert_used(&refusals, |by| matches!(by, Use::Partition { .. }));
    let first = inspect(&device.part(1)).expect("a partition").topology.serial;
    let first = first.expect("its file stands for it");
    assert!(first.ends_with("-part1"));
    assert_used(&reasons(claim(&device.part(1), &first)), is_mount);
    assert!(digest_from(&device.device, 0) == before, "the disk was changed");

    // The disk's own serial number is not a consent for its partition.
    let refusals = reasons(claim(&device.part(2), &device.serial()));
    assert_eq!(refusals, [OtherSerial { named: device.serial() }]);
    let second = first.replace("-part1", "-part2");
    // What a loop device of another test stands on is unclear while it is set up, so it may be any
    // disk: for that moment it bars this one, too.
    let is_unclear = |one: &Refusal| matches!(one, InUse { by: Use::Unclear { .. } });
    let deadline = Instant::now() + Duration::from_secs(5);
    let claimed = loop {
        match claim(&device.part(2), &second) {
            Err(DiskError::Refused { refusals, .. })
                if Instant::now() < deadline && refusals.iter().any(is_unclear) =>
            {
                std::thread::sleep(Duration::from_millis(20));
            }
            claimed => break claimed.expect("it is blank and free"),
        }
    };
    assert_eq!(claimed.serial, second);
    drop((claimed, mounted));
    // Partitions block the disk even if nothing is mounted.
    let refusals = reasons(claim(&device.device, &device.serial()));
    assert_used(&refusals, |by| matches!(by, Use::Partition { .. }));
}

#[test]
fn swap_in_use_is_refused() {
    let Some(device) = Loop::blank(16 * MIB) else { return };
    if tool("mkswap", &["-q", text(&device.device)]).is_none() {
        return;
    }
    let on = Command::new("swapon").arg(&device.device).output().expect("swapon is beside mkswap");
    if !on.status.success() {
        let why = String::from_utf8_lossy(&on.stderr);
        return skip(format_args!("swapon: {}", why.trim())).unwrap_or_default();
    }
    let _swap = Undo::by([&"swapoff", &&*device.device]);
    let refusals = reasons(claim(&device.device, &device.serial()));
    assert!(refusals.contains(&Busy), "{refusals:?}");
    assert_used(&refusals, |by| matches!(by, Use::Swap { .. }));
}

#[test]
fn a_device_behind_a_loop_device_is_refused() {
    let Some(device) = Loop::blank(16 * MIB) else { return };
    let Some(upper) = attach("", &device.device) else { return };
    let refusals = reasons(claim(&device.device, &device.serial()));
    drop(upper);
    assert_used(&refusals, |by| matches!(by, Use::BehindLoop { .. }));
    let Some(_twin) = attach("", &device.image) else { return };
    let refusals = reasons(claim(&device.device, &device.serial()));
    assert_used(&refusals, |by| matches!(by, Use::BehindLoop { .. }));
}

#[test]
fn a_read_only_device_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let image = folder.path().join("image");
    std::fs::File::create(&image).and_then(|file| file.set_len(16 * MIB)).expect("a sparse file");
    let Some(fixed) = attach("-r", &image) else { return };
    let refusals = reasons(claim(&fixed, "any"));
    assert!(refusals.contains(&ReadOnly), "{refusals:?}");
}

#[test]
fn the_root_filesystems_device_is_refused() {
    let root = list().into_iter().find(|disk| {
        disk.topology.uses.iter().any(|one| matches!(one, Use::Mounted { at, .. } if at == "/"))
    });
    match root {
        Some(disk) => assert_used(&disk.refusals, is_mount),
        None => println!("skipped: root device: the root filesystem is on no block device"),
    }
}

#[test]
fn a_claim_changes_only_its_block_and_release_restores_it() {
    let Some(device) = Loop::blank(16 * MIB) else { return };
    let (path, serial) = (&device.device, device.serial());
    let blank = device.digest();
    let rest = digest_from(&device.image, CLAIM_BYTES);
    assert_eq!(reasons(claim(path, "wrong")), [OtherSerial { named: "wrong".into() }]);
    assert!(device.digest() == blank);
    let claimed = claim(path, &serial).expect("blank and free");
    assert!(inspect(path).expect("a device").is_claimed());
    assert_ne!(device.digest(), blank);
    assert!(digest_from(&device.image, CLAIM_BYTES) == rest, "only the claim's block was written");
    assert_eq!(release(path).expect("it is claimed"), claimed);
    assert!(device.digest() == blank, "it is as it was");
}

#[test]
fn a_writer_must_pass_every_check() {
    let Some(device) = Loop::blank(16 * MIB) else { return };
    let (path, serial) = (&device.device, device.serial());
    assert_eq!(refused(path, &serial), [Unclaimed]);
    claim(path, &serial).expect("blank and free");
    let none = Permission::Write { consent: None };
    assert_eq!(reasons(Disks::new(Writable::Claimed).open(path, none)), [NoConsent]);
    assert_eq!(refused(path, "other"), [OtherSerial { named: "other".into() }]);
    // The agent's own list decides, whatever the conductor requests.
    for list in [vec![], vec!["other".to_owned()]] {
        let disks = Disks::new(Writable::Listed(list));
        assert_eq!(reasons(disks.open(path, write_permission(&serial))), [NotAllowed]);
    }
    let listed = Disks::new(Writable::Listed(vec![serial.clone()]));
    let target = listed.open(path, write_permission(&serial)).expect("every check passes");
    assert_eq!(target.range(), MIB..15 * MIB, "its edges are left alone");
}

/// Opens `device` for itself alone, once the list of another test has let it go.
fn hold(device: &Path) -> File {
    let excl = i32::try_from(rustix::fs::OFlags::EXCL.bits()).expect("a small number");
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        match OpenOptions::new().read(true).custom_flags(excl).open(device) {
            Ok(held) => return held,
            Err(error) => assert!(Instant::now() < deadline, "it is not free: {error}"),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_device_that_a_list_of_disks_holds_for_a_moment_is_not_in_use() {
    let Some(device) = Loop::blank(16 * MIB) else { return };
    let (path, serial) = (&device.device, device.serial());
    claim(path, &serial).expect("blank and free");
    let open = || Disks::new(Writable::Claimed).open(path, write_permission(&serial));
    let held = hold(path);
    assert_eq!(reasons(open()), [Busy]);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            std::thread::sleep(Duration::from_millis(30));
            drop(held);
        });
        open().expect("it is free again after a moment");
    });
}

#[test]
fn a_device_opened_for_writing_is_held_until_the_session_ends() {
    let Some(device) = Loop::blank(16 * MIB) else { return };
    let (path, serial) = (&device.device, device.serial());
    claim(path, &serial).expect("blank and free");
    let disks = Disks::new(Writable::Claimed);
    drop(disks.open(path, write_permission(&serial)).expect("open"));
    // Nobody uses it now, and it is still held.
    assert!(refused(path, &serial).contains(&Busy));
    assert!(reasons(release(path)).contains(&Busy));
    assert!(inspect(path).expect("a device").refusals.contains(&Busy), "and the list says so");
    let before = device.digest();
    let mkfs = Command::new("mkfs.ext4").args(["-q", "-F"]).arg(path).output();
    if let Ok(mkfs) = mkfs {
        assert!(!mkfs.status.success(), "mkfs.ext4 does not get it");
        assert!(device.digest() == before);
    }
    // The next trial of the session gets it.
    assert!(disks.open(path, write_permission(&serial)).is_ok());
    drop(disks);
    assert!(release(path).is_ok());
}

#[test]
fn a_filesystem_made_after_the_claim_ends_the_consent() {
    for (mkfs, size, name) in [
        ("mkfs.ext4", 16, "ext4"),
        ("mkfs.xfs", 320, "xfs"),
        ("mkfs.btrfs", 128, "btrfs"),
        ("mkfs.vfat", 16, "vfat"),
    ] {
        let Some(device) = Loop::blank(size * MIB) else { return };
        let (path, serial) = (&device.device, device.serial());
        claim(path, &serial).expect("blank and free");
        let forced = if mkfs == "mkfs.xfs" || mkfs == "mkfs.btrfs" { "-f" } else { "-v" };
        let forced = if mkfs == "mkfs.ext4" { "-F" } else { forced };
        if tool(mkfs, &[forced, text(path)]).is_none() {
            continue;
        }
        let before = device.digest();
        let refusals = refused(path, &serial);
        let named = |one: &Refusal| matches!(one, Contains { finding } if finding.name == name);
        assert!(refusals.iter().any(named), "{name}: {refusals:?}");
        assert!(device.digest() == before, "{name} was changed");
    }
}

#[test]
fn a_claim_copied_to_another_disk_is_none() {
    let Some(one) = Loop::blank(16 * MIB) else { return };
    let Some(other) = Loop::blank(16 * MIB) else { return };
    claim(&one.device, &one.serial()).expect("blank and free");
    let mut block = vec![0; CLAIM_BYTES];
    std::fs::File::open(&one.device)
        .and_then(|file| file.read_exact_at(&mut block, 0))
        .expect("read");
    let file = OpenOptions::new().write(true).open(&other.device).expect("the other");
    file.write_all_at(&block, 0).and_then(|()| file.sync_all()).expect("copied");
    drop(file);
    let refusals = refused(&other.device, &other.serial());
    assert_eq!(refusals, [ForeignClaim { serial: one.serial() }]);
}

#[test]
fn existing_files_are_read_and_never_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("precious");
    std::fs::write(&file, vec![7; 8192]).expect("written");
    let disks = Disks::new(Writable::Claimed);
    let opened = disks.open(&file, write_permission("any"));
    assert!(matches!(opened, Err(DiskError::Unsuitable { .. })));
    let target = disks.open(&file, Permission::Read).expect("readable");
    assert_eq!(target.range(), 0..8192);
    assert!(target.open(true, false).is_err(), "not even by the way of what is open");
    assert_eq!(std::fs::read(&file).expect("readable"), vec![7; 8192]);
}

#[test]
fn a_target_is_opened_with_the_requested_synchrony() {
    // `O_DSYNC`, and the additional bit of `O_SYNC` (open(2)).
    const DSYNC: u32 = 0o10_000;
    const SYNC: u32 = 0o4_000_000 | DSYNC;
    let folder = tempfile::tempdir_in("/dev/shm").expect("a folder");
    let target = Disks::none().scratch(folder.path(), 1 << 20).expect("a scratch file");
    for (synchrony, bits) in
        [(Synchrony::None, 0), (Synchrony::Data, DSYNC), (Synchrony::All, SYNC)]
    {
        let file = target.open_as(true, false, synchrony).expect("opened");
        let flags = rustix::fs::fcntl_getfl(&file).expect("flags").bits();
        assert_eq!(flags & SYNC, bits, "{synchrony:?}");
    }
}

#[test]
fn a_scratch_file_is_the_sessions_own() {
    let folder = tempfile::tempdir_in("/dev/shm").expect("a folder");
    let disks = Disks::default();
    let one = disks.scratch(folder.path(), MIB).expect("made");
    let again = disks.scratch(folder.path(), MIB).expect("the same");
    assert!(std::sync::Arc::ptr_eq(&one, &again));
    let written = one.open(true, false).expect("it may be written to");
    written.write_all_at(b"mine", 0).expect("written");
    assert_eq!(std::fs::read_dir(folder.path()).expect("readable").count(), 0, "it has no name");
}
