//! Sockets that an agent listens on.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use linerate_sys::socket;
use socket2::{Domain, Protocol, Socket, Type};

/// Connections that wait in the kernel: those of a trial arrive at once.
const BACKLOG: i32 = 4096;

/// Listens on `address`, and on the same port of IPv4 if it is any address of IPv6. Returns the
/// listeners and the first one's address.
///
/// Data connections arrive here. On one socket for both families, those of IPv4 would be sockets
/// of IPv6 with other options.
pub(super) fn listen(address: SocketAddr) -> io::Result<(Vec<TcpListener>, SocketAddr)> {
    let first = listener(address)?;
    let address = first.local_addr()?;
    let mut listeners = vec![first];
    if address.is_ipv6() && address.ip().is_unspecified() {
        listeners.push(listener((Ipv4Addr::UNSPECIFIED, address.port()).into())?);
    }
    Ok((listeners, address))
}

fn listener(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        listener.set_only_v6(true)?;
    }
    // The port may still have connections of an earlier agent in TIME_WAIT.
    listener.set_reuse_address(true)?;
    socket::bind(&listener, address)?;
    listener.listen(BACKLOG)?;
    Ok(listener.into())
}
