//! The page in a browser: Chromium, driven through its DevTools protocol over two pipes.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use findings::Document;
use serde_json::{Value, json};

use crate::documents;

/// A browser with one page.
struct Browser {
    child: Child,
    send: ChildStdin,
    receive: BufReader<ChildStdout>,
    session: Option<String>,
    last: u64,
    /// Console messages, exceptions, violations of the security policy.
    errors: Vec<String>,
    /// Addresses that were requested.
    requests: Vec<String>,
    _profile: tempfile::TempDir,
}

impl Browser {
    /// Starts the browser. It takes its commands from descriptor 3 and answers on 4, each message ended by a zero byte.
    fn start() -> Self {
        let profile = tempfile::tempdir().unwrap();
        let name = ["chromium", "chromium-browser", "google-chrome"]
            .into_iter()
            .find(|name| {
                Command::new(name)
                    .arg("--version")
                    .stdout(Stdio::null())
                    .stderr(Stdio::null())
                    .status()
                    .is_ok_and(|status| status.success())
            })
            .expect("no Chromium here: install it (Debian: chromium)");
        let line = format!(
            "exec {name} --headless --no-sandbox --disable-gpu --no-first-run --disable-extensions --disable-background-networking \
             --disable-component-update --remote-debugging-pipe --window-size=1440,1000 --user-data-dir='{}' about:blank \
             3<&0 4>&1 0</dev/null 1>/dev/null 2>/dev/null",
            profile.path().display()
        );
        let mut child = Command::new("sh")
            .args(["-c", &line])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (send, receive) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut browser = Self {
            child,
            send,
            receive: BufReader::new(receive),
            session: None,
            last: 0,
            errors: Vec::new(),
            requests: Vec::new(),
            _profile: profile,
        };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attached = browser.call(
            "Target.attachToTarget",
            json!({ "targetId": target["targetId"], "flatten": true }),
        );
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    fn call(&mut self, method: &str, params: Value) -> Value {
        self.last += 1;
        let mut message = json!({ "id": self.last, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.send.write_all(message.to_string().as_bytes()).unwrap();
        self.send.write_all(&[0]).unwrap();
        loop {
            let answer = self.read();
            if answer["id"] == json!(self.last) {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].clone();
            }
        }
    }

    fn read(&mut self) -> Value {
        let mut bytes = Vec::new();
        self.receive.read_until(0, &mut bytes).unwrap();
        bytes.pop();
        let message: Value = serde_json::from_slice(&bytes).expect("the browser ended");
        let params = &message["params"];
        match message["method"].as_str() {
            Some("Runtime.exceptionThrown") => {
                self.errors.push(params["exceptionDetails"].to_string())
            }
            Some("Runtime.consoleAPICalled") => self.errors.push(params["args"].to_string()),
            Some("Log.entryAdded") => self.errors.push(params["entry"].to_string()),
            Some("Network.requestWillBeSent") => self
                .requests
                .push(params["request"]["url"].as_str().unwrap().to_owned()),
            _ => {}
        }
        message
    }

    fn wait_for(&mut self, event: &str) {
        while self.read()["method"] != json!(event) {}
    }

    /// Opens a page from disk, at a width.
    fn open(&mut self, html: &str, width: u32) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("page.html");
        fs::write(&path, html).unwrap();
        self.call(
            "Emulation.setDeviceMetricsOverride",
            json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false }),
        );
        self.errors.clear();
        self.requests.clear();
        self.call(
            "Page.navigate",
            json!({ "url": format!("file://{}", path.display()) }),
        );
        self.wait_for("Page.loadEventFired");
        folder
    }

    /// Evaluates a script in the page.
    fn value(&mut self, script: &str) -> Value {
        let result = self.call(
            "Runtime.evaluate",
            json!({ "expression": script, "returnByValue": true, "awaitPromise": true }),
        );
        assert!(result["exceptionDetails"].is_null(), "{script}: {result}");
        result["result"]["value"].clone()
    }

    fn press(&mut self, key: &str) {
        for kind in ["keyDown", "keyUp"] {
            let text = if kind == "keyDown" && key.chars().count() == 1 {
                key
            } else {
                ""
            };
            self.call(
                "Input.dispatchKeyEvent",
                json!({ "type": kind, "key": key, "text": text }),
            );
        }
    }

    /// Waits until the page has drawn.
    fn drawn(&mut self) {
        self.value("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))");
    }

    fn assert_quiet(&self, name: &str) {
        assert!(self.errors.is_empty(), "{name}: {:?}", self.errors);
        let foreign: Vec<&String> = self
            .requests
            .iter()
            .filter(|url| !url.starts_with("file://") && *url != "data:,")
            .collect();
        assert!(
            foreign.is_empty() && self.requests.len() <= 2,
            "{name}: {:?}",
            self.requests
        );
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads every number and text that names its place, and text with digits that names none.
const READ: &str = r#"
(() => {
  const shown = [...document.querySelectorAll("[data-path]")].map((at) => ({
    path: at.dataset.path, unit: at.dataset.unit || "", exact: at.dataset.v ?? null, text: at.textContent,
  }));
  const strays = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const node = walk.currentNode;
    const at = node.parentElement;
    if (/\d/.test(node.data) && !at.closest("[data-path], script, title, .panel-x, .panel-y, .panel-l, .ruler, .readout, .tag, .flame svg, .key, .heat-y"))
      strays.push(node.data.trim());
  }
  return { shown, strays };
})()
"#;

/// Returns the value that a shown number means, and half a unit of its last digit.
fn meaning(text: &str, unit: &str) -> (f64, f64) {
    let text = text.replace('−', "-").replace(',', "");
    let text = text.trim_start_matches('+');
    if let Some(rest) = text.strip_prefix('<').or(text.strip_prefix('>')) {
        // "<0.01 %": somewhere between it and zero.
        let (value, _) = meaning(rest, unit);
        return (value / 2.0, value.abs() / 2.0);
    }
    let mut words = text.split(' ');
    let (mut value, mut half) = (0.0, 0.0);
    while let Some(number) = words.next() {
        let decimals = number.split_once('.').map_or(0, |(_, digits)| digits.len());
        let scale = match (unit, words.next().unwrap_or_default()) {
            ("ns", "ns")
            | ("count" | "length" | "rest" | "length_ns" | "large", "")
            | ("pct", "%")
            | ("bytes", "B")
            | ("rate", "B/s") => 1.0,
            ("length_ns", "ns") => 1.0,
            ("ns" | "length_ns", "µs") | ("large", "k") | ("rate", "kB/s") => 1e3,
            ("ns" | "length_ns", "ms") | ("large", "M") | ("rate", "MB/s") => 1e6,
            ("ns" | "length_ns", "s") | ("large", "G") | ("rate", "GB/s") => 1e9,
            ("large", "T") | ("rate", "TB/s") => 1e12,
            ("ns", "min") => 60e9,
            ("ns", "h") => 3600e9,
            ("ns", "d") => 86_400e9,
            ("bytes", "KiB") => 1024.0,
            ("bytes", "MiB") => 1024.0 * 1024.0,
            ("bytes", "GiB") => 1024.0 * 1024.0 * 1024.0,
            ("bytes", "TiB") => 1024.0 * 1024.0 * 1024.0 * 1024.0,
            (unit, word) => panic!("unknown unit {unit} {word} in {text:?}"),
        };
        value += number.parse::<f64>().unwrap_or_else(|_| panic!("{text:?}")) * scale;
        half = 0.5 * scale / 10_f64.powi(i32::try_from(decimals).unwrap());
    }
    (value, half)
}

fn expand(text: &str) -> Vec<u64> {
    text.split(", ")
        .flat_map(|run| match run.split_once(" to ") {
            Some((first, last)) => first.parse().unwrap()..=last.parse().unwrap(),
            None => run.parse().unwrap()..=run.parse().unwrap(),
        })
        .collect()
}

/// Compares everything shown with the document; returns how many numbers were compared.
fn compare(name: &str, document: &Value, read: &Value) -> usize {
    let mut numbers = 0;
    for shown in read["shown"].as_array().unwrap() {
        let (path, unit) = (
            shown["path"].as_str().unwrap(),
            shown["unit"].as_str().unwrap(),
        );
        let text = shown["text"].as_str().unwrap();
        let value = document
            .pointer(path)
            .unwrap_or_else(|| panic!("{name}: {path} is not in the JSON"));
        let exact = shown["exact"].as_str();
        let number = || exact.unwrap().parse::<f64>().unwrap();
        match unit {
            "text" => {
                let whole = report::text::printable(value.as_str().unwrap()).replace('`', "");
                let (head, tail) = text.split_once('…').unwrap_or((text, ""));
                let (head, tail) = (head.replace('`', ""), tail.replace('`', ""));
                assert!(
                    whole == text.replace('`', "")
                        || (whole.starts_with(&head) && whole.ends_with(&tail)),
                    "{name}: {path}: {text:?} is not {whole:?}"
                );
                continue;
            }
            "ranges" => {
                let list: Vec<u64> = value
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|one| one.as_u64().unwrap())
                    .collect();
                assert_eq!(expand(text), list, "{name}: {path}");
                continue;
            }
            "length" => assert_eq!(
                exact.unwrap(),
                value.as_array().unwrap().len().to_string(),
                "{name}: {path}"
            ),
            "rest" => assert!(
                number() < value.as_array().unwrap().len() as f64,
                "{name}: {path}"
            ),
            "length_ns" => assert_eq!(
                exact.unwrap(),
                (value["end_ns"].as_i64().unwrap() - value["begin_ns"].as_i64().unwrap())
                    .to_string(),
                "{name}: {path}"
            ),
            _ => match value.as_i64() {
                Some(whole) if unit == "ns" || unit == "count" => {
                    assert_eq!(exact.unwrap(), whole.to_string(), "{name}: {path}")
                }
                _ => assert!(
                    (number() - value.as_f64().unwrap()).abs() <= 1e-12 * number().abs(),
                    "{name}: {path}"
                ),
            },
        }
        let (meant, half) = meaning(text, unit);
        assert!(
            (meant - number()).abs() <= half * 1.0001 || text.matches(' ').count() == 3,
            "{name}: {path}: {text} is not {}",
            number()
        );
        numbers += 1;
    }
    let strays: Vec<&str> = read["strays"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let strays: Vec<&&str> = strays
        .iter()
        .filter(|text| !text.starts_with("0 shows all"))
        .collect();
    assert!(
        strays.is_empty(),
        "{name}: numbers without a place: {strays:?}"
    );
    numbers
}

#[test]
#[ignore = "needs chromium (Debian: chromium)"]
fn browser_shows_the_numbers_of_the_document() {
    let mut browser = Browser::start();
    for (name, document) in documents::all() {
        let html = pages::html(&document);
        let _folder = browser.open(&html, 1440);
        let read = browser.value(READ);
        let least = if name == "cannot-say" { 5 } else { 100 };
        let numbers = compare(name, &serde_json::to_value(&document).unwrap(), &read);
        assert!(numbers >= least, "{name}: {numbers} numbers");
        browser.assert_quiet(name);
        spans_are_those_of_the_document(&mut browser, &document);
        frames_are_sums_of_the_stacks(&mut browser, &document);
    }
}

/// The comparison notices a wrong digit, a wrong unit, a wrong place and a number without a place.
#[test]
#[ignore = "needs chromium (Debian: chromium)"]
fn browser_comparison_notices_errors() {
    let mut browser = Browser::start();
    let document = documents::healthy();
    let json = serde_json::to_value(&document).unwrap();
    let page = pages::html(&document);
    for (from, to) in [
        (">9.812 ms<", ">9.813 ms<"),
        (">9.812 ms<", ">9.812 µs<"),
        ("data-v=\"9812000\"", "data-v=\"9812001\""),
        (
            "/budget/0/parts/0/per_step_ns",
            "/budget/0/parts/1/per_step_ns",
        ),
        ("<h2 id=\"appendix-h\">", "<h2 id=\"appendix-h\">7 "),
        ("At the limit of the device", "At the end of the device"),
    ] {
        assert!(page.contains(from), "{from}");
        let _folder = browser.open(&page.replace(from, to), 1440);
        let read = browser.value(READ);
        let found = std::panic::catch_unwind(|| compare("changed", &json, &read));
        assert!(found.is_err(), "{from} became {to}");
    }
}

/// Lines of the timelines have the begin and duration of their span.
fn spans_are_those_of_the_document(browser: &mut Browser, document: &Document) {
    let drawn = browser.value("[...document.querySelectorAll('.spans path[data-i]')].map((path) => [path.parentElement.dataset.lane, Number(path.dataset.i), path.getAttribute('d')])");
    let json = serde_json::to_value(document).unwrap();
    for span in drawn.as_array().unwrap() {
        let span_json = json
            .pointer(&format!("{}/spans/{}", span[0].as_str().unwrap(), span[1]))
            .unwrap();
        let path = span[2].as_str().unwrap();
        let begin = path
            .strip_prefix('M')
            .and_then(|rest| rest.split_once(' '))
            .unwrap()
            .0;
        let long = path.split_once('h').unwrap().1;
        assert_eq!(
            (begin, long),
            (
                span_json["begin_ns"].to_string().as_str(),
                span_json["duration_ns"].to_string().as_str()
            )
        );
    }
}

/// The tooltip of each frame has the sum of the stacks through it, which is computed here anew.
fn frames_are_sums_of_the_stacks(browser: &mut Browser, document: &Document) {
    let mut sums: std::collections::BTreeMap<Vec<&str>, i64> = std::collections::BTreeMap::new();
    for stack in &document.figures.stacks {
        for depth in 1..=stack.frames.len() {
            let key = stack.frames[..depth].iter().map(String::as_str).collect();
            *sums.entry(key).or_default() += stack.gpu_ns;
        }
    }
    let mut expected: Vec<(String, i64)> = sums
        .into_iter()
        .map(|(frames, sum)| ((*frames.last().unwrap()).to_owned(), sum))
        .collect();
    expected.sort();
    let titles = browser
        .value("[...document.querySelectorAll('.flame rect title')].map((at) => at.textContent)");
    let mut found = Vec::new();
    for title in titles.as_array().unwrap() {
        let mut lines = title.as_str().unwrap().lines();
        let (name, amount) = (lines.next().unwrap(), lines.next().unwrap());
        if name != "all stacks" {
            found.push((
                name.to_owned(),
                meaning(amount.split_once(" (").unwrap().0, "ns"),
            ));
        }
    }
    found.sort_by(|a, b| (&a.0, a.1.0).partial_cmp(&(&b.0, b.1.0)).unwrap());
    assert!(found.len() == expected.len(), "{found:?}");
    for ((name, (meant, half)), (expected, sum)) in found.iter().zip(&expected) {
        assert!(
            name == expected && (meant - *sum as f64).abs() <= *half,
            "{name} {meant} is not {expected} {sum}"
        );
    }
}

#[test]
#[ignore = "needs chromium (Debian: chromium)"]
fn browser_controls_work() {
    let mut browser = Browser::start();
    let document = documents::late_rank();
    let _folder = browser.open(&pages::html(&document), 1440);
    // Evidence.
    let open = "[...document.querySelectorAll('.finding details')].filter((at) => at.open).length";
    browser.value("document.querySelector('.finding summary').click()");
    assert_eq!(browser.value(open), json!(1));
    browser.value("document.querySelector('[data-open]').click()");
    assert_eq!(browser.value(open), json!(document.findings.len()));
    browser.value("document.querySelector('[data-open]').click()");
    assert_eq!(browser.value(open), json!(0));
    browser.value("document.querySelector('.jump a').click()");
    browser.value("new Promise((done) => setTimeout(done, 50))");
    assert_eq!(
        browser.value("document.querySelector('#f0 details').open"),
        json!(true)
    );
    // Copying ends in the clipboard or in a selection of the command.
    browser.value("document.querySelector('.next .copy').click()");
    let done = "new Promise((done) => { const wait = () => { const text = document.querySelector('.next .copy').textContent; text === 'copy' ? setTimeout(wait, 5) : done(text); }; wait(); })";
    assert!(
        ["copied", "selected"]
            .map(Value::from)
            .contains(&browser.value(done))
    );
    // Timelines: buttons and keys.
    let view = "document.querySelector('.spans').getAttribute('viewBox').split(' ').map(Number)";
    let range = |browser: &mut Browser| {
        browser.drawn();
        let view = browser.value(view);
        (view[0].as_f64().unwrap(), view[2].as_f64().unwrap())
    };
    let all = range(&mut browser);
    assert!(all.0 == 0.0);
    browser.value("document.querySelector('[data-zoom=in]').click()");
    let near = range(&mut browser);
    assert!(
        (near.1 - all.1 / 2.0).abs() < 2.0 && near.0 > 0.0,
        "{near:?}"
    );
    browser.value("document.querySelector('[data-zoom=right]').click()");
    let right = range(&mut browser);
    assert!(right.0 > near.0 && (right.1 - near.1).abs() < 2.0);
    browser.value("document.querySelector('[data-zoom=left]').click()");
    assert!((range(&mut browser).0 - near.0).abs() < 2.0);
    browser.value("document.querySelector('[data-zoom=out]').click()");
    assert_eq!(range(&mut browser), all);
    browser.value("document.getElementById('timelines').focus()");
    browser.press("+");
    assert!(range(&mut browser).1 < all.1);
    browser.press("ArrowRight");
    browser.press("-");
    browser.press("0");
    assert_eq!(range(&mut browser), all);
    browser.value("document.querySelector('[data-zoom=in]').click()");
    browser.drawn();
    browser.value("document.querySelector('[data-zoom=all]').click()");
    assert_eq!(range(&mut browser), all);
    // Wheel, drag, hover.
    browser.value("(() => { const svg = document.querySelector('.spans'); const box = svg.getBoundingClientRect(); svg.dispatchEvent(new WheelEvent('wheel', { deltaY: -100, ctrlKey: true, clientX: box.left + 10, cancelable: true })); })()");
    let wheeled = range(&mut browser);
    assert!(wheeled.1 < all.1);
    let box_of = browser.value("(() => { document.querySelector('.spans').scrollIntoView({ block: 'center', behavior: 'instant' }); const box = document.querySelector('.spans').getBoundingClientRect(); return [box.left, box.top, box.width, box.height]; })()");
    let (left, top, wide) = (
        box_of[0].as_f64().unwrap(),
        box_of[1].as_f64().unwrap(),
        box_of[2].as_f64().unwrap(),
    );
    for (kind, x, buttons) in [
        ("mousePressed", wide / 2.0, 1),
        ("mouseMoved", wide / 4.0, 1),
        ("mouseReleased", wide / 4.0, 0),
    ] {
        browser.call("Input.dispatchMouseEvent", json!({ "type": kind, "x": left + x, "y": top + 12.0, "button": "left", "buttons": buttons, "clickCount": 1 }));
    }
    let mut dragged = range(&mut browser);
    // On a busy machine the page handles input some frames later.
    for _ in 0..100 {
        if dragged.0 > wheeled.0 {
            break;
        }
        dragged = range(&mut browser);
    }
    assert!(dragged.0 > wheeled.0, "{dragged:?} {wheeled:?}");
    browser.value("document.querySelector('[data-zoom=all]').click()");
    browser.drawn();
    let hover = browser.value("(() => { const path = document.querySelectorAll('.spans path[data-i]')[3]; path.dispatchEvent(new PointerEvent('pointerover', { bubbles: true })); return document.querySelector('#timelines .readout').textContent; })()");
    let span = &document.figures.timelines[0].lanes[0].spans[3];
    let hover = hover.as_str().unwrap();
    assert!(hover.ends_with(&span.name), "{hover}");
    let (meant, half) = meaning(hover.split(" at ").next().unwrap(), "ns");
    assert!((meant - span.duration_ns as f64).abs() <= half, "{hover}");
    // Search and order of the kernels.
    let search = |browser: &mut Browser, part: &str, text: &str| {
        browser.value(&format!("(() => {{ const input = document.querySelector('{part} input'); input.value = {}; input.dispatchEvent(new Event('input')); }})()", json!(text)));
    };
    let rows = "[...document.querySelectorAll('#kernels tbody tr')].filter((row) => !row.hidden).map((row) => row.cells[0].querySelector('bdi').textContent)";
    search(&mut browser, "#kernels", "attention");
    assert_eq!(browser.value(rows), json!(["paged attention, decode"]));
    search(&mut browser, "#kernels", "");
    browser.value("document.querySelectorAll('#kernels th button')[2].click()");
    let mut calls: Vec<u64> = document
        .figures
        .kernels
        .iter()
        .map(|kernel| kernel.calls)
        .collect();
    calls.sort_by_key(|calls| std::cmp::Reverse(*calls));
    let shown = "[...document.querySelectorAll('#kernels tbody tr')].map((row) => Number(row.cells[2].querySelector('[data-v]').dataset.v))";
    assert_eq!(browser.value(shown), json!(calls));
    browser.value("document.querySelectorAll('#kernels th button')[2].click()");
    calls.reverse();
    assert_eq!(browser.value(shown), json!(calls));
    browser.value("document.querySelectorAll('#kernels th button')[0].click()");
    let mut names: Vec<&str> = document
        .figures
        .kernels
        .iter()
        .map(|kernel| kernel.label.as_str())
        .collect();
    names.sort_by_key(|name| name.to_lowercase());
    assert_eq!(browser.value(rows), json!(names));
    search(&mut browser, "#host", "schedule");
    assert_eq!(
        browser.value(
            "[...document.querySelectorAll('#host tbody tr')].filter((row) => !row.hidden).length"
        ),
        json!(1)
    );
    // Search in the flame graph.
    search(&mut browser, ".flame", "moe.forward");
    assert_eq!(
        browser.value("document.querySelectorAll('.flame rect.hit').length"),
        json!(1)
    );
    search(&mut browser, ".flame", "");
    assert_eq!(
        browser.value("document.querySelectorAll('.flame rect.hit, .flame svg.searching').length"),
        json!(0)
    );
    // Lateness, by pointer and by key.
    let lateness = document.figures.lateness.as_ref().unwrap();
    let read = browser.value("(() => { const heat = document.getElementById('heat'); const box = heat.getBoundingClientRect(); heat.dispatchEvent(new PointerEvent('pointermove', { clientX: box.left + 0.5 * box.width / 96, clientY: box.top + 3.5 * box.height / 8 })); return document.getElementById('heat-readout').textContent; })()");
    let read = read.as_str().unwrap();
    let (meant, half) = meaning(
        read.strip_prefix("rank 3, step 1: ")
            .unwrap_or_else(|| panic!("{read}")),
        "ns",
    );
    assert!(
        (meant - lateness.late_ns[3][0].unwrap() as f64).abs() <= half,
        "{read}"
    );
    browser.value("document.querySelector('.heat').focus()");
    browser.press("ArrowRight");
    let read = browser.value("document.getElementById('heat-readout').textContent");
    assert!(
        read.as_str().unwrap().starts_with("rank 3, step 2: "),
        "{read}"
    );
    browser.assert_quiet("controls");
}

#[test]
#[ignore = "needs chromium (Debian: chromium)"]
fn browser_fits_every_width_and_needs_no_script() {
    let mut browser = Browser::start();
    for (name, mut document) in documents::all() {
        for file in &mut document.scope.files {
            file.name = format!("{}/{}", "folder-without-a-blank".repeat(20), file.name);
        }
        for finding in &mut document.findings {
            finding.title = format!(
                "{} {}",
                finding.title,
                "UnbrokenNameOfTemplateParameters".repeat(12)
            );
            finding.place.name = Some("at::native::vectorized_elementwise_kernel<4,".repeat(30));
        }
        let html = pages::html(&document);
        for width in [400, 700, 1180, 2000] {
            let _folder = browser.open(&html, width);
            let wide = browser
                .value("document.documentElement.scrollWidth")
                .as_u64()
                .unwrap();
            assert!(wide <= u64::from(width), "{name}: {wide} pixels at {width}");
            // Header and sections stand below each other, or beside the contents.
            let boxes = browser.value("['.answer', 'main', 'nav'].map((what) => document.querySelector(what).getBoundingClientRect()).map((at) => [at.left, at.top, at.right, at.bottom])");
            let edge = |part: usize, side: usize| boxes[part][side].as_f64().unwrap();
            assert!(edge(0, 3) <= edge(1, 1), "{name} at {width}: {boxes}");
            assert!(
                edge(2, 2) <= edge(0, 0) || (edge(2, 1) >= edge(0, 3) && edge(2, 3) <= edge(1, 1)),
                "{name} at {width}: {boxes}"
            );
        }
        browser.call(
            "Emulation.setScriptExecutionDisabled",
            json!({ "value": true }),
        );
        let _folder = browser.open(&html, 1000);
        let root = browser
            .call("DOM.getDocument", json!({ "depth": -1 }))
            .to_string();
        assert!(
            root.contains("Appendix") && root.contains("step time"),
            "{name}"
        );
        browser.call(
            "Emulation.setScriptExecutionDisabled",
            json!({ "value": false }),
        );
        browser.assert_quiet(name);
        // Print.
        let pdf = browser.call("Page.printToPDF", json!({ "printBackground": true }));
        assert!(pdf["data"].as_str().unwrap().len() > 10_000, "{name}");
    }
}
