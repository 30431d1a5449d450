//! Series that samplers read: the only place that spells their names.
//!
//! Each sampler is a module and each of its columns a constant,
//! `series::tcp_extension::RETRANS_SEGS`. A new column is one name here and the code that reads it.
//! Columns that a driver names by itself (`ethtool`) are not listed.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use crate::{SeriesKind, Unit};

/// Reader of series: a sampler, an observer, or the devices of a lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SamplerName(&'static str);

/// The sampler of the counters that a driver names itself.
pub const ETHTOOL: SamplerName = SamplerName("ethtool");

impl SamplerName {
    /// Returns the name in ledgers and reports.
    #[must_use]
    pub const fn text(self) -> &'static str {
        self.0
    }
}

/// Returns the counter that the driver of `device` calls `name`. Every other column is a constant
/// of this module.
#[must_use]
pub fn of_driver(name: &str, device: &str) -> SeriesSpec {
    let (sampler, unit) = (ETHTOOL.0.to_owned(), Unit::Count.symbol().to_owned());
    let (name, kind) = (name.to_owned(), SeriesKind::Counter);
    let column = Column::Other { sampler, name, unit, kind };
    SeriesSpec { column, instance: device.to_owned() }
}

/// Column of a sampler; there is one for each thing that the sampler reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Series {
    /// Sampler that reads it.
    pub sampler: SamplerName,
    /// Its own name.
    pub name: &'static str,
    /// Unit of its readings.
    pub unit: Unit,
    /// Counter or gauge.
    pub kind: SeriesKind,
}

impl Series {
    /// Returns the column for `instance`: a CPU, a device, a vector; empty for the host.
    #[must_use]
    pub fn of(self, instance: &str) -> SeriesSpec {
        SeriesSpec { column: Column::Declared(self), instance: instance.to_owned() }
    }

    /// Returns true if `recorded` is this column, of any instance.
    #[must_use]
    pub fn is(self, recorded: &SeriesSpec) -> bool {
        // The unit is left out of the comparison: old ledgers may have recorded another one for the
        // same column.
        recorded.is_of(self.sampler) && recorded.name() == self.name
    }
}

/// Identity of a recorded series: the column, and the thing that was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "WrittenSeries", into = "WrittenSeries")]
pub struct SeriesSpec {
    column: Column,
    /// The thing: `cpu3`, `eth0`, a vector; empty for the host.
    pub instance: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Column {
    /// A column of this module.
    Declared(Series),
    /// A column that a driver, a switch or another version of linerate named.
    Other { sampler: String, name: String, unit: String, kind: SeriesKind },
}

impl SeriesSpec {
    /// Returns true if `sampler` read it.
    #[must_use]
    pub fn is_of(&self, sampler: SamplerName) -> bool {
        self.sampler() == sampler.0
    }

    /// Returns the sampler's name.
    #[must_use]
    pub fn sampler(&self) -> &str {
        match &self.column {
            Column::Declared(series) => series.sampler.0,
            Column::Other { sampler, .. } => sampler,
        }
    }

    /// Returns the column's name: `softirq`, `rx_packets`, `retrans_segs`, ...
    #[must_use]
    pub fn name(&self) -> &str {
        match &self.column {
            Column::Declared(series) => series.name,
            Column::Other { name, .. } => name,
        }
    }

    /// Returns the symbol of a [`Unit`], such as `ns`, `1` or `B`.
    #[must_use]
    pub fn unit(&self) -> &str {
        match &self.column {
            Column::Declared(series) => series.unit.symbol(),
            Column::Other { unit, .. } => unit,
        }
    }

    /// Returns whether it is a counter or a gauge.
    #[must_use]
    pub const fn kind(&self) -> SeriesKind {
        match &self.column {
            Column::Declared(series) => series.kind,
            Column::Other { kind, .. } => *kind,
        }
    }
}

/// Series as ledgers and messages contain it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the methods of `SeriesSpec` describe each field")]
pub struct WrittenSeries {
    pub sampler: String,
    pub name: String,
    pub instance: String,
    pub unit: String,
    pub kind: SeriesKind,
}

/// Every column of [`ALL`] by its sampler and name: a ledger names some hundred columns for each
/// trial.
static BY_NAME: LazyLock<HashMap<(&str, &str), Series>> = LazyLock::new(|| {
    ALL.iter().copied().flatten().map(|column| ((column.sampler.0, column.name), *column)).collect()
});

impl From<WrittenSeries> for SeriesSpec {
    fn from(written: WrittenSeries) -> Self {
        let WrittenSeries { sampler, name, instance, unit, kind } = written;
        let declared = BY_NAME.get(&(sampler.as_str(), name.as_str())).copied();
        // Another version may have read the same column in another unit: it keeps its own.
        let declared = declared.filter(|known| known.unit.symbol() == unit && known.kind == kind);
        let column = declared.map_or(Column::Other { sampler, name, unit, kind }, Column::Declared);
        Self { column, instance }
    }
}

impl From<SeriesSpec> for WrittenSeries {
    fn from(series: SeriesSpec) -> Self {
        Self {
            sampler: series.sampler().to_owned(),
            name: series.name().to_owned(),
            unit: series.unit().to_owned(),
            kind: series.kind(),
            instance: series.instance,
        }
    }
}

/// Returns true if `recorded` is one of `columns`.
#[must_use]
pub fn any(columns: &[Series], recorded: &SeriesSpec) -> bool {
    columns.iter().any(|column| column.is(recorded))
}

/// Declares a module for each sampler, with a constant for each column.
macro_rules! samplers {
    ($($sampler:ident { $($kind:ident $unit:ident: $($constant:ident $name:literal)+;)+ })+) => {
        $(
            /// Columns of the sampler of this name.
            pub mod $sampler {
                use super::{SamplerName, Series};

                /// The sampler.
                pub const SAMPLER: SamplerName = SamplerName(stringify!($sampler));
                $($(
                    #[doc = concat!("`", $name, "`")]
                    pub const $constant: Series = super::$kind(SAMPLER, $name, crate::Unit::$unit);
                )+)+
                /// Every column, in the order in which it is read.
                pub const ALL: &[Series] = &[$($($constant),+),+];
            }
        )+

        /// Every column of every sampler.
        pub const ALL: &[&[Series]] = &[$($sampler::ALL),+];
    };
}

const fn counter(sampler: SamplerName, name: &'static str, unit: Unit) -> Series {
    Series { sampler, name, unit, kind: SeriesKind::Counter }
}

const fn gauge(sampler: SamplerName, name: &'static str, unit: Unit) -> Series {
    Series { sampler, name, unit, kind: SeriesKind::Gauge }
}

samplers! {
    cgroup {
        counter Count: PERIODS "periods" THROTTLED "throttled";
    }
    context_switches {
        counter Count: SWITCHES "switches";
    }
    cpu {
        counter Nanosecond: USER "user" NICE "nice" SYSTEM "system" IDLE "idle" IOWAIT "iowait"
            IRQ "irq"
            SOFTIRQ "softirq" STEAL "steal";
    }
    // Frames at a device under test of a lab, by class and fate.
    device {
        counter Count: DATAGRAMS_RECEIVED "datagrams_received"
            DATAGRAMS_FORWARDED "datagrams_forwarded"
            DATAGRAMS_DROPPED_FULL "datagrams_dropped_full"
            DATAGRAMS_DROPPED_BY_ORDER "datagrams_dropped_by_order"
            DATAGRAMS_DROPPED_AT_RANDOM "datagrams_dropped_at_random"
            DATAGRAMS_DUPLICATED "datagrams_duplicated"
            DATAGRAMS_COPY_DROPPED "datagrams_copy_dropped"
            DATAGRAMS_OVERTAKEN "datagrams_overtaken"
            DATAGRAMS_REFLECTED "datagrams_reflected" OTHERS_RECEIVED "others_received"
            OTHERS_FORWARDED "others_forwarded" OTHERS_DROPPED_FULL "others_dropped_full"
            OTHERS_DROPPED_BY_ORDER "others_dropped_by_order"
            OTHERS_DROPPED_AT_RANDOM "others_dropped_at_random"
            OTHERS_DUPLICATED "others_duplicated" OTHERS_COPY_DROPPED "others_copy_dropped"
            OTHERS_OVERTAKEN "others_overtaken" OTHERS_REFLECTED "others_reflected";
    }
    disk {
        counter Count: READS "reads" READS_MERGED "reads_merged";
        counter Byte: BYTES_READ "bytes_read";
        counter Count: WRITES "writes" WRITES_MERGED "writes_merged";
        counter Byte: BYTES_WRITTEN "bytes_written";
        gauge Count: IN_FLIGHT "in_flight";
        counter Second: BUSY "busy" QUEUED "queued";
    }
    // Limits of a disk's queue, and of this process's control group on that disk.
    disk_limits {
        gauge Count: REQUESTS "requests" QUEUES "queues";
        gauge BytePerSecond: READ_BYTES "read_bytes" WRITE_BYTES "write_bytes";
        gauge PerSecond: READS "reads" WRITES "writes";
    }
    frequency {
        gauge Hertz: FREQUENCY "frequency";
    }
    interface {
        counter Count: COLLISIONS "collisions" MULTICAST "multicast";
        counter Byte: RX_BYTES "rx_bytes";
        counter Count: RX_CRC "rx_crc" RX_DROPPED "rx_dropped" RX_ERRORS "rx_errors"
            RX_FIFO "rx_fifo"
            RX_FRAME "rx_frame" RX_LENGTH "rx_length" RX_MISSED "rx_missed"
            RX_OVER "rx_over" RX_PACKETS "rx_packets";
        counter Byte: TX_BYTES "tx_bytes";
        counter Count: TX_CARRIER "tx_carrier" TX_DROPPED "tx_dropped"
            TX_ERRORS "tx_errors" TX_FIFO "tx_fifo"
            TX_PACKETS "tx_packets";
    }
    interrupts {
        counter Count: TOTAL "total" COUNT "count" SOFTIRQ_NET_RX "softirq_net_rx"
            SOFTIRQ_NET_TX "softirq_net_tx";
    }
    memory {
        gauge Byte: AVAILABLE "available" DIRTY "dirty" WRITEBACK "writeback";
    }
    ncsi {
        counter Count: PASS_THROUGH_RECEIVED "pass_through_received"
            PASS_THROUGH_DROPPED "pass_through_dropped"
            PASS_THROUGH_REFUSED "pass_through_refused" PASS_THROUGH_SENT "pass_through_sent"
            PASS_THROUGH_SENT_DROPPED "pass_through_sent_dropped"
            PASS_THROUGH_SENT_REFUSED "pass_through_sent_refused";
        gauge Byte: RECEIVE_BUFFER "receive_buffer";
    }
    // A port that a switch or a kernel counts beside the load. Octets are of L2; discards and
    // errors are frames that were dropped; resets say how often the counters began anew.
    observer {
        counter Byte: IN_OCTETS "in_octets";
        counter Count: IN_PACKETS "in_packets" IN_DISCARDS "in_discards" IN_ERRORS "in_errors";
        counter Byte: OUT_OCTETS "out_octets";
        counter Count: OUT_PACKETS "out_packets" OUT_DISCARDS "out_discards" OUT_ERRORS "out_errors"
            RESETS "resets";
    }
    perf_hardware {
        counter Count: CYCLES "cycles" INSTRUCTIONS "instructions" CACHE_MISSES "cache_misses"
            L1_DATA_MISSES "l1_data_misses";
    }
    perf_software {
        counter Nanosecond: CPU_CLOCK "cpu_clock";
        counter Count: CONTEXT_SWITCHES "context_switches" MIGRATIONS "migrations"
            PAGE_FAULTS "page_faults";
    }
    pressure {
        counter Nanosecond: FULL "full" SOME "some";
    }
    qdisc {
        counter Byte: BYTES "bytes";
        counter Count: PACKETS "packets" DROPS "drops" REQUEUES "requeues" OVERLIMITS "overlimits";
        gauge Byte: BACKLOG "backlog";
        gauge Count: QUEUE_LENGTH "queue_length";
    }
    softnet {
        counter Count: PROCESSED "processed" DROPPED "dropped" SQUEEZED "squeezed";
    }
    swap {
        counter Count: PAGES_IN "pages_in" PAGES_OUT "pages_out";
    }
    tcp_extension {
        counter Count: ACTIVE_OPENS "active_opens" PASSIVE_OPENS "passive_opens"
            ATTEMPT_FAILS "attempt_fails"
            ESTAB_RESETS "estab_resets" IN_SEGS "in_segs" OUT_SEGS "out_segs"
            RETRANS_SEGS "retrans_segs"
            IN_ERRS "in_errs" OUT_RSTS "out_rsts" IN_CSUM_ERRORS "in_csum_errors"
            PRUNE_CALLED "prune_called"
            RCV_PRUNED "rcv_pruned" OFO_PRUNED "ofo_pruned" TIME_WAIT "time_wait"
            DELAYED_ACKS "delayed_acks"
            LISTEN_OVERFLOWS "listen_overflows" LISTEN_DROPS "listen_drops"
            SACK_RECOVERY "sack_recovery"
            RENO_RECOVERY "reno_recovery" SACK_REORDER "sack_reorder"
            TS_REORDER "ts_reorder" DSACK_UNDO "dsack_undo"
            LOSS_UNDO "loss_undo" LOST_RETRANSMIT "lost_retransmit" FAST_RETRANS "fast_retrans"
            SLOW_START_RETRANS "slow_start_retrans" TIMEOUTS "timeouts" LOSS_PROBES "loss_probes"
            LOSS_PROBE_RECOVERY "loss_probe_recovery" RCV_COLLAPSED "rcv_collapsed"
            BACKLOG_COALESCE "backlog_coalesce" DSACK_RECV "dsack_recv"
            MEMORY_PRESSURES "memory_pressures"
            SPURIOUS_RTOS "spurious_rtos" BACKLOG_DROP "backlog_drop"
            TIME_WAIT_OVERFLOW "time_wait_overflow"
            REQUEST_QUEUE_FULL_DROP "request_queue_full_drop"
            RETRANS_FAIL "retrans_fail" RCV_COALESCE "rcv_coalesce"
            OFO_QUEUE "ofo_queue" OFO_DROP "ofo_drop"
            SPURIOUS_RTX_HOST_QUEUES "spurious_rtx_host_queues"
            BUSY_POLL_RX_PACKETS "busy_poll_rx_packets" AUTO_CORKING "auto_corking"
            FROM_ZERO_WINDOW_ADV "from_zero_window_adv" TO_ZERO_WINDOW_ADV "to_zero_window_adv"
            WANT_ZERO_WINDOW_ADV "want_zero_window_adv" SYN_RETRANS "syn_retrans"
            ORIG_DATA_SENT "orig_data_sent"
            HYSTART_TRAIN_DETECT "hystart_train_detect" HYSTART_DELAY_DETECT "hystart_delay_detect"
            WIN_PROBE "win_probe" KEEP_ALIVE "keep_alive" DELIVERED "delivered"
            DELIVERED_CE "delivered_ce"
            ACK_COMPRESSED "ack_compressed" ZERO_WINDOW_DROP "zero_window_drop"
            RCV_QUEUE_DROP "rcv_queue_drop"
            WRITE_QUEUE_TOO_BIG "write_queue_too_big";
    }
    udp {
        counter Count: IN_DATAGRAMS "in_datagrams" NO_PORTS "no_ports" IN_ERRORS "in_errors"
            OUT_DATAGRAMS "out_datagrams" RCVBUF_ERRORS "rcvbuf_errors"
            SNDBUF_ERRORS "sndbuf_errors"
            IN_CSUM_ERRORS "in_csum_errors" MEM_ERRORS "mem_errors" IP_IN_RECEIVES "ip_in_receives"
            IP_IN_HEADER_ERRORS "ip_in_header_errors" IP_IN_ADDRESS_ERRORS "ip_in_address_errors"
            IP_FORWARDED "ip_forwarded" IP_IN_UNKNOWN_PROTOCOLS "ip_in_unknown_protocols"
            IP_IN_DISCARDS "ip_in_discards" IP_IN_DELIVERS "ip_in_delivers"
            IP_OUT_REQUESTS "ip_out_requests"
            IP_FRAGMENTS "ip_fragments" IP_REASSEMBLY_FAILURES "ip_reassembly_failures"
            IP_IN_NO_ROUTES "ip_in_no_routes" IP_IN_TRUNCATED "ip_in_truncated"
            IP_IN_MULTICAST "ip_in_multicast"
            IP_IN_NOT_ECT "ip_in_not_ect" IP_IN_ECT1 "ip_in_ect1" IP_IN_ECT0 "ip_in_ect0"
            IP_IN_CE "ip_in_ce";
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_distinct_and_know_their_readings() {
        let all: Vec<&Series> = ALL.iter().copied().flatten().collect();
        for (at, one) in all.iter().enumerate() {
            assert!(!all[..at].contains(one), "{one:?}");
        }
        let read = softnet::DROPPED.of("cpu3");
        let texts = [read.sampler(), read.name(), &read.instance, read.unit()];
        assert_eq!(texts, ["softnet", "dropped", "cpu3", "1"]);
        assert!(
            softnet::DROPPED.is(&read)
                && !softnet::SQUEEZED.is(&read)
                && !interface::RX_DROPPED.is(&read)
        );
    }

    #[test]
    fn a_series_is_read_as_it_was_written_whoever_declared_it() {
        for (unit, is_declared) in [("1", true), ("packet/s", false)] {
            let text = format!(
                r#"{{"sampler":"softnet","name":"dropped","instance":"cpu3","unit":"{unit}","kind":"counter"}}"#
            );
            let read: SeriesSpec = serde_json::from_str(&text).expect("a series");
            assert_eq!(read == softnet::DROPPED.of("cpu3"), is_declared);
            assert!(softnet::DROPPED.is(&read));
            assert_eq!(serde_json::to_string(&read).expect("text"), text);
        }
        let pause = of_driver("rx_pause", "eth0");
        assert!(pause.is_of(ETHTOOL) && !pause.is_of(interface::SAMPLER));
    }
}
