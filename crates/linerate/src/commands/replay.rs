//! `linerate replay`: a paper's printed figures, recomputed.

use clap::Args;
use linerate_analysis::replay::{REPLAYS, Replay};
use linerate_model::nearest;
use serde_json::json;

use crate::exit::{Exit, Failure, Outcome};

#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// The paper, or `all`
    pub(crate) paper: String,
}

/// Recomputes `paper`, or `all` of them, and lists what disagrees.
pub(crate) fn run(paper: &str, as_json: bool) -> Outcome {
    let chosen: Vec<Replay> =
        REPLAYS.iter().filter(|r| paper == "all" || r.name == paper).map(|r| (r.replay)()).collect();
    if chosen.is_empty() {
        let known: Vec<&str> = REPLAYS.iter().map(|replay| replay.name).collect();
        let near =
            nearest(paper, known.iter().copied()).map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
        return Err(Failure::wrong(format!(
            "replay: there is no paper `{paper}`{near} (papers: {}, all)",
            known.join(", ")
        )));
    }
    if as_json {
        println!("{}", json!({ "replays": chosen }));
        return Ok(Exit::Done);
    }
    chosen.iter().for_each(print);
    Ok(Exit::Done)
}

fn print(replay: &Replay) {
    println!("{}", replay.paper);
    let (agree, disagree): (Vec<_>, Vec<_>) = replay.items.iter().partition(|item| item.agrees);
    println!("\n{} printed figures agree with their own arithmetic:", agree.len());
    for item in agree {
        println!("  {:6} {}: printed {}, recomputed {}", item.id, item.what, item.printed, item.recomputed);
    }
    println!("\n{} disagree:", disagree.len());
    for item in disagree {
        println!("  {:6} {}: printed {}, recomputed {}", item.id, item.what, item.printed, item.recomputed);
        println!("         {}", item.why_it_matters);
    }
    println!();
}
