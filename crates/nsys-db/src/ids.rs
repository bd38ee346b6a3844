//! Global ids: machine, process and thread in 64 bits.

/// A process, by machine and number: the upper 40 bits of a global id. Ascends by machine, then by number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ProcessKey(u64);

impl ProcessKey {
    /// Process of GPU activities that do not state any.
    pub(crate) const UNKNOWN: Self = Self(u64::MAX);

    /// Returns the process of a global id, which may exceed the positive range of 64 bits.
    pub fn of(global: i64) -> Self {
        Self(global.cast_unsigned() >> 24)
    }

    /// Returns the number of the process on its machine.
    pub fn pid(self) -> i64 {
        (self.0 & 0xff_ffff).cast_signed()
    }

    /// Returns the hardware and virtual machine.
    pub fn machine(self) -> u64 {
        self.0 >> 24
    }

    /// Returns `true` if it is a process that the file names.
    pub fn is_known(self) -> bool {
        self != Self::UNKNOWN
    }
}

/// Returns the number of the thread in a global id.
pub(crate) fn tid(global: i64) -> i64 {
    global & 0xff_ffff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_global_id() {
        let id = (0x8101_u64 << 48 | 70_001 << 24 | 70_005).cast_signed();
        assert!(id < 0);
        let process = ProcessKey::of(id);
        assert_eq!(
            (process.machine(), process.pid(), tid(id)),
            (0x8101, 70_001, 70_005)
        );
    }
}
