//! Interface of one end, and checks that it is fit for test frames.

use std::net::{IpAddr, SocketAddr};

use linerate_model::Endpoint;
use linerate_packet::frame::{FCS_BYTES, MacAddress, mtu_for};
use linerate_sys::netlink::{Link, RouteSocket};
use linerate_sys::netns;

use super::{FramesParams, Mode};
use crate::{LoadError, Permits, Result};

/// Prefix of a lab's namespaces.
const LAB_PREFIX: &str = "lr-";
/// Flags of net/if.h: administratively up, loopback, carrier (`IFF_LOWER_UP`: `IFF_RUNNING` follows
/// up to a second later).
const UP: u32 = 1;
const LOOPBACK: u32 = 8;
const CARRIER: u32 = 0x1_0000;

/// Interface on which frames leave and arrive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Interface {
    pub(super) name: String,
    pub(super) index: u32,
    pub(super) mac: MacAddress,
    /// IP MTU, bytes.
    pub(super) mtu: u32,
    /// True if control connections use one of its addresses.
    pub(super) carries_control: bool,
    flags: u32,
}

impl Interface {
    /// The one `params` name, or the endpoint's, or that of its address, or the one that leads
    /// `toward` the other end.
    ///
    /// # Errors
    /// If it is not known, does not exist, or carries no Ethernet frames.
    pub(super) fn find(
        params: &FramesParams,
        local: &Endpoint,
        toward: Option<SocketAddr>,
    ) -> Result<Self> {
        let mut kernel = RouteSocket::open()?;
        // A name given in the plan is for this job, so it wins over the testbed's.
        let named = params.options.device(local)?.or(local.device.as_deref());
        let index = match (named, local.address) {
            (Some(_), _) => None,
            (None, Some(address)) => index_of(&mut kernel, address)?,
            (None, None) => match toward {
                Some(other) => kernel.route_to(other.ip())?.device(),
                None => None,
            },
        };
        let mut found = None;
        // Visited to the end: a netlink dump cannot be abandoned half-way.
        kernel.links(|link| {
            if Some(link.index) == index || Some(link.name.as_str()) == named {
                found = Some(link);
            }
        })?;
        let link = found.ok_or_else(|| LoadError::Unsupported {
            what: match named {
                Some(name) => format!("frames at interface {name}"),
                None => format!("frames at endpoint `{}`", local.name),
            },
            why: "no such interface is known here (name it by `device`, or give the endpoint an \
                address of one)"
                .into(),
        })?;
        Self::of(link)
    }

    fn of(link: Link) -> Result<Self> {
        let Link { name, index, address, mtu, flags, .. } = link;
        let mac = address.map(MacAddress).ok_or_else(|| LoadError::Unsupported {
            what: format!("frames at interface {name}"),
            why: "it has no Ethernet address: only Ethernet and the loopback carry frames".into(),
        })?;
        Ok(Self { name, index, mac, mtu, carries_control: false, flags })
    }

    /// Notes whether one of the addresses that `control` connections use belongs to it.
    ///
    /// # Errors
    /// If the kernel does not list its addresses.
    pub(super) fn beside(mut self, control: &[IpAddr]) -> Result<Self> {
        if !control.is_empty() {
            RouteSocket::open()?.addresses(|one| {
                self.carries_control |= one.index == self.index && control.contains(&one.address);
            })?;
        }
        Ok(self)
    }

    /// Returns true if it leads to this host only.
    pub(super) fn is_loopback(&self) -> bool {
        self.flags & LOOPBACK != 0
    }

    /// Checks that the owner of this host permits raw frames here; a lab's interfaces always permit
    /// them.
    ///
    /// # Errors
    /// If the owner does not.
    pub(super) fn raw_frames(&self, permits: &Permits) -> Result<()> {
        raw_frames(permits, &self.name)
    }

    /// Checks that frames of `params` can and may be sent here.
    ///
    /// # Errors
    /// If it is outside of a lab without permission, if it is down or without carrier, or if its
    /// MTU is too small.
    pub(super) fn check(&self, params: &FramesParams) -> Result<()> {
        self.is_fit(params, is_in_lab())
    }

    fn is_fit(&self, params: &FramesParams, is_lab: bool) -> Result<()> {
        let refuse = |why: String| {
            Err(LoadError::Unsupported { what: format!("frames at interface {}", self.name), why })
        };
        // Checked before everything else, so that no frame ever leaves without permission.
        if !(is_lab || self.is_loopback() || params.allow_outside_lab) {
            return refuse(
                "it belongs to no lab, and such load can take a network down (RFC 6815); if \
                    nothing else uses this path, say `allow_outside_lab = true`"
                    .into(),
            );
        }
        if self.carries_control && params.mode == Mode::XdpZeroCopy {
            return refuse(format!(
                "control connections use {0}, and its driver interrupts it for mode \
                    xdp_zero_copy, which ends the campaign; reach the agent over another \
                    interface, or use mode xdp",
                self.name
            ));
        }
        if self.flags & UP == 0 {
            return refuse(format!("it is down (`ip link set {} up`)", self.name));
        }
        if self.flags & CARRIER == 0 {
            return refuse(
                "it has no carrier (is the other end of its link connected, and up?)".into(),
            );
        }
        let (size, n_tags) = (params.frame_size.sizes().largest(), params.tags().len());
        let needed = mtu_for(size, n_tags);
        if needed > self.mtu as usize {
            let fits = size - (needed - self.mtu as usize);
            return refuse(format!(
                "frames of {size} B ({FCS_BYTES} B of frame check sequence included) need an MTU \
                    of {needed}, it has {}: set it \
                 (`ip link set {} mtu {needed}`), or send frames of {fits} B at most",
                self.mtu, self.name
            ));
        }
        Ok(())
    }

    /// Returns the destination Ethernet address of frames to `destination`: the one that the kernel
    /// found for it, or for the router on the way, when the companions were opened. `peer` is the
    /// address that the other end reports. Trusted alone, it could name a third host on this link.
    ///
    /// # Errors
    /// If there is no route, the address is not known, or the other end names another address than
    /// the kernel.
    pub(super) fn next_hop(&self, destination: IpAddr, peer: MacAddress) -> Result<MacAddress> {
        let mut kernel = RouteSocket::open()?;
        let gateway = kernel.route_to(destination)?.gateway();
        // The loopback has no neighbours; frames are addressed to itself.
        if self.is_loopback() && gateway.is_none() {
            return Ok(self.mac);
        }
        let neighbour = gateway.unwrap_or(destination.to_canonical());
        let mut known = None;
        kernel.neighbours(|other| {
            if (other.index, other.address) == (self.index, neighbour) {
                known = Some(MacAddress(other.hardware));
            }
        })?;
        let refuse =
            |why| Err(LoadError::Unsupported { what: format!("frames to {destination}"), why });
        match known {
            // Behind a router the kernel finds the router, and the peer's own address says nothing.
            Some(known) if gateway.is_some() || known == peer => Ok(known),
            Some(known) => refuse(format!(
                "the other end says that its Ethernet address is {peer}, but {} finds \
                    {destination} at {known} (does another interface of \
                 that host, or a proxy, answer for this address?)",
                self.name
            )),
            None => refuse(format!(
                "the Ethernet address of {neighbour} is not known at {} (does `ping {neighbour}` \
                    find it?)",
                self.name
            )),
        }
    }
}

/// Checks that raw frames may be sent at the interface called `name`: `permits` allow it, or this
/// thread is in a lab.
pub(in crate::workloads) fn raw_frames(permits: &Permits, name: &str) -> Result<()> {
    if is_in_lab() { Ok(()) } else { permits.raw_frames(name) }
}

/// Returns true if this thread is in a namespace of a lab, which has a lab's name and is stored as
/// labs store theirs. The name alone proves nothing: it may belong to any namespace, also one that
/// leads to other hosts.
fn is_in_lab() -> bool {
    netns::name().is_some_and(|name| name.starts_with(LAB_PREFIX) && netns::is_kept(&name))
}

fn index_of(kernel: &mut RouteSocket, address: IpAddr) -> Result<Option<u32>> {
    let mut index = None;
    kernel.addresses(|found| {
        if found.address == address.to_canonical() {
            index = Some(found.index);
        }
    })?;
    Ok(index)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn interface(flags: u32, mtu: u32) -> Interface {
        let (name, mac) = ("eth7".into(), MacAddress([2; 6]));
        Interface { name, index: 7, mac, mtu, carries_control: false, flags }
    }

    fn params(table: serde_json::Value) -> FramesParams {
        crate::workloads::parameters::from_table(table)
    }

    fn why(interface: &Interface, table: serde_json::Value, is_lab: bool) -> String {
        interface.is_fit(&params(table), is_lab).expect_err("refused").to_string()
    }

    #[test]
    fn load_outside_of_a_lab_is_refused_unless_it_is_allowed_or_goes_nowhere() {
        let outside = interface(UP | CARRIER, 1500);
        let said = why(&outside, json!({}), false);
        assert!(
            said.contains("eth7")
                && said.contains("RFC 6815")
                && said.contains("allow_outside_lab = true"),
            "{said}"
        );
        assert!(outside.is_fit(&params(json!({})), true).is_ok());
        assert!(outside.is_fit(&params(json!({ "allow_outside_lab": true })), false).is_ok());
        assert!(interface(UP | CARRIER | LOOPBACK, 1500).is_fit(&params(json!({})), false).is_ok());
    }

    #[test]
    fn a_link_that_is_down_without_carrier_or_too_narrow_is_refused_with_the_remedy() {
        assert!(why(&interface(CARRIER, 1500), json!({}), true).contains("ip link set eth7 up"));
        assert!(why(&interface(UP, 1500), json!({}), true).contains("no carrier"));
        let narrow = interface(UP | CARRIER, 1500);
        assert!(narrow.is_fit(&params(json!({ "frame_size": "1518 B" })), true).is_ok());
        let said = why(&narrow, json!({ "frame_size": "1519 B" }), true);
        assert!(
            said.contains("MTU of 1501, it has 1500") && said.contains("1518 B at most"),
            "{said}"
        );
        assert!(narrow.is_fit(&params(json!({ "frame_size": "1522 B", "vlan": 5 })), true).is_ok());
        assert!(
            why(&interface(UP | CARRIER, 500), json!({ "frame_size": "imix" }), true)
                .contains("MTU of 1500")
        );
    }

    #[test]
    fn an_interface_with_control_connections_is_not_taken_away_from_them() {
        let endpoint = Endpoint { device: Some("lo".into()), ..Endpoint::named("a", "h") };
        let found = |control: &[&str]| {
            let control: Vec<IpAddr> =
                control.iter().map(|address| address.parse().expect("an address")).collect();
            Interface::find(&params(json!({})), &endpoint, None)
                .and_then(|found| found.beside(&control))
                .expect("every namespace has lo")
        };
        let other = found(&["192.0.2.1"]);
        let taken = json!({ "mode": "xdp_zero_copy" });
        assert!(!other.carries_control && other.is_fit(&params(taken.clone()), true).is_ok());
        let own = found(&["192.0.2.1", "127.0.0.1"]);
        assert!(own.is_fit(&params(json!({ "mode": "xdp" })), true).is_ok());
        let said = why(&own, taken, true);
        assert!(said.contains("control connections use lo") && said.contains("mode xdp"), "{said}");
    }

    #[test]
    fn the_loopback_is_found_by_name_and_by_address() {
        let local = |address: Option<&str>, device: Option<&str>| Endpoint {
            address: address.map(|address| address.parse().expect("an address")),
            device: device.map(str::to_owned),
            ..Endpoint::named("a", "h")
        };
        let find = |endpoint: &Endpoint| Interface::find(&params(json!({})), endpoint, None);
        let by_name = find(&local(None, Some("lo"))).expect("every namespace has lo");
        assert!(by_name.is_loopback() && by_name.mac == MacAddress([0; 6]));
        assert_eq!(find(&local(Some("127.0.0.1"), None)).expect("lo has it"), by_name);
        let said = find(&local(None, Some("none7"))).expect_err("no such").to_string();
        assert!(said.contains("interface none7"), "{said}");
        let said = find(&local(None, None)).expect_err("which one?").to_string();
        assert!(said.contains("endpoint `a`"), "{said}");
    }
}
