//! Workload parameters: a table that is opaque to everyone but the workload that declares it.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::Problem;

/// Parameters of one job: names to TOML/JSON values. They travel untyped from plan through wire to
/// ledger and become a typed struct only inside the workload's own file, by [`Params::typed`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Params(pub Map<String, Value>);

/// Parameters did not fit the workload that was to read them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: \
    {cause}{}", expected.as_ref().map(|expected| format!(", expected \
        {expected}")).unwrap_or_default())]
pub struct ParamError {
    /// The offending parameter; empty if it is not known.
    pub key: String,
    /// The problem.
    pub cause: String,
    /// The expected form, where that helps.
    pub expected: Option<String>,
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
        serde_json::from_value(Value::Object(self.0.clone()))
            .map_err(|error| self.blame::<P>(&error.to_string()))
    }

    fn blame<P: DeserializeOwned>(&self, message: &str) -> ParamError {
        let culprit = self.0.keys().find(|key| {
            let others = self.0.iter().filter(|(other, _)| other != key);
            let without: Map<String, Value> = others.map(|(k, v)| (k.clone(), v.clone())).collect();
            serde_json::from_value::<P>(Value::Object(without)).is_ok()
        });
        let Problem { message: cause, expected, nearest, .. } = Problem::from_serde(None, message);
        ParamError { key: culprit.cloned().unwrap_or_default(), cause, expected, nearest }
    }
}
