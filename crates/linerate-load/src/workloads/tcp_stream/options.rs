//! Socket options of a stream's connections: requested, granted, at the end.

use std::collections::BTreeMap;

use linerate_model::{Endpoint, SocketValue};
use linerate_sys::{SysError, socket, tcp};
use serde_json::Value;
use socket2::{SockRef, Socket};

use super::params::StreamParams;
use crate::LoadError;
use crate::workloads::socket_options::{self, Wanted, set_congestion};

const BITS_PER_BYTE: f64 = 8.0;
/// The interface to bind to at this end.
pub(super) fn device<'a>(params: &'a StreamParams, local: &'a Endpoint) -> Result<Option<&'a str>, LoadError> {
    match params.device.as_deref() {
        Some("endpoint") => local.device.as_deref().map(Some).ok_or_else(|| LoadError::Unsupported {
            what: format!("bind to the interface of endpoint `{}`", local.name),
            why: "the testbed does not say which it is (name it, or give the endpoint an address an interface has)"
                .into(),
        }),
        named => Ok(named),
    }
}

fn wanted(params: &StreamParams) -> Wanted {
    // A receive buffer the kernel tunes takes the clamp with it; only one that was asked for stays as it is. The kernel
    // doubles it, and reckons with half of it for the window.
    let room = params.window_clamp;
    Wanted {
        send_buffer: params.send_buffer.or(params.socket_buffer),
        receive_buffer: params.receive_buffer.or(params.socket_buffer).or(room),
        dscp: params.dscp,
    }
}

/// Sets everything on a socket before it connects or listens: buffers decide the window scale, and the segment size is
/// announced in the handshake (RFC 7323 clause 2, RFC 9293 clause 3.7.1). An accepted connection inherits it.
pub(super) fn prepare(socket: &Socket, params: &StreamParams) -> Result<(), LoadError> {
    wanted(params).set(socket)?;
    if let Some(mss) = params.mss {
        let mss = u32::try_from(mss.0).unwrap_or(u32::MAX);
        socket.set_tcp_mss(mss).map_err(|cause| SysError::new("set TCP_MAXSEG to", mss.to_string(), cause))?;
    }
    if let Some(clamp) = params.window_clamp {
        // Before the handshake: a SYN announces a window too, and a sender's first burst is as large as that allows.
        tcp::set_window_clamp(socket, u32::try_from(clamp.0).unwrap_or(u32::MAX))?;
    }
    set_congestion(socket, &params.congestion)
}

/// Sets what is per connection, and says what is in force.
pub(super) fn granted(socket: &Socket, params: &StreamParams) -> Result<BTreeMap<String, SocketValue>, LoadError> {
    set_congestion(socket, &params.congestion)?;
    socket
        .set_tcp_nodelay(params.no_delay)
        .map_err(|cause| SysError::new("set TCP_NODELAY of", "a connection", cause))?;
    if let Some(dscp) = params.dscp {
        socket::set_dscp(socket, dscp)?;
    }
    let mut values = wanted(params).granted(socket);
    let mut add = |name: &str, requested: Option<Value>, granted: Option<Value>| {
        values.insert(name.to_owned(), SocketValue { requested, granted, at_end: None });
    };
    if let Some(clamp) = params.window_clamp {
        add("window_clamp", Some(clamp.0.into()), tcp::window_clamp(socket).ok().map(Value::from));
    }
    if let Some(rate) = params.pacing_rate {
        let bytes_per_second = (rate.0 / BITS_PER_BYTE) as u64;
        let granted = socket::set_pacing_rate(socket, bytes_per_second)?;
        add("pacing_bytes_per_second", Some(bytes_per_second.into()), Some(granted.into()));
    }
    if let Some(device) = &params.device {
        add("device", Some(device.as_str().into()), text(SockRef::from(socket).device().ok().flatten()));
    }
    add("congestion", Some(params.congestion.as_str().into()), congestion(socket));
    add("mss", params.mss.map(|mss| mss.0.into()), mss(socket));
    add("no_delay", Some(params.no_delay.into()), socket.tcp_nodelay().ok().map(Value::from));
    Ok(values)
}

/// Clamps the window of `socket` anew if the kernel has lifted the clamp: since Linux 6.6 it does so each time it learns what
/// share of a buffer is payload.
pub(super) fn keep_clamped(socket: &Socket, clamp: u32) {
    if tcp::window_clamp(socket).is_ok_and(|now| now > clamp) {
        // Refused or undone, it shows in the window that the peer reports.
        let _granted = tcp::set_window_clamp(socket, clamp);
    }
}

/// Adds what is in force now, at the end.
pub(super) fn at_end(values: &mut BTreeMap<String, SocketValue>, socket: &Socket) {
    socket_options::at_end(values, socket);
    let clamp = values.contains_key("window_clamp").then(|| tcp::window_clamp(socket).ok().map(Value::from));
    let now = [
        ("congestion", Some(congestion(socket))),
        ("mss", Some(mss(socket))),
        ("no_delay", Some(socket.tcp_nodelay().ok().map(Value::from))),
        ("window_clamp", clamp),
    ];
    for (name, value) in now {
        if let Some(value) = value {
            values.entry(name.to_owned()).or_default().at_end = value;
        }
    }
}

fn congestion(socket: &Socket) -> Option<Value> {
    text(socket.tcp_congestion().ok())
}

fn mss(socket: &Socket) -> Option<Value> {
    socket.tcp_mss().ok().map(Value::from)
}

/// A name the kernel filled up with zeroes.
fn text(bytes: Option<Vec<u8>>) -> Option<Value> {
    let bytes = bytes?;
    let name = bytes.split(|byte| *byte == 0).next().unwrap_or(&[]);
    Some(String::from_utf8_lossy(name).into_owned().into())
}
