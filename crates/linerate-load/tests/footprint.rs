//! No end allocates more memory than its workload declares. A trial is refused by that declaration.
//! Mapped memory, such as the buffers of disks, is not measured here.

use linerate_load::workload;
use linerate_model::Side;
use serde_json::json;

use crate::counting;
use crate::shared::{V4, open, params, run};

#[test]
fn no_end_allocates_more_than_its_workload_says() {
    let _turn = counting::alone();
    let of_storage = |more: serde_json::Value| {
        let mut table = json!({ "target": "/dev/shm", "size": "4 MiB", "depth": 4, "workers": 3 });
        table.as_object_mut().expect("a table").extend(more.as_object().expect("a table").clone());
        ("storage", table)
    };
    for (name, table) in [
        ("null", json!({ "workers": 3 })),
        ("tcp_stream", json!({ "streams": 3, "workers": 3, "direction": "both" })),
        ("udp_stream", json!({ "streams": 3, "workers": 3, "direction": "both" })),
        ("tcp_rr", json!({ "streams": 3, "workers": 3, "depth": 16 })),
        ("udp_rr", json!({ "streams": 3, "workers": 3, "depth": 16 })),
        ("tcp_crr", json!({ "streams": 3, "workers": 3 })),
        ("http", json!({ "streams": 3, "workers": 3, "file_size": "64 KiB" })),
        ("ftp", json!({ "streams": 3, "workers": 3, "file_size": "64 KiB" })),
        ("frames", json!({ "mode": "udp", "streams": 3, "workers": 3, "direction": "both" })),
        of_storage(json!({})),
        of_storage(json!({ "engine": "threads", "depth": 32, "rate": "10 kpps" })),
        of_storage(json!({ "engine": "aio", "read": "50 %", "reply": "4 KiB" })),
        of_storage(json!({ "engine": "io_uring", "read": "0 %", "rate": "10 kpps",
            "flush": "fsync", "trim": "10 %" })),
        of_storage(
            json!({ "workers": 1, "read": "0 %", "verify": true, "verify_backlog": 100_000 }),
        ),
    ] {
        let table_params = params(table.clone());
        let of = |side| {
            workload(name)
                .expect("registered")
                .memory(&table_params, side)
                .expect("the parameters are right")
        };
        let needed = of(Side::Active) + of(Side::Passive);
        let before = counting::forget_peak();
        let reports = run(open(name, V4, &table, |offer| offer), 20);
        let peak = counting::peak() - before;
        drop(reports);
        println!("{name} {table}: {peak} of {needed} bytes");
        assert!(peak <= needed, "{name} {table}: {peak} bytes, {needed} declared");
    }
}
