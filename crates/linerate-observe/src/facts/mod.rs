//! Facts of this host: the config record of
//! docs/methodology/papers.md#record-of-a-host, as one JSON tree.
//!
//! They are read once a campaign, in well under 300 ms, without starting another program. Names end
//! in their unit where there is one (`_hz`, `_bytes`, `_bps`: bit/s). Not seen: MAC addresses (left
//! out on purpose), memory channels, switches between hosts, and the hardware that a hypervisor
//! hides.

mod block;
mod cgroup;
mod config_space;
mod cpu;
mod interface;
mod kernel;
mod memory;
pub use memory::available_memory;
mod net;
mod pcie;
mod privileges;
mod root;

use std::path::PathBuf;

use serde_json::{Value, json};

use root::Root;

/// Reads `bytes`, whatever they are, by every reader of facts that goes beyond a single value;
/// returns the members of the kernel list they may be. For the fuzzer and the property test, which
/// share it.
#[doc(hidden)]
#[must_use]
pub fn read_any(bytes: &[u8]) -> Option<Vec<usize>> {
    let text = String::from_utf8_lossy(bytes);
    memory::read_any(bytes, &text);
    config_space::read_any(bytes);
    linerate_model::cpu_list(&text)
}

/// Reads every fact of this host, in the network namespace of the calling thread. A fact that
/// cannot be read is `{"unavailable": "why"}`, never left out.
#[must_use]
pub fn facts() -> Value {
    let root = Root(PathBuf::from("/"));
    json!({
        "host": kernel::host(&root),
        "clock": kernel::clock(&root),
        "kernel": kernel::kernel(&root),
        "os": kernel::os(&root),
        "cpu": cpu::cpu(&root),
        "memory": memory::memory(&root),
        "cgroup": cgroup::cgroup(&root),
        "net": net::net(&root),
        "interfaces": interface::interfaces(&root),
        "pcie": pcie::pcie(&root),
        "block": block::block(&root),
        "limits": privileges::limits(),
        "privileges": privileges::privileges(&root),
        "tools": privileges::tools(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_room_is_there_and_nothing_is_null() {
        fn look(path: &str, value: &Value) {
            match value {
                Value::Null => panic!("{path} is null: say why it is unavailable"),
                Value::Object(members) => {
                    members.iter().for_each(|(key, value)| look(&format!("{path}.{key}"), value))
                }
                Value::Array(items) => items.iter().for_each(|value| look(path, value)),
                _ => {}
            }
        }
        let facts = facts();
        look("", &facts);
        for key in [
            "host",
            "kernel",
            "os",
            "cpu",
            "memory",
            "cgroup",
            "net",
            "interfaces",
            "pcie",
            "block",
        ] {
            assert!(facts[key].is_object() || facts[key].is_array(), "{key}");
        }
        assert!(facts["interfaces"]["lo"]["mtu"].as_u64().unwrap() > 0);
        assert!(facts["cpu"]["count"].as_u64().unwrap() >= 1);
    }
}
