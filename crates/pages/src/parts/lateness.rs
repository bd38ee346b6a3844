//! Ranks by steps as a heat map of lateness.

use std::fmt::Write as _;

use findings::Lateness;

use super::{data_block, table};
use crate::page::{Section, View};
use crate::shown;

/// Maximum number of ranks, and of cells.
const RANKS: usize = 128;
const CELLS: usize = 12_000;
/// Maximum number of columns: narrower ones could not be told apart.
const COLUMNS: usize = 400;
/// Number of colours.
const LEVELS: u32 = 6;

pub(crate) fn section(view: &View<'_>) -> Option<Section> {
    let lateness = view.document.figures.lateness.as_ref()?;
    if lateness.ranks.is_empty() || lateness.steps.is_empty() {
        return None;
    }
    let rows = lateness.ranks.len().min(view.most(RANKS).max(1));
    let columns = lateness
        .steps
        .len()
        .min(COLUMNS)
        .min((view.most(CELLS) / rows).max(1));
    let cells = cells(lateness, rows, columns);
    let largest = cells
        .iter()
        .enumerate()
        .flat_map(|(rank, row)| row.iter().flatten().map(move |cell| (cell.1, rank, cell.0)))
        .max_by_key(|(late, rank, step)| (*late, std::cmp::Reverse((*rank, *step))));
    let Some((most, rank, step)) = largest.filter(|(most, ..)| *most > 0) else {
        return Section::new(
            "lateness",
            "Late ranks",
            "<p>No rank kept another waiting in a collective.</p>\n".to_owned(),
        );
    };
    let mut body = format!(
        "<p class=\"sub\">Time that the other ranks waited for a rank in collectives. Rows are ranks, columns steps.</p>\n\
         <div class=\"heat-key\"><span>none</span>{}<span>{}</span><i class=\"sw void\"></i><span>not recorded</span></div>\n",
        (1..=LEVELS)
            .map(|level| format!("<i class=\"sw h{level}\"></i>"))
            .collect::<String>(),
        shown::ns(&cell_path(rank, step), most)
    );
    body.push_str(&map(lateness, &cells, most));
    if columns < lateness.steps.len() {
        let _ = writeln!(
            body,
            "<p class=\"more\">{} steps in fewer columns: each column shows the largest value of its steps.</p>",
            shown::length("/figures/lateness/steps", lateness.steps.len())
        );
    }
    body.push_str(&super::rows_left_out(
        "/figures/lateness/ranks",
        lateness.ranks.len(),
        rows,
    ));
    let shown_cells: Vec<Vec<Option<(u32, i64)>>> = cells
        .iter()
        .map(|row| {
            row.iter()
                .map(|cell| cell.map(|(at, late)| (lateness.steps[at], late)))
                .collect()
        })
        .collect();
    let ranks = &lateness.ranks[..rows];
    body.push_str(&data_block(
        "late-cells",
        &serde_json::json!({ "ranks": ranks, "cells": shown_cells }),
    ));
    body.push_str(&latest(lateness, &cells));
    Section::new("lateness", "Late ranks", body)
}

fn cell_path(rank: usize, step: usize) -> String {
    format!("/figures/lateness/late_ns/{rank}/{step}")
}

/// A cell: index of a step, and the lateness in it.
type Cell = Option<(usize, i64)>;

/// Returns for each rank the step of each column that was latest.
fn cells(lateness: &Lateness, rows: usize, columns: usize) -> Vec<Vec<Cell>> {
    let steps = lateness.steps.len();
    (0..rows)
        .map(|rank| {
            let row = lateness.late_ns.get(rank).map_or(&[][..], Vec::as_slice);
            (0..columns)
                .map(|column| {
                    (column * steps / columns..(column + 1) * steps / columns)
                        .filter_map(|step| Some((step, row.get(step).copied().flatten()?)))
                        .max_by_key(|(step, late)| (*late, std::cmp::Reverse(*step)))
                })
                .collect()
        })
        .collect()
}

fn map(lateness: &Lateness, cells: &[Vec<Cell>], most: i64) -> String {
    let rows = cells.len();
    let columns = cells.first().map_or(0, Vec::len);
    let row_px = match rows {
        0..=4 => 30,
        5..=16 => 20,
        17..=40 => 13,
        _ => 8,
    };
    // Labels need 13 pixels.
    let every = 13_usize.div_ceil(row_px);
    let mut out = String::from(
        "<div class=\"heat\" tabindex=\"0\" role=\"group\" aria-label=\"Lateness; arrow keys read cells, the table below has the largest\"><div class=\"heat-y\" aria-hidden=\"true\">",
    );
    for (index, rank) in lateness.ranks.iter().take(rows).enumerate() {
        let text = if index % every == 0 {
            format!("rank {rank}")
        } else {
            String::new()
        };
        let _ = write!(out, "<i style=\"height:{row_px}px\">{text}</i>");
    }
    let _ = write!(
        out,
        "</div><svg id=\"heat\" viewBox=\"0 0 {columns} {rows}\" height=\"{}\" preserveAspectRatio=\"none\" shape-rendering=\"crispEdges\" aria-hidden=\"true\"><rect class=\"void\" width=\"{columns}\" height=\"{rows}\"/>",
        row_px * rows
    );
    let level = |cell: &Cell| {
        let late = u128::from(cell.as_ref()?.1.max(0).unsigned_abs());
        Some((late * u128::from(LEVELS)).div_ceil(u128::from(most.max(1).unsigned_abs())))
    };
    // One path for each colour, runs of equal cells as one piece.
    for wanted in 0..=LEVELS {
        let mut path = String::new();
        for (y, row) in cells.iter().enumerate() {
            let mut x = 0;
            for run in row.chunk_by(|a, b| level(a) == level(b)) {
                if level(&run[0]) == Some(u128::from(wanted)) {
                    let _ = write!(path, "M{x} {y}h{}v1h-{}z", run.len(), run.len());
                }
                x += run.len();
            }
        }
        if !path.is_empty() {
            let _ = write!(out, "<path class=\"h{wanted}\" d=\"{path}\"/>");
        }
    }
    let ends = (lateness.steps.first(), lateness.steps.last());
    let (first, last) = (ends.0.copied().unwrap_or(0), ends.1.copied().unwrap_or(0));
    let at = lateness.steps.len().saturating_sub(1);
    let _ = write!(
        out,
        "</svg><div class=\"heat-x\"><span>step {}</span><span>{}</span></div></div>\n<output class=\"readout js-only\" id=\"heat-readout\" aria-live=\"polite\">Point at a cell to read it.</output>\n",
        shown::id("/figures/lateness/steps/0", first),
        shown::id(&format!("/figures/lateness/steps/{at}"), last)
    );
    out
}

/// Returns the largest values as a table.
fn latest(lateness: &Lateness, cells: &[Vec<Cell>]) -> String {
    let mut all: Vec<(i64, usize, usize)> = cells
        .iter()
        .enumerate()
        .flat_map(|(rank, row)| {
            row.iter()
                .flatten()
                .map(move |(step, late)| (*late, rank, *step))
        })
        .filter(|(late, ..)| *late > 0)
        .collect();
    all.sort_by_key(|(late, rank, step)| (std::cmp::Reverse(*late), *rank, *step));
    let mut rows = String::new();
    for (late, rank, step) in all.into_iter().take(12) {
        let _ = writeln!(
            rows,
            "<tr><td class=\"r\">{}</td><td class=\"r\">{}</td><td class=\"r\">{}</td></tr>",
            shown::id(
                &format!("/figures/lateness/ranks/{rank}"),
                lateness.ranks[rank]
            ),
            shown::id(
                &format!("/figures/lateness/steps/{step}"),
                lateness.steps[step]
            ),
            shown::ns(&cell_path(rank, step), late)
        );
    }
    let heads = [("rank", "r"), ("step", "r"), ("others waited", "r")];
    format!(
        "<details class=\"quiet\"><summary>The largest values as a table</summary>{}</details>\n",
        table("Latest ranks", &heads, &rows)
    )
}
