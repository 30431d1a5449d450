//! Names of hosts on the first screen. Between hosts, plans name the ends `a` and `b`; a reader
//! knows the hosts.

use linerate_analysis::Headline;
use linerate_model::{Campaign, HostRecord, TestbedKind};

use crate::commands::HERE;

/// Returns `headline` with the names of hosts in place of endpoints, where each end is a host of
/// its own.
pub(crate) fn of_hosts(mut headline: Headline, campaign: &Campaign) -> Headline {
    if campaign.header.testbed != TestbedKind::Hosts {
        return headline;
    }
    let ends = campaign.trials.iter().flat_map(|trial| &trial.spec.jobs);
    let ends: Vec<_> = ends.flat_map(|job| [&job.from, &job.to]).collect();
    let host_of = |name: &str| Some(ends.iter().find(|end| end.name == name)?.host.clone());
    let (from, to) = (host_of(&headline.from), host_of(&headline.to));
    // Two interfaces of one host differ in their endpoints only.
    if let (Some(from), Some(to)) = (from, to)
        && from != to
    {
        headline.from = called(&from, &campaign.hosts);
        headline.to = called(&to, &campaign.hosts);
        for end in headline.others.iter_mut().flatten() {
            if let Some(host) = host_of(end) {
                *end = called(&host, &campaign.hosts);
            }
        }
    }
    for stage in &mut headline.stages {
        if !stage.host.is_empty() {
            stage.host = called(&stage.host, &campaign.hosts);
        }
    }
    headline.against = headline.against.map(|arm| Box::new(of_hosts(*arm, campaign)));
    headline
}

/// Returns the name that a host has for itself, unless another host of the campaign has the same.
fn called(host: &str, hosts: &[HostRecord]) -> String {
    let own = |record: &HostRecord| Some(record.facts.pointer("/host/name")?.as_str()?.to_owned());
    let name = hosts.iter().find(|record| record.host == host).and_then(own);
    let is_alone = |name: &String| {
        hosts.iter().filter(|record| own(record).as_ref() == Some(name)).count() == 1
    };
    name.filter(|name| !name.is_empty())
        .filter(is_alone)
        .unwrap_or_else(|| by_testbed(host).to_owned())
}

/// Returns the name of `host` in the testbed; "here" alone would be no name in a sentence.
fn by_testbed(host: &str) -> &str {
    if host == HERE { "this host" } else { host }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn host(name: &str, own: &str) -> HostRecord {
        let facts = json!({ "host": { "name": own } });
        HostRecord { host: name.into(), facts, clock_offset_ns: 0, clock_uncertainty_ns: 0 }
    }

    #[test]
    fn a_host_has_its_own_name_unless_two_share_it() {
        assert_eq!(called("here", &[host("here", "")]), "this host");
        let two = [host("here", "alpha"), host("192.0.2.7", "beta")];
        assert_eq!(called("here", &two), "alpha");
        assert_eq!(called("192.0.2.7", &two), "beta");
        let same = [host("here", "vm"), host("192.0.2.7", "vm")];
        assert_eq!(called("192.0.2.7", &same), "192.0.2.7");
        assert_eq!(called("unknown", &two), "unknown");
    }
}
