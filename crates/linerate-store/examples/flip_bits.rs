//! Flips one bit after the other of a ledger, each in a copy of its own, and counts what reading
//! makes of it: refused, reported, unchanged without a word, or (what must never be) changed
//! without a word.
//!
//! `flip_bits LEDGER N SEED [unsealed]` prints the counts as JSON. With `unsealed` the copies are
//! as of a recorder that was killed.

use std::path::Path;

use linerate_model::Campaign;
use linerate_store::{Ledger, Loaded, StoreError, Which};
use serde_json::json;

/// Bytes of the seal behind a ledger at rest.
const SEAL_BYTES: usize = 40;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, n_flips, seed, rest @ ..] = arguments.as_slice() else {
        return Err("usage: flip_bits LEDGER N SEED [unsealed]".into());
    };
    let (n_flips, mut state): (u64, u64) = (n_flips.parse()?, seed.parse()?);
    let mut whole = std::fs::read(path)?;
    if rest.first().is_some_and(|word| word == "unsealed") {
        whole.truncate(whole.len() - SEAL_BYTES);
    }
    let folder = tempfile::tempdir()?;
    let copy = folder.path().join("flipped.ledger");
    std::fs::write(&copy, &whole)?;
    let expected: Campaign = read(&copy)?.campaign;
    let [mut refused, mut reported, mut same, mut silent] = [0_u64; 4];
    for _ in 0..n_flips {
        let bit = usize::try_from(splitmix(&mut state))? % (whole.len() * 8);
        whole[bit / 8] ^= 1 << (bit % 8);
        std::fs::write(&copy, &whole)?;
        whole[bit / 8] ^= 1 << (bit % 8);
        match read(&copy) {
            Err(_) => refused += 1,
            Ok(loaded) if !loaded.damage.is_empty() => reported += 1,
            Ok(loaded) if loaded.campaign == expected => same += 1,
            Ok(_) => {
                eprintln!("bit {bit}: the campaign is another, and nothing was said");
                silent += 1;
            }
        }
    }
    let counts = json!({ "flips": n_flips, "bytes": whole.len(), "refused": refused,
        "reported": reported, "same": same, "silent": silent });
    println!("{counts}");
    Ok(())
}

fn read(path: &Path) -> Result<Loaded, StoreError> {
    Ledger::open_read_only(path).and_then(|ledger| ledger.load_with_damage(Which::Latest))
}

/// Sebastiano Vigna's SplitMix64: any seed is good.
fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
