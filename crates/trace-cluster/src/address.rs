//! Addresses of processes, and whether something answers there.

use std::fmt;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs as _, UdpSocket};
use std::str::FromStr;
use std::time::Duration;

/// Time to wait for a connection, and for an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Host and port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Address {
    /// Name or number.
    pub host: String,
    /// Port.
    pub port: u16,
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let plain = text.rsplit("://").next().unwrap_or(text);
        let parts = plain.rsplit_once(':');
        let parts = parts.and_then(|(host, port)| Some((host, port.parse().ok()?)));
        match parts {
            Some((host, port)) if !host.is_empty() => Ok(Self {
                host: host.to_owned(),
                port,
            }),
            _ => Err(format!("{text}: expected HOST:PORT, such as node1:50050")),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl Address {
    /// Returns the numbers of the address.
    pub(crate) fn resolve(&self) -> Result<SocketAddr, String> {
        let host = self.host.trim_start_matches('[').trim_end_matches(']');
        let found = (host, self.port).to_socket_addrs();
        let mut found = found.map_err(|_| format!("{self}: no host of this name is known"))?;
        found
            .next()
            .ok_or_else(|| format!("{self}: the host has no address"))
    }

    /// Returns the address of this machine as the other one sees it.
    pub(crate) fn own_side(&self) -> Result<IpAddr, String> {
        let there = self.resolve()?;
        let any: SocketAddr = match there {
            SocketAddr::V4(_) => ([0, 0, 0, 0], 0).into(),
            SocketAddr::V6(_) => ([0_u16; 8], 0).into(),
        };
        // Nothing is sent: the system only chooses the way.
        let socket = UdpSocket::bind(any).and_then(|socket| {
            socket.connect(there)?;
            socket.local_addr()
        });
        let own = socket.map_err(|error| format!("{self}: no way there: {error}"))?;
        Ok(own.ip())
    }

    fn connect(&self) -> Result<TcpStream, String> {
        let there = self.resolve()?;
        let stream = TcpStream::connect_timeout(&there, PATIENCE);
        let stream = stream.map_err(|error| match error.kind() {
            ErrorKind::ConnectionRefused => format!("no scheduler answers at {self}: the connection was refused; start one with `inferscope cluster scheduler --bind {self}`"),
            ErrorKind::TimedOut => format!("no scheduler answers at {self} within {} s", PATIENCE.as_secs()),
            _ => format!("no scheduler answers at {self}: {error}"),
        })?;
        let set = stream.set_read_timeout(Some(PATIENCE));
        set.map_err(|error| format!("{self}: {error}"))?;
        Ok(stream)
    }

    /// Asks a scheduler whether executors have registered with it.
    pub(crate) fn has_executors(&self) -> Result<bool, String> {
        let mut stream = self.connect()?;
        let ask = format!("GET /readyz HTTP/1.1\r\nHost: {self}\r\nConnection: close\r\n\r\n");
        let asked = stream.write_all(ask.as_bytes());
        let mut answer = Vec::new();
        let read = asked.and_then(|()| stream.take(4096).read_to_end(&mut answer));
        let answer = String::from_utf8_lossy(&answer);
        let status = answer
            .strip_prefix("HTTP/1.1 ")
            .and_then(|rest| rest.get(..3));
        match (status, read) {
            (Some("200"), _) if answer.contains("executors registered") => Ok(true),
            (Some("503"), _) if answer.contains("executors registered") => Ok(false),
            _ => Err(format!(
                "what answers at {self} is no scheduler of Ballista; is it another service, or the port of an executor?"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_host_and_port() {
        let address: Address = "node1:50050".parse().unwrap();
        assert_eq!((address.host.as_str(), address.port), ("node1", 50050));
        assert_eq!(address.to_string(), "node1:50050");
        let url: Address = "df://node1:50050".parse().unwrap();
        assert_eq!(url, address);
        let six: Address = "[::1]:7".parse().unwrap();
        assert_eq!(six.resolve().unwrap().to_string(), "[::1]:7");
        for wrong in ["node1", "node1:", ":7", "node1:x", "node1:70000", ""] {
            assert!(wrong.parse::<Address>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn who_does_not_answer_is_named() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let address = Address {
            host: "127.0.0.1".to_owned(),
            port,
        };
        let serve = std::thread::spawn(move || {
            for answer in [
                "HTTP/1.1 404 Not Found\r\n\r\n",
                "HTTP/1.1 503 Service Unavailable\r\n\r\nnot ready: 0/1 executors registered\n",
                "HTTP/1.1 200 OK\r\n\r\nready: 1 executors registered\n",
            ] {
                let (mut stream, _) = listener.accept().unwrap();
                let mut asked = [0; 256];
                let _ = stream.read(&mut asked).unwrap();
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        let other = address.has_executors().unwrap_err();
        assert!(other.contains("is no scheduler"), "{other}");
        assert!(!address.has_executors().unwrap());
        assert!(address.has_executors().unwrap());
        serve.join().unwrap();
        let refused = address.has_executors().unwrap_err();
        assert!(refused.contains("the connection was refused"), "{refused}");
        let nowhere: Address = "no-such-host.invalid:1".parse().unwrap();
        let unknown = nowhere.has_executors().unwrap_err();
        assert!(unknown.contains("no host of this name"), "{unknown}");
    }
}
