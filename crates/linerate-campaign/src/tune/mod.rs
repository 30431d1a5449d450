//! Settings changed with consent, what they do proven, and put back.
//!
//! The ladders know no agent, only [`Sessions`] that read and change the settings of a host; what
//! they measure they have a [`Bench`](crate::stages::Bench) run.

pub mod host;
pub mod outcome;
mod plans;
pub mod profile;
mod settings;
#[cfg(test)]
mod tests;
pub mod window;

use linerate_control::{ControlError, Setting, SettingState, Tuner};
use linerate_model::HostAddress;

use crate::Failure;
use crate::keys::keys_for;

pub use settings::{Present, WindowScope};

/// An open session about the settings of one host. What it changed is put back when it ends, unless
/// it is kept.
pub trait Settings {
    /// What the settings named are now.
    ///
    /// # Errors
    /// If the session has ended, or the agent cannot tell.
    fn read(&mut self, settings: Vec<Setting>) -> Result<Vec<SettingState>, ControlError>;

    /// Makes the settings so, all or none.
    ///
    /// # Errors
    /// If the session has ended, or the agent may not or cannot.
    fn apply(&mut self, settings: Vec<Setting>) -> Result<Vec<SettingState>, ControlError>;

    /// Puts back everything that was changed in this session.
    ///
    /// # Errors
    /// If the session has ended, or something could not be put back.
    fn revert(&mut self) -> Result<(), ControlError>;

    /// Lets what is changed stay when the session ends.
    ///
    /// # Errors
    /// If the session has ended, or the agent does not let it stay.
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

/// What opens sessions.
pub trait Sessions {
    /// Opens one about the settings of `host`.
    ///
    /// # Errors
    /// If it cannot be reached, or does not let us in.
    fn open(&self, host: &str) -> Result<Box<dyn Settings>, Failure>;
}

/// Sessions with the agents of these hosts.
impl Sessions for [(String, HostAddress)] {
    fn open(&self, host: &str) -> Result<Box<dyn Settings>, Failure> {
        let address = self.iter().find(|(name, _)| name == host).map(|(_, address)| address);
        let address = address
            .ok_or_else(|| Failure::wrong(format!("tune: host {host} is not in the testbed")))?;
        Ok(Box::new(Tuner::open(host, address, keys_for(self)?.as_ref(), "linerate tune")?))
    }
}
