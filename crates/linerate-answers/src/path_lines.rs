//! Header and result of `linerate to`: a few lines, from facts of the hosts, the lines of the run
//! and the study.

use linerate_analysis::live::{LIVE_QUANTILES, LiveLine};
use linerate_analysis::{JobStudy, MetricStudy, Study, interface_speed};
use linerate_campaign::Failure;
use linerate_campaign::drafts::{self, word_of};
use linerate_campaign::path::PathQuestion;
use linerate_control::{Exit, RunSummary};
use linerate_load::workloads::HOST_DEFAULT;
use linerate_model::plan::Draft;
use linerate_model::{
    BitRate, Bytes, Campaign, Direction, Endpoint, HostRecord, IncidentKind, Metric, Nanos,
    Statistic, Times, metric,
};
use linerate_report::live::{HeaderBuffers, HeaderEnd, LoadKind, PathCut, PathHeader, PathSummary};
use serde_json::Value;

use crate::path::Offered;

/// Load of a measurement, as a person asked for it.
#[derive(Clone, Copy, Debug)]
pub struct PathAsked<'a> {
    /// Workload of the mode.
    pub workload: &'static str,
    /// True if only the other end sends.
    pub is_reverse: bool,
    /// Congestion control, if one was chosen.
    pub congestion: Option<&'a str>,
    /// Offered load of datagrams.
    pub offered: Offered,
    /// Size of the socket buffers, if one was chosen.
    pub window: Option<Bytes>,
    /// Length of the warm-up.
    pub omit: Nanos,
    /// Length of the measurement; `None` if the load has an end of its own.
    pub duration: Option<Nanos>,
}

impl<'a> PathAsked<'a> {
    /// Returns the load of `question`, whose plan is `draft`.
    ///
    /// # Errors
    /// If its options contradict each other.
    pub fn of(question: &'a PathQuestion, draft: &Draft) -> Result<Self, Failure> {
        let is_chosen = drafts::given_value(&question.given, "bitrate").is_some();
        Ok(Self {
            workload: question.mode.workload,
            is_reverse: question.is_reverse,
            congestion: question.text_of("congestion"),
            offered: match drafts::rate(draft) {
                _ if !question.is_udp() => Offered::NoDatagrams,
                None => Offered::Unlimited,
                Some(rate) if is_chosen => Offered::Chosen(rate),
                Some(rate) => Offered::Default(rate),
            },
            window: question.text_of("window").and_then(|size| size.parse().ok()),
            omit: question.omit,
            duration: question.duration()?,
        })
    }

    /// Returns the columns of its lines.
    #[must_use]
    pub fn kind(&self) -> LoadKind {
        match word_of(self.workload) {
            "tcp" => LoadKind::Stream,
            "udp" => LoadKind::Datagrams,
            _ => LoadKind::Requests,
        }
    }
}

/// Workloads that send over UDP.
const OVER_UDP: &str = "udp_";

/// Returns the header of a measurement between `ends` on `hosts`.
#[must_use]
pub fn header(ends: [&Endpoint; 2], hosts: &[HostRecord], asked: &PathAsked<'_>) -> PathHeader {
    let [sender, receiver] = if asked.is_reverse { [ends[1], ends[0]] } else { ends };
    let is_udp = asked.workload.starts_with(OVER_UDP);
    // The third of three sizes is the largest (tcp(7)).
    let most = |end, name: &str| fact(hosts, end, &format!("/net/{name}/2"))?.as_u64().map(Bytes);
    let automatic = HeaderBuffers::Automatic(most(sender, "tcp_wmem"), most(receiver, "tcp_rmem"));
    let default = fact(hosts, sender, "/net/congestion_control");
    let default = default.and_then(|name| Some((name.as_str()?.to_owned(), false)));
    let chosen = asked.congestion.filter(|name| *name != HOST_DEFAULT);
    let congestion = chosen.map(|name| (name.to_owned(), true)).or(default);
    PathHeader {
        ends: ends.map(|end| HeaderEnd {
            address: end.address,
            device: end.device.clone(),
            speed: speed(hosts, end),
        }),
        mode: word_of(asked.workload),
        congestion: congestion.filter(|_| !is_udp),
        offered: match asked.offered {
            Offered::NoDatagrams => None,
            Offered::Default(rate) | Offered::Chosen(rate) => Some(Some(rate.to_string())),
            Offered::Unlimited => Some(None),
        },
        buffers: asked.window.map(HeaderBuffers::Chosen).or((!is_udp).then_some(automatic)),
    }
}

/// Returns a fact of the host of `end`.
fn fact<'a>(hosts: &'a [HostRecord], end: &Endpoint, path: &str) -> Option<&'a Value> {
    hosts.iter().find(|one| one.host == end.host)?.facts.pointer(path)
}

/// Returns the speed of the device of `end`.
fn speed(hosts: &[HostRecord], end: &Endpoint) -> Option<BitRate> {
    interface_speed(fact(hosts, end, &format!("/interfaces/{}", end.device.as_deref()?))?)
}

/// Returns why the run of `campaign` ended early; `None` if it did not.
#[must_use]
pub fn cut_of(summary: &RunSummary, campaign: &Campaign) -> Option<PathCut> {
    let of_trials = campaign.trials.iter().flat_map(|trial| &trial.incidents);
    let mut incidents = campaign.incidents.iter().chain(of_trials);
    match &summary.exit {
        Exit::Completed if summary.completed > 0 => None,
        Exit::Completed if incidents.any(|one| one.kind == IncidentKind::AgentLost) => {
            Some(PathCut::AgentLost)
        }
        Exit::Completed => Some(PathCut::Failed),
        Exit::Interrupted => Some(PathCut::Interrupted),
        Exit::AgentLost(_) => Some(PathCut::AgentLost),
        Exit::RecorderFailed(_) => Some(PathCut::NotRecorded),
    }
}

/// Returns the result. That of a run that was `cut` has the means of its complete `lines`.
#[must_use]
pub fn summary(
    measured: Option<(&Campaign, &Study)>,
    lines: &[LiveLine],
    cut: Option<PathCut>,
    asked: &PathAsked<'_>,
) -> PathSummary {
    let counted: Vec<&LiveLine> =
        lines.iter().filter(|line| !line.is_drain && line.until > asked.omit).collect();
    let mean = Means::of(&counted);
    let subject = match asked.workload.strip_suffix("_stream") {
        Some(protocol) => protocol.to_uppercase(),
        None => word_of(asked.workload).to_owned(),
    };
    let summary = PathSummary { subject, jitter: mean.jitter, ..PathSummary::default() };
    match (cut, measured) {
        (None, Some((campaign, study))) => of_study(summary, campaign, study, asked),
        (cut, _) => PathSummary {
            goodput: mean.goodput,
            requests: mean.requests.map(|rate| (rate, [None; 3])),
            rtt: (None, mean.rtt),
            retransmits: mean.retransmits,
            loss: mean.loss,
            cut: cut.map(|why| {
                let until = counted.last().map_or(Nanos(0), |line| line.until);
                (until.since(asked.omit), asked.duration, why)
            }),
            ..summary
        },
    }
}

/// Means over lines.
#[derive(Debug, Default)]
struct Means {
    goodput: Vec<f64>,
    requests: Option<f64>,
    rtt: Option<f64>,
    retransmits: Option<u64>,
    loss: Option<f64>,
    jitter: Option<f64>,
}

impl Means {
    fn of(lines: &[&LiveLine]) -> Self {
        let seconds: f64 = lines.iter().map(|line| line.seconds()).sum();
        if seconds <= 0.0 {
            return Self::default();
        }
        let sum = |of: fn(&LiveLine) -> f64| lines.iter().map(|line| of(line)).sum::<f64>();
        let mean =
            |of: fn(&LiveLine) -> Option<f64>| mean(lines.iter().filter_map(|line| of(line)));
        let ways = [sum(|line| line.forward_bytes), sum(|line| line.backward_bytes)];
        let expected = sum(|line| line.datagrams.map_or(0.0, |of| of.expected));
        let lost = sum(|line| line.datagrams.map_or(0.0, |of| of.lost));
        let requests = sum(LiveLine::requests);
        let resent: Vec<u64> = lines.iter().filter_map(|line| line.retransmits).collect();
        Self {
            goodput: ways.iter().filter(|n| **n > 0.0).map(|n| n * 8.0 / seconds).collect(),
            requests: (requests > 0.0).then(|| requests / seconds),
            rtt: mean(|line| line.rtt),
            retransmits: (!resent.is_empty()).then(|| resent.iter().sum()),
            loss: (expected > 0.0).then(|| lost / expected),
            jitter: mean(|line| line.jitter),
        }
    }
}

/// Returns `summary` with the figures of a whole measurement.
fn of_study(
    summary: PathSummary,
    campaign: &Campaign,
    study: &Study,
    asked: &PathAsked<'_>,
) -> PathSummary {
    let Some((point, job)) = study.points.first().and_then(|p| Some((p, p.jobs.first()?))) else {
        return summary;
    };
    let ways = [Direction::Tx, Direction::Rx];
    let goodput = ways.map(|way| value(job, metric::GOODPUT, way));
    // Each connection of `crr` carries one request.
    let rate = either(job, metric::CONNECTION_RATE).or(either(job, metric::TRANSACTION_RATE));
    let time = |quantile| either(job, response_time(quantile)?);
    let bounded = ways.into_iter().filter_map(|way| job.metric(metric::GOODPUT, way));
    let mut share = bounded.filter_map(|figure| {
        let ceiling = point.ceilings.get(figure.ceiling?)?;
        Some((figure.share?, ceiling.value))
    });
    let lead = linerate_report::verdict(campaign, study);
    let retransmits: Vec<f64> =
        ways.into_iter().filter_map(|way| value(job, metric::RETRANSMITS, way)).collect();
    PathSummary {
        goodput: goodput.into_iter().flatten().filter(|bits| *bits > 0.0).collect(),
        requests: rate.map(|rate| (rate, LIVE_QUANTILES.map(time))),
        ceiling: share.next_back(),
        rtt: (of_ways(job, metric::RTT_MIN, f64::min), of_ways(job, metric::RTT, f64::max)),
        retransmits: (!retransmits.is_empty()).then(|| retransmits.iter().sum::<f64>() as u64),
        withheld: job
            .withheld
            .iter()
            .find(|one| one.name == metric::GOODPUT.name)
            .map(|one| one.why.clone()),
        unsettled: job.metrics.iter().find_map(course).map(str::to_owned),
        // Requests that were not answered are in another figure.
        loss: of_ways(job, metric::LOSS_RATIO, f64::max)
            .filter(|_| asked.offered != Offered::NoDatagrams),
        cost: either(job, metric::CPU_SECONDS_PER_GIGABYTE),
        validity: point.validity,
        bottleneck: lead.map(|lead| {
            let command = lead.next.iter().find_map(|step| step.command.clone());
            (lead.status, lead.claim, command)
        }),
        ..summary
    }
}

/// Returns the metric of the response times at `quantile`.
fn response_time(quantile: f64) -> Option<&'static Metric> {
    Times::Response.metrics().find(|one| one.statistic == Some(Statistic::Quantile(quantile)))
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (n, sum) = values.fold((0_u32, 0.0), |(n, sum), value| (n + 1, sum + value));
    (n > 0).then(|| sum / f64::from(n))
}

/// Returns the figure of `metric`: without a level of the rate, its mean over the one run.
fn value(job: &JobStudy, metric: &'static Metric, way: Direction) -> Option<f64> {
    let figure = job.metric(metric, way)?;
    figure.estimate.map(|estimate| estimate.value).or_else(|| {
        let [mean] = figure.values[..] else { return None };
        mean.filter(|_| course(figure).is_some())
    })
}

/// Returns the course of a rate that has no level; `None` if one number represents it.
fn course(figure: &MetricStudy) -> Option<&str> {
    let settled = figure.settled.as_ref().filter(|settled| !settled.has_single_number)?;
    Some(&settled.word)
}

/// Returns the value of `metric` of both directions together, else of the one that has it.
fn either(job: &JobStudy, metric: &'static Metric) -> Option<f64> {
    let ways = [Direction::Sum, Direction::Tx, Direction::Rx];
    ways.into_iter().find_map(|way| value(job, metric, way))
}

/// Returns the value of `metric`, which no sum has, of the direction that `choose` prefers.
fn of_ways(
    job: &JobStudy,
    metric: &'static Metric,
    choose: impl Fn(f64, f64) -> f64,
) -> Option<f64> {
    let ways = [Direction::Tx, Direction::Rx];
    ways.into_iter().filter_map(|way| value(job, metric, way)).reduce(choose)
}

#[cfg(test)]
mod tests {
    use linerate_analysis::live::LiveDatagrams;
    use linerate_analysis::{PointStudy, Settled};
    use linerate_campaign::drafts::{MODES, OF_TO};
    use linerate_control::ControlError;
    use linerate_load::workloads::Rate;
    use linerate_model::{Incident, RecorderError};
    use serde_json::json;

    use super::*;

    const ASKED: PathAsked<'static> = PathAsked {
        workload: "tcp_stream",
        is_reverse: false,
        congestion: None,
        offered: Offered::NoDatagrams,
        window: None,
        omit: Nanos(0),
        duration: Some(Nanos::from_secs(10)),
    };

    #[test]
    fn only_datagrams_have_an_offered_load_which_is_the_default_or_chosen() {
        let asked = |mode: usize, rate: Option<&str>| {
            let setting = OF_TO.iter().find(|setting| setting.option == "bitrate");
            let question = PathQuestion {
                mode: MODES[mode],
                is_reverse: true,
                is_both: false,
                seconds: None,
                omit: Nanos(0),
                interval: Nanos::from_secs(1),
                is_bound: false,
                given: setting.zip(rate.map(Value::from)).into_iter().collect(),
            };
            let draft = question.draft().expect("a plan");
            let asked = PathAsked::of(&question, &draft).expect("it has one end");
            (asked.offered, asked.kind())
        };
        let rate = |bits| Rate::Bits(BitRate(bits));
        assert_eq!(asked(0, Some("1 Gbit/s")), (Offered::NoDatagrams, LoadKind::Stream));
        assert_eq!(asked(1, None), (Offered::Default(rate(1e6)), LoadKind::Datagrams));
        assert_eq!(asked(1, Some("5 Mbit/s")).0, Offered::Chosen(rate(5e6)));
        assert_eq!(asked(1, Some("0 bit/s")).0, Offered::Unlimited);
    }

    fn host(name: &str, send: u64, receive: u64, driver: &str) -> HostRecord {
        let facts = json!({
            "net": {
                "tcp_wmem": [4096, 16384, send],
                "tcp_rmem": [4096, 131072, receive],
                "congestion_control": format!("of_{name}"),
            },
            "interfaces": { "eth0": { "speed_bps": 1e10, "driver": driver } },
        });
        HostRecord { host: name.into(), facts, clock_offset_ns: 0, clock_uncertainty_ns: 0 }
    }

    #[test]
    fn the_header_has_the_buffers_and_the_congestion_control_of_the_ends_that_use_them() {
        let hosts = [host("here", 1, 2, "ice"), host("there", 3, 4, "veth")];
        let end = |name: &str, host: &str| Endpoint {
            device: Some("eth0".into()),
            ..Endpoint::named(name, host)
        };
        let ends = [end("a", "here"), end("b", "there")];
        let of = |asked: &PathAsked<'_>| header([&ends[0], &ends[1]], &hosts, asked);
        let sent = of(&ASKED);
        let automatic =
            |out, into| Some(HeaderBuffers::Automatic(Some(Bytes(out)), Some(Bytes(into))));
        assert_eq!(sent.buffers, automatic(1, 4));
        assert_eq!(sent.congestion, Some(("of_here".to_owned(), false)));
        let speeds = sent.ends.each_ref().map(|end| end.speed);
        assert_eq!(speeds, [Some(BitRate(1e10)), None], "that of a veth is no limit");
        let received = of(&PathAsked { is_reverse: true, congestion: Some("reno"), ..ASKED });
        assert_eq!(received.buffers, automatic(3, 2));
        assert_eq!(received.congestion, Some(("reno".to_owned(), true)));
        assert_eq!(of(&PathAsked { workload: "udp_stream", ..ASKED }).congestion, None);
    }

    #[test]
    fn a_result_that_was_cut_off_has_the_means_of_its_lines_without_the_warm_up() {
        let line = |from: u64, until: u64, bytes, lost| LiveLine {
            from: Nanos::from_secs(from),
            until: Nanos::from_secs(until),
            forward_bytes: bytes,
            datagrams: Some(LiveDatagrams { expected: 100.0, lost }),
            retransmits: Some(2),
            ..LiveLine::default()
        };
        let drain = LiveLine { is_drain: true, ..line(4, 5, 9e9, 100.0) };
        let lines = [line(0, 1, 7e9, 50.0), line(1, 2, 1e6, 1.0), line(2, 4, 5e6, 3.0), drain];
        let asked = PathAsked { omit: Nanos::from_secs(1), ..ASKED };
        let summary = summary(None, &lines, Some(PathCut::AgentLost), &asked);
        assert_eq!(summary.goodput, [1.6e7]);
        assert_eq!((summary.loss, summary.retransmits), (Some(0.02), Some(4)));
        assert_eq!(summary.cut, Some((Nanos::from_secs(3), ASKED.duration, PathCut::AgentLost)));
    }

    #[test]
    fn a_rate_without_a_level_has_its_mean_and_its_course() {
        let settled = |has_single_number| Settled {
            word: "never settles".to_owned(),
            has_single_number,
            trials: Vec::new(),
        };
        let of = |settled, values: &[f64]| {
            let figure = MetricStudy {
                settled,
                values: values.iter().copied().map(Some).collect(),
                ..MetricStudy::new(metric::GOODPUT, Direction::Tx)
            };
            let job = JobStudy { metrics: vec![figure], ..JobStudy::default() };
            let point = PointStudy { jobs: vec![job], ..PointStudy::default() };
            let study = Study { points: vec![point], ..Study::default() };
            let campaign = Campaign::default();
            let summary = summary(Some((&campaign, &study)), &[], None, &ASKED);
            (summary.goodput, summary.unsettled)
        };
        let words = Some("never settles".to_owned());
        assert_eq!(of(Some(settled(false)), &[8e6]), (vec![8e6], words.clone()));
        // The means of several runs, and a figure that was withheld for another reason.
        assert_eq!(of(Some(settled(false)), &[8e6, 9e6]), (vec![], words));
        assert_eq!(of(Some(settled(true)), &[8e6]), (vec![], None));
        assert_eq!(of(None, &[8e6]), (vec![], None));
    }

    #[test]
    fn an_early_end_has_its_reason() {
        let mut campaign = Campaign::default();
        let summary = |completed, exit| RunSummary {
            completed,
            failed: 0,
            interrupted: 0,
            remaining: 0,
            exit,
        };
        let lost = Incident {
            host: "b".into(),
            kind: IncidentKind::AgentLost,
            message: "it is gone".into(),
        };
        let of = |completed, exit| cut_of(&summary(completed, exit), &campaign);
        assert_eq!(of(1, Exit::Completed), None);
        assert_eq!(of(0, Exit::Completed), Some(PathCut::Failed));
        assert_eq!(of(0, Exit::Interrupted), Some(PathCut::Interrupted));
        let full = || ControlError::from(RecorderError("disk full".into()));
        assert_eq!(of(1, Exit::AgentLost(full())), Some(PathCut::AgentLost));
        assert_eq!(of(1, Exit::RecorderFailed(full())), Some(PathCut::NotRecorded));
        campaign.incidents.push(lost);
        let of = |completed| cut_of(&summary(completed, Exit::Completed), &campaign);
        assert_eq!((of(0), of(1)), (Some(PathCut::AgentLost), None));
    }
}
