//! What tuning tells: what was found, what was changed, what it did, what got worse, and how to
//! keep it.

use linerate_analysis::tune::{Change, Effect, Report};
use linerate_campaign::tune::told::{LawTold, Told, WORTH, WindowRow};
use linerate_model::{Unit, Verdict, metric};
use serde_json::json;

use crate::args::Global;
use crate::show::{quantity, table};

/// Prints it, for people or programs.
pub(super) fn tell(told: &Told, global: Global) {
    if global.json {
        println!("{}", json!(told));
        return;
    }
    found(told);
    changed(told);
    did(told);
    keep(told);
}

fn rate(bits: f64) -> String {
    quantity(metric::GOODPUT, bits, Unit::BitPerSecond)
}

fn percent(ratio: f64) -> String {
    format!("{:+.1} %", (ratio - 1.0) * 100.0)
}

fn found(told: &Told) {
    let congestion = told.congestion.as_ref().map_or(String::new(), |name| format!(", {name}"));
    let emulated = if told.emulated { " (emulated)" } else { "" };
    println!("{} to {}{congestion}{emulated}\n\nFOUND", told.from, told.to);
    if let Some(path) = &told.path {
        println!(
            "  path      {} in, {} out, round trip {}",
            rate(path.feed_bit_per_s),
            rate(path.drain_bit_per_s),
            quantity(metric::RTT, path.round_trip_s, Unit::Second)
        );
    }
    match &told.buffer {
        Some(buffer) => println!(
            "  buffer    takes {} full frame{} back to back: at least {} B, less than {} B",
            buffer.longest_train,
            if buffer.longest_train == 1 { "" } else { "s" },
            buffer.at_least_bytes,
            buffer.less_than_bytes
        ),
        None => println!(
            "  buffer    none that is shallow: no train overran it, and no window needs to be \
                bounded"
        ),
    }
    if let Some(report) = &told.reported_buffer {
        let worth = match report.trains {
            Some(Report::Agrees) => "the trains agree",
            Some(Report::Contradicted) => "the trains contradict it, and are believed",
            Some(Report::Silent) => "which means that it does not say",
            None => "no train overran it",
        };
        println!(
            "  reported  {} B by the controller (Get Capabilities): {worth}",
            report.reported_bytes
        );
    }
    if let Some(law) = &told.law {
        law_told(law);
    }
    if let Some(said) = &told.attribution {
        let sure = if said.certain { "" } else { " (not certain)" };
        println!("  drops     {}{sure}: {}", said.culprit, said.evidence);
    }
    if let Some(own) = &told.own_window {
        println!("\n{}", windows(own, &told.windows));
    }
    if let Some(choice) = &told.choice {
        let clean = if choice.clean { "no loss" } else { "still some loss" };
        println!(
            "  window    {} B: {} for a stream in the sweep, {clean}; without loss the law allows \
                {}",
            choice.window_bytes,
            percent(choice.gain_in_sweep),
            rate(choice.predicted_bit_per_s)
        );
        if choice.gain_in_sweep < 1.0 {
            println!(
                "            no window does better than the host's own: this one costs more than \
                    it gives"
            );
        } else if choice.gain_in_sweep < WORTH {
            println!("            no window does better than the host's own by a tenth");
        }
    }
}

fn law_told(law: &LawTold) {
    println!(
        "  law       safe up to {} B; loss begins between {} B and {} B",
        law.safe_window_bytes, law.onset_from_bytes, law.onset_to_bytes
    );
    if !law.loss_free_window_exists {
        println!("            no loss-free window exists: the buffer holds less than two segments");
        println!(
            "            pace the sender at the slow link's rate, or slow the fast link: a window \
                cannot cure it"
        );
    } else if !law.full_rate_without_loss {
        println!(
            "            the path cannot be filled without loss: the safe window is less than it \
                holds in a round trip"
        );
    }
    let bytes =
        |window: Option<u64>| window.map_or("none".to_owned(), |bytes| format!("{bytes} B"));
    let agrees = match law.onset_within_bracket {
        Some(true) => ", as predicted",
        Some(false) => ", not as predicted",
        None => "",
    };
    println!(
        "  onset     largest clean window {}, smallest lossy one {}{agrees}",
        bytes(law.last_clean_bytes),
        bytes(law.first_lossy_bytes)
    );
}

fn windows(own: &WindowRow, rows: &[WindowRow]) -> String {
    let head =
        ["window", "seen by the sender", metric::GOODPUT, "retransmitted"].map(str::to_owned);
    let bytes = |window: Option<u64>, none: &str| {
        window.map_or(none.to_owned(), |bytes| format!("{bytes} B"))
    };
    let row = |row: &WindowRow| {
        let loss = format!("{:.2} %", row.loss * 100.0);
        vec![bytes(row.window, "its own"), bytes(row.seen, "-"), rate(row.goodput), loss]
    };
    table("Windows, per socket", &head, &[own].into_iter().chain(rows).map(row).collect::<Vec<_>>())
}

fn changed(told: &Told) {
    if told.tried.is_empty() {
        return;
    }
    println!("\nCHANGED on {}, interface {}", told.to, told.interface);
    for tried in &told.tried {
        let result = match (tried.holds, tried.seen) {
            (true, Some(seen)) => format!("holds: the sender saw {seen} B"),
            (false, Some(seen)) => format!("does not hold: the sender saw {seen} B"),
            (_, None) if tried.why.is_empty() => {
                "could not be checked: the sender's kernel does not tell".to_owned()
            }
            (_, None) => tried.why.clone(),
        };
        println!("  {}\n    {result}", tried.command);
    }
}

fn effect_line(effect: &Effect, unit: Unit) -> String {
    let name = effect.figure.split(' ').next().unwrap_or_default();
    let interval = match effect.interval {
        Some((low, high)) => format!("[{}, {}]", percent(low), percent(high)),
        None => "no interval".to_owned(),
    };
    let value = |value| quantity(name, value, unit);
    // The medians of all runs and the typical change of a pair are two figures: of noisy runs they
    // may point to different sides.
    let is_clear = effect.interval.is_some_and(|(low, high)| low > 1.0 || high < 1.0);
    let change = if is_clear { "typical pair" } else { "no clear change: typical pair" };
    format!(
        "{:<42} medians {} -> {}; {change} {} {interval}, n = {}",
        effect.figure,
        value(effect.before),
        value(effect.after),
        percent(effect.shift),
        effect.n
    )
}

fn unit_of(effect: &Effect) -> Unit {
    if effect.figure.starts_with("response") { Unit::Second } else { Unit::BitPerSecond }
}

fn did(told: &Told) {
    let Some(proof) = &told.proof else { return };
    println!("\nDID");
    println!("  {}", effect_line(&proof.effect, unit_of(&proof.effect)));
    if let Some(placebo) = &proof.placebo {
        println!(
            "  {}",
            effect_line(
                &Effect { figure: "  placebo".into(), ..placebo.clone() },
                Unit::BitPerSecond
            )
        );
        println!("    ({})", told.placebo);
    }
    if let Some((before, after)) = told.loss {
        println!("  {:<42} {:.2} % -> {:.2} %", "retransmitted", before * 100.0, after * 100.0);
    }
    let word = match proof.verdict {
        Verdict::Proven => "proven",
        Verdict::Suspected => "suspected",
        Verdict::Inconclusive => "inconclusive",
    };
    let what = match proof.effect.change {
        Change::Better => "the setting helps",
        Change::Worse => "the setting costs more than it gives",
        Change::None => "the setting changes nothing",
        Change::Unclear => "what the setting does is not clear",
    };
    let why = if proof.why.is_empty() { String::new() } else { format!(": {}", proof.why) };
    println!("  {word}: {what}{why}");
    for (title, wanted) in [
        ("WORSE", Change::Worse),
        ("BETTER", Change::Better),
        ("NO CHANGE", Change::None),
        ("NOT CLEAR", Change::Unclear),
    ] {
        let mut these =
            told.side_effects.iter().filter(|effect| effect.change == wanted).peekable();
        if these.peek().is_some() {
            println!("\n{title}");
        } else if wanted == Change::Worse {
            println!("\nWORSE: nothing else that was measured");
        }
        these.for_each(|effect| println!("  {}", effect_line(effect, unit_of(effect))));
    }
}

fn keep(told: &Told) {
    if told.commands.is_empty() {
        if !told.tried.is_empty() {
            println!(
                "\nNo setting gave the window; nothing is changed. An application can bound it \
                    itself (TCP_WINDOW_CLAMP)."
            );
        }
        return;
    }
    let helps = told.proof.as_ref().is_some_and(|proof| proof.effect.change == Change::Better);
    if told.kept {
        println!("\nKEPT until the next boot. For an init script of {}:", told.to);
    } else if told.dry_run
        && told.choice.as_ref().is_some_and(|choice| choice.gain_in_sweep < WORTH)
    {
        println!(
            "\nNothing was changed, and nothing is advised. What would give {} that window, \
                narrowest first:",
            told.to
        );
    } else if told.dry_run {
        println!(
            "\nNothing was changed. For an init script of {}, narrowest first (kernels since 6.6 \
                lift a route's window):",
            told.to
        );
    } else if helps {
        println!("\nPUT BACK. To keep it, run with --keep, or in an init script of {}:", told.to);
    } else if told.indicates() {
        println!(
            "\nPUT BACK: an indication, no proof. For the proof leave out --quick. What was tried \
                on {}:",
            told.to
        );
    } else {
        println!("\nPUT BACK, and not advised. What was tried on {}:", told.to);
    }
    told.commands.iter().for_each(|command| println!("  {command}"));
    if told.kept {
        println!("and to undo it:\n  {}", told.before);
    }
}
