//! Limit models, alphabetically: upper bounds with their derivation.
//!
//! Each file holds the pure, typed functions of one model and the calculator that shows them.
//! Packet rates, layers and directions are those of [`linerate_model::METRICS`]; the derivation of
//! every bound can be followed with a pocket calculator. [`tree`] joins bounds along a path and has
//! no calculator of its own.

pub mod ethernet;
pub mod fibre_channel;
pub mod headers;
pub mod lag;
pub mod ncsi;
mod options;
pub mod pci;
pub mod pcie;
pub mod tcp;
pub mod tree;
pub mod udp;
pub mod window;

use linerate_model::{Ceiling, ParamError, Params};

/// A calculator as help prints it: one option.
#[derive(Clone, Copy, Debug)]
pub struct OptionDoc {
    /// Option name, as on the command line without dashes and in `Params` with `_`.
    pub name: &'static str,
    /// Default as written, `""` if the option is required, `"-"` if it is optional without a
    /// default.
    pub default: &'static str,
    /// Help text.
    pub meaning: &'static str,
}

/// A model of what theory allows.
pub trait Limit: Sync {
    /// Returns the name of its calculator.
    fn name(&self) -> &'static str;

    /// One sentence: what it bounds, and by which standard.
    fn summary(&self) -> &'static str;

    /// Returns the model's options.
    fn options(&self) -> &'static [OptionDoc];

    /// Returns the ceilings that follow from `params`.
    ///
    /// # Errors Every parameter that does not fit.
    fn ceilings(&self, params: &Params) -> Result<Vec<Ceiling>, Vec<ParamError>>;
}

/// Every limit model.
pub static LIMITS: &[&dyn Limit] = &[
    &ethernet::Ethernet,
    &fibre_channel::FibreChannel,
    &lag::Lag,
    &ncsi::Ncsi,
    &pci::Pci,
    &pcie::Pcie,
    &tcp::Tcp,
    &udp::Udp,
    &window::Window,
];

/// Returns the limit model called `name`; `_` and `-` are the same, as on a command line.
///
/// # Examples
/// ```
/// use linerate_analysis::limits::limit;
/// use linerate_model::Params;
///
/// let mut options = Params::default();
/// options.set("rate", "10 Gbit/s");
/// options.set("frame_size", "64 B");
/// let ethernet = limit("ethernet").expect("a known model");
/// let ceilings = ethernet.ceilings(&options).expect("all options fit");
/// assert_eq!(ceilings[0].value.floor(), 14_880_952.0);
/// ```
#[must_use]
pub fn limit(name: &str) -> Option<&'static dyn Limit> {
    let name = name.replace('_', "-");
    LIMITS.iter().copied().find(|limit| limit.name().replace('_', "-") == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_registry_is_alphabetical_and_finds_each_by_name() {
        let names: Vec<&str> = LIMITS.iter().map(|limit| limit.name()).collect();
        assert!(names.is_sorted(), "{names:?}");
        for name in names {
            assert_eq!(limit(name).map(Limit::name), Some(name));
        }
        assert_eq!(limit("fibre_channel").map(Limit::name), Some("fibre-channel"));
        assert!(limit("quic").is_none());
    }

    #[test]
    fn every_calculator_refuses_what_it_does_not_know_and_names_what_it_lacks() {
        for limit in LIMITS {
            let mut params = Params::default();
            params.set("warp_factor", 9);
            let errors = limit.ceilings(&params).expect_err(limit.name());
            assert!(
                errors.iter().any(|error| error.key == "warp_factor"),
                "{}: {errors:?}",
                limit.name()
            );
            for option in limit.options().iter().filter(|option| option.default.is_empty()) {
                assert!(
                    errors.iter().any(|error| error.key == option.name),
                    "{} {}",
                    limit.name(),
                    option.name
                );
            }
        }
    }
}
