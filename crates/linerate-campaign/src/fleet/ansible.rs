//! The hosts of an inventory of Ansible, which Ansible reads itself.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::{FleetHost, printed};
use crate::{Failure, Result};

/// Variables of ours: the address that data goes to where it is not that of ssh, and the group of
/// a host where the groups of the inventory are not racks.
const ADDRESS: &str = "linerate_address";
const GROUP: &str = "linerate_group";

/// Returns the hosts of `inventory`: a file of any format, a folder or a program.
///
/// # Errors
/// If Ansible cannot read it, there is no host, or one is reached by a way that is unknown here.
pub(super) fn of_ansible(inventory: &Path) -> Result<Vec<FleetHost>> {
    let mut list = Command::new("ansible-inventory");
    list.arg("--inventory").arg(inventory).arg("--list");
    let text = printed("--ansible", &mut list)?;
    let read: Value = serde_json::from_str(&text).map_err(|error| {
        Failure::missing(format!("mesh --ansible: ansible-inventory printed no JSON: {error}"))
    })?;
    of_list(&read)
}

/// Returns the hosts of an inventory that `ansible-inventory --list` printed.
fn of_list(list: &Value) -> Result<Vec<FleetHost>> {
    let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (group, content) in list.as_object().into_iter().flatten() {
        let hosts = content["hosts"].as_array();
        for host in hosts.into_iter().flatten().filter_map(Value::as_str) {
            groups.entry(host).or_default().push(group);
        }
    }
    if groups.is_empty() {
        return Err(Failure::wrong("mesh --ansible: the inventory names no host"));
    }
    let variables = |host: &str| &list["_meta"]["hostvars"][host];
    let has_own = groups.keys().any(|host| !variables(host)[GROUP].is_null());
    // Hosts in several groups, such as `web` and `rack1`, are not sorted into racks by them.
    let are_racks = groups.values().all(|groups| groups.len() == 1);
    groups
        .iter()
        .map(|(host, groups)| {
            let variables = variables(host);
            let group = match groups[..] {
                _ if has_own => word(&variables[GROUP]),
                [group] if are_racks && group != "ungrouped" => Some(group.to_owned()),
                _ => None,
            };
            of_variables(host, variables, group)
        })
        .collect()
}

/// Returns the host with these `variables`.
fn of_variables(name: &str, variables: &Value, group: Option<String>) -> Result<FleetHost> {
    let known = |key: &str| word(&variables[key]);
    let host = known("ansible_host").unwrap_or_else(|| name.to_owned());
    let reach: Vec<String> = match known("ansible_connection").as_deref() {
        None | Some("ssh" | "smart" | "paramiko" | "paramiko_ssh") => ssh(name, &host, variables)?,
        Some("local") => vec!["env".to_owned()],
        Some("podman" | "containers.podman.podman") => exec("podman", &host),
        Some("docker" | "community.docker.docker") => exec("docker", &host),
        Some(other) => {
            return Err(Failure::wrong(format!(
                "mesh --ansible: {name} is reached by {other}; say how here, for all hosts: \
                    --reach COMMAND"
            )));
        }
    };
    let address = known(ADDRESS).or(Some(host));
    Ok(FleetHost { name: name.to_owned(), address, group, reach: Some(reach) })
}

fn exec(engine: &str, container: &str) -> Vec<String> {
    [engine, "exec", "-i", container].map(str::to_owned).to_vec()
}

/// Returns the ssh command that Ansible would use.
fn ssh(name: &str, host: &str, variables: &Value) -> Result<Vec<String>> {
    let known = |keys: &[&str]| keys.iter().find_map(|key| word(&variables[*key]));
    let mut words = ["ssh", "-o", "BatchMode=yes"].map(str::to_owned).to_vec();
    for (option, keys) in [
        ("-p", &["ansible_port", "ansible_ssh_port"][..]),
        ("-l", &["ansible_user", "ansible_ssh_user"]),
        ("-i", &["ansible_ssh_private_key_file", "ansible_private_key_file"]),
    ] {
        if let Some(value) = known(keys) {
            words.extend([option.to_owned(), value]);
        }
    }
    for key in ["ansible_ssh_common_args", "ansible_ssh_extra_args"] {
        let Some(text) = known(&[key]) else { continue };
        words.extend(shlex::split(&text).ok_or_else(|| {
            Failure::wrong(format!("mesh --ansible: {name}: {key}: a quote is not closed"))
        })?);
    }
    if let Some(template) = words.iter().find(|word| word.contains("{{")) {
        return Err(Failure::wrong(format!(
            "mesh --ansible: {name}: {template} is a template, which only a play can fill; say how \
                hosts are reached here: --reach COMMAND"
        )));
    }
    words.extend(["--".to_owned(), host.to_owned()]);
    Ok(words)
}

/// Returns a variable that is a text or a number.
fn word(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn reach(host: &FleetHost) -> String {
        host.reach.as_ref().expect("a command").join(" ")
    }

    /// As ansible-inventory 2.14 prints an inventory whose groups overlap.
    fn overlapping() -> Value {
        let jump = "-o 'ProxyJump=jump host' -4";
        json!({
            "_meta": { "hostvars": {
                "c1": { "ansible_connection": "podman", "ansible_host": "web1" },
                "n1": { "ansible_host": "192.0.2.1", "ansible_port": 2222, "ansible_user": "ops",
                    "ansible_ssh_common_args": jump, "linerate_address": "198.51.100.1" },
                "n2": { "ansible_ssh_private_key_file": "/k" },
                "n3": { "ansible_connection": "local" },
            } },
            "all": { "children": ["ungrouped", "web", "rack1", "rack2"] },
            "rack1": { "hosts": ["n1", "n2"] },
            "rack2": { "hosts": ["n3", "c1"] },
            "web": { "hosts": ["n1", "n2"] },
        })
    }

    #[test]
    fn hosts_are_reached_as_ansible_would_reach_them() {
        let hosts = of_list(&overlapping()).expect("four hosts");
        let names: Vec<&str> = hosts.iter().map(|host| host.name.as_str()).collect();
        assert_eq!(names, ["c1", "n1", "n2", "n3"]);
        assert_eq!(reach(&hosts[0]), "podman exec -i web1");
        let n1 = "ssh -o BatchMode=yes -p 2222 -l ops -o ProxyJump=jump host -4 -- 192.0.2.1";
        assert_eq!(reach(&hosts[1]), n1);
        assert_eq!(hosts[1].address.as_deref(), Some("198.51.100.1"));
        assert_eq!(reach(&hosts[2]), "ssh -o BatchMode=yes -i /k -- n2");
        assert_eq!(hosts[2].address.as_deref(), Some("n2"));
        assert_eq!(reach(&hosts[3]), "env");
    }

    #[test]
    fn groups_are_racks_if_no_host_is_in_two() {
        let groups = |list: &Value| -> Vec<Option<String>> {
            of_list(list).expect("hosts").into_iter().map(|host| host.group).collect()
        };
        let mut list = overlapping();
        assert_eq!(groups(&list), [None, None, None, None]);
        list.as_object_mut().expect("an object").remove("web");
        let some = |name: &str| Some(name.to_owned());
        assert_eq!(groups(&list), [some("rack2"), some("rack1"), some("rack1"), some("rack2")]);
        list["ungrouped"] = list["rack2"].take();
        assert_eq!(groups(&list), [None, some("rack1"), some("rack1"), None]);
        // Said for one host, it is meant for all.
        list["_meta"]["hostvars"]["n2"]["linerate_group"] = json!("left");
        assert_eq!(groups(&list), [None, None, some("left"), None]);
    }

    #[test]
    fn a_host_that_cannot_be_reached_is_named() {
        for (key, value, part) in [
            ("ansible_connection", "winrm", "n1 is reached by winrm"),
            ("ansible_user", "{{ who }}", "{{ who }} is a template"),
            ("ansible_ssh_extra_args", "-o 'x", "ansible_ssh_extra_args: a quote"),
        ] {
            let mut list = overlapping();
            list["_meta"]["hostvars"]["n1"][key] = json!(value);
            let message = of_list(&list).expect_err(part).message().to_owned();
            assert!(message.contains(part), "{message}");
        }
        let nobody = of_list(&json!({ "_meta": { "hostvars": {} }, "all": { "children": [] } }));
        assert!(nobody.expect_err("nobody").message().contains("names no host"));
    }
}
