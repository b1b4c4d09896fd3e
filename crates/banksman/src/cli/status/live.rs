//! The live view of `status`: redraws in place when something has changed, at most twice a second.
//!
//! It reads keys, so the terminal does not echo them meanwhile; on exit it restores the terminal.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant as Moment};

use anstyle::Style;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::{Home, StatusPage, heartbeats, home, text};
use crate::cli::context::Context;
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::clock;
use crate::ops::status::{StatusSummary, summary};
use crate::store::Store;
use crate::store::conn::{Waited, WakeMark};

/// The poll interval, which limits redraws to two per second.
const TICK: Timespec = Timespec { tv_sec: 0, tv_nsec: 500_000_000 };
/// The store is read again after this time even without a notification.
const STORE_INTERVAL: Duration = Duration::from_secs(5);
/// Counting files is slow, so it is done less often.
const HOME_INTERVAL: Duration = Duration::from_secs(60);

/// Switches to the alternate screen without a cursor, and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

pub(super) fn watch(context: &Context, store: &Store) -> Result<Exit, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).map_err(Failure::Output)?;
    }
    let mut view = View::new(store)?;
    let _screen = Screen::enter()?;
    while !stop.load(Ordering::Relaxed) {
        view.refresh(context, store)?;
        if quit_requested()? {
            break;
        }
    }
    Ok(Exit::Done)
}

/// What was read, and what is on the screen.
struct View {
    mark: WakeMark,
    summary: StatusSummary,
    read_at: Moment,
    home: Option<(Home, Moment)>,
    drawn: String,
}

impl View {
    fn new(store: &Store) -> Result<Self, Failure> {
        let mark = store.mark();
        let summary = summary(store)?;
        Ok(Self { mark, summary, read_at: clock::monotonic(), home: None, drawn: String::new() })
    }

    /// Redraws if something has changed.
    fn refresh(&mut self, context: &Context, store: &Store) -> Result<(), Failure> {
        let now = clock::monotonic();
        let has_changed = store.wait(self.mark, Duration::ZERO) == Waited::Notified;
        if has_changed || now.duration_since(self.read_at) > STORE_INTERVAL {
            self.mark = store.mark();
            self.summary = summary(store)?;
            self.read_at = now;
        }
        let known = self.home.filter(|(_, at)| now.duration_since(*at) < HOME_INTERVAL);
        let (home, at) = known.unwrap_or_else(|| (home(&context.config, &self.summary), now));
        self.home = Some((home, at));
        let summary = self.summary.clone();
        let heartbeats = heartbeats(&context.config, &summary);
        let page = StatusPage { summary, heartbeats, home };
        let shown = text(context.out.symbols, &context.config, &page, clock::now());
        let frame = frame(&shown, size());
        if frame != self.drawn {
            draw(context, &frame)?;
            self.drawn = frame;
        }
        Ok(())
    }
}

/// The lines that fit. The last line counts the hidden ones and names the key to quit.
fn frame(text: &str, (rows, columns): (usize, usize)) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let room = rows.saturating_sub(1).max(1);
    let dim = Style::new().dimmed();
    let mut frame = String::new();
    for line in lines.iter().take(room) {
        frame.push_str(&cut(line, columns));
        frame.push_str("\x1b[K\r\n");
    }
    let hidden = lines.len().saturating_sub(room);
    let more = if hidden > 0 { format!("{hidden} more lines; ") } else { String::new() };
    let foot = cut(&format!("{more}q quits"), columns);
    frame + &format!("{dim}{foot}{dim:#}\x1b[K\x1b[J")
}

/// The first characters of a line; escape sequences take no room.
fn cut(line: &str, columns: usize) -> String {
    let mut kept = String::with_capacity(line.len());
    let (mut room, mut is_escape) = (columns, false);
    for c in line.chars() {
        if c == '\x1b' {
            is_escape = true;
        }
        if is_escape {
            kept.push(c);
            is_escape = c != 'm';
        } else if room > 0 {
            kept.push(c);
            room -= 1;
        }
    }
    kept
}

/// Writes the complete frame at once over the old one, so that nothing flickers.
fn draw(context: &Context, frame: &str) -> Result<(), Failure> {
    let is_plain = context.out.color == anstream::ColorChoice::Never
        || anstream::AutoStream::choice(&io::stdout()) == anstream::ColorChoice::Never;
    let frame = if is_plain { without_colours(frame) } else { frame.to_owned() };
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(format!("\x1b[H{frame}").as_bytes());
    written.and_then(|()| stdout.flush()).map_err(Failure::Output)
}

/// Removes colours; cursor movements stay.
fn without_colours(frame: &str) -> String {
    let mut plain = String::with_capacity(frame.len());
    let mut parts = frame.split("\x1b[");
    plain.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let end = part.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(part.len());
        if part[end..].starts_with('m') {
            plain.push_str(&part[end + 1..]);
        } else {
            plain.push_str("\x1b[");
            plain.push_str(part);
        }
    }
    plain
}

fn size() -> (usize, usize) {
    match tcgetwinsize(io::stdout()) {
        Ok(size) if size.ws_row > 0 && size.ws_col > 0 => (size.ws_row.into(), size.ws_col.into()),
        Ok(_) | Err(_) => (24, 80),
    }
}

/// Waits for a key until the next poll. A closed terminal quits, too.
fn quit_requested() -> Result<bool, Failure> {
    let stdin = io::stdin();
    let mut ready = [PollFd::new(&stdin, PollFlags::IN)];
    match poll(&mut ready, Some(&TICK)) {
        Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(false),
        Ok(_) => {}
        Err(error) => return Err(Failure::Output(error.into())),
    }
    let mut keys = [0; 64];
    let read = stdin.lock().read(&mut keys).map_err(Failure::Output)?;
    const CTRL_C: u8 = 3;
    Ok(read == 0 || keys[..read].iter().any(|key| matches!(*key, b'q' | b'Q' | CTRL_C)))
}

/// The terminal while the view uses it. Dropping it restores the terminal.
struct Screen {
    before: Termios,
}

impl Screen {
    fn enter() -> Result<Self, Failure> {
        let fault = |error: rustix::io::Errno| Failure::Output(error.into());
        let before = tcgetattr(io::stdin()).map_err(fault)?;
        let mut keys = before.clone();
        // Signals stay enabled: they set a flag.
        keys.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        tcsetattr(io::stdin(), OptionalActions::Now, &keys).map_err(fault)?;
        let screen = Self { before };
        say(ENTER)?;
        Ok(screen)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A failure cannot be reported any more.
        drop(say(LEAVE));
        tcsetattr(io::stdin(), OptionalActions::Now, &self.before).unwrap_or_default();
    }
}

fn say(sequence: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(sequence.as_bytes());
    written.and_then(|()| stdout.flush()).map_err(Failure::Output)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_fits_its_terminal() {
        let text = "\x1b[34mäbc\x1b[0mdef\nsecond\nthird\n";
        let frame = frame(text, (3, 4));
        let plain = without_colours(&frame);
        assert_eq!(plain, "äbcd\x1b[K\r\nseco\x1b[K\r\n1 mo\x1b[K\x1b[J");
        assert!(frame.starts_with("\x1b[34mäbc\x1b[0md"), "{frame:?}");
    }
}
