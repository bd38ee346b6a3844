//! The bpftrace programs, the tracefs settings, and the texts around a log.

use blkio_parser::{Format, Reader};

/// The lossless bpftrace program: it prints only at completion, because the kernel silently skips a
/// completion interrupt that meets a running tracing program on its processor.
const SCRIPT: &str = include_str!("blkio-collect.bt");
/// The two-line program of the samples, which loses completions; for comparison.
const EVENTS_SCRIPT: &str = include_str!("blkio-events.bt");

/// Output of the bpftrace program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScriptOptions {
    /// `true` for two lines per request, which loses completions under load.
    pub events: bool,
    /// `true` for the process that queued a request instead of the one that issued it, which may be
    /// a kernel worker.
    pub with_submitter: bool,
    /// Records only requests of processes with this name, which is inserted literally into the
    /// program.
    pub comm: Option<String>,
}

/// Stores who queued a bio at which location.
const QUEUE: &str = r"
tracepoint:block:block_bio_queue
/args->dev == (($1 << 20) | $2)/
{
	@submitter[args->dev, args->sector] = (pid, comm);
}
";
/// Stores a request with the process that issues it.
const STORE: &str =
    "@open[args->dev, $place, args->nr_sector] = (nsecs, pid, args->bytes, args->rwbs, comm);";
/// The same with the process that queued its first bio, if that was recorded.
const STORE_SUBMITTER: &str = r"$by = @submitter[args->dev, args->sector];
	if ($by.0 != 0) {
		if ($ONLY_BY) {
			@open[args->dev, $place, args->nr_sector] = (nsecs, $by.0, args->bytes, args->rwbs, $by.1);
		}
		delete(@submitter[args->dev, args->sector]);
	} else {
		if ($ONLY_ELSE) {
			@open[args->dev, $place, args->nr_sector] = (nsecs, pid, args->bytes, args->rwbs, comm);
		}
	}";

/// Returns the bpftrace program that records a device.
#[must_use]
pub fn script(major: u32, minor: u32, options: &ScriptOptions) -> String {
    let text = if options.events {
        EVENTS_SCRIPT.to_owned()
    } else {
        // A condition on a name; always true if any name matches.
        let only = |what: &str| match &options.comm {
            Some(name) => format!("{what} == \"{name}\""),
            None => "1".to_owned(),
        };
        let (queue, store, clear, only_issue) = if options.with_submitter {
            // The name is known only inside.
            (
                QUEUE,
                STORE_SUBMITTER,
                "\tclear(@submitter);\n",
                String::new(),
            )
        } else {
            ("", STORE, "", format!(" && {}", only("comm")))
        };
        let only_complete = match options.comm {
            Some(_) => "if ($request.0 != 0)",
            None => "if (1)",
        };
        SCRIPT
            .replace("$QUEUE\n", queue)
            .replace("$STORE", store)
            .replace("$CLEAR", clear)
            .replace("$ONLY_ISSUE", &only_issue)
            .replace("$ONLY_BY", &only("$by.1"))
            .replace("$ONLY_ELSE", &only("comm"))
            .replace("$ONLY_COMPLETE", only_complete)
    };
    text.replace("$1", &major.to_string())
        .replace("$2", &minor.to_string())
}

/// Returns the sum of `recursion_misses` in the texts of `/proc/PID/fdinfo/*`: skipped runs of a
/// program.
pub(crate) fn recursion_misses<'a>(texts: impl IntoIterator<Item = &'a str>) -> u64 {
    texts
        .into_iter()
        .flat_map(str::lines)
        .filter_map(|line| line.strip_prefix("recursion_misses:"))
        .filter_map(|number| number.trim().parse::<u64>().ok())
        .sum()
}

/// Returns the settings of a tracefs instance that records a device: file and text, in order.
pub(crate) fn tracefs_settings(major: u32, minor: u32) -> Vec<(String, String)> {
    let dev = (major << 20) | minor;
    let mut settings = vec![
        ("buffer_size_kb".to_owned(), "16384".to_owned()),
        ("trace_clock".to_owned(), TRACEFS_CLOCK.to_owned()),
    ];
    let filter = format!("dev == {dev}");
    for event in [
        "block_bio_queue",
        "block_rq_issue",
        "block_rq_complete",
        "block_rq_requeue",
    ] {
        settings.push((format!("events/block/{event}/filter"), filter.clone()));
        settings.push((format!("events/block/{event}/enable"), "1".to_owned()));
    }
    settings
}

/// The clock of [`tracefs_settings`]: the same as bpftrace's, with known wall times.
const TRACEFS_CLOCK: &str = "boot";

/// Returns the header before the events of a tracefs instance, which do not state their clock; the
/// reader identifies it by this header. Readings of the clock and wall time ([`clock_line`])
/// precede and follow the events.
pub(crate) fn tracefs_head(major: u32, minor: u32) -> String {
    format!("# trace clock: {TRACEFS_CLOCK}\n# device: {major}:{minor}\n")
}

/// Returns simultaneous readings of boot time and wall time as a line of a log.
pub(crate) fn clock_line(boottime_ns: u64, realtime_ns: u64) -> String {
    let wall = blkio_companions::wall_clock::print_wall(realtime_ns);
    format!("# clock: nsecs={boottime_ns} wall={wall}\n")
}

/// Converts a line of the dump at the end of the bpftrace program to an issue line, with its time:
/// a request whose completion was skipped. `None` for every other line.
pub(crate) fn unfinished_line(line: &[u8]) -> Option<(u64, String)> {
    if !line.starts_with(b"@") {
        return None;
    }
    let mut reader = Reader::new("", line, Format::Collector);
    let event = reader.next()?.ok()?;
    let symbols = reader.symbols();
    let text = format!(
        "I, {}, 0, {}, {}, {}, {}, {}, {}, 0, {}, {}\n",
        event.t_ns,
        event.dev >> 20,
        event.dev & 0xf_ffff,
        symbols.rwbs_of(event.rwbs)?,
        event.bytes,
        event.sector,
        event.nr_sector,
        event.pid,
        String::from_utf8_lossy(symbols.comm_of(event.comm)),
    );
    Some((event.t_ns, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misses_are_summed() {
        let info = "pos:\t0\nrecursion_misses:\t398\n";
        assert_eq!(recursion_misses([info, "flags: 1\n", info]), 796);
    }

    #[test]
    fn what_is_written_around_a_tracefs_log_is_read() {
        let before = clock_line(5_000_000_000, 1_709_164_800_000_001_000);
        let head = tracefs_head(7, 0) + &before;
        assert_eq!(
            blkio_parser::detect(head.as_bytes()),
            blkio_parser::Kind::NoEvents
        );
        let text = format!(
            "{head}  fio-26257   [001] .....  1048.996254: block_rq_issue: 7,0 WS 131072 () 68920 + 256 be,0,4 [fio]\n{}",
            clock_line(6_000_000_000, 1_709_164_801_000_001_000)
        );
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events.txt");
        std::fs::write(&path, text).unwrap();
        let stats =
            blkio_parser::Stats::of_files(&[path], &blkio_parser::StatsOptions::default()).unwrap();
        let [input] = stats.outcome.inputs.as_slice() else {
            panic!("one input");
        };
        assert_eq!(
            input.kind,
            blkio_parser::Kind::Events(blkio_parser::Format::Tracefs)
        );
        assert_eq!((input.clock(), input.counts.comment), (Some("boottime"), 4));
        let found = blkio_companions::clock::from_anchors(&input.counts.anchors).unwrap();
        assert_eq!(found.offset_ns, 1_709_164_795_000_001_000);
        assert_eq!(found.drift_ppm, Some(0.0));
    }

    #[test]
    fn what_was_open_becomes_an_issue() {
        let line = b"@open[7340032, 472, 8]: (99, 24700, 4096, WS, my, job)";
        let expected = "I, 99, 0, 7, 0, WS, 4096, 472, 8, 0, 24700, my, job\n";
        assert_eq!(unfinished_line(line), Some((99, expected.to_owned())));
        assert_eq!(unfinished_line(b"@count: 4"), None);
        assert_eq!(
            unfinished_line(b"I, 99, 0, 7, 0, WS, 4096, 472, 8, 0, 1, a"),
            None
        );
    }

    #[test]
    fn scripts_name_the_device() {
        let events = ScriptOptions {
            events: true,
            ..ScriptOptions::default()
        };
        assert!(script(7, 0, &events).contains("(7 << 20) | 0"));
        let submitter = ScriptOptions {
            with_submitter: true,
            comm: Some("my job".to_owned()),
            events: false,
        };
        for options in [ScriptOptions::default(), events, submitter.clone()] {
            let text = script(259, 4, &options);
            assert!(text.contains("(259 << 20) | 4") && text.contains("# device: 259:4"));
            // No placeholder is left: bpftrace's own names with a dollar are lower case.
            let mut places = text.split('$').skip(1);
            assert!(
                places.all(|rest| rest.starts_with(|c: char| c.is_ascii_lowercase())),
                "{text}"
            );
            let count = |c: char| text.matches(c).count();
            assert_eq!(count('{'), count('}'));
        }
        let text = script(259, 4, &submitter);
        assert!(text.contains("block_bio_queue") && text.contains("if ($by.1 == \"my job\") {"));
        assert!(text.contains("clear(@submitter)"));
        let settings = tracefs_settings(7, 1);
        assert!(settings.iter().any(|(_, text)| text == "dev == 7340033"));
    }
}
