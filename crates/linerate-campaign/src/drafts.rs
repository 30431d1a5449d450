//! Plans of `linerate to`, `serve` and `disk`, drafted from a command's options. They are recorded,
//! so that a measurement can be repeated.

use std::path::Path;

use linerate_load::{Parameter, workload};
use linerate_model::plan::{Draft, DraftJob, DraftSweep};
use linerate_model::{BitRate, Nanos};
use serde_json::Value;

use crate::Failure;

/// Default offered load of `to HOST udp`: that of iperf3, which floods no path.
pub const DEFAULT_UDP_RATE: BitRate = BitRate(1e6);
/// Word of `congestion` that leaves the choice to each host.
const HOST_DEFAULT: &str = "host";
/// Time that transfers in flight at the end of a measurement of a disk may take.
const DRAIN: Nanos = Nanos::from_secs(2);

/// Option of a command that sets a parameter of its workload. Type, range, default and meaning are
/// those of the parameter's declaration.
#[derive(Debug)]
pub struct Setting {
    /// Long name of the option.
    pub option: &'static str,
    /// Letter of the option.
    pub letter: Option<char>,
    /// Parameter that it sets, for each workload that has it.
    pub sets: &'static [(&'static str, &'static str)],
    /// Value that it sets if it takes none, with its own help.
    pub fixed: Option<(&'static str, &'static str)>,
    /// Value without the option, if it is not the parameter's default.
    pub default: Option<&'static str>,
}

/// Options of `linerate to`, with the letters of iperf3.
pub const OF_TO: [Setting; 8] = [
    setting(
        "parallel",
        Some('P'),
        &[
            ("tcp_stream", "streams"),
            ("udp_stream", "streams"),
            ("tcp_rr", "streams"),
            ("tcp_crr", "streams"),
            ("udp_rr", "streams"),
        ],
    ),
    setting(
        "length",
        Some('l'),
        &[
            ("tcp_stream", "message_size"),
            ("udp_stream", "datagram_size"),
            ("tcp_rr", "request_size"),
            ("tcp_crr", "request_size"),
            ("udp_rr", "request_size"),
        ],
    ),
    setting(
        "window",
        Some('w'),
        &[("tcp_stream", "socket_buffer"), ("udp_stream", "socket_buffer")],
    ),
    Setting {
        default: Some(HOST_DEFAULT),
        ..setting(
            "congestion",
            Some('C'),
            &[("tcp_stream", CONGESTION), ("tcp_rr", CONGESTION), ("tcp_crr", CONGESTION)],
        )
    },
    setting("no-delay", Some('N'), &[("tcp_stream", "no_delay")]),
    setting("set-mss", Some('M'), &[("tcp_stream", "mss")]),
    setting(
        "dscp",
        None,
        &[
            ("tcp_stream", "dscp"),
            ("udp_stream", "dscp"),
            ("tcp_rr", "dscp"),
            ("tcp_crr", "dscp"),
            ("udp_rr", "dscp"),
        ],
    ),
    Setting {
        fixed: Some(("sendfile", "Send without copying (sendfile)")),
        ..setting("zerocopy", Some('Z'), &[("tcp_stream", "send")])
    },
];
/// Options of `linerate serve`.
pub const OF_SERVE: [Setting; 4] = [
    setting("size", None, &[("http", FILE_SIZE), ("ftp", FILE_SIZE)]),
    setting("tls", None, &[("http", "tls"), ("ftp", "tls")]),
    setting("chunked", None, &[("http", "chunked")]),
    setting("checksum", None, &[("http", CHECKSUM), ("ftp", CHECKSUM)]),
];
const CONGESTION: &str = "congestion";
const FILE_SIZE: &str = "file_size";
const CHECKSUM: &str = "checksum";

const fn setting(
    option: &'static str,
    letter: Option<char>,
    sets: &'static [(&'static str, &'static str)],
) -> Setting {
    Setting { option, letter, sets, fixed: None, default: None }
}

impl Setting {
    /// Returns the parameters that it sets, each with its workload.
    ///
    /// # Panics
    /// If a workload does not declare its parameter.
    pub fn parameters(&self) -> impl Iterator<Item = (&'static str, Parameter)> {
        self.sets.iter().map(move |&(name, parameter)| {
            let all = workload(name).expect("it is registered").parameters();
            let found = all.into_iter().find(|one| one.name == parameter);
            let mut found = found.expect("the workload declares it");
            if let Some(default) = self.default {
                found.default = format!("\"{default}\"");
            }
            (name, found)
        })
    }

    /// Returns the option as a person types it: `-N`, or `--dscp` without a letter.
    #[must_use]
    pub fn typed(&self) -> String {
        self.letter.map_or_else(|| format!("--{}", self.option), |letter| format!("-{letter}"))
    }
}

/// Options that were given, each with its value.
pub type Given<'a> = &'a [(&'static Setting, Value)];

/// Returns the parameters of `workload` that the `given` options of `command` set, and the defaults
/// of `all` its options.
fn parameters(
    command: &str,
    workload: &str,
    (all, given): (&'static [Setting], Given<'_>),
) -> Result<Vec<(&'static str, Value)>, Failure> {
    let of = |(setting, value): &(&'static Setting, Value)| {
        Ok((parameter_of(command, setting, workload)?, value.clone()))
    };
    let absent = all.iter().filter(|one| given.iter().all(|(of, _)| of.option != one.option));
    let defaults = absent.filter_map(|setting| {
        let (_, name) = setting.sets.iter().find(|(of, _)| *of == workload)?;
        Some((*name, setting.default?.into()))
    });
    defaults.map(Ok).chain(given.iter().map(of)).collect()
}

/// Returns the parameter of `workload` that `setting` sets.
fn parameter_of(command: &str, setting: &Setting, workload: &str) -> Result<&'static str, Failure> {
    let found = setting.sets.iter().find(|(of, _)| *of == workload);
    found.map(|(_, name)| *name).ok_or_else(|| {
        let others: Vec<&str> = setting.sets.iter().map(|(of, _)| *of).collect();
        let others = others.join(", ");
        let option = setting.typed();
        Failure::wrong(format!(
            "{command}: {option} does not apply to {workload}, only to {others}"
        ))
    })
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
    /// Offered load of each direction, bit/s; zero for no limit.
    pub rate: Option<f64>,
    /// Options that are parameters.
    pub given: Given<'a>,
}

/// Returns the plan of `linerate to`.
///
/// # Errors
/// If an option does not apply to the workload.
pub fn path(load: &PathLoad<'_>) -> Result<Draft, Failure> {
    let is_stream = ["tcp_stream", "udp_stream"].contains(&load.workload);
    let refused = |option: &str| {
        Failure::wrong(format!("to: {option} does not apply to requests and responses"))
    };
    let mut params = parameters("to", load.workload, (&OF_TO, load.given))?;
    match load.direction {
        // A request has an answer, so it always goes both ways.
        Some(_) if !is_stream => return Err(refused("-R or --bidir")),
        direction if is_stream => params.push(("direction", direction.unwrap_or("tx").into())),
        _ => {}
    }
    let streams = params.iter().find(|(name, _)| *name == "streams");
    let streams = streams.and_then(|(_, streams)| streams.as_f64()).unwrap_or(1.0);
    // As with iperf3, 0 is no limit, and the rate is for all streams together. The kernel paces
    // each connection by itself.
    let (name, rate) = match (load.workload, load.rate) {
        ("tcp_stream", rate) => ("pacing_rate", rate.unwrap_or(0.0) / streams),
        ("udp_stream", rate) => ("rate", rate.unwrap_or(DEFAULT_UDP_RATE.0)),
        (_, Some(_)) => return Err(refused("-b")),
        (_, None) => ("", 0.0),
    };
    if rate > 0.0 {
        params.push((name, BitRate(rate).to_string().into()));
    }
    let job = DraftJob::new(load.workload, "a", "b").with(params);
    Ok(Draft::new("to", 1, vec![DraftSweep::one("to", load.duration, load.warmup, job)]))
}

/// Server of `linerate serve`: the passive end of a workload for other programs, and an active end
/// that does nothing.
#[derive(Clone, Copy, Debug)]
pub struct Server<'a> {
    /// Workload of the protocol.
    pub workload: &'static str,
    /// True if files come in instead of going out.
    pub takes_uploads: bool,
    /// Port to listen on.
    pub port: u16,
    /// Most connections served at once.
    pub n_connections: u32,
    /// Folder of the files; `None` for a file of random bytes.
    pub root: Option<&'a Path>,
    /// Time to serve.
    pub duration: Nanos,
    /// Options that are parameters.
    pub given: Given<'a>,
}

/// Returns the plan of `linerate serve`.
///
/// # Errors
/// If an option does not apply to the protocol, or to the direction.
pub fn server(server: &Server<'_>) -> Result<Draft, Failure> {
    let mut params = parameters("serve", server.workload, (&OF_SERVE, server.given))?;
    if params.iter().any(|(name, _)| *name == CHECKSUM) {
        if !server.takes_uploads {
            return Err(Failure::wrong("serve: --checksum is of uploads: add --upload"));
        }
        // A checksum needs the data, which a discarding sink never reads.
        params.push(("sink", "memory".into()));
    }
    params.extend([
        ("clients", "foreign".into()),
        // Seen from the client, which is the active end.
        ("direction", if server.takes_uploads { "tx" } else { "rx" }.into()),
        ("port", server.port.into()),
        ("streams", server.n_connections.into()),
    ]);
    params.extend(server.root.map(|root| ("root", root.display().to_string().into())));
    let job = DraftJob::new(server.workload, "a", "b").with(params);
    Ok(Draft::new("serve", 1, vec![DraftSweep::one("serve", server.duration, Nanos(0), job)]))
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
) -> Result<Draft, Failure> {
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
    use linerate_model::plan;

    use super::*;

    fn load(workload: &'static str) -> PathLoad<'static> {
        PathLoad {
            workload,
            direction: None,
            duration: Nanos::from_secs(1),
            warmup: Nanos(0),
            rate: None,
            given: &[],
        }
    }

    fn params(draft: &Draft) -> String {
        format!("{:?}", draft.sweeps[0].jobs[0].params)
    }

    #[test]
    fn each_option_is_a_parameter_of_each_workload_that_it_names() {
        let n_declared: usize =
            OF_TO.iter().chain(&OF_SERVE).map(|setting| setting.parameters().count()).sum();
        assert!(n_declared > 20, "{n_declared}");
        for setting in OF_TO.iter().chain(&OF_SERVE) {
            let fixed = setting.fixed.map(|(word, _)| Value::from(word));
            for (name, parameter) in setting.parameters() {
                let value = fixed.clone().or_else(|| parameter.default_value());
                let fits = value.is_none_or(|value| parameter.check(&value).is_ok());
                assert!(fits, "{name}: {}", setting.option);
            }
        }
    }

    #[test]
    fn a_rate_is_shared_by_the_connections_of_tcp_and_is_that_of_all_flows_of_udp() {
        let streams = [(&OF_TO[0], Value::from(4))];
        let with = |workload, rate| {
            let draft = path(&PathLoad { rate, given: &streams, ..load(workload) });
            params(&draft.expect("a draft"))
        };
        assert!(with("tcp_stream", Some(1e9)).contains("250 Mbit/s"));
        assert!(!with("tcp_stream", None).contains("pacing_rate"));
        assert!(with("tcp_stream", None).contains("\"tx\""), "from this end, as with iperf3");
        assert!(with("udp_stream", Some(1e9)).contains("1 Gbit/s"));
        assert!(with("udp_stream", None).contains("1 Mbit/s"));
        assert!(!with("udp_stream", Some(0.0)).contains("bit/s"));
    }

    #[test]
    fn what_a_workload_does_not_have_is_refused_with_the_workloads_that_do() {
        let no_delay: [(&Setting, Value); 1] = [(&OF_TO[4], true.into())];
        let refused = path(&PathLoad { given: &no_delay, ..load("udp_stream") });
        assert_eq!(
            refused.expect_err("no TCP").message(),
            "to: -N does not apply to udp_stream, only to tcp_stream"
        );
        for load in [
            PathLoad { direction: Some("rx"), ..load("tcp_rr") },
            PathLoad { rate: Some(1e6), ..load("udp_rr") },
        ] {
            let refused = path(&load).expect_err("no stream").message();
            assert!(refused.contains("does not apply to requests"), "{refused}");
        }
    }

    #[test]
    fn the_congestion_control_is_the_hosts_own_unless_it_is_chosen() {
        let chosen = [(&OF_TO[3], Value::from("bbr"))];
        let draft = path(&PathLoad { given: &chosen, ..load("tcp_rr") }).expect("a draft");
        assert!(params(&draft).contains("bbr"), "{}", params(&draft));
        assert!(!params(&draft).contains("host"), "{}", params(&draft));
        assert!(params(&path(&load("tcp_crr")).expect("a draft")).contains("host"));
        assert!(!params(&path(&load("udp_rr")).expect("a draft")).contains("congestion"));
        // The default in help is the one that applies.
        assert!(OF_TO[3].parameters().all(|(_, parameter)| parameter.default == "\"host\""));
    }

    #[test]
    fn a_server_sums_up_uploads_only() {
        let checksum = [(&OF_SERVE[3], Value::from(true))];
        let chunked = [(&OF_SERVE[2], Value::from(true))];
        let http = Server {
            workload: "http",
            takes_uploads: true,
            port: 8080,
            n_connections: 16,
            root: None,
            duration: Nanos::from_secs(1),
            given: &checksum,
        };
        let uploads = params(&server(&http).expect("a draft"));
        for part in ["memory", "\"tx\"", "8080"] {
            assert!(uploads.contains(part), "{part}: {uploads}");
        }
        let downloads = server(&Server { takes_uploads: false, given: &[], ..http });
        assert!(params(&downloads.expect("a draft")).contains("\"rx\""));
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
