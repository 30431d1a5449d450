//! Endpoints of plans that are servers without an agent: `to = "iperf3://HOST[:PORT]"`.
//!
//! The active end drives such a server alone. The job gets the server as a parameter, and the host
//! of its passive end is the server. A server on the loopback is on the host of the active end.

use core::net::IpAddr;
use std::ops::Range;

use serde_json::Value;

use super::axis::pairs_of;
use super::{ArmPlan, ExpandError, JobPlan, Sweep};
use crate::{Endpoint, IPERF3_SCHEME, IPERF3_WORKLOAD, Params, SERVER_PARAMETER, is_server};

/// Returns the endpoint of the server `name` for a job of `from`, whose `params` then name it;
/// `None` if it is no server.
pub(super) fn named(name: &str, from: &Endpoint, params: &mut Params) -> Option<Endpoint> {
    is_server(name).then(|| {
        params.set(SERVER_PARAMETER, Value::from(name));
        Endpoint::named(name, if is_on_loopback(name) { &from.host } else { name })
    })
}

/// Returns whether the server `name` is on the host that drives it.
fn is_on_loopback(name: &str) -> bool {
    let place = name.trim_start_matches(IPERF3_SCHEME);
    let host = match place.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => place.split(':').next().unwrap_or_default(),
    };
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Returns the servers that `sweep` names where it cannot use them.
pub(super) fn unfit(sweep: &Sweep) -> Vec<ExpandError> {
    let mut errors = Vec::new();
    let pairs = sweep.axes.iter().find(|axis| axis.path == "pairs");
    for job in &sweep.jobs {
        // A `pairs` axis replaces the ends of measured jobs.
        let own = pairs.is_none() || job.background.is_some();
        let ends = own.then_some((job.from.as_str(), job.to.as_str()));
        check(job, &job.params, ends, &|key| job.span_of(key), &mut errors);
        if let (Some(axis), false) = (pairs, own) {
            for ends in axis.values.iter().flat_map(pairs_of).flatten() {
                check(job, &job.params, Some(ends), &|_| axis.span.clone(), &mut errors);
            }
        }
        for arm in arms(sweep).filter(|_| job.background.is_none()) {
            let applied = arm.applied(job);
            let ends = Some((applied.from.as_str(), applied.to.as_str()));
            let span = |key: &str| arm.span_of(key).or_else(|| job.span_of(key));
            check(job, &applied.params, ends, &span, &mut errors);
        }
    }
    errors.dedup();
    errors
}

fn arms(sweep: &Sweep) -> impl Iterator<Item = &ArmPlan> {
    sweep.compare.iter().flat_map(|compare| compare.arms.iter().chain(&compare.placebo))
}

fn check(
    job: &JobPlan,
    params: &Params,
    ends: Option<(&str, &str)>,
    span: &dyn Fn(&str) -> Option<Range<usize>>,
    errors: &mut Vec<ExpandError>,
) {
    let Some((from, to)) = ends else { return };
    let mut refuse = |endpoint: &str, cause, key| {
        errors.push(ExpandError::UnfitServer { endpoint: endpoint.into(), cause, span: span(key) });
    };
    if is_server(from) {
        refuse(from, "a server is the `to` of a job; `from` is an endpoint with an agent", "from");
    }
    if !is_server(to) {
        return;
    }
    if job.workload != IPERF3_WORKLOAD {
        refuse(to, "only the workload `iperf3` measures with an iperf3 server", "to");
    } else if params.get(SERVER_PARAMETER).is_some() {
        refuse(to, "the job names its server twice: leave out the parameter `server`", "to");
    }
}

#[cfg(test)]
mod tests {
    use super::super::{expand, parse};
    use super::*;
    use crate::Testbed;

    const JOB: &str = "workload = \"iperf3\"\nfrom = \"a\"\nto = \"iperf3://192.0.2.7\"\n";

    /// Returns the jobs of a plan of one sweep with `rest`, or its problems.
    fn jobs(rest: &str) -> Result<Vec<crate::JobSpec>, Vec<String>> {
        let text = format!("[campaign]\nname = \"p\"\n[[sweep]]\nname = \"s\"\n{rest}");
        let (plan, problems) = parse(&text);
        assert_eq!(problems, [], "{text}");
        let testbed =
            Testbed { endpoints: vec![Endpoint::named("a", "host")], ..Testbed::default() };
        let trials = expand(&plan.expect("no problem"), &testbed);
        trials
            .map(|trials| trials.into_iter().flat_map(|trial| trial.jobs).collect())
            .map_err(|errors| errors.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn a_server_needs_no_endpoint_of_the_testbed() {
        let found = jobs(&format!("[[sweep.job]]\n{JOB}")).expect("one job");
        assert_eq!(found[0].to, Endpoint::named("iperf3://192.0.2.7", "iperf3://192.0.2.7"));
        assert_eq!(found[0].agents(), ["host"; 2], "the active end drives it");
        for (server, is_here) in
            [("127.0.0.1:5202", true), ("[::1]", true), ("localhost", true), ("127.example", false)]
        {
            let found = jobs(&format!("[[sweep.job]]\n{}", JOB.replace("192.0.2.7", server)));
            let host = found.expect("one job")[0].to.host.clone();
            assert_eq!(host == "host", is_here, "{server}: {host}");
        }
        assert_eq!(found[0].params.get("server"), Some(&"iperf3://192.0.2.7".into()));
        let pairs = "[sweep.axis]\npairs = [[\"a iperf3://h1\"], [\"a iperf3://h2:5202\"]]\n";
        let found = jobs(&format!("[[sweep.job]]\n{JOB}{pairs}")).expect("two servers");
        let mut servers: Vec<&str> = found.iter().map(|job| job.to.name.as_str()).collect();
        servers.sort_unstable();
        servers.dedup();
        assert_eq!(servers, ["iperf3://h1", "iperf3://h2:5202"]);
    }

    #[test]
    fn a_server_where_it_cannot_be_used_is_refused() {
        for (job, cause) in [
            (JOB.replace("\"a\"", "\"iperf3://h\""), "is the `to` of a job"),
            (JOB.replace("\"iperf3\"", "\"tcp_stream\""), "only the workload `iperf3`"),
            (format!("{JOB}params = {{ server = \"iperf3://h\" }}\n"), "names its server twice"),
            (format!("{JOB}[sweep.axis]\npairs = [[\"iperf3://h a\"]]\n"), "is the `to` of a job"),
        ] {
            let errors = jobs(&format!("[[sweep.job]]\n{job}")).expect_err(cause);
            assert!(errors.iter().any(|error| error.contains(cause)), "{cause}: {errors:?}");
        }
    }
}
