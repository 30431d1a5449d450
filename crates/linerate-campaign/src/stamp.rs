//! The other end of `linerate to stamp://HOST[:PORT]`: a reflector of STAMP.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use linerate_load::workloads::Rate;
use linerate_model::{BitRate, Bytes, Nanos, PacketRate, Params};
use linerate_stamp::auth::{Key, LEAST_KEY_BYTES, SEAL_BYTES};
use linerate_stamp::send::SendOptions;
use linerate_stamp::wire::{COUNTED_BYTES, MOST_BYTES, PORT};
use linerate_sys::clock;

use crate::foreign::address;
use crate::towards::Family;
use crate::{Exit, Failure, Result};

/// Prefix of a reflector.
const SCHEME: &str = "stamp://";
/// Rate without an option: a percentile of 99 % needs 1,000 packets, which ten seconds have.
const USUAL_RATE: f64 = 100.0;
/// Highest rate that one thread keeps without falling behind.
const MOST_RATE: f64 = 20_000.0;
/// Packets of the longest session: their records are kept in memory.
const MOST_PACKETS: f64 = 10e6;
const BITS_PER_BYTE: f64 = 8.0;

/// Session, as a person asked for it.
#[derive(Clone, Copy, Debug)]
pub struct StampAsked<'a> {
    /// Host and port as typed, without the prefix.
    pub host: &'a str,
    /// Port, where `host` has none.
    pub port: Option<u16>,
    /// Version of IP.
    pub family: Family,
    /// Address of this end.
    pub local: Option<IpAddr>,
    /// Parameters of a load of datagrams.
    pub params: &'a Params,
    /// Rate, if a person chose it.
    pub rate: Option<Rate>,
    /// Length of the session.
    pub duration: Nanos,
    /// Longest wait for replies behind the last packet.
    pub patience: Option<Nanos>,
    /// Packets have authentication.
    pub is_sealed: bool,
}

/// Returns the host and port of `stamp://HOST[:PORT]`; `None` for another host.
#[must_use]
pub fn reflector(host: &str) -> Option<&str> {
    host.strip_prefix(SCHEME).map(|rest| rest.trim_end_matches('/'))
}

/// Reads the key in `file`, which both ends know.
///
/// # Errors
/// If it cannot be read, or has no key.
pub fn key(file: &Path) -> Result<Key> {
    let wrong = |why: String| Failure::wrong(format!("--auth-key {}: {why}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
    Key::of_text(&text).ok_or_else(|| {
        let digits = 2 * LEAST_KEY_BYTES;
        wrong(format!(
            "expected at least {digits} hexadecimal digits; make a key with \
                `openssl rand -hex 32 > FILE`"
        ))
    })
}

/// Returns the session.
///
/// # Errors
/// If the host has no address, or a test packet cannot have what an option asks for.
pub fn session(asked: &StampAsked<'_>) -> Result<SendOptions> {
    let to = address(asked.host, (asked.port, PORT), asked.family)?;
    let least = COUNTED_BYTES + if asked.is_sealed { SEAL_BYTES } else { 0 };
    let (bytes, dscp) = packet(asked.params, least)?;
    let per_second = match asked.rate {
        None => USUAL_RATE,
        Some(Rate::Packets(PacketRate(rate))) => rate,
        Some(Rate::Bits(BitRate(bits))) => bits / (bytes as f64 * BITS_PER_BYTE),
    };
    if !(per_second > 0.0 && per_second <= MOST_RATE) {
        return Err(Failure::wrong(format!(
            "to {SCHEME}: {per_second:.0} packets per second: at most {MOST_RATE:.0} are possible"
        )));
    }
    let n_packets = (per_second * asked.duration.as_secs_f64()).round().max(1.0);
    if n_packets > MOST_PACKETS {
        return Err(Failure::wrong(format!(
            "to {SCHEME}: {n_packets:.0} packets: a session has at most {MOST_PACKETS:.0}. Choose \
                a lower rate (-b) or a shorter time (-t)"
        )));
    }
    Ok(SendOptions {
        to,
        local: asked.local,
        gap: Duration::from_secs_f64(1.0 / per_second),
        n_packets: n_packets as u32,
        bytes,
        dscp,
        patience: asked.patience.map_or(Duration::from_secs(2), Duration::from),
        session: identifier(clock::realtime()),
    })
}

/// Returns why a session with the reflector `host` at `to` has no complete result.
///
/// # Errors
/// If it was interrupted, or nothing came back.
pub fn complete(
    host: &str,
    (to, has_key): (SocketAddr, bool),
    is_cut: bool,
    n_replied: u32,
) -> Result<()> {
    if is_cut {
        let message = format!("to {SCHEME}{host}: interrupted; the lines are complete");
        return Err(Failure::new(Exit::Interrupted, message));
    }
    if n_replied == 0 {
        let (key, option) = match has_key {
            true => (" Has it the same key?", " --auth-key FILE"),
            false => ("", ""),
        };
        return Err(Failure::missing(format!(
            "to {SCHEME}{host}: no reply. Does a reflector listen at {to}, and does a firewall let \
                UDP through?{key} Start one with `linerate serve stamp{option}`"
        )));
    }
    Ok(())
}

/// Returns an identifier that sessions of the last minutes do not have, and that is not 0.
fn identifier(now_ns: u64) -> u16 {
    // Steps of about 4 ms.
    ((now_ns >> 22) as u16).max(1)
}

/// Returns the length of each packet, `least` at the least, and its code point.
fn packet(params: &Params, least: usize) -> Result<(usize, Option<u8>)> {
    let (mut bytes, mut dscp) = (least, None);
    for (name, value) in &params.0 {
        let wrong =
            || Failure::wrong(format!("to {SCHEME}: a test packet has no `{name}` of {value}"));
        match name.as_str() {
            "direction" if value == "tx" => {}
            // Chosen beside them.
            "rate" => {}
            "datagram_size" => {
                let size: Bytes =
                    value.as_str().unwrap_or_default().parse().map_err(|_| wrong())?;
                bytes = usize::try_from(size.0).unwrap_or(usize::MAX);
                if !(least..=MOST_BYTES).contains(&bytes) {
                    return Err(Failure::wrong(format!(
                        "to {SCHEME} -l {size}: a test packet has {least} to {MOST_BYTES} B"
                    )));
                }
            }
            "dscp" => {
                let point = value.as_u64().and_then(|point| u8::try_from(point).ok());
                dscp = Some(point.ok_or_else(wrong)?);
            }
            _ => return Err(wrong()),
        }
    }
    Ok((bytes, dscp))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_that_was_cut_or_has_no_reply_is_a_failure() {
        let to = SocketAddr::from(([192, 0, 2, 7], PORT));
        let exit = |is_cut, n_replied| {
            complete("a", (to, true), is_cut, n_replied).map_err(|failure| failure.exit())
        };
        assert_eq!(exit(false, 1), Ok(()));
        assert_eq!(exit(true, 1), Err(Exit::Interrupted));
        assert_eq!(exit(false, 0), Err(Exit::Missing));
    }

    fn asked<'a>(params: &'a Params, rate: Option<Rate>) -> StampAsked<'a> {
        StampAsked {
            host: "127.0.0.1",
            port: None,
            family: Family::Any,
            local: None,
            params,
            rate,
            duration: Nanos::from_secs(10),
            patience: None,
            is_sealed: false,
        }
    }

    #[test]
    fn a_reflector_has_a_prefix_and_its_own_port() {
        assert_eq!(reflector("stamp://router:1862/"), Some("router:1862"));
        assert_eq!(reflector("router"), None);
        let of = |host, port| {
            let params = Params::default();
            session(&StampAsked { host, port, ..asked(&params, None) }).map(|options| options.to)
        };
        assert_eq!(of("127.0.0.1", None).ok(), "127.0.0.1:862".parse().ok());
        assert_eq!(of("127.0.0.1:1862", None).ok(), "127.0.0.1:1862".parse().ok());
        assert_eq!(of("::1", Some(1862)).ok(), "[::1]:1862".parse().ok());
        let twice = of("127.0.0.1:1862", Some(862)).expect_err("two ports");
        assert!(twice.message().contains("has a port already"), "{twice:?}");
    }

    #[test]
    fn the_rate_is_in_packets_or_in_bits_and_the_session_is_bounded() {
        let mut params = Params::default();
        params.set("datagram_size", "125 B");
        params.set("dscp", 46);
        let of = |rate| session(&asked(&params, rate));
        let usual = of(None).expect("the usual rate");
        assert_eq!((usual.n_packets, usual.gap), (1_000, Duration::from_millis(10)));
        assert_eq!((usual.bytes, usual.dscp), (125, Some(46)));
        let bits = of(Some(Rate::Bits(BitRate(1e6)))).expect("1,000 packets per second");
        assert_eq!(bits.n_packets, 10_000);
        let fast = of(Some(Rate::Packets(PacketRate(20_001.0)))).expect_err("too fast");
        assert!(fast.message().contains("at most 20000"), "{fast:?}");
        let rate = Some(Rate::Packets(PacketRate(20_000.0)));
        let long = StampAsked { duration: Nanos::from_secs(501), ..asked(&params, rate) };
        assert!(session(&long).is_err(), "ten million packets");
        for (name, value) in [("datagram_size", "59 B"), ("direction", "rx"), ("gso", "most")] {
            let mut params = Params::default();
            params.set(name, value);
            assert!(session(&asked(&params, None)).is_err(), "{name}");
        }
        assert_eq!(identifier(0), 1, "0 is no session");
    }
}
