//! Destinations of a job's flows: only addresses that are known without the agent's word.
//!
//! An agent chooses the ports that it listens on, and nothing else. Its address is the endpoint's
//! address in the testbed, or the one at which its control connection was authenticated. Any other
//! address is refused, because an honest host would send to a third one.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Known addresses of an endpoint.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EndpointPlace {
    /// The endpoint's address in the testbed.
    pub(super) endpoint: Option<IpAddr>,
    /// The address at which its host's agent was reached.
    pub(super) control: Option<IpAddr>,
    /// True if both ends of the job are on that host.
    pub(super) is_local: bool,
}

/// Reason to refuse an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The offer names no address, and none is known.
    Nowhere,
    /// The offer names this address, which is not the endpoint's.
    Elsewhere(IpAddr),
}

impl EndpointPlace {
    /// Checks `address`. Completes a wildcard, which an agent offers that listens on every address
    /// of its host.
    pub(super) fn settle(self, address: &mut SocketAddr) -> Result<(), Refusal> {
        if let SocketAddr::V6(address) = address
            && !self.is_local
        {
            // The number of an interface means another one on another host.
            address.set_scope_id(0);
        }
        if address.ip().is_unspecified() {
            let loopback = if address.is_ipv4() {
                IpAddr::from(Ipv4Addr::LOCALHOST)
            } else {
                Ipv6Addr::LOCALHOST.into()
            };
            let known = if self.is_local { Some(loopback) } else { self.control };
            address.set_ip(known.ok_or(Refusal::Nowhere)?);
            return Ok(());
        }
        // An IPv4 address in IPv6 notation is the same host.
        let offered = address.ip().to_canonical();
        let is_known = [self.endpoint, self.control]
            .into_iter()
            .flatten()
            .any(|known| known.to_canonical() == offered);
        if is_known || (self.is_local && offered.is_loopback()) {
            Ok(())
        } else {
            Err(Refusal::Elsewhere(offered))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(place: EndpointPlace, offered: &str) -> Result<String, Refusal> {
        let mut address = offered.parse().expect("an address");
        place.settle(&mut address).map(|()| address.to_string())
    }

    fn ip(text: &str) -> Option<IpAddr> {
        Some(text.parse().expect("an address"))
    }

    #[test]
    fn a_wildcard_becomes_the_address_of_the_control_connection_or_loopback() {
        let far = EndpointPlace { control: ip("192.0.2.2"), ..EndpointPlace::default() };
        assert_eq!(settled(far, "0.0.0.0:4000").as_deref(), Ok("192.0.2.2:4000"));
        let here = EndpointPlace { is_local: true, ..EndpointPlace::default() };
        assert_eq!(settled(here, "[::]:4000").as_deref(), Ok("[::1]:4000"));
        assert_eq!(
            settled(here, "127.0.0.1:4000").as_deref(),
            Ok("127.0.0.1:4000"),
            "both ends are on that host"
        );
        assert!(settled(here, "203.0.113.9:53").is_err(), "but not there");
        assert_eq!(settled(EndpointPlace::default(), "0.0.0.0:4000"), Err(Refusal::Nowhere));
    }

    #[test]
    fn the_number_of_an_interface_stays_on_its_host() {
        let ip = ip("fe80::1");
        for (is_local, same) in [(false, "[fe80::1]:4000"), (true, "[fe80::1%7]:4000")] {
            let place = EndpointPlace { endpoint: ip, control: ip, is_local };
            assert_eq!(settled(place, "[fe80::1%7]:4000").as_deref(), Ok(same));
        }
    }

    #[test]
    fn an_address_that_nobody_configured_or_authenticated_is_refused() {
        let place =
            EndpointPlace { endpoint: ip("198.18.0.2"), control: ip("192.0.2.2"), is_local: false };
        assert_eq!(settled(place, "198.18.0.2:4000").as_deref(), Ok("198.18.0.2:4000"));
        assert_eq!(settled(place, "192.0.2.2:4000").as_deref(), Ok("192.0.2.2:4000"));
        assert!(settled(place, "[::ffff:198.18.0.2]:4000").is_ok(), "the same address");
        for elsewhere in ["203.0.113.9:53", "127.0.0.1:4000", "224.0.0.1:4000", "255.255.255.255:9"]
        {
            let refused = settled(place, elsewhere).expect_err(elsewhere);
            assert!(matches!(refused, Refusal::Elsewhere(_)), "{elsewhere}");
        }
        let far = EndpointPlace { control: ip("192.0.2.2"), ..EndpointPlace::default() };
        assert_eq!(
            settled(far, "[2001:db8::9]:53"),
            Err(Refusal::Elsewhere("2001:db8::9".parse().expect("an address")))
        );
    }
}
