const BITS: usize = u64::BITS as usize;

/// A set of candidates, by their places: one word for up to 64 of them, more words above.
#[derive(Debug)]
pub(super) struct Eligible {
    first: u64,
    more: Vec<u64>,
    len: usize,
}

impl Eligible {
    /// The candidates that pass.
    pub(super) fn of<T>(candidates: &[T], passes: impl Fn(&T) -> bool) -> Self {
        let mut words = candidates.chunks(BITS).map(|chunk| {
            let bits = chunk.iter().enumerate();
            bits.fold(0, |word, (i, one)| word | (u64::from(passes(one)) << i))
        });
        let first = words.next().unwrap_or_default();
        let more: Vec<u64> = words.collect();
        let ones = first.count_ones() + more.iter().map(|word| word.count_ones()).sum::<u32>();
        Self {
            first,
            more,
            len: ones as usize,
        }
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// The places, ascending.
    pub(super) fn iter(&self) -> impl Iterator<Item = usize> {
        let words = std::iter::once(self.first).chain(self.more.iter().copied());
        words
            .enumerate()
            .flat_map(|(i, word)| Ones(word).map(move |bit| i * BITS + bit))
    }

    /// The place of the `n`th, counted around.
    pub(super) fn nth_around(&self, n: usize) -> Option<usize> {
        let mut n = n.checked_rem(self.len)?;
        let words = std::iter::once(self.first).chain(self.more.iter().copied());
        for (i, word) in words.enumerate() {
            let ones = word.count_ones() as usize;
            if n < ones {
                return Ones(word).nth(n).map(|bit| i * BITS + bit);
            }
            n -= ones;
        }
        None
    }
}

/// The set bits of a word.
struct Ones(u64);

impl Iterator for Ones {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        let bit = self.0.trailing_zeros();
        self.0 &= self.0 - 1;
        Some(bit as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_beyond_the_first_word_are_found() {
        let candidates: Vec<usize> = (0..200).collect();
        let eligible = Eligible::of(&candidates, |n| n % 3 == 0);
        let places: Vec<_> = eligible.iter().collect();
        assert_eq!(places, (0..200).step_by(3).collect::<Vec<_>>());
        assert_eq!(eligible.len(), places.len());
        for (n, place) in places.iter().enumerate() {
            assert_eq!(eligible.nth_around(n), Some(*place));
        }
        assert_eq!(eligible.nth_around(places.len()), Some(0));
    }

    #[test]
    fn an_empty_set_has_no_place() {
        let eligible = Eligible::of(&[1, 2], |_| false);
        assert_eq!(
            (eligible.nth_around(7), eligible.iter().next()),
            (None, None)
        );
    }
}
