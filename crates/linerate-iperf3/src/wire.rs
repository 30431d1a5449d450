//! Cookie, states, parameters and results as they cross a control connection.
//!
//! A message has no tag: the state of the connection decides what comes next. A state is one signed
//! byte, and JSON has a length of four bytes in front, big-endian.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value, json};

/// Port of a server.
pub const PORT: u16 = 5201;
/// Bytes of a cookie: 36 characters and a NUL.
pub const COOKIE_BYTES: usize = 37;
/// Largest parameters that a server accepts, bytes.
pub const PARAMETERS_LIMIT: usize = 8192;
/// Largest results that either end of ours accepts, bytes. iperf3 has no limit.
pub const RESULTS_LIMIT: usize = 4 << 20;
/// Most streams of each direction (iperf3's `MAX_STREAMS`).
pub const MAX_STREAMS: u32 = 128;
/// Time between two bursts of a paced stream, µs (iperf3's `DEFAULT_PACING_TIMER`).
const PACING_TIMER_US: u32 = 1000;
/// Largest TCP block (iperf3's `MAX_BLOCKSIZE`).
pub const MAX_BLOCK: u32 = 1 << 20;
/// First datagram of a UDP stream, from the client; and the server's answer.
pub const UDP_REQUEST: [u8; 4] = *b"9876";
/// Answer of a server to [`UDP_REQUEST`].
pub const UDP_ANSWER: [u8; 4] = *b"6789";
/// Answers of servers before 3.1x on little-endian and big-endian hosts: 987654321.
pub const LEGACY_ANSWERS: [[u8; 4]; 2] = [[0xb1, 0x68, 0xde, 0x3a], [0x3a, 0xde, 0x68, 0xb1]];

/// First bytes of every connection of a test. They are opaque.
pub type Cookie = [u8; COOKIE_BYTES];

/// State that one end reports to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The data streams are complete.
    TestStart = 1,
    /// Data may flow.
    TestRunning = 2,
    /// The client ends the load.
    TestEnd = 4,
    /// The server waits for parameters.
    ParamExchange = 9,
    /// The server waits for data streams.
    CreateStreams = 10,
    /// The server gives the test up.
    ServerTerminate = 11,
    /// The client gives the test up.
    ClientTerminate = 12,
    /// The server waits for results.
    ExchangeResults = 13,
    /// Results are complete.
    DisplayResults = 14,
    /// The client has everything.
    IperfDone = 16,
    /// The server is busy, or a stream has the wrong cookie.
    AccessDenied = -1,
    /// The server could not go on; two numbers follow.
    ServerError = -2,
}

impl State {
    const ALL: [Self; 12] = [
        Self::TestStart,
        Self::TestRunning,
        Self::TestEnd,
        Self::ParamExchange,
        Self::CreateStreams,
        Self::ServerTerminate,
        Self::ClientTerminate,
        Self::ExchangeResults,
        Self::DisplayResults,
        Self::IperfDone,
        Self::AccessDenied,
        Self::ServerError,
    ];

    /// Returns the state of `byte`, if it is one that crosses a connection.
    #[must_use]
    pub fn of(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.byte() == byte)
    }

    /// Returns its byte.
    #[must_use]
    pub fn byte(self) -> u8 {
        (self as i8).cast_unsigned()
    }
}

/// Transport of the data streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// TCP.
    #[default]
    Tcp,
    /// UDP.
    Udp,
}

/// Parameters of a test, from the client to the server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parameters {
    /// Transport of the data streams.
    pub protocol: Protocol,
    /// Warm-up, seconds.
    pub omit: u32,
    /// Length of the load, seconds; 0 if it has another end.
    pub time: u32,
    /// Payload after which the client ends; 0 for none.
    pub bytes: u64,
    /// Blocks after which the client ends; 0 for none.
    pub blocks: u64,
    /// Streams of each direction.
    pub parallel: u32,
    /// The server sends.
    pub reverse: bool,
    /// Both ends send.
    pub bidirectional: bool,
    /// Largest segment, bytes.
    pub mss: Option<u32>,
    /// Nagle's algorithm is off.
    pub no_delay: bool,
    /// Socket buffers, bytes.
    pub window: Option<u32>,
    /// Bytes of a block or of a datagram's payload.
    pub length: Option<u32>,
    /// Offered rate of each stream, bit/s; `None` for as fast as possible.
    pub bandwidth: Option<u64>,
    /// Rate of the kernel's pacing of each stream, bit/s.
    pub fq_rate: Option<u64>,
    /// Time for which a server collects what is due at `bandwidth`, µs; `None` for the default.
    pub pacing_timer_us: Option<u32>,
    /// Type of service.
    pub tos: Option<u8>,
    /// Congestion control.
    pub congestion: Option<String>,
    /// The client prints text of the server.
    pub wants_output: bool,
    /// Datagrams are numbered with 64 bits.
    pub counters_64bit: bool,
    /// The sender does not copy.
    pub zerocopy: bool,
    /// User and password, see [`crate::auth`].
    pub token: Option<String>,
    /// Release of the client.
    pub version: String,
    /// Transports and options that this crate does not have.
    pub unknown: Vec<&'static str>,
}

/// Why bytes of a control connection are not what they should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// JSON is longer than this end accepts.
    #[error("JSON of {length} bytes, more than the {limit} allowed")]
    TooLong {
        /// Announced length.
        length: usize,
        /// Largest length.
        limit: usize,
    },
    /// The bytes are no JSON object.
    #[error("no JSON object: {0}")]
    NotJson(String),
    /// A field that must be there is missing or has no number.
    #[error("`{0}` is missing or no number")]
    Missing(&'static str),
    /// A state that does not fit here.
    #[error("unexpected state {0}")]
    State(i8),
}

/// Returns `value` as a message.
#[must_use]
pub fn framed(value: &Value) -> Vec<u8> {
    let text = value.to_string();
    let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
    [&length.to_be_bytes()[..], text.as_bytes()].concat()
}

/// Takes a JSON object off the front of `unread`; `None` if it is not complete.
///
/// # Errors
/// If it is longer than `limit`, or no JSON object.
pub fn take_json(
    unread: &mut Vec<u8>,
    limit: usize,
) -> Result<Option<Map<String, Value>>, WireError> {
    let Some((prefix, rest)) = unread.split_first_chunk::<4>() else { return Ok(None) };
    let length = u32::from_be_bytes(*prefix) as usize;
    if length > limit {
        return Err(WireError::TooLong { length, limit });
    }
    let Some(text) = rest.get(..length) else { return Ok(None) };
    // Some releases count a NUL at the end.
    let text = text.strip_suffix(b"\0").unwrap_or(text);
    let value: Map<String, Value> =
        serde_json::from_slice(text).map_err(|error| WireError::NotJson(error.to_string()))?;
    unread.drain(..4 + length);
    Ok(Some(value))
}

/// Takes a state off the front of `unread`; `None` if there is no byte.
///
/// # Errors
/// If the byte is no state.
pub fn take_state(unread: &mut Vec<u8>) -> Result<Option<State>, WireError> {
    let Some(&byte) = unread.first() else { return Ok(None) };
    let state = State::of(byte).ok_or(WireError::State(byte.cast_signed()))?;
    unread.remove(0);
    Ok(Some(state))
}

/// Options of iperf3 that change the load and that this crate does not have.
const UNKNOWN: [&str; 3] = ["sctp", "mptcp", "flowlabel"];

impl Parameters {
    /// Reads the parameters of a client. Keys have any case, as in iperf3 before 3.18.
    #[must_use]
    pub fn read(object: &Map<String, Value>) -> Self {
        let keys: BTreeMap<String, &Value> =
            object.iter().map(|(key, value)| (key.to_ascii_lowercase(), value)).collect();
        let number = |key: &str| keys.get(key).and_then(|value| whole(value));
        let capped = |found: i64| u32::try_from(found).unwrap_or(u32::MAX);
        let small = |key: &str| number(key).filter(|found| *found > 0).map(capped);
        let large = |key: &str| number(key).and_then(|found| u64::try_from(found).ok());
        let is_set = |key: &str| keys.get(key).is_some_and(|value| is_true(value));
        let text = |key: &str| {
            keys.get(key).and_then(|value| value.as_str()).filter(|text| !text.is_empty())
        };
        Self {
            protocol: if is_set("udp") { Protocol::Udp } else { Protocol::Tcp },
            omit: small("omit").unwrap_or(0),
            time: small("time").unwrap_or(0),
            bytes: large("num").unwrap_or(0),
            blocks: large("blockcount").unwrap_or(0),
            parallel: small("parallel").unwrap_or(1),
            reverse: is_set("reverse"),
            bidirectional: is_set("bidirectional"),
            mss: small("mss"),
            no_delay: is_set("nodelay"),
            window: small("window"),
            length: small("len"),
            bandwidth: large("bandwidth").filter(|rate| *rate > 0),
            fq_rate: large("fqrate").filter(|rate| *rate > 0),
            pacing_timer_us: small("pacing_timer"),
            tos: number("tos").and_then(|tos| u8::try_from(tos).ok()).filter(|tos| *tos > 0),
            congestion: text("congestion").map(str::to_owned),
            wants_output: is_set("get_server_output"),
            counters_64bit: is_set("udp_counters_64bit"),
            zerocopy: is_set("zerocopy"),
            token: text("authtoken").map(str::to_owned),
            version: text("client_version").unwrap_or("unknown").to_owned(),
            unknown: UNKNOWN.into_iter().filter(|key| keys.contains_key(*key)).collect(),
        }
    }

    /// Returns the parameters as a client sends them. What is not set is left out: servers before
    /// 3.18 take a key for set, whatever its value.
    #[must_use]
    pub fn json(&self) -> Value {
        let protocol = match self.protocol {
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
        };
        let mut object = json!({
            protocol: true,
            "omit": self.omit,
            "time": self.time,
            "num": self.bytes,
            "blockcount": self.blocks,
            "parallel": self.parallel,
            "pacing_timer": self.pacing_timer_us.unwrap_or(PACING_TIMER_US),
            "client_version": self.version,
        });
        let some = |value: Option<u64>| value.map(Value::from);
        let flag = |is_set: bool| is_set.then_some(Value::Bool(true));
        let one = |is_set: bool| is_set.then(|| Value::from(1));
        for (key, value) in [
            ("MSS", some(self.mss.map(u64::from))),
            ("nodelay", flag(self.no_delay)),
            ("reverse", flag(self.reverse)),
            ("bidirectional", flag(self.bidirectional)),
            ("window", some(self.window.map(u64::from))),
            ("len", some(self.length.map(u64::from))),
            ("bandwidth", some(self.bandwidth)),
            ("fqrate", some(self.fq_rate)),
            ("TOS", some(self.tos.map(u64::from))),
            ("congestion", self.congestion.clone().map(Value::from)),
            ("get_server_output", one(self.wants_output)),
            ("udp_counters_64bit", one(self.counters_64bit)),
            ("zerocopy", one(self.zerocopy)),
            ("authtoken", self.token.clone().map(Value::from)),
        ] {
            if let Some(value) = value {
                object[key] = value;
            }
        }
        object
    }

    /// Returns the time for which a server collects what is due at `bandwidth`.
    #[must_use]
    pub fn pacing_timer(&self) -> Duration {
        /// A shorter one would keep a CPU busy for single datagrams.
        const SHORTEST: Duration = Duration::from_micros(100);
        /// Half of the time for which a sender may catch up.
        const LONGEST: Duration = Duration::from_millis(50);
        let asked = Duration::from_micros(self.pacing_timer_us.unwrap_or(PACING_TIMER_US).into());
        asked.clamp(SHORTEST, LONGEST)
    }

    /// Returns how many data streams the test has: those from the client, and those to it.
    #[must_use]
    pub fn streams(&self) -> [u32; 2] {
        let n = self.parallel;
        match (self.bidirectional, self.reverse) {
            (true, _) => [n, n],
            (false, true) => [0, n],
            (false, false) => [n, 0],
        }
    }
}

/// Returns the number of the stream at `place`, as results name it: 1, 3, 4, 5, ...
#[must_use]
pub fn stream_id(place: usize) -> i64 {
    // iperf3 gives the second stream the number after the second's place.
    let place = i64::try_from(place).unwrap_or(i64::MAX);
    if place == 0 { 1 } else { place.saturating_add(2) }
}

/// Results of one end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Results {
    /// Share of one CPU that the process used: in total, in the program, in the kernel, percent.
    pub cpu: [f64; 3],
    /// Whether its retransmissions are known; `None` if it sent nothing.
    pub has_retransmits: Option<bool>,
    /// Congestion control of its streams.
    pub congestion: Option<String>,
    /// Text for the client to print.
    pub output: Option<String>,
    /// Its streams.
    pub streams: Vec<StreamResults>,
}

/// Results of one stream at one end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StreamResults {
    /// See [`stream_id`].
    pub id: i64,
    /// Payload after the warm-up, sent or received.
    pub bytes: u64,
    /// Segments sent again; `None` if the end does not know.
    pub retransmits: Option<u64>,
    /// Jitter of arrivals (RFC 1889), seconds.
    pub jitter: f64,
    /// Datagrams lost, with those of the warm-up.
    pub errors: i64,
    /// Datagrams lost in the warm-up; `None` in releases up to 3.13.
    pub omitted_errors: Option<i64>,
    /// Datagrams, with those of the warm-up: sent, or the highest number that arrived.
    pub packets: i64,
    /// Datagrams of the warm-up; `None` in releases up to 3.13.
    pub omitted_packets: Option<i64>,
    /// Length of the load, seconds.
    pub seconds: f64,
}

impl Results {
    /// Returns the results of the stream with the number `id`.
    pub(crate) fn of_stream(&self, id: i64) -> Option<&StreamResults> {
        self.streams.iter().find(|stream| stream.id == id)
    }

    /// Reads the results of the other end.
    ///
    /// # Errors
    /// If a field is missing that every release sends.
    pub fn read(object: &Map<String, Value>) -> Result<Self, WireError> {
        let share = |key: &'static str| {
            object.get(key).and_then(Value::as_f64).ok_or(WireError::Missing(key))
        };
        let list = object.get("streams").and_then(Value::as_array);
        let streams = list.ok_or(WireError::Missing("streams"))?;
        let text = |key: &str| object.get(key).and_then(Value::as_str).map(str::to_owned);
        let retransmits = object.get("sender_has_retransmits").and_then(whole);
        let output = object.get("server_output_json").map(Value::to_string);
        Ok(Self {
            cpu: [share("cpu_util_total")?, share("cpu_util_user")?, share("cpu_util_system")?],
            has_retransmits: retransmits.filter(|number| *number >= 0).map(|number| number > 0),
            congestion: text("congestion_used"),
            output: text("server_output_text").or(output),
            streams: streams.iter().map(StreamResults::read).collect::<Result<_, _>>()?,
        })
    }

    /// Returns the results as an end sends them.
    #[must_use]
    pub fn json(&self) -> Value {
        let streams: Vec<Value> = self.streams.iter().map(StreamResults::json).collect();
        let [total, user, system] = self.cpu;
        let retransmits = self.has_retransmits.map_or(-1, i64::from);
        let mut object = json!({
            "cpu_util_total": total,
            "cpu_util_user": user,
            "cpu_util_system": system,
            "sender_has_retransmits": retransmits,
            "streams": streams,
        });
        if let Some(name) = &self.congestion {
            object["congestion_used"] = name.as_str().into();
        }
        if let Some(text) = &self.output {
            object["server_output_text"] = text.as_str().into();
        }
        object
    }
}

impl StreamResults {
    fn read(value: &Value) -> Result<Self, WireError> {
        let number =
            |key: &'static str| value.get(key).and_then(whole).ok_or(WireError::Missing(key));
        let seconds = |key: &'static str| value.get(key).and_then(Value::as_f64);
        let start = seconds("start_time").unwrap_or(0.0);
        Ok(Self {
            id: number("id")?,
            bytes: u64::try_from(number("bytes")?).unwrap_or(0),
            retransmits: u64::try_from(number("retransmits")?).ok(),
            jitter: seconds("jitter").ok_or(WireError::Missing("jitter"))?,
            errors: number("errors")?,
            omitted_errors: value.get("omitted_errors").and_then(whole),
            packets: number("packets")?,
            omitted_packets: value.get("omitted_packets").and_then(whole),
            seconds: seconds("end_time").map_or(0.0, |end| end - start),
        })
    }

    fn json(&self) -> Value {
        let mut object = json!({
            "id": self.id,
            "bytes": self.bytes,
            "retransmits": self.retransmits.map_or(-1, |n| i64::try_from(n).unwrap_or(i64::MAX)),
            "jitter": self.jitter,
            "errors": self.errors,
            "packets": self.packets,
            "start_time": 0,
            "end_time": self.seconds,
        });
        // Of the two, both or none are there.
        if let (Some(errors), Some(packets)) = (self.omitted_errors, self.omitted_packets) {
            object["omitted_errors"] = errors.into();
            object["omitted_packets"] = packets.into();
        }
        object
    }
}

/// Returns a whole number in any of the spellings of iperf3's releases: those up to 3.13 print -1
/// as 18446744073709551615, and all of them print large numbers with an exponent.
fn whole(value: &Value) -> Option<i64> {
    let number = value.as_number()?;
    if let Some(number) = number.as_i64() {
        return Some(number);
    }
    if number.is_u64() {
        return Some(-1);
    }
    let number = number.as_f64()?;
    // 2^63, from which on it cannot be a count.
    (number.is_finite()).then_some(if number >= 9.223_372_036_854_776e18 {
        -1
    } else {
        number as i64
    })
}

/// Returns whether a switch is on. It is a Boolean or a number, by release.
fn is_true(value: &Value) -> bool {
    match value {
        Value::Bool(is_set) => *is_set,
        value => whole(value).is_some_and(|number| number != 0),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn object(text: &str) -> Map<String, Value> {
        serde_json::from_str(text).expect("an object")
    }

    /// Sent by iperf3 3.12 with every option.
    const CAPTURED: &str = r#"{"tcp":true,"omit":1,"server_affinity":1,"time":1,"num":0,
        "blockcount":0,"MSS":1200,"nodelay":true,"parallel":1,"window":65536,"len":1000,
        "bandwidth":300000,"fqrate":1000000,"pacing_timer":5000,"burst":5,"TOS":8,"title":"ttl",
        "extra_data":"x","congestion":"cubic","get_server_output":1,"repeating_payload":1,
        "zerocopy":1,"client_version":"3.12"}"#;

    #[test]
    fn the_parameters_of_a_client_are_read_and_written() {
        let read = Parameters::read(&object(CAPTURED));
        let expected = Parameters {
            omit: 1,
            time: 1,
            parallel: 1,
            mss: Some(1200),
            no_delay: true,
            window: Some(65536),
            length: Some(1000),
            bandwidth: Some(300_000),
            fq_rate: Some(1_000_000),
            pacing_timer_us: Some(5000),
            tos: Some(8),
            congestion: Some("cubic".into()),
            wants_output: true,
            zerocopy: true,
            version: "3.12".into(),
            ..Parameters::default()
        };
        assert_eq!(read, expected);
        let written = read.json();
        assert_eq!(Parameters::read(written.as_object().expect("an object")), read);
        let plain = Parameters { parallel: 2, ..Parameters::default() }.json();
        assert!(plain.get("reverse").is_none(), "a key alone means true to old servers: {plain}");
        let odd = object(r#"{"UDP":true,"REVERSE":true,"bidirectional":false,"sctp":true}"#);
        let odd = Parameters::read(&odd);
        assert_eq!((odd.protocol, odd.reverse, odd.bidirectional), (Protocol::Udp, true, false));
        assert_eq!((odd.unknown, odd.parallel), (vec!["sctp"], 1));
    }

    #[test]
    fn streams_are_numbered_without_the_second_number() {
        assert_eq!([0, 1, 2, 3].map(stream_id), [1, 3, 4, 5]);
        let of = |reverse, bidirectional| {
            Parameters { parallel: 2, reverse, bidirectional, ..Parameters::default() }.streams()
        };
        assert_eq!([of(false, false), of(true, false), of(false, true)], [[2, 0], [0, 2], [2, 2]]);
    }

    #[test]
    fn minus_one_is_read_in_every_spelling() {
        for text in ["-1", "18446744073709551615", "1.8446744073709552e+19", "9.3e18"] {
            let value: Value = serde_json::from_str(text).expect("a number");
            assert_eq!(whole(&value), Some(-1), "{text}");
        }
        assert_eq!(whole(&json!(5e9)), Some(5_000_000_000));
        assert_eq!(whole(&json!("5")), None);
    }

    #[test]
    fn results_without_what_every_release_sends_are_refused() {
        let results = Results {
            cpu: [1.0, 0.25, 0.75],
            has_retransmits: Some(true),
            congestion: Some("bbr".into()),
            output: Some("text".into()),
            streams: vec![StreamResults {
                id: 3,
                bytes: 1 << 40,
                retransmits: Some(7),
                jitter: 1e-5,
                errors: 2,
                omitted_errors: Some(1),
                packets: 100,
                omitted_packets: Some(10),
                seconds: 1.5,
            }],
        };
        let written = results.json();
        let whole = written.as_object().expect("an object").clone();
        assert_eq!(Results::read(&whole), Ok(results));
        for key in ["cpu_util_total", "cpu_util_user", "cpu_util_system", "streams"] {
            let mut less = whole.clone();
            less.remove(key);
            assert_eq!(Results::read(&less), Err(WireError::Missing(key)));
        }
        for key in ["id", "bytes", "retransmits", "jitter", "errors", "packets"] {
            let mut less = whole.clone();
            less["streams"][0].as_object_mut().expect("an object").remove(key);
            assert_eq!(Results::read(&less), Err(WireError::Missing(key)));
        }
    }

    #[test]
    fn json_is_taken_when_it_is_complete_and_not_longer_than_allowed() {
        let message = framed(&json!({"a": 1}));
        for cut in 0..message.len() {
            let mut part = message[..cut].to_vec();
            assert_eq!(take_json(&mut part, 100), Ok(None), "{cut}");
            assert_eq!(part.len(), cut, "nothing is taken");
        }
        let mut more = [&message[..], b"\x0d"].concat();
        assert_eq!(take_json(&mut more, 100).expect("it is complete"), Some(object(r#"{"a":1}"#)));
        assert_eq!(take_state(&mut more), Ok(Some(State::ExchangeResults)));
        assert_eq!(take_state(&mut more), Ok(None));
        let too_long = Err(WireError::TooLong { length: 7, limit: 6 });
        assert_eq!(take_json(&mut message.clone(), 6), too_long);
        assert_eq!(take_state(&mut vec![200]), Err(WireError::State(-56)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..200),
            text in "\\{(\"[a-zA-Z_]{1,12}\":(-?[0-9]{1,22}|true|null|\"x\"),?){0,6}\\}",
        ) {
            let _ = take_state(&mut bytes.clone());
            let _ = take_json(&mut bytes, PARAMETERS_LIMIT);
            if let Ok(object) = serde_json::from_str(&text) {
                let read = Parameters::read(&object);
                prop_assert!(read.streams()[0] > 0 || read.streams()[1] > 0);
                let _ = Results::read(&object);
            }
        }
    }
}
