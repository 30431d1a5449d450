//! A campaign without contents, for examples and tests.

use linerate_model::{CampaignHeader, Nanos, TestbedKind};

/// The header of campaign `id`, called `name`.
pub(crate) fn header(id: &str, name: &str) -> CampaignHeader {
    CampaignHeader {
        id: id.into(),
        name: name.into(),
        started: Nanos(1),
        seed: 1,
        testbed: TestbedKind::Loopback,
        version: env!("CARGO_PKG_VERSION").into(),
        ..CampaignHeader::default()
    }
}
