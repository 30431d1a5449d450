//! Options of iperf3, and the fate of each in `linerate to`.

use crate::{Failure, Result};

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
const KEYS: Fate = Replaced("hosts are paired by keys: `linerate agent --pair` and `to --token -`");
const SCTP: Fate = Replaced("there is no SCTP: use tcp or udp");
const LOST_PEER: Fate = Replaced("the run ends 12 s after the other end falls silent");

/// All options of iperf3 3.21.
pub const IPERF3: [Iperf3Option; 73] = [
    takes('p', "port", Works),
    takes('f', "format", Works),
    takes('i', "interval", Works),
    takes('I', "pidfile", Replaced("the shell knows it: `linerate to HOST & echo $! > FILE`")),
    takes('F', "file", Works),
    takes('A', "affinity", Works),
    takes('B', "bind", Works),
    long("bind-dev", true, Works),
    plain('V', "verbose", Works),
    plain('J', "json", Works),
    long("json-stream", false, Works),
    long(
        "json-stream-full-output",
        false,
        Replaced("--json-stream prints events, and --json the whole document"),
    ),
    long("logfile", true, Works),
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
        Replaced(
            "the other end is `linerate agent`; `systemd-run linerate agent` keeps it running, or \
                for good its unit (packaging/systemd)",
        ),
    ),
    plain('1', "one-off", Replaced("`linerate agent --one-off` serves one campaign, then ends")),
    long(
        "server-bitrate-limit",
        true,
        Replaced("the agent's policy limits its load: `linerate agent --policy`"),
    ),
    long("server-max-duration", true, AGENT),
    long("idle-timeout", true, AGENT),
    long("rsa-private-key-path", true, KEYS),
    long("authorized-users-path", true, KEYS),
    long("time-skew-threshold", true, KEYS),
    long("use-pkcs1-padding", false, Works),
    takes('c', "client", Works),
    plain('m', "mptcp", Replaced("there is no Multipath TCP: use tcp, with -P for more flows")),
    long("sctp", false, SCTP),
    takes('X', "xbind", SCTP),
    long("nstreams", true, SCTP),
    plain('u', "udp", Works),
    long("connect-timeout", true, Works),
    long(
        "cntl-ka",
        false,
        Always("each end of the control connection sees within 12 s that the other one is gone"),
    ),
    takes('b', "bitrate", Works),
    long("bandwidth", true, Replaced("an old name: use -b")),
    long(
        "pacing-timer",
        true,
        Replaced("the kernel paces TCP without a timer of linerate; udp is paced to the datagram"),
    ),
    long("fq-rate", true, Works),
    long("no-fq-socket-pacing", false, Replaced("tcp is not paced without -b and --fq-rate")),
    takes('t', "time", Works),
    takes('n', "bytes", Works),
    takes('k', "blockcount", Works),
    takes('l', "length", Works),
    long("cport", true, Works),
    takes('P', "parallel", Works),
    plain('R', "reverse", Works),
    long("bidir", false, Works),
    takes('w', "window", Works),
    takes('C', "congestion", Works),
    long("linux-congestion", true, Replaced("an old name: use -C")),
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
    long("skip-rx-copy", false, Works),
    long("gsro", false, Works),
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
    long("username", true, Works),
    long("rsa-public-key-path", true, Works),
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

/// Options of `linerate to` with a value that iperf3 does not have.
const OURS: [&str; 3] = ["color", "ledger", "out"];

/// Returns the arguments of linerate for `words`, the arguments of a person who knows iperf3:
/// `-c HOST` and a host alone are `to HOST`, in any order, and `help COMMAND` is `COMMAND --help`.
/// The first word is the program: one that is called `iperf3` (a link to this one) is an iperf3
/// server or client. `is_command` recognises the commands of linerate.
///
/// # Errors
/// If the words start a server of iperf3 under another name, or name a file where a command is
/// expected.
pub fn translated(
    mut words: Vec<String>,
    is_command: impl Fn(&str) -> bool,
) -> Result<Vec<String>> {
    if words.first().is_some_and(|program| is_iperf3(program)) {
        return as_iperf3(words);
    }
    let second = words.get(1).map(String::as_str);
    match second {
        Some("help") => {
            words.remove(1);
            words.push("--help".to_owned());
            return Ok(words);
        }
        // Its letter prints more here, of a command; iperf3 has it alone.
        Some("-v") if words.len() == 2 => return Ok(vec![words.remove(0), "--version".to_owned()]),
        _ => {}
    }
    let mut line = Line::read(&words);
    let first = line.first.map(|at| words[at].clone());
    let is_to = first.as_deref() == Some(TO);
    if !is_to && first.as_deref().is_some_and(is_command) {
        return Ok(words);
    }
    if line.server.is_some() && !is_to {
        return Err(Failure::wrong(
            "-s: the other end of a measurement is an agent: run `linerate agent --pair`, then on \
                the host that measures `linerate to HOST --token -`",
        ));
    }
    let is_host = first.as_deref().is_some_and(names_a_host);
    if let Some(command) = first.as_deref().filter(|_| line.client.is_none()).and_then(command_of) {
        return Err(Failure::wrong(command));
    }
    if !is_to && !is_host && line.client.is_none() {
        return Ok(words);
    }
    if let Some(at) = line.unit {
        words[at] = words[at].replace("--format", "-f").replace('=', "");
    }
    // The command stands before its options.
    if let Some(at) = line.first.filter(|_| is_to) {
        words.remove(at);
        line.client.iter_mut().filter(|client| client.at > at).for_each(|client| client.at -= 1);
    }
    let host = line.client.and_then(|client| client.taken(&mut words));
    words.insert(1, TO.to_owned());
    if let Some(host) = host {
        words.insert(2, host);
    }
    Ok(words)
}

/// Returns whether `program` is called as iperf3 is.
fn is_iperf3(program: &str) -> bool {
    std::path::Path::new(program).file_name().is_some_and(|name| name == "iperf3")
}

/// Returns the arguments of linerate for those of iperf3: `-s` is `serve iperf3`, and `-c HOST` is
/// `to iperf3://HOST`.
fn as_iperf3(mut words: Vec<String>) -> Result<Vec<String>> {
    if matches!(words.get(1).map(String::as_str), Some("-v" | "--version" | "-h" | "--help")) {
        let option = if words[1].ends_with(['v', 'n']) { "--version" } else { "--help" };
        return Ok(vec![words.remove(0), option.to_owned()]);
    }
    let line = Line::read(&words);
    if let Some(server) = line.server {
        let daemon = |word: &String| ["-D", "--daemon"].contains(&word.as_str());
        if words.iter().any(daemon) {
            return Err(Failure::wrong(
                "-D: this server stays in the foreground: `systemd-run iperf3 -s` keeps one \
                    running",
            ));
        }
        server.taken(&mut words);
        if line.has_letter_of_json {
            let letter = words.iter_mut().find(|word| *word == "-J");
            letter.into_iter().for_each(|word| "--json".clone_into(word));
        }
        words.splice(1..1, ["serve", "iperf3"].map(str::to_owned));
        return Ok(words);
    }
    let host = line.client.and_then(|client| client.taken(&mut words));
    let host = host.ok_or_else(|| Failure::wrong("iperf3: expected -c HOST or -s"))?;
    words.splice(1..1, [TO.to_owned(), format!("iperf3://{host}")]);
    Ok(words)
}

/// Returns whether `words`, which may be wrong, ask for one JSON document.
#[must_use]
pub fn wants_json(words: &[String]) -> bool {
    let line = Line::read(words);
    // Other commands have no such letter.
    let first = line.first.map(|at| words[at].as_str());
    let is_to = line.client.is_some() || first.is_none_or(|word| word == TO || names_a_host(word));
    line.is_json || (is_to && line.has_letter_of_json)
}

/// Returns whether `words` ask for events, each a JSON object on a line of its own.
#[must_use]
pub fn wants_stream(words: &[String]) -> bool {
    Line::read(words).is_stream
}

/// Name of the command that measures the path to a host.
const TO: &str = "to";

/// Words of a command line by their meaning.
#[derive(Debug, Default)]
struct Line {
    /// Place of the first word that is no option and no value of one.
    first: Option<usize>,
    client: Option<Client>,
    server: Option<Server>,
    /// True with `--json` or `--json-stream`.
    is_json: bool,
    /// True with `--json-stream`.
    is_stream: bool,
    /// True with `-J`.
    has_letter_of_json: bool,
    /// Place of a `--format` with a unit of rates.
    unit: Option<usize>,
}

/// Option that asks for a server.
#[derive(Clone, Copy, Debug)]
struct Server {
    /// Place of its word.
    at: usize,
    /// Place of its letter in the word; `None` for the long option.
    letter: Option<usize>,
}

impl Server {
    /// Takes the option out of `words`.
    fn taken(self, words: &mut Vec<String>) {
        if let Some(place) = self.letter {
            words[self.at].remove(place);
        }
        if self.letter.is_none() || words[self.at] == "-" {
            words.remove(self.at);
        }
    }
}

/// Option that names the host.
#[derive(Clone, Copy, Debug)]
struct Client {
    /// Place of its word.
    at: usize,
    /// Bytes of the word before the letter or the name of the option.
    before: usize,
    /// Bytes of the word until the host.
    until: usize,
}

impl Client {
    /// Takes the option out of `words` and returns the host.
    fn taken(self, words: &mut Vec<String>) -> Option<String> {
        let host = words[self.at].split_off(self.until);
        words[self.at].truncate(self.before);
        let next = self.at + 1;
        let host = match host.is_empty() {
            true => (next < words.len()).then(|| words.remove(next)),
            false => Some(host),
        };
        // Other letters of its word stay.
        if ["", "-"].contains(&words[self.at].as_str()) {
            words.remove(self.at);
        }
        host
    }
}

impl Line {
    fn read(words: &[String]) -> Self {
        let mut line = Self::default();
        let mut at = 1;
        while let Some(word) = words.get(at).filter(|word| *word != "--") {
            let takes_next = match word.strip_prefix("--") {
                Some(long) => line.long(at, long, words.get(at + 1)),
                None if word.len() > 1 && word.starts_with('-') => line.letters(at, word),
                None => {
                    line.first.get_or_insert(at);
                    false
                }
            };
            at += if takes_next { 2 } else { 1 };
        }
        line
    }

    /// Reads the option `long` and returns whether the next word is its value.
    fn long(&mut self, at: usize, long: &str, next: Option<&String>) -> bool {
        let (name, value) = match long.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (long, None),
        };
        let is_unit = |text: &str| text.len() == 1 && "kmgtKMGT".contains(text);
        match name {
            "client" => {
                let length = "--client".len() + usize::from(value.is_some());
                self.client = Some(Client { at, before: 0, until: length });
            }
            "server" => self.server = Some(Server { at, letter: None }),
            "json" => self.is_json = true,
            "json-stream" => (self.is_json, self.is_stream) = (true, true),
            "format" if value.or(next.map(String::as_str)).is_some_and(is_unit) => {
                self.unit = Some(at);
            }
            _ => {}
        }
        let of_iperf3 = IPERF3.iter().find(|option| option.long == name);
        let takes_value = OURS.contains(&name) || of_iperf3.is_some_and(|one| one.takes_value);
        takes_value && value.is_none()
    }

    /// Reads the letters of `word` and returns whether the next word is the value of the last.
    fn letters(&mut self, at: usize, word: &str) -> bool {
        for (place, letter) in word.char_indices().skip(1) {
            let until = place + letter.len_utf8();
            match letter {
                'c' => self.client = Some(Client { at, before: place, until }),
                's' => self.server = Some(Server { at, letter: Some(place) }),
                'J' => self.has_letter_of_json = true,
                _ => {}
            }
            let option = IPERF3.iter().find(|option| option.letter == Some(letter));
            if option.is_some_and(|option| option.takes_value) {
                return until == word.len();
            }
        }
        false
    }
}

/// Returns the advice for a file where a command is expected.
fn command_of(word: &str) -> Option<String> {
    let command = match word.rsplit_once('.')?.1 {
        "toml" => "run",
        "ledger" => "report",
        _ => return None,
    };
    Some(format!("{word} is no command and no host: `linerate {command} {word}`"))
}

/// Returns whether `word` is an address or a name with a domain, which no command is.
fn names_a_host(word: &str) -> bool {
    let is_path = word.contains('/');
    !word.starts_with('-') && !is_path && (word.contains(['.', ':']) || word == "localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Result<String> {
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
            ("linerate -uc h -b 1M", "linerate to h -u -b 1M"),
            ("linerate -uch -b 1M", "linerate to h -u -b 1M"),
            ("linerate -u -b 1M -c h", "linerate to h -u -b 1M"),
            ("linerate --json to -c h", "linerate to h --json"),
            ("linerate -J to h", "linerate to -J h"),
            ("linerate -T to to -c h", "linerate to h -T to"),
            ("linerate -c h -T to to", "linerate to h -T to"),
            ("linerate --json 127.0.0.1", "linerate to --json 127.0.0.1"),
            ("linerate -t 3 127.0.0.1 -u", "linerate to -t 3 127.0.0.1 -u"),
            ("linerate --color never -c h", "linerate to h --color never"),
            ("linerate to h --format k", "linerate to h -f k"),
            ("linerate -c h --format=K", "linerate to h -fK"),
            ("linerate -v", "linerate --version"),
            ("linerate -c to", "linerate to to"),
            // Nothing else is changed.
            ("linerate to h --format html", "linerate to h --format html"),
            ("linerate run p --format=k", "linerate run p --format=k"),
            ("linerate to h -s", "linerate to h -s"),
            ("linerate --json run p -s", "linerate --json run p -s"),
            ("linerate -v run p", "linerate -v run p"),
            ("linerate to h -C bbr", "linerate to h -C bbr"),
            ("linerate run plan.toml -c x", "linerate run plan.toml -c x"),
            ("linerate rnu", "linerate rnu"),
            (
                "linerate to h --congestion bbr --color never",
                "linerate to h --congestion bbr --color never",
            ),
            ("linerate", "linerate"),
        ] {
            assert_eq!(of(typed).expect(typed), meant, "{typed}");
        }
        for (typed, part) in [
            ("linerate -s -p 5201", "linerate agent"),
            ("linerate -p 5201 -s", "linerate agent"),
            ("linerate -Vsp 5201", "linerate agent"),
            ("linerate plan.toml", "`linerate run plan.toml`"),
            ("linerate ./plan.toml", "`linerate run ./plan.toml`"),
            ("linerate --json a.ledger", "`linerate report a.ledger`"),
        ] {
            let refused = of(typed).expect_err(typed).message();
            assert!(refused.contains(part), "{typed}: {refused}");
        }
    }

    #[test]
    fn a_program_that_is_called_iperf3_is_one() {
        for (typed, meant) in [
            ("iperf3 -s", "iperf3 serve iperf3"),
            (
                "/usr/local/bin/iperf3 -s -p 5202 -1",
                "/usr/local/bin/iperf3 serve iperf3 -p 5202 -1",
            ),
            ("iperf3 -1sp 5202 -J", "iperf3 serve iperf3 -1p 5202 --json"),
            ("iperf3 --server -B ::1", "iperf3 serve iperf3 -B ::1"),
            ("iperf3 -c h -P 2 -R", "iperf3 to iperf3://h -P 2 -R"),
            ("iperf3 -uc h -b 1M -J", "iperf3 to iperf3://h -u -b 1M -J"),
            ("iperf3 --version", "iperf3 --version"),
            ("iperf3 -v", "iperf3 --version"),
            ("iperf3 -h", "iperf3 --help"),
        ] {
            assert_eq!(of(typed).expect(typed), meant, "{typed}");
        }
        for (typed, part) in [
            ("iperf3", "expected -c HOST or -s"),
            ("iperf3 192.0.2.7", "expected -c HOST or -s"),
            ("iperf3 -s -D", "systemd-run iperf3 -s"),
        ] {
            let refused = of(typed).expect_err(typed).message();
            assert!(refused.contains(part), "{typed}: {refused}");
        }
    }

    #[test]
    fn a_document_is_wanted_with_the_option_or_the_letter_of_to() {
        for (typed, wants) in [
            ("linerate to h --json", true),
            ("linerate --json limit tcp", true),
            ("linerate to h -uJ", true),
            ("linerate -uJ -s", true),
            ("linerate -Jc h udp", true),
            ("linerate -J 192.0.2.7", true),
            ("linerate run p -J", false),
            ("linerate to h -T --json", false),
            ("linerate to h", false),
            ("linerate lab exec l -- x --json", false),
        ] {
            let words: Vec<String> = typed.split(' ').map(str::to_owned).collect();
            assert_eq!(wants_json(&words), wants, "{typed}");
        }
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
