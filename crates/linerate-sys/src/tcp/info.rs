//! `struct tcp_info`, decoded by offset, up to the number of bytes that the running kernel filled.

/// Declares the fields of [`TcpInfo`] with their type and byte offset in `struct tcp_info`, and
/// decodes them. The structure only ever grows at its end.
macro_rules! tcp_info {
    ($($(#[$doc:meta])* $field:ident: $type:ident = $word:ident at $offset:literal,)*) => {
        /// Fields of `struct tcp_info` (Linux `include/uapi/linux/tcp.h`, to 6.18). Counters are
        /// cumulative since the connection was opened; a field beyond `known_bytes` is zero.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct TcpInfo {
            /// Number of bytes that the kernel filled.
            pub known_bytes: u32,
            /// True if the application limited the sample of `delivery_rate`.
            pub delivery_rate_app_limited: bool,
            $($(#[$doc])* pub $field: $type,)*
        }

        impl TcpInfo {
            /// Decodes as much of `struct tcp_info` as `bytes` contains.
            #[must_use]
            pub fn decode(bytes: &[u8]) -> Self {
                Self {
                    known_bytes: bytes.len() as u32,
                    delivery_rate_app_limited: bytes
                        .get(FLAGS)
                        .is_some_and(|flags| flags & APP_LIMITED != 0),
                    $($field: bytes
                        .get($offset..)
                        .and_then(<[u8]>::first_chunk)
                        .map_or(0, |word| $word::from_ne_bytes(*word).into()),)*
                }
            }
        }

        /// Returns the offset of a field.
        #[cfg(test)]
        fn offset_of(field: &str) -> Option<usize> {
            let fields = [$((stringify!($field), $offset)),*];
            fields.into_iter().find(|(name, _)| *name == field).map(|(_, offset)| offset)
        }
    };
}

tcp_info! {
    /// Payload bytes acknowledged by the peer.
    bytes_acked: u64 = u64 at 120,
    /// Payload bytes received in order.
    bytes_received: u64 = u64 at 128,
    /// Payload bytes sent, including retransmissions.
    bytes_sent: u64 = u64 at 200,
    /// Payload bytes retransmitted.
    bytes_retransmitted: u64 = u64 at 208,
    /// Segments sent.
    segments_out: u32 = u32 at 136,
    /// Segments received.
    segments_in: u32 = u32 at 140,
    /// Segments with payload received, including retransmissions and segments after a gap.
    data_segments_in: u32 = u32 at 152,
    /// Payload of the peer's segments as the kernel estimates it, bytes.
    receive_mss: u32 = u32 at 20,
    /// Segments retransmitted.
    retransmits: u32 = u32 at 100,
    /// Smoothed round-trip time, microseconds.
    rtt_us: u32 = u32 at 68,
    /// Mean deviation of the round-trip time, microseconds.
    rttvar_us: u32 = u32 at 72,
    /// Smallest round-trip time in the kernel's window, microseconds.
    min_rtt_us: u32 = u32 at 148,
    /// Congestion window, segments.
    congestion_window: u32 = u32 at 80,
    /// Sending maximum segment size, bytes.
    send_mss: u32 = u32 at 16,
    /// Path MTU, bytes.
    path_mtu: u32 = u32 at 60,
    /// The peer's advertised window, bytes (since 5.4).
    send_window: u32 = u32 at 228,
    /// Our advertised window, bytes (since 6.2).
    receive_window: u32 = u32 at 232,
    /// Receive space of auto-tuning, bytes.
    receive_space: u32 = u32 at 96,
    /// Latest delivery rate sample, bytes per second.
    delivery_rate: u64 = u64 at 160,
    /// Pacing rate, bytes per second; `u64::MAX` if not paced.
    pacing_rate: u64 = u64 at 104,
    /// Time with data to send or unacknowledged, microseconds.
    busy_us: u64 = u64 at 168,
    /// Time limited by the peer's receive window, microseconds.
    receive_window_limited_us: u64 = u64 at 176,
    /// Time limited by the own send buffer, microseconds.
    send_buffer_limited_us: u64 = u64 at 184,
    /// Bytes in the send queue that were never sent.
    not_sent: u32 = u32 at 144,
    /// Segments delivered with an ECN congestion mark.
    delivered_ce: u32 = u32 at 196,
    /// Reordering events seen.
    reorder_seen: u32 = u32 at 220,
    /// Segments received out of order.
    out_of_order: u32 = u32 at 224,
    /// Retransmission timeouts (since 6.7).
    timeouts: u32 = u16 at 240,
}

/// More than the structure of any kernel so far (280 bytes in 6.18).
pub(super) const LARGEST: usize = 512;
/// Offset of the flags byte.
const FLAGS: usize = 7;
/// First bit of the flags byte. The compiler allocates bits from the lowest up on little-endian
/// machines, and from the highest down on big-endian ones.
const APP_LIMITED: u8 = if cfg!(target_endian = "little") { 0x01 } else { 0x80 };

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    #[test]
    fn offsets_are_those_of_the_kernel_header() {
        // libc declares the structure of Linux 2.6. Another test checks the newer fields against a
        // live socket.
        for (field, known) in [
            ("send_mss", offset_of!(libc::tcp_info, tcpi_snd_mss)),
            ("receive_mss", offset_of!(libc::tcp_info, tcpi_rcv_mss)),
            ("path_mtu", offset_of!(libc::tcp_info, tcpi_pmtu)),
            ("rtt_us", offset_of!(libc::tcp_info, tcpi_rtt)),
            ("congestion_window", offset_of!(libc::tcp_info, tcpi_snd_cwnd)),
            ("receive_space", offset_of!(libc::tcp_info, tcpi_rcv_space)),
            ("retransmits", offset_of!(libc::tcp_info, tcpi_total_retrans)),
        ] {
            assert_eq!(super::offset_of(field), Some(known), "{field}");
        }
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
