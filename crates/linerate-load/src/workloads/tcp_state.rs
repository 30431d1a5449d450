//! What the kernel knows of a connection (TCP_INFO), in the words of the model. It does not see the other end's view, nor
//! what happened between two readings.

use std::os::fd::AsFd;

use linerate_model::TcpState;
use linerate_sys::tcp;

/// The state of `socket` now; absent if the connection is beyond asking.
pub(crate) fn of(socket: &impl AsFd) -> Option<TcpState> {
    tcp::info(socket).ok().map(from)
}

/// The hands' view in the words' type.
fn from(info: tcp::TcpInfo) -> TcpState {
    TcpState {
        known_bytes: info.known_bytes,
        bytes_acked: info.bytes_acked,
        bytes_received: info.bytes_received,
        bytes_sent: info.bytes_sent,
        bytes_retransmitted: info.bytes_retransmitted,
        segments_out: info.segments_out,
        segments_in: info.segments_in,
        data_segments_in: info.data_segments_in,
        receive_mss: info.receive_mss,
        retransmits: info.retransmits,
        rtt_us: info.rtt_us,
        rttvar_us: info.rttvar_us,
        min_rtt_us: info.min_rtt_us,
        congestion_window: info.congestion_window,
        send_mss: info.send_mss,
        path_mtu: info.path_mtu,
        send_window: info.send_window,
        receive_window: info.receive_window,
        receive_space: info.receive_space,
        delivery_rate: info.delivery_rate,
        delivery_rate_app_limited: info.delivery_rate_app_limited,
        pacing_rate: info.pacing_rate,
        busy_us: info.busy_us,
        receive_window_limited_us: info.receive_window_limited_us,
        send_buffer_limited_us: info.send_buffer_limited_us,
        not_sent: info.not_sent,
        delivered_ce: info.delivered_ce,
        reorder_seen: info.reorder_seen,
        out_of_order: info.out_of_order,
        timeouts: info.timeouts,
    }
}
