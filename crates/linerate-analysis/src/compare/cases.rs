//! Test data for the modules of this folder.

use linerate_model::{CampaignHeader, Nanos, TestbedKind};

/// Returns the header of a campaign that was never run.
pub(super) fn header(testbed: TestbedKind) -> CampaignHeader {
    CampaignHeader {
        id: "20261121T000500Z-7f3a".into(),
        name: "made".into(),
        started: Nanos(0),
        plan: String::new(),
        plan_sha256: String::new(),
        lab: None,
        seed: 1,
        testbed,
        capacities: Vec::new(),
        path: Vec::new(),
        observed: Vec::new(),
        version: "0.1.0".into(),
        argv: Vec::new(),
    }
}
