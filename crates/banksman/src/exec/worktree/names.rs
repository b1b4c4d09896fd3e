//! Names of branches and worktrees, filled in from templates and valid for git and the file system.
//! It touches no file.

use std::path::{Component, Path, PathBuf};

use sha2::{Digest, Sha256};

/// A slug is for people; the task's id makes a name unique.
const SLUG_CHARS: usize = 40;
/// Below the limit of 255 bytes that file systems have, with room for `.lock`.
const BRANCH_BYTES: usize = 200;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathTemplateError {
    #[error("the worktree template `{0}` needs `{{task}}`: tasks would share a folder")]
    NoTask(String),
    #[error(
        "the worktree template `{0}` gives no absolute path: begin it with `{{home}}`, `{{repo_parent}}` or `/`"
    )]
    NotAbsolute(String),
    #[error("the worktree template `{0}` leads out of its folder: `..` is not allowed")]
    Upwards(String),
    #[error("the worktree template `{0}` leads into the repository itself")]
    Inside(String),
    #[error("`{value}` cannot be used as `{{{name}}}` in a path")]
    BadPart { name: &'static str, value: String },
}

/// The folder in a home that holds only worktrees.
pub fn own_folder(home: &Path) -> PathBuf {
    home.join("worktrees")
}

/// The folder in which a home keeps spare worktrees and what belongs to them.
pub fn spare_folder(home: &Path) -> PathBuf {
    own_folder(home).join(".spare")
}

/// A valid branch name, whatever the template and the title contain. Fills in `{task}` and
/// `{slug}`.
pub fn branch_name(template: &str, task: &str, title: &str) -> String {
    let filled = template.replace("{task}", task).replace("{slug}", &slug(title));
    let parts: Vec<String> =
        filled.split('/').map(ref_part).filter(|part| !part.is_empty()).collect();
    let mut name = parts.join("/");
    name.truncate(BRANCH_BYTES);
    let name = name.trim_end_matches(['/', '.', '-']);
    if is_branch_name(name) { name.to_owned() } else { format!("banksman/{}", ref_part(task)) }
}

/// A component of a ref name: plain characters, no dot or dash at either end.
fn ref_part(text: &str) -> String {
    let plain = |char: char| {
        if char.is_ascii_alphanumeric() || matches!(char, '-' | '_' | '.') { char } else { '-' }
    };
    let mut part: String = text.chars().map(plain).collect();
    while part.contains("..") {
        part = part.replace("..", ".");
    }
    let part = part.trim_matches(['.', '-']);
    part.strip_suffix(".lock").unwrap_or(part).to_owned()
}

/// The title's words in lower case, joined by dashes; empty for a title without a Latin letter or
/// digit.
fn slug(title: &str) -> String {
    let mut slug = String::new();
    for char in title.chars() {
        if char.is_ascii_alphanumeric() {
            slug.push(char.to_ascii_lowercase());
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
        if slug.len() >= SLUG_CHARS {
            break;
        }
    }
    slug.trim_end_matches('-').to_owned()
}

/// The rules of `git check-ref-format --branch`.
pub fn is_branch_name(name: &str) -> bool {
    let is_bad = |char: char| {
        char.is_ascii_control() || matches!(char, ' ' | '~' | '^' | ':' | '?' | '*' | '[' | '\\')
    };
    let is_part =
        |part: &str| !part.is_empty() && !part.starts_with('.') && !part.ends_with(".lock");
    !name.is_empty()
        && name != "@"
        && name != "HEAD"
        && !name.starts_with('-')
        && !name.ends_with('.')
        && !name.contains("..")
        && !name.contains("@{")
        && !name.contains(is_bad)
        && name.split('/').all(is_part)
}

/// The path of a task's worktree. Fills in `{home}`, `{repo}` (the folder's name), `{repo_parent}`,
/// `{hash}` (of the repository's whole path, since two repositories may have the same name) and
/// `{task}`.
pub fn worktree_path(
    template: &str,
    repo: &Path,
    home: &Path,
    task: &str,
) -> Result<PathBuf, PathTemplateError> {
    if !template.contains("{task}") {
        return Err(PathTemplateError::NoTask(template.to_owned()));
    }
    let name = repo.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let name = name.strip_suffix(".git").filter(|rest| !rest.is_empty()).unwrap_or(&name);
    let filled = template
        .replace("{task}", one_part("task", task)?)
        .replace("{repo}", one_part("repo", name)?)
        .replace("{hash}", &hash_of(repo))
        .replace("{repo_parent}", &repo.parent().unwrap_or(repo).to_string_lossy())
        .replace("{home}", &home.to_string_lossy());
    let path = PathBuf::from(filled);
    if !path.is_absolute() {
        return Err(PathTemplateError::NotAbsolute(template.to_owned()));
    }
    if path.components().any(|part| part == Component::ParentDir) {
        return Err(PathTemplateError::Upwards(template.to_owned()));
    }
    if path.starts_with(repo) {
        return Err(PathTemplateError::Inside(template.to_owned()));
    }
    Ok(path)
}

fn one_part<'a>(name: &'static str, value: &'a str) -> Result<&'a str, PathTemplateError> {
    let is_part =
        !value.is_empty() && !value.starts_with('.') && !value.contains(['/', '\0', '{', '}']);
    let bad = || PathTemplateError::BadPart { name, value: value.to_owned() };
    is_part.then_some(value).ok_or_else(bad)
}

/// Eight hex digits that distinguish paths.
pub fn hash_of(path: &Path) -> String {
    let digest = Sha256::digest(path.as_os_str().as_encoded_bytes());
    digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect()
}

/// The name under which a worktree's work is rescued: its folder's name as a ref component.
pub fn rescue_name(worktree: &Path) -> String {
    let name = worktree.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    let part = ref_part(&name);
    if part.is_empty() { hash_of(worktree) } else { part }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The default templates.
    const BRANCH: &str = "banksman/{task}-{slug}";
    const WORKTREE: &str = "{home}/worktrees/{repo}-{hash}/{task}";

    #[test]
    fn branches_are_named_by_task_and_title() {
        let check = |template: &str, title: &str, expected: &str| {
            assert_eq!(branch_name(template, "t12", title), expected, "{template} {title}");
        };
        check(BRANCH, "Fix the   parser, please!", "banksman/t12-fix-the-parser-please");
        check(BRANCH, "構文解析器を直す", "banksman/t12");
        check(BRANCH, "", "banksman/t12");
        check("feature/{task}", "anything", "feature/t12");
        check("{slug}", "..", "banksman/t12");
        check("-x/../{task}.lock", "", "x/t12");
        check("a b~c/{task}", "", "a-b-c/t12");
        check("HEAD", "", "banksman/t12");
        let long = branch_name(BRANCH, "t12", &"word ".repeat(100));
        assert_eq!(long, "banksman/t12-word-word-word-word-word-word-word-word");
    }

    #[test]
    fn worktrees_have_a_folder_of_their_own() {
        let (repo, home) = (Path::new("/src/app"), Path::new("/var/banksman"));
        let path = |template: &str| worktree_path(template, repo, home, "t12");
        let hash = hash_of(repo);
        assert_eq!(
            path(WORKTREE),
            Ok(PathBuf::from(format!("/var/banksman/worktrees/app-{hash}/t12")))
        );
        assert_eq!(
            path("{repo_parent}/{repo}-feature-{task}"),
            Ok(PathBuf::from("/src/app-feature-t12"))
        );
        assert_eq!(path("{home}/x"), Err(PathTemplateError::NoTask("{home}/x".to_owned())));
        assert_eq!(path("x/{task}"), Err(PathTemplateError::NotAbsolute("x/{task}".to_owned())));
        let up = "{home}/../{task}";
        assert_eq!(path(up), Err(PathTemplateError::Upwards(up.to_owned())));
        let inside = "{repo_parent}/{repo}/{task}";
        assert_eq!(path(inside), Err(PathTemplateError::Inside(inside.to_owned())));
        for task in ["..", "a/b", "", "{home}"] {
            let refused = worktree_path(WORKTREE, repo, home, task);
            assert_eq!(
                refused,
                Err(PathTemplateError::BadPart { name: "task", value: task.to_owned() })
            );
        }
    }

    #[test]
    fn repositories_of_the_same_name_have_different_paths() {
        let home = Path::new("/var/banksman");
        let of = |repo: &str| worktree_path(WORKTREE, Path::new(repo), home, "t1").unwrap();
        assert_ne!(of("/a/app"), of("/b/app"));
        assert!(of("/a/app.git").starts_with(format!(
            "/var/banksman/worktrees/app-{}",
            hash_of(Path::new("/a/app.git"))
        )));
    }
}
