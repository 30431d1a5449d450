//! Options of a stream's connections beyond those of every TCP workload: clamped window and kernel
//! pacing.

use std::collections::BTreeMap;

use linerate_model::SocketValue;
use linerate_sys::{socket, tcp};
use serde_json::Value;
use socket2::Socket;

use super::params::StreamParams;
use crate::Result;
use crate::workloads::job_listener::Moment;
use crate::workloads::socket_options::value;
use crate::workloads::tcp_options;

const BITS_PER_BYTE: f64 = 8.0;

/// Sets all options of a socket before it connects or listens.
pub(super) fn prepare(socket: &Socket, params: &StreamParams) -> Result<()> {
    params.options.prepare(socket)?;
    if let Some(clamp) = params.window_clamp {
        // Before the handshake: a SYN also announces a window, which limits a sender's first burst.
        tcp::set_window_clamp(socket, u32::try_from(clamp.0).unwrap_or(u32::MAX))?;
    }
    Ok(())
}

/// Sets all options of a socket of the passive end.
pub(super) fn prepare_at(socket: &Socket, params: &StreamParams, moment: Moment) -> Result<()> {
    match moment {
        Moment::BeforeHandshake => prepare(socket, params),
        // A clamped window has a listener of its own.
        Moment::AfterHandshake => params.options.prepare_at(socket, moment),
    }
}

/// Returns true if the passive end needs a listener of its own.
pub(super) fn need_own_listener(params: &StreamParams) -> bool {
    params.window_clamp.is_some() || params.options.need_own_listener()
}

/// Sets the options of a connection, and returns those in force; `receives` is true if this end
/// takes payload from it.
pub(super) fn granted(
    socket: &Socket,
    params: &StreamParams,
    receives: bool,
) -> Result<BTreeMap<String, SocketValue>> {
    let mut values = params.options.granted(socket)?;
    if let Some(clamp) = params.window_clamp {
        let granted = tcp::window_clamp(socket).ok().map(Value::from);
        values.insert("window_clamp".to_owned(), value(Some(clamp.0.into()), granted));
    }
    if let Some(bytes) = params.receive_low_water.filter(|_| receives) {
        let granted = socket::set_least_readable(socket, bytes.0 as usize)?;
        let low_water = value(Some(bytes.0.into()), Some(granted.into()));
        values.insert("receive_low_water".to_owned(), low_water);
    }
    if let Some(rate) = params.pacing_rate {
        let bytes_per_second = (rate.0 / BITS_PER_BYTE) as u64;
        let granted = socket::set_pacing_rate(socket, bytes_per_second)?;
        let paced = value(Some(bytes_per_second.into()), Some(granted.into()));
        values.insert("pacing_bytes_per_second".to_owned(), paced);
    }
    Ok(values)
}

/// Clamps the window of `socket` again if the kernel has lifted the clamp. Since Linux 6.6 the
/// kernel does so each time it learns the share of payload in a buffer.
pub(super) fn keep_clamped(socket: &Socket, clamp: u32) {
    if tcp::window_clamp(socket).is_ok_and(|now| now > clamp) {
        // If it is refused or undone, the window that the peer reports shows it.
        let _granted = tcp::set_window_clamp(socket, clamp);
    }
}

/// Adds the values in force now, at the end.
pub(super) fn at_end(values: &mut BTreeMap<String, SocketValue>, socket: &Socket) {
    tcp_options::at_end(values, socket);
    if let Some(clamp) = values.get_mut("window_clamp") {
        clamp.at_end = tcp::window_clamp(socket).ok().map(Value::from);
    }
}
