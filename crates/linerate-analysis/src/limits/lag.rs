//! Link aggregation: how many member links a hash fills, and how uneven it leaves them.
//!
//! Units: links, flows, ratios; bit/s where a member's rate is given (counted as that rate is).
//! Standard: IEEE 802.1AX clause 6.2.4 (a conversation never leaves its link). The arithmetic is
//! that of balls thrown into boxes.
//!
//! Not covered: a real hash. The model spreads flows independently and evenly; ports chosen in
//! sequence, hashes of addresses only and links that fail give worse results. A single flow uses
//! one member, however many there are.

use linerate_model::derivation::{Expression, Law, Line, Measure, Quantity, Remark, Statement};
use linerate_model::{
    BitRate, Ceiling, Direction, Layer, ModelName, ParamError, Params, SpreadFigure, metric,
};

use super::options::{checked, options, positive, read, refusal};
use super::{Limit, optional, required};

/// Distribution of `flows` flows over `links` equal links under an ideal hash.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Occupancy {
    /// Expected number of links with at least one flow.
    pub links_used: f64,
    /// Expected number of flows on the fullest link.
    pub busiest: f64,
    /// Flows per link, over `busiest`: what fixed-rate flows get of the group's rate.
    pub balance: f64,
    /// Probability that no link is idle.
    pub all_used: f64,
}

/// Returns the occupancy of `links` links by `flows` flows. Exact up to the rounding of `f64`: only
/// probabilities are added and multiplied, never subtracted. O(flows^2 * links * busiest).
///
/// # Panics If either is zero.
///
/// # Examples
/// ```
/// use linerate_analysis::limits::lag::occupancy;
///
/// // Two flows on two links: half of the time both hash to the same link.
/// let two = occupancy(2, 2);
/// assert_eq!((two.all_used, two.links_used, two.busiest), (0.5, 1.5, 1.5));
/// // So two equal flows get 2 / (2 * 1.5) of the group's rate on average.
/// assert!((two.balance - 2.0 / 3.0).abs() < 1e-12);
/// ```
#[must_use]
pub fn occupancy(links: u32, flows: u32) -> Occupancy {
    assert!(links > 0 && flows > 0, "a group has at least one link and one flow");
    let used = used_distribution(links, flows);
    let busiest = expected_busiest(links, flows);
    Occupancy {
        links_used: used
            .iter()
            .enumerate()
            .map(|(n_links, probability)| n_links as f64 * probability)
            .sum(),
        busiest,
        balance: f64::from(flows) / (f64::from(links) * busiest),
        all_used: used[links as usize],
    }
}

/// Returns the probability that the fullest link has exactly `m` flows, at index `m`; beyond the
/// last, less than one in a million.
#[must_use]
pub(crate) fn busiest_distribution(links: u32, flows: u32) -> Vec<f64> {
    const NEGLIGIBLE: f64 = 1e-6;
    let mut exactly = Vec::new();
    // The distribution function is cheaper than its density; differences of neighbours give the
    // density.
    let mut below = 0.0;
    for most in 0..=flows {
        let at_most = probability_at_most(links, flows, most);
        exactly.push(at_most - below);
        below = at_most;
        if 1.0 - at_most < NEGLIGIBLE {
            break;
        }
    }
    exactly
}

/// Returns the outcomes of `of` with the probability of each, those below one in a thousand left
/// out.
fn distribution(of: Quantity, probabilities: &[f64]) -> Line {
    const SHOWN: f64 = 1e-3;
    let all = probabilities.iter().copied().enumerate();
    Line::Distribution { of, outcomes: all.filter(|(_, chance)| *chance >= SHOWN).collect() }
}

/// Returns the probability that all `flows` miss one of `links`.
fn missed(links: u32, flows: u32) -> Expression {
    (Expression::from(1.0) - Expression::from(1.0) / links).power(flows)
}

/// Returns the line of a derivation with the expected number of links with a flow.
fn links_used(links: u32, flows: u32, occupancy: &Occupancy) -> Line {
    let used = Expression::from(links) * (Expression::from(1.0) - missed(links, flows));
    Line::of(Quantity::LinksUsed, used, occupancy.links_used)
}

/// Returns the probability that exactly `i` links are used, at index `i`. Each flow hashes to a
/// used link or an idle one.
fn used_distribution(links: u32, flows: u32) -> Vec<f64> {
    let total = f64::from(links);
    let mut used = vec![0.0; links as usize + 1];
    used[0] = 1.0;
    for _ in 0..flows {
        // Downwards, so that each step still reads the values of the round before from the same
        // vector.
        for n_used in (0..used.len()).rev() {
            let stays = used[n_used] * n_used as f64 / total;
            let arrives = if n_used == 0 {
                0.0
            } else {
                used[n_used - 1] * (total - (n_used as f64 - 1.0)) / total
            };
            used[n_used] = stays + arrives;
        }
    }
    used
}

/// E[max] = sum over m of 1 - P(max <= m).
fn expected_busiest(links: u32, flows: u32) -> f64 {
    /// Below this the rest of the tail is smaller than the rounding of the probabilities
    /// themselves.
    const NEGLIGIBLE: f64 = 1e-12;
    let mut expected = 0.0;
    for most in 0..flows {
        let exceeded = 1.0 - probability_at_most(links, flows, most);
        expected += exceeded;
        if exceeded < NEGLIGIBLE {
            break;
        }
    }
    expected
}

/// P(no link has more than `most` flows): link after link takes its binomial share of the flows
/// that are left.
fn probability_at_most(links: u32, flows: u32, most: u32) -> f64 {
    let flows = flows as usize;
    // `fits[r]`: the probability that `r` flows fit on the links seen so far, the last of which
    // comes first.
    let mut fits: Vec<f64> =
        (0..=flows).map(|rest| if rest <= most as usize { 1.0 } else { 0.0 }).collect();
    for n_links in 2..=links {
        let share = 1.0 / f64::from(n_links);
        fits = (0..=flows)
            .map(|rest| {
                // Binomial probabilities of 0, 1, ... of `rest` flows on this link, each from the
                // one before.
                // A recurrence replaces factorials, which overflow for 512 flows.
                let mut term = (1.0 - share).powi(rest as i32);
                let mut sum = 0.0;
                for here in 0..=rest.min(most as usize) {
                    sum += term * fits[rest - here];
                    term *= (rest - here) as f64 / (here as f64 + 1.0) * share / (1.0 - share);
                }
                sum
            })
            .collect();
    }
    fits[flows]
}

/// Links of a group that any switch supports, and flows beyond which the hash no longer matters.
const MOST_LINKS: u32 = 64;
const MOST_FLOWS: u32 = 512;

const SOURCE: &str = "IEEE 802.1AX clause 6.2.4; occupancy of n balls in k boxes";

options! {
    links: u32 = required("member links");
    flows: u32 = required("flows that are hashed");
    member: Option<BitRate> = optional("rate of one member, such as \"10 Gbit/s\"");
}

/// The calculator `lag`.
pub(super) const LIMIT: Limit = Limit {
    name: "lag",
    summary: "links an ideal hash fills and how evenly, for a link aggregation group (IEEE \
        802.1AX)",
    options: OPTIONS,
    ceilings,
};

fn ceilings(params: &Params) -> Result<Vec<Ceiling>, Vec<ParamError>> {
    let Parameters { links, flows, member } = read(params, OPTIONS)?;
    let mut errors = Vec::new();
    if links == 0 || links > MOST_LINKS {
        errors.push(refusal("links", format!("{links} links: expected 1 to {MOST_LINKS}")));
    }
    if flows == 0 || flows > MOST_FLOWS {
        errors.push(refusal("flows", format!("{flows} flows: expected 1 to {MOST_FLOWS}")));
    }
    errors.extend(positive("member", member));
    checked(errors)?;
    let occupancy = occupancy(links, flows);
    let mut ceilings = occupancy_ceilings(links, flows, &occupancy);
    if let Some(member) = member {
        ceilings.extend(rate_ceilings(links, flows, member, &occupancy));
    }
    Ok(ceilings)
}

fn occupancy_ceilings(links: u32, flows: u32, occupancy: &Occupancy) -> Vec<Ceiling> {
    let chance = (1.0 - 1.0 / f64::from(links)).powf(f64::from(flows));
    let used = vec![
        Line::of(Quantity::LinkMissed, missed(links, flows), chance),
        links_used(links, flows, occupancy),
        distribution(Quantity::UsedLinks, &used_distribution(links, flows)),
    ];
    let busiest = vec![
        Line::Law(Law::AtMost { links, flows }),
        Line::of(Quantity::BusiestLinkMean, Expression::Law(Law::MeanOfFullest), occupancy.busiest),
        distribution(Quantity::BusiestLink, &busiest_distribution(links, flows)),
    ];
    let group = Expression::from(links) * occupancy.busiest;
    let share =
        Line::of(Quantity::FixedRateFlows, Expression::from(flows) / group, occupancy.balance)
            .remark(Remark::OfGroup);
    let balance = [&busiest[..], &[share]].concat();
    let all = vec![Line::of(
        Quantity::EveryLinkUsed,
        Expression::Law(Law::EveryLinkUsed { links, flows }),
        occupancy.all_used,
    )];
    let name = |figure| ModelName::Spread { figure, links, flows, member: None };
    let ceiling = |figure, metric, value, lines| {
        Ceiling::new(name(figure), metric, value, Direction::Tx, lines, SOURCE)
    };
    vec![
        ceiling(SpreadFigure::LinksUsed, metric::LINKS_USED, occupancy.links_used, used),
        ceiling(SpreadFigure::Busiest, metric::BUSIEST_LINK_FLOWS, occupancy.busiest, busiest),
        ceiling(SpreadFigure::Balance, metric::LINK_BALANCE, occupancy.balance, balance),
        ceiling(SpreadFigure::AllUsed, metric::ALL_LINKS_USED, occupancy.all_used, all),
    ]
}

/// Returns the group's rate: never more than the links the flows can lie on, and on average less.
fn rate_ceilings(links: u32, flows: u32, member: BitRate, occupancy: &Occupancy) -> [Ceiling; 2] {
    // A flow never leaves its link, so fewer flows than links leave links idle.
    let most = links.min(flows);
    let bound = f64::from(most) * member.0;
    // Flows that fill their link: each used link carries its full rate, whatever the number of
    // flows on it.
    let expected = occupancy.links_used * member.0;
    let smaller = Measure::Links.of(links.into()).smaller(Measure::Flows.of(flows.into()));
    let hard = vec![
        Statement::FlowKeepsItsLink.into(),
        Line::equation(smaller * member, BitRate(bound)).remark(Remark::EachWay),
    ];
    let average = vec![
        links_used(links, flows, occupancy),
        Line::of(
            Quantity::FilledLinks,
            Expression::from(occupancy.links_used) * member,
            BitRate(expected),
        )
        .remark(Remark::OnAverage),
    ];
    let name = |figure| ModelName::Spread { figure, links, flows, member: Some(member) };
    let ceiling = |figure, value, lines| {
        Ceiling::new(name(figure), metric::THROUGHPUT_L2, value, Direction::Tx, lines, SOURCE)
    };
    [
        ceiling(SpreadFigure::BestHash, bound, hard),
        ceiling(SpreadFigure::IdealHash, expected, average),
    ]
    .map(|ceiling| ceiling.at_layer(Layer::L1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::options::given;

    #[test]
    #[expect(clippy::approx_constant, reason = "a balance of 0.7853 is no quarter of pi")]
    fn occupancy_is_that_of_the_table_computed_with_exact_fractions() {
        // docs/methodology/ceilings.md#groups-of-links.
        let golden = [
            (2, 2, 1.5000, 1.5000, 0.6667, 0.5000),
            (2, 4, 1.8750, 2.7500, 0.7273, 0.8750),
            (2, 8, 1.9922, 5.0938, 0.7853, 0.9922),
            (4, 4, 2.7344, 2.1250, 0.4706, 0.0938),
            (4, 8, 3.5995, 3.5381, 0.5653, 0.6229),
            (4, 16, 3.9599, 6.1390, 0.6516, 0.9600),
            (8, 8, 5.2511, 2.5972, 0.3850, 0.0024),
            (8, 16, 7.0555, 4.2014, 0.4760, 0.3068),
            (8, 32, 7.8885, 7.0478, 0.5676, 0.8913),
        ];
        for (links, flows, used, busiest, balance, all) in golden {
            let found = occupancy(links, flows);
            let values = [
                (found.links_used, used),
                (found.busiest, busiest),
                (found.balance, balance),
                (found.all_used, all),
            ];
            for (value, expected) in values {
                assert!(
                    (value - expected).abs() <= 5.1e-5,
                    "{links} {flows}: {value} is not {expected}"
                );
            }
        }
    }

    #[test]
    fn four_flows_on_two_links_lie_as_counted_by_hand() {
        // Of 16 outcomes: 2+2 in 6, 3+1 in 8, 4+0 in 2.
        let counted = [0.0, 0.0, 6.0 / 16.0, 8.0 / 16.0, 2.0 / 16.0];
        for (found, expected) in busiest_distribution(2, 4).iter().zip(counted) {
            assert!((found - expected).abs() < 1e-12, "{found}");
        }
        let params = given([("links", "2"), ("flows", "4")]);
        let ceilings = super::ceilings(&params).expect("good options");
        let said = |of, outcomes: &[(usize, f64)]| {
            let rounded = |line: &Line| match line {
                Line::Distribution { of: known, outcomes: found } if *known == of => {
                    let round = |(n, chance): &(usize, f64)| (*n, (chance * 1e4).round() / 1e4);
                    found.iter().map(round).eq(outcomes.iter().copied())
                }
                _ => false,
            };
            ceilings.iter().any(|ceiling| ceiling.derivation.iter().any(rounded))
        };
        assert!(said(Quantity::UsedLinks, &[(1, 0.125), (2, 0.875)]));
        assert!(said(Quantity::BusiestLink, &[(2, 0.375), (3, 0.5), (4, 0.125)]));
    }

    #[test]
    fn one_link_takes_everything_and_one_flow_takes_one_link() {
        let single = Occupancy { links_used: 1.0, busiest: 7.0, balance: 1.0, all_used: 1.0 };
        assert_eq!(occupancy(1, 7), single);
        let flow = occupancy(4, 1);
        assert_eq!((flow.links_used, flow.busiest, flow.all_used), (1.0, 1.0, 0.0));
    }

    #[test]
    fn the_largest_group_is_computed_and_adds_up() {
        let found = occupancy(MOST_LINKS, MOST_FLOWS);
        let closed = 64.0 * (1.0 - (63.0_f64 / 64.0).powi(512));
        assert!((found.links_used - closed).abs() < 1e-9);
        assert!(found.busiest > 8.0 && found.busiest < 30.0, "{found:?}");
    }

    #[test]
    fn a_members_rate_bounds_the_group() {
        let mut params = given([("links", "4"), ("flows", "8"), ("member", "10 Gbit/s")]);
        let ceilings = super::ceilings(&params).expect("good options");
        assert_eq!(ceilings.len(), 6);
        assert_eq!(ceilings[4].value, 40e9);
        assert!((ceilings[5].value / 10e9 - 3.5995).abs() < 5e-5);
        params.set("flows", 1);
        let single = super::ceilings(&params).expect("good options");
        assert_eq!(single[4].value, 10e9);
        params.set("flows", 0);
        assert_eq!(super::ceilings(&params).expect_err("no flow")[0].key, "flows");
    }
}
