//! Which way commands go, and why: through the kernel's own NC-SI stack where that owns the
//! interface, as raw frames elsewhere.

use linerate_sys::SysError;
use linerate_sys::netlink::GenericSocket;
use linerate_sys::packet::interface_index;

use super::kernel::{self, Package};

/// Owner of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// There is no NC-SI stack, so it cannot be the stack's: this kernel has none, or offers it in
    /// the first network namespace only.
    NoStack,
    /// There is a stack, and it does not know the interface.
    Nobody,
    /// The stack's; these are the packages it knows, none of them before it has looked.
    Stack(Vec<Package>),
}

/// Path that the user chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preference {
    /// Whichever path is safe.
    Safe,
    /// Raw frames, whoever owns the interface.
    RawFrames,
}

/// How commands go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Through the kernel's stack, over generic netlink.
    GenericNetlink,
    /// As raw frames over a packet socket.
    RawFrames(Why),
}

/// Why raw frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// There is no stack.
    NoStack,
    /// The stack does not know the interface.
    NotOwned,
    /// The user said so.
    Forced(Beside),
}

/// Who else talks to the controller when raw frames are forced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside {
    /// Nobody.
    Nobody,
    /// The kernel's stack.
    Stack,
    /// It could not be found out.
    Unknown,
}

/// Which way commands go. `None` if nobody knows whose the interface is and raw frames were not
/// asked for: they could do harm.
#[must_use]
pub fn choose(ownership: Option<&Ownership>, preference: Preference) -> Option<Transport> {
    let beside = match ownership {
        Some(Ownership::NoStack | Ownership::Nobody) => Beside::Nobody,
        Some(Ownership::Stack(_)) => Beside::Stack,
        None => Beside::Unknown,
    };
    match (ownership, preference) {
        (_, Preference::RawFrames) => Some(Transport::RawFrames(Why::Forced(beside))),
        (Some(Ownership::NoStack), _) => Some(Transport::RawFrames(Why::NoStack)),
        (Some(Ownership::Nobody), _) => Some(Transport::RawFrames(Why::NotOwned)),
        (Some(Ownership::Stack(_)), _) => Some(Transport::GenericNetlink),
        (None, _) => None,
    }
}

impl Transport {
    /// As a program reads it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::GenericNetlink => "generic_netlink",
            Self::RawFrames(_) => "raw_frames",
        }
    }

    /// How and why, for a person.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::GenericNetlink => "the kernel's NC-SI stack owns it, asked over generic netlink",
            Self::RawFrames(Why::NoStack) => {
                "asked in raw frames, because this kernel offers no NC-SI stack here (no generic \
                    netlink family NCSI)"
            }
            Self::RawFrames(Why::NotOwned) => {
                "asked in raw frames, because the kernel's NC-SI stack does not own this interface"
            }
            Self::RawFrames(Why::Forced(_)) => "asked in raw frames, because --force-raw says so",
        }
    }

    /// Returns the risk of this path, if there is one.
    #[must_use]
    pub const fn warning(self) -> Option<&'static str> {
        match self {
            Self::RawFrames(Why::Forced(Beside::Stack)) => Some(
                "the kernel's NC-SI stack owns this interface too: both number their commands from \
                    1 to 255 (instance identifiers), so either may take the other's answer for its \
                    own, and what raw frames change the kernel does not learn (leave out \
                    --force-raw unless the kernel refuses to hand over an answer)",
            ),
            Self::RawFrames(Why::Forced(Beside::Unknown)) => Some(
                "whether the kernel's NC-SI stack owns this interface could not be found out: if \
                    it does, either may take the \
                 other's answer for its own (leave out --force-raw to see why)",
            ),
            _ => None,
        }
    }
}

/// Returns the owner of the interface called `device`, as the kernel reports it.
///
/// # Errors
///
/// If there is no such interface, or the kernel refuses netlink to us.
pub fn ownership(device: &str) -> Result<Ownership, SysError> {
    let interface = interface_index(device)?;
    let mut socket = GenericSocket::open()?;
    // A kernel without the family has no stack that could own anything.
    let Some(family) = socket.family(kernel::FAMILY)? else { return Ok(Ownership::NoStack) };
    let mut packages = Vec::new();
    let visit = |answer: &[u8]| packages.extend(kernel::packages(answer));
    let dumped = socket.dump(
        &family,
        kernel::PACKAGE_INFO,
        &kernel::of_interface(interface),
        "NC-SI packages",
        visit,
    );
    of_dump(dumped, packages)
}

/// Returns the owner of an interface by the result of a dump of its packages: the stack answers "no
/// such device" for an interface that it does not know.
fn of_dump(dumped: Result<(), SysError>, packages: Vec<Package>) -> Result<Ownership, SysError> {
    const NO_DEVICE: i32 = rustix::io::Errno::NODEV.raw_os_error();
    match dumped {
        Ok(()) => Ok(Ownership::Stack(packages)),
        Err(error) if error.errno() == Some(NO_DEVICE) => Ok(Ownership::Nobody),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(cause: rustix::io::Errno) -> SysError {
        SysError::new("dump", "NC-SI packages", cause)
    }

    #[test]
    fn netlink_is_used_where_the_stack_owns_the_interface_and_nowhere_else() {
        let safe = |ownership| choose(Some(&ownership), Preference::Safe).expect("known");
        assert_eq!(safe(Ownership::Stack(Vec::new())), Transport::GenericNetlink);
        assert_eq!(safe(Ownership::Nobody), Transport::RawFrames(Why::NotOwned));
        assert_eq!(safe(Ownership::NoStack), Transport::RawFrames(Why::NoStack));
        assert_eq!(choose(None, Preference::Safe), None, "no harm by not knowing");
    }

    #[test]
    fn forced_raw_frames_warn_of_the_stack_beside_them() {
        let forced = |ownership: Option<Ownership>| {
            choose(ownership.as_ref(), Preference::RawFrames).expect("forced")
        };
        let beside = forced(Some(Ownership::Stack(Vec::new())));
        assert_eq!(beside, Transport::RawFrames(Why::Forced(Beside::Stack)));
        assert!(beside.warning().is_some_and(|warning| warning.contains("1 to 255")));
        let unknown = forced(None);
        assert!(
            unknown.warning().is_some_and(|warning| warning.contains("could not be found out"))
        );
        assert_eq!(forced(Some(Ownership::Nobody)).warning(), None);
        assert_eq!(Transport::GenericNetlink.warning(), None);
    }

    #[test]
    fn the_end_of_a_dump_tells_whose_an_interface_is() {
        let package = Package { number: 1, ..Package::default() };
        let told = of_dump(Ok(()), vec![package.clone()]).expect("owned");
        assert_eq!(told, Ownership::Stack(vec![package]));
        assert_eq!(
            of_dump(Ok(()), Vec::new()).expect("owned"),
            Ownership::Stack(Vec::new()),
            "before it has looked"
        );
        assert_eq!(
            of_dump(Err(refused(rustix::io::Errno::NODEV)), Vec::new()).expect("told"),
            Ownership::Nobody
        );
        assert!(of_dump(Err(refused(rustix::io::Errno::PERM)), Vec::new()).is_err());
    }

    #[test]
    fn the_loopback_is_never_the_stacks() {
        let owner = ownership("lo").expect("there is a loopback");
        let mut socket = GenericSocket::open().expect("netlink");
        let expected = match socket.family(kernel::FAMILY).expect("told") {
            Some(_) => Ownership::Nobody,
            None => Ownership::NoStack,
        };
        assert_eq!(owner, expected);
        assert!(ownership("lr-none").expect_err("there is none").to_string().contains("lr-none"));
    }
}
