//! Workload parameters: a table that is opaque to everyone but the workload that declares it.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::nearest;

/// Parameters of one job: names to TOML/JSON values. They travel untyped from plan through wire to ledger and become
/// a typed struct only inside the workload's own file, by [`Params::typed`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Params(pub Map<String, Value>);

/// Parameters did not fit the workload that was to read them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {cause}")]
pub struct ParamError {
    /// The offending parameter; empty if it could not be told.
    pub key: String,
    /// What was expected.
    pub cause: String,
    /// The nearest known name, for a misspelt key.
    pub nearest: Option<String>,
}

impl Params {
    /// The value of `key`.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key)
    }

    /// Sets `key` to `value`, replacing what was there.
    pub fn set(&mut self, key: &str, value: impl Into<Value>) {
        self.0.insert(key.to_owned(), value.into());
    }

    /// Reads the table as `P`, which refuses unknown fields and fills in its defaults.
    ///
    /// # Errors
    /// The first parameter that does not fit, with what was expected.
    pub fn typed<P: DeserializeOwned>(&self) -> Result<P, ParamError> {
        serde_json::from_value(Value::Object(self.0.clone())).map_err(|error| self.blame::<P>(&error.to_string()))
    }

    /// Every parameter that does not fit `P`, each on its own: the keys are tried one at a time, so that a plan with
    /// three mistakes shows three. `known` are the names of `P`'s fields.
    #[must_use]
    pub fn problems<P: DeserializeOwned>(&self, known: &[&str]) -> Vec<ParamError> {
        let mut problems: Vec<ParamError> = self
            .0
            .iter()
            .filter_map(|(key, value)| {
                if !known.contains(&key.as_str()) {
                    let near = nearest(key, known.iter().copied()).map(str::to_owned);
                    return Some(ParamError { key: key.clone(), cause: "unknown parameter".into(), nearest: near });
                }
                let single = Self(Map::from_iter([(key.clone(), value.clone())]));
                single.typed::<P>().err().map(|error| ParamError { key: key.clone(), ..error })
            })
            .collect();
        if problems.is_empty() {
            problems.extend(self.typed::<P>().err());
        }
        problems
    }

    fn blame<P: DeserializeOwned>(&self, message: &str) -> ParamError {
        let culprit = self.0.iter().find(|(key, value)| {
            let without: Map<String, Value> =
                self.0.iter().filter(|(k, _)| k != key).map(|(k, v)| (k.clone(), v.clone())).collect();
            let _ = value;
            serde_json::from_value::<P>(Value::Object(without)).is_ok()
        });
        ParamError {
            key: culprit.map(|(key, _)| key.clone()).unwrap_or_default(),
            cause: message.to_owned(),
            nearest: None,
        }
    }
}
