//! Plans of any text: reading them ends without a panic.

use std::collections::BTreeSet;

use linerate_model::plan::{expand, parse};
use proptest::prelude::*;
use serde_json::json;

use crate::plan::{SMALL, good, testbed};

#[path = "../../../fuzz/driver.rs"]
mod driver;
#[path = "../../../fuzz/entries/plan.rs"]
#[allow(unreachable_pub)]
mod entry;

/// Pieces plans are made of, so that random texts get past the first key.
const PIECES: &[&str] = &[
    "[campaign]\n",
    "name = \"x\"\n",
    "repeats = 3\n",
    "seed = -1\n",
    "[[sweep]]\n",
    "[sweep.axis]\n",
    "[[sweep.job]]\n",
    "workload = \"null\"\n",
    "from = \"a\"\n",
    "to = \"b\"\n",
    "params = { x = 1 }\n",
    "duration = \"5 s\"\n",
    "duration = \"1e300 h\"\n",
    "interval = \"0 s\"\n",
    "start = \"-1e30 s\"\n",
    "start = \"--1 s\"\n",
    "\"params.x\" = { from = \"4 B\", to = \"1e30 TiB\", factor = 4 }\n",
    "\"params.y\" = { from = 1, to = 1e308, factor = 1.5 }\n",
    "params.z = { from = 0, to = 5, step = 1 }\n",
    "job.0.params.x = [1, 2]\n",
    "cpus = [1, 2]\n",
    "pairs = [[\"a b\"]]\n",
    "[sweep.search]\n",
    "warmup = \"1e19 h\"\n",
    "x = 0xffffffffffffffffffff\n",
    "y = nan\n",
    "z = 1979-05-27\n",
    "repeats=5\n",
    "params.x=[1]\n",
    "é = \"\u{1F600}\"\n",
    "[sweep.mix]\n",
    "repeats = ",
    "seed = ",
    "from = ",
    "factor = ",
    "steps = ",
    "\"1e300 s\"",
    "\"-1 B\"",
    "\"18446744073709551615 TiB\"",
    "\"0 s\"",
    "nan",
    "inf",
    "{",
    "}",
    "[",
    "]",
    "\"",
    "\n",
    "=",
    "params.",
    "job.1.",
    "1979-05-27",
];

proptest! {
    #[test]
    fn no_text_makes_a_plan_panic(text in "\\PC*") {
        entry::plan(text.as_bytes());
    }

    #[test]
    fn no_pieces_of_plans_make_one_panic(order in prop::collection::vec(0..PIECES.len(), 0..40)) {
        let text: String = order.into_iter().map(|piece| PIECES[piece]).collect();
        entry::plan(text.as_bytes());
    }

    #[test]
    fn no_damaged_plan_makes_a_panic(at in 0..SMALL.len(), length in 0..40_usize,
        patch in "[\\PC\n]{0,8}") {
        let mut text = SMALL.to_owned();
        text.replace_range(at..(at + length).min(SMALL.len()), &patch);
        entry::plan(text.as_bytes());
    }

    #[test]
    fn every_repeat_runs_every_point_once(seed in 0..u64::from(u32::MAX), repeats in 1..5_u32) {
        let text = SMALL.replace("seed = \
            42", &format!("seed = {seed}")).replace("repeats = 3", &format!("repeats = {repeats}"));
        let trials = expand(&good(&text), &testbed(&[("a", 0), ("b", 0)])).expect("it fits");
        for round in trials.chunks(8) {
            let points = round.iter().map(|trial| json!(trial.point).to_string());
            let points: BTreeSet<String> = points.collect();
            prop_assert_eq!(points.len(), 8);
        }
    }
}

#[test]
fn fuzz_plan() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plans");
    let entries = std::fs::read_dir(folder).expect("there are some").flatten();
    let mut paths: Vec<_> =
        entries.map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    paths.sort();
    let mut corpus: Vec<Vec<u8>> =
        paths.iter().map(|path| std::fs::read(path).expect("readable")).collect();
    corpus.push(SMALL.into());
    driver::fuzz("plan", corpus, PIECES, |bytes| {
        entry::plan(bytes);
        let problems = parse(&String::from_utf8_lossy(bytes)).1;
        driver::class(&problems)
    });
}
