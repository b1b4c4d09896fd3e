//! A model server on loopback that plays a scenario, so that the real agents can be run without a
//! network.
//!
//! It speaks HTTP/1.1 with one request for each connection, in the dialect that the path of the
//! request belongs to. A request without tools is not part of the conversation (a title, a count)
//! and gets a plain answer.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::Value;

use super::dialects::{Answer, Dialect};

const BODY_BYTES: usize = 32 * 1024 * 1024;
const HEAD_LINES: usize = 200;
const HEAD_LINE_BYTES: u64 = 64 * 1024;
const CONNECTIONS: usize = 1000;
/// Longer than any agent takes to its first request.
const PATIENCE: Duration = Duration::from_secs(90);

/// What the model does when it is asked the next time. The last one is repeated for ever.
#[derive(Debug, Clone)]
pub(super) enum Reply {
    Text(String),
    Call(Call),
    /// Too many requests in this minute.
    RateLimited,
    /// Nothing more for so many seconds, and the agent is told to wait for as long.
    Wait(i64),
    /// Nothing more from this plan until then, in seconds since 1970.
    PlanLimit(i64),
    /// The key is not known.
    Refused,
    Unavailable,
    /// Takes the request and says nothing.
    StallInHeaders,
    /// Begins to answer and stops.
    StallInStream,
    /// Begins to answer and closes the connection.
    Cut,
}

/// A tool that the model wants to be run.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) name: String,
    /// OpenAI's way to tell the tools of different servers apart.
    pub(super) namespace: Option<String>,
    pub(super) input: Input,
}

#[derive(Debug, Clone)]
pub(super) enum Input {
    Json(Value),
    /// A tool that takes a text in a grammar of its own.
    Plain(String),
}

impl Reply {
    pub(super) fn text(text: &str) -> Self {
        Self::Text(text.to_owned())
    }

    pub(super) fn call(name: &str, input: Value) -> Self {
        Self::Call(Call { name: name.to_owned(), namespace: None, input: Input::Json(input) })
    }
}

/// A request as it came in.
#[derive(Debug, Clone)]
pub(super) struct Recorded {
    pub(super) path: String,
    pub(super) body: Value,
}

pub(super) struct ModelServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    listening: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    scenario: Vec<Reply>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    stopped: bool,
    /// Requests of the conversation.
    turns: Vec<Recorded>,
    streams: Vec<TcpStream>,
}

impl ModelServer {
    pub(super) fn start(scenario: Vec<Reply>) -> Self {
        assert!(!scenario.is_empty(), "a model says something");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared { scenario, ..Shared::default() });
        let theirs = Arc::clone(&shared);
        let listening = Some(thread::spawn(move || listen(&listener, &theirs)));
        Self { address, shared, listening }
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The requests of the conversation so far.
    pub(super) fn turns(&self) -> Vec<Recorded> {
        self.shared.state().turns.clone()
    }

    /// Waits until the conversation has had so many requests.
    pub(super) fn wait_for_turns(&self, wanted: usize) {
        let state = self.shared.state();
        let is_waiting = |state: &mut State| state.turns.len() < wanted;
        let (state, waited) =
            self.shared.changed.wait_timeout_while(state, PATIENCE, is_waiting).unwrap();
        let came = state.turns.len();
        // A lock that is held in a panic could not be taken any more to stop the server.
        drop(state);
        assert!(!waited.timed_out(), "{came} of {wanted} requests came");
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.shared.state().stopped = true;
        self.shared.changed.notify_all();
        // The listener sees that it is over when it is asked the next time.
        drop(TcpStream::connect(self.address));
        if let Some(listening) = self.listening.take() {
            drop(listening.join());
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn wait_for_the_end(&self) {
        let state = self.state();
        drop(self.changed.wait_while(state, |state| !state.stopped).unwrap());
    }

    /// Records a request of the conversation and answers with what comes next.
    fn turn(&self, request: Recorded) -> (usize, Reply) {
        let mut state = self.state();
        let number = state.turns.len();
        state.turns.push(request);
        self.changed.notify_all();
        let last = self.scenario.len() - 1;
        (number, self.scenario[number.min(last)].clone())
    }
}

fn listen(listener: &TcpListener, shared: &Arc<Shared>) {
    let mut serving = Vec::new();
    for stream in listener.incoming().take(CONNECTIONS) {
        let Ok(stream) = stream else { break };
        let mut state = shared.state();
        if state.stopped {
            break;
        }
        state.streams.extend(stream.try_clone());
        drop(state);
        let theirs = Arc::clone(shared);
        // A client that goes away in the middle is part of the game.
        serving.push(thread::spawn(move || drop(serve(stream, &theirs))));
    }
    for stream in shared.state().streams.drain(..) {
        drop(stream.shutdown(Shutdown::Both));
    }
    for thread in serving {
        drop(thread.join());
    }
}

fn serve(mut stream: TcpStream, shared: &Shared) -> io::Result<()> {
    let request = read_request(&mut BufReader::new(&stream))?;
    let has_tools = request.body["tools"].as_array().is_some_and(|tools| !tools.is_empty());
    let Some(dialect) = Dialect::of(&request.path) else {
        return Answer::not_found().write(&mut stream);
    };
    if !has_tools {
        return dialect.text(0, "ok", &request.path).write(&mut stream);
    }
    let path = request.path.clone();
    let (number, reply) = shared.turn(request);
    match reply {
        Reply::Text(text) => dialect.text(number, &text, &path).write(&mut stream),
        Reply::Call(call) => dialect.call(number, &call, &path).write(&mut stream),
        Reply::RateLimited => dialect.rate_limited().write(&mut stream),
        Reply::Wait(seconds) => dialect.wait(seconds).write(&mut stream),
        Reply::PlanLimit(resets_at) => dialect.plan_limit(resets_at).write(&mut stream),
        Reply::Refused => dialect.refused().write(&mut stream),
        Reply::Unavailable => dialect.unavailable().write(&mut stream),
        Reply::StallInHeaders => {
            shared.wait_for_the_end();
            Ok(())
        }
        Reply::StallInStream => {
            dialect.text(number, "let me see", &path).write_beginning(&mut stream)?;
            shared.wait_for_the_end();
            Ok(())
        }
        Reply::Cut => {
            dialect.text(number, "let me see", &path).write_beginning(&mut stream)?;
            stream.shutdown(Shutdown::Both)
        }
    }
}

fn read_request(input: &mut impl BufRead) -> io::Result<Recorded> {
    let first = read_line(input)?;
    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut length = 0;
    let mut is_chunked = false;
    for _ in 0..HEAD_LINES {
        let line = read_line(input)?.to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().map_err(io::Error::other)?;
        }
        is_chunked |= line.starts_with("transfer-encoding:") && line.ends_with("chunked");
    }
    let body = if is_chunked { read_chunks(input)? } else { read_bytes(input, length)? };
    Ok(Recorded { path, body: serde_json::from_slice(&body).unwrap_or_default() })
}

fn read_line(input: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    input.by_ref().take(HEAD_LINE_BYTES).read_line(&mut line)?;
    Ok(line.trim_end().to_owned())
}

fn read_bytes(input: &mut impl BufRead, length: usize) -> io::Result<Vec<u8>> {
    assert!(length <= BODY_BYTES, "a request of {length} bytes");
    let mut bytes = vec![0; length];
    input.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn read_chunks(input: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let size = usize::from_str_radix(&read_line(input)?, 16).map_err(io::Error::other)?;
        assert!(body.len() + size <= BODY_BYTES, "a request of more than {BODY_BYTES} bytes");
        body.extend(read_bytes(input, size)?);
        read_line(input)?;
        if size == 0 {
            return Ok(body);
        }
    }
}

impl Answer {
    fn write(&self, stream: &mut TcpStream) -> io::Result<()> {
        stream.write_all(self.head().as_bytes())?;
        self.parts.iter().try_for_each(|part| stream.write_all(part.as_bytes()))?;
        stream.shutdown(Shutdown::Write)
    }

    /// The head and the first part of the body.
    fn write_beginning(&self, stream: &mut TcpStream) -> io::Result<()> {
        stream.write_all(self.head().as_bytes())?;
        stream.write_all(self.parts.first().map_or("", String::as_str).as_bytes())
    }

    /// Without a length: the end of the connection is the end of the body, so a cut one is noticed
    /// only by its content.
    fn head(&self) -> String {
        let headers: String =
            self.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        format!(
            "HTTP/1.1 {} Scripted\r\ncontent-type: {}\r\nconnection: close\r\n{headers}\r\n",
            self.status, self.content_type
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATHS: [&str; 5] = [
        "/v1/messages?beta=true",
        "/v1/responses",
        "/v1/chat/completions",
        "/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse",
        "/v1beta/models/gemini-2.5-pro:generateContent",
    ];

    fn connect(server: &ModelServer, path: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(server.address).unwrap();
        let length = body.len();
        write!(stream, "POST {path} HTTP/1.1\r\nContent-Length: {length}\r\n\r\n{body}").unwrap();
        stream
    }

    fn post(server: &ModelServer, path: &str, body: &str) -> String {
        let mut answer = String::new();
        connect(server, path, body).read_to_string(&mut answer).unwrap();
        answer
    }

    const TURN: &str = r#"{"tools":[{"name":"a"}],"said":"hello"}"#;

    #[test]
    fn every_dialect_plays_the_scenario_and_repeats_its_end() {
        for path in PATHS {
            let server = ModelServer::start(vec![
                Reply::text("first"),
                Reply::call("write", serde_json::json!({ "path": "a" })),
                Reply::RateLimited,
            ]);
            let answers: Vec<String> = (0..4).map(|_| post(&server, path, TURN)).collect();
            assert!(answers[0].starts_with("HTTP/1.1 200 ") && answers[0].contains("first"));
            assert!(answers[1].contains("write"), "{path}: {}", answers[1]);
            assert!(answers[2].starts_with("HTTP/1.1 429 "), "{path}: {}", answers[2]);
            assert!(answers[3].starts_with("HTTP/1.1 429 "), "{path}: {}", answers[3]);
            assert_eq!(server.turns().len(), 4);
            assert_eq!(server.turns()[0].body["said"], "hello");
        }
    }

    #[test]
    fn requests_beside_the_conversation_do_not_move_it_on() {
        let server = ModelServer::start(vec![Reply::Refused]);
        assert!(post(&server, "/v1/messages", r#"{"messages":[]}"#).contains("ok"));
        assert!(post(&server, "/v1/models", "").starts_with("HTTP/1.1 404 "));
        assert!(server.turns().is_empty());
        assert!(post(&server, "/v1/messages", TURN).starts_with("HTTP/1.1 401 "));
    }

    #[test]
    fn a_body_may_come_in_chunks() {
        let server = ModelServer::start(vec![Reply::text("hello")]);
        let mut stream = TcpStream::connect(server.address).unwrap();
        let (left, right) = TURN.split_at(10);
        write!(stream, "POST /v1/responses HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")
            .unwrap();
        for chunk in [left, right, ""] {
            write!(stream, "{:x}\r\n{chunk}\r\n", chunk.len()).unwrap();
        }
        stream.read_to_string(&mut String::new()).unwrap();
        assert_eq!(server.turns()[0].body["said"], "hello");
    }

    #[test]
    fn a_stalled_answer_ends_with_the_server() {
        for (reply, beginning) in
            [(Reply::StallInHeaders, ""), (Reply::StallInStream, "HTTP/1.1 200")]
        {
            let server = ModelServer::start(vec![reply]);
            let mut stream = connect(&server, "/v1/messages", TURN);
            server.wait_for_turns(1);
            let mut begun = vec![0; beginning.len()];
            stream.read_exact(&mut begun).unwrap();
            assert_eq!(begun, beginning.as_bytes());
            drop(server);
            let mut rest = String::new();
            stream.read_to_string(&mut rest).unwrap();
            assert!(!rest.contains("message_stop"), "{rest}");
        }
    }
}
