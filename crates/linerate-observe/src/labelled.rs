//! A file of labelled lines, each a label and a number, such as `/proc/meminfo`: what samplers of
//! such files have in common.

use linerate_model::{Series, SeriesSpec};

use crate::kernel_text::{KernelText, decimal, lines, words};
use crate::{Probe, Unavailable};

/// Description of such a file: its labels and the columns that they fill.
#[derive(Debug)]
pub(crate) struct Labelled {
    /// Prefix of a line, and the column that it fills.
    pub lines: &'static [(&'static str, Series)],
    /// The kernel's numbers times this are in that unit.
    pub factor: f64,
}

impl Labelled {
    /// Opens `path`, whatever stands in it.
    pub(crate) fn open(&'static self, path: &str) -> Result<Box<dyn Probe>, Unavailable> {
        Ok(Box::new(Reader { of: self, text: KernelText::open(path)? }))
    }

    /// Returns true if every label occurs in `text`.
    pub(crate) fn all_in(&self, text: &[u8]) -> bool {
        self.read_any(text).iter().all(Option::is_some)
    }

    /// Reads `text`, which may be anything.
    pub(crate) fn read_any(&self, text: &[u8]) -> Vec<Option<f64>> {
        let mut row = vec![None; self.lines.len()];
        self.parse(text, &mut row);
        row
    }

    fn parse(&self, text: &[u8], row: &mut [Option<f64>]) {
        for line in lines(text) {
            let mut words = words(line);
            let label = words.next().unwrap_or_default();
            if let Some(at) = self.lines.iter().position(|(wanted, _)| wanted.as_bytes() == label) {
                row[at] = words.next().and_then(decimal).map(|number| number as f64 * self.factor);
            }
        }
    }
}

struct Reader {
    of: &'static Labelled,
    text: KernelText,
}

impl Probe for Reader {
    fn series(&self) -> Vec<SeriesSpec> {
        self.of.lines.iter().map(|(_, column)| column.of("")).collect()
    }

    fn read(&mut self, row: &mut [Option<f64>]) {
        if let Some(text) = self.text.read() {
            self.of.parse(text, row);
        }
    }
}
