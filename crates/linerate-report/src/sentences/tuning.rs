//! Sentences on settings that are not tried.

use linerate_analysis::tune::experiments::Hindrance;

/// Returns the reason why a setting is not tried.
#[must_use]
pub fn hindrance(hindrance: &Hindrance) -> String {
    let text = match hindrance {
        Hindrance::Agent { message, .. } => message,
        Hindrance::Already(value) => return format!("its value is already {value}"),
        Hindrance::Malformed(value) => return format!("its value has not the usual form: {value}"),
        // What was measured instead of a sign of trouble is the reason.
        Hindrance::NoEvidence(Some(evidence)) => return super::observation(evidence),
        Hindrance::Outdone { yields, best, best_yields } => {
            return format!("x{yields:.2} in a run of its own; {best} x{best_yields:.2}");
        }
        Hindrance::NotRead => "its value was not read",
        Hindrance::OneCpu => "the host has one CPU",
        Hindrance::NoOtherControl => "the kernel has no other congestion control loaded",
        Hindrance::NoEvidence(None) => "not measured",
    };
    text.to_owned()
}
