//! A driver's private statistics per device (`ethtool -S`), by SIOCETHTOOL. Packets or bytes, as
//! the driver names them; taken as counters.
//!
//! A driver with more than [`MOST`] statistics is read for its losses, pauses and stalls alone. Not
//! seen: devices whose driver keeps none (the loopback), and counts the driver refreshes less often
//! than it is read.

use linerate_model::{SeriesSpec, series};
use linerate_sys::ethtool::{Ethtool as Socket, Statistics};

use crate::{Probe, Sampler, Scope, Unavailable, devices};

/// Statistics of one device kept whole: per-queue counters of a large card would drown everything
/// else.
const MOST: usize = 256;

/// Parts of the names of counters of loss, back-pressure or starvation.
const TELLING: &[&str] = &[
    "drop", "discard", "err", "miss", "fifo", "buf", "pause", "xoff", "full", "busy", "timeout",
    "lost", "overrun", "underrun", "crc", "congest", "ecn", "stop", "starv",
];

/// Driver statistics.
pub(super) const SAMPLER: Sampler = Sampler {
    name: series::ETHTOOL.text(),
    summary: "private statistics of each device's driver by SIOCETHTOOL, in packets or bytes as \
        the driver names them; not of drivers that keep none",
    open,
};

fn open(scope: &Scope) -> Result<Box<dyn Probe>, Unavailable> {
    let socket = Socket::open().map_err(|error| Unavailable(error.to_string()))?;
    let links = devices::in_scope(scope)?;
    let devices: Vec<_> =
        links.into_iter().filter_map(|link| Device::open(&socket, link.name)).collect();
    if devices.is_empty() {
        return Err(Unavailable(
            "no driver of a device in scope keeps private statistics".to_owned(),
        ));
    }
    Ok(Box::new(Reader { devices }))
}

struct Device {
    name: String,
    statistics: Statistics,
    /// Positions of the statistics that become columns, ascending.
    kept: Vec<usize>,
}

impl Device {
    /// Opens a device whose driver keeps statistics that become columns.
    fn open(socket: &Socket, name: String) -> Option<Self> {
        let statistics = socket.statistics(&name).ok()?;
        let kept = kept(statistics.names());
        (!kept.is_empty()).then_some(Self { name, statistics, kept })
    }

    fn series(&self) -> impl Iterator<Item = SeriesSpec> {
        let names = self.statistics.names();
        self.kept.iter().map(|&at| series::of_driver(&names[at], &self.name))
    }
}

struct Reader {
    devices: Vec<Device>,
}

impl Probe for Reader {
    fn series(&self) -> Vec<SeriesSpec> {
        self.devices.iter().flat_map(Device::series).collect()
    }

    fn read(&mut self, row: &mut [Option<f64>]) {
        let mut row = row;
        for device in &mut self.devices {
            let (own, rest) = row.split_at_mut(device.kept.len());
            if let Ok(values) = device.statistics.read() {
                let mut kept = device.kept.iter().zip(own).peekable();
                // The driver fills all its values at once; those without a column are passed over.
                for (at, value) in values.enumerate() {
                    if let Some((_, cell)) = kept.next_if(|(kept, _)| **kept == at) {
                        *cell = Some(value as f64);
                    }
                }
            }
            row = rest;
        }
    }
}

/// Positions of the statistics worth a column; of two with one name, the first.
fn kept(names: &[String]) -> Vec<usize> {
    let telling = |name: &str| TELLING.iter().any(|part| name.to_ascii_lowercase().contains(part));
    let wanted = |name: &String| !name.is_empty() && (names.len() <= MOST || telling(name));
    // Some drivers give the same name to several queues. Columns need distinct names.
    let mut seen = std::collections::HashSet::new();
    let positions =
        names.iter().enumerate().filter(|(_, name)| wanted(name) && seen.insert(name.as_str()));
    positions.map(|(at, _)| at).take(MOST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_set_is_kept_whole_and_a_large_one_for_its_losses() {
        let captured: Vec<String> =
            include_str!("../../fixtures/ethtool-virtio_net").lines().map(str::to_owned).collect();
        assert_eq!(kept(&captured).len(), captured.len());
        let mut large: Vec<String> = (0..MOST).map(|queue| format!("rx{queue}_packets")).collect();
        large.extend(["rx_missed_errors".to_owned(), "tx_queue_stopped".to_owned()]);
        assert_eq!(kept(&large), [MOST, MOST + 1]);
    }

    #[test]
    fn a_name_given_twice_is_one_column() {
        assert_eq!(kept(&["drops".to_owned(), "drops".to_owned(), String::new()]), [0]);
    }
}
