//! Section `loss`: account of datagrams, `sent = unique + late + lost (gap + tail + all)`, with
//! duplicates, reordering, and the places of losses.
//!
//! The ledger is the study's: totals of whole trials with warm-up and drain, so every datagram is
//! in the account. A *gap* is missing below the highest received sequence number, the *tail* above
//! it, and *all* is a flow without any received datagram. Counters of queues, devices and sockets
//! locate losses; the rest is *unexplained*, and places with unreadable counters are named. Drops
//! of network controllers are separate (see `controllers`), because they count frames of all
//! traffic.

mod controllers;

use linerate_analysis::{JobStudy, LossPlace, LossStudy, PointStudy};
use linerate_model::metric;

use super::{Section, Subject};
use crate::document::{Block, Cell, Chart, Column, Plot, Role, Sheet, Table, Tone};
use crate::grid::Grid;
use crate::number::Scale;
use crate::sentences;

/// Place of losses; `None` for losses that no counter explains.
type FoundAt = Option<LossPlace>;

/// Count of the ledger with its name.
type Count = (&'static str, fn(&LossStudy) -> u64);

/// Number of [`COUNTS`], from the first, that belong to the account: the other datagrams are kinds
/// of these.
const N_ACCOUNT: usize = 4;
const LATE: &str = metric::LATE.name;

/// Counts of the ledger.
const COUNTS: [Count; 9] = [
    ("sent", |loss| loss.ledger.sent),
    ("unique", |loss| loss.ledger.unique),
    (LATE, |loss| loss.ledger.late),
    ("lost", |loss| loss.ledger.lost()),
    ("gap", |loss| loss.ledger.lost_gap),
    ("tail", |loss| loss.ledger.lost_tail),
    ("all", |loss| loss.ledger.lost_all),
    ("duplicates", |loss| loss.ledger.duplicates),
    ("reordered", |loss| loss.ledger.reordered),
];

/// Section `loss`.
pub(super) const SECTION: Section = Section {
    name: "loss",
    title: "Losses and their places",
    summary: "the loss ledger of datagram workloads, the places of losses, and drops of network \
        controllers",
    order: 90,
    blocks,
};

fn blocks(subject: &Subject<'_>) -> Vec<Block> {
    let ledgers = subject.grids.iter().flat_map(of_sweep);
    ledgers.chain(controllers::table(subject).map(Block::Table)).collect()
}

/// Account of a job at a point, in one direction.
struct Account<'a> {
    point: &'a PointStudy,
    job: &'a JobStudy,
    loss: &'a LossStudy,
}

fn of_sweep(grid: &Grid<'_>) -> Vec<Block> {
    let accounts: Vec<Account<'_>> = grid.points.iter().flat_map(|point| accounts(point)).collect();
    if accounts.is_empty() {
        return Vec::new();
    }
    let places = places(&accounts);
    let mut blocks = Vec::new();
    blocks.extend(chart(grid, &accounts, &places).map(Block::Chart));
    blocks.push(Block::Table(ledger(grid, &accounts, &places)));
    blocks
}

fn accounts(point: &PointStudy) -> impl Iterator<Item = Account<'_>> {
    let jobs = point.jobs.iter().filter(|job| !job.background);
    jobs.flat_map(move |job| job.loss.iter().map(move |loss| Account { point, job, loss }))
}

/// Returns the places of losses in the order of the path; unexplained losses come last.
fn places(accounts: &[Account<'_>]) -> Vec<FoundAt> {
    let mut places: Vec<FoundAt> = Vec::new();
    for (place, _) in accounts.iter().flat_map(|account| &account.loss.located) {
        if !places.iter().any(|known| known.as_ref() == Some(place)) {
            places.push(Some(place.clone()));
        }
    }
    if accounts.iter().any(|account| account.loss.unexplained > 0) {
        places.push(None);
    }
    places
}

fn name(place: &FoundAt) -> String {
    place.as_ref().map_or_else(|| "unexplained".to_owned(), LossPlace::to_string)
}

/// Returns the lost datagrams of `account` at `place`.
fn lost_at(account: &Account<'_>, place: &FoundAt) -> u64 {
    let Some(place) = place else { return account.loss.unexplained };
    account.loss.located.iter().filter(|(known, _)| known == place).map(|(_, n)| n).sum()
}

fn names(places: &[LossPlace]) -> String {
    places.iter().map(LossPlace::to_string).collect::<Vec<_>>().join(", ")
}

/// Returns the name of an account within its sweep: point, pair of endpoints, direction.
fn name_of(grid: &Grid<'_>, accounts: &[Account<'_>], account: &Account<'_>) -> String {
    let mut name = grid.place_of(account.point);
    if accounts
        .iter()
        .any(|other| (&other.job.from, &other.job.to) != (&account.job.from, &account.job.to))
    {
        name += &format!(", {} to {}", account.job.from, account.job.to);
    }
    if accounts.iter().any(|other| other.loss.direction != account.loss.direction) {
        name += &format!(", {}", account.loss.direction);
    }
    name
}

/// Returns the chart of losses by place, as shares of the sent datagrams; `None` without a loss.
fn chart(grid: &Grid<'_>, accounts: &[Account<'_>], places: &[FoundAt]) -> Option<Chart> {
    if places.is_empty() {
        return None;
    }
    let caption = format!("Datagrams lost, by place: {}", grid.sweep);
    let mut sheet = Sheet::new(accounts);
    sheet.text("point", |account| name_of(grid, accounts, account));
    for place in places {
        sheet.drawn(Role::Bar, Column::number(name(place), Scale::PERCENT), |account| {
            let sent = account.loss.ledger.sent.max(1) as f64;
            Cell::Number(lost_at(account, place) as f64 / sent)
        });
    }
    let marks = sheet.marks();
    let mut table = sheet.plain(format!("loss-{}-places", grid.number), caption);
    table.note = Some("Share of the sent datagrams, summed over the trials of a point.".into());
    table.folded = true;
    Some(Chart {
        summary: format!(
            "Share of the datagrams sent that were lost, stacked by place: {}.",
            places.iter().map(name).collect::<Vec<_>>().join(", ")
        ),
        ..Chart::of(Plot::StackedBars, "lost, of the datagrams sent", marks, table)
    })
}

fn ledger(grid: &Grid<'_>, accounts: &[Account<'_>], places: &[FoundAt]) -> Table {
    let several = accounts
        .iter()
        .any(|a| (&a.job.from, &a.job.to) != (&accounts[0].job.from, &accounts[0].job.to));
    let has = |count: fn(&LossStudy) -> u64| accounts.iter().any(|account| count(account.loss) > 0);
    let says =
        |is_silent: fn(&LossStudy) -> bool| accounts.iter().any(|account| !is_silent(account.loss));
    let (unobserved, imbalance) =
        (says(|loss| loss.unobserved.is_empty()), says(|loss| loss.imbalance.is_empty()));
    let mut sheet = grid.sheet(accounts, |account| account.point);
    if several {
        sheet.text("between", |account| format!("{} to {}", account.job.from, account.job.to));
    }
    sheet.text("direction", |account| account.loss.direction.to_string());
    // Columns of zeros are left out, except for sent, received and lost.
    for (name, of) in &COUNTS[..N_ACCOUNT] {
        if *name != LATE || has(*of) {
            sheet.number(name, Scale::COUNT, |account| of(account.loss) as f64);
        }
    }
    sheet.number("loss", Scale::PERCENT, |account| {
        let ledger = &account.loss.ledger;
        ledger.lost() as f64 / ledger.sent.max(1) as f64
    });
    for place in places {
        let head = place.as_ref().map_or_else(|| name(place), |at| format!("at {at}"));
        sheet.number(&head, Scale::COUNT, |account| lost_at(account, place) as f64);
    }
    for (name, of) in COUNTS[N_ACCOUNT..].iter().filter(|(_, of)| has(*of)) {
        sheet.number(name, Scale::COUNT, |account| of(account.loss) as f64);
    }
    if unobserved {
        sheet.text("not observed", |account| names(&account.loss.unobserved));
    }
    if imbalance {
        sheet.text("does not balance", |account| {
            let found = account.loss.imbalance.iter().map(sentences::imbalance);
            found.collect::<Vec<_>>().join("; ")
        });
    }
    let caption = format!("Loss ledger: {}", grid.sweep);
    let mut table =
        sheet.toned(format!("loss-{}", grid.number), caption, |account| {
            match account.loss.ledger.lost() {
                _ if !account.loss.balances() => Tone::Refused,
                0 => Tone::Plain,
                _ => Tone::Marked,
            }
        });
    table.note = Some(
        "Datagrams of whole trials with warm-up and drain: sent = unique + late + lost. Gap: \
            missing below the highest received number. Tail: missing above it. All: flows without \
            any received datagram. Counters of queues, devices and sockets locate losses. A \
            sender's queue counts a dropped GSO message once, so its losses are those that it did \
            not pass. Unexplained: losses that no counter explains. Columns that are zero \
            throughout are left out."
            .into(),
    );
    table
}
