//! Words a step for the agent or person that does or reviews it; the text is the same for both.

use super::{Criterion, Signal, Step, Workflow};
use crate::fence::fence;

/// The step, its inputs and outputs, when it is done, and all feedback of its gate. Foreign text is
/// fenced.
pub fn assignment(flow: &Workflow, step: &Step, retry_context: &str) -> String {
    let worktree = step.worktree.as_deref();
    let Step { id, role, name, .. } = step;
    let about = fence(&format!("{}\n\n{}", flow.name, flow.about));
    let mut text = format!("The workflow:\n\n{about}\n");
    text += &format!("\nThe step {id}, to be done as its {role}:\n\n{}\n", fence(name));
    if !step.prompt.trim().is_empty() {
        text += &format!("\n{}\n", fence(&step.prompt));
    }
    if let Some(command) = &step.run {
        text += &format!("\nRun this command; it must exit with 0:\n\n{}\n", fence(command));
    }
    let mut files = |title: &str, paths: &mut dyn Iterator<Item = &String>| {
        let lines: String =
            paths.map(|path| format!("- `{}`\n", in_worktree(worktree, path))).collect();
        if !lines.is_empty() {
            text += &format!("\n{title}\n\n{lines}");
        }
    };
    files("Read these files first:", &mut flow.context_files.iter().chain(&step.context));
    files("Inputs of the step; missing ones are not needed:", &mut step.inputs.iter());
    files("The step must produce these files:", &mut step.outputs.iter());
    match &step.criterion {
        Some(Criterion::Command(command)) => {
            text += &format!("\nThe step is done when `{command}` exits with 0.\n");
        }
        Some(Criterion::File(path)) => {
            let path = in_worktree(worktree, path);
            text +=
                &format!("\nThe step is done when the file `{path}` exists and is not empty.\n");
        }
        Some(Criterion::Judged(words)) => {
            text += &format!("\nThe step is done when this is true:\n\n{}\n", fence(words));
        }
        None => {}
    }
    if !retry_context.is_empty() {
        let said = fence(retry_context);
        text += &format!(
            "\nGates sent the step back before. Their feedback, the latest last:\n\n{said}\n"
        );
    }
    text
}

/// The findings against a report that the step is done, for its author; empty if there are none.
pub fn check_findings(found: &str) -> String {
    if found.is_empty() {
        return String::new();
    }
    format!(
        "\nThe step was reported as done, but the check found this:\n\n{}\n\nFix it, then report the step as done again.\n",
        fence(found)
    )
}

/// How to signal that the step is finished, as an instruction; empty if its end is enough.
pub fn signal(signal: &Signal) -> String {
    match signal {
        Signal::SentinelFile { path } => format!(
            "When everything is finished, and not before, write the file `{path}`: a JSON object such as {{\"status\": \"done\", \"note\": \"one sentence\"}}."
        ),
        Signal::GitCommit { mark } => {
            format!("The message of your last commit must contain `{mark}`.")
        }
        Signal::PrCreation => {
            "Push this branch, open a pull request for it, and name it in your summary. If the repository has no remote, your commits are enough."
                .to_owned()
        }
        Signal::StdoutExit => String::new(),
    }
}

/// Paths in a workflow are relative to the root of the repository; those that begin with the step's
/// worktree are inside of it.
pub fn in_worktree(worktree: Option<&str>, path: &str) -> String {
    let worktree = worktree.map(|name| name.trim_matches('/')).filter(|name| !name.is_empty());
    let inside = worktree.and_then(|name| path.strip_prefix(name)?.strip_prefix('/'));
    inside.unwrap_or(path).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_below_the_worktree_is_inside_of_it() {
        let inside = |path: &str| in_worktree(Some("phase-4/"), path);
        assert_eq!(inside("phase-4/CLAUDE.md"), "CLAUDE.md");
        assert_eq!(inside("phase-40/CLAUDE.md"), "phase-40/CLAUDE.md");
        assert_eq!(inside("docs/plan.md"), "docs/plan.md");
        assert_eq!(in_worktree(None, "phase-4/x"), "phase-4/x");
    }
}
