//! Files between our own ends over loopback: every data path and every sink transfers whole files,
//! and every byte sent arrives.

use linerate_disk::{Disks, Writable};
use linerate_load::engine::EngineReport;
use linerate_load::{LoadError, workload};
use linerate_model::{Counter, Distribution};
use serde_json::{Value, json};

use crate::shared::{
    PATIENCE, V4, all_flows_moved, endpoint, flows_sum, params, run_until, setup, sum,
};

/// Size of every file, bytes.
const FILE: u64 = 1 << 20;

/// Loads both ends, with disks of their own, until `is_enough`. `None` if the disk is too full for
/// the files: nothing is written to a disk without spare room.
fn transfer(
    name: &str,
    table: &Value,
    is_enough: impl Fn(&[EngineReport; 2]) -> bool,
) -> Option<[EngineReport; 2]> {
    let (params, local) = (params(table.clone()), endpoint(V4));
    let disks = [Disks::new(Writable::default()), Disks::new(Writable::default())];
    let workload = workload(name).expect("registered");
    let [near, far] = disks.each_ref().map(|disks| {
        let mut setup = setup(&params, &local);
        setup.disks = disks;
        setup
    });
    let open = || {
        let listener = workload.listen(&far)?;
        let offer = listener.offer();
        let accepting = std::thread::spawn(move || listener.accept(PATIENCE.into()));
        let active = workload.connect(&near, &offer)?;
        Ok::<_, LoadError>([active, accepting.join().expect("no panic").expect("accept")])
    };
    let mut first = match open() {
        Ok(ends) => Some(ends),
        Err(error) => {
            let context = error.to_string();
            assert!(context.contains("bytes are free there"), "{name} {table}: {context}");
            println!("skipped: {name} {table}: {context}");
            return None;
        }
    };
    Some(run_until(
        || first.take().unwrap_or_else(|| open().expect("it was opened before")),
        is_enough,
    ))
}

/// Returns true if at least as many files were transferred as there are flows, and every flow took
/// part.
fn a_file_each(ends: &[EngineReport; 2]) -> bool {
    sum(&ends[0], Counter::Transactions) >= ends[0].flows.len() as u64
        && all_flows_moved(&[&ends[0]])
}

fn times(report: &EngineReport, of: fn(&linerate_model::Stages) -> &Distribution) -> Distribution {
    let mut all = Distribution::default();
    report.intervals.iter().for_each(|interval| all.merge(of(&interval.stages)));
    all
}

/// Checks that whole files were transferred, that nothing failed, and that each complete file has
/// its times.
fn assert_moved(name: &str, table: &Value, ends: Option<[EngineReport; 2]>) {
    let Some([active, passive]) = &ends else { return };
    let context = format!(
        "{name} {table}: {:?} {:?} {:?}",
        active.incidents,
        passive.incidents,
        active.flows.iter().chain(&passive.flows).map(|flow| &flow.modes).collect::<Vec<_>>()
    );
    // The passive end may outlast the active one, if it was started late.
    assert!(active.incidents.is_empty(), "{context}");
    let files = sum(active, Counter::Transactions);
    assert!(files > 0, "{context}");
    assert_eq!(sum(active, Counter::TransactionsLost), 0, "{context}");
    // Files that the end of the load cut off are open, and nothing else is missing.
    let [due, answered, open] =
        [Counter::OperationsDue, Counter::OperationsAnswered, Counter::OperationsOpen]
            .map(|c| sum(active, c));
    assert_eq!((answered, due), (files, files + open), "{context}");
    let is_upload = table["direction"] == "tx";
    let (sender, receiver) = if is_upload { (active, passive) } else { (passive, active) };
    let (sent, received) =
        (sum(sender, Counter::PayloadSent), sum(receiver, Counter::PayloadReceived));
    assert!(
        received >= files * FILE && sent >= received,
        "{context}: {files} files, {sent} sent, {received} received"
    );
    assert_eq!(flows_sum(receiver, Counter::PayloadReceived), received, "{context}");
    assert_eq!(times(active, |stages| &stages.transfer).count(), files, "{context}");
    assert!(
        active.intervals.iter().any(|interval| !interval.flows.is_empty()),
        "{context}: no TCP state"
    );
}

#[test]
fn every_way_to_send_moves_whole_files() {
    for name in ["ftp", "http"] {
        for send in ["copy", "zerocopy", "sendfile", "splice"] {
            for (direction, source) in
                [("rx", "memory"), ("rx", "warm"), ("tx", "memory"), ("tx", "cold")]
            {
                let table = json!({ "send": send, "direction": direction, "source": source,
                    "file_size": "1 MiB", "streams": 2 });
                assert_moved(name, &table, transfer(name, &table, a_file_each));
            }
        }
    }
}

#[test]
fn every_sink_takes_whole_files() {
    for name in ["ftp", "http"] {
        for sink in ["discard", "memory", "page_cache", "direct", "fsync"] {
            for direction in ["rx", "tx"] {
                let mut table =
                    json!({ "sink": sink, "direction": direction, "file_size": "1 MiB" });
                if name == "http" {
                    table["reuse"] = json!(false);
                }
                assert_moved(name, &table, transfer(name, &table, a_file_each));
            }
        }
        let table = json!({ "sink": "page_cache", "receive": "splice", "file_size": "1 MiB" });
        assert_moved(name, &table, transfer(name, &table, a_file_each));
    }
}

#[test]
fn every_byte_passes_tls_between_our_own_ends() {
    for (direction, sink, send, reuse) in [
        ("rx", "discard", "sendfile", true),
        ("rx", "memory", "copy", false),
        ("tx", "page_cache", "zerocopy", true),
        ("rx", "direct", "splice", false),
        ("tx", "discard", "sendfile", false),
    ] {
        let table = json!({ "tls": true, "direction": direction, "sink": sink, "send": send,
            "reuse": reuse,
            "source": "warm", "file_size": "1 MiB", "streams": 2 });
        let Some(ends) = transfer("http", &table, a_file_each) else { continue };
        for modes in ends[0].flows.iter().map(|flow| &flow.modes) {
            assert_eq!(modes["server_known_by"], "its key, which the run made", "{table}");
            assert!(modes["tls"].starts_with("TLS 1.3, "), "{table}: {modes:?}");
        }
        assert_moved("http", &table, Some(ends));
    }
    for (direction, sink, send, passive) in [
        ("rx", "memory", "sendfile", "epsv"),
        ("tx", "page_cache", "copy", "pasv"),
        ("tx", "discard", "splice", "epsv"),
    ] {
        let table = json!({ "tls": true, "direction": direction, "sink": sink, "send": send,
            "passive": passive,
            "source": "warm", "file_size": "1 MiB", "streams": 2 });
        let Some(ends) = transfer("ftp", &table, a_file_each) else { continue };
        for modes in ends[0].flows.iter().map(|flow| &flow.modes) {
            assert_eq!(modes["server_known_by"], "its key, which the run made", "{table}");
            assert!(modes["tls"].starts_with("TLS 1.3, "), "{table}: {modes:?}");
            assert!(modes["tls_data_connections"].starts_with("0 of "), "{table}: {modes:?}");
        }
        assert_moved("ftp", &table, Some(ends));
    }
}

#[test]
fn a_throttled_sink_takes_no_more_than_its_rate() {
    let table = json!({ "sink": "throttled", "sink_rate": "80 Mbit/s", "file_size": "1 MiB" });
    let [active, _] = transfer("http", &table, a_file_each).expect("no file is needed");
    let received = sum(&active, Counter::PayloadReceived);
    let loaded = active.intervals.last().expect("intervals").end.as_secs_f64();
    // 10 MB/s, plus what it may catch up; less on a busy machine.
    assert!(
        received >= FILE && received as f64 <= 10e6 * loaded + 1.2e6,
        "{received} bytes in {loaded} s"
    );
}
