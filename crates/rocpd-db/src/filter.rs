//! Which records are wanted.

use regex::Regex;

/// What happens to records that a window's edge cuts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Edge {
    /// Only records fully inside.
    #[default]
    Inside,
    /// All that touch the window.
    Overlapping,
    /// All that touch it, cut at its edges.
    Clipped,
}

/// A span of time, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// First nanosecond.
    pub start_ns: i64,
    /// Last nanosecond.
    pub end_ns: i64,
    /// What of records at the edges is kept.
    pub edge: Edge,
}

impl Window {
    /// The part of a record that is kept, if any.
    #[must_use]
    pub fn keep(&self, start_ns: i64, end_ns: i64) -> Option<(i64, i64)> {
        let touches = start_ns <= self.end_ns && end_ns >= self.start_ns;
        match self.edge {
            Edge::Inside => {
                (start_ns >= self.start_ns && end_ns <= self.end_ns).then_some((start_ns, end_ns))
            }
            Edge::Overlapping => touches.then_some((start_ns, end_ns)),
            Edge::Clipped => touches.then_some((
                start_ns.max(self.start_ns),
                end_ns.min(self.end_ns).max(start_ns),
            )),
        }
    }
}

/// Which records are wanted. A pure value: sets are never changed by it. Every condition that is set must hold.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Only records in this window.
    pub window: Option<Window>,
    /// Only these domains (`HIP`, `HSA`, `MARKER`, ...; `KERNEL`, `MEMORY`, ...): the text before the first `_` of the category; case is ignored.
    pub domains: Option<Vec<String>>,
    /// All but these domains.
    pub without_domains: Vec<String>,
    /// Only these categories; case is ignored.
    pub categories: Option<Vec<String>>,
    /// All but these categories; case is ignored.
    pub without_categories: Vec<String>,
    /// Only records whose name matches.
    pub name: Option<Regex>,
    /// Only processes with these GUIDs.
    pub guids: Option<Vec<String>>,
    /// Only processes with these ids.
    pub pids: Option<Vec<i64>>,
    /// Only these ranks.
    pub ranks: Option<Vec<i64>>,
    /// Only these hosts.
    pub hosts: Option<Vec<String>>,
    /// Only agents with these absolute indices; records without an agent pass.
    pub agents: Option<Vec<i64>>,
    /// Only these streams; records without a stream pass.
    pub streams: Option<Vec<i64>>,
    /// At least this long.
    pub min_duration_ns: i64,
    /// Read the JSON texts of events too ([`crate::Region::texts`]).
    pub texts: bool,
}

/// The domain of a category: the text before its first underscore. What has no category is of the domain `NONE`.
#[must_use]
pub fn domain_of(category: Option<&str>) -> &str {
    match category {
        Some(category) if !category.is_empty() => category
            .match_indices('_')
            .nth(usize::from(is_systems(category)))
            .map_or(category, |(end, _)| category.get(..end).unwrap_or(category)),
        _ => "NONE",
    }
}

/// Returns `true` for categories of rocprofiler-systems, whose domain is the word after `rocm_`: `rocm_hip_api`.
fn is_systems(category: &str) -> bool {
    category
        .get(..5)
        .is_some_and(|start| start.eq_ignore_ascii_case("rocm_"))
}

/// The first word of a category, which is its domain in the reference of August 2025.
pub(crate) fn first_word_of(category: Option<&str>) -> &str {
    let domain = domain_of(category);
    domain.split_once('_').map_or(domain, |(first, _)| first)
}

impl Filter {
    /// Only what lies in a window.
    #[must_use]
    pub fn in_window(window: Window) -> Self {
        Self {
            window: Some(window),
            ..Self::default()
        }
    }

    /// Whether no condition is set.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.window.is_none()
            && !self.has_category_condition()
            && self.name.is_none()
            && self.guids.is_none()
            && self.pids.is_none()
            && self.ranks.is_none()
            && self.hosts.is_none()
            && self.agents.is_none()
            && self.streams.is_none()
            && self.min_duration_ns == 0
    }

    /// Whether records of a process are wanted.
    #[must_use]
    pub fn accepts_process(&self, process: &crate::Process) -> bool {
        let one_of = |list: &Option<Vec<i64>>, value: Option<i64>| {
            list.as_ref()
                .is_none_or(|list| value.is_some_and(|value| list.contains(&value)))
        };
        self.guids
            .as_ref()
            .is_none_or(|guids| guids.contains(&process.guid))
            && self
                .hosts
                .as_ref()
                .is_none_or(|hosts| hosts.contains(&process.hostname))
            && one_of(&self.pids, Some(process.pid))
            && one_of(&self.ranks, process.rank)
    }

    pub(crate) fn has_category_condition(&self) -> bool {
        self.domains.is_some()
            || self.categories.is_some()
            || !self.without_domains.is_empty()
            || !self.without_categories.is_empty()
    }

    pub(crate) fn accepts_category(&self, category: Option<&str>) -> bool {
        let among = |list: &[String], text: &str| list.iter().any(|t| t.eq_ignore_ascii_case(text));
        let of_domain = |list: &[String]| {
            among(list, domain_of(category)) || among(list, first_word_of(category))
        };
        self.domains.as_ref().is_none_or(|list| of_domain(list))
            && !of_domain(&self.without_domains)
            && !among(&self.without_categories, category.unwrap_or_default())
            && self
                .categories
                .as_ref()
                .is_none_or(|list| among(list, category.unwrap_or_default()))
    }

    pub(crate) fn accepts_name(&self, name: Option<&str>) -> bool {
        self.name
            .as_ref()
            .is_none_or(|regex| regex.is_match(name.unwrap_or_default()))
    }

    /// Whether records on an agent (its absolute index) and a stream are wanted; what is not known is.
    #[must_use]
    pub fn accepts_place(&self, agent: Option<i64>, stream: Option<i64>) -> bool {
        let passes = |list: &Option<Vec<i64>>, value: Option<i64>| {
            list.as_ref()
                .is_none_or(|list| value.is_none_or(|value| list.contains(&value)))
        };
        passes(&self.agents, agent) && passes(&self.streams, stream)
    }

    /// The part of a record in the window and long enough, if any.
    pub(crate) fn keep(&self, start_ns: i64, end_ns: i64) -> Option<(i64, i64)> {
        if end_ns.saturating_sub(start_ns) < self.min_duration_ns && self.min_duration_ns > 0 {
            return None;
        }
        match &self.window {
            Some(window) => window.keep(start_ns, end_ns),
            None => Some((start_ns, end_ns)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges() {
        let window = |edge| Window {
            start_ns: 10,
            end_ns: 20,
            edge,
        };
        assert_eq!(window(Edge::Inside).keep(10, 20), Some((10, 20)));
        assert_eq!(window(Edge::Inside).keep(9, 20), None);
        assert_eq!(window(Edge::Overlapping).keep(0, 10), Some((0, 10)));
        assert_eq!(window(Edge::Overlapping).keep(21, 30), None);
        assert_eq!(window(Edge::Clipped).keep(0, 30), Some((10, 20)));
    }

    #[test]
    fn categories_are_kept_and_left_out() {
        let kept = |filter: &Filter| {
            ["HIP_RUNTIME_API", "HIP_COMPILER_API", "HSA_CORE_API"]
                .map(|category| filter.accepts_category(Some(category)))
        };
        let mut filter = Filter {
            domains: Some(vec!["hip".to_owned()]),
            ..Filter::default()
        };
        assert_eq!(kept(&filter), [true, true, false]);
        filter.without_categories = vec!["hip_compiler_api".to_owned()];
        assert_eq!(kept(&filter), [true, false, false]);
        assert!(!filter.is_everything());
        filter.domains = None;
        assert!(filter.has_category_condition());
        assert_eq!(kept(&filter), [true, false, true]);
        assert!(filter.accepts_category(None));
    }

    #[test]
    fn domains() {
        assert_eq!(domain_of(Some("HIP_RUNTIME_API_EXT")), "HIP");
        assert_eq!(domain_of(Some("OMPT")), "OMPT");
        assert_eq!(domain_of(Some("rocm_hip_api")), "rocm_hip");
        assert_eq!(domain_of(Some("rocm_hsa")), "rocm_hsa");
        assert_eq!(first_word_of(Some("rocm_hip_api")), "rocm");
        assert_eq!(domain_of(None), "NONE");
    }
}
