//! Protocol data units (RFC 3416 3) and the community messages that carry them (RFC 1901 3).

use super::Oid;
use super::ber::{self, BerError, Reader, SEQUENCE};

/// `version` of a community message of SNMPv2.
const VERSION_2: i32 = 1;

/// Kind of a data unit; its tag (RFC 3416 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PduKind {
    /// The values of the objects named.
    Get = 0xa0,
    /// Those that follow the objects named.
    GetNext = 0xa1,
    /// An answer.
    Response = 0xa2,
    /// Many of those that follow.
    GetBulk = 0xa5,
    /// Error of a request, reported by the message processing of the other side.
    Report = 0xa8,
}

/// The value of an object (RFC 2578 7.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// None yet: in requests.
    Null,
    /// `INTEGER`, `Integer32`.
    Integer(i64),
    /// `OCTET STRING`.
    Octets(Vec<u8>),
    /// `OBJECT IDENTIFIER`.
    Oid(Oid),
    /// `Counter32`: wraps.
    Counter32(u32),
    /// `Gauge32`, `Unsigned32`.
    Gauge32(u32),
    /// `TimeTicks`: hundredths of a second.
    TimeTicks(u32),
    /// `Counter64`.
    Counter64(u64),
    /// The agent has no such object, or not of that instance; or nothing follows.
    Absent,
    /// Value of another type.
    Other(u8),
}

/// A protocol data unit. Of a bulk request `error_status` is the number of non-repeaters and
/// `error_index` that of repetitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pdu {
    /// Kind.
    pub kind: PduKind,
    /// Matches an answer to its request.
    pub request: i32,
    /// Error of the request; 0: none.
    pub error_status: i32,
    /// With which binding, from 1.
    pub error_index: i32,
    /// Objects and their values.
    pub bindings: Vec<(Oid, Value)>,
}

impl Pdu {
    /// Asks for the values of `objects`.
    #[must_use]
    pub fn get(request: i32, objects: &[Oid]) -> Self {
        let bindings = objects.iter().map(|object| (object.clone(), Value::Null)).collect();
        Self { kind: PduKind::Get, request, error_status: 0, error_index: 0, bindings }
    }

    /// Asks for up to `repetitions` objects that follow `object`.
    #[must_use]
    pub fn get_bulk(request: i32, object: &Oid, repetitions: i32) -> Self {
        let bindings = vec![(object.clone(), Value::Null)];
        Self {
            kind: PduKind::GetBulk,
            request,
            error_status: 0,
            error_index: repetitions,
            bindings,
        }
    }

    pub(super) fn emit(&self) -> Vec<u8> {
        let binding = |(object, value): &(Oid, Value)| {
            ber::made_of(SEQUENCE, &[ber::object_identifier(object), value.emit()])
        };
        let bindings: Vec<Vec<u8>> = self.bindings.iter().map(binding).collect();
        let numbers = [self.request, self.error_status, self.error_index]
            .map(|number| ber::integer(number.into()));
        ber::element(
            self.kind as u8,
            &[numbers.concat(), ber::made_of(SEQUENCE, &bindings)].concat(),
        )
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, BerError> {
        let (tag, at, content) = reader.any()?;
        let kinds =
            [PduKind::Get, PduKind::GetNext, PduKind::Response, PduKind::GetBulk, PduKind::Report];
        let kind = kinds.into_iter().find(|kind| *kind as u8 == tag);
        let kind = kind.ok_or(BerError::Tag { expected: PduKind::Response as u8, found: tag })?;
        let mut inside = Reader::within(content, at);
        let (request, error_status, error_index) = (inside.word()?, inside.word()?, inside.word()?);
        let mut list = inside.inside(SEQUENCE)?;
        inside.end()?;
        let mut bindings = Vec::new();
        while !list.is_empty() {
            let mut binding = list.inside(SEQUENCE)?;
            let object = ber::identifier(binding.element(ber::OBJECT_IDENTIFIER)?.1)?;
            bindings.push((object, Value::read(&mut binding)?));
            binding.end()?;
        }
        Ok(Self { kind, request, error_status, error_index, bindings })
    }
}

/// Tags of application and of context (RFC 2578 7.1, RFC 3416 3).
const COUNTER32: u8 = 0x41;
const GAUGE32: u8 = 0x42;
const TIME_TICKS: u8 = 0x43;
const COUNTER64: u8 = 0x46;
const NO_SUCH_OBJECT: u8 = 0x80;
const NO_SUCH_INSTANCE: u8 = 0x81;
const END_OF_MIB_VIEW: u8 = 0x82;

impl Value {
    /// The number it is, if it is one.
    #[must_use]
    pub fn number(&self) -> Option<u64> {
        match self {
            Self::Integer(value) => u64::try_from(*value).ok(),
            Self::Counter32(value) | Self::Gauge32(value) | Self::TimeTicks(value) => {
                Some(u64::from(*value))
            }
            Self::Counter64(value) => Some(*value),
            _ => None,
        }
    }

    fn emit(&self) -> Vec<u8> {
        match self {
            Self::Integer(value) => ber::integer(*value),
            Self::Octets(octets) => ber::octets(octets),
            Self::Oid(oid) => ber::object_identifier(oid),
            Self::Counter32(value) => unsigned(COUNTER32, u64::from(*value)),
            Self::Gauge32(value) => unsigned(GAUGE32, u64::from(*value)),
            Self::TimeTicks(value) => unsigned(TIME_TICKS, u64::from(*value)),
            Self::Counter64(value) => unsigned(COUNTER64, *value),
            Self::Absent => ber::element(NO_SUCH_INSTANCE, &[]),
            Self::Null | Self::Other(_) => ber::element(ber::NULL, &[]),
        }
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, BerError> {
        let (tag, _, content) = reader.any()?;
        // The value is range-checked here: agents send Counter32 values with five octets, of which
        // the first is zero.
        let word = || u32::try_from(ber::unsigned(content)?).map_err(|_| BerError::TooLarge);
        Ok(match tag {
            ber::NULL => Self::Null,
            ber::INTEGER => Self::Integer(ber::signed(content)?),
            ber::OCTET_STRING => Self::Octets(content.to_vec()),
            ber::OBJECT_IDENTIFIER => Self::Oid(ber::identifier(content)?),
            COUNTER32 => Self::Counter32(word()?),
            GAUGE32 => Self::Gauge32(word()?),
            TIME_TICKS => Self::TimeTicks(word()?),
            COUNTER64 => Self::Counter64(ber::unsigned(content)?),
            // The three exceptions have one meaning for a reader of counters: there is no value.
            NO_SUCH_OBJECT | NO_SUCH_INSTANCE | END_OF_MIB_VIEW => Self::Absent,
            other => Self::Other(other),
        })
    }
}

/// Returns `value` as an element of an unsigned type with `tag`.
fn unsigned(tag: u8, value: u64) -> Vec<u8> {
    let octets = value.to_be_bytes();
    let start = octets.iter().take_while(|octet| **octet == 0).count().min(octets.len() - 1);
    // A first octet with the top bit set would read as negative.
    let sign = if octets[start] >> 7 == 1 { &[0][..] } else { &[] };
    ber::element(tag, &[sign, &octets[start..]].concat())
}

/// A message of SNMPv2c.
///
/// # Examples
/// ```
/// use linerate_packet::snmp::{Community, Oid, Pdu};
///
/// // ifHCInOctets of interface 1 (RFC 2863).
/// let octets = Oid::new(&[1, 3, 6, 1, 2, 1, 31, 1, 1, 1, 6, 1]);
/// let request = Community { name: b"public".to_vec(), pdu: Pdu::get(7, &[octets]) };
/// let bytes = request.emit();
/// // 0x30 is the BER tag of a sequence.
/// assert_eq!(bytes[0], 0x30);
/// assert_eq!(Community::parse(&bytes).expect("a whole message"), request);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Community {
    /// The community's name.
    pub name: Vec<u8>,
    /// The data unit.
    pub pdu: Pdu,
}

impl Community {
    /// Its bytes.
    #[must_use]
    pub fn emit(&self) -> Vec<u8> {
        ber::made_of(
            SEQUENCE,
            &[ber::integer(VERSION_2.into()), ber::octets(&self.name), self.pdu.emit()],
        )
    }

    /// Reads one.
    ///
    /// # Errors
    /// If `bytes` are no whole message of this version.
    pub fn parse(bytes: &[u8]) -> Result<Self, BerError> {
        let mut whole = Reader::new(bytes);
        let mut message = whole.inside(SEQUENCE)?;
        whole.end()?;
        if message.word()? != VERSION_2 {
            return Err(BerError::Version);
        }
        let name = message.octets()?.to_vec();
        let pdu = Pdu::read(&mut message)?;
        message.end()?;
        Ok(Self { name, pdu })
    }
}
