//! Testbeds of a plan: loopback, a lab, a host with an agent, or a testbed file.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use linerate_control::conductor::RunOptions;
use linerate_control::{HostFacts, Timeouts};
use linerate_lab::{Description, Lab, SwitchPort};
use linerate_model::{
    Capacity, Endpoint, HostAddress, Nanos, Problem, Testbed, TestbedKind, control_characters,
    nearest,
};
use linerate_observe::{ObserverSource, ObserverSpec, SnmpAccess, SnmpAgent};
use serde::Deserialize;

use crate::catalog::{LABS, Preset, find};
use crate::launcher::Launcher;
use crate::observers::ObserverText;
use crate::push::Pushed;
use crate::towards::SSH;
pub use crate::towards::{Family, LOOPBACK, Towards};
use crate::towards::{endpoint_at, reached};
use crate::{Exit, Failure, Result, sandbox};
use linerate_agent::addresses::with_port;
use linerate_agent::keys::keys_for;
pub use linerate_model::AGENT_PORT;

/// Place of a plan; without any of these, loopback.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// A lab file or preset.
    pub lab: Option<String>,
    /// A testbed file.
    pub testbed: Option<PathBuf>,
    /// A host with an agent.
    pub to: Option<String>,
    /// Command line that runs another command on the host `to`.
    pub reach: Option<String>,
    /// True if all other ends are servers without agents; without another place, `a` is this host.
    pub servers: bool,
}

impl Place {
    /// Returns the host with an agent, if the place is one.
    fn host(&self) -> Option<Towards<'_>> {
        let host = self.to.as_deref()?;
        // Without a launcher, the name that `linerate to` takes for both ends in this process.
        let is_loopback = host == LOOPBACK && self.reach.is_none();
        let reach = self.reach.as_deref();
        (!is_loopback).then(|| Towards { reach, ..Towards::host(host) })
    }

    /// Returns this host: both ends on loopback, or one end towards servers.
    fn own(&self) -> Ground {
        let mut ground = loopback(false);
        if self.servers {
            // The kernel chooses address and interface of each connection.
            ground.kind = TestbedKind::Hosts;
            ground.testbed.endpoints.truncate(1);
            ground.testbed.endpoints.iter_mut().for_each(|here| {
                (here.address, here.device) = (None, None);
            });
        }
        ground
    }
}

/// Testbed ready for use, with the lab that it is part of.
pub struct Ground {
    /// Hosts and endpoints.
    pub testbed: Testbed,
    /// Declared capacities of the path.
    pub capacities: Vec<Capacity>,
    /// Kind of the path.
    pub kind: TestbedKind,
    /// The lab's description, if it is one.
    pub lab_text: Option<String>,
    /// The lab itself, removed when this is dropped.
    lab: Option<Lab>,
    /// Independent observers of its ports.
    pub observers: Vec<ObserverSpec>,
    /// Time limits of connections to its agents.
    pub timeouts: Timeouts,
    /// Longest absence of an agent that was lost.
    pub away: Duration,
    /// Program on a host that had none, removed when this is dropped.
    pushed: Option<Pushed>,
}

impl Ground {
    /// Returns a ground without a lab, of which nothing is declared.
    pub(crate) fn of(testbed: Testbed, kind: TestbedKind) -> Self {
        let (capacities, observers) = (Vec::new(), Vec::new());
        Self {
            testbed,
            capacities,
            kind,
            lab_text: None,
            lab: None,
            observers,
            timeouts: Timeouts::default(),
            away: RunOptions::default().away,
            pushed: None,
        }
    }

    /// Returns the number of frames that the emulation lost by itself: if any, the emulation was
    /// the limit, not the path.
    #[must_use]
    pub fn emulation_losses(&self) -> u64 {
        self.lab.as_ref().map_or(0, Lab::emulation_losses)
    }

    /// Returns the devices under test of a lab, with their counters.
    #[must_use]
    pub fn devices(&self) -> &[linerate_lab::element::Running] {
        self.lab.as_ref().map_or(&[], Lab::elements)
    }

    /// Removes a lab and a copied program now, before this is dropped.
    pub fn dismantle(&mut self) {
        self.lab = None;
        drop(self.pushed.take());
    }
}

/// Reads the lab called `name` or at that path.
///
/// # Errors
/// If there is none, or it has problems: all of them.
pub fn describe(name: &str) -> Result<(Description, String)> {
    let found = find("lab", LABS, name)?;
    let (description, mut found_problems) = Description::parse(&found.text);
    match description {
        Some(description) if found_problems.is_empty() => Ok((description, found.text)),
        _ => {
            found_problems.dedup();
            Err(Failure::in_text(&found.origin, &found.text, &found_problems))
        }
    }
}

/// Prepares `place` as far as its hosts answer: `present` says which do.
///
/// # Errors
/// If a lab cannot be built, or a file is wrong.
pub fn unasked(place: &Place) -> Result<Ground> {
    match &place.lab {
        Some(lab) => in_lab(lab),
        None => named_hosts(place),
    }
}

/// Prepares `place`; without any of its options, loopback.
///
/// # Errors
/// If a lab cannot be built, a host cannot be reached, or a file is wrong.
pub fn prepare(place: &Place) -> Result<Ground> {
    match place {
        Place { lab: Some(lab), .. } => in_lab(lab),
        Place { testbed: Some(path), .. } => asked(from_file(path)?),
        _ => place.host().map_or_else(|| Ok(place.own()), |host| to_host(&host)),
    }
}

/// Returns the endpoints of `place` without building a lab, for `linerate plan`. Hosts that answer
/// say which CPUs they have; nothing is known of the CPUs of the others.
///
/// # Errors
/// If there is no such lab, or a file is wrong.
pub fn outline(place: &Place) -> Result<Ground> {
    let Some(lab) = &place.lab else {
        return outline_of_hosts(place);
    };
    let (description, text) = describe(lab)?;
    let layout = linerate_lab::layout(&description, "plan");
    let mut testbed = layout.testbed;
    // All hosts of a lab are this machine.
    list_own_cpus(&mut testbed, |_| true);
    let capacities = layout.capacities;
    Ok(Ground { capacities, lab_text: Some(text), ..Ground::of(testbed, TestbedKind::Lab) })
}

/// Returns the endpoints of a place that is no lab, as they are named.
pub(crate) fn named_hosts(place: &Place) -> Result<Ground> {
    match place {
        Place { testbed: Some(path), .. } => from_file(path),
        _ => place.host().map_or_else(|| Ok(place.own()), |host| towards(&host)),
    }
}

/// Returns the endpoints of a place that is no lab, with what its hosts say of themselves.
fn outline_of_hosts(place: &Place) -> Result<Ground> {
    match asked(named_hosts(place)?) {
        // A plan can be read while its hosts are away.
        Err(failure) if failure.exit() == Exit::Missing => {
            let mut ground = named_hosts(place)?;
            let mut hosts = ground.testbed.hosts.clone();
            hosts.retain(|(_, address)| *address == HostAddress::InProcess);
            let is_here = |name: &str| hosts.iter().any(|(host, _)| host == name);
            list_own_cpus(&mut ground.testbed, is_here);
            Ok(ground)
        }
        known => known,
    }
}

/// Returns the labs of the program that have all `endpoints` of the plan `name`: the lab of its
/// name, or those with the fewest other endpoints first.
#[must_use]
pub(crate) fn labs_for(name: &str, endpoints: &[&str]) -> Vec<&'static str> {
    /// Most labs to suggest.
    const MOST: usize = 3;
    let mut found: Vec<(usize, &str)> = LABS
        .iter()
        .filter_map(|preset| Some((n_others(preset, endpoints)?, preset.name)))
        .collect();
    found.sort_unstable();
    if found.iter().any(|(_, lab)| *lab == name) {
        found.retain(|(_, lab)| *lab == name);
    }
    found.into_iter().take(MOST).map(|(_, name)| name).collect()
}

/// Returns how many other endpoints a lab has; `None` if it lacks one of `endpoints`.
fn n_others(preset: &Preset, endpoints: &[&str]) -> Option<usize> {
    let (description, _) = describe(preset.name).ok()?;
    let testbed = linerate_lab::layout(&description, "plan").testbed;
    let has = |name: &&str| testbed.endpoint(name).is_some();
    endpoints.iter().all(has).then(|| testbed.endpoints.len() - endpoints.len())
}

/// Returns both endpoints on this host's loopback interface.
#[must_use]
pub fn loopback(ipv6: bool) -> Ground {
    let address =
        if ipv6 { IpAddr::V6(Ipv6Addr::LOCALHOST) } else { IpAddr::V4(Ipv4Addr::LOCALHOST) };
    let device = Some("lo".to_owned());
    let endpoint =
        |name: &str| Endpoint { device: device.clone(), ..endpoint_at(name, "local", address) };
    let mut testbed = Testbed {
        hosts: vec![("local".into(), HostAddress::InProcess)],
        endpoints: vec![endpoint("a"), endpoint("b")],
        emulated: false,
    };
    list_own_cpus(&mut testbed, |_| true);
    Ground::of(testbed, TestbedKind::Loopback)
}

/// Returns endpoint `b`, which serves any client at `address` of this host, and `a`, which does
/// nothing, on this host, too.
#[must_use]
pub fn serving(address: IpAddr) -> Ground {
    let mut ground = loopback(address.is_ipv6());
    for endpoint in &mut ground.testbed.endpoints {
        (endpoint.address, endpoint.device) = (Some(address), None);
    }
    Ground { kind: TestbedKind::Hosts, ..ground }
}

/// Builds the lab called `name`. Each of its hosts runs an agent of its own.
///
/// # Errors
/// If it cannot be built here. The message has the reason and the remedy.
pub(crate) fn in_lab(name: &str) -> Result<Ground> {
    sandbox::enter()?;
    let (description, text) = describe(name)?;
    let missing = sandbox::missing_tools();
    if !missing.is_empty() {
        let message = format!(
            "build lab {name}: {} not installed (apt install iproute2 ethtool procps)",
            missing.join(", ")
        );
        return Err(Failure::missing(message));
    }
    let lab = Lab::build(&description, &Lab::instance()).map_err(Failure::missing)?;
    let program = own_program()?;
    let mut testbed = lab.testbed().clone();
    let endpoints = &testbed.endpoints;
    for (name, address) in &mut testbed.hosts {
        if let HostAddress::Command(command) = address {
            command.extend([program.clone(), "agent".into(), "--stdio".into()]);
            // Hosts of a lab need no consent: their settings go with them.
            let devices = endpoints
                .iter()
                .filter(|endpoint| endpoint.host == *name)
                .filter_map(|e| e.device.clone());
            command.extend(
                devices.chain(["host".into()]).flat_map(|device| ["--allow-tune".into(), device]),
            );
        }
    }
    list_own_cpus(&mut testbed, |_| true);
    Ok(Ground {
        capacities: lab.capacities().to_vec(),
        lab_text: Some(text),
        observers: lab.observed().iter().map(switch_port).collect(),
        lab: Some(lab),
        ..Ground::of(testbed, TestbedKind::Lab)
    })
}

/// Returns the observer of a port of a lab's switch: its SNMP agent, or its kernel.
fn switch_port(port: &SwitchPort) -> ObserverSpec {
    /// Trials of a lab may last a second or two.
    const PERIOD: Nanos = Nanos::from_millis(250);
    ObserverSpec {
        // Names of hosts have no dot, so this name is free.
        name: format!("{}.{}", port.switch, port.faces),
        faces: port.faces.clone(),
        interface: port.device.clone(),
        counts_fcs: None,
        namespace: Some(port.namespace.clone()),
        period: PERIOD,
        source: if port.snmp { agent() } else { ObserverSource::Kernel },
    }
}

/// Returns the SNMP agent of a lab's switch.
fn agent() -> ObserverSource {
    /// The agent may share a CPU with the load.
    const PATIENCE: Duration = Duration::from_secs(1);
    ObserverSource::Snmp(SnmpAgent {
        address: linerate_lab::agent::ADDRESS.to_owned(),
        access: SnmpAccess::Community(linerate_lab::agent::COMMUNITY.to_owned()),
        timeout: PATIENCE,
    })
}

fn own_program() -> Result<String> {
    let program = std::env::current_exe()
        .map_err(|error| Failure::missing(format!("find this program: {error}")))?;
    program
        .into_os_string()
        .into_string()
        .map_err(|path| Failure::missing(format!("use path {}: not UTF-8", path.display())))
}

/// Returns endpoint `a` on this host and `b` on the other one, whose agent reports its facts.
///
/// # Errors
/// If the host cannot be reached.
pub fn to_host(host: &Towards<'_>) -> Result<Ground> {
    let found = asked(towards(host)?);
    let may_lack_it = host.has_launcher() && host.push.is_none();
    found.map_err(|failure| match may_lack_it {
        true => {
            failure.advised("If linerate is missing there, `linerate to` with --push copies it.")
        }
        false => failure,
    })
}

/// Does the same without asking the agent.
fn towards(asked: &Towards<'_>) -> Result<Ground> {
    let asked = &asked.agreed()?;
    let mut ground = match asked.host {
        LOOPBACK => loopback(asked.family == Family::V6),
        _ => {
            let (testbed, pushed) = reached(asked)?;
            Ground { pushed, ..Ground::of(testbed, TestbedKind::Hosts) }
        }
    };
    ground.timeouts = asked.timeouts();
    for (endpoint, cpu) in ground.testbed.endpoints.iter_mut().zip(asked.cpus) {
        if let Some(cpu) = cpu {
            (endpoint.cpus, endpoint.pin) = (vec![cpu], true);
        }
    }
    let here = &mut ground.testbed.endpoints[0];
    here.address = asked.local.or(here.address);
    here.device = asked.device.map(str::to_owned).or(here.device.take());
    Ok(ground)
}

/// Lists the CPUs that a `cpus` axis may use on endpoints of the hosts that are this machine. Only
/// the plan pins to them.
fn list_own_cpus(testbed: &mut Testbed, is_here: impl Fn(&str) -> bool) {
    let allowed = linerate_sys::cpu::allowed().unwrap_or_default();
    let open = |endpoint: &&mut Endpoint| endpoint.cpus.is_empty() && is_here(&endpoint.host);
    for endpoint in testbed.endpoints.iter_mut().filter(open) {
        endpoint.cpus.clone_from(&allowed);
    }
}

/// Adds the facts of the hosts to `ground`: the CPUs that a `cpus` axis may use, and the device of
/// each endpoint that names none.
fn asked(mut ground: Ground) -> Result<Ground> {
    let hosts = &ground.testbed.hosts;
    let keys = keys_for(hosts)?;
    // This host last: by then its neighbour tables have the other hosts.
    let (here, there): (Vec<_>, Vec<_>) =
        hosts.iter().partition(|(_, address)| *address == HostAddress::InProcess);
    for (host, address) in there.into_iter().chain(here) {
        let endpoints = &mut ground.testbed.endpoints;
        let others: Vec<(String, IpAddr)> =
            endpoints.iter().filter_map(|e| Some((e.name.clone(), e.address?))).collect();
        let destinations: Vec<IpAddr> = others.iter().map(|(_, address)| *address).collect();
        let facts = linerate_control::ask(
            host,
            address,
            keys.as_ref(),
            "linerate",
            &destinations,
            &ground.timeouts,
        )?;
        for endpoint in endpoints.iter_mut().filter(|endpoint| endpoint.host == *host) {
            let others = others
                .iter()
                .filter(|(name, _)| *name != endpoint.name)
                .map(|(_, address)| *address);
            complete(endpoint, &others.collect::<Vec<_>>(), &facts)?;
        }
    }
    Ok(ground)
}

/// Fills in the open fields of `endpoint` from the facts of its host: the device by which it
/// reaches the `others`, if that is a single one, and its CPUs. CPUs that were named must exist.
pub(crate) fn complete(
    endpoint: &mut Endpoint,
    others: &[IpAddr],
    facts: &HostFacts,
) -> Result<()> {
    let cpus = facts.cpus();
    if endpoint.cpus.is_empty() {
        endpoint.cpus = cpus;
    } else if let Some(missing) =
        endpoint.cpus.iter().find(|cpu| !cpus.is_empty() && !cpus.contains(cpu))
    {
        let (name, host) = (&endpoint.name, &endpoint.host);
        return Err(Failure::wrong(format!(
            "testbed: endpoint `{name}` lists CPU {missing}, which programs on {host} may not use \
                (its CPUs: {})",
            cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
        )));
    }
    if endpoint.device.is_none() {
        let mut devices: Vec<&str> =
            others.iter().filter_map(|other| facts.device_towards(*other)).collect();
        devices.dedup();
        let mut branches: Vec<&[String]> =
            others.iter().map(|other| facts.branches_towards(*other)).collect();
        branches.dedup();
        if let [device] = devices[..] {
            endpoint.device = Some(device.to_owned());
        }
        // With several devices none is chosen, unless the packets to every end share them.
        if let ([branches], [] | [_]) = (&branches[..], &devices[..]) {
            endpoint.branches = branches.to_vec();
        }
    }
    Ok(())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    host: Vec<HostText>,
    endpoint: Vec<toml::Spanned<EndpointText>>,
    #[serde(default)]
    capacity: Vec<Capacity>,
    #[serde(default)]
    observer: Vec<toml::Spanned<ObserverText>>,
}

/// Values of a host's `reach`.
const REACH: &str = "`local` for this process, `HOST[:PORT]` of an agent, `ssh:HOST`, or the list \
    of words of a command that runs another one there";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HostText {
    name: String,
    reach: toml::Spanned<ReachText>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a string or a list of strings")]
enum ReachText {
    /// `local`, `HOST[:PORT]` or `ssh:HOST`.
    Name(String),
    /// Words of a launcher.
    Words(Vec<String>),
}

impl HostText {
    fn address(&self) -> Result<HostAddress> {
        let text = match self.reach.get_ref() {
            ReachText::Words(words) => {
                return Ok(Launcher::of_words(words, &self.name)?.agent("linerate"));
            }
            ReachText::Name(text) => text,
        };
        match text.strip_prefix(SSH) {
            Some(target) => Ok(Launcher::ssh(target)?.agent("linerate")),
            None if text == "local" => Ok(HostAddress::InProcess),
            None => Ok(HostAddress::Tcp(with_port(text, AGENT_PORT))),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EndpointText {
    name: String,
    host: String,
    address: IpAddr,
    device: Option<String>,
    #[serde(default)]
    cpus: Vec<usize>,
    /// Interface of a network controller that answers NC-SI.
    ncsi: Option<String>,
}

/// Reads a testbed file.
fn from_file(path: &Path) -> Result<Ground> {
    let origin = path.display().to_string();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::wrong(format!("read testbed {origin}: {error}")))?;
    let file: File = toml::from_str(&text).map_err(|error| {
        Failure::in_text(&origin, &text, &[Problem::from_serde(error.span(), error.message())])
    })?;
    let mut found = control_characters(&text);
    for endpoint in &file.endpoint {
        let host = &endpoint.get_ref().host;
        if !file.host.iter().any(|known| known.name == *host) {
            let near = nearest(host, file.host.iter().map(|known| known.name.as_str()));
            found.push(
                Problem::new(Some(endpoint.span()), format!("there is no host `{host}`"))
                    .nearest(near),
            );
        }
    }
    for reach in file.host.iter().map(|host| &host.reach) {
        // The words of `--to` and of a ledger for the same thing: no host has such a name. A
        // command line in one word is none either.
        if let ReachText::Name(text) = reach.get_ref()
            && (["in-process", "loopback"].contains(&text.as_str())
                || text.contains(char::is_whitespace))
        {
            let cause = format!("`{text}` is no host");
            found.push(Problem::new(Some(reach.span()), cause).expected(REACH));
        }
    }
    let observers = observers(&file, &mut found);
    if !found.is_empty() {
        return Err(Failure::in_text(&origin, &text, &found));
    }
    let hosts: Result<_> =
        file.host.iter().map(|host| Ok((host.name.clone(), host.address()?))).collect();
    let testbed = Testbed {
        hosts: hosts?,
        endpoints: file
            .endpoint
            .into_iter()
            .map(toml::Spanned::into_inner)
            .map(|text| Endpoint {
                name: text.name,
                host: text.host,
                address: Some(text.address),
                device: text.device,
                branches: Vec::new(),
                pin: !text.cpus.is_empty(),
                ncsi: text.ncsi,
                cpus: text.cpus,
            })
            .collect(),
        emulated: false,
    };
    let capacities = file.capacity;
    Ok(Ground { capacities, observers, ..Ground::of(testbed, TestbedKind::Hosts) })
}

/// Returns the observers of `file`, and their problems.
fn observers(file: &File, found: &mut Vec<Problem>) -> Vec<ObserverSpec> {
    let endpoints: Vec<&str> =
        file.endpoint.iter().map(|endpoint| endpoint.get_ref().name.as_str()).collect();
    let mut taken: Vec<String> = file.host.iter().map(|host| host.name.clone()).collect();
    let mut specs = Vec::new();
    for text in &file.observer {
        let names: Vec<&str> = taken.iter().map(String::as_str).collect();
        match text.get_ref().spec(&endpoints, &names) {
            Ok(spec) => {
                taken.push(spec.name.clone());
                specs.push(spec);
            }
            Err(problem) => found.push(Problem { span: Some(text.span()), ..problem }),
        }
    }
    specs
}

#[cfg(test)]
mod tests {
    use linerate_control::{Branches, RouteDevice};
    use serde_json::json;

    use super::*;

    #[test]
    fn the_testbed_file_of_the_documentation_is_read() {
        let page = include_str!("../../../docs/testbeds.md");
        let (_, rest) = page.split_once("```toml\n").expect("it shows a file");
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("testbed.toml");
        std::fs::write(&path, rest.split("```").next().expect("it ends")).expect("writable");
        let ground = from_file(&path).unwrap_or_else(|failure| panic!("{}", failure.message()));
        let pinned = |end: &Endpoint| (end.cpus.clone(), end.pin);
        let found: Vec<_> = ground.testbed.endpoints.iter().map(pinned).collect();
        assert_eq!(found, [(vec![2, 3], true), (vec![4, 5], true)]);
        assert_eq!(ground.capacities.len(), 1);
    }

    fn hosts_of(hosts: &str) -> Result<Vec<(String, HostAddress)>> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("testbed.toml");
        let endpoint = "[[endpoint]]\nname = \"a\"\nhost = \"web\"\naddress = \"192.0.2.7\"\n";
        std::fs::write(&path, format!("{hosts}{endpoint}")).expect("writable");
        from_file(&path).map(|ground| ground.testbed.hosts)
    }

    #[test]
    fn a_host_is_reached_by_a_name_or_by_the_words_of_a_launcher() {
        let host = |reach: &str| hosts_of(&format!("[[host]]\nname = \"web\"\nreach = {reach}\n"));
        let command = |words: &[&str]| {
            let agent = ["linerate", "agent", "--stdio"];
            HostAddress::Command(words.iter().chain(&agent).map(|word| (*word).into()).collect())
        };
        for (reach, address) in [
            (r#""local""#, HostAddress::InProcess),
            (r#""192.0.2.7""#, HostAddress::Tcp("192.0.2.7:4777".into())),
            (r#""ssh:me@box""#, command(&["ssh", "-o", "BatchMode=yes", "--", "me@box"])),
            (r#"["podman", "exec", "-i", "x"]"#, command(&["podman", "exec", "-i", "x"])),
            (r#"["srun", "-N1", "-w", "{host}"]"#, command(&["srun", "-N1", "-w", "web"])),
            (r#"["kubectl", "{pod}", "--"]"#, command(&["kubectl", "web", "--"])),
        ] {
            assert_eq!(host(reach).expect(reach)[0].1, address, "{reach}");
        }
        for (reach, part) in [
            ("[]", "names no program"),
            (r#"["srun", "{node}"]"#, "`{node}`"),
            (r#""podman exec -i x""#, "list of words"),
            (r#""loopback""#, "is no host"),
            ("3", "a list of strings"),
        ] {
            let refused = host(reach).expect_err(reach);
            let text = format!("{} {refused:?}", refused.message());
            assert!(text.contains(part), "{reach}: {text}");
        }
    }

    fn endpoint(cpus: &[usize]) -> Endpoint {
        let Ground { mut testbed, .. } = loopback(false);
        let own = testbed.endpoints.swap_remove(0);
        Endpoint { host: "far".into(), device: None, cpus: cpus.to_vec(), ..own }
    }

    /// A host of eight CPUs whose routes lead to 198.18.0.x by eth0, to 198.18.1.x by eth1.
    fn far() -> HostFacts {
        let way = |destination: &str, device: &str| RouteDevice {
            destination: destination.parse().expect("an address"),
            device: device.into(),
        };
        let branches = |destination: [u8; 4]| Branches {
            destination: destination.into(),
            devices: vec!["eth0".into(), "eth1".into()],
        };
        HostFacts {
            facts: json!({ "cpu": { "allowed": [0, 1, 2, 3, 4, 5, 6, 7] } }),
            routes: vec![
                way("198.18.0.1", "eth0"),
                way("198.18.0.2", "eth0"),
                way("198.18.1.1", "eth1"),
            ],
            branches: vec![branches([198, 18, 2, 1]), branches([198, 18, 2, 2])],
        }
    }

    fn completed(mut endpoint: Endpoint, others: &[&str], facts: &HostFacts) -> Result<Endpoint> {
        let others: Vec<IpAddr> =
            others.iter().map(|other| other.parse().expect("an address")).collect();
        complete(&mut endpoint, &others, facts).map(|()| endpoint)
    }

    #[test]
    fn the_device_of_an_end_is_the_one_its_host_reaches_the_others_by() {
        let device =
            |others: &[&str]| completed(endpoint(&[]), others, &far()).expect("fits").device;
        assert_eq!(device(&["198.18.0.1"]).as_deref(), Some("eth0"));
        assert_eq!(device(&["198.18.0.1", "198.18.0.2"]).as_deref(), Some("eth0"));
        assert_eq!(device(&["198.18.0.1", "198.18.1.1"]), None, "two devices are none");
        assert_eq!(device(&["203.0.113.1"]), None, "there is no route");
        let named = Endpoint { device: Some("bond0".into()), ..endpoint(&[]) };
        let named = completed(named, &["198.18.0.1"], &far()).expect("fits").device;
        assert_eq!(named.as_deref(), Some("bond0"), "its owner knows better");
        let branches =
            |others: &[&str]| completed(endpoint(&[]), others, &far()).expect("fits").branches;
        assert_eq!(
            branches(&["198.18.2.1", "198.18.2.2"]),
            ["eth0", "eth1"],
            "several next hops, the same for both"
        );
        assert_eq!(
            branches(&["198.18.2.1", "198.18.1.1"]),
            [""; 0],
            "the one way is not the other"
        );
    }

    #[test]
    fn cpus_are_those_of_the_host_they_are_on() {
        assert_eq!(
            completed(endpoint(&[]), &[], &far()).expect("fits").cpus,
            [0, 1, 2, 3, 4, 5, 6, 7]
        );
        // No matter how few this host has.
        assert_eq!(completed(endpoint(&[7]), &[], &far()).expect("the far host has it").cpus, [7]);
        let failure =
            completed(endpoint(&[2, 8]), &[], &far()).expect_err("the far host has no CPU 8");
        assert!(failure.message().contains("lists CPU 8"), "{failure:?}");
        let silent =
            completed(endpoint(&[8]), &[], &HostFacts::default()).expect("nobody knows better");
        assert_eq!(silent.cpus, [8]);
    }
}
