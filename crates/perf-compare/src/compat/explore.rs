//! Phase 2: the roles that no pair has used, clustered by likeness.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;

use super::discover::job_and_suffix;
use super::measure::{Comparison, compare};
use super::pairs::{Used, file_name};
use super::{Note, Options, Sink, markdown, rows};
use crate::error::Result;
use crate::stats::Moments;
use crate::table::{Name, Names, PerfRow, PerfTable, Strictness};

/// Automatic thresholds need more roles than this,
const FIT_ROLES: usize = 10;
/// this many comparisons without a merge,
const FIT_FRUITLESS: usize = 30;
/// this many scores,
const FIT_SCORES: usize = 10;
/// and a largest gap this many times the second largest.
const FIT_GAP: f64 = 5.0;

/// One process on one host of one file.
struct Role {
    file: PathBuf,
    host: String,
    pid: i64,
    label: String,
    rows: Vec<PerfRow>,
}

pub(super) fn run(
    files: &[PathBuf],
    used: &Used,
    options: &Options,
    sink: &mut Sink<'_>,
) -> Result<()> {
    let mut names = Names::default();
    let mut roles = Vec::new();
    let mut nameless: Vec<PathBuf> = Vec::new();
    for file in files {
        let any_used = used
            .range((file.clone(), i64::MIN)..=(file.clone(), i64::MAX))
            .next()
            .is_some();
        if any_used {
            // A pair uses a file with all its processes.
            continue;
        }
        let table = match PerfTable::read(file, &options.open, &mut names, Strictness::Refuse) {
            Ok(table) => table,
            Err(error) => {
                sink.note(Note::Failed {
                    file: file.clone(),
                    error,
                });
                continue;
            }
        };
        let job = job_and_suffix(file).map_or(String::new(), |(job, suffix)| job + &suffix);
        let mut by_role: BTreeMap<(Option<Name>, i64), Vec<PerfRow>> = BTreeMap::new();
        for row in table.rows {
            by_role.entry((row.host, row.pid)).or_default().push(row);
        }
        for ((host, pid), rows) in by_role {
            let Some(host) = host else {
                nameless.push(file.clone());
                continue;
            };
            let host = names.text(host).to_owned();
            roles.push(Role {
                file: file.clone(),
                label: format!("{job}_{host}_{pid}"),
                host,
                pid,
                rows,
            });
        }
    }
    if let Some(file) = nameless.first()
        && nameless.len() + roles.len() >= 2
    {
        sink.note(Note::NoHost {
            roles: nameless.len(),
            file: file.clone(),
        });
    }
    if roles.len() < 2 {
        return Ok(());
    }
    make_labels_unique(&mut roles);
    roles.sort_by(|a, b| a.label.cmp(&b.label));
    let clusters = Clusters::of(&roles, &names, options, sink);
    clusters.write(&roles, sink)
}

/// Parent folders in front until no two are equal, at last a number behind.
fn make_labels_unique(roles: &mut [Role]) {
    let plain: Vec<String> = roles.iter().map(|role| role.label.clone()).collect();
    let depth_of = |role: &Role| role.file.parent().map_or(0, |folder| folder.iter().count());
    let deepest = roles.iter().map(depth_of).max().unwrap_or(0);
    for depth in 1..=deepest {
        let repeated = repeated(roles);
        if repeated.is_empty() {
            return;
        }
        for (role, plain) in roles.iter_mut().zip(&plain) {
            if repeated.contains(&role.label) {
                let folder = role.file.parent().map(|folder| folder.to_path_buf());
                let parts: Vec<String> = folder
                    .iter()
                    .flat_map(|folder| folder.iter())
                    .map(|part| part.to_string_lossy().into_owned())
                    .collect();
                let from = parts.len().saturating_sub(depth);
                role.label = format!("{}_{plain}", parts[from..].join("_"));
            }
        }
    }
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for role in roles {
        let count = seen.entry(role.label.clone()).or_insert(0);
        *count += 1;
        if *count > 1 {
            role.label = format!("{}_v{count}", role.label);
        }
    }
}

fn repeated(roles: &[Role]) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    roles
        .iter()
        .filter(|role| !seen.insert(&role.label))
        .map(|role| role.label.clone())
        .collect()
}

struct Clusters {
    root: Vec<usize>,
    threshold: f64,
    cache: BTreeMap<(usize, usize), Comparison>,
}

impl Clusters {
    fn of(roles: &[Role], names: &Names, options: &Options, sink: &mut Sink<'_>) -> Self {
        let mut clusters = Self {
            root: (0..roles.len()).collect(),
            threshold: options.similarity_threshold,
            cache: BTreeMap::new(),
        };
        let mut fruitless = 0;
        'scan: loop {
            let roots = clusters.roots();
            for (at, &i) in roots.iter().enumerate() {
                for &j in &roots[at + 1..] {
                    let known = clusters.cache.contains_key(&(i, j));
                    let comparison = clusters
                        .cache
                        .entry((i, j))
                        .or_insert_with(|| compare(&roles[i].rows, &roles[j].rows, names));
                    let score = comparison.max_score();
                    if !known && score > options.warning_threshold {
                        sink.note(Note::Different {
                            one: roles[i].label.clone(),
                            two: roles[j].label.clone(),
                            score,
                        });
                    }
                    if score < clusters.threshold {
                        clusters.merge(i, j);
                        fruitless = 0;
                        continue 'scan;
                    }
                    if !known {
                        fruitless += 1;
                    }
                    if options.fit_threshold
                        && roles.len() > FIT_ROLES
                        && fruitless >= FIT_FRUITLESS
                        && let Some(fitted) = clusters.fitted_threshold()
                        && fitted > clusters.threshold
                    {
                        clusters.threshold = fitted;
                        fruitless = 0;
                        continue 'scan;
                    }
                }
            }
            return clusters;
        }
    }

    fn roots(&self) -> Vec<usize> {
        (0..self.root.len())
            .filter(|&i| self.root[i] == i)
            .collect()
    }

    /// The smaller index becomes the root.
    fn merge(&mut self, i: usize, j: usize) {
        for root in &mut self.root {
            if *root == j {
                *root = i;
            }
        }
    }

    /// A threshold inside the largest gap of the scores on a log scale, if that gap stands out.
    fn fitted_threshold(&self) -> Option<f64> {
        let mut scores: Vec<f64> = self.cache.values().map(Comparison::max_score).collect();
        if scores.len() < FIT_SCORES {
            return None;
        }
        scores.sort_by(f64::total_cmp);
        let mut gaps: Vec<(f64, usize)> = scores
            .windows(2)
            .enumerate()
            .map(|(at, pair)| (pair[1].ln_1p() - pair[0].ln_1p(), at))
            .collect();
        gaps.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let (largest, at) = *gaps.first()?;
        if gaps
            .get(1)
            .is_some_and(|second| largest <= FIT_GAP * second.0)
        {
            return None;
        }
        let (low, high) = (*scores.get(at)?, *scores.get(at + 1)?);
        Some(if low <= 0.0 {
            high / 2.0
        } else {
            low.ceil().min((low * high).sqrt())
        })
    }

    fn members(&self, root: usize) -> Vec<usize> {
        (0..self.root.len())
            .filter(|&i| self.root[i] == root)
            .collect()
    }

    fn write(&self, roles: &[Role], sink: &mut Sink<'_>) -> Result<()> {
        let mut out = String::from("# Exploratory Comparison Report\n\n## Global Overview\n\n");
        let roots = self.roots();
        let _ = writeln!(
            out,
            "{} roles in {} clusters; similarity threshold {:.2}.\n",
            roles.len(),
            roots.len(),
            self.threshold
        );
        out.push_str("## Clusters\n\n| Cluster | Representative | Members |\n|---|---|---|\n");
        for (number, &root) in roots.iter().enumerate() {
            let members = self.members(root);
            let spread = |i: &usize| Moments::of(roles[*i].rows.iter().map(|row| row.cycle_us)).std;
            let steadiest = members
                .iter()
                .min_by(|a, b| spread(a).total_cmp(&spread(b)))
                .unwrap_or(&root);
            let labels: Vec<&str> = members.iter().map(|&i| roles[i].label.as_str()).collect();
            let _ = writeln!(
                out,
                "| {} | {} | {} |",
                number + 1,
                roles[*steadiest].label,
                labels.join(", ")
            );
        }
        let mut shown: Vec<(f64, usize, usize)> = Vec::new();
        for (at, &i) in roots.iter().enumerate() {
            for &j in &roots[at + 1..] {
                if let Some(comparison) = self.cache.get(&(i, j)) {
                    shown.push((comparison.max_score(), i, j));
                }
            }
        }
        shown.retain(|(score, ..)| *score >= self.threshold);
        shown.sort_by(|a, b| b.0.total_cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2))));
        for (score, i, j) in shown {
            let Some(comparison) = self.cache.get(&(i, j)) else {
                continue;
            };
            let labels = [roles[i].label.as_str(), roles[j].label.as_str()];
            let _ = writeln!(
                out,
                "\n## {} (host {}, PID {}) vs {} (host {}, PID {}): score {score:.4}\n",
                labels[0], roles[i].host, roles[i].pid, labels[1], roles[j].host, roles[j].pid
            );
            markdown::body(comparison, labels, &mut out);
            let name = file_name(&format!(
                "exploratory_compare_{}_vs_{}",
                labels[0], labels[1]
            ));
            sink.write(&format!("{name}.csv"), &rows::csv(comparison, labels))?;
            sink.summary.pairs += 1;
        }
        sink.write("exploratory_comparison_report.md", out.as_bytes())
    }
}
