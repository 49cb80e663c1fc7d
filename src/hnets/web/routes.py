"""The routes of the page and its API."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from importlib.resources import files
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

import hnets
from hnets.errors import InputError
from hnets.web.digit_views import LAYERS, DigitViews
from hnets.web.edge_views import EdgeViews
from hnets.web.guard import Bodies, Guard, Worker
from hnets.web.payloads import sample

IMAGE = 12 * 2**20
"""The most bytes of an image."""
DRAWING = 2**20
"""The most bytes of a drawing."""

TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}

Degrees = Annotated[float, Query(ge=-3600, le=3600, allow_inf_nan=False)]
Layer = Annotated[int, Query(ge=1, le=LAYERS)]
Order = Annotated[int, Query(ge=0, le=1)]


def create_app(name: str = "localhost") -> FastAPI:
    """The application, for a server that is bound to the host ``name``.

    Requests to other hosts are refused, except to numeric addresses.
    """
    digits, edges, bodies, worker = DigitViews(), EdgeViews(), Bodies(), Worker()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        worker.close()

    # No API documentation: its pages would fetch scripts from elsewhere.
    app = FastAPI(title="hnets demo", lifespan=lifespan, openapi_url=None)
    app.add_middleware(Guard, name=name)
    _handle_errors(app)
    _serve_page(app)

    async def computed(request: Request, limit: int, job: Callable[[bytes], Any]) -> Any:
        async with bodies.read(request, limit) as body:
            return await worker.run(job, body)

    @app.get("/api/about")
    def about() -> dict[str, Any]:
        facts = {**digits.about(), **edges.about()}
        return {"version": hnets.__version__, **facts, "limit": IMAGE}

    @app.post("/api/digit")
    async def digit(request: Request, angle: Degrees = 0.0, layer: Layer = 2) -> Any:
        job = partial(digits.rotated, degrees=angle, layer=layer)
        return await computed(request, DRAWING, job)

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
        return await worker.run(digits.filters, layer, order)

    @app.get("/api/sample")
    async def sample_image() -> Response:
        return Response(await worker.run(sample), media_type="image/png")

    @app.post("/api/edges")
    async def edge_images(request: Request) -> Any:
        return await computed(request, IMAGE, edges.images)

    @app.post("/api/edges.npz")
    async def edge_arrays(request: Request) -> Response:
        content = await computed(request, IMAGE, edges.arrays)
        return Response(content, media_type="application/octet-stream")

    @app.post("/api/turned")
    async def rotated_edges(request: Request, angle: Degrees = 0.0) -> Any:
        return await computed(request, IMAGE, partial(edges.rotated, degrees=angle))

    return app


def _serve_page(app: FastAPI) -> None:
    """The files of the page, read once: no name in a request ever becomes a path."""
    for file in files("hnets.web").joinpath("static").iterdir():
        kind = TYPES.get(file.name.rpartition(".")[2])
        if kind is None:
            continue
        path = "/" if file.name == "index.html" else f"/{file.name}"
        app.add_route(path, partial(_send, Response(file.read_bytes(), media_type=kind)))


async def _send(file: Response, _: Request) -> Response:
    return file


def _handle_errors(app: FastAPI) -> None:
    """Every error is a JSON object with one line for a person."""

    @app.exception_handler(InputError)
    def unusable(_: Request, error: InputError) -> JSONResponse:
        return JSONResponse({"error": str(error)}, 400)

    @app.exception_handler(RequestValidationError)
    def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        return JSONResponse({"error": f"{first['loc'][-1]}: {first['msg']}"}, 400)

    @app.exception_handler(HTTPException)
    def refused(_: Request, error: HTTPException) -> JSONResponse:
        return JSONResponse({"error": error.detail}, error.status_code, error.headers)

    @app.exception_handler(Exception)
    def internal(_: Request, error: Exception) -> JSONResponse:
        return JSONResponse({"error": "internal error; see the terminal for details"}, 500)
