# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask an endpoint as a client would, and say what is not right. Protocol: OpenAI's chat API as vLLM 0.32 serves it."""

from __future__ import annotations

import json
import re
import time
import urllib.error

from . import readiness


class Refused(Exception):
    """An answer that is not right: (what was asked, what was expected, what came, remedy)."""


def models(endpoint, model, timeout):
    """The served names; Refused where `model` is not among them."""
    names = [row["id"] for row in _ask(endpoint + "/v1/models", None, timeout)["data"]]
    if model not in names:
        raise Refused(
            "GET /v1/models",
            f"a model named {model}",
            ", ".join(names) or "none",
            "set serving_model to what the engine serves, or deploy again",
        )
    return names


def chat(endpoint, body, timeout):
    """Text of one whole answer."""
    choice = _ask(endpoint + "/v1/chat/completions", body, timeout)["choices"][0]
    return _whole("POST /v1/chat/completions", _text(choice["message"]), choice.get("finish_reason"))


def streamed(endpoint, body, timeout):
    """Text of one streamed answer, joined; a stream without its end marker is an error, not a short answer."""
    text, finish, done = "", None, False
    with readiness.open_url(endpoint + "/v1/chat/completions", {**body, "stream": True}, timeout) as answer:
        for line in answer:
            data = line.decode("utf-8").strip()
            if data == "data: [DONE]":
                done = True
            elif data.startswith("data: "):
                choice = (json.loads(data[6:])["choices"] or [{}])[0]
                text += _text(choice.get("delta", {}))
                finish = choice.get("finish_reason") or finish
    return _whole("POST /v1/chat/completions, streamed", text, finish if done else "no end marker")


def accept(endpoint, model, prompt, expected="", max_tokens=256, timeout=120):
    """What a client saw: {"endpoint", "models", "answer", "seconds"}; Refused at the first answer that is not right.

    Both answers are asked at temperature 0; `expected` is a regular expression that both must match.
    """
    body = {
        "model": model,
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": max_tokens,
        "temperature": 0,
    }
    began = time.monotonic()
    names = models(endpoint, model, timeout)
    answers = {"POST /v1/chat/completions": chat(endpoint, body, timeout)}
    answers["POST /v1/chat/completions, streamed"] = streamed(endpoint, body, timeout)
    for asked, answer in answers.items():
        if not re.search(expected, answer):
            raise Refused(
                asked,
                f"an answer that matches {expected!r}",
                answer,
                "verify the checkpoint (checkpoint.yml) and the engine's arguments",
            )
    seconds = round(time.monotonic() - began, 2)
    return {"endpoint": endpoint, "models": names, "answer": next(iter(answers.values())), "seconds": seconds}


def _ask(url, body, timeout):
    try:
        return readiness.fetch_json(url, body, timeout)
    except urllib.error.HTTPError as error:
        raise Refused(
            url,
            "HTTP 200",
            "HTTP {}: {}".format(error.code, error.read(400).decode("utf-8", "replace")),
            "read the head's log",
        ) from error


def _text(message):
    """Reasoning and content together: vLLM says `reasoning`, other engines `reasoning_content`."""
    return "".join(message.get(key) or "" for key in ("reasoning", "reasoning_content", "content"))


def _whole(asked, text, finish):
    if text and finish in ("stop", "length"):
        return text
    raise Refused(asked, "text that ends with stop or length", f"{text!r}, ended by {finish}", "read the head's log")
