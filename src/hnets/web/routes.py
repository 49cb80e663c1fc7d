"""The routes: which question goes where."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from importlib.resources import files
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

import hnets
from hnets.errors import InputError
from hnets.web import filter_views as inside
from hnets.web.digit_views import LAYERS, Digits
from hnets.web.edge_views import Edges
from hnets.web.encoding import png
from hnets.web.guard import Guard, drain, read_body
from hnets.web.refusal import Refused
from hnets.web.uploads import sample
from hnets.web.worker import Worker

__all__ = ["create_app"]

PICTURE = 12 * 2**20
"""Bytes of a picture."""
DRAWING = 2**20
"""Bytes of a drawing."""

TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}

Degrees = Annotated[float, Query(ge=-3600, le=3600, allow_inf_nan=False)]
Layer = Annotated[int, Query(ge=1, le=LAYERS)]
Order = Annotated[int, Query(ge=0, le=1)]


def create_app(name: str = "localhost", worker: Worker | None = None) -> FastAPI:
    """The server.

    Args:
        name: the host that it is bound to; others are refused, but for addresses made of numbers.
        worker: what computes.
    """
    digits, edges, work = Digits(), Edges(), worker or Worker()

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        yield
        work.close()

    # No pages of documentation: they would fetch scripts from elsewhere.
    app = FastAPI(title="hnets demo", lifespan=life, openapi_url=None)
    app.add_middleware(Guard, name=name)
    _answer_errors(app)
    _serve_page(app)

    async def computed(request: Request, limit: int, job: Callable[[bytes], Any]) -> Any:
        with ExitStack() as stack:
            try:
                stack.enter_context(work.place())
            except Refused:
                await drain(request, limit)
                raise
            return await work.run(job, await read_body(request, limit))

    @app.get("/api/about")
    def about() -> dict[str, Any]:
        return {
            "version": hnets.__version__,
            **digits.about(),
            "layers": inside.layers(digits.hnet),
            "limit": PICTURE,
        }

    @app.post("/api/digit")
    async def digit(request: Request, angle: Degrees = 0.0, layer: Layer = 2) -> Any:
        return await computed(request, DRAWING, lambda body: digits.turned(body, angle, layer))

    @app.post("/api/round")
    async def all_round(request: Request) -> Any:
        return await computed(request, DRAWING, digits.round)

    @app.post("/api/fields")
    async def fields(
        request: Request, angle: Degrees = 0.0, layer: Layer = 1, order: Order = 1
    ) -> Any:
        job = partial(digits.fields, degrees=angle, layer=layer, order=order)
        return await computed(request, DRAWING, job)

    @app.get("/api/filters")
    async def filters(layer: Layer = 1, order: Order = 1) -> Any:
        with work.place():
            return await work.run(inside.filters, digits.hnet, layer, order)

    @app.get("/api/sample")
    async def sample_picture() -> Response:
        with work.place():
            picture = await work.run(sample)
        return Response(png(picture), media_type="image/png")

    @app.post("/api/edges")
    async def boundaries(request: Request) -> Any:
        return await computed(request, PICTURE, edges.found)

    @app.post("/api/edges.npz")
    async def numbers(request: Request) -> Response:
        content = await computed(request, PICTURE, edges.numbers)
        return Response(content, media_type="application/octet-stream")

    @app.post("/api/turned")
    async def turned(request: Request, angle: Degrees = 0.0) -> Any:
        return await computed(request, PICTURE, lambda body: edges.turned(body, angle))

    return app


def _serve_page(app: FastAPI) -> None:
    """The files of the page, read once: no name from outside ever becomes a path."""
    for file in files("hnets.web").joinpath("static").iterdir():
        kind = TYPES.get(file.name.rpartition(".")[2])
        if kind is None:
            continue
        path = "/" if file.name == "index.html" else f"/{file.name}"
        app.add_route(path, partial(_send, Response(file.read_bytes(), media_type=kind)))


async def _send(file: Response, _: Request) -> Response:
    return file


def _answer_errors(app: FastAPI) -> None:
    """Whatever goes wrong is JSON with one line for a person."""

    @app.exception_handler(Refused)
    def refused(_: Request, error: Refused) -> JSONResponse:
        wait = {"Retry-After": "1"} if error.status == 503 else None
        return JSONResponse({"error": error.message}, error.status, wait)

    @app.exception_handler(InputError)
    def wrong(_: Request, error: InputError) -> JSONResponse:
        return JSONResponse({"error": str(error)}, 400)

    @app.exception_handler(RequestValidationError)
    def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        return JSONResponse({"error": f"{first['loc'][-1]}: {first['msg']}"}, 400)

    @app.exception_handler(HTTPException)
    def other(_: Request, error: HTTPException) -> JSONResponse:
        return JSONResponse({"error": str(error.detail)}, error.status_code)

    @app.exception_handler(Exception)
    def unforeseen(_: Request, error: Exception) -> JSONResponse:
        return JSONResponse({"error": "something went wrong here; the terminal says what"}, 500)
