//! `http`: files fetched or sent by HTTP/1.1 (RFC 9112), our client against our server or a foreign
//! one, our server for foreign clients. Units: L4 payload of files per second, heads excluded,
//! where it is delivered; nanoseconds of each transfer's parts.
//!
//! Each stream fetches (GET) or sends (PUT) one file after the other; with `reuse` on one
//! connection, else on a new one each. The supported part of HTTP is what a load
//! needs, and what curl, wget, lftp and browsers need of a file server: bodies that end with their
//! length, in chunks or with the connection; single ranges, HEAD, pages of folders. Redirects and
//! other codings are refused by name. With TLS the handshake is part of connecting, and bytes are
//! copied and encrypted in user space (see `transfer/tls`). HTTP/2 and the kernel's TLS are not
//! supported.

use std::marker::PhantomData;

use linerate_model::ParamError;

use super::parameters::Parameters;
use super::tcp_options::TcpOptions;
use super::transfer::{Common, Opening, Protocol, Transfers, spelled};
use crate::Result;
use crate::parameter::{Reader, wrong};

mod chunks;
mod client;
#[cfg(test)]
mod fuzz;
mod head;
mod range;
mod server;

use client::HttpSession;
use server::HttpGuest;

/// RFC 9110 clauses 4.2.1 and 4.2.2.
const PORT: u16 = 80;
const SECURE_PORT: u16 = 443;

/// Parameters of `http`.
#[derive(Clone, Debug)]
pub(super) struct HttpParams {
    reuse: bool,
    chunked: bool,
    common: Common,
}

impl Parameters for HttpParams {
    fn declare(reader: &mut Reader<'_>) -> Self {
        Self {
            chunked: reader.flag(
                "chunked",
                false,
                "send files in chunks of 1 MiB (RFC 9112 clause 7.1) instead of with their length; \
                    a receiver takes both",
            ),
            // The default of HTTP/1.1.
            reuse: reader.flag(
                "reuse",
                true,
                "one connection of a stream carries one file after the other",
            ),
            common: Common::declare(
                reader,
                (
                    "http://198.18.0.2:8080/file",
                    "a foreign server's file, to be fetched or written, by http or https; the \
                        passive end then does nothing",
                ),
                // A head and a small file are two writes: the second must not wait for the first to
                // be acknowledged.
                TcpOptions::declare_without_delay,
            ),
        }
    }

    fn settle(&mut self) -> Result<(), ParamError> {
        let is_secure = self.common.server().is_some_and(|server| server.starts_with("https:"));
        let (scheme, port) = if is_secure { ("https", SECURE_PORT) } else { ("http", PORT) };
        self.common.set_server(scheme, port)?;
        if let Some(url) = &self.common.url {
            if url.user.is_some() {
                return Err(wrong(
                    "server",
                    "a user before the host: HTTP passwords are not supported",
                ));
            }
            if self.common.tls.tls && !is_secure {
                return Err(wrong("tls", "a server at http:// has none: write https://"));
            }
            self.common.tls.tls = is_secure;
        }
        self.common.check()
    }
}

impl Protocol for HttpParams {
    type Session = HttpSession;
    type Guest = HttpGuest;
    const DATA_PORTS: bool = false;
    const WORKLOAD: u32 = u32::from_be_bytes(*b"http");

    const NAME: &'static str = "http";
    const SUMMARY: &'static str = "files by HTTP/1.1, from our server or a foreign one: goodput, \
        the times of a transfer's parts, the cost of sinks";

    fn common(&self) -> &Common {
        &self.common
    }

    fn session(&self, opening: Opening<'_>) -> Result<HttpSession> {
        let (authority, path) = match &self.common.url {
            Some(url) => (url.authority.clone(), url.path.clone()),
            None => (opening.dial.remote.to_string(), format!("/{}", spelled(opening.secret))),
        };
        HttpSession::new(self, opening, &authority, &path)
    }

    fn guest(&self, opening: Opening<'_>) -> Result<HttpGuest> {
        HttpGuest::new(self, opening)
    }
}

/// The `http` workload.
pub(super) const HTTP: Transfers<HttpParams> = Transfers(PhantomData);

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::workloads::parameters::assert_sound;

    #[test]
    fn every_default_is_used_and_every_mistake_is_named() {
        assert_sound::<HttpParams>(&[
            ("server", json!("ftp://127.0.0.1/")),
            ("server", json!("http://me:mine@127.0.0.1/")),
            ("files", json!(2)),
            ("checksum", json!(true)),
            ("root", json!("/srv")),
            ("sink", json!("throttled")),
            ("sink_rate", json!("1 Mbit/s")),
            ("receive", json!("splice")),
            ("direction", json!("both")),
            ("tls", json!("yes")),
            ("roots", json!(1)),
            ("workers", json!(2)),
        ]);
    }
}
