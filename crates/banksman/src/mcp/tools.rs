//! The five tools: their names, arguments and effects.
//!
//! Wrong arguments are a result with `isError`, not a protocol error, because only a result reaches
//! the model, which can then try again.

use std::collections::BTreeMap;

use banksman_core::limits::{REPORT_ITEMS, REPORT_TEXT_BYTES};
use banksman_core::policy::Action;
use banksman_core::receipt::{AgentReport, AgentTool};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::rpc::{Given, Refusal, WRONG_PARAMS};
use crate::api::error::ErrorDocument;
use crate::api::report::{ApprovalRequest, NothingToDo, PersonQuestion, ProgressReport, TextList};
use crate::ops::OpsError;
use crate::ops::error_report::{ErrorReport, Hint};
use crate::ops::reports::RunFolder;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Tool {
    /// Claude Code puts only the names of tools into its prompt, unless a tool asks for more.
    #[serde(rename = "_meta")]
    meta: BTreeMap<&'static str, bool>,
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
    items: Option<BTreeMap<&'static str, &'static str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_items: Option<usize>,
    r#type: &'static str,
}

fn text_property(description: &'static str) -> Property {
    Property { description, items: None, max_items: None, r#type: "string" }
}

fn texts_property(description: &'static str) -> Property {
    let items = Some([("type", "string")].into());
    Property { description, items, max_items: Some(REPORT_ITEMS), r#type: "array" }
}

pub(super) fn list() -> Vec<Tool> {
    vec![
        tool(
            AgentTool::Progress,
            "Report what you have just done or are about to do. Use it after each major step.",
            [
                ("step", text_property("one sentence about the step")),
                ("files", texts_property("files that it concerns")),
                ("blockers", texts_property("what blocks you")),
            ],
            &["step"],
        ),
        tool(
            AgentTool::Ask,
            "Ask a person if you cannot continue without an answer. End your turn afterwards; you \
             will be started again with the answer.",
            [("question", text_property("the question, with what is needed to answer it"))],
            &["question"],
        ),
        tool(
            AgentTool::Approval,
            "Ask before you do something that cannot be undone or that reaches beyond your worktree: \
             a forced push, a publication, a deletion elsewhere, a change of pipelines or keys. Give \
             exactly one of `command`, `path` and `tool`, exactly as you will use it. You are told to \
             continue, or a person is asked and you end your turn.",
            [
                ("command", text_property("the whole command line")),
                ("path", text_property("a path that you want to change")),
                ("tool", text_property("the name of a tool")),
                ("reason", text_property("why it is needed")),
            ],
            &["reason"],
        ),
        tool(
            AgentTool::Nothing,
            "Report that the task needs no change, for example because it is already done. End your \
             turn afterwards.",
            [("reason", text_property("why there is nothing to do"))],
            &["reason"],
        ),
        tool(AgentTool::Task, "Returns the title and the text of your task.", [], &[]),
    ]
}

fn tool<const N: usize>(
    tool: AgentTool,
    description: &'static str,
    properties: [(&'static str, Property); N],
    required: &'static [&'static str],
) -> Tool {
    let properties = properties.into();
    let input_schema = InputSchema { properties, required, r#type: "object" };
    let meta = [("anthropic/alwaysLoad", true)].into();
    Tool { meta, description, input_schema, name: tool.as_str() }
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
    /// A failure, as every surface reports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    structured_content: Option<ErrorDocument>,
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
    let arguments = call.arguments.map_or("{}", RawValue::get);
    if !arguments.starts_with('{') {
        return Err(wrong("`arguments` must be an object"));
    }
    let tool = name.parse().map_err(|_| wrong(&format!("there is no tool `{name}`")))?;
    let done = match tool {
        AgentTool::Progress => progress(run, arguments),
        AgentTool::Ask => ask(run, arguments),
        AgentTool::Approval => request_permission(run, arguments),
        AgentTool::Nothing => nothing(run, arguments),
        AgentTool::Task => task(run),
    };
    let (text, structured_content) = match done {
        Ok(text) => (text, None),
        Err(error) => {
            let report = ErrorReport::from(&error);
            let hint = report.hint.as_ref().and_then(Hint::text);
            (report.one_line(), Some(ErrorDocument::new(&report, hint.map(str::to_owned))))
        }
    };
    let is_error = structured_content.is_some();
    Ok(ToolResult { content: [Content { text, r#type: "text" }], is_error, structured_content })
}

/// The text for the model: a confirmation, or what was wrong.
type ToolReply = Result<String, OpsError>;

/// The arguments of a call.
fn given<'a, T: Deserialize<'a>>(arguments: &'a str) -> Result<T, OpsError> {
    serde_json::from_str(arguments).map_err(|error| wrong(format!("wrong arguments: {error}")))
}

fn wrong(message: String) -> OpsError {
    OpsError::input(message, "correct the arguments, and call the tool again")
}

fn progress(run: &RunFolder, arguments: &str) -> ToolReply {
    let ProgressReport { step, files, blockers } = given(arguments)?;
    let (step, files) = (text("step", &step)?, texts("files", files)?);
    let blockers = texts("blockers", blockers)?;
    run.report(&AgentReport::Progress { step, files, blockers })?;
    Ok("Noted.".to_owned())
}

fn ask(run: &RunFolder, arguments: &str) -> ToolReply {
    let PersonQuestion { question } = given(arguments)?;
    run.report(&AgentReport::NeedsPerson { question: text("question", &question)? })?;
    let answer =
        "A person will be asked. End your turn now; you will be started again with the answer.";
    Ok(answer.to_owned())
}

fn request_permission(run: &RunFolder, arguments: &str) -> ToolReply {
    let ApprovalRequest { command, path, tool, reason } = given(arguments)?;
    let reason = text("reason", &reason)?;
    let action = match (command, path, tool) {
        (Some(command), None, None) => Action::Run(text("command", &command)?),
        (None, Some(path), None) => Action::Write(text("path", &path)?),
        (None, None, Some(tool)) => Action::Use(text("tool", &tool)?),
        (_, _, _) => {
            return Err(wrong("give exactly one of `command`, `path` and `tool`".to_owned()));
        }
    };
    Ok(match run.request_permission(&action, &reason)? {
        None => "Continue: it needs no approval, or already has it.".to_owned(),
        Some(question) => format!(
            "Do not do it now. A person will be asked:\n{question}\n\
             End your turn; you will be started again with the answer."
        ),
    })
}

fn nothing(run: &RunFolder, arguments: &str) -> ToolReply {
    let NothingToDo { reason } = given(arguments)?;
    run.report(&AgentReport::NothingToDo { reason: text("reason", &reason)? })?;
    Ok("Noted. End your turn now.".to_owned())
}

fn task(run: &RunFolder) -> ToolReply {
    Ok(match run.task()? {
        Some(task) => format!("# {}\n\n{}", task.title, task.body).trim_end().to_owned(),
        None => "Your prompt contains everything about the task.".to_owned(),
    })
}

fn text(name: &str, given: &str) -> Result<String, OpsError> {
    match given.trim() {
        "" => Err(wrong(format!("`{name}` is missing: give a text that is not empty"))),
        text => bounded(name, text.len()).map(|()| text.to_owned()),
    }
}

fn texts(name: &str, TextList(items): TextList) -> Result<Vec<String>, OpsError> {
    if items.len() > REPORT_ITEMS {
        return Err(wrong(format!("`{name}` must be a list of at most {REPORT_ITEMS} texts")));
    }
    bounded(name, items.iter().map(String::len).sum()).map(|()| items)
}

fn bounded(name: &str, bytes: usize) -> Result<(), OpsError> {
    if bytes <= REPORT_TEXT_BYTES {
        return Ok(());
    }
    Err(wrong(format!("`{name}` is too large: at most {REPORT_TEXT_BYTES} bytes; shorten it")))
}
