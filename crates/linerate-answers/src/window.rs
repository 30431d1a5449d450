//! Answer of `linerate tune window`: the verdict, the path and its buffer, the windows, the
//! settings that were tried and their effect, and how to keep the one that helps.

use linerate_analysis::compare::{Change, Effect, Proof};
use linerate_analysis::tune::Report;
use linerate_campaign::tune::window::{BufferLaw, SideEffect, WORTH, WindowFindings, WindowRow};
use linerate_model::{Metric, TestbedKind, metric};
use linerate_report::document::{Block, Cell, Column, Lead, NextStep, Origin, Row, Section, Table};
use linerate_report::number::Scale;
use linerate_report::{Document, sentences};
use serde_json::json;

use crate::figures::{change_word, interval_of_effect, percent, quantity, verdict_word};

/// Returns the answer. Its JSON is `findings` as serialized.
pub fn document(findings: &WindowFindings) -> Document {
    let kind = if findings.emulated { TestbedKind::Lab } else { TestbedKind::Hosts };
    let congestion = findings.congestion.as_deref().unwrap_or("the host's congestion control");
    // Empty sections are left out: a dry run has no effects, a deep buffer no windows.
    let sections = [
        Section { id: "answer", title: "Result", blocks: result(findings) },
        Section { id: "path", title: "Path and buffer", blocks: path(findings) },
        Section { id: "windows", title: "Windows", blocks: windows(findings) },
        Section { id: "settings", title: "Settings tried", blocks: settings(findings) },
        Section { id: "effects", title: "Effects", blocks: effects(findings) },
    ];
    Document::answer(
        format!("Receive window, {} to {}", findings.from, findings.to),
        format!("streams with {congestion}"),
        Origin::Measured(kind),
        sections.into_iter().filter(|section| !section.blocks.is_empty()).collect(),
        json!(findings),
    )
}

fn rate(bits: f64) -> String {
    quantity(metric::GOODPUT, bits)
}

fn bytes(window: Option<u64>, none: &str) -> String {
    window.map_or(none.to_owned(), |bytes| format!("{bytes} B"))
}

/// Returns the verdict with the recommendation as its next step, then the commands.
fn result(findings: &WindowFindings) -> Vec<Block> {
    let next = recommendation(findings).map(|text| NextStep { text, command: None });
    let mut blocks =
        vec![Block::Lead(Lead { next: next.into_iter().collect(), ..verdict(findings) })];
    let listing = |caption: &str, text: String| Block::Listing { caption: caption.into(), text };
    if !findings.commands.is_empty() {
        let caption = format!("Commands for {}", findings.to);
        blocks.push(listing(&caption, findings.commands.join("\n")));
    }
    // Only a change that stays needs undoing.
    if findings.kept {
        blocks.push(listing("To undo", findings.before.clone()));
    }
    blocks
}

/// Returns the first screen without its next step.
fn verdict(findings: &WindowFindings) -> Lead {
    match (&findings.proof, &findings.choice) {
        (Some(proof), _) => effect_of(findings, proof),
        (None, Some(choice)) => Lead {
            surety: "not diagnosed",
            figure: format!("{} B", choice.window_bytes),
            context: "window to try".to_owned(),
            basis: vec![
                format!("goodput {} in the sweep", percent(choice.gain_in_sweep)),
                if choice.clean { "no loss" } else { "some loss" }.to_owned(),
            ],
            label: "Setting",
            status: "not tested",
            ..Lead::default()
        },
        // Without an overrun no window was swept, so none can be chosen.
        (None, None) => Lead {
            surety: "inconclusive",
            figure: "No shallow buffer".to_owned(),
            context: "no train of datagrams overran one".to_owned(),
            label: "Setting",
            status: "not tested",
            claim: Some("no window needs a bound".to_owned()),
            ..Lead::default()
        },
    }
}

/// Returns the first screen of a setting whose effect was measured.
fn effect_of(findings: &WindowFindings, proof: &Proof) -> Lead {
    let effect = &proof.effect;
    let meaning = match effect.change {
        Change::Better => "the setting helps",
        Change::Worse => "the setting costs more than it gives",
        Change::None => "the setting changes nothing",
        Change::Unclear => "the effect of the setting is not known",
    };
    let interval = match effect.interval {
        Some(_) => format!("interval at 95 % {}", interval_of_effect(effect)),
        None => "no interval".to_owned(),
    };
    Lead {
        surety: verdict_word(proof.verdict),
        figure: percent(effect.shift),
        context: format!("goodput, {} to {}, typical change of a pair", findings.from, findings.to),
        basis: vec![format!("n = {} pairs", effect.n), interval],
        label: "Setting",
        status: verdict_word(proof.verdict),
        claim: Some(meaning.to_owned()),
        evidence: std::iter::once(format!(
            "goodput: median {} before, {} after",
            rate(effect.before),
            rate(effect.after)
        ))
        .chain(proof.why.as_ref().map(sentences::unproven))
        .collect(),
        ..Lead::default()
    }
}

/// Returns what to do, or `None` if there is nothing to do.
fn recommendation(findings: &WindowFindings) -> Option<String> {
    let to = &findings.to;
    if findings.commands.is_empty() {
        return (!findings.tried.is_empty()).then(|| {
            "no setting gave the window, and none was left changed; an application can bound its \
                own window (TCP_WINDOW_CLAMP)"
                .to_owned()
        });
    }
    let helps = findings.proof.as_ref().is_some_and(|proof| proof.effect.change == Change::Better);
    let gains = findings.choice.as_ref().is_some_and(|choice| choice.gain_in_sweep >= WORTH);
    Some(if findings.kept {
        format!("add the setting to an init script of {to}; it stays until the next boot")
    } else if findings.dry_run && gains {
        format!(
            "add one command to an init script of {to}, the narrowest comes first (dry run: no \
                setting was changed; kernels since 6.6 ignore a route's window)"
        )
    } else if findings.dry_run {
        format!(
            "no setting is recommended (dry run: none was changed); these commands would give \
                {to} the window"
        )
    } else if helps {
        format!("keep the setting with --keep, or in an init script of {to} (it was put back)")
    } else if findings.indicates() {
        "repeat without --quick: this is an indication, no proof (the setting was put back)".into()
    } else {
        "leave the setting as it is: the change is not recommended (it was put back)".into()
    })
}

fn path(findings: &WindowFindings) -> Vec<Block> {
    let mut rows: Vec<[String; 2]> = Vec::new();
    let mut add = |property: &str, value: String| rows.push([property.to_owned(), value]);
    if let Some(path) = &findings.path {
        add("rate into the buffer", rate(path.feed_bit_per_s));
        add("rate out of the buffer", rate(path.drain_bit_per_s));
        add("idle round trip", quantity(metric::RTT, path.round_trip_s));
    }
    add(
        "buffer",
        findings.buffer.as_ref().map_or("none found".to_owned(), |buffer| {
            format!("{} to {} B", buffer.at_least_bytes, buffer.less_than_bytes)
        }),
    );
    if let Some(buffer) = &findings.buffer {
        add("longest train without loss", format!("{} full frames", buffer.longest_train));
    }
    if let Some(reported) = &findings.reported_buffer {
        let agreement = match reported.trains {
            Some(Report::Agrees) => "the trains agree",
            Some(Report::Contradicted) => "the trains contradict it",
            Some(Report::Silent) => "the value means \"not reported\"",
            None => "no train overran it",
        };
        let value = format!("{} B ({agreement})", reported.reported_bytes);
        add("buffer reported by the controller", value);
    }
    if let Some(law) = &findings.law {
        law_rows(law, &mut add);
    }
    if let Some(place) = &findings.attribution {
        let certainty = if place.certain { "" } else { " (not certain)" };
        add("cause of the drops", format!("{}{certainty}", place.culprit));
    }
    let rows: Vec<Vec<String>> = rows.into_iter().map(Vec::from).collect();
    let table = Table::of_words("path", "Figures of the path", &["property", "value"], &rows);
    let notes = notes(findings);
    let notes = if notes.is_empty() { None } else { Some(Block::List(notes)) };
    std::iter::once(Block::Table(table)).chain(notes).collect()
}

fn law_rows(law: &BufferLaw, add: &mut impl FnMut(&str, String)) {
    add("safe window, calculated", format!("up to {} B", law.safe_window_bytes));
    let onset = format!("{} to {} B", law.onset_from_bytes, law.onset_to_bytes);
    add("onset of loss, calculated", onset);
    let agrees = match law.onset_within_bracket {
        Some(true) => " (as calculated)",
        Some(false) => " (not as calculated)",
        None => "",
    };
    let [clean, lossy] =
        [law.last_clean_bytes, law.first_lossy_bytes].map(|end| bytes(end, "none"));
    add("largest window without loss", clean);
    add("smallest window with loss", format!("{lossy}{agrees}"));
}

/// Returns what the buffer and the sweep mean for the choice of a window.
fn notes(findings: &WindowFindings) -> Vec<String> {
    let mut notes: Vec<String> = findings
        .attribution
        .iter()
        .map(|place| format!("Evidence of the cause: {}.", place.evidence))
        .collect();
    match &findings.law {
        Some(law) if !law.loss_free_window_exists => notes.push(
            "No window is free of loss: the buffer holds less than two segments. Pace the sender \
                at the slow link's rate, or slow the fast link."
                .to_owned(),
        ),
        Some(law) if !law.full_rate_without_loss => notes.push(
            "The path cannot be filled without loss: the safe window is smaller than the \
                bandwidth-delay product."
                .to_owned(),
        ),
        _ => {}
    }
    if let Some(choice) = &findings.choice {
        let predicted = rate(choice.predicted_bit_per_s);
        notes.push(format!(
            "Window to try: {} B; calculated goodput without loss {predicted}.",
            choice.window_bytes
        ));
        // A slower window was still tried, because it may lose less.
        if choice.gain_in_sweep < 1.0 {
            notes.push("No window does better than the host's own; this one is slower.".to_owned());
        } else if choice.gain_in_sweep < WORTH {
            notes.push(format!("No window does better than the host's own by {}.", percent(WORTH)));
        }
    }
    notes
}

fn windows(findings: &WindowFindings) -> Vec<Block> {
    let Some(own) = &findings.own_window else { return Vec::new() };
    let rows = || std::iter::once(own).chain(&findings.windows);
    // One unit for the whole column, so that rows compare at a glance.
    let rates = Scale::of(metric::GOODPUT, rows().map(|row| row.goodput));
    let columns = vec![
        Column::text("window"),
        Column::text("seen by the sender"),
        Column::number(metric::GOODPUT.name, rates),
        Column::number("retransmitted", Scale::PERCENT),
    ];
    let mut table = Table::new("windows", "Streams with each window, per socket", columns);
    table.rows = rows().map(window_row).collect();
    vec![Block::Table(table)]
}

fn window_row(row: &WindowRow) -> Row {
    Row::plain(vec![
        Cell::text(bytes(row.window, "host's own")),
        Cell::text(bytes(row.seen, "not known")),
        Cell::Number(row.goodput),
        Cell::Number(row.loss),
    ])
}

fn settings(findings: &WindowFindings) -> Vec<Block> {
    if findings.tried.is_empty() {
        return Vec::new();
    }
    let rows = findings.tried.iter().map(|tried| {
        let outcome = match (tried.holds, tried.seen) {
            (true, Some(seen)) => format!("gives the window: the sender saw {seen} B"),
            (false, Some(seen)) => format!("does not give the window: the sender saw {seen} B"),
            (_, None) if tried.why.is_empty() => {
                "not checked: the sender's kernel does not report the window".to_owned()
            }
            (_, None) => tried.why.clone(),
        };
        vec![tried.command.clone(), outcome]
    });
    let caption = format!("Settings tried on {}, interface {}", findings.to, findings.interface);
    let rows: Vec<Vec<String>> = rows.collect();
    vec![Block::Table(Table::of_words("settings", caption, &["command", "outcome"], &rows))]
}

fn effects(findings: &WindowFindings) -> Vec<Block> {
    let Some(proof) = &findings.proof else { return Vec::new() };
    let mut rows = vec![effect_row("goodput to the host", metric::GOODPUT, &proof.effect)];
    if let Some(placebo) = &proof.placebo {
        rows.push(effect_row("placebo", metric::GOODPUT, placebo));
    }
    rows.extend(findings.side_effects.iter().map(|SideEffect { metric, effect }| {
        effect_row(&effect.figure.replace('_', " "), metric, effect)
    }));
    let heads = ["figure", "before", "after", "typical change", "interval at 95 %", "n", "effect"];
    let mut table =
        Table::of_words("effects", "Effects of the setting, pair by pair", &heads, &rows);
    // Of noisy runs the two may point to different sides.
    table.note = Some(
        "Before and after are medians of all runs; the typical change is that of a pair."
            .to_owned(),
    );
    let mut lines = Vec::new();
    if let Some((before, after)) = findings.loss {
        lines.push(format!(
            "Retransmitted segments: {:.2} % before, {:.2} % after.",
            before * 100.0,
            after * 100.0
        ));
    }
    if proof.placebo.is_some() {
        lines.push(format!("Placebo: {}.", findings.placebo));
    }
    // A figure that is unclear is not shown to be worse.
    if findings.side_effects.iter().all(|side| side.effect.change != Change::Worse) {
        lines.push("No other figure is shown to get worse.".to_owned());
    }
    let lines = if lines.is_empty() { None } else { Some(Block::List(lines)) };
    std::iter::once(Block::Table(table)).chain(lines).collect()
}

fn effect_row(name: &str, metric: &Metric, effect: &Effect) -> Vec<String> {
    let value = |value| quantity(metric, value);
    vec![
        name.to_owned(),
        value(effect.before),
        value(effect.after),
        percent(effect.shift),
        interval_of_effect(effect),
        effect.n.to_string(),
        change_word(effect.change).to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use linerate_analysis::compare::{Better, effect, prove};
    use linerate_campaign::tune::window::WindowFindings;
    use linerate_report::text;

    use super::*;

    fn ran() -> WindowFindings {
        let runs = |base: f64| (0..6).map(|n| Some(base + f64::from(n) * 1e3)).collect::<Vec<_>>();
        let made = effect("goodput to the host", &runs(4e6), &runs(6e6), Better::More);
        let slower = effect("response_time_p50 x", &runs(1e6), &runs(9e6), Better::Less);
        WindowFindings {
            from: "a".into(),
            to: "bmc".into(),
            emulated: true,
            own_window: Some(WindowRow { window: None, goodput: 4e6, loss: 0.02, seen: None }),
            windows: vec![WindowRow {
                window: Some(7300),
                goodput: 6e6,
                loss: 0.0,
                seen: Some(7300),
            }],
            commands: vec!["sysctl -w x".into()],
            before: "sysctl -w y".into(),
            proof: made.map(|made| prove(made, None)),
            side_effects: slower
                .map(|effect| SideEffect { metric: metric::RESPONSE_TIME_P50, effect })
                .into_iter()
                .collect(),
            ..WindowFindings::default()
        }
    }

    #[test]
    fn the_verdict_comes_first_and_the_commands_follow() {
        let text = text::whole(&document(&WindowFindings { kept: true, ..ran() }));
        let [verdict, commands, undo] = ["Setting: ", "sysctl -w x", "sysctl -w y"]
            .map(|part| text.find(part).unwrap_or_else(|| panic!("{part}: {text}")));
        assert!(verdict < commands && commands < undo, "{text}");
        assert!(text.contains("[emulated]") && text.contains("+50.0 %"), "{text}");
    }

    #[test]
    fn a_figure_that_gets_worse_is_marked_and_no_sentence_denies_it() {
        let text = text::whole(&document(&ran()));
        assert!(text.contains("worse") && !text.contains("No other figure"), "{text}");
        let alone = text::whole(&document(&WindowFindings { side_effects: Vec::new(), ..ran() }));
        assert!(alone.contains("No other figure is shown to get worse."), "{alone}");
    }

    #[test]
    fn json_keeps_the_fields_of_the_findings() {
        let study = document(&ran()).study;
        assert_eq!((&study["to"], &study["windows"][0]["window"]), (&"bmc".into(), &7300.into()));
        assert_eq!(study["side_effects"][0]["n"], 6, "{study}");
        assert!(study.get("refused").is_none());
    }

    #[test]
    fn a_path_without_a_shallow_buffer_says_so_and_recommends_nothing() {
        let text = text::whole(&document(&WindowFindings::default()));
        assert!(text.contains("No shallow buffer") && !text.contains("Commands"), "{text}");
    }
}
