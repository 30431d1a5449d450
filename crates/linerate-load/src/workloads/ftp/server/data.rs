//! Data connections of the server: opened on request, used for one file or listing, counted at the
//! end.

use std::net::IpAddr;
use std::ops::Range;

use linerate_model::{Counter, Nanos};
use linerate_sys::readiness::Interest;

use super::{Cargo, FtpGuest, State};
use crate::workloads::ftp::commands::Command;
use crate::workloads::transfer::{
    Bench, Course, Failure, Guest, Part, Sent, Shaken, Turn, Watched, unless_it_would_wait,
};

const STORE_REST: Nanos = Nanos(200_000);
/// One data connection is waited for at a time.
const BACKLOG: i32 = 1;

impl FtpGuest {
    /// Starts sending the chosen file over the data connection.
    fn begin(&mut self, data: &Watched, file: usize) -> Result<(), Failure> {
        let Some(outgoing) = &mut self.outgoing else { return Ok(()) };
        let (opened, size) = self
            .tree
            .open(file)
            .map_err(|error| Failure::Source(error.raw_os_error().unwrap_or(0)))?;
        // The file may have become shorter since the offset was checked.
        let from = std::mem::take(&mut self.restart).min(size);
        let bytes: Range<u64> = from..size;
        outgoing.renew();
        outgoing.begin(data, Part { file: opened, bytes })
    }

    pub(super) fn shake_data(&mut self, bench: &Bench<'_>) -> Result<Turn, Failure> {
        let data = self.data.as_mut().expect("it has come");
        if let Shaken::Waits(interest) = data.shake()? {
            return data.wait(bench, interest);
        }
        self.protection.as_mut().expect("files are private").data_agreed(data);
        self.moved += 1;
        self.state = State::Moving;
        Ok(Turn::Moved)
    }

    pub(super) fn open_listener(
        &mut self,
        command: Command,
        bench: &Bench<'_>,
    ) -> Result<(), Failure> {
        let io = |error: std::io::Error| Failure::io(&error);
        let control = &self.control.as_ref().expect("a guest has one").socket;
        // The address that the client has reached: its data connection can reach it too.
        let local = control.local_addr().map_err(io)?.as_socket().ok_or(Failure::Io(0))?;
        // With its zone, if it is an address of a link.
        let mut own = local;
        own.set_port(0);
        let socket = self.dial.open_at(own).map_err(io)?;
        socket.listen(BACKLOG).map_err(io)?;
        let port = socket.local_addr().map_err(io)?.as_socket().ok_or(Failure::Io(0))?.port();
        // The listener and the data connection share the second token: they never exist together.
        let listener = self.listener.insert(Watched::new(socket, self.token + 1));
        listener.wait(bench, Interest::Readable)?;
        match (command, local.ip().to_canonical()) {
            (Command::Passive, IpAddr::V4(ip)) => {
                let [a, b, c, d] = ip.octets();
                let [high, low] = port.to_be_bytes();
                self.words.set(format_args!(
                    "227 Entering Passive Mode ({a},{b},{c},{d},{high},{low})\r\n"
                ));
            }
            (Command::Passive, IpAddr::V6(_)) => {
                self.words.set(format_args!("425 IPv6 has EPSV only\r\n"));
            }
            _ => {
                self.words.set(format_args!("229 Entering Extended Passive Mode (|||{port}|)\r\n"))
            }
        }
        Ok(())
    }

    /// Accepts the data connection, only from the address that logged in.
    pub(super) fn expect(&mut self, bench: &mut Bench<'_>) -> Result<Turn, Failure> {
        let listener =
            self.listener.as_mut().ok_or(Failure::Syntax("a file without a data connection"))?;
        let Some((socket, from)) = unless_it_would_wait(listener.socket.accept())? else {
            return Ok(Turn::Network);
        };
        // Another host that guesses the port must not get or replace the file (RFC 2577).
        if from.as_socket().map(|from| from.ip()) != self.peer {
            self.account.count(bench.tally, Counter::Foreign, 1);
            return Ok(Turn::Moved);
        }
        socket.set_nonblocking(true).map_err(|error| Failure::io(&error))?;
        let mut data = Watched::new(socket, self.token + 1);
        self.course = Course::begin(bench.now);
        match (self.cargo, &mut self.incoming) {
            (Cargo::File(_), Some(incoming)) => incoming.begin(None)?,
            (Cargo::File(file), None) => self.begin(&data, file)?,
            (Cargo::Listing(..), _) => {}
        }
        // One connection for each request: a second one would be a stranger's.
        self.listener = None;
        self.state = State::Moving;
        if let Some(protection) = &self.protection {
            protection.data(&mut data)?;
            self.state = State::SecuringData;
        }
        self.data = Some(data);
        Ok(Turn::Moved)
    }

    pub(super) fn move_file(&mut self, bench: &mut Bench<'_>) -> Result<Turn, Failure> {
        if let Cargo::Listing(folder, form, sent) = self.cargo {
            return self.send_listing(folder, form, sent, bench);
        }
        let data = self.data.as_mut().expect("data flows over it");
        if let Some(outgoing) = &mut self.outgoing {
            match outgoing.send(data, &mut self.account, bench.tally)? {
                Sent::Bytes(n) => self.moved += n,
                Sent::Full(n) => {
                    self.moved += n;
                    return data.wait(bench, Interest::ReadableOrWritable);
                }
                Sent::All => {
                    self.served(bench);
                    self.end_of_cargo(bench);
                }
            }
            return Ok(Turn::Moved);
        }
        let incoming = self.incoming.as_mut().expect("it takes files");
        let received = incoming.take(data, u64::MAX, &mut self.account, bench)?;
        self.moved += received.bytes;
        if received.ended {
            self.end_data();
            self.state = State::Storing;
            return Ok(Turn::Moved);
        }
        data.after(received.turn, bench)
    }

    /// Ends a file or listing by ending its data connection.
    pub(super) fn end_of_cargo(&mut self, bench: &Bench<'_>) {
        let data = self.data.as_mut().expect("data flowed over it");
        data.end_sending();
        data.rest(bench);
        self.ended = self.data.take();
        self.words.set(format_args!("226 That was all\r\n"));
        self.state = State::Command;
    }

    /// Handles a data connection that ends early. A foreign client may want only a part of a file
    /// (`curl -r`) and continue its session (RFC 959 clause 5.4, RETR). Otherwise it is a
    /// `failure`.
    pub(super) fn cut_off(
        &mut self,
        failure: Failure,
        bench: &mut Bench<'_>,
    ) -> Result<Turn, Failure> {
        // Own clients always want the whole file, so their early end is a failure.
        let by_client = matches!(failure, Failure::Io(_) | Failure::Closed(_));
        if self.password.is_some() || self.outgoing.is_none() || !by_client {
            return Err(failure);
        }
        self.settle(bench);
        self.end_data();
        self.words.set(format_args!("426 The data connection was closed before the end\r\n"));
        self.state = State::Command;
        Ok(Turn::Moved)
    }

    /// Counts a served file of a foreign client, which does not count it itself.
    pub(super) fn served(&mut self, bench: &mut Bench<'_>) {
        // Own clients count each file themselves; counting here too would double it.
        if self.password.is_none() {
            self.course.transfer = self.course.lap();
            self.course.record(bench.tally);
            self.account.count(bench.tally, Counter::Transactions, 1);
            self.account.count(bench.tally, Counter::Connections, 1);
        }
    }

    pub(super) fn store(&mut self, bench: &mut Bench<'_>) -> Result<Turn, Failure> {
        if !self.incoming.as_mut().expect("it takes files").finish()? {
            return Ok(Turn::Until(bench.now + STORE_REST));
        }
        self.served(bench);
        self.words.set(format_args!("226 It is stored\r\n"));
        self.state = State::Command;
        Ok(Turn::Moved)
    }

    pub(super) fn end_data(&mut self) {
        if let Some(mut data) = self.data.take() {
            data.take_leave();
            self.account.keep(&data.socket);
        }
    }
}
