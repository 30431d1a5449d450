//! Packets of STAMP without authentication (RFC 8762 clauses 4.2.1 and 4.3.1) and their extensions
//! (RFC 8972 clause 4). All numbers are in network byte order.

/// UDP port of a reflector (RFC 8762 clause 4.1).
pub const PORT: u16 = 862;
/// Bytes of a packet without extensions, in either direction.
pub const BASE_BYTES: usize = 44;
/// Bytes of the shortest packet of a TWAMP sender (RFC 5357 clause 4.1.2).
pub const TWAMP_BYTES: usize = 14;
/// Largest UDP payload over IPv4.
pub const MOST_BYTES: usize = 65_507;

const NANOS_PER_SECOND: u64 = 1_000_000_000;
/// Seconds from 1900, where NTP's era 0 begins, to 1970 (RFC 5905 figure 4).
const NTP_TO_UNIX_S: u64 = 2_208_988_800;

/// Bound of the error of a sender's or reflector's clock (RFC 4656 clause 4.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorEstimate {
    /// True if the clock follows an external source.
    pub is_synchronized: bool,
    /// True if times are in the truncated format of PTPv2 instead of NTP's (RFC 8186 clause 2.3).
    pub is_ptp: bool,
    /// Exponent.
    pub scale: u8,
    /// Factor.
    pub multiplier: u8,
}

impl ErrorEstimate {
    /// Returns the smallest estimate that is at least `nanos`, for times in NTP's format.
    #[must_use]
    pub fn at_least(nanos: u64, is_synchronized: bool) -> Self {
        // Units of 2^-32 s, rounded up. Zero would mean that there is no estimate at all.
        let mut units = (u128::from(nanos) << 32).div_ceil(u128::from(NANOS_PER_SECOND)).max(1);
        let mut scale = 0;
        while units > u128::from(u8::MAX) {
            units = units.div_ceil(2);
            scale += 1;
        }
        Self { is_synchronized, is_ptp: false, scale, multiplier: units as u8 }
    }

    /// Returns the bound, s.
    #[must_use]
    pub fn seconds(self) -> f64 {
        f64::from(self.multiplier) * 2_f64.powi(i32::from(self.scale) - 32)
    }

    fn to_bytes(self) -> [u8; 2] {
        let flags = u8::from(self.is_synchronized) << 7 | u8::from(self.is_ptp) << 6;
        [flags | self.scale & 0x3f, self.multiplier]
    }

    fn from_bytes([first, multiplier]: [u8; 2]) -> Self {
        Self {
            is_synchronized: first & 0x80 != 0,
            is_ptp: first & 0x40 != 0,
            scale: first & 0x3f,
            multiplier,
        }
    }
}

/// Returns the bytes of a time in NTP's format (RFC 5905 clause 6); `unix_ns` counts from 1970.
fn ntp(unix_ns: u64) -> [u8; 8] {
    let seconds = unix_ns / NANOS_PER_SECOND + NTP_TO_UNIX_S;
    // Rounded to the nearest unit of 2^-32 s, so that the time comes back to the nanosecond.
    let part = (unix_ns % NANOS_PER_SECOND) << 32;
    let fraction = (part + NANOS_PER_SECOND / 2) / NANOS_PER_SECOND;
    // Seconds wrap in 2036, where the next era begins.
    ((seconds << 32) + fraction).to_be_bytes()
}

/// Returns the time since 1970, ns, of a time in the format that `error` names.
fn unix_ns(bytes: [u8; 8], error: ErrorEstimate) -> u64 {
    let word = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let (seconds, part) = (u64::from(word(0)), u64::from(word(4)));
    if error.is_ptp {
        return seconds * NANOS_PER_SECOND + part;
    }
    // Times before 1970 are of the era that begins in 2036.
    let era = if seconds < NTP_TO_UNIX_S { 1_u64 << 32 } else { 0 };
    let nanos = (part * NANOS_PER_SECOND + (1 << 31)) >> 32;
    (seconds + era - NTP_TO_UNIX_S) * NANOS_PER_SECOND + nanos
}

/// Counts of both ends in a packet (Direct Measurement, RFC 8972 clause 4.5). They show in which
/// direction packets were lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets that the sender has sent, this one included.
    pub sent: u32,
    /// Packets that the reflector has received.
    pub arrived: u32,
    /// Packets that the reflector has sent.
    pub reflected: u32,
}

/// Packet of a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TestPacket {
    /// Its number, from 0.
    pub number: u32,
    /// Departure by the sender's clock, ns since 1970.
    pub sent_ns: u64,
    /// Bound of the error of that clock.
    pub error: ErrorEstimate,
    /// Identifier of the session (SSID, RFC 8972 clause 3); 0 where there is none.
    pub session: u16,
    /// Packets sent so far; `None` without the extension.
    pub n_sent: Option<u32>,
}

/// Flags of an extension (RFC 8972 clause 4).
const UNRECOGNIZED: u8 = 0x80;
const MALFORMED: u8 = 0x40;
/// Bytes of an extension before its value: flags, type and length.
const EXTENSION_BYTES: usize = 4;
/// Types of extensions.
const EXTRA_PADDING: u8 = 1;
const DIRECT_MEASUREMENT: u8 = 5;
/// Bytes of the three counts.
const COUNTS_BYTES: usize = 12;
/// Bytes of a packet with the counts.
pub const COUNTED_BYTES: usize = BASE_BYTES + EXTENSION_BYTES + COUNTS_BYTES;

impl TestPacket {
    /// Returns the packet, padded to `bytes` where that is possible.
    #[must_use]
    pub fn to_bytes(&self, bytes: usize) -> Vec<u8> {
        let mut packet = vec![0; BASE_BYTES];
        packet[..4].copy_from_slice(&self.number.to_be_bytes());
        packet[4..12].copy_from_slice(&ntp(self.sent_ns));
        packet[12..14].copy_from_slice(&self.error.to_bytes());
        packet[14..16].copy_from_slice(&self.session.to_be_bytes());
        if let Some(n_sent) = self.n_sent {
            // A reflector that knows the extension clears its flag.
            packet.extend([UNRECOGNIZED, DIRECT_MEASUREMENT, 0, COUNTS_BYTES as u8]);
            packet.extend(n_sent.to_be_bytes());
            packet.extend([0; COUNTS_BYTES - 4]);
        }
        // Padding is an extension of its own, so a gap below its head cannot be filled.
        if let Some(padding) = bytes.checked_sub(packet.len() + EXTENSION_BYTES) {
            packet.extend([UNRECOGNIZED, EXTRA_PADDING]);
            packet.extend((padding as u16).to_be_bytes());
            packet.resize(packet.len() + padding, 0);
        }
        packet
    }

    /// Reads a packet of a sender of STAMP or TWAMP Light; `None` for one that is too short.
    #[must_use]
    pub fn from_bytes(packet: &[u8]) -> Option<Self> {
        let error = ErrorEstimate::from_bytes(field(packet, 12)?);
        let session = field(packet, 14).filter(|_| packet.len() >= BASE_BYTES);
        let counts = counts_at(packet).and_then(|at| field(packet, at));
        Some(Self {
            number: u32::from_be_bytes(field(packet, 0)?),
            sent_ns: unix_ns(field(packet, 4)?, error),
            error,
            session: session.map_or(0, u16::from_be_bytes),
            n_sent: counts.map(u32::from_be_bytes),
        })
    }
}

/// Packet of a reflector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Its number: of the reflector's own count, or that of the packet it answers.
    pub number: u32,
    /// Departure by the reflector's clock, ns since 1970.
    pub reflected_ns: u64,
    /// Bound of the error of that clock.
    pub error: ErrorEstimate,
    /// Identifier of the session.
    pub session: u16,
    /// Arrival at the reflector, by its clock, ns since 1970.
    pub arrived_ns: u64,
    /// Number of the packet that it answers.
    pub answers: u32,
    /// Time to live with which that packet arrived; 255 where the reflector does not know.
    pub hops: u8,
    /// Counts of both ends; `None` where the reflector does not know the extension.
    pub counts: Option<Counts>,
}

impl Reply {
    /// Returns the answer to `packet`: as long as it, but with all fields.
    ///
    /// Extensions come back as they came, with the flags that say whether they were understood.
    #[must_use]
    pub fn to_bytes(&self, packet: &[u8]) -> Vec<u8> {
        let mut reply = packet.to_vec();
        reply.resize(packet.len().max(BASE_BYTES), 0);
        reply[..4].copy_from_slice(&self.number.to_be_bytes());
        reply[4..12].copy_from_slice(&ntp(self.reflected_ns));
        reply[12..14].copy_from_slice(&self.error.to_bytes());
        reply[14..16].copy_from_slice(&self.session.to_be_bytes());
        reply[16..24].copy_from_slice(&ntp(self.arrived_ns));
        reply[24..28].copy_from_slice(&self.answers.to_be_bytes());
        // The sender's time and error come back unchanged, in whatever format they are.
        reply[28..36].copy_from_slice(&packet[4..12]);
        reply[36..38].copy_from_slice(&packet[12..14]);
        reply[38..BASE_BYTES].fill(0);
        reply[40] = self.hops;
        answer_extensions(&mut reply[BASE_BYTES..], self.counts.unwrap_or_default());
        reply
    }

    /// Reads a packet of a reflector; `None` for one that is too short.
    #[must_use]
    pub fn from_bytes(packet: &[u8]) -> Option<Self> {
        // TWAMP ends with the time to live.
        const LEAST_BYTES: usize = 41;
        if packet.len() < LEAST_BYTES {
            return None;
        }
        let error = ErrorEstimate::from_bytes(field(packet, 12)?);
        let understood = counts_at(packet)
            .filter(|at| packet[at - EXTENSION_BYTES] & (UNRECOGNIZED | MALFORMED) == 0);
        let count = |at: usize| field(packet, at).map(u32::from_be_bytes);
        let counts = understood.and_then(|at| {
            Some(Counts { sent: count(at)?, arrived: count(at + 4)?, reflected: count(at + 8)? })
        });
        Some(Self {
            number: u32::from_be_bytes(field(packet, 0)?),
            reflected_ns: unix_ns(field(packet, 4)?, error),
            error,
            session: u16::from_be_bytes(field(packet, 14)?),
            arrived_ns: unix_ns(field(packet, 16)?, error),
            answers: u32::from_be_bytes(field(packet, 24)?),
            hops: packet[40],
            counts,
        })
    }
}

fn field<const N: usize>(packet: &[u8], at: usize) -> Option<[u8; N]> {
    packet.get(at..at + N)?.try_into().ok()
}

/// Extension of a packet: the place of its value, its type and the length of its value.
#[derive(Clone, Copy, Debug)]
struct Extension {
    value_at: usize,
    kind: u8,
    length: usize,
}

/// Returns the extension that begins `at`; `None` behind the last one.
fn extension(extensions: &[u8], at: usize) -> Option<Extension> {
    let [_, kind, high, low]: [u8; 4] = field(extensions, at)?;
    let length = usize::from(u16::from_be_bytes([high, low]));
    Some(Extension { value_at: at + EXTENSION_BYTES, kind, length })
}

/// Returns the place of the counts in `packet`.
fn counts_at(packet: &[u8]) -> Option<usize> {
    let mut at = BASE_BYTES;
    while let Some(found) = extension(packet, at) {
        let end = found.value_at + found.length;
        if found.kind == DIRECT_MEASUREMENT && found.length == COUNTS_BYTES {
            return (end <= packet.len()).then_some(found.value_at);
        }
        at = end;
    }
    None
}

/// Answers the extensions of a packet in place (RFC 8972 clause 4).
fn answer_extensions(extensions: &mut [u8], counts: Counts) {
    let mut at = 0;
    while let Some(Extension { value_at, kind, length }) = extension(extensions, at) {
        let end = value_at + length;
        let is_whole = end <= extensions.len();
        extensions[at] = match kind {
            _ if !is_whole => MALFORMED,
            DIRECT_MEASUREMENT if length != COUNTS_BYTES => MALFORMED,
            DIRECT_MEASUREMENT => {
                let own = [counts.arrived.to_be_bytes(), counts.reflected.to_be_bytes()].concat();
                extensions[value_at + 4..end].copy_from_slice(&own);
                0
            }
            EXTRA_PADDING => 0,
            _ => UNRECOGNIZED,
        };
        // Behind one that is cut off nothing can be found.
        if !is_whole {
            return;
        }
        at = end;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A time whose seconds since 1900 are 0xeeb47be0, and a quarter.
    const AT: u64 = 1_795_816_800_250_000_000;

    fn packet() -> TestPacket {
        let error = ErrorEstimate::at_least(1_000_000, true);
        TestPacket { number: 7, sent_ns: AT, error, session: 0x1234, n_sent: Some(8) }
    }

    #[test]
    fn a_packet_has_the_fields_of_rfc_8762_at_their_places() {
        let bytes = TestPacket { n_sent: None, ..packet() }.to_bytes(0);
        let mut expected = vec![0, 0, 0, 7];
        // 1_795_816_800 + 2_208_988_800 seconds, and a quarter of 2^32.
        expected.extend([0xee, 0xb4, 0x7b, 0xe0, 0x40, 0, 0, 0]);
        // 1 ms is 4_294_968 units of 2^-32 s: 132 times 2^15.
        expected.extend([0x80 | 15, 132, 0x12, 0x34]);
        expected.extend([0; 28]);
        assert_eq!(bytes, expected);
    }

    #[test]
    fn a_reply_has_the_fields_of_rfc_8762_at_their_places() {
        let sent = packet().to_bytes(100);
        let counts = Counts { sent: 0, arrived: 6, reflected: 5 };
        let error = ErrorEstimate::at_least(1, false);
        let reply = Reply {
            number: 5,
            reflected_ns: AT + 3_000_000,
            error,
            session: 0x1234,
            arrived_ns: AT + 2_000_000,
            answers: 7,
            hops: 63,
            counts: Some(counts),
        };
        let bytes = reply.to_bytes(&sent);
        assert_eq!(bytes.len(), sent.len(), "a reflector amplifies nothing");
        assert_eq!(bytes[24..28], [0, 0, 0, 7], "number of the sender");
        assert_eq!(bytes[28..36], sent[4..12], "time of the sender");
        assert_eq!(bytes[36..38], sent[12..14], "error of the sender");
        assert_eq!(bytes[38..44], [0, 0, 63, 0, 0, 0]);
        // The counts: understood, and those of the sender first.
        assert_eq!(bytes[44..60], [0, 5, 0, 12, 0, 0, 0, 8, 0, 0, 0, 6, 0, 0, 0, 5]);
        assert_eq!(bytes[60..64], [0, 1, 0, 36], "padding is understood");
        let read = Reply::from_bytes(&bytes).expect("long enough");
        assert_eq!(read, Reply { counts: Some(Counts { sent: 8, ..counts }), ..reply });
    }

    #[test]
    fn what_a_reflector_does_not_know_or_cannot_read_is_marked() {
        let mut sent = TestPacket { n_sent: None, ..packet() }.to_bytes(0);
        // A location (type 2), counts of a wrong length, and one that is cut off.
        sent.extend([0x80, 2, 0, 2, 1, 1]);
        sent.extend([0x80, 5, 0, 1, 9]);
        sent.extend([0x80, 1, 0, 9, 0]);
        let reply = Reply::from_bytes(&TestPacket::to_bytes(&packet(), 0)).expect("long enough");
        let bytes = reply.to_bytes(&sent);
        assert_eq!(bytes[44..50], [0x80, 2, 0, 2, 1, 1], "unrecognized");
        assert_eq!(bytes[50..55], [0x40, 5, 0, 1, 9], "malformed");
        assert_eq!(bytes[55..60], [0x40, 1, 0, 9, 0], "malformed");
    }

    #[test]
    fn a_short_packet_of_twamp_is_read_and_answered_in_full_length() {
        let sent = &packet().to_bytes(0)[..TWAMP_BYTES];
        let read = TestPacket::from_bytes(sent).expect("fourteen bytes");
        assert_eq!((read.number, read.session, read.n_sent), (7, 0, None));
        assert_eq!(TestPacket::from_bytes(&sent[..13]), None);
        let reply = Reply { counts: None, ..Reply::from_bytes(&[0; 44]).expect("long enough") };
        assert_eq!(reply.to_bytes(sent).len(), BASE_BYTES);
        assert_eq!(Reply::from_bytes(&[0; 40]), None);
    }

    #[test]
    fn times_of_ptp_and_of_the_next_era_are_read() {
        let ptp = ErrorEstimate { is_ptp: true, ..ErrorEstimate::at_least(1, true) };
        let bytes = [0x6b, 0x0a, 0, 0, 0x3b, 0x9a, 0xc9, 0xff];
        assert_eq!(unix_ns(bytes, ptp), 0x6b0a_0000 * NANOS_PER_SECOND + 999_999_999);
        // 2036-02-07 06:28:16 UTC, where NTP's seconds start again.
        let era = 2_085_978_496 * NANOS_PER_SECOND;
        assert_eq!(ntp(era), [0; 8]);
        assert_eq!(unix_ns([0; 8], ErrorEstimate::at_least(1, true)), era);
    }

    proptest! {
        #[test]
        fn times_come_back_to_the_nanosecond(at in 0..4_000_000_000 * NANOS_PER_SECOND) {
            prop_assert_eq!(unix_ns(ntp(at), ErrorEstimate::at_least(1, true)), at);
        }

        #[test]
        fn an_error_is_never_reported_too_small_or_twice_as_large(nanos in 1..u64::MAX / 2) {
            let bound = ErrorEstimate::at_least(nanos, false);
            prop_assert_eq!(ErrorEstimate::from_bytes(bound.to_bytes()), bound);
            let ratio = bound.seconds() / (nanos as f64 / 1e9);
            prop_assert!((1.0 - 1e-9..1.25).contains(&ratio), "{}", ratio);
        }

        #[test]
        fn no_packet_is_answered_with_a_longer_one_or_with_a_panic(
            packet in proptest::collection::vec(any::<u8>(), TWAMP_BYTES..300)
        ) {
            let read = TestPacket::from_bytes(&packet).expect("long enough");
            let reply = Reply::from_bytes(&[0; 44]).expect("long enough");
            let bytes = Reply { answers: read.number, ..reply }.to_bytes(&packet);
            prop_assert_eq!(bytes.len(), packet.len().max(BASE_BYTES));
            prop_assert_eq!(Reply::from_bytes(&bytes).expect("long enough").answers, read.number);
        }
    }
}
