//! Records one interval after the other, flushes each and says so, until it is killed: the victim
//! of the kill test, and a way to see what a ledger costs.

use std::io::Write;
use std::path::Path;

use linerate_model::{Counter, Event, Interval, Nanos, Recorder, Side, TrialId};
use linerate_store::Ledger;

mod shared;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: record_forever LEDGER")?;
    let mut ledger = Ledger::create(Path::new(&path))?;
    let header = shared::header("forever", "forever");
    let endpoint =
        serde_json::json!({ "name": "a", "host": "here", "address": null, "device": null });
    let spec = serde_json::json!({
        "id": 0, "sweep": "s", "point": {}, "repeat": 0, "seed": 1,
        "phases": { "warmup": "auto", "measure": "1 \
            h", "drain": "0 ns", "rest": "0 ns", "interval": "100 ms" },
        "jobs": [{ "workload": "null", "params": {}, "background": null, "from": endpoint,
            "to": endpoint }],
    });
    ledger.record(&Event::CampaignStarted(Box::new(header)))?;
    ledger.record(&Event::Planned { trials: vec![serde_json::from_value(spec)?] })?;
    ledger.record(&Event::TrialStarted { trial: TrialId(0), at: Nanos(2) })?;
    for n in 0_u64.. {
        let mut interval = Interval { start: Nanos(n), end: Nanos(n + 1), ..Interval::default() };
        interval.counters[Counter::Steps] = n;
        let intervals = vec![interval];
        ledger.record(&Event::Intervals {
            trial: TrialId(0),
            job: 0,
            side: Side::Active,
            intervals,
        })?;
        ledger.flush()?;
        writeln!(std::io::stdout(), "{}", n + 1)?;
    }
    Ok(())
}
