//! URLs of a foreign server's files: `scheme://[user:password@]host[:port]/path` (RFC 3986).

use std::net::{SocketAddr, ToSocketAddrs};

use linerate_model::redacted;
use linerate_sys::SysError;

use super::percent;
use crate::Result;

/// URL of a file at a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url {
    /// Name and password, decoded.
    pub(crate) user: Option<(String, String)>,
    /// Host and port as written.
    pub(crate) authority: String,
    /// The host's name or address, without brackets.
    pub(crate) host: String,
    port: u16,
    /// The path as written: it begins with a slash, and has no fragment.
    pub(crate) path: String,
}

impl Url {
    /// Reads `text`, whose scheme must be `scheme`; `port` is the scheme's default. Error messages
    /// omit the password.
    pub(crate) fn parse(text: &str, scheme: &str, port: u16) -> Result<Self, String> {
        Self::parsed(text, scheme, port).map_err(|mistake| redacted(&mistake).into_owned())
    }

    fn parsed(text: &str, scheme: &str, port: u16) -> Result<Self, String> {
        let rest = text.strip_prefix(scheme).and_then(|rest| rest.strip_prefix("://"));
        let rest = rest.ok_or_else(|| format!("\"{text}\" does not begin with {scheme}://"))?;
        if rest.bytes().any(|byte| byte.is_ascii_whitespace() || byte.is_ascii_control()) {
            return Err(format!("\"{text}\" has blanks in it (write %20)"));
        }
        let rest = rest.split('#').next().unwrap_or(rest);
        let (server, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (user, authority) = match server.rsplit_once('@') {
            Some((user, authority)) => {
                (Some(user.split_once(':').unwrap_or((user, ""))), authority)
            }
            None => (None, server),
        };
        let (host, named) = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']'))
        {
            Some((host, rest)) => (host, rest.strip_prefix(':')),
            None => authority
                .rsplit_once(':')
                .map_or((authority, None), |(host, port)| (host, Some(port))),
        };
        if host.is_empty() {
            return Err(format!("\"{text}\" names no host"));
        }
        let port = match named {
            Some(port) => port.parse().map_err(|_| format!("`{port}` in \"{text}\" is no port"))?,
            None => port,
        };
        let user = match user {
            Some((name, password)) => {
                Some((decoded(name, "user", text)?, decoded(password, "password", text)?))
            }
            None => None,
        };
        // The path must be decodable, whatever a server makes of it.
        decoded(path, "path", text)?;
        Ok(Self {
            user,
            authority: authority.to_owned(),
            host: host.to_owned(),
            port,
            path: if path.is_empty() { "/".into() } else { path.into() },
        })
    }

    /// The path as FTP has it: decoded, and relative to where the login leads (RFC 1738 clause
    /// 3.2.2: `%2F` at its beginning makes it absolute). A type other than binary is refused.
    pub(crate) fn ftp_path(&self) -> Result<String, String> {
        let path = &self.path[1..];
        let path = match path.rsplit_once(";type=") {
            Some((path, "i" | "I")) => path,
            Some((_, other)) => {
                return Err(format!(
                    "`;type={other}` is not supported: files are binary (`;type=i`)"
                ));
            }
            None => path,
        };
        decoded(path, "path", &self.path)
    }

    /// Returns the server's address.
    pub(crate) fn resolve(&self) -> Result<SocketAddr> {
        let object = || format!("{} (does the name exist?)", self.authority);
        let mut found = (self.host.as_str(), self.port)
            .to_socket_addrs()
            .map_err(|cause| SysError::new("find the address of", object(), cause))?;
        let none = || SysError::new("find the address of", object(), std::io::ErrorKind::NotFound);
        Ok(found.next().ok_or_else(none)?)
    }
}

/// Decodes `part` of `text`, which is its `what`.
fn decoded(part: &str, what: &str, text: &str) -> Result<String, String> {
    let bytes = percent::decode(part.as_bytes())
        .map_err(|mistake| format!("the {what} in \"{text}\": {mistake}"))?;
    String::from_utf8(bytes)
        .map_err(|_| format!("the {what} in \"{text}\" is not UTF-8 once it is decoded"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn omitted_parts_have_defaults() {
        let url = Url::parse("http://198.18.0.2:8080/a/b", "http", 80).expect("well formed");
        assert_eq!((url.host.as_str(), url.port, url.path.as_str()), ("198.18.0.2", 8080, "/a/b"));
        let url = Url::parse("ftp://me:secret@[::1]", "ftp", 21).expect("well formed");
        assert_eq!((url.host.as_str(), url.port, url.path.as_str()), ("::1", 21, "/"));
        assert_eq!(url.user, Some(("me".into(), "secret".into())));
        assert_eq!(url.resolve().expect("an address").to_string(), "[::1]:21");
    }

    #[test]
    fn escapes_are_decoded_where_the_protocol_has_none() {
        let ftp = |text: &str| Url::parse(text, "ftp", 21).and_then(|url| url.ftp_path());
        assert_eq!(ftp("ftp://h/a%20b/c%23d"), Ok("a b/c#d".into()));
        assert_eq!(ftp("ftp://h/%2Fetc/motd"), Ok("/etc/motd".into()));
        assert_eq!(ftp("ftp://h/file;type=i"), Ok("file".into()));
        assert!(ftp("ftp://h/file;type=a").is_err());
        let url = Url::parse("ftp://a%40b:p%3a%2f@h/%c3%a4#end", "ftp", 21).expect("well formed");
        assert_eq!(url.user, Some(("a@b".into(), "p:/".into())));
        assert_eq!(url.ftp_path(), Ok("\u{e4}".into()));
        // HTTP has escapes of its own.
        assert_eq!(
            Url::parse("http://h/a%20b#end", "http", 80).expect("well formed").path,
            "/a%20b"
        );
    }

    #[test]
    fn mistakes_are_named() {
        for wrong in [
            "https://a/",
            "http:///f",
            "http://a:b/",
            "http://a/\r\nHost: b",
            "http://a/ b",
            "http://a/%0d%0aHost:%20b",
            "http://a/%00",
            "http://a/%2",
            "http://a/%ff",
            "http://u%0aser@a/",
        ] {
            assert!(Url::parse(wrong, "http", 80).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_mistake_is_named_without_the_password() {
        for wrong in [
            "http://u:s3cret@a/f",
            "ftp://u:s3cret@a:b/f",
            "ftp://u:s3cret@/f",
            "ftp://u:s3cret@a/%2",
        ] {
            let mistake = Url::parse(wrong, "ftp", 21).expect_err(wrong);
            assert!(!mistake.contains("s3cret"), "{mistake}");
        }
    }
}
