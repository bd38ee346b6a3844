//! Patterns over whole names: globs and SQL `LIKE`.

/// A pattern that a whole name must match.
///
/// ```
/// use trace_model::kernel::NamePattern;
///
/// assert!(NamePattern::glob("nccl*Kernel_?ll*").matches("ncclDevKernel_AllReduce"));
/// assert!(NamePattern::like("%FORWARD_batch").matches("worker.py: forward batch"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamePattern {
    tokens: Vec<Token>,
    ignore_case: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    /// This character.
    Is(char),
    /// Any one character.
    One,
    /// Any run of characters, also none.
    Run,
}

impl NamePattern {
    /// Compiles a glob: `*` matches any run of characters and `?` any single one; case-sensitive.
    pub fn glob(text: &str) -> Self {
        Self::compile(text, '*', '?', false)
    }

    /// Compiles an SQL `LIKE` pattern: `%` matches any run of characters and `_` any single one,
    /// ASCII letters match in either case, and there is no escape character.
    pub fn like(text: &str) -> Self {
        Self::compile(text, '%', '_', true)
    }

    fn compile(text: &str, run: char, one: char, ignore_case: bool) -> Self {
        let mut tokens: Vec<Token> = Vec::with_capacity(text.len());
        for c in text.chars() {
            let token = if c == run {
                Token::Run
            } else if c == one {
                Token::One
            } else {
                Token::Is(c)
            };
            if token != Token::Run || tokens.last() != Some(&Token::Run) {
                tokens.push(token);
            }
        }
        Self {
            tokens,
            ignore_case,
        }
    }

    /// Returns the same pattern for ASCII letters of either case.
    #[must_use]
    pub fn ignoring_case(mut self) -> Self {
        self.ignore_case = true;
        self
    }

    /// Returns `true` if it matches every name.
    pub fn matches_everything(&self) -> bool {
        self.tokens == [Token::Run]
    }

    /// Returns `true` if the whole of `name` matches. Cost: at most the product of the lengths.
    pub fn matches(&self, name: &str) -> bool {
        let mut rest = name.chars();
        let mut at = 0;
        // Where to resume if a guess for the latest run of characters fails.
        let mut retry: Option<(usize, std::str::Chars<'_>)> = None;
        loop {
            let before = rest.clone();
            match (self.tokens.get(at), rest.next()) {
                (None, None) => return true,
                (Some(Token::Run), _) => {
                    at += 1;
                    if at == self.tokens.len() {
                        return true;
                    }
                    retry = Some((at, before.clone()));
                    rest = before;
                    continue;
                }
                (Some(token), Some(c)) if self.accepts(*token, c) => {
                    at += 1;
                    continue;
                }
                (Some(_), None) => return false,
                _ => {}
            }
            let Some((token, from)) = &mut retry else {
                return false;
            };
            if from.next().is_none() {
                return false;
            }
            at = *token;
            rest = from.clone();
        }
    }

    fn accepts(&self, token: Token, c: char) -> bool {
        match token {
            Token::Is(t) => t == c || (self.ignore_case && t.eq_ignore_ascii_case(&c)),
            Token::One => true,
            Token::Run => false,
        }
    }
}

/// Several globs over lower-case texts, one of which must match.
#[derive(Clone, Debug, Default)]
pub(crate) struct Alternatives(Vec<Alternative>);

#[derive(Clone, Debug)]
enum Alternative {
    /// `*text*`: the most frequent pattern of names, and much cheaper to search for.
    Contains(String),
    Glob(NamePattern),
}

impl Alternatives {
    /// Parses globs separated by `|`; blanks around them are ignored.
    pub(crate) fn parse(text: &str) -> Self {
        let globs = text.split('|').map(|glob| {
            let glob = glob.trim().to_ascii_lowercase();
            let inner = glob.strip_prefix('*').and_then(|g| g.strip_suffix('*'));
            match inner.filter(|inner| !inner.contains(['*', '?'])) {
                Some(part) => Alternative::Contains(part.to_owned()),
                None => Alternative::Glob(NamePattern::glob(&glob)),
            }
        });
        Self(globs.collect())
    }

    /// Returns `true` if one of the globs matches `name`, which is in lower case.
    pub(crate) fn matches(&self, name: &str) -> bool {
        self.0.iter().any(|one| match one {
            Alternative::Contains(part) => name.contains(part.as_str()),
            Alternative::Glob(glob) => glob.matches(name),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Implements the definition without any optimization.
    fn slow(pattern: &[char], text: &[char]) -> bool {
        match pattern.split_first() {
            None => text.is_empty(),
            Some(('*', rest)) => (0..=text.len()).any(|i| slow(rest, &text[i..])),
            Some(('?', rest)) => !text.is_empty() && slow(rest, &text[1..]),
            Some((c, rest)) => text.first() == Some(c) && slow(rest, &text[1..]),
        }
    }

    #[test]
    fn like_ignores_the_case_of_ascii_letters_only() {
        let p = NamePattern::like("%Ärger_");
        assert!(p.matches("xÄRGER!"));
        assert!(!p.matches("xärger!"));
        assert!(!p.matches("xÄRGER"));
    }

    #[test]
    fn the_whole_name_must_match() {
        assert!(!NamePattern::glob("nccl").matches("ncclX"));
        assert!(NamePattern::glob("*").matches_everything());
        assert!(NamePattern::glob("").matches(""));
        assert!(!NamePattern::glob("a?").matches("a"));
    }

    proptest! {
        #[test]
        fn agrees_with_the_definition(pattern in "[ab*?é]{0,8}", text in "[abé]{0,10}") {
            let (p, t): (Vec<_>, Vec<_>) = (pattern.chars().collect(), text.chars().collect());
            prop_assert_eq!(NamePattern::glob(&pattern).matches(&text), slow(&p, &t));
        }
    }
}
