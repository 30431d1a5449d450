//! What an interrupted mesh has measured, from the ledgers in its folder.

use std::collections::HashSet;
use std::path::Path;

use linerate_analysis::Study;
use linerate_analysis::mesh::{Mesh, Pairing, rounds_of_groups};
use linerate_store::{Ledger, Which};

use super::{Fleet, figures, leave_out, stage_name};
use crate::judged::judged;
use crate::{Failure, Result};

/// Figures of earlier stages of a mesh.
#[derive(Clone, Debug)]
pub struct Earlier {
    /// The figures.
    pub mesh: Mesh,
    /// Pairs that were measured in both directions, in either order.
    pub measured: HashSet<Pairing>,
    /// Number of stages.
    pub n_stages: usize,
}

impl Earlier {
    /// Returns the begin of a mesh: no figures.
    #[must_use]
    pub fn none(fleet: &Fleet) -> Self {
        let figures = figures::empty(fleet.hosts.len());
        let mesh = Mesh { groups: fleet.groups.clone(), figures };
        Self { mesh, measured: HashSet::new(), n_stages: 0 }
    }

    /// Reads what the mesh in `folder` has measured between hosts of `fleet`.
    ///
    /// # Errors
    /// If there is no mesh, or a ledger cannot be read.
    pub fn read(folder: &Path, fleet: &Fleet) -> Result<Self> {
        let mut earlier = Self::none(fleet);
        let mut begun = None;
        for number in 1.. {
            let file = folder.join(format!("{}.ledger", stage_name(number)));
            if !file.exists() {
                break;
            }
            let ledger = Ledger::open_read_only(&file)?;
            let stage = ledger.recording(Which::Latest)?;
            let started = stage.campaign.header.started;
            // A ledger of an older mesh in the same folder is no stage of this one.
            if begun.is_some_and(|begun| started < begun) {
                break;
            }
            begun = Some(started);
            earlier.add(&judged(stage)?.1, fleet);
        }
        if earlier.n_stages == 0 {
            let first = folder.join(format!("{}.ledger", stage_name(1)));
            return Err(Failure::wrong(format!(
                "mesh --resume: there is no {}. --out names the folder of the mesh",
                first.display()
            )));
        }
        Ok(earlier)
    }

    /// Adds the study of the next stage.
    pub(super) fn add(&mut self, stage: &Study, fleet: &Fleet) {
        self.measured.extend(figures::add(stage, fleet, &mut self.mesh));
        self.n_stages += 1;
    }

    /// Returns the rounds of the pairs that were not measured.
    #[must_use]
    pub fn left(&self, fleet: &Fleet) -> Vec<Vec<Pairing>> {
        let mut left = rounds_of_groups(&fleet.groups);
        leave_out(&mut left, &self.measured);
        left
    }

    /// Returns the number of pairs that were measured in both directions.
    #[must_use]
    pub fn n_pairs(&self) -> usize {
        self.measured.len() / 2
    }
}
