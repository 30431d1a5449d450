//! Sweeps of a configuration: one for each place in the workers' lists of specifications.

use std::path::Path;

use super::{ANY, Kind, Reader, SCRATCH_BYTES, Specification, Worker, network};
use crate::plan::{Job, Sweep};
use crate::{Class, Imported, Targets};

impl Reader {
    /// Makes the sweeps and classes the workers and their targets.
    pub(super) fn finish(mut self, targets: &Targets<'_>) -> Imported {
        // Files saved without a topology have specifications only.
        self.add_worker_for_mapped_target(targets);
        let workers = std::mem::take(&mut self.workers);
        let n = workers.iter().map(|worker| worker.specifications.len()).max().unwrap_or(0);
        let mut classed: Vec<String> = Vec::new();
        for place in 0..n {
            let mut sweep =
                Sweep { warmup: self.warmup, seconds: self.seconds, ..Sweep::default() };
            for worker in &workers {
                let Some(specification) = self.assigned(worker, place, &mut sweep) else {
                    continue;
                };
                if worker.kind == Kind::Tcp {
                    self.add_network_job(worker, &specification, place == 0, &mut sweep);
                    continue;
                }
                for (line, name) in &worker.targets {
                    let target = targets.mapped(name);
                    // A target is named once for each specification; its class is the same.
                    if !classed.contains(name) {
                        classed.push(name.clone());
                        self.class_target(*line, name, target);
                    }
                    sweep.push(disk_job(worker, &specification, target, self.cycles, targets));
                }
            }
            if self.cycles {
                sweep.depths.clone_from(&self.depths);
            }
            if sweep.name.is_empty() {
                sweep.name = format!("specification {}", place + 1);
            }
            if !sweep.jobs.is_empty() {
                // A sweep without jobs would run nothing for its whole time.
                self.imported.sweeps.push(sweep);
            }
        }
        for worker in workers.iter().filter(|worker| worker.targets.is_empty()) {
            let note = "a worker without targets does nothing";
            self.imported.class(worker.line, worker.name.clone(), Class::Ignored, note);
        }
        if self.imported.sweeps.is_empty() && self.imported.n_refused() == 0 {
            let note = format!(
                "no worker has both a target and an access specification; for a file without \
                    workers, --map '{ANY}=TARGET' runs each specification on a target of yours"
            );
            self.imported.class(1, "the whole file", Class::Refused, note);
        }
        self.imported.keys.sort_by_key(|key| key.line);
        self.imported
    }

    /// Adds a worker for the target that the user mapped, if the file has none: there the user of
    /// Iometer chose target and specifications by hand each time.
    fn add_worker_for_mapped_target(&mut self, targets: &Targets<'_>) {
        let all: Vec<(usize, String)> = self
            .specifications
            .iter()
            .filter_map(|one| Some((one.lines.first()?.0, one.name.clone())))
            .collect();
        if !self.workers.is_empty() || all.is_empty() || targets.mapped(ANY).is_none() {
            return;
        }
        let note = "the file has no workers: one worker runs each of its specifications on the \
            target of --map";
        self.imported.class(1, "the whole file", Class::Approximate, note);
        self.workers.push(Worker {
            line: 1,
            depth: 1,
            specifications: all,
            targets: vec![(1, ANY.to_owned())],
            ..Worker::default()
        });
    }

    /// Returns the specification at `place` of the list of `worker`, and adds its name to `sweep`;
    /// `None` if the worker is idle there, or the file does not have the specification.
    fn assigned(
        &mut self,
        worker: &Worker,
        place: usize,
        sweep: &mut Sweep,
    ) -> Option<Specification> {
        let (line, name) = worker.specifications.get(place)?;
        if name.eq_ignore_ascii_case("idle") {
            return None;
        }
        let Some(specification) = self.specification_named(name) else {
            let note = "no such access specification in the file";
            self.imported.class(*line, name.clone(), Class::Refused, note);
            return None;
        };
        if sweep.name.is_empty() {
            sweep.name.clone_from(name);
        } else if !sweep.name.split(", ").any(|one| one == name) {
            sweep.name = format!("{}, {name}", sweep.name);
        }
        Some(specification)
    }

    /// Returns the specification called `name`, or the only one if that has no name.
    fn specification_named(&self, name: &str) -> Option<Specification> {
        let mut unnamed = self.specifications.iter().filter(|one| one.name.is_empty());
        let only = unnamed.next().filter(|_| unnamed.next().is_none());
        let known = self.specifications.iter().find(|one| one.name.eq_ignore_ascii_case(name));
        known.or(only).filter(|one| !one.lines.is_empty()).cloned()
    }

    /// Adds the job of a network worker; `is_first` if its keys are not classed yet.
    fn add_network_job(
        &mut self,
        worker: &Worker,
        specification: &Specification,
        is_first: bool,
        sweep: &mut Sweep,
    ) {
        let made = if self.cycles {
            Err("a network worker in a cycle of depths: set the test type to NORMAL".to_owned())
        } else {
            network::job(specification, worker.targets.len(), worker.reopens)
        };
        let (class, note) = match made {
            Ok((job, note)) => {
                sweep.jobs.push(job);
                (Class::Approximate, note)
            }
            Err(why) => (Class::Refused, why),
        };
        if is_first || class == Class::Refused {
            self.imported.class(worker.line, worker.name.clone(), class, note);
        }
        for (line, target) in worker.targets.iter().filter(|_| is_first) {
            let note = "the other end is the plan's `b`: run it with --to";
            self.imported.class(*line, target.clone(), Class::Approximate, note);
        }
    }

    fn class_target(&mut self, line: usize, name: &str, target: Option<&str>) {
        let (class, note) = match target {
            Some(here) => (Class::Exact, format!("target {here}")),
            None => (Class::Refused, format!("name it on this host: --map '{name}=/dev/...'")),
        };
        self.imported.class(line, name, class, note);
    }
}

/// Returns the job of a disk worker on one target.
fn disk_job(
    worker: &Worker,
    specification: &Specification,
    target: Option<&str>,
    cycles: bool,
    targets: &Targets<'_>,
) -> Job {
    let mut job = Job::default();
    let target = target.unwrap_or_default();
    job.text("target", target);
    let is_scratch = targets.is_folder(Path::new(target));
    match worker.span {
        0 if is_scratch => job.size("size", SCRATCH_BYTES),
        0 => {}
        span => {
            // Its class is that of the key, which is never exact.
            job.extent(is_scratch, span, worker.offset);
        }
    }
    if worker.offset > 0 {
        job.size("offset", worker.offset);
    }
    let lines: Vec<&str> = specification.lines.iter().map(|(_, line)| line.as_str()).collect();
    job.text("access", &lines.join("; "));
    job.text("weight_of", "bursts");
    // Iometer's workers all begin at the same sector.
    job.text("regions", "same");
    if !cycles {
        job.value("depth", worker.depth);
    }
    if let Some(each) = worker.reopens {
        // Beyond 2^30 transactions the target is never reopened within a sweep.
        job.value("reopen_every", each.min(1 << 30));
    }
    job.value("workers", 1);
    job
}
