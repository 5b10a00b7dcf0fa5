//! Chat, mail and telephony.

use super::DIGITS_FLOOR;
use crate::redact::rule::{Rule, floored, infix, token, word};

pub(crate) const RULES: &[Rule] = &[
    floored(
        DIGITS_FLOOR,
        token(
            "slack-token",
            "Slack",
            &["xoxb-", "xoxp-", "xoxa-", "xoxr-", "xoxs-", "xoxe-", "xoxc-", "xoxd-", "xoxo-"],
            "[A-Za-z0-9%-]{16,}",
        ),
    ),
    token("slack-config-token", "Slack", &["xoxe.xoxp-", "xoxe.xoxb-"], "[0-9]-[A-Za-z0-9]{40,}"),
    floored(DIGITS_FLOOR, token("slack-app-token", "Slack", &["xapp-"], "[0-9]-[A-Z0-9]{8,}-[0-9]{8,}-[0-9a-z]{20,}")),
    token(
        "slack-webhook",
        "Slack",
        &["hooks.slack.com/services/", "hooks.slack.com/workflows/", "hooks.slack.com/triggers/"],
        "[A-Za-z0-9+/]{40,}",
    ),
    floored(
        DIGITS_FLOOR,
        token(
            "discord-webhook",
            "Discord",
            &["discord.com/api/webhooks/", "discordapp.com/api/webhooks/"],
            "[0-9]{17,20}/[A-Za-z0-9_-]{60,}",
        ),
    ),
    // A bot token begins with its user id in base64: a digit always makes M, N or O,
    // the next one of D, T, j, z, the high half of the third one of ten letters.
    word(
        "discord-bot-token",
        "Discord",
        DISCORD_HEADS,
        r"[A-Za-z0-9_-]{20,26}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,40}",
    ),
    infix("telegram-bot-token", "Telegram", &[":AA"], "[0-9]{8,10}", "[A-Za-z0-9_-]{33}"),
    token(
        "teams-webhook",
        "Microsoft Teams",
        &["webhook.office.com/webhookb2/"],
        "[A-Za-z0-9@-]{70,80}/IncomingWebhook/[A-Za-z0-9]{32}[A-Za-z0-9/_-]*",
    ),
    floored(
        DIGITS_FLOOR,
        token(
            "zapier-webhook",
            "Zapier",
            &["hooks.zapier.com/hooks/catch/"],
            "[0-9]{5,}/[A-Za-z0-9]{6,}(?:/[A-Za-z0-9]+)?[/A-Za-z0-9]{4,}",
        ),
    ),
    token("sendgrid-api-key", "SendGrid", &["SG."], r"[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{16,64}"),
    word("mailgun-api-key", "Mailgun", &["key-"], "[0-9a-f]{32}"),
    infix("mailchimp-api-key", "Mailchimp", &["-us"], "[0-9a-f]{32}", "[0-9]{1,2}"),
    token("brevo-api-key", "Brevo", &["xkeysib-", "xsmtpsib-"], "[0-9a-f]{64}-[A-Za-z0-9]{16}"),
    word("resend-api-key", "Resend", &["re_"], "[A-Za-z0-9]{8}_[A-Za-z0-9]{24}"),
    word("twilio-api-key", "Twilio", &["SK"], "[0-9a-fA-F]{32}"),
];

#[rustfmt::skip]
const DISCORD_HEADS: &[&str] = &[
    "MDA", "MDE", "MDI", "MDM", "MDQ", "MDU", "MDY", "MDc", "MDg", "MDk",
    "MTA", "MTE", "MTI", "MTM", "MTQ", "MTU", "MTY", "MTc", "MTg", "MTk",
    "MjA", "MjE", "MjI", "MjM", "MjQ", "MjU", "MjY", "Mjc", "Mjg", "Mjk",
    "MzA", "MzE", "MzI", "MzM", "MzQ", "MzU", "MzY", "Mzc", "Mzg", "Mzk",
    "NDA", "NDE", "NDI", "NDM", "NDQ", "NDU", "NDY", "NDc", "NDg", "NDk",
    "NTA", "NTE", "NTI", "NTM", "NTQ", "NTU", "NTY", "NTc", "NTg", "NTk",
    "NjA", "NjE", "NjI", "NjM", "NjQ", "NjU", "NjY", "Njc", "Njg", "Njk",
    "NzA", "NzE", "NzI", "NzM", "NzQ", "NzU", "NzY", "Nzc", "Nzg", "Nzk",
    "ODA", "ODE", "ODI", "ODM", "ODQ", "ODU", "ODY", "ODc", "ODg", "ODk",
    "OTA", "OTE", "OTI", "OTM", "OTQ", "OTU", "OTY", "OTc", "OTg", "OTk",
    "OjA", "OjE", "OjI", "OjM", "OjQ", "OjU", "OjY", "Ojc", "Ojg", "Ojk",
    "OzA", "OzE", "OzI", "OzM", "OzQ", "OzU", "OzY", "Ozc", "Ozg", "Ozk",
];
