//! The samplers, alphabetically.

use linerate_model::series;

use crate::Sampler;

mod cgroup;
mod context_switches;
mod cpu;
mod disk;
mod disk_limits;
mod ethtool;
mod frequency;
mod interface;
pub(crate) mod interrupts;
mod memory;
mod ncsi;
mod perf_hardware;
mod perf_software;
mod pressure;
pub(crate) mod qdisc;
mod softnet;
mod swap;
mod tcp_extension;
mod udp;

/// Every sampler.
pub static SAMPLERS: &[Sampler] = &[
    cgroup::SAMPLER,
    context_switches::SAMPLER,
    cpu::SAMPLER,
    disk::SAMPLER,
    disk_limits::SAMPLER,
    ethtool::SAMPLER,
    frequency::SAMPLER,
    interface::SAMPLER,
    interrupts::SAMPLER,
    memory::SAMPLER,
    ncsi::SAMPLER,
    perf_hardware::SAMPLER,
    perf_software::SAMPLER,
    pressure::SAMPLER,
    qdisc::SAMPLER,
    softnet::SAMPLER,
    swap::SAMPLER,
    tcp_extension::SAMPLER,
    udp::SAMPLER,
];

/// The sampler called `name`.
#[must_use]
pub fn sampler(name: &str) -> Option<&'static Sampler> {
    SAMPLERS.iter().find(|sampler| sampler.name == name)
}

/// Readings that each sampler of text files gets from `text`, which may be anything. The fuzzer and
/// the property test share it.
#[doc(hidden)]
#[must_use]
pub fn read_any(text: &[u8]) -> Vec<(&'static str, Vec<Option<f64>>)> {
    [
        (series::cgroup::SAMPLER, cgroup::PERIODS.read_any(text)),
        (series::context_switches::SAMPLER, context_switches::read_any(text)),
        (series::cpu::SAMPLER, cpu::read_any(text)),
        (series::disk::SAMPLER, disk::read_any(text)),
        (series::disk_limits::SAMPLER, disk_limits::read_any(text)),
        (series::frequency::SAMPLER, frequency::read_any(text)),
        (series::interrupts::SAMPLER, interrupts::read_any(text)),
        (series::memory::SAMPLER, memory::AMOUNTS.read_any(text)),
        (series::pressure::SAMPLER, pressure::read_any(text)),
        (series::softnet::SAMPLER, softnet::read_any(text)),
        (series::swap::SAMPLER, swap::PAGES.read_any(text)),
        (series::udp::SAMPLER, udp::read_any(text)),
    ]
    .map(|(sampler, row)| (sampler.text(), row))
    .into()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::Scope;

    #[test]
    fn the_registry_is_alphabetical_and_every_entry_explains_itself() {
        assert!(SAMPLERS.is_sorted_by(|a, b| a.name < b.name));
        assert!(SAMPLERS.iter().all(|s| s.summary.len() > 40 && !s.summary.ends_with('.')));
        assert!(sampler("cpu").is_some() && sampler("none").is_none());
    }

    #[test]
    fn columns_are_distinct_named_after_their_sampler_and_read() {
        for sampler in SAMPLERS {
            let mut probe = match (sampler.open)(&Scope::default()) {
                Ok(probe) => probe,
                Err(why) => {
                    println!("skipped: {}: {why}", sampler.name);
                    continue;
                }
            };
            let series = probe.series();
            assert!(
                !series.is_empty() && series.iter().all(|s| s.sampler() == sampler.name),
                "{}",
                sampler.name
            );
            let mut row = vec![None; series.len()];
            probe.read(&mut row);
            assert!(row.iter().any(Option::is_some), "{} read nothing", sampler.name);
            let names = series.iter().map(|s| (s.name(), s.instance.as_str()));
            let distinct: BTreeSet<_> = names.collect();
            assert_eq!(distinct.len(), series.len(), "{}", sampler.name);
        }
    }
}
