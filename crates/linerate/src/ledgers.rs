//! Ledgers as commands name them: `FILE` or `FILE#ID`.

use std::path::Path;

use linerate_model::Campaign;
use linerate_store::{Ledger, Which};

use crate::exit::Failure;

/// Loads the campaign that `name` selects: the newest of the file, or the one after `#`. Prints
/// damage as warnings.
pub(crate) fn load(name: &str) -> Result<Campaign, Failure> {
    let (path, id) = match name.rsplit_once('#') {
        // A file name may contain the separator.
        Some((path, id)) if !Path::new(name).exists() => (path, Some(id)),
        _ => (name, None),
    };
    let ledger = Ledger::open_read_only(Path::new(path))?;
    let loaded = ledger.load_with_damage(id.map_or(Which::Latest, Which::Id))?;
    for damage in &loaded.damage {
        eprintln!("warning: {path} is damaged: {damage}");
    }
    Ok(loaded.campaign)
}
