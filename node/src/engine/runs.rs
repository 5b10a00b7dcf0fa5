//! Runs of peers: who may have and tell them, and what storage made of them.

use folklore_protocol::{AuthorId, BankId, Policy};
use folklore_store::{bank::Store, catalogue::Catalogue, runs::log::RunError};

/// Whether the policy of a bank that is here allows something.
pub(super) fn may(
    store: &Store,
    catalogue: &Catalogue,
    bank: &BankId,
    rule: impl FnOnce(&Policy, &AuthorId) -> bool,
) -> bool {
    let owner = store.banks().into_iter().find(|info| info.id == *bank).map(|info| info.owner);
    owner.is_some_and(|owner| rule(&catalogue.policy(bank), &owner))
}

/// How many steps of a peer's run are here; none where it could not be stored. It is told of again before long.
pub(super) fn held(have: Option<Result<Option<u32>, RunError>>) -> Option<u32> {
    have?.unwrap_or_else(|error| {
        tracing::warn!(%error, "a run of a peer could not be stored");
        None
    })
}
