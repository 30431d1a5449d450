//! Names of many files: `{n}` in a path stands for a number, so that one plan fetches or sends a
//! whole set.

use std::fmt;

/// Placeholder of the number. Braces have no other meaning in a URL (RFC 3986 clause 2).
pub(crate) const NUMBER: &str = "{n}";

/// Path of one file after the other; it prints the current one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Names {
    before: String,
    /// Text behind the number; `None` if the path has no number.
    behind: Option<String>,
    next: u64,
    step: u64,
    count: u64,
}

impl Names {
    /// Creates the names of stream `number` of `streams`, which share `count` files evenly: each
    /// takes every `streams`-th.
    pub(crate) fn new(path: &str, count: u64, number: u32, streams: u32) -> Self {
        let (before, behind) = match path.split_once(NUMBER) {
            Some((before, behind)) => (before, Some(behind.to_owned())),
            None => (path, None),
        };
        let step = u64::from(streams.max(1));
        Self {
            before: before.to_owned(),
            behind,
            next: u64::from(number) % count.max(1),
            step,
            count: count.max(1),
        }
    }

    /// Returns true if the path is always the same.
    pub(crate) fn is_one(&self) -> bool {
        self.behind.is_none()
    }

    /// Moves on to the next path; the first follows the last.
    pub(crate) fn advance(&mut self) {
        self.next += self.step;
        if self.next >= self.count {
            self.next %= self.step.min(self.count);
        }
    }
}

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.behind {
            Some(behind) => write!(f, "{}{}{behind}", self.before, self.next),
            None => f.write_str(&self.before),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(n: usize, mut names: Names) -> Vec<String> {
        (0..n)
            .map(|_| {
                let name = names.to_string();
                names.advance();
                name
            })
            .collect()
    }

    #[test]
    fn streams_share_the_files_and_start_again() {
        assert_eq!(
            first(4, Names::new("a/{n}.dat", 3, 0, 1)),
            ["a/0.dat", "a/1.dat", "a/2.dat", "a/0.dat"]
        );
        assert_eq!(first(4, Names::new("{n}", 5, 0, 2)), ["0", "2", "4", "0"]);
        assert_eq!(first(3, Names::new("{n}", 5, 1, 2)), ["1", "3", "1"]);
        assert_eq!(first(2, Names::new("{n}", 2, 3, 4)), ["1", "1"]);
        assert_eq!(first(2, Names::new("file", 1, 3, 4)), ["file", "file"]);
    }
}
