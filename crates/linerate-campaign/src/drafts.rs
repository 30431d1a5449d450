//! Plans of `linerate to`, `serve` and `disk`, drafted from a command's options. They are recorded,
//! so that a measurement can be repeated.

use std::path::{Path, PathBuf};

use linerate_load::workloads::{HOST_DEFAULT, Rate};
use linerate_load::{Parameter, workload};
use linerate_model::plan::{Draft, DraftJob, DraftSweep};
use linerate_model::{BitRate, Nanos, Params};
use serde_json::Value;

use crate::{Failure, Result};

/// Default offered load of `to HOST udp`: that of iperf3, which floods no path.
pub const DEFAULT_UDP_RATE: BitRate = BitRate(1e6);
/// Port of a server of iperf3.
const IPERF3_PORT: u64 = 5201;
/// Time that transfers in flight at the end of a measurement of a disk may take.
const DRAIN: Nanos = Nanos::from_secs(2);

/// Kind of measurement of `linerate to`.
#[derive(Clone, Copy, Debug)]
pub struct Mode {
    /// Word on the command line.
    pub name: &'static str,
    /// Workload that it selects.
    pub workload: &'static str,
    /// Summary for help.
    pub summary: &'static str,
}

/// Modes of `linerate to`; the first is the default.
pub const MODES: [Mode; 5] = [
    Mode { name: "tcp", workload: TCP, summary: "TCP goodput" },
    Mode { name: "udp", workload: UDP, summary: "UDP goodput, loss and reordering" },
    Mode { name: "rr", workload: TCP_RR, summary: "TCP request and response" },
    Mode { name: "crr", workload: TCP_CRR, summary: "TCP connect, request, response, close" },
    Mode { name: "udp-rr", workload: UDP_RR, summary: "UDP request and response" },
];
const TCP: &str = "tcp_stream";
const UDP: &str = "udp_stream";
const TCP_RR: &str = "tcp_rr";
const TCP_CRR: &str = "tcp_crr";
const UDP_RR: &str = "udp_rr";

/// Returns the word that selects `workload` on the command line: `rr` for `tcp_rr`.
#[must_use]
pub fn word_of(workload: &str) -> &str {
    MODES.iter().find(|mode| mode.workload == workload).map_or(workload, |mode| mode.name)
}

/// Option of a command that sets a parameter of its workload. Type, range, default and meaning are
/// those of the parameter's declaration.
#[derive(Debug)]
pub struct Setting {
    /// Long name of the option.
    pub option: &'static str,
    /// Letter of the option.
    pub letter: Option<char>,
    /// Parameter that it sets, for each workload that has it.
    pub sets: &'static [Target],
    /// Word that it sets if it takes no value.
    pub fixed: Option<&'static str>,
    /// Addition to the meanings of its parameters, as a sentence without a full stop.
    pub note: Option<&'static str>,
}

/// Parameter that an option sets.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    workload: &'static str,
    parameter: &'static str,
    /// Value without the option, if it is not the parameter's default.
    preset: Option<Preset>,
}

/// Default of a command that differs from the parameter's.
#[derive(Clone, Copy, Debug)]
enum Preset {
    Count(u64),
    Rate(BitRate),
    Word(&'static str),
}

impl Preset {
    fn value(self) -> Value {
        match self {
            Self::Count(count) => count.into(),
            Self::Rate(rate) => rate.to_string().into(),
            Self::Word(word) => word.into(),
        }
    }
}

/// Options of `linerate to`, with the letters of iperf3.
pub const OF_TO: [Setting; 17] = [
    setting("parallel", Some('P'), &of_each([STREAMS; 5])),
    Setting {
        note: Some("Each stream, as in iperf3; K, M, G are powers of 1000, 0 is no limit"),
        ..setting(
            "bitrate",
            Some('b'),
            &[
                target(TCP, PACING_RATE),
                Target { preset: Some(Preset::Rate(DEFAULT_UDP_RATE)), ..target(UDP, RATE) },
            ],
        )
    },
    setting("length", Some('l'), &of_each(SIZES)),
    Setting {
        note: Some("The run ends after this amount, at the latest after an hour"),
        ..setting("bytes", Some('n'), &[target(TCP, AMOUNT), target(UDP, AMOUNT)])
    },
    Setting {
        note: Some("The run ends after this number of blocks of -l bytes"),
        ..setting("blockcount", Some('k'), &[target(TCP, "messages"), target(UDP, "messages")])
    },
    Setting {
        note: Some("The run ends with the file, at the latest after an hour or -t"),
        ..setting(SENT_FILE, Some('F'), &[target(TCP, SENT_FILE)])
    },
    setting("receive-size", None, &[target(TCP, "receive_size")]),
    setting("window", Some('w'), &[target(TCP, "socket_buffer"), target(UDP, "socket_buffer")]),
    setting("congestion", Some('C'), &[congestion(TCP), congestion(TCP_RR), congestion(TCP_CRR)]),
    setting("no-delay", Some('N'), &[target(TCP, "no_delay")]),
    setting("set-mss", Some('M'), &[target(TCP, "mss")]),
    setting("dscp", None, &of_each(["dscp"; 5])),
    setting("fq-rate", None, &[target(TCP, PACING_RATE)]),
    Setting {
        note: Some("First port of this end, one for each stream; the other end's is 5201"),
        ..setting("cport", None, &[target(TCP, SOURCE_PORTS), target(UDP, SOURCE_PORTS)])
    },
    Setting { fixed: Some("sendfile"), ..setting("zerocopy", Some('Z'), &[target(TCP, "send")]) },
    Setting {
        fixed: Some("discard"),
        ..setting("skip-rx-copy", None, &[target(TCP, "receive"), target(UDP, "receive")])
    },
    Setting { fixed: Some("most"), ..setting("gsro", None, &[target(UDP, "gso")]) },
];
/// Options of `linerate serve`.
pub const OF_SERVE: [Setting; 6] = [
    // Ports that need no privilege.
    setting("port", Some('p'), &[counted("http", PORT, 8080), counted("ftp", PORT, 2121)]),
    Setting {
        note: Some("Most connections served at once; others wait"),
        ..setting(
            "parallel",
            Some('P'),
            &[counted("http", STREAMS, 16), counted("ftp", STREAMS, 16)],
        )
    },
    setting("size", None, &[target("http", FILE_SIZE), target("ftp", FILE_SIZE)]),
    setting("tls", None, &[target("http", "tls"), target("ftp", "tls")]),
    setting("chunked", None, &[target("http", "chunked")]),
    setting("checksum", None, &[target("http", CHECKSUM), target("ftp", CHECKSUM)]),
];
/// Options of `linerate probe`.
pub const OF_PROBE: [Setting; 3] = [
    setting("max-rate", None, &[target(PATH_PROBE, "max_rate")]),
    setting("max-bytes", None, &[target(PATH_PROBE, "max_bytes")]),
    setting("may-lose", None, &[target(PATH_PROBE, "may_lose")]),
];
/// Workload of `linerate probe`.
pub const PATH_PROBE: &str = "path_probe";
/// Parameter and option of the file that is sent.
pub const SENT_FILE: &str = "file";
const AMOUNT: &str = "amount";
/// Options that give the load of `to` an end of its own.
const ENDS: [&str; 3] = ["bytes", "blockcount", SENT_FILE];
/// Longest run of such a load.
pub const LONGEST: Nanos = Nanos::from_secs(3_600);
const STREAMS: &str = "streams";
const SIZES: [&str; 5] =
    ["message_size", "datagram_size", "request_size", "request_size", "request_size"];
const SOURCE_PORTS: &str = "source_ports";
const PACING_RATE: &str = "pacing_rate";
const RATE: &str = "rate";
const PORT: &str = "port";
const FILE_SIZE: &str = "file_size";
const CHECKSUM: &str = "checksum";

const fn setting(option: &'static str, letter: Option<char>, sets: &'static [Target]) -> Setting {
    Setting { option, letter, sets, fixed: None, note: None }
}

const fn target(workload: &'static str, parameter: &'static str) -> Target {
    Target { workload, parameter, preset: None }
}

/// Returns a parameter of each mode, in the order of [`MODES`].
const fn of_each([tcp, udp, rr, crr, udp_rr]: [&'static str; 5]) -> [Target; 5] {
    [
        target(TCP, tcp),
        target(UDP, udp),
        target(TCP_RR, rr),
        target(TCP_CRR, crr),
        target(UDP_RR, udp_rr),
    ]
}

/// Returns the congestion control of `workload`. As with iperf3, the hosts choose it by default.
const fn congestion(workload: &'static str) -> Target {
    let preset = Some(Preset::Word(HOST_DEFAULT));
    Target { preset, ..target(workload, "congestion") }
}

const fn counted(workload: &'static str, parameter: &'static str, preset: u64) -> Target {
    Target { preset: Some(Preset::Count(preset)), ..target(workload, parameter) }
}

impl PartialEq for Target {
    /// Compares the parameters.
    fn eq(&self, other: &Self) -> bool {
        (self.workload, self.parameter) == (other.workload, other.parameter)
    }
}

impl Target {
    /// Returns the declaration of the parameter, with the default of the command.
    fn declared(&self) -> Parameter {
        let all = workload(self.workload).expect("it is registered").parameters();
        let found = all.into_iter().find(|one| one.name == self.parameter);
        let mut found = found.expect("the workload declares it");
        if let Some(preset) = self.preset {
            found.default = preset.value().to_string();
        }
        found
    }
}

impl Setting {
    /// Returns the parameters that it sets, each with its workload.
    ///
    /// # Panics
    /// If a workload does not declare its parameter.
    pub fn parameters(&self) -> impl Iterator<Item = (&'static str, Parameter)> {
        self.sets.iter().map(|target| (target.workload, target.declared()))
    }

    /// Returns the option as a person types it: `-N`, or `--dscp` without a letter.
    #[must_use]
    pub fn typed(&self) -> String {
        self.letter.map_or_else(|| format!("--{}", self.option), |letter| format!("-{letter}"))
    }

    fn target(&self, workload: &str) -> Option<&'static Target> {
        self.sets.iter().find(|target| target.workload == workload)
    }
}

/// Options that were given, each with its value.
pub type Given<'a> = &'a [(&'static Setting, Value)];

/// Returns the value of the option with this name, if it was given.
#[must_use]
pub fn given_value<'a>(given: Given<'a>, option: &str) -> Option<&'a Value> {
    given.iter().find(|(setting, _)| setting.option == option).map(|(_, value)| value)
}

/// Returns the option that gives the load an end of its own, if there is one.
#[must_use]
pub fn ended_by(given: Given<'_>) -> Option<&'static Setting> {
    given.iter().map(|(setting, _)| *setting).find(|setting| ENDS.contains(&setting.option))
}

/// Returns the parameters of `workload` that the `given` options of `command` set, and the presets
/// of `all` its options.
fn parameters(
    command: &str,
    workload: &str,
    (all, given): (&'static [Setting], Given<'_>),
) -> Result<Params> {
    let mut params = Params::default();
    for target in all.iter().filter_map(|setting| setting.target(workload)) {
        if let Some(preset) = target.preset {
            params.set(target.parameter, preset.value());
        }
    }
    for (setting, value) in given {
        let Some(target) = setting.target(workload) else {
            return Err(inapplicable(command, setting, workload));
        };
        params.set(target.parameter, value.clone());
    }
    Ok(params)
}

/// Returns the refusal of an option that `workload` does not have.
fn inapplicable(command: &str, setting: &Setting, workload: &str) -> Failure {
    let others: Vec<&str> = setting.sets.iter().map(|target| word_of(target.workload)).collect();
    Failure::wrong(format!(
        "{command}: {} does not apply to {}, only to {}",
        setting.typed(),
        word_of(workload),
        others.join(", ")
    ))
}

/// Load of `linerate to`.
#[derive(Clone, Copy, Debug)]
pub struct PathLoad<'a> {
    /// Workload of the mode.
    pub workload: &'static str,
    /// Direction other than from this end to the host: `rx` or `both`.
    pub direction: Option<&'static str>,
    /// Length of the measurement.
    pub duration: Nanos,
    /// Warm-up before it.
    pub warmup: Nanos,
    /// True if the sockets are bound to the devices of their endpoints.
    pub is_bound: bool,
    /// Options that are parameters.
    pub given: Given<'a>,
}

/// Returns the plan of `linerate to`.
///
/// # Errors
/// If an option does not apply to the workload.
pub fn path(load: &PathLoad<'_>) -> Result<Draft> {
    let is_stream = [TCP, UDP].contains(&load.workload);
    let mut params = parameters("to", load.workload, (&OF_TO, load.given))?;
    match load.direction {
        // A request has an answer, so it always goes both ways.
        Some(_) if !is_stream => {
            return Err(Failure::wrong(
                "to: -R and --bidir do not apply to requests and responses",
            ));
        }
        direction if is_stream => params.set("direction", direction.unwrap_or("tx")),
        _ => {}
    }
    per_stream(&mut params)?;
    if load.is_bound {
        params.set("device", "endpoint");
    }
    let job = DraftJob { params, ..DraftJob::new(load.workload, "a", "b") };
    Ok(Draft::new("to", 1, vec![DraftSweep::one("to", load.duration, load.warmup, job)]))
}

/// Applies what iperf3 means for each stream: the rate of datagrams, which the workload shares
/// among its flows, and the source port. A rate of zero is no limit.
fn per_stream(params: &mut Params) -> Result<()> {
    let streams = params.get(STREAMS).and_then(Value::as_u64).unwrap_or(1);
    // The kernel paces each connection of TCP by itself.
    for (name, n_shares) in [(PACING_RATE, 1), (RATE, streams)] {
        let Some(rate) = offered(params, name) else { continue };
        if rate.value() > 0.0 {
            params.set(name, rate.times(n_shares).to_string());
        } else {
            params.0.remove(name);
        }
    }
    if let Some(first) = params.get(SOURCE_PORTS).and_then(Value::as_str) {
        let first = first.parse::<u16>().ok().filter(|first| *first > 0);
        let last = first.and_then(|first| u64::from(first).checked_add(streams - 1));
        let ports = first.zip(last).filter(|(_, last)| *last <= u64::from(u16::MAX));
        let (first, last) = ports.ok_or_else(|| {
            Failure::wrong("to --cport: expected a port from 1 to 65535, with room for each stream")
        })?;
        let ports: Vec<String> = (u64::from(first)..=last).map(|port| port.to_string()).collect();
        params.set(SOURCE_PORTS, ports.join(","));
        // The workload wants both ports of a planned flow; this one is that of iperf3.
        params.set("destination_port", IPERF3_PORT);
    }
    Ok(())
}

fn offered(params: &Params, name: &str) -> Option<Rate> {
    params.get(name)?.as_str()?.parse().ok()
}

/// Server of `linerate serve`: the passive end of a workload for other programs, and an active end
/// that does nothing.
#[derive(Clone, Copy, Debug)]
pub struct Server<'a> {
    /// Workload of the protocol.
    pub workload: &'static str,
    /// True if files come in instead of going out.
    pub takes_uploads: bool,
    /// Folder of the files; `None` for a file of random bytes.
    pub root: Option<&'a Path>,
    /// Time to serve.
    pub duration: Nanos,
    /// Options that are parameters.
    pub given: Given<'a>,
}

/// Returns the real path of the folder `root`, against which the permission is checked.
///
/// # Errors
/// If there is no such folder.
pub fn served_folder(root: &Path) -> Result<PathBuf> {
    std::fs::canonicalize(root)
        .map_err(|error| Failure::wrong(format!("serve --root {}: {error}", root.display())))
}

/// Returns the plan of `linerate serve`.
///
/// # Errors
/// If an option does not apply to the protocol, or to the direction.
pub fn server(server: &Server<'_>) -> Result<Draft> {
    let mut params = parameters("serve", server.workload, (&OF_SERVE, server.given))?;
    if params.get(CHECKSUM).is_some() {
        if !server.takes_uploads {
            return Err(Failure::wrong("serve: --checksum is of uploads: add --upload"));
        }
        // A checksum needs the data, which a discarding sink never reads.
        params.set("sink", "memory");
    }
    params.set("clients", "foreign");
    // Seen from the client, which is the active end.
    params.set("direction", if server.takes_uploads { "tx" } else { "rx" });
    if let Some(root) = server.root {
        params.set("root", root.display().to_string());
    }
    let job = DraftJob { params, ..DraftJob::new(server.workload, "a", "b") };
    Ok(Draft::new("serve", 1, vec![DraftSweep::one("serve", server.duration, Nanos(0), job)]))
}

/// Returns the port that `draft`, the plan of a server, listens on.
///
/// # Panics
/// If it has none.
#[must_use]
pub fn port(draft: &Draft) -> u16 {
    let port = draft.sweeps[0].jobs[0].params.get(PORT).and_then(Value::as_u64);
    port.and_then(|port| u16::try_from(port).ok()).expect("the option has a default and a range")
}

/// Returns the offered load of `draft`, a plan of datagrams; `None` for no limit.
#[must_use]
pub fn rate(draft: &Draft) -> Option<Rate> {
    offered(&draft.sweeps[0].jobs[0].params, RATE)
}

/// Refuses the `given` options of `linerate disk run` if one has a list: one point has one value of
/// each parameter.
///
/// # Errors
/// The option that has one.
pub fn one_point(given: &[(&'static str, Vec<Value>)]) -> Result<()> {
    let listed = given.iter().find(|(_, values)| values.len() > 1);
    listed.map_or(Ok(()), |(name, _)| {
        let option = name.replace('_', "-");
        Err(Failure::wrong(format!(
            "disk run: --{option} takes one value (lists are for disk sweep)"
        )))
    })
}

/// Returns the plan of `linerate disk run` and `disk sweep`: `repeats` measurements of `duration`,
/// each after `ramp`, of every combination of the `given` values.
///
/// # Errors
/// If `target` does not exist, or its name is not text.
pub fn disk(
    target: &Path,
    (duration, ramp): (Nanos, Nanos),
    repeats: u32,
    given: impl IntoIterator<Item = (&'static str, Vec<Value>)>,
) -> Result<Draft> {
    let found = std::fs::canonicalize(target)
        .map_err(|error| Failure::missing(format!("disk: find {}: {error}", target.display())))?;
    // Plans are text.
    let found = found.to_str().ok_or_else(|| {
        Failure::wrong(format!(
            "disk: the name {} is not UTF-8, so no plan can contain it",
            found.display()
        ))
    })?;
    // A list of one value is a parameter: only real axes become columns of the answer.
    let (swept, fixed): (Vec<_>, Vec<_>) =
        given.into_iter().partition(|(_, values)| values.len() > 1);
    let fixed =
        fixed.into_iter().filter_map(|(name, values)| Some((name, values.into_iter().next()?)));
    let job = DraftJob::new("storage", "a", "b").with([("target", found.into())]).with(fixed);
    let sweep = DraftSweep {
        drain: Some(DRAIN),
        // Nothing on a disk has to settle between points that the ramp does not cover.
        rest: Some(Nanos(0)),
        axes: swept.into_iter().map(|(name, values)| (format!("params.{name}"), values)).collect(),
        ..DraftSweep::one("disk", duration, ramp, job)
    };
    Ok(Draft::new("disk", repeats, vec![sweep]))
}

#[cfg(test)]
mod tests {
    use linerate_model::{PacketRate, plan};

    use super::*;

    fn load(workload: &'static str) -> PathLoad<'static> {
        PathLoad {
            workload,
            direction: None,
            duration: Nanos::from_secs(1),
            warmup: Nanos(0),
            is_bound: false,
            given: &[],
        }
    }

    /// Returns the option of `all` with this name.
    fn option(all: &'static [Setting], name: &str) -> &'static Setting {
        all.iter().find(|setting| setting.option == name).expect(name)
    }

    fn params(draft: &Draft) -> String {
        format!("{:?}", draft.sweeps[0].jobs[0].params)
    }

    #[test]
    fn one_point_of_a_disk_has_no_lists() {
        let one = ("block_size", vec![Value::from("4 KiB")]);
        let list = ("block_size", vec![Value::from("4 KiB"), Value::from("8 KiB")]);
        assert!(one_point(std::slice::from_ref(&one)).is_ok());
        let refused = one_point(&[one, list]).expect_err("two sizes").message();
        assert!(refused.starts_with("disk run: --block-size takes one value"), "{refused}");
    }

    #[test]
    fn each_option_is_a_parameter_of_each_workload_that_it_names() {
        let all = || OF_TO.iter().chain(&OF_SERVE).chain(&OF_PROBE);
        let n_declared: usize = all().map(|setting| setting.parameters().count()).sum();
        assert!(n_declared > 20, "{n_declared}");
        for setting in all() {
            let fixed = setting.fixed.map(Value::from);
            for (name, parameter) in setting.parameters() {
                let value = fixed.clone().or_else(|| parameter.default_value());
                let fits = value.is_none_or(|value| parameter.check(&value).is_ok());
                assert!(fits, "{name}: {}", setting.option);
            }
        }
    }

    #[test]
    fn a_rate_and_a_source_port_are_of_each_stream() {
        let with = |workload, name: &str, value: Option<&str>| {
            let streams = (option(&OF_TO, "parallel"), Value::from(4));
            let value = value.map(|value| (option(&OF_TO, name), Value::from(value)));
            let given: Vec<_> = [streams].into_iter().chain(value).collect();
            path(&PathLoad { given: &given, ..load(workload) })
        };
        let of = |workload, value| with(workload, "bitrate", value).expect("a draft");
        assert!(params(&of(TCP, Some("1 Gbit/s"))).contains("\"1 Gbit/s\""));
        assert!(!params(&of(TCP, None)).contains("pacing_rate"));
        assert!(params(&of(TCP, None)).contains("\"tx\""), "from this end, as with iperf3");
        for (given, expected) in [
            (Some("1 Gbit/s"), Some(Rate::Bits(BitRate(4e9)))),
            (Some("1 kpps"), Some(Rate::Packets(PacketRate(4e3)))),
            (None, Some(Rate::Bits(BitRate(DEFAULT_UDP_RATE.0 * 4.0)))),
            (Some("0 bit/s"), None),
        ] {
            assert_eq!(rate(&of(UDP, given)), expected, "{given:?}");
        }
        let ports = |first| with(TCP, "cport", Some(first)).map(|draft| params(&draft));
        let text = ports("50000").expect("ports");
        assert!(text.contains("50000,50001,50002,50003"), "{text}");
        for wrong in ["0", "65533", "x"] {
            assert!(ports(wrong).expect_err(wrong).message().contains("--cport"), "{wrong}");
        }
        let bound = path(&PathLoad { is_bound: true, ..load(TCP_RR) }).expect("a draft");
        assert!(params(&bound).contains("endpoint"), "{}", params(&bound));
    }

    #[test]
    fn what_a_mode_does_not_have_is_refused_with_the_modes_that_do() {
        for (name, value, workload, expected) in [
            ("no-delay", Value::from(true), UDP, "to: -N does not apply to udp, only to tcp"),
            (
                "bitrate",
                "1 Mbit/s".into(),
                UDP_RR,
                "to: -b does not apply to udp-rr, only to tcp, udp",
            ),
        ] {
            let given = [(option(&OF_TO, name), value)];
            let refused = path(&PathLoad { given: &given, ..load(workload) });
            assert_eq!(refused.expect_err(name).message(), expected);
        }
        let reverse = path(&PathLoad { direction: Some("rx"), ..load(TCP_RR) });
        let refused = reverse.expect_err("no stream").message();
        assert!(refused.contains("do not apply to requests"), "{refused}");
    }

    #[test]
    fn the_congestion_control_is_the_hosts_own_unless_it_is_chosen() {
        let congestion = option(&OF_TO, "congestion");
        let chosen = [(congestion, Value::from("bbr"))];
        let draft = path(&PathLoad { given: &chosen, ..load(TCP_RR) }).expect("a draft");
        assert!(params(&draft).contains("bbr"), "{}", params(&draft));
        assert!(!params(&draft).contains("host"), "{}", params(&draft));
        assert!(params(&path(&load(TCP_CRR)).expect("a draft")).contains("host"));
        assert!(!params(&path(&load(UDP_RR)).expect("a draft")).contains("congestion"));
        // The default in help is the one that applies.
        assert!(congestion.parameters().all(|(_, parameter)| parameter.default == "\"host\""));
    }

    #[test]
    fn a_server_sums_up_uploads_only() {
        let checksum = [(option(&OF_SERVE, "checksum"), Value::from(true))];
        let chunked = [(option(&OF_SERVE, "chunked"), Value::from(true))];
        let elsewhere = [(option(&OF_SERVE, "port"), Value::from(80))];
        let http = Server {
            workload: "http",
            takes_uploads: true,
            root: None,
            duration: Nanos::from_secs(1),
            given: &checksum,
        };
        let uploads = params(&server(&http).expect("a draft"));
        for part in ["memory", "\"tx\""] {
            assert!(uploads.contains(part), "{part}: {uploads}");
        }
        let plain = Server { takes_uploads: false, given: &[], ..http };
        assert!(params(&server(&plain).expect("a draft")).contains("\"rx\""));
        for (given, workload, expected) in
            [(&[][..], "http", 8080), (&[], "ftp", 2121), (&elsewhere, "ftp", 80)]
        {
            let draft = server(&Server { workload, given, ..plain }).expect("a draft");
            assert_eq!(port(&draft), expected, "{workload}");
        }
        let refused = server(&Server { takes_uploads: false, ..http }).expect_err("no uploads");
        assert!(refused.message().contains("--upload"), "{}", refused.message());
        let refused = server(&Server { workload: "ftp", given: &chunked, ..http });
        assert!(refused.expect_err("no chunks").message().ends_with("ftp, only to http"));
    }

    #[test]
    fn one_value_of_a_disk_is_a_parameter_and_several_are_an_axis() {
        let folder = tempfile::tempdir().expect("a folder");
        let given = [("depth", vec![1.into(), 8.into()]), ("read", vec!["70 %".into()])];
        let times = (Nanos::from_secs(1), Nanos(0));
        let draft = disk(folder.path(), times, 3, given).expect("a draft");
        let (parsed, problems) = plan::parse(&draft.text());
        assert!(parsed.is_some() && problems.is_empty(), "{problems:?}");
        assert!(params(&draft).contains("70 %") && !params(&draft).contains("depth"));
        assert_eq!(draft.sweeps[0].axes.len(), 1);
        let missing = disk(&folder.path().join("none"), times, 1, []).expect_err("no target");
        assert!(missing.message().starts_with("disk: find "), "{}", missing.message());
    }
}
