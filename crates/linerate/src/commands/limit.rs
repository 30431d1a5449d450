//! `linerate limit`: a ceiling with its derivation.

mod pcie;

use clap::{Arg, ArgAction, ArgMatches, Command};
use linerate_analysis::limits::{LIMITS, Limit, limit, option_value};
use linerate_answers::ceilings as answers;
use linerate_model::{Ceiling, Params};
use serde_json::json;

use crate::args::{Global, Saved};
use crate::exit::{Exit, Failure, Outcome};
use crate::reports;

/// Returns a subcommand for each calculator of the registry.
pub(crate) fn subcommands() -> Vec<Command> {
    LIMITS
        .iter()
        .map(|limit| {
            let options = limit.options.iter().map(|option| {
                let name = option.name.replace('_', "-");
                let arg =
                    Arg::new(option.name).long(name).help(help(option.meaning, option.default));
                // Only a switch has this default.
                let switch = option.default == "false";
                let arg = if switch {
                    arg.num_args(0..=1).default_missing_value("true")
                } else {
                    arg.num_args(1)
                };
                // An option without a default must be given.
                arg.action(ArgAction::Set).required(option.default.is_empty())
            });
            let command = Command::new(limit.name.replace('_', "-")).args(options);
            let command =
                if limit.name == pcie::NAME { pcie::with_devices(command) } else { command };
            // Last, because flattened options bring their own text along.
            command.about(limit.summary).long_about(limit.summary)
        })
        .collect()
}

fn help(meaning: &str, default: &str) -> String {
    match default {
        "" | "-" => meaning.to_owned(),
        default => format!("{meaning} [default: {default}]"),
    }
}

/// Prints the ceilings of the calculator chosen.
pub(crate) fn run(matches: &ArgMatches, global: Global) -> Outcome {
    let (name, matches) = matches
        .subcommand()
        .ok_or_else(|| Failure::wrong("limit: name a calculator (see `linerate limit --help`)"))?;
    let limit = limit(&name.replace('-', "_"))
        .ok_or_else(|| Failure::wrong(format!("limit: there is no calculator `{name}`")))?;
    let mut params = Params::default();
    for option in limit.options {
        // An option that was not given keeps the calculator's own default.
        if let Some(text) = matches.get_one::<String>(option.name) {
            params.set(option.name, option_value(text));
        }
    }
    // PCI Express has options of its own: devices stand for generation and lanes.
    if name == pcie::NAME {
        return pcie::run(limit, matches, params, global);
    }
    let ceilings = ceilings(limit, &params)?;
    let shown: Vec<_> = ceilings.iter().map(linerate_report::ceiling_json).collect();
    let answer = answers::document(&[], &ceilings, json!({ "ceilings": shown }));
    reports::answer(&answer, &Saved::nowhere(), global)?;
    Ok(Exit::Done)
}

/// Returns the ceilings of `limit` for `params`, or the mistakes in the words of the command line.
fn ceilings(limit: &Limit, params: &Params) -> Result<Vec<Ceiling>, Failure> {
    (limit.ceilings)(params).map_err(|errors| {
        let name = limit.name;
        let lines: Vec<String> = errors
            .iter()
            .map(|e| {
                format!(
                    "limit {name} --{}",
                    // The calculator names the key as a plan would; here it is an option.
                    e.to_string().replacen(&e.key, &e.key.replace('_', "-"), 1)
                )
            })
            .collect();
        Failure::wrong(lines.join("\n"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_of_each_calculator_is_its_summary() {
        for (command, limit) in subcommands().iter().zip(LIMITS) {
            let texts = [command.get_about(), command.get_long_about()];
            for text in texts.map(|text| text.map(ToString::to_string)) {
                assert_eq!(text.as_deref(), Some(limit.summary), "{}", limit.name);
            }
        }
    }
}
