//! Channel of a controller: its state, and the effect of each command (DSP0222 clause 8).
//!
//! A channel starts in Initial State, where it accepts only Clear Initial State. Enable Channel
//! lets frames pass to the management controller, Enable Channel Network TX lets them out. Pure:
//! commands in, answers out. Not supported, and answered so: setting a link (a driver of the host
//! owns it), pause frames, OEM commands.

use linerate_model::{BitRate, Bytes};

use super::filters::{
    self, BROADCAST_KINDS, Filters, MULTICAST_KINDS, N_MULTICAST, N_UNICAST, N_VLANS, VlanMode,
};
use super::letter::Command;
use super::statistics::{ControlStatistics, PassThroughStatistics, PortStatistics};

/// Command types.
pub(super) const CLEAR_INITIAL_STATE: u8 = 0x00;
pub(super) const SELECT_PACKAGE: u8 = 0x01;
pub(super) const DESELECT_PACKAGE: u8 = 0x02;
const ENABLE_CHANNEL: u8 = 0x03;
const DISABLE_CHANNEL: u8 = 0x04;
pub(super) const RESET_CHANNEL: u8 = 0x05;
const ENABLE_NETWORK_TX: u8 = 0x06;
const DISABLE_NETWORK_TX: u8 = 0x07;
const ENABLE_NOTIFICATIONS: u8 = 0x08;
const SET_LINK: u8 = 0x09;
const GET_LINK_STATUS: u8 = 0x0a;
const SET_VLAN_FILTER: u8 = 0x0b;
const ENABLE_VLAN: u8 = 0x0c;
const DISABLE_VLAN: u8 = 0x0d;
pub(super) const SET_MAC_ADDRESS: u8 = 0x0e;
const ENABLE_BROADCAST_FILTER: u8 = 0x10;
const DISABLE_BROADCAST_FILTER: u8 = 0x11;
const ENABLE_MULTICAST_FILTER: u8 = 0x12;
const DISABLE_MULTICAST_FILTER: u8 = 0x13;
const GET_VERSION: u8 = 0x15;
const GET_CAPABILITIES: u8 = 0x16;
const GET_PARAMETERS: u8 = 0x17;
pub(super) const GET_PORT_STATISTICS: u8 = 0x18;
pub(super) const GET_CONTROL_STATISTICS: u8 = 0x19;
pub(super) const GET_PASS_THROUGH_STATISTICS: u8 = 0x1a;
const GET_MANAGEMENT_ADDRESS: u8 = 0x58;

/// Kinds of notification, which are also the bits that enable them.
pub(super) const LINK_STATUS_CHANGE: u8 = 0;
pub(super) const CONFIGURATION_REQUIRED: u8 = 1;
pub(super) const HOST_DRIVER_CHANGE: u8 = 2;
/// All three kinds.
const NOTIFICATION_KINDS: u32 = 0b111;

/// Response and reason codes together, as the four bytes at the start of every answer.
pub(super) const COMPLETED: u32 = 0;
const FAILED: u32 = 1 << 16;
pub(super) const INITIALISATION_REQUIRED: u32 = FAILED | 1;
pub(super) const INVALID_PARAMETER: u32 = FAILED | 2;
pub(super) const INVALID_LENGTH: u32 = FAILED | 5;
pub(super) const UNKNOWN_COMMAND: u32 = 3 << 16 | 0x7fff;
const HOST_OWNS_LINK: u32 = FAILED | 0x0901;
const INVALID_TAG: u32 = FAILED | 0x0b07;
const ZERO_ADDRESS: u32 = FAILED | 0x0e08;

/// Channel flags of Get Capabilities: reports the host's driver (b1), all multicasts (b4), no
/// arbitration in hardware (b6:5).
const CAPABILITY_FLAGS: u32 = 1 << 1 | 1 << 4 | 2 << 5;
/// VLAN modes 1, 2 and 3.
const VLAN_MODES: u8 = 0b111;
/// NC-SI 1.0.1 as BCD with nibble F for an absent digit, and no letters.
const VERSION: [u8; 8] = [0xf1, 0xf0, 0xf1, 0, 0, 0, 0, 0];
/// Name of the firmware, padded to 12 bytes.
const FIRMWARE_NAME: &[u8; 12] = b"linerate-nc\0";
const FIRMWARE_VERSION: [u8; 4] = [0, 1, 0, 0];
/// Device, vendor and subsystem on PCI, and IANA number of the maker: not applicable.
const NO_IDENTITY: [u8; 12] = [0xff; 12];

/// Constant properties of a channel.
#[derive(Clone, Debug)]
pub(super) struct Equipment {
    /// Rate of the port on the network.
    pub(super) rate: BitRate,
    /// Size of its buffer in Get Capabilities.
    pub(super) reported_buffer: Bytes,
    /// Channels of its package.
    pub(super) n_channels: u8,
    /// Address reserved for the management controller.
    pub(super) management: [u8; 6],
    /// True if statistics have the format of old firmware.
    pub(super) legacy: bool,
}

/// Channel of a package.
#[derive(Clone, Debug, Default)]
pub(super) struct Channel {
    /// True after Clear Initial State.
    pub(super) initialised: bool,
    pub(super) enabled: bool,
    pub(super) network_tx: bool,
    pub(super) filters: Filters,
    /// Bits of the enabled notifications, and their destination.
    notifications: u32,
    pub(super) management: u8,
    link_settings: u32,
    pub(super) link_up: bool,
    pub(super) driver_running: bool,
    pub(super) port: PortStatistics,
    pub(super) pass_through: PassThroughStatistics,
}

/// Content of an answer: codes, and the payload after them.
pub(super) struct Said {
    pub(super) codes: u32,
    pub(super) content: Vec<u8>,
}

impl From<u32> for Said {
    fn from(codes: u32) -> Self {
        Self { codes, content: Vec::new() }
    }
}

impl From<Vec<u8>> for Said {
    fn from(content: Vec<u8>) -> Self {
        Self { codes: COMPLETED, content }
    }
}

/// Returns the fewest payload bytes of a command of `kind`. `None` for an unknown command.
fn least_payload(kind: u8) -> Option<usize> {
    match kind {
        DISABLE_CHANNEL
        | RESET_CHANNEL
        | ENABLE_VLAN
        | ENABLE_BROADCAST_FILTER
        | ENABLE_MULTICAST_FILTER => Some(4),
        ENABLE_NOTIFICATIONS | SET_LINK | SET_VLAN_FILTER | SET_MAC_ADDRESS => Some(8),
        CLEAR_INITIAL_STATE
        | ENABLE_CHANNEL
        | ENABLE_NETWORK_TX
        | DISABLE_NETWORK_TX
        | GET_LINK_STATUS
        | DISABLE_VLAN
        | DISABLE_BROADCAST_FILTER
        | DISABLE_MULTICAST_FILTER
        | GET_VERSION..=GET_PASS_THROUGH_STATISTICS
        | GET_MANAGEMENT_ADDRESS => Some(0),
        _ => None,
    }
}

fn word(payload: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([payload[at], payload[at + 1], payload[at + 2], payload[at + 3]])
}

impl Channel {
    /// Creates a channel whose port has a link or none.
    pub(super) fn new(link_up: bool) -> Self {
        Self { link_up, driver_running: true, ..Self::default() }
    }

    /// Configures it as a management controller would for `address`: enabled both ways, and all
    /// broadcasts and multicasts pass.
    pub(super) fn configure(&mut self, address: [u8; 6]) {
        // A management controller would send several commands; tests of loss do not need them.
        (self.initialised, self.enabled, self.network_tx) = (true, true, true);
        self.filters.addresses[0] = (address, true);
    }

    /// Returns to Initial State. Counters and link stay.
    pub(super) fn reset(&mut self) {
        // Counters belong to the port and survive a reset of the channel's configuration.
        let (port, pass_through) =
            (std::mem::take(&mut self.port), std::mem::take(&mut self.pass_through));
        *self = Self {
            port,
            pass_through,
            driver_running: self.driver_running,
            ..Self::new(self.link_up)
        };
    }

    /// Returns whether notifications of `kind` are enabled.
    pub(super) fn wants(&self, kind: u8) -> bool {
        self.initialised && self.enabled && self.notifications & 1 << kind != 0
    }

    /// Carries out `command`. `control` are the counters of the whole controller.
    pub(super) fn execute(
        &mut self,
        command: &Command<'_>,
        equipment: &Equipment,
        control: &ControlStatistics,
    ) -> Said {
        // Unknown commands are reported before wrong lengths, because the length of an unknown one
        // is unknown.
        let Some(least) = least_payload(command.kind) else { return UNKNOWN_COMMAND.into() };
        if command.payload.len() < least {
            return INVALID_LENGTH.into();
        }
        // Even Get commands fail in Initial State, as the standard asks: clients must clear it
        // first.
        if !self.initialised && command.kind != CLEAR_INITIAL_STATE {
            return INITIALISATION_REQUIRED.into();
        }
        match command.kind {
            GET_LINK_STATUS => self.link_status(equipment.rate).into(),
            GET_VERSION => {
                [&VERSION[..], FIRMWARE_NAME, &FIRMWARE_VERSION, &NO_IDENTITY].concat().into()
            }
            GET_CAPABILITIES => capabilities(equipment).into(),
            GET_PARAMETERS => self.parameters().into(),
            GET_PORT_STATISTICS => self.port.payload().into(),
            GET_CONTROL_STATISTICS => control.payload().into(),
            GET_PASS_THROUGH_STATISTICS => self.pass_through.payload(equipment.legacy).into(),
            GET_MANAGEMENT_ADDRESS => [&[1, 0, 0, 0][..], &equipment.management].concat().into(),
            _ => self.change(command.kind, command.payload).into(),
        }
    }

    /// Carries out a command whose answer has codes only. The payload is long enough.
    fn change(&mut self, kind: u8, payload: &[u8]) -> u32 {
        match kind {
            CLEAR_INITIAL_STATE => self.initialised = true,
            ENABLE_CHANNEL => self.enabled = true,
            DISABLE_CHANNEL => self.enabled = false,
            RESET_CHANNEL => self.reset(),
            ENABLE_NETWORK_TX => self.network_tx = true,
            DISABLE_NETWORK_TX => self.network_tx = false,
            ENABLE_NOTIFICATIONS => {
                self.management = payload[3];
                self.notifications = word(payload, 4) & NOTIFICATION_KINDS;
            }
            // The host's driver owns the link while it runs (DSP0222, Set Link reasons).
            SET_LINK if self.driver_running => return HOST_OWNS_LINK,
            SET_LINK => self.link_settings = word(payload, 0),
            SET_VLAN_FILTER => return self.set_vlan(payload),
            ENABLE_VLAN => match VlanMode::numbered(payload[3]) {
                Some(mode) => self.filters.vlan_mode = mode,
                None => return INVALID_PARAMETER,
            },
            DISABLE_VLAN => self.filters.vlan_mode = VlanMode::Untagged,
            SET_MAC_ADDRESS => return self.set_address(payload),
            ENABLE_BROADCAST_FILTER => {
                self.filters.broadcast = Some(word(payload, 0) & BROADCAST_KINDS)
            }
            DISABLE_BROADCAST_FILTER => self.filters.broadcast = None,
            ENABLE_MULTICAST_FILTER => {
                self.filters.multicast = Some(word(payload, 0) & MULTICAST_KINDS)
            }
            DISABLE_MULTICAST_FILTER => self.filters.multicast = None,
            _ => return UNKNOWN_COMMAND,
        }
        COMPLETED
    }

    fn set_vlan(&mut self, payload: &[u8]) -> u32 {
        /// VLAN identifiers that can be filtered (IEEE 802.1Q clause 9.6).
        const VALID: std::ops::RangeInclusive<u16> = 1..=4094;
        let tag = u16::from_be_bytes([payload[2], payload[3]]);
        let enabled = payload[7] & 1 != 0;
        if enabled && !VALID.contains(&(tag & 0x0fff)) {
            return INVALID_TAG;
        }
        // Filters count from 1 on the wire, so 0 is an error.
        match usize::from(payload[6])
            .checked_sub(1)
            .and_then(|index| self.filters.vlans.get_mut(index))
        {
            Some(filter) => *filter = (tag, enabled),
            None => return INVALID_PARAMETER,
        }
        COMPLETED
    }

    fn set_address(&mut self, payload: &[u8]) -> u32 {
        /// Address type in the last byte: a group.
        const OF_GROUP: u8 = 1 << 5;
        const KIND: u8 = 0xe0;
        let address: [u8; 6] = payload[..6].try_into().expect("the payload has eight bytes");
        let (index, enabled) = (usize::from(payload[6]), payload[7] & 1 != 0);
        if enabled && address == [0; 6] {
            return ZERO_ADDRESS;
        }
        // Unicast and multicast filters share one list, and the address type must agree with the
        // place.
        let kind_of_filter = if index > N_UNICAST { OF_GROUP } else { 0 };
        match index.checked_sub(1).and_then(|index| self.filters.addresses.get_mut(index)) {
            Some(filter) if payload[7] & KIND == kind_of_filter => *filter = (address, enabled),
            _ => return INVALID_PARAMETER,
        }
        COMPLETED
    }

    /// Link status, other indications, OEM link status.
    pub(super) fn link_status(&self, rate: BitRate) -> Vec<u8> {
        /// Auto-negotiation is enabled, and complete.
        const NEGOTIATED: u32 = 1 << 5 | 1 << 6;
        // Without a link every other bit is meaningless and reads as zero.
        let status = if self.link_up { 1 | speed(rate) << 1 | NEGOTIATED } else { 0 };
        [status, u32::from(self.driver_running), 0].into_iter().flat_map(u32::to_be_bytes).collect()
    }

    fn parameters(&self) -> Vec<u8> {
        let filters = &self.filters;
        let on = |on: bool, bit: u32| u32::from(on) << bit;
        let flags = on(filters.broadcast.is_some(), 0)
            | on(self.enabled, 1)
            | on(self.network_tx, 2)
            | on(filters.multicast.is_some(), 3);
        let addresses = filters::enabled(filters.addresses.iter().map(|(_, enabled)| *enabled));
        let mut content =
            vec![filters.addresses.len() as u8, 0, 0, addresses as u8, N_VLANS as u8, 0];
        content.extend(
            filters::enabled(filters.vlans.iter().map(|(_, enabled)| *enabled)).to_be_bytes(),
        );
        for settings in [self.link_settings, filters.broadcast.unwrap_or_default(), flags] {
            content.extend(settings.to_be_bytes());
        }
        content.extend([filters.vlan_mode.number(), 0, 0, 0]);
        content.extend(self.notifications.to_be_bytes());
        content.extend(filters.addresses.iter().flat_map(|(address, _)| *address));
        content.extend(filters.vlans.iter().flat_map(|(tag, _)| tag.to_be_bytes()));
        content
    }
}

fn capabilities(equipment: &Equipment) -> Vec<u8> {
    // All-ones mean "unknown", for sizes that do not fit.
    let buffer = u32::try_from(equipment.reported_buffer.0).unwrap_or(u32::MAX);
    let words = [CAPABILITY_FLAGS, BROADCAST_KINDS, MULTICAST_KINDS, buffer, NOTIFICATION_KINDS];
    let mut content: Vec<u8> = words.into_iter().flat_map(u32::to_be_bytes).collect();
    let counts = [N_VLANS as u8, 0, N_MULTICAST as u8, N_UNICAST as u8];
    content.extend(counts.into_iter().chain([0, 0, VLAN_MODES, equipment.n_channels]));
    content
}

/// Returns the speed field of a link status, full duplex. Zero for rates without a number.
fn speed(rate: BitRate) -> u32 {
    const SPEEDS: [(f64, u32); 9] = [
        (10e6, 2),
        (100e6, 5),
        (1e9, 7),
        (2.5e9, 0xe),
        (10e9, 8),
        (20e9, 9),
        (25e9, 0xa),
        (40e9, 0xb),
        (100e9, 0xd),
    ];
    SPEEDS.iter().find(|(bits, _)| *bits == rate.0).map_or(0, |(_, number)| *number)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESS: [u8; 6] = [2, 0, 0, 0, 0, 1];

    fn equipment() -> Equipment {
        Equipment {
            rate: BitRate(1e9),
            reported_buffer: Bytes(8192),
            n_channels: 1,
            management: ADDRESS,
            legacy: false,
        }
    }

    fn say(channel: &mut Channel, kind: u8, payload: &[u8]) -> Said {
        let command = Command { management: 0, instance: 1, kind, package: 0, channel: 0, payload };
        channel.execute(&command, &equipment(), &ControlStatistics::default())
    }

    fn code(channel: &mut Channel, kind: u8, payload: &[u8]) -> u32 {
        say(channel, kind, payload).codes
    }

    #[test]
    fn in_initial_state_a_channel_knows_one_command() {
        let mut channel = Channel::new(true);
        for kind in [ENABLE_CHANNEL, GET_VERSION, GET_CAPABILITIES, GET_PASS_THROUGH_STATISTICS] {
            assert_eq!(code(&mut channel, kind, &[]), INITIALISATION_REQUIRED, "{kind:#x}");
        }
        assert_eq!(code(&mut channel, CLEAR_INITIAL_STATE, &[]), COMPLETED);
        assert_eq!(code(&mut channel, GET_VERSION, &[]), COMPLETED);
        assert_eq!(code(&mut channel, RESET_CHANNEL, &[0; 4]), COMPLETED);
        assert_eq!(code(&mut channel, GET_VERSION, &[]), INITIALISATION_REQUIRED);
    }

    #[test]
    fn clear_initial_state_leaves_a_configured_channel_alone() {
        let mut channel = Channel::new(true);
        channel.configure(ADDRESS);
        assert_eq!(code(&mut channel, CLEAR_INITIAL_STATE, &[]), COMPLETED);
        assert!(channel.enabled && channel.network_tx && channel.filters.is_own(ADDRESS));
    }

    /// Known bytes of a channel with 8 KiB, with the properties of this one.
    #[test]
    fn capabilities_tell_the_buffer() {
        let mut channel = Channel::new(true);
        channel.configure(ADDRESS);
        let content = say(&mut channel, GET_CAPABILITIES, &[]).content;
        assert_eq!(content.len() + 4, 32);
        assert_eq!(content[12..16], [0, 0, 0x20, 0]);
        assert_eq!(content[20..], [8, 0, 2, 2, 0, 0, 7, 1]);
        let boundless = Equipment { reported_buffer: Bytes(1 << 32), ..equipment() };
        assert_eq!(capabilities(&boundless)[12..16], [0xff; 4], "what does not fit is all-ones");
    }

    #[test]
    fn parameters_tell_what_was_set() {
        let mut channel = Channel::new(true);
        code(&mut channel, CLEAR_INITIAL_STATE, &[]);
        for (kind, payload) in [
            (SET_MAC_ADDRESS, &[2, 0, 0, 0, 0, 1, 1, 1][..]),
            (SET_MAC_ADDRESS, &[1, 0, 0x5e, 0, 0, 1, 3, 0x21]),
            (SET_VLAN_FILTER, &[0, 0, 0, 100, 0, 0, 3, 1]),
            (ENABLE_VLAN, &[0, 0, 0, 2]),
            (ENABLE_BROADCAST_FILTER, &[0, 0, 0, 0xf]),
            (ENABLE_NOTIFICATIONS, &[0, 0, 0, 0, 0, 0, 0, 7]),
            (ENABLE_CHANNEL, &[]),
            (ENABLE_NETWORK_TX, &[]),
        ] {
            assert_eq!(code(&mut channel, kind, payload), COMPLETED, "{kind:#x}");
        }
        let content = say(&mut channel, GET_PARAMETERS, &[]).content;
        assert_eq!(content.len() + 4, 32 + 6 * 4 + 2 * 8);
        assert_eq!(content[..8], [4, 0, 0, 0b101, 8, 0, 0, 0b100]);
        assert_eq!(content[12..28], [0, 0, 0, 0xf, 0, 0, 0, 0b111, 2, 0, 0, 0, 0, 0, 0, 7]);
        assert_eq!(content[28..34], ADDRESS);
        assert_eq!(content[28 + 24 + 4..28 + 24 + 6], [0, 100]);
    }

    #[test]
    fn settings_that_cannot_be_are_refused_with_their_reason() {
        let mut channel = Channel::new(true);
        channel.configure(ADDRESS);
        for (kind, payload, expected) in [
            (SET_MAC_ADDRESS, &[0, 0, 0, 0, 0, 0, 1, 1][..], ZERO_ADDRESS),
            (SET_MAC_ADDRESS, &[2, 0, 0, 0, 0, 1, 0, 1], INVALID_PARAMETER),
            (SET_MAC_ADDRESS, &[2, 0, 0, 0, 0, 1, 5, 1], INVALID_PARAMETER),
            (SET_MAC_ADDRESS, &[1, 0, 0, 0, 0, 1, 1, 0x21], INVALID_PARAMETER),
            (SET_MAC_ADDRESS, &[2, 0, 0, 0], INVALID_LENGTH),
            (SET_VLAN_FILTER, &[0, 0, 0, 0, 0, 0, 1, 1], INVALID_TAG),
            (SET_VLAN_FILTER, &[0, 0, 0, 9, 0, 0, 9, 1], INVALID_PARAMETER),
            (ENABLE_VLAN, &[0, 0, 0, 4], INVALID_PARAMETER),
            (SET_LINK, &[0; 8], HOST_OWNS_LINK),
            (0x0f, &[], UNKNOWN_COMMAND),
            (0x50, &[0, 0, 1, 0x57], UNKNOWN_COMMAND),
        ] {
            assert_eq!(code(&mut channel, kind, payload), expected, "{kind:#x} {payload:x?}");
        }
    }

    #[test]
    fn a_link_tells_its_speed() {
        let mut channel = Channel::new(true);
        assert_eq!(channel.link_status(BitRate(1e9)), [0, 0, 0, 0x6f, 0, 0, 0, 1, 0, 0, 0, 0]);
        assert_eq!(channel.link_status(BitRate(25e9))[3], 0x75);
        channel.link_up = false;
        assert_eq!(channel.link_status(BitRate(1e9))[..4], [0; 4]);
    }
}
