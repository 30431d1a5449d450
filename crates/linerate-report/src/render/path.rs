//! The picture of a path as SVG: the sender's stages downwards at the left, what lies between at the bottom, the receiver's upwards at
//! the right; on a narrow screen all of them in one column. Colours are the page's own, so that it is light, dark and printed.
//!
//! Text in SVG does not flow: lines are broken by the mean width of a letter, generously. Lengths are user units, which are pixels
//! at full width.

use std::fmt::Write as _;

use linerate_analysis::{End, Place};

use crate::document::{PathPicture, PathStage};
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
/// Half the height of the flag on the limit.
const FLAG: f64 = 11.0;

/// The wide layout: a column for each end, names of layers between them.
const WIDE: f64 = 960.0;
const COLUMN: f64 = 400.0;
/// The narrow one.
const NARROW: f64 = 360.0;

/// From the top; the layers of an end in this order.
const LAYERS: [Place; 7] =
    [Place::Disk, Place::Application, Place::Cache, Place::Socket, Place::Queue, Place::Interface, Place::Bus];

/// Both layouts; the style sheet shows the one that fits.
pub(super) fn draw(picture: &PathPicture) -> String {
    let mut out = String::new();
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
        "<svg class=\"path {class}\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-labelledby=\"path-{class}-title \
         path-{class}-summary\"><title id=\"path-{class}-title\">{title}</title><desc id=\"path-{class}-summary\">{summary}</desc>\
         <g aria-hidden=\"true\">{body}</g></svg>\n"
    )
}

/// A stage laid out for a width.
struct Laid<'a> {
    stage: &'a PathStage,
    name: Vec<String>,
    details: Vec<String>,
    /// Whether the rate stands beside the name.
    beside: bool,
    labelled: bool,
    width: f64,
}

impl<'a> Laid<'a> {
    fn new(stage: &'a PathStage, width: f64, labelled: bool) -> Self {
        let inside = width - 2.0 * PADDING;
        let rate = stage.rate.as_ref().map_or(0.0, |rate| length(rate, NAME) + GAP);
        let beside = length(&stage.name, NAME) + rate <= inside;
        let name = wrapped(&stage.name, inside, NAME);
        let mut told = stage.details.join(" · ");
        if let Some(lost) = stage.lost.as_ref().filter(|_| !stage.loses) {
            told = [told, lost.clone()].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" · ");
        }
        if told.is_empty() && stage.rate.is_none() && !stage.loses {
            "not observed".clone_into(&mut told);
        }
        Self { stage, name, details: wrapped(&told, inside, DETAIL), beside, labelled, width }
    }

    fn height(&self) -> f64 {
        let label = if self.labelled { DETAIL_LINE } else { 0.0 };
        let rate = if self.beside || self.stage.rate.is_none() { 0.0 } else { NAME_LINE };
        let lost = if self.stage.loses { DETAIL_LINE } else { 0.0 };
        let meter = if self.stage.ceiling.is_some() { METER } else { 0.0 };
        2.0 * PADDING
            + label
            + NAME_LINE * self.name.len() as f64
            + rate
            + DETAIL_LINE * self.details.len() as f64
            + lost
            + meter
    }

    /// At `x`, `y`, at least `height` high.
    fn draw(&self, x: f64, y: f64, height: f64) -> String {
        let Self { stage, width, .. } = self;
        let mut class = String::from("box");
        if stage.limit.is_some() {
            class += " limit";
        }
        if stage.rate.is_none() && stage.details.is_empty() && stage.lost.is_none() {
            class += " unseen";
        }
        let mut out =
            format!("<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"7\"/>");
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
        if let Some(rate) = &stage.rate {
            if !self.beside {
                at += NAME_LINE;
            }
            let (edge, anchor) = if self.beside { (right, "end") } else { (left, "start") };
            out += &text("rate", edge, at - 5.0, anchor, rate);
        }
        for line in &self.details {
            at += DETAIL_LINE;
            out += &text("detail", left, at - 4.0, "start", line);
        }
        if let Some(lost) = stage.lost.as_ref().filter(|_| stage.loses) {
            at += DETAIL_LINE;
            out += &text("lost", left, at - 4.0, "start", lost);
        }
        if let Some((told, share)) = &stage.ceiling {
            out += &meter(left, at + 5.0, right - left, told, *share);
        }
        if let Some(limit) = &stage.limit {
            let wide = length(limit, DETAIL) + 18.0;
            let _infallible = write!(
                out,
                "<rect class=\"flag\" x=\"{}\" y=\"{}\" width=\"{wide}\" height=\"{}\" rx=\"{FLAG}\"/>",
                right - wide,
                y - FLAG,
                2.0 * FLAG
            );
            out += &text("flagged", right - wide / 2.0, y + 4.5, "middle", limit);
        }
        out
    }
}

/// A ceiling: its words, and how much of it was reached where that is known.
fn meter(x: f64, y: f64, width: f64, told: &str, share: Option<f64>) -> String {
    let told = match share {
        Some(share) => {
            format!("{} % of {}", crate::number::percent(share), told.replacen("ceiling ", "its ceiling, ", 1))
        }
        None => told.to_owned(),
    };
    let mut out = format!("<rect class=\"scale\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"4\" rx=\"2\"/>");
    if let Some(share) = share {
        let filled = width * share.clamp(0.0, 1.0);
        let _infallible =
            write!(out, "<rect class=\"reached\" x=\"{x}\" y=\"{y}\" width=\"{filled:.1}\" height=\"4\" rx=\"2\"/>");
    }
    out + &text("detail", x, y + 18.0, "start", &clipped(&told, width, DETAIL))
}

fn wide(picture: &PathPicture) -> Drawing {
    let right = WIDE - COLUMN;
    let of = |end: End, place: Place| -> Vec<Laid<'_>> {
        let here = picture.stages.iter().filter(|stage| (stage.end, stage.place) == (end, place));
        let mut laid: Vec<Laid<'_>> = here.map(|stage| Laid::new(stage, COLUMN, false)).collect();
        // Data come up on the receiving side.
        if end == End::Receiver {
            laid.reverse();
        }
        laid
    };
    let mut body = String::new();
    let mut y = FLAG + 22.0;
    body += &text("label", COLUMN / 2.0, 14.0, "middle", "sends");
    body += &text("label", right + COLUMN / 2.0, 14.0, "middle", "receives");
    // The lower edges of what stands above in each column.
    let mut edges: [Option<f64>; 2] = [None, None];
    for place in LAYERS {
        let (sending, receiving) = (of(End::Sender, place), of(End::Receiver, place));
        let rows = sending.len().max(receiving.len());
        for row in 0..rows {
            let pair = [sending.get(row), receiving.get(row)];
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
            y += height + GAP;
        }
    }
    let between: Vec<&PathStage> = picture.stages.iter().filter(|stage| stage.end == End::Between).collect();
    let n = between.len() as f64;
    let width = (WIDE - GAP * (n - 1.0)) / n;
    let laid: Vec<Laid<'_>> = between.iter().map(|stage| Laid::new(stage, width, false)).collect();
    let height = laid.iter().map(Laid::height).fold(0.0, f64::max);
    for (side, edge) in edges.into_iter().enumerate() {
        let x = if side == 0 { 0.0 } else { right };
        body += &arrow(x + COLUMN / 2.0, edge.unwrap_or(y), y, side == 0);
    }
    for (index, laid) in laid.iter().enumerate() {
        let x = (width + GAP) * index as f64;
        if index > 0 {
            body += &sideways(x - GAP, x, y + height / 2.0);
        }
        body += &laid.draw(x, y, height);
    }
    Drawing { body, height: y + height + 2.0 }
}

fn narrow(picture: &PathPicture) -> Drawing {
    let mut body = String::new();
    let mut y = FLAG + 2.0;
    for (index, stage) in picture.stages.iter().enumerate() {
        let laid = Laid::new(stage, NARROW - 2.0, true);
        let height = laid.height();
        if index > 0 {
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
    let (tip, back) = if down { (bottom - 2.0, bottom - 2.0 - HEAD) } else { (top + 2.0, top + 2.0 + HEAD) };
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
    format!("<path class=\"flow\" d=\"M{from} {y}H{tip}M{back} {}L{tip} {y}L{back} {}\"/>", y - HEAD, y + HEAD)
}

fn text(class: &str, x: f64, y: f64, anchor: &str, told: &str) -> String {
    let size = match class {
        "name" | "rate" => NAME,
        "label" => LABEL,
        _ => DETAIL,
    };
    format!(
        "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" text-anchor=\"{anchor}\">{}</text>",
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
    let trimmed = lines.into_iter().map(|line| line.trim_matches(|c| c == '·' || c == ' ').to_owned());
    trimmed.filter(|line| !line.is_empty()).collect()
}

fn clipped(told: &str, width: f64, size: f64) -> String {
    let most = (width / (size * LETTER)) as usize;
    if told.chars().count() <= most {
        return told.to_owned();
    }
    told.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words_and_never_exceed_the_box() {
        let lines = wrapped("waited for the peer's window 99 % · sent again 0.1 % · round trip 10 ms", 200.0, DETAIL);
        assert!(lines.len() > 1 && lines.iter().all(|line| length(line, DETAIL) <= 200.0), "{lines:?}");
        assert!(lines.iter().all(|line| !line.starts_with('·') && !line.ends_with('·')), "{lines:?}");
        assert!(wrapped(&"x".repeat(99), 100.0, NAME)[0].ends_with('…'));
    }

    #[test]
    fn what_a_device_is_called_cannot_become_markup() {
        assert!(!text("name", 0.0, 0.0, "start", "<script>\"&").contains("<script"));
    }
}
