//! Column names out of the text of `CREATE TABLE`.

/// A column of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnDef {
    /// Name.
    pub name: String,
    /// `true` for `INTEGER PRIMARY KEY`: the column is another name of the row id.
    pub is_rowid: bool,
    /// Integer given by DEFAULT, for rows that were written before the column was added.
    pub default: Option<i64>,
    /// Type as it is declared, in upper case; empty without one. SQLite takes it for a preference.
    pub declared: String,
    /// `true` if its type is INTEGER.
    pub(crate) is_integer: bool,
}

/// The columns of a table.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    /// Those that are in the records, in stored order.
    pub(crate) stored: Vec<ColumnDef>,
    /// `true` if there are others, which are computed when they are read.
    pub(crate) has_computed: bool,
}

/// The columns of a table; `None` for what is no plain table with row ids.
pub(crate) fn columns_of(sql: &str) -> Option<Columns> {
    let tokens = tokens(sql)?;
    let open = tokens.iter().position(|token| *token == Token::Open)?;
    let word = |token: Option<&Token>, text: &str| matches!(token, Some(Token::Word(found)) if found.eq_ignore_ascii_case(text));
    if !word(tokens.first(), "CREATE")
        || !tokens[..open]
            .iter()
            .any(|token| word(Some(token), "TABLE"))
        || tokens[..open]
            .iter()
            .any(|token| word(Some(token), "VIRTUAL"))
    {
        return None;
    }
    let mut columns = Columns::default();
    let mut definition: Vec<&Token> = Vec::new();
    let mut depth = 0_usize;
    let mut tail = tokens.len();
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token {
            Token::Open => depth += 1,
            Token::Close => depth = depth.checked_sub(1)?,
            _ => {}
        }
        let ends = depth == 0 || (depth == 1 && *token == Token::Comma);
        if at > open && !ends {
            definition.push(token);
        }
        if ends {
            column(&definition, &mut columns)?;
            definition.clear();
        }
        if depth == 0 {
            tail = at;
            break;
        }
    }
    // Tables without row ids are stored in index pages.
    let without = tokens
        .get(tail..)
        .unwrap_or_default()
        .iter()
        .any(|token| word(Some(token), "WITHOUT"));
    (!without && !columns.stored.is_empty()).then_some(columns)
}

fn column(definition: &[&Token], columns: &mut Columns) -> Option<()> {
    let name = match definition.first()? {
        Token::Quoted(name) => name.clone(),
        Token::Word(word) => {
            const CONSTRAINTS: [&str; 5] = ["CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "FOREIGN"];
            if CONSTRAINTS.iter().any(|c| word.eq_ignore_ascii_case(c)) {
                primary_key(definition, &mut columns.stored);
                return Some(());
            }
            word.clone()
        }
        _ => return None,
    };
    let is = |at: usize, text: &str| matches!(definition.get(at), Some(Token::Word(word) | Token::Quoted(word)) if word.eq_ignore_ascii_case(text));
    let is_word = |at: usize, text: &str| matches!(definition.get(at), Some(Token::Word(word)) if word.eq_ignore_ascii_case(text));
    let has = |first: &str, second: &str| {
        (1..definition.len()).any(|at| is(at, first) && is(at + 1, second))
    };
    // Computed columns have a place in the record only if they are stored; the others read as absent.
    let is_computed = (1..definition.len())
        .any(|at| is_word(at, "AS") && definition.get(at + 1) == Some(&&Token::Open));
    if is_computed && !(1..definition.len()).any(|at| is_word(at, "STORED")) {
        columns.has_computed = true;
        return Some(());
    }
    let default = (1..definition.len())
        .find(|&at| is(at, "DEFAULT"))
        .and_then(|at| match definition.get(at + 1) {
            Some(Token::Word(word)) => word.parse().ok(),
            _ => None,
        });
    let is_integer = is(1, "INTEGER");
    columns.stored.push(ColumnDef {
        name,
        is_rowid: is_integer && has("PRIMARY", "KEY"),
        default,
        declared: declared(definition),
        is_integer,
    });
    Some(())
}

/// Returns the words of the type of a column: those before its first constraint.
fn declared(definition: &[&Token]) -> String {
    const CONSTRAINTS: [&str; 11] = [
        "CONSTRAINT",
        "PRIMARY",
        "NOT",
        "NULL",
        "UNIQUE",
        "CHECK",
        "DEFAULT",
        "COLLATE",
        "REFERENCES",
        "GENERATED",
        "AS",
    ];
    let words = definition.iter().skip(1).map_while(|token| match token {
        Token::Word(word) if CONSTRAINTS.iter().any(|c| word.eq_ignore_ascii_case(c)) => None,
        Token::Word(word) | Token::Quoted(word) => Some(word.to_ascii_uppercase()),
        _ => None,
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Marks the column of `PRIMARY KEY (column)` as the row id, if it is an INTEGER.
fn primary_key(constraint: &[&Token], columns: &mut [ColumnDef]) {
    let is = |token: &&&Token, text: &str| matches!(token, Token::Word(word) if word.eq_ignore_ascii_case(text));
    let mut rest = constraint
        .iter()
        .skip_while(|token| !is(token, "PRIMARY"))
        .skip(2);
    if let (Some(Token::Open), Some(Token::Word(name) | Token::Quoted(name)), Some(Token::Close)) =
        (rest.next(), rest.next(), rest.next())
        && let Some(column) = columns
            .iter_mut()
            .find(|column| column.name.eq_ignore_ascii_case(name))
    {
        column.is_rowid = column.is_integer;
    }
}

#[derive(Debug, PartialEq)]
enum Token {
    Open,
    Close,
    Comma,
    Word(String),
    Quoted(String),
}

fn tokens(sql: &str) -> Option<Vec<Token>> {
    let mut tokens = Vec::new();
    let mut rest = sql;
    while let Some(first) = rest.chars().next() {
        match first {
            c if c.is_whitespace() => rest = rest.get(c.len_utf8()..)?,
            '(' | ')' | ',' => {
                tokens.push(match first {
                    '(' => Token::Open,
                    ')' => Token::Close,
                    _ => Token::Comma,
                });
                rest = rest.get(1..)?;
            }
            '"' | '`' | '\'' | '[' => {
                let close = if first == '[' { ']' } else { first };
                let mut text = String::new();
                let mut chars = rest.char_indices().skip(1).peekable();
                let end = loop {
                    let (at, c) = chars.next()?;
                    if c != close {
                        text.push(c);
                    } else if first != '[' && chars.peek().is_some_and(|(_, next)| *next == close) {
                        text.push(close);
                        chars.next();
                    } else {
                        break at + close.len_utf8();
                    }
                };
                tokens.push(Token::Quoted(text));
                rest = rest.get(end..)?;
            }
            '-' if rest.starts_with("--") => {
                rest = rest.find('\n').map_or("", |at| &rest[at..]);
            }
            '/' if rest.starts_with("/*") => {
                rest = rest.find("*/").map_or("", |at| &rest[at + 2..]);
            }
            _ => {
                let end = rest
                    .find(|c: char| c.is_whitespace() || "(),\"`'[".contains(c))
                    .unwrap_or(rest.len())
                    .max(first.len_utf8());
                tokens.push(Token::Word(rest.get(..end)?.to_owned()));
                rest = rest.get(end..)?;
            }
        }
    }
    Some(tokens)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(sql: &str) -> Option<Vec<String>> {
        columns_of(sql).map(|columns| columns.stored.into_iter().map(|c| c.name).collect())
    }

    #[test]
    fn columns_with_quotes_checks_defaults_and_comments() {
        let sql = "CREATE TABLE IF NOT EXISTS `t` ( \"id\" INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, -- the id, first\n\
            \"type\" TEXT CHECK (\"type\" IN ('A', 'B,C')), [end] BIGINT, n INT DEFAULT 7, `a``b` JSONB DEFAULT \"{}\" NOT NULL, \
            FOREIGN KEY (n) REFERENCES `x` (id) ON UPDATE CASCADE /* , z INT */ )";
        assert_eq!(names(sql).unwrap(), ["id", "type", "end", "n", "a`b"]);
        let columns = columns_of(sql).unwrap().stored;
        assert!(columns[0].is_rowid && !columns[1].is_rowid);
        assert_eq!(columns[3].default, Some(7));
        let declared: Vec<&str> = columns.iter().map(|c| c.declared.as_str()).collect();
        assert_eq!(declared, ["INTEGER", "TEXT", "BIGINT", "INT", "JSONB"]);
        let types = columns_of(
            "CREATE TABLE t (a, b double precision, c VARCHAR(20) NOT NULL, d AS (a) STORED)",
        );
        let types: Vec<String> = types
            .unwrap()
            .stored
            .into_iter()
            .map(|c| c.declared)
            .collect();
        assert_eq!(types, ["", "DOUBLE PRECISION", "VARCHAR", ""]);
        let keyed = |sql| columns_of(sql).unwrap().stored[0].is_rowid;
        assert!(keyed(
            "CREATE TABLE t (id INTEGER, b TEXT, PRIMARY KEY (\"ID\"))"
        ));
        assert!(keyed(
            "CREATE TABLE t (id INTEGER, b, CONSTRAINT k PRIMARY KEY(id))"
        ));
        assert!(!keyed("CREATE TABLE t (id INT, b TEXT, PRIMARY KEY (id))"));
        assert!(!keyed(
            "CREATE TABLE t (id INTEGER, b TEXT, PRIMARY KEY (id, b))"
        ));
    }

    #[test]
    fn computed_columns_have_a_place_only_if_they_are_stored() {
        for (column, want) in [
            ("b INT AS (a + 1)", ["a", "c"].as_slice()),
            ("b INT GENERATED ALWAYS AS (a + 1) VIRTUAL", &["a", "c"]),
            ("b AS (a) STORED NOT NULL", &["a", "b", "c"]),
            (
                "b DEFAULT 'as' CHECK (cast(b AS INT) > 0)",
                &["a", "b", "c"],
            ),
        ] {
            let sql = format!("CREATE TABLE t (a, {column}, c)");
            assert_eq!(names(&sql).unwrap(), want, "{column}");
            let has_computed = columns_of(&sql).unwrap().has_computed;
            assert_eq!(has_computed, want.len() == 2, "{column}");
        }
    }

    #[test]
    fn what_is_no_plain_table() {
        assert_eq!(names("CREATE VIEW v AS SELECT (1)"), None);
        assert_eq!(names("CREATE VIRTUAL TABLE v USING fts5(a, b)"), None);
        assert_eq!(
            names("CREATE TABLE t (a INTEGER PRIMARY KEY, b) WITHOUT ROWID"),
            None
        );
        assert_eq!(names("CREATE TABLE t (a, \"b"), None);
    }
}
