//! The vocabulary of traces of GPU work: which slice is a launch call, a kernel, a copy, a Python
//! function ([`Activity`]), and what a kernel computes ([`KernelClass`]).
//!
//! Both are tables of patterns ([`ACTIVITY_RULES`], [`CLASS_RULES`]); the first row that matches
//! counts. A [`Vocabulary`] is these tables with a caller's own rows in front, a [`TraceIndex`] what
//! it makes of one trace, and [`collective`] reads what a collective moved.

mod activity;
mod class;
pub mod collective;
mod communication;
mod index;
mod name;
mod pattern;
mod place;
mod rows;
mod rules;

pub use activity::{
    ACTIVITY_RULES, Activity, ActivityMap, ActivityRule, is_graph_launch, is_launch_api,
};
pub use class::{CLASS_RULES, COLLECTIVE_HINTS, ClassRule, KernelClass, is_collective};
pub use communication::{CommLibrary, Communication};
pub use index::TraceIndex;
pub use name::{KernelName, demangle};
pub use pattern::NamePattern;
pub use place::{DeviceLane, DevicePlaces, PLACE_KEYS};
pub use rows::{ROW_RULES, RowRule};
pub use rules::{KernelRules, RuleError};

/// The rules that classify slices, a caller's own before the built-in ones.
#[derive(Clone, Debug)]
pub struct Vocabulary {
    activities: Vec<(Vec<NamePattern>, Vec<NamePattern>, Activity)>,
    classes: Vec<(Vec<NamePattern>, KernelClass)>,
    own_activities: usize,
    /// A caller's rules for kernels, which go before the built-in ones.
    own: KernelRules,
}

impl Default for Vocabulary {
    /// The built-in tables.
    fn default() -> Self {
        let activities = ACTIVITY_RULES
            .iter()
            .map(|r| (alternatives(r.category), alternatives(r.name), r.activity));
        let classes = CLASS_RULES.iter().map(|r| (alternatives(r.name), r.class));
        Self {
            activities: activities.collect(),
            classes: classes.collect(),
            own_activities: 0,
            own: KernelRules::default(),
        }
    }
}

impl Vocabulary {
    /// Adds a rule that goes before the built-in ones and after those added earlier. Both texts are
    /// globs, alternatives separated by `|`.
    #[must_use]
    pub fn with_activity(mut self, category: &str, name: &str, activity: Activity) -> Self {
        let rule = (alternatives(category), alternatives(name), activity);
        self.activities.insert(self.own_activities, rule);
        self.own_activities += 1;
        self
    }

    /// Adds a rule for kernels that goes before the built-in ones and after those added earlier: globs over the
    /// function's name, alternatives separated by `|`.
    #[must_use]
    pub fn with_class(mut self, name: &str, class: KernelClass) -> Self {
        self.own.push_class(name, class);
        self
    }

    /// Sets the caller's own rules for kernels, which go before the built-in ones.
    #[must_use]
    pub fn with_rules(mut self, rules: KernelRules) -> Self {
        self.own = rules;
        self
    }

    /// What a slice of this category and name is.
    pub fn activity(&self, category: &str, name: &str) -> Activity {
        self.activities
            .iter()
            .find(|(c, n, _)| any(c, category) && any(n, name))
            .map_or(Activity::Other, |(_, _, activity)| *activity)
    }

    /// Returns what a kernel of this name communicates between devices; `None` if it does not. Symbols and demangled names
    /// give the same answer.
    ///
    /// Cost: the name is demangled and tried against all patterns; keep the answer for names that occur often.
    pub fn communication(&self, kernel: &str) -> Option<Communication> {
        let name = KernelName::of(kernel);
        let own = self.own.communication(&name);
        own.or_else(|| KernelRules::builtin().communication(&name))
            .flatten()
    }

    /// Returns what a kernel of this name computes.
    pub fn class(&self, kernel: &str) -> KernelClass {
        if self.communication(kernel).is_some() {
            return KernelClass::Collective;
        }
        self.own.class(kernel).unwrap_or_else(|| {
            let row = self.classes.iter().find(|(n, _)| any(n, kernel));
            row.map_or(KernelClass::Other, |(_, class)| *class)
        })
    }

    /// The activity of all slices of `category` if the name does not matter to it.
    pub(crate) fn activity_of_category(&self, category: &str) -> Option<Activity> {
        let first = self.activities.iter().find(|(c, _, _)| any(c, category));
        match first {
            None => Some(Activity::Other),
            Some((_, names, activity)) => names
                .iter()
                .any(NamePattern::matches_everything)
                .then_some(*activity),
        }
    }
}

fn alternatives(text: &str) -> Vec<NamePattern> {
    text.split('|')
        .map(|t| NamePattern::glob(t).ignoring_case())
        .collect()
}

fn any(patterns: &[NamePattern], text: &str) -> bool {
    patterns.iter().any(|p| p.matches(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_rules_come_first_and_in_their_order() {
        let v = Vocabulary::default()
            .with_class("my_reduce*", KernelClass::Collective)
            .with_class("my_*", KernelClass::Gemm)
            .with_activity("acme_gpu", "*", Activity::Kernel);
        assert_eq!(v.class("my_reduce_1"), KernelClass::Collective);
        assert_eq!(v.class("my_mm"), KernelClass::Gemm);
        assert_eq!(v.activity("acme_gpu", "x"), Activity::Kernel);
        assert_eq!(
            Vocabulary::default().activity("acme_gpu", "x"),
            Activity::Other
        );
    }
}
