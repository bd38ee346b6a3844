//! Results by mail, to a server on this machine.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;

use rocpd_synth::Shape;

use crate::support::{Run, ok};

/// A mail server that takes one message and returns its text.
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
