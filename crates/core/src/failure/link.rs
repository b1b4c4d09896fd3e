//! Finds the pull request that a run reports as its own.
//!
//! Agents also quote other pull requests. A link counts only if the words right around it name this
//! task or its branch, and no other task. A missed link is found later by the branch; a wrong one
//! would stay.

use crate::limits;
use crate::text::end_of;

/// A longer link is not a pull request.
const LINK_BYTES: usize = 500;

/// The last link in an agent's final message that is this task's pull request.
pub fn pr_link(final_text: &str, task: &str, branch: &str) -> Option<String> {
    let text = end_of(final_text, limits::FINAL_TEXT_BYTES);
    let links = links_of(text);
    let own = (0..links.len()).rev().find(|at| is_own_link(text, &links, *at, task, branch))?;
    pull_request(&text[links[own].0..links[own].1])
}

/// The ranges of all web addresses; none begins inside another.
fn links_of(text: &str) -> Vec<(usize, usize)> {
    let ends_it = |letter: char| {
        letter.is_whitespace() || letter.is_control() || "()[]<>\"'`|,;{}".contains(letter)
    };
    let mut links: Vec<(usize, usize)> = Vec::new();
    for (start, _) in text.match_indices("http") {
        let rest = &text[start..];
        let is_address = rest.starts_with("https://") || rest.starts_with("http://");
        if !is_address || links.last().is_some_and(|(_, end)| start < *end) {
            continue;
        }
        let whole = &rest[..rest.find(ends_it).unwrap_or(rest.len())];
        let link = whole.trim_end_matches(['.', ':', '!', '?', '*', '_']);
        links.push((start, start + link.len()));
    }
    links
}

/// The URL of a pull request on GitHub, GitLab or Gitea, without anything after its number.
fn pull_request(link: &str) -> Option<String> {
    if link.len() > LINK_BYTES {
        return None;
    }
    let (scheme, rest) = link.split_once("://")?;
    let (path, _) = rest.split_at(rest.find(['?', '#']).unwrap_or(rest.len()));
    let parts: Vec<&str> = path.split('/').collect();
    let host = parts.first().filter(|host| !host.is_empty() && !host.starts_with("api."))?;
    let names =
        parts.iter().position(|part| matches!(*part, "pull" | "pulls" | "merge_requests"))?;
    let number = parts.get(names + 1).filter(|number| is_number(number))?;
    let mut owners = &parts[1..names];
    if parts[names] == "merge_requests" {
        owners = owners.strip_suffix(&["-"]).unwrap_or(owners);
    }
    let is_project = owners.len() >= 2
        && owners.iter().all(|owner| !owner.is_empty())
        && !matches!(owners[0], "api" | "repos");
    is_project.then(|| format!("{scheme}://{host}/{}/{number}", parts[1..=names].join("/")))
}

fn is_number(text: &str) -> bool {
    (1..=10).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_digit())
        && !text.starts_with('0')
}

/// Whether the nearest words that name a task name only this one.
fn is_own_link(text: &str, links: &[(usize, usize)], at: usize, task: &str, branch: &str) -> bool {
    let (start, end) = links[at];
    if pull_request(&text[start..end]).is_none() {
        return false;
    }
    let line_start = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
    let line_end = text[end..].find('\n').map_or(text.len(), |newline| end + newline);
    let previous_end = at.checked_sub(1).map_or(0, |before| links[before].1);
    let next_start = links.get(at + 1).map_or(text.len(), |next| next.0);
    let around = [
        &text[line_start.max(previous_end)..start],
        &text[end..line_end.min(next_start)],
        text[..line_start].lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default(),
        text[line_end..].lines().find(|line| !line.trim().is_empty()).unwrap_or_default(),
    ];
    let named = around.iter().map(|words| mention(words, task, branch));
    named.into_iter().find(|named| *named != Mention::None) == Some(Mention::This)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mention {
    This,
    Other,
    None,
}

fn mention(words: &str, task: &str, branch: &str) -> Mention {
    // The words of a line belong to the link in that line.
    if words.contains("://") {
        return Mention::None;
    }
    let has_branch = !branch.is_empty()
        && positions_of(words, branch).any(|at| is_whole_name(words, at, branch.len(), "-/"));
    let has_task = !task.is_empty()
        && positions_of(words, task).any(|at| is_whole_name(words, at, task.len(), ""));
    let others = has_other_task(words, task);
    match (has_branch, has_task, others) {
        (true, _, _) | (false, true, false) => Mention::This,
        (false, _, true) => Mention::Other,
        (false, false, false) => Mention::None,
    }
}

/// The positions of a name, ignoring case.
fn positions_of<'a>(words: &'a str, name: &'a str) -> impl Iterator<Item = usize> + 'a {
    words.char_indices().map(|(at, _)| at).filter(move |at| {
        words
            .as_bytes()
            .get(*at..*at + name.len())
            .is_some_and(|part| part.eq_ignore_ascii_case(name.as_bytes()))
    })
}

/// Whether a name is not part of a longer one; `joining` are characters that extend a name, besides
/// letters and digits.
fn is_whole_name(words: &str, at: usize, length: usize, joining: &str) -> bool {
    let joins =
        |letter: char| letter.is_alphanumeric() || letter == '_' || joining.contains(letter);
    let mut behind = words[at + length..].chars();
    let next = behind.next();
    // `t83.1` is another task, `t83.` is the end of a sentence.
    let is_longer_id = next == Some('.') && behind.next().is_some_and(char::is_alphanumeric);
    !words[..at].ends_with(joins) && !next.is_some_and(joins) && !is_longer_id
}

/// Whether the words name a task other than this one: `t` and a number, as a word.
fn has_other_task(words: &str, task: &str) -> bool {
    let is_of_name = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == '.';
    words.split(|letter| !is_of_name(letter)).map(|word| word.trim_matches('.')).any(|word| {
        let number = word.strip_prefix(['t', 'T']).unwrap_or_default();
        let is_task = number.starts_with(|first: char| first.is_ascii_digit())
            && number.chars().all(|letter| letter.is_ascii_digit() || letter == '.');
        is_task && !word.eq_ignore_ascii_case(task)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop_assert, proptest};

    const OURS: &str = "https://github.com/o/r/pull/5";

    fn link(text: &str) -> Option<String> {
        pr_link(text, "t83", "banksman/t83-login")
    }

    #[test]
    fn the_shapes_of_three_forges_are_known() {
        for (text, expected) in [
            ("t83: https://github.com/o/r/pull/5", OURS),
            ("t83: https://github.com/o/r/pull/5/files#diff-1", OURS),
            ("t83: https://github.com/o/r/pull/5?w=1.", OURS),
            ("t83: <https://github.com/o/r/pull/5>", OURS),
            ("[PR for t83](https://github.com/o/r/pull/5).", OURS),
            ("**t83: https://github.com/o/r/pull/5**", OURS),
            (
                "t83: https://gitlab.com/g/s/r/-/merge_requests/7",
                "https://gitlab.com/g/s/r/-/merge_requests/7",
            ),
            (
                "t83: https://gitlab.com/g/r/merge_requests/7/diffs",
                "https://gitlab.com/g/r/merge_requests/7",
            ),
            ("t83: http://127.0.0.1:3000/o/r/pulls/9", "http://127.0.0.1:3000/o/r/pulls/9"),
            (
                "t83: https://git.example.org/git/o/r/pulls/9",
                "https://git.example.org/git/o/r/pulls/9",
            ),
        ] {
            assert_eq!(link(text).as_deref(), Some(expected), "{text}");
        }
        for text in [
            "t83: https://github.com/o/r/issues/5",
            "t83: https://github.com/o/r/pull/new/banksman/t83-login",
            "t83: https://github.com/pull/5",
            "t83: https://github.com/o/r/pull/",
            "t83: https://github.com/o/r/pull/0",
            "t83: https://api.github.com/repos/o/r/pulls/5",
            "t83: https://git.example.org/api/v1/repos/o/r/pulls/5",
            "t83: ftp://github.com/o/r/pull/5",
            "t83: https:///o/r/pull/5",
        ] {
            assert_eq!(link(text), None, "{text}");
        }
    }

    #[test]
    fn the_words_around_it_must_name_the_task() {
        for text in [
            "Opened https://github.com/o/r/pull/5 for t83.",
            "T83 is done: https://github.com/o/r/pull/5",
            "Pushed banksman/t83-login, see https://github.com/o/r/pull/5",
            "The PR of t83:\n\nhttps://github.com/o/r/pull/5\n",
            "https://github.com/o/r/pull/5\n(t83)",
            "t12: https://github.com/o/r/pull/4\nt83: https://github.com/o/r/pull/5\nt84: https://github.com/o/r/pull/6",
            "t12 https://github.com/o/r/pull/4, t83 https://github.com/o/r/pull/5, t84 https://github.com/o/r/pull/6",
            "t12:\nhttps://github.com/o/r/pull/4\nt83:\nhttps://github.com/o/r/pull/5\nt84:\nhttps://github.com/o/r/pull/6",
            "| t83 | https://github.com/o/r/pull/5 |",
            "https://github.com/o/r/pull/4\nhttps://github.com/o/r/pull/5\n(t83)",
        ] {
            assert_eq!(link(text).as_deref(), Some(OURS), "{text}");
        }
    }

    #[test]
    fn another_task_is_not_this_one() {
        for text in [
            "https://github.com/o/r/pull/5",
            "Similar to https://github.com/o/r/pull/5",
            "t8: https://github.com/o/r/pull/5",
            "t830: https://github.com/o/r/pull/5",
            "xt83: https://github.com/o/r/pull/5",
            "t83.1: https://github.com/o/r/pull/5",
            "t83_b: https://github.com/o/r/pull/5",
            "banksman/t84: https://github.com/o/r/pull/5",
            "t12: https://github.com/o/r/pull/5\nt83 is next",
            "t83 waits for t12: https://github.com/o/r/pull/5",
            "t83: https://github.com/o/r/issues/4\nhttps://github.com/o/r/pull/5",
            "I read about t83.\nThen other things.\nhttps://github.com/o/r/pull/5",
        ] {
            assert_eq!(link(text), None, "{text}");
        }
        assert_eq!(pr_link("t83: https://github.com/o/r/pull/5", "t8", "banksman/t8"), None);
        assert_eq!(pr_link("banksman/t83: https://github.com/o/r/pull/5", "", "banksman/t8"), None);
        assert_eq!(pr_link("login.old: https://github.com/o/r/pull/5", "", "login"), None);
        assert_eq!(
            pr_link("login. https://github.com/o/r/pull/5", "", "login").as_deref(),
            Some(OURS)
        );
        assert_eq!(pr_link("https://github.com/o/r/pull/5", "", ""), None);
    }

    #[test]
    fn the_last_of_several_counts() {
        let text =
            "t83: https://github.com/o/r/pull/4 was closed\nt83: https://github.com/o/r/pull/5";
        assert_eq!(link(text).as_deref(), Some(OURS));
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(text in "(?s).{0,300}", task in ".{0,8}", branch in ".{0,12}") {
            prop_assert!(pr_link(&text, &task, &branch).is_none_or(|link| link.len() <= LINK_BYTES));
        }

        #[test]
        fn a_link_is_only_taken_with_its_task(
            parts in proptest::collection::vec(
                proptest::sample::select(vec![
                    "https://github.com/o/r/pull/5", "https://g.org/o/r/pulls/6", "t8", "t84", "ü", "\n", " ", ".", "see",
                ]),
                0..20,
            ),
        ) {
            let text = parts.concat();
            prop_assert!(link(&text).is_none(), "{text}");
        }
    }
}
