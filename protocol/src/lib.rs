//! What Folklore nodes say to each other.
pub mod bank;
pub mod canonical;
pub mod claim;
pub mod identity;
pub mod known;
pub mod lesson;
pub mod message;
pub mod record;
pub mod tally;
