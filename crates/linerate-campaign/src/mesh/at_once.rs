//! Figures of loads of many pairs at the same time: what the fleet carries together.

use std::collections::BTreeMap;

use linerate_analysis::Study;
use linerate_analysis::mesh::{Cells, Measure, Mesh, Pairing};
use linerate_analysis::statistics::median;

use super::patterns::Load;
use super::{Fleet, figures};

/// Figures of a load, and of its pairs alone.
#[derive(Clone, Debug, PartialEq)]
pub struct Together {
    /// The load.
    pub load: Load,
    /// Goodput of each pair that has a figure, bit/s, layer 4.
    pub goodput: BTreeMap<Pairing, f64>,
    /// Largest share of a pair's payload that was sent again.
    pub retransmitted: Option<f64>,
    /// Sum over the receivers of their median goodput from one of these senders at a time, bit/s.
    /// `None` if one has no figure, or nothing arrived.
    pub alone: Option<f64>,
}

impl Together {
    /// Returns the figures of `load` from the sweep `sweep` of its stage; `mesh` has those of its
    /// pairs alone.
    pub(super) fn of(
        load: Load,
        (study, sweep): (&Study, &str),
        fleet: &Fleet,
        mesh: &Mesh,
    ) -> Self {
        let each = |measure: Measure| figures::of_sweep(study, sweep, fleet, measure);
        let goodput = each(Measure::Goodput);
        let retransmitted = each(Measure::Retransmitted).into_values().reduce(f64::max);
        let mut receivers: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (from, to) in &load.pairs {
            receivers.entry(*to).or_default().push(*from);
        }
        let cells = mesh.cells(Measure::Goodput);
        let each = receivers.iter().map(|(to, senders)| received(cells?, senders, *to));
        let alone = each.sum::<Option<f64>>().filter(|alone| *alone > 0.0);
        Self { load, goodput, retransmitted, alone }
    }

    /// Returns the goodput of all pairs together; `None` if one has no figure.
    #[must_use]
    pub fn total(&self) -> Option<f64> {
        let is_whole = self.goodput.len() == self.load.pairs.len();
        is_whole.then(|| self.goodput.values().sum())
    }

    /// Returns the goodput of the slowest and of the fastest pair.
    #[must_use]
    pub fn range(&self) -> Option<(f64, f64)> {
        let values = || self.goodput.values().copied();
        values().reduce(f64::min).zip(values().reduce(f64::max))
    }
}

/// Returns the median goodput that `receiver` gets from one of `senders` at a time.
fn received(goodput: &Cells, senders: &[usize], receiver: usize) -> Option<f64> {
    median(&senders.iter().filter_map(|from| goodput.get(*from, receiver)).collect::<Vec<_>>())
}
