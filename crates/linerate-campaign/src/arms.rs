//! Host settings of a campaign, which hold in every trial, and of the arms of a comparison, which
//! are made before each trial of the arm and put back after it.
//!
//! Agents change only settings with consent (`linerate agent --allow-tune`). They record the values
//! before, and put them back however the session ends.

use std::collections::BTreeMap;

use linerate_control::{ControlError, KeyStore, Setting, Tuner};
use linerate_model::plan::Plan;
use linerate_model::{HostSetting, Testbed, TrialSpec};

/// Sessions with the agents whose settings an arm changes.
pub(crate) struct Arms<'a> {
    testbed: &'a Testbed,
    keys: Option<&'a KeyStore>,
    tuners: BTreeMap<String, Tuner>,
    /// Settings of the campaign.
    always: Vec<HostSetting>,
    /// Settings in force.
    present: Vec<HostSetting>,
}

impl<'a> Arms<'a> {
    /// Returns sessions without any setting; no agent is asked yet. The settings of `plan` hold in
    /// every trial.
    pub(crate) fn new(plan: &Plan, testbed: &'a Testbed, keys: Option<&'a KeyStore>) -> Self {
        let always = plan.settings.iter().map(|(setting, _)| setting.clone()).collect();
        Self { testbed, keys, tuners: BTreeMap::new(), always, present: Vec::new() }
    }

    /// Makes the settings of `trial`.
    ///
    /// # Errors
    /// If an agent refuses or is lost. Its settings are then unknown, and the trial must not be
    /// measured.
    pub(crate) fn settle(&mut self, trial: &TrialSpec) -> Result<(), ControlError> {
        let of_arm = trial.arm.as_ref().map_or(&[][..], |arm| &arm.settings);
        let wanted = both(&self.always, of_arm);
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
        for setting in &wanted {
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
        self.present = wanted;
        Ok(())
    }
}

/// Returns the settings `always` and those of an arm, which replace some of them.
fn both(always: &[HostSetting], of_arm: &[HostSetting]) -> Vec<HostSetting> {
    let is_replaced =
        |one: &HostSetting| of_arm.iter().any(|other| other.at == one.at && other.name == one.name);
    let kept = always.iter().filter(|one| !is_replaced(one));
    kept.chain(of_arm).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arm_replaces_a_setting_of_the_campaign_at_its_host_only() {
        let setting = |at: &str, name: &str, value: &str| HostSetting {
            at: at.into(),
            name: name.into(),
            value: value.into(),
        };
        let always =
            [setting("b", "rmem", "1"), setting("b", "wmem", "2"), setting("c", "rmem", "3")];
        let found = both(&always, &[setting("b", "rmem", "4")]);
        let [_, kept, other] = always.clone();
        assert_eq!(found, [kept, other, setting("b", "rmem", "4")]);
        assert_eq!(both(&always, &[]), always);
    }
}
