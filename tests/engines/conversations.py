# Copyright (c) 2026 The dgx_spark.speculative contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hold conversations with one client's own means. Run as: conversations.py CLIENT URL KEY MODEL

The environment of requirements.txt runs it. Each part of a conversation is a line of JSON: its name, and what the
client made of the answers, or the error that the client raised.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import typing as t

Facts = dict[str, t.Any]

QUESTION = "What is the capital of France?"
TOOL = "find_capital"
DESCRIPTION = "Find the capital of a country."
PARAMETERS = {"type": "object", "properties": {"country": {"type": "string"}}, "required": ["country"]}
FUNCTION = {"type": "function", "function": {"name": TOOL, "description": DESCRIPTION, "parameters": PARAMETERS}}
RESULT = "Paris"
# A model may think before it answers.
MAX_TOKENS = 512


@dataclasses.dataclass(frozen=True)
class At:
    """The server of a conversation."""

    url: str
    key: str
    model: str

    @property
    def v1(self) -> str:
        """Return the address that clients of OpenAI's routes take."""
        return f"{self.url}/v1"


def asked(text: str = QUESTION) -> Facts:
    """Return a message of the user."""
    return {"role": "user", "content": text}


# openai: it checks each answer against its own types.


def _openai(at: At, *, strict: bool = True) -> t.Any:
    import openai

    return openai.OpenAI(base_url=at.v1, api_key=at.key, max_retries=0, _strict_response_validation=strict)


def openai_models(at: At) -> Facts:
    """List the models."""
    return {"texts": [model.id for model in _openai(at).models.list()]}


def openai_model(at: At) -> Facts:
    """Describe the one model."""
    return {"texts": [_openai(at).models.retrieve(at.model).id]}


def openai_completion(at: At) -> Facts:
    """Continue a text."""
    made = _openai(at).completions.create(model=at.model, prompt="The capital of France is", max_tokens=MAX_TOKENS)
    return {"texts": [made.choices[0].text], "tokens": made.usage.completion_tokens}


def openai_completion_stream(at: At) -> Facts:
    """Continue a text in pieces."""
    # Its type has no place for a piece that is not the last.
    client, prompt = _openai(at, strict=False), "The capital of France is"
    stream = client.completions.create(model=at.model, prompt=prompt, max_tokens=MAX_TOKENS, stream=True)
    return {"pieces": [chunk.choices[0].text for chunk in stream if chunk.choices]}


def openai_chat(at: At) -> Facts:
    """Ask a question, and another one after the answer."""
    client = _openai(at)
    first = client.chat.completions.create(model=at.model, messages=[asked()], max_tokens=MAX_TOKENS)
    text = first.choices[0].message.content
    messages = [asked(), {"role": "assistant", "content": text}, asked("What is the capital of Italy?")]
    second = client.chat.completions.create(model=at.model, messages=messages, max_completion_tokens=MAX_TOKENS)
    return {"texts": [text, second.choices[0].message.content], "tokens": first.usage.completion_tokens}


def openai_chat_stream(at: At) -> Facts:
    """Ask a question, and read the answer in pieces with its usage."""
    options = {"include_usage": True}
    stream = _openai(at).chat.completions.create(
        model=at.model, messages=[asked()], max_tokens=MAX_TOKENS, stream=True, stream_options=options
    )
    chunks = list(stream)
    deltas = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices]
    return {"pieces": [text for text in deltas if text], "tokens": chunks[-1].usage.completion_tokens}


def openai_tool(at: At) -> Facts:
    """Answer a call of the model."""
    client = _openai(at)
    first = client.chat.completions.create(model=at.model, messages=[asked()], tools=[FUNCTION], tool_choice="auto")
    message = first.choices[0].message
    call = message.tool_calls[0]
    result = {"role": "tool", "tool_call_id": call.id, "content": RESULT}
    messages = [asked(), message.model_dump(exclude_none=True), result]
    second = client.chat.completions.create(model=at.model, messages=messages, max_tokens=MAX_TOKENS)
    return {
        "call": call.function.name,
        "arguments": json.loads(call.function.arguments),
        "texts": [second.choices[0].message.content],
    }


def openai_tool_stream(at: At) -> Facts:
    """Read a call in pieces."""
    stream = _openai(at).chat.completions.create(model=at.model, messages=[asked()], tools=[FUNCTION], stream=True)
    deltas = [chunk.choices[0].delta for chunk in stream if chunk.choices]
    functions = [call.function for delta in deltas for call in delta.tool_calls or []]
    arguments = "".join(function.arguments or "" for function in functions)
    return {"call": functions[0].name, "arguments": json.loads(arguments)}


def openai_responses(at: At) -> Facts:
    """Ask by the newer route."""
    made = _openai(at).responses.create(model=at.model, input=QUESTION, max_output_tokens=MAX_TOKENS)
    return {"texts": [made.output_text], "tokens": made.usage.output_tokens}


def openai_responses_stream(at: At) -> Facts:
    """Ask by the newer route, and read the events."""
    stream = _openai(at).responses.create(model=at.model, input=QUESTION, max_output_tokens=MAX_TOKENS, stream=True)
    return {"pieces": [event.delta for event in stream if event.type == "response.output_text.delta"]}


def openai_responses_tool(at: At) -> Facts:
    """Read a call of the newer route."""
    tool = {"type": "function", "name": TOOL, "description": DESCRIPTION, "parameters": PARAMETERS}
    made = _openai(at).responses.create(model=at.model, input=QUESTION, tools=[tool])
    call = next(item for item in made.output if item.type == "function_call")
    return {"call": call.name, "arguments": json.loads(call.arguments)}


def openai_unknown_route(at: At) -> Facts:
    """Ask for what a server of text does not have."""
    return {"texts": [str(_openai(at).moderations.create(model=at.model, input=QUESTION))]}


def openai_wrong_key(at: At) -> Facts:
    """Ask with a key that no one has issued."""
    return openai_models(dataclasses.replace(at, key="wrong"))


# langchain-openai


def _langchain(at: At, **options: t.Any) -> t.Any:
    from langchain_openai import ChatOpenAI

    return ChatOpenAI(model=at.model, base_url=at.v1, api_key=at.key, max_retries=0, max_tokens=MAX_TOKENS, **options)


def langchain_chat(at: At) -> Facts:
    """Ask a question."""
    made = _langchain(at).invoke(QUESTION)
    return {"texts": [made.content], "tokens": made.usage_metadata["output_tokens"]}


def langchain_stream(at: At) -> Facts:
    """Read an answer in pieces."""
    return {"pieces": [chunk.content for chunk in _langchain(at).stream(QUESTION) if chunk.content]}


def langchain_tool(at: At) -> Facts:
    """Answer a call of the model."""
    from langchain_core.messages import HumanMessage, ToolMessage

    first = _langchain(at).bind_tools([FUNCTION]).invoke([HumanMessage(QUESTION)])
    call = first.tool_calls[0]
    messages = [HumanMessage(QUESTION), first, ToolMessage(RESULT, tool_call_id=call["id"])]
    return {"call": call["name"], "arguments": call["args"], "texts": [_langchain(at).invoke(messages).content]}


def langchain_responses(at: At) -> Facts:
    """Ask by the newer route."""
    return {"texts": [_langchain(at, use_responses_api=True).invoke(QUESTION).text]}


# llm


def _llm(at: At) -> t.Any:
    from llm.default_plugins.openai_models import Chat

    return Chat("server", key=at.key, model_name=at.model, api_base=at.v1, supports_tools=True)


def llm_chat(at: At) -> Facts:
    """Ask a question, and another one after the answer."""
    conversation = _llm(at).conversation()
    answers = [conversation.prompt(text, stream=False) for text in (QUESTION, "What is the capital of Italy?")]
    return {"texts": [answer.text() for answer in answers]}


def llm_stream(at: At) -> Facts:
    """Read an answer in pieces."""
    return {"pieces": list(_llm(at).prompt(QUESTION, stream=True))}


def llm_tool(at: At) -> Facts:
    """Answer a call of the model."""
    import llm

    tool = llm.Tool(name=TOOL, description=DESCRIPTION, input_schema=PARAMETERS, implementation=lambda country: RESULT)
    first = _llm(at).prompt(QUESTION, tools=[tool], stream=False)
    call = first.tool_calls()[0]
    second = first.reply(tool_results=first.execute_tool_calls(), tools=[], stream=False)
    return {"call": call.name, "arguments": call.arguments, "texts": [second.text()]}


# litellm


def _litellm(at: At, **options: t.Any) -> t.Any:
    import litellm

    # No list of prices from the internet, no advice on errors.
    litellm.suppress_debug_info = True
    messages = options.pop("messages", [asked()])
    return litellm.completion(
        model=f"openai/{at.model}", api_base=at.v1, api_key=at.key, messages=messages, max_retries=0, **options
    )


def litellm_chat(at: At) -> Facts:
    """Ask a question."""
    made = _litellm(at, max_tokens=MAX_TOKENS)
    return {"texts": [made.choices[0].message.content], "tokens": made.usage.completion_tokens}


def litellm_stream(at: At) -> Facts:
    """Read an answer in pieces."""
    deltas = [chunk.choices[0].delta.content for chunk in _litellm(at, max_tokens=MAX_TOKENS, stream=True)]
    return {"pieces": [text for text in deltas if text]}


def litellm_tool(at: At) -> Facts:
    """Answer a call of the model."""
    message = _litellm(at, tools=[FUNCTION]).choices[0].message
    call = message.tool_calls[0]
    result = {"role": "tool", "tool_call_id": call.id, "content": RESULT}
    second = _litellm(at, messages=[asked(), message.model_dump(exclude_none=True), result], max_tokens=MAX_TOKENS)
    return {
        "call": call.function.name,
        "arguments": json.loads(call.function.arguments),
        "texts": [second.choices[0].message.content],
    }


# anthropic


def _anthropic(at: At) -> t.Any:
    import anthropic

    return anthropic.Anthropic(base_url=at.url, api_key=at.key, max_retries=0, _strict_response_validation=True)


def _texts(message: t.Any) -> list[str]:
    return [block.text for block in message.content if block.type == "text"]


def anthropic_chat(at: At) -> Facts:
    """Ask a question."""
    made = _anthropic(at).messages.create(model=at.model, messages=[asked()], max_tokens=MAX_TOKENS)
    return {"texts": _texts(made), "tokens": made.usage.output_tokens}


def anthropic_stream(at: At) -> Facts:
    """Read an answer in pieces."""
    with _anthropic(at).messages.stream(model=at.model, messages=[asked()], max_tokens=MAX_TOKENS) as stream:
        return {"pieces": list(stream.text_stream)}


def anthropic_tool(at: At) -> Facts:
    """Answer a call of the model."""
    client = _anthropic(at)
    tool = {"name": TOOL, "description": DESCRIPTION, "input_schema": PARAMETERS}
    first = client.messages.create(model=at.model, messages=[asked()], tools=[tool], max_tokens=MAX_TOKENS)
    call = next(block for block in first.content if block.type == "tool_use")
    result = {"type": "tool_result", "tool_use_id": call.id, "content": RESULT}
    content = [block.model_dump(exclude_none=True) for block in first.content]
    messages = [asked(), {"role": "assistant", "content": content}, {"role": "user", "content": [result]}]
    second = client.messages.create(model=at.model, messages=messages, max_tokens=MAX_TOKENS)
    return {"call": call.name, "arguments": call.input, "texts": _texts(second)}


def anthropic_count(at: At) -> Facts:
    """Count the tokens of a question."""
    return {"tokens": _anthropic(at).messages.count_tokens(model=at.model, messages=[asked()]).input_tokens}


PARTS: tuple[t.Callable[[At], Facts], ...] = (
    *(openai_models, openai_model, openai_completion, openai_completion_stream, openai_chat, openai_chat_stream),
    *(openai_tool, openai_tool_stream, openai_responses, openai_responses_stream, openai_responses_tool),
    *(openai_unknown_route, openai_wrong_key),
    *(langchain_chat, langchain_stream, langchain_tool, langchain_responses),
    *(llm_chat, llm_stream, llm_tool),
    *(litellm_chat, litellm_stream, litellm_tool),
    *(anthropic_chat, anthropic_stream, anthropic_tool, anthropic_count),
)


def parts(client: str) -> list[t.Callable[[At], Facts]]:
    """Return the parts of a client's conversation."""
    return [part for part in PARTS if part.__name__.startswith(f"{client}_")]


def hold(part: t.Callable[[At], Facts], at: At) -> Facts:
    """Return what a part brought. An error of the client is a finding, and the other parts follow."""
    try:
        return part(at)
    except Exception as failure:
        return {"error": type(failure).__name__, "status": getattr(failure, "status_code", None), "says": str(failure)}


def main(client: str, url: str, key: str, model: str) -> None:
    """Hold every part of a client's conversation, and print a line for each."""
    at = At(url, key, model)
    for part in parts(client):
        print(json.dumps({"part": part.__name__, **hold(part, at)}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
