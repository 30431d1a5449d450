//! Parameters of TLS, the same for every protocol of file transfers.

use std::path::Path;

use linerate_model::{ParamError, Side};

use super::params::{Files, TakeBy};
use super::tls::Security;
use super::url::Url;
use crate::parameter::{Reader, wrong};
use crate::{Result, Secret};

/// Certificates of trusted roots on Debian and its derivatives.
const ROOTS: &str = "/etc/ssl/certs/ca-certificates.crt";

/// TLS of every protocol of file transfers.
#[derive(Clone, Debug)]
pub(crate) struct TlsParams {
    roots: String,
    /// True for connections over TLS.
    pub(crate) tls: bool,
    verify: bool,
}

impl TlsParams {
    /// Declares the parameters.
    pub(crate) fn declare(reader: &mut Reader<'_>) -> Self {
        Self {
            roots: reader.text(
                "roots",
                ROOTS,
                ROOTS,
                "certificates (PEM) of trusted roots, for a foreign server's certificate",
            ),
            tls: reader.flag(
                "tls",
                false,
                "TLS 1.3 or 1.2, encrypted in user space: bytes are read and written whatever \
                    `send` is (`ftp`: AUTH TLS and PROT P, for commands and files). Our server \
                    makes a certificate for the run, and our client trusts only its key",
            ),
            verify: reader.flag(
                "verify",
                true,
                "a foreign server's certificate must lead to one of `roots`; false: any is \
                    accepted, and the report notes it",
            ),
        }
    }

    /// Checks that TLS goes with the rest.
    pub(crate) fn check(&self, files: &Files) -> Result<(), ParamError> {
        if self.tls && files.receive == TakeBy::Splice {
            return Err(wrong("receive", "`splice` cannot pass TLS in user space"));
        }
        Ok(())
    }

    /// Returns the TLS side of this end's connections, if they have one; `url` is the foreign
    /// server's.
    pub(crate) fn security(
        &self,
        url: Option<&Url>,
        side: Side,
        secret: Secret,
    ) -> Result<Option<Security>> {
        let roots = self.verify.then(|| Path::new(&self.roots));
        Ok(match (url, side) {
            _ if !self.tls => None,
            (Some(url), _) => Some(Security::foreign_client(&url.host, roots)?),
            (None, Side::Active) => Some(Security::own_client(secret)?),
            (None, Side::Passive) => Some(Security::own_server(secret)?),
        })
    }
}
