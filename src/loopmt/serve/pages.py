"""The web pages: static files that are read once, and a rendering of the OpenAPI description."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from importlib.resources import files
from typing import Any

Schema = dict[str, Any]

FILES = {  # URL path -> file of the package and its type; nothing else is served
    "/": ("page.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/watch.js": ("watch.js", "text/javascript; charset=utf-8"),
}


def contents(name: str) -> str:
    return files("loopmt.serve").joinpath(name).read_text(encoding="utf-8")


def description(openapi: Schema) -> str:
    """The OpenAPI description as a self-contained page."""
    parts = [
        f"<section><h2><code>{method.upper()} {escape(path)}</code></h2>{''.join(_operation(operation))}</section>"
        for path, methods in openapi["paths"].items()
        for method, operation in methods.items()
    ]
    schemas = openapi.get("components", {}).get("schemas", {})
    models = [
        f'<section id="{escape(name)}"><h2>{escape(name)}</h2>{_model(one)}</section>' for name, one in schemas.items()
    ]
    title = escape(openapi["info"]["title"])
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}: interface</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f'<link rel="stylesheet" href="/page.css"></head><body><header><h1>{title}</h1><nav><a href="/">Translate</a> '
        f'<a href="/openapi.json">openapi.json</a></nav></header><main class="interface">{"".join(parts)}'
        f"{''.join(models)}</main></body></html>"
    )


def _operation(operation: Schema) -> Iterator[str]:
    yield f"<p>{escape(operation.get('description') or '')}</p>"
    for one in operation.get("parameters", []):
        yield f"<p>query <code>{escape(one['name'])}</code>: {_type(one['schema'])}</p>"
    for content in operation.get("requestBody", {}).get("content", {}).values():
        yield f"<p>body: {_type(content['schema'])}</p>"
    yield "<table><thead><tr><th>status</th><th>meaning</th><th>answer</th></tr></thead><tbody>"
    for status, answer in operation["responses"].items():
        schemas = [content.get("schema", {}) for content in answer.get("content", {}).values()]
        types = ", ".join(_type(schema) for schema in schemas if schema)
        yield f"<tr><td>{escape(status)}</td><td>{escape(answer['description'])}</td><td>{types}</td></tr>"
    yield "</tbody></table>"


def _model(schema: Schema) -> str:
    rows = [
        f"<tr><td><code>{escape(name)}</code></td><td>{_type(field)}</td><td>{_meaning(field)}</td></tr>"
        for name, field in schema.get("properties", {}).items()
    ]
    head = "<thead><tr><th>field</th><th>type</th><th>meaning</th></tr></thead>"
    return f"<p>{escape(schema.get('description', ''))}</p><table>{head}<tbody>{''.join(rows)}</tbody></table>"


def _meaning(field: Schema) -> str:
    bounds = {"minimum": "at least", "maximum": "at most", "maxLength": "at most", "minItems": "at least"}
    found = [f"{words} {field[key]}" for key, words in bounds.items() if key in field]
    default = [f"default {field['default']}"] if field.get("default") is not None else []
    return escape(" ".join(filter(None, [field.get("description", ""), "; ".join([*found, *default])])))


def _type(schema: Schema) -> str:
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f'<a href="#{name}">{name}</a>'
    if "anyOf" in schema:
        return " or ".join(map(_type, schema["anyOf"]))
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])}"
    return escape(" or ".join(map(str, schema.get("enum", [schema.get("type", "any")]))))
