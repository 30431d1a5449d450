//! Pairing and TLS between two key stores on loopback.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::thread::{self, JoinHandle};
use std::time::Duration;

use linerate_control::pairing::{self, Token};
use linerate_control::{
    Access, Agent, AgentOptions, CampaignRun, ControlError, Exit, KeyStore, KnownPeer, ReachedAt,
    Right, run,
};
use serde_json::json;
use tempfile::TempDir;

use crate::common::{ANY_PORT, Listening, Recorded, endpoint, job, trial};

const VALIDITY: Duration = Duration::from_secs(20);

fn store(directory: &TempDir) -> KeyStore {
    KeyStore::open(directory.path()).expect("a fresh directory takes a key")
}

fn directories() -> (TempDir, TempDir) {
    (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap())
}

/// Offers a pairing. Returns its address and token, and what will wait for it.
fn offered(directory: &TempDir) -> (String, Token, JoinHandle<Result<KnownPeer, ControlError>>) {
    let offer = pairing::offer(store(directory), "there", ANY_PORT, VALIDITY).unwrap();
    let (address, token) = (offer.address().to_string(), offer.token().clone());
    (address, token, thread::spawn(move || offer.wait()))
}

fn pair(offering: &TempDir, accepting: &TempDir) {
    let (address, token, waiting) = offered(offering);
    pairing::accept(&store(accepting), "here", &address, &token).unwrap();
    waiting.join().unwrap().unwrap();
}

fn serve(access: Access) -> Listening {
    Listening::start(AgentOptions::default(), access)
}

/// Returns a campaign of one trial on `agent`.
fn campaign_at(agent: &Listening, keys: Option<KeyStore>) -> CampaignRun {
    let (a, b) = (endpoint("a", None), endpoint("b", None));
    let mut campaign = agent.campaign(vec![trial(0, vec![job("null", a, b, json!({}))])]);
    campaign.keys = keys;
    campaign
}

fn run_quietly(campaign: CampaignRun) -> Result<linerate_control::RunSummary, ControlError> {
    run(campaign, &mut Recorded::default(), &mut |_| {})
}

/// Returns why a conductor with the keys in `directory` may not measure at `agent`.
fn refusal(agent: &Listening, directory: &TempDir) -> ControlError {
    run_quietly(campaign_at(agent, Some(store(directory)))).unwrap_err()
}

/// Does the same where it is for a key.
fn key_refusal(agent: &Listening, directory: &TempDir) -> String {
    let error = refusal(agent, directory);
    assert!(matches!(error, ControlError::KeyRefused { .. }), "{error}");
    error.to_string()
}

#[test]
fn the_right_token_pairs_both_ends_and_they_work_together_over_tls() {
    let (there, here) = directories();
    pair(&there, &here);
    assert_eq!(store(&there).peers().unwrap()[0].key, store(&here).fingerprint());
    assert_eq!(store(&here).peers().unwrap()[0].key, store(&there).fingerprint());
    assert_eq!(store(&here).peers().unwrap()[0].name, "there");

    let agent = serve(Access::Paired(store(&there)));
    let summary = run_quietly(campaign_at(&agent, Some(store(&here)))).unwrap();
    assert!(matches!(summary.exit, Exit::Completed));
    assert_eq!(summary.completed, 1);
}

#[test]
fn an_agent_refuses_a_key_it_does_not_know_and_a_conductor_likewise() {
    let ((there, here), (stranger, _unused)) = (directories(), directories());
    pair(&there, &here);
    let agent = serve(Access::Paired(store(&there)));

    // The stranger knows the agent's key, but the agent does not know the stranger's.
    let at = ReachedAt::new("127.0.0.1", ANY_PORT.ip());
    store(&stranger).trust("there", store(&there).fingerprint(), Right::BeMeasured, &at).unwrap();
    let error = key_refusal(&agent, &stranger);
    assert!(error.contains("linerate pair"), "{error}");

    // The conductor has forgotten the agent's key, and knows another.
    store(&here).trust("there", store(&stranger).fingerprint(), Right::BeMeasured, &at).unwrap();
    key_refusal(&agent, &here);

    // Without any key there is no TLS, and the agent refuses with that reason.
    let error = run_quietly(campaign_at(&agent, None)).unwrap_err();
    assert!(error.to_string().contains("paired hosts over TLS only"), "{error}");
}

#[test]
fn another_paired_host_at_an_address_is_refused_and_so_is_measuring_the_other_way() {
    let ((one, other), (here, _unused)) = (directories(), directories());
    pair(&one, &here);
    // The other host was paired at another address, and answers at this one.
    let elsewhere = ReachedAt::new("198.18.0.9", "198.18.0.9".parse().unwrap());
    let key = store(&other).fingerprint();
    store(&here).trust("other", key, Right::BeMeasured, &elsewhere).unwrap();
    store(&other).trust("here", store(&here).fingerprint(), Right::Conduct, &elsewhere).unwrap();
    let agent = serve(Access::Paired(store(&other)));
    let error = refusal(&agent, &here).to_string();
    for part in ["answers with the key of other", "there ("] {
        assert!(error.contains(part), "{error}");
    }

    // The host that was paired to be measured may not conduct here.
    let agent = serve(Access::Paired(store(&here)));
    let at = ReachedAt::new("127.0.0.1", ANY_PORT.ip());
    store(&one).trust("here", store(&here).fingerprint(), Right::BeMeasured, &at).unwrap();
    key_refusal(&agent, &one);
}

#[test]
fn a_host_paired_on_loopback_is_not_contacted_without_tls() {
    let (there, here) = directories();
    pair(&there, &here);
    let elsewhere = ReachedAt::new("198.18.0.9", "198.18.0.9".parse().unwrap());
    let other = store(&tempfile::tempdir().unwrap()).fingerprint();
    store(&here).trust("other", other, Right::BeMeasured, &elsewhere).unwrap();
    // Another program listens at its address now, without keys.
    let agent = serve(Access::Loopback);
    let error = key_refusal(&agent, &here);
    assert!(error.contains("there (") && error.contains("pair forget"), "{error}");
    assert_eq!(store(&here).forget("there").unwrap(), 1);
    let summary = run_quietly(campaign_at(&agent, Some(store(&here)))).unwrap();
    assert_eq!(summary.completed, 1, "nobody was paired there");
}

#[test]
fn forgetting_a_conductor_ends_its_session() {
    let (there, here) = directories();
    pair(&there, &here);
    let agent = serve(Access::Paired(store(&there)));
    let mut campaign = campaign_at(&agent, Some(store(&here)));
    // Long enough that only the end of the session ends it.
    campaign.trials[0].phases.measure = linerate_model::Nanos::from_secs(300);
    campaign.options.away = Duration::ZERO;
    let forgotten = std::cell::Cell::new(false);
    let summary = run(campaign, &mut Recorded::default(), &mut |progress| {
        if matches!(progress, linerate_control::Progress::Intervals { .. })
            && !forgotten.replace(true)
        {
            assert_eq!(store(&there).forget("here").unwrap(), 1);
        }
    });
    // The trial lasts five minutes: it was cut off.
    let summary = summary.unwrap();
    assert_eq!((summary.completed, summary.failed), (0, 1), "{summary:?}");
    assert!(forgotten.get());
}

#[test]
fn wrong_tokens_do_not_end_an_offer_and_do_not_open_it() {
    let (there, here) = directories();
    let (address, token, waiting) = offered(&there);
    let wrong: Token = "00000-00000-00000-00000-00000-0".parse().unwrap();
    for _ in 0..8 {
        let error = pairing::accept(&store(&here), "here", &address, &wrong).unwrap_err();
        assert!(error.to_string().contains("the token is wrong"), "{error}");
    }
    assert!(store(&there).peers().unwrap().is_empty() && store(&here).peers().unwrap().is_empty());
    pairing::accept(&store(&here), "here", &address, &token).unwrap();
    let peer = waiting.join().unwrap().unwrap();
    assert_eq!((&*peer.name, peer.key), ("here", store(&here).fingerprint()));
}

#[test]
fn nothing_answers_to_an_expired_offer_or_a_used_token() {
    let (there, here) = directories();
    let offer = pairing::offer(store(&there), "there", ANY_PORT, Duration::ZERO).unwrap();
    let (address, token) = (offer.address().to_string(), offer.token().clone());
    let error = offer.wait().unwrap_err().to_string();
    assert!(error.contains("the offer has expired"), "{error}");
    pairing::accept(&store(&here), "here", &address, &token).unwrap_err();

    let (address, token, waiting) = offered(&there);
    pairing::accept(&store(&here), "here", &address, &token).unwrap();
    waiting.join().unwrap().unwrap();
    let error = pairing::accept(&store(&here), "again", &address, &token).unwrap_err();
    assert!(matches!(error, ControlError::Pairing { .. }), "{error}");
    assert!(error.to_string().contains("A token works once"), "{error}");
    assert_eq!(store(&there).peers().unwrap().len(), 1);
}

#[test]
fn without_keys_nothing_listens_beyond_loopback() {
    let everywhere = "0.0.0.0:0".parse().unwrap();
    let error =
        Agent::new(AgentOptions::default()).listen(everywhere, Access::Loopback).unwrap_err();
    assert!(error.to_string().contains("linerate agent --pair"), "{error}");
}
