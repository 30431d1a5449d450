//! Runs one network case: lays the path, injects the fault, starts the load, and reads every
//! instrument before and after.

use std::fmt::Write as _;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::capture::Capture;
use super::cases::{Clock, Fault, Load, Network, Packets, Seen, Watch, Window};
use super::ground::{AGENT_PORT, End, Family, Ground, OTHER_CLOCK_PORT, PORTS};
use super::instruments::{nft_counters, shapers, snmp, watch_sockets};
use super::study::Study;

/// Counters of the rules: packets that count there and back, and those that the fault hit.
const COUNTERS: [&str; 4] = ["there_seen", "there_hit", "back_seen", "back_hit"];
/// UDP header (RFC 768).
const UDP_HEADER: u64 = 8;
/// Outer UDP, VXLAN, Ethernet, IPv4 and UDP headers around a tunnelled datagram's payload.
const TUNNELLED: u64 = 8 + 8 + 14 + 20 + 8;
/// IPv4 header and TCP header with time stamps (RFC 7323).
pub(super) const TCP_HEADERS: u64 = 20 + 32;
/// Bytes that one block of SACK adds to an acknowledgement (RFC 2018 clause 3).
const SACK_BLOCK: u64 = 12;
/// Larger than any message of set-up or control.
const LEAST_DATA: u64 = 1000;
/// How often the first packet is looked for.
const POLL: Duration = Duration::from_millis(5);
/// How long before and after the end of the measurement counters are read that may still rise.
const AROUND_END: Duration = Duration::from_millis(60);
/// Longest wait for an agent that is still busy with the case before.
const BUSY: Duration = Duration::from_secs(20);
/// Longest wait for the first packet.
const STARTING: Duration = Duration::from_secs(10);

/// Why a case could not run; everything else that fails is linerate's failure.
#[derive(Debug)]
pub(super) struct Skipped(pub(super) String);

impl std::fmt::Display for Skipped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Skipped {}

/// Runs `case`, and returns what was seen.
///
/// # Errors
/// The outer error is one of linerate; the inner one says why the ground lacks something.
pub(super) fn run<'a>(
    ground: &'a mut Ground,
    // The fault is in place before the load starts, so that the first packet can be hit.
    case: &'a Network,
) -> anyhow::Result<Result<Seen<'a>, Skipped>> {
    let prepared = prepare(ground, case);
    // Without the fault the case would prove nothing, so it is skipped with the reason.
    let relay = match prepared {
        Ok(relay) => relay,
        Err(error) => return Ok(Err(Skipped(format!("{error:#}")))),
    };
    let ground = &*ground;
    let before = [snmp(ground, End::A)?, snmp(ground, End::B)?];
    let capture = (case.watch == Watch::Segments).then(|| Capture::start(ground)).transpose()?;
    let is_over = AtomicBool::new(false);
    let (study, sockets, window) = std::thread::scope(|scope| {
        // Instruments read beside the load, each in a thread of its own.
        let watching =
            (case.watch == Watch::Sockets).then(|| scope.spawn(|| watch_sockets(ground, &is_over)));
        let counts = matches!(case.watch, Watch::Counters | Watch::Sockets);
        let window = counts.then(|| scope.spawn(|| window(ground, &case.load)));
        let tail = match case.fault {
            Fault::DropFrom { after_ms } if after_ms > 0 => {
                Some(scope.spawn(move || drop_later(ground, case, Duration::from_millis(after_ms))))
            }
            _ => None,
        };
        // Checked after the instruments have ended, so that none is left running.
        let study = load(ground, case);
        is_over.store(true, Ordering::Relaxed);
        let sockets = watching
            .map(|thread| thread.join().expect("reading does not panic"))
            .unwrap_or_default();
        let tail = tail.map_or(Ok(()), |thread| thread.join().expect("nft does not panic"));
        let window =
            window.map(|thread| thread.join().expect("reading does not panic")).transpose();
        Ok::<_, anyhow::Error>((study?, sockets, window?)).and_then(|seen| tail.map(|()| seen))
    })?;
    let connections = capture.map(Capture::connections).transpose()?.unwrap_or_default();
    let after = [snmp(ground, End::A)?, snmp(ground, End::B)?];
    let relay = relay.map_or(Ok(serde_json::Value::Null), super::ground::Relay::counts)?;
    // Read last: what is still under way has arrived by then.
    let (nft, shapers) = (nft_counters(ground)?, shapers(ground)?);
    Ok(Ok(Seen {
        ground,
        case,
        study,
        nft,
        shapers,
        snmp: [before, after],
        sockets,
        window,
        connections,
        relay,
    }))
}

fn prepare(ground: &mut Ground, case: &Network) -> anyhow::Result<Option<super::ground::Relay>> {
    if case.load.clock == Clock::Other {
        ground.other_clock()?;
    }
    let faults = case.fault.relay(case.load.packets);
    ground.lay(&case.between, faults.is_some())?;
    ground.nft(&rules(case.fault, case.load.packets, case.between.family))?;
    faults.map(|faults| ground.relay(&faults)).transpose()
}

/// Which packets count, as a match of `nft`.
fn matching(packets: Packets, family: Family) -> String {
    // Inside a tunnel the rules see the outer headers.
    let in_tunnel = matches!(family, Family::Vxlan | Family::Relay);
    match packets {
        Packets::Udp(payload) if in_tunnel => {
            format!("udp dport 4789 udp length {}", payload + TUNNELLED)
        }
        Packets::Udp(payload) => format!("udp length {}", payload + UDP_HEADER),
        Packets::UdpSuper(payload) => format!("meta l4proto udp meta length > {payload}"),
        // Messages that share segments are cut anywhere; acknowledgements are shorter than the
        // shortest piece.
        Packets::Tcp(_) => format!("{} ip length > {}", of_load(), TCP_HEADERS + SACK_BLOCK),
        // The inner ports stand behind 50 bytes of headers: UDP, VXLAN, Ethernet and IPv4.
        Packets::TcpData if in_tunnel => {
            let agents = agents();
            format!(
                "udp dport 4789 @th,400,16 != {agents} @th,416,16 != {agents} meta length > \
                    {LEAST_DATA}"
            )
        }
        Packets::TcpData => format!("{} meta length > {LEAST_DATA}", of_load()),
    }
}

/// TCP of the load: not of agents.
pub(super) fn of_load() -> String {
    let agents = agents();
    format!("tcp sport != {agents} tcp dport != {agents}")
}

/// Ports of agents, always as a set: nft 1.0.6 merges two neighbouring comparisons with single
/// ports into one that asks whether both differ together, so that a rule against the load cuts the
/// agent's own connection too.
fn agents() -> String {
    format!("{{ {AGENT_PORT}, {OTHER_CLOCK_PORT} }}")
}

/// The rules of a case: all packets that count are counted, and some are hit. What is dropped from
/// some time on is only counted as hit.
fn rules(fault: Fault, packets: Packets, family: Family) -> String {
    let matching = matching(packets, family);
    let mut text = "table netdev truth {\n".to_owned();
    for counter in COUNTERS {
        let _infallible = writeln!(text, " counter {counter} {{ }}");
    }
    for (way, port) in ["there", "back"].into_iter().zip(PORTS) {
        let _infallible = writeln!(
            text,
            " chain {way} {{\n  type filter hook ingress device {port} priority 0; policy accept;"
        );
        // A drop from the start counts nothing as seen.
        if fault == (Fault::DropFrom { after_ms: 0 }) {
            let _infallible = writeln!(text, "  {matching} counter name {way}_hit drop");
        }
        let _infallible = writeln!(text, "  {matching} counter name {way}_seen");
        // The generator counts from zero, so the last of each group is hit: the first packets pass.
        let nth =
            |every: u64| format!("numgen inc mod {every} == {} counter name {way}_hit", every - 1);
        let action = match (fault, way) {
            (Fault::Drop { every, .. }, "there")
            | (Fault::Drop { every, back: true }, _)
            | (Fault::DropAnswers { every }, "back") => Some(format!("{} drop", nth(every))),
            (Fault::Duplicate { every }, "there") => {
                Some(format!("{} dup to {}", nth(every), PORTS[1]))
            }
            // Bytes 40 and 41 of the payload: behind what linerate puts first in a datagram.
            (Fault::Corrupt { every }, "there") => {
                Some(format!("{} @th,384,16 set 0xa55a", nth(every)))
            }
            _ => None,
        };
        if let Some(action) = action {
            let _infallible = writeln!(text, "  {matching} {action}");
        }
        text.push_str(" }\n");
    }
    text + "}\n"
}

/// Drops everything of the load, both ways, `after` the first packet.
fn drop_later(ground: &Ground, case: &Network, after: Duration) -> anyhow::Result<()> {
    await_first(ground)?;
    std::thread::sleep(after);
    let matching = matching(case.load.packets, case.between.family);
    // TCP repeats lost bytes in segments of other sizes.
    let lost = match case.load.packets {
        Packets::Tcp(_) | Packets::TcpData => of_load(),
        _ => matching,
    };
    let rule =
        // Inserted in front of the rules that count: what is dropped is only counted as hit.
        |way: &str| format!("insert rule netdev truth {way} {lost} counter name {way}_hit drop\n");
    ground.nft(&(rule("there") + &rule("back")))
}

/// Waits for the first packet of the load, either way, and returns when it was seen.
fn await_first(ground: &Ground) -> anyhow::Result<Instant> {
    let began = Instant::now();
    loop {
        let counters = nft_counters(ground)?;
        if ["there_seen", "back_seen"]
            .iter()
            .any(|name| counters.get(*name).is_some_and(|counter| counter.packets > 0))
        {
            // The moment is uncertain by one poll.
            return Ok(Instant::now());
        }
        if began.elapsed() > STARTING {
            bail!("no packet of the load came in {} s", STARTING.as_secs());
        }
        std::thread::sleep(POLL);
    }
}

/// Reads the instruments at the instant at which linerate ends measuring, and around it.
fn window(ground: &Ground, load: &Load) -> anyhow::Result<Window> {
    let wait_until =
        |instant: Instant| std::thread::sleep(instant.saturating_duration_since(Instant::now()));
    let before = sent_again(ground)?;
    let first = await_first(ground)?;
    // linerate counts its phases from the start barrier, which the first packet follows at once.
    let end = first + Duration::from_millis(load.warmup_ms + load.duration_ms);
    wait_until(end.checked_sub(AROUND_END).unwrap_or(first));
    let least = sent_again(ground)? - before;
    wait_until(end);
    let [_, shaper] = shapers(ground)?;
    wait_until(end + AROUND_END);
    let most = sent_again(ground)? - before;
    Ok(Window { shaper, sent_again: [least, most] })
}

/// Returns how many segments both ends have sent again since they started.
fn sent_again(ground: &Ground) -> anyhow::Result<f64> {
    // Requests and replies are data of different ends, so both are asked.
    let of = |end| {
        snmp(ground, end).map(|snmp| snmp.get("Tcp.RetransSegs").copied().unwrap_or_default())
    };
    Ok(of(End::A)? + of(End::B)?)
}

/// Lets linerate measure once.
fn load(ground: &Ground, case: &Network) -> anyhow::Result<Study> {
    let port = if case.load.clock == Clock::Other { OTHER_CLOCK_PORT } else { AGENT_PORT };
    let address = Ground::address(case.between.family, End::B);
    // An IPv6 address needs brackets before a port.
    let host = if address.contains(':') {
        format!("[{address}]:{port}")
    } else {
        format!("{address}:{port}")
    };
    run_plan(ground, &case.load.plan(), Some(&host))
}

/// Lets linerate run `plan`, to an agent on `host` or here.
pub(super) fn run_plan(ground: &Ground, plan: &str, host: Option<&str>) -> anyhow::Result<Study> {
    let file = ground.folder.join("plan.toml");
    std::fs::write(&file, plan).with_context(|| format!("write {}", file.display()))?;
    let ledger = ground.new_ledger();
    let mut command = ground.linerate(End::A);
    command.arg("run").arg(&file).args(["--json", "--quiet", "--out"]).arg(&ground.folder);
    command.arg("--ledger").arg(&ledger);
    if let Some(host) = host {
        command.args(["--to", host]);
    }
    command.stdin(Stdio::null());
    let began = Instant::now();
    let output = loop {
        let output = command.output().context("start linerate run")?;
        // An agent ends a campaign that was cut off when its own timeouts are over.
        let is_busy =
            String::from_utf8_lossy(&output.stderr).contains("it is busy with a campaign");
        if !is_busy || began.elapsed() > BUSY {
            break output;
        }
        std::thread::sleep(Duration::from_millis(500));
    };
    let study = Study::parse(&String::from_utf8_lossy(&output.stdout)).with_context(|| {
        format!(
            "linerate run ended with {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        )
    })?;
    if study.validity().starts_with("invalid") {
        eprintln!("  the trial is {}", study.validity());
    }
    Ok(study)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_hit_the_last_of_every_n_and_count_before_they_drop() {
        let text = rules(Fault::Drop { every: 37, back: false }, Packets::Udp(200), Family::V4);
        assert!(
            text.contains(
                "udp length 208 counter name there_seen\n  udp length 208 numgen inc \
            mod 37 == 36 counter name there_hit drop"
            ),
            "{text}"
        );
        assert!(!text.contains("back_hit drop"), "{text}");
        let answers = rules(Fault::DropAnswers { every: 5 }, Packets::Udp(200), Family::V4);
        assert!(
            answers.contains("mod 5 == 4 counter name back_hit drop")
                && !answers.contains("there_hit drop"),
            "{answers}"
        );
        let both = rules(Fault::Drop { every: 37, back: true }, Packets::Udp(200), Family::V6);
        assert!(both.contains("back_hit drop"), "{both}");
    }

    #[test]
    fn ports_of_agents_are_compared_as_sets() {
        for text in [of_load(), matching(Packets::TcpData, Family::Vxlan)] {
            assert_eq!(text.matches("!= {").count(), 2, "{text}");
            assert_eq!(text.matches("!=").count(), 2, "{text}");
        }
    }

    #[test]
    fn a_tunnelled_datagram_is_found_by_its_outer_length() {
        assert_eq!(matching(Packets::Udp(200), Family::Vxlan), "udp dport 4789 udp length 258");
    }
}
