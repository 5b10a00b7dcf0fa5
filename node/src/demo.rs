//! `folklore demo`: three real nodes on this machine live through a cut link, and say in numbers what came of it.
//!
//! Every node is a process of its own with its own data directory and real sockets on loopback. The story waits for what it
//! can observe at the nodes, never for time to pass, and fails if any step did not happen.

mod cast;
mod runs;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use serde::Serialize;

use crate::api::{self, RecallRequest, Scope};
use cast::Site;
use runs::{Questions, expected_lessons};

/// The whole story takes no longer, or it has failed.
pub const LIMIT: Duration = Duration::from_secs(60);
/// How often a condition is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(25);

/// Why the story stopped: what was to happen and did not.
#[derive(Debug, thiserror::Error)]
#[error("the demo stopped: {0}")]
pub struct DemoError(String);

impl DemoError {
    fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }
}

type Step<T> = Result<T, DemoError>;

/// The numbers of the story.
#[derive(Debug, Clone, Serialize)]
pub struct Outcome {
    /// Runs that the sites imported.
    pub runs: u64,
    /// Lessons drawn from them.
    pub lessons: u64,
    /// Milliseconds from the import at north until south, connected, held all of its lessons.
    pub to_connected_site_ms: u64,
    /// Milliseconds from the healing of the link until west held all of them.
    pub to_healed_site_ms: u64,
    /// Lessons that west lacked when the link came back.
    pub lessons_missed: u64,
    /// Bytes that west received to catch up, as frames.
    pub catch_up_bytes: u64,
    /// Questions asked at west about what only the others had lived through.
    pub questions: u64,
    /// Answered with the right lesson while cut off.
    pub right_while_cut: u64,
    /// Answered with the right lesson after the link was back.
    pub right_after: u64,
    /// The root that all three hold at the end.
    pub held_root: String,
    /// Seconds in all.
    pub seconds: f64,
}

/// Tells the story line by line to `say`.
pub async fn run(say: &mut dyn FnMut(&str)) -> Step<Outcome> {
    match tokio::time::timeout(LIMIT, story(say)).await {
        Ok(outcome) => outcome,
        Err(_) => Err(DemoError::new(format!("it took longer than {} s", LIMIT.as_secs()))),
    }
}

async fn story(say: &mut dyn FnMut(&str)) -> Step<Outcome> {
    let began = Instant::now();
    let dir = tempfile::Builder::new()
        .prefix("folklore-demo-")
        .tempdir()
        .map_err(|error| DemoError::new(format!("no directory for the nodes: {error}")))?;
    let examples = dir.path().join("runs");
    runs::write_to(&examples)
        .map_err(|error| DemoError::new(format!("the example runs cannot be written: {error}")))?;
    let expected = expected_lessons(&examples)?;
    let questions = Questions::read()?;

    say("Three agents' sites, one shared bank, real processes on this machine.\n");
    let north = Site::start("north", dir.path(), None).await?;
    let ticket = north.invite().await?;
    let south = Site::start("south", dir.path(), Some(&ticket)).await?;
    let west = Site::start("west", dir.path(), Some(&ticket)).await?;
    let bank = north.status().await?.banks.first().map(|b| b.id.clone()).unwrap_or_default();
    for site in [&south, &west] {
        until(&format!("{} reaches north", site.name), || site.sees(&north)).await?;
    }
    say(&format!("1. north made a bank; south and west joined with its ticket ({} characters).", ticket.len()));

    let coding = south.import(&examples.join("coding"), Some(&examples.join("coding/outcomes.json"))).await?;
    let all = [&north, &south, &west];
    until("all three hold what south learned", || same_root(&all, &bank)).await?;
    say(&format!(
        "2. south imported {} finished runs of coding agents: {} lessons, now at all three sites.",
        coding.runs, coding.lessons
    ));

    for other in [&north, &south] {
        west.block(other, true).await?;
        other.block(&west, true).await?;
    }
    until("west is cut off", || async { Ok(west.connected().await? == 0) }).await?;
    say("3. The link to west goes down.");

    let imported = Instant::now();
    let shop = north.import(&examples.join("shop.json"), None).await?;
    until("south hears what north learned", || same_root(&all[..2], &bank)).await?;
    let to_connected_site_ms = millis(imported);
    let (at_north, at_west) = (north.lessons(&bank).await?, west.lessons(&bank).await?);
    let lessons_missed = at_north - at_west;
    if lessons_missed == 0 {
        return Err(DemoError::new("west was to miss lessons while cut off and missed none"));
    }
    say(&format!(
        "4. north imported {} runs of web-shop agents, failures among them: {} lessons. South had them {} ms later; \
         west cannot know them ({} of {} lessons there).",
        shop.runs, shop.lessons, to_connected_site_ms, at_west, at_north
    ));

    let right_while_cut = ask_all(&west, &questions, &expected).await?.right;
    if right_while_cut > 0 {
        return Err(DemoError::new("west answered from lessons that it cannot have"));
    }
    let asked = questions.only_north_knows.len() as u64;
    say(&format!("5. An agent at west asks {asked} questions in its own words and gets none of the lessons it needs."));

    let bytes_before = west.bytes_in().await?;
    let healed = Instant::now();
    for other in [&north, &south] {
        other.block(&west, false).await?;
        west.block(other, false).await?;
    }
    until("west catches up", || same_root(&all, &bank)).await?;
    let to_healed_site_ms = millis(healed);
    let catch_up_bytes = west.bytes_in().await? - bytes_before;
    say(&format!(
        "6. The link comes back: after {to_healed_site_ms} ms west holds all {at_north} lessons, for {catch_up_bytes} bytes \
         received ({} a lesson missed).",
        catch_up_bytes / lessons_missed
    ));

    let answers = ask_all(&west, &questions, &expected).await?;
    if answers.right * 10 < asked * 9 {
        return Err(DemoError::new(format!(
            "west was warned by the right lesson in only {} of {asked} cases",
            answers.right
        )));
    }
    say(&format!(
        "7. The same {asked} questions at west again: warned by the right lesson {} times. One of them:\n",
        answers.right
    ));
    if let Some((question, hit)) = answers.shown {
        say(&format!("   asked:   {question}"));
        say(&format!("   warned:  [{}] {}", hit.lesson.fields.kind, hit.lesson.fields.title));
        for line in hit.lesson.fields.content.lines().take(3) {
            say(&format!("            {line}"));
        }
        let author = hit.authors.first().cloned().unwrap_or_default();
        let who = if author == north.id { "north".to_owned() } else { author };
        say(&format!("   taught by {who}; score {:.2} (cosine {:.2}, words {:.2})", hit.score, hit.dense, hit.lexical));
    }
    let held_root = north.root(&bank).await?;
    for site in [north, south, west] {
        site.stop().await?;
    }
    let outcome = Outcome {
        runs: coding.runs + shop.runs,
        lessons: coding.lessons + shop.lessons,
        to_connected_site_ms,
        to_healed_site_ms,
        lessons_missed,
        catch_up_bytes,
        questions: asked,
        right_while_cut,
        right_after: answers.right,
        held_root,
        seconds: began.elapsed().as_secs_f64(),
    };
    say(&format!(
        "\n{} runs, {} lessons, three equal banks (root {}…), {:.1} s.",
        outcome.runs,
        outcome.lessons,
        outcome.held_root.get(..12).unwrap_or_default(),
        outcome.seconds
    ));
    Ok(outcome)
}

struct Asked {
    right: u64,
    /// A question answered by a pitfall or contrast, to show.
    shown: Option<(String, api::Hit)>,
}

/// Asks every question that only north's lessons answer, with whatever network the site has.
async fn ask_all(site: &Site, questions: &Questions, expected: &BTreeMap<String, BTreeSet<String>>) -> Step<Asked> {
    let mut asked = Asked { right: 0, shown: None };
    for (task, query) in &questions.only_north_knows {
        let request = RecallRequest { scope: Scope::Network, ..RecallRequest::new(query.clone()) };
        let answer = site.recall(&request).await?;
        let Some(hit) = answer.hits.into_iter().next() else { continue };
        if expected.get(task).is_some_and(|ids| ids.contains(&hit.lesson.id)) {
            asked.right += 1;
            let warns = hit.lesson.fields.kind != folklore_protocol::LessonKind::Strategy;
            if warns && asked.shown.is_none() {
                asked.shown = Some((query.clone(), hit));
            }
        }
    }
    Ok(asked)
}

async fn same_root(sites: &[&Site], bank: &str) -> Step<bool> {
    let mut roots = BTreeSet::new();
    for site in sites {
        roots.insert(site.root(bank).await?);
    }
    Ok(roots.len() == 1)
}

/// Waits until a condition is seen. The whole story has a limit, so this needs none.
async fn until<F: Future<Output = Step<bool>>>(what: &str, mut condition: impl FnMut() -> F) -> Step<()> {
    loop {
        match condition().await {
            Ok(true) => return Ok(()),
            Ok(false) => tokio::time::sleep(LOOK_EVERY).await,
            Err(DemoError(why)) => return Err(DemoError::new(format!("waiting until {what}: {why}"))),
        }
    }
}

fn millis(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}
