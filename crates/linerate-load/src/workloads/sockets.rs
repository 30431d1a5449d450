//! Sockets of trials: bound to an address, and to a device if a trial names one.

use std::io;
use std::net::SocketAddr;

use linerate_sys::{SysError, socket as options};
use socket2::{Domain, Protocol, Socket, Type};

use crate::LoadError;

/// Opens a socket bound to `address`, on `device` if one is given. `share` sets who may share a
/// chosen port.
pub(crate) fn bound(
    kind: Type,
    address: SocketAddr,
    device: Option<&str>,
    share: impl FnOnce(&Socket) -> io::Result<()>,
) -> Result<Socket, LoadError> {
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
