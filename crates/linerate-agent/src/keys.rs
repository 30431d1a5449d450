//! The folder of the keys.

use std::path::PathBuf;

use linerate_control::KeyStore;
use linerate_model::HostAddress;

use linerate_model::failure::{Failure, Result};

/// Opens the key store at `folder`, or at its default place. The first use makes this host's keys.
///
/// # Errors
/// If the folder cannot be read or written, or its default place is not known.
pub fn open(folder: Option<PathBuf>) -> Result<KeyStore> {
    // The option comes before the environment, and the environment before the default.
    let folder = match folder.or_else(|| std::env::var_os("LINERATE_KEYS").map(PathBuf::from)) {
        Some(folder) => folder,
        None => usual()?,
    };
    Ok(KeyStore::open(&folder)?)
}

/// Returns the name of this host.
#[must_use]
pub fn own_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// `$XDG_CONFIG_HOME/linerate`, else `~/.config/linerate` (XDG base directory specification).
fn usual() -> Result<PathBuf> {
    let from =
        // The XDG specification treats an empty variable as unset.
        |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    from("XDG_CONFIG_HOME")
        .or_else(|| from("HOME").map(|home| home.join(".config")))
        .map(|base| base.join("linerate"))
        .ok_or_else(|| {
            Failure::missing(
                "find the keys: neither LINERATE_KEYS, XDG_CONFIG_HOME nor HOME is set",
            )
        })
}

/// Opens the keys if one of `hosts` is reached over the network.
///
/// # Errors
/// If they cannot be opened.
pub fn keys_for(hosts: &[(String, HostAddress)]) -> Result<Option<KeyStore>> {
    // Processes on this host need no keys, so a first use does not create any.
    let remote = hosts.iter().any(|(_, address)| matches!(address, HostAddress::Tcp(_)));
    if remote { open(None).map(Some) } else { Ok(None) }
}
