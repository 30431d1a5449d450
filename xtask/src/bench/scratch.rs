//! Namespaces and files of a benchmark, and their removal however it ends: a shell waits until its
//! input is closed, and the kernel closes it for a killed process too. A machine that loses its
//! power keeps them.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::Context;

/// A shell that runs a script once this is dropped, or this process ends: in a process group of its
/// own, so that an interrupt from the terminal passes it by. Its errors are printed.
#[derive(Debug)]
pub(crate) struct Afterwards(Child);

impl Afterwards {
    /// Prepares `script` with `arguments`.
    pub(crate) fn run<S: AsRef<std::ffi::OsStr>>(
        script: &str,
        arguments: impl IntoIterator<Item = S>,
    ) -> anyhow::Result<Self> {
        use std::os::unix::process::CommandExt;
        let shell = Command::new("sh")
            // `read` returns when the input is closed, which the kernel does for a killed process
            // too.
            .args(["-c", &format!("read nothing; {script}"), "afterwards"])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            // Ctrl-C in the terminal must not end it before it has cleaned up.
            .process_group(0)
            .spawn();
        Ok(Self(shell.context("start sh to clean up later")?))
    }
}

impl Drop for Afterwards {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        // It has nothing else to do than to run its script.
        let _ = self.0.wait();
    }
}

/// A process that is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Killed(pub(crate) Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

/// Removes a folder, or prints that it stays. What is mounted below it is removed by others, at the
/// same time.
// `--` and quotes: the path may contain anything.
const REMOVE: &str = "for n in $(seq 50); do rm -rf --one-file-system -- \"$1\" 2>/dev/null && \
    exit; sleep 0.1; done; echo \"left behind: $1\" >&2";

/// Folder of a bench's own files, in the one for temporary files. It is removed when this is
/// dropped, or this process ends.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
    _remover: Afterwards,
}

impl Scratch {
    /// Makes the folder of the bench `name`.
    pub(crate) fn new(name: &str) -> anyhow::Result<Self> {
        Self::below(&std::env::temp_dir(), name)
    }

    /// Makes the folder of the bench `name` in `parent`.
    pub(crate) fn below(parent: &Path, name: &str) -> anyhow::Result<Self> {
        let path = parent.join(format!("linerate-{name}-{}", std::process::id()));
        std::fs::create_dir(&path).with_context(|| format!("make {}", path.display()))?;
        let remover = Afterwards::run(REMOVE, [&path])?;
        Ok(Self { path, _remover: remover })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// Makes a file of `n_bytes`, whole MiB, that no disk can compress (xorshift64). What is written is
/// in the page cache then, too.
pub(super) fn fill(path: &Path, n_bytes: u64) -> anyhow::Result<()> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut file =
        std::fs::File::create_new(path).with_context(|| format!("make {}", path.display()))?;
    let mut chunk = vec![0_u8; 1 << 20];
    for _ in 0..n_bytes >> 20 {
        for word in chunk.chunks_exact_mut(8) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            word.copy_from_slice(&state.to_le_bytes());
        }
        file.write_all(&chunk).with_context(|| format!("fill {}", path.display()))?;
    }
    file.sync_all().with_context(|| format!("sync {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only the pipe is closed here, as after SIGKILL.
    #[test]
    fn a_folder_is_removed_though_nobody_here_does() {
        let scratch = Scratch::new("scratch-test").expect("a folder");
        let path = scratch.path().to_owned();
        std::fs::create_dir(path.join("compared")).expect("a folder");
        std::fs::write(path.join("compared/report.json"), "{}").expect("a file");
        drop(scratch);
        assert!(!path.exists(), "{} is left", path.display());
    }
}
