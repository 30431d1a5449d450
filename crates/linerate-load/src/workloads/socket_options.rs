//! Socket options that both UDP and TCP workloads know, as requested, as granted and as found at
//! the end.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;

use linerate_model::{Bytes, Endpoint, SocketValue};
use linerate_sys::socket::{self, Buffer};
use serde_json::Value;

use crate::LoadError;
use crate::parameter::{Takes, parameters};

/// Code points of RFC 2474.
const DSCP: Takes = Takes::Count { least: 0, most: 63 };
/// Buffers and windows, which are C integers.
pub(crate) const BUFFER: Takes = Takes::Size { least: Bytes(1), most: Bytes(i32::MAX as u64) };
/// An interface, or the endpoint's own.
const DEVICE: Takes = Takes::Text { example: "eth0" };

parameters! {
    /// Options of a socket, at both ends.
    pub(crate) struct SocketOptions {
        pub(crate) socket_buffer: Option<Bytes> = None, BUFFER, "the kernel's",
            "SO_SNDBUF and SO_RCVBUF asked for, both ends";
        pub(crate) send_buffer: Option<Bytes> = None, BUFFER, "socket_buffer", "SO_SNDBUF asked \
            for, both ends";
        pub(crate) receive_buffer: Option<Bytes> = None, BUFFER, "socket_buffer", "SO_RCVBUF asked \
            for, both ends";
        pub(crate) dscp: Option<u8> = None, DSCP, "the \
            kernel's", "differentiated services code point";
        pub(crate) device: Option<String> = None, DEVICE, "none",
            "interface to bind to; \"endpoint\" is each end's own";
    }
}

impl SocketOptions {
    /// Asks for `bytes` of receive buffer unless the parameters ask for some.
    pub(crate) fn preset_receive_buffer(&mut self, bytes: Option<Bytes>) {
        self.receive_buffer = self.receive_buffer.or(self.socket_buffer).or(bytes);
    }

    /// The interface to bind to at this end.
    pub(crate) fn device<'a>(&'a self, local: &'a Endpoint) -> Result<Option<&'a str>, LoadError> {
        match self.device.as_deref() {
            Some("endpoint") => {
                local.device.as_deref().map(Some).ok_or_else(|| LoadError::Unsupported {
                    what: format!("bind to the interface of endpoint `{}`", local.name),
                    why: "the testbed does not say which it is (name it, or give the endpoint an \
                    address an interface has)"
                        .into(),
                })
            }
            named => Ok(named),
        }
    }

    /// Sets them on `socket`.
    pub(crate) fn set(&self, socket: &impl AsFd) -> Result<(), LoadError> {
        for (_, buffer, bytes) in self.buffers() {
            if let Some(bytes) = bytes {
                socket::set_buffer(socket, buffer, usize::try_from(bytes.0).unwrap_or(usize::MAX))?;
            }
        }
        self.mark(socket)
    }

    /// Marks what `socket` sends with the code point asked for.
    pub(crate) fn mark(&self, socket: &impl AsFd) -> Result<(), LoadError> {
        if let Some(dscp) = self.dscp {
            socket::set_dscp(socket, dscp)?;
        }
        Ok(())
    }

    /// What is in force when a flow has been opened.
    pub(crate) fn granted(&self, socket: &impl AsFd) -> BTreeMap<String, SocketValue> {
        let mut values = BTreeMap::new();
        for (name, buffer, bytes) in self.buffers() {
            let requested = bytes.map(|bytes| bytes.0.into());
            values.insert(name.to_owned(), value(requested, buffer_of(socket, buffer)));
        }
        values.insert("dscp".to_owned(), value(self.dscp.map(Value::from), dscp_of(socket)));
        values
    }

    fn buffers(&self) -> [(&'static str, Buffer, Option<Bytes>); 2] {
        [
            ("send_buffer", Buffer::Send, self.send_buffer.or(self.socket_buffer)),
            ("receive_buffer", Buffer::Receive, self.receive_buffer.or(self.socket_buffer)),
        ]
    }
}

/// An option as asked for and as granted.
pub(crate) fn value(requested: Option<Value>, granted: Option<Value>) -> SocketValue {
    SocketValue { requested, granted, at_end: None }
}

/// Adds what is in force now, at the end.
pub(crate) fn at_end(values: &mut BTreeMap<String, SocketValue>, socket: &impl AsFd) {
    let now = [
        ("send_buffer", buffer_of(socket, Buffer::Send)),
        ("receive_buffer", buffer_of(socket, Buffer::Receive)),
        ("dscp", dscp_of(socket)),
    ];
    for (name, value) in now {
        values.entry(name.to_owned()).or_default().at_end = value;
    }
}

/// Memory held for what has arrived at `sockets` and was not read; `None` where the kernel does not
/// tell.
pub(crate) fn held<'a, S: AsFd + 'a>(sockets: impl Iterator<Item = &'a S>) -> Option<u64> {
    sockets.map(|socket| socket::held(socket).ok().map(|bytes| bytes as u64)).sum()
}

fn buffer_of(socket: &impl AsFd, buffer: Buffer) -> Option<Value> {
    socket::buffer(socket, buffer).ok().map(Value::from)
}

fn dscp_of(socket: &impl AsFd) -> Option<Value> {
    socket::dscp(socket).ok().map(Value::from)
}

/// An address as flow reports carry it; empty if the socket has none any more.
pub(crate) fn name_of(address: io::Result<std::net::SocketAddr>) -> String {
    address.map(|address| address.to_string()).unwrap_or_default()
}
