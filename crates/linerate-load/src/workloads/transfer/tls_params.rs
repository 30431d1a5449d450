//! Parameters of TLS, the same for every protocol of file transfers.

use std::path::Path;

use linerate_model::ParamError;

use super::params::{Files, TakeBy};
use super::start::Side;
use super::tls::Security;
use super::url::Url;
use crate::parameter::{Takes, parameters};
use crate::workloads::parameters::wrong;
use crate::{LoadError, Secret};

/// Where Debian and its kin keep the roots that browsers trust.
const ROOTS: &str = "/etc/ssl/certs/ca-certificates.crt";

parameters! {
    /// What every protocol over TLS can be told.
    pub(crate) struct TlsParams {
        roots: String = ROOTS.into(), Takes::Text { example: ROOTS }, "\"/etc/ssl/certs/ca-certificates.crt\"",
            "certificates (PEM) that vouch for a foreign server's";
        pub(crate) tls: bool = false, Takes::Flag, "false",
            "over TLS 1.3 or 1.2, encrypted in user space: bytes are read and written, however \
                `send` would have it \
             (`ftp`: AUTH TLS and PROT P, commands and files alike). Our own server shows a \
             certificate that the run \
             made, and our client takes its key alone";
        verify: bool = true, Takes::Flag, "true",
            "a foreign server's certificate must lead to one of `roots`; false: any will do, and \
                the report says so";
    }
}

impl TlsParams {
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
