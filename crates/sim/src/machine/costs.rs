//! Costs of the steps of a request, as the machine charges them: whole nanoseconds, ready to add.

use std::collections::BTreeMap;

use super::near::Distance;
use crate::kernel::Nanos;
use crate::parameters::{Parameters, TransmitBy, nanos};
use crate::scenario::Scenario;

/// Processor time of the steps, in nanoseconds.
pub struct Costs {
    /// A connection's share, reading and parsing.
    pub begin: Nanos,
    /// The connection's part of `begin`.
    pub connection: Nanos,
    /// The request's part of `begin`, the engine's own cost of waiting for it included.
    pub parse: Nanos,
    /// See [`crate::parameters::Costs`].
    pub translate: Nanos,
    /// See [`crate::parameters::Costs`].
    pub translate_miss: Nanos,
    /// See [`crate::parameters::Costs`].
    pub lookup: Nanos,
    header: Nanos,
    far: Nanos,
    far_unit: Nanos,
    remote_unit: Nanos,
    /// See [`crate::parameters::Costs`].
    pub(super) varied: Nanos,
    /// See [`crate::parameters::Costs`].
    pub poll: Nanos,
    /// See [`crate::parameters::Costs`].
    pub wait: Nanos,
    /// See [`crate::parameters::Costs`].
    pub hand_off: Nanos,
    /// See [`crate::parameters::Costs`].
    pub try_: Nanos,
    /// See [`crate::parameters::Costs`].
    pub process: Nanos,
    /// See [`crate::parameters::Costs`].
    pub(super) spawn: Nanos,
    /// See [`crate::parameters::Costs`].
    pub spawn_shared: Nanos,
    /// See [`crate::parameters::Costs`].
    pub(super) spawn_waiting: f64,
    /// See [`crate::parameters::Costs`].
    pub pass: Nanos,
    /// See [`crate::parameters::Costs`].
    pub rouse: Nanos,
    /// Whether a connection carries more than one request.
    pub kept: bool,
    read: Nanos,
    read_unit: Nanos,
    read_long_unit: Nanos,
    copy_unit: Nanos,
    content_bytes_max: u64,
    load: Nanos,
    load_unit: Nanos,
    transmit: Nanos,
    /// The engine's own costs of content, see [`Parameters::contents`].
    contents: Vec<(u64, f64)>,
    transmit_unit_bytes: u64,
    transmit_by: TransmitBy,
    segment: Nanos,
    segment_bytes: u64,
    file_unit: Nanos,
}

impl Costs {
    /// Processor time of sending so many bytes of content.
    pub fn transmit(&self, bytes: u64) -> Nanos {
        match self.transmit_by {
            TransmitBy::Processor => self.transmission(bytes),
            TransmitBy::Network => 0,
        }
    }

    /// Processor time of sending so many bytes of long content from the page cache.
    pub(super) fn transmit_file(&self, bytes: u64) -> Nanos {
        match self.file_unit {
            0 => self.transmit(bytes),
            unit => bytes.div_ceil(self.transmit_unit_bytes) * unit,
        }
    }

    /// Processor time of sending the header of so much content, and of fetching its structures and the content from
    /// where they are.
    pub(super) fn header(&self, bytes: u64, distance: Distance) -> Nanos {
        let (structures, unit) = match distance {
            Distance::Near => (0, 0),
            Distance::Far => (self.far, self.far_unit),
            Distance::Remote => (self.far, self.remote_unit),
        };
        self.header + structures + bytes.div_ceil(self.transmit_unit_bytes) * unit
    }

    /// Processor time of making a cached object of a file of so many bytes whose pages are in memory.
    pub fn load(&self, bytes: u64) -> Nanos {
        self.load + bytes.div_ceil(self.transmit_unit_bytes) * self.load_unit
    }

    /// Processor time of reading so many bytes from disk, and of making a cached object of them if they are not too
    /// many for that.
    pub fn read(&self, bytes: u64) -> Nanos {
        if bytes > self.content_bytes_max {
            return self.read + bytes.div_ceil(self.transmit_unit_bytes) * self.read_long_unit;
        }
        self.read + bytes.div_ceil(self.transmit_unit_bytes) * self.read_unit + self.load(bytes)
    }

    /// Processor time of bringing a piece of so many bytes of long content into memory of the server's own: reading it
    /// from disk, if it is not in the page cache, and copying it from there.
    pub fn piece(&self, bytes: u64, from_disk: bool) -> Nanos {
        let units = bytes.div_ceil(self.transmit_unit_bytes);
        let read = if from_disk { self.read + units * self.read_long_unit } else { 0 };
        read + units * self.copy_unit
    }

    /// Whether a blocking sender waits for the network.
    pub fn waits_for_network(&self) -> bool {
        self.transmit_by == TransmitBy::Network
    }

    pub(super) fn transmission(&self, bytes: u64) -> Nanos {
        let own = (along(&self.contents, bytes) * 1e3).round() as i64;
        let shared = bytes.div_ceil(self.transmit_unit_bytes) * self.transmit
            + more_segments(bytes, self.segment_bytes) * self.segment;
        shared.saturating_add_signed(own)
    }
}

impl Costs {
    /// The costs in `scenario` with these parameters.
    pub(super) fn new(scenario: &Scenario, parameters: &Parameters) -> Costs {
        let costs = &parameters.costs;
        let connection = nanos(costs.connection_us / f64::from(costs.requests_per_connection));
        let own = |times: &BTreeMap<String, f64>| times.get(scenario.architecture.name()).copied().unwrap_or(0.0);
        // An engine that saves more than all of parsing saves it at sending.
        let parse_us = costs.parse_us + own(&parameters.engines);
        let parse = nanos(parse_us.max(0.0));
        let acquire_us = if parameters.locks.front { 0.0 } else { parameters.locks.acquire_us };
        Costs {
            begin: connection + parse,
            connection,
            parse,
            translate: nanos(costs.translate_us + acquire_us),
            translate_miss: nanos(costs.translate_miss_us),
            lookup: nanos(costs.lookup_us + acquire_us),
            header: nanos((costs.header_us + parse_us.min(0.0)).max(0.0)),
            far: nanos(costs.far_us),
            far_unit: nanos(costs.far_unit_us),
            remote_unit: nanos(costs.remote_unit_us),
            varied: nanos((costs.varied_us + own(&parameters.varied)).max(0.0)),
            poll: nanos(costs.poll_us),
            wait: nanos(costs.wait_us),
            hand_off: nanos(costs.hand_off_us),
            read: nanos((costs.read_us + own(&parameters.reads)).max(0.0)),
            read_unit: nanos((costs.read_unit_us + own(&parameters.read_units)).max(0.0)),
            read_long_unit: nanos((costs.read_long_unit_us + own(&parameters.read_units)).max(0.0)),
            copy_unit: nanos(costs.copy_unit_us),
            content_bytes_max: parameters.content_bytes_max(scenario),
            load: nanos(costs.load_us),
            load_unit: nanos(costs.load_unit_us),
            try_: nanos(costs.try_us),
            process: nanos(costs.process_us),
            spawn: nanos(costs.spawn_us),
            spawn_shared: nanos(costs.spawn_shared_us),
            spawn_waiting: costs.spawn_waiting,
            pass: nanos(costs.pass_us),
            rouse: nanos(costs.rouse_us),
            kept: costs.requests_per_connection > 1,
            transmit: nanos(costs.transmit_us),
            contents: parameters.contents.get(scenario.architecture.name()).cloned().unwrap_or_default(),
            transmit_unit_bytes: costs.transmit_unit_bytes,
            transmit_by: costs.transmit_by,
            segment: nanos(costs.segment_us),
            segment_bytes: costs.segment_bytes,
            file_unit: nanos((costs.file_unit_us + own(&parameters.long_units)).max(0.0)),
        }
    }
}

/// The time of so many bytes along `points`, as [`Parameters::contents`] has it.
fn along(points: &[(u64, f64)], bytes: u64) -> f64 {
    let after = points.partition_point(|&(length, _)| length < bytes);
    let before = after.checked_sub(1).map(|before| points[before]);
    match (before, points.get(after)) {
        (None, None) => 0.0,
        (None, Some(&(_, us))) => us,
        (Some((length, us)), None) => us * bytes as f64 / length as f64,
        (Some((from, low)), Some(&(to, high))) => low + (high - low) * (bytes - from) as f64 / (to - from) as f64,
    }
}

/// Segments of so many bytes after the first.
pub(super) fn more_segments(bytes: u64, segment_bytes: u64) -> u64 {
    bytes.saturating_sub(1).checked_div(segment_bytes).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::along;

    #[test]
    fn content_between_two_lengths_takes_what_the_line_through_both_says() {
        let points = [(1_000, 0.5), (3_000, 1.5), (5_000, -1.0)];
        let expect = [(1, 0.5), (1_000, 0.5), (2_000, 1.0), (3_000, 1.5), (4_000, 0.25), (5_000, -1.0), (10_000, -2.0)];
        for (bytes, us) in expect {
            assert_eq!(along(&points, bytes), us, "{bytes}");
        }
        assert_eq!(along(&[], 1_000), 0.0);
    }
}
