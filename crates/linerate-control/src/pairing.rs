//! Pairing: two hosts exchange their public keys once, authenticated by a token that a person
//! carries from one to the other.
//!
//! ```text
//! offer                                             accept
//!   token: 128 random bits, shown to the person  ->  typed in
//!   <------------ TLS 1.3, keys yet unknown ------------>
//!   <- Hello(pair_accept, name)    Hello(pair_offer, name) ->
//!   <- proof(accept)                       proof(offer) ->
//!   <- Paired                                    Paired ->      both keep the other's key
//! proof(role) = HMAC-SHA256(token, label , role , TLS exporter , SPKI hashes , names)   (RFC 2104)
//! ```
//!
//! Only the two ends of one TLS connection know its exporter (RFC 8446 clause 7.5), so a proof
//! cannot be relayed between two connections. The accepting end proves first, so that an offer
//! reveals nothing to a stranger. A token of 128 bits cannot be guessed, neither online nor from
//! recorded traffic. A wrong token is refused, and the offer stays open for the right one. A token
//! works once, and expires.
//!
//! Pairing grants one direction: the accepting host may conduct measurements on the offering one.
//! Not covered: a person who reads the token over a shoulder.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use hmac::{Hmac, KeyInit as _, Mac};
use sha2::Sha256;

use crate::frames::{FrameReader, write};
use crate::link::{Channel, Timeouts};
use crate::strangers::{Opening, Receptionist, Ticket, accept_all, wake};
use crate::timed::Deadline;
use crate::tls::{self, EXPORTER_BYTES, Secured, Trust};
use crate::transport;
use crate::wire::{
    Greeting, HelloRole, Message, PROTOCOL_MAGIC, PROTOCOL_VERSION, PairProof, RELEASE, name,
    printable,
};
use crate::{ControlError, Fingerprint, KeyStore, KnownPeer, ReachedAt, Result, Right};

/// Default validity of an offer: time to walk to another console.
pub const VALIDITY: Duration = Duration::from_secs(600);
/// Label that separates this use of HMAC, and its version, from any other.
const LABEL: &[u8] = b"linerate pairing 1";
/// Bytes of a token.
const TOKEN_BYTES: usize = 16;
/// Digits of Crockford's base 32: without I, L, O and U, so that nothing is misread.
const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
/// Digits of a token: 26 times 5 bits are enough for 128.
const TOKEN_DIGITS: usize = 26;

/// One-time token, printed as `XXXXX-XXXXX-XXXXX-XXXXX-XXXXX-X`.
#[derive(Clone, PartialEq, Eq)]
pub struct Token([u8; TOKEN_BYTES]);

impl Token {
    /// Returns a new random token.
    #[must_use]
    pub fn random() -> Self {
        Self(tls::random())
    }
}

impl std::fmt::Display for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bits = u128::from_be_bytes(self.0);
        for digit in 0..TOKEN_DIGITS {
            if digit > 0 && digit % 5 == 0 {
                f.write_str("-")?;
            }
            // The first digit has the three bits that 25 digits leave over.
            let value = (bits >> (5 * (TOKEN_DIGITS - 1 - digit))) & 31;
            write!(f, "{}", char::from(ALPHABET[value as usize]))?;
        }
        Ok(())
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(..)")
    }
}

impl FromStr for Token {
    type Err = ControlError;

    /// Parses a token as a person types it: any case, with or without hyphens, O for 0, I and L for
    /// 1.
    fn from_str(text: &str) -> Result<Self> {
        fn wrong() -> ControlError {
            ControlError::Pairing {
                operation: "read",
                object: "the token".into(),
                cause: format!(
                    "it is not {TOKEN_DIGITS} letters and digits as `linerate pair offer` prints \
                     them"
                ),
            }
        }
        fn digit(c: char) -> Option<u128> {
            match c.to_ascii_uppercase() {
                'O' => Some(0),
                'I' | 'L' => Some(1),
                c => ALPHABET
                    .iter()
                    .position(|&digit| char::from(digit) == c)
                    .map(|value| value as u128),
            }
        }
        let typed = text.chars().filter(|c| !c.is_whitespace() && *c != '-');
        let digits: Vec<u128> = typed.map(digit).collect::<Option<_>>().ok_or_else(wrong)?;
        if digits.len() != TOKEN_DIGITS || digits[0] > 7 {
            return Err(wrong());
        }
        let bits = digits.iter().fold(0_u128, |bits, digit| bits << 5 | digit);
        Ok(Self(bits.to_be_bytes()))
    }
}

/// Offer to be paired that listens.
#[derive(Debug)]
pub struct Offering {
    desk: Arc<Desk>,
    listener: TcpListener,
    address: SocketAddr,
    token: Token,
}

/// State of an offer, shared by its threads.
#[derive(Debug)]
struct Desk {
    keys: KeyStore,
    name: String,
    expires: Instant,
    handshake: Duration,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// `None` once it was used.
    token: Option<Token>,
    /// Number of wrong proofs so far.
    refused: u64,
}

/// Offers to be paired, at `listen`, for `validity`. `own_name` becomes this host's name at the
/// other end.
///
/// # Errors
/// If `listen` cannot be bound.
pub fn offer(
    keys: KeyStore,
    own_name: &str,
    listen: SocketAddr,
    validity: Duration,
) -> Result<Offering> {
    let operation = "listen for a host to be paired on";
    let error = |cause: io::Error| ControlError::listen(operation, listen, cause);
    // Bound before the token is made, so that a token is never shown in vain.
    let listener = TcpListener::bind(listen).map_err(error)?;
    let address = listener.local_addr().map_err(error)?;
    let token = Token::random();
    let desk = Desk {
        keys,
        name: own_name.to_owned(),
        expires: Instant::now() + validity,
        handshake: Timeouts::default().handshake,
        state: Mutex::new(State { token: Some(token.clone()), refused: 0 }),
    };
    Ok(Offering { desk: Arc::new(desk), listener, address, token })
}

impl Offering {
    /// Returns the token, which the person types in at the other host.
    #[must_use]
    pub fn token(&self) -> &Token {
        &self.token
    }

    /// Returns the address on which it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits until a host has been paired, and stores its key.
    ///
    /// # Errors
    /// If the offer expired, or a host with the right token failed afterwards.
    pub fn wait(self) -> Result<KnownPeer> {
        let Self { desk, listener, address, .. } = self;
        let (report, reported) = channel();
        let stopping = Arc::new(AtomicBool::new(false));
        let front = Arc::new(Front { desk: Arc::clone(&desk), report });
        let stop = Arc::clone(&stopping);
        let accepting = thread::spawn(move || {
            if let Err(error) = accept_all(std::slice::from_ref(&listener), &stop, &front) {
                // Without a receiver the offer is over anyway.
                let _ = front
                    .report
                    .send(Err(front.desk.error(&format!("cannot accept connections: {error}"))));
            }
        });
        let left = desk.expires.saturating_duration_since(Instant::now());
        let result = reported.recv_timeout(left).unwrap_or_else(|_| Err(desk.error(&desk.over())));
        desk.state().token = None;
        stopping.store(true, Ordering::Relaxed);
        wake(address);
        // Closes the listener before this returns, so that nothing answers to a used token.
        let _ = accepting.join();
        result
    }
}

/// Reception of strangers at the port of an offer.
struct Front {
    desk: Arc<Desk>,
    report: Sender<Result<KnownPeer>>,
}

impl Receptionist for Front {
    fn patience(&self) -> Duration {
        self.desk.handshake
    }

    fn opening(&self, bytes: &[u8]) -> Opening {
        tls::opening(bytes)
    }

    fn meet(&self, socket: TcpStream, _: SocketAddr, _: Ticket) {
        self.desk.meet(socket, &self.report);
    }

    /// A connection without a token does not count as an attempt.
    fn turned_away(&self, _: SocketAddr, _: &str) {}
}

impl Desk {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn error(&self, cause: &str) -> ControlError {
        ControlError::Pairing {
            operation: "offer to be paired as",
            object: self.name.clone(),
            cause: cause.to_owned(),
        }
    }

    /// Returns the reason why an offer that was not accepted is over.
    fn over(&self) -> String {
        match self.state().refused {
            0 => "the offer has expired; offer again".to_owned(),
            n => format!("the offer has expired ({n} wrong tokens were tried); offer again"),
        }
    }

    /// Meets one stranger. Reports the result if it ends the offer.
    fn meet(&self, socket: TcpStream, report: &Sender<Result<KnownPeer>>) {
        let at = (Instant::now() + self.handshake).min(self.expires);
        // Failures up to the proof do not count as attempts: no token was shown.
        let Ok(mut counter) = Counter::open(socket, at, &self.keys, TlsEnd::Accepting) else {
            return;
        };
        let Ok(theirs) = counter.greet(HelloRole::PairOffer, &self.name, HelloRole::PairAccept)
        else {
            return;
        };
        let Ok(Message::PairProof(proof)) = counter.reader.next() else { return };
        let transcript = counter.transcript(&self.keys, &self.name, &theirs);
        let token = match self.check(&proof, &transcript) {
            Ok(token) => token,
            Err(why) => return counter.refuse(why),
        };
        let result = self.conclude(&mut counter, &token, &transcript, &theirs);
        let _ = report.send(result);
    }

    /// Checks a proof. Returns the token, which is then used up, or the reason of the refusal.
    fn check(&self, proof: &PairProof, transcript: &Transcript) -> Result<Token, &'static str> {
        let mut state = self.state();
        // Taken under the lock: of two right proofs at once only one may win.
        let Some(token) = state.token.clone() else { return Err("the token was used already") };
        if Instant::now() >= self.expires {
            return Err("the token has expired");
        }
        if transcript.verify(&token, HelloRole::PairAccept, proof) {
            state.token = None;
            return Ok(token);
        }
        state.refused += 1;
        Err("the token is wrong")
    }

    fn conclude(
        &self,
        counter: &mut Counter,
        token: &Token,
        transcript: &Transcript,
        theirs: &str,
    ) -> Result<KnownPeer> {
        // This end proves second, after the other has shown that it knows the token.
        let ours = transcript.prove(token, HelloRole::PairOffer);
        let failed = |why: String| {
            self.error(&format!("{theirs} showed the token and then failed: {why}; offer again"))
        };
        write(&mut *counter.channel.writer, &Message::PairProof(ours))
            .map_err(|error| failed(error.to_string()))?;
        match counter.reader.next() {
            Ok(Message::Paired) => {}
            Ok(other) => return Err(failed(format!("it sent {}", name(&other)))),
            Err(error) => return Err(failed(error.to_string())),
        }
        // A conductor is not bound to an address, but a person wants to see where it came from.
        let at = ReachedAt::new(&counter.ip.to_string(), counter.ip);
        let peer = self.keys.trust(theirs, counter.key, Right::Conduct, &at)?;
        write(&mut *counter.channel.writer, &Message::Paired)
            .map_err(|error| failed(error.to_string()))?;
        Ok(peer)
    }
}

/// Accepts the offer of the host at `address` (`host:port`): proves knowledge of `token` and stores
/// the host's key. `own_name` becomes this host's name at the other end.
///
/// # Errors
/// If there is no offer at that address, or the token is wrong, used or expired.
pub fn accept(keys: &KeyStore, own_name: &str, address: &str, token: &Token) -> Result<KnownPeer> {
    let (operation, peer) = ("pair with", address.to_owned());
    let error = |cause| ControlError::Pairing { operation, object: peer.clone(), cause };
    let at = Instant::now() + Timeouts::default().handshake;
    let socket = transport::connect_tcp(address, address, at).map_err(|cause| match cause {
        ControlError::HostDown { cause, .. } => error(format!(
            "{cause} (is `linerate agent --pair` or `linerate pair offer` waiting there? A token \
                works once)"
        )),
        other => other,
    })?;
    let mut counter = Counter::open(socket, at, keys, TlsEnd::Connecting).map_err(|cause| {
        error(format!(
            "{cause} (is it `linerate agent --pair` or `linerate pair offer` that listens \
                there?)"
        ))
    })?;
    let theirs =
        counter.greet(HelloRole::PairAccept, own_name, HelloRole::PairOffer).map_err(error)?;
    // Both ends use the same order: the offering one first.
    let transcript = Transcript {
        exporter: counter.exporter,
        keys: [counter.key, keys.fingerprint()],
        names: [theirs.clone(), own_name.to_owned()],
    };
    let ours = transcript.prove(token, HelloRole::PairAccept);
    write(&mut *counter.channel.writer, &Message::PairProof(ours))
        .map_err(|cause| error(cause.to_string()))?;
    let proof = match counter.reader.next() {
        Ok(Message::PairProof(proof)) => proof,
        Ok(Message::Refused { why, .. }) => {
            return Err(error(format!("{} (check it, or offer again)", printable(&why))));
        }
        Ok(other) => {
            return Err(error(format!("it sent {} instead of its proof", name(&other))));
        }
        Err(cause) => return Err(error(cause.to_string())),
    };
    if !transcript.verify(token, HelloRole::PairOffer, &proof) {
        return Err(error(
            "it does not know the token: it is not the host that offered, or an attacker is in \
                between"
                .into(),
        ));
    }
    write(&mut *counter.channel.writer, &Message::Paired)
        .map_err(|cause| error(cause.to_string()))?;
    match counter.reader.next() {
        Ok(Message::Paired) => keys.trust(
            &theirs,
            counter.key,
            Right::BeMeasured,
            &ReachedAt::new(address, counter.ip),
        ),
        Ok(other) => Err(error(format!(
            "it sent {} instead of confirming this host's key; pair again",
            name(&other)
        ))),
        Err(cause) => {
            Err(error(format!("it did not confirm this host's key ({cause}); pair again")))
        }
    }
}

/// Role of this end in the TLS connection.
#[derive(Clone, Copy)]
enum TlsEnd {
    Connecting,
    Accepting,
}

/// TLS connection to a host that is not known yet.
struct Counter {
    reader: FrameReader,
    channel: Channel,
    exporter: [u8; EXPORTER_BYTES],
    key: Fingerprint,
    ip: IpAddr,
}

impl Counter {
    fn open(socket: TcpStream, at: Instant, keys: &KeyStore, end: TlsEnd) -> io::Result<Self> {
        let (stream, ip) = (socket.try_clone()?, socket.peer_addr()?.ip());
        let secured: Secured = match end {
            TlsEnd::Connecting => tls::connect(stream, keys, Trust::Anyone, at)?,
            TlsEnd::Accepting => tls::accept(stream, keys, Trust::Anyone, at)?,
        };
        let (exporter, key) = (secured.exporter, secured.peer);
        let mut channel =
            transport::secured(secured, &socket, Deadline::at(at), &Timeouts::default())?;
        let reader =
            FrameReader::new(std::mem::replace(&mut channel.reader, Box::new(io::empty())));
        Ok(Self { reader, channel, exporter, key, ip })
    }

    /// Exchanges greetings. Returns the other end's name if it has the expected role.
    fn greet(
        &mut self,
        role: HelloRole,
        own_name: &str,
        expected: HelloRole,
    ) -> Result<String, String> {
        let hello = Message::Hello(Box::new(Greeting::new(role, own_name)));
        write(&mut *self.channel.writer, &hello).map_err(|error| error.to_string())?;
        match self.reader.next() {
            Ok(Message::Hello(theirs)) if theirs.magic != PROTOCOL_MAGIC => {
                Err("it uses another protocol".into())
            }
            Ok(Message::Hello(theirs)) if theirs.version != PROTOCOL_VERSION => Err(format!(
                "it uses control protocol {} (linerate {}), this end uses {PROTOCOL_VERSION} \
                    (linerate {RELEASE}). Install the same linerate release on both hosts.",
                theirs.version,
                printable(&theirs.release)
            )),
            Ok(Message::Hello(theirs)) if theirs.role == expected => Ok(printable(&theirs.name)),
            Ok(Message::Refused { why, .. }) => Err(printable(&why)),
            Ok(_) => Err(
                "it does not offer to be paired (is it `linerate agent --pair` or `linerate pair \
                    offer` that listens there?)"
                    .into(),
            ),
            Err(error) => Err(error.to_string()),
        }
    }

    fn transcript(&self, keys: &KeyStore, own_name: &str, theirs: &str) -> Transcript {
        Transcript {
            exporter: self.exporter,
            keys: [keys.fingerprint(), self.key],
            names: [own_name.to_owned(), theirs.to_owned()],
        }
    }

    fn refuse(&mut self, why: &str) {
        let refusal = Message::Refused {
            version: PROTOCOL_VERSION,
            release: RELEASE.into(),
            why: why.to_owned(),
        };
        // The refusal stands, whether it arrives or not.
        let _ = write(&mut *self.channel.writer, &refusal);
    }
}

/// Input of both proofs; the offering end first.
struct Transcript {
    exporter: [u8; EXPORTER_BYTES],
    keys: [Fingerprint; 2],
    names: [String; 2],
}

impl Transcript {
    fn mac(&self, token: &Token, role: HelloRole) -> Hmac<Sha256> {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(&token.0).expect("HMAC takes keys of any length");
        let role: &[u8] = if role == HelloRole::PairOffer { b"offer" } else { b"accept" };
        let [offer_name, accept_name] = &self.names;
        let parts = [
            LABEL,
            role,
            &self.exporter,
            &self.keys[0].0,
            &self.keys[1].0,
            offer_name.as_bytes(),
            accept_name.as_bytes(),
        ];
        for part in parts {
            // Each part with its length, so that two different transcripts never have the same
            // bytes.
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part);
        }
        mac
    }

    fn prove(&self, token: &Token, role: HelloRole) -> PairProof {
        let digest: [u8; 32] = self.mac(token, role).finalize().into_bytes().into();
        PairProof { mac: Fingerprint(digest).to_string() }
    }

    /// Checks a proof, in constant time.
    fn verify(&self, token: &Token, role: HelloRole, proof: &PairProof) -> bool {
        let Ok(claimed) = proof.mac.parse::<Fingerprint>() else { return false };
        self.mac(token, role).verify_slice(&claimed.0).is_ok()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn a_token_reads_as_it_prints_however_it_is_typed() {
        for bytes in [[0; 16], [0xff; 16], *b"sixteen bytes ok"] {
            let token = Token(bytes);
            let printed = token.to_string();
            assert_eq!(printed.len(), 31, "{printed}");
            assert!(printed.parse::<Token>().unwrap() == token);
            assert!(printed.to_lowercase().replace('-', " ").parse::<Token>().unwrap() == token);
        }
        assert_eq!(Token([0xff; 16]).to_string(), "7ZZZZ-ZZZZZ-ZZZZZ-ZZZZZ-ZZZZZ-Z");
        assert!(
            "ooooo-ooooo-ooooo-ooooo-ooooo-l".parse::<Token>().unwrap()
                == Token(1_u128.to_be_bytes())
        );
    }

    #[test]
    fn a_text_that_is_not_a_token_is_refused() {
        for text in
            ["", "7ZZZZ", "8ZZZZ-ZZZZZ-ZZZZZ-ZZZZZ-ZZZZZ-Z", "UUUUU-UUUUU-UUUUU-UUUUU-UUUUU-U", "é"]
        {
            assert!(text.parse::<Token>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_proof_holds_for_its_role_connection_keys_and_names_only() {
        let transcript = |exporter, key, name: &str| Transcript {
            exporter: [exporter; 32],
            keys: [Fingerprint([1; 32]), Fingerprint([key; 32])],
            names: ["a".into(), name.into()],
        };
        let token = Token([9; 16]);
        let proof = transcript(0, 2, "b").prove(&token, HelloRole::PairAccept);
        assert!(transcript(0, 2, "b").verify(&token, HelloRole::PairAccept, &proof));
        assert!(!transcript(0, 2, "b").verify(&token, HelloRole::PairOffer, &proof));
        assert!(!transcript(1, 2, "b").verify(&token, HelloRole::PairAccept, &proof));
        assert!(!transcript(0, 3, "b").verify(&token, HelloRole::PairAccept, &proof));
        assert!(!transcript(0, 2, "c").verify(&token, HelloRole::PairAccept, &proof));
        let with = |names: [&str; 2]| Transcript {
            names: names.map(str::to_owned),
            ..transcript(0, 2, "")
        };
        let proof_of_ab = with(["a", "bc"]).prove(&token, HelloRole::PairAccept);
        assert!(
            !with(["ab", "c"]).verify(&token, HelloRole::PairAccept, &proof_of_ab),
            "where a name ends counts"
        );
        assert!(!transcript(0, 2, "b").verify(&Token([8; 16]), HelloRole::PairAccept, &proof));
        assert!(!transcript(0, 2, "b").verify(
            &token,
            HelloRole::PairAccept,
            &PairProof { mac: "00".into() }
        ));
    }
}
