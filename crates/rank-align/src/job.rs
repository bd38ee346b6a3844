//! Coverage of a job by its recordings.

/// Number of ranks of a job, as stated by the recordings, and number of recorded ranks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct JobSize {
    /// Largest number that a recording states.
    world: Option<u32>,
    /// `true` if all recordings state the same number.
    is_agreed: bool,
    recorded: usize,
}

impl JobSize {
    /// Counts recordings, each with the number of ranks that it states. Cost: one pass.
    pub fn of(stated: impl IntoIterator<Item = Option<u32>>) -> Self {
        let mut out = Self::default();
        let mut first = None;
        let mut is_agreed = true;
        for world in stated {
            out.recorded += 1;
            out.world = out.world.max(world);
            is_agreed &= *first.get_or_insert(world) == world;
        }
        out.is_agreed = is_agreed && out.world.is_some();
        out
    }

    /// Returns the number of ranks if there are several and each of them is recorded.
    pub fn all_recorded(&self) -> Option<u32> {
        let is_all = |world: &u32| *world > 1 && self.recorded == *world as usize;
        self.world.filter(|_| self.is_agreed).filter(is_all)
    }

    /// Returns `true` if the job is known to have more ranks than are recorded.
    pub fn is_part(&self) -> bool {
        self.world
            .is_some_and(|world| self.recorded < world as usize)
    }
}

/// Returns `true` if a member of the group may be missing from a collective that `recorded` ranks
/// have, of a group whose `members` or `group_size` may be unknown. Its durations may then all
/// include waiting for that member, so that no bandwidth can be derived. If nothing is known of the
/// group, a single run lacks members, and so does any collective of a partly recorded job
/// (`is_part`).
pub fn may_lack_members(
    recorded: usize,
    members: Option<usize>,
    group_size: Option<u32>,
    is_part: bool,
) -> bool {
    match (members, group_size) {
        (Some(members), _) if recorded < members => true,
        (_, Some(size)) => recorded < size as usize,
        (Some(_), None) => false,
        (None, None) => recorded == 1 || is_part,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_recorded_in_part_or_whole() {
        for (stated, all, is_part) in [
            (&[Some(2), Some(2)][..], Some(2), false),
            (&[Some(4), Some(4)], None, true),
            (&[Some(2), None], None, false),
            (&[None, None], None, false),
            (&[Some(1)], None, false),
            (&[], None, false),
        ] {
            let size = JobSize::of(stated.iter().copied());
            assert_eq!((size.all_recorded(), size.is_part()), (all, is_part));
        }
    }

    #[test]
    fn missing_members_are_known_or_possible() {
        for (recorded, members, size, is_part, want) in [
            (2, Some(2), Some(2), true, false),
            (1, Some(2), None, false, true),
            (2, None, Some(3), false, true),
            (1, None, None, false, true),
            (2, None, None, false, false),
            (2, None, None, true, true),
            (1, None, Some(1), true, false),
        ] {
            assert_eq!(may_lack_members(recorded, members, size, is_part), want);
        }
    }
}
