//! Filters in shared objects (`lamna_filter.h`).
//!
//! Owns: from what is configured to what makes filters. What is loaded, and why that is sound, is in
//! `sys::native_object`. The name of what it makes has a digest of the file, so that another file is another filter
//! wherever what it made is kept.

use std::sync::Arc;

use lamna_config::service::NativeSettings;
use lamna_filter::{Content, Fault, Filter, Make};
use lamna_sys::native_object::{NativeObject, NativeStream};

use crate::service::file;

/// Loads and initialises a shared object: the factory of its filters, and their name.
///
/// # Errors
/// Why it cannot be used, in words.
pub(super) fn load(settings: &NativeSettings) -> Result<(Arc<dyn Make>, String), String> {
    let path = settings.object.display();
    let bytes = file::read(&settings.object)?;
    let name = format!("native {:016x} {:?}", file::digest(&bytes), settings.parameters);
    let parameters: Vec<(&str, &str)> = settings.parameters.iter().map(|(key, value)| (&**key, &**value)).collect();
    let object = NativeObject::load(&bytes, &parameters).map_err(|why| format!("{path}: {why}"))?;
    Ok((Arc::new(Native(object)), name))
}

#[derive(Debug)]
struct Native(NativeObject);

impl Make for Native {
    fn start(&self, content: &mut Content) -> Option<Box<dyn Filter>> {
        // It is given bytes as they are meant, under no coding.
        if !content.is_plain() {
            return None;
        }
        let (stream, media_type) = self.0.start(&content.media_type)?;
        if let Some(media_type) = media_type {
            content.media_type = media_type;
        }
        Some(Box::new(Streaming(stream)))
    }
}

struct Streaming(NativeStream);

impl Filter for Streaming {
    fn take(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
        judge(self.0.take(piece, out))
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Fault> {
        judge(self.0.finish(out))
    }
}

/// Translates the return value of a call.
fn judge(returned: i32) -> Result<(), Fault> {
    match returned {
        0 => Ok(()),
        1 => Err(Fault::Content("the service does not take this content".to_owned())),
        other => Err(Fault::Failed(format!("a call returned {other}"))),
    }
}
