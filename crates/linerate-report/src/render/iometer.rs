//! The shape of Iometer's results.csv (version 1.1.0), for spreadsheets that read it: 80 columns, rows ALL, MANAGER, WORKER and DISK for each
//! point with a storage job.
//!
//! Medians over the point's trials. Ticks are nanoseconds. Transactions are transfers, whatever they were answered with; no connections, no
//! network.

use linerate_model::Distribution;
use serde_json::Value;

use super::storage::{StorageJob, between, count, jobs, moments};

/// Iometer's own words; scripts look for them.
const HEADER: &str = "'Target Type,Target Name,Access Specification Name,# Managers,# Workers,# Disks,IOps,Read IOps,Write IOps,\
MiBps (Binary),Read MiBps (Binary),Write MiBps (Binary),MBps (Decimal),Read MBps (Decimal),Write MBps (Decimal),Transactions per Second,\
Connections per Second,Average Response Time,Average Read Response Time,Average Write Response Time,Average Transaction Time,\
Average Connection Time,Maximum Response Time,Maximum Read Response Time,Maximum Write Response Time,Maximum Transaction Time,\
Maximum Connection Time,Errors,Read Errors,Write Errors,Bytes Read,Bytes Written,Read I/Os,Write I/Os,Connections,\
Transactions per Connection,Total Raw Read Response Time,Total Raw Write Response Time,Total Raw Transaction Time,\
Total Raw Connection Time,Maximum Raw Read Response Time,Maximum Raw Write Response Time,Maximum Raw Transaction Time,\
Maximum Raw Connection Time,Total Raw Run Time,Starting Sector,Maximum Size,Queue Depth,% CPU Utilization,% User Time,\
% Privileged Time,% DPC Time,% Interrupt Time,Processor Speed,Interrupts per Second,CPU Effectiveness,Packets/Second,Packet Errors,\
Segments Retransmitted/Second,0 to 50 uS,50 to 100 uS,100 to 200 uS,200 to 500 uS,0.5 to 1 mS,1 to 2 mS,2 to 5 mS,5 to 10 mS,\
10 to 15 mS,15 to 20 mS,20 to 30 mS,30 to 50 mS,50 to 100 mS,100 to 200 mS,200 to 500 mS,0.5 to 1 S,1 to 2 s,2 to 4.7 s,4.7 to 5 s,\
5 to 10 s, >= 10 s";

/// Lower ends of the bins, microseconds.
const BINS: [u64; 21] = [
    0, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 15_000, 20_000, 30_000, 50_000, 100_000, 200_000, 500_000,
    1_000_000, 2_000_000, 4_700_000, 5_000_000, 10_000_000,
];
const NANOS_PER_MICRO: u64 = 1_000;
const NANOS_PER_MILLI: f64 = 1e6;
const NANOS: f64 = 1e9;

/// The document's study as Iometer would have written it.
pub(super) fn render(study: &Value) -> String {
    let campaign = &study["campaign"];
    let word = |value: &Value| plain(value.as_str().unwrap_or_default());
    let stamp = word(&campaign["started"]).replace('T', " ").replace('Z', ":000");
    let mut text =
        format!("'Test Type,Test Description\n0,{}\n'Version\n1.1.0\n'Time Stamp\n{stamp}\n", word(&campaign["name"]));
    for job in jobs(study) {
        text.push_str(&specification(&job));
        text.push_str(&format!("'Results\n{HEADER}\n"));
        let manager = "linerate";
        for (kind, name, counts) in [
            ("ALL", "All".to_owned(), ["1", "1", "1"]),
            ("MANAGER", manager.to_owned(), ["", "1", "1"]),
            ("WORKER", "Worker 1".to_owned(), ["", "", "1"]),
            ("DISK", plain(&job.parameter("target")), ["", "", ""]),
        ] {
            text.push_str(&row(kind, &name, counts, &job).join(","));
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
    text.trim().trim_end_matches('%').trim().parse::<f64>().map_or(100, |share| share.round() as u64)
}

fn bytes(text: &str) -> u64 {
    text.trim().parse::<linerate_model::Bytes>().map_or(0, |bytes| bytes.0)
}

/// The access specification, as Iometer lists it.
fn specification(job: &StorageJob<'_>) -> String {
    let access = job.parameter("access");
    let lines: Vec<String> = if access.is_empty() {
        let size = job.parameter("block_size");
        let size = if size.is_empty() { 4096 } else { bytes(&size) };
        let align = Some(bytes(&job.parameter("align"))).filter(|align| *align > 0).unwrap_or(size);
        vec![format!(
            "{size},100,{},{},0,1,{align},0,",
            percent(&job.parameter("read")),
            percent(&job.parameter("random"))
        )]
    } else {
        access.split(';').filter(|line| !line.trim().is_empty()).map(access_line).collect()
    };
    let name = plain(&job.name());
    format!(
        "'Access specifications\n'Access specification name,default assignment\n{name},2\n\
         'size,% of size,% reads,% random,delay,burst,align,reply\n{}\n'End access specifications\n",
        lines.join("\n")
    )
}

fn access_line(line: &str) -> String {
    let mut parts = line.split(',').map(str::trim);
    let size = bytes(parts.next().unwrap_or_default());
    let (mut weight, mut read, mut random, mut delay, mut burst, mut align) = (100, 100, 100, 0.0, 1, size);
    for (name, value) in parts.filter_map(|part| part.split_once(' ')) {
        match name {
            "weight" => weight = percent(value),
            "read" => read = percent(value),
            "random" => random = percent(value),
            "delay" => {
                delay =
                    value.trim().parse::<linerate_model::Nanos>().map_or(0.0, |time| time.0 as f64 / NANOS_PER_MILLI)
            }
            "burst" => burst = value.trim().parse().unwrap_or(1),
            "align" => align = bytes(value),
            _ => {}
        }
    }
    format!("{size},{weight},{read},{random},{},{burst},{align},0,", delay.round() as u64)
}

fn row(kind: &str, name: &str, counts: [&str; 3], job: &StorageJob<'_>) -> Vec<String> {
    let number = |value: f64| format!("{value:.6}");
    let by_way = |metric: &str| {
        let (read, write) = (job.figure(metric, "rx"), job.figure(metric, "tx"));
        [read + write, read, write]
    };
    let seconds = job.seconds();
    let (iops, rates) = (by_way("iops"), by_way("transfer_rate"));
    let binary = rates.map(|rate| rate / f64::from(1 << 20));
    let decimal = rates.map(|rate| rate / 1e6);
    // Of all, of reads, of writes.
    let times = ["sum", "rx", "tx"].map(|direction| job.times(direction));
    let means = [0, 1, 2].map(|place: usize| moments(&times[place]).0);
    let largest = [0, 1, 2].map(|place: usize| times[place].buckets.last().map_or(0.0, |(ns, _)| *ns as f64));
    let sums = [0, 1, 2].map(|place: usize| means[place] * count(&times[place]) as f64);
    let (averages, maxima) = (means.map(|ns| ns / NANOS_PER_MILLI), largest.map(|ns| ns / NANOS_PER_MILLI));
    let cpu = job.figure("cpu_app", "sum") + job.figure("cpu_kernel", "sum");
    let is_target = kind == "DISK";
    let mut cells: Vec<String> =
        vec![kind.into(), name.into(), if is_target { String::new() } else { plain(&job.name()) }];
    cells.extend(counts.map(str::to_owned));
    cells.extend([iops, binary, decimal].concat().into_iter().map(number));
    // Without replies every transfer is a transaction; connections are not tested.
    cells.extend([iops[0], 0.0].map(number));
    cells.extend(averages.map(number));
    cells.extend([averages[0], 0.0].map(number));
    cells.extend(maxima.map(number));
    cells.extend([maxima[0], 0.0].map(number));
    cells.extend(["0", "0", "0"].map(str::to_owned));
    cells.extend([rates[1], rates[2], iops[1], iops[2]].map(|rate| format!("{:.0}", rate * seconds)));
    cells.extend(["0", "-1"].map(str::to_owned));
    if kind == "ALL" {
        cells.extend(std::iter::repeat_n(String::new(), 8));
    } else {
        let raw = [sums[1], sums[2], sums[0], 0.0, largest[1], largest[2], largest[0], 0.0];
        cells.extend(raw.map(|ns| format!("{ns:.0}")));
    }
    cells.push(format!("{:.0}", seconds * NANOS));
    cells.extend([
        "0".to_owned(),
        "0".to_owned(),
        Some(job.parameter("depth")).filter(|depth| !depth.is_empty()).unwrap_or("32".into()),
    ]);
    if kind == "ALL" || kind == "MANAGER" {
        let (user, kernel) = (job.figure("cpu_app", "sum") * 100.0, job.figure("cpu_kernel", "sum") * 100.0);
        cells.extend([cpu * 100.0, user, kernel, 0.0, 0.0].map(number));
        cells.push(if kind == "ALL" { String::new() } else { format!("{NANOS:.0}") });
        let effectiveness = if cpu > 0.0 { iops[0] / (cpu * 100.0) } else { 0.0 };
        cells.extend([0.0, effectiveness, 0.0, 0.0, 0.0].map(number));
    } else {
        cells.extend(std::iter::repeat_n(String::new(), 5));
        cells.push(format!("{NANOS:.0}"));
        cells.extend(std::iter::repeat_n(String::new(), 5));
    }
    cells.extend(bins(&job.service).map(|n| n.to_string()));
    cells
}

fn bins(service: &Distribution) -> [u64; BINS.len()] {
    let end = |place: usize| BINS.get(place + 1).map_or(u64::MAX, |micros| micros * NANOS_PER_MICRO);
    std::array::from_fn(|place| between(service, BINS[place] * NANOS_PER_MICRO, end(place)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn study(read: f64, write: f64) -> Value {
        let metric =
            |value: f64, direction: &str| json!({ "estimate": value, "direction": direction, "values": [value] });
        let times = |buckets: Value| json!({ "unit": "ns", "buckets": buckets, "lost": 0 });
        // A load of one kind has the others not, as older ledgers have neither.
        let is_mixed = write > 0.0;
        let reads = if is_mixed { times(json!([[40_000, 700]])) } else { Value::Null };
        let writes = if is_mixed { times(json!([[40_000, 200], [3_000_000, 100]])) } else { Value::Null };
        json!({
            "linerate": "0.1.0",
            "campaign": { "name": "disks, two", "started": "2026-11-21T12:00:00Z" },
            "points": [{
                "sweep": "mix", "parameters": { "params.depth": 4 },
                "trials": [{ "measured_from": 1.0, "intervals": { "seconds": [1.0, 2.0, 11.0] } }],
                "jobs": [{
                    "workload": "storage",
                    "params": { "target": "/dev/x", "depth": 4, "read": "70 %", "block_size": "4 KiB" },
                    "obtained": { "engine": "io_uring", "cache": "direct" },
                    "metrics": {
                        "iops_rx": metric(read, "rx"), "iops_tx": metric(write, "tx"),
                        "transfer_rate_rx": metric(read * 4096.0, "rx"), "transfer_rate_tx": metric(write * 4096.0, "tx"),
                        "cpu_app": metric(0.1, "sum"), "cpu_kernel": metric(0.3, "sum"),
                    },
                    "distributions": { "service": { "unit": "ns", "buckets": [[40_000, 900], [3_000_000, 100]], "lost": 0 }, "reads": reads, "writes": writes },
                }],
            }],
        })
    }

    #[test]
    fn every_row_is_as_wide_as_the_header_and_says_what_was_measured() {
        let text = render(&study(700.0, 300.0));
        let lines: Vec<&str> = text.lines().collect();
        let header = lines.iter().position(|line| line.starts_with("'Target Type")).expect("a header");
        let names: Vec<&str> = lines[header].split(',').collect();
        assert_eq!(names.len(), 80);
        for (row, kind) in lines[header + 1..header + 5].iter().zip(["ALL", "MANAGER", "WORKER", "DISK"]) {
            let cells: Vec<&str> = row.split(',').collect();
            assert_eq!((cells.len(), cells[0]), (80, kind), "{row}");
            let of = |name: &str| cells[names.iter().position(|known| *known == name).expect(name)];
            assert_eq!((of("IOps"), of("Read IOps"), of("Write I/Os")), ("1000.000000", "700.000000", "3000"));
            assert_eq!((of("MBps (Decimal)"), of("Average Response Time")), ("4.096000", "0.336000"));
            assert_eq!((of("Average Read Response Time"), of("Queue Depth")), ("0.040000", "4"));
            assert_eq!((of("0 to 50 uS"), of("2 to 5 mS"), of("50 to 100 uS")), ("900", "100", "0"));
        }
        assert!(lines.contains(&"4096,100,70,100,0,1,4096,0,"), "{text}");
        assert!(lines[1] == "0,disks  two", "{}", lines[1]);
        assert!(lines[header + 1].contains(",25.000000,"), "1000 IOps at 40 % of a CPU: {}", lines[header + 1]);
    }

    #[test]
    fn fio_has_a_section_for_each_direction_with_its_own_times() {
        let mixed = super::super::fio::render(&study(700.0, 300.0));
        let job = &mixed["jobs"][0];
        assert_eq!((&job["read"]["iops"], &job["write"]["total_ios"]), (&json!(700.0), &json!(3_000)));
        assert_eq!((&job["read"]["clat_ns"]["N"], &job["write"]["clat_ns"]["max"]), (&json!(700), &json!(3_000_000)));
        let read = super::super::fio::render(&study(1_000.0, 0.0));
        let job = &read["jobs"][0];
        let clat = &job["read"]["clat_ns"];
        assert_eq!((&clat["mean"], &clat["percentile"]["99.000000"]), (&json!(336_000.0), &json!(3_000_000)));
        assert_eq!(
            (&job["latency_us"]["50"], &job["latency_ms"]["4"], &job["iodepth_level"]["4"]),
            (&json!(90.0), &json!(10.0), &json!(100.0))
        );
        assert_eq!((&job["read"]["bw"], &job["job options"]["rw"]), (&json!(4_000), &json!("randrw")));
    }
}
