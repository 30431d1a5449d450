//! `storage` with parameters that slow a load down or change what it writes: each runs on every
//! engine that supports it, and its effect is visible.

use linerate_disk::Disks;
use linerate_load::engine::EngineReport;
use linerate_model::Counter;
use serde_json::{Value, json};

use crate::ground::{in_memory, mode, run_until, sum};

/// Engines, with a depth for each.
const ENGINES: [(&str, u32); 4] = [("io_uring", 8), ("aio", 8), ("threads", 4), ("pread", 1)];

/// Runs `params` on each engine until `is_enough` holds, and passes the report to `look`.
fn on_every_engine(
    params: &Value,
    is_enough: impl Fn(&EngineReport) -> bool,
    look: impl Fn(&str, &EngineReport),
) {
    for (engine, depth) in ENGINES {
        let mut own = params.clone();
        // A small file, because each run fills it.
        (own["engine"], own["depth"], own["size"]) = (json!(engine), json!(depth), json!("1 MiB"));
        match run_until(&Disks::none(), &in_memory(own), &is_enough) {
            Ok(report) => {
                assert!(report.incidents.is_empty(), "{engine}: {:?}", report.incidents);
                look(engine, &report);
            }
            Err(error) => println!("skipped: {engine}: {error}"),
        }
    }
}

#[test]
fn everything_written_is_read_back_and_verified() {
    let params = json!({ "read": "0 %", "verify": true, "verify_backlog": 16 });
    let has_read_back = |report: &EngineReport| sum(report, Counter::Reads) > 0;
    on_every_engine(&params, has_read_back, |engine, report| {
        let (writes, reads) = (sum(report, Counter::Writes), sum(report, Counter::Reads));
        assert!(
            reads > 0 && reads <= writes,
            "{engine}: {reads} of {writes} writes were read back"
        );
        // The remaining writes are those since the last verification: 16, and those that were under
        // way then.
        assert!(writes - reads < 16 + 2 * 8, "{engine}: {reads} of {writes} writes were read back");
        assert_eq!(sum(report, Counter::Flaws), 0, "{engine}");
    });
}

#[test]
fn a_search_for_the_depth_reports_its_result() {
    let params = json!({ "latency_target": "10 s", "latency_window": "5 ms" });
    on_every_engine(
        &params,
        |_| true,
        |engine, report| {
            let told = mode(report, "latency_target");
            assert!(
                told.contains("at most") && told.contains("within 10000 ms"),
                "{engine}: {told}"
            );
        },
    );
}

#[test]
fn a_target_is_reopened_if_the_engine_supports_it() {
    let params = json!({ "reopen_every": 5 });
    let has_reopened = |report: &EngineReport| sum(report, Counter::Reads) > 5;
    on_every_engine(&params, has_reopened, |engine, report| {
        assert_ne!(engine, "threads", "its threads keep the file");
        assert!(sum(report, Counter::Reads) > 5, "{engine}: it goes on behind the first time");
        assert!(mode(report, "opened").contains("every 5 transfers"), "{engine}");
    });
}

#[test]
fn transfers_have_the_priority_they_were_given_or_are_refused_with_the_remedy() {
    let params = json!({ "access": "4 KiB, weight 50 %, priority idle; 4 KiB, weight 50 \
        %", "priority": "best-effort 7" });
    on_every_engine(
        &params,
        |_| true,
        |engine, report| {
            assert_eq!(mode(report, "io_priority"), "idle 0, best-effort 7", "{engine}");
        },
    );
}

#[test]
fn a_job_alone_in_its_ratio_waits_for_nobody() {
    let params = json!({ "flow": 3, "workers": 2, "compress": "50 %", "copies": "30 %",
        "copies_of": 4, "read": "50 %" });
    let is_beyond = |report: &EngineReport| sum(report, Counter::Reads) > 3 * 16;
    on_every_engine(&params, is_beyond, |engine, report| {
        assert!(is_beyond(report), "{engine}: beyond what one may be ahead");
        assert!(
            mode(report, "data").contains("30 % of the writes repeat one of 4 contents"),
            "{engine}"
        );
    });
}
