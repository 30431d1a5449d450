//! Makes one ledger after the other with a campaign in it, until it is killed: the victim of the kills at creation.

use std::path::Path;

use linerate_model::{CampaignHeader, Event, Nanos, TestbedKind};
use linerate_store::Ledger;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).ok_or("usage: create_forever FOLDER")?;
    for n in 0_u64.. {
        let header = CampaignHeader {
            id: n.to_string(),
            name: "forever".into(),
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
        };
        let events = [Event::CampaignStarted(Box::new(header)), Event::Planned { trials: Vec::new() }];
        drop(Ledger::create_with(&Path::new(&folder).join(format!("{n}.ledger")), &events)?);
    }
    Ok(())
}
