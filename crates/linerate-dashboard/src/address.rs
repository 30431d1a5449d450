//! Names of campaigns in addresses of pages.

/// A campaign: its ledger within the folder, and its id there. In text `LEDGER#ID`, as on the
/// command line.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) ledger: String,
    pub(crate) id: String,
}

impl Key {
    /// Reads `LEDGER#ID`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (ledger, id) = text.rsplit_once('#')?;
        Some(Self { ledger: ledger.to_owned(), id: id.to_owned() })
    }

    /// Returns `LEDGER#ID`.
    pub(crate) fn text(&self) -> String {
        format!("{}#{}", self.ledger, self.id)
    }
}

/// Returns `key` as the value of a query.
pub(crate) fn query(key: &Key) -> String {
    escaped(&key.text())
}

/// Returns `text` as the value of a query, with everything but letters, digits and `-._~` escaped
/// (RFC 3986 clause 2.3).
pub(crate) fn escaped(text: &str) -> String {
    let escaped = text.bytes().map(|byte| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
            char::from(byte).to_string()
        }
        other => format!("%{other:02X}"),
    });
    escaped.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_survives_its_address() {
        let key = Key { ledger: "a b/ä#\"<&x.ledger".to_owned(), id: "2026-7f".to_owned() };
        let text = query(&key);
        assert_eq!(text, "a%20b%2F%C3%A4%23%22%3C%26x.ledger%232026-7f");
        assert_eq!(Key::parse("a b/ä#\"<&x.ledger#2026-7f"), Some(key));
        assert_eq!(Key::parse("x.ledger"), None);
    }
}
