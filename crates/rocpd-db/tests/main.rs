//! Databases with planted truth, damaged ones, and the reference's own.

mod damaged;
mod drafts;
mod newer;
mod nulls;
mod orphans;
mod planted;
mod reference;
mod stored_views;
