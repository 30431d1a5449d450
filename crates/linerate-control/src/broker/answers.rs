//! Broker: checks each request against the policy, then carries it out.

use std::any::Any;
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use linerate_disk::{FileLimits, Permission, Writable};
use linerate_load::Permits;
use linerate_load::workloads::may_send_raw_frames;
use linerate_sys::live::LiveFrames;
use linerate_sys::privilege::SocketOption;
use linerate_sys::xdp::{Filter, Match};
use linerate_sys::{cpu, packet, perf, socket, xdp};
use serde::Serialize;
use serde_json::Value;

use super::channel::{receive, send};
use super::targets::Targets;
use super::{MatchText, Refused, Request};
use crate::Consent;
use crate::agent::Changes;
use crate::keys::peers_in;

/// The kernel's list of its congestion controls.
const CONGESTION_CONTROLS: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";
/// EtherType of NC-SI control packets (DSP0222).
const NCSI: u16 = 0x88f8;

/// Operations that a broker carries out for its agent, as the host's owner permits them.
#[derive(Debug)]
pub struct Duties {
    /// Permissions of loads.
    pub permits: Permits,
    /// Limits on the files that loads read and fill. `None`: those of this account.
    pub files: Option<FileLimits>,
    /// Disks that may be written to.
    pub writable: Writable,
    /// Settings that may be changed.
    pub consent: Consent,
    /// Memory that a trial may need, bytes. `None`: half of the available memory.
    pub memory: Option<u64>,
    /// Folder of the keys, if there are any.
    pub keys: Option<PathBuf>,
    /// Reads the facts of the host.
    pub facts: fn() -> Value,
}

/// Answers the agent at the other end of `channel` until it ends, then puts back all settings that
/// were changed.
///
/// # Errors
/// If the agent sends something that is not a request, or cannot be answered.
pub fn keep(channel: OwnedFd, duties: Duties) -> Result<(), String> {
    let stream = UnixStream::from(channel);
    // The broker's own copy of the limits: it does not trust those of the agent.
    let targets = Targets::new(duties.writable.clone(), duties.files.clone());
    // The kernel names the process that made the socket pair: the agent, before it was split.
    let agent = rustix::net::sockopt::socket_peercred(&stream);
    let agent =
        agent.map_err(|error| format!("identify the agent: {error}"))?.pid.as_raw_nonzero().get();
    let mut work = Work { agent, duties, changes: Changes::default(), targets };
    let ended = loop {
        let (request, descriptors) = match receive::<Request>(&stream) {
            Ok(Some(received)) => received,
            Ok(None) => break Ok(()),
            // The agent has ended without reading an answer.
            Err(error) if error.kind() == ErrorKind::ConnectionReset => break Ok(()),
            Err(error) => break Err(format!("read a request of the agent: {error}")),
        };
        // A panic refuses one request; the settings to put back must survive it.
        let done = catch_unwind(AssertUnwindSafe(|| work.answer(request, &descriptors)));
        let (answer, descriptors) = match done.unwrap_or_else(|panic| Err(panicked(&*panic))) {
            Ok(Answer(value, descriptors)) => (Ok(value), descriptors),
            Err(refused) => (Err(refused), Vec::new()),
        };
        let borrowed: Vec<BorrowedFd<'_>> = descriptors.iter().map(AsFd::as_fd).collect();
        if let Err(error) = send(&stream, &answer, &borrowed) {
            break Err(format!("answer the agent: {error}"));
        }
    };
    // The agent is gone, so nobody else would put its changes back.
    work.changes.close().iter().for_each(|left| eprintln!("{left}"));
    ended
}

fn panicked(panic: &(dyn Any + Send)) -> Refused {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    Refused::because(format!(
        "the broker of this agent failed: {}",
        text.unwrap_or("without a message")
    ))
}

struct Work {
    /// Process id of the agent.
    agent: i32,
    duties: Duties,
    changes: Changes,
    targets: Targets,
}

/// Answer: a value, and descriptors.
struct Answer(Value, Vec<OwnedFd>);

impl Answer {
    fn value(value: &impl Serialize) -> Result<Self, Refused> {
        Self::with(value, Vec::new())
    }

    fn with(value: &impl Serialize, descriptors: Vec<OwnedFd>) -> Result<Self, Refused> {
        Ok(Self(serde_json::to_value(value).map_err(Refused::because)?, descriptors))
    }

    fn descriptor(descriptor: OwnedFd) -> Result<Self, Refused> {
        Self::with(&(), vec![descriptor])
    }
}

impl Work {
    fn answer(&mut self, request: Request, with: &[OwnedFd]) -> Result<Answer, Refused> {
        let Duties { permits, consent, .. } = &self.duties;
        match request {
            Request::Peers => {
                let folder = self
                    .duties
                    .keys
                    .as_deref()
                    .ok_or_else(|| Refused::because("this agent has no keys"))?;
                Answer::value(&peers_in(folder).map_err(Refused::because)?)
            }
            Request::Facts => Answer::value(&(self.duties.facts)()),
            Request::Bind { address } => {
                permits.port(address.port()).map_err(Refused::because)?;
                Answer::value(&socket::bind(internet(with)?, address)?)
            }
            Request::Option(option) => {
                Answer::value(&socket::force(internet(with)?, &self.permitted(option)?)?)
            }
            Request::PacketSocket { device, ethertype } => {
                match ethertype {
                    // A packet socket for NC-SI has its own permission, which names the interface.
                    NCSI => permits.ncsi(&device),
                    _ => may_send_raw_frames(permits, &device),
                }
                .map_err(Refused::because)?;
                Answer::descriptor(packet::unbound_socket()?)
            }
            Request::XdpSocket { device } => {
                may_send_raw_frames(permits, &device).map_err(Refused::because)?;
                Answer::descriptor(xdp::unbound_socket()?)
            }
            Request::AttachFilter { device, alternatives, placement, multi_buffer } => {
                may_send_raw_frames(permits, &device).map_err(Refused::because)?;
                let alternatives: Vec<Vec<Match>> =
                    alternatives.iter().map(|one| matches(one)).collect::<Result<_, _>>()?;
                // The kernel program is built here from typed matches, never from the agent's code.
                let alternatives: Vec<&[Match]> = alternatives.iter().map(Vec::as_slice).collect();
                let filter = Filter::attach_here(&device, &alternatives, placement, multi_buffer);
                let parts = filter
                    .map_err(|error| Refused { code: error.errno(), why: error.to_string() })?
                    .into_parts();
                Answer::with(&parts.placement, vec![parts.link, parts.program, parts.sockets])
            }
            Request::LiveFrames { device, rows, shape } => {
                may_send_raw_frames(permits, &device).map_err(Refused::because)?;
                let parts = LiveFrames::parts(&device, &rows, shape);
                let parts = parts
                    .map_err(|error| Refused { code: error.errno(), why: error.to_string() })?;
                let mut descriptors = vec![parts.program, parts.state, parts.departures];
                descriptors.extend(
                    parts.tracepoints.into_iter().chain(parts.anchor.into_iter().flatten()),
                );
                Answer::with(&(), descriptors)
            }
            Request::Counter { counter, cpu } => {
                Answer::descriptor(perf::of_cpu(counter, cpu, with.first().map(AsFd::as_fd))?)
            }
            Request::RunFirst { thread } => {
                permits.realtime().map_err(Refused::because)?;
                // Only threads of the agent: any other process would be a way to starve the host.
                Answer::value(&cpu::let_run_first(self.agent, thread)?)
            }
            Request::SidebandStatistics { at, patience } => {
                permits.ncsi(&at.device).map_err(Refused::because)?;
                let told = linerate_observe::ncsi::statistics_for_another(at, patience);
                Answer::value(
                    &told
                        .map_err(|error| Refused { code: error.errno(), why: error.to_string() })?,
                )
            }
            Request::KeepAwake => Answer::descriptor(cpu::awake_request()?),
            Request::Tune(request) => {
                Answer::value(&self.changes.handle(request, consent).map_err(Refused::because)?)
            }
            Request::PutBack { for_good: true } => Answer::value(&self.changes.close()),
            Request::PutBack { for_good: false } => Answer::value(&self.changes.put_back()),
            Request::Open { session, path, write, consent } => {
                let permission = match write {
                    true => Permission::Write { consent: consent.as_deref() },
                    false => Permission::Read,
                };
                let (kept, descriptors) =
                    self.targets.open(session, |disks| disks.open(&path, permission))?;
                Answer::with(&kept, descriptors)
            }
            Request::Scratch { session, folder, size } => {
                let (kept, descriptors) =
                    self.targets.open(session, |disks| disks.scratch(&folder, size))?;
                Answer::with(&kept, descriptors)
            }
            Request::IsFolder { path } => {
                let is_named = self
                    .duties
                    .files
                    .as_ref()
                    .is_none_or(|limits| limits.may_fill(&path, 0).is_ok());
                Answer::value(&(is_named && path.is_dir()))
            }
            Request::Reopen { session, number, write, direct, synchrony } => {
                let target = self.targets.of(session, number)?;
                Answer::descriptor(target.reopen(write, direct, synchrony)?.into())
            }
            Request::Release { session, number } => {
                self.targets.release(session, number);
                Answer::value(&())
            }
            Request::EndSession { session } => {
                self.targets.end(session);
                Answer::value(&())
            }
        }
    }

    /// Checks a socket option: buffers stay within the memory of a conductor, and congestion
    /// controls are those that the kernel has loaded.
    fn permitted(&self, option: SocketOption) -> Result<SocketOption, Refused> {
        match &option {
            SocketOption::SendBuffer(wanted) | SocketOption::ReceiveBuffer(wanted) => {
                buffer_fits(self.duties.memory, *wanted)?;
            }
            SocketOption::BusyPoll(_) => {}
            // For an unknown name the kernel would load a module.
            SocketOption::Congestion(name) => {
                let known = std::fs::read_to_string(CONGESTION_CONTROLS)?;
                if !known.split_whitespace().any(|known| known == name) {
                    let code = Some(rustix::io::Errno::NOENT.raw_os_error());
                    return Err(Refused { code, why: name.clone() });
                }
            }
        }
        Ok(option)
    }
}

/// Refuses a socket buffer above `memory`, by default half of what is available.
fn buffer_fits(memory: Option<u64>, bytes: usize) -> Result<(), Refused> {
    let limit = memory.or_else(|| linerate_observe::available_memory().map(|bytes| bytes / 2));
    if limit.is_none_or(|limit| bytes as u64 <= limit) {
        return Ok(());
    }
    Err(Refused::because(format!(
        "a buffer of {bytes} bytes is larger than the memory of a conductor"
    )))
}

/// Returns the socket of a request if it is an internet socket: binding a Unix socket would create
/// a name in the file system.
fn internet(with: &[OwnedFd]) -> Result<&OwnedFd, Refused> {
    let socket = with.first().filter(socket::is_internet);
    socket.ok_or_else(|| Refused::because("the request has no internet socket"))
}

fn matches(texts: &[MatchText]) -> Result<Vec<Match>, Refused> {
    fn one(text: &MatchText) -> Option<Match> {
        let is_one =
            matches!(text.value.len(), 1 | 2 | 4 | 8) && text.value.len() == text.mask.len();
        is_one.then(|| Match::masked(text.offset, &text.value, &text.mask))
    }
    let matches: Option<Vec<Match>> = texts.iter().map(one).collect();
    matches
        .filter(|matches| !matches.is_empty())
        .ok_or_else(|| Refused::because("a match has 1, 2, 4 or 8 bytes"))
}
