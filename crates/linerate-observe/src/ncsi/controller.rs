//! A controller behind an interface: commands over a packet socket, and a survey of what is there.

use linerate_model::Nanos;
use linerate_packet::ncsi::{Answer, Command, Outcome, PACKAGE_ITSELF};
use linerate_sys::clock::monotonic;
use linerate_sys::packet::{PacketSocket, wait};
use linerate_sys::{SysError, clock};

use super::exchange::{Address, Exchange, Failure, Reply, Step};

/// EtherType of control packets.
const ETHERTYPE: u16 = 0x88f8;
/// Longest control packet: header, payload and checksum fill an Ethernet frame.
const LONGEST: usize = 1518;
/// Packages a sideband may have, and channels a package (DSP0222).
const PACKAGES: u8 = 8;
const CHANNELS: u8 = 31;

/// The controllers behind one interface.
#[derive(Debug)]
pub struct Controller {
    socket: PacketSocket,
    instance: u8,
    buffer: Box<[u8]>,
}

/// A channel that answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Who.
    pub address: Address,
    /// Whether it waits to be initialised, and refuses everything else until then.
    pub initial_state: bool,
    /// Its answer to Get Version ID.
    pub version: Reply,
    /// Its answer to Get Capabilities.
    pub capabilities: Option<Reply>,
    /// Its answer to Get Link Status.
    pub link: Option<Reply>,
}

impl Controller {
    /// Opens the interface `device`.
    ///
    /// # Errors
    /// If there is no such interface, or CAP_NET_RAW is missing.
    pub fn open(device: &str) -> Result<Self, SysError> {
        let socket = PacketSocket::open_for(device, ETHERTYPE)?;
        // A controller answers a command of the same type and number with what it answered before: begin anywhere.
        let instance = (clock::realtime() % u64::from(u8::MAX)) as u8;
        Ok(Self { socket, instance, buffer: vec![0; LONGEST].into_boxed_slice() })
    }

    /// Asks, and waits for the answer: three times, a tenth of a second each.
    ///
    /// # Errors
    /// If the interface went away. That nobody answers is the inner error.
    pub fn ask(&mut self, address: Address, command: &Command) -> Result<Result<Reply, Failure>, SysError> {
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
            while let Some(length) = self.socket.receive(&mut self.buffer)? {
                if let Some(reply) = exchange.receive(&self.buffer[..length]) {
                    return Ok(Ok(reply));
                }
            }
        }
    }
}

/// Finds packages and channels. It only reads, unless `initialise` allows to clear the initial state of channels: a package
/// answers any command to it by being selected, which a running management controller does all the time.
///
/// # Errors
/// If the interface went away.
pub fn survey(controller: &mut Controller, initialise: bool) -> Result<Vec<Found>, SysError> {
    let mut found = Vec::new();
    for package in 0..PACKAGES {
        let mut channels = CHANNELS;
        for channel in 0..CHANNELS {
            if channel >= channels {
                break;
            }
            let Some(one) = look(controller, Address { package, channel }, initialise)? else { break };
            if let Some(Answer::Capabilities(capabilities)) = one.capabilities.as_ref().map(|reply| &reply.answer) {
                // Some say none; then channels are asked for until one is silent.
                channels = if capabilities.channels == 0 { channels } else { capabilities.channels };
            }
            found.push(one);
        }
        // Packages are numbered by straps, most often from 0 on without gaps; an absent one costs three tries.
        if found.iter().all(|one| one.address.package != package) {
            break;
        }
    }
    Ok(found)
}

fn look(controller: &mut Controller, address: Address, initialise: bool) -> Result<Option<Found>, SysError> {
    let Ok(mut version) = controller.ask(address, &Command::GetVersion)? else { return Ok(None) };
    let refused = |reply: &Reply| reply.outcome == Outcome::Failed && reply.reason.0 == 1;
    if refused(&version) && initialise && controller.ask(address, &Command::ClearInitialState)?.is_ok() {
        let Ok(again) = controller.ask(address, &Command::GetVersion)? else { return Ok(None) };
        version = again;
    }
    // A channel that is not there answers, if at all, that its number is out of range.
    if version.outcome != Outcome::Completed && !refused(&version) && address.channel != PACKAGE_ITSELF {
        return Ok(None);
    }
    let capabilities = controller.ask(address, &Command::GetCapabilities)?.ok();
    let link = controller.ask(address, &Command::GetLinkStatus)?.ok();
    Ok(Some(Found { address, initial_state: refused(&version), version, capabilities, link }))
}
