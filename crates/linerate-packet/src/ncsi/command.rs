//! Commands: what a management controller asks of a controller (DSP0222 table of control packets).

use crate::bytes::{array, u16_at, u32_at};

/// Types of commands, by the standard's names.
pub mod kind {
    #![allow(missing_docs, reason = "the names are the standard's")]
    pub const CLEAR_INITIAL_STATE: u8 = 0x00;
    pub const SELECT_PACKAGE: u8 = 0x01;
    pub const DESELECT_PACKAGE: u8 = 0x02;
    pub const ENABLE_CHANNEL: u8 = 0x03;
    pub const DISABLE_CHANNEL: u8 = 0x04;
    pub const RESET_CHANNEL: u8 = 0x05;
    pub const ENABLE_NETWORK_TX: u8 = 0x06;
    pub const DISABLE_NETWORK_TX: u8 = 0x07;
    pub(crate) const AEN_ENABLE: u8 = 0x08;
    pub const SET_LINK: u8 = 0x09;
    pub const GET_LINK_STATUS: u8 = 0x0a;
    pub const SET_VLAN_FILTER: u8 = 0x0b;
    pub const ENABLE_VLAN: u8 = 0x0c;
    pub const DISABLE_VLAN: u8 = 0x0d;
    pub const SET_MAC_ADDRESS: u8 = 0x0e;
    pub const ENABLE_BROADCAST_FILTER: u8 = 0x10;
    pub const DISABLE_BROADCAST_FILTER: u8 = 0x11;
    pub const ENABLE_MULTICAST_FILTER: u8 = 0x12;
    pub const DISABLE_MULTICAST_FILTER: u8 = 0x13;
    pub(crate) const SET_FLOW_CONTROL: u8 = 0x14;
    pub const GET_VERSION: u8 = 0x15;
    pub const GET_CAPABILITIES: u8 = 0x16;
    pub const GET_PARAMETERS: u8 = 0x17;
    pub const GET_PORT_STATISTICS: u8 = 0x18;
    pub const GET_CONTROL_STATISTICS: u8 = 0x19;
    pub const GET_PASS_THROUGH_STATISTICS: u8 = 0x1a;
    pub const GET_PACKAGE_STATUS: u8 = 0x1b;
    pub const OEM: u8 = 0x50;
    pub const GET_PACKAGE_UUID: u8 = 0x52;
    pub const GET_MC_MAC_ADDRESS: u8 = 0x58;
}

/// Arguments of Set Link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkSettings {
    /// Bits as the standard numbers them: 0 autonegotiation, 1 to 7 and 13 up speeds, 8 half, 9
    /// full duplex, 10 and 11 pause.
    pub bits: u32,
    /// The manufacturer's own bits.
    pub oem: u32,
}

/// A command and its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Takes a channel out of its initial state.
    ClearInitialState,
    /// Lets a package drive the sideband.
    SelectPackage {
        /// True if packages may arbitrate among themselves.
        arbitration: bool,
    },
    /// Takes it off the sideband.
    DeselectPackage,
    /// Lets pass-through traffic and notifications flow to the management controller.
    EnableChannel,
    /// Stops them.
    DisableChannel {
        /// True if the link may go down.
        link_down: bool,
    },
    /// Puts a channel back into its initial state.
    ResetChannel,
    /// Lets pass-through traffic flow to the network.
    EnableNetworkTx,
    /// Stops it.
    DisableNetworkTx,
    /// Chooses notifications.
    AenEnable {
        /// The management controller they go to.
        management: u8,
        /// 1 link status change, 2 configuration required, 4 host driver status change.
        control: u32,
    },
    /// Sets the link.
    SetLink(LinkSettings),
    /// Asks for the link.
    GetLinkStatus,
    /// Sets a VLAN filter.
    SetVlanFilter {
        /// Priority, drop eligibility and VLAN identifier.
        tag: u16,
        /// Which filter, from 1.
        index: u8,
        /// True to enable it.
        enable: bool,
    },
    /// Enables VLAN filtering.
    EnableVlan {
        /// 1 only VLAN, 2 VLAN and untagged, 3 any VLAN and untagged.
        mode: u8,
    },
    /// Only untagged frames pass.
    DisableVlan,
    /// Sets an address filter.
    SetMacAddress {
        /// The address.
        address: [u8; 6],
        /// Which filter, from 1: unicast ones first, then multicast, then mixed.
        index: u8,
        /// True for a multicast address.
        multicast: bool,
        /// True to enable it.
        enable: bool,
    },
    /// Lets only chosen broadcasts pass: 1 ARP, 2 DHCP client, 4 DHCP server, 8 NetBIOS.
    EnableBroadcastFilter(u32),
    /// Lets all broadcasts pass.
    DisableBroadcastFilter,
    /// Lets only chosen multicasts pass: 1 neighbour and 2 router advertisements, 4 DHCPv6.
    EnableMulticastFilter(u32),
    /// Lets all multicasts pass.
    DisableMulticastFilter,
    /// Flow control on the sideband: 0 none, 1 towards the management controller, 2 from it, 3
    /// both.
    SetFlowControl(u8),
    /// Asks for versions.
    GetVersion,
    /// Asks for capabilities.
    GetCapabilities,
    /// Asks for parameters in force.
    GetParameters,
    /// Asks for the port's packet statistics.
    GetPortStatistics,
    /// Asks for statistics of control traffic.
    GetControlStatistics,
    /// Asks for statistics of pass-through traffic.
    GetPassThroughStatistics,
    /// Asks for the package's status.
    GetPackageStatus,
    /// A manufacturer's command.
    Oem {
        /// IANA enterprise number.
        enterprise: u32,
        /// The rest.
        data: Vec<u8>,
    },
    /// Asks for the package's UUID.
    GetPackageUuid,
    /// Asks for the addresses reserved for the management controller.
    GetMcMacAddress,
    /// Of another type, or with a payload that does not fit its type.
    Other {
        /// Type.
        kind: u8,
        /// Payload.
        payload: Vec<u8>,
    },
}

/// Address type in a Set MAC Address, and whether the filter is in force.
const MULTICAST: u8 = 0x20;
const ENABLE: u8 = 0x01;

impl Command {
    /// Its type on the wire.
    #[must_use]
    pub const fn kind(&self) -> u8 {
        match self {
            Self::ClearInitialState => kind::CLEAR_INITIAL_STATE,
            Self::SelectPackage { .. } => kind::SELECT_PACKAGE,
            Self::DeselectPackage => kind::DESELECT_PACKAGE,
            Self::EnableChannel => kind::ENABLE_CHANNEL,
            Self::DisableChannel { .. } => kind::DISABLE_CHANNEL,
            Self::ResetChannel => kind::RESET_CHANNEL,
            Self::EnableNetworkTx => kind::ENABLE_NETWORK_TX,
            Self::DisableNetworkTx => kind::DISABLE_NETWORK_TX,
            Self::AenEnable { .. } => kind::AEN_ENABLE,
            Self::SetLink(_) => kind::SET_LINK,
            Self::GetLinkStatus => kind::GET_LINK_STATUS,
            Self::SetVlanFilter { .. } => kind::SET_VLAN_FILTER,
            Self::EnableVlan { .. } => kind::ENABLE_VLAN,
            Self::DisableVlan => kind::DISABLE_VLAN,
            Self::SetMacAddress { .. } => kind::SET_MAC_ADDRESS,
            Self::EnableBroadcastFilter(_) => kind::ENABLE_BROADCAST_FILTER,
            Self::DisableBroadcastFilter => kind::DISABLE_BROADCAST_FILTER,
            Self::EnableMulticastFilter(_) => kind::ENABLE_MULTICAST_FILTER,
            Self::DisableMulticastFilter => kind::DISABLE_MULTICAST_FILTER,
            Self::SetFlowControl(_) => kind::SET_FLOW_CONTROL,
            Self::GetVersion => kind::GET_VERSION,
            Self::GetCapabilities => kind::GET_CAPABILITIES,
            Self::GetParameters => kind::GET_PARAMETERS,
            Self::GetPortStatistics => kind::GET_PORT_STATISTICS,
            Self::GetControlStatistics => kind::GET_CONTROL_STATISTICS,
            Self::GetPassThroughStatistics => kind::GET_PASS_THROUGH_STATISTICS,
            Self::GetPackageStatus => kind::GET_PACKAGE_STATUS,
            Self::Oem { .. } => kind::OEM,
            Self::GetPackageUuid => kind::GET_PACKAGE_UUID,
            Self::GetMcMacAddress => kind::GET_MC_MAC_ADDRESS,
            Self::Other { kind, .. } => *kind,
        }
    }

    /// Its payload.
    #[must_use]
    pub fn emit(&self) -> Vec<u8> {
        match self {
            // The wire bit means "arbitration disabled", the reverse of the field.
            Self::SelectPackage { arbitration } => vec![0, 0, 0, u8::from(!arbitration)],
            Self::DisableChannel { link_down } => vec![0, 0, 0, u8::from(*link_down)],
            // Three bytes are reserved and the fourth is unused, but the standard asks for all of
            // them.
            Self::ResetChannel => vec![0; 4],
            Self::AenEnable { management, control } => {
                [&[0, 0, 0, *management][..], &control.to_be_bytes()].concat()
            }
            Self::SetLink(LinkSettings { bits, oem }) => {
                [bits.to_be_bytes(), oem.to_be_bytes()].concat()
            }
            Self::SetVlanFilter { tag, index, enable } => {
                [&[0, 0][..], &tag.to_be_bytes(), &[0, 0, *index, u8::from(*enable)]].concat()
            }
            Self::EnableVlan { mode } => vec![0, 0, 0, *mode],
            Self::SetMacAddress { address, index, multicast, enable } => {
                let flags =
                    if *multicast { MULTICAST } else { 0 } | if *enable { ENABLE } else { 0 };
                [&address[..], &[*index, flags]].concat()
            }
            Self::EnableBroadcastFilter(settings) | Self::EnableMulticastFilter(settings) => {
                settings.to_be_bytes().to_vec()
            }
            Self::SetFlowControl(mode) => vec![0, 0, 0, *mode],
            Self::Oem { enterprise, data } => [&enterprise.to_be_bytes()[..], data].concat(),
            Self::Other { payload, .. } => payload.clone(),
            _ => Vec::new(),
        }
    }

    /// Reads the command of type `kind` with `payload`. Reserved bytes are ignored.
    #[must_use]
    pub fn parse(kind: u8, payload: &[u8]) -> Self {
        Self::typed(kind, payload)
            .unwrap_or_else(|| Self::Other { kind, payload: payload.to_vec() })
    }

    fn typed(kind: u8, payload: &[u8]) -> Option<Self> {
        // Commands with one argument put it in the last byte of a 32-bit word.
        let last = || payload.get(3).filter(|_| payload.len() == 4).copied();
        let word = || u32_at(payload, 0).filter(|_| payload.len() == 4);
        Some(match kind {
            kind::SELECT_PACKAGE => Self::SelectPackage { arbitration: last()? & 1 == 0 },
            kind::DISABLE_CHANNEL => Self::DisableChannel { link_down: last()? & 1 != 0 },
            kind::RESET_CHANNEL => last().map(|_| Self::ResetChannel)?,
            kind::AEN_ENABLE => {
                Self::AenEnable { management: *payload.get(3)?, control: u32_at(payload, 4)? }
            }
            kind::SET_LINK => {
                Self::SetLink(LinkSettings { bits: u32_at(payload, 0)?, oem: u32_at(payload, 4)? })
            }
            kind::SET_VLAN_FILTER => Self::SetVlanFilter {
                tag: u16_at(payload, 2)?,
                index: *payload.get(6)?,
                enable: payload.get(7)? & ENABLE != 0,
            },
            kind::ENABLE_VLAN => Self::EnableVlan { mode: last()? },
            kind::SET_MAC_ADDRESS => Self::SetMacAddress {
                address: array(payload, 0)?,
                index: *payload.get(6)?,
                multicast: payload.get(7)? & MULTICAST != 0,
                enable: payload.get(7)? & ENABLE != 0,
            },
            kind::ENABLE_BROADCAST_FILTER => Self::EnableBroadcastFilter(word()?),
            kind::ENABLE_MULTICAST_FILTER => Self::EnableMulticastFilter(word()?),
            kind::SET_FLOW_CONTROL => Self::SetFlowControl(last()?),
            kind::OEM => {
                Self::Oem { enterprise: u32_at(payload, 0)?, data: payload.get(4..)?.to_vec() }
            }
            // Types without arguments come last: an empty payload of any other type does not fit
            // its type.
            _ if payload.is_empty() => Self::without_payload(kind)?,
            _ => return None,
        })
    }

    fn without_payload(kind: u8) -> Option<Self> {
        [
            Self::ClearInitialState,
            Self::DeselectPackage,
            Self::EnableChannel,
            Self::EnableNetworkTx,
            Self::DisableNetworkTx,
            Self::GetLinkStatus,
            Self::DisableVlan,
            Self::DisableBroadcastFilter,
            Self::DisableMulticastFilter,
            Self::GetVersion,
            Self::GetCapabilities,
            Self::GetParameters,
            Self::GetPortStatistics,
            Self::GetControlStatistics,
            Self::GetPassThroughStatistics,
            Self::GetPackageStatus,
            Self::GetPackageUuid,
            Self::GetMcMacAddress,
        ]
        .into_iter()
        .find(|command| command.kind() == kind)
    }
}
