//! User at the other end of a connection over loopback, as the kernel lists it.
//!
//! An agent without keys serves this host only, and not every user of it: an agent of root would
//! do root's work for anybody. The kernel lists each TCP socket with its owner (proc_net_tcp:
//! `/proc/net/tcp` and `tcp6`). The row is that of the client's own socket, which no other user can
//! make. Not seen: a proxy of root that carries other users' bytes.

use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};

/// `TCP_ESTABLISHED` (include/net/tcp_states.h).
const ESTABLISHED: &str = "01";

/// Returns the user whose process holds the other end of `socket`, a connection within this host.
///
/// # Errors
/// If the kernel does not list that end: it was closed, or it is on another host.
pub(super) fn user_of(socket: &TcpStream) -> io::Result<u32> {
    let (own, peer) = (socket.local_addr()?, socket.peer_addr()?);
    // The thread's table: it may be in another network namespace than the process.
    for table in ["/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"] {
        // Without IPv6 the kernel has no second table.
        let listed = fs::read_to_string(table).unwrap_or_default();
        if let Some(user) = listed.lines().find_map(|row| owner(row, peer, own)) {
            return Ok(user);
        }
    }
    Err(io::Error::other("the kernel does not list the user who opened this connection"))
}

/// Returns the owner of the socket in `row`, if it is the established one from `local` to `remote`.
fn owner(row: &str, local: SocketAddr, remote: SocketAddr) -> Option<u32> {
    let mut fields = row.split_ascii_whitespace();
    let (_number, from, to, state) =
        (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
    if state != ESTABLISHED
        || address(from)? != canonical(local)
        || address(to)? != canonical(remote)
    {
        return None;
    }
    // Queues, timer and retransmissions precede the owner; timeout and inode follow. The inode is
    // 0 if no process holds the socket any more.
    let user = fields.nth(3)?.parse().ok()?;
    (fields.nth(1)? != "0").then_some(user)
}

fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Parses `0100007F:1F90`: words of the address in the host's byte order, and the port.
fn address(text: &str) -> Option<SocketAddr> {
    /// Hexadecimal digits of a word.
    const WORD: usize = 8;
    let (ip, port) = text.split_once(':')?;
    let words = ip.as_bytes().chunks(WORD).map(|word| {
        let word = u32::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok()?;
        Some(word.to_ne_bytes())
    });
    let bytes = words.collect::<Option<Vec<[u8; 4]>>>()?.concat();
    let ip = match <[u8; 4]>::try_from(&bytes[..]) {
        Ok(v4) => IpAddr::from(v4),
        Err(_) => IpAddr::from(<[u8; 16]>::try_from(&bytes[..]).ok()?),
    };
    Some(canonical(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?)))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    #[cfg(target_endian = "little")]
    fn a_row_is_the_owners_only_if_it_is_this_connection_and_somebody_holds_it() {
        let row = "  17: 0100007F:A1B2 0100007F:12A9 01 00000000:00000000 00:00000000 00000000  \
            1000        0 424242 1 0 20 4 30 10 -1";
        let (client, agent) = (
            "127.0.0.1:41394".parse().expect("literal"),
            "127.0.0.1:4777".parse().expect("literal"),
        );
        assert_eq!(owner(row, client, agent), Some(1000));
        assert_eq!(owner(row, agent, client), None, "the agent's own end");
        let another = "127.0.0.1:4778".parse().expect("literal");
        assert_eq!(owner(row, client, another), None, "from the same port to elsewhere");
        assert_eq!(owner(row, another, agent), None, "from elsewhere to the agent");
        // After a close the kernel keeps the socket, without an inode and as root's.
        let closed = row.replace("  1000        0 424242", "     0        0 0");
        assert_eq!(owner(&closed, client, agent), None);
        assert_eq!(owner(&row.replace(" 01 ", " 06 "), client, agent), None, "TIME_WAIT");
        assert_eq!(
            owner("  sl  local_address rem_address   st tx_queue rx_queue", client, agent),
            None
        );
        let mapped = "   0: 0000000000000000FFFF00000100007F:A1B2 \
            0000000000000000FFFF00000100007F:12A9 01 0:0 0:0 0 7 0 9 1";
        assert_eq!(owner(mapped, client, agent), Some(7));
    }

    #[test]
    fn the_user_of_a_connection_of_this_process_is_this_user() {
        for loopback in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(loopback).expect("loopback");
            let client =
                TcpStream::connect(listener.local_addr().expect("bound")).expect("loopback");
            let (accepted, _) = listener.accept().expect("loopback");
            assert_eq!(
                user_of(&accepted).expect("it is held"),
                rustix::process::geteuid().as_raw()
            );
            drop(client);
            assert!(user_of(&accepted).is_err(), "nobody holds it");
        }
    }
}
