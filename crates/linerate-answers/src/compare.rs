//! Answer of `linerate compare`: what changed from one recorded campaign to another.

use linerate_analysis::Study;
use linerate_analysis::compare::{Campaigns, Change, Side, campaigns};
use linerate_campaign::{Exit, Failure, Outcome};
use linerate_model::{Campaign, Ratio};
use linerate_report::{Document, Named, compare_campaigns, nothing_compared};

/// A recorded campaign, and the ledger as a person named it.
#[derive(Clone, Copy, Debug)]
pub struct Recorded<'a> {
    /// The ledger.
    pub name: &'a str,
    /// The campaign, judged.
    pub side: Side<'a>,
}

impl<'a> Recorded<'a> {
    /// Returns a campaign of the ledger `name` with its study.
    #[must_use]
    pub fn of(name: &'a str, (campaign, study): &'a (Campaign, Study)) -> Self {
        Self { name, side: Side { campaign, study } }
    }

    fn named(self) -> Named<'a> {
        Named { name: self.name, header: &self.side.campaign.header }
    }
}

/// Changes from one campaign to another.
#[derive(Debug)]
pub struct Compared<'a> {
    sides: [Recorded<'a>; 2],
    changes: Campaigns,
    /// The answer.
    pub document: Document,
}

impl<'a> Compared<'a> {
    /// Compares `sides`, the baseline and another campaign; the difference to `again` is the noise
    /// floor, and a change of less than `margin` does not count.
    ///
    /// # Errors
    /// If both are the same campaign, or the margin is no part of a figure.
    pub fn of(
        sides: [Recorded<'a>; 2],
        again: Option<Recorded<'_>>,
        margin: Ratio,
    ) -> Result<Self, Failure> {
        let [before, after] = sides;
        // A margin of one or more would call every loss noise.
        if !(0.0..1.0).contains(&margin.0) {
            return Err(Failure::wrong(format!(
                "compare: a margin of {margin} is no part of a figure (such as \"2 %\")"
            )));
        }
        let id = &before.side.campaign.header.id;
        // A campaign compared with itself would prove equality without a measurement.
        if *id == after.side.campaign.header.id {
            return Err(Failure::wrong(format!(
                "compare: {} and {} are the same campaign, {id} (name another one with LEDGER#ID)",
                before.name, after.name
            )));
        }
        let changes = campaigns(before.side, after.side, again.map(|again| again.side), margin.0);
        let document = compare_campaigns(
            &changes,
            before.named(),
            after.named(),
            again.map(Recorded::named),
            env!("CARGO_PKG_VERSION"),
        );
        Ok(Self { sides, changes, document })
    }

    /// Returns the exit of the command: a figure that got worse is a missed goal.
    ///
    /// # Errors
    /// If the campaigns have no common point: "no change" would be false.
    pub fn exit(&self) -> Outcome {
        if self.changes.points.is_empty() {
            return Err(Failure::wrong(self.nothing()));
        }
        let n_worse = self.changes.count(Change::Worse);
        Ok(if n_worse > 0 { Exit::Missed } else { Exit::Done })
    }

    /// Returns why there is nothing to compare, and what to do about it.
    fn nothing(&self) -> String {
        let ledgers = self.sides.map(|side| side.name);
        // A ledger without a bound has nothing to compare, and its own report says why.
        let blind = (0..ledgers.len())
            .find(|side| self.changes.without_bound.iter().any(|one| one.side == *side));
        let remedy = match blind {
            None => {
                "measure the same plan twice, or name other campaigns with LEDGER#ID".to_owned()
            }
            Some(side) => format!(
                "`linerate report {}` says what its trials lost and whether the tester was the \
                    limit; search again with a lower `min`, or on a quieter tester",
                ledgers[side]
            ),
        };
        let [before, after] = ledgers;
        format!("compare {before} with {after}: {} ({remedy})", nothing_compared(&self.changes))
    }
}

#[cfg(test)]
mod tests {
    use linerate_model::CampaignHeader;

    use super::*;

    fn campaign(id: &str) -> (Campaign, Study) {
        let header = CampaignHeader { id: id.to_owned(), ..CampaignHeader::default() };
        let campaign = Campaign { header, ..Campaign::default() };
        let study = linerate_analysis::study(&campaign);
        (campaign, study)
    }

    #[test]
    fn a_campaign_is_compared_with_another_one_only_and_a_margin_is_a_part() {
        let (one, other) = (campaign("1"), campaign("2"));
        let refusal = |after, margin| {
            let sides = [Recorded::of("a.ledger", &one), Recorded::of("b.ledger", after)];
            Compared::of(sides, None, Ratio(margin)).map(|_| ()).map_err(|why| why.message())
        };
        let same = refusal(&one, 0.02).expect_err("the same");
        assert!(same.contains("a.ledger and b.ledger are the same campaign, 1"), "{same}");
        assert!(refusal(&other, 1.0).is_err_and(|why| why.contains("no part of a figure")));
        let sides = [Recorded::of("a.ledger", &one), Recorded::of("b.ledger", &other)];
        let compared = Compared::of(sides, None, Ratio(0.02)).expect("two campaigns");
        let nothing = compared.exit().expect_err("no points").message();
        assert!(nothing.contains("measure the same plan twice"), "{nothing}");
    }
}
