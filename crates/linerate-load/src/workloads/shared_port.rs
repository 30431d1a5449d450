//! Port of an agent that the data of its trials shares with its control connections.
//!
//! A trial's passive end expects its connections under a cookie: 128 bits that follow from the
//! secret of one job in one trial, and that nobody can guess. The agent looks at the first bytes of
//! each connection. One with an expected cookie goes to the end that expects it, and every other is
//! closed without an answer. A cookie is valid from the offer until all connections have arrived.
//! It only selects the job: each connection must then prove the secret, as at any other port.
//!
//! Datagrams of unknown senders arrive at sockets of the agent that never answer. Whoever waits for
//! a flow reads them and looks for the flow's pairing datagram, of which 192 bits follow from the
//! secret. The flow then gets a socket of its own on the same port, connected to the sender, so
//! that the kernel delivers its datagrams there and not here.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use linerate_model::Endpoint;
use linerate_sys::SysError;
use socket2::Type;

use super::datagram::Pairing;
use super::first_bytes::{self, Cookie};
use super::sockets::bound;
use crate::{Result, Secret};

/// Most datagrams taken from a socket before the clock is read: a stranger's flood must not
/// hide a timeout.
pub(super) const READ_IN_A_ROW: usize = 64;
/// Most old datagrams dropped from a socket before a job: more than the usual buffer has room for.
const DROPPED_IN_A_ROW: usize = 4096;

/// Verdict on the first bytes of a data connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstBytes {
    /// This many bytes are needed for a verdict.
    Needs(usize),
    /// A trial expects this connection.
    Expected,
    /// No trial expects it.
    Unknown,
}

/// Port that the data of trials shares with control connections. Clones are the same port.
#[derive(Clone, Debug)]
pub struct SharedPort(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// Address of the agent's listener.
    address: SocketAddr,
    /// Set while its connections begin with buffers that are not the kernel's defaults.
    outdated: AtomicBool,
    /// Queue of each end that expects connections.
    expected: Mutex<HashMap<Cookie, SyncSender<TcpStream>>>,
    /// Sockets for the first datagrams of flows, while the port is open for datagrams.
    doors: Mutex<Vec<UdpSocket>>,
    /// Sender of each pairing datagram that is expected, once it has arrived.
    pairings: Mutex<HashMap<Pairing, Option<SocketAddr>>>,
}

impl SharedPort {
    /// Creates the shared port of an agent that listens on `address`.
    #[must_use]
    pub fn new(address: SocketAddr) -> Self {
        let (outdated, expected, doors, pairings) = Default::default();
        Self(Arc::new(Shared { address, outdated, expected, doors, pairings }))
    }

    /// Says whether the connections of this port begin with buffers of earlier defaults. Jobs then
    /// listen on ports of their own.
    pub fn set_outdated(&self, outdated: bool) {
        self.0.outdated.store(outdated, Ordering::Relaxed);
    }

    /// Returns whether connections begin with buffers of earlier defaults.
    pub(crate) fn is_outdated(&self) -> bool {
        self.0.outdated.load(Ordering::Relaxed)
    }

    /// Opens the port for datagrams. Call it once, in the process and as the user that runs the
    /// loads: the kernel lets only one user share a port.
    ///
    /// # Errors
    /// If another program has the port. Then each flow of datagrams gets a port of its own.
    pub fn open_for_datagrams(&self) -> Result<()> {
        let mut doors = Vec::new();
        for address in self.addresses() {
            let door = bound(Type::DGRAM, address, None, |socket| {
                if address.is_ipv6() {
                    socket.set_only_v6(true)?;
                }
                socket.set_reuse_port(true)
            })?;
            door.set_nonblocking(true)
                .map_err(|cause| SysError::new("open", address.to_string(), cause))?;
            doors.push(door.into());
        }
        *self.doors() = doors;
        Ok(())
    }

    /// Closes the port for datagrams, also for jobs that still wait for some.
    pub fn close_for_datagrams(&self) {
        self.doors().clear();
    }

    /// Returns the addresses for datagrams: of both families if the agent listens everywhere.
    fn addresses(&self) -> Vec<SocketAddr> {
        let address = self.0.address;
        let is_any = address.is_ipv6() && address.ip().is_unspecified();
        let second = is_any.then(|| (Ipv4Addr::UNSPECIFIED, address.port()).into());
        [Some(address), second].into_iter().flatten().collect()
    }

    /// Judges the first bytes of a connection; `None` if a data connection does not begin so.
    #[must_use]
    pub fn judge(&self, bytes: &[u8]) -> Option<FirstBytes> {
        first_bytes::is_data(bytes).then(|| match first_bytes::cookie(bytes) {
            None => FirstBytes::Needs(first_bytes::LENGTH),
            Some(cookie) if self.expected().contains_key(&cookie) => FirstBytes::Expected,
            Some(_) => FirstBytes::Unknown,
        })
    }

    /// Passes a connection that begins with `bytes`, which nobody has read yet, to the end that
    /// expects it. Closes it if nobody does, or if too many wait there.
    pub fn pass_on(&self, bytes: &[u8], stream: TcpStream) {
        let Some(cookie) = first_bytes::cookie(bytes) else { return };
        if let Some(queue) = self.expected().get(&cookie) {
            // A full queue is a flood of somebody who has seen the cookie.
            let _refused = queue.try_send(stream);
        }
    }

    /// Returns the address at which an endpoint is reached through this port; `None` if the agent
    /// does not listen on the endpoint's address, or if the address of an endpoint without one is
    /// not known here: behind an address translator the agent is reached at another.
    pub(crate) fn address_of(&self, local: &Endpoint) -> Option<SocketAddr> {
        let listens = self.0.address.ip();
        let listens_everywhere = listens.is_unspecified();
        let ip = match local.address {
            Some(ip) => ip,
            // The conductor completes it with the address at which it has reached the agent.
            None if listens_everywhere => Ipv4Addr::UNSPECIFIED.into(),
            None if listens.is_loopback() => listens,
            None => return None,
        };
        let reaches = listens_everywhere && (listens.is_ipv6() || ip.is_ipv4());
        (reaches || ip.to_canonical() == listens.to_canonical())
            .then(|| SocketAddr::new(ip, self.0.address.port()))
    }

    /// Expects the connections of a job with this secret; at most `most` may wait.
    pub(crate) fn expect(&self, secret: Secret, most: usize) -> Intake {
        let (queue, arrivals) = sync_channel(most);
        let cookie = first_bytes::cookie_of(secret);
        self.expected().insert(cookie, queue);
        Intake { port: self.clone(), cookie, arrivals }
    }

    /// Expects these pairing datagrams; `None` if the port is not open for datagrams. Drops the
    /// datagrams of strangers that arrived while no job expected any.
    pub(crate) fn expect_pairings(&self, expected: Vec<Pairing>) -> Option<Pairings> {
        let mut pairings = self.pairings();
        let doors = self.doors();
        if doors.is_empty() {
            return None;
        }
        if pairings.is_empty() {
            for door in doors.iter() {
                (0..DROPPED_IN_A_ROW).take_while(|_| door.recv(&mut []).is_ok()).for_each(drop);
            }
        }
        pairings.extend(expected.iter().map(|one| (*one, None)));
        Some(Pairings { port: self.clone(), expected })
    }

    /// Lock it after the pairings.
    fn doors(&self) -> MutexGuard<'_, Vec<UdpSocket>> {
        self.0.doors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pairings(&self) -> MutexGuard<'_, HashMap<Pairing, Option<SocketAddr>>> {
        self.0.pairings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn expected(&self) -> MutexGuard<'_, HashMap<Cookie, SyncSender<TcpStream>>> {
        self.0.expected.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Connections of one job that arrive at a shared port. The cookie is valid until this is dropped.
#[derive(Debug)]
pub(crate) struct Intake {
    port: SharedPort,
    cookie: Cookie,
    arrivals: Receiver<TcpStream>,
}

impl Intake {
    /// Returns the next connection; `WouldBlock` if none waits.
    pub(crate) fn next(&self) -> io::Result<(TcpStream, SocketAddr)> {
        loop {
            let stream = self.arrivals.try_recv().map_err(|_| io::ErrorKind::WouldBlock)?;
            // One that was reset meanwhile has no peer any more.
            if let Ok(from) = stream.peer_addr() {
                return Ok((stream, from));
            }
        }
    }
}

impl Drop for Intake {
    fn drop(&mut self) {
        self.port.expected().remove(&self.cookie);
    }
}

/// Pairing datagrams of one job, of each flow in order. They are expected until this is dropped.
#[derive(Debug)]
pub(crate) struct Pairings {
    port: SharedPort,
    expected: Vec<Pairing>,
}

impl Pairings {
    /// Returns the port.
    pub(crate) fn port(&self) -> u16 {
        self.port.0.address.port()
    }

    /// Reads datagrams that have arrived, of any job. Returns how many were strangers'.
    pub(crate) fn look(&self) -> u64 {
        let mut strangers = 0;
        let mut pairings = self.port.pairings();
        for door in self.port.doors().iter() {
            // One byte more than a pairing datagram: a longer one is none.
            let mut bytes = [0; size_of::<Pairing>() + 1];
            for _ in 0..READ_IN_A_ROW {
                let Ok((length, from)) = door.recv_from(&mut bytes) else { break };
                let pairing = <Pairing>::try_from(&bytes[..length]).ok();
                match pairing.and_then(|pairing| pairings.get_mut(&pairing)) {
                    Some(sender) => *sender = Some(from),
                    None => strangers += 1,
                }
            }
        }
        strangers
    }

    /// Returns the last sender of flow `flow`, once.
    pub(crate) fn sender(&self, flow: u32) -> Option<SocketAddr> {
        self.port.pairings().get_mut(&self.expected[flow as usize])?.take()
    }
}

impl Drop for Pairings {
    fn drop(&mut self) {
        let mut pairings = self.port.pairings();
        for one in &self.expected {
            pairings.remove(one);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    const SECRET: Secret = Secret(*b"0123456789abcdef");

    fn port(address: &str) -> SharedPort {
        SharedPort::new(address.parse().expect("an address"))
    }

    fn connection(listener: &TcpListener) -> TcpStream {
        TcpStream::connect(listener.local_addr().expect("bound")).expect("loopback")
    }

    #[test]
    fn a_cookie_is_valid_for_its_job_and_while_the_job_expects_connections() {
        let port = port("127.0.0.1:4777");
        let hello = first_bytes::tests::hello(SECRET);
        let judged = |bytes: &[u8]| port.judge(bytes);
        assert_eq!(judged(&hello), Some(FirstBytes::Unknown), "nobody expects it yet");
        let intake = port.expect(SECRET, 2);
        assert_eq!(judged(&hello), Some(FirstBytes::Expected));
        let other = first_bytes::tests::hello(Secret([9; 16]));
        assert_eq!(judged(&other), Some(FirstBytes::Unknown), "another job");
        for length in 1..first_bytes::LENGTH {
            let needs = Some(FirstBytes::Needs(first_bytes::LENGTH));
            assert_eq!(judged(&hello[..length]), needs, "{length}");
        }
        for control in [&[22, 3, 1][..], &[0, 0, 1, 0, b'{'], b"GET / HTTP/1.1", &[]] {
            assert_eq!(judged(control), None, "{control:?} is no data connection");
        }
        drop(intake);
        assert_eq!(judged(&hello), Some(FirstBytes::Unknown), "nobody expects it any more");
    }

    #[test]
    fn a_connection_reaches_its_own_job_and_no_more_of_them_wait_than_it_has_room_for() {
        let port = port("127.0.0.1:4777");
        let (own, other) = (port.expect(SECRET, 2), port.expect(Secret([9; 16]), 2));
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        for _ in 0..3 {
            port.pass_on(&first_bytes::tests::hello(SECRET), connection(&listener));
        }
        let waiting = || own.next().map(|_| ()).map_err(|error| error.kind());
        assert_eq!([waiting(), waiting()], [Ok(()), Ok(())]);
        assert_eq!(waiting(), Err(io::ErrorKind::WouldBlock), "the third was closed");
        assert!(other.next().is_err());
    }

    #[test]
    fn an_endpoint_is_reached_through_the_port_where_the_agent_listens_on_its_address() {
        let through = |listens: &str, own: Option<&str>| {
            let address = own.map(|own| own.parse().expect("an address"));
            let local = Endpoint { address, ..Endpoint::named("a", "h") };
            port(listens).address_of(&local).map(|address| address.to_string())
        };
        let is = |text: &str| Some(text.to_owned());
        assert_eq!(through("[::]:47", Some("192.0.2.1")), is("192.0.2.1:47"));
        assert_eq!(through("[::]:47", Some("2001:db8::1")), is("[2001:db8::1]:47"));
        assert_eq!(through("[::]:47", None), is("0.0.0.0:47"));
        assert_eq!(through("0.0.0.0:47", Some("192.0.2.1")), is("192.0.2.1:47"));
        assert_eq!(through("0.0.0.0:47", Some("2001:db8::1")), None);
        assert_eq!(through("192.0.2.1:47", Some("192.0.2.1")), is("192.0.2.1:47"));
        assert_eq!(through("192.0.2.1:47", Some("192.0.2.2")), None);
        assert_eq!(through("192.0.2.1:47", None), None, "it may be reached at another address");
        assert_eq!(through("127.0.0.1:47", None), is("127.0.0.1:47"));
        assert_eq!(through("[::1]:47", None), is("[::1]:47"));
    }

    #[test]
    fn a_pairing_datagram_shows_its_flows_sender_once_and_others_are_strangers() {
        let free = UdpSocket::bind("127.0.0.1:0").expect("loopback").local_addr().expect("bound");
        let port = SharedPort::new(free);
        let (first, second) = ([1; size_of::<Pairing>()], [2; size_of::<Pairing>()]);
        assert!(port.expect_pairings(vec![first]).is_none(), "it is not open yet");
        port.open_for_datagrams().expect("the port is free");
        let job = port.expect_pairings(vec![first, second]).expect("it is open");
        let sender = UdpSocket::bind("127.0.0.1:0").expect("loopback");
        let longer = [1; size_of::<Pairing>() + 1];
        for datagram in [&second[..], &[3; size_of::<Pairing>()], &first[1..], &longer] {
            sender.send_to(datagram, free).expect("loopback");
        }
        assert_eq!(job.look(), 3, "one is expected");
        let from = sender.local_addr().ok();
        assert_eq!([job.sender(0), job.sender(1), job.sender(1)], [None, from, None]);
        drop(job);
        sender.send_to(&[4; 8], free).expect("loopback");
        let other = port.expect_pairings(vec![first]).expect("it is open");
        let third = port.expect_pairings(vec![[5; size_of::<Pairing>()]]).expect("it is open");
        sender.send_to(&second, free).expect("loopback");
        assert_eq!(other.look(), 1, "its job is over; the stranger came before this one");
        sender.send_to(&[5; size_of::<Pairing>()], free).expect("loopback");
        let _fourth = port.expect_pairings(vec![second]).expect("it is open");
        assert_eq!((other.look(), third.sender(0)), (0, from), "another job expects datagrams");
        sender.set_nonblocking(true).expect("an option");
        assert!(sender.recv(&mut [0; 64]).is_err(), "nobody is answered");
    }
}
