//! Operators whose numbers follow from the roles of their arguments.

use crate::numbers::{Answer, Numbers, UnitKind, Unknown};
use crate::recorded::{Recorded, times};

/// Use of one argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Role {
    Read,
    Written,
    Both,
    Neither,
}

/// Roles of the arguments, and operations per element of one of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Roles {
    roles: Vec<Role>,
    flops_per_element: u128,
    of: usize,
}

impl Roles {
    /// Parses roles: `r` read, `w` written, `u` changed in place, `-` neither, separated by blanks.
    ///
    /// # Errors
    /// Problem, and what was expected.
    pub(crate) fn parse(
        text: &str,
        flops_per_element: Option<u64>,
        of: Option<usize>,
    ) -> Result<Self, String> {
        let roles: Result<Vec<Role>, String> = text
            .split_whitespace()
            .map(|word| match word {
                "r" => Ok(Role::Read),
                "w" => Ok(Role::Written),
                "u" => Ok(Role::Both),
                "-" => Ok(Role::Neither),
                other => Err(format!(
                    "unknown role {other:?}; expected r (read), w (written), u (both) or - (neither)"
                )),
            })
            .collect();
        let roles = roles?;
        let of = of.unwrap_or(0);
        if roles.is_empty() || of >= roles.len() {
            return Err(format!(
                "`of` is argument {of}, but roles are given for {} arguments",
                roles.len()
            ));
        }
        Ok(Self {
            roles,
            flops_per_element: u128::from(flops_per_element.unwrap_or(0)),
            of,
        })
    }

    /// Arguments that are absent are not moved, but for the one that elements are counted of.
    pub(crate) fn numbers(&self, recorded: &Recorded) -> Answer {
        let counted = recorded.need(self.of)?;
        let mut bytes = 0_u128;
        let mut any = false;
        for (at, role) in self.roles.iter().enumerate() {
            let Some(tensor) = recorded.tensor(at) else {
                continue;
            };
            any = true;
            bytes = bytes.saturating_add(match role {
                Role::Read => tensor.read(),
                Role::Written => tensor.written(),
                Role::Both => tensor.read().saturating_add(tensor.written()),
                Role::Neither => 0,
            });
        }
        if !any {
            return Err(Unknown::unexpected());
        }
        let flops = times(counted.elements(), self.flops_per_element);
        let unit = match self.flops_per_element {
            0 => UnitKind::Move,
            _ => UnitKind::Vector,
        };
        Ok(Numbers::exact(unit, flops, bytes))
    }
}
