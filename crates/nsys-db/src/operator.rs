//! Operators of PyTorch, as the labels of their ranges give them.

/// What may follow the name, in this order.
const PARTS: [&str; 4] = [", seq = ", ", op_id = ", ", sizes = ", ", input_op_ids = "];

/// A range of PyTorch's `emit_nvtx`: `NAME, seq = N, op_id = N, sizes = [...], input_op_ids = [...]`, each part after the name
/// optional, at least one there.
#[derive(Debug, PartialEq)]
pub(crate) struct Operator<'l> {
    pub(crate) name: &'l str,
    pub(crate) seq: Option<i64>,
    pub(crate) id: Option<i64>,
    pub(crate) sizes: Option<&'l str>,
}

impl<'l> Operator<'l> {
    /// Returns the name that an operator of this label would have: what follows may still be none of an operator. Labels
    /// differ from row to row and names do not, so that what is known of a name spares the rest of most labels.
    pub(crate) fn name_in(label: &'l str) -> Option<&'l str> {
        label.get(..first_of(label, &PARTS)?)
    }

    pub(crate) fn parse(label: &'l str) -> Option<Self> {
        let name = Self::name_in(label)?;
        let mut rest = label.get(name.len()..)?;
        let mut operator = Self {
            name,
            seq: None,
            id: None,
            sizes: None,
        };
        for (number, part) in PARTS.iter().enumerate() {
            let Some(value) = rest.strip_prefix(part) else {
                continue;
            };
            let next = first_of(value, PARTS.get(number + 1..).unwrap_or_default());
            let (value, after) = value.split_at_checked(next.unwrap_or(value.len()))?;
            rest = after;
            match number {
                0 => operator.seq = Some(value.parse().ok()?),
                1 => operator.id = Some(value.parse().ok()?),
                2 => operator.sizes = Some(value).filter(|sizes| is_list(sizes)),
                _ => {}
            }
            let is_valid = number < 2 || is_list(value);
            if !is_valid {
                return None;
            }
        }
        (rest.is_empty() && !name.is_empty()).then_some(operator)
    }
}

/// Returns where the first of `parts` begins, each of which begins with a comma. Labels are long and there is one for each operator, so
/// each is searched once.
fn first_of(text: &str, parts: &[&str]) -> Option<usize> {
    let mut commas = text.match_indices(',');
    let starts = |at: usize| {
        text.get(at..)
            .is_some_and(|rest| parts.iter().any(|part| rest.starts_with(part)))
    };
    commas.find_map(|(at, _)| starts(at).then_some(at))
}

fn is_list(text: &str) -> bool {
    text.starts_with('[') && text.ends_with(']')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_of_pytorch() {
        let parsed = |label| Operator::parse(label);
        let operator = parsed(
            "aten::addmm, seq = 12, op_id = 7, sizes = [[8, 4], [4]], input_op_ids = [(1, 0)]",
        )
        .unwrap();
        assert_eq!(
            (operator.name, operator.seq, operator.id),
            ("aten::addmm", Some(12), Some(7))
        );
        assert_eq!(operator.sizes, Some("[[8, 4], [4]]"));
        assert_eq!(parsed("detach_, op_id = 990353").unwrap().name, "detach_");
        assert_eq!(parsed("a, b, seq = 3").unwrap().name, "a, b");
        assert_eq!(parsed("phase 1"), None);
        assert_eq!(parsed("x, seq = many"), None);
        assert_eq!(parsed(", seq = 1"), None);
        assert_eq!(parsed("x, seq = 1 of 3"), None);
    }
}
