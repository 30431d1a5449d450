//! Sizes of requests and responses, of every workload that exchanges them.

use linerate_model::{Bytes, Nanos};
use serde::Deserialize;

use crate::parameter::{ParamDoc, Takes};

/// How long something is waited for before it has failed.
pub(crate) const TIMEOUT: Takes =
    Takes::Time { least: Nanos::from_millis(1), most: Nanos::from_secs(3_600) };

/// Payload of a request and of its response.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(default)]
pub(crate) struct Exchange {
    request_size: Bytes,
    response_size: Bytes,
}

impl Default for Exchange {
    fn default() -> Self {
        Self { request_size: Bytes(1), response_size: Bytes(1) }
    }
}

impl Exchange {
    /// As documented, for requests and responses up to `most`.
    pub(crate) fn docs(most: Bytes) -> [ParamDoc; 2] {
        let takes = Takes::Size { least: Bytes(1), most };
        [
            ParamDoc {
                name: "request_size",
                takes,
                default: "\"1 B\"",
                meaning: "payload of a request",
            },
            ParamDoc {
                name: "response_size",
                takes,
                default: "\"1 B\"",
                meaning: "payload of a response",
            },
        ]
    }

    /// Bytes of a request.
    pub(crate) fn request_bytes(&self) -> usize {
        self.request_size.0 as usize
    }

    /// Bytes of a response.
    pub(crate) fn response_bytes(&self) -> usize {
        self.response_size.0 as usize
    }
}
