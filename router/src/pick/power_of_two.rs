use rand::RngExt;

use super::Eligible;

/// The less loaded of two different ones, drawn at random.
pub(super) fn pick(
    eligible: &Eligible,
    load: impl Fn(usize) -> u32,
    chance: &mut impl RngExt,
) -> Option<usize> {
    let len = eligible.len();
    if len < 2 {
        return eligible.nth_around(0);
    }
    let first = chance.random_range(0..len);
    let second = first + chance.random_range(1..len);
    let (first, second) = (eligible.nth_around(first)?, eligible.nth_around(second)?);
    Some(if load(second) < load(first) {
        second
    } else {
        first
    })
}
