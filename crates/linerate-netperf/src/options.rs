//! Command line of netperf: global options, `--`, options of the test.
//!
//! An option that is not understood here is refused with its reason: none is read and ignored.

use std::ffi::OsString;
use std::net::IpAddr;
use std::time::Duration;

use crate::wire::{self, direction};

mod values;

use values::{both, first, letters, number, octet, read, seconds, set, size};

/// What a test does, as seen from the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// The client sends.
    Send,
    /// The client receives.
    Receive,
    /// Requests and responses.
    Exchange,
    /// The same, with a connection for each.
    Connections,
}

/// A test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Test {
    /// Name, as typed after -t.
    pub name: &'static str,
    /// Name in the line above the result.
    pub title: &'static str,
    /// What it does.
    pub flow: Flow,
    /// True for UDP, false for TCP.
    pub is_udp: bool,
}

/// Tests by name.
pub const TESTS: [Test; 6] = [
    Test { name: "TCP_STREAM", title: "TCP STREAM", flow: Flow::Send, is_udp: false },
    Test { name: "TCP_MAERTS", title: "TCP MAERTS", flow: Flow::Receive, is_udp: false },
    Test { name: "TCP_RR", title: "TCP REQUEST/RESPONSE", flow: Flow::Exchange, is_udp: false },
    Test {
        name: "TCP_CRR",
        title: "TCP Connect/Request/Response",
        flow: Flow::Connections,
        is_udp: false,
    },
    Test { name: "UDP_STREAM", title: "UDP STREAM", flow: Flow::Send, is_udp: true },
    Test { name: "UDP_RR", title: "UDP REQUEST/RESPONSE", flow: Flow::Exchange, is_udp: true },
];

impl Test {
    /// Returns what the server does.
    #[must_use]
    pub fn direction(&self) -> u32 {
        match self.flow {
            Flow::Send => direction::RECEIVES,
            Flow::Receive => direction::SENDS,
            Flow::Exchange | Flow::Connections => direction::SENDS | direction::RECEIVES,
        }
    }

    /// Returns the test of its flow and protocol, with a connection for each transaction if
    /// `has_connections`.
    fn with(self, has_connections: bool) -> Result<Self> {
        let flow = match (self.flow, has_connections) {
            (Flow::Exchange, true) => Flow::Connections,
            (Flow::Send | Flow::Receive, true) => return Err(WrongOption::NoTest),
            (flow, _) => flow,
        };
        let is_same = |test: &Self| (test.flow, test.is_udp) == (flow, self.is_udp);
        TESTS.into_iter().find(is_same).ok_or(WrongOption::NoTest)
    }

    /// Returns whether the test consists of transactions.
    #[must_use]
    pub fn is_exchange(&self) -> bool {
        matches!(self.flow, Flow::Exchange | Flow::Connections)
    }
}

/// Unit of a rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unit {
    /// Letter after -f.
    pub letter: char,
    /// Name, without "/s".
    pub name: &'static str,
    /// Bytes of one.
    pub bytes: f64,
}

const KIB: f64 = 1024.0;
/// Units of a rate of bytes.
pub const UNITS: [Unit; 8] = [
    Unit { letter: 'm', name: "10^6bits", bytes: 1e6 / 8.0 },
    Unit { letter: 'b', name: "10^0bits", bytes: 1.0 / 8.0 },
    Unit { letter: 'k', name: "10^3bits", bytes: 1e3 / 8.0 },
    Unit { letter: 'g', name: "10^9bits", bytes: 1e9 / 8.0 },
    Unit { letter: 'B', name: "Bytes", bytes: 1.0 },
    Unit { letter: 'K', name: "KBytes", bytes: KIB },
    Unit { letter: 'M', name: "MBytes", bytes: KIB * KIB },
    Unit { letter: 'G', name: "GBytes", bytes: KIB * KIB * KIB },
];
/// Unit of a rate of transactions: its bytes are transactions.
pub const TRANSACTIONS: Unit = Unit { letter: 'x', name: "Trans", bytes: 1.0 };

/// How the result is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// The table of the test.
    #[default]
    Classic,
    /// `NAME=value` lines (-k).
    Pairs,
    /// Comma-separated values (-o).
    Csv,
    /// A table (-O).
    Table,
}

/// Length of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// A time; zero is without end.
    Time(Duration),
    /// Bytes, or transactions.
    Amount(u32),
}

/// Command line of netperf. Of pairs, the first is for this end and the second for the server.
#[derive(Clone, Debug)]
pub struct Options {
    /// Host with the server.
    pub host: String,
    /// Host for the data, if it is another.
    pub data_host: Option<String>,
    /// Addresses of this end for the control connection and for the data.
    pub local: [Option<String>; 2],
    /// True for IPv6, false for IPv4.
    pub is_ipv6: Option<bool>,
    /// Port of the server.
    pub port: u16,
    /// Ports for the data.
    pub data_ports: [u16; 2],
    /// Test.
    pub test: Test,
    /// Length.
    pub length: Length,
    /// Lines above the result.
    pub has_headings: bool,
    /// Only the figure.
    pub is_brief: bool,
    /// Unit of the rate.
    pub unit: Unit,
    /// Span of the interim results.
    pub interim: Option<Duration>,
    /// Files that fill the blocks.
    pub fill: [String; 2],
    /// Traffic classes.
    pub classes: [u8; 2],
    /// Whether to measure CPUs.
    pub cpu: [bool; 2],
    /// CPUs to run on.
    pub pins: [Option<u16>; 2],
    /// `SO_KEEPALIVE`.
    pub keep_alive: bool,
    /// Times of single transactions are kept.
    pub has_latencies: bool,
    /// Wait before the data.
    pub wait: Duration,
    /// Word after the result.
    pub brand: String,
    /// Bytes of a sending call.
    pub send_sizes: [Option<u32>; 2],
    /// Bytes of a receiving call.
    pub receive_sizes: [Option<u32>; 2],
    /// Buffers of the sockets: of each end the sending and the receiving one.
    pub buffers: [[Option<u32>; 2]; 2],
    /// Bytes of a request and of its response.
    pub exchange: [u32; 2],
    /// Requests under way beside the one.
    pub burst: u32,
    /// Congestion controls.
    pub congestion: [String; 2],
    /// `TCP_NODELAY` at both ends.
    pub no_delay: bool,
    /// Largest segment.
    pub largest_segment: Option<u16>,
    /// Pacing of the sending socket, bytes/s.
    pub pacing: Option<u64>,
    /// Datagrams may pass a router.
    pub is_routed: bool,
    /// Time after which a request is sent again (UDP).
    pub timeout: Option<Duration>,
    /// Format.
    pub format: Format,
    /// Selectors: lines of names, or the name of a file with them.
    pub selection: Option<String>,
    /// Identifier of the test.
    pub uuid: String,
    /// Command line, as typed.
    pub typed: String,
}

/// Time of a test unless the command line says otherwise.
const USUAL_S: u64 = 10;

impl Default for Options {
    fn default() -> Self {
        Self {
            host: "localhost".to_owned(),
            data_host: None,
            local: [None, None],
            is_ipv6: None,
            port: wire::PORT,
            data_ports: [0; 2],
            test: TESTS[0],
            length: Length::Time(Duration::from_secs(USUAL_S)),
            has_headings: true,
            is_brief: false,
            unit: UNITS[0],
            interim: None,
            fill: Default::default(),
            classes: [0; 2],
            cpu: [false; 2],
            pins: [None; 2],
            keep_alive: false,
            has_latencies: false,
            wait: Duration::ZERO,
            brand: String::new(),
            send_sizes: [None; 2],
            receive_sizes: [None; 2],
            buffers: [[None; 2]; 2],
            exchange: [1; 2],
            burst: 0,
            congestion: Default::default(),
            no_delay: false,
            largest_segment: None,
            pacing: None,
            is_routed: false,
            timeout: None,
            format: Format::default(),
            selection: None,
            uuid: String::new(),
            typed: String::new(),
        }
    }
}

/// What a command line asks for.
#[derive(Clone, Debug)]
pub enum Asked {
    /// A test.
    Test(Box<Options>),
    /// The help.
    Help,
    /// The version.
    Version,
}

/// Why a command line is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WrongOption {
    /// netperf has no such option.
    #[error("invalid option -- '{0}'")]
    Unknown(char),
    /// A word that is no option.
    #[error("{0:?} is not an option; options of the test follow --")]
    Stray(String),
    /// Its value is missing.
    #[error("option requires an argument -- '{0}'")]
    NoValue(char),
    /// Its value is wrong.
    #[error("-{0} {1:?}: {2}")]
    Value(char, String, &'static str),
    /// No test has this direction, protocol and connection together.
    #[error("there is no such test; netperf -h lists the tests")]
    NoTest,
    /// linerate does not have what it asks for.
    #[error("-{0} is not supported: {1}")]
    Unsupported(char, &'static str),
}

type Result<T> = std::result::Result<T, WrongOption>;

/// Letters of global options that take a value.
const GLOBAL_VALUES: &str = "AabBDfFHiIKlLnOopPstTvWwyYZ";
/// Letters of global options without one.
const GLOBAL_FLAGS: &str = "CcdhjNrSV46";
/// Global options that are refused, with the reason.
const GLOBAL_REFUSED: [(&str, &str); 9] = [
    ("aAoO", "blocks lie at the start of a page"),
    ("bw", "requests are not paced; linerate to HOST rr --rate has open loops"),
    ("iIr", "repeat the test, and see linerate run for intervals"),
    ("n", "the number of CPUs is read from the kernel"),
    ("N", "a test needs a server"),
    ("K", "choose the CPUs with -T"),
    ("W", "each end has one block, which stays in its cache"),
    ("y", "set the traffic class with -Y"),
    ("Z", "a passphrase would travel as it is: use a list of hosts at the server"),
];
/// The same for options of a test.
const TEST_VALUES: &str = "bdeGHijKlLmMpPqrRsStTuwW";
const TEST_FLAGS: &str = "aBcCDfFghIknNoOUV46";
const TEST_REFUSED: [(&str, &str); 11] = [
    ("aF", "TCP_DEFER_ACCEPT and TCP Fast Open are not used"),
    ("B", "the source address of UDP is that of -L"),
    ("C", "TCP_CORK is not used"),
    ("f", "see linerate probe for the largest packet of a path"),
    ("g", "SO_DEBUG has no effect"),
    ("iwW", "it has no effect on the tests here"),
    ("I", "every send is send(2)"),
    ("j", "run one netperf for each connection"),
    ("l", "multicast is not used"),
    ("p", "the kernel chooses the ports of connections"),
    ("UV", "neither endless connecting nor zero copy is available here"),
];

fn refusal(letter: char, refused: &[(&str, &'static str)]) -> Option<WrongOption> {
    let found = refused.iter().find(|(letters, _)| letters.contains(letter));
    found.map(|(_, why)| WrongOption::Unsupported(letter, why))
}

/// Reads the command line without the name of the program.
///
/// # Errors
/// If it is wrong, or asks for what is not available.
pub fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Asked> {
    let words: Vec<OsString> = words.into_iter().collect();
    let typed: Vec<String> = words.iter().map(|word| word.to_string_lossy().into()).collect();
    let split = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let mut options =
        Options { typed: format!("netperf {}", typed.join(" ")), ..Options::default() };
    let mut unit = None;
    for (letter, value) in letters(&words[..split], GLOBAL_VALUES, GLOBAL_FLAGS)? {
        match letter {
            'h' => return Ok(Asked::Help),
            'V' => return Ok(Asked::Version),
            'f' => unit = Some(value),
            letter => options.global(letter, &value)?,
        }
    }
    // The second "--" would be an option of the test.
    let of_test = words.get(split + 1..).unwrap_or_default();
    let (mut has_route, mut has_connections) = (false, false);
    for (letter, value) in letters(of_test, TEST_VALUES, TEST_FLAGS)? {
        if letter == 'h' {
            return Ok(Asked::Help);
        }
        has_route |= letter == 'R';
        has_connections |= letter == 'c';
        options.of_test(letter, &value)?;
    }
    options.test = options.test.with(has_connections)?;
    if options.timeout.is_some() && !(options.test.is_udp && options.test.is_exchange()) {
        return Err(WrongOption::Unsupported('e', "only UDP_RR asks again after a time"));
    }
    // netperf routes everything but a stream of datagrams.
    options.is_routed |= !has_route && (!options.test.is_udp || options.test.is_exchange());
    let is_exchange = options.test.is_exchange();
    options.unit = match unit.as_deref() {
        None | Some("x") if is_exchange => TRANSACTIONS,
        None | Some("x") => UNITS[0],
        Some(letter) => {
            let known = UNITS.into_iter().find(|unit| letter == unit.letter.to_string());
            let wrong = || WrongOption::Value('f', letter.to_owned(), "one of b k m g B K M G x");
            known.ok_or_else(wrong)?
        }
    };
    if options.test.is_udp && matches!(options.length, Length::Amount(_)) {
        let why = "a test over UDP has a length in seconds";
        return Err(WrongOption::Value('l', "-".to_owned(), why));
    }
    Ok(Asked::Test(Box::new(options)))
}

impl Options {
    fn set_family(&mut self, letter: char, text: &str) -> Result<()> {
        self.is_ipv6 = Some(match text.to_ascii_lowercase().as_str() {
            "4" | "inet" | "af_inet" => false,
            "6" | "inet6" | "af_inet6" => true,
            _ => {
                let why = "an address family: 4, 6, inet or inet6";
                return Err(WrongOption::Value(letter, text.to_owned(), why));
            }
        });
        Ok(())
    }

    fn global(&mut self, letter: char, value: &str) -> Result<()> {
        if let Some(refusal) = refusal(letter, &GLOBAL_REFUSED) {
            return Err(refusal);
        }
        match letter {
            '4' | '6' => self.set_family(letter, &letter.to_string())?,
            'B' => value.clone_into(&mut self.brand),
            'c' => self.cpu[0] = true,
            'C' => self.cpu[1] = true,
            // Errors are whole without it.
            'd' => return Err(WrongOption::Unsupported('d', "run it under strace(1)")),
            'D' => {
                // A negative time, and a guess of units after it, choose how often netperf reads
                // the clock: here at each call.
                let text = first(value)[0].unwrap_or("1");
                let time = seconds(letter, text.trim_start_matches('-'))?;
                self.interim = Some(time).filter(|time| !time.is_zero());
            }
            'F' => set(&mut self.fill, first(value).map(|text| text.map(str::to_owned))),
            'H' | 'L' => {
                let [name, family] = first(value);
                match (letter, name) {
                    ('H', Some(name)) => name.clone_into(&mut self.host),
                    (_, Some(name)) => self.local = [Some(name.to_owned()), Some(name.to_owned())],
                    (_, None) => {}
                }
                family.map(|family| self.set_family(letter, family)).transpose()?;
            }
            'j' => self.has_latencies = true,
            'l' => self.length = length(letter, value)?,
            'p' => match first(value) {
                [Some(port), None] => self.port = number(letter, port)?,
                _ => {
                    let why = "the kernel chooses the port of the control connection here";
                    return Err(WrongOption::Value(letter, value.to_owned(), why));
                }
            },
            'P' => self.has_headings = value != "0",
            's' => self.wait = seconds(letter, value)?,
            'S' => self.keep_alive = true,
            't' => {
                let known = TESTS.into_iter().find(|test| test.name.eq_ignore_ascii_case(value));
                let why = "not one of TCP_STREAM TCP_MAERTS TCP_RR TCP_CRR UDP_STREAM UDP_RR";
                let wrong = || WrongOption::Value(letter, value.to_owned(), why);
                self.test = match value.eq_ignore_ascii_case("omni") {
                    true => TESTS[0],
                    false => known.ok_or_else(wrong)?,
                };
            }
            'T' => {
                let cpus = read(both(value), |text| number(letter, text))?;
                set(&mut self.pins, cpus.map(|cpu| cpu.map(Some)));
            }
            'v' => match number::<u32>(letter, value)? {
                level @ (0 | 1) => self.is_brief = level == 0,
                _ => {
                    let why = "0 or 1; -j with -k prints percentiles";
                    return Err(WrongOption::Value(letter, value.to_owned(), why));
                }
            },
            'Y' => set(&mut self.classes, read(both(value), |text| octet(letter, text))?),
            letter => return Err(WrongOption::Unknown(letter)),
        }
        Ok(())
    }

    fn of_test(&mut self, letter: char, value: &str) -> Result<()> {
        if let Some(refusal) = refusal(letter, &TEST_REFUSED) {
            return Err(refusal);
        }
        let bytes = |text: &str| size(letter, text);
        match letter {
            '4' | '6' => self.set_family(letter, &letter.to_string())?,
            'b' => self.burst = number(letter, value)?,
            // The name of the test follows from all its parts.
            'c' => {}
            'd' => {
                self.test.flow = match value.to_ascii_lowercase().as_str() {
                    "2" | "send" | "xmit" | "stream" => Flow::Send,
                    "4" | "recv" | "receive" | "maerts" => Flow::Receive,
                    "6" | "rr" => Flow::Exchange,
                    _ => {
                        let why = "a direction: send, recv or rr";
                        return Err(WrongOption::Value(letter, value.to_owned(), why));
                    }
                };
            }
            'D' => self.no_delay = true,
            'e' => self.timeout = Some(seconds(letter, value)?).filter(|time| !time.is_zero()),
            'G' => self.largest_segment = Some(number(letter, value)?),
            'H' | 'L' => {
                let [name, family] = first(value);
                let name = name.map(str::to_owned);
                *(if letter == 'H' { &mut self.data_host } else { &mut self.local[1] }) = name;
                family.map(|family| self.set_family(letter, family)).transpose()?;
            }
            'k' | 'o' | 'O' => {
                self.format = match letter {
                    'k' => Format::Pairs,
                    'o' => Format::Csv,
                    _ => Format::Table,
                };
                self.selection = Some(value.to_owned()).filter(|text| !text.is_empty());
            }
            'K' => set(&mut self.congestion, both(value).map(|text| text.map(str::to_owned))),
            'm' => set(&mut self.send_sizes, read(first(value), bytes)?.map(|n| n.map(Some))),
            'M' => {
                let [there, here] = read(first(value), bytes)?;
                set(&mut self.receive_sizes, [here.map(Some), there.map(Some)]);
            }
            // Sockets of UDP are connected here anyway.
            'n' | 'N' => {}
            'P' => set(&mut self.data_ports, read(both(value), |text| number(letter, text))?),
            'q' => self.pacing = Some(number(letter, value)?),
            'r' => set(&mut self.exchange, read(both(value), |text| bytes(text).and_then(some))?),
            'R' => self.is_routed = value != "0",
            's' | 'S' => {
                let end = usize::from(letter == 'S');
                set(&mut self.buffers[end], read(both(value), bytes)?.map(|n| n.map(Some)));
            }
            't' | 'T' => {
                self.test.is_udp = match value.to_ascii_lowercase().as_str() {
                    "stream" | "tcp" => false,
                    "dgram" | "udp" => true,
                    _ => {
                        let why = "one of stream and dgram, or tcp and udp";
                        return Err(WrongOption::Value(letter, value.to_owned(), why));
                    }
                }
            }
            'u' => value.clone_into(&mut self.uuid),
            letter => return Err(WrongOption::Unknown(letter)),
        }
        Ok(())
    }

    /// Returns whether `address` is of the family that was asked for.
    #[must_use]
    pub fn accepts(&self, address: IpAddr) -> bool {
        self.is_ipv6.is_none_or(|is_ipv6| is_ipv6 == address.is_ipv6())
    }
}

/// Returns a size of at least one byte.
fn some(bytes: u32) -> Result<u32> {
    let wrong = || WrongOption::Value('r', bytes.to_string(), "at least one byte");
    Some(bytes).filter(|bytes| *bytes > 0).ok_or_else(wrong)
}

fn length(letter: char, value: &str) -> Result<Length> {
    match value.strip_prefix('-') {
        Some(amount) => Ok(Length::Amount(size(letter, amount)?)),
        None => {
            let time: u32 = number(letter, value)?;
            Ok(Length::Time(Duration::from_secs(time.into())))
        }
    }
}

/// Reads the command line of a netserver without the name of the program: its port and address.
///
/// # Errors
/// If it is wrong, or asks for what is not available.
pub fn parse_server(words: impl IntoIterator<Item = OsString>) -> Result<(u16, Option<IpAddr>)> {
    let words: Vec<OsString> = words.into_iter().collect();
    let (mut port, mut at) = (wire::PORT, None);
    for (letter, value) in letters(&words, "fLpvZ", "46dDhNV")? {
        match letter {
            'p' => port = number(letter, &value)?,
            'L' => at = Some(number(letter, &value)?),
            '4' => at = at.or(Some(IpAddr::from([0; 4]))),
            '6' => at = at.or(Some(IpAddr::from([0_u16; 8]))),
            // It stays in the foreground, as -D asks for, and writes no file, as -N does.
            'D' | 'N' => {}
            letter => {
                let why = "a netserver has -4 -6 -D -L -N -p here";
                return Err(WrongOption::Unsupported(letter, why));
            }
        }
    }
    Ok((port, at))
}

#[cfg(test)]
mod tests;
