//! Two hosts with two clocks on one kernel: an agent in a time namespace whose monotonic clock is
//! ahead by a known time.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};

use linerate_analysis::statistics::exchange;
use linerate_analysis::{Study, study};
use linerate_control::{Exit, run};
use linerate_model::{
    Campaign, Direction, Endpoint, FrameClocks, HostAddress, Metric, Nanos, Validity, metric,
};
use serde_json::json;

use crate::common::{Recorded, campaign, endpoint, job, trial};
use crate::host::{Namespace, ran, skip};

/// Offset of the other clock.
const AHEAD_S: i64 = 86_400;
/// Shortest wait of a second frame, ns. Frames leave four at a time through a shaper of 1 Mbit/s
/// with a bucket for one frame, so half of all frames wait no longer.
const SECOND_NS: f64 = 9e6;

/// Address of an end of the link `network`, below 64, in the addresses for tests (RFC 2544): this
/// end is in the host's own namespace, where another run of these tests may have one, too.
fn address(network: u8, end: u8) -> String {
    format!("198.19.{}.{}", std::process::id() % 256, network * 4 + end)
}

/// Namespace at the other end of a link with a shaper towards it.
struct Space {
    namespace: Namespace,
    network: u8,
}

impl Space {
    /// Makes a namespace with addresses of its own; `None`, with a message, if that is impossible.
    fn build(network: u8) -> Option<Self> {
        let namespace = Namespace::new(format!("lr-{}-clocks{network}", std::process::id()))?;
        let (name, device) = (&namespace.name, format!("lr{}-{network}", std::process::id()));
        for command in [
            format!("ip link add {device} type veth peer name lr1 netns {name}"),
            format!("ip address add {}/30 dev {device}", address(network, 1)),
            format!("ip link set {device} up"),
            format!("ip -n {name} address add {}/30 dev lr1", address(network, 2)),
            format!("ip -n {name} link set lr1 up"),
            format!("tc qdisc add dev {device} root tbf rate 1mbit burst 1300 limit 100000"),
        ] {
            ran(&command);
        }
        Some(Self { namespace, network })
    }

    /// Returns the address of an agent in it whose clock is `ahead_s` seconds ahead.
    fn agent(&self, ahead_s: i64) -> HostAddress {
        let ahead = ahead_s.to_string();
        let agent = agent_example();
        let shifted =
            ["unshare", "--time", "--monotonic", &ahead, "--boottime", &ahead, "--fork", "--"];
        let shifted: &[&str] = if ahead_s == 0 { &[] } else { &shifted };
        let prefix = [
            &["ip", "netns", "exec", &self.namespace.name][..],
            shifted,
            &[agent.to_str().unwrap()],
        ]
        .concat();
        HostAddress::Command(prefix.into_iter().map(str::to_owned).collect())
    }
}

fn agent_example() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let target =
        test.parent().and_then(Path::parent).expect("tests are built into target/PROFILE/deps");
    let path = target.join("examples/agent");
    assert!(
        path.exists(),
        "build the examples first, as `cargo test -p linerate-control` does: {}",
        path.display()
    );
    path
}

fn at(host: &str, address: &str) -> Endpoint {
    Endpoint { host: host.into(), ..endpoint(host, Some(address.parse().unwrap())) }
}

/// Measures frames from here, four at once, through the shaper to an agent whose clock is ahead.
fn measured(space: &Space, ahead_s: i64) -> (Campaign, Study) {
    let frames = || {
        let params = json!({ "frame_size": "1250 \
            B", "rate": "40 pps", "burst": 4, "mode": "udp", "allow_outside_lab": true });
        let address = |host| address(space.network, host);
        let ends = (at("here", &address(1)), at("there", &address(2)));
        let mut trial = trial(0, vec![job("frames", ends.0, ends.1, params)]);
        trial.phases.measure = Nanos::from_secs(1);
        trial
    };
    let mut run_of = campaign(vec![frames()]);
    run_of.testbed.hosts.push(("there".into(), space.agent(ahead_s)));
    let mut campaign = Campaign::new(run_of.header.clone());
    let mut recorded = Recorded::default();
    let summary = run(run_of, &mut recorded, &mut |_| {}).expect("both agents are started here");
    assert!(
        matches!(summary.exit, Exit::Completed) && summary.completed == 1,
        "{summary:?} {:?}",
        recorded.incidents()
    );
    recorded.events.iter().for_each(|event| campaign.apply(event));
    let study = study(&campaign);
    (campaign, study)
}

fn figure(study: &Study, metric: &'static Metric) -> Option<f64> {
    study.points[0].jobs[0].metric(metric, Direction::Sum)?.values[0]
}

/// Returns true, and says so, if this machine was too busy for figures.
fn too_busy(study: &Study) -> bool {
    let point = &study.points[0];
    let stalls = point.trials.iter().map(|trial| trial.stalls.len()).sum::<usize>();
    let has_times = point.jobs[0].service.count() > 0;
    let busy = point.validity == Validity::Invalid || (!has_times && stalls > 0);
    if busy {
        let why = format!("{:?}, {stalls} stalls, times: {has_times}", point.validity);
        let _nothing = skip::<()>(why);
    }
    busy
}

#[test]
fn a_clock_a_day_ahead_is_found_within_its_error_bar_and_the_one_way_time_with_it() {
    let Some(space) = Space::build(8) else { return };
    let (shifted, judged) = measured(&space, AHEAD_S);
    let clocks = &shifted.trials[0].clocks;
    // Ours is exact.
    assert!(clocks.hosts.iter().map(|host| host.host.as_str()).eq(["there"]), "{clocks:?}");
    let truth = AHEAD_S * 1_000_000_000;
    for made in &clocks.hosts[0].exchanges {
        let offset = exchange(made.sent, made.arrived, made.answered, made.heard).unwrap();
        let error = (offset.offset - truth as f64).abs();
        assert!(error <= offset.uncertainty + 1.0, "{made:?}: {offset:?}");
    }
    assert!(clocks.hosts[0].exchanges.len() >= 2, "before and after: {clocks:?}");
    let sent = clocks.told[1];
    // The offset that the receiver got.
    assert!((sent.peer.ahead_ns + truth).unsigned_abs() <= sent.peer.added_ns, "{sent:?}");

    if too_busy(&judged) {
        return;
    }
    let doubt = figure(&judged, metric::CLOCK_UNCERTAINTY).expect("two clocks") * 1e9;
    println!(
        "clock uncertainty {:.1} us, one way {:?} s",
        doubt / 1e3,
        figure(&judged, metric::SERVICE_TIME_P50)
    );
    // Some tens of microseconds on an idle host; more on a busy one.
    assert!(doubt > 0.0, "{doubt} ns");
    match figure(&judged, metric::SERVICE_TIME_P50).map(|seconds| seconds * 1e9) {
        Some(median) => {
            assert!(median >= SECOND_NS - doubt && median > doubt, "{median} ns, {doubt} ns")
        }
        None => assert!(doubt >= SECOND_NS, "withheld although known to {doubt} ns"),
    }
    // The first of four frames does not wait. Its time may be below the uncertainty of the clocks.
    assert!(figure(&judged, metric::SERVICE_TIME_MIN).is_none_or(|least| least * 1e9 > doubt));
    let obtained = &judged.points[0].jobs[0].obtained;
    assert_eq!(obtained["clock"].clocks(), Some(FrameClocks::Compared), "{obtained:?}");
}

#[test]
fn two_agents_of_one_kernel_have_one_clock_and_their_times_are_exact() {
    let Some(space) = Space::build(9) else { return };
    let (campaign, judged) = measured(&space, 0);
    assert!(campaign.trials[0].clocks.is_empty());
    assert_eq!(
        campaign.hosts.iter().map(|host| (host.clock_offset_ns, host.clock_uncertainty_ns)).max(),
        Some((0, 0))
    );
    assert_eq!(campaign.trials[0].skew.map(|(_, uncertainty)| uncertainty), Some(0));
    assert_eq!(figure(&judged, metric::CLOCK_UNCERTAINTY), None);
    if too_busy(&judged) {
        return;
    }
    println!("one clock: one way {:?} s", figure(&judged, metric::SERVICE_TIME_P50));
    assert!(figure(&judged, metric::SERVICE_TIME_P50).expect("one clock") * 1e9 >= SECOND_NS);
}
