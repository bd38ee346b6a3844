//! Runs queries, exports and fleets on a cluster of processes, and compares them with those of one process.

mod jobs;

use crate::workspace::{cargo, root, run as run_command};
use anyhow::{Context as _, Result, bail, ensure};
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Executors of the cluster, and tasks that each runs at once.
const EXECUTORS: usize = 3;
const TASKS: &str = "2";

/// Files of the query in whose middle an executor is killed.
const MANY: usize = 160;

/// Queries whose rows have an order.
const ORDERED: &[&str] = &[
    "SELECT name, count(*) AS n, sum(dur) AS ns, min(ts) AS first FROM kernels GROUP BY name ORDER BY ns DESC, name",
    "SELECT * FROM kernels ORDER BY file_id, id",
    "SELECT f.run, k.rank, count(*) AS n, avg(k.dur) AS mean FROM kernels k JOIN files f USING (file_id) GROUP BY 1, 2 ORDER BY 1, 2",
    // Views, joins, an anti-join and a subquery.
    "SELECT t.name AS thread, count(*) AS n FROM slice s JOIN thread_track tt ON s.track_id = tt.id JOIN thread t USING (utid) \
     GROUP BY t.name ORDER BY n DESC, thread",
    "SELECT o.name AS launch, i.name AS kernel, count(*) AS n FROM flow JOIN slice o ON flow.slice_out = o.id \
     JOIN slice i ON flow.slice_in = i.id GROUP BY 1, 2 ORDER BY n DESC, launch, kernel LIMIT 20",
    "SELECT k.id FROM kernels k LEFT JOIN launches l ON l.kernel_id = k.id WHERE l.kernel_id IS NULL ORDER BY k.id",
    "SELECT name, dur FROM kernels WHERE dur = (SELECT max(dur) FROM kernels) ORDER BY name, dur",
    "SELECT name FROM kernels WHERE dur > 1000 AND name LIKE '%gemm%' GROUP BY name HAVING count(*) > 1 ORDER BY name",
    "SELECT DISTINCT category FROM slices ORDER BY category NULLS LAST",
    "SELECT name, ts, row_number() OVER (PARTITION BY file_id ORDER BY ts, id) AS n FROM kernels QUALIFY n <= 3 ORDER BY file_id, n",
    "SELECT file_id, hash, format, rank FROM files ORDER BY file_id",
    "SELECT * FROM steps ORDER BY file_id, step",
    // Our functions, and integers that do not wrap.
    "SELECT extract_arg(arg_set_id, 'args.stream') AS s, sum(extract_arg_int(arg_set_id, 'correlation')) AS c, count(*) AS n \
     FROM slices WHERE category = 'kernel' GROUP BY 1 ORDER BY 1 NULLS LAST",
    "SELECT str_split(name, '_', 0) AS head, sum(ts + dur - ts) AS ns, sum(overlap_ns(ts, dur, ts, 10)) AS o \
     FROM kernels GROUP BY 1 ORDER BY 1",
    "SELECT flat_key, count(*) AS n FROM args GROUP BY flat_key ORDER BY n DESC, flat_key",
    "WITH k AS (SELECT DISTINCT name, file_id FROM kernels) SELECT a.name, count(*) AS n FROM k a JOIN k b \
     ON a.name = b.name AND a.file_id < b.file_id GROUP BY a.name ORDER BY n DESC, a.name LIMIT 7",
    "SELECT file_id, file, error FROM failures ORDER BY file_id",
    // Read by the client.
    "SELECT kind, count(*) AS n FROM findings GROUP BY kind ORDER BY kind",
    "SELECT count(*) AS n FROM kernels WHERE false",
    "SELECT id FROM kernels WHERE false",
    "SELECT 1 AS one",
];

/// Queries without an order, whose rows come in the order of the files all the same.
const IN_ORDER_OF_FILES: &[&str] = &[
    "SELECT file_id, id, name, ts, dur FROM kernels",
    "SELECT id, name FROM slices WHERE dur > 20000",
    "SELECT file_id, id FROM kernels WHERE dur > 20000 LIMIT 9 OFFSET 4",
    "SELECT id, name FROM slices LIMIT 5",
    "SELECT file_id, rank, host, format FROM files",
];

/// Queries without an order.
const UNORDERED: &[&str] = &[
    "SELECT name, count(*) AS n FROM kernels GROUP BY name",
    "SELECT category FROM slices UNION SELECT category FROM slices",
    "SELECT rank, max(ts + dur) - min(ts) AS ns FROM kernels GROUP BY rank",
];

/// The chore and step `cluster`.
pub(crate) fn check() -> Result<()> {
    let build = [
        "build",
        "--bin",
        "inferscope",
        "--features",
        "inferscope/cluster",
    ];
    run_command(&mut cargo(&build))?;
    let folder = target().join("cluster");
    if folder.is_dir() {
        std::fs::remove_dir_all(&folder)?;
    }
    std::fs::create_dir_all(&folder)?;
    let program = target()
        .join("debug")
        .join(format!("inferscope{}", std::env::consts::EXE_SUFFIX));
    let bench = Bench { program, folder };
    let recordings = bench.recordings()?;
    let data_set = bench.export(&recordings)?;
    let mut cluster = Cluster::start(&bench)?;
    let mut compared = 0;
    for (inputs, what) in [
        (&recordings, "recordings"),
        (&vec![data_set], "the data set"),
    ] {
        for (queries, sorted) in [(ORDERED, false), (UNORDERED, true)] {
            for query in queries {
                bench.compare(&cluster, query, inputs, sorted)?;
                compared += 1;
            }
        }
        for query in IN_ORDER_OF_FILES {
            bench.compare(&cluster, query, inputs, false)?;
            compared += 1;
        }
        println!("{compared} queries so far: on {what} rows as of one process");
    }
    bench.bad_files(&cluster, &recordings)?;
    bench.errors(&cluster, &recordings)?;
    let many = bench.many(&recordings)?;
    bench.interrupted(&cluster, &many)?;
    bench.killed(&mut cluster, &many)?;
    cluster.add(&bench)?;
    bench.folders(&cluster, &recordings)?;
    bench.absent(&cluster, &recordings)?;
    bench.killed_jobs(&mut cluster, &many)?;
    bench.lost_results(&mut cluster, &many)?;
    std::fs::remove_dir_all(&bench.folder)?;
    Ok(())
}

/// Returns the folder of build products.
fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// The program and a folder for its files.
struct Bench {
    program: PathBuf,
    folder: PathBuf,
}

impl Bench {
    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(words).current_dir(&self.folder);
        command
    }

    /// Copies ranks of several jobs.
    fn recordings(&self) -> Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        for job in [
            "serving/healthy",
            "serving/late-host",
            "serving/collector",
            "demo",
        ] {
            let mut files = Vec::new();
            for entry in std::fs::read_dir(root().join("testdata").join(job))? {
                let path = entry?.path();
                let name = path.to_string_lossy();
                if name.ends_with(".json.gz") && !name.contains("capture") {
                    files.push(path);
                }
            }
            files.sort();
            let to = self.folder.join("jobs").join(job.replace('/', "-"));
            std::fs::create_dir_all(&to)?;
            for path in files {
                let copy = to.join(path.file_name().context("a file without a name")?);
                std::fs::copy(&path, &copy)?;
                found.push(copy.strip_prefix(&self.folder)?.to_owned());
            }
        }
        Ok(found)
    }

    fn export(&self, recordings: &[PathBuf]) -> Result<PathBuf> {
        let mut command = self.command(&["export", "-o", "set", "--quiet"]);
        let output = command.args(recordings).output()?;
        ensure!(output.status.success(), "export: {}", text(&output.stderr));
        Ok("set".into())
    }

    /// Copies the recordings until there are many.
    fn many(&self, recordings: &[PathBuf]) -> Result<Vec<PathBuf>> {
        let folder = self.folder.join("many");
        std::fs::create_dir_all(&folder)?;
        let mut copies = Vec::new();
        for (number, path) in recordings.iter().cycle().take(MANY).enumerate() {
            let copy = folder.join(format!("copy{number:04}.json.gz"));
            std::fs::copy(self.folder.join(path), &copy)?;
            copies.push(copy.strip_prefix(&self.folder)?.to_owned());
        }
        Ok(copies)
    }

    fn sql(&self, query: &str, inputs: &[PathBuf], cluster: Option<&str>) -> Command {
        let mut command = self.command(&["sql", query, "--format", "csv"]);
        command.args(inputs);
        if let Some(address) = cluster {
            command.args(["--cluster", address]);
        }
        command
    }

    /// Returns the output of a query in one process, and on the cluster.
    fn both(&self, cluster: &Cluster, query: &str, inputs: &[PathBuf]) -> Result<(Output, Output)> {
        let alone = self.sql(query, inputs, None).output()?;
        let address = Some(cluster.address.as_str());
        let there = self.sql(query, inputs, address).output()?;
        Ok((alone, there))
    }

    fn compare(
        &self,
        cluster: &Cluster,
        query: &str,
        inputs: &[PathBuf],
        sorted: bool,
    ) -> Result<()> {
        let (alone, there) = self.both(cluster, query, inputs)?;
        ensure!(alone.status.success(), "{query}: {}", text(&alone.stderr));
        ensure!(
            there.status.success(),
            "{query}: on the cluster: {}",
            text(&there.stderr)
        );
        same(query, &alone, &there, sorted)
    }

    /// A corrupt and a missing file among others: the rest is answered, and both are named.
    fn bad_files(&self, cluster: &Cluster, recordings: &[PathBuf]) -> Result<()> {
        let corrupt = PathBuf::from("corrupt.json");
        std::fs::write(self.folder.join(&corrupt), "{\"traceEvents\": 7}")?;
        let mut inputs = recordings.to_vec();
        inputs.insert(1, corrupt);
        inputs.insert(4, "missing.json".into());
        for query in [
            "SELECT count(*) AS n, sum(dur) AS ns FROM kernels",
            "SELECT file_id, id FROM kernels",
            "SELECT file_id, file, error FROM failures ORDER BY file_id",
        ] {
            let (alone, there) = self.both(cluster, query, &inputs)?;
            same(query, &alone, &there, false)?;
            let code = alone.status.code();
            ensure!(
                code == there.status.code(),
                "{query}: {code:?} and {:?}",
                there.status
            );
            let said = text(&there.stderr);
            ensure!(
                text(&alone.stderr) == said,
                "{query}: {} and {said}",
                text(&alone.stderr)
            );
            for name in ["corrupt.json", "missing.json"] {
                ensure!(said.contains(name), "{name} is not named: {said}");
            }
        }
        // Alone it is an error of one sentence.
        for name in ["corrupt.json", "missing.json"] {
            let query = "SELECT count(*) FROM kernels WHERE dur > 1";
            let (alone, there) = self.both(cluster, query, &[name.into()])?;
            ensure!(!there.status.success(), "{name} was read");
            ensure!(
                text(&alone.stderr) == text(&there.stderr),
                "{} and {}",
                text(&alone.stderr),
                text(&there.stderr)
            );
        }
        println!("a corrupt and a missing file are left out and named");
        Ok(())
    }

    /// Errors are one sentence each.
    fn errors(&self, cluster: &Cluster, recordings: &[PathBuf]) -> Result<()> {
        let query = "SELECT count(*) FROM kernels WHERE dur > 1";
        let nobody = free_address()?;
        let mut idle =
            Process::start(&self.command(&["cluster", "scheduler", "--bind", "127.0.0.1:0"]))?;
        let idle_address = idle.address("accepts connections at ")?;
        let executor = cluster.executors.first().context("no executor")?;
        let cases = [
            (nobody.as_str(), query, "the connection was refused"),
            (
                "no-such-host.invalid:50050",
                query,
                "no host of this name is known",
            ),
            (executor.rows.as_str(), query, "is no scheduler"),
            (idle_address.as_str(), query, "no executor has registered"),
            (
                cluster.address.as_str(),
                "SELECT sum(ts) + 9223372036854775807 FROM kernels WHERE file_id = 0",
                "integer overflow",
            ),
            (
                cluster.address.as_str(),
                "SELECT nothing FROM kernels",
                "no column `nothing`",
            ),
            (
                cluster.address.as_str(),
                "EXPLAIN ANALYZE SELECT id FROM kernels",
                "leave --cluster out",
            ),
        ];
        for (address, query, expected) in cases {
            let output = self.sql(query, recordings, Some(address)).output()?;
            let said = text(&output.stderr);
            ensure!(!output.status.success(), "{address}: {query} succeeded");
            ensure!(
                said.contains(expected)
                    && said.lines().filter(|line| line.contains("error: ")).count() == 1,
                "{address}: {query}: expected {expected:?}: {said}"
            );
        }
        let nobody = nobody.as_str();
        let output = self
            .command(&["cluster", "executor", "--scheduler", nobody])
            .output()?;
        let said = text(&output.stderr);
        ensure!(
            said.contains("refused"),
            "an executor without scheduler: {said}"
        );
        println!("errors are one sentence each");
        Ok(())
    }

    /// Ctrl-C cancels the job.
    fn interrupted(&self, cluster: &Cluster, many: &[PathBuf]) -> Result<()> {
        let address = Some(cluster.address.as_str());
        let mut client = self.sql(SLOW, many, address);
        let client = client
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        std::thread::sleep(Duration::from_secs(4));
        run_command(Command::new("kill").args(["-INT", &client.id().to_string()]))?;
        let output = client.wait_with_output()?;
        let said = text(&output.stderr);
        ensure!(
            !output.status.success() && said.contains("is cancelled"),
            "an interrupted query: {:?}: {said}",
            output.status
        );
        println!("an interrupted query: {}", said.trim());
        Ok(())
    }

    /// An executor is killed in the middle of a query: the same rows.
    fn killed(&self, cluster: &mut Cluster, many: &[PathBuf]) -> Result<()> {
        let alone = self.sql(SLOW, many, None).output()?;
        ensure!(alone.status.success(), "{}", text(&alone.stderr));
        let begin = Instant::now();
        let mut client = self.sql(SLOW, many, Some(&cluster.address));
        let mut client = client
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        std::thread::sleep(Duration::from_secs(4));
        if client.try_wait()?.is_some() {
            bail!("the query over {MANY} files ended before an executor could be killed");
        }
        cluster.kill()?;
        let output = client.wait_with_output()?;
        ensure!(
            output.status.success(),
            "an executor was killed: {}",
            text(&output.stderr)
        );
        same(SLOW, &alone, &output, false)?;
        println!(
            "an executor killed after 4 s: the same rows after {:.0} s",
            begin.elapsed().as_secs_f64()
        );
        Ok(())
    }
}

/// A query that reads all of many files.
const SLOW: &str = "SELECT name, count(*) AS n, sum(dur) AS ns, count(DISTINCT file_id) AS files FROM slices GROUP BY name ORDER BY n DESC, name";

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn same(query: &str, alone: &Output, there: &Output, sorted: bool) -> Result<()> {
    let lines = |output: &Output| {
        let mut lines: Vec<String> = text(&output.stdout).lines().map(str::to_owned).collect();
        if sorted {
            lines.sort();
        }
        lines
    };
    let (alone, there) = (lines(alone), lines(there));
    if let Some((at, (a, b))) = alone
        .iter()
        .zip(&there)
        .enumerate()
        .find(|(_, (a, b))| a != b)
    {
        bail!("{query}: line {}: {a} and {b}", at + 1);
    }
    ensure!(
        alone.len() == there.len(),
        "{query}: {} and {} lines",
        alone.len(),
        there.len()
    );
    Ok(())
}

/// Returns an address of this machine where nothing listens.
fn free_address() -> Result<String> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    Ok(listener.local_addr()?.to_string())
}

/// A process that is killed in the end.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Process {
    fn start(command: &Command) -> Result<Self> {
        let mut again = Command::new(command.get_program());
        again.args(command.get_args());
        if let Some(folder) = command.get_current_dir() {
            again.current_dir(folder);
        }
        Ok(Self(again.stderr(Stdio::piped()).spawn()?))
    }

    /// Returns the address in the first line that it says.
    fn address(&mut self, before: &str) -> Result<String> {
        let output = self.0.stderr.take().context("no standard error")?;
        let mut line = String::new();
        let mut reader = BufReader::new(output);
        reader.read_line(&mut line)?;
        // What it says later goes nowhere, but must not block it.
        std::thread::spawn(move || std::io::copy(&mut reader, &mut std::io::sink()));
        let (_, rest) = line
            .split_once(before)
            .with_context(|| format!("it said: {line}"))?;
        let address = rest.split_whitespace().next();
        Ok(address.context("no address")?.to_owned())
    }
}

struct Executor {
    process: Process,
    /// Where it exchanges rows.
    rows: String,
}

/// A scheduler and its executors.
struct Cluster {
    executors: Vec<Executor>,
    address: String,
    /// Number of executors that were started.
    started: usize,
    _scheduler: Process,
}

impl Cluster {
    fn start(bench: &Bench) -> Result<Self> {
        let command = bench.command(&["cluster", "scheduler", "--bind", "127.0.0.1:0"]);
        let mut scheduler = Process::start(&command)?;
        let address = scheduler.address("accepts connections at ")?;
        println!("a scheduler at {address} and {EXECUTORS} executors");
        let mut cluster = Self {
            executors: Vec::new(),
            address,
            started: 0,
            _scheduler: scheduler,
        };
        for _ in 0..EXECUTORS {
            cluster.add(bench)?;
        }
        Ok(cluster)
    }

    /// Starts one more executor.
    fn add(&mut self, bench: &Bench) -> Result<()> {
        let folder = format!("executor{}", self.started);
        self.started += 1;
        let command = bench.command(&[
            "cluster",
            "executor",
            "--scheduler",
            &self.address,
            "--concurrent-tasks",
            TASKS,
            "--work-dir",
            &folder,
        ]);
        let mut process = Process::start(&command)?;
        let rows = process.address("the executor at ")?;
        self.executors.push(Executor { process, rows });
        Ok(())
    }

    /// Kills the executor that was started last but one, which has worked for a while.
    fn kill(&mut self) -> Result<()> {
        ensure!(self.executors.len() > 1, "too few executors");
        let mut victim = self.executors.remove(self.executors.len() - 2);
        victim.process.0.kill()?;
        victim.process.0.wait()?;
        Ok(())
    }
}
