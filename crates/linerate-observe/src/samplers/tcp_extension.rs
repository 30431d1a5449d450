//! TCP of the network namespace: the standard counters of `/proc/net/snmp` (RFC 4022) and the
//! extensions of `/proc/net/netstat` about loss, retransmission, windows, memory and
//! overflow (networking/snmp_counter). Counts of segments or events; `segments` of GSO
//! super-packets are counted singly.
//!
//! Everything in the namespace is counted, the control connection included. Not seen: which
//! connection.

use linerate_model::SeriesSpec;
use linerate_model::series::tcp_extension as tcp;

use crate::kernel_text::KernelText;
use crate::snmp::{Layout, Wanted};
use crate::{Probe, Sampler, Scope, Unavailable};

const STANDARD: &[Wanted] = &[
    ("Tcp", "ActiveOpens", tcp::ACTIVE_OPENS),
    ("Tcp", "PassiveOpens", tcp::PASSIVE_OPENS),
    ("Tcp", "AttemptFails", tcp::ATTEMPT_FAILS),
    ("Tcp", "EstabResets", tcp::ESTAB_RESETS),
    ("Tcp", "InSegs", tcp::IN_SEGS),
    ("Tcp", "OutSegs", tcp::OUT_SEGS),
    ("Tcp", "RetransSegs", tcp::RETRANS_SEGS),
    ("Tcp", "InErrs", tcp::IN_ERRS),
    ("Tcp", "OutRsts", tcp::OUT_RSTS),
    ("Tcp", "InCsumErrors", tcp::IN_CSUM_ERRORS),
];

const EXTENSION: &[Wanted] = &[
    ("TcpExt", "PruneCalled", tcp::PRUNE_CALLED),
    ("TcpExt", "RcvPruned", tcp::RCV_PRUNED),
    ("TcpExt", "OfoPruned", tcp::OFO_PRUNED),
    ("TcpExt", "TW", tcp::TIME_WAIT),
    ("TcpExt", "DelayedACKs", tcp::DELAYED_ACKS),
    ("TcpExt", "ListenOverflows", tcp::LISTEN_OVERFLOWS),
    ("TcpExt", "ListenDrops", tcp::LISTEN_DROPS),
    ("TcpExt", "TCPSackRecovery", tcp::SACK_RECOVERY),
    ("TcpExt", "TCPRenoRecovery", tcp::RENO_RECOVERY),
    ("TcpExt", "TCPSACKReorder", tcp::SACK_REORDER),
    ("TcpExt", "TCPTSReorder", tcp::TS_REORDER),
    ("TcpExt", "TCPDSACKUndo", tcp::DSACK_UNDO),
    ("TcpExt", "TCPLossUndo", tcp::LOSS_UNDO),
    ("TcpExt", "TCPLostRetransmit", tcp::LOST_RETRANSMIT),
    ("TcpExt", "TCPFastRetrans", tcp::FAST_RETRANS),
    ("TcpExt", "TCPSlowStartRetrans", tcp::SLOW_START_RETRANS),
    ("TcpExt", "TCPTimeouts", tcp::TIMEOUTS),
    ("TcpExt", "TCPLossProbes", tcp::LOSS_PROBES),
    ("TcpExt", "TCPLossProbeRecovery", tcp::LOSS_PROBE_RECOVERY),
    ("TcpExt", "TCPRcvCollapsed", tcp::RCV_COLLAPSED),
    ("TcpExt", "TCPBacklogCoalesce", tcp::BACKLOG_COALESCE),
    ("TcpExt", "TCPDSACKRecv", tcp::DSACK_RECV),
    ("TcpExt", "TCPMemoryPressures", tcp::MEMORY_PRESSURES),
    ("TcpExt", "TCPSpuriousRTOs", tcp::SPURIOUS_RTOS),
    ("TcpExt", "TCPBacklogDrop", tcp::BACKLOG_DROP),
    ("TcpExt", "TCPTimeWaitOverflow", tcp::TIME_WAIT_OVERFLOW),
    ("TcpExt", "TCPReqQFullDrop", tcp::REQUEST_QUEUE_FULL_DROP),
    ("TcpExt", "TCPRetransFail", tcp::RETRANS_FAIL),
    ("TcpExt", "TCPRcvCoalesce", tcp::RCV_COALESCE),
    ("TcpExt", "TCPOFOQueue", tcp::OFO_QUEUE),
    ("TcpExt", "TCPOFODrop", tcp::OFO_DROP),
    ("TcpExt", "TCPSpuriousRtxHostQueues", tcp::SPURIOUS_RTX_HOST_QUEUES),
    ("TcpExt", "BusyPollRxPackets", tcp::BUSY_POLL_RX_PACKETS),
    ("TcpExt", "TCPAutoCorking", tcp::AUTO_CORKING),
    ("TcpExt", "TCPFromZeroWindowAdv", tcp::FROM_ZERO_WINDOW_ADV),
    ("TcpExt", "TCPToZeroWindowAdv", tcp::TO_ZERO_WINDOW_ADV),
    ("TcpExt", "TCPWantZeroWindowAdv", tcp::WANT_ZERO_WINDOW_ADV),
    ("TcpExt", "TCPSynRetrans", tcp::SYN_RETRANS),
    ("TcpExt", "TCPOrigDataSent", tcp::ORIG_DATA_SENT),
    ("TcpExt", "TCPHystartTrainDetect", tcp::HYSTART_TRAIN_DETECT),
    ("TcpExt", "TCPHystartDelayDetect", tcp::HYSTART_DELAY_DETECT),
    ("TcpExt", "TCPWinProbe", tcp::WIN_PROBE),
    ("TcpExt", "TCPKeepAlive", tcp::KEEP_ALIVE),
    ("TcpExt", "TCPDelivered", tcp::DELIVERED),
    ("TcpExt", "TCPDeliveredCE", tcp::DELIVERED_CE),
    ("TcpExt", "TCPAckCompressed", tcp::ACK_COMPRESSED),
    ("TcpExt", "TCPZeroWindowDrop", tcp::ZERO_WINDOW_DROP),
    ("TcpExt", "TCPRcvQDrop", tcp::RCV_QUEUE_DROP),
    ("TcpExt", "TCPWqueueTooBig", tcp::WRITE_QUEUE_TOO_BIG),
];

/// TCP counters.
pub(super) const SAMPLER: Sampler = Sampler {
    name: tcp::SAMPLER.text(),
    summary: "TCP segments, retransmissions, recoveries, windows and overflows of the namespace \
        from /proc/net/snmp and netstat, counts; not which connection",
    open,
};

fn open(_scope: &Scope) -> Result<Box<dyn Probe>, Unavailable> {
    let tables = [("snmp", STANDARD), ("netstat", EXTENSION)];
    let tables = tables
        .into_iter()
        .map(|(file, wanted): (&str, &[Wanted])| {
            let mut text = KernelText::open(&format!("/proc/thread-self/net/{file}"))?;
            // Kernels differ in counters and their order, so positions are found once in this
            // kernel's own text.
            let layout = text.read().map(|text| Layout::new(text, wanted)).unwrap_or_default();
            Ok((text, layout))
        })
        .collect::<Result<Vec<_>, Unavailable>>()?;
    // One of the two tables is enough.
    if tables.iter().all(|(_, layout)| layout.found.is_empty()) {
        return Err(Unavailable(
            "/proc/net/snmp and /proc/net/netstat have no table `Tcp`".to_owned(),
        ));
    }
    Ok(Box::new(Reader { tables }))
}

struct Reader {
    tables: Vec<(KernelText, Layout)>,
}

impl Probe for Reader {
    fn series(&self) -> Vec<SeriesSpec> {
        let found = self.tables.iter().flat_map(|(_, layout)| &layout.found);
        found.map(|(_, _, column)| column.of("")).collect()
    }

    fn read(&mut self, row: &mut [Option<f64>]) {
        let mut row = row;
        for (text, layout) in &mut self.tables {
            let (own, rest) = row.split_at_mut(layout.found.len());
            if let Some(text) = text.read() {
                layout.read(text, own);
            }
            row = rest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &[u8], wanted: &[Wanted], name: &str) -> Option<f64> {
        let layout = Layout::new(text, wanted);
        let mut row = vec![None; layout.found.len()];
        layout.read(text, &mut row);
        row[layout.found.iter().position(|found| found.2.name == name)?]
    }

    #[test]
    fn counters_of_a_recent_kernel_are_all_there() {
        let snmp = include_bytes!("../../fixtures/snmp-6.18");
        assert_eq!(value(snmp, STANDARD, "in_segs"), Some(5883.0));
        assert_eq!(value(snmp, STANDARD, "retrans_segs"), Some(0.0));
        let netstat = include_bytes!("../../fixtures/netstat-6.18");
        assert_eq!(value(netstat, EXTENSION, "delivered"), Some(599.0));
        assert_eq!(value(netstat, EXTENSION, "time_wait"), Some(12.0));
        assert_eq!(Layout::new(netstat, EXTENSION).found.len(), EXTENSION.len());
    }

    #[test]
    fn an_older_kernel_has_fewer_columns_in_other_places() {
        let netstat = include_bytes!("../../fixtures/netstat-3.10");
        assert_eq!(value(netstat, EXTENSION, "timeouts"), Some(7.0));
        assert_eq!(value(netstat, EXTENSION, "delivered"), None);
    }
}
