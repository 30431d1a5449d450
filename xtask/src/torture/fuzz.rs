//! Fuzzing on a stable compiler: every parser of what others say gets inputs made from good ones,
//! measured, for a time each.
//!
//! The subjects are tests (`fuzz_*`, by `fuzz/driver.rs`); as part of the test suite each of them
//! runs a few hundred inputs. Here each runs alone for [`SECONDS`], and may neither panic nor take
//! more than 5 s of a CPU or 256 MiB for an input of at most 1 MB (in a development build).

use std::process::Command;

use anyhow::Context;

use super::Bench;

/// How long each subject runs.
const SECONDS: u32 = 60;

/// Name of a test, its package, and the target that it is part of.
static SUBJECTS: [(&str, &str, &[&str]); 15] = [
    ("fuzz_fio_jobs", "linerate-import", &["--lib"]),
    ("fuzz_ftp_commands", "linerate-load", &["--lib"]),
    ("fuzz_ftp_replies", "linerate-load", &["--lib"]),
    ("fuzz_http_answers", "linerate-load", &["--lib"]),
    ("fuzz_http_requests", "linerate-load", &["--lib"]),
    ("fuzz_icf_files", "linerate-import", &["--lib"]),
    ("fuzz_iperf3_json", "xtask", &["--bin", "xtask"]),
    ("fuzz_kernel_text", "linerate-observe", &["--test", "all"]),
    ("fuzz_ncsi", "linerate-packet", &["--test", "all"]),
    ("fuzz_netlink", "linerate-sys", &["--lib"]),
    ("fuzz_plan", "linerate-model", &["--test", "all"]),
    ("fuzz_records", "linerate-store", &["--lib"]),
    ("fuzz_snmp", "linerate-packet", &["--test", "all"]),
    ("fuzz_urls", "linerate-load", &["--lib"]),
    ("fuzz_wire", "linerate-control", &["--test", "all"]),
];

/// Runs every requested subject; returns true if none found a defect. The quick form is the tests
/// themselves.
pub(super) fn run(bench: &Bench) -> anyhow::Result<bool> {
    if bench.quick {
        return Ok(true);
    }
    let seconds = std::env::var("LINERATE_FUZZ_SECONDS").unwrap_or_else(|_| SECONDS.to_string());
    let mut held = true;
    for (name, package, target) in
        // Names on the command line leave out the prefix that all of them have.
        SUBJECTS.iter().filter(|(name, ..)| bench.wants(name.trim_start_matches("fuzz_")))
    {
        let output = Command::new("cargo")
            .args(["test", "--quiet", "-p", package])
            .args(*target)
            .args(["--", name, "--nocapture"])
            .current_dir(&bench.root)
            .env("LINERATE_FUZZ_SECONDS", &seconds)
            .output()
            .context("run cargo")?;
        let said = String::from_utf8_lossy(&output.stdout);
        let lines: Vec<&str> = said
            .lines()
            .filter(|line| line.starts_with("fuzz ") || line.contains(" bytes b\""))
            .collect();
        lines.iter().for_each(|line| println!("{line}"));
        // A test that ran nothing passes too.
        let is_told = lines.iter().any(|line| line.starts_with("fuzz "));
        if !output.status.success() || !is_told {
            let errors = String::from_utf8_lossy(&output.stderr);
            // The end of the output has the reason.
            let last: Vec<&str> = errors.lines().rev().take(5).collect();
            println!(
                "{name}: {}: {}",
                output.status,
                last.into_iter().rev().collect::<Vec<_>>().join(" | ")
            );
            println!("{name}: LINERATE_FUZZ_TRACE=FILE leaves the last input in FILE");
            held = false;
        }
    }
    Ok(held)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A subject that no test is called after would run nothing.
    #[test]
    fn every_subject_is_a_test_of_its_package() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for (name, package, _) in SUBJECTS {
            let folder = if package == "xtask" {
                root.join("xtask")
            } else {
                root.join("crates").join(package)
            };
            let test = format!("fn {name}()");
            let is_there = files(&folder)
                .iter()
                .any(|path| std::fs::read_to_string(path).is_ok_and(|text| text.contains(&test)));
            assert!(is_there, "no `{test}` in {package}");
        }
    }

    fn files(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
        let entries =
            std::fs::read_dir(folder).expect("a folder").flatten().map(|entry| entry.path());
        entries
            .flat_map(|path| {
                if path.is_dir() && !path.ends_with("target") { files(&path) } else { vec![path] }
            })
            .filter(|path| path.extension().is_some_and(|kind| kind == "rs"))
            .collect()
    }
}
