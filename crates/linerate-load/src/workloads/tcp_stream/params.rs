//! Parameters of `tcp_stream`. Every default is written here, once.

use linerate_model::{BitRate, Bytes, ParamError};
use linerate_sys::tcp::MessageBatch;
use serde::Deserialize;

use crate::parameter::{ParamDoc, Takes};
use crate::workloads::parameters::{DIRECTION, Parameters, documented, wrong};
use crate::workloads::placement::{Placement, WORKERS};
use crate::workloads::ports::PlannedPorts;
use crate::workloads::socket_options::{BUFFER, SocketOptions};
use crate::workloads::tcp_options::TcpOptions;

/// Parameters of `tcp_stream`. Both ends are given the same.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub(crate) struct StreamParams {
    /// Which way data goes, seen from the active end.
    pub(super) direction: Direction,
    /// For `both`: two connections each way of a stream, or one.
    pub(super) duplex: Duplex,
    /// Application message: what one call (or one vector of a call) sends. 128 KiB is what iperf3
    /// sends.
    pub(super) message_size: Bytes,
    /// Bound of the advertised window.
    pub(super) window_clamp: Option<Bytes>,
    /// Kernel pacing per connection, in bits of payload and TCP/IP headers per second.
    pub(super) pacing_rate: Option<BitRate>,
    /// How the sender hands data over.
    pub(super) send: SendMode,
    /// How the receiver takes it.
    pub(super) receive: ReceiveMode,
    /// What the application behind the sender produces at the most, payload of one thread.
    pub(super) source_rate: Option<BitRate>,
    /// What the application behind the receiver takes at the most, payload of one thread: a disk, a
    /// slow consumer.
    pub(super) sink_rate: Option<BitRate>,
    /// Messages a call, for `send = "batch"`; absent: as many as make a mebibyte.
    pub(super) batch: Option<u32>,
    /// Streams: with `both` on two connections there are twice as many connections. Threads, if
    /// absent: one per connection, but no more than there are CPUs.
    #[serde(flatten)]
    pub(super) placement: Placement,
    /// One port per connection at the active end, one for all at the passive one.
    #[serde(flatten)]
    pub(super) planned: PlannedPorts,
    /// Options of each connection. Bulk transfer profits from Nagle's waiting: `no_delay` stays
    /// off.
    #[serde(flatten)]
    pub(super) options: TcpOptions,
}

impl Default for StreamParams {
    fn default() -> Self {
        Self {
            direction: Direction::Tx,
            duplex: Duplex::Two,
            message_size: Bytes(128 << 10),
            window_clamp: None,
            pacing_rate: None,
            send: SendMode::Copy,
            receive: ReceiveMode::Copy,
            source_rate: None,
            sink_rate: None,
            batch: None,
            placement: Placement::default(),
            planned: PlannedPorts::NONE,
            options: TcpOptions::default(),
        }
    }
}

const OWN: &[ParamDoc] = &[
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
    ParamDoc {
        name: "workers",
        takes: WORKERS,
        default: "one per connection, at most one per CPU",
        meaning: "threads at each end; connection c is carried by worker c mod workers",
    },
    ParamDoc {
        name: "message_size",
        takes: MESSAGE,
        default: "\"128 KiB\"",
        meaning: "bytes per application message",
    },
    ParamDoc {
        name: "window_clamp",
        takes: BUFFER,
        default: "none",
        meaning: "bound of the advertised window from the handshake on (TCP_WINDOW_CLAMP)",
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
        name: "source_rate",
        takes: Takes::BitRate,
        default: "none",
        meaning: "what the sending application produces at the most, payload of one thread",
    },
    ParamDoc {
        name: "sink_rate",
        takes: Takes::BitRate,
        default: "none",
        meaning: "what the receiving application takes at the most, payload of one thread",
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
const BATCH: Takes =
    Takes::Count { least: 1, most: MessageBatch::most(LEAST_MESSAGE.0 as usize) as u64 };

impl Parameters for StreamParams {
    fn docs() -> Vec<ParamDoc> {
        documented(
            OWN,
            &[Placement::DOCS, PlannedPorts::DOCS, TcpOptions::DOCS, SocketOptions::DOCS],
        )
    }

    fn settle(&mut self) -> Result<(), ParamError> {
        self.placement.check(self.connections())?;
        self.planned.check(self.connections())?;
        // A receive buffer the kernel tunes takes the clamp with it; only one that was asked for
        // stays as it is. The kernel doubles it, and reckons with half of it for the window.
        self.options.socket.preset_receive_buffer(self.window_clamp);
        let most = MessageBatch::most(self.message_size.0 as usize);
        if self.batch.is_some_and(|batch| batch as usize > most) {
            return Err(wrong(
                "batch",
                format!("a call holds at most {most} messages of {}", self.message_size),
            ));
        }
        if self.batch.is_some() && self.send != SendMode::Batch {
            return Err(wrong("batch", "counts messages a call of send = \"batch\" only"));
        }
        if self.pacing_rate.is_some_and(|rate| rate.0 < f64::from(u8::BITS)) {
            return Err(wrong("pacing_rate", "less than a byte per second never sends"));
        }
        for (name, rate) in [("source_rate", self.source_rate), ("sink_rate", self.sink_rate)] {
            if rate.is_some_and(|rate| rate.0 < 8.0) {
                return Err(wrong(name, "less than a byte per second never moves anything"));
            }
        }
        Ok(())
    }
}

impl StreamParams {
    /// Connections between the two ends.
    pub(super) fn connections(&self) -> u32 {
        match (self.direction, self.duplex) {
            (Direction::Both, Duplex::Two) => self.placement.streams().saturating_mul(2),
            _ => self.placement.streams(),
        }
    }

    /// What connection `flow` carries at the active end; with two connections per stream the first
    /// half sends.
    pub(super) fn role(&self, flow: u32, active: bool) -> Role {
        let (sends, receives) = match (self.direction, self.duplex) {
            (Direction::Tx, _) => (true, false),
            (Direction::Rx, _) => (false, true),
            (Direction::Both, Duplex::One) => (true, true),
            (Direction::Both, Duplex::Two) => {
                (flow < self.placement.streams(), flow >= self.placement.streams())
            }
        };
        if active { Role { sends, receives } } else { Role { sends: receives, receives: sends } }
    }

    /// Messages a call.
    pub(super) fn batch(&self) -> usize {
        self.batch
            .map_or((BATCH_BYTES / self.message_size.0).max(1) as usize, |batch| batch as usize)
    }

    /// The sending mode as reports name it.
    pub(super) fn send_name(&self) -> String {
        match self.send {
            SendMode::Copy => "copy".into(),
            SendMode::Batch => {
                format!("batch: {} messages a call, small ones side by side", self.batch())
            }
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
    use crate::workloads::parameters;

    fn read(text: serde_json::Value) -> Result<StreamParams, Vec<ParamError>> {
        parameters::read(&serde_json::from_value(text).expect("a table"))
    }

    #[test]
    fn every_parameter_is_documented_and_every_mistake_is_named() {
        parameters::assert_sound::<StreamParams>(&[
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
            ("source_rate", json!("1 bit/s")),
            ("sink_rate", json!("1 bit/s")),
            ("congestion", json!("")),
            ("receive_buffer", json!("4 GiB")),
            ("window_clamp", json!("4 GiB")),
            ("source_ports", json!("80,eighty")),
            ("destination_port", json!(9)),
        ]);
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
        assert_eq!(
            (one.connections(), one.role(0, true)),
            (1, Role { sends: true, receives: true })
        );
    }

    #[test]
    fn every_connection_needs_a_port_of_its_own() {
        let planned = |ports: &str| {
            read(
                json!({"direction": "both", "streams": 2, "source_ports": ports, "destination_port": 7}),
            )
        };
        assert_eq!(planned("1,2,3").expect_err("four connections")[0].key, "source_ports");
        assert!(planned("1,2,3,4").is_ok());
    }

    #[test]
    fn a_batch_fills_a_mebibyte() {
        let batch = |size: &str| {
            read(json!({"send": "batch", "message_size": size})).expect("legal").batch()
        };
        assert_eq!(
            (batch("64 B"), batch("1460 B"), batch("128 KiB"), batch("2 MiB")),
            (16_384, 718, 8, 1)
        );
        assert_eq!(
            read(json!({"send": "batch", "batch": 1025, "message_size": "64 KiB"})).expect_err("")
                [0]
            .key,
            "batch"
        );
    }
}
