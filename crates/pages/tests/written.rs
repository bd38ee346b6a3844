//! Pages and Markdown as text: size, escaping, order, JSON.

use findings::*;

use crate::documents::{self, DECODE, Random};

/// Keeps what was written where a person can look at it.
fn keep(name: &str, text: &str) {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("pages");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(name), text).unwrap();
}

#[test]
fn documents_survive_json() {
    for (name, document) in documents::all() {
        let text = serde_json::to_string(&document).unwrap();
        let back: Document = serde_json::from_str(&text).unwrap();
        assert!(back == document, "{name}");
        let page = pages::html(&document);
        assert!(page == pages::html(&back), "{name}");
        keep(&format!("{name}.html"), &page);
        keep(&format!("{name}.md"), &pages::markdown(&document));
    }
}

/// Returns the headings of the second level.
fn headings(page: &str) -> Vec<&str> {
    page.split("<h2 ")
        .skip(1)
        .filter_map(|rest| rest.split_once('>')?.1.split_once("</h2>"))
        .map(|(heading, _)| heading)
        .collect()
}

#[test]
fn sections_have_a_fixed_order_and_none_is_empty() {
    let mut document = documents::storage();
    document.comparison = documents::two_sides().comparison;
    let expected = [
        "Where a step&#39;s time goes",
        "Findings",
        "Best, median and worst step",
        "Steps over time",
        "Late ranks",
        "Distance from the limits of the device",
        "Kernels and classes",
        "Launch stacks",
        "Host functions in gaps",
        "GPU memory",
        "Storage beside the steps",
        "Baseline and candidate",
        "Not recorded",
        "Appendix",
    ]
    .map(|heading| heading.replace("&#39;", "'"));
    assert_eq!(headings(&pages::html(&document)), expected);
    let page = pages::html(&documents::cannot_say());
    assert_eq!(headings(&page), ["Next", "Not recorded", "Appendix"]);
    let (sentence, trust) = (
        page.find("<h1").unwrap(),
        page.find("class=\"trust\"").unwrap(),
    );
    assert!(sentence < trust && trust < page.find("<h2").unwrap());
    assert_eq!(headings(&pages::html(&Document::default())), ["Appendix"]);
}

/// More of everything than any recording has.
fn huge() -> Document {
    let mut random = Random(1);
    let long = |random: &mut Random, what: &str| {
        format!(
            "{what}{}<{}>",
            random.below(1 << 40),
            "cutlass::gemm::".repeat(60)
        )
    };
    let mut document = documents::base(128, 4_000, &DECODE);
    let budget = document.budget[0].clone();
    document.budget = (0..300)
        .map(|index| {
            let mut budget = budget.clone();
            budget.rank = Some(index);
            let part = budget.parts[0].clone();
            budget.parts.extend((0..500).map(|at| BudgetPart {
                class: format!("kernel.c{at}"),
                label: long(&mut random, "part"),
                ..part.clone()
            }));
            budget
        })
        .collect();
    let mut finding = documents::finding("id", "kind", "title", 1_000, 10_000, Confidence::Likely);
    finding.place.stack = (0..400).map(|_| long(&mut random, "frame")).collect();
    finding.evidence = (0..300)
        .map(|_| Evidence {
            text: long(&mut random, "row"),
            name: Some(long(&mut random, "event")),
            ..Evidence::default()
        })
        .collect();
    finding.refute = "x".repeat(300_000);
    document.findings = vec![finding; 60];
    document.answer.sentence = "y".repeat(500_000);
    let figures = &mut document.figures;
    let names: Vec<String> = (0..300).map(|_| long(&mut random, "kernel")).collect();
    for timeline in &mut figures.timelines {
        timeline.lanes = (0..30)
            .map(|lane| Lane {
                name: long(&mut random, "stream"),
                spans: (0..1_700_i64)
                    .map(|at| Span {
                        begin_ns: at * 7_000,
                        duration_ns: 6_500,
                        class: format!("kernel.k{}", at % 300),
                        name: names[usize::try_from(at % 300).unwrap()].clone(),
                        differs: at % 3 == lane % 3,
                    })
                    .collect(),
            })
            .collect();
    }
    figures.timelines = figures.timelines.iter().cycle().take(8).cloned().collect();
    let kernel = figures.kernels[0].clone();
    figures.kernels = (0..5_000)
        .map(|_| KernelRow {
            label: long(&mut random, "label"),
            name: long(&mut random, "name"),
            ..kernel.clone()
        })
        .collect();
    figures.stacks = (0..3_000)
        .map(|at| StackRow {
            frames: (0..80)
                .map(|depth| format!("frame {} {depth}", at % (depth + 1)))
                .collect(),
            gpu_ns: 1 + at,
        })
        .collect();
    figures.host_gaps = figures
        .host_gaps
        .iter()
        .cycle()
        .take(10_000)
        .cloned()
        .collect();
    for row in figures.lateness.as_mut().unwrap().late_ns.iter_mut() {
        row.iter_mut()
            .for_each(|cell| *cell = Some(i64::try_from(random.below(1 << 34)).unwrap()));
    }
    let missing = document.not_recorded[0].clone();
    document.not_recorded = vec![missing; 500];
    document.appendix.rules = vec![
        Note {
            kind: "k".repeat(10_000),
            text: "t".repeat(10_000)
        };
        200
    ];
    document.scope.files = document
        .scope
        .files
        .iter()
        .cycle()
        .take(3_000)
        .cloned()
        .collect();
    document.scope.assumed = vec!["a".repeat(10_000); 900];
    document
}

#[test]
fn a_page_stays_below_its_limit_and_says_what_is_left_out() {
    let document = huge();
    let page = pages::html(&document);
    assert!(page.len() <= pages::MOST_BYTES, "{} bytes", page.len());
    assert!(
        page.len() > pages::MOST_BYTES / 4,
        "{} bytes: more rows would fit",
        page.len()
    );
    for list in [
        "/findings",
        "/budget",
        "/figures/kernels",
        "/figures/timelines",
        "/figures/steps",
        "/not_recorded",
    ] {
        assert!(
            page.contains(&format!("data-path=\"{list}\" data-unit=\"rest\"")),
            "{list}"
        );
    }
    assert!(pages::markdown(&document).len() < 200_000);
    keep("huge.html", &page);
}

/// Names that try to leave their place.
const HOSTILE: &str = "</script><script>alert(1)</script>\"'><img src=x onerror=alert(2)> \u{202e}txt.exe\u{2066} <!-- ]]> `${x}` \\u003c @team #1 https://evil.example/ |a|b\n# heading\u{0}\u{7f}";

fn hostile() -> Document {
    // Every text of the document, by way of JSON.
    fn spoil(value: &mut serde_json::Value) {
        match value {
            serde_json::Value::String(text) if !WORDS.contains(&text.as_str()) => {
                text.push_str(HOSTILE)
            }
            serde_json::Value::Array(list) => list.iter_mut().for_each(spoil),
            serde_json::Value::Object(members) => members.values_mut().for_each(spoil),
            _ => {}
        }
    }
    const WORDS: [&str; 17] = [
        "only",
        "baseline",
        "candidate",
        "trace",
        "block_io",
        "gpu_log",
        "engine_log",
        "memory_accesses",
        "samples",
        "unused",
        "limit",
        "cause",
        "nothing",
        "cannot_say",
        "possible",
        "likely",
        "established",
    ];
    let mut document = documents::storage();
    document.comparison = documents::two_sides().comparison;
    document.findings[0].place.name = Some(String::new());
    let mut value = serde_json::to_value(&document).unwrap();
    spoil(&mut value);
    serde_json::from_value(value).unwrap()
}

/// Removes code spans by the rules of CommonMark: a run of backticks ends with the next run of the same length.
fn without_code(markdown: &str) -> String {
    let mut out = String::new();
    let mut rest = markdown;
    while let Some(at) = rest.find(['\\', '`']) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        if rest.starts_with('\\') {
            let escaped = rest.chars().nth(1).map_or(0, char::len_utf8);
            rest = &rest[1 + escaped..];
            continue;
        }
        let run = rest.len() - rest.trim_start_matches('`').len();
        let inner = &rest[run..];
        let mut from = 0;
        rest = loop {
            let Some(tick) = inner[from..].find('`') else {
                break inner;
            };
            let close =
                inner[from + tick..].len() - inner[from + tick..].trim_start_matches('`').len();
            from += tick + close;
            if close == run {
                break &inner[from..];
            }
        };
    }
    out + rest
}

#[test]
fn text_of_a_recording_stays_text() {
    let document = hostile();
    let page = pages::html(&document);
    keep("hostile.html", &page);
    for bad in [
        "<script>alert",
        "<img",
        "onerror=alert(2)>",
        "\u{202e}",
        "\u{2066}",
        "\u{0}",
        "<!-- ]]",
    ] {
        assert!(!page.contains(bad), "{bad:?}");
    }
    // The script of the page, and three blocks of values.
    assert_eq!(page.matches("<script>").count(), 1);
    assert_eq!(
        page.matches("</script>").count(),
        page.matches("<script").count()
    );
    for address in page
        .split("href=\"")
        .skip(1)
        .filter_map(|rest| rest.split_once('"'))
    {
        assert!(
            address.0.starts_with('#') || address.0 == "data:,",
            "{}",
            address.0
        );
    }
    let markdown = pages::markdown(&document);
    for bad in [
        "<script>",
        "<img",
        "@team",
        "://",
        "\n# heading",
        "\u{202e}",
    ] {
        assert!(!without_code(&markdown).contains(bad), "{bad:?}");
    }
}

#[test]
fn the_policy_allows_the_script_of_the_page_alone() {
    use std::io::Write as _;
    let page = pages::html(&documents::healthy());
    let policy = page
        .split_once("Content-Security-Policy\" content=\"")
        .unwrap()
        .1
        .split_once('"')
        .unwrap()
        .0;
    assert!(
        policy.starts_with("default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-"),
        "{policy}"
    );
    for word in ["http:", "https:", "*", "unsafe-eval"] {
        assert!(!policy.contains(word), "{policy}");
    }
    // No address of anything that a browser would fetch.
    for attribute in [
        " src=",
        "url(",
        "@import",
        "<iframe",
        "<object",
        "<form",
        "fetch(",
        "XMLHttpRequest",
    ] {
        assert!(!page.contains(attribute), "{attribute}");
    }
    // The hash is that of the script, by another implementation where there is one.
    let script = page
        .rsplit_once("<script>")
        .unwrap()
        .1
        .split_once("</script>")
        .unwrap()
        .0;
    let openssl = std::process::Command::new("sh")
        .args(["-c", "openssl dgst -sha256 -binary | base64"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn();
    if let Ok(mut child) = openssl {
        let _ = child.stdin.take().unwrap().write_all(script.as_bytes());
        let output = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
        assert!(
            output.trim().is_empty() || policy.contains(&format!("'sha256-{}'", output.trim())),
            "{output}"
        );
    }
}

#[test]
fn markdown_has_the_answer_the_budget_and_the_findings() {
    let text = pages::markdown(&documents::late_rank());
    assert!(text.starts_with("### Decode steps take 36.02 ms instead of 29.12 ms (+6.9 ± 0.6 ms) because rank 3 is late: 6.9 ms are gaps"), "{text}");
    assert!(
        text.contains("| waiting for a late rank | 6.900 ms | 19.16 % |"),
        "{text}"
    );
    assert!(text.contains("| 1 | **Rank 3 keeps seven ranks waiting: its host prepares inputs before the first kernel**<br>"), "{text}");
    assert!(
        text.contains(
            "`inferscope trace-info critical-path recordings/`: the critical path of each step"
        ),
        "{text}"
    );
    let text = pages::markdown(&documents::two_sides());
    assert!(
        text.contains("| function Sampler.forward | 1.527 ms |\n| GEMM | 187.3 µs |"),
        "{text}"
    );
}
