//! Time and memory of the answer of a large mesh: the figures of docs/mesh.md#traffic.
//!
//! `cargo run --release -p linerate-answers --example large_mesh HOSTS [FOLDER]`; the page and
//! `mesh.json` go to the folder.

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use linerate_analysis::mesh::{Cells, Measure, Mesh, suspects};
use linerate_answers::mesh::{MeshPlace, MeshRecord, document};
use linerate_campaign::mesh::{Fleet, Judged, Survey};
use linerate_model::TestbedKind;
use linerate_report::{Format, render};

/// Hosts of a group.
const PER_GROUP: usize = 40;
/// Share of the rate that the slow host has.
const SLOW: f64 = 0.8;

/// Returns the mesh of `n` hosts in groups, of which the middle one is slow. Figures scatter by a
/// few per cent.
fn mesh(n: usize) -> Mesh {
    let mut cells = Measure::ALL.map(|measure| (measure, Cells::new(n)));
    let mut state = 1_u64;
    for (from, to) in (0..n).flat_map(|from| (0..n).map(move |to| (from, to))) {
        // Knuth's linear congruential generator.
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let scatter = (state >> 40) as f64 / (1_u64 << 24) as f64;
        let rate = if [from, to].contains(&(n / 2)) { SLOW } else { 1.0 };
        let figures =
            [25e9 * rate * (1.0 - 0.02 * scatter), 20e-6 + 5e-6 * scatter, 1e-5 * scatter];
        for ((_, cells), figure) in cells.iter_mut().zip(figures).filter(|_| from != to) {
            cells.set(from, to, figure);
        }
    }
    Mesh { groups: (0..n).map(|host| Some(host / PER_GROUP)).collect(), figures: cells.into() }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let n: usize = arguments.first().ok_or("usage: large_mesh HOSTS [FOLDER]")?.parse()?;
    let mesh = mesh(n);
    let begun = Instant::now();
    let judged: Vec<Judged> = suspects(&mesh).into_iter().map(Judged::of).collect();
    println!("{n} hosts, {} suspects: judged in {:.2?}", judged.len(), begun.elapsed());
    let fleet = Fleet {
        hosts: (0..n).map(|host| format!("node{host:04}")).collect(),
        groups: mesh.groups.clone(),
        group_names: (0..n.div_ceil(PER_GROUP)).map(|group| format!("rack{group}")).collect(),
    };
    let survey = Survey { fleet, mesh, judged, n_rounds: n - 1, ..Survey::default() };
    let begun = Instant::now();
    let record = MeshRecord::of(&survey);
    let place =
        MeshPlace { kind: TestbedKind::Hosts, options: "--testbed t.toml", is_slurm: false };
    let answer = document(&survey, &record, place);
    let json = answer.study.to_string();
    let pages = render(&answer, Format::Html)?;
    let page = pages.first().ok_or("no page")?;
    println!(
        "answer in {:.2?}: page {} B, mesh.json {} B",
        begun.elapsed(),
        page.bytes.len(),
        json.len()
    );
    if let Some(folder) = arguments.get(1) {
        std::fs::create_dir_all(folder)?;
        std::fs::write(Path::new(folder).join(&page.file_name), &page.bytes)?;
        std::fs::write(Path::new(folder).join("mesh.json"), json)?;
    }
    let status = std::fs::read_to_string("/proc/self/status")?;
    println!(
        "{}",
        status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or("VmHWM unknown")
    );
    Ok(())
}
