//! Disks that hang: what was under way is open, what was due is not forgotten, and percentiles say
//! at least how long it was waited for.

use std::time::{Duration, Instant};

use anyhow::ensure;

use super::super::super::claim::{Claim, Relation, Tolerance, Unit};
use super::super::super::ground::Ground;
use super::super::super::judge::run_plan;
use super::super::super::plan::quoted;
use super::super::super::study::Study;
use super::disk::Filesystem;

const STARTING: Duration = Duration::from_secs(10);
/// The size of the file that is written to.
const SCRATCH_BYTES: u64 = 1 << 20;
/// From when the file was made until the disk hangs; the load lasts longer, and the disk hangs for
/// longer than the load and its drain.
const CALM: Duration = Duration::from_millis(900);
const HANG: Duration = Duration::from_secs(3);
/// Seconds of load, and until the drain is over.
const LOADED: f64 = 1.5;
const OVER: f64 = 2.0;

/// Runs `params` on a scratch file of `filesystem` while `below` is frozen: at first not, and then
/// for longer than the load.
fn frozen(
    ground: &Ground,
    [filesystem, below]: [&Filesystem; 2],
    params: &str,
) -> anyhow::Result<Study> {
    let plan = format!(
        "[campaign]\nname = \"truth\"\nrepeats = 1\n[[sweep]]\nname = \"truth\"\nduration \
            = \"{LOADED} s\"\nwarmup = \"0 ms\"\n\
         drain = \"{} ms\"\n[[sweep.job]]\nworkload = \"storage\"\nfrom = \"a\"\nto \
         = \"a\"\nparams = {{ target = {}, \
         size = \"1 MiB\", read = \"0 %\", {params} }}\n",
        (OVER - LOADED) * 1e3,
        quoted(filesystem.mount.display())
    );
    let before = filesystem.used()?;
    std::thread::scope(|scope| {
        let freezing = scope.spawn(|| {
            let began = Instant::now();
            while filesystem.used()? < before + SCRATCH_BYTES {
                ensure!(began.elapsed() < STARTING, "linerate made no file on the disk");
                std::thread::sleep(Duration::from_millis(10));
            }
            std::thread::sleep(CALM);
            below.freeze(HANG)
        });
        let study = run_plan(ground, &plan, None);
        freezing.join().expect("freezing does not panic").and(study)
    })
}

fn operations<const N: usize>(study: &Study, of: [&str; N]) -> [Option<f64>; N] {
    of.map(|of| study.metric(&format!("operations_{of}")))
}

/// Writes under way when the disk stopped are open at the end, one of each slot, and nothing else
/// is.
pub(super) fn closed(ground: &mut Ground, engine: &str) -> anyhow::Result<Vec<Claim>> {
    const DEPTH: f64 = 4.0;
    let filesystem = Filesystem::make(ground)?;
    let params = format!("depth = {DEPTH}, engine = \"{engine}\", cache = \"buffered\"");
    let study = frozen(ground, [&filesystem, &filesystem], &params)?;
    let [due, answered, lost, open] = operations(&study, ["due", "answered", "lost", "open"]);
    let all = Claim::count("writes due", due)
        .expect(answered.unwrap_or_default() + DEPTH, "answered, and one of each slot");
    Ok(vec![
        Claim::count("writes open", open).expect(DEPTH, "one of each slot"),
        Claim::count("writes lost", lost).expect(0.0, "none fails"),
        all,
    ])
}

/// At a rate every write is due at a known time. The disk itself hangs, so that it does for every
/// engine: those that were due since are open, and a percentile among them is greater than the time
/// for which it was waited.
pub(super) fn at_a_rate(ground: &mut Ground, engine: &str) -> anyhow::Result<Vec<Claim>> {
    const RATE: f64 = 1000.0;
    const DUE: f64 = RATE * LOADED;
    let below = Filesystem::make(ground)?;
    let filesystem = Filesystem::above(&below, ground)?;
    let is_one_call = engine == "pread";
    let depth = if is_one_call { 1 } else { 64 };
    let params = format!("depth = {depth}, engine = \"{engine}\", rate = \"{RATE} pps\"");
    let study = frozen(ground, [&filesystem, &below], &params)?;
    let [due, answered, lost, open] = operations(&study, ["due", "answered", "lost", "open"]);
    let answered = answered.unwrap_or_default();
    let all = Claim::count("writes answered or open", open.map(|open| answered + open));
    let mut claims = vec![
        Claim::count("writes due", due).expect(DUE, "rate times duration"),
        all.expect(DUE, "all that were due"),
        Claim::count("writes lost", lost).expect(0.0, "none fails"),
    ];
    // Of a worker within a call the last answer came when the disk went on, and its end is then.
    let hung_at = (answered - f64::from(u8::from(is_one_call))) / RATE;
    let over = if is_one_call { hung_at + HANG.as_secs_f64() } else { OVER };
    for quantile in [0.9, 0.99] {
        // The longest wait is that of the first that hung.
        let above = (DUE * (1.0 - quantile)).floor();
        let expected = over - hung_at - above / RATE;
        let why = "when exactly the disk stopped, and the last slots";
        let relation = Relation::Equal(Tolerance { absolute: 0.02, relative: 0.05, why });
        let quantity = format!("bound of the response time's p{}", quantile * 100.0);
        let bound = study.bound_s("response", quantile);
        let claim = Claim::new(quantity, Unit::Seconds, bound, relation);
        claims.push(claim.expect(expected, "from when it was due to the end of the drain"));
    }
    Ok(claims)
}
