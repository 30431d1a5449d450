//! `ftp`: files fetched (RETR) or sent (STOR) by FTP (RFC 959, RFC 2428), our client against our
//! server or a foreign one, our server for foreign clients. Units: L4 payload of data connections
//! per second where it is delivered; nanoseconds of each transfer's parts.
//!
//! Each stream logs in once and moves one file after the other, each over a data connection of its
//! own that the client opens (passive mode). The client connects for data to the server it has
//! logged in at, whatever address a reply names, and the server takes data from the address that
//! logged in only: no reply can direct data to a third host. With TLS (RFC 4217, explicit) commands
//! and files are encrypted in user space, see `protection`. Not supported: implicit TLS
//! (`ftps://`), active mode, text (TYPE A) conversion.

use std::marker::PhantomData;

use linerate_model::ParamError;

use super::parameters::Parameters;
use super::tcp_options::TcpOptions;
use super::transfer::{Common, Opening, Protocol, Transfers, spelled};
use crate::Result;
use crate::parameter::{Reader, Words, wrong};

mod client;
mod commands;
#[cfg(test)]
mod fuzz;
mod lines;
mod protection;
mod server;

use client::FtpSession;
#[cfg(test)]
pub(super) use fuzz::heard;
use server::FtpGuest;

/// RFC 959 clause 8.2.
const PORT: u16 = 21;
/// Anonymous user and password (RFC 1635).
const ANYBODY: (&str, &str) = ("anonymous", "linerate@");

/// Command that requests a data connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Passive {
    /// RFC 2428: a port and nothing else. PASV instead, over IPv4, where the server does not know
    /// it.
    Epsv,
    /// RFC 959: an address and a port, IPv4.
    Pasv,
}

impl Passive {
    const WORDS: Words<Self> = &[("epsv", Self::Epsv), ("pasv", Self::Pasv)];
}

/// Parameters of `ftp`.
#[derive(Clone, Debug)]
pub(super) struct FtpParams {
    passive: Passive,
    common: Common,
    /// Path of the foreign server's file as FTP has it; empty without a foreign server.
    path: String,
}

impl Parameters for FtpParams {
    fn declare(reader: &mut Reader<'_>) -> Self {
        Self {
            passive: reader.choice(
                "passive",
                Passive::WORDS,
                Passive::Epsv,
                "command that requests a data connection: epsv (RFC 2428; pasv where the server \
                    refuses it), pasv (RFC 959, IPv4 only; only the port of its answer is used)",
            ),
            common: Common::declare(
                reader,
                (
                    "ftp://198.18.0.2/pub/file",
                    "a foreign server's file, with user:password@ before the host unless the \
                        server is anonymous; the passive end then does nothing",
                ),
                TcpOptions::declare,
            ),
            path: String::new(),
        }
    }

    fn settle(&mut self) -> Result<(), ParamError> {
        if self.common.server().is_some_and(|server| server.starts_with("ftps:")) {
            return Err(wrong(
                "server",
                "implicit TLS is not supported: write ftp:// and set tls = true (RFC 4217)",
            ));
        }
        self.common.set_server("ftp", PORT)?;
        if let Some(url) = &self.common.url {
            self.path = url.ftp_path().map_err(|cause| wrong("server", cause))?;
            if self.path.is_empty() {
                return Err(wrong("server", "the URL has no path of a file"));
            }
        }
        self.common.check()
    }
}

impl Protocol for FtpParams {
    type Session = FtpSession;
    type Guest = FtpGuest;
    const DATA_PORTS: bool = true;
    const WORKLOAD: u32 = u32::from_be_bytes(*b"ftpx");

    const NAME: &'static str = "ftp";
    const SUMMARY: &'static str = "files by FTP, from our server or a foreign one: goodput, the \
        times of a transfer's parts, the cost of sinks";

    fn common(&self) -> &Common {
        &self.common
    }

    fn session(&self, opening: Opening<'_>) -> Result<FtpSession> {
        let anybody = || (ANYBODY.0.to_owned(), ANYBODY.1.to_owned());
        let (user, path) = match &self.common.url {
            Some(url) => (url.user.clone().unwrap_or_else(anybody), &*self.path),
            None => (("linerate".to_owned(), spelled(opening.secret)), "file"),
        };
        FtpSession::new(self, opening, user, path)
    }

    fn guest(&self, opening: Opening<'_>) -> Result<FtpGuest> {
        FtpGuest::new(self, opening)
    }
}

/// The `ftp` workload.
pub(super) const FTP: Transfers<FtpParams> = Transfers(PhantomData);

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::workloads::parameters::assert_sound;

    #[test]
    fn every_default_is_used_and_every_mistake_is_named() {
        assert_sound::<FtpParams>(&[
            ("server", json!("http://127.0.0.1/")),
            ("server", json!("ftp://127.0.0.1/")),
            ("server", json!("ftp://127.0.0.1/a%0d%0aDELE%20b")),
            ("server", json!("ftp://me:%0a@127.0.0.1/a")),
            ("offset", json!("-1 B")),
            ("server", json!("ftps://127.0.0.1/file")),
            ("tls", json!("yes")),
            ("verify", json!(1)),
            ("sink", json!("throttled")),
            ("passive", json!("port")),
            ("file_size", json!("0 B")),
        ]);
    }
}
