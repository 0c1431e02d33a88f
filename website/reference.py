"""The reference: under each heading that names something public, its signature and its docstring.

Pages of docs/api/ hold what a person writes: groups, an order, an example for each name. `# fleet.data` or
`## fleet.rules` says which module the names below are of, `### Batch` names one of them.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from functools import cached_property
from importlib import import_module
from types import ModuleType
from typing import Any, ForwardRef

import fleet
import fleet_programs
from fleet_programs.jobs import current

HEADING = re.compile(r"^(#{1,3}) (.+)$")
MODULE = re.compile(r"fleet(_programs)?(\.\w+)*")
LIVE = {"fleet": fleet._LIVE, "fleet_programs": fleet_programs._LIVE}
"""Names whose value changes, or is not there before a job begins."""
WIDTH = 88


def public_modules() -> dict[str, list[str]]:
    """Module -> its public names; docs/releases.md says which modules are public."""
    found = {"fleet": list(vars(fleet)["__all__"])}
    for name in ("data", "nn", "models", "metrics", "optim", "rules", "initializers", "entries", "errors", "job", "ps"):
        found[f"fleet.{name}"] = names_of(find(f"fleet.{name}"))
    found["fleet_programs"] = list(fleet_programs.__all__)
    for name in ("layers", "optimizer", "initializer", "regularizer", "clip", "io", "unique_name", "transpiler"):
        found[f"fleet_programs.{name}"] = names_of(find(f"fleet_programs.{name}"))
    found["fleet.checkpoint"] = ["Inference", "Unseen", "read_inference"]  # the rest is Fleet's own
    return found


def names_of(module: ModuleType) -> list[str]:
    """`__all__`, or what a module defines without a leading underscore."""
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return list(listed)
    own = (name for name, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__)
    return sorted(name for name in own if not name.startswith("_") and not is_typing(getattr(module, name)))


def is_typing(value: object) -> bool:
    """Whether a value is there for annotations alone."""
    return type(value).__module__ == "typing"


def find(path: str) -> Any:
    """What a dotted path means; a part of a package may be public under a shorter name than its module's."""
    package, *parts = path.split(".")
    found: Any = import_module(package)
    for part in parts:
        try:
            found = getattr(found, part)
        except AttributeError:
            found = import_module(f"{found.__name__}.{part}")
    return found


def documented(text: str) -> Iterator[tuple[int, str, str]]:
    """Line, module and name of each heading that stands for a public name."""
    module = ""
    for number, line in enumerate(without_code(text)):
        heading = HEADING.match(line)
        if heading is None:
            continue
        if len(heading[1]) < 3 and MODULE.fullmatch(heading[2]):
            module = heading[2]
        elif len(heading[1]) == 3 and module:
            yield number, module, heading[2]


def without_code(text: str) -> Iterator[str]:
    """The lines, those of code blocks empty."""
    is_code = False
    for line in text.splitlines():
        is_code ^= line.startswith("```")
        yield "" if is_code else line


def filled(text: str) -> str:
    """A page with signature and docstring under each of its names."""
    lines = text.splitlines()
    for number, module, name in reversed(list(documented(text))):
        lines[number + 1 : number + 1] = ["", *described(module, name)]
    return "\n".join(lines) + "\n"


def described(module: str, name: str) -> list[str]:
    """What the code says about a name, as Markdown."""
    value, text = value_of(module, name)
    lines = []
    if inspect.isclass(value) and issubclass(value, BaseException):
        bases = ", ".join(base.__name__ for base in value.__bases__)
        lines += ["```{.python .signature}", f"class {name}({bases})", "```", ""]
    elif callable(value):
        lines += ["```{.python .signature}", signature(name, value), "```", ""]
    others = [one for one in names_of(find(module)) if one != name and same(module, one, value)]
    if others:
        lines += [f'<p class="aliases">Also {", ".join(f"<code>{one}</code>" for one in others)}.</p>', ""]
    lines += [*prose(text or ""), ""]
    if inspect.isclass(value) and not issubclass(value, BaseException):
        lines += members(value)
    return lines


def prose(text: str) -> list[str]:
    """A docstring as Markdown: what a doctest shows becomes a block of code."""
    lines: list[str] = []
    is_shown = False
    for line in inspect.cleandoc(text).splitlines():
        begins = line.startswith(">>>")
        if begins and not is_shown:
            lines += ["", "```pycon"]
        if is_shown and not line:
            lines += ["```"]
        is_shown = begins or (is_shown and bool(line))
        lines.append(line)
    return [*lines, "```"] if is_shown else lines


def value_of(module: str, name: str) -> tuple[Any, str | None]:
    """A public name's value and docstring; `fleet.util` and its like are read from their property."""
    if name in LIVE.get(module, ()):
        return None, (getattr(fleet.Fleet, name) if module == "fleet" else getattr(current, f"{name}_of")).__doc__
    value = getattr(find(module), name)
    if isinstance(value, ModuleType):
        return None, (value.__doc__ or "").strip().partition("\n\n")[0]
    if isinstance(value, (str, tuple, list, dict, frozenset)):
        return None, ", ".join(f"`{one}`" for one in value)
    return value, value.__doc__


def same(module: str, name: str, value: Any) -> bool:
    """Whether another name of the module means the same thing."""
    is_asked = module != "fleet" and callable(value) and name not in LIVE.get(module, ())
    return is_asked and getattr(find(module), name, None) is value


def signature(name: str, value: Any) -> str:
    """`name(a, b=1) -> C`, on one line if it fits, otherwise an argument a line."""
    try:
        found = inspect.signature(value)
    except (ValueError, TypeError):
        return f"{name}(...)"
    given = list(arguments(found))
    end = (
        ""
        if inspect.isclass(value) or found.return_annotation is found.empty
        else f" -> {kind(found.return_annotation)}"
    )
    flat = f"{name}({', '.join(given)}){end}"
    return flat if len(flat) <= WIDTH else f"{name}(\n" + "".join(f"    {one},\n" for one in given) + f"){end}"


def arguments(found: inspect.Signature) -> Iterator[str]:
    """Each argument as text, with the marks between kinds of them; without self."""
    has_star = is_positional = False
    for one in found.parameters.values():
        if one.name == "self":
            continue
        if is_positional and one.kind is not one.POSITIONAL_ONLY:
            yield "/"
        is_positional = one.kind is one.POSITIONAL_ONLY
        if one.kind is one.KEYWORD_ONLY and not has_star:
            has_star = True
            yield "*"
        has_star |= one.kind is one.VAR_POSITIONAL
        yield argument(one)
    if is_positional:
        yield "/"


def argument(one: inspect.Parameter) -> str:
    """`name: type = default`."""
    stars = "*" if one.kind is one.VAR_POSITIONAL else "**" if one.kind is one.VAR_KEYWORD else ""
    text = f"{stars}{one.name}"
    if one.annotation is not one.empty:
        text += f": {kind(one.annotation)}"
    if one.default is one.empty:
        return text
    shown = str(one.default) if type(one.default).__module__.startswith("fleet") else repr(one.default)
    return text + (f" = {shown}" if one.annotation is not one.empty else f"={shown}")


def kind(annotation: Any) -> str:
    """An annotation as it stands in the source."""
    if isinstance(annotation, ForwardRef):
        return annotation.__forward_arg__
    if isinstance(annotation, str):
        return annotation.strip("'")
    return getattr(annotation, "__name__", str(annotation))


def members(owner: type) -> list[str]:
    """The public methods and properties of a class, those of its bases in Fleet included."""
    found: dict[str, Any] = {}
    for base in reversed(owner.__mro__):
        if base.__module__.startswith("fleet"):
            found.update({name: value for name, value in vars(base).items() if not name.startswith("_")})
    lines = []
    for name, value in found.items():
        plain = value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
        if isinstance(plain, (property, cached_property)):
            title = name
        elif inspect.isfunction(plain):
            title = re.sub(r"\n\s*", " ", signature(name, plain)).replace("( ", "(").replace(" )", ")")
        else:
            continue
        text = inspect.cleandoc(plain.__doc__ or "").partition("\n\n")[0].replace("\n", " ")
        lines += [f"- `{title}`<br>{text}" if text else f"- `{title}`"]
    return ["", "**Members**", "", *lines, ""] if lines else []
