//! Interrupts: per vector of the devices in scope (`/sys/kernel/irq/N/per_cpu_count`, all CPUs
//! added), all vectors together (`intr` of `/proc/stat`), and runs of the network softirqs per CPU
//! (`/proc/softirqs`). Counts.
//!
//! The sysfs files are read rather than `/proc/interrupts`, which prints every vector times every
//! CPU: milliseconds on a large host. Not seen: work done by polling (NAPI, busy poll) without an
//! interrupt, and which vector is rx or tx unless its driver says so in its name.

use std::fs;
use std::path::Path;

use linerate_model::series::interrupts;
use linerate_model::{Series, SeriesSpec};
use linerate_sys::netlink::Link;

use crate::kernel_text::{KernelText, decimal, lines, suffix_number, words};
use crate::wrapping::Wrapping;
use crate::{Probe, Sampler, Scope, Unavailable, devices};

/// Label in `/proc/softirqs` and our name.
const SOFTIRQS: [(&[u8], Series); 2] =
    [(b"NET_RX:", interrupts::SOFTIRQ_NET_RX), (b"NET_TX:", interrupts::SOFTIRQ_NET_TX)];

/// Interrupts and network softirqs.
pub(super) const SAMPLER: Sampler = Sampler {
    name: interrupts::SAMPLER.text(),
    summary: "interrupts per vector of the devices in scope and in total, and network softirqs per \
        CPU, from sysfs and procfs, counts; not packets handled by polling",
    open,
};

fn open(scope: &Scope) -> Result<Box<dyn Probe>, Unavailable> {
    let stat = KernelText::open("/proc/stat")?;
    let mut softirqs = KernelText::open("/proc/softirqs")?;
    let cpus = softirqs.read().map(cpus).unwrap_or_default();
    let vectors = vectors(Path::new("/"), scope)?.into_iter();
    let vectors = vectors.filter_map(|(irq, label)| Vector::open(irq, label)).collect();
    // The kernel keeps each count in 32 bits, which a busy vector wraps within hours.
    let softirq_counts = vec![Wrapping::default(); cpus.len() * SOFTIRQS.len()];
    Ok(Box::new(Reader { stat, softirqs, cpus, vectors, softirq_counts }))
}

struct Vector {
    label: String,
    text: KernelText,
    count: Wrapping,
}

impl Vector {
    fn open(irq: u32, label: String) -> Option<Self> {
        let text = KernelText::open(&format!("/sys/kernel/irq/{irq}/per_cpu_count")).ok()?;
        Some(Self { label, text, count: Wrapping::default() })
    }
}

struct Reader {
    stat: KernelText,
    softirqs: KernelText,
    /// The CPUs of the header line, which are all possible ones.
    cpus: Vec<u32>,
    vectors: Vec<Vector>,
    softirq_counts: Vec<Wrapping>,
}

impl Probe for Reader {
    fn series(&self) -> Vec<SeriesSpec> {
        let mut series = vec![interrupts::TOTAL.of("")];
        series.extend(self.vectors.iter().map(|vector| interrupts::COUNT.of(&vector.label)));
        for (_, column) in SOFTIRQS {
            series.extend(self.cpus.iter().map(|cpu| column.of(&format!("cpu{cpu}"))));
        }
        series
    }

    fn read(&mut self, row: &mut [Option<f64>]) {
        let (total, row) = row.split_at_mut(1);
        total[0] = self.stat.read().and_then(parse_total).map(|total| total as f64);
        let (counts, softirqs) = row.split_at_mut(self.vectors.len());
        for (vector, cell) in self.vectors.iter_mut().zip(counts) {
            *cell =
                vector.text.read().and_then(parse_vector).map(|count| vector.count.advance(count));
        }
        if let Some(text) = self.softirqs.read() {
            parse_softirqs(text, self.cpus.len(), &mut self.softirq_counts, softirqs);
        }
    }
}

/// Vectors of the devices in scope as `(number, "device number:action")`, by device and number.
fn vectors(root: &Path, scope: &Scope) -> Result<Vec<(u32, String)>, Unavailable> {
    let shown = |link: &Link| link.name != devices::LOOPBACK && devices::sysfs_shows(root, link);
    Ok(devices::in_scope(scope)?
        .into_iter()
        .filter(shown)
        .flat_map(|link| {
            let irqs = of_device(&root.join("sys/class/net").join(&link.name).join("device"));
            let vectors = named(root, &irqs, std::slice::from_ref(&link.name));
            vectors.into_iter().map(move |(irq, label)| (irq, format!("{} {label}", link.name)))
        })
        .collect())
}

/// Vectors of a device by sysfs: its own MSI vectors, those of the bus device below it (virtio), or
/// its one line.
pub(crate) fn of_device(device: &Path) -> Vec<u32> {
    // A virtio device has its vectors one level up, at the PCI function that carries it.
    for msi_irqs in [device.join("msi_irqs"), device.join("../msi_irqs")] {
        if let Ok(entries) = fs::read_dir(msi_irqs) {
            return entries
                .flatten()
                .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
                .collect();
        }
    }
    let line = fs::read_to_string(device.join("irq")).ok().and_then(|irq| irq.trim().parse().ok());
    // 0 in this file means that there is no line.
    line.filter(|&irq| irq != 0).into_iter().collect()
}

/// The vectors that are in `irqs` or whose action names one of `devices`, labelled.
pub(crate) fn named(root: &Path, irqs: &[u32], devices: &[String]) -> Vec<(u32, String)> {
    let Ok(entries) = fs::read_dir(root.join("sys/kernel/irq")) else { return Vec::new() };
    let mut vectors: Vec<_> =
        entries.flatten().filter_map(|entry| vector(&entry, irqs, devices)).collect();
    vectors.sort();
    vectors
}

fn vector(entry: &fs::DirEntry, irqs: &[u32], devices: &[String]) -> Option<(u32, String)> {
    let irq: u32 = entry.file_name().to_str()?.parse().ok()?;
    let actions = fs::read_to_string(entry.path().join("actions")).unwrap_or_default();
    let actions = actions.trim();
    // Actions of several devices share one line; names of queues follow the name of the device
    // after a hyphen or a colon.
    let mut parts = actions.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '.');
    let wanted =
        irqs.contains(&irq) || parts.any(|part| devices.iter().any(|device| device == part));
    (wanted && !actions.is_empty()).then(|| (irq, format!("{irq}:{actions}")))
}

fn parse_total(text: &[u8]) -> Option<u64> {
    let line = lines(text).find_map(|line| line.strip_prefix(b"intr "))?;
    decimal(words(line).next()?)
}

/// The sum over CPUs, modulo 2^32 as each of them is kept.
fn parse_vector(text: &[u8]) -> Option<u32> {
    let counts = words(text).next()?.split(|&byte| byte == b',');
    counts
        .map(|count| decimal(count).map(|count| count as u32))
        .try_fold(0_u32, |sum, n| Some(sum.wrapping_add(n?)))
}

fn cpus(text: &[u8]) -> Vec<u32> {
    let header = lines(text).next().unwrap_or_default();
    words(header).filter_map(|word| suffix_number(word, b"CPU")).collect()
}

fn parse_softirqs(text: &[u8], n_cpus: usize, counts: &mut [Wrapping], row: &mut [Option<f64>]) {
    for line in lines(text).skip(1) {
        let mut words = words(line);
        let label = words.next().unwrap_or_default();
        let Some(kind) = SOFTIRQS.iter().position(|(wanted, _)| *wanted == label) else { continue };
        let cells = row.iter_mut().zip(counts.iter_mut()).skip(kind * n_cpus).take(n_cpus);
        for ((cell, count), word) in cells.zip(words) {
            *cell = decimal(word).map(|reading| count.advance(reading as u32));
        }
    }
}

/// Reads `text`, which may be anything, after looking for this kernel's own layout in it.
pub(super) fn read_any(text: &[u8]) -> Vec<Option<f64>> {
    let cpus = cpus(text);
    let n_cells = cpus.len() * SOFTIRQS.len();
    let mut row = vec![None; n_cells];
    parse_softirqs(text, cpus.len(), &mut vec![Wrapping::default(); n_cells], &mut row);
    row.extend([parse_total(text).map(|total| total as f64), parse_vector(text).map(f64::from)]);
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_the_first_number_of_intr() {
        assert_eq!(parse_total(include_bytes!("../../fixtures/stat-6.18")), Some(788_278));
        assert_eq!(parse_total(include_bytes!("../../fixtures/stat-2.6.32")), Some(1462));
    }

    #[test]
    fn a_vector_is_the_sum_over_cpus() {
        assert_eq!(parse_vector(include_bytes!("../../fixtures/per_cpu_count")), Some(1312));
        assert_eq!(parse_vector(b"4294967295,2\n"), Some(1));
        assert_eq!(parse_vector(b"1,x\n"), None);
        assert_eq!(parse_vector(b"\n"), None);
    }

    #[test]
    fn network_softirqs_are_found_by_label() {
        let text = include_bytes!("../../fixtures/softirqs-6.18");
        assert_eq!(cpus(text), [0, 1]);
        let mut row = [None; 4];
        parse_softirqs(text, 2, &mut [Wrapping::default(); 4], &mut row);
        assert_eq!(row, [3697.0, 3859.0, 6.0, 2.0].map(Some));
    }

    #[test]
    fn vectors_belong_to_a_device_by_number_or_by_name() {
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/sysfs-two-ports"));
        let device = root.join("sys/devices/pci0000:00/0000:00:02.0/0000:02:00.0");
        let mut irqs = of_device(&device);
        irqs.sort_unstable();
        assert_eq!(irqs, [61, 62]);
        let labels: Vec<_> =
            named(root, &irqs, &["eth1".to_owned()]).into_iter().map(|(_, label)| label).collect();
        assert_eq!(labels, ["61:ice-eth0-TxRx-0", "62:ice-eth0-TxRx-1", "70:eth1"]);
    }

    proptest::proptest! {
        #[test]
        fn hostile_text_never_panics(text in "(( \
            |CPU|NET_RX:|intr|,|[0-9]{1,21}|x){0,12}\n?){0,5}") {
            let _ = (parse_total(text.as_bytes()), parse_vector(text.as_bytes()),
                cpus(text.as_bytes()));
            parse_softirqs(text.as_bytes(), 2, &mut [Wrapping::default(); 4], &mut [None; 4]);
        }
    }
}
