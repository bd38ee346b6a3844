//! The vocabulary of GPU traces: which slice is a launch API call, a kernel, a memcpy, a Python
//! function ([`Activity`]), and the class of each kernel ([`KernelClass`]).
//!
//! Both are tables of patterns ([`ACTIVITY_RULES`], [`KernelRules`]); the first matching row
//! counts. A [`Vocabulary`] is these tables with a caller's own rows in front, a [`TraceIndex`] its
//! result for one trace, and [`collective`] reads the messages of collectives.

mod activity;
mod class;
pub mod collective;
mod communication;
mod copy;
mod display;
mod index;
mod launch_calls;
mod launched;
mod name;
mod pattern;
mod place;
mod rows;
mod rules;

pub use activity::{
    ACTIVITY_RULES, Activity, ActivityMap, ActivityRule, is_graph_launch, is_launch_api,
};
pub use class::{COLLECTIVE_HINTS, KernelClass, class_of, is_collective};
pub use communication::{CommLibrary, Communication};
pub use copy::{COPY_SIZE_KEYS, CopyDirection, CopySizes};
pub use display::display_names;
pub use index::TraceIndex;
pub use launch_calls::LaunchCalls;
pub use name::{KernelName, demangle};
pub use pattern::NamePattern;
pub use place::{DeviceLane, DevicePlaces, INDEX_KEYS, PLACE_KEYS, with_index_keys};
pub use rows::{ROW_RULES, RowRule};
pub use rules::{KernelRules, RuleError};

use crate::trace::Trace;

/// The rules that classify slices; the caller's own precede the built-in ones.
#[derive(Clone, Debug)]
pub struct Vocabulary {
    activities: Vec<(Vec<NamePattern>, Vec<NamePattern>, Activity)>,
    own_activities: usize,
    /// The caller's rules for kernels, which precede the built-in ones.
    own: KernelRules,
}

impl Default for Vocabulary {
    /// Returns the built-in tables.
    fn default() -> Self {
        let activities = ACTIVITY_RULES
            .iter()
            .map(|r| (alternatives(r.category), alternatives(r.name), r.activity));
        Self {
            activities: activities.collect(),
            own_activities: 0,
            own: KernelRules::default(),
        }
    }
}

impl Vocabulary {
    /// Returns the built-in tables, preceded by the rules that `trace` carries.
    pub fn of(trace: &Trace) -> Self {
        Self::default().with_rules(trace.kernel_rules().clone())
    }

    /// Adds a rule before the built-in ones and after those added earlier. Both texts are globs,
    /// alternatives separated by `|`.
    #[must_use]
    pub fn with_activity(mut self, category: &str, name: &str, activity: Activity) -> Self {
        let rule = (alternatives(category), alternatives(name), activity);
        self.activities.insert(self.own_activities, rule);
        self.own_activities += 1;
        self
    }

    /// Adds a rule for kernels before the built-in ones and after those added earlier: globs over
    /// the function's name, alternatives separated by `|`.
    #[must_use]
    pub fn with_class(mut self, name: &str, class: KernelClass) -> Self {
        self.own.push_class(name, class);
        self
    }

    /// Sets the caller's rules for kernels, which precede the built-in ones.
    #[must_use]
    pub fn with_rules(mut self, rules: KernelRules) -> Self {
        self.own = rules;
        self
    }

    /// Returns the activity of a slice of this category and name.
    pub fn activity(&self, category: &str, name: &str) -> Activity {
        self.activities
            .iter()
            .find(|(c, n, _)| any(c, category) && any(n, name))
            .map_or(Activity::Other, |(_, _, activity)| *activity)
    }

    /// Returns the communication between devices of a kernel of this name; `None` if it does not
    /// communicate. Symbols and demangled names give the same result.
    ///
    /// Cost: the name is demangled and matched against all patterns; cache the result for frequent
    /// names.
    pub fn communication(&self, kernel: &str) -> Option<Communication> {
        self.communicates(&KernelName::of(kernel))
    }

    fn communicates(&self, name: &KernelName<'_>) -> Option<Communication> {
        if let Some(own) = self.own.communication(name) {
            return own;
        }
        if self.own.class(name).is_some() {
            return None;
        }
        KernelRules::builtin().communication(name).flatten()
    }

    /// Returns the class of a kernel from its name alone; [`TraceIndex::class`] prefers the
    /// operator that launched it.
    pub fn class(&self, kernel: &str) -> KernelClass {
        self.named(kernel).class
    }

    /// Returns the class of a kernel of this name, and how far the operators around its launch may
    /// change it.
    pub(crate) fn named(&self, kernel: &str) -> Named {
        let name = KernelName::of(kernel);
        if self.communicates(&name).is_some() {
            return Named::new(KernelClass::Collective, Certainty::Fixed);
        }
        if let Some(class) = self.own.class(&name) {
            return Named::new(class, Certainty::Fixed);
        }
        let builtin = KernelRules::builtin();
        if let Some(class) = builtin.class(&name) {
            return Named::new(class, Certainty::Likely);
        }
        let class = self.own.fallback(&name).or_else(|| builtin.fallback(&name));
        Named::new(class.unwrap_or(KernelClass::Other), Certainty::Unknown)
    }

    /// Returns the communication of a kernel of unknown name that the operator `name` launches; the
    /// outer `None` if no rule knows the operator, the inner if its kernels do not communicate.
    pub(crate) fn exchange(&self, name: &str) -> Option<Option<Communication>> {
        let name = name.to_ascii_lowercase();
        let own = self.own.exchange(&name);
        own.or_else(|| KernelRules::builtin().exchange(&name))
    }

    /// Returns the class of the kernels that the operator `name` launches, and `true` if their own
    /// names do not matter.
    pub(crate) fn operator(&self, name: &str) -> Option<(KernelClass, bool)> {
        let name = name.to_ascii_lowercase();
        let own = self.own.operator(&name);
        own.or_else(|| KernelRules::builtin().operator(&name))
    }

    /// Returns `true` if kernels of unknown name communicate that the operator `name` launches, unless an operator within it
    /// decides: without such operators, and what lies within them, no operator matters for [`TraceIndex::communication`].
    ///
    /// Cost: the name is matched against many patterns; cache the result for frequent names.
    pub fn may_communicate(&self, name: &str) -> bool {
        self.exchange(name).flatten().is_some()
    }

    /// Returns the communication of the kernel `kernel` as [`TraceIndex::communication`] does, from its name and those of the
    /// operators around its launch, innermost first. What a graph runs has no such operators.
    ///
    /// Cost: each name is matched against many patterns; cache the result for frequent names.
    pub fn communication_within<'n>(
        &self,
        kernel: &str,
        operators: impl IntoIterator<Item = &'n str>,
    ) -> Option<Communication> {
        let by_name = self.communication(kernel);
        if by_name.is_some() || self.named(kernel).certainty != Certainty::Unknown {
            return by_name;
        }
        let mut others = operators.into_iter().filter(|name| *name != kernel);
        others.find_map(|name| self.exchange_of(name)).flatten()
    }

    /// Returns the communication of a kernel of unknown name that the operator `name` launches, if it decides: the inner
    /// `None` for an operator of known kernels, which do not communicate.
    pub(crate) fn exchange_of(&self, name: &str) -> Option<Option<Communication>> {
        let other = || self.operator(name).map(|_| None);
        self.exchange(name).or_else(other)
    }

    /// Returns `true` if a slice of the host with this activity and name, around a launch, may decide or change the class of
    /// what is launched, or whether that communicates. Of Python functions and operators, no others need to be known for
    /// [`TraceIndex::class`].
    ///
    /// Cost: the name is matched against many patterns; cache the result for frequent names.
    pub fn may_decide(&self, activity: Activity, name: &str) -> bool {
        let changes = || !self.context(launched::context_name(name)).is_empty();
        match activity {
            Activity::PythonFunction => changes(),
            Activity::CpuOp => {
                self.exchange(name).is_some() || self.operator(name).is_some() || changes()
            }
            _ => true,
        }
    }

    /// Returns the classes that some context changes.
    pub(crate) fn changed_by_context(&self) -> Vec<KernelClass> {
        let all = [&self.own, KernelRules::builtin()];
        all.into_iter()
            .flat_map(KernelRules::changed_by_context)
            .collect()
    }

    /// Returns the classes that a context of this name changes, with the resulting classes.
    pub(crate) fn context(&self, name: &str) -> Vec<(KernelClass, KernelClass)> {
        let name = name.to_ascii_lowercase();
        let own = self.own.context(&name);
        own.chain(KernelRules::builtin().context(&name)).collect()
    }

    /// Returns the activity of all slices of `category`, if it does not depend on the name.
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

/// Class of a kernel from its name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Named {
    pub class: KernelClass,
    pub certainty: Certainty,
}

impl Named {
    fn new(class: KernelClass, certainty: Certainty) -> Self {
        Self { class, certainty }
    }
}

/// Certainty of a class that a kernel's name gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Certainty {
    /// No operator around the launch changes the class.
    Fixed,
    /// An operator that decides for all its kernels changes the class.
    Likely,
    /// No rule knows the name; any operator that a rule names decides.
    Unknown,
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
