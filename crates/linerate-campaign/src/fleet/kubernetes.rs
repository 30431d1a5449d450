//! The pods of agents in a cluster of Kubernetes.

use std::process::Command;

use serde_json::Value;

use super::{Absent, FleetHost, printed};
use crate::{Failure, Result};

/// Returns the nodes on which pods with the labels of `selector` run, in the namespace and the
/// cluster of the present context of kubectl, and those on which such a pod does not run.
///
/// # Errors
/// If kubectl fails, or no such pod runs.
pub(super) fn of_kubernetes(selector: &str) -> Result<(Vec<FleetHost>, Vec<Absent>)> {
    let mut get = Command::new("kubectl");
    get.args(["get", "pods", "--output", "json", "--selector", selector]);
    let text = printed("--kubernetes", &mut get)?;
    let pods: Value = serde_json::from_str(&text).map_err(|error| {
        Failure::missing(format!("mesh --kubernetes: kubectl printed no JSON: {error}"))
    })?;
    of_pods(&pods, selector)
}

/// Returns the hosts of a list of pods.
fn of_pods(pods: &Value, selector: &str) -> Result<(Vec<FleetHost>, Vec<Absent>)> {
    let pods = pods["items"].as_array().map_or(&[][..], Vec::as_slice);
    let (mut hosts, mut absent) = (Vec::new(), Vec::new());
    for pod in pods {
        match of_pod(pod) {
            Ok(host) => hosts.push(host),
            Err(one) => absent.push(one),
        }
    }
    hosts.sort_by(|one, other| one.name.cmp(&other.name));
    // A pod that has ended may still be listed beside the one that replaced it.
    absent.retain(|one| hosts.iter().all(|host| host.name != one.host));
    absent.sort_by(|one, other| one.host.cmp(&other.host));
    absent.dedup_by(|one, other| one.host == other.host);
    if let Some(twice) = hosts.windows(2).find(|two| two[0].name == two[1].name) {
        return Err(Failure::wrong(format!(
            "mesh --kubernetes: the node {} has two pods with the labels {selector}; a mesh has \
                one agent a node",
            twice[0].name
        )));
    }
    if let (true, Some(Absent { why, .. })) = (hosts.is_empty(), absent.first()) {
        let message = format!("mesh --kubernetes: no pod with the labels {selector} runs: {why}");
        return Err(Failure::missing(message));
    }
    if hosts.is_empty() {
        return Err(Failure::missing(format!(
            "mesh --kubernetes: no pod has the labels {selector}; create them: \
                `kubectl apply -f packaging/kubernetes/agents.yaml`"
        )));
    }
    Ok((hosts, absent))
}

/// Returns the host that a pod is an agent of, if it runs.
fn of_pod(pod: &Value) -> Result<FleetHost, Absent> {
    let text = |place: &str| pod.pointer(place).and_then(Value::as_str).map(str::to_owned);
    let name = text("/metadata/name").unwrap_or_default();
    let phase = text("/status/phase").unwrap_or_default();
    let node = text("/spec/nodeName");
    let (Some(node), Some(address), "Running") =
        (node.as_ref(), text("/status/podIP"), phase.as_str())
    else {
        let why =
            format!("the pod {name} does not run ({phase}): see `kubectl describe pod {name}`");
        // A pod that waits has no node yet.
        return Err(Absent { host: node.unwrap_or(name), why });
    };
    let mut reach = ["kubectl", "exec", "--stdin", "--quiet"].map(str::to_owned).to_vec();
    if let Some(namespace) = text("/metadata/namespace") {
        reach.push(format!("--namespace={namespace}"));
    }
    if let Some(container) = text("/spec/containers/0/name") {
        reach.push(format!("--container={container}"));
    }
    reach.extend([name, "--".to_owned()]);
    Ok(FleetHost { name: node.clone(), address: Some(address), group: None, reach: Some(reach) })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, node: &str, phase: &str) -> Value {
        json!({
            "metadata": { "name": name, "namespace": "perf" },
            "spec": { "nodeName": node, "containers": [{ "name": "agent" }] },
            "status": { "phase": phase, "podIP": "192.0.2.1" },
        })
    }

    fn read(pods: &[Value]) -> Result<(Vec<FleetHost>, Vec<Absent>)> {
        of_pods(&json!({ "items": pods }), "app=x")
    }

    #[test]
    fn each_node_is_reached_through_its_pod() {
        let pods = [pod("agent-b", "n2", "Running"), pod("agent-a", "n1", "Running")];
        let (hosts, absent) = read(&pods).expect("two hosts");
        assert_eq!(absent, []);
        assert_eq!(hosts[0].name, "n1");
        assert_eq!(hosts[0].address.as_deref(), Some("192.0.2.1"));
        assert_eq!(
            hosts[0].reach.as_ref().expect("a command").join(" "),
            "kubectl exec --stdin --quiet --namespace=perf --container=agent agent-a --"
        );
    }

    #[test]
    fn pods_that_do_not_run_are_absent_hosts_beside_those_that_do() {
        let mut waits = pod("agent-c", "", "Pending");
        waits["spec"].as_object_mut().expect("an object").remove("nodeName");
        let pods = [
            pod("agent-a", "n1", "Running"),
            pod("agent-b", "n2", "Failed"),
            waits,
            pod("agent-before", "n1", "Succeeded"),
            pod("agent-earlier", "n2", "Failed"),
        ];
        let (hosts, absent) = read(&pods).expect("one host");
        assert_eq!(hosts.iter().map(|host| &host.name[..]).collect::<Vec<_>>(), ["n1"]);
        let absent: Vec<_> = absent.iter().map(|one| (&one.host[..], &one.why[..])).collect();
        assert_eq!(absent.iter().map(|(host, _)| *host).collect::<Vec<_>>(), ["agent-c", "n2"]);
        assert!(absent[1].1.starts_with("the pod agent-b does not run (Failed)"), "{absent:?}");
    }

    #[test]
    fn pods_that_are_no_fleet_are_refused() {
        for (pods, part) in [
            (vec![], "no pod has the labels app=x"),
            (vec![pod("agent-a", "n1", "Pending")], "agent-a does not run (Pending)"),
            (vec![pod("a", "n1", "Running"), pod("b", "n1", "Running")], "n1 has two pods"),
        ] {
            let message = read(&pods).expect_err(part).message().to_owned();
            assert!(message.contains(part), "{message}");
        }
    }
}
