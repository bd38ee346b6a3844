//! Reads the directories of zip and tar archives: the location of each member.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use zip::CompressionMethod;

use crate::access::RandomAccess;
use crate::damage::{Damage, DamageKind, DamageLog};
use crate::detect::Container;
use crate::error::Error;
use crate::gzip::ZipDecoder;
use crate::options::OpenOptions;
use crate::source::{Opened, Raw};

/// An archive with its directory.
pub(crate) struct Archive {
    name: String,
    container: Container,
    access: RandomAccess,
    containers: Vec<Container>,
    pub(crate) entries: Vec<Entry>,
    /// Error that ended the directory early, if any.
    pub(crate) broken: Option<Error>,
}

/// One file in an archive.
pub(crate) struct Entry {
    name: String,
    start: u64,
    len: u64,
    kind: EntryKind,
    damage: Vec<Damage>,
}

enum EntryKind {
    /// Stored without compression.
    Stored,
    /// Complete streams of a compression, which are also detectable by content.
    Packed(Container),
    /// Deflated; checked against the checksum and length in the directory.
    Deflated { crc: u32, len: u64 },
    /// Not readable by this crate: a description, and a command that unpacks it.
    Unreadable(&'static str, &'static str),
}

impl Archive {
    /// Reads the directory. `damage` is the log of the containers around it.
    pub(crate) fn list(
        name: String,
        container: Container,
        access: RandomAccess,
        containers: Vec<Container>,
        damage: DamageLog,
    ) -> Result<Self, Error> {
        let (mut entries, broken) = match container {
            Container::Tar => list_tar(&name, &access),
            _ => (list_zip(&name, &access)?, None),
        };
        let Some(last) = entries.last_mut() else {
            return Err(broken.unwrap_or(Error::NoMembers { name, container }));
        };
        // A container around the archive is truncated at its end.
        last.damage.extend(damage.records());
        Ok(Self {
            name,
            container,
            access,
            containers,
            entries,
            broken,
        })
    }

    /// Returns the name of a member in messages, which can also be opened.
    fn member_name(&self, entry: &Entry) -> String {
        format!("{}!{}", self.name, entry.name)
    }

    /// Returns the names of all members.
    pub(crate) fn names(&self) -> impl Iterator<Item = String> {
        self.entries.iter().map(|entry| self.member_name(entry))
    }

    /// Opens one of the entries.
    pub(crate) fn open(&self, entry: &Entry, options: &OpenOptions) -> Result<Opened, Error> {
        self.raw(entry, options)?.unpack(options)
    }

    /// Returns the bytes of an entry as they were put into the archive.
    pub(crate) fn raw(&self, entry: &Entry, options: &OpenOptions) -> Result<Raw, Error> {
        let name = self.member_name(entry);
        if let EntryKind::Unreadable(what, tool) = entry.kind {
            return Err(Error::Unsupported { name, what, tool });
        }
        let part = self.access.part(entry.start, entry.len);
        let mut raw = Raw::access(name, part);
        raw.containers.clone_from(&self.containers);
        for &damage in &entry.damage {
            raw.damage.push(damage);
        }
        match entry.kind {
            EntryKind::Deflated { crc, len } => {
                let decoder = Box::new(ZipDecoder::new(crc, len));
                raw = raw.decoded_by(Container::Zip, decoder, options);
            }
            EntryKind::Packed(container) => {
                raw.containers.push(container);
                raw = raw.decompressed(container, options)?;
            }
            EntryKind::Stored | EntryKind::Unreadable(..) => {}
        }
        Ok(raw)
    }

    /// Opens the member of an archive that has exactly one.
    pub(crate) fn into_only_member(self, options: &OpenOptions) -> Result<Opened, Error> {
        match self.entries.as_slice() {
            [only] => self.open(only, options),
            [first, ..] => Err(Error::SeveralMembers {
                first: self.member_name(first),
                count: self.entries.len(),
                container: self.container,
                name: self.name,
            }),
            [] => Err(Error::NoMembers {
                name: self.name,
                container: self.container,
            }),
        }
    }

    /// Returns the member whose name is a prefix of `wanted`; the rest names a member inside it.
    pub(crate) fn named<'w>(&self, wanted: &'w str) -> Result<(&Entry, Option<&'w str>), Error> {
        for entry in &self.entries {
            let rest = match wanted.strip_prefix(entry.name.as_str()) {
                Some("") => None,
                Some(rest) if rest.starts_with('!') => rest.get(1..),
                _ => continue,
            };
            return Ok((entry, rest));
        }
        Err(Error::NoSuchMember {
            archive: self.name.clone(),
            member: wanted.to_owned(),
        })
    }
}

/// Splits `dir/archive.zip!member` if the first part is an existing file.
pub(crate) fn split_member(path: &Path) -> Option<(&Path, &str)> {
    let text = path.to_str()?;
    text.match_indices('!')
        .filter_map(|(at, _)| Some((text.get(..at)?, text.get(at + 1..)?)))
        .find(|(archive, member)| !member.is_empty() && crate::remote::is_file(Path::new(archive)))
        .map(|(archive, member)| (Path::new(archive), member))
}

fn list_zip(name: &str, access: &RandomAccess) -> Result<Vec<Entry>, Error> {
    let broken = |source: zip::result::ZipError| Error::Archive {
        name: name.to_owned(),
        container: Container::Zip,
        remedy: "copy it again, or repair it with `zip -FF`",
        source: Box::new(source),
    };
    let mut archive = zip::ZipArchive::new(access.reader()).map_err(broken)?;
    let mut entries = Vec::new();
    for index in 0..archive.len() {
        let file = archive.by_index_raw(index).map_err(broken)?;
        if !file.is_file() {
            continue;
        }
        let kind = if file.encrypted() {
            EntryKind::Unreadable("an encrypted member", "unzip -P")
        } else {
            match file.compression() {
                CompressionMethod::Stored => EntryKind::Stored,
                CompressionMethod::Deflated => EntryKind::Deflated {
                    crc: file.crc32(),
                    len: file.size(),
                },
                CompressionMethod::ZSTD => EntryKind::Packed(Container::Zstd),
                CompressionMethod::XZ => EntryKind::Packed(Container::Xz),
                _ => EntryKind::Unreadable("the member's compression method", "7z x"),
            }
        };
        entries.push(Entry {
            name: file.name().map_err(broken)?.into_owned(),
            start: file
                .data_start()
                .ok_or(zip::result::ZipError::FileNotFound)
                .map_err(broken)?,
            len: file.compressed_size(),
            kind,
            damage: Vec::new(),
        });
    }
    Ok(entries)
}

/// Lists the readable part of a tar archive.
fn list_tar(name: &str, access: &RandomAccess) -> (Vec<Entry>, Option<Error>) {
    let mut entries = Vec::new();
    let mut list = || -> io::Result<()> {
        let mut archive = tar::Archive::new(access.reader());
        for file in archive.entries_with_seek()? {
            let file = file?;
            let kind = match file.header().entry_type() {
                tar::EntryType::Regular | tar::EntryType::Continuous => EntryKind::Stored,
                tar::EntryType::GNUSparse => EntryKind::Unreadable("a sparse member", "tar -xf"),
                _ => continue,
            };
            let (start, len) = (file.raw_file_position(), file.size());
            let mut damage = Vec::new();
            if start.saturating_add(len) > access.len() {
                damage.push(Damage {
                    container: Container::Tar,
                    kind: DamageKind::Truncated,
                    compressed_offset: access.len(),
                    uncompressed_offset: access.len().saturating_sub(start),
                });
            }
            entries.push(Entry {
                name: String::from_utf8_lossy(&file.path_bytes()).into_owned(),
                start,
                len,
                kind,
                damage,
            });
        }
        Ok(())
    };
    let broken = list().err().map(|source| Error::Archive {
        name: name.to_owned(),
        container: Container::Tar,
        remedy: "the members before the break can be read; copy it again for the others",
        source: Box::new(source),
    });
    // If a truncated member was listed, the end of the archive is not a second finding.
    let cut = entries.iter().any(|entry| !entry.damage.is_empty());
    (entries, broken.filter(|_| !cut))
}

/// Maximum size in bytes of an archive kept in memory; larger ones go to a temporary file.
const SPOOL_MEMORY_BYTES: u64 = 64 << 20;

/// Makes an archive from a pipe or inside a container readable at any offset.
///
/// Archives up to 64 MiB are kept in memory, larger ones in an unnamed temporary file.
pub(crate) fn spool(
    name: &str,
    stream: &mut impl Read,
    options: &OpenOptions,
) -> Result<RandomAccess, Error> {
    let reading = |offset: u64| move |error| Error::from_io(name, offset, error);
    let limit_bytes = options.limits.max_uncompressed_bytes;
    let mut memory = Vec::new();
    stream
        .by_ref()
        .take(SPOOL_MEMORY_BYTES.min(limit_bytes))
        .read_to_end(&mut memory)
        .map_err(reading(0))?;
    let held = u64::try_from(memory.len()).unwrap_or(u64::MAX);
    let mut buffer = vec![0; 256 << 10];
    let mut count = stream.read(&mut buffer).map_err(reading(held))?;
    if count == 0 {
        return Ok(RandomAccess::memory(name, memory, None));
    }
    let spooling = |source| Error::Write {
        name: name.to_owned(),
        step: "unpack into a temporary file (see TMPDIR)",
        source,
    };
    let mut file: File = tempfile::tempfile().map_err(spooling)?;
    file.write_all(&memory).map_err(spooling)?;
    drop(memory);
    let mut len = held;
    while count > 0 {
        len += u64::try_from(count).unwrap_or(0);
        if len > limit_bytes {
            return Err(Error::OutputLimit {
                name: name.to_owned(),
                limit_bytes,
            });
        }
        file.write_all(buffer.get(..count).unwrap_or_default())
            .map_err(spooling)?;
        count = match stream.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            result => result.map_err(reading(len))?,
        };
    }
    Ok(RandomAccess::file(name, file, len, None))
}
