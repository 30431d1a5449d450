//! What is measured: commands of the guest, and how the instructions of an operation are read from
//! what they print.

use anyhow::Context;
use serde_json::Value;

/// Kind of program that runs a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Program {
    /// linerate's example `end`: operations are the count of this name.
    End(&'static str),
    /// linerate's bench `step`: a line of this name for each operation.
    Step(&'static str),
    /// netperf, which prints a rate.
    Netperf,
    /// iperf3 3.21 or later, which prints JSON: bytes of an operation.
    Iperf3(u32),
}

/// One kind of operation.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) operation: &'static str,
    /// Programs that do it, with their arguments.
    pub(super) by: &'static [(Program, &'static str)],
}

const RECEIVED: &str = "datagrams_received";
const TRANSACTIONS: &str = "transactions";

/// Every row. A loop of one byte over TCP or UDP never waits with one CPU, and neither does a
/// stream: the time that passes is that of instructions.
pub(super) static ROWS: &[Row] = &[
    Row { operation: "record into a histogram", by: &[(Program::Step("histogram, ours"), "")] },
    Row { operation: "empty step of a worker", by: &[(Program::Step("null step"), "")] },
    Row {
        operation: "TCP request and response, 1 B",
        by: &[
            (Program::End(TRANSACTIONS), "tcp_rr request_size=1B response_size=1B wait=block"),
            (Program::Netperf, "-t TCP_RR -l 1 -P 0 -- -r 1,1 -o TRANSACTION_RATE"),
        ],
    },
    Row {
        operation: "UDP request and response, 1 B",
        by: &[
            (Program::End(TRANSACTIONS), "udp_rr request_size=1B response_size=1B wait=block"),
            (Program::Netperf, "-t UDP_RR -l 1 -P 0 -- -r 1,1 -o TRANSACTION_RATE"),
        ],
    },
    Row {
        operation: "TCP message, 1,460 B",
        by: &[
            (Program::End("messages_received"), "tcp_stream message_size=1460B"),
            (Program::Iperf3(1460), "-l 1460"),
        ],
    },
    Row {
        operation: "TCP message, 128 KiB",
        by: &[
            (Program::End("messages_received"), "tcp_stream message_size=131072B"),
            (Program::Iperf3(131_072), "-l 131072"),
        ],
    },
    Row {
        operation: "UDP datagram, 1,472 B",
        by: &[
            (Program::End(RECEIVED), "udp_stream datagram_size=1472B"),
            (Program::Iperf3(1472), "-u -b 0 --gsro -w 32M -l 1472"),
        ],
    },
    Row {
        operation: "UDP datagram, 64 B",
        by: &[
            (Program::End(RECEIVED), "udp_stream datagram_size=64B"),
            (Program::Iperf3(64), "-u -b 0 --gsro -w 32M -l 64"),
        ],
    },
    Row {
        operation: "frame, 64 B, packet socket",
        by: &[(
            Program::End(RECEIVED),
            "frames mode=packet frame_size=64B allow_outside_lab=true devices=lo,lo",
        )],
    },
    Row {
        operation: "read of 4 KiB, io_uring",
        by: &[(
            Program::End("reads"),
            "storage target=data engine=io_uring block_size=4KiB read=100% \
                cache=buffered",
        )],
    },
];

impl Program {
    /// Returns the command that runs it with `arguments`, as `build` has it if it is linerate's.
    pub(super) fn command(self, build: &str, arguments: &str) -> String {
        match self {
            Self::End(_) => format!("./{build}-end {arguments} seconds=0.5"),
            Self::Step(_) => format!("./{build}-step"),
            Self::Netperf => format!(
                "./netserver -D -f -4 -p 9000 > /dev/null & until ss -Htl sport 9000 | grep \
                    -q .; do sleep 0.01; done; ./netperf -4 -H 127.0.0.1 -p 9000 \
                    {arguments}; kill %1"
            ),
            Self::Iperf3(_) => format!(
                "./iperf3 -s -1 > /dev/null & until ss -Htl sport 5201 | grep -q .; do sleep \
                    0.01; done; ./iperf3 -c 127.0.0.1 -t 1 -J {arguments}"
            ),
        }
    }

    /// Reads the instructions of an operation from what it printed.
    ///
    /// # Errors
    /// If it did none.
    pub(super) fn instructions(self, printed: &str) -> anyhow::Result<f64> {
        let found = match self {
            Self::End(count) => printed.lines().find_map(|line| of_end(line, count)),
            Self::Step(name) => printed
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
                .and_then(|value| value.split(' ').next()?.parse().ok()),
            Self::Netperf => {
                printed.trim().parse().ok().filter(|rate| *rate > 0.0).map(|rate: f64| 1e9 / rate)
            }
            Self::Iperf3(bytes) => of_iperf3(printed, bytes),
        };
        found.with_context(|| format!("no operation was counted: {printed}"))
    }
}

/// Instructions of an operation of one end; `None` if the other end counts these.
fn of_end(line: &str, count: &str) -> Option<f64> {
    let told: Value = serde_json::from_str(line).ok()?;
    Some(told["steady"]["span_ns"].as_f64()? / told["steady"][count].as_f64()?)
}

fn of_iperf3(printed: &str, bytes: u32) -> Option<f64> {
    let told: Value = serde_json::from_str(printed).ok()?;
    let sum = &told["end"]["sum_received"];
    let received = sum["bytes"].as_f64()?;
    let seconds = sum["seconds"].as_f64()?;
    (received > 0.0).then(|| seconds * 1e9 * f64::from(bytes) / received)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_read_from_what_each_program_prints() {
        let end = "{\"steady\":{\"span_ns\":9000,\"payload_sent\":7}}\n\
            {\"steady\":{\"span_ns\":9000,\"reads\":3}}\n";
        let read = |program: Program, printed: &str| program.instructions(printed).ok();
        assert_eq!(read(Program::End("reads"), end), Some(3000.0));
        assert_eq!(read(Program::End("writes"), end), None, "nobody has written");
        let step = "clock: 12.00 ns\nnull step: 3.50 ns of CPU\n";
        assert_eq!(read(Program::Step("null step"), step), Some(3.5));
        assert_eq!(read(Program::Netperf, "50000.00\n"), Some(20_000.0));
        assert_eq!(read(Program::Netperf, "0\n"), None);
        let stream = r#"{"end":{"sum_received":{"bytes":1000,"seconds":0.00001}}}"#;
        assert_eq!(read(Program::Iperf3(100), stream), Some(1000.0));
        // What was sent does not count, nor does a receiver that received nothing.
        let none = r#"{"end":{"sum":{"bytes":9},"sum_received":{"bytes":0,"seconds":1}}}"#;
        assert_eq!(read(Program::Iperf3(100), none), None);
    }
}
