//! The verdict in one sentence, and the picture of the path it is about. Both say what
//! [`linerate_analysis::headline`] found and nothing else: a stage that nobody looked at says so.

use linerate_analysis::{
    Headline, Limit, Moved, PathEnd, Reading, Stage, StageCeiling, StageKind, Surety,
};
use linerate_model::{ARM_AXIS, Direction, Layer, Unit, metric};

use crate::document::{
    Block, Cell, Column, Lead, PathPicture, PathStage, Row, StageSeen, Table, Tone,
};
use crate::grid::words;
use crate::number::{Scale, percent, round_half_up};
use crate::words::count;

use super::workload_label;

/// What stands where nobody looked.
const UNOBSERVED: &str = "not observed";

/// The sentence as a block.
pub(super) fn lead(headline: &Headline) -> Lead {
    Lead { surety: surety(headline.limit.surety), text: sentence(headline) }
}

/// The figure, what it is of, and how good it is; the bottleneck and how sure that is; what to do
/// next.
fn sentence(headline: &Headline) -> String {
    let (what, place) = (what(headline), place(headline, false));
    let limit = limit(&headline.limit);
    let Some(moved) = &headline.moved else {
        return match &headline.unsettled {
            Some(word) => format!("{what}{place}: no single number, {word}. {limit}"),
            None => format!("{what}: no trial carries a figure."),
        };
    };
    format!("{}. {limit}", rate(moved, &format!("{what}{place}")))
}

/// What was loaded: `TCP, a to b`.
fn what(headline: &Headline) -> String {
    let Headline { workload, from, to, n_jobs, .. } = headline;
    let jobs = if *n_jobs > 1 { format!(", {}", count(*n_jobs, "job")) } else { String::new() };
    if workload.is_empty() {
        return headline.sweep.clone();
    }
    if is_alone(headline) {
        return format!("{}, {from}{jobs}", workload_label(workload));
    }
    format!("{}, {from} to {to}{jobs}", workload_label(workload))
}

/// Whether it is the load of one end on its disk.
fn is_alone(headline: &Headline) -> bool {
    headline.from == headline.to
        || !headline.stages.is_empty() && headline.stages.iter().all(|s| s.end == PathEnd::Sender)
}

/// Of many points, which it is; without the arm where that is told elsewhere.
fn place(headline: &Headline, is_arm_told: bool) -> String {
    let axes: Vec<String> = headline
        .parameters
        .iter()
        .filter(|(axis, _)| !is_arm_told || *axis != ARM_AXIS)
        .map(|(axis, value)| match axis.as_str() {
            ARM_AXIS => words(value),
            axis => format!("{} {}", crate::grid::axis_name(axis), words(value)),
        })
        .collect();
    match axes.as_slice() {
        _ if headline.n_points < 2 => String::new(),
        // A sweep that is compared is called like its arm.
        [] if is_arm_told => String::new(),
        [] => format!(" ({})", headline.sweep),
        axes => format!(" ({})", axes.join(", ")),
    }
}

/// The figure of `of`: `95.6 Mbit/s goodput: TCP, a to b (L4, median of 6 runs), 99.9 % of what the
/// path allows`.
fn rate(moved: &Moved, of: &str) -> String {
    let scale = Scale::fit(&moved.metric, moved.unit, [moved.estimate.value]);
    let (value, interval) = scale.estimate(&moved.estimate);
    let interval = interval.map_or(String::new(), |(low, high)| format!(" [{low}, {high}]"));
    let figure = format!("{value}{interval} {}", scale.symbol);
    let n = moved.estimate.n;
    let runs =
        if n == 1 { "one run, no interval".to_owned() } else { format!("median of {n} runs") };
    if let Some((goal, above)) = &moved.goal {
        let above =
            above.map_or(String::new(), |above| format!(", {} does not", scale.shown(above)));
        return format!("{figure} meets {goal}: {of} ({runs}{above})");
    }
    let what = match (moved.metric.as_str(), moved.layer) {
        (metric::GOODPUT, _) => " goodput",
        (metric::GOODPUT_SERVED, _) => " goodput while files were under way",
        (metric::TRANSACTION_RATE, _) => " transactions",
        (metric::CONNECTION_RATE, _) => " connections",
        _ => "",
    };
    let ways = if moved.direction == Direction::Sum && moved.layer == Some(Layer::L4) {
        ", all directions"
    } else {
        ""
    };
    let layer = moved
        .layer
        .filter(|_| moved.unit == Unit::BitPerSecond)
        .map_or(String::new(), |l| format!("{l}, "));
    let share = moved
        .share
        .map_or(String::new(), |share| format!(", {} % of what the path allows", percent(share)));
    let standing = match moved.validity {
        linerate_model::Validity::Valid => String::new(),
        other => format!(", {}", other.word()),
    };
    format!("{figure}{what}: {of} ({layer}{runs}{ways}{standing}){share}")
}

/// The bottleneck, with its status word, and the next step.
fn limit(limit: &Limit) -> String {
    let next = limit.next.as_ref().map_or(String::new(), |next| format!(" Next: {next}."));
    let claim = limit.claim.as_deref().unwrap_or_default();
    let told = match limit.surety {
        Surety::NotDiagnosed if claim.is_empty() => "Bottleneck: not diagnosed.".to_owned(),
        Surety::NotDiagnosed => format!("Bottleneck: not diagnosed; {claim}."),
        Surety::Located => format!("Bottleneck: {claim}."),
        Surety::Inconclusive => format!("Bottleneck: inconclusive; {claim}."),
        Surety::Suspected => match how(limit) {
            None => format!("Bottleneck (suspected, not tested): {claim}."),
            Some(how) => format!("Bottleneck (suspected, tested without proof): {claim} ({how})."),
        },
        Surety::Proven => {
            let how = how(limit).map_or(String::new(), |how| format!(" ({how})"));
            format!("Bottleneck (proven): {claim}{how}.")
        }
    };
    // What is proven or located needs no further test here.
    if matches!(limit.surety, Surety::Proven | Surety::Located) { told } else { told + &next }
}

/// What the experiment made of goodput.
fn how(limit: &Limit) -> Option<String> {
    let tested = limit.experiment.as_ref()?;
    let ratio = |ratio: f64| round_half_up(ratio, 2);
    let interval = tested.interval.map(|(low, high)| format!(" [{}, {}]", ratio(low), ratio(high)));
    let placebo = tested.placebo.map(|shift| format!(", a placebo x{}", ratio(shift)));
    let (interval, placebo) = (interval.unwrap_or_default(), placebo.unwrap_or_default());
    Some(format!("{} makes it x{}{interval}{placebo}", tested.changed, ratio(tested.shift)))
}

const fn surety(surety: Surety) -> &'static str {
    match surety {
        Surety::Proven => "proven",
        Surety::Suspected => "suspected",
        Surety::Inconclusive => "inconclusive",
        Surety::Located => "located",
        Surety::NotDiagnosed => "not diagnosed",
    }
}

/// The picture as a block: of two arms the first one and the other beside it. Nothing where the
/// path has no stages.
pub(super) fn picture(headline: &Headline) -> Option<Block> {
    if headline.stages.is_empty() {
        return None;
    }
    let against = headline.against.as_deref().filter(|against| !against.stages.is_empty());
    let stages = match against {
        Some(changed) => both(arm_stages(headline, true), arm_stages(changed, true)),
        None => arm_stages(headline, false),
    };
    let arms = against
        .map_or(String::new(), |changed| format!(": {} beside {}", arm(headline), arm(changed)));
    let told: Vec<String> = stages.iter().map(spoken).collect();
    Some(Block::Path(PathPicture {
        title: format!(
            "The path of {}{}{arms}",
            what(headline),
            place(headline, against.is_some())
        ),
        summary: format!("From application to application, {}", told.join("; ")),
        alone: is_alone(headline),
        table: table(&stages, against.is_some()),
        stages,
    }))
}

/// What the arm that `headline` speaks of is called.
fn arm(headline: &Headline) -> String {
    headline.parameters.get(ARM_AXIS).map_or_else(String::new, words)
}

fn arm_stages(headline: &Headline, is_one_of_two: bool) -> Vec<PathStage> {
    let arm = is_one_of_two.then(|| arm(headline));
    headline.stages.iter().map(|stage| drawn(headline, stage, arm.clone())).collect()
}

/// The stages of two arms: at the ends each beside its like; between them as one path if they have
/// it in common, else one after the other.
fn both(base: Vec<PathStage>, changed: Vec<PathStage>) -> Vec<PathStage> {
    let names = |stages: &[PathStage]| -> Vec<String> {
        stages
            .iter()
            .filter(|stage| stage.end == PathEnd::Between)
            .map(|stage| stage.name.clone())
            .collect()
    };
    let common = names(&base) == names(&changed);
    let mut stages = base;
    for stage in changed {
        let is_like = |known: &&mut PathStage| {
            let alike = (known.end, known.place) == (stage.end, stage.place)
                && (common || known.end != PathEnd::Between);
            alike && known.seen.len() == 1 && known.seen[0].arm != stage.seen[0].arm
        };
        match stages.iter_mut().find(is_like) {
            Some(known) => {
                if known.name != stage.name {
                    known.name = format!("{} / {}", known.name, stage.name);
                }
                known.seen.extend(stage.seen);
            }
            None => {
                let after = stages
                    .iter()
                    .rposition(|known| known.end <= stage.end)
                    .map_or(0, |last| last + 1);
                stages.insert(after, stage);
            }
        }
    }
    stages
}

fn drawn(headline: &Headline, stage: &Stage, arm: Option<String>) -> PathStage {
    // Bits say more than packets, packets more than nothing.
    let rated = |reading: &&Reading| {
        matches!(reading.unit, Unit::BitPerSecond | Unit::PacketPerSecond | Unit::BytePerSecond)
    };
    let rate = stage.readings.iter().find(rated);
    let others =
        stage.readings.iter().filter(|reading| rate.is_none_or(|rate| rate.what != reading.what));
    let mut details: Vec<String> = rate.map(|rate| rate.what.clone()).into_iter().collect();
    // What the ledger of losses says of a place is said once.
    let details_of = others.filter(|reading| stage.lost.is_none() || reading.what != "dropped");
    details.extend(details_of.map(detail));
    let standing = surety(headline.limit.surety);
    let seen = StageSeen {
        arm,
        rate: rate.map(|rate| figure(rate.value, rate.unit, rate.layer)),
        details,
        ceiling: stage
            .ceiling
            .as_ref()
            .and_then(|ceiling| bound(headline, stage.end, ceiling, rate)),
        lost: stage.lost.map(|lost| {
            match (lost, headline.moved.as_ref().is_some_and(|moved| moved.goal.is_some())) {
                (0, _) => "nothing lost".to_owned(),
                (_, true) => format!("{lost} lost at the loads above"),
                (_, false) => format!("{lost} lost"),
            }
        }),
        loses: stage.lost.is_some_and(|lost| lost > 0),
        limit: stage.limits.then(|| match standing {
            "proven" | "suspected" => format!("the limit, {standing}"),
            "located" => "lost here".to_owned(),
            other => other.to_owned(),
        }),
    };
    PathStage { end: stage.end, place: stage.place, name: named(stage), seen: vec![seen] }
}

fn named(stage: &Stage) -> String {
    let at = if stage.host.is_empty() { String::new() } else { format!(" on {}", stage.host) };
    let name = if stage.name.is_empty() { word(stage.place) } else { stage.name.as_str() };
    format!("{name}{at}")
}

/// What a place is called.
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
    match reading.what.as_str() {
        "a call" => format!("{value} a call"),
        what if what.starts_with("of it the") => format!("{value} {what}"),
        "transfers" => format!("{} transfers a second", short(reading.value)),
        what => format!("{what} {value}"),
    }
}

fn figure(value: f64, unit: Unit, layer: Option<Layer>) -> String {
    /// Bytes in 1 KiB, IEC 80000-13.
    const KIBI: f64 = 1024.0;
    let layer = layer
        .filter(|_| unit == Unit::BitPerSecond)
        .map_or(String::new(), |layer| format!(" {layer}"));
    match unit {
        Unit::Core => format!("{} % of a core", short(value * 100.0)),
        Unit::Byte if value >= KIBI * KIBI => format!("{} MiB", short(value / KIBI / KIBI)),
        Unit::Byte if value >= KIBI => format!("{} KiB", short(value / KIBI)),
        Unit::Byte | Unit::Count => {
            format!("{}{}", short(value), if unit == Unit::Byte { " B" } else { "" })
        }
        Unit::PerSecond => format!("{} a second", short(value)),
        unit => {
            let scale = Scale::fit("", unit, [value]);
            format!("{} {}{layer}", short(value / scale.factor), scale.symbol)
        }
    }
}

/// Three digits, whole numbers whole.
fn short(value: f64) -> String {
    let places = match value.abs() {
        size if size >= 100.0 || size.fract() == 0.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 0.1 => 2,
        _ => 3,
    };
    round_half_up(value, places)
}

/// A ceiling in words, and the share of it that was reached: of what was counted there, or between
/// the ends of what arrived. What is expected and far from being reached says nothing.
fn bound(
    headline: &Headline,
    end: PathEnd,
    ceiling: &StageCeiling,
    rate: Option<&Reading>,
) -> Option<(String, Option<f64>)> {
    /// Less than this share of an expected value leaves it out.
    const FAR: f64 = 0.2;
    let alike = rate.filter(|rate| rate.unit == ceiling.unit && rate.layer == ceiling.layer);
    let arrived = headline.moved.as_ref().filter(|moved| {
        let alike = moved.unit == ceiling.unit && moved.layer == ceiling.layer;
        alike
            && end == PathEnd::Between
            && headline.n_jobs == 1
            && moved.direction != Direction::Sum
    });
    let reached = alike.map(|rate| rate.value).or(arrived.map(|moved| moved.estimate.value));
    let share = reached.map(|reached| reached / ceiling.value);
    let value = figure(ceiling.value, ceiling.unit, ceiling.layer);
    if ceiling.hard {
        return Some((format!("ceiling {value}"), share));
    }
    share.is_some_and(|share| share > FAR).then(|| (format!("{value}, {}", ceiling.name), share))
}

/// A stage for those who do not see it.
fn spoken(stage: &PathStage) -> String {
    let mut told = vec![format!("{} {}", word(stage.place), stage.name)];
    for seen in &stage.seen {
        told.extend(seen.arm.iter().cloned());
        told.push(observed(seen));
        told.extend(seen.ceiling.iter().map(|(text, _)| text.clone()));
        told.extend(seen.limit.iter().map(|limit| limit.to_uppercase()));
    }
    told.join(", ")
}

fn observed(seen: &StageSeen) -> String {
    if seen.is_nothing() {
        return UNOBSERVED.to_owned();
    }
    let told: Vec<String> =
        seen.rate.iter().chain(&seen.details).chain(&seen.lost).cloned().collect();
    told.join(", ")
}

fn table(stages: &[PathStage], of_arms: bool) -> Table {
    let arm = of_arms.then_some("arm");
    let heads =
        ["stage", "what"].into_iter().chain(arm).chain(["observed", "ceiling", "of it", "limit"]);
    let mut table =
        Table::new("answer-path", "The path, stage by stage", heads.map(Column::text).collect());
    let of_stage = |stage: &'_ PathStage, seen: &StageSeen| {
        let text =
            |text: Option<String>| text.map_or_else(|| Cell::Missing("–".into()), Cell::Text);
        let ceiling = seen.ceiling.as_ref();
        let mut cells = vec![Cell::text(word(stage.place)), Cell::text(&stage.name)];
        cells.extend(seen.arm.as_ref().map(Cell::text));
        cells.extend([
            if seen.is_nothing() {
                Cell::Missing(UNOBSERVED.into())
            } else {
                Cell::Text(observed(seen))
            },
            text(ceiling.map(|(told, _)| told.clone())),
            text(
                ceiling.and_then(|(_, share)| *share).map(|share| format!("{} %", percent(share))),
            ),
            text(seen.limit.clone()),
        ]);
        Row { cells, tone: if seen.limit.is_some() { Tone::Marked } else { Tone::Plain } }
    };
    let rows =
        stages.iter().flat_map(|stage| stage.seen.iter().map(move |seen| of_stage(stage, seen)));
    table.rows = rows.collect();
    table.note = Some(
        "Medians over the trials that carry figures. L4: payload; L2: frames without their check \
            sequence. Stages \
         without measurements are marked \"not observed\"."
            .into(),
    );
    table.folded = true;
    table
}

#[cfg(test)]
mod tests {
    use super::*;

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
            let seen = StageSeen {
                arm: Some(arm.into()),
                rate: None,
                details: Vec::new(),
                ceiling: None,
                lost: None,
                loses: false,
                limit: None,
            };
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
