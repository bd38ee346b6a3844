//! Sizes of collectives from payloads, and call chains.

use nsys_db::{Export, communicating_processes};
use trace_model::ArgValue;
use trace_model::kernel::collective::CollectiveReader;
use trace_model::kernel::{TraceIndex, Vocabulary};

use crate::support::{Made, SECRET, global, has};

/// A payload of NCCL's own ranges: header of four words, then the fields.
fn payload(schema: u64, body: &[u8]) -> Vec<u8> {
    let size = u64::try_from(body.len()).unwrap();
    let words = [1, schema, size, 32].map(u64::to_le_bytes);
    [words.concat(), body.to_vec()].concat()
}

#[test]
fn sizes_of_collectives_from_payloads() {
    for as_text in [false, true] {
        let mut made = Made::new();
        let (launch, ring) = (
            made.string("cudaLaunchKernel"),
            made.string("ncclDevKernel_AllGather_RING_LL()"),
        );
        let (exchange, comm) = (
            made.string("ncclDevKernel_SendRecv()"),
            0x39ea_0fc7_dbf2_6f66_u64,
        );
        made.calls().kernels().ranges().range(10, (0, None), 75, "NCCL", 1).sql(
            "CREATE TABLE NVTX_PAYLOAD_SCHEMA_ENTRIES (domainId INTEGER, schemaId INTEGER, idx INTEGER, type INTEGER, name TEXT, offset INTEGER);
             INSERT INTO NVTX_PAYLOAD_SCHEMA_ENTRIES VALUES
             (1, 5, 0, 18, 'NCCL communicator ID', NULL), (1, 5, 1, 5, 'No. of ranks', 8), (1, 5, 2, 5, 'Rank', 12),
             (1, 6, 0, 18, 'NCCL communicator ID', NULL), (1, 6, 1, 22, 'Message size [bytes]', 8)",
        );
        let put = |(start, end): (i64, i64), label: &str, bytes: Option<Vec<u8>>| {
            let hex =
                |bytes: &Vec<u8>| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
            let value = match &bytes {
                Some(bytes) if as_text => rusqlite::types::Value::Text(hex(bytes)),
                Some(bytes) => rusqlite::types::Value::Blob(bytes.clone()),
                None => rusqlite::types::Value::Null,
            };
            made.base
                .execute(
                    "INSERT INTO NVTX_EVENTS (start, end, eventType, text, globalTid, domainId, binaryData) VALUES (?1, ?2, 59, ?3, ?4, 1, ?5)",
                    (start, end, label, global(10, 10), value),
                )
                .unwrap();
        };
        let sized = |bytes: u64| [comm.to_le_bytes(), bytes.to_le_bytes()].concat();
        let init = [
            &comm.to_le_bytes()[..],
            &4_i32.to_le_bytes(),
            &2_i32.to_le_bytes(),
        ]
        .concat();
        put((-500, -400), "ncclCommInitRank", Some(payload(5, &init)));
        put((100, 200), "ncclAllGather", Some(payload(6, &sized(1000))));
        made.call(10, (150, 160), 1, launch)
            .kernel(10, (1000, 1100), (0, 7), 1, ring);
        put((300, 310), "ncclGroupStart", None);
        put((320, 330), "ncclSend", Some(payload(6, &sized(70))));
        put((340, 350), "ncclSend", Some(payload(6, &sized(30))));
        put((360, 370), "ncclRecv", Some(payload(6, &sized(90))));
        put((380, 480), "ncclGroupEnd", None);
        made.call(10, (400, 410), 2, launch)
            .kernel(10, (2000, 2100), (0, 7), 2, exchange);
        put(
            (500, 600),
            "ncclAllGather",
            Some(payload(6, &sized(9))[..40].to_vec()),
        );
        made.call(10, (550, 560), 3, launch)
            .kernel(10, (3000, 3100), (0, 7), 3, ring);
        let trace = made.load();
        let index = TraceIndex::new(&trace, Vocabulary::default());
        let reader = CollectiveReader::new(&trace);
        let mut found = Vec::new();
        for kernel in index.kernels() {
            let launch = index.launch_of(kernel).map(|found| found.0);
            let what = reader.of(&index, kernel, launch).unwrap();
            found.push((
                what.op.unwrap().name(),
                what.bytes,
                what.group_size,
                what.group.clone(),
            ));
        }
        let group = Some("0x39ea0fc7dbf26f66".to_owned());
        assert_eq!(found[0], ("all_gather", Some(4000), Some(4), group.clone()));
        assert_eq!(found[1], ("all_to_all", Some(100), Some(4), group));
        // A damaged payload is counted, and the range stays.
        assert_eq!(found[2], ("all_gather", None, None, None));
        assert_eq!(has(&trace, "damaged_payloads"), Some(1));
        assert_eq!(trace.meta().rank().map(|rank| rank.0), Some(2));
        let ranks = communicating_processes(&Export::open(made.path()).unwrap()).unwrap();
        assert_eq!(ranks.len(), 1);
        assert_eq!((ranks[0].process.pid(), ranks[0].kernels), (10, 3));
    }
}

#[test]
fn chains_are_between_ranges_and_the_call() {
    let mut made = Made::new();
    let launch = made.string("cudaLaunchKernel_v7000");
    let frames: Vec<(i64, i64, bool)> = [
        (
            "0x7f00",
            "/opt/nvidia/nsight-systems/x/libcupti.so.12",
            true,
        ),
        ("cudaMemcpy", "/usr/lib/libcudart.so.11.0", false),
        ("decode_step", &format!("/srv/{SECRET}/serve"), false),
        ("0x40", &format!("/srv/{SECRET}/serve"), true),
        ("main", &format!("/srv/{SECRET}/serve"), false),
        ("[Max depth]", "[Max depth]", false),
    ]
    .map(|(symbol, module, unresolved)| (made.string(symbol), made.string(module), unresolved))
    .to_vec();
    made.calls().call(10, (100, 150), 5, launch).sql(&format!(
        "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (90, 160, 67, {}, 5, {launch}, 0, 0);
         CREATE TABLE CUDA_CALLCHAINS (id INTEGER, symbol INTEGER, module INTEGER, unresolved INTEGER, originalIP INTEGER, stackDepth INTEGER)",
        global(10, 10)
    ));
    for (depth, (symbol, module, unresolved)) in frames.iter().enumerate().rev() {
        made.sql(&format!(
            "INSERT INTO CUDA_CALLCHAINS VALUES (0, {symbol}, {module}, {}, 64, {depth})",
            i64::from(*unresolved)
        ));
    }
    let trace = made.load();
    let call = trace.slices().next().unwrap();
    assert_eq!(trace.len(), 1);
    let chain = trace
        .arg_column("call chain")
        .get(call)
        .and_then(ArgValue::as_str);
    assert_eq!(chain, Some("decode_step\nserve!0x40\nmain"));
    assert_eq!(has(&trace, "call_chains"), Some(1));
}
