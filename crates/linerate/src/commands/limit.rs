//! `linerate limit`: a ceiling with its derivation.

mod pcie;

use clap::{Arg, ArgAction, ArgMatches, Command};
use linerate_analysis::limits::{LIMITS, Limit, limit};
use linerate_model::{Ceiling, Params};
use serde_json::{Value, json};

use crate::exit::{Exit, Failure, Outcome};
use crate::show;

/// The calculators as subcommands, one for each entry of the registry.
pub(crate) fn subcommands() -> Vec<Command> {
    LIMITS
        .iter()
        .map(|limit| {
            let options = limit.options().iter().map(|option| {
                let name = option.name.replace('_', "-");
                let arg =
                    Arg::new(option.name).long(name).help(help(option.meaning, option.default));
                let switch = option.default == "false";
                let arg = if switch {
                    arg.num_args(0..=1).default_missing_value("true")
                } else {
                    arg.num_args(1)
                };
                arg.action(ArgAction::Set).required(option.default.is_empty())
            });
            let command =
                Command::new(limit.name().replace('_', "-")).about(limit.summary()).args(options);
            if limit.name() == pcie::NAME { pcie::with_devices(command) } else { command }
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
pub(crate) fn run(matches: &ArgMatches, as_json: bool) -> Outcome {
    let (name, matches) = matches
        .subcommand()
        .ok_or_else(|| Failure::wrong("limit: name a calculator (see linerate limit --help)"))?;
    let limit = limit(&name.replace('-', "_"))
        .ok_or_else(|| Failure::wrong(format!("limit: there is no calculator `{name}`")))?;
    let mut params = Params::default();
    for option in limit.options() {
        if let Some(text) = matches.get_one::<String>(option.name) {
            params.set(option.name, value(text));
        }
    }
    if name == pcie::NAME {
        return pcie::run(matches, params, as_json);
    }
    let ceilings = ceilings(limit, &params)?;
    if as_json {
        let ceilings: Vec<_> = ceilings.iter().map(linerate_report::ceiling_json).collect();
        println!("{}", json!({ "ceilings": ceilings }));
    } else {
        ceilings.iter().for_each(print);
    }
    Ok(Exit::Done)
}

/// What `limit` makes of `params`, or what is wrong with them in the words of the command line.
fn ceilings(limit: &dyn Limit, params: &Params) -> Result<Vec<Ceiling>, Failure> {
    limit.ceilings(params).map_err(|errors| {
        let name = limit.name();
        let lines: Vec<String> = errors
            .iter()
            .map(|e| {
                format!(
                    "limit {name} --{}",
                    e.to_string().replacen(&e.key, &e.key.replace('_', "-"), 1)
                )
            })
            .collect();
        Failure::wrong(lines.join("\n"))
    })
}

/// A bare number is a count, `true` and `false` are themselves, all else is text with its unit.
fn value(text: &str) -> Value {
    match serde_json::from_str::<Value>(text) {
        Ok(value @ (Value::Number(_) | Value::Bool(_))) => value,
        _ => Value::String(text.to_owned()),
    }
}

fn print(ceiling: &Ceiling) {
    let layer = ceiling.layer.map(|layer| format!(" {layer}")).unwrap_or_default();
    println!(
        "{}: {}{layer}, {}",
        ceiling.metric,
        show::quantity(&ceiling.metric, ceiling.value, ceiling.unit),
        ceiling.name()
    );
    for line in &ceiling.derivation {
        println!("    {line}");
    }
    println!("    source: {}", ceiling.source);
    println!();
}
