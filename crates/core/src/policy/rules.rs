//! Matches rules against actions: patterns for commands, paths and tools.

use super::location::{PathContext, PathLocation};
use super::shell::{SimpleCommand, Word};
use crate::globs::{Globs, part_matches};

/// In a pattern, stands for a path outside of the worktree.
pub(super) const OUTSIDE: &str = "{outside}";
/// In a command pattern, stands for any number of words.
const ANY_WORDS: &str = "...";
/// Separates the commands of a pattern for a pipeline.
const PIPE: &str = " | ";

/// The commands of a pipeline that a pattern matches. A pattern with pipes needs its commands in
/// this order, with any others in between, and yields the first of them.
pub(super) fn matching_commands<'p>(
    pattern: &str,
    pipeline: &'p [SimpleCommand],
    context: &PathContext<'_>,
) -> Vec<&'p SimpleCommand> {
    let parts: Vec<Vec<&str>> =
        pattern.split(PIPE).map(|part| part.split_whitespace().collect()).collect();
    if let [only] = parts.as_slice() {
        return pipeline.iter().filter(|one| command_matches(only, one, context)).collect();
    }
    let mut wanted = parts.iter().peekable();
    let is_next =
        |one: &&SimpleCommand| wanted.next_if(|part| command_matches(part, one, context)).is_some();
    let mut found: Vec<&SimpleCommand> = pipeline.iter().filter(is_next).collect();
    found.truncate(usize::from(wanted.peek().is_none()));
    found
}

/// Matches the program, then the words in their order, and the options in any position.
fn command_matches(pattern: &[&str], simple: &SimpleCommand, context: &PathContext<'_>) -> bool {
    let Some((program, rest)) = pattern.split_first() else { return false };
    if !any_alternative(program, |name| part_matches(name.as_bytes(), simple.program().as_bytes()))
    {
        return false;
    }
    let given = simple.words.get(1..).unwrap_or_default();
    let is_option = |word: &&Word| word.text.len() > 1 && word.text.starts_with('-');
    let (flags, plain): (Vec<&Word>, Vec<&Word>) = given.iter().partition(is_option);
    let (options, words): (Vec<&str>, Vec<&str>) =
        rest.iter().copied().partition(|word| word.starts_with('-'));
    let has = |wanted: &str| {
        flags.iter().any(|flag| any_alternative(wanted, |one| option_matches(one, &flag.text)))
    };
    options.into_iter().all(has) && words_match(&words, &plain, context)
}

/// `-f` also matches `-rf`.
fn option_matches(option: &str, word: &str) -> bool {
    let mut letters = option.chars().skip(1);
    let short = letters.next().filter(|c| c.is_ascii_alphabetic() && letters.next().is_none());
    let cluster = word.strip_prefix('-').filter(|rest| rest.chars().all(char::is_alphabetic));
    match (short, cluster) {
        (Some(letter), Some(cluster)) => cluster.contains(letter),
        (_, _) => part_matches(option.as_bytes(), word.as_bytes()),
    }
}

fn words_match(pattern: &[&str], words: &[&Word], context: &PathContext<'_>) -> bool {
    match pattern.split_first() {
        None => true,
        Some((&ANY_WORDS, rest)) => {
            (0..=words.len()).any(|from| words_match(rest, &words[from..], context))
        }
        Some((first, rest)) => words.split_first().is_some_and(|(word, words)| {
            any_alternative(first, |one| word_matches(one, word, context))
                && words_match(rest, words, context)
        }),
    }
}

fn word_matches(pattern: &str, word: &Word, context: &PathContext<'_>) -> bool {
    if pattern == OUTSIDE {
        return context
            .locations(word)
            .any(|location| matches!(location, PathLocation::Outside(_)));
    }
    part_matches(pattern.as_bytes(), word.text.as_bytes())
}

/// `a|b` matches either.
fn any_alternative(pattern: &str, is_so: impl Fn(&str) -> bool) -> bool {
    pattern.split('|').any(is_so)
}

/// Whether a path matches a pattern.
pub(super) fn path_matches(pattern: &str, location: &PathLocation) -> bool {
    if pattern == OUTSIDE {
        return matches!(location, PathLocation::Outside(_));
    }
    location.path().is_some_and(|path| {
        Globs::new(&[pattern.to_owned()]).any_guards(path.trim_start_matches('/').as_bytes())
    })
}

pub(super) fn tool_matches(pattern: &str, tool: &str) -> bool {
    any_alternative(pattern, |one| part_matches(one.as_bytes(), tool.as_bytes()))
}
