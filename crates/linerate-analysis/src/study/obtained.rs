//! Settings a job obtained: socket options as granted, and modes, by name and end. The report turns
//! them into text.

use std::collections::BTreeMap;

use linerate_model::{Direction, FlowReport, FrameClocks, SocketValue};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::steady::Steady;
use super::traffic::Job;

/// Values that the flows of a job obtained under one name, each value once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[must_use]
pub struct Obtained {
    /// At the first endpoint of the job.
    pub from: Vec<Given>,
    /// At the second.
    pub to: Vec<Given>,
}

/// A value that flows obtained.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Given {
    /// A socket option.
    Option(SocketValue),
    /// A mode, in the workload's own word.
    Mode(String),
    /// Steadiness that the load attained.
    Steady(Steady),
}

impl Given {
    /// Returns the word of a mode, or of an option whose value is one.
    #[must_use]
    pub fn word(&self) -> Option<&str> {
        match self {
            Self::Option(option) => option.granted.as_ref().or(option.at_end.as_ref())?.as_str(),
            Self::Mode(word) => Some(word),
            Self::Steady(_) => None,
        }
    }

    /// Returns the number of an option as granted.
    #[must_use]
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Option(option) => option.granted.as_ref().or(option.at_end.as_ref())?.as_f64(),
            Self::Mode(_) | Self::Steady(_) => None,
        }
    }

    /// Returns the number of an option at the end of the run, as far as that is known; else as
    /// granted.
    #[must_use]
    pub(crate) fn number_at_end(&self) -> Option<f64> {
        match self {
            Self::Option(option) => option.at_end.as_ref().or(option.granted.as_ref())?.as_f64(),
            Self::Mode(_) | Self::Steady(_) => None,
        }
    }
}

impl Obtained {
    /// One mode, of all flows.
    pub fn mode(word: impl Into<String>) -> Self {
        Self { from: vec![Given::Mode(word.into())], to: Vec::new() }
    }

    /// Returns a steadiness, of all flows.
    pub fn steady(steady: Steady) -> Self {
        Self { from: vec![Given::Steady(steady)], to: Vec::new() }
    }

    /// Returns an option that all flows were granted.
    pub fn granted(value: impl Into<Value>) -> Self {
        let granted = SocketValue { granted: Some(value.into()), ..SocketValue::default() };
        Self { from: vec![Given::Option(granted)], to: Vec::new() }
    }

    /// Returns the values at both ends.
    pub fn values(&self) -> impl Iterator<Item = &Given> {
        self.from.iter().chain(&self.to)
    }

    /// Returns the values at the end that sends in `direction`, or those of the other end if none
    /// were reported.
    #[must_use]
    pub(crate) fn of_sender(&self, direction: Direction) -> &[Given] {
        let (own, other) = if direction == Direction::Rx {
            (&self.to, &self.from)
        } else {
            (&self.from, &self.to)
        };
        if own.is_empty() { other } else { own }
    }

    /// Returns the first number granted.
    #[must_use]
    pub fn number(&self) -> Option<f64> {
        self.values().find_map(Given::number)
    }

    /// Returns the first word obtained.
    #[must_use]
    pub fn word(&self) -> Option<&str> {
        self.values().find_map(Given::word)
    }

    /// Returns whether some flows obtained exactly this word.
    #[must_use]
    pub(crate) fn has_word(&self, word: &str) -> bool {
        self.values().any(|given| given.word() == Some(word))
    }

    /// Returns the relation of the clocks of both ends, if the flows timed frames.
    #[must_use]
    pub fn clocks(&self) -> Option<FrameClocks> {
        self.values().filter_map(Given::word).find_map(FrameClocks::recorded_as)
    }

    /// Returns whether it contains options.
    #[must_use]
    pub fn has_options(&self) -> bool {
        self.values().any(|given| matches!(given, Given::Option(_)))
    }
}

/// Options and modes over all `jobs`, the repeats of one.
pub(super) fn obtained<'a>(jobs: impl Iterator<Item = &'a Job<'a>>) -> BTreeMap<String, Obtained> {
    // Sorted by value, so that each appears once and always in the same order.
    let mut seen: BTreeMap<String, [BTreeMap<String, Given>; 2]> = BTreeMap::new();
    for job in jobs {
        for (end, record) in [job.active, job.passive].into_iter().enumerate() {
            for (name, given) in record.flows.iter().flat_map(values) {
                seen.entry(name).or_default()[end].insert(format!("{given:?}"), given);
            }
        }
    }
    let listed = |(name, [from, to]): (String, [BTreeMap<String, Given>; 2])| {
        (name, Obtained { from: from.into_values().collect(), to: to.into_values().collect() })
    };
    seen.into_iter().map(listed).collect()
}

fn values(flow: &FlowReport) -> impl Iterator<Item = (String, Given)> + '_ {
    let known = |value: &&SocketValue| value.granted.is_some() || value.at_end.is_some();
    let options = flow.socket.iter().filter(move |(_, value)| known(value));
    let options = options.map(|(name, value)| (name.clone(), Given::Option(value.clone())));
    options.chain(flow.modes.iter().map(|(name, mode)| (name.clone(), Given::Mode(mode.clone()))))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_option_has_numbers_as_granted_and_at_the_end() {
        let option = |granted: u64, at_end: Option<u64>| {
            let at_end = at_end.map(Value::from);
            Given::Option(SocketValue {
                requested: Some(json!(8192)),
                granted: Some(json!(granted)),
                at_end,
            })
        };
        let both =
            Obtained { from: vec![option(16_384, Some(46_080))], to: vec![option(87_380, None)] };
        let at_end = |direction| both.of_sender(direction)[0].number_at_end();
        assert_eq!(
            [at_end(Direction::Tx), at_end(Direction::Rx)],
            [Some(46_080.0), Some(87_380.0)]
        );
        assert_eq!((both.number(), both.word(), both.has_options()), (Some(16_384.0), None, true));
        let one = Obtained { from: Vec::new(), ..both };
        assert_eq!(one.of_sender(Direction::Tx), one.to, "all that is known");
    }

    #[test]
    fn a_mode_is_its_own_word() {
        let spin = Obtained {
            from: vec![Given::Mode("spin".into())],
            to: vec![Given::Mode("block".into())],
        };
        assert!(spin.has_word("spin") && spin.has_word("block") && !spin.has_word("spi"));
        assert_eq!(
            Obtained::mode(FrameClocks::Unrelated.recorded()).clocks(),
            Some(FrameClocks::Unrelated)
        );
    }
}
