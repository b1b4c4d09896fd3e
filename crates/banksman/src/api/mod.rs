//! The contract with programs: the JSON that scripts and other surfaces rely on.

pub mod decision;
pub mod dto;
