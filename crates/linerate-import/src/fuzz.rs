//! Arbitrary bytes as a foreign file: either a plan, which must be TOML, or an error with its
//! place.

use super::simulated::SimulatedHost;
use super::{Class, Imported, Malformed, Targets, plan};

#[path = "../../../fuzz/driver.rs"]
pub(super) mod driver;

/// Reads the text of one kind of file.
type Reader = fn(&str, &Targets<'_>) -> Result<Imported, Malformed>;

/// Reads `bytes` by `reader`, writes the plan and reads it back; returns the class of the result.
pub(super) fn of_any(reader: Reader, bytes: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(bytes);
    // There are no files to include.
    let imported = match reader(&text, &SimulatedHost::default().targets(&[])) {
        Err(wrong) => {
            assert!(
                wrong.line <= text.lines().count().max(1),
                "line {} of {}",
                wrong.line,
                text.lines().count()
            );
            return driver::class(&wrong.what);
        }
        Ok(imported) => imported,
    };
    let is_refused = imported.keys.iter().any(|key| key.class == Class::Refused);
    let written = plan::text("fuzz", "fuzz", &imported);
    let (_, problems) = linerate_model::plan::parse(&written);
    assert!(written.parse::<toml::Table>().is_ok(), "no TOML: {written}");
    let keys: Vec<(&str, Class)> =
        imported.keys.iter().map(|key| (key.key.as_str(), key.class)).take(40).collect();
    driver::class(&(is_refused, problems.len(), keys))
}
