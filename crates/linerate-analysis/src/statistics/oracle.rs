//! Tests against other people's code: golden files made by scipy, numpy and ruptures, and seeded
//! noise.
//!
//! `fixtures/oracles/make.py` makes the files and records the versions.

use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use serde_json::Value;
use statrs::distribution::{ContinuousCDF, Normal};

/// Returns the cases of one golden file.
pub(crate) fn cases(text: &str) -> Vec<Value> {
    let file: Value = serde_json::from_str(text).expect("the file is JSON");
    let cases = file["cases"].as_array().expect("a list of cases").clone();
    assert!(!cases.is_empty(), "the file has no case");
    cases
}

/// Returns a list of numbers.
pub(crate) fn numbers(value: &Value) -> Vec<f64> {
    value
        .as_array()
        .expect("a list")
        .iter()
        .map(|number| number.as_f64().expect("a number"))
        .collect()
}

/// `n` standard normal readings; each is `follows` times the one before and the rest news.
pub(crate) fn noise(n: usize, follows: f64, seed: u64) -> Vec<f64> {
    use rand::RngExt;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let normal = Normal::standard();
    let mut draw = || normal.inverse_cdf(random.random_range(1e-12..1.0));
    let mut value = draw();
    let mut values = Vec::with_capacity(n);
    for _ in 0..n {
        value = follows * value + (1.0 - follows * follows).sqrt() * draw();
        values.push(value);
    }
    values
}

mod agreement {
    use linerate_model::Distribution;

    use super::super::correlation::spearman;
    use super::super::order::interval_ranks;
    use super::super::percentile::percentile_ranks;
    use super::super::{
        mean_interval, mser, mser5, paired_shift, percentile, trend, unpaired_shift,
    };
    use super::{Value, cases, numbers};

    fn near(found: f64, expected: &Value, within: f64, what: &str) {
        let expected = expected.as_f64().expect("a number");
        assert!(
            (found - expected).abs() <= within + 1e-9 * expected.abs(),
            "{what}: {found} instead of {expected}"
        );
    }

    fn name(case: &Value) -> &str {
        case["name"].as_str().expect("a name")
    }

    #[test]
    fn ranks_of_the_interval_of_the_median_are_those_of_scipys_binomial_distribution() {
        for case in cases(include_str!("../../fixtures/oracles/ranks.json")) {
            let n = case["n"].as_u64().expect("a number") as usize;
            let (low, high, confidence) = interval_ranks(n).expect("enough runs");
            assert_eq!(
                (low, high),
                (case["low"].as_u64().expect("a rank") as usize, n + 1 - low),
                "n = {n}"
            );
            near(confidence, &case["confidence"], 1e-12, name(&case));
        }
    }

    #[test]
    fn intervals_of_means_are_those_of_scipy() {
        for case in cases(include_str!("../../fixtures/oracles/means.json")) {
            let found = mean_interval(&numbers(&case["values"])).expect("enough runs");
            near(found.value, &case["mean"], 1e-9, name(&case));
            near(found.low, &case["ends"][0], 1e-6, name(&case));
            near(found.high, &case["ends"][1], 1e-6, name(&case));
        }
    }

    #[test]
    fn ranks_of_the_intervals_of_percentiles_are_those_of_scipys_binomial_distribution() {
        for case in cases(include_str!("../../fixtures/oracles/percentile-ranks.json")) {
            let n = case["n"].as_u64().expect("a number");
            let found = percentile_ranks(n, case["quantile"].as_f64().expect("a share"));
            let expected =
                case["ranks"].as_array().map(|ranks| (ranks[0].as_u64(), ranks[1].as_u64()));
            assert_eq!(
                found.map(|(low, high)| (Some(low), Some(high))),
                expected,
                "{}",
                name(&case)
            );
        }
    }

    /// Ends are times that occurred: in the tail neighbours lie a tenth of the interval apart.
    #[test]
    fn intervals_of_percentiles_over_runs_are_those_of_numpy() {
        for case in cases(include_str!("../../fixtures/oracles/percentiles-over-runs.json")) {
            fn run(values: &Value) -> Distribution {
                let mut times: Vec<u64> =
                    numbers(values).into_iter().map(|value| value as u64).collect();
                times.sort_unstable();
                Distribution {
                    buckets: times
                        .chunk_by(u64::eq)
                        .map(|same| (same[0], same.len() as u64))
                        .collect(),
                    lost: 0,
                    ..Distribution::default()
                }
            }
            let runs: Vec<Distribution> =
                case["runs"].as_array().expect("runs").iter().map(run).collect();
            let all: Vec<&Distribution> = runs.iter().collect();
            for expected in case["percentiles"].as_array().expect("percentiles") {
                let quantile = expected["quantile"].as_f64().expect("a share");
                let found = percentile(&all, quantile, 42).expect("operations");
                let ends = numbers(&expected["ends"]);
                let ns = |time: Option<u64>| time.expect("nothing was lost") as f64;
                near(ns(found.value_ns), &expected["value"], 0.0, name(&case));
                near(
                    ns(found.low_ns),
                    &expected["ends"][0],
                    (ends[1] - ends[0]) / 10.0,
                    name(&case),
                );
                near(
                    ns(found.high_ns),
                    &expected["ends"][1],
                    (ends[1] - ends[0]) / 10.0,
                    name(&case),
                );
            }
        }
    }

    #[test]
    fn shifts_their_intervals_and_probabilities_are_those_of_scipy() {
        let files = [
            (include_str!("../../fixtures/oracles/paired-shifts.json"), true),
            (include_str!("../../fixtures/oracles/unpaired-shifts.json"), false),
        ];
        for (text, are_pairs) in files {
            for case in cases(text) {
                let (a, b) = (numbers(&case["a"]), numbers(&case["b"]));
                let shift = if are_pairs { paired_shift(&a, &b) } else { unpaired_shift(&a, &b) };
                let shift = shift.expect("there are runs");
                near(shift.p.expect("they differ"), &case["p"], 1e-9, name(&case));
                if let Some(value) = case.get("value") {
                    near(shift.value, value, 1e-9, name(&case));
                }
                if let Some(ends) = case.get("interval").filter(|ends| !ends.is_null()) {
                    let (low, high) = shift.interval.expect("enough runs");
                    near(low, &ends[0], 1e-9, name(&case));
                    near(high, &ends[1], 1e-9, name(&case));
                }
                if let Some(superiority) = case.get("superiority") {
                    near(shift.superiority, superiority, 1e-9, name(&case));
                }
            }
        }
    }

    #[test]
    fn trends_and_correlations_with_time_are_those_of_scipy() {
        for case in cases(include_str!("../../fixtures/oracles/orders.json")) {
            let values = numbers(&case["values"]);
            let order: Vec<f64> = (0..values.len()).map(|place| place as f64).collect();
            near(
                spearman(&order, &values).expect("it is not constant"),
                &case["rho"],
                1e-9,
                name(&case),
            );
            let Some(found) = trend(&values) else {
                assert!(values.len() < 10, "{}", name(&case));
                continue;
            };
            near(found.probability, &case["mann_kendall_p"], 1e-9, name(&case));
            if !case["tau"].is_null() {
                near(found.tau, &case["tau"], 1e-9, name(&case));
            }
        }
    }

    #[test]
    fn warm_ups_are_cut_where_every_cut_tried_anew_is_best() {
        for case in cases(include_str!("../../fixtures/oracles/warm-ups.json")) {
            let values = numbers(&case["values"]);
            let (single, of_five) = (mser(&values).expect("long"), mser5(&values).expect("long"));
            assert_eq!(
                single.drop as u64,
                case["mser"].as_u64().expect("a cut"),
                "{}",
                name(&case)
            );
            assert_eq!(
                of_five.drop as u64,
                case["mser5"].as_u64().expect("a cut"),
                "{}",
                name(&case)
            );
        }
    }
}
