//! Sizes of requests and responses.

use std::ops::RangeInclusive;

use linerate_model::{Bytes, Nanos};

use crate::parameter::Reader;

/// Times after which an operation without an answer has failed.
pub(crate) const TIMEOUT: RangeInclusive<Nanos> = Nanos::from_millis(1)..=Nanos::from_secs(3_600);

/// Payload of a request and of its response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exchange {
    request_size: Bytes,
    response_size: Bytes,
}

impl Exchange {
    /// Declares both sizes, which are at most `most`.
    pub(crate) fn declare(reader: &mut Reader<'_>, most: Bytes) -> Self {
        let sizes = Bytes(1)..=most;
        Self {
            request_size: reader.size(
                "request_size",
                sizes.clone(),
                Bytes(1),
                "payload of a request",
            ),
            response_size: reader.size("response_size", sizes, Bytes(1), "payload of a response"),
        }
    }

    /// Returns the bytes of a request.
    pub(crate) fn request_bytes(&self) -> usize {
        self.request_size.0 as usize
    }

    /// Returns the bytes of a response.
    pub(crate) fn response_bytes(&self) -> usize {
        self.response_size.0 as usize
    }
}
