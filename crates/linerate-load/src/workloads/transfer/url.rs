//! Where a foreign server has its file, RFC 3986 as far as `scheme://[user:password@]host[:port]/path` goes.

use std::net::{SocketAddr, ToSocketAddrs};

use linerate_sys::SysError;

use crate::LoadError;

/// A file at a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url {
    pub(crate) user: Option<(String, String)>,
    /// Host and port as they stand there.
    pub(crate) authority: String,
    /// Its name or address, without brackets.
    pub(crate) host: String,
    port: u16,
    /// Begins with a slash.
    pub(crate) path: String,
}

impl Url {
    /// Reads `text`, whose scheme must be `scheme`; `port` is the scheme's own.
    pub(crate) fn parse(text: &str, scheme: &str, port: u16) -> Result<Self, String> {
        let rest = text.strip_prefix(scheme).and_then(|rest| rest.strip_prefix("://"));
        let rest = rest.ok_or_else(|| format!("\"{text}\" does not begin with {scheme}://"))?;
        if rest.bytes().any(|byte| byte.is_ascii_whitespace() || byte.is_ascii_control()) {
            return Err(format!("\"{text}\" has blanks in it (write %20)"));
        }
        let (server, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (user, authority) = match server.rsplit_once('@') {
            Some((user, authority)) => (Some(user.split_once(':').unwrap_or((user, ""))), authority),
            None => (None, server),
        };
        let (host, named) = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, rest)) => (host, rest.strip_prefix(':')),
            None => authority.rsplit_once(':').map_or((authority, None), |(host, port)| (host, Some(port))),
        };
        if host.is_empty() {
            return Err(format!("\"{text}\" names no host"));
        }
        let port = match named {
            Some(port) => port.parse().map_err(|_| format!("`{port}` in \"{text}\" is no port"))?,
            None => port,
        };
        Ok(Self {
            user: user.map(|(name, password)| (name.to_owned(), password.to_owned())),
            authority: authority.to_owned(),
            host: host.to_owned(),
            port,
            path: if path.is_empty() { "/".into() } else { path.into() },
        })
    }

    /// The server's address.
    pub(crate) fn resolve(&self) -> Result<SocketAddr, LoadError> {
        let object = || format!("{} (does the name exist?)", self.authority);
        let mut found = (self.host.as_str(), self.port)
            .to_socket_addrs()
            .map_err(|cause| SysError::new("find the address of", object(), cause))?;
        let none = || SysError::new("find the address of", object(), std::io::ErrorKind::NotFound);
        Ok(found.next().ok_or_else(none)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_has_its_default() {
        let url = Url::parse("http://198.18.0.2:8080/a/b", "http", 80).expect("well formed");
        assert_eq!((url.host.as_str(), url.port, url.path.as_str()), ("198.18.0.2", 8080, "/a/b"));
        let url = Url::parse("ftp://me:secret@[::1]", "ftp", 21).expect("well formed");
        assert_eq!((url.host.as_str(), url.port, url.path.as_str()), ("::1", 21, "/"));
        assert_eq!(url.user, Some(("me".into(), "secret".into())));
        assert_eq!(url.resolve().expect("an address").to_string(), "[::1]:21");
    }

    #[test]
    fn mistakes_are_named() {
        for wrong in ["https://a/", "http:///f", "http://a:b/", "http://a/\r\nHost: b", "http://a/ b"] {
            assert!(Url::parse(wrong, "http", 80).is_err(), "{wrong}");
        }
    }
}
