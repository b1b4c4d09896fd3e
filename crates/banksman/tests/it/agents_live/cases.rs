//! What every agent must be able to do, and how it must look when it cannot.
//!
//! A case is the same for all agents; an [`Agent`] says how it is set up and what its tools are
//! called.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::time::{Duration, Instant};

use banksman::exec::agent::{AgentEvent, AgentKind, AgentRequest, AgentSetup, AgentUsage};
use banksman_core::receipt::{AgentReport, FaultKind, Terminal};
use banksman_core::time;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};

use super::dialects::{INPUT_TOKENS, OUTPUT_TOKENS};
use super::model_server::{ModelServer, Reply};
use super::run::{Ran, Site, ask, ask_for, is_alive, program};

pub(super) struct Agent {
    pub(super) kind: AgentKind,
    /// Which of the installed programs plays it.
    pub(super) program: AgentKind,
    /// The program, the server that it is to use, and its home.
    pub(super) setup: fn(&Path, &ModelServer, &Path) -> AgentSetup,
    /// The model's call to write a file.
    pub(super) write: fn(&Path, &str) -> Reply,
    /// The model's call to run a shell command.
    pub(super) shell: fn(&str) -> Reply,
    /// The model's call of one of our own tools.
    pub(super) tool: fn(&str, Value) -> Reply,
    /// The model's last word when an answer in a given shape was asked for.
    pub(super) answer: fn(Value) -> Reply,
}

/// The shape of a verdict, as a reviewer would have to give it.
pub(super) fn verdict_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "verdict": { "type": "string", "enum": ["good", "bad"] },
            "score": { "type": "integer" },
            "blocker": { "type": ["string", "null"] },
            "reason": { "type": "string" },
        },
        "required": ["verdict", "score", "blocker"],
        "additionalProperties": false,
    })
}

/// 2030-01-01, in seconds.
const RESET: i64 = 1_893_456_000;

/// A site, a server with a scenario, and the agent's set-up.
struct World {
    site: Site,
    server: ModelServer,
    setup: AgentSetup,
}

impl World {
    fn new(agent: &Agent, scenario: impl FnOnce(&Site) -> Vec<Reply>) -> Self {
        let program = program(agent.program);
        let site = Site::new();
        let server = ModelServer::start(scenario(&site));
        let setup = (agent.setup)(&program, &server, &site.home());
        Self { site, server, setup }
    }

    fn run(&self, ask: &AgentRequest) -> Ran {
        self.site.start(&self.setup, ask, AgentUsage::default()).finish()
    }
}

fn assert_success(ran: &Ran, text: &str) {
    let output = ran.lines.join("\n");
    assert_eq!(ran.reading.terminal, Some(Terminal::Success), "{output}");
    assert_eq!(ran.exit.code, Some(0), "{output}");
    assert_eq!(ran.reading.fault, None, "{output}");
    assert_eq!(ran.reading.text, text, "{output}");
}

fn assert_fault(ran: &Ran, kind: FaultKind) {
    let output = ran.lines.join("\n");
    let fault = ran.reading.fault.as_ref().unwrap_or_else(|| panic!("no fault was seen\n{output}"));
    assert_eq!(fault.kind, kind, "{fault:?}\n{output}");
    assert_ne!(ran.reading.terminal, Some(Terminal::Success), "{output}");
    // An agent that was asked to end may call that a good end.
    let was_asked = ran.seen.iter().any(|seen| matches!(seen, AgentEvent::Hopeless { .. }));
    assert!(was_asked || ran.exit.code != Some(0), "{output}");
}

/// It changes a file, tells of it, and counts its tokens.
pub(super) fn edit(agent: &Agent) {
    let scenario = |site: &Site| {
        let file = site.repo().join("hello.txt");
        vec![(agent.write)(&file, "hi\n"), Reply::text("done: wrote hello.txt")]
    };
    let world = World::new(agent, scenario);
    let ran = world.run(&ask("Create hello.txt with a greeting."));
    assert_success(&ran, "done: wrote hello.txt");
    let output = ran.lines.join("\n");
    let written = fs::read_to_string(world.site.repo().join("hello.txt"));
    assert_eq!(written.as_deref().ok(), Some("hi\n"), "{output}");
    let is_tool = |seen: &AgentEvent| matches!(seen, AgentEvent::Tool { detail, .. } if detail.contains("hello.txt"));
    assert!(ran.seen.iter().any(is_tool), "{:?}", ran.seen);
    assert!(ran.reading.session.is_some(), "{output}");
    let used = (ran.reading.input_tokens, ran.reading.output_tokens);
    assert_eq!(used, (2 * INPUT_TOKENS, 2 * OUTPUT_TOKENS), "{output}");
    let turns = world.server.turns();
    assert_eq!(turns.len(), 2, "{:?}", turns.iter().map(|turn| &turn.path).collect::<Vec<_>>());
    assert!(turns[0].body.to_string().contains("Create hello.txt with a greeting."));
}

/// A second run of the session knows what was said in the first, and counts only its own tokens.
pub(super) fn resume(agent: &Agent) {
    let scenario =
        |_: &Site| vec![Reply::text("I will remember 4711."), Reply::text("It is 4711.")];
    let world = World::new(agent, scenario);
    let first = world.run(&ask("Remember the number 4711."));
    assert_success(&first, "I will remember 4711.");
    let again = AgentRequest { session: first.reading.session.clone(), ..ask("Which number?") };
    let before = AgentUsage {
        input_tokens: first.reading.input_tokens,
        output_tokens: first.reading.output_tokens,
        cost_micros: first.reading.cost_micros,
    };
    let second = world.site.start(&world.setup, &again, before).finish();
    assert_success(&second, "It is 4711.");
    assert_eq!(second.reading.session, first.reading.session);
    let sent = world.server.turns().last().expect("it asked").body.to_string();
    for said in ["Remember the number 4711.", "I will remember 4711.", "Which number?"] {
        assert!(sent.contains(said), "`{said}` is not in {sent}");
    }
    for run in [&first, &second] {
        let used = (run.reading.input_tokens, run.reading.output_tokens);
        assert_eq!(used, (INPUT_TOKENS, OUTPUT_TOKENS), "{}", run.lines.join("\n"));
    }
    assert_eq!(
        first.reading.cost_micros, second.reading.cost_micros,
        "the same work costs the same"
    );
}

/// A session that nobody knows is a fault of its own: a new one has to be begun.
pub(super) fn unknown_session(agent: &Agent, id: &str) {
    let world = World::new(agent, |_| vec![Reply::text("hello")]);
    let ran = world.run(&AgentRequest { session: Some(id.to_owned()), ..ask("go on") });
    assert_fault(&ran, FaultKind::Session);
}

pub(super) fn rate_limited(agent: &Agent) {
    let world = World::new(agent, |_| vec![Reply::RateLimited]);
    assert_fault(&world.run(&ask("hello")), FaultKind::Quota);
}

/// One refusal is got over: the run succeeds and has no fault.
pub(super) fn rate_limited_once(agent: &Agent) {
    let scenario = |_: &Site| vec![Reply::RateLimited, Reply::text("here I am")];
    let world = World::new(agent, scenario);
    let ran = world.run(&ask("hello"));
    assert_success(&ran, "here I am");
    assert_eq!(world.server.turns().len(), 2);
}

/// A plan that is used up is a quota fault, with the time when it is over where the vendor tells it
/// to the agent. Most agents see that there is no use in asking again.
pub(super) fn plan_limit(agent: &Agent, told: Option<time::Instant>, requests: usize) {
    let world = World::new(agent, |_| vec![Reply::PlanLimit(RESET)]);
    let ran = world.run(&ask("hello"));
    assert_fault(&ran, FaultKind::Quota);
    assert_eq!(ran.reading.resets_at, told, "{}", ran.lines.join("\n"));
    assert_eq!(world.server.turns().len(), requests, "{}", ran.lines.join("\n"));
}

pub(super) const AT_RESET: time::Instant = time::Instant(RESET * 1000);

pub(super) fn refused(agent: &Agent) {
    let world = World::new(agent, |_| vec![Reply::Refused]);
    assert_fault(&world.run(&ask("hello")), FaultKind::Auth);
}

/// A key that is refused is not tried for minutes: the adapter sees it, and the agent is ended.
pub(super) fn refused_and_ended_early(agent: &Agent) {
    /// With its ten tries the agent would take three minutes.
    const EARLY: Duration = Duration::from_secs(20);
    let mut world = World::new(agent, |_| vec![Reply::Refused]);
    world.setup.env.insert("CLAUDE_CODE_MAX_RETRIES".to_owned(), "10".to_owned());
    let began = Instant::now();
    let ran = world.run(&ask("hello"));
    assert!(began.elapsed() < EARLY, "{:?}", began.elapsed());
    assert_fault(&ran, FaultKind::Auth);
    assert!(
        ran.seen.iter().any(|seen| matches!(seen, AgentEvent::Hopeless { .. })),
        "{:?}",
        ran.seen
    );
    assert_eq!(ran.reading.terminal, None, "it did not end by itself");
}

pub(super) fn unavailable(agent: &Agent) {
    let world = World::new(agent, |_| vec![Reply::Unavailable]);
    assert_fault(&world.run(&ask("hello")), FaultKind::Transient);
}

/// An answer that breaks off in the middle is not an answer.
pub(super) fn cut_off(agent: &Agent) {
    let world = World::new(agent, |_| vec![Reply::Cut]);
    let ran = world.run(&ask("hello"));
    assert_ne!(ran.reading.terminal, Some(Terminal::Success), "{}", ran.lines.join("\n"));
}

/// It waits for a model that says nothing more; it is killed, and nothing of it is left.
pub(super) fn stall(agent: &Agent, how: Reply) {
    let world = World::new(agent, |_| vec![how]);
    let running = world.site.start(&world.setup, &ask("hello"), AgentUsage::default());
    world.server.wait_for_turns(1);
    assert!(is_alive(&running));
    let ran = running.kill();
    assert_eq!((ran.reading.terminal, ran.exit.code), (None, None), "{}", ran.lines.join("\n"));
    assert_eq!(ran.exit.signal, Some(9));
}

/// It is killed while a tool runs. Most agents put their tools into sessions of their own, where a
/// kill of the group does not reach them; these `survivors` are found and ended all the same.
pub(super) fn killed_in_a_tool(agent: &Agent, survivors: usize) {
    let scenario = |site: &Site| {
        let gate = site.repo().join("gate");
        mknodat(CWD, &gate, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        vec![(agent.shell)(&format!("echo started > {}; sleep 300", gate.display()))]
    };
    let world = World::new(agent, scenario);
    let running = world.site.start(&world.setup, &ask("hello"), AgentUsage::default());
    let mut started = String::new();
    let mut gate = fs::File::open(world.site.repo().join("gate")).unwrap();
    gate.read_to_string(&mut started).unwrap();
    assert_eq!(started, "started\n");
    let ran = running.kill();
    assert_eq!(ran.exit.signal, Some(9), "{}", ran.lines.join("\n"));
    assert_eq!(ran.reading.terminal, None);
    // There may be more: a child that is just about to end is still there. Without `/proc` none can
    // be found.
    let found = ran.left_over;
    assert!(found >= survivors || !cfg!(target_os = "linux"), "{found} of {survivors}");
}

/// The answer comes back in the shape that was asked for.
pub(super) fn schema(agent: &Agent) {
    let answer = json!({ "verdict": "good", "score": 7, "blocker": null });
    let scenario = |_: &Site| vec![(agent.answer)(answer.clone()), Reply::text("rated")];
    let world = World::new(agent, scenario);
    let ran = world.run(&ask_for("Rate it.", verdict_schema()));
    let output = ran.lines.join("\n");
    assert_eq!(ran.reading.terminal, Some(Terminal::Success), "{output}");
    assert_eq!(ran.reading.answer, Some(answer), "{output}");
}

/// The agent finds our tools and uses one.
pub(super) fn tools(agent: &Agent) {
    let scenario = |_: &Site| {
        let report = json!({ "step": "half of it", "files": ["a.rs"] });
        vec![(agent.tool)("report_progress", report), Reply::text("reported")]
    };
    let world = World::new(agent, scenario);
    let ran =
        world.run(&AgentRequest { mcp: Some(world.site.tools()), ..ask("Report what you do.") });
    assert_success(&ran, "reported");
    let progress = AgentReport::Progress {
        step: "half of it".to_owned(),
        files: vec!["a.rs".to_owned()],
        blockers: Vec::new(),
    };
    assert_eq!(world.site.told(), [progress], "{}", ran.lines.join("\n"));
}
