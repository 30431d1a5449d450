//! How small a fault a mesh finds, and what a large fleet costs: the figures of docs/mesh.md.
//!
//! `cargo run --release -p linerate-analysis --example mesh`

use std::time::Instant;

use linerate_analysis::mesh::{Cells, Culprit, Measure, Mesh, rounds, suspects};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Meshes of each cell of the table.
const SEEDS: u64 = 200;

/// Returns the mesh of `n` hosts of which host 1 has `share` of the rate. Goodput scatters by
/// `scatter`, as a share.
fn mesh(n: usize, share: f64, scatter: f64, seed: u64) -> Mesh {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut cells = Cells::new(n);
    for (from, to) in (0..n).flat_map(|from| (0..n).map(move |to| (from, to))) {
        // The sum of twelve is nearly normal.
        let normal = (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0;
        let fault = if [from, to].contains(&1) { share } else { 1.0 };
        if from != to {
            cells.set(from, to, 1e9 * fault * (scatter * normal).exp());
        }
    }
    Mesh { groups: vec![None; n], figures: vec![(Measure::Goodput, cells)] }
}

fn main() {
    println!("host 1 slower by, scatter of a pair, and how often it is named first:");
    for scatter in [0.005, 0.02, 0.1] {
        for n in [4, 8, 16, 64] {
            let found = |share: f64| {
                let is_first = |seed: &u64| {
                    let found = suspects(&mesh(n, share, scatter, *seed));
                    found.first().is_some_and(|one| one.culprit == Culprit::Host(1))
                };
                (1..=SEEDS).filter(is_first).count() as f64 / SEEDS as f64
            };
            let clean =
                (1..=SEEDS).filter(|seed| !suspects(&mesh(n, 1.0, scatter, *seed)).is_empty());
            let alarms = clean.count() as f64 / SEEDS as f64;
            let shares = [0.97, 0.95, 0.9, 0.8, 0.5].map(|share| format!("{:.2}", found(share)));
            println!(
                "{n} hosts, {:.1} %: 3 % {}, 5 % {}, 10 % {}, 20 % {}, 50 % {}; suspects without a \
                    fault: {alarms:.3}",
                scatter * 100.0,
                shares[0],
                shares[1],
                shares[2],
                shares[3],
                shares[4]
            );
        }
    }
    for n in [256, 1024] {
        let begun = Instant::now();
        let n_rounds = rounds(n).len();
        let planned = begun.elapsed();
        let fleet = mesh(n, 0.9, 0.02, 1);
        let begun = Instant::now();
        let found = suspects(&fleet);
        println!(
            "{n} hosts: {n_rounds} rounds planned in {planned:.1?}, judged in {:.1?}: {:?}",
            begun.elapsed(),
            found.first().map(|one| one.culprit)
        );
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or("no peak known");
    println!("largest memory, with the fleet itself: {peak}");
}
