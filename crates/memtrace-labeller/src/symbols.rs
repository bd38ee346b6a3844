//! Which function holds an instruction: tables of symbols, for captures that only say addresses.

use crate::error::{Error, Result};

/// Maximum number of symbols of a table.
const MAX_SYMBOLS: usize = 1 << 24;

/// Functions and where they lie, from the text of `nm` or from an ELF file.
///
/// ```
/// use memtrace_labeller::SymbolTable;
/// let table = SymbolTable::read("nm.txt", b"0000000000401130 T kv_update\n0000000000401180 000000000000001c t main\n", 0)?;
/// assert_eq!(table.at(0x40_1134), Some("kv_update"));
/// assert_eq!(table.at(0x40_1190), Some("main"));
/// assert_eq!(table.at(0x40_119c), None);
/// # Ok::<(), memtrace_labeller::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SymbolTable {
    /// By start, ascending; a function without a size ends where the next one begins.
    functions: Vec<Function>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Function {
    start: u64,
    end: Option<u64>,
    name: Box<str>,
}

impl SymbolTable {
    /// Reads the text of `nm` (also `nm -S`), or the symbols of an ELF file of 64 bits; `base` is added to every address.
    ///
    /// # Errors
    ///
    /// [`Error::Symbols`] when there is no function in it, or it is no such file.
    pub fn read(name: &str, bytes: &[u8], base: u64) -> Result<Self> {
        let wrong = |what: &'static str| Error::Symbols {
            name: name.to_owned(),
            what,
        };
        let mut functions = if bytes.starts_with(b"\x7fELF") {
            elf(bytes).ok_or_else(|| wrong("is no whole ELF file of 64 bits, little-endian"))?
        } else {
            String::from_utf8_lossy(bytes)
                .lines()
                .take(MAX_SYMBOLS)
                .filter_map(nm_line)
                .collect()
        };
        if functions.iter().all(|function| function.name.is_empty()) {
            return Err(wrong(
                "has no functions; give the text of nm, or an ELF file that is not stripped",
            ));
        }
        for function in &mut functions {
            function.start = function.start.wrapping_add(base);
            function.end = function.end.map(|end| end.wrapping_add(base));
        }
        // Of several names of a place the first in the file stays.
        let mut table = Self { functions };
        table.order();
        Ok(table)
    }

    fn order(&mut self) {
        self.functions
            .sort_by_key(|function| (function.start, function.name.is_empty()));
        self.functions.dedup_by_key(|function| function.start);
    }

    /// Adds another table, whose functions are elsewhere.
    pub fn join(&mut self, other: Self) {
        self.functions.extend(other.functions);
        self.order();
    }

    /// The function at an address.
    #[must_use]
    pub fn at(&self, address: u64) -> Option<&str> {
        self.place(address).map(|(name, _)| name)
    }

    /// The function at an address, and where it begins and ends.
    pub(crate) fn place(&self, address: u64) -> Option<(&str, std::ops::Range<u64>)> {
        let after = self
            .functions
            .partition_point(|function| function.start <= address);
        let function = self.functions.get(after.checked_sub(1)?)?;
        let next = self
            .functions
            .get(after)
            .map_or(u64::MAX, |next| next.start);
        let end = function.end.unwrap_or(next).min(next);
        (address < end && !function.name.is_empty())
            .then_some((&*function.name, function.start..end))
    }
}

/// `ADDRESS [SIZE] TYPE NAME`. What is no function has no name here, but ends the function before it.
fn nm_line(line: &str) -> Option<Function> {
    let (address, rest) = line.trim_start().split_once(' ')?;
    let start = u64::from_str_radix(address, 16).ok()?;
    let (first, rest) = rest.trim_start().split_once(' ')?;
    let (kind, size, name) = if first.len() == 1 {
        (first, None, rest)
    } else {
        let size = u64::from_str_radix(first, 16).ok()?;
        let (kind, name) = rest.split_once(' ')?;
        (kind, Some(size), name)
    };
    if kind.len() != 1 || !kind.bytes().all(|kind| kind.is_ascii_alphabetic()) {
        return None;
    }
    let is_function = matches!(kind, "t" | "T" | "w" | "W" | "i" | "u");
    Some(Function {
        start,
        end: size.map(|size| start.saturating_add(size)),
        name: if is_function { name.trim() } else { "" }.into(),
    })
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    number(bytes, at).map(u64::from_le_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    number(bytes, at).map(u32::from_le_bytes)
}

fn part(bytes: &[u8], start: u64, length: u64) -> Option<&[u8]> {
    let start = usize::try_from(start).ok()?;
    let end = start.checked_add(usize::try_from(length).ok()?)?;
    bytes.get(start..end)
}

/// The functions of the symbol tables of an ELF file; the layout is that of `elf(5)`.
fn elf(bytes: &[u8]) -> Option<Vec<Function>> {
    // 64 bits, little-endian.
    if bytes.get(4..6)? != [2, 1] {
        return None;
    }
    let sections = u64_at(bytes, 0x28)?;
    let entry = u64::from(u16::from_le_bytes(number(bytes, 0x3a)?));
    let count = u64::from(u16::from_le_bytes(number(bytes, 0x3c)?));
    let section = |at: u64| part(bytes, sections.checked_add(at.checked_mul(entry)?)?, 64);
    let mut functions = Vec::new();
    for at in 0..count {
        let header = section(at)?;
        // Symbols, and those of the dynamic linker.
        if !matches!(u32_at(header, 4)?, 2 | 11) {
            continue;
        }
        let symbols = part(bytes, u64_at(header, 0x18)?, u64_at(header, 0x20)?)?;
        let texts = section(u64::from(u32_at(header, 0x28)?))?;
        let texts = part(bytes, u64_at(texts, 0x18)?, u64_at(texts, 0x20)?)?;
        for symbol in symbols.chunks_exact(24) {
            let kind = symbol.get(4)? & 15;
            let (start, size) = (u64_at(symbol, 8)?, u64_at(symbol, 16)?);
            // Functions, also indirect ones, that are defined here.
            let home = u64::from(u16::from_le_bytes(number(symbol, 6)?));
            if !matches!(kind, 2 | 10) || home == 0 || functions.len() >= MAX_SYMBOLS {
                continue;
            }
            let name = texts.get(usize::try_from(u32_at(symbol, 0)?).ok()?..)?;
            let end = memchr::memchr(0, name).unwrap_or(name.len());
            let name = String::from_utf8_lossy(name.get(..end)?);
            // What has no size, as what assemblers wrote, ends with its section at the latest.
            let length = match size {
                0 => section(home)
                    .and_then(|home| home_end(home, start))
                    .unwrap_or(0),
                size => size,
            };
            functions.push(Function {
                start,
                end: Some(start.saturating_add(length)),
                name: name.into(),
            });
        }
    }
    Some(functions)
}

/// Bytes from an address to the end of its section, 0 when it is outside.
fn home_end(section: &[u8], start: u64) -> Option<u64> {
    let end = u64_at(section, 0x10)?.saturating_add(u64_at(section, 0x20)?);
    Some(end.saturating_sub(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_end_where_they_say_or_where_the_next_begins() {
        let text = "                 U malloc\n0000000000001000 T a\n0000000000001100 0000000000000010 t b::c(int, int)\n0000000000002000 D data\n0000000000001000 T alias\nnonsense\n";
        let table = SymbolTable::read("nm", text.as_bytes(), 0x10_0000).unwrap();
        let at = |address: u64| table.at(address).unwrap_or("-");
        assert_eq!(
            [
                0xf_ffff, 0x10_1000, 0x10_10ff, 0x10_1100, 0x10_1110, 0x10_2000
            ]
            .map(at),
            ["-", "a", "a", "b::c(int, int)", "-", "-"]
        );
        for nothing in ["", "prose without numbers", "0000000000002000 D data"] {
            assert!(SymbolTable::read("nm", nothing.as_bytes(), 0).is_err());
        }
    }

    /// A function that no optimisation takes away.
    #[inline(never)]
    fn landmark_of_a_test(value: u64) -> u64 {
        std::hint::black_box(value) + 1
    }

    /// It is in the file that runs the test.
    #[cfg(target_os = "linux")]
    #[test]
    fn the_functions_of_an_elf_file_are_read_and_cut_files_are_refused() {
        let path = std::env::current_exe().unwrap();
        let mut bytes = std::fs::read(path).unwrap();
        let table = SymbolTable::read("self", &bytes, 0).unwrap();
        assert_eq!(landmark_of_a_test(1), 2);
        let own = "landmark_of_a_test";
        let place = table
            .functions
            .iter()
            .find(|function| function.name.contains(own))
            .unwrap();
        assert!(place.end.is_some_and(|end| end > place.start));
        assert_eq!(table.at(place.start), Some(&*place.name));
        bytes.truncate(bytes.len() / 2);
        assert!(SymbolTable::read("half", &bytes, 0).is_err());
        for length in [4, 16, 63] {
            bytes.truncate(length);
            assert!(SymbolTable::read("cut", &bytes, 0).is_err());
        }
    }
}
