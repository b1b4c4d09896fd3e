//! Finds the actions of a tool call, the commands it runs and the paths it reads or writes, from
//! its name and arguments. Every agent names tools and arguments differently; an unknown call still
//! counts as the use of a tool.

use banksman_core::policy::Action;
use banksman_core::receipt::AgentTool;
use serde_json::Value;

use super::text::{contains_any, text_of};

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
const MAX_ITEMS: usize = 100;

/// The actions of a call. Calls of Banksman's own tools have none: they only report.
pub(super) fn of_tool(name: &str, input: &Value) -> Vec<Action> {
    if is_own_tool(name) {
        return Vec::new();
    }
    actions(name, input)
}

fn actions(name: &str, input: &Value) -> Vec<Action> {
    let mut actions = vec![Action::Use(name.to_owned())];
    let paths: Vec<&str> = PATHS.iter().filter_map(|key| input[*key].as_str()).collect();
    let command = COMMANDS.iter().find_map(|key| command_in(&input[*key]));
    // A file tool may call its operation a command.
    let sub_command = command.as_deref().filter(|_| !paths.is_empty());
    let is_view = |word: &str| matches!(word, "view" | "read" | "open");
    let writes = match sub_command {
        Some(word) => !is_view(word),
        None => contains_any(name, &WRITES),
    };
    actions.extend(paths.iter().map(|path| file(path, writes)));
    if paths.is_empty() {
        actions.extend(command.map(Action::Run));
    }
    actions.extend(patched_files(input));
    actions.truncate(MAX_ITEMS);
    actions
}

/// The actions of a call that is reported as a name and one text.
pub(super) fn of_text(name: &str, detail: &str) -> Vec<Action> {
    if is_own_tool(name) {
        return Vec::new();
    }
    let lower = name.to_lowercase();
    let action = if RUNS.contains(&lower.as_str()) {
        Some(Action::Run(detail.to_owned()))
    } else if contains_any(name, &WRITES) {
        Some(file(detail, true))
    } else if lower.contains("read") {
        Some(file(detail, false))
    } else {
        None
    };
    [Action::Use(name.to_owned())].into_iter().chain(action).collect()
}

/// The actions of a call as the Agent Client Protocol reports them. The title is prose, and may be
/// a path or a command line; the kind is reliable.
pub(super) fn of_acp(call: &Value) -> Vec<Action> {
    let kind = text_of(call, "kind");
    let title = text_of(call, "title");
    if matches!(kind, "" | "other") && is_own_tool(title) {
        return Vec::new();
    }
    let mut actions = actions(if kind.is_empty() { "other" } else { kind }, &call["rawInput"]);
    let writes = matches!(kind, "edit" | "delete" | "move");
    let places = call["locations"].as_array().into_iter().flatten().take(MAX_ITEMS);
    actions.extend(places.map(|place| file(text_of(place, "path"), writes)));
    let diffs = call["content"].as_array().into_iter().flatten().take(MAX_ITEMS);
    let diffs = diffs.filter(|part| text_of(part, "type") == "diff");
    actions.extend(diffs.map(|part| file(text_of(part, "path"), true)));
    let runs = actions.iter().any(|action| matches!(action, Action::Run(_)));
    if kind == "execute" && !runs {
        actions.push(Action::Run(title.trim_matches('`').to_owned()));
    }
    actions.retain(|action| !action.parts().1.is_empty());
    actions.dedup();
    actions
}

pub(super) fn file(path: &str, writes: bool) -> Action {
    let path = path.strip_prefix("file://").unwrap_or(path).to_owned();
    if writes { Action::Write(path) } else { Action::Read(path) }
}

/// Whether a call can change something, so that its success is progress.
pub fn can_change(actions: &[Action]) -> bool {
    actions.iter().any(|action| match action {
        Action::Run(_) | Action::Write(_) => true,
        Action::Read(_) | Action::Use(_) => false,
    })
}

fn is_own_tool(name: &str) -> bool {
    let name = name.strip_prefix("mcp__").unwrap_or(name);
    let tool = ["banksman__", "banksman.", "banksman_"].iter().find_map(|it| name.strip_prefix(it));
    tool.is_some_and(|tool| AgentTool::NAMES.contains(&tool))
}

/// A command line; words are quoted so that a shell reads the same words.
fn command_in(value: &Value) -> Option<String> {
    if let Some(line) = value.as_str() {
        return Some(line.to_owned());
    }
    let words = value.as_array()?.iter().take(MAX_ITEMS).map(|word| word.as_str());
    let words = words.collect::<Option<Vec<&str>>>()?;
    let quoted = words.iter().map(|word| format!("'{}'", word.replace('\'', "'\\''")));
    Some(quoted.collect::<Vec<_>>().join(" "))
}

/// The files that a patch in the arguments changes.
fn patched_files(input: &Value) -> Vec<Action> {
    const MARKS: [&str; 4] =
        ["*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: "];
    let patch = ["patchText", "patch", "input"].iter().map(|key| text_of(input, key));
    let lines = patch.flat_map(str::lines);
    let path =
        |line: &str| MARKS.iter().find_map(|mark| line.strip_prefix(mark)).map(str::to_owned);
    lines.filter_map(path).take(MAX_ITEMS).map(Action::Write).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(actions: &[Action]) -> String {
        let shown = |action: &Action| {
            let (word, what) = action.parts();
            format!("{word} {what}")
        };
        actions.iter().map(shown).collect::<Vec<_>>().join(", ")
    }

    fn actions(name: &str, input: &Value) -> String {
        shown(&of_tool(name, input))
    }

    /// A title can be the command itself, so that an agent chooses how it begins.
    #[test]
    fn only_a_call_of_a_tool_of_ours_has_no_actions() {
        let command = "banksman_task=1 git push --force";
        let acp = |kind: &str, title: &str| {
            let input = json!({ "command": command });
            shown(&of_acp(&json!({ "kind": kind, "title": title, "rawInput": input })))
        };
        assert_eq!(acp("execute", command), format!("use execute, run {command}"));
        assert_eq!(acp("other", command), format!("use other, run {command}"));
        assert_eq!(acp("execute", "banksman_task"), format!("use execute, run {command}"));
        assert_eq!(acp("edit", "banksman_task"), format!("use edit, run {command}"));
        assert_eq!(acp("other", "mcp__banksman__ask_person"), "");
        assert_eq!(acp("", "banksman_request_approval"), "");
        let input = json!({ "command": "rm -rf /" });
        for name in ["banksman_shell", "banksman.task2", "mcp__banksman__task x"] {
            assert_eq!(actions(name, &input), format!("use {name}, run rm -rf /"));
            assert_eq!(of_text(name, "rm").len(), 1, "{name}");
        }
        assert_eq!(actions("banksman.task", &json!({})), "");
        assert_eq!(of_text("banksman_task", "").len(), 0);
    }

    #[test]
    fn arguments_of_known_tools_become_actions() {
        assert_eq!(
            actions("Bash", &json!({ "command": "ls", "description": "x" })),
            "use Bash, run ls"
        );
        assert_eq!(actions("Edit", &json!({ "file_path": "/a/b" })), "use Edit, write /a/b");
        assert_eq!(actions("Read", &json!({ "file_path": "/a/b" })), "use Read, read /a/b");
        assert_eq!(actions("write", &json!({ "filePath": "b" })), "use write, write b");
        assert_eq!(
            actions("shell", &json!({ "command": ["sh", "-c", "it's"] })),
            "use shell, run 'sh' '-c' 'it'\\''s'"
        );
        let editor = "str_replace_based_edit_tool";
        assert_eq!(
            actions(editor, &json!({ "command": "view", "path": "x" })),
            format!("use {editor}, read x")
        );
        assert_eq!(
            actions(editor, &json!({ "command": "create", "path": "x" })),
            format!("use {editor}, write x")
        );
        let patch = json!({ "patchText": "*** Begin Patch\n*** Add File: a/b\n+x\n" });
        assert_eq!(actions("apply_patch", &patch), "use apply_patch, write a/b");
        assert_eq!(actions("mcp__banksman__ask_person", &json!({})), "");
        assert_eq!(actions("WebFetch", &json!({ "url": "https://example.org" })), "use WebFetch");
        assert_eq!(actions("odd", &json!("text")), "use odd");
    }

    #[test]
    fn a_name_and_a_text_become_actions() {
        assert_eq!(of_text("Bash", "ls").last(), Some(&Action::Run("ls".to_owned())));
        assert_eq!(of_text("edit", "a").last(), Some(&Action::Write("a".to_owned())));
        assert_eq!(of_text("search", "a").len(), 1);
    }
}
