//! Changed and open figures of a comparison of campaigns, and the next step for them.

use linerate_analysis::Compared;
use linerate_analysis::compare::{Campaigns, Change};

use super::{Named, place};
use crate::commands::{Repeated, quoted, repeat_command};
use crate::curves::uncapitalised;
use crate::document::NextStep;
use crate::effects::{name, shift, verdict};
use crate::words::count;

/// Most figures on the first screen.
const MOST_LISTED: usize = 5;

/// Returns the next step: the bottleneck of a worse campaign, or more runs of an undecided one,
/// whose `open` figures are in the order of their importance.
pub(super) fn next_step(
    open: &[(String, &Compared)],
    after: Named<'_>,
    status: &str,
) -> Option<NextStep> {
    let words = ["linerate", "diagnose", after.name].map(quoted);
    match status {
        "worse" => Some(NextStep {
            text: format!("find the bottleneck of {}", after.name),
            command: Some(words.join(" ")),
        }),
        "inconclusive" => {
            // The noisiest of all figures may need a thousand runs, which nobody would make, so the
            // most important open figure sets the number.
            let (place, figure, needed) = open.iter().find_map(|(place, figure)| {
                figure.effect.needed.map(|needed| (place, figure, needed))
            })?;
            Some(NextStep {
                text: format!(
                    "to decide on {} ({place}), measure both campaigns again with {needed} runs \
                        per point",
                    uncapitalised(&name(figure))
                ),
                command: repeat_command(&after.header.argv, Repeated::Runs, needed as usize),
            })
        }
        _ => None,
    }
}

/// Returns the figures with this `change` and their place, those over all points first.
pub(super) fn figures_with(result: &Campaigns, change: Change) -> Vec<(String, &Compared)> {
    let of_whole = result.overall.iter().map(|overall| {
        (format!("{} over {}", overall.workload, count(overall.points, "point")), &overall.figure)
    });
    let of_points = result
        .points
        .iter()
        .flat_map(|point| point.figures.iter().map(|figure| (place(point, figure), figure)));
    let mut found: Vec<(String, &Compared)> =
        of_whole.chain(of_points).filter(|(_, figure)| figure.effect.change == change).collect();
    // The sort is stable: within a family, figures over all points stay first.
    found.sort_by_key(|(_, figure)| figure.family());
    found
}

/// Returns a line for each of the first `figures`.
pub(super) fn listed(change: Change, figures: &[(String, &Compared)]) -> Vec<String> {
    let n = figures.len();
    let mut lines: Vec<String> = figures
        .iter()
        .take(MOST_LISTED)
        .map(|(place, figure)| {
            format!(
                "{}: {} {} ({place})",
                verdict(&figure.effect),
                uncapitalised(&name(figure)),
                shift(figure)
            )
        })
        .collect();
    if n > MOST_LISTED {
        lines.push(format!(
            "{} more {}",
            n - MOST_LISTED,
            match change {
                Change::Worse => "worse",
                Change::Better => "better",
                Change::None | Change::Unclear => "inconclusive",
            }
        ));
    }
    lines
}
