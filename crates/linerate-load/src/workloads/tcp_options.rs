//! Socket options of TCP connections: requested, granted, at the end. RFC 9293 (TCP), RFC 7323
//! (window scale).

use std::collections::BTreeMap;
use std::io;

use linerate_model::{Bytes, SocketValue};
use linerate_sys::SysError;
use serde::Deserialize;
use serde_json::Value;
use socket2::Socket;

use super::socket_options::{self, SocketOptions, value};
use crate::LoadError;
use crate::parameter::{ParamDoc, Takes};

/// What an unprivileged process may choose from.
const ALLOWED_CONGESTION: &str = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";
/// What Linux accepts for TCP_MAXSEG: TCP_MIN_MSS to MAX_TCP_WINDOW.
const MSS: Takes = Takes::Size { least: Bytes(88), most: Bytes(32_767) };
/// Leaves the congestion control as the host has it.
const HOST_DEFAULT: &str = "host";
/// A module of the kernel: which there are only the host knows.
const CONGESTION: Takes = Takes::Text { example: "cubic" };

/// Options of a TCP connection, at both ends.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub(crate) struct TcpOptions {
    /// What every socket has.
    #[serde(flatten)]
    pub(crate) socket: SocketOptions,
    /// Whether small segments are sent at once (`TCP_NODELAY`); absent: no, unless a workload says
    /// otherwise.
    pub(crate) no_delay: Option<bool>,
    /// Congestion control. Left to the host only where that is asked for ([`HOST_DEFAULT`]): its
    /// default differs between hosts and is a first-order effect.
    pub(crate) congestion: String,
    /// Maximum segment size asked for.
    pub(crate) mss: Option<Bytes>,
}

impl Default for TcpOptions {
    fn default() -> Self {
        Self {
            socket: SocketOptions::default(),
            no_delay: None,
            congestion: "cubic".to_owned(),
            mss: None,
        }
    }
}

impl TcpOptions {
    /// As documented, without what every socket has.
    pub(crate) const DOCS: &[ParamDoc] = &[
        ParamDoc {
            name: "no_delay",
            takes: Takes::Flag,
            default: "false",
            meaning: "send small segments at once (TCP_NODELAY)",
        },
        ParamDoc {
            name: "congestion",
            takes: CONGESTION,
            default: "\"cubic\"",
            meaning: "congestion control at both ends; host: the default of each host",
        },
        ParamDoc {
            name: "mss",
            takes: MSS,
            default: "of the path",
            meaning: "maximum segment size (TCP_MAXSEG)",
        },
    ];

    /// `no_delay` of workloads whose every request is waited for: Nagle's algorithm would wait for
    /// nothing.
    pub(crate) const NO_DELAY_DOC: ParamDoc = ParamDoc {
        name: "no_delay",
        takes: Takes::Flag,
        default: "true",
        meaning: "TCP_NODELAY: no Nagle delay of small requests",
    };

    /// Sets everything on a socket before it connects or listens: buffers decide the window scale,
    /// and the segment size is announced in the handshake (RFC 7323 clause 2, RFC 9293 clause
    /// 3.7.1). An accepted connection inherits it.
    pub(crate) fn prepare(&self, socket: &Socket) -> Result<(), LoadError> {
        self.socket.set(socket)?;
        if let Some(mss) = self.mss {
            let mss = u32::try_from(mss.0).unwrap_or(u32::MAX);
            socket
                .set_tcp_mss(mss)
                .map_err(|cause| SysError::new("set TCP_MAXSEG to", mss.to_string(), cause))?;
        }
        self.set_behaviour(socket)
    }

    fn set_behaviour(&self, socket: &Socket) -> Result<(), LoadError> {
        socket
            .set_tcp_nodelay(self.no_delay.unwrap_or(false))
            .map_err(|cause| SysError::new("set TCP_NODELAY of", "a connection", cause))?;
        set_congestion(socket, &self.congestion)
    }

    /// Sets what a connection need not inherit from its listener, and says what is in force.
    pub(crate) fn granted(
        &self,
        socket: &Socket,
    ) -> Result<BTreeMap<String, SocketValue>, LoadError> {
        self.set_behaviour(socket)?;
        self.socket.mark(socket)?;
        let mut values = self.socket.granted(socket);
        let no_delay = self.no_delay.unwrap_or(false);
        let asked = [
            (
                "congestion",
                Some(self.congestion.as_str()).filter(|name| *name != HOST_DEFAULT).map(Into::into),
            ),
            ("mss", self.mss.map(|mss| mss.0.into())),
            ("no_delay", Some(no_delay.into())),
        ];
        for ((name, requested), (_, granted)) in asked.into_iter().zip(now(socket)) {
            values.insert(name.to_owned(), value(requested, granted));
        }
        if let Some(device) = &self.socket.device {
            let bound = text(socket.device().ok().flatten());
            values.insert("device".to_owned(), value(Some(device.as_str().into()), bound));
        }
        Ok(values)
    }
}

/// Adds what is in force now, at the end.
pub(crate) fn at_end(values: &mut BTreeMap<String, SocketValue>, socket: &Socket) {
    socket_options::at_end(values, socket);
    for (name, value) in now(socket) {
        values.entry(name.to_owned()).or_default().at_end = value;
    }
}

/// What is in force now, in the order of names.
fn now(socket: &Socket) -> [(&'static str, Option<Value>); 3] {
    [
        ("congestion", text(socket.tcp_congestion().ok())),
        ("mss", socket.tcp_mss().ok().map(Value::from)),
        ("no_delay", socket.tcp_nodelay().ok().map(Value::from)),
    ]
}

/// A name the kernel filled up with zeroes.
fn text(bytes: Option<Vec<u8>>) -> Option<Value> {
    let bytes = bytes?;
    let name = bytes.split(|byte| *byte == 0).next().unwrap_or(&[]);
    Some(String::from_utf8_lossy(name).into_owned().into())
}

/// Asks for a congestion control by name.
fn set_congestion(socket: &Socket, name: &str) -> Result<(), LoadError> {
    if name == HOST_DEFAULT {
        return Ok(());
    }
    linerate_sys::socket::set_congestion(socket, name).map_err(|cause| {
        let allowed =
            std::fs::read_to_string(ALLOWED_CONGESTION).unwrap_or_else(|_| "unknown".into());
        let remedy = if cause.kind() == io::ErrorKind::NotFound {
            format!(
                "this kernel has none of that name: load its module (modprobe tcp_{name}) or \
                ask for another"
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
