//! Kernel parameters by name (sysctl(8)), through `/proc/sys`.
//!
//! Parameters under `net` belong to the calling thread's network namespace. A value is the kernel's
//! text without the newline. Fields are separated by one space; the kernel uses tabs.

use std::path::PathBuf;

use crate::{Result, SysError};

/// Returns the value of `name`, e.g. `net.ipv4.tcp_rmem`.
///
/// # Errors
/// If `name` is malformed, or the kernel has no such parameter.
pub fn read(name: &str) -> Result<String> {
    let text = path(name)
        .and_then(std::fs::read_to_string)
        .map_err(|cause| SysError::new("read sysctl", name, cause))?;
    Ok(spaced(&text))
}

/// Sets `name` to `value`.
///
/// # Errors
/// If there is no such parameter, it cannot be written (needs root), or the kernel sets another
/// value.
pub fn write(name: &str, value: &str) -> Result<()> {
    let wrap = |cause| SysError::new("set sysctl", format!("{name} = {value}"), cause);
    path(name).and_then(|path| std::fs::write(path, value)).map_err(wrap)?;
    let granted = read(name)?;
    if granted == spaced(value) {
        return Ok(());
    }
    Err(wrap(std::io::Error::other(format!("the kernel set {granted} instead"))))
}

/// Returns `text` with one space between its fields.
fn spaced(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the path of the parameter. A name consists of letters, digits, `_` and `-` between
/// single dots, so that no name leads out of `/proc/sys`.
fn path(name: &str) -> std::io::Result<PathBuf> {
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if name.split('.').all(|part| !part.is_empty() && part.bytes().all(is_legal)) {
        return Ok(PathBuf::from("/proc/sys").join(name.replace('.', "/")));
    }
    Err(std::io::Error::new(
        std::io::ErrorKind::InvalidInput,
        "this is not the name of a kernel parameter",
    ))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_value_comes_with_single_spaces_and_a_name_leads_nowhere_else() {
        let value = read("net.ipv4.tcp_rmem").unwrap();
        assert_eq!(value.split(' ').count(), 3, "{value}");
        for name in ["net/ipv4/tcp_rmem", "net..ipv4", "", "../etc.passwd", "net.ipv4.tcp_rmem\n"] {
            assert!(read(name).is_err() && write(name, "1").is_err(), "{name}");
        }
    }
}
