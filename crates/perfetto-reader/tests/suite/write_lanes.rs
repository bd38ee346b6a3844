//! Compares the lanes of overlapping slices with a simple model that checks each lane in turn: fast
//! enough for a test, but not for the writer.

use perfetto_reader::proto::schema;
use perfetto_reader::write::{EventData, TraceWriter, WriterOptions, WriterTrack};
use proptest::prelude::*;
use prost::Message;

/// Type, lane, time.
type Row = (i32, usize, i64);

/// The writer's rules for one track, checking each lane.
#[derive(Default)]
struct Simple {
    /// End and number of the open slices, the innermost last.
    lanes: Vec<Vec<(Option<i64>, usize)>>,
    /// Pending ends: end, number, lane.
    planned: Vec<(i64, usize, usize)>,
    count: usize,
    rows: Vec<Row>,
}

impl Simple {
    fn new() -> Self {
        Self {
            lanes: vec![Vec::new()],
            ..Self::default()
        }
    }

    fn write_ends_before(&mut self, ts: i64) {
        self.planned
            .sort_by_key(|&(end, number, _)| (end, usize::MAX - number));
        let over = self.planned.partition_point(|&(end, ..)| end < ts);
        for (end, number, lane) in self.planned.drain(..over) {
            if self.lanes[lane].last() == Some(&(Some(end), number)) {
                self.lanes[lane].pop();
                self.rows.push((2, lane, end));
            }
        }
    }

    fn close_until(&mut self, lane: usize, ts: i64) {
        while let Some(&(Some(end), _)) = self.lanes[lane].last()
            && end <= ts
        {
            self.lanes[lane].pop();
            self.rows.push((2, lane, end));
        }
    }

    fn push(&mut self, lane: usize, ts: i64, end: Option<i64>) {
        self.count += 1;
        self.lanes[lane].push((end, self.count));
        self.planned.extend(end.map(|end| (end, self.count, lane)));
        self.rows.push((1, lane, ts));
    }

    fn complete(&mut self, ts: i64, dur: i64) {
        self.write_ends_before(ts);
        if dur == 0 {
            return self.rows.push((3, 0, ts));
        }
        let end = ts + dur;
        for lane in 0..self.lanes.len() {
            self.close_until(lane, ts);
            if self.lanes[lane]
                .last()
                .is_none_or(|(outer, _)| outer.is_none_or(|outer| end <= outer))
            {
                return self.push(lane, ts, Some(end));
            }
        }
        self.lanes.push(Vec::new());
        self.push(self.lanes.len() - 1, ts, Some(end));
    }

    fn begin(&mut self, ts: i64) {
        self.write_ends_before(ts);
        self.close_until(0, ts);
        self.push(0, ts, None);
    }

    fn end(&mut self, ts: i64) {
        self.write_ends_before(ts);
        self.close_until(0, ts);
        if let Some((None, _)) = self.lanes[0].last() {
            self.lanes[0].pop();
            self.rows.push((2, 0, ts));
        }
    }
}

/// Returns the events of a track in file order, with lanes numbered as declared.
fn rows(bytes: &[u8], track: usize) -> Vec<Row> {
    let file = schema::Trace::decode(bytes).unwrap();
    let mut lanes: Vec<Vec<u64>> = Vec::new();
    let mut parents: Vec<u64> = Vec::new();
    let (mut now, mut rows) = (0, Vec::new());
    for packet in file.packet {
        if let Some(descriptor) = packet.track_descriptor {
            let uuid = descriptor.uuid();
            match parents.iter().position(|&p| p == descriptor.parent_uuid()) {
                Some(track) if descriptor.thread.is_none() => lanes[track].push(uuid),
                _ if descriptor.process.is_some() => {}
                _ => {
                    parents.push(uuid);
                    lanes.push(vec![uuid]);
                }
            }
        }
        let Some(event) = packet.track_event else {
            continue;
        };
        let ts = i64::try_from(packet.timestamp.unwrap()).unwrap();
        let ts = match packet.timestamp_clock_id {
            None => {
                now += ts;
                now
            }
            Some(_) => ts,
        };
        let lane = lanes[track].iter().position(|&l| l == event.track_uuid());
        rows.extend(lane.map(|lane| (event.r#type.unwrap_or_default(), lane, ts)));
    }
    rows
}

proptest! {
    #[test]
    fn lanes_are_those_that_asking_each_finds(
        events in prop::collection::vec((0..2_usize, 0..12_u8, 0..4_i64, 0..40_i64), 0..150),
    ) {
        let mut file = TraceWriter::new(Vec::new(), WriterOptions::default()).unwrap();
        let process = file.process(1, None).unwrap();
        let tracks: Vec<WriterTrack> = (0..2)
            .map(|tid| file.thread(process, 1, 10 + tid, Some("worker")).unwrap())
            .collect();
        let mut simple = [Simple::new(), Simple::new()];
        let data = EventData::default();
        let mut ts = 0;
        for (track, kind, later, dur) in events {
            ts += later;
            // Ends of both tracks are written before an event of either.
            simple.iter_mut().for_each(|s| s.write_ends_before(ts));
            let (file_track, simple) = (tracks[track], &mut simple[track]);
            match kind {
                0 => {
                    file.begin(file_track, ts, &data).unwrap();
                    simple.begin(ts);
                }
                1 => {
                    file.end(file_track, ts).unwrap();
                    simple.end(ts);
                }
                _ => {
                    file.complete(file_track, ts, dur, &data).unwrap();
                    simple.complete(ts, dur);
                }
            }
        }
        let bytes = file.finish().unwrap();
        for (track, simple) in simple.iter_mut().enumerate() {
            simple.write_ends_before(i64::MAX);
            prop_assert_eq!(rows(&bytes, track), &simple.rows[..]);
        }
    }
}
