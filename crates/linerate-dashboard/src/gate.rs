//! Decision about a request before any page sees it: its host, its method, its token. Pure.
//!
//! A page of another site can point a name of its own at this address (DNS rebinding) and would
//! then read every answer, because for the browser both are one site. The name in the `Host` header
//! reveals it: only addresses, which need no name service, and the names of this host are served.

use std::net::IpAddr;

use hmac::{Hmac, KeyInit as _, Mac};
use sha2::Sha256;

/// Cookie of a browser that showed the token. The prefix binds it to this host and to TLS (RFC
/// 6265bis clause 4.1.3.2).
const COOKIE: &str = "__Host-linerate";
/// Input of the value of the cookie, so that the cookie is not the token.
const SESSION: &[u8] = b"linerate dashboard session 1";

/// Who is served.
#[derive(Clone, Debug)]
pub struct Gate {
    /// Names of this host, beside its addresses.
    names: Vec<String>,
    /// `None` for connections of this host alone.
    token: Option<Token>,
}

/// Secret of the address that `linerate dashboard` prints.
#[derive(Clone)]
struct Token(String);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(..)")
    }
}

impl Token {
    fn mac(&self, input: &[u8]) -> Hmac<Sha256> {
        let mac = Hmac::<Sha256>::new_from_slice(self.0.as_bytes());
        let mut mac = mac.expect("HMAC takes keys of any length");
        mac.update(input);
        mac
    }

    /// Returns true if `claimed` is the token. Codes of both are compared, in constant time.
    fn is(&self, claimed: &str) -> bool {
        let expected = self.mac(self.0.as_bytes()).finalize().into_bytes();
        self.mac(claimed.as_bytes()).verify_slice(&expected).is_ok()
    }

    fn session(&self) -> String {
        let code = self.mac(SESSION).finalize().into_bytes();
        code.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Returns true if `cookie` is that of a browser which showed the token, in constant time.
    fn has_session(&self, cookie: &str) -> bool {
        let Some(code) = bytes(cookie) else { return false };
        self.mac(SESSION).verify_slice(&code).is_ok()
    }
}

/// Reads hexadecimal digits.
fn bytes(text: &str) -> Option<Vec<u8>> {
    let is_whole = text.is_ascii() && text.len().is_multiple_of(2);
    let pairs = (0..text.len()).step_by(2).map(|at| text.get(at..at + 2));
    let read = pairs.map(|pair| u8::from_str_radix(pair?, 16).ok());
    read.collect::<Option<_>>().filter(|_| is_whole)
}

/// Parts of a request that decide.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked<'a> {
    /// Method.
    pub method: &'a str,
    /// Every `Host` header.
    pub hosts: &'a [&'a str],
    /// Host in the request line, if it has one.
    pub authority: Option<&'a str>,
    /// Every `Cookie` header.
    pub cookies: &'a [&'a str],
    /// `token` of the query.
    pub token: Option<&'a str>,
    /// True if a body follows.
    pub has_body: bool,
}

/// Decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The page is served.
    Serve,
    /// The token was right: the browser gets this cookie and is sent to the start.
    Remember(String),
    /// The token is missing or wrong.
    Locked,
    /// The request is for another host, or for none.
    OtherHost,
    /// The method changes something, or a body follows.
    OnlyReads,
}

impl Gate {
    /// Serves connections of this host.
    #[must_use]
    pub fn of_loopback() -> Self {
        Self { names: vec!["localhost".to_owned()], token: None }
    }

    /// Serves who shows `token`, under the addresses and `names` of this host.
    #[must_use]
    pub fn with_token(token: String, names: Vec<String>) -> Self {
        Self { names, token: Some(Token(token)) }
    }

    /// Decides about a request.
    #[must_use]
    pub fn decide(&self, asked: &Asked<'_>) -> Decision {
        let [host] = asked.hosts else { return Decision::OtherHost };
        let hosts = [Some(*host), asked.authority];
        if !hosts.iter().flatten().all(|host| self.serves(host)) {
            return Decision::OtherHost;
        }
        if !matches!(asked.method, "GET" | "HEAD") || asked.has_body {
            return Decision::OnlyReads;
        }
        let Some(token) = &self.token else { return Decision::Serve };
        if asked.token.is_some_and(|claimed| token.is(claimed)) {
            let session = token.session();
            return Decision::Remember(format!(
                "{COOKIE}={session}; Path=/; Secure; HttpOnly; SameSite=Strict"
            ));
        }
        let cookies = asked.cookies.iter().flat_map(|header| header.split(';'));
        let mut sessions = cookies.filter_map(|cookie| {
            cookie.trim().split_once('=').filter(|(name, _)| *name == COOKIE).map(|(_, code)| code)
        });
        if sessions.any(|code| token.has_session(code)) {
            Decision::Serve
        } else {
            Decision::Locked
        }
    }

    /// Returns true if `host`, with or without a port, is an address or a name of this host.
    fn serves(&self, host: &str) -> bool {
        let Some(name) = without_port(host) else { return false };
        match name.parse::<IpAddr>() {
            // Only this host reaches its loopback, so no other address can be meant.
            Ok(address) => self.token.is_some() || address.is_loopback(),
            Err(_) => self.names.iter().any(|known| known.eq_ignore_ascii_case(name)),
        }
    }
}

/// Takes the port and the brackets of an address off `host`; `None` if it is neither.
fn without_port(host: &str) -> Option<&str> {
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').filter(|(address, _)| address.contains(':'))?,
        None => host.split_once(':').map_or((host, ""), |(name, _)| host.split_at(name.len())),
    };
    let digits = port.strip_prefix(':').unwrap_or("0");
    let is_port = port.is_empty() || port.starts_with(':');
    let is_number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    (is_port && is_number && !name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "7ZZZZ-ZZZZZ-ZZZZZ-ZZZZZ-ZZZZZ-Z";

    fn locked() -> Gate {
        Gate::with_token(TOKEN.to_owned(), vec!["lab7".to_owned()])
    }

    fn get<'a>(hosts: &'a [&'a str]) -> Asked<'a> {
        Asked { method: "GET", hosts, ..Asked::default() }
    }

    #[test]
    fn only_addresses_and_names_of_this_host_are_served() {
        let gate = Gate::of_loopback();
        for host in ["localhost", "LOCALHOST:4779", "127.0.0.1", "127.0.0.1:80", "[::1]:4779"] {
            assert_eq!(gate.decide(&get(&[host])), Decision::Serve, "{host}");
        }
        let others = [
            "evil.example",
            "evil.example:4779",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "192.0.2.7",
            "127.0.0.1:",
            "127.0.0.1:80x",
            "127.0.0.1:80:80",
            "[::1",
            "[::1]x",
            "[localhost]",
            "::1",
            "",
            ":4779",
            "localhost@evil.example",
        ];
        for host in others {
            assert_eq!(gate.decide(&get(&[host])), Decision::OtherHost, "{host}");
        }
        assert_eq!(gate.decide(&get(&[])), Decision::OtherHost, "none");
        assert_eq!(gate.decide(&get(&["localhost", "localhost"])), Decision::OtherHost, "two");
        let line = Asked { authority: Some("evil.example"), ..get(&["localhost"]) };
        assert_eq!(gate.decide(&line), Decision::OtherHost, "the request line counts, too");
    }

    #[test]
    fn with_a_token_its_owner_is_served_at_the_names_of_this_host() {
        let gate = locked();
        let with = |token| Asked { token: Some(token), ..get(&["192.0.2.7:4779"]) };
        let Decision::Remember(cookie) = gate.decide(&with(TOKEN)) else { panic!("refused") };
        assert!(cookie.starts_with("__Host-linerate=") && !cookie.contains(TOKEN), "{cookie}");
        for part in ["; Secure", "; HttpOnly", "; SameSite=Strict", "; Path=/"] {
            assert!(cookie.contains(part), "{cookie}");
        }
        let kept = cookie.split(';').next().expect("the value");
        let both = format!("a=b; {kept}");
        for host in ["192.0.2.7:4779", "lab7", "[2001:db8::7]:1"] {
            let asked = Asked { cookies: &[&both], ..get(std::slice::from_ref(&host)) };
            assert_eq!(gate.decide(&asked), Decision::Serve, "{host}");
        }
        let rebound = Asked { cookies: &[kept], ..get(&["evil.example"]) };
        assert_eq!(gate.decide(&rebound), Decision::OtherHost);
    }

    #[test]
    fn every_other_token_and_cookie_is_refused() {
        let gate = locked();
        let begins = (0..TOKEN.len()).map(|end| TOKEN[..end].to_owned());
        let others = [format!("{TOKEN}0"), TOKEN.to_lowercase(), format!(" {TOKEN}")];
        for token in begins.chain(others) {
            let asked = Asked { token: Some(&token), ..get(&["lab7"]) };
            assert_eq!(gate.decide(&asked), Decision::Locked, "{token}");
        }
        let session = Token(TOKEN.to_owned()).session();
        let other = Token("another".to_owned()).session();
        let cookies = [
            String::new(),
            TOKEN.to_owned(),
            format!("__Host-linerate={TOKEN}"),
            format!("__Host-linerate={other}"),
            format!("__Host-linerate={}", &session[..62]),
            format!("__Host-linerate={session}00"),
            format!("linerate={session}"),
            format!("__Host-linerate=ä{session}"),
        ];
        for cookie in &cookies {
            let asked = Asked { cookies: &[cookie], ..get(&["lab7"]) };
            assert_eq!(gate.decide(&asked), Decision::Locked, "{cookie}");
        }
    }

    #[test]
    fn what_could_change_something_is_refused() {
        for gate in [Gate::of_loopback(), locked()] {
            for method in ["POST", "PUT", "DELETE", "OPTIONS", "CONNECT", "TRACE"] {
                let asked = Asked { method, ..get(&["127.0.0.1"]) };
                assert_eq!(gate.decide(&asked), Decision::OnlyReads, "{method}");
            }
            let asked = Asked { has_body: true, ..get(&["127.0.0.1"]) };
            assert_eq!(gate.decide(&asked), Decision::OnlyReads);
        }
        let head = Asked { method: "HEAD", ..get(&["127.0.0.1"]) };
        assert_eq!(Gate::of_loopback().decide(&head), Decision::Serve);
    }
}
