//! A Debian package.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::content::{Programs, Tree, epoch};
use super::target::Target;
use super::{ABOUT, SUMMARY};
use crate::tools::printed;

/// Packs `programs` of `target`; returns the package, in `out`.
pub(super) fn package(
    root: &Path,
    out: &Path,
    target: &Target,
    programs: &Programs,
) -> anyhow::Result<PathBuf> {
    let version = env!("CARGO_PKG_VERSION");
    let name = format!("linerate_{version}_{}", target.debian);
    let tree = Tree::new(out.join(&name))?;
    tree.put_all(root, programs, "lib/systemd/system", "vendor-completions")?;
    let control = control(version, target, programs.size()?);
    tree.put("DEBIAN/control", control.as_bytes(), 0o644)?;
    let package = out.join(format!("{name}.deb"));
    let mut pack = Command::new("dpkg-deb");
    pack.args(["--root-owner-group", "--build"]).arg(tree.path()).arg(&package);
    printed(pack.env("SOURCE_DATE_EPOCH", epoch(root)?.to_string()))?;
    Ok(package)
}

/// Returns the control file of the package, whose programs have `size` bytes (deb-control(5)).
fn control(version: &str, target: &Target, size: u64) -> String {
    format!(
        "Package: linerate\n\
         Version: {version}\n\
         Architecture: {}\n\
         Maintainer: The linerate authors <linerate@localhost>\n\
         Installed-Size: {}\n\
         Section: net\n\
         Priority: optional\n\
         Recommends: iproute2, ethtool\n\
         Description: {SUMMARY}\n {}\n",
        target.debian,
        size.div_ceil(1024),
        ABOUT.replace('\n', "\n ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dist::target::BMC;

    /// Packs short texts as the programs, and unpacks the package.
    #[test]
    fn the_package_leads_from_the_names_of_other_programs_to_linerate() {
        if Command::new("dpkg-deb").arg("--version").output().is_err() {
            let test = "the_package_leads_from_the_names_of_other_programs_to_linerate";
            println!("skipped: {test}: needs dpkg-deb");
            return;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
        let linerate = folder.path().join("program");
        std::fs::write(&linerate, "a program").expect("a file");
        let programs = Programs { agent: linerate.clone(), linerate, of_host: "/bin/echo".into() };
        let package = package(root, folder.path(), BMC, &programs).expect("a package");
        let seen = folder.path().join("seen");
        printed(Command::new("dpkg-deb").arg("-x").arg(&package).arg(&seen)).expect("unpacked");
        for name in ["iperf3", "netperf", "netserver"] {
            let link = seen.join("usr/libexec/linerate").join(name);
            assert_eq!(std::fs::read_to_string(link).expect("it leads there"), "a program");
        }
    }

    #[test]
    fn the_control_file_has_the_fields_that_dpkg_needs() {
        let text = control("0.2.0", BMC, 4_000_001);
        for line in ["Package: linerate", "Architecture: armhf", "Installed-Size: 3907"] {
            assert!(text.lines().any(|one| one == line), "{line}: {text}");
        }
        let folded = text.lines().skip_while(|line| !line.starts_with("Description"));
        assert!(folded.skip(1).all(|line| line.starts_with(' ')), "{text}");
    }
}
