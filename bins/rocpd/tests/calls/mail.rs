//! Tests of results by mail, to a server on this machine.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;

use rocpd_synth::Shape;

use crate::support::{Run, ok};

/// Starts a mail server that receives one message and returns its text.
fn mail_server(listener: TcpListener) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut answer = stream.try_clone().unwrap();
        let mut lines = BufReader::new(stream);
        let mut message = String::new();
        let mut in_data = false;
        answer.write_all(b"220 here\r\n").unwrap();
        let mut line = String::new();
        while lines.read_line(&mut line).unwrap() > 0 {
            if in_data {
                if line == ".\r\n" {
                    in_data = false;
                    answer.write_all(b"250 taken\r\n").unwrap();
                } else {
                    message.push_str(&line);
                }
            } else if line.starts_with("DATA") {
                in_data = true;
                answer.write_all(b"354 go on\r\n").unwrap();
            } else if line.starts_with("QUIT") {
                answer.write_all(b"221 bye\r\n").unwrap();
                break;
            } else {
                message.push_str(&line);
                answer.write_all(b"250 fine\r\n").unwrap();
            }
            line.clear();
        }
        message
    })
}

/// Starts a mail server that closes the connection before the message.
fn rude_server(listener: TcpListener) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut answer = stream.try_clone().unwrap();
        answer.write_all(b"220 here\r\n").unwrap();
        for line in BufReader::new(stream).lines() {
            if line.unwrap().starts_with("DATA") {
                return;
            }
            answer.write_all(b"250 fine\r\n").unwrap();
        }
    })
}

fn listening() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    (listener, port)
}

#[test]
fn mail_that_was_not_taken_is_an_error() {
    let run = Run::new(&Shape::small());
    let query = [
        "query",
        "--query",
        "SELECT 1 AS n",
        "--format",
        "csv",
        "-d",
        "out",
    ];
    let to = [
        "--email-to",
        "a@example.org",
        "--email-from",
        "me@example.org",
    ];
    let (listener, port) = listening();
    let server = rude_server(listener);
    let at = ["--smtp-server", "127.0.0.1", "--smtp-port", &port];
    let dropped = run.call(&[&query[..], &to, &at].concat());
    server.join().unwrap();
    assert_eq!(dropped.status.code(), Some(5));
    let said = String::from_utf8_lossy(&dropped.stderr).into_owned();
    assert!(
        said.contains(&format!("mail server 127.0.0.1:{port}")),
        "{said}"
    );
    // Addresses are checked before the query runs.
    let wrong = [
        "--email-to",
        "nobody",
        "--email-from",
        "me@example.org",
        "-o",
        "w",
    ];
    let wrong = run.call(&[&query[..], &wrong].concat());
    assert_eq!(wrong.status.code(), Some(2));
    assert!(!run.path("out/w.csv").exists());
    let no_password = run.call(&[&query[..], &to, &["--smtp-user", "me"]].concat());
    assert_eq!(no_password.status.code(), Some(2));
}

#[test]
fn a_password_is_not_sent_in_clear_text() {
    let run = Run::new(&Shape::small());
    let (listener, port) = listening();
    // This server offers no STARTTLS.
    let server = mail_server(listener);
    let refused = run.call(&[
        "query",
        "--query",
        "SELECT 1 AS n",
        "--format",
        "csv",
        "--email-to",
        "a@example.org",
        "--email-from",
        "me@example.org",
        "--smtp-server",
        "127.0.0.1",
        "--smtp-port",
        &port,
        "--smtp-user",
        "me",
        "--smtp-password",
        "secret",
    ]);
    let message = server.join().unwrap();
    assert_eq!(refused.status.code(), Some(5));
    assert!(!message.contains("AUTH"), "{message}");
}

#[test]
fn what_the_console_shows_is_mailed_as_csv() {
    let run = Run::new(&Shape::small());
    let (listener, port) = listening();
    let server = mail_server(listener);
    let shown = ok(&run.call(&[
        "query",
        "--query",
        "SELECT 41 + 1 AS answer",
        "--email-to",
        "a@example.org",
        "--email-from",
        "me@example.org",
        "--smtp-server",
        "127.0.0.1",
        "--smtp-port",
        &port,
        "--inline-preview",
        "-o",
        "mine",
    ]));
    let message = server.join().unwrap();
    assert!(shown.contains("42"));
    assert!(message.contains("filename=\"mine.csv\""), "{message}");
    assert!(message.contains("answer\r\n42\r\n"), "{message}");
    // No files are left behind.
    assert_eq!(crate::support::names_in(run.folder.path()), ["in"]);
}

#[test]
fn results_by_mail() {
    let run = Run::new(&Shape::small());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let server = mail_server(listener);
    ok(&run.call(&[
        "query",
        "--query",
        "SELECT COUNT(*) AS n FROM kernels",
        "--format",
        "csv",
        "-d",
        "out",
        "--email-to",
        "a@example.org,b@example.org",
        "--email-from",
        "me@example.org",
        "--smtp-server",
        "127.0.0.1",
        "--smtp-port",
        &port,
        "--inline-preview",
        "--zip-attachments",
    ]));
    let message = server.join().unwrap();
    assert!(
        message.contains("RCPT TO:<a@example.org>") && message.contains("RCPT TO:<b@example.org>")
    );
    assert!(message.contains("Subject: SQLite Query Report"));
    assert!(message.contains("out.csv.zip"));
}
