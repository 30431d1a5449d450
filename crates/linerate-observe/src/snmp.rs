//! The counter tables of `/proc/net/snmp` and `/proc/net/netstat`: pairs of lines, names and
//! values, each starting with the table's name and a colon (RFC 4022 and RFC 4113 name the standard
//! ones).

use linerate_model::Series;

use crate::kernel_text::{decimal, lines, words};

/// A counter wanted: table, the kernel's name, our column.
pub(crate) type Wanted = (&'static str, &'static str, Series);

/// Where the wanted counters stand in the text of this kernel.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    /// Per table: its name with the colon, and the column of our row for each position.
    tables: Vec<(Vec<u8>, Vec<Option<usize>>)>,
    /// The wanted counters this kernel has, in the order of our row.
    pub(crate) found: Vec<Wanted>,
}

impl Layout {
    /// Finds `wanted` in `text`; counters this kernel lacks are left out.
    pub(crate) fn new(text: &[u8], wanted: &[Wanted]) -> Self {
        let mut layout = Self::default();
        // Each table is a line of names and a line of values.
        for names in lines(text).step_by(2) {
            let mut names = words(names);
            let Some(table) = names.next() else { continue };
            let positions: Vec<_> = names.map(|name| layout.find(table, name, wanted)).collect();
            if positions.iter().any(Option::is_some) {
                layout.tables.push((table.to_owned(), positions));
            }
        }
        layout
    }

    fn find(&mut self, table: &[u8], name: &[u8], wanted: &[Wanted]) -> Option<usize> {
        let table = table.strip_suffix(b":")?;
        let found = wanted.iter().find(|w| w.0.as_bytes() == table && w.1.as_bytes() == name)?;
        // A repeated counter is the same column.
        if has(&self.found, found) {
            return None;
        }
        self.found.push(*found);
        Some(self.found.len() - 1)
    }

    /// Reads the values of `text` into `row`.
    pub(crate) fn read(&self, text: &[u8], row: &mut [Option<f64>]) {
        for values in lines(text).skip(1).step_by(2) {
            let mut values = words(values);
            let Some(name) = values.next() else { continue };
            // Matched by name: tables may move from one kernel to the next.
            let Some((_, positions)) = self.tables.iter().find(|(table, _)| table == name) else {
                continue;
            };
            for (column, value) in positions.iter().zip(values) {
                if let Some(cell) = column.and_then(|column| row.get_mut(column)) {
                    *cell = decimal(value).map(|value| value as f64);
                }
            }
        }
    }
}

/// Returns whether `found` contains the counter `wanted`.
pub(crate) fn has(found: &[Wanted], wanted: &Wanted) -> bool {
    found.iter().any(|(table, name, _)| (table, name) == (&wanted.0, &wanted.1))
}

#[cfg(test)]
mod tests {
    use linerate_model::series::{tcp_extension, udp};

    use super::*;

    const WANTED: &[Wanted] =
        &[("Tcp", "RetransSegs", tcp_extension::RETRANS_SEGS), ("Udp", "InErrors", udp::IN_ERRORS)];

    #[test]
    fn counters_are_found_by_name_wherever_they_stand() {
        let text = b"Tcp: MaxConn RetransSegs\nTcp: -1 42\nUdp: InDatagrams InErrors\nUdp: 1 2\n";
        let layout = Layout::new(text, WANTED);
        let mut row = [None; 2];
        layout.read(text, &mut row);
        assert_eq!(row, [Some(42.0), Some(2.0)]);
        assert_eq!(layout.found, WANTED);
    }

    #[test]
    fn a_repeated_counter_is_one_column() {
        let layout = Layout::new(b"Udp: InErrors InErrors\nUdp: 1 2\n", WANTED);
        assert_eq!(layout.found.len(), 1);
    }

    #[test]
    fn a_counter_the_kernel_lacks_is_no_column() {
        let layout = Layout::new(b"Tcp: MaxConn\nTcp: -1\n", WANTED);
        assert!(layout.found.is_empty());
    }

    proptest::proptest! {
        #[test]
        fn hostile_text_never_panics(
            a in proptest::collection::vec(0_u8..128, 0..300),
            b in "(Tcp: [A-Za-z ]{0,40}\n){0,4}",
        ) {
            let layout = Layout::new(&a, WANTED);
            let mut row = vec![None; layout.found.len()];
            layout.read(b.as_bytes(), &mut row);
            let layout = Layout::new(b.as_bytes(), WANTED);
            let mut row = vec![None; layout.found.len()];
            layout.read(&a, &mut row);
        }
    }
}
