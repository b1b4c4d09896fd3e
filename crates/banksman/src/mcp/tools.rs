//! The five tools: their names, arguments and effects.
//!
//! Wrong arguments are a result with `isError`, not a protocol error, because only a result reaches
//! the model, which can then try again.

use std::collections::BTreeMap;

use banksman_core::limits::{REPORT_ITEMS, REPORT_TEXT_BYTES};
use banksman_core::policy::Action;
use banksman_core::receipt::AgentReport;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::rpc::{Given, Refusal, WRONG_PARAMS, members};
use super::run_folder::RunFolder;

const PROGRESS: &str = "report_progress";
const ASK: &str = "ask_person";
const PERMISSION: &str = "request_approval";
const NOTHING: &str = "nothing_to_do";
const TASK: &str = "task";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Tool {
    description: &'static str,
    input_schema: InputSchema,
    name: &'static str,
}

#[derive(Serialize)]
struct InputSchema {
    properties: BTreeMap<&'static str, Property>,
    required: &'static [&'static str],
    r#type: &'static str,
}

/// The schema of one argument: a text, or a list of texts.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Property {
    description: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    items: Option<ItemSchema>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_items: Option<usize>,
    r#type: &'static str,
}

#[derive(Serialize)]
struct ItemSchema {
    r#type: &'static str,
}

fn text_property(description: &'static str) -> Property {
    Property { description, items: None, max_items: None, r#type: "string" }
}

fn texts_property(description: &'static str) -> Property {
    let items = Some(ItemSchema { r#type: "string" });
    Property { description, items, max_items: Some(REPORT_ITEMS), r#type: "array" }
}

pub(super) fn list() -> Vec<Tool> {
    vec![
        tool(
            PROGRESS,
            "Report what you have just done or are about to do. Use it after each major step.",
            [
                ("step", text_property("one sentence about the step")),
                ("files", texts_property("files that it concerns")),
                ("blockers", texts_property("what blocks you")),
            ],
            &["step"],
        ),
        tool(
            ASK,
            "Ask a person if you cannot continue without an answer. End your turn afterwards; you will be started again with the answer.",
            [("question", text_property("the question, with what is needed to answer it"))],
            &["question"],
        ),
        tool(
            PERMISSION,
            "Ask before you do something that cannot be undone or that reaches beyond your worktree: a forced push, a publication, a \
             deletion elsewhere, a change of pipelines or keys. Give exactly one of `command`, `path` and `tool`, exactly as you will \
             use it. You are told to continue, or a person is asked and you end your turn.",
            [
                ("command", text_property("the whole command line")),
                ("path", text_property("a path that you want to change")),
                ("tool", text_property("the name of a tool")),
                ("reason", text_property("why it is needed")),
            ],
            &["reason"],
        ),
        tool(
            NOTHING,
            "Report that the task needs no change, for example because it is already done. End your turn afterwards.",
            [("reason", text_property("why there is nothing to do"))],
            &["reason"],
        ),
        tool(TASK, "Returns the title and the text of your task.", [], &[]),
    ]
}

fn tool<const N: usize>(
    name: &'static str,
    description: &'static str,
    properties: [(&'static str, Property); N],
    required: &'static [&'static str],
) -> Tool {
    let properties = properties.into();
    Tool { description, input_schema: InputSchema { properties, required, r#type: "object" }, name }
}

/// The params of a call.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Call<'a> {
    name: Option<Given<String>>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolResult {
    content: [Content; 1],
    is_error: bool,
}

#[derive(Serialize)]
struct Content {
    text: String,
    r#type: &'static str,
}

pub(super) fn call(run: &RunFolder, call: Call<'_>) -> Result<ToolResult, Refusal> {
    let wrong = |message: &str| Refusal::new(WRONG_PARAMS, message);
    let name = call.name.and_then(Given::fitting);
    let name = name.ok_or_else(|| wrong("the tool's `name` is missing"))?;
    if call.arguments.is_some_and(|arguments| !arguments.get().starts_with('{')) {
        return Err(wrong("`arguments` must be an object"));
    }
    let arguments: Arguments<'_> = call.arguments.map(members).unwrap_or_default();
    let done = match name.as_str() {
        PROGRESS => progress(run, &arguments),
        ASK => ask(run, &arguments),
        PERMISSION => request_permission(run, &arguments),
        NOTHING => nothing(run, &arguments),
        TASK => task(run),
        _ => return Err(wrong(&format!("there is no tool `{name}`"))),
    };
    let is_error = done.is_err();
    let (Ok(text) | Err(text)) = done;
    Ok(ToolResult { content: [Content { text, r#type: "text" }], is_error })
}

/// The arguments of a call. Each may be missing or of another type.
type Arguments<'a> = BTreeMap<String, &'a RawValue>;

/// An argument of the type that is expected; `null` counts as missing.
fn given<'a, T: Deserialize<'a>>(arguments: &Arguments<'a>, name: &str) -> Option<Given<T>> {
    let raw = arguments.get(name).filter(|raw| raw.get() != "null")?;
    serde_json::from_str(raw.get()).ok()
}

/// The text for the model: a confirmation, or what was wrong.
type ToolReply = Result<String, String>;

fn progress(run: &RunFolder, arguments: &Arguments<'_>) -> ToolReply {
    let step = text(arguments, "step")?;
    let (files, blockers) = (texts(arguments, "files")?, texts(arguments, "blockers")?);
    run.report(&AgentReport::Progress { step, files, blockers })?;
    Ok("Noted.".to_owned())
}

fn ask(run: &RunFolder, arguments: &Arguments<'_>) -> ToolReply {
    run.report(&AgentReport::NeedsPerson { question: text(arguments, "question")? })?;
    let answer =
        "A person will be asked. End your turn now; you will be started again with the answer.";
    Ok(answer.to_owned())
}

fn request_permission(run: &RunFolder, arguments: &Arguments<'_>) -> ToolReply {
    let reason = text(arguments, "reason")?;
    let one = |name| {
        let is_given = given::<IgnoredAny>(arguments, name).is_some();
        is_given.then(|| text(arguments, name)).transpose()
    };
    let action = match (one("command")?, one("path")?, one("tool")?) {
        (Some(command), None, None) => Action::Run(command),
        (None, Some(path), None) => Action::Write(path),
        (None, None, Some(tool)) => Action::Use(tool),
        (_, _, _) => return Err("give exactly one of `command`, `path` and `tool`".to_owned()),
    };
    Ok(match run.request_permission(&action, &reason)? {
        None => "Continue: it needs no approval, or already has it.".to_owned(),
        Some(question) => format!(
            "Do not do it now. A person will be asked:\n{question}\nEnd your turn; you will be started again with the answer."
        ),
    })
}

fn nothing(run: &RunFolder, arguments: &Arguments<'_>) -> ToolReply {
    run.report(&AgentReport::NothingToDo { reason: text(arguments, "reason")? })?;
    Ok("Noted. End your turn now.".to_owned())
}

fn task(run: &RunFolder) -> ToolReply {
    match run.task() {
        Ok(Some(task)) => Ok(format!("# {}\n\n{}", task.title, task.body).trim_end().to_owned()),
        Ok(None) => Ok("Your prompt contains everything about the task.".to_owned()),
        Err(error) => Err(format!("failed to read the task: {error}")),
    }
}

fn text(arguments: &Arguments<'_>, name: &str) -> Result<String, String> {
    let text: Option<String> = given(arguments, name).and_then(Given::fitting);
    let text = text.as_deref().map(str::trim).filter(|text| !text.is_empty());
    let text = text.ok_or_else(|| format!("`{name}` is missing: give a text that is not empty"))?;
    bounded(name, text.to_owned())
}

fn texts(arguments: &Arguments<'_>, name: &str) -> Result<Vec<String>, String> {
    let items: Vec<Given<String>> = match given(arguments, name) {
        None => return Ok(Vec::new()),
        Some(Given::Fits(items)) if Vec::len(&items) <= REPORT_ITEMS => items,
        Some(Given::Fits(_) | Given::Wrong(_)) => {
            return Err(format!("`{name}` must be a list of at most {REPORT_ITEMS} texts"));
        }
    };
    let item = |item: Given<String>| {
        let text = item.fitting().ok_or_else(|| format!("`{name}` must be a list of texts"))?;
        bounded(name, text)
    };
    let items = items.into_iter().map(item).collect::<Result<Vec<_>, _>>()?;
    let bytes: usize = items.iter().map(String::len).sum();
    if bytes > REPORT_TEXT_BYTES { Err(too_large(name)) } else { Ok(items) }
}

fn bounded(name: &str, text: String) -> Result<String, String> {
    if text.len() > REPORT_TEXT_BYTES { Err(too_large(name)) } else { Ok(text) }
}

fn too_large(name: &str) -> String {
    format!("`{name}` is too large: at most {REPORT_TEXT_BYTES} bytes; shorten it")
}
