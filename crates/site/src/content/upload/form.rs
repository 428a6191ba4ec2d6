//! Files that a form sends, stored in the directory that it is sent to.
//!
//! Owns: [`Form`]. Guarantees: each file is moved into place whole when its part has ended; those before a mistake
//! stay. Fields that are not files are passed over.

use lamna_io::new_file::NewFile;
use lamna_proto::exchange::program::{Holds, Input, Program, StepResult};

use super::multipart::{Event, Malformed, Parser};
use super::webdav::Change;
use super::{ChangeTarget, Gathered, MALFORMED, Refused, refused};
use crate::content::action::Action;

/// The files of a form on their way into a directory.
#[derive(Debug)]
pub(super) struct Form {
    target: ChangeTarget,
    parser: Parser,
    /// The file that is being written, and its name.
    file: Option<(NewFile, Vec<u8>)>,
    /// How many have been stored.
    stored: usize,
    /// Content that has not been taken apart.
    gathered: Gathered,
}

const BAD_FORM: Refused = Refused(400, "The content is not a well-formed multipart form.");
const NO_FILE: Refused = Refused(400, "The form has no file.");

impl From<Malformed> for Refused {
    fn from(Malformed: Malformed) -> Refused {
        BAD_FORM
    }
}

impl Form {
    /// A form with this boundary.
    pub(super) fn new(target: ChangeTarget, boundary: &[u8]) -> Form {
        Form { target, parser: Parser::new(boundary), file: None, stored: 0, gathered: Gathered::default() }
    }

    fn store(&mut self, content: &[u8], is_last: bool) -> Result<(), Refused> {
        let Form { target, parser, file, stored, .. } = self;
        parser.take(content, &mut |event| {
            match event {
                // A file that was not chosen has no name.
                Event::Begin(name) => {
                    let name = name.filter(|name| !name.is_empty());
                    *file = name.map(|name| create(target, name)).transpose()?;
                }
                Event::Content(content) => {
                    if let Some((file, _)) = file {
                        file.write(content).map_err(refused)?;
                    }
                }
                Event::End => {
                    if let Some((file, name)) = file.take() {
                        let path = [&*target.path, &name].concat();
                        target.check_locks(&path, Change::Store)?;
                        if target.mounts() {
                            file.keep_properties(&name);
                        }
                        file.move_to(&name).map_err(refused)?;
                        target.handle_change(&path);
                        *stored += 1;
                    }
                }
            }
            Ok::<(), Refused>(())
        })?;
        match is_last {
            true if !self.parser.is_over() => Err(BAD_FORM),
            true if self.stored == 0 => Err(NO_FILE),
            _ => Ok(()),
        }
    }
}

fn create(target: &ChangeTarget, name: Vec<u8>) -> Result<(NewFile, Vec<u8>), Refused> {
    if name.contains(&0) || !target.path.ends_with(b"/") {
        return Err(MALFORMED);
    }
    let path = [&*target.path, &name].concat();
    target.check(Action::Upload, &path)?;
    let directory = target.directory(Action::Upload, &path)?;
    target.check_locks(&path, Change::Store)?;
    Ok((NewFile::create(directory).map_err(refused)?, name))
}

impl Program for Form {
    fn content_bytes_max(&self) -> u64 {
        self.target.bytes_max()
    }

    fn gather(&mut self, content: &[u8]) -> bool {
        self.file.is_some() && self.gathered.add(content)
    }

    fn holds(&self) -> Holds {
        super::held(self.file.is_some(), &self.gathered)
    }

    fn run(&mut self, Input { content, is_last, .. }: Input<'_>) -> StepResult {
        let gathered = self.gathered.take();
        let stored = if gathered.is_empty() { Ok(()) } else { self.store(&gathered, false) };
        if let Err(refused) = stored.and_then(|()| self.store(content, is_last)) {
            return self.target.refusal(refused);
        }
        if !is_last {
            return StepResult::Continue;
        }
        self.target.back_to(&self.target.path)
    }
}
