//! `bpf(2)`: one function per command, each with its own part of `union bpf_attr` (linux/bpf.h).

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

const MAP_CREATE: libc::c_long = 0;
const MAP_LOOKUP: libc::c_long = 1;
const MAP_UPDATE: libc::c_long = 2;
const PROGRAM_LOAD: libc::c_long = 5;
const PROGRAM_RUN: libc::c_long = 10;
const RAW_TRACEPOINT_OPEN: libc::c_long = 17;
const LINK_CREATE: libc::c_long = 28;
const LINK_DETACH: libc::c_long = 34;

/// Size of names of maps and programs: 15 bytes and a zero.
const NAME_BYTES: usize = 16;

#[repr(C)]
#[derive(Default)]
struct MapCreate {
    kind: u32,
    key_bytes: u32,
    value_bytes: u32,
    n_entries: u32,
    flags: u32,
    inner_map: u32,
    numa_node: u32,
    name: [u8; NAME_BYTES],
}

#[repr(C)]
#[derive(Default)]
struct MapElement {
    map: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
#[derive(Default)]
struct ProgramLoad {
    kind: u32,
    n_instructions: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; NAME_BYTES],
    ifindex: u32,
    expected_attach_type: u32,
}

#[repr(C)]
#[derive(Default)]
struct ProgramRun {
    program: u32,
    result: u32,
    bytes_in: u32,
    bytes_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    context_bytes_in: u32,
    context_bytes_out: u32,
    context_in: u64,
    context_out: u64,
    flags: u32,
    cpu: u32,
    batch: u32,
    padding: u32,
}

#[repr(C)]
#[derive(Default)]
struct RawTracepointOpen {
    name: u64,
    program: u32,
    padding: u32,
}

#[repr(C)]
#[derive(Default)]
struct LinkCreate {
    program: u32,
    target_ifindex: u32,
    attach_type: u32,
    flags: u32,
}

// The kernel reads missing fields as zero and refuses longer attributes unless the rest is zero.
// Sizes are therefore part of the interface.
const _: () = assert!(size_of::<MapCreate>() == 44);
const _: () = assert!(size_of::<MapElement>() == 32);
const _: () = assert!(size_of::<ProgramLoad>() == 72);
const _: () = assert!(size_of::<ProgramRun>() == 80);
const _: () = assert!(size_of::<RawTracepointOpen>() == 16);
const _: () = assert!(size_of::<LinkCreate>() == 16);

/// # Safety
/// Every address in `attributes` must be valid for what `command` does with it.
unsafe fn bpf<T>(command: libc::c_long, attributes: &mut T) -> io::Result<i32> {
    // SAFETY: `attributes` is live, initialised and writable for its size; the caller answers for
    // the addresses in it.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, command, &raw mut *attributes, size_of::<T>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
}

/// # Safety
/// As for [`bpf`]; and `command` must return a new descriptor.
unsafe fn open<T>(command: libc::c_long, attributes: &mut T) -> io::Result<OwnedFd> {
    // SAFETY: the caller guarantees it.
    let fd = unsafe { bpf(command, attributes) }?;
    // SAFETY: the kernel just made this descriptor for us, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn number(fd: &impl AsFd) -> u32 {
    fd.as_fd().as_raw_fd() as u32
}

fn address<T>(slice: &[T]) -> u64 {
    slice.as_ptr().addr() as u64
}

/// The first 15 bytes of `name`, which must be letters, digits, `_` or `.`.
fn short(name: &str) -> [u8; NAME_BYTES] {
    let mut short = [0; NAME_BYTES];
    short.iter_mut().zip(name.bytes().take(NAME_BYTES - 1)).for_each(|(to, byte)| *to = byte);
    short
}

pub(super) fn create_map(
    kind: u32,
    name: &str,
    key_bytes: u32,
    value_bytes: u32,
    n_entries: u32,
    flags: u32,
) -> io::Result<OwnedFd> {
    let mut attributes = MapCreate {
        kind,
        key_bytes,
        value_bytes,
        n_entries,
        flags,
        name: short(name),
        ..MapCreate::default()
    };
    // SAFETY: no address is passed.
    unsafe { open(MAP_CREATE, &mut attributes) }
}

/// Writes the entry at `key`. `value` must be as long as the map's values.
pub(super) fn update(
    map: BorrowedFd<'_>,
    value_bytes: usize,
    key: u32,
    value: &[u8],
) -> io::Result<()> {
    assert_eq!(value.len(), value_bytes, "a value as long as the map's");
    let key = [key];
    let mut attributes = MapElement {
        map: number(&map),
        key: address(&key),
        value: address(value),
        ..MapElement::default()
    };
    // SAFETY: the kernel reads a key of four bytes, which every map here has, and a value of the
    // map's size, checked above.
    unsafe { bpf(MAP_UPDATE, &mut attributes) }.map(drop)
}

/// Reads the entry at `key` of a map whose value, all CPUs together, is `value_bytes` long.
pub(super) fn look_up(
    map: BorrowedFd<'_>,
    value_bytes: usize,
    key: u32,
    value: &mut [u8],
) -> io::Result<()> {
    assert_eq!(value.len(), value_bytes, "a value as long as the map's");
    let key = [key];
    let to = value.as_mut_ptr().expose_provenance() as u64;
    let mut attributes =
        MapElement { map: number(&map), key: address(&key), value: to, ..MapElement::default() };
    // SAFETY: the kernel reads a key of four bytes, which every map here has, and writes a value of
    // the map's size, checked above.
    unsafe { bpf(MAP_LOOKUP, &mut attributes) }.map(drop)
}

/// Loads a program. If there is a `log`, the verifier writes into it and ends it with a zero.
pub(super) fn load(
    kind: u32,
    name: &str,
    instructions: &[[u8; 8]],
    license: &CStr,
    flags: u32,
    log: Option<&mut [u8]>,
) -> io::Result<OwnedFd> {
    let mut attributes = ProgramLoad {
        kind,
        n_instructions: instructions.len() as u32,
        instructions: address(instructions),
        license: address(license.to_bytes_with_nul()),
        flags,
        name: short(name),
        ..ProgramLoad::default()
    };
    if let Some(log) = log {
        attributes.log_level = 1;
        attributes.log_bytes = log.len() as u32;
        attributes.log = log.as_mut_ptr().expose_provenance() as u64;
    }
    // SAFETY: instructions, licence and log outlive the call and have the lengths given; only the
    // log is written to.
    unsafe { open(PROGRAM_LOAD, &mut attributes) }
}

/// Runs an XDP program `repeat` times on copies of `data`, which then are ordinary frames
/// (`BPF_F_TEST_XDP_LIVE_FRAMES`).
pub(crate) fn run_live(
    program: BorrowedFd<'_>,
    data: &[u8],
    repeat: u32,
    batch: u32,
) -> io::Result<()> {
    const LIVE_FRAMES: u32 = 1 << 1;
    let mut attributes = ProgramRun {
        program: number(&program),
        bytes_in: data.len() as u32,
        data_in: address(data),
        repeat,
        flags: LIVE_FRAMES,
        batch,
        ..ProgramRun::default()
    };
    // SAFETY: the kernel reads `data`, which outlives the call, for the length given; nothing is
    // written but `attributes`.
    unsafe { bpf(PROGRAM_RUN, &mut attributes) }.map(drop)
}

/// Runs an XDP program once on a copy of `data`, which is not sent, and returns the program's
/// result.
pub(super) fn run_once(program: BorrowedFd<'_>, data: &[u8]) -> io::Result<u32> {
    let mut attributes = ProgramRun {
        program: number(&program),
        bytes_in: data.len() as u32,
        data_in: address(data),
        repeat: 1,
        ..ProgramRun::default()
    };
    // SAFETY: as in `run_live`.
    unsafe { bpf(PROGRAM_RUN, &mut attributes) }?;
    Ok(attributes.result)
}

/// Attaches a program to the tracepoint `name`. Closing the descriptor detaches it.
pub(super) fn open_tracepoint(program: BorrowedFd<'_>, name: &CStr) -> io::Result<OwnedFd> {
    let mut attributes = RawTracepointOpen {
        name: address(name.to_bytes_with_nul()),
        program: number(&program),
        ..RawTracepointOpen::default()
    };
    // SAFETY: the kernel reads the name, which ends with a zero and outlives the call.
    unsafe { open(RAW_TRACEPOINT_OPEN, &mut attributes) }
}

/// Attaches an XDP program to an interface. Closing the descriptor detaches it.
pub(crate) fn create_xdp_link(
    program: BorrowedFd<'_>,
    ifindex: u32,
    flags: u32,
) -> io::Result<OwnedFd> {
    /// `BPF_XDP`.
    const XDP: u32 = 37;
    let mut attributes =
        LinkCreate { program: number(&program), target_ifindex: ifindex, attach_type: XDP, flags };
    // SAFETY: no address is passed.
    unsafe { open(LINK_CREATE, &mut attributes) }
}

/// Detaches the program of `link`, whoever else has that link open.
pub(crate) fn detach(link: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: no address is passed.
    unsafe { bpf(LINK_DETACH, &mut number(&link)) }.map(drop)
}
