//! A deterministic random generator: splitmix64 (Steele, Lea and Flood, 2014).

pub(super) struct SeededRandom(u64);

impl SeededRandom {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// One of the items, or none if there are none.
    pub(super) fn one_of<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        let place = self.next().checked_rem(items.len() as u64)?;
        items.get(usize::try_from(place).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_generator_that_others_have() {
        let mut random = SeededRandom::new(1_234_567);
        let numbers: Vec<u64> = (0..3).map(|_| random.next()).collect();
        assert_eq!(
            numbers,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn it_picks_each_and_none_of_none() {
        let mut random = SeededRandom::new(7);
        assert_eq!(random.one_of::<u8>(&[]), None);
        let mut seen = [false; 3];
        for _ in 0..100 {
            seen[*random.one_of(&[0, 1, 2]).expect("there are three")] = true;
        }
        assert_eq!(seen, [true; 3]);
    }
}
