//! The address of a store, as the user writes it.
//!
//! Neither `Display` nor `Debug` may show a password, and no error repeats a text that cannot be
//! parsed.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use super::Result;
use super::error::DbError;

/// The database that a store lives in.
#[derive(Clone, PartialEq, Eq)]
pub enum Target {
    /// The path of an SQLite file.
    Sqlite(PathBuf),
    /// The URL of a PostgreSQL database.
    Postgres(String),
}

impl FromStr for Target {
    type Err = DbError;

    /// Parses `PATH`, `sqlite:PATH` or a `postgres://` or `postgresql://` URL.
    fn from_str(text: &str) -> Result<Self> {
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            postgres_config(text)?;
            return Ok(Self::Postgres(text.to_owned()));
        }
        let path = match text.strip_prefix("sqlite:") {
            Some(rest) => rest.strip_prefix("//").unwrap_or(rest),
            None => text,
        };
        if path.contains("://") {
            return Err(DbError::Target { reason: "only SQLite and PostgreSQL are supported" });
        }
        if path.is_empty() || path.contains('\0') {
            return Err(DbError::Target { reason: "the path is empty or not a path" });
        }
        if path == ":memory:" {
            return Err(DbError::Target {
                reason: "a store in memory would be lost when the program ends",
            });
        }
        Ok(Self::Sqlite(PathBuf::from(path)))
    }
}

impl fmt::Display for Target {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(out, "{}", path.display()),
            Self::Postgres(url) => match postgres_config(url) {
                Ok(config) => write_postgres(out, &config),
                Err(_) => out.write_str("postgres://…"),
            },
        }
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Target({self})")
    }
}

fn write_postgres(out: &mut fmt::Formatter<'_>, config: &Config) -> fmt::Result {
    out.write_str("postgres://")?;
    if let Some(user) = config.get_user() {
        write!(out, "{user}@")?;
    }
    for (index, host) in config.get_hosts().iter().enumerate() {
        if index > 0 {
            out.write_str(",")?;
        }
        match host {
            Host::Tcp(name) => out.write_str(name)?,
            #[cfg(unix)]
            Host::Unix(path) => write!(out, "{}", path.display())?,
        }
        if let Some(port) = config.get_ports().get(index).or(config.get_ports().first()) {
            write!(out, ":{port}")?;
        }
    }
    write!(out, "/{}", config.get_dbname().unwrap_or_default())
}

/// Parses a URL and refuses one that would send secrets unencrypted over a network, unless the user
/// asks for it.
pub(super) fn postgres_config(url: &str) -> Result<Config> {
    // The parser ends the credentials at the first `@`, so an unescaped one in a password would
    // make the rest of the password part of the host name, which is displayed.
    let (_, after_credentials) = url.split_once('@').unwrap_or(("", url));
    if after_credentials.contains('@') {
        return Err(DbError::Target {
            reason: "the URL has more than one `@`; write `%40` for one inside a name or a password",
        });
    }
    // The parser's own message may quote the text, which may contain a password.
    let config = Config::from_str(url)
        .map_err(|_| DbError::Target { reason: "the PostgreSQL URL is invalid" })?;
    if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
        return Err(DbError::Target { reason: "the PostgreSQL URL names no host" });
    }
    match config.get_ssl_mode() {
        SslMode::Disable => Ok(config),
        SslMode::Prefer if is_local(&config) => Ok(config),
        SslMode::Prefer => Err(DbError::Target {
            reason: "TLS is not built in and the host is not local; use a tunnel, or add `sslmode=disable` \
                     to send everything in the clear",
        }),
        _ => Err(DbError::Target {
            reason: "TLS is not built in, so `sslmode=require` cannot be met",
        }),
    }
}

fn is_local(config: &Config) -> bool {
    let hosts_are_local = config.get_hosts().iter().all(|host| match host {
        Host::Tcp(name) => {
            name == "localhost" || name.parse().is_ok_and(|address: IpAddr| address.is_loopback())
        }
        #[cfg(unix)]
        Host::Unix(_) => true,
    });
    // If an address is given, it is what is really connected to.
    let addresses = config.get_hostaddrs();
    if addresses.is_empty() { hosts_are_local } else { addresses.iter().all(IpAddr::is_loopback) }
}
