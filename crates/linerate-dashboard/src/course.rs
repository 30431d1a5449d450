//! Page of one figure over all campaigns of a plan in the folder.

use linerate_analysis::FigurePlace;
use linerate_report::{Course, CourseReading, course_figure, course_place};
use minijinja::{Value, context};
use serde::Deserialize;

use crate::address;
use crate::archive::{Listed, Listing};
use crate::pages::{self, PageError};

/// Query of the page.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Asked {
    /// Name of the plan.
    pub(crate) plan: String,
    /// Name of the figure's place; without it, the first place of the newest campaign.
    pub(crate) place: Option<String>,
    /// Name of the figure; without it, the rate that represents the job.
    pub(crate) figure: Option<String>,
}

/// Returns the address of the page about the plan called `name`.
pub(crate) fn address_of(name: &str) -> String {
    format!("/course?plan={}", address::escaped(name))
}

/// Names of places and of the figures at the chosen one, and the chosen pair.
#[derive(Debug, PartialEq)]
struct Choice {
    places: Vec<String>,
    figures: Vec<String>,
    chosen: FigurePlace,
}

/// Returns the choice among the figures of `campaigns`, the newest first; `None` without any.
fn choose(campaigns: &[&Listed], asked: &Asked) -> Option<Choice> {
    let all = || campaigns.iter().flat_map(|one| one.figures.iter().map(|figure| &figure.place));
    let mut places: Vec<String> = Vec::new();
    for name in all().map(course_place) {
        if !places.contains(&name) {
            places.push(name);
        }
    }
    // A figure that was asked for and is not at this place gives way to the first that is.
    let place = asked.place.as_ref().filter(|name| places.contains(name)).or(places.first())?;
    let here: Vec<&FigurePlace> = all().filter(|one| course_place(one) == *place).collect();
    let mut figures: Vec<String> = Vec::new();
    for name in here.iter().map(|one| course_figure(one)) {
        if !figures.contains(&name) {
            figures.push(name);
        }
    }
    let wanted = |one: &&&FigurePlace| asked.figure.as_deref() == Some(&*course_figure(one));
    let chief = |one: &&&FigurePlace| one.metric.chief.unwrap_or(u8::MAX);
    let chosen = here.iter().find(wanted).or_else(|| here.iter().min_by_key(chief))?;
    let chosen = (*chosen).clone();
    Some(Choice { places, figures, chosen })
}

/// Returns the page.
pub(crate) fn page(listing: &Listing, asked: &Asked) -> Result<String, PageError> {
    let of_plan = listing.campaigns.iter().map(|one| &**one);
    let mut campaigns: Vec<&Listed> =
        of_plan.filter(|one| one.header.name == asked.plan && !one.figures.is_empty()).collect();
    let Choice { places, figures, chosen } =
        choose(&campaigns, asked).ok_or(PageError::NoCourse)?;
    // A chart reads from left to right.
    campaigns.reverse();
    let readings: Vec<(&Listed, CourseReading<'_>)> = campaigns
        .into_iter()
        .filter_map(|one| {
            let figure = one.figures.iter().find(|figure| figure.place == chosen)?;
            let (estimate, validity) = (figure.estimate, figure.validity);
            Some((one, CourseReading { header: &one.header, estimate, validity }))
        })
        .collect();
    let of: Vec<CourseReading<'_>> = readings.iter().map(|(_, reading)| *reading).collect();
    let Course { chart, changes, notes } = linerate_report::course(&chosen, &of);
    let table = &chart.table;
    let rows = table.shown().into_iter().zip(&readings).map(|(cells, (listed, reading))| {
        context! {
            cells => cells,
            key => address::query(&pages::key(listed)),
            ledger => listed.ledger.clone(),
            validity => reading.validity.word(),
        }
    });
    // Data of a script element ends at its first end tag.
    let spec = linerate_report::chart_spec(&chart).to_string().replace('<', "\\u003c");
    let page = pages::environment()?.get_template("course.html")?.render(context! {
        title => asked.plan.clone(),
        plan => asked.plan.clone(),
        places => places, figures => figures,
        place => course_place(&chosen), figure => course_figure(&chosen),
        summary => chart.summary.clone(), mark => table.mark, n => table.rows.len(),
        heads => heads(&chart),
        rows => rows.collect::<Vec<Value>>(),
        spec => Value::from_safe_string(spec),
        changes => changes, notes => notes,
        version => env!("CARGO_PKG_VERSION"),
    })?;
    Ok(page)
}

/// Returns the heads of the columns with their units.
fn heads(chart: &linerate_report::document::Chart) -> Vec<[String; 2]> {
    let columns = chart.table.columns.iter();
    columns.map(|column| [column.head.clone(), column.scale.symbol.to_owned()]).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use linerate_analysis::PlacedFigure;
    use linerate_model::{
        CampaignHeader, Direction, Estimate, Metric, Nanos, Point, Validity, metric,
    };

    use crate::archive::State;

    use super::*;

    fn figure(sweep: &str, metric: &'static Metric, value: f64) -> PlacedFigure {
        let place = FigurePlace {
            sweep: sweep.to_owned(),
            parameters: Point::new(),
            job: 0,
            workload: "tcp_stream".to_owned(),
            ends: ["a", "b"].map(str::to_owned),
            metric,
            direction: Direction::Tx,
        };
        let estimate = Estimate { value, low: None, high: None, confidence: None, n: 1 };
        PlacedFigure { place, estimate, validity: Validity::Valid }
    }

    fn listed(name: &str, hour: u64, figures: Vec<PlacedFigure>) -> Arc<Listed> {
        let header = CampaignHeader {
            id: format!("id{hour}"),
            name: name.to_owned(),
            started: Nanos(hour * 3_600_000_000_000),
            ..CampaignHeader::default()
        };
        let (state, lead, trials) = (State::Ended, None, [1, 1]);
        let (hosts, damage, ledger) = (Vec::new(), Vec::new(), format!("{hour}.ledger"));
        Arc::new(Listed { ledger, header, hosts, state, trials, lead, figures, damage })
    }

    fn asked(place: Option<&str>, figure: Option<&str>) -> Asked {
        let [place, figure] = [place, figure].map(|text| text.map(str::to_owned));
        Asked { plan: "p".to_owned(), place, figure }
    }

    #[test]
    fn the_page_has_the_campaigns_of_one_plan_in_the_order_of_time() {
        let of =
            |hour: u64, bits: f64| listed("p", hour, vec![figure("s<b>", metric::GOODPUT, bits)]);
        let other = listed("q", 9, vec![figure("s", metric::GOODPUT, 9e6)]);
        let empty = listed("p", 8, Vec::new());
        // The newest first, as in the list.
        let campaigns = vec![other, empty, of(4, 4e6), of(3, 4e6), of(2, 1e6), of(1, 1e6)];
        let listing = Listing { campaigns, ..Listing::default() };
        let page = page(&listing, &asked(None, None)).expect("four campaigns");
        let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("no {text:?} in {page}"));
        assert!(at("campaign=1.ledger%23id1") < at("campaign=4.ledger%23id4"));
        assert!(!page.contains("9.ledger") && !page.contains("8.ledger"), "{page}");
        assert!(page.contains("1 Mbit&#x2f;s to 4 Mbit&#x2f;s (+300.0 %)"), "{page}");
        assert!(page.contains("s&lt;b&gt;: tcp_stream") && !page.contains("<b>"), "{page}");
        let none = super::page(&listing, &Asked { plan: "r".to_owned(), ..asked(None, None) });
        assert!(matches!(none, Err(PageError::NoCourse)));
    }

    #[test]
    fn the_rate_is_shown_first_and_a_choice_that_is_not_there_gives_way() {
        let figures = vec![
            figure("s", metric::RETRANSMITS, 1.0),
            figure("s", metric::GOODPUT, 1e6),
            figure("t", metric::RETRANSMITS, 1.0),
        ];
        let one = listed("p", 1, figures);
        let chosen = |place: Option<&str>, figure: Option<&str>| {
            let choice = choose(&[&one], &asked(place, figure)).expect("it has figures");
            (choice.chosen.sweep, choice.chosen.metric.name, choice.figures.len())
        };
        let (goodput, retransmits) = (metric::GOODPUT.name, metric::RETRANSMITS.name);
        assert_eq!(chosen(None, None), ("s".to_owned(), goodput, 2));
        let again = course_figure(&figure("s", metric::RETRANSMITS, 1.0).place);
        assert_eq!(chosen(None, Some(&again)), ("s".to_owned(), retransmits, 2));
        let t = Some("t: tcp_stream a to b");
        assert_eq!(chosen(t, Some("Goodput tx")), ("t".to_owned(), retransmits, 1));
        assert_eq!(chosen(Some("nowhere"), None), ("s".to_owned(), goodput, 2));
    }
}
