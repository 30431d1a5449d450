//! A campaign without contents, for examples and tests.

use linerate_model::{CampaignHeader, Nanos, TestbedKind};

/// The header of campaign `id`, called `name`.
pub(crate) fn header(id: &str, name: &str) -> CampaignHeader {
    CampaignHeader {
        id: id.into(),
        name: name.into(),
        started: Nanos(1),
        plan: String::new(),
        plan_sha256: String::new(),
        lab: None,
        seed: 1,
        testbed: TestbedKind::Loopback,
        capacities: Vec::new(),
        observed: Vec::new(),
        version: env!("CARGO_PKG_VERSION").into(),
        argv: Vec::new(),
    }
}
