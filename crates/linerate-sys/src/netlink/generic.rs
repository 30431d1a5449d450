//! Generic netlink (linux/genetlink.h): families that parts of the kernel register by name. The
//! controller family finds them.
//!
//! Each family defines its commands, attributes and permissions. Multicast groups are not
//! supported. Most families are available only in the initial network namespace; others are
//! invisible to a thread in another namespace.

use std::time::Duration;

use rustix::net::netlink::GENERIC;

use super::attribute::{attributes, half, push, word};
use super::socket::{PATIENCE, Socket, Unanswered};
use crate::{Result, SysError};

/// The family that lists the others (`GENL_ID_CTRL`); the only one with a fixed number.
const CONTROLLER: u16 = 0x10;
/// `CTRL_CMD_GETFAMILY`, in version 1 of the controller.
const GET_FAMILY: u8 = 3;
const CONTROLLER_VERSION: u8 = 1;
/// `CTRL_ATTR_*`.
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
const FAMILY_VERSION: u16 = 3;

/// `struct genlmsghdr`: command, version, two reserved bytes.
const HEAD: usize = 4;

/// Registered family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Family {
    name: String,
    id: u16,
    version: u8,
}

impl Family {
    /// Returns its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the message type that it has on this kernel.
    #[must_use]
    pub const fn id(&self) -> u16 {
        self.id
    }

    fn parse(name: &str, payload: &[u8]) -> Option<Self> {
        let answer_attributes = || attributes(payload.get(HEAD..).unwrap_or_default());
        let find =
            |wanted| answer_attributes().find(|(kind, _)| *kind == wanted).map(|(_, value)| value);
        let version = find(FAMILY_VERSION).and_then(|value| word(value, 0)).unwrap_or(0);
        Some(Self { name: name.to_owned(), id: half(find(FAMILY_ID)?, 0)?, version: version as u8 })
    }

    fn head(&self, command: u8) -> [u8; HEAD] {
        [command, self.version, 0, 0]
    }
}

/// Open generic netlink socket.
#[derive(Debug)]
pub struct GenericSocket {
    socket: Socket,
}

impl GenericSocket {
    /// Opens a socket in the calling thread's network namespace.
    ///
    /// # Errors
    /// If the kernel or a sandbox refuses netlink.
    pub fn open() -> Result<Self> {
        Socket::open(Some(GENERIC), "generic netlink socket").map(|socket| Self { socket })
    }

    /// Returns the family `name`; `None` if this kernel does not have it or does not offer it in
    /// this namespace.
    ///
    /// # Errors
    /// If the kernel does not answer, or does not accept `name` as a name.
    pub fn family(&mut self, name: &str) -> Result<Option<Family>> {
        let (operation, object) = ("look up generic netlink family", || name.to_owned());
        let mut wanted = Vec::new();
        push(&mut wanted, FAMILY_NAME, &[name.as_bytes(), &[0]].concat());
        let head = [GET_FAMILY, CONTROLLER_VERSION, 0, 0];
        let answer = match self.socket.ask(CONTROLLER, 0, &[&head, &wanted], PATIENCE) {
            Ok(answer) => answer,
            Err(Unanswered::Refused(refusal)) if refusal.code == libc::ENOENT => return Ok(None),
            Err(unanswered) => return Err(unanswered.during(operation, object())),
        };
        let nameless = || {
            SysError::new(operation, object(), std::io::Error::other("the answer has no family id"))
        };
        Family::parse(name, &answer).map(Some).ok_or_else(nameless)
    }

    /// Sends `command` with `attributes` and waits for its single answer. Returns the attributes of
    /// the answer, or `None` if none arrived within `patience`. `what` names the request in errors.
    ///
    /// # Errors
    /// If the kernel refuses, at once or later.
    pub fn ask(
        &mut self,
        family: &Family,
        command: u8,
        attributes: &[u8],
        patience: Duration,
        what: &str,
    ) -> Result<Option<Vec<u8>>> {
        match self.socket.ask(family.id, 0, &[&family.head(command), attributes], patience) {
            Ok(mut answer) => Ok(Some(answer.split_off(HEAD.min(answer.len())))),
            Err(Unanswered::Failed(rustix::io::Errno::AGAIN)) => Ok(None),
            Err(unanswered) => Err(unanswered.during("ask for", what)),
        }
    }

    /// Does the same as [`GenericSocket::ask`], and visits the attributes of the answer instead of
    /// returning them. Allocates only on the first call and for an error. True if an answer came.
    ///
    /// # Errors
    /// If the kernel refuses, at once or later.
    pub fn look(
        &mut self,
        family: &Family,
        command: u8,
        attributes: &[u8],
        patience: Duration,
        mut visit: impl FnMut(&[u8]),
    ) -> Result<bool> {
        let visit_attributes = |payload: &[u8]| visit(payload.get(HEAD..).unwrap_or_default());
        let pieces = [&family.head(command)[..], attributes];
        match self.socket.look(family.id, 0, &pieces, patience, visit_attributes) {
            Ok(()) => Ok(true),
            Err(Unanswered::Failed(rustix::io::Errno::AGAIN)) => Ok(false),
            Err(unanswered) => Err(unanswered.during("ask for an answer of", family.name())),
        }
    }

    /// Visits the attributes of every answer to a dump of `command` with `attributes`. `what` names
    /// the request in errors.
    ///
    /// # Errors
    /// If the kernel refuses or does not answer.
    pub fn dump(
        &mut self,
        family: &Family,
        command: u8,
        attributes: &[u8],
        what: &str,
        mut visit: impl FnMut(&[u8]),
    ) -> Result<()> {
        let body = [&family.head(command), attributes].concat();
        self.socket
            .dump(family.id, &body, what, |payload| visit(payload.get(HEAD..).unwrap_or_default()))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Commands and attributes of the family `ethtool` (linux/ethtool_netlink.h): reading link
    /// settings, the header nest, and the name in it.
    const GET_LINK_INFO: u8 = 2;
    const HEADER: u16 = 1;
    const DEVICE_NAME: u16 = 2;
    const NESTED: u16 = 0x8000;

    fn named(device: &str) -> Vec<u8> {
        let (mut header, mut all) = (Vec::new(), Vec::new());
        push(&mut header, DEVICE_NAME, &[device.as_bytes(), &[0]].concat());
        push(&mut all, HEADER | NESTED, &header);
        all
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn a_family_is_read_from_the_controllers_answer() {
        // CTRL_CMD_NEWFAMILY, version 2: name, number, version, header size.
        let answer = [
            1, 2, 0, 0, 9, 0, 2, 0, b'N', b'C', b'S', b'I', 0, 0, 0, 0, 6, 0, 1, 0, 0x1d, 0, 0, 0,
            8, 0, 3, 0, 0, 0, 0, 0, 8, 0, 4, 0, 0, 0, 0, 0,
        ];
        let family = Family::parse("NCSI", &answer).unwrap();
        assert_eq!((family.name(), family.id(), family.version), ("NCSI", 0x1d, 0));
        assert_eq!(family.head(4), [4, 0, 0, 0]);
        for end in 0..answer.len() {
            assert!(Family::parse("NCSI", &answer[..end]).is_none_or(|family| family.id == 0x1d));
        }
    }

    #[test]
    fn families_of_this_kernel_are_found_and_others_are_absent() {
        let mut socket = GenericSocket::open().unwrap();
        assert_eq!(socket.family("nlctrl").unwrap().unwrap().id(), CONTROLLER);
        assert_eq!(socket.family("lr-none").unwrap(), None);
        // Longer than a name can be.
        assert!(socket.family("a name of more than sixteen bytes").is_err());
        // The socket still works after a refusal.
        assert!(socket.family("nlctrl").unwrap().is_some());
    }

    #[test]
    fn a_dump_of_the_controller_lists_what_is_found_by_name() {
        let mut socket = GenericSocket::open().unwrap();
        let controller = socket.family("nlctrl").unwrap().unwrap();
        let mut names = Vec::new();
        let visit = |answer_attributes: &[u8]| {
            let name = attributes(answer_attributes)
                .find(|(kind, _)| *kind == FAMILY_NAME)
                .map(|(_, name)| name.to_vec());
            names.push(String::from_utf8(name.unwrap()).unwrap().trim_end_matches('\0').to_owned());
        };
        socket.dump(&controller, GET_FAMILY, &[], "families", visit).unwrap();
        assert!(names.contains(&"nlctrl".to_owned()), "{names:?}");
        for name in names {
            assert!(socket.family(&name).unwrap().is_some(), "{name} is listed and not found");
        }
    }

    #[test]
    fn a_refusal_comes_with_the_kernels_own_words() {
        let mut socket = GenericSocket::open().unwrap();
        let Some(ethtool) = socket.family("ethtool").unwrap() else {
            return println!("skipped: this kernel has no ethtool over netlink (Linux 5.6)");
        };
        let error = socket
            .ask(&ethtool, GET_LINK_INFO, &named("lr-none"), PATIENCE, "link settings")
            .unwrap_err();
        assert_eq!(error.errno(), Some(libc::ENODEV));
        assert!(error.to_string().contains("no device matches name"), "{error}");
        // A refused dump is an error, not an empty list.
        let error =
            socket.dump(&ethtool, 0xee, &[], "nothing", |_| panic!("an answer")).unwrap_err();
        assert_eq!(error.errno(), Some(libc::EOPNOTSUPP), "{error}");
    }

    #[test]
    fn a_dump_that_fails_on_the_way_is_no_empty_list() {
        /// Command and attributes of the family `netdev` (linux/netdev.h, Linux 6.8): queues of one
        /// interface.
        const GET_QUEUES: u8 = 10;
        const INTERFACE: u16 = 2;
        let mut socket = GenericSocket::open().unwrap();
        let Some(netdev) = socket.family("netdev").unwrap() else {
            return println!("skipped: this kernel has no family netdev");
        };
        let mut nowhere = Vec::new();
        push(&mut nowhere, INTERFACE, &0x7fff_ffff_u32.to_ne_bytes());
        let error = socket
            .dump(&netdev, GET_QUEUES, &nowhere, "queues", |_| panic!("a queue"))
            .unwrap_err();
        if error.errno() == Some(libc::EOPNOTSUPP) {
            return println!("skipped: this kernel lists no queues (Linux 6.8)");
        }
        assert_eq!(error.errno(), Some(libc::ENODEV), "{error}");
    }

    #[test]
    fn a_request_that_nobody_answers_is_none_in_time() {
        let mut socket = GenericSocket::open().unwrap();
        let nobody = Family { name: "nobody".into(), id: CONTROLLER, version: 1 };
        let begun = crate::clock::monotonic();
        // Zero patience: only an answer that is already there counts.
        let answer = socket.ask(&nobody, GET_FAMILY, &[], Duration::ZERO, "nothing");
        assert!(matches!(answer, Ok(None)), "{answer:?}");
        assert!(crate::clock::monotonic() - begun < PATIENCE.as_nanos() as u64);
        // The refusal of that request is still queued; it must not count as the next answer.
        assert_eq!(socket.family("nlctrl").unwrap().unwrap().id(), CONTROLLER);
    }
}
