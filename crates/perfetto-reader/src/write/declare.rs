//! Declares processes, threads, tracks and counters of the streaming writer.

use std::io::{self, Write};

use trace_model::LaneTimes;

use crate::proto::schema;
use crate::write::spec::{CounterUnit, TrackSpec, WriterTrack};
use crate::write::stream::{Lane, SEQUENCE, TraceWriter, TrackState};

impl<W: Write> TraceWriter<W> {
    pub(super) fn new_uuid(&mut self, wanted: Option<u64>) -> u64 {
        if let Some(uuid) = wanted
            && self.uuids.insert(uuid)
        {
            return uuid;
        }
        loop {
            // The mixing step of SplitMix64, applied to a count.
            let mut z = self.options.uuid_seed ^ (self.uuids.len() as u64 + self.order) << 1;
            self.order += 1;
            z = (z ^ (z >> 30)).wrapping_add(0x9e37_79b9_7f4a_7c15);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^= z >> 31;
            if self.uuids.insert(z) {
                return z;
            }
        }
    }

    fn declare(
        &mut self,
        descriptor: schema::TrackDescriptor,
        is_root: bool,
    ) -> io::Result<WriterTrack> {
        let lane = self.lanes.len();
        let track = WriterTrack(u32::try_from(self.tracks.len()).unwrap_or(u32::MAX));
        let uuid = descriptor.uuid.unwrap_or(0);
        self.lanes.push(Lane::new(uuid, track, 0));
        let name = descriptor.name.as_deref().map(String::from_utf8_lossy);
        self.tracks.push(TrackState {
            lanes: vec![lane],
            rooms: LaneTimes::default(),
            name: name.map(std::borrow::Cow::into_owned),
            parent: if is_root {
                descriptor.uuid
            } else {
                descriptor.parent_uuid
            }
            .unwrap_or(0),
            is_root,
        });
        self.describe(descriptor)?;
        Ok(track)
    }

    pub(super) fn describe(&mut self, descriptor: schema::TrackDescriptor) -> io::Result<()> {
        self.write_packet(&schema::TracePacket {
            trusted_packet_sequence_id: Some(SEQUENCE),
            track_descriptor: Some(descriptor),
            ..schema::TracePacket::default()
        })
    }

    pub(super) fn uuid_of(&self, track: WriterTrack) -> u64 {
        let lane = self.tracks[track.0 as usize].lanes[0];
        self.lanes[lane].uuid
    }

    /// Declares a process.
    ///
    /// # Errors
    ///
    /// Returns an error if writing fails.
    pub fn process(&mut self, pid: i32, name: Option<&str>) -> io::Result<WriterTrack> {
        self.process_from(schema::ProcessDescriptor {
            pid: Some(pid),
            process_name: name.map(|n| n.as_bytes().to_vec()),
            ..schema::ProcessDescriptor::default()
        })
    }

    /// Declares a process with a full descriptor.
    ///
    /// # Errors
    ///
    /// Returns an error if writing fails.
    pub fn process_from(&mut self, process: schema::ProcessDescriptor) -> io::Result<WriterTrack> {
        let descriptor = schema::TrackDescriptor {
            uuid: Some(self.new_uuid(None)),
            process: Some(process),
            ..schema::TrackDescriptor::default()
        };
        self.declare(descriptor, true)
    }

    /// Declares a thread of a process.
    ///
    /// # Errors
    ///
    /// Returns an error if writing fails.
    pub fn thread(
        &mut self,
        process: WriterTrack,
        pid: i32,
        tid: i32,
        name: Option<&str>,
    ) -> io::Result<WriterTrack> {
        let thread = schema::ThreadDescriptor {
            pid: Some(pid),
            tid: Some(tid),
            thread_name: name.map(|n| n.as_bytes().to_vec()),
            ..schema::ThreadDescriptor::default()
        };
        self.thread_from(Some(process), thread, None)
    }

    /// Declares a thread with a full descriptor, and its id if it is free.
    ///
    /// # Errors
    ///
    /// Returns an error if writing fails.
    pub fn thread_from(
        &mut self,
        process: Option<WriterTrack>,
        thread: schema::ThreadDescriptor,
        uuid: Option<u64>,
    ) -> io::Result<WriterTrack> {
        let descriptor = schema::TrackDescriptor {
            uuid: Some(self.new_uuid(uuid)),
            parent_uuid: process.map(|p| self.uuid_of(p)),
            thread: Some(thread),
            ..schema::TrackDescriptor::default()
        };
        self.declare(descriptor, true)
    }

    /// Declares a named track, for example a GPU queue or an asynchronous activity.
    ///
    /// # Errors
    ///
    /// Returns an error if writing fails.
    pub fn track(&mut self, spec: &TrackSpec<'_>) -> io::Result<WriterTrack> {
        let descriptor = schema::TrackDescriptor {
            uuid: Some(self.new_uuid(spec.uuid)),
            parent_uuid: spec.parent.map(|p| self.uuid_of(p)),
            name: spec.name.map(|n| n.as_bytes().to_vec()),
            sibling_merge_behavior: spec.unmerged.then_some(2),
            ..schema::TrackDescriptor::default()
        };
        self.declare(descriptor, false)
    }

    /// Declares a counter.
    ///
    /// # Errors
    ///
    /// Returns an error if writing fails.
    pub fn counter_track(
        &mut self,
        spec: &TrackSpec<'_>,
        unit: CounterUnit<'_>,
    ) -> io::Result<WriterTrack> {
        let (number, name) = match unit {
            CounterUnit::None => (None, None),
            CounterUnit::Nanos => (Some(1), None),
            CounterUnit::Count => (Some(2), None),
            CounterUnit::Bytes => (Some(3), None),
            CounterUnit::Named(name) => (None, Some(name.as_bytes().to_vec())),
        };
        let descriptor = schema::TrackDescriptor {
            uuid: Some(self.new_uuid(spec.uuid)),
            parent_uuid: spec.parent.map(|p| self.uuid_of(p)),
            name: spec.name.map(|n| n.as_bytes().to_vec()),
            counter: Some(schema::CounterDescriptor {
                unit: number,
                unit_name: name,
                ..schema::CounterDescriptor::default()
            }),
            ..schema::TrackDescriptor::default()
        };
        self.declare(descriptor, false)
    }
}
