//! What live frames are made from, and how it lies in the words that the program and this process
//! share. Pure.
//!
//! Words: frames made, the row whose turn it is, when the next frame is scheduled, the gap between
//! two, the clock, chance; then each flow's next number; then the rows. A row: its flow, the sum
//! for its checksum, its length, then its header in whole words.

/// One kind of frame. Rows take turns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The whole frame from the Ethernet header on, without frame check sequence.
    pub frame: Vec<u8>,
    /// The one's complement sum, in 16-bit big-endian words, of all that the transport checksum
    /// covers, pseudo header included, the stamp and the checksum itself taken as zero.
    pub sum: u32,
    /// The flow whose numbers it carries, counted from 0.
    pub flow: u32,
}

/// Where things stand in the frames of every row; offsets count from the start of the frame and are
/// even.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// How many bytes from its start are written anew each time: everything that differs from row
    /// to row or that somebody on the way may write to, up to the stamp's end at least.
    pub header_bytes: usize,
    /// The transport checksum.
    pub checksum_at: usize,
    /// Twelve bytes, big-endian: low 40 bits of the number within the flow, low 40 bits of the
    /// scheduled departure (ns, monotonic clock), and how much later it was made (12 bits shifted
    /// left by 4 bits' worth).
    pub stamp_at: usize,
    /// Both ports, if each frame is to have random ones; zero in the rows' frames and sums then.
    pub random_ports_at: Option<usize>,
}

pub(super) const MADE_WORD: usize = 0;
pub(super) const TURN_WORD: usize = 1;
pub(super) const SCHEDULED_WORD: usize = 2;
pub(super) const GAP_WORD: usize = 3;
/// When the clock was read last; 0 to have it read for the next frame.
pub(super) const CLOCK_WORD: usize = 4;
/// What the next random ports are drawn from.
pub(super) const CHANCE_WORD: usize = 5;
pub(super) const FIRST_FLOW_WORD: usize = 6;
/// Words of a row.
pub(super) const ROW_FLOW: usize = 0;
pub(super) const ROW_SUM: usize = 1;
pub(super) const ROW_BYTES: usize = 2;
pub(super) const ROW_HEADER: usize = 3;
pub(super) const WORD: usize = 8;
pub(super) const STAMP_BYTES: usize = 12;
/// Source and destination port.
const PORTS_BYTES: usize = 4;
/// A header the program writes in one go: what Ethernet, VLAN, IPv6, UDP or TCP and a payload
/// header need, twice.
const MOST_HEADER_BYTES: usize = 256;
/// A few megabytes of rows.
const MOST_ROWS: usize = 1 << 14;
/// Bytes of an Ethernet header.
const LEAST_BYTES: usize = 14;

/// Where everything lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) shape: Shape,
    pub(super) n_rows: usize,
    pub(super) n_flows: usize,
    /// The longest row's length, which pages are made for.
    pub(super) longest: usize,
    /// Whether all rows are as long.
    pub(super) one_length: bool,
}

impl Layout {
    /// What is wrong, in words, otherwise.
    pub(super) fn new(rows: &[Row], shape: Shape) -> Result<Self, String> {
        let header = shape.header_bytes;
        let longest = rows.iter().max_by_key(|row| row.frame.len()).ok_or("there is no row")?;
        if rows.len() > MOST_ROWS {
            return Err(format!("{} rows, at most {MOST_ROWS}", rows.len()));
        }
        if header > MOST_HEADER_BYTES || !header.is_multiple_of(2) {
            return Err(format!(
                "a header of {header} B: an even number up to {MOST_HEADER_BYTES} is meant"
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
                    "a frame of {bytes} B: live frames have {least} to {} B",
                    super::MOST_BYTES
                ));
            }
            if row.frame[header..] != longest.frame[header..bytes] {
                return Err("rows differ behind their header".into());
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

    /// The word of the next number of `flow`.
    pub(super) fn flow_word(&self, flow: usize) -> usize {
        assert!(flow < self.n_flows, "flow {flow} of {}", self.n_flows);
        FIRST_FLOW_WORD + flow
    }

    /// Writes every row by `set(word, value)`.
    pub(super) fn write(&self, rows: &[Row], set: impl Fn(usize, u64)) {
        for (row_idx, row) in rows.iter().enumerate() {
            let at = self.first_row_word() + row_idx * self.row_words();
            set(at + ROW_FLOW, row.flow.into());
            // Sums are added in the machine's byte order, which turns every 16-bit word round alike
            // (RFC 1071 section 2B).
            set(at + ROW_SUM, u16::from_ne_bytes(folded(row.sum).to_be_bytes()).into());
            set(at + ROW_BYTES, row.frame.len() as u64);
            for (word_idx, bytes) in row.frame[..self.shape.header_bytes].chunks(WORD).enumerate() {
                let mut word = [0; WORD];
                word[..bytes.len()].copy_from_slice(bytes);
                set(at + ROW_HEADER + word_idx, u64::from_ne_bytes(word));
            }
        }
    }

    /// What pages are filled with: the longest row.
    pub(super) fn pattern(&self, rows: &[Row]) -> Vec<u8> {
        let longest = rows.iter().find(|row| row.frame.len() == self.longest);
        longest.map(|row| row.frame.clone()).unwrap_or_default()
    }
}

/// A sum of 16-bit words with its carries added in.
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
    fn what_makes_no_sense_is_said() {
        let wrong =
            |rows: &[Row], shape: Shape| Layout::new(rows, shape).expect_err("makes no sense");
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
