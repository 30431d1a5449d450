//! `struct tcp_info`, decoded by offset, up to the number of bytes that the running kernel filled.

/// Fields of `struct tcp_info` (Linux `include/uapi/linux/tcp.h`, to 6.18). Counters are cumulative
/// since the connection was opened; a field beyond `known_bytes` is zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// Number of bytes that the kernel filled.
    pub known_bytes: u32,
    /// Payload bytes acknowledged by the peer.
    pub bytes_acked: u64,
    /// Payload bytes received in order.
    pub bytes_received: u64,
    /// Payload bytes sent, including retransmissions.
    pub bytes_sent: u64,
    /// Payload bytes retransmitted.
    pub bytes_retransmitted: u64,
    /// Segments sent.
    pub segments_out: u32,
    /// Segments received.
    pub segments_in: u32,
    /// Segments with payload received, including retransmissions and segments after a gap.
    pub data_segments_in: u32,
    /// Payload of the peer's segments as the kernel estimates it, bytes.
    pub receive_mss: u32,
    /// Segments retransmitted.
    pub retransmits: u32,
    /// Smoothed round-trip time, microseconds.
    pub rtt_us: u32,
    /// Mean deviation of the round-trip time, microseconds.
    pub rttvar_us: u32,
    /// Smallest round-trip time in the kernel's window, microseconds.
    pub min_rtt_us: u32,
    /// Congestion window, segments.
    pub congestion_window: u32,
    /// Sending maximum segment size, bytes.
    pub send_mss: u32,
    /// Path MTU, bytes.
    pub path_mtu: u32,
    /// The peer's advertised window, bytes (since 5.4).
    pub send_window: u32,
    /// Our advertised window, bytes (since 6.2).
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
    /// Retransmission timeouts (since 6.7).
    pub timeouts: u32,
}

/// More than the structure of any kernel so far (280 bytes in 6.18).
pub(super) const LARGEST: usize = 512;

/// Byte offsets in `struct tcp_info`. It only ever grows at its end.
mod offset {
    pub(super) const FLAGS: usize = 7;
    pub(super) const SND_MSS: usize = 16;
    pub(super) const RCV_MSS: usize = 20;
    pub(super) const PMTU: usize = 60;
    pub(super) const RTT: usize = 68;
    pub(super) const RTTVAR: usize = 72;
    pub(super) const SND_CWND: usize = 80;
    pub(super) const RCV_SPACE: usize = 96;
    pub(super) const TOTAL_RETRANS: usize = 100;
    pub(super) const PACING_RATE: usize = 104;
    pub(super) const BYTES_ACKED: usize = 120;
    pub(super) const BYTES_RECEIVED: usize = 128;
    pub(super) const SEGS_OUT: usize = 136;
    pub(super) const SEGS_IN: usize = 140;
    pub(super) const NOTSENT_BYTES: usize = 144;
    pub(super) const MIN_RTT: usize = 148;
    pub(super) const DATA_SEGS_IN: usize = 152;
    pub(super) const DELIVERY_RATE: usize = 160;
    pub(super) const BUSY_TIME: usize = 168;
    pub(super) const RWND_LIMITED: usize = 176;
    pub(super) const SNDBUF_LIMITED: usize = 184;
    pub(super) const DELIVERED_CE: usize = 196;
    pub(super) const BYTES_SENT: usize = 200;
    pub(super) const BYTES_RETRANS: usize = 208;
    pub(super) const REORD_SEEN: usize = 220;
    pub(super) const RCV_OOOPACK: usize = 224;
    pub(super) const SND_WND: usize = 228;
    pub(super) const RCV_WND: usize = 232;
    pub(super) const TOTAL_RTO: usize = 240;
}

/// First bit of the flags byte. The compiler allocates bits from the lowest up on little-endian
/// machines, and from the highest down on big-endian ones.
const APP_LIMITED: u8 = if cfg!(target_endian = "little") { 0x01 } else { 0x80 };

impl TcpInfo {
    /// Decodes as much of `struct tcp_info` as `bytes` contains.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Self {
        let word = |at: usize| {
            bytes.get(at..at + 4).map_or(0, |b| u32::from_ne_bytes([b[0], b[1], b[2], b[3]]))
        };
        let half =
            |at: usize| bytes.get(at..at + 2).map_or(0, |b| u16::from_ne_bytes([b[0], b[1]]));
        let long = |at: usize| {
            bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |b| u64::from_ne_bytes(*b))
        };
        Self {
            known_bytes: bytes.len() as u32,
            bytes_acked: long(offset::BYTES_ACKED),
            bytes_received: long(offset::BYTES_RECEIVED),
            bytes_sent: long(offset::BYTES_SENT),
            bytes_retransmitted: long(offset::BYTES_RETRANS),
            segments_out: word(offset::SEGS_OUT),
            segments_in: word(offset::SEGS_IN),
            data_segments_in: word(offset::DATA_SEGS_IN),
            receive_mss: word(offset::RCV_MSS),
            retransmits: word(offset::TOTAL_RETRANS),
            rtt_us: word(offset::RTT),
            rttvar_us: word(offset::RTTVAR),
            min_rtt_us: word(offset::MIN_RTT),
            congestion_window: word(offset::SND_CWND),
            send_mss: word(offset::SND_MSS),
            path_mtu: word(offset::PMTU),
            send_window: word(offset::SND_WND),
            receive_window: word(offset::RCV_WND),
            receive_space: word(offset::RCV_SPACE),
            delivery_rate: long(offset::DELIVERY_RATE),
            delivery_rate_app_limited: bytes
                .get(offset::FLAGS)
                .is_some_and(|flags| flags & APP_LIMITED != 0),
            pacing_rate: long(offset::PACING_RATE),
            busy_us: long(offset::BUSY_TIME),
            receive_window_limited_us: long(offset::RWND_LIMITED),
            send_buffer_limited_us: long(offset::SNDBUF_LIMITED),
            not_sent: word(offset::NOTSENT_BYTES),
            delivered_ce: word(offset::DELIVERED_CE),
            reorder_seen: word(offset::REORD_SEEN),
            out_of_order: word(offset::RCV_OOOPACK),
            timeouts: u32::from(half(offset::TOTAL_RTO)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    #[test]
    fn offsets_are_those_of_the_kernel_header() {
        // libc declares the structure of Linux 2.6. Another test checks the newer fields against a
        // live socket.
        assert_eq!(offset::SND_MSS, offset_of!(libc::tcp_info, tcpi_snd_mss));
        assert_eq!(offset::RCV_MSS, offset_of!(libc::tcp_info, tcpi_rcv_mss));
        assert_eq!(offset::PMTU, offset_of!(libc::tcp_info, tcpi_pmtu));
        assert_eq!(offset::RTT, offset_of!(libc::tcp_info, tcpi_rtt));
        assert_eq!(offset::SND_CWND, offset_of!(libc::tcp_info, tcpi_snd_cwnd));
        assert_eq!(offset::RCV_SPACE, offset_of!(libc::tcp_info, tcpi_rcv_space));
        assert_eq!(offset::TOTAL_RETRANS, offset_of!(libc::tcp_info, tcpi_total_retrans));
    }

    #[test]
    fn a_shorter_structure_of_an_older_kernel_leaves_the_rest_zero() {
        let bytes = [0xff_u8; 104];
        let info = TcpInfo::decode(&bytes);
        assert_eq!((info.known_bytes, info.retransmits, info.pacing_rate), (104, u32::MAX, 0));
        assert!(info.delivery_rate_app_limited);
        assert_eq!(TcpInfo::decode(&[]), TcpInfo::default());
    }
}
