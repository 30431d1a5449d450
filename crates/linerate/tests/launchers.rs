//! Hosts whose agent a launcher starts: `nsenter` and `ip netns exec` into another network
//! namespace, as `podman exec` and `srun` do into containers and nodes.

use std::path::Path;
use std::process::Command;

use linerate_model::TrialOutcome;

use crate::common::{AGENT, Ended, Pair, file, load, plan, privileged_folder};

/// Folder of the program under test.
fn folder_of_program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_linerate")).parent().expect("a program is in a folder")
}

/// The program with `arguments` in the first namespace. The launcher finds `linerate` in `path`.
fn here(pair: &Pair, folder: &Path, path: &Path, arguments: &[&str]) -> Ended {
    let mut command: Command = pair.linerate(0, folder, "a", arguments);
    command.env("PATH", format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", path.display()));
    command.output().expect("linerate starts").into()
}

fn completed(ledger: &Path) {
    let campaign = load(ledger);
    assert_eq!(campaign.trials[0].outcome, Some(TrialOutcome::Completed));
}

#[test]
fn an_agent_is_started_by_any_command_that_runs_another_one_there() {
    let Some(folder) = privileged_folder() else { return };
    let (folder, pair) = (folder.path(), Pair::build("lau"));
    let there = &pair.names[1];
    let program = folder_of_program();
    let nsenter = format!("nsenter --net=/run/netns/{there}");

    // The address is the placeholder's value, which the launcher here only prints.
    let shown = format!("sh -c 'echo data goes to $0 >&2; exec \"$@\"' {{host}} {nsenter}");
    for (reach, ledger) in [(&nsenter, "plain.ledger"), (&shown, "shown.ledger")] {
        let to = ["to", AGENT, "-t", "0.2", "--reach", reach, "--ledger", ledger];
        here(&pair, folder, program, &to).ran();
        completed(&folder.join(ledger));
    }

    let testbed = format!(
        "[[host]]\nname = \"here\"\nreach = \"local\"\n\
         [[host]]\nname = \"{there}\"\nreach = [\"ip\", \"netns\", \"exec\", \"{{host}}\"]\n\
         [[endpoint]]\nname = \"a\"\nhost = \"here\"\naddress = \"198.18.9.1\"\n\
         [[endpoint]]\nname = \"b\"\nhost = \"{there}\"\naddress = \"{AGENT}\"\n"
    );
    file(folder, "testbed.toml", &testbed);
    file(folder, "plan.toml", &plan("tcp_stream", 0.2, ""));
    let run = ["run", "plan.toml", "--testbed", "testbed.toml", "--ledger", "run.ledger"];
    here(&pair, folder, program, &run).ran();
    completed(&folder.join("run.ledger"));

    // Without linerate there, the message says so, and --push copies it.
    let nowhere = Path::new("/nonexistent");
    let to = ["to", AGENT, "-t", "0.2", "--reach", &nsenter];
    let missing = here(&pair, folder, nowhere, &to).expect(4).stderr;
    let command = format!("`{nsenter} linerate agent --stdio`");
    for part in [&command, "the command ended (exit status: 127)", "linerate: No such", "--push"] {
        assert!(missing.contains(part), "{part}: {missing}");
    }
    let pushed = [&to[..], &["--push", "--ledger", "pushed.ledger"]].concat();
    here(&pair, folder, nowhere, &pushed).ran();
    completed(&folder.join("pushed.ledger"));
}

#[test]
fn a_launcher_that_fails_is_named_with_all_that_it_printed() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    for (reach, parts) in [
        ("nosuch exec", &["start command for 127.0.0.1", "nosuch: No such file"][..]),
        ("sh -c 'echo no container >&2; exit 125'", &["(exit status: 125): no container"]),
        (
            "sh -c 'exec <&- >&-; sleep 0.3; echo too late >&2; exit 9'",
            &["(exit status: 9): too late"],
        ),
        ("sh -c 'exit 3'", &["(exit status: 3) and printed nothing"]),
        ("echo Welcome to", &["`echo Welcome to linerate agent --stdio`", "\"Welcome to"]),
        ("srun -w {node}", &["there is no `{node}`"]),
    ] {
        let to = ["to", "127.0.0.1", "-t", "0.2", "--reach", reach];
        let ended = crate::common::run(folder, &to);
        assert!(matches!(ended.code, Some(2 | 4)), "{ended:?}");
        for part in parts {
            let text = crate::common::one_line(&ended.stderr);
            assert!(text.contains(part), "{reach}: {part}: {text}");
        }
    }
    let both = ["run", "tcp_stream", "--lab", "pair", "--reach", "sh"];
    crate::common::run(folder, &both).expect(2);
}
