//! Addresses of the pages, and the headers of every answer.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Query, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde::Deserialize;
use tokio::sync::Semaphore;

use crate::address::Key;
use crate::archive::{self, Archive, Listing};
use crate::course;
use crate::events;
use crate::gate::{Asked, Decision, Gate};
use crate::live::Hub;
use crate::pages::{self, PageError};

const OWN_STYLE: &str = include_str!("../assets/src/dashboard.css");
const SCRIPT: &str = include_str!("../assets/dist/dashboard.js");
const HTML: &str = "text/html; charset=utf-8";

/// Nothing comes from another host, and no other site may show a page in a frame. Styles of single
/// elements are lengths of bars, and those of the charts.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    style-src-attr 'unsafe-inline'; img-src 'self' data: blob:; connect-src 'self'; \
    base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// Answers without an end at one time, fewer than connections: the others stay for pages.
pub(crate) const MOST_STREAMS: usize = 32;

/// Pages that are built or wait for that at one time. A client that left leaves its page behind, so
/// the limit on connections is none on pages.
pub(crate) const MOST_PAGES: usize = 8;

/// Headers of every answer.
const HEADERS: [(HeaderName, &str); 6] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    // The first address has the token.
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// State that the pages share.
#[derive(Clone, Debug)]
pub(crate) struct App {
    pub(crate) gate: Gate,
    pub(crate) archive: Arc<Archive>,
    pub(crate) hub: Arc<Hub>,
    /// Places of answers without an end.
    pub(crate) streams: Arc<Semaphore>,
    /// Places of pages that take time.
    pub(crate) pages: Arc<Semaphore>,
}

/// Returns the pages behind the gate.
pub(crate) fn router(app: App) -> Router {
    let file = |kind: &'static str, text: &'static str| {
        get(move || std::future::ready(answer(StatusCode::OK, kind, text)))
    };
    Router::new()
        .route("/", get(list))
        .route("/report", get(report))
        .route("/compare", get(compare))
        .route("/live", get(live))
        .route("/course", get(course))
        .route("/events", get(follow))
        .route("/changes", get(changes))
        .route(pages::REPORT_STYLE, file("text/css", linerate_report::STYLE))
        .route(pages::OWN_STYLE, file("text/css", OWN_STYLE))
        .route(pages::CHARTS, file("text/javascript", linerate_report::SCRIPT))
        .route(pages::SCRIPT, file("text/javascript", SCRIPT))
        .route("/favicon.ico", get(|| std::future::ready(StatusCode::NO_CONTENT)))
        .fallback(nothing)
        .layer(middleware::from_fn_with_state(app.clone(), guarded))
        .with_state(app)
}

/// `token` of the query.
#[derive(Deserialize)]
struct Shown {
    token: Option<String>,
}

/// Lets a request through the gate, and puts the headers on every answer.
async fn guarded(State(app): State<App>, request: Request, next: Next) -> Response {
    let decision = decide(&app.gate, &request);
    let mut response = match decision {
        Decision::Serve => next.run(request).await,
        Decision::Remember(cookie) => {
            let headers = [(header::SET_COOKIE, cookie), (header::LOCATION, "/".to_owned())];
            (StatusCode::SEE_OTHER, headers).into_response()
        }
        Decision::Locked => {
            let text = "Open the address that linerate dashboard printed, or type its token.";
            message(StatusCode::UNAUTHORIZED, "Locked", text, true)
        }
        Decision::OtherHost => {
            let text = "This address is not one of this host.";
            message(StatusCode::MISDIRECTED_REQUEST, "Refused", text, false)
        }
        Decision::OnlyReads => {
            let text = "This server only answers GET requests without a body.";
            let mut refused = message(StatusCode::METHOD_NOT_ALLOWED, "Refused", text, false);
            // What follows the head is not read.
            refused.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            refused
        }
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

fn decide(gate: &Gate, request: &Request) -> Decision {
    let headers = request.headers();
    let query = Query::<Shown>::try_from_uri(request.uri()).ok();
    let length = headers.get(header::CONTENT_LENGTH);
    gate.decide(&Asked {
        method: request.method().as_str(),
        hosts: &texts(headers, &header::HOST),
        authority: request.uri().authority().map(|authority| authority.as_str()),
        cookies: &texts(headers, &header::COOKIE),
        token: query.as_ref().and_then(|query| query.token.as_deref()),
        has_body: headers.contains_key(header::TRANSFER_ENCODING)
            || length.is_some_and(|length| length != "0"),
    })
}

/// Returns every value of a header. One that is no text is no host and no cookie either.
fn texts<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Vec<&'a str> {
    headers.get_all(name).iter().map(|value| value.to_str().unwrap_or_default()).collect()
}

fn answer(status: StatusCode, kind: &'static str, body: impl Into<Body>) -> Response {
    (status, [(header::CONTENT_TYPE, kind)], body.into()).into_response()
}

fn message(status: StatusCode, title: &str, text: &str, unlock: bool) -> Response {
    match pages::message(title, text, unlock) {
        Ok(page) => answer(status, HTML, page),
        Err(error) => answer(status, "text/plain; charset=utf-8", error.to_string()),
    }
}

/// Returns the answer that a page or its error gives.
fn shown(page: Result<Vec<u8>, PageError>) -> Response {
    let (status, title, error) = match page {
        Ok(page) => return answer(StatusCode::OK, HTML, page),
        Err(error @ (PageError::NoCampaign | PageError::NoCourse)) => {
            (StatusCode::NOT_FOUND, "Not found", error)
        }
        Err(error @ (PageError::Same | PageError::Nothing(_))) => {
            (StatusCode::UNPROCESSABLE_ENTITY, "No comparison", error)
        }
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, "Cannot be shown", error),
    };
    message(status, title, &format!("{error}."), false)
}

async fn nothing() -> Response {
    message(StatusCode::NOT_FOUND, "Not found", "There is no page at this address.", false)
}

/// Query of the list.
#[derive(Deserialize)]
struct Listed {
    baseline: Option<String>,
}

async fn list(State(app): State<App>, Query(asked): Query<Listed>) -> Response {
    let listing = Arc::clone(&app.archive.listing().borrow());
    let baseline = asked.baseline.as_deref().and_then(Key::parse);
    shown(pages::list(&app.archive, &listing, baseline.as_ref()).map(String::into_bytes))
}

/// Query of a page about one campaign.
#[derive(Deserialize)]
struct One {
    campaign: String,
}

async fn report(State(app): State<App>, Query(asked): Query<One>) -> Response {
    let key = Key::parse(&asked.campaign);
    apart(app, move |archive, listing| {
        pages::report(archive, listing, &key.ok_or(PageError::NoCampaign)?)
    })
    .await
}

/// Query of a comparison.
#[derive(Deserialize)]
struct Two {
    before: String,
    after: String,
}

async fn compare(State(app): State<App>, Query(asked): Query<Two>) -> Response {
    let keys = [Key::parse(&asked.before), Key::parse(&asked.after)];
    apart(app, move |archive, listing| {
        let [Some(before), Some(after)] = &keys else { return Err(PageError::NoCampaign) };
        pages::comparison(archive, listing, [before, after])
    })
    .await
}

async fn live(State(app): State<App>, Query(asked): Query<One>) -> Response {
    let listing = Arc::clone(&app.archive.listing().borrow());
    let page = Key::parse(&asked.campaign).ok_or(PageError::NoCampaign);
    shown(page.and_then(|key| pages::live(&listing, &key)).map(String::into_bytes))
}

/// A figure over all campaigns of a plan.
async fn course(State(app): State<App>, Query(asked): Query<course::Asked>) -> Response {
    let listing = Arc::clone(&app.archive.listing().borrow());
    shown(course::page(&listing, &asked).map(String::into_bytes))
}

/// States of a running campaign.
async fn follow(State(app): State<App>, Query(asked): Query<One>) -> Response {
    let Ok(place) = Arc::clone(&app.streams).try_acquire_owned() else { return busy() };
    let listing = Arc::clone(&app.archive.listing().borrow());
    let key = Key::parse(&asked.campaign);
    let Some(key) = key.filter(|key| pages::found(&listing, key).is_ok()) else {
        return nothing().await;
    };
    let (now, asked) = (app.archive.listing(), key.clone());
    let is_running = move || now.borrow().is_running(&asked.ledger, &asked.id);
    match app.hub.watch(&key, &app.archive.folder().join(&key.ledger), is_running) {
        Ok(news) => events::answer(news, Arc::clone, place),
        Err(_) => busy(),
    }
}

/// An event for each change of the list.
async fn changes(State(app): State<App>) -> Response {
    let Ok(place) = Arc::clone(&app.streams).try_acquire_owned() else { return busy() };
    events::answer(app.archive.listing(), |_| Arc::from("changed"), place)
}

fn busy() -> Response {
    let text = "Too many pages follow campaigns at this moment.";
    message(StatusCode::SERVICE_UNAVAILABLE, "Busy", text, false)
}

fn crowded() -> Response {
    let text = "Too many reports are being built at this moment. Load the page again.";
    message(StatusCode::SERVICE_UNAVAILABLE, "Busy", text, false)
}

/// Builds a page in a thread for work that takes time.
async fn apart(
    app: App,
    page: impl FnOnce(&Archive, &Listing) -> Result<Vec<u8>, PageError> + Send + 'static,
) -> Response {
    let Ok(place) = Arc::clone(&app.pages).try_acquire_owned() else { return crowded() };
    let listing = Arc::clone(&app.archive.listing().borrow());
    let built = tokio::task::spawn_blocking(move || {
        archive::yield_to_measurements();
        let built = page(&app.archive, &listing);
        drop(place);
        built
    });
    let built = built.await;
    match built {
        Ok(page) => shown(page),
        // The page of one damaged campaign must not end the server.
        Err(_) => {
            let status = StatusCode::INTERNAL_SERVER_ERROR;
            message(status, "Cannot be shown", "The page could not be built.", false)
        }
    }
}
