//! The `lamna` program: reads the command line and hands over to the libraries.

mod args;
mod ctl;
mod exit;
mod explain;
mod import;
mod laboratory;
mod limit;
mod operators;
mod service;
mod setting_args;
mod trace;
mod usage;
mod welcome;

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use lamna_server::admin::Admin;
use lamna_server::config::access;
use lamna_server::config::address::AdminAddress;
use lamna_server::config::settings::{AdminSettings, Settings};
use lamna_server::config::{self, ConfigError};
use lamna_server::listen::{self, Listener};
use lamna_server::log::errors::{self, Level};
use lamna_server::process::administration::Administration;
use lamna_server::process::orders::ControlChannel;
use lamna_server::process::{container, upgrade};
use lamna_server::sys::allocator::Allocator;
use lamna_server::sys::credentials::{self, Account, CredentialsError};
use lamna_server::sys::terminal::read_secret;
use lamna_server::{ServeError, tls};

use args::{CheckArgs, Cli, Command, HashPasswordArgs, ServeArgs};
use exit::{Exit, Failed};

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

fn main() -> ExitCode {
    match usage::parse() {
        Err(failed) => report(failed).into(),
        Ok(Cli { command: Some(Command::Serve(args)), .. }) => keep(&args),
        Ok(Cli { command: None, serve }) => keep(&serve),
        Ok(Cli { command: Some(command), .. }) => carry_out(&command).map_or_else(report, |()| Exit::Done).into(),
    }
}

fn carry_out(command: &Command) -> Result<(), Failed> {
    match command {
        Command::Serve(args) => serve(args, None),
        Command::Check(args) => check(args),
        Command::Explain(args) => explain::run(args),
        Command::HashPassword(args) => hash_password(args),
        Command::Import(args) => import::run(args),
        Command::Limit(args) => limit::run(args),
        Command::Ctl(args) => ctl::run(args),
        Command::Lab(args) => laboratory::run(None, args),
        Command::Load(args) => laboratory::run(Some("load"), args),
        Command::Replay(args) => laboratory::run(Some("replay"), args),
        Command::CgiRunner(args) => args.run(),
        Command::Sim(args) => laboratory::run(Some("sim"), args),
        Command::Tune(args) => laboratory::run(Some("tune"), args),
    }
}

/// Prints the hash of what is read.
fn hash_password(args: &HashPasswordArgs) -> Result<(), Failed> {
    let refused = |why: &str| Failed { exit: Exit::Usage, report: format!("lamna: {why}") };
    let prompt = if args.token { "Token: " } else { "Password: " };
    let secret = read_secret(prompt)?;
    if secret.is_empty() {
        return Err(refused("there is nothing to hash: type it, or pipe it to standard input"));
    }
    let hash = match args.token {
        true => access::hash_token(&secret),
        false => access::hash_password(&secret).map_err(|why| refused(&why))?,
    };
    let line = match &args.name {
        None => hash,
        Some(name) => {
            access::check_user(name, &hash).map_err(|why| refused(&format!("this user {why}")))?;
            format!("{name}:{hash}")
        }
    };
    Ok(writeln!(io::stdout(), "{line}")?)
}

fn report(failed: Failed) -> Exit {
    // With standard error closed, the exit code has to do.
    _ = writeln!(io::stderr(), "{}", failed.report);
    failed.exit
}

/// Serves, in a process of its own if this is the first one of a container.
fn keep(args: &ServeArgs) -> ExitCode {
    let serve = |keeper| serve(args, keeper).map_or_else(report, |()| Exit::Done).code().into();
    // Statuses of processes are bytes.
    ExitCode::from(container::run(serve) as u8)
}

fn serve(args: &ServeArgs, keeper: Option<ControlChannel>) -> Result<(), Failed> {
    let mut inherited = upgrade::inherited()?;
    let settings = load(args)?;
    let mut listeners = match &mut inherited {
        Some(inherited) => inherited.listen(&settings)?,
        None => listen::bind(&settings.listen)?,
    };
    let account = become_user(&settings, &mut listeners)?;
    errors::open(&settings.error_log).map_err(|error| {
        let place = settings.error_log.file.as_deref().unwrap_or(Path::new("-")).display();
        let report = format!("lamna: cannot write the error log {place}: {error}");
        Failed { exit: Exit::Configuration, report }
    })?;
    warn(&settings);
    if let (Some(account), Err(error)) = (account, load(args)) {
        let what = format!("a reload will fail, because {account} reads the configuration then: {error}");
        errors::tell(Level::Warning, format_args!("{what}"));
    }
    let admin = match inherited.as_mut().map(|inherited| std::mem::take(&mut inherited.admin)) {
        Some(listeners) if !listeners.is_empty() => Admin::inherit(listeners, &settings.admin)?,
        _ => open_admin(&settings.admin)?,
    };
    if inherited.is_none() {
        welcome::welcome(args, &settings, &listeners);
    }
    let again = args.clone();
    let reload = move || load(&again).map_err(|error| error.to_string());
    let administration = Administration::new(admin, settings.clone(), Box::new(reload)).kept(keeper);
    Ok(lamna_server::serve(&settings, listeners, administration, inherited)?)
}

/// Becomes the user of `settings`, if there is one, and leaves the files of sockets to it. What ports below 1024 take
/// is done by then.
fn become_user(settings: &Settings, listeners: &mut [Arc<Listener>]) -> Result<Option<Account>, Failed> {
    let Some(user) = &settings.user else { return Ok(None) };
    let refused = |error: CredentialsError| Failed { exit: Exit::Configuration, report: format!("lamna: {error}") };
    let account = Account::find(user, settings.group.as_deref()).map_err(refused)?;
    if account.is_own() {
        return Ok(None);
    }
    listeners.iter().for_each(|listener| listener.give_file(account.numbers()));
    account.become_it().map_err(refused)?;
    Ok(Some(account))
}

/// The endpoint. If it was not requested and is not available, the server serves without it.
fn open_admin(settings: &AdminSettings) -> Result<Admin, Failed> {
    match (&settings.address, Admin::open(settings)) {
        (AdminAddress::At(_), Ok(admin)) => {
            admin.addresses().for_each(|address| errors::tell(Level::Info, format_args!("control at {address}")));
            Ok(admin)
        }
        (_, Ok(admin)) => Ok(admin),
        (AdminAddress::Found, Err(error)) => {
            errors::tell(Level::Warning, format_args!("`lamna ctl` will not find this server: {error}"));
            Ok(Admin::default())
        }
        (_, Err(error)) => Err(error.into()),
    }
}

fn check(args: &CheckArgs) -> Result<(), Failed> {
    if args.schema {
        return Ok(writeln!(io::stdout(), "{:#}", config::schema())?);
    }
    let args = &args.serve;
    let mut settings = config::check(args.config.as_deref(), &args.overrides(), listen::probe)?;
    if settings.user.is_some() && credentials::is_root() {
        if let Some(account) = become_user(&settings, &mut [])? {
            // Everything but the addresses is opened by that user.
            settings = config::check(args.config.as_deref(), &args.overrides(), |_| Ok(())).map_err(|error| {
                let failed = Failed::from(error);
                Failed {
                    report: format!(
                        "{}\n  This was checked as {account}, the user that the server becomes.",
                        failed.report
                    ),
                    ..failed
                }
            })?;
        }
    } else if let Some(user) = settings.user.as_deref().filter(|user| !is_own(user)) {
        errors::tell(
            Level::Warning,
            format_args!("what {user} may read and write is not known: only root can find out"),
        );
    }
    warn(&settings);
    for warning in tls::check(&settings).map_err(ServeError::Tls)? {
        errors::tell(Level::Warning, format_args!("{warning}"));
    }
    Ok(io::stdout().write_all(config::render(&settings).as_bytes())?)
}

/// Whether this is the user that runs this.
fn is_own(user: &str) -> bool {
    Account::find(user, None).is_ok_and(|account| account.is_own())
}

/// Says what in the settings will not do what was probably meant.
fn warn(settings: &Settings) {
    for warning in config::warnings(settings) {
        errors::tell(Level::Warning, format_args!("{warning}"));
    }
}

pub(crate) fn load(args: &ServeArgs) -> Result<Settings, ConfigError> {
    config::load(args.config.as_deref(), &args.overrides())
}
