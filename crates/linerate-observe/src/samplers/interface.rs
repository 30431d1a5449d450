//! Counters of each interface, the loopback included: `rtnl_link_stats64` over netlink
//! (linux/if_link.h). Bytes are L2 without FCS on most drivers; packets are what the driver passed
//! up or took, so GRO and GSO super-packets may count as one or as many, by driver.
//!
//! Not seen: what hardware drops without telling its driver, and queues (see `qdisc`).

use linerate_model::series::interface;
use linerate_model::{Series, SeriesSpec};
use linerate_sys::netlink::{LinkStats, RouteSocket};

use crate::{Probe, Sampler, Scope, Unavailable, devices};

/// Our column and the kernel's field.
type Column = (Series, fn(&LinkStats) -> u64);

const COLUMNS: [Column; 18] = [
    (interface::COLLISIONS, |s| s.collisions),
    (interface::MULTICAST, |s| s.multicast),
    (interface::RX_BYTES, |s| s.rx_bytes),
    (interface::RX_CRC, |s| s.rx_crc_errors),
    (interface::RX_DROPPED, |s| s.rx_dropped),
    (interface::RX_ERRORS, |s| s.rx_errors),
    (interface::RX_FIFO, |s| s.rx_fifo_errors),
    (interface::RX_FRAME, |s| s.rx_frame_errors),
    (interface::RX_LENGTH, |s| s.rx_length_errors),
    (interface::RX_MISSED, |s| s.rx_missed_errors),
    (interface::RX_OVER, |s| s.rx_over_errors),
    (interface::RX_PACKETS, |s| s.rx_packets),
    (interface::TX_BYTES, |s| s.tx_bytes),
    (interface::TX_CARRIER, |s| s.tx_carrier_errors),
    (interface::TX_DROPPED, |s| s.tx_dropped),
    (interface::TX_ERRORS, |s| s.tx_errors),
    (interface::TX_FIFO, |s| s.tx_fifo_errors),
    (interface::TX_PACKETS, |s| s.tx_packets),
];

/// Interface counters.
pub(super) const SAMPLER: Sampler = Sampler {
    name: interface::SAMPLER.text(),
    summary: "bytes, packets, drops and errors of each interface over netlink, bytes as L2 without \
        FCS; not drops the hardware keeps to itself",
    open,
};

fn open(scope: &Scope) -> Result<Box<dyn Probe>, Unavailable> {
    let unavailable = |error: linerate_sys::SysError| Unavailable(error.to_string());
    let links = devices::in_scope(scope)?.into_iter().map(|link| (link.index, link.name)).collect();
    let mut socket = RouteSocket::open().map_err(unavailable)?;
    // A kernel older than 4.7 refuses here, and not in the middle of a trial.
    socket.link_stats(|_, _| {}).map_err(unavailable)?;
    Ok(Box::new(Reader { socket, links }))
}

struct Reader {
    socket: RouteSocket,
    links: Vec<(u32, String)>,
}

impl Probe for Reader {
    fn series(&self) -> Vec<SeriesSpec> {
        let of_link = |(_, device): &(u32, String)| COLUMNS.map(|(column, _)| column.of(device));
        self.links.iter().flat_map(of_link).collect()
    }

    fn read(&mut self, row: &mut [Option<f64>]) {
        let links = &self.links;
        // What was visited before an error stands; the rest stays unknown.
        let _ = self.socket.link_stats(|index, stats: &LinkStats| {
            // Interfaces that appeared after the start have no columns.
            if let Some(link_idx) = links.iter().position(|(wanted, _)| *wanted == index) {
                write(stats, &mut row[link_idx * COLUMNS.len()..][..COLUMNS.len()]);
            }
        });
    }
}

fn write(stats: &LinkStats, row: &mut [Option<f64>]) {
    for (cell, (_, field)) in row.iter_mut().zip(&COLUMNS) {
        *cell = Some(field(stats) as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_carries_its_own_field() {
        let stats = LinkStats {
            rx_packets: 1,
            tx_packets: 2,
            rx_bytes: 3,
            tx_bytes: 4,
            rx_missed_errors: 5,
            ..LinkStats::default()
        };
        let mut row = [None; COLUMNS.len()];
        write(&stats, &mut row);
        let value = |name| row[COLUMNS.iter().position(|column| column.0.name == name).unwrap()];
        let names = ["rx_packets", "tx_packets", "rx_bytes", "tx_bytes", "rx_missed", "rx_dropped"];
        assert_eq!(names.map(value), [1.0, 2.0, 3.0, 4.0, 5.0, 0.0].map(Some));
    }

    #[test]
    fn the_loopback_counts_what_is_sent_through_it() {
        let devices = vec![devices::LOOPBACK.to_owned()];
        let mut probe = super::open(&Scope { devices, ..Scope::default() }).unwrap();
        let rx = probe.series().iter().position(|series| interface::RX_PACKETS.is(series)).unwrap();
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut read = || {
            let mut row = vec![None; COLUMNS.len()];
            probe.read(&mut row);
            row[rx].unwrap()
        };
        let before = read();
        for _ in 0..10 {
            socket.send_to(b"x", socket.local_addr().unwrap()).unwrap();
        }
        assert!(read() >= before + 10.0);
    }
}
