//! What is read where an answer needs only launches, or no trace of the activities.

use nsys_db::{Export, LoadOptions, load};

use crate::support::{Made, global, launches, places};

#[test]
fn with_launches_only_everything_is_counted_and_every_link_is_kept() {
    let mut made = Made::new();
    let (launch, record, k) = (
        made.string("cudaLaunchKernel"),
        made.string("cudaEventRecord"),
        made.string("k"),
    );
    made.calls().kernels().ranges();
    for (pid, at) in [(10, 0), (20, 7)] {
        made.call(pid, (at - 500, at - 400), 3, launch)
            .call(pid, (at + 100, at + 110), 1, launch)
            .call(pid, (at + 120, at + 130), 2, record)
            .call(pid, (at + 140, at + 150), 0, record)
            // Its GPU activity was not recorded.
            .call(pid, (at + 160, at + 170), 900, launch)
            .kernel(pid, (at + 200, at + 300), (0, 7), 1, k)
            .kernel(pid, (at + 300, at + 400), (0, 7), 3, k)
            .range(pid, (at + 90, Some(at + 180)), 59, "step", 0)
            .range(pid, (at + 95, Some(at + 175)), 59, "aten::mm, seq = 4", 0)
            .range(pid, (at + 500, Some(at + 600)), 59, "gloo:barrier", 0)
            .range(pid, (at + 550, None), 34, "mark", 0);
    }
    let less = |made: &Made| {
        let mut options = LoadOptions::default();
        options.host_names = Some(vec!["gloo:"]);
        load(&Export::open(made.path()).unwrap(), &options).unwrap()
    };
    let (all, some) = (made.load(), less(&made));
    assert_eq!(launches(&some), launches(&all));
    assert_eq!(places(&some), places(&all));
    assert_eq!(some.meta().events, all.meta().events);
    assert_eq!(some.meta().records, all.meta().records);
    assert_eq!(some.meta().limits, all.meta().limits);
    assert_eq!(some.meta().sections, all.meta().sections);
    let mut names: Vec<&str> = some.slices().filter_map(|slice| slice.name()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names, ["aten::mm", "cudaLaunchKernel", "gloo:barrier", "k"]);
    // Two launches, an operator, a collective of the host and two kernels of each process.
    assert_eq!((some.len(), all.len()), (12, 22));

    // Where an open range is cut is reported, and depends on all others.
    made.range(10, (700, None), 59, "open", 0);
    assert_eq!(less(&made).len(), made.load().len());
    // Without GPU activity the calls are what is left to explain it.
    made.sql("DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL; DELETE FROM NVTX_EVENTS WHERE end IS NULL");
    assert_eq!(less(&made).len(), made.load().len());
}

/// Starts of activities, with the starts of their calls.
type Passed = Vec<(i64, Option<i64>)>;

/// The activities that are passed on, and the number of slices that are kept; `None` if the export must be read whole.
fn passed(made: &Made, threads: usize) -> Option<(Passed, usize)> {
    let mut options = LoadOptions::default();
    options.host_names = Some(Vec::new());
    options.threads = threads;
    let mut starts = Vec::new();
    let export = Export::open(made.path()).unwrap();
    let rest = nsys_db::pass(&export, &options, None, |work| {
        starts.push((work.start_ns, work.launch_ns));
    });
    Some((starts, rest.unwrap()?.len()))
}

#[test]
fn activities_are_passed_on_in_order_of_start_and_not_kept() {
    let mut made = Made::new();
    let (gemm, launch) = (made.string("gemm"), made.string("cudaLaunchKernel_v7000"));
    made.kernels();
    made.calls();
    for n in 1..6000 {
        let at = n * 100;
        made.kernel(1, (at, at + 50), (0, 7), n, gemm);
        if n % 5 != 0 {
            made.call(1, (at - 70, at - 60), n, launch);
        }
    }
    made.sql(
        "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER, globalPid INTEGER, correlationId INTEGER)",
    );
    for at in [5, 250, 250, 1_000_000] {
        let process = global(1, 0);
        made.sql(&format!(
            "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES ({at}, {}, {process}, 0)",
            at + 9
        ));
    }
    let mut want: Vec<(i64, Option<i64>)> = (1..6000)
        .map(|n| (n * 100, (n % 5 != 0).then_some(n * 100 - 70)))
        .chain([5, 250, 250, 1_000_000].map(|at| (at, None)))
        .collect();
    want.sort_by_key(|(start, _)| *start);
    for threads in [1, 2, 4] {
        assert_eq!(passed(&made, threads), Some((want.clone(), 0)), "{threads}");
    }
    let mut options = LoadOptions::default();
    (options.host_names, options.launches) = (Some(Vec::new()), false);
    let export = Export::open(made.path()).unwrap();
    let mut count = 0;
    let rest = nsys_db::pass(&export, &options, None, |work| {
        assert_eq!(work.launch_ns, None);
        count += 1;
    });
    assert_eq!(
        (count, rest.unwrap().unwrap().meta().events),
        (want.len(), 10_803)
    );
    // Operators can tell what a kernel does, if it is not asked which can; ranges without end depend on what is around them.
    made.ranges();
    made.range(1, (0, Some(900)), 59, "step", 0);
    assert_eq!(passed(&made, 2), Some((want, 0)));
    made.range(1, (0, Some(900)), 59, "aten::mm, seq = 1, op_id = 2", 0);
    assert_eq!(passed(&made, 2), None);
    made.sql("DELETE FROM NVTX_EVENTS WHERE text LIKE 'aten%'");
    made.range(1, (0, None), 59, "step", 0);
    assert_eq!(passed(&made, 2), None);
    made.sql("DELETE FROM NVTX_EVENTS");
    assert!(passed(&made, 2).is_some());
    made.kernel(1, (50, 60), (0, 7), 0, gemm);
    assert_eq!(passed(&made, 2), None);
}

/// The lists of operators that are passed on, with the starts of their activities; `None` if the export must be read whole.
fn operators(made: &Made, threads: usize) -> Option<Vec<(i64, Option<Vec<String>>)>> {
    let mut options = LoadOptions::default();
    options.host_names = Some(Vec::new());
    options.threads = threads;
    let mut lists = Vec::new();
    let export = Export::open(made.path()).unwrap();
    let deciding = |name: &str| name.starts_with("c10d::");
    let rest = nsys_db::pass(&export, &options, Some(&deciding), |work| {
        lists.push((
            work.start_ns,
            work.operators.map(|(_, names)| names.to_vec()),
        ));
    });
    rest.unwrap()?;
    Some(lists)
}

#[test]
fn operators_are_passed_on_within_those_that_can_decide() {
    let mut made = Made::new();
    let (k, launch, graph) = (
        made.string("k"),
        made.string("cudaLaunchKernel"),
        made.string("cudaGraphLaunch"),
    );
    made.kernels().calls().ranges();
    // Ranges of a thread: within c10d::send, its copy; beside it, an operator that decides nothing; around both, another.
    for (times, label) in [
        ((120, 160), "aten::copy_, seq = 1"),
        ((110, 200), "c10d::send, seq = 2"),
        ((220, 260), "aten::add, seq = 3, sizes = [[2]]"),
        ((300, 310), "c10d::recv"),
        ((100, 290), "my::layer, op_id = 4"),
    ] {
        made.range(10, (times.0, Some(times.1)), 59, label, 0);
    }
    for (id, at, name) in [
        (1, 130, launch),
        (2, 170, launch),
        (3, 180, graph),
        (4, 230, launch),
        (5, 302, launch),
    ] {
        made.call(10, (at, at + 5), id, name);
        made.kernel(10, (at + 500, at + 501), (0, 7), id, k);
    }
    // The id of another process is another id.
    made.call(20, (131, 133), 1, launch);
    made.kernel(20, (900, 901), (1, 7), 1, k);
    let list = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect());
    let want = vec![
        (630, list(&["aten::copy_", "c10d::send"])),
        (670, list(&["c10d::send"])),
        (680, None),
        (730, None),
        (802, None),
        (900, None),
    ];
    for threads in [1, 3] {
        assert_eq!(operators(&made, threads), Some(want.clone()));
    }
    // Where operators cross, a trace moves some of them to other tracks.
    made.range(10, (190, Some(210)), 59, "aten::mm, seq = 9", 0);
    assert_eq!(operators(&made, 2), None);
    made.sql("DELETE FROM NVTX_EVENTS WHERE start = 190");
    made.call(10, (195, 203), 2, launch);
    assert_eq!(operators(&made, 2), None);
    made.sql("DELETE FROM CUPTI_ACTIVITY_KIND_RUNTIME WHERE start = 195");
    made.range(10, (112, Some(130)), 59, "phase", 0);
    assert_eq!(operators(&made, 2), Some(want));
    let label = made.string("c10d::barrier, seq = 8");
    made.sql(&format!(
        "UPDATE NVTX_EVENTS SET text = NULL, textId = {label} WHERE start = 220"
    ));
    assert_eq!(operators(&made, 2), None);
}
