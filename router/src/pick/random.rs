use rand::RngExt;

use super::Eligible;

/// Any.
pub(super) fn pick(eligible: &Eligible, chance: &mut impl RngExt) -> Option<usize> {
    match eligible.len() {
        0 => None,
        len => eligible.nth_around(chance.random_range(0..len)),
    }
}
