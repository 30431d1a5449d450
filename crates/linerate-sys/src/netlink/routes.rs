//! Routes: the route to an address, and its `window` and `initrwnd` metrics (rtnetlink(7),
//! ip-route(8)).
//!
//! A route is stored as the kernel sent it. Replacing it changes the two metrics and nothing else,
//! and restoring it restores every attribute. `window` is the largest window that a connection over
//! the route advertises, in bytes (`RTAX_WINDOW`). `initrwnd` is the first window, in segments
//! (`RTAX_INITRWND`). Layouts: linux/rtnetlink.h.
//!
//! A connection that is already open keeps the metrics with which it was opened. Next hops of a
//! multipath route are read and stored without change.

use std::fmt::Write as _;
use std::net::IpAddr;

use rustix::net;

use super::RouteSocket;
use super::attribute::{align, attributes, half, push, word};
use super::links::ip_address;
use super::message::{FLAG_ACK, FLAG_REPLACE};
use super::socket::PATIENCE;
use crate::{Result, SysError};

const NEW_ROUTE: u16 = 24;
const GET_ROUTE: u16 = 26;

/// `struct rtmsg`.
const RTMSG: usize = 12;
/// Requests the entry of the routing table instead of the resolved route (`RTM_F_FIB_MATCH`, Linux
/// 4.13).
const FIB_MATCH: u32 = 0x2000;
/// The only next-hop flag that a request may contain (`RTNH_F_ONLINK`); the others report a state.
const ON_LINK: u32 = 4;
/// Main routing table, the default of `ip route`.
const TABLE_MAIN: u32 = 254;

const ATTRIBUTE_DESTINATION: u16 = 1;
const ATTRIBUTE_SOURCE: u16 = 2;
const ATTRIBUTE_DEVICE: u16 = 4;
const ATTRIBUTE_GATEWAY: u16 = 5;
const ATTRIBUTE_PRIORITY: u16 = 6;
const ATTRIBUTE_PREFERRED_SOURCE: u16 = 7;
const ATTRIBUTE_METRICS: u16 = 8;
const ATTRIBUTE_MULTIPATH: u16 = 9;
const ATTRIBUTE_TABLE: u16 = 15;

const METRIC_WINDOW: u16 = 3;
const METRIC_INITIAL_WINDOW: u16 = 14;

/// Entry of a routing table, as the kernel sent it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// `struct rtmsg` and its attributes.
    message: Vec<u8>,
}

/// Next hop of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextHop {
    /// Index of the device.
    pub device: u32,
    /// Next router; `None` if the destinations are neighbours.
    pub gateway: Option<IpAddr>,
}

impl Route {
    /// Returns the route from the bytes of [`Route::as_bytes`]; `None` if they are malformed.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let family = *bytes.first()?;
        let known = [net::AddressFamily::INET, net::AddressFamily::INET6]
            .iter()
            .any(|f| f.as_raw() == u16::from(family));
        (known && bytes.len() >= RTMSG).then(|| Self { message: bytes.to_vec() })
    }

    /// Returns the kernel's message, to store until the route is restored.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.message
    }

    /// Returns the index of the route's device; `None` for a multipath route.
    #[must_use]
    pub fn device(&self) -> Option<u32> {
        self.attribute(ATTRIBUTE_DEVICE).and_then(|value| word(value, 0))
    }

    /// Returns the next hop, or all active next hops of a multipath route.
    #[must_use]
    pub fn next_hops(&self) -> Vec<NextHop> {
        match (self.device(), self.attribute(ATTRIBUTE_MULTIPATH)) {
            (Some(device), _) => vec![NextHop { device, gateway: self.gateway() }],
            (None, Some(hops)) => next_hops(hops),
            (None, None) => Vec::new(),
        }
    }

    /// Returns true for a route to this host itself: its packets use the loopback, whatever device
    /// it names (`RTN_LOCAL`).
    #[must_use]
    pub fn is_local(&self) -> bool {
        const LOCAL: u8 = 2;
        self.message[7] == LOCAL
    }

    /// Returns the next router; `None` if the destinations are neighbours.
    #[must_use]
    pub fn gateway(&self) -> Option<IpAddr> {
        self.address(ATTRIBUTE_GATEWAY)
    }

    /// Returns the largest window over this route, bytes; 0 if not set.
    #[must_use]
    pub fn window(&self) -> u32 {
        self.metric(METRIC_WINDOW)
    }

    /// Returns the first window over this route, segments; 0 if not set.
    #[must_use]
    pub fn initial_window(&self) -> u32 {
        self.metric(METRIC_INITIAL_WINDOW)
    }

    /// Returns true if both are the same entry, whatever their metrics.
    #[must_use]
    pub fn is_same_entry(&self, other: &Self) -> bool {
        self.with_windows(0, 0).entry() == other.with_windows(0, 0).entry()
    }

    /// Returns the same route with these metrics; 0 removes a metric.
    #[must_use]
    pub fn with_windows(&self, window: u32, initial: u32) -> Self {
        let mut metrics = Vec::new();
        let old = attributes(self.attribute(ATTRIBUTE_METRICS).unwrap_or_default());
        for (kind, value) in
            old.filter(|(kind, _)| ![METRIC_WINDOW, METRIC_INITIAL_WINDOW].contains(kind))
        {
            push(&mut metrics, kind, value);
        }
        for (kind, value) in [(METRIC_WINDOW, window), (METRIC_INITIAL_WINDOW, initial)] {
            if value != 0 {
                push(&mut metrics, kind, &value.to_ne_bytes());
            }
        }
        let mut message = self.message[..RTMSG].to_vec();
        for (kind, value) in self.attributes().filter(|(kind, _)| *kind != ATTRIBUTE_METRICS) {
            push(&mut message, kind, value);
        }
        if !metrics.is_empty() {
            push(&mut message, ATTRIBUTE_METRICS, &metrics);
        }
        Self { message }
    }

    /// Returns the arguments of `ip route change` without the metrics: `198.18.0.0/24 dev eth0
    /// proto kernel scope link src 198.18.0.2`.
    #[must_use]
    pub fn spelled(&self, device: &str) -> String {
        let mut text = match (self.address(ATTRIBUTE_DESTINATION), self.message[1]) {
            (Some(address), prefix) => format!("{address}/{prefix}"),
            (None, _) => "default".to_owned(),
        };
        let mut add = |word: &str, value: &dyn std::fmt::Display| {
            let _infallible = write!(text, " {word} {value}");
        };
        if let Some(gateway) = self.address(ATTRIBUTE_GATEWAY) {
            add("via", &gateway);
        }
        add("dev", &device);
        match self.message[5] {
            0 | 3 => {}
            2 => add("proto", &"kernel"),
            4 => add("proto", &"static"),
            9 => add("proto", &"ra"),
            16 => add("proto", &"dhcp"),
            other => add("proto", &other),
        }
        match self.message[6] {
            253 => add("scope", &"link"),
            254 => add("scope", &"host"),
            _ => {}
        }
        if let Some(source) = self.address(ATTRIBUTE_PREFERRED_SOURCE) {
            add("src", &source);
        }
        if let Some(priority) = self.attribute(ATTRIBUTE_PRIORITY).and_then(|value| word(value, 0))
        {
            add("metric", &priority);
        }
        let table = self
            .attribute(ATTRIBUTE_TABLE)
            .and_then(|value| word(value, 0))
            .unwrap_or(self.message[4].into());
        if table != TABLE_MAIN {
            add("table", &table);
        }
        text
    }

    fn attributes(&self) -> impl Iterator<Item = (u16, &[u8])> {
        attributes(&self.message[RTMSG..])
    }

    fn attribute(&self, wanted: u16) -> Option<&[u8]> {
        self.attributes().find(|(kind, _)| *kind == wanted).map(|(_, value)| value)
    }

    fn metric(&self, wanted: u16) -> u32 {
        let metrics = self.attribute(ATTRIBUTE_METRICS).unwrap_or_default();
        attributes(metrics)
            .find(|(kind, _)| *kind == wanted)
            .and_then(|(_, value)| word(value, 0))
            .unwrap_or(0)
    }

    fn address(&self, wanted: u16) -> Option<IpAddr> {
        ip_address(self.attribute(wanted)?)
    }

    /// Returns the identity of the entry: everything but metrics, flags and read-only attributes
    /// (RTA_CACHEINFO, RTA_PREF).
    fn entry(&self) -> (Vec<u8>, Vec<(u16, &[u8])>) {
        const IDENTIFYING: [u16; 6] = [
            ATTRIBUTE_DESTINATION,
            ATTRIBUTE_DEVICE,
            ATTRIBUTE_GATEWAY,
            ATTRIBUTE_PRIORITY,
            ATTRIBUTE_PREFERRED_SOURCE,
            ATTRIBUTE_TABLE,
        ];
        let kept = self.attributes().filter(|(kind, _)| IDENTIFYING.contains(kind));
        (self.message[..8].to_vec(), kept.collect())
    }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// Returns the active members of `RTA_MULTIPATH`, each a `struct rtnexthop` with attributes.
fn next_hops(mut bytes: &[u8]) -> Vec<NextHop> {
    /// `struct rtnexthop`: length, flags, weight, index of the device.
    const RTNEXTHOP: usize = 8;
    /// `RTNH_F_DEAD` and `RTNH_F_LINKDOWN`.
    const UNUSED: u8 = 1 | 16;
    let mut found = Vec::new();
    while let Some((length, device)) = half(bytes, 0).map(usize::from).zip(word(bytes, 4)) {
        let Some(inside) = bytes.get(RTNEXTHOP..length) else { break };
        let gateway = attributes(inside).find(|(kind, _)| *kind == ATTRIBUTE_GATEWAY);
        if bytes[2] & UNUSED == 0 {
            found.push(NextHop {
                device,
                gateway: gateway.and_then(|(_, octets)| ip_address(octets)),
            });
        }
        bytes = bytes.get(align(length)..).unwrap_or_default();
    }
    found
}

impl RouteSocket {
    /// Visits every entry of every routing table.
    ///
    /// # Errors
    /// If the kernel refuses or does not answer.
    pub fn routes(&mut self, mut visit: impl FnMut(Route)) -> Result<()> {
        // An rtmsg of zeros selects both families and every table.
        self.dump(GET_ROUTE, &[0; RTMSG], "routes", |payload| {
            if let Some(route) = Route::from_bytes(payload) {
                visit(route);
            }
        })
    }

    /// Returns the route for packets from this namespace to `address`.
    ///
    /// # Errors
    /// If there is none, or the kernel is older than 4.13.
    pub fn route_to(&mut self, address: IpAddr) -> Result<Route> {
        self.look_up(address, None, FIB_MATCH)
    }

    /// Returns the resolved route to `address` for packets from `source`. For a multipath route
    /// this is the next hop if addresses alone decide (`net.ipv4.fib_multipath_hash_policy` is 0).
    ///
    /// # Errors
    /// If there is none, or the kernel cannot resolve it.
    pub fn route_between(&mut self, source: IpAddr, address: IpAddr) -> Result<Route> {
        self.look_up(address, Some(source), 0)
    }

    fn look_up(&mut self, address: IpAddr, source: Option<IpAddr>, flags: u32) -> Result<Route> {
        let object = || format!("route to {address}");
        let family =
            if address.is_ipv4() { net::AddressFamily::INET } else { net::AddressFamily::INET6 };
        let bytes = octets(address);
        let mut body = vec![0; RTMSG];
        body[0] = family.as_raw() as u8;
        body[1] = (bytes.len() * 8) as u8;
        body[8..12].copy_from_slice(&flags.to_ne_bytes());
        push(&mut body, ATTRIBUTE_DESTINATION, &bytes);
        if let Some(source) = source.map(octets).filter(|source| source.len() == bytes.len()) {
            body[2] = (source.len() * 8) as u8;
            push(&mut body, ATTRIBUTE_SOURCE, &source);
        }
        let answer = self.socket.ask(GET_ROUTE, 0, &[&body], PATIENCE);
        let answer = answer.map_err(|unanswered| unanswered.during("look up", object()))?;
        Route::from_bytes(&answer).ok_or_else(|| {
            let cause = std::io::Error::other("the kernel's answer has no route");
            SysError::new("look up", object(), cause)
        })
    }

    /// Replaces an existing entry of the routing table by `route`.
    ///
    /// # Errors
    /// If there is no such entry, or it cannot be changed (needs CAP_NET_ADMIN).
    pub fn replace_route(&mut self, route: &Route) -> Result<()> {
        let mut body = route.message.clone();
        let flags = word(&body, 8).unwrap_or(0) & ON_LINK;
        body[8..12].copy_from_slice(&flags.to_ne_bytes());
        let object = || {
            route.spelled(&route.device().map_or_else(|| "?".to_owned(), |index| index.to_string()))
        };
        let done = self.socket.ask(NEW_ROUTE, FLAG_ACK | FLAG_REPLACE, &[&body], PATIENCE);
        done.map(drop).map_err(|unanswered| unanswered.during("change route", object()))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    /// `198.18.0.0/24 dev 5 proto kernel scope link src 198.18.0.2`, table main, `window 9000`,
    /// `mtu 1400`.
    fn route() -> Route {
        let mut message = vec![2, 24, 0, 0, 254, 2, 253, 1, 0, 0, 0, 0];
        push(&mut message, ATTRIBUTE_TABLE, &254_u32.to_ne_bytes());
        push(&mut message, ATTRIBUTE_DESTINATION, &[198, 18, 0, 0]);
        let mut metrics = Vec::new();
        push(&mut metrics, 2, &1400_u32.to_ne_bytes());
        push(&mut metrics, METRIC_WINDOW, &9000_u32.to_ne_bytes());
        push(&mut message, ATTRIBUTE_METRICS, &metrics);
        push(&mut message, ATTRIBUTE_PREFERRED_SOURCE, &[198, 18, 0, 2]);
        push(&mut message, ATTRIBUTE_DEVICE, &5_u32.to_ne_bytes());
        Route::from_bytes(&message).unwrap()
    }

    #[test]
    fn windows_are_read_and_replaced_and_other_metrics_stay() {
        let old = route();
        assert_eq!((old.window(), old.initial_window(), old.device()), (9000, 0, Some(5)));
        let new = old.with_windows(7300, 5);
        assert_eq!((new.window(), new.initial_window(), new.metric(2)), (7300, 5, 1400));
        assert!(new.is_same_entry(&old));
        let none = new.with_windows(0, 0);
        assert_eq!((none.window(), none.initial_window(), none.metric(2)), (0, 0, 1400));
        assert_eq!(Route::from_bytes(new.as_bytes()), Some(new));
    }

    #[test]
    fn a_route_is_spelled_as_ip_route_takes_it() {
        assert_eq!(
            route().spelled("eth0"),
            "198.18.0.0/24 dev eth0 proto kernel scope link src 198.18.0.2"
        );
        let mut default = vec![2, 0, 0, 0, 254, 16, 0, 1, 0, 0, 0, 0];
        push(&mut default, ATTRIBUTE_GATEWAY, &[192, 0, 2, 1]);
        push(&mut default, ATTRIBUTE_PRIORITY, &100_u32.to_ne_bytes());
        let default = Route::from_bytes(&default).unwrap();
        assert_eq!(default.spelled("eth1"), "default via 192.0.2.1 dev eth1 proto dhcp metric 100");
        assert_eq!(
            (default.gateway(), route().gateway()),
            (Some(Ipv4Addr::new(192, 0, 2, 1).into()), None)
        );
        assert!(!default.is_same_entry(&route()));
    }

    #[test]
    fn a_multipath_route_has_its_next_hops_without_dead_ones() {
        let hop = |device: u32, flags: u8, gateway: &[u8]| {
            let mut inside = Vec::new();
            push(&mut inside, ATTRIBUTE_GATEWAY, gateway);
            let mut bytes = ((8 + inside.len()) as u16).to_ne_bytes().to_vec();
            bytes.extend([flags, 0]);
            bytes.extend(device.to_ne_bytes());
            [bytes, inside].concat()
        };
        let hops = [
            hop(5, 0, &[198, 18, 0, 9]),
            hop(6, 16, &[198, 18, 1, 9]),
            hop(7, 0, &[198, 18, 2, 9]),
        ]
        .concat();
        let mut message = vec![2, 24, 0, 0, 254, 3, 0, 1, 0, 0, 0, 0];
        push(&mut message, ATTRIBUTE_MULTIPATH, &hops);
        let route = Route::from_bytes(&message).unwrap();
        let found: Vec<_> = route
            .next_hops()
            .iter()
            .map(|hop| (hop.device, hop.gateway.unwrap().to_string()))
            .collect();
        assert_eq!(found, [(5, "198.18.0.9".to_owned()), (7, "198.18.2.9".to_owned())]);
        assert_eq!(route.device(), None);
        assert_eq!(super::tests::route().next_hops(), [NextHop { device: 5, gateway: None }]);
        (0..hops.len()).for_each(|end| assert!(next_hops(&hops[..end]).len() <= 2));
        assert_eq!(next_hops(&[0; 64]), [], "a length of zero ends the walk");
    }

    #[test]
    fn any_bytes_are_a_route_or_none_and_never_a_panic() {
        let whole = route();
        for end in 0..whole.message.len() {
            if let Some(route) = Route::from_bytes(&whole.message[..end]) {
                let _ = (route.spelled("x"), route.with_windows(1, 1), route.window());
            }
        }
        assert_eq!(Route::from_bytes(&[9; 40]), None);
    }

    #[test]
    fn the_way_to_loopback_leads_out_of_loopback() {
        let mut socket = RouteSocket::open().unwrap();
        let route = match socket.route_to(Ipv4Addr::LOCALHOST.into()) {
            Ok(route) => route,
            Err(error) => return println!("skipped: lo is down in this namespace: {error}"),
        };
        assert_eq!(route.device(), Some(1));
        assert!(route.spelled("lo").starts_with("127."), "{}", route.spelled("lo"));
    }
}
