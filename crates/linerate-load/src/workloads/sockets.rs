//! Sockets of trials: bound to an address, and to a device if a trial names one.

use std::io;
use std::net::SocketAddr;

use linerate_model::Endpoint;
use linerate_sys::{SysError, packet, socket as options};
use socket2::{Domain, Protocol, Socket, Type};

use crate::{LoadError, Result};

/// Opens a socket bound to `address`, on `device` if one is given. `share` sets who may share a
/// chosen port.
pub(crate) fn bound(
    kind: Type,
    address: SocketAddr,
    device: Option<&str>,
    share: impl FnOnce(&Socket) -> io::Result<()>,
) -> Result<Socket> {
    let protocol = if kind == Type::DGRAM { Protocol::UDP } else { Protocol::TCP };
    let socket = Socket::new(Domain::for_address(address), kind, Some(protocol))
        .map_err(|cause| SysError::new("open a socket for", address.to_string(), cause))?;
    if let Some(device) = device {
        options::bind_device(&socket, device)?;
    }
    let error = |cause| SysError::new("bind", address.to_string(), cause);
    share(&socket).map_err(error)?;
    options::bind(&socket, address).map_err(error).map_err(|error| held(address.port(), error))?;
    Ok(socket)
}

/// Returns `address` with the zone of the endpoint's interface if it is an address of a link (RFC
/// 4007 clause 11), which no socket can use without.
pub(crate) fn zoned(address: SocketAddr, local: &Endpoint) -> SocketAddr {
    let SocketAddr::V6(mut of_link) = address else { return address };
    if of_link.ip().is_unicast_link_local() && of_link.scope_id() == 0 {
        let device = local.device.as_deref();
        let index = device.and_then(|device| packet::interface_index(device).ok());
        of_link.set_scope_id(index.unwrap_or(0));
    }
    of_link.into()
}

/// Describes `error` of a socket with a chosen port, with a remedy if the port is in use.
pub(crate) fn held(port: u16, error: SysError) -> LoadError {
    if port == 0
        || !matches!(error.cause.kind(), io::ErrorKind::AddrInUse | io::ErrorKind::AddrNotAvailable)
    {
        return error.into();
    }
    LoadError::Unsupported {
        what: error.to_string(),
        why: "end what holds the port, or plan others (`linerate flows plan`)".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_address_of_a_link_gets_the_zone_of_the_endpoints_interface() {
        let local = Endpoint { device: Some("lo".into()), ..Endpoint::named("a", "h") };
        let zoned = |text: &str, local: &Endpoint| {
            super::zoned(text.parse().expect("an address"), local).to_string()
        };
        let index = packet::interface_index("lo").expect("every namespace has it");
        assert_eq!(zoned("[fe80::1]:7", &local), format!("[fe80::1%{index}]:7"));
        for other in ["[fe80::1%9]:7", "[2001:db8::1]:7", "192.0.2.1:7"] {
            assert_eq!(zoned(other, &local), other);
        }
        assert_eq!(zoned("[fe80::1]:7", &Endpoint::named("a", "h")), "[fe80::1]:7");
    }
}
