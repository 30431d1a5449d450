//! Whatever stands in the files of procfs and sysfs: reading them ends without a panic, and a
//! number read is one a kernel can have written.

use linerate_observe::{read_any_fact, samplers};

/// What a kernel counts is below 2^64, and no unit we turn it into is larger than a tick of ten
/// milliseconds in nanoseconds.
const MOST: f64 = 2e19 * 1e7;
/// The longest kernel list that is believed.
const MOST_MEMBERS: usize = 65_536;

/// The entry the fuzzer and the property test share.
pub fn kernel_text(bytes: &[u8]) {
    for (sampler, row) in samplers::read_any(bytes) {
        for value in row.into_iter().flatten() {
            assert!((0.0..MOST).contains(&value), "{sampler} read {value}");
        }
    }
    let members = read_any_fact(bytes).unwrap_or_default();
    assert!(members.len() <= MOST_MEMBERS, "{} members", members.len());
}
