//! Options of UDP and TCP sockets: as requested, as granted and as found at the end.

use std::collections::BTreeMap;
use std::io;
use std::ops::RangeInclusive;
use std::os::fd::AsFd;

use linerate_model::{Bytes, Endpoint, SocketValue};
use linerate_sys::socket::{self, Buffer};
use serde_json::Value;

use crate::parameter::Reader;
use crate::{LoadError, Result};

/// Code points of RFC 2474.
pub(crate) const DSCP: RangeInclusive<u64> = 0..=63;
/// Buffers and windows, which are C integers.
pub(crate) const BUFFER: RangeInclusive<Bytes> = Bytes(1)..=Bytes(i32::MAX as u64);

/// Options of a socket, at both ends.
#[derive(Clone, Debug)]
pub(crate) struct SocketOptions {
    pub(crate) socket_buffer: Option<Bytes>,
    pub(crate) send_buffer: Option<Bytes>,
    pub(crate) receive_buffer: Option<Bytes>,
    /// Differentiated services code point.
    pub(crate) dscp: Option<u8>,
    /// Interface to bind to.
    pub(crate) device: Option<String>,
}

impl SocketOptions {
    /// Declares the options.
    pub(crate) fn declare(reader: &mut Reader<'_>) -> Self {
        Self {
            socket_buffer: reader.optional_size(
                "socket_buffer",
                BUFFER,
                "the kernel's",
                "SO_SNDBUF and SO_RCVBUF requested, both ends",
            ),
            send_buffer: reader.optional_size(
                "send_buffer",
                BUFFER,
                "socket_buffer",
                "SO_SNDBUF requested, both ends",
            ),
            receive_buffer: reader.optional_size(
                "receive_buffer",
                BUFFER,
                "socket_buffer",
                "SO_RCVBUF requested, both ends",
            ),
            dscp: reader.optional_count(
                "dscp",
                DSCP,
                "the kernel's",
                "differentiated services code point",
            ),
            device: reader.optional_text(
                "device",
                "eth0",
                "none",
                "interface to bind to; \"endpoint\" is each end's own",
            ),
        }
    }

    /// Declares the options of workloads that want a receive buffer of `default`.
    pub(crate) fn declare_with_receive_buffer(
        reader: &mut Reader<'_>,
        default: Bytes,
        meaning: &'static str,
    ) -> Self {
        let written = format!("\"{default}\"");
        let given = reader.optional_size("receive_buffer", BUFFER, &written, meaning);
        // Declared first, so that this default and meaning win over the group's.
        let mut options = Self { receive_buffer: given, ..Self::declare(reader) };
        options.preset_receive_buffer(Some(default));
        options
    }

    /// Requests `bytes` of receive buffer unless the parameters request some.
    pub(crate) fn preset_receive_buffer(&mut self, bytes: Option<Bytes>) {
        self.receive_buffer = self.receive_buffer.or(self.socket_buffer).or(bytes);
    }

    /// Returns the interface to bind to at this end.
    pub(crate) fn device<'a>(&'a self, local: &'a Endpoint) -> Result<Option<&'a str>> {
        match self.device.as_deref() {
            Some("endpoint") => {
                local.device.as_deref().map(Some).ok_or_else(|| LoadError::Unsupported {
                    what: format!("bind to the interface of endpoint `{}`", local.name),
                    why: "the testbed does not name it: give the endpoint a `device`, or an \
                        address that an interface has"
                        .into(),
                })
            }
            named => Ok(named),
        }
    }

    /// Sets them on `socket`.
    pub(crate) fn set(&self, socket: &impl AsFd) -> Result<()> {
        // The kernel caps what it cannot grant; the report shows both values.
        for (_, buffer, bytes) in self.buffers() {
            if let Some(bytes) = bytes {
                socket::set_buffer(socket, buffer, usize::try_from(bytes.0).unwrap_or(usize::MAX))?;
            }
        }
        self.mark(socket)
    }

    /// Marks the packets of `socket` with the requested code point.
    pub(crate) fn mark(&self, socket: &impl AsFd) -> Result<()> {
        if let Some(dscp) = self.dscp {
            socket::set_dscp(socket, dscp)?;
        }
        Ok(())
    }

    /// Returns the options in force when a flow has been opened.
    pub(crate) fn granted(&self, socket: &impl AsFd) -> BTreeMap<String, SocketValue> {
        let mut values = BTreeMap::new();
        for (name, buffer, bytes) in self.buffers() {
            let requested = bytes.map(|bytes| bytes.0.into());
            values.insert(name.to_owned(), value(requested, buffer_of(socket, buffer)));
        }
        // Read back even if none was requested, because a default may come from the system.
        values.insert("dscp".to_owned(), value(self.dscp.map(Value::from), dscp_of(socket)));
        values
    }

    /// Returns the requested receive buffer.
    pub(crate) fn receive_bytes(&self) -> Option<Bytes> {
        self.receive_buffer.or(self.socket_buffer)
    }

    fn buffers(&self) -> [(&'static str, Buffer, Option<Bytes>); 2] {
        [
            ("send_buffer", Buffer::Send, self.send_buffer.or(self.socket_buffer)),
            ("receive_buffer", Buffer::Receive, self.receive_bytes()),
        ]
    }
}

/// An option as requested and as granted.
pub(crate) fn value(requested: Option<Value>, granted: Option<Value>) -> SocketValue {
    SocketValue { requested, granted, at_end: None }
}

/// Adds the values in force now, at the end.
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

/// Returns the bytes that have arrived at `sockets` and were not read; `None` where the kernel does
/// not report them.
pub(crate) fn held<'a, S: AsFd + 'a>(sockets: impl Iterator<Item = &'a S>) -> Option<u64> {
    // One socket that cannot be asked makes the sum unknown.
    sockets.map(|socket| socket::held(socket).ok().map(|bytes| bytes as u64)).sum()
}

fn buffer_of(socket: &impl AsFd, buffer: Buffer) -> Option<Value> {
    socket::buffer(socket, buffer).ok().map(Value::from)
}

fn dscp_of(socket: &impl AsFd) -> Option<Value> {
    socket::dscp(socket).ok().map(Value::from)
}

/// Returns an address as flow reports carry it; empty if the socket has none any more.
pub(crate) fn name_of(address: io::Result<std::net::SocketAddr>) -> String {
    address.map(|address| address.to_string()).unwrap_or_default()
}
