//! `linerate ncsi`: what the network controller behind a sideband is, can do, and has dropped.
//!
//! It only reads: commands that set anything take `--allow-set`.

use std::thread::sleep;
use std::time::{Duration, Instant};

use linerate_observe::ncsi::{Address, Controller, Found, Reply, Strays, survey};
use linerate_packet::ncsi::{
    Answer, BufferReport, Capabilities, Command, ControlStatistics, LinkStatus, Outcome, Parameters,
    PassThroughStatistics, PortStatistics, Reason, Version,
};
use serde_json::{Map, Value, json};

use crate::cli::{Global, NcsiArgs, NcsiVerb};
use crate::exit::{Exit, Failure, Outcome as Ended};

/// How often `watch` asks.
const WATCH_EVERY: Duration = Duration::from_secs(1);

/// Does what `args` ask.
pub(crate) fn run(args: &NcsiArgs, global: Global) -> Ended {
    let device = &args.interface;
    let mut controller = Controller::open(device).map_err(|error| {
        Failure::missing(format!("{error} (NC-SI needs CAP_NET_RAW, and the interface of the sideband)"))
    })?;
    let address = Address { package: args.package, channel: args.channel };
    match args.verb {
        NcsiVerb::Discover => discover(&mut controller, args, global),
        NcsiVerb::Configure => configure(&mut controller, args, address),
        NcsiVerb::Watch => watch(&mut controller, args, address, global),
        NcsiVerb::Capabilities => one(&mut controller, args, address, &[Command::GetCapabilities], global),
        NcsiVerb::Version => one(&mut controller, args, address, &[Command::GetVersion], global),
        NcsiVerb::Parameters => one(&mut controller, args, address, &[Command::GetParameters], global),
        NcsiVerb::Link => one(&mut controller, args, address, &[Command::GetLinkStatus], global),
        NcsiVerb::Stats => {
            let groups = [Command::GetPassThroughStatistics, Command::GetControlStatistics, Command::GetPortStatistics];
            one(&mut controller, args, address, &groups, global)
        }
    }
}

/// Asks; a refusal that everything depends on is a failure with its remedy.
fn ask(controller: &mut Controller, device: &str, address: Address, command: &Command) -> Result<Reply, Failure> {
    let Address { package, channel } = address;
    let whom = format!("package {package} channel {channel} on {device}");
    let answered = controller.ask(address, command).map_err(Failure::missing)?;
    answered.map_err(|failure| {
        Failure::missing(format!(
            "ask {whom}: {failure} (is {device} the sideband's interface, is the controller powered, and is it that package and \
             channel? linerate ncsi discover --interface {device})"
        ))
    })
}

fn one(controller: &mut Controller, args: &NcsiArgs, address: Address, commands: &[Command], global: Global) -> Ended {
    let mut answers = Map::new();
    let mut refusals = Vec::new();
    for command in commands {
        let reply = ask(controller, &args.interface, address, command)?;
        if reply.outcome != Outcome::Completed {
            refusals.push(refusal(&args.interface, &reply));
        }
        let (name, lines, value) = told(&reply);
        let name = if reply.outcome == Outcome::Completed { name } else { name_of(command) };
        if !global.json {
            println!("{name}{}", remarks(&reply));
            print(&lines);
        }
        answers.insert(name.replace([' ', '-'], "_"), value);
    }
    if global.json {
        println!(
            "{}",
            json!({ "interface": args.interface, "package": address.package, "channel": address.channel, "answers": answers })
        );
    }
    // A group of several that a controller lacks is a gap; one alone is what was asked for.
    match refusals.pop() {
        Some(why) if refusals.len() + 1 == commands.len() => Err(Failure::missing(why)),
        _ => Ok(Exit::Done),
    }
}

/// Lines for a person; counters that are zero are told together.
fn print(lines: &[(String, String)]) {
    /// Fewer zeros than this are no crowd.
    const CROWD: usize = 16;
    let is_zero = |(_, text): &&(String, String)| text == "0";
    let n_zeros = lines.iter().filter(is_zero).count();
    let folded = n_zeros >= CROWD;
    for (what, text) in lines.iter().filter(|line| !(folded && is_zero(line))) {
        println!("  {what:<38} {text}");
    }
    if folded {
        println!("  {:<38} 0", format!("{n_zeros} other counters"));
    }
}

fn refusal(device: &str, reply: &Reply) -> String {
    let remedy = if reply.reason == Reason::INITIALIZATION_REQUIRED {
        format!("linerate ncsi configure --interface {device} --allow-set brings it up")
    } else {
        format!("linerate ncsi discover --interface {device} tells what is there")
    };
    format!("the controller on {device} refused: {} ({remedy})", reply.reason.words())
}

const fn name_of(command: &Command) -> &'static str {
    match command {
        Command::GetPassThroughStatistics => "pass-through statistics",
        Command::GetControlStatistics => "control statistics",
        Command::GetPortStatistics => "port statistics",
        Command::GetCapabilities => "capabilities",
        Command::GetParameters => "parameters",
        Command::GetVersion => "version",
        _ => "link",
    }
}

/// What was odd about an answer.
fn remarks(reply: &Reply) -> String {
    let Strays { foreign, malformed, checksum, .. } = reply.strays;
    let mut odd = Vec::new();
    if reply.tries > 1 {
        odd.push(format!("answered at try {}", reply.tries));
    }
    for (n, what) in [(foreign, "answers to others"), (malformed, "broken packets"), (checksum, "wrong checksums")] {
        if n > 0 {
            odd.push(format!("{n} {what} passed over"));
        }
    }
    if odd.is_empty() { String::new() } else { format!(" ({})", odd.join(", ")) }
}

type Lines = Vec<(String, String)>;

/// An answer as lines for a person and as a value for a program.
fn told(reply: &Reply) -> (&'static str, Lines, Value) {
    let line = |what: &str, text: String| (what.to_owned(), text);
    match &reply.answer {
        Answer::Capabilities(capabilities) => {
            ("capabilities", of_capabilities(capabilities), json_of_capabilities(capabilities))
        }
        Answer::Version(version) => (
            "version",
            of_version(version),
            json!({
                "standard": version.standard_text(), "firmware": version.firmware_name_text(),
                "firmware_version": version.firmware_text(), "pci": version.pci, "enterprise": version.enterprise,
            }),
        ),
        Answer::Parameters(parameters) => (
            "parameters",
            of_parameters(parameters),
            json!({
                "macs": parameters.macs.iter().map(mac_text).collect::<Vec<_>>(),
                "macs_enabled": parameters.macs_enabled, "vlan_tags": parameters.vlan_tags,
                "configuration": parameters.configuration, "vlan_mode": parameters.vlan_mode,
                "flow_control": parameters.flow_control, "notifications": parameters.notifications,
            }),
        ),
        Answer::LinkStatus(link) => (
            "link",
            of_link(link),
            json!({
                "up": link.is_up(), "megabits": link.speed().map(|speed| speed.megabits),
                "full_duplex": link.speed().map(|speed| speed.full_duplex), "host_driver": link.host_driver_runs(),
            }),
        ),
        Answer::PassThroughStatistics(statistics) => {
            counters("pass-through statistics", &PassThroughStatistics::NAMES, &statistics.counters)
        }
        Answer::ControlStatistics(statistics) => {
            counters("control statistics", &ControlStatistics::NAMES, &statistics.counters)
        }
        Answer::PortStatistics(statistics) => counters("port statistics", &PortStatistics::NAMES, &statistics.counters),
        _ => {
            let why = format!("{:?}: {}", reply.outcome, reply.reason.words());
            ("answer", vec![line("refused", why.clone())], json!({ "refused": why }))
        }
    }
}

/// Counters by name; one the controller does not have is no zero.
fn counters(group: &'static str, names: &[&str], values: &[Option<u64>]) -> (&'static str, Lines, Value) {
    let text = |value: &Option<u64>| value.map_or("n/a".to_owned(), |value| value.to_string());
    let lines = names.iter().zip(values).map(|(name, value)| ((*name).to_owned(), text(value))).collect();
    let object: Map<String, Value> =
        names.iter().zip(values).map(|(name, value)| (name.replace(' ', "_"), json!(value))).collect();
    (group, lines, Value::Object(object))
}

fn buffer_text(capabilities: &Capabilities) -> String {
    match capabilities.buffer_report() {
        BufferReport::Bytes(bytes) => {
            format!("{bytes} B ({} KiB) as reported; linerate tune window measures it", bytes / 1024)
        }
        BufferReport::NotSaid => "not said; linerate tune window measures it".to_owned(),
        BufferReport::Implausible(bytes) => {
            format!("{bytes}: cannot be bytes of a buffer that holds a frame; linerate tune window measures it")
        }
    }
}

fn of_capabilities(capabilities: &Capabilities) -> Lines {
    let [vlan, mixed, multicast, unicast] = capabilities.filters;
    let yes = |bit: u32| if capabilities.flags >> bit & 1 != 0 { "yes" } else { "no" };
    [
        ("buffer from the network", buffer_text(capabilities)),
        ("channels", capabilities.channels.to_string()),
        ("hardware arbitration", yes(0).to_owned()),
        ("tells of the host's driver", yes(1).to_owned()),
        ("flow control to, from the BMC", format!("{}, {}", yes(2), yes(3))),
        ("filters", format!("{unicast} unicast, {multicast} multicast, {mixed} mixed, {vlan} VLAN")),
        ("VLAN modes", format!("{:03b}", capabilities.vlan_modes)),
        ("broadcasts told apart", format!("{:04b}", capabilities.broadcast_filters)),
        ("notifications", format!("{:03b}", capabilities.notifications)),
    ]
    .map(|(what, text)| (what.to_owned(), text))
    .to_vec()
}

fn json_of_capabilities(capabilities: &Capabilities) -> Value {
    let buffer = match capabilities.buffer_report() {
        BufferReport::Bytes(bytes) => json!(bytes),
        _ => Value::Null,
    };
    json!({
        "buffer_bytes": buffer, "buffer_reported": capabilities.buffer, "channels": capabilities.channels,
        "flags": capabilities.flags, "filters": capabilities.filters, "vlan_modes": capabilities.vlan_modes,
        "broadcast_filters": capabilities.broadcast_filters, "multicast_filters": capabilities.multicast_filters,
        "notifications": capabilities.notifications,
    })
}

fn of_version(version: &Version) -> Lines {
    const NONE: u16 = u16::MAX;
    let pci = match version.pci {
        [NONE, NONE, ..] => "n/a".to_owned(),
        [device, vendor, ..] => format!("{vendor:04x}:{device:04x}"),
    };
    let enterprise = match version.enterprise {
        u32::MAX => "n/a".to_owned(),
        number => number.to_string(),
    };
    [
        ("NC-SI", version.standard_text()),
        ("firmware", format!("{} {}", version.firmware_name_text(), version.firmware_text())),
        ("PCI vendor:device", pci),
        ("manufacturer (IANA)", enterprise),
    ]
    .map(|(what, text)| (what.to_owned(), text))
    .to_vec()
}

fn mac_text(mac: &[u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

fn of_parameters(parameters: &Parameters) -> Lines {
    let (to_bmc, to_network) = parameters.enabled();
    let on = |on: bool| if on { "on" } else { "off" }.to_owned();
    let mut lines = vec![
        ("traffic to the BMC".to_owned(), on(to_bmc)),
        ("traffic to the network".to_owned(), on(to_network)),
        ("VLAN mode".to_owned(), parameters.vlan_mode.to_string()),
        ("flow control".to_owned(), parameters.flow_control.to_string()),
    ];
    let macs = parameters.macs.iter().map(mac_text).collect::<Vec<_>>();
    lines.extend(filters("address", &macs, parameters.macs_enabled.into()));
    let tags = parameters.vlan_tags.iter().map(|tag| (tag & VLAN_MASK).to_string()).collect::<Vec<_>>();
    lines.extend(filters("VLAN", &tags, parameters.vlan_tags_enabled.into()));
    lines
}

/// The VLAN identifier in a tag (IEEE 802.1Q clause 9.6).
const VLAN_MASK: u16 = 0x0fff;

/// Filters in force, one a line, and how many are not.
fn filters(what: &str, values: &[String], enabled: u32) -> Lines {
    let is_on = |idx: usize| enabled.checked_shr(idx as u32).unwrap_or(0) & 1 != 0;
    let mut lines: Lines = values
        .iter()
        .enumerate()
        .filter(|(idx, _)| is_on(*idx))
        .map(|(idx, value)| (format!("{what} filter {}", idx + 1), value.clone()))
        .collect();
    if lines.len() < values.len() {
        lines.push((format!("{what} filters not in use"), (values.len() - lines.len()).to_string()));
    }
    lines
}

fn of_link(link: &LinkStatus) -> Lines {
    let speed = link.speed().map_or("not known".to_owned(), |speed| {
        format!("{} Mbit/s, {} duplex", speed.megabits, if speed.full_duplex { "full" } else { "half" })
    });
    let (tx, rx) = link.flow_control();
    let yes = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
    vec![
        ("link".to_owned(), if link.is_up() { "up" } else { "down" }.to_owned()),
        ("speed".to_owned(), speed),
        ("flow control to, from the network".to_owned(), format!("{}, {}", yes(tx), yes(rx))),
        ("host driver runs".to_owned(), yes(link.host_driver_runs())),
    ]
}

fn discover(controller: &mut Controller, args: &NcsiArgs, global: Global) -> Ended {
    let found = survey(controller, args.allow_set).map_err(Failure::missing)?;
    if found.is_empty() {
        return Err(Failure::missing(format!(
            "discover controllers on {0}: nobody answered (is {0} the sideband's interface, and does the kernel's own NC-SI stack not own it?)",
            args.interface
        )));
    }
    if global.json {
        let channels: Vec<Value> = found.iter().map(json_of_found).collect();
        println!("{}", json!({ "interface": args.interface, "channels": channels }));
        return Ok(Exit::Done);
    }
    for one in &found {
        println!("package {} channel {}", one.address.package, one.address.channel);
        if one.initial_state {
            print(&[("state".into(), "initial: refuses everything until it is initialised (--allow-set)".into())]);
        }
        let replies = [Some(&one.version), one.capabilities.as_ref(), one.link.as_ref()];
        let completed = replies.into_iter().flatten().filter(|reply| reply.outcome == Outcome::Completed);
        completed.for_each(|reply| print(&told(reply).1));
    }
    Ok(Exit::Done)
}

fn json_of_found(found: &Found) -> Value {
    let of = |reply: Option<&Reply>| reply.map(|reply| told(reply).2);
    json!({
        "package": found.address.package, "channel": found.address.channel, "initial_state": found.initial_state,
        "version": of(Some(&found.version)), "capabilities": of(found.capabilities.as_ref()), "link": of(found.link.as_ref()),
    })
}

/// Brings a channel up in the order Linux does, without filters of its own.
fn configure(controller: &mut Controller, args: &NcsiArgs, address: Address) -> Ended {
    if !args.allow_set {
        return Err(Failure::wrong(format!(
            "configure {}: it changes the controller's state, which a running BMC depends on (add --allow-set)",
            args.interface
        )));
    }
    let steps =
        [Command::ClearInitialState, Command::DisableBroadcastFilter, Command::EnableNetworkTx, Command::EnableChannel];
    for command in steps {
        let reply = ask(controller, &args.interface, address, &command)?;
        let word = if reply.outcome == Outcome::Completed { "done" } else { "refused" };
        println!("{word:<8} {command:?}{}", remarks(&reply));
        if reply.outcome != Outcome::Completed {
            return Err(Failure::missing(format!("{command:?}: {}", reply.reason.words())));
        }
    }
    Ok(Exit::Done)
}

/// Pass-through statistics as rates, a line a second.
fn watch(controller: &mut Controller, args: &NcsiArgs, address: Address, global: Global) -> Ended {
    let mut before: Option<(Instant, PassThroughStatistics)> = None;
    let mut left = args.count.map(|count| count + 1);
    while left != Some(0) {
        let reply = ask(controller, &args.interface, address, &Command::GetPassThroughStatistics)?;
        let Answer::PassThroughStatistics(now) = reply.answer else {
            return Err(Failure::missing(refusal(&args.interface, &reply)));
        };
        let at = Instant::now();
        if let Some((then, earlier)) = before {
            print_rates(&earlier, &now, (at - then).as_secs_f64(), global);
        }
        before = Some((at, now));
        left = left.map(|left| left - 1);
        if left != Some(0) {
            sleep(WATCH_EVERY);
        }
    }
    Ok(Exit::Done)
}

/// Growth of a counter of `width` bits; `None` if it fell without having wrapped: it was cleared, and the interval says nothing.
fn growth(before: Option<u64>, now: Option<u64>, width: u32) -> Option<u64> {
    /// A counter this far from its end has not wrapped within a second.
    const NEAR_THE_END: u64 = 1 << 28;
    let (before, now) = (before?, now?);
    if now >= before {
        return Some(now - before);
    }
    let wrapped = width == u32::BITS && (1 << u32::BITS) - before < NEAR_THE_END;
    wrapped.then(|| (1 << u32::BITS) - before + now)
}

fn print_rates(before: &PassThroughStatistics, now: &PassThroughStatistics, seconds: f64, global: Global) {
    let grown: Vec<Option<u64>> =
        (0..10).map(|idx| growth(before.counters[idx], now.counters[idx], now.width(idx))).collect();
    let names = PassThroughStatistics::NAMES;
    if global.json {
        let rates: Map<String, Value> = names
            .iter()
            .zip(&grown)
            .map(|(name, grown)| (name.replace(' ', "_"), json!(grown.map(|n| n as f64 / seconds))))
            .collect();
        println!("{}", json!({ "seconds": seconds, "per_second": rates }));
        return;
    }
    let rate = |grown: Option<u64>| grown.map_or("n/a".to_owned(), |n| format!("{:.0}", n as f64 / seconds));
    let share = match (grown[5], grown[6]) {
        (Some(received @ 1..), Some(dropped)) => format!("{:.2} % dropped", dropped as f64 / received as f64 * 100.0),
        _ => String::new(),
    };
    println!(
        "from the network {:>8}/s, dropped {:>7}/s {share:>16}   to the network {:>8}/s, dropped {:>7}/s",
        rate(grown[5]),
        rate(grown[6]),
        rate(grown[0]),
        rate(grown[1]),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_wraps_grows_and_one_that_was_cleared_says_nothing() {
        assert_eq!(growth(Some(10), Some(15), 32), Some(5));
        assert_eq!(growth(Some(u64::from(u32::MAX)), Some(4), 32), Some(5));
        assert_eq!(growth(Some(5000), Some(4), 32), None);
        assert_eq!(growth(Some(5000), Some(4), 64), None);
        assert_eq!(growth(None, Some(4), 32), None, "all ones: not supported");
    }
}
