//! The JSON contract with scripts and other surfaces.

pub mod decision;
pub mod dto;
