//! Checks which data this machine can collect.

use std::env;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::{Value, json};

/// Outcome of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
#[non_exhaustive]
pub enum Status {
    /// Usable.
    Pass,
    /// Usable, with a drawback.
    Warn,
    /// Not usable.
    Fail,
    /// Neither good nor bad.
    Info,
    /// Not checked.
    Skip,
}

impl Status {
    /// Returns the status as a word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pass => "PASS",
            Self::Warn => "WARN",
            Self::Fail => "FAIL",
            Self::Info => "INFO",
            Self::Skip => "SKIP",
        }
    }
}

/// A check.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Check {
    /// Subject of the check.
    pub name: &'static str,
    /// Outcome of the check.
    pub status: Status,
    /// Finding as text.
    pub detail: String,
    /// Recommended remedy.
    pub remediation: Option<&'static str>,
    /// Finding for programs: an object, empty if `detail` contains everything.
    pub data: Value,
}

/// All checks.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Diagnosis {
    /// The individual checks.
    pub checks: Vec<Check>,
    /// What the machine can record.
    pub verdict: &'static str,
    /// Exit code of the tool: 0 samples of loads and stores, 1 allocations only, 4 process
    /// monitoring only.
    pub exit_code: u8,
}

/// Returns `true` if a program can be started by its name.
#[must_use]
pub fn on_path(program: &str) -> bool {
    let Some(path) = env::var_os("PATH") else {
        return false;
    };
    env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Returns a system file as trimmed text.
pub(crate) fn system_text(path: &str) -> Option<String> {
    fs::read_to_string(path)
        .ok()
        .map(|text| text.trim().to_owned())
}

/// Returns the facility that samples data addresses on this machine.
pub(crate) fn facility() -> Option<&'static str> {
    let exists = |name: &str| {
        Path::new("/sys/bus/event_source/devices")
            .join(name)
            .exists()
    };
    let intel = |device: &str| {
        exists(&format!("{device}/format/ldlat")) && exists(&format!("{device}/events/mem-loads"))
    };
    if intel("cpu") || intel("cpu_core") {
        Some("intel")
    } else if exists("ibs_op") || exists("ibs_fetch") {
        Some("amd")
    } else if (0..4).any(|at| exists(&format!("arm_spe_{at}"))) {
        Some("arm")
    } else {
        None
    }
}

pub(crate) fn first_line(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    output
        .status
        .success()
        .then(|| text.lines().next().unwrap_or_default().to_owned())
}

/// Returns `true` if the Python module memray can be imported.
#[must_use]
pub fn has_memray() -> bool {
    on_path("memray") || imports_memray("python3")
}

/// Returns `true` if this Python interpreter can import memray.
pub(crate) fn imports_memray(python: &str) -> bool {
    first_line(python, &["-c", "import memray"]).is_some()
}

/// Returns the processor's name, or the architecture.
pub(crate) fn cpu_model() -> String {
    system_text("/proc/cpuinfo")
        .and_then(|text| {
            let line = text.lines().find(|line| line.starts_with("model name"))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        })
        .unwrap_or_else(|| env::consts::ARCH.to_owned())
}

/// Returns `true` if a machine with a battery is plugged in; `None` without a power supply to read.
pub(crate) fn has_ac_power() -> Option<bool> {
    let mut supplies = fs::read_dir("/sys/class/power_supply").ok()?;
    let online = supplies
        .by_ref()
        .filter_map(Result::ok)
        .find_map(|supply| fs::read_to_string(supply.path().join("online")).ok())?;
    Some(online.trim() != "0")
}

/// Returns `true` if this process runs as root.
fn is_root() -> bool {
    system_text("/proc/self/status").is_some_and(|status| {
        status
            .lines()
            .find_map(|line| line.strip_prefix("Uid:"))
            .is_some_and(|line| line.split_whitespace().nth(1) == Some("0"))
    })
}

/// Checks the machine, and the disk of the existing or future `output`. The smoke test records a
/// short command with perf, if available.
#[must_use]
pub fn diagnose(output: &Path) -> Diagnosis {
    let mut checks: Vec<Check> = Vec::new();
    let mut add = |name, status, detail: String, remediation| {
        checks.push(Check {
            name,
            status,
            detail,
            remediation,
            data: json!({}),
        });
    };
    let linux = cfg!(target_os = "linux");
    let pass = |good: bool, bad: Status| if good { Status::Pass } else { bad };
    add(
        "os",
        pass(linux, Status::Fail),
        env::consts::OS.to_owned(),
        (!linux).then_some("collect on Linux; analysing works everywhere"),
    );
    let version = system_text("/proc/version").unwrap_or_default();
    let wsl = version.to_ascii_lowercase().contains("microsoft");
    add(
        "wsl2",
        pass(!wsl, Status::Fail),
        if wsl { "runs under WSL" } else { "no" }.to_owned(),
        wsl.then_some("WSL has no memory-sampling counters; use a machine of its own"),
    );
    let kernel = system_text("/proc/sys/kernel/osrelease").unwrap_or_default();
    add("kernel", Status::Info, kernel.clone(), None);
    let perf = on_path("perf");
    add(
        "perf_installed",
        pass(perf, Status::Fail),
        if perf { "on PATH" } else { "not on PATH" }.to_owned(),
        (!perf)
            .then_some("install the perf package of the running kernel (linux-tools, linux-perf)"),
    );
    let perf_version = perf.then(|| first_line("perf", &["version"])).flatten();
    let short = |text: &str| {
        let digits = text.split_whitespace().last().unwrap_or(text);
        digits.split('.').take(2).collect::<Vec<_>>().join(".")
    };
    let matches = perf_version
        .as_deref()
        .is_some_and(|version| short(version) == short(&kernel));
    add(
        "perf_version",
        if !perf {
            Status::Skip
        } else {
            pass(matches, Status::Warn)
        },
        perf_version.unwrap_or_else(|| "unknown".to_owned()),
        (perf && !matches).then_some("use the perf of the running kernel"),
    );
    let root = is_root();
    add(
        "root",
        pass(root, Status::Warn),
        if root { "root" } else { "not root" }.to_owned(),
        (!root).then_some("addresses of other processes need root or CAP_PERFMON"),
    );
    let paranoid: Option<i64> =
        system_text("/proc/sys/kernel/perf_event_paranoid").and_then(|text| text.parse().ok());
    let open = root || paranoid.is_some_and(|level| level <= 0);
    add(
        "paranoid",
        pass(open, Status::Warn),
        paranoid.map_or("unknown".to_owned(), |level| level.to_string()),
        (!open).then_some("sysctl kernel.perf_event_paranoid=0"),
    );
    add("cpu", Status::Info, cpu_model(), None);
    let facility = facility();
    add(
        "facility",
        pass(facility.is_some(), Status::Fail),
        facility.unwrap_or("no memory-sampling counters").to_owned(),
        facility.is_none().then_some(
            "virtual machines rarely have them; use bare metal, Valgrind Lackey, or page faults",
        ),
    );
    let kernel_log = kernel_log();
    let pmu = kernel_log.as_deref().map(pmu_line);
    let (status, detail) = match &pmu {
        None => (Status::Skip, "the kernel's log cannot be read"),
        Some(None) => (Status::Info, "the kernel's log does not say (any more)"),
        Some(Some(line)) => (pass(!says_no_pmu(line), Status::Warn), line.as_str()),
    };
    let remedy = match status {
        Status::Skip => Some("sysctl kernel.dmesg_restrict=0, or run as root"),
        Status::Warn => Some("the machine, or the hypervisor, shows no counters to the kernel"),
        _ => None,
    };
    add("pmu_dmesg", status, detail.to_owned(), remedy);
    let samples = perf.then(smoke).flatten();
    let smoke_status = samples.map_or(
        if perf { Status::Fail } else { Status::Skip },
        Smoke::status,
    );
    add(
        "smoke",
        smoke_status,
        samples.map_or("no recording".to_owned(), |smoke| {
            format!(
                "{} samples, {} with an address",
                smoke.samples, smoke.addressed
            )
        }),
        matches!(smoke_status, Status::Fail).then_some("see paranoid and facility"),
    );
    let ac = has_ac_power();
    let on_battery = ac == Some(false);
    add(
        "ac_power",
        pass(!on_battery, Status::Warn),
        ac.map_or("no battery known".to_owned(), |online| {
            format!("online {}", u8::from(online))
        }),
        on_battery.then_some("plug the machine in"),
    );
    let governor = system_text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    let steady = governor
        .as_deref()
        .is_some_and(|governor| governor == "performance");
    add(
        "governor",
        pass(steady, Status::Warn),
        governor.unwrap_or_else(|| "unknown".to_owned()),
        (!steady).then_some("cpupower frequency-set -g performance"),
    );
    let temperature = temperature_c();
    add(
        "thermal",
        if temperature > 85.0 || temperature <= 0.0 {
            Status::Warn
        } else {
            Status::Info
        },
        if temperature > 0.0 {
            format!("{temperature} °C")
        } else {
            "no thermal zone reports a temperature".to_owned()
        },
        (temperature > 85.0).then_some("let it cool down"),
    );
    let memray = has_memray();
    add(
        "memray",
        pass(memray, Status::Warn),
        if memray {
            "importable"
        } else {
            "not importable"
        }
        .to_owned(),
        (!memray).then_some("pip install memray"),
    );
    let gpu = on_path("nvidia-smi") || on_path("rocm-smi");
    add(
        "gpu",
        Status::Info,
        if gpu {
            "a driver's tool is there"
        } else {
            "none known"
        }
        .to_owned(),
        None,
    );
    let free = crate::collect::free_bytes(output);
    let roomy = free.is_none_or(|free| free >= 50 << 30);
    add(
        "disk",
        pass(roomy, Status::Warn),
        free.map_or("unknown".to_owned(), |free| {
            format!("{} GiB free", free >> 30)
        }),
        (!roomy).then_some("captures need room: 50 GiB are comfortable"),
    );
    for check in &mut checks {
        check.data = match check.name {
            "perf_version" => json!({"perf": perf, "kernel": kernel}),
            "paranoid" => json!({"level": paranoid}),
            "facility" => json!({"facility": facility}),
            "pmu_dmesg" => json!({"line": pmu.clone().flatten()}),
            "smoke" => json!({
                "samples": samples.map(|smoke| smoke.samples),
                "addressed": samples.map(|smoke| smoke.addressed),
            }),
            "thermal" => json!({"temperature_c": temperature}),
            "disk" => json!({"free_bytes": free, "path": output.display().to_string()}),
            _ => continue,
        };
    }
    let sampling = linux
        && !wsl
        && perf
        && facility.is_some()
        && matches!(smoke_status, Status::Pass | Status::Warn);
    let (verdict, exit_code) = if sampling {
        ("CLASSIFIED: samples of loads and stores", 0)
    } else if memray {
        ("DEGRADED: allocations only (memray)", 1)
    } else if perf {
        (
            "CANNOT COLLECT: no loads and stores; page faults, and watching the process",
            4,
        )
    } else {
        ("CANNOT COLLECT: nothing but watching the process", 4)
    };
    Diagnosis {
        checks,
        verdict,
        exit_code,
    }
}

/// Returns the kernel log, if it is readable.
fn kernel_log() -> Option<String> {
    let output = Command::new("dmesg").stdin(Stdio::null()).output().ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns the last line of a kernel log about the counters found at boot, without its time.
fn pmu_line(log: &str) -> Option<String> {
    let is_about = |line: &&str| {
        [
            "Performance Events:",
            "hw perfevents:",
            "PMU not available",
            "arm_spe_pmu",
        ]
        .iter()
        .any(|words| line.contains(words))
    };
    let line = log.lines().rfind(is_about)?;
    let line = match line.strip_prefix('[') {
        Some(timed) => timed.split_once(']').map_or(line, |(_, text)| text),
        None => line,
    };
    Some(line.trim().to_owned())
}

/// Returns `true` if such a line reports that there are no counters.
fn says_no_pmu(line: &str) -> bool {
    let line = line.to_ascii_lowercase();
    [
        "no pmu",
        "not available",
        "unsupported",
        "software events only",
        "failed",
        "disabled",
    ]
    .iter()
    .any(|words| line.contains(words))
}

/// Result of a short recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Smoke {
    samples: u64,
    /// Number of samples with a nonzero address.
    addressed: u64,
}

impl Smoke {
    /// Parses the output of `perf script -F addr`.
    fn of(script: &[u8]) -> Self {
        let mut smoke = Self {
            samples: 0,
            addressed: 0,
        };
        for line in script.split(|byte| *byte == b'\n') {
            let address = line.trim_ascii();
            smoke.samples += u64::from(!address.is_empty());
            smoke.addressed += u64::from(address.iter().any(|digit| *digit != b'0'));
        }
        smoke
    }

    /// A few samples are sufficient if one of them has an address.
    const fn status(self) -> Status {
        match (self.samples, self.addressed) {
            (1000.., _) => Status::Pass,
            (_, 1..) => Status::Warn,
            _ => Status::Fail,
        }
    }
}

/// Maximum duration of a recording.
const SMOKE_SECONDS: Duration = Duration::from_secs(60);

/// Samples with `perf mem` a command that accesses 32 MiB repeatedly.
fn smoke() -> Option<Smoke> {
    let file = env::temp_dir().join(format!("memtrace-smoke-{}.data", std::process::id()));
    let name = file.to_str()?;
    let walk = ["dd", "if=/dev/zero", "of=/dev/null", "bs=32M", "count=16"];
    let mut record = Command::new("perf");
    record.args(["mem", "record", "-o", name, "--"]).args(walk);
    let recorded = ends_well(&mut record, SMOKE_SECONDS);
    let script = Command::new("perf")
        .args(["script", "-i", name, "-F", "addr"])
        .output();
    // A file that cannot be removed was not written.
    let _ = fs::remove_file(&file);
    recorded.then_some(())?;
    Some(Smoke::of(&script.ok()?.stdout))
}

/// Returns `true` if a command ends by itself, in time, and without an error.
fn ends_well(command: &mut Command, patience: Duration) -> bool {
    let quiet = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let Ok(mut child) = quiet.spawn() else {
        return false;
    };
    let since = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return status.success(),
            Ok(None) if since.elapsed() < patience => thread::sleep(Duration::from_millis(20)),
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                return false;
            }
        }
    }
}

/// Returns the package temperature in degrees Celsius: from the package's zone, else the hottest; 0
/// when unknown.
#[must_use]
pub fn temperature_c() -> f64 {
    let Ok(zones) = fs::read_dir("/sys/class/thermal") else {
        return 0.0;
    };
    let mut hottest = 0.0_f64;
    let mut package = None;
    for zone in zones.filter_map(Result::ok) {
        let read = |file: &str| fs::read_to_string(zone.path().join(file)).ok();
        let (Some(kind), Some(value)) = (read("type"), read("temp")) else {
            continue;
        };
        let Ok(milli) = value.trim().parse::<f64>() else {
            continue;
        };
        let kind = kind.to_ascii_lowercase();
        if kind.contains("pkg") || kind.contains("x86") && kind.contains("cpu") {
            package = package.or(Some(milli / 1000.0));
        }
        hottest = hottest.max(milli / 1000.0);
    }
    package.unwrap_or(hottest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_log_says_whether_there_are_counters() {
        let none = "[    0.2] x86: y\n[    0.234048] Performance Events: unsupported CPU family 6 model 167 no PMU driver, software events only.\n[    0.3] NMI watchdog: Perf NMI watchdog permanently disabled\n";
        let line = pmu_line(none).unwrap();
        assert!(
            line.starts_with("Performance Events: unsupported CPU"),
            "{line}"
        );
        assert!(says_no_pmu(&line));
        let some = "[    0.1] Performance Events: PEBS fmt4+-baseline,  AnyThread deprecated, Icelake events, 32-deep LBR, full-width counters, Intel PMU driver.\n";
        assert!(!says_no_pmu(&pmu_line(some).unwrap()));
        assert_eq!(pmu_line("[    0.1] nothing of it\n"), None);
    }

    #[test]
    fn few_samples_count_when_they_have_addresses() {
        let of = |text: &str| {
            let smoke = Smoke::of(text.as_bytes());
            (smoke.samples, smoke.addressed, smoke.status())
        };
        assert_eq!(of(""), (0, 0, Status::Fail));
        assert_eq!(of("       0 \n       0 \n"), (2, 0, Status::Fail));
        assert_eq!(of("       0 \n 7ffd10 \n"), (2, 1, Status::Warn));
        assert_eq!(of(&"7f00\n".repeat(1000)), (1000, 1000, Status::Pass));
    }

    #[cfg(unix)]
    #[test]
    fn what_does_not_end_in_time_is_ended() {
        let ends =
            |words: &str, patience| ends_well(Command::new("sh").args(["-c", words]), patience);
        assert!(ends("true", Duration::from_secs(60)));
        assert!(!ends("false", Duration::from_secs(60)));
        assert!(!ends("sleep 600", Duration::from_millis(50)));
    }
}
