//! Answers: what a controller says to a command, and why it refuses.

use super::{
    Capabilities, ControlStatistics, LinkStatus, Parameters, PassThroughStatistics, PortStatistics,
    Version, kind,
};
use crate::bytes::{array, u16_at, u32_at};

const CODE_BYTES: usize = 4;
/// How many bytes an address takes, and where they begin behind code and reason in Get MC MAC
/// Address.
const MAC_BYTES: usize = 6;
const MACS_AT: usize = 4;

/// Result of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was.
    Completed,
    /// It failed.
    Failed,
    /// It cannot be now.
    Unavailable,
    /// The controller does not know it.
    Unsupported,
    /// It will be, later (version 1.2).
    Delayed,
    /// The manufacturer's own code.
    Other(u16),
}

impl Outcome {
    /// From its code on the wire.
    #[must_use]
    pub const fn of(code: u16) -> Self {
        match code {
            0 => Self::Completed,
            1 => Self::Failed,
            2 => Self::Unavailable,
            3 => Self::Unsupported,
            4 => Self::Delayed,
            other => Self::Other(other),
        }
    }

    /// Its code on the wire.
    #[must_use]
    pub const fn code(self) -> u16 {
        match self {
            Self::Completed => 0,
            Self::Failed => 1,
            Self::Unavailable => 2,
            Self::Unsupported => 3,
            Self::Delayed => 4,
            Self::Other(code) => code,
        }
    }
}

/// Why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reason(pub u16);

impl Reason {
    /// No reason, as with a completed command.
    pub const NONE: Self = Self(0);
    /// The channel is in its initial state.
    pub const INITIALIZATION_REQUIRED: Self = Self(1);
    /// The type is unknown.
    pub const UNKNOWN_COMMAND: Self = Self(0x7fff);

    /// In words.
    #[must_use]
    pub fn words(self) -> String {
        let known = match self.0 {
            0 => "no reason given",
            1 => "the channel is in its initial state and must be initialised first",
            2 => "a parameter is invalid, unsupported or out of range",
            3 => "the channel is not ready",
            4 => "the package is not ready",
            5 => "the payload has the wrong length",
            6 => "the information is not available",
            7 => "somebody must intervene",
            8 => "the link could not be reached",
            9 => "the command took too long",
            10 => "a second device has no power",
            // One data sheet prints the shorter number.
            0x7fff | 0x07ff => "the command is unknown or unsupported",
            0x0901 => "set link: the host's driver is in the way",
            0x0902 => "set link: the medium does not fit",
            0x0903 => "set link: the parameters do not fit each other",
            0x0904 => "set link: not in this power mode",
            0x0905 => "set link: the speeds do not fit",
            0x0906 | 0x0a06 => "the link hardware could not be reached",
            0x0b07 => "the VLAN identifier is invalid",
            0x0e08 => "the address is zero",
            0x1409 => "the two ways of flow control cannot be set apart",
            _ => return format!("reason 0x{:04x}", self.0),
        };
        known.to_owned()
    }
}

/// Body of a completed answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Nothing more than that it was done.
    Done,
    /// To Get Link Status.
    LinkStatus(LinkStatus),
    /// To Get Version ID.
    Version(Version),
    /// To Get Capabilities.
    Capabilities(Capabilities),
    /// To Get Parameters.
    Parameters(Parameters),
    /// To Get Controller Packet Statistics.
    PortStatistics(Box<PortStatistics>),
    /// To Get NC-SI Statistics.
    ControlStatistics(ControlStatistics),
    /// To Get NC-SI Pass-through Statistics.
    PassThroughStatistics(PassThroughStatistics),
    /// To Get Package Status: whether packages arbitrate.
    PackageStatus(bool),
    /// To Get Package UUID.
    Uuid([u8; 16]),
    /// To Get MC MAC Address.
    Macs(Vec<[u8; MAC_BYTES]>),
    /// To a manufacturer's command.
    Oem {
        /// IANA enterprise number.
        enterprise: u32,
        /// The rest.
        data: Vec<u8>,
    },
    /// A body that does not fit its command.
    Other(Vec<u8>),
}

impl Answer {
    /// Reads outcome, reason and body of the answer to a command of type `command`.
    ///
    /// An answer without code and reason, as some responders give to commands they do not know, is
    /// unsupported.
    #[must_use]
    pub fn parse(command: u8, payload: &[u8]) -> (Outcome, Reason, Self) {
        let untyped =
            |body: &[u8]| if body.is_empty() { Self::Done } else { Self::Other(body.to_vec()) };
        // Controllers are seen to answer unknown commands with a bare header.
        let (Some(code), Some(reason)) = (u16_at(payload, 0), u16_at(payload, 2)) else {
            return (Outcome::Unsupported, Reason::UNKNOWN_COMMAND, untyped(payload));
        };
        let body = &payload[CODE_BYTES..];
        // The standard defines bodies of completed commands only, so a refusal's is kept untyped.
        let answer = if code == 0 { Self::body(command, body) } else { None };
        (Outcome::of(code), Reason(reason), answer.unwrap_or_else(|| untyped(body)))
    }

    fn body(command: u8, body: &[u8]) -> Option<Self> {
        Some(match command {
            kind::GET_LINK_STATUS => Self::LinkStatus(LinkStatus::parse(body)?),
            kind::GET_VERSION => Self::Version(Version::parse(body)?),
            kind::GET_CAPABILITIES => Self::Capabilities(Capabilities::parse(body)?),
            kind::GET_PARAMETERS => Self::Parameters(Parameters::parse(body)?),
            kind::GET_PORT_STATISTICS => {
                Self::PortStatistics(Box::new(PortStatistics::parse(body)?))
            }
            kind::GET_CONTROL_STATISTICS => {
                Self::ControlStatistics(ControlStatistics::parse(body)?)
            }
            kind::GET_PASS_THROUGH_STATISTICS => {
                Self::PassThroughStatistics(PassThroughStatistics::parse(body)?)
            }
            kind::GET_PACKAGE_STATUS => Self::PackageStatus(u32_at(body, 0)? & 1 != 0),
            kind::GET_PACKAGE_UUID => Self::Uuid(array(body, 0)?),
            kind::GET_MC_MAC_ADDRESS => {
                // Three reserved bytes follow the count.
                let n = usize::from(*body.first()?);
                let macs = body.get(MACS_AT..)?.chunks_exact(MAC_BYTES).take(n);
                Self::Macs(macs.filter_map(|mac| array(mac, 0)).collect())
            }
            kind::OEM => Self::Oem { enterprise: u32_at(body, 0)?, data: body.get(4..)?.to_vec() },
            _ => return None,
        })
    }

    /// The payload of an answer.
    #[must_use]
    pub fn emit(&self, outcome: Outcome, reason: Reason) -> Vec<u8> {
        let mut payload = [outcome.code().to_be_bytes(), reason.0.to_be_bytes()].concat();
        match self {
            Self::Done => {}
            Self::LinkStatus(status) => payload.extend(status.emit()),
            Self::Version(version) => payload.extend(version.emit()),
            Self::Capabilities(capabilities) => payload.extend(capabilities.emit()),
            Self::Parameters(parameters) => payload.extend(parameters.emit()),
            Self::PortStatistics(statistics) => payload.extend(statistics.emit()),
            Self::ControlStatistics(statistics) => payload.extend(statistics.emit()),
            Self::PassThroughStatistics(statistics) => payload.extend(statistics.emit()),
            Self::PackageStatus(arbitrates) => payload.extend(u32::from(*arbitrates).to_be_bytes()),
            Self::Uuid(uuid) => payload.extend(uuid),
            Self::Macs(macs) => {
                payload.extend([macs.len() as u8, 0, 0, 0]);
                payload.extend(macs.iter().flatten());
            }
            Self::Oem { enterprise, data } => {
                payload.extend(enterprise.to_be_bytes());
                payload.extend(data);
            }
            Self::Other(body) => payload.extend(body),
        }
        payload
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_without_a_code_is_unsupported() {
        let (outcome, reason, answer) = Answer::parse(kind::OEM, &[]);
        assert_eq!(
            (outcome, reason, &answer),
            (Outcome::Unsupported, Reason::UNKNOWN_COMMAND, &Answer::Done)
        );
        assert_eq!(
            Answer::parse(kind::OEM, &answer.emit(outcome, reason)),
            (outcome, reason, answer)
        );
    }

    #[test]
    fn a_refusal_has_its_reason_in_words() {
        let (outcome, reason, answer) = Answer::parse(kind::GET_CAPABILITIES, &[0, 1, 0, 1]);
        assert_eq!(
            (outcome, reason, answer),
            (Outcome::Failed, Reason::INITIALIZATION_REQUIRED, Answer::Done)
        );
        assert!(reason.words().contains("initial state"));
    }
}
