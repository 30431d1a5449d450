//! Passive end of workloads whose connections arrive at one TCP address and prove the trial's
//! secret before they carry load.

use std::net::{SocketAddr, TcpListener};

use socket2::{SockRef, Socket};

use super::rendezvous::{self, Arrivals, Entrance, Hello};
use crate::{Listener, Offer, Patience, Permits, Result, Setup, Workers};

/// State of a socket whose options are set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// Its handshake is still to come.
    BeforeHandshake,
    /// It was accepted at a port that several jobs share.
    AfterHandshake,
}

/// Listener for the connections of one job. `prepare` sets their options, and `deal` makes workers
/// from them.
pub(crate) struct JobListener<P, D> {
    entrance: Entrance,
    expected: Hello,
    permits: Permits,
    prepare: P,
    deal: D,
}

impl<P, D> JobListener<P, D>
where
    P: Fn(&Socket, Moment) -> Result<()> + Send + 'static,
    D: FnOnce(Arrivals) -> Result<Workers> + Send + 'static,
{
    /// Returns the passive end that expects `expected.count` connections: at `own` address, or
    /// without one at the agent's port.
    pub(crate) fn boxed(
        setup: &Setup<'_>,
        own: Option<SocketAddr>,
        device: Option<&str>,
        expected: Hello,
        prepare: P,
        deal: D,
    ) -> Result<Box<dyn Listener>> {
        let shared = own.map_or_else(|| Entrance::shared(setup, expected.count, device), |_| None);
        let entrance = match shared {
            Some(shared) => shared,
            None => {
                let address = own.unwrap_or_else(|| rendezvous::any_port(setup.local));
                let before = |socket: &Socket| prepare(socket, Moment::BeforeHandshake);
                Entrance::own(rendezvous::listen(address, device, before)?)?
            }
        };
        let permits = setup.permits.clone();
        Ok(Box::new(Self { entrance, expected, permits, prepare, deal }))
    }
}

impl<D> JobListener<fn(&Socket, Moment) -> Result<()>, D>
where
    D: FnOnce(Arrivals) -> Result<Workers> + Send + 'static,
{
    /// Returns the passive end that expects `expected.count` connections at `listener`, whose
    /// options are set.
    pub(crate) fn own(
        setup: &Setup<'_>,
        listener: TcpListener,
        expected: Hello,
        deal: D,
    ) -> Result<Box<dyn Listener>> {
        let (entrance, permits) = (Entrance::own(listener)?, setup.permits.clone());
        let prepare: fn(&Socket, Moment) -> Result<()> = |_, _| Ok(());
        Ok(Box::new(Self { entrance, expected, permits, prepare, deal }))
    }
}

impl<P, D> Listener for JobListener<P, D>
where
    P: Fn(&Socket, Moment) -> Result<()> + Send,
    D: FnOnce(Arrivals) -> Result<Workers> + Send,
{
    fn offer(&self) -> Offer {
        Offer { addresses: vec![self.entrance.address()] }
    }

    fn accept(self: Box<Self>, patience: Patience<'_>) -> Result<Workers> {
        let arrivals = rendezvous::accept(&self.entrance, self.expected, &self.permits, patience)?;
        if matches!(self.entrance, Entrance::Shared(..)) {
            // They inherit the options of the agent's listener, not of the job's.
            for stream in &arrivals.streams {
                (self.prepare)(&SockRef::from(stream), Moment::AfterHandshake)?;
            }
        }
        arrivals.give_go_ahead()?;
        (self.deal)(arrivals)
    }
}
