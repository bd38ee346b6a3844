//! Flight Recorder dumps: planted faults.

use byte_source::Source;
use serde_json::{Value, json};
use torch_dumps::flight::{Job, Mismatch, ProblemKind, RankDump, tables};
use torch_dumps::{Dump, read};

fn dump(name: &str, bytes: &[u8]) -> RankDump {
    match read(Source::from_bytes(name, bytes.to_vec()).unwrap()).unwrap() {
        Dump::Flight(dump) => dump,
        Dump::Memory(_) => panic!("{name} is a Flight Recorder dump"),
    }
}

/// A call of a collective.
fn call(group: &str, seq: i64, operation: &str, state: &str) -> Value {
    json!({
        "pg_id": group.parse::<i64>().unwrap_or(0), "process_group": [group, "undefined"], "collective_seq_id": seq,
        "p2p_seq_id": 0, "record_id": 0, "profiling_name": format!("nccl:{operation}"), "time_created_ns": 1000 + seq,
        "input_sizes": [[4, 8]], "output_sizes": [[4, 8]], "input_dtypes": ["Float"], "output_dtypes": ["Float"],
        "state": state, "is_p2p": operation.contains(' '),
        "frames": [{"name": "step", "filename": "/srv/someone/engine.py", "line": 7}],
    })
}

/// A job with these calls of each rank, and groups of these members. A rank without a list left no dump.
fn job(groups: &[(&str, &[u32])], ranks: &[Option<Vec<Value>>]) -> Job {
    let config = |rank: u32| {
        let own = groups.iter().filter(|(_, members)| members.contains(&rank));
        let pairs = own.map(|(name, members)| {
            let of = json!({"name": name, "desc": "undefined", "ranks": format!("{members:?}")});
            ((*name).to_owned(), of)
        });
        Value::Object(pairs.collect())
    };
    let dumps = (0..).zip(ranks).filter_map(|(rank, calls)| {
        let data =
            json!({"version": "2.10", "pg_config": config(rank), "entries": calls.as_ref()?});
        Some(dump(
            &format!("trace_rank_{rank}.json"),
            data.to_string().as_bytes(),
        ))
    });
    Job::new(dumps.collect()).unwrap()
}

const ALL: &[(&str, &[u32])] = &[("0", &[0, 1, 2])];

fn calls(states: &[&str]) -> Option<Vec<Value>> {
    let calls = (1..)
        .zip(states)
        .map(|(seq, state)| call("0", seq, "all_reduce", state));
    Some(calls.collect())
}

#[test]
fn the_rank_that_did_not_arrive_is_found_in_pickles() {
    let files: [&[u8]; 4] = [
        include_bytes!("../data/nccl_trace_rank_0"),
        include_bytes!("../data/nccl_trace_rank_1"),
        include_bytes!("../data/nccl_trace_rank_2"),
        include_bytes!("../data/nccl_trace_rank_3"),
    ];
    let dumps = files.iter().enumerate().rev();
    let dumps = dumps.map(|(rank, bytes)| dump(&format!("nccl_trace_rank_{rank}"), bytes));
    let job = Job::new(dumps.collect()).unwrap();
    let (group, problem) = job.main_problem().unwrap();
    assert_eq!(group.ranks, [0, 1, 2, 3]);
    assert_eq!((problem.kind, problem.seq), (ProblemKind::NotCalled, 7));
    assert_eq!(
        (problem.missing.as_slice(), problem.waiting.as_slice()),
        (&[2][..], &[0, 1, 3][..])
    );
    assert_eq!(group.last[&2], [6, 6, 6]);
    let sentence = job.sentence();
    assert!(
        sentence.starts_with("Rank 2 did not arrive: all_reduce 7 of group 0 (default_pg) (BFloat16 [4, 8]) was not called by it"),
        "{sentence}"
    );
    assert!(sentence.contains("ranks 0, 1, 3 wait in it"), "{sentence}");
    assert!(
        sentence.contains(
            "the last call of rank 2 is all_reduce 6 of group 0 (completed), in engine.py:70:step"
        ),
        "{sentence}"
    );
    assert_eq!(tables::groups(&job).unwrap().rows(), 1);
    assert_eq!(tables::ranks(&job).unwrap().rows(), 4);
    assert_eq!(tables::calls(&job).unwrap().rows(), 3);
}

#[test]
fn a_job_without_fault_has_no_problem() {
    // The watchdog of rank 1 has not noticed the end yet.
    let job = job(
        ALL,
        &[
            calls(&["completed", "completed"]),
            calls(&["completed", "started"]),
            calls(&["completed", "completed"]),
        ],
    );
    assert!(job.main_problem().is_none());
    assert!(
        job.sentence().starts_with("No rank is missing"),
        "{}",
        job.sentence()
    );
}

#[test]
fn running_queued_and_not_started_are_told_apart() {
    for (states, kind, blamed) in [
        (
            ["started", "started", "started"],
            ProblemKind::Running,
            &[][..],
        ),
        (
            ["scheduled", "scheduled", "scheduled"],
            ProblemKind::Queued,
            &[],
        ),
        (
            ["started", "scheduled", "started"],
            ProblemKind::NotStarted,
            &[1],
        ),
    ] {
        let ranks = states.map(|state| calls(&["completed", state]));
        let job = job(ALL, &ranks);
        let (_, problem) = job.main_problem().unwrap();
        assert_eq!(
            (problem.kind, problem.seq, problem.blamed()),
            (kind, 2, blamed),
            "{states:?}"
        );
    }
}

#[test]
fn a_rank_without_a_dump_is_named() {
    let job = job(
        ALL,
        &[
            calls(&["completed", "started"]),
            calls(&["completed", "started"]),
            None,
        ],
    );
    let (_, problem) = job.main_problem().unwrap();
    assert_eq!(
        (problem.kind, problem.blamed()),
        (ProblemKind::NoDump, &[2][..])
    );
    assert!(
        job.sentence()
            .contains("rank 2 left no dump: look there first"),
        "{}",
        job.sentence()
    );
}

#[test]
fn the_first_call_that_differs_is_found_with_who_differs() {
    type Change = fn(&mut Value);
    let changes: [(Change, Mismatch); 4] = [
        (
            |call| call["profiling_name"] = "nccl:broadcast".into(),
            Mismatch::Operation,
        ),
        (|call| call["input_sizes"] = json!([[5]]), Mismatch::Size),
        (|call| call["output_sizes"] = json!([[5]]), Mismatch::Size),
        (
            |call| call["input_dtypes"] = json!(["Half"]),
            Mismatch::Dtype,
        ),
    ];
    for (change, kind) in changes {
        let mut ranks = [
            calls(&["completed", "started", "scheduled"]),
            calls(&["completed", "started"]),
            calls(&["completed", "started"]),
        ];
        change(&mut ranks[1].as_mut().unwrap()[1]);
        let job = job(ALL, &ranks);
        let (group, problem) = job.main_problem().unwrap();
        assert_eq!(group.mismatch, Some((2, kind, vec![1])));
        assert_eq!(problem.kind, ProblemKind::Mismatch);
        let sentence = job.sentence();
        assert!(
            sentence.contains(&format!("differ in {} on rank 1", kind.name())),
            "{sentence}"
        );
    }
    // Sizes of an all-to-all may differ.
    let mut ranks = [
        calls(&["completed"]),
        calls(&["completed"]),
        calls(&["completed"]),
    ];
    for (rank, calls) in ranks.iter_mut().flatten().enumerate() {
        calls[0]["profiling_name"] = "nccl:all_to_all".into();
        calls[0]["input_sizes"] = json!([[rank]]);
    }
    assert!(job(ALL, &ranks).groups[0].mismatch.is_none());
}

#[test]
fn a_group_that_waits_for_another_is_not_the_cause() {
    // Rank 0 waits in group a for rank 1, which waits in group b for rank 2, which called nothing more.
    let groups: &[(&str, &[u32])] = &[("a", &[0, 1]), ("b", &[1, 2])];
    let one = |group, seq, state| call(group, seq, "all_reduce", state);
    let job = job(
        groups,
        &[
            Some(vec![one("a", 1, "completed"), one("a", 2, "started")]),
            Some(vec![
                one("a", 1, "completed"),
                one("b", 1, "completed"),
                one("b", 2, "started"),
            ]),
            Some(vec![one("b", 1, "completed")]),
        ],
    );
    let (group, problem) = job.main_problem().unwrap();
    assert_eq!((group.name.as_str(), problem.blamed()), ("b", &[2][..]));
    assert!(
        job.sentence().starts_with("Rank 2 did not arrive"),
        "{}",
        job.sentence()
    );
    assert!(
        job.lines()
            .iter()
            .any(|(label, text)| *label == "follows" && text.contains("of group a"))
    );
}

#[test]
fn a_circle_of_groups_is_a_deadlock() {
    let groups: &[(&str, &[u32])] = &[("a", &[0, 1]), ("b", &[0, 1])];
    let one = |group| Some(vec![call(group, 1, "all_reduce", "started")]);
    let job = job(groups, &[one("a"), one("b")]);
    assert!(
        job.sentence()
            .starts_with("Deadlock: ranks 0, 1 wait for each other"),
        "{}",
        job.sentence()
    );
}

#[test]
fn a_receive_without_its_send_is_found() {
    let mut send = call("0", 1, "send 0->1", "completed");
    send["p2p_seq_id"] = 1.into();
    let mut first = call("0", 1, "recv 1<-0", "completed");
    first["p2p_seq_id"] = 1.into();
    let mut second = call("0", 1, "recv 1<-0", "started");
    second["p2p_seq_id"] = 2.into();
    let job = job(
        &[("0", &[4, 0])],
        &[
            Some(vec![send]),
            None,
            None,
            None,
            Some(vec![first, second]),
        ],
    );
    let (_, problem) = job.main_problem().unwrap();
    assert_eq!(
        (problem.kind, problem.waiting.as_slice()),
        (ProblemKind::NoPeer, &[4][..])
    );
    assert_eq!(problem.blamed(), [0]);
}

#[test]
fn overwritten_calls_are_not_missing() {
    // Rank 1 recorded so much of another group that group 0 is gone from its buffer; nothing is known of it there.
    let mut others = vec![call("9", 70, "all_reduce", "completed")];
    others[0]["record_id"] = 5000.into();
    let groups: &[(&str, &[u32])] = &[("0", &[0, 1]), ("9", &[1])];
    let job = job(groups, &[calls(&["started"]), Some(others)]);
    let (_, problem) = job.main_problem().unwrap();
    assert!(problem.missing.is_empty(), "{problem:?}");
    assert!(job.lines().iter().any(|(label, _)| *label == "cut"));
}

#[test]
fn ranks_must_be_known_and_different() {
    let bytes = include_bytes!("../data/nccl_trace_rank_0");
    let unknown = Job::new(vec![dump("trace", bytes)])
        .unwrap_err()
        .to_string();
    assert!(
        unknown.contains("the number at the end of the file's name is the rank"),
        "{unknown}"
    );
    let twice = Job::new(vec![dump("a/rank_1", bytes), dump("b/rank_1", bytes)]).unwrap_err();
    assert!(
        twice
            .to_string()
            .contains("a second dump of rank 1 beside a/rank_1"),
        "{twice}"
    );
}

#[test]
fn older_forms_and_odd_records_are_read() {
    let data = json!({
        "pg_config": {"0": {"ranks": [1, 0]}},
        "entries": [
            {"pg_id": 0, "process_group": "0", "seq_id": 3, "profiling_name": "nccl:all_reduce", "state": "started"},
            {"profiling_name": "nccl:all_reduce", "state": "started"},
            {"state": 5}, 17, null,
        ],
    });
    let dump = dump("rank0.json", data.to_string().as_bytes());
    assert_eq!(
        (dump.entries.len(), dump.skipped, dump.entries[0].seq),
        (1, 4, 3)
    );
}

/// Calls of a rank, and the last of its status: called, begun, completed.
type Stated = (Option<Vec<Value>>, Option<[i64; 3]>);

/// Dumps of four ranks in one group.
fn with_status(ranks: &[Stated], unreadable: &[u32]) -> Job {
    let dumps = (0..).zip(ranks).filter_map(|(rank, (calls, status))| {
        let status = status.map(|[called, begun, completed]| {
            json!({"0": {"last_enqueued_collective": called, "last_started_collective": begun,
                "last_completed_collective": completed}})
        });
        let data = json!({
            "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"}},
            "pg_status": status.unwrap_or_default(), "entries": calls.as_ref()?,
        });
        let name = format!("trace_rank_{rank}.json");
        Some(dump(&name, data.to_string().as_bytes()))
    });
    Job::beside(dumps.collect(), unreadable.iter().copied().collect()).unwrap()
}

#[test]
fn a_dump_without_calls_tells_by_its_status_or_not_at_all() {
    let (in_it, before) = (calls(&["completed", "started"]), calls(&["completed"]));
    let ranks = |status: Option<[i64; 3]>| {
        [
            (in_it.clone(), None),
            (Some(Vec::new()), status),
            (before.clone(), None),
            (in_it.clone(), None),
        ]
    };
    // Rank 1 is in it by its status; rank 2 did not call it.
    let job = with_status(&ranks(Some([2, 2, 1])), &[]);
    let (group, problem) = job.main_problem().unwrap();
    assert_eq!(
        (problem.missing.as_slice(), problem.waiting.as_slice()),
        (&[2][..], &[0, 1, 3][..])
    );
    assert!(problem.unknown.is_empty() && group.last[&1] == [2, 2, 1]);
    // Of rank 1 nothing is known: it is not said to be late, and not said to wait.
    let job = with_status(&ranks(None), &[]);
    let (_, problem) = job.main_problem().unwrap();
    assert_eq!(
        (problem.missing.as_slice(), problem.unknown.as_slice()),
        (&[2][..], &[1][..])
    );
    let sentence = job.sentence();
    assert!(
        sentence.starts_with("Rank 2 did not arrive")
            && sentence.contains("the dump of rank 1 holds no call and no status"),
        "{sentence}"
    );
    // A status from before the first collective is one.
    let job = with_status(&ranks(Some([-1, -1, -1])), &[]);
    assert_eq!(job.main_problem().unwrap().1.missing, [1, 2]);
    // If all others arrived, the silent rank is where to look.
    let mut all = ranks(None);
    all[2].0.clone_from(&in_it);
    let job = with_status(&all, &[]);
    let problem = job.main_problem().unwrap().1;
    assert_eq!(
        (problem.kind, problem.blamed()),
        (ProblemKind::NoDump, &[1][..])
    );
}

#[test]
fn what_is_not_known_beside_a_missing_rank_is_said() {
    let (in_it, before) = (calls(&["completed", "started"]), calls(&["completed"]));
    // Rank 1 is late, the dump of rank 2 is unreadable, rank 3 left none.
    let ranks = [
        (in_it.clone(), None),
        (before, None),
        (None, None),
        (None, None),
    ];
    let job = with_status(&ranks, &[2]);
    let (group, problem) = job.main_problem().unwrap();
    assert_eq!(
        (
            problem.missing.as_slice(),
            group.without_dump.as_slice(),
            group.unknown.as_slice()
        ),
        (&[1][..], &[3][..], &[2, 3][..])
    );
    let sentence = job.sentence();
    assert!(
        sentence
            .contains("rank 3 left no dump, the dump of rank 2 cannot be read, so it is not known"),
        "{sentence}"
    );
    let done = calls(&["completed", "completed"]);
    let job = with_status(&[(done.clone(), None), (done, None)], &[2, 3]);
    let sentence = job.sentence();
    assert!(
        !sentence.contains("No rank is missing")
            && sentence.contains("the dumps of ranks 2, 3 cannot be read"),
        "{sentence}"
    );
}

#[test]
fn a_rank_that_is_still_in_a_completed_collective_is_named() {
    let (done, inside) = (
        calls(&["completed", "completed"]),
        calls(&["completed", "started"]),
    );
    let ranks = [
        (done.clone(), None),
        (done.clone(), None),
        (done, None),
        (inside, None),
    ];
    let job = with_status(&ranks, &[]);
    assert!(job.main_problem().is_none());
    let unfinished = job.groups[0].unfinished.as_ref().unwrap();
    assert_eq!((unfinished.seq, unfinished.ranks.as_slice()), (2, &[3][..]));
    let sentence = job.sentence();
    assert!(
        sentence.starts_with("No rank is missing")
            && sentence.contains("rank 3 was still in all_reduce 2 of group 0 (default_pg)"),
        "{sentence}"
    );
}

#[test]
fn numbers_of_files_that_are_no_members_are_doubted() {
    let data = json!({
        "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}},
        "entries": [call("0", 1, "all_reduce", "completed")],
    });
    let of = |rank: u32| dump(&format!("w_{rank}"), data.to_string().as_bytes());
    let doubts = |job: Job| {
        job.lines()
            .iter()
            .any(|(_, text)| text.contains("the dumps state other members than 8, 9"))
    };
    assert!(doubts(Job::new(vec![of(8), of(9)]).unwrap()));
    assert!(!doubts(Job::new(vec![of(0), of(1)]).unwrap()));
}
