//! The filter `substitute`: one text in the place of another.
//!
//! Owns: finding the text wherever pieces end. Holds fewer bytes than the text has. Case matters, and nothing stands
//! for anything else.

use std::sync::Arc;

use memchr::memmem::Finder;

use crate::{Content, Effect, Fault, Filter, Kind, Make, Parameters};

/// The row of the table.
pub(crate) const KIND: Kind = Kind {
    name: "substitute",
    about: "Puts one text in the place of another, in content that is text.",
    version: 1,
    effect: Effect::Words,
    required: &[("from", "The text that is looked for, as it is"), ("to", "What is put in its place; may be empty")],
    optional: &[],
    make,
};

#[derive(Debug)]
struct Substitute {
    from: Finder<'static>,
    to: Arc<[u8]>,
}

fn make(parameters: &Parameters) -> Result<Arc<dyn Make>, String> {
    let text = |name| parameters.get(name).map(String::as_str).unwrap_or_default();
    if text("from").is_empty() {
        return Err("`from` is empty".into());
    }
    Ok(Arc::new(Substitute { from: Finder::new(text("from")).into_owned(), to: text("to").as_bytes().into() }))
}

impl Make for Substitute {
    fn start(&self, content: &mut Content) -> Option<Box<dyn Filter>> {
        let filter = Substituting { from: self.from.clone(), to: self.to.clone(), unread: Vec::new() };
        (content.is_plain() && content.is_text()).then(|| Box::new(filter) as Box<dyn Filter>)
    }
}

struct Substituting {
    from: Finder<'static>,
    to: Arc<[u8]>,
    /// A possible beginning of the text.
    unread: Vec<u8>,
}

impl Filter for Substituting {
    fn take(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
        self.unread.extend_from_slice(piece);
        let mut done = 0;
        while let Some(at) = self.from.find(&self.unread[done..]) {
            out.extend_from_slice(&self.unread[done..done + at]);
            out.extend_from_slice(&self.to);
            done += at + self.from.needle().len();
        }
        let kept_max = self.from.needle().len() - 1;
        let end = done.max(self.unread.len().saturating_sub(kept_max));
        out.extend_from_slice(&self.unread[done..end]);
        self.unread.drain(..end);
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Fault> {
        out.append(&mut self.unread);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_replaces_what_a_string_replaces(
            content in "[ab]{0,40}", from in "[ab]{1,4}", to in "[abc]{0,3}", piece_bytes in 1_usize..9,
        ) {
            let parameters = [("from".into(), from.clone()), ("to".into(), to.clone())].into();
            let mut filter = make(&parameters).unwrap().start(&mut Content::new("text/plain")).unwrap();
            let mut out = Vec::new();
            for piece in content.as_bytes().chunks(piece_bytes) {
                filter.take(piece, &mut out).unwrap();
            }
            filter.finish(&mut out).unwrap();
            prop_assert_eq!(String::from_utf8(out).unwrap(), content.replace(&from, &to));
        }
    }
}
