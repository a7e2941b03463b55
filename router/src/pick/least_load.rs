use super::Eligible;

/// The least loaded; those that tie take turns.
pub(super) fn pick(eligible: &Eligible, load: impl Fn(usize) -> u32, turn: usize) -> Option<usize> {
    let least = eligible.iter().map(&load).min()?;
    let ties = || eligible.iter().filter(|&index| load(index) <= least);
    // Loads move while they are read: with no tie left, any one is as good.
    let nth = turn.checked_rem(ties().count()).unwrap_or_default();
    ties().nth(nth).or_else(|| eligible.nth_around(turn))
}
