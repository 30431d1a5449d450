//! Fields of a controller's answers: lines for a person, JSON for a program.

use linerate_observe::ncsi::kernel::Channel;
use linerate_observe::ncsi::{FoundChannel, Reply};
use linerate_packet::ncsi::{
    Answer, BufferReport, Capabilities, Command, ControlStatistics, LinkStatus, Parameters,
    PassThroughStatistics, PortStatistics, Speed, Version,
};
use serde_json::{Map, Value, json};

/// Properties and their values, for a person.
pub(super) type Lines = Vec<(String, String)>;

/// Returns the name of an answer, its lines and its JSON.
pub(super) fn of_reply(reply: &Reply) -> (&'static str, Lines, Value) {
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
                "firmware_version": version.firmware_text(), "pci": version.pci,
                "enterprise": version.enterprise,
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
                "broadcast": parameters.broadcast, "link": parameters.link,
            }),
        ),
        Answer::LinkStatus(link) => (
            "link",
            of_link(link),
            json!({
                "up": link.is_up(), "megabits": link.speed().map(|speed| speed.megabits),
                "full_duplex": link.speed().map(|speed| speed.full_duplex),
                "host_driver": link.host_driver_runs(),
            }),
        ),
        Answer::PassThroughStatistics(statistics) => {
            counters("pass-through statistics", &PassThroughStatistics::NAMES, &statistics.counters)
        }
        Answer::ControlStatistics(statistics) => {
            counters("control statistics", &ControlStatistics::NAMES, &statistics.counters)
        }
        Answer::PortStatistics(statistics) => {
            counters("port statistics", &PortStatistics::NAMES, &statistics.counters)
        }
        _ => {
            let why = format!("{:?}: {}", reply.outcome, reply.reason.words());
            ("answer", vec![line("refused", why.clone())], json!({ "refused": why }))
        }
    }
}

/// Returns counters by name. A counter that the controller does not have is no zero.
fn counters(
    group: &'static str,
    names: &[&str],
    values: &[Option<u64>],
) -> (&'static str, Lines, Value) {
    // A counter that the controller does not have is not zero.
    let text = |value: &Option<u64>| value.map_or("n/a".to_owned(), |value| value.to_string());
    let lines =
        names.iter().zip(values).map(|(name, value)| ((*name).to_owned(), text(value))).collect();
    let object: Map<String, Value> = names
        .iter()
        .zip(values)
        // Programs use the names as keys, which are easier without spaces.
        .map(|(name, value)| (name.replace(' ', "_"), json!(value)))
        .collect();
    (group, lines, Value::Object(object))
}

fn buffer_text(capabilities: &Capabilities) -> String {
    match capabilities.buffer_report() {
        BufferReport::Bytes(bytes) => {
            format!(
                "{bytes} B ({} KiB) as reported; `linerate tune window` measures it",
                bytes / 1024
            )
        }
        BufferReport::NotSaid => "not reported; `linerate tune window` measures it".to_owned(),
        // Some controllers report the size in another unit, so the figure is shown but not used.
        BufferReport::Implausible(bytes) => {
            format!("{bytes}: too small for a frame; `linerate tune window` measures it")
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
        ("reports the host's driver", yes(1).to_owned()),
        ("flow control to, from the BMC", format!("{}, {}", yes(2), yes(3))),
        (
            "filters",
            format!("{unicast} unicast, {multicast} multicast, {mixed} mixed, {vlan} VLAN"),
        ),
        ("VLAN modes", format!("{:03b}", capabilities.vlan_modes)),
        ("broadcast filters", named(&BROADCAST, capabilities.broadcast_filters)),
        ("multicast filters", named(&MULTICAST, capabilities.multicast_filters)),
        ("notifications", named(&NOTIFICATIONS, capabilities.notifications)),
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
        "buffer_bytes": buffer, "buffer_reported": capabilities.buffer,
        "channels": capabilities.channels,
        "flags": capabilities.flags, "filters": capabilities.filters,
        "vlan_modes": capabilities.vlan_modes,
        "broadcast_filters": capabilities.broadcast_filters,
        "multicast_filters": capabilities.multicast_filters,
        "notifications": capabilities.notifications,
    })
}

fn of_version(version: &Version) -> Lines {
    const NONE: u16 = u16::MAX;
    let pci = match version.pci {
        // All ones mean that the controller has no such number.
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
        ("broadcast frames to the BMC".to_owned(), broadcast_text(parameters)),
        ("multicast frames to the BMC".to_owned(), multicast_text(parameters)),
        ("notifications".to_owned(), named(&NOTIFICATIONS, parameters.notifications)),
        ("link settings".to_owned(), named(&LINK_SETTINGS, parameters.link)),
    ];
    let macs = parameters.macs.iter().map(mac_text).collect::<Vec<_>>();
    lines.extend(filters("address", &macs, parameters.macs_enabled.into()));
    let tags =
        parameters.vlan_tags.iter().map(|tag| (tag & VLAN_MASK).to_string()).collect::<Vec<_>>();
    lines.extend(filters("VLAN", &tags, parameters.vlan_tags_enabled.into()));
    lines
}

/// Names of bits, from bit 0: Enable Broadcast Filter, Enable Global Multicast Filter, AEN Enable
/// and Set Link (DSP0222 1.2).
const BROADCAST: [&str; 4] = ["ARP", "DHCP client", "DHCP server", "NetBIOS"];
const MULTICAST: [&str; 6] = [
    "IPv6 neighbour advertisement",
    "IPv6 router advertisement",
    "DHCPv6 relay and server",
    "DHCPv6 from server to client",
    "MLD",
    "IPv6 neighbour solicitation",
];
const NOTIFICATIONS: [&str; 3] = ["link status", "configuration required", "host driver status"];
const LINK_SETTINGS: [&str; 12] = [
    "auto-negotiation",
    "10 Mbit/s",
    "100 Mbit/s",
    "1 Gbit/s",
    "10 Gbit/s",
    "20 Gbit/s",
    "25 Gbit/s",
    "40 Gbit/s",
    "half duplex",
    "full duplex",
    "pause",
    "asymmetric pause",
];

/// Returns the names of the bits that are set; a bit without a name is its number.
fn named(names: &[&str], bits: u32) -> String {
    // A controller says so if it does not know.
    if bits == u32::MAX {
        return "n/a".to_owned();
    }
    let set = (0..u32::BITS).filter(|bit| bits >> bit & 1 != 0);
    let number = |bit: u32| format!("bit {bit}");
    let name = |bit: u32| names.get(bit as usize).map_or_else(|| number(bit), |&name| name.into());
    let set: Vec<String> = set.map(name).collect();
    if set.is_empty() { "none".to_owned() } else { set.join(", ") }
}

fn broadcast_text(parameters: &Parameters) -> String {
    // While the filter is off, all of them pass.
    match (parameters.configuration & 1 != 0, parameters.broadcast) {
        (false, _) => "all".to_owned(),
        (true, kinds) => named(&BROADCAST, kinds),
    }
}

fn multicast_text(parameters: &Parameters) -> String {
    let is_filtered = parameters.configuration & 8 != 0;
    if is_filtered { "those of the filters" } else { "all" }.to_owned()
}

/// The VLAN identifier in a tag (IEEE 802.1Q clause 9.6).
const VLAN_MASK: u16 = 0x0fff;

/// Returns the filters in force, one line each, and the number of the others.
fn filters(what: &str, values: &[String], enabled: u32) -> Lines {
    // Controllers may report more filters than the bits of their mask.
    let is_on = |idx: usize| enabled.checked_shr(idx as u32).unwrap_or(0) & 1 != 0;
    let mut lines: Lines = values
        .iter()
        .enumerate()
        .filter(|(idx, _)| is_on(*idx))
        .map(|(idx, value)| (format!("{what} filter {}", idx + 1), value.clone()))
        .collect();
    // One line for all unused filters: a controller may have dozens of them.
    if lines.len() < values.len() {
        lines
            .push((format!("{what} filters not in use"), (values.len() - lines.len()).to_string()));
    }
    lines
}

fn of_link(link: &LinkStatus) -> Lines {
    let speed = link.speed().map_or("not known".to_owned(), speed_text);
    let (tx, rx) = link.flow_control();
    let yes = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
    vec![
        ("link".to_owned(), if link.is_up() { "up" } else { "down" }.to_owned()),
        ("speed".to_owned(), speed),
        ("flow control to, from the network".to_owned(), format!("{}, {}", yes(tx), yes(rx))),
        ("host driver runs".to_owned(), yes(link.host_driver_runs())),
    ]
}

/// Returns the name of the answer to `command`, for when there is none.
pub(super) const fn name_of(command: &Command) -> &'static str {
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

/// Returns a channel that was found as JSON.
pub(super) fn json_of_found(found: &FoundChannel) -> Value {
    // JSON leaves out what was not answered, rather than inventing a value.
    let of = |reply: Option<&Reply>| reply.map(|reply| of_reply(reply).2);
    let mut value = json!({
        "package": found.address.package, "channel": found.address.channel,
        "initial_state": found.initial_state,
        "version": of(found.version.as_ref().ok()), "capabilities": of(found.capabilities.as_ref()),
        "link": of(found.link.as_ref()),
    });
    if let Err(failure) = &found.version {
        value["failure"] = json!(failure.to_string());
    }
    if let Some(known) = &found.known {
        value["kernel"] = json_of_known(known);
    }
    value
}

/// Returns the kernel's record of a channel: all of it where the channel does not answer, else the
/// part that only the kernel knows.
pub(super) fn of_known(known: &Channel, found: &FoundChannel) -> Lines {
    // Preference and use are independent: a preferred channel may be down.
    let use_of_it = match (known.active, known.forced) {
        (true, true) => "in use, and preferred by configuration",
        (true, false) => "in use",
        (false, true) => "not in use, though preferred by configuration",
        (false, false) => "not in use",
    };
    let mut lines = vec![("use by the kernel".to_owned(), use_of_it.to_owned())];
    let mut add = |what: &str, text: String| lines.push((what.to_owned(), text));
    if !known.vlans.is_empty() {
        add(
            "VLANs the kernel set",
            known.vlans.iter().map(u16::to_string).collect::<Vec<_>>().join(", "),
        );
    }
    if let Err(failure) = &found.version {
        add("no answer", failure.to_string());
        // The kernel's record stands in only where the channel itself does not answer.
        if let Some(standard) = known.standard_text() {
            add("NC-SI, by the kernel's record", standard);
        }
        add("firmware, by the kernel's record", known.firmware_name.clone());
    }
    if let (None, Some(link)) = (&found.link, known.link_status()) {
        add("link, by the kernel's record", link_text(&link));
    }
    lines
}

pub(super) fn link_text(link: &LinkStatus) -> String {
    let state = if link.is_up() { "up" } else { "down" };
    link.speed().map_or(state.to_owned(), |speed| format!("{state}, {}", speed_text(speed)))
}

pub(super) fn json_of_link(link: &LinkStatus) -> Value {
    json!({ "up": link.is_up(), "megabits": link.speed().map(|speed| speed.megabits) })
}

fn json_of_known(known: &Channel) -> Value {
    let link = known.link_status().map(|link| json_of_link(&link));
    json!({
        "active": known.active, "forced": known.forced, "version": known.standard_text(),
        "firmware": known.firmware_name, "link": link, "vlans": known.vlans,
    })
}

fn speed_text(speed: Speed) -> String {
    format!("{} Mbit/s, {} duplex", speed.megabits, if speed.full_duplex { "full" } else { "half" })
}

#[cfg(test)]
mod tests {
    use linerate_observe::ncsi::{Address, Failure};

    use super::*;

    /// 1 Gbit/s, full duplex, up.
    const UP: u32 = 0x0f;

    fn found(known: Channel, failure: Failure) -> FoundChannel {
        let address = Address { package: 0, channel: known.number };
        let (capabilities, link) = (None, None);
        FoundChannel {
            address,
            known: Some(known),
            initial_state: false,
            version: Err(failure),
            capabilities,
            link,
        }
    }

    #[test]
    fn settings_are_named_and_a_filter_that_is_off_lets_all_frames_pass() {
        assert_eq!(named(&NOTIFICATIONS, 0b101), "link status, host driver status");
        let told = [0, u32::MAX, 1 << 31].map(|bits| named(&BROADCAST, bits));
        assert_eq!(told, ["none", "n/a", "bit 31"]);
        let none = Parameters {
            macs: Vec::new(),
            macs_enabled: 0,
            vlan_tags: Vec::new(),
            vlan_tags_enabled: 0,
            link: 0,
            broadcast: 0,
            configuration: 0,
            vlan_mode: 0,
            flow_control: 0,
            notifications: 0,
        };
        let filtered = Parameters { configuration: 1, broadcast: 3, ..none };
        assert_eq!(broadcast_text(&filtered), "ARP, DHCP client");
        assert_eq!(broadcast_text(&Parameters { configuration: 0, ..filtered.clone() }), "all");
        assert_eq!(multicast_text(&filtered), "all");
        let few = Parameters { configuration: 9, ..filtered };
        assert_eq!(multicast_text(&few), "those of the filters");
    }

    #[test]
    fn a_silent_channel_is_shown_by_the_kernels_record() {
        let known = Channel {
            number: 1,
            version: Some([0xf1f0_f100, 0]),
            firmware_name: "linerate-nc".into(),
            link: Some(UP),
            active: true,
            vlans: vec![5, 7],
            ..Channel::default()
        };
        let one = found(known.clone(), Failure::Silent(3));
        let lines = of_known(&known, &one);
        let line =
            |what: &str| lines.iter().find(|(name, _)| name == what).map(|(_, text)| text.as_str());
        assert_eq!(line("use by the kernel"), Some("in use"));
        assert_eq!(line("VLANs the kernel set"), Some("5, 7"));
        assert_eq!(line("NC-SI, by the kernel's record"), Some("1.0.1"));
        assert_eq!(line("link, by the kernel's record"), Some("up, 1000 Mbit/s, full duplex"));
        let value = json_of_found(&one);
        assert_eq!(value["failure"], "no answer after 3 tries");
        assert_eq!(value["version"], Value::Null);
        let kernel = json!({
            "active": true, "forced": false, "version": "1.0.1", "firmware": "linerate-nc",
            "link": { "up": true, "megabits": 1000 }, "vlans": [5, 7],
        });
        assert_eq!(value["kernel"], kernel);
    }

    #[test]
    fn a_field_that_the_kernel_did_not_record_is_null() {
        let known = Channel::default();
        let value = json_of_found(&found(known, Failure::Withheld(0x15)));
        assert_eq!(
            (&value["kernel"]["version"], &value["kernel"]["link"]),
            (&Value::Null, &Value::Null)
        );
        assert!(
            value["failure"].as_str().is_some_and(|text| text.contains("--force-raw")),
            "{value}"
        );
    }
}
