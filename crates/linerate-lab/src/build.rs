//! Building a lab with `ip`, `tc`, `ethtool` and `sysctl`, and removing it.
//!
//! Nothing outlives the lab. Its namespaces are deleted when it is dropped, or by its supervisor if
//! its maker was killed. Private names ([`linerate_sys::netns::keep_names_private`]) are removed by
//! the kernel with the last process of the lab.

use linerate_model::{Capacity, HostAddress, Nanos, Testbed};
use linerate_sys::clock::monotonic;

use crate::agent::Agent;
use crate::controller::Running;
use crate::description::Description;
use crate::element;
use crate::failing::Failing;
use crate::layout::{DeviceKind, Layout, Namespace, SwitchPort, layout};
use crate::middle::Middle;
use crate::quota::Quota;
use crate::reap::{self, Made};
use crate::supervisor::Supervisor;
use crate::tool::{LabError, Result, run};

/// Offloads under which a veth carries packets larger than its MTU.
const SEGMENTATION_OFFLOADS: [&str; 4] = ["tso", "gso", "gro", "tx-udp-segmentation"];

/// Lab that has been built, removed on drop.
#[derive(Debug)]
pub struct Lab {
    layout: Layout,
    middles: Vec<Middle>,
    failing: Vec<Failing>,
    agents: Vec<Agent>,
    controllers: Vec<Running>,
    elements: Vec<element::Running>,
    quotas: Vec<Quota>,
    /// Its namespaces: removed before their supervisor ends.
    made: Vec<Made>,
    supervisor: Supervisor,
}

impl Lab {
    /// Builds `description`. Its namespaces are called `lr-{instance}-...`.
    ///
    /// # Errors
    /// If a tool is missing or fails. Then everything that was built so far is removed.
    pub fn build(description: &Description, instance: &str) -> Result<Self> {
        let mut lab = Self {
            layout: layout(description, instance),
            middles: Vec::new(),
            failing: Vec::new(),
            agents: Vec::new(),
            controllers: Vec::new(),
            elements: Vec::new(),
            quotas: Vec::new(),
            made: Vec::new(),
            supervisor: Supervisor::start()?,
        };
        // A maker that was killed leaves namespaces, and `ip netns add` would fail on their names.
        clear(&lab.layout)?;
        for namespace in &lab.layout.namespaces {
            // The supervisor knows the name before the namespace exists: a kill in between leaves
            // nothing behind.
            lab.supervisor.namespace(&namespace.name);
            lab.made.push(reap::make(&namespace.name)?);
        }
        for namespace in &lab.layout.namespaces {
            // Some sysctls are copied into an interface when it is created, so they are set before.
            prepare(namespace)?;
        }
        // One batch: a lab of many links would otherwise start a process for each command.
        run("ip", &["-batch", "-"], Some(&lab.layout.links))?;
        for namespace in &lab.layout.namespaces {
            // Addresses and queues need both ends of every link.
            furnish(namespace)?;
        }
        // Agents start inside the group by their command prefix, so groups come before any agent.
        lab.limit_cpu()?;
        for device in &lab.layout.devices {
            let (namespace, interfaces) = (&device.namespace, &device.interfaces);
            lab.middles.push(match &device.kind {
                DeviceKind::Element(element) => {
                    let (running, passage) = element::Running::new(element, Nanos(monotonic()));
                    lab.elements.push(running);
                    Middle::start(namespace, interfaces, passage)?
                }
                DeviceKind::Controller { controller, management } => {
                    let (running, passage) = Running::new(controller, *management);
                    lab.controllers.push(running);
                    Middle::start(namespace, interfaces, passage)?
                }
            });
        }
        for cables in &lab.layout.cables {
            lab.failing.push(Failing::start(cables.clone())?);
        }
        lab.start_agents()?;
        Ok(lab)
    }

    /// Starts the SNMP agents of switches. Without snmpd, the kernel of the switch is asked.
    fn start_agents(&mut self) -> Result<()> {
        let mut started: Vec<(String, bool)> = Vec::new();
        for port in self.layout.observed.iter_mut().filter(|port| port.snmp) {
            let known = started.iter().find(|(switch, _)| *switch == port.switch);
            let known = known.map(|(_, answers)| *answers);
            port.snmp = match known {
                Some(answers) => answers,
                None => {
                    let agent = Agent::start(&port.namespace)?;
                    started.push((port.switch.clone(), agent.is_some()));
                    self.agents.extend(agent);
                    started.last().is_some_and(|(_, answers)| *answers)
                }
            };
        }
        Ok(())
    }

    /// Makes the control groups of hosts with a share of a CPU. Their agents will start inside.
    fn limit_cpu(&mut self) -> Result<()> {
        for namespace in &self.layout.namespaces {
            let Some(share) = namespace.cpu else { continue };
            let quota = Quota::new(&namespace.name, share)?;
            let hosts =
                self.layout.testbed.hosts.iter_mut().filter(|(name, _)| *name == namespace.node);
            for (_, address) in hosts {
                if let HostAddress::Command(command) = address {
                    command.splice(0..0, quota.prefix());
                }
            }
            self.supervisor.group(quota.folder());
            self.quotas.push(quota);
        }
        Ok(())
    }

    /// Returns the instance name of a lab of this process: the process id and the start time, in
    /// ticks since the host's start. In containers ids repeat, but start times differ.
    #[must_use]
    pub fn instance() -> String {
        /// Index of the start time among the fields behind the program's name (proc_pid_stat(5)).
        const START: usize = 19;
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        // The program's name may contain blanks and brackets, so fields count from the last
        // bracket.
        let start = stat
            .rsplit_once(") ")
            .and_then(|(_, fields)| fields.split(' ').nth(START))
            .unwrap_or("0");
        format!("{}.{start}", std::process::id())
    }

    /// Returns the ports of observed switches.
    #[must_use]
    pub fn observed(&self) -> &[SwitchPort] {
        &self.layout.observed
    }

    /// Returns hosts and endpoints. A host's command prefix runs a program inside it.
    #[must_use]
    pub fn testbed(&self) -> &Testbed {
        &self.layout.testbed
    }

    /// Returns the capacities of the shapers.
    #[must_use]
    pub fn capacities(&self) -> &[Capacity] {
        &self.layout.capacities
    }

    /// Returns the layout that it was built from.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns the number of frames that emulated devices lost because the emulation was too slow.
    /// Frames dropped on purpose are not included.
    #[must_use]
    pub fn emulation_losses(&self) -> u64 {
        self.middles.iter().map(Middle::lost).sum()
    }

    /// Returns the network controllers, with the true counts of each.
    #[must_use]
    pub fn controllers(&self) -> &[Running] {
        &self.controllers
    }

    /// Returns the emulated devices, including links with delay or faults, with the true counts of
    /// each.
    #[must_use]
    pub fn elements(&self) -> &[element::Running] {
        &self.elements
    }

    /// Removes the remains of an earlier lab of this name.
    ///
    /// # Errors
    /// If that lab is in use: its maker lives, or it is to stay.
    pub fn clear(description: &Description, instance: &str) -> Result<()> {
        clear(&layout(description, instance))
    }

    /// Keeps the lab when this is dropped (`linerate lab up`). Only for labs that work without
    /// their maker ([`Layout::stands_alone`]).
    ///
    /// # Errors
    /// If it cannot be marked as one that stays.
    pub fn keep(&mut self) -> Result<()> {
        for made in &mut self.made {
            made.keep().map_err(|cause| LabError::Refused {
                what: format!("mark network namespace {} as one that stays", made.name()),
                cause: cause.to_string(),
                remedy: "",
            })?;
        }
        Ok(())
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        // The threads hold interfaces of the namespaces: they end first. The supervisor ends last,
        // so that a kill in between is still cleaned up.
        self.middles.clear();
        self.failing.clear();
        self.agents.clear();
        self.made.clear();
        self.quotas.clear();
        self.supervisor.dismiss();
    }
}

fn clear(layout: &Layout) -> Result<()> {
    layout.namespaces.iter().try_for_each(|namespace| reap::clear(&namespace.name))
}

/// Sysctls that must be set before interfaces arrive.
fn prepare(namespace: &Namespace) -> Result<()> {
    for sysctl in &namespace.sysctls {
        run("ip", &["netns", "exec", &namespace.name, "sysctl", "-qw", sysctl], None)?;
    }
    Ok(())
}

/// Sets RPS: every receive queue of `device` passes its packets to the CPUs of `mask`. `ip netns
/// exec` mounts a sysfs that shows the interfaces of the namespace.
fn steer(namespace: &str, device: &str, mask: &str) -> Result<()> {
    let set = format!(
        // The redirection is done by the shell inside the namespace: `sysfs` shows its own
        // interfaces only there.
        "for queue in /sys/class/net/{device}/queues/rx-*; do echo {mask} > $queue/rps_cpus || \
            exit 1; done"
    );
    run("ip", &["netns", "exec", namespace, "sh", "-c", &set], None).map(drop)
}

/// Sets the shortest time between two receive interrupts of `device`, with GRO: only a polled
/// interface has interrupts that can be deferred.
fn mitigate(namespace: &str, device: &str, interval: Nanos) -> Result<()> {
    /// Polls without a packet before interrupts are enabled again; the timer ends the wait sooner.
    const DEFERRED: u32 = 1000;
    run("ip", &["netns", "exec", namespace, "ethtool", "-K", device, "gro", "on"], None)?;
    let folder = format!("/sys/class/net/{device}");
    let set = format!(
        "echo {DEFERRED} > {folder}/napi_defer_hard_irqs && \
            echo {} > {folder}/gro_flush_timeout",
        interval.0
    );
    run("ip", &["netns", "exec", namespace, "sh", "-c", &set], None).map(drop)
}

fn furnish(namespace: &Namespace) -> Result<()> {
    run("ip", &["-n", &namespace.name, "-batch", "-"], Some(&namespace.ip))?;
    if !namespace.bridge.is_empty() {
        run("bridge", &["-n", &namespace.name, "-batch", "-"], Some(&namespace.bridge))?;
    }
    for device in &namespace.offloads_off {
        let mut arguments = vec!["netns", "exec", &namespace.name, "ethtool", "-K", device];
        for offload in SEGMENTATION_OFFLOADS {
            arguments.extend([offload, "off"]);
        }
        run("ip", &arguments, None)?;
    }
    for device in &namespace.checksums_on {
        // A veth hands checksums on unfinished. The thread in between cannot finish them.
        run("ip", &["netns", "exec", &namespace.name, "ethtool", "-K", device, "tx", "off"], None)?;
    }
    for (device, mask) in &namespace.steered {
        steer(&namespace.name, device, mask)?;
    }
    for (device, interval) in &namespace.mitigated {
        mitigate(&namespace.name, device, *interval)?;
    }
    // Shapers come last: `tc` needs the interfaces up and their offloads decided.
    if !namespace.tc.is_empty() {
        run("tc", &["-n", &namespace.name, "-batch", "-"], Some(&namespace.tc))?;
    }
    Ok(())
}
