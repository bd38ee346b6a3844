//! `blkio collect`: records a trace while a command runs, and says what was lost.

use std::io::Write as _;
use std::time::Duration;

use blkio_collect::{
    Disk, Ended, Error, Method, Note, RecordOptions, ScriptOptions, record, script,
};
use cli::{Interrupt, OrExit as _, Outcome};

use crate::args::{CollectArgs, Method as Chosen, ScriptArgs};

/// The exit code of an interrupt.
const INTERRUPTED: u8 = 130;

fn script_options(args: &ScriptArgs) -> ScriptOptions {
    let mut options = ScriptOptions::default();
    options.events = args.events;
    options.with_submitter = args.with_submitter;
    options.comm.clone_from(&args.comm);
    options
}

pub(crate) fn run(args: &CollectArgs) -> anyhow::Result<Outcome> {
    let disk = Disk::of(&args.device).or_exit(Outcome::Unreadable)?;
    let mut options = RecordOptions::new(&args.out);
    options.script = script_options(&args.script);
    if args.print_script {
        let mut out = cli::Output::stdout();
        out.write_all(script(disk.major, disk.minor, &options.script).as_bytes())?;
        out.finish()?;
        return Ok(Outcome::Fine);
    }
    options.method = args.method.map(|method| match method {
        Chosen::Bpftrace => Method::Bpftrace,
        Chosen::Tracefs => Method::Tracefs,
    });
    options.command.clone_from(&args.command);
    options.length = Duration::from_secs_f64(args.seconds.clamp(0.0, 86_400.0));
    let mut note = |note: Note| {
        let text = match note {
            Note::FolderIsTraced => format!(
                "warning: {} is on the traced disk: the tracer's own writes will be in the trace",
                args.out.display()
            ),
            Note::NoBpftrace(reason) => format!("no bpftrace ({reason}): using tracefs"),
            _ => return,
        };
        args.verbosity.note(format!("blkio: {text}"));
    };
    let interrupt = Interrupt::listen();
    let ended = record(&disk, &options, &|| interrupt.has_come(), &mut note);
    let recording = match ended.map_err(hinted)? {
        Ended::Recorded(recording) => recording,
        _ => {
            args.verbosity
                .note("blkio: interrupted before the recording began: nothing is kept");
            return Ok(Outcome::Code(INTERRUPTED));
        }
    };
    args.verbosity.note(format!(
        "blkio: {} requests recorded, {} of them without their completion; {} completed on the device",
        recording.issues, recording.unfinished, recording.completed_on_device
    ));
    if let Some(status) = recording.failed_command {
        let program = args.command.first().map_or("the command", String::as_str);
        anyhow::bail!("{program} ended with {status}");
    }
    Ok(Outcome::Fine)
}

/// Adds the options that help, and the exit code.
fn hinted(error: Error) -> anyhow::Error {
    let hint = match &error {
        Error::NeedsBpftrace => {
            return cli::usage(
                "--events, --with-submitter and --comm are of the bpftrace script: leave --method tracefs out",
            );
        }
        Error::NotRoot => Some("run this with sudo, or print the script with --print-script"),
        Error::NoBpftrace(_) => Some("install bpftrace, or record with --method tracefs"),
        _ => None,
    };
    let outcome = if error.is_refusal() {
        Outcome::CannotAnswer
    } else {
        Outcome::OutputFailed
    };
    let error = anyhow::Error::from(error);
    let failed = match hint {
        Some(hint) => anyhow::anyhow!("{error:#}: {hint}"),
        None => error,
    };
    let coded: anyhow::Result<()> = Err(failed).or_exit(outcome);
    coded
        .err()
        .unwrap_or_else(|| anyhow::anyhow!("nothing was recorded"))
}
