//! `linerate disk`: which disks there are, what is on them, the consent to write to one, and what
//! one can do.

mod consent;
mod list;
mod load;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::args::{Global, Saved};
use crate::exit::Outcome;

#[derive(Debug, Args)]
pub(crate) struct DiskArgs {
    #[command(subcommand)]
    pub(crate) action: DiskAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DiskAction {
    /// Print every disk, what is on it, and whether it may be written to, with every reason against
    /// it
    List {
        #[command(flatten)]
        saved: Saved,
    },
    /// Load a disk or file and print what it does: transfers and bytes per second, times, depth
    Run(load::LoadArgs),
    /// The same at every combination of lists: `--qd 1..256x2 --bs 4k,64k --mix 100,70,0`
    Sweep(load::LoadArgs),
    /// Let linerate overwrite a blank disk: a claim is written into its first 4 KiB; loads leave
    /// its first and last MiB alone
    ///
    /// A disk that is in use or not blank is refused, and there is no way to force it: wipe it
    /// yourself (wipefs -a, blkdiscard -z).
    Claim {
        /// The device, or a partition that nobody uses
        device: PathBuf,
        /// Its serial number, as `disk list` prints it [default: asked for on a terminal]
        #[arg(long)]
        serial: Option<String>,
    },
    /// End a claim: zeros where it stood; what loads wrote stays
    Release {
        /// The device
        device: PathBuf,
    },
}

/// Lists, claims or releases.
pub(crate) fn run(args: DiskArgs, global: Global) -> Outcome {
    match args.action {
        DiskAction::List { saved } => list::run(&saved, global),
        DiskAction::Run(args) => load::run(&args, global),
        DiskAction::Sweep(args) => load::sweep(&args, global),
        DiskAction::Claim { device, serial } => consent::claim(&device, serial, global.json),
        DiskAction::Release { device } => consent::release(&device, global.json),
    }
}
