//! Labelling against a plain computation of its definition, on random rows with every oddity at once; and what it may hold.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::collections::HashMap;
use std::sync::LazyLock;

use memtrace_labeller::{
    Access, AddressRange, KvBlock, LabelOptions, Labeller, Name, Names, Region, Regions,
};
use proptest::prelude::*;

/// Made once: rules are compiled.
static MRM: LazyLock<LabelOptions> = LazyLock::new(LabelOptions::mrm);

/// What makes rows one region, in words.
type Key = (&'static str, u64);

/// Region, address, page, store, load, eviction, loads.
type Life = (u64, u64, u64, Option<u64>, u64, Option<u64>, u64);

/// The definition, with a table for everything.
#[derive(Default)]
struct Twin {
    /// Block and extent bytes, in our way of labelling.
    native: Option<(u64, u64)>,
    ranges: Vec<(u64, u64, &'static str)>,
    types: HashMap<u64, String>,
    ids: HashMap<Key, u64>,
    next: u64,
    /// Id, type, lowest and highest page, first and latest time, rows.
    map: Vec<(u64, String, u64, u64, u64, u64, u64)>,
    blocks: HashMap<u64, usize>,
    kv: Vec<Life>,
    /// Parts that the current fill of a block stored, and whether they were read since.
    parts: HashMap<u64, HashMap<u64, bool>>,
}

impl Twin {
    /// Type and region.
    fn label(&mut self, row: &Access, names: &Names) -> (String, u64) {
        let page = row.address_page;
        let covers = |(start, end, _): &(u64, u64, &str)| (*start..*end).contains(&row.address);
        let range = self.ranges.iter().position(covers);
        let range = range.filter(|_| self.native.is_some() && row.region_type == Name::UNKNOWN);
        let found = if row.region_type != Name::UNKNOWN {
            Some(names.text(row.region_type).to_owned())
        } else if let Some(at) = range {
            Some(self.ranges[at].2.to_owned())
        } else if let Some(known) = self.types.get(&page) {
            Some(known.clone())
        } else {
            MRM.rules
                .classify(None, names.text(row.op), names.text(row.symbol), "")
                .map(str::to_owned)
        };
        let Some(found) = found else {
            return ("unknown".to_owned(), 0);
        };
        if range.is_none() {
            self.types.entry(page).or_insert_with(|| found.clone());
        }
        let key: Key = match (self.native, &*found, range) {
            (None, "weight", _) => ("weights", 0),
            (None, "kv_cache", _) => ("kv", row.address),
            (Some((bytes, _)), "kv_cache", _) => ("kv", row.address / bytes),
            (_, _, Some(at)) => ("range", at as u64),
            (Some((_, bytes)), "weight", _) => ("extent", row.address / bytes),
            _ => ("page", page),
        };
        let id = match self.ids.get(&key) {
            Some(id) => *id,
            None => {
                let id = if key.0 == "weights" {
                    1
                } else {
                    self.next += 1;
                    self.next + 1
                };
                self.ids.insert(key, id);
                let time = row.timestamp_ns;
                let kind = found.clone();
                self.map.push((id, kind, page, page, time, time, 0));
                id
            }
        };
        let region = self.map.iter_mut().find(|region| region.0 == id).unwrap();
        region.2 = region.2.min(page);
        region.3 = region.3.max(page);
        region.5 = region.5.max(row.timestamp_ns);
        region.6 += 1;
        if found == "kv_cache" {
            self.life(row, id);
        }
        (found, id)
    }

    fn life(&mut self, row: &Access, id: u64) {
        let (key, address, page) = match self.native {
            None => (row.address_page, row.address, row.address_page),
            Some((bytes, _)) => {
                let start = row.address / bytes * bytes;
                (start, start, start >> 12)
            }
        };
        let at = *self.blocks.entry(key).or_insert(self.kv.len());
        if at == self.kv.len() {
            self.kv.push((id, address, page, None, 0, None, 0));
        }
        let (time, block) = (row.timestamp_ns, &mut self.kv[at]);
        if let Some((bytes, _)) = self.native {
            // What the current fill stored, and whether it was read.
            let part = (row.address - address) / (bytes / 64).clamp(4, 64);
            let parts = self.parts.entry(key).or_default();
            let known = parts.get(&part).copied();
            let is_evicted = block.5.is_some();
            if row.op != Name::STORE {
                parts.entry(part).and_modify(|is_read| *is_read = true);
                if !is_evicted {
                    block.4 = block.4.max(time);
                    block.6 += 1;
                }
                return;
            }
            if known == Some(true) {
                parts.clear();
                block.5.get_or_insert(time);
            }
            parts.insert(part, false);
            block.3.get_or_insert(time);
            return;
        }
        if row.op != Name::STORE {
            block.4 = block.4.max(time);
            block.6 += 1;
        } else {
            match block.3 {
                None => block.3 = Some(time),
                Some(written) if block.5.is_none() && written != time => block.5 = Some(time),
                Some(_) => {}
            }
        }
    }
}

#[derive(Debug, Clone)]
struct Row {
    time: u64,
    address: u64,
    own_page: Option<u64>,
    is_store: bool,
    symbol: &'static str,
    given: Option<&'static str>,
}

fn row() -> impl Strategy<Value = Row> {
    let symbols = [
        "llama_kv_update",
        "ggml_mul_mat",
        "ggml_add",
        "malloc",
        "main",
        "memcpy",
    ];
    let given = ["weight", "kv_cache", "activation", "runtime", "odd"];
    let own = [1, (1 << 52) + 3, u64::MAX, 0x0007_f000_0002];
    (
        0_u64..40,
        (0_u64..6, 0_u64..5),
        prop::option::weighted(0.1, prop::sample::select(own.to_vec())),
        any::<bool>(),
        prop::sample::select(symbols.to_vec()),
        prop::option::weighted(0.2, prop::sample::select(given.to_vec())),
    )
        .prop_map(
            |(time, (page, line), own_page, is_store, symbol, given)| Row {
                time,
                address: 0x7f00_0000_0000 + page * 4096 + line * 1000,
                own_page,
                is_store,
                symbol,
                given,
            },
        )
}

fn check(rows: &[Row], options: LabelOptions, mut twin: Twin, ranges_at: usize) {
    let mut names = Names::new();
    let mut labeller = Labeller::new(options);
    let ranges = [
        (0x7f00_0000_1800, 0x7f00_0000_2200, "weight"),
        (0x7f00_0000_4000, 0x7f00_0000_4400, "kv_cache"),
        (0x7f00_0000_5000, 0x7f00_0000_5100, "odd"),
    ];
    for (at, row) in rows.iter().enumerate() {
        if at == ranges_at {
            let list = ranges.map(|(start, end, kind)| AddressRange::new(start, end, kind));
            let typed = labeller.register_address_ranges(&list, &mut names);
            if twin.native.is_some() {
                twin.ranges = ranges.to_vec();
            } else {
                let before = twin.types.len();
                for (start, end, kind) in ranges {
                    for page in start >> 12..=(end - 1) >> 12 {
                        twin.types.entry(page).or_insert_with(|| kind.to_owned());
                    }
                }
                assert_eq!(typed, (twin.types.len() - before) as u64);
            }
        }
        let mut access = Access::new(row.time, row.address);
        access.address_page = row.own_page.unwrap_or(access.address_page);
        access.op = if row.is_store {
            Name::STORE
        } else {
            Name::LOAD
        };
        access.symbol = names.intern(row.symbol);
        access.region_type = row.given.map_or(Name::UNKNOWN, |given| names.intern(given));
        let expected = twin.label(&access, &names);
        assert!(labeller.label(&mut access, &mut names).unwrap());
        let found = (names.text(access.region_type).to_owned(), access.region_id);
        assert_eq!(found, expected, "row {at}");
    }
    let (map, kv) = labeller.into_maps();
    let region = |region: Region| {
        (
            region.region_id,
            names.text(region.region_type).to_owned(),
            region.page_min,
            region.page_max,
            region.first_seen_ns,
            region.last_seen_ns,
            region.access_count,
        )
    };
    assert_eq!(map.iter().map(region).collect::<Vec<_>>(), twin.map);
    let block = |block: KvBlock| {
        let fixed = (block.block_id, block.address, block.address_page);
        (
            fixed,
            block.write_ns,
            block.last_read_ns,
            block.evict_ns,
            block.total_reads,
        )
    };
    let expected: Vec<_> = twin
        .kv
        .iter()
        .map(|kv| ((kv.0, kv.1, kv.2), kv.3.unwrap_or(0), kv.4, kv.5, kv.6))
        .collect();
    assert_eq!(kv.iter().map(block).collect::<Vec<_>>(), expected);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn labels_are_those_of_the_definition(
        rows in prop::collection::vec(row(), 0..120),
        ranges_at in 0_usize..200,
        bytes in prop::sample::select(vec![64_u64, 1000, 4096, 10_000]),
    ) {
        check(&rows, MRM.clone(), Twin::default(), ranges_at);
        let mut options = MRM.clone();
        options.regions = Regions::Native { kv_block_bytes: bytes, weight_extent_bytes: 8192 };
        let twin = Twin { native: Some((bytes, 8192)), ..Twin::default() };
        check(&rows, options, twin, ranges_at);
    }
}

/// Bytes for each region of rows that fall on pages, or lines, of their own.
fn held(symbol: &str, maps: bool) -> u64 {
    let regions = 300_000;
    let mut names = Names::new();
    let mut options = LabelOptions::native();
    options.maps = maps;
    options.regions = Regions::Native {
        kv_block_bytes: 64,
        weight_extent_bytes: 2 << 20,
    };
    let mut labeller = Labeller::new(options);
    for at in 0..regions {
        let mut row = Access::new(at, 0x7000_0000_0000 + (at << 13));
        row.symbol = names.intern(symbol);
        labeller.label(&mut row, &mut names).unwrap();
    }
    labeller.heap_bytes() / regions
}

#[test]
fn a_region_takes_some_bytes_and_no_record() {
    // A key, a type, a place in a table that may be half empty and in columns that may be, too.
    for (symbol, maps, most) in [
        ("ggml_add", false, 36),
        ("ggml_add", true, 80),
        ("ggml_mul_mat", false, 20),
        ("ggml_mul_mat", true, 20),
        ("llama_kv_read", false, 50),
        ("llama_kv_read", true, 190),
    ] {
        let held = held(symbol, maps);
        assert!((1..=most).contains(&held), "{symbol} {maps}: {held}");
    }
}

/// Mistakes in a list of ranges are named with file, line and member, and with what is expected.
#[test]
fn mistakes_in_ranges_are_named_with_their_line() {
    for (text, what) in [
        (
            "[\n{\"addr_start\": 1, \"region_type\": \"weight\"}]",
            "missing field `addr_end` at line 2",
        ),
        (
            "{\"regions\": [\n\n{\"addr_start\": \"0x10\"}]}",
            "invalid type: string \"0x10\", expected u64 at line 3",
        ),
        ("{}", "missing field `regions`"),
        ("[", "EOF"),
    ] {
        let error = memtrace_labeller::ranges_from_json("r.json", text.as_bytes())
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("r.json: ") && error.contains(what),
            "{error}"
        );
        assert!(error.contains("expected a list, or an object"), "{error}");
    }
}
