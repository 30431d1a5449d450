//! Socket options of TCP connections: requested, granted, at the end. RFC 9293 (TCP), RFC 7323
//! (window scale).

use std::collections::BTreeMap;
use std::io;
use std::ops::RangeInclusive;

use linerate_model::{Bytes, SocketValue};
use linerate_sys::socket::{self, Buffer};
use linerate_sys::{SysError, tcp};
use serde_json::Value;
use socket2::Socket;

use super::job_listener::Moment;
use super::socket_options::{self, SocketOptions, value};
use crate::parameter::Reader;
use crate::{LoadError, Result};

/// Congestion controls that an unprivileged process may choose from.
const ALLOWED_CONGESTION: &str = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";
/// Values that Linux accepts for TCP_MAXSEG: TCP_MIN_MSS to MAX_TCP_WINDOW.
pub(crate) const MSS: RangeInclusive<Bytes> = Bytes(88)..=Bytes(32_767);
/// Least, initial and largest receive buffer of autotuning.
const RECEIVE_MEMORY: &str = "/proc/sys/net/ipv4/tcp_rmem";
/// Largest window that a SYN announces: it has 16 bits and no scale (RFC 7323 clause 2.2).
const FIRST_WINDOW: u64 = 64 << 10;
/// Word of `congestion` that leaves the choice to each host.
pub const HOST_DEFAULT: &str = "host";

/// Options of a TCP connection, at both ends.
#[derive(Clone, Debug)]
pub(crate) struct TcpOptions {
    /// Options that every socket has.
    pub(crate) socket: SocketOptions,
    /// True if small segments are sent at once (`TCP_NODELAY`).
    pub(crate) no_delay: bool,
    /// Congestion control, or [`HOST_DEFAULT`].
    pub(crate) congestion: String,
    /// Maximum segment size requested.
    pub(crate) mss: Option<Bytes>,
}

impl TcpOptions {
    /// Declares the options of bulk transfers, which profit from Nagle's waiting.
    pub(crate) fn declare(reader: &mut Reader<'_>) -> Self {
        Self {
            no_delay: reader.flag("no_delay", false, "send small segments at once (TCP_NODELAY)"),
            // The host's default differs between hosts and is a first-order effect: it is used only
            // on request.
            congestion: reader.text(
                "congestion",
                "cubic",
                "cubic",
                "congestion control at both ends; host: the default of each host",
            ),
            mss: reader.optional_size(
                "mss",
                MSS,
                "of the path",
                "maximum segment size (TCP_MAXSEG)",
            ),
            socket: SocketOptions::declare(reader),
        }
    }

    /// Declares the options of workloads that wait for a response to each request: Nagle's
    /// algorithm would only add delay.
    pub(crate) fn declare_without_delay(reader: &mut Reader<'_>) -> Self {
        let meaning = "TCP_NODELAY: no Nagle delay of small requests";
        Self { no_delay: reader.flag("no_delay", true, meaning), ..Self::declare(reader) }
    }

    /// Sets everything on a socket before it connects or listens: buffers decide the window scale,
    /// and the segment size is announced in the handshake (RFC 7323 clause 2, RFC 9293 clause
    /// 3.7.1). An accepted connection inherits it.
    pub(crate) fn prepare(&self, socket: &Socket) -> Result<()> {
        self.socket.set(socket)?;
        if let Some(mss) = self.mss {
            let mss = u32::try_from(mss.0).unwrap_or(u32::MAX);
            socket
                .set_tcp_mss(mss)
                .map_err(|cause| SysError::new("set TCP_MAXSEG to", mss.to_string(), cause))?;
        }
        self.set_behaviour(socket)
    }

    /// Sets everything on a socket of the passive end.
    pub(crate) fn prepare_at(&self, socket: &Socket, moment: Moment) -> Result<()> {
        self.prepare(socket)?;
        if moment == Moment::AfterHandshake && self.socket.receive_bytes().is_some() {
            // The handshake has limited the window to the buffer that the listener had.
            let granted = socket::buffer(socket, Buffer::Receive)?;
            tcp::set_window_clamp(socket, u32::try_from(granted).unwrap_or(u32::MAX))?;
        }
        Ok(())
    }

    /// Returns true if the passive end needs a listener of its own, because the handshake fixes
    /// what the options ask for: the first window that it announces, and the window scale (RFC 7323
    /// clause 2).
    pub(crate) fn need_own_listener(&self) -> bool {
        let Some(Bytes(bytes)) = self.socket.receive_bytes() else { return false };
        // The largest buffer of autotuning sets the scale; half of a buffer is window at first.
        let largest = std::fs::read_to_string(RECEIVE_MEMORY)
            .ok()
            .and_then(|sizes| sizes.split_whitespace().last()?.parse::<u64>().ok());
        bytes < FIRST_WINDOW || bytes > largest.unwrap_or(0) / 2
    }

    fn set_behaviour(&self, socket: &Socket) -> Result<()> {
        socket
            .set_tcp_nodelay(self.no_delay)
            .map_err(|cause| SysError::new("set TCP_NODELAY of", "a connection", cause))?;
        set_congestion(socket, &self.congestion)
    }

    /// Sets the options that a connection need not inherit from its listener, and returns those in
    /// force.
    pub(crate) fn granted(&self, socket: &Socket) -> Result<BTreeMap<String, SocketValue>> {
        self.set_behaviour(socket)?;
        self.socket.mark(socket)?;
        let mut values = self.socket.granted(socket);
        let requested = [
            (
                "congestion",
                Some(self.congestion.as_str()).filter(|name| *name != HOST_DEFAULT).map(Into::into),
            ),
            ("mss", self.mss.map(|mss| mss.0.into())),
            ("no_delay", Some(self.no_delay.into())),
        ];
        for ((name, requested), (_, granted)) in requested.into_iter().zip(now(socket)) {
            values.insert(name.to_owned(), value(requested, granted));
        }
        if let Some(device) = &self.socket.device {
            let bound = text(socket.device().ok().flatten());
            values.insert("device".to_owned(), value(Some(device.as_str().into()), bound));
        }
        Ok(values)
    }
}

/// Adds the values in force now, at the end.
pub(crate) fn at_end(values: &mut BTreeMap<String, SocketValue>, socket: &Socket) {
    socket_options::at_end(values, socket);
    for (name, value) in now(socket) {
        values.entry(name.to_owned()).or_default().at_end = value;
    }
}

/// Returns the options in force now, in the order of names.
fn now(socket: &Socket) -> [(&'static str, Option<Value>); 3] {
    [
        ("congestion", text(socket.tcp_congestion().ok())),
        ("mss", socket.tcp_mss().ok().map(Value::from)),
        ("no_delay", socket.tcp_nodelay().ok().map(Value::from)),
    ]
}

/// Returns a name that the kernel padded with zeros.
fn text(bytes: Option<Vec<u8>>) -> Option<Value> {
    let bytes = bytes?;
    let name = bytes.split(|byte| *byte == 0).next().unwrap_or(&[]);
    Some(String::from_utf8_lossy(name).into_owned().into())
}

/// Requests a congestion control by name.
fn set_congestion(socket: &Socket, name: &str) -> Result<()> {
    if name == HOST_DEFAULT {
        return Ok(());
    }
    linerate_sys::socket::set_congestion(socket, name).map_err(|cause| {
        let allowed =
            std::fs::read_to_string(ALLOWED_CONGESTION).unwrap_or_else(|_| "unknown".into());
        let remedy = if cause.kind() == io::ErrorKind::NotFound {
            format!(
                "this kernel has none of that name: load its module (modprobe tcp_{name}) or \
                choose another"
            )
        } else {
            format!("add it to {ALLOWED_CONGESTION}, or run with CAP_NET_ADMIN")
        };
        LoadError::Unsupported {
            what: format!("congestion control `{name}`"),
            why: format!("{cause}; allowed here: {}; {remedy}", allowed.trim()),
        }
    })
}
