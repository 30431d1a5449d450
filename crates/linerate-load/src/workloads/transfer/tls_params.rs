//! Parameters of TLS, the same for every protocol of file transfers.

use std::path::Path;

use linerate_model::ParamError;
use serde::Deserialize;

use super::params::{Files, TakeBy};
use super::start::Side;
use super::tls::Security;
use super::url::Url;
use crate::parameter::{ParamDoc, Takes};
use crate::workloads::parameters::wrong;
use crate::{LoadError, Secret};

/// Where Debian and its kin keep the roots that browsers trust.
const ROOTS: &str = "/etc/ssl/certs/ca-certificates.crt";

/// What every protocol over TLS can be told.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub(crate) struct TlsParams {
    pub(crate) tls: bool,
    verify: bool,
    roots: String,
}

impl Default for TlsParams {
    fn default() -> Self {
        Self { tls: false, verify: true, roots: ROOTS.into() }
    }
}

impl TlsParams {
    /// As documented.
    pub(crate) const DOCS: &[ParamDoc] = &[
        ParamDoc {
            name: "roots",
            takes: Takes::Text { example: ROOTS },
            default: "\"/etc/ssl/certs/ca-certificates.crt\"",
            meaning: "certificates (PEM) that vouch for a foreign server's",
        },
        ParamDoc {
            name: "tls",
            takes: Takes::Flag,
            default: "false",
            meaning: "over TLS 1.3 or 1.2, encrypted in user space: bytes are read and written, however `send` would have it \
                      (`ftp`: AUTH TLS and PROT P, commands and files alike). Our own server shows a certificate that the run \
                      made, and our client takes its key alone",
        },
        ParamDoc {
            name: "verify",
            takes: Takes::Flag,
            default: "true",
            meaning: "a foreign server's certificate must lead to one of `roots`; false: any will do, and the report says so",
        },
    ];

    /// Says whether TLS goes with the rest.
    pub(crate) fn check(&self, files: &Files) -> Result<(), ParamError> {
        if self.tls && files.receive == TakeBy::Splice {
            return Err(wrong("receive", "`splice` cannot pass TLS in user space"));
        }
        Ok(())
    }

    /// TLS of this end's connections, if they have it; `url` is the foreign server's.
    pub(crate) fn security(
        &self,
        url: Option<&Url>,
        side: Side,
        secret: Secret,
    ) -> Result<Option<Security>, LoadError> {
        let roots = self.verify.then(|| Path::new(&self.roots));
        Ok(match (url, side) {
            _ if !self.tls => None,
            (Some(url), _) => Some(Security::foreign_client(&url.host, roots)?),
            (None, Side::Active) => Some(Security::own_client(secret)?),
            (None, Side::Passive) => Some(Security::own_server(secret)?),
        })
    }
}
