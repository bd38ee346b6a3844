//! The breakdown in constant memory is that of unions of intervals.

use gpu_time::{Account, Role, Sweep, WorkKind};
use proptest::prelude::*;

const ROLES: [(WorkKind, Role); 7] = [
    (WorkKind::Kernel, Role::Computation),
    (WorkKind::Kernel, Role::Communication),
    (WorkKind::Kernel, Role::CopyKernel),
    (WorkKind::Memcpy, Role::Memcpy),
    (WorkKind::Memset, Role::Memset),
    (WorkKind::Graph, Role::Computation),
    (WorkKind::Kernel, Role::Neither),
];

proptest! {
    // Unions of intervals are the independent method.
    #[test]
    fn equal_to_the_breakdown_by_unions(
        mut rows in proptest::collection::vec((-50_000_i64..50_000, prop_oneof![Just(0), 0_i64..40, 0_i64..30_000], 0_usize..7), 0..60)
    ) {
        rows.sort_unstable();
        let (mut sweep, mut account) = (Sweep::new(), Account::new());
        for (start, dur, role) in rows {
            let (kind, role) = ROLES[role];
            sweep.add(kind, role, (start, start + dur));
            account.add(kind, role, (start, start + dur));
            prop_assert_eq!(sweep.finish(), account.finish());
        }
        prop_assert_eq!(sweep.finish(), account.finish());
    }
}
