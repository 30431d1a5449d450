//! The shape of Iometer's results.csv (version 1.1.0), for spreadsheets that read it: 80 columns;
//! rows ALL and MANAGER, and WORKER and DISK of each worker, for each point with a storage job.
//!
//! Counts are exact and added over the point's trials; rates are counts over the time they were
//! counted in. CPU and network are medians over the trials, of the whole host. Ticks are
//! nanoseconds. A transaction is a transfer, or with replies both. What was not measured is an
//! empty cell: connections, and of one worker among several what is kept of all together.

use linerate_model::{Distribution, Metric, metric};
use serde_json::Value;

use super::storage::{DEPTH, StorageJob, TARGET, between, count, jobs, moments};

/// Iometer's own words; scripts look for them.
const HEADER: &str = "'Target Type,Target Name,Access Specification Name,# Managers,# Workers,# \
    Disks,IOps,Read IOps,Write IOps,MiBps (Binary),Read MiBps (Binary),Write MiBps (Binary),MBps \
    (Decimal),Read MBps (Decimal),Write MBps (Decimal),Transactions per Second,Connections per \
    Second,Average Response Time,Average Read Response Time,Average Write Response Time,Average \
    Transaction Time,Average Connection Time,Maximum Response Time,Maximum Read Response \
    Time,Maximum Write Response Time,Maximum Transaction Time,Maximum Connection Time,Errors,Read \
    Errors,Write Errors,Bytes Read,Bytes Written,Read I/Os,Write I/Os,Connections,Transactions per \
    Connection,Total Raw Read Response Time,Total Raw Write Response Time,Total Raw Transaction \
    Time,Total Raw Connection Time,Maximum Raw Read Response Time,Maximum Raw Write Response \
    Time,Maximum Raw Transaction Time,Maximum Raw Connection Time,Total Raw Run Time,Starting \
    Sector,Maximum Size,Queue Depth,% CPU Utilization,% User Time,% Privileged Time,% DPC Time,% \
    Interrupt Time,Processor Speed,Interrupts per Second,CPU Effectiveness,Packets/Second,Packet \
    Errors,Segments Retransmitted/Second,0 to 50 uS,50 to 100 uS,100 to 200 uS,200 to 500 uS,0.5 \
    to 1 mS,1 to 2 mS,2 to 5 mS,5 to 10 mS,10 to 15 mS,15 to 20 mS,20 to 30 mS,30 to 50 mS,50 to \
    100 mS,100 to 200 mS,200 to 500 mS,0.5 to 1 S,1 to 2 s,2 to 4.7 s,4.7 to 5 s,5 to 10 s, >= 10 \
    s";

/// Lower ends of the bins, microseconds.
const BINS: [u64; 21] = [
    0, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 15_000, 20_000, 30_000, 50_000, 100_000,
    200_000, 500_000, 1_000_000, 2_000_000, 4_700_000, 5_000_000, 10_000_000,
];
const NANOS_PER_MICRO: u64 = 1_000;
const NANOS_PER_MILLI: f64 = 1e6;
const NANOS: f64 = 1e9;
const MEGABYTE: f64 = 1e6;
/// Unit of Iometer's target sizes, in bytes.
const SECTOR_BYTES: u64 = 512;
/// The block size of a job without one.
const BLOCK_BYTES: u64 = 4096;

/// The document's study as Iometer would have written it.
pub(super) fn render(study: &Value) -> String {
    let campaign = &study["campaign"];
    let word = |value: &Value| plain(value.as_str().unwrap_or_default());
    // Iometer writes milliseconds behind a colon.
    let stamp = word(&campaign["started"]).replace('T', " ").replace('Z', ":000");
    // Version 1.1.0 is the last release, whose columns the header lists.
    let mut text = format!(
        "'Test Type,Test Description\n0,{}\n'Version\n1.1.0\n'Time Stamp\n{stamp}\n",
        word(&campaign["name"])
    );
    for job in jobs(study) {
        text.push_str(&specification(&job));
        text.push_str(&format!("'Results\n{HEADER}\n"));
        let manager = "linerate";
        let workers = job.workers();
        let n_workers = workers.len().to_string();
        let (one, none) = ("1".to_owned(), String::new());
        // Readers find the rows by their first cell, so the order is Iometer's own.
        let mut rows = vec![
            ("ALL", "All".to_owned(), [one.clone(), n_workers.clone(), one.clone()], None),
            ("MANAGER", manager.to_owned(), [none.clone(), n_workers, one.clone()], None),
        ];
        for worker in workers {
            let name = format!("Worker {}", worker + 1);
            rows.push(("WORKER", name, [none.clone(), none.clone(), one.clone()], Some(worker)));
            let target = plain(&job.parameter_or("target", TARGET));
            rows.push(("DISK", target, [none.clone(), none.clone(), none.clone()], Some(worker)));
        }
        for (kind, name, counts, worker) in rows {
            text.push_str(&row(kind, &name, counts, &job, worker).join(","));
            text.push('\n');
        }
        text.push_str(&format!("'Time Stamp\n{stamp}\n"));
    }
    text
}

/// Iometer divides by commas and escapes nothing.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c == ',' || c.is_control() { ' ' } else { c }).collect()
}

/// A share as Iometer has it, whole per cent.
fn percent(text: &str) -> u64 {
    text.trim()
        .trim_end_matches('%')
        .trim()
        .parse::<f64>()
        // A missing share is all of it: every default of the workload is 100 %.
        .map_or(100, |share| share.round() as u64)
}

fn bytes(text: &str) -> u64 {
    text.trim().parse::<linerate_model::Bytes>().map_or(0, |bytes| bytes.0)
}

/// A time in Iometer's whole milliseconds.
fn millis(text: &str) -> u64 {
    let time = text.trim().parse::<linerate_model::Nanos>();
    time.map_or(0, |time| (time.0 as f64 / NANOS_PER_MILLI).round() as u64)
}

/// The access specification, as Iometer lists it.
fn specification(job: &StorageJob<'_>) -> String {
    let access = job.parameter("access");
    let lines: Vec<String> = if access.is_empty() {
        let size = job.parameter("block_size");
        let size = if size.is_empty() { BLOCK_BYTES } else { bytes(&size) };
        // Without an alignment, transfers are aligned to their size.
        let align = Some(bytes(&job.parameter("align"))).filter(|align| *align > 0).unwrap_or(size);
        vec![format!(
            "{size},100,{},{},{},{},{align},{},",
            percent(&job.parameter("read")),
            percent(&job.parameter("random")),
            millis(&job.parameter("delay")),
            job.parameter_or("burst", "1"),
            bytes(&job.parameter("reply"))
        )]
    } else {
        access.split(';').filter(|line| !line.trim().is_empty()).map(access_line).collect()
    };
    let name = plain(&job.name());
    format!(
        "'Access specifications\n'Access specification name,default assignment\n{name},2\n\
         'size,% of size,% reads,% random,delay,burst,align,reply\n{}\n'End access \
         specifications\n",
        lines.join("\n")
    )
}

fn access_line(line: &str) -> String {
    let mut parts = line.split(',').map(str::trim);
    let size = bytes(parts.next().unwrap_or_default());
    // The defaults of an access line, for parts that it leaves out.
    let (mut weight, mut read, mut random, mut delay, mut burst, mut align, mut reply) =
        (100, 100, 100, 0, 1, size, 0);
    for (name, value) in parts.filter_map(|part| part.split_once(' ')) {
        match name {
            "weight" => weight = percent(value),
            "read" => read = percent(value),
            "random" => random = percent(value),
            "delay" => delay = millis(value),
            "reply" => reply = bytes(value),
            "burst" => burst = value.trim().parse().unwrap_or(1),
            "align" => align = bytes(value),
            // The parser of specifications has refused unknown parts before the run.
            _ => {}
        }
    }
    format!("{size},{weight},{read},{random},{delay},{burst},{align},{reply},")
}

/// One row: of all, of a manager, of a worker, or of the target.
fn row(
    kind: &str,
    name: &str,
    counts: [String; 3],
    job: &StorageJob<'_>,
    worker: Option<u32>,
) -> Vec<String> {
    let counted = job.counted(worker);
    let number = |value: f64| format!("{value:.6}");
    // A cell without a figure behind it is empty: a zero would say that it was measured.
    let told = |value: Option<f64>| value.map_or_else(String::new, number);
    let rate = |amount: f64| told((counted.seconds > 0.0).then(|| amount / counted.seconds));
    let of_three =
        |read: u64, write: u64| [read + write, read, write].map(|amount| rate(amount as f64));
    // Iometer's first rate is of both directions.
    let all_bytes = counted.bytes_read + counted.bytes_written;
    let moved = [all_bytes, counted.bytes_read, counted.bytes_written];
    let scaled = |unit: f64| moved.map(|bytes| rate(bytes as f64 / unit));
    let has_replies = counted.exchanges > 0;
    let transfers = counted.reads + counted.writes;
    let transactions = if has_replies { counted.exchanges } else { transfers };
    let mean = |ns: u64, n: u64| told((n > 0).then(|| ns as f64 / n as f64 / NANOS_PER_MILLI));
    let longest = |ns: u64, n: u64| told((n > 0).then(|| ns as f64 / NANOS_PER_MILLI));
    let (all_ns, all_max) =
        (counted.read_ns + counted.write_ns, counted.read_max_ns.max(counted.write_max_ns));
    // Times of transactions are kept of all workers together; without replies they are those of the
    // transfers.
    // One worker alone is all of them.
    let is_whole = worker.is_none() || job.workers().len() == 1;
    // Without a time the cell is empty.
    let exchanges = (has_replies && is_whole).then_some(&job.exchanges);
    let exchanges = exchanges.filter(|times| !times.is_empty());
    let of_transaction = |plain: String, shown: &dyn Fn(&Distribution) -> String| {
        if has_replies { exchanges.map_or_else(String::new, shown) } else { plain }
    };
    let in_millis = |ns: f64| number(ns / NANOS_PER_MILLI);
    let largest = |times: &Distribution| times.buckets.last().map_or(0.0, |(ns, _)| *ns as f64);
    let mut cells: Vec<String> = vec![
        kind.into(),
        name.into(),
        if kind == "DISK" { String::new() } else { plain(&job.name()) },
    ];
    cells.extend(counts);
    cells.extend(of_three(counted.reads, counted.writes));
    cells.extend(scaled(f64::from(1 << 20)));
    cells.extend(scaled(MEGABYTE));
    // No connections are tested: their cells are empty.
    cells.extend([rate(transactions as f64), String::new()]);
    cells.extend([
        mean(all_ns, transfers),
        mean(counted.read_ns, counted.reads),
        mean(counted.write_ns, counted.writes),
        of_transaction(mean(all_ns, transfers), &|times| in_millis(moments(times).0)),
        String::new(),
        longest(all_max, transfers),
        longest(counted.read_max_ns, counted.reads),
        longest(counted.write_max_ns, counted.writes),
        of_transaction(longest(all_max, transfers), &|times| in_millis(largest(times))),
        String::new(),
    ]);
    let errors = counted.read_errors + counted.write_errors;
    cells.extend([errors, counted.read_errors, counted.write_errors].map(|n| n.to_string()));
    cells.extend(
        [counted.bytes_read, counted.bytes_written, counted.reads, counted.writes]
            .map(|n| n.to_string()),
    );
    // Transactions per Connection is -1 where connections are not tested: Iometer's own word for
    // it.
    cells.extend([String::new(), "-1".to_owned()]);
    if kind == "ALL" {
        // Raw times are ticks of one host, and those of several do not add up.
        cells.extend(std::iter::repeat_n(String::new(), 8));
    } else {
        let raw = |ns: f64| format!("{ns:.0}");
        let total = |times: &Distribution| moments(times).0 * count(times) as f64;
        cells.extend([counted.read_ns, counted.write_ns].map(|ns| ns.to_string()));
        let sum = of_transaction(all_ns.to_string(), &|times| raw(total(times)));
        cells.extend([sum, String::new()]);
        cells.extend([counted.read_max_ns, counted.write_max_ns].map(|ns| ns.to_string()));
        let longest = of_transaction(all_max.to_string(), &|times| raw(largest(times)));
        cells.extend([longest, String::new()]);
    }
    cells.push(format!("{:.0}", counted.seconds * NANOS));
    // Loads begin where the target does; without a span they use all of it, which Iometer writes as
    // 0.
    let sectors = bytes(&job.parameter("span")) / SECTOR_BYTES;
    cells.extend(["0".to_owned(), sectors.to_string(), job.parameter_or("depth", DEPTH)]);
    // Ticks are nanoseconds here, so a processor has 1e9 of them per second.
    let ticks = if kind == "ALL" { String::new() } else { format!("{NANOS:.0}") };
    // CPU and network belong to the host and not to a worker.
    if kind == "ALL" || kind == "MANAGER" {
        let host = |metric: &Metric| job.known(metric, "sum");
        let percent = |metric: &Metric| told(host(metric).map(|share| share * 100.0));
        cells.extend(
            [
                metric::HOST_CPU,
                metric::HOST_CPU_USER,
                metric::HOST_CPU_PRIVILEGED,
                metric::HOST_CPU_SOFTIRQ,
                metric::HOST_CPU_IRQ,
            ]
            .map(percent),
        );
        cells.push(ticks);
        cells.extend(
            [
                metric::INTERRUPTS,
                metric::CPU_EFFECTIVENESS,
                metric::HOST_PACKETS,
                metric::HOST_PACKET_ERRORS,
                metric::HOST_RETRANSMITS,
            ]
            .map(|metric| told(host(metric))),
        );
    } else {
        cells.extend(std::iter::repeat_n(String::new(), 5));
        cells.push(ticks);
        cells.extend(std::iter::repeat_n(String::new(), 5));
    }
    match is_whole {
        true => cells.extend(bins(&job.service).map(|n| n.to_string())),
        // Times by bins are kept of all workers together.
        false => cells.extend(std::iter::repeat_n(String::new(), BINS.len())),
    }
    cells
}

fn bins(service: &Distribution) -> [u64; BINS.len()] {
    let end =
        // The last bin is open.
        |place: usize| BINS.get(place + 1).map_or(u64::MAX, |micros| micros * NANOS_PER_MICRO);
    std::array::from_fn(|place| between(service, BINS[place] * NANOS_PER_MICRO, end(place)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn study(read: f64, write: f64) -> Value {
        let metric = |value: f64, direction: &str| {
            json!({
                "estimate": value, "direction": direction, "values": [value],
            })
        };
        let times = |buckets: Value| json!({ "unit": "ns", "buckets": buckets, "lost": 0 });
        // A load of one kind has the others not, as older ledgers have neither.
        let is_mixed = write > 0.0;
        let reads = if is_mixed { times(json!([[40_000, 700]])) } else { Value::Null };
        let writes =
            if is_mixed { times(json!([[40_000, 200], [3_000_000, 100]])) } else { Value::Null };
        // Three runs of 10 s in all, by two workers side by side.
        let worker = |worker: u32, share: f64| {
            json!({
                "trial": 0, "worker": worker, "seconds": 10.0, "timed": 0,
                "reads": (read * 10.0 * share) as u64, "writes": (write * 10.0 * share) as u64,
                "bytes_read": (read * 10.0 * share) as u64 * 4096,
                "bytes_written": (write * 10.0 * share) as u64 * 4096,
                "read_errors": worker * 2, "write_errors": 0,
                "exchanges": if is_mixed { (read * 10.0 * share) as u64 } else { 0 },
                "flushes": 30, "trims": 4, "bytes_trimmed": 4 * 4096,
                "read_ns": (read * 10.0 * share) as u64 * 40_000,
                "write_ns": (write * 10.0 * share) as u64 * 1_000_000,
                "read_max_ns": 40_000, "write_max_ns": 3_000_000,
            })
        };
        json!({
            "linerate": "0.1.0",
            "campaign": { "name": "disks, two", "started": "2026-11-21T12:00:00Z" },
            "points": [{
                "sweep": "mix", "parameters": { "params.depth": 4 },
                "trials": [{ "measured_from": 1.0, "intervals": { "seconds": [1.0, 2.0, 11.0] } }],
                "jobs": [{
                    "workload": "storage",
                    "params": { "target": "/dev/x", "depth": 4, "read": "70 \
                        %", "block_size": "4 KiB", "reply": "4 KiB", "burst": 8, "delay": "2 ms" },
                    "transfers": [worker(0, 0.6), worker(1, 0.4)],
                    "obtained": { "engine": "io_uring", "cache": "direct" },
                    "metrics": {
                        "iops_rx": metric(read, "rx"), "iops_tx": metric(write, "tx"),
                        "transfer_rate_rx": metric(read * 4096.0, "rx"),
                        "transfer_rate_tx": metric(write * 4096.0, "tx"),
                        "cpu_app": metric(0.1, "sum"), "cpu_kernel": metric(0.3, "sum"),
                        "host_cpu": metric(0.4, "sum"), "host_cpu_user": metric(0.1, "sum"),
                        "host_cpu_privileged": metric(0.3, "sum"),
                        "cpu_effectiveness": metric(25.0, "sum"), "interrupts": metric(1_234.0,
                        "sum"), "host_retransmits": metric(7.0, "sum"),
                    },
                    "distributions": { "service": { "unit": "ns", "buckets": [[40_000, 900],
                    [3_000_000, 100]], "lost": 0 }, "reads": reads, "writes": writes },
                }],
            }],
        })
    }

    #[test]
    fn every_row_is_as_wide_as_the_header_and_says_what_was_counted() {
        let text = render(&study(700.0, 300.0));
        let lines: Vec<&str> = text.lines().collect();
        let header =
            lines.iter().position(|line| line.starts_with("'Target Type")).expect("a header");
        let names: Vec<&str> = lines[header].split(',').collect();
        assert_eq!(names.len(), 80);
        let kinds = ["ALL", "MANAGER", "WORKER", "DISK", "WORKER", "DISK"];
        let rows: Vec<Vec<&str>> =
            lines[header + 1..header + 7].iter().map(|row| row.split(',').collect()).collect();
        let of = |row: usize, name: &str| {
            rows[row][names.iter().position(|known| *known == name).expect(name)]
        };
        for (row, kind) in kinds.into_iter().enumerate() {
            assert_eq!((rows[row].len(), rows[row][0]), (80, kind));
        }
        // Of all: two workers, counts added, rates over the ten seconds in which both ran.
        for (name, expected) in [
            ("# Workers", "2"),
            ("IOps", "1000.000000"),
            ("Read IOps", "700.000000"),
            ("Write I/Os", "3000"),
            ("Bytes Written", "12288000"),
            ("MBps (Decimal)", "4.096000"),
            ("Average Response Time", "0.328000"),
            ("Errors", "2"),
            ("Read Errors", "2"),
            ("Write Errors", "0"),
            // 700 exchanges a second: a transfer and its reply are one transaction.
            ("Transactions per Second", "700.000000"),
            ("% CPU Utilization", "40.000000"),
            ("CPU Effectiveness", "25.000000"),
            ("Interrupts per Second", "1234.000000"),
            ("Segments Retransmitted/Second", "7.000000"),
            // Not measured: no figure, no zero.
            ("% DPC Time", ""),
            ("Packets/Second", ""),
            ("Connections per Second", ""),
            ("0 to 50 uS", "900"),
            ("2 to 5 mS", "100"),
            ("50 to 100 uS", "0"),
        ] {
            assert_eq!([0, 1].map(|row| of(row, name)), [expected; 2], "{name}");
        }
        // Each worker by itself; what is kept of both together only is empty.
        assert_eq!([2, 4].map(|row| of(row, "Read I/Os")), ["4200", "2800"]);
        assert_eq!([2, 4].map(|row| of(row, "Target Name")), ["Worker 1", "Worker 2"]);
        assert_eq!([3, 5].map(|row| of(row, "Target Name")), ["/dev/x"; 2]);
        let columns = ["0 to 50 uS", "Average Transaction Time", "Queue Depth"];
        assert_eq!(columns.map(|name| of(2, name)), ["", "", "4"]);
        assert!(lines.contains(&"4096,100,70,100,2,8,4096,4096,"), "{text}");
        assert!(lines[1] == "0,disks  two", "{}", lines[1]);
    }

    #[test]
    fn fio_has_a_section_for_each_direction_with_its_own_times() {
        let holds = |study: &Value, expected: &[(&str, Value)]| {
            let told = super::super::fio::render(study);
            for (place, value) in expected {
                assert_eq!(told["jobs"][0].pointer(place), Some(value), "{place}");
            }
        };
        let mixed = [
            ("/read/iops", json!(700.0)),
            ("/write/total_ios", json!(3_000)),
            ("/read/io_bytes", json!(7_000 * 4096)),
            ("/write/io_bytes", json!(3_000 * 4096)),
            ("/sync/total_ios", json!(60)),
            ("/trim/total_ios", json!(8)),
            ("/trim/io_bytes", json!(8 * 4096)),
            ("/read/clat_ns/N", json!(700)),
            ("/write/clat_ns/max", json!(3_000_000)),
        ];
        holds(&study(700.0, 300.0), &mixed);
        let read = [
            ("/read/clat_ns/mean", json!(336_000.0)),
            ("/read/clat_ns/percentile/99.000000", json!(3_000_000)),
            ("/latency_us/50", json!(90.0)),
            ("/latency_ms/4", json!(10.0)),
            ("/iodepth_level/4", json!(100.0)),
            ("/read/bw", json!(4_000)),
            ("/job options/rw", json!("randrw")),
        ];
        holds(&study(1_000.0, 0.0), &read);
    }
}
