//! Sentences on resources that the jobs of a mix share.

use linerate_analysis::MixEvidence;

use super::{rate, share};

/// Returns an item of the evidence of a cause.
pub(crate) fn mix_evidence(evidence: &MixEvidence) -> String {
    let text = match evidence {
        MixEvidence::Kept { job, share } => return format!("{job} kept {:.1} %", share * 100.0),
        MixEvidence::Full { name, devices, asked, room, passed } => {
            let both =
                if *devices { format!("both devices are below {name}: ") } else { String::new() };
            let place = if *devices { "it" } else { name };
            return format!(
                "{both}alone they add up to {}, {place} has room for {}, together they pass {}",
                rate(*asked),
                rate(*room),
                rate(*passed)
            );
        }
        MixEvidence::Waited { job, lost, together, alone } => {
            return format!(
                "{job} lost {}: its worker that waited most was ready and without a CPU for {} of \
                 the time, {} alone",
                share(*lost),
                share(*together),
                share(*alone)
            );
        }
        MixEvidence::WaitsNotCounted { job } => {
            return format!("{job}: the kernel does not account how long its workers waited");
        }
        MixEvidence::MissingFigures => "not every job has a figure both alone and together",
        MixEvidence::LossUndecided => "whether a job lost anything is undecided",
        MixEvidence::TwoCauses => {
            "an edge is full and a CPU was waited for: these causes cannot be separated here"
        }
        MixEvidence::MemoryNotCounted => {
            "memory bandwidth was not counted; a direction matrix, other CPUs (`from_cpus`), or a \
             job on a target that is not there (`null`) would tell more"
        }
    };
    text.to_owned()
}
