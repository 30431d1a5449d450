//! UDP and what IP did with packets before it, in the network namespace, over IPv4
//! (`/proc/net/snmp`, `/proc/net/netstat`) and IPv6 (`/proc/net/snmp6`), RFC 4113 and RFC 4293;
//! instance `ipv4` or `ipv6`. Most counters count socket buffers: a coalesced message (GRO) is one,
//! measured on Linux 6.18 with 200 messages of 64 datagrams. The four `ip_in_*ect*` and `ip_in_ce`
//! count datagrams.
//!
//! `rcvbuf_errors` and `in_csum_errors` are part of `in_errors`. Packets that IP received and
//! neither delivered, forwarded nor rejected were dropped by a packet filter. Everything in the
//! namespace is counted. Not seen: which socket.

use linerate_model::SeriesSpec;
use linerate_model::series::udp;

use crate::kernel_text::{KernelText, decimal, lines, words};
use crate::snmp::{Layout, Wanted, has};
use crate::{Probe, Sampler, Scope, Unavailable};

const WANTED: &[Wanted] = &[
    ("Udp", "InDatagrams", udp::IN_DATAGRAMS),
    ("Udp", "NoPorts", udp::NO_PORTS),
    ("Udp", "InErrors", udp::IN_ERRORS),
    ("Udp", "OutDatagrams", udp::OUT_DATAGRAMS),
    ("Udp", "RcvbufErrors", udp::RCVBUF_ERRORS),
    ("Udp", "SndbufErrors", udp::SNDBUF_ERRORS),
    ("Udp", "InCsumErrors", udp::IN_CSUM_ERRORS),
    ("Udp", "MemErrors", udp::MEM_ERRORS),
    ("Ip", "InReceives", udp::IP_IN_RECEIVES),
    ("Ip", "InHdrErrors", udp::IP_IN_HEADER_ERRORS),
    ("Ip", "InAddrErrors", udp::IP_IN_ADDRESS_ERRORS),
    ("Ip", "ForwDatagrams", udp::IP_FORWARDED),
    ("Ip", "InUnknownProtos", udp::IP_IN_UNKNOWN_PROTOCOLS),
    ("Ip", "InDiscards", udp::IP_IN_DISCARDS),
    ("Ip", "InDelivers", udp::IP_IN_DELIVERS),
    ("Ip", "OutRequests", udp::IP_OUT_REQUESTS),
    ("Ip", "ReasmReqds", udp::IP_FRAGMENTS),
    ("Ip", "ReasmFails", udp::IP_REASSEMBLY_FAILURES),
];

/// The counters of `/proc/net/netstat`; over IPv6 they are in the same file as the others.
const EXTENDED: &[Wanted] = &[
    ("IpExt", "InNoRoutes", udp::IP_IN_NO_ROUTES),
    ("IpExt", "InTruncatedPkts", udp::IP_IN_TRUNCATED),
    ("IpExt", "InMcastPkts", udp::IP_IN_MULTICAST),
    ("IpExt", "InNoECTPkts", udp::IP_IN_NOT_ECT),
    ("IpExt", "InECT1Pkts", udp::IP_IN_ECT1),
    ("IpExt", "InECT0Pkts", udp::IP_IN_ECT0),
    ("IpExt", "InCEPkts", udp::IP_IN_CE),
];

/// UDP counters.
pub(super) const SAMPLER: Sampler = Sampler {
    name: udp::SAMPLER.text(),
    summary: "UDP datagrams, errors and buffer overflows of the namespace, and packets IP \
        received, delivered and sent, IPv4 and IPv6, from /proc/net/snmp, netstat and snmp6, \
        counts; not which socket",
    open,
};

fn open(_scope: &Scope) -> Result<Box<dyn Probe>, Unavailable> {
    let mut ipv4 = KernelText::open("/proc/thread-self/net/snmp")?;
    let layout = ipv4.read().map(|text| Layout::new(text, WANTED)).unwrap_or_default();
    if layout.found.is_empty() {
        return Err(Unavailable("/proc/net/snmp has no table `Udp`".to_owned()));
    }
    // A host without IPv6 has no such file, and no such datagrams.
    let mut ipv6 = KernelText::open("/proc/thread-self/net/snmp6").ok();
    let found6 = ipv6.as_mut().and_then(KernelText::read).map(find_ipv6).unwrap_or_default();
    let mut netstat = KernelText::open("/proc/thread-self/net/netstat").ok();
    let extended =
        netstat.as_mut().and_then(KernelText::read).map(|text| Layout::new(text, EXTENDED));
    Ok(Box::new(Reader {
        ipv4,
        layout,
        netstat,
        extended: extended.unwrap_or_default(),
        ipv6,
        found6,
    }))
}

struct Reader {
    ipv4: KernelText,
    layout: Layout,
    netstat: Option<KernelText>,
    extended: Layout,
    ipv6: Option<KernelText>,
    /// The counters `snmp6` has, by line: `Udp6InDatagrams` is `InDatagrams` here.
    found6: Vec<Wanted>,
}

impl Probe for Reader {
    fn series(&self) -> Vec<SeriesSpec> {
        let of = |found: &[Wanted], instance: &str| -> Vec<SeriesSpec> {
            found.iter().map(|(_, _, column)| column.of(instance)).collect()
        };
        [of(&self.layout.found, "ipv4"), of(&self.extended.found, "ipv4"), of(&self.found6, "ipv6")]
            .concat()
    }

    fn read(&mut self, row: &mut [Option<f64>]) {
        // Columns follow the order of `series`: both IPv4 files, then IPv6.
        let (row4, row6) = row.split_at_mut(self.layout.found.len() + self.extended.found.len());
        let (standard, extended) = row4.split_at_mut(self.layout.found.len());
        if let Some(text) = self.ipv4.read() {
            self.layout.read(text, standard);
        }
        if let Some(text) = self.netstat.as_mut().and_then(KernelText::read) {
            self.extended.read(text, extended);
        }
        if let Some(text) = self.ipv6.as_mut().and_then(KernelText::read) {
            parse_ipv6(text, &self.found6, row6);
        }
    }
}

/// Returns true if a line of `snmp6` called `name` is `wanted`. That file has its own name for
/// packets forwarded.
fn is_ipv6_of(wanted: &Wanted, name: &[u8]) -> bool {
    let (prefix, counter) = match *wanted {
        ("Udp", counter, _) => ("Udp6", counter),
        (_, "ForwDatagrams", _) => ("Ip6", "OutForwDatagrams"),
        (_, counter, _) => ("Ip6", counter),
    };
    name.strip_prefix(prefix.as_bytes()) == Some(counter.as_bytes())
}

fn find_ipv6(text: &[u8]) -> Vec<Wanted> {
    let mut found: Vec<Wanted> = Vec::new();
    for name in lines(text).filter_map(|line| words(line).next()) {
        let wanted = WANTED.iter().chain(EXTENDED).find(|wanted| is_ipv6_of(wanted, name));
        // A repeated name is the same column. Without this check, reading a hostile text took time
        // with the square of its length.
        if let Some(wanted) = wanted.filter(|wanted| !has(&found, wanted)) {
            found.push(*wanted);
        }
    }
    found
}

fn parse_ipv6(text: &[u8], found: &[Wanted], row: &mut [Option<f64>]) {
    for line in lines(text) {
        let mut words = words(line);
        let Some(name) = words.next() else { continue };
        if let Some(at) = found.iter().position(|wanted| is_ipv6_of(wanted, name)) {
            row[at] = words.next().and_then(decimal).map(|value| value as f64);
        }
    }
}

/// Reads `text`, which may be anything, after looking for this kernel's own layout in it.
pub(super) fn read_any(text: &[u8]) -> Vec<Option<f64>> {
    let layout = Layout::new(text, WANTED);
    let found6 = find_ipv6(text);
    let mut row = vec![None; layout.found.len() + found6.len()];
    let (row4, row6) = row.split_at_mut(layout.found.len());
    layout.read(text, row4);
    parse_ipv6(text, &found6, row6);
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_counter_is_one_column() {
        let found = find_ipv6(b"Udp6InDatagrams 1\nUdp6NoPorts 2\nUdp6InDatagrams 3\n");
        assert_eq!(
            found.iter().map(|wanted| wanted.1).collect::<Vec<_>>(),
            ["InDatagrams", "NoPorts"]
        );
    }

    #[test]
    fn both_families_are_read() {
        let text = include_bytes!("../../fixtures/snmp-6.18");
        let layout = Layout::new(text, WANTED);
        let mut row = vec![None; layout.found.len()];
        layout.read(text, &mut row);
        let read = |name: &str| {
            layout.found.iter().position(|wanted| wanted.2.name == name).and_then(|at| row[at])
        };
        assert_eq!((read("in_datagrams"), read("out_datagrams")), (Some(37.0), Some(38.0)));
        assert!(read("ip_in_receives").is_some() && read("ip_in_delivers").is_some());
        let extended = Layout::new(include_bytes!("../../fixtures/netstat-6.18"), EXTENDED);
        assert_eq!(extended.found.len(), EXTENDED.len());
        let text = include_bytes!("../../fixtures/snmp6-6.18");
        let found = find_ipv6(text);
        assert_eq!(found.len(), WANTED.len() + EXTENDED.len());
        let mut row = vec![None; found.len()];
        parse_ipv6(text, &found, &mut row);
        assert!(row.iter().all(Option::is_some));
    }

    proptest::proptest! {
        #[test]
        fn hostile_text_never_panics(text in "((Udp6)?(InDatagrams|x)? [0-9a-z]{0,25}\n?){0,5}") {
            let found = find_ipv6(text.as_bytes());
            parse_ipv6(b"Udp6InDatagrams 7", &found, &mut vec![None; found.len()]);
            parse_ipv6(text.as_bytes(), WANTED, &mut [None; 8]);
        }
    }
}
