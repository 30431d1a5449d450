//! `storage`: reads and writes of a disk or file by one end, no network. Units: transfers (IOPS)
//! and bytes per second, and nanoseconds from just before a transfer is queued for the kernel to
//! after its completion is reaped, a batch that is handed over at once sharing each stamp.
//!
//! Each worker is one pinned thread with an engine of its own (`linerate_sys::storage`). A closed
//! load keeps `depth` transfers in flight per worker; an open one starts them at intended times,
//! and `response` counts from those. `linerate_disk` decides which targets may be written. A
//! transfer that fails, or moves fewer bytes than requested, ends the trial. This does not see the
//! device's own cache, nor the work of the page cache for a buffered file.
//!
//! A rate in bits per second becomes a rate of transfers through their mean size.
//!
//! Durability: `sync` makes each write durable before it ends, `flush` follows every
//! `flush_every`-th write that has ended with a flush in the same slot, whose time is kept apart.
//! `trim` makes a share of the operations discards, with times of their own. Neither flushes nor
//! discards count as transfers.

use super::null::NullListener;
use super::parameters::Typed;
use crate::workloads::footprint;
use crate::{Listener, Offer, Result, Setup, Workers};

mod access;
mod backlog;
mod checks;
mod contents;
mod derived;
mod facts;
mod flight;
mod latency;
mod pace;
mod params;
mod places;
mod prepare;
mod stamp;
mod worker;

use access::Line;
use params::{Cache, Flush, Regions, StorageParams, Wanted};

/// The `storage` workload.
#[derive(Debug)]
pub(super) struct Storage;

impl Typed for Storage {
    type Params = StorageParams;
    const NAME: &'static str = "storage";
    const SUMMARY: &'static str = "reads and writes of a disk or file at the active end: transfers \
        and bytes per second, and their times";

    const HAS_TWO_ENDS: bool = false;

    fn memory_of(params: &StorageParams) -> u64 {
        /// Record of a transfer in flight and its entries in the kernel's queues, bytes.
        const SLOT: u64 = 512;
        /// Record of a block to be read back, bytes.
        const WRITTEN: u64 = 16;
        /// Touched parts of the stack of a thread, in the engine with one thread per transfer,
        /// bytes.
        const THREAD: u64 = 64 << 10;
        let transfer = params.longest().next_multiple_of(4096);
        let buffers = u64::from(params.depth).saturating_add(1).saturating_mul(transfer);
        // `auto` falls back to threads when the kernel refuses the other engines.
        let has_threads = matches!(params.engine, Wanted::Auto | Wanted::Threads);
        // Each thread has a stack of its own, of which only a part is touched.
        let threads = if has_threads {
            u64::from(params.depth.min(prepare::MOST_THREADS)) * THREAD
        } else {
            0
        };
        let known =
            u64::from(params.depth) * (SLOT + WRITTEN) + u64::from(params.verify_backlog) * WRITTEN;
        let each = buffers.saturating_add(threads + known);
        footprint::of_counts((params.workers, params.times(), each), (0, 0))
            .saturating_add(prepare::FILL_MEMORY)
    }

    fn start_passive(_params: StorageParams, _setup: &Setup<'_>) -> Result<Box<dyn Listener>> {
        Ok(Box::new(NullListener))
    }

    fn start_active(params: StorageParams, setup: &Setup<'_>, _offer: &Offer) -> Result<Workers> {
        prepare::workers(&params, setup, setup.patience)
    }
}

#[cfg(test)]
mod tests {
    use linerate_model::Params;
    use serde_json::{Value, json};

    use super::*;
    use crate::workloads::parameters::{assert_sound, read};

    fn params(pairs: &[(&str, Value)]) -> Params {
        let mut params = Params::default();
        pairs.iter().for_each(|(key, value)| params.set(key, value.clone()));
        params
    }

    #[test]
    fn every_default_is_used_and_every_mistake_is_named() {
        assert_sound::<StorageParams>(&[
            ("block_size", json!("100 B")),
            ("read", json!("101 %")),
            ("read", json!(70)),
            ("access", json!("4 KiB, reed 70 %")),
            ("access", json!("4 KiB, weight 0 %")),
            ("depth", json!(0)),
            ("priority", json!("urgent")),
            ("verify_backlog", json!(8)),
            ("copies_of", json!(8)),
            ("engine", json!("libaio")),
            ("poisson", json!(true)),
        ]);
        let errors = read::<StorageParams>(&params(&[("zone_skip", json!("4 KiB"))]));
        assert_eq!(errors.expect_err("no zone to skip")[0].key, "zone_size");
    }

    #[test]
    fn a_rate_in_bits_is_a_bandwidth_and_one_in_operations_is_not() {
        let rate = |pairs: &[(&str, Value)]| {
            read::<StorageParams>(&params(pairs))
                .expect("a load")
                .operations_per_second()
                .expect("a rate")
        };
        let bits = ("rate", json!("8 Mbit/s"));
        assert_eq!(rate(std::slice::from_ref(&bits)), 1e6 / 4096.0);
        assert_eq!(rate(&[bits.clone(), ("block_size", json!("64 KiB"))]), 1e6 / 65_536.0);
        let access = json!("4 KiB, weight 50 %; 8 KiB, weight 50 %, reply 4 KiB");
        assert_eq!(rate(&[bits, ("access", access)]), 1e6 / 8192.0);
        assert_eq!(rate(&[("rate", json!("2 kpps")), ("block_size", json!("64 KiB"))]), 2e3);
    }

    #[test]
    fn a_depth_that_cannot_be_had_is_an_error() {
        let refused = |pairs: &[(&str, Value)]| {
            read::<StorageParams>(&params(pairs)).expect_err("refused")[0].key.clone()
        };
        assert_eq!(refused(&[("engine", json!("pread")), ("depth", json!(2))]), "engine");
        assert_eq!(refused(&[("engine", json!("aio")), ("cache", json!("buffered"))]), "engine");
        assert_eq!(refused(&[("engine", json!("threads")), ("depth", json!(257))]), "depth");
    }
}
