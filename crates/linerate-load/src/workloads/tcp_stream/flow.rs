//! One end of one connection of a stream.

use std::collections::BTreeMap;
use std::sync::Arc;

use linerate_model::{Counter, FlowReport, SocketValue, TcpState};
use linerate_sys::memory::Region;
use socket2::{SockAddr, Socket};

use super::options;
use super::params::{Role, StreamParams};
use super::receiver::Receiver;
use super::sender::{Counts, Sender, Source};
use crate::workloads::rendezvous::would_wait;
use crate::workloads::tcp_state;
use crate::{Result, Tally};

/// Sending calls of one turn end after this many bytes: a turn is then long compared with a clock
/// reading, and short compared with everything else.
const TURN_BYTES: u64 = 64 << 10;
/// Most sending calls of one turn.
const TURN_CALLS: u64 = 32;
/// Bytes that one call takes of what a connection that only sends has received.
const REST_BYTES: usize = 64 << 10;
/// Most receiving calls of one turn.
const RECEIVE_CALLS: u32 = 8;

/// Connection and its state.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) number: u32,
    pub(super) socket: Socket,
    sender: Option<Sender>,
    receiver: Option<Receiver>,
    /// True while more may be sent.
    sending: bool,
    /// True while more may arrive.
    receiving: bool,
    send_calls: u64,
    message_bytes: u64,
    received: u64,
    /// This connection's share of the worker's tally.
    own: Tally,
    local: Option<SockAddr>,
    remote: Option<SockAddr>,
    /// Bound of the window that must stay in force.
    window_clamp: Option<u32>,
    values: BTreeMap<String, SocketValue>,
    modes: BTreeMap<String, String>,
}

/// Outcome of a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Turn {
    pub(super) moved: bool,
    pub(super) send_blocked: bool,
    pub(super) receive_blocked: bool,
    /// True if it has sent all that it had to send.
    pub(super) stopped: bool,
}

impl Flow {
    pub(super) fn new(
        number: u32,
        socket: Socket,
        role: Role,
        params: &StreamParams,
        payload: &Arc<Region>,
        source: &Source,
    ) -> Result<Self> {
        let values = options::granted(&socket, params, role.receives)?;
        let sender =
            role.sends.then(|| Sender::new(&socket, params, payload, source)).transpose()?;
        let receiver = role.receives.then(|| Receiver::new(&socket, params)).transpose()?;
        let mut modes =
            BTreeMap::from([("wait".to_owned(), params.placement.wait.name().to_owned())]);
        if role.sends {
            modes.insert("send".to_owned(), params.send_name());
        }
        if role.receives {
            modes.insert("receive".to_owned(), params.receive_name());
        }
        Ok(Self {
            number,
            sending: role.sends,
            // Also a sender reads: the end of its peer shows there.
            receiving: true,
            // A turn takes the same time for any size of message.
            send_calls: (TURN_BYTES / params.message_size.0).clamp(1, TURN_CALLS),
            message_bytes: params.message_size.0,
            received: 0,
            own: Tally::default(),
            local: socket.local_addr().ok(),
            remote: socket.peer_addr().ok(),
            socket,
            sender,
            receiver,
            window_clamp: params
                .window_clamp
                .map(|clamp| u32::try_from(clamp.0).unwrap_or(u32::MAX)),
            values,
            modes,
        })
    }

    /// Returns true once nothing more can move.
    pub(super) fn ended(&self) -> bool {
        !self.sending && !self.receiving
    }

    /// Sends and receives, each for at most one turn.
    #[inline]
    pub(super) fn turn(
        &mut self,
        may_send: bool,
        may_receive: bool,
        buffer: &mut Region,
        tally: &mut Tally,
    ) -> Turn {
        let mut turn = Turn::default();
        if self.sending && may_send {
            self.send(&mut turn, tally);
        }
        // A connection that only sends is read after its end, to see the end of the peer.
        if self.receiving && may_receive && (self.receiver.is_some() || !self.sending) {
            self.receive(&mut turn, buffer, tally);
        }
        turn
    }

    fn send(&mut self, turn: &mut Turn, tally: &mut Tally) {
        let Some(sender) = &mut self.sender else { return };
        let (mut bytes, mut calls, mut errors, mut counts) = (0, 0, 0, Counts::default());
        let mut is_done = false;
        // Messages count when they are complete, and one may span several calls.
        let messages = sender.messages();
        while calls < self.send_calls {
            calls += 1;
            match sender.send(&self.socket, &mut counts) {
                Ok(0) => {
                    is_done = true;
                    break;
                }
                Ok(taken) => bytes += taken as u64,
                Err(error) if would_wait(&error) => {
                    turn.send_blocked = true;
                    break;
                }
                Err(_) => {
                    // The peer closed or vanished: nothing more can be sent.
                    errors = 1;
                    self.sending = false;
                    break;
                }
            }
        }
        turn.moved |= bytes > 0;
        turn.stopped = is_done;
        let messages = sender.messages() - messages;
        for tally in [&mut *tally, &mut self.own] {
            tally.add(Counter::PayloadSent, bytes);
            tally.add(Counter::MessagesSent, messages);
            tally.add(Counter::CallsSent, calls);
            tally.add(Counter::WouldBlock, u64::from(turn.send_blocked));
            tally.add(Counter::SendErrors, errors);
        }
        counts.into_tallies([tally, &mut self.own]);
        if is_done {
            self.stop_sending();
        }
    }

    fn receive(&mut self, turn: &mut Turn, buffer: &mut Region, tally: &mut Tally) {
        let mut none = Receiver::Discard(REST_BYTES);
        let receiver = self.receiver.as_mut().unwrap_or(&mut none);
        let (mut bytes, mut mapped, mut calls, mut errors) = (0, 0, 0, 0);
        while calls < RECEIVE_CALLS {
            calls += 1;
            match receiver.receive(&self.socket, buffer) {
                Ok(taken) => {
                    bytes += (taken.mapped + taken.copied) as u64;
                    mapped += taken.mapped as u64;
                    if taken.ended {
                        self.receiving = false;
                        self.answer_end();
                        break;
                    }
                }
                Err(error) if would_wait(&error) => {
                    turn.receive_blocked = true;
                    break;
                }
                Err(_) => {
                    errors = 1;
                    self.receiving = false;
                    break;
                }
            }
        }
        turn.moved |= bytes > 0;
        let messages =
            // Counted from the totals, so that a message that arrives in parts counts once.
            (self.received + bytes) / self.message_bytes - self.received / self.message_bytes;
        self.received += bytes;
        for tally in [tally, &mut self.own] {
            tally.add(Counter::PayloadReceived, bytes);
            tally.add(Counter::MessagesReceived, messages);
            tally.add(Counter::CallsReceived, calls.into());
            tally.add(Counter::WouldBlock, u64::from(turn.receive_blocked));
            tally.add(Counter::ReceiveErrors, errors);
            tally.add(Counter::ZerocopyMapped, mapped);
        }
    }

    /// Ends sending, which the peer sees.
    pub(super) fn stop_sending(&mut self) {
        if self.sending {
            self.sending = false;
            self.shut_down();
        }
    }

    /// Ends this direction too once the peer's stream is complete, unless data still goes the other
    /// way. If it waited for the worker's other connections, two ends could wait for each other.
    fn answer_end(&self) {
        if !self.sending {
            self.shut_down();
        }
    }

    fn shut_down(&self) {
        // If the connection is gone already, the peer knows.
        let _: Result<(), _> = self.socket.shutdown(std::net::Shutdown::Write);
    }

    /// Restores the bound of the window if the kernel has lifted it.
    pub(super) fn keep_clamped(&self) {
        if let Some(clamp) = self.window_clamp {
            options::keep_clamped(&self.socket, clamp);
        }
    }

    /// Returns the kernel's state of the connection; `None` if it has none any more.
    pub(super) fn tcp(&self) -> Option<TcpState> {
        tcp_state::of(&self.socket)
    }

    /// Returns the report of the connection, carried by worker `worker`.
    pub(super) fn report(mut self, worker: u32) -> FlowReport {
        let mut counts = Counts::default();
        if let Some(sender) = &mut self.sender {
            sender.settle(&self.socket, &mut counts);
        }
        counts.into_tallies([&mut self.own, &mut Tally::default()]);
        let counters = self.own.counters;
        let completed = counters[Counter::ZerocopySends];
        if completed > 0 {
            let copied = counters[Counter::ZerocopyCopied];
            self.modes.insert(
                "send".into(),
                format!("zerocopy: {copied} of {completed} sends copied after all"),
            );
        }
        let mapped = counters[Counter::ZerocopyMapped];
        if let Some(Receiver::Window(_)) = self.receiver {
            let received = counters[Counter::PayloadReceived];
            self.modes
                .insert("receive".into(), format!("zerocopy: {mapped} of {received} bytes mapped"));
        }
        options::at_end(&mut self.values, &self.socket);
        FlowReport {
            flow: self.number,
            worker,
            local: printed(self.local.as_ref()),
            remote: printed(self.remote.as_ref()),
            counters,
            tcp: self.tcp(),
            socket: self.values,
            modes: self.modes,
            ..FlowReport::default()
        }
    }
}

/// Returns an address as flow reports carry it; empty if there is none.
fn printed(address: Option<&SockAddr>) -> String {
    let address = address.and_then(SockAddr::as_socket);
    address.map(|address| address.to_string()).unwrap_or_default()
}
