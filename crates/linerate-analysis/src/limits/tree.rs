//! Bounds of a tree: the joint rate of several flows where some of them share a bus, a slot or a
//! link.
//!
//! Units: bit/s, all at the same layer. Source: the maximum flow of a tree
//! (docs/methodology/ceilings.md#capacity-of-a-tree): every node passes the smaller of its own
//! capacity and the sum of its children. The binding node is named, so that a report can show
//! *which* bus is full.
//!
//! A flow is a directed pair of endpoints. Conventional PCI is half duplex: put both directions of
//! a device into the bus's set, and its capacity bounds their sum. PCI Express and Ethernet are
//! full duplex: one set for each direction.
//!
//! Not covered: fairness (the bound is for the sum, not the share), and graphs that are no tree. Of
//! two sets that cross, only the tighter is used, which keeps the result an upper bound, and the
//! other is named in `ignored`.

use core::ops::Add;
use std::collections::BTreeSet;

use linerate_model::BitRate;
use linerate_model::derivation::{Expression, Line, Measure, Statement};

/// A shared element: what crosses it, and how much of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Shared<F: Ord> {
    /// Its name, e.g. `pci bus 0000:02`.
    pub name: String,
    /// Its capacity for the sum of `flows`.
    pub capacity: BitRate,
    /// The flows that cross it.
    pub flows: BTreeSet<F>,
}

/// Joint bound of a set of flows.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// The most they reach; infinite if `unbound` is not empty.
    pub value: BitRate,
    /// The elements that are full at that point, with the capacity each: their sum is `value`.
    pub binding: Vec<(String, BitRate)>,
    /// Indices of those shared elements, in the same order, because names may be equal.
    pub places: Vec<usize>,
    /// Elements left out because they cross a tighter one.
    pub ignored: Vec<String>,
    /// Number of flows that no element bounds.
    pub unbound: usize,
}

impl Bound {
    /// Returns the derivation, line by line.
    #[must_use]
    pub fn derivation(&self) -> Vec<Line> {
        let full = |(element, capacity): &(String, BitRate)| {
            Statement::Full { element: element.clone(), capacity: *capacity }.into()
        };
        let mut lines: Vec<Line> = self.binding.iter().map(full).collect();
        let scaled = |rate: BitRate| Measure::ScaledBitsPerSecond.figure(rate.0);
        let terms = self.binding.iter().map(|(_, capacity)| Expression::from(scaled(*capacity)));
        if self.unbound > 0 {
            lines.push(Statement::Unbounded { flows: self.unbound }.into());
        } else if let Some(sum) = terms.reduce(Add::add).filter(|_| self.binding.len() > 1) {
            lines.push(Line::equation(sum, scaled(self.value)));
        }
        let crosses = |element: &String| Statement::Crosses { element: element.clone() }.into();
        lines.extend(self.ignored.iter().map(crosses));
        lines
    }
}

/// Returns the bound of `flows` together over the elements they share. O(n^2) in the number of
/// shared elements.
///
/// # Examples
/// ```
/// use std::collections::BTreeSet;
///
/// use linerate_analysis::limits::tree::{Shared, bound};
/// use linerate_model::BitRate;
///
/// let shared = |name: &str, gbit: f64, flows: &[u8]| Shared {
///     name: name.to_owned(),
///     capacity: BitRate(gbit * 1e9),
///     flows: flows.iter().copied().collect(),
/// };
/// // Two ports of 10 Gbit/s each sit in a slot of 16 Gbit/s.
/// let ports = [shared("port 1", 10.0, &[1]), shared("port 2", 10.0, &[2])];
/// let path = [&ports[..], &[shared("slot", 16.0, &[1, 2])]].concat();
/// let both = bound(&path, &BTreeSet::from([1, 2]));
/// assert_eq!((both.value, both.binding[0].0.as_str()), (BitRate(16e9), "slot"));
/// let one = bound(&path, &BTreeSet::from([1]));
/// assert_eq!(one.value, BitRate(10e9));
/// ```
#[must_use]
pub fn bound<F: Ord + Clone>(shared: &[Shared<F>], flows: &BTreeSet<F>) -> Bound {
    let (mut tree, ignored) = tree(shared, flows);
    // Children before parents: a subset is smaller, and of equal sets the tighter one came first
    // and stays first.
    tree.sort_by_key(|element| element.shared.flows.len());
    let mut roots: Vec<Root<F>> = Vec::new();
    for element in tree {
        let (inside, outside): (Vec<_>, Vec<_>) =
            roots.into_iter().partition(|root| root.flows.is_subset(&element.shared.flows));
        let covered: usize = inside.iter().map(|root| root.flows.len()).sum();
        let brought: f64 = inside.iter().map(|root| root.value).sum();
        let Node { place, shared: Shared { name, capacity, flows } } = element;
        // The parent binds only if its children together bring more than it can pass. Children that
        // do not cover all its flows leave some unbounded below it.
        let children_bind = covered == flows.len() && brought <= capacity.0;
        roots = outside;
        roots.push(if children_bind {
            let binding = inside.into_iter().flat_map(|root| root.binding).collect();
            Root { flows, value: brought, binding }
        } else {
            Root { flows, value: capacity.0, binding: vec![(place, (name, capacity))] }
        });
    }
    let unbound = flows.len() - roots.iter().map(|root| root.flows.len()).sum::<usize>();
    let total: f64 = roots.iter().map(|root| root.value).sum();
    let (places, binding) = roots.into_iter().flat_map(|root| root.binding).unzip();
    Bound {
        // One flow without a bound makes the sum unbounded, however tight the others are.
        value: BitRate(if unbound > 0 { f64::INFINITY } else { total }),
        binding,
        places,
        ignored,
        unbound,
    }
}

/// Returns the bound of each whole tier of the tree by itself: the innermost elements (such as
/// ports), then the outermost (such as the bus they share), both where they differ. A tier that not
/// all `flows` cross bounds nothing and is left out.
#[must_use]
pub(crate) fn tiers<F: Ord + Clone>(shared: &[Shared<F>], flows: &BTreeSet<F>) -> Vec<Bound> {
    let (mut tree, ignored) = tree(shared, flows);
    // Of elements that the same flows cross, the tightest came first.
    let mut known: Vec<BTreeSet<F>> = Vec::new();
    tree.retain(|element| {
        // Two elements that the same flows cross are one tier, and the tighter one decides.
        let new = !known.contains(&element.shared.flows);
        known.push(element.shared.flows.clone());
        new
    });
    let has_inner = |a: &Node<F>| tree.iter().any(|b| is_inside(b, a));
    let has_outer = |a: &Node<F>| tree.iter().any(|b| is_inside(a, b));
    let innermost = tree.iter().filter(|element| !has_inner(element));
    let outermost = tree.iter().filter(|element| !has_outer(element));
    let mut tiers: Vec<Vec<&Node<F>>> = vec![innermost.collect(), outermost.collect()];
    // With a single tier, innermost and outermost elements are the same.
    tiers.dedup();
    let whole = |tier: &Vec<&Node<F>>| {
        tier.iter().map(|element| element.shared.flows.len()).sum::<usize>() == flows.len()
    };
    tiers.into_iter().filter(whole).map(|tier| bound_of_tier(tier, &ignored)).collect()
}

/// Returns whether `a` carries some of the flows of `b` and no others.
fn is_inside<F: Ord>(a: &Node<F>, b: &Node<F>) -> bool {
    let (a, b) = (&a.shared.flows, &b.shared.flows);
    a != b && a.is_subset(b)
}

/// Returns the joint bound of the elements of one tier, which all flows cross.
fn bound_of_tier<F: Ord>(mut tier: Vec<&Node<F>>, ignored: &[String]) -> Bound {
    tier.sort_by(|a, b| a.shared.name.cmp(&b.shared.name));
    let value = BitRate(tier.iter().map(|element| element.shared.capacity.0).sum());
    let (places, binding) = tier
        .iter()
        .map(|node| (node.place, (node.shared.name.clone(), node.shared.capacity)))
        .unzip();
    Bound { value, binding, places, ignored: ignored.to_vec(), unbound: 0 }
}

/// A shared element and its place among all of them.
#[derive(PartialEq)]
struct Node<F: Ord> {
    place: usize,
    shared: Shared<F>,
}

/// Returns the elements that some of `flows` cross, with those flows alone, tightest first; and the
/// names of those that cross a tighter one.
fn tree<F: Ord + Clone>(shared: &[Shared<F>], flows: &BTreeSet<F>) -> (Vec<Node<F>>, Vec<String>) {
    let mut elements: Vec<Node<F>> = shared
        .iter()
        .map(|element| Shared {
            flows: element.flows.intersection(flows).cloned().collect(),
            ..element.clone()
        })
        .enumerate()
        .map(|(place, shared)| Node { place, shared })
        .filter(|element| !element.shared.flows.is_empty())
        .collect();
    // The tightest element comes first, so that of two elements that cross, the tighter one is
    // kept.
    elements.sort_by(|a, b| a.shared.capacity.0.total_cmp(&b.shared.capacity.0));
    let mut ignored = Vec::new();
    let mut tree: Vec<Node<F>> = Vec::new();
    for element in elements {
        // Crossing sets have no common tree. Leaving out the looser one keeps the result an upper
        // bound.
        if tree.iter().any(|kept| crosses(&kept.shared.flows, &element.shared.flows)) {
            ignored.push(element.shared.name);
        } else {
            tree.push(element);
        }
    }
    (tree, ignored)
}

/// The top of a subtree that is already solved.
struct Root<F> {
    flows: BTreeSet<F>,
    value: f64,
    binding: Vec<(usize, (String, BitRate))>,
}

/// Returns whether two sets overlap without one containing the other; such sets belong to no common
/// tree.
fn crosses<F: Ord>(a: &BTreeSet<F>, b: &BTreeSet<F>) -> bool {
    !a.is_disjoint(b) && !a.is_subset(b) && !b.is_subset(a)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set<const N: usize>(flows: [&'static str; N]) -> BTreeSet<&'static str> {
        BTreeSet::from(flows)
    }

    fn element<const N: usize>(
        name: &str,
        megabits: f64,
        flows: [&'static str; N],
    ) -> Shared<&'static str> {
        Shared { name: name.into(), capacity: BitRate(megabits * 1e6), flows: set(flows) }
    }

    /// Sun's I/O assembly with its measured capacities (paper S2, figure 4 and table 2): NICs in 33
    /// MHz slots reach 544 Mbit/s, one in a 66 MHz slot 936; a 33 MHz bus 884; one Schizo 1687; the
    /// assembly 2733.
    fn sun() -> Vec<Shared<&'static str>> {
        let leaves = [("n1", 544.0), ("n2", 544.0), ("n3", 544.0), ("n4", 936.0)]
            .into_iter()
            .chain([("m1", 544.0), ("m2", 544.0), ("m3", 544.0), ("m4", 936.0)]);
        let mut elements: Vec<_> =
            leaves.map(|(nic, capacity)| element(nic, capacity, [nic])).collect();
        elements.push(element(
            "assembly",
            2733.0,
            ["n1", "n2", "n3", "n4", "m1", "m2", "m3", "m4"],
        ));
        elements.push(element("schizo 0", 1687.0, ["n1", "n2", "n3", "n4"]));
        elements.push(element("schizo 1", 1687.0, ["m1", "m2", "m3", "m4"]));
        elements.push(element("bus 33 MHz of schizo 0", 884.0, ["n1", "n2", "n3"]));
        elements.push(element("bus 33 MHz of schizo 1", 884.0, ["m1", "m2", "m3"]));
        elements
    }

    #[test]
    fn suns_slots_buses_and_assembly_bind_one_after_the_other() {
        let cases: [(BTreeSet<&str>, f64, &[&str]); 6] = [
            (set(["n1"]), 544.0, &["n1"]),
            (set(["n4"]), 936.0, &["n4"]),
            (set(["n1", "n2"]), 884.0, &["bus 33 MHz of schizo 0"]),
            (set(["n1", "n2", "n3", "n4"]), 1687.0, &["schizo 0"]),
            (set(["n1", "n4"]), 1480.0, &["n1", "n4"]),
            (set(["n1", "n2", "n3", "n4", "m1", "m2", "m3", "m4"]), 2733.0, &["assembly"]),
        ];
        for (flows, megabits, binding) in cases {
            let all = sun();
            let bound = bound(&all, &flows);
            let at_places = bound.places.iter().map(|place| &all[*place].name);
            assert!(at_places.eq(bound.binding.iter().map(|(name, _)| name)), "{bound:?}");
            assert!((bound.value.0 / 1e6 - megabits).abs() < 1e-6, "{flows:?}: {bound:?}");
            let mut names: Vec<&str> =
                bound.binding.iter().map(|(name, _)| name.as_str()).collect();
            names.sort_unstable();
            assert_eq!(names, binding, "{flows:?}");
        }
    }

    #[test]
    fn conventional_pci_bounds_the_sum_of_both_directions() {
        let half_duplex = [element("pci", 1000.0, ["a>b", "b>a"])];
        let full_duplex =
            [element("pcie down", 1000.0, ["a>b"]), element("pcie up", 1000.0, ["b>a"])];
        let flows = set(["a>b", "b>a"]);
        assert_eq!(bound(&half_duplex, &flows).value, BitRate(1e9));
        assert_eq!(bound(&full_duplex, &flows).value, BitRate(2e9));
        let scaled = |gbit: f64| Measure::ScaledBitsPerSecond.figure(gbit * 1e9);
        let sum = Line::equation(Expression::from(scaled(1.0)) + scaled(1.0), scaled(2.0));
        assert_eq!(bound(&full_duplex, &flows).derivation().last(), Some(&sum));
    }

    #[test]
    fn a_flow_without_known_capacity_leaves_the_sum_unbound_unless_a_parent_holds_it() {
        let one = [element("a", 10.0, ["a"])];
        let open = bound(&one, &set(["a", "b"]));
        assert_eq!((open.value.0, open.unbound), (f64::INFINITY, 1));
        let held = [element("a", 10.0, ["a"]), element("all", 100.0, ["a", "b"])];
        assert_eq!(bound(&held, &set(["a", "b"])).value, BitRate(100e6));
    }

    #[test]
    fn of_two_crossing_sets_the_tighter_is_used_and_the_other_named() {
        let crossing = [
            element("wide", 100.0, ["a", "b"]),
            element("tight", 10.0, ["b", "c"]),
            element("a", 50.0, ["a"]),
        ];
        let bound = bound(&crossing, &set(["a", "b", "c"]));
        assert_eq!(bound.value, BitRate(60e6));
        assert_eq!(bound.ignored, ["wide"]);
    }
    #[test]
    fn ports_and_the_bus_behind_them_each_bound_by_themselves() {
        let ports = [element("port 1", 10.0, ["a"]), element("port 2", 10.0, ["b"])];
        let with_bus = |megabits: f64| {
            let mut all = ports.to_vec();
            all.push(element("bus", megabits, ["a", "b"]));
            // Twice the bus: the wider one adds no bound.
            all.push(element("wider bus", 99.0, ["a", "b"]));
            all
        };
        let told = |shared: &[Shared<&'static str>]| -> Vec<(String, f64)> {
            let tiers = tiers(shared, &set(["a", "b"])).into_iter();
            let names = |tier: &Bound| {
                tier.binding.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(" + ")
            };
            tiers.map(|tier| (names(&tier), tier.value.0 / 1e6)).collect()
        };
        for megabits in [15.0, 50.0] {
            let expected = [("port 1 + port 2".to_owned(), 20.0), ("bus".to_owned(), megabits)];
            assert_eq!(told(&with_bus(megabits)), expected);
        }
        assert_eq!(told(&ports), [("port 1 + port 2".to_owned(), 20.0)], "one tier is named once");
        // The elements that flow b crosses before the bus are not known.
        let half = [element("port 1", 10.0, ["a"]), element("bus", 15.0, ["a", "b"])];
        assert_eq!(told(&half), [("bus".to_owned(), 15.0)]);
    }
}
