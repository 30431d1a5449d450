//! Notifications (AEN): messages that a controller sends by itself once they are enabled.

use crate::bytes::{array, u32_at};

const LINK_STATUS: u8 = 0;
const CONFIGURATION_REQUIRED: u8 = 1;
const HOST_DRIVER: u8 = 2;
const DELAYED_RESPONSE: u8 = 3;

/// Notification of a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notification {
    /// The link changed: status as in Get Link Status, and the manufacturer's.
    LinkStatus {
        /// Standard bits.
        bits: u32,
        /// The manufacturer's own.
        oem: u32,
    },
    /// It lost its configuration and must be set up again.
    ConfigurationRequired,
    /// The host's driver started or stopped.
    HostDriver {
        /// True if it runs.
        runs: bool,
    },
    /// An answer that was delayed is there (version 1.2): the command's type and instance.
    DelayedResponse {
        /// Type.
        kind: u8,
        /// Instance.
        instance: u8,
    },
    /// Of another type, or with a payload that does not fit.
    Other {
        /// Type.
        kind: u8,
        /// The bytes behind the type.
        data: Vec<u8>,
    },
}

impl Notification {
    /// Reads the payload of a notification; `None` if it has no type.
    #[must_use]
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let [_, _, _, kind]: [u8; 4] = array(payload, 0)?;
        let data = &payload[4..];
        let word = |at| u32_at(data, at);
        let known = match kind {
            LINK_STATUS => word(0).zip(word(4)).map(|(bits, oem)| Self::LinkStatus { bits, oem }),
            // Only an exact match is typed. Anything else keeps its bytes, so that a report can
            // show them.
            CONFIGURATION_REQUIRED => data.is_empty().then_some(Self::ConfigurationRequired),
            HOST_DRIVER => word(0).map(|bits| Self::HostDriver { runs: bits & 1 != 0 }),
            DELAYED_RESPONSE => array(data, 0)
                .map(|[kind, instance, ..]: [u8; 4]| Self::DelayedResponse { kind, instance }),
            _ => None,
        };
        Some(known.unwrap_or_else(|| Self::Other { kind, data: data.to_vec() }))
    }

    /// Its payload.
    #[must_use]
    pub fn emit(&self) -> Vec<u8> {
        let with = |kind: u8, data: &[u8]| [&[0, 0, 0, kind][..], data].concat();
        match self {
            Self::LinkStatus { bits, oem } => {
                with(LINK_STATUS, &[bits.to_be_bytes(), oem.to_be_bytes()].concat())
            }
            Self::ConfigurationRequired => with(CONFIGURATION_REQUIRED, &[]),
            Self::HostDriver { runs } => with(HOST_DRIVER, &u32::from(*runs).to_be_bytes()),
            Self::DelayedResponse { kind, instance } => {
                with(DELAYED_RESPONSE, &[*kind, *instance, 0, 0])
            }
            Self::Other { kind, data } => with(*kind, data),
        }
    }
}
