//! Classifies paths: inside the worktree, outside of it, or in a scratch folder. It reads no files,
//! so it does not follow links.

use super::shell::{Script, SimpleCommand, Word};

/// Folders that anybody may write to and that nobody backs up.
const SCRATCH: [&str; 3] = ["/tmp", "/var/tmp", "/dev"];
/// Folders that one command line may change to.
const FOLDERS: usize = 8;
/// Spellings of the home folder.
const HOMES: [&str; 2] = ["$HOME", "${HOME}"];

/// Programs that change every path in their arguments.
const CHANGE_ALL: [&str; 13] = [
    "rm", "rmdir", "unlink", "shred", "mv", "touch", "truncate", "chmod", "chown", "chgrp", "tee",
    "ln", "mkdir",
];
/// Programs that write to the last path in their arguments.
const CHANGE_LAST: [&str; 4] = ["cp", "install", "rsync", "scp"];
/// Programs that change files in place with `-i`.
const IN_PLACE: [&str; 3] = ["sed", "perl", "ruby"];

/// Programs that only print their arguments.
const PRINTS: [&str; 2] = ["echo", "printf"];
/// Programs whose first argument is a search pattern.
const SEARCHES: [&str; 8] = ["grep", "egrep", "fgrep", "rg", "ag", "sed", "awk", "jq"];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PathLocation {
    /// Relative to the top of the worktree.
    Inside(String),
    Outside(String),
    Scratch(String),
    /// Known only when the command runs.
    Unknown,
}

impl PathLocation {
    pub(super) fn path(&self) -> Option<&str> {
        match self {
            Self::Inside(path) | Self::Outside(path) | Self::Scratch(path) => Some(path),
            Self::Unknown => None,
        }
    }
}

/// The folders in which a command line may resolve its paths: the worktree and, after a `cd`, every
/// folder that it may have changed to. Subshells and failing commands decide which one it is, so
/// all of them count.
#[derive(Debug)]
pub(super) struct PathContext<'a> {
    pub(super) root: &'a str,
    folders: Vec<String>,
    /// The commands that change to an unknown folder.
    pub(super) unknown_folders: Vec<String>,
}

impl<'a> PathContext<'a> {
    pub(super) fn of(script: &Script, root: &'a str) -> Self {
        let mut context = Self { root, folders: vec![String::new()], unknown_folders: Vec::new() };
        for simple in script.pipelines.iter().flatten() {
            let Some(word) = simple.words.get(1) else { continue };
            if !matches!(simple.program(), "cd" | "pushd") {
                continue;
            }
            match locate(word, "", root).path() {
                Some(path) if context.folders.len() < FOLDERS => {
                    context.folders.push(path.to_owned());
                }
                Some(_) | None => context.unknown_folders.push(simple.text()),
            }
        }
        context
    }

    /// Every location that a word may name.
    pub(super) fn locations<'s>(
        &'s self,
        word: &'s Word,
    ) -> impl Iterator<Item = PathLocation> + 's {
        self.folders.iter().map(|base| locate(word, base, self.root))
    }
}

/// The location of a word that is used as a path in the folder `base` of the worktree `root`.
fn locate(word: &Word, base: &str, root: &str) -> PathLocation {
    let text = word.text.as_str();
    let home = HOMES.iter().find_map(|home| text.strip_prefix(home));
    if let Some(rest) = home.filter(|rest| rest.is_empty() || rest.starts_with('/')) {
        return PathLocation::Outside(format!("~{rest}"));
    }
    if !word.is_known {
        return PathLocation::Unknown;
    }
    locate_path(text, base, root)
}

/// Same as [`locate`], for a path that is known.
pub(super) fn locate_path(text: &str, base: &str, root: &str) -> PathLocation {
    if text.starts_with('~') {
        return PathLocation::Outside(text.to_owned());
    }
    let stands_alone = text.starts_with('/') || base.is_empty();
    let joined = if stands_alone { text.to_owned() } else { format!("{base}/{text}") };
    if joined.starts_with('~') {
        return PathLocation::Outside(joined);
    }
    let path = normalised(&joined);
    if !path.starts_with('/') {
        return if path == ".." || path.starts_with("../") {
            PathLocation::Outside(path)
        } else {
            PathLocation::Inside(path)
        };
    }
    let below = |folder: &str| {
        let rest = path.strip_prefix(folder)?;
        (rest.is_empty() || rest.starts_with('/')).then(|| rest.trim_start_matches('/').to_owned())
    };
    if let Some(rest) = Some(root).filter(|root| !root.is_empty()).and_then(below) {
        return PathLocation::Inside(rest);
    }
    let is_scratch =
        SCRATCH.into_iter().any(|folder| below(folder).is_some_and(|it| !it.is_empty()));
    if is_scratch { PathLocation::Scratch(path) } else { PathLocation::Outside(path) }
}

/// Removes `.`, `a/..` and redundant slashes.
fn normalised(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    let is_absolute = path.starts_with('/');
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => match parts.last() {
                Some(&"..") | None if !is_absolute => parts.push(".."),
                Some(_) | None => drop(parts.pop()),
            },
            name => parts.push(name),
        }
    }
    let joined = parts.join("/");
    if is_absolute { format!("/{joined}") } else { joined }
}

/// The words of a command that name files which it writes or removes.
pub(super) fn written_paths(simple: &SimpleCommand) -> Vec<Word> {
    let program = simple.program();
    let given = simple.words.get(1..).unwrap_or_default();
    let plain = || given.iter().filter(|word| !word.text.starts_with('-'));
    let has_in_place = || given.iter().any(|word| word.text.starts_with("-i"));
    let mut paths: Vec<Word> = simple.into.clone();
    if CHANGE_ALL.contains(&program) {
        paths.extend(plain().cloned());
    } else if CHANGE_LAST.contains(&program) {
        paths.extend(plain().next_back().cloned());
    } else if IN_PLACE.contains(&program) && has_in_place() {
        paths.extend(plain().cloned());
    } else if program == "dd" {
        let target = |word: &Word| Some(word.with(word.text.strip_prefix("of=")?));
        paths.extend(given.iter().filter_map(target));
    }
    paths
}

/// The words of a command that may name files, whatever it does with them. Text that is only
/// printed or searched for names none.
pub(super) fn named_paths(simple: &SimpleCommand) -> Vec<Word> {
    let program = simple.program();
    if PRINTS.contains(&program) {
        return Vec::new();
    }
    let mut words: Vec<&Word> = simple.words.iter().skip(1).collect();
    if SEARCHES.contains(&program)
        && let Some(pattern) = words.iter().position(|word| !word.text.starts_with('-'))
    {
        words.remove(pattern);
    }
    let named = |word: &Word| {
        let text = word.text.as_str();
        let text =
            if text.starts_with('-') { text.split_once('=').map_or("", |it| it.1) } else { text };
        let text = text.strip_prefix('@').unwrap_or(text);
        (!text.is_empty()).then(|| word.with(text))
    };
    words.into_iter().filter_map(named).collect()
}
