//! `linerate replay`: a paper's printed figures, recomputed.

use clap::Args;
use linerate_model::nearest;
use linerate_papers::document::of_replays;
use linerate_papers::replay::{REPLAYS, Replay};

use crate::args::{Global, Saved};
use crate::exit::{Exit, Failure, Outcome};
use crate::reports;

#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// Paper, or `all`
    pub(crate) paper: String,
    #[command(flatten)]
    pub(crate) saved: Saved,
}

/// Recomputes the figures of a paper, or of all, and lists those that disagree.
pub(crate) fn run(args: &ReplayArgs, global: Global) -> Outcome {
    let paper = &args.paper;
    let chosen: Vec<Replay> =
        REPLAYS.iter().filter(|r| paper == "all" || r.name == paper).map(|r| r.replay()).collect();
    if chosen.is_empty() {
        let known: Vec<&str> = REPLAYS.iter().map(|replay| replay.name).collect();
        // The list of papers is short, but the nearest name saves reading it.
        let near = nearest(paper, known.iter().copied())
            .map(|near| format!("; did you mean `{near}`?"))
            .unwrap_or_default();
        return Err(Failure::wrong(format!(
            "replay: there is no paper `{paper}`{near} (papers: {}, all)",
            known.join(", ")
        )));
    }
    reports::answer(&of_replays(&chosen), &args.saved, global)?;
    Ok(Exit::Done)
}
