//! Parameters of `tcp_stream`.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use linerate_model::{BitRate, Bytes, ParamError};
use linerate_sys::tcp::MessageBatch;

use crate::parameter::{Reader, Words, word, wrong};
use crate::workloads::amount::Amount;
use crate::workloads::kernel_pacing;
use crate::workloads::parameters::{Direction, Parameters};
use crate::workloads::placement::{Placement, WORKERS};
use crate::workloads::ports::PlannedPorts;
use crate::workloads::socket_options::BUFFER;
use crate::workloads::tcp_options::TcpOptions;

/// Parameters of `tcp_stream`, the same at both ends.
#[derive(Clone, Debug)]
pub(crate) struct StreamParams {
    pub(super) direction: Direction,
    pub(super) duplex: Duplex,
    /// Payload of one call, or of one vector of a call.
    pub(super) message_size: Bytes,
    pub(super) window_clamp: Option<Bytes>,
    /// Kernel pacing per connection: payload and TCP/IP headers.
    pub(super) pacing_rate: Option<BitRate>,
    pub(super) send: SendMode,
    pub(super) receive: ReceiveMode,
    /// Payload of one receiving call at most.
    receive_size: Option<Bytes>,
    /// Payload that must have arrived before the receiver is woken.
    pub(super) receive_low_water: Option<Bytes>,
    /// Payload per thread that the application behind the sender produces at most.
    pub(super) source_rate: Option<BitRate>,
    /// Payload per thread that the application behind the receiver takes at most.
    pub(super) sink_rate: Option<BitRate>,
    batch: Option<u32>,
    pub(super) amount: Amount,
    /// File of the active end that each connection sends once.
    pub(super) file: Option<PathBuf>,
    /// With `both` on two connections there are twice as many connections as streams.
    pub(super) placement: Placement,
    /// One port per connection at the active end, one for all at the passive end.
    pub(super) planned: PlannedPorts,
    pub(super) options: TcpOptions,
}

/// Connections of a stream both ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Duplex {
    /// One, which carries data and acknowledgements of both ways.
    One,
    /// One for each way.
    Two,
}

impl Duplex {
    const WORDS: Words<Self> = &[("one", Self::One), ("two", Self::Two)];
}

/// How the sender hands data to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

impl SendMode {
    const WORDS: Words<Self> = &[
        ("copy", Self::Copy),
        ("batch", Self::Batch),
        ("zerocopy", Self::Zerocopy),
        ("sendfile", Self::Sendfile),
        ("splice", Self::Splice),
    ];
}

/// How the receiver takes data from the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReceiveMode {
    /// `recv` into a buffer.
    Copy,
    /// `recv` with `MSG_TRUNC`: taken out of the queue, never copied.
    Discard,
    /// `TCP_ZEROCOPY_RECEIVE`: pages are mapped.
    Zerocopy,
}

impl ReceiveMode {
    const WORDS: Words<Self> =
        &[("copy", Self::Copy), ("discard", Self::Discard), ("zerocopy", Self::Zerocopy)];
}

/// Roles of one end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Role {
    pub(super) sends: bool,
    pub(super) receives: bool,
}

/// Bytes requested by one copying receive. Larger reads make fewer calls, but evict the data in
/// flight from the second-level cache. With both ends on one core with 1 MiB: 50.4 Gbit/s with
/// 128 KiB, 47.2 with twice that and 44.3 with half of it.
const COPY_BYTES: usize = 128 << 10;
/// Bytes taken by one discarding receive, and the size of a mapped window.
const TAKE_BYTES: usize = 1 << 20;
/// Payload of a default batch.
const BATCH_BYTES: u64 = 1 << 20;
/// Smallest message: a smaller one would measure calls and nothing else.
const LEAST_MESSAGE: Bytes = Bytes(4);
const MESSAGE: RangeInclusive<Bytes> = LEAST_MESSAGE..=Bytes(16 << 20);
/// Payload of one receiving call.
const RECEIVE: RangeInclusive<Bytes> = Bytes(1)..=Bytes(16 << 20);
/// Messages per call. The exact limit depends on their size.
const BATCH: RangeInclusive<u64> = 1..=MessageBatch::most(LEAST_MESSAGE.0 as usize) as u64;

impl Parameters for StreamParams {
    fn declare(reader: &mut Reader<'_>) -> Self {
        Self {
            direction: reader.choice(
                "direction",
                Direction::WORDS,
                Direction::Tx,
                "tx (active to passive end), rx, or both",
            ),
            duplex: reader.choice(
                "duplex",
                Duplex::WORDS,
                Duplex::Two,
                "for direction both: one or two connections per stream",
            ),
            placement: Placement {
                workers: reader.optional_count(
                    "workers",
                    WORKERS,
                    "one per connection, at most one per CPU",
                    "threads at each end; connection c is carried by worker c mod workers",
                ),
                ..Placement::declare(reader)
            },
            // The size that iperf3 sends.
            message_size: reader.size(
                "message_size",
                MESSAGE,
                Bytes(128 << 10),
                "bytes per application message",
            ),
            window_clamp: reader.optional_size(
                "window_clamp",
                BUFFER,
                "none",
                "bound of the advertised window from the handshake on (TCP_WINDOW_CLAMP)",
            ),
            pacing_rate: kernel_pacing::declare(reader),
            send: reader.choice(
                "send",
                SendMode::WORDS,
                SendMode::Copy,
                "how the kernel gets the data: copy, batch (many messages per call), zerocopy, \
                    sendfile, splice",
            ),
            receive: reader.choice(
                "receive",
                ReceiveMode::WORDS,
                ReceiveMode::Copy,
                "copy, discard (never copied out), zerocopy (mapped)",
            ),
            receive_size: reader.optional_size(
                "receive_size",
                RECEIVE,
                "128 KiB, to discard 1 MiB",
                "bytes taken by one receiving call at most; netperf's receive size",
            ),
            receive_low_water: reader.optional_size(
                "receive_low_water",
                RECEIVE,
                "none: with the first byte",
                "bytes that must have arrived before the receiver is woken (SO_RCVLOWAT)",
            ),
            source_rate: reader
                .bit_rate("source_rate", "limit of the sending application, payload per thread"),
            sink_rate: reader.bit_rate(
                "sink_rate",
                "limit of the receiving application, payload per thread: a disk, a slow consumer",
            ),
            batch: reader.optional_count(
                "batch",
                BATCH,
                "as many as make 1 MiB",
                "messages per call for send batch, in all at most 1024 blocks of 64 KiB",
            ),
            amount: Amount::declare(reader),
            file: reader
                .optional_path(
                    "file",
                    "/srv/image",
                    "none: random bytes",
                    "file that each connection sends once (sendfile), which ends the load; the \
                        active end's host must allow it (linerate agent --allow-serve)",
                )
                .map(PathBuf::from),
            planned: PlannedPorts::declare(reader),
            options: TcpOptions::declare(reader),
        }
    }

    fn settle(&mut self) -> Result<(), ParamError> {
        self.placement.check(self.connections())?;
        self.planned.check(self.connections())?;
        // When the kernel tunes a receive buffer it moves the clamp as well; a requested buffer
        // keeps its size. The kernel doubles it, and uses half of it for the window.
        self.options.socket.preset_receive_buffer(self.window_clamp);
        self.amount.check()?;
        if self.amount.is_given() && [SendMode::Batch, SendMode::Splice].contains(&self.send) {
            return Err(wrong("amount", "does not apply to send = \"batch\" and \"splice\""));
        }
        if self.file.is_some() {
            // A conductor may not make another host send its files to it.
            if self.direction != Direction::Tx {
                return Err(wrong("file", "applies to direction = \"tx\" only"));
            }
            if self.amount.is_given() || ![SendMode::Copy, SendMode::Sendfile].contains(&self.send)
            {
                return Err(wrong("file", "is sent whole and by sendfile: leave out the others"));
            }
        }
        let most = MessageBatch::most(self.message_size.0 as usize);
        if self.batch.is_some_and(|batch| batch as usize > most) {
            return Err(wrong(
                "batch",
                format!("a call takes at most {most} messages of {}", self.message_size),
            ));
        }
        if self.batch.is_some() && self.send != SendMode::Batch {
            return Err(wrong("batch", "applies to send = \"batch\" only"));
        }
        if self.receive == ReceiveMode::Zerocopy {
            let given = [
                ("receive_size", self.receive_size),
                ("receive_low_water", self.receive_low_water),
            ];
            if let Some((name, _)) = given.iter().find(|(_, size)| size.is_some()) {
                return Err(wrong(name, "does not apply to receive = \"zerocopy\""));
            }
        }
        kernel_pacing::check(self.pacing_rate)?;
        for (name, rate) in [("source_rate", self.source_rate), ("sink_rate", self.sink_rate)] {
            if rate.is_some_and(|rate| rate.0 < 8.0) {
                return Err(wrong(name, "less than a byte per second moves nothing"));
            }
        }
        Ok(())
    }
}

impl StreamParams {
    /// Returns the number of connections between the two ends.
    pub(super) fn connections(&self) -> u32 {
        match (self.direction, self.duplex) {
            (Direction::Both, Duplex::Two) => self.placement.streams().saturating_mul(2),
            _ => self.placement.streams(),
        }
    }

    /// Returns the roles of connection `flow` at one end. With two connections per stream the
    /// active end sends on the first half.
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

    /// Returns true if its load ends by itself.
    pub(super) fn ends_early(&self) -> bool {
        self.amount.is_given() || self.file.is_some()
    }

    /// Returns the messages per call.
    pub(super) fn batch(&self) -> usize {
        self.batch
            .map_or((BATCH_BYTES / self.message_size.0).max(1) as usize, |batch| batch as usize)
    }

    /// Returns the sending mode as reports name it.
    pub(super) fn send_name(&self) -> String {
        if let Some(file) = &self.file {
            return format!("sendfile of {}", file.display());
        }
        let name = word(SendMode::WORDS, &self.send);
        if self.send != SendMode::Batch {
            return name.to_owned();
        }
        format!("{name}: {} messages a call, small ones side by side", self.batch())
    }

    /// Returns the bytes that one receiving call takes at most.
    pub(super) fn receive_bytes(&self) -> usize {
        let usual = match self.receive {
            ReceiveMode::Copy => COPY_BYTES,
            ReceiveMode::Discard | ReceiveMode::Zerocopy => TAKE_BYTES,
        };
        self.receive_size.map_or(usual, |size| size.0 as usize)
    }

    /// Returns the receiving mode as reports name it.
    pub(super) fn receive_name(&self) -> String {
        let name = word(ReceiveMode::WORDS, &self.receive);
        let size = self.receive_size.map(|size| format!(": {size} a call"));
        format!("{name}{}", size.unwrap_or_default())
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
    fn every_default_is_used_and_every_mistake_is_named() {
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
            ("amount", json!("0 B")),
            ("messages", json!(0)),
            ("pacing_rate", json!("1 bit/s")),
            ("source_rate", json!("1 bit/s")),
            ("sink_rate", json!("1 bit/s")),
            ("congestion", json!("")),
            ("receive_buffer", json!("4 GiB")),
            ("window_clamp", json!("4 GiB")),
            ("receive_size", json!("0 B")),
            ("receive_low_water", json!("17 MiB")),
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
            read(json!({"direction": "both", "streams": 2, "source_ports": ports,
                    "destination_port": 7}))
        };
        assert_eq!(planned("1,2,3").expect_err("four connections")[0].key, "source_ports");
        assert!(planned("1,2,3,4").is_ok());
    }

    #[test]
    fn a_receiving_call_takes_what_the_plan_says() {
        let takes = |params| read(params).map(|read| (read.receive_bytes(), read.receive_name()));
        let copy = (128 << 10, "copy".to_owned());
        assert_eq!(takes(json!({})).expect("legal"), copy);
        assert_eq!(takes(json!({"receive": "discard"})).expect("legal").0, 1 << 20);
        let small = takes(json!({"receive": "discard", "receive_size": "8 KiB"})).expect("legal");
        assert_eq!(small, (8 << 10, "discard: 8 KiB a call".to_owned()));
        for name in ["receive_size", "receive_low_water"] {
            let mapped = read(json!({"receive": "zerocopy", name: "8 KiB"}));
            assert_eq!(mapped.expect_err("pages are mapped")[0].key, name);
        }
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
