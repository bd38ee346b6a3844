//! Names with upper-case letters that are written without quotes.
//!
//! DataFusion takes a name without quotes for its lower case. Tables of databases have names such as `correlationId`, which in SQLite
//! need no quotes, so they get theirs before the statement is parsed.

use std::collections::BTreeMap;

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// Names by their lower case; `None` where it is not clear which one is meant.
#[derive(Debug, Default)]
pub(crate) struct Quoting(BTreeMap<String, Option<String>>);

impl Quoting {
    /// Adds a name of a table or column.
    pub(crate) fn add(&mut self, name: &str) {
        let slot = self.0.entry(name.to_ascii_lowercase());
        let known = slot.or_insert_with(|| Some(name.to_owned()));
        if known.as_deref() != Some(name) {
            *known = None;
        }
    }

    /// Puts quotes around the names in the form that they are meant in, and returns `true` if there are any.
    pub(crate) fn apply(&self, tokens: &mut [TokenWithSpan]) -> bool {
        let mut is_changed = false;
        let is_call = |tokens: &[TokenWithSpan], at: usize| {
            let mut behind = tokens.iter().skip(at + 1).map(|token| &token.token);
            let next = behind.find(|token| !matches!(token, Token::Whitespace(_)));
            matches!(next, Some(Token::LParen))
        };
        for at in 0..tokens.len() {
            if is_call(tokens, at) {
                continue;
            }
            let Some(Token::Word(word)) = tokens.get_mut(at).map(|token| &mut token.token) else {
                continue;
            };
            if word.quote_style.is_some() || word.keyword != Keyword::NoKeyword {
                continue;
            }
            let meant = self.0.get(&word.value.to_ascii_lowercase());
            if let Some(name) = meant.and_then(Option::as_ref)
                && name.bytes().any(|byte| byte.is_ascii_uppercase())
            {
                word.value.clone_from(name);
                word.quote_style = Some('"');
                is_changed = true;
            }
        }
        is_changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect;

    #[test]
    fn names_in_upper_case_get_quotes() {
        let mut quoting = Quoting::default();
        for name in ["NVTX_EVENTS", "textId", "start", "Id", "ID", "Count"] {
            quoting.add(name);
        }
        let quoted = |sql: &str| {
            let mut tokens = dialect::tokens(sql).unwrap();
            quoting.apply(&mut tokens);
            let text = tokens.iter().map(|token| token.token.to_string());
            text.collect::<String>()
        };
        assert_eq!(
            quoted("SELECT TEXTID, Start, id, count(*), 'textId' FROM nvtx_events"),
            "SELECT \"textId\", Start, id, count(*), 'textId' FROM \"NVTX_EVENTS\""
        );
        assert_eq!(
            quoted("SELECT \"TEXTID\" FROM t"),
            "SELECT \"TEXTID\" FROM t"
        );
    }
}
