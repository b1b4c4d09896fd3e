//! Tests that the command line is consistent and that its codes are distinct.

use std::collections::BTreeSet;

use super::exit::Exit;
use crate::ops::error_report::Code;

#[test]
fn the_command_line_is_consistent() {
    super::command().debug_assert();
}

#[test]
fn no_two_codes_are_the_same() {
    let numbers: BTreeSet<u8> = Exit::ALL.iter().map(|(exit, _)| *exit as u8).collect();
    assert_eq!(numbers.len(), Exit::ALL.len());
    let names: Vec<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
    assert!(names.is_sorted_by(|first, second| first < second), "{names:?}");
    assert!(Code::ALL.iter().all(|code| Exit::from(*code) != Exit::Done));
}
