//! Draws boxes and the lines between them: positions, routes, words and colours, for every kind of
//! picture.
//!
//! The callers (`lifecycle::graph`, `workflow::graph`) know what a box or a line stands for;
//! nothing here does. The same input gives the same text on every machine.

pub(crate) mod layout;
pub(crate) mod mermaid;
pub(crate) mod pen;
pub(crate) mod route;
pub(crate) mod style;
pub(crate) mod words;
