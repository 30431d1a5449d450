//! A controller behind an interface: commands by whichever way is safe, and a survey of what is
//! there.

use linerate_model::Nanos;
use linerate_packet::ncsi::{Answer, Capabilities, Command, Outcome, PACKAGE_ITSELF};
use linerate_sys::clock::monotonic;
use linerate_sys::packet::{PacketSocket, wait};
use linerate_sys::{SysError, clock};

use super::exchange::{Address, Exchange, Failure, Reply, Step};
use super::kernel::{Channel, Package};
use super::stack::Stack;
use super::transport::{Ownership, Preference, Transport, choose, ownership};

/// EtherType of control packets.
pub(crate) const ETHERTYPE: u16 = 0x88f8;
/// Longest control packet: header, payload and checksum fill an Ethernet frame.
const LONGEST: usize = 1518;
/// Packages a sideband may have, and channels a package (DSP0222).
const PACKAGES: u8 = 8;
const CHANNELS: u8 = 31;

/// The controllers behind one interface.
#[derive(Debug)]
pub struct Controller {
    transport: Transport,
    /// Packages that the kernel's stack knows; empty if it does not own the interface.
    known: Vec<Package>,
    way: SidebandAccess,
}

#[derive(Debug)]
enum SidebandAccess {
    Stack(Stack),
    Wire(Wire),
}

/// A packet socket, and the number of the last command.
#[derive(Debug)]
struct Wire {
    socket: PacketSocket,
    instance: u8,
    buffer: Box<[u8]>,
}

/// A channel that answered, or that the kernel knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundChannel {
    /// Who.
    pub address: Address,
    /// The kernel's view of the channel, if its stack owns the interface.
    pub known: Option<Channel>,
    /// True if the channel waits for initialisation and refuses every other command until then.
    pub initial_state: bool,
    /// Its answer to Get Version ID.
    pub version: Result<Reply, Failure>,
    /// Its answer to Get Capabilities. Not asked for through the kernel's stack: see [`survey`].
    pub capabilities: Option<Reply>,
    /// Its answer to Get Link Status.
    pub link: Option<Reply>,
}

impl FoundChannel {
    /// Returns the capabilities that it reported.
    #[must_use]
    pub fn reported(&self) -> Option<&Capabilities> {
        match &self.capabilities.as_ref()?.answer {
            Answer::Capabilities(capabilities) => Some(capabilities),
            _ => None,
        }
    }
}

impl Controller {
    /// Opens the interface `device`, by the way that is safe or the one that is preferred.
    ///
    /// # Errors
    /// If there is no such interface, CAP_NET_RAW is missing for raw frames, or the kernel does not
    /// report the owner of the interface.
    pub fn open(device: &str, preference: Preference) -> Result<Self, SysError> {
        let owner = ownership(device);
        let Some(transport) = choose(owner.as_ref().ok(), preference) else {
            return Err(owner.expect_err("a way is chosen for every known owner"));
        };
        let way = match transport {
            Transport::GenericNetlink => SidebandAccess::Stack(Stack::open(device)?),
            Transport::RawFrames(_) => SidebandAccess::Wire(Wire::open(device)?),
        };
        let known = match owner {
            Ok(Ownership::Stack(packages)) => packages,
            _ => Vec::new(),
        };
        Ok(Self { transport, known, way })
    }

    /// Which way commands go.
    #[must_use]
    pub const fn transport(&self) -> Transport {
        self.transport
    }

    /// Returns the packages that the kernel's stack knows.
    #[must_use]
    pub fn known(&self) -> &[Package] {
        &self.known
    }

    /// Asks, and waits for the answer: in raw frames three times, a tenth of a second each; through
    /// the kernel's stack for its second, three times if the command may be carried out twice.
    ///
    /// # Errors
    /// If the interface went away, or CAP_NET_ADMIN is missing for the stack. That nobody answers
    /// is the inner error.
    pub fn ask(
        &mut self,
        address: Address,
        command: &Command,
    ) -> Result<Result<Reply, Failure>, SysError> {
        match &mut self.way {
            SidebandAccess::Stack(stack) => stack.ask(address, command),
            SidebandAccess::Wire(wire) => wire.ask(address, command),
        }
    }
}

impl Wire {
    fn open(device: &str) -> Result<Self, SysError> {
        let socket = PacketSocket::open_for(device, ETHERTYPE)?;
        // A controller answers a command of the same type and number with what it answered before:
        // begin anywhere.
        let instance = (clock::realtime() % u64::from(u8::MAX)) as u8;
        Ok(Self { socket, instance, buffer: vec![0; LONGEST].into_boxed_slice() })
    }

    fn ask(
        &mut self,
        address: Address,
        command: &Command,
    ) -> Result<Result<Reply, Failure>, SysError> {
        // 0 is the number of notifications, so numbers go from 1 to 255.
        self.instance = if self.instance == u8::MAX { 1 } else { self.instance + 1 };
        let mut exchange = Exchange::new(address, command, self.instance);
        loop {
            match exchange.step(Nanos(monotonic())) {
                Step::Failed(failure) => return Ok(Err(failure)),
                Step::Send => {
                    // No room now is like a lost packet: it is sent again.
                    self.socket.send(exchange.frame())?;
                }
                Step::Wait(until) => wait([&self.socket], until.since(Nanos(monotonic())).0)?,
            }
            // Everything that has arrived is read: an old answer may wait before the new one.
            while let Some(length) = self.socket.receive(&mut self.buffer)? {
                if let Some(reply) = exchange.receive(&self.buffer[..length]) {
                    return Ok(Ok(reply));
                }
            }
        }
    }
}

/// Finds packages and channels. It only reads, unless `initialise` allows to clear the initial
/// state of channels: a package answers any command to it by being selected, which a running
/// management controller does all the time.
///
/// Where the kernel's stack owns the interface, the packages and channels are those it knows, and
/// it has initialised them. They are not asked for capabilities there: many kernels take that
/// answer for one to a question of their own and forget which filters they have set.
///
/// # Errors
/// If the interface went away.
pub fn survey(
    controller: &mut Controller,
    initialise: bool,
) -> Result<Vec<FoundChannel>, SysError> {
    match controller.way {
        SidebandAccess::Stack(_) => {
            let known = controller.known.clone();
            visit(known, &mut |address, command| controller.ask(address, command))
        }
        SidebandAccess::Wire(_) => {
            explore(initialise, &mut |address, command| controller.ask(address, command))
        }
    }
}

/// Asks for something; that nobody answers is the inner error.
type Ask<'a> = dyn FnMut(Address, &Command) -> Result<Result<Reply, Failure>, SysError> + 'a;

/// Asks the channels that the kernel knows.
fn visit(known: Vec<Package>, ask: &mut Ask<'_>) -> Result<Vec<FoundChannel>, SysError> {
    let mut found = Vec::new();
    for package in known {
        for channel in package.channels {
            let address = Address { package: package.number, channel: channel.number };
            let version = ask(address, &Command::GetVersion)?;
            // A channel that was silent once costs seconds at each further question.
            let link =
                if version.is_ok() { ask(address, &Command::GetLinkStatus)?.ok() } else { None };
            let initial_state = version.as_ref().is_ok_and(refused_until_initialised);
            found.push(FoundChannel {
                address,
                known: Some(channel),
                initial_state,
                version,
                capabilities: None,
                link,
            });
        }
    }
    Ok(found)
}

/// Asks packages and channels by number until they fall silent. A responder that answers for any
/// number with filled-in fields is shown once.
fn explore(initialise: bool, ask: &mut Ask<'_>) -> Result<Vec<FoundChannel>, SysError> {
    let mut found = Vec::new();
    for package in 0..PACKAGES {
        let mut channels = CHANNELS;
        for channel in 0..CHANNELS {
            if channel >= channels {
                break;
            }
            let Some(one) = look(Address { package, channel }, initialise, ask)? else {
                break;
            };
            let reported = one.reported().copied();
            found.push(one);
            match reported {
                Some(reported) if reported.are_filler() => return Ok(found),
                // The count may be wrong, but it is the only one there is: channels beyond it are
                // not asked. Some say none; then channels are asked for until one is silent.
                Some(reported) if reported.channels > 0 => channels = reported.channels,
                _ => {}
            }
        }
        // Packages are numbered by straps, most often from 0 on without gaps; an absent one costs
        // three tries.
        if found.iter().all(|one| one.address.package != package) {
            break;
        }
    }
    Ok(found)
}

fn refused_until_initialised(reply: &Reply) -> bool {
    reply.outcome == Outcome::Failed && reply.reason.0 == 1
}

fn look(
    address: Address,
    initialise: bool,
    ask: &mut Ask<'_>,
) -> Result<Option<FoundChannel>, SysError> {
    let Ok(mut version) = ask(address, &Command::GetVersion)? else { return Ok(None) };
    // Clearing the initial state changes the controller, so it is done only if the caller allows
    // it.
    if refused_until_initialised(&version)
        && initialise
        && ask(address, &Command::ClearInitialState)?.is_ok()
    {
        let Ok(again) = ask(address, &Command::GetVersion)? else { return Ok(None) };
        version = again;
    }
    let initial_state = refused_until_initialised(&version);
    // A channel that is not there answers, if at all, that its number is out of range.
    if version.outcome != Outcome::Completed && !initial_state && address.channel != PACKAGE_ITSELF
    {
        return Ok(None);
    }
    let capabilities = ask(address, &Command::GetCapabilities)?.ok();
    let link = ask(address, &Command::GetLinkStatus)?.ok();
    Ok(Some(FoundChannel {
        address,
        known: None,
        initial_state,
        version: Ok(version),
        capabilities,
        link,
    }))
}

#[cfg(test)]
mod tests {
    use linerate_packet::ncsi::Reason;

    use super::super::exchange::Strays;
    use super::*;

    #[test]
    fn channels_that_the_kernel_knows_are_asked_without_disturbance_and_shown_though_silent() {
        let channel = |number, active| Channel { number, active, ..Channel::default() };
        let known = vec![
            Package {
                number: 0,
                forced: false,
                channels: vec![channel(0, true), channel(1, false)],
            },
            Package { number: 3, forced: false, channels: vec![channel(0, false)] },
        ];
        let mut asked = Vec::new();
        let mut ask = |address: Address, command: &Command| {
            asked.push((address.package, address.channel, command.clone()));
            let reply = |outcome, reason| {
                let (answer, strays) = (Answer::Done, Strays::default());
                Ok(Ok(Reply { outcome, reason, answer, tries: 1, strays }))
            };
            match (address.package, address.channel) {
                (0, 0) => reply(Outcome::Completed, Reason::NONE),
                (0, _) => reply(Outcome::Failed, Reason::INITIALIZATION_REQUIRED),
                _ => Ok(Err(Failure::Silent(3))),
            }
        };
        let found = visit(known, &mut ask).expect("the stack is there");
        let expected = [
            (0, 0, Command::GetVersion),
            (0, 0, Command::GetLinkStatus),
            (0, 1, Command::GetVersion),
            (0, 1, Command::GetLinkStatus),
            (3, 0, Command::GetVersion),
        ];
        assert_eq!(
            asked, expected,
            "no capabilities: the kernel would take them for its own; a silent channel costs \
                seconds"
        );
        let told: Vec<_> = found
            .iter()
            .map(|one| (one.address.package, one.initial_state, one.version.is_ok()))
            .collect();
        assert_eq!(told, [(0, false, true), (0, true, true), (3, false, false)]);
        assert!(found[0].known.as_ref().is_some_and(|known| known.active));
    }

    /// Explores a sideband whose every package and channel answers with `capabilities`; the
    /// channels found, and how often one was asked.
    fn explored(capabilities: &Capabilities) -> (Vec<FoundChannel>, usize) {
        let mut n_asked = 0;
        let mut ask = |_: Address, command: &Command| {
            n_asked += 1;
            let answer = match command {
                Command::GetCapabilities => Answer::Capabilities(*capabilities),
                _ => Answer::Done,
            };
            let (outcome, reason) = (Outcome::Completed, Reason::NONE);
            Ok(Ok(Reply { outcome, reason, answer, tries: 1, strays: Strays::default() }))
        };
        let found = explore(false, &mut ask).expect("the interface is there");
        (found, n_asked)
    }

    #[test]
    fn a_responder_that_answers_for_any_channel_is_shown_once() {
        // As libslirp answers for each of 8 packages and 31 channels.
        let filler = Capabilities {
            flags: u32::MAX,
            broadcast_filters: u32::MAX,
            multicast_filters: u32::MAX,
            buffer: u32::MAX,
            notifications: u32::MAX,
            filters: [0, 0, 0, 2],
            vlan_modes: u8::MAX,
            channels: 0,
        };
        let (found, n_asked) = explored(&filler);
        assert_eq!((found.len(), n_asked), (1, 3), "version, capabilities and link of one channel");
        let real = Capabilities { flags: 0, channels: 2, ..filler };
        let (found, _) = explored(&real);
        assert_eq!(found.len(), 16, "two channels of each of eight packages");
        let counted = Capabilities { channels: 2, ..filler };
        assert_eq!(explored(&counted).0.len(), 16, "a count of channels is believed");
    }
}
