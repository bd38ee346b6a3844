//! Dumps that Python's pickle wrote, with answers by brute force (`data/make.py`), and hostile ones.
// `cfg(test)` is always on here; it tells clippy that helpers may unwrap as tests do.

#[cfg(test)]
mod flight;
#[cfg(test)]
mod memory;
#[cfg(test)]
mod pickle;
