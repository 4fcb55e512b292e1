"""A small server with /v1/chat/completions for a Hugging Face checkpoint, to be started as a process.

python chat_server.py FOLDER KEY

It prints its port. POST /faults makes the next requests fail, in this order; GET /seen lists the requests so far.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from typing import Any

import torch
import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from transformers import AutoModelForCausalLM, AutoTokenizer


class ChatServer:
    """The model, the faults to come, and the requests so far."""

    def __init__(self, folder: str, key: str) -> None:
        self.key = key
        self.tokenizer: Any = AutoTokenizer.from_pretrained(folder)
        self.model: Any = AutoModelForCausalLM.from_pretrained(folder)
        self.faults: list[str] = []
        self.seen: list[dict[str, Any]] = []
        self.busy = self.busiest = 0

    async def complete(self, request: Request) -> Response:
        body = await request.json()
        self.seen.append(body)
        if self.faults:
            return await self.fail(self.faults.pop(0))
        given = request.headers.get("Authorization")
        if given != f"Bearer {self.key}":
            return JSONResponse({"error": {"message": f"Incorrect API key provided: {given}"}}, 401)
        if body["model"] != "tiny":
            return JSONResponse({"error": {"message": f"The model {body['model']} does not exist."}}, 404)
        self.busy += 1
        self.busiest = max(self.busy, self.busiest)
        await asyncio.sleep(0.01)
        answer = self.answer(body)
        self.busy -= 1
        return JSONResponse({"object": "chat.completion", "choices": [answer]})

    async def fail(self, fault: str) -> Response:
        if fault == "slow":
            await asyncio.sleep(3)
        if fault == "broken":
            return PlainTextResponse('{"choices": [{"message"')
        if fault == "page":
            return PlainTextResponse("<html>Bad gateway</html>", 502)
        if fault == "elsewhere":
            return RedirectResponse("http://127.0.0.1:9/v1/chat/completions", 307)
        if fault == "refusal":
            return JSONResponse({"choices": [{"message": {"content": None}, "finish_reason": "content_filter"}]})
        if fault.startswith("wait"):
            return JSONResponse({"error": {"message": "slow down"}}, 429, headers={"Retry-After": fault[4:]})
        return JSONResponse({"error": {"message": "as ordered"}}, int(fault) if fault.isdigit() else 500)

    @torch.no_grad()
    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        text = self.tokenizer.apply_chat_template(body["messages"], tokenize=False, add_generation_prompt=True)
        batch = self.tokenizer(text, return_tensors="pt")
        how: dict[str, Any] = {"do_sample": False}
        if body["temperature"]:
            torch.manual_seed(body["seed"])
            how = {"do_sample": True, "temperature": body["temperature"], "top_p": body["top_p"]}
        ids = self.model.generate(**batch, max_new_tokens=min(body["max_tokens"], 12), **how)[
            0, len(batch.input_ids[0]) :
        ]
        done = bool((ids == self.tokenizer.eos_token_id).any())
        content = self.tokenizer.decode(ids, skip_special_tokens=True)
        return {"message": {"role": "assistant", "content": content}, "finish_reason": "stop" if done else "length"}


def application(server: ChatServer) -> FastAPI:
    made = FastAPI()

    async def order(faults: list[str]) -> None:
        server.faults = faults

    async def seen() -> dict[str, Any]:
        return {"requests": server.seen, "busiest": server.busiest}

    made.add_api_route("/v1/chat/completions", server.complete, methods=["POST"], response_model=None)
    made.add_api_route("/faults", order, methods=["POST"])
    made.add_api_route("/seen", seen, methods=["GET"])
    return made


def main(folder: str, key: str) -> None:
    torch.set_num_threads(1)
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(application(ChatServer(folder, key)), log_level="error"))
    print(listening.getsockname()[1], flush=True)
    server.run(sockets=[listening])


if __name__ == "__main__":
    main(*sys.argv[1:])
