//! The rule of many operators: what is below a share of the median is bad. It stands beside the
//! search, which it is compared with.

use super::cells::Cells;
use crate::statistics::median;

/// The usual share.
pub const USUAL_SHARE: f64 = 0.9;

/// Parts of a mesh below a share of the median.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Below {
    /// Hosts, of which the median of what they sent or of what they received is below it.
    pub hosts: Vec<usize>,
    /// Number of such directed pairs.
    pub n_pairs: usize,
}

/// Returns what is below `share` of the median of `cells`.
#[must_use]
pub fn below(cells: &Cells, share: f64) -> Below {
    let Some(usual) = cells.usual() else { return Below::default() };
    let is_below = |value: f64| value < share * usual;
    let mut sides = vec![[Vec::new(), Vec::new()]; cells.n()];
    for (from, to, value) in cells.known() {
        sides[from][0].push(value);
        sides[to][1].push(value);
    }
    let is_bad =
        |host: &usize| sides[*host].iter().filter_map(|values| median(values)).any(is_below);
    Below {
        hosts: (0..cells.n()).filter(is_bad).collect(),
        n_pairs: cells.known().filter(|(.., value)| is_below(*value)).count(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_below_by_the_median_of_either_side_and_a_pair_alone_makes_no_host() {
        let mut cells = Cells::new(5);
        assert_eq!(below(&cells, USUAL_SHARE), Below::default());
        for (from, to) in (0..5).flat_map(|from| (0..5).map(move |to| (from, to))) {
            if from != to {
                cells.set(from, to, if from == 2 { 89.0 } else { 100.0 });
            }
        }
        cells.set(0, 1, 50.0);
        assert_eq!(below(&cells, USUAL_SHARE), Below { hosts: vec![2], n_pairs: 5 });
        assert_eq!(below(&cells, 0.85), Below { hosts: vec![], n_pairs: 1 });
    }
}
