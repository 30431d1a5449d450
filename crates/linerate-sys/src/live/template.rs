//! Contents of live frames, and their layout in the words that the program and this process share.
//! Pure.
//!
//! The words are: frames created, current row, scheduled time of the next frame, gap between two
//! frames, clock, state of the random generator; then each flow's next number; then the rows. A row
//! has its flow, the sum for its checksum, its length, and its header in whole words.

use serde::{Deserialize, Serialize};

/// Kind of frame. Rows take turns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// The whole frame from the Ethernet header on, without frame check sequence.
    pub frame: Vec<u8>,
    /// One's complement sum, in 16-bit big-endian words, of everything that the transport checksum
    /// covers, including the pseudo header. The stamp and the checksum itself count as zero.
    pub sum: u32,
    /// Flow whose sequence numbers it carries, from 0.
    pub flow: u32,
}

/// Positions in the frames of every row. Offsets count from the start of the frame and are even.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// Number of bytes from the start that are written anew for every frame: everything that
    /// differs between rows or that a device on the path may change, at least up to the end of the
    /// stamp.
    pub header_bytes: usize,
    /// Transport checksum.
    pub checksum_at: usize,
    /// Stamp of twelve bytes, big-endian: low 40 bits of the number within the flow, low 40 bits of
    /// the scheduled departure (ns, monotonic clock), and the lateness (12 bits, shifted left by
    /// the value of the other 4 bits).
    pub stamp_at: usize,
    /// Both ports, if each frame gets random ones. They are then zero in the rows' frames and sums.
    pub random_ports_at: Option<usize>,
}

pub(super) const MADE_WORD: usize = 0;
pub(super) const TURN_WORD: usize = 1;
pub(super) const SCHEDULED_WORD: usize = 2;
pub(super) const GAP_WORD: usize = 3;
/// Last clock reading; 0 makes the next frame read the clock.
pub(super) const CLOCK_WORD: usize = 4;
/// State of the generator of random ports.
pub(super) const CHANCE_WORD: usize = 5;
pub(super) const FIRST_FLOW_WORD: usize = 6;
/// Offsets of a row's words.
pub(super) const ROW_FLOW: usize = 0;
pub(super) const ROW_SUM: usize = 1;
pub(super) const ROW_BYTES: usize = 2;
pub(super) const ROW_HEADER: usize = 3;
pub(super) const WORD: usize = 8;
pub(super) const STAMP_BYTES: usize = 12;
/// Size of source and destination port.
const PORTS_BYTES: usize = 4;
/// Longest header that the program writes: twice what Ethernet, VLAN, IPv6, UDP or TCP and a
/// payload header need.
const MOST_HEADER_BYTES: usize = 256;
/// A few megabytes of rows.
const MOST_ROWS: usize = 1 << 14;
/// Size of an Ethernet header.
const LEAST_BYTES: usize = 14;

/// Layout of the shared words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) shape: Shape,
    pub(super) n_rows: usize,
    pub(super) n_flows: usize,
    /// Length of the longest row, for which pages are allocated.
    pub(super) longest: usize,
    /// True if all rows have the same length.
    pub(super) one_length: bool,
}

impl Layout {
    /// Returns the layout, or an explanation of what is wrong.
    pub(super) fn new(rows: &[Row], shape: Shape) -> Result<Self, String> {
        let header = shape.header_bytes;
        let longest = rows.iter().max_by_key(|row| row.frame.len()).ok_or("there are no rows")?;
        if rows.len() > MOST_ROWS {
            return Err(format!("{} rows, at most {MOST_ROWS}", rows.len()));
        }
        if header > MOST_HEADER_BYTES || !header.is_multiple_of(2) {
            return Err(format!(
                "the header has {header} B, but it must have an even number of at most \
                    {MOST_HEADER_BYTES}"
            ));
        }
        let ports = shape.random_ports_at.map(|at| ("pair of ports", at, PORTS_BYTES));
        let fixed = [("checksum", shape.checksum_at, 2), ("stamp", shape.stamp_at, STAMP_BYTES)];
        for (what, at, bytes) in fixed.into_iter().chain(ports) {
            if !at.is_multiple_of(2) || at + bytes > header {
                return Err(format!(
                    "a {what} at {at} does not lie within the header, at an even offset"
                ));
            }
        }
        let least = header.max(LEAST_BYTES);
        for row in rows {
            let bytes = row.frame.len();
            if bytes < least || bytes > super::MOST_BYTES {
                return Err(format!(
                    "a frame has {bytes} B, but live frames have {least} to {} B",
                    super::MOST_BYTES
                ));
            }
            if row.frame[header..] != longest.frame[header..bytes] {
                return Err("rows differ after their header".into());
            }
            if row.flow as usize >= rows.len() {
                return Err(format!("flow {} of {} rows", row.flow, rows.len()));
            }
        }
        Ok(Self {
            shape,
            n_rows: rows.len(),
            n_flows: rows.iter().map(|row| row.flow as usize + 1).max().unwrap_or(0),
            longest: longest.frame.len(),
            one_length: rows.iter().all(|row| row.frame.len() == longest.frame.len()),
        })
    }

    pub(super) fn row_words(&self) -> usize {
        ROW_HEADER + self.shape.header_bytes.div_ceil(WORD)
    }

    pub(super) fn first_row_word(&self) -> usize {
        FIRST_FLOW_WORD + self.n_flows
    }

    pub(super) fn n_words(&self) -> usize {
        self.first_row_word() + self.n_rows * self.row_words()
    }

    /// Returns the word of the next number of `flow`.
    pub(super) fn flow_word(&self, flow: usize) -> usize {
        assert!(flow < self.n_flows, "flow {flow} of {}", self.n_flows);
        FIRST_FLOW_WORD + flow
    }

    /// Writes every row with `set(word, value)`.
    pub(super) fn write(&self, rows: &[Row], set: impl Fn(usize, u64)) {
        for (row_idx, row) in rows.iter().enumerate() {
            let at = self.first_row_word() + row_idx * self.row_words();
            set(at + ROW_FLOW, row.flow.into());
            // The sum uses the machine's byte order, which swaps the bytes of every 16-bit word
            // alike (RFC 1071 section 2B).
            set(at + ROW_SUM, u16::from_ne_bytes(folded(row.sum).to_be_bytes()).into());
            set(at + ROW_BYTES, row.frame.len() as u64);
            for (word_idx, bytes) in row.frame[..self.shape.header_bytes].chunks(WORD).enumerate() {
                let mut word = [0; WORD];
                word[..bytes.len()].copy_from_slice(bytes);
                set(at + ROW_HEADER + word_idx, u64::from_ne_bytes(word));
            }
        }
    }

    /// Returns the contents of new pages: the longest row.
    pub(super) fn pattern(&self, rows: &[Row]) -> Vec<u8> {
        let longest = rows.iter().find(|row| row.frame.len() == self.longest);
        longest.map(|row| row.frame.clone()).unwrap_or_default()
    }
}

/// Returns a sum of 16-bit words with its carries added.
fn folded(sum: u32) -> u16 {
    let once = (sum & 0xffff) + (sum >> 16);
    ((once & 0xffff) + (once >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape =
        Shape { header_bytes: 60, checksum_at: 40, stamp_at: 48, random_ports_at: None };

    fn row(bytes: usize) -> Row {
        Row { frame: (0..bytes).map(|byte| byte as u8).collect(), sum: 0x0002_1232, flow: 0 }
    }

    #[test]
    fn rows_lie_one_behind_the_other() {
        let rows = [row(60), Row { flow: 1, ..row(100) }];
        let layout = Layout::new(&rows, SHAPE).expect("sound");
        assert_eq!(
            (layout.n_words(), layout.flow_word(1), layout.one_length),
            (6 + 2 + 2 * 11, 7, false)
        );
        let words = std::cell::RefCell::new(vec![0; layout.n_words()]);
        layout.write(&rows, |word, value| words.borrow_mut()[word] = value);
        let words = words.into_inner();
        assert_eq!((words[19 + ROW_FLOW], words[19 + ROW_BYTES]), (1, 100));
        assert_eq!(words[19 + ROW_HEADER].to_ne_bytes(), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(words[19 + ROW_HEADER + 7].to_ne_bytes(), [56, 57, 58, 59, 0, 0, 0, 0]);
        assert_eq!((words[19 + ROW_SUM] as u16).to_ne_bytes(), [0x12, 0x34]);
        assert_eq!(layout.pattern(&rows).len(), 100);
    }

    #[test]
    fn inconsistent_rows_are_refused() {
        let wrong =
            |rows: &[Row], shape: Shape| Layout::new(rows, shape).expect_err("inconsistent rows");
        assert!(wrong(&[], SHAPE).contains("no row"));
        assert!(wrong(&[row(59)], SHAPE).contains("59 B"));
        assert!(wrong(&[row(4000)], SHAPE).contains("4000 B"));
        assert!(wrong(&[row(60)], Shape { header_bytes: 61, ..SHAPE }).contains("61 B"));
        assert!(wrong(&[row(60)], Shape { stamp_at: 50, ..SHAPE }).contains("stamp at 50"));
        assert!(wrong(&[row(60)], Shape { checksum_at: 41, ..SHAPE }).contains("checksum at 41"));
        assert!(
            wrong(&[row(60)], Shape { random_ports_at: Some(58), ..SHAPE }).contains("ports at 58")
        );
        assert!(wrong(&[Row { flow: 1, ..row(60) }], SHAPE).contains("flow 1"));
        let other = Row { frame: vec![0; 100], ..row(100) };
        assert!(wrong(&[row(80), other], SHAPE).contains("differ"));
    }
}
