//! Tests plots: known positions of bars, points and ticks; no overlaps, no invalid text in the
//! figure.

use charts::Svg;
use charts::plot::{Axis, Bar, BarChart, GAP, HeatMap, Histogram, LinePlot, Mark, RefLine, Series};
use proptest::prelude::*;
use report::Unit;
use roxmltree::{Document, Node};

fn number(node: Node<'_, '_>, key: &str) -> f64 {
    node.attribute(key).unwrap().parse().unwrap()
}

/// Returns texts with x and y.
fn texts(svg: &Svg) -> Vec<(String, f64, f64)> {
    let document = Document::parse(svg.as_str()).unwrap();
    let texts = document.descendants().filter(|n| n.has_tag_name("text"));
    texts
        .map(|n| {
            (
                n.text().unwrap_or("").to_owned(),
                number(n, "x"),
                number(n, "y"),
            )
        })
        .collect()
}

fn has_text(svg: &Svg, text: &str) -> bool {
    texts(svg).iter().any(|t| t.0 == text)
}

/// Returns rectangles with a tooltip: text of the tooltip, x, y, width, height.
fn tipped(svg: &Svg) -> Vec<(String, [f64; 4])> {
    let document = Document::parse(svg.as_str()).unwrap();
    let rects = document.descendants().filter(|n| n.has_tag_name("rect"));
    let tipped = rects.filter_map(|n| Some((n.first_element_child()?.text()?.to_owned(), n)));
    tipped
        .map(|(tip, n)| (tip, ["x", "y", "width", "height"].map(|key| number(n, key))))
        .collect()
}

fn paths(svg: &Svg) -> Vec<String> {
    let document = Document::parse(svg.as_str()).unwrap();
    document
        .descendants()
        .filter_map(|n| n.attribute("d").map(str::to_owned))
        .collect()
}

fn plot(mark: Mark, points: Vec<(f64, f64)>) -> LinePlot {
    let mut plot = LinePlot::new(
        "t",
        Axis::new("x", Unit::None),
        Axis::from_zero("y", Unit::Nanos),
    );
    plot.series.push(Series::new("s", mark, points));
    plot
}

#[test]
fn bars_are_as_long_as_their_values() {
    let mut chart = BarChart::new("t", "time", Unit::Nanos);
    chart.bars = vec![
        Bar::new("a", 4e6),
        Bar::new("b", 1e6),
        Bar::stacked("c", vec![1e6, 2e6]),
        Bar::new("d", -1e6),
    ];
    chart.parts = vec!["left".into(), "right".into()];
    let svg = chart.draw();
    let bars = tipped(&svg);
    let unit = bars[1].1[2];
    assert!((bars[0].1[2] - 4.0 * unit).abs() < 0.05, "{bars:?}");
    assert!((bars[3].1[2] - 2.0 * unit).abs() < 0.05);
    assert!(
        (bars[3].1[0] - bars[2].1[0] - unit).abs() < 0.05,
        "stacked parts follow each other"
    );
    assert!(
        (bars[4].1[0] + bars[4].1[2] - bars[0].1[0]).abs() < 0.05,
        "negative bars end at zero"
    );
    assert_eq!(bars[3].0, "c\nright: 2.000 ms");
    assert!(
        has_text(&svg, "time (ms)") && has_text(&svg, "3.000 ms") && has_text(&svg, "-1.000 ms")
    );
    // The tick at 4 ms is where the longest bar ends.
    let four = texts(&svg).into_iter().find(|t| t.0 == "4").unwrap().1;
    assert!((four - bars[0].1[0] - bars[0].1[2]).abs() < 0.05);
}

#[test]
fn points_are_where_the_ticks_say() {
    let mut plot = plot(Mark::Line, vec![(0.0, 0.0), (50.0, 2e6), (100.0, 4e6)]);
    plot.ref_lines.push(RefLine::new("limit", 3e6));
    let svg = plot.draw();
    let path = paths(&svg).remove(0);
    let points: Vec<f64> = path
        .split(['M', 'L', ' '])
        .filter(|p| !p.is_empty())
        .map(|p| p.parse().unwrap())
        .collect();
    let tick = |label: &str, at_x: bool| {
        let all = texts(&svg);
        let area_bottom = points[1];
        let tick = all
            .iter()
            .find(|t| t.0 == label && (t.2 > area_bottom + 10.0) == at_x)
            .unwrap();
        if at_x { tick.1 } else { tick.2 - 4.2 }
    };
    assert!(
        (points[0] - tick("0", true)).abs() < 0.05 && (points[4] - tick("100", true)).abs() < 0.05
    );
    assert!((points[2] - f64::midpoint(points[0], points[4])).abs() < 0.02);
    assert!(
        (points[3] - tick("2", false)).abs() < 0.05 && (points[5] - tick("4", false)).abs() < 0.05
    );
    assert!(has_text(&svg, "y (ms)") && has_text(&svg, "limit"));
}

#[test]
fn steps_areas_and_gaps() {
    let svg = plot(Mark::Step, vec![(0.0, 1.0), (1.0, 2.0)]).draw();
    let path = &paths(&svg)[0];
    assert_eq!(
        (
            path.matches('H').count(),
            path.matches('V').count(),
            path.matches('L').count()
        ),
        (1, 1, 0)
    );
    let svg = plot(Mark::Area, vec![(0.0, 1.0), (1.0, 2.0)]).draw();
    assert!(paths(&svg)[0].ends_with('Z') && paths(&svg).len() == 2);
    // A value that is not a number interrupts the line; a lone point becomes a dot.
    let svg = plot(
        Mark::Line,
        vec![
            (0.0, 1.0),
            (1.0, 2.0),
            (2.0, f64::NAN),
            (3.0, 1.0),
            (4.0, 1.0),
            (5.0, f64::INFINITY),
            (6.0, 1.0),
        ],
    )
    .draw();
    assert_eq!(paths(&svg).len(), 2);
    assert_eq!(svg.as_str().matches("<circle").count(), 1);
    assert!(has_text(
        &svg,
        "points without a place on these axes, not shown: 2"
    ));
    let points = vec![(0.0, 1.0), (1.0, 2.0), GAP, (3.0, 1.0), (4.0, 1.0)];
    let svg = plot(Mark::Line, points).draw();
    assert_eq!(paths(&svg).len(), 2);
    assert!(!svg.as_str().contains("not shown"));
}

#[test]
fn a_spike_survives_thinning() {
    let mut points: Vec<(f64, f64)> = (0..200_000).map(|i| (f64::from(i), 1.0)).collect();
    points[123_456].1 = 1000.0;
    let svg = plot(Mark::Line, points).draw();
    assert!(svg.as_str().len() < 100_000, "{} bytes", svg.as_str().len());
    let path = paths(&svg).remove(0);
    let top = path
        .split('L')
        .filter_map(|p| p.split_once(' ')?.1.parse::<f64>().ok())
        .fold(f64::INFINITY, f64::min);
    let tick = texts(&svg)
        .into_iter()
        .find(|t| t.0 == "1.0" || t.0 == "1")
        .unwrap();
    assert!(
        (top - (tick.2 - 4.2)).abs() < 0.05,
        "highest point at {top}, tick of 1 µs at {}",
        tick.2
    );
}

#[test]
fn dots_on_one_spot_are_drawn_once() {
    let svg = plot(Mark::Dots, vec![(1.0, 1.0); 1000]).draw();
    assert_eq!(svg.as_str().matches("<circle").count(), 1);
}

#[test]
fn zero_has_no_place_on_a_logarithmic_axis() {
    let mut plot = plot(
        Mark::Dots,
        vec![(0.0, 1.0), (1024.0, 2.0), (1_048_576.0, 3.0)],
    );
    plot.x = Axis::log("size", Unit::Bytes);
    let svg = plot.draw();
    assert_eq!(svg.as_str().matches("<circle").count(), 2);
    assert!(has_text(
        &svg,
        "points without a place on these axes, not shown: 1"
    ));
    assert!(has_text(&svg, "1 MiB"));
}

#[test]
fn histogram_bins_are_powers_of_two() {
    let mut histogram = Histogram::new("t", "size", Unit::Bytes);
    for value in [0, 1, 2, 3, 4, 7, 8, 1024, 2047, u64::MAX] {
        histogram.add(value);
    }
    histogram.add_many(2048, 100);
    assert_eq!(
        histogram.bins(),
        [
            (0, 1),
            (1, 1),
            (2, 2),
            (4, 2),
            (8, 1),
            (1024, 2),
            (2048, 100),
            (1 << 63, 1)
        ]
    );
    let mut small = Histogram::new("t", "size", Unit::Bytes);
    small.add_many(1024, 10);
    small.add_many(5000, 40);
    let svg = small.draw();
    let bars = tipped(&svg);
    assert_eq!(bars.len(), 2);
    assert_eq!(
        (bars[0].0.as_str(), bars[1].0.as_str()),
        ("1 KiB to 2 KiB\n10", "4 KiB to 8 KiB\n40")
    );
    assert!((bars[1].1[3] - 4.0 * bars[0].1[3]).abs() < 0.05);
    assert!(
        (bars[1].1[0] - bars[0].1[0] - 2.0 * (bars[0].1[2] + 2.0)).abs() < 0.05,
        "an empty bin keeps its place"
    );
    assert!(
        tipped(&histogram.draw())
            .last()
            .unwrap()
            .0
            .starts_with("8192 PiB to 16384 PiB")
    );
}

#[test]
fn heat_maps_put_rows_bottom_up() {
    let (x, y) = (
        Axis::new("", Unit::None).range(0.0, 3.0),
        Axis::new("", Unit::None).range(0.0, 2.0),
    );
    let cells = vec![1.0, 2.0, 0.0, 4.0, f64::NAN, -1.0];
    let svg = HeatMap::new("t", x, y, 3, cells, Unit::Count).draw();
    let rects = tipped(&svg);
    let tips: Vec<&str> = rects.iter().map(|r| r.0.as_str()).collect();
    assert_eq!(tips, ["1", "2", "4"]);
    assert!(rects[0].1[1] > rects[2].1[1] && (rects[0].1[0] - rects[2].1[0]).abs() < 0.01);
    assert!((rects[1].1[0] - rects[0].1[0] - rects[0].1[2]).abs() < 0.02);
    assert!(
        svg.as_str().contains("fill=\"#24154b\""),
        "the largest is darkest"
    );
    assert!(has_text(
        &svg,
        "cells that are negative or not numbers, not shown: 2"
    ));
}

#[test]
fn nothing_to_draw_is_said() {
    let (x, y) = (Axis::new("", Unit::None), Axis::new("", Unit::None));
    for svg in [
        LinePlot::new("t", x.clone(), y.clone()).draw(),
        BarChart::new("t", "", Unit::None).draw(),
        Histogram::new("t", "", Unit::None).draw(),
        HeatMap::new("t", x, y, 0, Vec::new(), Unit::None).draw(),
    ] {
        assert!(has_text(&svg, "no data"));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_values_give_a_clean_figure(
        values in prop::collection::vec((any::<f64>(), any::<f64>()), 0..20), log in any::<bool>(),
        name in ".{0,20}", unit in prop::sample::select(vec![Unit::None, Unit::Nanos, Unit::Bytes, Unit::Pct, Unit::Seconds]),
    ) {
        let axis = |label: &str| if log { Axis::log(label.to_owned(), unit) } else { Axis::new(label.to_owned(), unit) };
        let mut plot = LinePlot::new(name.clone(), axis(&name), axis("y"));
        for mark in [Mark::Line, Mark::Step, Mark::Area, Mark::Dots] {
            plot.series.push(Series::new(name.clone(), mark, values.clone()));
        }
        let mut bars = BarChart::new(name.clone(), name.clone(), unit);
        bars.bars = values.iter().map(|v| Bar::stacked(name.clone(), vec![v.0, v.1])).collect();
        for svg in [plot.draw(), bars.draw()] {
            let document = Document::parse(svg.as_str()).unwrap();
            let attributes = document.descendants().flat_map(|n| n.attributes()).filter(|a| a.name() != "aria-label");
            for attribute in attributes {
                prop_assert!(!attribute.value().contains("NaN") && !attribute.value().contains("inf"), "{attribute:?}");
            }
        }
    }

    /// Labels of the x axis do not touch, whatever the range.
    #[test]
    fn tick_labels_do_not_touch(low in 0.0..1e15_f64, span in 1e-6..1e15_f64, width in 240.0..1500.0_f64) {
        let mut plot = plot(Mark::Line, vec![(low, 0.0), (low + span, 1.0)]);
        plot.x.unit = Unit::Nanos;
        plot.width_px = width;
        let svg = plot.draw();
        let all = texts(&svg);
        let bottom = all.iter().filter(|t| t.0 != "x" && !t.0.starts_with("x (")).map(|t| t.2).fold(0.0, f64::max);
        let mut labels: Vec<_> = all.iter().filter(|t| (t.2 - bottom).abs() < 0.01).collect();
        labels.sort_by(|a, b| a.1.total_cmp(&b.1));
        prop_assert!(!labels.is_empty());
        for pair in labels.windows(2) {
            let room = 12.0 * 0.5 * (pair[0].0.chars().count() + pair[1].0.chars().count()) as f64 / 2.0;
            prop_assert!(pair[1].1 - pair[0].1 >= room, "{:?} {:?}", pair[0], pair[1]);
        }
    }
}
