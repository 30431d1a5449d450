//! Known answers: every workload on a path whose figure follows from arithmetic, end to end through
//! the program.
//!
//! Bounds are those of the path, not of this machine: a shaper that passes its rate, a wire that
//! holds every frame for its time, a wire that drops exactly every hundredth datagram. A busy
//! machine makes a round trip longer and a rate lower, so every run is held to the bound that no
//! machine can pass, and its figures are printed. What the study makes of recorded figures is
//! decided in its own tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use linerate_analysis::{LossPlace, Reason};
use linerate_model::{Counter, Interval, LossLedger, Validity, metric};
use linerate_report::sentences;
use linerate_sys::cpu;

use crate::common::{
    self, Measured, file, measure, measure_in, plan, privileged, privileged_folder, skip, turn,
};

/// The rate of the link of lab `pair-100m`, bit/s of Ethernet frames without FCS.
const LINK: f64 = 100e6;
/// An Ethernet frame without FCS of 1500 bytes MTU, and what TCP with timestamps (RFC 7323) and UDP
/// carry in it.
const FRAME: f64 = 1514.0;
const TCP_PAYLOAD: f64 = 1448.0;
const UDP_PAYLOAD: f64 = 1472.0;
/// How far a run may lie above the ceiling of the link: the burst of its shaper.
const CLOSE: f64 = 0.02;

fn ledger_of(measured: &Measured) -> LossLedger {
    let [loss] = &measured.job().loss[..] else {
        panic!("one direction: {:?}", measured.job().loss)
    };
    assert!(loss.balances(), "{loss:?}");
    loss.ledger
}

/// `text` with two repeats.
fn twice(text: &str) -> String {
    text.replace("repeats = 1", "repeats = 2")
}

/// Holds everything that was delivered to what the link carries in the time from the start of the
/// load to its last interval: the buffer of the link is part of it, and nothing a busy machine does
/// adds to it. Each run carries a figure, or the study says why not.
pub(crate) fn no_run_exceeds(measured: &Measured, ceiling: f64) {
    const BITS: f64 = 8.0;
    let values = &measured.json["points"][0]["jobs"][0]["metrics"]["goodput"]["values"];
    let values: Vec<Option<f64>> =
        values.as_array().expect("a list").iter().map(serde_json::Value::as_f64).collect();
    let trials = &measured.study.points[0].trials;
    assert!(!values.is_empty() && values.len() == trials.len(), "{values:?}");
    for (value, trial) in values.into_iter().zip(trials) {
        println!(
            "run {:?}: {value:?} bit/s of {ceiling:.0}, {:?} {:?}",
            trial.id, trial.validity, trial.why
        );
        assert!(
            value.is_some_and(|value| value > 0.0) || !trial.why.is_empty(),
            "run {:?}: no figure",
            trial.id
        );
        assert_ne!(trial.validity, Validity::Impossible, "{:?}", trial.why);
    }
    for trial in &measured.campaign.trials {
        let intervals = &trial.jobs[0].1.intervals;
        let bytes: u64 =
            intervals.iter().map(|interval| interval.counters[Counter::PayloadReceived]).sum();
        // Since the start barrier: nothing is sent before it.
        let until = intervals.iter().map(|interval| interval.end).max().expect("intervals");
        let share = bytes as f64 * BITS / (ceiling * until.as_secs_f64());
        println!("run {:?}: {bytes} B in all, {share:.4} of what the link carries", trial.spec.id);
        assert!(bytes > 0 && share <= 1.0 + CLOSE, "{share} of what the link carries");
    }
}

/// Checks that the program computes the same ceiling.
fn has_ceiling(measured: &Measured, ceiling: f64) {
    let computed = measured.ceiling("goodput");
    assert!((computed / ceiling - 1.0).abs() < 1e-9, "{computed} instead of {ceiling}");
}

#[test]
fn a_shaped_link_carries_its_tcp_ceiling_and_never_more() {
    let Some(()) = privileged() else { return };
    let params = "congestion = \"cubic\", socket_buffer = \"1 MiB\", streams = 2";
    let text = twice(&plan("tcp_stream", 1.0, params));
    let Some(measured) = measure(&text, &["--lab", "pair-100m"]) else { return };
    let ceiling = LINK * TCP_PAYLOAD / FRAME;
    no_run_exceeds(&measured, ceiling);
    has_ceiling(&measured, ceiling);
    let hosts: Vec<_> = measured.campaign.hosts.iter().map(|host| host.host.as_str()).collect();
    assert_eq!(hosts, ["a", "b"], "an agent in each namespace joined on its standard streams");
    assert_eq!(measured.json["campaign"]["emulated"], true);
}

/// Losses leave hundreds of kilobytes behind holes when the measurement begins, which are read in
/// it: none of these figures is impossible. Tests of `linerate-analysis` decide which are, on
/// recorded intervals.
#[test]
fn a_stream_that_recovers_from_losses_is_judged_by_received_bytes() {
    const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    let Some(()) = privileged() else { return };
    if !std::fs::read_to_string(AVAILABLE)
        .is_ok_and(|names| names.split_whitespace().any(|name| name == "bbr"))
    {
        skip("needs congestion control bbr (modprobe tcp_bbr)");
        return;
    }
    let text = twice(&plan("tcp_stream", 1.0, "congestion = \"bbr\", streams = 2"));
    let Some(measured) = measure(&text, &["--lab", "pair-100m"]) else { return };
    no_run_exceeds(&measured, LINK * TCP_PAYLOAD / FRAME);
    let receivers = measured.campaign.trials.iter().flat_map(|trial| &trial.jobs[0].1.intervals);
    let held: Vec<u64> = receivers.filter_map(|interval| interval.held_bytes).collect();
    println!("tcp_stream, bbr: up to {:?} B held at once", held.iter().max());
    assert!(!held.is_empty(), "nobody looked what the kernel holds");
}

/// Spins on every CPU this process may use, until dropped.
struct Rivals(Arc<AtomicBool>, Vec<JoinHandle<()>>);

impl Rivals {
    fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let spin = |cpu: usize| {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                cpu::pin(cpu).expect("an allowed cpu");
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })
        };
        let rivals = cpu::allowed().expect("affinity").into_iter().map(spin).collect();
        Self(stop, rivals)
    }
}

impl Drop for Rivals {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        for rival in self.1.drain(..) {
            rival.join().expect("a spinning thread does not panic");
        }
    }
}

#[test]
fn busy_cpus_make_a_trial_suspect_with_a_remedy() {
    let _turn = turn();
    let rivals = Rivals::start();
    let Some(disturbed) = measure(&plan("tcp_stream", 0.5, "wait = \"spin\""), &[]) else { return };
    drop(rivals);
    let (trial, waited) =
        (&disturbed.study.points[0].trials[0], disturbed.metric("run_queue_wait"));
    println!("waited {waited:.3} of the time beside a spinner on each CPU: {:?}", trial.why);
    assert_eq!(trial.validity, Validity::Suspect);
    assert!(trial.why.iter().any(|why| matches!(why, Reason::Waited { .. })));
    assert!(waited > 0.1);
}

#[test]
fn a_shaped_link_carries_its_ceiling_over_ipv6_between_two_hosts() {
    let Some(folder) = privileged_folder() else { return };
    let lab = include_str!("../../../labs/pair-100m.toml");
    let lab = lab.replacen("[lab]", "[lab]\nfamily = \"ipv6\"", 1);
    file(folder.path(), "six.toml", &lab);
    // An IPv6 header has 20 bytes more than one of IPv4 (RFC 8200 clause 3).
    for (workload, params, payload) in [
        ("tcp_stream", "congestion = \"cubic\", socket_buffer = \"1 MiB\"", TCP_PAYLOAD - 20.0),
        (
            "udp_stream",
            "rate = \"200 Mbit/s\", datagram_size = \"1452 B\", gso = 1",
            UDP_PAYLOAD - 20.0,
        ),
    ] {
        let text = plan(workload, 1.0, params);
        let measured = measure_in(folder.path(), &text, &["--lab", "six.toml"]);
        let Some(measured) = measured else { return };
        let ceiling = LINK * payload / FRAME;
        println!("{workload} over IPv6, {ceiling:.0} bit/s at most:");
        no_run_exceeds(&measured, ceiling);
        has_ceiling(&measured, ceiling);
        let to = measured.campaign.trials[0].spec.jobs[0].to.address.expect("placed");
        assert!(to.is_ipv6(), "{to}");
    }
}

#[test]
fn datagrams_paced_below_the_link_all_arrive_at_their_rate() {
    let Some(()) = privileged() else { return };
    let params = "rate = \"50 Mbit/s\", datagram_size = \"1472 B\", gso = 1, batch = 1";
    let text = plan("udp_stream", 1.0, params);
    // A sender that was kept waiting catches up: this queue holds more than its socket may have
    // under way (wmem_default).
    let folder = tempfile::tempdir().expect("a folder");
    let lab = "[lab]\nname='deep'\n[[host]]\nname='a'\n[[host]]\nname='b'\n[[link]]\n\
        ends=['a','b']\nrate='100 Mbit/s'\n\
               buffer='1 MiB'\n";
    file(folder.path(), "deep.toml", lab);
    let Some(measured) = measure_in(folder.path(), &text, &["--lab", "deep.toml"]) else { return };
    let ledger = ledger_of(&measured);
    // By its schedule, of which a sender without a CPU may have left out the end.
    let (active, _) = &measured.campaign.trials[0].jobs[0];
    let counted = |counter| active.intervals.iter().map(|one| one.counters[counter]).sum::<u64>();
    let (due, started) = (counted(Counter::Intended), counted(Counter::Started));
    let rate = due as f64 * UDP_PAYLOAD * 8.0 / (1.0 + common::WARM_UP);
    println!(
        "udp_stream at 50 Mbit/s: {rate:.0} bit/s due over the load, {started} of {due} started, \
            {ledger:?}"
    );
    assert!((rate / 50e6 - 1.0).abs() < 0.01, "{rate}");
    assert!(ledger.sent == started && started <= due, "{ledger:?}");
    assert_eq!((ledger.lost(), ledger.late, ledger.duplicates), (0, 0, 0));
}

#[test]
fn datagrams_offered_at_twice_the_link_are_lost_by_half_and_the_ledger_balances() {
    let Some(()) = privileged() else { return };
    let text =
        plan("udp_stream", 1.0, "rate = \"200 Mbit/s\", datagram_size = \"1472 B\", gso = 1");
    let Some(measured) = measure(&text, &["--lab", "pair-100m"]) else { return };
    let ceiling = LINK * UDP_PAYLOAD / FRAME;
    no_run_exceeds(&measured, ceiling);
    let ledger = ledger_of(&measured);
    let [loss] = &measured.job().loss[..] else { panic!("one direction") };
    println!("udp_stream at 200 Mbit/s: {ledger:?}, located {:?}", loss.located);
    assert!(ledger.lost() > 0);
    let located: u64 = loss.located.iter().map(|(_, n)| n).sum();
    assert_eq!(located + loss.unexplained, ledger.lost(), "{loss:?}");
    assert_eq!(
        (&loss.located[..], loss.unexplained),
        (&[(LossPlace::SenderQueue, ledger.lost())][..], 0)
    );
}

#[test]
fn messages_dropped_by_a_queue_are_located_in_that_queue() {
    let Some(()) = privileged() else { return };
    // Messages of 6.4 KB fit the link's token bucket: its queue drops them whole, and counts each
    // once.
    let params = "rate = \"120 Mbit/s\", datagram_size = \"100 B\", gso = 64, batch = 1";
    let text = plan("udp_stream", 0.5, params);
    let Some(measured) = measure(&text, &["--lab", "pair-100m"]) else { return };
    let ledger = ledger_of(&measured);
    let [loss] = &measured.job().loss[..] else { panic!("one direction") };
    println!(
        "udp_stream, gso 64, at 120 Mbit/s: {ledger:?}, located {:?}, not {}",
        loss.located, loss.unexplained
    );
    assert!(ledger.lost() > 1_000, "{ledger:?}");
    assert_eq!(loss.located.iter().map(|(_, n)| n).sum::<u64>() + loss.unexplained, ledger.lost());
    assert_eq!(loss.located[0].0, LossPlace::SenderQueue);
    // The queue also passed packets of other kinds: each hides one that it dropped.
    let share = loss.located[0].1 as f64 / ledger.lost() as f64;
    let is_located = share > 0.999;
    let point = &measured.study.points[0];
    if !is_located && share > 0.9 && point.validity != Validity::Valid {
        let why = point.trials[0].why.first().map(sentences::reason);
        return skip(format_args!("{} without a place: {why:?}", loss.unexplained));
    }
    assert!(is_located, "{loss:?}");
}

#[test]
fn exactly_one_in_a_hundred_datagrams_is_counted_as_dropped() {
    let Some(()) = privileged() else { return };
    let text = plan("udp_stream", 1.0, "rate = \"2 kpps\", datagram_size = \"1000 B\", gso = 1");
    let Some(measured) = measure(&text, &["--lab", "lossy"]) else { return };
    let ledger = ledger_of(&measured);
    println!("udp_stream, one in 100 dropped: {ledger:?}");
    assert!(ledger.sent >= 100, "{ledger:?}");
    assert_eq!(ledger.lost(), ledger.sent / 100);
    assert_eq!((ledger.late, ledger.duplicates, ledger.lost_all), (0, 0, 0));
    assert_eq!(ledger.unique, ledger.sent - ledger.sent / 100);
}

#[test]
fn exactly_one_in_fifty_datagrams_is_counted_as_duplicated() {
    let Some(folder) = privileged_folder() else { return };
    let lab = "[lab]\nname='d'\n[[host]]\nname='a'\n[[host]]\nname='b'\n[[link]]\nends=['a','b']\n\
        duplicate_one_in=50\n";
    file(folder.path(), "double.toml", lab);
    let text = plan("udp_stream", 0.5, "rate = \"2 kpps\", datagram_size = \"1000 B\", gso = 1");
    let measured = measure_in(folder.path(), &text, &["--lab", "double.toml"]);
    let Some(measured) = measured else { return };
    let ledger = ledger_of(&measured);
    println!("udp_stream, one in 50 doubled: {ledger:?}");
    let told = [ledger.duplicates, ledger.unique, ledger.lost()];
    assert_eq!(told, [ledger.sent / 50, ledger.sent, 0]);
}

/// The delay of lab `sun-link`, seconds each way.
const DELAY: f64 = 0.004;

/// Requests over 8 ms there and back: the median is that and what the hosts add; the rate is what
/// depth and time leave.
fn round_trips(workload: &str, params: &str) {
    let text = plan(workload, 1.0, &format!("depth = 4, {params}"));
    let Some(measured) = measure(&text, &["--lab", "sun-link"]) else { return };
    let Some(median) = measured.figure("response_time_p50") else { return };
    let Some(rate) = measured.figure("transaction_rate") else { return };
    println!(
        "{workload} over 8 ms: median {:.3} ms, {rate:.1} transactions/s at depth 4",
        median * 1e3
    );
    // Histograms keep two significant digits and more: a bucket may begin 1 % below its values.
    assert!(median >= 2.0 * DELAY * 0.99, "{median}");
    let ceiling = 4.0 / (2.0 * DELAY);
    assert!(rate <= ceiling * 1.01, "{rate}");
    let (active, _) = &measured.campaign.trials[0].jobs[0];
    let (first, last) = (&active.intervals[0], &active.intervals[active.intervals.len() - 1]);
    let count = |interval: &Interval, counter: Counter| interval.counters[counter];
    // Requests in flight when an interval ends. A step sends requests, then reads answers. If each
    // step reads some, because the worker waited for a CPU, no interval ends with all four.
    let in_flight = active.intervals.iter().scan(0, |in_flight, interval| {
        *in_flight += count(interval, Counter::OperationsDue);
        *in_flight -= count(interval, Counter::OperationsAnswered);
        *in_flight -= count(interval, Counter::OperationsLost);
        Some(*in_flight)
    });
    let most = in_flight.max().expect("intervals");
    assert!(most <= 4, "{most} requests in flight");
    // Every answer has one time, and never more than four of these times overlap.
    let times = active.intervals.iter().flat_map(|interval| &interval.response.buckets);
    let (n, sum) = times.fold((0, 0.0), |(n, sum), (nanos, count)| {
        (n + count, sum + *nanos as f64 * *count as f64)
    });
    let answered = |interval| count(interval, Counter::OperationsAnswered);
    assert_eq!(n, active.intervals.iter().map(answered).sum::<u64>());
    let span = (last.end.0 - first.start.0) as f64;
    println!("{most} of 4 requests in flight, {:.3} on average", sum / span);
    assert!(sum <= 4.0 * 1.01 * span, "{sum} of {span} ns, {n} requests");
    let why = &measured.study.points[0].trials[0].why;
    // More than three on average need a fourth, seen at the end of an interval or not.
    let is_fourth_used = most == 4 || sum > 3.1 * span;
    if !is_fourth_used && why.iter().any(|why| matches!(why, Reason::Waited { .. })) {
        skip(format_args!("{most} of 4 requests in flight seen: the worker had no CPU"));
    } else {
        assert!(is_fourth_used, "{most} of 4 in flight, {why:?}");
    }
}

#[test]
fn tcp_requests_take_at_least_the_round_trip() {
    if privileged().is_some() {
        let _turn = turn();
        round_trips("tcp_rr", "no_delay = true");
    }
}

#[test]
fn udp_requests_take_at_least_the_round_trip() {
    if privileged().is_some() {
        let _turn = turn();
        round_trips("udp_rr", "request_size = \"64 B\", response_size = \"64 B\"");
    }
}

#[test]
fn a_connection_takes_two_round_trips_at_least() {
    let Some(()) = privileged() else { return };
    let Some(measured) = measure(&plan("tcp_crr", 1.0, ""), &["--lab", "sun-link"]) else { return };
    let Some(median) = measured.figure("response_time_p50") else { return };
    let Some(rate) = measured.figure("connection_rate") else { return };
    println!("tcp_crr over 8 ms: median {:.3} ms, {rate:.1} connections/s", median * 1e3);
    assert!(median >= 4.0 * DELAY * 0.99, "{median}");
    assert!(rate > 0.0 && rate <= 1.01 / (4.0 * DELAY), "{rate}");
}

/// Datagrams of a probe over 4 ms each way: no arrival and no answer is earlier than the wire
/// allows, by one clock, and nothing arrives that was not sent.
#[test]
fn datagrams_of_a_probe_take_at_least_the_delay_of_the_path() {
    let Some(()) = privileged() else { return };
    let params = "max_rate = \"8 Mbit/s\", max_bytes = \"100 kB\"";
    let Some(measured) = measure(&plan("path_probe", 3.0, params), &["--lab", "sun-link"]) else {
        return;
    };
    let (active, passive) = &measured.campaign.trials[0].jobs[0];
    let probe = |end: &linerate_model::JobRecord| end.flows[0].probe.clone().expect("a record");
    let (sender, receiver) = (probe(active), probe(passive));
    let n_sent: u64 = sender.phases.iter().map(|phase| phase.n).sum();
    for (series, delay) in [(&receiver.series, DELAY), (&sender.series, 2.0 * DELAY)] {
        let times = series.rows().map(|(_, sent, arrived)| arrived as f64 - sent as f64);
        let least = times.fold(f64::INFINITY, f64::min) / 1e9;
        println!("path_probe: {} of {n_sent}, least {least:.6} s", series.number.len());
        assert!(least.is_finite() && least >= delay, "{least} of {delay}");
        assert!(series.rows().all(|(number, ..)| number < n_sent));
        assert!(series.number.len() as u64 <= n_sent);
    }
}

#[test]
fn a_lost_request_counts_as_lost_with_an_infinite_time() {
    let Some(()) = privileged() else { return };
    let _turn = turn();
    let params = "request_size = \"64 B\", response_size = \"128 B\", timeout = \"200 ms\", rate \
        = \"4 kpps\", depth = 1024";
    let Some(measured) = measure(&plan("udp_rr", 3.0, params), &["--lab", "lossy"]) else { return };
    let active = &measured.campaign.trials[0].jobs[0].0;
    let total =
        |counter: Counter| active.flows.iter().map(|flow| flow.counters[counter]).sum::<u64>();
    let sent = total(Counter::DatagramsSent);
    let (given_up, late) = (total(Counter::TransactionsLost), total(Counter::Late));
    let open: u64 =
        active.intervals.iter().map(|interval| interval.counters[Counter::OperationsOpen]).sum();
    let lost = given_up + open;
    // Every hundredth request does not arrive; of the answers to the others every hundredth does
    // not.
    let expected = sent / 100 + (sent - sent / 100) / 100;
    println!(
        "udp_rr, one in 100 dropped each way: {sent} requests, {given_up} given up, {open} open, \
            {late} late, {expected} dropped"
    );
    // A late answer was counted as lost before it came. Only a socket whose reader has no CPU adds
    // to the datagrams that the wire dropped.
    assert!(lost >= expected + late, "{lost} lost");
    if lost > expected + late {
        return println!(
            "skipped: a_lost_request_counts_as_lost_with_an_infinite_time: {} more were lost than \
                the wire \
                dropped: a socket overflowed",
            lost - expected - late
        );
    }
    let metrics = &measured.json["points"][0]["jobs"][0]["metrics"];
    // Requests of the warm-up, and of an interval across its end, are in no figure.
    let timed = measured.job().response.count();
    if timed < 10_000 {
        return println!(
            "skipped: a_lost_request_counts_as_lost_with_an_infinite_time: {timed} times \
                are too few for 99.9 %"
        );
    }
    assert!(metrics["response_time_p50"]["estimate"].is_number());
    assert!(
        metrics["response_time_p999"]["estimate"].is_null(),
        "one in a thousand waits for ever: {metrics}"
    );
    let ever = measured
        .job()
        .metrics
        .iter()
        .find(|metric| metric.metric == metric::RESPONSE_TIME_P999)
        .unwrap_or_else(|| panic!("{timed} times, {:?}", measured.job().withheld));
    assert_eq!(ever.values, [Some(f64::INFINITY)]);
}

#[test]
fn the_null_workload_reports_the_cost_of_a_step() {
    let Some(measured) = measure(&plan("null", 0.3, ""), &[]) else { return };
    let metrics =
        measured.json["points"][0]["jobs"][0]["metrics"].as_object().expect("a table").clone();
    let cost = measured.study.overhead.null_step_ns.expect("the null workload shows it");
    println!("null: {cost:.1} ns a step");
    assert!(!metrics.contains_key("goodput"), "{metrics:?}");
    // What it may cost is measured in release, on a quiet machine.
    assert!(cost > 0.0, "{cost}");
}

#[test]
fn a_testbed_of_ipv6_addresses_is_measured_over_ipv6() {
    let Some(folder) = privileged_folder() else { return };
    let pair = common::Pair::build("six");
    for (end, address) in [(0, "2001:2::1/64"), (1, "2001:2::2/64")] {
        pair.ran(end, &format!("ip address add {address} dev v0 nodad"));
    }
    // Both endpoints are an address of the same namespace, so that no second agent is needed.
    file(
        folder.path(),
        "six.toml",
        "[[host]]\nname = \"here\"\nreach = \"local\"\n\
         [[endpoint]]\nname = \"a\"\nhost = \"here\"\naddress = \"2001:2::1\"\n\
         [[endpoint]]\nname = \"b\"\nhost = \"here\"\naddress = \"2001:2::1\"\n",
    );
    file(folder.path(), "plan.toml", &plan("tcp_stream", 0.3, "streams = 2"));
    let arguments =
        ["run", "plan.toml", "--testbed", "six.toml", "--ledger", "six.ledger", "--json"];
    let ended: common::Ended = pair
        .linerate(0, folder.path(), "keys", &arguments)
        .output()
        .expect("linerate starts")
        .into();
    let json = ended.expect(0).json();
    let goodput =
        json["points"][0]["jobs"][0]["metrics"]["goodput"]["estimate"].as_f64().expect("a figure");
    println!("tcp_stream over IPv6 loopback: {goodput:.0} bit/s");
    assert!(goodput > 0.0);
}
