//! A list of fields, as `perf script -F` takes it.

use std::fmt;
use std::str::FromStr;

/// Names of the fields, in the order of their bits.
const NAMES: [&str; 15] = [
    "comm",
    "pid",
    "tid",
    "cpu",
    "time",
    "period",
    "event",
    "ip",
    "addr",
    "sym",
    "symoff",
    "dso",
    "weight",
    "data_src",
    "phys_addr",
];

/// The fields that a text of `perf script` has: any of `comm,pid,tid,cpu,time,period,event,ip,addr,sym,symoff,dso,weight,
/// data_src,phys_addr`, of which `time` and `addr` must be there.
///
/// The order of the list says nothing: perf prints fields in an order of its own, whatever the order in which they were asked for.
///
/// ```
/// use memtrace_labeller::perf_text::{FieldList, Grammar, parse_line};
/// let list: FieldList = "time,pid,addr,sym,dso".parse()?;
/// let line = b"  4242   100.5:     7f3a00001000 operator new(unsigned long) (/usr/lib/libc.so)";
/// let sample = parse_line(line, Grammar::Listed(list)).unwrap();
/// assert_eq!((sample.thread_id, sample.symbol), (Some(4242), &b"operator new(unsigned long)"[..]));
/// # Ok::<(), String>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldList(u16);

impl FieldList {
    pub(super) const THREAD: Self = Self(1 << 1 | 1 << 2);
    pub(super) const CPU: Self = Self(1 << 3);
    const TIME: Self = Self(1 << 4);
    pub(super) const PERIOD: Self = Self(1 << 5);
    pub(super) const EVENT: Self = Self(1 << 6);
    pub(super) const IP: Self = Self(1 << 7);
    const ADDR: Self = Self(1 << 8);
    pub(super) const SYM: Self = Self(1 << 9);
    pub(super) const DSO: Self = Self(1 << 11);
    pub(super) const WEIGHT: Self = Self(1 << 12);
    pub(super) const DATA_SRC: Self = Self(1 << 13);
    pub(super) const PHYS_ADDR: Self = Self(1 << 14);

    /// Whether one of the fields is in the list.
    pub(super) const fn has(self, fields: Self) -> bool {
        self.0 & fields.0 != 0
    }
}

impl FromStr for FieldList {
    type Err = String;

    /// Reads names separated by commas.
    ///
    /// # Errors
    ///
    /// What is wrong, as a sentence: a name that is none, or `time` or `addr` missing.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut bits = 0;
        for name in text.split(',').map(str::trim) {
            let at = NAMES.iter().position(|known| *known == name);
            let at =
                at.ok_or_else(|| format!("'{name}' is no field; fields are {}", NAMES.join(",")))?;
            bits |= 1 << at;
        }
        let list = Self(bits);
        for (field, name) in [(Self::TIME, "time"), (Self::ADDR, "addr")] {
            if !list.has(field) {
                return Err(format!("a list without '{name}' gives no rows"));
            }
        }
        Ok(list)
    }
}

impl fmt::Display for FieldList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = NAMES.iter().enumerate();
        let chosen: Vec<&str> = names
            .filter(|(at, _)| self.0 >> at & 1 == 1)
            .map(|(_, name)| *name)
            .collect();
        f.write_str(&chosen.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_mistakes_are_told() {
        let list: FieldList = "addr, time,phys_addr".parse().unwrap();
        assert_eq!(list.to_string(), "time,addr,phys_addr");
        assert!(list.has(FieldList::PHYS_ADDR) && !list.has(FieldList::THREAD));
        let wrong = |text: &str| text.parse::<FieldList>().unwrap_err();
        assert!(wrong("time,addr,srcline").contains("'srcline' is no field"));
        assert!(wrong("comm,addr").contains("without 'time'"));
        assert!(wrong("comm,time").contains("without 'addr'"));
        assert!(wrong("").contains("'' is no field"));
    }
}
