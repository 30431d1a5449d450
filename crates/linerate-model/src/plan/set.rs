//! Overrides from the command line: `--set KEY=VALUE` changes a plan's text before it is read.
//!
//! | Key | Sets |
//! |---|---|
//! | `campaign.repeats`, or just `repeats` | a key of `[campaign]` |
//! | `duration`, `params.X`, `axis.params.X` | that key of every sweep, or of its measured jobs |
//! | `search.trial`, `compare.pairs` | a key of every search or comparison |
//! | `NAME.duration`, `NAME.params.X`, `NAME.axis.cpus` | the same of the sweep called NAME |
//! | `job.I.to`, `NAME.job.I.params.X` | a key of job I, numbered from 0 |
//!
//! NAME may hold spaces and dots. The value is TOML; what is not TOML is taken as a string, so that
//! `duration=2 s` needs no quotes. The new text holds the same keys in the same order, without the
//! comments.

use toml::de::DeTable;
use toml::{Table, Value};

use super::axis::AxisPath;
use super::fields::Problems;
use super::parse::{CAMPAIGN_KEYS, JOB_KEYS, SWEEP_KEYS};
use super::value::json;
use crate::{Problem, nearest};

/// The plan `text` with `assignment` (`KEY=VALUE`, see the module) applied, as new TOML.
///
/// # Errors
/// If the text is not TOML, the assignment has no `=`, or its key names nothing that can be set.
/// The problem's span is in `text` if that is broken, and absent otherwise.
pub fn apply_set(text: &str, assignment: &str) -> Result<String, Problem> {
    // The text is changed as a table and not by its lines, so that the key may be written in any
    // form of TOML.
    let mut plan = table(text)?;
    let problem = |cause: String| Problem::new(None, format!("--set {assignment}: {cause}"));
    let (key, value) = assignment.split_once('=').ok_or_else(|| {
        problem("there is no `=`".to_owned())
            .expected("KEY=VALUE, such as repeats=3 or duration=\"2 s\"")
    })?;
    let (key, value) = (key.trim(), read_value(value.trim()));
    if let Some(name) =
        // A bare key such as `repeats` means the campaign, as it cannot belong to a sweep.
        key.strip_prefix("campaign.").or_else(|| CAMPAIGN_KEYS.contains(&key).then_some(key))
    {
        check_known(name, CAMPAIGN_KEYS)
            .map_err(|p| Problem { message: format!("--set {assignment}: {}", p.message), ..p })?;
        let campaign = plan.entry("campaign").or_insert_with(|| Value::Table(Table::new()));
        let campaign = campaign
            .as_table_mut()
            .ok_or_else(|| problem("`campaign` is not a table".to_owned()))?;
        campaign.insert(name.to_owned(), value);
        return Ok(plan.to_string());
    }
    let sweeps = plan.get_mut("sweep").and_then(Value::as_array_mut);
    let sweeps = sweeps.ok_or_else(|| problem("the plan has no `[[sweep]]`".to_owned()))?;
    let names: Vec<String> = sweeps.iter().map(|sweep| name_of(sweep).to_owned()).collect();
    let named = names
        .iter()
        .filter(|name| key.strip_prefix(name.as_str()).is_some_and(|rest| rest.starts_with('.')));
    // A sweep may be called like the beginning of another; the longest name is meant.
    let named = named.max_by_key(|name| name.len()).filter(|name| !name.is_empty());
    let path = named.map_or(key, |name| &key[name.len() + 1..]);
    let mut n_set = 0;
    for sweep in sweeps.iter_mut().filter(|sweep| named.is_none_or(|name| name_of(sweep) == name)) {
        let sweep =
            sweep.as_table_mut().ok_or_else(|| problem("a sweep is not a table".to_owned()))?;
        // A sweep without the numbered job is skipped; the count below notices if no sweep has it.
        let set = set_in_sweep(sweep, path, &value).map_err(|cause| {
            let message = format!("--set {assignment}: {}", cause.message);
            let near = cause.nearest.clone().or_else(|| {
                let first = key.split('.').next().unwrap_or(key);
                nearest(first, names.iter().map(String::as_str))
                    .map(|name| format!("{name}{}", &key[first.len()..]))
            });
            Problem { message, nearest: near, ..cause }
        })?;
        n_set += usize::from(set);
    }
    if n_set == 0 {
        return Err(problem("no sweep has a job it fits".to_owned())
            .expected("a job that is there, numbered from 0"));
    }
    Ok(plan.to_string())
}

/// The plan `text` without the sweeps called `names`, as new TOML.
///
/// # Errors
/// If the text is not TOML.
pub fn without_sweeps(text: &str, names: &[String]) -> Result<String, Problem> {
    let mut plan = table(text)?;
    if let Some(sweeps) = plan.get_mut("sweep").and_then(Value::as_array_mut) {
        sweeps.retain(|sweep| !names.iter().any(|name| name == name_of(sweep)));
    }
    Ok(plan.to_string())
}

fn table(text: &str) -> Result<Table, Problem> {
    toml::from_str(text).map_err(|error: toml::de::Error| {
        Problem::new(error.span(), format!("the plan is not TOML: {}", error.message()))
    })
}

/// The parameter that `assignment` (`KEY=VALUE`) sets: the value is TOML, and what is not TOML or
/// has no place in a plan is a string.
///
/// # Errors
/// If there is no `=`, or nothing before it.
pub fn parameter(assignment: &str) -> Result<(String, serde_json::Value), Problem> {
    let (key, text) =
        assignment.split_once('=').filter(|(key, _)| !key.trim().is_empty()).ok_or_else(|| {
            Problem::new(None, format!("`{assignment}` sets no parameter"))
                .expected("KEY=VALUE, such as streams=4 or message_size=\"64 B\"")
        })?;
    let text = text.trim();
    let line = format!("value = {text}");
    // A value with a line break could smuggle in a second key.
    let table = DeTable::parse(&line).ok().filter(|table| table.get_ref().len() == 1);
    let problems = Problems::default();
    let value = table
        .as_ref()
        .and_then(|table| table.get_ref().get("value"))
        .map(|value| json(value, &problems));
    // What JSON cannot hold is taken as text rather than changed silently.
    let value = value.filter(|_| problems.len() == 0).unwrap_or_else(|| text.into());
    Ok((key.trim().to_owned(), value))
}

/// `text` as a TOML value, or as a string if it is none.
fn read_value(text: &str) -> Value {
    let line = toml::from_str::<Table>(&format!("value = {text}"));
    let value =
        line.ok().filter(|table| table.len() == 1).and_then(|mut table| table.remove("value"));
    value.unwrap_or_else(|| Value::String(text.to_owned()))
}

fn name_of(sweep: &Value) -> &str {
    sweep.get("name").and_then(Value::as_str).unwrap_or_default()
}

/// Sets `path` in `sweep`; false if it names a job this sweep does not have.
fn set_in_sweep(sweep: &mut Table, path: &str, value: &Value) -> Result<bool, Problem> {
    if let Some(name) = path.strip_prefix("params.") {
        refuse_swept(sweep, path)?;
        let mut n_set = 0;
        for job in jobs(sweep) {
            let background = job.contains_key("start") || job.contains_key("duration");
            // Parameters of background jobs are set by their number only.
            n_set += usize::from(!background && set_in(job, "params", name, value));
        }
        return Ok(n_set > 0);
    }
    if let Some(axis) = path.strip_prefix("axis.") {
        if AxisPath::read(axis).is_none() {
            return Err(Problem::new(None, format!("`{axis}` is not something that can vary"))
                .expected(super::axis::PATH_FORMS));
        }
        let axes = sweep.entry("axis").or_insert_with(|| Value::Table(Table::new()));
        let Some(axes) = axes.as_table_mut() else { return Ok(false) };
        // The new entry is written with quotes; the dotted one would remain beside it.
        remove_dotted(axes, axis);
        axes.insert(axis.to_owned(), value.clone());
        return Ok(true);
    }
    if let Some((number, rest)) = path.strip_prefix("job.").and_then(|rest| rest.split_once('.')) {
        if rest.starts_with("params.") {
            refuse_swept(sweep, path)?;
        }
        let number: usize = number.parse().map_err(|_| {
            Problem::new(None, format!("`{number}` is not the number of a job"))
                .expected("a number from 0")
        })?;
        let Some(job) = jobs(sweep).nth(number) else { return Ok(false) };
        if let Some(name) = rest.strip_prefix("params.") {
            return Ok(set_in(job, "params", name, value));
        }
        check_known(rest, JOB_KEYS)?;
        job.insert(rest.to_owned(), value.clone());
        return Ok(true);
    }
    if let Some((group, name)) =
        path.split_once('.').filter(|(group, _)| ["search", "compare"].contains(group))
    {
        // Reading the plan says which keys there are.
        return Ok(sweep.contains_key(group) && set_in(sweep, group, name, value));
    }
    check_known(path, SWEEP_KEYS)?;
    sweep.insert(path.to_owned(), value.clone());
    Ok(true)
}

/// Refuses to set a parameter that an axis varies: the axis would silently override it.
fn refuse_swept(sweep: &Table, path: &str) -> Result<(), Problem> {
    let axes = sweep.get("axis").and_then(Value::as_table);
    let dotted = |table: &Table| {
        path.split('.').try_fold(Value::Table(table.clone()), |at, key| at.get(key).cloned())
    };
    match axes.is_some_and(|axes| axes.contains_key(path) || dotted(axes).is_some()) {
        true => Err(Problem::new(None, format!("`{path}` is varied by an axis"))
            .nearest(Some(&format!("axis.{path}")))),
        false => Ok(()),
    }
}

/// Removes an axis written with dots instead of quotes, so that it is not there twice.
fn remove_dotted(axes: &mut Table, path: &str) {
    match path.split_once('.') {
        None => {
            axes.remove(path);
        }
        Some((first, rest)) => {
            if let Some(inner) = axes.get_mut(first).and_then(Value::as_table_mut) {
                remove_dotted(inner, rest);
            }
        }
    }
}

fn jobs(sweep: &mut Table) -> impl Iterator<Item = &mut Table> {
    sweep
        .get_mut("job")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
        .filter_map(Value::as_table_mut)
}

fn set_in(table: &mut Table, inner: &str, key: &str, value: &Value) -> bool {
    let inner = table.entry(inner).or_insert_with(|| Value::Table(Table::new()));
    inner.as_table_mut().is_some_and(|inner| {
        inner.insert(key.to_owned(), value.clone());
        true
    })
}

fn check_known(key: &str, known: &[&str]) -> Result<(), Problem> {
    if known.contains(&key) {
        return Ok(());
    }
    let expected = format!("one of {}", known.join(", "));
    Err(Problem::new(None, format!("unknown key `{key}`"))
        .expected(expected)
        .nearest(nearest(key, known.iter().copied())))
}
