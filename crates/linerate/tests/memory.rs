//! Memory: an agent at rest is small, and neither agent nor conductor grows with the number of
//! trials.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::common::{Guard, file, linerate};

/// Numbers of trials at which memory is read: nothing new is allocated after the first.
const READ_AT: [usize; 3] = [20, 50, 80];
/// Trials of the plan. The conductor runs on while it is read and allocates two megabytes for its
/// report at the end, so the end must be far away. The test stops it before.
const PLANNED: usize = 1000;

/// An agent at rest in the dev profile. How many pages of the program's file are resident besides
/// is the page cache's affair and moves by megabytes; the benchmark of the release profile has the
/// goal for both together, 10 MiB.
const REST_KIB: u64 = 4 * 1024;
/// Most memory that 30 more trials may add.
const GROWTH_KIB: u64 = 2 * 1024;

/// Resident memory that is the process's own and not a page of a file.
fn own_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line =
        status.lines().find(|line| line.starts_with("RssAnon:")).expect("the kernel reports it");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).expect("a number")
}

#[test]
fn an_agent_at_rest_is_small_and_trials_do_not_make_it_grow() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut agent = linerate(folder.path(), &["agent", "--listen", "127.0.0.1:0"]);
    let mut agent =
        Guard(agent.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("starts"));
    let mut lines = BufReader::new(agent.0.stderr.take().expect("piped")).lines();
    let line = lines.next().expect("a line").expect("text");
    let address = line
        .strip_prefix("listening on ")
        .and_then(|rest| rest.split(',').next())
        .expect("it says where");
    std::thread::spawn(move || lines.for_each(drop));
    let at_rest = own_kib(agent.0.id());
    println!("agent at rest: {at_rest} KiB of its own");
    assert!(at_rest < REST_KIB, "{at_rest} KiB");

    file(
        folder.path(),
        "soak.toml",
        &format!(
            "[campaign]\nname = \"soak\"\nrepeats = {PLANNED}\n[[sweep]]\nname = \"soak\"\n\
             duration = \"50 ms\"\ninterval = \"50 ms\"\nwarmup = \"0 s\"\ndrain = \"0 s\"\n\
             rest = \"0 s\"\n[[sweep.job]]\nworkload = \"null\"\nfrom = \"a\"\nto = \"b\"\n"
        ),
    );
    let arguments =
        ["run", "soak.toml", "--to", address, "--ledger", "soak.ledger", "--out", "report"];
    let mut conductor = linerate(folder.path(), &arguments);
    let mut conductor =
        Guard(conductor.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("starts"));
    let mut lines = BufReader::new(conductor.0.stderr.take().expect("piped")).lines();
    let mut after = |n: usize| {
        let wanted = format!("{n}/{PLANNED} done");
        assert!(lines.any(|line| line.is_ok_and(|line| line.starts_with(&wanted))), "{wanted}");
        [own_kib(conductor.0.id()), own_kib(agent.0.id())]
    };
    let read = READ_AT.map(&mut after);
    println!("conductor and agent after {READ_AT:?} trials: {read:?} KiB");
    for (process, which) in ["conductor", "agent"].into_iter().enumerate() {
        // What each trial leaves behind is there twice; another arena of the allocator, which a
        // thread gets once, is not.
        let least = read.windows(2).map(|pair| pair[1][process].saturating_sub(pair[0][process]));
        let least = least.min().expect("two pairs");
        assert!(least <= GROWTH_KIB, "{which}: {read:?} KiB after {READ_AT:?} trials");
    }
}
