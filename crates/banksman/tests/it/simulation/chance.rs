//! Chance by a seed: the same seed always gives the same life. Nothing here may ask the machine for
//! anything.

use banksman_core::time::Span;

/// A small generator (splitmix64): every seed is as good as another, also 0, 1 and 2.
#[derive(Debug, Clone)]
pub(super) struct Chance {
    state: u64,
}

impl Chance {
    pub(super) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    pub(super) fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which is not 0.
    pub(super) fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).expect("a small number");
        usize::try_from(self.draw() % end).expect("smaller than `end`")
    }

    pub(super) fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(super) fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    /// One of weighted choices.
    pub(super) fn weighted<T: Copy>(&mut self, choices: &[(usize, T)]) -> T {
        let all = choices.iter().map(|(weight, _)| weight).sum();
        let mut left = self.below(all);
        for (weight, choice) in choices {
            if left < *weight {
                return *choice;
            }
            left -= weight;
        }
        choices[0].1
    }

    /// Between two numbers of seconds, in milliseconds.
    pub(super) fn seconds(&mut self, least: i64, most: i64) -> Span {
        let width = usize::try_from((most - least) * 1_000 + 1).expect("most is not below least");
        Span(least * 1_000 + i64::try_from(self.below(width)).expect("a small number"))
    }
}
