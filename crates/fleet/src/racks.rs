//! Which rack each host is in. Recordings do not state it; a file does.

use std::collections::BTreeMap;

/// Number of hosts that one line may name.
const MAX_HOSTS: usize = 100_000;

/// The rack of each host.
///
/// ```
/// let racks = fleet::Racks::parse("host,rack\nnode1,A\nnode2,A\nnode3,B\n").unwrap();
/// assert_eq!(racks.of("node3"), Some("B"));
/// let racks = fleet::Racks::parse("SwitchName=leaf1 Nodes=node[1-2,07-09]\n").unwrap();
/// assert_eq!(racks.of("node08"), Some("leaf1"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Racks {
    of: BTreeMap<String, String>,
}

/// Why a list of racks cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct RackError {
    /// Line, from 1.
    pub line: usize,
    /// What is wrong, and what is expected.
    pub reason: String,
}

impl Racks {
    /// Reads a list: a host and its rack on each line, separated by a comma or spaces, or the leaf switches of Slurm's `topology.conf`
    /// (<https://slurm.schedmd.com/topology.conf.html>), where a switch stands for a rack. Empty lines, comments from `#` on and a first line
    /// `host,rack` say nothing.
    ///
    /// # Errors
    /// Returns an error for a line of another form, and for a host in two racks.
    pub fn parse(text: &str) -> Result<Self, RackError> {
        let mut racks = Self::default();
        let mut is_first = true;
        for (number, line) in text.lines().enumerate() {
            let failed = |reason: String| RackError {
                line: number + 1,
                reason,
            };
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let words: Vec<&str> = line
                .split(|c: char| c.is_whitespace())
                .filter(|word| !word.is_empty())
                .collect();
            let value = |key: &str| {
                words.iter().find_map(|word| {
                    let (name, value) = word.split_once('=')?;
                    name.eq_ignore_ascii_case(key).then_some(value)
                })
            };
            if let Some(switch) = value("SwitchName") {
                // A switch of switches is no rack; `scontrol show topology` lists all nodes below it.
                let nodes = match value("Switches") {
                    Some(_) => "",
                    None => value("Nodes").unwrap_or_default(),
                };
                for host in hosts(nodes).map_err(failed)? {
                    racks.add(host, switch).map_err(failed)?;
                }
            } else {
                let pair = match line.split_once(',') {
                    Some((host, rack)) => (host.trim(), rack.trim()),
                    None => match words.as_slice() {
                        [host, rack] => (*host, *rack),
                        _ => ("", ""),
                    },
                };
                match pair {
                    ("", _) | (_, "") => {
                        let reason = "expected a host and its rack, such as `node1,A`, or `SwitchName=A Nodes=node[1-8]`";
                        return Err(failed(reason.to_owned()));
                    }
                    ("host", "rack") if is_first => {}
                    (host, rack) => racks.add(host.to_owned(), rack).map_err(failed)?,
                }
            }
            is_first = false;
        }
        Ok(racks)
    }

    fn add(&mut self, host: String, rack: &str) -> Result<(), String> {
        match self.of.get(&host) {
            Some(known) if known != rack => Err(format!("host {host} is in rack {known} already")),
            _ => {
                self.of.insert(host, rack.to_owned());
                Ok(())
            }
        }
    }

    /// Returns the rack of a host.
    #[must_use]
    pub fn of(&self, host: &str) -> Option<&str> {
        self.of.get(host).map(String::as_str)
    }

    /// Returns whether no host is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.of.is_empty()
    }
}

/// Expands a list of hosts in the notation of Slurm: `node[1-3,07],login`.
fn hosts(list: &str) -> Result<Vec<String>, String> {
    let mut out = Vec::new();
    for part in split_outside_brackets(list) {
        expand("", part, &mut out)?;
    }
    Ok(out)
}

fn split_outside_brackets(list: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut from, mut depth) = (0, 0_usize);
    for (at, byte) in list.bytes().enumerate() {
        match byte {
            b'[' => depth += 1,
            b']' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                parts.push(&list[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&list[from..]);
    parts.retain(|part| !part.is_empty());
    parts
}

/// Adds each host that `rest` names behind `start`.
fn expand(start: &str, rest: &str, out: &mut Vec<String>) -> Result<(), String> {
    let Some((before, inner)) = rest.split_once('[') else {
        if out.len() == MAX_HOSTS {
            return Err(format!("more than {MAX_HOSTS} hosts"));
        }
        out.push(format!("{start}{rest}"));
        return Ok(());
    };
    let unclosed = || format!("a bracket is not closed in `{rest}`");
    let (ranges, after) = inner.split_once(']').ok_or_else(unclosed)?;
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let number = |text: &str| {
            let is_digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
            let number = text.parse::<u32>().ok().filter(|_| is_digits);
            number.ok_or_else(|| format!("`{range}` is no range of numbers"))
        };
        // Numbers have the width of the first one: node[08-10] are node08, node09 and node10.
        let width = first.len();
        let (first, last) = (number(first)?, number(last)?);
        if first > last {
            return Err(format!("`{range}` ends before it begins"));
        }
        for number in first..=last {
            expand(&format!("{start}{before}{number:0width$}"), after, out)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Vec<(String, String)> {
        let racks = Racks::parse(text).map(|racks| racks.of.into_iter().collect());
        racks.unwrap_or_default()
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        let owned = |&(host, rack): &(&str, &str)| (host.to_owned(), rack.to_owned());
        pairs.iter().map(owned).collect()
    }

    #[test]
    fn lines_name_a_host_and_its_rack() {
        let text = "host,rack\n# east\na, r1\nb r1 # spare\n\nc\tr2\n";
        assert_eq!(all(text), pairs(&[("a", "r1"), ("b", "r1"), ("c", "r2")]));
    }

    #[test]
    fn leaf_switches_are_racks() {
        let text = "SwitchName=s0 Nodes=n[8-10,12]x[0-1],login LinkSpeed=5\nSwitchName=top Level=1 Nodes=n[8-10,12]x[0-1],login Switches=s[0-1]\nswitchname=s1 nodes=n[07-08]\n";
        let mut expected: Vec<(String, String)> = Vec::new();
        for n in [8, 9, 10, 12] {
            for x in 0..2 {
                expected.push((format!("n{n}x{x}"), "s0".to_owned()));
            }
        }
        expected.extend(pairs(&[("login", "s0"), ("n07", "s1"), ("n08", "s1")]));
        expected.sort();
        assert_eq!(all(text), expected);
    }

    #[test]
    fn other_lines_are_errors_with_their_number() {
        for (text, line, reason) in [
            ("a,r1\nb", 2, "expected a host"),
            ("a,r1\na,r2", 2, "is in rack r1 already"),
            ("SwitchName=s Nodes=n[3-1]", 1, "ends before it begins"),
            ("SwitchName=s Nodes=n[3", 1, "not closed"),
            ("SwitchName=s Nodes=n[a-b]", 1, "no range of numbers"),
            ("SwitchName=s Nodes=n[0-999999999]", 1, "more than"),
        ] {
            let error = Racks::parse(text).err().map(|e| (e.line, e.reason));
            let (at, why) = error.unwrap_or_default();
            assert_eq!(at, line, "{text}");
            assert!(why.contains(reason), "{why}");
        }
    }
}
