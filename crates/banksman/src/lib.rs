//! The program: a library, so that tests and benches can reach every part.

pub mod clock;
pub mod ops;
pub mod store;
