//! The pods of agents in a cluster of Kubernetes.

use std::process::Command;

use serde_json::Value;

use super::{FleetHost, printed};
use crate::{Failure, Result};

/// Returns the nodes on which pods with the labels of `selector` run, in the namespace and the
/// cluster of the present context of kubectl.
///
/// # Errors
/// If kubectl fails, or a pod does not run yet.
pub fn of_kubernetes(selector: &str) -> Result<Vec<FleetHost>> {
    let mut get = Command::new("kubectl");
    get.args(["get", "pods", "--output", "json", "--selector", selector]);
    let text = printed("--kubernetes", &mut get)?;
    let pods: Value = serde_json::from_str(&text).map_err(|error| {
        Failure::missing(format!("mesh --kubernetes: kubectl printed no JSON: {error}"))
    })?;
    of_pods(&pods, selector)
}

/// Returns the hosts of a list of pods.
fn of_pods(pods: &Value, selector: &str) -> Result<Vec<FleetHost>> {
    let pods = pods["items"].as_array().map_or(&[][..], Vec::as_slice);
    let mut hosts = pods.iter().map(of_pod).collect::<Result<Vec<_>>>()?;
    hosts.sort_by(|one, other| one.name.cmp(&other.name));
    if let Some(twice) = hosts.windows(2).find(|two| two[0].name == two[1].name) {
        return Err(Failure::wrong(format!(
            "mesh --kubernetes: the node {} has two pods with the labels {selector}; a mesh has \
                one agent a node",
            twice[0].name
        )));
    }
    if hosts.is_empty() {
        return Err(Failure::missing(format!(
            "mesh --kubernetes: no pod has the labels {selector}; create them: \
                `kubectl apply -f packaging/kubernetes/agents.yaml`"
        )));
    }
    Ok(hosts)
}

/// Returns the host that a pod is an agent of.
fn of_pod(pod: &Value) -> Result<FleetHost> {
    let text = |place: &str| pod.pointer(place).and_then(Value::as_str).map(str::to_owned);
    let name = text("/metadata/name").unwrap_or_default();
    let phase = text("/status/phase").unwrap_or_default();
    let (Some(node), Some(address), "Running") =
        (text("/spec/nodeName"), text("/status/podIP"), phase.as_str())
    else {
        return Err(Failure::missing(format!(
            "mesh --kubernetes: the pod {name} does not run ({phase}); wait for it or remove it: \
                `kubectl describe pod {name}`"
        )));
    };
    let mut reach = ["kubectl", "exec", "--stdin", "--quiet"].map(str::to_owned).to_vec();
    if let Some(namespace) = text("/metadata/namespace") {
        reach.push(format!("--namespace={namespace}"));
    }
    if let Some(container) = text("/spec/containers/0/name") {
        reach.push(format!("--container={container}"));
    }
    reach.extend([name, "--".to_owned()]);
    Ok(FleetHost { name: node, address: Some(address), group: None, reach: Some(reach) })
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

    fn read(pods: &[Value]) -> Result<Vec<FleetHost>> {
        of_pods(&json!({ "items": pods }), "app=x")
    }

    #[test]
    fn each_node_is_reached_through_its_pod() {
        let pods = [pod("agent-b", "n2", "Running"), pod("agent-a", "n1", "Running")];
        let hosts = read(&pods).expect("two hosts");
        assert_eq!(hosts[0].name, "n1");
        assert_eq!(hosts[0].address.as_deref(), Some("192.0.2.1"));
        assert_eq!(
            hosts[0].reach.as_ref().expect("a command").join(" "),
            "kubectl exec --stdin --quiet --namespace=perf --container=agent agent-a --"
        );
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
