//! State of a connection in the kernel (TCP_INFO), in the model's terms. It does not include the
//! other end's view, nor events between two readings.
//!
//! Each socket is asked by a call of its own. One dump of all sockets over netlink (`SOCK_DIAG`)
//! takes more CPU time, with 5,000 connections 1.8 us a socket instead of 1.1 us, and walks the
//! connections of all other programs as well.

use std::os::fd::AsFd;

use linerate_model::TcpState;
use linerate_sys::tcp;

/// Returns the state of `socket` now; `None` if it has none any more.
pub(crate) fn of(socket: &impl AsFd) -> Option<TcpState> {
    tcp::info(socket).ok().map(from)
}

/// Adds the counters of `one`, a connection that is over, to those of `sum`, which covers several.
/// Other values are those of the last connection, except the smallest round-trip time.
pub(crate) fn add(sum: &mut TcpState, one: TcpState) {
    let smallest =
        // Zero means that the kernel has no measurement yet.
        [sum.min_rtt_us, one.min_rtt_us].into_iter().filter(|rtt| *rtt > 0).min().unwrap_or(0);
    *sum = TcpState {
        bytes_acked: sum.bytes_acked + one.bytes_acked,
        bytes_received: sum.bytes_received + one.bytes_received,
        bytes_sent: sum.bytes_sent + one.bytes_sent,
        bytes_retransmitted: sum.bytes_retransmitted + one.bytes_retransmitted,
        segments_out: sum.segments_out.saturating_add(one.segments_out),
        segments_in: sum.segments_in.saturating_add(one.segments_in),
        data_segments_in: sum.data_segments_in.saturating_add(one.data_segments_in),
        retransmits: sum.retransmits.saturating_add(one.retransmits),
        busy_us: sum.busy_us + one.busy_us,
        receive_window_limited_us: sum.receive_window_limited_us + one.receive_window_limited_us,
        send_buffer_limited_us: sum.send_buffer_limited_us + one.send_buffer_limited_us,
        delivered_ce: sum.delivered_ce.saturating_add(one.delivered_ce),
        reorder_seen: sum.reorder_seen.saturating_add(one.reorder_seen),
        out_of_order: sum.out_of_order.saturating_add(one.out_of_order),
        timeouts: sum.timeouts.saturating_add(one.timeouts),
        min_rtt_us: smallest,
        ..one
    };
}

/// Converts the state as read from the kernel.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_add_up_and_the_rest_is_of_the_last() {
        let mut sum = TcpState::default();
        add(
            &mut sum,
            TcpState {
                segments_out: 5,
                retransmits: 1,
                rtt_us: 90,
                min_rtt_us: 20,
                ..TcpState::default()
            },
        );
        add(
            &mut sum,
            TcpState {
                segments_out: 7,
                retransmits: 0,
                rtt_us: 40,
                min_rtt_us: 30,
                ..TcpState::default()
            },
        );
        let expected = TcpState {
            segments_out: 12,
            retransmits: 1,
            rtt_us: 40,
            min_rtt_us: 20,
            ..TcpState::default()
        };
        assert_eq!(sum, expected);
    }
}
