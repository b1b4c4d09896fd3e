//! Drawing boxes and the lines between them: places, ways, words and colours, for every kind of
//! picture.
//!
//! What a box or a line stands for is known to those who draw (`lifecycle::graph`,
//! `workflow::graph`), never here. The same input gives the same text on every machine.

pub(crate) mod layout;
pub(crate) mod mermaid;
pub(crate) mod pen;
pub(crate) mod route;
pub(crate) mod style;
pub(crate) mod words;
