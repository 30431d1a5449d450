//! Resources of one end for its flows: payload, and the file that they read or write, opened
//! through `linerate_disk`.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use linerate_disk::{Filled, Target};
use linerate_model::Bytes;
use linerate_sys::file;
use linerate_sys::memory::Region;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use super::direct::SLOT_BYTES;
use super::params::{Files, Origin, Sink};
use super::tree::Tree;
use crate::{LoadError, Result, Setup};

/// Payload in memory; longer files repeat it.
pub(super) const MEMORY_BYTES: u64 = 4 << 20;
/// Budget of bytes written in a campaign without `max_written`: the file may be small, and a
/// campaign long.
const DEFAULT_BUDGET: u64 = 64 << 30;

/// Source of sending flows.
#[derive(Clone, Debug)]
pub(super) struct Contents {
    pub(super) file: Arc<File>,
    pub(super) memory: Arc<Region>,
    /// Returns the start of flow `n` and the bytes after which it starts again.
    pub(super) stride: u64,
    pub(super) period: u64,
    pub(super) origin: Origin,
    pub(super) device: Option<String>,
}

/// Destination of receiving flows.
#[derive(Clone, Debug)]
pub(super) struct FlowRegions {
    pub(super) target: Arc<Target>,
    /// Bytes of each flow, a multiple of [`SLOT_BYTES`].
    pub(super) region: u64,
    pub(super) most: u64,
}

/// One end's files.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    pub(super) params: Files,
    pub(super) contents: Option<Contents>,
    pub(super) place: Option<FlowRegions>,
    /// True if bytes pass through user space to be encrypted.
    pub(super) is_secured: bool,
    /// True if the other end is not linerate, and so reports no counters.
    pub(super) is_peer_foreign: bool,
    /// Files of a server.
    tree: Arc<Tree>,
}

impl Store {
    /// Creates the resources of `flows` flows of this end: a source for those that send, room for
    /// those that receive.
    pub(super) fn new(params: &Files, setup: &Setup<'_>, flows: u32, sends: bool) -> Result<Self> {
        let served =
            params.root.as_deref().map(|root| setup.disks.serve(Path::new(root))).transpose()?;
        let contents = match &served {
            Some(served) => Some(Contents {
                file: Arc::new(file::in_memory(&[])?),
                memory: Arc::new(Region::new(1)?),
                stride: 0,
                period: u64::MAX,
                origin: Origin::Folder,
                device: Some(served.path().display().to_string()),
            }),
            None => sends.then(|| contents(params, setup, flows)).transpose()?,
        };
        let tree = match served {
            Some(served) => Tree::folder(served),
            None => Tree::only(params.file_size.0, seconds_since_1970()),
        };
        let place =
            (!sends && params.sink.is_file()).then(|| place(params, setup, flows)).transpose()?;
        let (is_peer_foreign, tree) = (params.has_foreign_peer(), Arc::new(tree));
        Ok(Self {
            params: params.clone(),
            contents,
            place,
            is_secured: false,
            is_peer_foreign,
            tree,
        })
    }

    /// Returns the files of a server.
    pub(crate) fn tree(&self) -> Arc<Tree> {
        Arc::clone(&self.tree)
    }
}

/// Returns the present time, as the modification time of the trial's file.
fn seconds_since_1970() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(0)
}

fn contents(params: &Files, setup: &Setup<'_>, flows: u32) -> Result<Contents> {
    let size = params.file_size.0;
    let mut memory = Region::new(MEMORY_BYTES as usize)?;
    Xoshiro256PlusPlus::seed_from_u64(setup.seed).fill_bytes(&mut memory);
    let memory = Arc::new(memory);
    if params.source == Origin::Memory {
        let file = Arc::new(file::in_memory(&memory)?);
        return Ok(Contents {
            file,
            memory,
            stride: 0,
            period: MEMORY_BYTES,
            origin: Origin::Memory,
            device: None,
        });
    }
    // Each flow has a cold file of its own: the page cache would serve the part that others have
    // read.
    let copies = if params.source == Origin::Cold { u64::from(flows) } else { 1 };
    let stride = size.next_multiple_of(SLOT_BYTES as u64);
    let target = setup.disks.scratch(Path::new(&params.folder), stride * copies)?;
    let file = target.open(true, false)?;
    if target.filled().is_none() {
        fill(&file, &memory, stride * copies).map_err(|error| LoadError::Unsupported {
            what: format!("fill {} of a file in {}", Bytes(stride * copies), params.folder),
            why: error.to_string(),
        })?;
        target.set_filled(Filled { run: setup.seed | 1, has_checksums: false, passes: 0 });
    }
    match params.source {
        Origin::Cold => file::forget(&file, 0, stride * copies)?,
        _ => read_all(&file, stride * copies).map_err(|error| LoadError::Unsupported {
            what: format!("read a file in {} into the page cache", params.folder),
            why: error.to_string(),
        })?,
    }
    let stride = if copies > 1 { stride } else { 0 };
    let device = target.device_name();
    Ok(Contents {
        file: Arc::new(file),
        memory,
        stride,
        period: size,
        origin: params.source,
        device,
    })
}

fn fill(file: &File, contents: &[u8], bytes: u64) -> std::io::Result<()> {
    let mut at = 0;
    while at < bytes {
        let n = (bytes - at).min(contents.len() as u64) as usize;
        file.write_all_at(&contents[..n], at)?;
        at += n as u64;
    }
    file.sync_all()
}

fn read_all(file: &File, bytes: u64) -> std::io::Result<()> {
    let mut buffer = vec![0; SLOT_BYTES];
    let mut at = 0;
    while at < bytes {
        let n = file.read_at(&mut buffer, at)?;
        if n == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        at += n as u64;
    }
    Ok(())
}

fn place(params: &Files, setup: &Setup<'_>, flows: u32) -> Result<FlowRegions> {
    debug_assert!(params.sink != Sink::Discard);
    let region = params.file_size.0.next_multiple_of(SLOT_BYTES as u64);
    let target = setup.disks.scratch(Path::new(&params.folder), region * u64::from(flows))?;
    let most = params.max_written.map_or(DEFAULT_BUDGET, |bytes| bytes.0);
    Ok(FlowRegions { target, region, most })
}
