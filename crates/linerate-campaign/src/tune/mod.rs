//! Settings changed with consent, their effect proven, and put back.
//!
//! The ladders know no agent, only [`Sessions`] that read and change the settings of a host. A
//! [`Bench`](crate::stages::Bench) runs their measurements.

pub mod host;
pub mod outcome;
mod plans;
pub mod profile;
mod settings;
#[cfg(test)]
mod tests;
pub mod window;

use linerate_control::{ControlError, Setting, SettingState, Tuner};

use crate::stages::Ledgers;
use crate::{Failure, Result};
use linerate_agent::keys::keys_for;

pub use settings::{Present, WindowScope};

/// Open session about the settings of one host. Changes are put back when it ends, unless they are
/// kept.
pub trait Settings {
    /// Reads the present values of `settings`.
    ///
    /// # Errors
    /// If the session has ended, or the agent cannot read them.
    fn read(&mut self, settings: Vec<Setting>) -> Result<Vec<SettingState>, ControlError>;

    /// Makes all settings, or none.
    ///
    /// # Errors
    /// If the session has ended, or the agent does not permit it or fails.
    fn apply(&mut self, settings: Vec<Setting>) -> Result<Vec<SettingState>, ControlError>;

    /// Puts back every change of this session.
    ///
    /// # Errors
    /// If the session has ended, or a setting could not be put back.
    fn revert(&mut self) -> Result<(), ControlError>;

    /// Keeps the changes when the session ends.
    ///
    /// # Errors
    /// If the session has ended, or the agent does not permit it.
    fn keep(&mut self) -> Result<(), ControlError>;
}

impl Settings for Tuner {
    fn read(&mut self, settings: Vec<Setting>) -> Result<Vec<SettingState>, ControlError> {
        Tuner::read(self, settings)
    }

    fn apply(&mut self, settings: Vec<Setting>) -> Result<Vec<SettingState>, ControlError> {
        Tuner::apply(self, settings)
    }

    fn revert(&mut self) -> Result<(), ControlError> {
        Tuner::revert(self)
    }

    fn keep(&mut self) -> Result<(), ControlError> {
        Tuner::keep(self)
    }
}

/// Opener of sessions.
pub trait Sessions {
    /// Opens a session about the settings of `host`.
    ///
    /// # Errors
    /// If the host cannot be reached, or refuses the session.
    fn open(&self, host: &str) -> Result<Box<dyn Settings>>;
}

/// Sessions with the agents of the testbed's hosts.
impl Sessions for Ledgers<'_> {
    fn open(&self, host: &str) -> Result<Box<dyn Settings>> {
        let hosts = &self.ground.testbed.hosts;
        let address = hosts.iter().find(|(name, _)| name == host).map(|(_, address)| address);
        let address = address
            .ok_or_else(|| Failure::wrong(format!("tune: host {host} is not in the testbed")))?;
        let keys = keys_for(hosts)?;
        loop {
            match Tuner::open(host, address, keys.as_ref(), "linerate tune").map_err(Failure::from)
            {
                Err(busy) if busy.is_busy() && self.audience.again(&busy) => {}
                opened => return Ok(Box::new(opened?)),
            }
        }
    }
}
