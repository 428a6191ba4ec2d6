//! A password is compared with its hash: that takes up to seconds, and argon2id takes much memory, so it is a step of a
//! program, which the engine has carried out where it may wait.
//!
//! Owns: [`Verify`]. Guarantees: one password is verified once at a time, however many ask with it, and few at once; a
//! request that waits for that keeps no thread. A name that is unknown takes as long as one that is known.

use std::sync::Arc;

use lamna_proto::exchange::program::{Holds, Input, Next, Program, StepResult};
use lamna_proto::resource::Resource;
use lamna_proto::time::Instant;

use super::authorization::name_and_password;
use super::{Guard, Held, Tag, Tries};

/// Verifies a name and password.
pub(super) struct Verify {
    pub(super) guard: Arc<Guard>,
    /// The keyed hash by which the result is remembered.
    pub(super) tag: Tag,
    /// The same with the network that has shown it.
    pub(super) from: Tag,
    /// Name and password, in Base64.
    pub(super) encoded: Vec<u8>,
    pub(super) tries: Tries,
    /// The answer if it is wrong.
    pub(super) refused: Arc<Resource>,
    /// The answer if its turn does not come in time.
    pub(super) busy: Arc<Resource>,
    /// Until when it waits for its turn.
    pub(super) until: Instant,
}

impl std::fmt::Debug for Verify {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Nothing of the password.
        formatter.debug_struct("Verify").finish_non_exhaustive()
    }
}

/// How long one waits until it asks again whether it is its turn.
const WAIT_MS: u32 = 10;

impl Program for Verify {
    fn content_bytes_max(&self) -> u64 {
        // The content is for the responder that answers once access is decided.
        u64::MAX
    }

    fn begins_with(&self) -> Next {
        Next::ROOM
    }

    fn holds(&self) -> Holds {
        Holds::of_bytes(self.encoded.capacity())
    }

    fn run(&mut self, input: Input<'_>) -> StepResult {
        if self.guard.verified(&self.tag, input.now).is_some() {
            return StepResult::Again;
        }
        let Some(_turn) = Turn::take(&self.guard, self.tag) else {
            return match input.now < self.until {
                true => StepResult::Waits(Next { until: Some(input.now.after_ms(WAIT_MS)), ..Next::default() }),
                false => StepResult::Answer(self.busy.clone()),
            };
        };
        // Another may have ended between the two looks.
        if self.guard.verified(&self.tag, input.now).is_some() {
            return StepResult::Again;
        }
        // Many may have waited for their turn while others guessed wrong.
        if self.tries.wait_s(input.now).is_some() {
            return StepResult::Again;
        }
        match self.verify() {
            Some(user) => {
                self.guard.remember((self.tag, self.from), user, input.now);
                StepResult::Again
            }
            None => {
                self.tries.count(input.now);
                StepResult::Answer(self.refused.clone())
            }
        }
    }
}

impl Verify {
    /// The number of the user whose password it is.
    fn verify(&self) -> Option<u16> {
        let (name, password) = name_and_password(&self.encoded)?;
        let users = &self.guard.users;
        let known = users.iter().position(|(other, _)| *other == name);
        // An unknown name has always the same user's hash, as a known one has: neither time nor its spread tells them
        // apart.
        let instead = || {
            super::tag(&self.guard.key, &[name.as_bytes()])[..2].iter().fold(0, |at, byte| at << 8 | usize::from(*byte))
        };
        let (_, hash) = users.get(known.unwrap_or_else(|| instead() % users.len().max(1)))?;
        let is_right = hash.verify(&password);
        known.filter(|_| is_right).and_then(|at| u16::try_from(at).ok())
    }
}

/// The right to verify one password. It ends with its value, with a panic as well.
struct Turn<'a>(&'a Guard, Tag);

impl<'a> Turn<'a> {
    fn take(guard: &'a Guard, tag: Tag) -> Option<Turn<'a>> {
        let Held { under_way, .. } = &mut *guard.held();
        if under_way.len() >= guard.turns || under_way.contains(&tag) {
            return None;
        }
        under_way.push(tag);
        Some(Turn(guard, tag))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.held().under_way.retain(|tag| *tag != self.1);
    }
}
