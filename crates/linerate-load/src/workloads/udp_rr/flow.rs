//! Flow of either end: paired UDP sockets with tags, options and counters.

use std::collections::BTreeMap;
use std::io;
use std::net::UdpSocket;

use linerate_model::{Counter, Counters, FlowReport, SocketValue};
use linerate_sys::SysError;

use super::UdpRrParams;
use crate::workloads::datagram::{Purpose, Tag, number_of, read_label};
use crate::workloads::pairing::Paired;
use crate::workloads::placement::deal;
use crate::workloads::rendezvous::would_wait;
use crate::workloads::socket_options;
use crate::{Result, Secret, Tally};

/// One flow.
#[derive(Debug)]
pub(super) struct DatagramFlow {
    number: u32,
    socket: UdpSocket,
    pub(super) outward: Tag,
    inward: Tag,
    pairing: Tag,
    pub(super) counters: Counters,
    options: BTreeMap<String, SocketValue>,
}

impl DatagramFlow {
    fn new(
        params: &UdpRrParams,
        secret: Secret,
        number: u32,
        socket: UdpSocket,
        ways: (Purpose, Purpose),
    ) -> Self {
        let options = params.options.granted(&socket);
        let tag = |purpose| Tag::new(secret, number, purpose);
        let (outward, inward, pairing) = (tag(ways.0), tag(ways.1), tag(Purpose::Pairing));
        Self { number, socket, outward, inward, pairing, counters: Counters::default(), options }
    }

    /// Counts for the flow and the worker together.
    #[inline]
    pub(super) fn count(&mut self, tally: &mut Tally, counter: Counter, n: u64) {
        self.counters[counter] += n;
        tally.add(counter, n);
    }

    /// Sends one datagram; returns true if the kernel took it.
    #[inline]
    pub(super) fn send(&mut self, datagram: &[u8], tally: &mut Tally) -> bool {
        let answer = self.socket.send(datagram);
        self.count(tally, Counter::CallsSent, 1);
        match answer {
            Ok(n) => {
                self.count(tally, Counter::DatagramsSent, 1);
                self.count(tally, Counter::PayloadSent, n as u64);
                true
            }
            Err(error) => {
                let kind =
                    if would_wait(&error) { Counter::WouldBlock } else { Counter::SendErrors };
                self.count(tally, kind, 1);
                false
            }
        }
    }

    /// Receives one datagram and returns the low bits of its number; `None` if none arrived, or it
    /// was not ours. The second part is true if any datagram arrived.
    #[inline]
    pub(super) fn receive(&mut self, buffer: &mut [u8], tally: &mut Tally) -> (Option<u64>, bool) {
        let answer: io::Result<usize> = self.socket.recv(buffer);
        self.count(tally, Counter::CallsReceived, 1);
        match answer {
            Ok(length) => {
                let label = read_label(&buffer[..length], self.inward);
                if label.is_some() {
                    self.count(tally, Counter::DatagramsReceived, 1);
                    self.count(tally, Counter::PayloadReceived, length as u64);
                // Pairing datagrams may arrive late or twice, and they are our own.
                } else if number_of(&buffer[..length], self.pairing).is_none() {
                    self.count(tally, Counter::Foreign, 1);
                }
                (label, true)
            }
            Err(error) => {
                let kind =
                    if would_wait(&error) { Counter::WouldBlock } else { Counter::ReceiveErrors };
                self.count(tally, kind, 1);
                (None, false)
            }
        }
    }

    /// Returns the socket, to wait for it.
    pub(super) fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// Returns the report of the flow.
    pub(super) fn report(mut self, worker: u32, modes: &BTreeMap<String, String>) -> FlowReport {
        socket_options::at_end(&mut self.options, &self.socket);
        FlowReport {
            flow: self.number,
            worker,
            local: socket_options::name_of(self.socket.local_addr()),
            remote: socket_options::name_of(self.socket.peer_addr()),
            counters: self.counters,
            socket: self.options,
            modes: modes.clone(),
            ..FlowReport::default()
        }
    }
}

/// Deals the paired sockets to workers in turn, as flows. A lone flow of a blocking worker waits in
/// its calls.
pub(super) fn shares(
    params: &UdpRrParams,
    secret: Secret,
    paired: &mut Paired,
    ways: (Purpose, Purpose),
    open: bool,
) -> Result<Vec<Vec<DatagramFlow>>> {
    let sockets = std::mem::take(&mut paired.sockets);
    let flow = |(number, socket)| DatagramFlow::new(params, secret, number, socket, ways);
    let own = |sockets: Vec<_>| sockets.into_iter().map(flow).collect();
    let shares: Vec<Vec<_>> =
        deal(sockets, params.placement.workers()).into_iter().map(own).collect();
    for share in &shares {
        let waits = params.placement.is_alone(share.len(), open);
        for flow in share {
            let set = flow.socket.set_nonblocking(!waits);
            set.map_err(|cause| SysError::new("prepare", "a udp socket", cause))?;
        }
    }
    Ok(shares)
}

/// Returns the name of the labels in reports.
pub(super) fn label_mode(params: &UdpRrParams) -> String {
    let size = params.exchange.request_bytes().min(params.exchange.response_bytes()).min(16) as u32;
    let number = params.number_bits();
    format!("number {number} bits, tag {} bits", size * u8::BITS - number)
}
