//! Lists the campaigns of a ledger without writing to it: id, name, trials completed and planned.

use std::path::Path;

use linerate_store::Ledger;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: list_campaigns LEDGER")?;
    for campaign in Ledger::open_read_only(Path::new(&path))?.campaigns()? {
        println!(
            "{} {} {}/{}",
            campaign.id, campaign.name, campaign.n_completed, campaign.n_trials
        );
    }
    Ok(())
}
