//! Path patterns as in a `.gitignore`: `*.md` and `target` match at any depth, `src/**` and `/docs`
//! from the top, and a pattern that matches a folder matches everything in it.
//!
//! Patterns match bytes, because a path need not be UTF-8. There is no `!`: a denied path stays
//! denied even if another pattern allows it.

#[derive(Debug)]
pub struct Globs(Vec<Glob>);

#[derive(Debug)]
struct Glob {
    parts: Vec<Vec<u8>>,
    /// The pattern ends in a slash and matches folders only, so a path must lie below one.
    is_folder: bool,
}

const ANY_DEPTH: &[u8] = b"**";

impl Globs {
    pub fn new(patterns: &[String]) -> Self {
        Self(patterns.iter().map(|pattern| Glob::new(pattern.trim())).collect())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn any_matches(&self, path: &[u8]) -> bool {
        let parts: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
        self.0.iter().any(|glob| glob.matches(&parts))
    }

    /// The same for a path that may not be changed: what takes the place of a folder, such as a
    /// link, changes everything in it.
    pub fn any_guards(&self, path: &[u8]) -> bool {
        let parts: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
        self.0.iter().any(|glob| glob.matches(&parts) || parts_match(&glob.parts, &parts))
    }
}

/// A pattern from the top of a tree that must match the whole path of a file, not only a folder
/// above it.
#[derive(Debug)]
pub struct PathGlob(Vec<Vec<u8>>);

impl PathGlob {
    pub fn new(pattern: &str) -> Self {
        Self(pattern.split('/').map(|part| part.as_bytes().to_vec()).collect())
    }

    pub fn matches(&self, path: &[u8]) -> bool {
        let parts: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
        parts_match(&self.0, &parts)
    }
}

impl Glob {
    fn new(pattern: &str) -> Self {
        let folder = pattern.strip_suffix('/');
        let (body, is_folder) = (folder.unwrap_or(pattern), folder.is_some());
        let is_anchored = body.contains('/');
        let body = body.strip_prefix("./").or(body.strip_prefix('/')).unwrap_or(body);
        let any_depth = (!is_anchored).then(|| ANY_DEPTH.to_vec());
        let own = body.split('/').map(|part| part.as_bytes().to_vec());
        Self { parts: any_depth.into_iter().chain(own).collect(), is_folder }
    }

    /// Whether the pattern matches the path or a folder above it.
    fn matches(&self, path: &[&[u8]]) -> bool {
        let deepest = if self.is_folder { path.len().saturating_sub(1) } else { path.len() };
        (1..=deepest).any(|depth| parts_match(&self.parts, &path[..depth]))
    }
}

/// `**` matches any number of path components, at the end at least one. Only the last `**` is
/// backtracked to. That is enough because all other components have a fixed length, and it bounds
/// the work by the product of both lengths.
fn parts_match(pattern: &[Vec<u8>], path: &[&[u8]]) -> bool {
    let (mut at, mut of) = (0, 0);
    let mut backtrack: Option<(usize, usize)> = None;
    while of < path.len() {
        let part = pattern.get(at).map(Vec::as_slice);
        if part == Some(ANY_DEPTH) {
            backtrack = Some((at, of));
            at += 1;
        } else if part.is_some_and(|part| part_matches(part, path[of])) {
            (at, of) = (at + 1, of + 1);
        } else if let Some((star, from)) = backtrack {
            backtrack = Some((star, from + 1));
            (at, of) = (star + 1, from + 1);
        } else {
            return false;
        }
    }
    at == pattern.len()
}

/// Matches one path component: `*` is any number of characters, `?` is one, `[…]` is one of a set.
pub(crate) fn part_matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut of) = (0, 0);
    let mut backtrack: Option<(usize, usize)> = None;
    while of < text.len() {
        let step = match pattern.get(at) {
            Some(b'*') => {
                backtrack = Some((at, of));
                at += 1;
                continue;
            }
            Some(b'?') => Some((1, char_len(&text[of..]))),
            Some(b'[') => match class(&pattern[at..], text[of]) {
                Some((length, true)) => Some((length, 1)),
                Some((_, false)) => None,
                None => (text[of] == b'[').then_some((1, 1)),
            },
            Some(b'\\') if at + 1 < pattern.len() => {
                (pattern[at + 1] == text[of]).then_some((2, 1))
            }
            Some(plain) => (*plain == text[of]).then_some((1, 1)),
            None => None,
        };
        match (step, backtrack) {
            (Some((pattern_step, text_step)), _) => {
                (at, of) = (at + pattern_step, of + text_step);
            }
            (None, Some((star, from))) => {
                backtrack = Some((star, from + 1));
                (at, of) = (star + 1, from + 1);
            }
            (None, None) => return false,
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

/// The length of the first character of a text; 1 if it is not UTF-8.
fn char_len(text: &[u8]) -> usize {
    1 + text[1..].iter().take(3).take_while(|byte| **byte & 0b1100_0000 == 0b1000_0000).count()
}

/// The length of a character class such as `[a-z]` or `[!0-9]`, and whether it contains the byte;
/// none if the class is not closed.
fn class(pattern: &[u8], byte: u8) -> Option<(usize, bool)> {
    let is_not = matches!(pattern.get(1), Some(b'!' | b'^'));
    let first = if is_not { 2 } else { 1 };
    // A closing bracket right after the opening one is a member of the class.
    let end = pattern.iter().skip(first + 1).position(|byte| *byte == b']')? + first + 1;
    let members = &pattern[first..end];
    let mut is_in = false;
    let mut at = 0;
    while at < members.len() {
        let range = members[at..].get(..3).filter(|three| three[1] == b'-');
        match range {
            Some(three) => {
                is_in |= (three[0]..=three[2]).contains(&byte);
                at += 3;
            }
            None => {
                is_in |= members[at] == byte;
                at += 1;
            }
        }
    }
    Some((end + 1, is_in != is_not))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, yes: &[&str], no: &[&str]) {
        let globs = Globs::new(&[pattern.to_owned()]);
        for path in yes {
            assert!(globs.any_matches(path.as_bytes()), "{pattern} should match {path}");
        }
        for path in no {
            assert!(!globs.any_matches(path.as_bytes()), "{pattern} should not match {path}");
        }
    }

    #[test]
    fn what_replaces_a_guarded_folder_is_guarded() {
        let globs = Globs::new(&[".banksman/".to_owned(), "/keys/*".to_owned()]);
        for (path, is_guarded) in [
            (".banksman", true),
            ("a/.banksman/b", true),
            ("keys/a", true),
            ("keys", false),
            (".banksmans", false),
        ] {
            assert_eq!(globs.any_guards(path.as_bytes()), is_guarded, "{path}");
        }
        assert!(!globs.any_matches(b".banksman"));
    }

    #[test]
    fn patterns_mean_what_they_mean_in_a_gitignore() {
        check("src/**", &["src/a", "src/a/b.rs"], &["src", "lib/src/a", "srcs/a"]);
        check("*.md", &["a.md", "docs/b.md"], &["a.mdx", "md"]);
        check("docs/", &["docs/a", "x/docs/a"], &["docs", "docsx/a"]);
        check("/docs", &["docs", "docs/a"], &["x/docs", "docs2"]);
        check(".env", &[".env", "app/.env"], &["x.env"]);
        check("a/**/z", &["a/z", "a/b/z", "a/b/c/z/y"], &["b/a/z", "a/zz"]);
        check("**/test/*.rs", &["test/a.rs", "x/y/test/a.rs"], &["test/x/a.rs"]);
        check("./src/*", &["src/a", "src/a/b"], &["a/src/b"]);
        check("a?c", &["abc", "aäc", "x/abc"], &["ac", "abbc"]);
        check("[a-c]x[!0-9]", &["axy", "cx-"], &["dxy", "ax1"]);
        check("[x", &["[x"], &["x"]);
        check("a\\*b", &["a*b"], &["axb"]);
        check("**", &["a", "a/b"], &[]);
        check("*", &["a", "a/b"], &[]);
    }

    #[test]
    fn what_is_not_utf8_is_matched_byte_by_byte() {
        assert!(Globs::new(&["x/*".to_owned()]).any_matches(b"x/\xff\xfe"));
        assert!(!Globs::new(&["y/*".to_owned()]).any_matches(b"x/\xff"));
    }

    #[test]
    fn a_pattern_made_to_take_long_does_not() {
        let pattern = "*a".repeat(200);
        let path = "a".repeat(5_000) + "b";
        assert!(!Globs::new(&[pattern]).any_matches(path.as_bytes()));
        let deep = "**/a/".repeat(200) + "b";
        assert!(!Globs::new(&[deep]).any_matches("a/".repeat(2_000).as_bytes()));
    }
}
