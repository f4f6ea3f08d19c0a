"""Completion of the command line: scripts that know every command and option, and start no Python."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from intaglio.cli.options import (
    Argument,
    Command,
    Function,
    Group,
    command_help,
    command_name,
    declared_parameters,
    option_names,
    plain_kind,
)
from intaglio.cli.shells import Shell

Commands = Sequence[Command]


@dataclass(frozen=True)
class _Word:
    """An option or a word that may follow, what it is for, and what may stand behind it."""

    names: tuple[str, ...]
    help: str
    choices: tuple[str, ...] = ()
    takes_value: bool = False


def completion_script(shell: Shell, commands: Commands) -> str:
    """The script for a shell."""
    if shell is Shell.fish:
        return _fish(commands)
    before = "autoload -U +X bashcompinit && bashcompinit\n" if shell is Shell.zsh else ""
    return before + _bash(commands)


def _pages(commands: Commands, before: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], list[_Word]]]:
    """The words that may follow each command, `()` being none."""
    yield (
        before,
        [_Word((command_name(each),), command_help(each).partition("\n")[0]) for each in commands]
        + [_Word(("--help", "-h"), "Show this.")],
    )
    for each in commands:
        if isinstance(each, Group):
            yield from _pages(each.commands, (*before, each.name))
        else:
            yield (*before, each[0]), [*_words(each[1]), _Word(("--help", "-h"), "Show this.")]


def _words(function: Function) -> Iterator[_Word]:
    for _, kind, declared in declared_parameters(function):
        plain, _ = plain_kind(kind)
        if not isinstance(declared, Argument):
            yield _Word(tuple(option_names(declared)), declared.help, _choices(plain), plain is not bool)
        elif _choices(plain):
            yield from (_Word((choice,), declared.help) for choice in _choices(plain))


def _choices(kind: Any) -> tuple[str, ...]:
    return tuple(kind) if isinstance(kind, type) and issubclass(kind, StrEnum) else ()


def _bash(commands: Commands) -> str:
    """One case for each command: its options, or files where no option fits."""
    cases: list[str] = []
    for path, words in _pages(commands):
        title, names = " ".join(path), " ".join(name for word in words for name in word.names)
        for word in words:
            if word.choices:
                pattern = "|".join(f'"{title}:{name}"' for name in word.names)
                cases.append(f'    {pattern}) words="{" ".join(word.choices)}" files="" ;;')
        files = "yes" if path else ""
        cases.append(f'    "{title}":*) words="{names}" files="{files}" ;;')
    groups = "|".join(each.name for each in commands if isinstance(each, Group))
    return _BASH.format(groups=groups, cases="\n".join(cases))


_BASH = """\
_intaglio() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}" path="" words="" files="" word
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case "$path:$word" in
      *:-*) ;;
      :*) path="$word" ;;
      {groups}:*) path="$path $word" ;;
    esac
  done
  case "$path:$previous" in
{cases}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  if [[ -n "$files" && "$current" != -* ]]; then
    COMPREPLY+=($(compgen -f -- "$current"))
  fi
}}
complete -o filenames -F _intaglio intaglio"""


def _fish(commands: Commands) -> str:
    lines: list[str] = []
    for path, words in _pages(commands):
        condition = f"__fish_seen_subcommand_from {path[-1]}" if path else "__fish_use_subcommand"
        for word in words:
            spelled = [_fish_name(name) for name in word.names]
            more = [f"-xa '{' '.join(word.choices)}'"] if word.choices else ["-r"] if word.takes_value else []
            text = word.help.replace("\\", "\\\\").replace("'", "\\'")
            lines.append(" ".join(["complete -c intaglio", f"-n '{condition}'", *spelled, *more, f"-d '{text}'"]))
    return "\n".join(lines)


def _fish_name(name: str) -> str:
    if name.startswith("--"):
        return f"-l {name[2:]}"
    return f"-s {name[1:]}" if name.startswith("-") else f"-a {name}"
