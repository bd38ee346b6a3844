//! Tests the page: well-formed, no external resources, faithful to tables.

use charts::flame::{FlameGraph, FlameOptions};
use charts::html::{Page, Section};
use report::{Cell, Column, Table, Unit};
use roxmltree::{Document, Node, ParsingOptions};

fn parse(html: &str) -> Document<'_> {
    Document::parse_with_options(
        html,
        ParsingOptions {
            allow_dtd: true,
            ..ParsingOptions::default()
        },
    )
    .unwrap()
}

fn all<'a>(document: &'a Document<'_>, tag: &'static str) -> Vec<Node<'a, 'a>> {
    document
        .descendants()
        .filter(|n| n.tag_name().name() == tag)
        .collect()
}

fn text(node: Node<'_, '_>) -> String {
    node.descendants()
        .filter(Node::is_text)
        .filter_map(|n| n.text())
        .collect()
}

fn table() -> Table {
    let columns = vec![
        Column::text("kernel"),
        Column::uint("gpu_ns").unit(Unit::Nanos).title("GPU time"),
        Column::real("share_pct").unit(Unit::Pct).title("share"),
        Column::uint("id"),
    ];
    let mut table = Table::new("<kernels>", columns).unwrap();
    table
        .push(&[
            "f<int>&\"x\"".into(),
            1_234_567_u64.into(),
            12.345_f64.into(),
            7_u64.into(),
        ])
        .unwrap();
    table
        .push(&["</td><script>".into(), Cell::Null, Cell::Null, 8_u64.into()])
        .unwrap();
    table
        .push(&["third".into(), 5_u64.into(), 1.0_f64.into(), 9_u64.into()])
        .unwrap();
    table
}

#[test]
fn tables_show_scaled_numbers_with_exact_tooltips() {
    let html = Page::new("p")
        .section(Section::new("s").table(&table(), 2))
        .to_html();
    let document = parse(&html);
    let cells: Vec<String> = all(&document, "td").into_iter().map(text).collect();
    assert_eq!(
        cells,
        [
            "f<int>&\"x\"",
            "1.235 ms",
            "12.35 %",
            "7",
            "</td><script>",
            "-",
            "-",
            "8"
        ]
    );
    let cell = all(&document, "td")[1];
    assert_eq!(
        (cell.attribute("title"), cell.attribute("class")),
        (Some("1234567 ns"), Some("r"))
    );
    assert_eq!(all(&document, "td")[2].attribute("title"), Some("12.345 %"));
    assert_eq!(all(&document, "td")[3].attribute("title"), None);
    assert_eq!(
        all(&document, "th")
            .into_iter()
            .map(text)
            .collect::<Vec<_>>(),
        ["kernel", "GPU time", "share", "id"]
    );
    assert_eq!(text(all(&document, "caption")[0]), "<kernels>");
    assert!(
        all(&document, "p")
            .into_iter()
            .any(|p| text(p) == "rows not shown: 1")
    );
}

#[test]
fn the_page_is_closed_to_the_outside() {
    let mut graph = FlameGraph::new();
    graph.add(["<script src=x>", "javascript:"], 1);
    let svg = graph.draw(&FlameOptions::default()).svg;
    let hostile = "<img src=x onerror=alert(1)>";
    let page = Page::new(hostile).subtitle(hostile);
    let section = || {
        Section::new(hostile)
            .text(hostile)
            .warning(hostile)
            .code(hostile)
            .figure(&svg, hostile)
            .table(&table(), 9)
    };
    let html = page
        .section(section())
        .section(section())
        .section(section())
        .section(section())
        .to_html();
    let document = parse(&html);
    for tag in [
        "script",
        "img",
        "link",
        "iframe",
        "object",
        "image",
        "use",
        "foreignObject",
    ] {
        assert!(all(&document, tag).is_empty(), "{tag}");
    }
    for attribute in document.descendants().flat_map(|n| n.attributes()) {
        assert!(
            !attribute.name().starts_with("on") && attribute.name() != "src",
            "{attribute:?}"
        );
        assert!(
            attribute.name() != "href" || attribute.value().starts_with("#s"),
            "{attribute:?}"
        );
    }
    assert!(html.contains("content=\"default-src 'none'; style-src 'unsafe-inline'\""));
    assert_eq!(all(&document, "nav").len(), 1);
    assert_eq!(
        all(&document, "figcaption")
            .into_iter()
            .map(text)
            .collect::<Vec<_>>(),
        [hostile; 4]
    );
    // One policy and four name spaces; no other address.
    assert_eq!(html.matches("http").count(), 1 + 4);
}

#[test]
fn paragraphs_and_lines_are_kept() {
    let html = Page::new("p")
        .section(
            Section::new("s")
                .text("one\ntwo\r\n\r\nthree\n\n\n")
                .code("a\n  b"),
        )
        .to_html();
    let document = parse(&html);
    let paragraphs: Vec<String> = all(&document, "p").into_iter().map(text).collect();
    assert_eq!(paragraphs, ["one\ntwo", "three"]);
    assert_eq!(all(&document, "br").len(), 1);
    assert_eq!(text(all(&document, "pre")[0]), "a\n  b");
    assert!(all(&document, "nav").is_empty());
}
