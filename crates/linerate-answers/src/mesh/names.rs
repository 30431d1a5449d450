//! Names of the parts of a fleet.

use linerate_analysis::mesh::Culprit;

/// Names of hosts and groups, by number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Names<'a> {
    pub(super) hosts: &'a [String],
    pub(super) groups: &'a [String],
}

impl<'a> Names<'a> {
    /// Returns the culprit as a person names it.
    pub(super) fn of(self, culprit: Culprit) -> String {
        let (host, group) = (|host: usize| &self.hosts[host], |group: usize| &self.groups[group]);
        match culprit {
            Culprit::Host(one) => format!("host {}", host(one)),
            Culprit::Sending(one) => format!("the send side of host {}", host(one)),
            Culprit::Receiving(one) => format!("the receive side of host {}", host(one)),
            Culprit::Between(a, b) => format!("the pair {} and {}", host(a), host(b)),
            Culprit::OneWay(a, b) => format!("the direction from {} to {}", host(a), host(b)),
            Culprit::Uplink(one) => format!("the uplink of group {}", group(one)),
            Culprit::Groups(a, b) => {
                format!("the path between groups {} and {}", group(a), group(b))
            }
        }
    }

    /// Returns the kind of the culprit and the names of its hosts or groups, as the JSON has them.
    pub(super) fn parts(self, culprit: Culprit) -> (&'static str, Vec<&'a str>) {
        let (host, group) =
            (|host: usize| self.hosts[host].as_str(), |group: usize| self.groups[group].as_str());
        match culprit {
            Culprit::Host(one) => ("host", vec![host(one)]),
            Culprit::Sending(one) => ("send side", vec![host(one)]),
            Culprit::Receiving(one) => ("receive side", vec![host(one)]),
            Culprit::Between(a, b) => ("pair", vec![host(a), host(b)]),
            Culprit::OneWay(a, b) => ("direction", vec![host(a), host(b)]),
            Culprit::Uplink(one) => ("uplink", vec![group(one)]),
            Culprit::Groups(a, b) => ("groups", vec![group(a), group(b)]),
        }
    }
}
