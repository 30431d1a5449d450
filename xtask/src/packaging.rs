//! Checks of `packaging`: the unit of the agent leaves a service little to do.

use std::process::Command;

/// Most exposure that `systemd-analyze security` may find, in tenths: 0 is none, 100 is a service
/// without any limit.
const MOST_EXPOSURE: &str = "20";

fn exposure_is_low(unit: &std::path::Path) -> Option<(bool, String)> {
    let threshold = format!("--threshold={MOST_EXPOSURE}");
    let arguments = ["security", "--offline=yes", "--no-pager", &threshold];
    let output = Command::new("systemd-analyze").args(arguments).arg(unit).output().ok()?;
    let said = [output.stdout, output.stderr].concat();
    Some((output.status.success(), String::from_utf8_lossy(&said).into_owned()))
}

#[test]
fn the_agents_unit_is_confined_and_a_bare_one_is_not() {
    let unit = crate::repository_root().join("packaging/systemd/linerate-agent.service");
    let Some((is_low, said)) = exposure_is_low(&unit) else {
        println!("skipped: the_agents_unit_is_confined_and_a_bare_one_is_not: no systemd-analyze");
        return;
    };
    assert!(is_low, "{said}");
    let folder = std::env::temp_dir().join(format!("linerate-unit-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let bare = folder.join("bare.service");
    std::fs::write(&bare, "[Service]\nExecStart=/usr/bin/linerate agent\n").expect("a unit");
    let (is_low, said) = exposure_is_low(&bare).expect("it ran before");
    std::fs::remove_dir_all(&folder).expect("the folder is there");
    assert!(!is_low, "{said}");
}
