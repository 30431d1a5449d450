//! Answer of `linerate tune host`: the settings that help, each with its proof, and those that were
//! not tried with the reason.

use linerate_analysis::tune::experiments::{By, HindranceKind};
use linerate_campaign::tune::outcome::{Findings, NotTried, Tried};
use linerate_model::TestbedKind;
use linerate_report::document::{Block, Claim, Origin, Section, Table};
use linerate_report::{Document, sentences};
use serde_json::{Value, json};

/// Returns the answer. `kind` is the path that was measured.
pub fn document(findings: &Findings, kind: TestbedKind) -> Document {
    let tried: Vec<Value> = findings.tried.iter().map(tried_json).collect();
    let untried: Vec<Value> = findings.untried.iter().map(untried_json).collect();
    let study = json!({ "tried": tried, "untried": untried, "profiles": findings.profiles });
    let blocks = result(findings).into_iter().chain(not_tried(findings)).collect();
    Document::answer(
        "Settings of both hosts",
        "each tried in pairs beside a placebo, and put back",
        Origin::Measured(kind),
        vec![Section { id: "answer", title: "Settings", blocks }],
        study,
    )
}

fn result(findings: &Findings) -> Vec<Block> {
    let n_kept = findings.kept().count();
    // The exact number that helps is the answer, so each case has its own sentence.
    let mut lines = vec![match (findings.tried.len(), n_kept) {
        (0, _) => "No setting was tried.".to_owned(),
        (n, 0) => format!("Settings tried: {n}. None is proven to help."),
        (n, kept) => format!("Settings tried: {n}. Proven to help: {kept}."),
    }];
    lines.extend(findings.profiles.iter().map(|path| {
        format!("Profile {path}: apply it on its host with `linerate tune apply {path}`.")
    }));
    let lines = lines.into_iter().map(Block::Paragraph);
    lines.chain(findings.tried.iter().map(|tried| Block::Claim(claim(tried)))).collect()
}

fn claim(tried: &Tried) -> Claim {
    let candidate = &tried.candidate;
    let kept = if tried.is_kept() { " (in the profile)" } else { "" };
    let changed = match candidate.by {
        // Settings of sockets end with the load, so nothing is put back.
        By::Agent => format!(
            "{} from \"{}\" to \"{}\", put back",
            candidate.setting, candidate.before, candidate.after
        ),
        By::Load => {
            format!("{} \"{}\" at the sockets of the load only", candidate.setting, candidate.after)
        }
    };
    let mut parts = vec![
        ("Evidence", vec![tried.evidence()]),
        ("Changed", vec![changed]),
        ("Effect", vec![tried.proof()]),
    ];
    // A proven setting has no reason against it.
    parts.extend(tried.why.map(|why| ("Not proven because", vec![why.to_string()])));
    let side_effects = tried.side_effect_lines();
    if !side_effects.is_empty() {
        parts.push(("Side effects", side_effects));
    }
    Claim {
        verdict: tried.verdict,
        subject: format!("at {}", tried.host),
        claim: format!("{}{kept}", candidate.name()),
        parts,
        rule: candidate.setting.to_owned(),
    }
}

fn not_tried(findings: &Findings) -> Option<Block> {
    let rows: Vec<Vec<String>> = findings.untried.iter().map(untried_row).collect();
    let heads = ["kind", "setting", "host", "reason", "details"];
    let table = Table::of_words("not-tried", "Settings not tried", &heads, &rows);
    (!rows.is_empty()).then_some(Block::Table(table))
}

fn untried_row(untried: &NotTried) -> Vec<String> {
    let reason = match untried.hindrance.kind() {
        HindranceKind::NotOffered => "not available",
        HindranceKind::NotConsented => "no consent",
        HindranceKind::AlreadySo => "no change left",
        HindranceKind::NothingSpeaksForIt => "no evidence for it",
        HindranceKind::Outdone => "another one did more",
        HindranceKind::Refused => "could not be set",
    };
    let setting = match untried.device.as_str() {
        "" => untried.setting.to_owned(),
        device => format!("{} of {device}", untried.setting),
    };
    vec![
        untried.experiment.to_owned(),
        setting,
        untried.host.clone(),
        reason.to_owned(),
        sentences::hindrance(&untried.hindrance),
    ]
}

fn tried_json(tried: &Tried) -> Value {
    let candidate = &tried.candidate;
    json!({
        "change": candidate.name(), "host": tried.host, "setting": candidate.setting,
        "before": candidate.before, "after": candidate.after, "why": tried.evidence(),
        "evidence": candidate.evidence,
        "predicted": candidate.ratio, "verdict": tried.verdict, "proof": tried.proof(),
        "shift": tried.goodput.as_ref().map(|goodput| goodput.effect.shift),
        "side_effects": tried.side_effect_lines(), "kept": tried.is_kept(),
    })
}

fn untried_json(untried: &NotTried) -> Value {
    json!({
        "experiment": untried.experiment, "setting": untried.setting, "host": untried.host,
        "device": untried.device, "reason": untried.hindrance.kind(),
        "why": sentences::hindrance(&untried.hindrance), "hindrance": untried.hindrance,
    })
}

#[cfg(test)]
mod tests {
    use linerate_analysis::PathEnd;
    use linerate_analysis::compare::Unproven;
    use linerate_analysis::diagnosis::Evidence;
    use linerate_analysis::tune::experiments::{Candidate, Hindrance};
    use linerate_campaign::tune::outcome::NotProven;
    use linerate_model::{Verdict, metric};
    use linerate_report::text;

    use super::*;

    fn findings() -> Findings {
        let candidate = Candidate {
            end: PathEnd::Receiver,
            setting: "net.ipv4.tcp_rmem",
            by: By::Agent,
            before: "4096 32768 32768".into(),
            after: "4096 131072 131072".into(),
            evidence: vec![Evidence::figure(metric::RWND_LIMITED, 0.98)],
            ratio: [2.0, 4.0],
        };
        let tried = Tried {
            candidate,
            host: "b".into(),
            device: String::new(),
            verdict: Verdict::Inconclusive,
            why: Some(NotProven::Effect(Unproven::WithinNoise { moved: 1.04 })),
            goodput: None,
            side_effects: Vec::new(),
        };
        let untried = NotTried {
            experiment: "rings",
            host: "b".into(),
            device: "a0".into(),
            setting: "rx_ring",
            hindrance: Hindrance::Agent {
                kind: HindranceKind::NotOffered,
                message: "driver veth".into(),
            },
        };
        Findings { tried: vec![tried], untried: vec![untried], ..Findings::default() }
    }

    #[test]
    fn every_setting_is_in_the_text_and_in_the_json() {
        let answer = document(&findings(), TestbedKind::Lab);
        let text = text::whole(&answer);
        for part in [
            "None is proven",
            "the sender waited for the receiver's window 98 % of the time",
            "net.ipv4.tcp_rmem",
            "single pairs of the placebo differ",
            "rx_ring of a0",
            "driver veth",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(answer.study["tried"][0]["kept"], false);
        assert_eq!(answer.study["tried"][0]["evidence"][0]["figure"]["metric"], "rwnd_limited");
        assert_eq!(answer.study["untried"][0]["reason"], "not_offered");
        assert_eq!(answer.study["untried"][0]["why"], "driver veth");
    }

    #[test]
    fn without_settings_the_answer_says_that_none_was_tried() {
        let text = text::whole(&document(&Findings::default(), TestbedKind::Hosts));
        assert!(text.contains("No setting was tried.") && !text.contains("Settings not"), "{text}");
    }
}
