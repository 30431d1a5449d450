//! Makes one ledger after the other with a campaign in it, until it is killed: the victim of the
//! kills at creation.

use std::path::Path;

use linerate_model::Event;
use linerate_store::Ledger;

mod shared;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).ok_or("usage: create_forever FOLDER")?;
    for n in 0_u64.. {
        let header = shared::header(&n.to_string(), "forever");
        let events =
            [Event::CampaignStarted(Box::new(header)), Event::Planned { trials: Vec::new() }];
        drop(Ledger::create_with(&Path::new(&folder).join(format!("{n}.ledger")), &events)?);
    }
    Ok(())
}
