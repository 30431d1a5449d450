//! `--json`: one document on standard output and nothing else there.

use crate::common::{file, plan, run};

#[test]
fn every_command_prints_one_document_and_nothing_else() {
    let folder = tempfile::tempdir().expect("a folder");
    file(folder.path(), "plan.toml", &plan("null", 0.2, ""));
    for (arguments, key) in [
        (&["plan", "netframe"][..], "trials"),
        (&["plan", "netframe-nics", "--lab", "sun-buses"], "trials"),
        (&["limit", "tcp", "--rate", "1 Gbit/s", "--mtu", "1500"], "ceilings"),
        (&["replay", "all"], "replays"),
        (&["facts"], "kernel"),
        (&["doctor"], "checks"),
        (&["pair", "list"], "own_key"),
        (&["run", "plan.toml", "--ledger", "null.ledger", "--out", "report"], "points"),
        (
            &["report", "null.ledger", "--out", "report", "--format", "html,csv,md,xlsx,json"],
            "points",
        ),
    ] {
        let ended = run(folder.path(), &[arguments, &["--json"]].concat()).expect(0);
        let document = ended.json();
        assert!(document.get(key).is_some(), "{arguments:?}: no `{key}`");
        if key == "points" {
            assert_eq!(document["schema"], 1, "{arguments:?}");
        }
    }
    for registry in
        ["workloads", "samplers", "limits", "rules", "sections", "plans", "labs", "metrics"]
    {
        let document = run(folder.path(), &["list", registry, "--json"]).expect(0).json();
        let entries = document.as_array().expect("a list");
        assert!(
            !entries.is_empty() && entries.iter().all(|entry| entry["name"].is_string()),
            "{registry}"
        );
    }
}

#[test]
fn a_failure_has_a_document_and_a_wrong_command_line_has_none() {
    let folder = tempfile::tempdir().expect("a folder");
    for (arguments, code) in
        [(&["plan", "absent", "--json"][..], 2), (&["report", "absent.ledger", "--json"], 4)]
    {
        let ended = run(folder.path(), arguments).expect(code);
        let document = ended.json();
        assert_eq!(document["exit"], code);
        assert_ne!(document["error"], "");
        assert_ne!(ended.stderr, "");
    }
    // The parser of arguments refuses it before any command begins.
    let ended = run(folder.path(), &["limit", "tcp", "--json"]).expect(2);
    assert_eq!(ended.stdout, "");
}
