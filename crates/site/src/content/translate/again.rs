//! New heads for a target that is known.
//!
//! Owns: building the heads of files again, where heads are not kept. Looks at no file.

use std::sync::Arc;

use lamna_config::route::headers::IMMUTABLE;
use lamna_io::file_state::Stamp;
use lamna_proto::resource::{HeadTooLong, Representation, Resource, Variants};

use super::{CommonMetadata, Content, State, Translation};
use crate::cache::Entry;

impl Translation<'_> {
    /// `known`, which is fresh, with the heads of its files built again.
    pub fn describe_again(&self, known: &Arc<Entry>) -> Arc<Entry> {
        let Resource { status, variants, .. } = &*known.resource;
        let Entry { stamps, .. } = &**known;
        // What was filtered is not described by the state of its file.
        let is_of = |(one, stamp): (&Arc<Representation>, &Stamp)| one.state.version == stamp.version();
        let is_of_files = variants.all().count() == stamps.files.len() && variants.all().zip(&stamps.files).all(is_of);
        if !is_of_files || known.script().is_some() {
            return known.clone();
        }
        let vary = (stamps.files.len() > 1).then_some("Accept-Encoding");
        let again = |(one, stamp): (&Arc<Representation>, &Stamp)| {
            // It may stand for other paths than this.
            let is_immutable = memchr::memmem::find(one.fields_kept(), IMMUTABLE.as_bytes()).is_some();
            let kind =
                CommonMetadata { media_type: one.media_type(), vary, status: *status, is_immutable, fields: &[] };
            let state = State { coding: one.coding, stamp: *stamp, is_steady: stamps.settled };
            let content = match &one.file {
                Some(file) => Content::In(file.clone()),
                None => Content::Held(one.content().unwrap_or_default()),
            };
            self.describe(&state, &kind, content).map(Arc::new)
        };
        let described: Result<Vec<_>, HeadTooLong> = variants.all().zip(&stamps.files).map(again).collect();
        // Its head was short enough before.
        let Ok(mut described) = described else { return known.clone() };
        let variants = match described.len() {
            1 => Variants::One(described.remove(0)),
            _ => Variants::Coded(described.into()),
        };
        self.entry(Resource { status: *status, variants, query_follows: false }, stamps.clone())
    }
}
