//! The reference pages, made from the program itself. `BANKSMAN_BLESS=1` writes them anew.

use std::env;
use std::fs;
use std::path::Path;

use banksman_core::lifecycle::contract::{
    AnswerName, ContractRow, CounterName, Field, FiredBy, Purpose, SettingName, Trigger,
};
use serde_json::Value;

use super::sandbox::Sandbox;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference");
const DEFAULTS: &str = include_str!("../../../default-config.toml");
const NOTE: &str = "<!-- Made from the program by `BANKSMAN_BLESS=1 cargo test -p banksman --test it reference`. -->";

/// Every command as its path, the program itself first.
pub(super) fn commands(sandbox: &Sandbox) -> Vec<Vec<String>> {
    let mut found: Vec<Vec<String>> = vec![Vec::new()];
    let mut next = 0;
    while let Some(path) = found.get(next).cloned() {
        let help = sandbox.ok(&[&path[..], &["-h".to_owned()]].concat());
        let listed = help
            .split_once("Commands:\n")
            .map_or("", |(_, rest)| rest.split("\n\n").next().unwrap_or_default());
        let names = listed.lines().filter_map(|line| line.split_whitespace().next());
        found.extend(names.map(|name| [&path[..], &[name.to_owned()]].concat()));
        next += 1;
    }
    found
}

fn check(name: &str, content: &str) {
    let path = Path::new(FOLDER).join(name);
    if env::var_os("BANKSMAN_BLESS").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == content,
        "docs/reference/{name} is not what the program says; run this test with BANKSMAN_BLESS=1 and look at the difference"
    );
}

#[test]
fn the_command_line() {
    let sandbox = Sandbox::empty();
    let mut page = format!("# The command line\n\n{NOTE}\n");
    for path in commands(&sandbox) {
        let words = [&["banksman".to_owned()], &path[..]].concat().join(" ");
        let help = sandbox.ok(&[&path[..], &["--help".to_owned()]].concat());
        // The options that all commands share are told once.
        let help = if path.is_empty() {
            &help
        } else {
            help.split("Global options:").next().unwrap_or_default()
        };
        let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
        page.push_str(&format!("\n## {words}\n\n```text\n{}\n```\n", lines.join("\n").trim_end()));
    }
    for topic in ["states", "formatting"] {
        page.push_str(&format!(
            "\n## banksman help {topic}\n\n```text\n{}\n```\n",
            sandbox.ok(&["help", topic]).trim_end()
        ));
    }
    check("cli.md", &page);
}

#[test]
fn the_schema_of_workflows() {
    check("workflow.schema.json", &Sandbox::empty().ok(&["workflow", "schema"]));
}

#[test]
fn the_exit_codes() {
    let topic = Sandbox::empty().ok(&["help", "exit-codes"]);
    check(
        "exit-codes.md",
        &format!("# Exit codes and error codes\n\n{NOTE}\n\n```text\n{}\n```\n", topic.trim_end()),
    );
}

#[test]
fn the_settings() {
    let environment = Sandbox::empty().ok(&["help", "environment"]);
    let (defaults, environment) = (DEFAULTS.trim_end(), environment.trim_end());
    check(
        "config.md",
        &format!(
            "# Settings\n\n{NOTE}\n\n```toml\n{defaults}\n```\n\n```text\n{environment}\n```\n"
        ),
    );
}

#[test]
fn the_built_in_lifecycles() {
    let sandbox = Sandbox::empty();
    let list = sandbox.json(&["lifecycle", "list"]);
    let mut index = format!("# The built-in lifecycles\n\n{NOTE}\n\n");
    for entry in list["lifecycles"].as_array().unwrap() {
        let name = entry["id"].as_str().unwrap();
        index.push_str(&format!(
            "- [{name}](lifecycles/{name}.md): {}\n",
            entry["about"].as_str().unwrap()
        ));
        let shown = sandbox.json(&["lifecycle", "show", name]);
        let graph = sandbox.ok(&["lifecycle", "graph", name]);
        check(&format!("lifecycles/{name}.md"), &lifecycle_page(&shown, &graph));
    }
    check("lifecycles.md", &index);
}

#[test]
fn the_contract_of_lifecycles() {
    let mut page = format!(
        "# The contract between the program and a lifecycle\n\n{NOTE}\n\n\
         `lifecycle lint` proves that a lifecycle has everything that its `purpose` demands, and that\n\
         it leaves nothing to the system that the program does not do. See\n\
         [Writing a lifecycle](../lifecycles.md).\n\n\
         ## Purposes\n\n| purpose | the engine's own lifecycle |\n| --- | --- |\n"
    );
    for purpose in Purpose::ALL {
        let own = purpose.engine_lifecycle().map_or("-".to_owned(), |id| format!("`{id}`"));
        page.push_str(&format!("| `{purpose}` | {own} |\n"));
    }
    page.push_str(&section("Triggers", "fired by", Trigger::RULES, |item| {
        let fired = item.detail();
        let needs = fired.engine().and_then(|states| states.needs);
        let needs = needs.map(|needs| format!(", {}", needs.describe().0)).unwrap_or_default();
        match fired {
            FiredBy::Engine(states) => format!("the engine, in a state {states}{needs}"),
            FiredBy::Both(states) => {
                format!("whoever may, and the engine in a state {states}{needs}")
            }
            FiredBy::Caller => "a command or signal".to_owned(),
        }
    }));
    page.push_str(&section("Fields", "type, set by", Field::RULES, |item| {
        let sources = item.sources().iter().map(|source| match source.needs() {
            Some(needs) => format!("the engine with {needs}"),
            None if item.is_record() => "the system alone".to_owned(),
            None => "whoever creates the task".to_owned(),
        });
        let mut sources: Vec<String> = sources.collect();
        if sources.is_empty() {
            sources.push("the lifecycle".to_owned());
        }
        format!("`{}`, {}", item.shape().describe(), sources.join(" or "))
    }));
    page.push_str(&section("Counters", "", CounterName::RULES, |_| String::new()));
    page.push_str(&section("Settings", "type", SettingName::RULES, |item| {
        item.detail().name.to_owned()
    }));
    page.push_str(&section("Answers", "role, effect", AnswerName::RULES, |item| {
        format!("{}, {}", item.detail().role, item.detail().effect)
    }));
    check("contract.md", &page);
}

fn section<T: Copy>(
    title: &str,
    column: &str,
    rules: &[ContractRow<T>],
    detail: impl Fn(T) -> String,
) -> String {
    let mut table = format!(
        "\n## {title}\n\n| name | {column} | used in | demanded by | meaning |\n\
         | --- | --- | --- | --- | --- |\n"
    );
    let names = |purposes: &[Purpose]| {
        if purposes.len() == Purpose::ALL.len() {
            return "every purpose".to_owned();
        }
        purposes.iter().map(|purpose| purpose.as_str()).collect::<Vec<_>>().join(", ")
    };
    for rule in rules {
        table.push_str(&format!(
            "| `{}` | {} | {} | {} | {} |\n",
            rule.name,
            detail(rule.item),
            names(rule.purposes),
            names(rule.demanded_by),
            rule.about
        ));
    }
    table
}

fn lifecycle_page(lifecycle: &Value, graph: &str) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().replace('|', "\\|");
    let mut page =
        format!("# {}\n\n{NOTE}\n\n{}\n\n", text(&lifecycle["id"]), text(&lifecycle["about"]));
    page.push_str("| state | kind | does | about |\n| --- | --- | --- | --- |\n");
    for state in lifecycle["states"].as_array().unwrap() {
        let cells = ["id", "kind", "does", "about"].map(|key| text(&state[key]));
        page.push_str(&format!(
            "| `{}` | {} | {} | {} |\n",
            cells[0], cells[1], cells[2], cells[3]
        ));
    }
    page.push_str("\n| from | to | trigger | who | after |\n| --- | --- | --- | --- | --- |\n");
    for row in lifecycle["transitions"].as_array().unwrap() {
        let cells = ["from", "to", "trigger", "within"].map(|key| text(&row[key]));
        let roles: Vec<String> = row["roles"].as_array().unwrap().iter().map(text).collect();
        page.push_str(&format!(
            "| `{}` | `{}` | {} | {} | {} |\n",
            cells[0],
            cells[1],
            cells[2],
            roles.join(", "),
            cells[3]
        ));
    }
    page.push_str(&format!("\n```mermaid\n{}\n```\n", graph.trim_end()));
    page
}
