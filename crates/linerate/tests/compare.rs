//! Two recorded campaigns set against each other, as a user does: what got worse is named with its
//! cause, and what cannot be compared is refused.

use std::path::Path;

use serde_json::Value;

use crate::common::{file, privileged_folder, run, skip};

/// Six short runs over whatever link the lab has.
const PLAN: &str = "[campaign]\nname = \"six\"\nrepeats = 6\n[[sweep]]\nname = \"link\"\nduration \
    = \"400 ms\"\nwarmup = \"100 ms\"\n\
     drain = \"100 ms\"\nrest = \"0 s\"\n[[sweep.job]]\nworkload = \"tcp_stream\"\nfrom \
     = \"a\"\nto = \"b\"\n";

/// Two hosts and a link of `rate`.
fn lab(rate: &str) -> String {
    format!(
        "[lab]\nname = \"link\"\nsummary = \"one link\"\n[[host]]\nname = \"a\"\n[[host]]\nname \
            = \"b\"\n[[link]]\n\
         ends = [\"a\", \"b\"]\nrate = \"{rate}\"\nbuffer = \"64 KiB\"\n"
    )
}

/// A campaign of `plan` over a link of `rate`, in the ledger `name`.
fn measured(folder: &Path, name: &str, plan: &str, rate: &str) {
    file(folder, "plan.toml", plan);
    file(folder, "lab.toml", &lab(rate));
    let ledger = format!("{name}.ledger");
    run(folder, &["run", "plan.toml", "--lab", "./lab.toml", "--ledger", &ledger, "--out", name])
        .ran();
}

#[test]
fn a_slower_link_is_worse_and_is_the_first_cause() {
    let Some(folder) = privileged_folder() else { return };
    let folder = folder.path();
    measured(folder, "fast", PLAN, "40 Mbit/s");
    // What no machine that carried the first one can carry: the answer is known however much others
    // take of it.
    measured(folder, "slow", PLAN, "4 Mbit/s");
    let told = run(folder, &["compare", "fast.ledger", "slow.ledger", "--json"]);
    assert!(matches!(told.code, Some(0 | 1)), "{}\n{}", told.stdout, told.stderr);
    let (code, told) = (told.code, told.json());
    let comparison = &told["comparison"];
    let figures = comparison["points"][0]["figures"].as_array().expect("figures");
    let goodput = figures.iter().find(|figure| figure["metric"] == "goodput");
    if goodput.is_none_or(|goodput| goodput["effect"]["change"] != "worse") {
        return skip(format_args!("noise hides a change of a tenth of the rate: {goodput:?}"));
    }
    assert_eq!(code, Some(1));
    // Other programs that run beside the test are a cause too, and may come first.
    let causes = comparison["environment"].as_array().expect("a list");
    let cause =
        causes.iter().find(|cause| cause["name"] != "cpu.other_programs").expect("the link");
    assert!(cause["name"].as_str().expect("a name").starts_with("path."), "{cause}");
    assert_eq!(
        (&cause["explains"], &cause["after"]),
        (&Value::from(true), &Value::from("4 Mbit/s")),
        "{cause}"
    );
    // The other way round it is better, and nothing is missed.
    let told = run(folder, &["compare", "slow.ledger", "fast.ledger", "--out", "back"]);
    assert!(told.stdout.contains("better: goodput tx +"), "{}", told.stdout);
    assert!(folder.join("back/report.html").exists());
}

#[test]
fn campaigns_without_a_common_point_are_refused() {
    let Some(folder) = privileged_folder() else { return };
    let folder = folder.path();
    let one = PLAN.replace("repeats = 6", "repeats = 1");
    measured(folder, "one", &one, "40 Mbit/s");
    measured(folder, "other", &one.replace("name = \"link\"", "name = \"elsewhere\""), "40 Mbit/s");
    let told = run(folder, &["compare", "one.ledger", "other.ledger"]).expect(2);
    assert!(told.stdout.contains("no point in common"), "{}", told.stdout);
    let told = run(folder, &["compare", "one.ledger", "one.ledger"]).expect(2);
    assert!(told.stderr.contains("are the same campaign"), "{}", told.stderr);
    run(folder, &["compare", "one.ledger", "none.ledger"]).expect(4);
    let told =
        run(folder, &["compare", "one.ledger", "other.ledger", "--margin", "200 %"]).expect(2);
    assert!(told.stderr.contains("is no part of a figure"), "{}", told.stderr);
}
