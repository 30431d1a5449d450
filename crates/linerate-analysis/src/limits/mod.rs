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

pub use options::{option_value, with_defaults};

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

/// Returns an option that is required.
const fn required(name: &'static str, meaning: &'static str) -> OptionDoc {
    OptionDoc { name, default: "", meaning }
}

/// Returns an option that may be left out and then has no value.
const fn optional(name: &'static str, meaning: &'static str) -> OptionDoc {
    OptionDoc { name, default: "-", meaning }
}

/// Returns an option that may be left out and then has the value `default`.
const fn defaults(name: &'static str, default: &'static str, meaning: &'static str) -> OptionDoc {
    OptionDoc { name, default, meaning }
}

/// A model of what theory allows.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// Name of its calculator.
    pub name: &'static str,
    /// One sentence: what it bounds, and by which standard.
    pub summary: &'static str,
    /// The model's options.
    pub options: &'static [OptionDoc],
    /// Returns the ceilings that follow from the options, or every option that does not fit.
    pub ceilings: fn(&Params) -> Result<Vec<Ceiling>, Vec<ParamError>>,
}

/// Every limit model.
pub static LIMITS: &[Limit] = &[
    ethernet::LIMIT,
    fibre_channel::LIMIT,
    lag::LIMIT,
    ncsi::LIMIT,
    pci::LIMIT,
    pcie::LIMIT,
    tcp::LIMIT,
    udp::LIMIT,
    window::LIMIT,
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
/// let ceilings = (ethernet.ceilings)(&options).expect("all options fit");
/// assert_eq!(ceilings[0].value.floor(), 14_880_952.0);
/// ```
#[must_use]
pub fn limit(name: &str) -> Option<&'static Limit> {
    let name = name.replace('_', "-");
    LIMITS.iter().find(|limit| limit.name.replace('_', "-") == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_registry_is_alphabetical_and_finds_each_by_name() {
        let names: Vec<&str> = LIMITS.iter().map(|limit| limit.name).collect();
        assert!(names.is_sorted(), "{names:?}");
        for name in names {
            assert_eq!(limit(name).map(|limit| limit.name), Some(name));
        }
        assert_eq!(limit("fibre_channel").map(|limit| limit.name), Some("fibre-channel"));
        assert!(limit("quic").is_none());
    }

    #[test]
    fn every_calculator_refuses_what_it_does_not_know_and_names_what_it_lacks() {
        for limit in LIMITS {
            let mut params = Params::default();
            params.set("warp_factor", 9);
            let errors = (limit.ceilings)(&params).expect_err(limit.name);
            assert!(
                errors.iter().any(|error| error.key == "warp_factor"),
                "{}: {errors:?}",
                limit.name
            );
            for option in limit.options.iter().filter(|option| option.default.is_empty()) {
                assert!(
                    errors.iter().any(|error| error.key == option.name),
                    "{} {}",
                    limit.name,
                    option.name
                );
            }
        }
    }
}
