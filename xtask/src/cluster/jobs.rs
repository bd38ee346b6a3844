//! Exports and fleets on the cluster, compared with those of one process file by file; and what is lost on the way.

use anyhow::{Context as _, Result, bail, ensure};
use serving_synth::fleet::Fleet;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use super::{Bench, Cluster, MANY, free_address, run_command, same, text};

/// Tools whose work executors do.
const TOOLS: [&str; 2] = ["export", "fleet"];

/// Ranks of a job that takes a while.
const RANKS: u32 = 160;

/// Time in which anything here has to happen.
const PATIENCE: Duration = Duration::from_secs(240);

impl Bench {
    /// Returns a command that makes a folder.
    fn making(
        &self,
        tool: &str,
        inputs: &[PathBuf],
        folder: &str,
        cluster: Option<&str>,
    ) -> Command {
        let mut command = self.command(&[tool, "-o", folder]);
        command.args(inputs);
        if let Some(address) = cluster {
            command.args(["--cluster", address]);
        }
        command
    }

    /// Makes a folder in one process and one on the cluster, and compares all.
    fn both_folders(&self, cluster: &Cluster, tool: &str, inputs: &[PathBuf]) -> Result<Output> {
        let (alone, there) = (format!("{tool}-alone"), format!("{tool}-there"));
        let here = self.making(tool, inputs, &alone, None).output()?;
        let address = Some(cluster.address.as_str());
        let made = self.making(tool, inputs, &there, address).output()?;
        ensure!(
            here.status.code() == made.status.code(),
            "{tool}: {:?} and {:?}: {}",
            here.status,
            made.status,
            text(&made.stderr)
        );
        same(tool, &here, &made, false)?;
        let (here, said) = (text(&here.stderr), text(&made.stderr));
        ensure!(
            here.replace(&alone, &there) == said,
            "{tool}: {here} and {said}"
        );
        self.equal(tool, &alone, &there)?;
        Ok(made)
    }

    /// Compares two folders byte by byte, but for the state of a call.
    fn equal(&self, tool: &str, one: &str, other: &str) -> Result<()> {
        let one = files(&self.folder.join(one))?;
        let other = files(&self.folder.join(other))?;
        ensure!(!one.is_empty(), "{tool} wrote nothing");
        for (path, bytes) in &one {
            let found = other.get(path);
            let found = found.with_context(|| format!("{tool}: {} is missing", path.display()))?;
            ensure!(found == bytes, "{tool}: {} differs", path.display());
        }
        ensure!(
            one.len() == other.len(),
            "{tool}: {} and {} files",
            one.len(),
            other.len()
        );
        Ok(())
    }

    /// The same folders as of one process, with a corrupt and a missing file, again and after a change.
    pub(super) fn folders(&self, cluster: &Cluster, recordings: &[PathBuf]) -> Result<()> {
        let corrupt = PathBuf::from("corrupt.json");
        std::fs::write(self.folder.join(&corrupt), "{\"traceEvents\": 7}")?;
        for tool in TOOLS {
            let mut inputs = self.inputs(tool, recordings, 8)?;
            // The last one is replaced by a recording of the same rank.
            let changed = inputs.last().context("no recording")?.clone();
            let other = match tool {
                "fleet" => Fleet {
                    ranks: 8,
                    seed: 2,
                    ..Fleet::default()
                }
                .timeline()
                .rank(7)
                .into_bytes(),
                _ => std::fs::read(self.folder.join(&inputs[0]))?,
            };
            inputs.insert(1, corrupt.clone());
            inputs.insert(4, "missing.json".into());
            let made = self.both_folders(cluster, tool, &inputs)?;
            let said = text(&made.stderr);
            for name in ["corrupt.json", "missing.json"] {
                ensure!(said.contains(name), "{tool}: {name} is not named: {said}");
            }
            for left in [2, 3] {
                let again = self.both_folders(cluster, tool, &inputs)?;
                let said = text(&again.stderr);
                let skipped = format!("{} skipped", inputs.len() - left);
                ensure!(
                    said.contains(&skipped),
                    "{tool}: expected {skipped}: {said}"
                );
                std::fs::write(self.folder.join(&changed), &other)?;
            }
        }
        println!("export and fleet: the same files as of one process, byte by byte");
        Ok(())
    }

    /// Returns what a tool takes: a fleet is of one job.
    fn inputs(&self, tool: &str, recordings: &[PathBuf], ranks: u32) -> Result<Vec<PathBuf>> {
        let folder = self.folder.join(format!("{tool}-{ranks}-inputs"));
        std::fs::create_dir_all(&folder)?;
        let mut inputs = Vec::new();
        let mut put = |name: String, bytes: &[u8]| -> Result<()> {
            let path = folder.join(name);
            std::fs::create_dir_all(path.parent().unwrap_or(&folder))?;
            std::fs::write(&path, bytes)?;
            inputs.push(path.strip_prefix(&self.folder)?.to_owned());
            Ok(())
        };
        if tool == "fleet" {
            let job = Fleet {
                ranks,
                padding: 100,
                ..Fleet::default()
            };
            let timeline = job.timeline();
            for rank in 0..ranks {
                put(Fleet::name(rank), timeline.rank(rank).as_bytes())?;
            }
            return Ok(inputs);
        }
        for (number, path) in recordings.iter().enumerate() {
            let bytes = std::fs::read(self.folder.join(path))?;
            put(format!("copy{number:04}.json.gz"), &bytes)?;
        }
        Ok(inputs)
    }

    /// Who is absent, and who does not see a file, is named in one sentence.
    pub(super) fn absent(&self, cluster: &Cluster, recordings: &[PathBuf]) -> Result<()> {
        let nobody = free_address()?;
        for tool in TOOLS {
            let folder = format!("{tool}-nobody");
            let output = self.making(tool, recordings, &folder, Some(&nobody));
            let output = { output }.output()?;
            let said = text(&output.stderr);
            let errors = said.lines().filter(|line| line.contains("error: "));
            ensure!(
                output.status.code() == Some(3)
                    && errors.count() == 1
                    && said.contains("the connection was refused"),
                "{tool} without a cluster: {:?}: {said}",
                output.status
            );
        }
        // The same path leads to the folder of each process.
        let own = self.folder.join("client");
        std::fs::create_dir_all(&own)?;
        let first = recordings.first().context("no recording")?;
        std::fs::copy(self.folder.join(first), own.join("own.json.gz"))?;
        let path = PathBuf::from("/proc/self/cwd/own.json.gz");
        if !path.parent().is_some_and(Path::exists) {
            return Ok(());
        }
        let inputs = [self.folder.join(first), path];
        let address = Some(cluster.address.as_str());
        let mut commands = vec![self.sql("SELECT count(*) FROM slices", &inputs, address)];
        for tool in TOOLS {
            let folder = self.folder.join(format!("{tool}-unseen"));
            let folder = folder.display().to_string();
            commands.push(self.making(tool, &inputs, &folder, address));
        }
        for mut command in commands {
            let output = command.current_dir(&own).output()?;
            let said = text(&output.stderr);
            let named = cluster.executors.iter().any(|executor| {
                let rows = &executor.rows;
                said.contains(&format!("the executor at {rows} does not see this file"))
            });
            ensure!(
                named && output.status.code() == Some(3),
                "an executor that does not see a file: {:?}: {said}",
                output.status
            );
        }
        println!("an absent cluster, and executors that do not see a file, are named");
        Ok(())
    }

    /// Starts a command, and waits until executors work for it.
    fn started(&self, mut command: Command) -> Result<Child> {
        // Executors may still remove what they kept of earlier jobs.
        let before = self.settled(Duration::from_secs(1))?;
        let mut client = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let begin = Instant::now();
        while self.kept()? == before {
            if client.try_wait()?.is_some() || begin.elapsed() > PATIENCE {
                // It may be over before anything could be seen.
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(client)
    }

    /// Waits until the executors keep the same for a while, and returns that.
    fn settled(&self, still: Duration) -> Result<Vec<u64>> {
        let (begin, mut since, mut kept) = (Instant::now(), Instant::now(), self.kept()?);
        while since.elapsed() < still {
            ensure!(begin.elapsed() < PATIENCE, "the executors do not end");
            std::thread::sleep(Duration::from_millis(200));
            let now = self.kept()?;
            if now != kept {
                (since, kept) = (Instant::now(), now);
            }
        }
        Ok(kept)
    }

    /// Returns the bytes that each executor keeps.
    fn kept(&self) -> Result<Vec<u64>> {
        let mut out = Vec::new();
        for entry in std::fs::read_dir(&self.folder)? {
            let path = entry?.path();
            let name = path.file_name().context("a folder without a name")?;
            if name.to_string_lossy().starts_with("executor") {
                let sizes = files(&path).unwrap_or_default();
                out.push(sizes.values().map(|bytes| bytes.len() as u64).sum());
            }
        }
        Ok(out)
    }

    /// An executor, and then the client, are killed in the middle of making folders.
    pub(super) fn killed_jobs(&self, cluster: &mut Cluster, many: &[PathBuf]) -> Result<()> {
        for tool in TOOLS {
            let many = &self.inputs(tool, many, RANKS)?;
            let (alone, there) = (format!("{tool}-many"), format!("{tool}-killed"));
            let here = self.making(tool, many, &alone, None).output()?;
            ensure!(here.status.success(), "{tool}: {}", text(&here.stderr));
            let begin = Instant::now();
            let address = cluster.address.clone();
            let command = self.making(tool, many, &there, Some(&address));
            let mut client = self.started(command)?;
            std::thread::sleep(Duration::from_millis(300));
            if client.try_wait()?.is_some() {
                bail!("{tool} of {MANY} files ended before an executor could be killed");
            }
            cluster.kill()?;
            let output = client.wait_with_output()?;
            ensure!(
                output.status.success(),
                "{tool}: an executor was killed: {}",
                text(&output.stderr)
            );
            same(tool, &here, &output, false)?;
            self.equal(tool, &alone, &there)?;
            println!(
                "{tool}: an executor killed in the middle: the same files after {:.0} s",
                begin.elapsed().as_secs_f64()
            );
            cluster.add(self)?;

            // A client that is killed leaves nothing that counts, and the next one goes on.
            let there = format!("{tool}-client");
            let command = self.making(tool, many, &there, Some(&address));
            let mut client = self.started(command)?;
            std::thread::sleep(Duration::from_millis(500));
            client.kill()?;
            client.wait()?;
            let again = self.making(tool, many, &there, Some(&address)).output()?;
            ensure!(again.status.success(), "{tool}: {}", text(&again.stderr));
            same(tool, &here, &again, false)?;
            self.equal(tool, &alone, &there)?;
        }
        println!("export and fleet whose client was killed go on");
        Ok(())
    }

    /// An executor is killed when its work is done and the client has not fetched what it keeps.
    pub(super) fn lost_results(&self, cluster: &mut Cluster, many: &[PathBuf]) -> Result<()> {
        const ROWS: &str = "SELECT file_id, id, name, ts, dur FROM slices WHERE dur > 10";
        let alone = self.sql(ROWS, many, None).output()?;
        ensure!(alone.status.success(), "{}", text(&alone.stderr));
        let address = cluster.address.clone();
        let output = self.lost(cluster, self.sql(ROWS, many, Some(&address)))?;
        let said = text(&output.stderr);
        ensure!(
            output.status.success() && said.contains("the query ran again"),
            "a lost result: {:?}: {said}",
            output.status
        );
        same(ROWS, &alone, &output, false)?;
        println!(
            "an executor killed before its rows were fetched: {}",
            said.trim()
        );
        for tool in TOOLS {
            let many = &self.inputs(tool, many, RANKS)?;
            let there = format!("{tool}-lost");
            let output = self.lost(cluster, self.making(tool, many, &there, Some(&address)))?;
            ensure!(
                output.status.success(),
                "{tool}: a lost result: {}",
                text(&output.stderr)
            );
            self.equal(tool, &format!("{tool}-many"), &there)?;
        }
        println!("export and fleet: an executor killed before its files were fetched: the same");
        Ok(())
    }

    /// Stops the client of a command until the executors have done their work, and kills one of these before it goes on.
    fn lost(&self, cluster: &mut Cluster, command: Command) -> Result<Output> {
        let client = self.started(command)?;
        let signal =
            |name: &str| run_command(Command::new("kill").args([name, &client.id().to_string()]));
        signal("-STOP")?;
        self.settled(Duration::from_secs(6))?;
        cluster.kill()?;
        signal("-CONT")?;
        let output = client.wait_with_output()?;
        cluster.add(self)?;
        Ok(output)
    }
}

/// Returns the files below a folder with their bytes, but for the state of a call.
fn files(folder: &Path) -> Result<BTreeMap<PathBuf, Vec<u8>>> {
    let mut out = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(&next)? {
            let path = entry?.path();
            if path.ends_with("_inferscope") {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            // An executor may remove a file in the meantime.
            if let Ok(bytes) = std::fs::read(&path) {
                out.insert(path.strip_prefix(folder)?.to_owned(), bytes);
            }
        }
    }
    Ok(out)
}
