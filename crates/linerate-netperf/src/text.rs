//! Texts of netperf: lines above a result, its table, interim results.

use std::time::Duration;

use crate::options::{Flow, Format, Options};
use crate::outcome::Outcome;
use crate::selectors::{self, Selection};

/// An interim result.
#[derive(Clone, Copy, Debug)]
pub struct Interim {
    /// Its number, from 0.
    pub number: u32,
    /// Rate in the unit of the result.
    pub rate: f64,
    /// Its span.
    pub span: Duration,
    /// Its end, since the start of 1970.
    pub ending: Duration,
}

/// Returns the line above the interim results.
#[must_use]
pub fn heading(options: &Options) -> String {
    if !options.has_headings {
        return String::new();
    }
    let is_ipv6 = options.is_ipv6.unwrap_or(false);
    let (any, family) = if is_ipv6 { ("::", "AF_INET6") } else { ("0.0.0.0", "AF_INET") };
    let local = options.local[1].as_deref().unwrap_or(any);
    let host = options.data_host.as_deref().unwrap_or(&options.host);
    let [from, to] = options.data_ports;
    let mut text = format!(
        "MIGRATED {} TEST from {local} () port {from} {family} to {host} () port {to} {family}",
        options.test.title
    );
    let notes = [
        (options.no_delay, " : nodelay".to_owned()),
        (options.interim.is_some(), " : demo".to_owned()),
        (options.test.flow == Flow::Exchange, format!(" : first burst {}", options.burst)),
    ];
    notes.iter().filter(|(is_so, _)| *is_so).for_each(|(_, note)| text += note);
    text + "\n"
}

/// Returns the lines of an interim result.
#[must_use]
pub fn interim(options: &Options, result: &Interim) -> String {
    let Interim { number, rate, .. } = result;
    let (unit, span) = (options.unit.name, result.span.as_secs_f64());
    let ending = format!("{}.{:03}", result.ending.as_secs(), result.ending.subsec_millis());
    match options.format {
        Format::Pairs => format!(
            "NETPERF_INTERIM_RESULT[{number}]={rate:.2}\nNETPERF_UNITS[{number}]={unit}/s\n\
             NETPERF_INTERVAL[{number}]={span:.3}\nNETPERF_ENDING[{number}]={ending}\n"
        ),
        Format::Csv => format!("{rate:7.2},{unit}/s,{span:.3},{ending}\n"),
        Format::Classic | Format::Table => format!(
            "Interim result: {rate:7.2} {unit}/s over {span:.3} seconds ending at {ending}\n"
        ),
    }
}

/// Returns the text of a result, of which `selection` has the figures unless its table is wanted.
#[must_use]
pub fn result(outcome: &Outcome, selection: &Selection) -> String {
    match outcome.options.format {
        Format::Classic => classic(outcome),
        _ => selectors::print(outcome, selection),
    }
}

fn classic(outcome: &Outcome) -> String {
    let options = &outcome.options;
    let brand = &options.brand;
    if options.is_brief {
        return format!("{:.2} {brand}\n", outcome.throughput());
    }
    let heads = if options.has_headings { table_heading(options) } else { String::new() };
    heads
        + &match (options.test.is_exchange(), options.test.is_udp) {
            (true, _) => exchange(outcome),
            (false, true) => datagrams(outcome),
            (false, false) => stream(outcome),
        }
}

/// Returns the lines above the figures. With a measurement of the CPU they have more columns.
fn table_heading(options: &Options) -> String {
    let has_cpu = options.cpu.contains(&true);
    let unit = format!("{}/sec", options.unit.name);
    match (options.test.is_exchange(), options.test.is_udp, has_cpu) {
        (true, _, false) => format!(
            "Local /Remote\n\
             Socket Size   Request  Resp.   Elapsed  Trans.\n\
             Send   Recv   Size     Size    Time     Rate         \n\
             bytes  Bytes  bytes    bytes   secs.    {}   \n\n",
            if options.unit.letter == 'x' { "per sec" } else { &unit }
        ),
        (true, _, true) => "Local /Remote\n\
             Socket Size   Request Resp.  Elapsed Trans.   CPU    CPU    S.dem   S.dem\n\
             Send   Recv   Size    Size   Time    Rate     local  remote local   remote\n\
             bytes  bytes  bytes   bytes  secs.   per sec  % S    % S    us/Tr   us/Tr\n\n"
            .to_owned(),
        (false, true, false) => format!(
            "Socket  Message  Elapsed      Messages                \n\
             Size    Size     Time         Okay Errors   Throughput\n\
             bytes   bytes    secs            #      #   {unit}\n\n"
        ),
        (false, true, true) => format!(
            "Socket  Message  Elapsed      Messages                   CPU      Service\n\
             Size    Size     Time         Okay Errors   Throughput   Util     Demand\n\
             bytes   bytes    secs            #      #   {unit} % SS     us/KB\n\n"
        ),
        (false, false, false) => format!(
            "Recv   Send    Send                          \n\
             Socket Socket  Message  Elapsed              \n\
             Size   Size    Size     Time     Throughput  \n\
             bytes  bytes   bytes    secs.    {unit}  \n\n"
        ),
        (false, false, true) => format!(
            "Recv   Send    Send                          Utilization       Service Demand\n\
             Socket Socket  Message  Elapsed              Send     Recv     Send    Recv\n\
             Size   Size    Size     Time     Throughput  local    remote   local   remote\n\
             bytes  bytes   bytes    secs.    {}/s  % S      % S      us/KB   us/KB\n\n",
            options.unit.name
        ),
    }
}

/// Returns the use of the CPUs of this end and of the server, and their costs.
fn costs(outcome: &Outcome) -> [[f64; 2]; 2] {
    let used =
        |is_here| outcome.cpu(is_here).map_or(crate::outcome::UNKNOWN, |cpu| f64::from(cpu.total));
    [[used(true), used(false)], [true, false].map(|is_here| outcome.service_demand(is_here))]
}

fn stream(outcome: &Outcome) -> String {
    let is_reverse = outcome.options.test.flow == Flow::Receive;
    let (here, there) = (outcome.here.buffers[0], outcome.answer.buffers);
    let [receiving, sending] = if is_reverse { [here[1], there[0]] } else { [there[1], here[0]] };
    let size =
        if is_reverse { outcome.answer.sizes[0].cast_unsigned() } else { outcome.here.sizes[0] };
    let seconds = outcome.seconds();
    let mut text = format!("{receiving:5}  {sending:5}  {size:5}    {seconds:<6.2}   ");
    text += &format!("{:7.2}  ", outcome.throughput());
    if outcome.options.cpu.contains(&true) {
        let [[used, used_there], [cost, cost_there]] = costs(outcome);
        text += &format!(" {used:<6.2}   {used_there:<6.2}   {cost:<6.3}  {cost_there:<6.3}");
    }
    text + " " + &outcome.options.brand + "\n"
}

fn datagrams(outcome: &Outcome) -> String {
    let (options, here) = (&outcome.options, &outcome.here);
    let seconds = outcome.seconds();
    let [[used, used_there], [cost, cost_there]] = costs(outcome);
    let has_cpu = options.cpu.contains(&true);
    let columns = |used: f64, cost: f64| format!("     {used:<6.2}   {cost:<6.3}");
    let more = |used, cost| if has_cpu { columns(used, cost) } else { String::new() };
    format!(
        "{:6}  {:6}   {seconds:<7.2} {:10} {:6}    {:7.2}{}{}\n\
         {:6}           {seconds:<7.2} {:10}        {:9.2}{}\n\n",
        here.buffers[0][0],
        here.sizes[0],
        here.calls[0],
        here.failed,
        outcome.rate_of(here.bytes[0]),
        more(used, cost),
        options.brand,
        outcome.answer.buffers[1],
        outcome.results.calls[1],
        outcome.throughput(),
        more(used_there, cost_there),
    )
}

fn exchange(outcome: &Outcome) -> String {
    let (options, here, there) =
        (&outcome.options, outcome.here.buffers[0], outcome.answer.buffers);
    let [request, response] = options.exchange;
    let seconds = outcome.seconds();
    let mut text = format!("{:<6} {:<6} ", here[0], here[1]);
    if options.cpu.contains(&true) {
        let [[used, used_there], [cost, cost_there]] = costs(outcome);
        text += &format!(
            "{request:<6}  {response:<6} {seconds:<6.2}  {:<6.2}  {used:<6.2} {used_there:<6.2} \
             {cost:<6.3}  {cost_there:<6.3}",
            outcome.throughput()
        );
    } else {
        text +=
            &format!("{request:<8} {response:<6}  {seconds:<6.2}   {:7.2}  ", outcome.throughput());
    }
    text + " " + &options.brand + "\n" + &format!("{:<6} {:<6}\n", there[0], there[1])
}

/// Help of the client.
pub const HELP: &str = "\
Usage: netperf [OPTION]... [-- [OPTION OF THE TEST]...]

  -t TEST           TCP_STREAM, TCP_MAERTS, TCP_RR, TCP_CRR, UDP_STREAM or UDP_RR
  -H HOST[,FAMILY]  host with the netserver; -p PORT its port [12865]; -4, -6
  -L ADDRESS        address of this end
  -l SECONDS        length [10]; -N: N bytes or transactions; 0: until Ctrl-C
  -D SECONDS        interim results
  -f UNIT           unit of the rate: b k m g, B K M G, x
  -P 0              no lines above the result; -v 0: only the figure
  -c, -C            measure the CPUs here, and at the server
  -j                keep the times of single transactions
  -F FILE[,FILE]    fill the blocks here, and at the server
  -T CPU,CPU        run on these CPUs here, and at the server
  -Y CLASS,CLASS    traffic classes, such as 0xb8
  -B WORD           word after the result
  -s SECONDS        wait before the data; -S: SO_KEEPALIVE
  -h, -V            help, version

Options of the test:
  -k, -o, -O [NAME,...]  these figures as NAME=value lines, with commas, as a table (-k ?: which)
  -m SIZE[,SIZE]    bytes of a sending call here, and at the server
  -M SIZE[,SIZE]    bytes of a receiving call at the server, and here
  -s SIZE,SIZE      buffers of the socket here, to send and to receive; -S: at the server
  -r SIZE,SIZE      bytes of a request and of its response [1,1]; -b N: more of them under way
  -K NAME,NAME      congestion control here, and at the server
  -D, -G BYTES      TCP_NODELAY; largest segment
  -q BYTES          pacing, bytes/s
  -e SECONDS        UDP_RR: ask again after this time
  -H HOST, -L ADDRESS, -P PORT,PORT  ends of the data
  -R 1              UDP_STREAM: datagrams may pass a router

Of two values, the first is for this end; one value is for both with -r -s -S -K -P -T -Y.
";

#[cfg(test)]
mod tests;
