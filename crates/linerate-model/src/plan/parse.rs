//! Reads a plan: TOML 1.1 into a [`Plan`], and everything that is wrong with it, with its place in
//! the text.
//!
//! It does not check that workloads, parameters and endpoints exist, because only the registries
//! and the testbed know them. The plan keeps the spans of its text, so that their problems also
//! point at it.

use std::collections::HashSet;
use std::ops::{Range, RangeInclusive};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::axis::axes;
use super::compare::read_setting;
use super::fields::{Fields, Problems, wrong_type};
use super::search::search;
use super::value::json;
use super::{JobPlan, Order, Plan, Sweep, compare, repeats, together};
use crate::{Background, Nanos, Params, Problem, Warmup, control_characters, nearest};

/// Seed where none is given: fixed, so that a plan means the same trials everywhere.
pub(crate) const DEFAULT_SEED: u64 = 1;
/// Length of the measure phase: fifty intervals, enough for MSER-5 to find the steady state.
pub(crate) const DEFAULT_DURATION: Nanos = Nanos::from_secs(5);
/// Receivers still count this long after the senders fell silent: longer than any queue on a sane
/// path.
pub(crate) const DEFAULT_DRAIN: Nanos = Nanos::from_millis(500);
/// Pause between trials: the kernel's deferred work and the CPU's frequency settle.
pub(crate) const DEFAULT_REST: Nanos = Nanos::from_millis(200);
/// Length of an interval, unless the sweep is too short for ten of them.
pub(crate) const DEFAULT_INTERVAL: Nanos = Nanos::from_millis(100);
/// Length of an interval of a short sweep. Below this, the readings at its end (samplers, TCP
/// states) cost more CPU time than their resolution is worth.
const LEAST_DEFAULT_INTERVAL: Nanos = Nanos::from_millis(10);

/// Most trials of a plan.
pub const MAX_TRIALS: u64 = 100_000;
/// Longest phase, and largest offset of a background job: 30 days.
const MAX_SPAN: Nanos = Nanos::from_secs(30 * 24 * 3600);
/// Most intervals of one trial; each is a row for every worker.
const MAX_INTERVALS: u64 = 10_000_000;

/// Known keys of `[campaign]`.
pub(super) const CAMPAIGN_KEYS: &[&str] = &["name", "repeats", "order", "seed", "settings"];
/// Known keys of `[[sweep]]`.
pub(super) const SWEEP_KEYS: &[&str] = &[
    "name", "duration", "warmup", "drain", "rest", "interval", "job", "axis", "compare",
    "together", "search",
];
/// Known keys of `[[sweep.job]]`.
pub(super) const JOB_KEYS: &[&str] = &["workload", "from", "to", "params", "start", "duration"];

/// Reads the TOML `text`. The plan is returned if it could be understood at all; it may only be run
/// if there is no problem. Where the TOML itself is broken, its errors are the only problems
/// reported: what follows from a broken text would mislead.
#[must_use]
pub fn parse(text: &str) -> (Option<Plan>, Vec<Problem>) {
    // This parser reports all syntax errors. A strict one stops at the first.
    let (root, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        let problems = errors.iter().map(|error| {
            Problem::new(
                error.span().map(|span| within(span, text)),
                error.message().to_lowercase(),
            )
        });
        return (None, problems.collect());
    }
    let noted = Problems::default();
    let plan = lower(&root, text.len(), &noted);
    let mut problems = [control_characters(text), noted.all()].concat();
    // Problems are found by kind; a reader corrects them from top to bottom.
    problems.sort_by_key(|problem| problem.span.as_ref().map_or(0, |span| span.start));
    (Some(plan), problems)
}

/// Reads the TOML `text` as a plan that may be run.
///
/// # Errors
/// Every problem, in the order of their places; at least one.
///
/// # Examples
/// ```
/// use linerate_model::plan;
///
/// let text = r#"
///     [campaign]
///     name = "one stream"
///     repeats = 6
///
///     [[sweep]]
///     name = "sizes"
///     duration = "5 s"
///
///     [[sweep.job]]
///     workload = "tcp_stream"
///     from = "a"
///     to = "b"
///
///     [sweep.axis]
///     "params.message_size" = ["1 KiB", "64 KiB"]
/// "#;
/// let plan = plan::read(text).expect("a plan without problems");
/// assert_eq!((plan.repeats, plan.sweeps[0].axes.len()), (6, 1));
///
/// // A misspelt key is one problem, with the nearest known key.
/// let problems = plan::read(&text.replace("repeats", "repeat")).expect_err("a problem");
/// assert_eq!(problems[0].nearest.as_deref(), Some("repeats"));
/// ```
pub fn read(text: &str) -> Result<Plan, Vec<Problem>> {
    match parse(text) {
        (Some(plan), problems) if problems.is_empty() => Ok(plan),
        (None, problems) if problems.is_empty() => {
            Err(vec![Problem::new(Some(0..text.len()), "the text is no TOML").expected("a plan")])
        }
        (_, problems) => Err(problems),
    }
}

/// `span` cut to the text, on character boundaries.
fn within(span: Range<usize>, text: &str) -> Range<usize> {
    let start = boundary(text, span.start);
    start..boundary(text, span.end).max(start)
}

/// Returns the last boundary of a character of `text` at or before `at`.
fn boundary(text: &str, at: usize) -> usize {
    // The parser reports byte offsets that may point into a character, which would panic in a
    // slice.
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

fn lower(root: &Spanned<DeTable<'_>>, text_bytes: usize, problems: &Problems) -> Plan {
    let whole = 0..text_bytes;
    let fields = Fields::of_table(
        root.get_ref(),
        whole.clone(),
        "the plan",
        &["campaign", "sweep"],
        problems,
    );
    let mut plan = Plan {
        name: String::new(),
        repeats: repeats::DEFAULT_REPEATS,
        until: None,
        order: Order::Interleaved,
        seed: DEFAULT_SEED,
        settings: Vec::new(),
        sweeps: Vec::new(),
    };
    match fields.get("campaign") {
        Some(value) => lower_campaign(value, &mut plan, problems),
        None => fields.missing("campaign", "a table `[campaign]` with a `name`"),
    }
    if fields.get("sweep").is_none() {
        fields.missing("sweep", "at least one `[[sweep]]`");
    }
    let mut n_trials = 0_u64;
    let mut names = HashSet::new();
    for value in fields.tables("sweep") {
        let Some(sweep) = lower_sweep(value, problems) else { continue };
        // Results are addressed by the name of the sweep, so two of one name could not be
        // distinguished.
        if !names.insert(sweep.name.clone()) {
            let message = format!("two sweeps are called `{}`", sweep.name);
            problems.at(value.span(), message, "names that differ");
        }
        let points = sweep
            .axes
            .iter()
            // A large product must not wrap to a small number of trials.
            .fold(1_u64, |points, axis| points.saturating_mul(axis.values.len() as u64));
        let n_arms = (sweep.n_arms() * sweep.offered().len()) as u64;
        let longest = sweep.search.as_ref().map_or(1, |search| u64::from(search.max_trials));
        let runs = (u64::from(sweep.repeats(plan.repeats)) * n_arms).saturating_mul(longest);
        n_trials = n_trials.saturating_add(points.saturating_mul(runs));
        plan.sweeps.push(sweep);
    }
    let campaign = fields.get("campaign").and_then(|value| value.get_ref().as_table());
    if let Some(repeats) = campaign.and_then(|table| table.get("repeats"))
        && repeats::are_unused(&plan)
    {
        let what = "`repeats` looks at points, and every sweep has a number of its own";
        let expected = "a number of `pairs`, or of `repeats` of the search";
        problems.at(repeats.span(), what, expected);
    }
    if n_trials > MAX_TRIALS {
        let message = format!("the plan expands to {n_trials} trials");
        problems.at(whole, message, format!("at most {MAX_TRIALS}"));
    }
    plan
}

/// Why a campaign cannot be called so: its ledger is `NAME.ledger`, in the folder where linerate is
/// run.
fn mistake_in_name(name: &str) -> Option<&'static str> {
    /// A file's name has 255 bytes at most; `.ledger` and what SQLite has beside it belong to them.
    const LONGEST: usize = 200;
    if name.contains('/') {
        Some("has a `/` in it")
    // A ledger that begins with a dot is hidden from listings.
    } else if name.starts_with('.') {
        Some("begins with a dot")
    } else if name.chars().any(char::is_control) {
        Some("has a control character in it")
    } else if name.len() > LONGEST {
        Some("is longer than 200 bytes")
    } else {
        None
    }
}

fn lower_campaign(value: &Spanned<DeValue<'_>>, plan: &mut Plan, problems: &Problems) {
    let Some(fields) = Fields::of(value, "`campaign`", CAMPAIGN_KEYS, problems) else { return };
    plan.name = fields.name("name", "a name for the campaign").unwrap_or_default().to_owned();
    if let Some(mistake) = mistake_in_name(&plan.name) {
        fields.wrong(
            "name",
            format!("`name` {mistake}"),
            "a name that can be a file's: it is that of the ledger",
        );
    }
    (plan.repeats, plan.until) = repeats::read(&fields);
    plan.seed = fields.count("seed", 0..=u64::MAX, DEFAULT_SEED);
    const ORDERS: [&str; 2] = ["interleaved", "sequential"];
    let expected = "\"interleaved\" or \"sequential\"";
    match fields.text("order", expected) {
        None | Some("interleaved") => {}
        Some("sequential") => plan.order = Order::Sequential,
        Some(other) => {
            let problem =
                Problem::new(Some(fields.span_of("order")), format!("`order` is \"{other}\""));
            problems.push(problem.expected(expected).nearest(nearest(other, ORDERS)));
        }
    }
    for value in fields.tables("settings") {
        plan.settings.extend(read_setting(value, problems).map(|setting| (setting, value.span())));
    }
}

fn lower_sweep(value: &Spanned<DeValue<'_>>, problems: &Problems) -> Option<Sweep> {
    let fields = Fields::of(value, "a sweep", SWEEP_KEYS, problems)?;
    let name = fields.name("name", "a name, unique in the plan").unwrap_or_default().to_owned();
    let millisecond = Nanos::from_millis(1);
    let duration = fields.time("duration", millisecond..=MAX_SPAN, DEFAULT_DURATION);
    let interval = fields.time("interval", millisecond..=MAX_SPAN, default_interval(duration));
    let mut sweep = Sweep {
        name,
        duration,
        warmup: lower_warmup(&fields),
        drain: fields.time("drain", Nanos(0)..=MAX_SPAN, DEFAULT_DRAIN),
        rest: fields.time("rest", Nanos(0)..=MAX_SPAN, DEFAULT_REST),
        interval,
        jobs: Vec::new(),
        axes: Vec::new(),
        compare: None,
        together: None,
        search: None,
    };
    if interval > duration {
        fields.wrong(
            "interval",
            format!("`interval` is {interval}"),
            format!("at most the duration of the sweep, {duration}"),
        );
    } else if duration.0 / interval.0 > MAX_INTERVALS {
        let message =
            format!("a trial of {duration} has more than {MAX_INTERVALS} intervals of {interval}");
        fields.wrong("interval", message, "a longer interval");
    }
    if fields.get("job").is_none() {
        fields.missing("job", "at least one `[[sweep.job]]`");
    }
    let jobs = fields.tables("job");
    sweep.jobs = jobs.iter().filter_map(|job| lower_job(job, &sweep, problems)).collect();
    if !sweep.jobs.is_empty() && sweep.jobs.iter().all(|job| job.background.is_some()) {
        // Without a measured job there is nothing to report.
        problems.at(
            fields.span(),
            "every job of the sweep is a background job",
            "at least one without `start` and `duration`: the one that is measured",
        );
    }
    if let Some(value) = fields.get("axis") {
        sweep.axes = axes(value, jobs.len(), problems);
    }
    if let Some(value) = fields.get("compare") {
        sweep.compare = compare::read(value, &sweep, problems);
    }
    if let Some(value) = fields.get("together") {
        sweep.together = together::read(value, &sweep, problems);
        if fields.get("compare").is_some() || fields.get("search").is_some() {
            let other = if fields.get("compare").is_some() { "compare" } else { "search" };
            problems.at(
                value.span(),
                format!("`together` and `{other}` are both there"),
                "one of them; an axis over `pairs` sets two paths against each other",
            );
        }
    }
    if let Some(value) = fields.get("search") {
        sweep.search = search(value, problems);
        // Pairs of searches are counted by `pairs`; a second number could contradict it.
        if sweep.compare.is_some()
            && let Some(repeats) = value.get_ref().as_table().and_then(|table| table.get("repeats"))
        {
            problems.at(
                repeats.span(),
                "`repeats` of a search whose arms are compared",
                "no `repeats`: each pair of `[sweep.compare]` is one search of each arm",
            );
        }
        if let Some(plan) = &sweep.search
            && sweep
                .axes
                .iter()
                // The axis would set the load that the search wants to choose.
                .any(|axis| axis.path.strip_prefix("params.") == Some(&plan.parameter))
        {
            problems.at(
                value.span(),
                format!("`{}` is searched and swept", plan.parameter),
                "an axis or a search over it, not both",
            );
        }
    }
    Some(sweep)
}

/// The interval of a sweep that names none: a tenth of its duration, so that there is something to
/// see within it.
fn default_interval(duration: Nanos) -> Nanos {
    // Not longer than the sweep, which the clamp alone would permit for very short ones.
    Nanos(duration.0 / 10).clamp(LEAST_DEFAULT_INTERVAL, DEFAULT_INTERVAL).min(duration)
}

fn lower_warmup(fields: &Fields<'_, '_>) -> Warmup {
    let expected =
        format!("\"auto\" or a time with its unit up to \"{MAX_SPAN}\", such as \"1 s\"");
    let read = fields.read("warmup", &expected, |value| match value.as_str()? {
        "auto" => Some(Warmup::Auto),
        text => text.parse().ok().filter(|span| *span <= MAX_SPAN).map(Warmup::Fixed),
    });
    read.unwrap_or(Warmup::Auto)
}

fn lower_job(value: &Spanned<DeValue<'_>>, sweep: &Sweep, problems: &Problems) -> Option<JobPlan> {
    let fields = Fields::of(value, "a job", JOB_KEYS, problems)?;
    let workload = fields.name("workload", "the name of a workload, such as \"tcp_stream\"");
    let from = fields.name("from", "the name of the endpoint that connects, such as \"a\"");
    let to = fields.name("to", "the name of the endpoint that listens, such as \"b\"");
    let mut job = JobPlan {
        workload: workload.unwrap_or_default().to_owned(),
        from: from.unwrap_or_default().to_owned(),
        to: to.unwrap_or_default().to_owned(),
        params: Params::default(),
        spans: Vec::new(),
        background: lower_background(&fields, sweep),
    };
    lower_params(&fields, &mut job);
    for key in ["workload", "from", "to"] {
        job.spans.push((key.to_owned(), fields.span_of(key)));
    }
    Some(job)
}

fn lower_params(fields: &Fields<'_, '_>, job: &mut JobPlan) {
    let Some(params) = fields.get("params") else { return };
    let Some(table) = params.get_ref().as_table() else {
        fields.problems.push(wrong_type(params, "`params`", "a table, such as { streams = 4 }"));
        return;
    };
    for (key, value) in table {
        job.spans.push((
            key.get_ref().to_string(),
            key.span().start..value.span().end.max(key.span().end),
        ));
        job.params.set(key.get_ref(), json(value, fields.problems));
    }
}

/// A job with a `start` or a `duration` of its own is a background job. Without a duration it lasts
/// as long as the trial.
fn lower_background(fields: &Fields<'_, '_>, sweep: &Sweep) -> Option<Background> {
    if fields.get("start").is_none() && fields.get("duration").is_none() {
        return None;
    }
    let expected = format!("a time with its unit and sign up to \"{MAX_SPAN}\", such as \"-3 s\"");
    let start = fields.read("start", &expected, |value| signed_time(value.as_str()?));
    let start_ns = start.unwrap_or(0);
    const BOUNDS: RangeInclusive<Nanos> = Nanos::from_millis(1)..=MAX_SPAN;
    // A background job that starts earlier must still last to the end of the trial.
    let whole_trial = Nanos(start_ns.unsigned_abs()) + sweep.duration + warmup_bound(sweep);
    let duration = match fields.get("duration") {
        Some(_) => fields.time("duration", BOUNDS, sweep.duration),
        None => whole_trial,
    };
    Some(Background { start_ns, duration })
}

fn warmup_bound(sweep: &Sweep) -> Nanos {
    match sweep.warmup {
        Warmup::Fixed(span) => span,
        // The length of an automatic warm-up is not known beforehand; this is its upper bound.
        Warmup::Auto => Nanos((sweep.duration.0 / 10).max(2 * sweep.interval.0)),
    }
}

/// A time with an optional sign, in nanoseconds.
fn signed_time(text: &str) -> Option<i64> {
    let text = text.trim();
    // `Nanos` has no sign, because no other time in a plan may be negative.
    let (negative, span) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let span = span.parse::<Nanos>().ok().filter(|span| *span <= MAX_SPAN)?;
    let span = i64::try_from(span.0).ok()?;
    Some(if negative { -span } else { span })
}
