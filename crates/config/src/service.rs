//! `[[service]]`: what routes name as a filter and what can be exchanged while the server serves; and gateways that are
//! suspended.
//!
//! ```text
//! name ─> filters = [...]     a chain of the server's own filters
//!      ─> native = "x.so"     a shared object over `lamna_filter.h`, with parameters
//!      ─> wasm = "x.wasm"     a WebAssembly component of the world in `lamna_filter.wit`, with parameters and bounds
//!      ─> gateway = true      no filter, but the application of a route, by its name in `lamna ctl service list`
//!      └> none of them        nothing yet: `lamna ctl service add` says what it is
//! ```
//!
//! Owns: services as values. Their judgement is in `validate`, their text in `render`. What becomes of them while the
//! server runs is in `service`.

use std::path::PathBuf;

use lamna_filter::{Parameters, Step, is_in_table};

/// A service as it is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceDefinition {
    /// The name in routes.
    pub name: String,
    /// The kind of service, with its settings.
    pub what: What,
    /// The answer of its route while it cannot be used.
    pub on_failure: OnFailure,
    /// It is not used until it is resumed.
    pub is_suspended: bool,
}

/// The kinds of services, with their settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum What {
    /// Nothing yet.
    #[default]
    Absent,
    /// A chain of the server's own filters.
    Chain(Vec<Step>),
    /// A shared object.
    Native(NativeSettings),
    /// A WebAssembly component.
    Wasm(WasmSettings),
    /// A filter of the program that the server is a part of, under the name of the service.
    Embedded,
    /// The application of a route ([`SiteSettings::applications`](crate::settings::SiteSettings::applications)): here
    /// only to be suspended.
    Gateway,
}

/// A shared object and how it is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NativeSettings {
    /// The file.
    pub object: PathBuf,
    /// The parameters that it is given when it begins.
    pub parameters: Parameters,
    /// How much processor time one call may take, in milliseconds.
    pub time_max_ms: u64,
}

/// A WebAssembly component and what it may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WasmSettings {
    /// The file: a component, or a module with the exports of one.
    pub component: PathBuf,
    /// The parameters that it is given when it begins.
    pub parameters: Parameters,
    /// How much processor time one call may take, in milliseconds.
    pub time_max_ms: u64,
    /// How much memory each stream may have.
    pub memory_bytes_max: u64,
    /// How many instructions one call may take, about.
    pub fuel_max: u64,
}

/// The answer of a route while a service of it cannot be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// 503.
    #[default]
    Error,
    /// The content without what the service makes of it.
    Pass,
}

impl OnFailure {
    /// Its name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            OnFailure::Error => "error",
            OnFailure::Pass => "pass",
        }
    }
}

impl What {
    /// The kind of service, in a word.
    pub fn kind(&self) -> &'static str {
        match self {
            What::Absent => "absent",
            What::Chain(_) => "chain",
            What::Native(_) => "native",
            What::Wasm(_) => "wasm",
            What::Embedded => "embedded",
            What::Gateway => "gateway",
        }
    }
}

/// The most services of a server.
pub const SERVICES_MAX: usize = 64;
/// The longest name.
const NAME_BYTES_MAX: usize = 64;
/// Checks the name of a service.
///
/// # Errors
/// A sentence.
pub fn check_name(name: &str) -> Result<(), String> {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_');
    let shown = name.escape_debug();
    match name {
        _ if is_in_table(name) => Err(format!("`{shown}` is a filter of the server: give the service another name")),
        _ if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(fits) => {
            Err(format!("`{shown}` is not a name of 1 to {NAME_BYTES_MAX} of a-z, 0-9, - and _"))
        }
        _ => Ok(()),
    }
}
