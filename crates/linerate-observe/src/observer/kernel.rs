//! A port of this machine, a bridge's for instance, by its kernel's counters: `rtnl_link_stats64`
//! over netlink, the same that `/sys/class/net/PORT/statistics` shows. What the port receives comes
//! in. Without frame check sequence; a driver may count a super-packet of GRO or GSO as one frame.

use linerate_model::{ObservedPort, ObserverKind};
use linerate_sys::netlink::{LinkStats, RouteSocket};

use super::port::{Counts, N_COUNTERS, Width};
use super::{Counting, ObserverSpec};
use crate::{Unavailable, devices};

/// The kernel's counters in the order of [`linerate_model::series::observer::ALL`].
const FIELDS: [fn(&LinkStats) -> u64; N_COUNTERS] = [
    |s| s.rx_bytes,
    |s| s.rx_packets,
    |s| s.rx_dropped,
    |s| s.rx_errors,
    |s| s.tx_bytes,
    |s| s.tx_packets,
    |s| s.tx_dropped,
    |s| s.tx_errors,
];

struct Kernel {
    socket: RouteSocket,
    index: u32,
    name: String,
}

pub(super) fn open(spec: &ObserverSpec) -> Result<(Box<dyn Counting>, ObservedPort), Unavailable> {
    let links = devices::all()?;
    let Some(link) = links.iter().find(|link| link.name == spec.interface) else {
        let names: Vec<&str> = links.iter().map(|link| link.name.as_str()).collect();
        let place = spec
            .namespace
            .as_ref()
            .map_or_else(|| "here".to_owned(), |name| format!("in namespace {name}"));
        let why = format!(
            "observe {}: there is no such interface {place} (there are {})",
            spec.interface,
            names.join(", ")
        );
        return Err(Unavailable(why));
    };
    let socket = RouteSocket::open().map_err(|error| Unavailable(error.to_string()))?;
    let kind = link.kind.as_deref().unwrap_or("device");
    let port = ObservedPort {
        observer: spec.name.clone(),
        port: link.name.clone(),
        faces: spec.faces.clone(),
        counts_fcs: spec.counts_fcs.unwrap_or(false),
        source: format!("the kernel's counters of {kind} {}", link.name),
        kind: Some(ObserverKind::Kernel),
    };
    Ok((Box::new(Kernel { socket, index: link.index, name: link.name.clone() }), port))
}

impl Counting for Kernel {
    fn read(&mut self) -> Result<Counts, Unavailable> {
        let mut counts = None;
        // The dump visits all interfaces; one socket and one request serve any of them.
        let wanted = self.index;
        let visited = self.socket.link_stats(|index, stats| {
            if index == wanted {
                let values = FIELDS.map(|field| Some((field(stats), Width::Wide)));
                counts = Some(Counts { values, ..Counts::default() });
            }
        });
        visited.map_err(|error| Unavailable(error.to_string()))?;
        counts.ok_or_else(|| {
            Unavailable(format!("read the counters of {}: the interface is gone", self.name))
        })
    }
}
