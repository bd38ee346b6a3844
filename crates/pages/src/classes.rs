//! Groups and classes of time: one colour for each, in every figure and legend.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use findings::Document;

use crate::shown;

/// Groups of the critical path, in the order of a legend.
const GROUPS: [(&str, &str); 8] = [
    ("gpu", "GPU"),
    ("comm", "communication"),
    ("launch", "launch"),
    ("host", "host"),
    ("sync", "synchronization"),
    ("wait", "waiting"),
    ("input", "input"),
    ("unknown", "unknown"),
];

/// Shares of the colour of a group that its classes get, the largest class first.
const SHADES: [u32; 6] = [100, 70, 48, 32, 84, 58];

/// A class.
#[derive(Debug)]
struct Class {
    group: usize,
    shade: u32,
    /// Name to show.
    label: String,
    /// Where the name is in the document, for classes of a budget.
    path: Option<String>,
}

/// All classes of a document.
#[derive(Debug, Default)]
pub(crate) struct Classes {
    list: Vec<Class>,
    by_name: BTreeMap<String, usize>,
}

/// Maximum number of classes with a colour of their own.
const MOST: usize = 96;

impl Classes {
    /// Collects the classes of budgets, then those that only figures name.
    pub(crate) fn new(document: &Document) -> Self {
        let mut classes = Self::default();
        let mut parts = Vec::new();
        for (budget, list) in document.budget.iter().enumerate().take(24) {
            for (at, part) in list.parts.iter().enumerate().take(64) {
                parts.push((part, format!("/budget/{budget}/parts/{at}/label")));
            }
        }
        parts.sort_by_key(|(part, _)| std::cmp::Reverse(part.total_ns));
        for (part, path) in parts {
            if part.label.is_empty() {
                classes.add(&part.class, group_of(&part.group), &part.class, None);
            } else {
                classes.add(&part.class, group_of(&part.group), &part.label, Some(path));
            }
        }
        let figures = &document.figures;
        let spans = figures
            .timelines
            .iter()
            .take(6)
            .flat_map(|timeline| &timeline.lanes);
        let spans = spans.flat_map(|lane| lane.spans.iter().map(|span| &span.class));
        for class in spans
            .chain(figures.kernels.iter().map(|kernel| &kernel.class))
            .chain(figures.host_gaps.iter().map(|row| &row.class))
            .chain(
                figures
                    .roofline
                    .iter()
                    .flat_map(|roofline| roofline.points.iter().map(|point| &point.class)),
            )
        {
            classes.add(class, guess(class), &shown::spaced(class), None);
        }
        classes
    }

    fn add(&mut self, class: &str, group: usize, label: &str, path: Option<String>) {
        if self.by_name.contains_key(class) || self.list.len() == MOST {
            return;
        }
        let before = self
            .list
            .iter()
            .filter(|other| other.group == group)
            .count();
        self.by_name.insert(class.to_owned(), self.list.len());
        self.list.push(Class {
            group,
            shade: SHADES[before % SHADES.len()],
            label: shown::cut(label, shown::NAME),
            path,
        });
    }

    /// Returns the name of the style of a class.
    pub(crate) fn style(&self, class: &str) -> String {
        match self.by_name.get(class) {
            Some(index) => format!("k{index}"),
            None => format!("g-{}", GROUPS[guess(class)].0),
        }
    }

    /// Returns what to call a class.
    pub(crate) fn label(&self, class: &str) -> String {
        match self.by_name.get(class) {
            Some(index) => self.list[*index].label.clone(),
            None => shown::cut(class, shown::NAME),
        }
    }

    /// Returns a cell of a table with the colour of a class and what to call it. `path` is the place of the class.
    pub(crate) fn cell(&self, path: &str, class: &str) -> String {
        let known = self.by_name.get(class).map(|index| &self.list[*index]);
        let text = match known.and_then(|class| Some((class.path.as_ref()?, &class.label))) {
            Some((path, label)) => shown::text(path, label, shown::NAME),
            None => shown::text(path, class, shown::NAME),
        };
        format!(
            "<td class=\"c\"><i class=\"sw {}\"></i>{text}</td>",
            self.style(class)
        )
    }

    /// Returns the position of a class in a bar: classes of a group stand together.
    pub(crate) fn group_order(group: &str) -> usize {
        group_of(group)
    }

    /// Returns the rules of the style sheet.
    pub(crate) fn css(&self) -> String {
        let mut out = String::new();
        for (index, class) in self.list.iter().enumerate() {
            let (group, _) = GROUPS[class.group];
            // Writing into a String cannot fail.
            let _ = writeln!(
                out,
                ".k{index}{{--c:color-mix(in srgb,var(--{group}) {}%,var(--paper))}}",
                class.shade
            );
        }
        out
    }

    /// Returns a legend of the given classes.
    pub(crate) fn legend<'a>(&self, classes: impl Iterator<Item = &'a str>) -> String {
        let used: BTreeSet<&str> = classes.collect();
        let mut used: Vec<&str> = used.into_iter().collect();
        used.sort_by_key(|class| {
            self.by_name
                .get(*class)
                .map_or((9, usize::MAX), |at| (self.list[*at].group, *at))
        });
        let mut out = String::from("<ul class=\"key\">");
        for class in used.iter().take(24) {
            let _ = write!(
                out,
                "<li><i class=\"sw {}\"></i>{}</li>",
                self.style(class),
                shown::plain(&self.label(class), 60)
            );
        }
        out.push_str("</ul>");
        out
    }
}

/// Returns the words for a group.
pub(crate) fn group_label(group: &str) -> &'static str {
    GROUPS[group_of(group)].1
}

fn group_of(name: &str) -> usize {
    GROUPS
        .iter()
        .position(|(group, _)| *group == name)
        .unwrap_or(GROUPS.len() - 1)
}

/// Returns the group of a class that no budget names, by the rules of the critical path.
fn guess(class: &str) -> usize {
    let group = match class.split('.').next().unwrap_or_default() {
        "kernel" | "memcpy_d2d" | "memset" | "queue" | "queue_full" | "gpu" => "gpu",
        "comm" => "comm",
        "launch_call" | "launch_latency" | "dispatch" | "launch" => "launch",
        "sync" | "memcpy_d2h" => "sync",
        "requests" | "blocked" | "wait" => "wait",
        "input" | "memcpy_h2d" => "input",
        "api" | "profiler" | "handoff" | "host" => "host",
        other if other.starts_with("host_") => "host",
        _ => "unknown",
    };
    group_of(group)
}
