//! Pairs of recordings with a planted difference and its truth, over kinds of faults, engines, ranks and seeds.
//!
//! `cargo xtask inject --output FOLDER` writes for each case `normal/`, `abnormal/` and `truth.json`. A program of operations is
//! replayed on simulated host threads and GPU streams, so that waits, idle time and late ranks follow from what is planted.
//! Programs are those of modelled engines, or of one recorded step (`--base TRACE`).
//!
//! Kinds and bases are in two halves: thresholds may be fitted to one and are judged on the other.

mod changing;
mod engines;
mod kinds;
mod plant;
mod program;
mod recorded;
mod replay;
mod shifting;
mod trainers;

use std::io::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use flate2::Compression;
use flate2::write::GzEncoder;

use self::engines::Engine;
pub(crate) use self::kinds::REFUSED;
use self::kinds::{Kind, all};
use self::plant::Conditions;
use self::replay::{Recording, Side};
use crate::dataset::{faults, put};
use crate::options::Options;
use serving_synth::json::{Json, object};

/// Bases of the two halves: those that thresholds may be fitted to, and those that they are judged on.
fn bases(recorded: Vec<Engine>) -> [Vec<Engine>; 2] {
    let mut halves = [
        vec![
            engines::vllm(1, true),
            engines::vllm(2, false),
            engines::sglang(4, true),
            engines::transformers(),
        ],
        vec![
            engines::sglang(1, false),
            engines::trt(2),
            engines::vllm(4, true),
            engines::vllm(1, false),
            engines::native(1),
        ],
    ];
    for (at, engine) in recorded.into_iter().enumerate() {
        halves[at % 2].push(engine);
    }
    halves
}

/// Bases of the two halves that only kinds of [`shifting`] are planted in, so that those of all others stay what they were.
fn own_bases() -> [Vec<Engine>; 2] {
    [
        vec![trainers::training(1), trainers::experts(4)],
        vec![trainers::experts(8), trainers::training(4)],
    ]
}

/// What to write.
pub(crate) struct Plan {
    pub(crate) seeds: u64,
    /// Bases of each kind; all if there are fewer.
    pub(crate) bases: usize,
    /// A part of the names of kinds or bases.
    pub(crate) only: Option<String>,
    pub(crate) recorded: Vec<String>,
}

impl Plan {
    pub(crate) fn of(options: &Options) -> Result<Self> {
        let number =
            |name, otherwise| -> Result<u64> { Ok(options.number(name)?.unwrap_or(otherwise)) };
        Ok(Self {
            seeds: number("seeds", 1)?,
            bases: usize::try_from(number("bases", 3)?)?,
            only: options.value("only").map(str::to_owned),
            recorded: options.all("base").map(str::to_owned).collect(),
        })
    }
}

/// `cargo xtask inject --output FOLDER [--seeds N] [--bases N] [--only NAME] [--base TRACE...]`.
pub(crate) fn run(args: &[String]) -> Result<()> {
    let options = Options::parse(args, &[], &["output", "seeds", "bases", "only", "base"])?;
    let folder = options
        .value("output")
        .context("--output FOLDER is needed")?;
    let cases = write(Path::new(folder), &Plan::of(&options)?)?;
    println!("{cases} pairs in {folder}");
    Ok(())
}

/// Writes all cases; returns how many.
pub(crate) fn write(folder: &Path, plan: &Plan) -> Result<usize> {
    let recorded = plan
        .recorded
        .iter()
        .map(|path| recorded::engine(Path::new(path)));
    let halves = bases(recorded.collect::<Result<_>>()?);
    let more = own_bases();
    let mut cases = 0;
    for seed in 1..=plan.seeds {
        for (at, kind) in all().enumerate() {
            let half = at % 2;
            let own = fitting(kind, &halves[half], &more[half]);
            // Another choice of bases for each kind and seed.
            let first = at / 2 + usize::try_from(seed)?;
            for place in 0..own.len().min(plan.bases) {
                let engine = own[(first + place) % own.len()];
                for number in 0..kind.sizes.len() {
                    let name = format!("{}/{}-{}-{seed}", kind.name, engine.name, number + 1);
                    if plan
                        .only
                        .as_ref()
                        .is_none_or(|only| name.contains(only.as_str()))
                    {
                        case(&folder.join(&name), (kind, half), engine, number, seed)?;
                        cases += 1;
                    }
                }
            }
        }
        cases += faults::write(folder, seed, plan.only.as_deref())?;
    }
    ensure!(cases > 0, "no case of that name");
    Ok(cases)
}

/// The bases of a half that a kind can be planted in.
fn fitting<'e>(kind: &Kind, bases: &'e [Engine], more: &'e [Engine]) -> Vec<&'e Engine> {
    let is_shifting = shifting::KINDS.iter().any(|own| own.name == kind.name);
    let more = more.iter().filter(|_| is_shifting);
    more.chain(bases).filter(|e| (kind.fits)(e)).collect()
}

/// Names of the halves in `truth.json`.
pub(crate) const HALVES: [&str; 2] = ["fitted", "judged"];

fn case(
    folder: &Path,
    (kind, half): (&Kind, usize),
    engine: &Engine,
    number: usize,
    seed: u64,
) -> Result<()> {
    let size = kind.sizes.get(number).copied().unwrap_or_default();
    let pair = (kind.plant)(engine, size, seed);
    // Seeds depend on the names, so that a new kind changes no other.
    let name = format!("{} {} {number} {seed}", kind.name, engine.name);
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    let normal = record(engine, &pair.normal, hash);
    let abnormal = record(engine, &pair.abnormal, hash ^ 0x9e37_79b9);
    files(&folder.join("normal"), &normal.files)?;
    files(&folder.join("abnormal"), &abnormal.files)?;
    let truth = truth(
        &Truth {
            kind: kind.name,
            base: &engine.name,
            size,
            half,
            causes: kind.causes,
        },
        &pair.place,
        [normal.mean_step_us, abnormal.mean_step_us],
    );
    put(&folder.join("truth.json"), truth.as_bytes())?;
    Ok(())
}

fn record(engine: &Engine, side: &Conditions, seed: u64) -> Recording {
    let mut recording = Side {
        engine,
        seed,
        steps: side.steps,
        noise: side.noise,
        fault: &side.fault,
        load: &side.load,
        counters: side.counters,
        flags: side.flags,
        gpu: side.gpu.unwrap_or(engine.gpu),
        layers: side.layers.unwrap_or(engine.layers),
    }
    .record();
    recording.files.truncate(side.ranks.unwrap_or(engine.ranks));
    recording
}

fn files(folder: &Path, files: &[String]) -> Result<()> {
    for (rank, text) in files.iter().enumerate() {
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(text.as_bytes())?;
        put(
            &folder.join(format!("rank{rank}.json.gz")),
            &packed.finish()?,
        )?;
    }
    Ok(())
}

/// What is true of a case.
pub(crate) struct Truth<'a> {
    pub(crate) kind: &'a str,
    pub(crate) base: &'a str,
    pub(crate) size: f64,
    pub(crate) half: usize,
    pub(crate) causes: &'a [&'a str],
}

/// Formats a truth.
pub(crate) fn truth(case: &Truth<'_>, place: &[String], mean_step_us: [f64; 2]) -> String {
    object! {
        "kind": case.kind,
        "base": case.base,
        "size": Json::fixed(case.size, 3),
        "half": HALVES[case.half],
        "causes": Json::list(case.causes.iter().copied()),
        "place": Json::list(place.iter().map(String::as_str)),
        "mean_step_us": Json::Arr(mean_step_us.iter().map(|us| Json::fixed(*us, 1)).collect()),
    }
    .pretty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_fits_a_base_of_its_half_and_changes_what_it_says() {
        let (halves, more) = (bases(Vec::new()), own_bases());
        assert!(all().count() >= 25);
        for (at, kind) in all().enumerate() {
            let fit = fitting(kind, &halves[at % 2], &more[at % 2]);
            let engine = fit.first().copied();
            assert!(engine.is_some(), "{} fits no base of its half", kind.name);
            let Some(engine) = engine else { continue };
            let pair = (kind.plant)(engine, kind.sizes[0], 1);
            let is_null = kind.name.starts_with("null");
            assert_eq!(pair.place.is_empty(), is_null, "{}", kind.name);
            let [normal, abnormal] =
                [&pair.normal, &pair.abnormal].map(|side| record(engine, side, 7));
            // Of one seed: only what is planted differs.
            let same = normal.files == abnormal.files;
            let is_plain_null = is_null && kind.name != "null_drift_continued";
            assert_eq!(same, is_plain_null, "{}", kind.name);
            for text in normal.files.iter().chain(&abnormal.files) {
                let read: serde_json::Value = serde_json::from_str(text).expect(kind.name);
                assert!(
                    read["traceEvents"]
                        .as_array()
                        .is_some_and(|list| list.len() > 100)
                );
            }
        }
    }

    #[test]
    fn a_slower_kernel_makes_a_step_of_a_busy_gpu_longer_by_what_it_adds() {
        let engine = engines::vllm(1, true);
        let kind = all().find(|kind| kind.name == "kernel_slower");
        let pair = kind
            .map(|kind| (kind.plant)(&engine, 2.0, 1))
            .expect("a kind");
        let [normal, abnormal] =
            [&pair.normal, &pair.abnormal].map(|side| record(&engine, side, 3));
        // 150 us of six layers, twice.
        let added = abnormal.mean_step_us - normal.mean_step_us;
        assert!((added - 900.0).abs() < 30.0, "{added}");
    }
}
