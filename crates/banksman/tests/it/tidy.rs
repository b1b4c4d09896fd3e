//! The rules of the house that no compiler checks, as tests over the text of the repository.
//!
//! Each rule is a function from a file to its violations, in one of the modules below, with tests
//! of its own that feed it something bad. Here the rules meet the real tree. A failure names file,
//! line and rule. Nothing here changes a file.

mod agents;
mod contract;
mod dependencies;
mod documents;
mod json;
mod layers;
mod lost;
mod places;
mod scan;
mod sizes;
mod skips;
mod source;
mod sql;
mod surface;
mod words;

use source::{SourceFile, Violation, load_tree};

fn check(rule: fn(&SourceFile) -> Vec<Violation>) {
    assert_none(&tree().iter().flat_map(rule).collect::<Vec<_>>());
}

fn assert_none(violations: &[Violation]) {
    let lines: Vec<String> = violations.iter().map(ToString::to_string).collect();
    assert!(lines.is_empty(), "{} broken rules, see STYLE.md\n{}", lines.len(), lines.join("\n"));
}

/// The repository's files; a tree that lacks this very file was read from the wrong place.
fn tree() -> Vec<SourceFile> {
    let files = load_tree();
    let own = "crates/banksman/tests/it/tidy.rs";
    assert!(
        files.iter().any(|file| file.path == own),
        "{own} is not among the {} files found",
        files.len()
    );
    files
}

#[test]
fn imports_follow_the_table() {
    check(layers::violations);
    check(layers::passed_on);
}

#[test]
fn threads_time_chance_environment_and_programs_stay_in_their_files() {
    check(places::violations);
    check(places::other_git);
}

#[test]
fn the_core_is_pure() {
    check(places::impure_core);
}

#[test]
fn only_the_store_has_sql() {
    check(sql::violations);
}

#[test]
fn only_apply_changes_the_state_of_a_task() {
    assert_none(&sql::state_writers(&tree()));
}

#[test]
fn only_expressions_agents_and_documents_have_untyped_json() {
    check(json::violations);
}

#[test]
fn a_word_names_one_type() {
    assert_none(&words::two_types_of_a_word(&tree()));
}

#[test]
fn only_the_command_line_says_what_to_type() {
    assert_none(&words::commands_in_texts(&tree()));
}

#[test]
fn every_file_says_what_it_is_for() {
    check(surface::opening);
}

#[test]
fn modules_are_named_for_a_duty() {
    check(surface::drawers);
}

#[test]
fn files_are_short() {
    let files = tree();
    for line in surface::long(&files) {
        println!("{line}");
    }
    assert_none(&files.iter().flat_map(surface::too_long).collect::<Vec<_>>());
}

#[test]
fn files_that_are_read_whole_keep_their_size() {
    check(sizes::too_large);
}

#[test]
fn no_short_cuts() {
    check(surface::short_cuts);
}

#[test]
fn names_of_the_contract_are_typed() {
    check(contract::spelled);
}

#[test]
fn documents_and_scripts_name_the_oldest_git() {
    let oldest = banksman::exec::git::OLDEST;
    for (path, text) in [
        ("README.md", format!("git {oldest} or newer")),
        ("CONTRIBUTING.md", format!("git {oldest},")),
        ("scripts/test", format!("OLD_GIT='{oldest}.*")),
    ] {
        assert!(tree().iter().any(|file| file.path == path && file.text.contains(&text)), "{path}");
    }
}

#[test]
fn names_of_agents_stand_in_one_table() {
    check(agents::spelled);
}

#[test]
fn results_are_dropped_for_a_reason() {
    check(lost::unexplained);
}

#[test]
fn no_test_passes_because_something_is_missing() {
    check(skips::early_ends);
    assert_none(&skips::unknown_needs(&tree()));
}

#[test]
fn no_file_knows_the_machine_it_was_written_on() {
    check(documents::private_paths);
}

#[test]
fn links_between_documents_resolve() {
    check(documents::dead_links);
}

#[test]
fn dependencies_follow_the_policy() {
    assert_none(&dependencies::violations());
}
