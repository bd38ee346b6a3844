//! Error rates, coverage and power with few seeds; the full tables are made by `cargo xtask calibrate`.

use crate::measure::{cut_in_two, null, power_at_stated_size, power_of_kernel, wide};
use crate::simulate::{PROCESSES, Process, SLOW};

#[test]
fn pairs_without_a_difference() {
    for process in PROCESSES {
        let found = null(process, 57, 36);
        eprintln!("{process:?}: {found:?}");
        let limit = |share: crate::measure::Share| 0.05 + 2.0 * share.error_at(0.05);
        assert!(
            found.any.value() <= limit(found.any),
            "{process:?}: family error {}",
            found.any.value()
        );
        // Two standard errors either way would fail one time in twenty for a perfect test; three hardly ever.
        assert!(
            found.cycle.value() <= 0.05 + 3.0 * found.cycle.error_at(0.05),
            "{process:?}: cycle {}",
            found.cycle.value()
        );
        let covered = found.covered.value();
        assert!(
            (0.93..=0.97).contains(&covered),
            "{process:?}: coverage {covered}"
        );
    }
}

#[test]
fn slow_processes_are_no_change() {
    for process in SLOW {
        let found = null(process, 57, 12);
        eprintln!("{process:?}: {found:?}");
        // A function that never left its level, or that walked away, cannot be told from one that changed.
        for share in [found.cycle, found.cause] {
            assert!(
                share.value() <= 0.05 + 3.0 * share.error_at(0.05),
                "{process:?}: {found:?}"
            );
        }
    }
    let (changed, drift, cause) = cut_in_two(6);
    assert!(changed.value() <= 0.1, "{changed:?}");
    assert!(
        drift.value() >= 0.9 && cause.value() <= 0.1,
        "{drift:?} {cause:?}"
    );
}

#[test]
fn intervals_of_slow_processes_hold_or_say_that_they_may_not() {
    for (process, cycles) in [
        (Process::Slow, 24),
        (Process::Slow, 40),
        (Process::Correlated, 30),
    ] {
        let found = null(process, cycles, 60);
        eprintln!("{process:?}: {found:?}");
        let of = found.cycle_covered;
        assert!(
            of.value() >= 0.95 - 3.0 * of.error_at(0.95),
            "{process:?}, {cycles}: {found:?}"
        );
        assert!(
            found.unwarned.value() <= 0.05,
            "{process:?}, {cycles}: {found:?}"
        );
    }
}

#[test]
fn one_of_many_functions_is_declared() {
    for (functions, factor, pairs) in [(300, 1.1, 2), (600, 1.3, 1), (2000, 2.0, 1)] {
        let (found, others) = wide(functions, factor, 25, pairs);
        eprintln!("{functions} functions, factor {factor}: {found:?}, others {others:?}");
        assert_eq!(
            found.hits, found.of,
            "{functions} functions, factor {factor}"
        );
        assert!(others.hits <= 1, "{functions} functions: {others:?}");
    }
}

#[test]
fn a_ten_percent_slower_kernel_is_declared_and_ranked_first() {
    let (declared, first) = power_of_kernel(16);
    assert!(declared.value() >= 0.95, "declared {}", declared.value());
    assert!(first.value() >= 0.95, "first {}", first.value());
}

#[test]
fn two_percent_is_found_at_the_size_that_is_asked_for() {
    let (size, found) = power_at_stated_size(36);
    assert!((10..400).contains(&size), "{size}");
    assert!(
        found.value() >= 0.9 - 2.0 * found.error_at(0.9),
        "{} with {size} cycles",
        found.value()
    );
}
