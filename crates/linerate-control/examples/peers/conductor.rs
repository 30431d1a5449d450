//! Malicious conductor with a valid key. The agent is honest; the other end of each job is in this
//! process.

use std::io::{Read, Write};
use std::net::{IpAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use linerate_control::wire::{
    Greeting, HelloRole, JobOffer, Message, Prepare, PreparedJob, decode, encode, name,
};
use linerate_load::engine::{Engine, Timeline};
use linerate_load::pinned::{self, PinnedKeys};
use linerate_load::{LoadError, Offer, Secret, Setup, Worker, workload};
use linerate_model::{Endpoint, Nanos, Params, Phases, Side, TrialId, Warmup};
use linerate_sys::clock;
use rustls::StreamOwned;
use rustls::client::{ClientConfig, ClientConnection};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};

use crate::Outcome;
use crate::attack::{Attack, workloads};

/// Secret that both ends of a job prove; a conductor chooses it.
const SECRET: Secret = Secret([7; 16]);
/// Longest time for opening flows.
const PATIENCE: Duration = Duration::from_millis(800);
/// Duration of the load of a trial that starts.
const LOAD: Nanos = Nanos::from_millis(150);

pub(crate) fn run(
    keys: &str,
    agent: &str,
    own: &str,
    victim: &str,
    attack: &str,
    few: bool,
) -> Outcome {
    let attack = Attack::named(attack)?;
    let mut conductor = Conductor::greet(keys.as_ref(), agent, own.parse()?, victim.parse()?)?;
    for (name, params) in workloads(few) {
        // The harness reads this line by line, and counts the datagrams of each workload.
        let ended = conductor.trial(name, &params, attack)?;
        println!("{name} {params}: {}", ended.as_deref().unwrap_or("it was carried out"));
    }
    Ok(())
}

struct Conductor {
    stream: StreamOwned<ClientConnection, TcpStream>,
    pending: Vec<u8>,
    trial: u32,
    own: IpAddr,
    victim: IpAddr,
}

type Accepting = JoinHandle<Result<Vec<Box<dyn Worker>>, LoadError>>;

impl Conductor {
    fn greet(
        keys: &Path,
        agent: &str,
        own: IpAddr,
        victim: IpAddr,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let certificate = CertificateDer::from_pem_file(keys.join("certificate.pem"))?;
        let key = PrivateKeyDer::from_pem_file(keys.join("key.pem"))?;
        let anyone = PinnedKeys::new(|_: &[u8]| true);
        let config = ClientConfig::builder_with_provider(pinned::provider())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(anyone))
            .with_client_auth_cert(vec![certificate], key)?;
        let connection = ClientConnection::new(Arc::new(config), "linerate".try_into()?)?;
        let stream = StreamOwned::new(connection, TcpStream::connect(agent)?);
        let mut conductor = Self { stream, pending: Vec::new(), trial: 0, own, victim };
        conductor
            .say(&Message::Hello(Box::new(Greeting::new(HelloRole::Conductor, "malicious"))))?;
        conductor.hear(|message| matches!(message, Message::Hello(_)))?;
        Ok(conductor)
    }

    fn say(&mut self, message: &Message) -> Outcome {
        self.stream.write_all(&encode(message)?)?;
        self.stream.flush()?;
        Ok(())
    }

    /// Waits for the next message that is one of those `wanted`.
    fn hear(
        &mut self,
        wanted: impl Fn(&Message) -> bool,
    ) -> Result<Message, Box<dyn std::error::Error>> {
        loop {
            while let Some((message, taken)) = decode(&self.pending)? {
                self.pending.drain(..taken);
                if let Message::Refused { why, .. } = &message {
                    return Err(format!("refused: {why}").into());
                }
                if wanted(&message) {
                    return Ok(message);
                }
            }
            let mut bytes = [0; 1 << 16];
            let read = self.stream.read(&mut bytes)?;
            if read == 0 {
                return Err("the agent closed the connection".into());
            }
            self.pending.extend(&bytes[..read]);
        }
    }

    /// Runs a trial of a job with its honest end at the agent and its other end here. Returns the
    /// reason of a failure.
    fn trial(
        &mut self,
        workload: &str,
        params: &Value,
        attack: Attack,
    ) -> Result<Option<String>, Box<dyn std::error::Error>> {
        self.trial += 1;
        let trial = TrialId(self.trial);
        let Value::Object(table) = params else { return Err("parameters are a table".into()) };
        let params = Params(table.clone());
        let honest = if attack == Attack::Spoof { Side::Passive } else { Side::Active };
        let phases = Phases {
            warmup: Warmup::Fixed(Nanos(0)),
            measure: LOAD,
            drain: Nanos::from_millis(50),
            rest: Nanos(0),
            interval: Nanos::from_millis(50),
        };
        let local = json!({ "name": "honest", "host": "honest", "address": null, "device": "v0" });
        let job = PreparedJob {
            job: 0,
            side: honest,
            workload: workload.to_owned(),
            params: params.clone(),
            local: serde_json::from_value(local)?,
            background: None,
            seed: 1,
            secret: SECRET,
            peer_clock: None,
        };
        let patience_ms = PATIENCE.as_millis() as u64;
        let prepare = Prepare {
            trial,
            phases,
            jobs: vec![job],
            patience_ms,
            sample_period_ms: 100,
            legs: Vec::new(),
            counts_often: false,
        };
        self.say(&Message::Prepare(Box::new(prepare)))?;
        let answer =
            self.hear(|message| matches!(message, Message::Offers { .. } | Message::Done { .. }))?;
        let offered = match answer {
            Message::Offers { offers, .. } => offers,
            Message::Done { failed, .. } => return Ok(failed),
            _ => Vec::new(),
        };
        let opening = self.open(workload, &params, attack, &offered)?;
        let offers =
            opening.offer.iter().map(|offer| JobOffer { job: 0, offer: offer.clone() }).collect();
        self.say(&Message::Connect { trial, offers })?;
        let ready =
            self.hear(|message| matches!(message, Message::Ready { .. } | Message::Done { .. }))?;
        // A failure at this end does not matter for the attack.
        let own = opening.own.join().map_err(|_| "the own end panicked")?;
        if let Message::Done { failed, .. } = ready {
            return Ok(failed);
        }
        // All namespaces of one kernel have one monotonic clock.
        let start = Nanos(clock::monotonic() + 50_000_000);
        self.say(&Message::StartAt { trial, clock_ns: start.0 })?;
        let load_until = start + LOAD;
        let drain_until = load_until + Nanos::from_millis(50);
        let timeline =
            Timeline { start, load_from: start, load_until, drain_until, interval: LOAD };
        let engine = own.map(|workers| Engine::start(workers, timeline, &[], 1));
        let done = self.hear(|message| matches!(message, Message::Done { .. }))?;
        drop(engine);
        match done {
            Message::Done { failed, .. } => Ok(failed),
            other => Err(name(&other).into()),
        }
    }

    /// Opens this end of the job on its own thread, and returns the offer for the honest end.
    fn open(
        &self,
        name: &str,
        params: &Params,
        attack: Attack,
        offered: &[JobOffer],
    ) -> Result<Opening, Box<dyn std::error::Error>> {
        let workload = workload(name).ok_or("there is no such workload")?;
        let local = json!({ "name": "own", "host": "own", "address": self.own, "device": "v0" });
        let (local, params): (Endpoint, Params) = (serde_json::from_value(local)?, params.clone());
        if let Some(theirs) = offered.first().map(|job| job.offer.clone()) {
            let (local, own) = (local, self.own);
            let theirs = reached(theirs, own);
            let own =
                std::thread::spawn(move || workload.connect(&setup(&params, &local), &theirs));
            return Ok(Opening { offer: None, own });
        }
        let listener = workload.listen(&setup(&params, &local))?;
        let offer = attack.offer(&listener.offer(), self.victim);
        let own = std::thread::spawn(move || listener.accept(PATIENCE.into()));
        Ok(Opening { offer: Some(offer), own })
    }
}

/// End of a job that is being opened here, and the offer for the other end.
struct Opening {
    offer: Option<Offer>,
    own: Accepting,
}

/// Completes the offer of an honest agent: a wildcard stands for the address of the control
/// connection.
fn reached(mut offer: Offer, own: IpAddr) -> Offer {
    for address in &mut offer.addresses {
        if let (true, IpAddr::V4(own)) = (address.ip().is_unspecified(), own) {
            let [a, b, c, _] = own.octets();
            address.set_ip(IpAddr::from([a, b, c, 1]));
        }
    }
    offer
}

fn setup<'a>(params: &'a Params, local: &'a Endpoint) -> Setup<'a> {
    let alone = Setup::alone(params, local, SECRET);
    Setup { seed: 2, patience: PATIENCE, loaded: LOAD.into(), ..alone }
}
