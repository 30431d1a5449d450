//! Pages of the dashboard as HTML. Every text of a ledger is escaped by the templates.

use linerate_analysis::compare::{self, Side};
use linerate_model::TestbedKind;
use linerate_report::document::Document;
use linerate_report::{Named, Site, compare_campaigns, nothing_compared};
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, Value, context};
use serde::Serialize;

use crate::address::{self, Key};
use crate::archive::{Archive, Listed, Listing, State};
use crate::course;

const LAYOUT: &str = include_str!("../templates/layout.html");
const LIST: &str = include_str!("../templates/list.html");
const COURSE: &str = include_str!("../templates/course.html");
const LIVE: &str = include_str!("../templates/live.html");
const MESSAGE: &str = include_str!("../templates/message.html");

/// Addresses of the shared files.
pub(crate) const REPORT_STYLE: &str = "/assets/report.css";
pub(crate) const OWN_STYLE: &str = "/assets/dashboard.css";
pub(crate) const CHARTS: &str = "/assets/charts.js";
pub(crate) const SCRIPT: &str = "/assets/dashboard.js";

/// Error of a page: what failed, and the status of HTTP.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PageError {
    /// The campaign is not in the list.
    #[error("there is no such campaign in this folder")]
    NoCampaign,
    /// No campaign of the plan has a figure.
    #[error("no campaign of this plan in this folder has a figure")]
    NoCourse,
    /// Both campaigns are the same.
    #[error("a campaign cannot be compared with itself")]
    Same,
    /// The campaigns have nothing in common.
    #[error("nothing to compare: {0}")]
    Nothing(String),
    /// The ledger cannot be read.
    #[error(transparent)]
    Ledger(#[from] linerate_store::StoreError),
    /// The page cannot be built.
    #[error(transparent)]
    Report(#[from] linerate_report::ReportError),
    /// The page cannot be built.
    #[error("the page cannot be built: {0:#}")]
    Template(#[from] minijinja::Error),
}

/// Row of the list.
#[derive(Serialize)]
struct RowView {
    name: String,
    ledger: String,
    id: String,
    key: String,
    course: Option<String>,
    started: String,
    hosts: String,
    path: &'static str,
    emulated: bool,
    state: &'static str,
    trials: [u64; 2],
    lead: Option<LeadView>,
    damage: Vec<String>,
    is_baseline: bool,
}

#[derive(Serialize)]
struct LeadView {
    figure: String,
    context: String,
    surety: &'static str,
    label: &'static str,
    status: &'static str,
    claim: Option<String>,
}

fn row(listed: &Listed, baseline: Option<&Listed>) -> RowView {
    let header = &listed.header;
    let has_figures = !listed.figures.is_empty();
    RowView {
        name: header.name.clone(),
        ledger: listed.ledger.clone(),
        id: header.id.clone(),
        key: address::query(&key(listed)),
        course: has_figures.then(|| course::address_of(&header.name)),
        started: linerate_report::date(header.started),
        hosts: listed.hosts.join(", "),
        path: match header.testbed {
            TestbedKind::Lab => "lab",
            TestbedKind::Hosts => "hosts",
            TestbedKind::Loopback => "loopback",
        },
        emulated: header.emulated(),
        state: match listed.state {
            State::Running => "running",
            State::Ended => "ended",
            State::Interrupted => "interrupted",
        },
        trials: listed.trials,
        lead: listed.lead.as_ref().map(|lead| LeadView {
            figure: lead.figure.clone(),
            context: lead.context.clone(),
            surety: lead.surety,
            label: lead.label,
            status: lead.status,
            claim: lead.claim.clone(),
        }),
        damage: listed.damage.clone(),
        is_baseline: baseline.is_some_and(|one| key(one) == key(listed)),
    }
}

pub(crate) fn key(listed: &Listed) -> Key {
    Key { ledger: listed.ledger.clone(), id: listed.header.id.clone() }
}

pub(crate) fn environment() -> Result<Environment<'static>, minijinja::Error> {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment.add_template("layout.html", LAYOUT)?;
    environment.add_template("list.html", LIST)?;
    environment.add_template("live.html", LIVE)?;
    environment.add_template("course.html", COURSE)?;
    environment.add_template("message.html", MESSAGE)?;
    Ok(environment)
}

/// Returns the list of campaigns; `baseline` is the first campaign of a comparison.
pub(crate) fn list(
    archive: &Archive,
    listing: &Listing,
    baseline: Option<&Key>,
) -> Result<String, PageError> {
    let baseline = baseline.and_then(|key| listing.find(&key.ledger, &key.id));
    let rows: Vec<RowView> =
        listing.campaigns.iter().map(|one| row(one, baseline.map(|one| &**one))).collect();
    let page = environment()?.get_template("list.html")?.render(context! {
        title => "Campaigns",
        folder => archive.folder().display().to_string(),
        rows => Value::from(Serde(&rows)),
        unreadable => Value::from(Serde(&listing.unreadable)),
        n_waiting => listing.n_waiting,
        is_searched => listing.is_searched,
        failed => listing.failed.clone(),
        limits => Value::from(Serde(&listing.limits)),
        baseline => baseline.map(|one| Value::from(Serde(&row(one, None)))),
        version => env!("CARGO_PKG_VERSION"),
    })?;
    Ok(page)
}

/// Returns the page of a campaign that runs.
pub(crate) fn live(listing: &Listing, wanted: &Key) -> Result<String, PageError> {
    let listed = found(listing, wanted)?;
    let page = environment()?.get_template("live.html")?.render(context! {
        title => listed.header.name.clone(),
        row => Value::from(Serde(&row(listed, None))),
        version => env!("CARGO_PKG_VERSION"),
    })?;
    Ok(page)
}

/// Returns a page with one message; `unlock` adds a field for the token.
pub(crate) fn message(title: &str, text: &str, unlock: bool) -> Result<String, PageError> {
    let page = environment()?.get_template("message.html")?.render(context! {
        title => title, text => text, unlock => unlock, version => env!("CARGO_PKG_VERSION"),
    })?;
    Ok(page)
}

fn site(document: &Document, links: &[(String, String)]) -> Result<Vec<u8>, PageError> {
    let start = ("All campaigns".to_owned(), "/".to_owned());
    let links: Vec<_> = std::iter::once(start).chain(links.iter().cloned()).collect();
    let site = Site { styles: &[REPORT_STYLE, OWN_STYLE], script: CHARTS, links: &links };
    Ok(linerate_report::page(document, &site)?)
}

pub(crate) fn found<'a>(listing: &'a Listing, wanted: &Key) -> Result<&'a Listed, PageError> {
    listing.find(&wanted.ledger, &wanted.id).map(|one| &**one).ok_or(PageError::NoCampaign)
}

/// Returns the report of a campaign. Blocks.
pub(crate) fn report(
    archive: &Archive,
    listing: &Listing,
    wanted: &Key,
) -> Result<Vec<u8>, PageError> {
    let listed = found(listing, wanted)?;
    let (campaign, study) = archive.load(listed)?;
    let links = [
        ("Compare with ...".to_owned(), format!("/?baseline={}", address::query(wanted))),
        ("Over time".to_owned(), course::address_of(&listed.header.name)),
    ];
    site(&linerate_report::compose(&campaign, &study), &links)
}

/// Returns the comparison of two campaigns. Blocks.
pub(crate) fn comparison(
    archive: &Archive,
    listing: &Listing,
    [before, after]: [&Key; 2],
) -> Result<Vec<u8>, PageError> {
    if before == after {
        return Err(PageError::Same);
    }
    let sides = [found(listing, before)?, found(listing, after)?];
    let [first, second] = [archive.load(sides[0])?, archive.load(sides[1])?];
    let result = compare::campaigns(
        Side { campaign: &first.0, study: &first.1 },
        Side { campaign: &second.0, study: &second.1 },
        None,
        linerate_model::plan::DEFAULT_MARGIN.0,
    );
    if result.points.is_empty() {
        return Err(PageError::Nothing(nothing_compared(&result)));
    }
    // A ledger with both of them names neither.
    let is_one = before.ledger == after.ledger;
    let names = [before, after].map(|key| if is_one { key.text() } else { key.ledger.clone() });
    let document = compare_campaigns(
        &result,
        Named { name: &names[0], header: &first.0.header },
        Named { name: &names[1], header: &second.0.header },
        None,
        env!("CARGO_PKG_VERSION"),
    );
    let turned =
        format!("/compare?before={}&after={}", address::query(after), address::query(before));
    let reports = [("Baseline", before), ("Changed", after)].map(|(label, key)| {
        (label.to_owned(), format!("/report?campaign={}", address::query(key)))
    });
    let [baseline, changed] = reports;
    site(&document, &[baseline, changed, ("Swap".to_owned(), turned)])
}
