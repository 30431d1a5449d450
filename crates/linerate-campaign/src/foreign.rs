//! The other end of `linerate to iperf3://HOST[:PORT]`: an iperf3 server.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use linerate_iperf3::auth::Credentials;
use linerate_iperf3::drive::{Asked, DriveError};
use linerate_iperf3::wire::{PORT, Parameters, Protocol};
use linerate_load::workloads::HOST_DEFAULT;
use linerate_model::plan::Draft;
use linerate_model::{BitRate, Bytes, Nanos, Params};

use crate::towards::{Family, resolve};
use crate::{Exit, Failure, Result};
use linerate_agent::addresses::{has_port, with_port};

/// Prefix of an iperf3 server.
const SCHEME: &str = "iperf3://";
/// Largest TCP block of iperf3.
const MAX_BLOCK: u32 = linerate_iperf3::wire::MAX_BLOCK;

/// Measurement with an iperf3 server, as a person asked for it.
#[derive(Clone, Copy, Debug)]
pub struct ForeignAsked<'a> {
    /// Host and port as typed, without the prefix.
    pub host: &'a str,
    /// Port, where `host` has none.
    pub port: Option<u16>,
    /// Version of IP.
    pub family: Family,
    /// Address of this end.
    pub local: Option<IpAddr>,
    /// Plan of the same measurement with an agent.
    pub draft: &'a Draft,
    /// True if the load is over UDP.
    pub is_udp: bool,
    /// Length of the load; `None` if it has an end of its own.
    pub duration: Option<Nanos>,
    /// Warm-up.
    pub omit: Nanos,
    /// Time between two lines.
    pub interval: Nanos,
    /// Longest time for each answer of the server.
    pub patience: Option<Nanos>,
    /// User and password, if the server wants them.
    pub credentials: Option<&'a Credentials>,
}

/// Returns the host and port of `iperf3://HOST[:PORT]`; `None` for another host.
#[must_use]
pub fn iperf3_server(host: &str) -> Option<&str> {
    host.strip_prefix(SCHEME).map(|rest| rest.trim_end_matches('/'))
}

/// Returns the measurement.
///
/// # Errors
/// If the host has no address, or the plan has something that an iperf3 server cannot do.
pub fn measurement(asked: &ForeignAsked<'_>) -> Result<Asked> {
    let server = address(asked.host, (asked.port, PORT), asked.family)?;
    let (parameters, first_port) = parameters(asked.is_udp, &asked.draft.sweeps[0].jobs[0].params)?;
    Ok(Asked {
        server,
        local: asked.local,
        first_port,
        parameters,
        credentials: asked.credentials.cloned(),
        duration: asked.duration.map(Duration::from),
        omit: asked.omit.into(),
        interval: asked.interval.into(),
        patience: asked.patience.map_or(Duration::from_secs(5), Duration::from),
    })
}

/// Returns the failure of a measurement with `server` that ended with `error`.
#[must_use]
pub fn incomplete(server: &str, error: &DriveError) -> Failure {
    match error {
        DriveError::Interrupted => {
            let message = format!("to {SCHEME}{server}: interrupted; the lines are complete");
            Failure::new(Exit::Interrupted, message)
        }
        error => Failure::missing(error),
    }
}

/// Returns the address of `host`, which may end with a port; the others are the one of an option
/// and the usual one.
pub(crate) fn address(
    host: &str,
    (given, usual): (Option<u16>, u16),
    family: Family,
) -> Result<SocketAddr> {
    if let Some(port) = given.filter(|_| has_port(host)) {
        return Err(Failure::wrong(format!("to -p {port}: {host} has a port already")));
    }
    let with_port = with_port(host, given.unwrap_or(usual));
    let wrong_port = || Failure::wrong(format!("to {host}: expected a port behind the colon"));
    let (name, port) = with_port.rsplit_once(':').ok_or_else(wrong_port)?;
    let port: u16 = port.parse().map_err(|_| wrong_port())?;
    let mut server: SocketAddr = resolve(name.trim_matches(['[', ']']), family)?;
    server.set_port(port);
    Ok(server)
}

/// Returns what a plan's parameters are in the words of iperf3, and the first local port.
fn parameters(is_udp: bool, params: &Params) -> Result<(Parameters, Option<u16>)> {
    let protocol = if is_udp { Protocol::Udp } else { Protocol::Tcp };
    let version = format!("linerate {}", env!("CARGO_PKG_VERSION"));
    let mut asked = Parameters { protocol, parallel: 1, version, ..Parameters::default() };
    let (mut first_port, mut total) = (None, None);
    for (name, value) in &params.0 {
        let text = value.as_str().unwrap_or_default();
        let wrong =
            || Failure::wrong(format!("to {SCHEME}: an iperf3 server has no `{name}` of {value}"));
        let number = || value.as_u64().ok_or_else(wrong);
        let small = || u32::try_from(number()?).map_err(|_| wrong());
        let bytes = || text.parse::<Bytes>().map(|bytes| bytes.0).map_err(|_| wrong());
        let size = || u32::try_from(bytes()?).map_err(|_| wrong());
        let rate = || text.parse().map_err(|_| wrong()).map(|rate: BitRate| rate.0.round() as u64);
        match name.as_str() {
            "streams" => asked.parallel = small()?,
            "direction" => {
                (asked.reverse, asked.bidirectional) = (text == "rx", text == "both");
            }
            "pacing_rate" => asked.fq_rate = Some(rate()?),
            "rate" => total = Some(rate()?),
            "message_size" | "datagram_size" => asked.length = Some(size()?),
            "amount" => asked.bytes = bytes()?,
            "messages" => asked.blocks = number()?,
            "socket_buffer" => asked.window = Some(size()?),
            "congestion" if text == HOST_DEFAULT => {}
            "congestion" => asked.congestion = Some(text.to_owned()),
            "no_delay" => asked.no_delay = value == true,
            "mss" => asked.mss = Some(size()?),
            // The code point is the upper six bits.
            "dscp" => asked.tos = u8::try_from(number()?).ok().map(|dscp| dscp << 2),
            "send" if text == "sendfile" => asked.zerocopy = true,
            "source_ports" => first_port = text.split(',').next().and_then(|one| one.parse().ok()),
            // That of iperf3 is chosen with the server.
            "destination_port" => {}
            _ => return Err(wrong()),
        }
    }
    if is_udp {
        // `to` has the rate of all streams, and 0 is no limit for iperf3.
        asked.bandwidth = Some(total.map_or(0, |rate| rate / u64::from(asked.parallel)));
    }
    if let Some(length) = asked.length.filter(|length| !is_udp && *length > MAX_BLOCK) {
        return Err(Failure::wrong(format!(
            "to -l {length}: blocks of an iperf3 server have at most {MAX_BLOCK} bytes"
        )));
    }
    Ok((asked, first_port))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn of(is_udp: bool, values: &[(&str, Value)]) -> Result<Parameters> {
        let mut params = Params::default();
        values.iter().for_each(|(name, value)| params.set(name, value.clone()));
        parameters(is_udp, &params).map(|(parameters, _)| parameters)
    }

    #[test]
    fn the_parameters_of_a_plan_become_those_of_iperf3() {
        let examples: [(&str, Value); 10] = [
            ("streams", 3.into()),
            ("direction", "both".into()),
            ("pacing_rate", "5 Mbit/s".into()),
            ("message_size", "64 KiB".into()),
            ("amount", "1 MiB".into()),
            ("socket_buffer", "256 KiB".into()),
            ("congestion", "reno".into()),
            ("mss", "1200 B".into()),
            ("dscp", 46.into()),
            ("send", "sendfile".into()),
        ];
        let found = of(false, &examples).expect("iperf3 has all of them");
        let expected = Parameters {
            parallel: 3,
            bidirectional: true,
            fq_rate: Some(5_000_000),
            length: Some(64 << 10),
            bytes: 1 << 20,
            window: Some(256 << 10),
            congestion: Some("reno".into()),
            mss: Some(1200),
            tos: Some(184),
            zerocopy: true,
            version: found.version.clone(),
            ..Parameters::default()
        };
        assert_eq!(found, expected);
        let udp = of(true, &[("streams", 2.into()), ("rate", "10 Mbit/s".into())]);
        assert_eq!(udp.expect("two streams").bandwidth, Some(5_000_000), "of each stream");
        assert_eq!(of(true, &[]).expect("no rate").bandwidth, Some(0), "no limit");
    }

    #[test]
    fn what_iperf3_cannot_do_is_refused() {
        for (name, value) in [
            ("send", Value::from("splice")),
            ("message_size", "2 MiB".into()),
            ("file", "/etc/hostname".into()),
            ("device", "endpoint".into()),
            ("rate", "1 kpps".into()),
        ] {
            let refused = of(false, &[(name, value.clone())]);
            assert!(refused.is_err(), "{name}");
        }
    }

    #[test]
    fn a_server_is_named_by_its_scheme() {
        assert_eq!(iperf3_server("iperf3://host:5202/"), Some("host:5202"));
        assert_eq!(iperf3_server("host"), None);
    }
}
