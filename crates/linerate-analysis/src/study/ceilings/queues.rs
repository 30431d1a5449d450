//! Queueing disciplines of sending devices that shape what the device sends, from the fact
//! `interfaces.<device>.qdiscs`.
//!
//! All packets cross a chain of classless disciplines from the root. In a hierarchical token bucket
//! without filters, all packets use the default class, which bounds them. With filters each flow
//! may be in any class: flows are bounded by the fastest classes, and all of them by the whole
//! tree. Disciplines count Ethernet frames without preamble, check sequence and gap; a GSO packet
//! counts as the frames it is divided into. Not covered: the class a filter picks, CAKE's tins,
//! policers, and a discipline that was changed after the facts were read.

use serde_json::Value;

/// Disciplines that all packets pass, one behind the other.
const CLASSLESS: [&str; 2] = ["netem", "tbf"];
/// The parent of the outermost discipline, and of the outermost classes.
const ROOT: &str = "root";
/// Classes below a class below a class; the kernel has no more levels.
const DEEPEST: usize = 8;

/// A discipline that limits a rate.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Shaper<'a> {
    pub(crate) kind: &'a str,
    /// bit/s that all flows reach together.
    all: f64,
    /// bit/s that a flow reaches in a class, fastest first.
    classes: Vec<f64>,
    /// Bytes that pass in addition to the rate.
    pub(super) burst: f64,
}

impl Shaper<'_> {
    /// bit/s that `n_flows` flows reach together: each is in one class.
    pub(crate) fn room(&self, n_flows: usize) -> f64 {
        self.all.min(self.classes.iter().take(n_flows.max(1)).sum())
    }
}

/// Returns the shapers that every packet of a device with these disciplines passes.
pub(crate) fn chain(qdiscs: &[Value]) -> Vec<Shaper<'_>> {
    let mut found = Vec::new();
    let mut parent = ROOT.to_owned();
    // Each step goes one deeper, and no discipline is its own child.
    for _ in 0..qdiscs.len() {
        let below = qdiscs.iter().find(|qdisc| {
            let of = text(qdisc, "parent");
            // A child names the class it hangs on: `1:1` below `1:`.
            of == parent
                || parent != ROOT
                    && of.split_once(':').is_some_and(|(major, _)| parent == format!("{major}:"))
        });
        let Some(qdisc) = below else { break };
        let kind = text(qdisc, "kind");
        // Packets continue to a class of the hierarchy, so a chain of classless disciplines ends
        // here.
        if kind == "htb" {
            found.extend(hierarchy(qdisc));
        }
        if !CLASSLESS.contains(&kind) {
            // Behind a discipline with several children, it is unknown which one a packet passes.
            break;
        }
        if let Some(rate) = number(qdisc, "rate_bps").filter(|rate| *rate > 0.0) {
            let burst = number(qdisc, "burst_bytes").unwrap_or(0.0);
            found.push(Shaper { kind, all: rate, classes: vec![rate], burst });
        }
        parent = text(qdisc, "handle").to_owned();
    }
    found
}

/// Returns the shaper of a hierarchical token bucket; `None` if packets may pass beside its
/// classes.
fn hierarchy(qdisc: &Value) -> Option<Shaper<'_>> {
    let classes: Vec<Class<'_>> =
        qdisc.get("classes")?.as_array()?.iter().filter_map(Class::read).collect();
    let tree = Tree(&classes);
    // Unclassified packets are not shaped unless the default class is a leaf.
    let default = tree
        .0
        .iter()
        .find(|class| Some(class.handle) == qdisc.get("default").and_then(Value::as_str))?;
    if !tree.is_leaf(default) {
        return None;
    }
    // Every class may have saved its burst, so all of them can pass together.
    let burst: f64 = tree.0.iter().map(|class| class.burst).sum();
    if qdisc.get("filtered")?.as_bool()? {
        let mut leaves: Vec<f64> = tree
            .0
            .iter()
            .filter(|class| tree.is_leaf(class))
            // With filters a flow may be in any leaf, so each leaf can take its maximum.
            .map(|class| tree.most(class, 0))
            .collect();
        leaves.sort_by(|a, b| b.total_cmp(a));
        let all = tree
            .0
            .iter()
            .filter(|class| class.parent == ROOT)
            .map(|class| tree.together(class, 0))
            .sum();
        return Some(Shaper { kind: "htb", all, classes: leaves, burst });
    }
    let most = tree.most(default, 0);
    Some(Shaper { kind: "htb", all: most, classes: vec![most], burst })
}

/// A class of a hierarchical token bucket, rates in bit/s.
struct Class<'a> {
    handle: &'a str,
    parent: &'a str,
    rate: f64,
    ceil: f64,
    /// Bytes.
    burst: f64,
}

impl<'a> Class<'a> {
    fn read(class: &'a Value) -> Option<Self> {
        let burst = |key| number(class, key).unwrap_or(0.0);
        Some(Self {
            handle: text(class, "handle"),
            parent: text(class, "parent"),
            rate: number(class, "rate_bps")?,
            ceil: number(class, "ceil_bps")?,
            // A class that borrows uses the burst of its ceil.
            burst: burst("burst_bytes").max(burst("ceil_burst_bytes")),
        })
    }
}

struct Tree<'a>(&'a [Class<'a>]);

impl<'a> Tree<'a> {
    fn children(&self, of: &Class<'a>) -> impl Iterator<Item = &'a Class<'a>> {
        let handle = of.handle;
        self.0.iter().filter(move |class| class.parent == handle)
    }

    fn is_leaf(&self, class: &Class<'a>) -> bool {
        self.children(class).next().is_none()
    }

    /// Returns the highest rate of `class`: its own rate, plus what it borrows from a parent up to
    /// its ceil. The outermost class has no parent to borrow from, so its ceil has no effect
    /// (tc-htb(8)).
    fn most(&self, class: &Class<'a>, depth: usize) -> f64 {
        // The limit also ends a damaged ledger in which a class is its own parent.
        let parent = self.0.iter().find(|other| other.handle == class.parent && depth < DEEPEST);
        parent.map_or(class.rate, |parent| {
            class.ceil.min(class.rate.max(self.most(parent, depth + 1)))
        })
    }

    /// Returns the joint rate of the classes below `class`: the larger of what they may borrow and
    /// what they are assigned.
    fn together(&self, class: &Class<'a>, depth: usize) -> f64 {
        if self.is_leaf(class) || depth == DEEPEST {
            return self.most(class, 0);
        }
        let below: f64 = self.children(class).map(|child| self.together(child, depth + 1)).sum();
        // The kernel grants assigned rates even if they exceed the parent's rate.
        below.min(self.most(class, 0).max(self.given(class, depth)))
    }

    /// Returns the assigned rates of the leaf classes below `class`.
    fn given(&self, class: &Class<'a>, depth: usize) -> f64 {
        if self.is_leaf(class) || depth == DEEPEST {
            return class.rate;
        }
        self.children(class).map(|child| self.given(child, depth + 1)).sum()
    }
}

fn text<'a>(of: &'a Value, key: &str) -> &'a str {
    of.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn number(of: &Value, key: &str) -> Option<f64> {
    of.get(key).and_then(Value::as_f64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_every_packet_passes_bounds_a_device() {
        let tbf = json!({ "kind": "tbf", "handle": "1:", "parent": "root", "rate_bps": 1e9,
            "burst_bytes": 131_072 });
        let of = |qdiscs: &[Value]| {
            chain(qdiscs)
                .iter()
                .map(|shaper| format!("{} {}", shaper.kind, shaper.room(9)))
                .collect::<Vec<_>>()
        };
        assert_eq!(of(std::slice::from_ref(&tbf)), ["tbf 1000000000"]);
        // A delay outside, the shaper inside, and the other way round.
        let netem = json!({ "kind": "netem", "handle": "8001:", "parent": "root" });
        let inner = json!({ "kind": "tbf", "handle": "2:", "parent": "8001:1", "rate_bps": 2e8 });
        assert_eq!(of(&[inner, netem]), ["tbf 200000000"]);
        let fair = json!({ "kind": "fq_codel", "handle": "3:", "parent": "1:1" });
        assert_eq!(of(&[fair, tbf.clone()]), ["tbf 1000000000"]);
        // One shaper in one class of several does not bound the others.
        let htb = json!({ "kind": "htb", "handle": "9:", "parent": "root" });
        let in_class = json!({ "kind": "tbf", "handle": "2:", "parent": "9:1", "rate_bps": 2e8 });
        assert_eq!(of(&[htb, in_class]), [""; 0]);
        assert_eq!(of(&[]), [""; 0]);
    }

    /// 1:1 of 100 Mbit/s; below it 1:10 (20, ceil 80), 1:20 (30, ceil 30), 1:30 (10, ceil 500).
    fn htb(default: Option<&str>, filtered: bool) -> Value {
        let class = |handle: &str, parent: &str, rate: f64, ceil: f64| {
            json!({ "handle": handle, "parent": parent,
            "rate_bps": rate * 1e6, "ceil_bps": ceil * 1e6, "burst_bytes": 1600,
            "ceil_burst_bytes": 1600 })
        };
        let mut htb = json!({ "kind": "htb", "handle": "1:", "parent": "root",
            "filtered": filtered, "classes": [
            class("1:1", "root", 100.0, 900.0), class("1:10", "1:1", 20.0, 80.0),
            class("1:20", "1:1", 30.0, 30.0),
            class("1:30", "1:1", 10.0, 500.0),
        ] });
        if let Some(default) = default {
            htb["default"] = json!(default);
        }
        htb
    }

    #[test]
    fn a_class_bounds_all_flows_only_without_filters() {
        let room = |default, filtered, n_flows| {
            let htb = [htb(default, filtered)];
            chain(&htb).first().map(|shaper| shaper.room(n_flows) / 1e6)
        };
        assert_eq!(
            [room(Some("1:10"), false, 1), room(Some("1:10"), false, 9)],
            [Some(80.0), Some(80.0)]
        );
        // Its ceil is more than its parent has to lend.
        assert_eq!(room(Some("1:30"), false, 1), Some(100.0));
        // With filters: the fastest class for one flow, the tree for several.
        assert_eq!(
            [room(Some("1:20"), true, 1), room(Some("1:20"), true, 2)],
            [Some(100.0), Some(100.0)]
        );
        assert_eq!(
            [room(None, false, 1), room(None, true, 1)],
            [None, None],
            "the rest is not shaped"
        );
        assert_eq!(
            room(Some("1:1"), false, 1),
            None,
            "packets pass beside a class that has classes"
        );
    }

    #[test]
    fn classes_that_are_given_more_than_their_parent_has_keep_it() {
        let class = |handle: &str, parent: &str, rate: f64| {
            json!({ "handle": handle,
            "parent": parent, "rate_bps": rate, "ceil_bps": rate })
        };
        let htb = [json!({ "kind": "htb", "handle": "1:", "parent": "root", "filtered": true,
                "default": "1:10", "classes":
            [class("1:1", "root", 10e6), class("1:10", "1:1", 8e6), class("1:20", "1:1", 6e6),
                class("1:30", "1:1", 1e6)] })];
        let shapers = chain(&htb);
        let room = |n_flows| shapers[0].room(n_flows) / 1e6;
        assert_eq!([room(1), room(2), room(3), room(9)], [8.0, 14.0, 15.0, 15.0]);
    }
}
