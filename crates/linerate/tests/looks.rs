//! Points that are repeated until their figures are known well enough, in a lab: a steady one ends
//! at the first look, a noisy one goes on to the most and says so; what was interrupted goes on.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use linerate_analysis::{LooksEnded, PointStudy, study};

use crate::common::{file, linerate, load, one_line, privileged_folder, run, signal, skip, turn};

/// A hundred datagrams a trial. At constant gaps their number varies by one; with exponential ones
/// by a tenth (Poisson). The gaps are seeded: the half range of the first six runs is 8 %, that of
/// ten 15 %, each time.
const PLAN: &str = "[campaign]\nname = \"looks\"\nrepeats = \
    { within = \"4 %\", most = 10 }\n[[sweep]]\nname = \"arrivals\"\nduration = \"250 ms\"\n\
     warmup = \"50 ms\"\ninterval = \"50 ms\"\ndrain = \"100 ms\"\nrest = \"0 \
     s\"\n[[sweep.job]]\nworkload = \"udp_stream\"\nfrom = \"a\"\nto = \"b\"\n\
     params = { direction = \"tx\", rate = \"400 packet/s\", datagram_size = \"100 B\" }\n\
     [sweep.axis]\n\"params.poisson\" = [false, true]\n";
const RUN: [&str; 8] =
    ["run", "plan.toml", "--lab", "pair", "--ledger", "looks.ledger", "--out", "report"];

/// The point with exponential gaps or without.
fn point(points: &[PointStudy], poisson: bool) -> &PointStudy {
    points.iter().find(|point| point.parameters["poisson"] == poisson).expect("it was measured")
}

#[test]
fn a_steady_point_ends_early_and_a_noisy_one_runs_to_the_maximum() {
    let Some(folder) = privileged_folder() else { return };
    let _turn = turn();
    file(folder.path(), "plan.toml", PLAN);
    let planned = run(folder.path(), &["plan", "plan.toml", "--lab", "pair"]).expect(0).stdout;
    let planned = one_line(&planned);
    assert!(planned.contains("known to ±4.0 %: 6 to 10 runs, looked at after 6, 10"), "{planned}");
    // It is interrupted after the look that asks the noisy point for more, and goes on.
    let mut child = linerate(folder.path(), &RUN)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut lines =
        BufReader::new(child.stderr.take().expect("piped")).lines().map_while(Result::ok);
    let mut seen = Vec::new();
    let more = lines.by_ref().any(|line| {
        seen.push(line);
        seen.last().is_some_and(|line| line.starts_with("13/"))
    });
    assert!(more, "four more runs of the noisy point follow the first look: {seen:#?}");
    signal(child.id(), "INT");
    seen.extend(lines);
    assert_eq!(child.wait().expect("it ends").code(), Some(130), "{seen:#?}");
    let resumed: Vec<&str> = RUN.iter().copied().chain(["--resume"]).collect();
    let ended = run(folder.path(), &resumed);
    assert!(ended.stdout.contains("noise: ±"), "{}\n{}", ended.stdout, ended.stderr);

    let campaign = load(&folder.path().join("looks.ledger"));
    let study = study(&campaign);
    let (steady, noisy) = (point(&study.points, false), point(&study.points, true));
    let looks = |point: &PointStudy| point.looks.clone().expect("it has looks");
    let told =
        |point: &PointStudy| (looks(point).runs, looks(point).taken.len(), looks(point).ended);
    assert!(matches!(told(noisy), (10, 2, _)), "{:?}", looks(noisy));
    if looks(noisy).ended != LooksEnded::Most {
        assert_eq!(looks(noisy).ended, LooksEnded::Noisy);
        return skip("runs differ by more than the load does here");
    }
    if told(steady) != (6, 1, LooksEnded::Narrow) {
        // A machine that others use makes it a noisy point too, which then ends as one.
        assert_eq!(told(steady), (10, 2, looks(steady).ended), "{:?}", looks(steady));
        return skip(format_args!("constant gaps were noise here: {:?}", looks(steady)));
    }
    assert_eq!(campaign.trials.len(), 16, "six runs of one point, ten of the other");
    assert_eq!((steady.trials.len(), noisy.trials.len()), (6, 10));
    // The confidence of each figure allows for both looks. On a busy machine figures of single
    // runs are withheld, so that fewer of the ten give a figure.
    let estimates = noisy.jobs[0].metrics.iter().filter_map(|metric| metric.estimate);
    let of_all: Vec<f64> = estimates.filter(|of| of.n > 7).filter_map(|of| of.confidence).collect();
    assert!(
        !of_all.is_empty() && of_all.iter().all(|confidence| *confidence >= 0.95),
        "{of_all:?}"
    );
    let report =
        std::fs::read_to_string(folder.path().join("report/report.html")).expect("a report");
    assert!(
        report.contains("at the largest number of runs") && report.contains("narrow enough"),
        "each point's looks are listed"
    );
}
