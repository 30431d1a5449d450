//! TLS of an FTP connection and of its data connections (RFC 4217): requested by AUTH TLS, PBSZ 0
//! and PROT P before anything else, with nothing in the clear afterwards.
//!
//! A client's data connections resume the session of its control connection, as clause 10.2 advises
//! and vsftpd requires by default (`require_ssl_reuse`): so a server knows that both are the same
//! client's. A new control connection starts a new session.

use std::collections::BTreeMap;

use crate::workloads::transfer::{Failure, Security, Watched};

/// TLS of successive control connections, and of their data connections.
pub(super) struct Protection {
    /// TLS of the trial.
    security: Security,
    /// TLS of the current control connection.
    current: Security,
    cipher: Option<String>,
    files: u64,
    resumed: u64,
}

impl Protection {
    pub(super) fn new(security: &Security) -> Self {
        Self {
            security: security.clone(),
            current: security.clone(),
            cipher: None,
            files: 0,
            resumed: 0,
        }
    }

    /// Secures `control`, a new control connection.
    pub(super) fn control(&mut self, control: &mut Watched) -> Result<(), Failure> {
        self.current = self.security.resuming();
        control.secure(self.current.open()?);
        Ok(())
    }

    /// Version and cipher of the control connection.
    pub(super) fn agreed(&mut self, control: &Watched) {
        self.cipher = self.cipher.take().or_else(|| control.cipher());
    }

    /// Secures `data`, a data connection of the current control connection.
    pub(super) fn data(&self, data: &mut Watched) -> Result<(), Failure> {
        data.secure(self.current.open()?);
        Ok(())
    }

    /// Notes that the handshake of `data` is complete.
    pub(super) fn data_agreed(&mut self, data: &Watched) {
        self.files += 1;
        self.resumed += u64::from(data.is_resumed());
    }

    /// Adds the modes of TLS to reports.
    pub(super) fn modes(&mut self, modes: &mut BTreeMap<String, String>) {
        let Some(cipher) = self.cipher.take() else { return };
        self.security.modes(cipher, modes);
        let resumptions =
            format!("{} of {} resumed the control connection's session", self.resumed, self.files);
        modes.insert("tls_data_connections".into(), resumptions);
    }
}
