//! Ports planned for the members of a port channel, taken by `frames`, `tcp_stream` and
//! `udp_stream`, and seen on the members' own counters.

use std::net::SocketAddr;

use linerate_analysis::flow_hash::planner::{self, USUAL_PORTS};
use linerate_lab::{Hash, link_of};
use linerate_model::{Direction, Validity};
use linerate_report::sentences;

use crate::common::{linerate, measure, privileged, run, skip, turn};

/// A destination port, the two fabrics' first ends on the lab `cisco-vic`, and how many links each
/// has.
const PORT: u16 = 7;
const FROM: &str = "198.18.0.1";
const TO: &str = "198.18.0.3";
const LINKS: u32 = 2;
const FLOWS: u32 = 6;

fn link_of_port(port: u16) -> u32 {
    let address = |ip: &str, port| SocketAddr::new(ip.parse().expect("literal"), port);
    link_of(address(FROM, port), address(TO, PORT), Hash::Ports, LINKS)
}

const FRAMES: &str = "mode = \"packet\", rate = \"6 kpps\", frame_size = \"256 B\", ";
const DATAGRAMS: &str = "rate = \"6 kpps\", datagram_size = \"200 B\", ";

/// Runs six flows of `workload` with these source ports over the channel, `repeats` times, and
/// asserts the number of links used and the mean load over the largest. `None`, with a skip, if
/// other programs took the CPUs.
fn spread(
    workload: &str,
    params: &str,
    repeats: u32,
    ports: &[u16],
    (n_links, balance): (f64, f64),
) -> Option<()> {
    let list = ports.iter().map(u16::to_string).collect::<Vec<_>>().join(",");
    let plan = format!(
        "[campaign]\nname = \"ports\"\nrepeats = {repeats}\n[[sweep]]\nname = \"ports\"\nduration \
            = \"2 s\"\nwarmup = \"300 ms\"\n\
         drain = \"200 ms\"\nrest = \"0 s\"\n[[sweep.job]]\nworkload = \"{workload}\"\nfrom \
         = \"a1\"\nto = \"b1\"\n\
         params = {{ {params}streams = {FLOWS}, source_ports = \"{list}\", destination_port = \
         {PORT} }}\n"
    );
    let measured = measure(&plan, &["--lab", "cisco-vic"])?;
    if measured.refused() {
        return None;
    }
    let figure = |name: &str| {
        let known = linerate_model::Metric::named(name).expect(name);
        let metric =
            measured.job().metric(known, Direction::Tx).unwrap_or_else(|| panic!("no {name}"));
        let found = metric.estimate.filter(|estimate| estimate.n == repeats);
        if found.is_none() {
            skip(format_args!(
                "not every run has a figure of {name}: {:?}",
                measured.study.points[0].why
            ));
        }
        found.map(|estimate| estimate.value)
    };
    let found = (figure("links_used")?, figure("link_balance")?);
    println!("{workload}, source ports {list}: {} links used, balance {:.3}", found.0, found.1);
    assert_eq!(found.0, n_links, "{workload} {list}");
    // Flows that are all planned evenly are closer than those that are not.
    let tolerance = if balance == 1.0 { 0.01 } else { 0.02 };
    let away = (found.1 - balance).abs();
    let is_close = away < tolerance;
    let point = &measured.study.points[0];
    // Flows send unevenly where their threads wait for a CPU. A flow on another link moves the
    // balance by 0.1 at least.
    if !is_close && away < 0.05 && point.validity != Validity::Valid {
        let why = point.trials[0].why.first().map(sentences::reason);
        skip(format_args!("balance {:.3}, {balance:.3} expected: {why:?}", found.1));
        return None;
    }
    assert!(is_close, "{workload} {list}: balance {}, {balance} expected", found.1);
    Some(())
}

#[test]
fn planned_ports_spread_flows_evenly_and_other_ports_follow_the_hash() {
    let Some(()) = privileged() else { return };
    let _turn = turn();
    let each = (FLOWS / LINKS) as usize;
    let planned =
        planner::in_turn(&planner::plan(USUAL_PORTS, LINKS, each, |port| Some(link_of_port(port))));
    let (even, all) = ((2.0, 1.0), (1.0, 0.5));
    let Some(()) = spread("frames", FRAMES, 1, &planned, even) else { return };

    // Six in a row of which the hash puts four or five on one link.
    let uneven = |first: &u16| {
        let on_first = (*first..*first + 6).filter(|port| link_of_port(*port) == 0).count();
        [1, 5].contains(&on_first)
    };
    let first = USUAL_PORTS.into_iter().find(uneven).expect("hashes are uneven somewhere");
    let in_a_row: Vec<u16> = (first..first + 6).collect();
    let Some(()) = spread("frames", FRAMES, 1, &in_a_row, (2.0, 3.0 / 5.0)) else { return };

    let all_on_one: Vec<u16> =
        USUAL_PORTS.filter(|port| link_of_port(*port) == 1).take(6).collect();
    let Some(()) = spread("frames", FRAMES, 1, &all_on_one, all) else { return };

    // Connections and datagrams go where frames do; the second run takes ports that the first one's
    // connections may still hold.
    let Some(()) = spread("udp_stream", DATAGRAMS, 1, &planned, even) else { return };
    let Some(()) = spread("tcp_stream", "", 2, &all_on_one, all) else { return };
}

#[test]
fn a_port_plan_is_printed_as_workload_parameters() {
    let folder = tempfile::tempdir().expect("a folder");
    let arguments = [
        "flows",
        "plan",
        "--from",
        FROM,
        "--to",
        "198.18.0.3:7",
        "--hash",
        "layer3+4",
        "--members",
        "2",
    ];
    let ended =
        run(folder.path(), &[&arguments[..], &["--each", "3", "--json"]].concat()).expect(0);
    let params = &ended.json()["params"];
    assert_eq!((&params["streams"], &params["destination_port"]), (&6.into(), &7.into()));
    assert_eq!(params["source_ports"].as_str().map(|list| list.split(',').count()), Some(6));
    let printed = linerate(folder.path(), &arguments).output().expect("starts").stdout;
    assert!(
        String::from_utf8_lossy(&printed).contains("streams = 2, source_ports = \""),
        "{printed:?}"
    );
}
