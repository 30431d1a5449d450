//! `linerate mesh`: all pairs of many hosts, and the host, pair or uplink that differs.

mod compare;

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{Args, Subcommand};
use linerate_answers::mesh::{self as answers, MeshPlace, MeshRecord};
use linerate_campaign::Ended;
use linerate_campaign::ends::{check_lengths, make_folder};
use linerate_campaign::fleet::{self, Absent, Engine, Gathered};
use linerate_campaign::mesh::{Earlier, Fleet, MOST_OF_STAGE, MeshLoad, Pattern, survey};
use linerate_campaign::stages::Ledgers;
use linerate_campaign::testbeds::Ground;
use linerate_model::{Nanos, QuantityError, Ratio};

use crate::args::{Formats, Global, seconds};
use crate::commands::measure::{Person, WaitArgs};
use crate::exit::{Exit, Outcome};
use crate::reports::{self, write_file};

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(group = clap::ArgGroup::new("fleet").required(true)
    .args(["hosts", "slurm", "ansible", "mpi", "kubernetes", "testbed", "lab"]))]
pub(crate) struct MeshArgs {
    #[command(subcommand)]
    action: Option<MeshAction>,
    /// List of hosts, one a line, or an inventory of Ansible (INI) whose groups are racks; `-` is
    /// standard input
    #[arg(long, value_name = "FILE")]
    hosts: Option<PathBuf>,
    /// The nodes of the present allocation of Slurm, on which `srun` starts the agents
    #[arg(long)]
    slurm: bool,
    /// Inventory of Ansible in any format: `ansible-inventory` reads it, and ssh starts the agents
    /// with its users, ports and keys
    #[arg(long, value_name = "INVENTORY")]
    ansible: Option<PathBuf>,
    /// The hosts on which mpirun starts processes: the command with its options, such as
    /// `mpirun --hostfile FILE`
    #[arg(long, value_name = "COMMAND")]
    mpi: Option<String>,
    /// The nodes with pods of agents, by their labels; `kubectl exec` starts the agents
    #[arg(long, value_name = "SELECTOR", num_args = 0..=1, default_missing_value = POD_LABELS)]
    kubernetes: Option<String>,
    /// Drain the nodes that are confirmed to be bad: they get no further jobs
    #[arg(long, requires = "slurm")]
    drain: bool,
    /// Testbed file: every endpoint is a host of the mesh
    #[arg(long, value_name = "FILE")]
    testbed: Option<PathBuf>,
    /// Lab file or preset: every host of it is one of the mesh
    #[arg(long, value_name = "LAB")]
    lab: Option<String>,
    /// Start the agents with this command, which runs another one on a host, such as `ssh {host}`;
    /// without it and an engine that starts them, `linerate agent` must run on each host
    #[arg(long, value_name = "COMMAND", conflicts_with_all = ["testbed", "lab"])]
    reach: Option<String>,
    /// Hosts that share an uplink, such as a rack: NAME=HOST,HOST... (repeatable)
    #[arg(long = "group", value_name = "NAME=HOSTS")]
    groups: Vec<String>,
    /// Length of the measurement of a pair in each direction, in seconds or with a unit
    #[arg(long, default_value = "1", value_parser = seconds)]
    seconds: f64,
    /// Warm-up before it, in seconds or with a unit
    #[arg(long, default_value = "0.2", value_parser = seconds)]
    omit: f64,
    /// Largest share of the time in which a host sends or receives; pauses between the rounds keep
    /// it
    #[arg(long, default_value = "100 %", value_name = "RATIO", value_parser = budget)]
    budget: Ratio,
    /// Runs of each pair of a suspect in the second look, beside as many of others; 0 for no second
    /// look
    #[arg(long, default_value_t = 6)]
    again: u32,
    /// Load many pairs at once, too: `incast` (all to one, each in turn), `bisection` (half to
    /// half, both ways), `all` (every pair); several with commas
    #[arg(long, value_name = "PATTERNS", value_delimiter = ',', value_parser = pattern)]
    at_once: Vec<Pattern>,
    /// Seed of the random order
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Folder for the ledgers, the figures (mesh.json, hosts.jsonl) and the report
    #[arg(long, default_value = "mesh")]
    out: PathBuf,
    /// Go on with the interrupted mesh in that folder: only pairs without figures are measured
    #[arg(long)]
    resume: bool,
    /// Write metrics to a file for the textfile collector of node_exporter
    #[arg(long, value_name = "FILE.prom")]
    metrics: Option<PathBuf>,
    #[command(flatten)]
    wait: WaitArgs,
    #[command(flatten)]
    formats: Formats,
}

#[derive(Debug, Subcommand)]
enum MeshAction {
    /// Compare two meshes: hosts, pairs and uplinks that became worse or better
    ///
    /// Exit 1 if one became worse, 0 otherwise.
    Compare(compare::CompareArgs),
}

/// Labels of the pods that `packaging/kubernetes` creates.
const POD_LABELS: &str = "app.kubernetes.io/name=linerate-agent";

/// Files with the figures of a mesh, in its folder: all of them, and a line for each host.
const RECORD: &str = "mesh.json";
const HOST_LINES: &str = "hosts.jsonl";

/// Longest absence of a host, beyond the time in which its silence is noticed.
const AWAY: Duration = Duration::from_secs(3);

/// Reads a share of the time.
fn budget(text: &str) -> Result<Ratio, String> {
    let share: Ratio = text.parse().map_err(|error: QuantityError| error.to_string())?;
    // Less makes a pause of many hours.
    let is_share = (0.0001..=1.0).contains(&share.0);
    is_share.then_some(share).ok_or_else(|| "expected 0.01 % to 100 %".to_owned())
}

/// Reads the name of a pattern.
fn pattern(text: &str) -> Result<Pattern, String> {
    let found = Pattern::NAMES.iter().find(|(name, _)| *name == text);
    found.map(|(_, pattern)| *pattern).ok_or_else(|| "expected incast, bisection or all".to_owned())
}

/// Measures the mesh and prints who differs.
pub(crate) fn run(args: &MeshArgs, global: Global) -> Outcome {
    if let Some(MeshAction::Compare(args)) = &args.action {
        return compare::run(args, global);
    }
    check_lengths("mesh", Some(args.seconds), args.omit)?;
    make_folder(&args.out)?;
    let gathered = Gathered::of(&engine(args), args.reach.as_deref(), &args.out)?;
    let Gathered { mut ground, options, listed, mut absent } = gathered;
    let names = ground.testbed.endpoints.iter().map(|endpoint| &endpoint.name);
    let hosts = names.chain(absent.iter().map(|one| &one.host)).cloned();
    let fleet = Fleet::of(hosts.collect(), &listed, &args.groups)?;
    args.at_once.iter().try_for_each(|pattern| pattern.check(&fleet))?;
    // The others do not wait for a host that went away.
    ground.away = AWAY;
    // Hosts of a lab are always there.
    if args.lab.is_none() {
        absent.extend(fleet::present(&mut ground)?);
    }
    let ended = look(args, global, (&ground, &options), &fleet, absent);
    ground.dismantle();
    Ended::outcome(ended)
}

/// Returns where the hosts come from.
fn engine(args: &MeshArgs) -> Engine {
    match (&args.lab, &args.testbed, &args.hosts, &args.ansible, &args.mpi, &args.kubernetes) {
        (Some(lab), ..) => Engine::Lab(lab.clone()),
        (_, Some(file), ..) => Engine::Testbed(file.clone()),
        (_, _, Some(file), ..) => Engine::List(file.clone()),
        (.., Some(inventory), _, _) => Engine::Ansible(inventory.clone()),
        (.., Some(command), _) => Engine::Mpi(command.clone()),
        (.., Some(selector)) => Engine::Kubernetes(selector.clone()),
        _ => Engine::Slurm,
    }
}

fn look(
    args: &MeshArgs,
    global: Global,
    (ground, place): (&Ground, &str),
    fleet: &Fleet,
    absent: Vec<Absent>,
) -> Result<Exit, Ended> {
    let load = MeshLoad {
        measured: Nanos::from_secs_f64(args.seconds),
        omitted: Nanos::from_secs_f64(args.omit),
        again: args.again,
        seed: args.seed,
        budget: args.budget,
        most_of_stage: MOST_OF_STAGE,
        at_once: args.at_once.clone(),
    };
    let earlier = if args.resume { Earlier::read(&args.out, fleet)? } else { Earlier::none(fleet) };
    if !global.quiet {
        eprintln!("{}", answers::agenda(fleet, &load, &absent, &earlier));
    }
    let audience = Person::new("mesh", global, Some(&args.wait));
    let ledgers = Ledgers::new("mesh", ground, &args.out, &audience);
    let survey = survey(&ledgers, fleet, &load, absent, earlier)?;
    drop(audience);
    let place = MeshPlace { kind: ground.kind, options: place, is_slurm: args.slurm };
    let record = MeshRecord::of(&survey);
    let answer = answers::document(&survey, &record, place);
    write_file("", &args.out.join(RECORD), &answer.study.to_string())?;
    write_file("", &args.out.join(HOST_LINES), &record.host_lines())?;
    if let Some(file) = &args.metrics {
        let ended = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        write_file("", file, &answers::metrics(&record, ended.as_secs_f64()))?;
    }
    reports::answer(&answer, &args.formats.saved(&args.out), global)?;
    if args.drain {
        let bad = answers::bad_hosts(&survey);
        fleet::drain(&bad, fleet.hosts.len(), |node| eprintln!("drained {node}"))?;
    }
    Ok(survey.exit())
}
