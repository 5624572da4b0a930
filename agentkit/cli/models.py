"""`agentkit models`: what can be asked from here; nobody is asked."""

import os

import click

PROVIDERS = {
    "openai": ("OPENAI_API_KEY", "openai/gpt-4o-mini"),
    "anthropic": ("ANTHROPIC_API_KEY", "anthropic/claude-sonnet-4-5"),
    "gemini": ("GEMINI_API_KEY", "gemini/gemini-2.5-flash"),
    "groq": ("GROQ_API_KEY", "groq/llama-3.1-8b-instant"),
    "mistral": ("MISTRAL_API_KEY", "mistral/mistral-small-latest"),
    "deepseek": ("DEEPSEEK_API_KEY", "deepseek/deepseek-chat"),
    "openrouter": ("OPENROUTER_API_KEY", "openrouter/openai/gpt-4o-mini"),
    "xai": ("XAI_API_KEY", "xai/grok-3-mini"),
}
"""The variable that holds the key of a provider, and a model of theirs that calls tools."""
AT_HOME = {
    "ollama_chat": ("OLLAMA_API_BASE", "ollama_chat/llama3.1", "a server at home, by default port 11434 here"),
    "hosted_vllm": ("HOSTED_VLLM_API_BASE", "hosted_vllm/MODEL", "your own vLLM server"),
}


@click.command()
def models() -> None:
    """List the models that are configured here, and which variable each provider misses; nothing is sent."""
    chosen = os.environ.get("AGENTKIT_MODEL")
    click.echo(f"default      {chosen or 'offline'} ({'AGENTKIT_MODEL' if chosen else 'AGENTKIT_MODEL is not set'})")
    click.echo("offline      ready: the embedded planner; it matches words, it does not understand them")
    for provider, (variable, example) in PROVIDERS.items():
        state = "ready" if os.environ.get(variable) else f"set {variable}"
        click.echo(f"{provider:<12} {state}: --model {example}")
    for provider, (variable, example, where) in AT_HOME.items():
        base = os.environ.get(variable)
        click.echo(f"{provider:<12} {base or where} ({variable}): --model {example}")
    click.echo("Any other model that litellm knows works the same: https://docs.litellm.ai/docs/providers")
