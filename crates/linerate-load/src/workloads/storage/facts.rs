//! Facts of a worker for reports: target, engine, and the modes that were in force.

use std::collections::BTreeMap;

/// Facts of one worker.
#[derive(Debug)]
pub(super) struct WorkerFacts {
    pub(super) target: String,
    pub(super) engine: String,
    /// Reason for the choice of the engine.
    pub(super) why: String,
    pub(super) cache: &'static str,
    pub(super) contents: &'static str,
    pub(super) conditioning: String,
    pub(super) device: Option<String>,
    pub(super) durability: Option<String>,
    pub(super) priority: Option<String>,
    pub(super) data: Option<String>,
    pub(super) opened: Option<String>,
}

impl WorkerFacts {
    /// Returns the modes of a flow report; `search` is the outcome of a search for a depth.
    pub(super) fn modes(&self, search: Option<String>) -> BTreeMap<String, String> {
        let always = [
            ("engine", self.engine.as_str()),
            ("engine_why", &self.why),
            ("cache", self.cache),
            ("contents", self.contents),
            ("conditioning", &self.conditioning),
        ];
        let optional = [
            ("device", &self.device),
            ("durability", &self.durability),
            ("io_priority", &self.priority),
            ("data", &self.data),
            ("latency_target", &search),
            ("opened", &self.opened),
        ];
        let present = optional.iter().filter_map(|(name, value)| Some((*name, value.as_deref()?)));
        let modes = always.into_iter().chain(present);
        modes.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }
}
