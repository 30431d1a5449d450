//! Options of iperf3, and the fate of each in `linerate to`.

use crate::Failure;

/// An option of iperf3, as its manual names it.
#[derive(Debug)]
pub struct Iperf3Option {
    /// Its letter.
    pub letter: Option<char>,
    /// Its long name.
    pub long: &'static str,
    /// True if it takes a value.
    pub takes_value: bool,
    /// Its fate.
    pub fate: Fate,
}

/// Fate of an option of iperf3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// `linerate to` has it, under its letter or its long name.
    Works,
    /// It asks for the only behaviour of linerate, which is this.
    Always(&'static str),
    /// Something else does its work.
    Replaced(&'static str),
}

use Fate::{Always, Replaced, Works};

const AGENT: Fate = Replaced("the other end is `linerate agent`");
const KEYS: Fate = Replaced("hosts are paired by keys: `linerate pair offer` and `pair accept`");
const SCTP: Fate = Replaced("there is no SCTP: use tcp or udp");
const BY_TIME: Fate = Replaced(
    "a measurement has a length in time: -t SECONDS. For the time of N bytes use files: \
        `linerate serve http --size N`",
);
const LOST_PEER: Fate = Replaced("the run ends 12 s after the other end falls silent");

/// All options of iperf3 3.12, and `--json-stream` of 3.17.
pub const IPERF3: [Iperf3Option; 64] = [
    takes('p', "port", Works),
    takes('f', "format", Works),
    takes('i', "interval", Works),
    takes('I', "pidfile", Replaced("the shell knows it: `linerate to HOST & echo $! > FILE`")),
    takes(
        'F',
        "file",
        Replaced(
            "files are served by `linerate serve http --root FOLDER`, disks measured by `disk run`",
        ),
    ),
    takes('A', "affinity", Works),
    takes('B', "bind", Works),
    long("bind-dev", true, Works),
    plain('V', "verbose", Works),
    plain('J', "json", Works),
    long("json-stream", false, Replaced("--json prints one document at the end")),
    long("logfile", true, Replaced("redirect the output: `linerate to HOST > FILE`")),
    long("forceflush", false, Always("each line is written at once")),
    long("timestamps", false, Replaced("pipe the output through `ts` (package moreutils)")),
    long("rcv-timeout", true, LOST_PEER),
    long("snd-timeout", true, LOST_PEER),
    plain('d', "debug", Replaced("-v prints more")),
    plain('v', "version", Works),
    plain('h', "help", Works),
    plain('s', "server", AGENT),
    plain(
        'D',
        "daemon",
        Replaced("the other end is `linerate agent`; systemd or `&` keeps it running"),
    ),
    plain('1', "one-off", Replaced("`linerate to ssh:HOST` starts an agent for one measurement")),
    long(
        "server-bitrate-limit",
        true,
        Replaced("the agent's policy limits its load: `linerate agent --policy`"),
    ),
    long("idle-timeout", true, AGENT),
    long("rsa-private-key-path", true, KEYS),
    long("authorized-users-path", true, KEYS),
    long("time-skew-threshold", true, KEYS),
    long("use-pkcs1-padding", false, KEYS),
    takes('c', "client", Works),
    long("sctp", false, SCTP),
    takes('X', "xbind", SCTP),
    long("nstreams", true, SCTP),
    plain('u', "udp", Works),
    long("connect-timeout", true, Replaced("an attempt to connect always ends after 5 s")),
    takes('b', "bitrate", Works),
    long(
        "pacing-timer",
        true,
        Replaced("the kernel paces TCP without a timer of linerate; udp is paced to the datagram"),
    ),
    long("fq-rate", true, Works),
    takes('t', "time", Works),
    takes('n', "bytes", BY_TIME),
    takes('k', "blockcount", BY_TIME),
    takes('l', "length", Works),
    long("cport", true, Works),
    takes('P', "parallel", Works),
    plain('R', "reverse", Works),
    long("bidir", false, Works),
    takes('w', "window", Works),
    takes('C', "congestion", Works),
    takes('M', "set-mss", Works),
    plain('N', "no-delay", Works),
    plain('4', "version4", Works),
    plain('6', "version6", Works),
    takes('S', "tos", Works),
    long("dscp", true, Works),
    takes(
        'L',
        "flowlabel",
        Replaced("the kernel labels each IPv6 flow (sysctl net.ipv6.auto_flowlabels)"),
    ),
    plain('Z', "zerocopy", Works),
    takes('O', "omit", Works),
    takes('T', "title", Works),
    long("extra-data", true, Replaced("--ledger FILE keeps the command line with the results")),
    long("get-server-output", false, Always("the answer has the counts of both ends")),
    long("udp-counters-64bit", false, Always("datagrams are numbered with 64 bits")),
    long("repeating-payload", false, Replaced("every message has the same random bytes")),
    long(
        "dont-fragment",
        false,
        Replaced("datagrams fit the path's MTU unless -l chooses larger ones"),
    ),
    long("username", true, KEYS),
    long("rsa-public-key-path", true, KEYS),
];

const fn plain(letter: char, long: &'static str, fate: Fate) -> Iperf3Option {
    Iperf3Option { letter: Some(letter), long, takes_value: false, fate }
}

const fn takes(letter: char, long: &'static str, fate: Fate) -> Iperf3Option {
    Iperf3Option { takes_value: true, ..plain(letter, long, fate) }
}

const fn long(long: &'static str, takes_value: bool, fate: Fate) -> Iperf3Option {
    Iperf3Option { letter: None, long, takes_value, fate }
}

impl Iperf3Option {
    /// Returns the option as a person types it.
    #[must_use]
    pub fn typed(&self) -> String {
        self.letter.map_or_else(|| format!("--{}", self.long), |letter| format!("-{letter}"))
    }
}

/// Returns the arguments of linerate for `words`, the arguments of a person who knows iperf3:
/// `-c HOST` and a host alone are `to HOST`, and `help COMMAND` is `COMMAND --help`. The first word
/// is the program. `is_command` recognises the commands of linerate.
///
/// # Errors
/// If the words start a server of iperf3.
pub fn translated(
    mut words: Vec<String>,
    is_command: impl Fn(&str) -> bool,
) -> Result<Vec<String>, Failure> {
    let first = words.get(1).cloned().unwrap_or_default();
    if ["-s", "--server"].contains(&first.as_str()) {
        return Err(Failure::wrong(
            "-s: the other end of a measurement is an agent: run `linerate agent`, and pair it \
                with `linerate pair offer`",
        ));
    }
    if first == "help" {
        words.remove(1);
        words.push("--help".to_owned());
    } else if first == "to" || !is_command(&first) {
        let host = client(&mut words);
        let is_to = words.get(1).is_some_and(|word| word == "to");
        if (host.is_some() || names_a_host(&first)) && !is_to {
            words.insert(1, "to".to_owned());
        }
        if let Some(host) = host {
            words.insert(2, host);
        }
    }
    Ok(words)
}

/// Takes `-c HOST` out of `words` and returns the host.
fn client(words: &mut Vec<String>) -> Option<String> {
    let is_client = |word: &String| {
        word.starts_with("-c") || word == "--client" || word.starts_with("--client=")
    };
    let at = words.iter().position(is_client)?;
    let word = words.remove(at);
    match word.strip_prefix("--client=").or_else(|| word.strip_prefix("-c")) {
        Some(host) if !host.is_empty() => Some(host.to_owned()),
        _ => (at < words.len()).then(|| words.remove(at)),
    }
}

/// Returns whether `word` is an address or a name with a domain, which no command is.
fn names_a_host(word: &str) -> bool {
    let is_path = word.contains('/');
    !word.starts_with('-') && !is_path && (word.contains(['.', ':']) || word == "localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Result<String, Failure> {
        let words = line.split(' ').map(str::to_owned).collect();
        translated(words, |word| ["to", "run", "agent"].contains(&word))
            .map(|words| words.join(" "))
    }

    #[test]
    fn a_client_of_iperf3_and_a_host_alone_are_measurements() {
        for (typed, meant) in [
            ("linerate -c 192.0.2.7 -t 3", "linerate to 192.0.2.7 -t 3"),
            ("linerate -t 3 -c 192.0.2.7 -R", "linerate to 192.0.2.7 -t 3 -R"),
            ("linerate -c192.0.2.7", "linerate to 192.0.2.7"),
            ("linerate --client=fd00::1 -6", "linerate to fd00::1 -6"),
            ("linerate --client h udp", "linerate to h udp"),
            ("linerate to -c h -P 2", "linerate to h -P 2"),
            ("linerate 192.0.2.7 udp", "linerate to 192.0.2.7 udp"),
            ("linerate db.example.net", "linerate to db.example.net"),
            ("linerate localhost", "linerate to localhost"),
            ("linerate help", "linerate --help"),
            ("linerate help to", "linerate to --help"),
            // Nothing else is changed.
            ("linerate to h -C bbr", "linerate to h -C bbr"),
            ("linerate run plan.toml -c x", "linerate run plan.toml -c x"),
            ("linerate rnu", "linerate rnu"),
            ("linerate ./plan.toml", "linerate ./plan.toml"),
            (
                "linerate to h --congestion bbr --color never",
                "linerate to h --congestion bbr --color never",
            ),
            ("linerate", "linerate"),
        ] {
            assert_eq!(of(typed).expect(typed), meant, "{typed}");
        }
        let refused = of("linerate -s -p 5201").expect_err("a server").message();
        assert!(refused.contains("linerate agent"), "{refused}");
    }

    #[test]
    fn every_option_of_iperf3_has_one_fate_and_a_reason_where_it_does_not_work() {
        for (at, option) in IPERF3.iter().enumerate() {
            let is_same = |other: &&Iperf3Option| {
                other.long == option.long
                    || (other.letter.is_some() && other.letter == option.letter)
            };
            assert_eq!(IPERF3[at + 1..].iter().find(is_same).map(|one| one.long), None);
            if let Always(reason) | Replaced(reason) = option.fate {
                assert!(reason.len() > 10, "{}", option.long);
            }
        }
    }
}
