//! Memory that one end of a job needs, known before any of it is allocated.

use super::placement::Placement;
use crate::{Times, engine};

/// Thread with the touched parts of its stack, and its intervals that are read but not handed on,
/// bytes.
const WORKER: u64 = 2 << 20;
/// Socket with the kernel's state for it, and the window that accounts its datagrams or requests,
/// bytes.
const FLOW: u64 = 64 << 10;
/// First request of a depth, and each next one: time of sending, and data to compare its answer
/// with.
const REQUEST: u64 = 64;

/// Returns the memory of `placement`'s threads and flows, if each thread measures `times` and has
/// `per_worker` bytes of its own, and each flow `per_flow`.
pub(crate) fn of(placement: &Placement, times: Times, per_worker: u64, per_flow: u64) -> u64 {
    of_counts((placement.workers(), times, per_worker), (placement.streams(), per_flow))
}

/// Does the same for a workload that counts its threads and flows in another way.
pub(crate) fn of_counts(
    (workers, times, per_worker): (u32, Times, u64),
    (flows, per_flow): (u32, u64),
) -> u64 {
    let all = |count: u32, bytes: u64| u64::from(count).saturating_mul(bytes);
    // Two histograms more than a worker uses are on their way; `engine::bytes` counts them.
    let each = per_worker.saturating_add(engine::bytes(times) + WORKER);
    all(workers, each).saturating_add(all(flows, per_flow.saturating_add(FLOW)))
}

/// Returns the memory of a flow's outstanding requests.
pub(crate) fn of_depth(depth: u32) -> u64 {
    u64::from(depth) * REQUEST
}

#[cfg(test)]
mod tests {
    use linerate_model::{Params, Side};
    use serde_json::json;

    use crate::{WORKLOADS, workload};

    fn needs(name: &str, table: serde_json::Value) -> u64 {
        let params: Params = serde_json::from_value(table).expect("a table");
        workload(name)
            .expect("registered")
            .memory(&params, Side::Active)
            .expect("the parameters are right")
    }

    #[test]
    fn usual_plans_need_little_memory_and_the_largest_much() {
        for workload in WORKLOADS {
            let needed = needs(workload.name(), json!({}));
            assert!((1 << 20..256 << 20).contains(&needed), "{}: {needed}", workload.name());
        }
        let most = json!({ "workers": 4096, "streams": 16384 });
        for name in
            ["tcp_stream", "udp_stream", "tcp_rr", "udp_rr", "tcp_crr", "http", "ftp", "frames"]
        {
            assert!(needs(name, most.clone()) > 8 << 30, "{name}: {}", needs(name, most.clone()));
        }
        // A thousand streams are shared by as many threads as there are CPUs.
        let cpus = linerate_sys::cpu::allowed().expect("Linux tells").len() as u64;
        let shared = needs("tcp_stream", json!({ "streams": 1000 }));
        assert!(shared <= cpus * (8 << 20) + 2000 * super::FLOW, "{shared}");
        // 32,768 transfers of a gibibyte by each of 4096 workers: it does not overflow.
        let deep = json!({ "workers": 4096, "depth": 32768, "block_size": "1 GiB" });
        assert!(needs("storage", deep) >= 1 << 57);
        let deeper = |depth: u32| {
            needs("storage", json!({ "depth": depth, "block_size": "1 MiB", "engine": "aio" }))
        };
        assert_eq!((deeper(64) - deeper(32)) >> 20, 32);
    }
}
