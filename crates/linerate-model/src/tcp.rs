//! State of a TCP connection (`TCP_INFO`), as far as this host's kernel reports it.

use serde::{Deserialize, Serialize};

/// Fields of `struct tcp_info` (Linux `include/uapi/linux/tcp.h`) that linerate uses. Counters are
/// cumulative since the connection was opened. A field that the running kernel does not fill
/// is zero; `known_bytes` is the length of the kernel's structure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TcpState {
    /// Bytes of `struct tcp_info` the kernel filled.
    pub known_bytes: u32,
    /// Payload bytes acknowledged by the peer.
    pub bytes_acked: u64,
    /// Payload bytes received in order.
    pub bytes_received: u64,
    /// Payload bytes sent, retransmissions included.
    pub bytes_sent: u64,
    /// Payload bytes retransmitted.
    pub bytes_retransmitted: u64,
    /// Segments sent.
    pub segments_out: u32,
    /// Segments received.
    pub segments_in: u32,
    /// Segments that carried payload, received: retransmissions and what waits behind a hole
    /// included.
    pub data_segments_in: u32,
    /// Payload of the peer's segments as the kernel estimates it, bytes.
    pub receive_mss: u32,
    /// Segments retransmitted.
    pub retransmits: u32,
    /// Smoothed round-trip time, microseconds.
    pub rtt_us: u32,
    /// Its mean deviation, microseconds.
    pub rttvar_us: u32,
    /// Smallest round-trip time in the kernel's window, microseconds.
    pub min_rtt_us: u32,
    /// Congestion window, segments.
    pub congestion_window: u32,
    /// Sending maximum segment size, bytes.
    pub send_mss: u32,
    /// Path MTU, bytes.
    pub path_mtu: u32,
    /// The peer's advertised window, bytes (since Linux 5.4).
    pub send_window: u32,
    /// Our advertised window, bytes (since Linux 6.2).
    pub receive_window: u32,
    /// Receive space of auto-tuning, bytes.
    pub receive_space: u32,
    /// Latest delivery rate sample, bytes per second.
    pub delivery_rate: u64,
    /// True if the application limited that sample.
    pub delivery_rate_app_limited: bool,
    /// Pacing rate, bytes per second; `u64::MAX` if not paced.
    pub pacing_rate: u64,
    /// Time with data to send or unacknowledged, microseconds.
    pub busy_us: u64,
    /// Time limited by the peer's receive window, microseconds.
    pub receive_window_limited_us: u64,
    /// Time limited by the own send buffer, microseconds.
    pub send_buffer_limited_us: u64,
    /// Bytes in the send queue that were never sent.
    pub not_sent: u32,
    /// Segments delivered with an ECN congestion mark.
    pub delivered_ce: u32,
    /// Reordering events seen.
    pub reorder_seen: u32,
    /// Segments received out of order.
    pub out_of_order: u32,
    /// Retransmission timeouts (since Linux 6.7).
    pub timeouts: u32,
}

/// Returns the growth of a counter of a connection from `before` to `now`; a 32-bit counter that
/// wrapped is unwrapped, one that fell otherwise began anew.
#[must_use]
pub fn counter_growth(before: u64, now: u64) -> u64 {
    const WRAP: u64 = 1 << 32;
    if now >= before {
        now - before
    // A fall by more than half of the range is a wrap. A smaller one is a new connection that took
    // the place of the old.
    } else if before < WRAP && before - now > WRAP / 2 {
        now + WRAP - before
    } else {
        now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrapped_counter_goes_on_and_a_reopened_flow_begins_anew() {
        assert_eq!(counter_growth(10, 15), 5);
        assert_eq!(counter_growth((1 << 32) - 10, 5), 15);
        assert_eq!(counter_growth(1000, 7), 7);
        assert_eq!(counter_growth(1 << 40, 7), 7);
    }
}
