//! `iperf3`: data to and from an unmodified iperf3 server (`iperf3 -s`), by TCP or UDP. The active
//! end is an iperf3 client, and the passive end does nothing. Units: L4 payload bits per second and
//! datagrams.
//!
//! This end counts per interval: payload that the server's TCP acknowledged, datagrams sent, and
//! all that arrives here with its losses by number. A server reports its own counts once, after the
//! load and over all of it, warm-up included: payload and datagrams that arrived there, its
//! retransmissions and its CPU time ([`linerate_model::ForeignEnd`]). Losses of datagrams to the
//! server are therefore known for the whole trial and not per interval. Not seen: the server's
//! socket options, its queues and the CPU that each of its threads used.
//!
//! The test is reserved while the trial connects: all data streams but the last are open then. The
//! last one opens at the start barrier, because a server starts the load as soon as it has all of
//! them. The load therefore begins about two round-trip times after the barrier, in the warm-up.
//! One thread moves the data of all streams.

use linerate_iperf3::drive::{Asked, Session};
use linerate_iperf3::wire::{MAX_BLOCK, MAX_STREAMS, PORT, Parameters as Wire, Protocol};
use linerate_model::{BitRate, Bytes, ParamError};

use super::null::NullListener;
use super::parameters::{Direction, Parameters, Typed};
use super::socket_options::{BUFFER, DSCP, SocketOptions};
use super::tcp_options::{HOST_DEFAULT, MSS, TcpOptions};
use super::transfer::Url;
use crate::parameter::{Reader, Words, wrong};
use crate::workloads::{Rate, footprint, kernel_pacing};
use crate::{Listener, LoadError, Offer, Result, Setup, Times, Workers};

mod account;
mod worker;

use worker::ServerWorker;

/// Scheme of a server's address.
const SCHEME: &str = "iperf3";
/// Payload of one datagram: at least its header, at most what UDP over IPv4 carries.
const DATAGRAM: std::ops::RangeInclusive<Bytes> = Bytes(16)..=Bytes(65_507);
/// Block of a TCP stream without a chosen size, as iperf3's.
const BLOCK: Bytes = Bytes(128 << 10);

/// How the sending end hands data to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SendMode {
    Copy,
    Sendfile,
}

/// Parameters of `iperf3`.
#[derive(Clone, Debug)]
pub(super) struct Iperf3Params {
    server: Option<String>,
    url: Option<Url>,
    protocol: Protocol,
    direction: Direction,
    streams: u32,
    message_size: Option<Bytes>,
    datagram_size: Option<Bytes>,
    rate: Option<Rate>,
    pacing_rate: Option<BitRate>,
    send: SendMode,
    options: TcpOptions,
}

impl Parameters for Iperf3Params {
    fn declare(reader: &mut Reader<'_>) -> Self {
        const PROTOCOLS: Words<Protocol> = &[("tcp", Protocol::Tcp), ("udp", Protocol::Udp)];
        const SENDS: Words<SendMode> =
            &[("copy", SendMode::Copy), ("sendfile", SendMode::Sendfile)];
        Self {
            url: None,
            server: reader.optional_text(
                "server",
                "iperf3://192.0.2.7:5201",
                "the job's `to`",
                "the iperf3 server, with its port unless that is 5201",
            ),
            protocol: reader.choice(
                "protocol",
                PROTOCOLS,
                Protocol::Tcp,
                "transport of the data: tcp or udp",
            ),
            direction: reader.choice(
                "direction",
                Direction::WORDS,
                Direction::Tx,
                "tx (to the server), rx (from it), or both (iperf3 3.7 or later)",
            ),
            streams: reader.count(
                "streams",
                1..=u64::from(MAX_STREAMS),
                1,
                "data streams of each direction; one thread moves all of them",
            ),
            message_size: reader.optional_size(
                "message_size",
                Bytes(1)..=Bytes(MAX_BLOCK.into()),
                "128 KiB",
                "bytes per call that sends by TCP, at both ends",
            ),
            datagram_size: reader.optional_size(
                "datagram_size",
                DATAGRAM,
                "what fits the path's MTU, as TCP finds it",
                "UDP payload of a datagram, header of 16 B included",
            ),
            rate: reader.rate(
                "rate",
                "as fast as possible",
                "offered load of each direction, all streams together: L4 payload bits per second, \
                    or messages or datagrams of a given size per second",
            ),
            pacing_rate: kernel_pacing::declare(reader),
            send: reader.choice(
                "send",
                SENDS,
                SendMode::Copy,
                "how the kernel gets the data of TCP: copy, or sendfile (iperf3 -Z)",
            ),
            options: TcpOptions {
                no_delay: reader.flag(
                    "no_delay",
                    false,
                    "send small segments at once (TCP_NODELAY)",
                ),
                // A foreign server may lack any other.
                congestion: reader.text(
                    "congestion",
                    "cubic",
                    HOST_DEFAULT,
                    "congestion control at both ends; host: the default of each host",
                ),
                mss: reader.optional_size("mss", MSS, "of the path", "maximum segment size"),
                socket: SocketOptions {
                    socket_buffer: reader.optional_size(
                        "socket_buffer",
                        BUFFER,
                        "the kernel's",
                        "SO_SNDBUF and SO_RCVBUF requested, both ends",
                    ),
                    dscp: reader.optional_count(
                        "dscp",
                        DSCP,
                        "the kernel's",
                        "differentiated services code point",
                    ),
                    send_buffer: None,
                    receive_buffer: None,
                    device: None,
                },
            },
        }
    }

    fn settle(&mut self) -> Result<(), ParamError> {
        if let Some(server) = &self.server {
            let url = Url::parse(server, SCHEME, PORT).map_err(|why| wrong("server", why))?;
            if url.user.is_some() || url.path != "/" {
                return Err(wrong("server", "has a host and a port: iperf3://HOST[:PORT]"));
            }
            self.url = Some(url);
        }
        let is_udp = self.protocol == Protocol::Udp;
        let of_tcp = [
            ("message_size", self.message_size.is_some()),
            ("send", self.send != SendMode::Copy),
            ("mss", self.options.mss.is_some()),
            ("no_delay", self.options.no_delay),
            ("congestion", self.options.congestion != HOST_DEFAULT),
        ];
        if let Some((name, _)) = of_tcp.iter().find(|(_, is_given)| *is_given && is_udp) {
            return Err(wrong(name, "applies to protocol = \"tcp\" only"));
        }
        if self.datagram_size.is_some() && !is_udp {
            return Err(wrong("datagram_size", "applies to protocol = \"udp\" only"));
        }
        kernel_pacing::check(self.pacing_rate)?;
        if matches!(self.rate, Some(Rate::Packets(_))) && is_udp && self.datagram_size.is_none() {
            return Err(wrong("rate", "datagrams per second need a datagram_size"));
        }
        if self.rate.is_some() && self.stream_rate() == 0 {
            return Err(wrong("rate", "less than a bit per second and stream sends nothing"));
        }
        Ok(())
    }
}

impl Iperf3Params {
    /// Returns the payload of a message or datagram, if the plan gives it.
    fn length(&self) -> Option<Bytes> {
        self.message_size.or(self.datagram_size)
    }

    /// Returns the offered load of each stream, bit/s; 0 for as fast as possible.
    fn stream_rate(&self) -> u64 {
        let all = match self.rate {
            None => 0.0,
            Some(Rate::Bits(BitRate(bits))) => bits,
            Some(Rate::Packets(rate)) => rate.0 * self.length().unwrap_or(BLOCK).bits(),
        };
        (all / f64::from(self.streams)) as u64
    }

    /// Returns the parameters in the words of iperf3.
    fn wire(&self) -> Wire {
        let small = |bytes: Bytes| u32::try_from(bytes.0).unwrap_or(u32::MAX);
        let TcpOptions { socket, no_delay, congestion, mss } = &self.options;
        let is_udp = self.protocol == Protocol::Udp;
        let rate = self.stream_rate();
        Wire {
            protocol: self.protocol,
            parallel: self.streams,
            reverse: self.direction == Direction::Rx,
            bidirectional: self.direction == Direction::Both,
            mss: mss.map(small),
            no_delay: *no_delay,
            window: socket.socket_buffer.map(small),
            length: self.length().map(small),
            // Without a rate a UDP client of iperf3 sends at 1 Mbit/s; 0 is no limit.
            bandwidth: (is_udp || rate > 0).then_some(rate),
            fq_rate: self.pacing_rate.map(|rate| rate.0 as u64),
            // The code point is the upper six bits.
            tos: socket.dscp.map(|dscp| dscp << 2),
            congestion: (congestion != HOST_DEFAULT).then(|| congestion.clone()),
            zerocopy: self.send == SendMode::Sendfile,
            version: format!("linerate {}", env!("CARGO_PKG_VERSION")),
            ..Wire::default()
        }
    }

    /// Returns the mistake that no server is named.
    fn serverless() -> ParamError {
        wrong("server", "is missing: write to = \"iperf3://HOST[:PORT]\" in the job")
    }
}

/// The `iperf3` workload.
#[derive(Debug)]
pub(super) struct Iperf3;

impl Typed for Iperf3 {
    type Params = Iperf3Params;
    const NAME: &'static str = "iperf3";
    const SUMMARY: &'static str = "data to and from an unmodified iperf3 server by TCP or UDP: \
        goodput, and losses as the receiving end counts them";

    const HAS_TWO_ENDS: bool = false;

    fn fits(params: &Iperf3Params, _address: std::net::IpAddr) -> Result<(), ParamError> {
        params.url.as_ref().map(drop).ok_or_else(Iperf3Params::serverless)
    }

    fn memory_of(params: &Iperf3Params) -> u64 {
        /// Datagrams of one call.
        const BATCH: u64 = 64;
        /// Reading and control of a session.
        const SESSION: u64 = 1 << 20;
        let n_ways = if params.direction == Direction::Both { 2 } else { 1 };
        let flow = match params.protocol {
            Protocol::Tcp => params.message_size.unwrap_or(BLOCK).0,
            // A default size is that of the path, far below the largest.
            Protocol::Udp => params.datagram_size.unwrap_or(Bytes(9 << 10)).0 * BATCH,
        };
        footprint::of_counts((1, Times::NONE, SESSION), (params.streams * n_ways, flow))
    }

    fn start_passive(_params: Iperf3Params, _setup: &Setup<'_>) -> Result<Box<dyn Listener>> {
        Ok(Box::new(NullListener))
    }

    fn start_active(params: Iperf3Params, setup: &Setup<'_>, _offer: &Offer) -> Result<Workers> {
        let url = params.url.as_ref().ok_or_else(|| vec![Iperf3Params::serverless()])?;
        let server = url.resolve()?;
        setup.permits.foreign_server(server)?;
        // An endpoint on the loopback interface reaches other hosts from another address.
        let local = setup.local.address.filter(|ip| {
            ip.is_ipv4() == server.is_ipv4() && (!ip.is_loopback() || server.ip().is_loopback())
        });
        let asked = Asked {
            server,
            local,
            first_port: None,
            parameters: params.wire(),
            credentials: None,
            duration: Some(setup.loaded),
            omit: std::time::Duration::ZERO,
            interval: std::time::Duration::ZERO,
            patience: setup.patience,
        };
        let session = Session::hold(&asked).map_err(|error| LoadError::Iperf3(Box::new(error)))?;
        Ok(vec![Box::new(ServerWorker::new(session, params, server))])
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::workloads::parameters::{assert_sound, from_table, read};

    #[test]
    fn every_default_is_used_and_every_mistake_is_named() {
        assert_sound::<Iperf3Params>(&[
            ("server", json!("http://192.0.2.7")),
            ("server", json!("iperf3://me:mine@192.0.2.7")),
            ("server", json!("iperf3://192.0.2.7/file")),
            ("server", json!("iperf3://192.0.2.7:port")),
            ("protocol", json!("sctp")),
            ("streams", json!(129)),
            ("message_size", json!("2 MiB")),
            ("datagram_size", json!("1472 B")),
            ("rate", json!("0.1 bit/s")),
            ("pacing_rate", json!("1 bit/s")),
            ("dscp", json!(64)),
        ]);
        for (name, value) in [
            ("message_size", json!("64 KiB")),
            ("send", json!("sendfile")),
            ("mss", json!("1200 B")),
            ("no_delay", json!(true)),
            ("congestion", json!("reno")),
            ("rate", json!("1 kpps")),
            ("datagram_size", json!("15 B")),
        ] {
            let table = json!({ "protocol": "udp", name: value });
            let table = serde_json::from_value(table).expect("a table");
            let errors = read::<Iperf3Params>(&table).expect_err(name);
            assert_eq!(errors[0].key, name);
        }
    }

    #[test]
    fn parameters_become_those_of_iperf3() {
        let wire = |table| from_table::<Iperf3Params>(table).wire();
        let found = wire(json!({
            "streams": 3, "direction": "both", "message_size": "64 KiB", "rate": "6 Mbit/s",
            "pacing_rate": "5 Mbit/s", "socket_buffer": "256 KiB", "congestion": "reno",
            "mss": "1200 B", "dscp": 46, "send": "sendfile", "no_delay": true,
        }));
        let expected = Wire {
            parallel: 3,
            bidirectional: true,
            length: Some(64 << 10),
            bandwidth: Some(2_000_000),
            fq_rate: Some(5_000_000),
            window: Some(256 << 10),
            congestion: Some("reno".into()),
            mss: Some(1200),
            tos: Some(184),
            zerocopy: true,
            no_delay: true,
            version: found.version.clone(),
            ..Wire::default()
        };
        assert_eq!(found, expected);
        let tcp = wire(json!({ "direction": "rx" }));
        assert_eq!((tcp.bandwidth, tcp.reverse), (None, true));
        assert_eq!(wire(json!({ "protocol": "udp" })).bandwidth, Some(0), "no limit");
        let table = json!({
            "protocol": "udp", "datagram_size": "1000 B", "rate": "2 kpps", "streams": 2,
        });
        assert_eq!(wire(table).bandwidth, Some(8_000_000), "of each stream");
        assert_eq!(wire(json!({ "rate": "1 pps" })).bandwidth, Some(8 * (128 << 10)));
    }

    #[test]
    fn a_job_without_a_server_is_refused() {
        let nobody = from_table::<Iperf3Params>(json!({}));
        let here = std::net::Ipv4Addr::LOCALHOST.into();
        let refused = Iperf3::fits(&nobody, here).expect_err("no server");
        assert!(refused.to_string().contains("iperf3://HOST"), "{refused}");
        let named = from_table::<Iperf3Params>(json!({ "server": "iperf3://192.0.2.7" }));
        assert_eq!(Iperf3::fits(&named, here), Ok(()));
    }
}
