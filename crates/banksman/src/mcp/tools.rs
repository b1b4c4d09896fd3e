//! The five tools: their names, arguments and effects.
//!
//! Wrong arguments are a result with `isError`, not a protocol error, because only a result reaches
//! the model, which can then try again.

use std::collections::BTreeMap;

use banksman_core::limits::{REPORT_ITEMS, REPORT_TEXT_BYTES};
use banksman_core::policy::Action;
use banksman_core::receipt::AgentReport;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::rpc::{Given, Refusal, WRONG_PARAMS, members};
use super::run_folder::{Permission, ReportError, RunFolder};

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
    let done = match name.as_str() {
        PROGRESS => progress(run, read(call.arguments)),
        ASK => ask(run, read(call.arguments)),
        PERMISSION => request_permission(run, read(call.arguments)),
        NOTHING => nothing(run, read(call.arguments)),
        TASK => task(run),
        _ => return Err(wrong(&format!("there is no tool `{name}`"))),
    };
    let is_error = done.is_err();
    let (Ok(text) | Err(text)) = done;
    Ok(ToolResult { content: [Content { text, r#type: "text" }], is_error })
}

fn read<'a, T: Default + Deserialize<'a>>(arguments: Option<&'a RawValue>) -> T {
    arguments.map(members).unwrap_or_default()
}

/// An argument that may be missing or of another type.
type Argument<T> = Option<Given<T>>;

#[derive(Default, Deserialize)]
#[serde(default)]
struct ProgressArguments {
    step: Argument<String>,
    files: Argument<Vec<Given<String>>>,
    blockers: Argument<Vec<Given<String>>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AskArguments {
    question: Argument<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PermissionArguments {
    command: Argument<String>,
    path: Argument<String>,
    tool: Argument<String>,
    reason: Argument<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NothingArguments {
    reason: Argument<String>,
}

/// The text for the model: a confirmation, or what was wrong.
type ToolReply = Result<String, String>;

fn progress(run: &RunFolder, given: ProgressArguments) -> ToolReply {
    let step = text("step", given.step)?;
    let (files, blockers) = (texts("files", given.files)?, texts("blockers", given.blockers)?);
    report(run, &AgentReport::Progress { step, files, blockers }, "Noted.")
}

fn ask(run: &RunFolder, given: AskArguments) -> ToolReply {
    let question = text("question", given.question)?;
    report(
        run,
        &AgentReport::NeedsPerson { question },
        "A person will be asked. End your turn now; you will be started again with the answer.",
    )
}

fn request_permission(run: &RunFolder, given: PermissionArguments) -> ToolReply {
    let reason = text("reason", given.reason)?;
    let one =
        |name: &str, given: Argument<String>| given.map(|it| text(name, Some(it))).transpose();
    let (command, path) = (one("command", given.command)?, one("path", given.path)?);
    let action = match (command, path, one("tool", given.tool)?) {
        (Some(command), None, None) => Action::Run(command),
        (None, Some(path), None) => Action::Write(path),
        (None, None, Some(tool)) => Action::Use(tool),
        (_, _, _) => return Err("give exactly one of `command`, `path` and `tool`".to_owned()),
    };
    Ok(match run.request_permission(&action, &reason)? {
        Permission::GoOn => "Continue: it needs no approval, or already has it.".to_owned(),
        Permission::Asked(question) => format!(
            "Do not do it now. A person will be asked:\n{question}\nEnd your turn; you will be started again with the answer."
        ),
    })
}

fn nothing(run: &RunFolder, given: NothingArguments) -> ToolReply {
    let reason = text("reason", given.reason)?;
    report(run, &AgentReport::NothingToDo { reason }, "Noted. End your turn now.")
}

fn task(run: &RunFolder) -> ToolReply {
    match run.task() {
        Ok(Some(task)) => Ok(format!("# {}\n\n{}", task.title, task.body).trim_end().to_owned()),
        Ok(None) => Ok("Your prompt contains everything about the task.".to_owned()),
        Err(error) => Err(format!("failed to read the task: {error}")),
    }
}

fn report(run: &RunFolder, report: &AgentReport, answer: &str) -> ToolReply {
    run.report(report).map(|()| answer.to_owned()).map_err(|error| match error {
        ReportError::Full => error.to_string(),
        ReportError::File(ref cause) => format!("{error}: {cause}"),
    })
}

fn text(name: &str, given: Argument<String>) -> Result<String, String> {
    let text = given.and_then(Given::fitting);
    let text = text.as_deref().map(str::trim).filter(|text| !text.is_empty());
    let text = text.ok_or_else(|| format!("`{name}` is missing: give a text that is not empty"))?;
    bounded(name, text.to_owned())
}

fn texts(name: &str, given: Argument<Vec<Given<String>>>) -> Result<Vec<String>, String> {
    let items = match given {
        None => return Ok(Vec::new()),
        Some(Given::Fits(items)) if items.len() <= REPORT_ITEMS => items,
        Some(_) => return Err(format!("`{name}` must be a list of at most {REPORT_ITEMS} texts")),
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
