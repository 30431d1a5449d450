//! Host settings of the arms of a comparison: made before each trial of the arm, and put back
//! after it.
//!
//! Agents change only settings with consent (`linerate agent --allow-tune`). They record the values
//! before, and put them back however the session ends.

use std::collections::BTreeMap;

use linerate_control::{ControlError, KeyStore, Setting, Tuner};
use linerate_model::{HostSetting, Testbed, TrialSpec};

/// Sessions with the agents whose settings an arm changes.
pub(crate) struct Arms<'a> {
    testbed: &'a Testbed,
    keys: Option<&'a KeyStore>,
    tuners: BTreeMap<String, Tuner>,
    /// Settings in force.
    present: Vec<HostSetting>,
}

impl<'a> Arms<'a> {
    /// Returns sessions without any setting; no agent is asked yet.
    pub(crate) fn new(testbed: &'a Testbed, keys: Option<&'a KeyStore>) -> Self {
        Self { testbed, keys, tuners: BTreeMap::new(), present: Vec::new() }
    }

    /// Makes the settings of `trial`.
    ///
    /// # Errors
    /// If an agent refuses or is lost. Its settings are then unknown, and the trial must not be
    /// measured.
    pub(crate) fn settle(&mut self, trial: &TrialSpec) -> Result<(), ControlError> {
        let wanted = trial.arm.as_ref().map_or(&[][..], |arm| &arm.settings);
        // Consecutive trials of one arm keep their settings. Each change costs time and disturbs
        // the host.
        if wanted == self.present {
            return Ok(());
        }
        for tuner in self.tuners.values_mut() {
            // All settings are put back first, so that an arm starts from the host's own values and
            // not from those of the arm before.
            tuner.revert()?;
        }
        // Cleared before anything is applied: if an agent refuses halfway, no setting may count as
        // being in force.
        self.present.clear();
        let mut by_host: BTreeMap<&str, Vec<Setting>> = BTreeMap::new();
        for setting in wanted {
            let endpoint = self
                .testbed
                .endpoint(&setting.at)
                .expect("the plan was expanded: endpoints of settings exist");
            let setting = Setting::of(&setting.name, endpoint.device.as_deref(), &setting.value);
            by_host.entry(&endpoint.host).or_default().push(setting);
        }
        for (host, settings) in by_host {
            // A session stays open between arms, because its end puts the settings back.
            if !self.tuners.contains_key(host) {
                let address = self
                    .testbed
                    .hosts
                    .iter()
                    .find(|(name, _)| name == host)
                    .map(|(_, address)| address);
                let address = address.expect("a testbed has the hosts of its endpoints");
                self.tuners.insert(
                    host.to_owned(),
                    Tuner::open(host, address, self.keys, "linerate run")?,
                );
            }
            if let Some(tuner) = self.tuners.get_mut(host) {
                tuner.apply(settings)?;
            }
        }
        self.present = wanted.to_vec();
        Ok(())
    }
}
