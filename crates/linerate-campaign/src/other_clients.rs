//! Servers of `linerate serve iperf3`, `serve netperf` and `serve stamp`, for clients and senders
//! that are other programs.

use std::cell::Cell;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use linerate_iperf3::serve::{Gate, ServeOptions, Served, serve};
use linerate_iperf3::session::Limits;
use linerate_load::Network;
use linerate_model::BitRate;
use linerate_netperf::serve as netperf;
use linerate_stamp::auth::Key;
use linerate_stamp::reflect::{ReflectEvent, reflect};
use linerate_sys::signal;

use crate::iperf3_users::Users;
use crate::{Failure, Result};

/// Server, as a person asked for it.
#[derive(Clone, Debug, Default)]
pub struct ServerQuestion {
    /// Address to listen on.
    pub address: Option<IpAddr>,
    /// Port.
    pub port: u16,
    /// Time to serve, if it is limited.
    pub duration: Option<Duration>,
    /// True to end after one test or session.
    pub is_one_off: bool,
    /// Hosts that may use it; all if there is none.
    pub allowed: Vec<Network>,
    /// Most tests at once of one host.
    pub per_client: Option<u16>,
    /// Longest load of a test.
    pub longest: Option<Duration>,
    /// Highest rate of a test.
    pub most_rate: Option<BitRate>,
    /// Users of an iperf3 server; without them everybody may use it.
    pub users: Option<Users>,
}

impl ServerQuestion {
    fn permits(&self, host: IpAddr) -> bool {
        self.allowed.is_empty() || self.allowed.iter().any(|network| network.contains(host))
    }

    /// Returns whether a server that began at `begun` has served for its time, or was interrupted.
    fn is_over(&self, begun: Instant) -> bool {
        self.duration.is_some_and(|duration| begun.elapsed() >= duration) || signal::interrupted()
    }

    /// Serves clients of iperf3. Each event goes to `on_event`.
    ///
    /// # Errors
    /// If the address cannot be listened on.
    pub fn serve_iperf3(
        mut self,
        on_event: impl Fn(&Served) + Send + Sync + 'static,
    ) -> Result<()> {
        let usual = ServeOptions::default();
        let mut limits = Limits { rate: self.most_rate.map(|rate| rate.0 as u64), ..usual.limits };
        limits.load = self.longest.unwrap_or(limits.load);
        let gate = self.users.take().map(Users::gate).transpose()?;
        let question = Arc::new(self);
        let permitting = Arc::clone(&question);
        let options = ServeOptions {
            address: question.address,
            port: question.port,
            limits,
            per_client: question.per_client.map_or(usual.per_client, usize::from),
            permits: Arc::new(move |client| permitting.permits(client)),
            admits: gate.map(|gate| Arc::new(gate) as Gate),
            ..usual
        };
        let (tell, stop) = question.watched(on_event, |event| matches!(event, Served::Ended(_)))?;
        serve(options, tell, stop).map_err(Failure::missing)
    }

    /// Returns functions for a server: it passes its events to the first, and ends when the second
    /// returns true.
    fn watched<E: 'static>(
        self: Arc<Self>,
        on_event: impl Fn(&E) + Send + Sync + 'static,
        is_end: fn(&E) -> bool,
    ) -> Result<(impl Fn(E) + Send + Sync + 'static, impl Fn() -> bool + Send + Sync + 'static)>
    {
        signal::note_interrupts().map_err(Failure::missing)?;
        let is_done = Arc::new(AtomicBool::new(false));
        let (done, is_one_off, begun) = (Arc::clone(&is_done), self.is_one_off, Instant::now());
        Ok((
            move |event| {
                on_event(&event);
                done.fetch_or(is_one_off && is_end(&event), Ordering::Relaxed);
            },
            move || is_done.load(Ordering::Relaxed) || self.is_over(begun),
        ))
    }

    /// Serves clients of netperf. Each event goes to `on_event`.
    ///
    /// # Errors
    /// If the address cannot be listened on.
    pub fn serve_netperf(
        self,
        on_event: impl Fn(&netperf::Served) + Send + Sync + 'static,
    ) -> Result<()> {
        let usual = netperf::ServeOptions::default();
        let question = Arc::new(self);
        let permitting = Arc::clone(&question);
        let options = netperf::ServeOptions {
            address: question.address,
            port: question.port,
            per_client: question.per_client.map_or(usual.per_client, usize::from),
            longest: question.longest.unwrap_or(usual.longest),
            permits: Arc::new(move |client| permitting.permits(client)),
            ..usual
        };
        let is_end = |event: &netperf::Served| matches!(event, netperf::Served::Ended(_));
        let (tell, stop) = question.watched(on_event, is_end)?;
        netperf::serve(options, tell, stop).map_err(Failure::missing)
    }

    /// Reflects the packets of senders of STAMP, with a key only those that have its digest. Each
    /// event goes to `on_event`.
    ///
    /// # Errors
    /// If the address cannot be listened on.
    pub fn reflect(
        &self,
        key: Option<&Key>,
        mut on_event: impl FnMut(&ReflectEvent),
    ) -> Result<()> {
        let every = Ipv4Addr::UNSPECIFIED.into();
        let address = SocketAddr::new(self.address.unwrap_or(every), self.port);
        signal::note_interrupts().map_err(Failure::missing)?;
        let begun = Instant::now();
        let is_done = Cell::new(false);
        let is_stopped = || is_done.get() || self.is_over(begun);
        let on_event = &mut |event| {
            is_done.set(self.is_one_off && matches!(event, ReflectEvent::Ended(_)));
            on_event(&event);
        };
        let permits = |sender| self.permits(sender);
        reflect(address, key, &permits, on_event, &is_stopped).map_err(|error| {
            let mut message = error.to_string();
            if error.cause.kind() == ErrorKind::PermissionDenied {
                message += ". Ports below 1024 need root: choose another one with -p";
            }
            Failure::missing(message)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_host_may_use_a_server_unless_networks_are_named() {
        let host = IpAddr::from([192, 0, 2, 7]);
        let permits = |allowed: &[&str]| {
            let allowed = allowed.iter().map(|text| text.parse().expect("a network")).collect();
            ServerQuestion { allowed, ..ServerQuestion::default() }.permits(host)
        };
        assert!(permits(&[]) && permits(&["198.51.100.1", "192.0.2.0/24"]));
        assert!(!permits(&["198.51.100.0/24"]));
    }

    #[test]
    fn a_server_ends_after_its_time() {
        let over = |duration| {
            let question = ServerQuestion { duration, ..ServerQuestion::default() };
            question.is_over(Instant::now())
        };
        assert_eq!(
            [None, Some(Duration::ZERO), Some(Duration::MAX)].map(over),
            [false, true, false]
        );
    }
}
