//! Phrases a hint as what to type next.

use crate::ops::error_report::Hint;
use crate::ops::runs::WindowHost;

pub(super) fn phrase(hint: &Hint) -> String {
    let fixed = match hint {
        Hint::ListCommands => {
            "`banksman help` lists the commands, `banksman help COMMAND` explains one"
        }
        Hint::CreateStore => {
            "`banksman init` creates it; `banksman config get store` prints its location"
        }
        Hint::ChooseStore => "choose a location: --store PATH",
        Hint::CheckHome => {
            "check the home folder (`banksman config get home`) and its free disk space"
        }
        Hint::SeeUp => "`banksman status` shows its work, `banksman down` stops it",
        Hint::ContinueTask => "expected a file; to continue the task, run `banksman up`",
        Hint::GiveCursor => "give the `cursor` of a change that `banksman changes` printed",
        Hint::StartAtEnd => {
            "take the current end with `banksman changes --end`, read the tasks, then continue there"
        }
        Hint::ListTasks => "`banksman list` lists the tasks",
        Hint::ShowMoves(task) => return format!("`banksman show {task}` lists the allowed moves"),
        Hint::ShowHistory(task) => return format!("`banksman history {task}` shows what happened"),
        Hint::Why(task) => return format!("`banksman why {task}` explains what it waits for"),
        Hint::ListRuns(task) => return format!("`banksman show {task}` lists its runs"),
        Hint::LogThere(run) => return format!("run `banksman log {run}` there"),
        Hint::WaitForRun(run) => {
            return format!(
                "`banksman log {run} -f` waits for it; `banksman pulse` starts claimed runs"
            );
        }
        Hint::ShowEnd(task) => {
            return format!(
                "`banksman show {task}` shows how it ended, `banksman config get home` where logs are kept"
            );
        }
        Hint::RunInside(WindowHost::Tmux) => "run this command inside tmux",
        Hint::RunInside(WindowHost::Tabby) => {
            "run this command inside Tabby, with `tabby` on the PATH"
        }
        Hint::ReadTaskAgain => "read the task again with `banksman show ID`, then retry",
        Hint::MoveTask => "`banksman move ID STATE` makes any allowed move",
        Hint::SetField => "set a field with `--set FIELD=VALUE`",
        Hint::AskPerson => "ask a person to do this",
        Hint::ActAs(who) => return format!("identify yourself with `--as {who}`"),
        Hint::ListDecisions => "`banksman decisions` lists the open decisions",
        Hint::ShowAnswers(id) => {
            return format!("`banksman decisions show {id}` shows what each answer does");
        }
        Hint::ShowNewState(id) => {
            return format!(
                "`banksman decisions show {id}` shows the new state and the `--seen N` to answer with"
            );
        }
        Hint::AnswerWithNote(id, action) => {
            return format!("banksman decisions answer {id} {action} --note TEXT");
        }
        Hint::DropNote => "remove the note, or set a field with `--set FIELD=VALUE`",
        Hint::ListLifecycles => "`banksman lifecycle list` lists the lifecycles",
        Hint::Lint("workflow") => "fix what `banksman workflow lint FILE` reports",
        Hint::Lint(files) => return format!("fix what `banksman {files} lint` reports"),
        Hint::CheckStore => "`banksman check` and `banksman audit verify` show the details",
        Hint::ListDamaged => "`banksman check` lists the affected tasks",
        Hint::RenameProject => "choose another name: `banksman init --name NAME`",
        Hint::ReportBug => "please report it, with the output of `banksman version`",
        Hint::Text(text) => text,
    };
    fixed.to_owned()
}
