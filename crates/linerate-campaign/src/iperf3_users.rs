//! Users of an iperf3 server, and the user of a client, from files and the environment.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use linerate_iperf3::auth::{Credentials, Denial, Padding, ServerKey, unix_seconds};

use crate::{Failure, Result};

/// Environment variable of the password, as for iperf3.
const PASSWORD: &str = "IPERF3_PASSWORD";

/// Users that a server admits, as a person named them.
#[derive(Clone, Debug)]
pub struct Users {
    /// Private key of the server, in PEM.
    pub key: PathBuf,
    /// Lines of a user and a digest. Read for each test.
    pub users: PathBuf,
    /// Greatest difference between the time in a token and this host's.
    pub skew: Duration,
    /// Padding of tokens.
    pub padding: Padding,
}

impl Users {
    /// Returns a function that admits a token, or gives the reason why not.
    ///
    /// # Errors
    /// If a file cannot be read, or has no key.
    pub fn gate(self) -> Result<impl Fn(Option<&str>) -> Result<String, String> + Send + Sync> {
        let Self { key, users, skew, padding } = self;
        let pem = read("--rsa-private-key-path", &key)?;
        let key = ServerKey::read(&pem, padding, skew)
            .map_err(|error| wrong("--rsa-private-key-path", &key, error))?;
        read("--authorized-users-path", &users)?;
        Ok(move |token: Option<&str>| {
            // A user may have been added since the last test.
            let known = std::fs::read_to_string(&users)
                .map_err(|error| format!("read {}: {error}", users.display()))?;
            let now = unix_seconds(SystemTime::now());
            key.user(token, &known, now).map_err(|denial: Denial| denial.to_string())
        })
    }
}

/// Returns the padding with or without iperf3's `--use-pkcs1-padding`.
#[must_use]
pub const fn padding(is_pkcs1: bool) -> Padding {
    if is_pkcs1 { Padding::Pkcs1 } else { Padding::Oaep }
}

/// Returns `user` with the password of the environment, for the server whose public key is in
/// `key`.
///
/// # Errors
/// If there is no password, the file cannot be read, or it has no key.
pub fn credentials(user: &str, key: &Path, padding: Padding) -> Result<Credentials> {
    const OPTION: &str = "--rsa-public-key-path";
    let password = std::env::var(PASSWORD).map_err(|_| {
        Failure::wrong(format!("--username {user}: the environment variable {PASSWORD} is not set"))
    })?;
    let pem = read(OPTION, key)?;
    Credentials::read(&pem, padding, [user, &password]).map_err(|error| wrong(OPTION, key, error))
}

fn read(option: &str, path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|error| wrong(option, path, error))
}

fn wrong(option: &str, path: &Path, why: impl std::fmt::Display) -> Failure {
    Failure::wrong(format!("{option} {}: {why}", path.display()))
}
