//! Parameters of `tcp_stream`. Every default is written here, once.

use linerate_model::{BitRate, Bytes, ParamError, Params};
use linerate_sys::tcp::MessageBatch;
use serde::Deserialize;

use crate::parameter::{self, ParamDoc, Takes};
use crate::workloads::quantities::{
    BUFFER, CONGESTION, DEVICE, DIRECTION, DSCP, STREAMS, WAIT, WORKERS, Waiting, wrong,
};

/// Parameters of `tcp_stream`. Both ends are given the same.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct StreamParams {
    /// Which way data goes, seen from the active end.
    pub(super) direction: Direction,
    /// For `both`: two connections each way of a stream, or one.
    pub(super) duplex: Duplex,
    /// Streams; with `both` on two connections there are twice as many connections.
    pub(super) streams: u32,
    /// Threads at each end; absent: one per connection, but no more than there are CPUs.
    pub(super) workers: Option<u32>,
    /// Application message: what one call (or one vector of a call) sends. 128 KiB is what iperf3 sends.
    pub(super) message_size: Bytes,
    /// Send and receive buffer at both ends; absent: the kernel tunes them.
    pub(super) socket_buffer: Option<Bytes>,
    /// Send buffer, instead of `socket_buffer`.
    pub(super) send_buffer: Option<Bytes>,
    /// Receive buffer, instead of `socket_buffer`.
    pub(super) receive_buffer: Option<Bytes>,
    /// Bound of the advertised window.
    pub(super) window_clamp: Option<Bytes>,
    /// Whether small segments are sent at once (`TCP_NODELAY`). Bulk transfer profits from waiting.
    pub(super) no_delay: bool,
    /// Congestion control at both ends. Never left to the host: its default differs between hosts and is a first-order
    /// effect.
    pub(super) congestion: String,
    /// Maximum segment size asked for.
    pub(super) mss: Option<Bytes>,
    /// Differentiated services code point.
    pub(super) dscp: Option<u8>,
    /// Interface to bind to; `endpoint` is each end's own.
    pub(super) device: Option<String>,
    /// Kernel pacing per connection, in bits of payload and TCP/IP headers per second.
    pub(super) pacing_rate: Option<BitRate>,
    /// How the sender hands data over.
    pub(super) send: SendMode,
    /// How the receiver takes it.
    pub(super) receive: ReceiveMode,
    /// How a worker waits.
    pub(super) wait: Waiting,
    /// Messages a call, for `send = "batch"`; absent: as many as make a mebibyte.
    pub(super) batch: Option<u32>,
}

impl Default for StreamParams {
    fn default() -> Self {
        Self {
            direction: Direction::Tx,
            duplex: Duplex::Two,
            streams: 1,
            workers: None,
            message_size: Bytes(128 << 10),
            socket_buffer: None,
            send_buffer: None,
            receive_buffer: None,
            window_clamp: None,
            no_delay: false,
            congestion: "cubic".to_owned(),
            mss: None,
            dscp: None,
            device: None,
            pacing_rate: None,
            send: SendMode::Copy,
            receive: ReceiveMode::Copy,
            wait: Waiting::Block,
            batch: None,
        }
    }
}

pub(super) const PARAMETERS: &[ParamDoc] = &[
    ParamDoc {
        name: "direction",
        takes: DIRECTION,
        default: "\"tx\"",
        meaning: "tx (active to passive end), rx, or both",
    },
    ParamDoc {
        name: "duplex",
        takes: Takes::Word(&["one", "two"]),
        default: "\"two\"",
        meaning: "for direction both: one or two connections per stream",
    },
    ParamDoc { name: "streams", takes: STREAMS, default: "1", meaning: "streams at once" },
    ParamDoc {
        name: "workers",
        takes: WORKERS,
        default: "one per connection, at most one per CPU",
        meaning: "threads at each end",
    },
    ParamDoc { name: "message_size", takes: MESSAGE, default: "\"128 KiB\"", meaning: "bytes per application message" },
    ParamDoc {
        name: "socket_buffer",
        takes: BUFFER,
        default: "tuned by the kernel",
        meaning: "send and receive buffer, both ends",
    },
    ParamDoc { name: "send_buffer", takes: BUFFER, default: "socket_buffer", meaning: "SO_SNDBUF, both ends" },
    ParamDoc { name: "receive_buffer", takes: BUFFER, default: "socket_buffer", meaning: "SO_RCVBUF, both ends" },
    ParamDoc {
        name: "window_clamp",
        takes: BUFFER,
        default: "none",
        meaning: "bound of the advertised window from the handshake on (TCP_WINDOW_CLAMP)",
    },
    ParamDoc {
        name: "no_delay",
        takes: Takes::Flag,
        default: "false",
        meaning: "send small segments at once (TCP_NODELAY)",
    },
    ParamDoc {
        name: "congestion",
        takes: CONGESTION,
        default: "\"cubic\"",
        meaning: "congestion control at both ends",
    },
    ParamDoc { name: "mss", takes: MSS, default: "of the path", meaning: "maximum segment size (TCP_MAXSEG)" },
    ParamDoc { name: "dscp", takes: DSCP, default: "0", meaning: "differentiated services code point" },
    ParamDoc {
        name: "device",
        takes: DEVICE,
        default: "none",
        meaning: "interface to bind to; \"endpoint\" is each end's own",
    },
    ParamDoc {
        name: "pacing_rate",
        takes: Takes::BitRate,
        default: "none",
        meaning: "kernel pacing per connection, payload and TCP/IP headers",
    },
    ParamDoc {
        name: "send",
        takes: Takes::Word(&["copy", "batch", "zerocopy", "sendfile", "splice"]),
        default: "\"copy\"",
        meaning: "copy, batch (many messages a call), zerocopy, sendfile, splice",
    },
    ParamDoc {
        name: "receive",
        takes: Takes::Word(&["copy", "discard", "zerocopy"]),
        default: "\"copy\"",
        meaning: "copy, discard (never copied out), zerocopy (mapped)",
    },
    ParamDoc {
        name: "wait",
        takes: WAIT,
        default: "\"block\"",
        meaning: "block (asleep in the kernel) or spin (never asleep: it needs a CPU at each end)",
    },
    ParamDoc {
        name: "batch",
        takes: BATCH,
        default: "as many as make 1 MiB",
        meaning: "messages a call for send batch, in all at most 1024 blocks of 64 KiB",
    },
];

/// Which way data goes, seen from the active end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Direction {
    /// From the active to the passive end.
    Tx,
    /// From the passive to the active end.
    Rx,
    /// Both ways at once.
    Both,
}

/// Connections a stream both ways takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Duplex {
    /// One, which carries data and acknowledgements of both ways.
    One,
    /// One for each way.
    Two,
}

/// How the sender hands data to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum SendMode {
    /// One `send` per message.
    Copy,
    /// Many messages per `sendmsg`, small ones side by side in memory.
    Batch,
    /// One `send` with `MSG_ZEROCOPY` per message.
    Zerocopy,
    /// One `sendfile` per message, from a file in memory.
    Sendfile,
    /// `tee` and `splice` from a pipe.
    Splice,
}

/// How the receiver takes data from the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ReceiveMode {
    /// `recv` into a buffer.
    Copy,
    /// `recv` with `MSG_TRUNC`: taken out of the queue, never copied.
    Discard,
    /// `TCP_ZEROCOPY_RECEIVE`: pages are mapped.
    Zerocopy,
}

/// What one connection carries, seen from one end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Role {
    pub(super) sends: bool,
    pub(super) receives: bool,
}

/// What a default batch adds up to.
const BATCH_BYTES: u64 = 1 << 20;
/// The smallest message; a smaller one would measure calls and nothing else.
const LEAST_MESSAGE: Bytes = Bytes(4);
/// A message.
const MESSAGE: Takes = Takes::Size { least: LEAST_MESSAGE, most: Bytes(16 << 20) };
/// Messages a call; how many exactly depends on their size.
const BATCH: Takes = Takes::Count { least: 1, most: MessageBatch::most(LEAST_MESSAGE.0 as usize) as u64 };
/// What Linux accepts for TCP_MAXSEG: TCP_MIN_MSS to MAX_TCP_WINDOW.
const MSS: Takes = Takes::Size { least: Bytes(88), most: Bytes(32_767) };

impl StreamParams {
    /// Reads and checks `params`.
    pub(super) fn read(params: &Params) -> Result<Self, Vec<ParamError>> {
        parameter::read(params, PARAMETERS, Self::agree)
    }

    /// Whether they go together.
    fn agree(&self) -> Result<(), ParamError> {
        if self.workers.is_some_and(|workers| workers > self.connections()) {
            let cause = format!("more than the {} connections: some would have nothing to do", self.connections());
            return Err(wrong("workers", cause));
        }
        let most = MessageBatch::most(self.message_size.0 as usize);
        if self.batch.is_some_and(|batch| batch as usize > most) {
            return Err(wrong("batch", format!("a call holds at most {most} messages of {}", self.message_size)));
        }
        if self.batch.is_some() && self.send != SendMode::Batch {
            return Err(wrong("batch", "counts messages a call of send = \"batch\" only"));
        }
        if self.pacing_rate.is_some_and(|rate| rate.0 < f64::from(u8::BITS)) {
            return Err(wrong("pacing_rate", "less than a byte per second never sends"));
        }
        Ok(())
    }

    /// Connections between the two ends.
    pub(super) fn connections(&self) -> u32 {
        match (self.direction, self.duplex) {
            (Direction::Both, Duplex::Two) => self.streams.saturating_mul(2),
            _ => self.streams,
        }
    }

    /// What connection `flow` carries at the active end; with two connections per stream the first half sends.
    pub(super) fn role(&self, flow: u32, active: bool) -> Role {
        let (sends, receives) = match (self.direction, self.duplex) {
            (Direction::Tx, _) => (true, false),
            (Direction::Rx, _) => (false, true),
            (Direction::Both, Duplex::One) => (true, true),
            (Direction::Both, Duplex::Two) => (flow < self.streams, flow >= self.streams),
        };
        if active { Role { sends, receives } } else { Role { sends: receives, receives: sends } }
    }

    /// Messages a call.
    pub(super) fn batch(&self) -> usize {
        self.batch.map_or((BATCH_BYTES / self.message_size.0).max(1) as usize, |batch| batch as usize)
    }

    /// The sending mode as reports name it.
    pub(super) fn send_name(&self) -> String {
        match self.send {
            SendMode::Copy => "copy".into(),
            SendMode::Batch => format!("batch: {} messages a call, small ones side by side", self.batch()),
            SendMode::Zerocopy => "zerocopy".into(),
            SendMode::Sendfile => "sendfile".into(),
            SendMode::Splice => "splice".into(),
        }
    }

    /// The receiving mode as reports name it.
    pub(super) fn receive_name(&self) -> &'static str {
        match self.receive {
            ReceiveMode::Copy => "copy",
            ReceiveMode::Discard => "discard",
            ReceiveMode::Zerocopy => "zerocopy",
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(text: serde_json::Value) -> Result<StreamParams, Vec<ParamError>> {
        StreamParams::read(&serde_json::from_value(text).expect("a table"))
    }

    #[test]
    fn wrong_values_are_refused_by_name() {
        for (key, value) in [
            ("streams", json!(0)),
            ("workers", json!(2)),
            ("message_size", json!("3 B")),
            ("message_size", json!("17 MiB")),
            ("message_size", json!(64)),
            ("send", json!("teleport")),
            ("mss", json!("40 B")),
            ("dscp", json!(64)),
            ("batch", json!(8)),
            ("pacing_rate", json!("1 bit/s")),
            ("congestion", json!("")),
            ("receive_buffer", json!("4 GiB")),
        ] {
            let mut params = Params::default();
            params.set(key, value.clone());
            let errors = StreamParams::read(&params).expect_err(key);
            assert_eq!(errors[0].key, key, "{value}");
        }
    }

    #[test]
    fn two_connections_each_way_and_one_both_ways() {
        let two = read(json!({"direction": "both", "streams": 2})).expect("legal");
        assert_eq!(two.connections(), 4);
        let active: Vec<bool> = (0..4).map(|flow| two.role(flow, true).sends).collect();
        let passive: Vec<bool> = (0..4).map(|flow| two.role(flow, false).receives).collect();
        assert_eq!(active, [true, true, false, false]);
        assert_eq!(passive, active);
        let one = read(json!({"direction": "both", "duplex": "one"})).expect("legal");
        assert_eq!((one.connections(), one.role(0, true)), (1, Role { sends: true, receives: true }));
    }

    #[test]
    fn a_batch_fills_a_mebibyte() {
        let batch = |size: &str| read(json!({"send": "batch", "message_size": size})).expect("legal").batch();
        assert_eq!((batch("64 B"), batch("1460 B"), batch("128 KiB"), batch("2 MiB")), (16_384, 718, 8, 1));
        assert_eq!(
            read(json!({"send": "batch", "batch": 1025, "message_size": "64 KiB"})).expect_err("too many")[0].key,
            "batch"
        );
    }

    #[test]
    fn every_parameter_is_documented() {
        // serde names every field of the struct in its own complaint.
        let error = serde_json::from_value::<StreamParams>(json!({"no_such": 1})).expect_err("unknown").to_string();
        for parameter in PARAMETERS {
            assert!(error.contains(&format!("`{}`", parameter.name)), "{}: {error}", parameter.name);
        }
        assert_eq!(error.matches('`').count() / 2, PARAMETERS.len() + 1, "{error}");
    }
}
