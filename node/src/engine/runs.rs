//! Runs of peers: who may have and tell them, and what storage made of them.

use folklore_protocol::{AuthorId, BankId, Event, Policy, bank::PUBLIC_SALT};
use folklore_store::{bank::Store, catalogue::Catalogue, runs::log::RunError};

use super::Engine;

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

/// Whether a node's runs in a bank are copied here: it may write there and was not shut out, and this node may read. In a
/// public bank nobody's are.
pub(super) fn copies(store: &Store, catalogue: &Catalogue, me: &AuthorId, bank: &BankId, peer: &AuthorId) -> bool {
    let public = store.banks().iter().any(|info| info.id == *bank && info.salt == PUBLIC_SALT);
    let shut_out = catalogue.revoked_after(bank, peer).is_some();
    let rule = |policy: &Policy, owner: &AuthorId| policy.may_write(owner, peer) && policy.may_read(owner, me);
    !public && !shut_out && may(store, catalogue, bank, rule)
}

/// How many steps of a peer's run are here; none where it could not be stored. It is told of again before long.
pub(super) fn held(have: Option<Result<Option<u32>, RunError>>) -> Option<u32> {
    have?.unwrap_or_else(|error| {
        tracing::warn!(%error, "a run of a peer could not be stored");
        None
    })
}

impl Engine {
    /// Goes by the policies of the banks as they are now: tells the state machine who may hear of runs, and lets those copies
    /// go that would not be taken any more.
    pub(super) fn apply_policies(&mut self) {
        for info in self.store.banks() {
            let readers = self.catalogue.policy(&info.id).readers_with(&info.owner);
            self.handle(Event::RunReaders { bank: info.id, readers });
        }
        let me = self.node.id();
        self.work(None, move |store, catalogue| {
            match store.retain_copies(|bank, peer| copies(store, catalogue, &me, bank, peer)) {
                Ok(0) => {}
                Ok(gone) => {
                    tracing::info!(gone, "copies of runs are let go: the policy of their bank forbids them now")
                }
                Err(error) => tracing::warn!(%error, "copies of runs that the policy forbids are still here"),
            }
            Vec::new()
        });
    }
}
