//! All pairs of many hosts: agents that a command starts, a host that is down, and a lab.

use serde_json::Value;

use crate::common::{Ended, file, linerate, privileged, privileged_folder, run, skip};

/// Short runs: their figures are not checked.
const SHORT: [&str; 6] = ["--seconds", "0.2", "--omit", "0", "--again", "2"];

fn names(list: &Value, key: &str) -> Vec<String> {
    let of = |one: &Value| one[key].as_str().expect("a name").to_owned();
    list.as_array().expect("a list").iter().map(of).collect()
}

#[test]
fn all_pairs_of_the_hosts_that_answer_are_measured() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let agent = format!(
        "[ \"$1\" != n3 ] && exec {} agent --stdio; echo no such node >&2; exit 7",
        env!("CARGO_BIN_EXE_linerate")
    );
    file(folder, "agent.sh", &agent);
    let hosts: String =
        (1..=5).map(|host| format!("n{host} ansible_host=127.0.0.{host}\n")).collect();
    file(folder, "hosts", &format!("[rack1]\n{hosts}"));
    let mesh = ["mesh", "--hosts", "hosts", "--reach", "sh agent.sh {host}", "--json"];
    let ended = run(folder, &[&mesh[..], &SHORT].concat());
    // A suspect may be confirmed on a busy machine, exit 1.
    assert!([Some(0), Some(1)].contains(&ended.code), "{ended:?}");
    let answer: Value = serde_json::from_str(&ended.stdout).expect("JSON");
    assert_eq!(names(&answer["hosts"], "name"), ["n1", "n2", "n3", "n4", "n5"]);
    assert_eq!(answer["hosts"][0]["group"], "rack1");
    let failed = answer["failed"].as_array().expect("a list");
    let rows = answer["pairs"]["goodput"].as_array().expect("a row for each host");
    let cells = rows.iter().flat_map(|row| row.as_array().expect("a cell for each host"));
    let n_measured = cells.filter(|cell| cell.is_number()).count();
    assert_eq!(n_measured + failed.len(), 4 * 3, "{answer}");
    if !failed.is_empty() {
        skip(format_args!("pairs without a figure on a busy machine: {failed:?}"));
    }
    assert_eq!(answer["absent"][0]["host"], "n3");
    let why = answer["absent"][0]["why"].as_str().expect("a reason");
    assert!(why.contains("no such node"), "{why}");
    // Later commands find the same hosts.
    let text = std::fs::read_to_string(folder.join("mesh/testbed.toml")).expect("it was written");
    assert!(text.contains("127.0.0.5") && text.contains("agent.sh"), "{text}");
}

#[test]
fn a_mesh_is_resumed_and_compared_with_an_earlier_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let hosts: String =
        (1..=4).map(|host| format!("n{host} ansible_host=127.0.0.{host}\n")).collect();
    file(folder, "hosts", &hosts);
    file(folder, "agent.sh", &format!("exec {} agent --stdio", env!("CARGO_BIN_EXE_linerate")));
    let mesh = ["mesh", "--hosts", "hosts", "--reach", "sh agent.sh {host}", "--again", "0"];
    let mesh = [&mesh[..], &SHORT[..4], &["--metrics", "mesh.prom"]].concat();
    let first = run(folder, &mesh).expect(0);
    assert!(first.stdout.contains("rule of thumb"), "{first:?}");
    // More than one if a pair was late and was measured alone.
    let ledgers = || {
        let files = std::fs::read_dir(folder.join("mesh")).expect("it was written");
        let names = files.map(|file| file.expect("a file").file_name());
        names.filter(|name| name.to_string_lossy().ends_with(".ledger")).count()
    };
    let n_ledgers = ledgers();
    // Everything was measured, so nothing is left, and the answer is the same.
    let resumed = run(folder, &[&mesh[..], &["--resume"]].concat()).expect(0);
    assert!(resumed.stderr.contains("Resumed: "), "{resumed:?}");
    if !resumed.stderr.contains("Resumed: 6 pairs") {
        // On a busy machine a pair may have no figure; it is measured again.
        return println!(
            "skipped: a_mesh_is_resumed_and_compared_with_an_earlier_one: a pair had no figure"
        );
    }
    assert_eq!(ledgers(), n_ledgers, "nothing was measured again");
    let pairs = |ended: &str| ended.split("Pairs").nth(1).map(str::to_owned);
    assert!(pairs(&first.stdout).is_some() && pairs(&first.stdout) == pairs(&resumed.stdout));
    let metrics = std::fs::read_to_string(folder.join("mesh.prom")).expect("it was written");
    assert!(metrics.contains("\nlinerate_mesh_pairs_measured 12\n"), "{metrics}");
    let lines = std::fs::read_to_string(folder.join("mesh/hosts.jsonl")).expect("it was written");
    assert_eq!(lines.lines().count(), 4);
    // Figures of the file are made slower than they were.
    let text = std::fs::read_to_string(folder.join("mesh/mesh.json")).expect("it was written");
    let slower = |is_slow: fn([usize; 2]) -> bool| {
        let mut record: Value = serde_json::from_str(&text).expect("JSON");
        let rows = record["pairs"]["goodput"].as_array_mut().expect("a row for each host");
        for (from, row) in rows.iter_mut().enumerate() {
            let cells = row.as_array_mut().expect("a cell for each host").iter_mut().enumerate();
            for (_, cell) in cells.filter(|(to, _)| is_slow([from, *to])) {
                *cell = cell.as_f64().map(|rate| rate * 0.2).into();
            }
        }
        file(folder, "later.json", &record.to_string());
    };
    let (same, later) = (["mesh", "compare", "mesh"], ["mesh", "compare", "mesh", "later.json"]);
    let equal = run(folder, &same).expect(0);
    assert!(equal.stdout.contains("0 worse, 0 better"), "{equal:?}");
    // One run of one pair may be slow by chance.
    slower(|ends| ends == [0, 2]);
    let one = run(folder, &later).expect(0);
    assert!(one.stdout.contains("direction from n1 to n3"), "{one:?}");
    slower(|[from, _]| from == 1);
    let changed = run(folder, &[&later[..], &["--json"]].concat()).expect(1);
    let changed: Value = serde_json::from_str(&changed.stdout).expect("JSON");
    let worse = changed["worse"].as_array().expect("a list");
    assert_eq!((&worse[0]["kind"], &worse[0]["of"][0]), (&"send side".into(), &"n2".into()));
    let nothing = run(folder, &[&mesh[..], &["--resume", "--out", "nowhere"]].concat()).expect(2);
    assert!(nothing.stderr.contains("there is no nowhere/rounds-1.ledger"), "{nothing:?}");
    let none = run(folder, &["mesh", "compare", "nowhere"]).expect(2);
    assert!(none.stderr.contains("read nowhere/mesh.json"), "{none:?}");
}

/// Programs of engines: each knows two hosts, and starts what stands behind its own words.
const ENGINES: [(&str, &[&str], &str); 3] = [
    (
        "ansible-inventory",
        &["--ansible", "inventory"],
        r#"echo '{"_meta":{"hostvars":{
            "127.0.0.1":{"ansible_connection":"local"},"127.0.0.2":{"ansible_connection":"local"}}},
            "all":{"children":["rack1"]},"rack1":{"hosts":["127.0.0.1","127.0.0.2"]}}'"#,
    ),
    (
        "mpirun",
        &["--mpi", "mpirun --hostfile 'my hosts'"],
        r#"[ "$1 $2" = "--hostfile my hosts" ] || exit 9
        shift 2
        [ "$*" = "-N 1 hostname" ] && exec printf '127.0.0.2\n127.0.0.1\n'
        [ "$1 $2 $3" = "-n 1 --host" ] || exit 9
        shift 4
        exec "$@""#,
    ),
    (
        "kubectl",
        &["--kubernetes"],
        r#"pod() {
            echo "{\"metadata\":{\"name\":\"p$1\",\"namespace\":\"perf\"},\"spec\":{
                \"nodeName\":\"127.0.0.$1\",\"containers\":[{\"name\":\"agent\"}]},
                \"status\":{\"phase\":\"$2\",\"podIP\":\"127.0.0.$1\"}}"
        }
        if [ "$*" = "get pods --output json --selector app.kubernetes.io/name=linerate-agent" ]
        then exec echo "{\"items\":[$(pod 1 Running),$(pod 2 Running),$(pod 3 Pending)]}"
        fi
        [ "$1 $2 $3 $4 $5" = "exec --stdin --quiet --namespace=perf --container=agent" ] || exit 9
        shift 7
        exec "$@""#,
    ),
];

#[test]
fn engines_name_the_hosts_and_start_the_agents() {
    for (program, arguments, script) in ENGINES {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        let own = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{own}", folder.display());
        let program = file(folder, program, &format!("#!/bin/sh\n{script}\n"));
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&program, executable).expect("it is ours");
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_linerate"), folder.join("linerate"))
            .expect("the folder is writable");
        let command = [&["mesh", "--json"], arguments, &SHORT].concat();
        let ended = linerate(folder, &command).env("PATH", path).output().expect("it starts");
        let ended = Ended::from(ended).expect(0);
        let answer = ended.json();
        let absent = names(&answer["absent"], "host");
        // The third pod does not run.
        let expected: &[&str] = if arguments == ["--kubernetes"] { &["127.0.0.3"] } else { &[] };
        assert_eq!(absent, expected, "{ended:?}");
        let hosts = names(&answer["hosts"], "name");
        assert_eq!(hosts, [&["127.0.0.1", "127.0.0.2"], expected].concat());
    }
}

#[test]
fn the_manifests_have_the_labels_that_are_asked_for() {
    for manifest in [
        include_str!("../../../packaging/kubernetes/agents.yaml"),
        include_str!("../../../packaging/kubernetes/agents-job.yaml"),
    ] {
        let (_, template) = manifest.split_once("\n  template:\n").expect("one of pods");
        let (_, labels) = template.split_once("labels:").expect("pods have labels");
        let label = labels.lines().nth(1).expect("a label").trim().replace(": ", "=");
        assert!(ENGINES[2].2.contains(&format!("--selector {label}\"")), "{label}");
        assert!(manifest.contains(concat!("localhost/linerate:", env!("CARGO_PKG_VERSION"), "\n")));
    }
}

#[test]
fn a_mesh_says_what_it_needs() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    file(folder, "empty", "# nobody\n");
    for (arguments, code, part) in [
        (&["mesh"][..], 2, "--slurm"),
        (&["mesh", "--hosts", "empty"], 2, "it names none"),
        (&["mesh", "--hosts", "nowhere"], 2, "read list of hosts nowhere"),
        (&["mesh", "--slurm"], 4, "salloc"),
        (&["mesh", "--lab", "pair", "--group", "x"], 2, "NAME=HOST,HOST"),
    ] {
        if arguments.contains(&"--lab") && privileged().is_none() {
            continue;
        }
        let ended = run(folder, arguments);
        assert_eq!(ended.code, Some(code), "{ended:?}");
        assert!(ended.stderr.contains(part), "{part}: {ended:?}");
    }
}

#[test]
fn the_hosts_of_a_lab_are_a_mesh() {
    let Some(folder) = privileged_folder() else { return };
    let folder = folder.path();
    let mesh = ["mesh", "--lab", "switch", "--group", "rack=a,b", "--format", "html"];
    let mesh = [&mesh[..], &["--at-once", "incast,bisection"]].concat();
    let ended = run(folder, &[&mesh[..], &SHORT].concat()).expect(0);
    let parts = [
        "Mesh of 3 hosts",
        "A mesh needs 4 hosts to suspect one",
        "Goodput from each host",
        "rack",
        "all to c ",
        "half to half, both ways ",
    ];
    for part in parts {
        assert!(ended.stdout.contains(part), "{part}: {ended:?}");
    }
    let record = std::fs::read_to_string(folder.join("mesh/mesh.json")).expect("it was written");
    let record: Value = serde_json::from_str(&record).expect("JSON");
    let loads = record["at_once"].as_array().expect("a list");
    let pairs =
        |number: usize| (loads[number]["pattern"].as_str(), loads[number]["pairs"].as_u64());
    assert_eq!(
        (loads.len(), pairs(0), pairs(3)),
        (4, (Some("incast"), Some(2)), (Some("bisection"), Some(2)))
    );
    assert_eq!(loads[2]["receiver"], "c");
    assert!(folder.join("mesh/report.html").exists());
    assert!(folder.join("mesh/rounds-1.ledger").exists());
}
