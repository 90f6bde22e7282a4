"""The commands that start agents of other makers with the model that is served here."""

import json
import shlex
from dataclasses import dataclass

from app import protocol

_CLAUDE = """export ANTHROPIC_BASE_URL={url} ANTHROPIC_AUTH_TOKEN={key}
export ANTHROPIC_MODEL={model} ANTHROPIC_DEFAULT_HAIKU_MODEL={model}
export CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1
claude"""
_CODEX = """export REDLINE_API_KEY={key}
codex -c model_provider=redline -c model_providers.redline={provider} -m {model} -c model_context_window={context}"""
_OPENCODE = """export OPENCODE_CONFIG_CONTENT={config}
opencode"""


@dataclass(frozen=True)
class Agent:
    """An agent. name: as people know it. lines: a template of shell commands. first_prompt: how many tokens of the
    built-in model's tokenizer its first prompt has, with its own tools alone, rounded up for the chat template
    (`python -m tests.programs.agents` measures it)."""

    name: str
    lines: str
    first_prompt: int


AGENTS = {
    "claude": Agent("Claude Code", _CLAUDE, 20_000),
    "codex": Agent("Codex", _CODEX, 7_000),
    "opencode": Agent("opencode", _OPENCODE, 8_000),
}


def agent_lines(agent: str, loaded: protocol.Loaded, url: str, key: str) -> str:
    """Returns the shell commands that start an agent with the loaded model. url: of the server, without a path."""
    model = {"limit": {"context": loaded.context, "output": loaded.context // 4}}
    options = {"baseURL": f"{url}/v1", "apiKey": key}
    provider = {"npm": "@ai-sdk/openai-compatible", "options": options, "models": {loaded.target: model}}
    config = {"model": f"redline/{loaded.target}", "provider": {"redline": provider}}
    codex = f'{{name="Redline", base_url="{url}/v1", env_key="REDLINE_API_KEY", wire_api="responses"}}'
    return AGENTS[agent].lines.format(
        url=url,
        key=shlex.quote(key),
        model=shlex.quote(loaded.target),
        context=loaded.context,
        provider=shlex.quote(codex),
        config=shlex.quote(json.dumps(config)),
    )


def agent_warning(agent: str, loaded: protocol.Loaded) -> str:
    """Returns why an agent cannot work with the loaded model, "" where it can."""
    known = AGENTS[agent]
    if not loaded.tools:
        return f"{loaded.target} cannot call tools, which {known.name} needs: choose another model"
    if loaded.context <= known.first_prompt:
        sizes = f"{known.first_prompt:,} tokens, and the context holds {loaded.context:,}"
        return f"the first prompt of {known.name} has about {sizes}: choose another model or a larger context"
    return ""
