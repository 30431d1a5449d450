//! Part of a host that a campaign uses, so that others may use the rest meanwhile.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::PathBuf;

use linerate_load::{Takes, Workload};
use linerate_model::{Endpoint, Params, SERVER_PARAMETER};
use serde::{Deserialize, Serialize};

/// Part of a host that a campaign uses. Only a campaign whose every load is pinned to CPUs has one:
/// others use the whole host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// CPUs of its loads.
    pub cpus: BTreeSet<usize>,
    /// Addresses that its data comes from and goes to.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub addresses: BTreeSet<IpAddr>,
    /// Interfaces that it names.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub devices: BTreeSet<String>,
    /// True if data goes to the address of the control connection.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub control: bool,
    /// Files, folders and block devices.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub paths: BTreeSet<PathBuf>,
}

/// End of a job at the host.
pub(crate) type LoadEnd<'a> = (&'a Endpoint, &'a str, &'a Params);

/// Word for the interface of the endpoint, where a job names one.
const OWN_INTERFACE: &str = "endpoint";
/// Workload without an interface.
const OF_DISKS: &str = "storage";

impl Share {
    /// Returns the share of a campaign with these `ends` of jobs at the host; `None` if it uses
    /// the whole host.
    pub(crate) fn of<'a>(
        ends: impl IntoIterator<Item = LoadEnd<'a>>,
        workloads: fn(&str) -> Option<&'static dyn Workload>,
    ) -> Option<Self> {
        let mut share = Self::default();
        for (end, workload, params) in ends {
            // The active end drives a server without an agent; its other end does nothing here.
            if !end.has_agent() {
                continue;
            }
            let has_no_interface = end.address.is_none() && end.device.is_none();
            // The kernel chooses the interface of connections to a server without an agent.
            let is_open = has_no_interface && params.get(SERVER_PARAMETER).is_some();
            if !end.pin || is_open {
                return None;
            }
            share.cpus.extend(&end.cpus);
            share.paths.extend(paths(workloads(workload)?, params));
            if workload == OF_DISKS {
                continue;
            }
            let named = params.get("device").and_then(|device| device.as_str());
            share.devices.extend(named.filter(|name| *name != OWN_INTERFACE).map(str::to_owned));
            share.devices.extend(end.device.iter().chain(&end.branches).chain(&end.ncsi).cloned());
            share.addresses.extend(end.address);
            share.control |= has_no_interface;
        }
        (!share.cpus.is_empty()).then_some(share)
    }
}

/// Returns the paths among `params`, also those that are not given and have a default.
fn paths(workload: &dyn Workload, params: &Params) -> Vec<PathBuf> {
    let parameters = workload.parameters().into_iter();
    let of_paths = parameters.filter(|parameter| matches!(parameter.takes, Takes::Path { .. }));
    let values = of_paths.filter_map(|parameter| {
        params.get(parameter.name).cloned().or_else(|| parameter.default_value())
    });
    values.filter_map(|value| value.as_str().map(PathBuf::from)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(cpus: &[usize], address: Option<&str>) -> Endpoint {
        let address = address.map(|text| text.parse().expect("an address"));
        Endpoint { cpus: cpus.to_vec(), pin: true, address, ..Endpoint::named("a", "h") }
    }

    fn share(ends: &[(Endpoint, &str, Params)]) -> Option<Share> {
        let ends = ends.iter().map(|(end, workload, params)| (end, *workload, params));
        Share::of(ends, linerate_load::workload)
    }

    fn params(given: &[(&str, &str)]) -> Params {
        let mut params = Params::default();
        given.iter().for_each(|(name, value)| params.set(name, *value));
        params
    }

    #[test]
    fn a_campaign_that_is_pinned_says_what_it_uses_and_any_other_has_the_whole_host() {
        let network =
            (end(&[1, 2], Some("192.0.2.7")), "tcp_stream", params(&[("device", "eth3")]));
        let disk = (end(&[3], None), "storage", params(&[("target", "/dev/sdb")]));
        let expected = Share {
            cpus: [1, 2, 3].into(),
            addresses: ["192.0.2.7".parse().expect("an address")].into(),
            devices: ["eth3".to_owned()].into(),
            control: false,
            paths: ["/dev/sdb".into()].into(),
        };
        assert_eq!(share(&[network.clone(), disk.clone()]), Some(expected));
        let free = (Endpoint { pin: false, ..end(&[], None) }, "tcp_rr", params(&[]));
        assert_eq!(share(&[network, free]), None);
        assert_eq!(share(&[(end(&[1], None), "unheard_of", params(&[]))]), None);
        assert_eq!(share(&[]), None);
    }

    #[test]
    fn a_job_with_a_server_that_has_no_agent_uses_an_interface_that_it_must_name() {
        let to_server = params(&[(SERVER_PARAMETER, "iperf3://192.0.2.9")]);
        let server = Endpoint::named("iperf3://192.0.2.9", "iperf3://192.0.2.9");
        let job = |address| {
            let active = (end(&[1], address), "iperf3", to_server.clone());
            // An agent gets both ends.
            share(&[active, (server.clone(), "iperf3", to_server.clone())])
        };
        let found = job(Some("192.0.2.7")).expect("its active end is pinned");
        assert_eq!((found.cpus, found.addresses.len()), ([1].into(), 1));
        assert_eq!(job(None), None);
    }

    #[test]
    fn defaults_count_and_an_end_without_an_address_uses_that_of_the_control_connection() {
        let own = [("device", OWN_INTERFACE)];
        let found = share(&[(end(&[0], None), "tcp_stream", params(&own))]).expect("it is pinned");
        assert_eq!((found.control, found.devices.len(), found.paths.len()), (true, 0, 0));
        let found = share(&[(end(&[0], None), "storage", params(&[]))]).expect("it is pinned");
        assert_eq!((found.control, found.paths), (false, ["/var/tmp".into()].into()));
    }
}
