//! `cargo xtask bench fire-hose`: where loss begins behind a shallow buffer, against the law of
//! `linerate limit ncsi`.
//!
//! For each buffer and each ratio of feed to drain a lab of two hosts is built, with the emulated
//! controller or the kernel's token bucket between them; the receiver's window is swept; loss is
//! the share of bytes that TCP sent again. Windows are sums of whole segments, so an onset is known
//! to a step of the sweep. The drain is 100 Mbit/s everywhere. What this does not see: a feed
//! beyond what one core sends frame by frame (a few Gbit/s): at a ratio of 100 the feed is that,
//! not 10 Gbit/s.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use serde_json::Value;

use super::markdown;
use super::options::{keep, parsed, program};
use super::scan::Referee;
use super::scratch::Scratch;
use crate::tools;

const DRAIN: f64 = 1e8;
const SEGMENT: u64 = 1460;
const FRAME: u64 = 1514;
const BUFFERS_KIB: [u64; 4] = [4, 8, 16, 32];
const RATIOS: [u32; 5] = [1, 2, 5, 10, 100];
/// Bytes sent again that are no loss of the window's: tail probes, strays.
const LOSS: f64 = 1e-3;

/// Options of `bench fire-hose`.
#[derive(clap::Parser)]
struct Options {
    /// An already built linerate
    #[arg(long)]
    program: Option<PathBuf>,
    /// File of the picture, SVG
    #[arg(long)]
    out: Option<PathBuf>,
}

/// Device between the fast and the slow side.
#[derive(Clone, Copy, PartialEq)]
enum Device {
    Controller,
    TokenBucket,
}

impl Device {
    const fn name(self) -> &'static str {
        match self {
            Self::Controller => "controller",
            Self::TokenBucket => "token bucket",
        }
    }
}

/// One lab.
struct Cell {
    device: Device,
    kib: u64,
    ratio: u32,
}

/// Measured onset of loss, and the prediction of the law.
struct Onset {
    last_clean: Option<u64>,
    first_lossy: Option<u64>,
    rtt: f64,
    frame_granular: Option<f64>,
    fluid: Option<f64>,
    ack_clocked: Option<f64>,
}

/// Runs every cell, prints the table, and draws it if asked. Returns whether every
/// number printed can be.
pub(super) fn run(root: &Path, arguments: &[String]) -> anyhow::Result<bool> {
    let options: Options = parsed("fire-hose", arguments)?;
    let program = program(root, options.program.as_deref())?;
    let scratch = Scratch::new("fire-hose")?;
    let mut referee = Referee::new(root, &program)?;
    let mut measured = Vec::new();
    for cell in cells() {
        let onset = measure(&program, scratch.path(), &cell)?;
        referee.read_all(scratch.path())?;
        eprintln!("{}", row(&cell, &onset).join(", "));
        measured.push((cell, onset));
    }
    let rows: Vec<Vec<String>> = measured.iter().map(|(cell, onset)| row(cell, onset)).collect();
    print!("{}", markdown::table(&HEADS, &rows));
    keep(options.out.as_deref(), picture(&measured))?;
    print!("\n{}", referee.summary());
    Ok(referee.is_clean())
}

fn cells() -> Vec<Cell> {
    let controllers = BUFFERS_KIB
        .into_iter()
        .flat_map(|kib| RATIOS.map(|ratio| Cell { device: Device::Controller, kib, ratio }));
    let buckets = BUFFERS_KIB.map(|kib| Cell { device: Device::TokenBucket, kib, ratio: 10 });
    controllers.chain(buckets).collect()
}

/// Column heads of the results.
const HEADS: [&str; 9] = [
    "device",
    "buffer",
    "feed : drain",
    "clean up to",
    "lossy from",
    "round trip",
    "whole frames",
    "fluid",
    "ACK-clocked",
];

fn row(cell: &Cell, onset: &Onset) -> Vec<String> {
    let bytes = |value: Option<u64>| value.map_or("-".to_owned(), |value| value.to_string());
    let bound = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.0}"));
    vec![
        cell.device.name().to_owned(),
        format!("{} KiB", cell.kib),
        cell.ratio.to_string(),
        bytes(onset.last_clean),
        bytes(onset.first_lossy),
        format!("{:.2} ms", onset.rtt * 1e3),
        bound(onset.frame_granular),
        bound(onset.fluid),
        bound(onset.ack_clocked),
    ]
}

/// Windows in segments: from two to well beyond what buffer and path hold.
fn windows(kib: u64) -> Vec<u64> {
    let frames = kib * 1024 / FRAME;
    let highest = frames * 2 + 12;
    let step = (highest / 9).max(1);
    (2..=highest).step_by(step as usize).map(|segments| segments * SEGMENT).collect()
}

fn lab(cell: &Cell) -> String {
    let head = "[lab]\nname = \"hose\"\n[[host]]\nname = \"a\"\n[[host]]\nname = \"bmc\"\n";
    let feed = DRAIN * f64::from(cell.ratio);
    match cell.device {
        Device::Controller => format!(
            "{head}[[controller]]\nname = \"nc\"\nnetwork = {{ to = \"a\", rate = \"{feed} bit/s\" \
                }}\n\
             sideband = {{ to = \"bmc\", rate = \"{DRAIN} bit/s\" }}\nbuffer = \"{} KiB\"\ndelay \
             = \"150 us\"\n",
            cell.kib
        ),
        Device::TokenBucket => format!(
            "{head}[[switch]]\nname = \"sw\"\n[[link]]\nends = [\"a\", \"sw\"]\nrate = \"{feed} \
                bit/s\"\n\
             [[link]]\nends = [\"sw\", \"bmc\"]\nrate = \"{DRAIN} bit/s\"\nbuffer = \"{} \
             KiB\"\nburst = \"1600 B\"\n",
            cell.kib
        ),
    }
}

fn plan(cell: &Cell) -> String {
    let windows: Vec<String> =
        windows(cell.kib).iter().map(|bytes| format!("\"{bytes} B\"")).collect();
    format!(
        "[campaign]\nname = \"hose\"\nrepeats = 1\n[[sweep]]\nname = \"window\"\nduration = \"800 \
            ms\"\nwarmup = \"0 s\"\n\
         [[sweep.job]]\nworkload = \"tcp_stream\"\nfrom = \"a\"\nto = \"bmc\"\nparams = {{ \
         congestion = \"cubic\" }}\n\
         [sweep.axis]\n\"params.window_clamp\" = [{}]\n",
        windows.join(", ")
    )
}

fn measure(program: &Path, folder: &Path, cell: &Cell) -> anyhow::Result<Onset> {
    let file = |name: &str| {
        folder.join(format!("{}-{}-{}-{name}", cell.device as u8, cell.kib, cell.ratio))
    };
    let (lab, plan) =
        (written(file("lab.toml"), lab(cell))?, written(file("plan.toml"), plan(cell))?);
    let mut command = Command::new(program);
    command
        .args(["run", "--json", "--lab"])
        .arg(lab)
        .arg("--ledger")
        .arg(file("hose.ledger"))
        .arg(plan);
    let points = json(command)?;
    let mut swept: Vec<(u64, f64)> = Vec::new();
    let mut rtt = f64::INFINITY;
    for point in points["points"].as_array().context("points")? {
        let window = point["parameters"]["window_clamp"]
            .as_str()
            .and_then(|text| text.trim_end_matches(" B").parse().ok());
        let metrics = &point["jobs"][0]["metrics"];
        let (loss, smallest) = (metric(metrics, "retransmit_ratio"), metric(metrics, "rtt_min"));
        if let (Some(window), Some(loss)) = (window, loss) {
            swept.push((window, loss));
            rtt = rtt.min(smallest.unwrap_or(rtt));
        }
    }
    ensure!(
        !swept.is_empty() && rtt.is_finite(),
        "no figures for {} KiB, {} to 1",
        cell.kib,
        cell.ratio
    );
    swept.sort_unstable_by_key(|(window, _)| *window);
    let n_clean = swept.iter().rposition(|(_, loss)| *loss < LOSS).map_or(0, |last| last + 1);
    let bounds = law(program, cell, rtt)?;
    let bound = |name: &str| {
        bounds.iter().find(|(known, _)| known.starts_with(name)).map(|(_, value)| *value)
    };
    Ok(Onset {
        last_clean: n_clean.checked_sub(1).map(|last| swept[last].0),
        first_lossy: swept.get(n_clean).map(|(window, _)| *window),
        rtt,
        frame_granular: bound("frame-granular"),
        fluid: bound("fluid"),
        ack_clocked: bound("ACK-clocked"),
    })
}

fn written(path: PathBuf, text: String) -> anyhow::Result<PathBuf> {
    std::fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
    Ok(path)
}

/// Returns the output of `linerate limit ncsi` for a cell.
fn law(program: &Path, cell: &Cell, rtt: f64) -> anyhow::Result<Vec<(String, f64)>> {
    let mut command = Command::new(program);
    command.args(["limit", "ncsi", "--json", "--buffer", &format!("{} KiB", cell.kib)]);
    command.args([
        "--feed",
        &format!("{} bit/s", DRAIN * f64::from(cell.ratio)),
        "--drain",
        &format!("{DRAIN} bit/s"),
    ]);
    command.args(["--rtt", &format!("{} us", (rtt * 1e6).round())]);
    if cell.device == Device::TokenBucket {
        command.args(["--burst", "1600 B"]);
    }
    let answer = json(command)?;
    let ceilings = answer["ceilings"].as_array().context("ceilings")?;
    let named = |one: &Value| Some((one["name"].as_str()?.to_owned(), one["value"].as_f64()?));
    Ok(ceilings.iter().filter_map(named).collect())
}

/// The estimate of a metric, in whichever direction it has one.
fn metric(metrics: &Value, name: &str) -> Option<f64> {
    match &metrics[name] {
        Value::Array(all) => all.iter().find_map(|one| one["estimate"].as_f64()),
        one => one["estimate"].as_f64(),
    }
}

fn json(mut command: Command) -> anyhow::Result<Value> {
    serde_json::from_str(&tools::printed(&mut command)?)
        .with_context(|| format!("read what {command:?} printed"))
}

/// Height of the drawing at a window of `bytes`, logarithmic from 2 KiB to 128 KiB.
fn height(bytes: f64) -> f64 {
    const TOP: f64 = 40.0;
    const BOTTOM: f64 = 400.0;
    BOTTOM - (bytes / 2048.0).log2() / 6.0 * (BOTTOM - TOP)
}

/// Each cell a column: the law's bracket in grey with a tick for the fluid form, the measured onset
/// in colour.
fn picture(measured: &[(Cell, Onset)]) -> String {
    const COLUMN: f64 = 30.0;
    const LEFT: f64 = 70.0;
    let width = LEFT + COLUMN * measured.len() as f64 + 20.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} 480\" \
            font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{width}\" height=\"480\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"22\">Where loss begins: grey, the law's bracket; tick, the fluid \
         form; blue, measured (between last clean and first lossy window)</text>\n"
    );
    for kib in [2, 4, 8, 16, 32, 64, 128] {
        let y = height(f64::from(kib) * 1024.0);
        let _ = writeln!(
            svg,
            "<line x1=\"{LEFT}\" x2=\"{width}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>"
        );
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{kib} KiB</text>",
            LEFT - 8.0,
            y + 4.0
        );
    }
    for (index, (cell, onset)) in measured.iter().enumerate() {
        let x = LEFT + COLUMN * (index as f64 + 0.5);
        let mut bar = |low: f64, high: f64, colour: &str, wide: f64| {
            svg.push_str(&bar_of(x, [low, high].map(height), colour, wide));
        };
        if let (Some(low), Some(high)) = (onset.frame_granular, onset.ack_clocked) {
            bar(low, high.max(onset.fluid.unwrap_or(high)), "#ccc", 18.0);
        }
        if let Some(fluid) = onset.fluid {
            bar(fluid, fluid, "#777", 18.0);
        }
        if let (Some(low), Some(high)) = (onset.last_clean, onset.first_lossy) {
            bar(low as f64, high as f64, "#1769aa", 8.0);
        }
        let _ = writeln!(
            svg,
            "<text x=\"{x:.1}\" y=\"420\" text-anchor=\"middle\">{}</text>",
            cell.ratio
        );
        let first = index == 0
            || measured[index - 1].0.kib != cell.kib
            || measured[index - 1].0.device != cell.device;
        if first {
            let label = if cell.device == Device::Controller { " KiB" } else { "K" };
            let _ = writeln!(
                svg,
                "<text x=\"{:.1}\" y=\"440\" font-weight=\"bold\">{}{label}</text>",
                x - 12.0,
                cell.kib
            );
            if cell.device == Device::TokenBucket && cell.kib == BUFFERS_KIB[0] {
                let _ = writeln!(
                    svg,
                    "<text x=\"{:.1}\" y=\"462\">the kernel's token bucket</text>",
                    x - 12.0
                );
            }
        }
    }
    let _ = writeln!(
        svg,
        "<text x=\"{LEFT}\" y=\"462\">feed : drain, for each buffer; drain 100 \
            Mbit/s</text>\n</svg>"
    );
    svg
}

/// Returns a bar of the drawing around `x`; `low` and `high` are heights in it.
fn bar_of(x: f64, [low, high]: [f64; 2], colour: &str, wide: f64) -> String {
    format!(
        "<rect x=\"{:.1}\" y=\"{high:.1}\" width=\"{wide}\" height=\"{:.1}\" fill=\"{colour}\"/>\n",
        x - wide / 2.0,
        // A bar of two equal ends would be invisible.
        (low - high).max(2.0)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_begin_at_two_segments_and_go_beyond_buffer_and_path() {
        for kib in BUFFERS_KIB {
            let windows = windows(kib);
            assert_eq!(windows[0], 2 * SEGMENT);
            assert!(
                windows.len() <= 15 && windows[windows.len() - 1] > 2 * kib * 1024 * 9 / 10,
                "{kib}: {windows:?}"
            );
        }
    }

    #[test]
    fn the_drawing_is_logarithmic_and_holds_every_cell() {
        assert!((height(2048.0) - 400.0).abs() < 1e-9 && (height(131_072.0) - 40.0).abs() < 1e-9);
        assert_eq!(cells().len(), BUFFERS_KIB.len() * RATIOS.len() + BUFFERS_KIB.len());
    }
}
