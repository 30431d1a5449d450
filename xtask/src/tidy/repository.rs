//! The repository as tidy reads it: its files, and the packages that cargo lists.

use std::cell::OnceCell;
use std::path::Path;
use std::process::Command;

use anyhow::Context;
use serde_json::Value;

use super::code::Code;

/// Folders that no one wrote.
const BUILT: [&str; 3] = [".git", "node_modules", "target"];

/// One text file that is, or is about to be, under version control.
pub(super) struct File {
    /// Path from the root, with `/`.
    pub(super) path: String,
    /// Its text.
    pub(super) text: String,
    /// True if it contains only tests, benchmarks or examples.
    pub(super) only_tests: bool,
    code: OnceCell<Code>,
}

/// Everything the checks look at.
pub(super) struct Repository {
    /// Text files.
    pub(super) files: Vec<File>,
    /// The answer of `cargo metadata`.
    pub(super) metadata: Value,
    /// Folders that exist on this machine only: the checkout and the user's home.
    pub(super) machine_folders: Vec<String>,
}

impl Repository {
    /// Reads the repository at `root`.
    ///
    /// # Errors
    /// If cargo cannot be asked, or a folder cannot be read.
    pub(super) fn read(root: &Path) -> anyhow::Result<Self> {
        let mut files = Vec::new();
        for path in listed(root)? {
            // A file that is deleted but still listed, or is no text, is nobody's concern here.
            if let Ok(text) = std::fs::read_to_string(root.join(&path)) {
                files.push(File::of(path, text));
            }
        }
        mark_tests(&mut files);
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
        let metadata = output(root, &cargo, &["metadata", "--format-version", "1"])?;
        let metadata =
            serde_json::from_slice(&metadata).context("read the answer of cargo metadata")?;
        let home = std::env::var("HOME").ok();
        let folders = home.into_iter().chain([root.display().to_string()]);
        // "/root" as a home says nothing of this machine alone; a path of one part is too common to
        // search for.
        let machine_folders = folders.filter(|folder| folder.matches('/').count() > 1).collect();
        Ok(Self { files, metadata, machine_folders })
    }

    /// The file at `path`.
    pub(super) fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Rust files of our crates and of xtask.
    pub(super) fn rust(&self) -> impl Iterator<Item = &File> {
        let ours = |path: &str| path.starts_with("crates/") || path.starts_with("xtask/");
        self.files.iter().filter(move |file| file.path.ends_with(".rs") && ours(&file.path))
    }

    /// Packages of the workspace.
    pub(super) fn members(&self) -> impl Iterator<Item = &Value> {
        let members = self.metadata["workspace_members"].as_array().map_or(&[][..], Vec::as_slice);
        self.packages().filter(move |package| members.contains(&package["id"]))
    }

    /// All packages, dependencies of dependencies included.
    pub(super) fn packages(&self) -> impl Iterator<Item = &Value> {
        self.metadata["packages"].as_array().map_or(&[][..], Vec::as_slice).iter()
    }

    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        let file = |(path, text): &(&str, &str)| File::of((*path).into(), (*text).into());
        let mut files: Vec<File> = files.iter().map(file).collect();
        mark_tests(&mut files);
        Self { files, metadata: Value::Null, machine_folders: Vec::new() }
    }
}

impl File {
    /// A file that is not yet known to hold only tests.
    fn of(path: String, text: String) -> Self {
        Self { path, text, only_tests: false, code: OnceCell::new() }
    }

    /// Returns its code apart from its comments, strings and tests.
    pub(super) fn code(&self) -> &Code {
        // Many checks need it, and splitting all sources takes seconds in a development build.
        self.code.get_or_init(|| Code::of(&self.text, self.only_tests))
    }

    /// The crate it belongs to: the folder under `crates/`, or `xtask`.
    pub(super) fn crate_name(&self) -> &str {
        self.path
            .strip_prefix("crates/")
            .unwrap_or(&self.path)
            .split('/')
            .next()
            .unwrap_or_default()
    }

    /// The modules that it declares for tests only, as paths without their ending.
    fn test_modules(&self) -> Vec<String> {
        let (folder, name) = self.path.rsplit_once('/').unwrap_or(("", &self.path));
        let is_root = ["lib.rs", "main.rs", "mod.rs"].contains(&name);
        let folder = if is_root { folder } else { self.path.trim_end_matches(".rs") };
        let lines: Vec<&str> = self.text.lines().map(str::trim).collect();
        let declared =
            lines.windows(2).filter(|pair| pair[0] == "#[cfg(test)]").filter_map(|pair| {
                pair[1].trim_start_matches("pub(crate) ").strip_prefix("mod ")?.strip_suffix(';')
            });
        declared.map(|module| format!("{folder}/{module}")).collect()
    }
}

/// Finds the files that hold nothing but tests, benchmarks or examples.
fn mark_tests(files: &mut [File]) {
    let rust = |file: &&File| file.path.ends_with(".rs");
    let modules: Vec<String> = files.iter().filter(rust).flat_map(File::test_modules).collect();
    for file in files {
        let in_folder =
            ["/tests/", "/benches/", "/examples/"].iter().any(|folder| file.path.contains(folder));
        let declared = modules.iter().any(|module| {
            let tail = file.path.strip_prefix(module.as_str());
            tail.is_some_and(|tail| tail == ".rs" || tail.starts_with('/'))
        });
        file.only_tests = in_folder || declared;
    }
}

/// Paths of all files that git tracks or would track; without git (an unpacked archive), of all but
/// what is built.
fn listed(root: &Path) -> anyhow::Result<Vec<String>> {
    let tracked =
        output(root, "git", &["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    if let Some(paths) = tracked.ok().and_then(|paths| String::from_utf8(paths).ok()) {
        return Ok(paths.split_terminator('\0').map(str::to_owned).collect());
    }
    let (mut paths, mut folders) = (Vec::new(), vec![root.to_path_buf()]);
    while let Some(folder) = folders.pop() {
        for entry in
            std::fs::read_dir(&folder).with_context(|| format!("list {}", folder.display()))?
        {
            let entry = entry.with_context(|| format!("list {}", folder.display()))?;
            let built = BUILT.iter().any(|name| entry.file_name() == *name);
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) && !built {
                folders.push(entry.path());
            } else if let Some(path) = entry.path().strip_prefix(root).ok().and_then(Path::to_str) {
                paths.push(path.to_owned());
            }
        }
    }
    paths.sort();
    Ok(paths)
}

fn output(root: &Path, program: &str, arguments: &[&str]) -> anyhow::Result<Vec<u8>> {
    let command = format!("{program} {}", arguments.join(" "));
    let output = Command::new(program)
        .args(arguments)
        .current_dir(root)
        .output()
        .with_context(|| format!("start `{command}`"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "`{command}` failed: {}", errors.trim());
    Ok(output.stdout)
}
