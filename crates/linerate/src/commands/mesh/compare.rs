//! `linerate mesh compare`: which hosts changed from one mesh to another.

use std::path::{Path, PathBuf};

use clap::Args;
use linerate_answers::mesh::{Compared, MeshRecord};

use super::RECORD;
use crate::args::{Global, Saved};
use crate::exit::{Exit, Failure, Outcome};
use crate::reports;

#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// Folder of the earlier mesh, or its file mesh.json
    before: PathBuf,
    /// Folder of the later mesh, or its file mesh.json
    #[arg(default_value = "mesh")]
    after: PathBuf,
    #[command(flatten)]
    saved: Saved,
}

/// Prints what changed between hosts of both meshes.
pub(crate) fn run(args: &CompareArgs, global: Global) -> Outcome {
    let (before, after) = (read(&args.before)?, read(&args.after)?);
    let compared = Compared::of(&before, &after);
    let names = [&args.before, &args.after].map(|path| path.display().to_string());
    let answer = compared.document([&names[0], &names[1]]);
    reports::answer(&answer, &args.saved, global)?;
    Ok(if compared.is_worse() { Exit::Missed } else { Exit::Done })
}

/// Reads a mesh from its file, or that in its folder.
fn read(path: &Path) -> Result<MeshRecord, Failure> {
    let file = if path.is_dir() { path.join(RECORD) } else { path.to_owned() };
    let failed =
        |why: String| Failure::wrong(format!("mesh compare: read {}: {why}", file.display()));
    let text = std::fs::read_to_string(&file).map_err(|error| failed(error.to_string()))?;
    MeshRecord::read(&text).map_err(|why| failed(format!("it is no mesh: {why}")))
}
