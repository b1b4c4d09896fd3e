//! Reads files that people name, up to a size limit, and writes files completely or not at all.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use super::{Failure, Result};
use crate::plain_file::text_of;

/// The file name that means standard input.
const STANDARD: &str = "-";

/// Whether a word names a YAML file and not something that is known by its name.
pub(super) fn is_yaml(word: &str) -> bool {
    let path = Path::new(word);
    path.components().count() > 1
        || path.extension().is_some_and(|end| end == "yaml" || end == "yml")
}

/// Opens a file or standard input.
pub(super) fn open(path: &Path) -> Result<Box<dyn BufRead>> {
    if path == Path::new(STANDARD) {
        return Ok(Box::new(BufReader::new(io::stdin())));
    }
    let file = File::open(path).map_err(Failure::file("open", path))?;
    Ok(Box::new(BufReader::new(file)))
}

/// Reads a file or standard input, which must be UTF-8 and at most `at_most` bytes long.
pub(super) fn read_text(path: &Path, at_most: usize) -> Result<String> {
    text_of(open(path)?, at_most).map_err(Failure::file("read", path))
}

/// Writes a draft and renames it when it is complete, so that the old file is never half
/// overwritten. A path that is not a regular file, such as a pipe or a device, is written to
/// directly.
pub(super) fn write(path: &Path, content: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
    let failed = Failure::file("write", path);
    if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        let mut file = File::options().write(true).open(path).map_err(failed)?;
        return content(&mut file);
    }
    // A symbolic link stays; the file behind it is replaced.
    let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let mut name = real.clone().into_os_string();
    name.push(format!(".new-{}", std::process::id()));
    let draft = PathBuf::from(name);
    let fill = |file: File| {
        let mut out = BufWriter::new(file);
        content(&mut out)?;
        let file = out.into_inner().map_err(|error| failed(error.into_error()))?;
        file.sync_all().and_then(|()| fs::rename(&draft, &real)).map_err(failed)
    };
    let written = File::create(&draft).map_err(failed).and_then(fill);
    if written.is_err() {
        // The more important error is reported below, and a leftover draft does no harm.
        drop(fs::remove_file(&draft));
    }
    written
}
