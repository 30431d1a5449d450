//! Settings of a lab's host: sysctls of its network namespace, its share of a CPU, the CPUs of its
//! workers and of received packets, the cost of a packet, and the shortest retransmission timeout
//! towards its neighbours.

use std::collections::BTreeMap;
use std::ops::Range;

use linerate_model::{Nanos, Problem, Ratio};
use serde::Deserialize;

/// Settings of a host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostSettings {
    /// Sysctls by name, all below `net.`: only those belong to a namespace.
    pub sysctls: BTreeMap<String, String>,
    /// Share of one CPU for everything in the host. `None`: no limit.
    pub cpu: Option<Ratio>,
    /// CPUs that its workers are pinned to. If empty, they are not pinned.
    pub cpus: Vec<usize>,
    /// CPUs that process received packets (RPS). If empty, the CPU of the interrupt does.
    pub receive_cpus: Vec<usize>,
    /// Number of packet filter rules without a match that each received packet passes.
    pub filters: u32,
    /// Shortest time between two receive interrupts, as an interface that mitigates them has; GRO
    /// joins packets until then. `None`: each packet interrupts, and none are joined.
    pub interrupt_interval: Option<Nanos>,
    /// Shortest retransmission timeout on routes to its own segments (`rto_min` of ip-route(8)).
    pub min_rto: Option<Nanos>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HostText {
    pub(super) name: toml::Spanned<String>,
    #[serde(default)]
    sysctl: Sysctls,
    cpu: Option<toml::Spanned<Ratio>>,
    #[serde(default)]
    cpus: Vec<usize>,
    receive_cpus: Option<toml::Spanned<Vec<usize>>>,
    filters: Option<toml::Spanned<u32>>,
    interrupt_interval: Option<Nanos>,
    min_rto: Option<toml::Spanned<Nanos>>,
}

/// Most CPUs of a kernel (`NR_CPUS`, Linux arch/x86/Kconfig).
const MOST_CPUS: usize = 8192;
/// Most filter rules: more would take too long to make.
const MOST_FILTERS: u32 = 10_000;
/// Smallest share: below it a host gets the CPU less than every tenth of a second.
const LEAST_SHARE: f64 = 0.01;

/// Sysctls by name, as written.
pub(super) type Sysctls = BTreeMap<toml::Spanned<String>, String>;

/// Adds a problem for each sysctl that a lab must not set.
pub(super) fn check_sysctls(sysctls: &Sysctls, problems: &mut Vec<Problem>) {
    for (name, value) in sysctls {
        let key = name.get_ref();
        // Other sysctls belong to the whole machine: a lab must not change it.
        let foreign = !key.starts_with("net.") || key.contains(['/', ' ', '=']);
        if foreign {
            let message = format!("sysctl `{key}` does not belong to a network namespace");
            problems.push(Problem::new(Some(name.span()), message).expected("net.…"));
        }
        if value.contains('\n') {
            let message = format!("the value of sysctl `{key}` has more than one line");
            problems.push(Problem::new(Some(name.span()), message).expected("one line"));
        }
    }
}

impl HostText {
    /// Checks the settings and adds a problem for each that is impossible.
    /// Those of `common` belong to every host, and the host's own sysctls go before them.
    pub(super) fn settings(&self, common: &Sysctls, problems: &mut Vec<Problem>) -> HostSettings {
        check_sysctls(&self.sysctl, problems);
        let mut refuse = |span: Range<usize>, message: String, expected: &str| {
            problems.push(Problem::new(Some(span), message).expected(expected));
        };
        if let Some(cpu) =
            self.cpu.as_ref().filter(|cpu| !(LEAST_SHARE..=1024.0).contains(&cpu.get_ref().0))
        {
            refuse(
                cpu.span(),
                format!("a host cannot have {} of a CPU", cpu.get_ref()),
                "1 % or more, such as \"50 %\"",
            );
        }
        if let Some(least) =
            self.min_rto.as_ref().filter(|least| least.get_ref().0 < Nanos::from_millis(1).0)
        {
            refuse(
                least.span(),
                "routes know timeouts in whole milliseconds".into(),
                "1 ms or more",
            );
        }
        let far =
            |cpus: &&toml::Spanned<Vec<usize>>| cpus.get_ref().iter().any(|cpu| *cpu >= MOST_CPUS);
        if let Some(cpus) = self.receive_cpus.as_ref().filter(far) {
            refuse(cpus.span(), "CPUs that no kernel has".into(), "numbers below 8192");
        }
        if let Some(filters) =
            self.filters.as_ref().filter(|filters| *filters.get_ref() > MOST_FILTERS)
        {
            refuse(
                filters.span(),
                format!("{} filter rules", filters.get_ref()),
                "10000 at the most",
            );
        }
        HostSettings {
            cpus: self.cpus.clone(),
            receive_cpus: self
                .receive_cpus
                .as_ref()
                .map_or_else(Vec::new, |cpus| cpus.get_ref().clone()),
            filters: self.filters.as_ref().map_or(0, |filters| *filters.get_ref()),
            sysctls: common
                .iter()
                .chain(&self.sysctl)
                .map(|(name, value)| (name.get_ref().clone(), value.clone()))
                .collect(),
            interrupt_interval: self.interrupt_interval,
            cpu: self.cpu.as_ref().map(|cpu| *cpu.get_ref()),
            min_rto: self.min_rto.as_ref().map(|least| *least.get_ref()),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Description;

    #[test]
    fn a_host_that_mitigates_interrupts_does_so_on_every_interface() {
        let lab = "[lab]\nname='x'\n[[host]]\nname='a'\ninterrupt_interval='50 us'\n[[host]]\n\
            name='b'\n[[link]]\nends=['a','b']\n";
        let (read, problems) = Description::parse(lab);
        assert_eq!(problems, []);
        let layout = crate::layout(&read.expect("no problem"), "demo");
        let of = |node: usize| layout.namespaces[node].mitigated.clone();
        assert_eq!(of(0).iter().map(|(_, interval)| interval.0).collect::<Vec<_>>(), [50_000]);
        assert!(of(1).is_empty());
    }

    #[test]
    fn sysctls_of_a_lab_are_those_of_every_host_that_has_none_of_its_own() {
        let lab = "[lab]\nname='x'\nsysctl={'net.ipv4.tcp_sack'='1','net.ipv4.tcp_ecn'='0'}\n\
            [[host]]\nname='a'\nsysctl={'net.ipv4.tcp_sack'='0'}\n[[host]]\nname='b'\n";
        let (read, problems) = Description::parse(lab);
        assert_eq!(problems, []);
        let of =
            |node: usize| read.as_ref().expect("no problem").nodes[node].settings.sysctls.clone();
        let values = |node| of(node).into_values().collect::<Vec<String>>();
        assert_eq!(
            (values(0), values(1)),
            (vec!["0".into(), "0".into()], vec!["0".into(), "1".into()])
        );
        let (_, problems) = Description::parse(&lab.replace("net.ipv4.tcp_ecn", "vm.swappiness"));
        assert!(problems[0].message.contains("does not belong to a network namespace"));
    }

    #[test]
    fn settings_of_a_host_are_read_and_all_impossible_ones_are_refused_at_once() {
        let head = "[lab]\nname='x'\n[[host]]\nname='a'\n";
        let good = format!(
            "{head}cpu='50 %'\nmin_rto='300 \
                ms'\nsysctl={{'net.ipv4.tcp_sack'='0'}}\ncpus=[0]\nreceive_cpus=[1]\nfilters=300\n"
        );
        let (lab, problems) = Description::parse(&good);
        assert_eq!(problems, []);
        let settings = &lab.expect("no problem").nodes[0].settings;
        assert_eq!(settings.sysctls["net.ipv4.tcp_sack"], "0");
        assert_eq!(
            (settings.cpu.map(|c| c.0), settings.min_rto.map(|m| m.0)),
            (Some(0.5), Some(300_000_000))
        );
        assert_eq!(
            (&settings.cpus[..], &settings.receive_cpus[..], settings.filters),
            (&[0][..], &[1][..], 300)
        );
        let bad = format!(
            "{head}cpu='0 %'\nmin_rto='1 \
                us'\nsysctl={{'kernel.panic'='1'}}\nreceive_cpus=[8192]\nfilters=10001\n"
        );
        assert_eq!(Description::parse(&bad).1.len(), 5);
    }
}
