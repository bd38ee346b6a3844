//! Lists the candidates for steps, over all files.

use std::collections::BTreeMap;

use rca_cycles::compat::Candidate;
use serde_json::{Value, json};

/// Minimum number of calls of a loop.
const LEAST_CALLS: usize = 3;

/// A function over all files.
#[derive(Debug, Clone)]
pub struct Found {
    name: String,
    calls: usize,
    /// Number of files that contain it.
    files: usize,
    /// Share of files that do not contain it, in tenths, rounded up; 0 if all do.
    stars: usize,
    total_us: f64,
}

/// Combines the functions of each file, most time first.
#[must_use]
pub fn together<'a>(files: impl Iterator<Item = &'a [Candidate]>) -> (Vec<Found>, usize) {
    let mut by_name: BTreeMap<&str, Found> = BTreeMap::new();
    let mut count = 0;
    for file in files {
        count += 1;
        for f in file {
            let found = by_name.entry(&f.name).or_insert_with(|| Found {
                name: f.name.clone(),
                calls: 0,
                files: 0,
                stars: 0,
                total_us: 0.0,
            });
            found.calls += f.count;
            found.files += 1;
            found.total_us += f.total_us;
        }
    }
    let mut list: Vec<Found> = by_name.into_values().collect();
    list.retain(|f| f.calls >= LEAST_CALLS);
    for f in list.iter_mut().filter(|f| f.files < count) {
        f.stars = 10 - 10 * f.files / count;
    }
    list.sort_by(|a, b| {
        b.total_us
            .total_cmp(&a.total_us)
            .then_with(|| a.name.cmp(&b.name))
    });
    (list, count)
}

impl Found {
    #[expect(clippy::cast_precision_loss, reason = "shown with two digits")]
    fn average_us(&self) -> f64 {
        self.total_us / self.calls.max(1) as f64
    }

    /// Returns the function as JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        json!({
            "name": self.name,
            "count": self.calls,
            "files": self.files,
            "average_us": self.average_us(),
            "total_us": self.total_us,
            "stars": self.stars,
        })
    }
}

/// Returns a line for each function. Names are not shortened, so that they can be copied.
#[must_use]
pub fn table(list: &[Found], files: usize) -> String {
    let mut text = format!(
        "{:>8}  {:>9}  {:>14}  {:>14}  function (* for each tenth of the files without it)\n",
        "calls", "files", "average us", "total us"
    );
    for f in list {
        let stars = "*".repeat(f.stars);
        let space = if f.stars > 0 { " " } else { "" };
        text.push_str(&format!(
            "{:>8}  {:>9}  {:>14.2}  {:>14.2}  {}{space}{stars}\n",
            f.calls,
            format!("{}/{files}", f.files),
            f.average_us(),
            f.total_us,
            f.name
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_missing_from_files_have_stars() {
        let folder = |names: &[(&str, usize)]| -> Vec<Candidate> {
            let each = names.iter();
            each.map(|&(name, count)| {
                let mut candidate = Candidate::default();
                (candidate.name, candidate.count) = (name.to_owned(), count);
                candidate.total_us = 100.0;
                candidate
            })
            .collect()
        };
        let all = [
            folder(&[("step", 2), ("rare", 1), ("own", 4)]),
            folder(&[("step", 3)]),
            folder(&[("step", 5)]),
        ];
        let (list, files) = together(all.iter().map(Vec::as_slice));
        assert_eq!((list.len(), files), (2, 3));
        assert_eq!(
            (&*list[0].name, list[0].calls, list[0].stars),
            ("step", 10, 0)
        );
        // In one file of three: 10 - floor(10 / 3).
        assert_eq!(
            (&*list[1].name, list[1].files, list[1].stars),
            ("own", 1, 7)
        );
        let text = table(&list, files);
        assert!(
            text.contains("3/3") && text.ends_with("own *******\n"),
            "{text}"
        );
    }
}
