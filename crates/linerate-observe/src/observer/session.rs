//! Questions and answers with one SNMP agent over UDP (RFC 3417 3). An answer that comes too late
//! is passed over, not taken for the next one; a question that is not answered is not repeated
//! within a poll, as its counters would be of another time.

use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};
use std::time::{Duration, Instant};

use linerate_packet::snmp::{
    Community, Engine, Header, Incoming, Keys, Oid, Pdu, PduKind, User, Value,
};
use linerate_sys::clock::monotonic;

use super::{SnmpAccess, SnmpAgent};
use crate::Unavailable;

/// The largest datagram over IPv4.
const LONGEST: usize = 65_507;
/// `usmStats` (RFC 3414 5): what an agent reports of a request that it does not take.
const USM_STATS: [u32; 10] = [1, 3, 6, 1, 6, 3, 15, 1, 1, 0];
const NOT_IN_TIME: u32 = 2;
const UNKNOWN_ENGINE: u32 = 4;
/// Meaning of each of its counters for the requester, from 1.
const REPORTED: [&str; 6] = [
    "this user may not ask without more security (set `authentication` and `privacy` as the agent \
        has them)",
    "its time is not as it says itself",
    "it does not know the user",
    "it is another engine by now",
    "the password or digest of authentication is wrong",
    "the password of privacy is wrong",
];
/// `errorStatus` of RFC 3416 3 that a question for values meets.
const ERRORS: [(i32, &str); 4] = [
    (1, "tooBig: the answer does not fit its messages"),
    (2, "noSuchName: it supports SNMPv1 only"),
    (5, "genErr: the agent failed to read the value"),
    (16, "authorizationError: the user may not see this, or not without more security"),
];
/// Rounds of one question: finding the engine, its time, and the question itself.
const ROUNDS: usize = 4;

/// Something asked and not answered.
enum Failed {
    /// For good.
    For(Unavailable),
    /// The engine says that it is not the one it was, or not at that time: it must be found anew.
    Engine,
}

/// A session with one agent.
pub(super) struct Session {
    socket: UdpSocket,
    agent: SnmpAgent,
    buffer: Box<[u8]>,
    request: i32,
    security: Option<Security>,
}

/// A user's standing at the agent's engine.
struct Security {
    user: User,
    keys: Keys,
    /// As of `since`; empty before it was found.
    engine: Engine,
    since: Instant,
    salt: u64,
}

impl Session {
    /// Opens a socket in the calling thread's network namespace. Nothing is sent yet.
    pub(super) fn open(agent: &SnmpAgent) -> Result<Self, Unavailable> {
        let failed = |cause: &dyn std::fmt::Display| {
            Unavailable(format!("reach SNMP agent {}: {cause}", agent.address))
        };
        let mut addresses = agent.address.to_socket_addrs().map_err(|cause| failed(&cause))?;
        let address: SocketAddr = addresses.next().ok_or_else(|| failed(&"it has no address"))?;
        let any: SocketAddr =
            if address.is_ipv4() { ([0; 4], 0).into() } else { ([0_u16; 8], 0).into() };
        let socket =
            // A connected socket receives from this agent only, and learns of refusals.
            UdpSocket::bind(any).and_then(|socket| socket.connect(address).map(|()| socket));
        let socket = socket.map_err(|cause| failed(&cause))?;
        // Numbers that no earlier session used: a late answer to one of those is none to ours.
        let seed = monotonic();
        let security = match &agent.access {
            SnmpAccess::Community(_) => None,
            SnmpAccess::User { name, authentication, privacy } => {
                let bytes = |text: &String| text.clone().into_bytes();
                let user = User {
                    name: bytes(name),
                    authentication: authentication
                        .as_ref()
                        .map(|(digest, password)| (*digest, bytes(password))),
                    privacy: privacy.as_ref().map(bytes),
                };
                let engine = Engine::default();
                Some(Security {
                    user,
                    keys: Keys::default(),
                    engine,
                    since: Instant::now(),
                    salt: seed,
                })
            }
        };
        let buffer = vec![0; LONGEST].into_boxed_slice();
        let request = (seed >> 8) as i32 & i32::MAX;
        Ok(Self { socket, agent: agent.clone(), buffer, request, security })
    }

    /// The values of `objects`, in their order; [`Value::Absent`] where the agent has none.
    pub(super) fn get(&mut self, objects: &[Oid]) -> Result<Vec<Value>, Unavailable> {
        let answer = self.ask(&Pdu::get(0, objects))?;
        let found = |object| answer.bindings.iter().find(|(name, _)| name == object);
        let value = |object| found(object).map_or(Value::Absent, |(_, value)| value.clone());
        Ok(objects.iter().map(value).collect())
    }

    /// Up to `repetitions` objects that follow `object`.
    pub(super) fn following(
        &mut self,
        object: &Oid,
        repetitions: i32,
    ) -> Result<Vec<(Oid, Value)>, Unavailable> {
        self.ask(&Pdu::get_bulk(0, object, repetitions)).map(|answer| answer.bindings)
    }

    fn ask(&mut self, question: &Pdu) -> Result<Pdu, Unavailable> {
        let mut found = false;
        // Each failure can call for another round: the engine, then its time, then the question.
        for _ in 0..ROUNDS {
            if self.security.as_ref().is_some_and(|security| security.engine.id.is_empty()) {
                self.find_engine()?;
                found = true;
            }
            match self.round(question) {
                Ok(answer) => return self.judge(answer),
                Err(Failed::For(why)) => return Err(why),
                Err(Failed::Engine) => {}
            }
        }
        let what = if found {
            "it does not keep to its own engine and time"
        } else {
            "its engine changes"
        };
        Err(self.failed(what))
    }

    fn judge(&self, answer: Pdu) -> Result<Pdu, Unavailable> {
        if answer.error_status == 0 {
            return Ok(answer);
        }
        let known = ERRORS.iter().find(|(status, _)| *status == answer.error_status);
        let name =
            known.map_or_else(|| answer.error_status.to_string(), |(_, name)| (*name).to_owned());
        Err(self.failed(&format!("it answers with error {name}")))
    }

    fn failed(&self, why: &str) -> Unavailable {
        Unavailable(format!("ask SNMP agent {}: {why}", self.agent.address))
    }

    fn next_request(&mut self) -> i32 {
        self.request = self.request.checked_add(1).unwrap_or(1);
        self.request
    }

    /// Asks who the engine is: an empty question of nobody, RFC 3414 4.
    fn find_engine(&mut self) -> Result<(), Unavailable> {
        let request = self.next_request();
        let nobody = User::default();
        let header = Header { id: request, salt: 0 };
        // Discovery uses no user and no engine, as RFC 3414 4 describes.
        let question =
            nobody.emit(&Keys::default(), &Engine::default(), header, &Pdu::get(request, &[]));
        self.send(&question)?;
        let report = self.await_answer(|bytes: &[u8]| {
            let report = nobody.parse(&Keys::default(), &Engine::default(), bytes).ok()?;
            (report.id == request
                && report.pdu.kind == PduKind::Report
                && !report.engine.id.is_empty())
            .then_some(report)
        })?;
        let security = self.security.as_mut().expect("only a session with a user finds engines");
        security.keys = Keys::of(&security.user, &report.engine.id);
        security.engine = report.engine;
        security.since = Instant::now();
        Ok(())
    }

    /// One question and its answer.
    fn round(&mut self, question: &Pdu) -> Result<Pdu, Failed> {
        let request = self.next_request();
        let mut question = question.clone();
        question.request = request;
        let Some(security) = &mut self.security else {
            let SnmpAccess::Community(name) = &self.agent.access else {
                unreachable!("a session without a user")
            };
            let message = Community { name: name.clone().into_bytes(), pdu: question };
            self.send(&message.emit()).map_err(Failed::For)?;
            let pdu = |bytes: &[u8]| Community::parse(bytes).ok().map(|message| message.pdu);
            let is_ours = |pdu: &Pdu| pdu.kind == PduKind::Response && pdu.request == request;
            let answer = self.await_answer(|bytes| pdu(bytes).filter(is_ours));
            return answer.map_err(Failed::For);
        };
        // The salt must never repeat under one key, so it counts on.
        security.salt = security.salt.wrapping_add(1);
        let now = security.now();
        let header = Header { id: request, salt: security.salt };
        let message = security.user.emit(&security.keys, &now, header, &question);
        let (user, keys, engine) =
            (security.user.clone(), security.keys.clone(), security.engine.clone());
        self.send(&message).map_err(Failed::For)?;
        let answer = self
            .await_answer(|bytes: &[u8]| {
                let answer = user.parse(&keys, &engine, bytes).ok()?;
                let is_ours = answer.id == request
                    && (answer.pdu.kind == PduKind::Report || answer.pdu.request == request);
                is_ours.then_some(answer)
            })
            .map_err(Failed::For)?;
        self.take(answer)
    }

    /// Follows the engine's time, and distinguishes an answer from a report.
    fn take(&mut self, answer: Incoming) -> Result<Pdu, Failed> {
        let security =
            self.security.as_mut().expect("only a session with a user takes secure answers");
        // The number of boots decides first: time starts again at each boot.
        let newer = (answer.engine.boots, answer.engine.time)
            > (security.engine.boots, security.engine.time);
        // Only what the engine proves moves its time, RFC 3414 3.2 7 b.
        if answer.is_proven && newer {
            security.engine = answer.engine.clone();
            security.since = Instant::now();
        }
        match answer.pdu.kind {
            PduKind::Response => Ok(answer.pdu),
            PduKind::Report => match self.reported(&answer.pdu) {
                Some(NOT_IN_TIME) if answer.is_proven => Err(Failed::Engine),
                Some(UNKNOWN_ENGINE) => {
                    self.forget_engine();
                    Err(Failed::Engine)
                }
                Some(known) => Err(Failed::For(self.failed(REPORTED[known as usize - 1]))),
                None => Err(Failed::For(self.failed("it reports something unknown"))),
            },
            _ => Err(Failed::For(self.failed("it answers with a question"))),
        }
    }

    /// Returns the member of `usmStats` that a report contains.
    fn reported(&self, report: &Pdu) -> Option<u32> {
        let (object, _) = report.bindings.first()?;
        // The last number says which counter it is; those before it identify the table.
        let number = *object.0.get(..USM_STATS.len())?.last()?;
        let is_one = object.0[..USM_STATS.len() - 1] == USM_STATS[..USM_STATS.len() - 1];
        (is_one && (1..=REPORTED.len() as u32).contains(&number)).then_some(number)
    }

    /// The engine must be found before anything else is asked.
    fn forget_engine(&mut self) {
        if let Some(security) = &mut self.security {
            security.engine = Engine::default();
        }
    }

    fn send(&mut self, message: &[u8]) -> Result<(), Unavailable> {
        let sent = self.socket.send(message).map(|_| ());
        // The kernel reports the refusal of an earlier message now and did not send this one.
        let sent = sent.or_else(|_| self.socket.send(message).map(|_| ()));
        sent.map_err(|cause| self.failed(&format!("send to it: {cause}")))
    }

    /// The first datagram of which `told` makes an answer; all others are passed over.
    fn await_answer<T>(&mut self, told: impl Fn(&[u8]) -> Option<T>) -> Result<T, Unavailable> {
        let deadline = Instant::now() + self.agent.timeout;
        let mut others = 0_usize;
        loop {
            // Each datagram that is passed over takes from the same deadline, so a flood cannot
            // delay the end.
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                // Perhaps it is another one by now, which says nothing to what was meant for the
                // one before.
                self.forget_engine();
                let others = if others > 0 {
                    format!(", and {others} that were not")
                } else {
                    String::new()
                };
                return Err(self.failed(&format!(
                    "no answer within {:?}{others} (is it running, reachable, and is the community \
                        or user right?)",
                    self.agent.timeout
                )));
            }
            // Zero would wait for ever.
            let waited = self.socket.set_read_timeout(Some(left.max(Duration::from_millis(1))));
            waited.map_err(|cause| self.failed(&format!("wait for it: {cause}")))?;
            match self.socket.recv(&mut self.buffer) {
                Ok(length) => match told(&self.buffer[..length]) {
                    Some(answer) => return Ok(answer),
                    None => others += 1,
                },
                Err(cause) if cause.kind() == std::io::ErrorKind::ConnectionRefused => {
                    self.forget_engine();
                    return Err(self
                        .failed("nobody listens there (start the agent, or correct its address)"));
                }
                // Timeouts and interruptions: the clock decides.
                Err(_) => {}
            }
        }
    }
}

impl Security {
    /// The engine as it should be now.
    fn now(&self) -> Engine {
        let elapsed = i32::try_from(self.since.elapsed().as_secs()).unwrap_or(i32::MAX);
        Engine { time: self.engine.time.saturating_add(elapsed), ..self.engine.clone() }
    }
}
