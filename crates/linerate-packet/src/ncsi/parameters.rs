//! Get Parameters: what is set at a channel now.

use crate::bytes::{array, u16_at, u32_at};

/// Where addresses begin in the body.
const MACS_AT: usize = 28;
const MAC_BYTES: usize = 6;
const TAG_BYTES: usize = 2;

/// Settings of a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Address filters, and whether each is in force: bit 0 for the first.
    pub macs: Vec<[u8; MAC_BYTES]>,
    /// Which of them are in force.
    pub macs_enabled: u8,
    /// VLAN filters.
    pub vlan_tags: Vec<u16>,
    /// Which of them are in force.
    pub vlan_tags_enabled: u16,
    /// As in Set Link.
    pub link: u32,
    /// As in Enable Broadcast Filter.
    pub broadcast: u32,
    /// 1 broadcast filter on, 2 channel enabled, 4 network TX enabled, 8 multicast filter on.
    pub configuration: u32,
    /// As in Enable VLAN.
    pub vlan_mode: u8,
    /// As in Set NC-SI Flow Control.
    pub flow_control: u8,
    /// As in AEN Enable.
    pub notifications: u32,
}

impl Parameters {
    /// Returns true if pass-through traffic flows to the management controller, and from it.
    #[must_use]
    pub const fn enabled(&self) -> (bool, bool) {
        (self.configuration & 2 != 0, self.configuration & 4 != 0)
    }

    /// Reads a body. Controllers that put the number of addresses and their flags the wrong way
    /// round are read as they are: the lists end where the body does.
    pub(super) fn parse(body: &[u8]) -> Option<Self> {
        let (n_macs, n_tags) = (usize::from(*body.first()?), usize::from(*body.get(4)?));
        let lists = body.get(MACS_AT..)?;
        let macs: Vec<_> =
            lists.chunks_exact(MAC_BYTES).take(n_macs).filter_map(|mac| array(mac, 0)).collect();
        let tags = lists.get(macs.len() * MAC_BYTES..)?.chunks_exact(TAG_BYTES).take(n_tags);
        Some(Self {
            vlan_tags: tags.filter_map(|tag| u16_at(tag, 0)).collect(),
            macs,
            macs_enabled: *body.get(3)?,
            vlan_tags_enabled: u16_at(body, 6)?,
            link: u32_at(body, 8)?,
            broadcast: u32_at(body, 12)?,
            configuration: u32_at(body, 16)?,
            vlan_mode: *body.get(20)?,
            flow_control: *body.get(21)?,
            notifications: u32_at(body, 24)?,
        })
    }

    pub(super) fn emit(&self) -> Vec<u8> {
        let mut body =
            vec![self.macs.len() as u8, 0, 0, self.macs_enabled, self.vlan_tags.len() as u8, 0];
        body.extend(self.vlan_tags_enabled.to_be_bytes());
        for word in [self.link, self.broadcast, self.configuration] {
            body.extend(word.to_be_bytes());
        }
        body.extend([self.vlan_mode, self.flow_control, 0, 0]);
        body.extend(self.notifications.to_be_bytes());
        body.extend(self.macs.iter().flatten());
        body.extend(self.vlan_tags.iter().flat_map(|tag| tag.to_be_bytes()));
        body
    }
}
