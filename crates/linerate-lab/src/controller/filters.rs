//! Filters of a channel at layer 2: they select the frames for the management controller (DSP0222,
//! commands 0B-13).
//!
//! A frame passes if both its VLAN tag and its destination are enabled. A destination is an enabled
//! address, or a broadcast or multicast of an enabled kind. Frames are whole Ethernet frames
//! without FCS. Not seen: tags inside tags, IPv6 extension headers, fragments.

/// Address filters for single stations, numbered from 1, and for groups, numbered after them.
pub(super) const N_UNICAST: usize = 2;
pub(super) const N_MULTICAST: usize = 2;
const N_ADDRESSES: usize = N_UNICAST + N_MULTICAST;
/// VLAN filters, numbered from 1.
pub(super) const N_VLANS: usize = 8;
/// Known kinds of broadcast and multicast, as bits of the commands' settings.
pub(super) const BROADCAST_KINDS: u32 = 0xf;
pub(super) const MULTICAST_KINDS: u32 = 0x3f;

const TYPE_AT: usize = 12;
const TAG_LENGTH: usize = 4;
const TYPE_VLAN: u16 = 0x8100;
const TYPE_ARP: u16 = 0x0806;
const TYPE_IPV4: u16 = 0x0800;
const TYPE_IPV6: u16 = 0x86dd;
const VLAN_ID: u16 = 0x0fff;
const PROTOCOL_UDP: u8 = 17;
const PROTOCOL_ICMPV6: u8 = 58;
const BROADCAST: [u8; 6] = [0xff; 6];
// Bit 0 of the first byte marks a group address (IEEE 802 clause 8.2).
const GROUP: u8 = 1;

/// VLAN mode: the frames that pass by their tag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum VlanMode {
    /// Frames without a tag.
    #[default]
    Untagged,
    /// Frames with an enabled tag.
    Wanted,
    /// Frames without a tag, and those with an enabled tag.
    WantedAndUntagged,
    /// All frames.
    Any,
}

impl VlanMode {
    /// Returns the mode with this `number` in Enable VLAN.
    pub(super) fn numbered(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::Wanted),
            2 => Some(Self::WantedAndUntagged),
            3 => Some(Self::Any),
            _ => None,
        }
    }

    /// Returns its number in Get Parameters.
    pub(super) fn number(self) -> u8 {
        match self {
            Self::Untagged => 0,
            Self::Wanted => 1,
            Self::WantedAndUntagged => 2,
            Self::Any => 3,
        }
    }
}

/// Filters of one channel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Filters {
    /// Addresses, and true for each that is enabled.
    pub(super) addresses: [([u8; 6], bool); N_ADDRESSES],
    /// VLAN tags, and true for each that is enabled.
    pub(super) vlans: [(u16, bool); N_VLANS],
    pub(super) vlan_mode: VlanMode,
    /// Kinds of broadcast that pass. `None`: all.
    pub(super) broadcast: Option<u32>,
    /// Kinds of multicast that pass. `None`: all.
    pub(super) multicast: Option<u32>,
}

/// Returns the flags of enabled filters, the first in bit 0.
pub(super) fn enabled(filters: impl Iterator<Item = bool>) -> u16 {
    filters
        .enumerate()
        .filter(|(_, enabled)| *enabled)
        .fold(0, |flags, (index, _)| flags | 1 << index)
}

impl Filters {
    /// Returns whether `frame` passes.
    pub(super) fn admit(&self, frame: &[u8]) -> bool {
        let Some(parts) = Parts::of(frame) else { return false };
        self.wants_tag(parts.tag) && self.wants_destination(&parts)
    }

    /// Returns whether the station `address` is enabled.
    pub(super) fn is_own(&self, address: [u8; 6]) -> bool {
        self.addresses[..N_UNICAST].contains(&(address, true))
    }

    fn wants_tag(&self, tag: Option<u16>) -> bool {
        let wanted =
            |id: u16| self.vlans.iter().any(|(tag, enabled)| *enabled && tag & VLAN_ID == id);
        match (self.vlan_mode, tag) {
            (VlanMode::Any, _) => true,
            (VlanMode::Untagged | VlanMode::WantedAndUntagged, None) => true,
            (VlanMode::Untagged, Some(_)) | (VlanMode::Wanted, None) => false,
            (VlanMode::Wanted | VlanMode::WantedAndUntagged, Some(id)) => wanted(id),
        }
    }

    fn wants_destination(&self, parts: &Parts<'_>) -> bool {
        let of_kind =
            |chosen: Option<u32>, kind: u32| chosen.is_none_or(|chosen| chosen & kind != 0);
        if parts.destination == BROADCAST {
            // Broadcast filters come first: the broadcast address is also a group address.
            return of_kind(self.broadcast, parts.broadcast_kind());
        }
        if self.addresses.contains(&(parts.destination, true)) {
            return true;
        }
        parts.destination[0] & GROUP != 0 && of_kind(self.multicast, parts.multicast_kind())
    }
}

/// Fields of a frame that filters use.
struct Parts<'a> {
    destination: [u8; 6],
    tag: Option<u16>,
    kind: u16,
    packet: &'a [u8],
}

impl<'a> Parts<'a> {
    fn of(frame: &'a [u8]) -> Option<Self> {
        let kind_at = |at: usize| Some(u16::from_be_bytes(frame.get(at..at + 2)?.try_into().ok()?));
        let destination = frame.get(..6)?.try_into().ok()?;
        let (tag, at) = match kind_at(TYPE_AT)? {
            TYPE_VLAN => (Some(kind_at(TYPE_AT + 2)? & VLAN_ID), TYPE_AT + TAG_LENGTH),
            _ => (None, TYPE_AT),
        };
        Some(Self { destination, tag, kind: kind_at(at)?, packet: frame.get(at + 2..)? })
    }

    /// Returns the protocol in an IP packet, and the packet's content.
    fn content(&self) -> Option<(u8, &'a [u8])> {
        match self.kind {
            TYPE_IPV4 => {
                // Options may follow the 20 bytes, so the length is read.
                let header = usize::from(self.packet.first()? & 0xf) * 4;
                Some((*self.packet.get(9)?, self.packet.get(header..)?))
            }
            TYPE_IPV6 => Some((*self.packet.get(6)?, self.packet.get(40..)?)),
            _ => None,
        }
    }

    fn udp_destination(&self) -> Option<u16> {
        match self.content()? {
            (PROTOCOL_UDP, udp) => Some(u16::from_be_bytes(udp.get(2..4)?.try_into().ok()?)),
            _ => None,
        }
    }

    /// Returns the bit of Enable Broadcast Filter that lets it pass: ARP, DHCP to clients, to
    /// servers, NetBIOS.
    fn broadcast_kind(&self) -> u32 {
        match (self.kind, self.udp_destination()) {
            (TYPE_ARP, _) => 1 << 0,
            // Port 68 is the DHCP client, 67 the server, 137 to 139 NetBIOS.
            (TYPE_IPV4, Some(68)) => 1 << 1,
            (TYPE_IPV4, Some(67)) => 1 << 2,
            (TYPE_IPV4, Some(137..=139)) => 1 << 3,
            _ => 0,
        }
    }

    /// Returns the bit of Enable Global Multicast Filter that lets it pass: neighbour and router
    /// advertisement, DHCPv6 to servers, to clients, MLD, neighbour solicitation.
    fn multicast_kind(&self) -> u32 {
        if self.kind != TYPE_IPV6 {
            return 0;
        }
        // UDP ports first: DHCPv6 uses multicast addresses too.
        match (self.content(), self.udp_destination()) {
            (_, Some(547)) => 1 << 2,
            (_, Some(546)) => 1 << 3,
            (Some((PROTOCOL_ICMPV6, icmp)), _) => match icmp.first() {
                Some(136) => 1 << 0,
                Some(134) => 1 << 1,
                Some(130..=132 | 143) => 1 << 4,
                Some(135) => 1 << 5,
                _ => 0,
            },
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: [u8; 6] = [2, 0, 0, 0, 0, 1];
    const GROUP_ADDRESS: [u8; 6] = [0x33, 0x33, 0, 0, 0, 1];

    fn frame(destination: [u8; 6], after_addresses: &[u8]) -> Vec<u8> {
        let mut frame = [&destination[..], &[2, 0, 0, 0, 0, 9], after_addresses].concat();
        frame.resize(frame.len().max(90), 0);
        frame
    }

    fn own() -> Filters {
        let mut filters = Filters::default();
        filters.addresses[0] = (OWN, true);
        filters
    }

    fn udp_to(port: u8) -> Vec<u8> {
        // IPv4 header of five words carrying UDP.
        let mut packet = vec![0x08, 0x00, 0x45];
        packet.resize(2 + 20 + 4, 0);
        packet[2 + 9] = PROTOCOL_UDP;
        packet[2 + 20 + 3] = port;
        packet
    }

    fn icmpv6(kind: u8) -> Vec<u8> {
        let mut packet = vec![0x86, 0xdd, 0x60];
        packet.resize(2 + 41, 0);
        packet[2 + 6] = PROTOCOL_ICMPV6;
        packet[2 + 40] = kind;
        packet
    }

    #[test]
    fn a_station_gets_its_own_and_what_is_for_everybody() {
        let filters = own();
        let ip = [0x08, 0x00];
        assert!(filters.admit(&frame(OWN, &ip)));
        assert!(filters.admit(&frame(BROADCAST, &ip)) && filters.admit(&frame(GROUP_ADDRESS, &ip)));
        assert!(!filters.admit(&frame([2, 0, 0, 0, 0, 2], &ip)), "another station's");
        assert!(!Filters::default().admit(&frame(OWN, &ip)), "no address is enabled");
        assert!(!filters.admit(&OWN), "cut off");
    }

    #[test]
    fn filtered_broadcasts_pass_by_kind() {
        let kinds = [vec![0x08, 0x06], udp_to(68), udp_to(67), udp_to(137), udp_to(53)];
        for chosen in 0..4 {
            let filters = Filters { broadcast: Some(1 << chosen), ..own() };
            let passing: Vec<bool> =
                kinds.iter().map(|kind| filters.admit(&frame(BROADCAST, kind))).collect();
            assert_eq!(passing, [0, 1, 2, 3, 4].map(|kind| kind == chosen), "setting {chosen}");
        }
    }

    #[test]
    fn filtered_multicasts_pass_by_kind_or_address() {
        let mut filters = Filters { multicast: Some(1 << 5), ..own() };
        let passing: Vec<u8> =
            (128..=143).filter(|&k| filters.admit(&frame(GROUP_ADDRESS, &icmpv6(k)))).collect();
        assert_eq!(passing, [135], "neighbour solicitations");
        filters.addresses[N_UNICAST] = (GROUP_ADDRESS, true);
        assert!(filters.admit(&frame(GROUP_ADDRESS, &icmpv6(136))), "its address is enabled");
    }

    #[test]
    fn tags_pass_by_mode() {
        let mut filters = own();
        filters.vlans[3] = (0x6000 | 100, true);
        filters.vlans[4] = (200, false);
        let tagged = |id: u8| frame(OWN, &[0x81, 0, 0, id, 0x08, 0]);
        let frames = [frame(OWN, &[0x08, 0]), tagged(100), tagged(200)];
        for (mode, passing) in [
            (VlanMode::Untagged, [true, false, false]),
            (VlanMode::Wanted, [false, true, false]),
            (VlanMode::WantedAndUntagged, [true, true, false]),
            (VlanMode::Any, [true, true, true]),
        ] {
            filters.vlan_mode = mode;
            assert_eq!([0, 1, 2].map(|i| filters.admit(&frames[i])), passing, "{mode:?}");
        }
    }
}
