//! Publishing a value, run through every interleaving (`models`).

#[path = "published.rs"]
#[allow(clippy::duplicate_mod, reason = "the same source over other primitives")]
mod published;

/// Loom's primitives.
mod sync {
    pub(super) use loom::sync::Mutex;
    pub(super) use loom::sync::atomic::{AtomicU64, Ordering::Relaxed};
}

use std::sync::Arc;

use lamna_loom::{check, spawn};
use published::Published;

#[test]
fn who_reads_never_goes_back_and_does_not_miss_the_last_value() {
    check(|| {
        let published = Arc::new(Published::new(0_u32));
        let writer = {
            let published = Arc::clone(&published);
            spawn(move || {
                for value in 1..=2 {
                    published.change(|current| {
                        *current = value;
                        true
                    });
                }
                published.change(|_| false);
            })
        };
        let (mut seen, mut last) = (0, 0);
        for _ in 0..2 {
            if let Some(value) = published.read_if_changed(&mut seen) {
                assert!(value > last, "{value} after {last}");
                last = value;
            }
        }
        writer.join().unwrap();
        let last = published.read_if_changed(&mut seen).unwrap_or(last);
        assert_eq!(last, 2, "the last value was missed");
        assert_eq!(published.read_if_changed(&mut seen), None, "nothing has changed since");
    });
}
