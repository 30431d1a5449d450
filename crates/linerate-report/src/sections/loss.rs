//! Where datagrams went: `sent = unique + late + lost (gap + tail + all)`, duplicates and reordering apart.
//!
//! Totals of the flows over whole trials, warm-up and drain included, so that every datagram is in the account. A *gap* is a
//! datagram missing below the highest sequence number seen, the *tail* is missing above it, *all* is a flow of which
//! nothing came. What the receiving socket dropped is known to the kernel; the rest is named unexplained: it may have been
//! lost in a queue, a device or on the way, and counters of those are in the samples, not here.

use linerate_analysis::PointStudy;
use linerate_model::{Campaign, Counter, FlowReport, Side, TrialRecord};

use super::{Section, Subject};
use crate::document::{Block, Cell, Column, Row, Table, Tone};
use crate::grid::Grid;
use crate::number::Scale;

/// See the file.
pub(super) struct Loss;

impl Section for Loss {
    fn name(&self) -> &'static str {
        "loss"
    }

    fn title(&self) -> &'static str {
        "Where datagrams went"
    }

    fn summary(&self) -> &'static str {
        "the loss ledger of datagram workloads: sent, received, late, lost by gap, tail and black hole"
    }

    fn order(&self) -> u32 {
        90
    }

    fn blocks(&self, subject: &Subject<'_>) -> Vec<Block> {
        subject.grids.iter().filter_map(|grid| ledger(subject.campaign, grid)).map(Block::Table).collect()
    }
}

/// The account of one direction between two ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Account {
    sent: u64,
    unique: u64,
    late: u64,
    gap: u64,
    tail: u64,
    all: u64,
    duplicates: u64,
    reordered: u64,
    at_socket: u64,
}

impl Account {
    /// One flow from its two ends. Where a receiver was not heard of, everything sent counts as lost.
    fn of(sender: &FlowReport, receiver: Option<&FlowReport>) -> Self {
        let sent = sender.counters[Counter::DatagramsSent];
        let Some(receiver) = receiver else { return Self { sent, all: sent, ..Self::default() } };
        let got = |counter| receiver.counters[counter];
        let (unique, late) = (got(Counter::DatagramsReceived), got(Counter::Late));
        let lost = sent.saturating_sub(unique + late);
        let arrived = unique + late > 0;
        let tail = if arrived { sent.saturating_sub(receiver.next_sequence).min(lost) } else { 0 };
        Self {
            sent,
            unique,
            late,
            gap: if arrived { lost - tail } else { 0 },
            tail,
            all: if arrived { 0 } else { lost },
            duplicates: got(Counter::Duplicates),
            reordered: got(Counter::Reordered),
            at_socket: got(Counter::SocketDrops),
        }
    }

    fn add(&mut self, other: Self) {
        self.sent += other.sent;
        self.unique += other.unique;
        self.late += other.late;
        self.gap += other.gap;
        self.tail += other.tail;
        self.all += other.all;
        self.duplicates += other.duplicates;
        self.reordered += other.reordered;
        self.at_socket += other.at_socket;
    }

    fn lost(&self) -> u64 {
        self.gap + self.tail + self.all
    }
}

/// The account of what `side` sent in `trial`, background jobs left out.
fn account(trial: &TrialRecord, side: Side) -> Account {
    let mut sum = Account::default();
    for (index, _) in trial.spec.jobs.iter().enumerate().filter(|(_, job)| job.background.is_none()) {
        let other = if side == Side::Active { Side::Passive } else { Side::Active };
        let (Some(sender), Some(receiver)) = (trial.job(index, side), trial.job(index, other)) else { continue };
        for flow in sender.flows.iter().filter(|flow| flow.counters[Counter::DatagramsSent] > 0) {
            sum.add(Account::of(flow, receiver.flows.iter().find(|peer| peer.flow == flow.flow)));
        }
    }
    sum
}

fn ledger(campaign: &Campaign, grid: &Grid<'_>) -> Option<Table> {
    let mut columns = grid.axis_columns();
    columns.push(Column::text("direction"));
    let counts = [
        "sent",
        "unique",
        "late",
        "lost",
        "gap",
        "tail",
        "all",
        "dropped at socket",
        "unexplained",
        "duplicates",
        "reordered",
    ];
    columns.extend(counts.iter().map(|head| Column::number(*head, Scale::COUNT)));
    columns.push(Column::number("loss", Scale::PERCENT));
    let mut table = Table::new(format!("loss-{}", grid.number), format!("Loss ledger: {}", grid.sweep), columns);
    for point in &grid.points {
        for (side, direction) in [(Side::Active, "tx"), (Side::Passive, "rx")] {
            let mut sum = Account::default();
            for trial in of_point(campaign, point) {
                sum.add(account(trial, side));
            }
            if sum.sent > 0 {
                table.rows.push(row(grid, point, direction, &sum));
            }
        }
    }
    table.note = Some(
        "Datagrams over whole trials, warm-up and drain included: sent = unique + late + lost, and lost = gap (below the highest \
         number seen) + tail (above it) + all (nothing of the flow came). Drops at the receiving socket are the kernel's count; \
         what remains of the loss is unexplained by the two ends."
            .into(),
    );
    (!table.rows.is_empty()).then_some(table)
}

fn of_point<'a>(campaign: &'a Campaign, point: &'a PointStudy) -> impl Iterator<Item = &'a TrialRecord> {
    campaign.trials.iter().filter(|trial| point.trials.iter().any(|judged| judged.id == trial.spec.id))
}

fn row(grid: &Grid<'_>, point: &PointStudy, direction: &str, sum: &Account) -> Row {
    let lost = sum.lost();
    let unexplained = lost.saturating_sub(sum.at_socket);
    let counts = [
        sum.sent,
        sum.unique,
        sum.late,
        lost,
        sum.gap,
        sum.tail,
        sum.all,
        sum.at_socket,
        unexplained,
        sum.duplicates,
        sum.reordered,
    ];
    let mut cells = grid.axis_cells(point);
    cells.push(Cell::text(direction));
    cells.extend(counts.iter().map(|count| Cell::Number(*count as f64)));
    cells.push(Cell::Number(lost as f64 / sum.sent as f64));
    Row { cells, tone: if lost > 0 { Tone::Marked } else { Tone::Plain } }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(next_sequence: u64, counts: &[(Counter, u64)]) -> FlowReport {
        let mut flow = FlowReport { next_sequence, ..FlowReport::default() };
        for (counter, value) in counts {
            flow.counters[*counter] = *value;
        }
        flow
    }

    #[test]
    fn an_account_balances_and_tells_gap_from_tail() {
        let sender = flow(100, &[(Counter::DatagramsSent, 100)]);
        let receiver = flow(95, &[(Counter::DatagramsReceived, 90), (Counter::Late, 2), (Counter::Duplicates, 3)]);
        let account = Account::of(&sender, Some(&receiver));
        assert_eq!((account.gap, account.tail, account.all, account.lost()), (3, 5, 0, 8));
        assert_eq!(account.sent, account.unique + account.late + account.lost());
    }

    #[test]
    fn a_black_hole_is_a_loss_of_all() {
        let sender = flow(100, &[(Counter::DatagramsSent, 100)]);
        assert_eq!(Account::of(&sender, None).all, 100);
        assert_eq!(Account::of(&sender, Some(&flow(0, &[]))).all, 100);
    }
}
