//! Commands that findings recommend.

use linerate_model::{Command, is_server};
use serde_json::Value;

use super::disk::STORAGE;
use super::{CPU_QUOTA, TCP_STREAM};
use crate::PointStudy;
use crate::diagnosis::Consent;
use crate::diagnosis::experiment::Experiment;

/// Parameters of a server whose clients are other programs. A diagnosis brings its own client.
const OF_OTHER_CLIENTS: [&str; 2] = ["clients", "root"];
/// Parameters that give a load an end of its own. All runs of an experiment have the same length,
/// so it takes none of them.
pub const OWN_ENDS: [&str; 3] = ["amount", "file", "messages"];

/// Returns the command that diagnoses the load of `point` with the parameters of `change`; `None`
/// for points of several jobs, which no single command repeats, and towards a server without an
/// agent, which only a plan names.
pub(in crate::diagnosis) fn changed(
    point: &PointStudy,
    change: &[(String, Value)],
) -> Option<Command> {
    let mut jobs = point.jobs.iter().filter(|job| !job.background);
    // The command line describes one load.
    let job = jobs.next().filter(|job| jobs.next().is_none() && !is_server(&job.to))?;
    let left_out = [&OF_OTHER_CLIENTS[..], &OWN_ENDS].concat();
    let is_changed = |key: &str| change.iter().any(|(changed, _)| changed == key);
    let kept = job.params.0.iter();
    let kept = kept.filter(|(key, _)| !left_out.contains(&key.as_str()) && !is_changed(key));
    let params = kept.chain(change.iter().map(|(key, value)| (key, value)));
    let mut arguments = Vec::new();
    // This is the default of `diagnose`, and a shorter command is easier to check before it is run.
    if job.workload != TCP_STREAM {
        arguments.extend(["--workload".to_owned(), job.workload.clone()]);
    }
    for (key, value) in params {
        let plain = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        arguments.extend(["--param".to_owned(), format!("{key}={plain}")]);
    }
    let command = Command { arguments, ..Command::local("diagnose", &[]) };
    // A disk belongs to the host that runs the command, so it needs no path.
    let is_local = job.workload == STORAGE;
    Some(if is_local { command } else { command.between(&job.from, &job.to) })
}

/// Returns the command that makes the change of `experiment`, with its first candidate. Settings of
/// hosts have no parameter: the command measures the unchanged load or compares both settings.
pub(in crate::diagnosis) fn command(
    point: &PointStudy,
    experiment: &Experiment,
) -> Option<Command> {
    let Some(setting) = experiment.settings.first() else {
        return changed(point, experiment.candidates.first()?);
    };
    let same_load = changed(point, &[])?;
    // `diagnose` itself lifts a quota for the length of a run if the agents consent, so the
    // unchanged load is enough.
    if setting.name == CPU_QUOTA {
        return Some(same_load);
    }
    let path = same_load.path;
    // No parameter moves the polling CPU; this plan compares both placements.
    Some(Command { path, ..Command::local("run", &["placement"]) })
}

/// Returns the consent that hosts must give before `experiment`; `None` if it only changes
/// parameters of the load.
pub(in crate::diagnosis) fn consent(experiment: &Experiment) -> Option<Consent> {
    let setting = experiment.settings.first()?;
    let is_quota = setting.name == CPU_QUOTA;
    Some(if is_quota { Consent::Hosts } else { Consent::ReceivingDevice })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::experiment::{bytes, set};
    use crate::diagnosis::rules::cases::point;

    #[test]
    fn a_command_keeps_the_parameters_that_are_not_changed() {
        let mut point = point(&[("goodput", 1e8)]);
        point.jobs[0].params.set("streams", 2);
        point.jobs[0].params.set("clients", "foreign");
        OWN_ENDS.iter().for_each(|end| point.jobs[0].params.set(end, 5));
        point.jobs[0].params.set("receive_buffer", "8 KiB");
        let doubled =
            Experiment::lift("more", vec![set("receive_buffer", bytes(16384.0))], [1.5, 2.3]);
        let told = command(&point, &doubled).expect("one job");
        let expected = Command::local(
            "diagnose",
            &["--param", "streams=2", "--param", "receive_buffer=16384 B"],
        );
        assert_eq!(told, expected.between("a", "b"));
        let mut to_server = point.clone();
        to_server.jobs[0].to = "iperf3://192.0.2.7".into();
        assert_eq!(command(&to_server, &doubled), None, "only a plan names a server");
        point.jobs.push(point.jobs[0].clone());
        assert_eq!(command(&point, &doubled), None);
    }
}
