//! Whatever the bytes: reading a plan, changing it and expanding it end without a panic, problems
//! point into the text, and a changed plan is TOML that can be changed again.

use linerate_model::plan::{MAX_TRIALS, apply_set, expand, parse};
use linerate_model::{Endpoint, Testbed};

/// The entry the fuzzer and the property test share.
pub fn plan(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let (plan, problems) = parse(text);
    for span in problems.iter().filter_map(|problem| problem.span.clone()) {
        assert!(text.get(span.clone()).is_some(), "{span:?} is not in the text");
    }
    assert!(plan.is_some() || !problems.is_empty(), "no plan, and nothing said why");
    let (assignment, rest) = text.split_once('\n').unwrap_or((text, ""));
    if let Ok(changed) = apply_set(rest, assignment) {
        let _ = parse(&changed);
        // Only text that is not TOML has a place to point at.
        let broken = apply_set(&changed, "repeats=1").err().and_then(|problem| problem.span);
        assert_eq!(broken, None, "not TOML: {changed}");
    }
    if let (Some(plan), true) = (plan, problems.is_empty()) {
        let names =
            plan.sweeps.iter().flat_map(|sweep| &sweep.jobs).flat_map(|job| [&job.from, &job.to]);
        let endpoints = names.map(|name| Endpoint {
            name: name.clone(),
            host: "host".into(),
            address: None,
            device: None,
            branches: Vec::new(),
            cpus: (0..4).collect(),
            pin: true,
            ncsi: None,
        });
        let testbed =
            Testbed { hosts: Vec::new(), endpoints: endpoints.collect(), emulated: false };
        if let Ok(trials) = expand(&plan, &testbed) {
            assert!(trials.len() as u64 <= MAX_TRIALS);
        }
    }
}
