//! Tables of the steps of an engine, as a service writes them: a healthy stretch, and one that gets slower in its middle.
//!
//! Planted truth: the step from which on decodes take longer, and by how much.

use super::Fixture;
use super::json::object;
use super::rng::Rng;
use std::fmt::Write as _;

const HEALTHY_STEPS: u64 = 600;
const LATER_STEPS: u64 = 300;
/// From this step of the later table on, steps take longer.
const SLOWER_FROM: u64 = 180;
const SLOWER_PCT: i64 = 12;

pub(super) fn build(seed: u64) -> Vec<Fixture> {
    let mut rng = Rng::new(seed);
    let (healthy, _) = table(&mut rng, HEALTHY_STEPS, HEALTHY_STEPS);
    let (later, slower_from_us) = table(&mut rng, LATER_STEPS, SLOWER_FROM);
    let truth = object! {
        "slower_from_us": slower_from_us,
        "slower_pct": SLOWER_PCT,
    };
    let file = |name: &str, shows: &str, text: String| {
        Fixture::plain(&format!("serving/steps/{name}.csv"), shows, text)
    };
    vec![
        file(
            "healthy",
            "decode steps of a healthy engine with their batches and lengths",
            healthy,
        ),
        file(
            "later",
            "decode steps of the same engine, which get slower",
            later,
        ),
        Fixture::truth("serving/steps/later", &truth),
    ]
}

/// Returns a table of steps, and the start of the first slower one in µs.
fn table(rng: &mut Rng, steps: u64, slower_from: u64) -> (String, i64) {
    let mut text =
        "start_ts,duration_us,forward_mode,batch_size,avg_input_length,avg_output_length\n"
            .to_owned();
    let (mut start_us, mut slower_from_us) = (0, 0);
    for step in 0..steps {
        let (batch, output) = (rng.between(4, 64), rng.between(1, 400));
        let input = rng.between(200, 2_000);
        // A part for the weights, one for the requests, one for the cache that they read.
        let healthy_us = 6_000 + 20 * batch + batch * (input + output) / 40;
        let is_slower = step >= slower_from;
        if step == slower_from {
            slower_from_us = start_us;
        }
        let factor_pct = if is_slower { 100 + SLOWER_PCT } else { 100 };
        let duration_us = rng.around(healthy_us * factor_pct / 100, 2);
        let _ = writeln!(text, "{start_us},{duration_us},2,{batch},{input},{output}");
        start_us += duration_us + rng.between(100, 300);
    }
    (text, slower_from_us)
}
