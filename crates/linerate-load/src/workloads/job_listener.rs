//! Passive end of workloads whose connections arrive at one TCP address and prove the trial's
//! secret before they carry load.

use std::net::TcpListener;
use std::time::Duration;

use super::rendezvous::{self, Arrivals, Hello};
use crate::{Listener, LoadError, Offer, Permits, Setup, Worker};

/// Listener for the connections of one job. `deal` makes workers from them.
pub(crate) struct JobListener<D> {
    listener: TcpListener,
    offer: Offer,
    expected: Hello,
    permits: Permits,
    deal: D,
}

impl<D> JobListener<D>
where
    D: FnOnce(TcpListener, Arrivals) -> Result<Vec<Box<dyn Worker>>, LoadError> + Send + 'static,
{
    /// Returns the passive end that expects `expected.count` connections at `listener`.
    pub(crate) fn boxed(
        setup: &Setup<'_>,
        listener: TcpListener,
        expected: Hello,
        deal: D,
    ) -> Box<dyn Listener> {
        let offer = Offer { addresses: listener.local_addr().into_iter().collect() };
        Box::new(Self { listener, offer, expected, permits: setup.permits.clone(), deal })
    }
}

impl<D> Listener for JobListener<D>
where
    D: FnOnce(TcpListener, Arrivals) -> Result<Vec<Box<dyn Worker>>, LoadError> + Send,
{
    fn offer(&self) -> Offer {
        self.offer.clone()
    }

    fn accept(self: Box<Self>, patience: Duration) -> Result<Vec<Box<dyn Worker>>, LoadError> {
        let arrivals = rendezvous::accept(&self.listener, self.expected, &self.permits, patience)?;
        arrivals.give_go_ahead()?;
        (self.deal)(self.listener, arrivals)
    }
}
