use super::Eligible;

/// Each in turn.
pub(super) fn pick(eligible: &Eligible, turn: usize) -> Option<usize> {
    eligible.nth_around(turn)
}
