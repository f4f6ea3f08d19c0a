"""Commands from functions: the options of a command are the parameters of its function, with an `Option` as annotation.

    def run(model: Annotated[str, Argument("MODEL", "Path of a model.")],
            repeat: Annotated[int, Option("--repeat", help="How often.", least=1)] = 1) -> None:

The type of a parameter says how its text is read: a flag for a truth value, a choice for an enumeration, a list for
what may be repeated. An argument with a default may be left out; one that is a list takes all that are given, wherever
they stand between options. The parser is the standard library's.
"""

from __future__ import annotations

import argparse
import difflib
import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NoReturn, Union, get_args, get_origin, get_type_hints

from intaglio.errors import InputError

Function = Callable[..., int | None]
"""What a command does; returns its exit status, where None is 0."""


class UsageError(InputError):
    """The command line cannot be understood."""


@dataclass(frozen=True)
class Argument:
    """A parameter that is given by its position.

    One with a default may be left out, and one that is a list takes one or more; only the last can be such a one.
    """

    metavar: str
    help: str
    least: float | None = None


class Option:
    """A parameter that is given by name.

    `least` is the smallest number that is taken; `value_if_alone` what the name means without a value; `parse` makes
    the value of a text, or raises InputError. A flag `--a/--no-a` can be switched off too.
    """

    def __init__(
        self,
        *names: str,
        help: str,
        metavar: str | None = None,
        least: float | None = None,
        value_if_alone: str | None = None,
        parse: Callable[[str], Any] | None = None,
    ) -> None:
        self.names, self.help, self.metavar = names, help, metavar
        self.least, self.value_if_alone, self.parse = least, value_if_alone, parse


class Parser(argparse.ArgumentParser):
    """A parser whose complaints are exceptions."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings, allow_abbrev=False, formatter_class=_Formatter)

    def error(self, message: str) -> NoReturn:
        """Raise UsageError."""
        raise UsageError(f"{message}{'' if message.endswith('?') else ';'} `{self.prog} --help` shows what there is")

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """What was given; raises UsageError for what no command takes, with the nearest option."""
        found, unknown = self.parse_known_args(args, namespace)
        unknown = _gathered(found, unknown)
        if unknown:
            parser: Parser = getattr(found, "parser", self)
            hints = [_nearest(text.partition("=")[0], parser._option_string_actions) for text in unknown]
            hint = next(filter(None, hints), "")
            parser.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
        return found

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            names = [str(choice) for choice in action.choices]
            hint = _nearest(str(value), names) or f"; choose from {', '.join(names)}"
            raise argparse.ArgumentError(action, f"invalid choice: {value!r}{hint}")


def _gathered(found: argparse.Namespace, unknown: list[str]) -> list[str]:
    """Give arguments that stand behind an option to the last argument of the command; returns what it does not take."""
    name, is_list = getattr(found, "gatherer", (None, False))
    words = [text for text in unknown if text == "-" or not text.startswith("-")]
    if name is None or len(words) < len(unknown):
        return unknown
    if is_list:
        setattr(found, name, [*getattr(found, name), *words])
        return []
    if words and getattr(found, name) is None:
        setattr(found, name, words.pop(0))
    return words


def _nearest(text: str, names: Iterable[str]) -> str:
    """A hint with the name that is most like a text; empty where none is."""
    near = difflib.get_close_matches(text, list(names), 1)
    return f"; did you mean {near[0]}?" if near else ""


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Descriptions as they are written, and wide columns for options."""

    def __init__(self, prog: str, **settings: Any) -> None:
        super().__init__(prog, max_help_position=32, **settings)

    def _format_args(self, action: argparse.Action, default_metavar: str) -> str:
        """An argument that is a list says itself in which form it is given, such as `IN [OUT]`."""
        if action.nargs == "+" and isinstance(action.metavar, str):
            return action.metavar
        return super()._format_args(action, default_metavar)


@dataclass(frozen=True)
class Group:
    """Commands under one name."""

    name: str
    help: str
    commands: Sequence[tuple[str, Function]]


Command = tuple[str, Function] | Group
"""A command by its name, or several under one name."""


@dataclass(frozen=True)
class Section:
    """Commands for people who want the same kind of thing, each with the question that it answers."""

    title: str
    entries: Sequence[tuple[str, Command]]


def all_commands(sections: Iterable[Section]) -> tuple[Command, ...]:
    """The commands of all sections."""
    return tuple(command for section in sections for _, command in section.entries)


def command_name(command: Command) -> str:
    """The name that a command is called by."""
    return command.name if isinstance(command, Group) else command[0]


def command_help(command: Command) -> str:
    """What a command does, the first line being a summary."""
    return command.help if isinstance(command, Group) else inspect.getdoc(command[1]) or ""


def build_parser(name: str, description: str, sections: Sequence[Section]) -> Parser:
    """A parser for commands; what it finds has the function as `function`, and the names of its parameters."""
    parser = Parser(prog=name, description=description)
    _add_commands(parser, all_commands(sections), is_listed=False)
    parser.epilog = questions(sections)
    return parser


def questions(sections: Iterable[Section]) -> str:
    """The table of questions, each with the command that answers it."""
    sections = list(sections)
    width = max(len(question) for section in sections for question, _ in section.entries)
    lines: list[str] = []
    for section in sections:
        lines += ["", f"{section.title}:"]
        lines += [f"  {question:<{width}}  {command_name(command)}" for question, command in section.entries]
    return "\n".join(lines[1:])


def _add_commands(parser: Parser, commands: Sequence[Command], is_listed: bool = True) -> None:
    """Give a parser its commands, with their help where the parser shall list them itself."""
    more = None if is_listed else f"`{parser.prog} COMMAND --help` shows what a command takes."
    inner = parser.add_subparsers(title="commands", metavar="COMMAND", help=more)
    for command in commands:
        name, text = command_name(command), command_help(command)
        shown: dict[str, Any] = {"help": text.partition("\n")[0]} if is_listed else {}
        made = inner.add_parser(name, description=text, **shown)
        if isinstance(command, Group):
            _add_commands(made, command.commands)
        else:
            _add_parameters(made, command[1])


def declared_parameters(function: Function) -> Iterator[tuple[inspect.Parameter, Any, Argument | Option]]:
    """The parameters of a command, each with its type and with how it is given."""
    hints = get_type_hints(function, include_extras=True)
    for parameter in inspect.signature(function).parameters.values():
        kind, declared = get_args(hints[parameter.name])[:2]
        yield parameter, kind, declared


def _add_parameters(parser: Parser, function: Function) -> None:
    names: list[str] = []
    for parameter, kind, declared in declared_parameters(function):
        names.append(parameter.name)
        if not isinstance(declared, Argument):
            _add_option(parser, parameter.name, kind, declared, parameter.default)
            continue
        _add_argument(parser, parameter, kind, declared)
    parser.set_defaults(function=function, parameters=names, parser=parser)


def _add_argument(parser: Parser, parameter: inspect.Parameter, kind: Any, declared: Argument) -> None:
    plain, is_list = plain_kind(kind)
    settings: dict[str, Any] = {"metavar": declared.metavar, "help": declared.help, "type": str}
    if isinstance(plain, type) and issubclass(plain, StrEnum):
        settings |= {"type": _choice(plain), "choices": list(plain)}
    elif plain is int:
        settings["type"] = _reader(int, declared.least)
    is_optional = parameter.default is not inspect.Parameter.empty
    if is_list or is_optional:
        count = ("*" if is_optional else "+") if is_list else "?"
        settings |= {"nargs": count, "default": parameter.default if is_optional else None}
        parser.set_defaults(gatherer=(parameter.name, is_list))
    parser.add_argument(parameter.name, **settings)


def option_names(option: Option) -> list[str]:
    """Every spelling of an option's name."""
    return [name for spelling in option.names for name in spelling.split("/")]


def _add_option(parser: Parser, name: str, kind: Any, option: Option, default: Any) -> None:
    settings: dict[str, Any] = {"dest": name, "default": default, "help": option.help.replace("%", "%%")}
    if default is inspect.Parameter.empty:
        settings |= {"default": None, "required": True}
    plain, is_repeated = plain_kind(kind)
    if plain is bool:
        action = argparse.BooleanOptionalAction if "/" in option.names[0] else "store_true"
        names = [each.split("/")[0] for each in option.names]
        parser.add_argument(*names, action=action, **settings)
        return
    if isinstance(plain, type) and issubclass(plain, StrEnum):
        settings |= {"choices": list(plain), "type": _choice(plain), "metavar": "{" + ",".join(plain) + "}"}
    else:
        read = _reader(plain, option.least) if option.parse is None else _wrapped(option.parse)
        settings |= {"type": read, "metavar": option.metavar or _METAVARS[plain]}
    if is_repeated:
        settings["action"] = "append"
    if option.value_if_alone is not None:
        settings |= {"nargs": "?", "const": option.value_if_alone}
    parser.add_argument(*option.names, **settings)


_METAVARS = {int: "N", float: "SECONDS", str: "TEXT"}


def plain_kind(kind: Any) -> tuple[Any, bool]:
    """The type of one value, and whether there may be several."""
    if get_origin(kind) is not None and type(None) in get_args(kind):
        kind = Union[tuple(each for each in get_args(kind) if each is not type(None))]  # noqa: UP007
    return (get_args(kind)[0], True) if get_origin(kind) is list else (kind, False)


def _choice(kind: type[StrEnum]) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        return next((each for each in kind if each == text), text)

    return read


def _wrapped(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        try:
            return parse(text)
        except InputError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return read


def _reader(kind: Any, least: float | None) -> Callable[[str], Any]:
    """How a number or text is read; argparse tells of ValueError and ArgumentTypeError with the option's name."""

    def read(text: str) -> Any:
        if kind is str:
            return text
        try:
            number = kind(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is no {'whole ' if kind is int else ''}number") from None
        if not math.isfinite(number) or (least is not None and number < least):
            raise argparse.ArgumentTypeError(f"{text} is not at least {0 if least is None else least}")
        return number

    return read
