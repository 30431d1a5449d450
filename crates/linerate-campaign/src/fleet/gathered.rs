//! Fleets as a person names them, before their hosts are asked.

use std::path::{Path, PathBuf};

use super::{Absent, FleetHost, ansible, at_testbed, ground, kubernetes, list, mpi, slurm};
use super::{in_shell, testbed_text};
use crate::testbeds::{self, Ground, Place};
use crate::{Failure, Result};

/// Where the hosts of a fleet come from.
#[derive(Clone, Debug)]
pub enum Engine {
    /// A lab of this name or file.
    Lab(String),
    /// A testbed file.
    Testbed(PathBuf),
    /// A list of hosts, or an inventory of Ansible whose groups are racks.
    List(PathBuf),
    /// An inventory that Ansible reads.
    Ansible(PathBuf),
    /// The hosts of this mpirun.
    Mpi(String),
    /// The nodes with pods of these labels.
    Kubernetes(String),
    /// The nodes of the present allocation of Slurm.
    Slurm,
}

/// Fleet whose hosts have not been asked yet.
pub struct Gathered {
    /// Where it is measured.
    pub ground: Ground,
    /// Options that lead another command to the hosts.
    pub options: String,
    /// List of the hosts; empty for those of a lab or testbed.
    pub listed: Vec<FleetHost>,
    /// Hosts that the engine knows to be missing.
    pub absent: Vec<Absent>,
}

impl Gathered {
    /// Gathers the hosts of `engine`. Those of a list get a testbed file in the folder `out`, for
    /// later commands; the command line `reach` starts their agents.
    ///
    /// # Errors
    /// If the engine fails or names no host, or the file cannot be written.
    pub fn of(engine: &Engine, reach: Option<&str>, out: &Path) -> Result<Self> {
        let (listed, absent) = match engine {
            Engine::Lab(lab) => {
                let place = Place { lab: Some(lab.clone()), ..Place::default() };
                return Self::at(&place, format!("--lab {}", in_shell(lab)));
            }
            Engine::Testbed(file) => {
                let place = Place { testbed: Some(file.clone()), ..Place::default() };
                return Self::at(&place, at_testbed(file));
            }
            Engine::List(file) => (list::of_file(file)?, Vec::new()),
            Engine::Ansible(inventory) => (ansible::of_ansible(inventory)?, Vec::new()),
            Engine::Mpi(command) => (mpi::of_mpi(command)?, Vec::new()),
            Engine::Kubernetes(selector) => kubernetes::of_kubernetes(selector)?,
            Engine::Slurm => (slurm::of_slurm()?, Vec::new()),
        };
        let testbed = out.join("testbed.toml");
        let ground = ground(&listed, reach)?;
        let text = testbed_text(&listed, reach)?;
        linerate_sys::whole_file::replace(&testbed, text.as_bytes()).map_err(|error| {
            Failure::missing(format!("write {}: {}", testbed.display(), error.cause))
        })?;
        Ok(Self { ground, options: at_testbed(&testbed), listed, absent })
    }

    fn at(place: &Place, options: String) -> Result<Self> {
        let ground = testbeds::unasked(place)?;
        Ok(Self { ground, options, listed: Vec::new(), absent: Vec::new() })
    }
}
