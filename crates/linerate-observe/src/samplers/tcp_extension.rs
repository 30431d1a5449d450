//! TCP of the network namespace: the standard counters of `/proc/net/snmp` (RFC 4022) and the extensions of
//! `/proc/net/netstat` that tell of loss, retransmission, windows, memory and overflow (networking/snmp_counter). Counts
//! of segments or events; `segments` of GSO super-packets are counted singly.
//!
//! Everything in the namespace is counted, the control connection included. Not seen: which connection.

use linerate_model::{SeriesSpec, Unit};

use crate::kernel_text::KernelText;
use crate::sampler::counter;
use crate::snmp::{Layout, Wanted};
use crate::{Probe, Sampler, Scope, Unavailable};

const NAME: &str = "tcp_extension";

const STANDARD: &[Wanted] = &[
    ("Tcp", "ActiveOpens", "active_opens"),
    ("Tcp", "PassiveOpens", "passive_opens"),
    ("Tcp", "AttemptFails", "attempt_fails"),
    ("Tcp", "EstabResets", "estab_resets"),
    ("Tcp", "InSegs", "in_segs"),
    ("Tcp", "OutSegs", "out_segs"),
    ("Tcp", "RetransSegs", "retrans_segs"),
    ("Tcp", "InErrs", "in_errs"),
    ("Tcp", "OutRsts", "out_rsts"),
    ("Tcp", "InCsumErrors", "in_csum_errors"),
];

const EXTENSION: &[Wanted] = &[
    ("TcpExt", "PruneCalled", "prune_called"),
    ("TcpExt", "RcvPruned", "rcv_pruned"),
    ("TcpExt", "OfoPruned", "ofo_pruned"),
    ("TcpExt", "TW", "time_wait"),
    ("TcpExt", "DelayedACKs", "delayed_acks"),
    ("TcpExt", "ListenOverflows", "listen_overflows"),
    ("TcpExt", "ListenDrops", "listen_drops"),
    ("TcpExt", "TCPSackRecovery", "sack_recovery"),
    ("TcpExt", "TCPRenoRecovery", "reno_recovery"),
    ("TcpExt", "TCPSACKReorder", "sack_reorder"),
    ("TcpExt", "TCPTSReorder", "ts_reorder"),
    ("TcpExt", "TCPDSACKUndo", "dsack_undo"),
    ("TcpExt", "TCPLossUndo", "loss_undo"),
    ("TcpExt", "TCPLostRetransmit", "lost_retransmit"),
    ("TcpExt", "TCPFastRetrans", "fast_retrans"),
    ("TcpExt", "TCPSlowStartRetrans", "slow_start_retrans"),
    ("TcpExt", "TCPTimeouts", "timeouts"),
    ("TcpExt", "TCPLossProbes", "loss_probes"),
    ("TcpExt", "TCPLossProbeRecovery", "loss_probe_recovery"),
    ("TcpExt", "TCPRcvCollapsed", "rcv_collapsed"),
    ("TcpExt", "TCPBacklogCoalesce", "backlog_coalesce"),
    ("TcpExt", "TCPDSACKRecv", "dsack_recv"),
    ("TcpExt", "TCPMemoryPressures", "memory_pressures"),
    ("TcpExt", "TCPSpuriousRTOs", "spurious_rtos"),
    ("TcpExt", "TCPBacklogDrop", "backlog_drop"),
    ("TcpExt", "TCPTimeWaitOverflow", "time_wait_overflow"),
    ("TcpExt", "TCPReqQFullDrop", "request_queue_full_drop"),
    ("TcpExt", "TCPRetransFail", "retrans_fail"),
    ("TcpExt", "TCPRcvCoalesce", "rcv_coalesce"),
    ("TcpExt", "TCPOFOQueue", "ofo_queue"),
    ("TcpExt", "TCPOFODrop", "ofo_drop"),
    ("TcpExt", "TCPSpuriousRtxHostQueues", "spurious_rtx_host_queues"),
    ("TcpExt", "BusyPollRxPackets", "busy_poll_rx_packets"),
    ("TcpExt", "TCPAutoCorking", "auto_corking"),
    ("TcpExt", "TCPFromZeroWindowAdv", "from_zero_window_adv"),
    ("TcpExt", "TCPToZeroWindowAdv", "to_zero_window_adv"),
    ("TcpExt", "TCPWantZeroWindowAdv", "want_zero_window_adv"),
    ("TcpExt", "TCPSynRetrans", "syn_retrans"),
    ("TcpExt", "TCPOrigDataSent", "orig_data_sent"),
    ("TcpExt", "TCPHystartTrainDetect", "hystart_train_detect"),
    ("TcpExt", "TCPHystartDelayDetect", "hystart_delay_detect"),
    ("TcpExt", "TCPWinProbe", "win_probe"),
    ("TcpExt", "TCPKeepAlive", "keep_alive"),
    ("TcpExt", "TCPDelivered", "delivered"),
    ("TcpExt", "TCPDeliveredCE", "delivered_ce"),
    ("TcpExt", "TCPAckCompressed", "ack_compressed"),
    ("TcpExt", "TCPZeroWindowDrop", "zero_window_drop"),
    ("TcpExt", "TCPRcvQDrop", "rcv_queue_drop"),
    ("TcpExt", "TCPWqueueTooBig", "write_queue_too_big"),
];

/// TCP counters.
#[derive(Debug)]
pub(super) struct TcpExtension;

impl Sampler for TcpExtension {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "TCP segments, retransmissions, recoveries, windows and overflows of the namespace from /proc/net/snmp and netstat, counts; not which connection"
    }

    fn open(&self, _scope: &Scope) -> Result<Box<dyn Probe>, Unavailable> {
        let tables = [("snmp", STANDARD), ("netstat", EXTENSION)];
        let open = |(file, wanted): (&str, &[Wanted])| {
            let mut text = KernelText::open(&format!("/proc/thread-self/net/{file}"))?;
            let layout = text.read().map(|text| Layout::new(text, wanted)).unwrap_or_default();
            Ok((text, layout))
        };
        let tables = tables.into_iter().map(open).collect::<Result<Vec<_>, Unavailable>>()?;
        if tables.iter().all(|(_, layout)| layout.found.is_empty()) {
            return Err(Unavailable("/proc/net/snmp and /proc/net/netstat have no table `Tcp`".to_owned()));
        }
        Ok(Box::new(Reader { tables }))
    }
}

struct Reader {
    tables: Vec<(KernelText, Layout)>,
}

impl Probe for Reader {
    fn series(&self) -> Vec<SeriesSpec> {
        let found = self.tables.iter().flat_map(|(_, layout)| &layout.found);
        found.map(|(_, _, name)| counter(NAME, name, "", Unit::Count)).collect()
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
        row[layout.found.iter().position(|found| found.2 == name)?]
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
