//! In the place of `wasm`, in servers that are built without it.
//!
//! Owns: saying so. Loads nothing.

use std::sync::Arc;

use lamna_config::service::WasmSettings;
use lamna_filter::Make;

/// Refuses.
///
/// # Errors
/// Always: what to do.
pub(super) fn load(_: &WasmSettings) -> Result<(Arc<dyn Make>, String), String> {
    Err("this server is built without WebAssembly: build it with `--features wasm`".to_owned())
}
