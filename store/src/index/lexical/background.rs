//! How common words are before the bank itself can tell.
//!
//! A young bank has no document frequencies of its own, so a background of imagined documents stands beside it: function
//! words are common from the first lesson on, and a word of the first lesson is not.

use std::collections::HashMap;
use std::sync::OnceLock;

use crate::index::tokens::tokenize;

/// Imagined documents that stand beside the bank. Fitted together with the gate.
pub(super) const BACKGROUND_DOCS: f32 = 50.0;
/// The share of background documents that hold a function word.
const FUNCTION_SHARE: f32 = 0.7;
/// The share of background documents that hold a common word.
const COMMON_SHARE: f32 = 0.2;

/// English words that carry no topic. Written for this project.
const FUNCTION_WORDS: &str = "a about above after again against all also am an and any anything are as at be because been \
    before being below between both but by can can't cannot could did do does doesn't doing don't down during each either \
    ever every everyone everything few for from further get gets give go goes going got had has have having he help her here \
    hers him his how however i i'm i've if in instead into is isn't it its itself just let like made make makes making may me \
    might more most much must my myself need needs never no nobody none nor not nothing now of off often on once only or other \
    others our out over own perhaps please quite rather really same shall she should since so some someone something still \
    such tell than that the their them themselves then there these they thing things this those though through to together \
    too toward under unless until up upon us use used uses using very via want wants was way we well were what whatever when \
    where whether which while who whom whose why will with within without would yes yet you your yours yourself";

/// English words that most texts on most topics share. Written for this project.
const COMMON_WORDS: &str = "able actually add allow almost alone already always amount answer around ask away back bad become \
    begin best better big bit bring build buy call case cause change check choose clear close come common complete consider \
    contain continue cost could couple create day deal decide describe detail difference different difficult early easy end \
    enough example exist expect explain fact far fast feel find first follow form found free full general good great group \
    half hand happen happy hard head high hold home hope hour house idea important include keep kind know large last late lead \
    learn least leave left less level life list little live long look lose lot low main man many matter mean meaning method \
    minute moment money month move name near new next nice night number obtain old one open opinion order part past people \
    person piece place plan play point possible prefer problem provide put question quick reach read ready reason receive \
    remember result return right run safe say second see seem sense set several short show side simple single small soon \
    sort sound start state stay step stop story sure take talk ten thank think three time today tomorrow top total true try \
    turn two type understand useful usual value version wait walk watch week whole wish word work world worth write wrong year \
    yesterday young";

/// Words that most work of agents shares, whatever it is about: "fix the bug" and "check the status of an order" name no
/// topic in a bank of lessons. As common as [`COMMON_WORDS`]. Written for this project.
const AGENT_WORDS: &str = "account agent app application article behaviour behavior browser bug build button click \
    client code command commit comment config correct crash customer data database debug default delete detail \
    directory doc document documentation download email error exception expected fail failing failure feature field \
    file fix folder form format function handle implement improve info information input install instruction issue \
    item job library line link load log login message module new object option order output page parameter password \
    performance post print process product program project pull python query refactor release remove repository \
    report request respond response review rule script search select send server service setting shop site software \
    source specific status step string submit support system table task test text tool type typo unexpected update \
    upload url user variable warning web website wrong";

/// The share of background documents that hold `term`.
pub(super) fn background_share(term: &str) -> f32 {
    static SHARES: OnceLock<HashMap<String, f32>> = OnceLock::new();
    let shares = SHARES.get_or_init(|| {
        let terms = |words, share| tokenize(words).into_iter().map(move |token| (token.term, share));
        // Function words last: where two words have one stem, the commoner decides.
        let common = terms(COMMON_WORDS, COMMON_SHARE).chain(terms(AGENT_WORDS, COMMON_SHARE));
        common.chain(terms(FUNCTION_WORDS, FUNCTION_SHARE)).collect()
    });
    shares.get(term).copied().unwrap_or(0.0)
}
