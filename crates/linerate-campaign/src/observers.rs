//! Independent observers of a testbed file: the ports that they count, and the access to them.
//!
//! Passwords are in the file, in a file of their own or in the environment. None of them reaches a
//! ledger or a report.

use std::time::Duration;

use linerate_model::{
    Event, Incident, IncidentKind, Nanos, ObservedPort, Problem, TrialId, nearest,
};
use linerate_observe::{Digest, Observer, ObserverSource, ObserverSpec, SnmpAccess, SnmpAgent};
use serde::Deserialize;

use crate::{Failure, Result};
use linerate_agent::addresses::with_port;

/// SNMP's port (RFC 3417 3.1).
const SNMP_PORT: u16 = 161;
/// Default interval between two polls of an observer, and time to answer.
const PERIOD: Nanos = Nanos::from_secs(1);
const TIMEOUT: Duration = Duration::from_secs(1);
/// Longest time to answer: the end of a trial waits for several polls.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(2);
/// Longest interval: a slower one has too few readings in a trial.
const LONGEST_PERIOD: Nanos = Nanos::from_secs(10);
/// Fewest octets of a password (RFC 3414 11.2).
const SHORTEST_PASSWORD: usize = 8;

/// `[[observer]]` of a testbed file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ObserverText {
    name: String,
    kind: Kind,
    /// Port, by the observer's name for it.
    interface: String,
    /// The endpoint behind the port.
    faces: String,
    /// `HOST[:PORT]` of an SNMP agent.
    address: Option<String>,
    /// Community of SNMPv2c.
    community: Option<Secret>,
    /// User of SNMPv3.
    user: Option<String>,
    authentication: Option<Digest>,
    password: Option<Secret>,
    privacy_password: Option<Secret>,
    timeout: Option<String>,
    period: Option<String>,
    /// A network namespace of this machine, as of `ip netns`.
    namespace: Option<String>,
    /// True if octets include the frame check sequence.
    counts_fcs: Option<bool>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    /// This machine's kernel.
    Interface,
    Snmp,
}

/// Secret, or its place.
#[derive(Deserialize)]
#[serde(untagged)]
enum Secret {
    Here(String),
    Environment { env: String },
    File { file: String },
}

impl Secret {
    fn read(&self) -> Result<String, String> {
        match self {
            Self::Here(secret) => Ok(secret.clone()),
            Self::Environment { env } => {
                std::env::var(env).map_err(|_| format!("environment variable {env} is not set"))
            }
            Self::File { file } => {
                let text = std::fs::read_to_string(file)
                    .map_err(|error| format!("read {file}: {error}"))?;
                // Editors end a file with a line break, which is no part of the password.
                Ok(text.trim_end_matches(['\r', '\n']).to_owned())
            }
        }
    }
}

impl ObserverText {
    /// Checks it against a testbed of these endpoints and hosts. Problems have no place in a text.
    pub(crate) fn spec(&self, endpoints: &[&str], taken: &[&str]) -> Result<ObserverSpec, Problem> {
        let problem = |message: String| Problem::new(None, message);
        // Readings are recorded by host name, so two of one name would be mixed.
        if taken.contains(&self.name.as_str()) {
            return Err(problem(format!(
                "`{}` is the name of a host or of another observer",
                self.name
            )));
        }
        if !endpoints.contains(&self.faces.as_str()) {
            let near = nearest(&self.faces, endpoints.iter().copied());
            return Err(problem(format!("there is no endpoint `{}`", self.faces)).nearest(near));
        }
        let period = time(self.period.as_deref(), PERIOD, LONGEST_PERIOD).map_err(&problem)?;
        let longest = Nanos(u64::try_from(LONGEST_TIMEOUT.as_nanos()).expect("seconds"));
        let otherwise = Nanos(u64::try_from(TIMEOUT.as_nanos()).expect("seconds"));
        let timeout = time(self.timeout.as_deref(), otherwise, longest).map_err(&problem)?;
        let timeout = Duration::from_nanos(timeout.0);
        Ok(ObserverSpec {
            name: self.name.clone(),
            faces: self.faces.clone(),
            interface: self.interface.clone(),
            counts_fcs: self.counts_fcs,
            namespace: self.namespace.clone(),
            period,
            source: self.source(timeout).map_err(problem)?,
        })
    }

    fn source(&self, timeout: Duration) -> Result<ObserverSource, String> {
        let of_snmp = [&self.community, &self.password, &self.privacy_password]
            .iter()
            .any(|secret| secret.is_some())
            || self.address.is_some()
            || self.user.is_some()
            || self.authentication.is_some()
            || self.timeout.is_some();
        match self.kind {
            // A secret that is silently ignored would suggest a protection that is not there.
            Kind::Interface if of_snmp => {
                Err("an observer of kind \"interface\" has neither address nor secrets".into())
            }
            Kind::Interface => Ok(ObserverSource::Kernel),
            Kind::Snmp => {
                let address = self
                    .address
                    .as_ref()
                    .ok_or("an observer of kind \"snmp\" needs an `address`")?;
                Ok(ObserverSource::Snmp(SnmpAgent {
                    address: with_port(address, SNMP_PORT),
                    access: self.access()?,
                    timeout,
                }))
            }
        }
    }

    fn access(&self) -> Result<SnmpAccess, String> {
        match (&self.community, &self.user) {
            (Some(community), None) => {
                if self.authentication.is_some()
                    || self.password.is_some()
                    || self.privacy_password.is_some()
                {
                    return Err(
                        "a community has no password: those are SNMPv3's, with a `user`".into()
                    );
                }
                Ok(SnmpAccess::Community(community.read()?))
            }
            (None, Some(name)) => {
                let authentication = match (self.authentication, &self.password) {
                    (Some(digest), Some(secret)) => Some((digest, password(secret, "password")?)),
                    (None, None) => None,
                    _ => return Err("`authentication` and `password` go together".into()),
                };
                let privacy = self
                    .privacy_password
                    .as_ref()
                    .map(|secret| password(secret, "privacy_password"))
                    .transpose()?;
                // SNMPv3 has no encryption without authentication.
                if privacy.is_some() && authentication.is_none() {
                    return Err("`privacy_password` needs `authentication` (RFC 3414 1.4.3)".into());
                }
                Ok(SnmpAccess::User { name: name.clone(), authentication, privacy })
            }
            _ => Err(
                "an observer of kind \"snmp\" needs a `community` (SNMPv2c) or a `user` (SNMPv3)"
                    .into(),
            ),
        }
    }
}

/// Parses a time of a text, which is above 0 and at most `most`.
fn time(text: Option<&str>, otherwise: Nanos, most: Nanos) -> Result<Nanos, String> {
    let Some(text) = text else { return Ok(otherwise) };
    match text.parse::<Nanos>() {
        Ok(time) if time > Nanos(0) && time <= most => Ok(time),
        Ok(_) => Err(format!("`{text}` is not above 0 and at most {} s", most.as_secs_f64())),
        Err(error) => Err(error.to_string()),
    }
}

/// Reads the password under `key`.
fn password(secret: &Secret, key: &str) -> Result<String, String> {
    let password = secret.read()?;
    // RFC 3414 refuses shorter passwords, and agents reject them without an explanation.
    let long = password.len() >= SHORTEST_PASSWORD;
    if long {
        Ok(password)
    } else {
        Err(format!("`{key}` is shorter than {SHORTEST_PASSWORD} characters (RFC 3414 11.2)"))
    }
}

/// Observers of a campaign, all of them reached.
#[derive(Debug, Default)]
pub(crate) struct Observers {
    observers: Vec<Observer>,
    /// Start barrier of the trial on this host's clock, as near as it is known: before the end of
    /// every interval.
    barrier: Option<u64>,
}

impl Observers {
    /// Connects to them.
    pub(crate) fn open(specs: &[ObserverSpec]) -> Result<Self> {
        let observers =
            // All observers are reached before the campaign starts, so that a wrong password costs
            // no measurement.
            specs.iter().map(Observer::open).collect::<Result<_, _>>().map_err(Failure::missing)?;
        Ok(Self { observers, barrier: None })
    }

    /// Returns the ports that they count.
    pub(crate) fn ports(&self) -> Vec<ObservedPort> {
        self.observers.iter().map(|observer| observer.port().clone()).collect()
    }

    /// Follows the progress of the campaign.
    pub(crate) fn note(&mut self, event: &Event) {
        match event {
            Event::TrialStarted { .. } => {
                self.barrier = None;
                self.observers.iter().for_each(Observer::begin);
            }
            Event::Intervals { intervals, .. } if !self.observers.is_empty() => {
                let now = linerate_sys::clock::monotonic();
                let ended = intervals.iter().map(|interval| interval.end.0).max();
                // An interval arrives after its end, so the earliest estimate over all intervals is
                // the nearest.
                let barrier = ended.map(|ended| now.saturating_sub(ended));
                self.barrier = [self.barrier, barrier].into_iter().flatten().min();
            }
            _ => {}
        }
    }

    /// Returns their readings of the trial that ended.
    pub(crate) fn addenda(&mut self, trial: TrialId) -> Vec<Event> {
        // Without any interval nothing was measured, and the present time is as good.
        let origin = Nanos(self.barrier.unwrap_or_else(linerate_sys::clock::monotonic));
        let endings: Vec<_> =
            // All observers end before any of them is read, so that they stop at nearly the same
            // time.
            self.observers.iter().map(|observer| (observer.port(), observer.end())).collect();
        let mut events = Vec::new();
        for (port, ending) in endings {
            let observed = ending.observed(origin);
            fn incident(message: String) -> Incident {
                Incident { host: String::new(), kind: IncidentKind::Environment, message }
            }
            let incidents = observed.disturbances.into_iter().map(incident);
            events
                .extend(incidents.map(|incident| Event::Incident { trial: Some(trial), incident }));
            events.push(Event::Samples {
                trial,
                host: port.observer.clone(),
                block: observed.block,
            });
        }
        events
    }
}
