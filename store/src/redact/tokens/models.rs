//! Language models and what is built on them.

use super::UUID;
use crate::redact::rule::{Rule, token, word};

pub(crate) const RULES: &[Rule] = &[
    token("openai-api-key", "OpenAI", &["sk-proj-", "sk-svcacct-", "sk-admin-"], "[A-Za-z0-9_-]{20,}"),
    // The old form, which DeepSeek, Moonshot and LiteLLM use too.
    word("openai-api-key", "OpenAI", &["sk-"], "[A-Za-z0-9]{20,64}"),
    token("anthropic-api-key", "Anthropic", &["sk-ant-"], "[A-Za-z0-9_-]{20,}"),
    token("openrouter-api-key", "OpenRouter", &["sk-or-v1-"], "[0-9a-f]{64}"),
    token("langfuse-secret-key", "Langfuse", &["sk-lf-"], UUID),
    token("langsmith-api-key", "LangSmith", &["lsv2_pt_", "lsv2_sk_"], "[0-9a-f]{32}_[0-9a-f]{8,12}"),
    word("huggingface-token", "Hugging Face", &["hf_"], "[A-Za-z0-9]{30,40}"),
    word("huggingface-org-token", "Hugging Face", &["api_org_"], "[A-Za-z0-9]{30,40}"),
    word("replicate-token", "Replicate", &["r8_"], "[A-Za-z0-9]{36,40}"),
    token("groq-api-key", "Groq", &["gsk_"], "[A-Za-z0-9]{40,}"),
    word("xai-api-key", "xAI", &["xai-"], "[A-Za-z0-9]{60,}"),
    token("perplexity-api-key", "Perplexity", &["pplx-"], "[A-Za-z0-9]{40,}"),
    token("nvidia-api-key", "NVIDIA", &["nvapi-"], "[A-Za-z0-9_-]{60,}"),
    word("cerebras-api-key", "Cerebras", &["csk-"], "[a-z0-9]{40,}"),
    word("fireworks-api-key", "Fireworks AI", &["fw_"], "[A-Za-z0-9]{22,24}"),
    token("together-api-key", "Together AI", &["tgp_v1_"], "[A-Za-z0-9_-]{40,}"),
    token("tavily-api-key", "Tavily", &["tvly-"], "(?:dev-|prod-)?[A-Za-z0-9_-]{28,}"),
    token("pinecone-api-key", "Pinecone", &["pcsk_"], "[A-Za-z0-9_]{40,}"),
    token("jina-api-key", "Jina AI", &["jina_"], "[0-9a-f]{32}[A-Za-z0-9_-]{20,}"),
    word("elevenlabs-api-key", "ElevenLabs", &["sk_"], "[0-9a-f]{48}"),
    word("wandb-api-key", "Weights & Biases", &["wandb_v1_"], "[A-Za-z0-9_]{40,}"),
];
