//! `kill -9` at any moment: what was acknowledged is there, and everything else is whole.
//!
//! The parent runs this test binary again as a child that works on a store and says what was
//! acknowledged. It kills the child after a number of lines that a seed gives, never after a time,
//! and looks at what is left.

mod child;
mod kills;
mod opening;

pub(crate) use child::Seeded;
