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

/// The members of a kernel list such as `0-3,8`; `None` if it is not one (or is absurdly long).
pub(crate) fn list(text: &str) -> Option<Vec<u32>> {
    /// More CPUs than Linux can be built for (8192).
    const MOST: u32 = 65_536;
    let mut members = Vec::new();
    for range in text.trim().split(',').filter(|range| !range.is_empty()) {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if last >= MOST {
            return None;
        }
        members.extend(first..=last);
        // A list such as `0-65535,0-65535` would otherwise grow without bound.
        if members.len() > MOST as usize {
            return None;
        }
    }
    Some(members)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_lists_are_expanded() {
        assert_eq!(list("0-3,8\n"), Some(vec![0, 1, 2, 3, 8]));
        assert_eq!(list(""), Some(vec![]));
        assert_eq!((list("0-x"), list("0-4294967295")), (None, None));
        assert_eq!(
            list(&"0-65535,".repeat(2)),
            None,
            "no kernel lists a CPU twice, and memory is finite"
        );
    }

    proptest::proptest! {
        #[test]
        fn hostile_lists_never_panic(text in "[0-9,x-]{0,24}") {
            let _ = list(&text);
        }
    }

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
