//! The `lamna` program: reads the command line and hands over to the libraries.

mod args;
mod ctl;
mod exit;
mod laboratory;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use lamna_server::admin::office::Administration;
use lamna_server::admin::{Admin, AdminAddress};
use lamna_server::config::settings::Settings;
use lamna_server::config::{self, ConfigError};
use lamna_server::sys::allocator::Allocator;
use lamna_server::{listen, upgrade};

use args::{Cli, Command, ServeArgs};
use exit::{Exit, Failed};

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match &cli.command {
        Some(Command::Serve(args)) => serve(args),
        Some(Command::Check(args)) => check(args),
        Some(Command::Ctl(args)) => ctl::run(args),
        Some(Command::Lab(args)) => laboratory::run(None, args),
        Some(Command::Load(args)) => laboratory::run(Some("load"), args),
        Some(Command::Replay(args)) => laboratory::run(Some("replay"), args),
        Some(Command::Sim(args)) => laboratory::run(Some("sim"), args),
        Some(Command::Tune(args)) => laboratory::run(Some("tune"), args),
        None => serve(&cli.serve),
    };
    let exit = result.map_or_else(report, |()| Exit::Done);
    exit.into()
}

fn report(failed: Failed) -> Exit {
    // With standard error closed, the exit code has to do.
    _ = writeln!(io::stderr(), "{}", failed.report);
    failed.exit
}

fn serve(args: &ServeArgs) -> Result<(), Failed> {
    let mut heritage = upgrade::heritage()?;
    let settings = load(args)?;
    warn(&settings);
    let listeners = match &mut heritage {
        Some(heritage) => std::mem::take(&mut heritage.listeners),
        None => listen::bind(&settings.listen)?,
    };
    let admin = match heritage.as_mut().and_then(|heritage| heritage.admin.take()) {
        Some(listener) => Admin::inherit(listener).map_err(lamna_server::ServeError::from)?,
        None => open_admin(args.admin.as_ref())?,
    };
    let again = args.clone();
    let reload = move || load(&again).map_err(|error| error.to_string());
    let administration = Administration::new(admin, settings.clone(), Box::new(reload));
    Ok(lamna_server::serve(&settings, listeners, administration, heritage)?)
}

/// The endpoint. One that nobody asked for, and that cannot be had, does not keep a server from serving.
fn open_admin(asked: Option<&AdminAddress>) -> Result<Admin, Failed> {
    match (asked, Admin::open(asked.unwrap_or(&AdminAddress::Found))) {
        (_, Ok(admin)) => {
            if let (Some(_), Some(address)) = (asked, admin.address()) {
                eprintln!("lamna: control at {address}");
            }
            Ok(admin)
        }
        (Some(_), Err(error)) => Err(error.into()),
        (None, Err(error)) => {
            eprintln!("lamna: `lamna ctl` will not find this server: {error}");
            Ok(Admin::default())
        }
    }
}

fn check(args: &ServeArgs) -> Result<(), Failed> {
    let settings = config::check(args.config.as_deref(), &args.overrides())?;
    warn(&settings);
    Ok(io::stdout().write_all(config::render(&settings).as_bytes())?)
}

/// Says what in the settings will not do what was probably meant.
fn warn(settings: &Settings) {
    for doubt in config::doubts(settings) {
        eprintln!("lamna: warning: {doubt}");
    }
}

fn load(args: &ServeArgs) -> Result<Settings, ConfigError> {
    config::load(args.config.as_deref(), &args.overrides())
}
