//! Netlink sockets (netlink(7)). Routing sockets (rtnetlink(7)) serve links, their statistics,
//! addresses, queueing disciplines and routes. Generic sockets serve the families that parts of the
//! kernel register by name.
//!
//! A socket handles one blocking request at a time, in the network namespace of the thread that
//! opened it. Numbers are in host byte order as the kernel sends them. A refusal contains the
//! kernel's explanation if it gave one. Layouts: linux/netlink.h, rtnetlink.h, genetlink.h.
//!
//! Changes between two dumps and other namespaces are not visible.

mod attribute;
mod generic;
mod links;
mod message;
mod qdiscs;
mod routes;
mod socket;
mod stacked;

#[cfg(test)]
mod fuzz;

pub use attribute::{attributes, push};
pub use generic::{Family, GenericSocket};
pub use links::{InterfaceAddress, Learnt, Link, LinkStats, Neighbour};
pub use qdiscs::{HtbClass, Qdisc, QdiscLimits};
pub use routes::{NextHop, Route};
pub use stacked::Tunnel;

use socket::Socket;

use crate::Result;

/// Open routing netlink socket.
#[derive(Debug)]
pub struct RouteSocket {
    socket: Socket,
}

impl RouteSocket {
    /// Opens a socket in the calling thread's network namespace.
    ///
    /// # Errors
    /// If the kernel or a sandbox refuses netlink.
    pub fn open() -> Result<Self> {
        // NETLINK_ROUTE is protocol 0, which rustix spells `None`.
        Socket::open(None, "routing netlink socket").map(|socket| Self { socket })
    }

    fn dump(&mut self, kind: u16, body: &[u8], what: &str, visit: impl FnMut(&[u8])) -> Result<()> {
        self.socket.dump(kind, body, what, visit)
    }
}
