//! Malicious agent: a real one, so that it is paired, proves secrets and counts. But its offers and
//! its texts are false.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use linerate_control::{Access, Agent, AgentOptions, KeyStore};
use linerate_load::{
    Due, Listener, LoadError, Offer, Parameter, Patience, Progress, Setup, Tally, Times, Worker,
    Workload, workload,
};
use linerate_model::{FlowReport, FlowTcp, Load, Nanos, ParamError, Params};
use serde_json::{Value, json};

use crate::attack::{Attack, HOSTILE};
use crate::{Outcome, wait_for_the_end};

/// Attack of this process. A static, because an agent finds its workloads through a plain function.
static LIE: OnceLock<(Attack, IpAddr)> = OnceLock::new();

fn lie() -> (Attack, IpAddr) {
    *LIE.get().expect("it is set before anybody is served")
}

pub(crate) fn run(keys: &str, listen: &str, victim: &str, attack: &str) -> Outcome {
    LIE.set((Attack::named(attack)?, victim.parse()?)).map_err(|_| "set twice")?;
    let agent = Agent::new(AgentOptions {
        name: format!("evil {HOSTILE}"),
        workloads: |name| Some(Box::leak(Box::new(Liar(workload(name)?)))),
        facts,
        notify: Arc::new(|line| eprintln!("{line}")),
        ..AgentOptions::default()
    });
    let serving = agent.listen(listen.parse()?, Access::Paired(KeyStore::open(keys.as_ref())?))?;
    let stopper = serving.stopper();
    let serving = std::thread::spawn(move || serving.run());
    println!("ready");
    wait_for_the_end()?;
    stopper.stop();
    serving.join().map_err(|_| "the agent panicked")?;
    Ok(())
}

fn facts() -> Value {
    let mut facts = linerate_observe::facts();
    if let Value::Object(fields) = &mut facts {
        fields.values_mut().for_each(spoil);
        fields.insert(
            format!("extra {HOSTILE}"),
            json!({ "interfaces": { HOSTILE: { "driver": HOSTILE } } }),
        );
    }
    facts
}

fn spoil(value: &mut Value) {
    match value {
        Value::String(text) => text.push_str(HOSTILE),
        Value::Array(values) => values.iter_mut().for_each(spoil),
        Value::Object(fields) => fields.values_mut().for_each(spoil),
        _ => {}
    }
}

/// Workload whose passive end makes the offers of the attack.
struct Liar(&'static dyn Workload);

impl Workload for Liar {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn summary(&self) -> &'static str {
        self.0.summary()
    }

    fn parameters(&self) -> Vec<Parameter> {
        self.0.parameters()
    }

    fn check(&self, params: &Params) -> Vec<ParamError> {
        self.0.check(params)
    }

    fn listen(&self, setup: &Setup<'_>) -> Result<Box<dyn Listener>, LoadError> {
        let says_so = setup.params.get("streams").is_some_and(|streams| *streams == 7);
        if lie().0 == Attack::Texts && says_so {
            return Err(LoadError::Unsupported {
                what: format!("listen {HOSTILE}"),
                why: HOSTILE.into(),
            });
        }
        Ok(Box::new(LyingListener(self.0.listen(setup)?)))
    }

    fn connect(&self, setup: &Setup<'_>, offer: &Offer) -> Result<Vec<Box<dyn Worker>>, LoadError> {
        Ok(spoiled(self.0.connect(setup, offer)?))
    }
}

struct LyingListener(Box<dyn Listener>);

impl Listener for LyingListener {
    fn offer(&self) -> Offer {
        let (attack, victim) = lie();
        attack.offer(&self.0.offer(), victim)
    }

    fn accept(self: Box<Self>, patience: Patience<'_>) -> Result<Vec<Box<dyn Worker>>, LoadError> {
        Ok(spoiled(self.0.accept(patience)?))
    }
}

fn spoiled(workers: Vec<Box<dyn Worker>>) -> Vec<Box<dyn Worker>> {
    match lie().0 {
        Attack::Texts => workers
            .into_iter()
            .map(|worker| -> Box<dyn Worker> { Box::new(Spoiled(worker)) })
            .collect(),
        _ => workers,
    }
}

/// Worker whose complaint and flows have control characters in every text.
struct Spoiled(Box<dyn Worker>);

impl Worker for Spoiled {
    fn load(&self) -> Load {
        self.0.load()
    }

    fn times(&self) -> Times {
        self.0.times()
    }

    fn step(&mut self, due: Due, tally: &mut Tally) -> Progress {
        self.0.step(due, tally)
    }

    fn observe(&mut self, flows: &mut Vec<FlowTcp>) {
        self.0.observe(flows);
    }

    fn n_flows(&self) -> usize {
        self.0.n_flows()
    }

    fn stop_sending(&mut self) {
        self.0.stop_sending();
    }

    fn leave_open(&mut self, now: Nanos, tally: &mut Tally) {
        self.0.leave_open(now, tally);
    }

    fn complaint(&self) -> Option<String> {
        Some(format!("complaint {HOSTILE}"))
    }

    fn finish(&mut self) -> Vec<FlowReport> {
        let mut flows = self.0.finish();
        for flow in &mut flows {
            flow.local.push_str(HOSTILE);
            flow.remote.push_str(HOSTILE);
            flow.modes.insert(format!("mode {HOSTILE}"), HOSTILE.to_owned());
        }
        flows
    }
}
