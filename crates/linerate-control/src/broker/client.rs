//! The agent's end of the channel to the broker: one request at a time.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use linerate_sys::live::{Row, Shape};
use linerate_sys::perf;
use linerate_sys::privilege::{AttachedFilter, Helper, LiveParts, Sideband, SocketOption};
use linerate_sys::xdp::{Match, Placement};
use rustix::event::{PollFd, PollFlags, poll};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::channel::{receive, send};
use super::{MatchText, Refused, Request};
use crate::KnownPeer;
use crate::wire::{SettingState, TuneRequest};

/// Connection to the process that keeps the rights of the account.
#[derive(Debug)]
pub struct Broker {
    stream: Mutex<UnixStream>,
}

impl Broker {
    /// Wraps the broker at the other end of `stream`.
    #[must_use]
    pub const fn at(stream: UnixStream) -> Self {
        Self { stream: Mutex::new(stream) }
    }

    /// Waits until the broker has ended, for any reason.
    pub fn wait_for_end(&self) {
        let Ok(stream) = self.stream.lock().unwrap_or_else(PoisonError::into_inner).try_clone()
        else {
            return;
        };
        // No event is requested: poll(2) always reports the end of a stream.
        let mut watched = [PollFd::new(&stream, PollFlags::empty())];
        while poll(&mut watched, None).is_ok_and(|n| n == 0) || watched[0].revents().is_empty() {}
    }

    /// Sends a request and returns the answer with its descriptors.
    pub(super) fn ask<T: DeserializeOwned>(
        &self,
        request: &Request,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(T, Vec<OwnedFd>), Refused> {
        fn lost(cause: io::Error) -> Refused {
            Refused::because(format!(
                "ask the broker of this agent: {cause} (it has ended: restart the agent)"
            ))
        }
        let stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        send(&stream, request, descriptors).map_err(lost)?;
        let answer = receive::<Result<Value, Refused>>(&stream).map_err(lost)?;
        let (answer, descriptors) =
            answer.ok_or_else(|| lost(io::ErrorKind::UnexpectedEof.into()))?;
        let value = serde_json::from_value(answer?).map_err(|cause| lost(cause.into()))?;
        Ok((value, descriptors))
    }

    /// Sends a request and returns the one descriptor of the answer.
    pub(super) fn descriptor(
        &self,
        request: &Request,
        with: &[BorrowedFd<'_>],
    ) -> io::Result<OwnedFd> {
        let ((), mut descriptors) = self.ask(request, with).map_err(Refused::into_io)?;
        descriptors
            .pop()
            .ok_or_else(|| io::Error::other("the broker of this agent sent no descriptor"))
    }

    /// Reads the list of hosts that this one has been paired with.
    pub(crate) fn peers(&self) -> Result<Vec<KnownPeer>, String> {
        self.ask(&Request::Peers, &[]).map(|(peers, _)| peers).map_err(|refused| refused.why)
    }

    /// Reads the facts of this host.
    pub(crate) fn facts(&self) -> Value {
        self.ask(&Request::Facts, &[]).map_or(Value::Null, |(facts, _)| facts)
    }

    /// Carries out a conductor's request for settings.
    pub(crate) fn tune(&self, request: TuneRequest) -> Result<Vec<SettingState>, String> {
        self.ask(&Request::Tune(request), &[])
            .map(|(states, _)| states)
            .map_err(|refused| refused.why)
    }

    /// Puts every changed setting back. Returns a sentence for each that could not be.
    pub(crate) fn put_back(&self, for_good: bool) -> Vec<String> {
        self.ask(&Request::PutBack { for_good }, &[])
            .map_or_else(|refused| vec![refused.why], |(left, _)| left)
    }
}

impl Helper for Broker {
    fn bind(&self, socket: BorrowedFd<'_>, address: SocketAddr) -> io::Result<()> {
        self.ask(&Request::Bind { address }, &[socket]).map(|((), _)| ()).map_err(Refused::into_io)
    }

    fn set_option(&self, socket: BorrowedFd<'_>, option: SocketOption) -> io::Result<()> {
        self.ask(&Request::Option(option), &[socket]).map(|((), _)| ()).map_err(Refused::into_io)
    }

    fn packet_socket(&self, device: &str, ethertype: u16) -> io::Result<OwnedFd> {
        self.descriptor(&Request::PacketSocket { device: device.to_owned(), ethertype }, &[])
    }

    fn xdp_socket(&self, device: &str) -> io::Result<OwnedFd> {
        self.descriptor(&Request::XdpSocket { device: device.to_owned() }, &[])
    }

    fn attach_filter(
        &self,
        device: &str,
        alternatives: &[&[Match]],
        placement: Option<Placement>,
        multi_buffer: bool,
    ) -> io::Result<AttachedFilter> {
        let matches = |matches: &&[Match]| matches.iter().map(MatchText::from).collect();
        let request = Request::AttachFilter {
            device: device.to_owned(),
            alternatives: alternatives.iter().map(matches).collect(),
            placement,
            multi_buffer,
        };
        let (placement, descriptors) = self.ask(&request, &[]).map_err(Refused::into_io)?;
        let [link, program, sockets] = exactly(descriptors)?;
        Ok(AttachedFilter { placement, link, program, sockets })
    }

    fn live_frames(&self, device: &str, rows: &[Row], shape: Shape) -> io::Result<LiveParts> {
        let request = Request::LiveFrames { device: device.to_owned(), rows: rows.to_vec(), shape };
        let ((), mut descriptors) = self.ask(&request, &[]).map_err(Refused::into_io)?;
        let anchor = descriptors.split_off(descriptors.len().min(LIVE_DESCRIPTORS));
        let anchor = if anchor.is_empty() { None } else { Some(exactly(anchor)?) };
        let [program, state, departures, handed, refused] =
            exactly::<LIVE_DESCRIPTORS>(descriptors)?;
        Ok(LiveParts { program, state, departures, tracepoints: [handed, refused], anchor })
    }

    fn counter(
        &self,
        counter: perf::Counter,
        cpu: u32,
        leader: Option<BorrowedFd<'_>>,
    ) -> io::Result<OwnedFd> {
        let leader: Vec<BorrowedFd<'_>> = leader.into_iter().collect();
        self.descriptor(&Request::Counter { counter, cpu }, &leader)
    }

    fn run_first(&self, thread: i32) -> io::Result<()> {
        self.ask(&Request::RunFirst { thread }, &[]).map(|((), _)| ()).map_err(Refused::into_io)
    }

    fn keep_awake(&self) -> io::Result<OwnedFd> {
        self.descriptor(&Request::KeepAwake, &[])
    }

    fn sideband_statistics(&self, at: &Sideband, patience: Duration) -> io::Result<Vec<u8>> {
        self.ask(&Request::SidebandStatistics { at: at.clone(), patience }, &[])
            .map(|(told, _)| told)
            .map_err(Refused::into_io)
    }
}

/// Number of descriptors of a generator of live frames without an anchor.
const LIVE_DESCRIPTORS: usize = 5;

fn exactly<const N: usize>(descriptors: Vec<OwnedFd>) -> io::Result<[OwnedFd; N]> {
    let unexpected =
        |_| io::Error::other("the broker of this agent sent another number of descriptors");
    descriptors.try_into().map_err(unexpected)
}

impl From<&Match> for MatchText {
    fn from(one: &Match) -> Self {
        let n = usize::from(one.n_bytes);
        Self { offset: one.offset, value: one.value[..n].to_vec(), mask: one.mask[..n].to_vec() }
    }
}
