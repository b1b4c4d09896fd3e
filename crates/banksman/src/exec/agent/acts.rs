//! Finds the actions of a tool call, the commands it runs and the paths it reads or writes, from
//! its name and arguments. Every agent names tools and arguments differently; an unknown call still
//! counts as the use of a tool.

use banksman_core::policy::Action;
use serde_json::Value;

use super::text::text_of;

/// Arguments that hold a command line or its words.
const COMMANDS: [&str; 4] = ["command", "cmd", "script", "commands"];
/// Arguments that hold a path.
const PATHS: [&str; 9] = [
    "filepath",
    "file_path",
    "filePath",
    "path",
    "absolute_path",
    "notebook_path",
    "target_file",
    "destination",
    "dir_path",
];
/// Parts of the names of tools that change files.
const WRITES: [&str; 10] = [
    "write", "edit", "create", "patch", "replace", "delete", "remove", "move", "insert", "notebook",
];
/// Names of tools that run their argument as a command, where nothing else says so.
const RUNS: [&str; 6] = ["bash", "shell", "run", "exec", "terminal", "run_shell_command"];
/// The most paths, words or changes taken from one call.
const MOST: usize = 100;

/// The actions of a call. Calls of Banksman's own tools have none: they only report.
pub(super) fn of_tool(name: &str, input: &Value) -> Vec<Action> {
    if is_own(name) {
        return Vec::new();
    }
    let mut acts = vec![Action::Use(name.to_owned())];
    let paths: Vec<&str> = PATHS.iter().filter_map(|key| input[*key].as_str()).collect();
    let command = COMMANDS.iter().find_map(|key| command_in(&input[*key]));
    // A file tool may call its operation a command.
    let sub_command = command.as_deref().filter(|_| !paths.is_empty());
    let is_view = |word: &str| matches!(word, "view" | "read" | "open");
    let writes = match sub_command {
        Some(word) => !is_view(word),
        None => is_one_of(name, &WRITES),
    };
    acts.extend(paths.iter().map(|path| file(path, writes)));
    if paths.is_empty() {
        acts.extend(command.map(Action::Run));
    }
    acts.extend(patched(input));
    acts.truncate(MOST);
    acts
}

/// The actions of a call that is reported as a name and one text.
pub(super) fn of_words(name: &str, detail: &str) -> Vec<Action> {
    if is_own(name) {
        return Vec::new();
    }
    let lower = name.to_lowercase();
    let act = if RUNS.contains(&lower.as_str()) {
        Some(Action::Run(detail.to_owned()))
    } else if is_one_of(name, &WRITES) {
        Some(file(detail, true))
    } else if lower.contains("read") {
        Some(file(detail, false))
    } else {
        None
    };
    [Action::Use(name.to_owned())].into_iter().chain(act).collect()
}

/// The actions of a call as the Agent Client Protocol reports them. The title is prose; the kind is
/// reliable.
pub(super) fn of_acp(call: &Value) -> Vec<Action> {
    let kind = text_of(call, "kind");
    let title = text_of(call, "title");
    if is_own(title) {
        return Vec::new();
    }
    let mut acts = of_tool(if kind.is_empty() { "other" } else { kind }, &call["rawInput"]);
    let writes = matches!(kind, "edit" | "delete" | "move");
    let places = call["locations"].as_array().into_iter().flatten().take(MOST);
    acts.extend(places.map(|place| file(text_of(place, "path"), writes)));
    let diffs = call["content"].as_array().into_iter().flatten().take(MOST);
    let diffs = diffs.filter(|part| text_of(part, "type") == "diff");
    acts.extend(diffs.map(|part| file(text_of(part, "path"), true)));
    let runs = acts.iter().any(|act| matches!(act, Action::Run(_)));
    if kind == "execute" && !runs {
        acts.push(Action::Run(title.trim_matches('`').to_owned()));
    }
    acts.retain(|act| !act.parts().1.is_empty());
    acts.dedup();
    acts
}

pub(super) fn file(path: &str, writes: bool) -> Action {
    let path = path.strip_prefix("file://").unwrap_or(path).to_owned();
    if writes { Action::Write(path) } else { Action::Read(path) }
}

/// Whether a call can change something, so that its success is progress.
pub fn changes(acts: &[Action]) -> bool {
    acts.iter().any(|act| match act {
        Action::Run(_) | Action::Write(_) => true,
        Action::Read(_) | Action::Use(_) => false,
    })
}

fn is_own(name: &str) -> bool {
    let name = name.strip_prefix("mcp__").unwrap_or(name);
    ["banksman__", "banksman.", "banksman_"].iter().any(|own| name.starts_with(own))
}

fn is_one_of(name: &str, parts: &[&str]) -> bool {
    let name = name.to_lowercase();
    parts.iter().any(|part| name.contains(part))
}

/// A command line; words are quoted so that a shell reads the same words.
fn command_in(value: &Value) -> Option<String> {
    if let Some(line) = value.as_str() {
        return Some(line.to_owned());
    }
    let words = value.as_array()?.iter().take(MOST).map(|word| word.as_str());
    let words = words.collect::<Option<Vec<&str>>>()?;
    let quoted = words.iter().map(|word| format!("'{}'", word.replace('\'', "'\\''")));
    Some(quoted.collect::<Vec<_>>().join(" "))
}

/// The files that a patch in the arguments changes.
fn patched(input: &Value) -> Vec<Action> {
    const MARKS: [&str; 4] =
        ["*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: "];
    let patch = ["patchText", "patch", "input"].iter().map(|key| text_of(input, key));
    let lines = patch.flat_map(str::lines);
    let path =
        |line: &str| MARKS.iter().find_map(|mark| line.strip_prefix(mark)).map(str::to_owned);
    lines.filter_map(path).take(MOST).map(Action::Write).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn acts(name: &str, input: &Value) -> String {
        let shown = |act: &Action| {
            let (word, what) = act.parts();
            format!("{word} {what}")
        };
        of_tool(name, input).iter().map(shown).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn the_arguments_of_known_tools_are_understood() {
        assert_eq!(
            acts("Bash", &json!({ "command": "ls", "description": "x" })),
            "use Bash, run ls"
        );
        assert_eq!(acts("Edit", &json!({ "file_path": "/a/b" })), "use Edit, write /a/b");
        assert_eq!(acts("Read", &json!({ "file_path": "/a/b" })), "use Read, read /a/b");
        assert_eq!(acts("write", &json!({ "filePath": "b" })), "use write, write b");
        assert_eq!(
            acts("shell", &json!({ "command": ["sh", "-c", "it's"] })),
            "use shell, run 'sh' '-c' 'it'\\''s'"
        );
        let editor = "str_replace_based_edit_tool";
        assert_eq!(
            acts(editor, &json!({ "command": "view", "path": "x" })),
            format!("use {editor}, read x")
        );
        assert_eq!(
            acts(editor, &json!({ "command": "create", "path": "x" })),
            format!("use {editor}, write x")
        );
        let patch = json!({ "patchText": "*** Begin Patch\n*** Add File: a/b\n+x\n" });
        assert_eq!(acts("apply_patch", &patch), "use apply_patch, write a/b");
        assert_eq!(acts("mcp__banksman__ask_person", &json!({})), "");
        assert_eq!(acts("WebFetch", &json!({ "url": "https://example.org" })), "use WebFetch");
        assert_eq!(acts("odd", &json!("text")), "use odd");
    }

    #[test]
    fn words_alone_tell_as_much_as_they_can() {
        assert_eq!(of_words("Bash", "ls").last(), Some(&Action::Run("ls".to_owned())));
        assert_eq!(of_words("edit", "a").last(), Some(&Action::Write("a".to_owned())));
        assert_eq!(of_words("search", "a").len(), 1);
    }
}
