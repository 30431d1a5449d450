//! Section `together`: each job's share of its figure alone, the combined efficiency, the direction
//! matrix, and the shared resource.
//!
//! The study decides (`linerate_analysis::Mix`). The combined efficiency is the sum of the shares:
//! the number of jobs without interference, and 1 if the jobs take turns.

use std::collections::BTreeSet;

use linerate_analysis::compare::{Change, Effect};
use linerate_analysis::{
    Cause, Compared, DirectionMatrix, Joint, MatrixVerdict, MemoryDirection, Mix, MixedJob,
};
use linerate_model::{Estimate, Role as ArmRole};

use super::answer::pairs_needed;
use super::comparison::{table, value};
use super::{Section, Subject};
use crate::curves::{capitalised, uncapitalised};
use crate::document::{Block, Cell, Chart, Column, Lead, NextStep, Plot, Role, Sheet, Table, Tone};
use crate::effects::{shift, verdict};
use crate::grid::coordinate;
use crate::number::{Scale, round_half_up};
use crate::sentences;
use crate::words::count;

/// Confidence of the intervals.
const CONFIDENCE: f64 = 0.95;

/// Section `together`.
pub(super) const SECTION: Section = Section {
    name: "together",
    title: "Alone and together",
    summary: "jobs alone and at once: share of each one's figure alone, combined efficiency, the \
        direction matrix, and the shared resource",
    order: 16,
    blocks,
};

fn blocks(subject: &Subject<'_>) -> Vec<Block> {
    let mut sweeps: Vec<&str> = Vec::new();
    for mix in &subject.study.mixes {
        if !sweeps.contains(&mix.sweep.as_str()) {
            sweeps.push(&mix.sweep);
        }
    }
    let mut blocks: Vec<Block> = sweeps
        .into_iter()
        .enumerate()
        .flat_map(|(number, sweep)| of_sweep(subject, number + 1, sweep))
        .collect();
    // All compared figures follow, folded.
    for (number, comparison) in subject.study.comparisons.iter().enumerate() {
        if comparison.base.role == ArmRole::Alone && !comparison.figures.is_empty() {
            blocks.push(Block::Table(Table {
                folded: true,
                ..table(subject, number + 1, comparison)
            }));
        }
    }
    blocks
}

/// Returns a line for each mix; mixes of a sweep without a loss and with the same result share one.
pub(super) fn told(subject: &Subject<'_>) -> Vec<String> {
    /// Most mixes with lines of their own.
    const READ: usize = 2;
    fn alike(a: &&Mix, b: &&Mix) -> bool {
        let lost = |mix: &Mix| mix.jobs.iter().any(MixedJob::lost);
        let names = |mix: &Mix| -> Vec<String> {
            mix.jobs.iter().map(|job| name(job, &mix.jobs)).collect()
        };
        a.sweep == b.sweep && !lost(a) && !lost(b) && cause(a) == cause(b) && names(a) == names(b)
    }
    let mixes: Vec<&Mix> = subject.study.mixes.iter().collect();
    let groups = mixes.chunk_by(alike);
    groups
        .flat_map(|group| match group {
            [first, ..] if group.len() > READ && !first.jobs.is_empty() => {
                vec![of_group(first, group)]
            }
            _ => group.iter().map(|mix| format!("{}: {}", place(mix), sentence(mix))).collect(),
        })
        .collect()
}

/// Returns the first screen of `mix`: the combined efficiency, the shared resource, and each job's
/// share of its figure alone.
pub(super) fn lead(mix: &Mix) -> Option<Lead> {
    // The job whose change needs most pairs.
    let effects = mix.jobs.iter().map(|job| &job.main.effect);
    let open = effects.filter(|effect| effect.change == Change::Unclear);
    let open = open.max_by_key(|effect| pairs_needed(effect));
    let status = mix.attribution.verdict.word();
    let names: Vec<String> = mix.jobs.iter().map(|job| name(job, &mix.jobs)).collect();
    let n = mix.jobs.len();
    let (figure, basis) = match &mix.joint {
        Some(joint) => {
            let interval = joint.interval.map(|(low, high)| {
                format!("95 % interval {} to {}", round_half_up(low, 3), round_half_up(high, 3))
            });
            let pairs = format!("n {}", joint.n);
            let basis = [pairs].into_iter().chain(interval).collect();
            (format!("{} of {n}", round_half_up(joint.value, 3)), basis)
        }
        None => ("No figure".to_owned(), Vec::new()),
    };
    let left_of = |job: &MixedJob| format!("{} keeps {}", name(job, &mix.jobs), left(&job.main));
    Some(Lead {
        surety: status,
        figure,
        context: format!("combined efficiency of {} together", names.join(" and ")),
        basis,
        label: "Interference",
        status,
        claim: Some(match harm(&mix.jobs) {
            Some(harm) => format!("{harm}; {}", cause_words(&mix.attribution.cause)),
            None => cause_words(&mix.attribution.cause),
        }),
        evidence: mix.jobs.iter().map(left_of).collect(),
        next: open.map(repetition).into_iter().collect(),
        ..Lead::default()
    })
}

/// Returns the step after an inconclusive mix; `effect` needs most pairs.
fn repetition(effect: &Effect) -> NextStep {
    let pairs = pairs_needed(effect);
    NextStep { text: format!("repeat with `pairs = {pairs}` in `[sweep.together]`"), command: None }
}

/// Returns which jobs slow which others, and by how much; `None` if none is shown to lose.
fn harm(jobs: &[MixedJob]) -> Option<String> {
    let spared = |job: &MixedJob| format!("{} keeps its rate", name(job, jobs));
    let lost: Vec<String> =
        jobs.iter().filter(|job| job.lost()).map(|job| slowed(job, jobs)).collect();
    let kept = jobs.iter().filter(|job| job.kept()).map(spared);
    (!lost.is_empty()).then(|| lost.iter().cloned().chain(kept).collect::<Vec<_>>().join("; "))
}

/// Returns which of `jobs` slow `job`, and by how much.
fn slowed(job: &MixedJob, jobs: &[MixedJob]) -> String {
    let others = jobs.iter().filter(|other| other.job != job.job).map(|other| name(other, jobs));
    let others = others.collect::<Vec<_>>().join(" and ");
    let lost = |ratio: f64| round_half_up((1.0 - ratio) * 100.0, 1);
    let effect = &job.main.effect;
    let interval = effect.interval.map_or(String::new(), |(low, high)| {
        format!(" (95 % interval {} to {} %)", lost(high), lost(low))
    });
    let verb = if jobs.len() == 2 { "slows" } else { "together slow" };
    format!("{others} {verb} {} by {} %{interval}", name(job, jobs), lost(effect.shift))
}

/// Returns the verdicts on the points of a group. Undecided points share one text, with the range
/// of the pairs that would decide.
fn verdicts(effects: &[&Effect]) -> String {
    let mut words: BTreeSet<String> = BTreeSet::new();
    let mut needed: Vec<usize> = Vec::new();
    for effect in effects {
        // A doubt is a reason of its own, which more pairs would not remove.
        match effect.needed {
            Some(pairs) if effect.change == Change::Unclear && effect.doubt.is_none() => {
                needed.push(pairs as usize);
            }
            _ => {
                words.insert(verdict(effect));
            }
        }
    }
    if let (Some(least), Some(most)) = (needed.iter().min(), needed.iter().max()) {
        let pairs = if least == most { least.to_string() } else { format!("{least} to {most}") };
        words.insert(format!("inconclusive: about {pairs} pairs would decide"));
    }
    words.into_iter().collect::<Vec<_>>().join("; ")
}

/// Returns the common line of points at which no job lost throughput.
fn of_group(first: &Mix, group: &[&Mix]) -> String {
    fn span(values: Vec<f64>, unit: f64, decimals: usize) -> String {
        let end = |of: fn(f64, f64) -> f64| values.iter().copied().reduce(of).unwrap_or(0.0) / unit;
        let [low, high] =
            [end(f64::min), end(f64::max)].map(|value| round_half_up(value, decimals));
        if low == high { low } else { format!("{low} to {high}") }
    }
    const PERCENT: f64 = 0.01;
    let kept: Vec<String> = first
        .jobs
        .iter()
        .enumerate()
        .map(|(at, job)| {
            let effects =
                || group.iter().filter_map(|mix| mix.jobs.get(at)).map(|job| &job.main.effect);
            let verdicts = verdicts(&effects().collect::<Vec<_>>());
            let left = span(effects().map(|effect| effect.shift).collect(), PERCENT, 1);
            format!("{} {left} % of alone ({verdicts})", name(job, &first.jobs))
        })
        .collect();
    let joint: Vec<f64> =
        group.iter().filter_map(|mix| mix.joint.as_ref()).map(|joint| joint.value).collect();
    let joint = match joint.len() {
        0 => String::new(),
        _ => format!(". Combined efficiency {} of {}", span(joint, 1.0, 3), first.jobs.len()),
    };
    format!(
        "{}, {}: {}{joint}. {}",
        first.sweep,
        count(group.len(), "point"),
        kept.join(", "),
        cause(first)
    )
}

fn of_sweep(subject: &Subject<'_>, number: usize, sweep: &str) -> Vec<Block> {
    let mixes: Vec<&Mix> = subject.study.mixes.iter().filter(|mix| mix.sweep == sweep).collect();
    let mut blocks = vec![Block::List(
        mixes.iter().map(|mix| format!("{}: {}", place(mix), sentence(mix))).collect(),
    )];
    let matrices: Vec<&DirectionMatrix> =
        subject.study.matrices.iter().filter(|matrix| matrix.sweep == sweep).collect();
    for (at, matrix) in matrices.iter().enumerate() {
        blocks.push(Block::Paragraph(matrix_sentence(matrix)));
        blocks.push(Block::Chart(matrix_chart(matrix, (number, at + 1))));
    }
    blocks.extend(kept_chart(&mixes, number).map(Block::Chart));
    blocks.extend(times_table(&mixes, number).map(Block::Table));
    let evidence: Vec<String> = mixes
        .iter()
        .flat_map(|mix| {
            let observed = mix.attribution.evidence.iter().map(sentences::mix_evidence);
            observed.map(move |observed| format!("{}: {observed}", place(mix)))
        })
        .collect();
    blocks.push(Block::List(evidence));
    blocks
}

/// Returns the sweep and coordinate of a mix.
fn place(mix: &Mix) -> String {
    match coordinate(&mix.parameters).as_str() {
        "" => mix.sweep.clone(),
        at => format!("{}, {at}", mix.sweep),
    }
}

/// Returns a job's name, with its endpoints where another job has the same workload.
fn name(job: &MixedJob, jobs: &[MixedJob]) -> String {
    let same = jobs.iter().filter(|other| other.workload == job.workload).count() > 1;
    if same { format!("{} {} to {}", job.workload, job.from, job.to) } else { job.workload.clone() }
}

fn sentence(mix: &Mix) -> String {
    let kept: Vec<String> = mix
        .jobs
        .iter()
        .map(|job| format!("{} {}", name(job, &mix.jobs), left(&job.main)))
        .collect();
    if kept.is_empty() {
        return "inconclusive, no job has a figure both alone and together".into();
    }
    let n = mix.jobs.len();
    let joint = mix
        .joint
        .as_ref()
        .map_or(String::new(), |joint| format!(". Combined efficiency {}", joint_words(joint, n)));
    format!("{}{joint}. {}", kept.join(", "), cause(mix))
}

/// Formats the combined efficiency of `n` jobs.
fn joint_words(joint: &Joint, n: usize) -> String {
    let interval = joint.interval.map_or(String::new(), |(low, high)| {
        format!(" [{}, {}]", round_half_up(low, 3), round_half_up(high, 3))
    });
    format!("{}{interval} of {n} (n {})", round_half_up(joint.value, 3), joint.n)
}

/// Formats the share of a job's figure alone, in per cent.
fn left(main: &Compared) -> String {
    let percent = |ratio: f64| round_half_up(ratio * 100.0, 1);
    let interval = main
        .effect
        .interval
        .map_or(String::new(), |(low, high)| format!(" [{}, {}]", percent(low), percent(high)));
    format!("{}{interval} % of alone ({})", percent(main.effect.shift), verdict(&main.effect))
}

fn cause(mix: &Mix) -> String {
    let words = cause_words(&mix.attribution.cause);
    match mix.attribution.cause {
        Cause::Nothing => capitalised(&words),
        _ => format!("{}: {words}", capitalised(mix.attribution.verdict.word())),
    }
}

fn cause_words(cause: &Cause) -> String {
    match cause {
        Cause::Nothing => "no interference detected".to_owned(),
        Cause::Edge(edge) => format!("the jobs share {edge}, which is saturated"),
        Cause::Cpu => "the jobs compete for the same CPU time".to_owned(),
        Cause::Unknown => "the shared resource is not known".to_owned(),
    }
}

fn matrix_sentence(matrix: &DirectionMatrix) -> String {
    let says = match matrix.says {
        MatrixVerdict::Nothing => {
            "No pair of directions loses throughput, so no shared resource is saturated"
        }
        MatrixVerdict::EachWay => {
            "Jobs in the same direction lose throughput, and jobs in opposite directions do not. \
                The shared resource carries each direction separately, such as PCI Express; CPU \
                and memory are ruled out"
        }
        MatrixVerdict::Undirected => {
            "All pairs of directions lose throughput. The shared resource has no direction, such \
                as CPU, memory or a half-duplex bus"
        }
        MatrixVerdict::Unclear => {
            "Inconclusive: the cells match neither pattern, or are inconclusive themselves"
        }
    };
    format!(
        "Direction matrix of {} and {} at host {}. {says}.",
        matrix.workloads[0], matrix.workloads[1], matrix.host
    )
}

/// Returns the name of a direction: disk reads and received frames go to memory.
const fn way(way: MemoryDirection) -> &'static str {
    match way {
        MemoryDirection::Up => "to memory (disk read, network receive)",
        MemoryDirection::Down => "from memory (disk write, network send)",
        MemoryDirection::Both => "both ways",
    }
}

fn matrix_chart(matrix: &DirectionMatrix, (number, at): (usize, usize)) -> Chart {
    let [first, second] = &matrix.workloads;
    let mut sheet = Sheet::new(directions(matrix, 0));
    sheet.text(&format!("{first}, first"), |down| way(*down).to_owned());
    for across in directions(matrix, 1) {
        let head = format!("{second}, second: {}", way(across));
        let column = Column::undirected(head, Scale::COUNT, None);
        sheet.named(Role::Line, way(across).to_owned(), column, |down| {
            let cell = matrix.cells.iter().find(|cell| cell.ways == [*down, across]);
            joint_cell(cell.and_then(|cell| cell.joint.as_ref()))
        });
    }
    let marks = sheet.marks();
    let at_sweep = &matrix.sweep;
    let title = format!("Combined efficiency by direction: {at_sweep}, host {}", matrix.host);
    let mut table = sheet.plain(format!("together-{number}-matrix-{at}"), title);
    table.note = Some("2: no interference. 1: both take turns at one saturated resource.".into());
    Chart {
        summary: format!(
            "Combined efficiency of {} pairs of directions as a matrix. {}",
            matrix.cells.len(),
            matrix_sentence(matrix)
        ),
        ..Chart::of(Plot::Heat, "combined efficiency", marks, table)
    }
}

/// Returns the directions that a job had in the cells of `matrix`, in order.
fn directions(matrix: &DirectionMatrix, job: usize) -> Vec<MemoryDirection> {
    let mut ways: Vec<MemoryDirection> = matrix.cells.iter().map(|cell| cell.ways[job]).collect();
    // A row and a column of the table for each direction, once.
    ways.sort_unstable();
    ways.dedup();
    ways
}

fn estimate(value: f64, interval: Option<(f64, f64)>, n: usize) -> Cell {
    Cell::Estimate(Estimate {
        value,
        low: interval.map(|(low, _)| low),
        high: interval.map(|(_, high)| high),
        confidence: interval.map(|_| CONFIDENCE),
        n: u32::try_from(n).unwrap_or(u32::MAX),
    })
}

fn joint_cell(joint: Option<&Joint>) -> Cell {
    joint.map_or_else(
        || Cell::Missing("no round has all figures".into()),
        |joint| estimate(joint.value, joint.interval, joint.n),
    )
}

/// Returns the chart of each job's share at each point.
fn kept_chart(mixes: &[&Mix], number: usize) -> Option<Chart> {
    let most = mixes.iter().max_by_key(|mix| mix.jobs.len()).filter(|mix| !mix.jobs.is_empty())?;
    let mut sheet = Sheet::new(mixes);
    sheet.text("point", |mix| match coordinate(&mix.parameters) {
        at if at.is_empty() => mix.sweep.clone(),
        at => at,
    });
    for wanted in &most.jobs {
        let column = Column::undirected(name(wanted, &most.jobs), Scale::PERCENT, None);
        sheet.drawn(Role::Bar, column, |mix| {
            mix.jobs.iter().find(|job| job.job == wanted.job).map_or_else(
                || Cell::Missing("no figure".into()),
                |job| estimate(job.main.effect.shift, job.main.effect.interval, job.main.effect.n),
            )
        });
    }
    let combined = Column::undirected("combined efficiency", Scale::COUNT, None);
    sheet.column(combined, |mix| joint_cell(mix.joint.as_ref()));
    sheet.text("shared resource", |mix| cause(mix));
    let marks = sheet.marks();
    let title = format!("Share of each job's figure alone: {}", most.sweep);
    let mut table = sheet.toned(format!("together-{number}"), title, |mix| {
        if mix.jobs.iter().any(MixedJob::lost) { Tone::Marked } else { Tone::Plain }
    });
    let metrics: Vec<String> = most
        .jobs
        .iter()
        .map(|job| {
            format!("{}: {}", name(job, &most.jobs), uncapitalised(&job.main.metric.title()))
        })
        .collect();
    table.note = Some(format!(
        "Together over alone: each round measures every job alone and all jobs together. Typical \
            ratio (Hodges-Lehmann) with its interval \
         at 95 %. Main figures: {}. The combined efficiency is the sum of the ratios.",
        metrics.join(", ")
    ));
    Some(Chart {
        summary: format!(
            "Share of their figures alone that {} keep together, {}.",
            count(most.jobs.len(), "job"),
            count(mixes.len(), "point")
        ),
        ..Chart::of(Plot::GroupedBars, "share of alone", marks, table)
    })
}

/// Returns the table of times together and alone.
fn times_table(mixes: &[&Mix], number: usize) -> Option<Table> {
    let caption = format!("Times together and alone: {}", mixes.first()?.sweep);
    let times = mixes.iter().flat_map(|mix| {
        mix.jobs.iter().flat_map(move |job| job.times.iter().map(move |time| (mix, job, time)))
    });
    let mut sheet = Sheet::new(times);
    sheet.text("point", |(mix, ..)| place(mix));
    sheet.text("job", |(mix, job, _)| name(job, &mix.jobs));
    sheet.text("time", |(.., time)| time.metric.title());
    sheet.text("alone", |(.., time)| value(time, time.effect.before));
    sheet.text("together", |(.., time)| value(time, time.effect.after));
    sheet.text("change", |(.., time)| shift(time));
    sheet.text("verdict", |(.., time)| verdict(&time.effect));
    let table = sheet.plain(format!("together-{number}-times"), caption);
    (!table.rows.is_empty()).then_some(table)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn effect(needed: u32) -> Effect {
        let effect = json!({
            "figure": "goodput tx", "n": 6, "before": 100.0, "after": 95.0, "scale": "ratio",
            "shift": 0.95, "interval": [0.8, 1.1], "margin": 1.02, "p": 0.2, "better": "more",
            "change": "unclear", "needed": needed, "widest": 1.01, "floor": 1.01,
        });
        serde_json::from_value(effect).expect("an effect")
    }

    #[test]
    fn an_undecided_mix_asks_for_the_pairs_of_the_job_that_needs_most() {
        assert_eq!(repetition(&effect(63)).text, "repeat with `pairs = 63` in `[sweep.together]`");
        assert_eq!(pairs_needed(&effect(2)), 6, "fewer pairs have no interval");
    }

    #[test]
    fn undecided_points_of_a_group_share_one_verdict() {
        let worse = Effect { change: Change::Worse, ..effect(5) };
        let of = |all: &[Effect]| verdicts(&all.iter().collect::<Vec<_>>());
        assert_eq!(
            of(&[effect(63), worse, effect(12), effect(125)]),
            "inconclusive: about 12 to 125 pairs would decide; worse"
        );
        assert_eq!(of(&[effect(7)]), "inconclusive: about 7 pairs would decide");
    }

    /// A job with this effect on its rate.
    fn mixed(number: u32, workload: &str, effect: Effect) -> MixedJob {
        let main = json!({
            "job": number, "metric": "goodput", "unit": "bit/s", "layer": null,
            "direction": "tx", "effect": effect, "placebo": null, "p_adjusted": null, "pairs": 6,
        });
        let job = json!({
            "job": number, "workload": workload, "from": "a", "to": "b", "main": main,
            "times": [], "ways": [],
        });
        serde_json::from_value(job).expect("a job")
    }

    #[test]
    fn the_headline_says_which_job_slows_which_and_by_how_much() {
        let slowed = |shift: f64| Effect {
            change: Change::Worse,
            shift,
            interval: Some((shift - 0.05, shift + 0.05)),
            ..effect(5)
        };
        let kept = || Effect { change: Change::None, ..effect(5) };
        let [disk, net] = ["storage", "tcp_stream"];
        assert_eq!(
            harm(&[mixed(0, disk, kept()), mixed(1, net, slowed(0.6))]).as_deref(),
            Some(
                "storage slows tcp_stream by 40.0 % (95 % interval 35.0 to 45.0 %); storage keeps \
                 its rate"
            )
        );
        let both = harm(&[mixed(0, disk, slowed(0.3)), mixed(1, net, slowed(0.6))]);
        assert_eq!(both.map(|text| text.matches(" slows ").count()), Some(2));
        let three =
            [mixed(0, disk, slowed(0.3)), mixed(1, net, kept()), mixed(2, "udp_stream", kept())];
        let three = harm(&three).expect("one loses");
        assert!(
            three.starts_with("tcp_stream and udp_stream together slow storage by 70"),
            "{three}"
        );
        assert_eq!(harm(&[mixed(0, disk, kept()), mixed(1, net, effect(5))]), None);
    }
}
