//! Addresses as people write them.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs};

use linerate_model::AGENT_PORT;
use linerate_sys::netlink::RouteSocket;
use linerate_sys::packet::{interface_index, interface_name};

use linerate_model::failure::{Failure, Result};

/// Returns `host`, `host:port`, `[v6]`, `[v6]:port` or a bare IPv6 address as `host:port`. The zone
/// of an address (`fe80::1%eth0`, RFC 4007 clause 11) becomes a number.
#[must_use]
pub fn with_port(text: &str, port: u16) -> String {
    let numbered = numbered(text);
    if is_bare_ipv6(&numbered) {
        return format!("[{numbered}]:{port}");
    }
    if has_port(&numbered) { numbered } else { format!("{numbered}:{port}") }
}

/// Returns `text` with the zone of its address as a number, by which the kernel knows interfaces.
#[must_use]
pub fn numbered(text: &str) -> String {
    let found = zone(text).and_then(|zone| Some((zone, interface_index(zone).ok()?)));
    found.map_or_else(
        || text.to_owned(),
        |(zone, index)| text.replacen(&format!("%{zone}"), &format!("%{index}"), 1),
    )
}

/// Returns the interface behind which an address is: the name that its zone is or numbers.
pub fn interface(text: &str) -> Option<String> {
    let zone = zone(text)?;
    // The name first, as in `numbered`: an interface may be called `2`.
    let number = interface_index(zone).err().and_then(|_| zone.parse().ok());
    let name = number.and_then(|index| interface_name(index).ok());
    Some(name.unwrap_or_else(|| zone.to_owned()))
}

/// Returns the zone of an address.
fn zone(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once('%')?;
    rest.split(']').next()
}

fn is_bare_ipv6(text: &str) -> bool {
    text.split('%').next().is_some_and(|address| address.parse::<Ipv6Addr>().is_ok())
}

/// Returns whether `text` ends with a port.
pub fn has_port(text: &str) -> bool {
    // Only what follows the bracket can be a port.
    let after_bracket = text.rsplit_once(']').map_or(text, |(_, rest)| rest);
    // A bare IPv6 address contains colons, of which none separates a port.
    !is_bare_ipv6(text) && after_bracket.contains(':')
}

/// Returns the addresses of this host that reach a program listening on `address`, as a person
/// types them for an agent. Addresses that reach this host only from itself are left out.
#[must_use]
pub fn reachable(address: SocketAddr) -> Vec<String> {
    if !address.ip().is_unspecified() {
        return vec![typed(address.ip(), address.port())];
    }
    let mut found = Vec::new();
    // Without a list the person knows the addresses.
    let _listed =
        RouteSocket::open().and_then(|mut socket| socket.addresses(|one| found.push(one.address)));
    found.retain(|ip| match ip {
        IpAddr::V4(ip) => !ip.is_loopback() && !ip.is_link_local(),
        // Those of a link need a zone, which is the other host's.
        IpAddr::V6(ip) => address.is_ipv6() && !ip.is_loopback() && !ip.is_unicast_link_local(),
    });
    found.into_iter().map(|ip| typed(ip, address.port())).collect()
}

/// Returns an agent's address as a person types it.
fn typed(ip: IpAddr, port: u16) -> String {
    if port == AGENT_PORT { ip.to_string() } else { SocketAddr::new(ip, port).to_string() }
}

/// Reads an address to listen on.
///
/// # Errors
/// If the text is not an address.
pub fn resolve_listen(text: &str, port: u16) -> Result<SocketAddr> {
    let failed = |cause: String| Failure::wrong(format!("listen on {text}: {cause}"));
    let mut addresses =
        with_port(text, port).to_socket_addrs().map_err(|error| failed(error.to_string()))?;
    addresses.next().ok_or_else(|| failed("it has no address".into()))
}

#[cfg(test)]
mod zones {
    use super::*;

    #[test]
    fn a_zone_becomes_a_number_and_is_no_port() {
        let index = interface_index("lo").expect("every namespace has it");
        let numbered = format!("[fe80::1%{index}]:4777");
        assert_eq!(with_port("fe80::1%lo", 4777), numbered);
        assert_eq!(with_port("[fe80::1%lo]", 4777), numbered);
        assert_eq!(with_port("[fe80::1%lo]:4777", 1), numbered);
        assert_eq!(with_port(&format!("fe80::1%{index}"), 4777), numbered);
        assert_eq!(with_port("fe80::1%nosuch0", 4777), "[fe80::1%nosuch0]:4777");
        assert!(!has_port("fe80::1%lo") && has_port("[fe80::1%lo]:1"));
        let lo = interface_index("lo").expect("every namespace has it");
        for (text, name) in [
            ("[fe80::1%lo]:1".to_owned(), Some("lo")),
            (format!("fe80::1%{lo}"), Some("lo")),
            ("fe80::1%none".to_owned(), Some("none")),
            ("fe80::1".to_owned(), None),
        ] {
            assert_eq!(interface(&text).as_deref(), name, "{text}");
        }
        assert!(numbered.to_socket_addrs().is_ok(), "the standard library reads it");
    }
}
