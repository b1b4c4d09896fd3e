//! The five tools: their names, arguments and effects.
//!
//! Wrong arguments are a result with `isError`, not a protocol error, because only a result reaches
//! the model, which can then try again.

use banksman_core::limits::{REPORT_ITEMS, REPORT_TEXT_BYTES};
use banksman_core::policy::Action;
use banksman_core::receipt::AgentReport;
use serde_json::{Map, Value, json};

use super::rpc::{Refusal, WRONG_PARAMS};
use super::run_folder::{Permission, ReportError, RunFolder};

const PROGRESS: &str = "report_progress";
const ASK: &str = "ask_person";
const PERMISSION: &str = "request_approval";
const NOTHING: &str = "nothing_to_do";
const TASK: &str = "task";

pub(super) fn list() -> Value {
    let text = |about: &str| json!({ "type": "string", "description": about });
    let texts = |about: &str| json!({ "type": "array", "items": { "type": "string" }, "maxItems": REPORT_ITEMS, "description": about });
    json!([
        tool(
            PROGRESS,
            "Report what you have just done or are about to do. Use it after each major step.",
            &json!({
                "step": text("one sentence about the step"),
                "files": texts("files that it concerns"),
                "blockers": texts("what blocks you"),
            }),
            &["step"],
        ),
        tool(
            ASK,
            "Ask a person if you cannot continue without an answer. End your turn afterwards; you will be started again with the answer.",
            &json!({ "question": text("the question, with what is needed to answer it") }),
            &["question"],
        ),
        tool(
            PERMISSION,
            "Ask before you do something that cannot be undone or that reaches beyond your worktree: a forced push, a publication, a \
             deletion elsewhere, a change of pipelines or keys. Give exactly one of `command`, `path` and `tool`, exactly as you will \
             use it. You are told to continue, or a person is asked and you end your turn.",
            &json!({
                "command": text("the whole command line"),
                "path": text("a path that you want to change"),
                "tool": text("the name of a tool"),
                "reason": text("why it is needed"),
            }),
            &["reason"],
        ),
        tool(
            NOTHING,
            "Report that the task needs no change, for example because it is already done. End your turn afterwards.",
            &json!({ "reason": text("why there is nothing to do") }),
            &["reason"],
        ),
        tool(TASK, "Returns the title and the text of your task.", &json!({}), &[]),
    ])
}

fn tool(name: &str, about: &str, properties: &Value, required: &[&str]) -> Value {
    let schema = json!({ "type": "object", "properties": properties, "required": required });
    json!({ "name": name, "description": about, "inputSchema": schema })
}

pub(super) fn call(run: &RunFolder, params: &Value) -> Result<Value, Refusal> {
    let name = params["name"]
        .as_str()
        .ok_or_else(|| Refusal::new(WRONG_PARAMS, "the tool's `name` is missing"))?;
    let none = Map::new();
    let arguments = match &params["arguments"] {
        Value::Null => Some(&none),
        given => given.as_object(),
    };
    let Some(arguments) = arguments else {
        return Err(Refusal::new(WRONG_PARAMS, "`arguments` must be an object"));
    };
    let done = match name {
        PROGRESS => progress(run, arguments),
        ASK => ask(run, arguments),
        PERMISSION => request_permission(run, arguments),
        NOTHING => nothing(run, arguments),
        TASK => task(run),
        _ => return Err(Refusal::new(WRONG_PARAMS, format!("there is no tool `{name}`"))),
    };
    let (text, is_error) = match done {
        Ok(text) => (text, false),
        Err(text) => (text, true),
    };
    Ok(json!({ "content": [{ "type": "text", "text": text }], "isError": is_error }))
}

/// The text for the model: a confirmation, or what was wrong.
type ToolReply = Result<String, String>;

fn progress(run: &RunFolder, arguments: &Map<String, Value>) -> ToolReply {
    let step = text(arguments, "step")?;
    let (files, blockers) = (texts(arguments, "files")?, texts(arguments, "blockers")?);
    report(run, &AgentReport::Progress { step, files, blockers }, "Noted.")
}

fn ask(run: &RunFolder, arguments: &Map<String, Value>) -> ToolReply {
    let question = text(arguments, "question")?;
    report(
        run,
        &AgentReport::NeedsPerson { question },
        "A person will be asked. End your turn now; you will be started again with the answer.",
    )
}

fn request_permission(run: &RunFolder, arguments: &Map<String, Value>) -> ToolReply {
    let reason = text(arguments, "reason")?;
    let given =
        |name: &str| arguments.contains_key(name).then(|| text(arguments, name)).transpose();
    let action = match (given("command")?, given("path")?, given("tool")?) {
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

fn nothing(run: &RunFolder, arguments: &Map<String, Value>) -> ToolReply {
    let reason = text(arguments, "reason")?;
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

fn text(arguments: &Map<String, Value>, name: &str) -> Result<String, String> {
    let text = arguments.get(name).and_then(Value::as_str).map(str::trim);
    let text = text.filter(|text| !text.is_empty());
    let text = text.ok_or_else(|| format!("`{name}` is missing: give a text that is not empty"))?;
    bounded(name, text)
}

fn texts(arguments: &Map<String, Value>, name: &str) -> Result<Vec<String>, String> {
    let items = match arguments.get(name) {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(items)) if items.len() <= REPORT_ITEMS => items,
        Some(_) => return Err(format!("`{name}` must be a list of at most {REPORT_ITEMS} texts")),
    };
    let item = |item: &Value| {
        let text = item.as_str().ok_or_else(|| format!("`{name}` must be a list of texts"))?;
        bounded(name, text)
    };
    let items = items.iter().map(item).collect::<Result<Vec<_>, _>>()?;
    let bytes: usize = items.iter().map(String::len).sum();
    if bytes > REPORT_TEXT_BYTES { Err(too_large(name)) } else { Ok(items) }
}

fn bounded(name: &str, text: &str) -> Result<String, String> {
    if text.len() > REPORT_TEXT_BYTES { Err(too_large(name)) } else { Ok(text.to_owned()) }
}

fn too_large(name: &str) -> String {
    format!("`{name}` is too large: at most {REPORT_TEXT_BYTES} bytes; shorten it")
}
