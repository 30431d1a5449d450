//! Unique identity of a process: boot of the kernel, PID namespace, process id and start time
//! (proc(5)). The kernel reuses process ids, so the id alone is not unique.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;

/// Process on this or another machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessIdentity {
    /// Name of the machine (`uname -n`).
    pub host: String,
    /// Boot id of its kernel, from `/proc/sys/kernel/random/boot_id`.
    pub boot: String,
    /// Inode of its PID namespace.
    pub namespace: u64,
    /// Process id in that namespace.
    pub pid: u32,
    /// Start time in clock ticks since boot. A process id that is reused has another start time.
    pub started_ticks: u64,
}

/// State of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// The process runs.
    Alive,
    /// The process has ended.
    Dead,
    /// The process is not visible from here: another machine, or another PID namespace.
    Unknown,
}

impl ProcessIdentity {
    /// Returns the identity of the calling process.
    ///
    /// # Errors
    /// If `/proc` cannot be read.
    pub fn own() -> io::Result<Self> {
        let pid = std::process::id();
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let started_ticks = started(pid)?.ok_or(io::ErrorKind::NotFound)?;
        Ok(Self { host, boot: boot()?, namespace: namespace()?, pid, started_ticks })
    }

    /// Checks if the process still runs. A zombie counts as ended.
    #[must_use]
    pub fn life(&self) -> Life {
        let (Ok(boot), Ok(namespace)) = (boot(), namespace()) else { return Life::Unknown };
        if boot != self.boot {
            let same_host = rustix::system::uname().nodename().to_string_lossy() == self.host;
            return if same_host { Life::Dead } else { Life::Unknown };
        }
        if namespace != self.namespace {
            return Life::Unknown;
        }
        match started(self.pid) {
            Ok(Some(ticks)) if ticks == self.started_ticks => Life::Alive,
            Ok(_) => Life::Dead,
            Err(_) => Life::Unknown,
        }
    }
}

fn boot() -> io::Result<String> {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").map(|text| text.trim().to_owned())
}

fn namespace() -> io::Result<u64> {
    fs::metadata("/proc/self/ns/pid").map(|found| found.ino())
}

/// Returns field 22 of `/proc/PID/stat`; `None` if there is no such process, or only a zombie.
fn started(pid: u32) -> io::Result<Option<u64>> {
    let text = match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok(started_of(&text))
}

/// Returns the start time from the text of `/proc/PID/stat`. The name in parentheses may contain
/// blanks and parentheses.
fn started_of(stat: &str) -> Option<u64> {
    /// Indices of state and start time after the name (fields 3 and 22).
    const STATE: usize = 0;
    const START: usize = 19;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    if matches!(*fields.get(STATE)?, "Z" | "X") { None } else { fields.get(START)?.parse().ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_alive_and_one_with_its_number_and_another_start_is_dead() {
        let own = ProcessIdentity::own().expect("there is /proc");
        assert_eq!(own.life(), Life::Alive);
        let earlier = ProcessIdentity { started_ticks: own.started_ticks - 1, ..own.clone() };
        assert_eq!(earlier.life(), Life::Dead, "its number was used again");
        let before_the_boot = ProcessIdentity { boot: "another".into(), ..own.clone() };
        assert_eq!(before_the_boot.life(), Life::Dead);
        let of_a_container = ProcessIdentity { namespace: own.namespace + 1, ..own.clone() };
        assert_eq!(of_a_container.life(), Life::Unknown);
        let elsewhere = ProcessIdentity { boot: "another".into(), host: "another".into(), ..own };
        assert_eq!(elsewhere.life(), Life::Unknown);
    }

    #[test]
    fn a_name_may_hold_anything_and_a_zombie_has_ended() {
        let rest = "1 1 1 0 -1 4 0 0 0 0 0 0 0 0 20 0 1 0 777 0";
        assert_eq!(started_of(&format!("5 (a) b) R) S {rest}")), Some(777));
        assert_eq!(started_of(&format!("5 (a) Z {rest}")), None);
    }
}
