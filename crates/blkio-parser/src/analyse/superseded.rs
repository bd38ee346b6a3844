//! Requests that a newer one of the same place and size replaced, in case both were in flight.
//!
//! A trace that lost the completion of the older one looks the same until a second completion comes: two readers of the same sectors,
//! two flushes. What comes soon after the newer one completed, and finds no other request, is of the older one.

use rustc_hash::FxHashMap;

use super::outstanding::Outstanding;

/// Where a request is, and its sectors.
type Place = ((u32, u64), u32);

/// Requests that are kept at one place, and places.
const MOST: usize = 64;
const MOST_PLACES: usize = 1 << 14;
/// Latencies of the newer request for which the completion of an older one is waited for.
const PATIENCE: u64 = 16;

/// Those of one place, the newest last.
#[derive(Debug, Clone, Default)]
struct Waiting {
    requests: Vec<Outstanding>,
    /// Until when a completion is of one of them.
    until_ns: u64,
}

/// Replaced requests by place.
#[derive(Debug, Clone, Default)]
pub(super) struct Superseded {
    places: FxHashMap<Place, Waiting>,
    /// By place where any was: requests that were replaced, and completions that found none.
    contested: FxHashMap<Place, (u64, u64)>,
    /// Requests that were replaced at places beyond those.
    elsewhere: u64,
}

impl Superseded {
    /// Takes requests that a newer one replaced.
    pub(super) fn add(&mut self, place: Place, requests: impl Iterator<Item = Outstanding>) {
        let requests: Vec<Outstanding> = requests.collect();
        let count = requests.len() as u64;
        if self.contested.len() < MOST_PLACES || self.contested.contains_key(&place) {
            self.contested.entry(place).or_default().0 += count;
        } else {
            self.elsewhere += count;
        }
        if self.places.len() >= MOST_PLACES && !self.places.contains_key(&place) {
            return;
        }
        let waiting = self.places.entry(place).or_default();
        waiting.requests.extend(requests);
        let more = waiting.requests.len().saturating_sub(MOST);
        waiting.requests.drain(..more);
    }

    /// A request of the place completed after this latency.
    pub(super) fn completed(&mut self, place: &Place, t_ns: u64, latency_ns: u64) {
        if let Some(waiting) = self.places.get_mut(place) {
            waiting.until_ns = t_ns.saturating_add(latency_ns.saturating_mul(PATIENCE));
            let oldest = t_ns.saturating_sub(latency_ns.saturating_mul(PATIENCE));
            waiting.requests.retain(|of| of.issue_ns >= oldest);
            if waiting.requests.is_empty() {
                self.places.remove(place);
            }
        }
    }

    /// Returns the requests that were replaced, and those of them whose completion never came: at each place as many more as
    /// completions came that found no request.
    pub(super) fn evidence(&self) -> (u64, u64) {
        let all = self.contested.values();
        all.fold(
            (self.elsewhere, self.elsewhere),
            |(replaced, lost), (of, came)| (replaced + of, lost + of.saturating_sub(*came)),
        )
    }

    /// Returns the times of issue of all that may still complete.
    pub(super) fn issues(&self) -> impl Iterator<Item = u64> {
        let all = self.places.values().flat_map(|of| &of.requests);
        all.map(|of| of.issue_ns)
    }

    /// Returns the newest request of which a completion may be that finds no other.
    pub(super) fn take(&mut self, place: &Place, t_ns: u64) -> Option<Outstanding> {
        if let Some((_, came)) = self.contested.get_mut(place) {
            *came += 1;
        }
        let waiting = self.places.get_mut(place)?;
        let found = match t_ns <= waiting.until_ns {
            true => waiting.requests.pop(),
            false => None,
        };
        if found.is_none() || waiting.requests.is_empty() {
            self.places.remove(place);
        }
        found
    }
}
