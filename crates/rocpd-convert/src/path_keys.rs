//! Keys in names of output files, which profilers expand, and the time.

use std::collections::HashMap;

/// Values of the keys in names of output files: `%hostname%`, `{pid}`, `%h`, `%env{NAME}%` and the like.
#[derive(Debug, Clone)]
pub struct PathKeys(HashMap<String, String>);

/// Maximum number of rounds of expansion, for keys that expand to themselves.
const ROUNDS: usize = 8;

impl PathKeys {
    /// Returns the values of this process: its arguments, ids, host, ranks of MPI, and the time.
    #[must_use]
    pub fn of_process() -> Self {
        let mut keys = HashMap::new();
        let mut set = |name: &str, value: String| {
            keys.insert(name.to_owned(), value);
        };
        let env = |names: &[&str]| names.iter().find_map(|name| std::env::var(name).ok());
        let args: Vec<String> = std::env::args_os()
            .map(|arg| arg.to_string_lossy().into_owned())
            .collect();
        let tag = args
            .first()
            .map(|arg| arg.rsplit('/').next().unwrap_or(arg).to_owned())
            .unwrap_or_default();
        let pid = std::process::id().to_string();
        let rank = env(&[
            "MPI_RANK",
            "OMPI_COMM_WORLD_RANK",
            "MV2_COMM_WORLD_RANK",
            "SLURM_PROCID",
        ]);
        let size = env(&[
            "MPI_SIZE",
            "OMPI_COMM_WORLD_SIZE",
            "MV2_COMM_WORLD_SIZE",
            "SLURM_NPROCS",
        ]);
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let after = stat.rsplit(')').next().unwrap_or_default();
        let field = |at: usize| after.split_whitespace().nth(at).unwrap_or("0").to_owned();
        let hostname = std::fs::read_to_string("/proc/sys/kernel/hostname")
            .map(|name| name.trim().to_owned())
            .ok()
            .or_else(|| env(&["HOSTNAME"]))
            .unwrap_or_else(|| "localhost".to_owned());
        let clean = |parts: &[String]| {
            parts
                .iter()
                .map(|part| part.trim_start_matches('/').replace(['/', ' ', '\t'], "_"))
                .collect::<Vec<_>>()
                .join("_")
        };
        set("argv", clean(&args));
        set("argt", tag.clone());
        set("args", clean(args.get(1..).unwrap_or_default()));
        set("tag", tag);
        for (number, arg) in args.iter().enumerate() {
            set(&format!("arg{number}"), clean(std::slice::from_ref(arg)));
        }
        set("hostname", hostname.clone());
        set("pid", pid.clone());
        set("ppid", field(1));
        set("pgid", field(2));
        set("psid", field(3));
        set("psize", "0".to_owned());
        let job = env(&["SLURM_JOB_ID"]).unwrap_or_else(|| "0".to_owned());
        set("job", job.clone());
        set("rank", rank.clone().unwrap_or_else(|| "0".to_owned()));
        set("size", size.clone().unwrap_or_else(|| "1".to_owned()));
        set("nid", rank.clone().unwrap_or_else(|| pid.clone()));
        set(
            "cwd",
            std::env::current_dir()
                .map(|d| d.display().to_string())
                .unwrap_or_default(),
        );
        let now = Civil::now();
        let format = |variable: &str, default: &str| {
            now.format(&env(&[variable]).unwrap_or_else(|| default.to_owned()))
        };
        set("launch_date", format("ROCPROF_DATE_FORMAT", "%F"));
        set("launch_time", format("ROCPROF_TIME_FORMAT", "%F_%H.%M"));
        set("h", hostname);
        set("p", pid);
        set("j", job);
        set("r", rank.unwrap_or_else(|| "0".to_owned()));
        set("s", size.unwrap_or_else(|| "1".to_owned()));
        Self(keys)
    }

    /// Replaces `%key%`, `{key}`, `%h` and the like, and environment variables, until nothing
    /// changes.
    #[must_use]
    pub fn expand(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for _ in 0..ROUNDS {
            let next = self.once(&text);
            if next == text {
                break;
            }
            text = next;
        }
        text
    }

    fn once(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            if let Some((value, after)) = self.key(rest) {
                if value.is_empty() {
                    // The separator before a missing argument is removed too.
                    rest = after.trim_start_matches(['-', '_', '/']);
                } else {
                    out.push_str(&value);
                    rest = after;
                }
                continue;
            }
            out.push(first);
            rest = rest.get(first.len_utf8()..).unwrap_or_default();
        }
        out
    }

    /// Returns the value of the key at the start of a text, and the rest.
    fn key<'t>(&self, text: &'t str) -> Option<(String, &'t str)> {
        for (open, close) in [("%env{", "}%"), ("$ENV{", "}"), ("%q{", "}")] {
            if let Some(inner) = text.strip_prefix(open) {
                let (name, after) = inner.split_once(close)?;
                let value = std::env::var(name).unwrap_or_default();
                let value = value.trim_start_matches(['\t', ' ', '/']);
                return Some((value.replace(['\t', ' ', '/'], "_"), after));
            }
        }
        for (open, close) in [('%', '%'), ('{', '}')] {
            if let Some(inner) = text.strip_prefix(open)
                && let Some((name, after)) = inner.split_once(close)
                && !name.is_empty()
            {
                if let Some(value) = self.0.get(name).filter(|_| name.len() > 1) {
                    return Some((value.clone(), after));
                }
                let number = name.strip_prefix("arg").unwrap_or_default();
                if !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()) {
                    return Some((String::new(), after));
                }
            }
        }
        let short = text.strip_prefix('%')?;
        let letter = short
            .get(..1)
            .filter(|l| ["h", "p", "j", "r", "s"].contains(l))?;
        Some((self.0.get(letter)?.clone(), short.get(1..)?))
    }
}

/// A date and time in UTC.
struct Civil {
    year: i64,
    month: i64,
    day: i64,
    second_of_day: i64,
}

impl Civil {
    fn now() -> Self {
        let seconds = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(0));
        Self::at(seconds)
    }

    /// Converts days to dates as in
    /// <https://howardhinnant.github.io/date_algorithms.html#civil_from_days>.
    fn at(seconds: i64) -> Self {
        let days = seconds.div_euclid(86_400) + 719_468;
        let era = days.div_euclid(146_097);
        let day_of_era = days.rem_euclid(146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted = (5 * day_of_year + 2) / 153;
        let month = if shifted < 10 {
            shifted + 3
        } else {
            shifted - 9
        };
        Self {
            year: year_of_era + era * 400 + i64::from(month <= 2),
            month,
            day: day_of_year - (153 * shifted + 2) / 5 + 1,
            second_of_day: seconds.rem_euclid(86_400),
        }
    }

    /// Formats the time with those strftime directives that dates and times need.
    fn format(&self, format: &str) -> String {
        let (hour, minute, second) = (
            self.second_of_day / 3600,
            self.second_of_day / 60 % 60,
            self.second_of_day % 60,
        );
        let mut out = String::new();
        let mut chars = format.chars();
        while let Some(c) = chars.next() {
            if c != '%' {
                out.push(c);
                continue;
            }
            match chars.next() {
                Some('F') => out += &format!("{:04}-{:02}-{:02}", self.year, self.month, self.day),
                Some('T') => out += &format!("{hour:02}:{minute:02}:{second:02}"),
                Some('Y') => out += &format!("{:04}", self.year),
                Some('m') => out += &format!("{:02}", self.month),
                Some('d') => out += &format!("{:02}", self.day),
                Some('H') => out += &format!("{hour:02}"),
                Some('M') => out += &format!("{minute:02}"),
                Some('S') => out += &format!("{second:02}"),
                Some(other) => {
                    out.push('%');
                    out.push(other);
                }
                None => out.push('%'),
            }
        }
        out
    }
}

/// Returns the time as `YYYYmmdd-HHMMSS` and as a line for pages.
#[must_use]
pub fn now() -> (String, String) {
    let now = Civil::now();
    (now.format("%Y%m%d-%H%M%S"), now.format("%F %T UTC"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys() -> PathKeys {
        let pairs = [
            ("hostname", "n1"),
            ("pid", "42"),
            ("h", "n1"),
            ("p", "42"),
            ("loop", "%loop%x"),
            ("arg1", "serve"),
        ];
        PathKeys(
            pairs
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect(),
        )
    }

    #[test]
    fn keys_in_both_forms_and_short_ones() {
        assert_eq!(keys().expand("a_%hostname%_{pid}"), "a_n1_42");
        assert_eq!(keys().expand("%h-%p"), "n1-42");
        assert_eq!(keys().expand("%arg1%-%arg7%-x"), "serve-x");
        assert_eq!(keys().expand("100%"), "100%");
        assert_eq!(keys().expand("%unknown%"), "%unknown%");
        assert!(keys().expand("%loop%").len() < 100);
    }

    #[test]
    fn dates() {
        assert_eq!(Civil::at(0).format("%F_%H.%M"), "1970-01-01_00.00");
        assert_eq!(
            Civil::at(951_782_400 + 3661).format("%F %T"),
            "2000-02-29 01:01:01"
        );
    }
}
