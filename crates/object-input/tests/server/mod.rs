//! A server on loopback: files of a web server, and buckets as S3 has them (path style, two keys a page).

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panic")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How an object is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// With ranges and an ETag.
    Whole,
    /// All of it, whatever range is asked for, and no ETag.
    WithoutRanges,
    /// Without an ETag; responses break off behind this byte.
    EndsAt(usize),
    /// With a status and an S3 code.
    Status(u16, &'static str),
    /// In small pieces with pauses.
    Slow,
    /// With another ETag for each request.
    Changes,
    /// Once; then it is gone.
    GoneAfter(usize),
}

#[derive(Clone, Debug)]
struct Object {
    bytes: Arc<Vec<u8>>,
    answer: Answer,
    asked: usize,
}

#[derive(Debug, Default)]
struct State {
    objects: BTreeMap<String, Object>,
    requests: Vec<Request>,
}

/// A request that was answered.
#[derive(Clone, Debug, Default)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// Path without the first slash.
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) range: Option<(usize, usize)>,
    pub(crate) authorization: Option<String>,
}

/// The server; it runs until the process ends.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(crate) url: String,
    state: Arc<Mutex<State>>,
}

impl Server {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(Mutex::new(State::default()));
        let own = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = Arc::clone(&own);
                std::thread::spawn(move || _ = serve(&stream, &state));
            }
        });
        Self { url, state }
    }

    /// Adds or replaces an object.
    pub(crate) fn put(&self, path: &str, bytes: impl Into<Vec<u8>>, answer: Answer) {
        let object = Object {
            bytes: Arc::new(bytes.into()),
            answer,
            asked: 0,
        };
        let mut state = self.state.lock().unwrap();
        state.objects.insert(path.to_owned(), object);
    }

    /// Returns the requests since the last call.
    pub(crate) fn requests(&self) -> Vec<Request> {
        std::mem::take(&mut self.state.lock().unwrap().requests)
    }
}

fn serve(stream: &TcpStream, state: &Mutex<State>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    loop {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            let line = line.trim_end().to_owned();
            if line.is_empty() {
                break;
            }
            lines.push(line);
        }
        let request = parse(&lines);
        let mut out = stream;
        if !answer(&request, state, &mut out)? {
            return stream.shutdown(std::net::Shutdown::Both);
        }
    }
}

fn parse(lines: &[String]) -> Request {
    let mut words = lines[0].split(' ');
    let method = words.next().unwrap_or_default().to_owned();
    let target = words.next().unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let header = |name: &str| {
        let found = lines.iter().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        });
        found.map(str::to_owned)
    };
    let range = header("range").and_then(|value| {
        let (from, to) = value.strip_prefix("bytes=")?.split_once('-')?;
        Some((from.parse().ok()?, to.parse().ok()?))
    });
    Request {
        method,
        path: decoded(path.trim_start_matches('/')),
        query: query.to_owned(),
        range,
        authorization: header("authorization"),
    }
}

fn decoded(text: &str) -> String {
    let mut out = Vec::new();
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' => {
                let digits = [bytes.next().unwrap(), bytes.next().unwrap()];
                let digits = std::str::from_utf8(&digits).unwrap().to_owned();
                out.push(u8::from_str_radix(&digits, 16).unwrap());
            }
            b'+' => out.push(b' '),
            byte => out.push(byte),
        }
    }
    String::from_utf8(out).unwrap()
}

/// Answers a request. Returns `false` if the connection breaks off.
fn answer(request: &Request, state: &Mutex<State>, out: &mut &TcpStream) -> std::io::Result<bool> {
    let mut locked = state.lock().unwrap();
    locked.requests.push(request.clone());
    if request.query.contains("list-type=2") {
        let (status, text) = list(request, &locked);
        drop(locked);
        return whole(out, status, &text);
    }
    if !["GET", "HEAD"].contains(&request.method.as_str()) {
        drop(locked);
        return whole(out, 501, "");
    }
    let bucket = request
        .path
        .split('/')
        .next()
        .unwrap_or_default()
        .to_owned();
    let has_bucket = locked
        .objects
        .keys()
        .any(|key| key.starts_with(&format!("{bucket}/")));
    let Some(object) = locked.objects.get_mut(&request.path) else {
        drop(locked);
        let code = if has_bucket {
            "NoSuchKey"
        } else {
            "NoSuchBucket"
        };
        return whole(out, 404, &format!("<Error><Code>{code}</Code></Error>"));
    };
    object.asked += 1;
    let object = object.clone();
    drop(locked);
    let (from, to) = match (object.answer, request.range) {
        (Answer::WithoutRanges, _) | (_, None) => (0, object.bytes.len()),
        (_, Some((from, to))) => (from, object.bytes.len().min(to + 1)),
    };
    match object.answer {
        Answer::Status(status, code) => {
            return whole(out, status, &format!("<Error><Code>{code}</Code></Error>"));
        }
        Answer::GoneAfter(times) if object.asked > times => {
            return whole(out, 404, "<Error><Code>NoSuchKey</Code></Error>");
        }
        _ if from >= object.bytes.len() && request.range.is_some() && from > 0 => {
            return whole(out, 416, "");
        }
        _ => {}
    }
    let is_part = request.range.is_some() && object.answer != Answer::WithoutRanges;
    if is_part && object.bytes.is_empty() {
        return whole(out, 416, "");
    }
    let mut head = match is_part {
        true => format!(
            "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes {from}-{}/{}\r\n",
            to - 1,
            object.bytes.len()
        ),
        false => "HTTP/1.1 200 OK\r\n".to_owned(),
    };
    write!(head, "Content-Length: {}\r\n", to - from).unwrap();
    match object.answer {
        Answer::WithoutRanges | Answer::EndsAt(_) => {}
        Answer::Changes => write!(head, "ETag: \"{}\"\r\n", object.asked).unwrap(),
        _ => write!(head, "ETag: {}\r\n", tag(&object)).unwrap(),
    }
    head.push_str("Last-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\n\r\n");
    out.write_all(head.as_bytes())?;
    if request.method == "HEAD" {
        return Ok(true);
    }
    let bytes = &object.bytes[from..to];
    match object.answer {
        Answer::EndsAt(end) if to > end => {
            out.write_all(&bytes[..end.saturating_sub(from)])?;
            Ok(false)
        }
        Answer::Slow => {
            for piece in bytes.chunks(bytes.len().div_ceil(7).max(1)) {
                std::thread::sleep(Duration::from_millis(3));
                out.write_all(piece)?;
            }
            Ok(true)
        }
        _ => out.write_all(bytes).map(|()| true),
    }
}

fn tag(object: &Object) -> String {
    let sum = object.bytes.iter().fold(7_u64, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(u64::from(*byte))
    });
    format!("\"{sum:x}\"")
}

fn whole(out: &mut &TcpStream, status: u16, text: &str) -> std::io::Result<bool> {
    let length = text.len();
    write!(
        out,
        "HTTP/1.1 {status} Status\r\nContent-Length: {length}\r\n\r\n{text}"
    )?;
    Ok(true)
}

/// Returns a page of a listing.
fn list(request: &Request, state: &State) -> (u16, String) {
    let value = |name: &str| {
        let pairs = request.query.split('&');
        let found = pairs.filter_map(|pair| pair.split_once('='));
        let mut found = found.filter(|(key, _)| *key == name);
        found.next().map(|(_, value)| decoded(value))
    };
    let bucket = request.path.trim_end_matches('/');
    let own = format!("{bucket}/");
    let keys = state
        .objects
        .iter()
        .filter(|(key, _)| key.starts_with(&own));
    let keys: Vec<(&str, &Object)> = keys.map(|(key, o)| (&key[own.len()..], o)).collect();
    if keys.is_empty() {
        return (404, "<Error><Code>NoSuchBucket</Code></Error>".to_owned());
    }
    let denied = keys.iter().any(|(key, _)| *key == ".denied");
    if denied {
        return (403, "<Error><Code>AccessDenied</Code></Error>".to_owned());
    }
    let prefix = value("prefix").unwrap_or_default();
    let after = value("continuation-token").unwrap_or_default();
    let mut keys = keys
        .into_iter()
        .filter(|(key, _)| key.starts_with(&prefix) && *key > after.as_str())
        .peekable();
    let mut text = format!("<ListBucketResult><Name>{bucket}</Name>");
    let mut last = "";
    for (key, object) in keys.by_ref().take(2) {
        last = key;
        write!(
            text,
            "<Contents><Key>{key}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>{}</ETag><Size>{}</Size></Contents>",
            tag(object),
            object.bytes.len()
        )
        .unwrap();
    }
    match keys.peek() {
        Some(_) => write!(
            text,
            "<IsTruncated>true</IsTruncated><NextContinuationToken>{last}</NextContinuationToken>"
        ),
        None => write!(text, "<IsTruncated>false</IsTruncated>"),
    }
    .unwrap();
    text.push_str("</ListBucketResult>");
    (200, text)
}
