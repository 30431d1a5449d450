//! `linerate disk`: list disks, give consent to write to one, and measure one.

mod consent;
mod load;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use linerate_answers::disks;

use crate::args::{Global, Saved};
use crate::exit::{Exit, Outcome};
use crate::reports;

#[derive(Debug, Args)]
pub(crate) struct DiskArgs {
    #[command(subcommand)]
    pub(crate) action: DiskAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DiskAction {
    /// List every disk, its content, and each reason against writing to it
    List {
        #[command(flatten)]
        saved: Saved,
    },
    /// Load a disk or file, and print its IOPS, throughput and latency
    Run(load::LoadArgs),
    /// Load a disk or file at every combination of lists: `--qd 1..256x2 --bs 4k,64k --mix
    /// 100,70,0`
    Sweep(load::LoadArgs),
    /// Give consent to overwrite a blank disk: writes a claim into its first 4 KiB; loads never
    /// touch its first and last MiB
    ///
    /// A disk that is in use or not blank is refused, and no option overrides that. Wipe it
    /// yourself (wipefs -a, blkdiscard -z).
    Claim {
        /// Device, or a partition that is not in use
        device: PathBuf,
        /// Its serial number, as in `disk list` [default: asked on the terminal]
        #[arg(long)]
        serial: Option<String>,
    },
    /// End consent: overwrites the claim with zeros; data of loads stays
    Release {
        /// Device
        device: PathBuf,
    },
}

/// Lists, claims or releases.
pub(crate) fn run(args: DiskArgs, global: Global) -> Outcome {
    match args.action {
        DiskAction::List { saved } => {
            reports::answer(&disks::document(&linerate_disk::list()), &saved, global)?;
            Ok(Exit::Done)
        }
        DiskAction::Run(args) => load::run(&args, global),
        DiskAction::Sweep(args) => load::sweep(&args, global),
        DiskAction::Claim { device, serial } => consent::claim(&device, serial, global.json),
        DiskAction::Release { device } => consent::release(&device, global.json),
    }
}
