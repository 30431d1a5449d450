//! Sockets that an agent listens on.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use linerate_load::{FirstBytes, LoadError, SharedPort};
use linerate_sys::socket;
use socket2::{Domain, Protocol, Socket, Type};

use super::Shared;
use crate::strangers::{Opening, Receptionist, Ticket, accept_all, wake};

/// Connections that wait in the kernel: those of a trial arrive at once.
const BACKLOG: i32 = 4096;

/// Listens on `address`, and on the same port of IPv4 if it is any address of IPv6. Returns the
/// listeners and the first one's address.
///
/// Data connections arrive here. On one socket for both families, those of IPv4 would be sockets
/// of IPv6 with other options.
pub(super) fn listen(address: SocketAddr) -> io::Result<(Arc<[TcpListener]>, SocketAddr)> {
    let first = listener(address)?;
    let address = first.local_addr()?;
    let mut listeners = vec![first];
    if address.is_ipv6() && address.ip().is_unspecified() {
        listeners.push(listener((Ipv4Addr::UNSPECIFIED, address.port()).into())?);
    }
    Ok((listeners.into(), address))
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

/// Returns the verdict on the first bytes of a data connection; `None` if a data connection does
/// not begin so.
pub(super) fn opening(port: &SharedPort, bytes: &[u8]) -> Option<Opening> {
    Some(match port.judge(bytes)? {
        FirstBytes::Needs(needed) => Opening::Needs(needed),
        FirstBytes::Expected => Opening::Data,
        FirstBytes::Unknown => Opening::Foreign("no trial expects its data connection".into()),
    })
}

/// Port of an agent in this process, for the data of its trials alone. Closed when dropped.
#[derive(Debug)]
pub(crate) struct DataPort {
    port: SharedPort,
    address: SocketAddr,
    stopping: Arc<AtomicBool>,
    accepting: Option<JoinHandle<()>>,
    /// Reason why flows of datagrams have ports of their own.
    without_datagrams: Option<LoadError>,
}

impl DataPort {
    /// Opens the port at `address` for the agent `shared`: for connections, and for datagrams
    /// unless another program has that port.
    pub(super) fn open(shared: &Arc<Shared>, address: SocketAddr) -> io::Result<Self> {
        let (listeners, address) = listen(address)?;
        let of_port = Arc::downgrade(&listeners);
        let port = SharedPort::new(address);
        let without_datagrams = port.open_for_datagrams().err();
        let front = Arc::new(DataOnly { shared: Arc::clone(shared), port: port.clone() });
        let stopping = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&stopping);
        let accepting = thread::Builder::new().name("linerate-data".into()).spawn(move || {
            // Trials whose connections are missing name the port.
            let _failed = accept_all(&listeners, &stop, &front);
        })?;
        // Last: from now on trials offer this port.
        if shared.port.set(port.clone()).is_ok() {
            let _first = shared.listeners.set(of_port);
        }
        Ok(Self { port, address, stopping, accepting: Some(accepting), without_datagrams })
    }

    /// Returns why flows of datagrams have ports of their own; `None` if they have not.
    pub(crate) fn without_datagrams(&self) -> Option<&LoadError> {
        self.without_datagrams.as_ref()
    }
}

impl Drop for DataPort {
    fn drop(&mut self) {
        // A trial that was aborted may still have the port for a while.
        self.port.close_for_datagrams();
        self.stopping.store(true, Ordering::Relaxed);
        wake(self.address);
        // The listeners are closed when this returns.
        let _ended = self.accepting.take().map(JoinHandle::join);
    }
}

/// Reception of strangers where only data connections are accepted.
struct DataOnly {
    shared: Arc<Shared>,
    port: SharedPort,
}

impl Receptionist for DataOnly {
    fn patience(&self) -> Duration {
        self.shared.options.timeouts.handshake
    }

    fn opening(&self, bytes: &[u8]) -> Opening {
        let foreign = || Opening::Foreign("only data of trials is accepted here".into());
        opening(&self.port, bytes).unwrap_or_else(foreign)
    }

    fn meet(&self, _: TcpStream, _: SocketAddr, _: Ticket) {}

    fn pass_on(&self, bytes: &[u8], socket: TcpStream) {
        self.port.pass_on(bytes, socket);
    }

    fn turned_away(&self, peer: SocketAddr, why: &str) {
        self.shared.reject(&peer.to_string(), &why);
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;
    use crate::Agent;

    fn agent() -> Agent {
        Agent::new(crate::AgentOptions::default())
    }

    /// Returns an address whose port is free for connections and datagrams, and a socket that has
    /// the datagrams' port.
    fn free() -> (SocketAddr, UdpSocket) {
        // No other test has this address; on 127.0.0.1 any connection may get the port.
        let udp = UdpSocket::bind("127.77.0.1:0").expect("loopback");
        (udp.local_addr().expect("bound"), udp)
    }

    /// States of sockets, as the kernel's tables name them.
    const LISTENS: &str = "0A";
    const UNCONNECTED: &str = "07";

    /// Waits until no socket is open at `address`. A program that another test starts has a copy of
    /// every open socket until it runs.
    fn wait_until_closed(address: SocketAddr) {
        let SocketAddr::V4(v4) = address else { panic!("{address} is of IPv4") };
        let own = format!("{:08X}:{:04X}", u32::from_ne_bytes(v4.ip().octets()), v4.port());
        // A connection that has ended may stay in TIME_WAIT for a minute.
        let is_open = |[table, state]: &[&str; 2]| {
            let read = std::fs::read_to_string(format!("/proc/net/{table}"));
            read.expect("a table of the kernel").lines().any(|line| {
                let mut columns = line.split_whitespace().skip(1);
                columns.next() == Some(&own) && columns.nth(1) == Some(state)
            })
        };
        let begun = std::time::Instant::now();
        while [["tcp", LISTENS], ["udp", UNCONNECTED]].iter().any(is_open) {
            assert!(begun.elapsed().as_secs() < 10, "{address} is open");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }

    #[test]
    fn a_data_port_is_closed_when_dropped_also_while_a_trial_still_has_it() {
        let ((address, udp), agent) = (free(), agent());
        drop(udp);
        wait_until_closed(address);
        let open = agent.accept_data(address).expect("the port is free");
        assert!(open.without_datagrams().is_none(), "{open:?}");
        let of_trial = agent.shared.port.get().expect("trials offer it").clone();
        UdpSocket::bind(address).expect_err("it is open for datagrams");
        drop(open);
        wait_until_closed(address);
        UdpSocket::bind(address).expect("it is closed for datagrams");
        TcpListener::bind(address).expect("it is closed for connections");
        drop(of_trial);
    }

    #[test]
    fn a_data_port_accepts_connections_where_another_program_has_it_for_datagrams() {
        let ((address, _udp), agent) = (free(), agent());
        let open = agent.accept_data(address).expect("the port is free for connections");
        let why = open.without_datagrams().expect("datagrams go elsewhere").to_string();
        assert!(why.contains(&address.to_string()), "{why}");
        TcpStream::connect(address).expect("it listens");
    }
}
