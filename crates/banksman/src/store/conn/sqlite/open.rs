//! Opens an SQLite connection: checks that the file is ours and sets it up as the driver needs it.
//!
//! A foreign file is refused before SQLite sees it, so that not even a log file appears next to it.
//! A new store gets its name only when it is complete.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use super::transaction::{Link, classify};
use crate::store::conn::error::DbError;
use crate::store::conn::migrate::{self, Migration};
use crate::store::conn::wake::WakeFile;
use crate::store::conn::{Access, Dialect, Options, Result};

/// `BNKS`, as SQLite stores it in the header of each of our files.
const APPLICATION_ID: i32 = i32::from_be_bytes(*b"BNKS");

const MAGIC: &[u8; 16] = b"SQLite format 3\0";
const HEADER_BYTES: usize = 100;
const APPLICATION_ID_AT: usize = 68;

/// Prepared statements cached per connection; more than the program has.
const CACHED_STATEMENTS: usize = 512;

/// The log is truncated to this after a checkpoint, so that one large burst does not keep the space
/// forever.
const LOG_BYTES_KEPT: i64 = 64 * 1024 * 1024;

/// Opens a store, and creates it if there is no file. Returns the writer's link.
pub(super) fn open(
    path: &Path,
    options: &Options,
    migrations: &[Migration],
) -> Result<(Link, WakeFile)> {
    match File::open(path) {
        Ok(file) => check_header(path, file)?,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            make_store(path, options.busy_timeout, migrations)?;
        }
        Err(error) => return Err(file_error(path, error)),
    }
    // SQLite follows links to find its own side files, so ours must be next to the same real file.
    let real = fs::canonicalize(path).map_err(|error| file_error(path, error))?;
    let wake_file = WakeFile::open(&real).map_err(|error| file_error(path, error))?;
    let connection = ready(&real, options.busy_timeout, migrations)?;
    Ok((Link::new(connection, real, Access::Write), wake_file))
}

/// Opens an existing file and makes it a store if it is not one yet.
fn ready(path: &Path, busy_timeout: Duration, migrations: &[Migration]) -> Result<Connection> {
    let mut connection = connect(path, busy_timeout, Access::Write)?;
    claim(&mut connection, path)?;
    use_log(&connection, path)?;
    apply_migrations(&mut connection, path, migrations)?;
    Ok(connection)
}

/// Creates a store under a temporary name and renames it when it is complete. A store is therefore
/// never seen incomplete, and a failure removes nothing that another process may have opened.
fn make_store(path: &Path, busy_timeout: Duration, migrations: &[Migration]) -> Result<()> {
    let folder =
        path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder).map_err(|error| file_error(path, error))?;
    let draft = make_draft(path).map_err(|error| file_error(path, error))?;
    let made = ready(&draft, busy_timeout, migrations).and_then(|connection| {
        close(connection, path)?;
        publish(&draft, path, folder).map_err(|error| file_error(path, error))
    });
    // A draft that cannot be removed is harmless, and the error that matters more is about to be
    // reported.
    drop(fs::remove_file(&draft));
    made
}

/// Creates an empty file that nothing else uses.
fn make_draft(path: &Path) -> io::Result<PathBuf> {
    const ATTEMPTS: u32 = 100;
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    for attempt in 0..ATTEMPTS {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".new-{}-{attempt}", process::id()));
        match options.open(&name) {
            Ok(_) => return Ok(PathBuf::from(name)),
            // Another thread creates the same store, or a process with our pid died here long ago.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}

/// Closing moves the log into the file and removes the log.
fn close(connection: Connection, path: &Path) -> Result<()> {
    connection.close().map_err(|(_, error)| open_error(path, error))
}

fn publish(draft: &Path, path: &Path, folder: &Path) -> io::Result<()> {
    match fs::hard_link(draft, path) {
        Ok(()) => {}
        // Another process was faster, and its store is as good as ours.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(()),
        Err(error) => return Err(error),
    }
    // Without this a power failure could lose the name of a file whose content was flushed.
    File::open(folder)?.sync_all()
}

/// Refuses foreign files. Our application id is in the file itself from its first page on (see
/// [`claim`]), never only in the log, so the header is enough.
fn check_header(path: &Path, file: File) -> Result<()> {
    let is_folder = file.metadata().is_ok_and(|metadata| metadata.is_dir());
    let mut header = Vec::with_capacity(HEADER_BYTES);
    if is_folder {
        return Err(DbError::NotADatabase { path: path.to_owned() });
    }
    file.take(HEADER_BYTES as u64)
        .read_to_end(&mut header)
        .map_err(|error| file_error(path, error))?;
    if header.is_empty() {
        return Ok(());
    }
    if !header.starts_with(MAGIC) {
        return Err(DbError::NotADatabase { path: path.to_owned() });
    }
    let Some(id) = header.get(APPLICATION_ID_AT..HEADER_BYTES).and_then(|tail| tail.first_chunk())
    else {
        return Err(DbError::Corrupt { target: path.display().to_string() });
    };
    refuse_foreign(path, i32::from_be_bytes(*id))
}

fn refuse_foreign(path: &Path, application_id: i32) -> Result<()> {
    if application_id == APPLICATION_ID {
        return Ok(());
    }
    Err(DbError::Foreign { path: path.to_owned(), application_id: application_id.into() })
}

fn file_error(path: &Path, error: io::Error) -> DbError {
    match error.kind() {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            DbError::ReadOnly { path: path.to_owned() }
        }
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            DbError::Full { operation: format!("make `{}`", path.display()) }
        }
        _ => DbError::Open { target: path.display().to_string(), source: Arc::new(error) },
    }
}

/// Opens a connection and applies per-connection settings.
pub(super) fn connect(path: &Path, busy_timeout: Duration, access: Access) -> Result<Connection> {
    let mode = match access {
        Access::Write => OpenFlags::SQLITE_OPEN_READ_WRITE,
        Access::Read => OpenFlags::SQLITE_OPEN_READ_ONLY,
    };
    let set_up = || -> Result<Connection, rusqlite::Error> {
        let mut connection =
            Connection::open_with_flags(path, mode | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
        connection.set_prepared_statement_cache_capacity(CACHED_STATEMENTS);
        // Keeps a statement's plan independent of its parameters; otherwise SQLite recompiles those
        // with a LIMIT or a partial index at every use.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        connection.busy_handler(Some(retry_busy(busy_timeout)))?;
        connection.pragma_update(None, "trusted_schema", false)?;
        connection.pragma_update(None, "cell_size_check", true)?;
        connection.pragma_update(None, "foreign_keys", true)?;
        match access {
            Access::Write => {
                connection.pragma_update(None, "synchronous", "FULL")?;
                connection.pragma_update(None, "temp_store", "MEMORY")?;
                connection.pragma_update(None, "journal_size_limit", LOG_BYTES_KEPT)?;
            }
            Access::Read => connection.pragma_update(None, "query_only", true)?,
        }
        Ok(connection)
    };
    let connection = set_up().map_err(|error| open_error(path, error))?;
    // SQLite silently opens a file without write permission as read-only.
    if access == Access::Write && connection.is_readonly("main").unwrap_or(true) {
        return Err(DbError::ReadOnly { path: path.to_owned() });
    }
    Ok(connection)
}

/// Retries for a lock until the timeout. SQLite's own handler soon retries only ten times a second
/// and could miss every gap between the commits of another busy process.
fn retry_busy(busy_timeout: Duration) -> impl FnMut(i32) -> bool + Send + 'static {
    const LONGEST_PAUSE_MILLIS: u64 = 5;
    let mut began = Instant::now();
    move |tries| {
        if tries == 0 {
            began = Instant::now();
        }
        if began.elapsed() >= busy_timeout {
            return false;
        }
        let pause = u64::try_from(tries).unwrap_or_default().clamp(1, LONGEST_PAUSE_MILLIS);
        thread::sleep(Duration::from_millis(pause));
        true
    }
}

/// Writes our application id into a new file. It happens before the log is switched on, so that the
/// id is in the file itself, and in a transaction, so that only one of two processes does it.
fn claim(connection: &mut Connection, path: &Path) -> Result<()> {
    let id = |connection: &Connection| -> Result<i32, rusqlite::Error> {
        connection.pragma_query_value(None, "application_id", |row| row.get(0))
    };
    let mut claim = || -> Result<i32, rusqlite::Error> {
        let found = id(connection)?;
        if found == APPLICATION_ID {
            return Ok(found);
        }
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Exclusive)?;
        let things: i64 =
            transaction.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
        if things == 0 {
            transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        }
        let found = id(&transaction)?;
        transaction.commit()?;
        Ok(found)
    };
    let found = claim().map_err(|error| open_error(path, error))?;
    refuse_foreign(path, found)
}

/// Switches the write-ahead log on, which stays on for the file.
fn use_log(connection: &Connection, path: &Path) -> Result<()> {
    let mode: String = connection
        .pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))
        .map_err(|error| open_error(path, error))?;
    if mode == "wal" {
        return Ok(());
    }
    Err(DbError::Open {
        target: path.display().to_string(),
        source: Arc::new(io::Error::new(
            ErrorKind::Unsupported,
            "this file system cannot share memory between processes, which the write-ahead log needs",
        )),
    })
}

fn open_error(path: &Path, error: rusqlite::Error) -> DbError {
    match classify(path, "open", error) {
        DbError::Other { source, .. } => {
            DbError::Open { target: path.display().to_string(), source }
        }
        known => known,
    }
}

/// Applies the migrations that the store lacks. A store that is up to date costs one read of its
/// header.
fn apply_migrations(
    connection: &mut Connection,
    path: &Path,
    migrations: &[Migration],
) -> Result<()> {
    let found = schema_version(connection).map_err(|error| open_error(path, error))?;
    for migration in migrate::due(migrations, found)? {
        apply_migration(connection, path, migration).map_err(|error| migration.failed(error))?;
    }
    Ok(())
}

fn apply_migration(connection: &mut Connection, path: &Path, migration: &Migration) -> Result<()> {
    let mut take = || -> Result<(), rusqlite::Error> {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Exclusive)?;
        // Another process may have applied the step while we waited for the lock.
        if schema_version(&transaction)? >= migration.version {
            return Ok(());
        }
        for statement in migration.statements(Dialect::Sqlite) {
            transaction.execute_batch(&statement)?;
        }
        transaction.pragma_update(None, "user_version", migration.version)?;
        transaction.commit()
    };
    take().map_err(|error| classify(path, "run its statements", error))
}

fn schema_version(connection: &Connection) -> Result<i64, rusqlite::Error> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}
