//! Mixes: `[sweep.together]`, every measured job of the sweep alone and all of them at once, in
//! turn.
//!
//! ```toml
//! [sweep.together]
//! pairs = 10                     # rounds; takes the place of the campaign's repeats
//! placebo = true                 # every job alone once more: what differs is noise
//! margin = "2 %"                 # a smaller difference is none
//! # All that once more at these shares of what each job reached alone, offered whatever comes of
//! # it.
//! offered = ["50 %", "80 %"]
//! ```
//!
//! Each round measures every job alone, then all together, or in reverse. Background jobs run in
//! all of them.

use std::ops::Range;

use toml::Spanned;
use toml::de::DeValue;

use super::compare::{DEFAULT_MARGIN, DEFAULT_PAIRS, read_margin};
use super::fields::{Fields, Problems, wrong_type};
use super::{JobPlan, Sweep};
use crate::{JobSpec, Ratio, Role};

/// Name of the arm in which all jobs run at once.
pub(super) const TOGETHER: &str = "together";

const TOGETHER_KEYS: &[&str] = &["pairs", "placebo", "margin", "offered"];

/// A mix as read.
#[derive(Clone, Debug, PartialEq)]
pub struct Together {
    /// Rounds at each point.
    pub pairs: u32,
    /// True if every job is measured alone once more, under another name, as a placebo.
    pub placebo: bool,
    /// The least relative difference that counts.
    pub margin: Ratio,
    /// Shares of what each job reaches alone at which everything is measured once more.
    pub offered: Vec<Ratio>,
    /// Where they stand in the text.
    pub offered_span: Option<Range<usize>>,
}

/// Arm of a mix: its name, and the index of its job in the sweep; `None` stands for all jobs.
pub(super) struct MixArm {
    pub(super) role: Role,
    pub(super) name: String,
    pub(super) job: Option<usize>,
}

impl Together {
    /// The arms of `sweep`, whose mix this is.
    pub(super) fn measured(&self, jobs: &[JobPlan]) -> Vec<MixArm> {
        let mut arms = alone(jobs, Role::Alone, "");
        arms.push(MixArm { role: Role::Together, name: TOGETHER.to_owned(), job: None });
        if self.placebo {
            arms.extend(alone(jobs, Role::Placebo, " again"));
        }
        arms
    }
}

impl MixArm {
    /// The jobs of this arm, and the number that each has when all run together. `specs` are those
    /// of all, each with the number of the sweep's job it comes from.
    pub(super) fn jobs(&self, specs: &[(usize, JobSpec)]) -> (Vec<u32>, Vec<JobSpec>) {
        let runs = |(_, (of, spec)): &(usize, &(usize, JobSpec))| {
            // Background jobs run in every arm: they are conditions of the comparison.
            spec.background.is_some() || self.job.is_none_or(|job| job == *of)
        };
        let numbered = specs.iter().enumerate().filter(runs);
        numbered
            .map(|(number, (_, spec))| (u32::try_from(number).unwrap_or(u32::MAX), spec.clone()))
            .unzip()
    }
}

/// Returns an arm for each measured job alone. `suffix` ends their names.
fn alone(jobs: &[JobPlan], role: Role, suffix: &str) -> Vec<MixArm> {
    let measured = || jobs.iter().enumerate().filter(|(_, job)| job.background.is_none());
    let mut arms = Vec::new();
    for (number, JobPlan { workload, .. }) in measured() {
        let alike = measured().filter(|(_, other)| other.workload == *workload).count();
        // The number is added only where it is needed, because names appear in every report.
        let which = if alike > 1 { format!("{workload} {number}") } else { workload.clone() };
        arms.push(MixArm { role, name: format!("{which} alone{suffix}"), job: Some(number) });
    }
    arms
}

/// Reads the mix of `sweep`, whose jobs are known.
pub(super) fn read(
    value: &Spanned<DeValue<'_>>,
    sweep: &Sweep,
    problems: &Problems,
) -> Option<Together> {
    let fields = Fields::of(value, "`together`", TOGETHER_KEYS, problems)?;
    if sweep.jobs.iter().filter(|job| job.background.is_none()).count() < 2 {
        problems.at(
            fields.span(),
            "there is nothing to run together",
            "two `[[sweep.job]]` at least that are measured",
        );
    }
    Some(Together {
        pairs: fields.count_32("pairs", 1..=1000, DEFAULT_PAIRS),
        placebo: fields.get("placebo").is_some_and(|value| {
            value.get_ref().as_bool().unwrap_or_else(|| {
                problems.push(wrong_type(value, "`placebo`", "true or false"));
                false
            })
        }),
        margin: read_margin(&fields, DEFAULT_MARGIN),
        offered: read_offered(&fields),
        offered_span: fields.get("offered").map(Spanned::span),
    })
}

/// One share, or a list of different ones.
fn read_offered(fields: &Fields<'_, '_>) -> Vec<Ratio> {
    let expected = "a share of what each job reaches alone from \"1 %\" to \"100 %\", or a list of \
        different ones";
    let shares = fields.read("offered", expected, |value| {
        let shares: Option<Vec<Ratio>> = match value {
            DeValue::Array(list) => list.iter().map(|value| share(value.get_ref())).collect(),
            one => share(one).map(|share| vec![share]),
        };
        shares.filter(|shares| differ(shares))
    });
    shares.unwrap_or_default()
}

fn share(value: &DeValue<'_>) -> Option<Ratio> {
    let share: Ratio = value.as_str()?.parse().ok()?;
    // Above 100 % a job would be asked for more than it reached alone.
    (0.01..=1.0).contains(&share.0).then_some(share)
}

/// Returns true if there is a share and none appears twice.
fn differ(shares: &[Ratio]) -> bool {
    let is_new = |(number, share): (usize, &Ratio)| !shares[..number].contains(share);
    !shares.is_empty() && shares.iter().enumerate().all(is_new)
}

#[cfg(test)]
mod tests {
    use super::super::{expand, parse};
    use crate::{Endpoint, HostAddress, Ratio, Role, Testbed, TrialSpec};

    const HEAD: &str = "[campaign]\nname='x'\nseed=3\n[[sweep]]\nname='s'\n\
        [[sweep.job]]\nworkload='storage'\nfrom='a'\nto='b'\n[[sweep.job]]\nworkload='tcp_stream'\n\
        from='a'\nto='b'\n";

    fn trials(more: &str) -> Vec<TrialSpec> {
        let (plan, problems) = parse(&format!("{HEAD}{more}"));
        assert_eq!(problems, []);
        let endpoint = |name: &str| Endpoint::named(name, &name[..1]);
        let testbed = Testbed {
            hosts: ["a", "b"].map(|name| (name.to_owned(), HostAddress::InProcess)).to_vec(),
            endpoints: ["a", "b", "a1", "b1"].map(endpoint).to_vec(),
            emulated: true,
        };
        expand(&plan.expect("no problem"), &testbed).expect("every endpoint is there")
    }

    fn told(trial: &TrialSpec) -> (&str, Vec<&str>, &[u32]) {
        let arm = trial.arm.as_ref().expect("an arm");
        let workloads = trial.jobs.iter().map(|job| job.workload.as_str()).collect();
        (arm.name.as_str(), workloads, &arm.jobs)
    }

    #[test]
    fn every_job_runs_alone_and_all_together_in_turn_and_in_reverse() {
        let trials = trials("[sweep.together]\npairs=2\n");
        assert_eq!(trials.len(), 6);
        let names: Vec<_> = trials.iter().map(|trial| told(trial).0).collect();
        let reversed: Vec<_> = names[3..].iter().rev().copied().collect();
        assert_eq!(names[..3], reversed);
        let mut round: Vec<_> = trials[..3].iter().map(told).collect();
        round.sort_unstable();
        assert_eq!(
            round,
            [
                ("storage alone", vec!["storage"], &[0][..]),
                ("tcp_stream alone", vec!["tcp_stream"], &[1][..]),
                ("together", vec!["storage", "tcp_stream"], &[0, 1][..]),
            ]
        );
        assert!(trials[..3].iter().all(|trial| trial.seed == trials[0].seed), "one seed a round");
        assert_ne!(trials[0].seed, trials[3].seed);
    }

    #[test]
    fn a_placebo_is_every_job_alone_again_and_pairs_multiply_a_jobs_specs() {
        let trials = trials(
            "[sweep.axis]\npairs=[['a b','a1 \
                b1']]\n'job.1.params.streams'=[1,2]\n[sweep.together]\npairs=1\nplacebo=true\n",
        );
        assert_eq!(trials.len(), 2 * 5);
        let again: Vec<_> = trials
            .iter()
            .filter(|trial| trial.arm.as_ref().is_some_and(|arm| arm.role == Role::Placebo))
            .collect();
        assert_eq!(again.len(), 4);
        let stream =
            again.iter().find(|trial| told(trial).0 == "tcp_stream alone again").expect("measured");
        assert_eq!(told(stream).2, [2, 3], "the numbers its jobs have among all four");
    }

    #[test]
    fn a_background_job_runs_in_every_arm_and_jobs_of_one_workload_are_told_apart() {
        let text = "[[sweep.job]]\nworkload='tcp_stream'\nfrom='b'\nto='a'\n[[sweep.job]]\n\
            workload='udp_rr'\nfrom='a'\nto='b'\nstart='0 s'\n";
        let trials = trials(&format!("{text}[sweep.together]\npairs=1\n"));
        let mut round: Vec<_> = trials.iter().map(told).collect();
        round.sort_unstable();
        let names: Vec<_> = round.iter().map(|(name, ..)| *name).collect();
        assert_eq!(
            names,
            ["storage alone", "tcp_stream 1 alone", "tcp_stream 2 alone", "together"]
        );
        assert_eq!(round[0].1, ["storage", "udp_rr"]);
    }

    #[test]
    fn at_fixed_loads_all_is_measured_again_after_every_round_as_fast_as_it_goes() {
        let trials = trials("[sweep.together]\npairs=2\noffered=['50 %','80 %']\n");
        assert_eq!(trials.len(), 3 * 6);
        let shares: Vec<_> =
            trials.iter().map(|trial| trial.arm.as_ref().and_then(|arm| arm.offered)).collect();
        assert!(shares[..6].iter().all(Option::is_none), "{shares:?}");
        for share in [0.5, 0.8] {
            assert_eq!(
                shares[6..].iter().filter(|own| **own == Some(Ratio(share))).count(),
                6,
                "{shares:?}"
            );
        }
        let points: Vec<_> =
            trials.iter().map(|trial| trial.point["offered"].as_str().expect("a word")).collect();
        assert!(points[..6].iter().all(|point| *point == "saturation"), "{points:?}");
        assert!(points[6..].iter().all(|point| ["50 %", "80 %"].contains(point)), "{points:?}");
        let mut ids: Vec<u32> = trials.iter().map(|trial| trial.id.0).collect();
        ids.sort_unstable();
        assert_eq!(ids, (0..18).collect::<Vec<u32>>());
    }

    #[test]
    fn every_problem_of_a_mix_is_told_at_its_place() {
        let alone = "[campaign]\nname='x'\n[[sweep]]\nname='s'\n[[sweep.job]]\nworkload='null'\n\
            from='a'\nto='b'\n\
            [sweep.together]\npairs=0\nplacebo=2\nmargin='x'\nrounds=3\noffered=['50 %','50 %']\n";
        let told: Vec<String> = parse(alone).1.into_iter().map(|problem| problem.message).collect();
        for wanted in [
            "nothing to run together",
            "`pairs` is 0",
            "`placebo` is",
            "`margin` is",
            "`offered` is",
            "unknown key `rounds`",
        ] {
            assert!(told.iter().any(|message| message.contains(wanted)), "{wanted}: {told:?}");
        }
        let both = format!(
            "{HEAD}[sweep.together]\n[sweep.compare]\na={{name='A'}}\nb={{name='B',to='c'}}\n"
        );
        assert!(
            parse(&both)
                .1
                .iter()
                .any(|problem| problem.message.contains("`together` and `compare`"))
        );
    }
}
