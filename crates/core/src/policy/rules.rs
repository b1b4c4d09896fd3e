//! Matches rules against actions: patterns for commands, paths and tools.

use super::place::{Ground, Spot};
use super::shell::{Simple, Word};
use crate::globs::{Globs, part_matches};

/// In a pattern, stands for a path outside of the worktree.
pub(super) const OUTSIDE: &str = "{outside}";
/// In a command pattern, stands for any number of words.
const ANY_WORDS: &str = "...";
/// Separates the commands of a pattern for a pipeline.
const PIPE: &str = " | ";

/// The commands of a pipeline that a pattern matches. A pattern with pipes needs its commands in
/// this order, with any others in between, and yields the first of them.
pub(super) fn about<'p>(
    pattern: &str,
    pipeline: &'p [Simple],
    ground: &Ground<'_>,
) -> impl Iterator<Item = &'p Simple> {
    let parts: Vec<Vec<&str>> =
        pattern.split(PIPE).map(|part| part.split_whitespace().collect()).collect();
    let mut rest = parts.iter();
    let mut found: Vec<&Simple> = Vec::new();
    if parts.len() == 1 {
        found = pipeline.iter().filter(|simple| fits(&parts[0], simple, ground)).collect();
    } else {
        let mut wanted = rest.next();
        let mut first = None;
        for simple in pipeline {
            if wanted.is_some_and(|words| fits(words, simple, ground)) {
                first = first.or(Some(simple));
                wanted = rest.next();
            }
        }
        found.extend(first.filter(|_| wanted.is_none()));
    }
    found.into_iter()
}

/// Matches the program, then the words in their order, and the options in any position.
fn fits(pattern: &[&str], simple: &Simple, ground: &Ground<'_>) -> bool {
    let Some((program, rest)) = pattern.split_first() else { return false };
    if !one_of(program, |name| part_matches(name.as_bytes(), simple.program().as_bytes())) {
        return false;
    }
    let given = simple.words.get(1..).unwrap_or_default();
    let is_option = |word: &&Word| word.text.len() > 1 && word.text.starts_with('-');
    let (options, words): (Vec<&str>, Vec<&str>) =
        rest.iter().copied().partition(|word| word.starts_with('-'));
    let has = |wanted: &str| {
        given.iter().filter(is_option).any(|word| one_of(wanted, |one| is_such(one, &word.text)))
    };
    let plain: Vec<&Word> = given.iter().filter(|word| !is_option(word)).collect();
    options.into_iter().all(has) && in_order(&words, &plain, ground)
}

/// `-f` also matches `-rf`.
fn is_such(option: &str, word: &str) -> bool {
    let mut letters = option.chars().skip(1);
    let short = letters.next().filter(|c| c.is_ascii_alphabetic() && letters.next().is_none());
    let cluster = word.strip_prefix('-').filter(|rest| rest.chars().all(char::is_alphabetic));
    match (short, cluster) {
        (Some(letter), Some(cluster)) => cluster.contains(letter),
        (_, _) => part_matches(option.as_bytes(), word.as_bytes()),
    }
}

fn in_order(pattern: &[&str], words: &[&Word], ground: &Ground<'_>) -> bool {
    match pattern.split_first() {
        None => true,
        Some((&ANY_WORDS, rest)) => {
            (0..=words.len()).any(|from| in_order(rest, &words[from..], ground))
        }
        Some((first, rest)) => words.split_first().is_some_and(|(word, words)| {
            one_of(first, |one| is_word(one, word, ground)) && in_order(rest, words, ground)
        }),
    }
}

fn is_word(pattern: &str, word: &Word, ground: &Ground<'_>) -> bool {
    if pattern == OUTSIDE {
        return ground.spots(word).any(|spot| matches!(spot, Spot::Outside(_)));
    }
    part_matches(pattern.as_bytes(), word.text.as_bytes())
}

/// `a|b` matches either.
fn one_of(pattern: &str, is_so: impl Fn(&str) -> bool) -> bool {
    pattern.split('|').any(is_so)
}

/// Whether a path matches a pattern.
pub(super) fn is_path(pattern: &str, spot: &Spot) -> bool {
    match spot {
        Spot::Outside(_) if pattern == OUTSIDE => true,
        Spot::Inside(path) | Spot::Outside(path) | Spot::Scratch(path) => {
            pattern != OUTSIDE
                && Globs::new(&[pattern.to_owned()])
                    .any_matches(path.trim_start_matches('/').as_bytes())
        }
        Spot::Unknown => false,
    }
}

pub(super) fn is_tool(pattern: &str, tool: &str) -> bool {
    one_of(pattern, |one| part_matches(one.as_bytes(), tool.as_bytes()))
}
