//! What the documents promise: links that lead somewhere, and no trace of the machine that a file
//! was written on.

use std::path::Path;

use super::source::{SourceFile, Violation, found, root};

/// Top folders under which people and build machines keep their work.
const PRIVATE_FOLDERS: &[&str] = &["home", "root", "work", "Users"];
/// Files that quote somebody else's paths on purpose, each with its reason in the file itself.
const MAY_QUOTE_PATHS: &[&str] = &[];

pub(super) fn private_paths(file: &SourceFile) -> Vec<Violation> {
    if MAY_QUOTE_PATHS.contains(&file.path.as_str()) {
        return Vec::new();
    }
    let of_folder = |folder: &&str| -> Vec<Violation> {
        let start = format!("/{folder}/");
        let found = file
            .text
            .match_indices(&start)
            .filter(|(offset, _)| begins_a_path(&file.text[..*offset]));
        found
            .map(|(offset, start)| {
                file.violation(
                    offset,
                    "private path",
                    format!("`{start}…` exists on one machine only"),
                )
            })
            .collect()
    };
    PRIVATE_FOLDERS.iter().flat_map(of_folder).collect()
}

/// A folder of that name further down, or in an address, is not an absolute path.
fn begins_a_path(before: &str) -> bool {
    !before.ends_with(|last: char| last.is_alphanumeric() || "._-~/}$>*".contains(last))
}

pub(super) fn dead_links(file: &SourceFile) -> Vec<Violation> {
    if !file.path.ends_with(".md") {
        return Vec::new();
    }
    let folder = Path::new(&file.path).parent().unwrap_or(Path::new(""));
    links(&file.text)
        .into_iter()
        .filter(|(_, target)| !root().join(folder).join(target).exists())
        .map(|(offset, target)| {
            file.violation(offset, "dead link", format!("`{target}` does not exist"))
        })
        .collect()
}

/// The relative targets of `[text](target)`, without code blocks, code spans and anchors.
fn links(text: &str) -> Vec<(usize, String)> {
    let prose = without_code(text);
    let targets = prose.match_indices("](").filter_map(|(offset, opening)| {
        let rest = &prose[offset + opening.len()..];
        let target = &rest[..rest.find([')', ' ', '\n'])?];
        let file = target.split('#').next().unwrap_or_default();
        let is_elsewhere = target.contains("://") || target.starts_with("mailto:");
        (!is_elsewhere && !file.is_empty()).then(|| (offset, file.to_owned()))
    });
    targets.collect()
}

/// The text, equally long, with code blocks and code spans blanked.
fn without_code(text: &str) -> String {
    let mut in_block = false;
    let mut prose = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let is_fence = line.trim_start().starts_with("```");
        in_block ^= is_fence;
        let mut in_span = in_block || is_fence;
        let toggles = !in_span;
        for character in line.chars() {
            in_span ^= toggles && character == '`';
            if in_span && character != '\n' {
                prose.extend(std::iter::repeat_n(' ', character.len_utf8()));
            } else {
                prose.push(character);
            }
        }
    }
    prose
}

#[test]
fn private_paths_are_found_in_any_file() {
    let folder = PRIVATE_FOLDERS[0];
    let text = format!("docs/{folder}/a\nhttps://host/{folder}/b\nopen `/{folder}/me/c`\n");
    assert_eq!(found(private_paths, "docs/a.md", &text), ["docs/a.md:3: private path"]);
}

#[test]
fn links_that_lead_nowhere_are_found() {
    let text = "[here](README.md#top) [there](nowhere.md)\n`[a](b.md)` [web](https://example.org/x) [below](#below)\n\
                ```\n[c](d.md)\n```\n[e](missing/f.md)\n";
    assert_eq!(found(dead_links, "a.md", text), ["a.md:1: dead link", "a.md:6: dead link"]);
    assert_eq!(
        found(dead_links, "docs/a.md", "[up](../README.md) [beside](README.md)"),
        ["docs/a.md:1: dead link"]
    );
}
