//! Layout and drawing, shared by single and differential graphs.

use report::human;

use super::tree::{FrameId, StackTree};
use super::{DiffWidth, Direction, FlameOptions, FlameSvg};
use crate::colour::{Rgb, difference, warm};
use crate::svg::{Anchor, Canvas, MONO, Type, fit, mono_width, text_width};

const FRAME_PX: f64 = 18.0;
const FONT_PX: f64 = 11.5;
const MARGIN_PX: f64 = 12.0;

/// Properties that distinguish the kinds of flame graph.
pub(super) trait Style {
    /// Returns the width of a frame as a share of the root's.
    fn share(&self, total: [u128; 2], root: [u128; 2]) -> f64;
    fn colour(&self, name: &str, total: [u128; 2], root: [u128; 2]) -> Rgb;
    fn tip(&self, name: &str, frame: Figures, options: &FlameOptions) -> Vec<String>;
    /// Returns the text next to the root's name.
    fn root_label(&self, root: [u128; 2], options: &FlameOptions) -> String;
    /// Draws a legend into a strip that ends at `right`, baseline at `y`.
    fn legend(&self, canvas: &mut Canvas, right: f64, y: f64);
    /// Returns a remark below the graph.
    fn remark(&self) -> Option<String>;
}

/// Values of one frame and of the whole.
#[derive(Clone, Copy)]
pub(super) struct Figures {
    pub(super) total: [u128; 2],
    pub(super) own: [u128; 2],
    pub(super) root: [u128; 2],
}

fn part(value: u128, whole: u128) -> f64 {
    if whole == 0 {
        0.0
    } else {
        value as f64 / whole as f64
    }
}

/// Style for one set of values.
pub(super) struct Single;

impl Style for Single {
    fn share(&self, total: [u128; 2], root: [u128; 2]) -> f64 {
        part(total[0], root[0])
    }

    fn colour(&self, name: &str, _: [u128; 2], _: [u128; 2]) -> Rgb {
        warm(name)
    }

    fn tip(&self, name: &str, frame: Figures, options: &FlameOptions) -> Vec<String> {
        let mut lines = vec![name.to_owned()];
        lines.push(format!(
            "{} ({})",
            amount(frame.total[0], options),
            percent(frame.total[0], frame.root[0])
        ));
        if frame.own[0] > 0 && frame.own[0] < frame.total[0] {
            lines.push(format!(
                "itself {} ({})",
                amount(frame.own[0], options),
                percent(frame.own[0], frame.root[0])
            ));
        }
        lines
    }

    fn root_label(&self, root: [u128; 2], options: &FlameOptions) -> String {
        amount(root[0], options)
    }

    fn legend(&self, _: &mut Canvas, _: f64, _: f64) {}

    fn remark(&self) -> Option<String> {
        None
    }
}

/// Style for two sets of values.
pub(super) struct Diff {
    width: DiffWidth,
    /// Largest change of a share; it gets the full colour.
    largest: f64,
    /// Share of the first profile in frames that are missing from the second.
    gone: f64,
}

impl Diff {
    pub(super) fn new(tree: &StackTree, width: DiffWidth) -> Self {
        let totals = tree.totals();
        let root = totals[0];
        let change = |t: &[u128; 2]| (part(t[1], root[1]) - part(t[0], root[0])).abs();
        let largest = totals.iter().map(change).fold(0.0, f64::max);
        let gone = tree
            .owns()
            .zip(&totals)
            .filter(|(_, total)| total[1] == 0)
            .map(|(own, _)| own[0])
            .sum();
        Self {
            width,
            largest,
            gone: part(gone, root[0]),
        }
    }
}

impl Style for Diff {
    fn share(&self, total: [u128; 2], root: [u128; 2]) -> f64 {
        let second = part(total[1], root[1]);
        match self.width {
            DiffWidth::Second => second,
            DiffWidth::Mean => f64::midpoint(part(total[0], root[0]), second),
        }
    }

    fn colour(&self, _: &str, total: [u128; 2], root: [u128; 2]) -> Rgb {
        let change = part(total[1], root[1]) - part(total[0], root[0]);
        if self.largest == 0.0 {
            return difference(0.0);
        }
        // The square root keeps small changes visible next to a large one.
        difference((change.abs() / self.largest).sqrt().copysign(change))
    }

    fn tip(&self, name: &str, frame: Figures, options: &FlameOptions) -> Vec<String> {
        let shares = [
            part(frame.total[0], frame.root[0]),
            part(frame.total[1], frame.root[1]),
        ];
        let mut lines = vec![name.to_owned()];
        for (which, index) in [("first", 0), ("second", 1)] {
            lines.push(format!(
                "{which} {} ({})",
                percent(frame.total[index], frame.root[index]),
                amount(frame.total[index], options)
            ));
        }
        lines.push(format!(
            "{:+.2} percentage points",
            100.0 * (shares[1] - shares[0])
        ));
        lines
    }

    fn root_label(&self, root: [u128; 2], options: &FlameOptions) -> String {
        format!(
            "{} → {}",
            amount(root[0], options),
            amount(root[1], options)
        )
    }

    fn legend(&self, canvas: &mut Canvas, right: f64, y: f64) {
        const STEPS: u32 = 41;
        const STRIP: f64 = 164.0;
        let label = format!("+{:.2} points", 100.0 * self.largest);
        let left_label = format!("share in the second: −{:.2}", 100.0 * self.largest);
        let strip = right - text_width(&label, 11.0) - 8.0 - STRIP;
        canvas.text(
            (right, y),
            &label,
            Type::new(11.0).anchor(Anchor::End).faint(),
        );
        for step in 0..STEPS {
            let place = f64::from(step) / f64::from(STEPS - 1) * 2.0 - 1.0;
            let colour = difference(place.abs().sqrt().copysign(place));
            let x = strip + f64::from(step) * STRIP / f64::from(STEPS);
            canvas.rect(
                (x, y - 10.0, STRIP / f64::from(STEPS) + 0.2, 12.0),
                &[("fill", colour.into())],
                None,
            );
        }
        canvas.text(
            (strip - 8.0, y),
            &left_label,
            Type::new(11.0).anchor(Anchor::End).faint(),
        );
    }

    fn remark(&self) -> Option<String> {
        let hidden = self.width == DiffWidth::Second && self.gone > 0.0;
        hidden.then(|| format!("{} of the first profile is in frames that the second does not have (no width here)", human::percent(100.0 * self.gone)))
    }
}

fn amount(value: u128, options: &FlameOptions) -> String {
    match (options.unit, i128::try_from(value)) {
        (report::Unit::Count | report::Unit::None, Ok(value)) => human::count(value),
        _ => human::quantity(value as f64, options.unit),
    }
}

fn percent(value: u128, whole: u128) -> String {
    human::percent(100.0 * part(value, whole))
}

struct Placed {
    frame: FrameId,
    depth: usize,
    /// Start and width as shares of the root.
    start: f64,
    share: f64,
}

/// Places every frame that is wide enough. Returns the frames, the number left out and their share
/// of the width.
fn place(
    tree: &StackTree,
    totals: &[[u128; 2]],
    narrowest: f64,
    style: &dyn Style,
) -> (Vec<Placed>, usize, f64) {
    let (children, ranges) = tree.sorted_children();
    let root = totals[0];
    let mut placed = Vec::new();
    let (mut left_out, mut lost) = (0, 0.0);
    // Frames to visit: place, and whether a caller was already left out.
    let mut waiting = vec![(FrameId::ROOT, 0_usize, 0.0, false)];
    while let Some((frame, depth, start, hidden)) = waiting.pop() {
        let share = style.share(totals[frame.index()], root);
        let narrow = hidden || (frame != FrameId::ROOT && (share < narrowest || share == 0.0));
        if narrow {
            left_out += 1;
            lost += if hidden { 0.0 } else { share };
        } else {
            placed.push(Placed {
                frame,
                depth,
                start,
                share,
            });
        }
        let mut at = start;
        let first = waiting.len();
        for &child in &children[ranges[frame.index()].clone()] {
            waiting.push((child, depth + 1, at, narrow));
            at += style.share(totals[child.index()], root);
        }
        // The last entry is visited first: reverse to visit siblings in order.
        waiting[first..].reverse();
    }
    (placed, left_out, lost)
}

pub(super) fn draw(tree: &StackTree, options: &FlameOptions, style: &dyn Style) -> FlameSvg {
    let totals = tree.totals();
    let root = totals[0];
    let width = if options.width_px.is_finite() {
        options.width_px.max(300.0)
    } else {
        1200.0
    };
    let inner = width - 2.0 * MARGIN_PX;
    let (mut placed, pruned_frames, pruned) =
        place(tree, &totals, options.min_frame_px / inner, style);
    placed.sort_by_key(|p| p.depth);
    let levels = placed.iter().map(|p| p.depth + 1).max().unwrap_or(1);

    let mut remarks = Vec::new();
    if pruned_frames > 0 {
        let frames = human::count(pruned_frames as u64);
        let limit = options.min_frame_px;
        remarks.push(format!(
            "frames narrower than {limit} px, not drawn: {frames} ({} of the width)",
            human::percent(100.0 * pruned)
        ));
    }
    remarks.extend(style.remark());

    let head = if options.subtitle.is_empty() {
        40.0
    } else {
        58.0
    };
    let graph = levels as f64 * FRAME_PX;
    let height = head + graph + MARGIN_PX + 16.0 * remarks.len() as f64;
    let mut canvas = Canvas::new(width, height, &options.title);
    let title = fit(&options.title, inner, |t| text_width(t, 16.0)).unwrap_or_default();
    canvas.text((MARGIN_PX, 25.0), &title, Type::new(16.0).bold());
    if !options.subtitle.is_empty() {
        let subtitle = fit(&options.subtitle, inner, |t| text_width(t, 12.0)).unwrap_or_default();
        canvas.text((MARGIN_PX, 44.0), &subtitle, Type::new(12.0).faint());
    }
    style.legend(&mut canvas, width - MARGIN_PX, 25.0);

    let top = |depth: usize| match options.direction {
        Direction::Flame => head + graph - (depth + 1) as f64 * FRAME_PX,
        Direction::Icicle => head + depth as f64 * FRAME_PX,
    };
    let name = |frame: FrameId| {
        if frame == FrameId::ROOT {
            options.root.as_ref()
        } else {
            tree.name(frame)
        }
    };
    canvas.open(
        "g",
        &[
            ("class", "edge".into()),
            ("stroke", Rgb::PAPER.into()),
            ("stroke-width", 0.6.into()),
        ],
    );
    for p in &placed {
        let figures = Figures {
            total: totals[p.frame.index()],
            own: tree.own(p.frame),
            root,
        };
        let fill = if p.frame == FrameId::ROOT {
            Rgb(0xd9, 0xdc, 0xe1)
        } else {
            style.colour(name(p.frame), figures.total, root)
        };
        let area = (
            MARGIN_PX + p.start * inner,
            top(p.depth),
            p.share.max(if p.depth == 0 { 1.0 } else { 0.0 }) * inner,
            FRAME_PX,
        );
        canvas.rect(
            area,
            &[("fill", fill.into())],
            Some(&style.tip(name(p.frame), figures, options)),
        );
    }
    canvas.close("g");
    let look = [
        ("font-family", MONO.into()),
        ("font-size", FONT_PX.into()),
        ("fill", Rgb::INK.into()),
        ("pointer-events", "none".into()),
    ];
    canvas.open("g", &look);
    for p in &placed {
        let room = (if p.depth == 0 { 1.0 } else { p.share }) * inner - 6.0;
        let mut label = name(p.frame).to_owned();
        if p.depth == 0 {
            label = format!("{label}  {}", style.root_label(root, options));
        }
        if let Some(text) = fit(&label, room, |t| mono_width(t, FONT_PX)) {
            canvas.plain_text(
                (
                    MARGIN_PX + p.start * inner + 3.0,
                    top(p.depth) + FRAME_PX - 5.2,
                ),
                &text,
            );
        }
    }
    canvas.close("g");
    for (index, remark) in remarks.iter().enumerate() {
        let y = head + graph + 16.0 * (index + 1) as f64;
        let remark = fit(remark, inner, |t| text_width(t, 11.0)).unwrap_or_default();
        canvas.text((MARGIN_PX, y), &remark, Type::new(11.0).faint());
    }
    FlameSvg {
        svg: canvas.finish(),
        pruned_frames,
        pruned_pct: 100.0 * pruned,
    }
}
