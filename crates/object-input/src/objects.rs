//! The store of a process: what is known of objects in a run, and how they are opened.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use byte_source::remote::{Object, Opened, Store};
use byte_source::{Error, Progress};
use futures::TryStreamExt as _;

use crate::address::{Address, Kind};
use crate::bucket::{self, Bucket, bucket_of};
use crate::explain::{Failure, NO_LISTING};
use crate::parts::{Head, Parts, Target, head};
use crate::runtime::wait;

/// Bytes that the first request for an object brings: enough to tell what it is.
const HEAD: u64 = 64 << 10;

/// Bytes of such beginnings that are kept, so that looking at an object and reading it is one request more than reading it.
const KEPT: usize = 32 << 20;

/// Number of beginnings that are kept.
const KEPT_HEADS: usize = 1024;

/// Time after which the begin of an object is read again, in programs that run for long.
const FRESH: Duration = Duration::from_secs(60);

/// All objects of all stores.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    known: Arc<Mutex<Known>>,
}

/// What was found out in a run.
#[derive(Debug, Default)]
struct Known {
    objects: ByName<Object>,
    /// Folders that were listed: what is not in them is not there.
    listed: ByName<Vec<Object>>,
    heads: VecDeque<(String, Instant, Arc<Head>)>,
    head_bytes: usize,
    hashes: ByName<String>,
    /// Why a server was not reached: the next request would wait as long for the same answer.
    unreached: ByName<String>,
}

type ByName<T> = HashMap<String, T>;

impl Known {
    fn keep(&mut self, url: &str, head: &Arc<Head>) {
        self.objects.insert(url.to_owned(), object(url, head));
        self.heads
            .push_back((url.to_owned(), Instant::now(), Arc::clone(head)));
        self.head_bytes += head.bytes.len();
        while self.head_bytes > KEPT || self.heads.len() > KEPT_HEADS {
            let Some((_, _, old)) = self.heads.pop_front() else {
                break;
            };
            self.head_bytes -= old.bytes.len();
        }
    }
}

fn object(url: &str, head: &Head) -> Object {
    Object {
        url: PathBuf::from(url),
        bytes: head.version.bytes,
        tag: head.version.tag.clone(),
    }
}

fn failed(name: &str) -> impl FnOnce(std::io::Error) -> Error + use<> {
    let name = name.to_owned();
    move |error| Error::Remote {
        name,
        text: error.to_string(),
    }
}

impl Objects {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a request, unless the server was tried in vain before.
    fn ask<T>(
        &self,
        url: &str,
        (address, bucket): (&Address, &Bucket),
        request: impl FnOnce() -> std::io::Result<Result<T, Failure>>,
    ) -> Result<T, Error> {
        let unreached = |text: &String| Error::Remote {
            name: url.to_owned(),
            text: text.clone(),
        };
        if !bucket.has_answered()
            && let Some(error) = self.known().unreached.get(&address.base).map(unreached)
        {
            return Err(error);
        }
        match request().map_err(failed(url))? {
            Ok(found) => {
                bucket.answered();
                Ok(found)
            }
            Err(failure) if failure.is_answer => {
                bucket.answered();
                Err(failure.error)
            }
            Err(failure) => {
                if let (Error::Remote { text, .. }, false) = (&failure.error, bucket.has_answered())
                {
                    let mut known = self.known();
                    known.unreached.insert(address.base.clone(), text.clone());
                }
                Err(failure.error)
            }
        }
    }

    /// Returns the begin of an object, and where to read the rest.
    fn head(&self, url: &str) -> Result<(Target, Arc<Head>), Error> {
        let address = Address::parse(url)?;
        let bucket = bucket_of(url, &address)?;
        let target = Target {
            name: url.to_owned(),
            store: bucket.store(),
            key: address.key.clone(),
        };
        let mut known = self.known();
        if let Some(at) = known.heads.iter().position(|(name, ..)| name == url)
            && let Some((name, since, head)) = known.heads.remove(at)
        {
            if since.elapsed() < FRESH {
                known.heads.push_back((name, since, Arc::clone(&head)));
                return Ok((target, head));
            }
            known.head_bytes -= head.bytes.len();
        }
        drop(known);
        let asked = target.clone();
        let request = || wait(async move { head(&asked, HEAD).await });
        let head = Arc::new(self.ask(url, (&address, &bucket), request)?);
        self.known().keep(url, &head);
        let target = Target {
            store: bucket.store(),
            ..target
        };
        Ok((target, head))
    }
}

impl Store for Objects {
    fn begin(&self) {
        *self.known() = Known::default();
        bucket::forget();
    }

    fn stat(&self, url: &str) -> Result<Option<Object>, Error> {
        let known = self.known();
        if let Some(object) = known.objects.get(url) {
            return Ok(Some(object.clone()));
        }
        let folders = url
            .match_indices('/')
            .map(|(at, _)| url.get(..=at).unwrap_or_default());
        if folders
            .into_iter()
            .any(|folder| known.listed.contains_key(folder))
        {
            return Ok(None);
        }
        drop(known);
        let address = Address::parse(url)?;
        if address.key.is_root() && address.kind != Kind::Web {
            return Ok(None);
        }
        match self.head(url) {
            Ok((_, head)) => Ok(Some(object(url, &head))),
            Err(Error::NoObject { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn list(&self, url: &str) -> Result<Vec<Object>, Error> {
        if let Some(objects) = self.known().listed.get(url) {
            return Ok(objects.clone());
        }
        let address = Address::parse(url)?;
        let bucket = bucket_of(url, &address)?;
        let (store, prefix) = (bucket.store(), address.key.clone());
        let name = url.to_owned();
        let listing = async move {
            let prefix = (!prefix.is_root()).then_some(&prefix);
            let listed = store.list(prefix).try_collect::<Vec<_>>().await;
            listed.map_err(|error| Failure::of(&name, &error))
        };
        let listed = self.ask(url, (&address, &bucket), || wait(listing))?;
        // What is not there and what is empty look the same to WebDAV.
        if listed.is_empty() && address.kind == Kind::Web {
            return Err(no_listing(url));
        }
        let objects = listed.iter().filter(|meta| meta.location != address.key);
        let objects: Vec<Object> = objects
            .map(|meta| Object {
                url: PathBuf::from(address.url_of(&meta.location)),
                bytes: meta.size,
                tag: meta.e_tag.clone(),
            })
            .collect();
        let mut known = self.known();
        for object in &objects {
            if let Some(name) = object.url.to_str() {
                known.objects.insert(name.to_owned(), object.clone());
            }
        }
        known.listed.insert(url.to_owned(), objects.clone());
        Ok(objects)
    }

    fn open(&self, url: &str, progress: Option<Arc<Progress>>) -> Result<Opened, Error> {
        let (target, head) = self.head(url)?;
        let known = Arc::clone(&self.known);
        let name = url.to_owned();
        let at_end = move |hash: String| {
            let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
            known.hashes.insert(name, hash);
        };
        let bytes = Some(head.version.bytes);
        let parts = Parts::new(target, Head::clone(&head), progress, Box::new(at_end));
        Ok(Opened {
            bytes,
            reader: Box::new(parts),
        })
    }

    fn hash(&self, url: &str) -> Option<String> {
        let known = || self.known().hashes.get(url).cloned();
        known().or_else(|| {
            // Its reader has stopped before the end, behind which there is nothing for it.
            let mut reader = self.open(url, None).ok()?.reader;
            std::io::copy(&mut reader, &mut std::io::sink()).ok()?;
            known()
        })
    }
}

fn no_listing(url: &str) -> Error {
    Error::Remote {
        name: url.to_owned(),
        text: NO_LISTING.to_owned(),
    }
}
