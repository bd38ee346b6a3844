//! The little of HTTP that a scrape and a webhook need: one request without encryption, one answer.

use std::io::{Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};

/// How long a server may take to connect, and between two parts of its answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of bytes of an answer.
const LIMIT: u64 = 64 << 20;

/// Returns `true` if a name is an address to ask.
pub(crate) fn is_address(name: &str) -> bool {
    name.starts_with("http://") || name.starts_with("https://")
}

/// Host with port, and path.
fn parts(address: &str) -> anyhow::Result<(String, String)> {
    let Some(rest) = address.strip_prefix("http://") else {
        bail!("{address}: only http:// is supported; use a local proxy for https");
    };
    let (host, path) = match rest.split_once('/') {
        Some((host, path)) => (host, format!("/{path}")),
        None => (rest, "/".to_owned()),
    };
    ensure!(!host.is_empty(), "{address}: no host in it");
    // The last colon of `[::1]` belongs to the address.
    let has_port = host
        .rsplit_once(':')
        .is_some_and(|(_, port)| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()));
    let host = match has_port {
        true => host.to_owned(),
        false => format!("{host}:80"),
    };
    Ok((host, path))
}

fn ask(address: &str, method: &str, body: &str) -> anyhow::Result<String> {
    let (host, path) = parts(address)?;
    let answer = || -> anyhow::Result<String> {
        let to = host.to_socket_addrs()?.next().context("unknown host")?;
        let mut stream = TcpStream::connect_timeout(&to, TIMEOUT)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        // Answers to version 1.0 come in one piece, which ends with the connection.
        write!(
            stream,
            "{method} {path} HTTP/1.0\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )?;
        let mut bytes = Vec::new();
        stream.take(LIMIT).read_to_end(&mut bytes)?;
        let text = String::from_utf8_lossy(&bytes);
        let (head, body) = text.split_once("\r\n\r\n").context("no HTTP answer")?;
        let status = head.split_whitespace().nth(1).unwrap_or("");
        ensure!(
            status.starts_with('2'),
            "the server answered with status {status}"
        );
        Ok(body.to_owned())
    };
    answer().with_context(|| address.to_owned())
}

/// Returns the body of an answer.
pub(crate) fn get(address: &str) -> anyhow::Result<String> {
    ask(address, "GET", "")
}

/// Sends a JSON document.
pub(crate) fn post(address: &str, body: &str) -> anyhow::Result<()> {
    ask(address, "POST", body).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::parts;

    #[test]
    fn addresses() {
        let of = |address| parts(address).ok();
        let both = |a: &str, b: &str| Some((a.to_owned(), b.to_owned()));
        assert_eq!(of("http://h:8000/metrics"), both("h:8000", "/metrics"));
        assert_eq!(of("http://h"), both("h:80", "/"));
        assert_eq!(of("http://[::1]:9/a/b"), both("[::1]:9", "/a/b"));
        assert_eq!(of("https://h/metrics"), None);
        assert_eq!(of("http:///metrics"), None);
    }
}
