//! Error rates, coverage and power of the comparison, by simulation. `cargo xtask calibrate` writes them to the docs.
//!
//! Arguments: number of pairs for null tables, number for power tables.

#![expect(clippy::print_stdout, reason = "its output is a document")]

mod measure;
mod simulate;

fn main() {
    let mut numbers = std::env::args()
        .skip(1)
        .filter_map(|arg| arg.parse::<usize>().ok());
    let null = numbers.next().unwrap_or(1000);
    let power = numbers.next().unwrap_or(200);
    print!("{}", measure::document(null, power));
}
