//! Output selectors: figures by the names that netperf gave them.

use std::io;
use std::path::Path;

use crate::options::{Flow, Format, Options, UNITS};
use crate::outcome::{Outcome, UNKNOWN};

/// A figure that can be selected.
pub struct Selector {
    /// Name.
    pub name: &'static str,
    /// Words above it.
    heading: &'static str,
    value: fn(&Outcome) -> String,
    /// It needs the times of single transactions.
    is_timed: bool,
}

impl std::fmt::Debug for Selector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// Why figures cannot be selected.
#[derive(Debug, thiserror::Error)]
pub enum SelectionError {
    /// The file with the names.
    #[error("read the selectors of {0}: {1}")]
    File(String, #[source] io::Error),
    /// No such name.
    #[error("no selector is called {0:?}; -k ? lists them")]
    Unknown(String),
}

const fn row(name: &'static str, heading: &'static str, value: fn(&Outcome) -> String) -> Selector {
    Selector { name, heading, value, is_timed: false }
}

const fn timed(
    name: &'static str,
    heading: &'static str,
    value: fn(&Outcome) -> String,
) -> Selector {
    Selector { name, heading, value, is_timed: true }
}

fn real(number: f64) -> String {
    format!("{number:.2}")
}

fn fine(number: f64) -> String {
    format!("{number:.3}")
}

fn whole(number: impl std::fmt::Display) -> String {
    number.to_string()
}

fn per_call(bytes: u64, calls: u64) -> String {
    real(if calls == 0 { 0.0 } else { bytes as f64 / calls as f64 })
}

/// A size of netperf that was asked for; -1 leaves it to the system.
fn asked(bytes: Option<u32>) -> String {
    bytes.map_or_else(|| "-1".to_owned(), whole)
}

fn cpu(outcome: &Outcome, is_here: bool, of: fn(&crate::wire::CpuUse) -> f32) -> String {
    real(outcome.cpu(is_here).map_or(UNKNOWN, |cpu| f64::from(of(&cpu))))
}

fn cpu_id(outcome: &Outcome, is_here: bool) -> String {
    whole(outcome.cpu(is_here).map_or(-1, |cpu| cpu.busiest.0))
}

/// Unit of times of transactions: ns in a µs.
const NANOS: u64 = 1_000;

fn quantile(outcome: &Outcome, quantile: f64) -> String {
    let latencies = outcome.latencies.as_ref().filter(|times| !times.is_empty());
    let value = latencies.map(|times| times.value_at_quantile(quantile) / NANOS);
    value.map_or_else(|| "-1".to_owned(), whole)
}

fn moment(outcome: &Outcome, of: fn(&hdrhistogram::Histogram<u64>) -> f64) -> String {
    let latencies = outcome.latencies.as_ref().filter(|times| !times.is_empty());
    real(latencies.map_or(UNKNOWN, |times| of(times) / NANOS as f64))
}

/// Returns the TCP or UDP of a test.
fn protocol(o: &Outcome) -> &'static str {
    if o.options.test.is_udp { "UDP" } else { "TCP" }
}

/// All selectors.
pub const SELECTORS: &[Selector] = &[
    row("COMMAND_LINE", "Command Line", |o| format!("{:?}", o.options.typed)),
    row("UUID", "Test UUID", |o| o.options.uuid.clone()),
    row("RESULT_BRAND", "Result Tag", |o| format!("{:?}", o.options.brand)),
    row("SOCKET_TYPE", "Socket Type", |o| {
        if o.options.test.is_udp { "Datagram" } else { "Stream" }.to_owned()
    }),
    row("DIRECTION", "Direction", |o| {
        let words = match o.options.test.flow {
            Flow::Send => "Send",
            Flow::Receive => "Receive",
            Flow::Exchange | Flow::Connections => "Send|Receive",
        };
        words.to_owned()
    }),
    row("PROTOCOL", "Protocol", |o| protocol(o).to_owned()),
    row("ELAPSED_TIME", "Elapsed|Time|(sec)", |o| real(o.elapsed.as_secs_f64())),
    row("THROUGHPUT", "Throughput", |o| real(o.throughput())),
    row("THROUGHPUT_UNITS", "Throughput|Units", |o| format!("{}/s", o.options.unit.name)),
    row("LOCAL_SEND_THROUGHPUT", "Local|Send|Throughput", |o| real(o.rate_of(o.here.bytes[0]))),
    row("LOCAL_RECV_THROUGHPUT", "Local|Recv|Throughput", |o| real(o.rate_of(o.here.bytes[1]))),
    row("REMOTE_SEND_THROUGHPUT", "Remote|Send|Throughput", |o| {
        real(o.rate_of(o.results.bytes[0]))
    }),
    row("REMOTE_RECV_THROUGHPUT", "Remote|Recv|Throughput", |o| {
        real(o.rate_of(o.results.bytes[1]))
    }),
    row("RT_LATENCY", "Round|Trip|Latency|usec/tran", |o| fine(o.mean_round_trip())),
    row("TRANSACTION_RATE", "Transaction|Rate|Tran/s", |o| fine(o.transaction_rate())),
    row("TRANSPORT_MSS", "Transport|MSS|bytes", |o| whole(o.here.largest_segment)),
    row("LOCAL_TRANSPORT_RETRANS", "Local|Transport|Retransmissions", |o| {
        whole(o.here.retransmits)
    }),
    row("REMOTE_TRANSPORT_RETRANS", "Remote|Transport|Retransmissions", |o| {
        whole(o.results.retransmits)
    }),
    row("REQUEST_SIZE", "Request|Size|Bytes", |o| exchange_size(o, 0)),
    row("RESPONSE_SIZE", "Response|Size|Bytes", |o| exchange_size(o, 1)),
    row("BURST_SIZE", "Initial|Burst|Requests", |o| whole(o.options.burst)),
    row("LSS_SIZE_REQ", "Local|Send Socket|Size|Requested", |o| asked(o.options.buffers[0][0])),
    row("LSS_SIZE", "Local|Send Socket|Size|Initial", |o| whole(o.here.buffers[0][0])),
    row("LSS_SIZE_END", "Local|Send Socket|Size|Final", |o| whole(o.here.buffers[1][0])),
    row("LSR_SIZE_REQ", "Local|Recv Socket|Size|Requested", |o| asked(o.options.buffers[0][1])),
    row("LSR_SIZE", "Local|Recv Socket|Size|Initial", |o| whole(o.here.buffers[0][1])),
    row("LSR_SIZE_END", "Local|Recv Socket|Size|Final", |o| whole(o.here.buffers[1][1])),
    row("RSS_SIZE_REQ", "Remote|Send Socket|Size|Requested", |o| asked(o.options.buffers[1][0])),
    row("RSS_SIZE", "Remote|Send Socket|Size|Initial", |o| whole(o.answer.buffers[0])),
    row("RSS_SIZE_END", "Remote|Send Socket|Size|Final", |o| whole(o.results.buffers[0])),
    row("RSR_SIZE_REQ", "Remote|Recv Socket|Size|Requested", |o| asked(o.options.buffers[1][1])),
    row("RSR_SIZE", "Remote|Recv Socket|Size|Initial", |o| whole(o.answer.buffers[1])),
    row("RSR_SIZE_END", "Remote|Recv Socket|Size|Final", |o| whole(o.results.buffers[1])),
    row("LOCAL_SEND_SIZE", "Local|Send|Size", |o| used(o.here.sizes[0])),
    row("LOCAL_RECV_SIZE", "Local|Recv|Size", |o| used(o.here.sizes[1])),
    row("REMOTE_SEND_SIZE", "Remote|Send|Size", |o| whole(o.answer.sizes[0])),
    row("REMOTE_RECV_SIZE", "Remote|Recv|Size", |o| whole(o.answer.sizes[1])),
    row("LOCAL_SEND_CALLS", "Local|Send|Calls", |o| whole(o.here.calls[0])),
    row("LOCAL_RECV_CALLS", "Local|Recv|Calls", |o| whole(o.here.calls[1])),
    row("REMOTE_SEND_CALLS", "Remote|Send|Calls", |o| whole(o.results.calls[0])),
    row("REMOTE_RECV_CALLS", "Remote|Recv|Calls", |o| whole(o.results.calls[1])),
    row("LOCAL_BYTES_PER_SEND", "Local|Bytes|Per|Send", |o| {
        per_call(o.here.bytes[0], o.here.calls[0])
    }),
    row("LOCAL_BYTES_PER_RECV", "Local|Bytes|Per|Recv", |o| {
        per_call(o.here.bytes[1], o.here.calls[1])
    }),
    row("REMOTE_BYTES_PER_SEND", "Remote|Bytes|Per|Send", |o| {
        per_call(o.results.bytes[0], o.results.calls[0].into())
    }),
    row("REMOTE_BYTES_PER_RECV", "Remote|Bytes|Per|Recv", |o| {
        per_call(o.results.bytes[1], o.results.calls[1].into())
    }),
    row("LOCAL_BYTES_SENT", "Local|Bytes|Sent", |o| whole(o.here.bytes[0])),
    row("LOCAL_BYTES_RECVD", "Local|Bytes|Received", |o| whole(o.here.bytes[1])),
    row("LOCAL_BYTES_XFERD", "Local|Bytes|Xferred", |o| whole(o.moved())),
    row("REMOTE_BYTES_SENT", "Remote|Bytes|Sent", |o| whole(o.results.bytes[0])),
    row("REMOTE_BYTES_RECVD", "Remote|Bytes|Received", |o| whole(o.results.bytes[1])),
    row("REMOTE_BYTES_XFERD", "Remote|Bytes|Xferred", |o| {
        whole(o.results.bytes.iter().sum::<u64>())
    }),
    row("LOCAL_CPU_UTIL", "Local|CPU|Util|%", |o| cpu(o, true, |cpu| cpu.total)),
    row("LOCAL_CPU_PERCENT_USER", "Local|CPU|User|%", |o| cpu(o, true, |cpu| cpu.user)),
    row("LOCAL_CPU_PERCENT_SYSTEM", "Local|CPU|System|%", |o| cpu(o, true, |cpu| cpu.system)),
    row("LOCAL_CPU_PERCENT_IOWAIT", "Local|CPU|I/O|%", |o| cpu(o, true, |cpu| cpu.waiting)),
    row("LOCAL_CPU_PERCENT_IRQ", "Local|CPU|IRQ|%", |o| cpu(o, true, |cpu| cpu.interrupts)),
    row("LOCAL_CPU_PERCENT_SWINTR", "Local|CPU|swintr|%", |o| cpu(o, true, |cpu| cpu.soft)),
    row("LOCAL_CPU_PEAK_UTIL", "Local|Peak|Per CPU|Util %", |o| cpu(o, true, |cpu| cpu.busiest.1)),
    row("LOCAL_CPU_PEAK_ID", "Local|Peak|Per CPU|ID", |o| cpu_id(o, true)),
    row("LOCAL_CPU_COUNT", "Local|CPU|Count", |o| whole(o.here.n_cpus)),
    row("LOCAL_SD", "Local|Service|Demand", |o| fine(o.service_demand(true))),
    row("REMOTE_CPU_UTIL", "Remote|CPU|Util|%", |o| cpu(o, false, |cpu| cpu.total)),
    row("REMOTE_CPU_PERCENT_USER", "Remote|CPU|User|%", |o| cpu(o, false, |cpu| cpu.user)),
    row("REMOTE_CPU_PERCENT_SYSTEM", "Remote|CPU|System|%", |o| cpu(o, false, |cpu| cpu.system)),
    row("REMOTE_CPU_PERCENT_IOWAIT", "Remote|CPU|I/O|%", |o| cpu(o, false, |cpu| cpu.waiting)),
    row("REMOTE_CPU_PERCENT_IRQ", "Remote|CPU|IRQ|%", |o| cpu(o, false, |cpu| cpu.interrupts)),
    row("REMOTE_CPU_PERCENT_SWINTR", "Remote|CPU|swintr|%", |o| cpu(o, false, |cpu| cpu.soft)),
    row("REMOTE_CPU_PEAK_UTIL", "Remote|Peak|Per CPU|Util %", |o| {
        cpu(o, false, |cpu| cpu.busiest.1)
    }),
    row("REMOTE_CPU_PEAK_ID", "Remote|Peak|Per CPU|ID", |o| cpu_id(o, false)),
    row("REMOTE_CPU_COUNT", "Remote|CPU|Count", |o| whole(o.results.cpu.n_cpus)),
    row("REMOTE_SD", "Remote|Service|Demand", |o| fine(o.service_demand(false))),
    row("SD_UNITS", "Service|Demand|Units", |o| {
        if o.options.unit.letter == 'x' { "usec/Tran" } else { "usec/KB" }.to_owned()
    }),
    row("LOCAL_NODELAY", "Local|NODELAY", |o| whole(i32::from(o.options.no_delay))),
    row("REMOTE_NODELAY", "Remote|NODELAY", |o| {
        whole(o.answer.flags & crate::wire::flag::NO_DELAY)
    }),
    timed("MIN_LATENCY", "Minimum|Latency|Microseconds", |o| quantile(o, 0.0)),
    timed("MAX_LATENCY", "Maximum|Latency|Microseconds", |o| quantile(o, 1.0)),
    timed("P50_LATENCY", "50th|Percentile|Latency|Microseconds", |o| quantile(o, 0.5)),
    timed("P90_LATENCY", "90th|Percentile|Latency|Microseconds", |o| quantile(o, 0.9)),
    timed("P99_LATENCY", "99th|Percentile|Latency|Microseconds", |o| quantile(o, 0.99)),
    timed("MEAN_LATENCY", "Mean|Latency|Microseconds", |o| {
        moment(o, hdrhistogram::Histogram::mean)
    }),
    timed("STDDEV_LATENCY", "Stddev|Latency|Microseconds", |o| {
        moment(o, hdrhistogram::Histogram::stdev)
    }),
    row("LOCAL_SOCKET_TOS", "Local|Socket|TOS", |o| format!("{:#04x}", o.options.classes[0])),
    row("REMOTE_SOCKET_TOS", "Remote|Socket|TOS", |o| {
        format!("{:#04x}", u8::try_from(o.answer.class).unwrap_or(0))
    }),
    row("LOCAL_CONG_CONTROL", "Local|Congestion|Control|Algorithm", |o| o.here.congestion.clone()),
    row("REMOTE_CONG_CONTROL", "Remote|Congestion|Control|Algorithm", |o| {
        o.results.congestion.clone()
    }),
    row("LOCAL_FILL_FILE", "Local|Fill|File", |o| o.options.fill[0].clone()),
    row("REMOTE_FILL_FILE", "Remote|Fill|File", |o| o.options.fill[1].clone()),
];

fn used(bytes: u32) -> String {
    if bytes == 0 { "-1".to_owned() } else { whole(bytes) }
}

fn exchange_size(outcome: &Outcome, idx: usize) -> String {
    asked(outcome.options.test.is_exchange().then_some(outcome.options.exchange[idx]))
}

/// Selectors of a test without a selection.
fn usual(flow: Flow) -> &'static [&'static str] {
    match flow {
        Flow::Send => &["LSS_SIZE_END", "RSR_SIZE_END", "LOCAL_SEND_SIZE"],
        Flow::Receive => &["RSS_SIZE_END", "LSR_SIZE_END", "REMOTE_SEND_SIZE"],
        Flow::Exchange | Flow::Connections => &[
            "LSS_SIZE_END",
            "LSR_SIZE_END",
            "RSR_SIZE_END",
            "RSS_SIZE_END",
            "REQUEST_SIZE",
            "RESPONSE_SIZE",
        ],
    }
}

/// Word that selects all.
const ALL: &str = "all";

/// Selected figures in blocks.
#[derive(Debug)]
pub struct Selection(Vec<Vec<&'static Selector>>);

impl Selection {
    /// Returns the selectors that the options name: names between commas; a semicolon or a line
    /// begins the next block. A file of that name may hold them.
    ///
    /// # Errors
    /// If the file cannot be read, or if a name is unknown.
    pub fn of(options: &Options) -> Result<Self, SelectionError> {
        let Some(typed) = &options.selection else {
            let ends = ["ELAPSED_TIME", "THROUGHPUT", "THROUGHPUT_UNITS"];
            let names = usual(options.test.flow).iter().chain(&ends);
            return Ok(Self(vec![names.filter_map(|name| find(name)).collect()]));
        };
        let text = match Path::new(typed).is_file() {
            true => std::fs::read_to_string(typed)
                .map_err(|error| SelectionError::File(typed.clone(), error))?,
            false => typed.clone(),
        };
        if text.trim().eq_ignore_ascii_case(ALL) {
            return Ok(Self(vec![SELECTORS.iter().collect()]));
        }
        let blocks = text.split([';', '\n']).filter(|names| !names.trim().is_empty());
        blocks.map(block).collect::<Result<_, _>>().map(Self)
    }

    /// Returns whether it needs the times of single transactions.
    #[must_use]
    pub fn is_timed(&self) -> bool {
        self.0.iter().flatten().any(|selector| selector.is_timed)
    }
}

/// Returns the selectors with names between commas.
fn block(names: &str) -> Result<Vec<&'static Selector>, SelectionError> {
    let names = names.split(',').map(str::trim).filter(|name| !name.is_empty());
    let known = |name: &str| find(name).ok_or_else(|| SelectionError::Unknown(name.to_owned()));
    names.map(known).collect()
}

fn find(name: &str) -> Option<&'static Selector> {
    SELECTORS.iter().find(|selector| selector.name.eq_ignore_ascii_case(name))
}

/// Returns the selected figures as text.
pub(crate) fn print(outcome: &Outcome, selection: &Selection) -> String {
    let (mut text, has_headings) = (String::new(), outcome.options.has_headings);
    for (idx, block) in selection.0.iter().enumerate() {
        let value = |selector: &&Selector| (selector.value)(outcome);
        match outcome.options.format {
            Format::Pairs | Format::Classic => {
                let pairs = block.iter().map(|one| format!("{}={}\n", one.name, value(one)));
                text.extend(pairs);
            }
            Format::Csv => {
                let join = |of: &dyn Fn(&&Selector) -> String| {
                    block.iter().map(of).collect::<Vec<_>>().join(",") + "\n"
                };
                if has_headings {
                    text += &join(&|one| one.heading.replace('|', " "));
                }
                text += &join(&value);
            }
            Format::Table => {
                if idx > 0 {
                    text.push('\n');
                }
                text += &table(block, &|one| (one.value)(outcome), has_headings);
            }
        }
    }
    text
}

/// Lines above a column.
const HEADING_LINES: usize = 4;

/// Lines above a column, and its value.
type Column<'a> = (Vec<&'a str>, String);

fn column_width((heading, value): &Column<'_>) -> usize {
    heading.iter().map(|line| line.len()).max().unwrap_or(0).max(value.len())
}

fn table(block: &[&Selector], value: &dyn Fn(&Selector) -> String, has_headings: bool) -> String {
    let columns: Vec<Column<'_>> =
        block.iter().map(|one| (one.heading.split('|').collect(), value(one))).collect();
    let mut text = String::new();
    for idx in (0..HEADING_LINES).filter(|_| has_headings) {
        text += &row_of(&columns, &|(heading, _)| heading.get(idx).copied().unwrap_or_default());
    }
    text + &row_of(&columns, &|(_, value)| value)
}

/// Returns a row of a table.
fn row_of(columns: &[Column<'_>], of: &dyn for<'a> Fn(&'a Column<'a>) -> &'a str) -> String {
    let cell = |column| format!("{:<1$} ", of(column), column_width(column));
    columns.iter().map(cell).collect::<String>() + "\n"
}

/// Returns the names of all selectors and units, for `-k ?`.
#[must_use]
pub fn listed() -> String {
    let names: Vec<&str> = SELECTORS.iter().map(|selector| selector.name).collect();
    let units: Vec<&str> = UNITS.iter().map(|unit| unit.name).collect();
    format!("{}\nunits of -f: {}\n", names.join("\n"), units.join(" "))
}
