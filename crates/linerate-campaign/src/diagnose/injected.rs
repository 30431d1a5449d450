//! Lab whose load has a limit on purpose, which a diagnosis finds: the second part of the demo.

use std::path::Path;

use linerate_model::Nanos;

use super::{Load, Question, Rung, climb};
use crate::ends::make_folder;
use crate::stages::{Audience, Ledgers};
use crate::testbeds::{self, Place};
use crate::{Ended, Result};

/// The lab.
pub const LONG_LAB: &str = "long-path";
/// The limit: a receive buffer that holds a small part of what is in flight when the long path is
/// full.
pub const INJECTED: &str = "receive_buffer=128 KiB";
/// Time for the diagnosis.
const BUDGET: Nanos = Nanos::from_secs(75);

/// Looks for the limit, with ledgers in `folder` and progress for `audience`. An interrupted
/// diagnosis has no limits.
///
/// # Errors
/// If the lab or the folder cannot be made, or nothing can be measured.
pub fn injected(folder: &Path, audience: &dyn Audience) -> Result<Vec<Rung>> {
    let place = Place { lab: Some(LONG_LAB.to_owned()), ..Place::default() };
    let mut ground = testbeds::prepare(&place)?;
    make_folder(folder)?;
    let question = Question {
        workload: "tcp_stream".to_owned(),
        params: vec![INJECTED.to_owned()],
        pairs: 6,
        seconds: 0.7,
        omit: 0.5,
        seed: 1,
    };
    let load = Load::new(&question, "a".to_owned(), "b".to_owned())?;
    let rungs = climb(&Ledgers::new("demo", &ground, folder, audience), load, 1, BUDGET);
    ground.dismantle();
    match rungs {
        Ok(rungs) => Ok(rungs),
        // What was measured until then is the answer.
        Err(Ended::With(_)) => Ok(Vec::new()),
        Err(Ended::Failed(failure)) => Err(failure),
    }
}
