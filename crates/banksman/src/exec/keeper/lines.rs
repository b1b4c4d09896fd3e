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
            let chunk = &before[..taken];
            let ends = chunk.ends_with(b"\n");
            let chunk = chunk.strip_suffix(b"\n").unwrap_or(chunk);
            self.take(chunk);
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

    fn take(&mut self, chunk: &[u8]) {
        if self.too_long || self.partial.len() + chunk.len() > STREAM_LINE_BYTES {
            self.too_long = true;
            self.partial = Vec::new();
        } else {
            self.partial.extend_from_slice(chunk);
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

    fn lines(chunks: &[&[u8]]) -> Vec<String> {
        let (mut lines, mut got) = (Lines::default(), Vec::new());
        for chunk in chunks {
            lines.push(chunk, &mut |line| got.push(line.to_owned()));
        }
        lines.finish(&mut |line| got.push(line.to_owned()));
        got
    }

    #[test]
    fn lines_are_reassembled_from_any_chunks() {
        for size in 1..12 {
            let chunks: Vec<&[u8]> = b"one\r\n\ntwo\nlast".chunks(size).collect();
            assert_eq!(lines(&chunks), ["one", "", "two", "last"], "{size} bytes each");
        }
    }

    #[test]
    fn only_the_line_that_is_too_long_is_skipped() {
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
    fn invalid_utf8_is_still_a_line() {
        assert_eq!(lines(&[b"a\xffb\n"]), ["a\u{fffd}b"]);
    }
}
