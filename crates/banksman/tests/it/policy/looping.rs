//! An agent that goes in circles is ended, and its task waits with a summary.

use crate::engine::yard::{Yard, state};

#[test]
fn the_same_failing_call_three_times_blocks_with_a_summary() {
    let yard = Yard::new(&[]);
    let line = |text: &str| format!("printf '%s\\n' '{text}'\n");
    let call = line(r#"{"type":"tool","name":"bash","detail":"make it","id":"1"}"#);
    let failed =
        line(r#"{"type":"tool_result","id":"1","ok":false,"detail":"no rule to make it"}"#);
    let script = format!("cat >/dev/null\n{}exec sleep 600\n", format!("{call}{failed}").repeat(3));
    std::fs::write(yard.path("stubborn.sh"), script).expect("written");
    let command = format!("[\"sh\", {:?}]", yard.path("stubborn.sh").display().to_string());
    yard.set(&[("workers.scripted.command", &command)]);
    let id = yard.add("make it", &[]);
    let up = yard.up();
    yard.until("it is blocked", |store| state(store, id) == "blocked");
    up.stop();
    let task = yard.json(&["show", "t1"]);
    let question = task["fields"]["question"].as_str().expect("a question");
    assert!(question.starts_with("Loop: the same call has failed 3 times."), "{question}");
    assert!(question.contains("make it") && question.contains("no rule to make it"), "{question}");
    let runs = yard.open().past_runs(id, 10).expect("runs");
    assert_eq!(
        runs.iter().map(|run| run.class.as_deref()).collect::<Vec<_>>(),
        [Some("model_loop")]
    );
}
