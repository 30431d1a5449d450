//! Intervals as columns: worker, start, end, each counter that is not zero throughout, the three
//! distributions, the TCP state of the flows, and, if there are any, further distributions under
//! their names.

use linerate_model::{
    Carried, Counter, Distribution, FlowTcp, Interval, Nanos, OperationKind, StepGap, TcpState,
};
use serde::de::value::{self, MapDeserializer};
use serde::de::{Deserialize, Deserializer, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::{Map, Value};

use super::column::{Reader, Writer};
use super::{BlobError, MAX_INTERVALS, pack, unpack};
use crate::budget::Budget;

/// Intervals of one job and side, in order and at most [`MAX_INTERVALS`], as a blob.
pub(crate) fn encode_intervals(intervals: &[&Interval]) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.varint(intervals.len() as u64);
    writer.column(intervals.iter().map(|interval| u64::from(interval.worker)));
    writer.column(intervals.iter().map(|interval| interval.start.0));
    writer.column(intervals.iter().map(|interval| interval.end.0));
    // A counter that is zero throughout is left out: of the many counters one workload uses few.
    let used = |counter: Counter| intervals.iter().any(|interval| interval.counters[counter] != 0);
    let used: Vec<Counter> =
        Counter::ALL.iter().copied().filter(|counter| used(*counter)).collect();
    let held = intervals.iter().any(|interval| interval.held_bytes.is_some());
    let stepped = intervals.iter().any(|interval| interval.longest_step.is_some());
    // Each optional column counts as one more counter, because readers skip counters by this
    // number.
    writer.varint(used.len() as u64 + u64::from(held) + 3 * u64::from(stepped));
    if held {
        writer.text(HELD);
        writer.column(
            intervals
                .iter()
                // Zero means that nothing was measured, so values are stored one higher.
                .map(|interval| interval.held_bytes.map_or(0, |bytes| bytes.saturating_add(1))),
        );
    }
    if stepped {
        let [start, length, ran] = LONGEST_STEP;
        write_gaps(&mut writer, intervals, start, |gap| gap.start.0);
        write_gaps(&mut writer, intervals, length, |gap| gap.length.0);
        write_gaps(&mut writer, intervals, ran, |gap| gap.ran.0);
    }
    for counter in used {
        writer.text(counter.name());
        writer.column(intervals.iter().map(|interval| interval.counters[counter]));
    }
    for of in DISTRIBUTIONS {
        encode_distributions(&mut writer, intervals, of);
    }
    writer.column(intervals.iter().map(|interval| interval.flows.len() as u64));
    encode_flow_states(
        &mut writer,
        &intervals.iter().flat_map(|interval| &interval.flows).collect::<Vec<_>>(),
    );
    // Empty distributions are left out. Readers that do not know a name stop at the end of the
    // known ones.
    for (name, of) in NAMED {
        if intervals.iter().any(|interval| !of(interval).is_empty()) {
            writer.text(name);
            encode_distributions(&mut writer, intervals, of);
        }
    }
    for kind in OperationKind::ALL {
        for (place, (name, _)) in Carried::default().all().into_iter().enumerate() {
            if intervals.iter().any(|interval| !interval.carried_of(kind).all()[place].1.is_empty())
            {
                writer.text(&format!("{}{name}", kind.prefix()));
                encode_distributions(&mut writer, intervals, |interval| {
                    interval.carried_of(kind).all()[place].1
                });
            }
        }
    }
    pack(&writer.0)
}

/// Writes one part of the longest gaps, one higher than it is: 0 where nobody looked.
fn write_gaps(writer: &mut Writer, intervals: &[&Interval], name: &str, of: fn(&StepGap) -> u64) {
    let gaps = intervals.iter().map(|interval| interval.longest_step.as_ref());
    writer.text(name);
    writer.column(gaps.map(|gap| gap.map_or(0, |gap| of(gap).saturating_add(1))));
}

fn encode_distributions<F: Fn(&Interval) -> &Distribution>(
    writer: &mut Writer,
    intervals: &[&Interval],
    of: F,
) {
    let distributions = || intervals.iter().map(|interval| of(interval));
    let any = distributions().any(|distribution| !distribution.is_empty());
    writer.varint(u64::from(any));
    if any {
        writer.column(distributions().map(|d| d.lost));
        writer.column(distributions().map(|d| d.buckets.len() as u64));
        distributions().for_each(|d| writer.column(d.buckets.iter().map(|(value, _)| *value)));
        writer.column(distributions().flat_map(|d| d.buckets.iter().map(|(_, count)| *count)));
    }
}

/// The name under which memory held stands among the counters, so that a version that does not know
/// it skips it: one more than the bytes, and 0 where nobody looked.
const HELD: &str = "held_bytes";

/// Likewise of the longest gap between two steps: its start, its length, and for how much of it the
/// thread ran.
const LONGEST_STEP: [&str; 3] = ["longest_step_start_ns", "longest_step_ns", "longest_step_ran_ns"];

/// One of the distributions of an interval.
type DistributionOf = fn(&Interval) -> &Distribution;

/// The distributions of an interval, in the order written.
const DISTRIBUTIONS: [DistributionOf; 3] = [|i| &i.service, |i| &i.response, |i| &i.gap];

/// Distributions that came later, by name and behind everything else, so that a ledger without them
/// is what it always was.
const NAMED: [(&str, DistributionOf); 11] = [
    ("falls", |i| &i.variation.falls),
    ("rises", |i| &i.variation.rises),
    ("writes", |i| &i.writes),
    ("connect", |i| &i.stages.connect),
    ("first_byte", |i| &i.stages.first_byte),
    ("transfer", |i| &i.stages.transfer),
    ("close", |i| &i.stages.close),
    ("flushes", |i| &i.flushes),
    ("trims", |i| &i.trims),
    ("departures", |i| &i.departures),
    ("arrivals", |i| &i.arrivals),
];

/// Memory for a counter of an interval that is not zero: its list may have room for twice as many.
const COUNTER_BYTES: usize = 2 * size_of::<u64>();
/// Memory for a distribution of an interval that is not empty, besides its buckets: it may be the
/// first of its group.
const DISTRIBUTION_BYTES: usize = size_of::<Carried>();

/// The reverse of [`encode_intervals`].
pub(crate) fn decode_intervals(blob: &[u8], budget: &Budget) -> Result<Vec<Interval>, BlobError> {
    let body = unpack(blob, budget)?;
    let mut reader = Reader(&body);
    let n_intervals = reader.count()?;
    // Writers split longer lists, so more can only come from a damaged or made-up file.
    if n_intervals > MAX_INTERVALS {
        return Err(BlobError::Content(format!("more than {MAX_INTERVALS} intervals")));
    }
    // The columns below are filled in place, so memory for all intervals is reserved first.
    budget.take(n_intervals, size_of::<Interval>())?;
    let mut intervals = vec![Interval::default(); n_intervals];
    for (interval, worker) in intervals.iter_mut().zip(reader.column_u32(n_intervals)?) {
        interval.worker = worker;
    }
    for (interval, start) in intervals.iter_mut().zip(reader.column(n_intervals)?) {
        interval.start = Nanos(start);
    }
    for (interval, end) in intervals.iter_mut().zip(reader.column(n_intervals)?) {
        interval.end = Nanos(end);
    }
    for _ in 0..reader.count()? {
        let name = reader.text()?;
        let values = reader.column(n_intervals)?;
        if name == HELD {
            // Stored one higher; 0 means that nobody looked.
            let held = values.into_iter().map(|value| value.checked_sub(1));
            intervals.iter_mut().zip(held).for_each(|(interval, held)| interval.held_bytes = held);
            continue;
        }
        if let Some(part) = LONGEST_STEP.iter().position(|known| *known == name) {
            for (interval, value) in intervals.iter_mut().zip(values) {
                let Some(ns) = value.checked_sub(1) else { continue };
                let gap = interval.longest_step.get_or_insert_default();
                *[&mut gap.start, &mut gap.length, &mut gap.ran][part] = Nanos(ns);
            }
            continue;
        }
        // A counter of a later version is skipped.
        if let Some(&counter) = Counter::ALL.iter().find(|counter| counter.name() == name) {
            budget.take(n_intervals, COUNTER_BYTES)?;
            intervals
                .iter_mut()
                .zip(values)
                .for_each(|(interval, value)| interval.counters[counter] = value);
        }
    }
    let unnamed: [fn(&mut Interval) -> &mut Distribution; 3] =
        [|i| &mut i.service, |i| &mut i.response, |i| &mut i.gap];
    for of in unnamed {
        let distributions = decode_distributions(&mut reader, n_intervals, budget)?;
        for (interval, distribution) in intervals.iter_mut().zip(distributions) {
            // Of most intervals they stay empty, which takes no memory.
            if !distribution.is_empty() {
                *of(interval) = distribution;
            }
        }
    }
    let n_flows = reader.column(n_intervals)?;
    let mut states = decode_flow_states(&mut reader, &n_flows, budget)?.into_iter();
    for (interval, n_flows) in intervals.iter_mut().zip(n_flows) {
        interval.flows =
            // The sum of the counts was checked when the states were read, so `take` never runs out
            // early.
            states.by_ref().take(usize::try_from(n_flows).unwrap_or(usize::MAX)).collect();
    }
    // Distributions that came later follow until the end of the body, without a count.
    while reader.end().is_err() {
        let name = reader.text()?;
        let distributions = decode_distributions(&mut reader, n_intervals, budget)?;
        for (interval, distribution) in intervals.iter_mut().zip(distributions) {
            if distribution.is_empty() {
                continue;
            }
            if let Some(named) = named_mut(interval, &name) {
                *named = distribution;
            } else if let Some((kind, name)) = carried(&name)
                && let Some(carried) = interval.carried_of_mut(kind).named_mut(name)
            {
                *carried = distribution;
            }
            // One of a later version is skipped.
        }
    }
    // The body is dropped here; only the intervals stay in memory.
    budget.give(body.len(), 1);
    Ok(intervals)
}

/// The kind of operations and the name in [`Carried`] of a distribution called `name`.
fn carried(name: &str) -> Option<(OperationKind, &str)> {
    let is_known = |name: &str| Carried::default().named_mut(name).is_some();
    OperationKind::ALL
        .iter()
        .filter_map(|kind| Some((*kind, name.strip_prefix(kind.prefix())?)))
        .find(|(_, name)| is_known(name))
}

/// Returns the distribution of `interval` that [`NAMED`] calls `name`.
fn named_mut<'a>(interval: &'a mut Interval, name: &str) -> Option<&'a mut Distribution> {
    Some(match name {
        "falls" => &mut interval.variation.falls,
        "rises" => &mut interval.variation.rises,
        "writes" => &mut interval.writes,
        "connect" => &mut interval.stages.connect,
        "first_byte" => &mut interval.stages.first_byte,
        "transfer" => &mut interval.stages.transfer,
        "close" => &mut interval.stages.close,
        "flushes" => &mut interval.flushes,
        "trims" => &mut interval.trims,
        "departures" => &mut interval.departures,
        "arrivals" => &mut interval.arrivals,
        _ => return None,
    })
}

fn decode_distributions(
    reader: &mut Reader<'_>,
    n_intervals: usize,
    budget: &Budget,
) -> Result<Vec<Distribution>, BlobError> {
    if reader.varint()? == 0 {
        return Ok(Vec::new());
    }
    let lost = reader.column(n_intervals)?;
    let n_buckets = reader.column(n_intervals)?;
    budget.take(n_intervals, DISTRIBUTION_BYTES)?;
    let mut distributions = Vec::with_capacity(n_intervals);
    for (lost, n_buckets) in lost.into_iter().zip(n_buckets) {
        let values =
            reader.column(usize::try_from(n_buckets).map_err(|_| BlobError::Truncated)?)?;
        // One column of values may claim as many buckets as bytes are left, for each interval anew.
        budget.take(values.len(), size_of::<(u64, u64)>())?;
        distributions.push(Distribution {
            // Counts come after all values, so they are filled in below.
            buckets: values.into_iter().map(|value| (value, 0)).collect(),
            lost,
            ..Distribution::default()
        });
    }
    let total = distributions.iter().map(|d| d.buckets.len()).sum();
    let counts = reader.column(total)?;
    let buckets = distributions.iter_mut().flat_map(|distribution| &mut distribution.buckets);
    buckets.zip(counts).for_each(|(bucket, count)| bucket.1 = count);
    Ok(distributions)
}

/// How the values of a named column are to be read.
const NUMBER: u64 = 0;
const BOOLEAN: u64 = 1;

/// Flow numbers and TCP states: each field of [`TcpState`] is a column under its own name.
fn encode_flow_states(writer: &mut Writer, states: &[&FlowTcp]) {
    writer.column(states.iter().map(|state| u64::from(state.flow)));
    let tables: Vec<Map<String, Value>> =
        states.iter().map(|state| fields_of(&state.tcp)).collect();
    // Without flows there are no field names to write, and the reader expects none.
    let Some(first) = tables.first() else { return };
    let used = |name: &String| tables.iter().any(|table| column_value(&table[name]) != 0);
    // Fields that are zero for every flow are left out; a reader sets missing fields to zero.
    let used: Vec<&String> = first.keys().filter(|name| used(name)).collect();
    writer.varint(used.len() as u64);
    for name in used {
        writer.text(name);
        // JSON has no other sign of the type: a boolean read back as a number would not
        // deserialize.
        writer.varint(if first[name].is_boolean() { BOOLEAN } else { NUMBER });
        writer.column(tables.iter().map(|table| column_value(&table[name])));
    }
}

fn fields_of(state: &TcpState) -> Map<String, Value> {
    match serde_json::to_value(state) {
        Ok(Value::Object(fields)) => fields,
        _ => unreachable!("a struct of numbers and booleans is a JSON object"),
    }
}

fn column_value(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| u64::from(value.as_bool().unwrap_or(false)))
}

fn decode_flow_states(
    reader: &mut Reader<'_>,
    n_flows: &[u64],
    budget: &Budget,
) -> Result<Vec<FlowTcp>, BlobError> {
    let total =
        n_flows.iter().try_fold(0_usize, |sum, n| sum.checked_add(usize::try_from(*n).ok()?));
    let total = total.ok_or(BlobError::Truncated)?;
    let flows = reader.column_u32(total)?;
    budget.take(total, size_of::<FlowTcp>())?;
    let mut columns = Vec::new();
    if !flows.is_empty() {
        for _ in 0..reader.count()? {
            let name = reader.text()?;
            let boolean = reader.varint()? == BOOLEAN;
            budget.take(total, size_of::<u64>())?;
            columns.push((name, boolean, reader.column(total)?));
        }
    }
    let states =
        flows.into_iter().enumerate().map(|(at, flow)| state_of(&columns, at, flow)).collect();
    columns.iter().for_each(|(_, _, values)| budget.give(values.len(), size_of::<u64>()));
    states
}

/// Column of a TCP state: its name, whether it is a boolean, and a value for each flow.
type StateColumn = (String, bool, Vec<u64>);

/// Returns the state of the flow at `index` of `columns`.
fn state_of(columns: &[StateColumn], index: usize, flow: u32) -> Result<FlowTcp, BlobError> {
    let fields = columns.iter().map(|(name, boolean, values)| {
        (name.as_str(), Field { value: values[index], is_boolean: *boolean })
    });
    // Without a tree between: a campaign has such a state for each flow and interval.
    match TcpState::deserialize(MapDeserializer::new(fields)) {
        Ok(tcp) => Ok(FlowTcp { flow, tcp }),
        Err(error) => Err(BlobError::Content(format!("no TCP state: {error}"))),
    }
}

/// Value of a field of a TCP state.
struct Field {
    value: u64,
    is_boolean: bool,
}

impl<'de> IntoDeserializer<'de, value::Error> for Field {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Field {
    type Error = value::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        if self.is_boolean {
            visitor.visit_bool(self.value != 0)
        } else {
            visitor.visit_u64(self.value)
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier
        ignored_any
    }
}
