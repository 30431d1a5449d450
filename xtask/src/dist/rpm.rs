//! A package for hosts with RPM.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use super::content::{Programs, Tree, epoch};
use super::target::Target;
use super::{ABOUT, SUMMARY};
use crate::tools::printed;

/// Settings of rpmbuild: the programs are stripped and static, and a package of one commit has the
/// same bytes whenever it is made.
const SETTINGS: [&str; 6] = [
    "__os_install_post %{nil}",
    "_build_id_links none",
    "_buildhost linerate",
    "use_source_date_epoch_as_buildtime 1",
    "clamp_mtime_to_source_date_epoch 1",
    "source_date_epoch_from_changelog 0",
];

/// Packs `programs` of `target`; returns the package, in `out`.
pub(super) fn package(
    root: &Path,
    out: &Path,
    target: &Target,
    programs: &Programs,
) -> anyhow::Result<PathBuf> {
    let version = env!("CARGO_PKG_VERSION");
    let tree = Tree::new(out.join(format!("rpm-{}", target.rpm)))?;
    tree.put_all(root, programs, "usr/lib/systemd/system", "site-functions")?;
    let work = Tree::new(out.join(format!("rpmbuild-{}", target.rpm)))?;
    let spec = spec(version, tree.path(), &tree.files()?);
    work.put("linerate.spec", spec.as_bytes(), 0o644)?;
    let mut pack = Command::new("rpmbuild");
    pack.args(["-bb", "--quiet", "--target", target.rpm]);
    pack.arg("--define").arg(format!("_topdir {}", work.path().display()));
    for setting in SETTINGS {
        pack.args(["--define", setting]);
    }
    pack.arg(work.path().join("linerate.spec"));
    printed(pack.env("SOURCE_DATE_EPOCH", epoch(root)?.to_string()))?;
    let name = format!("linerate-{version}-1.{}.rpm", target.rpm);
    let package = out.join(&name);
    fs::copy(work.path().join("RPMS").join(target.rpm).join(&name), &package)
        .with_context(|| format!("copy {name}"))?;
    Ok(package)
}

/// Returns the specification of a package with `files`, which are copied from `tree`.
fn spec(version: &str, tree: &Path, files: &[String]) -> String {
    format!(
        "Name: linerate\n\
         Version: {version}\n\
         Release: 1\n\
         Summary: {SUMMARY}\n\
         License: MIT OR Apache-2.0\n\
         Recommends: iproute ethtool\n\
         AutoReqProv: no\n\
         \n\
         %description\n\
         {ABOUT}\n\
         \n\
         %install\n\
         cp -a {}/. %{{buildroot}}\n\
         \n\
         %files\n\
         %defattr(-,root,root)\n\
         {}\n",
        tree.display(),
        files.iter().map(|file| marked(file)).collect::<Vec<_>>().join("\n")
    )
}

/// Returns the line of `file` in the list of files: RPM shows licenses on request.
fn marked(file: &str) -> String {
    let mark = if file.contains("/LICENSE") { "%license " } else { "" };
    format!("{mark}{file}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_specification_lists_every_file_once() {
        let files = ["/usr/bin/linerate", "/usr/share/doc/linerate/LICENSE-MIT"].map(str::to_owned);
        let text = spec("0.2.0", Path::new("/tree"), &files);
        let (_, list) = text.split_once("%defattr(-,root,root)\n").expect("a list");
        assert_eq!(list, "/usr/bin/linerate\n%license /usr/share/doc/linerate/LICENSE-MIT\n");
        assert!(text.contains("cp -a /tree/. %{buildroot}\n"), "{text}");
        assert!(text.contains("\n%description\nlinerate measures"), "{text}");
    }
}
