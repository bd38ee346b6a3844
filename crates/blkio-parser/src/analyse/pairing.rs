//! Pairs the issue and the completion of each request.

use rustc_hash::FxHashMap;

pub use super::outstanding::Policy;

use super::depth::Depth;
use super::detail::Detail;
use super::distribution::Distribution;
use super::outstanding::{Outstanding, place};
use super::queued::Queued;
use super::requeued::{Before, Requeued};
use super::superseded::Superseded;
use super::traffic::Grid;
use crate::event::{Event, EventKind};
use crate::requests::Request;

/// What the policies say of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Agreement {
    /// The same.
    Alike,
    /// Perhaps not the same.
    Apart,
}

/// Counts of how pairs were found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Matching {
    /// Issues with their completion.
    pub pairs: u64,
    /// Completions that end a flush sequence and are no request.
    pub sequence_end_completions: u64,
    /// Issues of a place and size that was outstanding.
    pub issues_with_same_key_outstanding: u64,
    /// Outstanding issues that a newer one replaced and that did not complete soon after it.
    pub superseded_issues: u64,
    /// Outstanding issues that were too old for a completion.
    pub stale_dropped: u64,
    /// Completions of a part of a request.
    pub partial_completions: u64,
    /// Requests the driver gave back.
    pub requeues: u64,
    /// Completions without an issue: issued before tracing began, or the issue was lost.
    pub unmatched_completions: u64,
    /// Issues without a completion.
    pub unmatched_issues: u64,
}

/// Requests that were replaced for each that lost its completion, from which the replacing was wrong.
const LOST: u64 = 20;
/// Places with requests at the driver of which not each is looked at: far more than devices have, so most were lost.
const MANY_OUTSTANDING: usize = 1 << 14;

/// Pairs of a trace under one policy.
#[derive(Debug, Clone)]
pub struct Pairing {
    policy: Policy,
    stale_ns: u64,
    outstanding: FxHashMap<(u32, u64), Vec<Outstanding>>,
    queued: Queued,
    requeued: Requeued,
    superseded: Superseded,
    issues: u64,
    /// Counts of how pairs were found.
    pub matching: Matching,
    /// Issue to completion in nanoseconds by direction, in the order of [`Direction::ALL`](crate::Direction::ALL).
    pub latency: [Distribution; 7],
    /// The same taken apart, under [`Policy::Newest`] only.
    pub detail: Option<Box<Detail>>,
    /// The pairs since they were taken last, if they are wanted one by one.
    requests: Option<Vec<Request>>,
    /// Requests in flight; by class and by bin of time under [`Policy::Newest`] only.
    pub depth: Depth,
    /// First issue and last completion of a pair.
    pub span: Option<(u64, u64)>,
}

impl Pairing {
    /// Returns the pairs of no events, with a policy and the age at which an outstanding issue is given up.
    #[must_use]
    pub fn new(policy: Policy, stale_ns: u64) -> Self {
        Self {
            policy,
            stale_ns,
            outstanding: FxHashMap::default(),
            queued: Queued::new(stale_ns),
            requeued: Requeued::new(stale_ns),
            superseded: Superseded::default(),
            issues: 0,
            matching: Matching::default(),
            latency: Default::default(),
            detail: (policy == Policy::Newest).then(Box::default),
            requests: None,
            depth: match policy {
                Policy::Newest => Depth::new().by_class(),
                Policy::Fifo => Depth::new(),
            },
            span: None,
        }
    }

    /// Returns the pairs of no events, which are wanted one by one and not taken apart.
    pub(crate) fn of_requests(policy: Policy, stale_ns: u64) -> Self {
        Self {
            detail: None,
            requests: Some(Vec::new()),
            ..Self::new(policy, stale_ns)
        }
    }

    /// Returns the pairs since the last call, in the order of completion.
    pub(crate) fn take_requests(&mut self) -> Vec<Request> {
        self.requests
            .as_mut()
            .map(std::mem::take)
            .unwrap_or_default()
    }

    /// Also keeps depth, latency and bytes in flight by bins; call before the first pair.
    pub(crate) fn in_bins(&mut self, bins: Grid, first_issue_ns: u64) {
        self.depth.in_bins(bins, first_issue_ns);
        if let Some(detail) = &mut self.detail {
            detail.in_bins(bins, first_issue_ns);
        }
    }

    /// Returns the time from the first issue of a pair to the last completion.
    #[must_use]
    pub fn span_ns(&self) -> u64 {
        self.span
            .map_or(0, |(first, last)| last.saturating_sub(first))
    }

    /// Queue events whose bio was not issued, as far as the trace tells.
    #[must_use]
    pub fn queued_without_issue(&self) -> u64 {
        self.queued.without_issue()
    }

    /// Counts issues that will not be paired.
    pub(crate) fn give_up(&mut self, issues: u64) {
        self.issues += issues;
    }

    fn issue(&mut self, event: &Event, only_alike: bool) -> Agreement {
        let (key, nr_sector) = place(event);
        let list = self.outstanding.entry(key).or_default();
        let before = list.len();
        // What completes at a stated time is replaced by nothing, and replaces nothing.
        let same = |out: &Outstanding| out.nr_sector == nr_sector;
        let is_replaced = |out: &Outstanding| same(out) && out.complete_ns == 0;
        let is_stated = event.other_ns > 0;
        if list.iter().any(same) {
            if only_alike && !is_stated && list.iter().any(is_replaced) {
                return Agreement::Apart;
            }
            self.matching.issues_with_same_key_outstanding += 1;
            if self.policy == Policy::Newest && !is_stated {
                let replaced = list.extract_if(.., |out| is_replaced(out));
                self.superseded.add((key, nr_sector), replaced);
                self.matching.superseded_issues += (before - list.len()) as u64;
            }
        }
        let mut queued_ns = self.queued.take(event);
        if let Some(detail) = &mut self.detail {
            detail.issue(event, &queued_ns);
        }
        let mut first_issue_ns = None;
        if let Some(before) = self.requeued.take(&(key, nr_sector), event.t_ns) {
            first_issue_ns = Some(before.first_issue_ns);
            queued_ns.extend(before.queued_ns);
        }
        self.issues += 1;
        list.push(Outstanding {
            number: self.issues,
            direction: event.direction,
            nr_sector,
            bytes: event.bytes,
            comm: event.comm,
            pid: event.pid,
            rwbs: event.rwbs,
            sector: event.sector,
            issue_ns: event.t_ns,
            complete_ns: event.other_ns,
            first_issue_ns,
            queued_ns,
        });
        Agreement::Alike
    }

    /// Takes a request out that the driver gave back. What is known of it is kept until it is issued again.
    fn requeue(&mut self, event: &Event, only_alike: bool) -> Agreement {
        let (key, nr_sector) = place(event);
        let Some(list) = self.outstanding.get_mut(&key) else {
            return Agreement::Alike;
        };
        let (at, is_contested) = self.policy.choose(list, |out| out.nr_sector == nr_sector);
        if is_contested && only_alike {
            return Agreement::Apart;
        }
        let Some(request) = at.map(|at| list.remove(at)) else {
            return Agreement::Alike;
        };
        if list.is_empty() {
            self.outstanding.remove(&key);
        }
        self.matching.requeues += 1;
        let first_issue_ns = request.first_issue_ns.unwrap_or(request.issue_ns);
        let before = Before {
            first_issue_ns,
            queued_ns: request.queued_ns,
        };
        self.requeued.add((key, nr_sector), event.t_ns, before);
        Agreement::Alike
    }

    fn complete(&mut self, event: &Event, only_alike: bool) -> Agreement {
        let (key, nr_sector) = place(event);
        if event.ends_sequence() {
            self.matching.sequence_end_completions += 1;
            return Agreement::Alike;
        }
        let Some(list) = self.outstanding.get_mut(&key) else {
            self.without_issue(event, (key, nr_sector));
            return Agreement::Alike;
        };
        let before = list.len();
        let stale_ns = self.stale_ns;
        let is_fresh = |out: &Outstanding| event.t_ns.saturating_sub(out.issue_ns) <= stale_ns;
        list.retain(|out| out.nr_sector != nr_sector || is_fresh(out));
        // The record of the request states when it was issued.
        let is_stated = |out: &Outstanding| {
            out.nr_sector == nr_sector
                && out.complete_ns == event.t_ns
                && out.issue_ns == event.other_ns
        };
        let stated = list
            .iter()
            .position(is_stated)
            .filter(|_| event.other_ns > 0);
        let (mut at, mut is_contested) = match stated {
            Some(_) => (stated, false),
            None => self.policy.choose(list, |out| {
                out.nr_sector == nr_sector && out.complete_ns == 0
            }),
        };
        if at.is_none() {
            list.retain(|out| out.nr_sector < nr_sector || is_fresh(out));
            (at, is_contested) = self.policy.choose(list, |out| {
                out.nr_sector > nr_sector && out.complete_ns == 0
            });
        }
        self.matching.stale_dropped += (before - list.len()) as u64;
        if is_contested && only_alike {
            return Agreement::Apart;
        }
        let found = at.map(|at| list.remove(at));
        if list.is_empty() {
            self.outstanding.remove(&key);
        }
        let Some(mut request) = found else {
            self.without_issue(event, (key, nr_sector));
            return Agreement::Alike;
        };
        if request.nr_sector > nr_sector {
            self.matching.partial_completions += 1;
            request.nr_sector -= nr_sector;
            let rest = (event.dev, event.sector.saturating_add(nr_sector.into()));
            self.outstanding.entry(rest).or_default().push(request);
        } else {
            let latency_ns = event.t_ns.saturating_sub(request.issue_ns);
            let place = (key, nr_sector);
            self.superseded.completed(&place, event.t_ns, latency_ns);
            self.pair(event, &request);
        }
        Agreement::Alike
    }

    /// Takes a completion that finds no request: of one that was replaced, or of none.
    fn without_issue(&mut self, event: &Event, place: ((u32, u64), u32)) {
        match self.superseded.take(&place, event.t_ns) {
            Some(request) => {
                self.matching.superseded_issues -= 1;
                self.pair(event, &request);
            }
            None => self.matching.unmatched_completions += 1,
        }
    }

    fn pair(&mut self, event: &Event, request: &Outstanding) {
        self.matching.pairs += 1;
        let latency_ns = event.t_ns.saturating_sub(request.issue_ns);
        // A lost completion may leave a request of another direction at the place; what is counted is the one issued.
        let direction = request.direction;
        if let Some(latency) = self.latency.get_mut(direction.slot()) {
            latency.add(latency_ns);
        }
        if let Some(requests) = &mut self.requests {
            requests.push(Request {
                dev: event.dev,
                sector: request.sector,
                bytes: request.bytes,
                rwbs: request.rwbs,
                direction,
                pid: request.pid,
                comm: request.comm,
                issue_ns: request.issue_ns,
                complete_ns: event.t_ns,
                first_issue_ns: request.first_issue_ns,
                queued_ns: request.queued_ns.iter().min().copied(),
            });
        }
        self.depth.add(request.issue_ns, event.t_ns, direction);
        if self.depth.is_full() {
            self.depth.count_until(self.oldest(event.t_ns));
        }
        let (first, last) = self.span.get_or_insert((request.issue_ns, event.t_ns));
        *first = request.issue_ns.min(*first);
        *last = event.t_ns.max(*last);
        if let Some(detail) = &mut self.detail {
            detail.pair(event, request, latency_ns);
        }
    }

    /// When the oldest request was issued that may still complete, as far as that is quickly known.
    fn oldest(&self, now_ns: u64) -> u64 {
        let fresh_ns = now_ns.saturating_sub(self.stale_ns);
        if self.outstanding.len() > MANY_OUTSTANDING {
            return fresh_ns;
        }
        let issues = self.outstanding.values().flatten().map(|out| out.issue_ns);
        let issues = issues.chain(self.superseded.issues());
        let fresh = issues.filter(|issue_ns| *issue_ns >= fresh_ns);
        fresh.min().unwrap_or(now_ns)
    }

    /// Closes what is open; call once after the last event.
    pub fn finish(&mut self) {
        self.matching.unmatched_issues = self.issues - self.matching.pairs - self.matching.requeues;
        self.depth.finish();
        self.latency.iter_mut().for_each(Distribution::settle);
        if let Some(detail) = &mut self.detail {
            detail.finish();
        }
    }
}

impl Pairing {
    fn step(&mut self, event: &Event, only_alike: bool) -> Agreement {
        match event.kind {
            EventKind::Issue => self.issue(event, only_alike),
            EventKind::Complete => self.complete(event, only_alike),
            EventKind::Requeue => self.requeue(event, only_alike),
            EventKind::Queue
                if (self.detail.is_some() || self.requests.is_some())
                    && event.direction.is_data()
                    && event.nr_sector > 0 =>
            {
                self.queued.add(event);
                Agreement::Alike
            }
            _ => Agreement::Alike,
        }
    }

    /// Takes an event of which the policies say the same. Otherwise it is yet to be taken, by each of them for itself.
    pub(super) fn take_alike(&mut self, event: &Event) -> Agreement {
        self.step(event, true)
    }

    /// What [`Policy::Fifo`] makes of the events so far, of which both policies said the same.
    pub(super) fn to_fifo(&self) -> Self {
        Self {
            policy: Policy::Fifo,
            ..self.clone()
        }
    }

    /// Returns `true` if hardly any request that [`Policy::Newest`] replaced lost its completion: as many completions came that found
    /// no request of their place. Then requests of one place were in flight at once, and complete in order.
    pub(crate) fn replaced_wrongly(&self) -> bool {
        let (replaced, lost) = self.superseded.evidence();
        replaced > 0 && lost.saturating_mul(LOST) <= replaced
    }

    /// The same without what only one policy needs: taken apart, by class and by bins.
    pub(super) fn of_all(&self) -> Self {
        let mut fifo = Self::new(Policy::Fifo, self.stale_ns);
        fifo.outstanding.clone_from(&self.outstanding);
        fifo.requeued.clone_from(&self.requeued);
        fifo.issues = self.issues;
        fifo.matching = self.matching;
        fifo.latency.clone_from(&self.latency);
        fifo.depth = self.depth.of_all();
        fifo.span = self.span;
        fifo
    }
}

impl Pairing {
    /// Takes the next events, in order.
    pub fn observe_all(&mut self, events: &[Event]) {
        for event in events {
            self.step(event, false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: EventKind, t_ns: u64, sector: u64, nr_sector: u32) -> Event {
        Event {
            t_ns,
            sector,
            nr_sector,
            bytes: nr_sector * 512,
            kind,
            ..Event::BLANK
        }
    }

    #[test]
    fn depth_is_the_same_however_early_it_is_counted() {
        let mut random = 7_u64;
        let mut below = |limit: u64| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (random >> 33) % limit
        };
        let (mut events, mut open) = (Vec::new(), Vec::new());
        for number in 0..4_000_u64 {
            let t_ns = number * 1_000 + below(3) * 500;
            if below(2) == 0 || open.is_empty() {
                open.push(number);
                events.push(event(EventKind::Issue, t_ns, number * 8, 8));
            } else {
                // The oldest may complete last, or never.
                let at = usize::try_from(below(open.len().min(40) as u64)).unwrap();
                let place = open.swap_remove(open.len() - 1 - at) * 8;
                events.push(event(EventKind::Complete, t_ns, place, 8));
            }
        }
        events.sort_by_key(Event::key);
        for stale_ns in [50_000, 5_000_000_000] {
            let [late, early] = [usize::MAX, 1].map(|hold| {
                let mut pairing = Pairing::new(Policy::Newest, stale_ns);
                pairing.depth.hold = hold;
                pairing.observe_all(&events);
                pairing.finish();
                pairing.depth.all
            });
            assert!(late.max() > 3 && late.integral > 0);
            assert_eq!(
                (late.integral, late.busy_ns),
                (early.integral, early.busy_ns)
            );
            assert!(late.at_issue().eq(early.at_issue()));
            assert!(late.time_at().eq(early.time_at()));
        }
    }
}
