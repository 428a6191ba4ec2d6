//! The `lamna` program: reads the command line and hands over to the libraries.

mod args;
mod exit;
mod lab;
mod load;
mod replay;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use lamna_server::config::settings::Settings;
use lamna_server::config::{self, ConfigError};
use lamna_server::listen;

use args::{Cli, Command, ServeArgs};
use exit::{Exit, Failed};

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match &cli.command {
        Some(Command::Serve(args)) => serve(args),
        Some(Command::Check(args)) => check(args),
        Some(Command::Load(args)) => load::load(args),
        Some(Command::Replay(args)) => replay::replay(args),
        Some(Command::Lab(command)) => lab::lab(command),
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
    let settings = load(args)?;
    let listeners = listen::bind(&settings.listen)?;
    Ok(lamna_server::serve(&settings, listeners)?)
}

fn check(args: &ServeArgs) -> Result<(), Failed> {
    let settings = load(args)?;
    Ok(io::stdout().write_all(config::render(&settings).as_bytes())?)
}

fn load(args: &ServeArgs) -> Result<Settings, ConfigError> {
    config::load(args.config.as_deref(), &args.overrides())
}
