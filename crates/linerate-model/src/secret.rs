//! Credentials in addresses (`ftp://user:password@host`, RFC 3986 clause 3.2.1): used, and never
//! written down.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

/// Text in the place of a password.
const HIDDEN: &str = "***";

/// Address of a server, possibly with a password in it. It is printed and serialized without: only
/// [`ServerAddress::reveal`] has it.
///
/// # Examples
/// ```
/// use linerate_model::ServerAddress;
///
/// let server = ServerAddress::from("ftp://user:secret@192.0.2.7/");
/// assert_eq!(server.to_string(), "ftp://user:***@192.0.2.7/");
/// ```
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct ServerAddress(String);

impl ServerAddress {
    /// The address as written, password included: for the connection, and nothing else.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl From<&str> for ServerAddress {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl From<String> for ServerAddress {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&redacted(&self.0))
    }
}

impl fmt::Debug for ServerAddress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:?}", redacted(&self.0))
    }
}

impl Serialize for ServerAddress {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Reports and ledgers are written by this path too, so the password must not be in it.
        serializer.collect_str(self)
    }
}

/// Returns `text` with `***` in place of each password of an address in it.
#[must_use]
pub fn redacted(text: &str) -> Cow<'_, str> {
    replaced(text, |_| HIDDEN.to_owned())
}

/// The same, with as many bytes as there were, so that places in the text stay where they are.
#[must_use]
pub fn masked(text: &str) -> Cow<'_, str> {
    replaced(text, |password| "*".repeat(password.len()))
}

/// Hides the passwords of addresses in every text of `value`.
pub fn redact(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Cow::Owned(hidden) = redacted(text) {
                // Texts without a password are not copied.
                *text = hidden;
            }
        }
        Value::Array(values) => values.iter_mut().for_each(redact),
        Value::Object(fields) => fields.values_mut().for_each(redact),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn replaced(text: &str, hide: impl Fn(&str) -> String) -> Cow<'_, str> {
    let mut hidden = String::new();
    let mut copied = 0;
    let mut from = 0;
    while let Some(at) = text[from..].find("://") {
        let start = from + at + "://".len();
        let authority = &text[start..start + authority_length(text, from + at, start)];
        // The last `@`: a password may contain one.
        if let Some((user, _)) = authority.rsplit_once('@')
            // The first colon, because a user name cannot contain one.
            && let Some((name, password)) = user.split_once(':')
        {
            let password_at = start + name.len() + 1;
            hidden.push_str(&text[copied..password_at]);
            hidden.push_str(&hide(password));
            copied = password_at + password.len();
        }
        // Only the scheme is skipped, as an authority may contain a second address.
        from = start;
    }
    if copied == 0 { Cow::Borrowed(text) } else { Cow::Owned(hidden + &text[copied..]) }
}

/// How much of `text` from `start` on is the authority of the address whose scheme ends at
/// `scheme_end`: up to a slash, a blank, or the quote that the address stands in.
fn authority_length(text: &str, scheme_end: usize, start: usize) -> usize {
    let is_scheme = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    // In a plan the address stands in quotes, which end it.
    let quote = text[..scheme_end].trim_end_matches(is_scheme).chars().next_back();
    let quote = quote.filter(|c| matches!(c, '"' | '\'' | '`'));
    let ends = |c: char| c == '/' || c.is_whitespace() || c.is_control() || Some(c) == quote;
    text[start..].find(ends).unwrap_or(text.len() - start)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_password_is_hidden_wherever_the_address_stands() {
        for (text, hidden) in [
            ("ftp://me:secret@host/file", "ftp://me:***@host/file"),
            ("ftp://me:se:c@ret@host", "ftp://me:***@host"),
            ("ftp://me:@host/", "ftp://me:***@host/"),
            (
                "a = \"ftp://u:p@h/\", b = 'ftp://v:q\"r@h/x'",
                "a = \"ftp://u:***@h/\", b = 'ftp://v:***@h/x'",
            ),
            (
                "see ftp://me@host/ and http://h:80/a@b:c",
                "see ftp://me@host/ and http://h:80/a@b:c",
            ),
            ("x=\"http://h:80\",y=\"a@b\"", "x=\"http://h:80\",y=\"a@b\""),
            ("ftp://u:\u{e4}\u{1f511}@h", "ftp://u:***@h"),
            ("no address", "no address"),
        ] {
            assert_eq!(redacted(text), hidden);
        }
        assert_eq!(masked("ftp://me:secret@host/"), "ftp://me:******@host/");
    }

    #[test]
    fn an_address_is_shown_without_and_used_with_its_password() {
        let address: ServerAddress =
            serde_json::from_str("\"ftp://me:secret@h/\"").expect("a text");
        let shown =
            format!("{address} {address:?} {}", serde_json::to_string(&address).expect("a text"));
        assert!(!shown.contains("secret"), "{shown}");
        assert_eq!(address.reveal(), "ftp://me:secret@h/");
    }

    #[test]
    fn every_text_of_a_tree_is_searched() {
        let mut tree =
            serde_json::json!({ "a": ["ftp://u:p@h/", 1], "b": { "c": "ftp://u:q@h/" } });
        redact(&mut tree);
        assert_eq!(
            tree,
            serde_json::json!({ "a": ["ftp://u:***@h/", 1], "b": { "c": "ftp://u:***@h/" } })
        );
    }

    proptest! {
        #[test]
        fn no_password_survives(name in "[a-z]{1,8}",
            password in "[a-zA-Z0-9!$&*+,;=:@%'\"]{6,20}", before in "[^/:'\"`]{0,10} ") {
            prop_assume!(!before.contains(&password));
            let text = format!("{before}ftp://{name}:{password}@host.example/file");
            prop_assert!(!redacted(&text).contains(&password), "{}", redacted(&text));
            prop_assert_eq!(masked(&text).len(), text.len());
        }
    }
}
