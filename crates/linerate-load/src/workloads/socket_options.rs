//! Socket options a workload asks for, as requested, as granted and as found at the end.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;

use linerate_model::{Bytes, Endpoint, SocketValue};
use linerate_sys::socket::{self, Buffer};
use serde_json::Value;
use socket2::Socket;

use crate::LoadError;

/// What an unprivileged process may choose from.
const ALLOWED_CONGESTION: &str = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";

/// Options that both UDP and TCP workloads know.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wanted {
    /// `SO_SNDBUF`; the kernel grants twice what is asked for.
    pub(crate) send_buffer: Option<Bytes>,
    /// `SO_RCVBUF`, likewise.
    pub(crate) receive_buffer: Option<Bytes>,
    /// Differentiated services code point.
    pub(crate) dscp: Option<u8>,
}

impl Wanted {
    /// Sets them on `socket`.
    pub(crate) fn set(self, socket: &impl AsFd) -> Result<(), LoadError> {
        let buffers = [(Buffer::Send, self.send_buffer), (Buffer::Receive, self.receive_buffer)];
        for (buffer, bytes) in buffers {
            if let Some(bytes) = bytes {
                socket::set_buffer(socket, buffer, usize::try_from(bytes.0).unwrap_or(usize::MAX))?;
            }
        }
        if let Some(dscp) = self.dscp {
            socket::set_dscp(socket, dscp)?;
        }
        Ok(())
    }

    /// What is in force when a flow has been opened.
    pub(crate) fn granted(self, socket: &impl AsFd) -> BTreeMap<String, SocketValue> {
        let value = |requested: Option<Value>, granted: Option<Value>| SocketValue { requested, granted, at_end: None };
        let text = |bytes: Option<Bytes>| bytes.map(|bytes| Value::from(bytes.0));
        BTreeMap::from([
            ("send_buffer".to_owned(), value(text(self.send_buffer), buffer(socket, Buffer::Send))),
            ("receive_buffer".to_owned(), value(text(self.receive_buffer), buffer(socket, Buffer::Receive))),
            ("dscp".to_owned(), value(self.dscp.map(Value::from), socket::dscp(socket).ok().map(Value::from))),
        ])
    }
}

/// Adds what is in force now, at the end.
pub(crate) fn at_end(values: &mut BTreeMap<String, SocketValue>, socket: &impl AsFd) {
    let now = [
        ("send_buffer", buffer(socket, Buffer::Send)),
        ("receive_buffer", buffer(socket, Buffer::Receive)),
        ("dscp", socket::dscp(socket).ok().map(Value::from)),
    ];
    for (name, value) in now {
        values.entry(name.to_owned()).or_default().at_end = value;
    }
}

/// Asks for a congestion control by name.
pub(crate) fn set_congestion(socket: &Socket, name: &str) -> Result<(), LoadError> {
    socket.set_tcp_congestion(name.as_bytes()).map_err(|cause| {
        let allowed = std::fs::read_to_string(ALLOWED_CONGESTION).unwrap_or_else(|_| "unknown".into());
        let remedy = if cause.kind() == io::ErrorKind::NotFound {
            format!("this kernel has none of that name: load its module (modprobe tcp_{name}) or ask for another")
        } else {
            format!("add it to {ALLOWED_CONGESTION}, or run with CAP_NET_ADMIN")
        };
        LoadError::Unsupported {
            what: format!("congestion control `{name}`"),
            why: format!("{cause}; allowed here: {}; {remedy}", allowed.trim()),
        }
    })
}

fn buffer(socket: &impl AsFd, buffer: Buffer) -> Option<Value> {
    socket::buffer(socket, buffer).ok().map(Value::from)
}

/// Memory held for what has arrived at `sockets` and was not read; `None` where the kernel does not tell.
pub(crate) fn held<'a, S: AsFd + 'a>(sockets: impl Iterator<Item = &'a S>) -> Option<u64> {
    sockets.map(|socket| socket::held(socket).ok().map(|bytes| bytes as u64)).sum()
}

/// The interface to bind to at this end: the one named, or for `"endpoint"` the end's own.
pub(crate) fn device<'a>(named: &'a Option<String>, local: &'a Endpoint) -> Result<Option<&'a str>, LoadError> {
    match named.as_deref() {
        Some("endpoint") => local.device.as_deref().map(Some).ok_or_else(|| LoadError::Unsupported {
            what: format!("bind to the interface of endpoint `{}`", local.name),
            why: "the testbed does not say which it is; name the interface".into(),
        }),
        named => Ok(named),
    }
}

/// An address as flow reports carry it; empty if the socket has none any more.
pub(crate) fn name_of(address: io::Result<std::net::SocketAddr>) -> String {
    address.map(|address| address.to_string()).unwrap_or_default()
}
