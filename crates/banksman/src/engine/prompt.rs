//! Prompts. Texts that come from outside stand between marks that they cannot imitate, and are
//! named as data.

use std::borrow::Cow;
use std::path::PathBuf;

use banksman_core::fence::fence;
use banksman_core::lifecycle::Outcome;
use banksman_core::lifecycle::contract::{AgentRole, Field};
use banksman_core::lifecycle::expr::{Fields, Value};
use banksman_core::limits;
use banksman_core::machine::Task;
use banksman_core::plan::proposal::without_section;
use banksman_core::prompt::{PromptSection, Truncation, fit};
use banksman_core::workflow::assignment::{self, assignment};
use banksman_core::workflow::{Criterion, Workflow};

use super::answers::{AnsweredQuestion, in_words};
use super::assignment::{StepContext, retry_context};
use super::panel::prompts::advice;
use super::planning::Planning;
use crate::exec::job::Verification;
use crate::prompts::{BuiltInTemplate, PromptError, Prompts, built_in};
use crate::store::PastRun;

/// The detail of one earlier failure, in bytes.
const FAILURE_BYTES: usize = 1_500;
/// All earlier failures, in bytes.
const FAILURES_BYTES: usize = 6_000;
/// The text of a task whose run is judged, in bytes.
const JUDGED_BODY_BYTES: usize = 8_000;
/// Where the keeper fills in the facts.
const EVIDENCE: &str = "{evidence}";
/// The advice of a panel that let the work pass, in bytes.
pub(super) const ADVICE_BYTES: usize = 6_000;
/// Fields with what reviewers and people wrote about the work.
const COMMENTS: [Field; 5] =
    [Field::Note, Field::Clarification, Field::Feedback, Field::PrComments, Field::Error];
/// Where an agent finds all of its own task.
const TASK_TOOL: &str = "the tool `task` gives all of it";

/// The facts that a prompt is made of.
pub(super) struct Brief<'a> {
    pub(super) task: &'a Task,
    pub(super) role: &'a str,
    /// What an agent gets that begins.
    pub(super) template: &'static BuiltInTemplate,
    pub(super) fields: &'a Fields,
    /// Earlier runs, the oldest first.
    pub(super) past: &'a [&'a PastRun],
    /// Whether the agent still has its own memory of them.
    pub(super) resumes: bool,
    /// What earlier runs have asked and people have answered.
    pub(super) answered: Vec<AnsweredQuestion>,
    /// What is known about the parent and the tasks before this one; empty if it has none.
    pub(super) context: String,
}

/// The prompt of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenderedPrompt {
    pub text: String,
    /// The name of the template.
    pub template: String,
    /// The project's file that stands in for the built-in one.
    pub file: Option<PathBuf>,
    /// The sections that were shortened.
    pub cuts: Vec<Truncation>,
}

/// Fills a template, shortened so that it fits.
pub(super) fn render<'v>(
    prompts: &Prompts,
    name: &str,
    parts: &[PromptSection<'_>],
    values: impl Fn(&[String]) -> Vec<(&'v str, String)>,
) -> Result<RenderedPrompt, PromptError> {
    let built_in = built_in(name).expect("every template that is asked for ships with the program");
    let (template, source) = prompts.template(built_in)?;
    let (text, cuts) = fit(parts, limits::PROMPT_BYTES, |texts| template.fill(&values(texts)));
    Ok(RenderedPrompt { text, template: source.name, file: source.file, cuts })
}

pub(super) fn for_run(
    prompts: &Prompts,
    brief: &Brief<'_>,
    checks: &Verification,
) -> Result<RenderedPrompt, PromptError> {
    let task = brief.task;
    let failures = failures(brief);
    let last = brief.past.last().map(|run| run.epoch);
    let is_answered = brief.answered.last().is_some_and(|answered| Some(answered.epoch) == last);
    let goes_on = brief.resumes && (is_answered || !failures.is_empty());
    let template = match (goes_on, is_answered) {
        (true, true) => "answered",
        (true, false) => "again",
        (false, _) => brief.template.name,
    };
    // An agent that resumes its session knows its task.
    let (title, body) = if goes_on { ("", "") } else { (task.title.as_str(), item_body(task)) };
    let mut parts = vec![
        PromptSection::new("the title of the task", title),
        PromptSection::new("the text of the task", body).all_is_in(TASK_TOOL),
        PromptSection::new("what is known about the parent", brief.context.as_str()),
        PromptSection::new("what earlier attempts ended with", failures.as_str()).latest_last(),
        PromptSection::new("the rules", rules(checks)),
        PromptSection::new("what people have answered", in_words(&brief.answered)).latest_last(),
    ];
    parts.extend(comments(brief));
    let of_parent = "What is known about the parent, and about the tasks before this one:";
    render(prompts, template, &parts, |texts| {
        let [title, body, context, failures, rules, answers, comments @ ..] = texts else {
            return Vec::new();
        };
        vec![
            ("task", task.id.to_string()),
            ("role", brief.role.to_owned()),
            ("title", fence(title)),
            ("body", fence(body)),
            ("context", section(of_parent, context)),
            ("feedback", answers_section(answers) + &feedback(comments)),
            // An agent that remembers the task needs no introduction to them.
            ("failures", if goes_on { fence(failures) } else { earlier(failures) }),
            ("rules", rules.clone()),
        ]
    })
}

/// The prompt of a planner.
pub(super) fn for_planner(
    prompts: &Prompts,
    planning: &Planning,
    brief: &Brief<'_>,
) -> Result<RenderedPrompt, PromptError> {
    let task = brief.task;
    let own = without_section(&task.body);
    let objections: String =
        planning.objections.iter().map(|objection| format!("- {objection}\n")).collect();
    let time = planning.timeout.map_or_else(|| "little time".to_owned(), |time| time.to_string());
    let mut parts = vec![
        PromptSection::new("the title of the task", &task.title),
        PromptSection::new("the text of the task", text_or_none(&own)).all_is_in(TASK_TOOL),
        PromptSection::new("the proposal so far", &planning.former),
        PromptSection::new("what stands against the proposal", objections),
        PromptSection::new("how earlier subtasks stand", &planning.subtasks),
        PromptSection::new("what earlier attempts ended with", failures(brief)).latest_last(),
        PromptSection::new("what people have answered", in_words(&brief.answered)).latest_last(),
    ];
    parts.extend(comments(brief));
    render(prompts, AgentRole::Planner.as_str(), &parts, |texts| {
        let [title, body, former, objections, earlier_parts, failures, rest @ ..] = texts else {
            return Vec::new();
        };
        let [answers, comments @ ..] = rest else { return Vec::new() };
        let of_parts = "How the subtasks of an earlier plan stand; what is done is not done again:";
        vec![
            ("task", task.id.to_string()),
            ("time", time.clone()),
            ("title", fence(title)),
            ("body", fence(body)),
            ("former", section("The proposal so far, which yours replaces:", former)),
            ("objections", section("What stands against it:", objections)),
            ("parts", section(of_parts, earlier_parts)),
            ("feedback", answers_section(answers) + &feedback(comments)),
            ("failures", earlier(failures)),
        ]
    })
}

/// A fenced text under a heading, if there is one.
fn section(heading: &str, text: &str) -> String {
    if text.trim().is_empty() { String::new() } else { format!("\n{heading}\n\n{}\n", fence(text)) }
}

/// The prompt of a workflow's step.
pub(super) fn for_step(
    prompts: &Prompts,
    step: &StepContext,
    brief: &Brief<'_>,
    checks: &Verification,
) -> Result<RenderedPrompt, PromptError> {
    let spec = &step.step.spec;
    let signal = assignment::signal(&spec.signal);
    let signal = if signal.is_empty() { signal } else { format!("- {signal}\n") };
    let mut parts = parts_of_step(step);
    parts.push(PromptSection::new("what is known about the steps before", brief.context.as_str()));
    parts.push(
        PromptSection::new("what earlier attempts ended with", failures(brief)).latest_last(),
    );
    parts.push(PromptSection::new("the rules", rules(checks)));
    parts.push(
        PromptSection::new("what people have answered", in_words(&brief.answered)).latest_last(),
    );
    render(prompts, "step", &parts, |texts| {
        let [of_step @ .., context, failures, rules, answers] = texts else { return Vec::new() };
        let before = section("What reviewers said about the steps before it:", context);
        vec![
            ("step", spec.id.clone()),
            ("role", spec.role.clone()),
            ("assignment", written(step, of_step) + &before),
            ("failures", answers_section(answers) + &earlier(failures)),
            ("rules", rules.clone()),
            ("signal", signal.clone()),
        ]
    })
}

/// The texts and lists of a step that may be long, in the order in which [`written`] takes them
/// back.
pub(super) fn parts_of_step(step: &StepContext) -> Vec<PromptSection<'_>> {
    let (flow, spec) = (&step.flow, &step.step.spec);
    let judged = match &spec.criterion {
        Some(Criterion::Judged(words)) => words.as_str(),
        Some(Criterion::Command(_) | Criterion::File(_)) | None => "",
    };
    vec![
        PromptSection::new("what the workflow is about", &flow.about),
        PromptSection::new("what the step is told", &spec.prompt),
        PromptSection::new("when the step is done", judged),
        PromptSection::new("the files of the workflow to read", flow.context_files.join("\n")),
        PromptSection::new("the files of the step to read", spec.context.join("\n")),
        PromptSection::new("the inputs", spec.inputs.join("\n")),
        PromptSection::new("the outputs", spec.outputs.join("\n")),
        PromptSection::new("what gates have said", retry_context(step)).latest_last(),
    ]
}

/// A step in words, with its texts as they were left.
pub(super) fn written(step: &StepContext, texts: &[String]) -> String {
    let [about, prompt, judged, all_read, context, inputs, outputs, feedback] = texts else {
        return String::new();
    };
    let lines = |text: &String| text.lines().map(str::to_owned).collect();
    let (flow, spec) = (&step.flow, &step.step.spec);
    let mut step = spec.clone();
    step.prompt.clone_from(prompt);
    step.context = lines(context);
    step.inputs = lines(inputs);
    step.outputs = lines(outputs);
    if let Some(Criterion::Judged(words)) = &mut step.criterion {
        words.clone_from(judged);
    }
    let flow = Workflow {
        id: flow.id.clone(),
        name: flow.name.clone(),
        about: about.clone(),
        context_files: lines(all_read),
        parallel: flow.parallel,
        merge: flow.merge,
        breaker: flow.breaker,
        // Neither is a part of one step's words, and both may be large.
        params: Default::default(),
        steps: Vec::new(),
    };
    assignment(&flow, &step, feedback)
}

pub(super) fn item_body(task: &Task) -> &str {
    text_or_none(&task.body)
}

fn text_or_none(body: &str) -> &str {
    if body.trim().is_empty() { "(There is no more text than the title.)" } else { body }
}

pub(super) fn nudge(prompts: &Prompts) -> Result<RenderedPrompt, PromptError> {
    render(prompts, "nudge", &[], |_| Vec::new())
}

/// `{conflicts}` is left for the keeper to fill in.
pub(super) fn join(prompts: &Prompts) -> Result<RenderedPrompt, PromptError> {
    render(prompts, "join", &[], |_| Vec::new())
}

/// The prompt of the agent that judges a run. The task comes before `{evidence}`, which is left for
/// the keeper to fill in.
pub(super) fn evaluator(prompts: &Prompts, task: &Task) -> Result<RenderedPrompt, PromptError> {
    let own = render(prompts, AgentRole::Evaluator.as_str(), &[], |_| Vec::new())?;
    let body = item_body(task);
    let body = &body[..body.floor_char_boundary(JUDGED_BODY_BYTES)];
    let facts = format!(
        "The task:\n\n{}\n\n{}\n\nThe facts:\n\n{EVIDENCE}",
        fence(&task.title),
        fence(body)
    );
    Ok(RenderedPrompt { text: own.text.replace(EVIDENCE, &facts), ..own })
}

/// The earlier failures, the latest last; the oldest are left out first.
fn failures(brief: &Brief<'_>) -> String {
    let is_answered = |run: &PastRun| brief.answered.iter().any(|it| it.epoch == run.epoch);
    let mut lines: Vec<String> = Vec::new();
    let mut bytes = 0;
    for run in brief.past.iter().rev().filter(|run| !is_answered(run)) {
        let Some(detail) = run.detail.as_deref().filter(|_| run.has_failed()) else { continue };
        let most = detail.floor_char_boundary(FAILURE_BYTES.min(detail.len()));
        let outcome = run.outcome.map_or("unknown", Outcome::as_str);
        let left_out = match detail.len() - most {
            0 => String::new(),
            bytes => format!(" [{bytes} bytes are left out here]"),
        };
        let line =
            format!("Attempt {} ended with {outcome}: {}{left_out}", run.epoch, &detail[..most]);
        bytes += line.len();
        if bytes > FAILURES_BYTES {
            lines.push("Earlier attempts are left out here.".to_owned());
            break;
        }
        lines.push(line);
    }
    lines.reverse();
    lines.join("\n")
}

/// What people have answered, where an agent asked.
fn answers_section(answers: &str) -> String {
    section("You asked, and people have answered; go on with their answers:", answers)
}

fn earlier(failures: &str) -> String {
    if failures.is_empty() {
        return String::new();
    }
    format!("\nEarlier attempts failed. Do not repeat what did not work:\n\n{}\n", fence(failures))
}

/// The texts of reviewers and people about the work. What is told as a question or as its answer
/// is left out.
fn comments<'b>(brief: &Brief<'b>) -> Vec<PromptSection<'b>> {
    let fields = brief.fields;
    let is_told = |text: &&str| {
        let is_it =
            |it: &AnsweredQuestion| it.question == *text || it.words.as_deref() == Some(*text);
        brief.answered.iter().any(is_it)
    };
    let given = COMMENTS.iter().filter_map(|field| fields.get(field.name()));
    let texts = given.filter_map(Value::as_str).filter(|text| !is_told(text));
    let mut texts: Vec<&str> = texts.collect();
    texts.dedup();
    let advice = advice(fields, &texts);
    let part = |text| PromptSection::new("what was said about the work", Cow::Borrowed(text));
    let mut parts: Vec<PromptSection<'_>> = texts.into_iter().map(part).collect();
    if !advice.is_empty() {
        parts.push(
            PromptSection::new("what reviewers said about the work", advice).at_most(ADVICE_BYTES),
        );
    }
    parts
}

fn feedback(comments: &[String]) -> String {
    let texts: Vec<String> = comments.iter().map(|text| fence(text)).collect();
    if texts.is_empty() {
        return String::new();
    }
    format!("\nThis was said about the work so far:\n\n{}\n", texts.join("\n"))
}

fn rules(checks: &Verification) -> String {
    let list =
        |items: &[String]| items.iter().map(|item| format!("- `{item}`\n")).collect::<String>();
    let mut text = String::new();
    if !checks.allowed_paths.is_empty() {
        text +=
            &format!("\nChange files under these paths only:\n\n{}", list(&checks.allowed_paths));
    }
    if !checks.denied_paths.is_empty() {
        text +=
            &format!("\nNever change files under these paths:\n\n{}", list(&checks.denied_paths));
    }
    if !checks.commands.is_empty() {
        text += &format!(
            "\nThese commands will be run on your commits, and all of them must pass:\n\n{}",
            list(&checks.commands)
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use banksman_core::ids::TaskId;
    use banksman_core::lifecycle::builtin;
    use banksman_core::machine::{Actor, NewTask, create};
    use banksman_core::time::Instant;

    use super::*;
    use crate::prompts::for_role;

    fn task(body: &str) -> Task {
        let lifecycle = builtin::get("autonomous", &Default::default()).unwrap().unwrap();
        let new =
            NewTask { title: "paint it".to_owned(), body: body.to_owned(), ..NewTask::default() };
        create(&lifecycle, &new, &Actor::human("kim"), TaskId(7), Instant(0)).unwrap().task
    }

    fn rendered(
        task: &Task,
        detail: Option<&str>,
        fields: &Fields,
        checks: &Verification,
    ) -> RenderedPrompt {
        let run = PastRun {
            epoch: 1,
            outcome: Some(Outcome::NeedsPerson),
            detail: detail.map(str::to_owned),
            worker: "w".to_owned(),
            node: None,
            agent: None,
            session: None,
            class: None,
            signature: None,
            head: None,
            level: None,
            tokens: 0,
            cost_micros: 0,
            started_at: Instant(0),
            ended_at: None,
            input_tokens: 0,
            output_tokens: 0,
        };
        let past = [&run];
        let brief = Brief {
            task,
            role: "worker",
            template: for_role("worker"),
            fields,
            past: &past,
            resumes: detail.is_some(),
            answered: Vec::new(),
            context: String::new(),
        };
        for_run(&Prompts::default(), &brief, checks).expect("it is told")
    }

    #[test]
    fn an_agent_that_goes_on_is_told_what_people_said() {
        let note = Fields::from_iter([("note".to_owned(), Value::from("take the green one"))]);
        let (task, checks) = (task(""), Verification::default());
        let RenderedPrompt { text, template, .. } =
            rendered(&task, Some("which one?"), &note, &checks);
        assert_eq!(template, "again");
        let failure = fence("Attempt 1 ended with needs_person: which one?");
        assert!(text.contains("task t7") && text.contains(&failure), "{text}");
        assert!(text.contains(&fence("take the green one")), "{text}");
        let RenderedPrompt { text, .. } =
            rendered(&task, Some("which one?"), &Fields::new(), &checks);
        assert!(!text.contains("was said") && !text.contains('{'), "{text}");
    }

    #[test]
    fn whatever_is_too_long_is_cut_inside_of_its_marks_and_told() {
        let task = task(&"a line of the body\n".repeat(13_000));
        let note = Fields::from_iter([("note".to_owned(), Value::from("n".repeat(100_000)))]);
        let commands = (0..9_000).map(|at| format!("make check-{at}")).collect();
        let checks = Verification { commands, ..Verification::default() };
        let RenderedPrompt { text, cuts, .. } = rendered(&task, None, &note, &checks);
        assert!(text.len() <= limits::PROMPT_BYTES, "{}", text.len());
        assert!(text.len() > limits::PROMPT_BYTES - 3_000, "{}", text.len());
        let names: Vec<&str> = cuts.iter().map(|cut| cut.part).collect();
        assert_eq!(names, ["the text of the task", "the rules", "what was said about the work"]);
        for cut in &cuts {
            assert!(text.contains(&format!("- {}\n", cut.describe())), "{}", cut.part);
        }
        assert_eq!(text.matches("<data ").count(), 1 + text.matches("</data ").count());
        assert!(text.contains(TASK_TOOL));
    }
}
