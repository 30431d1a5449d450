//! Answer of `linerate demo`: the report on its first lab in short, then the limit that its second
//! lab injects, with the proof and the cure.

use std::path::Path;

use linerate_analysis::Study;
use linerate_campaign::diagnose::Rung;
use linerate_model::{Campaign, TestbedKind};
use linerate_report::document::{Block, Section};
use linerate_report::{CommandPlace, Document, compose, text};

use crate::diagnosis;

/// Sections of a campaign's report that the demo has; `linerate report` writes all of them.
const SECTIONS: [&str; 5] = ["answer", "throughput", "scaling", "latency", "validity"];
/// Section of the second lab.
const INJECTED: &str = "injected";

/// Diagnosis of the injected limit.
#[derive(Debug)]
pub struct Injected<'a> {
    /// Limits that were found.
    pub rungs: &'a [Rung],
    /// The lab.
    pub lab: &'a str,
    /// The parameter that injects the limit, `KEY=VALUE`.
    pub parameter: &'a str,
    /// Folder of its ledgers.
    pub folder: &'a Path,
}

/// Returns the report on `campaign`, and on the `injected` limit if a lab could be built.
pub fn document(campaign: &Campaign, study: &Study, injected: Option<&Injected<'_>>) -> Document {
    let mut report = compose(campaign, study);
    report.sections.retain(|section| SECTIONS.contains(&section.id));
    let Some(Injected { rungs, lab, parameter, folder }) = injected else { return report };
    let words = ["linerate", "diagnose", "--lab", lab].map(str::to_owned);
    let place = CommandPlace::of_arguments(&words).unwrap_or_default();
    let found = diagnosis::ladder(rungs, TestbedKind::Lab, folder, &place);
    let about = format!(
        "The second lab, `{lab}`, has a limit on purpose: its load runs with `{parameter}`. The \
            diagnosis knows only what it measures."
    );
    let mut blocks = vec![Block::Paragraph(about)];
    blocks.extend(found.sections.into_iter().flat_map(|section| section.blocks));
    let section = Section { id: INJECTED, title: "A bottleneck and its cure", blocks };
    // After the answer it is what a reader should see first.
    report.sections.insert(report.sections.len().min(1), section);
    report.study[INJECTED] = found.study;
    report
}

/// Returns the lines for a terminal: the short answer, and the first screen of the diagnosis.
#[must_use]
pub fn summary(report: &Document) -> String {
    let (injected, first): (Vec<Section>, Vec<Section>) =
        report.sections.iter().cloned().partition(|section| section.id == INJECTED);
    let mut lines = text::summary(&Document { sections: first, ..report.clone() });
    for Section { title, blocks, .. } in injected {
        // The details are in the report.
        let shown = blocks.iter().position(|block| matches!(block, Block::Lead(_)));
        let shown = &blocks[..shown.map_or(0, |last| last + 1)];
        lines += &format!("\n{title}\n\n{}", text::blocks(shown));
    }
    lines
}

#[cfg(test)]
mod tests {
    use linerate_analysis::diagnosis::Claim;
    use linerate_model::Verdict;

    use super::*;
    use crate::diagnosis::tests::rung;

    #[test]
    fn the_proof_stands_after_the_answer_and_last_on_a_terminal() {
        let (campaign, study) = (Campaign::default(), Study::default());
        let rungs = [rung(Claim::SendBuffer, Verdict::Proven)];
        let injected = Injected {
            rungs: &rungs,
            lab: "long-path",
            parameter: "receive_buffer=256 KiB",
            folder: Path::new("linerate-demo/diagnosis"),
        };
        let report = document(&campaign, &study, Some(&injected));
        let place = report.sections.iter().position(|section| section.id == INJECTED);
        assert_eq!((report.sections[0].id, place), ("answer", Some(1)));
        assert!(report.study[INJECTED]["verdict"].as_str().is_some_and(|text| !text.is_empty()));
        let lines = summary(&report);
        let end = lines.find("`receive_buffer=256 KiB`").map(|begin| &lines[begin..]);
        let end = end.expect("the injected limit is named");
        assert!(end.contains("Bottleneck: proven"), "{end}");
        assert!(end.contains("linerate diagnose --lab long-path --from a --to b"), "{end}");
        assert!(!end.contains("0.83"), "scores are in the report: {end}");
        let without = document(&campaign, &study, None);
        assert!(without.sections.iter().all(|section| section.id != INJECTED));
        assert!(without.study.get(INJECTED).is_none());
    }
}
