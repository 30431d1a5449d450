//! Sender and receiver of the path whose window is tuned.

use linerate_model::Endpoint;

use crate::tune::plans::Path;

/// Sender, receiver, and the plans between them.
pub(super) struct Ends {
    pub(super) from: Endpoint,
    pub(super) to: Endpoint,
    pub(super) path: Path,
}
