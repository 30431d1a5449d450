//! Web pages over a folder of ledgers: every campaign, its report, comparisons of two campaigns,
//! and the campaign that runs at this moment.
//!
//! Pages are read-only. This host is served without a secret; elsewhere TLS and a token are
//! needed ([`Access`]). A page makes no request to another host (content security policy), and a
//! request that names another host is refused ([`gate`]).
//!
//! This is the only crate with an async runtime. Ledgers are read by a thread of its own. The crate
//! does *not* measure, judge (`linerate-analysis`) or compose reports (`linerate-report`).

#![forbid(unsafe_code)]

mod address;
mod archive;
mod course;
mod events;
mod folder;
pub mod gate;
mod live;
mod pages;
mod routes;
mod server;

use std::io;
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use tokio::sync::Semaphore;

use crate::archive::Archive;
use crate::gate::Gate;
use crate::live::Hub;
use crate::routes::{App, MOST_PAGES, MOST_STREAMS};

/// Who is served, and how.
#[derive(Clone, Debug)]
pub enum Access {
    /// Connections of this host, without a token and TLS.
    Loopback,
    /// Every host, over TLS, if it shows the token.
    Token {
        /// The token.
        token: String,
        /// Certificate and key.
        tls: Arc<ServerConfig>,
        /// Names of this host, beside its addresses.
        names: Vec<String>,
    },
}

/// Serves the ledgers in `folder` on `listener` until the process ends.
///
/// # Errors
/// If `folder` cannot be read, `access` does not allow the address of `listener`, or the system
/// refuses a thread or the socket.
pub fn serve(folder: &Path, listener: TcpListener, access: Access) -> io::Result<()> {
    let (gate, tls) = match access {
        Access::Loopback if !listener.local_addr()?.ip().is_loopback() => {
            let cause = "only the loopback is served without a token";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, cause));
        }
        Access::Loopback => (Gate::of_loopback(), None),
        Access::Token { token, tls, names } => (Gate::with_token(token, names), Some(tls)),
    };
    // The real path, because names within it are those of its own entries.
    let folder = folder.canonicalize()?;
    std::fs::read_dir(&folder)?;
    let archive = Archive::start(folder)?;
    let [streams, pages] = [MOST_STREAMS, MOST_PAGES].map(|most| Arc::new(Semaphore::new(most)));
    let hub = Arc::new(Hub::default());
    server::run(listener, tls, App { gate, archive, hub, streams, pages })
}
