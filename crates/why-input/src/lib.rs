//! From the paths of a question to its answer.
//!
//! * [`Question`]: paths and choice, as arguments of a command line;
//! * [`answer()`]: finds by content what each file is, reads recordings, joins captures and logs, and explains;
//! * [`role`], [`others_in`]: what a file is used for, and which files a folder holds besides recordings.
//!
//! `why` and the tools that have its findings as a table share it, so that they give one answer. It computes and words nothing:
//! `findings` does.

mod answer;
mod question;
mod sniff;

pub use answer::answer;
pub use question::Question;
pub use sniff::{others_in, role};
