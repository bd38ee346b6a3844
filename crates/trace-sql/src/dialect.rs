//! What PerfettoSQL adds to SQL: rewritten where it has an equal, refused with a hint where not.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, ExactNumberInfo, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArgumentList, FunctionArguments, Ident, ObjectName, ObjectNamePart, OrderByExpr,
    OrderByKind, Query, SelectItem, SetExpr, Statement, Value, VisitMut, VisitorMut, WindowType,
    visit_expressions, visit_expressions_mut, visit_relations,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};
use trace_tables::catalogue::VIEWS;

use crate::error::SqlError;

/// Splits a text into tokens; `GLOB` with a literal pattern becomes a match of the same meaning.
///
/// # Errors
///
/// Returns an error for text that is no SQL, and for statements that only Perfetto has, with what to write instead.
pub(crate) fn tokens(sql: &str) -> Result<Vec<TokenWithSpan>, SqlError> {
    let dialect = GenericDialect {};
    let tokens = Tokenizer::new(&dialect, sql).tokenize_with_location();
    let tokens = tokens.map_err(|error| {
        let (line, column) = (error.location.line, error.location.column);
        SqlError::usage(format!("line {line}, column {column}: {}", error.message))
    })?;
    // Places of the tokens that are no white space.
    let solid: Vec<usize> = tokens
        .iter()
        .enumerate()
        .filter(|(_, token)| !matches!(token.token, Token::Whitespace(_)))
        .map(|(at, _)| at)
        .collect();
    let word = |at: usize| match &tokens.get(*solid.get(at)?)?.token {
        Token::Word(word) if word.quote_style.is_none() => Some(word.value.to_ascii_uppercase()),
        _ => None,
    };
    let is = |at: usize, text: &str| word(at).is_some_and(|word| word == text);
    let token = |at: usize| Some(&tokens.get(*solid.get(at)?)?.token);
    let mut replaced: Vec<(usize, Option<Token>)> = Vec::new();
    for at in 0..solid.len() {
        let refuse = |text: &str| {
            let place = solid.get(at).and_then(|place| tokens.get(*place));
            let start = place.map(|token| token.span.start);
            let (line, column) = start.map_or((1, 1), |start| (start.line, start.column));
            SqlError::usage(format!("line {line}, column {column}: {text}"))
        };
        if is(at, "INCLUDE") && is(at + 1, "PERFETTO") {
            return Err(refuse(
                "Perfetto's modules are not here, and the tables need none: leave INCLUDE out; `slices` has the thread and process \
                 of each slice, `kernels` and `steps` what modules compute",
            ));
        }
        let is_perfetto = is(at + 1, "PERFETTO") || (is(at + 1, "OR") && is(at + 3, "PERFETTO"));
        if is(at, "CREATE") && is_perfetto {
            return Err(refuse(
                "CREATE PERFETTO is not supported: write CREATE VIEW or CREATE TABLE ... AS, and a WITH clause instead of a function \
                 or macro",
            ));
        }
        let named = word(at);
        if named
            .as_deref()
            .is_some_and(|name| matches!(name, "SPAN_JOIN" | "SPAN_LEFT_JOIN" | "SPAN_OUTER_JOIN"))
        {
            return Err(refuse(
                "SPAN_JOIN is not supported: join the two tables ON a.ts < b.ts + b.dur AND b.ts < a.ts + a.dur, and take \
                 overlap_ns(a.ts, a.dur, b.ts, b.dur)",
            ));
        }
        let is_call = matches!(
            (token(at + 1), token(at + 2)),
            (Some(Token::ExclamationMark), Some(Token::LParen))
        );
        if named.is_some() && is_call {
            return Err(refuse(
                "macros are not supported: write the query that the macro stands for",
            ));
        }
        if is(at, "GLOB") && at > 0 {
            let Some(Token::SingleQuotedString(pattern)) = token(at + 1) else {
                // A column may be called so.
                continue;
            };
            let negated = is(at - 1, "NOT");
            let operator = match negated {
                true => Token::ExclamationMarkTilde,
                false => Token::Tilde,
            };
            if negated && let Some(place) = solid.get(at - 1) {
                replaced.push((*place, None));
            }
            if let (Some(own), Some(next)) = (solid.get(at), solid.get(at + 1)) {
                replaced.push((*own, Some(operator)));
                replaced.push((
                    *next,
                    Some(Token::SingleQuotedString(regex_of_glob(pattern))),
                ));
            }
        }
    }
    let mut tokens = tokens;
    for (place, token) in replaced.into_iter().rev() {
        match (token, tokens.get_mut(place)) {
            (Some(token), Some(slot)) => slot.token = token,
            (None, Some(_)) => _ = tokens.remove(place),
            (_, None) => {}
        }
    }
    Ok(tokens)
}

/// Returns a regular expression of the same meaning as a pattern of SQLite's `GLOB`.
fn regex_of_glob(pattern: &str) -> String {
    let mut regex = String::from("^(?s:");
    let mut rest = pattern.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '*' => regex.push_str(".*"),
            '?' => regex.push('.'),
            '[' => {
                let mut inner = String::new();
                let negated = rest.next_if_eq(&'^').is_some();
                // A bracket directly behind the opening one is a member.
                if rest.next_if_eq(&']').is_some() {
                    inner.push_str("\\]");
                }
                let mut closed = false;
                for c in rest.by_ref() {
                    if c == ']' {
                        closed = true;
                        break;
                    }
                    if matches!(c, '\\' | '[' | '&' | '~' | '^') {
                        inner.push('\\');
                    }
                    inner.push(c);
                }
                match closed && !inner.is_empty() {
                    true => {
                        regex.push_str(if negated { "[^" } else { "[" });
                        regex.push_str(&inner);
                        regex.push(']');
                    }
                    // It matches nothing, as in SQLite.
                    false => regex.push_str("[^\\s\\S]"),
                }
            }
            c => {
                if "\\.+()|{}^$#&-~".contains(c) {
                    regex.push('\\');
                }
                regex.push(c);
            }
        }
    }
    regex.push_str(")$");
    regex
}

/// Gives a statement the meaning that it has in Perfetto: `group_concat`, equal columns of one `SELECT`, and in queries over Perfetto's
/// views `LIKE` that ignores the case of letters, and null before all values.
pub(crate) fn translate(statement: &mut Statement) {
    let _ = VisitMut::visit(statement, &mut Repeated);
    tell_casts_apart(statement);
    let over_views = visit_relations(statement, |name| match is_view(name) {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    })
    .is_break();
    if over_views {
        let _ = VisitMut::visit(statement, &mut NullsAsInSqlite);
    }
    let _: ControlFlow<()> = visit_expressions_mut(statement, |expr| {
        match expr {
            Expr::Like {
                negated,
                any,
                expr: text,
                pattern,
                escape_char,
            } if over_views => {
                *expr = Expr::ILike {
                    negated: *negated,
                    any: *any,
                    expr: text.clone(),
                    pattern: pattern.clone(),
                    escape_char: escape_char.clone(),
                };
            }
            Expr::Function(function) => group_concat(function),
            _ => {}
        }
        ControlFlow::Continue(())
    });
}

/// Sorts null before all values, as SQLite does and DataFusion does not.
struct NullsAsInSqlite;

impl VisitorMut for NullsAsInSqlite {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if let Some(order) = &mut query.order_by
            && let OrderByKind::Expressions(expressions) = &mut order.kind
        {
            expressions.iter_mut().for_each(nulls_first);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Function(Function {
            over: Some(WindowType::WindowSpec(window)),
            ..
        }) = expr
        {
            window.order_by.iter_mut().for_each(nulls_first);
        }
        ControlFlow::Continue(())
    }
}

fn nulls_first(order: &mut OrderByExpr) {
    let is_descending = order.options.asc == Some(false);
    order.options.nulls_first.get_or_insert(!is_descending);
}

/// Names columns that a `SELECT` repeats, which DataFusion refuses.
struct Repeated;

impl VisitorMut for Repeated {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        name_repeated(&mut query.body);
        ControlFlow::Continue(())
    }
}

fn name_repeated(body: &mut SetExpr) {
    match body {
        SetExpr::Select(select) => {
            let mut seen: Vec<(String, String)> = Vec::new();
            for item in &mut select.projection {
                let SelectItem::UnnamedExpr(expr) = item else {
                    continue;
                };
                // The engine calls a cast like what is cast.
                let text = expr.to_string();
                let bare = without_casts(expr);
                let before = seen.iter().filter(|(known, _)| *known == text).count();
                let is_taken = seen.iter().any(|(_, known)| *known == bare);
                seen.push((text.clone(), bare));
                let name = match expr {
                    Expr::CompoundIdentifier(parts) => parts.last().map(ToString::to_string),
                    _ => None,
                };
                let name = name.unwrap_or(text);
                let alias = match (before, is_taken) {
                    (0, false) => continue,
                    (0, true) => name,
                    (before, _) => format!("{name}_{}", before + 1),
                };
                *item = SelectItem::ExprWithAlias {
                    expr: expr.clone(),
                    alias: Ident::with_quote('"', alias),
                };
            }
        }
        SetExpr::SetOperation { left, right, .. } => {
            name_repeated(left);
            name_repeated(right);
        }
        _ => {}
    }
}

/// Returns the text of an expression without its casts.
fn without_casts(expr: &(impl Clone + VisitMut + ToString)) -> String {
    let mut expr = expr.clone();
    let _: ControlFlow<()> = visit_expressions_mut(&mut expr, |expr| {
        while let Expr::Cast { expr: inner, .. } = expr {
            *expr = inner.as_ref().clone();
        }
        ControlFlow::Continue(())
    });
    expr.to_string()
}

/// Returns Arrow's name of a type.
fn arrow_name(ty: &DataType) -> Option<String> {
    let name = match ty {
        DataType::Double(ExactNumberInfo::None) | DataType::DoublePrecision | DataType::Float8 => {
            "Float64"
        }
        DataType::Float(_) | DataType::Real | DataType::Float4 => "Float32",
        DataType::BigInt(_) | DataType::Int8(_) => "Int64",
        DataType::Int(_) | DataType::Integer(_) | DataType::Int4(_) => "Int32",
        DataType::SmallInt(_) => "Int16",
        DataType::TinyInt(_) => "Int8",
        DataType::Varchar(_) | DataType::Text | DataType::String(_) => "Utf8",
        DataType::Boolean | DataType::Bool => "Boolean",
        DataType::Decimal(size) | DataType::Numeric(size) => {
            let (precision, scale) = match size {
                ExactNumberInfo::PrecisionAndScale(precision, scale) => (*precision, *scale),
                ExactNumberInfo::Precision(precision) => (*precision, 0),
                ExactNumberInfo::None => return None,
            };
            return Some(format!("Decimal128({precision}, {scale})"));
        }
        _ => return None,
    };
    Some(name.to_owned())
}

/// Calls that differ in casts alone have one name in the engine, which refuses them in one statement: their casts become
/// `arrow_cast`, which has a name of its own.
fn tell_casts_apart(statement: &mut Statement) {
    let mut texts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let _: ControlFlow<()> = visit_expressions(statement, |expr| {
        if let Expr::Function(call) = expr {
            let text = call.to_string();
            texts.entry(without_casts(expr)).or_default().insert(text);
        }
        ControlFlow::Continue(())
    });
    texts.retain(|_, texts| texts.len() > 1);
    if texts.is_empty() {
        return;
    }
    let _: ControlFlow<()> = visit_expressions_mut(statement, |expr| {
        if matches!(expr, Expr::Function(_)) && texts.contains_key(&without_casts(expr)) {
            let _: ControlFlow<()> = visit_expressions_mut(expr, |expr| {
                name_cast(expr);
                ControlFlow::Continue(())
            });
        }
        ControlFlow::Continue(())
    });
}

/// Makes a cast a call of `arrow_cast`.
fn name_cast(expr: &mut Expr) {
    let Expr::Cast {
        kind: CastKind::Cast | CastKind::DoubleColon,
        expr: inner,
        data_type,
        ..
    } = expr
    else {
        return;
    };
    let Some(ty) = arrow_name(data_type) else {
        return;
    };
    let arg = |expr| FunctionArg::Unnamed(FunctionArgExpr::Expr(expr));
    let args = vec![
        arg(inner.as_ref().clone()),
        arg(Expr::value(Value::SingleQuotedString(ty))),
    ];
    *expr = Expr::Function(Function {
        name: ObjectName(vec![ObjectNamePart::Identifier(Ident::new("arrow_cast"))]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args,
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    });
}

fn is_view(name: &ObjectName) -> bool {
    let text = name.to_string().to_ascii_lowercase();
    VIEWS
        .iter()
        .any(|view| view.name == text && view.name != "instants")
}

/// Renames SQLite's `group_concat`, whose separator may be left out.
fn group_concat(function: &mut Function) {
    if !function
        .name
        .to_string()
        .eq_ignore_ascii_case("group_concat")
    {
        return;
    }
    function.name = ObjectName(vec![ObjectNamePart::Identifier(Ident::new("string_agg"))]);
    if let FunctionArguments::List(list) = &mut function.args
        && list.args.len() == 1
    {
        let comma = Value::SingleQuotedString(",".to_owned());
        let comma = FunctionArgExpr::Expr(Expr::value(comma));
        list.args.push(FunctionArg::Unnamed(comma));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(sql: &str) -> String {
        let tokens = tokens(sql).unwrap();
        tokens.iter().map(|token| token.token.to_string()).collect()
    }

    #[test]
    fn glob_is_a_match() {
        assert_eq!(
            rewritten("SELECT * FROM slice WHERE name GLOB 'nccl*(?)' AND a NOT GLOB '[^a-c]'"),
            "SELECT * FROM slice WHERE name ~ '^(?s:nccl.*\\(.\\))$' AND a  !~ '^(?s:[^a-c])$'"
        );
        assert_eq!(rewritten("SELECT glob FROM t"), "SELECT glob FROM t");
        assert_eq!(regex_of_glob("a[]b]"), "^(?s:a[\\]b])$");
        assert_eq!(regex_of_glob("a[b"), "^(?s:a[^\\s\\S])$");
    }

    #[test]
    fn what_only_perfetto_has_is_refused_with_a_hint() {
        for (sql, hint) in [
            (
                "INCLUDE PERFETTO MODULE slices.with_context; SELECT 1",
                "leave INCLUDE out",
            ),
            (
                "\n  CREATE PERFETTO TABLE t AS SELECT 1",
                "line 2, column 3: CREATE PERFETTO",
            ),
            (
                "CREATE OR REPLACE PERFETTO FUNCTION f() AS SELECT 1",
                "CREATE VIEW",
            ),
            ("CREATE VIRTUAL TABLE s USING SPAN_JOIN(a, b)", "overlap_ns"),
            ("SELECT * FROM interval_merge!(a)", "macros"),
        ] {
            let error = tokens(sql).unwrap_err().to_string();
            assert!(error.contains(hint), "{error}");
        }
        assert!(tokens("SELECT include, macro FROM t WHERE a != (1)").is_ok());
    }
}
