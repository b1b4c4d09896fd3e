//! Splits a byte stream into lines, whatever its chunks. Lines that are too long are skipped.

use std::io::BufRead;

use banksman_core::limits::STREAM_LINE_BYTES;

/// The buffer size that stays allocated between lines.
const USUAL_LINE_BYTES: usize = 64 * 1024;

#[derive(Debug, Default)]
pub struct Lines {
    partial: Vec<u8>,
    too_long: bool,
}

impl Lines {
    pub fn push(&mut self, mut bytes: &[u8], each: &mut dyn FnMut(&str)) {
        while !bytes.is_empty() {
            let before = bytes;
            let taken = bytes.skip_until(b'\n').expect("a slice can always be read");
            let piece = &before[..taken];
            let ends = piece.ends_with(b"\n");
            let piece = piece.strip_suffix(b"\n").unwrap_or(piece);
            self.take(piece);
            if ends {
                self.end(each);
            }
        }
    }

    /// Ends the stream; text after the last line ending counts as a line.
    pub fn finish(&mut self, each: &mut dyn FnMut(&str)) {
        if !self.partial.is_empty() || self.too_long {
            self.end(each);
        }
    }

    fn take(&mut self, piece: &[u8]) {
        if self.too_long || self.partial.len() + piece.len() > STREAM_LINE_BYTES {
            self.too_long = true;
            self.partial = Vec::new();
        } else {
            self.partial.extend_from_slice(piece);
        }
    }

    fn end(&mut self, each: &mut dyn FnMut(&str)) {
        if !self.too_long {
            let line = self.partial.strip_suffix(b"\r").unwrap_or(&self.partial);
            each(&String::from_utf8_lossy(line));
        }
        self.too_long = false;
        self.partial.clear();
        self.partial.shrink_to(USUAL_LINE_BYTES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(pieces: &[&[u8]]) -> Vec<String> {
        let (mut lines, mut got) = (Lines::default(), Vec::new());
        for piece in pieces {
            lines.push(piece, &mut |line| got.push(line.to_owned()));
        }
        lines.finish(&mut |line| got.push(line.to_owned()));
        got
    }

    #[test]
    fn lines_come_out_whole_however_they_were_cut() {
        for size in 1..12 {
            let pieces: Vec<&[u8]> = b"one\r\n\ntwo\nlast".chunks(size).collect();
            assert_eq!(lines(&pieces), ["one", "", "two", "last"], "{size} bytes each");
        }
    }

    #[test]
    fn a_line_that_is_too_long_is_passed_over_alone() {
        let long = vec![b'x'; STREAM_LINE_BYTES + 1];
        assert_eq!(lines(&[b"a\n", &long, b"tail\nb\n"]), ["a", "b"]);
        let longest = vec![b'x'; STREAM_LINE_BYTES];
        assert_eq!(lines(&[&longest, b"\nb"]).len(), 2);
    }

    #[test]
    fn the_buffer_does_not_stay_large() {
        let mut kept = Lines::default();
        kept.push(&vec![b'x'; STREAM_LINE_BYTES], &mut |_| {});
        kept.push(b"\n", &mut |_| {});
        assert!(kept.partial.capacity() <= USUAL_LINE_BYTES);
    }

    #[test]
    fn what_is_not_unicode_is_still_a_line() {
        assert_eq!(lines(&[b"a\xffb\n"]), ["a\u{fffd}b"]);
    }
}
