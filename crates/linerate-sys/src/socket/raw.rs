//! `getsockopt` and `setsockopt` for options that are plain integers or arrays of them.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd};

use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Sets an option whose value is `T`.
pub(crate) fn set<T: IntoBytes + Immutable>(
    socket: &impl AsFd,
    level: i32,
    name: i32,
    value: &T,
) -> io::Result<()> {
    let bytes = value.as_bytes();
    // SAFETY: `bytes` is live for the call and the length is its own; the kernel only reads it.
    let answer = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            name,
            bytes.as_ptr().cast(),
            bytes.len() as libc::socklen_t,
        )
    };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Reads an option into `value` and returns the number of bytes that the kernel wrote. The rest of
/// `value` does not change. Some options also read `value` as an argument.
pub(crate) fn get_into<T: FromBytes + IntoBytes>(
    socket: &impl AsFd,
    level: i32,
    name: i32,
    value: &mut T,
) -> io::Result<usize> {
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` is live and writable for `length` bytes, and any bytes are a valid `T`
    // (`FromBytes`). The kernel writes at most `length` bytes and says in `length` how many.
    let answer = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            name,
            value.as_mut_bytes().as_mut_ptr().cast(),
            &mut length,
        )
    };
    if answer == 0 { Ok(length as usize) } else { Err(io::Error::last_os_error()) }
}

/// Reads an option whose value is `T`.
pub(crate) fn get<T: FromBytes + IntoBytes>(
    socket: &impl AsFd,
    level: i32,
    name: i32,
) -> io::Result<T> {
    let mut value = T::new_zeroed();
    get_into(socket, level, name, &mut value).map(|_| value)
}

/// Sets an option whose value is an `int`.
pub(crate) fn set_int(
    socket: &impl AsFd,
    level: i32,
    name: i32,
    value: libc::c_int,
) -> io::Result<()> {
    set(socket, level, name, &value)
}

/// Reads an option whose value is an `int`.
pub(crate) fn get_int(socket: &impl AsFd, level: i32, name: i32) -> io::Result<libc::c_int> {
    get(socket, level, name)
}
