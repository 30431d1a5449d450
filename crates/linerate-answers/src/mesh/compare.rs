//! Answer of `linerate mesh compare`: which hosts changed from one mesh to another.

use linerate_analysis::mesh::{Changes, Culprit, FEWEST, Sign, Suspect, changes};
use linerate_model::TestbedKind;
use linerate_report::Document;
use linerate_report::document::{Block, Lead, Origin, Section, Table};
use serde_json::{Value, json};

use super::name_list;
use super::names::Names;
use super::record::{MeshRecord, SignLine};
use crate::figures::{percent, quantity};

/// Comparison of two meshes.
#[derive(Clone, Debug)]
pub struct Compared {
    /// Hosts of both, in the order of the later one.
    hosts: Vec<String>,
    groups: Vec<String>,
    /// Hosts of one of them alone: the earlier, the later.
    alone: [Vec<String>; 2],
    changes: Changes,
}

impl Compared {
    /// Compares the hosts that both meshes have.
    #[must_use]
    pub fn of(before: &MeshRecord, after: &MeshRecord) -> Self {
        let common = || after.hosts.iter().filter(|host| has(before, &host.name));
        let hosts: Vec<String> = common().map(|host| host.name.clone()).collect();
        let mut groups: Vec<String> = Vec::new();
        let numbers: Vec<Option<usize>> = common()
            .map(|host| {
                let group = host.group.as_ref()?;
                let known = groups.iter().position(|known| known == group);
                Some(known.unwrap_or_else(|| {
                    groups.push(group.clone());
                    groups.len() - 1
                }))
            })
            .collect();
        let changes = changes(&before.mesh(&hosts, numbers.clone()), &after.mesh(&hosts, numbers));
        Self { hosts, groups, alone: [without(before, after), without(after, before)], changes }
    }

    /// Returns whether the whole fleet, a host, a side of it or an uplink became worse. A single
    /// pair has one run in each mesh, and one in a hundred of these is far out by chance.
    #[must_use]
    pub fn is_worse(&self) -> bool {
        let is_worse = |sign: &Sign| sign.measure.is_worse(sign.seen, sign.usual);
        self.changes.worse.iter().any(is_wide) || self.changes.of_all.iter().any(is_worse)
    }

    /// Returns the answer on the meshes with these names.
    pub fn document(&self, [before, after]: [&str; 2]) -> Document {
        let blocks = [Block::Lead(self.lead(before, after))];
        let blocks = blocks.into_iter().chain(self.missing(before, after)).collect();
        let sections = [
            Section { id: "answer", title: "Result", blocks },
            Section { id: "changes", title: "Changes", blocks: self.table() },
        ];
        Document::answer(
            "Two meshes compared".to_owned(),
            format!("{} and {}", before, after),
            Origin::Measured(TestbedKind::Hosts),
            sections.into_iter().filter(|section| !section.blocks.is_empty()).collect(),
            self.json(),
        )
    }

    fn name(&self, one: &Suspect) -> String {
        Names { hosts: &self.hosts, groups: &self.groups }.of(one.culprit)
    }

    fn lead(&self, before: &str, after: &str) -> Lead {
        let Changes { of_all, worse, better } = &self.changes;
        let [n_worse, n_better] = [worse, better].map(|found| n_wide(found));
        let n_pairs = worse.len() + better.len() - n_worse - n_better;
        let wide = |found: &'_ Vec<Suspect>| found.iter().find(|one| is_wide(one)).cloned();
        let first = wide(worse).map(|one| (one, "worse"));
        let first = first.or_else(|| wide(better).map(|one| (one, "better")));
        let is_judged = self.hosts.len() >= FEWEST;
        let (surety, status) = match (&first, of_all.as_slice()) {
            _ if !is_judged => ("not diagnosed", "not judged"),
            (None, []) => ("equivalent", "none that matters"),
            _ => ("changed", "found"),
        };
        let claim = match &first {
            Some((one, how)) => Some(format!("{} became {how}", self.name(one))),
            None if !is_judged => Some(format!("a comparison needs {FEWEST} hosts of both")),
            None => (!of_all.is_empty()).then(|| "the whole fleet changed".to_owned()),
        };
        let evidence =
            first.as_ref().map_or(of_all, |(one, _)| &one.signs).iter().map(sign).collect();
        Lead {
            surety,
            figure: format!("{n_worse} worse, {n_better} better"),
            context: format!("of {} hosts, their sides and uplinks", self.hosts.len()),
            basis: vec![
                format!("each pair of {after} beside itself in {before}"),
                format!("single pairs that differ, one run each: {n_pairs}"),
            ],
            label: "Change",
            status,
            claim,
            evidence,
            ..Lead::default()
        }
    }

    fn missing(&self, before: &str, after: &str) -> Option<Block> {
        let only = |name: &str, hosts: &[String]| {
            (!hosts.is_empty()).then(|| format!("only in {name}: {}", name_list(hosts)))
        };
        let [one, other] = &self.alone;
        let lines: Vec<String> =
            [only(before, one), only(after, other)].into_iter().flatten().collect();
        (!lines.is_empty()).then_some(Block::List(lines))
    }

    fn table(&self) -> Vec<Block> {
        let row = |part: String, how: &str, signs: &[Sign]| {
            vec![part, how.to_owned(), signs.iter().map(sign).collect::<Vec<_>>().join("; ")]
        };
        let all = self.changes.of_all.iter().map(|one| {
            let is_worse = one.measure.is_worse(one.seen, one.usual);
            row("the whole fleet".to_owned(), how(is_worse), std::slice::from_ref(one))
        });
        let of = |found: &[Suspect], is_worse: bool| -> Vec<Vec<String>> {
            found.iter().map(|one| row(self.name(one), how(is_worse), &one.signs)).collect()
        };
        let (worse, better) = (of(&self.changes.worse, true), of(&self.changes.better, false));
        let rows: Vec<Vec<String>> = all.chain(worse).chain(better).collect();
        if rows.is_empty() {
            return Vec::new();
        }
        let heads = ["part", "became", "evidence"];
        let caption = "Changes, the strongest first";
        let table = Table::of_words("changes", caption, &heads, &rows);
        vec![Block::Table(Table { note: Some(NOTE.to_owned()), ..table })]
    }

    fn json(&self) -> Value {
        let names = Names { hosts: &self.hosts, groups: &self.groups };
        let list = |found: &[Suspect]| found.iter().map(|one| part(names, one)).collect();
        let [worse, better]: [Vec<Value>; 2] =
            [list(&self.changes.worse), list(&self.changes.better)];
        json!({
            "hosts": self.hosts, "only_before": self.alone[0], "only_after": self.alone[1],
            "of_all": lines(&self.changes.of_all), "worse": worse, "better": better,
        })
    }
}

/// Returns a changed part as JSON.
fn part(names: Names<'_>, one: &Suspect) -> Value {
    let (kind, of) = names.parts(one.culprit);
    json!({ "kind": kind, "of": of, "signs": lines(&one.signs) })
}

fn lines(signs: &[Sign]) -> Vec<SignLine> {
    signs.iter().map(SignLine::of).collect()
}

fn has(record: &MeshRecord, name: &str) -> bool {
    record.hosts.iter().any(|host| host.name == name)
}

/// Returns the hosts of a mesh that the other does not have.
fn without(record: &MeshRecord, other: &MeshRecord) -> Vec<String> {
    let names = record.hosts.iter().map(|host| host.name.clone());
    names.filter(|name| !has(other, name)).collect()
}

const NOTE: &str = "A single pair has one run in each mesh, so it may differ by chance: it is \
    listed, and does not count for the result or the exit status. Measure it again first.";

/// Returns whether a part is more than a pair.
const fn is_wide(one: &Suspect) -> bool {
    !matches!(one.culprit, Culprit::OneWay(..) | Culprit::Between(..))
}

fn n_wide(found: &[Suspect]) -> usize {
    found.iter().filter(|one| is_wide(one)).count()
}

const fn how(is_worse: bool) -> &'static str {
    if is_worse { "worse" } else { "better" }
}

/// Returns a changed figure beside the earlier one.
fn sign(sign: &Sign) -> String {
    let metric = sign.measure.metric();
    let (before, after) = (quantity(metric, sign.usual), quantity(metric, sign.seen));
    let change = if sign.usual > 0.0 { percent(sign.seen / sign.usual) } else { "new".to_owned() };
    let pairs = if sign.n == 1 {
        "one directed pair".to_owned()
    } else {
        format!("median of {} directed pairs", sign.n)
    };
    format!("{} from {before} to {after} ({change}), {pairs}", metric.title)
}
