//! A table of the file: values by key, mistakes with their place, unread keys.

use std::cell::RefCell;

use yaml_rust2::Yaml;
use yaml_rust2::yaml::Hash;

use crate::error::ConfigMistake;

/// A table of the file and its place.
pub(super) struct Section<'a> {
    table: Option<&'a Hash>,
    path: String,
    mistakes: &'a mut Vec<ConfigMistake>,
    /// Keys of the file that were never read.
    unknown: &'a mut Vec<String>,
    /// Keys that were read.
    asked: RefCell<Vec<String>>,
}

impl<'a> Section<'a> {
    pub(super) fn new(
        table: Option<&'a Hash>,
        path: String,
        mistakes: &'a mut Vec<ConfigMistake>,
        unknown: &'a mut Vec<String>,
    ) -> Self {
        Self {
            table,
            path,
            mistakes,
            unknown,
            asked: RefCell::default(),
        }
    }

    /// Creates a section for an entry of a list.
    pub(super) fn entry<'b>(&'b mut self, table: Option<&'b Hash>, path: String) -> Section<'b> {
        Section::new(table, path, self.mistakes, self.unknown)
    }

    /// Records the keys that were never read.
    pub(super) fn end(self) {
        let asked = self.asked.take();
        for key in self.table.into_iter().flat_map(Hash::keys) {
            let name = match key {
                Yaml::String(name) => name.clone(),
                other => format!("{other:?}"),
            };
            if !asked.contains(&name) {
                let place = self.place(&name);
                self.unknown.push(place);
            }
        }
    }

    /// Returns the number of mistakes so far.
    pub(super) fn mistakes(&self) -> usize {
        self.mistakes.len()
    }

    pub(super) fn place(&self, key: &str) -> String {
        if self.path.is_empty() {
            key.to_owned()
        } else {
            format!("{}.{key}", self.path)
        }
    }

    pub(super) fn wrong(&mut self, field: String, what: impl Into<String>) {
        self.mistakes.push(ConfigMistake {
            field,
            what: what.into(),
        });
    }

    pub(super) fn get(&self, key: &str) -> Option<&'a Yaml> {
        self.asked.borrow_mut().push(key.to_owned());
        self.table?.get(&Yaml::String(key.to_owned()))
    }

    /// Reads a section; an absent one has only defaults.
    pub(super) fn with<T>(&mut self, key: &str, read: impl FnOnce(&mut Section<'_>) -> T) -> T {
        let path = self.place(key);
        let table = match self.get(key) {
            None => None,
            Some(Yaml::Hash(table)) => Some(table.clone()),
            Some(_) => {
                self.wrong(path.clone(), "expected a table");
                None
            }
        };
        let mut section = Section::new(table.as_ref(), path, self.mistakes, self.unknown);
        let result = read(&mut section);
        section.end();
        result
    }

    pub(super) fn text(&mut self, key: &str, default: &str) -> String {
        match self.get(key).cloned() {
            None => default.to_owned(),
            Some(Yaml::String(text)) => text,
            Some(_) => {
                self.wrong(self.place(key), "expected a text");
                default.to_owned()
            }
        }
    }

    pub(super) fn required(&mut self, key: &str) -> String {
        if self.get(key).is_none() {
            self.wrong(self.place(key), "required");
        }
        self.text(key, "")
    }

    pub(super) fn maybe(&mut self, key: &str, default: Option<&str>) -> Option<String> {
        match self.get(key) {
            None => default.map(str::to_owned),
            Some(Yaml::Null) => None,
            Some(_) => Some(self.text(key, "")),
        }
    }

    pub(super) fn one_of(&mut self, key: &str, default: &str, allowed: &[&str]) -> String {
        let found = self.text(key, default);
        if !allowed.contains(&&*found) {
            self.wrong(
                self.place(key),
                format!("expected one of {}", allowed.join(", ")),
            );
        }
        found
    }

    pub(super) fn maybe_one_of(
        &mut self,
        key: &str,
        default: &str,
        allowed: &[&str],
    ) -> Option<String> {
        match self.get(key) {
            Some(Yaml::Null) => None,
            _ => Some(self.one_of(key, default, allowed)),
        }
    }

    pub(super) fn flag(&mut self, key: &str, default: bool) -> bool {
        let found = match self.get(key) {
            None => Some(default),
            Some(Yaml::Boolean(flag)) => Some(*flag),
            Some(Yaml::Integer(number @ 0..=1)) => Some(*number == 1),
            Some(Yaml::String(text)) => match text.to_ascii_lowercase().as_str() {
                "true" | "yes" | "on" | "1" | "t" | "y" => Some(true),
                "false" | "no" | "off" | "0" | "f" | "n" => Some(false),
                _ => None,
            },
            Some(_) => None,
        };
        found.unwrap_or_else(|| {
            self.wrong(self.place(key), "expected true or false");
            default
        })
    }

    pub(super) fn number(&mut self, key: &str, default: u64, least: i64) -> u64 {
        let found = match self.get(key) {
            None => return default,
            Some(value) => whole(value),
        };
        match found {
            Some(number) if number >= least => u64::try_from(number).unwrap_or(default),
            Some(_) => {
                self.wrong(self.place(key), format!("expected at least {least}"));
                default
            }
            None => {
                self.wrong(self.place(key), "expected a whole number");
                default
            }
        }
    }

    pub(super) fn real(&mut self, key: &str) -> Option<f64> {
        let found = match self.get(key)? {
            Yaml::Null => return None,
            Yaml::String(text) => text.trim().parse().ok(),
            Yaml::Integer(number) => number.to_string().parse().ok(),
            value => value.as_f64(),
        };
        if found.is_none() {
            self.wrong(self.place(key), "expected a number");
        }
        found
    }

    /// Reads a list of at least one number, all above zero.
    pub(super) fn counts(&mut self, key: &str, default: u64) -> Vec<u64> {
        let place = self.place(key);
        let list = match self.get(key).cloned() {
            None => return vec![default],
            Some(Yaml::Array(list)) => list,
            Some(_) => {
                self.wrong(place, "expected a list");
                return Vec::new();
            }
        };
        let mut numbers = Vec::new();
        let mut positive = true;
        for (at, value) in list.iter().enumerate() {
            match whole(value) {
                Some(number) => match u64::try_from(number) {
                    Ok(number) if number > 0 => numbers.push(number),
                    _ => positive = false,
                },
                None => self.wrong(format!("{place}.{at}"), "expected a whole number"),
            }
        }
        if list.is_empty() || !positive {
            self.wrong(place, "expected at least one number, all above zero");
        }
        numbers
    }

    pub(super) fn texts(&mut self, key: &str, default: &[&str]) -> Vec<String> {
        let place = self.place(key);
        let list = match self.get(key).cloned() {
            None => return default.iter().map(|text| (*text).to_owned()).collect(),
            Some(Yaml::Array(list)) => list,
            Some(_) => {
                self.wrong(place, "expected a list");
                return Vec::new();
            }
        };
        let mut texts = Vec::new();
        for (at, value) in list.iter().enumerate() {
            match value {
                Yaml::String(text) => texts.push(text.clone()),
                _ => self.wrong(format!("{place}.{at}"), "expected a text"),
            }
        }
        texts
    }
}

/// Returns a whole number; also from text and from a real without a fraction.
fn whole(value: &Yaml) -> Option<i64> {
    match value {
        Yaml::Integer(number) => Some(*number),
        Yaml::String(text) => text.trim().parse().ok(),
        Yaml::Real(text) => {
            let digits = text.strip_suffix(".0").unwrap_or(text);
            digits.parse().ok()
        }
        _ => None,
    }
}
