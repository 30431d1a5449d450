//! Cisco UCS VIC 1240/1280 on RHEL 6.2 (2012), items S3.1 to S3.9, shapes V3.1 to V3.7 of
//! docs/methodology/papers.md#shapes.
//!
//! *VIC* is the adapter with two ports on each of two fabrics, *expander* the same with four; the
//! emulation runs at a hundredth of the paper's rates. A fabric's ports are a port channel: a hash
//! puts a flow on one of them, where it stays. Figures are Mbit/s of L4 payload counted where they
//! are delivered, unless they say frames. What is not reproduced: the paper's host (one receive
//! queue, no RSS), which kept many flows below what their ports carry.

mod failover;
mod settings;
mod shapes;
mod tables;

pub use settings::cisco_settings;

use linerate_model::{Bytes, Direction, TestbedKind, Use, metric};

use super::{Comparison, Figure, FigureForm, Reproduction, coordinate, one_way, sweep, whole};
use linerate_analysis::limits::lag;
use linerate_analysis::{PointStudy, Study};

/// Campaigns of the reproduction.
#[derive(Clone, Copy, Debug)]
pub struct CiscoStudies<'a> {
    /// `cisco-payload`.
    pub payload: &'a Study,
    /// `cisco-ports` without the expander.
    pub vic: &'a Study,
    /// The same with it.
    pub expander: &'a Study,
    /// `cisco-draws` without the expander.
    pub vic_draws: &'a Study,
    /// The same with it.
    pub expander_draws: &'a Study,
    /// The same with port channels that hash addresses only.
    pub polarised: &'a Study,
    /// `placement` without the expander.
    pub placement: &'a Study,
    /// `cisco-failover`.
    pub failover: &'a Study,
}

/// The emulation runs at a hundredth of the paper's rates.
const SCALE: f64 = 100.0;
/// Ports of a fabric without and with the expander.
const VIC_PORTS: u32 = 2;
const EXPANDER_PORTS: u32 = 4;
/// Rate of a port and of the slot as emulated, bit/s of frames without FCS.
const PORT: f64 = 100e6;
const SLOT: f64 = 553.5e6;
/// Fabrics.
const FABRICS: u32 = 2;

/// Judges the shapes of the Cisco paper.
pub fn cisco_vic(studies: &CiscoStudies<'_>) -> Reproduction {
    Reproduction {
        place: TestbedKind::Lab,
        campaigns: Vec::new(),
        paper:
            "Cisco UCS Virtual Interface Card 1240 and 1280 network performance on RHEL 6.2 (2012)"
                .into(),
        tables: vec![
            tables::payload(studies.payload),
            tables::flows(studies),
            tables::sizes(studies),
        ],
        figures: vec![tables::flows_figure(studies)],
        shapes: shapes::all(studies),
    }
}

/// Returns the number of fabrics a point uses.
fn fabrics(point: &PointStudy) -> u32 {
    let pairs = coordinate(&point.parameters, "pairs").unwrap_or_default();
    // Without a `pairs` axis, the plan has a single pair.
    serde_json::from_str::<Vec<String>>(&pairs).map_or(1, |pairs| pairs.len() as u32)
}

/// Returns the rate of one flow on each of `fabrics` fabrics, bit/s.
fn one_flow(study: &Study, n_fabrics: u32) -> Option<f64> {
    let point = sweep(study, "one flow").find(|point| fabrics(point) == n_fabrics)?;
    Some(one_way(point, metric::GOODPUT)?.value)
}

/// Returns the CPU of the busiest worker of either end; zero if not known.
fn busiest_worker(point: &PointStudy) -> f64 {
    let cpus = Use::WorkerCpu.metrics().filter_map(|cpu| one_way(point, cpu));
    cpus.map(|cpu| cpu.value).fold(0.0, f64::max)
}

/// A size of packet, both fabrics.
struct Packets {
    /// Size of a frame without FCS, bytes.
    frame: f64,
    /// Delivered per second, as the receiving application counted.
    rate: f64,
    /// Bit/s of frames without FCS, from the payload it was delivered.
    bandwidth: f64,
    /// The same as the receiving interface counted.
    at_interface: Option<f64>,
}

/// Returns the packet sizes of `study`, smallest first.
fn packets(study: &Study) -> Vec<Packets> {
    let mut sizes: Vec<Packets> = sweep(study, "packets").filter_map(packets_of).collect();
    sizes.sort_by(|a, b| a.frame.total_cmp(&b.frame));
    sizes
}

fn packets_of(point: &PointStudy) -> Option<Packets> {
    /// Bytes of an Ethernet frame without FCS beside a UDP payload: 14, 20 and 8 bytes.
    const HEADERS: f64 = 42.0;
    /// Frame check sequence, which `frame_size` and `throughput_l2` count and a shaper does not.
    const CHECK_SEQUENCE: f64 = 4.0;
    let size: Bytes = coordinate(&point.parameters, "frame_size")?.parse().ok()?;
    // The paper's packet sizes are without check sequence, ours are with it.
    let frame = size.0 as f64 - CHECK_SEQUENCE;
    let counted = one_way(point, metric::THROUGHPUT_L2);
    Some(Packets {
        frame,
        rate: one_way(point, metric::PACKET_RATE)?.value,
        // Goodput counts payload, the paper counts frames.
        bandwidth: one_way(point, metric::GOODPUT)?.value * frame / (frame - HEADERS),
        at_interface: counted.map(|counted| counted.value * frame / (frame + CHECK_SEQUENCE)),
    })
}

/// Returns the largest bandwidth over packet sizes.
fn most(packets: &[Packets]) -> Option<f64> {
    packets.iter().map(|size| size.bandwidth).max_by(f64::total_cmp)
}

/// Several flows per fabric, and their distribution over ports in each draw.
struct Draws {
    fabrics: u32,
    /// Flows per fabric.
    n_flows: u32,
    /// Links seen used and goodput, bit/s, of each draw.
    draws: Vec<(f64, f64)>,
}

impl Draws {
    fn mean(&self, of: impl Fn(&(f64, f64)) -> f64) -> Option<f64> {
        (!self.draws.is_empty())
            .then(|| self.draws.iter().map(of).sum::<f64>() / self.draws.len() as f64)
    }

    /// Returns the mean of the links used.
    fn links(&self) -> Option<f64> {
        self.mean(|(links, _)| *links)
    }

    /// Returns the mean goodput.
    fn goodput(&self) -> Option<f64> {
        self.mean(|(_, goodput)| *goodput)
    }
}

/// Returns the most flows that were drawn on each of `n_fabrics`, and their mean goodput, bit/s.
fn most_flows(study: &Study, n_fabrics: u32) -> Option<(u32, f64)> {
    let all = draws(study).into_iter().filter(|point| point.fabrics == n_fabrics);
    let most = all.max_by_key(|point| point.n_flows)?;
    Some((most.n_flows, most.goodput()?))
}

/// Returns the points of sweep `draws`, by fabrics and flows.
fn draws(study: &Study) -> Vec<Draws> {
    let mut points: Vec<Draws> = sweep(study, "draws").filter_map(draws_at).collect();
    points.sort_by_key(|point| (point.fabrics, point.n_flows));
    points
}

fn draws_at(point: &PointStudy) -> Option<Draws> {
    let n_flows = coordinate(&point.parameters, "streams")?.parse().ok()?;
    let values =
        |metric| whole(point)?.metric(metric, Direction::Tx).map(|metric| metric.values.clone());
    let links = values(metric::LINKS_USED).unwrap_or_default();
    let goodput = values(metric::GOODPUT).unwrap_or_default();
    // A draw counts only if both figures of it are known.
    let known = |(links, goodput): (Option<f64>, Option<f64>)| links.zip(goodput);
    let draws = links.into_iter().zip(goodput).filter_map(known).collect();
    Some(Draws { fabrics: fabrics(point), n_flows, draws })
}

/// Returns mean and standard deviation of the links that an ideal hash uses of `ports` on each of
/// `n_fabrics`, by `n_flows` flows each.
fn ideal(ports: u32, n_flows: u32, n_fabrics: u32) -> (f64, f64) {
    let (k, n) = (f64::from(ports), n_flows as i32);
    let mean = lag::occupancy(ports, n_flows).links_used;
    // The variance of the number of idle boxes, which is that of the used ones.
    let idle = k * (1.0 - 1.0 / k).powi(n);
    let variance = k * (k - 1.0) * (1.0 - 2.0 / k).powi(n) + idle - idle * idle;
    let n_fabrics = f64::from(n_fabrics);
    // Rounding can leave a variance slightly below zero where every link is always used.
    (n_fabrics * mean, (n_fabrics * variance.max(0.0)).sqrt())
}

/// Returns the joint rate of `links` full ports at the rate `port` of one, limited by the slot.
fn bound(links: f64, port: f64) -> f64 {
    // The slot is scaled with the measured rate of a port, so that both have the same headers.
    (links * port).min(SLOT * port / PORT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ideal_hash_has_the_moments_of_its_distribution() {
        // Two ports, four flows: one port with probability 2/16, otherwise both.
        let (mean, deviation) = ideal(2, 4, 1);
        assert!((mean - 1.875).abs() < 1e-12);
        assert!((deviation - (0.125_f64 * 0.875).sqrt()).abs() < 1e-12);
        // Four ports, two flows: one port with probability 1/4, otherwise two; twice,
        // independently.
        let (mean, deviation) = ideal(4, 2, 2);
        assert!((mean - 3.5).abs() < 1e-12);
        assert!((deviation - (2.0_f64 * 0.25 * 0.75).sqrt()).abs() < 1e-12);
        assert_eq!(ideal(4, 1, 1), (1.0, 0.0));
    }

    #[test]
    fn without_campaigns_nothing_is_judged() {
        let none = &Study::default();
        let studies = CiscoStudies {
            payload: none,
            vic: none,
            expander: none,
            vic_draws: none,
            expander_draws: none,
            polarised: none,
            placement: none,
            failover: none,
        };
        let shapes = cisco_vic(&studies).shapes;
        let judged: Vec<_> = shapes.iter().filter(|shape| shape.holds.is_some()).collect();
        assert!(judged.is_empty(), "{judged:?}");
    }

    #[test]
    fn the_slot_bounds_what_eight_ports_would_carry() {
        assert_eq!(bound(4.0, 99e6), 396e6);
        assert_eq!(bound(8.0, 100e6), 553.5e6);
    }
}
