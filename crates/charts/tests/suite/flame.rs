//! Tests flame graphs: known widths and positions, order, colours, pruning, hostile names.
#![expect(clippy::float_cmp, reason = "coordinates are decimals with two digits")]

use charts::flame::{DiffFlameGraph, DiffWidth, Direction, FlameGraph, FlameOptions, FlameSvg};
use proptest::prelude::*;
use report::Unit;
use roxmltree::Document;

/// Returns options for which frames are drawn 1000 pixels wide in all, from x = 12.
fn options() -> FlameOptions {
    let mut options = FlameOptions::default();
    options.width_px = 1024.0;
    options
}

#[derive(Debug, Clone, PartialEq)]
struct Frame {
    name: String,
    tip: String,
    x: f64,
    y: f64,
    width: f64,
    fill: String,
}

/// Returns every rectangle that has a tooltip.
fn frames(drawn: &FlameSvg) -> Vec<Frame> {
    let document = Document::parse(drawn.svg.as_str()).unwrap();
    let rects = document.descendants().filter(|n| n.has_tag_name("rect"));
    let frame = |rect: roxmltree::Node<'_, '_>| {
        let tip = rect
            .children()
            .find(|n| n.has_tag_name("title"))?
            .text()?
            .to_owned();
        let number = |key| rect.attribute(key).unwrap().parse::<f64>().unwrap();
        Some(Frame {
            name: tip.lines().next().unwrap_or("").to_owned(),
            tip: tip.clone(),
            x: number("x"),
            y: number("y"),
            width: number("width"),
            fill: rect.attribute("fill").unwrap().to_owned(),
        })
    };
    rects.filter_map(frame).collect()
}

fn frame(drawn: &FlameSvg, name: &str) -> Frame {
    let found: Vec<Frame> = frames(drawn)
        .into_iter()
        .filter(|f| f.name == name)
        .collect();
    assert_eq!(found.len(), 1, "{name} is drawn {} times", found.len());
    found[0].clone()
}

fn texts(drawn: &FlameSvg) -> Vec<String> {
    let document = Document::parse(drawn.svg.as_str()).unwrap();
    let texts = document.descendants().filter(|n| n.has_tag_name("text"));
    texts.filter_map(|n| n.text().map(str::to_owned)).collect()
}

#[test]
fn width_is_value_and_place_is_order() {
    let mut graph = FlameGraph::new();
    graph.add(["main", "zeta", "leaf"], 500);
    graph.add(["main", "alpha"], 200);
    graph.add(["main"], 100);
    graph.add(["main", "Beta"], 150);
    graph.add(["main", "alpha"], 50);
    let drawn = graph.draw(&options());
    assert_eq!(graph.total(), 1000);
    let place = |name| {
        let f = frame(&drawn, name);
        (f.x, f.width)
    };
    // Bytewise: capitals first. The own time of main has no frame and stays free on the right.
    assert_eq!(place("all"), (12.0, 1000.0));
    assert_eq!(place("main"), (12.0, 1000.0));
    assert_eq!(place("Beta"), (12.0, 150.0));
    assert_eq!(place("alpha"), (162.0, 250.0));
    assert_eq!(place("zeta"), (412.0, 500.0));
    assert_eq!(place("leaf"), (412.0, 500.0));
    assert_eq!(frames(&drawn).len(), 6);
    assert_eq!((drawn.pruned_frames, drawn.pruned_pct), (0, 0.0));
    // Callees above callers, one row apart.
    assert_eq!(frame(&drawn, "main").y - frame(&drawn, "alpha").y, 18.0);
    assert_eq!(frame(&drawn, "all").y - frame(&drawn, "leaf").y, 54.0);
    let mut icicle = options();
    icicle.direction = Direction::Icicle;
    let drawn = graph.draw(&icicle);
    assert_eq!(frame(&drawn, "leaf").y - frame(&drawn, "all").y, 54.0);
}

#[test]
fn tooltips_tell_value_share_and_own_part() {
    let mut graph = FlameGraph::new();
    graph.add(["f"], 250_000);
    graph.add(["f", "g"], 750_000);
    graph.add(["h"], 3_000_000);
    let mut options = options();
    options.unit = Unit::Nanos;
    let drawn = graph.draw(&options);
    assert_eq!(
        frame(&drawn, "f").tip,
        "f\n1.000 ms (25.00 %)\nitself 250.0 µs (6.25 %)"
    );
    assert_eq!(frame(&drawn, "g").tip, "g\n750.0 µs (18.75 %)");
    assert!(texts(&drawn).contains(&"all  4.000 ms".to_owned()));
    options.unit = Unit::Bytes;
    assert_eq!(
        frame(&graph.draw(&options), "h").tip,
        "h\n2.861 MiB (75.00 %)"
    );
}

#[test]
fn narrow_frames_are_left_out_and_counted() {
    let mut graph = FlameGraph::new();
    graph.add(["wide"], 999_500);
    graph.add(["thin", "thinner"], 200);
    graph.add(["thin"], 50);
    graph.add(["fine"], 250);
    let drawn = graph.draw(&options());
    let names: Vec<String> = frames(&drawn).into_iter().map(|f| f.name).collect();
    assert_eq!(names, ["all", "wide"]);
    assert_eq!(drawn.pruned_frames, 3);
    assert!((drawn.pruned_pct - 0.05).abs() < 1e-12);
    assert!(
        texts(&drawn).contains(
            &"frames narrower than 0.3 px, not drawn: 3 (0.05 % of the width)".to_owned()
        )
    );
    let mut all = options();
    all.min_frame_px = 0.0;
    assert_eq!(frames(&graph.draw(&all)).len(), 5);
}

#[test]
fn labels_fit_their_frames() {
    let mut graph = FlameGraph::new();
    let name = "cutlass::gemm_kernel<float>";
    for (index, value) in [1000, 100, 50, 10].into_iter().enumerate() {
        graph.add([format!("{index}{name}").as_str()], value);
    }
    let labels = texts(&graph.draw(&options()));
    // 862, 86, 43 and 9 pixels at about 7 per character, less a margin.
    assert!(labels.contains(&format!("0{name}")));
    assert!(labels.contains(&"1cutlass::…".to_owned()), "{labels:?}");
    assert!(labels.contains(&"2cut…".to_owned()));
    assert!(!labels.iter().any(|label| label.starts_with('3')));
}

#[test]
fn a_prefix_tree_draws_like_its_stacks() {
    let mut stacks = FlameGraph::new();
    stacks.add(["a", "b"], 3);
    stacks.add(["a", "c"], 4);
    stacks.add(["a"], 1);
    let mut tree = FlameGraph::new();
    let a = tree.add_child(None, "a", 1);
    tree.add_child(Some(a), "c", 4);
    tree.add_child(Some(a), "b", 3);
    assert_eq!(tree.draw(&options()), stacks.draw(&options()));
}

#[test]
fn empty_and_extreme_graphs_are_drawn() {
    let drawn = FlameGraph::new().draw(&options());
    assert_eq!(frame(&drawn, "all").width, 1000.0);
    let mut graph = FlameGraph::new();
    graph.add(["a"], u64::MAX);
    graph.add(["b"], u64::MAX);
    graph.add(["zero"], 0);
    let drawn = graph.draw(&options());
    assert_eq!(graph.total(), 2 * u128::from(u64::MAX));
    assert_eq!(frame(&drawn, "b").width, 500.0);
    assert_eq!(drawn.pruned_frames, 1);
}

/// Uses stacks too deep for recursion on a thread's stack.
#[test]
fn depth_does_not_overflow() {
    let mut graph = FlameGraph::new();
    graph.add(std::iter::repeat_n("f", 200_000), 1);
    assert_eq!(frames(&graph.draw(&options())).len(), 200_001);
}

fn diff(width: DiffWidth) -> FlameSvg {
    let mut graph = DiffFlameGraph::new(width);
    // The second run is twice as long: only shares count.
    for (name, first, second) in [
        ("same", 500, 1000),
        ("grown", 200, 800),
        ("shrunk", 200, 200),
        ("gone", 100, 0),
    ] {
        graph.add_first(["main", name], first);
        graph.add_second(["main", name], second);
    }
    graph.draw(&options())
}

#[test]
fn differences_are_of_shares() {
    let drawn = diff(DiffWidth::Second);
    assert_eq!(frame(&drawn, "same").width, 500.0);
    assert_eq!(frame(&drawn, "grown").width, 400.0);
    assert_eq!(frame(&drawn, "shrunk").width, 100.0);
    assert!(!frames(&drawn).iter().any(|f| f.name == "gone"));
    // Full red for the largest change, neutral for none; main is all of both.
    assert_eq!(frame(&drawn, "grown").fill, "#d64f4a");
    assert_eq!(frame(&drawn, "same").fill, "#efefec");
    assert_eq!(frame(&drawn, "main").fill, "#efefec");
    let channel = |hex: &str, at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    let shrunk = frame(&drawn, "shrunk").fill;
    assert!(
        channel(&shrunk, 5) > channel(&shrunk, 1),
        "{shrunk} is not blue"
    );
    assert_eq!(
        frame(&drawn, "grown").tip,
        "grown\nfirst 20.00 % (200)\nsecond 40.00 % (800)\n+20.00 percentage points"
    );
    let labels = texts(&drawn);
    assert!(
        labels
            .iter()
            .any(|l| l.starts_with("10.00 % of the first profile is in frames")),
        "{labels:?}"
    );
    assert!(labels.contains(&"+20.00 points".to_owned()));
}

#[test]
fn the_mean_of_both_hides_nothing() {
    let drawn = diff(DiffWidth::Mean);
    assert_eq!(frame(&drawn, "gone").width, 50.0);
    assert_eq!(frame(&drawn, "grown").width, 300.0);
    assert_eq!(frame(&drawn, "shrunk").width, 150.0);
    assert!(
        !texts(&drawn)
            .iter()
            .any(|l| l.contains("of the first profile"))
    );
}

#[test]
fn hostile_names_stay_text() {
    let names = [
        "</title><script>alert(1)</script>",
        "\"'&<>",
        "\u{0}\u{1b}[2J\u{ffff}\u{fffe}",
        "]]>",
        "\u{202e}abc",
        "",
    ];
    let mut graph = FlameGraph::new();
    for name in names {
        graph.add([name], 10);
    }
    let mut options = options();
    options.title = "<b>\u{7}</b>".into();
    let drawn = graph.draw(&options);
    let document = Document::parse(drawn.svg.as_str()).unwrap();
    assert!(
        !document
            .descendants()
            .any(|n| n.has_tag_name("script") || n.has_tag_name("b"))
    );
    assert!(
        document
            .descendants()
            .flat_map(|n| n.attributes())
            .all(|a| !a.name().starts_with("on") && a.name() != "href" && a.name() != "id")
    );
    assert_eq!(frame(&drawn, "\\x00\\x1b[2J\u{fffd}\u{fffd}").width, 166.67);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn order_of_arrival_does_not_matter(
        (stacks, shuffled) in prop::collection::vec((prop::collection::vec("[abc\u{0}<&é]{0,2}", 0..5), 0..1000_u64), 0..30)
            .prop_flat_map(|stacks| (Just(stacks.clone()), Just(stacks).prop_shuffle()))
    ) {
        let draw = |stacks: &[(Vec<String>, u64)]| {
            let mut graph = FlameGraph::new();
            for (frames, value) in stacks {
                graph.add(frames.iter().map(String::as_str), *value);
            }
            graph.draw(&options())
        };
        let drawn = draw(&stacks);
        let total: u64 = stacks.iter().map(|s| s.1).sum();
        // Callees never reach beyond their callers' ends: every frame lies inside the root.
        for frame in frames(&drawn) {
            prop_assert!(frame.x >= 12.0 && frame.x + frame.width <= 1012.03, "{frame:?} of {total}");
        }
        prop_assert_eq!(frames(&drawn), frames(&draw(&shuffled)));
        prop_assert_eq!(drawn.svg, draw(&shuffled).svg);
    }
}
