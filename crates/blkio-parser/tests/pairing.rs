//! Issues and completions paired by place.

use std::sync::Arc;

use blkio_parser::analyse::pairing::{Pairing, Policy};
use blkio_parser::analyse::pairs::Pairs;
use blkio_parser::analyse::runs::Runs;
use blkio_parser::analyse::traffic::Grid;
use blkio_parser::{Direction, Event, EventKind};

fn event(kind: EventKind, t_ns: u64, sector: u64, nr_sector: u32) -> Event {
    Event {
        t_ns,
        sector,
        nr_sector,
        bytes: nr_sector * 512,
        kind,
        dev: 0,
        pid: 0,
        error: 0,
        comm: 0,
        cpu: 0,
        rwbs: 0,
        other_ns: 0,
        direction: Direction::Read,
    }
}

fn run(policy: Policy, events: &[Event]) -> Pairing {
    let mut pairing = Pairing::new(policy, 5_000_000_000);
    pairing.observe_all(events);
    pairing.finish();
    pairing
}

#[test]
fn a_lost_completion_shifts_latencies_only_in_queues() {
    let events = [
        event(EventKind::Issue, 0, 8, 8),
        // Its completion is lost.
        event(EventKind::Issue, 1_000_000, 8, 8),
        event(EventKind::Complete, 1_000_100, 8, 8),
        event(EventKind::Issue, 2_000_000, 8, 8),
        event(EventKind::Complete, 2_000_100, 8, 8),
    ];
    let newest = run(Policy::Newest, &events);
    assert_eq!(newest.latency[0].max, 100);
    assert_eq!(newest.matching.superseded_issues, 1);
    assert_eq!(newest.matching.unmatched_issues, 1);
    let fifo = run(Policy::Fifo, &events);
    assert_eq!(fifo.latency[0].max, 1_000_100);
    assert_eq!(fifo.matching.issues_with_same_key_outstanding, 2);
}

/// Two readers of the same sectors, and two flushes: both requests are in flight, and both complete.
#[test]
fn requests_of_one_place_in_flight_at_once_all_complete() {
    let flush = |kind, t_ns| Event {
        direction: Direction::Flush,
        ..event(kind, t_ns, 0, 0)
    };
    let read = |kind, t_ns| event(kind, t_ns, 8, 8);
    let (issue, complete) = (EventKind::Issue, EventKind::Complete);
    for of in [
        &read as &dyn Fn(EventKind, u64) -> Event,
        &flush as &dyn Fn(EventKind, u64) -> Event,
    ] {
        let newest = run(
            Policy::Newest,
            &[
                of(issue, 0),
                of(issue, 40),
                of(issue, 50),
                of(complete, 100),
                of(complete, 130),
                of(complete, 150),
                // The completion of this one is lost, and so is the issue of the last: they are not one.
                of(issue, 1000),
                of(issue, 1500),
                of(complete, 1510),
                of(complete, 9000),
            ],
        );
        let latency = &newest.latency[of(issue, 0).direction.slot()];
        // In whichever order, the sum of their times is the same.
        assert_eq!((latency.count, latency.sum), (4, 100 + 90 + 100 + 10));
        assert_eq!(
            (newest.depth.all.max(), newest.depth.all.integral),
            (3, 300)
        );
        let matching = newest.matching;
        assert_eq!(
            (matching.superseded_issues, matching.unmatched_completions),
            (1, 1)
        );
        assert_eq!((matching.pairs, matching.unmatched_issues), (4, 1));
    }
}

/// In a recording that lost no completion, requests of one place complete in the order of their issue. One that lost some is taken
/// as the newest completing, by which a latency is never that of an older request.
#[test]
fn what_was_in_flight_at_once_completes_in_order() {
    let mut events = Vec::new();
    // Four at a time, each for 200: no completion is missing.
    for n in 0..400_u64 {
        events.push(event(EventKind::Issue, 1000 + n * 50, 8, 8));
        events.push(event(EventKind::Complete, 1200 + n * 50, 8, 8));
    }
    let both = |mut events: Vec<Event>| {
        events.sort_by_key(|e| (e.t_ns, e.kind == EventKind::Complete));
        let mut pairs = Pairs::new(5_000_000_000, Grid::new(1_000_000_000, false));
        let mut runs = Runs::within(Grid::new(1, false));
        pairs.take(&Arc::new(runs.batch(Arc::new(events))));
        pairs.finish();
        pairs.both().0
    };
    let found = both(events.clone());
    let latency = &found.latency[0];
    assert_eq!((latency.count, latency.min, latency.max), (400, 200, 200));
    assert_eq!(found.matching.superseded_issues, 0);
    let samples = &found.detail.as_ref().unwrap().samples;
    assert_eq!(samples.integral(0, u64::MAX), Some(400 * 200));
    // One at a time, every fourth completion lost.
    let mut lossy = Vec::new();
    for n in 0..400_u64 {
        lossy.push(event(EventKind::Issue, 1000 + n * 500, 8, 8));
        if n % 4 > 0 {
            lossy.push(event(EventKind::Complete, 1200 + n * 500, 8, 8));
        }
    }
    let found = both(lossy);
    assert_eq!((found.latency[0].count, found.latency[0].max), (300, 200));
    assert_eq!(found.matching.superseded_issues, 100);
}

/// Records that state when a request was issued and when it completed are paired by that, in whatever order requests complete.
#[test]
fn stated_times_pair_requests() {
    let mut events = Vec::new();
    // The second overtakes the first, again and again, and a third is of the same times as the first.
    for n in 0..50_u64 {
        for (issue, end) in [(0, 900), (100, 300), (0, 900)] {
            let (issue, end) = (n * 500 + issue, n * 500 + end);
            events.push(Event {
                other_ns: end + 7,
                ..event(EventKind::Issue, issue + 7, 8, 8)
            });
            events.push(Event {
                other_ns: issue + 7,
                ..event(EventKind::Complete, end + 7, 8, 8)
            });
        }
    }
    events.sort_by_key(|e| (e.t_ns, e.kind == EventKind::Complete));
    for policy in [Policy::Newest, Policy::Fifo] {
        let found = run(policy, &events);
        let latency = &found.latency[0];
        assert_eq!((latency.count, latency.sum), (150, 50 * (900 + 200 + 900)));
        assert_eq!((latency.min, latency.max), (200, 900));
        assert_eq!(
            (
                found.matching.superseded_issues,
                found.matching.unmatched_issues
            ),
            (0, 0)
        );
    }
}

#[test]
fn partial_completions_end_with_the_last_piece() {
    let pairing = run(
        Policy::Newest,
        &[
            event(EventKind::Issue, 0, 8, 16),
            event(EventKind::Complete, 50, 8, 8),
            event(EventKind::Complete, 90, 16, 8),
            event(EventKind::Complete, 95, 99, 8),
        ],
    );
    assert_eq!(pairing.latency[0].max, 90);
    assert_eq!(pairing.matching.pairs, 1);
    assert_eq!(pairing.matching.partial_completions, 1);
    assert_eq!(pairing.matching.unmatched_completions, 1);
    assert_eq!(pairing.matching.unmatched_issues, 0);
}

#[test]
fn a_part_is_of_the_request_that_the_policy_means() {
    let events = [
        event(EventKind::Issue, 0, 8, 32),
        event(EventKind::Issue, 10, 8, 16),
        // Of the second: half of it is left. Of the first: three quarters are.
        event(EventKind::Complete, 50, 8, 8),
        event(EventKind::Complete, 60, 16, 8),
        // Of the first, which is whole or begins here.
        event(EventKind::Complete, 90, 8, 32),
        event(EventKind::Complete, 95, 24, 16),
    ];
    let newest = run(Policy::Newest, &events);
    let latency = &newest.latency[0];
    assert_eq!((latency.count, latency.min, latency.max), (2, 50, 90));
    assert_eq!(newest.matching.partial_completions, 1);
    assert_eq!(newest.matching.unmatched_completions, 1);
    let fifo = run(Policy::Fifo, &events);
    let latency = &fifo.latency[0];
    assert_eq!((latency.count, latency.min, latency.max), (1, 95, 95));
    assert_eq!(fifo.matching.partial_completions, 2);
    assert_eq!(fifo.matching.unmatched_completions, 1);
}

#[test]
fn no_part_of_a_request_given_up_completes() {
    let stale = 5_000_000_000;
    let pairing = run(
        Policy::Newest,
        &[
            event(EventKind::Issue, 0, 8, 16),
            event(EventKind::Complete, stale + 1, 8, 8),
            event(EventKind::Complete, stale + 2, 16, 8),
        ],
    );
    assert_eq!(pairing.matching.stale_dropped, 1);
    assert_eq!(pairing.matching.partial_completions, 0);
    assert_eq!(pairing.matching.unmatched_completions, 2);
}

#[test]
fn a_latency_is_of_the_request_that_was_issued() {
    let write = |kind, t_ns| Event {
        direction: Direction::Write,
        ..event(kind, t_ns, 8, 8)
    };
    let fifo = run(
        Policy::Fifo,
        &[
            write(EventKind::Issue, 0),
            event(EventKind::Issue, 10, 8, 8),
            // The write's completion is lost.
            event(EventKind::Complete, 30, 8, 8),
        ],
    );
    assert_eq!(fifo.latency[Direction::Read.slot()].count, 0);
    assert_eq!(fifo.latency[Direction::Write.slot()].max, 30);
}

#[test]
fn a_request_given_back_keeps_its_first_issue() {
    let events = [
        event(EventKind::Queue, 5, 8, 8),
        event(EventKind::Issue, 10, 8, 8),
        event(EventKind::Requeue, 20, 8, 8),
        event(EventKind::Issue, 40, 8, 8),
        event(EventKind::Requeue, 50, 8, 8),
        // Another size at the place is another request.
        event(EventKind::Issue, 55, 8, 16),
        event(EventKind::Issue, 60, 8, 8),
        event(EventKind::Complete, 90, 8, 8),
        event(EventKind::Complete, 95, 8, 16),
        // And what comes to the place later has nothing to do with it.
        event(EventKind::Issue, 100, 8, 8),
        event(EventKind::Complete, 101, 8, 8),
    ];
    for policy in [Policy::Newest, Policy::Fifo] {
        let pairing = run(policy, &events);
        let all = &pairing.latency[0];
        assert_eq!((all.count, all.sum), (3, 30 + 40 + 1));
        let matching = pairing.matching;
        assert_eq!((matching.requeues, matching.unmatched_issues), (2, 0));
    }
    let detail = run(Policy::Newest, &events).detail.unwrap();
    let first = &detail.first_issue_to_complete[0];
    assert_eq!((first.count, first.sum), (1, 80));
    // Its bio waited for the first issue, and was served with the last.
    assert_eq!(detail.queue_to_issue[0].sum, 5);
    assert_eq!(detail.queue_to_complete[0].sum, 85);
}

#[test]
fn bios_share_the_completion_of_their_request() {
    let pairing = run(
        Policy::Newest,
        &[
            event(EventKind::Queue, 0, 8, 8),
            event(EventKind::Queue, 10, 16, 8),
            event(EventKind::Issue, 20, 8, 16),
            event(EventKind::Complete, 100, 8, 16),
        ],
    );
    let detail = pairing.detail.unwrap();
    assert_eq!(detail.queue_to_complete[0].count, 2);
    assert_eq!(detail.queue_to_complete[0].sum, 190);
    assert_eq!(detail.queue_to_issue[0].sum, 30);
}

#[test]
fn latencies_are_kept_by_second_and_process() {
    let mut events = Vec::new();
    for number in 0..6_u64 {
        let comm = if number % 2 == 0 { 1 } else { 2 };
        let issue_ns = number * 400_000_000;
        for (kind, t_ns) in [
            (EventKind::Issue, issue_ns),
            (EventKind::Complete, issue_ns + number * 10 + 10),
        ] {
            let event = event(kind, t_ns, number * 8, 8);
            // At completion the name is of whatever was interrupted.
            let comm = if kind == EventKind::Issue { comm } else { 9 };
            events.push(Event { comm, ..event });
        }
    }
    let pairing = run(Policy::Newest, &events);
    let detail = pairing.detail.unwrap();
    let seconds: Vec<_> = detail.by_second.bins().iter().collect();
    let found: Vec<_> = seconds
        .iter()
        .map(|s| (s.bin, s.count, s.p50_ns, s.p99_ns, s.max_ns))
        .collect();
    assert_eq!(
        found,
        [(0, 3, 20, 30, 30), (1, 2, 40, 50, 50), (2, 1, 60, 60, 60)]
    );
    let sums: Vec<_> = detail.by_process.iter().map(|(c, d)| (*c, d.sum)).collect();
    assert_eq!(sums, [(1, 90), (2, 120)]);
}
