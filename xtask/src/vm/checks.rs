//! Results of a stage, as its guest writes them: one line for each check.

/// Last line of a stage whose script came to its end.
const ENDED: &str = "ended 0";

/// Checks of one stage.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Checks {
    pub(super) passed: Vec<String>,
    /// Failed checks with their reasons.
    pub(crate) failed: Vec<String>,
    /// Skipped checks with their reasons.
    pub(super) skipped: Vec<String>,
    /// True if the script of the stage came to its end.
    pub(super) ended: bool,
    /// Failure of the virtual machine itself.
    pub(super) infrastructure: Option<String>,
}

impl Checks {
    /// Reads the guest's lines.
    pub(super) fn parse(text: &str) -> Self {
        let mut checks = Self::default();
        for line in text.lines() {
            match line.split_once(' ') {
                Some(("ok", name)) => checks.passed.push(name.to_owned()),
                Some(("failed", failure)) => checks.failed.push(failure.to_owned()),
                Some(("skipped", skip)) => checks.skipped.push(skip.to_owned()),
                _ => checks.ended |= line == ENDED,
            }
        }
        checks
    }

    /// Judges a stage that has `expected` checks.
    ///
    /// # Errors
    /// Why the stage failed. A check that left no line is a failure, too.
    pub(crate) fn verdict(&self, expected: usize) -> Result<(), String> {
        if let Some(failure) = &self.infrastructure {
            return Err(failure.clone());
        }
        if !self.ended {
            return Err("its script did not come to its end".to_owned());
        }
        let n_checks = self.passed.len() + self.failed.len() + self.skipped.len();
        if n_checks != expected {
            return Err(format!("{n_checks} checks left a result"));
        }
        if self.failed.is_empty() { Ok(()) } else { Err("checks failed".to_owned()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_passes_only_with_the_result_of_every_check_and_its_end() {
        let passed = "ok a\nskipped b: no device\nended 0\n";
        assert_eq!(Checks::parse(passed).verdict(2), Ok(()));
        let cases = [
            (passed, 3, "2 checks left a result"),
            ("ok a\nok b\n", 2, "did not come to its end"),
            ("ok a\nok b\nended 1\n", 2, "did not come to its end"),
            ("ok a\nfailed b: status 3\nended 0\n", 2, "checks failed"),
        ];
        for (text, expected, why) in cases {
            let verdict = Checks::parse(text).verdict(expected).expect_err(text);
            assert!(verdict.contains(why), "{text}: {verdict}");
        }
        let broken =
            Checks { infrastructure: Some("no QEMU".into()), ..Checks::parse("ended 0\n") };
        assert_eq!(broken.verdict(0), Err("no QEMU".into()));
    }
}
