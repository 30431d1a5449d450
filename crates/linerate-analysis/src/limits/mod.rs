//! Limit models, alphabetically: upper bounds with their derivation.

use linerate_model::{Ceiling, ParamError, Params};

/// A calculator as help prints it: one option.
#[derive(Clone, Copy, Debug)]
pub struct OptionDoc {
    /// Its name, as on the command line without dashes and in `Params` with `_`.
    pub name: &'static str,
    /// Its default as written, `""` if it is required, `"-"` if it may be left out.
    pub default: &'static str,
    /// What it means.
    pub meaning: &'static str,
}

/// A model of what theory allows.
pub trait Limit: Sync {
    /// The name of its calculator.
    fn name(&self) -> &'static str;

    /// One sentence: what it bounds, and by which standard.
    fn summary(&self) -> &'static str;

    /// Its options.
    fn options(&self) -> &'static [OptionDoc];

    /// The ceilings that follow from `params`.
    ///
    /// # Errors
    /// Every parameter that does not fit.
    fn ceilings(&self, params: &Params) -> Result<Vec<Ceiling>, Vec<ParamError>>;
}

/// Every limit model.
pub static LIMITS: &[&dyn Limit] = &[];

/// The limit model called `name`.
#[must_use]
pub fn limit(name: &str) -> Option<&'static dyn Limit> {
    LIMITS.iter().copied().find(|limit| limit.name() == name)
}
