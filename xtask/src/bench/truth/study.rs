//! Figures that linerate printed: the JSON of one trial of one job.

use anyhow::Context;
use serde_json::Value;

/// The JSON document of `linerate run --json` or `linerate to --json`.
#[derive(Clone, Debug, Default)]
pub(super) struct Study {
    document: Value,
}

impl Study {
    pub(super) fn parse(text: &str) -> anyhow::Result<Self> {
        let document: Value = serde_json::from_str(text).context("parse the JSON of linerate")?;
        Ok(Self { document })
    }

    pub(super) fn job(&self) -> &Value {
        &self.document["points"][0]["jobs"][0]
    }

    pub(super) fn trial(&self) -> &Value {
        &self.document["points"][0]["trials"][0]
    }

    /// The lines that `linerate to` printed while it measured.
    pub(super) fn lines(&self) -> impl Iterator<Item = &Value> {
        self.document["lines"].as_array().into_iter().flatten()
    }

    /// The estimate of a metric, in its base unit.
    pub(super) fn metric(&self, name: &str) -> Option<f64> {
        self.job()["metrics"][name]["estimate"].as_f64()
    }

    /// The lowest value that `metric` cannot exceed, as linerate says.
    pub(super) fn ceiling(&self, metric: &str) -> Option<f64> {
        let ceilings = self.document["points"][0]["ceilings"].as_array()?;
        let hard = ceilings
            .iter()
            .filter(|ceiling| ceiling["metric"] == metric && ceiling["hard"] == true);
        hard.filter_map(|ceiling| ceiling["value"].as_f64()).min_by(f64::total_cmp)
    }

    /// Datagrams or frames lost.
    pub(super) fn lost(&self) -> Option<f64> {
        self.metric("lost")
    }

    /// Operations without an answer: lost, or open at the end. Versions without an account of
    /// operations print the former only.
    pub(super) fn unanswered(&self) -> Option<f64> {
        match (self.metric("operations_lost"), self.metric("operations_open")) {
            (None, None) => self.lost(),
            (lost, open) => Some(lost.unwrap_or_default() + open.unwrap_or_default()),
        }
    }

    /// Datagrams whose loss was located at a place whose name ends in `place`, both directions
    /// added.
    pub(super) fn located(&self, place: &str) -> Option<f64> {
        let ways = self.job()["loss"].as_array()?;
        let located = ways.iter().filter_map(|way| way["located"].as_array()).flatten();
        let there =
            located.filter(|one| one["place"].as_str().is_some_and(|name| name.ends_with(place)));
        Some(there.filter_map(|one| one["lost"].as_f64()).sum())
    }

    /// Operations that were due. Versions without an account of operations: those in the
    /// distribution of response times, lost ones included, which lacks what a stall of the tester
    /// disturbed.
    pub(super) fn operations(&self) -> Option<f64> {
        self.metric("operations_due").or_else(|| self.timed())
    }

    fn timed(&self) -> Option<f64> {
        let response = &self.job()["distributions"]["response"];
        let buckets = response["buckets"].as_array()?;
        let answered: f64 = buckets.iter().filter_map(|bucket| bucket[1].as_f64()).sum();
        Some(answered + response["lost"].as_f64()?)
    }

    /// A percentile of `response` or `service` times, s.
    pub(super) fn percentile_s(&self, of: &str, quantile: f64) -> Option<f64> {
        Some(self.percentile(of, quantile)?["value_ns"].as_f64()? / 1e9)
    }

    /// Returns the bound of a percentile that falls among operations without an answer, s.
    pub(super) fn bound_s(&self, of: &str, quantile: f64) -> Option<f64> {
        Some(self.percentile(of, quantile)?["at_least_ns"].as_f64()? / 1e9)
    }

    fn percentile(&self, of: &str, quantile: f64) -> Option<&Value> {
        let rows = self.job()["percentiles"][of].as_array()?;
        rows.iter()
            .find(|row| row["quantile"].as_f64().is_some_and(|q| (q - quantile).abs() < 1e-9))
    }

    /// Values of a series by interval, gaps left out.
    pub(super) fn series(&self, name: &str) -> Vec<f64> {
        let values = self.trial()["intervals"][name].as_array();
        values.into_iter().flatten().filter_map(Value::as_f64).collect()
    }

    /// Returns the validity of the trial: `valid`, `suspect` or `invalid`, with the reasons.
    pub(super) fn validity(&self) -> String {
        let trial = self.trial();
        let reasons = trial["why"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let reasons = reasons.collect::<Vec<_>>().join("; ");
        let validity = trial["validity"].as_str().unwrap_or("no trial");
        if reasons.is_empty() { validity.to_owned() } else { format!("{validity}: {reasons}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_where_they_are_and_absent_ones_are_none() {
        let text = r#"{"points":[{"jobs":[{"metrics":{"lost":{"estimate":3.0},
        "rtt":{"estimate":null}},
            "percentiles":{"response":[{"quantile":0.9,"value_ns":2000000},{"quantile":0.99,
            "value_ns":null,"at_least_ns":3000000}]}}],
            "trials":[{"validity":"suspect","why":["x"],"intervals":{"loss_ratio":[0.5,null,
            0.0]}}]}]}"#;
        let study = Study::parse(text).expect("JSON");
        assert_eq!(
            (study.metric("lost"), study.metric("rtt"), study.metric("none")),
            (Some(3.0), None, None)
        );
        assert_eq!(
            (study.percentile_s("response", 0.9), study.percentile_s("response", 0.99)),
            (Some(2e-3), None)
        );
        assert_eq!(
            (study.bound_s("response", 0.9), study.bound_s("response", 0.99)),
            (None, Some(3e-3))
        );
        assert_eq!(study.series("loss_ratio"), [0.5, 0.0]);
        assert_eq!(study.validity(), "suspect: x");
        assert_eq!(study.unanswered(), Some(3.0), "without an account of operations");
        let text = r#"{"points":[{"jobs":[{"metrics":{"lost":{"estimate":1.0},
        "operations_lost":{"estimate":1.0},
            "operations_open":{"estimate":6.0}},"distributions":{"response":{"buckets":[[900,3],
            [1000,4]],"lost":7}}}]}]}"#;
        let study = Study::parse(text).expect("JSON");
        assert_eq!((study.unanswered(), study.operations()), (Some(7.0), Some(14.0)));
        assert_eq!(study.located("socket"), None, "no account of losses");
        let text = r#"{"points":[{"jobs":[{"loss":[{"direction":"tx",
        "located":[{"place":"receiver checksum","lost":4},
            {"place":"receiver socket","lost":9}]}]}]}]}"#;
        assert_eq!(Study::parse(text).expect("JSON").located("socket"), Some(9.0));
        assert!(Study::parse("linerate: no").is_err());
    }
}
