//! A frame filled once, from which any frame of its flow and size is made by patching a dozen
//! bytes.
//!
//! The transport checksum is made by increment (RFC 1624): the sum over everything that stays is
//! kept, and the few words that differ are added to it. It is always the full checksum that any
//! host accepts.

use super::checksum::{add, add_bytes, finish, subtract};
use super::headers::{Addresses, Headers, Ports, Transport};
use super::signature::{self, SIGNATURE_BYTES, Stamp};
use super::{FCS_BYTES, LARGEST_FRAME, SMALLEST_FRAME};

/// Why a frame of this size cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TemplateError {
    /// Headers and signature do not fit.
    TooSmall {
        /// Asked for, check sequence included.
        size: usize,
        /// The least that would do.
        least: usize,
    },
    /// Larger than [`LARGEST_FRAME`].
    TooLarge {
        /// Asked for.
        size: usize,
    },
}

impl std::fmt::Display for TemplateError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooSmall { size, least } => write!(
                f,
                "a frame of {size} B has no room for its headers and a signature of \
                    {SIGNATURE_BYTES} B: at least {least} B \
                 (frame check sequence included) are needed"
            ),
            Self::TooLarge { size } => {
                write!(f, "a frame of {size} B is larger than {LARGEST_FRAME} B")
            }
        }
    }
}

impl std::error::Error for TemplateError {}

/// One flow's frame of one size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    bytes: Vec<u8>,
    transport_at: usize,
    signature_at: usize,
    checksum_at: usize,
    /// One's complement sum of pseudo header, transport header and payload, what is patched taken
    /// as zero.
    sum: u32,
    ports: Ports,
    /// A UDP checksum of zero means that there is none (RFC 768): its complement stands for it.
    zero_means_none: bool,
}

impl Template {
    /// A frame of `frame_size` bytes, check sequence included: headers, signature of `flow` under
    /// `tag`, and `filling` repeated over the rest.
    ///
    /// # Errors
    /// If there is no room for headers and signature, or it is larger than [`LARGEST_FRAME`].
    pub fn new(
        headers: &Headers,
        frame_size: usize,
        tag: u32,
        flow: u16,
        filling: &[u8],
    ) -> Result<Self, TemplateError> {
        let least = least_size(headers);
        if frame_size < least {
            return Err(TemplateError::TooSmall { size: frame_size, least });
        }
        if frame_size > LARGEST_FRAME {
            return Err(TemplateError::TooLarge { size: frame_size });
        }
        // The check sequence is counted in the frame size but the device appends it, so it is not
        // in the template.
        let payload_bytes = frame_size - FCS_BYTES - headers.signature_at();
        let mut bytes = headers.emit(payload_bytes);
        let signature_at = bytes.len();
        bytes.resize(signature_at + SIGNATURE_BYTES, 0);
        signature::write_fixed(&mut bytes[signature_at..], tag, flow);
        let rest = payload_bytes - SIGNATURE_BYTES;
        // An empty pattern would make `cycle` end at once and leave the frame too short.
        let filling = if filling.is_empty() { &[0][..] } else { filling };
        bytes.extend(filling.iter().cycle().take(rest));
        let transport_at = headers.transport_at();
        // The template's checksum field is zero here, so the sum can be taken over the whole
        // segment.
        let sum = add_bytes(headers.pseudo_sum(bytes.len() - transport_at), &bytes[transport_at..]);
        let mut template = Self {
            bytes,
            transport_at,
            signature_at,
            checksum_at: headers.checksum_at(),
            sum,
            ports: headers.ports,
            // TCP has no such exception: its checksum of zero is an ordinary value (RFC 9293
            // section 3.1).
            zero_means_none: headers.transport == Transport::Udp,
        };
        // `patch` borrows the template, so the bytes leave it while they are patched.
        let mut whole = std::mem::take(&mut template.bytes);
        template.patch(&mut whole, &Stamp::default());
        template.bytes = whole;
        Ok(template)
    }

    /// The whole frame, without check sequence, its stamp all zero.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Where the two ports begin.
    #[must_use]
    pub fn ports_at(&self) -> usize {
        self.transport_at
    }

    /// Where the signature begins.
    #[must_use]
    pub fn signature_at(&self) -> usize {
        self.signature_at
    }

    /// Where the transport checksum stands, and the sum that a frame's changing words are added to
    /// for it: for whoever patches frames elsewhere (a program in the kernel).
    #[must_use]
    pub fn checksum_base(&self) -> (usize, u32) {
        (self.checksum_at, self.sum)
    }

    /// Transport payload, signature included.
    #[must_use]
    pub fn payload_bytes(&self) -> usize {
        self.bytes.len() - self.signature_at
    }

    /// Returns the part that differs between templates of one size: everything up to the end of the
    /// signature.
    #[inline]
    #[must_use]
    pub fn head(&self) -> &[u8] {
        &self.bytes[..self.signature_at + SIGNATURE_BYTES]
    }

    /// Makes `frame`, whose head is this template's, the frame of `stamp`.
    ///
    /// # Panics
    /// If `frame` is shorter than the template's head.
    #[inline]
    pub fn patch(&self, frame: &mut [u8], stamp: &Stamp) {
        let sum = self.stamped(frame, stamp, self.sum);
        self.write_checksum(frame, sum);
    }

    /// The same, with other ports than the template's.
    ///
    /// # Panics
    /// As [`Self::patch`].
    #[inline]
    pub fn patch_with_ports(&self, frame: &mut [u8], stamp: &Stamp, ports: Ports) {
        let mut sum = self.stamped(frame, stamp, self.sum);
        // Both ports are in the sum already, so the old value goes out before the new one comes in
        // (RFC 1624).
        for (new, old) in
            [(ports.source, self.ports.source), (ports.destination, self.ports.destination)]
        {
            sum = add(subtract(sum, old), new);
        }
        frame[self.transport_at..self.transport_at + 2]
            .copy_from_slice(&ports.source.to_be_bytes());
        frame[self.transport_at + 2..self.transport_at + 4]
            .copy_from_slice(&ports.destination.to_be_bytes());
        self.write_checksum(frame, sum);
    }

    #[inline]
    fn stamped(&self, frame: &mut [u8], stamp: &Stamp, sum: u32) -> u32 {
        signature::write_stamp(&mut frame[self.signature_at..], stamp).into_iter().fold(sum, add)
    }

    #[inline]
    fn write_checksum(&self, frame: &mut [u8], sum: u32) {
        let mut checksum = finish(sum);
        if checksum == 0 && self.zero_means_none {
            checksum = u16::MAX;
        }
        frame[self.checksum_at..self.checksum_at + 2].copy_from_slice(&checksum.to_be_bytes());
    }
}

/// The smallest frame that `headers` and a signature fit in.
#[must_use]
pub(super) fn least_size(headers: &Headers) -> usize {
    (headers.signature_at() + SIGNATURE_BYTES + FCS_BYTES).max(SMALLEST_FRAME)
}

impl Headers {
    /// The smallest frame, check sequence included, that these headers and a signature fit in.
    #[must_use]
    pub fn least_frame_size(&self) -> usize {
        least_size(self)
    }

    /// Returns true if the addresses are IPv6.
    #[must_use]
    pub fn is_ipv6(&self) -> bool {
        matches!(self.addresses, Addresses::V6 { .. })
    }
}
