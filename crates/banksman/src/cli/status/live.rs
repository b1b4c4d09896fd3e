//! The live view of `status`: redraws in place when something has changed, at most twice a second.
//!
//! It reads keys, so the terminal does not echo them meanwhile; on exit it restores the terminal.

use std::io::{self, Write};
use std::time::{Duration, Instant as Moment};

use anstream::adapter::strip_str;
use anstyle::Style;
use rustix::termios::tcgetwinsize;

use super::text;
use crate::cli::terminal::{CTRL_C, Keys, Pressed};
use crate::cli::{Context, Exit, Failure, Result};
use crate::clock;
use crate::ops::Session;
use crate::ops::status::{self, StatusPage};
use crate::store::conn::{Waited, WakeMark};

/// The store is read again after this time even without a notification.
const STORE_INTERVAL: Duration = Duration::from_secs(5);
/// Counting files is slow, so it is done less often.
const HOME_INTERVAL: Duration = Duration::from_secs(60);

/// Switches to the alternate screen without a cursor, and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

pub(super) fn watch(context: &Context, session: &Session) -> Result<Exit> {
    let mut view = View::new(context, session)?;
    let keys = Keys::new()?;
    let _screen = Screen::enter()?;
    loop {
        view.refresh(context, session)?;
        match keys.wait()? {
            Pressed::Key(b'q' | b'Q' | CTRL_C) | Pressed::Closed => return Ok(Exit::Done),
            Pressed::Key(_) | Pressed::Nothing => {}
        }
    }
}

/// What was read, and what is on the screen.
struct View {
    mark: WakeMark,
    page: StatusPage,
    store_read_at: Moment,
    home_read_at: Moment,
    drawn: String,
}

impl View {
    fn new(context: &Context, session: &Session) -> Result<Self> {
        let (mark, now) = (session.mark(), clock::monotonic());
        let page = status::page(session, &context.config.agents)?;
        Ok(Self { mark, page, store_read_at: now, home_read_at: now, drawn: String::new() })
    }

    /// Redraws if something has changed.
    fn refresh(&mut self, context: &Context, session: &Session) -> Result<()> {
        let (now, agents) = (clock::monotonic(), &context.config.agents);
        let has_changed = session.wait(self.mark, Duration::ZERO) == Waited::Notified;
        if has_changed || now.duration_since(self.store_read_at) > STORE_INTERVAL {
            self.mark = session.mark();
            self.page.summary = status::summary(session)?;
            self.store_read_at = now;
        }
        if now.duration_since(self.home_read_at) >= HOME_INTERVAL {
            self.page.home = status::home_use(agents, &self.page.summary);
            self.home_read_at = now;
        }
        self.page.job_statuses = status::job_statuses(agents, &self.page.summary);
        let shown = text(context.out.symbols, &context.config, &self.page, clock::now());
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
    let shown: String = lines.iter().take(room).map(|line| cut(line, columns) + "\n").collect();
    let hidden = lines.len().saturating_sub(room);
    let more = if hidden > 0 { format!("{hidden} more lines; ") } else { String::new() };
    let foot = cut(&format!("{more}q quits"), columns);
    shown + &format!("{dim}{foot}{dim:#}")
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
fn draw(context: &Context, frame: &str) -> Result<()> {
    let is_plain = context.out.color == anstream::ColorChoice::Never
        || anstream::AutoStream::choice(&io::stdout()) == anstream::ColorChoice::Never;
    let frame = if is_plain { strip_str(frame).to_string() } else { frame.to_owned() };
    // Each line clears the rest of its old one, and the last line everything below.
    say(&format!("\x1b[H{}\x1b[K\x1b[J", frame.replace('\n', "\x1b[K\r\n")))
}

fn size() -> (usize, usize) {
    match tcgetwinsize(io::stdout()) {
        Ok(size) if size.ws_row > 0 && size.ws_col > 0 => (size.ws_row.into(), size.ws_col.into()),
        Ok(_) | Err(_) => (24, 80),
    }
}

/// The alternate screen. Dropping it restores the normal one.
struct Screen;

impl Screen {
    fn enter() -> Result<Self> {
        say(ENTER).map(|()| Self)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A failure cannot be reported any more.
        drop(say(LEAVE));
    }
}

fn say(sequence: &str) -> Result<()> {
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
        assert_eq!(strip_str(&frame).to_string(), "äbcd\nseco\n1 mo");
        assert!(frame.starts_with("\x1b[34mäbc\x1b[0md"), "{frame:?}");
    }
}
