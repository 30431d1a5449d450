//! Tables of netperf 2.7.1, as it printed them, with figures of our own.

use super::*;
use crate::options::{Asked, parse};
use crate::outcome::Here;
use crate::wire::{Answer, CpuUse, Results};

fn outcome(line: &str) -> Outcome {
    let words = line.split_whitespace().map(std::ffi::OsString::from);
    let Ok(Asked::Test(options)) = parse(words) else { panic!("{line}") };
    let here = Here {
        bytes: [125_000_000, 250_000],
        calls: [1_000, 2_000],
        failed: 3,
        transactions: 40_000,
        buffers: [[16_384, 131_072], [4_194_304, 6_291_456]],
        sizes: [16_384, 131_072],
        largest_segment: 1_448,
        retransmits: 5,
        congestion: "cubic".to_owned(),
        n_cpus: 2,
        cpu: options.cpu[0].then_some(CpuUse { total: 50.0, n_cpus: 2, ..CpuUse::default() }),
    };
    let answer =
        Answer { buffers: [16_384, 131_072], sizes: [16_384, 65_536], ..Answer::default() };
    let results = Results {
        bytes: [0, 112_500_000],
        calls: [0, 900],
        cpu: CpuUse { total: 25.0, n_cpus: 2, ..CpuUse::default() },
        congestion: "reno".to_owned(),
        ..Results::default()
    };
    let elapsed = Duration::from_secs(2);
    Outcome { options: *options, elapsed, here, answer, results, latencies: None }
}

fn printed(line: &str) -> String {
    let outcome = outcome(line);
    heading(&outcome.options) + &selected(&outcome)
}

fn selected(outcome: &Outcome) -> String {
    result(outcome, &Selection::of(&outcome.options).expect("known names"))
}

#[test]
fn tables_are_those_of_netperf() {
    assert_eq!(
        printed("-H 192.0.2.1"),
        "MIGRATED TCP STREAM TEST from 0.0.0.0 () port 0 AF_INET to 192.0.2.1 () port 0 AF_INET\n\
         Recv   Send    Send                          \n\
         Socket Socket  Message  Elapsed              \n\
         Size   Size    Size     Time     Throughput  \n\
         bytes  bytes   bytes    secs.    10^6bits/sec  \n\n\
         131072  16384  16384    2.00      450.00   \n"
    );
    assert_eq!(printed("-P 0 -v 0"), "450.00 \n");
    assert_eq!(printed("-P 0 -t TCP_MAERTS -f k"), "131072  16384  16384    2.00     1000.00   \n");
    assert_eq!(
        printed("-P 0 -t UDP_STREAM"),
        " 16384   16384   2.00          1000      3     500.00\n\
         131072           2.00           900           450.00\n\n"
    );
    assert_eq!(
        printed("-P 0 -t TCP_RR -B tag"),
        "16384  131072 1        1       2.00     20000.00   tag\n16384  131072\n"
    );
    assert_eq!(
        printed("-P 0 -c -C"),
        "131072  16384  16384    2.00      450.00   50.00    25.00    16.351  8.176  \n"
    );
}

#[test]
fn selectors_are_pairs_values_and_tables() {
    let names = "-- -k THROUGHPUT,THROUGHPUT_UNITS,LOCAL_CONG_CONTROL,RT_LATENCY,LOCAL_CPU_UTIL";
    assert_eq!(
        printed(&format!("-P 0 {names}")),
        "THROUGHPUT=450.00\nTHROUGHPUT_UNITS=10^6bits/s\nLOCAL_CONG_CONTROL=cubic\n\
         RT_LATENCY=50.000\nLOCAL_CPU_UTIL=-1.00\n"
    );
    assert_eq!(
        selected(&outcome("-- -o ELAPSED_TIME,throughput")),
        "Elapsed Time (sec),Throughput\n2.00,450.00\n"
    );
    assert_eq!(
        selected(&outcome("-t TCP_RR -- -O REQUEST_SIZE,TRANSACTION_RATE")),
        "Request Transaction \nSize    Rate        \nBytes   Tran/s      \n                    \n\
         1       20000.000   \n"
    );
    assert_eq!(selected(&outcome("-P 0 -- -o ELAPSED_TIME;THROUGHPUT")), "2.00\n450.00\n");
    let misspelt = outcome("-- -k THROUGHPUTT").options;
    let unknown = Selection::of(&misspelt).expect_err("misspelt").to_string();
    assert_eq!(unknown, "no selector is called \"THROUGHPUTT\"; -k ? lists them");
    let all = selected(&outcome("-- -k all"));
    assert_eq!(all.lines().count(), selectors::SELECTORS.len());
}

#[test]
fn only_selectors_of_single_transactions_need_their_times() {
    let is_timed = |names: &str| {
        let options = outcome(&format!("-- -k {names}")).options;
        Selection::of(&options).expect("known names").is_timed()
    };
    assert!(is_timed("THROUGHPUT,p99_latency") && is_timed("all"));
    assert!(!is_timed("THROUGHPUT,RT_LATENCY"));
}

#[test]
fn interim_results_have_the_form_of_the_result() {
    let span = Duration::from_millis(200);
    let ending = Duration::from_millis(1_700_000_000_042);
    let result = Interim { number: 3, rate: 9.5, span, ending };
    let text = |line| interim(&outcome(line).options, &result);
    assert_eq!(
        text("-D 0.2 -- -k"),
        "NETPERF_INTERIM_RESULT[3]=9.50\nNETPERF_UNITS[3]=10^6bits/s\nNETPERF_INTERVAL[3]=0.200\n\
         NETPERF_ENDING[3]=1700000000.042\n"
    );
    assert_eq!(text("-D 0.2 -- -o"), "   9.50,10^6bits/s,0.200,1700000000.042\n");
    assert_eq!(
        text("-D 0.2 -t UDP_RR"),
        "Interim result:    9.50 Trans/s over 0.200 seconds ending at 1700000000.042\n"
    );
}
