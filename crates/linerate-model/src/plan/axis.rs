//! Axes: what varies in a sweep, as a list of values or as a range.
//!
//! A range is `{ from, to, factor }` (geometric) or `{ from, to, step }` (arithmetic) over counts
//! or over quantities of one dimension; its end value is always included, even where the last step
//! is shorter. Geometric values are rounded to whole counts, bytes and nanoseconds, and equal
//! neighbours are merged.

use std::fmt::Display;
use std::str::FromStr;

use serde_json::Value;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::Axis;
use super::fields::{Fields, Problems, wrong_type, wrong_value};
use super::value::{json, whole};
use crate::{BitRate, Bytes, Nanos, PacketRate, Problem, Ratio, nearest};

/// Most values of one axis.
pub(super) const MAX_AXIS_VALUES: usize = 10_000;

/// Most values of all axes of one sweep together; bounds the memory a hostile plan can take.
const MAX_SWEEP_VALUES: usize = 100_000;

/// Forms of an axis path, for messages.
pub(super) const PATH_FORMS: &str =
    "`params.NAME`, `job.I.params.NAME` (jobs are numbered from 0), `cpus` or `pairs`";

/// An axis path taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AxisPath<'a> {
    /// A parameter of every measured job.
    Params(&'a str),
    /// A parameter of one job, numbered from 0.
    Job(usize, &'a str),
    /// How many CPUs each endpoint may use.
    Cpus,
    /// Endpoint sets.
    Pairs,
}

impl<'a> AxisPath<'a> {
    /// `path` taken apart, if it has one of the forms of [`Axis`].
    pub(super) fn read(path: &'a str) -> Option<Self> {
        match path {
            "cpus" => return Some(Self::Cpus),
            "pairs" => return Some(Self::Pairs),
            _ => {}
        }
        if let Some(name) = path.strip_prefix("params.") {
            return (!name.is_empty()).then_some(Self::Params(name));
        }
        let (number, name) = path.strip_prefix("job.")?.split_once(".params.")?;
        (!name.is_empty()).then_some(Self::Job(number.parse().ok()?, name))
    }
}

/// The axes of a sweep with `n_jobs` jobs, in the order written. A key may be quoted (`"params.x"`)
/// or dotted (`params.x`): both name the same axis.
pub(super) fn axes(value: &Spanned<DeValue<'_>>, n_jobs: usize, problems: &Problems) -> Vec<Axis> {
    let mut axes = Vec::new();
    match value.get_ref().as_table() {
        Some(table) => collect("", table, n_jobs, &mut axes, problems),
        None => problems.push(wrong_type(value, "`axis`", "a table of axes, `[sweep.axis]`")),
    }
    axes.sort_by_key(|axis| axis.span.as_ref().map_or(0, |span| span.start));
    axes
}

fn collect(
    prefix: &str,
    table: &DeTable<'_>,
    n_jobs: usize,
    axes: &mut Vec<Axis>,
    problems: &Problems,
) {
    for (key, value) in table {
        let path = if prefix.is_empty() {
            key.get_ref().to_string()
        } else {
            format!("{prefix}.{}", key.get_ref())
        };
        let unfinished = AxisPath::read(&path).is_none()
            && path.split('.').next().is_some_and(|root| root == "params" || root == "job");
        if let (true, Some(nested)) = (unfinished, value.get_ref().as_table()) {
            collect(&path, nested, n_jobs, axes, problems);
            continue;
        }
        let before = problems.len();
        check_path(&path, key.span(), n_jobs, problems);
        if axes.iter().any(|axis| axis.path == path) {
            problems
                .push(Problem::new(Some(key.span()), format!("axis `{path}` is written twice")));
        }
        let values = values(&path, value, problems);
        let total: usize = axes.iter().map(|axis| axis.values.len()).sum();
        if total + values.len() > MAX_SWEEP_VALUES {
            let message = format!("the sweep's axes have more than {MAX_SWEEP_VALUES} values");
            problems.at(value.span(), message, "fewer values");
            return;
        }
        if before == problems.len() {
            axes.push(Axis {
                path,
                values,
                span: Some(key.span().start..value.span().end.max(key.span().end)),
            });
        }
    }
}

fn check_path(path: &str, span: std::ops::Range<usize>, n_jobs: usize, problems: &Problems) {
    match AxisPath::read(path) {
        Some(AxisPath::Job(job, _)) if job >= n_jobs => {
            let message = format!("axis `{path}` names job {job}, but the sweep has {n_jobs}");
            problems.at(span, message, "a job of this sweep, numbered from 0");
        }
        Some(_) => {}
        None => {
            let near = nearest(path, ["cpus", "pairs"]).map(str::to_owned);
            let near = near.or_else(|| (!path.contains('.')).then(|| format!("params.{path}")));
            let problem =
                Problem::new(Some(span), format!("`{path}` is not something that can vary"));
            problems.push(problem.expected(PATH_FORMS).nearest(near.as_deref()));
        }
    }
}

fn values(path: &str, value: &Spanned<DeValue<'_>>, problems: &Problems) -> Vec<Value> {
    let values = match value.get_ref() {
        DeValue::Array(list) => listed(path, value, list, problems),
        DeValue::Table(_) => range(path, value, problems),
        _ => {
            let expected = "a list, or a range { from, to, factor } or { from, to, step }";
            problems.push(wrong_type(value, &format!("axis `{path}`"), expected));
            return Vec::new();
        }
    };
    if let Some(bad) = values.iter().find_map(|value| value_problem(path, value)) {
        problems.at(value.span(), bad.0, bad.1);
    }
    values
}

/// Returns the problem of `value` on the axis `path` and the expected form. Values of parameters
/// are left to their workload.
pub(super) fn value_problem(path: &str, value: &Value) -> Option<(String, &'static str)> {
    let fits = match AxisPath::read(path)? {
        AxisPath::Params(_) | AxisPath::Job(..) => true,
        AxisPath::Cpus => value.as_u64().is_some_and(|count| count > 0),
        AxisPath::Pairs => pairs_of(value).is_some(),
    };
    let expected = match path {
        "cpus" => "a number of CPUs, at least 1",
        _ => "lists of pairs of endpoints, such as [[\"a1 b1\"], [\"a1 b1\", \"a2 b2\"]]",
    };
    (!fits).then(|| (format!("axis `{path}` has the value {value}"), expected))
}

/// The endpoint pairs in one value of a `pairs` axis: a list of `"FROM TO"`, not empty.
pub(super) fn pairs_of(value: &Value) -> Option<Vec<(&str, &str)>> {
    let pairs: Option<Vec<_>> = value
        .as_array()?
        .iter()
        .map(|pair| {
            let mut names = pair.as_str()?.split_whitespace();
            let pair = (names.next()?, names.next()?);
            // A third name would be ignored, and the plan would measure other ends than it names.
            names.next().is_none().then_some(pair)
        })
        .collect();
    pairs.filter(|pairs| !pairs.is_empty())
}

fn listed(
    path: &str,
    whole: &Spanned<DeValue<'_>>,
    list: &[Spanned<DeValue<'_>>],
    problems: &Problems,
) -> Vec<Value> {
    if list.is_empty() || list.len() > MAX_AXIS_VALUES {
        let message = format!("axis `{path}` has {} values", list.len());
        let expected = format!("1 to {MAX_AXIS_VALUES} values");
        problems.at(whole.span(), message, expected);
        return Vec::new();
    }
    let mut values = Vec::with_capacity(list.len());
    let mut seen = std::collections::BTreeSet::new();
    for entry in list {
        let value = json(entry, problems);
        // A point is identified by its coordinate, so two equal values would be one point.
        if !seen.insert(value.to_string()) {
            problems.at(
                entry.span(),
                format!("axis `{path}` has the value {value} twice"),
                "each value once; `repeats` says how often a point is measured",
            );
        }
        values.push(value);
    }
    values
}

/// How a range goes on.
#[derive(Clone, Copy)]
enum Advance {
    Factor(f64),
    Step(f64),
}

fn range(path: &str, value: &Spanned<DeValue<'_>>, problems: &Problems) -> Vec<Value> {
    let before = problems.len();
    let Some(fields) = Fields::of(value, "a range", &["from", "to", "factor", "step"], problems)
    else {
        return Vec::new();
    };
    for key in ["from", "to"].into_iter().filter(|key| fields.get(key).is_none()) {
        fields.missing(key, "{ from, to, factor } or { from, to, step }");
    }
    if fields.get("factor").is_some() == fields.get("step").is_some() {
        problems.at(
            fields.span(),
            format!("the range of axis `{path}` needs a way to go on"),
            "exactly one of `factor` and `step`",
        );
    }
    let (Some(from), Some(to)) = (fields.get("from"), fields.get("to")) else { return Vec::new() };
    if before != problems.len() {
        return Vec::new();
    }
    let values = match from.get_ref().as_str() {
        None => counts(from, to, &fields, problems),
        Some(text) => None
            .or_else(|| {
                quantities::<Bytes>(text, to, &fields, |b| b.0 as f64, |v| Bytes(v.round() as u64))
            })
            .or_else(|| {
                quantities::<Nanos>(text, to, &fields, |n| n.0 as f64, |v| Nanos(v.round() as u64))
            })
            .or_else(|| quantities::<BitRate>(text, to, &fields, |r| r.0, BitRate))
            .or_else(|| quantities::<PacketRate>(text, to, &fields, |r| r.0, PacketRate))
            .or_else(|| quantities::<Ratio>(text, to, &fields, |r| r.0, Ratio))
            .unwrap_or_else(|| {
                let expected = "a quantity of the same dimension, such as \
                        { from = \"4 B\", to = \"1 MiB\", factor = 4 }";
                Err(wrong_value(
                    to,
                    &format!("the range starts at \"{text}\", and its end"),
                    expected,
                ))
            })
            .map_err(|problem| problems.push(problem))
            .unwrap_or_default(),
    };
    if values.is_empty() && before == problems.len() {
        let expected = format!("`to` not below `from`, and at most {MAX_AXIS_VALUES} values");
        let message = format!("the range of axis `{path}` is empty or too long");
        problems.at(value.span(), message, expected);
    }
    values
}

/// A range of bare numbers: whole if its ends are whole (geometric values are then rounded).
fn counts(
    from: &Spanned<DeValue<'_>>,
    to: &Spanned<DeValue<'_>>,
    fields: &Fields<'_, '_>,
    problems: &Problems,
) -> Vec<Value> {
    let expected = "a number, not negative, or a quantity";
    let of = |value: &DeValue<'_>| number(value).filter(|number| *number >= 0.0);
    let end = |value| problems.read(value, "an end of the range", expected, of);
    let ends = end(from).and_then(|from| Some([from, end(to)?]));
    let Some(ends) = ends else { return Vec::new() };
    let advance = match advance(fields, number) {
        Ok(advance) => advance,
        Err(problem) => {
            problems.push(problem);
            return Vec::new();
        }
    };
    let integral = whole(from.get_ref()).is_some()
        && whole(to.get_ref()).is_some()
        && matches!(advance, Advance::Factor(_))
            | fields.get("step").is_some_and(|step| step.get_ref().is_integer());
    let mut values: Vec<Value> = steps(ends[0], ends[1], advance)
        .into_iter()
        .map(
            |number| {
                if integral { Value::from(number.round() as u64) } else { Value::from(number) }
            },
        )
        .collect();
    // Rounding can make two neighbours of a slowly growing range equal.
    values.dedup();
    values
}

/// A range of quantities `Q`; `None` if `from` is not one, so that another dimension can be tried.
fn quantities<Q: FromStr + Display>(
    from: &str,
    to: &Spanned<DeValue<'_>>,
    fields: &Fields<'_, '_>,
    base: impl Fn(Q) -> f64,
    quantity: impl Fn(f64) -> Q,
) -> Option<Result<Vec<Value>, Problem>> {
    let from = base(from.parse::<Q>().ok()?);
    let read =
        |value: &DeValue<'_>| value.as_str().and_then(|text| text.parse::<Q>().ok()).map(&base);
    let end = read(to.get_ref())?;
    Some(advance(fields, read).map(|advance| {
        let texts = steps(from, end, advance)
            .into_iter()
            .map(|value| Value::from(quantity(value).to_string()));
        let mut values: Vec<Value> = texts.collect();
        values.dedup();
        values
    }))
}

/// The range's `factor`, a number above 1, or its `step`, above zero and read by `step`.
fn advance(
    fields: &Fields<'_, '_>,
    step: impl Fn(&DeValue<'_>) -> Option<f64>,
) -> Result<Advance, Problem> {
    if let Some(value) = fields.get("factor") {
        let factor = number(value.get_ref()).filter(|factor| *factor > 1.0);
        return factor
            .map(Advance::Factor)
            .ok_or_else(|| wrong_value(value, "`factor`", "a number above 1"));
    }
    let value = fields.get("step");
    let by = value.and_then(|value| step(value.get_ref())).filter(|step| *step > 0.0);
    by.map(Advance::Step).ok_or_else(|| {
        let expected = "a step above zero, in the dimension of the range's ends";
        match value {
            Some(value) => wrong_value(value, "`step`", expected),
            None => Problem::new(Some(fields.span()), "the range has no step").expected(expected),
        }
    })
}

/// `from`, what follows below `to`, and `to`; empty if `to` is below `from` or there are too many.
fn steps(from: f64, to: f64, advance: Advance) -> Vec<f64> {
    /// Closer to the end than this part of it is the end itself: powers are not exact.
    const SAME: f64 = 1e-9;
    if from > to || (from == 0.0 && to > 0.0 && matches!(advance, Advance::Factor(_))) {
        return Vec::new();
    }
    let mut values = Vec::new();
    loop {
        let n = values.len() as f64;
        let value = match advance {
            Advance::Factor(factor) => from * factor.powf(n),
            Advance::Step(step) => from + step * n,
        };
        if value >= to * (1.0 - SAME) {
            break;
        }
        if values.len() + 1 >= MAX_AXIS_VALUES {
            return Vec::new();
        }
        values.push(value);
    }
    values.push(to);
    values
}

fn number(value: &DeValue<'_>) -> Option<f64> {
    let text = match value {
        DeValue::Integer(number) => {
            return i128::from_str_radix(number.as_str(), number.radix()).ok().map(|n| n as f64);
        }
        DeValue::Float(number) => number.as_str(),
        _ => return None,
    };
    text.parse().ok().filter(|number: &f64| number.is_finite())
}
