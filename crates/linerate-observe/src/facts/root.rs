//! Where facts are read from: the host's `/`, or a tree of captured files in a test.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

/// The root of procfs and sysfs.
#[derive(Clone, Debug)]
pub(crate) struct Root(pub(crate) PathBuf);

/// Returns the value that replaces a fact that cannot be read.
pub(crate) fn unavailable(why: impl std::fmt::Display) -> Value {
    json!({ "unavailable": why.to_string() })
}

impl Root {
    /// The trimmed text of `path`, which has no leading slash.
    pub(crate) fn text(&self, path: &str) -> Result<String, Value> {
        match fs::read(self.0.join(path)) {
            Ok(bytes) => Ok(String::from_utf8_lossy(&bytes)
                // Device-tree files end in a zero byte, others in a line end.
                .trim_matches(|c: char| c.is_whitespace() || c == '\0')
                .to_owned()),
            Err(cause) => {
                Err(unavailable(format!("read {}: {cause}", self.0.join(path).display())))
            }
        }
    }

    /// The text of `path` as a fact.
    pub(crate) fn string(&self, path: &str) -> Value {
        self.text(path).map_or_else(|why| why, Value::String)
    }

    /// The number in `path` as a fact; a list of numbers becomes an array, anything else stays
    /// text.
    pub(crate) fn number(&self, path: &str) -> Value {
        let text = match self.text(path) {
            Ok(text) => text,
            Err(why) => return why,
        };
        let numbers: Result<Vec<i64>, _> = text.split_whitespace().map(str::parse).collect();
        match numbers.as_deref() {
            Ok([number]) => json!(number),
            Ok(numbers @ [_, ..]) => json!(numbers),
            _ => Value::String(text),
        }
    }

    /// The names in the folder `path`, sorted; none if it cannot be read.
    pub(crate) fn names(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.0.join(path)).into_iter().flatten().flatten();
        let mut names: Vec<_> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_says_which_file_and_why() {
        let fact = Root(PathBuf::from("/proc/self")).string("lr-none");
        assert!(
            fact["unavailable"]
                .as_str()
                .unwrap()
                .starts_with("read /proc/self/lr-none: No such file"),
            "{fact}"
        );
    }
}
