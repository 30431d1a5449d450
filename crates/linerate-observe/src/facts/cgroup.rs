//! Limits of this process's control groups: CPU quota and CPU set (cgroup v2,
//! admin-guide/cgroup-v2).
//!
//! A limit of any group above this process applies, so the tightest of the chain is the one that
//! counts. Limits set above a container's own view are not seen.

use serde_json::{Value, json};

use super::root::{Root, unavailable};

pub(super) fn cgroup(root: &Root) -> Value {
    const MOUNT: &str = "sys/fs/cgroup";
    let membership = match root.text("proc/self/cgroup") {
        Ok(text) => text,
        Err(why) => return json!({ "cpu_quota_cores": why, "cpuset": why }),
    };
    let Some(own) = membership.lines().find_map(|line| line.strip_prefix("0::")) else {
        let why = unavailable("no cgroup v2 hierarchy");
        return json!({ "cpu_quota_cores": why, "cpuset": why });
    };
    // A limit of a group above applies as well, so the walk goes up to the root.
    let mut folder = own.trim_matches('/');
    let mut quota: Option<f64> = None;
    let mut readable = false;
    loop {
        if let Ok(text) = root.text(&format!("{MOUNT}/{folder}/cpu.max")) {
            readable = true;
            quota = [quota, cores(&text)].into_iter().flatten().reduce(f64::min);
        }
        match folder.rsplit_once('/') {
            Some((above, _)) => folder = above,
            None if folder.is_empty() => break,
            None => folder = "",
        }
    }
    json!({
        "path": own,
        "cpu_quota_cores": match quota {
            Some(cores) => json!(cores),
            // The root group has no cpu.max: being in it is having no quota.
            None if readable || own == "/" => json!("unlimited"),
            None => unavailable("no cpu.max in this group or above: the cpu controller is not \
                enabled"),
        },
        "cpuset": match own.trim_matches('/') {
            // The root group has this file at the mount itself.
            "" => root.string(&format!("{MOUNT}/cpuset.cpus.effective")),
            group => root.string(&format!("{MOUNT}/{group}/cpuset.cpus.effective")),
        },
    })
}

/// `max 100000` is no limit, `150000 100000` is 1.5 cores.
fn cores(cpu_max: &str) -> Option<f64> {
    let (quota, period) = cpu_max.split_once(' ')?;
    Some(quota.parse::<f64>().ok()? / period.parse::<f64>().ok().filter(|&period| period > 0.0)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tightest_quota_of_the_chain_binds() {
        let root = Root(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/sysfs-two-ports").into());
        let cgroup = cgroup(&root);
        assert_eq!((&cgroup["cpu_quota_cores"], &cgroup["cpuset"]), (&json!(1.5), &json!("0-3")));
    }

    #[test]
    fn max_is_no_limit() {
        assert_eq!(
            (cores("max 100000"), cores("50000 100000"), cores("1 0")),
            (None, Some(0.5), None)
        );
    }
}
