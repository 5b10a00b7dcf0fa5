//! A question in other words, by rule: what a grade-school subquestion sounds like from another mouth.
//!
//! No model writes these, so that the set is the same everywhere: the opening is turned round and words are put for
//! others from a table. Names, which tell one problem from another, stay.

/// Openings and what they are turned into; the first that fits.
const OPENINGS: [(&str, &str); 14] = [
    ("how many more", "by what number greater are the"),
    ("how many total", "what is the overall count of"),
    ("how many", "what is the number of"),
    ("how much more", "what is the additional amount that"),
    ("how much money", "which sum of cash"),
    ("how much", "which amount"),
    ("how long", "what length of time"),
    ("how old", "at what age"),
    ("how far", "over what distance"),
    ("how fast", "at what speed"),
    ("what is the total", "find the overall"),
    ("what is", "determine"),
    ("what was", "determine"),
    ("what", "which"),
];

/// Words and others for them. Where a word stands in several forms, each has its own.
const WORDS: [(&str, &str); 84] = [
    ("total", "overall"),
    ("altogether", "combined"),
    ("together", "combined"),
    ("make", "earn"),
    ("makes", "earns"),
    ("made", "earned"),
    ("buy", "purchase"),
    ("buys", "purchases"),
    ("bought", "purchased"),
    ("sell", "trade away"),
    ("sold", "traded away"),
    ("cost", "price"),
    ("costs", "prices"),
    ("price", "cost"),
    ("spend", "pay out"),
    ("spent", "paid out"),
    ("spends", "pays out"),
    ("pay", "spend"),
    ("paid", "spent"),
    ("eat", "consume"),
    ("eats", "consumes"),
    ("ate", "consumed"),
    ("get", "receive"),
    ("gets", "receives"),
    ("got", "received"),
    ("give", "hand over"),
    ("gave", "handed over"),
    ("need", "require"),
    ("needs", "requires"),
    ("children", "kids"),
    ("kids", "children"),
    ("each", "every"),
    ("every", "each"),
    ("left", "remaining"),
    ("remaining", "left over"),
    ("remain", "be left"),
    ("more", "additional"),
    ("extra", "additional"),
    ("additional", "extra"),
    ("start", "begin"),
    ("started", "began"),
    ("end", "finish"),
    ("house", "home"),
    ("home", "house"),
    ("money", "cash"),
    ("big", "large"),
    ("large", "big"),
    ("small", "little"),
    ("weekly", "each week"),
    ("daily", "each day"),
    ("monthly", "each month"),
    ("yearly", "each year"),
    ("annual", "yearly"),
    ("per", "for each"),
    ("work", "labour"),
    ("worked", "laboured"),
    ("works", "labours"),
    ("drive", "travel by car"),
    ("drives", "travels by car"),
    ("run", "jog"),
    ("runs", "jogs"),
    ("walk", "go on foot"),
    ("walks", "goes on foot"),
    ("finish", "complete"),
    ("take", "last"),
    ("took", "lasted"),
    ("use", "employ"),
    ("used", "employed"),
    ("uses", "employs"),
    ("collect", "gather"),
    ("collected", "gathered"),
    ("save", "put aside"),
    ("saved", "put aside"),
    ("weigh", "have as weight"),
    ("weight", "mass"),
    ("original", "first"),
    ("after", "once past"),
    ("combined", "taken together"),
    ("difference", "gap"),
    ("amount", "quantity"),
    ("number", "count"),
    ("people", "persons"),
    ("students", "pupils"),
    ("dollars", "bucks"),
];

/// `question` in other words.
pub(super) fn paraphrase(question: &str) -> String {
    let plain = question.trim().trim_end_matches(['?', '.', '!']);
    let lower = plain.to_lowercase();
    let opening = OPENINGS.iter().find(|(from, _)| {
        lower.strip_prefix(from).is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace))
    });
    let (mut out, rest) = match opening {
        // Lower-casing changes no lengths of what stands in the table, which is ASCII.
        Some((from, to)) => (vec![(*to).to_owned()], plain.get(from.len()..).unwrap_or_default()),
        None => (Vec::new(), plain),
    };
    for word in rest.split_whitespace() {
        let bare = word.trim_matches(|ch: char| !ch.is_alphanumeric()).to_lowercase();
        let other = WORDS.iter().find(|(from, _)| *from == bare);
        // Helping verbs go: the new opening asks already.
        if ["does", "do", "did", "will", "would"].contains(&bare.as_str()) {
            continue;
        }
        out.push(other.map_or_else(|| word.to_owned(), |(_, to)| (*to).to_owned()));
    }
    out.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_keeps_its_names_and_loses_its_words() {
        assert_eq!(
            paraphrase("How much money does Janet make selling eggs each week?"),
            "which sum of cash Janet earn selling eggs every week"
        );
        assert_eq!(paraphrase("How many eggs does Janet sell?"), "what is the number of eggs Janet trade away");
        assert_eq!(paraphrase("Howmany é?"), "Howmany é");
        assert_eq!(paraphrase(""), "");
    }
}
