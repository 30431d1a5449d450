//! Network namespaces: doing something inside one.
//!
//! Entering a namespace is a property of a thread, so it is done on a thread of its own that ends afterwards: no other
//! thread ever finds itself elsewhere. A socket stays in the namespace it was made in, wherever it is used later.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::SysError;

/// Where `ip netns` keeps its namespaces.
const NAMED: &str = "/run/netns";

/// Runs `work` inside the network namespace called `name` (as of `ip netns`), and returns what it returns.
///
/// # Errors
/// If there is no such namespace, or it may not be entered (needs CAP_SYS_ADMIN).
///
/// # Panics
/// If `work` panics.
pub fn within<T: Send>(name: &str, work: impl FnOnce() -> T + Send) -> Result<T, SysError> {
    let file = File::open(Path::new(NAMED).join(name)).map_err(|e| SysError::new("open network namespace", name, e))?;
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
                .map_err(|e| SysError::new("enter network namespace", name, e))?;
            Ok(work())
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// The name (as of `ip netns`) of the calling thread's network namespace; `None` if it has none.
#[must_use]
pub fn name() -> Option<String> {
    use std::os::unix::fs::MetadataExt;
    let own = inode().ok()?;
    let named = std::fs::read_dir(NAMED).ok()?.flatten();
    let mut same = named.filter(|entry| entry.path().metadata().is_ok_and(|found| found.ino() == own));
    same.next()?.file_name().into_string().ok()
}

/// The inode of the calling thread's network namespace: it names it as long as it exists.
///
/// # Errors
/// If `/proc` is not there.
pub fn inode() -> Result<u64, SysError> {
    use std::os::unix::fs::MetadataExt;
    /// The calling thread's own.
    const OWN: &str = "/proc/thread-self/ns/net";
    std::fs::metadata(OWN).map(|found| found.ino()).map_err(|cause| SysError::new("look at", OWN, cause))
}
