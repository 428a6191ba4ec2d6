//! The means by which a server is administered as long as it lives.
//!
//! Owns: the endpoint, and the configuration that the server was started with, which may be read again. Does not answer
//! administrators (`admin_service`).

use std::time::Instant;

use lamna_config::admission;
use lamna_config::settings::{Architecture, Settings};
use lamna_tls::FileStates;

use crate::admin::Admin;
use crate::process::body::Body;
use crate::process::error::ServeError;
use crate::process::orders::ControlChannel;
use crate::process::running_engine::SwitchError;

/// Reads the configuration again, as at the start: the same file, the same command line.
pub type Load = Box<dyn Fn() -> Result<Settings, String>>;

/// How a server is administered as long as it lives.
pub struct Administration {
    /// The endpoint.
    pub admin: Admin,
    /// The state that stays the same while the endpoint is asked.
    pub start_config: StartConfig,
    /// The line to the first process of a container, if there is one.
    pub(crate) keeper: Option<ControlChannel>,
}

/// The configuration that a server was started with.
pub struct StartConfig {
    /// The configuration that is in force, before it was fitted to what this kernel can do.
    pub(super) configured: Settings,
    pub(super) load: Load,
    /// The state of the files of certificates that it names, before they were read.
    pub(super) files: FileStates,
    pub(super) started: Instant,
    /// Why the present architecture serves, if that is not because it was configured at the start.
    pub(super) why: String,
}

impl Administration {
    /// For a server that starts now with `configured`, which `load` reads again.
    pub fn new(admin: Admin, configured: Settings, load: Load) -> Administration {
        let files = FileStates::of(&configured);
        let start_config = StartConfig { configured, load, files, started: Instant::now(), why: String::new() };
        Administration { admin, start_config, keeper: None }
    }

    /// The same of a server that the first process of a container looks after ([`keeper`](crate::process::container)).
    pub fn kept(self, keeper: Option<ControlChannel>) -> Administration {
        Administration { keeper, ..self }
    }
}

impl StartConfig {
    /// Whether a process that has just read the configuration lets other clients in than this one.
    pub(crate) fn is_outdated(&self) -> bool {
        let is_the_same =
            |now: &Settings| admission::is_the_same(&self.configured, now) && self.files.judge_as(&FileStates::of(now));
        (self.load)().is_ok_and(|now| !is_the_same(&now))
    }

    /// The state of the files that `settings` name.
    ///
    /// # Errors
    /// A certificate in them that clients refuse would take the place of a good one. That is one that `body` serves,
    /// or, where processes do, one that was there when the configuration was read.
    pub(crate) fn files_of(&self, body: &dyn Body, settings: &Settings) -> Result<FileStates, SwitchError> {
        let files = FileStates::of(settings);
        let served = body.shared().and_then(|shared| shared.tls.as_ref()).map(|tls| tls.validities());
        let now = i64::try_from(lamna_sys::clock::unix_ms() / 1000).unwrap_or(i64::MAX);
        match files.worsens(served.as_ref().unwrap_or(self.files.validities()), now) {
            Some(error) => Err(SwitchError::Start(ServeError::Tls(error.into()))),
            None => Ok(files),
        }
    }

    /// This architecture serves, because that was chosen in the process whose place this one takes.
    pub(crate) fn set_chosen(&mut self, architecture: Architecture) {
        self.why = format!("{} serves because an administrator has set it", architecture.name());
    }
}
