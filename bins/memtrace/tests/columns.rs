//! Tests the columns beyond the reference's, and that they survive conversions.

use super::*;

/// A load and a store as perf 6.8 prints them, with a data source (two hops away, near) and a latency.
const SOURCES: &str = "llama-cli 42 [001] 1.5: 4000 cpu/mem-loads/P: 7f3a00001000 20 |OP LOAD|LVL Remote RAM| 90 401136 kv_read+0x1c (/x.so)\n";

fn rows(dir: &Path, words: &[&str]) -> Vec<Value> {
    ok(&call(dir, words))
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn latencies_are_cycles_unless_the_clock_is_known() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    // A load: hit, remote memory by its number, the remote bit, two hops.
    let far = 2 | 2 << 5 | 0xd << 33 | 1 << 37 | 2_u64 << 43;
    // A store into L1 with no measured latency.
    let near = 4 | (2 | 8) << 5 | 1_u64 << 33;
    let line = |source: u64, event: &str, weight: u64| {
        SOURCES
            .replace(" 20 |", &format!(" {source:x} |"))
            .replace("mem-loads", event)
            .replace(" 90 ", &format!(" {weight} "))
    };
    let text = line(far, "mem-loads", 301) + &line(near, "mem-stores", 0);
    std::fs::write(dir.join("perf.txt"), text).unwrap();
    let found = rows(dir, &["parse", "perf.txt"]);
    let of = |row: &Value| {
        [
            "access_latency_ns",
            "latency_cycles",
            "numa_node",
            "remote",
            "hops",
            "period",
        ]
        .map(|column| row.get(column).and_then(Value::as_u64))
    };
    let some = |values: [u64; 6]| values.map(Some);
    assert_eq!(of(&found[0]), some([301, 301, 1, 1, 2, 4000]));
    assert_eq!(
        of(&found[1]),
        [Some(0), None, Some(0), Some(0), Some(0), Some(4000)]
    );
    // 301 cycles of 0.4 ns, rounded.
    let timed = rows(dir, &["parse", "perf.txt", "--core-mhz", "2500"]);
    assert_eq!(of(&timed[0]), some([120, 301, 1, 1, 2, 4000]));
    assert_eq!(of(&timed[1])[..2], [None, None]);
    // Every format preserves them, and the reference has none of them.
    for file in ["rows.parquet", "rows.csv", "rows.jsonl"] {
        ok(&call(dir, &["label", "perf.txt", "-o", file]));
        let back = rows(dir, &["convert", file]);
        assert_eq!(
            back.iter().map(of).collect::<Vec<_>>(),
            found.iter().map(of).collect::<Vec<_>>()
        );
        let timed = rows(dir, &["convert", file, "--core-mhz", "2500"]);
        assert_eq!(of(&timed[0])[0], Some(120), "{file}");
        ok(&call(
            dir,
            &["convert", file, "--compat", "mrm-0.1", "-o", "mrm.csv"],
        ));
        let header = std::fs::read_to_string(dir.join("mrm.csv")).unwrap();
        assert!(header.lines().next().unwrap().ends_with(",context_tokens"));
    }
    let theirs = rows(dir, &["parse", "perf.txt", "--compat", "mrm-0.1.23"]);
    assert!(
        theirs
            .iter()
            .all(|row| row.as_object().unwrap().len() == 18)
    );
    fails(dir, &["parse", "perf.txt", "--core-mhz", "0"], 2);
}

#[test]
fn samples_weigh_the_same_from_the_capture_and_from_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    std::fs::write(dir.join("perf.txt"), SOURCES.repeat(3)).unwrap();
    ok(&call(
        dir,
        &["export", "perf.txt", "--no-figures", "-o", "run"],
    ));
    let accesses =
        |input| json(&call(dir, &["analyse", input, "--json"]))["analysis"]["accesses"].clone();
    assert_eq!(accesses("perf.txt"), 12_000);
    assert_eq!(accesses("run"), 12_000);
}

#[test]
fn regions_beyond_32_bits_are_kept_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let header =
        "run_id,sample_id,timestamp_ns,address,address_page,op_type,region_type,region_id\n";
    let row = |id: u64| format!("r,0,5,4096,1,load,weight,{id}\n");
    std::fs::write(
        dir.join("wide.csv"),
        header.to_owned() + &row(1) + &row(1 << 40),
    )
    .unwrap();
    ok(&call(dir, &["convert", "wide.csv", "-o", "wide.parquet"]));
    let found = rows(dir, &["convert", "wide.parquet"]);
    assert_eq!(found[1]["region_id"], 1_u64 << 40);
    ok(&call(dir, &["check", "wide.parquet"]));
    // A file that started with small values cannot store a large one.
    let late = header.to_owned() + &row(1).repeat(150_000) + &row(1 << 40);
    std::fs::write(dir.join("late.csv"), late).unwrap();
    let said = fails(dir, &["convert", "late.csv", "-o", "late.parquet"], 3);
    assert!(said.contains("region 1099511627776"), "{said}");
    assert!(!dir.join("late.parquet").exists());
}

#[test]
fn allocations_of_heaptrack_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let raw = "v 10400 3\nx 2 /a\nX ./a\nm 1 x 400000 0 2000\nt 401136 0\n+ 40 1 7f0010\nc 64\n- 7f0010\n";
    std::fs::write(dir.join("raw.txt"), raw).unwrap();
    std::fs::write(dir.join("nm.txt"), "0000000000001130 T kv_update\n").unwrap();
    let found = rows(dir, &["parse", "raw.txt", "--symbols", "400000=nm.txt"]);
    assert_eq!(found.len(), 2);
    assert_eq!(
        (&found[0]["symbol"], &found[0]["dso"]),
        (&"kv_update".into(), &"/a".into())
    );
    assert_eq!(
        (&found[0]["size_bytes"], &found[1]["op_type"]),
        (&64.into(), &"load".into())
    );
    assert_eq!(found[1]["timestamp_ns"], 100_000_000);
    let made =
        "v 10400 3\nX ./a\ns 2 /a\ns 9 kv_update\ni 401136 1 2\nt 1 0\na 40 1\n+ 0\nc 64\n- 0\n";
    std::fs::write(dir.join("made.txt"), made).unwrap();
    let output = call(dir, &["analyse", "made.txt", "--json"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("made up") && said.contains("--raw"), "{said}");
    let found = json(&output);
    assert_eq!(found["input"]["format"], "heaptrack");
    assert!(found["input"]["note"].is_string());
    assert_eq!(
        cell(&found, "values", "kv_cache", "value_retention_p50_ns"),
        1e8
    );
    // One allocation lived for one clock step, another one for less.
    let short = made
        .replace("c 64", "+ 0\n- 0\nc 64")
        .replace("v 10400", "v 10500");
    std::fs::write(dir.join("short.txt"), short).unwrap();
    let found = json(&call(dir, &["analyse", "short.txt", "--json"]));
    let count = |column: &str| cell(&found, "values", "kv_cache", column).clone();
    assert_eq!(
        (count("n_values_read"), count("n_values_below_resolution")),
        (2.into(), 1.into())
    );
    assert_eq!(found["analysis"]["resolution_ns"], 10_000_000);
    assert!(ok(&call(dir, &["analyse", "short.txt"])).contains("known as < 10 ms"));
    // The trace of a run stores the clock step, and so do rows that are only parsed.
    ok(&call(
        dir,
        &["export", "short.txt", "--no-figures", "-o", "run"],
    ));
    ok(&call(dir, &["parse", "short.txt", "-o", "short.parquet"]));
    for kept in ["run", "short.parquet"] {
        let again = json(&call(dir, &["analyse", kept, "--json"]));
        assert_eq!(again["analysis"]["resolution_ns"], 10_000_000, "{kept}");
        let below = cell(&again, "values", "kv_cache", "n_values_below_resolution");
        assert_eq!(*below, 1, "{kept}");
    }
    std::fs::write(dir.join("new.txt"), "v 20000 9\nX ./a\n").unwrap();
    fails(dir, &["parse", "new.txt"], 3);
}

/// A block without a recorded write lives from its allocation, or from its first access, not from
/// time 0.
#[test]
fn blocks_live_from_what_is_known() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let mut text = String::new();
    for (time, address) in [(102, 4096), (103, 4096), (150, 9000), (152, 9000)] {
        text.push_str(&format!(
            "c 1 [0] {time}.0: mem-loads: {address:x} kv_read+0x1 (/x)\n"
        ));
    }
    std::fs::write(dir.join("perf.txt"), text).unwrap();
    let table = r#"{"base_address": 4096, "block_bytes": 256,
        "blocks": [{"block_id": 0, "alloc_ns": 101000000000, "free_ns": 104000000000}]}"#;
    std::fs::write(dir.join("table.json"), table).unwrap();
    let words = [
        "export",
        "perf.txt",
        "--kv-table",
        "table.json",
        "-o",
        "run",
    ];
    ok(&call(dir, &words));
    let drawn = std::fs::read_to_string(dir.join("run/kv_occupancy.csv")).unwrap();
    let times: Vec<u64> = drawn
        .lines()
        .skip(1)
        .map(|line| line.split(',').next().unwrap().parse().unwrap())
        .collect();
    // From the allocation of the first to the last access of the second.
    let second = 1_000_000_000;
    assert_eq!(
        (times[0], *times.last().unwrap()),
        (101 * second, 152 * second)
    );
}

/// An allocation has its stated size, and memory that is allocated twice counts once.
#[test]
fn sizes_of_allocations_count() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let mut text =
        String::from("run_id,sample_id,timestamp_ns,address,address_page,op_type,size_bytes\n");
    let mib = 1_u64 << 20;
    for (at, (address, op, size)) in [
        (mib, "store", 100 * mib),
        (mib, "load", 100 * mib),
        (51 * mib, "store", 100 * mib),
        (1 << 40, "store", 100),
    ]
    .into_iter()
    .enumerate()
    {
        text.push_str(&format!(
            "r,{at},{at}000000000,{address},{},{op},{size}\n",
            address >> 12
        ));
    }
    std::fs::write(dir.join("rows.csv"), text).unwrap();
    let found = json(&call(dir, &["analyse", "rows.csv", "--json"]));
    let all = 150 * mib + 4096;
    assert_eq!(cell(&found, "types", "unknown", "distinct_bytes"), all);
    assert_eq!(found["analysis"]["distinct_pages"], all / 4096);
    let working_set = cell(&found, "working_set_summary", "unknown", "total_bytes");
    assert!(working_set.as_u64() >= Some(150 * mib), "{working_set}");
}

#[test]
fn tiers_are_judged_by_what_is_known() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let mut text = String::new();
    for time in 1..=12 {
        let event = if time == 1 { "mem-stores" } else { "mem-loads" };
        text.push_str(&format!(
            "c 1 [0] {time}.0: {event}: 7f0000001000 kv_read+0x1 (/x)\n"
        ));
    }
    text.push_str("c 1 [0] 60.0: mem-loads: 7f0000009000 main+0x1 (/x)\n");
    std::fs::write(dir.join("perf.txt"), text).unwrap();
    let answers = |period: &str| -> Vec<String> {
        let words = [
            "analyse",
            "perf.txt",
            "--json",
            "--period",
            period,
            "--tier",
            "slow:retention=1s,capacity=1KiB,bandwidth=1GB/s,endurance=10",
            "--tier",
            "fast:retention=1h,capacity=1GiB",
        ];
        let found = json(&call(dir, &words));
        let fits = found["tiers"].as_array().unwrap();
        let own = fits.iter().filter(|fit| fit["region_type"] == "kv_cache");
        own.map(|fit| {
            format!(
                "{} {}",
                fit["question"].as_str().unwrap(),
                fit["answer"].as_str().unwrap()
            )
        })
        .collect()
    };
    let known = [
        "capacity does not fit",
        "bandwidth fits",
        "retention does not fit",
        // Stored once, and not again in the second half.
        "endurance fits",
        "capacity fits",
        "retention fits",
    ];
    assert_eq!(answers("1"), known);
    // A sample in a thousand is insufficient for most answers.
    assert!(
        answers("1000")
            .iter()
            .filter(|answer| answer.ends_with("cannot say"))
            .count()
            >= 2
    );
    let said = fails(dir, &["analyse", "perf.txt", "--tier", "x:speed=1"], 2);
    assert!(said.contains("speed"), "{said}");
}

#[test]
fn ranges_and_phases_that_hold_nothing_are_said() {
    let folder = folder();
    let dir = folder.path();
    for range in [
        r#"[{"addr_start": 10, "addr_end": 5, "region_type": "weight"}]"#,
        r#"[{"addr_start": 1, "addr_end": 5, "region_type": "weight", "from_ns": 7, "to_ns": 7}]"#,
    ] {
        std::fs::write(dir.join("ranges.json"), range).unwrap();
        let said = fails(dir, &["analyse", "perf.txt", "--ranges", "ranges.json"], 3);
        assert!(said.contains("range 0"), "{said}");
    }
    std::fs::write(dir.join("phases.json"), r#"{"phase_boundaries": null}"#).unwrap();
    let said = call(dir, &["analyse", "perf.txt", "--phases", "phases.json"]);
    assert!(String::from_utf8_lossy(&said.stderr).contains("no phases"));
    let overlap = r#"[{"phase": "x", "start_ns": 0, "end_ns": 9}, {"phase": "y", "start_ns": 5, "end_ns": 1e30}]"#;
    std::fs::write(dir.join("phases.json"), overlap).unwrap();
    let said = call(dir, &["analyse", "perf.txt", "--phases", "phases.json"]);
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(
        said.contains("'x' and 'y' overlap from 5 to 9 ns"),
        "{said}"
    );
    assert!(
        said.contains("'y' ends after the end of all clocks"),
        "{said}"
    );
    let never = r#"[{"phase": "generation", "start_ns": 1e30, "end_ns": 2e30}]"#;
    std::fs::write(dir.join("phases.json"), never).unwrap();
    fails(dir, &["analyse", "perf.txt", "--phases", "phases.json"], 3);
    // A damaged byte in a text does not change its format.
    let text = std::fs::read_to_string(dir.join("perf.txt")).unwrap();
    std::fs::write(
        dir.join("nul.txt"),
        text.replacen("captured", "capt\0red", 1),
    )
    .unwrap();
    assert_eq!(
        json(&call(dir, &["analyse", "nul.txt", "--json"]))["analysis"]["rows"],
        json(&call(dir, &["analyse", "perf.txt", "--json"]))["analysis"]["rows"]
    );
}

/// Activity that continues after the recording is distinguished from activity that happens once.
#[test]
fn tiers_are_judged_by_what_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    // Over 8 s: 50 lines stored once and read until the end, and a line of activations stored and read every 10 ms.
    let mut rows: Vec<(u64, &str, u64, &str)> = Vec::new();
    for line in 0..50 {
        let address = 0x7f00_0000_0000 + line * 64;
        rows.push((line * 1_000_000, "mem-stores", address, "llama_model_load"));
        let loads = (100..800).step_by(10).map(|at| at * 10_000_000 + line);
        rows.extend(loads.map(|time| (time, "mem-loads", address, "ggml_vec_dot_q4")));
    }
    for at in 0..800 {
        let address = 0x7f20_0000_0000;
        rows.push((at * 10_000_000 + 100, "mem-stores", address, "ggml_add"));
        rows.push((
            at * 10_000_000 + 2_000_100,
            "mem-loads",
            address,
            "ggml_add",
        ));
    }
    // A cache that takes a new page every 100 ms.
    for page in 0..80 {
        let address = 0x7f30_0000_0000 + page * 4096;
        rows.push((page * 100_000_000 + 7, "mem-stores", address, "kv_update"));
        rows.push((page * 100_000_000 + 900, "mem-loads", address, "kv_read"));
    }
    rows.sort_unstable();
    let mut text = String::new();
    for (time, event, address, symbol) in rows {
        let (s, ns) = (time / 1_000_000_000, time % 1_000_000_000);
        let _ = writeln!(
            text,
            "llama 1 [000] {s}.{ns:09}: {event}: {address:x} {symbol}+0x1 (/usr/lib/libggml.so)"
        );
    }
    std::fs::write(dir.join("perf.txt"), text).unwrap();
    let found = json(&call(
        dir,
        &[
            "analyse",
            "perf.txt",
            "--json",
            "--period",
            "1",
            "--tier",
            "m:retention=10s,capacity=1MiB,endurance=1000",
        ],
    ));
    let fit = |kind: &str, question: &str| {
        let fits = found["tiers"].as_array().unwrap();
        let is_it = |fit: &&Value| fit["region_type"] == kind && fit["question"] == question;
        fits.iter().find(is_it).unwrap().clone()
    };
    // The oldest reads find data of nearly 8 s, and later ones may find older data.
    let age = fit("weight", "retention");
    assert_eq!(age["answer"], "cannot say", "{age}");
    assert!(
        age["needed_high"].is_null() && age["needed_low"].as_f64() > Some(7.0),
        "{age}"
    );
    assert!(
        age["note"].as_str().unwrap().contains("at least 7."),
        "{age}"
    );
    let wear = fit("weight", "endurance");
    assert_eq!(wear["needed_high"], 0.0, "{wear}");
    assert!(
        wear["note"]
            .as_str()
            .unwrap()
            .contains("not written in the last"),
        "{wear}"
    );
    // 100 stores of 64 B each second to 1 MiB in five years.
    let writes = 100.0 * 64.0 / 1_048_576.0 * 5.0 * 365.25 * 86_400.0;
    let wear = fit("activation", "endurance");
    let needed = wear["needed_high"].as_f64().unwrap();
    assert!((needed / writes - 1.0).abs() < 0.01, "{needed} {writes}");
    assert_eq!(wear["needed_low"], wear["needed_high"]);
    assert_eq!(fit("activation", "retention")["answer"], "fits");
    // Growing data may need more later, or less if pages were freed before.
    assert_eq!(fit("weight", "capacity")["answer"], "fits");
    let size = fit("kv_cache", "capacity");
    assert_eq!(size["answer"], "cannot say", "{size}");
    assert!(size["needed_low"].as_f64() < Some(3.0 * 4096.0), "{size}");
    let cut = |kind: &str| cell(&found, "verdict", kind, "read_age_is_cut").clone();
    assert_eq!(
        (cut("weight"), cut("activation")),
        (true.into(), false.into())
    );
}

/// A recording of loads only says nothing of ages and wear, however it was sampled: the stores that decide were not recorded.
#[test]
fn tiers_are_not_judged_by_stores_that_were_not_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    // A line is rewritten every 20 ms and loaded after 5 ms, for 20 s; one of four accesses is sampled.
    let recorded = |with_stores: bool| {
        let (mut text, mut state) = (String::new(), 3_u64);
        for at in 0..1000_u64 {
            for (event, delay) in [("mem-stores", 0), ("mem-loads", 5_000_000)] {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                let time = at * 20_000_000 + delay;
                if (state >> 33) % 4 == 0 && (with_stores || delay > 0) {
                    let (s, ns) = (time / 1_000_000_000, time % 1_000_000_000);
                    let address = 0x7f20_0000_0000_u64 + (at % 16) * 64;
                    let _ = writeln!(
                        text,
                        "c 1 [000] {s}.{ns:09}: 4 cpu/{event}/P: {address:x} ggml_add+0x1 (/x)"
                    );
                }
            }
        }
        std::fs::write(dir.join("perf.txt"), text).unwrap();
        let tier = "m:retention=1s,capacity=1GiB,endurance=1,bandwidth=1TB/s";
        json(&call(
            dir,
            &["analyse", "perf.txt", "--json", "--tier", tier],
        ))
    };
    let found = recorded(false);
    for fit in found["tiers"].as_array().unwrap() {
        let question = fit["question"].as_str().unwrap();
        if question != "capacity" {
            assert_eq!(fit["answer"], "cannot say", "{fit}");
            let note = fit["note"].as_str().unwrap();
            assert!(note.contains("no store was recorded"), "{fit}");
            assert!(fit["needed_high"].is_null(), "{fit}");
        }
        if question == "retention" || question == "endurance" {
            assert!(fit["needed_low"].is_null(), "{fit}");
        }
    }
    for column in ["read_age_p50_low_ns", "read_age_p99_low_ns"] {
        let low = cell(&found, "verdict", "activation", column);
        assert!(low.is_null(), "{column}: {low}");
    }
    // With them, data is read that was stored 5 ms before.
    let found = recorded(true);
    let fits = found["tiers"].as_array().unwrap();
    let age = fits
        .iter()
        .find(|fit| fit["question"] == "retention")
        .unwrap();
    assert!(age["needed_low"].as_f64() <= Some(0.005), "{age}");
}
