//! Parameters of every protocol of file transfers.

use linerate_model::{ParamError, ServerAddress, Side};

use super::params::Files;
use super::tls::Security;
use super::tls_params::TlsParams;
use super::url::Url;
use crate::parameter::{Reader, wrong};
use crate::workloads::placement::Placement;
use crate::workloads::tcp_options::TcpOptions;
use crate::{Result, Secret};

/// Parameters of every protocol.
#[derive(Clone, Debug)]
pub(crate) struct Common {
    pub(crate) files: Files,
    pub(crate) tls: TlsParams,
    pub(crate) placement: Placement,
    pub(crate) options: TcpOptions,
    /// The foreign server.
    pub(crate) url: Option<Url>,
}

impl Common {
    /// Declares the parameters. `example` and `meaning` are those of a foreign server.
    pub(crate) fn declare(
        reader: &mut Reader<'_>,
        (example, meaning): (&'static str, &'static str),
        options: fn(&mut Reader<'_>) -> TcpOptions,
    ) -> Self {
        let server = reader.optional_text("server", example, "the passive end", meaning);
        Self {
            files: Files::declare(reader, server.map(Into::into)),
            tls: TlsParams::declare(reader),
            placement: Placement::declare(reader),
            options: options(reader),
            url: None,
        }
    }

    /// Returns the URL of the foreign server as the plan has it.
    pub(crate) fn server(&self) -> Option<&str> {
        self.files.server.as_ref().map(ServerAddress::reveal)
    }

    /// Parses the URL of the foreign server.
    pub(crate) fn set_server(&mut self, scheme: &str, port: u16) -> Result<(), ParamError> {
        let parse = |server| Url::parse(server, scheme, port);
        self.url = self.server().map(parse).transpose().map_err(|cause| wrong("server", cause))?;
        Ok(())
    }

    /// Checks that the parameters go together.
    pub(crate) fn check(&self) -> Result<(), ParamError> {
        self.tls.check(&self.files)?;
        self.files.check()?;
        self.placement.check(self.placement.streams())
    }

    /// Returns TLS of an end's connections, if they have it.
    pub(crate) fn security(&self, side: Side, secret: Secret) -> Result<Option<Security>> {
        self.tls.security(self.url.as_ref(), side, secret)
    }
}
