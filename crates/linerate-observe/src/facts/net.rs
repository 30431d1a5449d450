//! Network settings of the calling thread's namespace that move a result: the sysctls of
//! `/proc/sys/net` (networking/ip-sysctl). Buffer sizes are bytes: minimum, default, maximum.

use serde_json::{Map, Value};

use super::root::Root;

/// Our key and the file below `/proc/sys/net`.
const SYSCTLS: &[(&str, &str)] = &[
    ("available_congestion_control", "ipv4/tcp_available_congestion_control"),
    ("allowed_congestion_control", "ipv4/tcp_allowed_congestion_control"),
    ("busy_poll_us", "core/busy_poll"),
    ("busy_read_us", "core/busy_read"),
    ("congestion_control", "ipv4/tcp_congestion_control"),
    ("default_qdisc", "core/default_qdisc"),
    ("dev_weight", "core/dev_weight"),
    ("ip_forward", "ipv4/ip_forward"),
    ("ip_local_port_range", "ipv4/ip_local_port_range"),
    ("ipv6_disabled", "ipv6/conf/all/disable_ipv6"),
    ("netdev_budget", "core/netdev_budget"),
    ("netdev_budget_usecs", "core/netdev_budget_usecs"),
    ("netdev_max_backlog", "core/netdev_max_backlog"),
    ("optmem_max", "core/optmem_max"),
    ("rmem_default", "core/rmem_default"),
    ("rmem_max", "core/rmem_max"),
    ("rps_sock_flow_entries", "core/rps_sock_flow_entries"),
    ("somaxconn", "core/somaxconn"),
    ("tcp_adv_win_scale", "ipv4/tcp_adv_win_scale"),
    ("tcp_autocorking", "ipv4/tcp_autocorking"),
    ("tcp_ecn", "ipv4/tcp_ecn"),
    ("tcp_limit_output_bytes", "ipv4/tcp_limit_output_bytes"),
    ("tcp_mem_pages", "ipv4/tcp_mem"),
    ("tcp_moderate_rcvbuf", "ipv4/tcp_moderate_rcvbuf"),
    ("tcp_mtu_probing", "ipv4/tcp_mtu_probing"),
    ("tcp_no_metrics_save", "ipv4/tcp_no_metrics_save"),
    ("tcp_notsent_lowat", "ipv4/tcp_notsent_lowat"),
    ("tcp_recovery", "ipv4/tcp_recovery"),
    ("tcp_rmem", "ipv4/tcp_rmem"),
    ("tcp_sack", "ipv4/tcp_sack"),
    ("tcp_slow_start_after_idle", "ipv4/tcp_slow_start_after_idle"),
    ("tcp_timestamps", "ipv4/tcp_timestamps"),
    ("tcp_tw_reuse", "ipv4/tcp_tw_reuse"),
    ("tcp_window_scaling", "ipv4/tcp_window_scaling"),
    ("tcp_wmem", "ipv4/tcp_wmem"),
    ("udp_mem_pages", "ipv4/udp_mem"),
    ("wmem_default", "core/wmem_default"),
    ("wmem_max", "core/wmem_max"),
];

pub(super) fn net(root: &Root) -> Value {
    // Some values are lists of three numbers and some are words: `number` keeps each as it is.
    let read = |&(key, file): &(&str, &str)| {
        (key.to_owned(), root.number(&format!("proc/sys/net/{file}")))
    };
    Value::Object(SYSCTLS.iter().map(read).collect::<Map<_, _>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn buffers_are_triples_and_names_stay_text() {
        let net =
            net(&Root(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/sysfs-two-ports").into()));
        assert_eq!(net["tcp_rmem"], json!([4096, 131_072, 6_291_456]));
        assert_eq!(
            (&net["congestion_control"], &net["rmem_max"]),
            (&json!("cubic"), &json!(212_992))
        );
        assert!(net["busy_poll_us"]["unavailable"].is_string());
    }
}
