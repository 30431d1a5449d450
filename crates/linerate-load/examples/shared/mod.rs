//! Runs one workload between two ends. Both are in this process, or one is in another network
//! namespace; those two exchange the offer through a file.
//!
//! `EXAMPLE WORKLOAD [key=value ...] [address=IP] [seconds=N] [interval=MS] [cpus=ACTIVE,PASSIVE]
//! [devices=ACTIVE,PASSIVE] [serve=FILE | to=FILE]`

use std::collections::BTreeMap;
use std::time::Duration;

use linerate_load::engine::{Engine, EngineReport, Timeline};
use linerate_load::{LoadError, Offer, Secret, Setup, Worker, workload};
use linerate_model::{Endpoint, Nanos, Params};
use linerate_sys::clock;
use serde_json::Value;

const SECRET: Secret = Secret(*b"only an example.");
const PATIENCE: Duration = Duration::from_secs(10);
/// Time between the opening of the flows and the load.
const LEAD: Nanos = Nanos::from_millis(200);
const DRAIN: Nanos = Nanos::from_millis(500);

/// Report of each end; `None` if it ran in another process.
pub(crate) struct Outcome {
    pub(crate) seconds: f64,
    pub(crate) active: Option<EngineReport>,
    pub(crate) passive: Option<EngineReport>,
}

pub(crate) fn run_from_arguments() -> Outcome {
    let mut arguments = std::env::args().skip(1);
    let workload = arguments.next().expect("name a workload");
    let mut own: BTreeMap<String, String> = BTreeMap::new();
    let mut params = Params::default();
    for argument in arguments {
        let (key, value) = argument.split_once('=').expect("arguments are key=value");
        if ["address", "seconds", "interval", "cpus", "devices", "serve", "to"].contains(&key) {
            own.insert(key.to_owned(), value.to_owned());
        } else {
            params.set(key, serde_json::from_str::<Value>(value).unwrap_or_else(|_| value.into()));
        }
    }
    let seconds = own.get("seconds").map_or(2.0, |text| text.parse().expect("a number of seconds"));
    let cpus = own.get("cpus").map(String::as_str).unwrap_or_default();
    let cpus: Vec<usize> = cpus.split(',').filter_map(|cpu| cpu.parse().ok()).collect();
    let address =
        own.get("address").map_or("127.0.0.1", String::as_str).parse().expect("an address");
    let devices = own.get("devices").and_then(|both| both.split_once(','));
    let local = |device: Option<&str>| Endpoint {
        address: Some(address),
        device: device.map(str::to_owned),
        ..Endpoint::named("x", "x")
    };
    let interval =
        own.get("interval").map_or(100, |text| text.parse().expect("a number of milliseconds"));
    let end = ExampleEnd {
        workload,
        params,
        local: [local(devices.map(|both| both.0)), local(devices.map(|both| both.1))],
        seconds,
        interval: Nanos::from_millis(interval),
        cpus,
    };
    let (active, passive) = match (own.get("serve"), own.get("to")) {
        (Some(file), _) => (None, Some(end.passive(|offer| publish(file, offer)))),
        (_, Some(file)) => (Some(end.active(&await_offer(file))), None),
        (None, None) => {
            let (tell, told) = std::sync::mpsc::channel();
            std::thread::scope(|scope| {
                let passive = scope.spawn(|| {
                    end.passive(|offer| tell.send(offer.clone()).expect("the active end"))
                });
                let active = end.active(&told.recv().expect("an offer"));
                (Some(active), Some(passive.join().expect("the passive end")))
            })
        }
    };
    Outcome { seconds, active, passive }
}

struct ExampleEnd {
    workload: String,
    params: Params,
    /// The active end, the passive one.
    local: [Endpoint; 2],
    seconds: f64,
    interval: Nanos,
    cpus: Vec<usize>,
}

impl ExampleEnd {
    fn setup<'a>(&'a self, local: &'a Endpoint) -> Setup<'a> {
        let loaded = Duration::from_secs_f64(self.seconds);
        Setup { patience: PATIENCE, loaded, ..Setup::alone(&self.params, local, SECRET) }
    }

    fn passive(&self, publish: impl FnOnce(&Offer)) -> EngineReport {
        let workload = workload(&self.workload).expect("a known workload");
        let listener = or_exit(workload.listen(&self.setup(&self.local[1])));
        publish(&listener.offer());
        self.load(or_exit(listener.accept(PATIENCE.into())), self.cpus.get(1))
    }

    fn active(&self, offer: &Offer) -> EngineReport {
        let workload = workload(&self.workload).expect("a known workload");
        self.load(or_exit(workload.connect(&self.setup(&self.local[0]), offer)), self.cpus.first())
    }

    fn load(&self, workers: Vec<Box<dyn Worker>>, cpu: Option<&usize>) -> EngineReport {
        let start = Nanos(clock::monotonic()) + LEAD;
        let load_until = start + Nanos::from_secs_f64(self.seconds);
        let timeline = Timeline {
            start,
            load_from: start,
            load_until,
            drain_until: load_until + DRAIN,
            interval: self.interval,
        };
        let mut engine =
            Engine::start(workers, timeline, &cpu.copied().into_iter().collect::<Vec<_>>(), 1);
        let mut intervals = Vec::new();
        while !engine.finished() {
            std::thread::sleep(Duration::from_millis(50));
            intervals.extend(engine.intervals());
        }
        let mut report = engine.join();
        intervals.append(&mut report.intervals);
        report.intervals = intervals;
        report
    }
}

/// Returns the result, or ends the process if it was refused: the other end would otherwise wait
/// for an offer or a connection that never comes.
fn or_exit<T>(asked: Result<T, LoadError>) -> T {
    asked.unwrap_or_else(|refusal| {
        eprintln!("{refusal}");
        std::process::exit(1)
    })
}

fn publish(file: &str, offer: &Offer) {
    let partial = format!("{file}.partial");
    std::fs::write(&partial, serde_json::to_string(offer).expect("an offer is plain data"))
        .expect("write the offer");
    std::fs::rename(partial, file).expect("publish the offer");
}

fn await_offer(file: &str) -> Offer {
    loop {
        if let Ok(text) = std::fs::read_to_string(file) {
            std::fs::remove_file(file).expect("take the offer");
            return serde_json::from_str(&text).expect("an offer");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
