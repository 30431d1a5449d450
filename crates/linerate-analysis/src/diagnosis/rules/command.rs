//! The exact commands that findings advise.

use serde_json::Value;

use super::disk::STORAGE;
use super::{CPU_QUOTA, TCP_STREAM};
use crate::diagnosis::experiment::Experiment;
use crate::{JobStudy, PointStudy};

/// `: linerate to HOST ...` with `options`, where the ad-hoc command can do what the job does.
pub(super) fn advise_command(point: &PointStudy, job: &JobStudy, options: &str) -> String {
    let protocol = match job.workload.as_str() {
        TCP_STREAM => "",
        "udp_stream" => " udp",
        _ => return String::new(),
    };
    let alone = point.jobs.len() == 1;
    if alone { format!(": linerate to HOST{protocol} {options}") } else { String::new() }
}

/// The command that runs the load of `point` with what `experiment` changes; where it has
/// candidates, with the first. Where hosts are asked to set something, the one that compares both.
/// `None` for points of several jobs.
pub(in crate::diagnosis) fn command(point: &PointStudy, experiment: &Experiment) -> Option<String> {
    let mut jobs = point.jobs.iter().filter(|job| !job.background);
    let job = jobs.next().filter(|_| jobs.next().is_none())?;
    if let Some(setting) = experiment.settings.first() {
        let told = match setting.name.as_str() {
            CPU_QUOTA => {
                "linerate diagnose --testbed FILE, the agents of its hosts started with \
                    --allow-tune host"
            }
            _ => "linerate run placement --to HOST, its agent started with --allow-tune DEVICE",
        };
        return Some(told.to_owned());
    }
    let change = experiment.candidates.first()?;
    let kept =
        job.params.0.iter().filter(|(key, _)| change.iter().all(|(changed, _)| changed != *key));
    let params = kept.chain(change.iter().map(|(key, value)| (key, value)));
    let params: String =
        params.map(|(key, value)| format!(" --param {}", quoted(key, value))).collect();
    let workload = if job.workload == TCP_STREAM {
        String::new()
    } else {
        format!(" --workload {}", job.workload)
    };
    // A disk is at the end that runs it: this host, unless a person says otherwise.
    let to = if job.workload == STORAGE { "" } else { " --to HOST" };
    Some(format!("linerate diagnose{to}{workload}{params}"))
}

/// `key=value`, in quotes where a shell would take it apart.
fn quoted(key: &str, value: &Value) -> String {
    let plain = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let simple =
        plain.chars().all(|letter| letter.is_ascii_alphanumeric() || "._-".contains(letter));
    if simple { format!("{key}={plain}") } else { format!("'{key}={plain}'") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::experiment::{bytes, set};
    use crate::diagnosis::rules::cases::point;

    #[test]
    fn a_command_keeps_what_is_not_changed_and_quotes_what_a_shell_would_split() {
        let mut point = point(&[("goodput", 1e8)]);
        point.jobs[0].params.set("streams", 2);
        point.jobs[0].params.set("receive_buffer", "8 KiB");
        let doubled =
            Experiment::lift("more", vec![set("receive_buffer", bytes(16384.0))], [1.5, 2.3]);
        let told = command(&point, &doubled).expect("one job");
        assert_eq!(
            told,
            "linerate diagnose --to HOST --param streams=2 --param 'receive_buffer=16384 B'"
        );
        point.jobs.push(point.jobs[0].clone());
        assert_eq!(command(&point, &doubled), None);
    }
}
