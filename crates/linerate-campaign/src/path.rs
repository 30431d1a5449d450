//! Question of `linerate to HOST`: what its options ask for together, and which contradict.

use std::path::PathBuf;

use linerate_model::Nanos;
use linerate_model::plan::Draft;
use serde_json::Value;

use crate::drafts::{self, MODES, Mode, OF_TO, PathLoad, SENT_FILE, Setting};
use crate::stamp::reflector;
use crate::{Failure, Result};

/// Length of a measurement where none is chosen.
const USUAL: Nanos = Nanos::from_secs(10);
/// Shortest span of a line: workers report their counts every 100 ms.
const SHORTEST_LINE: Nanos = Nanos::from_millis(100);

/// Measurement of the path to a host, as a person asked for it.
#[derive(Clone, Debug)]
pub struct PathQuestion {
    /// Kind of measurement.
    pub mode: Mode,
    /// True if the host sends.
    pub is_reverse: bool,
    /// True if both ends send.
    pub is_both: bool,
    /// Length, if one was chosen.
    pub seconds: Option<Nanos>,
    /// Length of the warm-up.
    pub omit: Nanos,
    /// Time between two lines; 0 for no lines.
    pub interval: Nanos,
    /// True if the sockets are bound to the devices of their endpoints.
    pub is_bound: bool,
    /// Options that are parameters.
    pub given: Vec<(&'static Setting, Value)>,
}

/// Returns the mode of a measurement of the path to `host`. A reflector has datagrams only.
///
/// # Panics
/// Never: UDP is a mode.
#[must_use]
pub fn mode_of(chosen: Mode, is_udp: bool, host: &str) -> Mode {
    if is_udp || reflector(host).is_some() {
        return *MODES.iter().find(|mode| mode.name == "udp").expect("it is one of them");
    }
    chosen
}

/// Returns the options `given` with the type of service `tos`, and the whole path of a file.
///
/// # Errors
/// If there is no such file.
pub fn completed(
    mut given: Vec<(&'static Setting, Value)>,
    tos: Option<u64>,
) -> Result<Vec<(&'static Setting, Value)>> {
    for (setting, value) in &mut given {
        if let (SENT_FILE, Some(path)) = (setting.option, value.as_str()) {
            // The ledger keeps a path that means the same in every folder.
            let whole = std::fs::canonicalize(path)
                .map_err(|error| Failure::missing(format!("to -F {path}: {error}")))?;
            *value = whole.display().to_string().into();
        }
    }
    let dscp = OF_TO.iter().find(|setting| setting.option == "dscp");
    given.extend(dscp.zip(tos.map(Value::from)));
    Ok(given)
}

impl PathQuestion {
    /// Returns the value of the option with this name, if it was given and is a text.
    #[must_use]
    pub fn text_of(&self, option: &str) -> Option<&str> {
        drafts::given_value(&self.given, option).and_then(Value::as_str)
    }

    /// Returns the file that is sent.
    #[must_use]
    pub fn file(&self) -> Option<PathBuf> {
        self.text_of(SENT_FILE).map(PathBuf::from)
    }

    /// Returns whether the load is a stream of datagrams.
    #[must_use]
    pub fn is_udp(&self) -> bool {
        self.mode.name == "udp"
    }

    /// Returns the planned length of the measurement. A load with an end of its own ends before.
    ///
    /// # Errors
    /// If there are two ends, or a file that the other host would have to send.
    pub fn planned(&self) -> Result<Nanos> {
        if self.file().is_some() && (self.is_reverse || self.is_both) {
            return Err(Failure::wrong(
                "to: -F sends a file of this host, and no host sends its files to another one on \
                    request: leave out -R or --bidir",
            ));
        }
        let Some(ended_by) = drafts::ended_by(&self.given) else {
            return Ok(self.seconds.unwrap_or(USUAL));
        };
        // Of two ends, the reader of a figure would have to find out which one came first. A file
        // may be longer than a person wants to wait.
        if self.seconds.is_some() && ended_by.option != SENT_FILE {
            return Err(Failure::wrong(format!(
                "to: a measurement has one end: {} or -t",
                ended_by.typed()
            )));
        }
        if self.omit > Nanos(0) {
            return Err(Failure::wrong(format!(
                "to: {} counts from the start: leave out -O",
                ended_by.typed()
            )));
        }
        Ok(self.seconds.unwrap_or(drafts::LONGEST))
    }

    /// Returns the length of the measurement; `None` if the load has an end of its own.
    ///
    /// # Errors
    /// Those of [`Self::planned`].
    pub fn duration(&self) -> Result<Option<Nanos>> {
        let planned = self.planned()?;
        Ok(drafts::ended_by(&self.given).is_none().then_some(planned))
    }

    /// Returns the time between two lines of a load that lasts until `loaded`.
    pub fn span(&self, loaded: Nanos) -> Nanos {
        match self.interval {
            // As with iperf3, one line has all of it.
            Nanos(0) => loaded,
            // Workers report every 100 ms, so shorter lines would be empty.
            interval => interval.max(SHORTEST_LINE),
        }
    }

    /// Returns the plan.
    ///
    /// # Errors
    /// If options contradict each other, or one does not apply to the mode.
    pub fn draft(&self) -> Result<Draft> {
        drafts::path(&PathLoad {
            workload: self.mode.workload,
            direction: self.is_both.then_some("both").or(self.is_reverse.then_some("rx")),
            duration: self.planned()?,
            warmup: self.omit,
            is_bound: self.is_bound,
            given: &self.given,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(given: &[(&str, &str)]) -> PathQuestion {
        let given = given.iter().map(|(option, value)| {
            let setting = OF_TO.iter().find(|setting| setting.option == *option);
            (setting.expect("an option of `to`"), Value::from(*value))
        });
        PathQuestion {
            mode: MODES[0],
            is_reverse: false,
            is_both: false,
            seconds: None,
            omit: Nanos(0),
            interval: Nanos::from_secs(1),
            is_bound: false,
            given: given.collect(),
        }
    }

    fn refusal(question: &PathQuestion) -> String {
        question.planned().expect_err("a contradiction").message()
    }

    #[test]
    fn a_measurement_has_one_end() {
        let timed = question(&[]);
        assert_eq!(timed.duration().ok(), Some(Some(Nanos::from_secs(10))));
        let counted = question(&[("bytes", "1 MiB")]);
        assert_eq!(counted.planned().ok(), Some(drafts::LONGEST));
        assert_eq!(counted.duration().ok(), Some(None));
        let both = PathQuestion { seconds: Some(Nanos::from_secs(1)), ..counted.clone() };
        assert!(refusal(&both).ends_with("one end: -n or -t"), "{}", refusal(&both));
        let omitted = PathQuestion { omit: Nanos::from_secs(1), ..counted };
        assert!(refusal(&omitted).ends_with("leave out -O"), "{}", refusal(&omitted));
    }

    #[test]
    fn a_file_is_sent_from_here_only_and_may_be_cut_by_a_time() {
        let sent = question(&[("file", "/etc/hostname")]);
        let cut = PathQuestion { seconds: Some(Nanos::from_secs(3)), ..sent.clone() };
        assert_eq!(cut.planned().ok(), Some(Nanos::from_secs(3)));
        for (is_reverse, is_both) in [(true, false), (false, true)] {
            let back = PathQuestion { is_reverse, is_both, ..sent.clone() };
            assert!(refusal(&back).contains("-F sends a file of this host"), "{}", refusal(&back));
        }
    }

    #[test]
    fn a_line_is_never_shorter_than_the_reports_of_workers_and_zero_is_one_line() {
        let loaded = Nanos::from_secs(10);
        let span = |interval| PathQuestion { interval, ..question(&[]) }.span(loaded);
        let spans = [Nanos(0), Nanos::from_millis(1), Nanos::from_secs(2)].map(span);
        assert_eq!(spans, [loaded, SHORTEST_LINE, Nanos::from_secs(2)]);
    }

    #[test]
    fn a_reflector_has_datagrams_only() {
        let names = [("a", false), ("a", true), ("stamp://a", false)]
            .map(|(host, is_udp)| mode_of(MODES[0], is_udp, host).name);
        assert_eq!(names, ["tcp", "udp", "udp"]);
    }
}
