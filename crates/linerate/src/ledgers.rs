//! Ledgers as commands name them: `FILE` or `FILE#ID`.

use std::path::Path;

use linerate_analysis::Study;
use linerate_campaign::judged::judged;
use linerate_model::Campaign;
use linerate_store::{Ledger, Loaded, Recording, Which};

use crate::exit::Failure;

/// Loads the campaign that `name` selects: the newest of the file, or the one after `#`. Prints
/// damage as warnings.
pub(crate) fn load(name: &str) -> Result<Campaign, Failure> {
    read(name, |recording| Ok((recording.whole()?, ()))).map(|(campaign, ())| campaign)
}

/// Judges the campaign that `name` selects, as [`judged`] does. Prints damage as warnings.
pub(crate) fn judge(name: &str) -> Result<(Campaign, Study), Failure> {
    read(name, |recording| Ok(judged(recording)?))
}

fn read<T>(
    name: &str,
    read: impl FnOnce(Recording<'_>) -> Result<(Loaded, T), Failure>,
) -> Result<(Campaign, T), Failure> {
    let (path, id) = match name.rsplit_once('#') {
        // A file name may contain the separator.
        Some((path, id)) if !Path::new(name).exists() => (path, Some(id)),
        _ => (name, None),
    };
    let ledger = Ledger::open_read_only(Path::new(path))?;
    let (loaded, made) = read(ledger.recording(id.map_or(Which::Latest, Which::Id))?)?;
    for damage in &loaded.damage {
        eprintln!("warning: {path} is damaged: {damage}");
    }
    Ok((loaded.campaign, made))
}
