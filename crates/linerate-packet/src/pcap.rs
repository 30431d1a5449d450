//! Capture files in the classic pcap format, as every analyser reads them.
//!
//! Little-endian, microseconds, link type Ethernet. Source: the libpcap file format
//! (draft-ietf-opsawg-pcap).

/// Magic of microsecond files, version 2.4.
const MAGIC: u32 = 0xa1b2_c3d4;
const VERSION: [u16; 2] = [2, 4];
/// Longest frame a file may hold.
const SNAP_LENGTH: u32 = 65_535;
/// LINKTYPE_ETHERNET.
const ETHERNET: u32 = 1;

/// A capture file of `frames`, a microsecond apart.
///
/// # Examples
/// ```
/// use linerate_packet::pcap::capture;
///
/// let frame = [0xff; 60];
/// let file = capture([&frame[..]]);
/// // A file header of 24 bytes, a record header of 16, and the frame.
/// assert_eq!(file.len(), 24 + 16 + 60);
/// assert_eq!(file[..4], [0xd4, 0xc3, 0xb2, 0xa1]);
/// ```
#[must_use]
pub fn capture<'a>(frames: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut file = Vec::new();
    file.extend(MAGIC.to_le_bytes());
    file.extend(VERSION.iter().flat_map(|part| part.to_le_bytes()));
    // Time zone and accuracy of time stamps: zero by convention, readers ignore both.
    file.extend([0; 8]);
    file.extend(SNAP_LENGTH.to_le_bytes());
    file.extend(ETHERNET.to_le_bytes());
    // Equal time stamps would let analysers sort frames into another order.
    for (microsecond, frame) in (0_u32..).zip(frames) {
        let length = u32::try_from(frame.len()).unwrap_or(SNAP_LENGTH).min(SNAP_LENGTH);
        for word in [0, microsecond, length, length] {
            file.extend(word.to_le_bytes());
        }
        file.extend(&frame[..length as usize]);
    }
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capture_has_a_header_and_one_record_a_frame() {
        let file = capture([&[1, 2, 3][..], &[4][..]]);
        assert_eq!(file.len(), 24 + 16 + 3 + 16 + 1);
        assert_eq!(file[..4], [0xd4, 0xc3, 0xb2, 0xa1]);
        assert_eq!(file[24..43], [0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 3, 0, 0, 0, 1, 2, 3]);
    }
}
