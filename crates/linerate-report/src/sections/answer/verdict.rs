//! First screen of a campaign, and the picture of its path. Both show what
//! [`linerate_analysis::headline`] found and nothing else.

use std::collections::BTreeSet;

use linerate_analysis::diagnosis::Advice;
use linerate_analysis::{
    Headline, Limit, Moved, PathEnd, Reading, ReadingKind, Stage, StageCeiling, StageKind, Surety,
};
use linerate_model::{ARM_AXIS, Direction, Layer, Unit, Validity, metric};

use crate::commands::CommandPlace;
use crate::curves::uncapitalised;
use crate::document::{
    Block, Cell, Column, Lead, NextStep, PathPicture, PathStage, Row, StageSeen, Table, Tone,
};
use crate::grid::words;
use crate::number::{Scale, percent, round_half_up};
use crate::sentences;
use crate::words::count;

use super::{measures, workload_label};

/// Text of a stage without an observation.
const UNOBSERVED: &str = "not observed";
/// Most observations on the first screen; the findings list all of them.
const MOST_EVIDENCE: usize = 3;

/// Returns the first screen; `place` completes the commands.
pub(crate) fn lead(headline: &Headline, place: &CommandPlace) -> Lead {
    let limit = &headline.limit;
    // An experiment is stronger than any counter, so it comes first.
    let mut evidence: Vec<String> = experiment_outcome(limit).into_iter().collect();
    evidence.extend(limit.evidence.iter().map(sentences::observation));
    evidence.truncate(MOST_EVIDENCE);
    let lead = Lead {
        surety: surety(limit.surety),
        label: "Bottleneck",
        status: status(limit),
        claim: limit.claim.as_ref().map(sentences::claim),
        evidence,
        next: next_steps(limit, place),
        cost: headline.cpu.as_ref().map(|cpu| measures::cost(headline, cpu)),
        ceiling: measures::ceiling(headline),
        reached: headline.moved.as_ref().and_then(|moved| Some(moved.ceiling.as_ref()?.0)),
        ..Lead::default()
    };
    let subject = subject(headline);
    match (&headline.moved, &headline.unsettled) {
        (Some(moved), _) => Lead {
            figure: headline_figure(moved),
            context: format!("{}{subject}", quantity_of(moved, &headline.workload)),
            basis: basis(moved),
            ..lead
        },
        (None, Some(word)) => Lead {
            figure: "No single number".to_owned(),
            context: format!("for {}{subject}", workload_label(&headline.workload)),
            basis: vec![format!("the rate is {word}")],
            ..lead
        },
        (None, None) => Lead {
            figure: "No figure".to_owned(),
            context: format!("for {}{subject}", workload_label(&headline.workload)),
            basis: vec!["no trial is valid".to_owned()],
            ..lead
        },
    }
}

/// Returns the ends, number of jobs and parameters: `, a to b, 2 jobs (streams 4)`.
fn subject(headline: &Headline) -> String {
    format!("{}{}", ends(headline), place(headline, false))
}

fn ends(headline: &Headline) -> String {
    let Headline { workload, from, to, n_jobs, .. } = headline;
    let jobs = if *n_jobs > 1 { format!(", {}", count(*n_jobs, "job")) } else { String::new() };
    // Without a workload, the sweep is all that names it.
    if workload.is_empty() {
        return format!(", {}", headline.sweep);
    }
    if is_alone(headline) {
        return format!(", {from}{jobs}");
    }
    let others = &headline.others;
    // One sender of all, or one receiver: every path can be named.
    if others.iter().all(|[sender, _]| sender == from) || others.iter().all(|pair| pair[1] == *to) {
        let senders = every(from, others.iter().map(|[sender, _]| sender.as_str()));
        let receivers = every(to, others.iter().map(|[_, receiver]| receiver.as_str()));
        return format!(", {senders} to {receivers}{jobs}");
    }
    format!(", {from} to {to} and {}{jobs}", count(others.len(), "other path"))
}

/// Returns `a`, `a and b` or `a, b and c`: `first` and each other name once.
fn every<'a>(first: &'a str, others: impl Iterator<Item = &'a str>) -> String {
    let others: BTreeSet<&str> = others.filter(|name| *name != first).collect();
    let names: Vec<&str> = std::iter::once(first).chain(others).collect();
    match &names[..] {
        [most @ .., last] if !most.is_empty() => format!("{} and {last}", most.join(", ")),
        _ => first.to_owned(),
    }
}

/// Returns true for a load of one end on its own disk.
pub(super) fn is_alone(headline: &Headline) -> bool {
    headline.from == headline.to
        // No stages prove nothing about the ends.
        || !headline.stages.is_empty() && headline.stages.iter().all(|s| s.end == PathEnd::Sender)
}

/// Returns the coordinate of the point among several; without the arm if `has_arm` names it
/// elsewhere.
fn place(headline: &Headline, has_arm: bool) -> String {
    let axes: Vec<String> = headline
        .parameters
        .iter()
        .filter(|(axis, _)| !has_arm || *axis != ARM_AXIS)
        .map(|(axis, value)| match axis.as_str() {
            ARM_AXIS => words(value),
            axis => format!("{} {}", crate::grid::axis_name(axis), words(value)),
        })
        .collect();
    match axes.as_slice() {
        // A single point needs no coordinate.
        _ if headline.n_points < 2 => String::new(),
        // The sweep of a comparison has the name of its arm.
        [] if has_arm => String::new(),
        // Sweeps of one point differ by their name.
        [] => format!(" ({})", headline.sweep),
        axes => format!(" ({})", axes.join(", ")),
    }
}

fn headline_figure(moved: &Moved) -> String {
    let scale = scale_of(moved);
    let (value, _) = scale.estimate(&moved.estimate);
    format!("{value} {}", scale.symbol)
}

fn scale_of(moved: &Moved) -> Scale {
    let value = [moved.estimate.value];
    // A figure without a metric has only its unit.
    moved.metric.map_or_else(|| Scale::fit(moved.unit, value), |metric| Scale::of(metric, value))
}

/// Returns the name of the figure: `TCP goodput`, `storage IOPS`.
fn quantity_of(moved: &Moved, workload: &str) -> String {
    let label = workload_label(workload);
    let quantity = match moved.metric {
        Some(known) if known == metric::GOODPUT_SERVED => {
            "goodput while files were in flight".to_owned()
        }
        Some(known) if known == metric::TRANSACTION_RATE => "transactions".to_owned(),
        Some(known) if known == metric::CONNECTION_RATE => "connections".to_owned(),
        Some(known) => uncapitalised(known.title),
        // A search has an offered load and no metric.
        None => "offered load".to_owned(),
    };
    format!("{label} {quantity}").trim_start().to_owned()
}

/// Returns layer, sample size, interval and validity of the figure.
fn basis(moved: &Moved) -> Vec<String> {
    let mut basis = Vec::new();
    basis.extend(
        // Only bits depend on the layer.
        moved.layer.filter(|_| moved.unit == Unit::BitPerSecond).map(|layer| layer.to_string()),
    );
    // Elsewhere the layer already says what was counted.
    if moved.direction == Direction::Sum && moved.layer == Some(Layer::L4) {
        basis.push("sum of both directions".to_owned());
    }
    let scale = scale_of(moved);
    if let Some((goal, above)) = &moved.goal {
        // A bound without the goal that it meets means nothing.
        basis.push(format!("meets {goal}"));
        basis
            .extend(above.map(|above| format!("{} {} does not", scale.shown(above), scale.symbol)));
    }
    let n = moved.estimate.n;
    basis.push(if n == 1 { "one run".to_owned() } else { format!("median of {n} runs") });
    let (_, interval) = scale.estimate(&moved.estimate);
    basis.push(match (interval, moved.estimate.confidence) {
        (Some((low, high)), Some(level)) => {
            format!("{} % interval {low} to {high}", round_half_up(level * 100.0, 0))
        }
        // Few runs give no confidence, so it is only their range.
        (Some((low, high)), None) => format!("range {low} to {high}"),
        (None, _) => "no interval".to_owned(),
    });
    if moved.validity != Validity::Valid {
        basis.push(moved.validity.word().to_owned());
    }
    basis
}

/// Returns the status word of the bottleneck.
const fn status(limit: &Limit) -> &'static str {
    match limit.surety {
        Surety::Proven => "proven",
        // Counters name the place of the losses, but no experiment moved them.
        Surety::Suspected | Surety::Located => "suspected",
        Surety::Inconclusive => "inconclusive",
        Surety::NotDiagnosed => {
            // Examined evidence that supports no claim is a result; without any, nothing was
            // tested.
            if limit.evidence.is_empty() { "not tested" } else { "inconclusive" }
        }
    }
}

/// Returns the next steps: an untested claim is tested first.
fn next_steps(limit: &Limit, place: &CommandPlace) -> Vec<NextStep> {
    let advice = limit.next.first();
    // A claim that was tested already has its outcome.
    let is_untested = limit.surety == Surety::Suspected && limit.experiment.is_none();
    let Some(test) = limit.test.as_ref().filter(|_| is_untested) else {
        return advice.map(|advice| place.step(advice)).into_iter().collect();
    };
    let run = NextStep {
        text: "prove the claim or rule it out with experiments".to_owned(),
        command: Some(place.line(test)),
    };
    // The experiments include the recommended change, so its own command is left out.
    let then = advice.map(|advice| {
        let NextStep { text, .. } = place.step(&Advice { command: None, ..advice.clone() });
        NextStep { text: format!("if it is proven, {text}"), command: None }
    });
    [run].into_iter().chain(then).collect()
}

/// Returns the effect of the experiment on the claim.
fn experiment_outcome(limit: &Limit) -> Option<String> {
    let tested = limit.experiment.as_ref()?;
    // Three digits would suggest more than pairs can show.
    let ratio = |ratio: f64| round_half_up(ratio, 2);
    let interval = tested.interval.map(|(low, high)| format!(" [{}, {}]", ratio(low), ratio(high)));
    let control = tested.placebo.map(|shift| format!("; the control, by x{}", ratio(shift)));
    let (interval, control) = (interval.unwrap_or_default(), control.unwrap_or_default());
    let changed = &tested.changed;
    Some(format!("{changed} changed the rate by x{}{interval}{control}", ratio(tested.shift)))
}

/// Returns the stable word of the JSON.
const fn surety(surety: Surety) -> &'static str {
    match surety {
        Surety::Proven => "proven",
        Surety::Suspected => "suspected",
        Surety::Inconclusive => "inconclusive",
        Surety::Located => "located",
        Surety::NotDiagnosed => "not diagnosed",
    }
}

/// Returns the picture of the path; of two arms, the base and the other beside it. `None` where the
/// path has no stages.
pub(super) fn picture(headline: &Headline) -> Option<Block> {
    if headline.stages.is_empty() {
        return None;
    }
    // An arm without stages would leave half of each box empty.
    let against = headline.against.as_deref().filter(|against| !against.stages.is_empty());
    let stages = match against {
        Some(changed) => both(arm_stages(headline, true), arm_stages(changed, true)),
        None => arm_stages(headline, false),
    };
    let arms = against
        .map_or(String::new(), |changed| format!(": {} beside {}", arm(headline), arm(changed)));
    let parts: Vec<String> = stages.iter().map(spoken).collect();
    Some(Block::Path(PathPicture {
        title: format!(
            "Path: {}{}{}{arms}",
            workload_label(&headline.workload),
            ends(headline),
            place(headline, against.is_some())
        ),
        summary: format!("From application to application, {}", parts.join("; ")),
        alone: is_alone(headline),
        table: table(&stages, against.is_some()),
        stages,
    }))
}

/// Returns the name of the arm of `headline`.
fn arm(headline: &Headline) -> String {
    headline.parameters.get(ARM_AXIS).map_or_else(String::new, words)
}

fn arm_stages(headline: &Headline, is_one_of_two: bool) -> Vec<PathStage> {
    let arm = is_one_of_two.then(|| arm(headline));
    headline.stages.iter().map(|stage| drawn(headline, stage, arm.clone())).collect()
}

/// Merges the stages of two arms. At the ends, equal stages stand side by side. Between the ends, a
/// common path is drawn once, and different paths one after the other.
fn both(base: Vec<PathStage>, changed: Vec<PathStage>) -> Vec<PathStage> {
    fn names(stages: &[PathStage]) -> Vec<String> {
        stages
            .iter()
            .filter(|stage| stage.end == PathEnd::Between)
            .map(|stage| stage.name.clone())
            .collect()
    }
    // Only equal paths can be drawn over each other.
    let common = names(&base) == names(&changed);
    let mut stages = base;
    for stage in changed {
        match stages.iter_mut().find(|known| is_beside(known, &stage, common)) {
            Some(known) => {
                // Different programs can stand at the same place.
                if known.name != stage.name {
                    known.name = format!("{} / {}", known.name, stage.name);
                }
                known.seen.extend(stage.seen);
            }
            None => {
                let after = stages
                    .iter()
                    // Stages keep the order of the path.
                    .rposition(|known| known.end <= stage.end)
                    .map_or(0, |last| last + 1);
                stages.insert(after, stage);
            }
        }
    }
    stages
}

/// Returns whether `stage` is drawn beside `known`, which belongs to the other arm.
fn is_beside(known: &PathStage, stage: &PathStage, has_common_path: bool) -> bool {
    let alike = (known.end, known.place) == (stage.end, stage.place)
        && (has_common_path || known.end != PathEnd::Between);
    // A stage never joins one of its own arm.
    alike && known.seen.len() == 1 && known.seen[0].arm != stage.seen[0].arm
}

fn drawn(headline: &Headline, stage: &Stage, arm: Option<String>) -> PathStage {
    // A rate in bits comes before one in packets in the order of the readings.
    let rated = |reading: &&Reading| {
        matches!(reading.unit, Unit::BitPerSecond | Unit::PacketPerSecond | Unit::BytePerSecond)
    };
    // The first rate is the main one.
    let rate = stage.readings.iter().find(rated);
    let others =
        // Two readings of a kind would repeat it.
        stage.readings.iter().filter(|reading| rate.is_none_or(|rate| rate.kind != reading.kind));
    let mut details: Vec<String> =
        rate.map(|rate| kind_words(rate.kind).to_owned()).into_iter().collect();
    // The loss ledger already counts the drops of a place.
    let details_of =
        others.filter(|reading| stage.lost.is_none() || reading.kind != ReadingKind::Dropped);
    details.extend(details_of.map(detail));
    let seen = StageSeen {
        arm,
        rate: rate.map(|rate| figure(rate.value, rate.unit, rate.layer)),
        details,
        ceiling: stage
            .ceiling
            .as_ref()
            .and_then(|ceiling| bound(headline, stage.end, ceiling, rate)),
        lost: stage.lost.map(|lost| {
            // A search drives the path above its goal on purpose.
            match (lost, headline.moved.as_ref().is_some_and(|moved| moved.goal.is_some())) {
                (0, _) => "nothing lost".to_owned(),
                (_, true) => format!("{lost} lost at the loads above"),
                (_, false) => format!("{lost} lost"),
            }
        }),
        loses: stage.lost.is_some_and(|lost| lost > 0),
        limit: stage.limits.then(|| match headline.limit.surety {
            Surety::Proven | Surety::Suspected => {
                format!("limit, {}", status(&headline.limit))
            }
            Surety::Located => "lost here".to_owned(),
            Surety::Inconclusive | Surety::NotDiagnosed => status(&headline.limit).to_owned(),
        }),
    };
    PathStage { end: stage.end, place: stage.place, name: named(stage), seen: vec![seen] }
}

fn named(stage: &Stage) -> String {
    let at = if stage.host.is_empty() { String::new() } else { format!(" on {}", stage.host) };
    let name = if stage.name.is_empty() { word(stage.place) } else { stage.name.as_str() };
    format!("{name}{at}")
}

/// Returns the name of a place.
pub(crate) const fn word(place: StageKind) -> &'static str {
    match place {
        StageKind::Application => "application",
        StageKind::Cache => "page cache",
        StageKind::Disk => "disk",
        StageKind::Socket => "socket and kernel",
        StageKind::Queue => "queue",
        StageKind::Interface => "interface",
        StageKind::Bus => "bus",
        StageKind::Wire => "between",
    }
}

fn detail(reading: &Reading) -> String {
    let value = figure(reading.value, reading.unit, reading.layer);
    match reading.kind {
        ReadingKind::BytesPerCall => format!("{value} per call"),
        ReadingKind::ServedByDisk => format!("{value} of it from the disk"),
        ReadingKind::Transfers => format!("{} transfers per second", short(reading.value)),
        kind => format!("{} {value}", kind_words(kind)),
    }
}

/// Returns the words for a reading in the picture of a path.
const fn kind_words(kind: ReadingKind) -> &'static str {
    match kind {
        ReadingKind::Accepted | ReadingKind::Received => "received",
        ReadingKind::AdvertisedWindow => "advertised window",
        ReadingKind::BacklogDrops => "dropped at the backlog",
        ReadingKind::BufferFill => "receive buffer filled",
        ReadingKind::BufferWait => "waited for its send buffer",
        ReadingKind::BusiestThreadCpu => "CPU of the busiest thread",
        ReadingKind::Busy => "busy",
        ReadingKind::BytesPerCall => "payload per call",
        ReadingKind::CongestionWindow => "congestion window",
        ReadingKind::Dropped => "dropped",
        ReadingKind::Forwarded => "forwarded",
        ReadingKind::HandedOver => "passed to the socket",
        ReadingKind::InFlight => "in flight",
        ReadingKind::LoadCpu => "CPU of the load's threads",
        ReadingKind::Packets => "packets",
        ReadingKind::Passed => "passed",
        ReadingKind::Queued => "queued",
        ReadingKind::QuotaExhausted => "without CPU quota",
        ReadingKind::Read => "read",
        ReadingKind::ReadAndWritten => "read and written",
        ReadingKind::Refused => "refused",
        ReadingKind::Retransmitted => "retransmitted",
        ReadingKind::RoundTrip => "round-trip time",
        ReadingKind::Sent => "sent",
        ReadingKind::ServedByDisk => "from the disk",
        ReadingKind::SoftirqCpu => "CPU of the busiest softirq",
        ReadingKind::Transfers => "transfers",
        ReadingKind::WindowWait => "waited for the peer's window",
        ReadingKind::Written => "written",
    }
}

pub(super) fn figure(value: f64, unit: Unit, layer: Option<Layer>) -> String {
    /// Bytes in 1 KiB, IEC 80000-13.
    const KIBI: f64 = 1024.0;
    // Other units mean the same at every layer.
    let layer = layer
        .filter(|_| unit == Unit::BitPerSecond)
        .map_or(String::new(), |layer| format!(" {layer}"));
    match unit {
        // Part of a core is easier to read in per cent.
        Unit::Core => format!("{} % of a core", short(value * 100.0)),
        Unit::Byte if value >= KIBI * KIBI => format!("{} MiB", short(value / KIBI / KIBI)),
        Unit::Byte if value >= KIBI => format!("{} KiB", short(value / KIBI)),
        Unit::Byte | Unit::Count => {
            format!("{}{}", short(value), if unit == Unit::Byte { " B" } else { "" })
        }
        Unit::PerSecond => format!("{} per second", short(value)),
        unit => {
            let scale = Scale::fit(unit, [value]);
            format!("{} {}{layer}", short(value / scale.factor), scale.symbol)
        }
    }
}

/// Formats three digits; whole numbers stay whole.
fn short(value: f64) -> String {
    let places = match value.abs() {
        // A count has no decimals to round.
        size if size >= 100.0 || size.fract() == 0.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 0.1 => 2,
        _ => 3,
    };
    round_half_up(value, places)
}

/// Returns a ceiling in words, and the share of it that the stage reached. Between the ends, the
/// share is of the data that arrived. An expected value far above the rate is left out.
fn bound(
    headline: &Headline,
    end: PathEnd,
    ceiling: &StageCeiling,
    rate: Option<&Reading>,
) -> Option<(String, Option<f64>)> {
    /// Share below which an expected value is left out.
    const FAR: f64 = 0.2;
    // A share needs two figures of the same unit at the same layer.
    let alike = rate.filter(|rate| rate.unit == ceiling.unit && rate.layer == ceiling.layer);
    let arrived = headline.moved.as_ref().filter(|moved| {
        let alike = moved.unit == ceiling.unit && moved.layer == ceiling.layer;
        alike
            && end == PathEnd::Between
            // Several jobs share the path, so one of them does not show what arrived.
            && headline.n_jobs == 1
            && moved.direction != Direction::Sum
    });
    let reached = alike.map(|rate| rate.value).or(arrived.map(|moved| moved.estimate.value));
    let share = reached.map(|reached| reached / ceiling.value);
    let value = figure(ceiling.value, ceiling.unit, ceiling.layer);
    if ceiling.hard {
        return Some((format!("ceiling {value}"), share));
    }
    // A bound that is far away explains nothing.
    share.is_some_and(|share| share > FAR).then(|| (format!("{value}, {}", ceiling.name), share))
}

/// Describes a stage for readers who cannot see the picture.
fn spoken(stage: &PathStage) -> String {
    let mut parts = vec![format!("{} {}", word(stage.place), stage.name)];
    for seen in &stage.seen {
        parts.extend(seen.arm.iter().cloned());
        parts.push(observed(seen));
        parts.extend(seen.ceiling.iter().map(|(text, _)| text.clone()));
        // Screen readers have no colour for the limit.
        parts.extend(seen.limit.iter().map(|limit| limit.to_uppercase()));
    }
    parts.join(", ")
}

fn observed(seen: &StageSeen) -> String {
    if seen.is_nothing() {
        return UNOBSERVED.to_owned();
    }
    let parts: Vec<String> =
        seen.rate.iter().chain(&seen.details).chain(&seen.lost).cloned().collect();
    parts.join(", ")
}

fn table(stages: &[PathStage], of_arms: bool) -> Table {
    let arm = of_arms.then_some("arm");
    let heads =
        ["stage", "what"].into_iter().chain(arm).chain(["observed", "ceiling", "of it", "limit"]);
    let mut table =
        Table::new("answer-path", "The path, stage by stage", heads.map(Column::text).collect());
    fn of_stage(stage: &'_ PathStage, seen: &StageSeen) -> Row {
        let text = |text: Option<String>| Cell::text_or(text, "–");
        let ceiling = seen.ceiling.as_ref();
        let mut cells = vec![Cell::text(word(stage.place)), Cell::text(&stage.name)];
        cells.extend(seen.arm.as_ref().map(Cell::text));
        cells.extend([
            if seen.is_nothing() {
                Cell::Missing(UNOBSERVED.into())
            } else {
                Cell::Text(observed(seen))
            },
            text(ceiling.map(|(words, _)| words.clone())),
            text(
                ceiling.and_then(|(_, share)| *share).map(|share| format!("{} %", percent(share))),
            ),
            text(seen.limit.clone()),
        ]);
        Row { cells, tone: if seen.limit.is_some() { Tone::Marked } else { Tone::Plain } }
    }
    let rows =
        stages.iter().flat_map(|stage| stage.seen.iter().map(move |seen| of_stage(stage, seen)));
    table.rows = rows.collect();
    table.note = Some(
        "Medians over the trials that carry figures. L4: payload; L2: frames without their check \
            sequence. Stages without measurements are marked \"not observed\"."
            .into(),
    );
    table.folded = true;
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sender_and_receiver_of_the_figure_is_named_where_they_fit() {
        let named = |others: &[[&str; 2]]| {
            let headline = serde_json::json!({
                "sweep": "s", "parameters": {}, "n_points": 1, "workload": "tcp_stream",
                "from": "a", "to": "b", "n_jobs": 1 + others.len(), "others": others,
                "stages": [], "moved": null,
                "limit": { "surety": "not_diagnosed", "rule": null, "claim": null, "evidence": [],
                    "experiment": null, "test": null, "steps": [] },
            });
            ends(&serde_json::from_value(headline).expect("a headline"))
        };
        assert_eq!(named(&[]), ", a to b");
        assert_eq!(named(&[["a", "c"]]), ", a to b and c, 2 jobs");
        assert_eq!(named(&[["a", "c"], ["a", "d"]]), ", a to b, c and d, 3 jobs");
        assert_eq!(named(&[["c", "b"]]), ", a and c to b, 2 jobs");
        assert_eq!(named(&[["c", "d"]]), ", a to b and 1 other path, 2 jobs");
    }

    #[test]
    fn figures_keep_three_digits_and_their_unit() {
        assert_eq!(figure(28_942_079.0, Unit::BitPerSecond, Some(Layer::L4)), "28.9 Mbit/s L4");
        assert_eq!(figure(0.051, Unit::Core, None), "5.10 % of a core");
        assert_eq!(figure(65_536.0, Unit::Byte, None), "64 KiB");
        assert_eq!(figure(37_376.0, Unit::Byte, None), "36.5 KiB");
        assert_eq!(figure(12.0, Unit::Count, None), "12");
    }

    /// Stages of the path of one arm: the application of both ends, and `ways` between them.
    fn path(arm: &str, ways: &[&str]) -> Vec<PathStage> {
        let stage = |end, place, name: &str| {
            let seen = StageSeen { arm: Some(arm.into()), ..StageSeen::default() };
            PathStage { end, place, name: name.into(), seen: vec![seen] }
        };
        let sends = [
            stage(PathEnd::Sender, StageKind::Application, "load"),
            stage(PathEnd::Sender, StageKind::Interface, arm),
        ];
        let between = ways.iter().map(|way| stage(PathEnd::Between, StageKind::Wire, way));
        sends
            .into_iter()
            .chain(between)
            .chain([stage(PathEnd::Receiver, StageKind::Application, "load")])
            .collect()
    }

    fn shown(stages: &[PathStage]) -> Vec<(&str, usize)> {
        stages.iter().map(|stage| (stage.name.as_str(), stage.seen.len())).collect()
    }

    #[test]
    fn arms_share_the_stages_they_both_pass_and_keep_their_own_ways_apart() {
        let same = both(path("base", &["link", "link"]), path("more", &["link", "link"]));
        assert_eq!(
            shown(&same),
            [("load", 2), ("base / more", 2), ("link", 2), ("link", 2), ("load", 2)]
        );
        assert!(
            same.iter().all(|stage| stage.seen[0].arm.as_deref() == Some("base")),
            "the base first"
        );
        let other = both(path("wire", &["link"]), path("device", &["in", "device", "out"]));
        let ways = [
            ("load", 2),
            ("wire / device", 2),
            ("link", 1),
            ("in", 1),
            ("device", 1),
            ("out", 1),
            ("load", 2),
        ];
        assert_eq!(shown(&other), ways);
    }
}
