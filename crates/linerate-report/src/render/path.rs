//! Picture of a path as SVG: the sender's stages downwards at the left, the stages between the ends
//! at the bottom, the receiver's upwards at the right. A narrow screen shows one column. With two
//! arms, each box has both; different paths between the ends are below each other. Colours come
//! from the page, which has light, dark and print styles.
//!
//! SVG does not break lines, so the mean width of a letter decides, with a margin. Lengths are user
//! units, which are pixels at full width.

use std::fmt::Write as _;

use linerate_analysis::{PathEnd, StageKind};

use crate::document::{PathPicture, PathStage, StageSeen};
use crate::sections::place_word;

/// Mean width of a letter, of the size of its type.
const LETTER: f64 = 0.55;
/// Sizes of type: names and rates, details, labels of layers.
const NAME: f64 = 15.0;
const DETAIL: f64 = 12.5;
const LABEL: f64 = 12.0;
/// Height of a line of each.
const NAME_LINE: f64 = 20.0;
const DETAIL_LINE: f64 = 17.0;
/// Inside of a box.
const PADDING: f64 = 12.0;
/// Between boxes, where the arrows run.
const GAP: f64 = 26.0;
/// Height of the meter and its text.
const METER: f64 = 26.0;
/// Above each of two arms in a box.
const ARM_GAP: f64 = 6.0;
/// Half the height of the flag on the limit, and what it has on both sides of its words.
const FLAG: f64 = 11.0;
const FLAG_SIDES: f64 = 18.0;
/// Word between the paths of two arms.
const OTHER_WAY: &str = "or";

/// The wide layout: a column for each end, names of layers between them.
const WIDE: f64 = 960.0;
const COLUMN: f64 = 400.0;
/// The narrow one.
const NARROW: f64 = 360.0;

/// From the top; the layers of an end in this order.
const LAYERS: [StageKind; 7] = [
    StageKind::Disk,
    StageKind::Application,
    StageKind::Cache,
    StageKind::Socket,
    StageKind::Queue,
    StageKind::Interface,
    StageKind::Bus,
];

/// Both layouts; the style sheet shows the one that fits.
pub(super) fn draw(picture: &PathPicture) -> String {
    let mut out = String::new();
    // A single column looks the same at every width.
    if !picture.alone {
        out += &framed(picture, "wide", WIDE, &wide(picture));
    }
    let class = if picture.alone { "alone" } else { "narrow" };
    out += &framed(picture, class, NARROW, &narrow(picture));
    out
}

/// A drawing and its height.
struct Drawing {
    body: String,
    height: f64,
}

fn framed(picture: &PathPicture, class: &str, width: f64, drawing: &Drawing) -> String {
    let Drawing { body, height } = drawing;
    let (title, summary) = (escaped(&picture.title), escaped(&picture.summary));
    format!(
        "<svg class=\"path {class}\" viewBox=\"0 0 {width} {height}\" role=\"img\" \
            // Screen readers get the summary instead of loose words.
            aria-labelledby=\"path-{class}-title \
         path-{class}-summary\"><title id=\"path-{class}-title\">{title}</title><desc \
         id=\"path-{class}-summary\">{summary}</desc>\
         <g aria-hidden=\"true\">{body}</g></svg>\n"
    )
}

/// A stage laid out for a width.
struct Laid<'a> {
    stage: &'a PathStage,
    name: Vec<String>,
    seen: Vec<LaidSeen<'a>>,
    labelled: bool,
    width: f64,
}

/// Observations of one arm at a stage.
struct LaidSeen<'a> {
    seen: &'a StageSeen,
    arm: Option<&'a str>,
    details: Vec<String>,
    /// True if the rate is beside the stage's name.
    beside: bool,
}

impl<'a> Laid<'a> {
    fn new(stage: &'a PathStage, width: f64, labelled: bool) -> Self {
        let inside = width - 2.0 * PADDING;
        let name = wrapped(&stage.name, inside, NAME);
        // A stage without an observation is marked once.
        let unseen = stage.seen.iter().all(StageSeen::is_nothing);
        let told = stage.seen.iter().take(if unseen { 1 } else { stage.seen.len() });
        let arm =
            |seen: &'a StageSeen| seen.arm.as_deref().filter(|_| !unseen || stage.seen.len() == 1);
        let seen = told.map(|seen| LaidSeen::new(seen, arm(seen), inside, &stage.name)).collect();
        Self { stage, name, seen, labelled, width }
    }

    fn height(&self) -> f64 {
        let label = if self.labelled { DETAIL_LINE } else { 0.0 };
        // Arms stand below each other in a box.
        let seen: f64 = self.seen.iter().map(LaidSeen::height).sum();
        2.0 * PADDING + label + NAME_LINE * self.name.len() as f64 + seen
    }

    /// At `x`, `y`, at least `height` high.
    fn draw(&self, x: f64, y: f64, height: f64) -> String {
        let Self { stage, width, .. } = self;
        let mut class = String::from("box");
        if stage.seen.iter().any(|seen| seen.limit.is_some()) {
            class += " limit";
        }
        if stage.seen.iter().all(StageSeen::is_nothing) {
            class += " unseen";
        }
        let mut out = format!(
            "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" \
                rx=\"7\"/>"
        );
        let (left, right) = (x + PADDING, x + width - PADDING);
        let mut at = y + PADDING;
        if self.labelled {
            at += DETAIL_LINE;
            out += &text("label", left, at - 5.0, "start", place_word(stage.place));
        }
        for line in &self.name {
            at += NAME_LINE;
            out += &text("name", left, at - 5.0, "start", line);
        }
        for laid in &self.seen {
            out += &laid.draw((left, right), at);
            at += laid.height();
        }
        out + &self.flags(right, y)
    }

    /// Draws the flag of the limit on the upper edge; once if it limits every arm.
    fn flags(&self, right: f64, y: f64) -> String {
        let flagged: Vec<(&StageSeen, &String)> =
            self.stage.seen.iter().filter_map(|seen| Some((seen, seen.limit.as_ref()?))).collect();
        let alike = flagged.len() == self.stage.seen.len()
            && flagged.windows(2).all(|two| two[0].1 == two[1].1);
        let told: Vec<String> = match flagged.first() {
            Some((_, limit)) if alike => vec![(*limit).clone()],
            // Different limits name their arms.
            _ => flagged
                .iter()
                .map(|(seen, limit)| {
                    let arm = seen.arm.as_deref().unwrap_or_default();
                    format!("{arm}: {}", limit)
                })
                .collect(),
        };
        // Several flags share the width of the box.
        let most = (self.width - 2.0 * PADDING) / told.len() as f64 - FLAG_SIDES;
        let (mut out, mut edge) = (String::new(), right);
        // Drawn from the right edge, so that the last one ends there.
        for flag in told.iter().rev() {
            // SVG neither breaks nor hides text that is too long.
            let flag = clipped(flag, most, DETAIL);
            let wide = length(&flag, DETAIL) + FLAG_SIDES;
            let _infallible = write!(
                out,
                "<rect class=\"flag\" x=\"{}\" y=\"{}\" width=\"{wide}\" height=\"{}\" \
                    rx=\"{FLAG}\"/>",
                edge - wide,
                y - FLAG,
                2.0 * FLAG
            );
            out += &text("flagged", edge - wide / 2.0, y + 4.5, "middle", &flag);
            edge -= wide + FLAG;
        }
        out
    }
}

impl<'a> LaidSeen<'a> {
    fn new(seen: &'a StageSeen, arm: Option<&'a str>, inside: f64, name: &str) -> Self {
        let rate = seen.rate.as_ref().map_or(0.0, |rate| length(rate, NAME) + GAP);
        let mut told = seen.details.join(" · ");
        // A loss that matters has a line and a colour of its own.
        if let Some(lost) = seen.lost.as_ref().filter(|_| !seen.loses) {
            told = [told, lost.clone()]
                .into_iter()
                .filter(|part| !part.is_empty())
                .collect::<Vec<_>>()
                .join(" · ");
        }
        if seen.is_nothing() {
            "not observed".clone_into(&mut told);
        }
        // The rate shares the name's line only where both fit.
        let beside = arm.is_none() && length(name, NAME) + rate <= inside;
        Self { seen, arm, details: wrapped(&told, inside, DETAIL), beside }
    }

    /// Above it, what parts it from the arm before.
    fn space(&self) -> f64 {
        if self.arm.is_some() { ARM_GAP } else { 0.0 }
    }

    /// Returns true if the arm or the rate needs a line of its own.
    fn is_headed(&self) -> bool {
        self.arm.is_some() || self.seen.rate.is_some() && !self.beside
    }

    fn height(&self) -> f64 {
        let head = if self.is_headed() { NAME_LINE } else { 0.0 };
        let lost = if self.seen.loses { DETAIL_LINE } else { 0.0 };
        let meter = if self.seen.ceiling.is_some() { METER } else { 0.0 };
        self.space() + head + DETAIL_LINE * self.details.len() as f64 + lost + meter
    }

    /// Between `left` and `right`, below `top`.
    fn draw(&self, (left, right): (f64, f64), top: f64) -> String {
        let (seen, mut at, mut out) = (self.seen, top + self.space(), String::new());
        if self.is_headed() {
            at += NAME_LINE;
        }
        let rate = seen.rate.as_deref().unwrap_or_default();
        if let Some(arm) = self.arm {
            out += &text(
                "arm",
                left,
                at - 5.0,
                "start",
                &clipped(arm, right - left - length(rate, NAME), DETAIL),
            );
        }
        let (edge, anchor) =
            if self.beside || self.arm.is_some() { (right, "end") } else { (left, "start") };
        if !rate.is_empty() {
            out += &text("rate", edge, at - 5.0, anchor, rate);
        }
        for line in &self.details {
            at += DETAIL_LINE;
            out += &text("detail", left, at - 4.0, "start", line);
        }
        if let Some(lost) = seen.lost.as_ref().filter(|_| seen.loses) {
            at += DETAIL_LINE;
            out += &text("lost", left, at - 4.0, "start", lost);
        }
        if let Some((told, share)) = &seen.ceiling {
            out += &meter(left, at + 5.0, right - left, told, *share);
        }
        out
    }
}

/// A ceiling: its words, and how much of it was reached where that is known.
fn meter(x: f64, y: f64, width: f64, told: &str, share: Option<f64>) -> String {
    let told = match share {
        Some(share) => {
            format!("{} % of the {}", crate::number::percent(share), told)
        }
        None => told.to_owned(),
    };
    let mut out = format!(
        "<rect class=\"scale\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"4\" rx=\"2\"/>"
    );
    if let Some(share) = share {
        // The bar stays in its scale where rounding gives a little more than one.
        let filled = width * share.clamp(0.0, 1.0);
        let _infallible = write!(
            out,
            "<rect class=\"reached\" x=\"{x}\" y=\"{y}\" width=\"{filled:.1}\" height=\"4\" \
                rx=\"2\"/>"
        );
    }
    out + &text("detail", x, y + 18.0, "start", &clipped(&told, width, DETAIL))
}

fn wide(picture: &PathPicture) -> Drawing {
    let right = WIDE - COLUMN;
    let mut body = String::new();
    let mut y = FLAG + 22.0;
    body += &text("label", COLUMN / 2.0, 14.0, "middle", "sends");
    body += &text("label", right + COLUMN / 2.0, 14.0, "middle", "receives");
    // The lower edges of what stands above in each column.
    let mut edges: [Option<f64>; 2] = [None, None];
    for place in LAYERS {
        let sending = column(picture, PathEnd::Sender, place);
        let receiving = column(picture, PathEnd::Receiver, place);
        // Layers stand at the same height on both ends, so that they can be compared.
        let rows = sending.len().max(receiving.len());
        for row in 0..rows {
            let pair = [sending.get(row), receiving.get(row)];
            // Boxes in a row have the height of the tallest.
            let height = pair.iter().flatten().map(|laid| laid.height()).fold(0.0, f64::max);
            for (side, laid) in pair.into_iter().enumerate() {
                let Some(laid) = laid else { continue };
                let x = if side == 0 { 0.0 } else { right };
                if let Some(edge) = edges[side] {
                    body += &arrow(x + COLUMN / 2.0, edge, y, side == 0);
                }
                body += &laid.draw(x, y, height);
                edges[side] = Some(y + height);
            }
            body += &text("label", WIDE / 2.0, y + height / 2.0 + 4.0, "middle", place_word(place));
            // Empty layers take no room, because there are no rows.
            y += height + GAP;
        }
    }
    for (side, edge) in edges.into_iter().enumerate() {
        let x = if side == 0 { 0.0 } else { right };
        body += &arrow(x + COLUMN / 2.0, edge.unwrap_or(y), y, side == 0);
    }
    let between: Vec<&PathStage> =
        picture.stages.iter().filter(|stage| stage.end == PathEnd::Between).collect();
    // Each path between the ends has a row of its own.
    for (number, row) in between.chunk_by(|a, b| !is_other_way(a, b)).enumerate() {
        if number > 0 {
            body += &text("label", WIDE / 2.0, y - GAP / 2.0 + 4.0, "middle", OTHER_WAY);
        }
        let n = row.len() as f64;
        let width = (WIDE - GAP * (n - 1.0)) / n;
        let laid: Vec<Laid<'_>> = row.iter().map(|stage| Laid::new(stage, width, false)).collect();
        let height = laid.iter().map(Laid::height).fold(0.0, f64::max);
        for (index, laid) in laid.iter().enumerate() {
            let x = (width + GAP) * index as f64;
            if index > 0 {
                body += &sideways(x - GAP, x, y + height / 2.0);
            }
            body += &laid.draw(x, y, height);
        }
        y += height + GAP;
    }
    Drawing { body, height: y - GAP + 2.0 }
}

/// Returns the boxes of one layer of one end, from top to bottom.
fn column(picture: &PathPicture, end: PathEnd, place: StageKind) -> Vec<Laid<'_>> {
    let here = picture.stages.iter().filter(|stage| (stage.end, stage.place) == (end, place));
    // The column heads name the ends, so boxes need no label.
    let mut laid: Vec<Laid<'_>> = here.map(|stage| Laid::new(stage, COLUMN, false)).collect();
    // Data come up on the receiving side.
    if end == PathEnd::Receiver {
        laid.reverse();
    }
    laid
}

/// Returns true if `b` does not follow `a` but belongs to the other arm's path between the ends.
fn is_other_way(a: &PathStage, b: &PathStage) -> bool {
    let passes = |stage: &PathStage| -> Vec<Option<String>> {
        stage.seen.iter().map(|seen| seen.arm.clone()).collect()
    };
    a.end == PathEnd::Between && b.end == PathEnd::Between && passes(a) != passes(b)
}

fn narrow(picture: &PathPicture) -> Drawing {
    let mut body = String::new();
    let mut y = FLAG + 2.0;
    for (index, stage) in picture.stages.iter().enumerate() {
        // One column has no heads, so each box names its place.
        let laid = Laid::new(stage, NARROW - 2.0, true);
        let height = laid.height();
        if index > 0 && is_other_way(&picture.stages[index - 1], stage) {
            body += &text("label", NARROW / 2.0, y - GAP / 2.0 + 4.0, "middle", OTHER_WAY);
        } else if index > 0 {
            body += &arrow(NARROW / 2.0, y - GAP, y, true);
        }
        body += &laid.draw(1.0, y, height);
        y += height + GAP;
    }
    Drawing { body, height: y - GAP + 2.0 }
}

/// Between `top` and `bottom`, downwards or up.
fn arrow(x: f64, top: f64, bottom: f64, down: bool) -> String {
    const HEAD: f64 = 5.0;
    // Two pixels keep the arrow off the edges of the boxes.
    let (tip, back) =
        if down { (bottom - 2.0, bottom - 2.0 - HEAD) } else { (top + 2.0, top + 2.0 + HEAD) };
    format!(
        "<path class=\"flow\" d=\"M{x} {}V{}M{} {back}L{x} {tip}L{} {back}\"/>",
        top + 2.0,
        bottom - 2.0,
        x - HEAD,
        x + HEAD
    )
}

/// Between `left` and `right`, to the right.
fn sideways(left: f64, right: f64, y: f64) -> String {
    const HEAD: f64 = 5.0;
    let (from, tip) = (left + 2.0, right - 2.0);
    let back = tip - HEAD;
    format!(
        "<path class=\"flow\" d=\"M{from} {y}H{tip}M{back} {}L{tip} {y}L{back} {}\"/>",
        y - HEAD,
        y + HEAD
    )
}

fn text(class: &str, x: f64, y: f64, anchor: &str, told: &str) -> String {
    let size = match class {
        "name" | "rate" => NAME,
        "label" => LABEL,
        _ => DETAIL,
    };
    format!(
        "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" \
            text-anchor=\"{anchor}\">{}</text>",
        escaped(told)
    )
}

fn length(text: &str, size: f64) -> f64 {
    text.chars().count() as f64 * size * LETTER
}

/// Lines of words that fit into `width`; a word that does not is cut.
fn wrapped(told: &str, width: f64, size: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in told.split(' ').filter(|word| !word.is_empty()) {
        match lines.last_mut() {
            Some(line) if length(line, size) + length(word, size) + size * LETTER <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(clipped(word, width, size)),
        }
    }
    // A line neither begins nor ends with what stands between two details.
    let trimmed =
        lines.into_iter().map(|line| line.trim_matches(|c| c == '·' || c == ' ').to_owned());
    trimmed.filter(|line| !line.is_empty()).collect()
}

fn clipped(told: &str, width: f64, size: f64) -> String {
    let most = (width / (size * LETTER)) as usize;
    // Counted in letters: a cut inside a character would not be UTF-8.
    if told.chars().count() <= most {
        return told.to_owned();
    }
    told.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

fn escaped(text: &str) -> String {
    // The ampersand comes first, or the other escapes would be escaped.
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words_and_never_exceed_the_box() {
        let lines = wrapped(
            "waited for the peer's window 99 % · sent again 0.1 % · round trip 10 ms",
            200.0,
            DETAIL,
        );
        assert!(
            lines.len() > 1 && lines.iter().all(|line| length(line, DETAIL) <= 200.0),
            "{lines:?}"
        );
        assert!(
            lines.iter().all(|line| !line.starts_with('·') && !line.ends_with('·')),
            "{lines:?}"
        );
        assert!(wrapped(&"x".repeat(99), 100.0, NAME)[0].ends_with('…'));
    }

    #[test]
    fn what_a_device_is_called_cannot_become_markup() {
        assert!(!text("name", 0.0, 0.0, "start", "<script>\"&").contains("<script"));
    }
}
