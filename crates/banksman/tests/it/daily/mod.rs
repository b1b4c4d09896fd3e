//! The daily note from outside: a real store, real files, the real program; people who edit the
//! note at the same time, late, twice or wrongly.

mod answering;
pub(crate) mod desk;
mod gathering;
mod keeping;
mod writing;
